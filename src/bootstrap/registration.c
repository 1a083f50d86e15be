/*
 * The Node appears, becomes Ready, and is taken over by whoever owns it: followed on one watch of
 * this Node alone.
 *
 * The watch's callbacks only keep what came; what it means is checked between two turns of the
 * loop.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/names.h"
#include "nc/str.h"

#define LOOK_USEC 500000u     /* how often kubelet itself is checked while nothing else happens */
#define NOT_YET_USEC 5000000u /* silence longer than this is reported */
#define REQUEST_TIMEOUT_USEC 3000000u
#define RENEW_PAUSE_USEC 5000000u
/* The watch tries again within 30 s: an error that has not come back by then has passed. */
#define WATCH_ERROR_USEC 40000000u

static void on_node(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_bootstrap *b = userdata;

    if (event == NC_WATCH_SYNCED) {
        b->node.error = (struct nc_err)NC_ERR_INIT;
        return;
    }
    nc_value_free(b->node.object);
    b->node.object = event == NC_WATCH_DELETED ? NULL : nc_value_copy(object);
    b->node.has_changed = true;
    b->node.error = (struct nc_err)NC_ERR_INIT;
}

static void on_watch_failed(void *userdata, const struct nc_kube_status *status,
                            const struct nc_err *err) {
    struct nc_bootstrap *b = userdata;

    b->node.error = *err;
    b->node.error_usec = nc_mono_usec();
}

/* A bootstrap token may request a certificate and for nothing else: the Node is watched once we are
 * the node. */
static int open_watch(struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *selector = nc_kube_node_selector(b->gather.plan.node_name);
    const struct nc_watch_options o = {
        .path = "/api/v1/nodes",
        .selector = selector,
        .event = on_node,
        .failed = on_watch_failed,
        .userdata = b,
    };

    if (b->node.watch || b->connection.is_bootstrap)
        return 0;
    return nc_watch_new(b->connection.kube, b->app->event, &o, &b->node.watch, err);
}

/* Turns the loop until the Node has changed, kubelet is to be checked, or the end. */
static int wait_for_news(struct nc_bootstrap *b) {
    const uint64_t until = nc_mono_usec() + nc_app_left(b->app, LOOK_USEC);
    uint64_t now;
    int r = 0;

    while (r >= 0 && !b->node.has_changed && !b->app->signal && (now = nc_mono_usec()) < until)
        r = sd_event_run(b->app->event, until - now);
    return b->app->signal ? -EINTR : r < 0 ? r : 0;
}

/* Once the certificate is signed we are the node, not the bootstrap token. */
static int become_node(struct nc_bootstrap *b, struct nc_err *err) {
    if (!b->connection.is_bootstrap
        || nc_connect_check(b->app, NC_KUBECONFIG, NULL) != NC_CREDENTIALS_THERE)
        return 0;
    b->node.watch = nc_watch_free(b->node.watch);
    return nc_connect(b->app, NC_KUBECONFIG, b->gather.imds, &b->connection, err);
}

/* The token is renewed between two turns of the loop, well before the watch could need a new one
 * inside of it. A failure is not worth a word as long as the old one is good: the watch has it. */
static void renew_token(struct nc_bootstrap *b) {
    const uint64_t now = nc_mono_usec();

    if (now < b->node.renew_after_usec)
        return;
    if (nc_connection_renew(&b->connection, NULL) < 0)
        b->node.renew_after_usec = now + RENEW_PAUSE_USEC;
}

/* Is kubelet alive, is the API there? Negative where the phase cannot succeed any more. */
static int check_surroundings(struct nc_bootstrap *b, struct nc_err *err) {
    struct nc_err found = NC_ERR_INIT;

    renew_token(b);
    b->node.kubelet_error = (struct nc_err)NC_ERR_INIT;
    if (nc_check_kubelet(b, &found) < 0) {
        if (b->kubelet.mode == NC_START_EXEC) {
            *err = found;
            return -ECHILD;
        }
        b->node.kubelet_error = found; /* systemd starts it again */
    }
    if (nc_mono_usec() - b->node.error_usec > WATCH_ERROR_USEC)
        b->node.error = (struct nc_err)NC_ERR_INIT;
    return become_node(b, err);
}

/* What stands in the way beside the Node itself: one reason at a time, the nearest first. */
static const struct nc_err *obstacle(const struct nc_bootstrap *b) {
    if (b->node.kubelet_error.class != NC_ERR_NONE)
        return &b->node.kubelet_error;
    return b->node.error.class != NC_ERR_NONE ? &b->node.error : NULL;
}

/* Follows the Node until it is as a phase wants it. `is_done` gives the reason it is not, `publish`
 * may know a nearer reason, and puts that into why. */
