/*
 * registry.mirrors of containerd's configuration as hosts.toml files: containerd loads no CRI
 * plugin where a configuration has both mirrors and a config_path, which the node's has.
 *
 * A mirror is tried for pulls before the registry itself, as mirrors are (containerd
 * docs/hosts.md). An endpoint with a path is used as it stands.
 */
#include "planner.h"

#include <errno.h>

#include "nc/str.h"
#include "nc/value.h"
#include "shapes.h"

#define FOLDER "/etc/containerd/certs.d"

static bool is_registry(const char *s) {
    return nc_streq(s, "*")
           || (nc_is_alnum_or(s, ".-_:", 255) && !nc_streq(s, ".") && !nc_streq(s, ".."));
}

static int refuse(struct nc_planner *s, const struct nc_value *v, const char *registry,
                  const char *what) {
    nc_auto_free char *quoted = nc_quote_string(registry);
    nc_auto_free char *why = nc_asprintf("registry.mirrors of %s: %s", quoted, what);

    return nc_containerd_refuse(s, v, why);
}

/* The table of one endpoint; NULL where it is no URL. */
static struct nc_value *host_of(const char *endpoint) {
    const char *authority = strstr(endpoint, "://"), *path;
    struct nc_value *host, *capabilities;

    if (!nc_shape_url(endpoint) || !authority)
        return NULL;
    host = nc_value_new_map();
    capabilities = nc_value_add_list(host, "capabilities");
    nc_value_push_string(capabilities, "pull");
    nc_value_push_string(capabilities, "resolve");
    path = strchr(authority + 3, '/');
    if (path && path[1])
        nc_value_set_bool(host, "override_path", true);
    return host;
}

static int add_registry(struct nc_planner *s, const struct nc_member *m) {
    const struct nc_value *endpoints = nc_value_get(m->value, "endpoint");
    const bool is_any = nc_streq(m->key, "*");
    nc_auto_free char *server =
        nc_asprintf("https://%s", nc_streq(m->key, "docker.io") ? "registry-1.docker.io" : m->key);
    nc_auto_value struct nc_value *tree = nc_value_new_map();
    struct nc_value *hosts;
    nc_auto_free char *path = nc_asprintf(FOLDER "/%s/hosts.toml", is_any ? "_default" : m->key);
    struct nc_mirror *mirror;

    if (!is_any)
        nc_value_set_string(tree, "server", server);
    hosts = nc_value_add_map(tree, "host");
    if (!is_registry(m->key))
        return refuse(s, m->value, m->key, "is no name of a registry");
    for (size_t i = 0; i < s->plan.containerd.n_mirrors; i++)
        if (nc_streq(s->plan.containerd.mirrors[i].path, path))
            return refuse(s, m->value, m->key, "its file is written already");
    if (!endpoints || endpoints->type != NC_VALUE_LIST)
        return refuse(s, m->value, m->key, "endpoint must be a list of URLs");
    for (size_t i = 0; i < endpoints->n; i++) {
        const char *url = nc_value_string(endpoints->items[i]);
        struct nc_value *host = url ? host_of(url) : NULL;

        if (!host)
            return refuse(s, endpoints->items[i], m->key, "an endpoint must be a URL");
        nc_value_set(hosts, url, host);
    }
    mirror = nc_append(&s->plan.containerd.mirrors, &s->plan.containerd.n_mirrors);
    mirror->path = nc_steal(&path);
    mirror->tree = nc_steal(&tree);
    return 0;
}

int nc_registry_mirrors_apply(struct nc_planner *s, struct nc_value *user) {
    const struct nc_value *plugins = nc_value_get(user, "plugins");
    const struct nc_member *plugin;
    int r = 0;

    for (size_t i = 0; (plugin = nc_value_member(plugins, i)); i++) {
        struct nc_value *registry = nc_value_get(plugin->value, "registry");
        const struct nc_value *mirrors = nc_value_get(registry, "mirrors"),
                              *path = nc_value_get(registry, "config_path");

        if (!mirrors || mirrors->type != NC_VALUE_MAP
            || (path && !(nc_value_string(path) && strstr(path->text, FOLDER))))
            continue; /* containerd's own, or refused, beside a config_path of the user's */
        for (size_t k = 0; r >= 0 && k < mirrors->n; k++)
            r = add_registry(s, &mirrors->members[k]);
        (void)nc_value_remove(registry, "mirrors");
    }
    return r;
}
