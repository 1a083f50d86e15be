/*
 * Units and logind over D-Bus, against the fake system bus of tests/fakes (independent of
 * libsystemd).
 */
#include "groups.h"
#include "host-test.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "nc/clock.h"

#define PATIENCE_USEC 20000000u

/* Serves until its stdin ends. */
static const char server[] =
    "import os, sys\n"
    "sys.path.insert(0, sys.argv[1] + '/tests/fakes')\n"
    "from pathlib import Path\n"
    "from bus import Bus, Unit\n"
    "with Bus(Path(sys.argv[2]), Path(sys.argv[2])) as bus:\n"
    "    bus.has_strangers = len(sys.argv) > 3\n"
    "    bus.units.update({'good.service': Unit(start=lambda: 4711), 'bad.service':\n"
    "        Unit(result='failed'), 'slow.service': Unit(answers=False), 'skipped.service':\n"
    "        Unit(result='skipped'), 'crash.service': Unit(crashes=True),\n"
    "        'pre.service': Unit(fails_before=1), 'env.service': Unit(fails_before=9,\n"
    "        outcome_before='resources'),\n"
    "        'queued.service': Unit(answers=False), 'broken.service': Unit(active='failed'),\n"
    "        'last.service': Unit(start=lambda: os._exit(0))})\n"
    "    print('ready', flush=True)\n"
    "    sys.stdin.read()\n";

struct bus {
    bool has_strangers;
    pid_t pid;
    int in; /* the server's stdin */
};

static void start_bus(struct bus *b) {
    nc_auto_free char *address = nc_asprintf("unix:path=%s/bus.socket", root);
    const char *source = getenv("NC_SRCDIR") ? getenv("NC_SRCDIR") : ".";
    int in[2], out[2];
    char c = 0;

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    b->pid = fork();
    if (b->pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execl("/usr/bin/python3", "python3", "-B", "-c", server, source, root,
                    b->has_strangers ? "strangers" : NULL, (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    b->in = in[1];
    while (c != '\n') /* it is ready */
        assert_int_equal(read(out[0], &c, 1), 1);
    (void)close(out[0]);
    assert_int_equal(setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1), 0);
}

static void stop_bus(struct bus *b) {
    (void)close(b->in);
    assert_int_equal(waitpid(b->pid, NULL, 0), b->pid);
}

static struct nc_units *connect_units(void) {
    struct nc_units *u = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_units_new(&u, &err) < 0)
        fail_msg("%s", err.msg);
    return u;
}

static int start(struct nc_units *u, const char *unit, uint64_t timeout_usec, struct nc_err *err) {
    return nc_units_start(u, &(struct nc_unit_start){.unit = unit, .timeout_usec = timeout_usec},
                          err);
}

static void assert_start(struct nc_units *u, const char *unit, int code, const char *part,
                         const char *remedy) {
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(start(u, unit, PATIENCE_USEC, &err), -code);
    if (code && (!strstr(err.msg, part) || !strstr(err.msg, unit) || !strstr(err.remedy, remedy)))
        fail_msg("%s (%s), expected %s (%s)", err.msg, err.remedy, part, remedy);
}

static void test_start(void **state) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;
    struct bus b = {0};

    (void)state;
    start_bus(&b);
    u = connect_units();
    assert_start(u, "good.service", 0, "", "");
    assert_start(u, "skipped.service", EIO, "a condition of the unit does not hold",
                 "systemctl status skipped.service");
    assert_start(u, "crash.service", 0, "", ""); /* as Type=simple has it: the process was there */
    assert_start(u, "bad.service", EIO, "bad.service failed to start, result exit-code",
                 "journalctl -u bad.service");
    assert_start(u, "none.service", ENOENT, "not found", "install none.service");
    assert_int_equal(nc_units_start(u,
                                    &(struct nc_unit_start){.unit = "good.service",
                                                            .restart = true,
                                                            .timeout_usec = PATIENCE_USEC},
                                    &err),
                     0);
    assert_int_equal(start(u, "slow.service", 50000, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.msg, "slow.service has not started in time"));
    u = nc_units_free(u);
    stop_bus(&b);
}

