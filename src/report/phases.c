/*
 * The bookkeeping of phases: which runs, how often it was tried, what its last failure was.
 */
#include "nc/report.h"
#include "nc/str.h"

#include <stdlib.h>

static const struct {
    char name[12];
    bool is_optional; /* of no interest where there was nothing to do */
} phases[_NC_PHASE_MAX] = {
#define ROW(id, name, is_optional) {name, is_optional},
    NC_PHASES(ROW)
#undef ROW
};

const char *nc_phase_name(enum nc_phase p) {
    return (unsigned)p < _NC_PHASE_MAX ? phases[p].name : "unknown";
}

char *nc_phase_message(enum nc_phase p, const char *message) {
    const char *name = nc_phase_name(p);
    const bool says_it =
        nc_starts_with(message, name) && nc_starts_with(message + strlen(name), ": ");

    return says_it ? nc_strdup(message) : nc_asprintf("%s: %s", name, message);
}

bool nc_phase_is_shown(const struct nc_report *r, enum nc_phase p) {
    return !phases[p].is_optional || r->phases[p].attempts > 0;
}

const char *nc_outcome_name(enum nc_outcome o) {
    const char *name = nc_name_at("pending\0running\0succeeded\0failed\0skipped\0", o);

    return name ? name : "unknown";
}

#define AT(member) offsetof(struct nc_report, member)

void nc_report_done(struct nc_report *r) {
    static const unsigned short texts[] = {
        AT(node),         AT(instance_id),     AT(instance_type), AT(az),
        AT(region),       AT(purchase_option), AT(claim_name),    AT(claim_uid),
        AT(claim_source), AT(waiting_reason),  AT(waiting),       AT(cloud_init_why)};

    nc_free_texts(r, texts, NC_ARRAY_SIZE(texts));
    nc_value_free(r->actual);
    nc_value_free(r->conditions);
    nc_strv_done(&r->differences);
    nc_strv_done(&r->warnings);
    nc_strv_done(&r->changed);
    *r = (struct nc_report)NC_REPORT_INIT;
}

void nc_report_start(struct nc_report *r, uint64_t now_usec, uint64_t deadline_usec) {
    r->outcome = NC_RUNNING;
    r->started_usec = now_usec;
    r->deadline_usec = deadline_usec;
}

static void end_entry(struct nc_phase_entry *e, enum nc_outcome outcome, uint64_t now_usec) {
    e->outcome = outcome;
    if (e->started_usec == 0)
        e->started_usec = now_usec;
    e->duration_usec = now_usec > e->started_usec ? now_usec - e->started_usec : 0;
}

static void add_error(struct nc_phase_entry *e, const struct nc_err *err) {
    e->has_error = true;
    e->error = *err;
}

void nc_report_attempt(struct nc_report *r, enum nc_phase p, uint64_t now_usec) {
    r->phases[p].attempts++;
    end_entry(&r->phases[p], NC_RUNNING, now_usec);
}

void nc_report_retrying(struct nc_report *r, enum nc_phase p, const struct nc_err *e,
                        uint64_t now_usec) {
    end_entry(&r->phases[p], NC_RUNNING, now_usec);
    add_error(&r->phases[p], e);
}

void nc_report_succeed(struct nc_report *r, enum nc_phase p, uint64_t now_usec) {
    end_entry(&r->phases[p], NC_SUCCEEDED, now_usec);
    r->phases[p].has_error = false;
}

void nc_report_postpone(struct nc_report *r, enum nc_phase p, bool keeps_start) {
    const uint64_t started_usec = keeps_start ? r->phases[p].started_usec : 0;

    r->phases[p] = (struct nc_phase_entry){.started_usec = started_usec};
}

void nc_report_skip(struct nc_report *r, enum nc_phase p) {
    r->phases[p].outcome = NC_SKIPPED;
}

void nc_report_fail(struct nc_report *r, enum nc_phase p, const struct nc_err *e,
                    uint64_t now_usec) {
    end_entry(&r->phases[p], NC_FAILED, now_usec);
    add_error(&r->phases[p], e);
    nc_report_set_waiting(r, NULL, NULL);
    r->outcome = NC_FAILED;
    r->ended_usec = now_usec;
}

