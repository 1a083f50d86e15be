/*
 * The scripted transport: nc/http.h without a network.
 *
 * Answers come from a defer source, as the real transport's do, so that whatever a callback frees
 * is freed under the same conditions.
 */
#include "kube-script.h"
#include "virtual-clock.h"

#include <errno.h>

struct nc_http {
    struct nc_http_req *requests;
};

struct nc_http_req {
    struct nc_http_req *next, **prev;
    sd_event_source *turn;
    struct script_step step;
    char *answer;
    size_t n, sent;
    nc_http_data_fn on_data;
    void (*on_head)(void *userdata);
    nc_http_done_fn on_done;
    void *userdata;
};

static struct script_step script[64];
static size_t script_n, script_at;
static struct nc_http transport;
static sd_event *loop;
unsigned script_cancelled;
uint64_t script_last_timeout_usec;
uint64_t script_idle_usec[SCRIPT_MAX];
size_t script_last_max_bytes;
char script_last_url[4096];
char script_last_body[4096];

char *unquote(const char *text) {
    char *s = nc_strdup(text ? text : "");

    for (char *p = s; *p; p++)
        if (*p == '\'')
            *p = '"';
    return s;
}

struct nc_value *js(const char *text) {
    nc_auto_free char *s = unquote(text);
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse(s, strlen(s), &v, &err) < 0)
        fail_msg("%s: %s", err.msg, text);
    return v;
}

void assert_json(const struct nc_value *v, const char *text) {
    nc_auto_free char *wanted = unquote(text);
    struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, v, 0);
    assert_string_equal(b.data, wanted);
    nc_buf_done(&b);
}

int give_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    (void)err;
    if (userdata)
        ++*(unsigned *)userdata;
    *ret_token = nc_strdup(refuse ? "two" : "one");
    return 0;
}

static struct nc_kube *begin(const struct nc_kube_role *role, const struct script_step *steps,
                             size_t n, nc_kube_token_fn token, void *userdata) {
    const struct nc_kube_options o = {.server = "https://api.test:6443/",
                                      .role = role,
                                      .token = token,
                                      .userdata = userdata,
                                      .user_agent = "nodeclaimd/test"};
    struct nc_kube *k;
    struct nc_err err = NC_ERR_INIT;

    assert_true(n <= sizeof(script) / sizeof(script[0]));
    for (size_t i = 0; i < n; i++)
        script[i] = steps[i];
    script_n = n;
    script_at = 0;
    script_cancelled = 0;
    assert_true(sd_event_new(&loop) >= 0);
    if (nc_kube_new(&transport, &o, &k, &err) < 0)
        fail_msg("%s", err.msg);
    return k;
}

struct nc_kube *script_begin(const struct script_step *steps, size_t n, nc_kube_token_fn token,
                             void *userdata) {
    return begin(&nc_kube_as_node, steps, n, token, userdata);
}

struct nc_kube *script_begin_as(const struct nc_kube_role *role, const struct script_step *steps,
                                size_t n) {
    return begin(role, steps, n, NULL, NULL);
}

size_t script_requested(void) {
    return script_at;
}

sd_event *script_loop(void) {
    return loop;
}

/* What is slow (valgrind, fifty thousand objects) is not stuck: each request begins the ten seconds
 * anew. */
static int too_long(sd_event_source *s, uint64_t usec, void *userdata) {
    size_t *asked = userdata;

    (void)usec;
    if (*asked != script_at) {
        *asked = script_at;
        assert_true(sd_event_source_set_time_relative(s, 10000000) >= 0);
        return sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
    }
    fail_msg("nothing happened for ten seconds; %zu of %zu requests were made", script_at,
             script_n);
    return 0;
}

void script_run(void) {
    sd_event_source *guard = NULL;
    size_t asked = script_at;

    assert_true(
        sd_event_add_time_relative(loop, &guard, CLOCK_MONOTONIC, 10000000, 0, too_long, &asked)
        >= 0);
    while (sd_event_get_state(loop) != SD_EVENT_FINISHED)
        assert_true(clock_run(loop, 1000000) >= 0);
    sd_event_source_disable_unref(guard);
}

void script_end(struct nc_kube *k) {
    nc_kube_free(k);
    assert_null(transport.requests);
    assert_int_equal(script_at, script_n);
    loop = sd_event_unref(loop);
}

static void check_header(const struct nc_http_options *o, const char *wanted) {
    for (const char *const *h = o->headers; h && *h; h++)
        if (strcmp(*h, wanted) == 0)
            return;
    for (const char *const *h = o->headers; h && *h; h++)
        print_message("# %s\n", *h);
    fail_msg("no header %s", wanted);
}

static struct script_step take(const struct nc_http_options *o) {
    struct script_step step;

