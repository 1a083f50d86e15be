/*
 * Daemon and drain of a status.json for people: what holds, and the last drain as a timeline.
 *
 * As timeline.c: the file is not trusted.
 */
#include <inttypes.h>

#include "nc/report.h"
#include "nc/str.h"
#include "status-words.h"

#define MAX_SOURCES 16
#define MAX_BLOCKED 20
#define MAX_HISTORY 64
#define MAX_COUNT 1000000u
#define BAR_WIDTH 40

static bool is_idle(const struct nc_value *entry) {
    return nc_streq(nc_value_get_string(entry, "phase"), "idle");
}

bool nc_drain_last(const struct nc_value *status, size_t *ret_from, size_t *ret_to) {
    const struct nc_value *history = nc_words_list(status, "drain.history");
    size_t to = history ? nc_words_at_most(history->n, MAX_HISTORY) : 0, from;

    while (to > 0 && is_idle(history->items[to - 1]))
        to--;
    for (from = to; from > 0 && !is_idle(history->items[from - 1]);)
        from--;
    *ret_from = from;
    *ret_to = to;
    return to > from;
}

/* --- status */

/* 1, 0; -1 where it is not known. */
static int truth_of(const struct nc_value *map, const char *key) {
    const struct nc_value *v = nc_value_get(map, key);

    return v && v->type == NC_VALUE_BOOL ? v->boolean : -1;
}

static void put_policies(struct nc_buf *out, const struct nc_value *policies) {
    const size_t n =
        policies && policies->type == NC_VALUE_MAP ? nc_words_at_most(policies->n, MAX_SOURCES) : 0;

    if (n == 0)
        return;
    nc_words_title(out, "policies");
    for (size_t i = 0; i < n; i++) {
        (void)nc_buf_puts(out, i ? ", " : "");
        nc_words_put(out, policies->members[i].key);
        (void)nc_buf_putc(out, ' ');
        nc_words_put(out, nc_words_text(policies, policies->members[i].key, "unknown"));
    }
    (void)nc_buf_putc(out, '\n');
}

static void put_daemon(struct nc_buf *out, const struct nc_value *daemon) {
    const char *error = nc_words_text(daemon, "api_error", NULL);
    const char *delay = nc_words_text(daemon, "inhibit_delay", NULL);
    const char *remedy = nc_words_text(daemon, "api_remedy", NULL);
    const char *state = nc_words_text(daemon, "api_state", NULL);

    if (!daemon || daemon->type != NC_VALUE_MAP)
        return;
    nc_words_title(out, "daemon");
    if (truth_of(daemon, "running") == 0) {
        (void)nc_buf_puts(out, "not running; what follows is what it last wrote\n");
        return;
    }
    if (truth_of(daemon, "connected") == 1) {
        (void)nc_buf_puts(out, "connected");
    } else {
        (void)nc_buf_puts(out, "not connected to the API server");
        if (state) {
            (void)nc_buf_puts(out, " (");
            nc_words_put(out, state);
            (void)nc_buf_putc(out, ')');
        }
    }
    (void)nc_buf_puts(out, ", shutdown inhibitor ");
    nc_words_put(out, nc_words_text(daemon, "inhibitor", "unknown"));
    (void)nc_buf_puts(out, ", since ");
    nc_words_put(out, nc_words_text(daemon, "started", "-"));
    (void)nc_buf_putc(out, '\n');
    if (error)
        nc_words_line(out, "", error);
    if (error && remedy) {
        (void)nc_buf_puts(out, NC_WORDS_INDENT "remedy: ");
        nc_words_put(out, remedy);
        (void)nc_buf_putc(out, '\n');
    }
    if (delay)
        nc_words_line(out, "", delay);
}

static void put_polls(struct nc_buf *out, const struct nc_value *polls) {
    const size_t n =
        polls && polls->type == NC_VALUE_MAP ? nc_words_at_most(polls->n, MAX_SOURCES) : 0;

    if (n == 0)
        return;
    nc_words_title(out, "imds");
    for (size_t i = 0; i < n; i++) {
        const struct nc_value *one = polls->members[i].value;
        const char *error = nc_words_text(one, "error", NULL);
        (void)nc_buf_puts(out, i ? ", " : "");
        nc_words_put(out, polls->members[i].key);
        (void)nc_buf_putc(out, ' ');
        nc_words_put(out, nc_words_text(one, "state", "unknown"));
        if (error) {
            (void)nc_buf_puts(out, " (");
            nc_words_put(out, error);
            (void)nc_buf_putc(out, ')');
        }
    }
    (void)nc_buf_putc(out, '\n');
}

