/*
 * maxPodsExpression: the part of CEL, which NodeConfig allows for the number of pods, that is
 * honoured.
 */
#ifndef NC_PLAN_EXPRESSION_H
#define NC_PLAN_EXPRESSION_H

#include <stddef.h>
#include <stdint.h>

struct nc_expression_variables {
    int64_t default_enis; /* interfaces of the default network card */
    int64_t ips_per_eni;
    int64_t max_pods; /* what the instance type alone gives */
};

/* Could `text` be computed for some instance type? 0; else -EINVAL with one sentence in `why`. */
int nc_expression_check(const char *text, char *why, size_t size);

/* Computes `text`. 0 and *ret in 1 … 2^31 - 1; else -EINVAL with one sentence in `why`. */
int nc_expression_evaluate(const char *text, const struct nc_expression_variables *v, int64_t *ret,
                           char *why, size_t size);

#endif
