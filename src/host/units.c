/*
 * systemd and logind over D-Bus: start a unit and wait for its job, check a unit, make logind
 * read its files again.
 *
 * Every call blocks until its answer or its timeout: for one-shot programs only. The long wait, for
 * a job, ends at once when the caller has a SIGTERM or SIGINT pending.
 *
 * JobRemoved is a hint, as every signal is: any local user may send us one. Whether our job has
 * ended, and how the start went, is read from the unit's properties.
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
#define LOGIND_CHECK_USEC 5000u
#define MAX_POLL_MSEC 60000u

struct nc_units {
    sd_bus *bus;
    sd_bus_slot *removed;
    char *job;           /* object path of the job that is waited for */
    bool is_hinted;      /* somebody states that it was removed */
    int signals;         /* descriptor that shows a SIGTERM or SIGINT meanwhile */
    uint64_t begun_usec; /* when the last start was requested, by the monotonic clock */
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

/* The end of a call over the bus: r as it came, or what is wrong. */
static int end_call(int r, sd_bus_error *e, const char *what, struct nc_err *err) {
    if (r < 0)
        r = bus_failed(err, r, e, what);
    sd_bus_error_free(e);
    return r < 0 ? r : 0;
}

struct nc_units *nc_units_free(struct nc_units *u) {
    if (!u)
        return NULL;
    sd_bus_slot_unref(u->removed);
    sd_bus_flush_close_unref(u->bus);
    free(u->job);
    free(u);
    return NULL;
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_units *u = userdata;
    const char *path;
    uint32_t id;

    if (sd_bus_message_read(m, "uo", &id, &path) >= 0 && nc_streq(path, u->job))
        u->is_hinted = true;
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
    r = end_call(r, &e, "systemd over D-Bus", err);
    if (r < 0) {
        nc_units_free(u);
        return r;
    }
    *ret = u;
    return 0;
}

/* The unit's object, loaded where it is not. */
static int find_unit(struct nc_units *u, const char *unit, char **ret, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *answer = NULL;
    const char *path = NULL;
    int r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER, "LoadUnit", &e, &answer, "s",
                               unit);

    if (r >= 0)
        r = sd_bus_message_read(answer, "o", &path);
    if (r >= 0)
        *ret = nc_strdup(path);
    r = end_call(r, &e, unit, err);
    sd_bus_message_unref(answer);
    return r;
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

static uint64_t get_usec(struct nc_units *u, const char *path, const char *interface,
                         const char *name) {
    uint64_t usec = 0;

    (void)sd_bus_get_property_trivial(u->bus, SYSTEMD, path, interface, name, NULL, 't', &usec);
    return usec;
}

/* The object of the unit's job; "/" = it has none. Owned. */
static int read_job(struct nc_units *u, const char *path, char **ret, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *answer = NULL;
    const char *job = NULL;
    uint32_t id;
    int r = sd_bus_get_property(u->bus, SYSTEMD, path, SYSTEMD ".Unit", "Job", &e, &answer, "(uo)");

    if (r >= 0)
        r = sd_bus_message_read(answer, "(uo)", &id, &job);
    if (r >= 0)
        *ret = nc_strdup(job);
    r = end_call(r, &e, path, err);
    sd_bus_message_unref(answer);
    return r;
}

int nc_units_is_pending(struct nc_units *u, const char *unit, struct nc_err *err) {
    nc_auto_free char *path = NULL, *job = NULL;
    sd_bus_error e = SD_BUS_ERROR_NULL;
    char *active = NULL;
    bool has_run, runs;
    int r = find_unit(u, unit, &path, err);

    if (r < 0) /* systemd loads what is not there; others report it */
        return r == -ENOENT ? 0 : r;
    r = read_job(u, path, &job, err);
    if (r < 0)
        return r;
    r = sd_bus_get_property_string(u->bus, SYSTEMD, path, SYSTEMD ".Unit", "ActiveState", &e,
                                   &active);
    r = end_call(r, &e, unit, err);
    if (r < 0)
        return r;
    has_run = nc_streq(active, "active");
    runs = !has_run && !nc_streq(active, "inactive") && !nc_streq(active, "failed");
    free(active);
    return runs || (!has_run && !nc_streq(job, "/"));
}

