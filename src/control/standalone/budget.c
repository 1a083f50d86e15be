/*
 * Disruption budgets: read strictly, counted as Karpenter counts.
 *
 * Knows spec.disruption.budgets of a NodePool and what the API server would have filled in.
 * Whatever Karpenter would make an error of is one here, so that the caller allows nothing. Must
 * not know which nodes there are.
 */
#include "nc/budget.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "nc/str.h"
#include "nc/time.h"

#define OTHER_REASONS (1u << _NC_BUDGET_REASON_MAX) /* words that are no reason of ours */
#define HITS_MAX 64u                                /* of a schedule that are looked through */

static const char *const reason_names[_NC_BUDGET_REASON_MAX] = {
    [NC_BUDGET_EMPTY] = "Empty",
    [NC_BUDGET_DRIFTED] = "Drifted",
    [NC_BUDGET_UNDERUTILIZED] = "Underutilized",
    [NC_BUDGET_EXPIRED] = "Expired",
    [NC_BUDGET_REBALANCE] = "Rebalance",
};

const char *nc_budget_reason_name(enum nc_budget_reason r) {
    return reason_names[r];
}

int nc_budget_duration(const char *text, bool may_be_never, uint64_t *ret_usec,
                       struct nc_err *err) {
    if (may_be_never && nc_streq(text, "Never")) {
        *ret_usec = UINT64_MAX;
        return 0;
    }
    if (nc_duration_parse(text, ret_usec) < 0) {
        nc_auto_free char *quoted = text ? nc_quote_string(text) : nc_strdup("nothing");
        return nc_err_protocol(err,
                               "found %s, a duration such as 720h%s is "
                               "needed",
                               quoted, may_be_never ? " or Never" : "");
    }
    return 0;
}

void nc_budgets_done(struct nc_budgets *b) {
    free(b->v);
    *b = (struct nc_budgets){0};
}

static bool is_absent(const struct nc_value *v) {
    return !v || v->type == NC_VALUE_NULL;
}

static int refuse(struct nc_err *err, const char *what, const struct nc_value *found) {
    char buf[32];
    const char *text = nc_value_scalar_text(found, buf);
    nc_auto_free char *quoted = text ? nc_quote_string(text) : nc_strdup("another type");

    return nc_err_protocol(err, "%s: found %s", what, quoted);
}

/* None = all; a list, also an empty one, means what it names and no more. */
static int read_reasons(const struct nc_value *v, unsigned *ret, struct nc_err *err) {
    unsigned bits = OTHER_REASONS;

    *ret = 0;
    if (is_absent(v))
        return 0;
    if (v->type != NC_VALUE_LIST || v->n > NC_BUDGET_REASONS_MAX)
        return refuse(err, "reasons", v);
    for (size_t i = 0; i < v->n; i++) {
        const char *token = nc_value_string(v->items[i]);
        if (!token)
            return refuse(err, "reasons", v->items[i]);
        for (unsigned r = 0; r < _NC_BUDGET_REASON_MAX; r++)
            if (strcmp(token, reason_names[r]) == 0)
                bits |= 1u << r;
    }
    *ret = bits;
    return 0;
}

/* "10%", "3". A count beyond what Karpenter can count with is refused. */
static int read_nodes(const struct nc_value *v, struct nc_budget *ret, struct nc_err *err) {
    const char *text = is_absent(v) ? "10%" : nc_value_string(v);
    char digits[16];
    uint64_t n;

    if (!text || strlen(text) >= sizeof(digits))
        return refuse(err, "nodes", v);
    memcpy(digits, text, strlen(text) + 1);
    ret->is_percent = nc_ends_with(digits, "%");
    if (ret->is_percent)
        digits[strlen(digits) - 1] = '\0';
    if (nc_parse_u64(digits, &n) < 0 || n > (ret->is_percent ? 100 : INT32_MAX))
        return refuse(err, "nodes", v);
    ret->nodes = (unsigned)n;
    return 0;
}

/* Both or none: the CRD reports it, and half of it means something else to everybody. */
static int read_when(const struct nc_value *budget, struct nc_budget *ret, struct nc_err *err) {
    const struct nc_value *schedule = nc_value_get(budget, "schedule");
    const struct nc_value *duration = nc_value_get(budget, "duration");

    ret->has_schedule = !is_absent(schedule);
    if (ret->has_schedule != !is_absent(duration))
        return nc_err_protocol(err, "schedule and duration need each other");
    if (!ret->has_schedule)
        return 0;
    if (!nc_value_string(schedule))
        return refuse(err, "schedule", schedule);
    int r = nc_cron_parse(nc_value_string(schedule), &ret->schedule, err);
    if (r < 0)
        return r;
    r = nc_budget_duration(nc_value_string(duration), false, &ret->duration_usec, err);
    if (r < 0)
        nc_err_wrap(err, "duration");
    return r;
}

