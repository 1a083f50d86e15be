/*
 * What the life of a node says: the annotation, the record of the cordon, messages, milestones.
 *
 * Texts of others come in through nc/notice.h and nc/pod.h, which let nothing in that does not
 * print.
 */
#include <stdio.h>

#include "lifecycle-priv.h"
#include "nc/mem.h"
#include "nc/time.h"

#define BLOCKED_BYTES                                                                              \
    ((size_t)600) /* with reasons and times; the rest of the annotation is some 400                \
                   */

bool nc_lifecycle_is_put_back(const struct nc_lifecycle *l) {
    const char *id = l->sources[NC_SOURCE_REQUEST].notice.id;

    return *id && nc_streq(id, l->withdrawn_id);
}

char *nc_lifecycle_sentence(const struct nc_lifecycle *l, enum nc_source s) {
    const struct nc_notice *n = &l->sources[s].notice;
    struct nc_buf b = NC_BUF_INIT;
    char time[32];

    (void)nc_buf_puts(&b, nc_sources[s].sentence);
    if (n->action[0])
        (void)nc_buf_printf(&b, " (%s)", n->action);
    if (n->deadline_usec) {
        nc_time_format(n->deadline_usec, time);
        (void)nc_buf_printf(&b, "%s %s", nc_sources[s].has_own_policy ? ", until" : " at", time);
    }
    if (n->reason[0])
        (void)nc_buf_printf(&b, ": %s", n->reason);
    if (s == NC_SOURCE_REQUEST && nc_lifecycle_is_put_back(l))
        (void)nc_buf_puts(&b, "; " NC_PUT_BACK);
    return nc_buf_steal(&b);
}

/* While the second write is in flight the first has told; and what it writes is true once it is
 * there. */
const char *nc_lifecycle_status_phase(const struct nc_lifecycle *l,
                                      const struct nc_drain_summary *s) {
    if (l->is_failed)
        return "Failed";
    switch (l->phase) {
    case NC_LIFECYCLE_IDLE:
    case NC_LIFECYCLE_RELEASING:
    case _NC_LIFECYCLE_PHASE_MAX:
        return "";
    case NC_LIFECYCLE_SIGNALLING:
    case NC_LIFECYCLE_REPORTED:
    case NC_LIFECYCLE_CORDONING:
        return "Detected";
    case NC_LIFECYCLE_CORDONED:
        return "Cordoned";
    case NC_LIFECYCLE_OBSERVING:
    case NC_LIFECYCLE_EVICTING:
        break;
    case NC_LIFECYCLE_VOLUME_WAIT:
        return "VolumeWait";
    case NC_LIFECYCLE_DRAINED:
        return "Drained";
    }
    if (s->is_forcing || (l->has_announced[NC_LIFECYCLE_MILESTONE_FORCING] && l->in_force.t_usec))
        return "Forcing";
    return l->phase == NC_LIFECYCLE_OBSERVING ? "Cordoned" : "Evicting";
}

bool nc_lifecycle_has_listed(const struct nc_lifecycle *l) {
    return (l->is_synced && !nc_lifecycle_looks_ahead(l)) || l->summary.gap != NC_LIST_COMPLETE
           || l->phase == NC_LIFECYCLE_DRAINED;
}

/* Who holds the drain up, or stays behind; and of each the reason and when it is deleted by force,
 * "" where it is not: for these alone nothing is written. */
