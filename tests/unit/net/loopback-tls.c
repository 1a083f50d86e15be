/*
 * TLS and as much HTTP/2 as an answer needs, for the loopback server; certificates made on the
 * spot.
 *
 * The HTTP/2 side does not decode a request's headers: every request gets its turn in the order of
 * its stream, and an answer is a status from the static table and a body.
 */
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loopback-priv.h"
#include "nc/mem.h"

static void must(int ok) {
    if (ok == 1)
        return;
    ERR_print_errors_fp(stderr);
    abort();
}

static char *count_bio(BIO *b) {
    char *data;
    const long n = BIO_get_mem_data(b, &data);
    char *s = nc_strndup(data, (size_t)n);

    BIO_free(b);
    return s;
}

static EVP_PKEY *read_key(const char *pem) {
    BIO *b = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);

    BIO_free(b);
    must(key != NULL);
    return key;
}

static X509 *read_cert(const char *pem) {
    BIO *b = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(b, NULL, NULL, NULL);

    BIO_free(b);
    must(cert != NULL);
    return cert;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value) {
    X509V3_CTX ctx;
    X509_EXTENSION *e;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    must(e != NULL);
    must(X509_add_ext(cert, e, -1));
    X509_EXTENSION_free(e);
}

static X509 *make_cert(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key) {
    static long serial = 1;
    X509 *cert = X509_new();
    X509_NAME *subject = X509_get_subject_name(cert);
    const bool address = strspn(name, "0123456789.") == strlen(name);
    nc_auto_free char *san = nc_asprintf("%s:%s", address ? "IP" : "DNS", name);

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                    -1, 0));
    must(X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : subject));
    must(X509_set_pubkey(cert, key));
    add_extension(cert, issuer ? issuer : cert, NID_basic_constraints,
                  issuer ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (issuer)
        add_extension(cert, issuer, NID_subject_alt_name, san);
    must(X509_sign(cert, issuer_key ? issuer_key : key, EVP_sha256()) > 0);
    return cert;
}

struct loopback_identity loopback_identity_new(const char *name,
                                               const struct loopback_identity *issuer) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *issuer_cert = issuer ? read_cert(issuer->cert_pem) : NULL;
    EVP_PKEY *issuer_key = issuer ? read_key(issuer->key_pem) : NULL;
    X509 *cert = make_cert(name, key, issuer_cert, issuer_key);
    struct loopback_identity i = {0};
    BIO *b = BIO_new(BIO_s_mem());

    must(PEM_write_bio_X509(b, cert));
    i.cert_pem = count_bio(b);
    b = BIO_new(BIO_s_mem());
    must(PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL));
    i.key_pem = count_bio(b);
    X509_free(cert);
    X509_free(issuer_cert);
    EVP_PKEY_free(key);
    EVP_PKEY_free(issuer_key);
    return i;
}

void loopback_identity_done(struct loopback_identity *i) {
    free(i->cert_pem);
    free(i->key_pem);
    *i = (struct loopback_identity){0};
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_n,
                           const unsigned char *in, unsigned in_n, void *userdata) {
    static const unsigned char h2[] = "\x02h2", h1[] = "\x08http/1.1";
    const struct loopback_server_tls *t = userdata;

    (void)ssl;
    return SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_n, t->http2 ? h2 : h1,
                                 t->http2 ? sizeof(h2) - 1 : sizeof(h1) - 1, in, in_n)
                   == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_NOACK;
}

struct loopback_server_tls *loopback_tls_new(const struct loopback_tls *tls) {
    struct loopback_server_tls *t = nc_calloc(1, sizeof(*t));
    EVP_PKEY *key = read_key(tls->key_pem);
    X509 *cert = read_cert(tls->cert_pem);

    t->http2 = tls->http2;
    t->early = tls->early;
    t->ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_security_level(t->ctx, 0);
    must(SSL_CTX_use_certificate(t->ctx, cert));
    must(SSL_CTX_use_PrivateKey(t->ctx, key));
    if (tls->max_version) {
        SSL_CTX_set_min_proto_version(t->ctx, TLS1_VERSION);
        must((int)SSL_CTX_set_max_proto_version(t->ctx, tls->max_version));
    }
    if (tls->client_ca_pem) {
        X509 *ca = read_cert(tls->client_ca_pem);
        must(X509_STORE_add_cert(SSL_CTX_get_cert_store(t->ctx), ca));
        SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        X509_free(ca);
    }
    SSL_CTX_set_alpn_select_cb(t->ctx, choose_protocol, t);
    EVP_PKEY_free(key);
    X509_free(cert);
    return t;
}

void loopback_tls_free(struct loopback_server_tls *t) {
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

bool loopback_tls_accept(struct loopback_conn *c) {
    const unsigned char *protocol = NULL;
    unsigned n = 0;

    c->ssl = SSL_new(c->l->tls->ctx);
    SSL_set_fd(c->ssl, c->fd);
    if (SSL_accept(c->ssl) != 1)
        return false;
    SSL_get0_alpn_selected(c->ssl, &protocol, &n);
    c->http2 = n == 2 && memcmp(protocol, "h2", 2) == 0;
    return true;
}

size_t loopback_tls_read(struct loopback_conn *c, char *to, size_t n) {
    struct pollfd p[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->l->stop_fd, .events = POLLIN}};
    size_t got = 0;

    if (SSL_pending(c->ssl) == 0 && (poll(p, 2, 10000) <= 0 || p[1].revents))
        return 0;
    return SSL_read_ex(c->ssl, to, n, &got) == 1 ? got : 0;
}

