/*
 * What the lifecycle announces, stated where somebody may observe it: the journal, the serial
 * console, Events on the Node and on its NodeClaim. Each is independent of the others, and none of
 * them is waited for.
 */
#include <stdio.h>

#include "daemon.h"
#include "log.h"
#include "nc/host.h"
#include "nc/str.h"
#include "nc/time.h"

#define SERIES_USEC (30ull * 60 * 1000000)

/* Those that are not named have no message of their own in the journal's catalog. */
static const enum nc_milestone of_lifecycle[_NC_LIFECYCLE_MILESTONE_MAX] = {
    [NC_LIFECYCLE_MILESTONE_NOTICED] = NC_MILESTONE_NOTICED,
    [NC_LIFECYCLE_MILESTONE_WITHDRAWN] = NC_MILESTONE_WITHDRAWN,
    [NC_LIFECYCLE_MILESTONE_CORDONED] = NC_MILESTONE_CORDONED,
    [NC_LIFECYCLE_MILESTONE_RECORDONED] = NC_MILESTONE_CORDONED,
    [NC_LIFECYCLE_MILESTONE_DRAINING] = NC_MILESTONE_DRAINING,
    [NC_LIFECYCLE_MILESTONE_INCOMPLETE] = NC_MILESTONE_INCOMPLETE,
    [NC_LIFECYCLE_MILESTONE_BLOCKED] = NC_MILESTONE_BLOCKED,
    [NC_LIFECYCLE_MILESTONE_FORCING] = NC_MILESTONE_FORCING,
    [NC_LIFECYCLE_MILESTONE_DRAINED] = NC_MILESTONE_DRAINED,
    [NC_LIFECYCLE_MILESTONE_FAILED] = NC_MILESTONE_DRAIN_FAILED,
    [NC_LIFECYCLE_MILESTONE_RELEASED] = NC_MILESTONE_RELEASED,
};

static void announce_to_journal(const struct nc_daemon *d, const struct nc_lifecycle_action *a) {
    struct nc_lifecycle_view view;
    struct nc_log_fields fields = {.milestone = of_lifecycle[a->milestone],
                                   .reason = a->reason,
                                   .instance = d->gather.facts.instance_id,
                                   .node = d->node_name,
                                   .nodeclaim = d->claim.name};

    nc_lifecycle_get_view(d->life, nc_daemon_now(d), &view);
    fields.drain_phase = nc_lifecycle_phase_name(view.phase);
    fields.source = view.leading < 0 ? NULL : nc_source_name((enum nc_source)view.leading);
    fields.deadline_usec = view.deadline_usec;
    nc_log(a->is_warning ? NC_LOG_WARNING : NC_LOG_INFO, &fields, "%s", a->message);
}

#define MAX_POD_HISTORY 64u /* as many rows has a drawing */

/* When what became of a pod first, and why its eviction was refused: a row of a drawing each. */
static void keep_pod(struct nc_daemon *d, const struct nc_pod_news *n) {
    static const char *const members[_NC_POD_NEWS_MAX] = {
        [NC_POD_NEWS_EVICTED] = "evictedUsec",
        [NC_POD_NEWS_REFUSED] = "refusedUsec",
        [NC_POD_NEWS_FORCED] = "forceDeletedUsec",
        [NC_POD_NEWS_GONE] = "goneUsec",
    };
    const char *member = members[n->kind];
    struct nc_value *pod = NULL;

    if (!d->pod_history)
        d->pod_history = nc_value_new_list();
    for (size_t i = 0; i < d->pod_history->n; i++)
        if (nc_value_says(d->pod_history->items[i], "uid", n->uid))
            pod = d->pod_history->items[i];
    if (!member || nc_value_get(pod, member) || (!pod && d->pod_history->n == MAX_POD_HISTORY))
        return;
    if (!pod) {
        nc_auto_free char *name = nc_asprintf("%s/%s", n->namespace, n->name);
        pod = nc_value_new_map();
        nc_value_set_string(pod, "pod", name);
        nc_value_set_string(pod, "uid", n->uid);
        nc_value_push(d->pod_history, pod);
    }
    nc_value_set_int(pod, member, (int64_t)nc_daemon_now(d));
    if (n->kind == NC_POD_NEWS_REFUSED)
        nc_value_set_string(pod, "refusal", n->message);
}

