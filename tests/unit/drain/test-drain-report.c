/*
 * What is said of a drain: status.json's member, the plan of a dry run as a table and as JSON.
 */
#include "base-test.h"
#include "groups.h"
#include "nc/drain-report.h"

#define SEC 1000000ull
#define NOW (1767225600 * SEC) /* 2026-01-01T00:00:00Z */

static struct nc_pod new_pod(const char *name, enum nc_tier tier) {
    return (struct nc_pod){.namespace = nc_strdup("web"),
                           .name = nc_strdup(name),
                           .uid = nc_asprintf("uid-%s", name),
                           .tier = tier,
                           .grace_sec = 30};
}

static void see(struct nc_drain *d, struct nc_pod pod) {
    assert_int_equal(nc_drain_see(d, &pod, NOW), 0);
}

/* Evicts whoever may be, and answers each with this. */
static void answer_all(struct nc_drain *d, const struct nc_pod_answer *a) {
    const struct nc_drain_rules rules = {.may_evict = true, .max_in_flight = 100};
    struct nc_drain_action actions[50];
    const size_t n = nc_drain_step(d, &rules, NOW, actions, NC_ARRAY_SIZE(actions));

    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *uid = nc_strdup(actions[i].pod->uid);
        nc_drain_answer(d, &(struct nc_drain_reply){uid, NC_DRAIN_EVICT, a, 0, NOW});
    }
}

static void assert_json(const struct nc_value *v, const char *expected) {
    struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, v, 0);
    assert_string_equal(b.data, expected);
    nc_buf_done(&b);
}

static void test_report_of_nothing(void **state) {
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    const struct nc_lifecycle_view view = {.notices = notices, .leading = -1, .policy = 0};
    struct nc_drain *d = nc_drain_new();

    (void)state;
    nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
    assert_json(v,
                "{\"phase\":\"idle\",\"since\":null,\"id\":null,\"source\":null,"
                "\"reason\":null,\"policy\":null,\"deadline\":null,\"forceDeleteAt\":null,"
                "\"sources\":[],\"cordon\":{\"ours\":false,\"since\":null,\"refused\":false,"
                "\"failing\":false,"
                "\"lifted\":false,\"labelRemoved\":false},"
                "\"nodeDeleted\":false,\"sinceRestart\":false,"
                "\"pods\":{\"total\":0,\"remaining\":0,\"leaving\":0,\"kept\":0,\"blocked\":0,"
                "\"waiting\":0,"
                "\"evicted\":0,\"deleted\":0,\"excluded\":{\"terminal\":0,\"mirror\":0,"
                "\"tolerating\":0,\"daemonset\":0,\"put-back\":0,\"stuck\":0}},\"incomplete\":null,"
                "\"blocked\":[],\"others\":[],\"volumes\":0,\"volume\":null,"
                "\"hooks\":{\"preDrain\":{\"state\":\"idle\",\"started\":null,\"ended\":null},"
                "\"postDrain\":{\"state\":\"idle\",\"started\":null,\"ended\":null}},"
                "\"drained\":null,\"history\":[]}");
    nc_drain_free(d);
}

