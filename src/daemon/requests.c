/*
 * `drain` and `undrain` of this machine: each leaves one small file in a folder that only root can
 * reach. A file is read, posted, and removed, whatever became of it; the answer is status.json's.
 * What it asked for is kept before it is removed: whoever ends us in between finds the one or the
 * other.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon-edges.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"

#define REQUEST_MAX_BYTES 4096

struct nc_daemon_requests {
    struct nc_daemon *d;
    char *folder;
    sd_event_source *watch;
};

static void keep(struct nc_daemon *d) {
    if (d->is_state_due)
        nc_daemon_state_save(d);
    d->is_status_due = true;
}

static void refuse(struct nc_daemon *d, const char *path, const struct nc_err *err) {
    nc_auto_free char *message = nc_asprintf("%s: %s; taken as none", path, err->msg);
    const struct nc_life_action a = {.kind = NC_ACT_ANNOUNCE,
                                     .reason = "DrainRequestRefused",
                                     .is_warning = true,
                                     .message = message};

    nc_daemon_say(d, &a);
}

/* What another user may have written is not root's word, though root put it there. */
static int check_owner(const char *path, struct nc_err *err) {
    struct stat st;

    if (lstat(path, &st) < 0)
        return nc_file_fail(err, errno, "read", path);
    if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0)
        return 0;
    return nc_err_set(
        err, NC_ERR_CONFIG, EPERM,
        "only root may have written it: uid %u, mode %04o, and a plain file is wanted",
        (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
}

static void take_drain(struct nc_daemon *d, const char *path) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_notice notice;
    struct nc_err err = NC_ERR_INIT;
    int r = check_owner(path, &err);

    if (r == 0)
        r = nc_file_read(path, REQUEST_MAX_BYTES, &text, &err);
    if (r == -ENOENT)
        return;
    if (r == 0)
        r = nc_notice_read_request(text.data ? text.data : "", text.len, NC_SOURCE_OPERATOR,
                                   &notice, &err);
    if (r > 0)
        r = nc_notice_check_deadline(&notice, nc_daemon_now(d), &err);
    if (r < 0)
        refuse(d, path, &err);
    else
        nc_daemon_post_notice(d, &notice);
    keep(d);
    (void)unlink(path);
}

static void take_undrain(struct nc_daemon *d, const char *path) {
    struct nc_err err = NC_ERR_INIT;

    if (check_owner(path, &err) == 0)
        nc_daemon_post_cleared(d, NC_SOURCE_OPERATOR);
    else
        refuse(d, path, &err);
    keep(d);
    (void)unlink(path);
}

/* When it was written, in nanoseconds; 0 where it is not there. */
static uint64_t written_nsec(const char *path) {
    struct stat st;

    if (lstat(path, &st) < 0)
        return 0;
    return (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
}

/* Whatever is there, in the order in which it was written: the last word counts. */
static void take_requests(struct nc_daemon_requests *r) {
    nc_auto_free char *drain = nc_asprintf("%s/" NC_REQUEST_DRAIN, r->folder);
    nc_auto_free char *undrain = nc_asprintf("%s/" NC_REQUEST_UNDRAIN, r->folder);
    const uint64_t drain_nsec = written_nsec(drain), undrain_nsec = written_nsec(undrain);

    if (undrain_nsec > 0 && undrain_nsec < drain_nsec)
        take_undrain(r->d, undrain);
    if (drain_nsec > 0)
        take_drain(r->d, drain);
    if (undrain_nsec > 0 && undrain_nsec >= drain_nsec)
        take_undrain(r->d, undrain);
}

static int on_change(sd_event_source *source, const struct inotify_event *event, void *userdata) {
    (void)source;
    (void)event;
    take_requests(userdata);
    return 0;
}

/* A request that survived a restart is active still; else nobody on this machine asks for anything.
 */
static void say_first_word(struct nc_daemon *d) {
    struct nc_life_view view;
    struct nc_notice notice;

    nc_life_look(d->life, nc_daemon_now(d), &view);
    if (!view.is_active[NC_SOURCE_OPERATOR]) {
        nc_daemon_post_cleared(d, NC_SOURCE_OPERATOR);
        return;
    }
    notice = view.notices[NC_SOURCE_OPERATOR];
    nc_daemon_post_notice(d, &notice);
}

int nc_daemon_requests_open(struct nc_daemon *d, struct nc_err *err) {
    struct nc_daemon_requests *all = nc_calloc(1, sizeof(*all));
    bool has_folder;
    int r;

    all->d = d;
    all->folder = nc_app_path(d->app, NC_REQUEST_DIR);
    d->requests = all;
    r = nc_mkdir_p(all->folder, err);
    if (r == 0 && chmod(all->folder, 0700) < 0)
        r = nc_file_fail(err, errno, "make private", all->folder);
    has_folder = r == 0;
    if (has_folder) {
        r = sd_event_add_inotify(d->app->event, &all->watch, all->folder,
                                 IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR, on_change, all);
        if (r < 0)
            r = nc_file_fail(err, -r, "watch", all->folder);
    }
    if (has_folder) { /* heard late, where it cannot be watched: with the next attempt */
        say_first_word(d);
        take_requests(all);
    }
    if (r >= 0)
        return 0;
    nc_daemon_requests_close(d);
    return r;
}

void nc_daemon_requests_close(struct nc_daemon *d) {
    struct nc_daemon_requests *all = d->requests;

    if (!all)
        return;
    sd_event_source_disable_unref(all->watch);
    free(all->folder);
    free(all);
    d->requests = NULL;
}
