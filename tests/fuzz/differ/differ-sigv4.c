/*
 * Signatures for the comparison with botocore.
 *
 * The fields: method, host, path, query, headers, body, region, service, time in microseconds, life
 * in seconds, key id, secret and session token joined by a NUL (the last one may be missing). Query
 * and headers are names and values, each ended by a NUL.
 */
#include "differ.h"
#include "nc/sigv4.h"
#include "nc/str.h"

#define MAX_STRINGS 40

/* "name\0value\0" -> {"name", "value", NULL} */
static void texts_of(const struct differ_field *f, const char *ret[static MAX_STRINGS]) {
    size_t n = 0;

    for (size_t at = 0; at < f->n && n + 1 < MAX_STRINGS; at += strlen(f->text + at) + 1)
        ret[n++] = f->text + at;
    ret[n] = NULL;
}

static uint64_t number_of(const struct differ_field *f) {
    uint64_t v = 0;

    if (nc_parse_u64(f->text, &v) < 0)
        abort();
    return v;
}

struct question {
    const char *query[MAX_STRINGS], *headers[MAX_STRINGS], *keys[MAX_STRINGS];
    struct nc_sigv4_request request;
    struct nc_credentials credentials;
};

static void question_of(const struct differ_field *f, struct question *q) {
    texts_of(&f[3], q->query);
    texts_of(&f[4], q->headers);
    texts_of(&f[11], q->keys);
    q->request = (struct nc_sigv4_request){
        .method = f[0].text,
        .host = f[1].text,
        .path = f[2].text,
        .query = q->query,
        .headers = q->headers,
        .body = f[5].text,
        .body_n = f[5].n,
        .region = f[6].text,
        .service = f[7].text,
        .time_usec = number_of(&f[8]),
        .expires_sec = number_of(&f[9]),
    };
    q->credentials = (struct nc_credentials){.access_key_id = f[10].text,
                                             .secret_access_key = (char *)q->keys[0],
                                             .session_token = (char *)q->keys[1]};
}

void differ_presign(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf url = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    struct question q = {0};

    question_of(f, &q);
    if (nc_sigv4_presign(&q.request, &q.credentials, &url, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is ");
    differ_put_hex(out, url.data, url.len);
}

void differ_headers(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(nc_strv_done) struct nc_strv headers = NC_STRV_INIT;
    struct nc_err err = NC_ERR_INIT;
    struct question q = {0};

    question_of(f, &q);
    if (nc_sigv4_headers(&q.request, &q.credentials, &headers, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is");
    for (size_t i = 0; i < headers.n; i++) {
        (void)nc_buf_putc(out, ' ');
        differ_put_hex(out, headers.v[i], strlen(headers.v[i]));
    }
}
