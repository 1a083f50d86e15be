/*
 * The tree that every document becomes, whether it was YAML, JSON or TOML.
 *
 * Each value remembers where it was written (source, line, column) and, after a merge, what it
 * overrode: that is what `check` and `explain` print. A tree owns its children. Numbers are exact:
 * an integer is an int64, anything else keeps the text in which it was written. Only of JSON, which
 * cJSON reads, it is the double that counts: 1.0 is an integer there.
 */
#ifndef NC_VALUE_H
#define NC_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/str.h"

enum nc_value_type {
    NC_VALUE_NULL = 0,
    NC_VALUE_BOOL,
    NC_VALUE_INT,
    NC_VALUE_FLOAT, /* text holds it */
    NC_VALUE_STRING,
    NC_VALUE_MAP,
    NC_VALUE_LIST,
    NC_VALUE_TIME, /* of TOML only: text holds it */
    _NC_VALUE_TYPE_MAX
};

struct nc_value {
    enum nc_value_type type;
    struct nc_mark mark;
    bool boolean;
    int64_t integer;
    char *text; /* STRING: the text, no embedded NUL; FLOAT, TIME: as written; FLOAT of
                   JSON: the shortest text of the double */
    struct nc_member *members; /* MAP, in the order written */
    struct nc_value **items;   /* LIST */
    size_t n;                  /* members or items */
    struct nc_value
        *overrode; /* what a merge replaced here, newest first; NULL where nothing was */
};

struct nc_member {
    char *key;
    struct nc_mark mark; /* of the key */
    struct nc_value *value;
};

/* Limits of a document: beyond them parsing fails with NC_ERR_CONFIG (YAML) or NC_ERR_PROTOCOL
 * (JSON). */
#define NC_VALUE_MAX_DEPTH 64
#define NC_VALUE_MAX_NODES 200000

struct nc_value *nc_value_new(enum nc_value_type type);
__attribute__((noinline)) struct nc_value *nc_value_new_map(void); /* in a line: smaller so */
__attribute__((noinline)) struct nc_value *nc_value_new_list(void);
struct nc_value *nc_value_new_string(const char *text);
struct nc_value *nc_value_new_int(int64_t i);
struct nc_value *nc_value_new_bool(bool b);
struct nc_value *nc_value_free(struct nc_value *v); /* NULL in, NULL out */
void nc_value_wipe(struct nc_value *v);             /* each text of a tree that holds a secret */
__attribute__((always_inline)) static inline void nc_value_freep(struct nc_value **v) {
    nc_value_free(*v);
}
#define nc_auto_value nc_cleanup(nc_value_freep)

struct nc_value *nc_value_copy(const struct nc_value *v); /* deep, marks kept, overrode dropped */
bool nc_value_equal(const struct nc_value *a,
                    const struct nc_value *b); /* maps regardless of order; marks ignored */

/* Map access, case-sensitive. All tolerate NULL and values that are no map (then: NULL). Borrowed.
 */
struct nc_value *nc_value_get(const struct nc_value *v, const char *key);
/* "spec.kubelet.config": dotted path of plain keys. */
struct nc_value *nc_value_path(const struct nc_value *v, const char *path);
const char *nc_value_string(const struct nc_value *v); /* NULL where it is no string */
/* A STRING that is a document: its lines are those of the document that it is in, where they can be
 * counted so (mark.indent), else its own. */
struct nc_text nc_value_text(const struct nc_value *v);
const char *nc_value_get_string(const struct nc_value *v, const char *key);
const char *nc_value_path_string(const struct nc_value *v, const char *path);
/* A bool, or an integer; `otherwise` where it is none. Both tolerate NULL. */
bool nc_value_bool(const struct nc_value *v, bool otherwise);
int64_t nc_value_int(const struct nc_value *v, int64_t otherwise);
/* The integer under this key, `otherwise` where there is none. */
int64_t nc_value_get_int(const struct nc_value *v, const char *key, int64_t otherwise);
/* Is that member this string? NULL: is it none? */
bool nc_value_says(const struct nc_value *v, const char *key, const char *text);
/* A member of a map, in its order; NULL: there are no more, or it is no map. Borrowed. */
struct nc_member *nc_value_member(const struct nc_value *map, size_t i);
/* An item of a list, and the first one that says this. Both tolerate NULL and values that are no
 * list; NULL: there is none. Borrowed. */
struct nc_value *nc_value_item(const struct nc_value *list, size_t i);
struct nc_value *nc_value_find(const struct nc_value *list, const char *key, const char *text);
/* Text of a scalar as one would write it: strings as they are, ints and floats and bools printed
 * into buf. NULL for others. */
const char *nc_value_scalar_text(const struct nc_value *v, char buf[static 32]);

/* Both take ownership of the value; setting an existing key replaces it (the old value is freed).
 */
