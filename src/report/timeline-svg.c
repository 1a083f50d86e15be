/*
 * Boot and last drain of a status.json as a drawing: one self-contained SVG without scripts, fonts
 * or links. Laid out as `systemd-analyze plot` does it: time runs to the right, a bar a phase.
 *
 * As timeline.c: the file is not trusted. Every text is cleaned and escaped, every number bounded.
 */
#include <inttypes.h>

#include "nc/report.h"
#include "nc/str.h"
#include "nc/time.h"
#include "status-show.h"
#include "timeline-model.h"

#define WIDTH 1000u
#define MARGIN 20u
#define LEFT 175u /* where the time axis begins */
#define AXIS 675u /* its length */
#define ROW 22u
#define LINE 16u /* of text that goes on below */
#define BAR 16u
#define SAMPLE 12u /* of a bar, in the legend */
#define GAP 6u
#define FONT 12
#define TITLE_FONT 18 /* bold is wider: 16 is drawn */
#define MOST_STEPS 8
/* What comes later than so many times the drain's own duration is named, not drawn to scale. */
#define MOST_EMPTY 3

struct drawing {
    struct nc_buf *back, *front; /* grid and lines of moments are below bars and text */
    unsigned y, top;             /* of the next row; of the chart */
    uint64_t axis_usec, step_usec;
};

/* Where a text stands. */
struct box {
    const char *class;
    unsigned x, width, font;
    bool is_before; /* it ends at x */
};

static unsigned line_of(const struct box *b) {
    return b->font == TITLE_FONT ? ROW : LINE;
}

/* As many lines as it takes; gives their number. */
static unsigned draw_text(struct drawing *d, struct box b, const char *text) {
    nc_cleanup(nc_buf_done) struct nc_buf clean = NC_BUF_INIT;
    const unsigned line = line_of(&b);
    unsigned lines = 0;
    const char *rest;

    nc_show_put(&clean, text);
    for (rest = clean.data; rest && *rest; lines++) {
        const size_t n = nc_svg_fit(rest, b.font, b.width);
        (void)nc_buf_printf(d->front, "<text x=\"%u\" y=\"%u\" class=\"%s\"%s>", b.x,
                            d->y + 15 + lines * line, b.class,
                            b.is_before ? " text-anchor=\"end\"" : "");
        nc_svg_put(d->front, rest, n);
        (void)nc_buf_puts(d->front, "</text>\n");
        rest += n + (rest[n] == ' ');
    }
    return lines ? lines : 1;
}

/* Of a row, left of the axis. */
static unsigned draw_name(struct drawing *d, const char *name) {
    return draw_text(d, (struct box){"name", MARGIN, LEFT - MARGIN - GAP, FONT, false}, name);
}

static void draw_paragraph(struct drawing *d, struct box b, const char *text) {
    if (*text)
        d->y += draw_text(d, b, text) * line_of(&b);
}

/* --- the axis */

static unsigned place(const struct drawing *d, uint64_t usec) {
    return LEFT + (unsigned)((usec < d->axis_usec ? usec : d->axis_usec) * AXIS / d->axis_usec);
}

/* The grid ends at a whole step. */
static void begin_chart(struct drawing *d, uint64_t span_usec) {
    d->step_usec = nc_svg_step(span_usec ? span_usec : 1, MOST_STEPS);
    d->axis_usec = (span_usec / d->step_usec + 1) * d->step_usec;
    if (span_usec > 0 && span_usec % d->step_usec == 0)
        d->axis_usec = span_usec;
    d->top = d->y + ROW;
    for (uint64_t at = 0; at <= d->axis_usec; at += d->step_usec) {
        nc_cleanup(nc_buf_done) struct nc_buf label = NC_BUF_INIT;
        nc_svg_duration(&label, at);
        (void)nc_buf_printf(
            d->front, "<text x=\"%u\" y=\"%u\" class=\"tick\" text-anchor=\"middle\">%s</text>\n",
            place(d, at), d->y + 15, label.data);
    }
    d->y = d->top + GAP;
}

static void draw_vertical(struct drawing *d, const char *class, unsigned x, unsigned end) {
    (void)nc_buf_printf(d->back, "<path d=\"M%u.5 %uV%u\" class=\"%s\"/>\n", x, d->top, end, class);
}

