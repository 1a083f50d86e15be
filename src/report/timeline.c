/*
 * A status.json for people: what the node is doing, and the boot as a timeline.
 *
 * The file is not trusted: anything may be missing, of another type, or absurd. What cannot be read
 * is left out, texts lose what would move a terminal's cursor, lists and numbers are bounded.
 */
#include <inttypes.h>
#include <stdio.h>

#include "nc/marks.h"
#include "nc/report.h"
#include "nc/str.h"
#include "status-show.h"

#define BAR_WIDTH 20                                            /* a line has 80 columns */
#define MAX_DURATION_USEC ((uint64_t)366 * 24 * 3600 * 1000000) /* longer is no boot */

static uint64_t duration_of(const struct nc_value *phase) {
    return nc_show_number(phase, "durationUsec", MAX_DURATION_USEC);
}

static void show_usec(struct nc_buf *out, uint64_t usec) {
    if (usec < 10000)
        (void)nc_buf_printf(out, "%6.2f ms", (double)usec / 1e3);
    else if (usec < 10000000)
        (void)nc_buf_printf(out, "%6" PRIu64 " ms", usec / 1000);
    else
        (void)nc_buf_printf(out, "%6.1f s ", (double)usec / 1e6);
}

static void show_error(struct nc_buf *out, const struct nc_value *phase) {
    const struct nc_value *error = nc_value_get(phase, "error");
    const char *remedy = nc_show_text(error, "remedy", NULL);

    if (!error || error->type != NC_VALUE_MAP)
        return;
    (void)nc_buf_puts(out, NC_SHOW_INDENT);
    nc_show_marked(out, NC_MARK_BAD, nc_show_text(error, "class", "error"));
    (void)nc_buf_puts(out, ": ");
    nc_show_put(out, nc_show_text(error, "message", "?"));
    (void)nc_buf_putc(out, '\n');
    nc_show_remedy(out, remedy);
}

static void add_list_query(struct nc_buf *out, const char *title, const struct nc_value *list) {
    const size_t n = list ? nc_show_at_most(list->n, NC_SHOW_MAX_LINES) : 0;

    for (size_t i = 0; i < n; i++)
        if (nc_value_string(list->items[i]))
            nc_show_line(out, i == 0 ? title : "", nc_value_string(list->items[i]));
    if (list && list->n > n)
        (void)nc_buf_printf(out, NC_SHOW_INDENT "and %zu more\n", list->n - n);
}

static void show_resources(struct nc_buf *out, const char *title, const struct nc_value *map) {
    char buf[32];

    if (!map || map->type != NC_VALUE_MAP || map->n == 0)
        return;
    (void)nc_buf_printf(out, "%-12s", title);
    for (size_t i = 0; i < nc_show_at_most(map->n, NC_SHOW_MAX_LINES); i++) {
        const char *text = nc_value_scalar_text(map->members[i].value, buf);
        if (!text || nc_streq(text, "0"))
            continue;
        (void)nc_buf_putc(out, ' ');
        nc_show_put(out, map->members[i].key);
        (void)nc_buf_putc(out, '=');
        nc_show_put(out, text);
    }
    (void)nc_buf_putc(out, '\n');
}

static void show_instance(struct nc_buf *out, const struct nc_value *instance) {
    static const char keys[][12] = {"id", "type", "az", "lifeCycle"};

    nc_show_title(out, "instance");
    for (size_t i = 0; i < NC_ARRAY_SIZE(keys); i++) {
        (void)nc_buf_puts(out, i ? ", " : "");
        nc_show_put(out, nc_show_text(instance, keys[i], "-"));
    }
    (void)nc_buf_putc(out, '\n');
}

/* The unit does not start again after what only somebody can remedy (RestartPreventExitStatus=). */
static bool is_final(const struct nc_value *phase) {
    static const enum nc_err_class final[] = {NC_ERR_CONFIG, NC_ERR_HOST, NC_ERR_BUG};
    const char *class = nc_show_text(nc_value_get(phase, "error"), "class", NULL);

    for (size_t i = 0; i < NC_ARRAY_SIZE(final); i++)
        if (nc_streq(class, nc_err_class_name(final[i])))
            return true;
    return false;
}

