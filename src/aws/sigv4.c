/*
 * Signature Version 4 in three stages: canonical request, string to sign, signature. Pure but for
 * libcrypto.
 *
 * Knows the encoding and ordering rules of the signature's specification; the order in which a
 * caller names query parameters or headers does not change a signature. Derived keys are wiped; a
 * message never quotes a credential.
 */
#include "nc/sigv4.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <time.h>

#include "nc/encode.h"
#include "nc/mem.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define MAX_PAIRS 64
#define HASH_BYTES 32

struct pair {
    char *name, *value;
};

struct pairs {
    struct pair v[MAX_PAIRS];
    size_t n;
};

static void pairs_done(struct pairs *p) {
    for (size_t k = 0; k < p->n; k++) {
        nc_secret_free(p->v[k].name);
        nc_secret_free(p->v[k].value);
    }
    p->n = 0;
}

/* Percent-encodes all but the unreserved characters and those in `more`. */
static char *encode_but(const char *s, const char *more) {
    struct nc_buf b = NC_BUF_INIT;

    nc_url_escape(&b, s, more);
    return nc_buf_steal(&b);
}

static char *encode(const char *s) {
    return encode_but(s, "");
}

/* White space at the ends goes, runs of it become one space. */
static char *squeeze(const char *s) {
    struct nc_buf b = NC_BUF_INIT;

    for (; *s; s++) {
        if (*s != ' ' && *s != '\t')
            (void)nc_buf_putc(&b, *s);
        else if (b.len > 0 && b.data[b.len - 1] != ' ')
            (void)nc_buf_putc(&b, ' ');
    }
    if (b.len > 0 && b.data[b.len - 1] == ' ')
        b.data[--b.len] = '\0';
    return nc_buf_steal(&b);
}

static int add(struct pairs *p, char *name, char *value, struct nc_err *err) {
    if (p->n == MAX_PAIRS) {
        nc_secret_free(name);
        nc_secret_free(value);
        return nc_err_set(err, NC_ERR_BUG, E2BIG, "signature: more than %d parameters", MAX_PAIRS);
    }
    p->v[p->n++] = (struct pair){name, value};
    return 0;
}

static int compare(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    const int r = strcmp(x->name, y->name);

    return r ? r : strcmp(x->value, y->value);
}

static void sort(struct pairs *p) {
    qsort(p->v, p->n, sizeof(p->v[0]), compare);
}

static void format_time(uint64_t usec, char ret[static 17]) {
    const time_t t = (time_t)(usec / 1000000);
    struct tm tm;

    if (!gmtime_r(&t, &tm) || strftime(ret, 17, "%Y%m%dT%H%M%SZ", &tm) != 16)
        memcpy(ret, "00000000T000000Z", 17);
}

/* "20240101/us-west-2/sts/aws4_request" */
static char *scope_of(const struct nc_sigv4_request *r) {
    char when[17];

    format_time(r->time_usec, when);
    return nc_asprintf("%.8s/%s/%s/aws4_request", when, r->region, r->service);
}

/* host, what the caller signs, and in the header form the date and the session token; sorted by
 * name. */
static int collect_headers(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                           int presign, struct pairs *p, struct nc_err *err) {
    char when[17];
    int k = add(p, nc_strdup("host"), squeeze(r->host), err);

    for (const char *const *h = r->headers; k == 0 && h && h[0] && h[1]; h += 2)
        k = add(p, nc_strdup(h[0]), squeeze(h[1]), err);
    format_time(r->time_usec, when);
    if (k == 0 && !presign)
        k = add(p, nc_strdup("x-amz-date"), nc_strdup(when), err);
    if (k == 0 && !presign && c->session_token)
        k = add(p, nc_strdup("x-amz-security-token"), nc_strdup(c->session_token), err);
    sort(p);
    return k;
}

static char *signed_names(const struct pairs *headers) {
    struct nc_buf b = NC_BUF_INIT;

    for (size_t k = 0; k < headers->n; k++)
        (void)nc_buf_printf(&b, "%s%s", k ? ";" : "", headers->v[k].name);
    return nc_buf_steal(&b);
}

