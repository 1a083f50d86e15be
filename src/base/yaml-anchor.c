/*
 * What anchors name, copied for each alias, and maps merged by "<<".
 *
 * An anchor has a copy of its own, because a merge may override and free what it stood at. Copies
 * are counted before they are made: a few lines of aliases of aliases would be gigabytes.
 */
#include "text-priv.h"

#include "nc/str.h"

#define MAX_ANCHORS 256
#define MAX_COPIED_BYTES ((size_t)1 << 20)

static const char too_deep[] = "nested too deep", too_many[] = "too many values",
                  too_long[] = "aliases repeat too much text";

/* Counts v, below so many containers; NULL where there is room for it. */
static const char *count(struct nc_yaml_anchors *a, const struct nc_value *v, size_t depth,
                         size_t *nodes) {
    const bool is_map = v->type == NC_VALUE_MAP;
    const char *wrong = NULL;

    if (++*nodes > NC_VALUE_MAX_NODES)
        return too_many;
    if ((is_map || v->type == NC_VALUE_LIST) && depth == NC_VALUE_MAX_DEPTH)
        return too_deep;
    a->bytes += v->text ? strlen(v->text) : 0;
    for (size_t i = 0; i < v->n && !wrong; i++) {
        a->bytes += is_map ? strlen(v->members[i].key) : 0;
        *nodes += is_map;
        wrong = count(a, is_map ? v->members[i].value : v->items[i], depth + 1, nodes);
    }
    return wrong ? wrong : a->bytes > MAX_COPIED_BYTES ? too_long : NULL;
}

const char *nc_yaml_copy(struct nc_yaml_anchors *a, const struct nc_value *v, size_t depth,
                         size_t *nodes, struct nc_value **ret) {
    const char *wrong = count(a, v, depth, nodes);

    if (!wrong)
        *ret = nc_value_copy(v);
    return wrong;
}

static struct nc_yaml_anchor *find(const struct nc_yaml_anchors *a, const char *name) {
    for (size_t i = 0; i < a->n; i++)
        if (nc_streq(a->v[i].name, name))
            return &a->v[i];
    return NULL;
}

const struct nc_yaml_anchor *nc_yaml_anchor_find(const struct nc_yaml_anchors *a,
                                                 const char *name) {
    return find(a, name);
}

const char *nc_yaml_anchor_set(struct nc_yaml_anchors *a, const char *name,
                               const struct nc_value *v, bool is_open, size_t *nodes) {
    struct nc_yaml_anchor *anchor = find(a, name);

    if (!anchor && a->n == MAX_ANCHORS)
        return "too many anchors";
    if (!anchor) {
        anchor = nc_append(&a->v, &a->n);
        anchor->name = nc_strdup(name);
    }
    anchor->value = nc_value_free(anchor->value);
    anchor->open = v;
    return is_open ? NULL : nc_yaml_anchor_close(a, v, nodes);
}

const char *nc_yaml_anchor_close(struct nc_yaml_anchors *a, const struct nc_value *v,
                                 size_t *nodes) {
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].open == v) {
            a->v[i].open = NULL;
            return nc_yaml_copy(a, v, 0, nodes, &a->v[i].value);
        }
    return NULL;
}

void nc_yaml_anchors_done(struct nc_yaml_anchors *a) {
    for (size_t i = 0; i < a->n; i++) {
        free(a->v[i].name);
        nc_value_free(a->v[i].value);
    }
    free(a->v);
    *a = (struct nc_yaml_anchors){.bytes = a->bytes};
}

/* NULL, or what "<<" cannot merge. */
static const struct nc_value *not_mergeable(const struct nc_value *v) {
    for (size_t i = 0; i < v->n && v->type == NC_VALUE_LIST; i++)
        if (v->items[i]->type != NC_VALUE_MAP)
            return v->items[i];
    return v->type == NC_VALUE_MAP || v->type == NC_VALUE_LIST ? NULL : v;
}

/* Moves the members of v, which is consumed. */
static void move_members(struct nc_value *into, struct nc_value *v) {
    for (size_t i = v->n; i > 0 && v->type == NC_VALUE_LIST; i--)
        move_members(into, v->items[i - 1]);
    for (size_t i = 0; i < v->n && v->type == NC_VALUE_MAP; i++)
        *(struct nc_member *)nc_append(&into->members, &into->n) = v->members[i];
    v->n = 0;
    nc_value_free(v);
}

const struct nc_value *nc_yaml_merge(struct nc_value *map) {
    const struct nc_value *wrong = NULL;
    size_t merges = 0;

    for (size_t i = 0; i < map->n && !wrong; i++)
        if (!map->members[i].key) {
            merges++;
            wrong = not_mergeable(map->members[i].value);
        }
    if (wrong || merges == 0)
        return wrong;
    struct nc_value all = {.type = NC_VALUE_MAP};
    for (size_t i = 0; i < map->n; i++)
        if (map->members[i].key)
            *(struct nc_member *)nc_append(&all.members, &all.n) = map->members[i];
        else
            move_members(&all, map->members[i].value);
    free(map->members);
    map->members = all.members;
    map->n = all.n;
    nc_drop_overridden(map);
    return NULL;
}
