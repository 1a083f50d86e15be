/*
 * Files: capped reads, atomic writes.
 *
 * A write goes to a temporary file beside its target and is renamed over it; whatever fails, the
 * target is what it was and the temporary file is gone. A process that is killed in between leaves
 * it; the next write of the same target takes it over. Symbolic links at the target are replaced,
 * not followed.
 */
#include "nc/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nc/str.h"

#define READ_CHUNK_BYTES 16384

int nc_file_fail(struct nc_err *err, int code, const char *verb, const char *path) {
    const int r = nc_err_host(err, code, "%s %s", verb, path);

    if (code == ENOSPC || code == EDQUOT)
        nc_err_remedy(err, "free space on the file system of %s", path);
    else if (code == EROFS)
        nc_err_remedy(err, "make the file system of %s writable", path);
    else if (code == EACCES || code == EPERM)
        nc_err_remedy(err, "run as root, or allow access to %s", path);
    else if (code == EMFILE || code == ENFILE)
        nc_err_remedy(err, NC_REMEDY_OPEN_FILES);
    else if (code == EIO)
        nc_err_remedy(err, "see in the kernel's log what is wrong with the disk of %s", path);
    else if (code == ENOMEM)
        nc_err_remedy(err, "free memory on this host");
    else if (code == ENOENT || code == ENOTDIR)
        nc_err_remedy(err, "check the path, and that its folder is there");
    else
        nc_err_remedy(err, "a regular file is expected there");
    return r;
}

static void close_fd(const int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
}

char *nc_path_below(const char *root, const char *path) {
    if (!root || !*root)
        return nc_strdup(path);
    size_t n = strlen(root);
    while (n > 0 && root[n - 1] == '/')
        n--;
    while (path[0] == '/' && path[1] == '/')
        path++;
    return nc_asprintf("%.*s%s%s", (int)n, root, path[0] == '/' ? "" : "/", path);
}

bool nc_is_there(const char *root, const char *path) {
    nc_auto_free char *below = nc_path_below(root, path);

    return access(below, F_OK) == 0;
}

int nc_file_read_all(int fd, size_t max, struct nc_buf *out) {
    char chunk[READ_CHUNK_BYTES];
    size_t total = 0;
    int r = nc_buf_add(out, "", 0);

    while (r == 0) {
        const ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            r = -errno;
        } else if ((size_t)got > max - total) {
            r = -EFBIG;
        } else {
            total += (size_t)got;
            r = nc_buf_add(out, chunk, (size_t)got);
        }
    }
    explicit_bzero(chunk, sizeof(chunk));
    return r;
}

int nc_file_read(const char *path, size_t max, struct nc_buf *out, struct nc_err *err) {
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    nc_cleanup(close_fd) const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    return fd < 0 ? nc_file_fail(err, errno, "read", path)
                  : nc_file_read_fd(fd, path, max, out, err);
}

int nc_file_read_fd(int fd, const char *path, size_t max, struct nc_buf *out, struct nc_err *err) {
    const size_t before = out->len;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return nc_file_fail(err, errno, "read", path);
    if (!S_ISREG(st.st_mode))
        return nc_err_set(err, NC_ERR_HOST, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
                          "read %s: not a regular file", path);
    const int r =
        st.st_size > 0 && (size_t)st.st_size > max ? -EFBIG : nc_file_read_all(fd, max, out);
    if (r == 0)
        return 0;
    out->len = before;
    if (out->data)
        out->data[before] = '\0';
    if (r == -EFBIG)
        return nc_err_set(err, NC_ERR_HOST, EFBIG, "read %s: larger than the %zu bytes allowed",
                          path, max);
    return nc_file_fail(err, -r, "read", path);
}

/* One folder. The mode is set on what was made here only, whatever the umask, and with the call
 * that makes it: whoever is killed after it leaves it as it is to be. */
static int make_folder(const char *path, struct nc_err *err) {
    struct stat st;
    const mode_t mask = umask(0);
    const int code = mkdir(path, 0755) < 0 ? errno : 0;

    (void)umask(mask);
    if (code == 0)
        return 0;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : nc_file_fail(err, ENOTDIR, "make folder", path);
    return nc_file_fail(err, code, "make folder", path);
}

int nc_mkdir_p(const char *path, struct nc_err *err) {
    nc_auto_free char *copy = nc_strdup(path);
    struct stat st;

    /* The usual case in one call: files are written again and again where their folder is. */
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    for (char *p = copy; *p; p++) {
        if (*p != '/' || p == copy || p[-1] == '/')
            continue;
        *p = '\0';
        const int r = make_folder(copy, err);
        if (r < 0)
            return r;
        *p = '/';
    }
    return *path ? make_folder(path, err)
                 : nc_err_set(err, NC_ERR_BUG, EINVAL, "make folder: empty path");
}

