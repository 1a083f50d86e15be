/*
 * Lists of texts, each in one piece of memory. What nearly every object has is there once.
 */
#include "nc/names.h"
#include "nc/str.h"
#include "step.h"

static const struct {
    const char *data;
    size_t bytes;
} usual[] = {
    {NC_FINALIZER_KARPENTER, sizeof(NC_FINALIZER_KARPENTER)},
    {NC_FINALIZER, sizeof(NC_FINALIZER)},
    {NC_FINALIZER_KARPENTER "\0" NC_FINALIZER, sizeof(NC_FINALIZER_KARPENTER "\0" NC_FINALIZER)},
    {NC_FINALIZER "\0" NC_FINALIZER_KARPENTER, sizeof(NC_FINALIZER "\0" NC_FINALIZER_KARPENTER)},
};

static const char *usual_of(const char *data, size_t bytes) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(usual); i++)
        if (usual[i].bytes == bytes && memcmp(usual[i].data, data, bytes) == 0)
            return usual[i].data;
    return NULL;
}

void nc_control_strings_set(struct control_strings *t, const char *data, size_t bytes, size_t n) {
    const char *shared = usual_of(data, bytes);

    t->n = (uint16_t)n;
    t->bytes = (uint32_t)bytes;
    t->is_shared = shared != NULL;
    t->data = shared;
    if (!shared)
        t->data = memcpy(nc_malloc(bytes), data, bytes); /* without the room that it grew by */
}

void nc_control_strings_done(struct control_strings *t) {
    if (!t->is_shared)
        free((char *)t->data);
    *t = (struct control_strings){0};
}

const char *nc_control_strings_next(const struct control_strings *t, const char *at, size_t width,
                                    const char **ret) {
    const char *p = at;

    if (t->n == 0)
        return NULL;
    if (!p)
        p = t->data;
    else
        for (size_t i = 0; i < width; i++)
            p += strlen(p) + 1;
    if ((size_t)(p - t->data) >= t->bytes)
        return NULL;
    for (size_t i = 0; i < width; i++) {
        ret[i] = i ? ret[i - 1] + strlen(ret[i - 1]) + 1 : p;
    }
    return p;
}

const char *nc_control_strings_get(const struct control_strings *t, size_t width, const char *key) {
    const char *group[CONTROL_STRINGS_WIDTH] = {NULL};

    for (const char *at = NULL; width > 1 && (at = nc_control_strings_next(t, at, width, group));)
        if (nc_streq(group[0], key))
            return group[1];
    return NULL;
}

void nc_control_push_taint(struct nc_value *list, const char *const strings[4]) {
    static const char *const keys[] = {"key", "value", "effect", "timeAdded"};
    struct nc_value *taint = nc_value_new_map();

    for (size_t i = 0; i < NC_ARRAY_SIZE(keys); i++)
        if (*strings[i])
            nc_value_set_string(taint, keys[i], strings[i]);
    nc_value_push(list, taint);
}

struct nc_value *nc_control_strings_without(const struct control_strings *t, const char *text) {
    struct nc_value *list = nc_value_new_list();
    const char *at = NULL, *one[1];

    while ((at = nc_control_strings_next(t, at, 1, one)))
        if (!nc_streq(one[0], text))
            nc_value_push_string(list, one[0]);
    return list;
}
