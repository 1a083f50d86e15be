/*
 * status.json and metrics.prom under two writers: each keeps what is the other's, whatever the file
 * was, and the daemon does not wait for the lock.
 */
#include "groups.h"
#include "host-test.h"

#include <pthread.h>
#include <sys/file.h>
#include <time.h>

#include "app.h"
#include "nc/clock.h"
#include "nc/version.h"

#define STATUS "/run/nodeclaimd/status.json"
#define METRICS "/run/nodeclaimd/metrics.prom"
#define LOCK "/run/nodeclaimd/.lock"

static int write_as(enum nc_status_writer writer, const char *json, const char *metrics) {
    const struct nc_app app = {.opts = {.root = root}};
    struct nc_buf text = {.data = (char *)(uintptr_t)metrics, .len = metrics ? strlen(metrics) : 0};
    struct nc_value *tree = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (json)
        assert_int_equal(nc_json_parse(json, strlen(json), &tree, &err), 0);
    return nc_status_files_write(&app, writer, tree, metrics ? &text : NULL, &err);
}

/* status.json, on one line. */
static char *read_back(void) {
    const struct nc_app app = {.opts = {.root = root}};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_value struct nc_value *tree = NULL;
    struct nc_buf line = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_status_file_read(&app, &text, &tree, &err) < 0)
        fail_msg("%s", err.msg);
    nc_json_write(&line, tree, 0);
    return nc_buf_steal(&line);
}

static void assert_status(const char *expected) {
    nc_auto_free char *text = read_back();

    assert_string_equal(text, expected);
}

/* What no bootstrap has begun. */
static void assert_our_status(const char *rest) {
    nc_auto_free char *expected =
        nc_asprintf("{\"schema\":2,\"version\":\"%s\",%s", nc_version, rest);

    assert_status(expected);
}

static void test_each_keeps_the_others(void **state) {
    (void)state;
    assert_int_equal(write_as(NC_STATUS_DAEMON, "{\"drain\":1,\"daemon\":2,\"node\":3}", NULL), 0);
    assert_our_status("\"drain\":1,\"daemon\":2}");
    assert_int_equal(
        write_as(NC_STATUS_BOOTSTRAP, "{\"schema\":2,\"node\":\"a\",\"drain\":null}", NULL), 0);
    assert_status("{\"schema\":2,\"node\":\"a\",\"drain\":1,\"daemon\":2}");
    assert_int_equal(write_as(NC_STATUS_DAEMON, "{\"drain\":null,\"daemon\":{\"x\":[]}}", NULL), 0);
    assert_status("{\"schema\":2,\"node\":\"a\",\"drain\":null,\"daemon\":{\"x\":[]}}");
    assert_int_equal(write_as(NC_STATUS_BOOTSTRAP, "{\"node\":\"b\",\"drain\":null}", NULL), 0);
    assert_status("{\"node\":\"b\",\"drain\":null,\"daemon\":{\"x\":[]}}");
    assert_int_equal(mode_of(STATUS) & 07777, 0640);
    assert_int_equal(mode_of(LOCK) & 07777, 0600);
}

