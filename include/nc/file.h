/*
 * Files: capped reads, atomic writes, paths below a root.
 *
 * A write is complete or not at all: temporary file in the same folder, fsync, rename, fsync of the
 * folder. No policy here.
 */
#ifndef NC_FILE_H
#define NC_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "nc/err.h"
#include "nc/mem.h"

/* "/etc/x" below root ("" or NULL: the path itself). Owned by the caller. */
char *nc_path_below(const char *root, const char *path);
/* Whether there is a file or folder at this path below root. */
bool nc_is_there(const char *root, const char *path);

/* Reads a regular file of at most max bytes into out. -ENOENT is returned without touching err's
 * caller-visible meaning: class NC_ERR_HOST as all others; -EFBIG where it is larger. Files of
 * /proc and /sys (size 0) are read to their end. */
int nc_file_read(const char *path, size_t max, struct nc_buf *out, struct nc_err *err);
/* The same of an open descriptor, which stays open; path is for messages. */
int nc_file_read_fd(int fd, const char *path, size_t max, struct nc_buf *out, struct nc_err *err);
/* What is left to read of a descriptor, whatever it is of; a negative errno, -EFBIG where that is
 * more than max. */
int nc_file_read_all(int fd, size_t max, struct nc_buf *out);

/* Makes the folder and its parents (0755). */
int nc_mkdir_p(const char *path, struct nc_err *err);

/* Writes atomically with exactly this mode (umask does not matter). Parents are made. Returns 1
 * where the file had these bytes and this mode already (nothing written), 0 where it was written.
 */
int nc_file_write(const char *path, const void *data, size_t n, mode_t mode, struct nc_err *err);
/* The same with the two fsyncs: it is there after a power cut. */
int nc_file_write_synced(const char *path, const void *data, size_t n, mode_t mode,
                         struct nc_err *err);

/* Writes to the regular file that a person named, new or not; "-" is standard output. A device, a
 * pipe or a symbolic link is refused and stays what it is. No folder is made. */
int nc_output_write(const char *path, const void *data, size_t n, struct nc_err *err);

/* Writes all n bytes, whatever signals and short writes come between. 0 or a negative errno. */
int nc_write_all(int fd, const char *data, size_t n);

/* "VERB PATH: what errno says", class NC_ERR_HOST, with a remedy for a full, read-only or closed
 * place. code is a positive errno; returns it negated. */
int nc_file_fail(struct nc_err *err, int code, const char *verb, const char *path);

#endif
