/*
 * Everybody else: launcher, kubelet, agents, hostile nodes, EC2, Karpenter, people.
 */
#include "judge.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"
#include "world.h"

static struct object *node_of(struct world *w, const struct machine *m) {
    return m->has_joined ? server_find(w, NC_CONTROL_NODE, m->node) : NULL;
}

static struct object *claim_of(struct world *w, const struct machine *m) {
    return m->claim < w->n_objects && w->objects[m->claim].v ? &w->objects[m->claim] : NULL;
}

static void annotate(struct world *w, struct object *o, const char *key, const char *text) {
    struct nc_value *patch = world_json("{\"metadata\":{\"annotations\":{}}}");

    nc_value_set(nc_value_path(patch, "metadata.annotations"), key,
                 text ? nc_value_new_string(text) : nc_value_new(NC_VALUE_NULL));
    server_merge(w, o, patch);
}

/* --- a machine comes up */

static void launch(struct world *w, unsigned i) {
    struct machine *m = &w->machines[i];
    struct object *claim = claim_of(w, m);

    if (m->claim != UINT32_MAX && (!claim || is_deleting(claim->v)))
        return;
    m->is_there = true;
    server_mergef(w, claim,
                  "{\"status\":{\"providerID\":\"%s\",\"conditions\":[{\"type\":\"Launched\","
                  "\"status\":\"True\",\"reason\":\"Launched\",\"message\":\"\","
                  "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}",
                  m->provider);
    world_post(w, world_between(w, 2 * SEC, 40 * SEC), THING_JOIN, i, 0, NULL);
}

/* Where Karpenter runs it has registered it by the time that anybody looks. */
static void register_by_karpenter(struct world *w, const struct machine *m, struct object *node) {
    struct object *claim = claim_of(w, m);

    if (!claim)
        return;
    server_mergef(w, node,
                  "{\"metadata\":{\"finalizers\":[\"" KARPENTER_FINALIZER "\"],"
                  "\"labels\":{\"karpenter.sh/registered\":\"true\"},\"ownerReferences\":[{"
                  "\"apiVersion\":\"karpenter.sh/v1\",\"kind\":\"NodeClaim\",\"name\":\"%s\","
                  "\"uid\":\"%s\"}]}}",
                  claim->name, claim->uid);
    server_mergef(w, claim, "{\"status\":{\"nodeName\":\"%s\"}}", m->node);
}

/* More than anybody needs. */
static void add_taints(struct nc_value *node) {
    for (unsigned i = 0; i < MANY_TAINTS; i++)
        nc_value_push(nc_value_path(node, "spec.taints"),
                      world_json("{\"key\":\"own.example/%048u\",\"effect\":\"NoSchedule\"}", i));
}

static void join(struct world *w, unsigned i) {
    struct machine *m = &w->machines[i];
    struct object *node = NULL;
    struct nc_value *v = NULL;

    if (m->is_over)
        return;
    m->has_joined = true;
    v = world_json("{\"metadata\":{\"labels\":{\"" POOL_KEY "\":\"pool-0\"}},"
                   "\"spec\":{\"providerID\":\"%s\",\"taints\":[%s"
                   "{\"key\":\"node.kubernetes.io/not-ready\",\"effect\":\"NoSchedule\"}]},"
                   "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}}",
                   m->provider,
                   world_chance(w, 90)
                       ? "{\"key\":\"karpenter.sh/unregistered\",\"effect\":\"NoExecute\"},"
                       : "");
    if (m->is_hostile && world_chance(w, 30))
        add_taints(v);
    node = server_create(w, NC_CONTROL_NODE, m->node, v);
    if (node && m->is_hostile && world_chance(w, 70))
        annotate(w, node, DO_NOT_DISRUPT, "true");
    if (node && !w->is_standalone)
        register_by_karpenter(w, m, node);
    gate_join(w, i, node);
    world_post(w, world_between(w, SEC, 20 * SEC), THING_READY, i, 0, NULL);
    world_post(w, SEC, m->is_hostile ? THING_HOSTILE : THING_AGENT, i, 0, NULL);
}

