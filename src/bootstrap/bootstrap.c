/*
 * `bootstrap`: a table of steps, each run until it succeeds, cannot succeed, or the deadline has
 * passed. One direction: no step reads back a file that another has written, or plans again.
 *
 * What runs the steps knows nothing of what they do; it keeps the report, the retries and the
 * deadline. What each error class means for a retry is decided in one place here.
 */
#include "bootstrap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "log.h"
#include "nc/backoff.h"
#include "nc/file.h"
#include "nc/str.h"
#include "nc/time.h"
#include "nc/version.h"
#include "time-limits.h"

#define LEAST_ATTEMPT_USEC 50000u /* less time than this is no attempt */

static const struct nc_backoff retries = {.first_usec = 100000, .max_usec = 2000000};

/* A user's mistake, a broken host and our own bugs do not pass by waiting; a peer's refusal may
 * (roles and access entries take effect late). */
static bool may_pass(enum nc_err_class class) {
    return class == NC_ERR_TRANSIENT || class == NC_ERR_AUTH || class == NC_ERR_PROTOCOL;
}

static int give_up(struct nc_bootstrap *b, enum nc_phase p, struct nc_err *err) {
    const unsigned attempts = b->report.phases[p].attempts;

    if (b->app->signal) {
        struct nc_err last = *err;
        (void)nc_err_set(err, NC_ERR_TRANSIENT, EINTR, "stopped by %s during attempt %u%s%s",
                         sigabbrev_np(b->app->signal), attempts,
                         *last.msg ? "; last failure: " : "", last.msg);
        nc_err_remedy(err, "start it again: the files on disk are complete");
    } else if (may_pass(err->class)) {
        struct nc_err last = *err;
        (void)snprintf(err->msg, sizeof(err->msg),
                       "%.300s; gave up at the deadline, after %u attempt%s", last.msg, attempts,
                       attempts == 1 ? "" : "s");
    }
    nc_fill_remedy(err, p);
    nc_report_fail(&b->report, p, err, nc_report_now(b));
    return -EIO;
}

/* Waits before the next attempt. Negative where there is none: the deadline is too near, or
 * somebody asked to stop. */
static int pause_before_retry(struct nc_bootstrap *b, unsigned attempt) {
    const uint64_t pause =
        nc_backoff_pause(&retries, attempt, nc_backoff_seed(b->report.instance_id));
    const int r = nc_app_pause(b->app, nc_app_left(b->app, pause));

    return r < 0                                                          ? r
           : nc_app_left(b->app, LEAST_ATTEMPT_USEC) < LEAST_ATTEMPT_USEC ? -ETIMEDOUT
                                                                          : 0;
}

/* An attempt that the deadline cut short says less than the one before it. */
static void prefer_telling(const struct nc_bootstrap *b, enum nc_phase p, struct nc_err *err) {
    const struct nc_phase_entry *entry = &b->report.phases[p];

    if (entry->has_error && err->class == NC_ERR_TRANSIENT && nc_app_is_late(b->app))
        *err = entry->error;
}

/* --- the steps from facts to files */

/* Where kubelet was started in this boot the machine comes out of service, and is drained. */
static void note_warm_pool(struct nc_bootstrap *b) {
    nc_auto_free char *path = nc_app_path(b->app, NC_WARM_POOL_FILE);
    const char *state = b->gather.facts.target_state;

    b->is_warming = state && nc_starts_with(state, NC_WARMED) && !nc_is_marked(b);
    if (!b->is_warming)
        (void)unlink(path);
    else
        (void)nc_file_write(path, "", 0, 0644, NULL); /* status.json has the same trouble */
}

static int step_imds(struct nc_bootstrap *b, struct nc_err *err) {
    const int r = nc_gather_imds(&b->gather, err);

    if (r < 0)
        return r;
    nc_report_set_facts(&b->report, &b->gather.facts);
    if (!nc_streq(b->app->opts.skip, "start"))
        note_warm_pool(b);
    return 0;
}

static void add_warnings(struct nc_bootstrap *b, const struct nc_strv *more) {
    for (size_t i = 0; i < more->n; i++)
        nc_strv_add_once(&b->report.warnings, more->v[i]);
}

/* What cloud-init's write_files brings is read once it is there; what may be half written before
 * that counts for nothing. Scripts alone bring nothing before its last stage. */
