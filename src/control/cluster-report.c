/*
 * What the controller tells people and programs: counts, a report of every node, its text. These
 * walk all objects: they are for who asks, not for the step.
 */
#include "fit.h"
#include "lifecycle-action.h"
#include "nc/str.h"
#include "out-of-service.h"
#include "step.h"

/* ---- what stands with a node */

static bool is_relayed(const struct control_claim *claim, const struct control_relay *r) {
    const bool has_timestamp =
        (claim->timestamp_usec && claim->timestamp_usec <= r->t_usec)
        || (claim->accepted_timestamp_usec && claim->accepted_timestamp_usec <= r->t_usec);

    return nc_control_is_deleting(claim) && (has_timestamp || claim->is_timestamp_refused);
}

/* Of a node to whose end nobody puts a hand. */
static const char *state_at_rest(const struct control_node *node) {
    const struct control_fit *f = node->fit;

    return f && f->is_overdue                               ? "UnfitOverdue"
           : f && f->stated && !f->is_fit && !f->is_invalid ? "Unfit"
                                                            : "";
}

static const char *state_of(const struct nc_control *c, const struct control_node *node,
                            const struct control_claim *claim, uint64_t now_usec) {
    struct control_relay r;

    if (nc_control_is_instance_gone(node))
        return "InstanceGone";
    if (!claim)
        return node->deletion_usec ? "ending" : state_at_rest(node);
    if (nc_control_has_relay(c, claim, now_usec, &r))
        return is_relayed(claim, &r) ? "relayed" : "relaying";
    if (claim->more && claim->more->state)
        return claim->more->state;
    if (!nc_control_is_deleting(claim))
        return claim->more && claim->more->disrupt          ? "disrupting"
               : claim->more && claim->more->waits_for_zone ? "WaitingForZone"
                                                            : state_at_rest(node);
    return node->drain_status && node->drain_status->phase == CONTROL_PHASE_DRAINED ? "ending"
                                                                                    : "draining";
}

static bool is_draining(const struct control_node *node) {
    return node->drain_status && node->drain_status->phase >= CONTROL_PHASE_CORDONED
           && node->drain_status->phase <= CONTROL_PHASE_VOLUMES;
}

/* ---- counts */

static size_t count_relaying(const struct nc_control *c, uint64_t now_usec) {
    const struct control_table *t = &c->names[NC_CONTROL_CLAIM];
    struct control_relay r;
    size_t n = 0;

    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next)
            n += nc_control_has_relay(c, nc_control_object_of(l), now_usec, &r)
                 && !is_relayed(nc_control_object_of(l), &r);
    return n;
}

/* By then whoever collects metrics knows a node. */
#define COLLECTED_USEC (600ull * 1000000)

static void count_nodes(const struct nc_control *c, uint64_t now_usec,
                        struct nc_control_counts *ret) {
    const struct control_table *t = &c->names[NC_CONTROL_NODE];

    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next) {
            const struct control_node *node = nc_control_object_of(l);
            const struct control_fit *f = node->deletion_usec ? NULL : node->fit;
            ret->agents += node->has_agent && node->deletion_usec == 0
                           && now_usec >= node->created_usec + COLLECTED_USEC;
            ret->draining += is_draining(node);
            ret->unfit += f && f->stated && !f->is_fit && !f->is_invalid;
            ret->unfit_overdue += f && f->is_overdue;
        }
}

void nc_control_count(const struct nc_control *c, uint64_t now_usec,
                      struct nc_control_counts *ret) {
    *ret = c->counts;
    ret->objects[NC_CONTROL_NODE] = c->names[NC_CONTROL_NODE].n;
    ret->objects[NC_CONTROL_CLAIM] = c->names[NC_CONTROL_CLAIM].n;
    ret->objects[NC_CONTROL_POOL] = c->n_pools_there;
    ret->objects[NC_CONTROL_CLASS] = c->n_classes_there;
    ret->relaying = count_relaying(c, now_usec);
    count_nodes(c, now_usec, ret);
    ret->waiting = c->relays.n + c->others.n + c->ends.n + c->states.n;
    ret->in_flight = c->n_in_flight;
    ret->without_node = nc_control_count_without_node(c);
}

/* ---- the report */

const char *nc_control_zone_turn(const struct nc_control *c) {
    return c->rules.zone_turn_usec && c->leads && c->turn.led_usec == c->led_usec ? c->turn.zone
                                                                                  : NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const struct control_node *const *)a)->o.name,
                  (*(const struct control_node *const *)b)->o.name);
}

