/*
 * A watch that goes on: list, then stream, then again from where it stopped.
 *
 * Bytes are only collected while libcurl is on the stack; lines are taken apart from a defer
 * source, so that a callback may free anything. What to ask next and how long to wait is decided by
 * watch-cursor.c; here are requests and timers. A callback that frees the watch sets *gone.
 */
#include <errno.h>
#include <string.h>
#include <systemd/sd-event.h>

#include "nc/clock.h"
#include "nc/mem.h"
#include "watch-frame.h"
#include "wire.h"

#define DEFAULT_OBJECT_BYTES ((size_t)4 << 20)
#define MAX_LIST_BYTES ((size_t)32 << 20)
#define COMPLETE_LIST_TIMEOUT_USEC 10000000u /* of a few objects: many are thinned out */
#define LIST_TIMEOUT_USEC 30000000u
#define HEAD_TIMEOUT_USEC 10000000u       /* an answer begins at once, however long it then is */
#define THIN_LIST_TIMEOUT_USEC 300000000u /* gigabytes may come; silence is limited */
#define CONNECT_TIMEOUT_USEC 10000000u
#define URGENT_TIMEOUT_USEC                                                                        \
    5000000u                        /* the first of a list that is waited for; then twice as long */
#define IDLE_TIMEOUT_USEC 75000000u /* the API server sends a bookmark each minute */
#define TIMER_ACCURACY_USEC 10000u
#define SILENT_USEC 1000000u
#define ALIVE_USEC 5000000u /* a stream that stood for so long is well, even if nothing came */
#define QUIET_ENDS 2u       /* streams in a row that end at once before that is told */

struct nc_watch {
    /* Settings. */
    struct nc_kube *kube;
    sd_event *event;
    char *path, *selector;
    bool metadata_only, reports_once;
    uint64_t idle_timeout_usec;
    nc_watch_fn report;
    nc_watch_failed_fn failed;
    void (*well)(void *userdata);
    void *userdata;

    /* What stands across requests. */
    struct nc_watch_cursor cursor;
    struct nc_known known;
    sd_event_source *timer; /* the next request */
    bool *gone;             /* set where the watch is freed under a callback */

    /* The request in flight: a list, or a stream. */
    struct nc_kube_req *list;
    struct nc_http_req *stream;
    struct nc_frames frames;
    struct nc_watch_thin thin;
    struct nc_watch_pace pace;
    sd_event_source *lines;            /* defer: there are bytes to take apart */
    uint64_t started_usec, heard_usec; /* the stream; 0 = not yet */
    bool is_listing;                   /* the stream is a list that is thinned out */
    bool is_alive, is_overflow;        /* something came; a line that is too long */
    bool refuse_token, was_refreshed;  /* the last one brought a 401; twice is a failure */
    bool was_failing;                  /* and nobody was told yet that it is well */
    unsigned ends;                     /* streams in a row that ended at once */
};

static void go_on(struct nc_watch *w);

/* False where the callback freed the watch. */
static bool report(struct nc_watch *w, enum nc_watch_event event, const struct nc_value *object) {
    bool gone = false;

    w->gone = &gone;
    w->report(w->userdata, event, object);
    if (!gone)
        w->gone = NULL;
    return !gone;
}

