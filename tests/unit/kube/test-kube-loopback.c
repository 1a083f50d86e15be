/*
 * What a bootstrap asks of an API server, and watches, over the real transport.
 */
#include "groups.h"
#include "kube-world.h"
#include "virtual-clock.h"

#include <signal.h>

static int give_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    const char *const *tokens = userdata;

    (void)err;
    *ret_token = nc_strdup(tokens[refuse ? 1 : 0]);
    return 0;
}

static void test_identity(void **state) {
    static const char *const tokens[] = {"expired", "admin-token-of-the-test"};
    static const char *const wrong[] = {"expired", "expired as well"};
    struct nc_identity who = {0};
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    if (nc_kube_whoami(world.kube, TIMEOUT, &who, &status, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(who.username, "system:node:node-a");
    assert_true(status.date_usec > 0 && status.received_usec > 0);
    nc_identity_done(&who);

    struct nc_kube *k =
        world_client(NULL, NULL, world.ca.data, give_token, (void *)(uintptr_t)tokens);
    assert_int_equal(nc_kube_whoami(k, TIMEOUT, &who, &status, &err),
                     0); /* the second token is good */
    assert_string_equal(who.username, "admin");
    nc_identity_done(&who);
    nc_kube_free(k);

    k = world_client(NULL, NULL, world.ca.data, give_token, (void *)(uintptr_t)wrong);
    assert_true(nc_kube_whoami(k, TIMEOUT, &who, &status, &err) < 0);
    nc_kube_free(k);
    assert_int_equal(status.http, 401);
    assert_int_equal(err.class, NC_ERR_AUTH);

    k = world_client(world.cert, world.key, NULL, NULL,
                     NULL); /* the system's roots do not know this server */
    assert_true(nc_kube_whoami(k, TIMEOUT, &who, &status, &err) < 0);
    nc_kube_free(k);
    assert_int_equal(status.http, 0);
    assert_int_equal(err.class, NC_ERR_AUTH);
}

static int get(const char *name, struct nc_value **ret, struct nc_kube_status *status,
               struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path(name, NULL);
    const struct nc_kube_call c = {
        .what = "get node", .method = "GET", .path = path, .timeout_usec = TIMEOUT};

    return nc_kube_perform(world.kube, &c, ret, status, err);
}

static int patch(const char *sub, enum nc_kube_patch kind, struct nc_value *body,
                 struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path("node-a", sub);
    nc_auto_value struct nc_value *owned = body;
    const struct nc_kube_call c = {.what = "patch node",
                                   .method = "PATCH",
                                   .path = path,
                                   .body = owned,
                                   .patch = kind,
                                   .timeout_usec = TIMEOUT};

    return nc_kube_perform(world.kube, &c, NULL, NULL, err);
}

static void test_node(void **state) {
    nc_auto_value struct nc_value *node = NULL;
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_true(get("node-b", &node, &status, &err) < 0);
    assert_int_equal(status.http, 403);
    assert_string_equal(status.reason, "Forbidden");
    err = (struct nc_err)NC_ERR_INIT;
    if (patch("status", NC_KUBE_PATCH_STRATEGIC,
              nc_node_condition_patch(&(struct nc_node_condition){
                  .type = "BootstrapComplete",
                  .is_true = true,
                  .reason = "Ready",
                  .message = "done",
                  .now_usec = 1700000000000000u,
              }),
              &err)
            < 0
        || patch(NULL, NC_KUBE_PATCH_MERGE,
                 nc_node_annotation_patch("nodeclaimd.io/bootstrap", "{}"), &err)
               < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(get("node-a", &node, &status, &err), 0);
    assert_true(nc_node_is_ready(node, NULL, NULL)); /* kubelet's condition is still there */
    assert_string_equal(nc_value_get_string(nc_node_condition(node, "BootstrapComplete"), "reason"),
                        "Ready");
    assert_string_equal(
        nc_value_get_string(nc_value_path(node, "metadata.annotations"), "nodeclaimd.io/bootstrap"),
        "{}");
}

static void test_claim_and_event(void **state) {
    struct nc_label label = {.key = (char[]){"karpenter.sh/nodepool"},
                             .value = (char[]){"default"}};
    struct nc_claim_search search = {
        .provider_id = ID, .labels = &label, .n_labels = 1, .timeout_usec = TIMEOUT};
    struct nc_claim claim = {0};
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;
    char *name = NULL;

    (void)state;
    if (nc_claim_find(world.kube, &search, &claim, &status, &err) != 1)
        fail_msg("%s", err.msg);
    assert_string_equal(claim.name, "default-x7k2q");
    struct nc_event e = {.kind = "NodeClaim",
                         .api_version = claim.api_version,
                         .name = claim.name,
                         .uid = claim.uid,
                         .warning = true,
                         .reason = "BootstrapFailed",
                         .message = "config: no cluster",
                         .host = "node-a",
                         .first_usec = 1700000000000000u,
                         .count = 1};
    if (nc_event_create(world.kube, &e, TIMEOUT, &name, &err) < 0
        || nc_event_create(world.kube, &e, TIMEOUT, NULL, &err) < 0)
        fail_msg("%s", err.msg); /* the second one is there already, which is as good */
    e.count = 2;
    assert_int_equal(nc_event_update(world.kube, name, &e, TIMEOUT, &err), 0);
    free(name);
    nc_claim_done(&claim);
    search =
        (struct nc_claim_search){.provider_id = "aws:///us-west-2a/i-1", .timeout_usec = TIMEOUT};
    assert_int_equal(nc_claim_find(world.kube, &search, &claim, &status, &err), 0);
}

static void touch(const char *value) {
    struct nc_err err = NC_ERR_INIT;

    if (patch(NULL, NC_KUBE_PATCH_MERGE, nc_node_annotation_patch("nodeclaimd.io/test", value),
              &err)
        < 0)
        fail_msg("%s", err.msg);
}

static struct nc_watch *watch(uint64_t idle_timeout_usec, struct observed *h) {
    nc_auto_free char *selector = nc_kube_node_selector("node-a");
    const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                       .selector = selector,
                                       .idle_timeout_usec = idle_timeout_usec,
                                       .metadata_only = true,
                                       .event = observed_event,
                                       .failed = observed_failure,
                                       .userdata = h};
    struct nc_watch *w = NULL;

    assert_int_equal(nc_watch_new(world.kube, world.loop, &o, &w, NULL), 0);
    world_wait_for("the list", &h->synced, 1);
    assert_int_equal(h->added, 1);
    return w;
}

static void test_watch(void **state) {
    struct observed h = {0};
    struct nc_watch *w = watch(0, &h);

    (void)state;
    touch("1");
    world_wait_for("a change", &h.modified, 1);

    /* The server goes away and comes back: nothing is lost, nothing comes twice. */
    world_turn("POST", "/refuse", NULL);
    world_wait_for("the failure", &h.failed, 2);
    world_turn("POST", "/listen", NULL);
    touch("2");
    world_wait_for("the change after the failure", &h.modified, 2);
    assert_int_equal(h.synced, 1);

    /* While no stream can be opened, the version goes: a new list, and nobody vanished. */
    const unsigned failed = h.failed;
    world_turn("PUT", "/faults", "[{\"kind\":\"status\",\"path\":\"watch=true\"}]");
    world_turn("POST", "/refuse", NULL);
    world_turn("POST", "/listen", NULL);
    world_wait_for("the refusals", &h.failed, failed + 2);
    touch("3");
    world_turn("POST", "/compact", NULL);
    world_turn("POST", "/heal", NULL);
    world_wait_for("the second list", &h.synced, 2);
    assert_int_equal(h.modified, 3);
    assert_int_equal(h.added, 1);
    assert_int_equal(h.deleted, 0);
    nc_watch_free(w);
}

/* Half a minute of this machine's time; each fifth of a second in which nothing comes is `worth` so
 * much of the watch's. */
static void wait_long_for(const unsigned *count, unsigned wanted, uint64_t worth_usec) {
    for (unsigned quiet = 0; *count < wanted && quiet < 150;) {
        const int r = sd_event_run(world.loop, 200000);

        assert_true(r >= 0);
        if (r == 0) {
            clock_skip(worth_usec - 200000);
            quiet++;
        }
    }
    assert_true(*count >= wanted);
}

/* No answer begins: each stream is given ten seconds for that. */
static void test_silence(void **state) {
    struct observed h = {0};
    struct nc_watch *w;

    (void)state;
    world_turn("PUT", "/faults", "[{\"kind\":\"silent\",\"path\":\"watch=true\"}]");
    w = watch(200000, &h);
    wait_long_for(&h.failed, 2, 2000000);
    assert_non_null(strstr(h.last, "silent"));
    world_turn("POST", "/heal", NULL);
    touch("4");
    wait_long_for(&h.modified, 1, 200000);
    nc_watch_free(w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),        cmocka_unit_test(test_node),
        cmocka_unit_test(test_claim_and_event), cmocka_unit_test(test_watch),
        cmocka_unit_test(test_silence),
    };

    signal(SIGPIPE, SIG_IGN);
    return run_group(tests, world_set_up, world_tear_down);
}
