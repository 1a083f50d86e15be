/*
 * What the readers of YAML, TOML and JSON share: private to this layer.
 */
#ifndef NC_BASE_TEXT_PRIV_H
#define NC_BASE_TEXT_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/value.h"

/* --- str.c: one character of UTF-8 */

/* Writes the character c, which is no surrogate and at most U+10FFFF; returns its length. */
size_t nc_utf8_put(uint32_t c, char ret[static 4]);

/* --- number.c, value.c: numbers and keys of a tree */

/* Beyond this not every integer has a double of its own: a reader may round (RFC 8259 §6). */
#define NC_JSON_MAX_INTEGER ((int64_t)1 << 53)

/* text without its underscores; owned by the caller. */
char *nc_number_plain(const char *text);

/* The number of an INT or a FLOAT. A FLOAT's text may hold YAML's underscores and signs. */
double nc_number_of(const struct nc_value *v);

#define NC_NUMBER_SIZE 64

/* The shortest JSON number that reads back as d, which is finite. As Go writes it: digits and a
 * point from 1e-6 to 2^53, an exponent elsewhere. */
void nc_number_write(double d, char ret[static NC_NUMBER_SIZE]);

/* The first member whose key stands earlier in the map, too, or NULL. Members without a key (merge
 * keys of YAML) are left out. */
const struct nc_member *nc_duplicate_key(const struct nc_value *map);
/* Keeps the last one of the members that have the same key. */
void nc_drop_overridden(struct nc_value *map);

/* --- toml-string.c, toml-scalar.c */

/* A text of which all was found to be UTF-8 without forbidden control characters. */
struct nc_toml_text {
    const char *data;
    size_t n, at;
};

/* The next byte, or that many behind it; -1 at the end. */
static inline int nc_toml_peek(const struct nc_toml_text *t, size_t ahead) {
    return ahead < t->n - t->at ? (unsigned char)t->data[t->at + ahead] : -1;
}

/* Both read on from t->at and return NULL, or what is wrong at t->at, where they then stopped.
 *
 * A string from its opening quote; it replaces what is in ret. A key has no multi-line form. */
const char *nc_toml_string(struct nc_toml_text *t, bool is_key, struct nc_buf *ret);
/* A boolean, number, date or time: type and contents of v. */
const char *nc_toml_scalar(struct nc_toml_text *t, struct nc_value *v);

/* --- yaml-scalar.c */

/* Gives v (fresh, without a type) the type and content that sigs.k8s.io/yaml would read from an
 * unquoted scalar. Returns false where that would be no JSON: an infinity or a NaN. */
bool nc_yaml_resolve_plain(struct nc_value *v, const char *text);

/* --- yaml-anchor.c: anchors, aliases and merge keys */

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
