/*
 * What the controller tells people and programs: counts, a report of every node, Prometheus text.
 */
#include "control-priv.h"
#include "nc/str.h"

void nc_control_count(const struct nc_control *c, uint64_t now_usec,
                      struct nc_control_counts *ret) {
    (void)now_usec;
    *ret = c->counts;
}

struct nc_value *nc_control_report(const struct nc_control *c, uint64_t now_usec) {
    (void)c;
    (void)now_usec;
    return nc_value_new(NC_VALUE_MAP);
}

void nc_control_text(const struct nc_value *report, struct nc_buf *out) {
    (void)report;
    (void)out;
}

void nc_control_metrics(const struct nc_control *c, uint64_t now_usec, struct nc_buf *out) {
    (void)c;
    (void)now_usec;
    (void)out;
}
