/*
 * Boot and last drain of a status.json as a drawing: one self-contained SVG without scripts, fonts
 * or links.
 *
 * As timeline.c: the file is not trusted. Every text is cleaned and escaped, every number bounded.
 */
#include <inttypes.h>

#include "nc/report.h"
#include "nc/str.h"
#include "status-show.h"

#define WIDTH 960
#define LEFT 140 /* where the time axis begins */
#define AXIS 680 /* its length */
#define ROW 22
#define MAX_ROWS 64
#define MAX_MARKS 64
#define MAX_LABEL_BYTES 80
#define MAX_SPAN_USEC ((uint64_t)366 * 24 * 3600 * 1000000)

struct drawing {
    struct nc_buf *out;
    unsigned y;          /* of the next row */
    uint64_t total_usec; /* that the axis stands for */
};

/* What may not stand in XML as it is; U+FFFE and U+FFFF may not stand there at all. */
static void draw_escaped(struct nc_buf *out, const char *text) {
    nc_cleanup(nc_buf_done) struct nc_buf clean = NC_BUF_INIT;
    size_t n;

    nc_show_put(&clean, text);
    for (size_t i = 0; i < clean.len; i++) {
        const unsigned char c = (unsigned char)clean.data[i];
        n = clean.len - i;
        if (i >= MAX_LABEL_BYTES && (c & 0xc0) != 0x80)
            break;
        if (c == 0xef && n > 2 && (unsigned char)clean.data[i + 1] == 0xbf
            && (unsigned char)clean.data[i + 2] >= 0xbe) {
            (void)nc_buf_putc(out, ' ');
            i += 2;
            continue;
        }
        switch (c) {
        case '&':
            (void)nc_buf_puts(out, "&amp;");
            break;
        case '<':
            (void)nc_buf_puts(out, "&lt;");
            break;
        case '>':
            (void)nc_buf_puts(out, "&gt;");
            break;
        case '"':
            (void)nc_buf_puts(out, "&quot;");
            break;
        case '\'':
            (void)nc_buf_puts(out, "&#39;");
            break;
        default:
            (void)nc_buf_putc(out, clean.data[i]);
        }
    }
}

static void draw_text(struct drawing *d, unsigned x, const char *class, const char *text) {
    (void)nc_buf_printf(d->out, "<text x=\"%u\" y=\"%u\" class=\"%s\">", x, d->y + 15, class);
    draw_escaped(d->out, text);
    (void)nc_buf_puts(d->out, "</text>\n");
}

static void draw_title(struct drawing *d, const char *text) {
    d->y += ROW / 2;
    draw_text(d, 10, "title", text);
    d->y += ROW + 4;
}

static unsigned place(uint64_t usec, uint64_t total_usec) {
    if (total_usec == 0)
        return LEFT;
    return LEFT + (unsigned)((usec < total_usec ? usec : total_usec) * AXIS / total_usec);
}

static void draw_duration(struct nc_buf *out, uint64_t usec) {
    if (usec < 10000000)
        (void)nc_buf_printf(out, "%" PRIu64 " ms", usec / 1000);
    else
        (void)nc_buf_printf(out, "%" PRIu64 ".%" PRIu64 " s", usec / 1000000,
                            usec % 1000000 / 100000);
}

static void draw_bar(struct drawing *d, const char *name, const char *class, uint64_t from,
                     uint64_t to) {
    nc_cleanup(nc_buf_done) struct nc_buf label = NC_BUF_INIT;
    const unsigned x = place(from, d->total_usec), end = place(to, d->total_usec);
    const unsigned width = end > x + 2 ? end - x : 2;

    draw_text(d, 10, "name", name);
    (void)nc_buf_printf(d->out,
                        "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"14\" class=\"%s\"/>\n", x,
                        d->y + 4, width, class);
    draw_duration(&label, to > from ? to - from : 0);
    draw_text(d, x + width + 6, "time", label.data);
    d->y += ROW;
}

static void draw_mark(struct drawing *d, const char *class, const char *caption, const char *text,
                      uint64_t at) {
    const unsigned x = place(at, d->total_usec);
    nc_cleanup(nc_buf_done) struct nc_buf label = NC_BUF_INIT;

    (void)nc_buf_printf(d->out, "<path d=\"M%u %u l6 6 l-6 6 l-6 -6 z\" class=\"%s\"/>\n", x,
                        d->y + 5, class);
    draw_text(d, 10, "name", caption);
    (void)nc_buf_puts(&label, "+");
    draw_duration(&label, at);
    if (*text) {
        (void)nc_buf_putc(&label, ' ');
        nc_show_put(&label, text);
    }
    draw_text(d, x + 12, "time", label.data);
    d->y += ROW;
}

/* --- the boot */

static const char *class_of(const char *outcome) {
    static const char *const known[] = {"succeeded", "running", "failed", NULL};

    return nc_is_one_of(outcome, known) ? outcome : "skipped";
}