static void end_chart(struct drawing *d) {
    struct nc_buf lines = *d->back;

    *d->back = (struct nc_buf)NC_BUF_INIT; /* the grid is below everything */
    d->y += GAP;
    for (uint64_t at = 0; at <= d->axis_usec; at += d->step_usec)
        draw_vertical(d, "grid", place(d, at), d->y);
    (void)nc_buf_printf(d->back, "<path d=\"M%u %u.5H%u\" class=\"axis\"/>\n", LEFT, d->top,
                        LEFT + AXIS);
    if (lines.data)
        (void)nc_buf_add(d->back, lines.data, lines.len);
    nc_buf_done(&lines);
}

/* --- bars */

static const char *class_of(const struct nc_span *s) {
    static const char known[] = "succeeded\0running\0failed\0";

    if (!s->outcome)
        return "phase";
    return nc_is_one_of(s->outcome, known) ? s->outcome : "skipped";
}

static bool has_bar(const struct nc_span *s) {
    return !s->outcome || s->attempts > 0 || s->duration_usec > 0;
}

static void describe_span(const struct nc_span *s, struct nc_buf *out) {
    if (!s->outcome && s->duration_usec == 0) { /* of the drain: it was over as it began */
        (void)nc_buf_puts(out, "at +");
        nc_svg_duration(out, s->start_usec);
    } else if (has_bar(s)) {
        nc_svg_duration(out, s->duration_usec);
    }
    if (s->outcome && !nc_streq(s->outcome, "succeeded")) {
        (void)nc_buf_puts(out, has_bar(s) ? ", " : "");
        nc_show_put(out, s->outcome);
    }
    if (s->attempts > 1)
        (void)nc_buf_printf(out, ", %" PRIu64 " attempts", s->attempts);
}

/* What has not begun has its text where all bars begin. */
static struct box no_bar_box(void) {
    return (struct box){"time", LEFT + GAP, AXIS - 2 * GAP, FONT, false};
}

/* Right of the bar; where that has no room left of it, or in it. */
static struct box label_box(unsigned x, unsigned end, unsigned width) {
    const unsigned right = WIDTH - MARGIN - end - GAP;

    if (width > right && width + GAP <= x - LEFT)
        return (struct box){"time", x - GAP, x - LEFT - GAP, FONT, true};
    if (width > right && width + 2 * GAP <= end - x)
        return (struct box){"inside", end - GAP, end - x - 2 * GAP, FONT, true};
    return (struct box){"time", end + GAP, right, FONT, false};
}

static void draw_error(struct drawing *d, const struct nc_span *s) {
    const struct box b = {"error", LEFT + GAP, AXIS - 2 * GAP, FONT, false};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (!s->message)
        return;
    (void)nc_buf_printf(&text, "%s: %s", s->class ? s->class : "API server", s->message);
    draw_paragraph(d, b, text.data);
    nc_buf_clear(&text);
    if (s->remedy) {
        (void)nc_buf_printf(&text, "remedy: %s", s->remedy);
        draw_paragraph(d, (struct box){"remedy", b.x, b.width, FONT, false}, text.data);
    }
    d->y += GAP;
}

static void draw_bar(struct drawing *d, unsigned x, unsigned end, unsigned height,
                     const char *class) {
    (void)nc_buf_printf(
        d->front, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" rx=\"2\" class=\"%s\"/>\n", x,
        d->y + ROW / 2 - height / 2, end > x + 2 ? end - x : 2, height, class);
}

static void draw_span(struct drawing *d, const struct nc_span *s) {
    const unsigned x = place(d, s->start_usec), end = place(d, s->start_usec + s->duration_usec);
    const unsigned width = !has_bar(s) ? 0 : end > x + 2 ? end - x : 2;
    nc_cleanup(nc_buf_done) struct nc_buf label = NC_BUF_INIT;
    unsigned lines = draw_name(d, s->name), more;

    if (width > 0)
        draw_bar(d, x, x + width, BAR, class_of(s));
    describe_span(s, &label);
    more = draw_text(d,
                     width ? label_box(x, x + width, nc_svg_width(label.data, label.len, FONT))
                           : no_bar_box(),
                     label.data ? label.data : "");
    if (more > lines)
        lines = more;
    d->y += ROW + (lines - 1) * LINE;
    draw_error(d, s);
}

/* --- pods */

/* Up to the first line of a moment in the right half, which text must not cross. */
static struct box below_box(const struct drawing *d, const struct nc_timeline *t) {
    struct box b = no_bar_box();

    for (size_t i = 0; i < t->n_moments; i++) {
        const unsigned x = place(d, t->moments[i].after_usec);
        if (!t->moments[i].is_of_pod && x > LEFT + AXIS / 2 && x - GAP < b.x + b.width)
            b.width = x - GAP - b.x;
    }
    return b;
}

