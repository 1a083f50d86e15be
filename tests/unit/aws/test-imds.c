/*
 * IMDSv2 against a strict server on loopback: the token's life, answers side by side, and every way
 * in which it can fail.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "groups.h"
#include "loopback.h"
#include "nc/clock.h"
#include "nc/imds.h"
#include "nc/str.h"

#define SECOND 1000000ull
#define PATIENCE (20 * SECOND) /* where an answer comes, however busy the machine is */
#define ALL_ROUND_1 ((1u << NC_IMDS_IPV6S) - 1)
#define PAGE "<?xml version=\"1.0\"?><html><body>401</body></html>"

enum fault {
    FAULT_NONE = 0,
    FAULT_SILENT,
    FAULT_EMPTY,
    FAULT_NOISE,
    FAULT_PARTIAL,
    FAULT_STATUS,
    FAULT_BODY
};

/* What goes wrong with the token, and with one path of the tree. */
struct script {
    enum fault put, get;
    int put_status, get_status;
    const char *put_body, *get_body;
    const char *get_path; /* NULL = every path */
    const char *put_headers;
    atomic_uint faults_left; /* the fault of `get` holds for so many requests */
    atomic_uint puts, gets, unauthorized;
    atomic_uint refuse_below; /* tokens with a smaller number are not accepted */
    unsigned together;        /* nobody is answered before so many have asked */
    const char *late_path;    /* answered only after the second token was given */
};

static bool misbehave(struct loopback_conn *c, enum fault fault, int status, const char *body) {
    switch (fault) {
    case FAULT_SILENT:
        loopback_hang(c);
        return false;
    case FAULT_EMPTY:
        return false;
    case FAULT_NOISE:
        loopback_puts(c, "220 mail.example ESMTP\r\n");
        return false;
    case FAULT_PARTIAL:
        loopback_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nab");
        return false;
    case FAULT_STATUS:
    case FAULT_BODY:
        return loopback_answer(c, fault == FAULT_STATUS ? status : 200, "", body ? body : "");
    case FAULT_NONE:
        break;
    }
    return false;
}

static bool serve_token(struct script *s, struct loopback_conn *c,
                        const struct loopback_request *r) {
    const unsigned number = atomic_fetch_add(&s->puts, 1) + 1;
    nc_auto_free char *token = nc_asprintf("TOKEN%u", number);

    if (s->put != FAULT_NONE)
        return misbehave(c, s->put, s->put_status, s->put_body);
    if (!nc_streq(r->method, "PUT")
        || !strstr(r->head, "\r\nX-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"))
        return loopback_answer(c, 400, "", "");
    return loopback_answer(c, 200, s->put_headers ? s->put_headers : "", token);
}

/* Waits until enough questions are there, five seconds at most. */
static void wait_for_the_others(struct script *s) {
    for (int k = 0; k < 5000 && atomic_load(&s->gets) < s->together; k++)
        usleep(1000);
}

/* A number that the server's threads make: a time limit may be over before they had their turn. */
static void wait_until(const atomic_uint *number, unsigned wanted) {
    for (int k = 0; k < 5000 && atomic_load(number) != wanted; k++)
        usleep(1000);
    assert_int_equal(atomic_load(number), wanted);
}

static void wait_for_the_second_token(struct script *s) {
    for (int k = 0; k < 5000 && atomic_load(&s->puts) < 2; k++)
        usleep(1000);
    usleep(20000); /* its answer is on the way before ours */
}

static bool serve(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    struct script *s = userdata;
    const char *header = strstr(r->head, "\r\nX-aws-ec2-metadata-token: TOKEN");
    unsigned number = 0;

    if (nc_streq(r->path, "/latest/api/token"))
        return serve_token(s, c, r);
    atomic_fetch_add(&s->gets, 1);
    wait_for_the_others(s);
    if (s->late_path && nc_streq(s->late_path, r->path))
        wait_for_the_second_token(s);
    if (!header
        || sscanf(header + strlen("\r\nX-aws-ec2-metadata-token: TOKEN"), "%u", &number) != 1
        || number < atomic_load(&s->refuse_below) || number > atomic_load(&s->puts)) {
        atomic_fetch_add(&s->unauthorized, 1);
        return loopback_answer(c, 401, "", PAGE);
    }
    if (s->get != FAULT_NONE && (!s->get_path || nc_streq(s->get_path, r->path))
        && atomic_load(&s->faults_left) > 0) {
        atomic_fetch_sub(&s->faults_left, 1);
        return misbehave(c, s->get, s->get_status, s->get_body);
    }
    if (nc_streq(r->path, "/latest/meta-data/mac"))
        return loopback_answer(c, 200, "", "0a:1b:2c:3d:4e:5f");
    if (nc_streq(r->path, "/latest/user-data"))
        return loopback_answer(c, 404, "", PAGE);
    if (nc_streq(r->path, "/latest/meta-data/iam/security-credentials/"))
        return loopback_answer(c, 200, "", "role");
    return loopback_answer(c, 200, "", r->path);
}

