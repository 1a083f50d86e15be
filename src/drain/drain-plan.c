/*
 * What a drain would do, pod by pod and when: `drain --dry-run`, as a table or as JSON.
 *
 * Pure and derived from the same lines and moments as the drain itself. Names of pods were checked
 * when they were read, so they are printed as they are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "drain-priv.h"
#include "nc/drain-report.h"
#include "nc/str.h"
#include "nc/time.h"

#define TAKES_USEC (NC_SEC_USEC / 2) /* from a request to the first deletion */

/* What would become of a pod, were the drain to begin now. */
enum fate {
    FATE_LEFT = 0, /* not touched */
    FATE_LEAVING,  /* terminating already, in time */
    FATE_SHORTEN,  /* terminating already, but not in time */
    FATE_DELETE,   /* its force-delete time has come */
    FATE_KEEP,     /* do-not-disrupt */
    FATE_WAIT,     /* evicted where its replacement does not come in time */
    FATE_OTHERS,   /* nobody evicts: only its force-delete time is kept */
    FATE_EVICT,
};
/* Lists of names (nc/str.h), in this order. */
static const char fate_descriptions[] =
    "exclude\0terminating already\0shorten\0delete\0keep (do-not-disrupt)\0"
    "wait for its replacement\0not evict\0evict\0";
static const char fate_names[] = "leave\0leaving\0shorten\0delete\0keep\0wait\0none\0evict\0";

struct row {
    const struct nc_drain_line *line;
    enum fate fate;
    char what[64];
    uint64_t last_usec; /* 0 = none */
    uint64_t grace_sec; /* of a deletion at its force-delete time, or now; 0 = there is none */
};

static const char *turn_name(const struct nc_drain_line *line) {
    static const char names[_NC_TIER_MAX][20] = {
        [NC_TIER_PLAIN] = "plain",       [NC_TIER_PLAIN_DAEMON] = "daemonset",
        [NC_TIER_CRITICAL] = "critical", [NC_TIER_CRITICAL_DAEMON] = "critical-daemonset",
        [NC_TIER_LAST] = "last",
    };

    if (line->pod->order == NC_POD_ORDER_FIRST)
        return nc_pod_order_name(line->pod->order);
    return (unsigned)line->turn < _NC_TIER_MAX ? names[line->turn] : "unknown";
}

static enum fate fate_of(const struct nc_verdict *v) {
    switch (nc_pod_reason_kind(v->reason)) {
    case NC_REASON_KIND_GONE:
    case NC_REASON_KIND_EXCLUDED:
        return FATE_LEFT;
    case NC_REASON_KIND_LEAVING:
        return v->reason == NC_POD_REASON_LATE ? FATE_SHORTEN : FATE_LEAVING;
    case NC_REASON_KIND_KEPT:
        return FATE_KEEP;
    case NC_REASON_KIND_WAITING:
        return FATE_WAIT;
    case NC_REASON_KIND_PENDING:
    case NC_REASON_KIND_BLOCKED:
        break;
    }
    if (v->reason == NC_POD_REASON_FORCED)
        return FATE_DELETE;
    return v->reason == NC_POD_REASON_NOT_BEGUN ? FATE_OTHERS : FATE_EVICT;
}

static void fill_row(const struct nc_drain_line *line, const struct nc_drain_rules *r,
                     uint64_t now_usec, struct row *ret) {
    *ret = (struct row){.line = line, .fate = fate_of(&line->verdict)};
    (void)snprintf(ret->what, sizeof(ret->what), "%s%s%s", nc_name_at(fate_descriptions, ret->fate),
                   ret->fate == FATE_LEFT ? ": " : "",
                   ret->fate == FATE_LEFT ? nc_pod_reason_name(line->verdict.reason) : "");
    if (ret->fate == FATE_LEFT || ret->fate == FATE_LEAVING || !r->t_usec)
        return;
    ret->last_usec = ret->fate == FATE_SHORTEN ? now_usec : line->force_delete_at_usec;
    ret->grace_sec =
        nc_drain_grace(line->pod, 0, r, ret->last_usec > now_usec ? ret->last_usec : now_usec);
}

static void add_moment(struct nc_buf *out, uint64_t usec, uint64_t now_usec) {
    char text[32], distance[32];

    if (usec <= now_usec) {
        (void)nc_buf_puts(out, "at once");
        return;
    }
    nc_time_format(usec, text);
    nc_duration_format((usec - now_usec) / NC_SEC_USEC * NC_SEC_USEC, distance);
    (void)nc_buf_printf(out, "%s (in %s)", text, distance);
}

static void add_head(const struct nc_drain_rules *r, size_t n, uint64_t now_usec,
                     struct nc_buf *out) {
    (void)nc_buf_printf(out, "%zu pod%s on this node, in the order of the drain. ", n,
                        n == 1 ? "" : "s");
    if (r->t_usec) {
        (void)nc_buf_puts(out, "Every pod that may not stay is gone by ");
        add_moment(out, r->t_usec, now_usec);
        (void)nc_buf_puts(out, ".\n");
    } else {
        (void)nc_buf_puts(out, "No deadline: budgets and do-not-disrupt hold without a limit.\n");
    }
}

/* Text columns as wide as their widest text. */
struct widths {
    int tier, pod, what;
};

static int wider(int a, size_t b) {
    return b > (size_t)a ? (int)b : a;
}