int nc_units_any_is_pending(struct nc_units *u, const char *pattern, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *call = NULL, *answer = NULL;
    const char *active = NULL, *skipped = NULL;
    uint32_t job = 0;
    bool is_pending = false;
    int r = sd_bus_message_new_method_call(u->bus, &call, SYSTEMD, SYSTEMD_PATH, MANAGER,
                                           "ListUnitsByPatterns");

    if (r >= 0)
        r = sd_bus_message_append(call, "asas", 0, 1, pattern);
    if (r >= 0)
        r = sd_bus_call(u->bus, call, 0, &e, &answer);
    if (r >= 0)
        r = sd_bus_message_enter_container(answer, 'a', "(ssssssouso)");
    while (
        !is_pending && r >= 0
        && (r = sd_bus_message_read(answer, "(ssssssouso)", &skipped, &skipped, &skipped, &active,
                                    &skipped, &skipped, &skipped, &job, &skipped, &skipped))
               > 0)
        is_pending = job != 0 || nc_streq(active, "activating");
    r = end_call(r, &e, pattern, err);
    sd_bus_message_unref(answer);
    sd_bus_message_unref(call);
    return r < 0 ? r : is_pending;
}

int nc_units_state(struct nc_units *u, const char *unit, struct nc_unit_state *ret,
                   struct nc_err *err) {
    nc_auto_free char *path = NULL;
    const int r = find_unit(u, unit, &path, err);

    if (r < 0)
        return r;
    nc_unit_state_done(ret);
    ret->active = get_text(u, path, SYSTEMD ".Unit", "ActiveState");
    ret->sub = get_text(u, path, SYSTEMD ".Unit", "SubState");
    ret->result = get_text(u, path, SYSTEMD ".Service", "Result");
    (void)sd_bus_get_property_trivial(u->bus, SYSTEMD, path, SYSTEMD ".Service", "MainPID", NULL,
                                      'u', &ret->main_pid);
    (void)sd_bus_get_property_trivial(u->bus, SYSTEMD, path, SYSTEMD ".Service", "NRestarts", NULL,
                                      'u', &ret->restarts);
    ret->started_usec = get_usec(u, path, SYSTEMD ".Service", "ExecMainStartTimestamp");
    ret->started_mono_usec =
        get_usec(u, path, SYSTEMD ".Service", "ExecMainStartTimestampMonotonic");
    return 0;
}

/* Waits for the bus; -EINTR where a signal that ends the program is pending. The caller has it
 * blocked, so it stays for the caller's own loop: it is only checked here. */
static int wait_for_bus(struct nc_units *u, uint64_t usec) {
    const int events = sd_bus_get_events(u->bus);
    struct pollfd fds[] = {{.fd = sd_bus_get_fd(u->bus), .events = (short)events},
                           {.fd = u->signals, .events = POLLIN}};
    const uint64_t msec = (usec + 999) / 1000;

    if (events < 0)
        return events;
    if (poll(fds, NC_ARRAY_SIZE(fds), (int)(msec < MAX_POLL_MSEC ? msec : MAX_POLL_MSEC)) < 0
        && errno != EINTR)
        return -errno;
    return fds[1].revents ? -EINTR : 0;
}

static int job_overdue(const char *unit, struct nc_err *err) {
    const int r = nc_err_set(err, NC_ERR_HOST, ETIMEDOUT, "%s has not started in time", unit);

    nc_err_remedy(err, "systemctl list-jobs; journalctl -u %s", unit);
    return r;
}