struct world {
    sd_event *event;
    struct nc_imds *imds;
    struct loopback *server;
    struct script script;
    struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX];
    struct nc_err err;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));
    nc_auto_free char *endpoint = NULL;

    w->server = loopback_start(NULL, serve, &w->script);
    endpoint = nc_asprintf("%s/", loopback_url(w->server));
    assert_true(sd_event_new(&w->event) >= 0);
    assert_int_equal(nc_imds_new(w->event, endpoint, &w->imds, NULL), 0);
    assert_string_equal(nc_imds_endpoint(w->imds), loopback_url(w->server));
    w->script.faults_left = 1000;
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    w->imds = nc_imds_free(w->imds);
    for (size_t k = 0; k < _NC_IMDS_ITEM_MAX; k++)
        nc_imds_answer_done(&w->answers[k]);
    loopback_stop(w->server);
    sd_event_unref(w->event);
    free(w);
    return 0;
}

static int fetch_within(struct world *w, unsigned items, const char *const args[_NC_IMDS_ITEM_MAX],
                        uint64_t timeout_usec) {
    const struct nc_imds_batch_call call = {
        .items = items, .args = args, .timeout_usec = timeout_usec, .answers = w->answers};

    w->err = (struct nc_err)NC_ERR_INIT;
    return nc_imds_fetch(w->imds, call, &w->err);
}

static int fetch(struct world *w, unsigned items, const char *const args[_NC_IMDS_ITEM_MAX]) {
    return fetch_within(w, items, args, 5 * SECOND);
}

/* --- the good way */

static void test_two_rounds(void **state) {
    struct world *w = *state;
    const char *args[_NC_IMDS_ITEM_MAX] = {0};
    struct nc_imds_stats stats;

    w->script.together = 10; /* all of the first round, or none: one round trip */
    if (fetch(w, ALL_ROUND_1, NULL) < 0)
        fail_msg("%s", w->err.msg);
    assert_int_equal(loopback_connections(w->server), 10);
    assert_string_equal(w->answers[NC_IMDS_MAC].body.data, "0a:1b:2c:3d:4e:5f");
    assert_int_equal(w->answers[NC_IMDS_MAC].status, 200);
    assert_int_equal(w->answers[NC_IMDS_USER_DATA].status, 404);
    assert_int_equal(w->answers[NC_IMDS_USER_DATA].body.len, 0);
    assert_string_equal(w->answers[NC_IMDS_AZ_ID].body.data,
                        "/latest/meta-data/placement/availability-zone-id");
    args[NC_IMDS_IPV6S] = "0a:1b:2c:3d:4e:5f";
    args[NC_IMDS_CREDENTIALS] = "my.role+x=,@-_";
    assert_int_equal(fetch(w, 1u << NC_IMDS_IPV6S | 1u << NC_IMDS_CREDENTIALS, args), 0);
    assert_string_equal(w->answers[NC_IMDS_IPV6S].body.data,
                        "/latest/meta-data/network/interfaces/macs/0a:1b:2c:3d:4e:5f/ipv6s");
    assert_string_equal(w->answers[NC_IMDS_CREDENTIALS].body.data,
                        "/latest/meta-data/iam/security-credentials/my.role+x=,@-_");
    assert_int_equal(w->script.puts, 1);
    assert_int_equal(w->script.gets, 12);
    assert_int_equal(w->script.unauthorized, 0);
    nc_imds_get_stats(w->imds, &stats);
    assert_int_equal(stats.requests, 13);
    assert_int_equal(stats.tokens, 1);
    assert_int_equal(stats.failures, 0);
    assert_int_equal(stats.connections, loopback_connections(w->server));
    assert_true(
        loopback_wait(loopback_open, w->server, 4)); /* kept for the daemon's next question */
}

static void test_no_proxy(void **state) {
    struct world *w = *state;
    nc_auto_free char *proxy = nc_asprintf("http://127.0.0.1:%u", loopback_closed_port());

    setenv("http_proxy", proxy, 1);
    setenv("ALL_PROXY", proxy, 1);
    assert_int_equal(fetch(w, 1u << NC_IMDS_MAC, NULL), 0);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
}

