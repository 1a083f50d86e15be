/*
 * Lifecycle actions of Auto Scaling groups: a group that ends an instance waits while its node
 * drains, and goes on once that has ended. Rules C14, C15.
 *
 * What a node says of itself, its drain status and its providerID, moves its own instance only: its
 * name it cannot choose. All that is remembered can be found out again, but for when a drain began
 * and last moved: the limits of its heartbeats begin anew with each leader.
 */
#include "lifecycle-action.h"

#include <strings.h>

#include "nc/backoff.h"
#include "nc/str.h"
#include "parse.h"
#include "step.h"

#define PAUSE_MAX_USEC (300ull * 1000000)

static const struct nc_backoff unavailable = {.first_usec = 200000, .max_usec = 30000000};
static const struct nc_backoff not_yet = {.first_usec = 1000000, .max_usec = PAUSE_MAX_USEC};

struct control_lifecycle *nc_control_lifecycle_free(struct control_lifecycle *l) {
    if (!l)
        return NULL;
    free(l->provider_id);
    free(l->group);
    free(l);
    return NULL;
}

const char *nc_control_lifecycle_name(const struct control_node *node) {
    static const char *const names[] = {[CONTROL_LIFECYCLE_PENDING] = "pending",
                                        [CONTROL_LIFECYCLE_WAITING] = "waiting",
                                        [CONTROL_LIFECYCLE_COMPLETED] = "completed",
                                        [CONTROL_LIFECYCLE_NONE] = "none",
                                        [CONTROL_LIFECYCLE_MISMATCH] = "mismatch"};
    const struct control_lifecycle *l = node->lifecycle;

    return !l ? NULL : l->is_failed ? "failed" : names[l->state];
}

/* ---- what is seen */

