/*
 * `drain` and `undrain`: a request to the daemon of this machine, and its answer.
 *
 * There is no socket: the request is a file in a folder that only root can reach, the answer is
 * what status.json then says. A drain that nobody takes is removed again, so that it does not come
 * true later; what withdraws one is left.
 */

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "app.h"
#include "commands.h"
#include "machine.h"
#include "nc/file.h"
#include "nc/report.h"
#include "nc/str.h"
#include "nc/time.h"

#define ACCEPT_USEC 5000000u
#define CHECK_USEC 50000u
#define FOLLOW_USEC 250000u
#define UNREACHABLE_USEC 60000000u /* so long a daemon may be gone while it is followed */
#define SECOND 1000000u
#define NAMED_PODS 3
#define WITHDRAWN_NEVERTHELESS "the request is withdrawn nevertheless"

/* --- what is requested */

static int read_deadline(const char *text, uint64_t now_usec, uint64_t *ret, struct nc_err *err) {
    uint64_t usec;

    if (nc_duration_parse(text, &usec) == 0 && usec > 0 && usec < UINT64_MAX - now_usec - SECOND)
        usec += now_usec + SECOND - 1; /* what is written has whole seconds */
    else if (nc_time_parse(text, &usec) < 0)
        return nc_err_config(err,
                             "--deadline is a duration such as 5m, or a time such as "
                             "2026-01-02T03:04:05Z, not %s",
                             text);
    if (usec <= now_usec)
        return nc_err_config(err, "--deadline %s is in the past", text);
    *ret = usec;
    return 0;
}

static char *make_id(uint64_t now_usec) {
    uint32_t noise;
    char at[32];

    if (getrandom(&noise, sizeof(noise), 0) != (ssize_t)sizeof(noise))
        noise = (uint32_t)nc_mono_usec();
    nc_time_format(now_usec, at);
    return nc_asprintf("operator-%s-%08" PRIx32, at, noise);
}

/* As the daemon will read it. */
static int read_back(const struct nc_value *request, struct nc_notice *ret, struct nc_err *err) {
    nc_auto_free char *text = nc_json_text(request);

    return nc_notice_read_request(text, strlen(text), NC_SOURCE_OPERATOR, ret, err);
}

static int make_request(const struct nc_app *app, uint64_t now_usec, struct nc_value **ret,
                        struct nc_notice *ret_notice, struct nc_err *err) {
    const struct nc_options *o = &app->opts;
    const char *mode = o->mode ? o->mode : o->deadline ? "deadline" : "graceful";
    nc_auto_free char *id = make_id(now_usec);
    nc_auto_value struct nc_value *map = nc_value_new_map();
    uint64_t deadline = 0;
    int r = 0;

    if (o->cut_grace && !o->deadline)
        return nc_err_config(err, "--cut-grace needs --deadline");
    if (nc_streq(mode, "deadline") != (o->deadline != NULL))
        return nc_err_config(err,
                             o->deadline ? "--mode %s has no deadline; omit one of them"
                                         : "--mode %s needs --deadline",
                             mode);
    if (o->deadline)
        r = read_deadline(o->deadline, now_usec, &deadline, err);
    if (r < 0)
        return r;
    nc_value_set_string(map, "id", id);
    nc_value_set_string(map, "mode", mode);
    if (o->reason)
        nc_value_set_string(map, "reason", o->reason);
    if (deadline > 0)
        nc_value_set_time(map, "deadline", deadline);
    r = read_back(map, ret_notice, err);
    if (r >= 0)
        *ret = nc_steal(&map);
    return r;
}

/* --- the daemon */

static int no_daemon(struct nc_err *err, const char *why) {
    const int r = nc_err_set(err, NC_ERR_HOST, ESRCH, "the daemon does not run: %s", why);

    nc_err_remedy(err, "systemctl start nodeclaimd; journalctl -u nodeclaimd");
    return r;
}

/* Nothing tells whether it runs. */
static int no_answer(struct nc_err *err, const char *what) {
    const int r =
        nc_err_set(err, NC_ERR_HOST, ESRCH,
                   "%s: the daemon does not run, hangs, or cannot use /run/nodeclaimd", what);

    nc_err_remedy(err, "systemctl status nodeclaimd; df and mount of /run");
    return r;
}

/* NULL where it cannot be read: it is being written for the first time, or never will be. */
static struct nc_value *read_status_file(const struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_value *status = NULL;

    return nc_status_file_read(app, &text, &status, NULL) < 0 ? NULL : status;
}

static const struct nc_value *operator_of(const struct nc_value *status) {
    return nc_value_find(nc_value_path(status, "drain.sources"), "source", "operator");
}

/* id NULL: that there is no request any more. */
static bool is_answered(const struct nc_value *status, const char *id) {
    const struct nc_value *request = operator_of(status);

    return id ? request && nc_value_says(request, "id", id) : !request;
}

