/*
 * logind on the event loop: a delay inhibitor that is held from the start, and whether a shutdown
 * is being prepared.
 *
 * D-Bus is no authority: every local user may send us a signal, and libsystemd does not check the
 * sender of one that is addressed to us. PrepareForShutdown is a hint; what counts is the property
 * PreparingForShutdown, requested from the owner of logind's name, and of what kind it is. The bus
 * sees to it that only root owns that name, and that nobody else answers the call.
 *
 * Every call is asynchronous. The bus, logind, or both may be missing at first, go away, and come
 * back: each failure arms one timer, and that timer tries again whatever is missing. What the
 * listener is told is a change only: a shutdown is coming, or is not coming any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include "nc/backoff.h"
#include "nc/clock.h"
#include "nc/hint.h"
#include "nc/host.h"
#include "nc/mem.h"
#include "nc/str.h"

#define BUS "org.freedesktop.DBus"
#define LOGIND "org.freedesktop.login1"
#define LOGIND_PATH "/org/freedesktop/login1"
#define MANAGER LOGIND ".Manager"
#define PROPERTIES "org.freedesktop.DBus.Properties"
#define CALL_TIMEOUT_USEC 10000000u
/* The window runs already while it is requested how long it is. */
#define WINDOW_TIMEOUT_USEC 500000u
#define DEFAULT_WINDOW_USEC 5000000u /* logind's own, logind.conf(5) */
#define WHY "Pods are evicted before kubelet is stopped"

static const struct nc_backoff again = {.first_usec = 1000000, .max_usec = 60000000};

struct nc_login {
    sd_event *event;
    struct nc_login_options o;
    void *userdata;

    sd_bus *bus;
    sd_bus_slot *matches[4];
    sd_bus_slot *inhibit, *preparing, *window; /* calls in flight */
    bool is_lost; /* the connection has ended; the timer makes a new one */
    sd_event_source *retry;
    unsigned failures; /* in a row */

    int fd;                  /* the inhibitor; -1 = not held */
    bool has_released;       /* and shall not take it again before the shutdown is cancelled */
    struct nc_hint shutdown; /* CLOCK_MONOTONIC; since_usec: when the window began */
    bool is_reported;
    bool is_reboot;
    uint64_t delay_usec; /* InhibitDelayMaxUSec as last read; 0 = never */
};

static void try_again(struct nc_login *l) {
    const uint64_t pause = nc_backoff_pause(&again, ++l->failures, 0);

    (void)sd_event_source_set_time_relative(l->retry, pause);
    (void)sd_event_source_set_enabled(l->retry, SD_EVENT_ONESHOT);
}

static void release(struct nc_login *l) {
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
}

static void drop_slot(sd_bus_slot **slot) {
    *slot = sd_bus_slot_unref(*slot);
}

/* --- the inhibitor */

static int on_inhibited(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_login *l = userdata;
    int fd = -1;

    drop_slot(&l->inhibit);
    if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "h", &fd) < 0
        || (fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0) {
        try_again(l);
        return 0;
    }
    release(l); /* an older one, of a logind that was restarted */
    l->failures = 0;
    if (l->has_released)
        (void)close(fd);
    else
        l->fd = fd;
    return 0;
}

static void acquire_inhibitor(struct nc_login *l) {
    sd_bus_message *m = NULL;
    int r;

    if (l->has_released || l->is_lost)
        return;
    drop_slot(&l->inhibit);
    r = sd_bus_message_new_method_call(l->bus, &m, LOGIND, LOGIND_PATH, MANAGER, "Inhibit");
    if (r >= 0)
        r = sd_bus_message_append(m, "ssss", "shutdown", "nodeclaimd", WHY, "delay");
    if (r >= 0)
        r = sd_bus_call_async(l->bus, &l->inhibit, m, on_inhibited, l, CALL_TIMEOUT_USEC);
    sd_bus_message_unref(m);
    if (r < 0)
        try_again(l);
}

/* --- the shutdown */