/* --- what goes wrong with the token */

static void test_token_failures(void **state) {
    static const struct {
        enum fault fault;
        int status;
        const char *body;
        enum nc_err_class class;
        int code;
        const char *msg, *remedy;
    } cases[] = {
        {FAULT_STATUS, 403, PAGE, NC_ERR_CONFIG, 403, "HTTP 403: instance metadata is disabled",
         "HttpEndpoint"},
        {FAULT_STATUS, 404, PAGE, NC_ERR_PROTOCOL, 404, "HTTP 404", "does not know IMDSv2"},
        {FAULT_STATUS, 405, PAGE, NC_ERR_PROTOCOL, 405, "HTTP 405", "does not know IMDSv2"},
        {FAULT_STATUS, 400, PAGE, NC_ERR_PROTOCOL, 400, "HTTP 400", ""},
        {FAULT_STATUS, 401, PAGE, NC_ERR_AUTH, 401, "HTTP 401", ""},
        {FAULT_STATUS, 503, PAGE, NC_ERR_TRANSIENT, 503, "HTTP 503", "replace the node"},
        {FAULT_STATUS, 429, PAGE, NC_ERR_TRANSIENT, 429, "HTTP 429", ""},
        {FAULT_STATUS, 302, "", NC_ERR_PROTOCOL, 302, "HTTP 302", ""},
        {FAULT_BODY, 0, PAGE, NC_ERR_PROTOCOL, -EBADMSG, "a page of HTML", "something other than"},
        {FAULT_BODY, 0, "", NC_ERR_PROTOCOL, -EBADMSG, "invalid token", ""},
        {FAULT_BODY, 0, "two\r\nX-Header: lines", NC_ERR_PROTOCOL, -EBADMSG, "invalid token", ""},
        {FAULT_SILENT, 0, NULL, NC_ERR_TRANSIENT, -ETIMEDOUT,
         "no answer from 127.0.0.1:", "HttpPutResponseHopLimit"},
        {FAULT_EMPTY, 0, NULL, NC_ERR_TRANSIENT, -ECONNRESET, "without an answer", ""},
        {FAULT_NOISE, 0, NULL, NC_ERR_PROTOCOL, -EBADMSG, "does not speak HTTP",
         "something other than"},
        {FAULT_PARTIAL, 0, NULL, NC_ERR_TRANSIENT, -ECONNRESET, "in mid-answer", ""},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        void *fresh = NULL;
        set_up(&fresh);
        struct world *w = fresh;
        w->script.put = cases[k].fault;
        w->script.put_status = cases[k].status;
        w->script.put_body = cases[k].body;
        const uint64_t patience = cases[k].fault == FAULT_SILENT ? SECOND / 5 : PATIENCE;
        const int r = fetch_within(w, ALL_ROUND_1, NULL, patience);
        if (r >= 0 || w->err.class != cases[k].class || w->err.code != cases[k].code
            || !strstr(w->err.msg, cases[k].msg)
            || strncmp(w->err.msg, "imds: PUT /latest/api/token: ", 29) != 0
            || !strstr(w->err.remedy, cases[k].remedy))
            fail_msg("case %zu: class %d, code %d: %s (%s)", k, w->err.class, w->err.code,
                     w->err.msg, w->err.remedy);
        wait_until(&w->script.puts, 1);      /* one try, however many wait for it */
        assert_int_equal(w->script.gets, 0); /* and never a question without a token */
        tear_down(&fresh);
    }
}

static struct nc_imds_batch_call mac_within(uint64_t timeout_usec, struct nc_imds_answer *answers) {
    return (struct nc_imds_batch_call){
        .items = 1u << NC_IMDS_MAC, .timeout_usec = timeout_usec, .answers = answers};
}

static void test_nobody_there(void **state) {
    nc_auto_free char *endpoint = nc_asprintf("http://127.0.0.1:%u", loopback_closed_port());
    struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX] = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_imds *imds;
    sd_event *event;
    (void)state;

    assert_true(sd_event_new(&event) >= 0);
    assert_int_equal(nc_imds_new(event, endpoint, &imds, &err), 0);
    assert_true(nc_imds_fetch(imds, mac_within(SECOND, answers), &err) < 0);
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    assert_non_null(strstr(err.msg, "connection refused by 127.0.0.1:"));
    assert_non_null(strstr(err.remedy, "AWS_EC2_METADATA_SERVICE_ENDPOINT"));
    nc_imds_free(imds);
    assert_int_equal(
        nc_imds_new(
            event,
            "http://"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid",
            &imds, &err),
        0);
    assert_true(nc_imds_fetch(imds, mac_within(PATIENCE, answers), &err) < 0);
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    assert_non_null(strstr(err.remedy, "should be an address"));
    nc_imds_free(imds);
    sd_event_unref(event);
}

