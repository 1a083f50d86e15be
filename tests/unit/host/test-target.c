/*
 * A target that is started for what it pulls in, against the fake system bus of tests/fakes: how it
 * ends, what is not of this start, a bus that is not there or goes away; and whether anybody uses
 * it.
 */
#include "bus-server.h"
#include "groups.h"

#include "nc/clock.h"
#include "nc/host.h"

#define PATIENCE_USEC 20000000u
#define TARGET "nodeclaimd-pre-drain.target"

/* Each line is one thing to do. Serves until its stdin ends. */
static const char server[] =
    "import sys\n"
    "sys.path.insert(0, sys.argv[1] + '/tests/fakes')\n"
    "from pathlib import Path\n"
    "from bus import Bus, Unit\n"
    "with Bus(Path(sys.argv[2]), Path(sys.argv[2])) as bus:\n"
    "    target = Unit(wants=['a.service', 'b.service'])\n"
    "    bus.units = {'nodeclaimd-pre-drain.target': target, 'a.service': Unit(takes_sec=0.3),\n"
    "                 'b.service': Unit()}\n"
    "    print('ready', flush=True)\n"
    "    for line in sys.stdin:\n"
    "        word, answer = line.split()[0], 'done'\n"
    "        if word == 'fail': bus.units['b.service'].result = 'failed'\n"
    "        if word == 'lose': del bus.units['b.service']\n"
    "        if word == 'hang': bus.units['a.service'].answers = False\n"
    "        if word == 'remove': bus.units.clear()\n"
    "        if word == 'bare': target.wants.clear()\n"
    "        if word == 'required': target.result = 'dependency'\n"
    "        if word == 'drop': bus.drop_clients()\n"
    "        if word == 'strangers': bus.has_strangers = True\n"
    "        if word == 'unreadable': bus.refuses_reads = True\n"
    "        if word == 'starts': answer = target.starts\n"
    "        if word == 'calls': answer = len(bus.calls)\n"
    "        if word == 'begun': answer = target.job[0] or target.starts\n"
    "        print(answer, flush=True)\n";

struct world {
    sd_event *event;
    struct nc_target *target;
    unsigned told;
    char *message;
};

static void open_world(struct world *w) {
    start_server(server, NULL);
    assert_true(sd_event_new(&w->event) >= 0);
}

static void close_world(struct world *w) {
    w->target = nc_target_free(w->target);
    w->event = sd_event_unref(w->event);
    free(w->message);
    stop_server();
}

static void on_done(void *userdata, const char *message) {
    struct world *w = userdata;

    w->told++;
    free(w->message);
    w->message = nc_strdup(message);
    w->target = nc_target_free(w->target);
}

static void run_until_told(struct world *w) {
    const uint64_t until_usec = nc_mono_usec() + PATIENCE_USEC;

    while (!w->told) {
        assert_true(sd_event_run(w->event, 10000) >= 0);
        if (nc_mono_usec() > until_usec)
            fail_msg("nobody told how it ended");
    }
}

static void begin(struct world *w, uint64_t begun_usec, bool is_followed) {
    const struct nc_target_call call = {.target = TARGET,
                                        .is_followed = is_followed,
                                        .begun_usec = begun_usec,
                                        .done = on_done,
                                        .userdata = w};

    w->told = 0;
    w->target = nc_target_start(w->event, &call);
}

static void assert_message(const struct world *w, const char *part) {
    if (!w->message || !strstr(w->message, part))
        fail_msg("not %s but %s", part, w->message ? w->message : "success");
}

static void test_ends_with_its_units(void **state) {
    struct world w = {0};
    const uint64_t begun_usec = nc_mono_usec();

    (void)state;
    open_world(&w);
    begin(&w, nc_mono_usec(), false);
    run_until_told(&w);
    assert_null(w.message);
    assert_true(nc_mono_usec() - begun_usec >= 300000);
    begin(&w, nc_mono_usec(), false); /* it is active: once more all the same */
    run_until_told(&w);
    assert_null(w.message);
    assert_int_equal(ask_server("starts"), 2);
    close_world(&w);
}

static void test_without_units(void **state) {
    struct world w = {0};

    (void)state;
    open_world(&w);
    ask_server("bare");
    begin(&w, nc_mono_usec(), false);
    run_until_told(&w);
    assert_null(w.message);
    close_world(&w);
}

