/*
 * Role, credentials, region, signature: one step after the other, each begun by the answer of the
 * one before it. A step whose outcome is there already is not made.
 */
#include "nc/role.h"

#include <errno.h>

#include "nc/clock.h"
#include "nc/mem.h"
#include "nc/sigv4.h"

#define TIMEOUT_USEC 1000000u
#define CREDENTIALS_MARGIN_USEC (5ull * 60 * 1000000)

struct nc_node_token {
    struct nc_imds *imds;
    struct nc_node_token_call call;
    struct nc_token_audience audience;
    struct nc_facts facts; /* what IMDS has said: role, region, domain */
    struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX];
    struct nc_imds_batch *batch;
    enum step { STEP_ROLE = 1, STEP_CREDENTIALS, STEP_REGION, STEP_SIGN } step;
    bool is_fetched; /* the credentials are IMDS' latest, whenever they end */
};

static void free_token(struct nc_node_token *t) {
    t->batch = nc_imds_batch_cancel(t->batch);
    for (size_t k = 0; k < NC_ARRAY_SIZE(t->answers); k++)
        nc_imds_answer_done(&t->answers[k]);
    nc_facts_done(&t->facts);
    free(t->audience.cluster);
    free(t->audience.region);
    free(t->audience.sts_endpoint);
    free(t);
}

struct nc_node_token *nc_node_token_cancel(struct nc_node_token *t) {
    if (t)
        free_token(t);
    return NULL;
}

static void finish(struct nc_node_token *t, char *token, uint64_t until_usec,
                   const struct nc_err *err) {
    const struct nc_node_token_call call = t->call;

    free_token(t);
    call.done(call.userdata, token, until_usec, err);
}

static bool has_credentials(const struct nc_credentials *c) {
    return c->access_key_id
           && (c->expiration_usec == 0
               || nc_now_usec() + CREDENTIALS_MARGIN_USEC < c->expiration_usec);
}

/* The next step that has anything to ask. */
static enum step next_step(const struct nc_node_token *t) {
    if (!t->is_fetched && !has_credentials(t->call.credentials))
        return t->facts.role ? STEP_CREDENTIALS : STEP_ROLE;
    return t->audience.cluster && !t->audience.region && !t->facts.region ? STEP_REGION : STEP_SIGN;
}

static void on_answers(void *userdata, const struct nc_err *err);

static int start_step(struct nc_node_token *t, struct nc_err *err) {
    static const unsigned items[] = {[STEP_ROLE] = 1u << NC_IMDS_ROLE,
                                     [STEP_CREDENTIALS] = 1u << NC_IMDS_CREDENTIALS,
                                     [STEP_REGION] = 1u << NC_IMDS_IDENTITY | 1u << NC_IMDS_DOMAIN};
    const char *args[_NC_IMDS_ITEM_MAX] = {[NC_IMDS_CREDENTIALS] = t->facts.role};
    const struct nc_imds_batch_call call = {.items = items[t->step],
                                            .args = args,
                                            .timeout_usec = nc_imds_timeout(t->imds, TIMEOUT_USEC),
                                            .answers = t->answers,
                                            .done = on_answers,
                                            .userdata = t};

    return nc_imds_batch_start(t->imds, &call, &t->batch, err);
}

/* --- what came */

static int refuse_role(struct nc_err *err) {
    const int r = nc_err_set(
        err, NC_ERR_TRANSIENT, 404,
        "imds: no role credentials (HTTP 404): the instance has no role, or it is not there yet");

    nc_err_remedy(err, "attach an instance profile with the node role to the instance");
    return r;
}

static int read_fact(struct nc_node_token *t, enum nc_imds_item item, struct nc_err *err) {
    const struct nc_buf *body = &t->answers[item].body;

    return t->answers[item].status == 200
               ? nc_facts_parse_imds(&t->facts, item, body->data, body->len, err)
               : 0;
}

static int read_answers(struct nc_node_token *t, struct nc_err *err) {
    const struct nc_buf *keys = &t->answers[NC_IMDS_CREDENTIALS].body;
    int r = 0;

    switch (t->step) {
    case STEP_ROLE:
        r = read_fact(t, NC_IMDS_ROLE, err);
        return r < 0 || t->facts.role ? r : refuse_role(err);
    case STEP_CREDENTIALS:
        if (t->answers[NC_IMDS_CREDENTIALS].status != 200)
            return refuse_role(err);
        t->is_fetched = true;
        nc_credentials_done(t->call.credentials);
        r = nc_credentials_parse(keys->data, keys->len, t->call.credentials, err);
        t->call.credentials->role = nc_steal(&t->facts.role);
        return r;
    case STEP_REGION:
        r = read_fact(t, NC_IMDS_IDENTITY, err);
        if (r >= 0)
            r = read_fact(t, NC_IMDS_DOMAIN, err);
        return r < 0 || t->facts.region
                   ? r
                   : nc_err_set(err, NC_ERR_PROTOCOL, ENOENT,
                                "imds: the identity document has no region: use "
                                "--region");
    case STEP_SIGN:
        break;
    }
    return 0;
}

