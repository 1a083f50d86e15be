/*
 * budget-differ: our half of a comparison with Karpenter's own arithmetic of budgets.
 *
 * Reads lines "NODEPOOL-JSON<tab>REASON<tab>NODES<tab>NOW_USEC" and answers each with how many may
 * be disrupted: a number, "unlimited", or "error". The other half is tests/conformance/budgets.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "nc/budget.h"
#include "nc/str.h"

static int reason_of(const char *name) {
    for (int r = 0; r < (int)_NC_BUDGET_REASON_MAX; r++)
        if (strcmp(name, nc_budget_reason_name((enum nc_budget_reason)r)) == 0)
            return r;
    return -1;
}

/* The tab-separated parts of a line, in place. False where there are not four. */
static bool split(char *line, char *ret[static 4]) {
    for (unsigned i = 0; i < 4; i++) {
        ret[i] = line;
        line = strpbrk(line, "\t\n");
        if (!line)
            return false;
        *line++ = '\0';
    }
    return true;
}

static int answer(char *line) {
    nc_cleanup(nc_budgets_done) struct nc_budgets budgets = {0};
    nc_auto_value struct nc_value *pool = NULL;
    struct nc_err err = NC_ERR_INIT;
    char *part[4];
    uint64_t nodes = 0;
    uint64_t now_usec = 0;

    if (!split(line, part) || reason_of(part[1]) < 0 || nc_parse_u64(part[2], &nodes) < 0
        || nodes > INT_MAX || nc_parse_u64(part[3], &now_usec) < 0)
        return -1;
    if (nc_json_parse(part[0], strlen(part[0]), &pool, &err) < 0
        || nc_budgets_read(pool, &budgets, &err) < 0) {
        printf("error\n");
        return 0;
    }
    const unsigned n = nc_budgets_allowed(&budgets, (enum nc_budget_reason)reason_of(part[1]),
                                          (unsigned)nodes, now_usec);
    if (n == UINT_MAX)
        printf("unlimited\n");
    else
        printf("%u\n", n);
    return 0;
}

int main(void) {
    static char line[65536];

    while (fgets(line, sizeof(line), stdin))
        if (answer(line) < 0) {
            fprintf(stderr, "budget-differ: a line cannot be read\n");
            return 2;
        }
    return 0;
}
