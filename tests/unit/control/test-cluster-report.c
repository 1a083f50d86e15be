/*
 * What the controller tells: a report of every node, its text, counts and metrics.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/str.h"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

static void expect_report(struct world *w, const char *wanted) {
    nc_auto_value struct nc_value *list = nc_control_report(w->c, w->now_usec);
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, list, 0);
    expect(b.data, wanted);
}

static const char *state_of(struct world *w, const char *node) {
    nc_auto_value struct nc_value *list = nc_control_report(w->c, w->now_usec);
    static char text[64];

    text[0] = '\0';
    for (size_t i = 0; i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "node"), node))
            (void)snprintf(text, sizeof(text), "%s", nc_value_get_string(list->items[i], "state"));
    return text;
}

static void test_every_node_by_name(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect_report(&w, "[]");
    expect(world_node(&w, "n2", NULL), "");
    expect(world_node(&w, "n1", NULL), "");
    expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T01:00:00Z\""), "");
    expect(world_claim(&w, "c9", "n9", ""), ""); /* has no Node */
    expect_report(
        &w, "[{\"node\":\"n1\",\"claim\":\"c1\",\"pool\":\"p1\",\"phase\":null,"
            "\"source\":null,\"policy\":null,\"deadline\":null,\"remaining\":null,\"blocked\":null,"
            "\"claimDeletion\":\"2026-11-22T01:00:00Z\",\"state\":\"draining\",\"lifecycleAction\":"
            "null},"
            "{\"node\":\"n2\",\"claim\":null,\"pool\":null,\"phase\":null,"
            "\"source\":null,\"policy\":null,\"deadline\":null,\"remaining\":null,\"blocked\":null,"
            "\"claimDeletion\":null,\"state\":\"\",\"lifecycleAction\":null}]");
    world_close(&w);
}

static void expect_policy(struct world *w, const char *wanted) {
    nc_auto_value struct nc_value *list = nc_control_report(w->c, w->now_usec);
    const char *policy = nc_value_get_string(list->items[0], "policy");

    expect(policy ? policy : "", wanted);
}

/* Nothing is done about such a drain status: who looks must see why. */
static void test_status_that_only_reports(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1",
                      "{\"source\":\"maintenance\",\"phase\":\"Detected\",\"policy\":\"report\","
                      "\"deadline\":\"2026-11-22T01:30:00Z\"}"),
           "");
    expect_policy(&w, "report");
    expect(state_of(&w, "n1"), "");
    expect(world_node(&w, "n1",
                      "{\"source\":\"request\",\"phase\":\"Evicting\",\"policy\":\"drain\"}"),
           "");
    expect_policy(&w, "");
    world_close(&w);
}

static void test_states_of_a_relay(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1", NULL), "");
    expect(state_of(&w, "n1"), "");
    (void)world_node(&w, "n1", world_status(&w, "spot", 120));
    expect(state_of(&w, "n1"), "relaying");
    (void)world_answer(&w, 1, NC_CONTROL_DONE);
    expect(state_of(&w, "n1"), "relaying");
    (void)world_answer(&w, 2, NC_CONTROL_DONE);
    expect(state_of(&w, "n1"), "relayed");
    (void)world_node(&w, "n1", "{\"source\":\"request\",\"phase\":\"Evicting\"}");
    expect(state_of(&w, "n1"), "draining");
    (void)world_node(&w, "n1", "{\"source\":\"request\",\"phase\":\"Drained\"}");
    expect(state_of(&w, "n1"), "ending");
    world_close(&w);
}

/* Nobody knows whose machine it is. */
static void test_two_nodes_of_one_machine(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    expect(world_see(&w, NC_CONTROL_CLAIM,
                     "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u1\"},\"status\":{\"providerID\":"
                     "\"aws:///a/i-1\"}}"),
           "");
    for (int i = 1; i <= 2; i++) {
        nc_auto_free char *json = nc_asprintf("{\"metadata\":{\"name\":\"n%d\",\"uid\":\"n%d\"},"
                                              "\"spec\":{\"providerID\":\"aws:///a/i-1\"}}",
                                              i, i);
        expect(world_see(&w, NC_CONTROL_NODE, json), "");
        expect(world_synced(&w, NC_CONTROL_NODE), "");
        nc_auto_value struct nc_value *list = nc_control_report(w.c, w.now_usec);
        for (int n = 0; n < i; n++)
            assert_int_equal(!!nc_value_get_string(list->items[n], "claim"), i == 1);
    }
    world_close(&w);
}

