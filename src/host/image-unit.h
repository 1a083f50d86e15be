/*
 * A unit as systemd would read it from the files of a root: its file and its drop-ins, merged.
 */
#ifndef NC_HOST_IMAGE_UNIT_H
#define NC_HOST_IMAGE_UNIT_H

#include <stdbool.h>
#include <stddef.h>

#include "image-tree.h"

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