static void drop_taint(struct world *w, struct object *node, const char *key) {
    const struct nc_value *have = node ? nc_value_path(node->v, "spec.taints") : NULL;
    struct nc_value *patch = NULL;
    size_t n = 0;

    for (size_t i = 0; have && have->type == NC_VALUE_LIST && i < have->n; i++)
        n += nc_streq(nc_value_get_string(have->items[i], "key"), key);
    if (n == 0)
        return;
    patch = world_json("{\"spec\":{\"taints\":[]}}");
    for (size_t i = 0; i < have->n; i++)
        if (!nc_streq(nc_value_get_string(have->items[i], "key"), key))
            nc_value_push(nc_value_path(patch, "spec.taints"), nc_value_copy(have->items[i]));
    server_merge(w, node, patch);
}

static void ready(struct world *w, unsigned i) {
    struct machine *m = &w->machines[i];
    struct object *node = node_of(w, m);

    if (!node || m->is_over)
        return;
    server_mergef(w, node,
                  "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],"
                  "\"allocatable\":{\"cpu\":\"1900m\",\"memory\":\"7Gi\"}}}");
    drop_taint(w, node, "node.kubernetes.io/not-ready");
    if (w->rules.out_of_service && !w->is_quiet && world_chance(w, 30))
        world_post(w, world_between(w, SEC, 200 * SEC), THING_SILENT, i, 0, NULL);
}

/* Its kubelet is not heard for a while; the machine runs. */
static void silent(struct world *w, unsigned i) {
    struct machine *m = &w->machines[i];

    if (!node_of(w, m) || m->is_over)
        return;
    server_mergef(w, node_of(w, m),
                  "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\"}]}}");
    world_post(w, world_between(w, SEC, 100 * SEC), THING_READY, i, 0, NULL);
}

static void over(struct world *w, unsigned i) {
    struct machine *m = &w->machines[i];

    m->is_over = true;
    m->over_usec = w->now_usec;
    server_mergef(w, node_of(w, m),
                  "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\"}]}}");
}

const char *actors_name_of(const struct world *w, const char *provider_id) {
    for (unsigned i = 0; i < w->n_machines; i++)
        if (w->machines[i].is_there && w->machines[i].claim != UINT32_MAX
            && nc_streq(w->machines[i].provider, provider_id))
            return w->machines[i].node;
    return NULL;
}

const char *actors_state_of(const struct world *w, const char *provider_id) {
    for (unsigned i = 0; i < w->n_machines; i++)
        if (w->machines[i].is_there && w->machines[i].claim != UINT32_MAX
            && nc_streq(w->machines[i].provider, provider_id))
            return w->machines[i].is_over ? "terminated" : "running";
    return NULL;
}

bool actors_has_instance(const struct world *w, const char *provider_id) {
    for (unsigned i = 0; i < w->n_machines; i++)
        if (w->machines[i].is_there && !w->machines[i].is_over
            && nc_streq(w->machines[i].provider, provider_id))
            return true;
    return false;
}

void actors_instance_ended(struct world *w, const char *provider_id) {
    for (unsigned i = 0; i < w->n_machines; i++)
        if (w->machines[i].is_there && nc_streq(w->machines[i].provider, provider_id))
            world_post(w, world_between(w, 2 * SEC, 60 * SEC), THING_OVER, i, 0, NULL);
}

/* --- what a node says */

static void begin_drain(struct world *w, struct machine *m, const char *id) {
    if (nc_streq(m->drain_id, id))
        return;
    (void)snprintf(m->drain_id, sizeof(m->drain_id), "%s", id);
    m->drain_usec = w->now_usec;
}

static const char *phase_of(const struct world *w, const struct machine *m) {
    const uint64_t since = w->now_usec - m->drain_usec;

    return since < 2 * SEC                  ? "Detected"
           : since < 3 * SEC                ? "Cordoned"
           : since < m->drain_duration_usec ? "Evicting"
                                            : "Drained";
}

#define REPORTS "\"policy\":\"report\","

