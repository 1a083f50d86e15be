/*
 * EC2's Query API, as far as a node asks it: two questions about itself, signed with its role.
 *
 * Knows the request's form. What an answer says is read by ec2-read.c. Nothing here retries.
 */
#include "nc/ec2.h"

#include <errno.h>

#include "ec2-priv.h"
#include "nc/sigv4.h"
#include "nc/str.h"

#define API_VERSION "2016-11-15"
#define MAX_ANSWER_BYTES ((size_t)1 << 20)

static void wipe_headers(struct nc_strv *headers) {
    for (size_t k = 0; k < headers->n; k++)
        explicit_bzero(headers->v[k], strlen(headers->v[k]));
    nc_strv_done(headers);
}

/* "https://HOST[:PORT][/]" without the slash; the host is what is behind "://". */
static char *base_of(const char *endpoint) {
    const char *host = endpoint ? strstr(endpoint, "://") : NULL;

    if (!host || strcspn(host + 3, "/?#") == 0)
        return NULL;
    return nc_strndup(endpoint, (size_t)(host + 3 - endpoint) + strcspn(host + 3, "/?#"));
}

static int ask(const struct nc_ec2 *e, const char *action, const char *body,
               struct nc_http_answer *ret, struct nc_err *err) {
    static const char *const form[] = {"content-type",
                                       "application/x-www-form-urlencoded; charset=utf-8", NULL};
    nc_auto_free char *base = base_of(e->endpoint);
    nc_auto_free char *name = nc_asprintf("ec2: %s", action);
    nc_auto_free char *url = nc_asprintf("%s/", base ? base : "");
    const char *host = base ? strstr(base, "://") + 3 : NULL;
    nc_cleanup(wipe_headers) struct nc_strv headers = NC_STRV_INIT;
    const struct nc_sigv4_request request = {.method = "POST",
                                             .host = host,
                                             .path = "/",
                                             .headers = form,
                                             .body = body,
                                             .body_n = strlen(body),
                                             .region = e->region,
                                             .service = "ec2",
                                             .time_usec = e->time_usec};
    struct nc_http_options options = {.name = name,
                                      .method = "POST",
                                      .url = url,
                                      .body = body,
                                      .body_n = strlen(body),
                                      .timeout_usec = e->timeout_usec,
                                      .max_body_bytes = MAX_ANSWER_BYTES};
    int r;

    if (!host)
        return nc_err_set(err, NC_ERR_CONFIG, EINVAL,
                          "ec2: the endpoint is no URL: write https://HOST");
    if (!e->credentials || !e->credentials->access_key_id || !e->credentials->secret_access_key)
        return nc_err_set(err, NC_ERR_AUTH, EACCES, "ec2: %s: no credentials", action);
    r = nc_sigv4_headers(&request, e->credentials, &headers, err);
    if (r < 0)
        return r;
    nc_strv_addf(&headers, "Content-Type: %s", form[1]);
    options.headers = (const char *const *)headers.v;
    r = nc_http_perform(e->http, &options, ret, err);
    if (r < 0)
        return r;
    if (ret->result.outcome != NC_HTTP_ANSWERED)
        r = nc_http_error(&ret->result, name, err);
    else if (ret->result.status != 200)
        r = nc_ec2_refused(&ret->result, action, err);
    return r;
}

/* Only what cannot change the form around it. */
static bool is_plain(const char *s) {
    if (!s || !*s || strlen(s) >= 64)
        return false;
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9')
              || *s == '-' || *s == '.'))
            return false;
    return true;
}

int nc_ec2_private_dns_name(const struct nc_ec2 *e, const char *instance_id, char **ret,
                            struct nc_err *err) {
    static const char action[] = "DescribeInstances";
    nc_cleanup(nc_http_answer_done) struct nc_http_answer answer = {0};
    nc_auto_free char *body = NULL;
    int r;

    if (!is_plain(instance_id))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "ec2: %s: not an instance id", action);
    body = nc_asprintf("Action=%s&InstanceId.1=%s&Version=" API_VERSION, action, instance_id);
    r = ask(e, action, body, &answer, err);
    if (r < 0)
        return r;
    r = nc_ec2_read_instance(answer.result.body, answer.result.n, instance_id, ret, err);
    if (r < 0)
        nc_err_wrap(err, "ec2: %s", action);
    return r;
}

int nc_ec2_instance_type(const struct nc_ec2 *e, const char *type, struct nc_instance_type *ret,
                         struct nc_err *err) {
    static const char action[] = "DescribeInstanceTypes";
    nc_cleanup(nc_http_answer_done) struct nc_http_answer answer = {0};
    nc_auto_free char *body = NULL;
    int r;

    if (!is_plain(type))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "ec2: %s: not an instance type", action);
    body = nc_asprintf("Action=%s&InstanceType.1=%s&Version=" API_VERSION, action, type);
    r = ask(e, action, body, &answer, err);
    if (r < 0)
        return r;
    r = nc_ec2_read_type(answer.result.body, answer.result.n, type, ret, err);
    if (r < 0)
        nc_err_wrap(err, "ec2: %s", action);
    return r;
}
