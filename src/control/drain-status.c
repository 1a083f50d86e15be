/*
 * What a node says about itself: the annotation nodeclaimd.io/drain-status, which any node may fill
 * with anything. Keys and words that are not known are of a later release and are tolerated; a
 * known key of another type or size makes the whole of it unreadable. Rule C3.
 */
#include "parse.h"

#include "nc/str.h"
#include "nc/time.h"
#include "step.h"

#define SHORT_MAX ((size_t)32)   /* bytes of source and phase */
#define BLOCKED_MAX ((size_t)16) /* entries that are taken for sane; an agent names 5 */
#define BLOCKED_KEPT ((size_t)5)
#define BLOCKED_BYTES ((size_t)320) /* of one: namespace/name */
#define PODS_MAX 1000000

static const char *const phase_names[_CONTROL_PHASE_MAX] = {
    [CONTROL_PHASE_NONE] = "",
    [CONTROL_PHASE_DETECTED] = "Detected",
    [CONTROL_PHASE_CORDONED] = "Cordoned",
    [CONTROL_PHASE_EVICTING] = "Evicting",
    [CONTROL_PHASE_FORCING] = "Forcing",
    [CONTROL_PHASE_VOLUMES] = "VolumeWait",
    [CONTROL_PHASE_DRAINED] = "Drained",
    [CONTROL_PHASE_FAILED] = "Failed",
    [CONTROL_PHASE_OTHER] = "Other",
};

const char *nc_control_phase_name(enum control_phase p) {
    return phase_names[p];
}

struct control_drain_status *nc_control_drain_status_free(struct control_drain_status *w) {
    if (w)
        free(w->blocked);
    free(w);
    return NULL;
}

bool nc_control_is_final_status(const struct control_drain_status *w) {
    return w && (w->phase == CONTROL_PHASE_DRAINED || w->phase == CONTROL_PHASE_FAILED);
}

static bool is_printable(const char *text, size_t max) {
    for (size_t i = 0; text[i]; i++)
        if (i >= max || text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

/* NULL: not there; *ok false: there, and not what it must be. */
static const char *text_at(const struct nc_value *v, const char *key, size_t max, bool *ok) {
    const struct nc_value *t = nc_control_at(v, key, NULL);

    if (!t)
        return NULL;
    if (t->type == NC_VALUE_STRING && is_printable(t->text, max))
        return t->text;
    *ok = false;
    return NULL;
}

static int64_t count_at(const struct nc_value *v, const char *key, bool *ok) {
    const struct nc_value *n = nc_control_at(v, key, NULL);

    if (!n)
        return -1;
    if (n->type == NC_VALUE_INT && n->integer >= 0 && n->integer <= PODS_MAX)
        return n->integer;
    *ok = false;
    return -1;
}

static void read_blocked(const struct nc_value *v, struct control_drain_status *w, bool *ok) {
    const struct nc_value *list = nc_control_at(v, "blocked", NULL);
    struct nc_buf b = NC_BUF_INIT;

    if (!list)
        return;
    *ok = *ok && list->type == NC_VALUE_LIST && list->n <= BLOCKED_MAX;
    for (size_t i = 0; *ok && i < list->n; i++) {
        const char *name = nc_value_string(list->items[i]);
        *ok = name && is_printable(name, BLOCKED_BYTES);
        if (*ok && i < BLOCKED_KEPT)
            (void)nc_buf_printf(&b, "%s%s", i ? ", " : "", name);
    }
    w->n_blocked = *ok ? (unsigned)list->n : 0;
    w->blocked = b.len ? nc_strdup(b.data) : NULL;
    nc_buf_done(&b);
}

static int source_of(const char *name) {
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (nc_streq(name, nc_source_name((enum nc_source)s)))
            return s;
    return -1;
}

static enum control_phase phase_of(const char *name) {
    for (int p = 0; p < CONTROL_PHASE_OTHER; p++)
        if (nc_streq(name, phase_names[p]))
            return (enum control_phase)p;
    return CONTROL_PHASE_OTHER;
}

/* What a later release does about it is nothing that anybody here may add to. */
static enum nc_policy policy_of(const char *name) {
    for (int p = NC_POLICY_IGNORE; p <= NC_POLICY_DRAIN; p++)
        if (!name || nc_streq(name, nc_policy_name((enum nc_policy)p)))
            return name ? (enum nc_policy)p : NC_POLICY_DRAIN;
    return NC_POLICY_REPORT;
}

static bool read_drain_status(const struct nc_value *v, struct control_drain_status *w) {
    bool ok = v->type == NC_VALUE_MAP;
    const char *source = text_at(v, "source", SHORT_MAX, &ok);
    const char *phase = text_at(v, "phase", SHORT_MAX, &ok);
    const char *policy = text_at(v, "policy", SHORT_MAX, &ok);
    const char *deadline = text_at(v, "deadline", SHORT_MAX, &ok);
    const char *id = text_at(v, "id", sizeof(w->id) - 1, &ok);
    const struct nc_value *returns = nc_control_at(v, "returns", NULL);
    const char *since = text_at(v, "waitingSince", SHORT_MAX, &ok);
    const char *updated = nc_value_get_string(v, "updated");

    if (!source || !phase || (returns && returns->type != NC_VALUE_BOOL)
        || (deadline && nc_time_parse(deadline, &w->deadline_usec) < 0)
        || (since && nc_time_parse(since, &w->waiting_since_usec) < 0))
        return false;
    if (updated && nc_time_parse(updated, &w->noticed_usec) < 0)
        w->noticed_usec = 0;
    w->source = source_of(source);
    w->phase = phase_of(phase);
    w->policy = policy_of(policy);
    w->returns = returns && returns->boolean;
    w->total = count_at(v, "total", &ok);
    w->remaining = count_at(v, "remaining", &ok);
    w->waiting = count_at(v, "waiting", &ok);
    if (id)
        memcpy(w->id, id, strlen(id) + 1);
    read_blocked(v, w, &ok);
    return ok;
}

struct control_drain_status *nc_control_drain_status_read(const char *text) {
    nc_auto_value struct nc_value *v = NULL;
    struct control_drain_status *w = NULL;
    const size_t n = strnlen(text, CONTROL_DRAIN_STATUS_MAX + 1);

    if (n > CONTROL_DRAIN_STATUS_MAX || nc_json_parse(text, n, &v, NULL) < 0)
        return NULL;
    w = nc_calloc(1, sizeof(*w));
    return read_drain_status(v, w) ? w : nc_control_drain_status_free(w);
}
