/*
 * Presses time together for a program that mostly waits.
 *
 * Knows: what such a program waits with (epoll and timerfd), and with which calls it reads the
 * clock and talks over TCP. Gives: a library for LD_PRELOAD. Whenever the program would sleep, and
 * nobody owes it an answer, the clock jumps to the moment of its next timer. FAST_CLOCK names a
 * file (struct page) that tells others how far the clock is ahead. FAST_CLOCK_QUICK is the port of
 * a server that only ever answers: after it, there is no need to listen for more. Must not: be
 * linked into anything, or let time jump over an answer that is on its way. It is made for programs
 * of one thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define FDS 1024
#define NEVER UINT64_MAX
#define SEC UINT64_C(1000000000)
#define PATIENCE (2 * SEC)      /* an answer that takes longer does not come: time goes on */
#define QUIET (SEC * 3 / 10000) /* what a server says unasked comes soon after something else */

struct page {
    volatile uint64_t ahead_nsec; /* of the true clock */
    volatile uint64_t jumps;
    volatile uint64_t gave_up; /* answers that did not come */
};

enum kind { NOTHING, TIMER, QUICK, TALKING };

static struct {
    enum kind kind;
    uint64_t owed_nsec; /* true time since when an answer is owed; 0 = none */
    uint64_t due_nsec;  /* of a timer, in the program's time; NEVER = not armed */
    clockid_t clock;
} fds[FDS];

static struct page nowhere, *page = &nowhere;
static uint64_t observed_nsec; /* true time of the last word on a connection that is not quick */
static int top;                /* no descriptor in the table is higher */

#define REAL(name) ((__typeof__(&name))real_##name)
static void *real_clock_gettime, *real_timerfd_create, *real_timerfd_settime, *real_epoll_wait,
    *real_connect, *real_send, *real_sendto, *real_sendmsg, *real_recv, *real_recvfrom,
    *real_recvmsg, *real_read, *real_write, *real_close;

static void *find(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);

    if (!found)
        abort();
    return found;
}

static void find_all(void) {
    real_timerfd_create = find("timerfd_create");
    real_timerfd_settime = find("timerfd_settime");
    real_epoll_wait = find("epoll_wait");
    real_connect = find("connect");
    real_send = find("send");
    real_sendto = find("sendto");
    real_sendmsg = find("sendmsg");
    real_recv = find("recv");
    real_recvfrom = find("recvfrom");
    real_recvmsg = find("recvmsg");
    real_read = find("read");
    real_write = find("write");
    real_close = find("close");
    real_clock_gettime = find("clock_gettime");
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAST_CLOCK");
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at = MAP_FAILED;

    if (!real_clock_gettime)
        find_all();
    if (fd >= 0) {
        at = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        REAL(close)(fd);
    }
    if (at == MAP_FAILED)
        abort();
    page = at;
}

/* --- the clock */
static uint64_t true_nsec(clockid_t clock) {
    struct timespec ts = {0, 0};

    if (!real_clock_gettime)
        find_all();
    REAL(clock_gettime)(clock, &ts);
    return (uint64_t)ts.tv_sec * SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t now_nsec(clockid_t clock) {
    return true_nsec(clock) + page->ahead_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *ts) {
    uint64_t nsec;

    if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || clock < 0) {
        if (!real_clock_gettime)
            find_all();
        return REAL(clock_gettime)(clock, ts);
    }
    nsec = now_nsec(clock);
    ts->tv_sec = (time_t)(nsec / SEC);
    ts->tv_nsec = (long)(nsec % SEC);
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    const uint64_t nsec = now_nsec(CLOCK_REALTIME);

    (void)zone;
    tv->tv_sec = (time_t)(nsec / SEC);
    tv->tv_usec = (suseconds_t)(nsec % SEC / 1000);
    return 0;
}

time_t time(time_t *ret) {
    const time_t now = (time_t)(now_nsec(CLOCK_REALTIME) / SEC);

    if (ret)
        *ret = now;
    return now;
}

/* --- what is open */
static bool is_known(int fd, enum kind least) {
    return fd >= 0 && fd < FDS && fds[fd].kind >= least;
}

static void remember(int fd, enum kind kind) {
    if (fd < 0 || fd >= FDS)
        return;
    fds[fd].kind = kind;
    fds[fd].owed_nsec = 0;
    fds[fd].due_nsec = NEVER;
    if (fd > top)
        top = fd;
}

static void asked(int fd) {
    if (is_known(fd, QUICK))
        fds[fd].owed_nsec = true_nsec(CLOCK_MONOTONIC);
}

static void answered(int fd, ssize_t got) {
    if (!is_known(fd, QUICK) || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    fds[fd].owed_nsec = 0;
    if (fds[fd].kind == TALKING)
        observed_nsec = true_nsec(CLOCK_MONOTONIC);
}

static bool is_quick(const struct sockaddr *to) {
    const char *port = getenv("FAST_CLOCK_QUICK");

    return port && to->sa_family == AF_INET
           && ntohs(((const struct sockaddr_in *)to)->sin_port) == atoi(port);
}

int connect(int fd, const struct sockaddr *to, socklen_t n) {
    if (to->sa_family == AF_INET || to->sa_family == AF_INET6) {
        remember(fd, is_quick(to) ? QUICK : TALKING);
        asked(fd);
    }
    return REAL(connect)(fd, to, n);
}

int close(int fd) {
    if (is_known(fd, TIMER))
        fds[fd].kind = NOTHING;
    if (!real_close)
        find_all();
    return REAL(close)(fd);
}

ssize_t send(int fd, const void *data, size_t n, int flags) {
    asked(fd);
    return REAL(send)(fd, data, n, flags);
}

ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to,
               socklen_t to_n) {
    asked(fd);
    return REAL(sendto)(fd, data, n, flags, to, to_n);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
    asked(fd);
    return REAL(sendmsg)(fd, m, flags);
}