/* --- the token */

/* "https://HOST/…" -> "HOST"; owned. */
static char *host_of(const char *url) {
    const char *host = strstr(url, "://");

    host = host ? host + 3 : url;
    return nc_strndup(host, strcspn(host, "/"));
}

static void sign(struct nc_node_token *t) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf token = NC_BUF_INIT;
    const struct nc_token_audience *a = &t->audience;
    nc_auto_free char *host = NULL;
    struct nc_eks_token_request q = {.cluster = a->cluster,
                                     .region = a->region ? a->region : t->facts.region,
                                     .time_usec = nc_now_usec()};
    struct nc_err err = NC_ERR_INIT;

    if (!a->cluster) {
        finish(t, NULL, 0, &err);
        return;
    }
    host =
        a->sts_endpoint ? host_of(a->sts_endpoint) : nc_aws_host("sts", q.region, t->facts.domain);
    if (!host)
        (void)nc_err_config(&err, "no region is named that");
    q.sts_host = host;
    if (host)
        (void)nc_eks_token(t->call.credentials, &q, &token, &err);
    finish(t, err.class == NC_ERR_NONE ? nc_buf_steal(&token) : NULL,
           q.time_usec + NC_EKS_TOKEN_LIFE_USEC, &err);
}

/* False where t is gone. */
static bool go_on(struct nc_node_token *t) {
    struct nc_err err = NC_ERR_INIT;

    t->step = next_step(t);
    if (t->step == STEP_SIGN)
        sign(t);
    else if (start_step(t, &err) < 0)
        finish(t, NULL, 0, &err);
    else
        return true;
    return false;
}

static void on_answers(void *userdata, const struct nc_err *err) {
    struct nc_node_token *t = userdata;
    struct nc_err own = *err;

    t->batch = NULL;
    if (own.class == NC_ERR_NONE)
        (void)read_answers(t, &own);
    if (own.class == NC_ERR_NONE)
        (void)go_on(t);
    else
        finish(t, NULL, 0, &own);
}

int nc_node_token_start(struct nc_imds *imds, const struct nc_node_token_call *call,
                        struct nc_node_token **ret, struct nc_err *err) {
    struct nc_node_token *t;

    *ret = NULL;
    if (!imds)
        return nc_err_set(err, NC_ERR_CONFIG, ENOTSUP,
                          "role credentials are needed, and recorded facts hold none");
    t = nc_calloc(1, sizeof(*t));
    t->imds = imds;
    t->call = *call;
    if (call->audience)
        t->audience = (struct nc_token_audience){nc_strdup(call->audience->cluster),
                                                 nc_strdup(call->audience->region),
                                                 nc_strdup(call->audience->sts_endpoint)};
    if (go_on(t))
        *ret = t;
    return 0;
}

/* --- waited for */

struct made {
    char *token;
    uint64_t until_usec;
    struct nc_err err;
    bool is_done;
};

static void on_made(void *userdata, char *token, uint64_t until_usec, const struct nc_err *err) {
    *(struct made *)userdata = (struct made){token, until_usec, *err, true};
}

int nc_node_token_make(struct nc_imds *imds, const struct nc_node_token_call *call,
                       char **ret_token, uint64_t *ret_until_usec, struct nc_err *err) {
    struct nc_node_token_call own = *call;
    struct nc_node_token *t = NULL;
    struct made made = {0};
    int r;

    own.done = on_made;
    own.userdata = &made;
    r = nc_node_token_start(imds, &own, &t, err);
    if (r >= 0 && !made.is_done)
        r = nc_imds_wait(imds, &made.is_done, err);
    if (r < 0) {
        if (!made.is_done)
            nc_node_token_cancel(t);
        nc_secret_free(made.token);
        return r;
    }
    if (made.token) {
        *ret_token = made.token;
        *ret_until_usec = made.until_usec;
    }
    return nc_err_give(&made.err, err);
}
