/*
 * Daemon and drain of a status.json for people: what holds, and the last drain as a timeline.
 *
 * As timeline.c: the file is not trusted.
 */
#include <inttypes.h>

#include "nc/lifecycle.h"
#include "nc/marks.h"
#include "nc/report.h"
#include "nc/str.h"
#include "nc/time.h"
#include "status-show.h"
#include "timeline-model.h"

#define MAX_SOURCES 16
#define SKEW_SEC 5
#define MAX_BLOCKED 20
#define MAX_OTHERS 250
#define MAX_COUNT 1000000u
#define BAR_WIDTH 40

/* --- status */

/* 1, 0; -1 where it is not known. */
static int truth_of(const struct nc_value *map, const char *key) {
    const struct nc_value *v = nc_value_get(map, key);

    return v && v->type == NC_VALUE_BOOL ? v->boolean : -1;
}

static bool is_null(const struct nc_value *map, const char *key) {
    const struct nc_value *v = nc_value_get(map, key);

    return v && v->type == NC_VALUE_NULL;
}

/* NULL: the API server answers. */
static const char *away_since(const struct nc_value *drain) {
    return nc_show_text(drain, "unansweredSince", NULL);
}

/* How many of a map by source are shown. */
static size_t count_sources(const struct nc_value *map) {
    return map && map->type == NC_VALUE_MAP ? nc_show_at_most(map->n, MAX_SOURCES) : 0;
}

static void show_policies(struct nc_buf *out, const struct nc_value *policies) {
    const size_t n = count_sources(policies);

    if (n == 0)
        return;
    nc_show_title(out, "policies");
    for (size_t i = 0; i < n; i++) {
        (void)nc_buf_puts(out, i ? ", " : "");
        nc_show_put(out, policies->members[i].key);
        (void)nc_buf_putc(out, ' ');
        nc_show_put(out, nc_show_text(policies, policies->members[i].key, "unknown"));
    }
    (void)nc_buf_putc(out, '\n');
}

/* Deadlines are EC2's; the times of the journal and of Events are this clock's. */
static void show_clock(struct nc_buf *out, const struct nc_value *skew) {
    const int64_t sec = nc_value_int(skew, 0) / 1000000;

    if (sec > -SKEW_SEC && sec < SKEW_SEC)
        return;
    nc_auto_free char *text = nc_asprintf("the clock is %" PRId64 " s %s EC2's: chronyc tracking",
                                          sec < 0 ? -sec : sec, sec < 0 ? "ahead of" : "behind");
    nc_show_line(out, "", text);
}

static void show_daemon(struct nc_buf *out, const struct nc_value *daemon) {
    static const char sentences[] = "inhibitDelay\0conflict\0stateError\0eventsError\0";
    const char *error = nc_show_text(daemon, "apiError", NULL);
    const char *remedy = nc_show_text(daemon, "apiRemedy", NULL);
    const char *state = nc_show_text(daemon, "apiState", NULL);

    if (!daemon || daemon->type != NC_VALUE_MAP)
        return;
    nc_show_title(out, "daemon");
    if (truth_of(daemon, "running") == 0 || is_null(daemon, "running")) {
        nc_show_marked(out, NC_MARK_BAD,
                       is_null(daemon, "running")
                           ? "cannot tell whether it runs: run as root (as root: /run is read-only)"
                           : "not running");
        (void)nc_buf_puts(out, "; what follows is what it last wrote\n");
        return;
    }
    if (truth_of(daemon, "connected") == 1 && error) {
        nc_show_marked(out, NC_MARK_BAD, "connected, with an error");
    } else if (truth_of(daemon, "connected") == 1) {
        nc_show_marked(out, NC_MARK_GOOD, "connected");
    } else {
        nc_show_marked(out, NC_MARK_BAD, "not connected");
        (void)nc_buf_puts(out, " to the API server");
        if (state) {
            (void)nc_buf_puts(out, " (");
            nc_show_put(out, state);
            (void)nc_buf_putc(out, ')');
        }
    }
    (void)nc_buf_puts(out, ", shutdown inhibitor ");
    nc_show_put(out, nc_show_text(daemon, "inhibitor", "unknown"));
    (void)nc_buf_puts(out, ", running since ");
    nc_show_put(out, nc_show_text(daemon, "started", "-"));
    (void)nc_buf_putc(out, '\n');
    show_clock(out, nc_value_get(daemon, "skewUsec"));
    if (error)
        nc_show_line(out, "", error);
    if (error)
        nc_show_remedy(out, remedy);
    for (const char *name = sentences; *name; name = nc_next_name(name))
        if (nc_show_text(daemon, name, NULL))
            nc_show_line(out, "", nc_show_text(daemon, name, NULL));
}