static void set_blocked(struct nc_value *status, const struct nc_lifecycle *l,
                        const struct nc_drain_summary *s, bool has_details) {
    struct nc_value *list = nc_value_new_list();
    nc_auto_value struct nc_value *reasons = nc_value_new_list(), *times = nc_value_new_list();
    size_t n = 0, bytes = 0, forced = 0;

    nc_value_set(status, "blocked", list);
    if (s->named == 0)
        return;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);
    for (size_t i = 0; i < n && list->n < NC_DRAIN_NAMES; i++) {
        if (!nc_pod_reason_is_named(v[i].verdict.reason))
            continue;
        nc_auto_free char *name = nc_asprintf("%s/%s", v[i].pod->namespace, v[i].pod->name);
        const char *reason = nc_pod_reason_name(v[i].verdict.reason);
        char time[32] = "";
        if (nc_pod_reason_kind(v[i].verdict.reason) >= NC_REASON_KIND_BLOCKED
            && v[i].force_delete_at_usec)
            nc_time_format(nc_lifecycle_ec2_time(l, v[i].force_delete_at_usec), time);
        bytes += strlen(name) + strlen(reason) + strlen(time) + 9;
        if (bytes > BLOCKED_BYTES)
            break;
        nc_value_push_string(list, name);
        nc_value_push_string(reasons, reason);
        nc_value_push_string(times, time);
        forced += v[i].verdict.reason == NC_POD_REASON_UNDELETED ? 2 : v[i].is_forced;
    }
    if (s->named > list->n)
        nc_value_set_int(status, "more", (int64_t)(s->named - list->n));
    if (!has_details) { /* but that the daemon runs is said at each force-delete time, and once that
                         * this ends no pod */
        nc_value_set_int(status, "forced", (int64_t)forced);
        return;
    }
    nc_value_set(status, "reasons", nc_steal(&reasons));
    if (l->in_force.t_usec)
        nc_value_set(status, "forceDeleteAt", nc_steal(&times));
}

char *nc_lifecycle_status_text(const struct nc_lifecycle *l, enum nc_node_write_kind kind,
                               bool has_updated) {
    const struct nc_drain_summary *s = &l->summary;
    const bool has_leading = l->in_force.leading >= 0;
    const char *hook = nc_lifecycle_slow_hook(l);
    nc_auto_value struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "id", has_leading ? l->sources[l->in_force.leading].notice.id : "");
    nc_value_set_string(v, "source",
                        has_leading ? nc_source_name((enum nc_source)l->in_force.leading) : "");
    if (has_leading && l->in_force.policy != NC_POLICY_DRAIN)
        nc_value_set_string(v, "policy", nc_policy_name(l->in_force.policy));
    else if (has_leading && nc_notice_returns(&l->sources[l->in_force.leading].notice))
        nc_value_set_bool(v, "returns", true);
    nc_value_set_string(v, "phase",
                        kind == NC_WRITE_CORDON && l->phase == NC_LIFECYCLE_CORDONING
                            ? "Cordoned"
                            : nc_lifecycle_status_phase(l, s));
    nc_value_set_time(v, "deadline", l->in_force.deadline_usec);
    nc_value_set_count(v, "total", nc_lifecycle_has_listed(l), s->total);
    nc_value_set_count(v, "remaining", nc_lifecycle_has_listed(l), s->remaining);
    set_blocked(v, l, s, has_updated);
    if (s->waiting > 0) {
        nc_value_set_int(v, "waiting", (int64_t)s->waiting);
        nc_value_set_time(v, "waitingSince", nc_lifecycle_ec2_time(l, l->evicting_usec));
    }
    if (s->gap != NC_LIST_COMPLETE)
        nc_value_set_string(v, "incomplete", nc_list_gap_name(s->gap));
    if (hook)
        nc_value_set_string(v, "hook", hook);
    if (kind > NC_WRITE_CORDON && nc_lifecycle_is_cordon_refused(l))
        nc_value_set_string(v, "cordon", "refused");
    if (has_updated)
        nc_value_set_time(v, "updated", nc_lifecycle_ec2_time(l, l->now_usec));
    return nc_json_text(v);
}

char *nc_lifecycle_cordon_text(const struct nc_lifecycle *l) {
    nc_auto_value struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "id", l->sources[l->in_force.leading].notice.id);
    nc_value_set_time(v, "since", nc_lifecycle_ec2_time(l, l->now_usec));
    return nc_json_text(v);
}