static void draw_boot(struct drawing *d, const struct nc_value *status) {
    const struct nc_value *phases[NC_SHOW_MAX_PHASES];
    const size_t n = nc_show_at_most(nc_show_phases(status, phases), MAX_ROWS);
    nc_cleanup(nc_buf_done) struct nc_buf title = NC_BUF_INIT;
    uint64_t at = 0;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        d->total_usec += nc_show_number(phases[i], "duration_usec", MAX_SPAN_USEC);
    (void)nc_buf_puts(&title, "bootstrap of ");
    nc_show_put(&title, nc_show_text(status, "node", "an unknown node"));
    draw_title(d, title.data);
    for (size_t i = 0; i < n; i++) {
        const struct nc_value *p = phases[i];
        const uint64_t end = at + nc_show_number(p, "duration_usec", MAX_SPAN_USEC);
        draw_bar(d, nc_show_text(p, "name", "?"), class_of(nc_show_text(p, "outcome", "")), at,
                 end);
        at = end;
    }
}

/* --- the drain */

struct mark {
    const char *class, *caption, *text;
    uint64_t usec;
};

static void add_mark(struct mark marks[], size_t *n, struct mark m) {
    if (m.usec > 0 && *n < MAX_MARKS)
        marks[(*n)++] = m;
}

static size_t collect_marks(const struct nc_value *drain, struct mark marks[]) {
    const struct nc_value *sources = nc_show_list(drain, "sources");
    const struct nc_value *blocked = nc_show_list(drain, "blocked");
    size_t n = 0;

    for (size_t i = 0; sources && i < nc_show_at_most(sources->n, 16); i++)
        add_mark(marks, &n,
                 (struct mark){"notice", "notice",
                               nc_show_text(sources->items[i], "source", "unknown"),
                               nc_show_time(sources->items[i], "noticed")});
    add_mark(marks, &n,
             (struct mark){"cordon", "cordon", "",
                           nc_show_time(nc_value_get(drain, "cordon"), "since")});
    for (size_t i = 0; blocked && i < nc_show_at_most(blocked->n, 20); i++)
        add_mark(marks, &n,
                 (struct mark){"moment", "force-delete",
                               nc_show_text(blocked->items[i], "pod", "?"),
                               nc_show_time(blocked->items[i], "last_moment")});
    add_mark(
        marks, &n,
        (struct mark){"moment", "force-delete", "of all pods", nc_show_time(drain, "last_moment")});
    add_mark(marks, &n,
             (struct mark){"end", "deadline", "the machine goes", nc_show_time(drain, "deadline")});
    return n;
}

static uint64_t after(uint64_t usec, uint64_t origin_usec) {
    const uint64_t span = usec > origin_usec ? usec - origin_usec : 0;

    return span < MAX_SPAN_USEC ? span : MAX_SPAN_USEC;
}

static void draw_drain(struct drawing *d, const struct nc_value *status) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    const struct nc_value *history = nc_show_list(drain, "history");
    struct mark marks[MAX_MARKS];
    const size_t n_marks = collect_marks(drain, marks);
    uint64_t origin, last;
    size_t from, to;

    if (!nc_drain_last(status, &from, &to))
        return;
    origin = nc_show_moment(history->items[from]);
    last = d->total_usec =
        after(nc_show_moment(history->items[to < history->n ? to : to - 1]), origin);
    for (size_t i = 0; i < n_marks; i++)
        if (after(marks[i].usec, origin) > d->total_usec)
            d->total_usec = after(marks[i].usec, origin);
    draw_title(d, "drain");
    for (size_t i = from; i < to; i++) {
        const bool is_followed = i + 1 < history->n;
        draw_bar(d, nc_show_text(history->items[i], "phase", "?"), "drain",
                 after(nc_show_moment(history->items[i]), origin),
                 is_followed ? after(nc_show_moment(history->items[i + 1]), origin) : last);
    }
    for (size_t i = 0; i < n_marks; i++)
        draw_mark(d, marks[i].class, marks[i].caption, marks[i].text, after(marks[i].usec, origin));
}

static const char style[] =
    "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:14px}"
    ".time{fill:#666}.succeeded{fill:#4a9}.running{fill:#39c}.failed{fill:#c44}.skipped{fill:#bbb}"
    ".drain{fill:#69b}.notice{fill:#e90}.cordon{fill:#848}.moment{fill:#c44}.end{fill:#000}"
    "</style>\n";

void nc_timeline_svg(const struct nc_value *status, struct nc_buf *out) {
    nc_cleanup(nc_buf_done) struct nc_buf body = NC_BUF_INIT;
    struct drawing d = {.out = &body};

    draw_boot(&d, status);
    draw_drain(&d, status);
    if (d.y == 0)
        draw_title(&d, "no phases are known");
    d.y += ROW / 2;
    (void)nc_buf_printf(out,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                        "viewBox=\"0 0 %d %u\">\n",
                        WIDTH, d.y, WIDTH, d.y);
    (void)nc_buf_puts(out, style);
    (void)nc_buf_printf(out, "<rect width=\"%d\" height=\"%u\" fill=\"#fff\"/>\n", WIDTH, d.y);
    (void)nc_buf_add(out, body.data, body.len);
    (void)nc_buf_puts(out, "</svg>\n");
}
