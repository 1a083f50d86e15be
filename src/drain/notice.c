/*
 * What announces an ending: the bodies of IMDS and the drain-request document, read.
 *
 * Knows their forms, their dates, and which of the scheduled events are news. Members that EC2 may
 * add one day are looked over; a member that is there in another form makes the body refused, for
 * then nothing in it can be trusted. Must not keep anything between two calls.
 */
#include "nc/notice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nc/str.h"
#include "nc/time.h"
#include "nc/value.h"

#define REQUEST_MAX_BYTES ((size_t)4096)
#define EVENTS_MAX ((size_t)100)

/* Printable ASCII, `min` to `max` bytes. */
static bool is_printable(const char *text, size_t min, size_t max) {
    const size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return text && n >= min && n <= max;
}

/* A member's text for messages. Owned. */
static char *quoted(const struct nc_value *v) {
    char buf[32];
    const char *text = nc_value_scalar_text(v, buf);

    return text ? nc_quote(text, strlen(text)) : nc_strdup(v ? "another type" : "nothing");
}

static int refuse(struct nc_err *err, const char *where, const struct nc_value *found,
                  const char *needed) {
    nc_auto_free char *text = quoted(found);

    return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG, "%s: found %s, %s is needed", where, text,
                      needed);
}

static int check_size(size_t n, size_t max_bytes, struct nc_err *err) {
    if (n <= max_bytes)
        return 0;
    return nc_err_set(err, NC_ERR_PROTOCOL, EFBIG, "%zu bytes, at most %zu are expected", n,
                      max_bytes);
}

/* One JSON value of the wanted type: a notice, or the list of events. */
static int parse(const char *data, size_t n, enum nc_value_type type, struct nc_value **ret,
                 struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;
    const int r = nc_json_parse(data, n, &v, err);
    if (r < 0)
        return r;
    if (v->type != type)
        return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG, "%s is needed",
                          type == NC_VALUE_MAP ? "an object" : "a list");
    *ret = nc_steal(&v);
    return 0;
}

/* A member that holds an RFC 3339 time. */
static int read_notice_time(const struct nc_value *map, const char *key, uint64_t *ret,
                            struct nc_err *err) {
    const struct nc_value *v = nc_value_get(map, key);

    if (nc_time_parse(nc_value_string(v), ret) < 0)
        return refuse(err, key, v, "a time such as 2026-01-02T03:04:05Z");
    return 0;
}

static int read_spot(const char *data, size_t n, uint64_t now_usec, struct nc_notice *ret,
                     struct nc_err *err) {
    static const char *const actions[] = {"terminate", "stop", "hibernate", NULL};
    nc_auto_value struct nc_value *v = NULL;
    uint64_t usec;
    char time[32];
    int r = parse(data, n, NC_VALUE_MAP, &v, err);

    if (r < 0)
        return r;
    const char *action = nc_value_get_string(v, "action");
    if (!nc_is_one_of(action, actions))
        return refuse(err, "action", nc_value_get(v, "action"), "terminate, stop or hibernate");
    r = read_notice_time(v, "time", &usec, err);
    if (r < 0)
        return r;
    nc_time_format(usec, time);
    *ret = (struct nc_notice){.source = NC_SOURCE_SPOT, .deadline_usec = usec ? usec : 1};
    (void)snprintf(ret->id, sizeof(ret->id), "spot-%s-%s", action, time);
    (void)snprintf(ret->action, sizeof(ret->action), "%s", action);
    return 1;
}

static int read_rebalance(const char *data, size_t n, uint64_t now_usec, struct nc_notice *ret,
                          struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;
    uint64_t usec;
    char time[32];
    int r = parse(data, n, NC_VALUE_MAP, &v, err);

    if (r == 0)
        r = read_notice_time(v, "noticeTime", &usec, err);
    if (r < 0)
        return r;
    nc_time_format(usec, time);
    *ret = (struct nc_notice){.source = NC_SOURCE_REBALANCE};
    (void)snprintf(ret->id, sizeof(ret->id), "rebalance-%s", time);
    return 1;
}

/* "21 Jan 2019 09:00:43 GMT", "1 Jan …": the day of the week and a leading zero make it HTTP's. */
static int parse_event_time(const char *text, uint64_t *ret) {
    const bool is_short = text && text[0] && text[1] == ' ';
    char http[40];

    if (!text || strlen(text) > 24)
        return -EINVAL;
    (void)snprintf(http, sizeof(http), "Sun, %s%s", is_short ? "0" : "", text);
    return nc_time_parse_http(http, ret);
}

