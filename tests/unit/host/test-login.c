/*
 * The delay inhibitor and what logind announces, against the fake system bus of tests/fakes: taken,
 * release, taken again; a bus that is not there, goes away and comes back.
 */
#include "bus-server.h"
#include "groups.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "nc/clock.h"
#include "nc/host.h"
#include "process.h"

#define PATIENCE_USEC 20000000u
#define WINDOW_USEC 5000000u /* as the fake has it at first */

/* Each line is one thing to do; "held" answers with the number of inhibitors, everything else with
 * "done". Serves until its stdin ends. */
static const char server[] =
    "import sys\n"
    "sys.path.insert(0, sys.argv[1] + '/tests/fakes')\n"
    "from pathlib import Path\n"
    "from bus import Bus\n"
    "with Bus(Path(sys.argv[2]), Path(sys.argv[2])) as bus:\n"
    "    if len(sys.argv) > 3: bus.preparing = True\n"
    "    print('ready', flush=True)\n"
    "    for line in sys.stdin:\n"
    "        word, answer = line.split()[0], 'done'\n"
    "        if word == 'held': answer = len(bus.held())\n"
    "        if word == 'taken': answer = len(bus.inhibitors)\n"
    "        if word == 'prepare': bus.prepare_for_shutdown()\n"
    "        if word == 'cancel': bus.prepare_for_shutdown(False)\n"
    "        if word == 'drop': bus.drop_clients()\n"
    "        if word == 'restart': bus.restart_logind()\n"
    "        if word == 'refuse': bus.refuses_inhibitors = True\n"
    "        if word == 'allow': bus.refuses_inhibitors = False\n"
    "        if word == 'unreadable': bus.refuses_reads = True\n"
    "        if word == 'readable': bus.refuses_reads = False\n"
    "        if word == 'reads': answer = len(bus.reads)\n"
    "        if word == 'forge':\n"
    "            for said in (1, 0, 1):\n"
    "                bus.forge('PrepareForShutdown', 'b', said)\n"
    "                bus.forge('PrepareForShutdownWithMetadata', 'ba{sv}', said, {})\n"
    "        if word == 'malformed':\n"
    "            bus.forge('PrepareForShutdown', '')\n"
    "            bus.forge('PrepareForShutdown', 's', 'true')\n"
    "        if word == 'usurp':\n"
    "            bus.forge('NameOwnerChanged', 'sss', 'org.freedesktop.login1', ':1.1', ':1.66',\n"
    "                      interface='org.freedesktop.DBus', path='/org/freedesktop/DBus')\n"
    "        if word == 'disconnect':\n"
    "            bus.forge('Disconnected', '', interface='org.freedesktop.DBus.Local',\n"
    "                      path='/org/freedesktop/DBus/Local')\n"
    "        if word == 'kind': bus.kind = line.split()[1]\n"
    "        if word == 'window': bus.inhibit_usec = int(line.split()[1])\n"
    "        print(answer, flush=True)\n";

struct world {
    sd_event *event;
    struct nc_login *login;
    unsigned told; /* how often */
    bool is_coming, is_reboot;
    uint64_t window_usec, delay_usec;
};

static void on_told(void *userdata, bool is_coming, uint64_t window_usec, bool is_reboot) {
    struct world *w = userdata;

    w->told++;
    w->is_coming = is_coming;
    w->window_usec = window_usec;
    w->is_reboot = is_reboot;
}

static void on_delay(void *userdata, uint64_t delay_usec) {
    struct world *w = userdata;

    w->delay_usec = delay_usec;
}

static void open_login(struct world *w) {
    struct nc_err err = NC_ERR_INIT;

    assert_true(sd_event_new(&w->event) >= 0);
    if (nc_login_new(w->event,
                     &(struct nc_login_options){.told = on_told, .delay = on_delay, .userdata = w},
                     &w->login, &err)
        < 0)
        fail_msg("%s", err.msg);
}

static void close_login(struct world *w) {
    w->login = nc_login_free(w->login);
    w->event = sd_event_unref(w->event);
}