/* ", WORD text" where there is such a member. */
static void show_more(struct nc_buf *out, const struct nc_value *map, const char *key,
                      const char *caption) {
    const char *text = nc_show_text(map, key, NULL);

    if (!text)
        return;
    (void)nc_buf_printf(out, ", %s ", caption);
    nc_show_put(out, text);
}

/* The same for each "key\0caption\0" of a list. */
static void show_each(struct nc_buf *out, const struct nc_value *map, const char *names) {
    for (const char *key = names; *key; key = nc_next_name(nc_next_name(key)))
        show_more(out, map, key, nc_next_name(key));
}

static void show_polls(struct nc_buf *out, const struct nc_value *polls) {
    const size_t n = count_sources(polls);
    const char *remedy = NULL, *said = NULL; /* one reason of several is said once */
    if (n == 0)
        return;
    nc_show_title(out, "imds");
    for (size_t i = 0; i < n; i++) {
        const struct nc_value *one = polls->members[i].value;
        const char *error = nc_show_text(one, "error", NULL);
        (void)nc_buf_puts(out, i ? ", " : "");
        nc_show_put(out, polls->members[i].key);
        (void)nc_buf_putc(out, ' ');
        nc_show_outcome(out, nc_show_text(one, "state", "unknown"));
        if (error && !nc_streq(error, said)) {
            (void)nc_buf_puts(out, " (");
            nc_show_put(out, error);
            show_more(out, one, "last", "last answer");
            (void)nc_buf_putc(out, ')');
            said = error;
            remedy = nc_show_text(one, "remedy", remedy);
        }
    }
    (void)nc_buf_putc(out, '\n');
    nc_show_remedy(out, remedy);
}

static void show_sources(struct nc_buf *out, const struct nc_value *sources) {
    const struct nc_value *s;

    for (size_t i = 0; (s = nc_show_item(sources, i, MAX_SOURCES)); i++) {
        nc_show_title(out, i == 0 ? "notice" : "");
        const char *source = nc_show_text(s, "source", "unknown");
        nc_show_put(out, source);
        show_each(out, s,
                  "action\0to\0policy\0policy\0deadline\0deadline\0begin\0begins\0"
                  "noticed\0since\0");
        if (nc_is_one_of(source, "request\0operator\0"))
            show_each(out, s, "id\0id\0reason\0reason\0");
        (void)nc_buf_puts(out, truth_of(s, "putBack") == 1 ? ", " NC_PUT_BACK "\n" : "\n");
    }
}

/* ": default/x by pdb-y, …": those that have this member, or all, `first` before them. How many? */
static size_t put_names(struct nc_buf *out, const struct nc_value *pods, size_t most,
                        const char *first, const char *member) {
    const struct nc_value *pod;
    size_t n = 0;

    for (size_t i = 0; n < most && (pod = nc_show_item(pods, i, MAX_OTHERS)); i++) {
        const char *budget = nc_show_text(pod, "budget", NULL);
        if (member && !nc_show_text(pod, member, NULL))
            continue;
        (void)nc_buf_puts(out, n++ ? ", " : first);
        nc_show_put(out, nc_show_text(pod, "pod", "?"));
        (void)nc_buf_puts(out, budget ? " by " : "");
        nc_show_put(out, budget ? budget : "");
    }
    return n;
}

void nc_drain_phase_text(const struct nc_value *drain, struct nc_buf *out) {
    const char *phase = nc_show_text(drain, "phase", "unknown");
    const char *since = away_since(drain);

    if (since && nc_streq(phase, nc_lifecycle_phase_name(NC_LIFECYCLE_EVICTING)))
        phase = "cannot evict";
    nc_show_put(out, phase);
    if (!since || nc_streq(phase, nc_lifecycle_phase_name(NC_LIFECYCLE_IDLE)))
        return;
    (void)nc_buf_puts(out, ": the API server has done nothing for this node since ");
    nc_show_put(out, since);
}