static int read_again(struct nc_bootstrap *b, struct nc_err *err) {
    int r;

    *err = (struct nc_err)NC_ERR_INIT;
    r = nc_gather_documents(&b->gather, err);
    nc_cloud_init_decide(b);
    return r;
}

static int read_documents(struct nc_bootstrap *b, struct nc_err *err) {
    int r = nc_gather_documents(&b->gather, err);

    nc_cloud_init_decide(b);
    if (!nc_scripts_are_awaited(b))
        return r;
    if (b->cloud_init.is_forced || b->gather.documents.may_bring_documents)
        r = nc_cloud_init_wait_network(b, err);
    else
        r = 0;
    if (r < 0)
        return r;
    nc_scripts_note(b);
    r = read_again(b, err);
    /* A file that a script is at, maybe: it counts as it is when the script has ended. */
    if (r >= 0 || err->class != NC_ERR_CONFIG || nc_starts_with(err->msg, "user-data"))
        return r;
    nc_phase_waits(b, NC_PHASE_USERDATA, err);
    r = nc_cloud_init_wait_final(b, err);
    if (r < 0)
        return r;
    b->cloud_init.has_ended = true;
    return read_again(b, err);
}

static int step_userdata(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_documents *d = &b->gather.documents;
    const int r = read_documents(b, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < d->n_diags; i++) {
        nc_auto_free char *warning = nc_gather_warning(d, &d->diags[i]);
        if (warning)
            nc_strv_add_once(&b->report.warnings, warning);
    }
    return r;
}

/* The command line was checked when it was read. */
static enum nc_kubelet_start choose_start(const struct nc_bootstrap *b) {
    const char *token = b->app->opts.start;

    if (!token)
        return b->gather.config.start;
    return nc_streq(token, "exec")   ? NC_START_EXEC
           : nc_streq(token, "none") ? NC_START_NONE
                                     : NC_START_SYSTEMD;
}

static int step_config(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_config *c = &b->gather.config;
    int r = nc_nodeadm_check(b->app->opts.root, err);

    if (r >= 0)
        r = nc_gather_config(&b->gather, err);
    if (r < 0)
        return r;
    add_warnings(b, &b->gather.ignored);
    add_warnings(b, &c->warnings);
    add_warnings(b, &c->unsupported);
    b->report.unsupported = (unsigned)c->unsupported.n;
    b->kubelet.mode = choose_start(b);
    if (c->has_claim_document)
        nc_report_set_claim(&b->report, &c->claim, "document");
    /* The host has its name from cloud-init's network stage. */
    return c->naming == NC_NAMING_HOSTNAME ? nc_cloud_init_wait_network(b, err) : 0;
}

/* Who the node is: the API server is asked with that, before anything else is decided. */
static int step_identify(struct nc_bootstrap *b, struct nc_err *err) {
    const int r = nc_gather_name(&b->gather, err);

    if (r < 0)
        return r;
    free(b->report.node);
    b->report.node = nc_strdup(b->gather.plan.node_name);
    return 0;
}

/* A claim of the API server's that cannot be planned with is a warning: then the documents count.
 */
static int step_plan(struct nc_bootstrap *b, struct nc_err *err) {
    struct nc_gather *g = &b->gather;
    int r = nc_gather_plan(g, b->claim.name ? &b->claim : NULL, err);

    if (r < 0 && b->claim.name && err->class == NC_ERR_CONFIG) {
        nc_strv_addf(&b->report.warnings,
                     "cannot plan with the NodeClaim, planned from the user data: %s", err->msg);
        *err = (struct nc_err)NC_ERR_INIT;
        r = nc_gather_plan(g, NULL, err);
    }
    add_warnings(b, &g->warnings);
    if (r < 0)
        return r;
    nc_report_set_plan(&b->report, &g->plan);
    b->report.unsupported = (unsigned)(g->config.unsupported.n + g->plan.unsupported.n);
    nc_publish_missing(b);
    nc_check_sysctls(&g->facts, &g->plan, &b->report.warnings);
    if (nc_bootstrap_claim(b))
        nc_requirements_check(nc_bootstrap_claim(b), &g->facts, &g->plan, &b->report.warnings);
    return 0;
}

