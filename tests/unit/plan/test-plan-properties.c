/*
 * Properties of the plan over seeded random instances and configurations. NC_SEED chooses the seed,
 * NC_ROUNDS how many rounds; a failure names the seed.
 */
#include <inttypes.h>

#include "groups.h"
#include "plan-fixture.h"

static uint64_t seed;
static unsigned rounds;

#define check(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("NC_SEED=%" PRIu64 ": ", seed);                                            \
            fail_msg(__VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)

static uint64_t number_from_env(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    uint64_t v;

    return text && nc_parse_u64(text, &v) == 0 ? v : otherwise;
}

static const char *const types[] = {"m5.large",  "t3.nano",      "c5.18xlarge", "p5.48xlarge",
                                    "m7g.large", "u-6tb1.metal", "no.such"};

static const enum nc_reservation policies[] = {NC_RESERVATION_KARPENTER, NC_RESERVATION_ACTUAL,
                                               NC_RESERVATION_GKE,       NC_RESERVATION_AKS,
                                               NC_RESERVATION_AUTO_MODE, NC_RESERVATION_EXPLICIT};

static struct fixture *random_fixture(uint64_t *rng) {
    struct fixture *x = fixture_new();
    nc_auto_free char *version = nc_asprintf("v1.%zu.0", 28 + prng_below(rng, 9));

    fixture_type(x, types[prng_below(rng, NC_ARRAY_SIZE(types))],
                 1 + (int64_t)prng_below(rng, 200));
    fixture_set(&x->facts.kubelet_version, version);
    /* enough for the greediest policy: 737 pods */
    x->facts.mem_total_bytes = ((int64_t)20 << 30) + (int64_t)prng_below(rng, (size_t)1 << 40);
    x->facts.root_fs_bytes = ((int64_t)10 << 30) + (int64_t)prng_below(rng, (size_t)1 << 42);
    x->has_config = true;
    x->config.auth = NC_AUTH_EKS;
    x->config.cidr = nc_strdup("10.100.0.0/16");
    x->config.reservation = policies[prng_below(rng, NC_ARRAY_SIZE(policies))];
    x->config.max_pods_mode = (enum nc_max_pods_mode)(1 + prng_below(rng, 3));
    if (prng_next(rng) & 1) {
        x->config.kubelet = json("{'maxPods': 0, 'podsPerCore': 0}");
        nc_value_set_int(x->config.kubelet, "maxPods", (int64_t)prng_below(rng, 300));
        nc_value_set_int(x->config.kubelet, "podsPerCore", (int64_t)prng_below(rng, 5));
    }
    if (prng_next(rng) & 1)
        nc_strv_add(&x->config.kubelet_flags, "--node-labels=b=1,a=2");
    if (prng_next(rng) & 1)
        nc_strv_add(&x->config.kubelet_flags,
                    "--eviction-hard=memory.available<5%,nodefs.available<12.5%");
    return x;
}

static void check_within(int64_t allocatable, int64_t capacity, const char *name) {
    check(allocatable >= 0 && allocatable <= capacity, "%s: %lld of %lld", name,
          (long long)allocatable, (long long)capacity);
}

static char *fingerprint(const struct nc_plan *p) {
    struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, p->kubelet_base, 0);
    if (p->kubelet_dropin)
        nc_json_write(&b, p->kubelet_dropin, 0);
    nc_json_write(&b, p->kubelet_effective, 0);
    for (size_t i = 0; i < p->flags.n; i++)
        nc_buf_printf(&b, " %s", p->flags.v[i]);
    for (size_t i = 0; i < p->user_flags.n; i++)
        nc_buf_printf(&b, " %s", p->user_flags.v[i]);
    for (size_t i = 0; i < p->n_origins; i++)
        nc_buf_printf(&b, "\n%s=%s from %s over %s", p->origins[i].field, p->origins[i].value,
                      p->origins[i].from, p->origins[i].overrode);
    for (size_t i = 0; i < p->warnings.n; i++)
        nc_buf_printf(&b, "\n%s", p->warnings.v[i]);
    return nc_buf_steal(&b);
}

/* What kubelet sees is the drop-in laid over the base, and then the flags, whatever the version. */
static void check_layers(const struct nc_plan *p) {
    nc_auto_value struct nc_value *merged = nc_value_copy(p->kubelet_base);
    size_t differences = 0;

    if (p->kubelet_dropin)
        nc_value_merge_patch(merged, p->kubelet_dropin);
    for (size_t i = 0; i < p->kubelet_effective->n; i++)
        differences += !nc_value_equal(p->kubelet_effective->members[i].value,
                                       nc_value_get(merged, p->kubelet_effective->members[i].key));
    check(differences <= (p->user_flags.n > 0), "%zu fields differ", differences);
}

/* More of one thing leaves no less of it for pods. (More CPUs may mean more pods, and those cost
 * memory.) */