/* What is not known is of another release. */
static enum nc_pod_reason reason_of(const struct nc_value *pod) {
    enum nc_pod_reason r = NC_POD_REASON_NONE;

    while (r < _NC_POD_REASON_MAX && !nc_value_says(pod, "reason", nc_pod_reason_name(r)))
        r++;
    return r;
}

/* The first of those that are refused, or kept without a time. */
static const struct nc_value *find_held(const struct nc_value *drain) {
    const struct nc_value *blocked = nc_value_get(drain, "blocked"), *pod;

    for (size_t i = 0; (pod = nc_show_item(blocked, i, MAX_BLOCKED)); i++) {
        const enum nc_pod_reason r = reason_of(pod);
        if (!nc_show_text(pod, "keptUntil", NULL) && r < _NC_POD_REASON_MAX
            && (nc_pod_reason_kind(r) == NC_REASON_KIND_BLOCKED
                || nc_pod_reason_kind(r) == NC_REASON_KIND_KEPT))
            break;
    }
    return pod;
}

/* One of those that is waited for without end. */
static const struct nc_value *find_endless(const struct nc_value *drain) {
    return nc_show_text(drain, "forceDeleteAt", NULL) ? NULL : find_held(drain);
}

/* A request that had one goes on without; the notice still names it. */
static bool has_deadline_passed(const struct nc_value *drain) {
    const struct nc_value *sources = nc_value_get(drain, "sources"), *s;

    for (size_t i = 0; (s = nc_show_item(sources, i, MAX_SOURCES)); i++)
        if (nc_show_text(s, "deadline", NULL)
            && nc_value_says(s, "policy", nc_policy_name(NC_POLICY_DRAIN))
            && (nc_value_says(s, "source", nc_source_name(NC_SOURCE_OPERATOR))
                || nc_value_says(s, "source", nc_source_name(NC_SOURCE_REQUEST))))
            break;
    return s != NULL;
}

void nc_drain_pods_text(const struct nc_value *drain, size_t names, struct nc_buf *out) {
    static const struct {
        char path[24], words[28];
    } counts[] = {{"pods.leaving", "leaving"},
                  {"pods.deleted", "force-deleted"},
                  {"pods.kept", "kept by do-not-disrupt"}, /* those from here are named */
                  {"pods.blocked", "blocked"},
                  {"pods.waiting", "waiting for a replacement"},
                  {"pods.excluded.put-back", "put back"},
                  {"pods.excluded.stuck", "that should have ended"}};
    enum { FIRST_HELD = 2 };
    const uint64_t total = nc_show_number(drain, "pods.total", MAX_COUNT);
    const struct nc_value *endless = find_endless(drain);
    bool is_held = false; /* the last count is of those that are named */

    show_more(out, drain, "incomplete", "the list of pods is incomplete:");
    if (is_null(nc_value_get(drain, "pods"), "total"))
        (void)nc_buf_puts(out, ", its pods are not listed");
    if (nc_show_number(drain, "volumes", MAX_COUNT)) {
        (void)nc_buf_printf(out, ", volumes attached: %" PRIu64 ": ",
                            nc_show_number(drain, "volumes", MAX_COUNT));
        nc_show_put(out, nc_show_text(drain, "volume", "?"));
    }
    if (total == 0)
        return;
    (void)nc_buf_printf(out, ", %s%s%" PRIu64 " of %" PRIu64 " pods remain",
                        away_since(drain) ? "as of then " : "",
                        truth_of(drain, "sinceRestart") == 1 ? "since the restart " : "",
                        nc_show_number(drain, "pods.remaining", MAX_COUNT), total);
    for (size_t i = 0; i < NC_ARRAY_SIZE(counts); i++) {
        const uint64_t n = nc_show_number(drain, counts[i].path, MAX_COUNT);
        if (n > 0) {
            (void)nc_buf_printf(out, ", %" PRIu64 " %s", n, counts[i].words);
            is_held = i >= FIRST_HELD;
        }
        if (n > 0 && i == 0)
            (void)nc_buf_puts(
                out,
                put_names(out, nc_value_get(drain, "others"), names, " (", "graceEnds") ? ")" : "");
    }
    (void)put_names(out, nc_value_get(drain, "blocked"), names, is_held ? ": " : "; held: ", NULL);
    if (endless) {
        (void)nc_buf_puts(out, ", waits without end");
        show_more(out, endless, "since", "since");
        (void)nc_buf_puts(out, has_deadline_passed(drain) ? ": the deadline has passed"
                                                          : ": no deadline is in force");
    }
}

