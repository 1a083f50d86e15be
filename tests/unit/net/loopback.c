/*
 * The loopback server: threads, sockets, HTTP/1.1 requests. TLS and HTTP/2 are in loopback-tls.c.
 */
#include "loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loopback-priv.h"
#include "nc/mem.h"

static void must(bool ok, const char *what) {
    if (ok)
        return;
    perror(what);
    abort();
}

static int bind_any(unsigned *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(fd >= 0 && bind(fd, (struct sockaddr *)&a, n) == 0
             && getsockname(fd, (struct sockaddr *)&a, &n) == 0,
         "bind");
    *ret_port = ntohs(a.sin_port);
    return fd;
}

unsigned loopback_closed_port(void) {
    unsigned port;

    close(bind_any(&port));
    return port;
}

unsigned loopback_full_port(int fds[static 3]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned port;

    fds[0] = bind_any(&port);
    must(listen(fds[0], 0) == 0, "listen");
    a.sin_port = htons((uint16_t)port);
    for (int k = 1; k < 3; k++) {
        fds[k] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        must(connect(fds[k], (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS,
             "connect");
    }
    return port;
}

/* Bytes of the connection; 0 at its end, at an error, or when the test stops. */
size_t loopback_read(struct loopback_conn *c, char *to, size_t n) {
    struct pollfd p[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->l->stop_fd, .events = POLLIN}};
    ssize_t got;

    if (c->ssl)
        return loopback_tls_read(c, to, n);
    if (poll(p, 2, 10000) <= 0 || p[1].revents)
        return 0;
    got = recv(c->fd, to, n, 0);
    return got > 0 ? (size_t)got : 0;
}

bool loopback_send(struct loopback_conn *c, const char *data, size_t n) {
    if (c->ssl)
        return loopback_tls_write(c, data, n);
    while (n > 0) {
        const ssize_t sent = send(c->fd, data, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        data += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool loopback_puts(struct loopback_conn *c, const char *text) {
    return loopback_send(c, text, strlen(text));
}

bool loopback_answer(struct loopback_conn *c, int status, const char *headers, const char *body) {
    nc_auto_free char *head = NULL;

    if (c->stream)
        return loopback_http2_answer(c, status, body);
    head = nc_asprintf("HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%s\r\n%s", status, strlen(body),
                       headers ? headers : "", body);
    return loopback_puts(c, head);
}

void loopback_hang(struct loopback_conn *c) {
    struct pollfd p[2] = {{.fd = c->fd, .events = POLLRDHUP},
                          {.fd = c->l->stop_fd, .events = POLLIN}};

    (void)poll(p, 2, 20000);
}

void loopback_reset(struct loopback_conn *c) {
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

bool loopback_serve(struct loopback_conn *c, struct loopback_request *r) {
    r->number = atomic_fetch_add(&c->l->requests, 1);
    r->connection = c->number;
    return c->l->fn(c->l->userdata, c, r);
}

static size_t content_length(const char *head) {
    const char *at = strcasestr(head, "\r\nContent-Length:");

    return at ? (size_t)strtoul(at + strlen("\r\nContent-Length:"), NULL, 10) : 0;
}

/* One request of HTTP/1.1; false at the end of the connection. */
static bool serve_one(struct loopback_conn *c, struct nc_buf *in) {
    struct loopback_request r = {.body = ""};
    char *end;
    char chunk[4096];

    while (!in->data || !(end = strstr(in->data, "\r\n\r\n"))) {
        const size_t n = loopback_read(c, chunk, sizeof(chunk));
        if (n == 0)
            return false;
        nc_buf_add(in, chunk, n);
    }
    const size_t head_n = (size_t)(end - in->data) + 4;
    nc_auto_free char *head = nc_strndup(in->data, head_n);
    const size_t whole = head_n + content_length(head);
    while (in->len < whole) {
        const size_t n = loopback_read(c, chunk, sizeof(chunk));
        if (n == 0)
            return false;
        nc_buf_add(in, chunk, n);
    }
    nc_auto_free char *body = nc_strndup(in->data + head_n, whole - head_n);
    r.head = head;
    r.body = body;
    r.body_n = whole - head_n;
    if (sscanf(head, "%15s %1023s", r.method, r.path) != 2)
        return false;
    memmove(in->data, in->data + whole, in->len - whole + 1);
    in->len -= whole;
    return loopback_serve(c, &r);
}

static void *run_connection(void *argument) {
    struct loopback_conn *c = argument;
    struct loopback *l = c->l;
    struct nc_buf in = NC_BUF_INIT;
    bool ready = !l->tls || loopback_tls_accept(c);

    if (ready && c->http2)
        loopback_http2_serve(c);
    else
        while (ready && serve_one(c, &in))
            ;
    nc_buf_done(&in);
    loopback_tls_end(c);
    close(c->fd);
    atomic_fetch_sub(&l->open, 1);
    return NULL;
}

static void *run_listener(void *argument) {
    struct loopback *l = argument;
    struct pollfd p[2] = {{.fd = l->fd, .events = POLLIN}, {.fd = l->stop_fd, .events = POLLIN}};

    while (poll(p, 2, -1) > 0 && !p[1].revents) {
        const int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
        struct loopback_conn *c;
        if (fd < 0)
            continue;
        must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0, "no delay");
        c = nc_calloc(1, sizeof(*c));
        *c = (struct loopback_conn){.l = l, .fd = fd, .number = atomic_fetch_add(&l->accepted, 1)};
        atomic_fetch_add(&l->open, 1);
        *nc_append(&l->conns, &l->n_conns) = c;
        must(pthread_create(&c->thread, NULL, run_connection, c) == 0, "thread");
    }
    return NULL;
}

struct loopback *loopback_start(const struct loopback_tls *tls, loopback_fn fn, void *userdata) {
    struct loopback *l = nc_calloc(1, sizeof(*l));

    l->fn = fn;
    l->userdata = userdata;
    l->fd = bind_any(&l->port);
    must(listen(l->fd, 512) == 0, "listen");
    l->stop_fd = eventfd(0, EFD_CLOEXEC);
    must(l->stop_fd >= 0, "eventfd");
    if (tls)
        l->tls = loopback_tls_new(tls);
    l->url = nc_asprintf("%s://127.0.0.1:%u", tls ? "https" : "http", l->port);
    must(pthread_create(&l->thread, NULL, run_listener, l) == 0, "thread");
    return l;
}

void loopback_stop(struct loopback *l) {
    (void)eventfd_write(l->stop_fd, 1);
    pthread_join(l->thread, NULL);
    close(l->fd);
    for (size_t k = 0; k < l->n_conns; k++) {
        pthread_join(l->conns[k]->thread, NULL);
        free(l->conns[k]);
    }
    free(l->conns);
    loopback_tls_free(l->tls);
    close(l->stop_fd);
    free(l->url);
    free(l);
}

const char *loopback_url(const struct loopback *l) {
    return l->url;
}

unsigned loopback_port(const struct loopback *l) {
    return l->port;
}

unsigned loopback_requests(struct loopback *l) {
    return atomic_load(&l->requests);
}

unsigned loopback_connections(struct loopback *l) {
    return atomic_load(&l->accepted);
}

unsigned loopback_open(struct loopback *l) {
    return atomic_load(&l->open);
}

bool loopback_wait(unsigned (*number)(struct loopback *), struct loopback *l, unsigned wanted) {
    for (int k = 0; k < 5000; k++) {
        if (number(l) == wanted)
            return true;
        (void)poll(NULL, 0, 1);
    }
    return false;
}
