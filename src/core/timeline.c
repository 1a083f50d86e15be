/*
 * A status.json for people: what the node is doing, and the boot as a timeline. Anything may be
 * missing or of another type: what cannot be read is left out.
 */
#include <inttypes.h>
#include <stdio.h>

#include "nc/report.h"
#include "nc/str.h"

#define BAR_WIDTH 40

static const char *text_or(const struct nc_value *map, const char *key, const char *otherwise) {
    const char *text = nc_value_get_string(map, key);

    return text && nc_is_text(text, strlen(text)) ? text : otherwise;
}

static uint64_t usec_of(const struct nc_value *map, const char *key) {
    const struct nc_value *v = nc_value_get(map, key);

    return v && v->type == NC_VALUE_INT && v->integer > 0 ? (uint64_t)v->integer : 0;
}

static const struct nc_value *list_of(const struct nc_value *map, const char *key) {
    const struct nc_value *v = nc_value_get(map, key);

    return v && v->type == NC_VALUE_LIST ? v : NULL;
}

static void print_usec(struct nc_buf *out, uint64_t usec) {
    if (usec < 10000)
        (void)nc_buf_printf(out, "%6.2f ms", (double)usec / 1e3);
    else if (usec < 10000000)
        (void)nc_buf_printf(out, "%6" PRIu64 " ms", usec / 1000);
    else
        (void)nc_buf_printf(out, "%6.1f s ", (double)usec / 1e6);
}

static void print_error(struct nc_buf *out, const struct nc_value *phase, const char *indent) {
    const struct nc_value *error = nc_value_get(phase, "error");

    if (!error || error->type != NC_VALUE_MAP)
        return;
    (void)nc_buf_printf(out, "%s%s: %s\n", indent, text_or(error, "class", "error"),
                        text_or(error, "message", "?"));
    if (*text_or(error, "remedy", ""))
        (void)nc_buf_printf(out, "%sremedy: %s\n", indent, text_or(error, "remedy", ""));
}

static void print_list(struct nc_buf *out, const char *title, const struct nc_value *list) {
    for (size_t i = 0; list && i < list->n; i++)
        if (nc_value_string(list->items[i]))
            (void)nc_buf_printf(out, "%-12s %s\n", i == 0 ? title : "",
                                nc_value_string(list->items[i]));
}

static void print_resources(struct nc_buf *out, const char *title, const struct nc_value *map) {
    char buf[32];

    if (!map || map->type != NC_VALUE_MAP || map->n == 0)
        return;
    (void)nc_buf_printf(out, "%-12s", title);
    for (size_t i = 0; i < map->n; i++) {
        const char *text = nc_value_scalar_text(map->members[i].value, buf);
        if (text && !nc_streq(text, "0"))
            (void)nc_buf_printf(out, " %s=%s", map->members[i].key, text);
    }
    (void)nc_buf_putc(out, '\n');
}

void nc_status_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *instance = nc_value_get(status, "instance");
    const struct nc_value *claim = nc_value_get(status, "nodeclaim");
    const struct nc_value *phases = list_of(status, "phases");
    const struct nc_value *waiting = nc_value_get(status, "waiting");

    (void)nc_buf_printf(out, "%-12s %s\n", "outcome", text_or(status, "outcome", "unknown"));
    (void)nc_buf_printf(out, "%-12s %s\n", "node", text_or(status, "node", "-"));
    (void)nc_buf_printf(out, "%-12s %s, %s, %s, %s\n", "instance", text_or(instance, "id", "-"),
                        text_or(instance, "type", "-"), text_or(instance, "az", "-"),
                        text_or(instance, "life_cycle", "-"));
    (void)nc_buf_printf(out, "%-12s %s\n", "nodeclaim", text_or(claim, "name", "-"));
    for (size_t i = 0; phases && i < phases->n; i++) {
        const char *outcome = text_or(phases->items[i], "outcome", "");
        if (!nc_streq(outcome, "running") && !nc_streq(outcome, "failed"))
            continue;
        const struct nc_value *attempts = nc_value_get(phases->items[i], "attempts");
        (void)nc_buf_printf(out, "%-12s %s, attempt %" PRId64 ", deadline %s\n",
                            text_or(phases->items[i], "name", "?"), outcome,
                            attempts ? attempts->integer : 0, text_or(status, "deadline", "-"));
        print_error(out, phases->items[i], "             ");
    }
    if (*text_or(waiting, "reason", ""))
        (void)nc_buf_printf(out, "%-12s %s: %s\n", "waiting", text_or(waiting, "reason", ""),
                            text_or(waiting, "message", ""));
    print_resources(out, "predicted", nc_value_path(status, "allocatable.predicted"));
    print_resources(out, "allocatable", nc_value_path(status, "allocatable.actual"));
    print_list(out, "difference", nc_value_path(status, "allocatable.differences"));
    print_list(out, "warning", list_of(status, "warnings"));
}

struct span {
    uint64_t start, end;
};

static uint64_t started_of(const struct nc_value *phase) {
    uint64_t usec = 0;
    const char *text = nc_value_get_string(phase, "started");

    return text && nc_time_parse(text, &usec) == 0 ? usec : 0;
}

/* status.json has starts in whole seconds and durations in microseconds: phases follow each other,
 * so the sum places them. */
static void print_bar(struct nc_buf *out, struct span s, uint64_t total) {
    const uint64_t from = total ? s.start * BAR_WIDTH / total : 0;
    uint64_t to = total ? (s.end * BAR_WIDTH + total - 1) / total : 0;

    if (to <= from)
        to = from + 1;
    for (uint64_t i = 0; i < BAR_WIDTH; i++)
        (void)nc_buf_puts(out, i >= from && i < to ? "#" : ".");
}

void nc_timeline_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *phases = list_of(status, "phases");
    uint64_t total = 0, at = 0;

    if (!phases || phases->n == 0) {
        (void)nc_buf_puts(out, "no phases are known\n");
        return;
    }
    for (size_t i = 0; i < phases->n; i++)
        total += usec_of(phases->items[i], "duration_usec");
    (void)nc_buf_printf(out, "bootstrap of %s (%s), started %s: %s\n",
                        text_or(status, "node", "an unknown node"),
                        text_or(nc_value_get(status, "instance"), "id", "-"),
                        text_or(status, "started", "-"), text_or(status, "outcome", "unknown"));
    for (size_t i = 0; i < phases->n; i++) {
        const struct nc_value *phase = phases->items[i];
        const uint64_t duration = usec_of(phase, "duration_usec");
        const struct nc_value *attempts = nc_value_get(phase, "attempts");

        (void)nc_buf_puts(out, "+");
        print_usec(out, at);
        (void)nc_buf_printf(out, "  %-10s ", text_or(phase, "name", "?"));
        print_usec(out, duration);
        (void)nc_buf_puts(out, "  ");
        if (started_of(phase) > 0 || duration > 0)
            print_bar(out, (struct span){at, at + duration}, total);
        (void)nc_buf_printf(out, "  %s", text_or(phase, "outcome", "?"));
        if (attempts && attempts->type == NC_VALUE_INT && attempts->integer > 1)
            (void)nc_buf_printf(out, " (%" PRId64 " attempts)", attempts->integer);
        (void)nc_buf_putc(out, '\n');
        print_error(out, phase, "             ");
        at += duration;
    }
    (void)nc_buf_puts(out, "=");
    print_usec(out, total);
    (void)nc_buf_puts(out, "  in all\n");
}
