/*
 * The sign of life comes while all is well, and is withheld where a deadline or a request is stuck.
 * The service manager is a socket of this test.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon.h"
#include "groups.h"
#include "log.h"
#include "nc/mem.h"

static struct {
    uint64_t late_usec; /* of the lifecycle's next tick; 0 = it wants none */
    bool node_is_stuck, pods_are_stuck;
    unsigned armed;
} script;

uint64_t nc_lifecycle_next(const struct nc_lifecycle *l, uint64_t now_usec) {
    (void)l;
    return script.late_usec ? now_usec - script.late_usec : UINT64_MAX;
}

void nc_daemon_arm(struct nc_daemon *d) {
    (void)d;
    script.armed++;
}

bool nc_own_node_is_stuck(const struct nc_daemon *d, uint64_t mono_usec) {
    (void)d;
    (void)mono_usec;
    return script.node_is_stuck;
}

bool nc_pod_evictor_is_stuck(const struct nc_daemon *d, uint64_t mono_usec) {
    (void)d;
    (void)mono_usec;
    return script.pods_are_stuck;
}

struct world {
    struct nc_app app;
    struct nc_daemon d;
    int manager;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    nc_auto_free char *name = nc_asprintf("nodeclaimd-test-%d", getpid());
    nc_auto_free char *where = nc_asprintf("@%s", name);

    memset(&script, 0, sizeof(script));
    w->manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(w->manager >= 0);
    memcpy(address.sun_path + 1, name, strlen(name));
    assert_int_equal(bind(w->manager, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", where, 1), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "90000", 1), 0);
    assert_int_equal(sd_event_new(&w->app.event), 0);
    w->d = (struct nc_daemon){.app = &w->app};
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    sd_event_source_disable_unref(w->d.watchdog);
    sd_event_unref(w->app.event);
    (void)close(w->manager);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    free(w);
    return 0;
}

/* How many signs of life came while the watchdog looked so many times. */
static unsigned signs(struct world *w, unsigned looks) {
    unsigned n = 0;
    char text[256];
    ssize_t len;

    for (unsigned i = 0; i < looks; i++)
        assert_true(sd_event_run(w->app.event, 5000000) > 0);
    while ((len = recv(w->manager, text, sizeof(text) - 1, 0)) >= 0) {
        text[len] = '\0';
        assert_string_equal(text, "WATCHDOG=1");
        n++;
    }
    assert_int_equal(errno, EAGAIN);
    return n;
}

static void test_all_is_well(void **state) {
    struct world *w = *state;

    assert_true(nc_daemon_watchdog_open(&w->d) >= 0);
    assert_int_equal(signs(w, 3), 3);
    script.late_usec = 9000000; /* a busy machine */
    assert_int_equal(signs(w, 3), 3);
}

static void test_a_deadline_that_is_stuck(void **state) {
    struct world *w = *state;

    assert_int_equal(nc_log_set_level("error"), 0);
    assert_true(nc_daemon_watchdog_open(&w->d) >= 0);
    script.late_usec = 11000000;
    assert_int_equal(signs(w, 1), 1); /* a clock may have been set: the timer is set anew first */
    assert_int_equal(script.armed, 1);
    assert_int_equal(signs(w, 2), 0);
    script.late_usec = 0;
    assert_int_equal(signs(w, 2), 2);
    script.late_usec = 11000000;
    assert_int_equal(signs(w, 1), 1);
}

static void test_a_request_that_is_stuck(void **state) {
    struct world *w = *state;

    assert_true(nc_daemon_watchdog_open(&w->d) >= 0);
    script.node_is_stuck = true;
    assert_int_equal(signs(w, 2), 0);
    script.node_is_stuck = false;
    script.pods_are_stuck = true;
    assert_int_equal(signs(w, 2), 0);
    script.pods_are_stuck = false;
    assert_int_equal(signs(w, 1), 1);
}

static void test_nobody_watches(void **state) {
    struct world *w = *state;

    assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
    assert_true(nc_daemon_watchdog_open(&w->d) >= 0);
    assert_null(w->d.watchdog);
}

/* A manager that does not read holds nobody up. */
static void test_a_manager_that_does_not_listen(void **state) {
    struct world *w = *state;
    const uint64_t before = nc_mono_usec();
    char text[256];
    unsigned n = 0;

    for (unsigned i = 0; i < 2000; i++)
        nc_notify("STATUS=running");
    assert_true(nc_mono_usec() - before < 5000000);
    while (recv(w->manager, text, sizeof(text), 0) >= 0)
        n++;
    assert_true(n > 0 && n < 2000); /* its queue was full */
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_all_is_well),
        TEST(test_a_deadline_that_is_stuck),
        TEST(test_a_request_that_is_stuck),
        TEST(test_nobody_watches),
        TEST(test_a_manager_that_does_not_listen),
    };

    return run_group(tests, NULL, NULL);
}
