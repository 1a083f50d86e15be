/*
 * `drain` and `undrain` of this machine: each leaves one small file in a folder that only root can
 * reach. A file is read, posted, and removed, whatever became of it; the answer is status.json's.
 * What it requested is kept before it is removed: whoever ends us in between finds the one or the
 * other.
 */
#include "requests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "nc/file.h"
#include "nc/str.h"
#include "process.h"

#define REQUEST_MAX_BYTES 4096
#define RETRY_USEC 5000000u

static void keep(const struct nc_requests *r) {
    r->kept(r->sink.userdata);
    r->sink.changed(r->sink.userdata);
}

static void refuse(const struct nc_requests *r, const char *path, const struct nc_err *err) {
    nc_auto_free char *message = nc_asprintf("%s: %s; ignored", path, err->msg);

    r->refused(r->sink.userdata, message);
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

static void apply_drain_file(const struct nc_requests *q, const char *path) {
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
        r = nc_notice_check_deadline(&notice, q->sink.now(q->sink.userdata), &err);
    if (r < 0)
        refuse(q, path, &err);
    else
        q->sink.notice(q->sink.userdata, &notice);
    keep(q);
    (void)unlink(path);
}

static void apply_undrain_file(const struct nc_requests *q, const char *path) {
    struct nc_err err = NC_ERR_INIT;

    if (check_owner(path, &err) == 0)
        q->sink.cleared(q->sink.userdata, NC_SOURCE_OPERATOR);
    else
        refuse(q, path, &err);
    keep(q);
    (void)unlink(path);
}

/* When it was written, in nanoseconds; 0 where it is not there. */
static uint64_t written_nsec(const char *path) {
    struct stat st;

    if (lstat(path, &st) < 0)
        return 0;
    return (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
}

/* Whatever is there, in the order in which it was written: precedence counts. */
static void apply_request_files(const struct nc_requests *r) {
    nc_auto_free char *drain = nc_asprintf("%s/" NC_REQUEST_DRAIN, r->folder);
    nc_auto_free char *undrain = nc_asprintf("%s/" NC_REQUEST_UNDRAIN, r->folder);
    const uint64_t drain_nsec = written_nsec(drain), undrain_nsec = written_nsec(undrain);

    if (undrain_nsec > 0 && undrain_nsec < drain_nsec)
        apply_undrain_file(r, undrain);
    if (drain_nsec > 0)
        apply_drain_file(r, drain);
    if (undrain_nsec > 0 && undrain_nsec >= drain_nsec)
        apply_undrain_file(r, undrain);
}

static int on_change(sd_event_source *source, const struct inotify_event *event, void *userdata) {
    apply_request_files(userdata);
    return 0;
}

/* A request that survived a restart is active still; else nobody on this machine requests anything.
 */
static void log_existing_requests(const struct nc_requests *r) {
    struct nc_notice notice;

    if (r->sink.is_active(r->sink.userdata, NC_SOURCE_OPERATOR, &notice))
        r->sink.notice(r->sink.userdata, &notice);
    else
        r->sink.cleared(r->sink.userdata, NC_SOURCE_OPERATOR);
}

static int open_folder(struct nc_requests *r, struct nc_err *err) {
    int k = nc_mkdir_p(r->folder, err);

    if (k == 0 && chmod(r->folder, 0700) < 0)
        k = nc_file_fail(err, errno, "make private", r->folder);
    if (k < 0)
        return k;
    k = sd_event_add_inotify(r->event, &r->watch, r->folder,
                             IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR, on_change, r);
    if (k < 0)
        k = nc_file_fail(err, -k, "watch", r->folder);
    log_existing_requests(r);
    apply_request_files(r); /* observed late, where it cannot be watched: with the next attempt */
    return k < 0 ? k : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_requests_open(userdata);
    return 0;
}

/* A failure is logged once, and tried again: a full disk is emptied, a limit of the machine's
 * watches raised. */
void nc_requests_open(struct nc_requests *r) {
    struct nc_err err = NC_ERR_INIT;
    const int k = open_folder(r, &err);

    if (k < 0 && !r->failed)
        nc_log(NC_LOG_WARNING, NULL, "%s, going on without", err.msg);
    r->failed = k < 0;
    if (k < 0)
        nc_timer_set(r->event, &r->timer, RETRY_USEC, on_timer, r);
}

void nc_requests_close(struct nc_requests *r) {
    r->timer = sd_event_source_disable_unref(r->timer);
    r->watch = sd_event_source_disable_unref(r->watch);
    free(r->folder);
    r->folder = NULL;
}
