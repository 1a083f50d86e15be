/*
 * The steps from bytes to files. Effects at the edges: IMDS, recorded facts, files of
 * configuration; the decisions are core's.
 */
#include "gather.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask-ec2.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"
#include "nc/zip.h"

#define IMDS_TIMEOUT_USEC                                                                          \
    1000000u /* one answer takes about a millisecond; a silent peer is named after one second */
#define DOCUMENT_MAX_BYTES ((size_t)1 << 20)
#define TYPES_MAX_BYTES ((size_t)1 << 20)
#define MAX_FILES_PER_FOLDER 256
#define MAX_IGNORED 16 /* are named */
#define STRAY_FILE "/etc/nodeclaimd/nodeclaimd.yaml"
#define KUBELET "/usr/bin/kubelet" /* where no configuration names another */

static const char *const default_sources[] = {"imds://user-data", "file://" NC_CONF_DIR "/"};

void nc_gather_done(struct nc_gather *g) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(g->answers); i++)
        nc_imds_answer_done(&g->answers[i]);
    nc_imds_free(g->imds);
    nc_http_free(g->http);
    nc_credentials_done(&g->credentials);
    nc_fileset_done(&g->files);
    nc_plan_done(&g->plan);
    nc_config_done(&g->config);
    nc_documents_done(&g->documents);
    nc_facts_done(&g->facts);
    nc_buf_done(&g->types);
    nc_strv_done(&g->warnings);
    nc_strv_done(&g->ignored);
}

int nc_gather_open(struct nc_gather *g, struct nc_app *app, struct nc_err *err) {
    const char *facts = app->opts.facts;

    g->app = app;
    if (facts && !nc_starts_with(facts, "http://")) {
        struct stat st;
        if (stat(facts, &st) < 0 || !S_ISDIR(st.st_mode))
            return nc_err_set(err, NC_ERR_CONFIG, ENOTDIR,
                              "--facts %s: neither a folder of recorded facts nor an http:// URL",
                              facts);
        g->folder = facts;
        return 0;
    }
    const int r = nc_app_loop(app, err);
    return r < 0 ? r : nc_imds_new(app->event, facts ? facts : app->opts.imds, &g->imds, err);
}

static bool source_is_user_data(const char *source) {
    return nc_streq(source, "imds://user-data");
}

static size_t n_sources(const struct nc_app *app) {
    return app->opts.sources.n > 0 ? app->opts.sources.n : NC_ARRAY_SIZE(default_sources);
}

static const char *source_at(const struct nc_app *app, size_t i) {
    return app->opts.sources.n > 0 ? app->opts.sources.v[i] : default_sources[i];
}

static bool wants_user_data(const struct nc_app *app) {
    for (size_t i = 0; i < n_sources(app); i++)
        if (source_is_user_data(source_at(app, i)))
            return true;
    return false;
}

/* --- answers */

/* The question's path with its %s, if it has one, filled in. */
static char *path_of(enum nc_imds_item item, const char *arg) {
    const char *path = nc_imds_questions[item].path;
    const char *hole = strstr(path, "%s");

    return hole ? nc_asprintf("%.*s%s%s", (int)(hole - path), path, arg, hole + 2)
                : nc_strdup(path);
}

static int read_recorded(struct nc_gather *g, enum nc_imds_item item, const char *arg,
                         struct nc_err *err) {
    struct nc_imds_answer *a = &g->answers[item];
    nc_auto_free char *relative = NULL, *path = NULL;
    int r;

    relative = path_of(item, arg);
    path = nc_asprintf("%s/imds%s", g->folder, relative);
    r = nc_file_read(path, nc_imds_questions[item].max, &a->body, NULL);
    if (r == -ENOENT) {
        a->status = 404;
        return 0;
    }
    if (r < 0)
        return nc_err_set(err, NC_ERR_HOST, -r, "facts: %s: %s", path, strerror(-r));
    a->status = 200;
    return 0;
}