/* Whether the unit has another job than ours, or none. */
static int job_has_ended(struct nc_units *u, const char *path, struct nc_err *err) {
    nc_auto_free char *job = NULL;
    const int r = read_job(u, path, &job, err);

    return r < 0 ? r : !nc_streq(job, u->job);
}

/* Signals are dispatched by sd_bus_process only, and queued before: the end of a job that comes
 * before the answer which names the job is not lost. However many arrive, deadline and SIGTERM are
 * checked after each. */
static int wait_for_job(struct nc_units *u, const char *unit, const char *path,
                        uint64_t timeout_usec, struct nc_err *err) {
    const uint64_t deadline = nc_mono_usec() + timeout_usec;

    for (;;) {
        int r = sd_bus_process(u->bus, NULL);
        const uint64_t now = nc_mono_usec();
        if (r >= 0 && (u->is_hinted || now >= deadline)) {
            const int ended = job_has_ended(u, path, err);
            u->is_hinted = false;
            if (ended != 0)
                return ended < 0 ? ended : 0;
            if (now >= deadline)
                return job_overdue(unit, err);
        }
        if (r >= 0)
            r = wait_for_bus(u, r > 0 ? 0 : deadline - now);
        if (r == -EINTR)
            return nc_err_set(err, NC_ERR_TRANSIENT, EINTR,
                              "%s: interrupted by a signal while its start job ran", unit);
        if (r < 0)
            return bus_failed(err, r, NULL, "systemd over D-Bus");
    }
}

/* A condition of the unit did not hold when it was tested for this job: nothing was started. */
static bool was_skipped(struct nc_units *u, const char *path) {
    int held = 1;

    return sd_bus_get_property_trivial(u->bus, SYSTEMD, path, SYSTEMD ".Unit", "ConditionResult",
                                       NULL, 'b', &held)
               >= 0
           && !held
           && get_usec(u, path, SYSTEMD ".Unit", "ConditionTimestampMonotonic") >= u->begun_usec;
}

/* A unit whose process was started has been started, though it may have ended since and systemd
 * starts it again: what becomes of it is for whoever checks it next. One of which systemd could not
 * even prepare the process (a file of its environment is missing) will not do better next time. */
static int judge_unit(const struct nc_units *u, const struct nc_unit_state *s, bool until_active) {
    if (nc_is_one_of(s->active, "active\0reloading\0refreshing\0"))
        return 0;
    if (nc_streq(s->active, "failed"))
        return -EIO;
    if (!until_active && s->started_mono_usec >= u->begun_usec)
        return 0;
    return !nc_streq(s->active, "inactive") && !nc_streq(s->result, "resources") ? NC_UNITS_AGAIN
                                                                                 : -EIO;
}

int nc_units_outcome(struct nc_units *u, const struct nc_unit_start *start, struct nc_err *err) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state s = {0};
    const char *unit = start->unit;
    nc_auto_free char *path = NULL;
    int r = nc_units_state(u, unit, &s, err);

    if (r >= 0)
        r = find_unit(u, unit, &path, err);
    if (r < 0)
        return r;
    r = judge_unit(u, &s, start->until_active);
    if (r < 0 && was_skipped(u, path))
        (void)nc_err_set(err, NC_ERR_HOST, EIO,
                         "%s: systemd did not start it, because a condition of the unit does not "
                         "hold",
                         unit);
    else if (r < 0 && nc_streq(s.active, "failed"))
        (void)nc_err_set(err, NC_ERR_HOST, EIO, "%s failed to start, result %s", unit, s.result);
    else if (r != 0)
        (void)nc_err_set(err, r > 0 ? NC_ERR_TRANSIENT : NC_ERR_HOST, EIO,
                         "%s failed to start%s: %s (%s), result %s", unit,
                         r > 0 ? " and systemd starts it again" : "", s.active, s.sub, s.result);
    if (r != 0)
        nc_err_remedy(err, "systemctl status %s; journalctl -u %s", unit, unit);
    return r;
}

