/*
 * `drain --dry-run`: what a drain of this node would do and when, worked out by the code that would
 * do it; and whether its deadline leaves each pod its grace period. Reads the Node and its pods
 * with the node's own identity; writes nothing, needs no daemon.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "commands.h"
#include "connect.h"
#include "gather.h"
#include "nc/drain-report.h"
#include "nc/kube-drain.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"
#include "process.h"

#define TIMEOUT_USEC 10000000u
#define LIST_TIMEOUT_USEC 300000000u
#define CHECK_TIMEOUT_USEC 10000000u /* the time of a drain with a deadline runs */
#define MARGIN_MAX_SEC 600
#define NOTHING "nothing was requested"
#define UNREAD "%zu pods could not be read, or are too many"

struct plan {
    struct nc_app *app;
    struct nc_connection connection;
    char *node;
    struct nc_drain *drain;
    struct nc_watch *watch;
    struct nc_drain_rules rules;
    uint64_t now_usec;
    size_t unread; /* pods that were dropped: no pod, or too many */
    bool is_listed;
    bool has_replaced; /* a pod that wants its replacement first */
    struct nc_drain_settings settings;
    struct nc_err failure; /* class NONE while the list goes well */
};

static void plan_done(struct plan *p) {
    p->watch = nc_watch_free(p->watch);
    nc_connection_done(&p->connection);
    p->drain = nc_drain_free(p->drain);
    free(p->node);
}

/* Which node is this? As the API server sees us, where nobody says otherwise. */
static int find_node(struct plan *p, struct nc_err *err) {
    static const char prefix[] = "system:node:";
    nc_cleanup(nc_identity_done) struct nc_identity identity = {0};
    int r;

    if (p->app->opts.node_name) {
        p->node = nc_strdup(p->app->opts.node_name);
        return 0;
    }
    r = nc_kube_whoami(p->connection.kube, TIMEOUT_USEC, &identity, NULL, err);
    if (r < 0)
        return r;
    if (!nc_starts_with(identity.username, prefix)) {
        r = nc_err_config(err, "the API server identified this client as %s, not as a node",
                          identity.username);
        nc_err_remedy(err, "use --node-name NAME");
        return r;
    }
    p->node = nc_strdup(identity.username + strlen(prefix));
    return 0;
}

static int check_drain_node(struct plan *p, struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path(p->node, NULL);
    nc_auto_value struct nc_value *node = NULL;
    const struct nc_kube_call call = {
        .what = "get node", .method = "GET", .path = path, .timeout_usec = TIMEOUT_USEC};
    const int r = nc_kube_perform(p->connection.kube, &call, &node, NULL, err);

    if (r < 0)
        return r;
    p->rules.has_disrupted_taint = nc_node_has_taint(node, NC_TAINT_DISRUPTED, NULL);
    return 0;
}

static void on_pod(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct plan *p = userdata;
    struct nc_pod pod = {0};

    p->is_listed |= event == NC_WATCH_SYNCED;
    if (!object || event == NC_WATCH_DELETED)
        return;
    if (nc_pod_read(object, &pod, NULL) < 0) {
        p->unread++;
        return;
    }
    p->has_replaced |= pod.is_replacement_first;
    if (nc_drain_see(p->drain, &pod, p->now_usec) < 0)
        p->unread++;
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    struct plan *p = userdata;

    p->failure = *err;
}

static int list_pods(struct plan *p, struct nc_err *err) {
    /* also those that have ended: they are shown, and take no place */
    nc_auto_free char *selector = nc_asprintf("fieldSelector=spec.nodeName%%3D%s", p->node);
    const struct nc_watch_options o = {.path = "/api/v1/pods",
                                       .selector = selector,
                                       .keep = nc_pod_paths,
                                       .max_object_bytes = NC_POD_MAX_BYTES,
                                       .max_value_bytes = NC_POD_VALUE_MAX_BYTES,
                                       .event = on_pod,
                                       .failed = on_failed,
                                       .userdata = p};
    int r = nc_watch_new(p->connection.kube, p->app->event, &o, &p->watch, err);

    while (r >= 0 && !p->is_listed && p->failure.class == NC_ERR_NONE && !p->app->signal
           && !nc_app_is_late(p->app))
        r = sd_event_run(p->app->event, 100000);
    if (p->failure.class != NC_ERR_NONE)
        return nc_err_give(&p->failure, err);
    if (r < 0)
        return nc_err_host(err, r, "event loop");
    return p->is_listed ? 0
                        : nc_err_set(err, NC_ERR_TRANSIENT, ETIMEDOUT,
                                     "the list of pods has not come in time, or was interrupted");
}

/* What the daemon would take: of the configuration, where that can be read. */
static void read_settings(struct plan *p) {
    nc_cleanup(nc_gather_done) struct nc_gather g = {0};
    struct nc_err err = NC_ERR_INIT;

    p->settings = nc_drain_defaults;
    if (nc_gather_open(&g, p->app, &err) < 0 || nc_gather_imds(&g, &err) < 0
        || nc_gather_documents(&g, &err) < 0 || nc_gather_config(&g, &err) < 0)
        (void)fprintf(stderr, "nodeclaimd drain: %s; assuming the default margin of %llu s\n",
                      err.msg, NC_MARGIN_USEC / 1000000);
    else
        p->settings = g.config.drain;
    p->rules.tolerating_last = p->settings.tolerating_last;
}