void nc_lifecycle_emit(enum nc_lifecycle_milestone m, const char *reason, char *message,
                       struct nc_lifecycle_actions *out) {
    struct nc_lifecycle_action *a = nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_ANNOUNCE);

    a->milestone = m;
    a->reason = reason;
    a->message = message;
    a->is_warning = m == NC_LIFECYCLE_MILESTONE_NOTICED || m == NC_LIFECYCLE_MILESTONE_INCOMPLETE
                    || m == NC_LIFECYCLE_MILESTONE_BLOCKED || m == NC_LIFECYCLE_MILESTONE_FORCING
                    || m == NC_LIFECYCLE_MILESTONE_FAILED || m == NC_LIFECYCLE_MILESTONE_ORPHANED
                    || m == NC_LIFECYCLE_MILESTONE_RECORDONED || m == NC_LIFECYCLE_MILESTONE_HOOK
                    || m == NC_LIFECYCLE_MILESTONE_UNREPLACED
                    || m == NC_LIFECYCLE_MILESTONE_UNCORDONED
                    || m == NC_LIFECYCLE_MILESTONE_UNLABELLED;
}

void nc_lifecycle_emit_once(struct nc_lifecycle *l, enum nc_lifecycle_milestone m, char *message,
                            struct nc_lifecycle_actions *out) {
    static const char reasons[_NC_LIFECYCLE_MILESTONE_MAX][24] = {
        [NC_LIFECYCLE_MILESTONE_UNCORDONED] = "CordonRefused",
        [NC_LIFECYCLE_MILESTONE_DRAINING] = "DrainStarted",
        [NC_LIFECYCLE_MILESTONE_INCOMPLETE] = "PodListIncomplete",
        [NC_LIFECYCLE_MILESTONE_FORCING] = "DrainForced",
        [NC_LIFECYCLE_MILESTONE_DRAINED] = "NodeDrained",
        [NC_LIFECYCLE_MILESTONE_FAILED] = "DrainFailed",
        [NC_LIFECYCLE_MILESTONE_ORPHANED] = "NodeDeletedInDrain",
        [NC_LIFECYCLE_MILESTONE_WAITING] = "WaitingForReplacement",
        [NC_LIFECYCLE_MILESTONE_UNREPLACED] = "ReplacementNotReady",
        [NC_LIFECYCLE_MILESTONE_UNLABELLED] = "BalancerLabelRemoved",
    };

    if (l->has_announced[m]) {
        free(message);
        return;
    }
    l->has_announced[m] = true;
    nc_lifecycle_emit(m, reasons[m], message, out);
    if (m == NC_LIFECYCLE_MILESTONE_DRAINED && l->summary.cut)
        out->v[out->n - 1].is_warning = true;
}

void nc_lifecycle_report_cordoned(struct nc_lifecycle *l, bool is_ours,
                                  struct nc_lifecycle_actions *out) {
    l->has_announced[NC_LIFECYCLE_MILESTONE_CORDONED] = true;
    nc_lifecycle_emit(
        NC_LIFECYCLE_MILESTONE_CORDONED, "NodeCordoned",
        nc_asprintf("Node cordoned%s%s%s", is_ours ? "" : " by another client",
                    is_ours || l->in_force.policy < NC_POLICY_DRAIN ? "" : ": the drain goes on",
                    l->label_refused_usec ? "; the API server refuses the label that takes it off "
                                            "external load balancers"
                                          : ""),
        out);
}

/* Before its time a source only reports: then the message states what comes when. */
static char *notice_text(const struct nc_lifecycle *l, enum nc_source source, enum nc_policy now) {
    const struct nc_notice *n = &l->sources[source].notice;
    nc_auto_free char *sentence = nc_lifecycle_sentence(l, source);
    char time[32];

    if (l->sources[source].is_late)
        return nc_asprintf("%s; that time has passed: %s; policy=%s", sentence,
                           nc_sources[source].has_own_policy ? "a drain goes on without a deadline"
                                                             : "nothing is done for it",
                           nc_policy_name(now));
    if (nc_lifecycle_own_time(l, n->begin_usec) <= l->now_usec)
        return nc_asprintf("%s; policy=%s", sentence, nc_policy_name(now));
    nc_time_format(n->begin_usec, time);
    return nc_asprintf("%s; acted on from %s%s, until then: %s", sentence, time,
                       n->deadline_usec ? ", or earlier by the longest grace period of a pod" : "",
                       nc_policy_name(now));
}