static int follow_node(struct nc_bootstrap *b,
                       bool (*is_done)(struct nc_bootstrap *b, struct nc_err *why),
                       void (*publish)(struct nc_bootstrap *b, struct nc_err *why),
                       struct nc_err *err) {
    int r = open_watch(b, err);

    while (r >= 0) {
        struct nc_err why = NC_ERR_INIT;
        if (is_done(b, &why))
            return 0;
        publish(b, &why);
        if (nc_app_is_late(b->app)) {
            *err = why;
            return -ETIMEDOUT;
        }
        r = wait_for_news(b);
        if (r >= 0)
            r = check_surroundings(b, err);
        if (r >= 0)
            r = open_watch(b, err);
    }
    return r;
}

/* --- register */

/* After a reboot the Node is there before kubelet is: what an earlier boot left behind reports
 * nothing of this one. A Node that does not state which boot it is of is taken as it is. */
static bool is_of_earlier_boot(const struct nc_bootstrap *b) {
    const char *theirs = nc_value_path_string(b->node.object, "status.nodeInfo.bootID");
    const char *ours = b->gather.facts.boot_id;

    return theirs && *theirs && ours && *ours && !nc_streq(theirs, ours);
}

static bool is_registered(struct nc_bootstrap *b, struct nc_err *why) {
    b->node.has_changed = false;
    return b->node.object && nc_check_node_is_ours(b, b->node.object, why) >= 0
           && !nc_node_is_being_deleted(b->node.object) && !is_of_earlier_boot(b);
}

/* why: another instance's Node, or nothing yet; then the first seconds are ordinary. */
static void publish_unregistered(struct nc_bootstrap *b, struct nc_err *why) {
    if (why->class == NC_ERR_NONE && obstacle(b))
        *why = *obstacle(b);
    if (why->class == NC_ERR_NONE) {
        if (nc_phase_age(b, NC_PHASE_REGISTER) <= NOT_YET_USEC && !nc_app_is_late(b->app))
            return;
        (void)nc_err_set(why, NC_ERR_TRANSIENT, ETIMEDOUT,
                         "kubelet runs, but has not registered %s yet%s", b->gather.plan.node_name,
                         nc_last_lines(b, b->gather.config.kubelet_unit));
        nc_err_remedy(why, "read the logs of kubelet and containerd: kubelet may wait for "
                           "containerd.sock, or cannot register");
    }
    nc_phase_waits(b, NC_PHASE_REGISTER, why);
    nc_publish_event_in_time(b, NC_PHASE_REGISTER, false);
}

int nc_step_register(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_log_fields fields = {
        .milestone = NC_MILESTONE_REGISTERED, .phase = "register", .node = b->report.node};
    const int r = follow_node(b, is_registered, publish_unregistered, err);

    if (r < 0)
        return r;
    nc_log(NC_LOG_INFO, &fields, "node %s is registered", b->gather.plan.node_name);
    b->node.has_changed = true; /* the next phase checks it first thing */
    return 0;
}

/* --- initialize */

/* Where it was not found before: the Node names it once it is registered. */
static void read_owning_claim(struct nc_bootstrap *b) {
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (b->claim.name || b->node.is_claim_read || !b->gather.config.claim_lookup
        || !nc_value_path(b->node.object, "metadata.ownerReferences"))
        return;
    r = nc_claim_of_node(b->connection.kube, b->node.object,
                         nc_app_timeout(b->app, REQUEST_TIMEOUT_USEC), &b->claim, &err);
    if (r > 0) {
        nc_report_set_claim(&b->report, &b->claim, "ownerReferences");
        nc_requirements_check(&b->claim, &b->gather.facts, &b->gather.plan, &b->report.warnings);
    }
    /* Without access it stays what the user data said. */
    b->node.is_claim_read = r >= 0 || err.class != NC_ERR_TRANSIENT;
}

/* The claim's name and uid are in the ownerReference even where the claim itself may not be read.
 */
static void note_owner(struct nc_bootstrap *b) {
    const struct nc_value *owner = nc_value_find(
        nc_value_path(b->node.object, "metadata.ownerReferences"), "kind", "NodeClaim");
    nc_cleanup(nc_claim_done) struct nc_claim c = {0};

    if (!owner || b->report.claim_name)
        return;
    c.name = nc_strdup(nc_value_get_string(owner, "name"));
    c.uid = nc_strdup(nc_value_get_string(owner, "uid"));
    nc_report_set_claim(&b->report, &c, "ownerReferences");
}

/* Is what the Node's status says the word of the kubelet that runs now? After a restart the last
 * one's Ready stands there until the new one has reported. */
static bool is_reported(const struct nc_bootstrap *b) {
    return nc_node_is_reported_since(b->node.object, nc_kubelet_since(&b->kubelet));
}

/* What the node waits for, in Karpenter's own words: a reason, and a sentence (owned) that says
 * more. NULL: nothing. */