/* more: members, each with a comma behind it. Owned. */
static char *status_with(const char *more, const char *source, const char *id, const char *phase,
                         const char *deadline) {
    return nc_asprintf("{\"id\":\"%s\",\"source\":\"%s\",%s\"phase\":\"%s\",\"deadline\":%s%s%s,"
                       "\"total\":3,\"remaining\":null,\"blocked\":[]}",
                       id, source, more, phase, deadline ? "\"" : "", deadline ? deadline : "null",
                       deadline ? "\"" : "");
}

static char *status(const char *source, const char *id, const char *phase, const char *deadline) {
    return status_with("", source, id, phase, deadline);
}

/* What is asked of it on the Node; the deadline is the earliest of all. Owned. */
static char *say_request(struct world *w, struct machine *m, const struct nc_value *request) {
    const char *deadline = text_at(request, "deadline");
    char earlier[32];

    begin_drain(w, m, text_at(request, "id"));
    if (m->spot_usec) {
        nc_time_format(m->spot_usec, earlier);
        if (!deadline || strcmp(earlier, deadline) < 0)
            deadline = earlier;
    }
    return status("request", text_at(request, "id"), phase_of(w, m), deadline);
}

/* As the agent ranks them, what is only reported last: spot, request, deletion of its Node,
 * maintenance, recommendation. Owned.
 */
static char *say(struct world *w, struct machine *m, const struct object *node) {
    const char *requested = annotation_of(node->v, REQUEST_KEY);
    nc_auto_value struct nc_value *request = NULL;
    const bool is_acting = w->now_usec >= m->acts_usec;
    const bool is_spot = m->spot_usec && !m->is_maintenance && is_acting;
    const char *source = m->is_maintenance ? "maintenance" : "spot";
    char deadline[32], id[64], since[32], more[96];

    if (requested)
        (void)nc_json_parse(requested, strlen(requested), &request, NULL);
    if (text_at(request, "id") && !is_spot)
        return say_request(w, m, request);
    if (text_at(node->v, "metadata.deletionTimestamp") && !is_spot) {
        begin_drain(w, m, "deletion");
        return status("deletion", "deletion", phase_of(w, m), NULL);
    }
    if (m->spot_usec) {
        (void)snprintf(id, sizeof(id), "notice-%u", m->notices);
        nc_time_format(m->spot_usec, deadline);
        nc_time_format(m->noticed_usec, since);
        (void)snprintf(more, sizeof(more), "%s\"updated\":\"%s\",", is_acting ? m->way : REPORTS,
                       since);
        if (!is_acting)
            return status_with(more, source, id, "Detected", deadline);
        begin_drain(w, m, id);
        return status_with(more, source, id, phase_of(w, m), deadline);
    }
    m->drain_id[0] = '\0';
    if (m->is_rebalanced)
        return status("rebalance", "rebalance-1", "Detected", NULL);
    return status("", "", "", NULL);
}

static void agent(struct world *w, unsigned i) {
    struct machine *m = &w->machines[i];
    struct object *node = node_of(w, m);

    if (!node || m->is_over)
        return;
    drop_taint(w, node, "startup");
    if (!m->is_mute) {
        nc_auto_free char *text = say(w, m, node);
        if (!nc_streq(text, annotation_of(node->v, STATUS_KEY))
            && (m->announced[0] || !strstr(text, "\"source\":\"\""))) {
            (void)snprintf(m->announced, sizeof(m->announced), "%s", text);
            m->reported_usec = w->now_usec;
            world_log(w, "%s says %s", m->node, text);
            annotate(w, node, STATUS_KEY, text);
        }
    }
    world_post(w, world_between(w, SEC / 2, w->is_quiet ? 8 * SEC : 3 * SEC), THING_AGENT, i, 0,
               NULL);
}