/* Is path a regular file with exactly these bytes and this mode? Doubts say no. */
static bool is_same(const char *path, const char *data, size_t n, mode_t mode) {
    nc_cleanup(close_fd) const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    char chunk[READ_CHUNK_BYTES];
    struct stat st;
    size_t done = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 07777) != mode
        || (size_t)st.st_size != n)
        return false;
    while (done < n) {
        const size_t want = n - done < sizeof(chunk) ? n - done : sizeof(chunk);
        const ssize_t got = read(fd, chunk, want);
        if (got <= 0 || memcmp(chunk, data + done, (size_t)got) != 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

int nc_write_all(int fd, const char *data, size_t n) {
    while (n) {
        const ssize_t put = write(fd, data, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        data += put;
        n -= (size_t)put;
    }
    return 0;
}

static int fill(int fd, const void *data, size_t n, mode_t mode, bool durable) {
    const int r = nc_write_all(fd, data, n);

    if (r < 0)
        return r;
    return fchmod(fd, mode) < 0 || (durable && fsync(fd) < 0) ? -errno : 0;
}

static int sync_folder(const char *folder) {
    nc_cleanup(close_fd) const int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);

    /* A file system that cannot sync folders says EINVAL: nothing is left to do there. */
    return fd < 0 || (fsync(fd) < 0 && errno != EINVAL) ? -errno : 0;
}

/* False where somebody else writes it, or nothing can be locked here: then nobody would take over
 * what we have just made, and it goes. */
static bool lock(int fd, const char *path, bool is_made) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    if (is_made && errno != EWOULDBLOCK)
        (void)unlink(path);
    return false;
}

/* Empties what was locked. False where somebody else has just put it in its place, or it is nothing
 * to write to. */
static bool is_own_leftover(int fd, const char *path) {
    struct stat st, there;

    if (fstat(fd, &st) < 0 || lstat(path, &there) < 0 || st.st_dev != there.st_dev
        || st.st_ino != there.st_ino || !S_ISREG(st.st_mode) || st.st_nlink != 1
        || st.st_uid != geteuid())
        return false;
    return st.st_size == 0 || (fchmod(fd, 0600) == 0 && ftruncate(fd, 0) == 0);
}

/* The temporary file has one name for each target, so that at most one is ever left by runs that
 * were killed. It is locked while it is written: whoever finds it locked takes another name. */
static int open_temporary(const char *folder, const char *name, char **ret_path) {
    const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    nc_auto_free char *path = nc_asprintf("%s/.%s.new", folder, name);
    int fd = open(path, flags | O_CREAT | O_EXCL, 0600);
    const bool is_made = fd >= 0;

    if (!is_made && errno == EEXIST)
        fd = open(path, flags);
    if (fd >= 0 && !(lock(fd, path, is_made) && is_own_leftover(fd, path))) {
        (void)close(fd);
        fd = -1;
    }
    if (fd < 0) {
        free(path);
        path = nc_asprintf("%s/.%s.XXXXXX", folder, name);
        fd = mkostemp(path, O_CLOEXEC);
    }
    if (fd < 0)
        return -errno;
    *ret_path = nc_steal(&path);
    return fd;
}

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');

    if (!slash)
        return nc_strdup(".");
    return slash == path ? nc_strdup("/") : nc_strndup(path, (size_t)(slash - path));
}

static int write_new(const char *path, const void *data, size_t n, mode_t mode, bool durable) {
    const char *slash = strrchr(path, '/');
    nc_auto_free char *folder = folder_of(path);
    nc_auto_free char *temporary = NULL;
    const int fd = open_temporary(folder, slash ? slash + 1 : path, &temporary);

    if (fd < 0)
        return fd;
    int r = fill(fd, data, n, mode, durable);
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0)
        (void)unlink(temporary);
    (void)close(fd); /* now only: with it goes the lock */
    if (r < 0)
        return r;
    return durable ? sync_folder(folder) : 0;
}

static int make_folder_of(const char *path, struct nc_err *err) {
    nc_auto_free char *folder = folder_of(path);

    return nc_mkdir_p(folder, err);
}

int nc_file_write(const char *path, const void *data, size_t n, mode_t mode, struct nc_err *err) {
    int r = is_same(path, data, n, mode) ? 1 : make_folder_of(path, err);

    if (r != 0)
        return r;
    r = write_new(path, data, n, mode, false);
    return r < 0 ? nc_file_fail(err, -r, "write", path) : 0;
}

int nc_file_write_synced(const char *path, const void *data, size_t n, mode_t mode,
                         struct nc_err *err) {
    int r = is_same(path, data, n, mode) ? 1 : make_folder_of(path, err);

    if (r != 0)
        return r;
    r = write_new(path, data, n, mode, true);
    return r < 0 ? nc_file_fail(err, -r, "write", path) : 0;
}

/* Not what somebody else may have put there: a link leads elsewhere, a device or a pipe does
 * something. Nothing is truncated before that is known. */
static int open_output(const char *path, struct nc_err *err) {
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK;
    const int fd = open(path, flags, 0666);
    struct stat st;
    int r = 0;

    if (fd < 0)
        r = -errno;
    else if (fstat(fd, &st) < 0)
        r = -errno;
    else if (!S_ISREG(st.st_mode))
        r = -EINVAL;
    else if (ftruncate(fd, 0) < 0)
        r = -errno;
    if (r == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    if (r != -ELOOP && r != -EINVAL && r != -ENXIO)
        return nc_file_fail(err, -r, "write", path);
    nc_err_set(err, NC_ERR_HOST, -r, "cannot write %s: not a regular file", path);
    nc_err_remedy(err, "name a new file, or - for standard output");
    return r;
}

int nc_output_write(const char *path, const void *data, size_t n, struct nc_err *err) {
    const bool is_stdout = nc_streq(path, "-");
    const int fd = is_stdout ? STDOUT_FILENO : open_output(path, err);
    int r;

    if (fd < 0)
        return fd;
    r = nc_write_all(fd, data, n);
    if (!is_stdout && close(fd) < 0 && r == 0)
        r = -errno;
    return r < 0 ? nc_file_fail(err, -r, "write", is_stdout ? "standard output" : path) : 0;
}