ssize_t write(int fd, const void *data, size_t n) {
    if (!real_write)
        find_all();
    asked(fd);
    return REAL(write)(fd, data, n);
}

ssize_t recv(int fd, void *data, size_t n, int flags) {
    const ssize_t got = REAL(recv)(fd, data, n, flags);

    answered(fd, got);
    return got;
}

ssize_t recvfrom(int fd, void *restrict data, size_t n, int flags, struct sockaddr *restrict from,
                 socklen_t *restrict from_n) {
    const ssize_t got = REAL(recvfrom)(fd, data, n, flags, from, from_n);

    answered(fd, got);
    return got;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags) {
    const ssize_t got = REAL(recvmsg)(fd, m, flags);

    answered(fd, got);
    return got;
}

ssize_t read(int fd, void *data, size_t n) {
    ssize_t got;

    if (!real_read)
        find_all();
    got = REAL(read)(fd, data, n);
    answered(fd, got);
    return got;
}

/* --- timers: the true one is armed only when its time has come */
int timerfd_create(int clock, int flags) {
    const int fd = REAL(timerfd_create)(clock, flags);

    remember(fd, TIMER);
    if (is_known(fd, TIMER))
        fds[fd].clock = clock;
    return fd;
}

static int ring(int fd, bool now) {
    const struct itimerspec it = {.it_value = {0, now}};

    return REAL(timerfd_settime)(fd, 0, &it, NULL);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *want, struct itimerspec *old) {
    const uint64_t at = (uint64_t)want->it_value.tv_sec * SEC + (uint64_t)want->it_value.tv_nsec;
    uint64_t now;

    if (!is_known(fd, TIMER) || fds[fd].kind != TIMER || want->it_interval.tv_sec
        || want->it_interval.tv_nsec)
        abort(); /* the programs do neither */
    now = now_nsec(fds[fd].clock);
    fds[fd].due_nsec = at == 0 ? NEVER : (flags & TFD_TIMER_ABSTIME) ? at : now + at;
    if (old)
        memset(old, 0, sizeof(*old));
    if (fds[fd].due_nsec != NEVER && fds[fd].due_nsec <= now) {
        fds[fd].due_nsec = NEVER;
        return ring(fd, true);
    }
    return ring(fd, false);
}

/* Nanoseconds until the next timer, NEVER = none is armed. */
static uint64_t until_timer(void) {
    uint64_t least = NEVER, now;
    int i;

    for (i = 0; i <= top; i++) {
        if (fds[i].kind != TIMER || fds[i].due_nsec == NEVER)
            continue;
        now = now_nsec(fds[i].clock);
        if (fds[i].due_nsec <= now)
            return 0;
        if (fds[i].due_nsec - now < least)
            least = fds[i].due_nsec - now;
    }
    return least;
}

static void ring_all(void) {
    int i;

    for (i = 0; i <= top; i++)
        if (fds[i].kind == TIMER && fds[i].due_nsec != NEVER
            && fds[i].due_nsec <= now_nsec(fds[i].clock)) {
            fds[i].due_nsec = NEVER;
            ring(i, true);
        }
}

/* Nanoseconds that must truly pass before time may jump. */
static uint64_t until_jump(void) {
    const uint64_t now = true_nsec(CLOCK_MONOTONIC);
    uint64_t wait = 0;
    int i;

    if (observed_nsec + QUIET > now)
        wait = observed_nsec + QUIET - now;
    for (i = 0; i <= top; i++) {
        if (fds[i].kind < QUICK || fds[i].owed_nsec == 0)
            continue;
        if (fds[i].owed_nsec + PATIENCE <= now) {
            fds[i].owed_nsec = 0;
            page->gave_up++;
        } else if (fds[i].owed_nsec + PATIENCE - now > wait)
            wait = fds[i].owed_nsec + PATIENCE - now;
    }
    return wait;
}

static int look(int epoll, uint64_t nsec) {
    const struct timespec ts = {(time_t)(nsec / SEC), (long)(nsec % SEC)};
    struct pollfd p = {.fd = epoll, .events = POLLIN};

    return ppoll(&p, 1, &ts, NULL);
}

int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout) {
    const uint64_t begun = now_nsec(CLOCK_MONOTONIC);
    const uint64_t end = timeout < 0 ? NEVER : begun + (uint64_t)timeout * (SEC / 1000);

    for (;;) {
        const int n = REAL(epoll_wait)(epoll, events, max, 0);
        const uint64_t now = now_nsec(CLOCK_MONOTONIC), wait = until_jump();
        uint64_t next = until_timer();

        if (n != 0 || now >= end)
            return n;
        if (end != NEVER && end - now < next)
            next = end - now;
        if (next == NEVER && wait == 0)
            return REAL(epoll_wait)(epoll, events, max, timeout);
        if (wait > 0 && next > 0) {
            if (look(epoll, wait < next ? wait : next) < 0)
                return -1;
            continue;
        }
        page->ahead_nsec += next;
        page->jumps++;
        ring_all();
    }
}