static const char *find_waiting_reason(const struct nc_bootstrap *b, char **ret_sentence) {
    const struct nc_value *node = b->node.object;
    const bool karpenter = b->gather.plan.belongs_to_claim;
    const char *reason = "";

    if (!is_reported(b)) {
        *ret_sentence = nc_strdup("Node status is not ready: kubelet has not reported since it was "
                                  "started; the status of the Node is older");
        return "NodeNotReady";
    }
    if (karpenter && nc_streq(nc_node_label(node, NC_LABEL_INITIALIZED), "true")
        && nc_node_is_ready(node, NULL, NULL)) /* the label is of the first boot, for good */
        return NULL;
    if (karpenter && !nc_streq(nc_node_label(node, NC_LABEL_REGISTERED), "true")) {
        *ret_sentence = nc_strdup("Karpenter has not registered the node yet");
        return "NodeNotRegistered";
    }
    nc_node_waiting_for(node, nc_bootstrap_claim(b), &reason, ret_sentence);
    if (*reason)
        return reason;
    if (!karpenter || nc_node_has_taint(node, NC_TAINT_BOOTSTRAP, NULL))
        return NULL; /* Karpenter waits for that taint, and the taint for this report */
    free(*ret_sentence);
    *ret_sentence =
        nc_strdup("nothing is missing on the node, Karpenter has not labelled it as initialized "
                  "yet: where it plans with DRA it waits for the pools of the drivers");
    return "NodeNotInitialized";
}

static bool is_initialized(struct nc_bootstrap *b, struct nc_err *why) {
    const bool has_changed = b->node.has_changed;
    nc_auto_free char *sentence = NULL;
    const char *reason;

    b->node.has_changed = false;
    if (has_changed && b->node.object) {
        read_owning_claim(b);
        note_owner(b);
        nc_report_set_node(&b->report, b->node.object, &b->gather.plan, nc_bootstrap_claim(b));
    }
    if (!b->node.object) {
        (void)nc_err_set(why, NC_ERR_TRANSIENT, ENOENT, "the Node %s is gone again",
                         b->gather.plan.node_name);
        nc_err_remedy(why,
                      "kubelet registers only once: unless this node is to go, "
                      "systemctl restart %s",
                      b->gather.config.kubelet_unit);
        return false;
    }
    reason = find_waiting_reason(b, &sentence);
    if (!reason)
        return true;
    nc_report_set_waiting(&b->report, reason, sentence);
    (void)nc_err_set(why, NC_ERR_TRANSIENT, ETIMEDOUT, "%s: %s", reason, sentence);
    nc_err_remedy(why, "%s",
                  !is_reported(b)
                      ? "read kubelet's log for why it cannot report, or is still starting"
                  : nc_streq(reason, "NodeNotReady")
                      ? "read the Node's Ready condition and kubelet's log: most often the network "
                        "plugin is missing, see its pod on this node (EKS: aws-node in kube-system)"
                  : nc_streq(reason, "NodeNotRegistered")
                      ? "check Karpenter's log for this NodeClaim: it matches Nodes by providerID"
                      : "the owner of the named taint or condition must remove it");
    return false;
}

/* A Node write that changes nothing but our own report is not worth waking everybody: only the
 * fixed reasons go there, and none for the moment that a kubelet takes that was started again. */
static void publish_uninitialized(struct nc_bootstrap *b, struct nc_err *why) {
    const bool is_long = nc_phase_age(b, NC_PHASE_INITIALIZE) > NOT_YET_USEC;

    if (is_long) {
        nc_phase_waits(b, NC_PHASE_INITIALIZE, obstacle(b) ? obstacle(b) : why);
        nc_publish_event_in_time(b, NC_PHASE_INITIALIZE, b->node.object && !obstacle(b));
    } else {
        nc_publish(b);
    }
    if (b->report.waiting_reason && (is_long || is_reported(b)))
        nc_publish_node(b, b->report.waiting_reason, b->report.waiting ? b->report.waiting : "",
                        false);
}

/* A pool of nodes may run with a misspelled setting. */
static char *complete_text(const struct nc_strv *warnings) {
    static const char is_complete[] =
        "kubelet runs with the planned configuration and nothing is missing on the node";

    return warnings->n == 0 ? nc_strdup(is_complete)
                            : nc_asprintf("%s; warnings: %zu, the first: %.300s", is_complete,
                                          warnings->n, warnings->v[0]);
}

int nc_step_initialize(struct nc_bootstrap *b, struct nc_err *err) {
    const int r = follow_node(b, is_initialized, publish_uninitialized, err);

    if (r < 0)
        return r;
    nc_auto_free char *message = complete_text(&b->report.warnings);
    nc_report_set_waiting(&b->report, NULL, NULL);
    nc_report_succeed(&b->report, NC_PHASE_INITIALIZE, nc_report_now(b));
    nc_report_finish(&b->report, nc_report_now(b));
    nc_publish_node(b, "BootstrapComplete", message, true);
    return 0;
}

void nc_node_watch_done(struct nc_node_watch *n) {
    nc_watch_free(n->watch);
    nc_value_free(n->object);
}