const char *nc_drain_reason_text(const struct nc_value *pod) {
    const enum nc_pod_reason r = reason_of(pod);

    return r < _NC_POD_REASON_MAX ? nc_pod_reason_text(r) : nc_show_text(pod, "reason", NULL);
}

/* Is its reason what the API server showed? The others are of this node's own. */
static bool is_seen(const struct nc_value *pod) {
    const enum nc_pod_reason r = reason_of(pod);

    return r < _NC_POD_REASON_MAX && nc_pod_reason_kind(r) >= NC_REASON_KIND_LEAVING
           && nc_pod_reason_kind(r) != NC_REASON_KIND_PENDING;
}

/* ", blocked by a PodDisruptionBudget", and what the API server said beyond that. */
static void show_reason(struct nc_buf *out, const struct nc_value *pod, bool is_away) {
    const char *text = nc_drain_reason_text(pod);

    if (text) {
        (void)nc_buf_puts(out, is_away && is_seen(pod) ? ", as of then " : ", ");
        nc_show_put(out, text);
    }
    if (!nc_streq(text, nc_show_text(pod, "message", NULL)))
        show_more(out, pod, "message", "says");
}

/* A row for each pod of a list. */
static void show_pods(struct nc_buf *out, const char *title, const struct nc_value *drain,
                      const char *key) {
    const struct nc_value *pods = nc_value_get(drain, key), *p;
    const bool is_away = away_since(drain) != NULL;

    for (size_t i = 0; (p = nc_show_item(pods, i, MAX_OTHERS)); i++) {
        nc_show_title(out, i == 0 ? title : "");
        nc_show_put(out, nc_show_text(p, "pod", "?"));
        show_each(out, p, "budget\0budget\0since\0since\0forceDeleteAt\0force-delete\0");
        (void)nc_buf_puts(out, truth_of(p, "missed") == 1 ? ", which has passed" : "");
        show_reason(out, p, is_away);
        show_each(out, p, "evicted\0evicted\0deleted\0force-deleted\0grace\0with\0");
        if (nc_show_text(p, "at", NULL))
            show_more(out, p, "next", "next");
        show_more(out, p, "at", nc_show_text(p, "next", NULL) ? "at" : "next try");
        show_more(out, p, "graceEnds", "until");
        (void)nc_buf_putc(out, '\n');
    }
}

/* What the drain waits for before its first or after its last eviction. */
static void show_hooks(const struct nc_value *drain, struct nc_buf *out) {
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        const struct nc_value *one = nc_value_get(nc_value_get(drain, "hooks"), nc_hook_name(h));
        if (!nc_streq(nc_show_text(one, "state", NULL), nc_hook_state_name(NC_HOOK_RUNNING)))
            continue;
        nc_show_title(out, "hooks");
        (void)nc_buf_printf(out, "waits for %s", nc_hook_unit(h));
        show_more(out, one, "started", "since");
        (void)nc_buf_puts(out, "; systemctl list-jobs names its units\n");
    }
}

static bool is_named_for(const struct nc_value *drain, enum nc_pod_reason reason) {
    return nc_value_find(nc_value_get(drain, "blocked"), "reason", nc_pod_reason_name(reason));
}

/* What is known to help against a refusal. */
static const char *find_remedy(const struct nc_value *blocked) {
    const struct nc_value *pod;
    const char *remedy = NULL;

    for (size_t i = 0; !remedy && (pod = nc_show_item(blocked, i, MAX_BLOCKED)); i++)
        remedy = nc_show_text(pod, "remedy", NULL);
    return remedy;
}

