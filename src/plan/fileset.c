/*
 * The set of files to be: kept sorted by path, so that what is written is the same in every run.
 */
#include "fileset-priv.h"

#include <stdlib.h>

void nc_fileset_done(struct nc_fileset *s) {
    for (size_t i = 0; i < s->n; i++) {
        free(s->files[i].path);
        /* A file that only root may read holds a secret. */
        if (s->files[i].data && (s->files[i].mode & 077) == 0)
            explicit_bzero(s->files[i].data, s->files[i].n);
        free(s->files[i].data);
    }
    free(s->files);
    *s = (struct nc_fileset)NC_FILESET_INIT;
}

static struct nc_file *insert(struct nc_fileset *s, const char *path) {
    (void)nc_append(&s->files, &s->n);

    size_t at = s->n - 1;
    while (at > 0 && strcmp(s->files[at - 1].path, path) > 0) {
        s->files[at] = s->files[at - 1];
        at--;
    }
    s->files[at] = (struct nc_file){.path = nc_strdup(path)};
    return &s->files[at];
}

struct nc_file *nc_fileset_add(struct nc_fileset *s, const char *path, mode_t mode,
                               struct nc_buf *data) {
    struct nc_file *file = insert(s, path);

    file->mode = mode;
    file->n = data->len;
    file->data = nc_buf_steal(data);
    return file;
}

struct nc_file *nc_fileset_add_json(struct nc_fileset *s, const char *path, mode_t mode,
                                    const struct nc_value *tree) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    nc_json_write(&text, tree, 2);
    (void)nc_buf_putc(&text, '\n');
    return nc_fileset_add(s, path, mode, &text);
}

void nc_fileset_add_gate(struct nc_fileset *s, const char *path, mode_t mode, struct nc_buf *data) {
    nc_fileset_add(s, path, mode, data)->is_gate = true;
}

struct nc_file *nc_fileset_add_absent(struct nc_fileset *s, const char *path) {
    struct nc_file *file = insert(s, path);

    file->absent = true;
    return file;
}