static struct widths measure(const struct row *rows, size_t n) {
    struct widths w = {.tier = 4, .pod = 3, .what = 4};

    for (size_t i = 0; i < n; i++) {
        const struct nc_pod *p = rows[i].line->pod;
        w.tier = wider(w.tier, strlen(turn_name(rows[i].line)));
        w.pod = wider(w.pod, strlen(p->namespace) + 1 + strlen(p->name));
        w.what = wider(w.what, strlen(rows[i].what));
    }
    return w;
}

static void add_row(const struct row *row, const struct widths *w, uint64_t now_usec,
                    struct nc_buf *out) {
    const struct nc_pod *p = row->line->pod;
    nc_auto_free char *name = nc_asprintf("%s/%s", p->namespace, p->name);

    (void)nc_buf_printf(out, "%-*s  %-*s  ", w->tier, turn_name(row->line), w->pod, name);
    if (row->last_usec) {
        (void)nc_buf_printf(out, "%-*s  %5" PRIu64 "s  ", w->what, row->what, row->grace_sec);
        add_moment(out, row->last_usec, now_usec);
        if (row->grace_sec < p->grace_sec)
            (void)nc_buf_printf(out, ", less than its %" PRIu64 "s", p->grace_sec);
    } else {
        (void)nc_buf_puts(out, row->what);
    }
    (void)nc_buf_putc(out, '\n');
}

static void add_table(const struct row *rows, size_t n, const struct nc_drain_rules *r,
                      uint64_t now_usec, struct nc_buf *out) {
    const struct widths w = measure(rows, n);

    add_head(r, n, now_usec, out);
    if (n == 0)
        return;
    (void)nc_buf_printf(out, "\n%-*s  %-*s  ", w.tier, "TIER", w.pod, "POD");
    if (r->t_usec)
        (void)nc_buf_printf(out, "%-*s  %6s  %s\n", w.what, "WHAT", "GRACE", "FORCE-DELETE");
    else
        (void)nc_buf_puts(out, "WHAT\n");
    for (size_t i = 0; i < n; i++)
        add_row(&rows[i], &w, now_usec, out);
}

static struct nc_value *new_row(const struct row *row) {
    const struct nc_pod *p = row->line->pod;
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "tier", turn_name(row->line));
    nc_value_set_string(v, "namespace", p->namespace);
    nc_value_set_string(v, "name", p->name);
    nc_value_set_string(v, "uid", p->uid);
    nc_value_set_string(v, "what", nc_name_at(fate_names, row->fate));
    nc_value_set_text(
        v, "reason", row->fate == FATE_LEFT ? nc_pod_reason_name(row->line->verdict.reason) : NULL);
    nc_value_set_time(v, "forceDeleteAt", row->last_usec);
    nc_value_set(v, "graceSeconds",
                 row->grace_sec ? nc_value_new_int((int64_t)row->grace_sec)
                                : nc_value_new(NC_VALUE_NULL));
    return v;
}

static void add_json(const struct row *rows, size_t n, const struct nc_drain_summary *summary,
                     uint64_t last_usec, struct nc_buf *out) {
    nc_auto_value struct nc_value *v = nc_value_new_map();
    struct nc_value *pods;

    nc_value_set_time(v, "forceDeleteAt", last_usec);
    nc_value_set(v, "counts", nc_drain_counts(summary, true));
    pods = nc_value_add_list(v, "pods");
    for (size_t i = 0; i < n; i++)
        nc_value_push(pods, new_row(&rows[i]));
    nc_json_write(out, v, 2);
    (void)nc_buf_putc(out, '\n');
}

/* It would end by the deadline alone, and that in a moment. */
static bool is_cut(const struct nc_drain_line *line, uint64_t now_usec) {
    return line->verdict.reason == NC_POD_REASON_LATE
           || (nc_pod_reason_kind(line->verdict.reason) > NC_REASON_KIND_LEAVING
               && line->force_delete_at_usec
               && line->force_delete_at_usec <= now_usec + TAKES_USEC);
}

uint64_t nc_drain_plan_cut(const struct nc_drain *d, const struct nc_drain_rules *r,
                           uint64_t now_usec, struct nc_buf *names) {
    size_t n, cut = 0;
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(d, r, now_usec, &n);
    uint64_t least_usec = 0;

    for (size_t i = 0; i < n; i++) {
        const struct nc_pod *p = lines[i].pod;
        if (!is_cut(&lines[i], now_usec))
            continue;
        least_usec =
            nc_later_usec(least_usec, p->deletion_usec ? nc_less_usec(p->deletion_usec, now_usec)
                                                       : nc_sec_to_usec(p->grace_sec));
        if (++cut <= NC_DRAIN_NAMES)
            (void)nc_buf_printf(names, "%s%s/%s", cut > 1 ? ", " : "", p->namespace, p->name);
    }
    nc_drain_put_more(names, cut);
    return least_usec;
}

void nc_drain_plan_text(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                        bool json, struct nc_buf *out) {
    size_t n;
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(d, r, now_usec, &n);
    nc_auto_free struct row *rows = nc_calloc(n + 1, sizeof(*rows));
    struct nc_drain_summary summary;

    for (size_t i = 0; i < n; i++)
        fill_row(&lines[i], r, now_usec, &rows[i]);
    if (!json) {
        add_table(rows, n, r, now_usec, out);
        return;
    }
    nc_drain_summarize(d, r, now_usec, &summary);
    add_json(rows, n, &summary, r->t_usec, out);
}