void nc_daemon_log_pod(struct nc_daemon *d, const struct nc_pod_news *n) {
    static const enum nc_milestone milestones[_NC_POD_NEWS_MAX] = {
        [NC_POD_NEWS_EVICTED] = NC_MILESTONE_POD_EVICTED,
        [NC_POD_NEWS_REFUSED] = NC_MILESTONE_POD_REFUSED,
        [NC_POD_NEWS_FORCED] = NC_MILESTONE_POD_FORCED,
        [NC_POD_NEWS_GONE] = NC_MILESTONE_POD_GONE,
        [NC_POD_NEWS_ORDER_IGNORED] = NC_MILESTONE_NONE,
    };
    const struct nc_log_fields fields = {.milestone = milestones[n->kind],
                                         .drain_phase = nc_lifecycle_phase_name(d->steps.phase),
                                         .pod_namespace = n->namespace,
                                         .pod_name = n->name,
                                         .instance = d->gather.facts.instance_id,
                                         .node = d->node_name,
                                         .nodeclaim = d->claim.name};
    const bool is_warning = n->kind != NC_POD_NEWS_EVICTED && n->kind != NC_POD_NEWS_GONE;

    nc_log(n->kind == NC_POD_NEWS_OVERDUE ? NC_LOG_DEBUG
           : is_warning                   ? NC_LOG_WARNING
                                          : NC_LOG_INFO,
           &fields, "%s", n->message);
    keep_pod(d, n);
}

/* --- console */

static void announce_to_console(const struct nc_daemon *d, const struct nc_lifecycle_action *a) {
    nc_auto_value struct nc_value *map = nc_value_new_map();
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;
    struct nc_lifecycle_view view;
    struct nc_err err = NC_ERR_INIT;

    if (a->milestone != NC_LIFECYCLE_MILESTONE_NOTICED
        && a->milestone != NC_LIFECYCLE_MILESTONE_INCOMPLETE && !a->is_lasting
        && a->milestone != NC_LIFECYCLE_MILESTONE_DRAINED
        && a->milestone != NC_LIFECYCLE_MILESTONE_FAILED)
        return;
    if (d->gather.has_config && !d->gather.config.report_console)
        return;
    nc_lifecycle_get_view(d->life, nc_daemon_now(d), &view);
    nc_value_set_text(map, "drain", nc_lifecycle_view_phase(&view));
    nc_value_set_text(map, "reason", a->reason);
    nc_value_set_text(map, "message", a->message);
    nc_value_set_time(map, "since", view.since_usec);
    nc_value_set_time(map, "deadline", view.deadline_usec);
    if (!view.is_unlisted && a->milestone != NC_LIFECYCLE_MILESTONE_NOTICED) {
        nc_value_set_int(map, "pods", (int64_t)view.drain.total);
        nc_value_set_int(map, "remaining", (int64_t)view.drain.remaining);
    }
    nc_value_set_text(map, "node", d->node_name);
    nc_value_set_text(map, "instance", d->gather.facts.instance_id);
    nc_value_set_time(map, "at", nc_now_usec());
    (void)nc_buf_puts(&line, "nodeclaimd: ");
    nc_json_write(&line, map, 0);
    if (nc_console_write(d->app->opts.root, line.data, &err) < 0)
        nc_log(NC_LOG_DEBUG, NULL, "console: %s, ignoring", err.msg);
}

/* --- Events */

/* The one that it is a part of; the oldest makes room. One that was not said for long is over, for
 * an API server forgets its Event after an hour. */
static const struct nc_series *count_series(struct nc_daemon *d,
                                            const struct nc_lifecycle_action *a, uint64_t now) {
    const char *key = a->series;
    struct nc_series *s = &d->series[0];

    for (size_t i = 0; i < NC_SERIES; i++) {
        struct nc_series *one = &d->series[i];
        if (nc_streq(one->key, key)) {
            s = one;
            break;
        }
        if (one->last_usec < s->last_usec)
            s = one;
    }
    if (!nc_streq(s->key, key) || now < s->first_usec
        || (now > s->last_usec + SERIES_USEC && !a->is_update)) {
        free(s->key);
        *s = (struct nc_series){.key = nc_strdup(key), .first_usec = now};
    }
    s->last_usec = now;
    s->count += !a->is_update || !s->count;
    return s;
}

void nc_daemon_announce_done(struct nc_daemon *d) {
    for (size_t i = 0; i < NC_SERIES; i++)
        free(nc_steal(&d->series[i].key));
}

static void announce_as_event(struct nc_daemon *d, const struct nc_lifecycle_action *a) {
    const uint64_t now = nc_now_usec();
    struct nc_event e = {.kind = "Node",
                         .api_version = "v1",
                         .warning = a->is_warning,
                         .reason = a->reason,
                         .message = a->message,
                         .first_usec = now,
                         .last_usec = now,
                         .count = 1};

    if (a->series) {
        const struct nc_series *s = count_series(d, a, now);
        e.first_usec = s->first_usec;
        e.count = s->count;
        e.is_there = s->first_usec < now;
    }
    nc_event_queue_add(d, &e, 0);
    if (!d->claim.name || !d->claim.uid)
        return;
    e.kind = "NodeClaim";
    e.api_version = d->claim.api ? d->claim.api : "karpenter.sh/v1";
    e.name = d->claim.name;
    e.uid = d->claim.uid;
    nc_event_queue_add(d, &e, 0);
}

