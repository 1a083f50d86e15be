/*
 * Replacement first: which pods wait, whose they are, what their Deployment can do; and when the
 * step requests it. Rule C11.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/mem.h"
#include "nc/names.h"
#include "nc/replacement.h"

#define NOW WORLD_START
#define SINCE (NOW - 5 * WORLD_SEC)

/* JSON in single quotes. */
static struct nc_value *js(const char *text) {
    nc_auto_free char *copy = nc_strdup(text);
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    if (nc_json_parse(copy, strlen(copy), &v, &err) < 0)
        fail_msg("%s: %s", err.msg, text);
    return v;
}

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

/* ---- pods */

#define FIRST "'annotations':{'nodeclaimd.io/replacement-first':'true'}"
#define OWNED(version, kind, more)                                                                 \
    "'ownerReferences':[{'apiVersion':'" version "','kind':'" kind                                 \
    "','name':'web-1','uid':'u-set'" more "}]"
#define BY_SET OWNED("apps/v1", "ReplicaSet", ",'controller':true")
#define POD(more) "{'metadata':{'namespace':'web','name':'a','uid':'u-a'," more "}}"

static void test_pods(void **state) {
    static const struct {
        const char *pod, *expected; /* its set; NULL: it does not wait; "": it has none */
    } rows[] = {
        {POD(FIRST "," BY_SET), "web-1 u-set"},
        {POD(FIRST), ""},
        {POD(FIRST "," OWNED("apps/v1", "ReplicaSet", "")), ""},
        {POD(FIRST "," OWNED("apps/v1", "ReplicaSet", ",'controller':'true'")), ""},
        {POD(FIRST "," OWNED("apps/v1", "StatefulSet", ",'controller':true")), ""},
        {POD(FIRST "," OWNED("apps/v2", "ReplicaSet", ",'controller':true")), ""},
        {POD(FIRST ",'ownerReferences':{}"), ""},
        {POD(FIRST ",'ownerReferences':[{'apiVersion':'apps/v1','kind':'ReplicaSet','name':'../x',"
                   "'uid':'u','controller':true}]"),
         ""},
        {POD(BY_SET), NULL},
        {POD("'annotations':{'nodeclaimd.io/replacement-first':true}," BY_SET), NULL},
        {POD("'annotations':{'nodeclaimd.io/replacement-first':'yes'}," BY_SET), NULL},
        {POD(FIRST ",'deletionTimestamp':'2026-11-22T02:00:00Z'," BY_SET), NULL},
        {"{'metadata':{'namespace':'other','name':'a','uid':'u-a'," FIRST "," BY_SET "}}", NULL},
        {"{'metadata':{'namespace':'web','name':'a/b','uid':'u-a'," FIRST "," BY_SET "}}", NULL},
        {"{'metadata':{'namespace':'web','name':'a'," FIRST "," BY_SET "}}", NULL},
        {"{'metadata':{'namespace':'web','name':'a','uid':'u-a'," FIRST "," BY_SET
         "},'status':{'phase':'Running'}}",
         "web-1 u-set"},
        {"{'metadata':{'namespace':'web','name':'a','uid':'u-a'," FIRST "," BY_SET
         "},'status':{'phase':'Failed'}}",
         NULL},
        {"{'metadata':{'namespace':'web','name':'a','uid':'u-a'," FIRST "," BY_SET
         "},'status':{'phase':'Succeeded'}}",
         NULL},
        {"{'metadata':7}", NULL},
        {"7", NULL},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *pod = js(rows[i].pod);
        struct nc_replaced_pod read = {0};
        print_message("# %s\n", rows[i].pod);
        assert_int_equal(nc_replacement_read_pod(pod, "web", &read), rows[i].expected != NULL);
        if (rows[i].expected) {
            nc_auto_free char *set =
                read.set ? nc_asprintf("%s %s", read.set, read.set_uid) : nc_strdup("");
            assert_string_equal(read.name, "a");
            assert_string_equal(read.uid, "u-a");
            assert_string_equal(set, rows[i].expected);
        }
        nc_replaced_pod_done(&read);
    }
}

