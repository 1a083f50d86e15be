/* clang-format off */
/*
 * Stands between a program of ours and the kernel: says what the program does to the world, kills it at a chosen call,
 * and makes chosen calls fail. Loaded by LD_PRELOAD; not for sanitized programs.
 *
 * It acts in the program alone that was started with it (nodeclaimd, nodeclaim-controller): a child neither inherits
 * the variables nor, between fork and exec, is it watched.
 *
 *   NC_SHIM_LOG=FILE  one line a call that changes the world, appended after the call, fields parted by tabs:
 *     SEQ     1, 2, ... of all lines
 *     N       1, 2, ... of the calls that NC_SHIM_COUNT counts, failed ones included; 0 = not counted
 *     CLASS   files | requests | local | process, with NC_SHIM_ALL=1 also look | wait
 *     CALL    files: open write fsync rename link unlink mkdir rmdir symlink chmod chown truncate
 *             requests, local: send          process: fork kill
 *             look: open read                wait: read close connect accept socket bind listen poll flock pipe2
 *             epoll_create1 epoll_ctl timerfd_create eventfd inotify_init1 inotify_add_watch
 *     WHAT    the absolute path ("OLD -> NEW" of rename and link), or the peer: ADDRESS:PORT, the path of a local
 *             socket, @NAME of an abstract one
 *     MORE    open: creat,excl,trunc,append,write and "new" where the file was not there; write: OFFSET+LENGTH;
 *             chmod, mkdir: the mode; send, read: LENGTH; else -
 *     RESULT  what the call gave, or -ERRNO by name
 *     HOW     real | fault | before (killed before the call) | after (killed after it)
 *   NC_SHIM_COUNT=LIST  which classes are counted, of files,requests,local,process, or all (the default). requests are
 *                       bytes to the network, local those to sockets of this machine (bus, journal, notify).
 *   NC_SHIM_ONLY=TEXT   of these only calls whose WHAT contains the text.
 *   NC_SHIM_KILL=N[:before|:after]  SIGKILL to itself before (the default) or after the Nth counted call.
 *   NC_SHIM_FAIL=RULE[;RULE...]     RULE = CALL[,CALL...]:NTH[-MTH|+]:FAULT[:TEXT]. Each rule counts the calls that
 *                       match it; those from NTH to MTH (only NTH; with + all from there) fail. CALL as in the log, or
 *                       *; TEXT must be in WHAT, at its end where a $ follows it. FAULT is an errno's name, or `short`: half of what was to be written
 *                       or read (files, pipes and streams). The first rule that says something is obeyed. A close that
 *                       fails has closed.
 *   NC_SHIM_WHILE=FILE  the rules act while this file exists, and count only then.
 *
 * What goes through stdio, or is called inside of libc, is not seen; the programs use that for stdout, stderr and
 * reading /proc only. test_shim.py compares with strace.
 */
/* clang-format on */
#include "shim.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_RULES 16
#define LOG_FD 900
#define ERRNO_END 134

static const char *const kind_names[] = {"look", "wait", "files", "requests", "local", "process"};

struct rule {
    char calls[96]; /* ",open,write," */
    char text[160];
    unsigned first, last;
    int fault; /* an errno, or SHIM_SHORT */
    atomic_uint seen;
};

static struct rule rules[MAX_RULES];
static unsigned n_rules, counted = FILES | REQUESTS | LOCAL | PROCESS, kill_at;
static bool kill_after, is_chatty;
static char only[160], while_file[256];
static int log_fd = -1;
static pid_t self; /* 0 = not us */
static atomic_uint sequence, number;

/* --- settings */

static int fault_of(const char *name) {
    if (strcmp(name, "short") == 0)
        return SHIM_SHORT;
    for (int i = 1; i < ERRNO_END; i++)
        if (strerrorname_np(i) && strcmp(strerrorname_np(i), name) == 0)
            return i;
    dprintf(2, "shim: no such fault: %s\n", name);
    _exit(99);
}

static void add_rule(char *text) {
    char *rest = NULL, *calls = strtok_r(text, ":", &rest), *range = strtok_r(NULL, ":", &rest),
         *fault = strtok_r(NULL, ":", &rest);
    struct rule *r = &rules[n_rules];
    char *end;

    if (!fault || n_rules == MAX_RULES) {
        dprintf(2, "shim: not a rule, or too many: %s\n", text);
        _exit(99);
    }
    snprintf(r->calls, sizeof(r->calls), ",%s,", calls);
    snprintf(r->text, sizeof(r->text), "%s", rest ? rest : "");
    r->first = r->last = (unsigned)strtoul(range, &end, 10);
    if (*end == '+')
        r->last = ~0U;
    else if (*end == '-')
        r->last = (unsigned)strtoul(end + 1, NULL, 10);
    r->fault = fault_of(fault);
    n_rules++;
}