static void report_inhibitor(struct nc_login *l) {
    const uint64_t window = l->delay_usec ? l->delay_usec : DEFAULT_WINDOW_USEC;
    const uint64_t gone = nc_mono_usec() - l->shutdown.since_usec;
    const bool is_coming = l->shutdown.is_true;

    l->is_reported = true;
    l->o.told(l->o.userdata, is_coming, is_coming && window > gone ? window - gone : 0,
              l->is_reboot);
}

static int on_window(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_login *l = userdata;
    uint64_t usec = 0;

    drop_slot(&l->window);
    if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_read(m, "v", "t", &usec) >= 0
        && usec > 0) {
        l->delay_usec = usec;
        l->o.delay(l->o.userdata, usec);
    }
    if (l->shutdown.is_true && !l->is_reported)
        report_inhibitor(l);
    return 0;
}

static int request_property(struct nc_login *l, const char *name, uint64_t timeout_usec,
                            sd_bus_message_handler_t done, sd_bus_slot **slot) {
    sd_bus_message *m = NULL;
    int r = sd_bus_message_new_method_call(l->bus, &m, LOGIND, LOGIND_PATH, PROPERTIES, "Get");

    drop_slot(slot);
    if (r >= 0)
        r = sd_bus_message_append(m, "ss", MANAGER, name);
    if (r >= 0)
        r = sd_bus_call_async(l->bus, slot, m, done, l, timeout_usec);
    sd_bus_message_unref(m);
    return r;
}

/* How long the window is may have been changed since it was last read: it is requested again. */
static void read_window(struct nc_login *l) {
    if (request_property(l, "InhibitDelayMaxUSec", WINDOW_TIMEOUT_USEC, on_window, &l->window) < 0)
        report_inhibitor(l);
}

static bool is_of_reboot(sd_bus_message *m) {
    const char *key = NULL, *kind = NULL;

    if (sd_bus_message_is_method_error(m, NULL)
        || sd_bus_message_enter_container(m, 'v', "a{sv}") <= 0
        || sd_bus_message_enter_container(m, 'a', "{sv}") <= 0)
        return false;
    while (!kind && sd_bus_message_enter_container(m, 'e', "sv") > 0
           && sd_bus_message_read(m, "s", &key) > 0)
        if ((nc_streq(key, "type") ? sd_bus_message_read(m, "v", "s", &kind)
                                   : sd_bus_message_skip(m, "v"))
                < 0
            || sd_bus_message_exit_container(m) < 0)
            return false;
    return kind && nc_is_one_of(kind, "reboot\0soft-reboot\0kexec\0");
}

/* systemd 255 says what kind of shutdown it is; an older one answers with an error. */
static int on_kind(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_login *l = userdata;

    l->is_reboot = is_of_reboot(m);
    read_window(l);
    return 0;
}

static void handle_change(struct nc_login *l) {
    l->is_reported = l->is_reboot = false;
    if (!l->shutdown.is_true) {
        l->has_released = false;
        if (l->fd < 0)
            acquire_inhibitor(l);
        report_inhibitor(l);
    } else if (request_property(l, "PreparingForShutdownWithMetadata", WINDOW_TIMEOUT_USEC, on_kind,
                                &l->window)
               < 0) {
        read_window(l);
    }
}

static void read_preparing(struct nc_login *l);

static int on_preparing(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_login *l = userdata;
    int is_coming;

    drop_slot(&l->preparing);
    if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "v", "b", &is_coming) < 0)
        try_again(l);
    else if (nc_hint_read(&l->shutdown, is_coming))
        handle_change(l);
    if (nc_hint_ended(&l->shutdown))
        read_preparing(l);
    return 0;
}

static void read_preparing(struct nc_login *l) {
    if (request_property(l, "PreparingForShutdown", CALL_TIMEOUT_USEC, on_preparing, &l->preparing)
        >= 0)
        return;
    (void)nc_hint_ended(&l->shutdown);
    try_again(l);
}

/* PrepareForShutdown, or PrepareForShutdownWithMetadata of systemd 255, which repeats it: whatever
 * it says, from whomever. */
static int on_prepare(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_login *l = userdata;

    if (!l->is_lost && nc_hint_arrived(&l->shutdown, nc_mono_usec()))
        read_preparing(l);
    return 0;
}