static void again_after(struct nc_watch *w, uint64_t wait_usec) {
    (void)sd_event_source_set_time_relative(w->timer, wait_usec);
    (void)sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

/* A sign of life makes this the first failure of its row. That the version is gone is usual after a
 * long absence: told only from the second time on. */
static void fail_with(struct nc_watch *w, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    w->list = nc_kube_cancel(w->list);
    w->stream = nc_http_cancel(w->stream);
    (void)sd_event_source_set_enabled(w->lines, SD_EVENT_OFF);
    (void)sd_event_source_set_enabled(w->timer, SD_EVENT_OFF);
    nc_frames_clear(&w->frames);
    w->was_failing = true;
    if (w->is_alive)
        w->cursor.failures = 0;
    w->is_alive = false;
    w->cursor.is_passing = err->class == NC_ERR_TRANSIENT;
    again_after(w, nc_watch_cursor_failed(&w->cursor, status));
    if (w->failed && (!nc_watch_is_gone(status) || w->cursor.failures > 1))
        w->failed(w->userdata, status, err); /* which may free it */
}

/* A failure that is no answer. */
static void fail(struct nc_watch *w, const struct nc_err *err) {
    fail_with(w, &(struct nc_kube_status){0}, err);
}

static void fail_protocol(struct nc_watch *w, const char *what) {
    struct nc_err err = NC_ERR_INIT;

    nc_err_protocol(&err, "watch %s: %s", w->path, what);
    fail(w, &err);
}

/* One object as the list or the stream has it. False: the watch is gone. */
static bool report_object(struct nc_watch *w, const struct nc_value *object) {
    nc_auto_value struct nc_value *old = NULL;
    bool is_same;
    const enum nc_watch_event event = nc_known_add(&w->known, object, &is_same, &old);

    if (is_same && w->reports_once)
        return true;
    if (old && !report(w, NC_WATCH_DELETED, old))
        return false;
    return report(w, event, object);
}

static bool report_vanished(struct nc_watch *w) {
    struct nc_value *old;
    bool is_here = true;

    while (is_here && (old = nc_known_sweep(&w->known))) {
        is_here = report(w, NC_WATCH_DELETED, old);
        nc_value_free(old);
    }
    return is_here;
}

/* After a page: the next one, or the stream. */
static void handle_page(struct nc_watch *w, const struct nc_value *object) {
    const char *more = nc_value_path_string(object, "metadata.continue");
    const struct nc_value *items = nc_value_get(object, "items"), *item;
    const char *version = nc_value_path_string(object, "metadata.resourceVersion");

    for (size_t i = 0; (item = nc_value_item(items, i)); i++)
        if (!report_object(w, item))
            return;
    nc_watch_cursor_done(&w->cursor);
    if (more && *more) {
        w->cursor.next = nc_strdup(more);
    } else {
        if (nc_watch_cursor_advance(&w->cursor, version) < 0) {
            fail_protocol(w, "the list has no metadata.resourceVersion");
            return;
        }
        w->cursor.is_listed = true;
        w->cursor.is_strict = false;
        if (!report_vanished(w) || !report(w, NC_WATCH_SYNCED, NULL))
            return;
    }
    go_on(w);
}

/* After a 401 the new token is only being made, says the error; a second one was not the token's
 * age. */
static void fail_list(struct nc_watch *w, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    struct nc_err own = *err;

    if (status->http == 401 && w->was_refreshed) {
        nc_kube_refused(status, "list", &own);
        nc_kube_advise(w->kube, status, &own);
    }
    w->was_refreshed = status->http == 401;
    fail_with(w, status, &own);
}

static void on_list(void *userdata, const struct nc_value *object,
                    const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_watch *w = userdata;
    const char *wrong;

    w->list = NULL;
    if (err->class != NC_ERR_NONE) {
        fail_list(w, status, err);
        return;
    }
    w->was_refreshed = false;
    wrong = nc_watch_check_list(object);
    if (wrong)
        fail_protocol(w, wrong);
    else
        handle_page(w, object);
}

static int start_list(struct nc_watch *w, const char *request, struct nc_err *err) {
    const struct nc_kube_call call = {.what = "list",
                                      .method = "GET",
                                      .path = request,
                                      .accept = w->metadata_only ? nc_watch_metadata(true) : NULL,
                                      .timeout_usec = COMPLETE_LIST_TIMEOUT_USEC,
                                      .max_bytes = MAX_LIST_BYTES,
                                      .done = on_list,
                                      .userdata = w};

    return nc_kube_start(w->kube, &call, &w->list, err);
}

/* Takes one event over. False: do not go on (the watch is gone, or the stream was given up). */
static bool handle_watch_event(struct nc_watch *w, const struct nc_watch_line *l) {
    if (nc_watch_cursor_advance(&w->cursor, l->version) < 0) {
        fail_protocol(w, "an event whose resourceVersion cannot be one");
        return false;
    }
    w->is_alive = true;
    w->was_refreshed = false;
    switch (l->event) {
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        return report_object(w, l->object);
    case NC_WATCH_DELETED:
        nc_known_drop(&w->known, l->object);
        return report(w, NC_WATCH_DELETED, l->object);
    case NC_WATCH_SYNCED:
        break;
    }
    return true;
}

/* An item of a list that is thinned out. */
static bool handle_item(struct nc_watch *w, const char *line, size_t n) {
    nc_auto_value struct nc_value *object = NULL;
    struct nc_err err = NC_ERR_INIT;
    const char *wrong;

    if (nc_json_parse(line, n, &object, &err) < 0) {
        nc_err_wrap(&err, "watch %s: an item of the list", w->path);
        fail(w, &err);
        return false;
    }
    wrong = nc_watch_check_item(object);
    if (wrong)
        fail_protocol(w, wrong);
    return !wrong && report_object(w, object);
}

static bool handle_line(struct nc_watch *w, const char *line, size_t n) {
    struct nc_watch_line l;
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;
    bool go;

    if (nc_watch_line_parse(line, n, &l, &status, &err) < 0) {
        fail_with(w, &status, &err);
        return false;
    }
    go = handle_watch_event(w, &l);
    nc_watch_line_done(&l);
    return go;
}

/* All complete lines. False: do not go on. */
static bool handle_lines(struct nc_watch *w) {
    const char *line;
    size_t n;
    int r;

    while ((r = nc_frames_next(&w->frames, &line, &n)) > 0)
        if (!(w->is_listing ? handle_item : handle_line)(w, line, n))
            return false;
    if (r < 0) {
        fail_protocol(w, "an event is larger than an object may be");
        return false;
    }
    return true;
}

static int on_lines(sd_event_source *source, void *userdata) {
    (void)handle_lines(userdata);
    return 0;
}

/* Whoever was told of a failure is told of its end, once the stream has stood for a while. */
static void on_head(void *userdata) {
    struct nc_watch *w = userdata;

    w->heard_usec = nc_mono_usec();
    if (w->was_failing)
        again_after(w, ALIVE_USEC);
    w->was_failing = false;
}

static int on_data(void *userdata, const char *data, size_t n) {
    struct nc_watch *w = userdata;
    const bool is_midway = w->is_listing || data[n - 1] != '\n';
    int r =
        w->thin.is_on ? nc_watch_thin_add(&w->thin, data, n) : nc_frames_add(&w->frames, data, n);

    w->heard_usec = nc_mono_usec();
    if (r >= 0 && !nc_watch_pace_keep(&w->pace, n, is_midway, w->heard_usec))
        r = nc_err_set(&w->thin.failure, NC_ERR_TRANSIENT, ETIMEDOUT, "less than %u bytes in %u s",
                       NC_PACE_BYTES, NC_PACE_USEC / 1000000);
    if (r < 0) {
        w->is_overflow = true;
        return r;
    }
    (void)sd_event_source_set_enabled(w->lines, SD_EVENT_ONESHOT);
    return 0;
}

/* The server ends each watch after its time; one that ends at once, again and again, is no server
 * to be hurried, and does not do its part. */
static void end_cleanly(struct nc_watch *w) {
    struct nc_err err = NC_ERR_INIT;

    if (w->is_alive || nc_mono_usec() - w->started_usec >= ALIVE_USEC) {
        w->cursor.failures = w->ends = 0;
        go_on(w);
        return;
    }
    if (++w->ends <= QUIET_ENDS) {
        again_after(w, nc_watch_cursor_failed(&w->cursor, &(struct nc_kube_status){0}));
        return;
    }
    nc_err_set(&err, NC_ERR_TRANSIENT, ENODATA,
               "watch %s: the server ends it at once, again and again", w->path);
    fail(w, &err);
}

/* What came without a line's end, where nothing else did: an event, or an answer that is none.
 * After events it is half of one, which comes again. False: do not go on. */
static bool handle_rest(struct nc_watch *w) {
    if (w->is_alive || w->is_listing || w->thin.is_on)
        return true;
    return nc_frames_add(&w->frames, "\n", 1) < 0 || handle_lines(w);
}

/* A list that is thinned out is complete; its items have been told. */
static void end_list(struct nc_watch *w) {
    nc_auto_value struct nc_value *rest = NULL;
    struct nc_err err = NC_ERR_INIT;
    const char *wrong;

    if (nc_watch_thin_end_list(&w->thin, &rest, &err) < 0) {
        nc_err_wrap(&err, "list %s", w->path);
        fail(w, &err);
        return;
    }
    wrong = nc_watch_check_rest(rest);
    w->was_refreshed = false;
    if (wrong)
        fail_protocol(w, wrong);
    else
        handle_page(w, rest);
}

/* The reader said no. */
static void end_refused(struct nc_watch *w) {
    if (w->thin.failure.class == NC_ERR_NONE) {
        fail_protocol(w, "an event is larger than an object may be");
        return;
    }
    nc_err_wrap(&w->thin.failure, "watch %s", w->path);
    fail(w, &w->thin.failure);
}

static void end_badly(struct nc_watch *w, const struct nc_http_result *result) {
    nc_auto_value struct nc_value *object = NULL;
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)nc_kube_judge(result, w->is_listing ? "list" : "watch", &object, &status, &err);
    nc_kube_advise(w->kube, &status, &err);
    if (status.http == 401 && w->kube->token && !w->was_refreshed) {
        w->was_refreshed = true;
        w->refuse_token = true;
        go_on(w);
        return;
    }
    if (result->outcome == NC_HTTP_TIMEOUT && !w->is_listing && result->received_usec > 0) {
        /* It was open, and silent for long: bookmarks come where the version moves only. Whether
         * the server is there shows in the answer to the next one. */
        w->is_alive = true;
        if (!w->was_failing) {
            end_cleanly(w);
            return;
        }
    }
    fail_with(w, &status, &err);
}

