/*
 * What becomes of the host before kubelet's files are written: environment of services, resolver,
 * local disks, containerd; and the marker that gives later network interfaces to the CNI.
 *
 * systemd is only asked where this bootstrap starts kubelet through it. Where it does not, the
 * files are written all the same, and what they ask of systemd is left to whoever runs the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"
#include "time-limits.h"

#define SETUP_LOCAL_DISKS "/usr/bin/setup-local-disks"
#define LOCAL_DISKS_UNIT "nodeclaimd-local-disks.service"
#define CONTAINERD_UNIT "containerd.service"
#define LINE_BYTES 250
#define RESOLVER_UNIT "systemd-resolved.service"

/* Does this run ask systemd for anything? */
static bool uses_systemd(const struct nc_bootstrap *b) {
    return b->kubelet.mode == NC_START_SYSTEMD && !nc_streq(b->app->opts.skip, "start");
}

static void report_skipped(struct nc_bootstrap *b, enum nc_due d, const char *what) {
    if (nc_is_due(b, d)) /* each warning of the report is logged, once */
        nc_strv_add_once(&b->report.warnings, what);
}

/* --- environment and resolver */

static int reload(struct nc_bootstrap *b, struct nc_err *err) {
    int r;

    if (!nc_is_due(b, NC_DUE_RELOAD))
        return 0;
    r = nc_units_open(b, err);
    if (r >= 0)
        r = nc_units_reload(b->kubelet.units, nc_app_timeout(b->app, RELOAD_TIMEOUT_USEC), err);
    if (r >= 0)
        nc_due_done(b, NC_DUE_RELOAD);
    return r;
}

static int restart_resolver(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_unit_start s = {
        .unit = RESOLVER_UNIT,
        .restart = true,
        .timeout_usec = nc_app_timeout(b->app, RESOLVER_TIMEOUT_USEC),
    };
    int r;

    if (!nc_is_due(b, NC_DUE_RESOLVER))
        return 0;
    r = nc_units_open(b, err);
    if (r >= 0)
        r = nc_units_start(b->kubelet.units, &s, err);
    if (r == 0) {
        nc_due_done(b, NC_DUE_RESOLVER);
        return 0;
    }
    if (err)
        err->class = r == -EINTR ? NC_ERR_TRANSIENT : NC_ERR_HOST;
    nc_err_remedy(err, "install and enable systemd-resolved (journalctl -u " RESOLVER_UNIT
                       "), or remove spec.instance.network");
    return r < 0 ? r : -EIO;
}

static int apply_host(struct nc_bootstrap *b, const struct nc_fileset *files,
                      struct nc_apply_result *count, struct nc_err *err) {
    int r = nc_apply_stage(b, files, NC_STAGE_HOST, count, err);

    if (r < 0)
        return r;
    if (!uses_systemd(b)) {
        report_skipped(b, NC_DUE_RELOAD,
                       "spec.instance.environment: systemd has not read it: run systemctl "
                       "daemon-reload, and start the services again");
        report_skipped(b, NC_DUE_RESOLVER,
                       "spec.instance.network: systemd-resolved has not read it: restart it");
        return 0;
    }
    r = reload(b, err);
    return r < 0 ? r : restart_resolver(b, err);
}

bool nc_host_comes_first(const struct nc_bootstrap *b) {
    const struct nc_host_config *h = &b->gather.config.host;

    return h->n_environment > 0 || h->network.nameservers.n + h->network.domains.n > 0;
}

int nc_step_host_first(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_fileset_done) struct nc_fileset files = NC_FILESET_INIT;
    struct nc_apply_result count = {0};
    int r;

    nc_render_host(&b->gather.facts, &b->gather.config, &files);
    r = apply_host(b, &files, &count, err);
    b->applied_first.written += count.written;
    b->applied_first.removed += count.removed;
    return r;
}

int nc_step_host(struct nc_bootstrap *b, struct nc_err *err) {
    struct nc_apply_result count = {0};
    const int r = apply_host(b, &b->gather.files, &count, err);

    /* What the first step wrote is unchanged by now. */
    b->applied.written += count.written + b->applied_first.written;
    b->applied.removed += count.removed + b->applied_first.removed;
    b->applied.unchanged += count.unchanged - b->applied_first.written;
    b->applied_first = (struct nc_apply_result){0};
    return r;
}

/* --- units whose end or beginning is waited for */

/* The host is to blame for a unit that is not active in time, whatever it does next. */
static int start_until_active(struct nc_bootstrap *b, enum nc_phase phase,
                              const struct nc_unit_start *s, struct nc_err *err) {
    const int r = nc_start_unit(b, phase, s, err);

    if (r == -ETIMEDOUT && err->class == NC_ERR_TRANSIENT) {
        err->class = NC_ERR_HOST;
        nc_err_wrap(err, "did not become active in time");
    }
    return r;
}

/* --- local disks */

bool nc_local_disks_are_wanted(const struct nc_bootstrap *b) {
    return b->gather.config.host.storage.strategy != NC_STORAGE_NONE;
}

