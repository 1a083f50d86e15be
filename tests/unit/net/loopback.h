/*
 * A server on loopback inside the test process: one thread a connection, the test says what is
 * answered.
 *
 * Ports come from bind(0). It serves plain HTTP/1.1, or TLS with HTTP/1.1 or HTTP/2, chosen at the
 * start.
 */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>

struct loopback;
struct loopback_conn;

struct loopback_request {
    char method[16];
    char path[1024];
    const char *head; /* request line and headers, NUL-terminated; "" under HTTP/2 */
    const char *body; /* NUL-terminated */
    size_t body_n;
    unsigned number;     /* of all requests of this server, from 0 */
    unsigned connection; /* from 0 */
};

/* Called in a thread of the server. Returns false to close the connection. */
typedef bool (*loopback_fn)(void *userdata, struct loopback_conn *c,
                            const struct loopback_request *request);

struct loopback_tls {
    const char *cert_pem, *key_pem;
    const char
        *client_ca_pem; /* a client certificate of this CA is demanded; NULL = none is requested */
    int max_version;    /* 0 = any */
    bool http2;
    bool early; /* HTTP/2: each request is answered at its headers; no byte of a body is let in */
};

/* NULL tls: plain. Aborts the test where it cannot start. */
struct loopback *loopback_start(const struct loopback_tls *tls, loopback_fn fn, void *userdata);
void loopback_stop(struct loopback *l);
const char *loopback_url(const struct loopback *l); /* "http://127.0.0.1:PORT" */
unsigned loopback_port(const struct loopback *l);
unsigned loopback_requests(struct loopback *l);
unsigned loopback_connections(struct loopback *l); /* accepted so far */
unsigned loopback_open(struct loopback *l);        /* open now */

/* What a handler may do. */
bool loopback_send(struct loopback_conn *c, const char *data, size_t n);
bool loopback_puts(struct loopback_conn *c, const char *text);
bool loopback_answer(struct loopback_conn *c, int status, const char *headers, const char *body);
/* HTTP/2: the stream that is being answered; and parts of answers, of any stream, that leave in one
 * write. */
#define LOOPBACK_NO_LENGTH ((size_t)-1)
unsigned loopback_stream(const struct loopback_conn *c);
struct loopback_part {
    unsigned stream;
    int status; /* of a head, whose n is the length that it says; 0: data */
    const char *data;
    size_t n;
    bool is_end;
};
bool loopback_parts(struct loopback_conn *c, const struct loopback_part *parts, size_t n);
void loopback_hang(struct loopback_conn *c);  /* until the client or the test goes away */
void loopback_reset(struct loopback_conn *c); /* the close that follows sends a RST */

/* Waits until a number that another thread makes has been reached; false after five seconds. */
bool loopback_wait(unsigned (*number)(struct loopback *), struct loopback *l, unsigned wanted);

/* A port on which nothing listens. */
unsigned loopback_closed_port(void);
/* A port whose queue is full: a connection to it is neither made nor refused. The caller closes the
 * three descriptors. */
unsigned loopback_full_port(int fds[static 3]);

/* A certificate for a name or an address, made for the test; issuer NULL: self-signed CA. PEM texts
 * are owned by the caller. */
struct loopback_identity {
    char *cert_pem, *key_pem;
};
struct loopback_identity loopback_identity_new(const char *name,
                                               const struct loopback_identity *issuer);
void loopback_identity_done(struct loopback_identity *i);

#endif
