/*
 * The document tree: making, reading, changing and comparing values.
 *
 * Knows no syntax. Depth is bounded by the parsers (NC_VALUE_MAX_DEPTH), so recursion over a tree
 * is, too; the chain of overridden values is as long as a user's list of documents and is walked in
 * a loop.
 */
#include "nc/value.h"

#include <inttypes.h>
#include <stdio.h>

#include "nc/str.h"
#include "nc/time.h"
#include "text-priv.h"

struct nc_value *nc_value_new(enum nc_value_type type) {
    struct nc_value *v = nc_calloc(1, sizeof(*v));

    v->type = type;
    return v;
}

struct nc_value *nc_value_new_map(void) {
    return nc_value_new(NC_VALUE_MAP);
}

struct nc_value *nc_value_new_list(void) {
    return nc_value_new(NC_VALUE_LIST);
}

struct nc_value *nc_value_new_string(const char *text) {
    struct nc_value *v = nc_value_new(NC_VALUE_STRING);

    v->text = nc_strdup(text ? text : "");
    return v;
}

struct nc_value *nc_value_new_int(int64_t i) {
    struct nc_value *v = nc_value_new(NC_VALUE_INT);

    v->integer = i;
    return v;
}

struct nc_value *nc_value_new_bool(bool b) {
    struct nc_value *v = nc_value_new(NC_VALUE_BOOL);

    v->boolean = b;
    return v;
}

struct nc_value *nc_value_free(struct nc_value *v) {
    while (v) {
        struct nc_value *older = v->overrode;
        for (size_t i = 0; i < v->n && v->type == NC_VALUE_MAP; i++) {
            free(v->members[i].key);
            nc_value_free(v->members[i].value);
        }
        for (size_t i = 0; i < v->n && v->type == NC_VALUE_LIST; i++)
            nc_value_free(v->items[i]);
        free(v->members);
        free(v->items);
        free(v->text);
        free(v);
        v = older;
    }
    return NULL;
}

void nc_value_wipe(struct nc_value *v) {
    if (v && v->text)
        explicit_bzero(v->text, strlen(v->text));
    for (size_t i = 0; v && i < v->n; i++)
        nc_value_wipe(v->type == NC_VALUE_MAP ? v->members[i].value : v->items[i]);
}

void nc_values_done(struct nc_values *v) {
    for (size_t i = 0; i < v->n; i++)
        nc_value_free(v->v[i]);
    free(v->v);
    *v = (struct nc_values){0};
}

struct nc_value *nc_value_copy(const struct nc_value *v) {
    if (!v)
        return NULL;
    struct nc_value *copy = nc_value_new(v->type);

    copy->mark = v->mark;
    copy->boolean = v->boolean;
    copy->integer = v->integer;
    copy->text = nc_strdup(v->text);
    for (size_t i = 0; i < v->n && v->type == NC_VALUE_MAP; i++) {
        struct nc_member *m = nc_append(&copy->members, &copy->n);
        m->key = nc_strdup(v->members[i].key);
        m->mark = v->members[i].mark;
        m->value = nc_value_copy(v->members[i].value);
    }
    for (size_t i = 0; i < v->n && v->type == NC_VALUE_LIST; i++)
        nc_value_push(copy, nc_value_copy(v->items[i]));
    return copy;
}

static bool is_number(const struct nc_value *v) {
    return v->type == NC_VALUE_INT || v->type == NC_VALUE_FLOAT;
}

static bool maps_equal(const struct nc_value *a, const struct nc_value *b) {
    for (size_t i = 0; i < a->n; i++) {
        const struct nc_value *other = nc_value_get(b, a->members[i].key);
        if (!other || !nc_value_equal(a->members[i].value, other))
            return false;
    }
    return true;
}

static bool lists_equal(const struct nc_value *a, const struct nc_value *b) {
    for (size_t i = 0; i < a->n; i++)
        if (!nc_value_equal(a->items[i], b->items[i]))
            return false;
    return true;
}

