/*
 * The handle: libcurl's multi interface on sd-event.
 *
 * Knows sockets, libcurl's timer, and the order in which finished transfers are handed out: one per
 * loop turn from a defer source, as the last thing in the turn, so that a callback may free its
 * request, other requests or the handle. libcurl must not be re-entered from its own callbacks:
 * what arrives meanwhile (start, cancel, free) is done as soon as it has returned. What a request
 * means is not known here.
 */
#include "http-priv.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "nc/clock.h"
#include "nc/str.h"

/* Idle connections that are kept for the next request. */
#define KEEP_CONNECTIONS 4
/* A drain has all evictions of a node in flight: the server's own limit is what counts. */
#define MAX_STREAMS 1000
/* A request that was given less time reports nothing about its connection. */
#define SUSPECT_USEC 1000000u
#define SUSPECT_SLACK_USEC 50000u /* the kernel counts in ticks */
/* libcurl before 8.1 may keep what it has read of several HTTP/2 streams to itself, and waits for a
 * socket that has nothing more to say: it is called for that socket all the same, after so long. */
#define NUDGED_BEFORE 0x080100
#define NUDGE_USEC 100000u

struct http_socket {
    struct nc_http *h;
    sd_event_source *source;
    LIST_ENTRY(http_socket) all;
};

static void wake(struct nc_http *h) {
    sd_event_source_set_enabled(h->turn, SD_EVENT_ONESHOT);
}

static void set_timer(sd_event_source *timer, uint64_t usec) {
    (void)sd_event_source_set_time(timer, usec);
    (void)sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

/* As soon as everything else that is due has had its turn. A defer source that enables itself again
 * would come before each descriptor that becomes ready meanwhile, for ever. */
static void set_due(sd_event_source *timer) {
    set_timer(timer, 1);
}

void nc_http_request_finish(struct nc_http_req *r, CURLcode code) {
    struct nc_http *h = r->h;

    r->state = REQUEST_FINISHED;
    r->code = code;
    TAILQ_INSERT_TAIL(&h->finished, r, finished);
    if (r->deadline)
        (void)sd_event_source_set_enabled(r->deadline, SD_EVENT_OFF);
    wake(h);
}

/* Takes a request out of everything and frees it; libcurl is off the stack. */
static void drop(struct nc_http_req *r) {
    if (r->state == REQUEST_FINISHED)
        TAILQ_REMOVE(&r->h->finished, r, finished);
    LIST_REMOVE(r, all);
    curl_multi_remove_handle(r->h->multi, r->easy);
    nc_http_request_free(r);
}

static void forget_socket(struct http_socket *s) {
    sd_event_source_disable_unref(s->source);
    LIST_REMOVE(s, all);
    free(s);
}

static void destroy(struct nc_http *h) {
    while (!LIST_EMPTY(&h->requests))
        drop(LIST_FIRST(&h->requests));
    if (h->multi)
        curl_multi_cleanup(h->multi);
    while (!LIST_EMPTY(&h->sockets))
        forget_socket(LIST_FIRST(&h->sockets));
    sd_event_source_disable_unref(h->timer);
    sd_event_source_disable_unref(h->again);
    sd_event_source_disable_unref(h->nudge);
    sd_event_source_disable_unref(h->turn);
    sd_event_unref(h->event);
    free(h);
}

static void submit(struct nc_http_req *r) {
    CURLMcode code = curl_multi_add_handle(r->h->multi, r->easy);

    r->state = REQUEST_RUNNING;
    if (code != CURLM_OK) {
        nc_copy_text(r->error, sizeof(r->error), curl_multi_strerror(code));
        nc_http_request_finish(r, CURLE_FAILED_INIT);
    }
}

static void collect_finished(struct nc_http *h) {
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(h->multi, &left))) {
        struct nc_http_req *r = NULL;
        const CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE
            || curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r) != CURLE_OK || !r)
            continue;
        if (r->state == REQUEST_RUNNING)
            nc_http_request_finish(r, code);
    }
}

static bool has_https(const struct nc_http *h) {
    const struct nc_http_req *r = LIST_FIRST(&h->requests);

    while (r && !r->is_https)
        r = LIST_NEXT(r, all);
    return r;
}

/* Not set again with each packet: when it comes it looks how long nothing has come. */
static void arm_nudge(struct nc_http *h) {
    if (!h->nudge)
        return;
    h->active_usec = nc_mono_usec();
    if (h->is_nudge_armed || !has_https(h))
        return;
    h->is_nudge_armed = true;
    set_timer(h->nudge, h->active_usec + NUDGE_USEC);
}