    if (script_at == script_n)
        fail_msg("a request too many: %s %s", o->method, o->url);
    if (script_at < SCRIPT_MAX)
        script_idle_usec[script_at] = o->idle_timeout_usec;
    step = script[script_at++];
    assert_true(o->max_body_bytes > 0);
    assert_true(o->timeout_usec > 0
                || (o->on_data && o->idle_timeout_usec > 0 && o->connect_timeout_usec > 0));
    assert_true(nc_starts_with(o->name, "kube: "));
    script_last_timeout_usec = o->timeout_usec;
    script_last_max_bytes = o->max_body_bytes;
    snprintf(script_last_url, sizeof(script_last_url), "%s", o->url);
    snprintf(script_last_body, sizeof(script_last_body), "%s", o->body ? o->body : "");
    check_header(o, "User-Agent: nodeclaimd/test");
    if (step.method)
        assert_string_equal(o->method, step.method);
    if (step.url)
        assert_string_equal(o->url, step.url);
    if (step.header)
        check_header(o, step.header);
    if (step.body) {
        nc_auto_free char *wanted = unquote(step.body);
        assert_string_equal(o->body, wanted);
        assert_int_equal(o->body_n, strlen(wanted));
    }
    if (!step.outcome && !step.answer && !step.raw && o->method && strcmp(o->method, "GET") != 0
        && step.status < 300)
        step.answer = "{'kind':'Status'}"; /* a write always brings something */
    if (!step.outcome)
        step.outcome = NC_HTTP_ANSWERED;
    if (!step.status)
        step.status = 200;
    return step;
}

static void fill(const struct script_step *s, const char *body, struct nc_http_result *ret) {
    const bool answered = s->outcome == NC_HTTP_ANSWERED;

    *ret = (struct nc_http_result){
        .outcome = s->outcome, .status = answered || s->was_open ? s->status : 0, .body = body};
    ret->n = strlen(body);
    ret->retry_after_usec = s->retry_after_usec;
    ret->received_usec = answered || s->was_open ? 1700000000000000u : 0;
    ret->date_usec = ret->received_usec ? ret->received_usec + 5000000u : 0;
    snprintf(ret->message, sizeof(ret->message), "%s", answered ? "" : "scripted failure");
}

int nc_http_perform(struct nc_http *h, const struct nc_http_options *o, struct nc_http_answer *ret,
                    struct nc_err *err) {
    const struct script_step step = take(o);
    char *body = step.raw ? nc_strdup(step.raw) : unquote(step.answer);

    assert_ptr_equal(h, &transport);
    (void)err;
    nc_buf_puts(&ret->body, body);
    free(body);
    fill(&step, ret->body.data, &ret->result);
    return 0;
}

void nc_http_answer_done(struct nc_http_answer *a) {
    nc_buf_done(&a->body);
}

static void free_request(struct nc_http_req *r) {
    sd_event_source_disable_unref(r->turn);
    free(r->answer);
    free(r);
}

static void unlink_request(struct nc_http_req *r) {
    *r->prev = r->next;
    if (r->next)
        r->next->prev = r->prev;
}

/* One chunk a turn; then the end. */
static int on_turn(sd_event_source *source, void *userdata) {
    struct nc_http_req *r = userdata;
    const size_t left = r->n - r->sent;
    struct nc_http_result result;

    const bool is_begun = r->step.outcome == NC_HTTP_ANSWERED || r->step.was_open;
    if (r->on_data && r->on_head && r->sent == 0 && is_begun && r->step.status == 200)
        r->on_head(r->userdata);
    if (r->on_data && left > 0 && r->step.status == 200) {
        const size_t n = r->step.chunk && r->step.chunk < left ? r->step.chunk : left;
        const char *from = r->answer + r->sent;
        r->sent += n;
        sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        if (r->on_data(r->userdata, from, n) == 0)
            return 0;
        r->step.outcome = NC_HTTP_BROKEN;
    } else if (r->step.stays_open) {
        return 0;
    }
    unlink_request(r);
    fill(&r->step, r->on_data && r->step.status == 200 ? "" : r->answer, &result);
    r->on_done(r->userdata, &result);
    free_request(r);
    return 0;
}

int nc_http_start(struct nc_http *h, const struct nc_http_options *o, struct nc_http_req **ret,
                  struct nc_err *err) {
    struct nc_http_req *r = nc_calloc(1, sizeof(*r));

    (void)err;
    assert_ptr_equal(h, &transport);
    r->step = take(o);
    r->answer = r->step.raw ? nc_strdup(r->step.raw) : unquote(r->step.answer);
    r->n = strlen(r->answer);
    r->on_data = o->on_data;
    r->on_head = o->on_head;
    r->on_done = o->on_done;
    r->userdata = o->userdata;
    r->next = h->requests;
    r->prev = &h->requests;
    if (r->next)
        r->next->prev = &r->next;
    h->requests = r;
    assert_true(sd_event_add_defer(loop, &r->turn, on_turn, r) >= 0);
    if (ret)
        *ret = r;
    return 0;
}

struct nc_http_req *nc_http_cancel(struct nc_http_req *r) {
    if (r) {
        script_cancelled++;
        unlink_request(r);
        free_request(r);
    }
    return NULL;
}

int nc_http_error(const struct nc_http_result *r, const char *what, struct nc_err *err) {
    const enum nc_err_class class = r->outcome == NC_HTTP_TLS         ? NC_ERR_AUTH
                                    : r->outcome == NC_HTTP_TOO_LARGE ? NC_ERR_PROTOCOL
                                                                      : NC_ERR_TRANSIENT;
    return nc_err_set(err, class, EIO, "%s: %s", what, r->message);
}
