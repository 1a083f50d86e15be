/*
 * Boot and last drain of a status.json as a tree for programs: what the drawing shows, in
 * microseconds.
 *
 * As timeline.c: the file is not trusted. Every member is always there; what is not known is null.
 */
#include "nc/report.h"
#include "status-show.h"
#include "timeline-model.h"

static struct nc_value *error_tree(const struct nc_span *s) {
    struct nc_value *v = nc_value_new(s->message ? NC_VALUE_MAP : NC_VALUE_NULL);

    if (!s->message)
        return v;
    nc_value_set_text(v, "class", s->class);
    nc_value_set_text(v, "message", s->message);
    nc_value_set_text(v, "remedy", s->remedy);
    return v;
}

static struct nc_value *span_tree(const struct nc_span *s) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "name", s->name);
    nc_value_set_int(v, "startUsec", (int64_t)s->start_usec);
    nc_value_set_int(v, "durationUsec", (int64_t)s->duration_usec);
    nc_value_set(v, "error", error_tree(s));
    if (!s->outcome) /* of a drain */
        return v;
    nc_value_set_string(v, "outcome", s->outcome);
    nc_value_set_int(v, "attempts", (int64_t)s->attempts);
    return v;
}

static struct nc_value *moment_tree(const struct nc_moment *m) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "kind", nc_moment_name(m->kind));
    nc_value_set_text(v, "of", *m->text ? m->text : NULL);
    nc_value_set_time(v, "at", m->at_usec);
    nc_value_set_int(v, "afterUsec", (int64_t)m->after_usec);
    nc_value_set_text(v, "budget", m->budget);
    nc_value_set_text(v, "message", m->message);
    return v;
}

static struct nc_value *pod_tree(const struct nc_pod_row *p) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "pod", p->pod);
    nc_value_set_text(v, "refusal", p->refusal);
    for (enum nc_pod_time k = 0; k < _NC_POD_TIME_MAX; k++)
        nc_value_set_time(v, nc_pod_time_name(k), p->times_usec[k]);
    return v;
}

/* What both have. */
static struct nc_value *timeline_tree(const struct nc_timeline *t, const char *node,
                                      const char *outcome) {
    struct nc_value *v = nc_value_new_map();
    struct nc_value *spans, *moments;

    nc_value_set_text(v, "node", node);
    nc_value_set_time(v, "started", t->begin_usec);
    nc_value_set_int(v, "durationUsec", (int64_t)t->total_usec);
    nc_value_set_text(v, "outcome", outcome);
    spans = nc_value_add_list(v, "phases");
    for (size_t i = 0; i < t->n_spans; i++)
        nc_value_push(spans, span_tree(&t->spans[i]));
    moments = nc_value_add_list(v, "moments");
    for (size_t i = 0; i < t->n_moments; i++)
        nc_value_push(moments, moment_tree(&t->moments[i]));
    return v;
}

struct nc_value *nc_timeline_tree(const struct nc_value *status, uint64_t now_usec) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    const char *node = nc_timeline_node(status);
    struct nc_value *root = nc_value_new_map(), *v, *pods;
    struct nc_timeline t;

    nc_value_set_int(root, "schema", 1);
    if (nc_timeline_boot(status, &t)) {
        v = timeline_tree(&t, node, nc_show_text(status, "outcome", NULL));
        nc_value_set_text(v, "instance",
                          nc_show_text(nc_value_get(status, "instance"), "id", NULL));
        nc_value_set(root, "bootstrap", v);
    } else {
        nc_value_set(root, "bootstrap", nc_value_new(NC_VALUE_NULL));
    }
    if (nc_timeline_drain(status, now_usec, &t)) {
        v = timeline_tree(&t, node, t.spans[t.n_spans - 1].name);
        nc_value_set_text(v, "source", nc_show_text(drain, "source", NULL));
        nc_value_set_text(v, "id", nc_show_text(drain, "id", NULL));
        pods = nc_value_add_list(v, "pods");
        for (size_t i = 0; i < t.n_pods; i++)
            nc_value_push(pods, pod_tree(&t.pods[i]));
        nc_value_set(root, "drain", v);
    } else {
        nc_value_set(root, "drain", nc_value_new(NC_VALUE_NULL));
    }
    return root;
}