static void test_report_of_a_drain(void **state) {
    struct nc_notice notices[_NC_SOURCE_MAX] = {
        [NC_SOURCE_SPOT] = {.id = "spot-1",
                            .action = "terminate",
                            .deadline_usec = NOW + 120 * SEC},
        [NC_SOURCE_REQUEST] = {.id = "r-1", .reason = "upgrade", .begin_usec = NOW + 60 * SEC}};
    struct nc_lifecycle_view view = {
        .phase = NC_LIFECYCLE_EVICTING,
        .since_usec = NOW - 5 * SEC,
        .is_active = {[NC_SOURCE_SPOT] = true, [NC_SOURCE_REQUEST] = true},
        .noticed_usec = {[NC_SOURCE_SPOT] = NOW - 6 * SEC},
        .notices = notices,
        .leading = NC_SOURCE_SPOT,
        .policy = NC_POLICY_DRAIN,
        .policies = {[NC_SOURCE_REQUEST] = NC_POLICY_REPORT, [NC_SOURCE_SPOT] = NC_POLICY_DRAIN},
        .deadline_usec = NOW + 120 * SEC,
        .t_usec = NOW + 105 * SEC,
        .is_put_back = true,
        .is_ours = true,
        .cordoned_usec = NOW - 4 * SEC,
        .drained_usec = NOW,
        .hooks = {{NC_HOOK_TIMEOUT, NOW - 4 * SEC, NOW - SEC}, {NC_HOOK_RUNNING, NOW, 0}},
        .drain_rules = {.t_usec = NOW + 105 * SEC}};
    struct nc_pod_answer a = {.kind = NC_ANSWER_BUDGET, .budget = "web", .message = "'full'"};
    struct nc_drain *d = nc_drain_new();
    struct nc_value *history = nc_value_new_list();

    (void)state;
    nc_value_push(history, nc_value_new_string("as given"));
    see(d, new_pod("b", NC_TIER_PLAIN));
    see(d, new_pod("m", NC_TIER_CRITICAL));
    answer_all(d, &a);
    nc_drain_summarize(d, &view.drain_rules, NOW, &view.drain);
    nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, history);
    assert_json(
        v, "{\"phase\":\"evicting\",\"since\":\"2025-12-31T23:59:55Z\",\"id\":\"spot-1\","
           "\"source\":\"spot\",\"reason\":\"SpotInterruption\",\"policy\":\"drain\","
           "\"deadline\":\"2026-01-01T00:02:00Z\",\"forceDeleteAt\":\"2026-01-01T00:01:45Z\","
           "\"sources\":[{\"source\":\"request\",\"id\":\"r-1\",\"action\":null,\"noticed\":null,"
           "\"deadline\":null,\"begin\":\"2026-01-01T00:01:00Z\",\"policy\":\"report\","
           "\"reason\":\"upgrade\",\"putBack\":true},"
           "{\"source\":\"spot\",\"id\":\"spot-1\",\"action\":\"terminate\","
           "\"noticed\":\"2025-12-31T23:59:54Z\",\"deadline\":\"2026-01-01T00:02:00Z\","
           "\"begin\":null,\"policy\":\"drain\",\"reason\":null,\"putBack\":false}],"
           "\"cordon\":{\"ours\":true,\"since\":\"2025-12-31T23:59:56Z\",\"refused\":false,"
           "\"failing\":false,"
           "\"lifted\":false,\"labelRemoved\":false},"
           "\"nodeDeleted\":false,\"sinceRestart\":false,"
           "\"pods\":{\"total\":2,\"remaining\":2,\"leaving\":0,\"kept\":0,\"blocked\":1,"
           "\"waiting\":0,"
           "\"evicted\":0,\"deleted\":0,\"excluded\":{\"terminal\":0,\"mirror\":0,"
           "\"tolerating\":0,\"daemonset\":0,\"put-back\":0,\"stuck\":0}},\"incomplete\":null,"
           "\"blocked\":[{\"pod\":\"web/"
           "b\",\"reason\":\"budget\",\"budget\":\"web\",\"message\":\"'full'\","
           "\"since\":\"2026-01-01T00:00:00Z\",\"forceDeleteAt\":\"2026-01-01T00:01:15Z\"}],"
           "\"others\":[{\"pod\":\"web/m\",\"reason\":\"not-begun\",\"next\":\"evict\","
           "\"at\":\"2026-01-01T00:01:14Z\",\"graceEnds\":null}],\"volumes\":0,\"volume\":null,"
           "\"hooks\":{\"preDrain\":{\"state\":\"timeout\",\"started\":\"2025-12-31T23:59:56Z\","
           "\"ended\":\"2025-12-31T23:59:59Z\"},"
           "\"postDrain\":{\"state\":\"running\",\"started\":\"2026-01-01T00:00:00Z\","
           "\"ended\":null}},"
           "\"drained\":\"2026-01-01T00:00:00Z\",\"history\":[\"as given\"]}");

    view.is_failed = view.is_unlisted = true;
    view.leading = NC_SOURCE_REQUEST; /* its own words go before ours */
    nc_auto_value struct nc_value *asked = nc_drain_report_view(&view, d, NOW, NULL);
    assert_string_equal(nc_value_get_string(asked, "reason"), "upgrade");
    assert_string_equal(nc_value_get_string(asked, "phase"), "failed");
    assert_int_equal(nc_value_path(asked, "pods.remaining")->type, NC_VALUE_NULL);
    assert_int_equal(nc_value_path(asked, "pods.deleted")->type, NC_VALUE_INT);
    nc_drain_free(d);
}