/* --- what goes wrong with an answer */

static void test_answer_failures(void **state) {
    static const struct {
        enum fault fault;
        int status;
        const char *body;
        enum nc_err_class class;
        const char *msg, *remedy;
    } cases[] = {
        {FAULT_STATUS, 403, PAGE, NC_ERR_CONFIG, "HTTP 403: instance metadata is disabled",
         "HttpEndpoint"},
        {FAULT_STATUS, 500, PAGE, NC_ERR_TRANSIENT, "HTTP 500", ""},
        {FAULT_STATUS, 400, PAGE, NC_ERR_PROTOCOL, "HTTP 400", ""},
        {FAULT_STATUS, 301, "", NC_ERR_PROTOCOL, "HTTP 301", ""},
        {FAULT_STATUS, 204, NULL, NC_ERR_PROTOCOL, "HTTP 204", ""},
        {FAULT_BODY, 0, " \r\n<!DOCTYPE html><p>sign in", NC_ERR_PROTOCOL,
         "a page of HTML instead of a value", "redirection"},
        {FAULT_BODY, 0,
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         NC_ERR_PROTOCOL, "larger than 64 bytes", ""},
        {FAULT_SILENT, 0, NULL, NC_ERR_TRANSIENT, "no answer from", ""},
        {FAULT_EMPTY, 0, NULL, NC_ERR_TRANSIENT, "without an answer", ""},
        {FAULT_NOISE, 0, NULL, NC_ERR_PROTOCOL, "does not speak HTTP", "something other than"},
        {FAULT_PARTIAL, 0, NULL, NC_ERR_TRANSIENT, "in mid-answer", ""},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        void *fresh = NULL;
        set_up(&fresh);
        struct world *w = fresh;
        w->script.get = cases[k].fault;
        w->script.get_status = cases[k].status;
        w->script.get_body = cases[k].body;
        w->script.get_path = "/latest/meta-data/local-ipv4";
        const uint64_t patience = cases[k].fault == FAULT_SILENT ? 2 * SECOND : PATIENCE;
        const int r = fetch_within(w, ALL_ROUND_1, NULL, patience);
        if (r >= 0 || w->err.class != cases[k].class || !strstr(w->err.msg, cases[k].msg)
            || strncmp(w->err.msg, "imds: /latest/meta-data/local-ipv4: ", 36) != 0
            || !strstr(w->err.remedy, cases[k].remedy))
            fail_msg("case %zu: class %d, code %d: %s (%s)", k, w->err.class, w->err.code,
                     w->err.msg, w->err.remedy);
        assert_int_equal(w->answers[NC_IMDS_LOCAL_IPV4].status, 0);
        /* The others are kept: a retry asks only for what is missing. */
        assert_string_equal(w->answers[NC_IMDS_MAC].body.data, "0a:1b:2c:3d:4e:5f");
        w->script.get = FAULT_NONE;
        const unsigned before = w->script.gets;
        assert_int_equal(fetch(w, 1u << NC_IMDS_LOCAL_IPV4, NULL), 0);
        assert_int_equal(w->script.gets, before + 1);
        assert_int_equal(w->script.puts, 1);
        assert_string_equal(w->answers[NC_IMDS_MAC].body.data, "0a:1b:2c:3d:4e:5f");
        tear_down(&fresh);
    }
}

/* Of several failures the one that a person must act on is reported. */
static void test_worst_failure(void **state) {
    struct world *w = *state;
    const char *args[_NC_IMDS_ITEM_MAX] = {0};

    w->script.get = FAULT_STATUS;
    w->script.get_status = 503;
    args[NC_IMDS_CREDENTIALS] = "../../user-data";
    assert_true(fetch(w, 1u << NC_IMDS_MAC | 1u << NC_IMDS_CREDENTIALS, args) < 0);
    assert_int_equal(w->err.class, NC_ERR_PROTOCOL);
    assert_non_null(strstr(w->err.msg, "'../../user-data' cannot be part of the path"));
    assert_int_equal(w->answers[NC_IMDS_MAC].err.class, NC_ERR_TRANSIENT);
    assert_true(fetch(w, 1u << NC_IMDS_IPV6S, NULL) < 0);
    assert_int_equal(w->err.class, NC_ERR_BUG);
    args[NC_IMDS_IPV6S] = "";
    assert_true(fetch(w, 1u << NC_IMDS_IPV6S, args) < 0);
    assert_int_equal(w->err.class, NC_ERR_PROTOCOL);
}