/* Beside its bars where there is room for all of it, else below them. */
static void draw_pod_text(struct drawing *d, const struct nc_timeline *t, unsigned x, unsigned end,
                          const struct nc_buf *text) {
    const unsigned width = nc_svg_width(text->data, text->len, FONT);
    const unsigned right = WIDTH - MARGIN - end - GAP;

    if (width <= right) {
        (void)draw_text(d, (struct box){"time", end + GAP, right, FONT, false}, text->data);
    } else if (width + GAP <= x - LEFT) {
        (void)draw_text(d, (struct box){"time", x - GAP, x - LEFT - GAP, FONT, true}, text->data);
    } else {
        d->y += LINE + GAP / 2; /* what surrounds the letters must not touch the bars */
        d->y += (draw_text(d, below_box(d, t), text->data) - 1) * LINE;
    }
}

/* Also without a refusal, such as by do-not-disrupt: then from the begin. */
static bool is_kept(const struct nc_pod_row *p) {
    return p->refusal || p->times_usec[NC_POD_TIME_REFUSED];
}

/* From its refusal until it may be asked to end, and from then until it is gone. */
static void draw_pod(struct drawing *d, const struct nc_timeline *t, const struct nc_pod_row *p) {
    const uint64_t *const times = p->times_usec;
    unsigned at[_NC_POD_TIME_MAX], begin, end;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const unsigned above = d->y + (draw_name(d, p->pod) - 1) * LINE;
    const enum nc_pod_time ending =
        times[NC_POD_TIME_EVICTED] ? NC_POD_TIME_EVICTED : NC_POD_TIME_FORCE_DELETED;

    for (enum nc_pod_time k = 0; k < _NC_POD_TIME_MAX; k++)
        at[k] = place(d, times[k] ? nc_timeline_after(t, times[k]) : t->total_usec);
    begin = times[NC_POD_TIME_REFUSED] ? at[NC_POD_TIME_REFUSED] : is_kept(p) ? LEFT : at[ending];
    end = at[times[ending] ? NC_POD_TIME_GONE : NC_POD_TIME_KEPT_UNTIL];
    if (is_kept(p))
        draw_bar(d, begin, times[ending] ? at[ending] : end, BAR, "kept");
    if (times[ending])
        draw_bar(d, at[ending], end, BAR,
                 times[NC_POD_TIME_FORCE_DELETED] ? "failed" : "succeeded");
    nc_pod_row_text(t, p, &text);
    if (text.data)
        draw_pod_text(d, t, begin, end, &text);
    d->y = (d->y > above ? d->y : above) + ROW;
}

/* --- moments */

/* That of one pod is earlier, and in its row. */
static const char *title_of(enum nc_moment_kind kind) {
    return kind == NC_MOMENT_FORCE_DELETE ? "force-delete time of all pods" : nc_moment_name(kind);
}

static void describe_moment(const struct nc_moment *m, struct nc_buf *out) {
    (void)nc_buf_puts(out, "+");
    nc_svg_duration(out, m->after_usec);
    if (*m->text && m->kind != NC_MOMENT_FORCE_DELETE)
        (void)nc_buf_printf(out, ", %s", m->text);
}

/* A line through the chart down to its text, which stands on the side with more room. */
static void draw_moment(struct drawing *d, const struct nc_moment *m) {
    const bool is_outside = m->after_usec > d->axis_usec;
    const unsigned x = place(d, m->after_usec), mid = d->y + ROW / 2;
    const bool is_before = x > LEFT + AXIS / 2;
    const unsigned room = is_before ? x - LEFT : WIDTH - MARGIN - x;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const char *class = nc_moment_name(m->kind);
    unsigned lines, more;

    if (m->is_of_pod)
        return;
    if (!is_outside)
        draw_vertical(d, class, x, mid);
    (void)nc_buf_printf(d->front, "<path d=\"M%u %ul6 5l-6 5l%s\" class=\"%s end\"/>\n", x,
                        d->y + 6, is_outside ? "0 -10z" : "-6 -5z", class);
    lines = draw_name(d, title_of(m->kind));
    describe_moment(m, &text);
    more = draw_text(d,
                     (struct box){"time", is_before ? x - 2 * GAP : x + 2 * GAP, room - 2 * GAP,
                                  FONT, is_before},
                     text.data);
    d->y += ROW + ((more > lines ? more : lines) - 1) * LINE;
}

/* --- the legend */

static void draw_line_entry(struct drawing *d, unsigned x, const char *class) {
    (void)nc_buf_printf(d->front, "<path d=\"M%u %uv14\" class=\"%s\"/>\n", x + 6, d->y + 4, class);
}