static void announce_sources(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    for (size_t i = 0; i < _NC_SOURCE_MAX; i++) {
        const enum nc_policy p = l->sources[i].policy;
        if (p == NC_POLICY_IGNORE || l->sources[i].is_announced)
            continue;
        l->sources[i].is_announced = true;
        nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_NOTICED, nc_source_reason((enum nc_source)i),
                          notice_text(l, (enum nc_source)i, p), out);
    }
}

/* What is missing of the list, and what follows from that. */
static char *gap_text(const struct nc_lifecycle *l, enum nc_list_gap gap) {
    if (gap == NC_LIST_UNREADABLE)
        return nc_strdup("A pod of this node cannot be read: the node is not drained before a list "
                         "of its pods is read completely");
    return nc_asprintf("More pods are bound to this node than the %zu that are handled at a time: "
                       "the others are listed when those are gone",
                       l->rules.max_pods ? l->rules.max_pods : (size_t)NC_DRAIN_MAX_PODS);
}

/* " (its grace period is over, …, evicted at …)" */
static void put_reason(const struct nc_lifecycle *l, const struct nc_drain_line *line,
                       const char *reason, struct nc_buf *out) {
    const uint64_t usec = line->deleted_usec ? line->deleted_usec : line->evicted_usec;
    char time[32] = "";

    if (usec)
        nc_time_format(nc_lifecycle_ec2_time(l, usec), time);
    (void)nc_buf_printf(out, " (%s%s%s)", reason,
                        line->deleted_usec ? ", force-deleted at "
                        : usec             ? ", evicted at "
                                           : "",
                        time);
}

static bool is_forced(const struct nc_drain_line *line, uint64_t now_usec) {
    return line->is_forced;
}

/* By an eviction or a deletion that is requested, or was accepted. */
static bool is_cut(const struct nc_drain_line *line, uint64_t now_usec) {
    return !line->is_forced && line->grace_sec;
}

char *nc_lifecycle_names(const struct nc_lifecycle *l, nc_lifecycle_pod_fn is_meant,
                         const char *before) {
    struct nc_buf b = NC_BUF_INIT;
    size_t n = 0, named = 0;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);

    (void)nc_buf_add(&b, "", 0);
    for (size_t i = 0; i < n; i++) {
        if (!is_meant(&v[i], l->now_usec) || ++named > NC_DRAIN_NAMES)
            continue;
        const enum nc_pod_reason held = nc_drain_held_as(&v[i]);
        (void)nc_buf_printf(&b, "%s%s/%s", named == 1 ? before : ", ", v[i].pod->namespace,
                            v[i].pod->name);
        if ((is_meant == is_forced || is_meant == is_cut) && v[i].grace_sec < v[i].pod->grace_sec)
            (void)nc_buf_printf(&b, " with %llu of %llu s", (unsigned long long)v[i].grace_sec,
                                (unsigned long long)v[i].pod->grace_sec);
        const char *busy = held == NC_POD_REASON_FORCED || held == NC_POD_REASON_REQUESTED
                               ? nc_lifecycle_busy_text(v[i].busy_as)
                               : NULL;
        if (busy || held != NC_POD_REASON_FORCED) /* it is no reason why a pod is there */
            put_reason(l, &v[i], busy ? busy : nc_pod_reason_text(held), &b);
    }
    nc_drain_put_more(&b, named);
    return nc_buf_steal(&b);
}

/* It is there, and the drain ends without it. */
static bool stays_behind(const struct nc_drain_line *line, uint64_t now_usec) {
    return nc_pod_reason_kind(line->verdict.reason) == NC_REASON_KIND_EXCLUDED
           && nc_pod_reason_is_named(line->verdict.reason);
}