/* It is called as its instance, or begins with that: so it must be that one. */
static bool is_called_as(const char *name, const char *instance) {
    const size_t n = strlen(instance);

    return strncmp(name, instance, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

static struct control_lifecycle *begin(const struct nc_control *c, const struct control_node *node,
                                       const char *provider_id) {
    struct control_lifecycle *l = nc_calloc(1, sizeof(*l));
    struct nc_control_instance i = {0};

    memcpy(l->id, node->drain_status->id, sizeof(l->id));
    l->first_usec = l->progress_usec = c->now_usec;
    l->least = -1;
    if (nc_control_parse_provider_id(provider_id, &i) < 0) {
        l->state = CONTROL_LIFECYCLE_MISMATCH;
        return l;
    }
    l->provider_id = nc_strdup(provider_id);
    l->is_confirmed = is_called_as(node->o.name, i.id);
    return l;
}

static bool is_same(const struct control_lifecycle *l, const struct control_drain_status *w,
                    const char *provider_id) {
    struct nc_control_instance i;

    if (!l || !nc_streq(l->id, w->id))
        return false;
    return l->provider_id ? nc_streq(l->provider_id, provider_id)
                          : nc_control_parse_provider_id(provider_id, &i) < 0;
}

/* Only what has never been so few counts: a number that goes up and down is no progress. */
static void note_progress(struct control_lifecycle *l, int64_t remaining, uint64_t now_usec) {
    if (remaining < 0 || (l->least >= 0 && remaining >= l->least))
        return;
    l->least = remaining;
    l->progress_usec = now_usec;
}

void nc_control_apply_lifecycle(struct nc_control *c, struct control_node *node,
                                const struct nc_value *object) {
    const struct control_drain_status *w = node->drain_status;
    const char *provider_id = nc_value_string(nc_control_at(object, "spec.providerID", NULL));

    if (!c->rules.completes_actions || !w || w->source != NC_SOURCE_AUTOSCALING
        || w->policy != NC_POLICY_DRAIN) {
        node->lifecycle = nc_control_lifecycle_free(node->lifecycle);
        return;
    }
    if (!is_same(node->lifecycle, w, provider_id)) {
        nc_control_lifecycle_free(node->lifecycle);
        node->lifecycle = begin(c, node, provider_id);
    }
    note_progress(node->lifecycle, w->remaining, c->now_usec);
}

/* ---- what is wanted */

/* A node that only cordons knows nothing of its pods: nothing is waited for. */
static bool is_evicting(const struct control_drain_status *w) {
    return (w->phase == CONTROL_PHASE_CORDONED && w->remaining >= 0)
           || (w->phase >= CONTROL_PHASE_EVICTING && w->phase <= CONTROL_PHASE_VOLUMES);
}

/* Until when the group is to wait for pods that leave. */
static uint64_t heartbeats_until(const struct control_lifecycle *l,
                                 const struct control_drain_status *w) {
    const uint64_t stalled_usec = l->progress_usec + NC_CONTROL_STALLED_USEC;
    const uint64_t end_usec =
        w->deadline_usec ? w->deadline_usec : l->first_usec + NC_CONTROL_HEARTBEATS_MAX_USEC;

    return end_usec < stalled_usec ? end_usec : stalled_usec;
}

static bool is_open(const struct control_lifecycle *l) {
    return l && (l->state == CONTROL_LIFECYCLE_PENDING || l->state == CONTROL_LIFECYCLE_WAITING);
}

/* One of a clock that was set back since is no reason to wait; nor does a heartbeat that failed
 * hold up the end. */
static bool has_pause(const struct control_lifecycle *l, enum nc_control_verb verb,
                      uint64_t now_usec) {
    return l->paused_verb == verb && l->pause_usec > now_usec
           && l->pause_usec - now_usec <= PAUSE_MAX_USEC;
}

static bool is_heartbeat_due(const struct control_lifecycle *l, uint64_t now_usec) {
    return l->heartbeat_usec > now_usec || !l->heartbeat_usec
           || now_usec - l->heartbeat_usec >= NC_CONTROL_HEARTBEAT_USEC;
}

static enum nc_control_verb next_verb(const struct control_lifecycle *l, bool is_final) {
    if (!l->is_confirmed)
        return NC_CONTROL_DESCRIBE_INSTANCE;
    if (l->state == CONTROL_LIFECYCLE_PENDING)
        return NC_CONTROL_DESCRIBE_LIFECYCLE;
    return is_final ? NC_CONTROL_COMPLETE_ACTION : NC_CONTROL_RECORD_HEARTBEAT;
}

bool nc_control_lifecycle(const struct nc_control *c, const struct control_node *node,
                          uint64_t now_usec, struct nc_control_action *ret, uint64_t *next_usec) {
    const struct control_lifecycle *l = node->lifecycle;
    const struct control_drain_status *w = node->drain_status;
    const bool is_final = nc_control_is_final_status(w);
    enum nc_control_verb verb;

    *next_usec = UINT64_MAX;
    if (!c->rules.completes_actions || !is_open(l) || (!is_final && !is_evicting(w)))
        return false;
    if (!is_final && now_usec >= heartbeats_until(l, w))
        return false;
    if (!is_final)
        nc_control_sooner(next_usec, heartbeats_until(l, w));
    verb = next_verb(l, is_final);
    if (has_pause(l, verb, now_usec)) {
        nc_control_sooner(next_usec, l->pause_usec);
        return false;
    }
    if (verb == NC_CONTROL_RECORD_HEARTBEAT && !is_heartbeat_due(l, now_usec)) {
        nc_control_sooner(next_usec, l->heartbeat_usec + NC_CONTROL_HEARTBEAT_USEC);
        return false;
    }
    ret->verb = verb;
    ret->provider_id = nc_strdup(l->provider_id);
    ret->group = l->group ? nc_strdup(l->group) : NULL;
    return true;
}

/* ---- what is said */

static bool emit(struct nc_control *c, struct control_node *node, const char *reason,
                 const char *message, uint64_t *next_usec) {
    uint64_t when_usec = 0;

    if (nc_control_emit(c, &node->o, reason, true, "%s", message))
        return true;
    if (!nc_control_may_emit(&node->o, c->now_usec, &when_usec))
        nc_control_sooner(next_usec, when_usec);
    return false;
}

static const char *heartbeats_end_text(const struct control_lifecycle *l, uint64_t now_usec) {
    return now_usec >= l->progress_usec + NC_CONTROL_STALLED_USEC
               ? "No heartbeat of the lifecycle action is recorded any more: no pod has left the "
                 "node for 30 minutes; the hook's timeout ends the wait of the group"
               : "No heartbeat of the lifecycle action is recorded any more: the drain has no "
                 "deadline and has taken 2 hours; the hook's timeout ends the wait of the group";
}

void nc_control_report_lifecycle(struct nc_control *c, struct control_node *node,
                                 uint64_t *next_usec) {
    struct control_lifecycle *l = node->lifecycle;
    const struct control_drain_status *w = node->drain_status;
    const uint64_t now_usec = c->now_usec;

    if (!l || !nc_control_may_complete(c))
        return;
    if (l->first_usec > now_usec) /* the clock was set back since */
        l->first_usec = now_usec;
    if (l->progress_usec > now_usec)
        l->progress_usec = now_usec;
    if (l->state == CONTROL_LIFECYCLE_MISMATCH && !l->provider_id && !l->was_mismatch_reported)
        l->was_mismatch_reported = emit(
            c, node, "InstanceMismatch",
            "spec.providerID is not that of an EC2 instance, aws:///ZONE/INSTANCE: the lifecycle "
            "action of the Auto Scaling group is left to its timeout",
            next_usec);
    if (l->state != CONTROL_LIFECYCLE_WAITING || l->was_end_reported || !is_evicting(w)
        || now_usec < heartbeats_until(l, w)
        || (w->deadline_usec && w->deadline_usec <= now_usec)) /* the node reports that end */
        return;
    l->was_end_reported = emit(c, node, "LifecycleActionHeartbeatsEnded",
                               heartbeats_end_text(l, now_usec), next_usec);
}

static void report(struct nc_control *c, const struct control_node *node, const char *reason,
                   bool is_warning, char *message) {
    nc_control_emit_always(c, &node->o, reason, is_warning, message);
}

/* ---- answers */

static void pause_for(struct nc_control *c, struct control_node *node, enum nc_control_verb verb,
                      const struct nc_backoff *backoff) {
    struct control_lifecycle *l = node->lifecycle;

    if (l->paused_verb != verb)
        l->attempts = 0;
    l->paused_verb = (uint8_t)verb;
    if (l->attempts < UINT16_MAX)
        l->attempts++;
    l->pause_usec =
        c->now_usec + nc_backoff_pause(backoff, l->attempts, c->rules.seed ^ node->o.by_name.hash);
}

static const char *iam_action_of(enum nc_control_verb verb) {
    return verb == NC_CONTROL_DESCRIBE_INSTANCE    ? "ec2:DescribeInstances"
           : verb == NC_CONTROL_DESCRIBE_LIFECYCLE ? "autoscaling:DescribeAutoScalingInstances"
           : verb == NC_CONTROL_RECORD_HEARTBEAT   ? "autoscaling:RecordLifecycleActionHeartbeat"
                                                   : "autoscaling:CompleteLifecycleAction";
}

static unsigned bit_of(enum nc_control_verb verb, enum nc_control_refusal refusal) {
    if (refusal == NC_CONTROL_REFUSAL_HOOK)
        return 1u << 0;
    if (refusal == NC_CONTROL_REFUSAL_OTHER)
        return 1u << 1;
    return verb == NC_CONTROL_DESCRIBE_INSTANCE    ? 1u << 2
           : verb == NC_CONTROL_DESCRIBE_LIFECYCLE ? 1u << 3
           : verb == NC_CONTROL_RECORD_HEARTBEAT   ? 1u << 4
                                                   : 1u << 5;
}

/* This Node alone pauses: another group may have other permissions and other hooks. */
static void refused(struct nc_control *c, struct control_node *node, enum nc_control_verb verb,
                    enum nc_control_refusal refusal) {
    struct control_lifecycle *l = node->lifecycle;
    const unsigned bit = bit_of(verb, refusal);

    l->is_failed = true;
    l->paused_verb = (uint8_t)verb;
    l->pause_usec = c->now_usec + NC_CONTROL_REFUSED_USEC;
    if (l->reported_refusals & bit)
        return;
    l->reported_refusals |= (uint8_t)bit;
    if (refusal == NC_CONTROL_REFUSAL_HOOK)
        report(c, node, "LifecycleHookNotFound", true,
               nc_strdup("Auto Scaling refuses the lifecycle hook of this controller: name the "
                         "group's terminating hook with --lifecycle-hook; tried again every 5 "
                         "minutes"));
    else if (refusal == NC_CONTROL_REFUSAL_DENIED)
        report(c, node, "LifecycleActionFailed", true,
               nc_asprintf("AWS denies %s: allow it to the controller's role, for the group of "
                           "this instance; the controller's log has the answer; tried again every "
                           "5 minutes",
                           iam_action_of(verb)));
    else
        report(c, node, "LifecycleActionFailed", true,
               nc_asprintf("AWS refuses %s, or it could not be asked: the controller's log has its "
                           "answer; tried again every 5 minutes",
                           iam_action_of(verb)));
}

static void confirm(struct nc_control *c, struct control_node *node, const char *dns_name) {
    struct control_lifecycle *l = node->lifecycle;

    l->is_confirmed = dns_name && strcasecmp(node->o.name, dns_name) == 0;
    if (l->is_confirmed)
        return;
    l->state = CONTROL_LIFECYCLE_MISMATCH;
    report(c, node, "InstanceMismatch", true,
           nc_strdup("spec.providerID names an instance that has another name in EC2 than this "
                     "Node: the lifecycle action of the Auto Scaling group is left to its "
                     "timeout"));
}

static void apply_group_state(struct nc_control *c, struct control_node *node,
                              const struct nc_control_event *e) {
    struct control_lifecycle *l = node->lifecycle;

    if (nc_streq(e->lifecycle_state, "Terminating:Proceed")
        || nc_streq(e->lifecycle_state, "Terminated")) {
        l->state = CONTROL_LIFECYCLE_NONE;
    } else if (nc_streq(e->lifecycle_state, "Terminating:Wait") && e->group) {
        l->state = CONTROL_LIFECYCLE_WAITING;
        l->group = nc_strdup(e->group);
        l->attempts = 0;
    } else {
        pause_for(c, node, NC_CONTROL_DESCRIBE_LIFECYCLE, &not_yet);
    }
}

static void done(struct nc_control *c, struct control_node *node, enum nc_control_verb verb,
                 const struct nc_control_event *e) {
    struct control_lifecycle *l = node->lifecycle;

    l->is_failed = false;
    if (verb != NC_CONTROL_DESCRIBE_LIFECYCLE) /* whose answer may be: not yet */
        l->attempts = 0;
    if (verb == NC_CONTROL_DESCRIBE_INSTANCE) {
        confirm(c, node, e->name);
    } else if (verb == NC_CONTROL_DESCRIBE_LIFECYCLE) {
        apply_group_state(c, node, e);
    } else if (verb == NC_CONTROL_RECORD_HEARTBEAT) {
        l->heartbeat_usec = c->now_usec;
    } else {
        l->state = CONTROL_LIFECYCLE_COMPLETED;
        report(c, node, "LifecycleActionCompleted", false,
               nc_asprintf("The drain has ended as %s: the Auto Scaling group may end the instance",
                           nc_control_phase_name(node->drain_status->phase)));
    }
}

/* EC2 may not know an instance yet, or any more: that is no proof of anything. */
static void missing(struct nc_control *c, struct control_node *node, enum nc_control_verb verb) {
    struct control_lifecycle *l = node->lifecycle;

    l->is_failed = false;
    if (verb == NC_CONTROL_DESCRIBE_INSTANCE) {
        pause_for(c, node, verb, &not_yet);
        return;
    }
    l->state = CONTROL_LIFECYCLE_NONE;
    if (verb != NC_CONTROL_DESCRIBE_LIFECYCLE)
        report(c, node, "LifecycleActionCompleted", false,
               nc_strdup("No lifecycle action of this instance is active: somebody else has "
                         "completed it, or the hook's timeout has passed"));
}

void nc_control_lifecycle_answered(struct nc_control *c, struct control_node *node,
                                   enum nc_control_verb verb, const struct nc_control_event *e) {
    struct control_lifecycle *l = node->lifecycle;

    if (!l || l->request_id != e->id) /* it was of another drain, or another instance */
        return;
    switch (e->answer) {
    case NC_CONTROL_DONE:
        done(c, node, verb, e);
        break;
    case NC_CONTROL_MISSING:
        missing(c, node, verb);
        break;
    case NC_CONTROL_REFUSED:
        refused(c, node, verb, e->refusal);
        break;
    case NC_CONTROL_CONFLICT:
    case NC_CONTROL_UNAVAILABLE:
        pause_for(c, node, verb, &unavailable);
        break;
    }
}
