/*
 * Sockets and time limits of the listener. One question a connection, then it is closed: who asks
 * comes every few seconds at most.
 */
#include "listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "nc/clock.h"

#define MAX_REQUEST 4096
#define MAX_DISCARDED 65536u
#define REST_USEC 250000u
#define ANSWERED 1 /* silent since long ago: nothing is lost by closing it */

enum stage { READING = 0, WRITING, CLOSING };

struct peer {
    struct nc_listener *listener;
    size_t slot;
    sd_event_source *io, *timer;
    int fd;
    enum stage stage;
    bool is_local;
    char in[MAX_REQUEST];
    size_t n_in;
    struct nc_buf out;
    size_t sent, discarded;
};

struct nc_listener {
    sd_event *event;
    sd_event_source *io, *rest;
    int fd;
    nc_listener_fn answer;
    void *userdata;
    struct nc_slots slots;
    struct peer *peers[NC_LISTENER_MAX]; /* each in its slot */
};

static void drop(struct peer *p) {
    nc_slots_clear(&p->listener->slots, p->slot);
    p->listener->peers[p->slot] = NULL;
    sd_event_source_disable_unref(p->io);
    sd_event_source_disable_unref(p->timer);
    (void)close(p->fd);
    nc_buf_done(&p->out);
    free(p);
}

static const char *reason_phrase(int status) {
    static const struct {
        int status;
        const char *phrase;
    } rows[] = {{200, "OK"},
                {400, "Bad Request"},
                {403, "Forbidden"},
                {404, "Not Found"},
                {405, "Method Not Allowed"},
                {414, "URI Too Long"},
                {431, "Request Header Fields Too Large"},
                {503, "Service Unavailable"},
                {505, "HTTP Version Not Supported"}};

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (rows[i].status == status)
            return rows[i].phrase;
    return "Internal Server Error";
}

static int turn_to(struct peer *p, enum stage stage) {
    p->stage = stage;
    return sd_event_source_set_io_events(p->io, stage == WRITING ? EPOLLOUT : EPOLLIN);
}

/* Puts the answer together; an empty body gets the status' own words. */
static int reply(struct peer *p, struct nc_listener_answer *a, bool is_head) {
    if (a->status == 0)
        a->status = 404;
    if (a->body.len == 0)
        (void)nc_buf_printf(&a->body, "%s\n", reason_phrase(a->status));
    (void)nc_buf_printf(&p->out,
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                        "%sConnection: close\r\n\r\n",
                        a->status, reason_phrase(a->status),
                        a->type ? a->type : "text/plain; charset=utf-8", a->body.len,
                        a->status == 405 ? "Allow: GET, HEAD\r\n" : "");
    if (!is_head)
        (void)nc_buf_add(&p->out, a->body.data, a->body.len);
    nc_buf_done(&a->body);
    return turn_to(p, WRITING);
}

static int read_some(struct peer *p) {
    struct nc_listener_answer a = {0};
    char path[NC_LISTENER_PATH_MAX];
    bool is_head = false;
    const ssize_t n = recv(p->fd, p->in + p->n_in, sizeof(p->in) - p->n_in, 0);
    int r;

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -ECONNRESET;
    p->n_in += (size_t)n;
    r = nc_listener_read_request(p->in, p->n_in, path, &is_head);
    if (r == 0 && p->n_in == sizeof(p->in))
        r = -431;
    if (r == 0)
        return 0;
    if (r < 0)
        a.status = -r;
    else
        p->listener->answer(p->listener->userdata, path, p->is_local, &a);
    return reply(p, &a, is_head);
}

