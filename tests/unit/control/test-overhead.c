/*
 * Memory that Nodes offer less than their NodeClaims count on, by instance type and image.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/str.h"

#define MEBI " \\\"memory\\\":\\\"%s\\\""

/* The NodeClaim "c-NAME" of the Node NAME. */
static void see_claim(struct world *w, const char *name, const char *type, const char *image,
                      const char *memory) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"c-%s\",\"uid\":\"uid-c-%s\",\"creationTimestamp\":"
        "\"2026-11-22T01:00:00Z\",\"labels\":{\"node.kubernetes.io/instance-type\":%s}},"
        "\"status\":{\"nodeName\":\"%s\",\"imageID\":%s,\"allocatable\":{\"memory\":%s}}}",
        name, name, type, name, image, memory);

    assert_string_equal(world_see(w, NC_CONTROL_CLAIM, json), "");
}

/* What its agent has written at the end of its bootstrap. */
static void see_node(struct world *w, const char *name, const char *bootstrap) {
    nc_auto_free char *json =
        nc_asprintf("{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%s\",\"creationTimestamp\":"
                    "\"2026-11-22T01:00:00Z\",\"annotations\":{\"nodeclaimd.io/bootstrap\":\"%s\"},"
                    "\"labels\":{\"node.kubernetes.io/instance-type\":\"what.it.likes\"}}}",
                    name, name, bootstrap);

    assert_string_equal(world_see(w, NC_CONTROL_NODE, json), "");
}

static void pair(struct world *w, const char *name, const char *claims, const char *offers) {
    nc_auto_free char *promised = nc_asprintf("\"%s\"", claims);
    nc_auto_free char *offered =
        nc_asprintf("{\\\"outcome\\\":\\\"succeeded\\\"," MEBI "}", offers);

    see_claim(w, name, "\"m5.large\"", "\"ami-1\"", promised);
    see_node(w, name, offered);
}

static void expect(const struct world *w, const char *wanted) {
    nc_auto_value struct nc_value *list = nc_control_report_overhead(w->c);
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, list, 0);
    assert_string_equal(b.data, wanted);
}

/* The lines that begin so, without what all of them begin with. */
static size_t count_lines(const struct world *w, const char *prefix, const char *wanted) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    nc_auto_free char *line = nc_asprintf("\nnodeclaim_controller_%s%s", prefix, wanted);
    size_t n = 0;

    nc_control_metrics(w->c, w->now_usec, &b);
    for (const char *at = b.data; (at = strstr(at, line)); at++)
        n++;
    return n;
}

static size_t count_samples(const struct world *w, const char *wanted) {
    return count_lines(w, "memory_short_", wanted);
}

static void test_by_type_and_image(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_value struct nc_value *list = NULL;
    struct world w;

    (void)state;
    world_open(&w);
    expect(&w, "[]");
    pair(&w, "n1", "6903Mi", "7134Mi");
    expect(&w, "[]");
    assert_int_equal(count_samples(&w, "nodes{instance_type=\"m5.large\",image=\"ami-1\"} 0\n"), 1);
    assert_int_equal(count_samples(&w, "bytes{instance_type=\"m5.large\",image=\"ami-1\"} 0\n"), 1);
    pair(&w, "n2", "6903Mi", "6900Mi");
    pair(&w, "n3", "6903Mi", "6803Mi");
    see_claim(&w, "n4", "\"c5.large\"", "\"ami-1\"", "\"1Gi\"");
    see_node(&w, "n4", "{\\\"memory\\\":\\\"1000Mi\\\"}");
    expect(&w, "[{\"type\":\"m5.large\",\"image\":\"ami-1\",\"nodes\":3,\"short\":2,\"lacks\":"
               "\"100Mi\"},{\"type\":\"c5.large\",\"image\":\"ami-1\",\"nodes\":1,\"short\":1,"
               "\"lacks\":\"24Mi\"}]");
    assert_int_equal(
        count_samples(&w, "bytes{instance_type=\"m5.large\",image=\"ami-1\"} 104857600\n"), 1);
    list = nc_control_report_overhead(w.c);
    nc_control_text_overhead(list, 0, &text);
    assert_string_equal(text.data, "\nLess memory than NodeClaims count on:\n"
                                   "TYPE      IMAGE  NODES  SHORT  LACKS\n"
                                   "m5.large  ami-1  3      2      100Mi\n"
                                   "c5.large  ami-1  1      1      24Mi\n");
    pair(&w, "n3", "6800Mi", "6803Mi"); /* Karpenter has learned */
    (void)world_gone(&w, NC_CONTROL_NODE, "n4", "uid-n4");
    expect(&w, "[{\"type\":\"m5.large\",\"image\":\"ami-1\",\"nodes\":3,\"short\":1,\"lacks\":"
               "\"3Mi\"}]");
    world_close(&w);
}

