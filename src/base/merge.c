/*
 * Laying one document over another.
 *
 * Two rules, nothing else: nodeadm's deep merge, where a null is a value, and JSON merge patch (RFC
 * 7386), where it removes. Both leave what was replaced on `overrode`, newest first, so that a
 * value can tell its history.
 */
#include "nc/value.h"

/* Puts `older` at the end of v's history. */
static void remember(struct nc_value *v, struct nc_value *older) {
    while (v->overrode)
        v = v->overrode;
    v->overrode = older;
}

/* v gets all of `from` (consumed); what v was becomes its history. The address of v stays. */
static void replace(struct nc_value *v, struct nc_value *from) {
    struct nc_value *old = nc_malloc(sizeof(*old));

    *old = *v;
    *v = *from;
    free(from);
    remember(v, old);
}

static struct nc_member *find_member(struct nc_value *map, const char *key) {
    for (size_t i = 0; i < map->n; i++)
        if (strcmp(map->members[i].key, key) == 0)
            return &map->members[i];
    return NULL;
}

/* The key's mark moves to where its newest value is written. */
static void merge_member(struct nc_value *into, struct nc_member *from) {
    struct nc_member *m = find_member(into, from->key);

    if (!m) {
        m = nc_append(&into->members, &into->n);
        m->key = nc_steal(&from->key);
        m->value = nc_steal(&from->value);
    } else {
        nc_value_merge(m->value, nc_steal(&from->value));
    }
    m->mark = from->mark;
}

void nc_value_merge(struct nc_value *into, struct nc_value *from) {
    if (into->type != NC_VALUE_MAP || from->type != NC_VALUE_MAP) {
        replace(into, from);
        return;
    }
    for (size_t i = 0; i < from->n; i++)
        merge_member(into, &from->members[i]);
    nc_value_free(from);
}

static void patch_member(struct nc_value *into, const struct nc_member *patch) {
    if (patch->value->type == NC_VALUE_NULL) {
        nc_value_remove(into, patch->key);
        return;
    }
    struct nc_member *m = find_member(into, patch->key);
    if (!m) {
        m = nc_append(&into->members, &into->n);
        m->key = nc_strdup(patch->key);
        m->value = nc_value_new(NC_VALUE_NULL);
        m->value->mark = patch->value->mark;
        nc_value_merge_patch(m->value, patch->value);
        m->value->overrode =
            nc_value_free(m->value->overrode); /* the null was only a place to stand on */
    } else {
        nc_value_merge_patch(m->value, patch->value);
    }
    m->mark = patch->mark;
}

void nc_value_merge_patch(struct nc_value *into, const struct nc_value *patch) {
    if (patch->type != NC_VALUE_MAP) {
        replace(into, nc_value_copy(patch));
        return;
    }
    if (into->type != NC_VALUE_MAP) {
        struct nc_value *empty = nc_value_new_map();
        empty->mark = patch->mark;
        replace(into, empty);
    }
    for (size_t i = 0; i < patch->n; i++)
        patch_member(into, &patch->members[i]);
}
