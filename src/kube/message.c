/*
 * One request as bytes: URL, headers and body, built once; the credential is added anew for each
 * sending.
 */
#include <errno.h>
#include <string.h>

#include "nc/mem.h"

#include "wire.h"

#define DEFAULT_MAX_BYTES ((size_t)4 << 20)
#define MAX_BODY_BYTES                                                                             \
    ((size_t)1 << 20) /* an API server refuses 3 MiB; nothing that a node says comes near */

static const char *content_type(enum nc_kube_patch patch) {
    switch (patch) {
    case NC_KUBE_PATCH_MERGE:
        return "application/merge-patch+json";
    case NC_KUBE_PATCH_STRATEGIC:
        return "application/strategic-merge-patch+json";
    case NC_KUBE_PATCH_NONE:
        break;
    }
    return "application/json";
}

int nc_kube_message_init(struct nc_kube *k, const struct nc_kube_call *c,
                         struct nc_kube_message *ret, struct nc_err *err) {
    struct nc_kube_message m = {.kube = k,
                                .body = NC_BUF_INIT_MAX(MAX_BODY_BYTES),
                                .has_body = c->body != NULL,
                                .keep = c->keep,
                                .drops_answer = c->drops_answer};
    const int r = k->role->guard(c, err);

    if (r < 0)
        return r;
    if (c->body)
        nc_json_write(&m.body, c->body, 0);
    m.what = nc_strdup(c->what);
    m.name = nc_asprintf("kube: %s", c->what);
    m.method = nc_strdup(c->method);
    m.url = nc_asprintf("%s%s", k->server, c->path);
    nc_strv_addf(&m.headers, "Accept: %s", c->accept ? c->accept : "application/json");
    nc_strv_addf(&m.headers, "User-Agent: %s", k->user_agent);
    if (c->body)
        nc_strv_addf(&m.headers, "Content-Type: %s", content_type(c->patch));
    m.timeout_usec = c->timeout_usec;
    m.max_bytes = c->max_bytes ? c->max_bytes : DEFAULT_MAX_BYTES;
    *ret = m;
    return 0;
}

void nc_kube_message_done(struct nc_kube_message *m) {
    free(m->what);
    free(m->name);
    free(m->method);
    free(m->url);
    nc_strv_done(&m->headers);
    nc_buf_done(&m->body);
    memset(m, 0, sizeof(*m));
}

/* A token goes into a header line: anything but the visible characters of one would be a second
 * header, or nonsense. */
static int add_token(const char *token, struct nc_strv *headers, struct nc_err *err) {
    size_t n = 0;

    for (; token[n]; n++)
        if (token[n] <= ' ' || token[n] > '~')
            return nc_err_set(err, NC_ERR_AUTH, EINVAL,
                              "the credential's token has a byte that no token has, at offset %zu",
                              n);
    if (n == 0)
        return nc_err_set(err, NC_ERR_AUTH, EINVAL, "the credential's token is empty");
    nc_strv_addf(headers, "Authorization: Bearer %s", token);
    return 0;
}

static int add_credential(struct nc_kube *k, bool refuse, struct nc_strv *headers,
                          struct nc_err *err) {
    nc_cleanup(nc_secret_freep) char *token = NULL;
    int r;

    if (!k->token)
        return 0;
    r = k->token(k->userdata, refuse, &token, err);
    if (r < 0)
        return r;
    return add_token(token ? token : "", headers, err);
}

int nc_kube_message_options(const struct nc_kube_message *m, bool refuse,
                            struct nc_strv *ret_headers, struct nc_http_options *ret,
                            struct nc_err *err) {
    struct nc_strv headers = NC_STRV_INIT;
    int r;

    for (size_t i = 0; i < m->headers.n; i++)
        nc_strv_add(&headers, m->headers.v[i]);
    r = add_credential(m->kube, refuse, &headers, err);
    if (r < 0) {
        nc_err_wrap(err, "%s: token", m->what);
        nc_kube_headers_done(&headers);
        return r;
    }
    *ret_headers = headers;
    *ret = (struct nc_http_options){
        .name = m->name,
        .method = m->method,
        .url = m->url,
        .headers = (const char *const *)ret_headers->v,
        .body = m->has_body ? m->body.data : NULL,
        .body_n = m->body.len,
        .tls = &m->kube->tls,
        .timeout_usec = m->timeout_usec,
        .max_body_bytes = m->max_bytes,
    };
    return 0;
}

void nc_kube_headers_done(struct nc_strv *headers) {
    for (size_t i = 0; i < headers->n; i++)
        explicit_bzero(headers->v[i], strlen(headers->v[i]));
    nc_strv_done(headers);
}
