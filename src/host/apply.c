/*
 * One stage of a fileset to disk, all of it or nothing: every new content is written beside its
 * place, then all are synced, then all are renamed, then the folders are synced. The file that
 * others wait for (is_gate) is renamed after that, so that whatever ends us in between, or cuts the
 * power, it is not there before what it promises.
 *
 * Renames within a folder that could be written to do not fail for want of space; what can fail has
 * failed before the first of them. Syncing comes after all writing, so that a journaling file
 * system commits once for all files and once for all names.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define SUFFIX ".nodeclaimd-new"

enum change { CHANGE_NONE = 0, CHANGE_WRITE, CHANGE_REMOVE };

struct item {
    const struct nc_file *file;
    const struct nc_file *known; /* as it was written before; NULL = it was not */
    enum change change;
    char *path;
    char *temporary; /* exists while it is not NULL */
    int fd;          /* of the temporary file, until it is synced; -1 = none */
    int folder;      /* its folder, to be synced; -1 = none, or one of the same is open already */
};

static void items_done(struct item *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (items[i].fd >= 0)
            (void)close(items[i].fd);
        if (items[i].folder >= 0)
            (void)close(items[i].folder);
        if (items[i].temporary)
            (void)unlink(items[i].temporary);
        free(items[i].temporary);
        free(items[i].path);
    }
    free(items);
}

/* A file that somebody else may write to, by its mode or as its owner, is not what was requested.
 */
static bool has_form_of(const struct nc_file *file, const struct stat *st) {
    return S_ISREG(st->st_mode) && (st->st_mode & 07777) == file->mode && st->st_uid == geteuid()
           && (size_t)st->st_size == file->n;
}

static bool is_as(const char *path, const struct nc_file *file, const struct stat *st) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf now = NC_BUF_INIT;

    return !file->absent && has_form_of(file, st)
           && nc_file_read(path, file->n + 1, &now, NULL) >= 0 && now.len == file->n
           && memcmp(now.data ? now.data : "", file->data, now.len) == 0;
}

static bool is_same(const struct nc_file *a, const struct nc_file *b) {
    return a->absent == b->absent && a->mode == b->mode && a->n == b->n
           && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

/* What is to be done about one file? A link in its place is replaced, a folder in its place is
 * refused. */
static int compare(const struct nc_apply_call *call, struct item *item, struct nc_err *err) {
    struct stat st;
    bool is_kept;

    if (lstat(item->path, &st) < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return nc_file_fail(err, errno, "check", item->path);
        item->change = item->file->absent ? CHANGE_NONE : CHANGE_WRITE;
        return 0;
    }
    if (S_ISDIR(st.st_mode))
        return nc_file_fail(err, EISDIR, "replace", item->path);
    if (item->file->absent) {
        item->change = CHANGE_REMOVE;
        return 0;
    }
    item->change = is_as(item->path, item->file, &st) ? CHANGE_NONE : CHANGE_WRITE;
    if (item->change == CHANGE_NONE || !item->known || item->known->absent
        || is_as(item->path, item->known, &st))
        return 0;
    is_kept = is_same(item->known, item->file);
    if (is_kept)
        item->change = CHANGE_NONE;
    if (call->found_foreign)
        call->found_foreign(item->file, is_kept, call->userdata);
    return 0;
}

/* The folder of a path; owned. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash == path ? nc_strdup("/") : nc_strndup(path, (size_t)(slash - path));
}

/* Writes the content beside its place; it stays open until it is synced. */
static int stage(struct item *item, struct nc_err *err) {
    nc_auto_free char *folder = folder_of(item->path);
    int r = nc_mkdir_p(folder, err);

    if (r < 0 && err && !*err->remedy)
        nc_err_remedy(err, "check %s: it must be a folder", folder);
    if (r < 0)
        return r;
    item->temporary = nc_asprintf("%s" SUFFIX, item->path);
    (void)unlink(item->temporary); /* of a run that was killed */
    item->fd = open(item->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (item->fd < 0) {
        r = nc_file_fail(err, errno, "create", item->temporary);
        free(item->temporary);
        item->temporary = NULL;
        return r;
    }
    r = nc_write_all(item->fd, item->file->data, item->file->n);
    if (r >= 0 && fchmod(item->fd, item->file->mode) < 0)
        r = -errno;
    if (r < 0)
        return nc_file_fail(err, -r, "write", item->path);
    /* Begins what sync_content() waits for; only a hint, so its failure is none. */
    (void)sync_file_range(item->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return 0;
}

static int sync_content(struct item *item, struct nc_err *err) {
    int code = fsync(item->fd) < 0 ? errno : 0;

    if (close(item->fd) < 0 && !code)
        code = errno;
    item->fd = -1;
    return code ? nc_file_fail(err, code, "write", item->path) : 0;
}

static int commit(struct item *item, struct nc_err *err) {
    if (item->change == CHANGE_REMOVE)
        return unlink(item->path) < 0 && errno != ENOENT
                   ? nc_file_fail(err, errno, "remove", item->path)
                   : 0;
    if (rename(item->temporary, item->path) < 0)
        return nc_file_fail(err, errno, "rename into", item->path);
    free(item->temporary);
    item->temporary = NULL;
    return 0;
}

/* A rename is on disk when its folder is. Opened before the first rename: nothing may fail after it
 * that could have failed before. Files are sorted by path: one sync a folder, and one more for that
 * of the gate. */
static int open_folders(struct item *items, size_t n, bool is_gate, struct nc_err *err) {
    nc_auto_free char *last = NULL;

    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *folder = NULL;
        if (items[i].change == CHANGE_NONE || items[i].file->is_gate != is_gate)
            continue;
        folder = folder_of(items[i].path);
        if (nc_streq(folder, last))
            continue;
        items[i].folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (items[i].folder < 0)
            return nc_file_fail(err, errno, "open", folder);
        free(last);
        last = nc_steal(&folder);
    }
    return 0;
}

static int sync_folders(const struct item *items, size_t n, bool is_gate, struct nc_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (items[i].folder < 0 || items[i].file->is_gate != is_gate || fsync(items[i].folder) == 0)
            continue;
        const int code = errno;
        nc_auto_free char *folder = folder_of(items[i].path);
        return nc_file_fail(err, code, "sync", folder);
    }
    return 0;
}

static void count(const struct item *items, size_t n, struct nc_apply_result *ret) {
    *ret = (struct nc_apply_result){0};
    for (size_t i = 0; i < n; i++) {
        if (items[i].change == CHANGE_WRITE)
            ret->written++;
        else if (items[i].change == CHANGE_REMOVE)
            ret->removed++;
        else if (!items[i].file->absent && !items[i].known)
            ret->unchanged++;
    }
}

/* Puts in place and syncs what is the gate, or all that is not. */
static int commit_all(struct item *items, size_t n, bool is_gate, struct nc_err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++)
        if (items[i].change != CHANGE_NONE && items[i].file->is_gate == is_gate)
            r = commit(&items[i], err);
    return r < 0 ? r : sync_folders(items, n, is_gate, err);
}

