/*
 * Disruption budgets of a NodePool: whatever stands there is read or refused with its place; no
 * more nodes than there are come of a percentage, and nothing changes before it was foretold.
 */
#include <limits.h>
#include <stdint.h>

#include "nc/budget.h"

#define NOW_USEC UINT64_C(1767323045000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct nc_budgets *b) {
    const uint64_t next = nc_budgets_next(b, NOW_USEC);

    if (next <= NOW_USEC || b->n > NC_BUDGETS_MAX)
        abort();
    for (int why = 0; why < _NC_BUDGET_REASON_MAX; why++) {
        const enum nc_budget_reason reason = (enum nc_budget_reason)why;
        const unsigned now = nc_budgets_allowed(b, reason, 10, NOW_USEC);
        if (b->n == 0 && now != UINT_MAX)
            abort();
        if (next != UINT64_MAX && nc_budgets_allowed(b, reason, 10, next - 1) != now)
            abort();
        if (nc_budgets_allowed(b, reason, 1000, NOW_USEC) < now)
            abort(); /* more nodes never allow less */
    }
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].is_percent && b->v[i].nodes > 100)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_value struct nc_value *pool = NULL;
    struct nc_budgets budgets = {0};
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse((const char *)data, n, &pool, NULL) < 0)
        return 0;
    if (nc_budgets_read(pool, &budgets, &err) < 0) {
        if (err.class != NC_ERR_PROTOCOL || !err.msg[0] || budgets.v || budgets.n)
            abort();
        return 0;
    }
    check(&budgets);
    nc_budgets_done(&budgets);
    return 0;
}
