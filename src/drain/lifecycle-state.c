/*
 * What survives a restart: the notices, the phase, and what was written to which Node.
 *
 * Nothing of the pods: they are listed again, and whoever was evicted is seen to be leaving.
 * A saved state is read strictly and as a whole: what is strange in it makes all of it void, for
 * the Node itself carries the record of our cordon. Times are by EC2's clock, and decimal texts:
 * JSON numbers end too early for them. By what that clock was ahead of ours when they were saved
 * they are set right again, whatever is known of it by then.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "lifecycle-priv.h"
#include "nc/str.h"

#define CLOCK_OFFSET_MAX_USEC ((int64_t)1 << 52) /* a century and more */

void nc_lifecycle_set_usec(struct nc_value *v, const char *key, uint64_t usec) {
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)usec);
    nc_value_set_string(v, key, text);
}

/* What is saved: a row each, in the order in which it is written. */
enum kind {
    TEXT = 1,
    BOOL,
    LATER_BOOL, /* a release before this one did not save it */
    USEC,
    MOMENT, /* of ours, saved by EC2's clock */
};
struct row {
    char key[12];
    unsigned char kind, size; /* of a text: the room that it has */
    unsigned short offset;
};

#define ROW(kind, key, type, member)                                                               \
    { key, kind, sizeof(((type *)NULL)->member), offsetof(type, member) }
#define SOURCE(kind, key, member) ROW(kind, key, struct nc_lifecycle_source, member)
#define NODE(kind, key, member) ROW(kind, key, struct nc_lifecycle, member)
static const struct row source_rows[] = {
    SOURCE(TEXT, "id", notice.id),
    SOURCE(TEXT, "action", notice.action),
    SOURCE(TEXT, "reason", notice.reason),
    SOURCE(USEC, "deadline", notice.deadline_usec),
    SOURCE(BOOL, "last_moment", notice.is_force_delete_time),
    SOURCE(USEC, "begin", notice.begin_usec),
    SOURCE(MOMENT, "noticed", noticed_usec),
    SOURCE(USEC, "window", window_usec),
    SOURCE(BOOL, "announced", is_announced),
    SOURCE(LATER_BOOL, "late", is_late),
    SOURCE(LATER_BOOL, "begun", has_begun),
    SOURCE(LATER_BOOL, "held", is_held),
    {.kind = 0},
};
static const struct row signal_rows[] = {
    ROW(TEXT, "id", struct nc_lifecycle_signal, id),
    ROW(USEC, "deadline", struct nc_lifecycle_signal, deadline_usec),
    {.kind = 0},
};
static const struct row node_rows[] = {
    NODE(TEXT, "uid", node.uid),
    NODE(BOOL, "is_cordoned", is_cordon_done),
    NODE(LATER_BOOL, "is_to_drain", is_cordoned_to_drain),
    NODE(BOOL, "is_foreign", is_foreign),
    NODE(LATER_BOOL, "was_lifted", was_lifted),
    NODE(MOMENT, "cordoned", cordoned_usec),
    NODE(MOMENT, "drained", drained_usec),
    {.kind = 0},
};

static void save_rows(struct nc_value *v, const struct row *row, const void *from,
                      const struct nc_lifecycle *l) {
    for (; row->kind; row++) {
        const void *at = (const char *)from + row->offset;
        if (row->kind == TEXT)
            nc_value_set_string(v, row->key, at);
        else if (row->kind < USEC)
            nc_value_set_bool(v, row->key, *(const bool *)at);
        else
            nc_lifecycle_set_usec(v, row->key,
                                  row->kind == USEC
                                      ? *(const uint64_t *)at
                                      : nc_lifecycle_ec2_time(l, *(const uint64_t *)at));
    }
}

static struct nc_value *save_source(const struct nc_lifecycle *l,
                                    const struct nc_lifecycle_source *s) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "source", nc_source_name(s->notice.source));
    nc_value_set_int(v, "policy", (int64_t)s->notice.policy);
    save_rows(v, source_rows, s, l);
    return v;
}

static struct nc_value *save_node(const struct nc_lifecycle *l) {
    struct nc_value *v = nc_value_new_map();
    struct nc_value *announced;

    if (l->signalled.is_set && !l->signalled.refused_usec) { /* a restart is worth another try */
        struct nc_value *signal = nc_value_add_map(v, "signalled");
        nc_value_set_string(signal, "source", nc_source_name((enum nc_source)l->signalled.source));
        save_rows(signal, signal_rows, &l->signalled, l);
    }
    save_rows(v, node_rows, l, l);
    announced = nc_value_add_list(v, "said");
    for (int m = 1; m < _NC_LIFECYCLE_MILESTONE_MAX; m++)
        if (l->has_announced[m])
            nc_value_push(announced, nc_value_new_int(m));
    return v;
}

