/*
 * What is left of an object where a watch keeps only some paths: nc/json-filter.h's rules, on a
 * tree and written anew.
 */
#include "world.h"

#include "nc/str.h"

/* The first key of a path, which apostrophes may enclose; returns what follows it, NULL at the end.
 */
static const char *first_key(const char *path, char key[static 256]) {
    const char *until = *path == '\'' ? "'" : ".";
    size_t n = 0;

    for (path += *until == '\''; *path && *path != *until; path++)
        if (n < 255)
            key[n++] = *path;
    key[n] = '\0';
    path += *path == '\'';
    return *path ? path + 1 : NULL;
}

static void keep_path(struct nc_value *to, const struct nc_value *from, const char *path);

static void keep_member(struct nc_value *to, const struct nc_value *from, const char *path) {
    char key[256];
    const char *rest = first_key(path, key);
    const struct nc_value *v = nc_value_get(from, key);

    if (!v)
        return;
    if (!rest) {
        nc_value_set(to, key, nc_value_copy(v));
        return;
    }
    if (v->type != NC_VALUE_MAP && v->type != NC_VALUE_LIST)
        return;
    if (!nc_value_get(to, key))
        nc_value_set(to, key, nc_value_new(v->type));
    keep_path(nc_value_get(to, key), v, rest);
}

static void keep_path(struct nc_value *to, const struct nc_value *from, const char *path) {
    if (from->type == NC_VALUE_MAP) {
        keep_member(to, from, path);
        return;
    }
    for (size_t i = 0; i < from->n; i++) {
        if (to->n <= i)
            nc_value_push(to, nc_value_new(from->items[i]->type));
        if (from->items[i]->type == NC_VALUE_MAP)
            keep_member(to->items[i], from->items[i], path);
    }
}

struct nc_value *thin(const struct nc_value *v, const char *keep) {
    static const char always[] = "metadata.name\0metadata.uid\0metadata.resourceVersion\0";
    struct nc_value *ret = nc_value_new_map();

    if (!keep) {
        nc_value_free(ret);
        return nc_value_copy(v);
    }
    for (const char *path = keep; *path; path = nc_next_name(path))
        keep_path(ret, v, path);
    for (const char *path = always; *path; path = nc_next_name(path))
        keep_path(ret, v, path);
    return ret;
}