bool nc_value_equal(const struct nc_value *a, const struct nc_value *b) {
    if (!a || !b)
        return a == b;
    if (a->type != b->type)
        return is_number(a) && is_number(b) && nc_number_of(a) == nc_number_of(b);
    switch (a->type) {
    case NC_VALUE_NULL:
    case _NC_VALUE_TYPE_MAX:
        return true;
    case NC_VALUE_BOOL:
        return a->boolean == b->boolean;
    case NC_VALUE_INT:
        return a->integer == b->integer;
    case NC_VALUE_FLOAT:
        return nc_streq(a->text, b->text) || nc_number_of(a) == nc_number_of(b);
    case NC_VALUE_STRING:
    case NC_VALUE_TIME:
        return nc_streq(a->text, b->text);
    case NC_VALUE_MAP:
        return a->n == b->n && maps_equal(a, b);
    case NC_VALUE_LIST:
        return a->n == b->n && lists_equal(a, b);
    }
    return false;
}

static struct nc_member *find(const struct nc_value *v, const char *key, size_t n) {
    for (size_t i = 0; v && v->type == NC_VALUE_MAP && i < v->n; i++)
        if (strncmp(v->members[i].key, key, n) == 0 && v->members[i].key[n] == '\0')
            return &v->members[i];
    return NULL;
}

struct nc_value *nc_value_get(const struct nc_value *v, const char *key) {
    const struct nc_member *m = find(v, key, strlen(key));

    return m ? m->value : NULL;
}

struct nc_value *nc_value_path(const struct nc_value *v, const char *path) {
    for (;;) {
        const size_t n = strcspn(path, ".");
        const struct nc_member *m = find(v, path, n);
        if (!m || path[n] == '\0')
            return m ? m->value : NULL;
        v = m->value;
        path += n + 1;
    }
}

const char *nc_value_string(const struct nc_value *v) {
    return v && v->type == NC_VALUE_STRING ? v->text : NULL;
}

struct nc_text nc_value_text(const struct nc_value *v) {
    return (struct nc_text){.data = v->text,
                            .n = strlen(v->text),
                            .line = v->mark.indent ? v->mark.line + 1 : 1,
                            .indent = v->mark.indent};
}

const char *nc_value_get_string(const struct nc_value *v, const char *key) {
    return nc_value_string(nc_value_get(v, key));
}

const char *nc_value_path_string(const struct nc_value *v, const char *path) {
    return nc_value_string(nc_value_path(v, path));
}

bool nc_value_bool(const struct nc_value *v, bool otherwise) {
    return v && v->type == NC_VALUE_BOOL ? v->boolean : otherwise;
}

int64_t nc_value_int(const struct nc_value *v, int64_t otherwise) {
    return v && v->type == NC_VALUE_INT ? v->integer : otherwise;
}

int64_t nc_value_get_int(const struct nc_value *v, const char *key, int64_t otherwise) {
    return nc_value_int(nc_value_get(v, key), otherwise);
}

struct nc_member *nc_value_member(const struct nc_value *map, size_t i) {
    return map && map->type == NC_VALUE_MAP && i < map->n ? &map->members[i] : NULL;
}

bool nc_value_says(const struct nc_value *v, const char *key, const char *text) {
    return nc_streq(nc_value_get_string(v, key), text);
}

struct nc_value *nc_value_item(const struct nc_value *list, size_t i) {
    return list && list->type == NC_VALUE_LIST && i < list->n ? list->items[i] : NULL;
}

struct nc_value *nc_value_find(const struct nc_value *list, const char *key, const char *text) {
    struct nc_value *item;

    for (size_t i = 0; (item = nc_value_item(list, i)); i++)
        if (nc_value_says(item, key, text))
            break;
    return item;
}

const char *nc_value_scalar_text(const struct nc_value *v, char buf[static 32]) {
    if (!v)
        return NULL;
    if (v->type == NC_VALUE_STRING || v->type == NC_VALUE_FLOAT || v->type == NC_VALUE_TIME)
        return v->text;
    if (v->type == NC_VALUE_BOOL)
        return v->boolean ? "true" : "false";
    if (v->type != NC_VALUE_INT)
        return NULL;
    snprintf(buf, 32, "%" PRId64, v->integer);
    return buf;
}

