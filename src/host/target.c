/*
 * A target of systemd on the event loop: is it used, start it, how did it end.
 *
 * RestartUnit stops the target where it is active and starts it anew in one job, which waits for
 * the jobs of the units that it pulls in (a target is ordered after them). Whether that job is over
 * is read from the target's own properties, again and again: signals are hints that any local user
 * may send, and this goes on for seconds only. A target is active although a unit that it wants has
 * failed, so the states of those units are read last.
 */
#include "nc/host.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>

#include "nc/clock.h"
#include "nc/mem.h"
#include "nc/str.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define MANAGER SYSTEMD ".Manager"
#define CALL_TIMEOUT_USEC 10000000u
#define CHECK_USEC 100000u
#define MAX_UNITS 64 /* that are read: more of them are nobody's hooks */

struct nc_target {
    struct nc_target_call call;
    char *target, *path;
    sd_event *event;
    sd_bus *bus;
    sd_bus_slot *slot; /* the call in flight */
    sd_event_source *timer;
    char *active; /* as last read */
    uint64_t active_usec;
    bool has_job;
    struct nc_strv units; /* that it pulls in */
    char *message;        /* of what has failed, until it is told */
};

/* --- is it used */

/* An entry other than . and .. */
static bool is_empty(const char *path) {
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool found = false;

    if (!folder)
        return errno == ENOENT;
    errno = 0;
    while (!found && (entry = readdir(folder)))
        found = !nc_streq(entry->d_name, ".") && !nc_streq(entry->d_name, "..");
    found = found || errno != 0;
    (void)closedir(folder);
    return !found;
}

bool nc_target_is_used(const char *root, const char *target) {
    static const char kinds[][12] = {"wants", "requires", "d"};

    for (const char *folder = nc_unit_folders; *folder; folder = nc_next_name(folder))
        for (size_t k = 0; k < NC_ARRAY_SIZE(kinds); k++) {
            nc_auto_free char *path =
                nc_asprintf("%s%s/%s.%s", root ? root : "", folder, target, kinds[k]);
            if (!is_empty(path))
                return true;
        }
    return false;
}

/* --- the end */

static int on_told(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_target *t = userdata;
    nc_auto_free char *message = nc_steal(&t->message);

    t->call.done(t->call.userdata, message); /* may free t */
    return 0;
}

static int on_check(sd_event_source *source, uint64_t usec, void *userdata);

static void set_timer(struct nc_target *t, uint64_t in_usec, sd_event_time_handler_t handler) {
    t->timer = sd_event_source_disable_unref(t->timer);
    (void)sd_event_add_time(t->event, &t->timer, CLOCK_MONOTONIC, nc_mono_usec() + in_usec, 0,
                            handler, t);
}

/* From a turn of its own: whoever is told may free what called this. message: owned, NULL = good.
 */
static void end(struct nc_target *t, char *message) {
    t->slot = sd_bus_slot_unref(t->slot);
    free(t->message);
    t->message = message;
    set_timer(t, 0, on_told);
}

static void fail(struct nc_target *t, const char *what, int r, const sd_bus_error *e) {
    end(t, nc_asprintf("%s: %s", what, e && e->message ? e->message : strerror(-r)));
}

/* --- the units that it pulls in */

static int on_units(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_target *t = userdata;
    const sd_bus_error *e = sd_bus_message_get_error(m);
    const char *name, *load, *active, *skip, *path;
    nc_auto_free char *failed = NULL;
    uint32_t job;
    int r;

    t->slot = sd_bus_slot_unref(t->slot);
    if (e) {
        fail(t, "reading the states of its units", -EIO, e);
        return 0;
    }
    r = sd_bus_message_enter_container(m, 'a', "(ssssssouso)");
    while (r > 0
           && (r = sd_bus_message_read(m, "(ssssssouso)", &name, &skip, &load, &active, &skip,
                                       &skip, &path, &job, &skip, &path))
                  > 0)
        if (!failed && (nc_streq(active, "failed") || nc_streq(load, "not-found")))
            failed = nc_asprintf("%s: %s", name, nc_streq(active, "failed") ? active : load);
    if (r < 0)
        fail(t, "reading the states of its units", r, NULL);
    else
        end(t, nc_steal(&failed));
    return 0;
}

static int call_manager(struct nc_target *t, const char *method, sd_bus_message **ret) {
    return sd_bus_message_new_method_call(t->bus, ret, SYSTEMD, SYSTEMD_PATH, MANAGER, method);
}

static void read_units(struct nc_target *t) {
    sd_bus_message *m = NULL;
    int r = call_manager(t, "ListUnitsByNames", &m);

    if (r >= 0)
        r = sd_bus_message_open_container(m, 'a', "s");
    for (size_t i = 0; r >= 0 && i < t->units.n; i++)
        r = sd_bus_message_append(m, "s", t->units.v[i]);
    if (r >= 0)
        r = sd_bus_message_close_container(m);
    if (r >= 0)
        r = sd_bus_call_async(t->bus, &t->slot, m, on_units, t, CALL_TIMEOUT_USEC);
    sd_bus_message_unref(m);
    if (r < 0)
        fail(t, "reading the states of its units", r, NULL);
}

/* --- the target */

