/*
 * Eviction thresholds.
 *
 * kubelet exits on a soft threshold without a grace period; Karpenter's schema refuses a grace
 * period without a threshold as well. Both are reported here, before anything is written. A
 * percentage is a float32 in kubelet, so "10%" of 20 GiB is 32 bytes more than a tenth: the
 * prediction does the same arithmetic.
 */
#include "numbers.h"

#include <errno.h>

#include "nc/quantity.h"
#include "nc/str.h"
#include "origin.h"
#include "shapes.h"

int nc_eviction_bytes(const char *threshold, int64_t capacity_bytes, enum nc_percent_rule rule,
                      int64_t *ret) {
    float percent;
    double exact, bytes;

    if (!nc_ends_with(threshold, "%"))
        return nc_quantity_value(threshold, ret);
    if (!nc_shape_percent(threshold, &percent, &exact) || exact > 100)
        return -EINVAL;
    if (nc_streq(threshold, "0%") || nc_streq(threshold, "100%")) {
        *ret = 0; /* both turn the threshold off */
        return 0;
    }
    if (rule == NC_PERCENT_KUBELET) {
        float fraction = percent / 100.0f;
        *ret = (int64_t)((double)capacity_bytes * (double)fraction);
        return 0;
    }
    bytes = (double)capacity_bytes / 100 * exact;
    *ret = (int64_t)bytes;
    *ret += (double)*ret < bytes;
    return 0;
}

/* Soft thresholds and grace periods go together, in both directions. */
int nc_eviction_check(const struct nc_value *kubelet, const struct nc_documents *docs,
                      struct nc_err *err) {
    const struct nc_value *soft = nc_value_get(kubelet, "evictionSoft");
    const struct nc_value *grace = nc_value_get(kubelet, "evictionSoftGracePeriod");

    for (size_t i = 0; soft && i < soft->n; i++)
        if (!nc_value_get(grace, soft->members[i].key))
            return nc_kubelet_error(
                err, docs, soft->members[i].value,
                "evictionSoft.%s: has no grace period in evictionSoftGracePeriod",
                soft->members[i].key);
    for (size_t i = 0; grace && i < grace->n; i++) {
        const struct nc_member *m = &grace->members[i];
        if (!nc_value_get(soft, m->key))
            return nc_kubelet_error(
                err, docs, m->value,
                "evictionSoftGracePeriod.%.64s: has no threshold in evictionSoft", m->key);
    }
    return 0;
}
