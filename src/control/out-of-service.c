/*
 * Nodes whose instance is gone: which they are, and the taint that lets their pods and volumes go.
 * Rules C16 to C18.
 *
 * The taint makes Kubernetes delete the pods without a kubelet that has stopped them, and detach
 * their volumes. On a machine that runs it would let two write where one may. So EC2 must have
 * stated a moment ago that this very instance is terminated; whatever else it answers, and whatever
 * cannot be read, is no reason for the taint.
 */
#include "out-of-service.h"

#include <errno.h>

#include "nc/backoff.h"
#include "nc/names.h"
#include "nc/str.h"
#include "parse.h"
#include "step.h"

#define FIRST_AGAIN_USEC (15ull * 1000000)
#define LAST_AGAIN_USEC (300ull * 1000000)
#define CONDITIONS_MAX ((size_t)64)
#define OUR_VALUE "nodeclaimd"
#define EFFECT "NoExecute"
#define TAINT NC_TAINT_OUT_OF_SERVICE ":" EFFECT
#define TERMINATED "terminated"

static const struct nc_backoff pauses = {.first_usec = 200000, .max_usec = 30000000};
static const struct nc_backoff state_pauses = {.first_usec = FIRST_AGAIN_USEC,
                                               .max_usec = LAST_AGAIN_USEC};

/* ---- what is read */

/* As EC2 makes them: other ones it would refuse as malformed. */
static bool is_instance_id(const char *s, size_t n) {
    return (n == strlen("i-") + 8 || n == strlen("i-") + 17) && nc_starts_with(s, "i-")
           && strspn(s + 2, "0123456789abcdef") == n - 2;
}

/* The id in "aws:///us-west-2a/i-0123456789abcdef0"; NULL where it is anything else. */
static const char *instance_of(const char *provider_id) {
    struct nc_control_instance i;

    if (nc_control_parse_provider_id(provider_id, &i) < 0 || !is_instance_id(i.id, strlen(i.id)))
        return NULL;
    return strrchr(provider_id, '/') + 1;
}

static int read_provider_id(const struct nc_value *object, struct control_outage *o) {
    if (nc_control_parse_token(nc_control_at(object, "spec.providerID", NULL), CONTROL_PROVIDER_MAX,
                               &o->provider_id)
        < 0)
        return -EBADMSG;
    o->instance = o->provider_id ? instance_of(o->provider_id) : NULL;
    return 0;
}

static int truth_of(const char *status, uint8_t *ret) {
    if (!nc_is_one_of(status, "True\0False\0Unknown\0"))
        return -EBADMSG;
    *ret = nc_streq(status, "True")    ? CONTROL_TRUE
           : nc_streq(status, "False") ? CONTROL_FALSE
                                       : CONTROL_UNKNOWN;
    return 0;
}

static int read_ready(const struct nc_value *object, struct control_outage *o) {
    const struct nc_value *list = nc_control_at(object, "status.conditions", NULL);
    int r = 0;

    if (!list)
        return 0;
    if (list->type != NC_VALUE_LIST || list->n > CONDITIONS_MAX)
        return -EBADMSG;
    for (size_t i = 0; r >= 0 && i < list->n; i++) {
        if (!nc_value_says(list->items[i], "type", "Ready"))
            continue;
        if (o->ready != CONTROL_ABSENT) /* two */
            return -EBADMSG;
        r = truth_of(nc_value_get_string(list->items[i], "status"), &o->ready);
        if (r >= 0)
            r = nc_control_parse_time(nc_control_at(list->items[i], "lastTransitionTime", NULL),
                                      &o->since_usec);
    }
    return r;
}

static bool is_out_of_service(const char *const taint[4]) {
    return nc_streq(taint[0], NC_TAINT_OUT_OF_SERVICE) && nc_streq(taint[2], EFFECT);
}

