/*
 * A report as text: status.json, the console's line, the annotation, metrics. What is reported is
 * decided in phases.c.
 */
#include <inttypes.h>
#include <stdio.h>

#include "nc/mem.h"
#include "nc/prometheus.h"
#include "nc/quantity.h"
#include "nc/report.h"
#include "nc/version.h"

#define ANNOTATION_MAX_BYTES 2048
#define CONSOLE_WARNINGS ((size_t)4) /* status.json has all */

static struct nc_value *error_tree(const struct nc_phase_entry *e) {
    struct nc_value *map;

    if (!e->has_error)
        return nc_value_new(NC_VALUE_NULL);
    map = nc_value_new_map();
    nc_value_set_string(map, "class", nc_err_class_name(e->error.class));
    nc_value_set_int(map, "code", e->error.code);
    nc_value_set_string(map, "message", e->error.msg);
    nc_value_set_string(map, "remedy", e->error.remedy);
    return map;
}

static struct nc_value *phase_tree(const struct nc_report *r, enum nc_phase p, uint64_t now_usec) {
    const struct nc_phase_entry *e = &r->phases[p];
    struct nc_value *map = nc_value_new_map();
    uint64_t duration = e->duration_usec;

    if (e->outcome == NC_RUNNING && now_usec > e->started_usec)
        duration = now_usec - e->started_usec;
    nc_value_set_string(map, "name", nc_phase_name(p));
    nc_value_set_time(map, "started", e->started_usec);
    nc_value_set_int(map, "durationUsec", (int64_t)duration);
    nc_value_set_int(map, "attempts", e->attempts);
    nc_value_set_string(map, "outcome", nc_outcome_name(e->outcome));
    nc_value_set(map, "error", error_tree(e));
    return map;
}

/* Quantities as Kubernetes prints them; what is unknown is left out. */
static struct nc_value *resources_tree(const struct nc_resources *r) {
    struct nc_value *map = nc_value_new_map();
    char text[32];

    if (r->cpu_millicores >= 0) {
        nc_quantity_format_milli(r->cpu_millicores, text);
        nc_value_set_string(map, "cpu", text);
    }
    if (r->memory_bytes >= 0) {
        nc_quantity_format_bytes(r->memory_bytes, text);
        nc_value_set_string(map, "memory", text);
    }
    if (r->ephemeral_bytes >= 0) {
        nc_quantity_format_bytes(r->ephemeral_bytes, text);
        nc_value_set_string(map, "ephemeral-storage", text);
    }
    if (r->pods >= 0) {
        (void)snprintf(text, sizeof(text), "%" PRId64, r->pods);
        nc_value_set_string(map, "pods", text);
    }
    return map;
}

static struct nc_value *instance_tree(const struct nc_report *r) {
    struct nc_value *map = nc_value_new_map();

    nc_value_set_text(map, "id", r->instance_id);
    nc_value_set_text(map, "type", r->instance_type);
    nc_value_set_text(map, "az", r->az);
    nc_value_set_text(map, "region", r->region);
    nc_value_set_text(map, "lifeCycle", r->purchase_option);
    return map;
}

static struct nc_value *claim_tree(const struct nc_report *r) {
    struct nc_value *map;

    if (!r->claim_name)
        return nc_value_new(NC_VALUE_NULL);
    map = nc_value_new_map();
    nc_value_set_text(map, "name", r->claim_name);
    nc_value_set_text(map, "uid", r->claim_uid);
    nc_value_set_text(map, "source", r->claim_source);
    return map;
}

static struct nc_value *allocatable_tree(const struct nc_report *r) {
    struct nc_value *map = nc_value_new_map();

    nc_value_set(map, "predicted",
                 r->has_predicted ? resources_tree(&r->predicted) : nc_value_new(NC_VALUE_NULL));
    nc_value_set(map, "actual", r->actual ? nc_value_copy(r->actual) : nc_value_new(NC_VALUE_NULL));
    nc_value_set(map, "differences", nc_value_new_strings(r->differences.v, r->differences.n));
    return map;
}

static struct nc_value *waiting_tree(const struct nc_report *r) {
    struct nc_value *map;

    if (!r->waiting_reason)
        return nc_value_new(NC_VALUE_NULL);
    map = nc_value_new_map();
    nc_value_set_string(map, "reason", r->waiting_reason);
    nc_value_set_text(map, "message", r->waiting);
    return map;
}

static struct nc_value *cloud_init_tree(const struct nc_report *r) {
    struct nc_value *map;

    if (!r->cloud_init_why)
        return nc_value_new(NC_VALUE_NULL);
    map = nc_value_new_map();
    nc_value_set_bool(map, "waits", r->cloud_init_waits);
    nc_value_set_string(map, "why", r->cloud_init_why);
    if (r->changed.n > 0)
        nc_value_set(map, "changed", nc_value_new_strings(r->changed.v, r->changed.n));
    return map;
}

struct nc_value *nc_report_tree(const struct nc_report *r, uint64_t now_usec) {
    struct nc_value *root = nc_value_new_map();
    struct nc_value *phases;