/* Asks for what has no answer yet. */
static int ask(struct nc_gather *g, unsigned items, const char *const args[_NC_IMDS_ITEM_MAX],
               struct nc_err *err) {
    unsigned missing = 0;

    for (unsigned i = 0; i < _NC_IMDS_ITEM_MAX; i++)
        if ((items & (1u << i)) && g->answers[i].status == 0)
            missing |= 1u << i;
    if (missing == 0)
        return 0;
    if (g->imds)
        return nc_imds_fetch(g->imds, missing, args,
                             nc_app_timeout(g->app, nc_imds_timeout(g->imds, IMDS_TIMEOUT_USEC)),
                             g->answers, err);
    for (unsigned i = 0; i < _NC_IMDS_ITEM_MAX; i++)
        if (missing & (1u << i)) {
            const int r =
                read_recorded(g, (enum nc_imds_item)i, args && args[i] ? args[i] : "", err);
            if (r < 0)
                return r;
        }
    return 0;
}

/* Takes one answer into the facts. An answer that makes no sense is forgotten, so that the next
 * attempt asks again. */
static int take(struct nc_gather *g, enum nc_imds_item item, struct nc_err *err) {
    struct nc_imds_answer *a = &g->answers[item];
    const char *path = nc_imds_questions[item].path;
    int r;

    if (a->status == 404 && nc_imds_questions[item].required) {
        nc_imds_answer_done(a);
        r = nc_err_set(err, NC_ERR_PROTOCOL, 404, "imds: %s: HTTP 404, every instance has one",
                       path);
        nc_err_remedy(err, "check that %s is the instance metadata service",
                      g->imds ? nc_imds_endpoint(g->imds) : "the recorded folder");
        return r;
    }
    if (a->status != 200)
        return 0;
    r = nc_facts_take_imds(&g->facts, item, a->body.data, a->body.len, err);
    if (r < 0) {
        nc_imds_answer_done(a);
        nc_err_wrap(err, "imds");
        if (err && !*err->remedy)
            nc_err_remedy(err,
                          "what answers at %s is not the instance metadata service: look for a "
                          "proxy or a redirect in between",
                          g->imds ? nc_imds_endpoint(g->imds) : "the recorded folder");
    }
    return r;
}