/* Somebody else who asks is told so, and what to do. */
static void test_for_root_alone(void **state) {
    const struct nc_app app = {.opts = {.root = root}};
    nc_auto_free char *path = nc_app_path(&app, STATUS);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    struct stat st;

    (void)state;
    assert_int_equal(write_as(NC_STATUS_DAEMON, "{\"drain\":1}", NULL), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    if (geteuid() == 0)
        assert_int_equal(seteuid(65534), 0);
    else
        assert_int_equal(chmod(path, 0), 0);
    const int r = nc_status_file_read(&app, &text, NULL, &err);
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(r, -EACCES);
    assert_true(nc_starts_with(err.msg, "cannot tell: "));
    assert_string_equal(err.remedy, "run as root");
}

/* What a bootstrap wrote before the program was upgraded. */
static void test_nothing_to_keep(void **state) {
    static const char *const broken[] = {"", "{", "[1]", "7", "{\"drain\":1} x"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(broken); i++) {
        put(STATUS, broken[i]);
        assert_int_equal(write_as(NC_STATUS_BOOTSTRAP, "{\"node\":\"a\"}", NULL), 0);
        assert_status("{\"node\":\"a\"}");
        put(STATUS, broken[i]);
        assert_int_equal(write_as(NC_STATUS_DAEMON, "{\"daemon\":2}", NULL), 0);
        assert_our_status("\"daemon\":2}");
    }
}

#define BOOT                                                                                       \
    "# HELP nodeclaimd_bootstrap_x a b\n# TYPE nodeclaimd_bootstrap_x gauge\n"                     \
    "nodeclaimd_bootstrap_x{a=\"b\"} 1\n"
#define OWN "# HELP nodeclaimd_phase p\n# TYPE nodeclaimd_phase gauge\nnodeclaimd_phase 2\n"

static void test_metrics(void **state) {
    (void)state;
    assert_int_equal(write_as(NC_STATUS_BOOTSTRAP, NULL, BOOT), 0);
    assert_file(METRICS, BOOT);
    assert_int_equal(write_as(NC_STATUS_DAEMON, NULL, OWN), 0);
    assert_file(METRICS, BOOT OWN);
    assert_int_equal(write_as(NC_STATUS_DAEMON, NULL, "nodeclaimd_phase 3\n"), 0);
    assert_file(METRICS, BOOT "nodeclaimd_phase 3\n");
    assert_int_equal(write_as(NC_STATUS_BOOTSTRAP, NULL, "nodeclaimd_bootstrap_y 1\n"), 0);
    assert_file(METRICS, "nodeclaimd_bootstrap_y 1\nnodeclaimd_phase 3\n");
    assert_int_equal(mode_of(STATUS), 0); /* not requested */
}

struct holder {
    int fd;
    unsigned msec;
};

static void *hold_for_a_while(void *userdata) {
    const struct holder *h = userdata;
    const struct timespec pause = {.tv_nsec = h->msec * 1000000L};

    (void)nanosleep(&pause, NULL);
    (void)flock(h->fd, LOCK_UN);
    return NULL;
}

static void test_lock(void **state) {
    nc_auto_free char *path = nc_path_below(root, LOCK);
    struct holder h = {.msec = 10};
    pthread_t thread;

    (void)state;
    assert_int_equal(write_as(NC_STATUS_DAEMON, "{\"daemon\":1}", NULL), 0);
    h.fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(h.fd, LOCK_EX), 0);
    const uint64_t begin = nc_mono_usec();
    assert_int_equal(write_as(NC_STATUS_DAEMON, "{\"daemon\":2}", NULL), -EAGAIN);
    assert_true(nc_mono_usec() - begin < 1000000);
    assert_our_status("\"daemon\":1}");
    /* A bootstrap waits a moment, and then writes all the same. */
    assert_int_equal(write_as(NC_STATUS_BOOTSTRAP, "{\"node\":\"a\"}", NULL), 0);
    assert_status("{\"node\":\"a\",\"daemon\":1}");
    assert_int_equal(pthread_create(&thread, NULL, hold_for_a_while, &h), 0);
    assert_int_equal(write_as(NC_STATUS_BOOTSTRAP, "{\"node\":\"b\"}", NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(write_as(NC_STATUS_DAEMON, "{\"daemon\":3}", NULL), 0);
    assert_status("{\"node\":\"b\",\"daemon\":3}");
    (void)close(h.fd);
}

static void test_nobody_has_run(void **state) {
    const struct nc_app app = {.opts = {.root = root}};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_value *tree = NULL;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_status_file_read(&app, &text, &tree, &err), -ENOENT);
    assert_non_null(strstr(err.remedy, "neither a bootstrap nor the daemon"));
    assert_int_equal(nc_metrics_file_read(&app, &text, &err), -ENOENT);
    put(STATUS, "{");
    assert_true(nc_status_file_read(&app, &text, &tree, &err) < 0);
    assert_non_null(strstr(err.msg, STATUS));
    assert_null(tree);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_each_keeps_the_others),
        host_test(test_for_root_alone),
        host_test(test_nothing_to_keep),
        host_test(test_metrics),
        host_test(test_lock),
        host_test(test_nobody_has_run),
    };

    return run_group(tests, NULL, NULL);
}
