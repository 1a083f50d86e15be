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

void nc_ec2_request_done(struct nc_ec2_request *q) {
    for (size_t k = 0; k < q->headers.n; k++)
        explicit_bzero(q->headers.v[k], strlen(q->headers.v[k]));
    nc_strv_done(&q->headers);
    free(q->name);
    free(q->url);
    free(q->body);
}

/* "https://HOST[:PORT][/]" without the slash; the host is what is behind "://". */
static char *base_of(const char *endpoint) {
    const char *host = endpoint ? strstr(endpoint, "://") : NULL;

    if (!host || strcspn(host + 3, "/?#") == 0)
        return NULL;
    return nc_strndup(endpoint, (size_t)(host + 3 - endpoint) + strcspn(host + 3, "/?#"));
}

int nc_aws_request_make(const struct nc_ec2 *e, const struct nc_aws_query *query,
                        struct nc_ec2_request *q, struct nc_err *err) {
    static const char *const form[] = {"content-type",
                                       "application/x-www-form-urlencoded; charset=utf-8", NULL};
    nc_auto_free char *base = base_of(e->endpoint);
    const char *host = base ? strstr(base, "://") + 3 : NULL;
    const struct nc_sigv4_request request = {.method = "POST",
                                             .host = host,
                                             .path = "/",
                                             .headers = form,
                                             .body = query->body,
                                             .body_n = strlen(query->body),
                                             .region = e->region,
                                             .service = query->service,
                                             .time_usec = e->time_usec};
    int r;

    *q = (struct nc_ec2_request){.name = nc_asprintf("%s: %s", query->service, query->action),
                                 .url = nc_asprintf("%s/", base ? base : ""),
                                 .body = query->body};
    if (!host)
        return nc_err_config(err, "%s: invalid endpoint: write https://HOST", query->service);
    if (!e->credentials || !e->credentials->access_key_id || !e->credentials->secret_access_key)
        return nc_err_set(err, NC_ERR_AUTH, EACCES, "%s: no credentials", q->name);
    r = nc_sigv4_headers(&request, e->credentials, &q->headers, err);
    if (r < 0)
        return r;
    nc_strv_addf(&q->headers, "Content-Type: %s", form[1]);
    q->options = (struct nc_http_options){.name = q->name,
                                          .method = "POST",
                                          .url = q->url,
                                          .headers = (const char *const *)q->headers.v,
                                          .body = query->body,
                                          .body_n = strlen(query->body),
                                          .timeout_usec = e->timeout_usec,
                                          .max_body_bytes = MAX_ANSWER_BYTES};
    return 0;
}

int nc_ec2_request_make(const struct nc_ec2 *e, const char *action, char *body,
                        struct nc_ec2_request *q, struct nc_err *err) {
    const struct nc_aws_query query = {.service = "ec2", .action = action, .body = body};

    return nc_aws_request_make(e, &query, q, err);
}

/* The body is taken over. */
static int call_ec2_api(const struct nc_ec2 *e, const char *action, char *body,
                        struct nc_http_answer *ret, struct nc_err *err) {
    nc_cleanup(nc_ec2_request_done) struct nc_ec2_request q = {0};
    int r = nc_ec2_request_make(e, action, body, &q, err);

    if (r >= 0)
        r = nc_http_perform(e->http, &q.options, ret, err);
    if (r < 0)
        return r;
    if (ret->result.outcome != NC_HTTP_ANSWERED)
        r = nc_http_error(&ret->result, q.name, err);
    else if (ret->result.status != 200)
        r = nc_ec2_refused(&ret->result, action, err);
    return r;
}

char *nc_ec2_form(const char *action, const char *key, const char *value) {
    return nc_asprintf("Action=%s&%s=%s&Version=" API_VERSION, action, key, value);
}

/* Only what cannot change the form around it. */
bool nc_ec2_is_plain(const char *s) {
    return nc_is_alnum_or(s, "-.", 63);
}

int nc_ec2_private_dns_name(const struct nc_ec2 *e, const char *instance_id, char **ret,
                            struct nc_err *err) {
    static const char action[] = "DescribeInstances";
    nc_cleanup(nc_http_answer_done) struct nc_http_answer answer = {0};
    int r;

    if (!nc_ec2_is_plain(instance_id))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "ec2: %s: not an instance id", action);
    r = call_ec2_api(e, action, nc_ec2_form(action, "InstanceId.1", instance_id), &answer, err);
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
    int r;

    if (!nc_ec2_is_plain(type))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "ec2: %s: not an instance type", action);
    r = call_ec2_api(e, action, nc_ec2_form(action, "InstanceType.1", type), &answer, err);
    if (r < 0)
        return r;
    r = nc_ec2_read_type(answer.result.body, answer.result.n, type, ret, err);
    if (r < 0)
        nc_err_wrap(err, "ec2: %s", action);
    return r;
}