int nc_step_disks(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_unit_start s = {.unit = LOCAL_DISKS_UNIT,
                                    .restart = nc_is_due(b, NC_DUE_DISKS),
                                    .until_active = true,
                                    .timeout_usec = DISKS_TIMEOUT_USEC};
    nc_auto_free char *program = nc_app_path(b->app, SETUP_LOCAL_DISKS);
    int r;

    if (!uses_systemd(b)) {
        report_skipped(
            b, NC_DUE_DISKS,
            "spec.instance.localStorage: local disks are not set up: start " LOCAL_DISKS_UNIT
            " before kubelet");
        return 0;
    }
    if (access(program, X_OK) < 0) {
        r = nc_err_host(err, errno, "local disks: %s", program);
        nc_err_remedy(err, "install setup-local-disks of amazon-eks-ami there, or remove "
                           "spec.instance.localStorage (instanceStorePolicy of the EC2NodeClass)");
        return r;
    }
    r = start_until_active(b, NC_PHASE_DISKS, &s, err);
    if (r < 0) {
        nc_err_remedy(err, "see what setup-local-disks wrote: journalctl -u " LOCAL_DISKS_UNIT
                           "; without local disks, remove spec.instance.localStorage");
        return r;
    }
    nc_due_done(b, NC_DUE_DISKS);
    return 0;
}

/* --- containerd */

static bool has_containerd_files(const struct nc_bootstrap *b) {
    const struct nc_fileset *s = &b->gather.files;

    for (size_t i = 0; i < s->n; i++)
        if (s->files[i].stage == NC_STAGE_CONTAINERD && !s->files[i].absent)
            return true;
    return false;
}

bool nc_containerd_is_concerned(const struct nc_bootstrap *b) {
    return has_containerd_files(b) || nc_is_due(b, NC_DUE_CONTAINERD);
}

/* A host with another runtime has an environment too. */
static bool containerd_runs(struct nc_bootstrap *b) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state s = {0};

    return nc_units_state(b->kubelet.units, CONTAINERD_UNIT, &s, NULL) >= 0
           && !nc_streq(s.active, "inactive") && !nc_streq(s.active, "failed");
}

/* Without it the first pod would fetch the image of its sandbox, before kubelet has credentials. */
static int import_pause(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_gather *g = &b->gather;

    return g->plan.containerd.soci_config && g->facts.has_pause_archive
               ? nc_containerd_import_pause(b->app->opts.root,
                                            nc_app_timeout(b->app, IMPORT_TIMEOUT_USEC), err)
               : 0;
}

/* containerd that cannot load its CRI plugin is up all the same, and kubelet has nobody to ask. */
static int check_cri(struct nc_bootstrap *b, struct nc_err *err) {
    static const char *const words[] = {"failed to load plugin", ".cri"};
    nc_cleanup(nc_unit_state_done) struct nc_unit_state s = {0};
    struct nc_err unread = NC_ERR_INIT;
    nc_auto_free char *line = NULL;

    if (nc_units_state(b->kubelet.units, CONTAINERD_UNIT, &s, &unread) < 0
        || nc_journal_find(s.main_pid, words, &line, &unread) < 0)
        nc_log(NC_LOG_WARNING, NULL, "whether containerd has its CRI plugin is not known: %s",
               unread.msg);
    if (!line)
        return 0;
    const char *said = strstr(line, "msg="); /* behind the time */
    const char *from = said ? said : line;
    nc_auto_free char *quoted = nc_quote_most(from, strlen(from), LINE_BYTES);
    return nc_err_set(err, NC_ERR_HOST, EBADMSG, "containerd is up without its CRI plugin: %s",
                      quoted);
}

static int restart_containerd(struct nc_bootstrap *b, struct nc_err *err) {
    static const struct nc_unit_start s = {.unit = CONTAINERD_UNIT,
                                           .restart = true,
                                           .until_active = true,
                                           .timeout_usec = CONTAINERD_TIMEOUT_USEC};
    int r = nc_units_open(b, err);

    if (r < 0)
        return r;
    if (has_containerd_files(b) || containerd_runs(b))
        r = start_until_active(b, NC_PHASE_CONTAINERD, &s, err);
    if (r >= 0 && has_containerd_files(b))
        r = check_cri(b, err);
    if (r < 0) {
        nc_err_remedy(err, "see what containerd wrote: journalctl -u " CONTAINERD_UNIT
                           "; check spec.containerd and spec.instance.environment");
        return r;
    }
    r = import_pause(b, err);
    if (r < 0)
        return r;
    nc_due_done(b, NC_DUE_CONTAINERD);
    return 0;
}

int nc_step_containerd(struct nc_bootstrap *b, struct nc_err *err) {
    int r = nc_apply_stage(b, &b->gather.files, NC_STAGE_CONTAINERD, &b->applied, err);

    if (r < 0)
        return r;
    if (!uses_systemd(b)) {
        report_skipped(
            b, NC_DUE_CONTAINERD,
            "containerd has not read its configuration: restart it before kubelet starts");
        return 0;
    }
    r = reload(b, err);
    return r < 0 || !nc_is_due(b, NC_DUE_CONTAINERD) ? r : restart_containerd(b, err);
}

/* --- the CNI's marker */