/* --- the token's life */

static void test_a_401_refreshes_once(void **state) {
    struct world *w = *state;
    struct nc_imds_stats stats;

    assert_int_equal(fetch(w, 1u << NC_IMDS_MAC, NULL), 0);
    w->script.refuse_below = 2; /* the service forgot its tokens */
    if (fetch(w, ALL_ROUND_1, NULL) < 0)
        fail_msg("%s", w->err.msg);
    assert_int_equal(w->script.puts, 2);
    assert_true(w->script.unauthorized >= 1);
    assert_string_equal(w->answers[NC_IMDS_MAC].body.data, "0a:1b:2c:3d:4e:5f");
    nc_imds_get_stats(w->imds, &stats);
    assert_int_equal(stats.tokens, 2);
    assert_int_equal(stats.failures, w->script.unauthorized);
}

/* A 401 that speaks of the token before the present one requests no third; and a question that is
 * in flight when a token is replaced is not asked twice. */
static void test_a_late_401_uses_the_new_token(void **state) {
    struct world *w = *state;

    assert_int_equal(fetch(w, 1u << NC_IMDS_MAC, NULL), 0);
    w->script.refuse_below = 2;
    w->script.late_path = "/latest/meta-data/local-ipv4";
    if (fetch(w, 1u << NC_IMDS_MAC | 1u << NC_IMDS_LOCAL_IPV4, NULL) < 0)
        fail_msg("%s", w->err.msg);
    assert_int_equal(w->script.puts, 2);
    assert_int_equal(w->script.unauthorized, 2);
    assert_int_equal(w->script.gets, 5);
}

static void test_a_second_401_is_an_error(void **state) {
    struct world *w = *state;

    w->script.refuse_below = 1000000;
    assert_true(fetch(w, ALL_ROUND_1, NULL) < 0);
    assert_int_equal(w->err.class, NC_ERR_AUTH);
    assert_int_equal(w->err.code, 401);
    assert_non_null(strstr(w->err.msg, "HTTP 401 with a fresh token"));
    assert_null(strstr(w->err.msg, "TOKEN"));
    assert_true(w->script.gets <= 22);
    assert_true(w->script.puts <= 2);
}

struct asked {
    struct world *w;
    unsigned done, failed, limit;
    int status;
    struct nc_err err;
};

static void on_pod_answer(void *userdata, const struct nc_imds_answer *answer) {
    struct asked *a = userdata;

    a->done++;
    a->failed += answer->status == 0;
    a->status = answer->status;
    a->err = answer->err;
}

static void turn_until(struct world *w, const unsigned *number, unsigned wanted) {
    for (int k = 0; k < 5000 && *number < wanted; k++)
        assert_true(sd_event_run(w->event, 1000) >= 0);
    assert_int_equal(*number, wanted);
}

static void ask(struct world *w, const char *path, nc_imds_done_fn done, struct asked *a) {
    const struct nc_imds_call call = {
        .path = path, .max_bytes = 64, .timeout_usec = PATIENCE, .done = done, .userdata = a};

    if (nc_imds_get(w->imds, &call, &w->err) < 0)
        fail_msg("%s", w->err.msg);
}

/* A token of one second is renewed after half of it; the old one serves on where the renewal fails.
 */
static void test_renewal_at_half_life(void **state) {
    struct world *w = *state;
    struct asked a = {0};
    unsigned n = 0;

    w->script.put_headers = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 1\r\n";
    while (w->script.puts < 2 && n < 100000) {
        ask(w, "/latest/meta-data/mac", on_pod_answer, &a);
        turn_until(w, &a.done, ++n);
        (void)sd_event_run(w->event, 2000);
    }
    assert_int_equal(w->script.puts, 2);
    assert_true(n > 10);
    assert_int_equal(a.failed, 0);
    w->script.put = FAULT_STATUS;
    w->script.put_status = 500;
    while (w->script.puts < 3 && n < 200000) {
        ask(w, "/latest/meta-data/mac", on_pod_answer, &a);
        turn_until(w, &a.done, ++n);
        (void)sd_event_run(w->event, 2000);
    }
    assert_int_equal(w->script.puts, 3);
    assert_int_equal(a.failed, 0);
    assert_int_equal(w->script.unauthorized, 0);
}