static void test_owner(void **state) {
#define SET(uid, kind)                                                                             \
    "{'metadata':{'uid':'" uid "','ownerReferences':[{'apiVersion':'apps/v1','kind':'" kind        \
    "','name':'web','uid':'u-web','controller':true}]}}"
    nc_auto_value struct nc_value *set = js(SET("u-set", "Deployment"));
    nc_auto_value struct nc_value *of_another = js(SET("u-set", "Rollout"));
    nc_auto_value struct nc_value *bare = js("{'metadata':{'uid':'u-set'}}");
    struct nc_replacement_owner owner = {0};

    (void)state;
    assert_true(nc_replacement_read_owner(set, "u-set", &owner));
    assert_string_equal(owner.name, "web");
    assert_string_equal(owner.uid, "u-web");
    nc_replacement_owner_done(&owner);
    assert_false(nc_replacement_read_owner(set, "u-of-before", &owner));
    assert_false(nc_replacement_read_owner(of_another, "u-set", &owner));
    assert_false(nc_replacement_read_owner(bare, "u-set", &owner));
    assert_null(owner.name);
}

/* ---- the Deployment */

#define ROLLING(surge, unavailable)                                                                \
    "'strategy':{'type':'RollingUpdate','rollingUpdate':{'maxSurge':" surge                        \
    ",'maxUnavailable':" unavailable "}}"
#define TEMPLATE(more) ",'template':{'metadata':{" FIRST_AND(more) "}}"
#define FIRST_AND(more) "'annotations':{'nodeclaimd.io/replacement-first':'true'" more "}"
#define AGO(time) TEMPLATE(",'nodeclaimd.io/restarted-at':" time)
#define USUAL "'replicas':1," ROLLING("'25%'", "'25%'")
#define USUAL_TEMPLATE USUAL TEMPLATE("")