/* A deadline ends no pod whose deletion is refused. In an outage nobody knows what holds a pod. */
static void show_held_remedy(struct nc_buf *out, const struct nc_value *drain) {
    const struct nc_value *endless = find_endless(drain);
    const struct nc_value *cordon = nc_value_get(drain, "cordon");
    const bool is_undeleted = is_named_for(drain, NC_POD_REASON_UNDELETED);
    const bool has_failed = nc_value_says(drain, "phase", NC_LIFECYCLE_FAILED);
    const char *known = find_remedy(nc_value_get(drain, "blocked"));
    const char *mend = known ? known : nc_drain_remedy(nc_value_get_string(endless, "reason"));
    nc_auto_free char *text = NULL;

    if (away_since(drain)) {
        if (nc_show_text(drain, "forceDeleteAt", NULL))
            nc_show_remedy(out, "see daemon: before the API server answers no pod can be evicted "
                                "or deleted, and what is left ends with the machine");
        return;
    }
    if (is_named_for(drain, NC_POD_REASON_FINALIZER))
        nc_show_remedy(out, NC_LIFECYCLE_FINALIZER_REMEDY);
    if (is_named_for(drain, NC_POD_REASON_SILENT))
        nc_show_remedy(out, NC_LIFECYCLE_SILENT_REMEDY);
    const bool is_uncordoned = truth_of(cordon, "lifted") == 1 || truth_of(cordon, "refused") == 1;
    const bool has_deadline = nc_show_text(drain, "forceDeleteAt", NULL) != NULL;

    if (is_uncordoned)
        nc_show_remedy(
            out,
            has_deadline
                ? "kubectl cordon the Node, which keeps new pods off, and uncordon it afterwards"
                : "kubectl cordon the Node, for nothing is evicted before that, and uncordon "
                  "it afterwards, or withdraw what requests the drain");
    if (is_uncordoned && !has_deadline)
        return;
    if (endless && !is_undeleted)
        text = nc_asprintf("%s; or, without asking a budget, delete the pod, or nodeclaimd drain "
                           "--deadline TIME",
                           mend);
    else if (known || is_undeleted || endless || (find_held(drain) && has_failed))
        text = nc_asprintf("%s; or delete the pod, which asks no budget%s", mend,
                           is_undeleted || has_failed
                               ? ""
                               : "; else it is deleted at its force-delete time, unless that is "
                                 "refused, too");
    nc_show_remedy(out, text);
}

static void show_cordon(struct nc_buf *out, const struct nc_value *cordon) {
    static const char *const rows[][2] = {
        {"ours", ", cordoned by us"},
        {"lifted", ", NOT cordoned: lifted by somebody else"},
        {"refused", ", NOT cordoned: refused"},
        {"failing", ", not cordoned by us: the API server fails"},
        {"labelRemoved", ", label for load balancers removed by somebody else"}};

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (truth_of(cordon, rows[i][0]) == 1)
            (void)nc_buf_puts(out, rows[i][1]);
}

void nc_drain_status_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *daemon = nc_value_get(status, "daemon");
    const struct nc_value *drain = nc_value_get(status, "drain");
    const bool is_deleted = truth_of(drain, "nodeDeleted") == 1;

    show_daemon(out, daemon);
    show_polls(out, nc_value_get(daemon, "imds"));
    show_policies(out, nc_value_get(daemon, "policies"));
    if (nc_show_text(daemon, "requestRefused", NULL))
        nc_show_line(out, "refused", nc_show_text(daemon, "requestRefused", NULL));
    if (!drain || drain->type != NC_VALUE_MAP)
        return;
    nc_show_title(out, "drain");
    if (away_since(drain))
        nc_drain_phase_text(drain, out); /* with the time that matters */
    else {
        nc_show_outcome(out, nc_show_text(drain, "phase", "unknown"));
        show_more(out, drain, "since", "since");
        show_more(out, drain, "at", "next try");
    }
    nc_drain_pods_text(drain, 0, out);
    show_more(out, drain, "forceDeleteAt", "force-delete time of all pods");
    show_cordon(out, nc_value_get(drain, "cordon"));
    if (is_deleted)
        (void)nc_buf_puts(out, nc_value_says(drain, "phase", "evicting")
                                   ? ", the Node was deleted, its pods are still evicted"
                                   : ", the Node was deleted");
    (void)nc_buf_putc(out, '\n');
    /* What registers again is not drained: none helps on a machine that ends. */
    nc_show_remedy(out, is_deleted && !nc_show_text(drain, "deadline", NULL)
                            ? NC_LIFECYCLE_ORPHANED_REMEDY
                            : NULL);
    show_hooks(drain, out);
    show_sources(out, nc_value_get(drain, "sources"));
    show_pods(out, "blocked", drain, "blocked");
    show_held_remedy(out, drain);
    show_pods(out,
              nc_value_says(drain, "phase", nc_lifecycle_phase_name(NC_LIFECYCLE_IDLE))
                  ? "still ending"
                  : "pods",
              drain, "others");
}