void nc_value_set(struct nc_value *map, const char *key, struct nc_value *value);
void nc_value_set_string(struct nc_value *map, const char *key, const char *text);
void nc_value_set_int(struct nc_value *map, const char *key, int64_t i);
/* null where it is not known. */
void nc_value_set_count(struct nc_value *map, const char *key, bool is_known, size_t n);
void nc_value_set_bool(struct nc_value *map, const char *key, bool b);
/* null where there is nothing to say: NULL and "", or time 0. Times as RFC 3339. */
void nc_value_set_text(struct nc_value *map, const char *key, const char *text);
void nc_value_set_time(struct nc_value *map, const char *key, uint64_t usec);
/* A new one under this key; borrowed. */
struct nc_value *nc_value_add_map(struct nc_value *map, const char *key);
struct nc_value *nc_value_add_list(struct nc_value *map, const char *key);
void nc_value_push(struct nc_value *list, struct nc_value *value);
void nc_value_push_string(struct nc_value *list, const char *text);
struct nc_value *nc_value_new_strings(char *const *v, size_t n);
bool nc_value_remove(struct nc_value *map, const char *key); /* true where it was there */

/* Merges `from` (consumed) over `into`: maps deep, everything else replaced; what was replaced
 * hangs on `overrode`. An explicit null and an empty string in `from` replace too. */
void nc_value_merge(struct nc_value *into, struct nc_value *from);
/* RFC 7386, the way kubelet lays its drop-ins over its file: as above, but null removes. `patch` is
 * not consumed. */
void nc_value_merge_patch(struct nc_value *into, const struct nc_value *patch);

/* Strict JSON: one value, no trailing bytes, no duplicate keys, no NUL, integers beyond
 * 2^53 refused. At most `n` bytes are read; NC_ERR_PROTOCOL on failure, with the byte offset but
 * for a duplicate key. */
int nc_json_parse(const char *data, size_t n, struct nc_value **ret, struct nc_err *err);
/* The same with a limit of its own for the count of values (NC_VALUE_MAX_NODES else); each costs
 * some 100 bytes. */
int nc_json_parse_large(const char *data, size_t n, size_t max_values, struct nc_value **ret,
                        struct nc_err *err);
/* Text of our own, which has no fault. */
struct nc_value *nc_json_literal(const char *text);
/* indent 0: compact; else that many spaces a level. Deterministic; members in their order. Appends
 * to out. */
void nc_json_write(struct nc_buf *out, const struct nc_value *v, unsigned indent);
/* Compact, owned by the caller. */
char *nc_json_text(const struct nc_value *v);
/* A JSON string literal with its quotes. */
void nc_json_write_string(struct nc_buf *out, const char *text);

/* A YAML stream of documents (JSON is YAML). Tags, duplicate keys, non-string keys: NC_ERR_CONFIG,
 * the message starts with "line L, column C: ". Plain scalars resolve as YAML 1.1's core types do
 * in sigs.k8s.io/yaml (true/false, null, ints, floats; yes/no/on/off are kept as Go's decoder reads
 * them: booleans), and so do aliases and merge keys (<<): each alias becomes a copy, whose mark is
 * that of the alias, within the limits above and of a MiB of text in all copies. Marks carry
 * `source`, and lines count from the text's own. Empty documents are left out. */
struct nc_values {
    struct nc_value **v; /* owned, each */
    size_t n;
};
int nc_yaml_parse(struct nc_text text, unsigned source, struct nc_values *ret, struct nc_err *err);
void nc_values_done(struct nc_values *v);

/* --- TOML 1.0, into and out of the tree: what containerd is configured with.
 *
 * The tree of a document is a map. An integer is exact in 64 bits. A float is a NC_VALUE_FLOAT
 * whose text is a JSON number, "inf", "-inf" or "nan". The four kinds of dates and times are
 * NC_VALUE_TIME, whose text is as written. A tree has no place for NUL, so "\u0000" is refused.
 * Comments and the layout are not kept. */

/* Limits of a document, beside NC_VALUE_MAX_DEPTH: containerd's own default is 10 KiB with some 300
 * values. Keys are found by a walk over their table, so values are fewer than in YAML. */
#define NC_TOML_MAX_BYTES ((size_t)1 << 20)
#define NC_TOML_MAX_VALUES 4096

/* *ret is owned by the caller, and written only on success. Marks have line and column, counted
 * from the text's own as in YAML, source 0. -EINVAL with NC_ERR_CONFIG, whose mark has the place.
 */
int nc_toml_parse(struct nc_text text, struct nc_value **ret, struct nc_err *err);

/* Appends the map v: the scalars and arrays of a table first, then its tables below headers, each
 * in the order of the tree. What is written reads back as an equal tree; numbers take their
 * shortest form. 0; -EINVAL where v is no map or holds a null, which TOML cannot say; -EFBIG at the
 * cap of out. On failure out is as before. */
int nc_toml_write(const struct nc_value *v, struct nc_buf *out);

#endif
