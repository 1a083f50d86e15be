/*
 * Where credentials come from, one source after the other; the first that is there is the one that
 * is meant: where it fails, no other is tried, as AWS' own programs do.
 */
#include "nc/role.h"

#include <errno.h>
#include <time.h>

#include "nc/clock.h"
#include "nc/encode.h"
#include "nc/file.h"
#include "nc/sigv4.h"
#include "nc/str.h"

#define MARGIN_USEC (5ull * 60 * 1000000)
#define AGAIN_USEC (60ull * 1000000)
#define TIMEOUT_USEC 10000000u
#define IMDS_USEC 2000000u
#define MAX_TOKEN ((size_t)32 << 10)
#define MAX_ANSWER ((size_t)64 << 10)
#define ROLE_PATH "/latest/meta-data/iam/security-credentials/"

struct nc_role {
    sd_event *event;
    struct nc_http *http;
    struct nc_credentials fixed; /* of the environment */
    char *token_file, *arn, *session, *uri, *uri_token_file, *sts, *imds_endpoint;
    struct nc_imds *imds;
    struct nc_credentials current;
    uint64_t fetched_usec; /* by the clock that nobody sets */

    nc_role_fn done;
    void *userdata;
    bool is_busy;
    struct nc_http_req *req;
};

static char *given(const char *s) {
    return s && *s ? nc_strdup(s) : NULL;
}

int nc_role_new(sd_event *event, struct nc_http *http, const struct nc_role_options *o,
                struct nc_role **ret, struct nc_err *err) {
    struct nc_role *r;

    if (o->container_uri && *o->container_uri && !nc_role_is_container_uri(o->container_uri))
        return nc_err_config(
            err, "invalid AWS_CONTAINER_CREDENTIALS_FULL_URI: use https, or http on this machine");
    r = nc_calloc(1, sizeof(*r));
    *r = (struct nc_role){.event = event,
                          .http = http,
                          .fixed = {.access_key_id = given(o->access_key_id),
                                    .secret_access_key = given(o->secret_access_key),
                                    .session_token = given(o->session_token)},
                          .token_file = given(o->web_identity_token_file),
                          .arn = given(o->role_arn),
                          .session = given(o->session_name),
                          .uri = given(o->container_uri),
                          .uri_token_file = given(o->container_token_file),
                          .sts = given(o->sts_endpoint),
                          .imds_endpoint = given(o->imds)};
    *ret = r;
    return 0;
}

struct nc_role *nc_role_free(struct nc_role *r) {
    if (!r)
        return NULL;
    r->req = nc_http_cancel(r->req);
    nc_imds_free(r->imds);
    nc_credentials_done(&r->fixed);
    nc_credentials_done(&r->current);
    free(r->token_file);
    free(r->arn);
    free(r->session);
    free(r->uri);
    free(r->uri_token_file);
    free(r->sts);
    free(r->imds_endpoint);
    free(r);
    return NULL;
}

/* Nobody has newer ones, whatever is reported of their end: where IAM is unavailable, IMDS goes on
 * giving out keys that have ended, and AWS goes on taking them. */
static bool was_just_fetched(const struct nc_role *r) {
    return nc_mono_usec() - r->fetched_usec < AGAIN_USEC;
}

const struct nc_credentials *nc_role_current(const struct nc_role *r, uint64_t now_usec) {
    const struct nc_credentials *c = &r->current;

    if (r->fixed.access_key_id && r->fixed.secret_access_key)
        return &r->fixed;
    if (!c->access_key_id
        || ((c->expiration_usec && now_usec + MARGIN_USEC >= c->expiration_usec)
            && !was_just_fetched(r)))
        return NULL;
    return c;
}

static void finish(struct nc_role *r, struct nc_credentials *c, const struct nc_err *err) {
    const struct nc_err none = NC_ERR_INIT;

    r->is_busy = false;
    if (c) {
        nc_credentials_done(&r->current);
        r->current = *c;
        r->fetched_usec = nc_mono_usec();
    }
    r->done(r->userdata, err ? err : &none);
}

/* --- over HTTP: STS, the container's endpoint */

static void on_sts(void *userdata, const struct nc_http_result *result) {
    struct nc_role *r = userdata;
    struct nc_credentials c = {0};
    struct nc_err err = NC_ERR_INIT;
    int code;

    r->req = NULL;
    code = result->outcome == NC_HTTP_ANSWERED ? nc_role_read_sts(result, &c, &err)
                                               : nc_http_error(result, "sts", &err);
    finish(r, code < 0 ? NULL : &c, code < 0 ? &err : NULL);
}

static void on_container(void *userdata, const struct nc_http_result *result) {
    struct nc_role *r = userdata;
    struct nc_credentials c = {0};
    struct nc_err err = NC_ERR_INIT;
    int code;

    r->req = NULL;
    code = result->outcome == NC_HTTP_ANSWERED && result->status == 200
               ? nc_credentials_parse_container(result->body, result->n, &c, &err)
               : nc_http_error(result, "container credentials", &err);
    finish(r, code < 0 ? NULL : &c, code < 0 ? &err : NULL);
}

/* Read anew each time: it is replaced long before it ends. */
static int read_token(const char *path, struct nc_buf *ret, struct nc_err *err) {
    const int r = nc_file_read(path, MAX_TOKEN, ret, err);

    if (r < 0)
        return r;
    if (!ret->data || !*nc_trim(ret->data))
        return nc_err_set(err, NC_ERR_HOST, ENODATA, "%s is empty", path);
    return 0;
}