static unsigned entry_width(const char *name) {
    return 18 + nc_svg_width(name, strlen(name), FONT);
}

/* On the next line where this one has no room for so much. */
static void begin_entry(struct drawing *d, unsigned *x, unsigned width) {
    if (*x == LEFT || *x + width <= WIDTH - MARGIN)
        return;
    *x = LEFT;
    d->y += ROW;
}

static void name_entry(struct drawing *d, unsigned *x, const char *name) {
    (void)draw_text(d, (struct box){"tick", *x + 18, WIDTH, FONT, false}, name);
    *x += entry_width(name) + 2 * GAP;
}

static void bar_entry(struct drawing *d, unsigned *x, const char *class, const char *name) {
    begin_entry(d, x, entry_width(name));
    draw_bar(d, *x, *x + SAMPLE, SAMPLE, class);
    name_entry(d, x, name);
}

static bool has_pod_bar(const struct nc_pod_row *p, size_t i) {
    const bool is_forced = p->times_usec[NC_POD_TIME_FORCE_DELETED] > 0;

    return i == 0   ? is_kept(p)
           : i == 1 ? p->times_usec[NC_POD_TIME_EVICTED] > 0 && !is_forced
                    : is_forced;
}

static void draw_legend(struct drawing *d, const struct nc_timeline *t) {
    static const struct {
        char class[12], name[20];
    } bars[] = {{"succeeded", "succeeded"},
                {"running", "in progress"},
                {"failed", "failed"},
                {"phase", "phase of the drain"}};
    static const struct {
        char class[12], name[20];
    } pod_bars[] = {
        {"kept", "refused or kept"}, {"succeeded", "evicted"}, {"failed", "force-deleted"}};
    bool has_moment[_NC_MOMENT_MAX] = {false};
    unsigned x = LEFT, width = 0;

    for (size_t i = 0; i < NC_ARRAY_SIZE(bars); i++)
        for (size_t k = 0; k < t->n_spans; k++)
            if (has_bar(&t->spans[k]) && nc_streq(class_of(&t->spans[k]), bars[i].class)) {
                bar_entry(d, &x, bars[i].class, bars[i].name);
                break;
            }
    for (size_t i = 0; i < NC_ARRAY_SIZE(pod_bars); i++)
        for (size_t k = 0; k < t->n_pods; k++)
            if (has_pod_bar(&t->pods[k], i)) {
                bar_entry(d, &x, pod_bars[i].class, pod_bars[i].name);
                break;
            }
    for (size_t i = 0; i < t->n_moments; i++)
        has_moment[t->moments[i].kind] |= !t->moments[i].is_of_pod;
    /* Together on a line: none of them alone below the others. */
    for (enum nc_moment_kind k = 0; k < _NC_MOMENT_MAX; k++)
        width += has_moment[k] ? entry_width(title_of(k)) + 2 * GAP : 0;
    begin_entry(d, &x, width);
    for (enum nc_moment_kind k = 0; k < _NC_MOMENT_MAX; k++)
        if (has_moment[k]) {
            begin_entry(d, &x, entry_width(title_of(k)));
            draw_line_entry(d, x, nc_moment_name(k));
            name_entry(d, &x, title_of(k));
        }
    d->y += ROW + ROW / 2;
}

/* --- the two charts */

static uint64_t span_of(const struct nc_timeline *t) {
    uint64_t span = t->total_usec;

    for (size_t i = 0; i < t->n_moments; i++)
        if (t->moments[i].after_usec > span
            && (t->total_usec == 0 || t->moments[i].after_usec / MOST_EMPTY <= t->total_usec))
            span = t->moments[i].after_usec;
    return span;
}

static void draw_chart(struct drawing *d, const struct nc_timeline *t) {
    begin_chart(d, span_of(t));
    for (size_t i = 0; i < t->n_spans; i++)
        draw_span(d, &t->spans[i]);
    if (t->n_pods > 0)
        draw_paragraph(d, (struct box){"tick", MARGIN, AXIS, FONT, false}, "pods:");
    for (size_t i = 0; i < t->n_pods; i++)
        draw_pod(d, t, &t->pods[i]);
    if (t->more_pods > 0) {
        nc_cleanup(nc_buf_done) struct nc_buf more = NC_BUF_INIT;
        nc_timeline_more_pods(t, &more);
        draw_paragraph(d, (struct box){"name", MARGIN, AXIS, FONT, false}, more.data);
        d->y += GAP;
    }
    for (size_t i = 0; i < t->n_moments; i++)
        draw_moment(d, &t->moments[i]);
    end_chart(d);
    draw_legend(d, t);
}

