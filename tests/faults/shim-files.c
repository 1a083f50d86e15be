/*
 * Wrappers of what changes files. Each says what it is about, asks whether it is to fail, and does
 * what was asked by the system call itself.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void describe_open(struct call *c, int dir, const char *path, int flags) {
    const bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    bool is_new;

    shim_full_path(dir, path, c->what, sizeof(c->what));
    c->kind = changes ? FILES : LOOK;
    if (!changes)
        return;
    is_new = (flags & O_CREAT) && syscall(SYS_faccessat, AT_FDCWD, c->what, F_OK) < 0;
    snprintf(c->more, sizeof(c->more), "%s%s%s%s%s%s", flags & O_CREAT ? "creat," : "",
             flags & O_EXCL ? "excl," : "", flags & O_TRUNC ? "trunc," : "",
             flags & O_APPEND ? "append," : "", (flags & O_ACCMODE) != O_RDONLY ? "write" : "",
             is_new ? ",new" : "");
}

static int do_open(int dir, const char *path, int flags, mode_t mode) {
    CALL("open", FILES);

    if (!shim_is_us())
        return (int)syscall(SYS_openat, dir, path, flags, mode);
    describe_open(&c, dir, path, flags);
    return (int)shim_leave(&c, shim_enter(&c) ? -1 : syscall(SYS_openat, dir, path, flags, mode));
}

static mode_t mode_of(int flags, va_list *args) {
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(*args, int) : 0;
}

#define OPEN(name)                                                                                 \
    EXPORT int name(const char *path, int flags, ...) {                                            \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        const mode_t mode = mode_of(flags, &args);                                                 \
        va_end(args);                                                                              \
        return do_open(AT_FDCWD, path, flags, mode);                                               \
    }
#define OPENAT(name)                                                                               \
    EXPORT int name(int dir, const char *path, int flags, ...) {                                   \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        const mode_t mode = mode_of(flags, &args);                                                 \
        va_end(args);                                                                              \
        return do_open(dir, path, flags, mode);                                                    \
    }
OPEN(open)
OPEN(open64)
OPEN(__open_2)
OPEN(__open64_2)
OPENAT(openat)
OPENAT(openat64)
OPENAT(__openat_2)
OPENAT(__openat64_2)

/* Its name is made here, so that the log has the one that was really used. */
static int do_temporary(char *path, int flags) {
    char *x = path + strlen(path) - 6;
    const unsigned start = (unsigned)(uintptr_t)&flags ^ (unsigned)syscall(SYS_getpid) << 8;

    for (unsigned i = 0; i < 10000; i++) {
        snprintf(x, 7, "%06x", (start + i * 7919U) & 0xffffff);
        const int fd =
            do_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | (flags & ~O_ACCMODE), 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

EXPORT int mkostemp(char *path, int flags) {
    return do_temporary(path, flags);
}

EXPORT int mkstemp(char *path) {
    return do_temporary(path, 0);
}

static void describe_write(struct call *c, int fd, long at, size_t n) {
    if (c->kind == FILES && at < 0)
        at = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    if (c->kind == FILES)
        snprintf(c->more, sizeof(c->more), "%ld+%zu", at, n);
    else
        snprintf(c->more, sizeof(c->more), "%zu", n);
}

EXPORT ssize_t write(int fd, const void *data, size_t n) {
    CALL("write", FILES);

    if (!shim_is_us())
        return syscall(SYS_write, fd, data, n);
    const bool may_be_short = shim_describe_fd(&c, fd, true);
    describe_write(&c, fd, -1, n);
    return shim_leave(
        &c, shim_enter(&c) ? -1 : syscall(SYS_write, fd, data, shim_part(&c, may_be_short, n)));
}

static ssize_t do_pwrite(int fd, const void *data, size_t n, off_t at) {
    CALL("write", FILES);

    if (!shim_is_us())
        return syscall(SYS_pwrite64, fd, data, n, at);
    const bool may_be_short = shim_describe_fd(&c, fd, true);
    describe_write(&c, fd, at, n);
    return shim_leave(
        &c,
        shim_enter(&c) ? -1 : syscall(SYS_pwrite64, fd, data, shim_part(&c, may_be_short, n), at));
}

EXPORT ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    return do_pwrite(fd, data, n, at);
}

EXPORT ssize_t pwrite64(int fd, const void *data, size_t n, off_t at) {
    return do_pwrite(fd, data, n, at);
}

EXPORT ssize_t writev(int fd, const struct iovec *v, int n) {
    struct iovec less[SHIM_MAX_PARTS];
    CALL("write", FILES);

    if (!shim_is_us())
        return syscall(SYS_writev, fd, v, n);
    const bool may_be_short = shim_describe_fd(&c, fd, true);
    const size_t total = shim_total_of(v, (size_t)n);
    describe_write(&c, fd, -1, total);
    if (shim_enter(&c))
        return shim_leave(&c, -1);
    if (shim_part(&c, may_be_short, total) == total)
        return shim_leave(&c, syscall(SYS_writev, fd, v, n));
    return shim_leave(&c, syscall(SYS_writev, fd, less, shim_cut(less, v, (size_t)n, total / 2)));
}

/* A call on a descriptor of a file. */
#define ON_FD(call, given_name, params, args, more_text)                                           \
    EXPORT int call params {                                                                       \
        NEXT(call);                                                                                \
        CALL(given_name, FILES);                                                                   \
        if (!shim_is_us())                                                                         \
            return real args;                                                                      \
        shim_link_of(fd, c.what, sizeof(c.what));                                                  \
        more_text;                                                                                 \
        return (int)shim_leave(&c, shim_enter(&c) ? -1 : real args);                               \
    }
/* A call on a path. */
#define ON_PATH(call, given_name, params, args, dir, more_text)                                    \
    EXPORT int call params {                                                                       \
        NEXT(call);                                                                                \
        CALL(given_name, FILES);                                                                   \
        if (!shim_is_us())                                                                         \
            return real args;                                                                      \
        shim_full_path(dir, path, c.what, sizeof(c.what));                                         \
        more_text;                                                                                 \
        return (int)shim_leave(&c, shim_enter(&c) ? -1 : real args);                               \
    }
#define MORE_MODE snprintf(c.more, sizeof(c.more), "%03o", mode)
#define MORE_SIZE snprintf(c.more, sizeof(c.more), "%ld", (long)n)
#define MORE_OWNER snprintf(c.more, sizeof(c.more), "%d:%d", (int)u, (int)g)
#define MORE_NONE (void)0

ON_FD(fsync, "fsync", (int fd), (fd), MORE_NONE)
ON_FD(fdatasync, "fsync", (int fd), (fd), MORE_NONE)
ON_FD(fchmod, "chmod", (int fd, mode_t mode), (fd, mode), MORE_MODE)
ON_FD(fchown, "chown", (int fd, uid_t u, gid_t g), (fd, u, g), MORE_OWNER)
ON_FD(ftruncate, "truncate", (int fd, off_t n), (fd, n), MORE_SIZE)
ON_FD(ftruncate64, "truncate", (int fd, off64_t n), (fd, n), MORE_SIZE)
ON_PATH(truncate, "truncate", (const char *path, off_t n), (path, n), AT_FDCWD, MORE_SIZE)
ON_PATH(chmod, "chmod", (const char *path, mode_t mode), (path, mode), AT_FDCWD, MORE_MODE)
ON_PATH(fchmodat, "chmod", (int dir, const char *path, mode_t mode, int flags),
        (dir, path, mode, flags), dir, MORE_MODE)
ON_PATH(chown, "chown", (const char *path, uid_t u, gid_t g), (path, u, g), AT_FDCWD, MORE_OWNER)
ON_PATH(lchown, "chown", (const char *path, uid_t u, gid_t g), (path, u, g), AT_FDCWD, MORE_OWNER)
ON_PATH(fchownat, "chown", (int dir, const char *path, uid_t u, gid_t g, int flags),
        (dir, path, u, g, flags), dir, MORE_OWNER)
ON_PATH(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), AT_FDCWD, MORE_MODE)
ON_PATH(mkdirat, "mkdir", (int dir, const char *path, mode_t mode), (dir, path, mode), dir,
        MORE_MODE)