static int write_request_file(const struct nc_app *app, const char *path,
                              const struct nc_value *request, struct nc_err *err) {
    nc_auto_free char *folder = nc_app_path(app, NC_REQUEST_DIR);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    int r;

    if (access(folder, W_OK | X_OK) < 0) {
        if (errno == ENOENT)
            return no_answer(err, "the folder for requests does not exist");
        return nc_file_fail(err, errno, "write", folder);
    }
    nc_json_write(&text, request, 0);
    (void)nc_buf_putc(&text, '\n');
    r = nc_file_write(path, text.data, text.len, 0600, err);
    return r < 0 ? r : 0;
}

static int interrupted(const struct nc_app *app, const char *then, struct nc_err *err) {
    return nc_err_set(err, NC_ERR_TRANSIENT, EINTR, "interrupted by SIG%s: %s",
                      sigabbrev_np(app->signal), then);
}

/* It is carried out, and may not survive the daemon. */
static void warn_of_state(const struct nc_app *app, const struct nc_value *status) {
    const char *error = nc_value_path_string(status, "daemon.stateError");

    if (error)
        (void)fprintf(stderr, "nodeclaimd %s: %s\n", app->opts.command, error);
}

/* 1: nobody took what withdraws a request, and it is left; err says why. */
static int await_answer(struct nc_app *app, const char *path, const char *id, struct nc_err *err) {
    const uint64_t deadline = nc_mono_usec() + ACCEPT_USEC;
    int r = 0;

    for (;;) {
        const bool is_accepted = access(path, F_OK) < 0;
        nc_auto_value struct nc_value *status = read_status_file(app);
        if (is_accepted && status && is_answered(status, id)) {
            warn_of_state(app, status);
            return 0;
        }
        if (r < 0 || nc_mono_usec() >= deadline)
            break;
        r = nc_app_pause(app, CHECK_USEC);
    }
    if (id ? unlink(path) == 0 : access(path, F_OK) == 0) {
        r = r < 0 ? interrupted(app,
                                id ? "the request is withdrawn; the daemon had not read it"
                                   : WITHDRAWN_NEVERTHELESS,
                                err)
                  : no_answer(err, "the request was not read in 5 s");
        return id ? r : 1;
    }
    nc_err_set(err, NC_ERR_HOST, ETIMEDOUT,
               "the daemon read the request, but its status does not show it");
    nc_err_remedy(err, "journalctl -u nodeclaimd");
    return -ETIMEDOUT;
}

/* What a deadline does, and to whom as things are; one without takes away that of the one before.
 */
static void warn_of_deadline(const struct nc_app *app, const struct nc_value *status) {
    const char *deadline = nc_value_get_string(operator_of(status), "deadline");
    nc_cleanup(nc_buf_done) struct nc_buf pods = NC_BUF_INIT;

    nc_drain_pods_text(nc_value_get(status, "drain"), NAMED_PODS, &pods);
    if (app->opts.deadline)
        (void)fprintf(stderr,
                      "nodeclaimd drain: pods left a grace period before the deadline are deleted, "
                      "whatever their budgets%s; `nodeclaimd undrain` saves none that is evicted "
                      "or deleted by then\n",
                      pods.len ? pods.data : "");
    if (deadline)
        (void)fprintf(stderr, "nodeclaimd drain: replaces the request with deadline %s\n",
                      deadline);
}

/* Leaves the request, or with notice NULL what withdraws it, and waits until the daemon states that
 * it is known. 1: it is left for one that hangs, or for the start of one, whose state may have a
 * request to withdraw. */
static int request_and_follow(struct nc_app *app, const struct nc_notice *notice,
                              const struct nc_value *request, const struct nc_value *status,
                              struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(app, notice ? NC_REQUEST_DIR "/" NC_REQUEST_DRAIN
                                                      : NC_REQUEST_DIR "/" NC_REQUEST_UNDRAIN);
    const char *id = nc_value_get_string(request, "id");
    const bool is_gone = nc_daemon_is_gone(app, status) > 0;
    int r = nc_app_loop(app, err);

    if (r == 0 && is_gone) {
        r = no_daemon(err, "its process is gone");
        r = id ? r : 0;
    }
    if (r == 0 && app->opts.deadline && !app->opts.cut_grace)
        r = nc_drain_plan(app, notice, nc_status_now(status), err);
    if (r == 0 && id)
        warn_of_deadline(app, status);
    if (r == 0)
        r = write_request_file(app, path, request, err);
    if (r < 0)
        return r;
    return is_gone ? 1 : await_answer(app, path, id, err);
}

/* --- following it */

