/*
 * Anchors, aliases and merge keys of YAML: private to this layer.
 */
#ifndef NC_BASE_YAML_ANCHOR_H
#define NC_BASE_YAML_ANCHOR_H

#include <stdbool.h>
#include <stddef.h>

#include "nc/value.h"

/* A value that aliases may name, as it was when it was complete. */
struct nc_yaml_anchor {
    char *name;
    const struct nc_value *open; /* the container while it is not complete; borrowed */
    struct nc_value *value;      /* NULL until then */
};

/* The anchors of a document; of the same name the last one counts. */
struct nc_yaml_anchors {
    struct nc_yaml_anchor *v;
    size_t n;
    size_t bytes; /* of text that was copied for all of them and for their aliases */
};

/* v becomes the value of the anchor, at once or, where it is open, with nc_yaml_anchor_close().
 * *nodes grows by what is copied. These return NULL, or what is wrong. */
const char *nc_yaml_anchor_set(struct nc_yaml_anchors *a, const char *name,
                               const struct nc_value *v, bool is_open, size_t *nodes);
const char *nc_yaml_anchor_close(struct nc_yaml_anchors *a, const struct nc_value *v,
                                 size_t *nodes);
/* A copy of v for a place so deep in the document: *ret. */
const char *nc_yaml_copy(struct nc_yaml_anchors *a, const struct nc_value *v, size_t depth,
                         size_t *nodes, struct nc_value **ret);
/* Borrowed; NULL where there is none. */
const struct nc_yaml_anchor *nc_yaml_anchor_find(const struct nc_yaml_anchors *a, const char *name);
void nc_yaml_anchors_done(struct nc_yaml_anchors *a); /* it can be used again */

/* Puts the members of each map that a merge key names (a member without a key) in its place. Of
 * equal keys the last one stays, in a list of maps that of the first map. NULL, or the value that
 * is neither a map nor a list of maps; the map is then as it was. */
const struct nc_value *nc_yaml_merge(struct nc_value *map);

#endif