static void check_more(struct fixture *x, uint64_t *rng, const struct nc_resources *before) {
    const struct nc_resources *after = &x->plan.allocatable;
    int64_t memory = 1 + (int64_t)prng_below(rng, (size_t)1 << 32);

    x->facts.mem_total_bytes += memory;
    fixture_plan(x);
    check(after->memory_bytes >= before->memory_bytes
              && after->memory_bytes <= before->memory_bytes + memory,
          "memory");
    check(after->cpu_millicores == before->cpu_millicores && after->pods == before->pods,
          "memory changed CPUs or pods");
    x->facts.root_fs_bytes += 1 + (int64_t)prng_below(rng, (size_t)1 << 32);
    fixture_plan(x);
    check(after->ephemeral_bytes >= before->ephemeral_bytes, "more disk, less for pods");
    x->facts.cpus += 1 + (int64_t)prng_below(rng, 64);
    fixture_plan(x);
    check(after->cpu_millicores >= before->cpu_millicores, "more CPUs, less for pods");
    check(after->pods >= before->pods, "a larger host, fewer pods");
}

static void test_plans(void **state) {
    uint64_t rng = seed;

    (void)state;
    for (unsigned i = 0; i < rounds; i++) {
        struct fixture *x = random_fixture(&rng);
        nc_auto_free char *first = NULL, *second = NULL;
        struct nc_resources a;

        fixture_plan(x);
        a = x->plan.allocatable;
        check_within(a.cpu_millicores, x->plan.capacity.cpu_millicores, "cpu");
        check_within(a.memory_bytes, x->plan.capacity.memory_bytes, "memory");
        check_within(a.ephemeral_bytes, x->plan.capacity.ephemeral_bytes, "ephemeral-storage");
        check_within(a.pods, x->plan.max_pods, "pods");
        check_layers(&x->plan);
        first = fingerprint(&x->plan);
        fixture_plan(x);
        second = fingerprint(&x->plan);
        check(nc_streq(first, second), "the same input gave another plan");
        check_more(x, &rng, &a);
        fixture_free(x);
    }
}

/* Hostile flags and maps: refused with words or planned, never anything else. */
static void test_hostile(void **state) {
    static const char *const pieces[] = {"--",
                                         "max-pods",
                                         "=",
                                         "1",
                                         "-1",
                                         ",",
                                         "node-labels",
                                         "a",
                                         "\"",
                                         "'",
                                         " ",
                                         "<",
                                         "5%",
                                         "eviction-hard",
                                         "memory.available",
                                         "kube-reserved",
                                         "cpu",
                                         "9E",
                                         "register-with-taints",
                                         ":",
                                         "NoSchedule",
                                         "\\",
                                         "reserved-cpus",
                                         "0-3",
                                         "feature-gates",
                                         "true",
                                         "kubernetes.io/x",
                                         "pods-per-core",
                                         "99999999999"};
    static const char *const keys[] = {"maxPods",
                                       "podsPerCore",
                                       "evictionHard",
                                       "kubeReserved",
                                       "clusterDNS",
                                       "registerWithTaints",
                                       "featureGates",
                                       "shutdownGracePeriod",
                                       "shutdownGracePeriodByPodPriority",
                                       "enforceNodeAllocatable",
                                       "reservedSystemCPUs",
                                       "kind",
                                       "evictionSoft",
                                       "logging"};
    static const char *const values[] = {"1",
                                         "-1",
                                         "null",
                                         "'x'",
                                         "[]",
                                         "{}",
                                         "['x']",
                                         "[{}]",
                                         "{'cpu':'1'}",
                                         "{'memory.available':'5%'}",
                                         "true",
                                         "'10s'",
                                         "{'a':null}",
                                         "9007199254740991",
                                         "[{'shutdownGracePeriodSeconds':9007199254740991}]",
                                         "[{'key':'a','effect':'NoSchedule'}]",
                                         "'0-1'",
                                         "['10.0.0.1']"};
    uint64_t rng = seed + 1;

    (void)state;
    for (unsigned i = 0; i < rounds * 4; i++) {
        struct fixture *x = random_fixture(&rng);
        nc_cleanup(nc_buf_done) struct nc_buf flag = NC_BUF_INIT, map = NC_BUF_INIT;
        struct nc_err err = NC_ERR_INIT;
        for (size_t n = prng_below(&rng, 10); n; n--)
            nc_buf_puts(&flag, pieces[prng_below(&rng, NC_ARRAY_SIZE(pieces))]);
        nc_strv_add(&x->config.kubelet_flags, flag.len ? flag.data : "");
        nc_buf_printf(&map, "{'%s': %s, '%s%s': %s}", keys[prng_below(&rng, NC_ARRAY_SIZE(keys))],
                      values[prng_below(&rng, NC_ARRAY_SIZE(values))], "x",
                      keys[prng_below(&rng, NC_ARRAY_SIZE(keys))],
                      values[prng_below(&rng, NC_ARRAY_SIZE(values))]);
        nc_value_free(x->config.kubelet);
        x->config.kubelet = json(map.data);
        if (fixture_try(x, &err) < 0)
            check(*err.msg && err.class == NC_ERR_CONFIG, "class %d: %s", (int)err.class, err.msg);
        else
            check(x->plan.n_origins > 0 && x->plan.max_pods >= 0, "an empty plan");
        fixture_free(x);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_hostile),
    };

    seed = number_from_env("NC_SEED", 20260102);
    rounds = (unsigned)number_from_env("NC_ROUNDS", 1000);
    print_message("# NC_SEED=%" PRIu64 "\n", seed);
    return run_group(tests, NULL, NULL);
}
