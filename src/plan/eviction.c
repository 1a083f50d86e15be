/*
 * Eviction thresholds.
 *
 * kubelet exits on a threshold that it cannot read and on a soft one without a grace period;
 * Karpenter's schema refuses a grace period without a threshold as well. Both are reported here,
 * before anything is written. A percentage is a float32 in kubelet, so "10%" of 20 GiB is 32 bytes
 * more than a tenth: the prediction does the same arithmetic.
 */
#include "numbers.h"

#include <errno.h>
#include <stdlib.h>

#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/time.h"
#include "origin.h"
#include "schema.h"

/* "7.5%" -> its number. Digits with at most one point. The program never sets a locale: strtod
 * reads a point. */
static bool parse_percent(const char *text, float *ret_float, double *ret_double) {
    size_t n = strlen(text), points = 0;
    char number[32];

    if (n < 2 || n > sizeof(number) || text[n - 1] != '%')
        return false;
    memcpy(number, text, n - 1);
    number[n - 1] = '\0';
    for (size_t i = 0; number[i]; i++) {
        points += number[i] == '.';
        if ((number[i] < '0' || number[i] > '9') && number[i] != '.')
            return false;
    }
    if (points > 1 || number[0] == '.' || number[n - 2] == '.')
        return false;
    *ret_float = strtof(number, NULL);
    *ret_double = strtod(number, NULL);
    return true;
}

int nc_eviction_bytes(const char *threshold, int64_t capacity_bytes, enum nc_percent_rule rule,
                      int64_t *ret) {
    float percent;
    double exact, bytes;

    if (!nc_ends_with(threshold, "%"))
        return nc_quantity_value(threshold, ret);
    if (!parse_percent(threshold, &percent, &exact) || exact > 100)
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

/* One value of evictionHard, evictionSoft or evictionMinimumReclaim. */
static int check_threshold(const char *field, const struct nc_member *m, bool reclaim,
                           const struct nc_documents *docs, struct nc_err *err) {
    const char *text = m->value->text; /* a string, of a known signal: the schema has seen to it */
    nc_auto_free char *quoted = nc_quote_string(text);
    float percent;
    double exact;
    int64_t value;

    if (nc_ends_with(text, "%")) {
        if (parse_percent(text, &percent, &exact) && exact <= 100 && (!reclaim || exact > 0))
            return 0;
        return nc_kubelet_error(err, docs, m->value,
                                "%s.%s: %s: a percentage from 0%% to 100%% is needed", field,
                                m->key, quoted);
    }
    if (nc_quantity_value(text, &value) < 0)
        return nc_kubelet_error(err, docs, m->value,
                                "%s.%s: %s is neither a quantity nor a percentage", field, m->key,
                                quoted);
    if (value < 0 || (value == 0 && !reclaim))
        return nc_kubelet_error(err, docs, m->value, "%s.%s: %s: must be positive", field, m->key,
                                quoted);
    return 0;
}

static int check_thresholds(const struct nc_value *kubelet, const char *field, bool reclaim,
                            const struct nc_documents *docs, struct nc_err *err) {
    const struct nc_value *map = nc_value_get(kubelet, field);
    int r = 0;

    for (size_t i = 0; map && i < map->n && r == 0; i++)
        r = check_threshold(field, &map->members[i], reclaim, docs, err);
    return r;
}

/* Soft thresholds and grace periods go together, in both directions. */
static int check_soft(const struct nc_value *kubelet, const struct nc_documents *docs,
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
        const char *text = nc_value_string(m->value);
        uint64_t usec;
        if (!nc_value_get(soft, m->key))
            return nc_kubelet_error(
                err, docs, m->value,
                "evictionSoftGracePeriod.%.64s: has no threshold in evictionSoft", m->key);
        if (!text || nc_duration_parse(text, &usec) < 0)
            return nc_kubelet_error(err, docs, m->value,
                                    "evictionSoftGracePeriod.%s: a duration is needed (\"1m30s\")",
                                    m->key);
    }
    return 0;
}

int nc_eviction_check(const struct nc_value *kubelet, const struct nc_documents *docs,
                      struct nc_err *err) {
    int r = check_thresholds(kubelet, "evictionHard", false, docs, err);

    if (r == 0)
        r = check_thresholds(kubelet, "evictionSoft", false, docs, err);
    if (r == 0)
        r = check_soft(kubelet, docs, err);
    if (r == 0)
        r = check_thresholds(kubelet, "evictionMinimumReclaim", true, docs, err);
    return r;
}