void nc_report_finish(struct nc_report *r, uint64_t now_usec) {
    r->outcome = NC_SUCCEEDED;
    r->ended_usec = now_usec;
}

enum nc_phase nc_report_current(const struct nc_report *r) {
    enum nc_phase last = NC_PHASE_IMDS;

    for (enum nc_phase p = NC_PHASE_IMDS; p < _NC_PHASE_MAX; p++)
        if (r->phases[p].outcome == NC_FAILED)
            return p;
    for (enum nc_phase p = NC_PHASE_IMDS; p < _NC_PHASE_MAX; p++) {
        if (r->phases[p].outcome == NC_RUNNING)
            return p;
        if (r->phases[p].outcome == NC_SUCCEEDED)
            last = p;
    }
    return last;
}

void nc_report_set_facts(struct nc_report *r, const struct nc_facts *f) {
    nc_replace_text(&r->instance_id, f->instance_id);
    nc_replace_text(&r->instance_type, f->instance_type);
    nc_replace_text(&r->az, f->az);
    nc_replace_text(&r->region, f->region);
    nc_replace_text(&r->purchase_option, f->purchase_option == NC_PURCHASE_UNKNOWN
                                             ? NULL
                                             : nc_purchase_option_name(f->purchase_option));
}

void nc_report_set_plan(struct nc_report *r, const struct nc_plan *p) {
    nc_replace_text(&r->node, p->node_name);
    r->has_predicted = true;
    r->predicted = p->allocatable;
    for (size_t i = 0; i < p->warnings.n; i++)
        nc_strv_add_once(&r->warnings, p->warnings.v[i]);
    for (size_t i = 0; i < p->less.n; i++)
        nc_strv_add_once(&r->warnings, p->less.v[i]);
}

void nc_report_set_claim(struct nc_report *r, const struct nc_claim *c, const char *source) {
    nc_replace_text(&r->claim_name, c->name);
    nc_replace_text(&r->claim_uid, c->uid);
    nc_replace_text(&r->claim_source, source);
}

void nc_report_set_cloud_init(struct nc_report *r, bool waits, const char *why) {
    r->cloud_init_waits = waits;
    nc_replace_text(&r->cloud_init_why, why);
}

void nc_report_set_waiting(struct nc_report *r, const char *reason, const char *message) {
    nc_replace_text(&r->waiting_reason, reason);
    nc_replace_text(&r->waiting, message);
}

/* Without our own: what it was before our last write would stay in the report for ever. */
static struct nc_value *short_conditions(const struct nc_value *conditions) {
    static const char keys[][8] = {"type", "status", "reason"};
    struct nc_value *list = nc_value_new_list();
    const struct nc_value *condition;

    for (size_t i = 0; (condition = nc_value_item(conditions, i)); i++) {
        struct nc_value *one;
        if (nc_value_says(condition, "type", "BootstrapComplete"))
            continue;
        one = nc_value_new_map();
        for (size_t k = 0; k < NC_ARRAY_SIZE(keys); k++) {
            const char *text = nc_value_get_string(condition, keys[k]);
            if (text)
                nc_value_set_string(one, keys[k], text);
        }
        nc_value_push(list, one);
    }
    return list;
}

void nc_report_set_node(struct nc_report *r, const struct nc_value *node, const struct nc_plan *p,
                        const struct nc_claim *c) {
    const struct nc_value *allocatable = nc_value_path(node, "status.allocatable");

    nc_value_free(r->conditions);
    r->conditions = short_conditions(nc_value_path(node, "status.conditions"));
    if (!allocatable || allocatable->type != NC_VALUE_MAP || allocatable->n == 0)
        return;
    nc_value_free(r->actual);
    r->actual = nc_value_copy(allocatable);
    nc_strv_done(&r->differences);
    nc_allocatable_explain(p, nc_value_path(node, "status.capacity"), allocatable, c,
                           &r->differences);
}
