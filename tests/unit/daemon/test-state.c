/*
 * state.json: what is written comes back, what is broken or another node's is put aside, and
 * nothing is written that says the same again. The lifecycle is the real one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon.h"
#include "groups.h"
#include "log.h"
#include "nc/file.h"
#include "nc/mem.h"

#define NOW 1767323045000000ull

struct world {
    struct nc_app app;
    struct nc_daemon d;
    char root[64];
    char *path, *bad;
};

static void born(struct world *w, const char *boot_id) {
    w->d = (struct nc_daemon){.app = &w->app, .boot_id = nc_strdup(boot_id)};
    w->d.node_name = nc_strdup("node-1");
    w->d.rules = (struct nc_lifecycle_rules){
        .drain = {.policy[NC_SOURCE_SPOT] = NC_POLICY_DRAIN, .mode = NC_DRAIN_AUTO},
        .max_in_flight = NC_DRAIN_MAX_IN_FLIGHT,
        .seed = 1};
    w->d.life = nc_lifecycle_new(&w->d.rules);
}

static void died(struct world *w) {
    nc_daemon_done(&w->d);
    nc_daemon_announce_done(&w->d);
    nc_event_queue_done(&w->d);
    free(w->d.boot_id);
    free(w->d.node_name);
    free(w->d.state.saved);
    free(w->d.state.error);
    free(w->d.state.instance);
    w->d.state.former = nc_value_free(w->d.state.former);
    nc_facts_done(&w->d.gather.facts);
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    (void)snprintf(w->root, sizeof(w->root), "/tmp/nodeclaimd-test-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    w->app.opts.root = w->root;
    w->path = nc_asprintf("%s" NC_STATE_FILE, w->root);
    w->bad = nc_asprintf("%s.bad", w->path);
    born(w, "boot-1");
    assert_int_equal(nc_log_set_level("error"), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    static const char *const folders[] = {"/var/lib/nodeclaimd", "/var/lib", "/var", ""};
    struct world *w = *state;

    died(w);
    (void)unlink(w->path);
    (void)unlink(w->bad);
    for (size_t i = 0; i < NC_ARRAY_SIZE(folders); i++) {
        nc_auto_free char *folder = nc_asprintf("%s%s", w->root, folders[i]);
        (void)rmdir(folder);
    }
    free(w->path);
    free(w->bad);
    free(w);
    return 0;
}

static void notice(struct world *w, enum nc_source source, enum nc_policy policy) {
    struct nc_notice n = {.source = source, .policy = policy};
    struct nc_lifecycle_event start = {
        .kind = NC_LIFECYCLE_START, .now_usec = NOW, .rules = &w->d.rules};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NOTICE, .now_usec = NOW, .notice = &n};
    struct nc_lifecycle_actions actions = {0};

    (void)snprintf(n.id, sizeof(n.id), "%s-1", nc_source_name(source));
    nc_lifecycle_step(w->d.life, &start, &actions);
    nc_lifecycle_step(w->d.life, &e, &actions);
    nc_lifecycle_actions_done(&actions);
}

static bool is_active(const struct world *w, enum nc_source source) {
    struct nc_lifecycle_view view;

    nc_lifecycle_get_view(w->d.life, NOW, &view);
    return view.is_active[source];
}

static void write_state(const struct world *w, const char *text) {
    assert_int_equal(nc_file_write(w->path, text, strlen(text), 0600, NULL), 0);
}

static int load(struct world *w) {
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_daemon_state_load(&w->d, &err);

    assert_true(r >= 0 || err.class != NC_ERR_NONE);
    return r;
}

static void test_comes_back_after_a_restart(void **state) {
    struct world *w = *state;
    struct stat st;

    notice(w, NC_SOURCE_SPOT, 0);
    nc_daemon_state_save(&w->d);
    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    died(w);
    born(w, "boot-1");
    assert_int_equal(load(w), 1);
    assert_true(is_active(w, NC_SOURCE_SPOT));
}

/* What IMDS, or the API server, has told of this machine. */
static void known(struct world *w, const char *instance, const char *node) {
    nc_facts_done(&w->d.gather.facts);
    w->d.gather.facts.instance_id = nc_strdup(instance);
    free(w->d.node_name);
    w->d.node_name = nc_strdup(node);
    nc_daemon_state_adopt(&w->d);
}