/* Nobody refuses it, for nobody asks; it holds the drain up all the same. */
static void test_kept_is_named(void **state) {
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    struct nc_lifecycle_view view = {.notices = notices, .leading = -1};
    struct nc_pod pod = new_pod("kept", NC_TIER_PLAIN);
    struct nc_drain *d = nc_drain_new();

    (void)state;
    pod.never_disrupt = true;
    see(d, pod);
    nc_drain_summarize(d, &view.drain_rules, NOW, &view.drain);
    nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
    assert_int_equal(nc_value_path(v, "pods.blocked")->integer, 0);
    assert_json(
        nc_value_get(v, "blocked"),
        "[{\"pod\":\"web/kept\",\"reason\":\"do-not-disrupt\",\"budget\":null,\"message\":\"kept "
        "by do-not-disrupt\","
        "\"since\":null,\"forceDeleteAt\":null}]");
    nc_drain_free(d);
}

/* What holds it, and since when; also once the drain goes on without it. */
static void test_hanging_is_named(void **state) {
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    struct nc_lifecycle_view view = {.notices = notices, .leading = -1};
    struct nc_drain *d = nc_drain_new();

    (void)state;
    for (uint64_t sec = 10; sec <= 100; sec += 90) {
        struct nc_pod pod = new_pod(sec == 10 ? "hangs" : "stuck", NC_TIER_PLAIN);
        pod.deletion_usec = NOW - sec * SEC;
        pod.has_finalizer = sec == 100;
        see(d, pod);
    }
    nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
    assert_json(nc_value_get(v, "blocked"),
                "[{\"pod\":\"web/hangs\",\"reason\":\"kubelet\",\"budget\":null,\"message\":\"its "
                "grace period is over, kubelet has not reported its end\","
                "\"since\":\"2025-12-31T23:59:50Z\",\"forceDeleteAt\":null},"
                "{\"pod\":\"web/stuck\",\"reason\":\"stuck\",\"budget\":null,\"message\":\"has "
                "ended, a finalizer holds it\",\"since\":\"2025-12-31T23:58:20Z\","
                "\"forceDeleteAt\":null}]");
    nc_drain_free(d);
}

/* Until its own time, where that comes before its force-delete time. */
static void test_kept_until(void **state) {
    static const struct {
        uint64_t t_usec;
        bool is_named;
    } rows[] = {{0, true}, {NOW + 7200 * 1000000ull, true}, {NOW + 600 * 1000000ull, false}};
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_lifecycle_view view = {
            .notices = notices, .leading = -1, .drain_rules = {.t_usec = rows[i].t_usec}};
        struct nc_pod pod = new_pod("kept", NC_TIER_PLAIN);
        struct nc_drain *d = nc_drain_new();
        pod.keep_until_usec = NOW + 3600 * 1000000ull;
        see(d, pod);
        nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
        const struct nc_value *one = nc_value_get(v, "blocked")->items[0];
        assert_true((nc_value_get(one, "keptUntil") != NULL) == rows[i].is_named);
        nc_drain_free(d);
    }
}