/* Any local user may claim that a job has ended, and how. */
static void test_forged_end(void **state) {
    struct bus b = {.has_strangers = true};
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;

    (void)state;
    start_bus(&b);
    u = connect_units();
    assert_start(u, "bad.service", EIO, "bad.service failed to start", "journalctl -u bad.service");
    assert_start(u, "good.service", 0, "", "");
    assert_int_equal(start(u, "slow.service", 50000, &err), -ETIMEDOUT);
    nc_units_free(u);
    stop_bus(&b);
}

/* ExecStartPre= fails: systemd tries again, and says so until it has. */
static void test_started_again(void **state) {
    const struct timespec pause = {.tv_nsec = 5000000};
    const struct nc_unit_start pre = {.unit = "pre.service", .timeout_usec = PATIENCE_USEC};
    struct nc_unit_start crash = {.unit = "crash.service", .timeout_usec = PATIENCE_USEC};
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;
    struct bus b = {0};
    int r;

    (void)state;
    start_bus(&b);
    u = connect_units();
    assert_int_equal(nc_units_start(u, &crash, &err), 0);
    crash.until_active = true;
    assert_int_equal(nc_units_start(u, &crash, &err), NC_UNITS_AGAIN);
    r = nc_units_start(u, &pre, &err);
    assert_int_equal(r, NC_UNITS_AGAIN);
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    assert_non_null(strstr(err.msg, "starts it again: activating (auto-restart), result "
                                    "exit-code"));
    for (int i = 0; r == NC_UNITS_AGAIN && i < 2000; i++) {
        (void)nanosleep(&pause, NULL);
        r = nc_units_outcome(u, &pre, &err);
    }
    assert_int_equal(r, 0);
    /* A file of its environment is missing: no process, this time or the next. */
    assert_start(u, "env.service", EIO,
                 "failed to start: activating (auto-restart), result "
                 "resources",
                 "journalctl -u env.service");
    nc_units_free(u);
    stop_bus(&b);
}

/* What a bootstrap waits for: cloud-init's stages. */
static void test_pending(void **state) {
    static const struct {
        const char *unit;
        int pending;
    } rows[] = {{"good.service", 0}, {"broken.service", 0}, {"none.service", 0}};
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;
    struct bus b = {0};

    (void)state;
    start_bus(&b);
    u = connect_units();
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        assert_int_equal(nc_units_is_pending(u, rows[i].unit, &err), rows[i].pending);
    assert_start(u, "good.service", 0, "", "");
    assert_int_equal(nc_units_is_pending(u, "good.service", &err), 0);
    assert_int_equal(nc_units_any_is_pending(u, "q*.service", &err), 0);
    assert_int_equal(start(u, "queued.service", 1000, &err), -ETIMEDOUT);
    assert_int_equal(nc_units_is_pending(u, "queued.service", &err), 1); /* inactive, with a job */
    assert_int_equal(nc_units_any_is_pending(u, "q*.service", &err), 1);
    assert_int_equal(nc_units_any_is_pending(u, "nobody@*.service", &err), 0);
    (void)start(u, "env.service", PATIENCE_USEC, &err);
    assert_int_equal(nc_units_is_pending(u, "env.service", &err), 1); /* activating */
    assert_int_equal(nc_units_any_is_pending(u, "e*.service", &err), 1);
    stop_bus(&b);
    assert_true(nc_units_any_is_pending(u, "q*.service", &err) < 0);
    assert_true(nc_units_is_pending(u, "good.service", &err) < 0); /* not taken for absent */
    assert_int_equal(err.class, NC_ERR_HOST);
    nc_units_free(u);
}

