/*
 * What the wrappers of the shim share: one call that is checked, and what is decided about it.
 * The interface is described in shim.c.
 */
#ifndef NC_TESTS_SHIM_H
#define NC_TESTS_SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SHIM_SHORT (-1)
#define SHIM_MAX_PARTS 64

enum kind { LOOK = 1, WAIT = 2, FILES = 4, REQUESTS = 8, LOCAL = 16, PROCESS = 32 };

struct call {
    const char *name;
    enum kind kind;
    char what[2 * 512];
    char more[64];
    unsigned number; /* among those that are counted; 0 = it is not */
    int fault;       /* an errno, SHIM_SHORT, or 0 */
};

/* Are we the program that was started with us, not a child of it? */
bool shim_is_us(void);

/* Numbers the call, kills before it, decides about it. True where it is to fail; errno says how. */
bool shim_enter(struct call *c);

/* Logs, kills after it; gives `result` and leaves errno alone. */
long shim_leave(struct call *c, long result);

/* The path behind a descriptor; "" where there is none. */
void shim_link_of(int fd, char *to, size_t n);
void shim_full_path(int dir, const char *path, char *to, size_t n);

/* What the socket, or the address if there is one, speaks to; gives the class of what is sent
 * there. */
enum kind shim_peer_of(int fd, const struct sockaddr *given, socklen_t n, char *to, size_t size);
bool shim_is_stream(int fd);

/* Fills in kind, name and `what` of a write or read; true where half of it may be done. */
bool shim_describe_fd(struct call *c, int fd, bool is_write);

/* How much of n is to be done. */
size_t shim_part(const struct call *c, bool may_be_short, size_t n);
size_t shim_total_of(const struct iovec *v, size_t n);

/* The first bytes of v; gives how many parts that takes. */
size_t shim_cut(struct iovec *to, const struct iovec *v, size_t n, size_t bytes);

/* The function of this name that would have been called without us. */
void *shim_next(const char *name);

#define CALL(call_name, call_kind)                                                                 \
    struct call c;                                                                                 \
    c.name = (call_name);                                                                          \
    c.kind = (call_kind);                                                                          \
    c.what[0] = c.more[0] = '\0'
/* The real function, found once. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) real;                                                                 \
    if (!real)                                                                                     \
    real = (__typeof__(&name))(uintptr_t)shim_next(#name)
#define EXPORT __attribute__((visibility("default")))

#endif