static int read_notice_text(const struct nc_value *event, const char *key, const char **ret,
                            struct nc_err *err) {
    const struct nc_value *v = nc_value_get(event, key);

    *ret = nc_value_string(v);
    return v && !*ret ? refuse(err, key, v, "a text") : 0;
}

/* Completed and cancelled events stay in the list for a while. */
static int is_news(const struct nc_value *event, struct nc_err *err) {
    const char *state, *description;
    int r = read_notice_text(event, "State", &state, err);

    if (r == 0)
        r = read_notice_text(event, "Description", &description, err);
    if (r < 0)
        return r;
    return !nc_streq(state, "completed") && !nc_streq(state, "canceled")
           && !nc_starts_with(description, "[Completed]")
           && !nc_starts_with(description, "[Canceled]");
}

/* Returns 1 with *ret and *ret_usec (when it begins), 0 where the event is no news. */
static int read_event(const struct nc_value *event, struct nc_notice *ret, uint64_t *ret_usec,
                      struct nc_err *err) {
    if (event->type != NC_VALUE_MAP)
        return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG, "an object is needed");
    const int r = is_news(event, err);
    if (r <= 0)
        return r;
    const char *id = nc_value_get_string(event, "EventId");
    const char *code = nc_value_get_string(event, "Code");
    if (!is_printable(id, 1, sizeof(ret->id) - 1))
        return refuse(err, "EventId", nc_value_get(event, "EventId"), "1 to 71 printable bytes");
    if (!is_printable(code, 1, sizeof(ret->action) - 1))
        return refuse(err, "Code", nc_value_get(event, "Code"), "1 to 23 printable bytes");
    if (parse_event_time(nc_value_get_string(event, "NotBefore"), ret_usec) < 0)
        return refuse(err, "NotBefore", nc_value_get(event, "NotBefore"),
                      "a time such as 21 Jan 2019 09:00:43 GMT");
    *ret = (struct nc_notice){.source = NC_SOURCE_MAINTENANCE};
    (void)snprintf(ret->id, sizeof(ret->id), "%s", id);
    (void)snprintf(ret->action, sizeof(ret->action), "%s", code);
    return 1;
}

static int read_events(const struct nc_value *list, uint64_t now_usec, struct nc_notice *ret,
                       struct nc_err *err) {
    uint64_t first_usec = UINT64_MAX;
    struct nc_notice first = {0};

    if (list->n > EVENTS_MAX)
        return nc_err_set(err, NC_ERR_PROTOCOL, EFBIG, "%zu events, at most %zu are expected",
                          list->n, EVENTS_MAX);
    for (size_t i = 0; i < list->n; i++) {
        struct nc_notice notice;
        uint64_t usec;
        const int r = read_event(list->items[i], &notice, &usec, err);
        if (r < 0) {
            nc_err_wrap(err, "event %zu", i + 1);
            return r;
        }
        if (r > 0 && usec < first_usec) {
            first = notice;
            first_usec = usec;
        }
    }
    if (first_usec == UINT64_MAX)
        return 0;
    *ret = first;
    if (first_usec > now_usec) {
        ret->deadline_usec = first_usec;
        ret->begin_usec =
            first_usec > NC_MAINTENANCE_LEAD_USEC ? first_usec - NC_MAINTENANCE_LEAD_USEC : 0;
    }
    return 1;
}

static bool is_blank(const char *data, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", data[i]) || !data[i])
            return false;
    return true;
}

static int read_maintenance(const char *data, size_t n, uint64_t now_usec, struct nc_notice *ret,
                            struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;

    if (is_blank(data, n))
        return 0;
    int r = parse(data, n, NC_VALUE_LIST, &v, err);
    if (r == 0)
        r = read_events(v, now_usec, ret, err);
    return r;
}

static int read_target_state(const char *data, size_t n, uint64_t now_usec, struct nc_notice *ret,
                             struct nc_err *err) {
    static const struct {
        const char *word;
        bool is_end;
    } states[] = {
        {"InService", false},      {"Terminated", true},         {"Detached", false},
        {"Standby", false},        {"Warmed:Hibernated", false}, {"Warmed:Running", false},
        {"Warmed:Stopped", false}, {"Warmed:Terminated", true},
    };

    while (n > 0 && (data[n - 1] == '\n' || data[n - 1] == '\r'))
        n--;
    for (size_t i = 0; i < NC_ARRAY_SIZE(states); i++) {
        if (strlen(states[i].word) != n || memcmp(states[i].word, data, n) != 0)
            continue;
        if (!states[i].is_end)
            return 0;
        *ret = (struct nc_notice){.source = NC_SOURCE_AUTOSCALING, .id = "autoscaling-terminated"};
        (void)snprintf(ret->action, sizeof(ret->action), "%s", states[i].word);
        return 1;
    }
    nc_auto_free char *text = nc_quote(n ? data : "", n);
    return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG, "unknown state: %s", text);
}