static int read_taints(const struct nc_value *object, struct control_outage *o) {
    const char *at = NULL, *t[4];

    if (nc_control_parse_taints(nc_control_at(object, "spec.taints", NULL), true, &o->taints) < 0
        || o->taints.bytes > CONTROL_NODE_BYTES)
        return -EBADMSG;
    while ((at = nc_control_strings_next(&o->taints, at, 4, t)))
        if (is_out_of_service(t)) {
            o->is_tainted = true;
            o->is_marked |= nc_streq(t[1], OUR_VALUE);
        }
    return 0;
}

struct control_outage *nc_control_outage_free(struct control_outage *o) {
    if (!o)
        return NULL;
    nc_control_strings_done(&o->taints);
    free(o->provider_id);
    free(o);
    return NULL;
}

int nc_control_outage_read(const struct nc_value *object, struct control_outage **ret) {
    struct control_outage *o = nc_calloc(1, sizeof(*o));
    int r = read_ready(object, o);

    *ret = NULL;
    if (r >= 0)
        r = read_taints(object, o);
    if (r >= 0 && (o->is_marked || o->ready == CONTROL_UNKNOWN))
        r = read_provider_id(object, o);
    if (r < 0 || !(o->is_marked || o->ready == CONTROL_UNKNOWN))
        nc_control_outage_free(o);
    else
        *ret = o;
    return r;
}

/* An answer counts for the instance and for the time that Ready has been so. */
void nc_control_outage_set(struct control_node *node, struct control_outage *o) {
    const struct control_outage *old = node->outage;

    if (old && o && nc_streq(old->instance, o->instance) && old->since_usec == o->since_usec) {
        o->is_another = old->is_another;
        o->state = old->state;
        o->answered_usec = old->answered_usec;
        o->again_usec = old->again_usec;
        o->refused_usec = old->refused_usec;
        o->attempts = old->attempts;
    }
    nc_control_outage_free(node->outage);
    node->outage = o;
}

/* ---- whose instance it is */

/* The Node is called by an instance id, alone or as the first label of its resource name. */
static bool is_named_by_id(const struct control_node *node) {
    return is_instance_id(node->o.name, strcspn(node->o.name, "."));
}

/* Why the providerID is not taken for the Node's own; NULL where it is. */
static const char *mismatch(const struct nc_control *c, const struct control_node *node) {
    const struct control_outage *o = node->outage;
    bool is_named = false;
    const struct control_claim *claim = nc_control_naming(c, node, &is_named);

    if (is_named && !(claim && nc_streq(nc_control_provider_of(claim), o->provider_id)))
        return "the NodeClaim of this Node is of another one";
    if (is_named_by_id(node)
        && (strncmp(node->o.name, o->instance, strlen(o->instance)) != 0
            || !strchr(".", node->o.name[strlen(o->instance)])))
        return "the Node is called by the id of another one";
    return o->is_another ? "EC2 has another name for it" : NULL;
}

/* ---- what is due */

static bool is_fresh(const struct control_outage *o, uint64_t now_usec) {
    return o->state && o->answered_usec <= now_usec
           && now_usec - o->answered_usec <= NC_CONTROL_STATE_FRESH_USEC;
}

bool nc_control_is_instance_gone(const struct control_node *node) {
    const struct control_outage *o = node->outage;

    return o && (o->is_marked || (nc_streq(o->state, TERMINATED) && !o->is_another));
}

/* The list as it was seen, with or without ours. */
static enum control_outage_step write_taint(const struct control_node *node, bool is_wanted,
                                            struct nc_control_action *ret) {
    const struct control_outage *o = node->outage;
    struct nc_value *list = nc_value_new_list(), *spec = nc_value_new_map();
    const char *at = NULL, *t[4];

    while ((at = nc_control_strings_next(&o->taints, at, 4, t)))
        if (!is_out_of_service(t) || !nc_streq(t[1], OUR_VALUE))
            nc_control_push_taint(list, t);
    if (is_wanted)
        nc_control_push_taint(list,
                              (const char *[4]){NC_TAINT_OUT_OF_SERVICE, OUR_VALUE, EFFECT, ""});
    nc_value_set(spec, "taints", list);
    ret->verb = NC_CONTROL_PATCH_NODE;
    ret->body = nc_control_patch(&node->o, true);
    nc_value_set(ret->body, "spec", spec);
    return is_wanted ? CONTROL_OUTAGE_TAINT : CONTROL_OUTAGE_UNTAINT;
}