    nc_value_set_int(root, "schema", NC_STATUS_SCHEMA);
    nc_value_set_string(root, "version", nc_version);
    nc_value_set_text(root, "node", r->node);
    nc_value_set(root, "instance", instance_tree(r));
    nc_value_set(root, "nodeClaim", claim_tree(r));
    nc_value_set_string(root, "outcome", nc_outcome_name(r->outcome));
    nc_value_set_time(root, "started", r->started_usec);
    nc_value_set_time(root, "deadline", r->deadline_usec);
    nc_value_set_time(root, "updated", now_usec);
    phases = nc_value_add_list(root, "phases");
    for (enum nc_phase p = NC_PHASE_IMDS; p < _NC_PHASE_MAX; p++)
        if (nc_phase_is_shown(r, p))
            nc_value_push(phases, phase_tree(r, p, now_usec));
    nc_value_set(root, "waiting", waiting_tree(r));
    nc_value_set(root, "cloudInit", cloud_init_tree(r));
    nc_value_set(root, "allocatable", allocatable_tree(r));
    nc_value_set(root, "conditions",
                 r->conditions ? nc_value_copy(r->conditions) : nc_value_new_list());
    nc_value_set(root, "drain", nc_value_new(NC_VALUE_NULL));
    nc_value_set(root, "warnings", nc_value_new_strings(r->warnings.v, r->warnings.n));
    return root;
}

/* What the console and the annotation have in common: how it ended or how far it is, and where. */
static struct nc_value *summary(const struct nc_report *r, uint64_t now_usec) {
    struct nc_value *map = nc_value_new_map();
    const enum nc_phase p = nc_report_current(r);
    const struct nc_phase_entry *e = &r->phases[p];
    const uint64_t end = r->ended_usec ? r->ended_usec : now_usec;

    nc_value_set_string(map, "outcome", nc_outcome_name(r->outcome));
    nc_value_set_string(map, "phase", nc_phase_name(p));
    if (e->has_error) {
        nc_value_set_string(map, "class", nc_err_class_name(e->error.class));
        nc_value_set_int(map, "code", e->error.code);
        nc_value_set_string(map, "message", e->error.msg);
        nc_value_set_string(map, "remedy", e->error.remedy);
        nc_value_set_int(map, "attempts", e->attempts);
    }
    if (r->waiting)
        nc_value_set_string(map, "waiting", r->waiting);
    nc_value_set_int(map, "duration_usec",
                     (int64_t)(end > r->started_usec ? end - r->started_usec : 0));
    nc_value_set_text(map, "node", r->node);
    nc_value_set_text(map, "instance", r->instance_id);
    return map;
}

void nc_report_console(const struct nc_report *r, uint64_t now_usec, struct nc_buf *out) {
    nc_auto_value struct nc_value *map = summary(r, now_usec);
    const size_t n = r->warnings.n < CONSOLE_WARNINGS ? r->warnings.n : CONSOLE_WARNINGS;

    if (n > 0)
        nc_value_set(map, "warnings", nc_value_new_strings(r->warnings.v, n));
    nc_value_set_time(map, "at", now_usec);
    (void)nc_buf_puts(out, "nodeclaimd: ");
    nc_json_write(out, map, 0);
}

/* What goes first where all of it would be too long; the rest is bounded. */
static const char expendable[][12] = {"differences", "remedy", "message"};

void nc_report_annotation(const struct nc_report *r, struct nc_buf *out) {
    nc_auto_value struct nc_value *map = summary(r, r->started_usec);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_value *phases;

    nc_value_set_string(map, "version", nc_version);
    phases = nc_value_add_map(map, "phases_usec");
    for (enum nc_phase p = NC_PHASE_IMDS; p < _NC_PHASE_MAX; p++)
        if (r->phases[p].attempts > 0)
            nc_value_set_int(phases, nc_phase_name(p), (int64_t)r->phases[p].duration_usec);
    nc_value_set_text(map, "memory", nc_value_get_string(r->actual, "memory"));
    if (r->differences.n > 0)
        nc_value_set(map, "differences", nc_value_new_strings(r->differences.v, r->differences.n));
    nc_json_write(&text, map, 0);
    for (size_t i = 0; text.len > ANNOTATION_MAX_BYTES && i < NC_ARRAY_SIZE(expendable); i++) {
        (void)nc_value_remove(map, expendable[i]);
        nc_buf_clear(&text);
        nc_json_write(&text, map, 0);
    }
    (void)nc_buf_puts(out, text.data);
}

void nc_report_metrics(const struct nc_report *r, struct nc_buf *out) {
    struct nc_metrics m = {.out = out, .prefix = "nodeclaimd_bootstrap_"};

    nc_metric_family(&m, "phase_duration_seconds", NC_GAUGE, "Duration of each bootstrap phase.");
    for (enum nc_phase p = NC_PHASE_IMDS; p < _NC_PHASE_MAX; p++)
        if (nc_phase_is_shown(r, p))
            nc_metric_usec_by(&m, "phase", nc_phase_name(p), (int64_t)r->phases[p].duration_usec);
    nc_metric_family(&m, "phase_attempts_total", NC_COUNTER, "Attempts of each bootstrap phase.");
    for (enum nc_phase p = NC_PHASE_IMDS; p < _NC_PHASE_MAX; p++)
        if (nc_phase_is_shown(r, p))
            nc_metric_count_by(&m, "phase", nc_phase_name(p), r->phases[p].attempts);
    nc_metric_family(&m, "phase_error", NC_GAUGE,
                     "Last error of a phase that runs or failed, by class; always 1.");
    for (enum nc_phase p = NC_PHASE_IMDS; p < _NC_PHASE_MAX; p++)
        if (r->phases[p].has_error)
            nc_metric_count(&m,
                            NC_LABELS("phase", nc_phase_name(p), "class",
                                      nc_err_class_name(r->phases[p].error.class)),
                            1);
    nc_metric_family(&m, "unsupported_fields", NC_GAUGE,
                     "Fields of the documents that are set and not honoured.");
    nc_metric_count(&m, NULL, r->unsupported);
    nc_metric_family(&m, "outcome", NC_GAUGE, "Outcome of the bootstrap: 1 for the current one.");
    for (enum nc_outcome o = NC_RUNNING; o <= NC_FAILED; o++)
        nc_metric_count_by(&m, "outcome", nc_outcome_name(o), r->outcome == o);
}