/* Another boot of the state that a machine with these left, which says nothing of itself yet. */
static void rebooted(struct world *w, const char *instance, const char *node) {
    known(w, instance, node);
    notice(w, NC_SOURCE_SPOT, 0);
    notice(w, NC_SOURCE_OPERATOR, NC_POLICY_DRAIN);
    nc_daemon_state_save(&w->d);
    died(w);
    born(w, "boot-2");
    known(w, NULL, NULL);
    assert_int_equal(load(w), 0);
    assert_false(is_active(w, NC_SOURCE_SPOT));
    assert_false(is_active(w, NC_SOURCE_OPERATOR));
}

static void test_after_a_reboot_only_the_operator_is_remembered(void **state) {
    struct world *w = *state;

    rebooted(w, "i-1", "node-1");
    known(w, NULL, "node-1"); /* IMDS is away: that alone is not enough */
    assert_false(is_active(w, NC_SOURCE_OPERATOR));
    known(w, "i-1", "node-1");
    assert_true(is_active(w, NC_SOURCE_OPERATOR));
    assert_false(is_active(w, NC_SOURCE_SPOT));
    assert_int_equal(access(w->bad, F_OK), -1);
}

/* IMDS is away over two more boots, of each of which a state is written. */
static void test_a_former_request_waits_for_as_long_as_it_takes(void **state) {
    struct world *w = *state;

    rebooted(w, "i-1", "node-1");
    for (int i = 0; i < 3; i++) {
        w->d.is_state_due = true;
        nc_daemon_state_save(&w->d);
        died(w);
        born(w, i < 2 ? "boot-3" : "boot-4");
        (void)load(w);
        assert_false(is_active(w, NC_SOURCE_OPERATOR));
    }
    known(w, "i-1", "node-1");
    assert_true(is_active(w, NC_SOURCE_OPERATOR));
    nc_daemon_state_save(&w->d);
    died(w);
    born(w, "boot-4");
    (void)load(w); /* the same boot: at once */
    assert_true(is_active(w, NC_SOURCE_OPERATOR));
    nc_daemon_state_save(&w->d); /* and the instance's id is not forgotten */
    died(w);
    born(w, "boot-5");
    (void)load(w);
    known(w, "i-1", "node-1");
    assert_true(is_active(w, NC_SOURCE_OPERATOR));
}

static void test_another_machines_request_is_put_aside(void **state) {
    static const char *const rows[][4] = {
        {"i-1", "node-1", "i-2", NULL},
        {"i-1", "node-1", "i-2", "node-1"},
        {"i-1", "node-1", "i-1", "node-2"},
        {NULL, "node-1", NULL, "node-2"}, /* of a release that did not save the id */
        {NULL, NULL, "i-1", "node-1"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        rebooted(w, rows[i][0], rows[i][1]);
        known(w, rows[i][2], rows[i][3]);
        assert_false(is_active(w, NC_SOURCE_OPERATOR));
        assert_int_equal(access(w->bad, F_OK), 0);
        assert_int_equal(access(w->path, F_OK), -1);
        nc_daemon_state_save(&w->d);
        died(w);
        born(w, "boot-3");
        (void)load(w);
        known(w, "i-1", "node-1");
        assert_false(is_active(w, NC_SOURCE_OPERATOR));
        (void)unlink(w->bad);
        (void)unlink(w->path);
        died(w);
        born(w, "boot-1");
    }
    rebooted(w, NULL, "node-1");
    known(w, "i-1", "node-1");
    assert_true(is_active(w, NC_SOURCE_OPERATOR));
}

/* With nothing requested nothing is lost, and nobody is told. */
static void test_an_image_without_a_request(void **state) {
    struct world *w = *state;

    known(w, "i-1", "node-1");
    notice(w, NC_SOURCE_SPOT, 0);
    nc_daemon_state_save(&w->d);
    died(w);
    born(w, "boot-2");
    known(w, NULL, NULL);
    assert_int_equal(load(w), 0);
    known(w, "i-2", "node-2");
    assert_int_equal(access(w->bad, F_OK), -1);
}

static void test_a_clean_up_is_not_over_before_its_end(void **state) {
    struct world *w = *state;

    w->d.pods.wants_clean_up = true;
    notice(w, NC_SOURCE_SPOT, 0);
    nc_daemon_state_save(&w->d);
    died(w);
    born(w, "boot-1");
    assert_int_equal(load(w), 0);
    assert_true(is_active(w, NC_SOURCE_SPOT)); /* all else is as after a restart */
    w->d.pods.wants_clean_up = false;
    nc_daemon_state_save(&w->d);
    died(w);
    born(w, "boot-1");
    assert_int_equal(load(w), 1);
}

/* A gate that has opened is open for its boot alone. */
static void test_gate_is_of_its_boot(void **state) {
    struct world *w = *state;

    w->d.fit = (struct nc_fit_gate){.is_open = true, .since_usec = NOW, .opened_usec = NOW};
    nc_daemon_state_save(&w->d);
    died(w);
    born(w, "boot-1");
    assert_int_equal(load(w), 1);
    assert_true(w->d.fit.is_open);
    assert_int_equal(w->d.fit.since_usec, NOW);
    died(w);
    born(w, "boot-2");
    assert_int_equal(load(w), 0);
    assert_false(w->d.fit.is_open);
    assert_int_equal(w->d.fit.since_usec, 0);
}

static void test_none_is_no_failure(void **state) {
    struct world *w = *state;

    assert_int_equal(load(w), 0);
    assert_int_equal(access(w->bad, F_OK), -1);
}

static void test_broken_ones_are_put_aside(void **state) {
    static const char *const texts[] = {
        "{",
        "[]",
        "{}",
        "{\"schema\":2,\"boot_id\":\"boot-1\",\"node\":\"node-1\",\"life\":{}}",
        "{\"schema\":\"1\",\"boot_id\":\"boot-1\",\"life\":{}}",
        "{\"schema\":1,\"boot_id\":\"boot-1\",\"node\":\"another\",\"life\":{}}",
        "{\"schema\":1,\"boot_id\":\"boot-1\",\"node\":\"node-1\",\"life\":[]}",
        "{\"schema\":1,\"boot_id\":\"boot-1\",\"node\":\"node-1\"}",
    };
    struct world *w = *state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++) {
        write_state(w, texts[i]);
        assert_int_equal(load(w), 0);
        assert_int_equal(access(w->path, F_OK), -1);
        assert_int_equal(access(w->bad, F_OK), 0);
        (void)unlink(w->bad);
    }
}

