/*
 * The end of a claim that is being deleted: the request to drain, what is observed of it, the
 * instance, the finalizer. Rules S13 to S17.
 */
#include "nc/names.h"
#include "nc/str.h"
#include "standalone-priv.h"

static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* --- the request */

/* Of the drain request; 0 = none. The agent takes the margin off again that its time gives (N2). */
static uint64_t deadline_of(const struct standalone_view *v) {
    const uint64_t end_usec = v->claim->timestamp_usec, from_usec = v->claim->deletion_usec;
    const uint64_t left_usec = end_usec > from_usec ? end_usec - from_usec : 0;
    uint64_t margin = v->c->rules.margin_usec, next = margin;

    do {
        margin = next;
        next = nc_margin_usec(v->c->rules.margin_usec, sum(left_usec, margin));
    } while (next < margin);
    return end_usec ? sum(end_usec, margin) : 0;
}

static char *request_id(const struct standalone_view *v) {
    return nc_asprintf(NC_NOTICE_OF_CLAIM "%s", v->claim->o.uid);
}

/* What it states must not change while the claim ends: it is made of what does not. */
static const char *request_reason(const struct standalone_view *v) {
    if (nc_standalone_expiry(v->claim) <= v->claim->deletion_usec)
        return nc_budget_reason_name(NC_BUDGET_EXPIRED);
    if (nc_standalone_is(v->claim, CONTROL_COND_DRIFTED))
        return nc_budget_reason_name(NC_BUDGET_DRIFTED);
    return "Deleted";
}

static uint64_t grace_end(const struct standalone_view *v) {
    return sum(v->claim->deletion_usec, v->claim->more->grace_usec);
}

/* A later one than that is of whoever would lift its own grace period. */
static bool needs_force_delete_time(const struct standalone_view *v) {
    return v->claim->more->grace_usec != UINT64_MAX
           && (!v->claim->timestamp_usec || v->claim->timestamp_usec > grace_end(v));
}

/* Without a reason until the time is known that the annotation is going to have: its force-delete
 * time is written first. */
char *nc_standalone_request_text(const struct standalone_view *v) {
    const uint64_t deadline = deadline_of(v);

    if (needs_force_delete_time(v))
        return NULL;
    nc_auto_value struct nc_value *request = nc_value_new_map();
    nc_auto_free char *id = request_id(v);
    nc_value_set_string(request, "id", id);
    nc_value_set_string(request, "reason", request_reason(v));
    nc_value_set_string(request, "mode", deadline ? "deadline" : "graceful");
    if (deadline)
        nc_value_set_time(request, "deadline", deadline);
    return nc_json_text(request);
}

/* One that nobody can read requests nothing: it is nobody's. */
enum standalone_request nc_standalone_request_on(const struct standalone_view *v) {
    const char *text = v->node->more->drain_request;
    struct nc_notice notice = {0};
    nc_auto_free char *id = request_id(v);

    if (!text || nc_notice_read_request(text, strlen(text), NC_SOURCE_REQUEST, &notice, NULL) != 1)
        return STANDALONE_REQUEST_NONE;
    return nc_streq(notice.id, id) ? STANDALONE_REQUEST_OURS : STANDALONE_REQUEST_OTHER;
}

/* --- what is observed */

/* The drain status is an answer to our request, or of a source that would end this node anyway. */
static bool is_heard(const struct standalone_view *v) {
    const struct control_drain_status *w = v->node->drain_status;
    nc_auto_free char *id = request_id(v);

    if (!w || w->phase == CONTROL_PHASE_NONE)
        return false;
    return w->source > NC_SOURCE_REQUEST || (w->source == NC_SOURCE_REQUEST && nc_streq(w->id, id));
}

/* Somebody has deleted the Node object (where a machine is gone: the cloud's controller), nobody
 * has observed its kubelet since, and that for minutes: no agent is going to say a word any more,
 * and without a force-delete time both would stay for ever. */
static bool is_abandoned(const struct standalone_view *v, uint64_t *next_usec) {
    const uint64_t node_usec = v->node->deletion_usec, claim_usec = v->claim->deletion_usec;
    const uint64_t over_usec =
        sum(node_usec > claim_usec ? node_usec : claim_usec, NC_STANDALONE_ENDING_USEC);

    if (!node_usec || v->node->more->is_ready)
        return false;
    if (v->now_usec < over_usec)
        nc_control_sooner(next_usec, over_usec);
    return v->now_usec >= over_usec;
}

/* No agent has answered, and there is no force-delete time: who runs the machine must not be able
 * to keep it for ever by saying nothing. */