/* --- the daemon's way */

static void test_get(void **state) {
    static const char *const no_paths[] = {"latest", "/a b", "/a?b", NULL};
    struct world *w = *state;
    struct asked a = {0};
    struct nc_imds_call call = {
        .max_bytes = 64, .timeout_usec = PATIENCE, .done = on_pod_answer, .userdata = &a};

    ask(w, "/latest/meta-data/mac", on_pod_answer, &a);
    ask(w, "/latest/user-data", on_pod_answer, &a);
    turn_until(w, &a.done, 2);
    assert_int_equal(a.failed, 0);
    ask(w, "/latest/user-data", on_pod_answer, &a);
    turn_until(w, &a.done, 3);
    assert_int_equal(a.status, 404);
    for (size_t k = 0; k < NC_ARRAY_SIZE(no_paths); k++) {
        call.path = no_paths[k];
        assert_true(nc_imds_get(w->imds, &call, &w->err) < 0);
    }
    assert_int_equal(w->err.class, NC_ERR_BUG);
    call.path = "/mac";
    call.max_bytes = 0; /* no cap */
    assert_true(nc_imds_get(w->imds, &call, &w->err) < 0);
    assert_int_equal(a.done, 3);
}

static void poll_until(struct world *w, struct asked *a, uint64_t timeout_usec, unsigned n) {
    const struct nc_imds_call call = {.path = "/latest/user-data",
                                      .max_bytes = 64,
                                      .timeout_usec = timeout_usec,
                                      .is_poll = true,
                                      .done = on_pod_answer,
                                      .userdata = a};

    if (nc_imds_get(w->imds, &call, &w->err) < 0)
        fail_msg("%s", w->err.msg);
    turn_until(w, &a->done, n);
}

/* Twice as patient after each time-out, and with who answers late; of what was asked side by side
 * one counts. */
static void test_pace(void **state) {
    struct world *w = *state;
    struct asked a = {0};
    struct nc_imds *fresh = NULL;
    const struct nc_imds_call silent = {.path = "/latest/meta-data/mac",
                                        .max_bytes = 64,
                                        .timeout_usec = SECOND / 5,
                                        .done = on_pod_answer,
                                        .userdata = &a};

    assert_int_equal(nc_imds_timeout(w->imds, SECOND), SECOND);
    ask(w, "/latest/meta-data/mac", on_pod_answer, &a); /* the token is there from now on */
    turn_until(w, &a.done, 1);
    assert_int_equal(nc_imds_new(w->event, NULL, &fresh, NULL), 0);
    nc_imds_set_pace(w->imds, fresh); /* however long that took */
    nc_imds_free(fresh);
    w->script.get = FAULT_SILENT;
    atomic_store(&w->script.faults_left, 3);
    for (unsigned k = 0; k < 2; k++)
        assert_int_equal(nc_imds_get(w->imds, &silent, &w->err), 0);
    turn_until(w, &a.done, 3);
    assert_int_equal(a.failed, 2);
    assert_int_equal(nc_imds_timeout(w->imds, SECOND), 2 * SECOND);
    poll_until(w, &a, SECOND / 5, 4);
    assert_int_equal(nc_imds_timeout(w->imds, SECOND), 4 * SECOND);
    assert_int_equal(nc_imds_timeout(w->imds, 3 * SECOND), 8 * SECOND);
    assert_int_equal(nc_imds_timeout(w->imds, 9 * SECOND), 9 * SECOND);
    wait_until(&w->script.faults_left, 0); /* none is left for what comes now */
    ask(w, "/latest/meta-data/mac", on_pod_answer, &a);
    turn_until(w, &a.done, 5);
    assert_int_equal(nc_imds_timeout(w->imds, 5 * SECOND), 5 * SECOND);
}

/* A poll is set up once and keeps its connection; a new token after a 401, another connection after
 * one that broke, another time limit when it is told one. */
