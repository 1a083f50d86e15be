/*
 * What a step costs when everything happens at once: four times the objects, about four times the
 * work. Processor time, and room for a machine that has other things to do.
 */
#include "control-world.h"
#include "groups.h"

#include <time.h>

#include "nc/mem.h"
#include "nc/names.h"

#define FEW 1500u
#define RATIO 4u  /* so many times FEW is many */
#define LIMIT 9.0 /* linear: 4; quadratic: 16 */
#define RUNS_MAX 8

static double cpu_sec(void) {
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void open_standalone(struct world *w) {
    world_open_raw(w);
    (void)world_mode(w, NC_CONTROL_STANDALONE);
    (void)world_lead(w, true);
}

static void synced(struct world *w) {
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        (void)world_synced(w, (enum nc_control_kind)k);
}

static void see_node(struct world *w, unsigned i, const char *provider_id, const char *status) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"n%u\",\"uid\":\"uid-n%u\",\"creationTimestamp\":"
        "\"2026-11-22T00:00:00Z\",\"finalizers\":[\"" NC_FINALIZER "\"],"
        "\"labels\":{\"karpenter.sh/registered\":\"true\",\"karpenter.sh/initialized\":\"true\"},"
        "\"annotations\":{\"nodeclaimd.io/drain-status\":\"%s\"}},"
        "\"spec\":{\"providerID\":\"%s\"},"
        "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
        i, i, status, provider_id);

    (void)world_see(w, NC_CONTROL_NODE, json);
}

#define TRUE_CONDITION(type)                                                                       \
    "{\"type\":\"" type "\",\"status\":\"True\",\"reason\":\"" type "\",\"message\":\"\","         \
    "\"lastTransitionTime\":\"2026-11-22T00:00:00Z\"}"

/* Registered, initialized, ready; it lives until 03:00. */
static void see_claim(struct world *w, unsigned i) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"c%u\",\"uid\":\"uid-c%u\",\"creationTimestamp\":"
        "\"2026-11-22T00:00:00Z\",\"finalizers\":[\"" NC_FINALIZER "\"],"
        "\"labels\":{\"karpenter.sh/nodepool\":\"pool\"}},\"spec\":{\"expireAfter\":\"3h\"},"
        "\"status\":{\"providerID\":\"aws:///z/i-%u\",\"nodeName\":\"n%u\",\"conditions\":[%s]}}",
        i, i, i, i,
        TRUE_CONDITION("Launched") "," TRUE_CONDITION("Registered") "," TRUE_CONDITION(
            "Initialized") "," TRUE_CONDITION("Ready"));

    (void)world_see(w, NC_CONTROL_CLAIM, json);
}

/* All claims of a pool expire at once, and all may go. */
static double expire(unsigned n) {
    struct world w;
    double from;

    open_standalone(&w);
    w.rules.max_in_flight = 1024;
    (void)world_rules(&w);
    (void)world_see(&w, NC_CONTROL_POOL,
                    "{\"metadata\":{\"name\":\"pool\",\"uid\":\"p\",\"creationTimestamp\":"
                    "\"2026-11-22T00:00:00Z\"},"
                    "\"spec\":{\"disruption\":{\"budgets\":[{\"nodes\":\"100%\"}]}}}");
    for (unsigned i = 0; i < n; i++) {
        nc_auto_free char *provider_id = nc_asprintf("aws:///z/i-%u", i);
        see_node(&w, i, provider_id, "");
        see_claim(&w, i);
    }
    synced(&w);
    assert_string_equal(world_tick(&w), "");
    w.now_usec += 3600 * WORLD_SEC;
    from = cpu_sec();
    assert_int_equal(strncmp(world_tick(&w), "delete-claim c", 14), 0);
    for (uint64_t id = 1; id <= n; id++) /* each makes room for another one */
        (void)world_answer(&w, id, NC_CONTROL_DONE);
    from = cpu_sec() - from;
    struct nc_control_counts counts;
    nc_control_count(w.c, w.now_usec, &counts);
    assert_int_equal(counts.answered[NC_CONTROL_DELETE_CLAIM][NC_CONTROL_DONE], n);
    world_close(&w);
    return from;
}

/* Nodes that all say to be the same machine, and say something new each. */
static double impersonate(unsigned n) {
    struct world w;
    double from;

    open_standalone(&w);
    synced(&w);
    for (unsigned i = 0; i < n; i++)
        see_node(&w, i, "aws:///z/i-1", "");
    from = cpu_sec();
    for (unsigned i = 0; i < n; i++)
        see_node(&w, i, "aws:///z/i-1",
                 "{\\\"id\\\":\\\"x\\\",\\\"source\\\":\\\"spot\\\",\\\"phase\\\":\\\"\\\"}");
    from = cpu_sec() - from;
    world_close(&w);
    return from;
}

static double least(double a, double b) {
    return a < b ? a : b;
}

static bool is_linear(double few, double many) {
    return many <= few * LIMIT || many <= 0.1;
}

/* The least of some runs: what else happens on the machine only adds. */
static void compare(const char *what, double (*f)(unsigned n)) {
    double few = f(FEW), many = f(FEW * RATIO);

    for (unsigned i = 1; i < RUNS_MAX && !is_linear(few, many); i++) {
        few = least(few, f(FEW));
        many = least(many, f(FEW * RATIO));
    }
    print_message("%s: %.4f s of %u, %.4f s of %u\n", what, few, FEW, many, FEW * RATIO);
    if (!is_linear(few, many))
        fail_msg("%s: %.4f s of %u, but %.4f s of %u", what, few, FEW, many, FEW * RATIO);
}

static void test_all_expire(void **state) {
    (void)state;
    compare("all claims of a pool expire", expire);
}

static void test_one_machine_of_many(void **state) {
    (void)state;
    compare("Nodes with one providerID", impersonate);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_expire),
        cmocka_unit_test(test_one_machine_of_many),
    };

    return run_group(tests, NULL, NULL);
}