void nc_value_set(struct nc_value *map, const char *key, struct nc_value *value) {
    struct nc_member *m = find(map, key, strlen(key));

    if (m) {
        nc_value_free(m->value);
    } else {
        m = nc_append(&map->members, &map->n);
        m->key = nc_strdup(key);
    }
    m->mark = value->mark;
    m->value = value;
}

void nc_value_set_string(struct nc_value *map, const char *key, const char *text) {
    nc_value_set(map, key, nc_value_new_string(text));
}

void nc_value_set_int(struct nc_value *map, const char *key, int64_t i) {
    nc_value_set(map, key, nc_value_new_int(i));
}

void nc_value_set_count(struct nc_value *map, const char *key, bool is_known, size_t n) {
    nc_value_set(map, key, is_known ? nc_value_new_int((int64_t)n) : nc_value_new(NC_VALUE_NULL));
}

void nc_value_set_bool(struct nc_value *map, const char *key, bool b) {
    nc_value_set(map, key, nc_value_new_bool(b));
}

void nc_value_set_text(struct nc_value *map, const char *key, const char *text) {
    nc_value_set(map, key, text && *text ? nc_value_new_string(text) : nc_value_new(NC_VALUE_NULL));
}

void nc_value_set_time(struct nc_value *map, const char *key, uint64_t usec) {
    char text[32] = "";

    if (usec)
        nc_time_format(usec, text);
    nc_value_set_text(map, key, text);
}

struct nc_value *nc_value_add_map(struct nc_value *map, const char *key) {
    struct nc_value *child = nc_value_new_map();

    nc_value_set(map, key, child);
    return child;
}

struct nc_value *nc_value_add_list(struct nc_value *map, const char *key) {
    struct nc_value *child = nc_value_new_list();

    nc_value_set(map, key, child);
    return child;
}

void nc_value_push(struct nc_value *list, struct nc_value *value) {
    *nc_append(&list->items, &list->n) = value;
}

struct nc_value *nc_value_new_strings(char *const *v, size_t n) {
    struct nc_value *list = nc_value_new_list();

    for (size_t i = 0; i < n; i++)
        nc_value_push_string(list, v[i]);
    return list;
}

void nc_value_push_string(struct nc_value *list, const char *text) {
    nc_value_push(list, nc_value_new_string(text));
}

bool nc_value_remove(struct nc_value *map, const char *key) {
    struct nc_member *m = find(map, key, strlen(key));

    if (!m)
        return false;
    free(m->key);
    nc_value_free(m->value);
    map->n--;
    memmove(m, m + 1, (size_t)(map->members + map->n - m) * sizeof(*m));
    return true;
}

/* By key, then by place: members are elements of one array. */
static int compare(const void *a, const void *b) {
    const struct nc_member *x = *(const struct nc_member *const *)a;
    const struct nc_member *y = *(const struct nc_member *const *)b;
    const int r = strcmp(x->key, y->key);

    return r ? r : (x > y) - (x < y);
}

/* The members that have a key, in that order; the array is owned by the caller. */
static struct nc_member **sorted_members(const struct nc_value *map, size_t *ret_n) {
    struct nc_member **sorted = nc_calloc(map->n + 1, sizeof(*sorted));
    size_t n = 0;

    for (size_t i = 0; i < map->n; i++)
        if (map->members[i].key)
            sorted[n++] = &map->members[i];
    qsort(sorted, n, sizeof(*sorted), compare);
    *ret_n = n;
    return sorted;
}

const struct nc_member *nc_duplicate_key(const struct nc_value *map) {
    if (map->n < 2)
        return NULL;
    const struct nc_member *first = NULL;
    size_t n;
    nc_auto_free struct nc_member **sorted = sorted_members(map, &n);

    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0 && (!first || sorted[i] < first))
            first = sorted[i];
    return first;
}

void nc_drop_overridden(struct nc_value *map) {
    size_t n, left = 0;
    nc_auto_free struct nc_member **sorted = sorted_members(map, &n);

    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            sorted[i - 1]->value = nc_value_free(sorted[i - 1]->value);
    for (size_t i = 0; i < map->n; i++)
        if (map->members[i].value)
            map->members[left++] = map->members[i];
        else
            free(map->members[i].key);
    map->n = left;
}
