/*
 * Is Karpenter there, and what is served: its Leases over time, and checks a scripted API server.
 */
#include "groups.h"
#include "kube-script.h"
#include "virtual-clock.h"

#include "nc/clock.h"
#include "nc/kube-control.h"

#include "karpenter.h"

#define SEC ((uint64_t)1000000)
#define NOW (1700000000 * SEC) /* 2023-11-14T22:13:20Z */
#define FRESH "2023-11-14T22:13:18.123456Z"
#define OLD "2023-11-14T22:00:00.000000Z"
#define LEASE(namespace, holder, renewed)                                                          \
    "{'metadata':{'name':'karpenter-leader-election','namespace':'" namespace "'},'spec':{'"       \
                                                                              "holderIdentity':"   \
                                                                              "'" holder "','"     \
                                                                              "leaseDurationSecon" \
                                                                              "ds':15,'renewTime'" \
                                                                              ":'" renewed "'}}"
#define LEASES(...) "{'kind':'LeaseList','items':[" __VA_ARGS__ "]}"
#define NONE LEASES()

/* ---- the Leases over time */

struct glance {
    unsigned at_sec; /* on our own clock */
    const char *leases;
    enum nc_control_mode mode;
};
static const struct {
    const char *name;
    struct glance glances[8];
} lives[] = {
    {"no such Lease has ever been seen",
     {{0, NONE, NC_CONTROL_STANDALONE}, {30, NONE, NC_CONTROL_STANDALONE}}},
    {"the Lease of another",
     {{0,
       LEASES(
           "{'metadata':{'name':'kube-scheduler'},'spec':{'holderIdentity':'x','renewTime':'" FRESH
           "'}}"),
       NC_CONTROL_STANDALONE}}},
    {"held and renewed just now",
     {{0, LEASES(LEASE("karpenter", "k-1", FRESH)), NC_CONTROL_KARPENTER}}},
    {"in another namespace, beside a dead one",
     {{0, LEASES(LEASE("a", "k-1", OLD) "," LEASE("kube-system", "k-2", FRESH)),
       NC_CONTROL_KARPENTER}}},
    {"installed after we were",
     {{0, NONE, NC_CONTROL_STANDALONE},
      {30, LEASES(LEASE("k", "k-1", OLD)), NC_CONTROL_KARPENTER}}},
    {"clocks far apart: alive by its moves",
     {{0, LEASES(LEASE("k", "k-1", OLD)), NC_CONTROL_MODE_UNKNOWN},
      {5, LEASES(LEASE("k", "k-1", "2023-11-14T22:00:04.000000Z")), NC_CONTROL_KARPENTER},
      {35, LEASES(LEASE("k", "k-1", "2023-11-14T22:00:34.000000Z")), NC_CONTROL_KARPENTER},
      {65, LEASES(LEASE("k", "k-1", "2023-11-14T22:00:34.000000Z")), NC_CONTROL_KARPENTER},
      {109, LEASES(LEASE("k", "k-1", "2023-11-14T22:00:34.000000Z")), NC_CONTROL_KARPENTER},
      {110, LEASES(LEASE("k", "k-1", "2023-11-14T22:00:34.000000Z")), NC_CONTROL_STANDALONE}}},
    {"clocks far apart the other way",
     {{0, LEASES(LEASE("k", "k-1", "2023-11-14T23:13:20.000000Z")), NC_CONTROL_MODE_UNKNOWN},
      {75, LEASES(LEASE("k", "k-1", "2023-11-14T23:13:20.000000Z")), NC_CONTROL_STANDALONE}}},
    {"left behind by one that is gone",
     {{0, LEASES(LEASE("k", "k-1", OLD)), NC_CONTROL_MODE_UNKNOWN},
      {74, LEASES(LEASE("k", "k-1", OLD)), NC_CONTROL_MODE_UNKNOWN},
      {75, LEASES(LEASE("k", "k-1", OLD)), NC_CONTROL_STANDALONE}}},
    {"given up for good",
     {{0, LEASES(LEASE("k", "", FRESH)), NC_CONTROL_MODE_UNKNOWN},
      {75, LEASES(LEASE("k", "", FRESH)), NC_CONTROL_STANDALONE}}},
    {"written again and again, and nobody holds it",
     {{0, LEASES(LEASE("k", "", OLD)), NC_CONTROL_MODE_UNKNOWN},
      {5, LEASES(LEASE("k", "", "2023-11-14T22:00:04.000000Z")), NC_CONTROL_MODE_UNKNOWN},
      {35, LEASES(LEASE("k", "", FRESH)), NC_CONTROL_MODE_UNKNOWN}}},
    {"a restart is no absence",
     {{0, LEASES(LEASE("k", "k-1", FRESH)), NC_CONTROL_KARPENTER},
      {30, LEASES(LEASE("k", "", FRESH)), NC_CONTROL_KARPENTER},
      {60, LEASES(LEASE("k", "k-2", OLD)), NC_CONTROL_KARPENTER},
      {120, LEASES(LEASE("k", "k-2", OLD)), NC_CONTROL_KARPENTER}}},
    {"nor is a Lease that somebody deleted",
     {{0, LEASES(LEASE("k", "k-1", FRESH)), NC_CONTROL_KARPENTER},
      {30, NONE, NC_CONTROL_KARPENTER},
      {60, LEASES(LEASE("k", "k-1", FRESH)), NC_CONTROL_KARPENTER}}},
    {"uninstalled, its Lease too",
     {{0, LEASES(LEASE("k", "k-1", FRESH)), NC_CONTROL_KARPENTER},
      {30, NONE, NC_CONTROL_KARPENTER},
      {104, NONE, NC_CONTROL_MODE_UNKNOWN},
      {105, NONE, NC_CONTROL_STANDALONE}}},
    {"comes back",
     {{0, LEASES(LEASE("k", "k-1", OLD)), NC_CONTROL_MODE_UNKNOWN},
      {80, LEASES(LEASE("k", "k-1", OLD)), NC_CONTROL_STANDALONE},
      {110, LEASES(LEASE("k", "k-2", OLD)), NC_CONTROL_KARPENTER}}},
    {"nonsense is no Karpenter, and holds nothing up for ever",
     {{0,
       LEASES("null,{'metadata':{'name':'karpenter-leader-election'},'spec':{'holderIdentity':7,"
              "'renewTime':{},'leaseDurationSeconds':-1}}"),
       NC_CONTROL_MODE_UNKNOWN},
      {75,
       LEASES("null,{'metadata':{'name':'karpenter-leader-election'},'spec':{'holderIdentity':"
              "7,'renewTime':{},'leaseDurationSeconds':-1}}"),
       NC_CONTROL_STANDALONE}}},
    {"a duration of years is cut",
     {{0,
       LEASES("{'metadata':{'name':'karpenter-leader-election'},'spec':{'holderIdentity':'x','"
              "renewTime':'" OLD "','leaseDurationSeconds':2000000000}}"),
       NC_CONTROL_MODE_UNKNOWN},
      {660,
       LEASES("{'metadata':{'name':'karpenter-leader-election'},'spec':{'holderIdentity':'x','"
              "renewTime':'" OLD "','leaseDurationSeconds':2000000000}}"),
       NC_CONTROL_STANDALONE}}},
};

