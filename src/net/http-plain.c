/*
 * The plain case of HTTP/1.1: send one request, read one answer with a Content-Length, keep the
 * connection.
 *
 * Knows sockets and the few header fields that matter here. Must not guess: at the first thing that
 * is not as plain as this, the connection is closed and the question handed back.
 */
#include "nc/http-plain.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nc/clock.h"
#include "nc/str.h"

#define MAX_HEAD_BYTES ((size_t)16 << 10)
/* An answer that is no success says why: as much of it is read as there is room for here. */
#define MAX_FAILURE_BYTES ((size_t)8 << 10)
#define CHUNK_BYTES 4096

struct nc_http_plain {
    sd_event *event;
    struct sockaddr_storage address;
    socklen_t address_n;
    char *authority;

    int fd; /* -1 = not connected */
    sd_event_source *io;
    bool is_connecting;

    /* The question under way; done NULL = none. */
    nc_http_done_fn done;
    void *userdata;
    char *request; /* until it is sent; secret */
    struct nc_buf answer;
    size_t max_body_bytes;
    uint64_t start_usec, timeout_usec;
    bool is_new_connection;
};

/* What the head of an answer says. */
struct head {
    int status;
    size_t head_n, body_n;
    bool has_length, is_odd, is_last;
    uint64_t date_usec;
};

static void disconnect(struct nc_http_plain *p) {
    p->io = sd_event_source_disable_unref(p->io);
    if (p->fd >= 0)
        (void)close(p->fd);
    p->fd = -1;
    p->is_connecting = false;
}

static void forget_request(struct nc_http_plain *p) {
    nc_secret_free(p->request);
    p->request = NULL;
    p->done = NULL;
}

/* The handle may be gone when this returns. */
static void finish(struct nc_http_plain *p, const struct nc_http_result *result) {
    const nc_http_done_fn done = p->done;
    void *userdata = p->userdata;

    forget_request(p);
    done(userdata, result);
}

static void hand_back(struct nc_http_plain *p) {
    disconnect(p);
    if (p->done)
        finish(p, NULL);
}

/* --- the answer */

static bool is_field(const char *line, size_t n, const char *name, const char **ret_value) {
    const size_t name_n = strlen(name);

    if (n <= name_n || line[name_n] != ':' || strncasecmp(line, name, name_n) != 0)
        return false;
    *ret_value = line + name_n + 1;
    return true;
}

static void take_length(struct head *h, char *text) {
    uint64_t n;

    if (h->has_length || nc_parse_u64(nc_trim(text), &n) < 0 || n > NC_BUF_DEFAULT_MAX) {
        h->is_odd = true;
        return;
    }
    h->has_length = true;
    h->body_n = (size_t)n;
}

static void take_field(struct head *h, const char *line, size_t n) {
    static const char *const beyond_us[] = {"Transfer-Encoding", "Content-Encoding", "Upgrade"};
    nc_auto_free char *text = NULL;
    const char *value = NULL;

    for (size_t i = 0; i < NC_ARRAY_SIZE(beyond_us); i++)
        h->is_odd |= is_field(line, n, beyond_us[i], &value);
    if (is_field(line, n, "Content-Length", &value)) {
        text = nc_strndup(value, n - (size_t)(value - line));
        take_length(h, text);
    } else if (is_field(line, n, "Date", &value)) {
        text = nc_strndup(value, n - (size_t)(value - line));
        (void)nc_time_parse_http(nc_trim(text), &h->date_usec);
    } else if (is_field(line, n, "Connection", &value)) {
        text = nc_strndup(value, n - (size_t)(value - line));
        h->is_last |= strcasecmp(nc_trim(text), "keep-alive") != 0;
    }
}