int nc_gather_imds(struct nc_gather *g, struct nc_err *err) {
    static const enum nc_imds_item facts_items[] = {
        NC_IMDS_IDENTITY, NC_IMDS_MAC,        NC_IMDS_LOCAL_IPV4, NC_IMDS_LOCAL_HOSTNAME,
        NC_IMDS_AZ_ID,    NC_IMDS_LIFE_CYCLE, NC_IMDS_DOMAIN,     NC_IMDS_PARTITION};
    unsigned items = 0;
    int r;

    for (size_t i = 0; i < NC_ARRAY_SIZE(facts_items); i++)
        items |= 1u << facts_items[i];
    if (wants_user_data(g->app))
        items |= 1u << NC_IMDS_USER_DATA;
    r = ask(g, items, NULL, err);
    if (r < 0) {
        const struct nc_imds_answer *user_data = &g->answers[NC_IMDS_USER_DATA];
        /* EC2 takes no more than 16 KiB; more than the cap is somebody's mistake, not a passing
         * fault. */
        if (user_data->status == 0 && user_data->err.code == -EFBIG
            && g->answers[NC_IMDS_IDENTITY].status != 0 && err) /* and not the token of all */
            err->class = NC_ERR_CONFIG;
        return r;
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(facts_items); i++) {
        r = take(g, facts_items[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- documents */

/* User data that somebody saved: `Content-Type:` or `MIME-Version:` at its head, gzip, or base64 of
 * one of them; a script or a cloud-config. */
static bool looks_like_user_data(const struct nc_buf *text) {
    return nc_is_gzip(text->data, text->len) || strncasecmp(text->data, "MIME-Version:", 13) == 0
           || strncasecmp(text->data, "Content-Type:", 13) == 0
           || strncmp(text->data, "TUlNRS", 6) == 0 /* MIME- */
           || strncmp(text->data, "H4sI", 4) == 0 || strncmp(text->data, "#!", 2) == 0
           || strncmp(text->data, "#cloud-", 7) == 0;
}

static int add_text(struct nc_documents *d, const char *name, const struct nc_buf *text,
                    struct nc_err *err) {
    if (text->len > 0 && looks_like_user_data(text))
        return nc_documents_add_userdata(d, name, text->data, text->len, err);
    return nc_documents_add(d, name, text->data ? text->data : "", text->len, 1, err);
}

static int add_file(struct nc_gather *g, const char *path, const char *name, struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf data = NC_BUF_INIT;
    const int r = nc_file_read(path, DOCUMENT_MAX_BYTES, &data, err);

    if (r < 0) {
        if (err && (r == -ENOENT || r == -EFBIG))
            err->class = NC_ERR_CONFIG;
        nc_err_wrap(err, "configuration source");
        return r;
    }
    return add_text(&g->documents, name, &data, err);
}

static bool is_document(const char *name) {
    return nc_ends_with(name, ".yaml") || nc_ends_with(name, ".yml") || nc_ends_with(name, ".json");
}

static int is_shown(const struct dirent *e) {
    return e->d_name[0] != '.' && (e->d_type != DT_DIR || is_document(e->d_name));
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_entry(struct nc_gather *g, const char *path, const char *name, const char *entry,
                     struct nc_err *err) {
    nc_auto_free char *file = nc_asprintf("%s/%s", path, entry);
    nc_auto_free char *file_name =
        nc_asprintf("%s%s%s", name, nc_ends_with(name, "/") ? "" : "/", entry);

    if (is_document(entry))
        return add_file(g, file, file_name, err);
    if (g->ignored.n < MAX_IGNORED)
        nc_strv_addf(&g->ignored, "%s is ignored: only *.yaml, *.yml and *.json are read",
                     file_name);
    return 0;
}

static int add_folder(struct nc_gather *g, const char *path, const char *name, struct nc_err *err) {
    struct dirent **entries = NULL;
    const int n = scandir(path, &entries, is_shown, by_name);
    int documents = 0, r = 0;

    if (n < 0)
        return nc_err_set(err, NC_ERR_HOST, errno, "configuration source %s: %s", path,
                          strerror(errno));
    for (int i = 0; i < n; i++)
        documents += is_document(entries[i]->d_name);
    if (documents > MAX_FILES_PER_FOLDER)
        r = nc_err_set(err, NC_ERR_CONFIG, E2BIG,
                       "configuration source %s: %d documents, at most %d are read", path,
                       documents, MAX_FILES_PER_FOLDER);
    for (int i = 0; i < n; i++) {
        if (r == 0)
            r = add_entry(g, path, name, entries[i]->d_name, err);
        free(entries[i]);
    }
    free(entries);
    return r;
}

/* Where people look for it first, and where nothing is read. */
static void note_stray(struct nc_gather *g) {
    nc_auto_free char *path = nc_app_path(g->app, STRAY_FILE);

    if (access(path, F_OK) == 0)
        nc_strv_addf(&g->ignored, "%s is ignored: documents are read from " NC_CONF_DIR "/*.yaml",
                     path);
}

static int add_source(struct nc_gather *g, const char *source, bool is_default,
                      struct nc_err *err) {
    const struct nc_imds_answer *user_data = &g->answers[NC_IMDS_USER_DATA];
    struct stat st;
    int r;

    if (source_is_user_data(source)) {
        if (user_data->status != 200 || user_data->body.len == 0)
            return 0;
        return nc_documents_add_userdata(&g->documents, "user-data", user_data->body.data,
                                         user_data->body.len, err);
    }
    if (!nc_starts_with(source, "file:///")) {
        nc_auto_free char *quoted = nc_quote(source, strlen(source));
        return nc_err_set(err, NC_ERR_CONFIG, EINVAL,
                          "--source %s: use imds://user-data or file:///PATH", quoted);
    }
    /* What a person names is that path; the default folder is the root's own or none. */
    const char *named = source + strlen("file://");
    nc_auto_free char *path = is_default ? nc_app_path(g->app, named) : nc_strdup(named);
    if (is_default)
        note_stray(g);
    if (stat(path, &st) < 0) {
        const int code = errno;
        if (is_default && code == ENOENT)
            return 0;
        r = nc_err_set(err, code == ENOENT ? NC_ERR_CONFIG : NC_ERR_HOST, code, "--source %s: %s",
                       source, strerror(code));
        nc_err_remedy(err, "name a file, or a folder of *.yaml, *.yml and *.json files");
        return r;
    }
    return S_ISDIR(st.st_mode) ? add_folder(g, path, source + strlen("file://"), err)
                               : add_file(g, path, source + strlen("file://"), err);
}

static int ask_user_data(struct nc_gather *g, struct nc_err *err) {
    int r = g->imds || g->folder ? 0 : nc_gather_open(g, g->app, err);

    if (r >= 0)
        r = ask(g, 1u << NC_IMDS_USER_DATA, NULL, err);
    if (r < 0)
        return r;
    return g->answers[NC_IMDS_USER_DATA].status == 200
               ? 0
               : nc_err_set(err, NC_ERR_CONFIG, ENOENT, "imds: this instance has no user data");
}

int nc_gather_add(struct nc_gather *g, const char *what, struct nc_err *err) {
    struct stat st;

    if (source_is_user_data(what)) {
        const int r = ask_user_data(g, err);
        if (r < 0)
            return r;
    }
    if (strstr(what, "://"))
        return add_source(g, what, false, err);
    return stat(what, &st) == 0 && S_ISDIR(st.st_mode) ? add_folder(g, what, what, err)
                                                       : add_file(g, what, what, err);
}

int nc_gather_documents(struct nc_gather *g, struct nc_err *err) {
    nc_documents_done(&g->documents);
    nc_strv_done(&g->ignored);
    g->ignored = (struct nc_strv)NC_STRV_INIT;
    for (size_t i = 0; i < n_sources(g->app); i++) {
        const int r = add_source(g, source_at(g->app, i), g->app->opts.sources.n == 0, err);
        if (r < 0)
            return r;
    }
    return nc_documents_errors(&g->documents) > 0 ? nc_documents_first_error(&g->documents, err)
                                                  : 0;
}

int nc_gather_config(struct nc_gather *g, struct nc_err *err) {
    nc_config_done(&g->config);
    g->has_config = false;

    const int r = nc_config_build(&g->documents, &g->config, err);
    if (r < 0)
        return r;
    g->has_config = true;
    if (g->app->opts.node_name) {
        free(g->config.name_override);
        g->config.name_override = nc_strdup(g->app->opts.node_name);
    }
    return 0;
}

/* --- plan */

static bool is_ipv6_cluster(const struct nc_config *c) {
    const struct nc_value *dns = nc_value_get(c->kubelet, "clusterDNS");
    const char *address = c->cidr;

    if (!address && dns && dns->type == NC_VALUE_LIST && dns->n > 0)
        address = nc_value_string(dns->items[0]);
    return address && strchr(address, ':');
}

static int ask_ipv6(struct nc_gather *g, struct nc_err *err) {
    const char *args[_NC_IMDS_ITEM_MAX] = {[NC_IMDS_IPV6S] = g->facts.mac};
    int r;

    if (!g->facts.mac || g->facts.ipv6 || (!is_ipv6_cluster(&g->config) && g->facts.local_ipv4))
        return 0;
    r = ask(g, 1u << NC_IMDS_IPV6S, args, err);
    return r < 0 ? r : take(g, NC_IMDS_IPV6S, err);
}

static int read_host(struct nc_gather *g, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_free char *path = NULL;
    int r;

    if (!g->folder)
        return nc_probe_host(g->app->opts.root, g->has_config ? g->config.kubelet_path : KUBELET,
                             &g->facts, err);
    path = nc_asprintf("%s/host.json", g->folder);
    r = nc_file_read(path, DOCUMENT_MAX_BYTES, &text, err);
    if (r == -ENOENT)
        return 0;
    return r < 0 ? r : nc_facts_take_host_json(&g->facts, text.data, text.len, err);
}

static void take_kubelet_version(struct nc_gather *g) {
    if (!g->app->opts.kubelet_version)
        return;
    free(g->facts.kubelet_version);
    g->facts.kubelet_version = nc_strdup(g->app->opts.kubelet_version);
}

static void read_types(struct nc_gather *g) {
    nc_auto_free char *path = nc_app_path(g->app, NC_INSTANCE_TYPES_FILE);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (g->types.len > 0 || nc_file_read(path, TYPES_MAX_BYTES, &text, NULL) < 0)
        return;
    g->types = text;
    text = (struct nc_buf)NC_BUF_INIT;
}

int nc_gather_host(struct nc_gather *g, struct nc_err *err) {
    take_kubelet_version(g); /* known: it is not looked for */

    const int r = read_host(g, err);

    take_kubelet_version(g); /* recorded facts may say another one */
    return r;
}

int nc_gather_plan(struct nc_gather *g, const struct nc_claim *claim, struct nc_err *err) {
    struct nc_config config; /* borrows all of g->config, and the claim */
    int r = nc_gather_host(g, err);

    if (r >= 0)
        r = ask_ipv6(g, err);
    if (r < 0)
        return r;
    read_types(g);
    g->name_only = false;
    r = nc_gather_ask_ec2(g, err);
    if (r < 0)
        return r;
    config = g->config;
    if (claim) {
        config.claim = *claim;
        config.has_claim_document = true;
    }
    nc_plan_done(&g->plan);
    return nc_plan_make(&g->facts, &config, &g->documents, g->types.len > 0 ? g->types.data : NULL,
                        g->types.len, &g->plan, err);
}

int nc_gather_name(struct nc_gather *g, struct nc_err *err) {
    int r = g->config.naming == NC_NAMING_HOSTNAME ? nc_gather_host(g, err) : 0;

    g->name_only = true;
    if (r >= 0)
        r = nc_gather_ask_ec2(g, err);
    if (r < 0)
        return r;
    nc_plan_done(&g->plan);
    return nc_plan_identify(&g->facts, &g->config, &g->documents, &g->plan, err);
}

int nc_gather_render(struct nc_gather *g, struct nc_err *err) {
    const char *imds = g->app->opts.imds;
    const struct nc_render_options o = {
        .program = NC_SBINDIR "/nodeclaimd",
        .imds_endpoint = imds && !nc_streq(imds, NC_IMDS_ENDPOINT) ? imds : NULL,
    };

    nc_fileset_done(&g->files);
    return nc_render(&g->facts, &g->config, &g->plan, &o, &g->files, err);
}

/* --- recording */

int nc_gather_save(const struct nc_gather *g, const char *folder, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf host = NC_BUF_INIT;
    nc_auto_free char *host_path = nc_asprintf("%s/host.json", folder);

    for (unsigned i = 0; i < _NC_IMDS_ITEM_MAX; i++) {
        const struct nc_imds_answer *a = &g->answers[i];
        nc_auto_free char *relative = NULL, *path = NULL;
        int r;
        if (a->status != 200 || i == NC_IMDS_CREDENTIALS || i == NC_IMDS_ROLE)
            continue;
        relative = path_of((enum nc_imds_item)i, g->facts.mac);
        path = nc_asprintf("%s/imds%s", folder, relative);
        r = nc_file_write(path, a->body.data, a->body.len, i == NC_IMDS_USER_DATA ? 0600 : 0644,
                          false, err);
        if (r < 0)
            return r;
    }
    nc_facts_write_host_json(&g->facts, &host);
    const int r = nc_file_write(host_path, host.data, host.len, 0644, false, err);
    return r < 0 ? r : 0;
}