static void test_lives(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(lives); i++) {
        struct nc_karpenter_seen s = {0};
        print_message("# %s\n", lives[i].name);
        for (size_t j = 0; j < 8 && lives[i].glances[j].leases; j++) {
            const struct glance *g = &lives[i].glances[j];
            nc_auto_value struct nc_value *leases = js(g->leases);
            const enum nc_control_mode mode =
                nc_karpenter_judge(&s, leases, NOW, 1000 * SEC + g->at_sec * SEC);
            if (mode != g->mode)
                fail_msg("glance %zu: %d, not %d", j, (int)mode, (int)g->mode);
        }
    }
}

static void test_holder(void **state) {
    struct nc_karpenter_seen s = {0};
    nc_auto_value struct nc_value *leases =
        js(LEASES(LEASE("a", "dead", OLD) "," LEASE("b", "k\\u0007-2", FRESH)));

    (void)state;
    nc_karpenter_judge(&s, leases, NOW, SEC);
    assert_string_equal(s.holder, "k?-2");
}

/* ---- looks */

#define API "https://api.test:6443/apis/"
#define LEASE_URL(namespace)                                                                       \
    API "coordination.k8s.io/v1/namespaces/" namespace "/leases/"                                  \
                                                       "karpenter-leader-election?"                \
                                                       "resourceVersion=0"
