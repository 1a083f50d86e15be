/*
 * IMDSv2 over the event loop: one token for everybody, then questions side by side.
 *
 * Knows how a token is got, renewed at half its life and replaced after a 401 (once a question).
 * Nothing is asked without a token, through a proxy, or of another host than the endpoint. What an
 * answer is worth is imds-check.c's business.
 */
#include "imds-priv.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "nc/clock.h"
#include "nc/str.h"

#define TOKEN_PATH "/latest/api/token"
#define TOKEN_TTL_SEC 21600ull /* the most that IMDS gives */
#define TOKEN_MAX_BYTES 1024
/* A renewal that fails is tried again so much later, as long as the old token lives. */
#define RENEW_RETRY_USEC (60ull * 1000000)
/* Side by side: as many as a bootstrap has questions, so that they cost one round trip. Fewer are
 * kept alive. */
#define MAX_CONNECTIONS 12
/* Nobody waits longer for one answer, however slow the service is. */
#define SLOWEST_USEC 8000000u

struct imds_get {
    struct nc_imds *i;
    struct imds_get *next;
    char *path;
    size_t max;
    uint64_t timeout_usec;
    nc_imds_done_fn done;
    void *userdata;
    struct nc_http_req *request;
    unsigned generation;
    bool is_poll; /* its request is kept for the next time */
    bool waiting; /* for a token */
    bool due;     /* the token request that it waited for has ended */
    bool retried; /* had its 401 */
};

static void free_get(struct imds_get *g) {
    nc_http_cancel(g->request);
    free(g->path);
    free(g);
}

static void unlink_get(struct imds_get *g) {
    struct imds_get **at = &g->i->gets;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
}

void nc_imds_forget(struct nc_imds *i, const void *userdata) {
    struct imds_get *g = i->gets;

    while (g && g->userdata != userdata)
        g = g->next;
    if (!g)
        return;
    unlink_get(g);
    free_get(g);
}

/* The Date header has whole seconds: each answer narrows where the difference of the clocks can be.
 */
static void note_skew(struct nc_imds *i, const struct nc_http_result *result) {
    const int64_t low = (int64_t)result->date_usec - (int64_t)result->received_usec;
    const int64_t high = low + 1000000;

    if (result->date_usec == 0)
        return;
    if (!i->stats.has_skew || low > i->skew_max_usec
        || high < i->skew_min_usec) { /* the first, or a clock was set */
        i->skew_min_usec = low;
        i->skew_max_usec = high;
    } else {
        i->skew_min_usec = low > i->skew_min_usec ? low : i->skew_min_usec;
        i->skew_max_usec = high < i->skew_max_usec ? high : i->skew_max_usec;
    }
    i->stats.has_skew = true;
    i->stats.skew_usec = i->skew_min_usec <= 0 && i->skew_max_usec >= 0
                             ? 0
                             : i->skew_min_usec + (i->skew_max_usec - i->skew_min_usec) / 2;
    i->stats.boot_usec = (uint64_t)((int64_t)nc_now_usec() + i->stats.skew_usec) - nc_boot_usec();
}

/* What was sent before the last time-out was counted is of the same row. */
static void note_pace(struct nc_imds *i, const struct nc_http_result *result) {
    const uint64_t now = nc_mono_usec();

    if (result->outcome == NC_HTTP_ANSWERED) {
        i->pace = (struct nc_imds_pace){.last_usec = result->duration_usec};
    } else if (result->outcome == NC_HTTP_TIMEOUT && now - result->duration_usec >= i->paced_usec) {
        i->pace.timeouts++;
        i->paced_usec = now;
    }
}

uint64_t nc_imds_timeout(const struct nc_imds *i, uint64_t usual_usec) {
    return nc_imds_timeout_after(i, usual_usec, i->pace.timeouts);
}

uint64_t nc_imds_timeout_after(const struct nc_imds *i, uint64_t usual_usec, unsigned timeouts) {
    const uint64_t most_usec = usual_usec > SLOWEST_USEC ? usual_usec : SLOWEST_USEC;
    uint64_t usec = usual_usec;

    for (unsigned k = 0; k < timeouts && usec < most_usec; k++)
        usec *= 2;
    if (usec < 2 * i->pace.last_usec)
        usec = 2 * i->pace.last_usec;
    return usec < most_usec ? usec : most_usec;
}

void nc_imds_set_pace(struct nc_imds *i, const struct nc_imds *as) {
    i->pace = as->pace;
}

static void count(struct nc_imds *i, const struct nc_http_result *result) {
    note_pace(i, result);
    i->stats.connections += result->new_connection;
    if (result->outcome != NC_HTTP_ANSWERED || (result->status != 200 && result->status != 404))
        i->stats.failures++;
    note_skew(i, result);
}