static bool remains(const struct nc_drain_line *line, uint64_t now_usec) {
    return nc_pod_reason_kind(line->verdict.reason) >= NC_REASON_KIND_LEAVING;
}

static char *if_any(const char *words, size_t n) {
    return n ? nc_asprintf("%s: %zu", words, n) : nc_strdup("");
}

char *nc_lifecycle_counts_text(const struct nc_lifecycle *l) {
    const struct nc_drain_summary *s = &l->summary;
    struct nc_buf b = NC_BUF_INIT;

    (void)nc_buf_printf(&b, "; %sevicted: %zu, force-deleted: %zu",
                        l->is_older ? "since the restart " : "", s->evicted, s->deleted);
    nc_drain_put_cut(l->drain, &b);
    return nc_buf_steal(&b);
}

char *nc_lifecycle_drained_text(const struct nc_lifecycle *l) {
    nc_auto_free char *but = nc_lifecycle_names(l, stays_behind, ", besides ");
    nc_auto_free char *counts = nc_lifecycle_counts_text(l);

    const uint64_t end_usec = l->drained_usec ? l->drained_usec : l->now_usec;
    nc_auto_free char *late =
        l->summary.total && l->in_force.t_usec
                && end_usec >= l->in_force.t_usec + NC_LIFECYCLE_LATE_USEC
            ? nc_asprintf("; %llu s late",
                          (unsigned long long)((end_usec - l->in_force.t_usec) / NC_SEC_USEC))
            : nc_strdup("");

    nc_auto_free char *volumes =
        if_any("; volumes still attached", nc_lifecycle_has_volumes(l) ? l->node.n_volumes : 0);

    return nc_asprintf("No pods remaining%s%s%s%s", but, counts, late, volumes);
}

static const char *find_remedy(const struct nc_lifecycle *l) {
    size_t n;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);

    for (size_t i = 0; i < n; i++)
        if (v[i].remedy)
            return v[i].remedy;
    return NULL;
}

/* In an outage nobody shows what became of a pod, nor of what held it. */
static const char *as_seen(const struct nc_lifecycle *l) {
    return l->is_blind ? ", as last seen" : "";
}

static char *failed_text(const struct nc_lifecycle *l) {
    nc_auto_free char *names = nc_lifecycle_names(l, remains, ": ");
    nc_auto_free char *counts = nc_lifecycle_counts_text(l);
    const char *remedy = find_remedy(l);

    if (!l->is_synced)
        return nc_strdup("drain deadline exceeded before the pods were listed");
    return nc_asprintf(
        "drain deadline exceeded, pods remaining%s: %zu%s%s%s%s%s%s", as_seen(l),
        l->summary.remaining, names,
        l->summary.gap == NC_LIST_COMPLETE ? ""
                                           : ", besides those that the list of pods did not show",
        nc_lifecycle_is_shut(l) ? "" : "; the node is not cordoned and takes new pods", counts,
        remedy ? "; " : "", remedy ? remedy : "");
}

/* With less of their grace period, too: of who is forced later, the end of the drain says it. */
static char *forcing_text(const struct nc_lifecycle *l) {
    nc_auto_free char *names = nc_lifecycle_names(l, is_forced, "");

    return nc_asprintf("The force-delete time has come for %s%s", names, as_seen(l));
}

/* Whose wait is over, though the pod is there. */
static size_t count_unreplaced(const struct nc_lifecycle *l) {
    size_t n = 0, unreplaced = 0;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);

    for (size_t i = 0; i < n; i++)
        unreplaced += v[i].pod->is_replacement_first
                      && (nc_pod_reason_kind(v[i].verdict.reason) == NC_REASON_KIND_PENDING
                          || nc_pod_reason_kind(v[i].verdict.reason) == NC_REASON_KIND_BLOCKED);
    return unreplaced;
}

