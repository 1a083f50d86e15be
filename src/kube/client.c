/*
 * Requests to one API server under one identity: blocking for one-shot commands, asynchronous for
 * the daemon.
 *
 * Knows when a token must be replaced (a 401, once a request) and how the time limit is shared by
 * the two sendings. Must not know what the requests mean, and never logs.
 */
#include <errno.h>
#include <string.h>

#include "nc/clock.h"
#include "nc/json-filter.h"
#include "nc/str.h"

#include "wire.h"

#define DATE_USEC 1000000u                /* a Date has whole seconds */
#define CLOCK_USEC (10ull * 60 * 1000000) /* then another answer counts, be it late */

struct nc_kube_req {
    struct nc_kube *kube;
    struct nc_kube_req *next, *prev;
    struct nc_kube_message message;
    struct nc_http_req *http;
    nc_kube_done_fn done;
    void *userdata;
    void (*destroy)(void *userdata); /* where `done` is never called */
    uint64_t started_usec;
    bool is_second;
    char head[64]; /* where the answer is dropped: how it begins */
    size_t head_n;
    struct nc_json_filter *filter; /* where only some members are kept */
    struct nc_buf kept;
};

static int check_server(const char *server, struct nc_err *err) {
    if (!nc_starts_with(server, "https://") || strlen(server) == strlen("https://"))
        return nc_err_config(err, "the API server's address must be https://HOST[:PORT]");
    if (!nc_is_visible(server, strlen(server)) || strpbrk(server, "?#@\\"))
        return nc_err_config(err, "the API server's address has a character that none has: "
                                  "https://HOST[:PORT] is wanted");
    return 0;
}

int nc_kube_new(struct nc_http *http, const struct nc_kube_options *o, struct nc_kube **ret,
                struct nc_err *err) {
    struct nc_kube *k;
    size_t n;
    const int r = check_server(o->server ? o->server : "", err);

    if (r < 0)
        return r;
    k = nc_calloc(1, sizeof(*k));
    k->http = http;
    n = strlen(o->server);
    while (o->server[n - 1] == '/')
        n--;
    k->server = nc_strndup(o->server, n);
    k->role = o->role;
    k->tls = o->tls;
    k->token = o->token;
    k->userdata = o->userdata;
    k->user_agent = nc_strdup(o->user_agent ? o->user_agent : "nodeclaimd");
    *ret = k;
    return 0;
}

struct nc_kube *nc_kube_free(struct nc_kube *k) {
    if (!k)
        return NULL;
    while (k->reqs)
        nc_kube_cancel(k->reqs);
    free(k->server);
    free(k->user_agent);
    free(k);
    return NULL;
}

static int check_limits(const struct nc_kube_call *c, struct nc_err *err) {
    return c->timeout_usec > 0
               ? 0
               : nc_err_set(err, NC_ERR_BUG, EINVAL, "%s: a request needs a time limit", c->what);
}

/* An answer that comes late makes the server's clock seem slow, and none makes it seem fast: the
 * fastest of the last minutes is the best. */
void nc_kube_note_clock(struct nc_kube *k, const struct nc_http_result *r) {
    const uint64_t boot_usec = nc_boot_usec(), now_usec = nc_now_usec();
    uint64_t age_usec, seen_usec;

    if (!r->date_usec || !r->received_usec)
        return;
    age_usec = now_usec > r->received_usec ? now_usec - r->received_usec : 0;
    if (age_usec > r->duration_usec + DATE_USEC) /* our clock was set meanwhile */
        return;
    if (age_usec > boot_usec || r->date_usec < boot_usec) /* its clock is not set */
        return;
    seen_usec = r->date_usec + DATE_USEC / 2 - (boot_usec - age_usec);
    if (seen_usec > k->boot_usec || boot_usec > k->dated_usec + CLOCK_USEC) {
        k->boot_usec = seen_usec;
        k->dated_usec = boot_usec;
    }
}

uint64_t nc_kube_boot_usec(const struct nc_kube *k) {
    return k->boot_usec;
}

/* Sends once, and takes the time that it took off the message's. Returns what nc_kube_judge
 * returns. What a token takes to be made (IMDS may be slow) is not the API server's time. */
static int perform_once(struct nc_kube_message *m, bool refuse, struct nc_value **ret_object,
                        struct nc_kube_status *ret_status, struct nc_err *err) {
    struct nc_kube *k = m->kube;
    struct nc_strv headers = NC_STRV_INIT;
    struct nc_http_options o;
    struct nc_http_answer answer = {0};
    int r = nc_kube_message_options(m, refuse, &headers, &o, err);
    const uint64_t started_usec = nc_mono_usec();

    if (r < 0)
        return r;
    r = nc_http_perform(k->http, &o, &answer, err);
    m->timeout_usec = nc_kube_time_left(started_usec, m->timeout_usec);
    nc_kube_headers_done(&headers);
    nc_kube_note_clock(k, &answer.result);
    if (r == 0)
        r = nc_kube_judge(&answer.result, m->what, ret_object, ret_status, err);
    if (r < 0)
        nc_kube_advise(k, ret_status, err);
    nc_http_answer_done(&answer);
    return r;
}