static void test_poll(void **state) {
    struct world *w = *state;
    struct asked a = {0};

    for (unsigned n = 1; n <= 3; n++)
        poll_until(w, &a, PATIENCE, n);
    assert_int_equal(a.status, 404);
    assert_int_equal(loopback_connections(w->server), 1);
    w->script.refuse_below = 2;
    poll_until(w, &a, PATIENCE, 4);
    assert_int_equal(a.failed, 0);
    assert_int_equal(w->script.unauthorized, 1);
    w->script.get = FAULT_STATUS;
    w->script.get_status = 503;
    w->script.faults_left = 1;
    poll_until(w, &a, PATIENCE, 5);
    assert_int_equal(a.failed, 1);
    poll_until(w, &a, PATIENCE, 6); /* and nothing of that is left */
    assert_int_equal(a.failed, 1);
    assert_int_equal(a.status, 404);
    assert_int_equal(loopback_connections(w->server), 1);
    w->script.get = FAULT_PARTIAL;
    w->script.faults_left = 1;
    poll_until(w, &a, PATIENCE, 7);
    assert_int_equal(a.failed, 2);
    w->script.get = FAULT_SILENT;
    w->script.faults_left = 1;
    poll_until(w, &a, SECOND / 5, 8);
    assert_int_equal(a.failed, 3);
    assert_int_equal(a.err.code, -ETIMEDOUT);
    assert_non_null(strstr(a.err.msg, "within 200ms"));
    wait_until(&w->script.faults_left, 0);
    poll_until(w, &a, PATIENCE, 9);
    assert_int_equal(a.failed, 3);
    assert_int_equal(a.status, 404);
}

static void free_imds(void *userdata, const struct nc_imds_answer *answer) {
    struct asked *a = userdata;

    (void)answer;
    a->done++;
    a->w->imds = nc_imds_free(a->w->imds);
}

/* The handle is freed by the first of many callbacks: after an answer, and in the middle of failing
 * those that waited. */
static void test_free_in_callback(void **state) {
    static const enum fault faults[] = {FAULT_NONE, FAULT_EMPTY};
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(faults); k++) {
        void *fresh = NULL;
        set_up(&fresh);
        struct world *w = fresh;
        struct asked a = {.w = w};
        w->script.put = faults[k];
        for (int n = 0; n < 5; n++)
            ask(w, "/latest/meta-data/mac", free_imds, &a);
        turn_until(w, &a.done, 1);
        for (int n = 0; n < 10; n++)
            (void)sd_event_run(w->event, 1000);
        assert_int_equal(a.done, 1);
        tear_down(&fresh);
    }
}

static void ask_again(void *userdata, const struct nc_imds_answer *answer) {
    struct asked *a = userdata;

    (void)answer;
    if (++a->done < a->limit)
        ask(a->w, "/latest/meta-data/mac", ask_again, a);
}

/* Who asks again in the callback of a failure waits for a new token, and is not failed with the old
 * one's error. */
static void test_request_in_callback(void **state) {
    struct world *w = *state;
    struct asked a = {.w = w, .limit = 4};

    w->script.put = FAULT_STATUS;
    w->script.put_status = 503;
    ask(w, "/latest/meta-data/mac", ask_again, &a);
    turn_until(w, &a.done, 4);
    assert_int_equal(w->script.puts, 4);
}

static int ask_to_exit(sd_event_source *source, uint64_t usec, void *userdata) {
    (void)usec;
    (void)userdata;
    return sd_event_exit(sd_event_source_get_event(source), 0);
}

static void test_fetch_is_interrupted(void **state) {
    struct world *w = *state;

    w->script.get = FAULT_SILENT;
    w->script.get_path = "/latest/meta-data/mac";
    assert_true(
        sd_event_add_time_relative(w->event, NULL, CLOCK_MONOTONIC, 50000, 1000, ask_to_exit, NULL)
        >= 0);
    assert_int_equal(fetch(w, ALL_ROUND_1, NULL), -EINTR);
    assert_non_null(strstr(w->err.msg, "imds: interrupted"));
}

static void never_told(void *userdata, const struct nc_err *err) {
    (void)userdata;
    fail_msg("told: %s", err->msg);
}

/* What was cancelled is not told, and what another asks meanwhile is. */
static void test_batch_cancelled(void **state) {
    struct world *w = *state;
    struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX] = {0};
    const struct nc_imds_batch_call call = {
        .items = ALL_ROUND_1, .timeout_usec = SECOND, .answers = answers, .done = never_told};
    struct nc_imds_batch *batch = NULL;
    struct asked a = {0};

    assert_int_equal(nc_imds_batch_start(w->imds, &call, &batch, NULL), 0);
    ask(w, "/latest/meta-data/mac", on_pod_answer, &a);
    assert_null(nc_imds_batch_cancel(batch));
    turn_until(w, &a.done, 1);
    assert_int_equal(a.failed, 0);
    for (size_t k = 0; k < _NC_IMDS_ITEM_MAX; k++)
        nc_imds_answer_done(&answers[k]);
}