static int read_budget(const struct nc_value *v, struct nc_budget *ret, struct nc_err *err) {
    if (!v || v->type != NC_VALUE_MAP)
        return refuse(err, "a budget", v);
    int r = read_reasons(nc_value_get(v, "reasons"), &ret->reasons, err);
    if (r == 0)
        r = read_nodes(nc_value_get(v, "nodes"), ret, err);
    return r == 0 ? read_when(v, ret, err) : r;
}

int nc_budgets_read(const struct nc_value *pool, struct nc_budgets *ret, struct nc_err *err) {
    nc_cleanup(nc_budgets_done) struct nc_budgets b = {0};
    const struct nc_value *list = nc_value_path(pool, "spec.disruption.budgets");

    if (is_absent(list)) {
        *nc_append(&b.v, &b.n) = (struct nc_budget){.is_percent = true, .nodes = 10};
    } else if (list->type != NC_VALUE_LIST || list->n > NC_BUDGETS_MAX) {
        return refuse(err, "spec.disruption.budgets", list);
    } else {
        for (size_t i = 0; i < list->n; i++) {
            const int r = read_budget(list->items[i], nc_append(&b.v, &b.n), err);
            if (r < 0) {
                nc_err_wrap(err, "spec.disruption.budgets[%zu]", i);
                return r;
            }
        }
    }
    *ret = b;
    b = (struct nc_budgets){0};
    return 0;
}

/* The first hit of its window, if the window is open: none that is later than now. A schedule that
 * never fires is always in force: that is what Karpenter makes of it. */
static bool first_hit(const struct nc_budget *b, uint64_t now_usec, uint64_t *ret_usec) {
    const uint64_t from = now_usec > b->duration_usec ? now_usec - b->duration_usec : 0;

    *ret_usec = nc_cron_next(&b->schedule, from);
    return *ret_usec <= now_usec || *ret_usec == UINT64_MAX;
}

/* Karpenter's arithmetic: a schedule fired at most `duration` ago. */
static bool is_active(const struct nc_budget *b, uint64_t now_usec) {
    uint64_t hit;

    return !b->has_schedule || first_hit(b, now_usec, &hit);
}

static unsigned allowed(const struct nc_budget *b, unsigned n_nodes) {
    if (!b->is_percent)
        return b->nodes;
    return (unsigned)(((uint64_t)n_nodes * b->nodes + 99) / 100);
}

unsigned nc_budgets_allowed(const struct nc_budgets *b, enum nc_budget_reason why, unsigned n_nodes,
                            uint64_t now_usec) {
    unsigned least = UINT_MAX;

    for (size_t i = 0; i < b->n; i++) {
        const struct nc_budget *one = &b->v[i];
        if (one->reasons && !(one->reasons & 1u << why))
            continue;
        if (is_active(one, now_usec) && allowed(one, n_nodes) < least)
            least = allowed(one, n_nodes);
    }
    return least;
}

/* When the window that is open closes, or the next one opens. Hits that follow each other closely
 * keep it open; beyond some of them it is asked again too early, which does no harm. */
static uint64_t next_change(const struct nc_budget *b, uint64_t now_usec) {
    uint64_t hit;

    if (!b->has_schedule)
        return UINT64_MAX;
    if (!first_hit(b, now_usec, &hit))
        return hit;
    if (hit == UINT64_MAX)
        return UINT64_MAX;
    for (unsigned i = 0; i < HITS_MAX; i++) {
        const uint64_t later = nc_cron_next(&b->schedule, hit);
        if (later > hit + b->duration_usec)
            break;
        hit = later;
    }
    return hit + b->duration_usec;
}

uint64_t nc_budgets_next(const struct nc_budgets *b, uint64_t now_usec) {
    uint64_t soonest = UINT64_MAX;

    for (size_t i = 0; i < b->n; i++) {
        const uint64_t usec = next_change(&b->v[i], now_usec);
        soonest = usec < soonest ? usec : soonest;
    }
    return soonest;
}