static bool is_beyond_ceiling(const struct standalone_view *v, uint64_t *next_usec) {
    const uint64_t over_usec = sum(v->claim->deletion_usec, v->c->rules.ceiling_usec);

    if (!v->c->rules.ceiling_usec || deadline_of(v) || is_heard(v))
        return false;
    if (v->now_usec < over_usec)
        nc_control_sooner(next_usec, over_usec);
    return v->now_usec >= over_usec;
}

/* `late`: why nobody said the drain status; NULL where somebody did. */
static void set_drained(struct standalone_conditions *cs, const char *late) {
    nc_standalone_set(cs, &(struct standalone_condition){CONTROL_COND_DRAINED, CONTROL_TRUE,
                                                         "Drained", late ? late : ""});
    nc_standalone_set(cs, late ? &(struct standalone_condition){CONTROL_COND_VOLUMES, CONTROL_FALSE,
                                                                "TerminationGracePeriodElapsed", ""}
                               : &(struct standalone_condition){CONTROL_COND_VOLUMES, CONTROL_TRUE,
                                                                "VolumesDetached", ""});
}

static const char *waits_for(const struct standalone_view *v,
                             const struct standalone_conditions *cs, uint64_t *next_usec) {
    const uint64_t since = nc_standalone_since(cs, CONTROL_COND_DRAINED);

    if (nc_standalone_request_on(v) == STANDALONE_REQUEST_OTHER)
        return "WaitingForAnotherRequest";
    if (deadline_of(v) || is_heard(v))
        return "Draining";
    if (since && v->now_usec >= sum(since, NC_STANDALONE_RESPONSE_USEC))
        return "WaitingForAgent";
    nc_control_sooner(next_usec, sum(since ? since : v->now_usec, NC_STANDALONE_RESPONSE_USEC));
    return "Draining";
}

static bool drain(const struct standalone_view *v, struct nc_control_action *ret,
                  uint64_t *next_usec) {
    const uint64_t deadline = deadline_of(v);
    const bool is_word = is_heard(v) && v->node->drain_status->phase == CONTROL_PHASE_DRAINED;
    struct standalone_conditions cs;

    nc_standalone_conditions(v, &cs);
    nc_standalone_set_reason(v, &cs);
    if (is_word) {
        set_drained(&cs, NULL);
    } else if (deadline && v->now_usec >= deadline) {
        set_drained(&cs, "The force-delete time has passed");
    } else if (is_abandoned(v, next_usec)) {
        set_drained(&cs, "The Node is being deleted, and its agent does not respond");
    } else if (is_beyond_ceiling(v, next_usec)) {
        set_drained(&cs, "No agent has answered for as long as is waited for one");
    } else {
        const char *reason = waits_for(v, &cs, next_usec);
        nc_standalone_set(
            &cs, &(struct standalone_condition){CONTROL_COND_DRAINED, CONTROL_UNKNOWN, reason, ""});
        v->claim->more->state = nc_streq(reason, "Draining") ? "draining" : reason;
        if (deadline)
            nc_control_sooner(next_usec, deadline);
    }
    return nc_standalone_write_status(v, &cs, NULL, ret);
}

/* --- the instance */

static bool end_instance(const struct standalone_view *v, struct nc_control_action *ret) {
    ret->verb = NC_CONTROL_END_INSTANCE;
    ret->provider_id = nc_strdup(v->claim->more->provider_id);
    return true;
}

static bool write_terminating(const struct standalone_view *v, struct nc_control_action *ret) {
    struct standalone_conditions cs;

    nc_standalone_conditions(v, &cs);
    nc_standalone_set(&cs, &(struct standalone_condition){CONTROL_COND_TERMINATING, CONTROL_TRUE,
                                                          "InstanceTerminating", ""});
    return nc_standalone_write_status(v, &cs, NULL, ret);
}

static bool is_terminating(const struct standalone_view *v) {
    return nc_standalone_is(v->claim, CONTROL_COND_TERMINATING);
}

static bool has_instance(const struct standalone_view *v) {
    return v->c->rules.terminates && v->claim->more->provider_id;
}

/* Requested, accepted, said. True where one of these is due. */
static bool terminate(const struct standalone_view *v, struct nc_control_action *ret) {
    if (!has_instance(v) || is_terminating(v))
        return false;
    return v->claim->more->is_end_accepted ? write_terminating(v, ret) : end_instance(v, ret);
}

static uint64_t terminating_since(const struct standalone_view *v) {
    struct standalone_conditions cs;

    nc_standalone_conditions(v, &cs);
    const uint64_t since = nc_standalone_since(&cs, CONTROL_COND_TERMINATING);
    cs.list = nc_value_free(cs.list);
    return since;
}