/* --- clocks */

static void http_date(uint64_t usec, char *to, size_t size) {
    const time_t t = (time_t)(usec / 1000000);
    struct tm tm;

    gmtime_r(&t, &tm);
    assert_true(strftime(to, size, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm) > 0);
}

static void test_skew(void **state) {
    static const struct {
        int64_t ahead_sec, low_sec, high_sec;
    } cases[] = {{3600, 3598, 3601}, {-3600, -3602, -3599}, {0, 0, 0}};
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        void *fresh = NULL;
        char date[64];
        struct timespec now;
        struct nc_imds_stats stats;
        set_up(&fresh);
        struct world *w = fresh;
        nc_imds_get_stats(w->imds, &stats);
        assert_false(stats.has_skew);
        clock_gettime(CLOCK_REALTIME, &now);
        http_date((uint64_t)((int64_t)now.tv_sec + cases[k].ahead_sec) * SECOND, date,
                  sizeof(date));
        w->script.put_headers = date;
        assert_int_equal(fetch(w, 1u << NC_IMDS_MAC, NULL), 0);
        nc_imds_get_stats(w->imds, &stats);
        assert_true(stats.has_skew);
        if (stats.skew_usec < cases[k].low_sec * 1000000
            || stats.skew_usec > cases[k].high_sec * 1000000)
            fail_msg("case %zu: %lld us", k, (long long)stats.skew_usec);
        assert_in_range(stats.boot_usec + nc_boot_usec(),
                        nc_now_usec() + (uint64_t)stats.skew_usec - SECOND,
                        nc_now_usec() + (uint64_t)stats.skew_usec + SECOND);
        tear_down(&fresh);
    }
}

static void test_endpoints(void **state) {
    static const struct {
        const char *given, *kept;
    } cases[] = {
        {NULL, NC_IMDS_ENDPOINT},
        {NC_IMDS_ENDPOINT_IPV6, NC_IMDS_ENDPOINT_IPV6},
        {"http://127.0.0.1:1338/", "http://127.0.0.1:1338"},
        {"HTTP://imds-mock:80", "HTTP://imds-mock:80"},
        {"http://[::1]:8080", "http://[::1]:8080"},
        {"https://169.254.169.254", NULL},
        {"169.254.169.254", NULL},
        {"http://", NULL},
        {"http:///", NULL},
        {"http://host/latest", NULL},
        {"http://user@host", NULL},
        {"http://host:0", NULL},
        {"http://host:65536", NULL},
        {"http://host:", NULL},
        {"http://host:8x", NULL},
        {"http://[::1", NULL},
        {"http://ho st", NULL},
        {"http://host?x", NULL},
        {"http://::1", NULL},
    };
    sd_event *event;
    (void)state;

    assert_true(sd_event_new(&event) >= 0);
    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_imds *imds = NULL;
        struct nc_err err = NC_ERR_INIT;
        const int r = nc_imds_new(event, cases[k].given, &imds, &err);
        if ((r == 0) != (cases[k].kept != NULL)
            || (r == 0 && !nc_streq(nc_imds_endpoint(imds), cases[k].kept)))
            fail_msg("case %zu: %d %s", k, r, err.msg);
        if (r < 0) {
            assert_int_equal(err.class, NC_ERR_CONFIG);
            assert_non_null(strstr(err.remedy, "http://[fd00:ec2::254]"));
        }
        assert_null(nc_imds_free(imds));
    }
    nc_imds_answer_done(NULL);
    sd_event_unref(event);
}

#define FRESH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        FRESH(test_two_rounds),
        FRESH(test_no_proxy),
        cmocka_unit_test(test_token_failures),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_answer_failures),
        FRESH(test_worst_failure),
        FRESH(test_a_401_refreshes_once),
        FRESH(test_a_late_401_uses_the_new_token),
        FRESH(test_a_second_401_is_an_error),
        FRESH(test_renewal_at_half_life),
        FRESH(test_get),
        FRESH(test_pace),
        FRESH(test_poll),
        cmocka_unit_test(test_free_in_callback),
        FRESH(test_request_in_callback),
        FRESH(test_fetch_is_interrupted),
        FRESH(test_batch_cancelled),
        cmocka_unit_test(test_skew),
        cmocka_unit_test(test_endpoints),
    };

    return run_group(tests, NULL, NULL);
}