/* ", WORD text" where there is such a member. */
static void put_more(struct nc_buf *out, const struct nc_value *map, const char *key,
                     const char *word) {
    const char *text = nc_words_text(map, key, NULL);

    if (!text)
        return;
    (void)nc_buf_printf(out, ", %s ", word);
    nc_words_put(out, text);
}

static void put_sources(struct nc_buf *out, const struct nc_value *sources) {
    for (size_t i = 0; sources && i < nc_words_at_most(sources->n, MAX_SOURCES); i++) {
        const struct nc_value *s = sources->items[i];
        nc_words_title(out, i == 0 ? "notice" : "");
        nc_words_put(out, nc_words_text(s, "source", "unknown"));
        put_more(out, s, "action", "to");
        put_more(out, s, "policy", "policy");
        put_more(out, s, "deadline", "deadline");
        put_more(out, s, "begin", "begins");
        put_more(out, s, "noticed", "since");
        (void)nc_buf_putc(out, '\n');
    }
}

/* ": default/x by pdb-y, …": whom it waits for. */
static void put_names(struct nc_buf *out, const struct nc_value *blocked, size_t most) {
    for (size_t i = 0; blocked && i < nc_words_at_most(blocked->n, most); i++) {
        const char *budget = nc_words_text(blocked->items[i], "budget", NULL);
        (void)nc_buf_puts(out, i ? ", " : ": ");
        nc_words_put(out, nc_words_text(blocked->items[i], "pod", "?"));
        (void)nc_buf_puts(out, budget ? " by " : "");
        nc_words_put(out, budget ? budget : "");
    }
}

void nc_drain_pods_text(const struct nc_value *drain, size_t names, struct nc_buf *out) {
    static const struct {
        const char *path, *words;
    } counts[] = {{"pods.leaving", "leaving"},
                  {"pods.deleted", "deleted at their last moment"},
                  {"pods.kept", "kept by do-not-disrupt"},
                  {"pods.blocked", "blocked"}};
    const uint64_t total = nc_words_number(drain, "pods.total", MAX_COUNT);

    put_more(out, drain, "incomplete", "the list of pods is incomplete:");
    if (total == 0)
        return;
    (void)nc_buf_printf(out, ", %" PRIu64 " of %" PRIu64 " pods left",
                        nc_words_number(drain, "pods.remaining", MAX_COUNT), total);
    for (size_t i = 0; i < NC_ARRAY_SIZE(counts); i++) {
        const uint64_t n = nc_words_number(drain, counts[i].path, MAX_COUNT);
        if (n > 0)
            (void)nc_buf_printf(out, ", %" PRIu64 " %s", n, counts[i].words);
    }
    put_names(out, nc_words_list(drain, "blocked"), names);
}

static void put_blocked(struct nc_buf *out, const struct nc_value *blocked) {
    for (size_t i = 0; blocked && i < nc_words_at_most(blocked->n, MAX_BLOCKED); i++) {
        const struct nc_value *b = blocked->items[i];
        nc_words_title(out, i == 0 ? "blocked" : "");
        nc_words_put(out, nc_words_text(b, "pod", "?"));
        put_more(out, b, "budget", "budget");
        put_more(out, b, "last_moment", "last moment");
        put_more(out, b, "message", "says");
        (void)nc_buf_putc(out, '\n');
    }
}

void nc_drain_status_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *daemon = nc_value_get(status, "daemon");
    const struct nc_value *drain = nc_value_get(status, "drain");
    const struct nc_value *ours = nc_value_path(drain, "cordon.ours");

    put_daemon(out, daemon);
    put_polls(out, nc_value_get(daemon, "imds"));
    put_policies(out, nc_value_get(daemon, "policies"));
    if (!drain || drain->type != NC_VALUE_MAP)
        return;
    nc_words_title(out, "drain");
    nc_words_put(out, nc_words_text(drain, "phase", "unknown"));
    put_more(out, drain, "since", "since");
    nc_drain_pods_text(drain, 0, out);
    put_more(out, drain, "last_moment", "last moment");
    if (ours && ours->type == NC_VALUE_BOOL && ours->boolean)
        (void)nc_buf_puts(out, ", cordoned by us");
    (void)nc_buf_putc(out, '\n');
    put_sources(out, nc_words_list(drain, "sources"));
    put_blocked(out, nc_words_list(drain, "blocked"));
}