static int write_changes(struct item *items, size_t n, struct nc_err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++)
        if (items[i].change == CHANGE_WRITE)
            r = stage(&items[i], err);
    for (size_t i = 0; r >= 0 && i < n; i++)
        if (items[i].change == CHANGE_WRITE)
            r = sync_content(&items[i], err);
    if (r >= 0)
        r = open_folders(items, n, false, err);
    if (r >= 0)
        r = open_folders(items, n, true, err);
    if (r >= 0)
        r = commit_all(items, n, false, err);
    return r < 0 ? r : commit_all(items, n, true, err);
}

static const struct nc_file *find_known(const struct nc_fileset *s, const struct nc_file *file) {
    for (size_t i = 0; s && i < s->n; i++)
        if (s->files[i].stage == file->stage && nc_streq(s->files[i].path, file->path))
            return &s->files[i];
    return NULL;
}

/* The files of the stage, still sorted by path. */
static struct item *items_of(const struct nc_apply_call *call, size_t *ret_n) {
    const struct nc_fileset *s = call->files;
    struct item *items = nc_calloc(s->n ? s->n : 1, sizeof(*items));
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (s->files[i].stage == call->stage)
            items[n++] = (struct item){.file = &s->files[i],
                                       .known = find_known(call->known, &s->files[i]),
                                       .path = nc_path_below(call->root, s->files[i].path),
                                       .fd = -1,
                                       .folder = -1};
    *ret_n = n;
    return items;
}

int nc_apply(const struct nc_apply_call *call, struct nc_apply_result *ret, struct nc_err *err) {
    size_t n = 0;
    struct item *items = items_of(call, &n);
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++)
        r = compare(call, &items[i], err);
    if (r >= 0) {
        struct nc_apply_result found;
        count(items, n, &found);
        for (size_t i = 0; call->before_change && i < n; i++)
            if (items[i].change != CHANGE_NONE)
                call->before_change(items[i].file, call->userdata);
        r = write_changes(items, n, err);
        if (r >= 0)
            *ret = found;
    }
    items_done(items, n);
    return r;
}

void nc_apply_find_changed(const char *root, const struct nc_fileset *written,
                           struct nc_strv *ret) {
    for (size_t i = 0; i < written->n; i++) {
        const struct nc_file *file = &written->files[i];
        nc_auto_free char *path = nc_path_below(root, file->path);
        struct stat st;
        if (lstat(path, &st) < 0 ? !file->absent || (errno != ENOENT && errno != ENOTDIR)
                                 : !is_as(path, file, &st))
            nc_strv_add_once(ret, file->path);
    }
}

int nc_apply_all(const struct nc_apply_call *call, struct nc_apply_result *ret,
                 struct nc_err *err) {
    static const enum nc_file_stage order[] = {NC_STAGE_HOST, NC_STAGE_CONTAINERD,
                                               NC_STAGE_KUBELET};
    struct nc_apply_result all = {0};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < NC_ARRAY_SIZE(order); i++) {
        struct nc_apply_call stage = *call;
        struct nc_apply_result one = {0};
        stage.stage = order[i];
        r = nc_apply(&stage, &one, err);
        all.written += one.written;
        all.unchanged += one.unchanged;
        all.removed += one.removed;
    }
    if (r >= 0)
        *ret = all;
    return r;
}
