/*
 * What the controller counts, as Prometheus text. No label has a value that a node could choose.
 */
#include "step.h"

static void add_mode(struct nc_metrics *m, const struct nc_control *c) {
    nc_metric_family(m, "mode", NC_GAUGE, "Mode of the controller: 1 for the current one.");
    for (enum nc_control_mode mode = 0; mode < _NC_CONTROL_MODE_MAX; mode++)
        nc_metric_count_by(m, "mode", nc_control_mode_name(mode), c->mode == mode);
}

static void add_objects(struct nc_metrics *m, const struct nc_control_counts *n) {
    nc_metric_family(m, "objects", NC_GAUGE, "Objects in memory, by kind.");
    for (enum nc_control_kind k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        nc_metric_count_by(m, "kind", nc_control_kind_name(k), n->objects[k]);
    nc_metric_family(m, "invalid_objects_total", NC_COUNTER,
                     "Objects received that could not be read, by kind.");
    for (enum nc_control_kind k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        nc_metric_count_by(m, "kind", nc_control_kind_name(k), n->unreadable[k]);
}

static void add_writes(struct nc_metrics *m, const struct nc_control_counts *n) {
    static const char *const answers[] = {
        [NC_CONTROL_DONE] = "done",
        [NC_CONTROL_MISSING] = "missing",
        [NC_CONTROL_CONFLICT] = "conflict",
        [NC_CONTROL_REFUSED] = "refused",
        [NC_CONTROL_UNAVAILABLE] = "unavailable",
    };

    nc_metric_family(m, "write_requests_total", NC_COUNTER, "Writes and Events sent, by verb.");
    for (enum nc_control_verb v = NC_CONTROL_SET_TIMESTAMP; v <= NC_CONTROL_EMIT_EVENT; v++)
        nc_metric_count_by(m, "verb", nc_control_verb_name(v), n->requested[v]);
    nc_metric_family(m, "write_answers_total", NC_COUNTER, "Writes answered, by verb and answer.");
    for (enum nc_control_verb v = NC_CONTROL_SET_TIMESTAMP; v < NC_CONTROL_EMIT_EVENT; v++)
        for (enum nc_control_answer a = NC_CONTROL_DONE; a <= NC_CONTROL_UNAVAILABLE; a++)
            nc_metric_count(m, NC_LABELS("verb", nc_control_verb_name(v), "answer", answers[a]),
                            n->answered[v][a]);
}

void nc_control_metrics(const struct nc_control *c, uint64_t now_usec, struct nc_buf *out) {
    struct nc_metrics m = {.out = out, .prefix = "nodeclaim_controller_"};
    struct nc_control_counts n;

    nc_control_count(c, now_usec, &n);
    nc_metric_one(&m, "leads", NC_GAUGE, "Whether this process is the leader.", c->leads);
    add_mode(&m, c);
    add_objects(&m, &n);
    nc_metric_one(&m, "invalid_drain_statuses_total", NC_COUNTER,
                  "Drain statuses received that could not be read.", n.invalid_drain_statuses);
    nc_metric_one(&m, "invalid_termination_timestamps_total", NC_COUNTER,
                  "Termination timestamps received that could not be read.", c->bad_timestamps);
    nc_control_metrics_without_node(&m, c);
    nc_control_metrics_overhead(&m, c);
    nc_metric_one(&m, "agent_nodes", NC_GAUGE,
                  "Nodes with nodeclaimd, by their annotation nodeclaimd.io/bootstrap, that are "
                  "not being deleted and older than ten minutes.",
                  n.agents);
    nc_metric_one(&m, "relaying", NC_GAUGE, "Notices that are not yet relayed to their NodeClaim.",
                  n.relaying);
    nc_metric_one(&m, "draining", NC_GAUGE, "Nodes that report a drain.", n.draining);
    nc_metric_family(&m, "drains_total", NC_COUNTER,
                     "Drains that were observed to end, by the phase that the node reported.");
    nc_metric_count_by(&m, "phase", nc_control_phase_name(CONTROL_PHASE_DRAINED), n.drained);
    nc_metric_count_by(&m, "phase", nc_control_phase_name(CONTROL_PHASE_FAILED), n.failed);
    nc_metric_one(&m, "unfit_nodes", NC_GAUGE,
                  "Nodes that report that they are not fit to take pods.", n.unfit);
    nc_metric_one(&m, "unfit_overdue_nodes", NC_GAUGE,
                  "Nodes that keep the taint nodeclaimd.io/unfit beyond its timeout.",
                  n.unfit_overdue);
    nc_metric_one(&m, "waiting", NC_GAUGE, "Objects whose write is queued.", n.waiting);
    nc_metric_one(&m, "in_flight", NC_GAUGE, "Writes that are not yet answered.", n.in_flight);
    add_writes(&m, &n);
    nc_metric_histogram(&m, "relay_duration_seconds",
                        "Time from a node's notice to the accepted deletion of its NodeClaim.",
                        &n.relays);
    nc_metric_one(&m, "rate_limited_writes_total", NC_COUNTER,
                  "Writes delayed because their object had too many.", n.rate_limited);
}