/* By a power failure: it had no request, so nothing of it is lost. */
static void test_emptied(void **state) {
    struct world *w = *state;

    write_state(w, "");
    assert_int_equal(load(w), 0);
    assert_int_equal(access(w->bad, F_OK), -1);
}

static void test_too_large_is_put_aside(void **state) {
    struct world *w = *state;
    const size_t n = (size_t)300 << 10;
    nc_auto_free char *text = nc_malloc(n);

    memset(text, ' ', n);
    assert_int_equal(nc_file_write(w->path, text, n, 0600, NULL), 0);
    assert_int_equal(load(w), 0);
    assert_int_equal(access(w->bad, F_OK), 0);
}

static void test_written_only_when_it_differs(void **state) {
    struct world *w = *state;

    nc_daemon_state_save(&w->d);
    assert_int_equal(unlink(w->path), 0);
    w->d.is_state_due = true;
    nc_daemon_state_save(&w->d);
    assert_false(w->d.is_state_due);
    assert_int_equal(access(w->path, F_OK), -1);
    notice(w, NC_SOURCE_SPOT, 0);
    nc_daemon_state_save(&w->d);
    assert_int_equal(access(w->path, F_OK), 0);
}

/* A disk that is full stops nothing, and what could not be written is tried again. */
static void test_a_write_that_fails(void **state) {
    struct world *w = *state;
    nc_auto_free char *lib = nc_asprintf("%s/var", w->root);

    assert_int_equal(nc_file_write(lib, "", 0, 0600, NULL), 0); /* no folder can be made */
    nc_daemon_state_save(&w->d);
    assert_non_null(strstr(w->d.state.error, "Not a directory; a reboot forgets a drain"));
    assert_true(w->d.is_status_due);
    w->d.is_status_due = false;
    nc_daemon_state_save(&w->d);
    assert_false(w->d.is_status_due); /* nothing new */
    assert_true(w->d.is_state_due);
    assert_int_equal(unlink(lib), 0);
    nc_daemon_state_save(&w->d);
    assert_null(w->d.state.error);
    assert_true(w->d.is_status_due);
    assert_int_equal(access(w->path, F_OK), 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_comes_back_after_a_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_after_a_reboot_only_the_operator_is_remembered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_former_request_waits_for_as_long_as_it_takes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_another_machines_request_is_put_aside, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_image_without_a_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_clean_up_is_not_over_before_its_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_gate_is_of_its_boot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_none_is_no_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_broken_ones_are_put_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_emptied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_large_is_put_aside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_written_only_when_it_differs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_write_that_fails, set_up, tear_down),
    };

    return run_group(tests, NULL, NULL);
}