#define SERVES(...) "{'kind':'APIResourceList','resources':[" __VA_ARGS__ "]}"
#define KARPENTER SERVES("{'name':'nodeclaims'},{'name':'nodeclaims/status'},{'name':'nodepools'}")
#define CLASSES SERVES("{'name':'ec2nodeclasses'}")
#define ABSENT .status = 404

struct observed {
    struct nc_buf trace;
    unsigned reported, failed;
};

static void on_changed(void *userdata, const struct nc_karpenter_found *f) {
    static const char *const mode[] = {"unknown", "karpenter", "standalone"};
    struct observed *h = userdata;

    nc_buf_printf(&h->trace, "%s %s %s %s %s\n", mode[f->mode], f->holder,
                  f->claims_path ? f->claims_path : "-", f->pools_path ? f->pools_path : "-",
                  f->classes_path ? f->classes_path : "-");
    h->reported++;
}

static void on_failed(void *userdata, const struct nc_err *err) {
    struct observed *h = userdata;

    assert_true(err->class != NC_ERR_NONE);
    h->failed++;
}

static const char *const one[] = {"kube-system", NULL}, *const two[] = {"a", "b", NULL};
static const char *const *namespaces = one;

/* Until all of the script was asked and the last answer was observed. */
static void follow(struct nc_kube *k, size_t requests, uint64_t scan_usec, unsigned failed,
                   const char *trace) {
    struct observed h = {0};
    const struct nc_karpenter_options o = {.namespaces = namespaces,
                                           .scan_usec = scan_usec,
                                           .changed = on_changed,
                                           .failed = on_failed,
                                           .userdata = &h};
    const uint64_t until = nc_mono_usec() + 10 * SEC;
    struct nc_karpenter *p;

    assert_int_equal(nc_karpenter_scan(k, script_loop(), &o, &p, NULL), 0);
    while (script_requested() < requests) {
        assert_true(nc_mono_usec() < until);
        assert_true(clock_run(script_loop(), 100000) >= 0);
    }
    assert_string_equal(h.trace.data ? h.trace.data : "", trace);
    assert_int_equal(h.failed, failed);
    nc_karpenter_free(p);
    nc_buf_done(&h.trace);
    script_end(k);
}

/* The last step of each script stays open: everything before it has been observed. */
#define END                                                                                        \
    { .stays_open = true }

static void test_all_there(void **state) {
    (void)state;
    follow(SCRIPT_CONTROLLER({.method = "GET", .url = LEASE_URL("kube-system"), ABSENT},
                             {.method = "GET", .url = API "karpenter.sh/v1", .answer = KARPENTER},
                             {.url = API "karpenter.k8s.aws/v1", .answer = CLASSES},
                             {.url = LEASE_URL("kube-system"), ABSENT}, {.answer = KARPENTER},
                             {.answer = CLASSES}, END),
           7, 10000, 0, /* told once, not with every look */
           "standalone  /apis/karpenter.sh/v1/nodeclaims /apis/karpenter.sh/v1/nodepools "
           "/apis/karpenter.k8s.aws/v1/ec2nodeclasses\n");
}

static void test_older_versions(void **state) {
    (void)state;
    follow(SCRIPT_CONTROLLER({ABSENT}, {.url = API "karpenter.sh/v1", ABSENT},
                             {.url = API "karpenter.sh/v1beta1", .answer = KARPENTER},
                             {.url = API "karpenter.k8s.aws/v1", .answer = SERVES("{'name':'x'}")},
                             {.url = API "karpenter.k8s.aws/v1beta1", .answer = CLASSES}, END),
           6, 10000, 0,
           "standalone  /apis/karpenter.sh/v1beta1/nodeclaims /apis/karpenter.sh/v1beta1/nodepools "
           "/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses\n");
}

/* The kinds are not there; at a later look they are. */
static void test_installed_later(void **state) {
    (void)state;
    follow(SCRIPT_CONTROLLER({ABSENT}, {ABSENT}, {ABSENT}, {ABSENT}, {ABSENT},
                             {.url = API "eks.amazonaws.com/v1", ABSENT}, {ABSENT},
                             {.answer = KARPENTER}, {ABSENT}, {ABSENT},
                             {.answer = SERVES("{'name':'nodeclasses'}")}, END),
           12, 10000, 0,
           "standalone  - - -\n"
           "standalone  /apis/karpenter.sh/v1/nodeclaims /apis/karpenter.sh/v1/nodepools "
           "/apis/eks.amazonaws.com/v1/nodeclasses\n");
}

