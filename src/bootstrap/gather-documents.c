/*
 * What a person gave, as documents: user data, files, folders of files.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gather.h"
#include "image-tree.h"
#include "nc/encode.h"
#include "nc/file.h"
#include "nc/str.h"
#include "nc/userdata.h"

#define DOCUMENT_MAX_BYTES ((size_t)1 << 20)
#define MAX_FILES_PER_FOLDER 256
#define MAX_NOTES 16 /* of what is ignored, or is not root's alone */
#define STRAY_FILE "/etc/nodeclaimd/nodeclaimd.yaml"

/* nodeadm's, for those who build images, and for scripts. It reads hidden files too. */
#define NODEADM_DIR "/etc/eks/nodeadm.d"

static const char *const default_sources[] = {"imds://user-data", "file://" NODEADM_DIR "/",
                                              "file://" NC_CONF_DIR "/"};

static bool source_is_user_data(const char *source) {
    return nc_streq(source, "imds://user-data");
}

static size_t n_sources(const struct nc_app *app) {
    return app->opts.sources.n > 0 ? app->opts.sources.n : NC_ARRAY_SIZE(default_sources);
}

static const char *source_at(const struct nc_app *app, size_t i) {
    return app->opts.sources.n > 0 ? app->opts.sources.v[i] : default_sources[i];
}

bool nc_gather_wants_user_data(const struct nc_app *app) {
    for (size_t i = 0; i < n_sources(app); i++)
        if (source_is_user_data(source_at(app, i)))
            return true;
    return false;
}

/* User data that somebody saved: `Content-Type:` or `MIME-Version:` at its head, gzip, or base64 of
 * anything; a script or a cloud-config. */
static bool looks_like_user_data(const struct nc_buf *text) {
    const struct nc_text rest =
        nc_skip_mark((struct nc_text){.data = text->data, .n = text->len, .line = 1});

    return nc_is_gzip(text->data, text->len) || strncasecmp(rest.data, "MIME-Version:", 13) == 0
           || strncasecmp(rest.data, "Content-Type:", 13) == 0
           || nc_userdata_is_base64(rest.data, rest.n) || nc_starts_with(rest.data, "#!")
           || nc_starts_with(rest.data, "#cloud-");
}

char *nc_diagnostic_text(const struct nc_documents *d, const struct nc_diagnostic *g) {
    nc_auto_free char *at = nc_mark_location(d, g->mark);

    return nc_asprintf("%s: %s%s%s", at, g->path, *g->path ? ": " : "", g->message);
}

char *nc_gather_warning(const struct nc_documents *d, const struct nc_diagnostic *g) {
    return g->is_error || g->kind == NC_DIAGNOSTIC_UNSUPPORTED ? NULL : nc_diagnostic_text(d, g);
}

int nc_gather_add_text(struct nc_gather *g, const char *name, const struct nc_buf *text,
                       struct nc_err *err) {
    if (text->len > 0 && looks_like_user_data(text))
        return nc_documents_add_userdata(&g->documents, name,
                                         (struct nc_text){.data = text->data, .n = text->len}, err);
    return nc_documents_add(
        &g->documents, name,
        (struct nc_text){.data = text->data ? text->data : "", .n = text->len, .line = 1}, err);
}

/* Of this host's own: a node that does not join for a file's mode would be worse than a warning. */
static void note_writable(struct nc_gather *g, const char *path, const char *name) {
    struct stat st;

    if (!nc_starts_with(name, "/etc/") || g->ignored.n >= MAX_NOTES || stat(path, &st) < 0)
        return;
    if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & S_IWOTH
        || (st.st_mode & S_IWGRP && st.st_gid != st.st_uid))
        nc_strv_addf(&g->ignored,
                     "%s: not only root may write it: uid %u, mode %04o; chown root and chmod go-w",
                     name, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
}

