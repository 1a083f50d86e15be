/*
 * What keeps containerd from loading its CRI plugin: it is up then all the same, says so in one
 * line of its log, and the node is never Ready.
 *
 * The rules are those of containerd's own validation, 1.7 to 2.4, on the configuration as it will
 * be written; a plugin that an installed version does not read, and tables that have moved, are the
 * user's text alone.
 */
#include "planner.h"

#include "nc/str.h"
#include "nc/time.h"

#define CRI "io.containerd.grpc.v1.cri"
#define IMAGES "io.containerd.cri.v1.images"
#define RUNTIME "io.containerd.cri.v1.runtime"

#define NOT_A_NAME "a plugin is named io.containerd.TYPE.VERSION.ID"

static const char parts[] = CRI "\0" IMAGES "\0" RUNTIME "\0";

/* The CRI plugin's tables: of version 2 it is one. */
struct cri {
    const struct nc_value *images, *runtime, *server;
};

static struct cri cri_of(const struct nc_value *config) {
    const struct nc_value *plugins = nc_value_get(config, "plugins");
    const struct nc_value *server = nc_value_get(plugins, CRI),
                          *images = nc_value_get(plugins, IMAGES);

    return images ? (struct cri){images, nc_value_get(plugins, RUNTIME), server}
                  : (struct cri){server, server, server};
}

/* As the table of keys has versions. */
static unsigned installed(const struct nc_planner *s) {
    return s->plan.containerd.major * 10 + s->plan.containerd.minor;
}

static bool is_filled(const struct nc_value *v) {
    return v && ((v->type == NC_VALUE_STRING && *v->text) || (v->type == NC_VALUE_MAP && v->n > 0));
}

static int check_registry(struct nc_planner *s, const struct cri *c) {
    const struct nc_value *registry = nc_value_get(c->images, "registry"),
                          *mirrors = nc_value_get(registry, "mirrors"),
                          *configs = nc_value_get(registry, "configs");

    if (!is_filled(nc_value_get(registry, "config_path")))
        return 0;
    if (is_filled(mirrors))
        return nc_containerd_refuse(s, mirrors,
                                    "registry.mirrors cannot be set beside registry.config_path: "
                                    "write hosts.toml files below it, or config_path = \"\"");
    for (size_t i = 0; s->plan.containerd.major < 2 && is_filled(configs) && i < configs->n; i++)
        if (nc_value_get(configs->members[i].value, "tls"))
            return nc_containerd_refuse(s, configs->members[i].value,
                                        "registry.configs.*.tls cannot be set beside "
                                        "registry.config_path: write hosts.toml files below it");
    return 0;
}

static int check_runtimes(struct nc_planner *s, const struct cri *c) {
    const struct nc_value *containerd = nc_value_get(c->runtime, "containerd"),
                          *runtimes = nc_value_get(containerd, "runtimes"),
                          *name = nc_value_get(containerd, "default_runtime_name"),
                          *untrusted = nc_value_get(runtimes, "untrusted");
    const char *text = nc_value_string(name);

    /* 2.x lays the runtimes of the file over its own one, 1.x has those of the file alone. */
    if (!nc_value_get(runtimes, text ? text : "")
        && (s->plan.containerd.major < 2 || !nc_streq(text, "runc")))
        return nc_containerd_refuse(s, name, "default_runtime_name is none of containerd.runtimes");
    if (untrusted && s->plan.containerd.major < 2
        && is_filled(nc_value_path(containerd, "untrusted_workload_runtime.runtime_type")))
        return nc_containerd_refuse(s, untrusted,
                                    "cannot be set beside untrusted_workload_runtime");
    for (size_t i = 0; i < runtimes->n; i++) {
        const struct nc_value *r = runtimes->members[i].value,
                              *all = nc_value_get(
                                  r, "privileged_without_host_devices_all_devices_allowed"),
                              *io = nc_value_get(r, "io_type");
        if (nc_value_bool(all, false)
            && !nc_value_bool(nc_value_get(r, "privileged_without_host_devices"), false))
            return nc_containerd_refuse(s, all,
                                        "privileged_without_host_devices_all_devices_allowed needs "
                                        "privileged_without_host_devices");
        if (s->plan.containerd.major >= 2 && is_filled(io) && !nc_streq(io->text, "fifo")
            && !nc_streq(io->text, "streaming"))
            return nc_containerd_refuse(s, io, "io_type must be fifo or streaming");
    }
    return 0;
}

