/*
 * Reads spans and moments from a status.json.
 *
 * As timeline-model.h: anything may be missing, of another type, or absurd.
 */
#include "timeline-model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "nc/lifecycle.h"
#include "nc/report.h"
#include "nc/str.h"
#include "status-show.h"

#define MAX_HISTORY 64
#define MAX_SPAN_USEC ((uint64_t)366 * 24 * 3600 * 1000000) /* longer is neither boot nor drain */
#define MAX_SOURCES 16
#define MAX_BLOCKED 20
#define MAX_COUNT 1000000u

const char *nc_timeline_node(const struct nc_value *status) {
    const char *own = nc_show_text(nc_value_get(status, "daemon"), "node", NULL);

    return nc_show_text(status, "node", own);
}

const char *nc_moment_name(enum nc_moment_kind kind) {
    static const char names[_NC_MOMENT_MAX][16] = {
        [NC_MOMENT_NOTICE] = "notice",
        [NC_MOMENT_CORDON] = "cordon",
        [NC_MOMENT_FORCE_DELETE] = "force-delete",
        [NC_MOMENT_DEADLINE] = "deadline",
        [NC_MOMENT_GATE] = "gate",
    };

    return names[kind];
}

const char *nc_moment_title(enum nc_moment_kind kind) {
    return kind == NC_MOMENT_FORCE_DELETE ? "force-delete time" : nc_moment_name(kind);
}

static uint64_t after(uint64_t usec, uint64_t begin_usec) {
    const uint64_t span = usec > begin_usec ? usec - begin_usec : 0;

    return span < MAX_SPAN_USEC ? span : MAX_SPAN_USEC;
}

uint64_t nc_timeline_after(const struct nc_timeline *t, uint64_t usec) {
    return after(usec, t->begin_usec) / 1000 * 1000;
}

static void add_moment(struct nc_timeline *t, const struct nc_moment *m) {
    if (m->at_usec == 0 || t->n_moments == NC_TIMELINE_MAX)
        return;
    t->moments[t->n_moments] = *m;
    t->moments[t->n_moments++].after_usec = after(m->at_usec, t->begin_usec);
}