bool loopback_tls_write(struct loopback_conn *c, const char *data, size_t n) {
    size_t sent;

    return n == 0 || SSL_write_ex(c->ssl, data, n, &sent) == 1;
}

void loopback_tls_end(struct loopback_conn *c) {
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    char rest[1024];

    if (!c->ssl)
        return;
    (void)SSL_shutdown(c->ssl);
    SSL_free(c->ssl);
    /* An alert must arrive: closing with bytes unread would send a reset that overtakes it. */
    (void)shutdown(c->fd, SHUT_WR);
    while (poll(&p, 1, 2000) > 0 && recv(c->fd, rest, sizeof(rest), 0) > 0)
        ;
}

enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_SETTINGS = 4, FRAME_PING = 6 };
enum { FLAG_END_STREAM = 1, FLAG_ACK = 1, FLAG_END_HEADERS = 4 };

static bool send_frame(struct loopback_conn *c, int type, int flags, uint32_t stream,
                       const char *data, size_t n) {
    const char head[9] = {(char)(n >> 16),      (char)(n >> 8),      (char)n,
                          (char)type,           (char)flags,         (char)(stream >> 24),
                          (char)(stream >> 16), (char)(stream >> 8), (char)stream};

    return loopback_send(c, head, sizeof(head)) && loopback_send(c, data, n);
}

static void add_frame(struct nc_buf *to, int type, int flags, uint32_t stream, const char *data,
                      size_t n) {
    const char head[9] = {(char)(n >> 16),      (char)(n >> 8),      (char)n,
                          (char)type,           (char)flags,         (char)(stream >> 24),
                          (char)(stream >> 16), (char)(stream >> 8), (char)stream};

    (void)nc_buf_add(to, head, sizeof(head));
    (void)nc_buf_add(to, data, n);
}

/* Literals without indexing: name 8 (":status"), a value of three characters; name 15 + 13
 * ("content-length"), for LOOPBACK_NO_LENGTH none. */
static size_t make_head(char to[static 40], int status, size_t length) {
    char number[4];
    int digits;

    snprintf(number, sizeof(number), "%03d", status);
    memcpy(to, "\x08\x03", 2);
    memcpy(to + 2, number, 3);
    if (length == LOOPBACK_NO_LENGTH)
        return 5;
    memcpy(to + 5, "\x0f\x0d", 2);
    digits = snprintf(to + 8, 32, "%zu", length);
    to[7] = (char)digits;
    return (size_t)(8 + digits);
}

bool loopback_http2_answer(struct loopback_conn *c, int status, const char *body) {
    char headers[40];
    const size_t n = make_head(headers, status, strlen(body));

    return send_frame(c, FRAME_HEADERS, FLAG_END_HEADERS, c->stream, headers, n)
           && send_frame(c, FRAME_DATA, FLAG_END_STREAM, c->stream, body, strlen(body));
}

unsigned loopback_stream(const struct loopback_conn *c) {
    return c->stream;
}

bool loopback_parts(struct loopback_conn *c, const struct loopback_part *parts, size_t n) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;

    for (size_t i = 0; i < n; i++) {
        const struct loopback_part *p = &parts[i];
        char head[40];
        if (p->status)
            add_frame(&out, FRAME_HEADERS, FLAG_END_HEADERS | (p->is_end ? FLAG_END_STREAM : 0),
                      p->stream, head, make_head(head, p->status, p->n));
        else
            add_frame(&out, FRAME_DATA, p->is_end ? FLAG_END_STREAM : 0, p->stream, p->data, p->n);
    }
    return loopback_send(c, out.data, out.len);
}

static bool read_exactly(struct loopback_conn *c, char *to, size_t n) {
    while (n > 0) {
        const size_t got = loopback_read(c, to, n);
        if (got == 0)
            return false;
        to += got;
        n -= got;
    }
    return true;
}

static bool serve_frame(struct loopback_conn *c) {
    unsigned char head[9];
    char payload[16384];
    struct loopback_request r = {.head = "", .body = ""};

    if (!read_exactly(c, (char *)head, sizeof(head)))
        return false;
    const size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    if (n > sizeof(payload) || !read_exactly(c, payload, n))
        return false;
    if (head[3] == FRAME_SETTINGS && !(head[4] & FLAG_ACK))
        return send_frame(c, FRAME_SETTINGS, FLAG_ACK, 0, "", 0);
    if (head[3] == FRAME_PING && !(head[4] & FLAG_ACK))
        return send_frame(c, FRAME_PING, FLAG_ACK, 0, payload, n);
    if (c->l->tls->early
            ? head[3] != FRAME_HEADERS
            : (head[3] != FRAME_HEADERS && head[3] != FRAME_DATA) || !(head[4] & FLAG_END_STREAM))
        return true;
    c->stream = (uint32_t)(head[5] & 0x7f) << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8
                | head[8];
    return loopback_serve(c, &r);
}

void loopback_http2_serve(struct loopback_conn *c) {
    static const char no_window[6] = {0, 0x04, 0, 0, 0, 0}; /* SETTINGS_INITIAL_WINDOW_SIZE 0 */
    char preface[24];

    if (!read_exactly(c, preface, sizeof(preface)) || memcmp(preface, "PRI * HTTP/2.0", 14) != 0)
        return;
    if (!send_frame(c, FRAME_SETTINGS, 0, 0, no_window, c->l->tls->early ? sizeof(no_window) : 0))
        return;
    while (serve_frame(c))
        ;
}