/* What keeps the daemon from going on, beside pods. */
static void show_hindrance(const struct nc_app *app, const struct nc_value *status,
                           struct nc_buf *out) {
    const char *error = nc_value_path_string(status, "daemon.apiError");
    const char *state = nc_value_path_string(status, "daemon.apiState");

    if (nc_daemon_is_gone(app, status) > 0)
        (void)nc_buf_puts(out, "; the daemon is not running");
    else if (error)
        (void)nc_buf_printf(out, "; API server %s: %s", state ? state : "failing", error);
}

struct following {
    struct nc_app *app;
    const char *id; /* of the drain; NULL: follows its end */
    struct nc_buf last;
    uint64_t seen_usec; /* monotonic: the daemon ran */
};

static void print_progress(struct following *f, const struct nc_value *status) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;

    nc_drain_phase_text(drain, &line);
    nc_drain_pods_text(drain, NAMED_PODS, &line);
    show_hindrance(f->app, status, &line);
    if (nc_streq(line.data, f->last.data))
        return;
    nc_buf_clear(&f->last);
    (void)nc_buf_puts(&f->last, line.data);
    (void)fprintf(f->app->opts.json ? stderr : stdout, "%s\n", line.data);
    (void)fflush(stdout);
}

/* `policy` is the most that the daemon does, by the configuration. */
static int allow(const struct nc_app *app, const char *policy, struct nc_err *err) {
    const bool wants_cordon = nc_streq(app->opts.mode, "cordon");

    if (!nc_streq(policy, nc_policy_name(NC_POLICY_REPORT))
        && (wants_cordon || !nc_streq(policy, nc_policy_name(NC_POLICY_CORDON))))
        return 0;
    nc_err_set(err, NC_ERR_CONFIG, EPERM,
               "drain.mode of the configuration lets the daemon %s, no more", policy);
    nc_err_remedy(err, "`nodeclaimd explain drain.mode` names the document; systemctl reload "
                       "nodeclaimd reads it again");
    return -EPERM;
}

int nc_drain_allow_now(const struct nc_app *app, enum nc_drain_mode otherwise, struct nc_err *err) {
    nc_auto_value struct nc_value *status = read_status_file(app);
    const char *name = nc_value_path_string(status, "daemon.policies.drainMode");
    const int mode = name ? nc_which_of(name, nc_drain_mode_names) : 0;
    const bool is_known = mode >= 0 && nc_value_path(status, "daemon.policies")
                          && nc_daemon_is_gone(app, status) <= 0;

    return allow(
        app,
        nc_policy_name(nc_drain_mode_cap(is_known ? NC_DRAIN_AUTO + (unsigned)mode : otherwise)),
        err);
}

/* A drain that cannot come to its end as things are: the configuration allows less, or its deadline
 * has passed. */
static int judge_hope(const struct following *f, const struct nc_value *drain, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf pods = NC_BUF_INIT;
    const int r = allow(f->app, nc_value_get_string(drain, "policy"), err);

    if (r < 0)
        return r;
    if (!nc_value_says(drain, "phase", NC_LIFECYCLE_FAILED)
        && (!f->app->opts.deadline || nc_value_get_string(drain, "deadline")))
        return 0;
    nc_drain_pods_text(drain, NAMED_PODS, &pods);
    return nc_err_set(err, NC_ERR_TRANSIENT, ETIMEDOUT, "drain deadline exceeded%s",
                      pods.len ? pods.data : "");
}

/* 1: it has ended; 0: not yet. */
static int judge(const struct following *f, const struct nc_value *status, struct nc_err *err) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    const struct nc_value *sources = nc_value_get(drain, "sources");
    const char *phase = nc_value_get_string(drain, "phase");

    if (!f->id) /* where somebody else wants the node to end, it stays as it is */
        return nc_streq(phase, "idle") || (sources && sources->n > 0);
    if (!is_answered(status, f->id))
        return nc_err_set(err, NC_ERR_TRANSIENT, ECANCELED,
                          "the request was withdrawn before the node was drained");
    if (nc_streq(phase, "drained")
        || (nc_streq(phase, "cordoned") && nc_streq(f->app->opts.mode, "cordon")))
        return 1;
    return judge_hope(f, drain, err);
}

static int follow(struct following *f, struct nc_value **ret, struct nc_err *err) {
    int r = 0;

    f->seen_usec = nc_mono_usec();
    while (r == 0) {
        nc_auto_value struct nc_value *status = read_status_file(f->app);
        if (status && nc_daemon_is_gone(f->app, status) <= 0)
            f->seen_usec = nc_mono_usec();
        else if (nc_mono_usec() - f->seen_usec > UNREACHABLE_USEC)
            return no_daemon(err, "it has been gone for a minute");
        if (status) {
            print_progress(f, status);
            r = judge(f, status, err);
        }
        if (r > 0)
            *ret = nc_steal(&status);
        if (r == 0 && nc_app_pause(f->app, FOLLOW_USEC) < 0)
            r = interrupted(f->app,
                            f->id ? "the request stays, and the daemon continues with it; "
                                    "`nodeclaimd undrain` withdraws it"
                                  : WITHDRAWN_NEVERTHELESS,
                            err);
    }
    return r < 0 ? r : 0;
}