static int collect_own_query(const struct nc_sigv4_request *r, struct pairs *p,
                             struct nc_err *err) {
    int k = 0;

    for (const char *const *q = r->query; k == 0 && q && q[0] && q[1]; q += 2)
        k = add(p, encode(q[0]), encode(q[1]), err);
    return k;
}

/* What a presigned URL carries besides, in the order in which it is written. */
static int collect_auth_query(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                              const char *names, struct pairs *p, struct nc_err *err) {
    nc_auto_free char *scope = scope_of(r);
    nc_auto_free char *credential = nc_asprintf("%s/%s", c->access_key_id, scope);
    char when[17], expires[24];
    const char *const own[] = {"X-Amz-Algorithm",
                               ALGORITHM,
                               "X-Amz-Credential",
                               credential,
                               "X-Amz-Date",
                               when,
                               "X-Amz-Expires",
                               expires,
                               "X-Amz-SignedHeaders",
                               names,
                               c->session_token ? "X-Amz-Security-Token" : NULL,
                               c->session_token,
                               NULL};
    int k = 0;

    format_time(r->time_usec, when);
    snprintf(expires, sizeof(expires), "%llu", (unsigned long long)r->expires_sec);
    for (const char *const *q = own; k == 0 && q[0]; q += 2)
        k = add(p, encode(q[0]), encode(q[1]), err);
    return k;
}

static void write_query(struct nc_buf *out, const struct pairs *p) {
    for (size_t k = 0; k < p->n; k++)
        (void)nc_buf_printf(out, "%s%s=%s", k ? "&" : "", p->v[k].name, p->v[k].value);
}

static int crypto_failed(struct nc_err *err) {
    return nc_err_set(err, NC_ERR_HOST, EIO, "signature: libcrypto does not give SHA-256");
}

/* The algorithm is looked up once a process: a look-up costs more than a hash. */
static EVP_MD *sha256(void) {
    static EVP_MD *md;

    return md ? md : (md = EVP_MD_fetch(NULL, "SHA256", NULL));
}

static EVP_MAC *hmac(void) {
    static EVP_MAC *mac;

    return mac ? mac : (mac = EVP_MAC_fetch(NULL, "HMAC", NULL));
}

static void to_hex(const unsigned char hash[static HASH_BYTES], char ret[static 65]) {
    for (size_t k = 0; k < HASH_BYTES; k++)
        snprintf(ret + 2 * k, 3, "%02x", hash[k]);
}

static int hash_hex(const void *data, size_t n, char ret[static 65], struct nc_err *err) {
    unsigned char hash[EVP_MAX_MD_SIZE];

    if (!sha256() || EVP_Digest(data, n, hash, NULL, sha256(), NULL) != 1)
        return crypto_failed(err);
    to_hex(hash, ret);
    return 0;
}

static bool hmac_once(const void *key, size_t key_n, const char *data, size_t n,
                      unsigned char ret[static HASH_BYTES]) {
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                 OSSL_PARAM_construct_end()};
    EVP_MAC_CTX *ctx = hmac() ? EVP_MAC_CTX_new(hmac()) : NULL;
    size_t written = 0;
    const bool ok = ctx && EVP_MAC_init(ctx, key, key_n, params) == 1
                    && EVP_MAC_update(ctx, (const unsigned char *)data, n) == 1
                    && EVP_MAC_final(ctx, ret, &written, HASH_BYTES) == 1 && written == HASH_BYTES;

    EVP_MAC_CTX_free(ctx);
    return ok;
}

int nc_sigv4_canonical_request(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                               int presign, struct nc_buf *out, struct nc_err *err) {
    nc_cleanup(pairs_done) struct pairs headers = {.n = 0};
    nc_cleanup(pairs_done) struct pairs query = {.n = 0};
    nc_auto_free char *path = encode_but(r->path, "/");
    nc_auto_free char *names = NULL;
    char body_hash[65];
    int k = collect_headers(r, c, presign, &headers, err);

    if (k < 0)
        return k;
    names = signed_names(&headers);
    k = collect_own_query(r, &query, err);
    if (k == 0 && presign)
        k = collect_auth_query(r, c, names, &query, err);
    if (k == 0)
        k = hash_hex(r->body ? r->body : "", r->body ? r->body_n : 0, body_hash, err);
    if (k < 0)
        return k;
    sort(&query);
    (void)nc_buf_printf(out, "%s\n%s\n", r->method, path);
    write_query(out, &query);
    (void)nc_buf_putc(out, '\n');
    for (size_t h = 0; h < headers.n; h++)
        (void)nc_buf_printf(out, "%s:%s\n", headers.v[h].name, headers.v[h].value);
    (void)nc_buf_printf(out, "\n%s\n%s", names, body_hash);
    return 0;
}

