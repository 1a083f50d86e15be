/*
 * Dotted paths as a tree of keys: private to this layer.
 */
#ifndef NC_BASE_JSON_PATHS_H
#define NC_BASE_JSON_PATHS_H

#include <stdbool.h>
#include <stddef.h>

struct nc_json_path {
    struct nc_json_path *next;  /* another key of the same object */
    struct nc_json_path *first; /* the keys below */
    char *key;
    size_t n;
    char *literal; /* the key as JSON with its colon */
    size_t literal_n;
    bool is_complete; /* a path ends here: everything below is meant */
};

/* NULL-terminated; NULL: everything. Behind a backslash a dot or backslash is a key's own. Owned.
 */
struct nc_json_path *nc_json_paths_new(const char *const *paths);
struct nc_json_path *nc_json_paths_free(struct nc_json_path *root);
const struct nc_json_path *nc_json_path_find(const struct nc_json_path *node, const char *key,
                                             size_t n);

#endif