/* --- the commands */

static void print_answer(const struct nc_value *request, bool is_left,
                         const struct nc_value *status) {
    nc_auto_value struct nc_value *map = nc_value_copy(request);
    const struct nc_value *drain = nc_value_get(status, "drain");

    nc_value_set_bool(map, "accepted", !is_left);
    if (drain)
        nc_value_set(map, "drain", nc_value_copy(drain));
    nc_print_json(map);
}

/* Nothing takes back what was asked of these. */
static void print_ending(const struct nc_value *status) {
    const struct nc_value *others = nc_value_path(status, "drain.others"), *pod;
    const char *before = "these pods end all the same:\n";

    for (size_t i = 0; (pod = nc_value_item(others, i)); i++) {
        const char *ends = nc_value_get_string(pod, "graceEnds");
        if (!ends)
            continue;
        (void)printf("%s  %s, by %s\n", before, nc_value_get_string(pod, "pod"), ends);
        before = "";
    }
}

/* Was there a request, and what drains on? A status without a list of sources tells nothing. */
static void print_withdrawn(const struct nc_value *before, const struct nc_value *status) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    const char *source = nc_value_get_string(drain, "source");
    const char *policy = nc_value_get_string(drain, "policy");
    const char *node = nc_value_path_string(status, "daemon.node");

    (void)printf("%s", operator_of(before) ? "withdrawn"
                       : nc_value_path(before, "drain.sources")
                           ? "no drain was requested on this machine"
                           : "withdrawn, if there was one");
    if (source && !nc_streq(policy, nc_policy_name(NC_POLICY_REPORT)))
        (void)printf("; a %s goes on for %s", policy, source);
    if (node && nc_streq(source, nc_source_name(NC_SOURCE_REQUEST)))
        (void)printf(": kubectl annotate node %s " NC_ANNOTATION_REQUEST "- ends it", node);
    (void)printf("\n");
    print_ending(status);
}

/* Accepted is not begun. */
static void warn_of_hindrance(const struct nc_app *app, const struct nc_value *status,
                              bool is_left) {
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;

    if (is_left && nc_daemon_is_gone(app, status) <= 0)
        (void)nc_buf_puts(&line, "; the daemon has not read it");
    else
        show_hindrance(app, status, &line);
    if (line.len > 0)
        (void)fprintf(stderr, "nodeclaimd %s: the request waits%s\n", app->opts.command, line.data);
}

static int run(struct nc_app *app, const struct nc_notice *notice, const struct nc_value *request) {
    struct following f = {.app = app, .id = nc_value_get_string(request, "id")};
    nc_auto_value struct nc_value *before = read_status_file(app), *status = NULL;
    struct nc_err err = NC_ERR_INIT;
    int r = 0;

    if (f.id)
        r = nc_drain_allow_now(app, NC_DRAIN_AUTO, &err);
    if (r == 0)
        r = request_and_follow(app, notice, request, before, &err);
    const bool is_left = r > 0;
    nc_auto_value struct nc_value *now = read_status_file(app);
    if (r == 0 && !f.id && !app->opts.json)
        print_withdrawn(before, now);
    else if (r >= 0 && !app->opts.json)
        (void)printf("%s\n", f.id ? f.id
                                  : "withdrawn when the daemon goes on or starts, unless the "
                                    "machine is rebooted before");
    if (r >= 0 && !app->opts.wait)
        warn_of_hindrance(app, now, is_left);
    if (r >= 0 && app->opts.wait)
        r = is_left ? -ESRCH : follow(&f, &status, &err);
    nc_buf_done(&f.last);
    if (r < 0)
        return nc_app_fail(app, &err);
    if (app->opts.json)
        print_answer(request, is_left, status);
    return 0;
}

int nc_command_drain(struct nc_app *app) {
    nc_auto_value struct nc_value *status = read_status_file(app), *request = NULL;
    const uint64_t now_usec = nc_status_now(status);
    struct nc_err err = NC_ERR_INIT;
    struct nc_notice notice;

    if (make_request(app, now_usec, &request, &notice, &err) < 0) {
        (void)nc_app_fail(app, &err);
        return NC_EXIT_USAGE;
    }
    if (!app->opts.dry_run)
        return run(app, &notice, request);
    return nc_drain_plan(app, &notice, now_usec, &err) < 0 ? nc_app_fail(app, &err) : 0;
}

int nc_command_undrain(struct nc_app *app) {
    nc_auto_value struct nc_value *request = nc_value_new_map();

    return run(app, NULL, request);
}
