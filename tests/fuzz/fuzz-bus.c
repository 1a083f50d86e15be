/*
 * What comes over the system bus to the daemon: answers of logind, signals of logind, of the bus
 * and of strangers, and bytes that are no message at all. The harness is the bus; the input says
 * what happens on it, one byte each, some with bytes of their own.
 *
 * Whatever arrives, a shutdown begins and ends only where logind's property said so, and one read
 * of it is in flight at a time.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "nc/host.h"
#include "nc/mem.h"

#define LOGIND "org.freedesktop.login1"
#define WINDOW_USEC 9000000u
#define MAX_TURNS 200

enum { CALL = 1, RETURN, FAILURE, SIGNAL };
enum { PATH = 1, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SENDER, SIGNATURE };

/* One byte of input each. */
enum op { TURN = 0, PREPARE, CALL_OFF, STRANGER, ANSWERS, OWNER, RAW, _OP_MAX };
enum answers { RIGHT = 0, OTHER_TYPE, NO_VARIANT, EMPTY, REFUSED, _ANSWERS_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct world {
    sd_event *event;
    struct nc_login *login;
    int fd; /* the bus's end */
    struct nc_buf in;
    bool is_authenticated;
    uint32_t serial;
    enum answers answers;
    bool is_coming, was_reported[2];
    bool is_held;  /* answers of PreparingForShutdown wait */
    uint32_t read; /* the one that waits */
};

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void on_told(void *userdata, bool is_coming, uint64_t window_usec, bool is_reboot) {
    struct world *w = userdata;

    must(w->was_reported[is_coming]);
    w->was_reported[is_coming] = false;
    must(window_usec <= WINDOW_USEC && (is_coming || window_usec == 0));
}

static void on_delay(void *userdata, uint64_t delay_usec) {
    (void)userdata;
    must(delay_usec == WINDOW_USEC);
}

/* --- messages */

static void pad(struct nc_buf *b, size_t to) {
    while (b->len % to)
        (void)nc_buf_putc(b, '\0');
}

static void put_u32(struct nc_buf *b, uint32_t v) {
    pad(b, 4);
    (void)nc_buf_add(b, (const char *)&v, sizeof(v));
}

static void put_text(struct nc_buf *b, const char *text) {
    put_u32(b, (uint32_t)strlen(text));
    (void)nc_buf_add(b, text, strlen(text) + 1);
}

static void put_field(struct nc_buf *b, char number, char kind, const char *text, uint32_t v) {
    if (kind != 'u' && !text)
        return;
    pad(b, 8);
    (void)nc_buf_add(b, (const char[]){number, 1, kind, 0}, 4);
    if (kind == 'u') {
        put_u32(b, v);
    } else if (kind == 'g') {
        (void)nc_buf_putc(b, (char)strlen(text));
        (void)nc_buf_add(b, text, strlen(text) + 1);
    } else {
        put_text(b, text);
    }
}

struct message {
    int type;
    uint32_t reply_serial;
    const char *sender, *path, *interface, *member, *error, *signature;
    const void *body;
    size_t n;
};

static void send_bytes(struct world *w, const void *data, size_t n) {
    (void)!send(w->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_message(struct world *w, const struct message *m) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    uint32_t fields;

    (void)nc_buf_add(&b, (const char[]){'l', (char)m->type, 0, 1}, 4);
    put_u32(&b, (uint32_t)m->n);
    put_u32(&b, ++w->serial);
    put_u32(&b, 0);
    put_field(&b, PATH, 'o', m->path, 0);
    put_field(&b, INTERFACE, 's', m->interface, 0);
    put_field(&b, MEMBER, 's', m->member, 0);
    put_field(&b, ERROR_NAME, 's', m->error, 0);
    if (m->reply_serial)
        put_field(&b, REPLY_SERIAL, 'u', NULL, m->reply_serial);
    put_field(&b, DESTINATION, 's', ":1.7", 0);
    put_field(&b, SENDER, 's', m->sender, 0);
    put_field(&b, SIGNATURE, 'g', m->signature, 0);
    fields = (uint32_t)b.len - 16;
    memcpy(b.data + 12, &fields, sizeof(fields));
    pad(&b, 8);
    (void)nc_buf_add(&b, m->body, m->n);
    send_bytes(w, b.data, b.len);
}

/* --- the bus's side */

static void answer_property(struct world *w, uint32_t serial, bool is_window) {
    static const char refused[] = "org.freedesktop.DBus.Error.AccessDenied";
    nc_cleanup(nc_buf_done) struct nc_buf body = NC_BUF_INIT;
    struct message m = {.type = RETURN, .reply_serial = serial, .sender = ":1.1", .signature = "v"};
    const uint64_t usec = WINDOW_USEC;

    if (w->answers == REFUSED) {
        m = (struct message){
            .type = FAILURE, .reply_serial = serial, .sender = ":1.1", .error = refused};
    } else if (w->answers == EMPTY) {
        m.signature = NULL;
    } else if (w->answers == NO_VARIANT) {
        m.signature = "b";
        put_u32(&body, 1);
    } else if (is_window == (w->answers == RIGHT)) {
        (void)nc_buf_add(&body, "\1t\0\0\0\0\0", 8);
        (void)nc_buf_add(&body, (const char *)&usec, sizeof(usec));
    } else {
        (void)nc_buf_add(&body, "\1b\0", 3);
        put_u32(&body, w->answers == RIGHT ? w->is_coming : 1);
    }
    if (!is_window && w->answers == RIGHT)
        w->was_reported[w->is_coming] = true;
    m.body = body.data;
    m.n = body.len;
    send_message(w, &m);
}

static void give_answer(struct world *w) {
    const uint32_t serial = w->read;

    if (w->is_held || serial == 0)
        return;
    w->read = 0;
    answer_property(w, serial, false);
}

static bool names(const char *message, size_t n, const char *word) {
    return memmem(message, n, word, strlen(word)) != NULL;
}

static void answer(struct world *w, const char *message, size_t n) {
    static const char hello[] = "\5\0\0\0:1.7\0\0";
    uint32_t serial;

    memcpy(&serial, message + 8, sizeof(serial));
    if (message[1] != CALL)
        return;
    if (names(message, n, "Hello")) {
        send_message(w, &(struct message){.type = RETURN,
                                          .reply_serial = serial,
                                          .sender = "org.freedesktop.DBus",
                                          .signature = "s",
                                          .body = "\4\0\0\0:1.7",
                                          .n = sizeof(hello) - 2});
    } else if (names(message, n, "PreparingForShutdownWithMetadata")) { /* of an older systemd */
        answer_property(w, serial, true);
    } else if (names(message, n, "PreparingForShutdown")) {
        must(w->read == 0);
        w->read = serial;
        give_answer(w);
    } else if (names(message, n, "InhibitDelayMaxUSec")) {
        answer_property(w, serial, true);
    } else {
        send_message(w,
                     &(struct message){.type = RETURN, .reply_serial = serial, .sender = ":1.1"});
    }
}

/* True where a whole line or message was taken. */
static bool take(struct world *w) {
    size_t n = 0;

    if (!w->is_authenticated) {
        const char *end = w->in.len ? memmem(w->in.data, w->in.len, "\r\n", 2) : NULL;
        if (!end)
            return false;
        n = (size_t)(end - w->in.data) + 2;
        w->is_authenticated = names(w->in.data, n, "BEGIN");
        if (names(w->in.data, n, "DATA"))
            send_bytes(w, "OK 00000000000000000000000000000000\r\n", 37);
        else if (names(w->in.data, n, "AUTH"))
            send_bytes(w, "DATA\r\n", 6);
        else if (!w->is_authenticated)
            send_bytes(w, "AGREE_UNIX_FD\r\n", 15);
    } else {
        uint32_t body, fields;
        if (w->in.len < 16)
            return false;
        memcpy(&body, w->in.data + 4, sizeof(body));
        memcpy(&fields, w->in.data + 12, sizeof(fields));
        n = 16 + ((fields + 7u) & ~(size_t)7) + body;
        if (w->in.len < n)
            return false;
        answer(w, w->in.data, n);
    }
    w->in.len -= n;
    memmove(w->in.data, w->in.data + n, w->in.len);
    return true;
}

static void turn(struct world *w) {
    for (unsigned i = 0; i < MAX_TURNS; i++) {
        char piece[4096];
        const bool is_busy = sd_event_run(w->event, 0) > 0;
        const ssize_t n = recv(w->fd, piece, sizeof(piece), MSG_DONTWAIT);
        if (n > 0)
            (void)nc_buf_add(&w->in, piece, (size_t)n);
        while (take(w))
            continue;
        if (!is_busy && n <= 0)
            return;
    }
}

/* --- what happens */

static void announce(struct world *w, bool is_coming) {
    const uint32_t body = is_coming;

    w->is_coming = is_coming;
    send_message(w, &(struct message){.type = SIGNAL,
                                      .sender = ":1.1",
                                      .path = "/org/freedesktop/login1",
                                      .interface = LOGIND ".Manager",
                                      .member = "PrepareForShutdown",
                                      .signature = "b",
                                      .body = &body,
                                      .n = 4});
}

/* A signal of any content, of what we listen to. */
static void be_a_stranger(struct world *w, uint8_t which, const uint8_t *body, size_t n) {
    static const struct {
        const char *path, *interface, *member;
    } signals[] = {
        {"/org/freedesktop/login1", LOGIND ".Manager", "PrepareForShutdown"},
        {"/org/freedesktop/login1", LOGIND ".Manager", "PrepareForShutdownWithMetadata"},
        {"/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged"},
        {"/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local", "Disconnected"},
    };
    static const char *const signatures[] = {NULL, "b", "s", "sss", "v", "ba{sv}", "ay", "(bh)"};
    const size_t i = which % NC_ARRAY_SIZE(signals);

    send_message(w, &(struct message){.type = SIGNAL,
                                      .sender = ":1.66",
                                      .path = signals[i].path,
                                      .interface = signals[i].interface,
                                      .member = signals[i].member,
                                      .signature = signatures[(which >> 2) % 8],
                                      .body = body,
                                      .n = (which >> 2) % 8 ? n : 0});
}

/* logind was started again: the bus says so. */
static void change_owner(struct world *w) {
    nc_cleanup(nc_buf_done) struct nc_buf body = NC_BUF_INIT;

    turn(w);
    w->read = 0; /* the one before is not waited for */
    put_text(&body, LOGIND);
    put_text(&body, "");
    put_text(&body, ":1.1");
    send_message(w, &(struct message){.type = SIGNAL,
                                      .sender = "org.freedesktop.DBus",
                                      .path = "/org/freedesktop/DBus",
                                      .interface = "org.freedesktop.DBus",
                                      .member = "NameOwnerChanged",
                                      .signature = "sss",
                                      .body = body.data,
                                      .n = body.len});
}

static void hold(struct world *w, enum answers answers, bool is_held) {
    w->answers = answers;
    w->is_held = is_held;
    give_answer(w);
}

static void happen(struct world *w, const uint8_t *data, size_t n) {
    while (n > 0) {
        const enum op op = (enum op)(*data % _OP_MAX);
        const uint8_t more = *data / _OP_MAX;
        const size_t own = op == STRANGER || op == RAW ? more % 32u : 0;
        data++;
        n--;
        const size_t read_n = own < n ? own : n;
        if (op == TURN)
            turn(w);
        else if (op == PREPARE || op == CALL_OFF)
            announce(w, op == PREPARE);
        else if (op == STRANGER && read_n > 0)
            be_a_stranger(w, data[0], data + 1, read_n - 1);
        else if (op == ANSWERS)
            hold(w, (enum answers)(more % _ANSWERS_MAX), more / _ANSWERS_MAX % 2);
        else if (op == OWNER)
            change_owner(w);
        else if (op == RAW)
            send_bytes(w, data, read_n);
        data += read_n;
        n -= read_n;
    }
    turn(w);
}

static int open_bus(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[sizeof(address.sun_path) + 32];
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int n =
        snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "fuzz-bus-%d", (int)getpid());

    (void)snprintf(text, sizeof(text), "unix:abstract=%s", address.sun_path + 1);
    must(setenv("DBUS_SYSTEM_BUS_ADDRESS", text, 1) == 0);
    must(bind(fd, (struct sockaddr *)&address,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n))
             == 0
         && listen(fd, 8) == 0);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static int listener = -1;
    struct world w = {.fd = -1};
    struct nc_err err = NC_ERR_INIT;

    if (listener < 0)
        listener = open_bus();
    must(sd_event_new(&w.event) >= 0);
    must(
        nc_login_new(w.event,
                     &(struct nc_login_options){.told = on_told, .delay = on_delay, .userdata = &w},
                     &w.login, &err)
        == 0);
    w.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    must(w.fd >= 0);
    turn(&w);
    happen(&w, data, n);
    nc_login_free(w.login);
    sd_event_unref(w.event);
    nc_buf_done(&w.in);
    (void)close(w.fd);
    return 0;
}
