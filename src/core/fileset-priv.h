/*
 * Filling a fileset; only the renderers do.
 */
#ifndef NC_FILESET_PRIV_H
#define NC_FILESET_PRIV_H

#include "nc/fileset.h"

/* Takes what data holds; data is empty afterwards. */
void nc_fileset_add(struct nc_fileset *s, const char *path, mode_t mode, struct nc_buf *data);
/* The path must not exist after apply. */
void nc_fileset_add_absent(struct nc_fileset *s, const char *path);

#endif