static int read_rules(struct plan *p, const struct nc_notice *notice, struct nc_err *err) {
    int r;

    p->rules.may_evict = notice->policy == NC_POLICY_DRAIN;
    p->rules.max_in_flight = NC_DRAIN_MAX_IN_FLIGHT;
    read_settings(p);
    r = nc_drain_allow_now(p->app, p->settings.mode, err);
    if (r < 0 || notice->deadline_usec == 0)
        return r;
    p->rules.t_usec = nc_later_usec(
        nc_less_usec(notice->deadline_usec,
                     nc_margin_usec(p->settings.margin_usec,
                                    nc_less_usec(notice->deadline_usec, p->now_usec))),
        1);
    return 0;
}

/* As the daemon, were the drain to begin now. */
static void wait_for_replacements(struct plan *p) {
    uint64_t until_usec;

    if (!p->has_replaced)
        return;
    until_usec = nc_sum_usec(p->now_usec, p->settings.replacement_usec);
    if (!p->rules.t_usec || p->rules.t_usec > until_usec)
        p->rules.replaced_by_usec = until_usec;
}

static int make(struct plan *p, const struct nc_notice *notice, struct nc_err *err) {
    const char *kubeconfig = p->app->opts.kubeconfig ? p->app->opts.kubeconfig : NC_KUBECONFIG;
    int r = nc_app_loop(p->app, err);

    if (r == 0)
        r = read_rules(p, notice, err);
    if (r == 0)
        r = nc_connect(p->app, kubeconfig, NULL, &p->connection, err);
    if (r == 0)
        r = find_node(p, err);
    if (r == 0)
        r = check_drain_node(p, err);
    return r < 0 ? r : list_pods(p, err);
}

/* -EPERM where it cuts the grace period of a pod: what that means, then which. */
static int check_grace(const struct plan *p, const char *meaning, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;
    const uint64_t least_usec = nc_drain_plan_cut(p->drain, &p->rules, p->now_usec, &names);
    uint64_t sec = least_usec / NC_SEC_USEC + 1;

    if (!least_usec)
        return 0;
    for (unsigned i = 0; i <= MARGIN_MAX_SEC; i++, sec++)
        if (nc_sec_to_usec(sec) - nc_margin_usec(p->settings.margin_usec, nc_sec_to_usec(sec))
            > least_usec)
            break;
    nc_err_set(err, NC_ERR_TRANSIENT, EPERM, "%s: pods lose part of their grace period: %s",
               meaning, names.data);
    nc_err_remedy(err,
                  "the shortest that leaves each its own is --deadline=%" PRIu64
                  "s; --cut-grace allows it as it is",
                  sec);
    return -EPERM;
}

/* What cannot be known is not allowed. */
static int allow(struct plan *p, int r, struct nc_err *err) {
    if (r == 0 && p->unread > 0)
        r = nc_err_protocol(err, UNREAD, p->unread);
    if (r < 0)
        nc_err_wrap(err, NOTHING ": which pods lose of their grace period is not known, and there "
                                 "is no --cut-grace");
    return r < 0 ? r : check_grace(p, NOTHING, err);
}

int nc_drain_plan(struct nc_app *app, const struct nc_notice *notice, uint64_t now_usec,
                  struct nc_err *err) {
    nc_cleanup(plan_done) struct plan p = {
        .app = app, .drain = nc_drain_new(), .now_usec = now_usec};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    int r;

    app->deadline_usec =
        nc_mono_usec() + (app->opts.dry_run ? LIST_TIMEOUT_USEC : CHECK_TIMEOUT_USEC);
    r = make(&p, notice, err);
    app->deadline_usec = 0;
    if (!app->opts.dry_run)
        return allow(&p, r, err);
    if (r < 0)
        return r;
    wait_for_replacements(&p);
    nc_drain_plan_text(p.drain, &p.rules, p.now_usec, app->opts.json, &text);
    if (!app->opts.json && p.rules.t_usec && nc_drain_count(p.drain) > 0)
        (void)nc_buf_puts(&text, "\nPodDisruptionBudgets are not asked: a pod that one keeps stays "
                                 "until its force-delete time.\n");
    if (app->opts.json)
        (void)fwrite(text.data, 1, text.len, stdout);
    else
        nc_terminal_print(stdout, text.data);
    if (p.unread > 0)
        (void)fprintf(stderr, "nodeclaimd drain: " UNREAD ", and are not shown\n", p.unread);
    if (!app->opts.cut_grace && check_grace(&p, "without --cut-grace that is refused", err) < 0)
        (void)fprintf(stderr, "nodeclaimd drain: %s; %s\n", err->msg, err->remedy);
    return 0;
}
