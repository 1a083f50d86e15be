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

static bool is_true(const struct nc_value *v) {
    return v && v->type == NC_VALUE_BOOL && v->boolean;
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
        return nc_containerd_refuse(s, mirrors->mark,
                                    "registry.mirrors cannot be set beside registry.config_path: "
                                    "write hosts.toml files below it, or config_path = \"\"");
    for (size_t i = 0; s->plan.containerd.major < 2 && is_filled(configs) && i < configs->n; i++)
        if (nc_value_get(configs->members[i].value, "tls"))
            return nc_containerd_refuse(s, configs->members[i].value->mark,
                                        "registry.configs.*.tls cannot be set beside "
                                        "registry.config_path: write hosts.toml files below it");
    return 0;
}

static int check_runtimes(struct nc_planner *s, const struct cri *c) {
    const struct nc_value *containerd = nc_value_get(c->runtime, "containerd"),
                          *runtimes = nc_value_get(containerd, "runtimes"),
                          *name = nc_value_get(containerd, "default_runtime_name");
    const char *text = nc_value_string(name);

    /* 2.x lays the runtimes of the file over its own one, 1.x has those of the file alone. */
    if (!nc_value_get(runtimes, text ? text : "")
        && (s->plan.containerd.major < 2 || !nc_streq(text, "runc")))
        return nc_containerd_refuse(s, name->mark,
                                    "default_runtime_name is none of containerd.runtimes");
    for (size_t i = 0; i < runtimes->n; i++) {
        const struct nc_value *r = runtimes->members[i].value,
                              *all = nc_value_get(
                                  r, "privileged_without_host_devices_all_devices_allowed"),
                              *io = nc_value_get(r, "io_type");
        if (is_true(all) && !is_true(nc_value_get(r, "privileged_without_host_devices")))
            return nc_containerd_refuse(s, all->mark,
                                        "privileged_without_host_devices_all_devices_allowed needs "
                                        "privileged_without_host_devices");
        if (s->plan.containerd.major >= 2 && is_filled(io) && !nc_streq(io->text, "fifo")
            && !nc_streq(io->text, "streaming"))
            return nc_containerd_refuse(s, io->mark, "io_type must be fifo or streaming");
    }
    return 0;
}

static int check_durations(struct nc_planner *s, const struct cri *c) {
    const struct nc_value *const rows[] = {
        nc_value_get(c->images, "image_pull_progress_timeout"),
        nc_value_get(c->runtime, "drain_exec_sync_io_timeout"),
        nc_value_get(c->runtime, "stats_collect_period"),
        nc_value_get(c->runtime, "stats_retention_period"),
        nc_value_get(c->server, "stream_idle_timeout"),
    };
    uint64_t usec;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (is_filled(rows[i]) && nc_duration_parse(rows[i]->text, &usec) < 0)
            return nc_containerd_refuse(s, rows[i]->mark, "must be a duration such as 5m");
    return 0;
}

/* Without it kubelet has nothing to talk to. */
static int check_disabled(struct nc_planner *s, const struct nc_value *config) {
    const struct nc_value *list = nc_value_get(config, "disabled_plugins");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_is_one_of(nc_value_string(list->items[i]), parts))
            return nc_containerd_refuse(s, list->items[i]->mark,
                                        "disabled_plugins: kubelet needs the CRI plugin");
    return 0;
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

    for (size_t i = 0; is_newest && cri && cri->type == NC_VALUE_MAP && i < cri->n; i++) {
        if (!nc_is_one_of(cri->members[i].key, servers))
            return nc_containerd_refuse(
                s, cri->members[i].value->mark,
                "this is of version 2, and the text of a newer one: use " IMAGES " and " RUNTIME
                ", or version = 2");
    }
    for (const char *moved = "grpc\0ttrpc\0metrics\0"; u->version >= 4 && *moved;
         moved = nc_next_name(moved)) {
        const struct nc_value *v = nc_value_get(u->tree, moved);
        if (v)
            return nc_containerd_refuse(s, v->mark,
                                        "this is of version 3, and the text of version 4: use the "
                                        "plugins io.containerd.server.v1.*, or version = 3");
    }
    return 0;
}

/* --- keys: what is ignored, and what is of another type, of which containerd loads nothing */

/* As the table has versions. */
static unsigned installed(const struct nc_planner *s) {
    return s->plan.containerd.major * 10 + s->plan.containerd.minor;
}

