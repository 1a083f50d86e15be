/*
 * Strict, capped readers of parts of a hostile object.
 */
#include "parse.h"

#include <errno.h>

#include "nc/str.h"
#include "nc/time.h"
#include "step.h"

#define CONDITIONS_BYTES ((size_t)16384)

const struct nc_value *nc_control_at(const struct nc_value *object, const char *path,
                                     const char *key) {
    const struct nc_value *v = nc_value_path(object, path);

    if (key)
        return nc_value_get(v, key);
    return v && v->type != NC_VALUE_NULL ? v : NULL;
}

int nc_control_parse_time(const struct nc_value *v, uint64_t *ret) {
    if (!v)
        return 0;
    return v->type == NC_VALUE_STRING && nc_time_parse(v->text, ret) >= 0 ? 0 : -EBADMSG;
}

int nc_control_parse_token(const struct nc_value *v, size_t max, char **ret) {
    if (!v)
        return 0;
    if (v->type != NC_VALUE_STRING || strlen(v->text) > max
        || !nc_is_visible(v->text, strlen(v->text)))
        return -EBADMSG;
    if (v->text[0])
        *ret = nc_strdup(v->text);
    return 0;
}

/* With its NUL. */
static int add(struct nc_buf *b, const char *text) {
    return text && nc_buf_add(b, text, strlen(text) + 1) >= 0 ? 0 : -EBADMSG;
}

static int finish(struct nc_buf *b, size_t n, int r, struct control_strings *ret) {
    if (r >= 0 && n > 0)
        nc_control_strings_set(ret, b->data, b->len, n);
    nc_buf_done(b);
    return r;
}

int nc_control_parse_tokens(const struct nc_value *const *v, size_t n, size_t max,
                            struct control_strings *ret) {
    struct nc_buf b = NC_BUF_INIT_MAX(CONTROL_LIST_BYTES);
    size_t n_there = 0;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        nc_auto_free char *token = NULL;
        r = nc_control_parse_token(v[i], max, &token);
        if (r >= 0)
            r = add(&b, token ? token : "");
        n_there += token != NULL;
    }
    return finish(&b, n_there > 0, r, ret);
}

int nc_control_parse_map(const struct nc_value *v, struct control_strings *ret) {
    struct nc_buf b = NC_BUF_INIT_MAX(CONTROL_LIST_BYTES);
    char number[32];
    int r = 0;

    if (!v)
        return 0;
    if (v->type != NC_VALUE_MAP || v->n > CONTROL_LIST_MAX)
        return -EBADMSG;
    for (size_t i = 0; r >= 0 && i < v->n; i++) {
        r = add(&b, v->members[i].key);
        if (r >= 0)
            r = add(&b, nc_value_scalar_text(v->members[i].value, number));
    }
    return finish(&b, v->n, r, ret);
}

static int list_of(const struct nc_value *v) {
    return v->type == NC_VALUE_LIST && v->n <= CONTROL_LIST_MAX ? 0 : -EBADMSG;
}

int nc_control_parse_list(const struct nc_value *v, struct control_strings *ret) {
    struct nc_buf b = NC_BUF_INIT_MAX(CONTROL_LIST_BYTES);
    int r = v ? list_of(v) : 0;

    if (!v || r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < v->n; i++)
        r = add(&b, nc_value_string(v->items[i]));
    return finish(&b, v->n, r, ret);
}

static int parse_one_taint(const struct nc_value *item, bool with_time, struct nc_buf *b) {
    const struct nc_value *value = nc_control_at(item, "value", NULL);
    const char *key = nc_value_get_string(item, "key");
    const char *effect = nc_value_get_string(item, "effect");
    const char *added = nc_value_get_string(item, "timeAdded");
    char number[32];
    int r = key && key[0] ? add(b, key) : -EBADMSG;

    if (r >= 0)
        r = add(b, value ? nc_value_scalar_text(value, number) : "");
    if (r >= 0)
        r = add(b, effect);
    return r >= 0 && with_time ? add(b, added ? added : "") : r;
}

int nc_control_parse_taints(const struct nc_value *v, bool with_time, struct control_strings *ret) {
    struct nc_buf b = NC_BUF_INIT_MAX(CONTROL_LIST_BYTES);
    int r = v ? list_of(v) : 0;

    if (!v || r < 0)
        return r;
    for (size_t i = 0; r >= 0 && i < v->n; i++)
        r = parse_one_taint(v->items[i], with_time, &b);
    return finish(&b, v->n, r, ret);
}

const char *const nc_control_condition_keys[CONTROL_CONDITION_WIDTH] = {
    "type", "status", "reason", "message", "lastTransitionTime", "observedGeneration", "severity"};

int nc_control_parse_conditions(const struct nc_value *v, struct control_strings *ret) {
    struct nc_buf b = NC_BUF_INIT_MAX(CONDITIONS_BYTES);
    char number[32];
    int r = v ? list_of(v) : 0;

    if (!v || r < 0)
        return r;
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; r >= 0 && k < CONTROL_CONDITION_WIDTH; k++) {
            const struct nc_value *field =
                nc_control_at(v->items[i], nc_control_condition_keys[k], NULL);
            r = add(&b, field ? nc_value_scalar_text(field, number) : "");
        }
    return finish(&b, v->n, r, ret);
}

int nc_control_parse_json_list(const struct nc_value *v, size_t max, char **ret) {
    struct nc_buf b = NC_BUF_INIT_MAX(CONTROL_LIST_BYTES);

    if (!v)
        return 0;
    if (v->type != NC_VALUE_LIST)
        return -EBADMSG;
    nc_json_write(&b, v, 0);
    if (b.len == 0 || b.len > max) {
        nc_buf_done(&b);
        return -EBADMSG;
    }
    *ret = nc_strdup(b.data); /* without the room that it grew by */
    nc_buf_done(&b);
    return 0;
}

bool nc_control_has_text(const struct nc_value *list, const char *text) {
    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_string(list->items[i]), text))
            return true;
    return false;
}

bool nc_control_is_true(const struct nc_value *v) {
    return nc_streq(nc_value_string(v), "true");
}
