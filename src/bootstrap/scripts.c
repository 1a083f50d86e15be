/*
 * What the user's scripts leave: whatever a bootstrap has read, and its own files, are checked once
 * cloud-init's last stage has ended.
 *
 * A change is told by inode, size and time of change, which no program can set back; what cannot be
 * read has always changed. Where nothing waits for cloud-init nothing is checked.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"

#define MAX_ENTRIES 4096
#define DAEMON_UNIT "nodeclaimd.service"
#define MAX_NAMED 8 /* in the log */

/* Documents, what a plan is made with, and what containerd and kubelet are started from. Folders
 * without what is below their folders: certs.d is read by containerd at each pull. */
static const char watched[] = "/etc/eks/nodeadm.d\0" NC_CONF_DIR "\0" NC_INSTANCE_TYPES_FILE "\0"
                              "/etc/nodeclaimd/kubelet-version\0"
                              "/etc/nodeclaimd/containerd-version\0"
                              "/etc/eks/kubelet-version.txt\0"
                              "/etc/eks/containerd-version.txt\0"
                              "/usr/bin/kubelet\0"
                              "/usr/bin/containerd\0"
                              "/etc/kubernetes/kubelet/config.json.d\0"
                              "/etc/containerd\0"
                              "/etc/containerd/conf.d\0"
                              "/etc/systemd/system.conf.d\0"
                              "/etc/systemd/system/containerd.service\0"
                              "/etc/systemd/system/containerd.service.d\0"
                              "/etc/systemd/system/kubelet.service\0"
                              "/etc/systemd/system/kubelet.service.d\0"
                              "/run/systemd/system/containerd.service.d\0"
                              "/run/systemd/system/kubelet.service.d\0"
                              "/usr/lib/systemd/system/containerd.service\0"
                              "/usr/lib/systemd/system/containerd.service.d\0";

/* "PATH\tWHAT": equal as long as nobody has touched it. */
static void note_unreadable(struct nc_strv *seen, const char *name) {
    if (errno != ENOENT && errno != ENOTDIR)
        nc_strv_addf(seen, "%s\t%s %" PRIu64, name, strerror(errno), nc_mono_usec());
}

static void note_file(struct nc_strv *seen, const char *name, const struct stat *st) {
    nc_strv_addf(seen, "%s\t%ju %jd %jd.%09ld", name, (uintmax_t)st->st_ino, (intmax_t)st->st_size,
                 (intmax_t)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

static void note_folder(struct nc_strv *seen, const char *name, const char *path) {
    DIR *dir = opendir(path);
    const struct dirent *e = NULL;
    struct stat st;

    if (!dir) {
        note_unreadable(seen, name);
        return;
    }
    for (unsigned n = 0; n < MAX_ENTRIES && (errno = 0, e = readdir(dir)); n++) {
        nc_auto_free char *entry = nc_asprintf("%s/%s", name, e->d_name);
        if (fstatat(dirfd(dir), e->d_name, &st, 0) < 0
            && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            note_unreadable(seen, entry);
        else if (!S_ISDIR(st.st_mode))
            note_file(seen, entry, &st);
    }
    if (e) /* what follows is not seen */
        errno = EOVERFLOW;
    if (errno != 0)
        note_unreadable(seen, name);
    (void)closedir(dir);
}

static void note(struct nc_strv *seen, const char *name, const char *path) {
    struct stat st;

    if (stat(path, &st) < 0)
        note_unreadable(seen, name);
    else if (S_ISDIR(st.st_mode))
        note_folder(seen, name, path);
    else
        note_file(seen, name, &st);
}

static void note_all(const struct nc_bootstrap *b, struct nc_strv *seen) {
    const struct nc_strv *sources = &b->app->opts.sources;

    for (const char *name = watched; *name; name = nc_next_name(name)) {
        nc_auto_free char *path = nc_app_path(b->app, name);
        note(seen, name, path);
    }
    for (size_t i = 0; i < sources->n; i++) {
        const char *path = nc_source_path(sources->v[i]);
        if (path)
            note(seen, path, path);
    }
}

static bool is_own(const struct nc_bootstrap *b, const char *path) {
    for (size_t i = 0; i < b->written.n; i++)
        if (nc_streq(b->written.files[i].path, path))
            return true;
    return false;
}

/* Paths of lines that the other list has not; of our own files others know. */
static void add_missing(const struct nc_bootstrap *b, const struct nc_strv *lines,
                        const struct nc_strv *other, struct nc_strv *ret) {
    for (size_t i = 0; i < lines->n; i++) {
        nc_auto_free char *path = nc_strndup(lines->v[i], strcspn(lines->v[i], "\t"));
        if (!nc_strv_contains(other, lines->v[i]) && !is_own(b, path))
            nc_strv_add_once(ret, path);
    }
}

void nc_scripts_note(struct nc_bootstrap *b) {
    nc_strv_done(&b->seen);
    b->seen = (struct nc_strv)NC_STRV_INIT;
    note_all(b, &b->seen);
}

static void log_changes(const struct nc_strv *changed) {
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;

    for (size_t i = 0; i < changed->n && i < MAX_NAMED; i++)
        (void)nc_buf_printf(&names, "%s%s", i ? ", " : "", changed->v[i]);
    nc_log(NC_LOG_INFO, NULL, "changed while cloud-init ran, all is read again: %s%s", names.data,
           changed->n > MAX_NAMED ? ", …" : "");
}

bool nc_scripts_are_awaited(const struct nc_bootstrap *b) {
    return b->cloud_init.waits && !b->cloud_init.has_ended;
}

int nc_step_scripts(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_strv_done) struct nc_strv now = NC_STRV_INIT;
    struct nc_strv *changed = &b->report.changed;
    const int r = nc_cloud_init_wait_final(b, err);

    if (r < 0 || !b->report.cloud_init_waits) /* a script's own bootstrap has read what it left */
        return r;
    b->cloud_init.has_ended = true;
    note_all(b, &now);
    add_missing(b, &now, &b->seen, changed);
    add_missing(b, &b->seen, &now, changed);
    nc_apply_find_changed(b->app->opts.root, &b->written, changed);
    for (size_t i = 0; i < changed->n; i++)
        nc_due_by_path(b, changed->v[i]);
    if (changed->n == 0)
        return 0;
    log_changes(changed);
    if (b->kubelet.units) /* where the daemon does not run it reads them when it starts */
        (void)nc_units_reload_unit(b->kubelet.units, DAEMON_UNIT, NULL);
    return 0;
}
