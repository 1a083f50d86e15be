/*
 * Starting kubelet: through systemd here, as a process of its own in start-process.c; and telling
 * when it has died.
 *
 * kubelet is started again only where its files have changed since it was started.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"
#include "time-limits.h"

#define CNI_MARKER "/run/nodeadm/init"
#define CHECK_USEC 200000u /* between two checks a unit that is waited for */
/* Of the image, for each interface: it tries again after 5 s, as long as IMDS cannot be reached. */
#define INTERFACE_UNITS "udev-net-manager@*.service"
#define INTERFACES_USEC 6000000u /* no CNI attaches one so soon after kubelet's start */

/* A network interface that udev sees before this file is networkd's, one that comes after it is the
 * CNI's. By now the API server was reached over the primary one. No link is followed: /run is
 * root's, but what is in it may be anybody's. */
static int write_cni_marker(const struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *run = nc_app_path(b->app, "/run");
    int r = nc_mkdir_p(run, err), parent, folder = -1, file = -1;

    if (r < 0)
        return r;
    parent = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent >= 0 && (mkdirat(parent, "nodeadm", 0755) == 0 || errno == EEXIST))
        folder = openat(parent, "nodeadm", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        file =
            openat(folder, "init", O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (file < 0) {
        r = nc_file_fail(err, errno, "write the CNI's marker", CNI_MARKER);
        nc_err_remedy(err, "/run/nodeadm must be a folder of root's, and no link");
    }
    (void)(file >= 0 && close(file));
    (void)(folder >= 0 && close(folder));
    (void)(parent >= 0 && close(parent));
    return r < 0 ? r : 0;
}

bool nc_is_marked(const struct nc_bootstrap *b) {
    return nc_is_there(b->app->opts.root, CNI_MARKER);
}

void nc_applied(struct nc_bootstrap *b) {
    nc_fileset_done(&b->written);
    b->written = b->gather.files;
    b->gather.files = (struct nc_fileset)NC_FILESET_INIT;
}

int nc_step_apply(struct nc_bootstrap *b, struct nc_err *err) {
    const int r = nc_apply_stage(b, &b->gather.files, NC_STAGE_KUBELET, &b->applied, err);

    if (r < 0 || nc_streq(b->app->opts.skip, "start"))
        return r;
    if (nc_scripts_are_awaited(b))
        nc_applied(b);
    return b->kubelet.mode == NC_START_NONE && !b->is_warming ? write_cni_marker(b, err) : 0;
}

/* --- a unit */

/* systemd starts a unit that has ended again: what the process before it said is old from then on.
 */
static int read_unit(struct nc_bootstrap *b, struct nc_unit_state *ret) {
    struct nc_kubelet_run *k = &b->kubelet;
    const int r =
        k->units ? nc_units_state(k->units, b->gather.config.kubelet_unit, ret, NULL) : -ENOTCONN;

    if (r < 0)
        return r;
    k->started_usec = ret->started_usec;
    k->started_mono_usec = ret->started_mono_usec;
    return 0;
}

/* kubelet's own grace at a shutdown counts only as far as logind waits. */
static void raise_logind_delay(struct nc_bootstrap *b) {
    struct nc_err err = NC_ERR_INIT;
    uint64_t delay_usec = 0;
    const int r =
        nc_logind_reload(b->kubelet.units, b->gather.plan.logind_delay_usec, &delay_usec, &err);

    if (r < 0 || nc_logind_is_short(b->app->opts.root, delay_usec, &err))
        nc_log(NC_LOG_WARNING, NULL, "%s; %s", err.msg, err.remedy);
}

static void add_last_lines(struct nc_bootstrap *b, const char *unit, struct nc_err *err) {
    const size_t n = strlen(err->msg);

    nc_copy_text(err->msg + n, sizeof(err->msg) - n, nc_last_lines(b, unit));
}

/* What has become of the unit when the time is over counts. */
static int follow_unit(struct nc_bootstrap *b, enum nc_phase phase, const struct nc_unit_start *s,
                       struct nc_err *err) {
    const uint64_t until = s->until_active ? nc_mono_usec() + s->timeout_usec : UINT64_MAX;
    int r;

    do {
        add_last_lines(b, s->unit, err);
        if (nc_app_is_late(b->app) || nc_mono_usec() >= until)
            return -ETIMEDOUT;
        nc_phase_waits(b, phase, err);
        r = nc_app_pause(b->app, nc_app_left(b->app, CHECK_USEC));
        if (r < 0)
            return r;
        r = nc_units_outcome(b->kubelet.units, s, err);
    } while (r == NC_UNITS_AGAIN);
    if (r < 0)
        add_last_lines(b, s->unit, err);
    return r;
}

int nc_start_unit(struct nc_bootstrap *b, enum nc_phase phase, const struct nc_unit_start *s,
                  struct nc_err *err) {
    struct nc_unit_start start = *s;
    int r = nc_units_open(b, err);

    if (r < 0)
        return r;
    start.timeout_usec = nc_app_timeout(b->app, s->timeout_usec);
    free(b->kubelet.last_lines); /* another unit's, or of before */
    b->kubelet.last_lines = NULL;
    r = nc_units_start(b->kubelet.units, &start, err);
    if (r < 0)
        add_last_lines(b, s->unit, err);
    return r == NC_UNITS_AGAIN ? follow_unit(b, phase, s, err) : r;
}

static int start_unit(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state state = {0};
    const struct nc_unit_start s = {.unit = b->gather.config.kubelet_unit,
                                    .restart = nc_is_due(b, NC_DUE_KUBELET),
                                    .timeout_usec = UNIT_TIMEOUT_USEC};
    int r = nc_units_open(b, err);

    if (r < 0)
        return r;
    if (b->gather.plan.logind_delay_usec > 0)
        raise_logind_delay(b);
    r = nc_start_unit(b, NC_PHASE_START, &s, err);
    if (r < 0)
        return r;
    if (read_unit(b, &state) >= 0)
        b->kubelet.restarts = state.restarts; /* what it did before is not this bootstrap's */
    return 0;
}

static int check_unit(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state state = {0};
    const char *unit = b->gather.config.kubelet_unit;
    int r;

    if (read_unit(b, &state) < 0
        || (!nc_streq(state.active, "failed") && state.restarts <= b->kubelet.restarts))
        return 0;
    r = nc_err_set(err, NC_ERR_HOST, ECHILD, "%s is %s (%s), result %s, restarted %u times since%s",
                   unit, state.active, state.sub, state.result,
                   state.restarts - b->kubelet.restarts, nc_last_lines(b, unit));
    nc_err_remedy(err, "journalctl -u %s; %s", unit, nc_kubelet_remedy(err->msg));
    return r;
}

/* An interface of the instance whose unit runs after the marker would be the CNI's, for good: the
 * answer is kept across reboots. An answer that does not come is no reason to mark. */
static bool has_pending_interfaces(const struct nc_bootstrap *b) {
    return b->kubelet.units
           && nc_units_any_is_pending(b->kubelet.units, INTERFACE_UNITS, NULL) != 0;
}

static int mark_after_interfaces(struct nc_bootstrap *b, struct nc_err *err) {
    const uint64_t until = nc_mono_usec() + nc_app_left(b->app, INTERFACES_USEC);
    int r = 0;

    while (r >= 0 && has_pending_interfaces(b) && nc_mono_usec() < until)
        r = nc_app_pause(b->app, CHECK_USEC);
    return write_cni_marker(b, err);
}

int nc_step_start(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_log_fields fields = {
        .milestone = NC_MILESTONE_KUBELET_STARTED, .phase = "start", .node = b->report.node};
    const bool is_process = b->kubelet.mode == NC_START_EXEC;
    bool is_late;
    int r = is_process ? 0 : nc_units_open(b, err);

    if (r < 0)
        return r;
    is_late = !is_process && !nc_is_marked(b) && has_pending_interfaces(b);
    r = is_late ? 0 : write_cni_marker(b, err);
    if (r >= 0)
        r = is_process ? nc_start_process(b, err) : start_unit(b, err);
    if (r < 0)
        return r;
    nc_due_done(b, NC_DUE_KUBELET);
    nc_log(NC_LOG_INFO, &fields, "kubelet started");
    return is_late ? mark_after_interfaces(b, err) : 0;
}

int nc_check_kubelet(struct nc_bootstrap *b, struct nc_err *err) {
    if (b->kubelet.mode == NC_START_EXEC)
        return nc_check_process(b, err);
    return b->kubelet.mode == NC_START_SYSTEMD ? check_unit(b, err) : 0;
}

uint64_t nc_kubelet_since(const struct nc_kubelet_run *k) {
    return k->started_usec == 0 ? 0
                                : nc_clock_earliest(k->started_usec, k->started_mono_usec,
                                                    nc_now_usec(), nc_mono_usec());
}