ON_PATH(rmdir, "rmdir", (const char *path), (path), AT_FDCWD, MORE_NONE)
ON_PATH(unlink, "unlink", (const char *path), (path), AT_FDCWD, MORE_NONE)
ON_PATH(unlinkat, "unlink", (int dir, const char *path, int flags), (dir, path, flags), dir,
        MORE_NONE)
ON_PATH(remove, "unlink", (const char *path), (path), AT_FDCWD, MORE_NONE)
ON_PATH(symlink, "symlink", (const char *to, const char *path), (to, path), AT_FDCWD, MORE_NONE)
ON_PATH(symlinkat, "symlink", (const char *to, int dir, const char *path), (to, dir, path), dir,
        MORE_NONE)

static int do_pair(const char *name, int nr, int from_dir, const char *from, int to_dir,
                   const char *to, unsigned flags) {
    char old[512], new[512];
    CALL(name, FILES);

    if (!shim_is_us())
        return (int)syscall(nr, from_dir, from, to_dir, to, flags);
    shim_full_path(from_dir, from, old, sizeof(old));
    shim_full_path(to_dir, to, new, sizeof(new));
    snprintf(c.what, sizeof(c.what), "%.500s -> %.500s", old, new);
    return (int)shim_leave(&c,
                           shim_enter(&c) ? -1 : syscall(nr, from_dir, from, to_dir, to, flags));
}

EXPORT int rename(const char *from, const char *to) {
    return do_pair("rename", SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return do_pair("rename", SYS_renameat2, from_dir, from, to_dir, to, 0);
}

EXPORT int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    return do_pair("rename", SYS_renameat2, from_dir, from, to_dir, to, flags);
}

EXPORT int link(const char *from, const char *to) {
    return do_pair("link", SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    return do_pair("link", SYS_linkat, from_dir, from, to_dir, to, (unsigned)flags);
}