/* The machine is down as far as anybody can tell. */
static bool is_instance_over(const struct standalone_view *v) {
    const uint64_t since = terminating_since(v);

    return !v->node->more->is_ready || v->claim->more->scratch || v->node->deletion_usec > since
           || v->now_usec >= sum(since, NC_STANDALONE_ENDING_USEC);
}

bool nc_standalone_may_drop_node(const struct standalone_view *v, uint64_t *next_usec) {
    if (!nc_standalone_is(v->claim, CONTROL_COND_DRAINED))
        return false;
    if (!has_instance(v))
        return true;
    if (!is_terminating(v))
        return false;
    if (is_instance_over(v))
        return true;
    nc_control_sooner(next_usec, sum(terminating_since(v), NC_STANDALONE_ENDING_USEC));
    return false;
}

/* --- the order of it */

static bool write_force_delete_time(const struct standalone_view *v,
                                    struct nc_control_action *ret) {
    struct nc_value *patch = nc_control_patch(&v->claim->o, false);

    nc_value_set_time(nc_standalone_child(nc_standalone_child(patch, "metadata"), "annotations"),
                      NC_ANNOTATION_TERMINATION_TIMESTAMP, grace_end(v));
    ret->verb = NC_CONTROL_PATCH_CLAIM;
    ret->body = patch;
    return true;
}

/* Written before the instance is ended: a Node may come with that moment, and whoever leads then
 * must not wait for the drain status of an agent that is gone. */
static bool write_nothing_drains(const struct standalone_view *v, struct nc_control_action *ret) {
    struct standalone_conditions cs;

    if (!has_instance(v) || nc_standalone_is(v->claim, CONTROL_COND_DRAINED))
        return false;
    nc_standalone_conditions(v, &cs);
    nc_standalone_set(&cs, &(struct standalone_condition){CONTROL_COND_DRAINED, CONTROL_TRUE,
                                                          "Drained", "The NodeClaim has no Node"});
    return nc_standalone_write_status(v, &cs, NULL, ret);
}

static bool finish_without_node(const struct standalone_view *v, struct nc_control_action *ret) {
    v->claim->more->state = "ending";
    return write_nothing_drains(v, ret) || terminate(v, ret)
           || nc_control_drop_finalizer(&v->claim->o, &v->claim->more->finalizers, ret);
}

/* The Node's own writes follow from what is written here, and from time. */
static bool wait_for_instance(const struct standalone_view *v, struct nc_control_action *ret,
                              uint64_t *next_usec) {
    const uint64_t again = sum(v->claim->more->scratch_usec, NC_STANDALONE_AGAIN_USEC);

    if (!has_instance(v) || nc_standalone_may_drop_node(v, next_usec))
        return false;
    if (v->now_usec >= again) /* a new leader asks at once */
        return end_instance(v, ret);
    nc_control_sooner(next_usec, again);
    return false;
}

/* A Node may be there that is not known to be its own yet. An EC2 that does not report it is no
 * reason to wait for ever. */
static bool may_ask(const struct standalone_view *v, uint64_t *next_usec) {
    const uint64_t since_usec =
        v->c->led_usec > v->claim->deletion_usec ? v->c->led_usec : v->claim->deletion_usec;
    const uint64_t over_usec = sum(since_usec, NC_STANDALONE_ENDING_USEC);

    if (v->now_usec < over_usec)
        nc_control_sooner(next_usec, over_usec);
    return v->now_usec < over_usec;
}

bool nc_standalone_finish(const struct standalone_view *v, struct nc_control_action *ret,
                          uint64_t *next_usec) {
    if (!v->claim->has_our_finalizer)
        return false;
    if (needs_force_delete_time(v))
        return write_force_delete_time(v, ret);
    if (!v->node && !nc_standalone_is(v->claim, CONTROL_COND_DRAINED)
        && nc_standalone_may_come_back(v, next_usec)) {
        v->claim->more->state = "draining";
        return false;
    }
    if (!v->node && may_ask(v, next_usec) && nc_standalone_query_name(v, ret))
        return true;
    if (!v->node)
        return finish_without_node(v, ret);
    if (!nc_standalone_is(v->claim, CONTROL_COND_DRAINED))
        return drain(v, ret, next_usec);
    v->claim->more->state = "ending";
    if (terminate(v, ret) || wait_for_instance(v, ret, next_usec))
        return true;
    /* nobody can take our finalizer off a Node whose list was never seen */
    return v->node->deletion_usec && v->node->more->unread & CONTROL_UNREAD_FINALIZERS
           && nc_standalone_may_drop_node(v, next_usec)
           && nc_control_drop_finalizer(&v->claim->o, &v->claim->more->finalizers, ret);
}