/* Everything that a logind which was just found is asked. */
static void greet(struct nc_login *l) {
    acquire_inhibitor(l);
    l->shutdown.is_reading = l->shutdown.is_hinted = false; /* the one before does not answer */
    (void)nc_hint_arrived(&l->shutdown, nc_mono_usec());
    read_preparing(l);
    if (!l->window)
        (void)request_property(l, "InhibitDelayMaxUSec", CALL_TIMEOUT_USEC, on_window, &l->window);
}

/* --- the bus */

static int on_owner(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    const char *name, *old, *owner;

    /* The bus alone has a sender without a number: it writes everybody else's. */
    if (nc_streq(sd_bus_message_get_sender(m), BUS)
        && sd_bus_message_read(m, "sss", &name, &old, &owner) >= 0 && nc_streq(name, LOGIND)
        && *owner)
        greet(userdata);
    return 0;
}

static int on_lost(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_login *l = userdata;

    l->is_lost = true;
    try_again(l);
    return 0;
}

static void disconnect(struct nc_login *l) {
    sd_bus_slot **const slots[] = {&l->matches[0], &l->matches[1], &l->matches[2], &l->matches[3],
                                   &l->inhibit,    &l->preparing,  &l->window};

    for (size_t i = 0; i < NC_ARRAY_SIZE(slots); i++)
        drop_slot(slots[i]);
    if (l->bus)
        (void)sd_bus_detach_event(l->bus);
    l->bus = sd_bus_close_unref(l->bus);
    l->is_lost = true;
}

static int listen_to(struct nc_login *l) {
    int r = sd_bus_match_signal_async(l->bus, &l->matches[0], LOGIND, LOGIND_PATH, MANAGER,
                                      "PrepareForShutdown", on_prepare, NULL, l);

    if (r >= 0)
        r = sd_bus_match_signal_async(l->bus, &l->matches[1], LOGIND, LOGIND_PATH, MANAGER,
                                      "PrepareForShutdownWithMetadata", on_prepare, NULL, l);
    if (r >= 0)
        r = sd_bus_add_match_async(
            l->bus, &l->matches[2],
            "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
            "member='NameOwnerChanged',arg0='" LOGIND "'",
            on_owner, NULL, l);
    if (r >= 0) /* of libsystemd itself: the bus is not asked */
        r = sd_bus_match_signal_async(l->bus, &l->matches[3], NULL, "/org/freedesktop/DBus/Local",
                                      "org.freedesktop.DBus.Local", "Disconnected", on_lost, NULL,
                                      l);
    return r;
}

static void connect_bus(struct nc_login *l) {
    int r;

    disconnect(l);
    r = sd_bus_open_system(&l->bus);
    if (r >= 0)
        r = sd_bus_attach_event(l->bus, l->event, SD_EVENT_PRIORITY_NORMAL);
    if (r >= 0)
        r = listen_to(l);
    if (r < 0) {
        disconnect(l);
        try_again(l);
        return;
    }
    l->is_lost = false;
    greet(l);
}

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_login *l = userdata;

    if (l->is_lost)
        connect_bus(l);
    else
        greet(l);
    return 0;
}

int nc_login_new(sd_event *event, const struct nc_login_options *o, struct nc_login **ret,
                 struct nc_err *err) {
    struct nc_login *l = nc_calloc(1, sizeof(*l));
    int r;

    *l = (struct nc_login){.event = sd_event_ref(event), .o = *o, .fd = -1};
    r = sd_event_add_time(event, &l->retry, CLOCK_MONOTONIC, 0, 0, on_retry, l);
    if (r >= 0)
        r = sd_event_source_set_enabled(l->retry, SD_EVENT_OFF);
    if (r < 0) {
        nc_login_free(l);
        return nc_err_host(err, r, "event loop");
    }
    connect_bus(l);
    *ret = l;
    return 0;
}

struct nc_login *nc_login_free(struct nc_login *l) {
    if (!l)
        return NULL;
    release(l);
    disconnect(l);
    sd_event_source_disable_unref(l->retry);
    sd_event_unref(l->event);
    free(l);
    return NULL;
}

void nc_login_release(struct nc_login *l) {
    l->has_released = true;
    release(l);
}

bool nc_login_holds(const struct nc_login *l) {
    return l && l->fd >= 0;
}