/* libcurl has worked: does what could not be done while it was on the stack. False: the handle is
 * gone. */
static bool after_curl(struct nc_http *h) {
    if (h->doomed) {
        destroy(h);
        return false;
    }
    collect_finished(h);
    for (struct nc_http_req *r = LIST_FIRST(&h->requests), *next; r; r = next) {
        next = LIST_NEXT(r, all);
        if (r->state == REQUEST_DROPPED)
            drop(r);
        else if (r->state == REQUEST_WAITING)
            submit(r);
    }
    arm_nudge(h);
    return true;
}

static bool call_curl(struct nc_http *h, curl_socket_t fd, int events) {
    int running;

    h->depth++;
    curl_multi_socket_action(h->multi, fd, events, &running);
    h->depth--;
    return after_curl(h);
}

void nc_http_request_pause(struct nc_http_req *r) {
    r->is_paused = true;
    set_due(r->h->again);
}

/* A new loop turn: each stream has its share again. */
static int on_again(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_http *h = userdata;
    struct nc_http_req *r;

    h->depth++;
    LIST_FOREACH(r, &h->requests, all) {
        r->turn_bytes = 0;
        if (!r->is_paused || r->state != REQUEST_RUNNING)
            continue;
        r->is_paused = false;
        curl_easy_pause(r->easy, CURLPAUSE_CONT);
    }
    h->depth--;
    (void)after_curl(h);
    return 0;
}

static int on_socket(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct http_socket *s = userdata;
    int events = 0;

    if (revents & (EPOLLIN | EPOLLHUP))
        events |= CURL_CSELECT_IN;
    if (revents & EPOLLOUT)
        events |= CURL_CSELECT_OUT;
    if (revents & EPOLLERR)
        events |= CURL_CSELECT_ERR;
    call_curl(s->h, fd, events);
    return 0;
}

static int watch_socket(struct nc_http *h, curl_socket_t fd, uint32_t events) {
    struct http_socket *s = nc_calloc(1, sizeof(*s));

    s->h = h;
    LIST_INSERT_HEAD(&h->sockets, s, all);
    if (sd_event_add_io(h->event, &s->source, fd, events, on_socket, s) < 0) {
        forget_socket(s);
        return -1;
    }
    curl_multi_assign(h->multi, fd, s);
    return 0;
}

/* libcurl wants to know about a socket, or no longer. */
static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *userdata, void *socket) {
    struct nc_http *h = userdata;
    struct http_socket *s = socket;
    uint32_t events = 0;

    if (what == CURL_POLL_REMOVE) {
        if (s)
            forget_socket(s);
        return 0;
    }
    if (what & CURL_POLL_IN)
        events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        events |= EPOLLOUT;
    if (!s)
        return watch_socket(h, fd, events);
    return sd_event_source_set_io_events(s->source, events) < 0 ? -1 : 0;
}

static bool has_socket(const struct nc_http *h, curl_socket_t fd) {
    const struct http_socket *s = LIST_FIRST(&h->sockets);

    while (s && sd_event_source_get_io_fd(s->source) != fd)
        s = LIST_NEXT(s, all);
    return s;
}

/* What is called may close any of them, and end the handle: then false. */
static bool nudge_sockets(struct nc_http *h) {
    const struct http_socket *s;
    nc_auto_free curl_socket_t *fds = NULL;
    size_t n = 0;

    LIST_FOREACH(s, &h->sockets, all)
    *nc_append(&fds, &n) = sd_event_source_get_io_fd(s->source);
    for (size_t i = 0; i < n; i++)
        if (has_socket(h, fds[i]) && !call_curl(h, fds[i], CURL_CSELECT_IN))
            return false;
    return true;
}

/* A stream may be silent for minutes: it is nudged once after what came. */
static bool has_waiting(const struct nc_http *h) {
    const struct nc_http_req *r = LIST_FIRST(&h->requests);

    while (r && (r->state != REQUEST_RUNNING || r->timeout_usec == 0))
        r = LIST_NEXT(r, all);
    return r;
}

static int on_nudge(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_http *h = userdata;
    uint64_t at = h->active_usec + NUDGE_USEC;
    const size_t before = h->received;

    if (nc_mono_usec() >= at) {
        if (!nudge_sockets(h))
            return 0;
        at = nc_mono_usec() + NUDGE_USEC;
        h->is_nudge_armed = has_waiting(h) || h->received != before;
        if (!h->is_nudge_armed)
            return 0;
    }
    set_timer(source, at);
    return 0;
}

