/*
 * A status.json that was read back, as text: helpers of those that write it for people.
 *
 * The file is not trusted: anything may be missing, of another type, or absurd.
 */
#ifndef NC_REPORT_STATUS_SHOW_H
#define NC_REPORT_STATUS_SHOW_H

#include "nc/value.h"

#define NC_SHOW_INDENT "             "
#define NC_SHOW_MAX_TEXT_BYTES 1024
#define NC_SHOW_MAX_LINES 64

/* Text on one line, cut at NC_SHOW_MAX_TEXT_BYTES; what may not be shown (nc_is_shown) becomes a
 * blank. */
void nc_show_put(struct nc_buf *out, const char *text);
/* "TITLE        text\n". */
void nc_show_line(struct nc_buf *out, const char *title, const char *text);
/* "             remedy: TEXT\n"; nothing where it is NULL. */
void nc_show_remedy(struct nc_buf *out, const char *remedy);
/* The title of such a line. */
void nc_show_title(struct nc_buf *out, const char *title);

/* An outcome ("failed", "running", …) or another word of state, in its colour. */
void nc_show_outcome(struct nc_buf *out, const char *word);
/* Text between a mark and its end. */
void nc_show_marked(struct nc_buf *out, const char *mark, const char *text);

/* A string member that is not empty, else `otherwise`. */
const char *nc_show_text(const struct nc_value *map, const char *key, const char *otherwise);
/* A positive integer member, at most `most`; 0 where there is none. Dotted paths. */
uint64_t nc_show_number(const struct nc_value *map, const char *path, uint64_t most);
/* A list, or NULL. Dotted paths. */
const struct nc_value *nc_show_list(const struct nc_value *map, const char *path);
/* The phases, in the order in which they run: the list has `preflight` behind what waits for it. As
 * many as fit; returns how many that is. */
#define NC_SHOW_MAX_PHASES 64
size_t nc_show_phases(const struct nc_value *status,
                      const struct nc_value *ret[static NC_SHOW_MAX_PHASES]);
/* An RFC 3339 member, in usec since the epoch; 0 where there is none. */
uint64_t nc_show_time(const struct nc_value *map, const char *key);
/* When an entry of drain.history began, usec since the epoch: "atUsec", else "at"; 0 = not known.
 */
uint64_t nc_show_moment(const struct nc_value *entry);
size_t nc_show_at_most(size_t n, size_t most);
/* The i-th of at most so many items; NULL: there is none, or it is no list. */
const struct nc_value *nc_show_item(const struct nc_value *list, size_t i, size_t most);

/* timeline-drain.c: what `status` and `timeline` say of daemon and drain. Nothing where there is
 * nothing to say. */
void nc_drain_status_text(const struct nc_value *status, struct nc_buf *out);
/* Why a pod of drain.blocked or drain.others is still there; NULL where that is not said. */
const char *nc_drain_reason_text(const struct nc_value *pod);
void nc_drain_timeline_text(const struct nc_value *status, uint64_t now_usec, struct nc_buf *out);

#endif
