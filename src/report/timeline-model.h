/*
 * Boot and last drain of a status.json as spans and moments: what the drawing and the JSON show.
 *
 * As status-show.h: the file is not trusted. All texts are the file's, as they stand there; numbers
 * are bounded, and lists end at what fits.
 */
#ifndef NC_REPORT_TIMELINE_MODEL_H
#define NC_REPORT_TIMELINE_MODEL_H

#include "nc/value.h"

#define NC_TIMELINE_MAX 64 /* spans, and moments */

enum nc_moment_kind {
    NC_MOMENT_NOTICE = 0,
    NC_MOMENT_CORDON,
    NC_MOMENT_FORCE_DELETE,
    NC_MOMENT_DEADLINE,
    NC_MOMENT_GATE, /* of a boot: it is shut, it opens */
    _NC_MOMENT_MAX
};

struct nc_span {
    const char *name, *outcome;         /* outcome: of a boot's phase; NULL in a drain */
    uint64_t start_usec, duration_usec; /* after the begin of the timeline */
    uint64_t attempts;
    const char *class, *message, *remedy; /* of its error; message NULL: there is none; class NULL:
                                           * of the API server */
};

struct nc_moment {
    enum nc_moment_kind kind;
    const char *text;             /* whose it is: a source, a pod; "" */
    const char *budget, *message; /* of a blocked pod; NULL */
    bool is_of_pod;               /* which has a row of its own, too */
    uint64_t at_usec, after_usec; /* since the epoch; after the begin of the timeline */
};

/* What became of a pod. */
enum nc_pod_time {
    NC_POD_TIME_REFUSED = 0,
    NC_POD_TIME_KEPT_UNTIL, /* its force-delete time, while it is blocked */
    NC_POD_TIME_EVICTED,
    NC_POD_TIME_FORCE_DELETED,
    NC_POD_TIME_GONE,
    _NC_POD_TIME_MAX
};
struct nc_pod_row {
    const char *pod;
    const char *refusal;                   /* what blocked its eviction; NULL */
    uint64_t times_usec[_NC_POD_TIME_MAX]; /* since the epoch; 0: it did not, or is not known */
};
/* In the tree; what status.json has is called the same, and Usec. */
const char *nc_pod_time_name(enum nc_pod_time time);

struct nc_timeline {
    struct nc_span spans[NC_TIMELINE_MAX];
    struct nc_pod_row pods[NC_TIMELINE_MAX];
    struct nc_moment moments[NC_TIMELINE_MAX]; /* as they come, the earliest first */
    size_t n_spans, n_pods, n_moments;
    uint64_t more_pods;  /* of the drain, without a row */
    uint64_t begin_usec; /* since the epoch; 0: not known */
    uint64_t total_usec; /* of the spans */
};

/* Without a bootstrap the daemon alone knows; NULL: neither does. */
const char *nc_timeline_node(const struct nc_value *status);
const char *nc_moment_name(enum nc_moment_kind kind);  /* for programs: "force-delete", … */
const char *nc_moment_title(enum nc_moment_kind kind); /* "force-delete time", … */
/* How long after the begin, in whole milliseconds; 0 for what was before it. */
uint64_t nc_timeline_after(const struct nc_timeline *t, uint64_t usec);

/* "+1 s refused by PodDisruptionBudget pdb, +1 min 15 s force-deleted, +1 min 20 s gone". */
void nc_pod_row_text(const struct nc_timeline *t, const struct nc_pod_row *p, struct nc_buf *out);
/* "and 2 more pods", those without a row. */
void nc_timeline_more_pods(const struct nc_timeline *t, struct nc_buf *out);

/* False where there is no span: neither has anything to show. */
bool nc_timeline_boot(const struct nc_value *status, struct nc_timeline *ret);
/* now_usec: until when a phase in progress has lasted; 0: until it began, as nothing is known. */
bool nc_timeline_drain(const struct nc_value *status, uint64_t now_usec, struct nc_timeline *ret);

/* svg-text.c: text in an SVG. What may not stand in XML is escaped, and lines end where their box
 * does. A drawing does not know the font that it is shown in: widths are those of DejaVu Sans,
 * which is wider than what most systems have. A line that fits there fits everywhere. */
/* Appends n bytes of UTF-8 without control characters. */
void nc_svg_put(struct nc_buf *out, const char *text, size_t n);
/* In pixels. */
unsigned nc_svg_width(const char *text, size_t n, unsigned font_px);
/* How many bytes make the first line of a box: up to a blank if there is one, at least one
 * character. */
size_t nc_svg_fit(const char *text, unsigned font_px, unsigned width_px);
/* To three digits, but no whole second is rounded: "3.04 ms", "41 s", "1 h 2 min 3 s", "1 h". */
void nc_svg_duration(struct nc_buf *out, uint64_t usec);
/* The distance of grid lines at which at most `most` fit into the span. */
uint64_t nc_svg_step(uint64_t span_usec, unsigned most);
/* The style sheet of a timeline, for light and dark. */
void nc_svg_style(struct nc_buf *out);

#endif
