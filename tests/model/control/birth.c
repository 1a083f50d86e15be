/*
 * The cluster in the beginning: NodePools, a NodeClass, claims of ours and of others, and which
 * machine is going to say what.
 */
#include "nc/mem.h"
#include "nc/time.h"
#include "world.h"

#define CLASS "default"

static struct nc_value *budgets(struct world *w) {
    static const char *const some[] = {
        "[{\"nodes\":\"1\"}]",
        "[{\"nodes\":\"2\"}]",
        "[{\"nodes\":\"50%\"}]",
        "[{\"nodes\":\"10%\"}]",
        "[{\"nodes\":\"0\"}]",
        "[]",
        "[{\"nodes\":\"3\"},{\"nodes\":\"1\",\"reasons\":[\"Drifted\"]}]",
        "[{\"nodes\":\"2\"},{\"nodes\":\"0\",\"schedule\":\"*/4 * * * *\",\"duration\":\"2m\"}]",
        "[{\"nodes\":\"x\"}]",
    };

    return world_json("%s", some[world_below(w, NC_ARRAY_SIZE(some))]);
}

static void make_pool(struct world *w, unsigned i) {
    nc_auto_free char *name = nc_asprintf("pool-%u", i);
    struct nc_value *v =
        world_json("{\"metadata\":{\"annotations\":{\"karpenter.sh/nodepool-hash\":\"1\","
                   "\"karpenter.sh/nodepool-hash-version\":\"v3\"}},\"spec\":{\"disruption\":{}}}");

    if (world_chance(w, 85))
        nc_value_set(nc_value_path(v, "spec.disruption"), "budgets", budgets(w));
    (void)server_create(w, NC_CONTROL_POOL, name, v);
}

static const char *expiry(struct world *w) {
    static const char *const some[] = {"Never", "Never", "1h", "2h", "720h"};

    return some[world_below(w, NC_ARRAY_SIZE(some))];
}

/* Whose it is; the finalizer of Karpenter where Karpenter runs. */
static void set_owner(struct world *w, struct nc_value *v) {
    nc_auto_value struct nc_value *patch = NULL;
    const uint64_t dice = world_below(w, 100);

    if (!w->is_standalone || dice < 5)
        patch = world_json("{\"metadata\":{\"finalizers\":[\"" KARPENTER_FINALIZER "\"]}}");
    else if (dice < 9)
        patch = world_json("{\"spec\":{\"nodeClassRef\":{\"group\":\"eks.amazonaws.com\","
                           "\"kind\":\"NodeClass\"}}}");
    else if (dice < 13)
        patch =
            world_json("{\"metadata\":{\"labels\":{\"app.kubernetes.io/managed-by\":\"eks\"}}}");
    if (patch)
        nc_value_merge_patch(v, patch);
}

static struct object *make_claim(struct world *w, unsigned i) {
    nc_auto_free char *name = nc_asprintf("claim-%u", i);
    char created[32];
    struct nc_value *v = NULL;

    nc_time_format(w->start_usec - world_below(w, 3 * 3600) * SEC, created);
    v = world_json(
        "{\"apiVersion\":\"karpenter.sh/v1\",\"kind\":\"NodeClaim\",\"metadata\":{"
        "\"creationTimestamp\":\"%s\",\"labels\":{\"" POOL_KEY "\":\"pool-%u\",\"team\":\"a\"},"
        "\"annotations\":{\"karpenter.sh/nodepool-hash\":\"1\","
        "\"karpenter.sh/nodepool-hash-version\":\"v3\"}},"
        "\"spec\":{\"expireAfter\":\"%s\",\"nodeClassRef\":{\"group\":\"karpenter.k8s.aws\","
        "\"kind\":\"EC2NodeClass\",\"name\":\"" CLASS "\"},"
        "\"resources\":{\"requests\":{\"cpu\":\"1\"}}}}",
        created, (unsigned)world_below(w, w->n_pools), expiry(w));
    if (world_chance(w, 40))
        nc_value_set_string(nc_value_get(v, "spec"), "terminationGracePeriod",
                            world_chance(w, 50) ? "1m" : "5m");
    if (world_chance(w, 20))
        nc_value_set(nc_value_get(v, "spec"), "startupTaints",
                     world_json("[{\"key\":\"startup\",\"effect\":\"NoSchedule\"}]"));
    if (world_chance(w, 10))
        nc_value_set_string(nc_value_path(v, "metadata.annotations"), DO_NOT_DISRUPT, "true");
    if (i % 7 != 6) {
        nc_auto_free char *zone = nc_asprintf("eu-west-1%c", 'a' + (char)(i % 3));
        nc_value_set_string(nc_value_path(v, "metadata.labels"), ZONE_KEY, zone);
    }
    set_owner(w, v);
    return server_create(w, NC_CONTROL_CLAIM, name, v);
}

static void make_notices(struct world *w, unsigned m) {
    for (unsigned i = 0; i < 3; i++)
        if (world_chance(w, 25))
            world_post(w, world_between(w, 5 * SEC, 560 * SEC), THING_NOTICE, m,
                       (unsigned)world_below(w, 6), NULL);
}

static void make_machine(struct world *w, unsigned i, const struct object *claim) {
    struct machine *m = &w->machines[i];

    *m = (struct machine){.claim = claim ? (unsigned)(claim - w->objects) : UINT32_MAX};
    (void)snprintf(m->node, sizeof(m->node), "node-%u", i);
    (void)snprintf(m->provider, sizeof(m->provider), "aws:///eu-west-1a/i-%08u", i);
    m->is_hostile = world_chance(w, 12);
    m->is_mute = world_chance(w, 10);
    m->drain_duration_usec = world_between(w, 3 * SEC, world_chance(w, 20) ? 900 * SEC : 60 * SEC);
    if (!claim && i > 0) /* it says that it is another one */
        memcpy(m->provider, w->machines[world_below(w, i)].provider, sizeof(m->provider));
    world_post(w, world_below(w, world_chance(w, 70) ? 2 * SEC : 300 * SEC), THING_LAUNCH, i, 0,
               NULL);
    make_notices(w, i);
}

void birth(struct world *w) {
    w->n_pools = 1 + (unsigned)world_below(w, MAX_POOLS);
    w->n_machines = 2 + (unsigned)world_below(w, 12);
    for (unsigned i = 0; i < w->n_pools; i++)
        make_pool(w, i);
    (void)server_create(w, NC_CONTROL_CLASS, CLASS,
                        world_json("{\"metadata\":{\"annotations\":{"
                                   "\"karpenter.k8s.aws/ec2nodeclass-hash\":\"7\","
                                   "\"karpenter.k8s.aws/ec2nodeclass-hash-version\":\"v4\"}}}"));
    for (unsigned i = 0; i < w->n_machines; i++)
        make_machine(w, i, i == 0 || world_chance(w, 94) ? make_claim(w, i) : NULL);
    world_post(w, world_between(w, SEC, 60 * SEC), THING_PERSON, 0, 0, NULL);
}