static void notice(struct world *w, const struct due *due) {
    static const char *const ways[] = {
        "", "", "", "", "", "\"policy\":\"drain\",", "\"policy\":\"cordon\",", "\"returns\":true,"};
    struct machine *m = &w->machines[due->a];
    uint64_t ahead = 0;

    if (due->b == 3) {
        m->spot_usec = 0;
        m->is_rebalanced = false;
        return;
    }
    m->is_rebalanced = m->is_rebalanced || due->b == 2;
    if (due->b == 2 || m->spot_usec)
        return;
    m->notices++;
    m->noticed_usec = w->now_usec;
    m->is_maintenance = due->b == 1;
    ahead = due->b == 1           ? world_between(w, 5, 3000)
            : due->b == 4         ? 7200u
            : world_chance(w, 20) ? world_between(w, 5, 119)
                                  : 120u;
    m->spot_usec = (w->now_usec / SEC + ahead) * SEC;
    m->way = ways[world_below(w, NC_ARRAY_SIZE(ways))];
    m->acts_usec = m->is_maintenance     ? m->spot_usec - 900 * SEC
                   : world_chance(w, 12) ? UINT64_MAX
                                         : 0;
}

static void hostile(struct world *w, unsigned i) {
    static const char *const garbage[] = {
        "",
        "null",
        "7",
        "[]",
        "{",
        "{}",
        "\x01",
        "{\"source\":7}",
        "{\"source\":\"spot\",\"phase\":\"Detected\",\"deadline\":\"tomorrow\"}",
        "{\"source\":\"spot\",\"phase\":\"Detected\",\"deadline\":\"1971-01-01T00:00:00Z\"}",
        "{\"source\":\"spot\",\"phase\":\"Detected\",\"deadline\":\"9999-01-01T00:00:00Z\"}",
        "{\"source\":\"spot\",\"phase\":[],\"deadline\":null}",
        "{\"source\":\"request\",\"id\":\"claim-uid-0003\",\"phase\":\"Drained\"}",
        "{\"source\":\"rebalance\",\"phase\":\"Detected\"}",
        "{\"source\":\"operator\",\"phase\":\"Drained\",\"id\":\"x\"}",
        "{\"source\":\"\",\"phase\":\"\"}",
    };
    struct machine *m = &w->machines[i];
    struct object *node = node_of(w, m);
    nc_auto_free char *text = NULL;
    char time[32];

    if (!node || m->is_over || !m->is_hostile)
        return;
    nc_time_format(w->now_usec + world_below(w, 200) * SEC, time);
    text = world_chance(w, 8) ? status("spot", "x", "Detected", time)
                              : nc_strdup(garbage[world_below(w, NC_ARRAY_SIZE(garbage))]);
    if (world_chance(w, 80))
        annotate(w, node, STATUS_KEY, text);
    else if (world_chance(w, 50))
        annotate(w, node, REQUEST_KEY, world_chance(w, 50) ? text : NULL);
    else if (world_chance(w, 50))
        server_mergef(w, node, "{\"metadata\":{\"labels\":{\"karpenter.sh/registered\":%s}}}",
                      world_chance(w, 50) ? "\"true\"" : "null");
    else
        annotate(w, node, "nodeclaimd.io/disrupted", world_chance(w, 50) ? "true" : NULL);
    world_post(w, world_between(w, 100 * MSEC, world_chance(w, 50) ? SEC : 20 * SEC), THING_HOSTILE,
               i, 0, NULL);
}

/* --- Karpenter, people */

static void karpenter(struct world *w, unsigned i) {
    struct object *claim = &w->objects[i];

    for (unsigned m = 0; m < w->n_machines; m++)
        if (w->machines[m].claim == i) {
            over(w, m);
            server_remove(w, node_of(w, &w->machines[m]));
        }
    server_remove(w, claim);
}