/* What could not be asked stays as it was; an older version is no answer for a newer one that did
 * not answer. Only "not found" takes something away. */
static void test_failures(void **state) {
    (void)state;
    follow(SCRIPT_CONTROLLER({ABSENT}, {.status = 503}, {.answer = CLASSES}, /* not told */
                             {ABSENT}, {.answer = KARPENTER}, {.answer = CLASSES}, {.status = 500},
                             {.status = 503}, {.outcome = NC_HTTP_TIMEOUT}, {ABSENT}, {ABSENT},
                             {ABSENT}, {.answer = CLASSES}, END),
           14, 10000, 4,
           "standalone  /apis/karpenter.sh/v1/nodeclaims /apis/karpenter.sh/v1/nodepools "
           "/apis/karpenter.k8s.aws/v1/ec2nodeclasses\n"
           "standalone  - - /apis/karpenter.k8s.aws/v1/ec2nodeclasses\n");
}

/* Leases may not be read: nothing is said about who is there, and that is not "standalone". */
static void test_refused(void **state) {
    (void)state;
    follow(SCRIPT_CONTROLLER({.status = 403}, {.answer = KARPENTER}, {.answer = CLASSES}, END), 4,
           10000, 1,
           "unknown  /apis/karpenter.sh/v1/nodeclaims /apis/karpenter.sh/v1/nodepools "
           "/apis/karpenter.k8s.aws/v1/ec2nodeclasses\n");
    /* Of two namespaces one is not enough: Karpenter may be in the other. */
    namespaces = two;
    follow(SCRIPT_CONTROLLER({ABSENT}, {.status = 403}, {.answer = KARPENTER}, {.answer = CLASSES},
                             END),
           5, 10000, 1,
           "unknown  /apis/karpenter.sh/v1/nodeclaims /apis/karpenter.sh/v1/nodepools "
           "/apis/karpenter.k8s.aws/v1/ec2nodeclasses\n");
    namespaces = one;
}

/* By name, in these namespaces and in no other; without any in the usual two. */
static void test_namespaces(void **state) {
    (void)state;
    namespaces = two;
    follow(SCRIPT_CONTROLLER(
               {.url = LEASE_URL("a"), ABSENT},
               {.url = LEASE_URL("b"), .answer = LEASE("b", "k-1", "2999-01-01T00:00:00Z")},
               {ABSENT}, {ABSENT}, {ABSENT}, {ABSENT}, {ABSENT}, {.url = LEASE_URL("a"), ABSENT},
               {.url = LEASE_URL("b"), .answer = LEASE("b", "k-1", "2999-01-01T00:00:01Z")},
               {ABSENT}, {ABSENT}, {ABSENT}, {ABSENT}, {ABSENT}, END),
           15, 10000, 0, "unknown k-1 - - -\nkarpenter k-1 - - -\n");
    namespaces = NULL;
    follow(SCRIPT_CONTROLLER({.url = LEASE_URL("kube-system"), ABSENT},
                             {.url = LEASE_URL("karpenter"), ABSENT}, {ABSENT}, {ABSENT}, {ABSENT},
                             {ABSENT}, {ABSENT}, END),
           8, 1000000, 0, "standalone  - - -\n");
    namespaces = one;
}

/* A Lease whose times say nothing moves between two looks; the second comes soon. */
static void test_alive(void **state) {
    (void)state;
    follow(SCRIPT_CONTROLLER({.answer = LEASE("k", "k-1", OLD)}, {ABSENT}, {ABSENT}, {ABSENT},
                             {ABSENT}, {ABSENT},
                             {.answer = LEASE("k", "k-1", "2023-11-14T22:00:02Z")}, {ABSENT},
                             {ABSENT}, {ABSENT}, {ABSENT}, {ABSENT}, END),
           13, 600000, 0, "unknown k-1 - - -\nkarpenter k-1 - - -\n");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives),           cmocka_unit_test(test_holder),
        cmocka_unit_test(test_all_there),       cmocka_unit_test(test_older_versions),
        cmocka_unit_test(test_installed_later), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_alive),
        cmocka_unit_test(test_namespaces),
    };

    return run_group(tests, NULL, NULL);
}