/* While it has both, bin_dirs is bin_dir of later, and its default counts for none. */
static int check_cni(struct nc_planner *s, const struct cri *c) {
    const struct nc_value *cni = nc_value_get(c->runtime, "cni"),
                          *folders = nc_value_get(cni, "bin_dirs");

    if (installed(s) < 21 || installed(s) > 23 || !is_filled(nc_value_get(cni, "bin_dir"))
        || !folders || folders->type != NC_VALUE_LIST || folders->n == 0
        || (folders->n == 1 && nc_streq(nc_value_string(folders->items[0]), "/opt/cni/bin")))
        return 0;
    return nc_containerd_refuse(s, folders, "cni.bin_dirs cannot be set beside cni.bin_dir");
}

/* From version 3 on the plugin of version 2 has but its server's settings, and in version 4 the
 * servers are plugins. What is older than a containerd's newest version is converted, all else
 * there is ignored. */
static int check_moved(struct nc_planner *s, const struct nc_containerd_user *u) {
    static const char servers[] = "disable_tcp_service\0stream_server_address\0"
                                  "stream_server_port\0stream_idle_timeout\0"
                                  "enable_tls_streaming\0x509_key_pair_streaming\0";
    const struct nc_value *cri = nc_value_get(nc_value_get(u->tree, "plugins"), CRI);
    const bool is_newest = u->version >= (s->plan.containerd.minor >= 3 ? 4 : 3);
    const struct nc_member *m;

    for (size_t i = 0; is_newest && (m = nc_value_member(cri, i)); i++)
        if (!nc_is_one_of(m->key, servers))
            return nc_containerd_refuse(s, m->value,
                                        "this is of version 2, and the text of a newer one: "
                                        "use " IMAGES " and " RUNTIME ", or version = 2");
    for (const char *moved = "grpc\0ttrpc\0metrics\0"; u->version >= 4 && *moved;
         moved = nc_next_name(moved)) {
        const struct nc_value *v = nc_value_get(u->tree, moved);
        if (v)
            return nc_containerd_refuse(s, v,
                                        "this is of version 3, and the text of version 4: use the "
                                        "plugins io.containerd.server.v1.*, or version = 3");
    }
    return 0;
}

/* --- keys: what is ignored, and what is of another type, of which containerd loads nothing */

/* What a value of the table's type must be; NULL: it is. */
static const char *wants(const struct nc_value *v, char type) {
    static const struct {
        char type;
        unsigned char is, items;
        char what[22];
    } rows[] = {{'b', NC_VALUE_BOOL, 0, "true or false"},
                {'i', NC_VALUE_INT, 0, "a whole number"},
                {'f', NC_VALUE_FLOAT, 0, "a number"},
                {'s', NC_VALUE_STRING, 0, "a string"},
                {'d', NC_VALUE_STRING, 0, "a duration such as 5m"},
                {'l', NC_VALUE_LIST, NC_VALUE_STRING, "a list of strings"},
                {'t', NC_VALUE_LIST, NC_VALUE_MAP, "a list of tables"},
                {'.', NC_VALUE_MAP, 0, "a table"}};
    uint64_t usec;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        if (rows[i].type != type)
            continue;
        if ((rows[i].is != v->type && (type != 'f' || v->type != NC_VALUE_INT))
            || (type == 'd' && nc_duration_parse(v->text, &usec) < 0))
            return rows[i].what;
        for (size_t k = 0; rows[i].items && k < v->n; k++)
            if (v->items[k]->type != rows[i].items)
                return rows[i].what;
    }
    if (type == 'u' && (v->type == NC_VALUE_BOOL ? v->boolean : !nc_streq(nc_value_string(v), "")))
        return "left out";
    return NULL;
}

