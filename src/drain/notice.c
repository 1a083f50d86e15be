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

    return text ? nc_quote_string(text) : nc_strdup(v ? "another type" : "nothing");
}

static int refuse(struct nc_err *err, const char *where, const struct nc_value *found,
                  const char *needed) {
    nc_auto_free char *text = quoted(found);

    return nc_err_protocol(err, "%s: found %s, %s is needed", where, text, needed);
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
        return nc_err_protocol(err, "%s is needed", type == NC_VALUE_MAP ? "an object" : "a list");
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

/* One of these words, each ended by NUL and the last by another; NULL where it is none. */
static const char *word_of(const char *words, const char *data, size_t n) {
    while (*words && (strlen(words) != n || memcmp(words, data, n) != 0))
        words += strlen(words) + 1;
    return *words ? words : NULL;
}

static int read_spot(const struct nc_notice_answer *a, struct nc_notice *ret, struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;
    uint64_t usec;
    char time[32];
    int r = parse(a->body->data, a->body->len, NC_VALUE_MAP, &v, err);

    if (r < 0)
        return r;
    const char *action = nc_value_get_string(v, "action");
    if (!action || !word_of("terminate\0stop\0hibernate\0", action, strlen(action)))
        return refuse(err, "action", nc_value_get(v, "action"), "terminate, stop or hibernate");
    r = read_notice_time(v, "time", &usec, err);
    if (r < 0)
        return r;
    nc_time_format(usec, time);
    *ret = (struct nc_notice){.source = NC_SOURCE_SPOT, .deadline_usec = usec ? usec : 1};
    (void)snprintf(ret->id, sizeof(ret->id), "spot-%s-%s", action, time);
    nc_copy_text(ret->action, sizeof(ret->action), action);
    return 1;
}

static int read_rebalance(const struct nc_notice_answer *a, struct nc_notice *ret,
                          struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;
    uint64_t usec;
    char time[32];
    int r = parse(a->body->data, a->body->len, NC_VALUE_MAP, &v, err);

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

/* Returns 1 with *ret, 0 where the event is no news. */
static int read_event(const struct nc_value *event, uint64_t now_usec, struct nc_notice *ret,
                      struct nc_err *err) {
    uint64_t usec = 0;

    if (event->type != NC_VALUE_MAP)
        return nc_err_protocol(err, "an object is needed");
    const int r = is_news(event, err);
    if (r <= 0)
        return r;
    const char *id = nc_value_get_string(event, "EventId");
    const char *code = nc_value_get_string(event, "Code");
    if (!is_printable(id, 1, sizeof(ret->id) - 1))
        return refuse(err, "EventId", nc_value_get(event, "EventId"), "1 to 71 printable bytes");
    if (!is_printable(code, 1, sizeof(ret->action) - 1))
        return refuse(err, "Code", nc_value_get(event, "Code"), "1 to 23 printable bytes");
    if (parse_event_time(nc_value_get_string(event, "NotBefore"), &usec) < 0)
        return refuse(err, "NotBefore", nc_value_get(event, "NotBefore"),
                      "a time such as 21 Jan 2019 09:00:43 GMT");
    *ret = (struct nc_notice){.source = NC_SOURCE_MAINTENANCE, .begin_usec = usec};
    if (usec > now_usec) {
        ret->deadline_usec = usec;
        ret->begin_usec = usec > NC_MAINTENANCE_LEAD_USEC ? usec - NC_MAINTENANCE_LEAD_USEC : 0;
    }
    nc_copy_text(ret->id, sizeof(ret->id), id);
    nc_copy_text(ret->action, sizeof(ret->action), code);
    return 1;
}

/* Whatever EC2 did, it did before the event was seen (N1). */
static bool is_over(const struct nc_notice_answer *a, const struct nc_notice *n) {
    return !n->deadline_usec && n->begin_usec + NC_NOTICE_LATE_USEC < a->now_usec
           && !nc_streq(a->acted_id, n->id);
}

/* How much is done about it now. A drain that is ahead has to be known before it begins. */
static enum nc_policy policy_now(const struct nc_notice_answer *a, const struct nc_notice *n) {
    const enum nc_policy p = nc_maintenance_policy(a->rules, n->action);

    if (p <= NC_POLICY_REPORT || is_over(a, n))
        return p < NC_POLICY_REPORT ? p : NC_POLICY_REPORT;
    if (n->begin_usec <= a->now_usec)
        return p;
    return p == NC_POLICY_DRAIN && n->begin_usec <= a->now_usec + NC_MAINTENANCE_GRACE_USEC
               ? NC_POLICY_CORDON
               : NC_POLICY_REPORT;
}

/* How much is done about it now, then how much will be. */
static unsigned weight_of(const struct nc_notice_answer *a, const struct nc_notice *n) {
    return (unsigned)policy_now(a, n) * 8 + (unsigned)nc_maintenance_policy(a->rules, n->action);
}

static bool leads(const struct nc_notice_answer *a, const struct nc_notice *n,
                  const struct nc_notice *other) {
    const unsigned weight = weight_of(a, n), others = weight_of(a, other);

    if (weight != others)
        return weight > others;
    return n->deadline_usec - 1 < other->deadline_usec - 1; /* none is the last */
}

/* What cannot be read is left out where something else is announced; where nothing is, it may be
 * what is. */
static int read_events(const struct nc_notice_answer *a, const struct nc_value *list,
                       struct nc_notice *ret, struct nc_err *err) {
    struct nc_notice first = {0};
    bool cordons = false;
    int refused = 0;

    if (list->n > EVENTS_MAX)
        return nc_err_set(err, NC_ERR_PROTOCOL, EFBIG, "%zu events, at most %zu are expected",
                          list->n, EVENTS_MAX);
    for (size_t i = 0; i < list->n; i++) {
        struct nc_err why = NC_ERR_INIT;
        struct nc_notice notice;
        const int r = read_event(list->items[i], a->now_usec, &notice, &why);
        if (r < 0 && !refused && err) {
            *err = why;
            nc_err_wrap(err, "event %zu", i + 1);
        }
        if (r < 0)
            refused = r;
        if (r > 0 && (!first.id[0] || leads(a, &notice, &first)))
            first = notice;
        cordons |=
            r > 0 && notice.begin_usec <= a->now_usec && policy_now(a, &notice) == NC_POLICY_CORDON;
    }
    if (!first.id[0])
        return refused;
    first.cordons_until_then = cordons && first.begin_usec > a->now_usec;
    *ret = first;
    return 1;
}

static bool is_blank(const char *data, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", data[i]) || !data[i])
            return false;
    return true;
}

static int read_maintenance(const struct nc_notice_answer *a, struct nc_notice *ret,
                            struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;

    if (is_blank(a->body->data, a->body->len))
        return 0;
    int r = parse(a->body->data, a->body->len, NC_VALUE_LIST, &v, err);
    if (r == 0)
        r = read_events(a, v, ret, err);
    return r;
}

/* An instance that goes back to a warm pool leaves the service as well; it may be taken again. */
static int read_target_state(const struct nc_notice_answer *a, struct nc_notice *ret,
                             struct nc_err *err) {
    static const char states[] = "InService\0Detached\0Standby\0Terminated\0Warmed:Terminated\0"
                                 "Warmed:Hibernated\0Warmed:Running\0Warmed:Stopped\0";
    const char *data = a->body->data;
    size_t n = a->body->len;

    while (n > 0 && (data[n - 1] == '\n' || data[n - 1] == '\r'))
        n--;
    const char *state = word_of(states, data, n);
    if (!state) {
        nc_auto_free char *text = nc_quote(n ? data : "", n);
        return nc_err_protocol(err, "unknown state: %s", text);
    }
    const bool is_terminated = nc_ends_with(state, "Terminated");
    if (!is_terminated && !nc_starts_with(state, "Warmed:"))
        return 0;
    *ret = (struct nc_notice){.source = NC_SOURCE_AUTOSCALING};
    (void)snprintf(ret->id, sizeof(ret->id), "autoscaling-%s",
                   is_terminated ? "terminated" : "warmed");
    nc_copy_text(ret->action, sizeof(ret->action), state);
    return 1;
}

int nc_notice_read(const struct nc_notice_answer *a, struct nc_notice *ret, struct nc_err *err) {
    int r = check_size(a->body->len, nc_sources[a->source].max_bytes, err);

    if (r == 0)
        r = a->source == NC_SOURCE_SPOT          ? read_spot(a, ret, err)
            : a->source == NC_SOURCE_REBALANCE   ? read_rebalance(a, ret, err)
            : a->source == NC_SOURCE_MAINTENANCE ? read_maintenance(a, ret, err)
                                                 : read_target_state(a, ret, err);
    if (err && err->class != NC_ERR_NONE)
        nc_err_wrap(err, "imds: %s", nc_sources[a->source].path);
    return r;
}

bool nc_notice_is_gentle(const struct nc_notice *n) {
    return n->source == NC_SOURCE_SPOT && nc_streq(n->action, "hibernate");
}

bool nc_notice_returns(const struct nc_notice *n) {
    return nc_notice_is_gentle(n)
           || (n->source == NC_SOURCE_MAINTENANCE && nc_maintenance(n->action)->returns);
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

    if (!nc_is_one_of(mode, "cordon\0graceful\0deadline\0"))
        return refuse(err, "mode", v, "cordon, graceful or deadline");
    n->policy = nc_streq(mode, "cordon") ? NC_POLICY_CORDON : NC_POLICY_DRAIN;
    if (!nc_streq(mode, "deadline"))
        return !deadline || deadline->type == NC_VALUE_NULL
                   ? 0
                   : nc_err_protocol(err, "a deadline needs \"mode\": \"deadline\"");
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
    nc_copy_text(n->id, sizeof(n->id), id);
    r = read_request_reason(v, n, err);
    return r < 0 ? r : read_request_mode(v, n, err);
}

int nc_notice_read_request(const char *data, size_t n, enum nc_source source, struct nc_notice *ret,
                           struct nc_err *err) {
    struct nc_notice notice = {.source = source};
    const int r = read_request(data, n, &notice, err);

    if (r < 0) {
        nc_err_wrap(err, "drain request%s%s", notice.id[0] ? " " : "", notice.id);
        return r;
    }
    *ret = notice;
    return 1;
}

bool nc_notice_is_of_claim(const struct nc_notice *n, const char *uid) {
    return uid && nc_starts_with(n->id, NC_NOTICE_OF_CLAIM)
           && nc_streq(n->id + strlen(NC_NOTICE_OF_CLAIM), uid);
}

int nc_notice_check_deadline(const struct nc_notice *n, uint64_t now_usec, struct nc_err *err) {
    char deadline[32], now[32];

    if (!n->deadline_usec || now_usec < n->deadline_usec
        || now_usec - n->deadline_usec <= NC_REQUEST_LATE_USEC)
        return 0;
    nc_time_format(n->deadline_usec, deadline);
    nc_time_format(now_usec, now);
    return nc_err_set(err, NC_ERR_PROTOCOL, ETIME,
                      "drain request %s: deadline %s had passed before the request was seen (it "
                      "is %s): every pod would be deleted at once; write a "
                      "deadline that is still ahead, in UTC or with its time zone",
                      n->id, deadline, now);
}