static void test_order_is_named(void **state) {
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    struct nc_lifecycle_view view = {
        .notices = notices, .leading = -1, .drain_rules = {.tolerating_last = true}};
    struct nc_pod first = new_pod("first", NC_TIER_PLAIN), last = new_pod("last", NC_TIER_LAST),
                  agent = new_pod("agent", NC_TIER_PLAIN_DAEMON),
                  dns = new_pod("dns", NC_TIER_CRITICAL);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_drain *d = nc_drain_new();

    (void)state;
    first.order = NC_POD_ORDER_FIRST;
    last.order = NC_POD_ORDER_LAST;
    agent.is_daemon = first.never_disrupt = last.never_disrupt = agent.never_disrupt = true;
    see(d, first);
    see(d, last);
    see(d, agent);
    see(d, dns);
    nc_drain_summarize(d, &view.drain_rules, NOW, &view.drain);
    nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
    assert_json(nc_value_get(v, "blocked"),
                "[{\"pod\":\"web/"
                "first\",\"reason\":\"do-not-"
                "disrupt\",\"order\":\"first\",\"budget\":null,\"message\":\"kept by "
                "do-not-disrupt\",\"since\":null,\"forceDeleteAt\":null},"
                "{\"pod\":\"web/"
                "agent\",\"reason\":\"do-not-"
                "disrupt\",\"order\":\"last\",\"budget\":null,\"message\":\"kept by "
                "do-not-disrupt\",\"since\":null,\"forceDeleteAt\":null},"
                "{\"pod\":\"web/"
                "last\",\"reason\":\"do-not-"
                "disrupt\",\"order\":\"last\",\"budget\":null,\"message\":\"kept by "
                "do-not-disrupt\",\"since\":null,\"forceDeleteAt\":null}]");
    view.drain_rules.may_evict = true;
    nc_drain_plan_text(d, &view.drain_rules, NOW, false, &text);
    assert_non_null(strstr(text.data, "TIER      POD        WHAT\n"
                                      "first     web/first  keep (do-not-disrupt)\n"
                                      "critical  web/dns    evict\n"
                                      "last      web/agent  keep (do-not-disrupt)\n"
                                      "last      web/last   keep (do-not-disrupt)\n"));
    nc_drain_free(d);
}

/* Nor here: somebody else is about to replace it. */
static void test_waiting_is_named(void **state) {
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    struct nc_lifecycle_view view = {
        .notices = notices,
        .leading = -1,
        .drain_rules = {.may_evict = true, .replaced_by_usec = NOW + 600 * SEC}};
    struct nc_pod pod = new_pod("first", NC_TIER_PLAIN);
    struct nc_buf b = NC_BUF_INIT;
    struct nc_drain *d = nc_drain_new();

    (void)state;
    pod.is_replacement_first = true;
    see(d, pod);
    nc_drain_summarize(d, &view.drain_rules, NOW, &view.drain);
    nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
    assert_int_equal(nc_value_path(v, "pods.waiting")->integer, 1);
    assert_json(
        nc_value_get(v, "blocked"),
        "[{\"pod\":\"web/first\",\"reason\":\"replacement\",\"budget\":null,\"message\":\"waits "
        "for its replacement\","
        "\"since\":null,\"forceDeleteAt\":null}]");
    nc_drain_plan_text(d, &view.drain_rules, NOW, false, &b);
    assert_non_null(strstr(b.data, "plain  web/first  wait for its replacement\n"));
    nc_buf_done(&b);
    nc_drain_free(d);
}

static void test_at_most_twenty_blocked(void **state) {
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    struct nc_lifecycle_view view = {.notices = notices, .leading = -1};
    const struct nc_pod_answer a = {.kind = NC_ANSWER_REFUSED};
    struct nc_drain *d = nc_drain_new();

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        nc_auto_free char *name = nc_asprintf("pod-%02zu", i);
        see(d, new_pod(name, NC_TIER_PLAIN));
    }
    answer_all(d, &a);
    nc_drain_summarize(d, &view.drain_rules, NOW, &view.drain);
    nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
    const struct nc_value *blocked = nc_value_get(v, "blocked");
    assert_int_equal(blocked->n, 20);
    assert_string_equal(nc_value_get_string(blocked->items[19], "pod"), "web/pod-19");
    assert_int_equal(nc_value_get(blocked->items[0], "budget")->type, NC_VALUE_NULL);
    assert_int_equal(nc_value_path(v, "pods.blocked")->integer, 40);
    nc_drain_free(d);
}