/* `any`: as for check_key(). What another version reads is no slip of the pen; it may have got a
 * longer name. */
static void warn_of_ignored(struct nc_planner *s, const struct nc_value *v, const char *path,
                            const char *any) {
    const char *table = s->in->containerd_keys;
    const bool is_plugin = nc_known_path(table, path, installed(s)) == 'p', /* out of its place */
        is_unknown = is_plugin
                     || (!nc_known_path(table, path, NC_ANY_VERSION)
                         && !nc_known_path(table, any, NC_ANY_VERSION));
    nc_auto_free char *near = nc_known_suggestion(table, path, installed(s), "");
    nc_auto_free char *message =
        nc_asprintf("containerd %s ignores \"%s\"%s", s->facts->containerd_version, path,
                    !is_plugin && (is_unknown || strstr(near, path)) ? near : "");

    nc_containerd_warn(s, v->mark, is_unknown, message);
}

static int check_table(struct nc_planner *s, const struct nc_value *v, const char *path);

/* `own` is a key's path, `any` that of each key beside it. */
static int check_key(struct nc_planner *s, const struct nc_value *v, const char *own,
                     const char *any) {
    const char *table = s->in->containerd_keys;
    const char its = nc_known_path(table, own, installed(s)),
               type = its ? its : nc_known_path(table, any, installed(s));
    const char *what = wants(v, type);

    if (what) {
        nc_auto_free char *message = nc_asprintf("%s must be %s", own, what);
        return nc_containerd_refuse(s, v, message);
    }
    if (type == '.' || type == 't') {
        nc_auto_free char *below = nc_asprintf("%s.", its ? own : any);
        return check_table(s, v, below);
    }
    if (!type || type == 'p')
        warn_of_ignored(s, v, own, any);
    return 0;
}

/* `path`: of `v`, a table or a list of such, with what parts it from a key. */
static int check_table(struct nc_planner *s, const struct nc_value *v, const char *path) {
    nc_auto_free char *any = nc_asprintf("%s*", path);
    int r = 0;

    for (size_t i = 0; i < v->n && r == 0; i++) {
        if (v->type == NC_VALUE_LIST) {
            r = check_table(s, v->items[i], path);
            continue;
        }
        nc_auto_free char *own = nc_asprintf("%s%s", path, v->members[i].key);
        r = check_key(s, v->members[i].value, own, any);
    }
    return r;
}

/* --- the names of plugins */

/* containerd 1.x does not start with one that is none, 2.x with one without a dot in a list. */
static bool is_name(const char *name) {
    static const char prefix[] = "io.containerd.";

    return nc_starts_with(name, prefix) && strchr(name + sizeof(prefix) - 1, '.');
}

/* Why a list of plugins must not have it; NULL: it may. Without the CRI plugin kubelet has nothing
 * to talk to, and containerd does not start without what it requires; a proxy has the name that its
 * user gave it. */
static const char *why_not(const struct nc_planner *s, const struct nc_value *config,
                           const char *name, bool is_required) {
    const char *table = s->in->containerd_keys;

    if (!is_name(name))
        return NOT_A_NAME;
    if (!is_required)
        return nc_is_one_of(name, parts) ? "disabled_plugins: kubelet needs the CRI plugin" : NULL;
    const struct nc_value *off = nc_value_get(config, "disabled_plugins");
    for (size_t i = 0; off && i < off->n; i++)
        if (off->type == NC_VALUE_LIST && nc_streq(nc_value_string(off->items[i]), name))
            return "required_plugins: is in disabled_plugins";
    return !table || nc_known_path(table, name, installed(s)) == 'p'
                   || nc_value_get(nc_value_get(config, "proxy_plugins"), strrchr(name, '.') + 1)
               ? NULL
               : "required_plugins: this containerd has none of that name";
}