/* What a value of the table's type must be; NULL: it is. */
static const char *wants(const struct nc_value *v, char type) {
    static const struct {
        char type;
        enum nc_value_type is;
        char what[18];
    } rows[] = {{'b', NC_VALUE_BOOL, "true or false"},
                {'i', NC_VALUE_INT, "a whole number"},
                {'s', NC_VALUE_STRING, "a string"},
                {'l', NC_VALUE_LIST, "a list of strings"},
                {'.', NC_VALUE_MAP, "a table"}};

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        if (rows[i].type != type)
            continue;
        if (rows[i].is != v->type)
            return rows[i].what;
        for (size_t k = 0; type == 'l' && k < v->n; k++)
            if (v->items[k]->type != NC_VALUE_STRING)
                return rows[i].what;
    }
    return NULL;
}

static void warn_of_unknown(struct nc_planner *s, const struct nc_value *v, const char *path) {
    nc_auto_free char *near = nc_known_suggestion(s->in->containerd_keys, path, installed(s), "");

    nc_strv_addf(&s->plan.warnings, NC_CONTAINERD_FIELD ": line %u: containerd %s ignores \"%s\"%s",
                 v->mark.line, s->facts->containerd_version, path, near);
}

static int check_table(struct nc_planner *s, const struct nc_value *map, const char *path);

/* `own` is a key's path, `any` that of each key beside it. */
static int check_key(struct nc_planner *s, const struct nc_value *v, const char *own,
                     const char *any) {
    const char *table = s->in->containerd_keys;
    const char its = nc_known_path(table, own, installed(s)),
               type = its ? its : nc_known_path(table, any, installed(s));
    const char *what = wants(v, type);

    if (what) {
        nc_auto_free char *message = nc_asprintf("%s must be %s", own, what);
        return nc_containerd_refuse(s, v->mark, message);
    }
    if (type == '.') {
        nc_auto_free char *below = nc_asprintf("%s.", its ? own : any);
        return check_table(s, v, below);
    }
    if (!type)
        warn_of_unknown(s, v, own);
    return 0;
}

/* `path`: of `map`, with what parts it from a key. */
static int check_table(struct nc_planner *s, const struct nc_value *map, const char *path) {
    nc_auto_free char *any = nc_asprintf("%s*", path);
    int r = 0;

    for (size_t i = 0; i < map->n && r == 0; i++) {
        nc_auto_free char *own = nc_asprintf("%s%s", path, map->members[i].key);
        r = check_key(s, map->members[i].value, own, any);
    }
    return r;
}

/* The file's own keys, the plugins, and the keys of the CRI plugin. */
static int check_keys(struct nc_planner *s, const struct nc_value *user) {
    const struct nc_value *plugins = nc_value_get(user, "plugins");
    nc_auto_value struct nc_value *top = user ? nc_value_copy(user) : NULL;
    int r = 0;

    if (user && !s->in->containerd_keys)
        nc_strv_add(&s->plan.warnings, "the keys of " NC_CONTAINERD_FIELD
                                       " are not checked: containerd-keys.tsv is not installed");
    if (!user || !s->in->containerd_keys)
        return 0;
    for (size_t i = 0; plugins && i < plugins->n && r == 0; i++) {
        const struct nc_member *m = &plugins->members[i];
        nc_auto_free char *path = nc_asprintf("%s ", m->key);
        if (m->value->type != NC_VALUE_MAP)
            r = nc_containerd_refuse(s, m->value->mark, "a plugin is a table");
        else if (nc_is_one_of(m->key, parts))
            r = check_table(s, m->value, path);
        else if (nc_known_path(s->in->containerd_keys, m->key, installed(s)) != 'p')
            warn_of_unknown(s, m->value, m->key);
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
        r = check_durations(s, &c);
    if (r >= 0)
        r = check_disabled(s, config);
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

    return p->major < 2 || p->minor < 1 || is_true(nc_value_get(c.images, "use_local_image_pull"))
           || is_true(nc_value_get(layers, "discard_unpacked_layers"))
           || is_true(nc_value_get(c.images, "image_pull_with_sync_fs"))
           || (annotations && !is_true(annotations)) || (downloads && downloads->integer != 3)
           || is_filled(nc_value_get(registry, "mirrors"))
           || is_filled(nc_value_get(registry, "configs"))
           || is_filled(nc_value_get(registry, "auths"));
}