/* What it has of its own grace period, where that was cut; kubelet's last word is no cut. */
static void test_report_of_who_is_ending(void **state) {
    static const struct {
        uint64_t has_sec;
        const char *grace;
    } rows[] = {{17, "17 of 30 s"}, {30, NULL}, {45, NULL}, {0, NULL}};
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    const struct nc_lifecycle_view view = {
        .notices = notices, .leading = -1, .phase = NC_LIFECYCLE_EVICTING};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_drain *d = nc_drain_new();
        struct nc_pod pod = new_pod("a", NC_TIER_PLAIN);
        pod.deletion_usec = NOW + 10 * SEC;
        pod.deletion_grace_sec = rows[i].has_sec;
        see(d, pod);
        nc_auto_value struct nc_value *v = nc_drain_report_view(&view, d, NOW, NULL);
        const struct nc_value *ending = nc_value_item(nc_value_get(v, "others"), 0);
        assert_string_equal(nc_value_get_string(ending, "graceEnds"), "2026-01-01T00:00:10Z");
        if (rows[i].grace)
            assert_string_equal(nc_value_get_string(ending, "grace"), rows[i].grace);
        else
            assert_null(nc_value_get(ending, "grace"));
        nc_drain_free(d);
    }
}

/* The lifecycle as it begins: nothing is announced. */
static void test_report_of_a_lifecycle(void **state) {
    const struct nc_lifecycle_rules rules = {0};
    struct nc_lifecycle *l = nc_lifecycle_new(&rules);

    (void)state;
    nc_auto_value struct nc_value *v = nc_drain_report(l, NOW, NULL);
    assert_string_equal(nc_value_get_string(v, "phase"), "idle");
    assert_int_equal(nc_value_get(v, "id")->type, NC_VALUE_NULL);
    nc_lifecycle_free(l);
}

/* One pod of each fate. */
static struct nc_drain *new_plan(void) {
    struct nc_drain *d = nc_drain_new();
    struct nc_pod pod = new_pod("kept", NC_TIER_PLAIN);

    pod.never_disrupt = true;
    see(d, pod);
    pod = new_pod("long", NC_TIER_PLAIN);
    pod.grace_sec = 3600;
    see(d, pod);
    pod = new_pod("ending", NC_TIER_PLAIN);
    pod.deletion_usec = NOW + 20 * SEC;
    pod.deletion_grace_sec = 30;
    see(d, pod);
    pod = new_pod("ending-late", NC_TIER_CRITICAL);
    pod.deletion_usec = NOW + 300 * SEC;
    pod.deletion_grace_sec = 310;
    see(d, pod);
    pod = new_pod("agent", NC_TIER_PLAIN_DAEMON);
    pod.is_daemon = true;
    see(d, pod);
    see(d, new_pod("shop-1", NC_TIER_PLAIN));
    see(d, new_pod("dns", NC_TIER_CRITICAL));
    return d;
}

static void assert_plan(const struct nc_drain_rules *r, const char *expected) {
    struct nc_drain *d = new_plan();
    struct nc_buf b = NC_BUF_INIT;

    nc_drain_plan_text(d, r, NOW, false, &b);
    assert_string_equal(b.data, expected);
    nc_buf_done(&b);
    nc_drain_free(d);
}

static void test_plan_with_a_deadline(void **state) {
    const struct nc_drain_rules rules = {.t_usec = NOW + 105 * SEC, .may_evict = true};

    (void)state;
    assert_plan(
        &rules,
        "7 pods on this node, in the order of the drain. Every pod that may not stay is gone by "
        "2026-01-01T00:01:45Z (in 1m45s).\n"
        "\n"
        "TIER       POD              WHAT                    GRACE  FORCE-DELETE\n"
        "plain      web/ending       terminating already\n"
        "plain      web/kept         keep (do-not-disrupt)     30s  2026-01-01T00:01:15Z (in "
        "1m15s)\n"
        "plain      web/long         delete                   105s  at once, less than its 3600s\n"
        "plain      web/shop-1       evict                     30s  2026-01-01T00:01:15Z (in "
        "1m15s)\n"
        "daemonset  web/agent        exclude: daemonset\n"
        "critical   web/dns          evict                     30s  2026-01-01T00:01:15Z (in "
        "1m15s)\n"
        "critical   web/ending-late  shorten                  115s  at once\n");
}