static void read_kinds(const char *text) {
    if (strcmp(text, "all") == 0)
        return;
    counted = 0;
    for (unsigned i = 0; i < sizeof(kind_names) / sizeof(kind_names[0]); i++)
        if (strstr(text, kind_names[i]))
            counted |= 1U << i;
}

static const char *take(const char *name, char *to, size_t n) {
    const char *value = getenv(name);

    snprintf(to, n, "%s", value ? value : "");
    unsetenv(name);
    return *to ? to : NULL;
}

__attribute__((constructor)) static void begin(void) {
    char text[4096], *rest = NULL;

    if (strcmp(program_invocation_short_name, "nodeclaimd") != 0
        && strcmp(program_invocation_short_name, "nodeclaim-controller") != 0)
        return;
    unsetenv("LD_PRELOAD");
    if (take("NC_SHIM_LOG", text, sizeof(text))) {
        const int fd = (int)syscall(SYS_openat, AT_FDCWD, text,
                                    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        log_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOG_FD);
        if (fd >= 0)
            syscall(SYS_close, fd);
    }
    if (take("NC_SHIM_COUNT", text, sizeof(text)))
        read_kinds(text);
    if (take("NC_SHIM_KILL", text, sizeof(text))) {
        kill_at = (unsigned)strtoul(text, NULL, 10);
        kill_after = strstr(text, ":after") != NULL;
    }
    if (take("NC_SHIM_FAIL", text, sizeof(text)))
        for (char *r = strtok_r(text, ";", &rest); r; r = strtok_r(NULL, ";", &rest))
            add_rule(r);
    is_chatty = take("NC_SHIM_ALL", text, sizeof(text)) != NULL;
    take("NC_SHIM_ONLY", only, sizeof(only));
    take("NC_SHIM_WHILE", while_file, sizeof(while_file));
    self = (pid_t)syscall(SYS_getpid);
}

bool shim_is_us(void) {
    return self && (pid_t)syscall(SYS_getpid) == self;
}

/* --- one call */

static void say(const struct call *c, long result, const char *how) {
    char line[sizeof(c->what) + 256], given[32];

    if (log_fd < 0 || (c->kind <= WAIT && !is_chatty))
        return;
    if (result < 0)
        snprintf(given, sizeof(given), "-%s", strerrorname_np((int)-result));
    else
        snprintf(given, sizeof(given), "%ld", result);
    const int n =
        snprintf(line, sizeof(line), "%u\t%u\t%s\t%s\t%s\t%s\t%s\t%s\n",
                 atomic_fetch_add(&sequence, 1) + 1, c->number, kind_names[__builtin_ctz(c->kind)],
                 c->name, c->what, *c->more ? c->more : "-", given, how);
    (void)!syscall(SYS_write, log_fd, line, (size_t)n);
}

static void die(void) {
    syscall(SYS_kill, self, SIGKILL);
}

static bool has_text(const char *text, const char *what) {
    const size_t n = strlen(text), size = strlen(what);

    if (n == 0 || text[n - 1] != '$')
        return strstr(what, text) != NULL;
    return size >= n - 1 && strncmp(what + size - (n - 1), text, n - 1) == 0;
}

static bool rule_matches(const struct rule *r, const struct call *c) {
    char name[32];

    snprintf(name, sizeof(name), ",%s,", c->name);
    return (strstr(r->calls, name) || strcmp(r->calls, ",*,") == 0) && has_text(r->text, c->what);
}

static int fault_for(const struct call *c) {
    int fault = 0;

    if (!n_rules || (*while_file && syscall(SYS_faccessat, AT_FDCWD, while_file, F_OK) < 0))
        return 0;
    for (unsigned i = 0; i < n_rules; i++) {
        if (!rule_matches(&rules[i], c))
            continue;
        const unsigned n = atomic_fetch_add(&rules[i].seen, 1) + 1;
        if (!fault && n >= rules[i].first && n <= rules[i].last)
            fault = rules[i].fault;
    }
    return fault;
}