/* What only containerd can convert is converted here: nothing is on disk yet. */
static int step_render(struct nc_bootstrap *b, struct nc_err *err) {
    const int r = nc_gather_render(&b->gather, err);

    if (r < 0 || !b->gather.plan.containerd.needs_migration)
        return r;
    return nc_containerd_migrate(b->app->opts.root, &b->gather.files,
                                 nc_app_timeout(b->app, MIGRATE_TIMEOUT_USEC), err);
}

/* --- files before cloud-init's scripts */

/* Not where kubelet was started in this boot: what is planned without the NodeClaim would replace
 * the files that it runs with. */
static bool are_files_due(const struct nc_bootstrap *b) {
    return nc_scripts_are_awaited(b) && !nc_is_marked(b);
}

/* What a script finds does not depend on when the API server answers. Whoever starts kubelet, or
 * mounts its folder, comes first: these files wait for the local disks. What goes wrong here is for
 * the step that needs it. */
static int step_files_first(struct nc_bootstrap *b, struct nc_err *err) {
    struct nc_fileset *files = &b->gather.files;
    struct nc_err own = NC_ERR_INIT;

    if (nc_gather_plan(&b->gather, NULL, &own) < 0 || step_render(b, &own) < 0)
        return 0;
    for (size_t i = 0; nc_local_disks_are_wanted(b) && i < files->n; i++)
        if (files->files[i].is_gate || nc_starts_with(files->files[i].path, "/var/lib/kubelet/"))
            files->files[i].stage = _NC_STAGE_MAX;
    if (nc_step_host(b, err) < 0
        || nc_apply_stage(b, files, NC_STAGE_CONTAINERD, &b->applied, err) < 0
        || nc_apply_stage(b, files, NC_STAGE_KUBELET, &b->applied, err) < 0)
        return -EIO;
    nc_applied(b);
    return 0;
}

/* --- the table, and what runs it */

static int step_try_plan(struct nc_bootstrap *b, struct nc_err *err) {
    return nc_gather_try_plan(&b->gather, err);
}

enum {
    JOINS = 1 << 0,   /* the cluster: left out with --skip start */
    SILENT = 1 << 1,  /* asks nobody, waits for nothing: over before anybody could look, so it is
                         published with the next step, or at once where it fails */
    GOES_ON = 1 << 2, /* the phase has another step later */
    WAITS = 1 << 3,   /* which then has lasted since this one began */
};

/* In the order in which they run. */
static const struct step {
    enum nc_phase phase;
    unsigned flags;
    int (*run)(struct nc_bootstrap *b, struct nc_err *err);
    bool (*is_needed)(const struct nc_bootstrap *b); /* NULL = always */
} steps[] = {
    {NC_PHASE_IMDS, 0, step_imds, NULL},
    {NC_PHASE_USERDATA, SILENT, step_userdata, NULL},
    {NC_PHASE_CONFIG, SILENT, step_config, NULL},
    {NC_PHASE_PLAN, JOINS | GOES_ON | SILENT, step_try_plan, nc_host_comes_first},
    {NC_PHASE_APPLY, JOINS | GOES_ON, nc_step_host_first, nc_host_comes_first},
    {NC_PHASE_APPLY, JOINS | GOES_ON | SILENT, step_files_first, are_files_due},
    {NC_PHASE_PLAN, JOINS | GOES_ON, step_identify, NULL},
    {NC_PHASE_PREFLIGHT, JOINS, nc_step_preflight, NULL},
    {NC_PHASE_PLAN, 0, step_plan, NULL},
    {NC_PHASE_RENDER, SILENT, step_render, NULL},
    {NC_PHASE_APPLY, GOES_ON | SILENT, nc_step_host, NULL},
    {NC_PHASE_DISKS, 0, nc_step_disks, nc_local_disks_are_wanted},
    {NC_PHASE_CONTAINERD, 0, nc_step_containerd, nc_containerd_is_concerned},
    {NC_PHASE_APPLY, 0, nc_step_apply, NULL},
    {NC_PHASE_START, JOINS | WAITS, nc_step_scripts, nc_scripts_are_awaited},
    {NC_PHASE_START, JOINS, nc_step_start, NULL},
    {NC_PHASE_REGISTER, JOINS, nc_step_register, NULL},
    {NC_PHASE_INITIALIZE, JOINS, nc_step_initialize, NULL},
};

