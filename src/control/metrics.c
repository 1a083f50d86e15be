/*
 * What the controller counts, as Prometheus text. No label has a value that a node could choose.
 */
#include <inttypes.h>

#include "control-priv.h"

#define GAUGE "gauge"
#define COUNTER "counter"
#define PREFIX "nodeclaim_controller_"

static void begin(struct nc_buf *out, const char *family, const char *type, const char *help) {
    (void)nc_buf_printf(out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", family, help,
                        family, type);
}

static void add(struct nc_buf *out, const char *family, const char *label, const char *value,
                uint64_t n) {
    if (label)
        (void)nc_buf_printf(out, PREFIX "%s{%s=\"%s\"} %" PRIu64 "\n", family, label, value, n);
    else
        (void)nc_buf_printf(out, PREFIX "%s %" PRIu64 "\n", family, n);
}

static void add_one(struct nc_buf *out, const char *family, const char *type, const char *help,
                    uint64_t n) {
    begin(out, family, type, help);
    add(out, family, NULL, NULL, n);
}

static void add_sec(struct nc_buf *out, const char *family, const char *type, const char *help,
                    uint64_t usec) {
    begin(out, family, type, help);
    (void)nc_buf_printf(out, PREFIX "%s %" PRIu64 ".%06" PRIu64 "\n", family, usec / 1000000,
                        usec % 1000000);
}

static void add_state(const struct nc_control *c, struct nc_buf *out) {
    add_one(out, "leads", GAUGE, "Is this process the leader?", c->leads);
    begin(out, "who", GAUGE, "Who else looks after NodeClaims: 1 for what holds.");
    add(out, "who", "who", "unknown", c->who == NC_CONTROL_WHO_UNKNOWN);
    add(out, "who", "who", "karpenter", c->who == NC_CONTROL_KARPENTER);
    add(out, "who", "who", "alone", c->who == NC_CONTROL_ALONE);
}

static void add_objects(const struct nc_control_counts *n, struct nc_buf *out) {
    begin(out, "objects", GAUGE, "Objects that are known.");
    for (enum nc_control_kind k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        add(out, "objects", "kind", nc_control_kind_name(k), n->objects[k]);
    begin(out, "unreadable_objects_total", COUNTER, "Sights of objects that were refused.");
    for (enum nc_control_kind k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        add(out, "unreadable_objects_total", "kind", nc_control_kind_name(k), n->unreadable[k]);
}

static void add_writes(const struct nc_control_counts *n, struct nc_buf *out) {
    static const char *const answers[] = {
        [NC_CONTROL_DONE] = "done",         [NC_CONTROL_MISSING] = "missing",
        [NC_CONTROL_CONFLICT] = "conflict", [NC_CONTROL_REFUSED] = "refused",
        [NC_CONTROL_AWAY] = "away",
    };

    begin(out, "asked_total", COUNTER, "Actions that were asked for.");
    for (enum nc_control_verb v = NC_CONTROL_STAMP; v < _NC_CONTROL_VERB_MAX; v++)
        add(out, "asked_total", "verb", nc_control_verb_name(v), n->asked[v]);
    begin(out, "answered_total", COUNTER, "How they ended.");
    for (enum nc_control_verb v = NC_CONTROL_STAMP; v < NC_CONTROL_SAY; v++)
        for (enum nc_control_answer a = NC_CONTROL_DONE; a <= NC_CONTROL_AWAY; a++)
            if (n->answered[v][a])
                (void)nc_buf_printf(
                    out, PREFIX "answered_total{verb=\"%s\",answer=\"%s\"} %" PRIu64 "\n",
                    nc_control_verb_name(v), answers[a], n->answered[v][a]);
}

void nc_control_metrics(const struct nc_control *c, uint64_t now_usec, struct nc_buf *out) {
    struct nc_control_counts n;

    nc_control_count(c, now_usec, &n);
    add_state(c, out);
    add_objects(&n, out);
    add_one(out, "unreadable_words_total", COUNTER,
            "What nodes said of themselves and could not be read.", n.bad_words);
    add_one(out, "unreadable_timestamps_total", COUNTER,
            "Sights of a termination timestamp that could not be read.", c->bad_stamps);
    add_one(out, "relaying", GAUGE, "Notices that are on their way to a NodeClaim.", n.relaying);
    add_one(out, "draining", GAUGE, "Nodes that say that they drain.", n.draining);
    add_one(out, "waiting", GAUGE, "Objects whose write waits for a place.", n.waiting);
    add_one(out, "in_flight", GAUGE, "Writes that are under way.", n.in_flight);
    add_writes(&n, out);
    add_one(out, "relayed_total", COUNTER, "NodeClaims that a relay deleted.", n.relayed);
    add_sec(out, "relay_seconds_total", COUNTER,
            "From a word to the accepted deletion, all of them together.", n.relay_usec);
    add_sec(out, "relay_max_seconds", GAUGE, "The longest of them.", n.relay_max_usec);
    add_one(out, "held_by_share_total", COUNTER,
            "Writes that waited because their object had too many.", n.held_by_share);
}
