/*
 * Does the daemon run, or the bootstrap? A lock that its process holds for as long as it lives:
 * neither a file that was left behind nor a process number that is somebody else's by now reports
 * it.
 *
 * A record lock: whoever asks takes nothing, learns the process, and a child does not inherit it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "nc/file.h"

#define FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)

static struct flock lock_range(void) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static int refuse(pid_t pid, struct nc_err *err) {
    const int r = nc_err_set(err, NC_ERR_HOST, EEXIST, "the daemon runs already, process %d", pid);

    nc_err_remedy(err, "`nodeclaimd status` shows it; systemctl stop nodeclaimd ends it");
    return r;
}

/* 0 = there is none; negative = it cannot be known (-ENOENT: there is no lock; -EROFS: none could
 * be taken; and -ESRCH: it runs where its number is not ours to see). */
static pid_t find_process(const struct nc_app *app, const char *name) {
    nc_auto_free char *path = nc_app_path(app, name);
    struct flock lock = lock_range();
    const int fd = open(path, O_RDONLY | FLAGS);
    int r;

    if (fd < 0)
        return -errno;
    r = fcntl(fd, F_GETLK, &lock) < 0 ? -errno : 0;
    (void)close(fd);
    if (r == 0 && lock.l_type == F_UNLCK && access(path, W_OK) < 0 && errno == EROFS)
        return -EROFS;
    if (r < 0 || lock.l_type == F_UNLCK)
        return r;
    return lock.l_pid > 0 ? lock.l_pid : -ESRCH; /* of another pid namespace */
}

int nc_process_lock(const struct nc_app *app, const char *name, int *ret_fd, struct nc_err *err) {
    nc_auto_free char *folder = nc_app_path(app, NC_RUN_DIR);
    nc_auto_free char *path = nc_app_path(app, name);
    const struct flock lock = lock_range();
    int fd = nc_mkdir_p(folder, err), code;

    if (fd < 0)
        return fd;
    fd = open(path, O_RDWR | O_CREAT | FLAGS, 0600);
    if (fd < 0)
        return nc_file_fail(err, errno, "open", path);
    (void)fchmod(fd, 0600); /* whoever may read it can hold a lock that excludes ours */
    if (fcntl(fd, F_SETLK, &lock) == 0) {
        *ret_fd = fd;
        return 0;
    }
    code = errno;
    (void)close(fd);
    return code == EAGAIN || code == EACCES ? refuse(find_process(app, name), err)
                                            : nc_file_fail(err, code, "lock", path);
}

static bool is_number_free(const struct nc_value *pid) {
    const int64_t n = nc_value_int(pid, 0);

    return n > 0 && n < INT32_MAX && kill((pid_t)n, 0) < 0 && errno == ESRCH;
}

int nc_daemon_is_gone(const struct nc_app *app, const struct nc_value *status) {
    const pid_t pid = find_process(app, NC_LOCK_DAEMON);

    if (pid >= 0 || pid == -ESRCH)
        return pid == 0;
    if (pid == -EROFS) /* nor was the status written */
        return pid;
    if (is_number_free(nc_value_path(status, "daemon.pid")))
        return 1;
    return pid == -ENOENT ? 0 : pid;
}

bool nc_bootstrap_is_gone(const struct nc_app *app, const struct nc_value *status) {
    return nc_value_says(status, "outcome", "running") && find_process(app, NC_LOCK_BOOTSTRAP) == 0;
}