static int add_document_file(struct nc_gather *g, const char *path, const char *name,
                             struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf data = NC_BUF_INIT;
    const int r = nc_file_read(path, DOCUMENT_MAX_BYTES, &data, err);

    note_writable(g, path, name);
    if (r < 0) {
        if (err && (r == -ENOENT || r == -EFBIG || r == -EISDIR || r == -EINVAL))
            err->class = NC_ERR_CONFIG;
        nc_err_wrap(err, "configuration source");
        return r;
    }
    return nc_gather_add_text(g, name, &data, err);
}

static bool is_document(const char *name) {
    static const char endings[][6] = {".yaml", ".yml", ".json"};
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < NC_ARRAY_SIZE(endings); i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

static int is_shown(const struct dirent *e) {
    return e->d_name[0] != '.' && (e->d_type != DT_DIR || is_document(e->d_name));
}

static int is_shown_to_nodeadm(const struct dirent *e) {
    return is_shown(e) || is_document(e->d_name);
}

static int by_entry_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_entry(struct nc_gather *g, const char *path, const char *name, const char *entry,
                     struct nc_err *err) {
    nc_auto_free char *file = nc_asprintf("%s/%s", path, entry);
    nc_auto_free char *file_name =
        nc_asprintf("%s%s%s", name, nc_ends_with(name, "/") ? "" : "/", entry);

    if (is_document(entry))
        return add_document_file(g, file, file_name, err);
    if (g->ignored.n < MAX_NOTES)
        nc_strv_addf(&g->ignored, "%s is ignored: only *.yaml, *.yml and *.json are read",
                     file_name);
    return 0;
}

static int add_folder(struct nc_gather *g, const char *path, const char *name, struct nc_err *err) {
    struct dirent **entries = NULL;
    const int n =
        scandir(path, &entries, nc_starts_with(name, NODEADM_DIR) ? is_shown_to_nodeadm : is_shown,
                by_entry_name);
    int documents = 0, r = 0;

    if (n < 0)
        return nc_err_host(err, errno, "configuration source %s", path);
    note_writable(g, path, name);
    for (int i = 0; i < n; i++)
        documents += is_document(entries[i]->d_name);
    if (documents > MAX_FILES_PER_FOLDER)
        r = nc_err_set(err, NC_ERR_CONFIG, E2BIG,
                       "configuration source %s: %d documents, at most %d are read", path,
                       documents, MAX_FILES_PER_FOLDER);
    else if (documents == 0)
        nc_strv_addf(&g->documents.found, "%s" NC_FOUND_NOTHING, name);
    const bool is_read = r == 0;
    for (int i = 0; i < n; i++) {
        const int added =
            is_read ? add_entry(g, path, name, entries[i]->d_name, r ? NULL : err) : 0;
        r = r ? r : added;
        free(entries[i]);
    }
    free(entries);
    return r;
}

/* Where people search for it first, and where nothing is read. */
static void note_stray(struct nc_gather *g) {
    nc_auto_free char *path = nc_app_path(g->app, STRAY_FILE);

    if (access(path, F_OK) == 0)
        nc_strv_addf(&g->ignored, "%s is ignored: documents are read from " NC_CONF_DIR "/*.yaml",
                     path);
}

const char *nc_source_path(const char *source) {
    return nc_starts_with(source, "file:///") ? source + strlen("file://")
           : strstr(source, "://")            ? NULL
                                              : source;
}

bool nc_is_source(const char *text) {
    return source_is_user_data(text) || nc_source_path(text);
}

static int add_source(struct nc_gather *g, const char *source, bool is_default,
                      struct nc_err *err) {
    const char *named = nc_source_path(source);
    const struct nc_imds_answer *user_data = &g->answers[NC_IMDS_USER_DATA];
    struct stat st;
    int r;

    if (source_is_user_data(source)) {
        const size_t n = user_data->status == 200 ? user_data->body.len : 0;
        return nc_documents_add_userdata(
            &g->documents, "user-data",
            (struct nc_text){.data = n ? user_data->body.data : "", .n = n}, err);
    }
    if (!named) {
        nc_auto_free char *quoted = nc_quote_string(source);
        return nc_err_config(err, "%s: use a path, imds://user-data or file:///PATH", quoted);
    }
    /* What a person names is that path; the default folder is the root's own or none. */
    nc_auto_free char *path = is_default ? nc_app_path(g->app, named) : nc_strdup(named);
    if (stat(path, &st) < 0) {
        const int code = errno;
        if (is_default && code == ENOENT)
            return 0;
        r = nc_err_set(err, code == ENOENT ? NC_ERR_CONFIG : NC_ERR_HOST, code, "--source %s: %s",
                       source, strerror(code));
        nc_err_remedy(err, "name a file, or a folder of *.yaml, *.yml and *.json files");
        return r;
    }
    return S_ISDIR(st.st_mode) ? add_folder(g, path, named, err)
                               : add_document_file(g, path, named, err);
}

static int fetch_user_data(struct nc_gather *g, struct nc_err *err) {
    int r = g->imds || g->folder ? 0 : nc_gather_open(g, g->app, err);

    if (r >= 0)
        r = nc_gather_answers(g, 1u << NC_IMDS_USER_DATA, NULL, err);
    if (r < 0)
        return r;
    return g->answers[NC_IMDS_USER_DATA].status == 200
               ? 0
               : nc_err_set(err, NC_ERR_CONFIG, ENOENT, "imds: this instance has no user data");
}

int nc_gather_add(struct nc_gather *g, const char *what, struct nc_err *err) {
    struct stat st;

    if (source_is_user_data(what)) {
        const int r = fetch_user_data(g, err);
        if (r < 0)
            return r;
    }
    if (strstr(what, "://"))
        return add_source(g, what, false, err);
    return stat(what, &st) == 0 && S_ISDIR(st.st_mode) ? add_folder(g, what, what, err)
                                                       : add_document_file(g, what, what, err);
}

int nc_gather_documents(struct nc_gather *g, struct nc_err *err) {
    nc_documents_done(&g->documents);
    nc_strv_done(&g->ignored);
    g->ignored = (struct nc_strv)NC_STRV_INIT;
    if (g->app->opts.sources.n == 0)
        note_stray(g);
    int r = 0;

    for (size_t i = 0; i < n_sources(g->app); i++) {
        const int added =
            add_source(g, source_at(g->app, i), g->app->opts.sources.n == 0, r ? NULL : err);
        r = r ? r : added;
    }
    return r                                        ? r
           : nc_documents_errors(&g->documents) > 0 ? nc_documents_first_error(&g->documents, err)
                                                    : 0;
}

static int add_image_folder(struct nc_gather *g, struct nc_image_tree *t, const char *folder,
                            struct nc_err *err) {
    nc_cleanup(nc_strv_done) struct nc_strv names = NC_STRV_INIT;
    int r = 0;

    nc_image_tree_names(t, folder, &names);
    for (size_t i = 0; r >= 0 && i < names.n; i++) {
        nc_cleanup(nc_buf_done_secret) struct nc_buf data = NC_BUF_INIT;
        nc_auto_free char *path = nc_asprintf("%s/%s", folder, names.v[i]);
        if (!is_document(names.v[i]) || (*names.v[i] == '.' && !nc_streq(folder, NODEADM_DIR)))
            continue;
        if (nc_image_tree_read(t, path, &data))
            r = nc_gather_add_text(g, path, &data, err);
        else if (t->unreadable.class == NC_ERR_NONE)
            nc_documents_add_error(&g->documents, path, "is a link to what is not in the image");
    }
    return r;
}

int nc_gather_image(struct nc_gather *g, const char *root, struct nc_err *err) {
    struct nc_image_tree tree;
    int r = nc_image_tree_open(&tree, root, err);

    if (r < 0)
        return r;
    r = add_image_folder(g, &tree, NODEADM_DIR, err);
    if (r >= 0)
        r = add_image_folder(g, &tree, NC_CONF_DIR, err);
    g->facts.has_pause_archive = nc_image_tree_has(&tree, NC_PAUSE_ARCHIVE);
    (void)nc_image_tree_read(&tree, NC_INSTANCE_TYPES_FILE, &g->types);
    nc_image_tree_close(&tree);
    if (r >= 0 && tree.unreadable.class != NC_ERR_NONE) {
        *err = tree.unreadable;
        r = -EIO;
    }
    return r;
}
