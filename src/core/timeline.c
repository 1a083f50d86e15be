/*
 * A status.json for people: what the node is doing, and the boot as a timeline.
 *
 * The file is not trusted: anything may be missing, of another type, or absurd. What cannot be read
 * is left out, texts lose what would move a terminal's cursor, lists and numbers are bounded.
 */
#include <inttypes.h>
#include <stdio.h>

#include "nc/report.h"
#include "nc/str.h"

#define BAR_WIDTH 40
#define MAX_PHASES 64
#define MAX_LINES 64
#define MAX_TEXT_BYTES 1024
#define MAX_DURATION_USEC ((uint64_t)366 * 24 * 3600 * 1000000) /* longer is no boot */
#define INDENT "             "

static size_t at_most(size_t n, size_t most) {
    return n < most ? n : most;
}

/* Text on one line: a control character (of C0, C1, or DEL) becomes a space. The parser has made
 * sure of UTF-8. */
static void put_clean(struct nc_buf *out, const char *text) {
    for (size_t i = 0; text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (i >= MAX_TEXT_BYTES && (c & 0xc0) != 0x80)
            return;
        const bool is_c1 = c == 0xc2 && (unsigned char)text[i + 1] < 0xa0 && text[i + 1];
        (void)nc_buf_putc(out, c < 0x20 || c == 0x7f || is_c1 ? ' ' : text[i]);
        i += is_c1;
    }
}

static const char *text_or(const struct nc_value *map, const char *key, const char *otherwise) {
    const char *text = nc_value_get_string(map, key);

    return text && *text ? text : otherwise;
}

static void put_field(struct nc_buf *out, const char *title) {
    (void)nc_buf_printf(out, "%-12s ", title);
}

static void put_line(struct nc_buf *out, const char *title, const char *text) {
    put_field(out, title);
    put_clean(out, text);
    (void)nc_buf_putc(out, '\n');
}

static uint64_t number_of(const struct nc_value *map, const char *key, uint64_t most) {
    const struct nc_value *v = nc_value_get(map, key);

    if (!v || v->type != NC_VALUE_INT || v->integer <= 0)
        return 0;
    return (uint64_t)v->integer < most ? (uint64_t)v->integer : most;
}

static uint64_t duration_of(const struct nc_value *phase) {
    return number_of(phase, "duration_usec", MAX_DURATION_USEC);
}

static const struct nc_value *list_of(const struct nc_value *map, const char *key) {
    const struct nc_value *v = nc_value_path(map, key);

    return v && v->type == NC_VALUE_LIST ? v : NULL;
}

static void put_usec(struct nc_buf *out, uint64_t usec) {
    if (usec < 10000)
        (void)nc_buf_printf(out, "%6.2f ms", (double)usec / 1e3);
    else if (usec < 10000000)
        (void)nc_buf_printf(out, "%6" PRIu64 " ms", usec / 1000);
    else
        (void)nc_buf_printf(out, "%6.1f s ", (double)usec / 1e6);
}

static void put_error(struct nc_buf *out, const struct nc_value *phase) {
    const struct nc_value *error = nc_value_get(phase, "error");
    const char *remedy = text_or(error, "remedy", NULL);

    if (!error || error->type != NC_VALUE_MAP)
        return;
    (void)nc_buf_puts(out, INDENT);
    put_clean(out, text_or(error, "class", "error"));
    (void)nc_buf_puts(out, ": ");
    put_clean(out, text_or(error, "message", "?"));
    (void)nc_buf_putc(out, '\n');
    if (!remedy)
        return;
    (void)nc_buf_puts(out, INDENT "remedy: ");
    put_clean(out, remedy);
    (void)nc_buf_putc(out, '\n');
}

static void put_list(struct nc_buf *out, const char *title, const struct nc_value *list) {
    const size_t n = list ? at_most(list->n, MAX_LINES) : 0;

    for (size_t i = 0; i < n; i++)
        if (nc_value_string(list->items[i]))
            put_line(out, i == 0 ? title : "", nc_value_string(list->items[i]));
    if (list && list->n > n)
        (void)nc_buf_printf(out, INDENT "and %zu more\n", list->n - n);
}

static void put_resources(struct nc_buf *out, const char *title, const struct nc_value *map) {
    char buf[32];

    if (!map || map->type != NC_VALUE_MAP || map->n == 0)
        return;
    (void)nc_buf_printf(out, "%-12s", title);
    for (size_t i = 0; i < at_most(map->n, MAX_LINES); i++) {
        const char *text = nc_value_scalar_text(map->members[i].value, buf);
        if (!text || nc_streq(text, "0"))
            continue;
        (void)nc_buf_putc(out, ' ');
        put_clean(out, map->members[i].key);
        (void)nc_buf_putc(out, '=');
        put_clean(out, text);
    }
    (void)nc_buf_putc(out, '\n');
}

static void put_instance(struct nc_buf *out, const struct nc_value *instance) {
    static const char *const keys[] = {"id", "type", "az", "life_cycle"};

    put_field(out, "instance");
    for (size_t i = 0; i < NC_ARRAY_SIZE(keys); i++) {
        (void)nc_buf_puts(out, i ? ", " : "");
        put_clean(out, text_or(instance, keys[i], "-"));
    }
    (void)nc_buf_putc(out, '\n');
}