static int request_web_identity(struct nc_role *r, const char *region, struct nc_err *err) {
    static const char *const headers[] = {
        "Content-Type: application/x-www-form-urlencoded; charset=utf-8", "Accept: text/xml", NULL};
    nc_cleanup(nc_buf_done_secret) struct nc_buf token = NC_BUF_INIT;
    nc_cleanup(nc_buf_done_secret) struct nc_buf body = NC_BUF_INIT;
    nc_auto_free char *host = r->sts ? NULL : nc_aws_host("sts", region, NULL);
    nc_auto_free char *url = r->sts ? nc_strdup(r->sts) : nc_asprintf("https://%s/", host);
    struct nc_http_options o = {.name = "sts: AssumeRoleWithWebIdentity",
                                .method = "POST",
                                .url = url,
                                .headers = headers,
                                .timeout_usec = TIMEOUT_USEC,
                                .max_body_bytes = MAX_ANSWER,
                                .secret = true,
                                .on_done = on_sts,
                                .userdata = r};
    int code = read_token(r->token_file, &token, err);

    if (code >= 0 && !r->arn)
        code = nc_err_config(err, "AWS_WEB_IDENTITY_TOKEN_FILE is set, AWS_ROLE_ARN is not");
    if (code >= 0 && !r->sts && !host)
        code = nc_err_config(err, "the region of STS is not known: --region");
    if (code < 0)
        return code;
    (void)nc_buf_puts(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    nc_url_escape(&body, r->arn, "");
    (void)nc_buf_puts(&body, "&RoleSessionName=");
    nc_url_escape(&body, r->session ? r->session : "nodeclaim-controller", "");
    (void)nc_buf_puts(&body, "&WebIdentityToken=");
    nc_url_escape(&body, nc_trim(token.data), "");
    o.body = body.data;
    o.body_n = body.len;
    return nc_http_start(r->http, &o, &r->req, err);
}

static int request_container_role(struct nc_role *r, struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf token = NC_BUF_INIT;
    char *header = NULL;
    const char *headers[] = {NULL, NULL};
    struct nc_http_options o = {.name = "container credentials",
                                .url = r->uri,
                                .headers = headers,
                                .timeout_usec = TIMEOUT_USEC,
                                .max_body_bytes = MAX_ANSWER,
                                .no_proxy = true,
                                .secret = true,
                                .on_done = on_container,
                                .userdata = r};
    int code = r->uri_token_file ? read_token(r->uri_token_file, &token, err) : 0;

    if (code < 0)
        return code;
    if (token.data)
        headers[0] = header = nc_asprintf("Authorization: %s", nc_trim(token.data));
    code = nc_http_start(r->http, &o, &r->req, err);
    nc_secret_free(header);
    return code;
}

/* --- the instance's role: which one, then its credentials */

static void imds_failed(struct nc_role *r, const struct nc_imds_answer *a) {
    struct nc_err err = a->err;

    if (a->status == 404) {
        (void)nc_err_set(&err, NC_ERR_AUTH, 404, "imds: this instance has no role");
        nc_err_remedy(&err, "give the ServiceAccount a role (IRSA, Pod Identity), set "
                            "AWS_ACCESS_KEY_ID, or attach an instance profile");
    }
    finish(r, NULL, &err);
}

static void on_imds_credentials(void *userdata, const struct nc_imds_answer *a) {
    struct nc_role *r = userdata;
    struct nc_credentials c = {0};
    struct nc_err err = NC_ERR_INIT;

    if (a->status != 200)
        imds_failed(r, a);
    else if (nc_credentials_parse(a->body.data ? a->body.data : "", a->body.len, &c, &err) < 0)
        finish(r, NULL, &err);
    else
        finish(r, &c, NULL);
}

/* Letters that a role's name may have: it goes into a path. */
static bool is_role_name(const char *s) {
    return nc_is_alnum_or(s, "+=,.@_-", 64) && !nc_streq(s, "..") && !nc_streq(s, ".");
}

static void on_imds_role(void *userdata, const struct nc_imds_answer *a) {
    struct nc_role *r = userdata;
    nc_auto_free char *name = nc_strndup(a->body.data ? a->body.data : "", a->body.len);
    nc_auto_free char *path = NULL;
    struct nc_imds_call call = {.max_bytes = MAX_ANSWER,
                                .timeout_usec = IMDS_USEC,
                                .done = on_imds_credentials,
                                .userdata = r};
    struct nc_err err = NC_ERR_INIT;
    int code;

    if (a->status != 200) {
        imds_failed(r, a);
        return;
    }
    name[strcspn(name, "\r\n")] = '\0';
    call.path = path = nc_asprintf(ROLE_PATH "%s", name);
    code = is_role_name(name) ? nc_imds_get(r->imds, &call, &err)
                              : nc_err_protocol(&err, "imds: invalid role name");
    if (code < 0)
        finish(r, NULL, &err);
}

static int request_instance_role(struct nc_role *r, struct nc_err *err) {
    const struct nc_imds_call call = {.path = ROLE_PATH,
                                      .max_bytes = 256,
                                      .timeout_usec = IMDS_USEC,
                                      .done = on_imds_role,
                                      .userdata = r};
    int code = r->imds ? 0 : nc_imds_new(r->event, r->imds_endpoint, &r->imds, err);

    if (code >= 0)
        code = nc_imds_get(r->imds, &call, err);
    return code;
}

int nc_role_fetch(struct nc_role *r, const char *region, nc_role_fn done, void *userdata,
                  struct nc_err *err) {
    int code;

    if (r->is_busy)
        return nc_err_set(err, NC_ERR_BUG, EBUSY, "credentials are being fetched already");
    r->done = done;
    r->userdata = userdata;
    code = r->token_file ? request_web_identity(r, region, err)
           : r->uri      ? request_container_role(r, err)
                         : request_instance_role(r, err);
    r->is_busy = code >= 0;
    return code;
}