/* `said` is the error that was logged last, which is not repeated. */
static void log_retry(const struct nc_bootstrap *b, enum nc_phase p, const struct nc_err *err,
                      unsigned attempt, struct nc_err *said) {
    nc_auto_free char *then = NULL;
    struct nc_err same = *err;
    char until[32];

    nc_time_format(b->report.deadline_usec, until);
    then = nc_asprintf(", trying again until %s", until);
    if (nc_streq(said->msg, err->msg)) {
        (void)snprintf(same.msg, sizeof(same.msg), "attempt %u failed alike", attempt);
        (void)snprintf(same.remedy, sizeof(same.remedy), "see above");
    }
    nc_log_failure(b, p, &same, then);
    *said = *err;
}

/* Tries the step until it is done. Only while the deadline is far away and nobody asked to stop.
 */
static int run_step(struct nc_bootstrap *b, const struct step *step) {
    const enum nc_phase p = step->phase;
    struct nc_err said = NC_ERR_INIT;

    for (unsigned attempt = 1;; attempt++) {
        struct nc_err err = NC_ERR_INIT;
        int r;

        nc_report_attempt(&b->report, p, nc_report_now(b));
        if (!(step->flags & SILENT))
            nc_publish(b);
        r = step->run(b, &err);
        if (r >= 0 && (step->flags & (GOES_ON | WAITS)))
            nc_report_postpone(&b->report, p, step->flags & WAITS);
        else if (r >= 0)
            nc_report_succeed(&b->report, p, nc_report_now(b));
        if (r >= 0)
            return 0;
        prefer_telling(b, p, &err);
        if (b->app->signal || !may_pass(err.class) || nc_app_is_late(b->app))
            return give_up(b, p, &err);
        nc_fill_remedy(&err, p);
        nc_report_retrying(&b->report, p, &err, nc_report_now(b));
        nc_publish(b);
        if ((attempt & (attempt - 1)) == 0)
            log_retry(b, p, &err, attempt, &said);
        if (b->is_connected)
            nc_publish_event_in_time(b, p, false);
        if (pause_before_retry(b, attempt) < 0)
            return give_up(b, p, &err);
    }
}

/* What the scripts have changed is read, planned and written as all was before; returns the row
 * before the first of them. */
static size_t begin_again(struct nc_bootstrap *b) {
    for (enum nc_phase p = NC_PHASE_USERDATA; p < NC_PHASE_START; p++)
        nc_report_postpone(&b->report, p, false);
    nc_gather_forget_host(&b->gather);
    return 0;
}

static int run_steps(struct nc_bootstrap *b) {
    const bool files_only = nc_streq(b->app->opts.skip, "start");
    int r = 0;

    for (size_t i = 0; r >= 0 && i < NC_ARRAY_SIZE(steps); i++) {
        const struct step *step = &steps[i];
        const bool starts_nothing =
            (step->phase == NC_PHASE_START && b->kubelet.mode == NC_START_NONE)
            || (step->phase >= NC_PHASE_START && b->is_warming);
        if (step->is_needed && !step->is_needed(b))
            continue;
        if ((!files_only || !(step->flags & JOINS)) && !starts_nothing)
            r = run_step(b, step);
        else if (!(step->flags & (GOES_ON | WAITS)))
            nc_report_skip(&b->report, step->phase);
        if (r >= 0 && step->run == nc_step_scripts && b->report.changed.n > 0)
            i = begin_again(b);
    }
    return r;
}

static void log_end(struct nc_bootstrap *b, int r) {
    const enum nc_phase p = nc_report_current(&b->report);
    const struct nc_phase_entry *e = &b->report.phases[p];
    const struct nc_log_fields fields = {
        .milestone = r < 0 ? NC_MILESTONE_BOOTSTRAP_FAILED : NC_MILESTONE_BOOTSTRAP_SUCCEEDED,
        .phase = nc_phase_name(p),
        .error_class = r < 0 ? nc_err_class_name(e->error.class) : NULL,
        .instance = b->report.instance_id,
        .node = b->report.node,
        .nodeclaim = b->report.claim_name,
        .duration_usec = b->report.ended_usec - b->report.started_usec,
    };
    const double seconds = (double)fields.duration_usec / 1e6;

    if (r < 0)
        nc_log(NC_LOG_ERROR, &fields, "bootstrap failed in phase %s after %.3f s: %s; %s",
               fields.phase, seconds, e->error.msg, e->error.remedy);
    else
        nc_log(NC_LOG_INFO, &fields,
               "bootstrap of %s succeeded in %.3f s: %u files written, %u unchanged, %u removed",
               b->report.node ? b->report.node : "the node", seconds, b->applied.written,
               b->applied.unchanged, b->applied.removed);
}