static int read_names(struct nc_target *t, sd_bus_message *m) {
    const char *name;
    int r = sd_bus_message_enter_container(m, 'v', "as");

    if (r >= 0)
        r = sd_bus_message_enter_container(m, 'a', "s");
    while (r >= 0 && (r = sd_bus_message_read(m, "s", &name)) > 0)
        if (t->units.n < MAX_UNITS)
            nc_strv_add(&t->units, name);
    if (r >= 0)
        r = sd_bus_message_exit_container(m);
    return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_property(struct nc_target *t, const char *name, sd_bus_message *m) {
    const char *text;
    uint32_t job;
    int r;

    if (nc_streq(name, "Wants") || nc_streq(name, "Requires"))
        return read_names(t, m);
    if (nc_streq(name, "ActiveEnterTimestampMonotonic"))
        return sd_bus_message_read(m, "v", "t", &t->active_usec);
    if (nc_streq(name, "Job")) {
        r = sd_bus_message_read(m, "v", "(uo)", &job, &text);
        t->has_job = r >= 0 && job != 0;
        return r;
    }
    if (!nc_streq(name, "ActiveState"))
        return sd_bus_message_skip(m, "v");
    r = sd_bus_message_read(m, "v", "s", &text);
    if (r >= 0) {
        free(t->active);
        t->active = nc_strdup(text);
    }
    return r;
}

static int read_properties(struct nc_target *t, sd_bus_message *m) {
    const char *name;
    int r = sd_bus_message_enter_container(m, 'a', "{sv}");

    nc_strv_done(&t->units);
    t->has_job = false;
    free(nc_steal(&t->active));
    while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        r = sd_bus_message_read(m, "s", &name);
        if (r >= 0)
            r = read_property(t, name, m);
        if (r >= 0)
            r = sd_bus_message_exit_container(m);
    }
    return r < 0 ? r : t->active ? 0 : -EBADMSG;
}

/* One that was active before our start is not what we started: the call was never sent. */
static void judge(struct nc_target *t) {
    if (!nc_streq(t->active, "active"))
        end(t, nc_asprintf("systemd did not start it, it is %s", t->active));
    else if (t->active_usec < t->call.begun_usec)
        end(t, nc_strdup("nodeclaimd was restarted, and systemd does not show that it ran"));
    else if (t->units.n == 0)
        end(t, NULL);
    else
        read_units(t);
}

static int on_properties(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_target *t = userdata;
    const sd_bus_error *e = sd_bus_message_get_error(m);
    int r;

    t->slot = sd_bus_slot_unref(t->slot);
    if (e) {
        fail(t, "reading its state", -EIO, e);
        return 0;
    }
    r = read_properties(t, m);
    if (r < 0)
        fail(t, "reading its state", r, NULL);
    else if (t->has_job)
        set_timer(t, CHECK_USEC, on_check);
    else
        judge(t);
    return 0;
}

static void check(struct nc_target *t) {
    sd_bus_message *m = NULL;
    int r = sd_bus_message_new_method_call(t->bus, &m, SYSTEMD, t->path,
                                           "org.freedesktop.DBus.Properties", "GetAll");

    if (r >= 0)
        r = sd_bus_message_append(m, "s", SYSTEMD ".Unit");
    if (r >= 0)
        r = sd_bus_call_async(t->bus, &t->slot, m, on_properties, t, CALL_TIMEOUT_USEC);
    sd_bus_message_unref(m);
    if (r < 0)
        fail(t, "reading its state", r, NULL);
}

static int on_check(sd_event_source *source, uint64_t usec, void *userdata) {
    check(userdata);
    return 0;
}

static int on_started(sd_bus_message *m, void *userdata, sd_bus_error *error) {
    struct nc_target *t = userdata;
    const sd_bus_error *e = sd_bus_message_get_error(m);

    t->slot = sd_bus_slot_unref(t->slot);
    if (e)
        fail(t, "starting it over D-Bus", -EIO, e);
    else
        check(t);
    return 0;
}

static int start(struct nc_target *t) {
    sd_bus_message *m = NULL;
    int r = call_manager(t, "RestartUnit", &m);

    if (r >= 0)
        r = sd_bus_message_append(m, "ss", t->target, "replace");
    if (r >= 0)
        r = sd_bus_call_async(t->bus, &t->slot, m, on_started, t, CALL_TIMEOUT_USEC);
    sd_bus_message_unref(m);
    return r;
}

struct nc_target *nc_target_start(sd_event *event, const struct nc_target_call *call) {
    struct nc_target *t = nc_calloc(1, sizeof(*t));
    char *path = NULL;
    int r;

    *t = (struct nc_target){
        .call = *call, .target = nc_strdup(call->target), .event = sd_event_ref(event)};
    r = sd_bus_path_encode(SYSTEMD_PATH "/unit", call->target, &path);
    t->path = r >= 0 ? nc_strdup(path) : NULL;
    free(path);
    if (r >= 0)
        r = sd_bus_open_system(&t->bus);
    if (r >= 0)
        r = sd_bus_attach_event(t->bus, event, SD_EVENT_PRIORITY_NORMAL);
    if (r < 0)
        fail(t, "connecting to the system bus", r, NULL);
    else if (call->is_followed)
        check(t);
    else if ((r = start(t)) < 0)
        fail(t, "starting it over D-Bus", r, NULL);
    return t;
}

struct nc_target *nc_target_free(struct nc_target *t) {
    if (!t)
        return NULL;
    sd_bus_slot_unref(t->slot);
    if (t->bus)
        (void)sd_bus_detach_event(t->bus);
    sd_bus_close_unref(t->bus);
    sd_event_source_disable_unref(t->timer);
    sd_event_unref(t->event);
    nc_strv_done(&t->units);
    free(t->active);
    free(t->message);
    free(t->target);
    free(t->path);
    free(t);
    return NULL;
}