/* Tells the asker, and forgets the question. The handle may be gone afterwards. */
static void answer(struct imds_get *g, const struct nc_imds_answer *a) {
    unlink_get(g);
    if (g->is_poll) {
        g->next = g->i->polls;
        g->i->polls = g;
        g->done(g->userdata, a);
        return;
    }
    g->request = NULL;
    g->done(g->userdata, a);
    free_get(g);
}

static void on_answer(void *userdata, const struct nc_http_result *result);

static int start_request(struct imds_get *g, struct nc_err *err) {
    const struct nc_imds *i = g->i;
    nc_auto_free char *url = nc_asprintf("%s%s", i->endpoint, g->path);
    nc_auto_free char *name = nc_asprintf("imds: %s", g->path);
    const char *headers[] = {i->token_header, NULL};
    const struct nc_http_options options = {
        .name = name,
        .url = url,
        .headers = headers,
        .timeout_usec = g->timeout_usec,
        .max_body_bytes = g->max,
        .no_proxy = true,
        .secret = true,
        .is_kept = g->is_poll,
        .on_done = on_answer,
        .userdata = g,
    };

    g->generation = i->generation;
    return nc_http_start(i->http, &options, &g->request, err);
}

static int send_get(struct imds_get *g, struct nc_err *err) {
    g->i->stats.requests++;
    if (g->request && g->generation == g->i->generation)
        return nc_http_repeat(g->request, g->timeout_usec, err);
    g->request = nc_http_cancel(g->request); /* it has another token */
    return start_request(g, err);
}

static int start_token(struct nc_imds *i, uint64_t timeout_usec, struct nc_err *err);

/* After its first 401 a question goes again: with the token that came meanwhile, or after a new
 * one. */
static int retry(struct imds_get *g, struct nc_err *err) {
    struct nc_imds *i = g->i;

    g->retried = true;
    if (g->generation != i->generation && i->token_header)
        return send_get(g, err);
    nc_secret_free(i->token_header);
    i->token_header = NULL;
    g->waiting = true;
    return start_token(i, g->timeout_usec, err);
}

static void on_answer(void *userdata, const struct nc_http_result *result) {
    struct imds_get *g = userdata;
    struct nc_imds *i = g->i;
    struct nc_imds_answer a = {0};

    if (!g->is_poll)
        g->request = NULL;
    count(i, result);
    if (result->outcome == NC_HTTP_ANSWERED && result->status == 401 && !g->retried) {
        if (retry(g, &a.err) == 0)
            return;
    } else if (nc_imds_check(i, g->path, result, &a.err) == 0) {
        a.status = result->status;
        a.body.max = result->n;
        if (a.status == 200)
            (void)nc_buf_add(&a.body, result->body, result->n);
    }
    answer(g, &a);
    nc_imds_answer_done(&a);
}

/* The first question whose time has come, or NULL. Callbacks change the list, so each look starts
 * anew. */
static struct imds_get *next_due(struct nc_imds *i) {
    for (struct imds_get *g = i->gets; g; g = g->next)
        if (g->due)
            return g;
    return NULL;
}

/* Sends everything that waited for a token until now, or fails it with the token's error. */
static void flush_waiting(struct nc_imds *i, const struct nc_err *failure) {
    struct imds_get *g;

    for (g = i->gets; g; g = g->next) {
        g->due = g->waiting;
        g->waiting = false;
    }
    i->busy = true;
    while (!i->freed && (g = next_due(i))) {
        struct nc_imds_answer a = {0};
        g->due = false;
        if (failure)
            a.err = *failure;
        else if (send_get(g, &a.err) == 0)
            continue;
        answer(g, &a);
    }
    i->busy = false;
    if (i->freed)
        free(i);
}

static void apply_imds_token(struct nc_imds *i, const struct nc_http_result *result) {
    const uint64_t given = result->token_ttl_sec;
    const uint64_t life_usec =
        (given > 0 && given < TOKEN_TTL_SEC ? given : TOKEN_TTL_SEC) * 1000000;

    nc_secret_free(i->token_header);
    i->token_header = nc_asprintf("X-aws-ec2-metadata-token: %s", result->body);
    i->generation++;
    i->renew_usec = nc_boot_usec() + life_usec / 2;
    i->expire_usec = nc_boot_usec() + life_usec;
}

