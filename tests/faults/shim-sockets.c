/*
 * Wrappers of what speaks to others, waits for them, or starts them; and of reading.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static ssize_t do_send(int fd, const void *data, size_t n, int flags, const struct sockaddr *to,
                       socklen_t len) {
    CALL("send", REQUESTS);

    if (!shim_is_us())
        return syscall(SYS_sendto, fd, data, n, flags, to, len);
    c.kind = shim_peer_of(fd, to, len, c.what, sizeof(c.what));
    snprintf(c.more, sizeof(c.more), "%zu", n);
    return shim_leave(&c, shim_enter(&c)
                              ? -1
                              : syscall(SYS_sendto, fd, data, shim_part(&c, shim_is_stream(fd), n),
                                        flags, to, len));
}

EXPORT ssize_t send(int fd, const void *data, size_t n, int flags) {
    return do_send(fd, data, n, flags, NULL, 0);
}

EXPORT ssize_t sendto(int fd, const void *data, size_t n, int flags, const struct sockaddr *to,
                      socklen_t len) {
    return do_send(fd, data, n, flags, to, len);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags) {
    struct iovec less[SHIM_MAX_PARTS];
    struct msghdr half = *msg;
    CALL("send", REQUESTS);

    if (!shim_is_us())
        return syscall(SYS_sendmsg, fd, msg, flags);
    const size_t total = shim_total_of(msg->msg_iov, msg->msg_iovlen);
    c.kind = shim_peer_of(fd, msg->msg_name, msg->msg_namelen, c.what, sizeof(c.what));
    snprintf(c.more, sizeof(c.more), "%zu", total);
    if (shim_enter(&c))
        return shim_leave(&c, -1);
    if (shim_part(&c, shim_is_stream(fd), total) != total) {
        half.msg_iov = less;
        half.msg_iovlen = shim_cut(less, msg->msg_iov, msg->msg_iovlen, total / 2);
    }
    return shim_leave(&c, syscall(SYS_sendmsg, fd, &half, flags));
}

EXPORT int connect(int fd, const struct sockaddr *to, socklen_t len) {
    CALL("connect", WAIT);

    if (!shim_is_us())
        return (int)syscall(SYS_connect, fd, to, len);
    (void)shim_peer_of(fd, to, len, c.what, sizeof(c.what));
    return (int)shim_leave(&c, shim_enter(&c) ? -1 : syscall(SYS_connect, fd, to, len));
}

static int do_accept(int fd, struct sockaddr *from, socklen_t *len, int flags) {
    CALL("accept", WAIT);

    if (!shim_is_us())
        return (int)syscall(SYS_accept4, fd, from, len, flags);
    (void)shim_peer_of(fd, NULL, 0, c.what, sizeof(c.what));
    return (int)shim_leave(&c, shim_enter(&c) ? -1 : syscall(SYS_accept4, fd, from, len, flags));
}

EXPORT int accept(int fd, struct sockaddr *from, socklen_t *len) {
    return do_accept(fd, from, len, 0);
}

EXPORT int accept4(int fd, struct sockaddr *from, socklen_t *len, int flags) {
    return do_accept(fd, from, len, flags);
}

#define ON_SOCKET(call, params, args, describe)                                                    \
    EXPORT int call params {                                                                       \
        NEXT(call);                                                                                \
        CALL(#call, WAIT);                                                                         \
        if (!shim_is_us())                                                                         \
            return real args;                                                                      \
        describe;                                                                                  \
        return (int)shim_leave(&c, shim_enter(&c) ? -1 : real args);                               \
    }

ON_SOCKET(socket, (int domain, int type, int protocol), (domain, type, protocol),
          snprintf(c.what, sizeof(c.what), domain == AF_UNIX ? "local" : "network"))
ON_SOCKET(bind, (int fd, const struct sockaddr *at, socklen_t len), (fd, at, len),
          (void)shim_peer_of(fd, at, len, c.what, sizeof(c.what)))
ON_SOCKET(listen, (int fd, int backlog), (fd, backlog),
          (void)shim_peer_of(fd, NULL, 0, c.what, sizeof(c.what)))

EXPORT int close(int fd) {
    CALL("close", WAIT);

    if (!shim_is_us())
        return (int)syscall(SYS_close, fd);
    if (shim_describe_fd(&c, fd, false), c.kind == LOOK)
        c.kind = WAIT;
    const bool fails = shim_enter(&c);
    const int code = errno;
    const long r = syscall(SYS_close, fd);
    if (fails)
        errno = code;
    return (int)shim_leave(&c, fails ? -1 : r);
}

/* --- reading */