static void announce_replacements(struct nc_lifecycle *l, const struct nc_drain_summary *s,
                                  struct nc_lifecycle_actions *out) {
    struct nc_drain_rules rules;
    char time[32];
    size_t n;

    nc_lifecycle_drain_rules(l, &rules);
    if (s->waiting > 0) {
        nc_time_format(nc_lifecycle_ec2_time(l, rules.replaced_by_usec), time);
        nc_lifecycle_emit_once(
            l, NC_LIFECYCLE_MILESTONE_WAITING,
            nc_asprintf("Pods that wait for their replacement: %zu, until %s", s->waiting, time),
            out);
    } else if (l->is_synced && l->has_announced[NC_LIFECYCLE_MILESTONE_WAITING]
               && !l->has_announced[NC_LIFECYCLE_MILESTONE_UNREPLACED]
               && (n = count_unreplaced(l)) > 0) {
        nc_lifecycle_emit_once(l, NC_LIFECYCLE_MILESTONE_UNREPLACED,
                               nc_asprintf("Evicting pods without their replacement: %zu; %s", n,
                                           rules.replaced_by_usec
                                               ? "drain.replacementTimeout exceeded"
                                               : "the drain cannot wait so long any more"),
                               out);
    }
}

/* Once after a restart. */
static void announce_going_on(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    char begun[32];

    l->is_going_on = false;
    nc_time_format(nc_lifecycle_ec2_time(l, l->evicting_usec), begun);
    nc_lifecycle_emit(
        NC_LIFECYCLE_MILESTONE_DRAINING, "DrainResumed",
        nc_asprintf("Going on after a restart with the drain begun at %s, for %s, pods "
                    "remaining: %zu",
                    begun, nc_source_name((enum nc_source)l->in_force.leading),
                    l->summary.remaining),
        out);
}

void nc_lifecycle_announce(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    const struct nc_drain_summary *s = &l->summary;

    announce_sources(l, out);
    if (!nc_lifecycle_has_pods(l->phase) && !l->is_failed)
        return;
    if (l->orphaned_usec && l->phase != NC_LIFECYCLE_DRAINED)
        nc_lifecycle_emit_once(
            l, NC_LIFECYCLE_MILESTONE_ORPHANED,
            nc_asprintf("The Node was deleted during its drain: its pods are still evicted, and "
                        "from 40 s on kube-controller-manager deletes them without grace period%s",
                        l->in_force.t_usec ? "" : "; " NC_LIFECYCLE_ORPHANED_REMEDY),
            out);
    if (l->phase == NC_LIFECYCLE_EVICTING && nc_lifecycle_is_hook_over(l, NC_HOOK_PRE_DRAIN))
        nc_lifecycle_emit_once(l, NC_LIFECYCLE_MILESTONE_DRAINING, nc_strdup("Evicting pods"), out);
    if (l->is_going_on && l->is_synced)
        announce_going_on(l, out);
    announce_replacements(l, s, out);
    if (s->gap != NC_LIST_COMPLETE)
        nc_lifecycle_emit_once(l, NC_LIFECYCLE_MILESTONE_INCOMPLETE, gap_text(l, s->gap), out);
    if (s->is_forcing)
        nc_lifecycle_emit_once(
            l, NC_LIFECYCLE_MILESTONE_FORCING,
            l->has_announced[NC_LIFECYCLE_MILESTONE_FORCING] ? NULL : forcing_text(l), out);
    if (s->cut && !l->has_told_cut) {
        nc_auto_free char *names = nc_lifecycle_names(l, is_cut, ": ");
        l->has_told_cut = true;
        nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_FORCING, "DrainForced",
                          nc_asprintf("The deadline cuts grace periods%s", names), out);
    }
    if (l->phase == NC_LIFECYCLE_DRAINED)
        nc_lifecycle_emit_once(
            l, NC_LIFECYCLE_MILESTONE_DRAINED,
            l->has_announced[NC_LIFECYCLE_MILESTONE_DRAINED] ? NULL : nc_lifecycle_drained_text(l),
            out);
    if (l->is_failed)
        nc_lifecycle_emit_once(
            l, NC_LIFECYCLE_MILESTONE_FAILED,
            l->has_announced[NC_LIFECYCLE_MILESTONE_FAILED] ? NULL : failed_text(l), out);
}