static void later(uint64_t *when, uint64_t usec, uint64_t now_usec) {
    if (nc_control_is_ahead(usec, now_usec, LAST_AGAIN_USEC) && usec > *when)
        *when = usec;
}

/* What is terminated stays so: it is asked for again only because the taint of ours is on it. */
static uint64_t again(const struct control_outage *o) {
    return o->is_marked && nc_streq(o->state, TERMINATED) ? o->answered_usec + LAST_AGAIN_USEC
                                                          : o->again_usec;
}

static enum control_outage_step request_state(const struct nc_control *c,
                                              const struct control_node *node, uint64_t now_usec,
                                              struct nc_control_action *ret, uint64_t *next_usec) {
    uint64_t when_usec = now_usec;

    later(&when_usec, again(node->outage), now_usec);
    later(&when_usec, node->outage_answered_usec + FIRST_AGAIN_USEC, now_usec);
    later(&when_usec, c->states_pause_usec, now_usec);
    if (when_usec > now_usec) {
        *next_usec = when_usec;
        return CONTROL_OUTAGE_NONE;
    }
    ret->verb = NC_CONTROL_INSTANCE_STATE;
    ret->provider_id = nc_strdup(node->outage->provider_id);
    return CONTROL_OUTAGE_REQUEST;
}

/* Who may not write it tries again later. */
static bool is_refused(const struct control_outage *o, uint64_t now_usec, uint64_t *next_usec) {
    const uint64_t over_usec = o->refused_usec + LAST_AGAIN_USEC;

    if (!o->refused_usec || !nc_control_is_ahead(over_usec, now_usec, LAST_AGAIN_USEC))
        return false;
    *next_usec = over_usec;
    return true;
}

enum control_outage_step nc_control_outage(struct nc_control *c, struct control_node *node,
                                           uint64_t now_usec, struct nc_control_action *ret,
                                           uint64_t *next_usec) {
    const struct control_outage *o = node->outage;
    const bool is_known = o && is_fresh(o, now_usec) && !o->is_another;

    *next_usec = UINT64_MAX;
    if (!o || is_refused(o, now_usec, next_usec))
        return CONTROL_OUTAGE_NONE;
    if (o->is_marked && (o->ready == CONTROL_TRUE || (is_known && !nc_streq(o->state, TERMINATED))))
        return write_taint(node, false, ret);
    if (o->ready == CONTROL_TRUE || !o->instance || (o->is_tainted && !o->is_marked))
        return CONTROL_OUTAGE_NONE;
    if (mismatch(c, node) && !o->is_another)
        return CONTROL_OUTAGE_NONE;
    if (!o->is_marked && o->ready == CONTROL_UNKNOWN && is_known && nc_streq(o->state, TERMINATED))
        return write_taint(node, true, ret);
    return request_state(c, node, now_usec, ret, next_usec);
}

/* ---- what is told, each of one Node once */

void nc_control_outage_report(struct nc_control *c, struct control_node *node) {
    const struct control_outage *o = node->outage;
    const char *why = NULL;

    if (!o || !o->instance || o->ready != CONTROL_UNKNOWN || node->was_mismatch_reported
        || (o->is_tainted && !o->is_marked) || !nc_control_may_taint(c))
        return;
    why = mismatch(c, node);
    if (!why)
        return;
    node->was_mismatch_reported = true;
    nc_control_emit_always(
        c, &node->o, "InstanceMismatch", true,
        nc_asprintf("spec.providerID names the instance %s, but %s: the taint " TAINT
                    " is not set; if the machine of this Node is gone, delete the Node or set the "
                    "taint yourself",
                    o->instance, why));
}