struct nc_value *nc_lifecycle_save(const struct nc_lifecycle *l) {
    struct nc_value *v = nc_value_new_map();
    struct nc_value *sources;
    struct nc_value *hooks = nc_lifecycle_save_hooks(l);

    nc_value_set_int(v, "clock_offset", l->clock_offset_usec);
    nc_value_set_string(v, "phase", nc_lifecycle_phase_name(l->phase));
    nc_lifecycle_set_usec(v, "since", nc_lifecycle_ec2_time(l, l->since_usec));
    if (l->evicting_usec)
        nc_lifecycle_set_usec(v, "evicting", nc_lifecycle_ec2_time(l, l->evicting_usec));
    sources = nc_value_add_list(v, "sources");
    for (size_t i = 0; i < _NC_SOURCE_MAX; i++)
        if (l->sources[i].is_active)
            nc_value_push(sources, save_source(l, &l->sources[i]));
    nc_value_set(v, "node", save_node(l));
    if (hooks)
        nc_value_set(v, "hooks", hooks);
    return v;
}

static bool get_usec(const struct nc_value *v, const char *key, uint64_t *ret) {
    const char *text = nc_value_get_string(v, key);

    return text && nc_parse_u64(text, ret) == 0;
}

bool nc_lifecycle_get_moment(const struct nc_value *v, const char *key,
                             const struct nc_lifecycle *l, uint64_t *ret) {
    uint64_t usec;

    if (!get_usec(v, key, &usec))
        return false;
    *ret = nc_lifecycle_own_time(l, usec);
    return true;
}

/* Of another boot, or of a release that did not save it: as it is known now. */
static bool get_clock_offset(const struct nc_value *v, bool same_boot, int64_t *ret) {
    const struct nc_value *offset = nc_value_get(v, "clock_offset");

    if (!offset)
        return true;
    if (offset->type != NC_VALUE_INT || offset->integer > CLOCK_OFFSET_MAX_USEC
        || offset->integer < -CLOCK_OFFSET_MAX_USEC)
        return false;
    if (same_boot)
        *ret = offset->integer;
    return true;
}

/* A text that fits into `size` bytes. */
static bool get_text(const struct nc_value *v, const char *key, char *ret, size_t size) {
    const char *text = nc_value_get_string(v, key);

    if (!text || strlen(text) >= size || !nc_is_text(text, strlen(text)))
        return false;
    memcpy(ret, text, strlen(text) + 1);
    return true;
}

static bool load_row(const struct nc_value *v, const struct row *row, void *at,
                     const struct nc_lifecycle *l) {
    const struct nc_value *b = nc_value_get(v, row->key);

    switch ((enum kind)row->kind) {
    case TEXT:
        return get_text(v, row->key, at, row->size);
    case BOOL:
    case LATER_BOOL:
        if (!b || b->type != NC_VALUE_BOOL)
            return !b && row->kind == LATER_BOOL;
        *(bool *)at = b->boolean;
        return true;
    case USEC:
        return get_usec(v, row->key, at);
    case MOMENT:
        break;
    }
    return nc_lifecycle_get_moment(v, row->key, l, at);
}

static bool load_rows(const struct nc_value *v, const struct row *row, void *to,
                      const struct nc_lifecycle *l) {
    for (; row->kind; row++)
        if (!load_row(v, row, (char *)to + row->offset, l))
            return false;
    return true;
}

static bool get_source(const struct nc_value *v, enum nc_source *ret) {
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (nc_value_says(v, "source", nc_source_name((enum nc_source)s))) {
            *ret = (enum nc_source)s;
            return true;
        }
    return false;
}

static bool get_phase(const struct nc_value *v, enum nc_lifecycle_phase *ret) {
    for (int p = 0; p < _NC_LIFECYCLE_PHASE_MAX; p++)
        if (nc_value_says(v, "phase", nc_lifecycle_phase_name((enum nc_lifecycle_phase)p))) {
            *ret = (enum nc_lifecycle_phase)p;
            return true;
        }
    return false;
}

