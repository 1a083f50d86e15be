/*
 * The pure parts of a watch: lines out of chunks, what is kept of an object, what a line means,
 * where to go on, how long to wait, what is known.
 */
#ifndef NC_KUBE_WATCH_FRAME_H
#define NC_KUBE_WATCH_FRAME_H

#include "nc/json-filter.h"
#include "nc/kube.h"
#include "nc/mem.h"

/* Lines out of chunks of any size. */
struct nc_frames {
    struct nc_buf in;
    size_t taken;   /* bytes of `in` that were handed out */
    size_t scanned; /* bytes of `in` that are known to hold no line end beyond `taken` */
    size_t max_line_bytes;
};
void nc_frames_init(struct nc_frames *f, size_t max_line_bytes);
void nc_frames_clear(struct nc_frames *f); /* drops what waits; can be used again */
void nc_frames_done(struct nc_frames *f);
/* -EFBIG where more waits than a line and one burst may hold. */
int nc_frames_add(struct nc_frames *f, const char *data, size_t n);
/* 1 with a line (without its end, never empty; valid until the next call), 0 where none is
 * complete, -EFBIG where it is too long. */
int nc_frames_next(struct nc_frames *f, const char **ret_line, size_t *ret_n);

/* Objects thinned out on their way into the lines. */
struct nc_watch_thin {
    bool is_on;                               /* false: keep was NULL */
    struct nc_buf of_item, of_event;          /* lists of paths */
    size_t max_object_bytes, max_value_bytes; /* of what is kept */
    struct nc_frames *to;
    struct nc_json_filter *filter; /* of the request in flight */
    struct nc_err failure;         /* why nc_watch_thin_add refused; class 0 = it did not */
};
/* What o->keep names is copied; `to` is borrowed, and an object is at most as large as its lines.
 */
void nc_watch_thin_init(struct nc_watch_thin *t, const struct nc_watch_options *o,
                        struct nc_frames *to);
/* A request begins: its answer is a list, or events. */
int nc_watch_thin_begin(struct nc_watch_thin *t, bool is_list, struct nc_err *err);
int nc_watch_thin_add(struct nc_watch_thin *t, const char *data, size_t n);
/* The list is complete: what it has beside its items (owned). */
int nc_watch_thin_end_list(struct nc_watch_thin *t, struct nc_value **ret, struct nc_err *err);
void nc_watch_thin_done(struct nc_watch_thin *t);

/* One line of a watch. event 0: a bookmark. */
struct nc_watch_line {
    enum nc_watch_event event;
    struct nc_value *tree; /* owns everything */
    const struct nc_value *object;
    const char *version; /* metadata.resourceVersion */
};
/* 0; or negative with err filled: an ERROR line gives what it states (*ret_status filled), anything
 * else that is no event NC_ERR_PROTOCOL. */
int nc_watch_line_parse(const char *line, size_t n, struct nc_watch_line *ret,
                        struct nc_kube_status *ret_status, struct nc_err *err);
void nc_watch_line_done(struct nc_watch_line *l);

/* What is wrong with a list, with one of its items, with what it has beside its items; NULL where
 * it can be worked with. */
const char *nc_watch_check_list(const struct nc_value *object);
const char *nc_watch_check_item(const struct nc_value *object);
const char *nc_watch_check_rest(const struct nc_value *rest);

/* Where a watch stands. Zero-initialised: list from the API server's cache. */
struct nc_watch_cursor {
    char version[132]; /* resourceVersion to go on from, "" = none yet */
    bool is_listed;    /* the next request is a watch, not a list */
    bool is_strict;    /* the cache could not serve us: the next list requests the newest state */
    char *next;        /* a list's continue token, NULL on its first page */
    bool is_passing;   /* the failure that is told next may pass: its page is requested again */
    bool is_whole;     /* the next list is requested in one piece */
    unsigned expired;  /* continue tokens, since a list or a stream last went well */
    unsigned failures; /* in a row, without a sign of life between them */
    bool is_urgent;    /* as nc_watch_options has it */
    uint64_t random;   /* state of the jitter: set to a seed */
};
void nc_watch_cursor_done(struct nc_watch_cursor *c);
/* Takes over a resourceVersion; -EBADMSG where it cannot be one. */
int nc_watch_cursor_advance(struct nc_watch_cursor *c, const char *version);
/* The next request's path and query. `selector` may be NULL. */
char *nc_watch_cursor_request(struct nc_watch_cursor *c, const char *path, const char *selector);
/* The form in which only the metadata comes, of a list or of events: for Accept. */
const char *nc_watch_metadata(bool is_list);
/* After a failure: decides whether to list again, and returns how long to wait before the next
 * request (usec). */
uint64_t nc_watch_cursor_failed(struct nc_watch_cursor *c, const struct nc_kube_status *status);
/* How fast it comes. Bytes that arrived; `is_midway`: what they belong to has not ended with them.
 * False where something that has begun comes too slowly to be waited for. Zero-initialised for each
 * request. */
#define NC_PACE_USEC 10000000u
#define NC_PACE_BYTES 1024u
struct nc_watch_pace {
    uint64_t since_usec;
    size_t bytes;
};
bool nc_watch_pace_keep(struct nc_watch_pace *p, size_t n, bool is_midway, uint64_t now_usec);
bool nc_watch_is_gone(const struct nc_kube_status *status);

/* What was reported so far, so that a fresh list tells what vanished meanwhile. */
struct nc_known_item;
struct nc_known {
    struct nc_known_item **items; /* sorted by "namespace/name" */
    size_t n;
    unsigned generation;
    size_t swept; /* of the end: seen by nc_known_sweep() since the list began */
};
void nc_known_done(struct nc_known *k);
void nc_known_begin_list(struct nc_known *k);
/* ADDED where the object is new, MODIFIED where it is known; *ret_is_same where it is known with
 * this resourceVersion. Where another object had the name before, *ret_old is a stub of it (owned)
 * that is to be reported as DELETED first; else NULL. */
enum nc_watch_event nc_known_add(struct nc_known *k, const struct nc_value *object,
                                 bool *ret_is_same, struct nc_value **ret_old);
void nc_known_drop(struct nc_known *k, const struct nc_value *object);
/* After a list: removes one object that the list did not name and returns its stub {metadata:
 * {namespace, name, uid}} (owned); NULL where none is left. */
struct nc_value *nc_known_sweep(struct nc_known *k);

#endif