static void on_stream_done(void *userdata, const struct nc_http_result *result) {
    struct nc_watch *w = userdata;

    w->stream = NULL;
    (void)sd_event_source_set_enabled(w->lines, SD_EVENT_OFF);
    if (w->is_listing) /* a watch was answered long ago */
        nc_kube_note_clock(w->kube, result);
    if (!handle_lines(w))
        return;
    if (w->is_overflow)
        end_refused(w);
    else if (result->outcome != NC_HTTP_ANSWERED || result->status < 200 || result->status > 299)
        end_badly(w, result);
    else if (w->is_listing)
        end_list(w);
    else if (handle_rest(w))
        end_cleanly(w);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Whoever waits for the list can afford so much patience. */
static void set_limits(const struct nc_watch *w, struct nc_http_options *o) {
    const unsigned doubled = w->cursor.failures < 3 ? w->cursor.failures : 3;
    const uint64_t patience =
        w->cursor.is_urgent ? (uint64_t)URGENT_TIMEOUT_USEC << doubled : UINT64_MAX;

    o->timeout_usec = w->is_listing ? THIN_LIST_TIMEOUT_USEC : 0;
    o->connect_timeout_usec = least(CONNECT_TIMEOUT_USEC, patience);
    o->idle_timeout_usec =
        w->is_listing ? least(LIST_TIMEOUT_USEC, patience) : w->idle_timeout_usec;
    o->head_timeout_usec = least(HEAD_TIMEOUT_USEC, patience);
}

/* A watch, or a list that is thinned out. */
static int start_stream(struct nc_watch *w, const char *request, struct nc_err *err) {
    const struct nc_kube_call call = {.what = w->is_listing ? "list" : "watch",
                                      .method = "GET",
                                      .path = request,
                                      .accept = w->metadata_only ? nc_watch_metadata(w->is_listing)
                                                                 : NULL};
    const bool refuse = w->refuse_token;
    struct nc_kube_message m;
    struct nc_strv headers = NC_STRV_INIT;
    struct nc_http_options o;
    int r = nc_watch_thin_begin(&w->thin, w->is_listing, err);

    if (r == 0)
        r = nc_kube_message_init(w->kube, &call, &m, err);
    if (r < 0)
        return r;
    w->refuse_token = false;
    w->is_overflow = w->is_alive = false;
    w->pace = (struct nc_watch_pace){0};
    w->started_usec = nc_mono_usec();
    w->heard_usec = 0;
    r = nc_kube_message_options(&m, refuse, &headers, &o, err);
    if (r == 0) {
        set_limits(w, &o);
        o.on_data = on_data;
        o.on_head = on_head;
        o.on_done = on_stream_done;
        o.userdata = w;
        r = nc_http_start(w->kube->http, &o, &w->stream, err);
    }
    nc_kube_headers_done(&headers);
    nc_kube_message_done(&m);
    return r;
}

/* The next request. What keeps it from starting (no token) is a failure like any other. */
static void go_on(struct nc_watch *w) {
    nc_auto_free char *request = nc_watch_cursor_request(&w->cursor, w->path, w->selector);
    struct nc_err err = NC_ERR_INIT;
    int r;

    (void)sd_event_source_set_enabled(w->timer, SD_EVENT_OFF);
    nc_frames_clear(&w->frames);
    w->is_listing = w->thin.is_on && !w->cursor.is_listed;
    if (!w->cursor.is_listed && !w->cursor.next)
        nc_known_begin_list(&w->known);
    r = w->cursor.is_listed || w->is_listing ? start_stream(w, request, &err)
                                             : start_list(w, request, &err);
    if (r < 0)
        fail(w, &err);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_watch *w = userdata;

    if (!w->stream)
        go_on(w);
    else if (w->well)
        w->well(w->userdata); /* which may free it */
    return 0;
}

int nc_watch_new(struct nc_kube *k, sd_event *event, const struct nc_watch_options *o,
                 struct nc_watch **ret, struct nc_err *err) {
    struct nc_watch *w = nc_calloc(1, sizeof(*w));
    int r;

    w->kube = k;
    w->event = sd_event_ref(event);
    w->path = nc_strdup(o->path);
    w->selector = nc_strdup(o->selector ? o->selector : "");
    w->metadata_only = o->metadata_only;
    w->reports_once = o->reports_once;
    w->cursor.is_urgent = o->is_urgent;
    w->idle_timeout_usec = o->idle_timeout_usec ? o->idle_timeout_usec : IDLE_TIMEOUT_USEC;
    w->report = o->event;
    w->failed = o->failed;
    w->well = o->well;
    w->userdata = o->userdata;
    w->cursor.random = nc_kube_hash(nc_kube_hash(NC_KUBE_HASH_SEED, w->path), w->selector);
    nc_frames_init(&w->frames, o->max_object_bytes ? o->max_object_bytes : DEFAULT_OBJECT_BYTES);
    nc_watch_thin_init(&w->thin, o, &w->frames);
    r = sd_event_add_defer(event, &w->lines, on_lines, w);
    if (r >= 0)
        r = sd_event_source_set_enabled(w->lines, SD_EVENT_OFF);
    if (r >= 0)
        r = sd_event_add_time_relative(event, &w->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_USEC,
                                       on_timer, w);
    if (r < 0) {
        nc_watch_free(w);
        return nc_err_host(err, r, "watch %s: event loop", o->path);
    }
    *ret = w;
    return 0;
}

void nc_watch_renew(struct nc_watch *w) {
    if (!w->stream || !w->heard_usec || w->is_listing
        || nc_mono_usec() - w->heard_usec < SILENT_USEC)
        return;
    nc_http_cancel(w->stream);
    w->stream = NULL;
    go_on(w);
}

struct nc_watch *nc_watch_free(struct nc_watch *w) {
    if (!w)
        return NULL;
    if (w->gone)
        *w->gone = true;
    nc_kube_cancel(w->list);
    nc_http_cancel(w->stream);
    sd_event_source_disable_unref(w->lines);
    sd_event_source_disable_unref(w->timer);
    sd_event_unref(w->event);
    nc_watch_thin_done(&w->thin);
    nc_frames_done(&w->frames);
    nc_watch_cursor_done(&w->cursor);
    nc_known_done(&w->known);
    free(w->path);
    free(w->selector);
    free(w);
    return NULL;
}
