/*
 * systemd and logind over D-Bus: start a unit and wait for its job, look at a unit, make logind
 * read its files again.
 *
 * Every call blocks until its answer or its timeout: for one-shot programs only. The long wait, for
 * a job, ends at once when the caller has a SIGTERM or SIGINT pending.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include "nc/clock.h"
#include "nc/host.h"
#include "nc/str.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define MANAGER SYSTEMD ".Manager"
#define LOGIND "org.freedesktop.login1"
#define CALL_TIMEOUT_USEC 5000000u
#define LOGIND_WAIT_USEC 1000000u
#define LOGIND_LOOK_USEC 5000u
#define MAX_POLL_MSEC 60000u

struct nc_units {
    sd_bus *bus;
    sd_bus_slot *removed;
    char *job;    /* object path of the job that is waited for */
    char *result; /* its result, once it is removed */
};

static int bus_failed(struct nc_err *err, int r, const sd_bus_error *e, const char *what) {
    const char *text = e && e->message ? e->message : strerror(-r);
    const int code = nc_err_set(err, NC_ERR_HOST, -r, "%s: %s", what, text);

    if (e && sd_bus_error_has_name(e, SYSTEMD ".NoSuchUnit"))
        nc_err_remedy(err, "install %s, or name another in spec.kubelet.unit", what);
    else if (r == -EACCES || r == -EPERM)
        nc_err_remedy(err, "run as root");
    else
        nc_err_remedy(err, "check that systemd and dbus run (systemctl status dbus)");
    return code;
}

struct nc_units *nc_units_free(struct nc_units *u) {
    if (!u)
        return NULL;
    sd_bus_slot_unref(u->removed);
    sd_bus_flush_close_unref(u->bus);
    free(u->job);
    free(u->result);
    free(u);
    return NULL;
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_units *u = userdata;
    const char *path, *unit, *result;
    uint32_t id;

    (void)error;
    if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0)
        return 0;
    if (u->job && nc_streq(path, u->job)) {
        free(u->result);
        u->result = nc_strdup(result);
    }
    return 0;
}

int nc_units_new(struct nc_units **ret, struct nc_err *err) {
    struct nc_units *u = nc_calloc(1, sizeof(*u));
    sd_bus_error e = SD_BUS_ERROR_NULL;
    int r = sd_bus_open_system(&u->bus);

    if (r >= 0)
        r = sd_bus_set_method_call_timeout(u->bus, CALL_TIMEOUT_USEC);
    if (r >= 0) /* without a subscription systemd sends no signals */
        r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER, "Subscribe", &e, NULL, NULL);
    if (r >= 0)
        r = sd_bus_match_signal(u->bus, &u->removed, SYSTEMD, SYSTEMD_PATH, MANAGER, "JobRemoved",
                                on_job_removed, u);
    if (r < 0) {
        r = bus_failed(err, r, &e, "systemd over D-Bus");
        sd_bus_error_free(&e);
        nc_units_free(u);
        return r;
    }
    *ret = u;
    return 0;
}

int nc_units_reload(struct nc_units *u, uint64_t timeout_usec, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *m = NULL;
    int r = sd_bus_message_new_method_call(u->bus, &m, SYSTEMD, SYSTEMD_PATH, MANAGER, "Reload");

    if (r >= 0)
        r = sd_bus_call(u->bus, m, timeout_usec, &e, NULL);
    sd_bus_message_unref(m);
    if (r < 0)
        r = bus_failed(err, r, &e, "systemd: daemon-reload");
    sd_bus_error_free(&e);
    return r < 0 ? r : 0;
}

/* Waits for the bus; -EINTR where a signal that ends the program is pending. The caller has it
 * blocked, so it stays for the caller's own loop: it is only looked at here. */
static int wait_for_bus(struct nc_units *u, int signals, uint64_t usec) {
    const int events = sd_bus_get_events(u->bus);
    struct pollfd fds[] = {{.fd = sd_bus_get_fd(u->bus), .events = (short)events},
                           {.fd = signals, .events = POLLIN}};
    const uint64_t msec = (usec + 999) / 1000;

    if (events < 0)
        return events;
    if (poll(fds, NC_ARRAY_SIZE(fds), (int)(msec < MAX_POLL_MSEC ? msec : MAX_POLL_MSEC)) < 0
        && errno != EINTR)
        return -errno;
    return fds[1].revents ? -EINTR : 0;
}

static int job_overdue(const char *unit, struct nc_err *err) {
    const int r =
        nc_err_set(err, NC_ERR_HOST, ETIMEDOUT, "%s: its start job has not ended in time", unit);

    nc_err_remedy(err, "systemctl list-jobs; journalctl -u %s", unit);
    return r;
}

/* Signals are dispatched by sd_bus_process only, and queued before: the end of a job that comes
 * before the answer which names the job is not lost. */
static int wait_for_job(struct nc_units *u, int signals, const char *unit, uint64_t timeout_usec,
                        struct nc_err *err) {
    const uint64_t deadline = nc_mono_usec() + timeout_usec;

    while (!u->result) {
        int r = sd_bus_process(u->bus, NULL);
        const uint64_t now = nc_mono_usec();
        if (r > 0)
            continue;
        if (r >= 0 && now >= deadline)
            return job_overdue(unit, err);
        if (r >= 0)
            r = wait_for_bus(u, signals, deadline - now);
        if (r == -EINTR)
            return nc_err_set(err, NC_ERR_TRANSIENT, EINTR,
                              "%s: interrupted by a signal while its start job ran", unit);
        if (r < 0)
            return bus_failed(err, r, NULL, "systemd over D-Bus");
    }
    return 0;
}

