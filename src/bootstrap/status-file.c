/*
 * Reads what is there, puts its own part in, writes it all: under a lock that lives as long as
 * that takes.
 *
 * What is there may be of another version, or broken: then there is nothing to keep.
 */
#include "app.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/report.h"
#include "nc/str.h"
#include "nc/version.h"

#define LOCK_FILE NC_RUN_DIR "/.lock"
#define MAX_BYTES ((size_t)1 << 20)
#define BOOTSTRAP_FAMILIES "nodeclaimd_bootstrap_"
#define LOCK_TRIES 20
#define LOCK_PAUSE_NSEC 2000000

static const char of_daemon[][8] = {"drain", "daemon", "fit"};

static void close_fd(const int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
}

/* A descriptor that holds the lock until it is closed; -EAGAIN where somebody else does. */
static int lock_status_file(const struct nc_app *app, unsigned tries) {
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NSEC};
    nc_auto_free char *folder = nc_app_path(app, NC_RUN_DIR);
    nc_auto_free char *path = nc_app_path(app, LOCK_FILE);
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
    int fd = open(path, flags, 0600);

    if (fd < 0 && errno == ENOENT && nc_mkdir_p(folder, NULL) == 0)
        fd = open(path, flags, 0600);
    if (fd < 0)
        return -errno;
    for (unsigned i = 1; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        const int code = errno;
        if (code == EWOULDBLOCK && i < tries && nanosleep(&pause, NULL) == 0)
            continue;
        (void)close(fd);
        return code == EWOULDBLOCK ? -EAGAIN : -code;
    }
    return fd;
}

/* --- status.json */

static struct nc_value *read_status(const char *path) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_value *tree = NULL;

    if (nc_file_read(path, MAX_BYTES, &text, NULL) < 0
        || nc_json_parse(text.data ? text.data : "", text.len, &tree, NULL) < 0)
        return NULL;
    if (tree->type != NC_VALUE_MAP)
        return nc_value_free(tree);
    return tree;
}

/* On a full disk what is there makes room: no file is less wrong than an old one. */
static int write_over(const char *path, const struct nc_buf *text, mode_t mode,
                      struct nc_err *err) {
    const char *data = text->data ? text->data : "";
    const int r = nc_file_write(path, data, text->len, mode, err);

    return r == -ENOSPC && unlink(path) == 0 ? nc_file_write(path, data, text->len, mode, err) : r;
}

/* What is the daemon's from one tree, the rest from the other. Both are consumed. */
static struct nc_value *unite(enum nc_status_writer writer, struct nc_value *own,
                              struct nc_value *there) {
    const bool is_daemon = writer == NC_STATUS_DAEMON;
    struct nc_value *whole = is_daemon ? there : own, *part = is_daemon ? own : there;

    if (!whole) { /* no bootstrap has run yet */
        whole = nc_value_new_map();
        nc_value_set_int(whole, "schema", NC_STATUS_SCHEMA);
        nc_value_set_string(whole, "version", nc_version);
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(of_daemon); i++) {
        const struct nc_value *v = nc_value_get(part, of_daemon[i]);
        if (v)
            nc_value_set(whole, of_daemon[i], nc_value_copy(v));
    }
    nc_value_free(part);
    return whole;
}

static int write_status(const struct nc_app *app, enum nc_status_writer writer,
                        struct nc_value *own, struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(app, NC_STATUS_FILE);
    nc_auto_value struct nc_value *whole = unite(writer, own, read_status(path));
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    nc_json_write(&text, whole, 2);
    (void)nc_buf_putc(&text, '\n');
    /* which pod and budget hold a drain is not for every user of the machine */
    return write_over(path, &text, 0640, err);
}

/* --- metrics.prom */

/* By the family that a line of Prometheus text is about, comments included. */
static bool is_kept(const char *line, enum nc_status_writer writer) {
    const bool is_comment = nc_starts_with(line, "# HELP ") || nc_starts_with(line, "# TYPE ");
    const char *family = is_comment ? line + strlen("# HELP ") : line;

    return nc_starts_with(family, BOOTSTRAP_FAMILIES) == (writer == NC_STATUS_DAEMON);
}

/* Appends the other's lines. */
static void keep_metrics(const char *path, enum nc_status_writer writer, struct nc_buf *out) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    char *rest = NULL;

    if (nc_file_read(path, MAX_BYTES, &text, NULL) < 0 || !text.data)
        return;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (is_kept(line, writer))
            (void)nc_buf_printf(out, "%s\n", line);
}

static int write_metrics(const struct nc_app *app, enum nc_status_writer writer,
                         const struct nc_buf *own, struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(app, NC_METRICS_FILE);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (writer == NC_STATUS_DAEMON)
        keep_metrics(path, writer, &text);
    if (own->data)
        (void)nc_buf_add(&text, own->data, own->len);
    if (writer == NC_STATUS_BOOTSTRAP)
        keep_metrics(path, writer, &text);
    return write_over(path, &text, 0644, err);
}

int nc_status_files_write(const struct nc_app *app, enum nc_status_writer writer,
                          struct nc_value *status, const struct nc_buf *metrics,
                          struct nc_err *err) {
    nc_cleanup(close_fd) const int lock =
        lock_status_file(app, writer == NC_STATUS_BOOTSTRAP ? LOCK_TRIES : 1);
    int r = 0;

    if (lock == -EAGAIN && writer == NC_STATUS_DAEMON) {
        nc_value_free(status);
        return lock;
    }
    if (status)
        r = write_status(app, writer, status, err);
    /* One that cannot be written takes nothing from the other; the first failure is told. */
    const int r2 = metrics ? write_metrics(app, writer, metrics, r < 0 ? NULL : err) : 0;
    if (r >= 0)
        r = r2;
    return r < 0 ? r : 0;
}

static int read_left(const char *path, struct nc_buf *text, struct nc_err *err) {
    const int r = nc_file_read(path, MAX_BYTES, text, err);

    if (r == -ENOENT)
        nc_err_remedy(err, "neither a bootstrap nor the daemon has run since the machine started "
                           "(systemctl status nodeclaimd-bootstrap nodeclaimd), or /run is full "
                           "or read-only (df, mount)");
    if (r == -EACCES) {
        (void)nc_err_set(err, NC_ERR_HOST, EACCES, "cannot tell: %s is for root and its group",
                         path);
        nc_err_remedy(err, "run as root");
    }
    return r;
}

uint64_t nc_status_now(const struct nc_value *status) {
    return nc_now_usec() + (uint64_t)nc_value_int(nc_value_path(status, "daemon.skewUsec"), 0);
}

int nc_status_file_read(const struct nc_app *app, struct nc_buf *text, struct nc_value **ret,
                        struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(app, NC_STATUS_FILE);
    int r = read_left(path, text, err);

    if (r < 0 || !ret)
        return r;
    r = nc_json_parse(text->data ? text->data : "", text->len, ret, err);
    if (r < 0)
        nc_err_wrap(err, "%s", path);
    return r;
}

int nc_metrics_file_read(const struct nc_app *app, struct nc_buf *text, struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(app, NC_METRICS_FILE);

    return read_left(path, text, err);
}