static const struct control_node **sorted(const struct nc_control *c) {
    const struct control_table *t = &c->names[NC_CONTROL_NODE];
    const struct control_node **v = nc_calloc(t->n + 1, sizeof(struct control_node *));
    size_t n = 0;

    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next)
            v[n++] = nc_control_object_of(l);
    qsort(v, n, sizeof(*v), by_name);
    return v;
}

static struct nc_value *row(const struct nc_control *c, const struct control_node *node,
                            uint64_t now_usec) {
    const struct control_claim *claim = nc_control_claim_of(c, node);
    const struct control_drain_status *w = node->drain_status;
    const bool has_source = w && w->source >= 0;
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "node", node->o.name);
    nc_value_set_text(v, "claim", claim ? claim->o.name : NULL);
    nc_value_set_text(v, "pool", claim && claim->pool ? claim->pool->o.name : node->pool);
    nc_value_set_text(v, "phase", w ? nc_control_phase_name(w->phase) : NULL);
    nc_value_set_text(v, "source", has_source ? nc_source_name((enum nc_source)w->source) : NULL);
    nc_value_set_text(v, "policy",
                      w && w->policy != NC_POLICY_DRAIN ? nc_policy_name(w->policy) : NULL);
    nc_value_set_time(v, "deadline", w ? w->deadline_usec : 0);
    nc_value_set_count(v, "remaining", w && w->remaining >= 0, w ? (size_t)w->remaining : 0);
    nc_value_set_text(v, "blocked", w ? w->blocked : NULL);
    nc_value_set_time(v, "claimDeletion", claim ? claim->deletion_usec : 0);
    nc_value_set_string(v, "state", state_of(c, node, claim, now_usec));
    nc_value_set_text(v, "lifecycleAction", nc_control_lifecycle_name(node));
    return v;
}

struct nc_value *nc_control_report(const struct nc_control *c, uint64_t now_usec) {
    nc_auto_free const struct control_node **v = sorted(c);
    struct nc_value *list = nc_value_new_list();

    for (size_t i = 0; v[i]; i++)
        nc_value_push(list, row(c, v[i], now_usec));
    return list;
}

/* ---- for people: from a report that was read back */

#define ROWS_MAX ((size_t)100000)

struct column {
    const char *key, *title;
    size_t width;  /* bytes at most; 0: the last one, to the end of the line */
    bool is_brief; /* stands in the line where the terminal has no room for all */
    size_t spare;  /* what the text may grow by when a time becomes a local one */
    bool is_rare;  /* left out where no row has it */
};
static const struct column of_nodes[] = {
    {"node", "NODE", 253, true, 0, false},
    {"claim", "CLAIM", 63, false, 0, false},
    {"pool", "POOL", 63, false, 0, false},
    {"state", "STATE", 24, true, 0, false},
    {"lifecycleAction", "LIFECYCLE", 10, false, 0, true},
    {"phase", "PHASE", 12, true, 0, false},
    {"source", "SOURCE", 12, false, 0, false},
    {"policy", "POLICY", 12, false, 0, false},
    {"deadline", "DEADLINE", 20, false, 6, false},
    {"remaining", "LEFT", 7, true, 0, false},
    {"blocked", "BLOCKED", 0, false, 0, false},
};
static const struct column of_claims[] = {
    {"claim", "CLAIM", 63, true, 0, false},       {"pool", "POOL", 63, false, 0, false},
    {"instance", "INSTANCE", 20, true, 0, false}, {"created", "CREATED", 20, false, 6, false},
    {"cause", "CAUSE", 12, true, 0, false},       {"message", "MESSAGE", 0, false, 0, false},
};
static const struct column of_overhead[] = {
    {"type", "TYPE", 24, true, 0, false},  {"image", "IMAGE", 40, true, 0, false},
    {"nodes", "NODES", 7, true, 0, false}, {"short", "SHORT", 7, true, 0, false},
    {"lacks", "LACKS", 0, true, 0, false},
};

#define COLUMNS_MAX NC_ARRAY_SIZE(of_nodes)
#define LAST_BYTES ((size_t)400)

struct table {
    const struct column *columns;
    size_t n;
    size_t widths[COLUMNS_MAX]; /* 0: left out */
    bool is_brief;
};

