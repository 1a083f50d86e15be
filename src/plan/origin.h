/*
 * Provenance: where each final value came from, and what it overrode.
 */
#ifndef NC_PLAN_ORIGIN_H
#define NC_PLAN_ORIGIN_H

#include "nc/plan.h"

/* "user-data part 1:12:3", "" where the mark is of no document. docs may be NULL. Owned. */
char *nc_origin_mark(const struct nc_documents *docs, struct nc_mark mark);

/* Puts one origin. Where the field has one already, that one becomes what was overrode. */
void nc_origin_set(struct nc_plan *p, const char *field, const char *value, const char *from);

/* The same for one whose history is known: `overrode` is taken over as it is ("" = nothing). */
void nc_origin_add(struct nc_plan *p, const char *field, const char *value, const char *from,
                   const char *overrode);

/* Where a field that was put came from. Borrowed, valid until the next put. */
const char *nc_origin_from(const struct nc_plan *p, const char *field);

/* An error about a value of a document: "ORIGIN: message". Class CONFIG, -EINVAL. */
int nc_origin_error(struct nc_err *err, const struct nc_documents *docs, const struct nc_value *v,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same about a field of KubeletConfiguration: the message begins with its name. */
int nc_kubelet_error(struct nc_err *err, const struct nc_documents *docs, const struct nc_value *v,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Puts the place before the message of an error that is filled; none where the mark is of no
 * document. */
void nc_origin_blame(struct nc_err *err, const struct nc_documents *docs, struct nc_mark mark);

/* The last warning holds on every instance. Its text is that from `at` on. */
void nc_origin_certain(struct nc_plan *p, struct nc_mark mark, const char *path, size_t at);

/* A field that is set and not honoured: refused with its place; or, where the documents allow that,
 * put into unsupported and warnings of p, and 0. */
int nc_origin_refuse(const struct nc_plan_input *in, const char *path, const char *message,
                     struct nc_plan *p, struct nc_err *err);
/* The same: "is not supported: WHY". */
int nc_origin_unsupported(const struct nc_plan_input *in, const char *path, const char *why,
                          struct nc_plan *p, struct nc_err *err);

/* Why the base has what it has: reasons by dotted path ("maxPods", "kubeReserved.memory"). */
struct nc_reason {
    char *path;
    char *text;
};

struct nc_reasons {
    struct nc_reason *v;
    size_t n;
};

void nc_reasons_set(struct nc_reasons *r, const char *path, const char *text);
void nc_reasons_done(struct nc_reasons *r);

/* kubelet's configuration, layer by layer; user and flags may be NULL. */
struct nc_layers {
    const struct nc_value *base; /* what the plan computed, with its reasons */
    const struct nc_reasons *reasons;
    const struct nc_value *user; /* marks, and what it overrode among documents */
    const struct nc_value *flags;
};

/* Origins of kubelet's configuration: one a top-level field of p->kubelet_effective
 * ("spec.kubelet.config.maxPods") and one a member of each map in it. */
void nc_origin_kubelet(struct nc_plan *p, const struct nc_documents *docs,
                       const struct nc_layers *layers);
/* What the configuration asks of the host ("spec.instance.environment.containerd"). */
void nc_origin_host(struct nc_plan *p, const struct nc_documents *docs, const struct nc_config *c);

/* A tree whose values came from documents, or are ours: the marks of ours are zero. */
struct nc_origin_text {
    const struct nc_documents *docs;
    const struct nc_reasons *reasons; /* of ours, by path ("a/b/c"); NULL = ours are not told */
    const char *within; /* NULL, or the field whose text the lines of the marks are counted in */
};

/* Origins of its values, each named below `name`; a map is told by its members. */
void nc_origin_tree(struct nc_plan *p, const char *name, const struct nc_value *v,
                    const struct nc_origin_text *text);

#endif