static void on_token(void *userdata, const struct nc_http_result *result) {
    struct nc_imds *i = userdata;
    struct nc_err err = NC_ERR_INIT;

    i->token_request = NULL;
    count(i, result);
    if (nc_imds_check_token(i, result, &err) == 0) {
        apply_imds_token(i, result);
    } else if (i->token_header && nc_boot_usec() < i->expire_usec) {
        i->renew_usec = nc_boot_usec() + RENEW_RETRY_USEC;
        err = (struct nc_err)NC_ERR_INIT;
    }
    flush_waiting(i, err.class == NC_ERR_NONE ? NULL : &err);
}

static int start_token(struct nc_imds *i, uint64_t timeout_usec, struct nc_err *err) {
    static const char *const headers[] = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL};
    nc_auto_free char *url = nc_asprintf("%s" TOKEN_PATH, i->endpoint);
    const struct nc_http_options options = {
        .name = "imds: PUT " TOKEN_PATH,
        .method = "PUT",
        .url = url,
        .headers = headers,
        .timeout_usec = timeout_usec,
        .max_body_bytes = TOKEN_MAX_BYTES,
        .no_proxy = true,
        .secret = true,
        .on_done = on_token,
        .userdata = i,
    };

    if (i->token_request)
        return 0;
    i->stats.requests++;
    i->stats.tokens++;
    return nc_http_start(i->http, &options, &i->token_request, err);
}

static bool is_path(const char *path) {
    return path && path[0] == '/' && strlen(path) < 1024 && nc_is_visible(path, strlen(path))
           && !strpbrk(path, "#?\\");
}

/* One that was kept for the next time, or a new one. */
static struct imds_get *new_get(struct nc_imds *i, const struct nc_imds_call *call) {
    struct imds_get *g;

    for (struct imds_get **at = &i->polls; call->is_poll && *at; at = &(*at)->next) {
        g = *at;
        if (!nc_streq(g->path, call->path) || g->max != call->max_bytes)
            continue;
        *at = g->next;
        g->next = NULL;
        g->retried = false;
        return g;
    }
    g = nc_calloc(1, sizeof(*g));
    *g = (struct imds_get){
        .i = i, .path = nc_strdup(call->path), .max = call->max_bytes, .is_poll = call->is_poll};
    return g;
}

static int start_get(struct imds_get *g, struct nc_err *err) {
    struct nc_imds *i = g->i;
    struct imds_get **end = &i->gets;
    int r;

    while (*end)
        end = &(*end)->next;
    *end = g;
    if (i->token_header && nc_boot_usec() < i->renew_usec) {
        r = send_get(g, err);
    } else {
        g->waiting = true;
        r = start_token(i, g->timeout_usec, err);
    }
    if (r < 0) {
        unlink_get(g);
        free_get(g);
    }
    return r;
}

int nc_imds_get(struct nc_imds *i, const struct nc_imds_call *call, struct nc_err *err) {
    struct imds_get *g;

    if (!is_path(call->path))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "imds: not a path of the metadata tree");
    g = new_get(i, call);
    g->timeout_usec = call->timeout_usec;
    g->done = call->done;
    g->userdata = call->userdata;
    return start_get(g, err);
}

void nc_imds_answer_done(struct nc_imds_answer *a) {
    if (!a)
        return;
    nc_buf_done_secret(&a->body);
    *a = (struct nc_imds_answer){0};
}

void nc_imds_get_stats(const struct nc_imds *i, struct nc_imds_stats *ret) {
    *ret = i->stats;
}

const char *nc_imds_endpoint(const struct nc_imds *i) {
    return i->endpoint;
}

int nc_imds_new(sd_event *event, const char *endpoint, struct nc_imds **ret, struct nc_err *err) {
    struct nc_imds *i = nc_calloc(1, sizeof(*i));
    int r = nc_imds_check_endpoint(endpoint ? endpoint : NC_IMDS_ENDPOINT, &i->endpoint, err);

    i->event = sd_event_ref(event);
    if (r == 0)
        r = nc_http_new(event, MAX_CONNECTIONS, &i->http, err);
    if (r < 0) {
        nc_imds_free(i);
        return r;
    }
    *ret = i;
    return 0;
}

static void free_gets(struct imds_get **list) {
    while (*list) {
        struct imds_get *g = *list;
        *list = g->next;
        free_get(g);
    }
}

struct nc_imds *nc_imds_free(struct nc_imds *i) {
    if (!i)
        return NULL;
    free_gets(&i->gets);
    free_gets(&i->polls);
    i->http = nc_http_free(i->http);
    i->event = sd_event_unref(i->event);
    nc_secret_free(i->token_header);
    free(i->endpoint);
    i->token_header = i->endpoint = NULL;
    i->freed = true;
    if (!i->busy)
        free(i);
    return NULL;
}