static void test_plan_without_a_deadline(void **state) {
    const struct nc_drain_rules rules = {.may_evict = true, .has_disrupted_taint = true};

    (void)state;
    assert_plan(&rules, "7 pods on this node, in the order of the drain. No deadline: budgets and "
                        "do-not-disrupt hold without a limit.\n"
                        "\n"
                        "TIER       POD              WHAT\n"
                        "plain      web/ending       terminating already\n"
                        "plain      web/kept         keep (do-not-disrupt)\n"
                        "plain      web/long         evict\n"
                        "plain      web/shop-1       evict\n"
                        "daemonset  web/agent        evict\n"
                        "critical   web/dns          evict\n"
                        "critical   web/ending-late  terminating already\n");
}

static void test_plan_of_nothing(void **state) {
    const struct nc_drain_rules rules = {.may_evict = true};
    struct nc_drain *d = nc_drain_new();
    struct nc_buf b = NC_BUF_INIT;

    (void)state;
    nc_drain_plan_text(d, &rules, NOW, false, &b);
    assert_string_equal(b.data, "0 pods on this node, in the order of the drain. No deadline: "
                                "budgets and do-not-disrupt hold without a limit.\n");
    nc_buf_clear(&b);
    see(d, new_pod("a", NC_TIER_PLAIN));
    nc_drain_plan_text(d, &rules, NOW, false, &b);
    assert_true(strncmp(b.data, "1 pod on this node", 18) == 0);
    nc_buf_done(&b);
    nc_drain_free(d);
}

static void test_plan_where_others_drain(void **state) {
    const struct nc_drain_rules rules = {.t_usec = NOW + 105 * SEC};
    struct nc_drain *d = new_plan();
    struct nc_buf b = NC_BUF_INIT;

    (void)state;
    nc_drain_plan_text(d, &rules, NOW, false, &b);
    assert_non_null(strstr(b.data, "web/shop-1       not evict "));
    assert_null(strstr(b.data, "  evict"));
    nc_buf_done(&b);
    nc_drain_free(d);
}

/* A plan of a drain that is in flight. */
static void test_plan_of_who_is_leaving(void **state) {
    const struct nc_drain_rules rules = {.may_evict = true};
    const struct nc_pod_answer a = {.kind = NC_ANSWER_ACCEPTED};
    struct nc_drain *d = nc_drain_new();
    struct nc_buf b = NC_BUF_INIT;

    (void)state;
    see(d, new_pod("shop-1", NC_TIER_PLAIN));
    answer_all(d, &a);
    nc_drain_plan_text(d, &rules, NOW, false, &b);
    assert_non_null(strstr(b.data, "web/shop-1  terminating already\n"));
    nc_buf_done(&b);
    nc_drain_free(d);
}

static void assert_cut(uint64_t t_usec, uint64_t least_sec, const char *names) {
    const struct nc_drain_rules rules = {.t_usec = NOW + t_usec, .may_evict = true};
    struct nc_drain *d = new_plan();
    struct nc_buf b = NC_BUF_INIT;

    assert_int_equal(nc_drain_plan_cut(d, &rules, NOW, &b), least_sec * SEC);
    assert_string_equal(b.data ? b.data : "", names);
    nc_buf_done(&b);
    nc_drain_free(d);
}