static int check_lists(struct nc_planner *s, const struct nc_value *config) {
    for (unsigned k = 0; k < 2; k++) {
        const struct nc_value *list =
            nc_value_get(config, k == 0 ? "required_plugins" : "disabled_plugins");
        if (!list || wants(list, 'l')) /* check_keys() says so */
            continue;
        for (size_t i = 0; i < list->n; i++) {
            const char *why = why_not(s, config, list->items[i]->text, k == 0);
            if (why)
                return nc_containerd_refuse(s, list->items[i], why);
        }
    }
    return 0;
}

/* --- all of it */

/* The file's own keys, the plugins, and their keys. */
static int check_keys(struct nc_planner *s, const struct nc_value *user) {
    const struct nc_value *plugins = nc_value_get(user, "plugins");
    nc_auto_value struct nc_value *top = user ? nc_value_copy(user) : NULL;
    int r = 0;

    if (user && !s->in->containerd_keys)
        nc_containerd_warn(s, (struct nc_mark){.source = user->mark.source}, true,
                           "its keys are not checked: containerd-keys.tsv is not in " NC_DATADIR);
    if (!user || !s->in->containerd_keys)
        return 0;
    for (size_t i = 0; plugins && i < plugins->n && r == 0; i++) {
        const struct nc_member *m = &plugins->members[i];
        nc_auto_free char *path = nc_asprintf("%s ", m->key);
        if (m->value->type != NC_VALUE_MAP)
            r = nc_containerd_refuse(s, m->value, "a plugin is a table");
        else if (nc_known_path(s->in->containerd_keys, m->key, installed(s)) == 'p')
            r = check_table(s, m->value, path);
        else if (s->plan.containerd.major < 2 && !is_name(m->key))
            r = nc_containerd_refuse(s, m->value, NOT_A_NAME);
        else
            warn_of_ignored(s, m->value, m->key, m->key);
    }
    (void)nc_value_remove(top, "plugins");
    return r < 0 ? r : check_table(s, top, "");
}

int nc_containerd_check(struct nc_planner *s, const struct nc_containerd_user *u,
                        const struct nc_value *config) {
    const struct cri c = cri_of(config);
    int r = check_moved(s, u);

    if (r >= 0)
        r = check_registry(s, &c);
    if (r >= 0)
        r = check_runtimes(s, &c);
    if (r >= 0)
        r = check_cni(s, &c);
    if (r >= 0)
        r = check_lists(s, config);
    return r < 0 ? r : check_keys(s, u->tree);
}

/* Does the CRI plugin pull images itself, without the transfer service? That one takes the whole of
 * registry.config_path for one folder (containerd#12808). */
bool nc_containerd_pulls_itself(const struct nc_containerd_plan *p) {
    const struct cri c = cri_of(p->config);
    const struct nc_value *registry = nc_value_get(c.images, "registry"),
                          *layers = c.images == c.server ? nc_value_get(c.images, "containerd")
                                                         : c.images,
                          *annotations = nc_value_get(layers, "disable_snapshot_annotations"),
                          *downloads = nc_value_get(c.images, "max_concurrent_downloads");

    return p->major < 2 || p->minor < 1
           || nc_value_bool(nc_value_get(c.images, "use_local_image_pull"), false)
           || nc_value_bool(nc_value_get(layers, "discard_unpacked_layers"), false)
           || nc_value_bool(nc_value_get(c.images, "image_pull_with_sync_fs"), false)
           || (annotations && !nc_value_bool(annotations, false))
           || (downloads && downloads->integer != 3) || is_filled(nc_value_get(registry, "mirrors"))
           || is_filled(nc_value_get(registry, "configs"))
           || is_filled(nc_value_get(registry, "auths"));
}
