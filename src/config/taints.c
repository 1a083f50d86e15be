/*
 * Taints of the node.
 *
 * A node can register with any taint but can never add one afterwards (NodeRestriction), so all of
 * them go into registerWithTaints. Two taints are the same where key and effect are the same.
 */
#include <errno.h>
#include <stdio.h>

#include "nc/str.h"
#include "shapes.h"

bool nc_taint_is_valid(const struct nc_taint *t, char *why, size_t size) {
    static const char effects[] = "NoSchedule\0PreferNoSchedule\0NoExecute\0";

    if (!nc_label_is_valid(t->key, t->value ? t->value : "", why, size))
        return false;
    if (nc_is_one_of(t->effect, effects))
        return true;
    {
        nc_auto_free char *quoted =
            nc_quote(t->effect ? t->effect : "", t->effect ? strlen(t->effect) : 0);
        snprintf(why, size, "%.128s: effect %s is none of NoSchedule, PreferNoSchedule, NoExecute",
                 t->key, quoted);
    }
    return false;
}

char *nc_taints_set(struct nc_taint **taints, size_t *n, const struct nc_taint *t) {
    const char *value = t->value ? t->value : "";
    struct nc_taint *new;

    for (size_t i = 0; i < *n; i++) {
        struct nc_taint *old = &(*taints)[i];
        if (nc_streq(old->key, t->key) && nc_streq(old->effect, t->effect)) {
            char *replaced = old->value;
            old->value = nc_strdup(value);
            old->mark = t->mark;
            return replaced;
        }
    }
    new = nc_append(taints, n);
    *new = (struct nc_taint){nc_strdup(t->key), nc_strdup(value), nc_strdup(t->effect), t->mark};
    return NULL;
}

void nc_taints_free(struct nc_taint *taints, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(taints[i].key);
        free(taints[i].value);
        free(taints[i].effect);
    }
    free(taints);
}

/* Checks one, puts it; on failure the list is freed. */
static int add_taint(struct nc_taint **taints, size_t *n, const struct nc_taint *t,
                     const char *field, struct nc_err *err) {
    char why[NC_LABEL_WHY_BYTES];

    if (nc_taint_is_valid(t, why, sizeof(why))) {
        free(nc_taints_set(taints, n, t));
        return 0;
    }
    nc_taints_free(*taints, *n);
    return nc_err_config(err, "%s: %s", field, why);
}

int nc_taints_parse(const char *text, struct nc_mark mark, struct nc_taint **ret, size_t *ret_n,
                    struct nc_err *err) {
    nc_auto_free char *copy = nc_strdup(text);
    struct nc_taint *taints = NULL;
    size_t n = 0;

    for (char *rest = copy, *item; (item = strsep(&rest, ","));) {
        char none[] = "";
        struct nc_taint t = {.key = nc_trim(item), .value = none, .effect = none, .mark = mark};
        char *colon = strrchr(t.key, ':'), *equal;
        int r;
        if (*t.key == '\0')
            continue;
        if (colon) {
            *colon = '\0';
            t.effect = colon + 1;
        }
        equal = strchr(t.key, '=');
        if (equal) {
            *equal = '\0';
            t.value = equal + 1;
        }
        r = add_taint(&taints, &n, &t, "--register-with-taints", err);
        if (r < 0)
            return r;
    }
    *ret = taints;
    *ret_n = n;
    return 0;
}

int nc_taints_read(const struct nc_value *list, const char *field, struct nc_taint **ret,
                   size_t *ret_n, struct nc_err *err) {
    struct nc_taint *taints = NULL;
    size_t n = 0;

    if (list && list->type != NC_VALUE_LIST && list->type != NC_VALUE_NULL)
        return nc_err_config(err, "%s: a list of {key, value, effect} is needed", field);
    for (size_t i = 0; list && i < list->n; i++) {
        const struct nc_value *item = list->items[i];
        const char *key = nc_value_get_string(item, "key");
        const char *value = nc_value_get_string(item, "value");
        const char *effect = nc_value_get_string(item, "effect");
        struct nc_taint t = {.key = (char *)(key ? key : ""),
                             .value = (char *)(value ? value : ""),
                             .effect = (char *)(effect ? effect : ""),
                             .mark = item->mark};
        int r = add_taint(&taints, &n, &t, field, err);
        if (r < 0)
            return r;
    }
    *ret = taints;
    *ret_n = n;
    return 0;
}

struct nc_value *nc_taints_tree(const struct nc_taint *taints, size_t n) {
    struct nc_value *list = n > 0 ? nc_value_new_list() : NULL;

    for (size_t i = 0; i < n; i++) {
        struct nc_value *item = nc_value_new_map();
        nc_value_set_string(item, "effect", taints[i].effect);
        nc_value_set_string(item, "key", taints[i].key);
        if (*taints[i].value)
            nc_value_set_string(item, "value", taints[i].value);
        nc_value_push(list, item);
    }
    return list;
}