/* Each of the ways in which it fails: what the server is told before, what is reported. */
static void test_failures(void **state) {
    static const char *const rows[][2] = {
        {"fail", "b.service: failed"},
        {"lose", "b.service: not-found"},
        {"remove", "starting it over D-Bus: Unit nodeclaimd-pre-drain.target not found."},
        {"required", "systemd did not start it, it is failed"},
        {"unreadable", "reading its state: Rejected send message"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w = {0};
        nc_auto_free char *socket = nc_asprintf("%s/bus.socket", root);
        open_world(&w);
        ask_server(rows[i][0]);
        begin(&w, nc_mono_usec(), false);
        run_until_told(&w);
        assert_message(&w, rows[i][1]);
        close_world(&w);
        (void)unlink(socket);
    }
}

/* One that hangs is told of by nobody, strangers who say that it has ended included; and who
 * forgets it leaves its job alone. */
static void test_hangs(void **state) {
    struct world w = {0};
    const uint64_t until_usec = nc_mono_usec() + 1000000;

    (void)state;
    open_world(&w);
    ask_server("strangers");
    ask_server("hang");
    begin(&w, nc_mono_usec(), false);
    while (nc_mono_usec() < until_usec)
        assert_true(sd_event_run(w.event, 10000) >= 0);
    assert_int_equal(w.told, 0);
    w.target = nc_target_free(w.target);
    const int calls = ask_server("calls");
    assert_true(sd_event_run(w.event, 10000) >= 0);
    assert_int_equal(ask_server("calls"), calls);
    close_world(&w);
}

static void test_bus_goes_away(void **state) {
    struct world w = {0};

    (void)state;
    open_world(&w);
    ask_server("hang");
    begin(&w, nc_mono_usec(), false);
    while (ask_server("calls") == 0)
        assert_true(sd_event_run(w.event, 10000) >= 0);
    ask_server("drop");
    run_until_told(&w);
    assert_non_null(w.message);
    close_world(&w);
}

static void test_no_bus(void **state) {
    struct world w = {0};

    (void)state;
    open_world(&w);
    assert_int_equal(setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1), 0);
    begin(&w, nc_mono_usec(), false);
    assert_int_equal(w.told, 0); /* never before it returns */
    run_until_told(&w);
    assert_message(&w, "connecting to the system bus: No such file or directory");
    close_world(&w);
}

/* After a restart: what it was started for then is followed, nothing is started; "active" alone may
 * be of a drain long ago. */
static void test_followed(void **state) {
    struct world w = {0};
    uint64_t begun_usec = nc_mono_usec();

    (void)state;
    open_world(&w);
    begin(&w, begun_usec, true);
    run_until_told(&w);
    assert_message(&w, "it is inactive");
    begin(&w, begun_usec, false);
    while (ask_server("begun") == 0)
        assert_true(sd_event_run(w.event, 10000) >= 0);
    w.target = nc_target_free(w.target);
    begin(&w, begun_usec, true);
    run_until_told(&w);
    assert_null(w.message);
    begin(&w, nc_mono_usec(), true);
    run_until_told(&w);
    assert_message(&w, "does not show that it ran");
    assert_int_equal(ask_server("starts"), 1);
    close_world(&w);
}

static void test_is_used(void **state) {
    static const char *const folders[] = {
        "/etc/systemd/system/" TARGET ".wants", "/run/systemd/system/" TARGET ".wants",
        "/usr/lib/systemd/system/" TARGET ".requires", "/etc/systemd/system/" TARGET ".d"};

    (void)state;
    assert_false(nc_target_is_used(root, TARGET));
    for (size_t i = 0; i < NC_ARRAY_SIZE(folders); i++) {
        nc_auto_free char *file = nc_asprintf("%s/x", folders[i]);
        nc_auto_free char *whole = nc_path_below(root, file);
        put(file, "");
        assert_true(nc_target_is_used(root, TARGET));
        assert_false(nc_target_is_used(root, "nodeclaimd-post-drain.target"));
        assert_int_equal(unlink(whole), 0);
        assert_false(nc_target_is_used(root, TARGET)); /* an empty folder */
    }
}

/* What cannot be read is not taken for empty. */
static void test_unreadable_is_used(void **state) {
    (void)state;
    link_to(TARGET ".wants", "/etc/systemd/system/" TARGET ".wants"); /* ELOOP */
    assert_true(nc_target_is_used(root, TARGET));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_ends_with_its_units),
        host_test(test_without_units),
        host_test(test_failures),
        host_test(test_hangs),
        host_test(test_bus_goes_away),
        host_test(test_no_bus),
        host_test(test_followed),
        host_test(test_is_used),
        host_test(test_unreadable_is_used),
    };

    return run_group(tests, NULL, NULL);
}