/* The descriptor of the connection that a request uses: libcurl tells it by its local port only. */
static int descriptor_of(const struct nc_http_req *r) {
    const struct http_socket *s;
    long wanted = 0;

    (void)curl_easy_getinfo(r->easy, CURLINFO_LOCAL_PORT, &wanted);
    LIST_FOREACH(s, &r->h->sockets, all) {
        struct sockaddr_storage a;
        socklen_t n = sizeof(a);
        const int fd = sd_event_source_get_io_fd(s->source);
        in_port_t port = 0;
        if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
            continue;
        if (a.ss_family == AF_INET)
            port = ((const struct sockaddr_in *)&a)->sin_port;
        else if (a.ss_family == AF_INET6)
            port = ((const struct sockaddr_in6 *)&a)->sin6_port;
        if (port && ntohs(port) == wanted)
            return fd;
    }
    return -1;
}

/* Ending it in the kernel is what libcurl understands: every other request on it fails at once too,
 * which is right, as nobody answers there. An answer that is only slow would be cut off as well:
 * but then nothing else came on this connection for all that time either. */
void nc_http_suspect_connection(struct nc_http_req *r) {
    const uint64_t silent_usec = r->abort == ABORT_IDLE  ? nc_http_silence_usec(r)
                                 : r->received_usec == 0 ? nc_mono_usec() - r->start_usec
                                                         : 0;
    const int fd = silent_usec >= SUSPECT_USEC ? descriptor_of(r) : -1;
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    if (fd < 0)
        return;
    /* a kernel that does not say (a sandbox, an emulator) leaves what the request itself has seen
     */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) < 0
        || n < offsetof(struct tcp_info, tcpi_last_ack_recv)
        || (uint64_t)info.tcpi_last_data_recv * 1000 + SUSPECT_SLACK_USEC >= silent_usec)
        (void)shutdown(fd, SHUT_RDWR);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    call_curl(userdata, CURL_SOCKET_TIMEOUT, 0);
    return 0;
}

static int timer_wanted(CURLM *multi, long timeout_ms, void *userdata) {
    struct nc_http *h = userdata;

    if (timeout_ms < 0)
        return sd_event_source_set_enabled(h->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
    if (timeout_ms == 0) {
        set_due(h->timer);
        return 0;
    }
    if (sd_event_source_set_time_relative(h->timer, (uint64_t)timeout_ms * 1000) < 0)
        return -1;
    return sd_event_source_set_enabled(h->timer, SD_EVENT_ONESHOT) < 0 ? -1 : 0;
}

/* Whatever the callback does: repeats the request, cancels it, frees the handle. */
static void deliver_repeated(struct nc_http_req *r, const struct nc_http_result *result) {
    struct nc_buf body = r->body;

    r->body = (struct nc_buf)NC_BUF_INIT_MAX(body.max);
    r->state = REQUEST_KEPT;
    r->on_done(r->userdata, result);
    nc_buf_done_secret(&body);
}

/* Calls back. The handle may be gone when this returns. */
static void deliver(struct nc_http_req *r) {
    struct nc_http_result result;

    curl_multi_remove_handle(r->h->multi, r->easy);
    nc_http_result_fill(r, &result);
    if (r->is_kept) {
        deliver_repeated(r, &result);
        return;
    }
    LIST_REMOVE(r, all);
    r->state = REQUEST_DELIVERED;
    r->h = NULL;
    r->on_done(r->userdata, &result);
    nc_http_request_free(r);
}

static int on_turn(sd_event_source *source, void *userdata) {
    struct nc_http *h = userdata;
    struct nc_http_req *r = TAILQ_FIRST(&h->finished);

    if (!r)
        return 0;
    TAILQ_REMOVE(&h->finished, r, finished);
    if (!TAILQ_EMPTY(&h->finished))
        wake(h);
    deliver(r);
    return 0;
}

static int add_timer(struct nc_http *h, sd_event_time_handler_t fn, sd_event_source **ret) {
    int r = sd_event_add_time_relative(h->event, ret, CLOCK_MONOTONIC, 0, 1000, fn, h);

    return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

static int set_up_sources(struct nc_http *h) {
    int r = add_timer(h, on_timer, &h->timer);

    if (r >= 0)
        r = add_timer(h, on_again, &h->again);
    if (r >= 0 && curl_version_info(CURLVERSION_NOW)->version_num < NUDGED_BEFORE)
        r = add_timer(h, on_nudge, &h->nudge);
    if (r >= 0)
        r = sd_event_add_defer(h->event, &h->turn, on_turn, h);
    if (r >= 0)
        r = sd_event_source_set_enabled(h->turn, SD_EVENT_OFF);
    return r;
}

static bool set_up_multi(struct nc_http *h, unsigned max_host_connections) {
    return curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, socket_wanted) == CURLM_OK
           && curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) == CURLM_OK
           && curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, timer_wanted) == CURLM_OK
           && curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) == CURLM_OK
           && curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX) == CURLM_OK
           && curl_multi_setopt(h->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)MAX_STREAMS)
                  == CURLM_OK
           && curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)KEEP_CONNECTIONS) == CURLM_OK
           && curl_multi_setopt(h->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)max_host_connections)
                  == CURLM_OK;
}

