/*
 * Requests of one-shot programs: the loop turns until the answer is there.
 *
 * Not for the daemon: it never waits. A loop that was asked to exit ends the wait at once.
 */
#include "http-priv.h"

#include <errno.h>

struct perform {
    struct nc_http_answer *answer;
    bool done;
};

void nc_http_answer_done(struct nc_http_answer *a) {
    if (!a)
        return;
    nc_buf_done_secret(&a->body);
    a->result = (struct nc_http_result){0};
}

int nc_http_wait(struct nc_http *h, const bool *done, struct nc_err *err) {
    sd_event *event = sd_event_ref(h->event);
    int r = 0;

    while (!*done && r >= 0) {
        int code;
        if (sd_event_get_state(event) == SD_EVENT_FINISHED
            || sd_event_get_exit_code(event, &code) >= 0) {
            r = nc_err_set(err, NC_ERR_TRANSIENT, EINTR, "interrupted by a signal");
            break;
        }
        r = sd_event_run(event, UINT64_MAX);
        if (r == -EINTR)
            r = 0;
        if (r < 0)
            (void)nc_err_host(err, r, "event loop");
    }
    sd_event_unref(event);
    return r < 0 ? r : 0;
}

static void on_performed(void *userdata, const struct nc_http_result *result) {
    struct perform *p = userdata;

    p->answer->result = *result;
    p->answer->body = (struct nc_buf)NC_BUF_INIT_MAX(result->n);
    (void)nc_buf_add(&p->answer->body, result->body, result->n);
    p->answer->result.body = p->answer->body.data;
    p->done = true;
}

int nc_http_perform(struct nc_http *h, const struct nc_http_options *o, struct nc_http_answer *ret,
                    struct nc_err *err) {
    struct nc_http_answer answer = {0};
    struct perform p = {.answer = &answer};
    struct nc_http_options options = *o;
    struct nc_http_req *req = NULL;
    int r;

    if (o->on_data)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "%s: a stream cannot be waited for",
                          o->name ? o->name : "?");
    options.on_done = on_performed;
    options.userdata = &p;
    r = nc_http_start(h, &options, &req, err);
    if (r < 0)
        return r;
    r = nc_http_wait(h, &p.done, err);
    if (!p.done)
        nc_http_cancel(req);
    if (r < 0) {
        nc_http_answer_done(&answer);
        return r;
    }
    *ret = answer;
    return 0;
}
