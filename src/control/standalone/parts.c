/*
 * What the patches of the half without Karpenter are put together from: lists, taints, conditions.
 *
 * A list is written back as it was seen but for what is ours; conditions that we do not know stay.
 */
#include "nc/str.h"
#include "nc/time.h"
#include "standalone-priv.h"

struct nc_value *nc_standalone_child(struct nc_value *map, const char *key) {
    struct nc_value *child = nc_value_get(map, key);

    if (!child) {
        child = nc_value_new_map();
        nc_value_set(map, key, child);
    }
    return child;
}

struct nc_value *nc_standalone_texts_with(const struct control_strings *t, const char *text) {
    struct nc_value *list = nc_control_strings_without(t, text);

    nc_value_push_string(list, text);
    return list;
}

void nc_standalone_merge_texts(struct nc_value *map, const struct control_strings *pairs) {
    const char *at = NULL, *two[2];

    while ((at = nc_control_strings_next(pairs, at, 2, two)))
        nc_value_set_string(map, two[0], two[1]);
}

bool nc_standalone_has_taint(const struct control_strings *t, size_t width, const char *key,
                             const char *effect) {
    const char *at = NULL, *strings[4];

    while ((at = nc_control_strings_next(t, at, width, strings)))
        if (nc_streq(strings[0], key) && nc_streq(strings[2], effect))
            return true;
    return false;
}

/* --- conditions */

#define N_REQUIRED 4 /* type, status, reason, message: the API server wants them, if empty */

static const char *truth_name(enum control_truth t) {
    return t == CONTROL_TRUE ? "True" : t == CONTROL_FALSE ? "False" : "Unknown";
}

static size_t find(const struct standalone_conditions *cs, enum control_condition which) {
    for (size_t i = 0; i < cs->list->n; i++)
        if (nc_value_says(cs->list->items[i], "type", nc_standalone_condition_name(which)))
            return i;
    return SIZE_MAX;
}

static struct nc_value *get(const struct standalone_conditions *cs, enum control_condition which) {
    const size_t i = find(cs, which);

    return i == SIZE_MAX ? NULL : cs->list->items[i];
}

void nc_standalone_conditions(const struct standalone_view *v, struct standalone_conditions *ret) {
    const char *at = NULL, *strings[CONTROL_CONDITION_WIDTH];
    int64_t generation;

    *ret = (struct standalone_conditions){.list = nc_value_new_list(), .now_usec = v->now_usec};
    while ((at = nc_control_strings_next(&v->claim->more->conditions, at, CONTROL_CONDITION_WIDTH,
                                         strings))) {
        struct nc_value *c = nc_value_new_map();
        for (size_t i = 0; i < CONTROL_CONDITION_WIDTH; i++)
            if (nc_streq(nc_control_condition_keys[i], "observedGeneration")) {
                if (nc_parse_i64(strings[i], &generation) >= 0)
                    nc_value_set_int(c, nc_control_condition_keys[i], generation);
            } else if (strings[i][0] || i < N_REQUIRED) {
                nc_value_set_string(c, nc_control_condition_keys[i], strings[i]);
            }
        nc_value_push(ret->list, c);
    }
}

enum control_truth nc_standalone_truth(const struct standalone_conditions *cs,
                                       enum control_condition which) {
    const char *status = nc_value_get_string(get(cs, which), "status");

    if (!status)
        return CONTROL_ABSENT;
    return nc_streq(status, "True")    ? CONTROL_TRUE
           : nc_streq(status, "False") ? CONTROL_FALSE
                                       : CONTROL_UNKNOWN;
}

uint64_t nc_standalone_since(const struct standalone_conditions *cs, enum control_condition which) {
    const char *text = nc_value_get_string(get(cs, which), "lastTransitionTime");
    uint64_t usec = 0;

    return text && nc_time_parse(text, &usec) == 0 ? usec : 0;
}

static bool has_text(const struct nc_value *c, const char *key, const char *text) {
    const char *now = nc_value_get_string(c, key);

    return nc_streq(now ? now : "", text);
}

void nc_standalone_set(struct standalone_conditions *cs, const struct standalone_condition *want) {
    const char *status = truth_name(want->truth);
    struct nc_value *c = get(cs, want->which);
    char now[32];

    if (c && has_text(c, "status", status) && has_text(c, "reason", want->reason)
        && has_text(c, "message", want->message))
        return;
    if (!c) {
        c = nc_value_new_map();
        nc_value_set_string(c, "type", nc_standalone_condition_name(want->which));
        nc_value_push(cs->list, c);
    }
    if (!has_text(c, "status", status) || has_text(c, "lastTransitionTime", "")) {
        nc_time_format(cs->now_usec, now);
        nc_value_set_string(c, "lastTransitionTime", now);
    }
    nc_value_set_string(c, "status", status);
    nc_value_set_string(c, "reason", want->reason);
    nc_value_set_string(c, "message", want->message);
    cs->is_changed = true;
}

void nc_standalone_unset(struct standalone_conditions *cs, enum control_condition which) {
    struct nc_value *list = cs->list;
    const size_t i = find(cs, which);

    if (i == SIZE_MAX)
        return;
    nc_value_free(list->items[i]);
    memmove(&list->items[i], &list->items[i + 1], (list->n - i - 1) * sizeof(*list->items));
    list->n--;
    cs->is_changed = true;
}

/* As operatorpkg words it: the parts that are not True; False only where one of them is. */
void nc_standalone_set_ready(struct standalone_conditions *cs) {
    static const enum control_condition parts[] = {CONTROL_COND_LAUNCHED, CONTROL_COND_REGISTERED,
                                                   CONTROL_COND_INITIALIZED};
    struct nc_buf message = NC_BUF_INIT;
    enum control_truth ready = CONTROL_TRUE;

    for (size_t i = 0; i < NC_ARRAY_SIZE(parts); i++) {
        const enum control_truth t = nc_standalone_truth(cs, parts[i]);
        if (t == CONTROL_TRUE || (t == CONTROL_ABSENT && parts[i] == CONTROL_COND_LAUNCHED))
            continue;
        if (ready == CONTROL_TRUE || t == CONTROL_FALSE)
            ready = t == CONTROL_FALSE ? CONTROL_FALSE : CONTROL_UNKNOWN;
        (void)nc_buf_printf(&message, "%s%s=%s", message.len ? ", " : "",
                            nc_standalone_condition_name(parts[i]), truth_name(t));
    }
    nc_auto_free char *text = nc_buf_steal(&message);
    nc_standalone_set(cs, &(struct standalone_condition){CONTROL_COND_READY, ready,
                                                         ready == CONTROL_TRUE ? "Ready"
                                                         : ready == CONTROL_FALSE
                                                             ? "UnhealthyDependents"
                                                             : "ReconcilingDependents",
                                                         text});
}

bool nc_standalone_write_status(const struct standalone_view *v, struct standalone_conditions *cs,
                                const char *node_name, struct nc_control_action *ret) {
    const bool is_named = node_name && !nc_streq(node_name, v->claim->node_name);

    if (!cs->is_changed && !is_named) {
        cs->list = nc_value_free(cs->list);
        return false;
    }
    ret->verb = NC_CONTROL_STATUS_CLAIM;
    ret->body = nc_control_patch(&v->claim->o, true);
    struct nc_value *status = nc_standalone_child(ret->body, "status");
    nc_value_set(status, "conditions", nc_steal(&cs->list));
    if (is_named)
        nc_value_set_string(status, "nodeName", node_name);
    return true;
}