static void test_counts(void **state) {
    struct nc_control_counts n;
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_claim(&w, "c2", "n2", ""), "");
    expect(world_node(&w, "n2", "{\"source\":\"request\",\"phase\":\"Evicting\"}"), "");
    (void)world_node(&w, "n1", world_status(&w, "spot", 120));
    w.now_usec += 300000;
    (void)world_answer(&w, 1, NC_CONTROL_DONE);
    w.now_usec += 200000;
    nc_control_count(w.c, w.now_usec, &n);
    assert_int_equal(n.relaying, 1);
    assert_int_equal(n.draining, 1);
    assert_int_equal(n.in_flight, 1);
    assert_int_equal(nc_histogram_count(&n.relays), 0);
    (void)world_answer(&w, 2, NC_CONTROL_DONE);
    nc_control_count(w.c, w.now_usec, &n);
    assert_int_equal(n.objects[NC_CONTROL_NODE], 2);
    assert_int_equal(n.objects[NC_CONTROL_CLAIM], 2);
    assert_int_equal(n.objects[NC_CONTROL_POOL], 0); /* named, and not there */
    assert_int_equal(n.relaying, 0);
    assert_int_equal(n.in_flight, 0);
    assert_int_equal(nc_histogram_count(&n.relays), 1);
    assert_int_equal(n.relays.sum_usec, 500000);
    assert_int_equal(n.requested[NC_CONTROL_SET_TIMESTAMP], 1);
    assert_int_equal(n.requested[NC_CONTROL_DELETE_CLAIM], 1);
    assert_int_equal(n.requested[NC_CONTROL_EMIT_EVENT], 1);
    assert_int_equal(n.answered[NC_CONTROL_SET_TIMESTAMP][NC_CONTROL_DONE], 1);
    world_close(&w);
}

static void test_metrics(void **state) {
    static const char *const lines[] = {
        "nodeclaim_controller_leads 1\n",
        "nodeclaim_controller_mode{mode=\"karpenter\"} 1\n",
        "nodeclaim_controller_mode{mode=\"standalone\"} 0\n",
        "nodeclaim_controller_objects{kind=\"Node\"} 1\n",
        "nodeclaim_controller_objects{kind=\"NodeClaim\"} 1\n",
        "nodeclaim_controller_invalid_objects_total{kind=\"Node\"} 1\n",
        "nodeclaim_controller_invalid_termination_timestamps_total 1\n",
        "nodeclaim_controller_invalid_drain_statuses_total 0\n",
        "nodeclaim_controller_relay_duration_seconds_bucket{le=\"0.25\"} 0\n",
        "nodeclaim_controller_relay_duration_seconds_bucket{le=\"0.5\"} 1\n",
        "nodeclaim_controller_relay_duration_seconds_sum 0.5\n",
        "nodeclaim_controller_relay_duration_seconds_count 1\n",
        "nodeclaim_controller_write_requests_total{verb=\"delete-claim\"} 1\n",
        "nodeclaim_controller_write_answers_total{verb=\"set-timestamp\",answer=\"done\"} 1\n",
        "nodeclaim_controller_write_answers_total{verb=\"delete-node\",answer=\"refused\"} 0\n",
        "nodeclaim_controller_rate_limited_writes_total 0\n",
        "nodeclaim_controller_waiting 0\n",
        "nodeclaim_controller_in_flight 0\n",
        "nodeclaim_controller_draining 0\n",
        "nodeclaim_controller_drains_total{phase=\"Failed\"} 0\n",
        "nodeclaim_controller_relaying 0\n",
    };
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_see(&w, NC_CONTROL_NODE, "{}"), "");
    expect(world_claim(&w, "c1", "n1",
                       ",\"annotations\":{\"karpenter.sh/nodeclaim-termination-timestamp\":\"x\"}"),
           "");
    (void)world_node(&w, "n1", world_status(&w, "spot", 120));
    w.now_usec += 500000;
    (void)world_answer(&w, 1, NC_CONTROL_DONE);
    (void)world_answer(&w, 2, NC_CONTROL_DONE);
    nc_control_metrics(w.c, w.now_usec, &b);
    for (size_t i = 0; i < NC_ARRAY_SIZE(lines); i++) {
        if (!strstr(b.data, lines[i]))
            print_error("missing: %s in\n%s", lines[i], b.data);
        assert_non_null(strstr(b.data, lines[i]));
    }
    /* Each line is a comment or "name{labels} number". */
    for (char *save = NULL, *l = strtok_r(b.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        assert_true(nc_starts_with(l, "# HELP nodeclaim_controller_")
                    || nc_starts_with(l, "# TYPE nodeclaim_controller_")
                    || nc_starts_with(l, "nodeclaim_controller_"));
    world_close(&w);
}

static void expect_text(const char *json, size_t room, const char *wanted) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    nc_auto_value struct nc_value *v = NULL;

    if (json)
        assert_true(nc_json_parse(json, strlen(json), &v, NULL) >= 0);
    nc_control_text(v, room, &b);
    expect(b.data, wanted);
}