/* Turns the loop until the condition holds. */
#define turn_until(w, condition)                                                                   \
    do {                                                                                           \
        const uint64_t until_ = nc_mono_usec() + PATIENCE_USEC;                                    \
        while (!(condition)) {                                                                     \
            assert_true(sd_event_run((w)->event, 10000) >= 0);                                     \
            if (nc_mono_usec() > until_)                                                           \
                fail_msg("never: %s", #condition);                                                 \
        }                                                                                          \
    } while (0)

static void test_held_from_the_start(void **state) {
    struct world w = {0};

    (void)state;
    start_server(server, NULL);
    open_login(&w);
    turn_until(&w, nc_login_holds(w.login) && w.told > 0 && w.delay_usec > 0);
    assert_int_equal(w.delay_usec, WINDOW_USEC);
    assert_int_equal(w.told, 1); /* that no shutdown is coming */
    assert_false(w.is_coming);
    assert_int_equal(ask_server("held"), 1);
    close_login(&w);
    assert_int_equal(ask_server("held"), 0);
    stop_server();
}

/* Of what kind it is, says systemd 255. */
static void test_reboot(void **state) {
    static const struct {
        const char *kind;
        bool is_reboot;
    } rows[] = {{"reboot", true}, {"poweroff", false}, {"soft-reboot", true},
                {"kexec", true},  {"halt", false},     {"rebooting", false}};
    struct world w = {0};

    (void)state;
    start_server(server, NULL);
    open_login(&w);
    turn_until(&w, nc_login_holds(w.login) && w.told == 1);
    for (unsigned i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *word = nc_asprintf("kind %s", rows[i].kind);
        ask_server(word);
        ask_server("prepare");
        turn_until(&w, w.told == 2 * i + 2);
        assert_true(w.is_coming);
        if (w.is_reboot != rows[i].is_reboot)
            fail_msg("%s", rows[i].kind);
        ask_server("cancel");
        turn_until(&w, w.told == 2 * i + 3);
        assert_false(w.is_reboot);
    }
    close_login(&w);
    stop_server();
}

static void test_shutdown(void **state) {
    struct world w = {0};

    (void)state;
    start_server(server, NULL);
    open_login(&w);
    turn_until(&w, nc_login_holds(w.login) && w.told == 1);
    ask_server("window 150000000"); /* raised after we looked */
    ask_server("prepare");
    turn_until(&w, w.told == 2);
    assert_true(w.is_coming);
    assert_in_range(w.window_usec, 145000000, 150000000);
    assert_int_equal(w.delay_usec, 150000000);
    ask_server("prepare"); /* said twice, told once */
    assert_int_equal(ask_server("held"), 1);
    nc_login_release(w.login);
    nc_login_release(w.login);
    assert_int_equal(ask_server("held"), 0);
    assert_false(nc_login_holds(w.login));
    ask_server("cancel");
    turn_until(&w, nc_login_holds(w.login) && w.told == 3);
    assert_false(w.is_coming);
    assert_int_equal(ask_server("held"), 1);
    ask_server("prepare"); /* and once more */
    turn_until(&w, w.told == 4);
    assert_true(w.is_coming);
    close_login(&w);
    stop_server();
}

static void test_begun_before_we_came(void **state) {
    struct world w = {0};

    (void)state;
    start_server(server, "preparing");
    open_login(&w);
    turn_until(&w, w.told == 1);
    assert_true(w.is_coming);
    assert_in_range(w.window_usec, WINDOW_USEC - 1000000, WINDOW_USEC);
    assert_false(nc_login_holds(w.login)); /* logind gives none any more */
    close_login(&w);
    stop_server();
}

static void test_bus_comes_and_goes(void **state) {
    struct world w = {0};

    (void)state;
    start_server(server, NULL); /* for the address */
    stop_server();
    open_login(&w);
    turn_until(&w, true);
    assert_false(nc_login_holds(w.login));
    start_server(server, NULL);
    turn_until(&w, nc_login_holds(w.login));
    ask_server("drop");
    turn_until(&w, ask_server("taken") == 2); /* taken again on the new connection */
    turn_until(&w, ask_server("held") == 1);  /* and the old one given back */
    ask_server("prepare");
    turn_until(&w, w.is_coming);
    stop_server(); /* in the middle of it */
    turn_until(&w, true);
    close_login(&w);
}

static void test_logind_is_restarted(void **state) {
    struct world w = {0};

    (void)state;
    start_server(server, NULL);
    open_login(&w);
    turn_until(&w, nc_login_holds(w.login));
    ask_server("restart");
    turn_until(&w, ask_server("taken") == 2);
    turn_until(&w, ask_server("held") == 1);
    assert_true(nc_login_holds(w.login));
    close_login(&w);
    stop_server();
}

static void test_refused_at_first(void **state) {
    struct world w = {0};

    (void)state;
    start_server(server, NULL);
    ask_server("refuse");
    open_login(&w);
    turn_until(&w, w.told == 1);
    assert_false(nc_login_holds(w.login));
    ask_server("allow");
    turn_until(&w, nc_login_holds(w.login));
    assert_int_equal(w.told, 1);
    close_login(&w);
    stop_server();
}

/* Every local user may send us any signal. Each is followed by a read, and that alone counts. */
static void test_forged(void **state) {
    struct world w = {0};
    int reads;

    (void)state;
    start_server(server, NULL);
    open_login(&w);
    turn_until(&w, nc_login_holds(w.login) && w.told == 1);
    reads = ask_server("reads");
    ask_server("forge");
    turn_until(&w, ask_server("reads") > reads);
    ask_server("malformed");
    ask_server("prepare"); /* a real one, behind them all */
    turn_until(&w, w.told > 1);
    assert_int_equal(w.told, 2);
    assert_true(w.is_coming);
    reads = ask_server("reads");
    ask_server("forge"); /* does not take it back */
    turn_until(&w, ask_server("reads") > reads);
    ask_server("cancel");
    turn_until(&w, w.told > 2);
    assert_int_equal(w.told, 3);
    assert_false(w.is_coming);
    assert_int_equal(ask_server("held"), 1);
    close_login(&w);
    stop_server();
}

/* What cannot be read is neither a shutdown nor none. */
static void test_unreadable(void **state) {
    struct world w = {0};
    int reads;

    (void)state;
    start_server(server, NULL);
    open_login(&w);
    turn_until(&w, nc_login_holds(w.login) && w.told == 1);
    ask_server("unreadable");
    reads = ask_server("reads");
    ask_server("prepare");
    turn_until(&w, ask_server("reads") > reads + 1); /* and once more, by itself */
    assert_int_equal(w.told, 1);
    ask_server("readable");
    turn_until(&w, w.told > 1);
    assert_true(w.is_coming);
    close_login(&w);
    stop_server();
}

/* Only the bus says who owns a name, and only libsystemd that the connection has ended. */
static void test_forged_owner(void **state) {
    struct world w = {0};
    int reads;

    (void)state;
    start_server(server, NULL);
    open_login(&w);
    turn_until(&w, nc_login_holds(w.login) && w.told == 1);
    ask_server("usurp");
    ask_server("disconnect");
    reads = ask_server("reads");
    ask_server("forge"); /* behind them: it is read because of this */
    turn_until(&w, ask_server("reads") > reads);
    assert_int_equal(ask_server("taken"), 1);
    assert_int_equal(ask_server("held"), 1);
    close_login(&w);
    stop_server();
}

/* What the service manager was told: one datagram. */
static void test_notify(void **state) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char text[64] = "";

    (void)state;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", root);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    nc_notify("READY=1"); /* to nobody */
    assert_int_equal(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
    nc_notify("STATUS=7 of 12");
    assert_true(recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 0);
    assert_string_equal(text, "STATUS=7 of 12");
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    (void)close(fd);
    assert_int_equal(nc_notify_watchdog_usec(), 0);
    assert_int_equal(setenv("WATCHDOG_USEC", "30000000", 1), 0);
    assert_int_equal(nc_notify_watchdog_usec(), 30000000);
    assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_held_from_the_start),
        host_test(test_shutdown),
        host_test(test_reboot),
        host_test(test_begun_before_we_came),
        host_test(test_bus_comes_and_goes),
        host_test(test_logind_is_restarted),
        host_test(test_refused_at_first),
        host_test(test_forged),
        host_test(test_unreadable),
        host_test(test_forged_owner),
        host_test(test_notify),
    };

    return run_group(tests, NULL, NULL);
}