static void draw_heads(struct drawing *d, const char *title, const char *about, const char *when) {
    const unsigned width = WIDTH - 2 * MARGIN;

    d->y += ROW / 2;
    draw_paragraph(d, (struct box){"title", MARGIN, width, TITLE_FONT, false}, title);
    draw_paragraph(d, (struct box){"time", MARGIN, width, FONT, false}, about);
    draw_paragraph(d, (struct box){"time", MARGIN, width, FONT, false}, when);
    d->y += 2 * GAP;
}

/* "2026-11-22 01:00:00 UTC: failed after 12.345 s". */
static void describe_end(const struct nc_timeline *t, const char *outcome, struct nc_buf *out) {
    static const char final[] = "succeeded\0failed\0drained\0";
    char at[32];

    if (t->begin_usec) {
        nc_time_format(t->begin_usec, at);
        (void)nc_buf_printf(out, "%.10s %.8s UTC: ", at, at + 11);
    }
    (void)nc_buf_puts(out, outcome);
    (void)nc_buf_puts(out, nc_is_one_of(outcome, final) ? " after " : ", for ");
    nc_svg_duration(out, t->total_usec);
}

static void draw_boot(struct drawing *d, const struct nc_value *status) {
    static const char keys[][12] = {"id", "type", "az", "lifeCycle"};
    nc_cleanup(nc_buf_done) struct nc_buf title = NC_BUF_INIT, about = NC_BUF_INIT,
                                          when = NC_BUF_INIT;
    const char *node = nc_timeline_node(status);
    struct nc_timeline t;

    if (!nc_timeline_boot(status, &t))
        return;
    (void)nc_buf_printf(&title, "Bootstrap of %s", node ? node : "an unknown node");
    for (size_t i = 0; i < NC_ARRAY_SIZE(keys); i++) {
        const char *text = nc_show_text(nc_value_get(status, "instance"), keys[i], NULL);
        if (text)
            (void)nc_buf_printf(&about, "%s%s", about.len ? ", " : "", text);
    }
    describe_end(&t, nc_show_text(status, "outcome", "unknown"), &when);
    draw_heads(d, title.data, about.data ? about.data : "", when.data);
    draw_chart(d, &t);
}

static void draw_drain(struct drawing *d, const struct nc_value *status, uint64_t now_usec) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    const char *node = nc_timeline_node(status);
    nc_cleanup(nc_buf_done) struct nc_buf title = NC_BUF_INIT, when = NC_BUF_INIT;
    struct nc_timeline t;

    if (!nc_timeline_drain(status, now_usec, &t))
        return;
    (void)nc_buf_printf(&title, "Drain of %s", node ? node : "an unknown node");
    if (nc_show_text(drain, "source", NULL))
        (void)nc_buf_printf(&title, " (%s)", nc_show_text(drain, "source", ""));
    describe_end(&t, t.spans[t.n_spans - 1].name, &when);
    nc_drain_pods_text(drain, 0, &when);
    draw_heads(d, title.data, "", when.data);
    draw_chart(d, &t);
}

void nc_timeline_svg(const struct nc_value *status, uint64_t now_usec, struct nc_buf *out) {
    nc_cleanup(nc_buf_done) struct nc_buf body = NC_BUF_INIT;
    unsigned height = 0;

    for (int is_drain = 0; is_drain < 2; is_drain++) {
        nc_cleanup(nc_buf_done) struct nc_buf back = NC_BUF_INIT, front = NC_BUF_INIT;
        struct drawing d = {.back = &back, .front = &front, .y = height};
        if (is_drain)
            draw_drain(&d, status, now_usec);
        else
            draw_boot(&d, status);
        if (is_drain && d.y == 0)
            draw_heads(&d, "no phases are known", "", "");
        if (back.data)
            (void)nc_buf_add(&body, back.data, back.len);
        if (front.data)
            (void)nc_buf_add(&body, front.data, front.len);
        height = d.y;
    }
    height += GAP;
    (void)nc_buf_printf(out,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                        "viewBox=\"0 0 %u %u\" role=\"img\">\n"
                        "<title>Boot and drain of a node</title>\n",
                        WIDTH, height, WIDTH, height);
    nc_svg_style(out);
    (void)nc_buf_printf(out, "<rect width=\"%u\" height=\"%u\" class=\"paper\"/>\n", WIDTH, height);
    (void)nc_buf_add(out, body.data, body.len);
    (void)nc_buf_puts(out, "</svg>\n");
}
