/*
 * Dotted paths as a tree of keys: what of an object is wanted.
 *
 * The paths are the program's own, a few dozen of them: found by comparing one after the other.
 */
#include "json-priv.h"

#include <string.h>

#include "nc/mem.h"
#include "nc/str.h"
#include "nc/value.h"

/* The next key of a path, without its apostrophes; *path moves behind it. Owned. */
static char *next_path_key(const char **path) {
    const bool is_quoted = **path == '\'';
    const char *key = *path + is_quoted, *end = key + strcspn(key, is_quoted ? "'" : ".");
    const char *rest = end + (is_quoted && *end);

    *path = *rest ? rest + 1 : NULL;
    return nc_strndup(key, (size_t)(end - key));
}

static struct nc_json_path *child_of(struct nc_json_path *node, char *key) {
    struct nc_json_path **at = &node->first;
    struct nc_buf literal = NC_BUF_INIT;

    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    if (*at) {
        free(key);
        return *at;
    }
    nc_json_write_string(&literal, key);
    nc_buf_putc(&literal, ':');
    *at = nc_calloc(1, sizeof(**at));
    (*at)->key = key;
    (*at)->n = strlen(key);
    (*at)->literal_n = literal.len;
    (*at)->literal = nc_buf_steal(&literal);
    return *at;
}

struct nc_json_path *nc_json_paths_new(const char *paths) {
    struct nc_json_path *root = nc_calloc(1, sizeof(*root));

    root->is_complete = paths == NULL;
    for (; paths && *paths; paths = nc_next_name(paths)) {
        struct nc_json_path *node = root;
        for (const char *p = paths; p;)
            node = child_of(node, next_path_key(&p));
        node->is_complete = true;
    }
    return root;
}

struct nc_json_path *nc_json_paths_free(struct nc_json_path *root) {
    if (!root)
        return NULL;
    for (struct nc_json_path *child = root->first, *next; child; child = next) {
        next = child->next;
        nc_json_paths_free(child);
    }
    free(root->key);
    free(root->literal);
    free(root);
    return NULL;
}

const struct nc_json_path *nc_json_path_find(const struct nc_json_path *node, const char *key,
                                             size_t n) {
    for (const struct nc_json_path *child = node->first; child; child = child->next)
        if (child->n == n && memcmp(child->key, key, n) == 0)
            return child;
    return NULL;
}
