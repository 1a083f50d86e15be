/*
 * Reading below a root that is not trusted: symbolic links are resolved as if it were "/".
 *
 * Functions state what is there. What could not be read is not absent: the first such error stays
 * in `unreadable` until the caller has dealt with it.
 */
#ifndef NC_HOST_IMAGE_TREE_H
#define NC_HOST_IMAGE_TREE_H

#include <stdbool.h>

#include "nc/err.h"
#include "nc/mem.h"

struct nc_image_tree {
    int fd;                   /* of the root */
    bool is_machine;          /* no root was given: the machine's own, as everybody sees it */
    size_t read_bytes;        /* of all files so far: at most 16 MiB */
    struct nc_err unreadable; /* class NC_ERR_NONE: everything was readable */
};

int nc_image_tree_open(struct nc_image_tree *t, const char *root, struct nc_err *err);
/* The same, where "" is the machine itself. */
int nc_image_tree_open_any(struct nc_image_tree *t, const char *root, struct nc_err *err);
void nc_image_tree_close(struct nc_image_tree *t);

/* A regular file of at most 1 MiB without NUL bytes, appended to ret. False: absent, or not
 * readable. */
bool nc_image_tree_read(struct nc_image_tree *t, const char *path, struct nc_buf *ret);
/* Opens a regular file; the caller closes. Negative: absent, or not readable. */
int nc_image_tree_open_file(struct nc_image_tree *t, const char *path);
bool nc_image_tree_has(struct nc_image_tree *t, const char *path); /* symbolic links are followed */
bool nc_image_tree_is_empty(struct nc_image_tree *t, const char *path); /* a file of no bytes */
bool nc_image_tree_is_program(struct nc_image_tree *t,
                              const char *path); /* executable: ELF, or a script */
/* Where the symbolic link `path` itself points; NULL where it is none. Owned by the caller. */
char *nc_image_tree_link(struct nc_image_tree *t, const char *path);
/* The names in a folder, sorted; none where it is absent. */
void nc_image_tree_names(struct nc_image_tree *t, const char *folder, struct nc_strv *ret);
/* The paths of all *.conf of these folders, highest first, in the order in which systemd reads
 * them: by name; of equal names the one of the highest folder, and none where that one is a link to
 * /dev/null. */
void nc_image_tree_confs(struct nc_image_tree *t, const struct nc_strv *folders,
                         struct nc_strv *ret);

/* image-unit.c: a unit as systemd would read it from the files of a root: its file and its
 * drop-ins, merged. */

/* One "key = value" of the [Service] section. An empty value resets what stood before it. */
struct nc_image_line {
    char *key, *value;
    char *path; /* of the file that says it */
};

struct nc_image_unit {
    char *path; /* NULL: there is no such unit */
    bool is_masked;
    struct nc_image_line *lines;
    size_t n_lines;
};
#define NC_IMAGE_UNIT_INIT                                                                         \
    { 0 }
void nc_image_unit_read(struct nc_image_tree *t, const char *unit, struct nc_image_unit *ret);
void nc_image_unit_done(struct nc_image_unit *u);

/* The next value in force of a key: *at begins at 0. NULL at the end. */
const struct nc_image_line *nc_image_unit_next(const struct nc_image_unit *u, const char *key,
                                               size_t *at);

/* Would systemd start it at boot, because a target or another unit wants or requires it? */
bool nc_image_unit_is_enabled(struct nc_image_tree *t, const char *unit);
/* nodeadm's units that make a machine a node, and overwrite kubelet's files; NULL-terminated. */
extern const char *const nc_nodeadm_units[];

/* The lines of a text as systemd joins them: trimmed, without comments, a backslash at the end
 * continues. Calls `line` for each that is not empty. */
void nc_image_text_lines(char *text, void (*line)(void *userdata, char *text), void *userdata);

#endif
