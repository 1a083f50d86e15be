/*
 * Reading below a root that is not trusted, by openat2 (Linux 5.6).
 *
 * A file is opened only after its type is known: opening a device may do something.
 */
#include "image-tree.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/str.h"

#define FILE_MAX_BYTES ((size_t)1 << 20) /* a document; units: hundreds of bytes */
#define ALL_MAX_BYTES ((size_t)16 << 20)
#define MAX_NAMES 4096 /* in one folder */
#define LINK_MAX_BYTES 4096

static void close_fd(const int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
}

int nc_image_tree_open(struct nc_image_tree *t, const char *root, struct nc_err *err) {
    *t = (struct nc_image_tree){.fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (t->fd >= 0)
        return 0;
    const int code = errno, r = nc_file_fail(err, code, "open", root);
    if (code == ENOENT || code == ENOTDIR)
        nc_err_remedy(err, "name the folder that holds the image's root file system");
    return r;
}

int nc_image_tree_open_any(struct nc_image_tree *t, const char *root, struct nc_err *err) {
    *t = (struct nc_image_tree){.fd = -1, .is_machine = !*root};
    return t->is_machine ? 0 : nc_image_tree_open(t, root, err);
}

void nc_image_tree_close(struct nc_image_tree *t) {
    close_fd(&t->fd);
    t->fd = -1;
}

static void note(struct nc_image_tree *t, int code, const char *path) {
    if (t->unreadable.class == NC_ERR_NONE)
        (void)nc_file_fail(&t->unreadable, code, "read", path);
}

/* openat2(2): a mount or a rename anywhere, while ".." is resolved, is EAGAIN. */
static int open_in_root(int root, const char *path, const struct open_how *how) {
    int fd = -1;

    for (unsigned i = 0; i < 100 && fd < 0 && (i == 0 || errno == EAGAIN); i++)
        fd = (int)syscall(SYS_openat2, root, path, how, sizeof(*how));
    return fd;
}

/* Negative where it is not there, or not to be opened: the latter is noted. */
static int open_below(struct nc_image_tree *t, const char *path, int flags) {
    const struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
                                 .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    /* a unit with RestrictSUIDSGID=, as ours, may not call openat2 */
    const int fd =
        t->is_machine ? open(path, flags | O_CLOEXEC, 0) : open_in_root(t->fd, path, &how);

    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        note(t, errno, path);
    return fd;
}

/* A descriptor of this type of file, open for reading. */
static int open_type(struct nc_image_tree *t, const char *path, mode_t type) {
    nc_cleanup(close_fd) const int peek = open_below(t, path, O_PATH);
    struct stat st;

    if (peek < 0)
        return -1;
    if (fstat(peek, &st) < 0 || (st.st_mode & S_IFMT) != type) {
        note(t, EINVAL, path);
        return -1;
    }
    return open_below(t, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

int nc_image_tree_open_file(struct nc_image_tree *t, const char *path) {
    return open_type(t, path, S_IFREG);
}

bool nc_image_tree_read(struct nc_image_tree *t, const char *path, struct nc_buf *ret) {
    nc_cleanup(close_fd) const int fd = open_type(t, path, S_IFREG);
    const size_t before = ret->len;
    struct nc_err err = NC_ERR_INIT;

    if (fd < 0)
        return false;
    if (nc_file_read_fd(fd, path, FILE_MAX_BYTES, ret, &err) < 0) {
        if (t->unreadable.class == NC_ERR_NONE)
            t->unreadable = err;
        return false;
    }
    t->read_bytes += ret->len - before;
    if (t->read_bytes > ALL_MAX_BYTES) {
        note(t, EFBIG, path);
        return false;
    }
    if (!memchr(ret->data + before, '\0', ret->len - before))
        return true;
    if (t->unreadable.class == NC_ERR_NONE) {
        (void)nc_err_set(&t->unreadable, NC_ERR_HOST, EINVAL,
                         "%s: control characters are not allowed", path);
        nc_err_remedy(&t->unreadable, "correct the file");
    }
    return false;
}

bool nc_image_tree_has(struct nc_image_tree *t, const char *path) {
    nc_cleanup(close_fd) const int fd = open_below(t, path, O_PATH);

    return fd >= 0;
}

/* Of a regular file. */
static bool stat_file(struct nc_image_tree *t, const char *path, struct stat *ret) {
    nc_cleanup(close_fd) const int fd = open_below(t, path, O_PATH);

    return fd >= 0 && fstat(fd, ret) == 0 && S_ISREG(ret->st_mode);
}

bool nc_image_tree_is_empty(struct nc_image_tree *t, const char *path) {
    struct stat st;

    return stat_file(t, path, &st) && st.st_size == 0;
}

bool nc_image_tree_is_program(struct nc_image_tree *t, const char *path) {
    char head[SELFMAG] = "";
    struct stat st;

    if (!stat_file(t, path, &st) || !(st.st_mode & 0111))
        return false;
    nc_cleanup(close_fd) const int fd = open_type(t, path, S_IFREG);
    return fd >= 0 && read(fd, head, sizeof(head)) >= 2
           && (memcmp(head, ELFMAG, SELFMAG) == 0 || memcmp(head, "#!", 2) == 0);
}

char *nc_image_tree_link(struct nc_image_tree *t, const char *path) {
    nc_cleanup(close_fd) const int fd = open_below(t, path, O_PATH | O_NOFOLLOW);
    char target[LINK_MAX_BYTES];
    ssize_t n;

    if (fd < 0)
        return NULL;
    n = readlinkat(fd, "", target, sizeof(target));
    return n > 0 && (size_t)n < sizeof(target) ? nc_strndup(target, (size_t)n) : NULL;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void nc_image_tree_names(struct nc_image_tree *t, const char *folder, struct nc_strv *ret) {
    const int fd = open_type(t, folder, S_IFDIR);
    const size_t before = ret->n;
    const struct dirent *e;
    DIR *dir;

    if (fd < 0)
        return;
    dir = fdopendir(fd);
    if (!dir) {
        note(t, errno, folder);
        (void)close(fd);
        return;
    }
    while ((e = readdir(dir))) {
        if (ret->n - before >= MAX_NAMES) {
            note(t, EFBIG, folder);
            break;
        }
        if (!nc_streq(e->d_name, ".") && !nc_streq(e->d_name, ".."))
            nc_strv_add(ret, e->d_name);
    }
    (void)closedir(dir);
    if (ret->n > before)
        qsort(ret->v + before, ret->n - before, sizeof(*ret->v), by_text);
}

static const char *name_of(const char *path) {
    return strrchr(path, '/') + 1;
}

static bool has_name(const struct nc_strv *paths, const char *name) {
    for (size_t i = 0; i < paths->n; i++)
        if (nc_streq(name_of(paths->v[i]), name))
            return true;
    return false;
}

static int by_name(const void *a, const void *b) {
    return strcmp(name_of(*(char *const *)a), name_of(*(char *const *)b));
}

void nc_image_tree_confs(struct nc_image_tree *t, const struct nc_strv *folders,
                         struct nc_strv *ret) {
    nc_cleanup(nc_strv_done) struct nc_strv all = NC_STRV_INIT;

    for (size_t i = 0; i < folders->n; i++) {
        nc_cleanup(nc_strv_done) struct nc_strv names = NC_STRV_INIT;
        nc_image_tree_names(t, folders->v[i], &names);
        for (size_t k = 0; k < names.n; k++)
            if (nc_ends_with(names.v[k], ".conf") && !has_name(&all, names.v[k]))
                nc_strv_addf(&all, "%s/%s", folders->v[i], names.v[k]);
    }
    if (all.n > 0)
        qsort(all.v, all.n, sizeof(*all.v), by_name);
    for (size_t i = 0; i < all.n; i++) {
        nc_auto_free char *target = nc_image_tree_link(t, all.v[i]);
        if (!nc_streq(target, "/dev/null"))
            nc_strv_add(ret, all.v[i]);
    }
}