static void report_unknown(struct nc_control *c, struct control_node *node) {
    if (node->was_unknown_reported || node->outage->is_marked)
        return;
    node->was_unknown_reported = true;
    nc_control_emit_always(
        c, &node->o, "InstanceUnknown", true,
        nc_asprintf("EC2 does not know the instance %s in this region and account: the taint " TAINT
                    " is not set; if the machine is gone, delete the Node or set the taint "
                    "yourself",
                    node->outage->instance));
}

static void report_written(struct nc_control *c, const struct control_node *node, bool is_set) {
    const struct control_outage *o = node->outage;
    const char *id = o && o->instance ? o->instance : "of this Node";

    if (is_set)
        nc_control_emit_always(c, &node->o, "InstanceGone", false,
                               nc_asprintf("EC2 reports that the instance %s is terminated: set "
                                           "the taint " TAINT " so that its pods and volumes are "
                                           "released",
                                           id));
    else if (o && o->ready != CONTROL_TRUE && o->state && !nc_streq(o->state, TERMINATED))
        nc_control_emit_always(c, &node->o, "InstanceBack", false,
                               nc_asprintf("EC2 reports that the instance %s is %s: removed the "
                                           "taint " TAINT,
                                           id, o->state));
    else
        nc_control_emit_always(c, &node->o, "InstanceBack", false,
                               nc_strdup("The Node is Ready again: removed the taint " TAINT));
}

/* ---- answers */

/* What concerns all requests: EC2 denies or throttles who asks, or cannot be reached. Those in
 * flight at the same time fail alike, and count once. */
void nc_control_outage_pause(struct nc_control *c, const struct nc_control_event *e) {
    switch (e->answer) {
    case NC_CONTROL_DONE:
    case NC_CONTROL_MISSING:
        c->states_failures = 0;
        return;
    case NC_CONTROL_REFUSED:
        c->states_pause_usec = e->now_usec + LAST_AGAIN_USEC;
        return;
    case NC_CONTROL_CONFLICT:
    case NC_CONTROL_UNAVAILABLE:
        break;
    }
    if (nc_control_is_ahead(c->states_pause_usec, e->now_usec, LAST_AGAIN_USEC))
        return;
    if (c->states_failures < UINT16_MAX)
        c->states_failures++;
    c->states_pause_usec =
        e->now_usec + nc_backoff_pause(&pauses, c->states_failures, c->rules.seed);
}

static void apply_state(struct nc_control *c, struct control_node *node,
                        const struct nc_control_event *e) {
    struct control_outage *o = node->outage;

    o->answered_usec = e->now_usec;
    o->state = e->instance_state;
    o->is_another = e->name && !is_named_by_id(node) && strcasecmp(e->name, node->o.name) != 0;
    if (nc_streq(o->state, TERMINATED) || o->is_another) {
        o->attempts = 0;
        o->again_usec = e->now_usec + (o->is_another ? LAST_AGAIN_USEC : FIRST_AGAIN_USEC);
        return;
    }
    if (o->attempts < UINT16_MAX)
        o->attempts++;
    o->again_usec =
        e->now_usec
        + nc_backoff_pause(&state_pauses, o->attempts, c->rules.seed ^ node->o.by_name.hash);
}

void nc_control_outage_answered(struct nc_control *c, struct control_node *node,
                                enum control_outage_step step, const struct nc_control_event *e) {
    struct control_outage *o = node->outage;

    if (step != CONTROL_OUTAGE_REQUEST) {
        if (e->answer == NC_CONTROL_DONE)
            report_written(c, node, step == CONTROL_OUTAGE_TAINT);
        if (o)
            o->refused_usec = e->answer == NC_CONTROL_REFUSED ? e->now_usec : 0;
        return;
    }
    node->outage_answered_usec = e->now_usec;
    if (!o || !o->instance)
        return;
    if (e->answer == NC_CONTROL_DONE && e->instance_state) {
        apply_state(c, node, e);
        return;
    }
    if (e->answer == NC_CONTROL_MISSING) {
        o->state = NULL;
        o->again_usec = e->now_usec + LAST_AGAIN_USEC;
        report_unknown(c, node);
    }
}