static int by_time(const void *a, const void *b) {
    const struct nc_moment *x = a, *y = b;

    if (x->after_usec != y->after_usec)
        return x->after_usec < y->after_usec ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

/* --- the boot */

static void add_phase(struct nc_timeline *t, const struct nc_value *phase) {
    const struct nc_value *error = nc_value_get(phase, "error");
    const bool has_error = error && error->type == NC_VALUE_MAP;
    const struct nc_span s = {
        .name = nc_show_text(phase, "name", "?"),
        .outcome = nc_show_text(phase, "outcome", "?"),
        .start_usec = t->total_usec,
        .duration_usec = nc_show_number(phase, "durationUsec", MAX_SPAN_USEC),
        .attempts = nc_show_number(phase, "attempts", UINT32_MAX),
        .class = has_error ? nc_show_text(error, "class", "error") : NULL,
        .message = has_error ? nc_show_text(error, "message", "?") : NULL,
        .remedy = nc_show_text(error, "remedy", NULL),
    };

    t->total_usec += s.duration_usec;
    t->spans[t->n_spans++] = s;
}

static void add_gate(struct nc_timeline *t, const struct nc_value *fit) {
    static const char *const keys[][2] = {{"since", "shut"}, {"opened", "open"}};

    for (size_t i = 0; t->begin_usec && i < NC_ARRAY_SIZE(keys); i++)
        add_moment(t, &(struct nc_moment){.kind = NC_MOMENT_GATE,
                                          .text = keys[i][1],
                                          .message = nc_show_text(fit, "message", NULL),
                                          .at_usec = nc_show_time(fit, keys[i][0])});
}

/* status.json has starts in whole seconds and durations in microseconds: phases follow each other,
 * so the sum places them. */
bool nc_timeline_boot(const struct nc_value *status, struct nc_timeline *ret) {
    const struct nc_value *phases[NC_SHOW_MAX_PHASES];
    const size_t n = nc_show_at_most(nc_show_phases(status, phases), NC_TIMELINE_MAX);

    *ret = (struct nc_timeline){.begin_usec = nc_show_time(status, "started")};
    for (size_t i = 0; i < n; i++)
        add_phase(ret, phases[i]);
    if (ret->begin_usec && !nc_streq(nc_show_text(status, "outcome", ""), "succeeded"))
        add_moment(ret, &(struct nc_moment){.kind = NC_MOMENT_DEADLINE,
                                            .text = "the bootstrap ends",
                                            .at_usec = nc_show_time(status, "deadline")});
    add_gate(ret, nc_value_get(status, "fit"));
    return n > 0;
}

/* --- the drain */

/* To the second; where the history shows the write's end in that second, as exactly as that. */
static uint64_t cordoned_at(const struct nc_value *drain) {
    const uint64_t since_usec = nc_show_time(nc_value_get(drain, "cordon"), "since");
    const struct nc_value *history = nc_show_list(drain, "history");

    for (size_t i = 1; history && i < nc_show_at_most(history->n, NC_TIMELINE_MAX); i++) {
        const uint64_t at_usec = nc_show_moment(history->items[i]);
        if (nc_value_says(history->items[i - 1], "phase",
                          nc_lifecycle_phase_name(NC_LIFECYCLE_CORDONING))
            && at_usec / 1000000 == since_usec / 1000000)
            return at_usec;
    }
    return since_usec;
}

static void add_moments(struct nc_timeline *t, const struct nc_value *drain) {
    const struct nc_value *sources = nc_value_get(drain, "sources"), *s;
    const struct nc_value *blocked = nc_value_get(drain, "blocked"), *pod;

    for (size_t i = 0; (s = nc_show_item(sources, i, MAX_SOURCES)); i++)
        add_moment(t, &(struct nc_moment){.kind = NC_MOMENT_NOTICE,
                                          .text = nc_show_text(s, "source", "unknown"),
                                          .at_usec = nc_show_time(s, "noticed")});
    add_moment(t, &(struct nc_moment){
                      .kind = NC_MOMENT_CORDON, .text = "", .at_usec = cordoned_at(drain)});
    for (size_t i = 0; (pod = nc_show_item(blocked, i, MAX_BLOCKED)); i++)
        add_moment(t, &(struct nc_moment){.kind = NC_MOMENT_FORCE_DELETE,
                                          .text = nc_show_text(pod, "pod", "?"),
                                          .budget = nc_show_text(pod, "budget", NULL),
                                          .message = nc_show_text(pod, "message", NULL),
                                          .is_of_pod = true,
                                          .at_usec = nc_show_time(pod, "forceDeleteAt")});
    add_moment(t, &(struct nc_moment){.kind = NC_MOMENT_FORCE_DELETE,
                                      .text = "all pods",
                                      .at_usec = nc_show_time(drain, "forceDeleteAt")});
    add_moment(t, &(struct nc_moment){.kind = NC_MOMENT_DEADLINE,
                                      .text = "the machine ends",
                                      .at_usec = nc_show_time(drain, "deadline")});
    qsort(t->moments, t->n_moments, sizeof(t->moments[0]), by_time);
}

/* "Eviction of pod a/b refused by …": what follows it is what blocked. */
static const char *reason_of(const char *refusal) {
    static const char word[] = " refused";
    const char *at = refusal ? strstr(refusal, word) : NULL;

    return at ? at + 1 : refusal;
}

const char *nc_pod_time_name(enum nc_pod_time time) {
    return nc_name_at("refused\0keptUntil\0evicted\0forceDeleted\0gone\0", time);
}

void nc_timeline_more_pods(const struct nc_timeline *t, struct nc_buf *out) {
    (void)nc_buf_printf(out, "and %" PRIu64 " more pod%s", t->more_pods,
                        t->more_pods > 1 ? "s" : "");
}

/* It was deleted so long before the force-delete time of all as its grace is. */
static void put_end_of_grace(const struct nc_timeline *t, uint64_t deleted_usec,
                             struct nc_buf *out) {
    for (size_t i = 0; i < t->n_moments; i++) {
        const struct nc_moment *m = &t->moments[i];
        if (m->kind != NC_MOMENT_FORCE_DELETE || m->is_of_pod || m->at_usec <= deleted_usec)
            continue;
        (void)nc_buf_puts(out, " (its grace ends at +");
        nc_svg_duration(out, m->after_usec);
        (void)nc_buf_putc(out, ')');
    }
}

void nc_pod_row_text(const struct nc_timeline *t, const struct nc_pod_row *p, struct nc_buf *out) {
    const char *const texts[_NC_POD_TIME_MAX] = {
        [NC_POD_TIME_REFUSED] = p->refusal ? p->refusal : "refused",
        [NC_POD_TIME_KEPT_UNTIL] = nc_moment_title(NC_MOMENT_FORCE_DELETE),
        [NC_POD_TIME_EVICTED] = "evicted",
        [NC_POD_TIME_FORCE_DELETED] = "force-deleted",
        [NC_POD_TIME_GONE] = "gone",
    };

    if (p->refusal && p->times_usec[NC_POD_TIME_REFUSED] == 0)
        nc_show_put(out, p->refusal);
    for (enum nc_pod_time k = 0; k < _NC_POD_TIME_MAX; k++) {
        if (p->times_usec[k] == 0)
            continue;
        (void)nc_buf_puts(out, out->len ? ", +" : "+");
        nc_svg_duration(out, nc_timeline_after(t, p->times_usec[k]));
        (void)nc_buf_printf(out, " %s", texts[k]);
        if (k == NC_POD_TIME_FORCE_DELETED)
            put_end_of_grace(t, p->times_usec[k], out);
    }
}

static void add_pod(struct nc_timeline *t, const struct nc_value *pod) {
    struct nc_pod_row *row = &t->pods[t->n_pods++];

    *row = (struct nc_pod_row){.pod = nc_show_text(pod, "pod", "?"),
                               .refusal = reason_of(nc_show_text(pod, "refusal", NULL))};
    for (enum nc_pod_time k = 0; k < _NC_POD_TIME_MAX; k++) {
        nc_auto_free char *key = nc_asprintf("%sUsec", nc_pod_time_name(k));
        row->times_usec[k] = nc_show_number(pod, key, INT64_MAX);
    }
}

static void add_pods(struct nc_timeline *t, const struct nc_value *drain) {
    const struct nc_value *pods = nc_value_get(drain, "podHistory"), *pod;

    for (size_t i = 0; (pod = nc_show_item(pods, i, NC_TIMELINE_MAX)); i++)
        add_pod(t, pod);
}

/* The newest of this name: one before it may be gone. */
static struct nc_pod_row *row_of(struct nc_timeline *t, const char *pod) {
    for (size_t i = t->n_pods; i > 0; i--)
        if (nc_streq(t->pods[i - 1].pod, pod))
            return &t->pods[i - 1];
    if (t->n_pods == NC_TIMELINE_MAX)
        return NULL;
    t->pods[t->n_pods] = (struct nc_pod_row){.pod = pod};
    return &t->pods[t->n_pods++];
}

/* What is blocked now; one that was never asked for, such as by do-not-disrupt, has no history. */
static void add_blocked(struct nc_timeline *t, const struct nc_value *drain) {
    const struct nc_value *blocked = nc_value_get(drain, "blocked"), *one;

    for (size_t i = 0; (one = nc_show_item(blocked, i, MAX_BLOCKED)); i++) {
        struct nc_pod_row *row = row_of(t, nc_show_text(one, "pod", "?"));
        if (!row || row->times_usec[NC_POD_TIME_GONE])
            continue;
        row->times_usec[NC_POD_TIME_KEPT_UNTIL] =
            nc_show_time(one, nc_show_text(one, "keptUntil", NULL) ? "keptUntil" : "forceDeleteAt");
        if (!row->times_usec[NC_POD_TIME_REFUSED]) {
            row->times_usec[NC_POD_TIME_REFUSED] = nc_show_time(one, "since");
            row->refusal = nc_show_text(one, "message", nc_drain_reason_text(one));
        }
    }
}

static void count_pods(struct nc_timeline *t, const struct nc_value *drain) {
    const uint64_t total = nc_show_number(drain, "pods.total", MAX_COUNT);

    t->more_pods = total > t->n_pods ? total - t->n_pods : 0;
}

static void add_api_error(struct nc_span *s, const struct nc_value *daemon) {
    s->message = nc_show_text(daemon, "apiError", NULL);
    s->remedy = s->message ? nc_show_text(daemon, "apiRemedy", NULL) : NULL;
}

/* When entry `i` of the history ended: with the next one; or now, unless nothing follows it. */
static uint64_t end_of(const struct nc_value *history, size_t i, uint64_t now_usec) {
    const uint64_t begin_usec = nc_show_moment(history->items[i]);
    const char *phase = nc_show_text(history->items[i], "phase", "");

    if (i + 1 < history->n)
        return nc_show_moment(history->items[i + 1]);
    return nc_streq(phase, "drained") || now_usec < begin_usec ? begin_usec : now_usec;
}

static bool is_idle(const struct nc_value *entry) {
    return nc_value_says(entry, "phase", "idle");
}

static bool find_last_drain(const struct nc_value *status, size_t *ret_from, size_t *ret_to) {
    const struct nc_value *history = nc_show_list(status, "drain.history");
    size_t to = history ? nc_show_at_most(history->n, MAX_HISTORY) : 0, from;

    while (to > 0 && is_idle(history->items[to - 1]))
        to--;
    for (from = to; from > 0 && !is_idle(history->items[from - 1]);)
        from--;
    *ret_from = from;
    *ret_to = to;
    return to > from;
}

bool nc_timeline_drain(const struct nc_value *status, uint64_t now_usec, struct nc_timeline *ret) {
    const struct nc_value *history = nc_show_list(nc_value_get(status, "drain"), "history");
    size_t from, to;

    *ret = (struct nc_timeline){0};
    if (!find_last_drain(status, &from, &to))
        return false;
    ret->begin_usec = nc_show_moment(history->items[from]);
    ret->total_usec = after(end_of(history, to - 1, now_usec), ret->begin_usec);
    for (size_t i = from; i < to && ret->n_spans < NC_TIMELINE_MAX; i++) {
        const uint64_t at = after(nc_show_moment(history->items[i]), ret->begin_usec);
        const uint64_t end = after(end_of(history, i, now_usec), ret->begin_usec);
        ret->spans[ret->n_spans++] =
            (struct nc_span){.name = nc_show_text(history->items[i], "phase", "?"),
                             .start_usec = at,
                             .duration_usec = end > at ? end - at : 0};
    }
    add_pods(ret, nc_value_get(status, "drain"));
    /* What is announced, blocked and refused now belongs to a drain that goes on. */
    if (to == history->n) {
        add_blocked(ret, nc_value_get(status, "drain"));
        count_pods(ret, nc_value_get(status, "drain"));
        add_moments(ret, nc_value_get(status, "drain"));
        add_api_error(&ret->spans[ret->n_spans - 1], nc_value_get(status, "daemon"));
    }
    return true;
}