static void test_text(void **state) {
    static const char nodes[] =
        "[{\"node\":\"ip-1\",\"claim\":\"c1\",\"pool\":null,\"state\":\"relayed\","
        "\"phase\":\"Evicting\",\"source\":\"spot\",\"policy\":null,"
        "\"deadline\":\"2026-11-22T02:02:00Z\",\"remaining\":7,\"blocked\":\"a/b, c/d\"},"
        "{\"node\":\"ip-22\",\"state\":\"\",\"policy\":\"report\"},{\"node\":\"ip-3\"}]";
    static const char table[] =
        "NODE   CLAIM  POOL  STATE    PHASE     SOURCE  POLICY  DEADLINE                    LEFT  "
        "BLOCKED\n"
        "ip-1   c1     -     relayed  Evicting  spot    -       2026-11-22T02:02:00Z        7     "
        "a/b, c/d\n"
        "ip-22  -      -     -        -         -       report  -                           -     "
        "-\n"
        "ip-3   -      -     -        -         -       -       -                           -     "
        "-\n";

    (void)state;
    expect_text(NULL, 0, "no nodes\n");
    expect_text("{}", 0, "no nodes\n");
    expect_text("[]", 0, "no nodes\n");
    expect_text(nodes, 0, table);
    expect_text(nodes, 97, table);
    expect_text(nodes, 96,
                "NODE   STATE    PHASE     LEFT  \n"
                "ip-1   relayed  Evicting  7     \n"
                "  claim c1, source spot, deadline 2026-11-22T02:02:00Z, blocked a/b, c/d\n"
                "ip-22  -        -         -     \n"
                "  policy report\n"
                "ip-3   -        -         -     \n");
}

/* A column that only nodes of a group have. */
static void test_text_of_groups(void **state) {
    (void)state;
    expect_text(
        "[{\"node\":\"n1\",\"state\":\"\",\"lifecycleAction\":null},"
        "{\"node\":\"n2\",\"phase\":\"Drained\",\"lifecycleAction\":\"completed\"}]",
        0,
        "NODE  CLAIM  POOL  STATE  LIFECYCLE  PHASE    SOURCE  POLICY  DEADLINE        LEFT "
        " BLOCKED\n"
        "n1    -      -     -      -          -        -       -       -               -    "
        " -\n"
        "n2    -      -     -      completed  Drained  -       -       -               -    "
        " -\n");
    expect_text("[{\"node\":\"n2\",\"lifecycleAction\":\"completed\"}]", 20,
                "NODE  STATE  PHASE  LEFT  \n"
                "n2    -      -      -     \n"
                "  lifecycleAction completed\n");
}

/* Whatever was read back: bounded, and nothing that a terminal would obey. */
static void test_hostile_text(void **state) {
    nc_auto_free char *many = nc_calloc(1, 10001);
    nc_auto_free char *json = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    nc_auto_value struct nc_value *v = NULL;

    (void)state;
    memset(many, 'x', 10000);
    json = nc_asprintf("[7,null,[],{\"node\":{}},{\"node\":\"\\u001b[31m\\u0085\\n%s\",\"blocked\":"
                       "\"%s\",\"remaining\":1.5}]",
                       many, many);
    assert_true(nc_json_parse(json, strlen(json), &v, NULL) >= 0);
    nc_control_text(v, 0, &b);
    assert_true(b.len < 4000);
    for (size_t i = 0; i < b.len; i++)
        assert_true(b.data[i] == '\n' || (b.data[i] >= ' ' && b.data[i] <= '~'));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_node_by_name),
        cmocka_unit_test(test_status_that_only_reports),
        cmocka_unit_test(test_states_of_a_relay),
        cmocka_unit_test(test_two_nodes_of_one_machine),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_text_of_groups),
        cmocka_unit_test(test_hostile_text),
    };

    return run_group(tests, NULL, NULL);
}