/* Is the call to fail? Then errno says how. */
bool shim_enter(struct call *c) {
    const int before = errno;

    c->number = 0;
    if (((unsigned)c->kind & counted) && strstr(c->what, only))
        c->number = atomic_fetch_add(&number, 1) + 1;
    if (kill_at && c->number == kill_at && !kill_after) {
        say(c, 0, "before");
        die();
    }
    c->fault = fault_for(c);
    errno = c->fault > 0 ? c->fault : before;
    return c->fault > 0;
}

long shim_leave(struct call *c, long result) {
    const int code = errno;
    const bool is_last = kill_at && c->number == kill_at && kill_after;

    say(c, result < 0 ? -(long)code : result, is_last ? "after" : c->fault ? "fault" : "real");
    if (is_last)
        die();
    errno = code;
    return result;
}

/* --- what a descriptor or a name stands for */

void shim_link_of(int fd, char *to, size_t n) {
    char link[40];

    snprintf(link, sizeof(link), fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    const long got = syscall(SYS_readlinkat, AT_FDCWD, link, to, n - 1);
    to[got > 0 ? got : 0] = '\0';
}

void shim_full_path(int dir, const char *path, char *to, size_t n) {
    char folder[256];

    if (path[0] == '/') {
        snprintf(to, n, "%s", path);
        return;
    }
    shim_link_of(dir, folder, sizeof(folder));
    snprintf(to, n, "%s/%s", folder, path);
}

static void address_text(const struct sockaddr *a, socklen_t n, char *to, size_t size) {
    char ip[INET6_ADDRSTRLEN] = "";

    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)a;
        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
        snprintf(to, size, "%s:%u", ip, ntohs(in->sin_port));
    } else if (a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)a;
        inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
        snprintf(to, size, "%s:%u", ip, ntohs(in->sin6_port));
    } else if (a->sa_family == AF_UNIX && n > sizeof(sa_family_t)) {
        const struct sockaddr_un *un = (const void *)a;
        const int len = (int)(n - sizeof(sa_family_t));
        snprintf(to, size, "%s%.*s", un->sun_path[0] ? "" : "@", un->sun_path[0] ? len : len - 1,
                 un->sun_path + (un->sun_path[0] ? 0 : 1));
    } else {
        snprintf(to, size, "socket of family %d", a->sa_family);
    }
}

/* Fills in what the socket speaks to; the class of what is sent there. */
enum kind shim_peer_of(int fd, const struct sockaddr *given, socklen_t n, char *to, size_t size) {
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof(peer);

    if (given && n >= sizeof(sa_family_t)) {
        address_text(given, n, to, size);
        return given->sa_family == AF_UNIX ? LOCAL : REQUESTS;
    }
    if (syscall(SYS_getpeername, fd, &peer, &len) < 0
        && syscall(SYS_getsockname, fd, &peer, &len) < 0)
        return LOCAL;
    address_text((struct sockaddr *)&peer, len, to, size);
    return peer.ss_family == AF_UNIX ? LOCAL : REQUESTS;
}

bool shim_is_stream(int fd) {
    socklen_t n = sizeof(int);
    int type = 0;

    return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM;
}

/* For write and read; true where half of it may be done. */
bool shim_describe_fd(struct call *c, int fd, bool is_write) {
    struct stat st;

    c->kind = WAIT;
    if (syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) < 0)
        return false;
    if (S_ISSOCK(st.st_mode)) {
        const enum kind to = shim_peer_of(fd, NULL, 0, c->what, sizeof(c->what));
        c->kind = is_write ? to : WAIT;
        if (is_write)
            c->name = "send";
        return shim_is_stream(fd);
    }
    shim_link_of(fd, c->what, sizeof(c->what));
    if (S_ISREG(st.st_mode))
        c->kind = is_write ? FILES : LOOK;
    return S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode);
}

size_t shim_part(const struct call *c, bool may_be_short, size_t n) {
    return c->fault == SHIM_SHORT && may_be_short && n > 1 ? n / 2 : n;
}

size_t shim_total_of(const struct iovec *v, size_t n) {
    size_t total = 0;

    for (size_t i = 0; i < n; i++)
        total += v[i].iov_len;
    return total;
}

/* The first bytes of it; how many parts that takes. */
size_t shim_cut(struct iovec *to, const struct iovec *v, size_t n, size_t bytes) {
    size_t used = 0;

    for (; used < n && used < SHIM_MAX_PARTS && bytes; used++) {
        to[used] = v[used];
        if (to[used].iov_len > bytes)
            to[used].iov_len = bytes;
        bytes -= to[used].iov_len;
    }
    return used;
}

void *shim_next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);

    if (!found)
        _exit(98);
    return found;
}