int nc_notice_read(enum nc_source source, const struct nc_buf *body, uint64_t now_usec,
                   struct nc_notice *ret, struct nc_err *err) {
    static int (*const readers[_NC_SOURCE_MAX])(const char *data, size_t n, uint64_t now_usec,
                                                struct nc_notice *ret, struct nc_err *err) = {
        [NC_SOURCE_REBALANCE] = read_rebalance,
        [NC_SOURCE_MAINTENANCE] = read_maintenance,
        [NC_SOURCE_AUTOSCALING] = read_target_state,
        [NC_SOURCE_SPOT] = read_spot,
    };
    int r = check_size(body->len, nc_sources[source].max_bytes, err);

    if (r == 0)
        r = readers[source](body->data, body->len, now_usec, ret, err);
    if (r < 0)
        nc_err_wrap(err, "imds: %s", nc_sources[source].path);
    return r;
}

/* A reason: one line of text, cut to what fits at the end of a character. */
static int read_request_reason(const struct nc_value *document, struct nc_notice *n,
                               struct nc_err *err) {
    const struct nc_value *v = nc_value_get(document, "reason");
    const char *text = nc_value_string(v);

    if (!v || v->type == NC_VALUE_NULL)
        return 0;
    if (!text || !nc_is_text(text, strlen(text)) || strpbrk(text, "\t\r\n"))
        return refuse(err, "reason", v, "a string of one line");
    size_t cut = strlen(text);
    if (cut >= sizeof(n->reason)) {
        cut = sizeof(n->reason) - 1;
        while (((unsigned char)text[cut] & 0xc0) == 0x80)
            cut--;
    }
    memcpy(n->reason, text, cut);
    n->reason[cut] = '\0';
    return 0;
}

static int read_request_mode(const struct nc_value *document, struct nc_notice *n,
                             struct nc_err *err) {
    const struct nc_value *v = nc_value_get(document, "mode");
    const struct nc_value *deadline = nc_value_get(document, "deadline");
    const char *mode = nc_value_string(v);

    if (!nc_streq(mode, "cordon") && !nc_streq(mode, "graceful") && !nc_streq(mode, "deadline"))
        return refuse(err, "mode", v, "cordon, graceful or deadline");
    n->policy = nc_streq(mode, "cordon") ? NC_POLICY_CORDON : NC_POLICY_DRAIN;
    if (!nc_streq(mode, "deadline"))
        return !deadline || deadline->type == NC_VALUE_NULL
                   ? 0
                   : refuse(err, "deadline", deadline, "mode deadline beside it");
    const int r = read_notice_time(document, "deadline", &n->deadline_usec, err);
    if (r == 0 && n->deadline_usec == 0)
        n->deadline_usec = 1; /* 0 would mean that there is none */
    return r;
}

static int read_request(const char *data, size_t size, struct nc_notice *n, struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;
    int r = check_size(size, REQUEST_MAX_BYTES, err);

    if (r == 0)
        r = parse(data, size, NC_VALUE_MAP, &v, err);
    if (r < 0)
        return r;
    const char *id = nc_value_get_string(v, "id");
    if (!is_printable(id, 1, 64))
        return refuse(err, "id", nc_value_get(v, "id"), "a string of 1 to 64 printable bytes");
    (void)snprintf(n->id, sizeof(n->id), "%s", id);
    r = read_request_reason(v, n, err);
    return r < 0 ? r : read_request_mode(v, n, err);
}

int nc_notice_read_request(const char *data, size_t n, enum nc_source source, struct nc_notice *ret,
                           struct nc_err *err) {
    struct nc_notice notice = {.source = source};
    const int r = read_request(data, n, &notice, err);

    if (r < 0) {
        nc_err_wrap(err, "drain request");
        return r;
    }
    *ret = notice;
    return 1;
}

int nc_notice_check_deadline(const struct nc_notice *n, uint64_t now_usec, struct nc_err *err) {
    char deadline[32], now[32];

    if (!n->deadline_usec || now_usec < n->deadline_usec
        || now_usec - n->deadline_usec <= NC_REQUEST_LATE_USEC)
        return 0;
    nc_time_format(n->deadline_usec, deadline);
    nc_time_format(now_usec, now);
    return nc_err_set(err, NC_ERR_PROTOCOL, ETIME,
                      "drain request %s: deadline %s had passed more than a minute before the "
                      "request was seen (it is %s): every pod would be deleted at once; write a "
                      "deadline that is still ahead, in UTC or with its time zone",
                      n->id, deadline, now);
}