/* Printable ASCII only, cut where it is too long; "-" for nothing. */
static void add_cell(struct nc_buf *out, const char *text, size_t width) {
    const size_t most = width ? width : LAST_BYTES, n = strlen(text);

    for (size_t i = 0; i < n && i < most; i++)
        (void)nc_buf_putc(out, i + 1 == most && n > most        ? '+'
                               : text[i] < ' ' || text[i] > '~' ? '?'
                                                                : text[i]);
}

static const char *cell_of(const struct nc_value *row, const struct column *column,
                           char number[static 32]) {
    const char *text = nc_value_scalar_text(nc_value_get(row, column->key), number);

    return text && text[0] ? text : "-";
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The widths of all columns; gives that of a line with all of them. */
static size_t measure(struct table *t, const struct nc_value *list, size_t n) {
    char number[32];
    size_t all = 0;

    for (size_t i = 0; i < t->n; i++) {
        const struct column *column = &t->columns[i];
        const size_t most = column->width ? column->width : LAST_BYTES;
        bool is_there = !column->is_rare;
        t->widths[i] = strlen(column->title);
        for (size_t r = 0; r < n; r++) {
            const char *cell = cell_of(list->items[r], column, number);
            const size_t length = least(strlen(cell), most);
            is_there |= !nc_streq(cell, "-");
            if (length > t->widths[i])
                t->widths[i] = length;
        }
        if (!is_there) {
            t->widths[i] = 0;
            continue;
        }
        all += t->widths[i] + column->spare + 2;
    }
    return all - 2;
}

/* v NULL: the titles. */
static void add_row(struct nc_buf *out, const struct table *t, const struct nc_value *v) {
    char number[32];

    for (size_t i = 0; i < t->n; i++) {
        const struct column *column = &t->columns[i];
        const size_t end = out->len + t->widths[i] + column->spare + 2;
        if ((t->is_brief && !column->is_brief) || t->widths[i] == 0)
            continue;
        add_cell(out, v ? cell_of(v, column, number) : column->title, column->width);
        while (column->width && out->len < end && out->len < NC_BUF_DEFAULT_MAX)
            (void)nc_buf_putc(out, ' ');
    }
    (void)nc_buf_putc(out, '\n');
}

/* What is known beside the brief row: "  claim x, pool y". */
static void add_rest(struct nc_buf *out, const struct table *t, const struct nc_value *v) {
    const char *lead = "  ";
    char number[32];

    for (size_t i = 0; i < t->n; i++) {
        const struct column *column = &t->columns[i];
        const char *text = cell_of(v, column, number);
        if (column->is_brief || nc_streq(text, "-"))
            continue;
        (void)nc_buf_printf(out, "%s%s ", lead, column->key);
        add_cell(out, text, column->width);
        lead = ", ";
    }
    if (lead[0] == ',')
        (void)nc_buf_putc(out, '\n');
}

static bool is_empty(const struct nc_value *report) {
    return !report || report->type != NC_VALUE_LIST || report->n == 0;
}

static void add_table(struct nc_buf *out, struct table *t, const struct nc_value *report,
                      size_t room) {
    const size_t n = least(report->n, ROWS_MAX);

    t->is_brief = measure(t, report, n) > room && room > 0;
    add_row(out, t, NULL);
    for (size_t i = 0; i < n; i++) {
        add_row(out, t, report->items[i]);
        if (t->is_brief)
            add_rest(out, t, report->items[i]);
    }
    if (report->n > n)
        (void)nc_buf_printf(out, "and %zu more\n", report->n - n);
}

void nc_control_text(const struct nc_value *report, size_t room, struct nc_buf *out) {
    struct table t = {.columns = of_nodes, .n = NC_ARRAY_SIZE(of_nodes)};

    if (is_empty(report))
        (void)nc_buf_puts(out, "no nodes\n");
    else
        add_table(out, &t, report, room);
}

static void add_titled(struct nc_buf *out, const char *title, struct table t,
                       const struct nc_value *report, size_t room) {
    if (is_empty(report))
        return;
    (void)nc_buf_printf(out, "\n%s:\n", title);
    add_table(out, &t, report, room);
}

void nc_control_text_claims(const struct nc_value *report, size_t room, struct nc_buf *out) {
    add_titled(out, "NodeClaims without a Node",
               (struct table){.columns = of_claims, .n = NC_ARRAY_SIZE(of_claims)}, report, room);
}

void nc_control_text_overhead(const struct nc_value *report, size_t room, struct nc_buf *out) {
    add_titled(out, "Less memory than NodeClaims count on",
               (struct table){.columns = of_overhead, .n = NC_ARRAY_SIZE(of_overhead)}, report,
               room);
}