static ssize_t do_read(int fd, void *data, size_t n) {
    CALL("read", LOOK);

    if (!shim_is_us())
        return syscall(SYS_read, fd, data, n);
    const bool may_be_short = shim_describe_fd(&c, fd, false);
    snprintf(c.more, sizeof(c.more), "%zu", n);
    return shim_leave(
        &c, shim_enter(&c) ? -1 : syscall(SYS_read, fd, data, shim_part(&c, may_be_short, n)));
}

EXPORT ssize_t read(int fd, void *data, size_t n) {
    return do_read(fd, data, n);
}

EXPORT ssize_t __read_chk(int fd, void *data, size_t n, size_t room);
EXPORT ssize_t __read_chk(int fd, void *data, size_t n, size_t room) {
    return do_read(fd, data, n < room ? n : room);
}

static ssize_t do_recv(int fd, void *data, size_t n, int flags, struct sockaddr *from,
                       socklen_t *len) {
    CALL("read", WAIT);

    if (!shim_is_us())
        return syscall(SYS_recvfrom, fd, data, n, flags, from, len);
    const bool may_be_short = shim_describe_fd(&c, fd, false);
    snprintf(c.more, sizeof(c.more), "%zu", n);
    return shim_leave(&c, shim_enter(&c)
                              ? -1
                              : syscall(SYS_recvfrom, fd, data, shim_part(&c, may_be_short, n),
                                        flags, from, len));
}

EXPORT ssize_t recv(int fd, void *data, size_t n, int flags) {
    return do_recv(fd, data, n, flags, NULL, NULL);
}

EXPORT ssize_t __recv_chk(int fd, void *data, size_t n, size_t room, int flags);
EXPORT ssize_t __recv_chk(int fd, void *data, size_t n, size_t room, int flags) {
    return do_recv(fd, data, n < room ? n : room, flags, NULL, NULL);
}

EXPORT ssize_t recvfrom(int fd, void *data, size_t n, int flags, struct sockaddr *from,
                        socklen_t *len) {
    return do_recv(fd, data, n, flags, from, len);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags) {
    CALL("read", WAIT);

    if (!shim_is_us())
        return syscall(SYS_recvmsg, fd, msg, flags);
    (void)shim_describe_fd(&c, fd, false);
    return shim_leave(&c, shim_enter(&c) ? -1 : syscall(SYS_recvmsg, fd, msg, flags));
}

/* --- waiting and starting */

ON_SOCKET(poll, (struct pollfd * p, nfds_t n, int msec), (p, n, msec), (void)0)
ON_SOCKET(flock, (int fd, int how), (fd, how), shim_link_of(fd, c.what, sizeof(c.what)))
ON_SOCKET(pipe2, (int fds[2], int flags), (fds, flags), (void)0)
ON_SOCKET(epoll_create1, (int flags), (flags), (void)0)
ON_SOCKET(epoll_ctl, (int fd, int op, int on, struct epoll_event *e), (fd, op, on, e), (void)0)
ON_SOCKET(timerfd_create, (int clock, int flags), (clock, flags), (void)0)
ON_SOCKET(eventfd, (unsigned value, int flags), (value, flags), (void)0)
ON_SOCKET(inotify_init1, (int flags), (flags), (void)0)
ON_SOCKET(inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask),
          shim_full_path(AT_FDCWD, path, c.what, sizeof(c.what)))

static int do_epoll(int fd, struct epoll_event *events, int n, int msec) {
    CALL("poll", WAIT);

    if (!shim_is_us())
        return (int)syscall(SYS_epoll_pwait, fd, events, n, msec, NULL, 8);
    return (int)shim_leave(
        &c, shim_enter(&c) ? -1 : syscall(SYS_epoll_pwait, fd, events, n, msec, NULL, 8));
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int n, int msec) {
    return do_epoll(fd, events, n, msec);
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *within,
                        const sigset_t *mask) {
    CALL("poll", WAIT);

    if (!shim_is_us() || mask)
        return (int)syscall(SYS_epoll_pwait2, fd, events, n, within, mask, 8);
    return (int)shim_leave(
        &c, shim_enter(&c) ? -1 : syscall(SYS_epoll_pwait2, fd, events, n, within, NULL, 8));
}

EXPORT pid_t fork(void) {
    NEXT(fork);
    CALL("fork", PROCESS);

    if (!shim_is_us())
        return real();
    if (shim_enter(&c))
        return (pid_t)shim_leave(&c, -1);
    const pid_t pid = real();
    return pid == 0 ? 0 : (pid_t)shim_leave(&c, pid);
}

EXPORT int kill(pid_t pid, int sig) {
    CALL("kill", PROCESS);

    if (!shim_is_us())
        return (int)syscall(SYS_kill, pid, sig);
    snprintf(c.what, sizeof(c.what), "%d", (int)pid);
    snprintf(c.more, sizeof(c.more), "%d", sig);
    return (int)shim_leave(&c, shim_enter(&c) ? -1 : syscall(SYS_kill, pid, sig));
}
