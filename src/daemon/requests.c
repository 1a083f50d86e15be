/*
 * `drain` and `undrain` of this machine: each leaves one small file in a folder that only root can
 * reach. A file is read, posted, and removed, whatever became of it; the answer is status.json's.
 * What it requested is kept before it is removed: whoever ends us in between finds the one or the
 * other. Where it cannot be kept, on a full disk, the file stays under another name for the next
 * start: only a reboot forgets it.
 */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "nc/file.h"
#include "nc/mem.h"

#define REQUEST_MAX_BYTES 4096
#define RETRY_USEC 5000000u
#define UNSAVED ".unsaved"

static char *path_of(const struct nc_daemon *d, const char *name) {
    return nc_asprintf("%s/%s", d->requests.folder, name);
}

void nc_requests_forget_unsaved(struct nc_daemon *d) {
    if (!d->requests.folder)
        return;
    nc_auto_free char *drain = path_of(d, NC_REQUEST_DRAIN UNSAVED);
    nc_auto_free char *undrain = path_of(d, NC_REQUEST_UNDRAIN UNSAVED);
    (void)unlink(drain);
    (void)unlink(undrain);
}

/* What was requested must survive us, and is done with: only the last one counts. */
static void settle(struct nc_daemon *d, const char *path) {
    nc_auto_free char *unsaved = nc_asprintf("%s" UNSAVED, path);

    nc_requests_forget_unsaved(d);
    if (d->is_state_due)
        nc_daemon_state_save(d);
    d->is_status_due = true;
    if (d->state.error && rename(path, unsaved) == 0)
        return;
    (void)unlink(path);
}

static void refuse(struct nc_daemon *d, const char *path, const struct nc_err *err) {
    nc_auto_free char *message = nc_asprintf("%s: %s; the request is ignored", path, err->msg);

    nc_daemon_refuse_request(d, message, NULL);
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

static void apply_drain_file(struct nc_daemon *d, const char *path) {
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
    if (r < 0) {
        refuse(d, path, &err);
    } else {
        nc_daemon_state_forget_former(d);
        nc_daemon_post_notice(d, &notice);
    }
    settle(d, path);
}

static void apply_undrain_file(struct nc_daemon *d, const char *path) {
    struct nc_err err = NC_ERR_INIT;

    if (check_owner(path, &err) == 0) {
        nc_daemon_state_forget_former(d);
        nc_daemon_post_cleared(d, NC_SOURCE_OPERATOR);
    } else {
        refuse(d, path, &err);
    }
    settle(d, path);
}

/* When it was written, in nanoseconds; 0 where it is not there. */
static uint64_t written_nsec(const char *path) {
    struct stat st;

    if (lstat(path, &st) < 0)
        return 0;
    return (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
}

/* Whatever is there, in the order in which it was written: precedence counts. */
static void apply_request_files(struct nc_daemon *d) {
    nc_auto_free char *drain = path_of(d, NC_REQUEST_DRAIN);
    nc_auto_free char *undrain = path_of(d, NC_REQUEST_UNDRAIN);
    const uint64_t drain_nsec = written_nsec(drain), undrain_nsec = written_nsec(undrain);

    if (undrain_nsec > 0 && undrain_nsec < drain_nsec)
        apply_undrain_file(d, undrain);
    if (drain_nsec > 0)
        apply_drain_file(d, drain);
    if (undrain_nsec > 0 && undrain_nsec >= drain_nsec)
        apply_undrain_file(d, undrain);
}

/* One that was left meanwhile is newer. */
static void restore_unsaved(const struct nc_daemon *d, const char *name) {
    nc_auto_free char *path = path_of(d, name), *unsaved = nc_asprintf("%s" UNSAVED, path);

    if (access(path, F_OK) < 0)
        (void)rename(unsaved, path);
}

static int on_change(sd_event_source *source, const struct inotify_event *event, void *userdata) {
    apply_request_files(userdata);
    return 0;
}

static int open_folder(struct nc_daemon *d, struct nc_err *err) {
    int k;

    if (!d->requests.folder)
        d->requests.folder = nc_app_path(d->app, NC_REQUEST_DIR);
    k = nc_mkdir_p(d->requests.folder, err);
    if (k == 0 && chmod(d->requests.folder, 0700) < 0)
        k = nc_file_fail(err, errno, "make private", d->requests.folder);
    if (k < 0)
        return k;
    k = sd_event_add_inotify(d->app->event, &d->requests.watch, d->requests.folder,
                             IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR, on_change, d);
    if (k < 0)
        k = nc_file_fail(err, -k, "watch", d->requests.folder);
    else /* before a deadline that came while the daemon hung: it may be withdrawn */
        (void)sd_event_source_set_priority(d->requests.watch, SD_EVENT_PRIORITY_IMPORTANT - 1);
    /* One that survived a restart is active still; else nobody on this machine requests anything.
     */
    if (!d->state.former)
        nc_daemon_post_again(d, NC_SOURCE_OPERATOR);
    restore_unsaved(d, NC_REQUEST_DRAIN);
    restore_unsaved(d, NC_REQUEST_UNDRAIN);
    apply_request_files(d); /* observed late, where it cannot be watched: with the next attempt */
    return k < 0 ? k : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_requests_open(userdata);
    return 0;
}

/* A failure is logged once, and tried again: a full disk is emptied, a limit of the machine's
 * watches raised. */
void nc_requests_open(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;
    const int k = open_folder(d, &err);

    if (k < 0 && !d->requests.failed)
        nc_log(NC_LOG_WARNING, NULL, "%s, going on without", err.msg);
    d->requests.failed = k < 0;
    if (k < 0)
        nc_timer_set(d->app->event, &d->requests.timer, RETRY_USEC, on_timer, d);
}

void nc_requests_close(struct nc_daemon *d) {
    d->requests.timer = sd_event_source_disable_unref(d->requests.timer);
    d->requests.watch = sd_event_source_disable_unref(d->requests.watch);
    free(d->requests.folder);
    d->requests.folder = NULL;
}