/* --- timeline */

static uint64_t after(uint64_t usec, uint64_t origin_usec) {
    return usec > origin_usec ? usec - origin_usec : 0;
}

/* Beyond a day nobody wants to know the milliseconds. */
static void put_seconds(struct nc_buf *out, uint64_t usec) {
    if (usec < 86400ull * 1000000)
        (void)nc_buf_printf(out, "%5" PRIu64 ".%03u s", usec / 1000000,
                            (unsigned)(usec / 1000 % 1000));
    else
        (void)nc_buf_printf(out, "%9" PRIu64 " s", usec / 1000000);
}

static void put_offset(struct nc_buf *out, uint64_t usec) {
    (void)nc_buf_putc(out, '+');
    put_seconds(out, usec);
    (void)nc_buf_puts(out, "  ");
}

static void put_bar(struct nc_buf *out, uint64_t from, uint64_t to, uint64_t total) {
    const uint64_t first = total ? from * BAR_WIDTH / total : 0;
    const uint64_t last = total ? (to * BAR_WIDTH + total - 1) / total : 0;

    for (uint64_t i = 0; i < BAR_WIDTH; i++)
        (void)nc_buf_putc(out, i >= first && (i < last || i == first) ? '#' : '.');
}

static void put_mark(struct nc_buf *out, uint64_t usec, uint64_t origin_usec, const char *word,
                     const char *text) {
    if (usec == 0)
        return;
    put_offset(out, after(usec, origin_usec));
    (void)nc_buf_printf(out, "%-12s ", word);
    nc_words_put(out, text);
    (void)nc_buf_putc(out, '\n');
}

static void put_marks(struct nc_buf *out, const struct nc_value *drain, uint64_t origin_usec) {
    const struct nc_value *sources = nc_words_list(drain, "sources");
    const struct nc_value *blocked = nc_words_list(drain, "blocked");

    for (size_t i = 0; sources && i < nc_words_at_most(sources->n, MAX_SOURCES); i++)
        put_mark(out, nc_words_time(sources->items[i], "noticed"), origin_usec, "notice",
                 nc_words_text(sources->items[i], "source", "unknown"));
    put_mark(out, nc_words_time(nc_value_get(drain, "cordon"), "since"), origin_usec, "cordon", "");
    for (size_t i = 0; blocked && i < nc_words_at_most(blocked->n, MAX_BLOCKED); i++)
        put_mark(out, nc_words_time(blocked->items[i], "last_moment"), origin_usec, "last moment",
                 nc_words_text(blocked->items[i], "pod", "?"));
    put_mark(out, nc_words_time(drain, "last_moment"), origin_usec, "last moment", "of all pods");
    put_mark(out, nc_words_time(drain, "deadline"), origin_usec, "deadline", "the machine goes");
}

void nc_drain_timeline_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    const struct nc_value *history = nc_words_list(drain, "history");
    uint64_t origin, end, total;
    size_t from, to;

    if (!nc_drain_last(status, &from, &to))
        return;
    origin = nc_words_moment(history->items[from]);
    /* What ended the last phase: idle, or nothing yet. */
    end = nc_words_moment(history->items[to < history->n ? to : to - 1]);
    total = after(end, origin);
    (void)nc_buf_puts(out, "drain, begun ");
    nc_words_put(out, nc_words_text(history->items[from], "at", "-"));
    put_more(out, drain, "source", "for");
    put_more(out, drain, "id", "notice");
    (void)nc_buf_putc(out, '\n');
    for (size_t i = from; i < to; i++) {
        const uint64_t at = after(nc_words_moment(history->items[i]), origin);
        const struct nc_value *next = i + 1 < history->n ? history->items[i + 1] : NULL;
        const uint64_t until = next ? after(nc_words_moment(next), origin) : total;
        nc_cleanup(nc_buf_done) struct nc_buf name = NC_BUF_INIT;
        nc_words_put(&name, nc_words_text(history->items[i], "phase", "?"));
        put_offset(out, at);
        (void)nc_buf_printf(out, "%-12s ", name.data ? name.data : "");
        put_seconds(out, after(until, at));
        (void)nc_buf_puts(out, "  ");
        put_bar(out, at, until, total);
        (void)nc_buf_putc(out, '\n');
    }
    put_marks(out, drain, origin);
}