static bool load_source(const struct nc_value *v, struct nc_lifecycle *l) {
    struct nc_lifecycle_source s = {.is_active = true};
    struct nc_notice *n = &s.notice;
    const struct nc_value *policy = nc_value_get(v, "policy");

    if (!get_source(v, &n->source) || l->sources[n->source].is_active || !policy
        || policy->type != NC_VALUE_INT || policy->integer < 0 || policy->integer > NC_POLICY_DRAIN
        || !load_rows(v, source_rows, &s, l))
        return false;
    n->policy = (enum nc_policy)policy->integer;
    if (nc_sources[n->source].has_time_left)
        s.ends_usec = nc_lifecycle_own_time(l, n->deadline_usec);
    l->sources[n->source] = s;
    return true;
}

static bool load_signal(const struct nc_value *v, struct nc_lifecycle *l) {
    enum nc_source source;

    if (!v)
        return true;
    if (!get_source(v, &source) || !load_rows(v, signal_rows, &l->signalled, l))
        return false;
    l->signalled.source = (int)source;
    l->signalled.is_set = true;
    return true;
}

static bool load_announced(const struct nc_value *v, bool *has_announced) {
    if (!v || v->type != NC_VALUE_LIST)
        return false;
    for (size_t i = 0; i < v->n; i++) {
        const struct nc_value *m = v->items[i];
        if (m->type != NC_VALUE_INT || m->integer < 1 || m->integer >= _NC_LIFECYCLE_MILESTONE_MAX)
            return false;
        has_announced[m->integer] = true;
    }
    return true;
}

static bool load_node(const struct nc_value *v, struct nc_lifecycle *l) {
    if (!load_rows(v, node_rows, l, l) || !load_signal(nc_value_get(v, "signalled"), l))
        return false;
    if (!nc_value_get(v, "is_to_drain")) /* of a release that made no difference */
        l->is_cordoned_to_drain = l->is_cordon_done;
    return load_announced(nc_value_get(v, "said"), l->has_announced);
}

static bool load(const struct nc_value *v, struct nc_lifecycle *l) {
    const struct nc_value *sources = nc_value_get(v, "sources");

    if (nc_value_get(v, "evicting")
        && !nc_lifecycle_get_moment(v, "evicting", l, &l->evicting_usec))
        return false;
    if (!get_phase(v, &l->phase) || !nc_lifecycle_get_moment(v, "since", l, &l->since_usec)
        || !sources || sources->type != NC_VALUE_LIST || !load_node(nc_value_get(v, "node"), l)
        || !nc_lifecycle_load_hooks(nc_value_get(v, "hooks"), l))
        return false;
    for (size_t i = 0; i < sources->n; i++)
        if (!load_source(sources->items[i], l))
            return false;
    return true;
}

int nc_lifecycle_load(struct nc_lifecycle *l, const struct nc_value *saved, bool same_boot,
                      int64_t clock_offset_usec) {
    struct nc_lifecycle s = {.clock_offset_usec = clock_offset_usec};

    if (!get_clock_offset(saved, same_boot, &s.clock_offset_usec) || !load(saved, &s))
        return -EBADMSG;
    l->clock_offset_usec = s.clock_offset_usec;
    for (size_t i = 0; i < _NC_SOURCE_MAX; i++)
        if (s.sources[i].is_active && (same_boot || i == NC_SOURCE_OPERATOR)) {
            l->sources[i] = s.sources[i];
            l->sources[i].policy =
                same_boot && !s.sources[i].is_held
                        && (s.sources[i].has_begun || !s.sources[i].notice.begin_usec)
                    ? NC_POLICY_DRAIN
                    : NC_POLICY_REPORT;
            l->notices[i] = s.sources[i].notice;
        }
    if (!same_boot)
        return 0;
    l->phase = s.phase;
    l->since_usec = s.since_usec;
    l->evicting_usec = s.evicting_usec;
    l->is_resuming = s.phase != NC_LIFECYCLE_IDLE;
    l->is_older = l->is_going_on = s.evicting_usec != 0 && s.phase != NC_LIFECYCLE_DRAINED;
    l->is_unverified = true;
    l->held_phase = nc_lifecycle_has_pods(s.phase) ? s.phase : NC_LIFECYCLE_IDLE;
    for (const struct row *row = node_rows; row->kind; row++)
        memcpy((char *)l + row->offset, (const char *)&s + row->offset, row->size);
    l->signalled = s.signalled;
    l->has_cordoned = s.is_cordon_done && s.is_foreign == s.was_lifted;
    memcpy(l->has_announced, s.has_announced, sizeof(l->has_announced));
    memcpy(l->hooks, s.hooks, sizeof(l->hooks));
    return 0;
}