/* One that is moved earlier cuts those, too, that end already. */
static void test_plan_that_cuts(void **state) {
    const struct nc_drain_rules none = {.may_evict = true};
    struct nc_drain *d = new_plan();
    struct nc_buf b = NC_BUF_INIT;

    (void)state;
    assert_cut(3601 * SEC, 0, "");
    assert_cut(3600 * SEC, 3600, "web/long"); /* it is deleted a moment later */
    assert_cut(105 * SEC, 3600, "web/long, web/ending-late");
    assert_cut(31 * SEC, 3600, "web/long, web/ending-late");
    assert_cut(5 * SEC, 3600, "web/ending, web/kept, web/long, web/shop-1, web/dns and 1 more");
    assert_int_equal(nc_drain_plan_cut(d, &none, NOW, &b), 0);
    nc_drain_free(d);
    d = nc_drain_new();
    struct nc_pod late = new_pod("ending-late", NC_TIER_PLAIN);
    late.deletion_usec = NOW + 300 * SEC;
    see(d, late);
    const struct nc_drain_rules rules = {.t_usec = NOW + 105 * SEC, .may_evict = true};
    assert_int_equal(nc_drain_plan_cut(d, &rules, NOW, &b), 300 * SEC);
    for (int i = 0; i < 11; i++) {
        nc_auto_free char *name = nc_asprintf("p%02d", i);
        struct nc_pod pod = new_pod(name, NC_TIER_PLAIN);
        pod.grace_sec = 200;
        see(d, pod);
    }
    nc_buf_clear(&b);
    assert_int_equal(nc_drain_plan_cut(d, &rules, NOW, &b), 300 * SEC);
    assert_string_equal(b.data, "web/ending-late, web/p00, web/p01, web/p02, web/p03 and 7 more");
    nc_buf_done(&b);
    nc_drain_free(d);
}

static void test_plan_as_json(void **state) {
    const struct nc_drain_rules rules = {.t_usec = NOW + 105 * SEC, .may_evict = true};
    struct nc_drain *d = new_plan();
    struct nc_buf b = NC_BUF_INIT;
    nc_auto_value struct nc_value *v = NULL;

    (void)state;
    nc_drain_plan_text(d, &rules, NOW, true, &b);
    assert_int_equal(nc_json_parse(b.data, b.len, &v, NULL), 0);
    assert_int_equal(b.data[b.len - 1], '\n');
    assert_string_equal(nc_value_get_string(v, "forceDeleteAt"), "2026-01-01T00:01:45Z");
    assert_int_equal(nc_value_path(v, "counts.remaining")->integer, 6);
    const struct nc_value *pods = nc_value_get(v, "pods");
    assert_int_equal(pods->n, 7);
    assert_json(pods->items[0], "{\"tier\":\"plain\",\"namespace\":\"web\",\"name\":\"ending\","
                                "\"uid\":\"uid-ending\",\"what\":\"leaving\",\"reason\":null,"
                                "\"forceDeleteAt\":null,\"graceSeconds\":null}");
    assert_json(pods->items[1], "{\"tier\":\"plain\",\"namespace\":\"web\",\"name\":\"kept\","
                                "\"uid\":\"uid-kept\",\"what\":\"keep\",\"reason\":null,"
                                "\"forceDeleteAt\":\"2026-01-01T00:01:15Z\",\"graceSeconds\":30}");
    assert_json(pods->items[4], "{\"tier\":\"daemonset\",\"namespace\":\"web\",\"name\":\"agent\","
                                "\"uid\":\"uid-agent\",\"what\":\"leave\",\"reason\":\"daemonset\","
                                "\"forceDeleteAt\":null,\"graceSeconds\":null}");
    nc_buf_done(&b);
    nc_drain_free(d);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_of_nothing),
        cmocka_unit_test(test_report_of_a_drain),
        cmocka_unit_test(test_kept_is_named),
        cmocka_unit_test(test_hanging_is_named),
        cmocka_unit_test(test_kept_until),
        cmocka_unit_test(test_order_is_named),
        cmocka_unit_test(test_waiting_is_named),
        cmocka_unit_test(test_at_most_twenty_blocked),
        cmocka_unit_test(test_report_of_a_lifecycle),
        cmocka_unit_test(test_report_of_who_is_ending),
        cmocka_unit_test(test_plan_with_a_deadline),
        cmocka_unit_test(test_plan_without_a_deadline),
        cmocka_unit_test(test_plan_of_nothing),
        cmocka_unit_test(test_plan_where_others_drain),
        cmocka_unit_test(test_plan_of_who_is_leaving),
        cmocka_unit_test(test_plan_that_cuts),
        cmocka_unit_test(test_plan_as_json),
    };

    return run_group(tests, NULL, NULL);
}