static void meddle_standalone(struct world *w, struct machine *m, struct object *claim,
                              struct object *node) {
    static const char *const budgets[] = {"[]", "[{\"nodes\":\"1\"}]", "[{\"nodes\":\"100%\"}]",
                                          "[{\"nodes\":\"0\"}]"};
    nc_auto_free char *pool = nc_asprintf("pool-%u", (unsigned)world_below(w, w->n_pools));

    switch (world_below(w, 8)) {
    case 0:
        server_delete(w, node);
        break;
    case 1:
        if (node)
            annotate(w, node, DO_NOT_DISRUPT, world_chance(w, 50) ? "true" : NULL);
        break;
    case 2:
        server_mergef(w, server_find(w, NC_CONTROL_POOL, pool),
                      "{\"spec\":{\"disruption\":{\"budgets\":%s}}}",
                      budgets[world_below(w, NC_ARRAY_SIZE(budgets))]);
        break;
    case 3:
        server_mergef(w, server_find(w, NC_CONTROL_POOL, pool),
                      "{\"metadata\":{\"annotations\":{\"karpenter.sh/nodepool-hash\":\"2\"}}}");
        break;
    case 4:
        if (node && !annotation_of(node->v, REQUEST_KEY))
            annotate(w, node, REQUEST_KEY, "{\"id\":\"person\",\"mode\":\"graceful\"}");
        break;
    case 5:
        if (world_chance(w, 10))
            server_remove(w, server_find(w, NC_CONTROL_POOL, pool));
        break;
    case 6:
        if (world_chance(w, 30)) {
            over(w, (unsigned)(m - w->machines));
            server_delete(w, node);
        }
        break;
    default:
        if (claim)
            annotate(w, claim, DO_NOT_DISRUPT, world_chance(w, 40) ? "true" : NULL);
    }
}

/* Karpenter notes by when a claim ends that it deletes; somebody may move that. */
static void note_end(struct world *w, struct object *claim) {
    char time[32];

    if (w->is_standalone || !claim || !claim->v || !world_chance(w, 60))
        return;
    nc_time_format(w->now_usec + world_between(w, SEC, 900 * SEC), time);
    annotate(w, claim, NC_ANNOTATION_TERMINATION_TIMESTAMP, time);
}

static void person(struct world *w) {
    struct machine *m = &w->machines[world_below(w, w->n_machines)];
    struct object *claim = claim_of(w, m), *node = node_of(w, m);

    if (w->is_quiet)
        return;
    world_post(w, world_between(w, SEC, 60 * SEC), THING_PERSON, 0, 0, NULL);
    switch (world_below(w, 4)) {
    case 0:
        if (world_chance(w, 50)) {
            note_end(w, claim);
            server_delete(w, claim);
        }
        break;
    case 1:
        if (claim && claim->v && is_deleting(claim->v))
            note_end(w, claim);
        server_mergef(w, claim, "{\"metadata\":{\"labels\":{\"team\":\"%u\"}}}",
                      (unsigned)world_below(w, 1000));
        break;
    default:
        if (w->is_standalone)
            meddle_standalone(w, m, claim, node);
    }
}

/* From now on everybody helps. */
static void quiet(struct world *w) {
    w->is_quiet = true;
    world_log(w, "it is quiet from now on");
    for (unsigned i = 0; i < w->n_machines; i++) {
        struct machine *m = &w->machines[i];
        struct object *node = node_of(w, m);
        const bool was_hostile = m->is_hostile;
        m->is_hostile = m->is_mute = false;
        if (m->drain_duration_usec > 60 * SEC)
            m->drain_duration_usec = 60 * SEC;
        if (!node)
            continue;
        const char *request = annotation_of(node->v, REQUEST_KEY);
        if (request && !strstr(request, "claim-"))
            annotate(w, node, REQUEST_KEY, NULL);
        m->announced[0] = 'x';
        if (was_hostile)
            world_post(w, SEC, THING_AGENT, i, 0, NULL);
    }
}

void actors_happen(struct world *w, const struct due *due) {
    switch ((int)due->kind) {
    case THING_LAUNCH:
        launch(w, due->a);
        break;
    case THING_JOIN:
        join(w, due->a);
        break;
    case THING_READY:
        ready(w, due->a);
        break;
    case THING_AGENT:
        agent(w, due->a);
        break;
    case THING_NOTICE:
        notice(w, due);
        break;
    case THING_HOSTILE:
        hostile(w, due->a);
        break;
    case THING_SILENT:
        silent(w, due->a);
        break;
    case THING_OVER:
        over(w, due->a);
        break;
    case THING_KARPENTER:
        if (due->b)
            note_end(w, &w->objects[due->a]);
        else
            karpenter(w, due->a);
        break;
    case THING_PERSON:
        person(w);
        break;
    case THING_QUIET:
        quiet(w);
        break;
    default:
        break;
    }
}