static int judge_job(const struct nc_units *u, const char *unit, struct nc_err *err) {
    if (nc_streq(u->result, "done") || nc_streq(u->result, "skipped"))
        return 0;
    const int r =
        nc_err_set(err, NC_ERR_HOST, EIO, "%s: its start job ended as %s", unit, u->result);
    nc_err_remedy(err, "journalctl -u %s", unit);
    return r;
}

static int follow_job(struct nc_units *u, const char *unit, uint64_t timeout_usec,
                      struct nc_err *err) {
    sigset_t set;
    int signals, r;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return nc_err_set(err, NC_ERR_HOST, errno, "signalfd: %s", strerror(errno));
    r = wait_for_job(u, signals, unit, timeout_usec, err);
    (void)close(signals);
    return r < 0 ? r : judge_job(u, unit, err);
}

int nc_units_start(struct nc_units *u, const char *unit, bool restart, bool no_block,
                   uint64_t timeout_usec, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *answer = NULL;
    const char *job = NULL;
    int r;

    free(u->job);
    free(u->result);
    u->job = u->result = NULL;
    r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER,
                           restart ? "RestartUnit" : "StartUnit", &e, &answer, "ss", unit,
                           "replace");
    if (r >= 0)
        r = sd_bus_message_read(answer, "o", &job);
    if (r >= 0)
        u->job = nc_strdup(job);
    sd_bus_message_unref(answer);
    if (r < 0)
        r = bus_failed(err, r, &e, unit);
    sd_bus_error_free(&e);
    if (r < 0 || no_block)
        return r < 0 ? r : 0;
    return follow_job(u, unit, timeout_usec, err);
}

void nc_unit_state_done(struct nc_unit_state *s) {
    free(s->active);
    free(s->sub);
    free(s->result);
    *s = (struct nc_unit_state){0};
}

static char *get_text(struct nc_units *u, const char *path, const char *interface,
                      const char *name) {
    char *text = NULL, *own;

    if (sd_bus_get_property_string(u->bus, SYSTEMD, path, interface, name, NULL, &text) < 0)
        return nc_strdup("unknown");
    own = nc_strdup(text);
    free(text);
    return own;
}

int nc_units_state(struct nc_units *u, const char *unit, struct nc_unit_state *ret,
                   struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *answer = NULL;
    const char *path = NULL;
    int r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER, "LoadUnit", &e, &answer, "s",
                               unit);

    if (r >= 0)
        r = sd_bus_message_read(answer, "o", &path);
    if (r >= 0) {
        nc_unit_state_done(ret);
        ret->active = get_text(u, path, SYSTEMD ".Unit", "ActiveState");
        ret->sub = get_text(u, path, SYSTEMD ".Unit", "SubState");
        ret->result = get_text(u, path, SYSTEMD ".Service", "Result");
        (void)sd_bus_get_property_trivial(u->bus, SYSTEMD, path, SYSTEMD ".Service", "MainPID",
                                          NULL, 'u', &ret->main_pid);
        (void)sd_bus_get_property_trivial(u->bus, SYSTEMD, path, SYSTEMD ".Service", "NRestarts",
                                          NULL, 'u', &ret->restarts);
        (void)sd_bus_get_property_trivial(u->bus, SYSTEMD, path, SYSTEMD ".Service",
                                          "ExecMainStartTimestamp", NULL, 't', &ret->started_usec);
        (void)sd_bus_get_property_trivial(u->bus, SYSTEMD, path, SYSTEMD ".Service",
                                          "ExecMainStartTimestampMonotonic", NULL, 't',
                                          &ret->started_mono_usec);
    } else {
        r = bus_failed(err, r, &e, unit);
    }
    sd_bus_message_unref(answer);
    sd_bus_error_free(&e);
    return r < 0 ? r : 0;
}

static int read_delay(struct nc_units *u, uint64_t *ret) {
    return sd_bus_get_property_trivial(u->bus, LOGIND, "/org/freedesktop/login1", LOGIND ".Manager",
                                       "InhibitDelayMaxUSec", NULL, 't', ret);
}

/* logind reads its files again on SIGHUP. It does so after the call has returned: the property is
 * looked at until it is what is wanted. */
int nc_logind_reload(struct nc_units *u, uint64_t want_usec, uint64_t *ret_delay_usec,
                     struct nc_err *err) {
    const uint64_t deadline = nc_mono_usec() + LOGIND_WAIT_USEC;
    const struct timespec pause = {.tv_nsec = LOGIND_LOOK_USEC * 1000};
    sd_bus_error e = SD_BUS_ERROR_NULL;
    int r = read_delay(u, ret_delay_usec);

    if (r >= 0 && *ret_delay_usec < want_usec)
        r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER, "KillUnit", &e, NULL, "ssi",
                               "systemd-logind.service", "main", SIGHUP);
    while (r >= 0 && *ret_delay_usec < want_usec && nc_mono_usec() < deadline) {
        (void)nanosleep(&pause, NULL);
        r = read_delay(u, ret_delay_usec);
    }
    if (r < 0)
        r = bus_failed(err, r, &e, "logind");
    sd_bus_error_free(&e);
    return r < 0 ? r : 0;
}