static void test_judge(void **state) {
    static const struct {
        const char *spec;
        enum nc_replacement_answer expected;
        const char *why; /* a part of it */
    } rows[] = {
        {USUAL, NC_REPLACEMENT_RESTART, NULL},
        {USUAL TEMPLATE(",'a':'b'"), NC_REPLACEMENT_RESTART, NULL},
        /* a pod alone that was annotated decides nothing about its Deployment */
        {USUAL ",'template':{'metadata':{'annotations':{'a':'b'}}}", NC_REPLACEMENT_IMPOSSIBLE,
         "pod template"},
        {USUAL ",'template':{'metadata':{'annotations':{'nodeclaimd.io/replacement-first':true}}}",
         NC_REPLACEMENT_IMPOSSIBLE, "pod template"},
        {USUAL ",'template':{}", NC_REPLACEMENT_IMPOSSIBLE, "pod template"},
        {USUAL ",'paused':false", NC_REPLACEMENT_RESTART, NULL},
        {"'replicas':1," ROLLING("1", "0"), NC_REPLACEMENT_RESTART, NULL},
        {"'replicas':1," ROLLING("'1%'", "'99%'"), NC_REPLACEMENT_RESTART, NULL},
        {"'replicas':2," ROLLING("1", "0"), NC_REPLACEMENT_IMPOSSIBLE, "exactly one replica"},
        {"'replicas':0," ROLLING("1", "0"), NC_REPLACEMENT_IMPOSSIBLE, "exactly one replica"},
        {"'replicas':'1'," ROLLING("1", "0"), NC_REPLACEMENT_IMPOSSIBLE, "exactly one replica"},
        {ROLLING("1", "0"), NC_REPLACEMENT_IMPOSSIBLE, "exactly one replica"},
        {USUAL ",'paused':true", NC_REPLACEMENT_IMPOSSIBLE, "paused"},
        {"'replicas':1,'strategy':{'type':'Recreate'}", NC_REPLACEMENT_IMPOSSIBLE,
         "not RollingUpdate"},
        {"'replicas':1", NC_REPLACEMENT_IMPOSSIBLE, "not RollingUpdate"},
        {"'replicas':1,'strategy':{'type':'RollingUpdate'}", NC_REPLACEMENT_IMPOSSIBLE, "maxSurge"},
        {"'replicas':1," ROLLING("0", "1"), NC_REPLACEMENT_IMPOSSIBLE, "maxSurge"},
        {"'replicas':1," ROLLING("'0%'", "1"), NC_REPLACEMENT_IMPOSSIBLE, "maxSurge"},
        {"'replicas':1," ROLLING("'%'", "0"), NC_REPLACEMENT_IMPOSSIBLE, "maxSurge"},
        {"'replicas':1," ROLLING("-1", "0"), NC_REPLACEMENT_IMPOSSIBLE, "maxSurge"},
        {"'replicas':1," ROLLING("'1'", "0"), NC_REPLACEMENT_IMPOSSIBLE, "maxSurge"},
        {"'replicas':1," ROLLING("1", "1"), NC_REPLACEMENT_IMPOSSIBLE, "maxUnavailable"},
        {"'replicas':1," ROLLING("1", "'100%'"), NC_REPLACEMENT_IMPOSSIBLE, "maxUnavailable"},
        {"'replicas':1," ROLLING("1", "null"), NC_REPLACEMENT_IMPOSSIBLE, "maxUnavailable"},
        /* restarted-at: since this drain began (5 s ago), before, much before, garbage */
        {USUAL AGO("'2026-11-22T01:59:55Z'"), NC_REPLACEMENT_DONE, NULL},
        {USUAL AGO("'2026-11-22T01:59:59Z'"), NC_REPLACEMENT_DONE, NULL},
        {USUAL AGO("'2099-01-01T00:00:00Z'"), NC_REPLACEMENT_DONE, NULL},
        {USUAL AGO("'2026-11-22T01:59:54Z'"), NC_REPLACEMENT_LATER, NULL},
        {USUAL AGO("'2026-11-22T01:50:01Z'"), NC_REPLACEMENT_LATER, NULL},
        {USUAL AGO("'2026-11-22T01:50:00Z'"), NC_REPLACEMENT_RESTART, NULL},
        {USUAL AGO("'soon'"), NC_REPLACEMENT_IMPOSSIBLE, "not a time"},
        {USUAL AGO("7"), NC_REPLACEMENT_IMPOSSIBLE, "not a time"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text =
            nc_asprintf("{'metadata':{'uid':'u-web','resourceVersion':'7'},'spec':{%s%s}}",
                        rows[i].spec, strstr(rows[i].spec, "'template'") ? "" : TEMPLATE(""));
        nc_auto_value struct nc_value *v = js(text), *patch = NULL;
        const struct nc_replacement_case c = {v, "u-web", SINCE, NOW};
        const char *why = NULL;
        print_message("# %s\n", rows[i].spec);
        assert_int_equal(nc_replacement_judge(&c, &why, &patch), rows[i].expected);
        assert_int_equal(patch != NULL, rows[i].expected == NC_REPLACEMENT_RESTART);
        assert_int_equal(why != NULL, rows[i].why != NULL);
        if (why && !strstr(why, rows[i].why))
            fail_msg("%s", why);
    }
}

/* Where it was changed meanwhile the patch is refused, and it is another one by its uid. */
static void test_patch(void **state) {
    nc_auto_value struct nc_value *v =
        js("{'metadata':{'uid':'u-web','resourceVersion':'7'},'spec':{" USUAL_TEMPLATE "}}");
    nc_auto_value struct nc_value *patch = NULL;
    const struct nc_replacement_case c = {v, "u-web", SINCE, NOW};
    struct nc_buf b = NC_BUF_INIT;
    const char *why = NULL;

    (void)state;
    assert_int_equal(nc_replacement_judge(&c, &why, &patch), NC_REPLACEMENT_RESTART);
    nc_json_write(&b, patch, 0);
    assert_string_equal(b.data,
                        "{\"metadata\":{\"uid\":\"u-web\",\"resourceVersion\":\"7\"},\"spec\":{"
                        "\"template\":{\"metadata\":{\"annotations\":{"
                        "\"nodeclaimd.io/restarted-at\":\"2026-11-22T02:00:00Z\"}}}}}");
    nc_buf_done(&b);
}

static void test_another_deployment(void **state) {
    static const char *const rows[] = {
        "{'metadata':{'uid':'u-new','resourceVersion':'7'},'spec':{" USUAL "}}",
        "{'metadata':{'uid':'u-web'},'spec':{" USUAL "}}",
        "{'metadata':{'uid':'u-web','resourceVersion':''},'spec':{" USUAL "}}",
        "{'metadata':{'uid':'u-web','resourceVersion':'7','deletionTimestamp':'x'},"
        "'spec':{" USUAL "}}",
        "{}",
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *v = js(rows[i]), *patch = NULL;
        const struct nc_replacement_case c = {v, "u-web", SINCE, NOW};
        const char *why = NULL;
        assert_int_equal(nc_replacement_judge(&c, &why, &patch), NC_REPLACEMENT_GONE);
        assert_null(patch);
    }
}

/* Whatever a node claims, and however often: one restart in the pause. */
static void test_hostile_node(void **state) {
    uint64_t restarted_usec = 0, n = 0;

    (void)state;
    for (uint64_t now = NOW; now < NOW + 3600 * WORLD_SEC; now += 7 * WORLD_SEC) {
        nc_auto_free char *text =
            nc_asprintf("{'metadata':{'uid':'u-web','resourceVersion':'7'},'spec':{"
                        "'replicas':1," ROLLING("1", "0") AGO("'%s'") "}}",
                        world_time(restarted_usec));
        nc_auto_value struct nc_value *v = js(text), *patch = NULL;
        const struct nc_replacement_case c = {v, "u-web", now + (now % 3) * 3600 * WORLD_SEC, now};
        const char *why = NULL;
        if (nc_replacement_judge(&c, &why, &patch) != NC_REPLACEMENT_RESTART)
            continue;
        restarted_usec = now;
        n++;
    }
    assert_int_equal(n, 6);
}

/* ---- the step */

#define WAITS(n, since)                                                                            \
    "{\"source\":\"operator\",\"phase\":\"Evicting\",\"waiting\":" n ",\"waitingSince\":" since "}"
#define SINCE_TEXT "\"2026-11-22T01:59:30Z\""
#define REPLACE1 "replace-pods n1 2026-11-22T01:59:30Z\n"

static void open_replacing(struct world *w) {
    world_open(w);
    w->rules.replaces = true;
    expect(world_rules(w), "");
}

/* At once, and again for as long as it waits. */
static void test_requested_while_it_waits(void **state) {
    struct world w;

    (void)state;
    open_replacing(&w);
    expect(world_node(&w, "n1", WAITS("1", SINCE_TEXT)), REPLACE1);
    expect(world_node(&w, "n1", WAITS("2", SINCE_TEXT)), "");
    expect(world_pass(&w, NC_CONTROL_REPLACE_USEC - 1), "");
    expect(world_pass(&w, 1), REPLACE1);
    expect(world_node(&w, "n1", WAITS("0", SINCE_TEXT)), "");
    expect(world_pass(&w, 100 * WORLD_SEC), "");
    world_close(&w);
}

static void test_not_requested(void **state) {
    struct world w;

    (void)state;
    world_open(&w); /* nothing is named */
    expect(world_node(&w, "n1", WAITS("1", SINCE_TEXT)), "");
    expect(world_pass(&w, 100 * WORLD_SEC), "");
    world_close(&w);
    open_replacing(&w);
    expect(world_node(&w, "n1", WAITS("1", "null")), ""); /* since when? */
    expect(world_node(&w, "n2", world_status(&w, "spot", 120)), "");
    (void)world_lead(&w, false);
    expect(world_node(&w, "n3", WAITS("1", SINCE_TEXT)), "");
    expect(world_pass(&w, 100 * WORLD_SEC), "");
    expect(world_lead(&w, true), "replace-pods n3 2026-11-22T01:59:30Z\n");
    world_close(&w);
}

static void test_unreadable_is_no_wait(void **state) {
    static const char *const rows[] = {
        WAITS("-1", SINCE_TEXT),   WAITS("\"1\"", SINCE_TEXT), WAITS("1000001", SINCE_TEXT),
        WAITS("true", SINCE_TEXT), WAITS("1", "\"soon\""),     WAITS("1", "7"),
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        open_replacing(&w);
        expect(world_node(&w, "n1", rows[i]), "event InvalidDrainStatus Node n1\n");
        world_close(&w);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_owner),
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_patch),
        cmocka_unit_test(test_another_deployment),
        cmocka_unit_test(test_hostile_node),
        cmocka_unit_test(test_requested_while_it_waits),
        cmocka_unit_test(test_not_requested),
        cmocka_unit_test(test_unreadable_is_no_wait),
    };

    return run_group(tests, NULL, NULL);
}