/* The phase that runs or failed, with what is wrong and until when it is tried. */
static void show_open_phase(struct nc_buf *out, const struct nc_value *status,
                            const struct nc_value *phase) {
    const char *outcome = nc_show_text(phase, "outcome", "");

    if (!nc_streq(outcome, "running") && !nc_streq(outcome, "failed"))
        return;
    nc_cleanup(nc_buf_done) struct nc_buf name = NC_BUF_INIT;
    nc_show_put(&name, nc_show_text(phase, "name", "?"));
    nc_show_title(out, name.data);
    nc_show_outcome(out, outcome);
    (void)nc_buf_printf(out, ", attempt %" PRIu64 ", deadline ",
                        nc_show_number(phase, "attempts", UINT32_MAX));
    nc_show_put(out, nc_show_text(status, "deadline", "-"));
    (void)nc_buf_putc(out, '\n');
    show_error(out, phase);
    if (nc_streq(nc_show_text(status, "outcome", NULL), "failed"))
        (void)nc_buf_printf(out, NC_SHOW_INDENT "then: %s\n",
                            is_final(phase) ? "nothing is retried: replace the node where its user "
                                              "data change, else systemctl restart "
                                              "nodeclaimd-bootstrap"
                                            : "nodeclaimd-bootstrap.service starts again by "
                                              "itself, with the same user data");
}

/* Without a bootstrap the daemon alone knows. */
static const char *node_of(const struct nc_value *status) {
    const char *own = nc_show_text(nc_value_get(status, "daemon"), "node", "-");

    return nc_show_text(status, "node", own);
}

/* What cloud-init's scripts left, for which phases ran again. */
static void show_changed(struct nc_buf *out, const struct nc_value *status) {
    add_list_query(out, "changed", nc_show_list(status, "cloudInit.changed"));
}

static void show_cloud_init(struct nc_buf *out, const struct nc_value *decided) {
    const struct nc_value *waits = nc_value_get(decided, "waits");

    if (!waits || waits->type != NC_VALUE_BOOL)
        return;
    nc_show_title(out, "cloud-init");
    (void)nc_buf_puts(out, waits->boolean ? "kubelet starts after cloud-final.service: "
                                          : "kubelet does not wait for it: ");
    nc_show_put(out, nc_show_text(decided, "why", "?"));
    (void)nc_buf_putc(out, '\n');
}

/* The startup gate; nothing where there is none. */
static void show_fit(struct nc_buf *out, const struct nc_value *fit) {
    const char *opened = nc_show_text(fit, "opened", NULL);

    if (!fit || fit->type != NC_VALUE_MAP)
        return;
    nc_show_title(out, "fit");
    nc_show_marked(out, opened ? NC_MARK_GOOD : NC_MARK_NOTICE, nc_show_text(fit, "reason", "?"));
    (void)nc_buf_puts(out, opened ? ": the gate opened at " : ": ");
    nc_show_put(out, opened ? opened : nc_show_text(fit, "message", "?"));
    (void)nc_buf_puts(out, opened ? ", shut since " : "; the gate is shut since ");
    nc_show_put(out, nc_show_text(fit, "since", "-"));
    if (!opened) {
        const char *until = nc_show_text(fit, "until", NULL);
        const bool opens = until && nc_streq(nc_show_text(fit, "then", NULL), "open");
        (void)nc_buf_puts(out, opens ? ", at most until " : ", until all is there");
        nc_show_put(out, opens ? until : "");
        (void)nc_buf_puts(out, "\n" NC_SHOW_INDENT "remedy: mend what is missing, or spec.fit");
    }
    (void)nc_buf_putc(out, '\n');
}

void nc_status_text(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *phases[NC_SHOW_MAX_PHASES];
    const size_t n_phases = nc_show_phases(status, phases);
    const struct nc_value *waiting = nc_value_get(status, "waiting");
    const char *reason = nc_show_text(waiting, "reason", NULL);
    /* The daemon may be all that has run. */
    const bool is_bootstrapped = nc_show_list(status, "phases") || !nc_value_get(status, "daemon");

    if (is_bootstrapped) {
        nc_show_title(out, "bootstrap");
        nc_show_outcome(out, nc_show_text(status, "outcome", "unknown"));
        (void)nc_buf_putc(out, '\n');
    }
    nc_show_line(out, "node", node_of(status));
    if (is_bootstrapped) {
        show_instance(out, nc_value_get(status, "instance"));
        nc_show_line(out, "nodeclaim",
                     nc_show_text(nc_value_get(status, "nodeClaim"), "name", "-"));
    }
    show_cloud_init(out, nc_value_get(status, "cloudInit"));
    show_changed(out, status);
    for (size_t i = 0; i < n_phases; i++)
        show_open_phase(out, status, phases[i]);
    if (reason) {
        nc_show_title(out, "waiting");
        nc_show_marked(out, NC_MARK_NOTICE, reason);
        (void)nc_buf_puts(out, ": ");
        nc_show_put(out, nc_show_text(waiting, "message", ""));
        (void)nc_buf_putc(out, '\n');
    }
    show_resources(out, "predicted", nc_value_path(status, "allocatable.predicted"));
    show_resources(out, "allocatable", nc_value_path(status, "allocatable.actual"));
    add_list_query(out, "difference", nc_show_list(status, "allocatable.differences"));
    add_list_query(out, "warning", nc_show_list(status, "warnings"));
    show_fit(out, nc_value_get(status, "fit"));
    nc_drain_status_text(status, out);
}