static int write_some(struct peer *p) {
    const ssize_t n = send(p->fd, p->out.data + p->sent, p->out.len - p->sent, MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    p->sent += (size_t)n;
    p->listener->slots.at[p->slot].silent_since_usec =
        p->sent < p->out.len ? nc_mono_usec() : ANSWERED;
    if (p->sent < p->out.len)
        return 0;
    nc_buf_done(&p->out);
    p->out = (struct nc_buf)NC_BUF_INIT;
    (void)shutdown(p->fd, SHUT_WR);
    return turn_to(p, CLOSING);
}

/* Closing with bytes unread would take back what was just sent. */
static int wait_for_end(struct peer *p) {
    const ssize_t n = recv(p->fd, p->in, sizeof(p->in), 0);

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -ECONNRESET;
    p->discarded += (size_t)n;
    return p->discarded > MAX_DISCARDED ? -ECONNRESET : 0;
}

static int on_peer(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct peer *p = userdata;
    int r = -ECONNRESET;

    (void)revents; /* errors show when it is read or written */
    switch (p->stage) {
    case READING:
        r = read_some(p);
        break;
    case WRITING:
        r = write_some(p);
        break;
    case CLOSING:
        r = wait_for_end(p);
        break;
    }
    if (r < 0)
        drop(p);
    return 0;
}

static int on_late(sd_event_source *source, uint64_t usec, void *userdata) {
    drop(userdata);
    return 0;
}

static void welcome(struct nc_listener *l, int fd, const union nc_address *from) {
    const struct nc_host host = nc_host_of(from);
    const size_t slot = nc_slots_choose(&l->slots, &host);
    struct peer *p = nc_calloc(1, sizeof(*p));

    if (l->peers[slot])
        drop(l->peers[slot]);
    nc_slots_fill(&l->slots, slot, &host, nc_mono_usec());
    *p = (struct peer){
        .listener = l, .slot = slot, .fd = fd, .is_local = nc_address_is_loopback(from)};
    l->peers[slot] = p;
    if (sd_event_add_io(l->event, &p->io, fd, EPOLLIN, on_peer, p) < 0
        || sd_event_add_time_relative(l->event, &p->timer, CLOCK_MONOTONIC, NC_LISTENER_USEC, 0,
                                      on_late, p)
               < 0)
        drop(p);
}

static int on_rested(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_listener *l = userdata;

    return sd_event_source_set_enabled(l->io, SD_EVENT_ON);
}

/* Whoever knocks keeps the socket readable: the loop would turn for nothing else. */
static int rest(struct nc_listener *l) {
    int r = sd_event_source_set_enabled(l->io, SD_EVENT_OFF);

    if (r >= 0)
        r = sd_event_source_set_time_relative(l->rest, REST_USEC);
    return r < 0 ? r : sd_event_source_set_enabled(l->rest, SD_EVENT_ONESHOT);
}

static int on_connect(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    union nc_address from = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t n = sizeof(from);
    const int peer = accept4(fd, &from.any, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (peer >= 0)
        welcome(userdata, peer, &from);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        return rest(userdata);
    return 0; /* it may have gone again */
}

static int open_socket(const union nc_address *a, socklen_t n) {
    const int on = 1, received_bytes = 2 * MAX_REQUEST;
    const int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* what a peer sends and nobody reads is memory of ours: each connection inherits this */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &received_bytes, sizeof(received_bytes));
    if (bind(fd, &a->any, n) < 0 || listen(fd, NC_LISTENER_MAX) < 0) {
        const int r = -errno;
        (void)close(fd);
        return r;
    }
    return fd;
}

int nc_listener_new(sd_event *event, const struct nc_listener_options *o, struct nc_listener **ret,
                    struct nc_err *err) {
    union nc_address a;
    socklen_t n;
    struct nc_listener *l;
    int r = nc_address_parse(o->address, &a, &n, err);
    int fd;

    if (r < 0)
        return r;
    fd = open_socket(&a, n);
    if (fd < 0)
        return nc_err_host(err, fd, "listening on %s", o->address);
    l = nc_calloc(1, sizeof(*l));
    *l = (struct nc_listener){
        .event = event, .fd = fd, .answer = o->answer, .userdata = o->userdata};
    if (o->node_address)
        (void)nc_host_parse(o->node_address, &l->slots.node); /* without it they stay free */
    r = sd_event_add_io(event, &l->io, fd, EPOLLIN, on_connect, l);
    if (r >= 0)
        r = sd_event_add_time_relative(event, &l->rest, CLOCK_MONOTONIC, 0, 0, on_rested, l);
    if (r >= 0)
        r = sd_event_source_set_enabled(l->rest, SD_EVENT_OFF);
    if (r < 0) {
        nc_listener_free(l);
        return nc_err_host(err, r, "event loop");
    }
    *ret = l;
    return 0;
}

struct nc_listener *nc_listener_free(struct nc_listener *l) {
    if (!l)
        return NULL;
    for (size_t i = 0; i < NC_LISTENER_MAX; i++)
        if (l->peers[i])
            drop(l->peers[i]);
    sd_event_source_disable_unref(l->io);
    sd_event_source_disable_unref(l->rest);
    (void)close(l->fd);
    free(l);
    return NULL;
}

unsigned nc_listener_port(const struct nc_listener *l) {
    union nc_address a = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t n = sizeof(a);

    if (getsockname(l->fd, &a.any, &n) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}
