/*
 * What the two files of the loopback server share.
 */
#ifndef LOOPBACK_PRIV_H
#define LOOPBACK_PRIV_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "loopback.h"

struct loopback {
    int fd, stop_fd;
    unsigned port;
    char *url;
    loopback_fn fn;
    void *userdata;
    struct loopback_server_tls *tls;
    pthread_t thread;
    struct loopback_conn **conns; /* of the listener's thread, until that has ended */
    size_t n_conns;
    atomic_uint requests, accepted, open;
};

struct loopback_server_tls {
    SSL_CTX *ctx;
    bool http2, early;
};

struct loopback_conn {
    struct loopback *l;
    int fd;
    unsigned number;
    pthread_t thread;
    SSL *ssl;
    bool http2;
    uint32_t stream; /* being answered */
};

size_t loopback_read(struct loopback_conn *c, char *to, size_t n);
bool loopback_serve(struct loopback_conn *c, struct loopback_request *r);

struct loopback_server_tls *loopback_tls_new(const struct loopback_tls *tls);
void loopback_tls_free(struct loopback_server_tls *t);
bool loopback_tls_accept(struct loopback_conn *c);
size_t loopback_tls_read(struct loopback_conn *c, char *to, size_t n);
bool loopback_tls_write(struct loopback_conn *c, const char *data, size_t n);
void loopback_tls_end(struct loopback_conn *c);
void loopback_http2_serve(struct loopback_conn *c);
bool loopback_http2_answer(struct loopback_conn *c, int status, const char *body);

#endif