int nc_sigv4_string_to_sign(const struct nc_sigv4_request *r, const char *canonical, size_t n,
                            struct nc_buf *out, struct nc_err *err) {
    nc_auto_free char *scope = scope_of(r);
    char when[17], hash[65];
    const int k = hash_hex(canonical, n, hash, err);

    if (k < 0)
        return k;
    format_time(r->time_usec, when);
    return nc_buf_printf(out, ALGORITHM "\n%s\n%s\n%s", when, scope, hash);
}

int nc_sigv4_signature(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                       const struct nc_buf *to_sign, char ret[static 65], struct nc_err *err) {
    nc_cleanup(nc_secret_freep) char *secret = nc_asprintf("AWS4%s", c->secret_access_key);
    unsigned char key[2][HASH_BYTES];
    char when[17];
    bool ok;

    format_time(r->time_usec, when);
    ok = hmac_once(secret, strlen(secret), when, 8, key[0])
         && hmac_once(key[0], HASH_BYTES, r->region, strlen(r->region), key[1])
         && hmac_once(key[1], HASH_BYTES, r->service, strlen(r->service), key[0])
         && hmac_once(key[0], HASH_BYTES, "aws4_request", strlen("aws4_request"), key[1])
         && hmac_once(key[1], HASH_BYTES, to_sign->data, to_sign->len, key[0]);
    if (ok)
        to_hex(key[0], ret);
    explicit_bzero(key, sizeof(key));
    return ok ? 0 : crypto_failed(err);
}

/* All three stages. */
static int sign(const struct nc_sigv4_request *r, const struct nc_credentials *c, int presign,
                char ret[static 65], struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf canonical = NC_BUF_INIT;
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT;
    int k = nc_sigv4_canonical_request(r, c, presign, &canonical, err);

    if (k == 0)
        k = nc_sigv4_string_to_sign(r, canonical.data, canonical.len, &text, err);
    if (k == 0)
        k = nc_sigv4_signature(r, c, &text, ret, err);
    return k;
}

int nc_sigv4_presign(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                     struct nc_buf *out, struct nc_err *err) {
    nc_cleanup(pairs_done) struct pairs headers = {.n = 0};
    nc_cleanup(pairs_done) struct pairs query = {.n = 0};
    nc_auto_free char *names = NULL;
    char signature[65];
    int k = collect_headers(r, c, 1, &headers, err);

    if (k == 0)
        names = signed_names(&headers);
    if (k == 0)
        k = collect_own_query(r, &query, err);
    if (k == 0)
        k = collect_auth_query(r, c, names, &query, err);
    if (k == 0)
        k = sign(r, c, 1, signature, err);
    if (k < 0)
        return k;
    (void)nc_buf_printf(out, "https://%s%s?", r->host, r->path);
    write_query(out, &query);
    k = nc_buf_printf(out, "&X-Amz-Signature=%s", signature);
    explicit_bzero(signature, sizeof(signature));
    return k;
}

int nc_sigv4_headers(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                     struct nc_strv *ret, struct nc_err *err) {
    nc_cleanup(pairs_done) struct pairs headers = {.n = 0};
    nc_auto_free char *names = NULL;
    nc_auto_free char *scope = scope_of(r);
    char signature[65], when[17];
    int k = collect_headers(r, c, 0, &headers, err);

    if (k == 0)
        k = sign(r, c, 0, signature, err);
    if (k < 0)
        return k;
    names = signed_names(&headers);
    format_time(r->time_usec, when);
    nc_strv_addf(ret,
                 "Authorization: " ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s",
                 c->access_key_id, scope, names, signature);
    nc_strv_addf(ret, "X-Amz-Date: %s", when);
    if (c->session_token)
        nc_strv_addf(ret, "X-Amz-Security-Token: %s", c->session_token);
    explicit_bzero(signature, sizeof(signature));
    return 0;
}