/* --- timeline */

/* Beyond a day nobody wants to know the milliseconds. */
static void show_seconds(struct nc_buf *out, uint64_t usec) {
    if (usec < 86400ull * 1000000)
        (void)nc_buf_printf(out, "%5" PRIu64 ".%03u s", usec / 1000000,
                            (unsigned)(usec / 1000 % 1000));
    else
        (void)nc_buf_printf(out, "%9" PRIu64 " s", usec / 1000000);
}

static void show_offset(struct nc_buf *out, uint64_t usec) {
    (void)nc_buf_putc(out, '+');
    show_seconds(out, usec);
    (void)nc_buf_puts(out, "  ");
}

static void show_bar_at(struct nc_buf *out, uint64_t from, uint64_t to, uint64_t total) {
    const uint64_t first = total ? from * BAR_WIDTH / total : 0;
    const uint64_t last = total ? (to * BAR_WIDTH + total - 1) / total : 0;

    for (uint64_t i = 0; i < BAR_WIDTH; i++)
        (void)nc_buf_putc(out, i >= first && (i < last || i == first) ? '#' : '.');
}

static void show_span(struct nc_buf *out, const struct nc_span *s, uint64_t total_usec) {
    nc_cleanup(nc_buf_done) struct nc_buf name = NC_BUF_INIT;

    nc_show_put(&name, s->name);
    show_offset(out, s->start_usec);
    (void)nc_buf_printf(out, "%-12s ", name.data ? name.data : "");
    show_seconds(out, s->duration_usec);
    (void)nc_buf_puts(out, "  ");
    show_bar_at(out, s->start_usec, s->start_usec + s->duration_usec, total_usec);
    (void)nc_buf_putc(out, '\n');
}

static void show_pod(struct nc_buf *out, const struct nc_timeline *t, const struct nc_pod_row *p) {
    nc_cleanup(nc_buf_done) struct nc_buf pod = NC_BUF_INIT, text = NC_BUF_INIT;

    nc_show_put(&pod, p->pod);
    (void)nc_buf_printf(out, "%-27s  ", pod.data ? pod.data : "");
    nc_pod_row_text(t, p, &text);
    nc_show_put(out, text.data ? text.data : "");
    (void)nc_buf_putc(out, '\n');
}

static void show_moment(struct nc_buf *out, const struct nc_moment *m) {
    if (m->is_of_pod) /* its row has it */
        return;
    show_offset(out, m->after_usec);
    (void)nc_buf_printf(out, *m->text ? "%-17s  " : "%s", nc_moment_title(m->kind));
    nc_show_put(out, m->text);
    (void)nc_buf_putc(out, '\n');
}

void nc_drain_timeline_text(const struct nc_value *status, uint64_t now_usec, struct nc_buf *out) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    struct nc_timeline t;
    char at[32] = "-";

    if (!nc_timeline_drain(status, now_usec, &t))
        return;
    if (t.begin_usec)
        nc_time_format(t.begin_usec, at);
    (void)nc_buf_printf(out, "drain, begun %s", at);
    show_more(out, drain, "source", "for");
    show_more(out, drain, "id", "notice");
    (void)nc_buf_putc(out, '\n');
    for (size_t i = 0; i < t.n_spans; i++)
        show_span(out, &t.spans[i], t.total_usec);
    for (size_t i = 0; i < t.n_pods; i++)
        show_pod(out, &t, &t.pods[i]);
    if (t.more_pods > 0) {
        nc_timeline_more_pods(&t, out);
        (void)nc_buf_putc(out, '\n');
    }
    for (size_t i = 0; i < t.n_moments; i++)
        show_moment(out, &t.moments[i]);
}