static int follow_job(struct nc_units *u, const struct nc_unit_start *s, struct nc_err *err) {
    nc_auto_free char *path = NULL;
    sigset_t set;
    int r;

    r = find_unit(u, s->unit, &path, err);
    if (r < 0)
        return r;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    u->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (u->signals < 0)
        return nc_err_host(err, errno, "signalfd");
    r = wait_for_job(u, s->unit, path, s->timeout_usec, err);
    (void)close(u->signals);
    return r < 0 ? r : nc_units_outcome(u, s, err);
}

int nc_units_start(struct nc_units *u, const struct nc_unit_start *s, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *answer = NULL;
    const char *job = NULL;
    int r;

    u->begun_usec = nc_mono_usec();
    free(u->job);
    u->job = NULL;
    u->is_hinted = false;
    r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER,
                           s->restart ? "RestartUnit" : "StartUnit", &e, &answer, "ss", s->unit,
                           "replace");
    if (r >= 0)
        r = sd_bus_message_read(answer, "o", &job);
    if (r >= 0)
        u->job = nc_strdup(job);
    r = end_call(r, &e, s->unit, err);
    sd_bus_message_unref(answer);
    return r < 0 ? r : follow_job(u, s, err);
}

int nc_units_reload(struct nc_units *u, uint64_t timeout_usec, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus_message *call = NULL;
    int r = sd_bus_message_new_method_call(u->bus, &call, SYSTEMD, SYSTEMD_PATH, MANAGER, "Reload");

    if (r >= 0)
        r = sd_bus_call(u->bus, call, timeout_usec, &e, NULL);
    sd_bus_message_unref(call);
    return end_call(r, &e, "systemd: daemon-reload", err);
}

int nc_units_reload_unit(struct nc_units *u, const char *unit, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    int r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER, "ReloadUnit", &e, NULL, "ss",
                               unit, "replace");

    return end_call(r, &e, unit, err);
}

static int read_delay(sd_bus *bus, sd_bus_error *e, uint64_t *ret) {
    return sd_bus_get_property_trivial(bus, LOGIND, "/org/freedesktop/login1", LOGIND ".Manager",
                                       "InhibitDelayMaxUSec", e, 't', ret);
}

int nc_logind_delay(uint64_t *ret_usec, struct nc_err *err) {
    sd_bus_error e = SD_BUS_ERROR_NULL;
    sd_bus *bus = NULL;
    int r = sd_bus_open_system(&bus);

    if (r >= 0)
        r = sd_bus_set_method_call_timeout(bus, CALL_TIMEOUT_USEC);
    if (r >= 0)
        r = read_delay(bus, &e, ret_usec);
    sd_bus_flush_close_unref(bus);
    return end_call(r, &e, "logind", err);
}

/* logind reads its files again on SIGHUP. It does so after the call has returned: the property is
 * checked until it is what is wanted. */
int nc_logind_reload(struct nc_units *u, uint64_t want_usec, uint64_t *ret_delay_usec,
                     struct nc_err *err) {
    const uint64_t deadline = nc_mono_usec() + LOGIND_WAIT_USEC;
    const struct timespec pause = {.tv_nsec = LOGIND_CHECK_USEC * 1000};
    sd_bus_error e = SD_BUS_ERROR_NULL;
    int r = read_delay(u->bus, NULL, ret_delay_usec);

    if (r >= 0 && *ret_delay_usec < want_usec)
        r = sd_bus_call_method(u->bus, SYSTEMD, SYSTEMD_PATH, MANAGER, "KillUnit", &e, NULL, "ssi",
                               "systemd-logind.service", "main", SIGHUP);
    while (r >= 0 && *ret_delay_usec < want_usec && nc_mono_usec() < deadline) {
        (void)nanosleep(&pause, NULL);
        r = read_delay(u->bus, NULL, ret_delay_usec);
    }
    return end_call(r, &e, "logind", err);
}