int nc_kube_perform(struct nc_kube *k, const struct nc_kube_call *c, struct nc_value **ret_object,
                    struct nc_kube_status *ret_status, struct nc_err *err) {
    struct nc_kube_message m;
    struct nc_kube_status status = {0};
    int r = check_limits(c, err);

    if (r == 0)
        r = nc_kube_message_init(k, c, &m, err);
    if (r == 0) {
        r = perform_once(&m, false, ret_object, &status, err);
        if (r < 0 && status.http == 401 && k->token)
            r = perform_once(&m, true, ret_object, &status, err);
        nc_kube_message_done(&m);
    }
    if (ret_status)
        *ret_status = status;
    return r;
}

static void free_req(struct nc_kube_req *q) {
    if (q->prev)
        q->prev->next = q->next;
    else
        q->kube->reqs = q->next;
    if (q->next)
        q->next->prev = q->prev;
    nc_json_filter_free(q->filter);
    nc_buf_done(&q->kept);
    nc_kube_message_done(&q->message);
    free(q);
}

static void on_done(void *userdata, const struct nc_http_result *result);

static int drop_data(void *userdata, const char *data, size_t n) {
    struct nc_kube_req *q = userdata;
    const size_t room = sizeof(q->head) - 1 - q->head_n;
    const size_t kept = n < room ? n : room;

    memcpy(q->head + q->head_n, data, kept);
    q->head_n += kept;
    return q->head[0] == '{' ? 0
                             : -EBADMSG; /* whatever it is, the rest of it is not worth reading */
}

static int keep_object(void *userdata, const char *data, size_t n) {
    struct nc_kube_req *q = userdata;

    return nc_buf_add(&q->kept, data, n);
}

static int thin_data(void *userdata, const char *data, size_t n) {
    struct nc_kube_req *q = userdata;

    return nc_json_filter_add(q->filter, data, n, NULL);
}

static int begin_filter(struct nc_kube_req *q, struct nc_err *err) {
    const struct nc_json_filter_options o = {.keep = q->message.keep,
                                             .max_item_bytes = q->message.max_bytes,
                                             .item = keep_object,
                                             .userdata = q};

    nc_buf_done(&q->kept);
    q->kept = (struct nc_buf)NC_BUF_INIT;
    q->filter = nc_json_filter_free(q->filter);
    return q->message.keep ? nc_json_filter_new_stream(&o, &q->filter, err) : 0;
}

static int send_req(struct nc_kube_req *q, bool refuse, struct nc_err *err) {
    struct nc_strv headers = NC_STRV_INIT;
    struct nc_http_options o;
    int r = begin_filter(q, err);

    if (r == 0)
        r = nc_kube_message_options(&q->message, refuse, &headers, &o, err);
    if (r < 0)
        return r;
    memset(q->head, 0, sizeof(q->head));
    q->head_n = 0;
    o.timeout_usec = nc_kube_time_left(q->started_usec, q->message.timeout_usec);
    o.on_data = q->message.drops_answer ? drop_data : q->filter ? thin_data : NULL;
    o.on_done = on_done;
    o.userdata = q;
    r = nc_http_start(q->kube->http, &o, &q->http, err);
    nc_kube_headers_done(&headers);
    return r;
}

/* The request is gone before its owner observes it: the callback may free everything, the handle
 * included. */
static void finish(struct nc_kube_req *q, const struct nc_value *object,
                   const struct nc_kube_status *status, const struct nc_err *err) {
    const nc_kube_done_fn done = q->done;
    void *userdata = q->userdata;

    free_req(q);
    done(userdata, object, status, err);
}

static void on_done(void *userdata, const struct nc_http_result *result) {
    struct nc_kube_req *q = userdata;
    nc_auto_value struct nc_value *object = NULL;
    struct nc_http_result whole = *result;
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (q->filter && whole.n == 0) { /* a success; half an object is none */
        whole.body = q->kept.data;
        whole.n = q->kept.len;
    }
    r = q->message.drops_answer
            ? nc_kube_judge_head(result, q->message.what, q->head, &status, &err)
            : nc_kube_judge(&whole, q->message.what, &object, &status, &err);

    q->http = NULL;
    nc_kube_note_clock(q->kube, result);
    nc_kube_advise(q->kube, &status, &err);
    if (r < 0 && status.http == 401 && q->kube->token && !q->is_second) {
        struct nc_err second = NC_ERR_INIT;
        q->is_second = true;
        if (send_req(q, true, &second) == 0)
            return;
        if (second.code != 401) /* see nc_kube_token_fn */
            err = second;
    }
    finish(q, object, &status, &err);
}

int nc_kube_start(struct nc_kube *k, const struct nc_kube_call *c, struct nc_kube_req **ret,
                  struct nc_err *err) {
    struct nc_kube_message m;
    struct nc_kube_req *q;
    int r = check_limits(c, err);

    if (r == 0)
        r = nc_kube_message_init(k, c, &m, err);
    if (r < 0)
        return r;
    q = nc_calloc(1, sizeof(*q));
    *q = (struct nc_kube_req){.kube = k,
                              .message = m,
                              .done = c->done,
                              .userdata = c->userdata,
                              .destroy = c->destroy,
                              .started_usec = nc_mono_usec(),
                              .next = k->reqs};
    if (k->reqs)
        k->reqs->prev = q;
    k->reqs = q;
    r = send_req(q, false, err);
    if (r < 0) {
        free_req(q);
        return r;
    }
    if (ret)
        *ret = q;
    return 0;
}

struct nc_kube_req *nc_kube_cancel(struct nc_kube_req *q) {
    if (q) {
        nc_http_cancel(q->http);
        if (q->destroy)
            q->destroy(q->userdata);
        free_req(q);
    }
    return NULL;
}