/* A peer that goes away in mid-write must not end the process; libcurl leaves that to its user in
 * programs with CURLOPT_NOSIGNAL, and OpenSSL writes without MSG_NOSIGNAL. */
static void ignore_sigpipe(void) {
    struct sigaction now;

    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        (void)signal(SIGPIPE, SIG_IGN);
}

int nc_http_new(sd_event *event, unsigned max_host_connections, struct nc_http **ret,
                struct nc_err *err) {
    struct nc_http *h;
    int r;

    if (!nc_http_start_libcurl())
        return nc_err_set(err, NC_ERR_HOST, ENOMEM, "libcurl does not start");
    ignore_sigpipe();
    h = nc_calloc(1, sizeof(*h));
    h->event = sd_event_ref(event);
    TAILQ_INIT(&h->finished);
    r = set_up_sources(h);
    if (r < 0) {
        destroy(h);
        return nc_err_host(err, r, "event loop");
    }
    h->multi = curl_multi_init();
    if (!h->multi || !set_up_multi(h, max_host_connections)) {
        destroy(h);
        return nc_err_set(err, NC_ERR_HOST, ENOMEM, "libcurl gives no multi handle");
    }
    *ret = h;
    return 0;
}

struct nc_http *nc_http_free(struct nc_http *h) {
    struct nc_http_req *r;

    if (!h)
        return NULL;
    if (h->depth == 0) {
        destroy(h);
        return NULL;
    }
    h->doomed = true;
    LIST_FOREACH(r, &h->requests, all)
    if (r->state != REQUEST_FINISHED)
        r->state = REQUEST_DROPPED;
    return NULL;
}

int nc_http_start(struct nc_http *h, const struct nc_http_options *o, struct nc_http_req **ret,
                  struct nc_err *err) {
    struct nc_http_req *req;
    int r = nc_http_request_new(h, o, &req, err);

    if (r < 0)
        return r;
    r = nc_http_request_arm(req, err);
    if (r < 0) {
        nc_http_request_free(req);
        return r;
    }
    LIST_INSERT_HEAD(&h->requests, req, all);
    req->state = REQUEST_WAITING;
    if (h->depth == 0)
        submit(req);
    if (ret)
        *ret = req;
    return 0;
}

int nc_http_repeat(struct nc_http_req *r, uint64_t timeout_usec, struct nc_err *err) {
    int k;

    if (r->state != REQUEST_KEPT)
        return nc_err_set(err, NC_ERR_BUG, EBUSY, "%s: already in flight", r->name);
    nc_http_request_renew(r, timeout_usec);
    k = nc_http_request_arm(r, err);
    if (k < 0)
        return k;
    r->state = REQUEST_WAITING;
    if (r->h->depth > 0)
        return 0;
    submit(r);
    /* At once, without the loop's timer: three calls of the system less. Nothing is called back
     * from within. */
    (void)sd_event_source_set_enabled(r->h->timer, SD_EVENT_OFF);
    call_curl(r->h, CURL_SOCKET_TIMEOUT, 0);
    return 0;
}

struct nc_http_req *nc_http_cancel(struct nc_http_req *r) {
    if (!r || r->state == REQUEST_DELIVERED)
        return NULL;
    if (r->h->depth == 0) {
        drop(r);
        return NULL;
    }
    if (r->state == REQUEST_FINISHED)
        TAILQ_REMOVE(&r->h->finished, r, finished);
    r->state = REQUEST_DROPPED;
    return NULL;
}