/* The phase that runs or failed, with what is wrong and until when it is tried. */
static void put_open_phase(struct nc_buf *out, const struct nc_value *status,
                           const struct nc_value *phase) {
    const char *outcome = text_or(phase, "outcome", "");

    if (!nc_streq(outcome, "running") && !nc_streq(outcome, "failed"))
        return;
    nc_cleanup(nc_buf_done) struct nc_buf name = NC_BUF_INIT, line = NC_BUF_INIT;
    put_clean(&name, text_or(phase, "name", "?"));
    (void)nc_buf_printf(&line, "%s, attempt %" PRIu64 ", deadline ", outcome,
                        number_of(phase, "attempts", UINT32_MAX));
    (void)nc_buf_puts(&line, text_or(status, "deadline", "-"));
    put_line(out, name.data, line.data);
    put_error(out, phase);
}

void nc_status_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *phases = list_of(status, "phases");
    const struct nc_value *waiting = nc_value_get(status, "waiting");
    const char *reason = text_or(waiting, "reason", NULL);

    put_line(out, "outcome", text_or(status, "outcome", "unknown"));
    put_line(out, "node", text_or(status, "node", "-"));
    put_instance(out, nc_value_get(status, "instance"));
    put_line(out, "nodeclaim", text_or(nc_value_get(status, "nodeclaim"), "name", "-"));
    for (size_t i = 0; phases && i < at_most(phases->n, MAX_PHASES); i++)
        put_open_phase(out, status, phases->items[i]);
    if (reason) {
        put_field(out, "waiting");
        put_clean(out, reason);
        (void)nc_buf_puts(out, ": ");
        put_clean(out, text_or(waiting, "message", ""));
        (void)nc_buf_putc(out, '\n');
    }
    put_resources(out, "predicted", nc_value_path(status, "allocatable.predicted"));
    put_resources(out, "allocatable", nc_value_path(status, "allocatable.actual"));
    put_list(out, "difference", list_of(status, "allocatable.differences"));
    put_list(out, "warning", list_of(status, "warnings"));
}

struct span {
    uint64_t start, end;
};

/* status.json has starts in whole seconds and durations in microseconds: phases follow each other,
 * so the sum places them. */
static void put_bar(struct nc_buf *out, struct span s, uint64_t total) {
    uint64_t from = total ? s.start * BAR_WIDTH / total : 0;
    uint64_t to = total ? (s.end * BAR_WIDTH + total - 1) / total : 0;

    if (from >= BAR_WIDTH)
        from = BAR_WIDTH - 1;
    if (to <= from)
        to = from + 1;
    for (uint64_t i = 0; i < BAR_WIDTH; i++)
        (void)nc_buf_putc(out, i >= from && i < to ? '#' : '.');
}

static void put_phase(struct nc_buf *out, const struct nc_value *phase, struct span s,
                      uint64_t total) {
    const uint64_t attempts = number_of(phase, "attempts", UINT32_MAX);
    nc_cleanup(nc_buf_done) struct nc_buf name = NC_BUF_INIT;

    put_clean(&name, text_or(phase, "name", "?"));
    (void)nc_buf_putc(out, '+');
    put_usec(out, s.start);
    (void)nc_buf_printf(out, "  %-10s ", name.data);
    put_usec(out, s.end - s.start);
    (void)nc_buf_puts(out, "  ");
    if (attempts > 0 || s.end > s.start)
        put_bar(out, s, total);
    else
        (void)nc_buf_printf(out, "%*s", BAR_WIDTH, "");
    (void)nc_buf_puts(out, "  ");
    put_clean(out, text_or(phase, "outcome", "?"));
    if (attempts > 1)
        (void)nc_buf_printf(out, " (%" PRIu64 " attempts)", attempts);
    (void)nc_buf_putc(out, '\n');
    put_error(out, phase);
}

static void put_headline(struct nc_buf *out, const struct nc_value *status) {
    (void)nc_buf_puts(out, "bootstrap of ");
    put_clean(out, text_or(status, "node", "an unknown node"));
    (void)nc_buf_puts(out, " (");
    put_clean(out, text_or(nc_value_get(status, "instance"), "id", "-"));
    (void)nc_buf_puts(out, "), started ");
    put_clean(out, text_or(status, "started", "-"));
    (void)nc_buf_puts(out, ": ");
    put_clean(out, text_or(status, "outcome", "unknown"));
    (void)nc_buf_putc(out, '\n');
}

void nc_timeline_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *phases = list_of(status, "phases");
    const size_t n = phases ? at_most(phases->n, MAX_PHASES) : 0;
    uint64_t total = 0, at = 0;

    if (n == 0) {
        (void)nc_buf_puts(out, "no phases are known\n");
        return;
    }
    for (size_t i = 0; i < n; i++)
        total += duration_of(phases->items[i]);
    put_headline(out, status);
    for (size_t i = 0; i < n; i++) {
        const uint64_t end = at + duration_of(phases->items[i]);
        put_phase(out, phases->items[i], (struct span){at, end}, total);
        at = end;
    }
    (void)nc_buf_putc(out, '=');
    put_usec(out, total);
    (void)nc_buf_puts(out, "  in all\n");
}