/* What is not known is never taken for less. */
static void test_what_is_not_known(void **state) {
    static const char *const offers[] = {"",
                                         "{",
                                         "[]",
                                         "{}",
                                         "{\\\"memory\\\":null}",
                                         "{\\\"memory\\\":\\\"much\\\"}",
                                         "{\\\"memory\\\":\\\"-1Mi\\\"}",
                                         "{\\\"memory\\\":\\\"0\\\"}"};
    static const char *const claims[][3] = {
        {"\"m5.large\"", "\"ami-1\"", "\"plenty\""},
        {"\"m5.large\"", "\"ami-1\"", "{}"},
        {"\"m5.large\"", "\"ami-1\"", "0"},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(offers); i++) {
        world_open(&w);
        see_claim(&w, "n1", "\"m5.large\"", "\"ami-1\"", "\"1Gi\"");
        see_node(&w, "n1", offers[i]);
        assert_int_equal(count_samples(&w, "nodes"), 0);
        world_close(&w);
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(claims); i++) {
        world_open(&w);
        see_claim(&w, "n1", claims[i][0], claims[i][1], claims[i][2]);
        see_node(&w, "n1", "{\\\"memory\\\":\\\"1Mi\\\"}");
        assert_int_equal(count_samples(&w, "nodes"), 0);
        world_close(&w);
    }
}

/* Which are to show metrics: an agent has written there, be it what it may, a while ago. */
static void test_nodes_with_an_agent(void **state) {
    static const char *const others[] = {
        "{\"metadata\":{\"name\":\"n2\",\"uid\":\"uid-n2\","
        "\"creationTimestamp\":\"2026-11-22T01:00:00Z\"}}",
        "{\"metadata\":{\"name\":\"n3\",\"uid\":\"uid-n3\",\"creationTimestamp\":"
        "\"2026-11-22T01:00:00Z\",\"deletionTimestamp\":\"2026-11-22T01:59:00Z\","
        "\"annotations\":{\"nodeclaimd.io/bootstrap\":\"{}\"}}}",
        "{\"metadata\":{\"name\":\"n4\",\"uid\":\"uid-n4\",\"creationTimestamp\":"
        "\"2026-11-22T01:50:01Z\",\"annotations\":{\"nodeclaimd.io/bootstrap\":\"{}\"}}}",
    };
    struct world w;

    (void)state;
    world_open(&w);
    assert_int_equal(count_lines(&w, "agent_nodes ", "0\n"), 1);
    see_node(&w, "n1", "{\\\"memory\\\":\\\"1Mi\\\"}");
    see_node(&w, "n2", "{");
    see_node(&w, "n3", "");
    assert_int_equal(count_lines(&w, "agent_nodes ", "3\n"), 1);
    for (size_t i = 0; i < NC_ARRAY_SIZE(others); i++)
        (void)world_see(&w, NC_CONTROL_NODE, others[i]);
    assert_int_equal(count_lines(&w, "agent_nodes ", "1\n"), 1);
    w.now_usec += 1000000;
    assert_int_equal(count_lines(&w, "agent_nodes ", "2\n"), 1);
    (void)world_gone(&w, NC_CONTROL_NODE, "n1", "uid-n1");
    assert_int_equal(count_lines(&w, "agent_nodes ", "1\n"), 1);
    world_close(&w);
}

/* As many series as there are, and no more than a hundred and one; what has gone makes room. */
static void test_bounded(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < 150; i++) {
            nc_auto_free char *name = nc_asprintf("n%u", i);
            nc_auto_free char *image = nc_asprintf("\"ami-%u-%u\"", turn, i);
            see_claim(&w, name, "\"m5.large\"", image, "\"1Gi\"");
            see_node(&w, name, "{\\\"memory\\\":\\\"1Mi\\\"}");
        }
        assert_int_equal(count_samples(&w, "nodes{"), 101);
        assert_int_equal(count_samples(&w, "nodes{instance_type=\"other\",image=\"other\"} 50\n"),
                         1);
    }
    for (unsigned i = 0; i < 150; i++) {
        nc_auto_free char *name = nc_asprintf("c-n%u", i);
        nc_auto_free char *uid = nc_asprintf("uid-c-n%u", i);
        (void)world_gone(&w, NC_CONTROL_CLAIM, name, uid);
    }
    assert_int_equal(count_samples(&w, "nodes{"), 0);
    see_claim(&w, "n1", "\"\"", "\"ami 1\"", "\"1Gi\"");
    assert_int_equal(count_samples(&w, "nodes{instance_type=\"other\",image=\"other\"} 1\n"), 1);
    world_close(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_type_and_image),
        cmocka_unit_test(test_what_is_not_known),
        cmocka_unit_test(test_nodes_with_an_agent),
        cmocka_unit_test(test_bounded),
    };

    return run_group(tests, NULL, NULL);
}