static void test_state(void **state) {
    struct nc_unit_state s = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;
    uint64_t before_usec, before_mono_usec;
    struct bus b = {0};

    (void)state;
    start_bus(&b);
    u = connect_units();
    assert_int_equal(nc_units_state(u, "good.service", &s, &err), 0);
    assert_string_equal(s.active, "inactive");
    assert_int_equal(s.main_pid, 0);
    assert_int_equal(s.started_usec, 0);
    assert_int_equal(s.started_mono_usec, 0);
    before_usec = nc_now_usec();
    before_mono_usec = nc_mono_usec();
    assert_start(u, "good.service", 0, "", "");
    assert_int_equal(nc_units_state(u, "good.service", &s, &err), 0);
    assert_string_equal(s.active, "active");
    assert_string_equal(s.sub, "running");
    assert_string_equal(s.result, "success");
    assert_int_equal(s.main_pid, 4711);
    assert_int_equal(s.restarts, 0);
    assert_in_range(s.started_usec, before_usec, nc_now_usec());
    assert_in_range(s.started_mono_usec, before_mono_usec, nc_mono_usec());
    assert_int_equal(nc_units_state(u, "none.service", &s, &err), -ENOENT);
    nc_unit_state_done(&s);
    nc_units_free(u);
    stop_bus(&b);
}

static void test_logind(void **state) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;
    uint64_t delay = 0;
    struct bus b = {0};

    (void)state;
    start_bus(&b);
    u = connect_units();
    assert_int_equal(nc_logind_reload(u, 5000000, &delay, &err), 0); /* it has that already */
    assert_int_equal(delay, 5000000);
    put("/etc/systemd/logind.conf.d/zz-nodeclaimd.conf", "[Login]\nInhibitDelayMaxSec=150\n");
    assert_int_equal(nc_logind_reload(u, 5000000, &delay, &err), 0);
    assert_int_equal(delay, 5000000); /* not asked to read: it was enough */
    assert_int_equal(nc_logind_reload(u, 150000000, &delay, &err), 0);
    assert_int_equal(delay, 150000000);
    delay = 0;
    assert_int_equal(nc_logind_delay(&delay, &err), 0);
    assert_int_equal(delay, 150000000);
    assert_int_equal(nc_logind_reload(u, 151000000, &delay, &err), 0); /* less, and no error */
    assert_int_equal(delay, 150000000);
    nc_units_free(u);
    stop_bus(&b);
}

/* A signal that is to end the program ends the wait, and is left for the program to see. */
static void test_signal_ends_the_wait(void **state) {
    const struct timespec none = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;
    sigset_t set, old;
    struct bus b = {0};

    (void)state;
    start_bus(&b);
    u = connect_units();
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, &old), 0);
    assert_int_equal(raise(SIGTERM), 0);
    const int r = start(u, "slow.service", PATIENCE_USEC, &err);
    const int left = sigtimedwait(&set, NULL, &none); /* before anything may fail and unblock it */
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    assert_int_equal(r, -EINTR);
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    assert_int_equal(left, SIGTERM);
    nc_units_free(u);
    stop_bus(&b);
}

static void test_bus_goes_away(void **state) {
    struct nc_unit_state s = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_units *u;
    uint64_t delay;
    struct bus b = {0};

    (void)state;
    start_bus(&b);
    u = connect_units();
    assert_true(start(u, "last.service", PATIENCE_USEC, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.remedy, "dbus"));
    assert_true(nc_units_state(u, "good.service", &s, &err) < 0);
    assert_true(nc_logind_reload(u, 1, &delay, &err) < 0);
    nc_units_free(u);
    stop_bus(&b);
}

static void test_no_bus(void **state) {
    uint64_t delay;
    struct nc_units *u = NULL;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/none/bus", 1), 0);
    assert_true(nc_units_new(&u, &err) < 0);
    assert_null(u);
    assert_true(nc_logind_delay(&delay, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_null(nc_units_free(NULL));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_start),         host_test(test_state),
        host_test(test_logind),        host_test(test_signal_ends_the_wait),
        host_test(test_bus_goes_away), host_test(test_no_bus),
        host_test(test_pending),       host_test(test_forged_end),
        host_test(test_started_again),
    };

    return run_group(tests, NULL, NULL);
}