/* "HTTP/1.1 200 OK"; other versions are beyond us. */
static int read_status(const char *line, size_t n) {
    if (n < strlen("HTTP/1.1 200") || strncmp(line, "HTTP/1.1 ", 9) != 0
        || !isdigit((unsigned char)line[9]) || !isdigit((unsigned char)line[10])
        || !isdigit((unsigned char)line[11]) || (n > 12 && line[12] != ' '))
        return 0;
    return (line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0';
}

/* 0 where the head is not complete yet. */
static int read_head(const struct nc_buf *b, struct head *h) {
    const char *end = b->len ? memmem(b->data, b->len, "\r\n\r\n", 4) : NULL;
    const char *line = b->data;

    *h = (struct head){.is_odd = !end && b->len > MAX_HEAD_BYTES};
    if (!end)
        return h->is_odd;
    h->head_n = (size_t)(end - b->data) + 4;
    for (bool is_first = true; line <= end; is_first = false) {
        const char *next = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        const size_t n = (size_t)(next - line);
        if (is_first)
            h->status = read_status(line, n);
        else if (*line == ' ' || *line == '\t' || memchr(line, '\0', n) || memchr(line, '\r', n)
                 || memchr(line, '\n', n))
            h->is_odd = true;
        else
            take_field(h, line, n);
        line = next + 2;
    }
    h->is_odd |= h->status < 200 || h->status == 204 || h->status == 304 || h->status > 599
                 || !h->has_length;
    return 1;
}

static void deliver(struct nc_http_plain *p, const struct head *h) {
    const struct nc_http_result result = {
        .outcome = NC_HTTP_ANSWERED,
        .status = h->status,
        .body = p->answer.data + h->head_n,
        .n = h->body_n,
        .date_usec = h->date_usec,
        .received_usec = nc_now_usec(),
        .duration_usec = nc_mono_usec() - p->start_usec,
        .new_connection = p->is_new_connection,
    };

    if (h->is_last)
        disconnect(p);
    finish(p, &result);
}

static void look_at_answer(struct nc_http_plain *p) {
    struct head h;
    size_t most;

    if (read_head(&p->answer, &h) == 0)
        return;
    most = h.status / 100 == 2 || p->max_body_bytes > MAX_FAILURE_BYTES ? p->max_body_bytes
                                                                        : MAX_FAILURE_BYTES;
    if (h.is_odd || h.body_n > most || p->answer.len > h.head_n + h.body_n)
        hand_back(p);
    else if (p->answer.len == h.head_n + h.body_n)
        deliver(p, &h);
}

static void receive(struct nc_http_plain *p) {
    char chunk[CHUNK_BYTES];
    const ssize_t got = recv(p->fd, chunk, sizeof(chunk), MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* The peer closed; or it speaks without having been asked. */
    if (got <= 0 || !p->done || nc_buf_add(&p->answer, chunk, (size_t)got) < 0)
        hand_back(p);
    else
        look_at_answer(p);
    if (got > 0)
        explicit_bzero(chunk, (size_t)got);
}

/* --- the question */

static int transmit(struct nc_http_plain *p) {
    const size_t n = strlen(p->request);
    const ssize_t put = send(p->fd, p->request, n, MSG_NOSIGNAL | MSG_DONTWAIT);

    nc_secret_free(p->request);
    p->request = NULL;
    return put == (ssize_t)n ? 0 : -EIO; /* it fits into every socket's buffer */
}

static void on_connected(struct nc_http_plain *p) {
    int code = 0;
    socklen_t n = sizeof(code);

    p->is_connecting = false;
    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0 || code != 0 || transmit(p) < 0
        || sd_event_source_set_io_events(p->io, EPOLLIN) < 0)
        hand_back(p);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct nc_http_plain *p = userdata;

    (void)source;
    (void)fd;
    (void)revents;
    if (p->is_connecting)
        on_connected(p);
    else
        receive(p);
    return 0;
}

void nc_http_plain_expire(struct nc_http_plain *p) {
    struct nc_http_result result = {.outcome = NC_HTTP_TIMEOUT,
                                    .received_usec = nc_now_usec(),
                                    .duration_usec = nc_mono_usec() - p->start_usec,
                                    .new_connection = p->is_new_connection};

    if (!p->done || result.duration_usec < p->timeout_usec)
        return;
    (void)snprintf(result.message, sizeof(result.message), "no answer from %s in %.3g s",
                   p->authority, (double)p->timeout_usec / 1e6);
    disconnect(p);
    finish(p, &result);
}

static int connect_socket(struct nc_http_plain *p) {
    const int one = 1;
    int r;

    p->fd = socket(p->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return -errno;
    (void)setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(p->fd, (const struct sockaddr *)&p->address, p->address_n) < 0
        && errno != EINPROGRESS)
        return -errno;
    p->is_connecting = true;
    r = sd_event_add_io(p->event, &p->io, p->fd, EPOLLOUT, on_io, p);
    if (r >= 0)
        (void)sd_event_source_set_description(p->io, "http-plain");
    return r;
}

/* Not by printf: this is done sixty-six times a minute. */
static char *build_request(const struct nc_http_plain *p, const char *path, const char *header) {
    const char *const parts[] = {"GET ",
                                 path,
                                 " HTTP/1.1\r\nHost: ",
                                 p->authority,
                                 "\r\nUser-Agent: ",
                                 nc_http_user_agent(),
                                 "\r\nAccept: */*\r\n",
                                 header,
                                 "\r\n\r\n"};
    size_t n = 0;
    char *text, *end;

    for (size_t i = 0; i < NC_ARRAY_SIZE(parts); i++)
        n += strlen(parts[i]);
    text = end = nc_calloc(n + 1, 1);
    for (size_t i = 0; i < NC_ARRAY_SIZE(parts); i++)
        end = stpcpy(end, parts[i]);
    return text;
}

int nc_http_plain_get(struct nc_http_plain *p, const char *path, const char *header,
                      size_t max_body_bytes, uint64_t timeout_usec, nc_http_done_fn done,
                      void *userdata) {
    const bool is_new = p->fd < 0;
    int r;

    if (p->done)
        return -EBUSY;
    nc_buf_clear(&p->answer);
    p->answer.max = MAX_HEAD_BYTES + MAX_FAILURE_BYTES + max_body_bytes;
    p->max_body_bytes = max_body_bytes;
    p->start_usec = nc_mono_usec();
    p->timeout_usec = timeout_usec;
    p->is_new_connection = is_new;
    p->request = build_request(p, path, header);
    r = is_new ? connect_socket(p) : transmit(p);
    if (r < 0) {
        disconnect(p);
        forget_request(p);
        return r;
    }
    p->done = done;
    p->userdata = userdata;
    return 0;
}

void nc_http_plain_cancel(struct nc_http_plain *p, const void *userdata) {
    if (!p || !p->done || p->userdata != userdata)
        return;
    disconnect(p);
    forget_request(p);
}

/* --- the handle */

static int parse_port(const char *text, uint16_t *ret) {
    uint64_t port = 80;

    if (*text && (*text != ':' || nc_parse_u64(text + 1, &port) < 0 || port == 0 || port > 65535))
        return -EOPNOTSUPP;
    *ret = htons((uint16_t)port);
    return 0;
}

static int parse_address(struct nc_http_plain *p, const char *authority) {
    struct sockaddr_in *four = (struct sockaddr_in *)&p->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&p->address;
    const bool is_six = *authority == '[';
    const size_t n = strcspn(authority, is_six ? "]" : ":/");
    nc_auto_free char *host = nc_strndup(authority + is_six, n - is_six);

    if (is_six && authority[n] == ']' && inet_pton(AF_INET6, host, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        p->address_n = sizeof(*six);
        return parse_port(authority + n + 1, &six->sin6_port);
    }
    if (!is_six && inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        p->address_n = sizeof(*four);
        return parse_port(authority + n, &four->sin_port);
    }
    return -EOPNOTSUPP;
}

int nc_http_plain_new(sd_event *event, const char *endpoint, struct nc_http_plain **ret) {
    struct nc_http_plain *p;
    int r;

    if (!nc_starts_with(endpoint, "http://"))
        return -EOPNOTSUPP;
    p = nc_calloc(1, sizeof(*p));
    p->fd = -1;
    p->event = sd_event_ref(event);
    p->authority = nc_strdup(endpoint + strlen("http://"));
    r = parse_address(p, p->authority);
    if (r < 0) {
        nc_http_plain_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

struct nc_http_plain *nc_http_plain_free(struct nc_http_plain *p) {
    if (!p)
        return NULL;
    disconnect(p);
    nc_secret_free(p->request);
    nc_buf_done_secret(&p->answer);
    sd_event_unref(p->event);
    free(p->authority);
    free(p);
    return NULL;
}
