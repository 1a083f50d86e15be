/*
 * cloud-init beside a bootstrap: which of its stages are waited for, and why.
 *
 * User data of ours alone give cloud-init nothing to do: nothing is waited for. Where they hold
 * parts for cloud-init, its final stage, which runs the user's scripts, comes before kubelet is
 * started; and where they hold more than scripts, its network stage before the documents are read
 * (write_files may bring some). Everything in between goes ahead.
 */
#include <errno.h>
#include <unistd.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"

#define CHECK_USEC 100000u
#define BUS_USEC 90000000u /* dbus is up by then, or never */
#define SYSTEMD_FOLDER "/run/systemd/system"
#define OWN_UNIT "nodeclaimd-bootstrap.service"
#define FINAL_UNIT "cloud-final.service"
#define BUS "the system bus" /* as a thing that is waited for */

/* cloud-init.service was renamed in cloud-init 24.3. */
static const char network_stage[] = "cloud-init.service\0cloud-init-network.service\0";
static const char final_stage[] = FINAL_UNIT "\0";

/* --- whether */

void nc_cloud_init_decide(struct nc_bootstrap *b) {
    const struct nc_documents *d = &b->gather.documents;
    const enum nc_cloud_init_wait wait = nc_documents_wait_for_cloud_init(d);
    nc_auto_free char *why =
        wait == NC_CLOUD_INIT_ALWAYS  ? nc_strdup("spec.bootstrap.waitForCloudInit is always")
        : wait == NC_CLOUD_INIT_NEVER ? nc_strdup("spec.bootstrap.waitForCloudInit is never")
        : d->for_cloud_init           ? nc_strdup(d->for_cloud_init)
                                      : nc_strdup("the user data hold nothing for cloud-init");

    b->cloud_init.waits =
        wait == NC_CLOUD_INIT_ALWAYS || (wait == NC_CLOUD_INIT_AUTO && d->for_cloud_init);
    b->cloud_init.is_forced = wait != NC_CLOUD_INIT_AUTO;
    nc_report_set_cloud_init(&b->report, b->cloud_init.waits, why);
}

/* --- the bus */

static bool is_booted(const struct nc_bootstrap *b) {
    return nc_is_there(b->app->opts.root, SYSTEMD_FOLDER);
}

static void announce_wait(struct nc_bootstrap *b, const char *what) {
    nc_auto_free char *text = what ? nc_asprintf("waiting for %s", what) : NULL;

    if (nc_streq(text, b->report.waiting) || (!text && !b->report.waiting)) {
        nc_publish_console_in_time(b);
        return;
    }
    nc_report_set_waiting(&b->report,
                          !text                 ? NULL
                          : nc_streq(what, BUS) ? "SystemBus"
                                                : "CloudInit",
                          text);
    if (text)
        nc_log(NC_LOG_INFO,
               &(struct nc_log_fields){.phase = nc_phase_name(nc_report_current(&b->report))}, "%s",
               text);
    nc_publish(b);
}

/* A bootstrap starts before the system bus does: where systemd has booted this machine, the bus is
 * on its way. */
int nc_units_open(struct nc_bootstrap *b, struct nc_err *err) {
    const uint64_t until = nc_mono_usec() + nc_app_left(b->app, BUS_USEC);

    if (b->kubelet.units)
        return 0;
    while (!b->kubelet.units) {
        struct nc_err own = NC_ERR_INIT;
        int r = nc_units_new(&b->kubelet.units, &own);

        if (r >= 0)
            break;
        if ((r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET || r == -ETIMEDOUT)
            && is_booted(b) && nc_mono_usec() < until) {
            announce_wait(b, BUS);
            r = nc_app_pause(b->app, nc_app_left(b->app, CHECK_USEC));
            if (r >= 0)
                continue;
        }
        *err = own;
        nc_err_remedy(err, "without systemd, start kubelet yourself (--start none) or as a "
                           "process (--start exec)");
        return r;
    }
    announce_wait(b, NULL);
    return 0;
}

/* --- the wait */

static int overdue(const char *unit, struct nc_err *err) {
    const int r =
        nc_err_set(err, NC_ERR_TRANSIENT, ETIMEDOUT, "waiting for %s, which has not ended", unit);

    nc_err_remedy(
        err,
        "systemctl status %s; a script of the user data that waits for the node or for " OWN_UNIT
        " never ends: set spec.bootstrap.waitForCloudInit: never, or use "
        "systemctl --no-block",
        unit);
    return r;
}

/* The first of the units that runs or is about to; NULL where all have ended. */
static int find_pending(struct nc_bootstrap *b, const char *units, const char **ret,
                        struct nc_err *err) {
    *ret = NULL;
    for (const char *unit = units; *unit && !*ret; unit = nc_next_name(unit)) {
        const int r = nc_units_is_pending(b->kubelet.units, unit, err);

        if (r < 0) /* another connection next time */
            b->kubelet.units = nc_units_free(b->kubelet.units);
        if (r < 0)
            return r;
        if (r > 0)
            *ret = unit;
    }
    return 0;
}

/* Until all have ended. */
static int wait_for(struct nc_bootstrap *b, const char *units, struct nc_err *err) {
    if (!is_booted(b)) /* without systemd there are no units of cloud-init's */
        return 0;
    for (;;) {
        const char *pending;
        int r = nc_units_open(b, err);

        if (r >= 0)
            r = find_pending(b, units, &pending, err);
        if (r < 0) {
            if (err->class == NC_ERR_HOST && !b->kubelet.units)
                err->class = NC_ERR_TRANSIENT;
            return r;
        }
        if (!pending)
            break;
        if (nc_app_is_late(b->app))
            return overdue(pending, err);
        announce_wait(b, pending);
        r = nc_app_pause(b->app, nc_app_left(b->app, CHECK_USEC));
        if (r < 0)
            return overdue(pending, err);
    }
    announce_wait(b, NULL);
    return 0;
}

int nc_cloud_init_wait_network(struct nc_bootstrap *b, struct nc_err *err) {
    const bool is_unwanted = b->cloud_init.is_forced && !b->cloud_init.waits;

    return is_unwanted ? 0 : wait_for(b, network_stage, err);
}

/* A script of the user data may start the bootstrap itself, again or for the first time, and wait
 * for it: it is not waited for in turn. systemd's own restarts are nobody's wish. */
static bool is_started_by_script(struct nc_bootstrap *b) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state own = {0}, final = {0};

    if (b->cloud_init.is_forced || !is_booted(b) || nc_units_open(b, &(struct nc_err){0}) < 0
        || nc_units_state(b->kubelet.units, FINAL_UNIT, &final, NULL) < 0
        || !nc_streq(final.active, "activating") || final.started_mono_usec == 0
        || final.started_mono_usec >= b->started_mono_usec)
        return false;
    return nc_units_state(b->kubelet.units, OWN_UNIT, &own, NULL) < 0 || own.restarts == 0;
}

int nc_cloud_init_wait_final(struct nc_bootstrap *b, struct nc_err *err) {
    if (!b->cloud_init.waits)
        return 0;
    if (is_started_by_script(b)) {
        nc_report_set_cloud_init(&b->report, false,
                                 "a script of the user data started this bootstrap");
        return 0;
    }
    return wait_for(b, final_stage, err);
}