struct span {
    uint64_t start, end;
};

/* status.json has starts in whole seconds and durations in microseconds: phases follow each other,
 * so the sum places them. */
static void show_bar(struct nc_buf *out, struct span s, uint64_t total) {
    uint64_t from = total ? s.start * BAR_WIDTH / total : 0;
    uint64_t to = total ? (s.end * BAR_WIDTH + total - 1) / total : 0;

    if (from >= BAR_WIDTH)
        from = BAR_WIDTH - 1;
    if (to <= from)
        to = from + 1;
    for (uint64_t i = 0; i < BAR_WIDTH; i++)
        (void)nc_buf_putc(out, i >= from && i < to ? '#' : '.');
}

static void show_phase(struct nc_buf *out, const struct nc_value *phase, struct span s,
                       uint64_t total) {
    const uint64_t attempts = nc_show_number(phase, "attempts", UINT32_MAX);
    const bool has_begun = attempts > 0 || s.end > s.start;
    nc_cleanup(nc_buf_done) struct nc_buf name = NC_BUF_INIT;

    nc_show_put(&name, nc_show_text(phase, "name", "?"));
    if (has_begun) {
        (void)nc_buf_putc(out, '+');
        show_usec(out, s.start);
        (void)nc_buf_printf(out, "  %-10s ", name.data);
        show_usec(out, s.end - s.start);
        (void)nc_buf_puts(out, "  ");
        show_bar(out, s, total);
    } else {
        (void)nc_buf_printf(out, "%10s  %-10s %9s  %*s", "", name.data, "", BAR_WIDTH, "");
    }
    (void)nc_buf_puts(out, "  ");
    nc_show_outcome(out, nc_show_text(phase, "outcome", "?"));
    if (attempts > 1)
        (void)nc_buf_printf(out, " (%" PRIu64 " attempts)", attempts);
    (void)nc_buf_putc(out, '\n');
    show_error(out, phase);
}

static void show_headline(struct nc_buf *out, const struct nc_value *status) {
    (void)nc_buf_puts(out, "bootstrap of ");
    nc_show_put(out, nc_show_text(status, "node", "an unknown node"));
    (void)nc_buf_puts(out, " (");
    nc_show_put(out, nc_show_text(nc_value_get(status, "instance"), "id", "-"));
    (void)nc_buf_puts(out, "), started ");
    nc_show_put(out, nc_show_text(status, "started", "-"));
    (void)nc_buf_puts(out, ": ");
    nc_show_outcome(out, nc_show_text(status, "outcome", "unknown"));
    (void)nc_buf_putc(out, '\n');
}

static void show_boot(const struct nc_value *status, struct nc_buf *out) {
    const struct nc_value *phases[NC_SHOW_MAX_PHASES];
    const size_t n = nc_show_phases(status, phases);
    uint64_t total = 0, at = 0;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        total += duration_of(phases[i]);
    show_headline(out, status);
    for (size_t i = 0; i < n; i++) {
        const uint64_t end = at + duration_of(phases[i]);
        show_phase(out, phases[i], (struct span){at, end}, total);
        at = end;
    }
    (void)nc_buf_putc(out, '=');
    show_usec(out, total);
    (void)nc_buf_puts(out, "  in all\n");
    if (nc_show_list(status, "cloudInit.changed"))
        (void)nc_buf_puts(out, "userdata to apply ran again after cloud-init's scripts:\n");
    show_changed(out, status);
}

void nc_timeline_text(const struct nc_value *status, uint64_t now_usec, struct nc_buf *out) {
    const size_t before = out->len;

    show_boot(status, out);
    show_fit(out, nc_value_get(status, "fit"));
    nc_drain_timeline_text(status, now_usec, out);
    if (out->len == before)
        (void)nc_buf_puts(out, "no phases are known\n");
}