static void report_warm_pool(struct nc_bootstrap *b) {
    nc_auto_free char *text =
        nc_asprintf("target state %s of the Auto Scaling group: all is prepared, kubelet starts "
                    "when the instance is taken into service",
                    b->gather.facts.target_state);

    nc_report_set_waiting(&b->report, "WarmPool", text);
    nc_log(NC_LOG_INFO, NULL, "%s", text);
}

/* Documents that are refused are used for nothing but to tell that, where the rest of them still
 * names the cluster. */
static void connect_to_tell(struct nc_bootstrap *b) {
    struct nc_err err = NC_ERR_INIT;

    b->is_connected = nc_gather_aside(&b->gather, nc_gather_config, &err) >= 0
                      && step_identify(b, &err) >= 0
                      && nc_connect_configured(&b->gather, &b->connection, &err) >= 0;
}

static int finish_bootstrap(struct nc_bootstrap *b, int r) {
    const enum nc_phase p = nc_report_current(&b->report);

    if (r >= 0)
        nc_report_finish(&b->report, nc_report_now(b));
    if (r >= 0 && b->is_warming)
        report_warm_pool(b);
    nc_publish(b);
    nc_publish_console(b);
    log_end(b, r);
    if (r < 0 && (p == NC_PHASE_USERDATA || p == NC_PHASE_CONFIG)
        && b->report.phases[p].error.class == NC_ERR_CONFIG
        && !nc_streq(b->app->opts.skip, "start"))
        connect_to_tell(b);
    if (b->is_connected && !b->app->signal && (r < 0 || b->channels.event_count > 0))
        nc_publish_event(b, LAST_EVENT_USEC);
    return r < 0 ? nc_err_exit_code(b->report.phases[p].error.class) : 0;
}

static void bootstrap_done(struct nc_bootstrap *b) {
    if (b->kubelet.fd > 0)
        (void)close(b->kubelet.fd);
    if (b->lock_fd > 0)
        (void)close(b->lock_fd);
    nc_units_free(b->kubelet.units);
    free(b->kubelet.last_lines);
    nc_node_watch_done(&b->node);
    nc_connection_done(&b->connection);
    nc_claim_done(&b->claim);
    nc_gather_done(&b->gather);
    nc_fileset_done(&b->written);
    nc_strv_done(&b->seen);
    nc_report_done(&b->report);
    free(b->channels.event_name);
    free(b->channels.condition_reason);
}

int nc_command_bootstrap(struct nc_app *app) {
    nc_cleanup(bootstrap_done) struct nc_bootstrap b = {.app = app};
    const uint64_t timeout = app->opts.timeout_usec ? app->opts.timeout_usec : DEFAULT_TIMEOUT_USEC;
    const uint64_t now = nc_now_usec();
    const struct nc_log_fields fields = {.milestone = NC_MILESTONE_BOOTSTRAP_STARTED};
    struct nc_err err = NC_ERR_INIT;
    int r;

    b.started_mono_usec = nc_mono_usec();
    app->deadline_usec = b.started_mono_usec + timeout;
    nc_report_start(&b.report, now, now + timeout);
    nc_log(NC_LOG_INFO, &fields, "bootstrap starts, version %s", nc_version);
    (void)nc_process_lock(app, NC_LOCK_BOOTSTRAP, &b.lock_fd, NULL);
    r = nc_app_loop(app, &err);
    if (r >= 0)
        r = nc_gather_open(&b.gather, app, &err);
    if (r < 0) {
        nc_report_attempt(&b.report, NC_PHASE_IMDS, now);
        return finish_bootstrap(&b, give_up(&b, NC_PHASE_IMDS, &err));
    }
    return finish_bootstrap(&b, run_steps(&b));
}
