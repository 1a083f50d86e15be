/*
 * The serial console: what EC2's console output shows when nothing else can be reached.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/host.h"

int nc_console_write(const char *root, const char *line, struct nc_err *err) {
    const bool is_file = root && *root; /* below another root it is a plain file */
    nc_auto_free char *folder = nc_path_below(root, "/dev");
    nc_auto_free char *path = nc_path_below(root, "/dev/console");
    nc_auto_free char *text = nc_asprintf("%s\n", line);
    /* A console that is not read must not hold us up. */
    const int flags = O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    const int r = is_file ? nc_mkdir_p(folder, err) : 0;
    const int fd = r < 0 ? -1 : open(path, flags | (is_file ? O_CREAT : 0), 0644);

    if (r < 0)
        return r;
    if (fd < 0)
        return nc_err_host(err, errno, "open %s", path);
    const int code = -nc_write_all(fd, text, strlen(text));
    (void)close(fd);
    return code ? nc_err_host(err, code, "write %s", path) : 0;
}