static char *pod_message(const struct nc_daemon *d, const struct nc_pod_news *n,
                         const struct nc_lifecycle_view *view) {
    nc_auto_free char *what =
        nc_asprintf("%s%s", n->kind == NC_POD_NEWS_FORCED ? "Force-deleted" : "Evicted", n->grace);
    const char *source;
    char deadline[32];

    if (view->leading < 0)
        return nc_asprintf("%s: node %s was draining, which is withdrawn by now", what,
                           d->node_name);
    source = nc_source_name((enum nc_source)view->leading);
    if (!view->deadline_usec)
        return nc_asprintf("%s: node %s is draining (source %s, without a deadline)", what,
                           d->node_name, source);
    nc_time_format(view->deadline_usec, deadline);
    return nc_asprintf("%s: node %s is draining (source %s, deadline %s)%s", what, d->node_name,
                       source, deadline, n->is_kept ? NC_POD_KEPT_TEXT : "");
}

void nc_daemon_tell_pod(struct nc_daemon *d, const struct nc_pod_news *n) {
    const uint64_t now = nc_now_usec();
    struct nc_lifecycle_view view;
    nc_auto_free char *message = NULL;

    if (!n->is_first || !d->node_name || d->node.is_foreign
        || (d->gather.has_config
            && (!d->gather.config.report_events || !d->gather.config.drain.pod_events)))
        return;
    nc_lifecycle_get_view(d->life, nc_daemon_now(d), &view);
    message = pod_message(d, n, &view);
    nc_event_queue_add(d,
                       &(struct nc_event){.kind = "Pod",
                                          .api_version = "v1",
                                          .namespace = n->namespace,
                                          .name = n->name,
                                          .uid = n->uid,
                                          .is_once = true,
                                          .reason = "NodeDraining",
                                          .message = message,
                                          .first_usec = now,
                                          .last_usec = now,
                                          .count = 1},
                       view.deadline_usec > nc_daemon_now(d) ? view.deadline_usec : 0);
}

/* What a drain that is late says of its pods is of the time before an outage. That is why it
 * failed. */
static char *message_of(const struct nc_daemon *d, const struct nc_lifecycle_action *a) {
    const struct nc_err *pods = &d->api.obstacles[NC_OBSTACLE_PODS], *err;
    const uint64_t since_usec = nc_api_session_away_usec(&d->api);
    char since[32];

    if (a->milestone != NC_LIFECYCLE_MILESTONE_FORCING
        && a->milestone != NC_LIFECYCLE_MILESTONE_FAILED)
        return nc_strdup(a->message);
    if (!since_usec) /* no other refusal is in a drain's way */
        return pods->class ? nc_asprintf("%s; API server: %s", a->message, pods->msg)
                           : nc_strdup(a->message);
    (void)nc_api_session_state(&d->api, &err);
    if (!err)
        return nc_strdup(a->message);
    nc_time_format(since_usec, since);
    nc_auto_free char *outage =
        nc_asprintf("no request of the drain has succeeded since %s: %s", since, err->msg);
    return a->milestone == NC_LIFECYCLE_MILESTONE_FAILED
               ? nc_asprintf("%s; %s", outage, a->message)
               : nc_asprintf("%s; %s", a->message, outage);
}

void nc_daemon_announce(struct nc_daemon *d, const struct nc_lifecycle_action *a) {
    nc_auto_free char *message = message_of(d, a);
    struct nc_lifecycle_action whole = *a;

    whole.message = message;
    announce_to_journal(d, &whole);
    announce_to_console(d, &whole);
    announce_as_event(d, &whole);
}

void nc_daemon_tell_not_in_force(struct nc_daemon *d) {
    const struct nc_lifecycle_action a = {
        .reason = d->counters.is_config_refused ? "ConfigurationRefused" : "ConfigurationIgnored",
        .is_warning = true,
        .message = d->not_in_force,
        .series = d->not_in_force};

    if (d->not_in_force)
        announce_as_event(d, &a);
}

void nc_daemon_tell_config_accepted(struct nc_daemon *d) {
    static char message[] = "No document is refused any more";
    const struct nc_lifecycle_action a = {.reason = "ConfigurationAccepted", .message = message};

    announce_as_event(d, &a);
}

void nc_daemon_refuse_request(struct nc_daemon *d, const char *message, const char *series) {
    const struct nc_lifecycle_action a = {.kind = NC_LIFECYCLE_ACTION_ANNOUNCE,
                                          .reason = "DrainRequestRefused",
                                          .is_warning = true,
                                          .message = (char *)(uintptr_t)message,
                                          .series = (char *)(uintptr_t)series};

    nc_daemon_announce(d, &a);
}
