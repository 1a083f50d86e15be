/*
 * instance.environment, instance.network, instance.localStorage and containerd of a NodeConfig,
 * typed. Values were checked document by document, by the shapes that are here too: what systemd
 * would leave out with a line in its log is an error in ours.
 */
#include "config-priv.h"

#include "nc/str.h"
#include "shapes.h"

#define MAX_NAME 255
#define MAX_UNIT_NAME 255
/* execve() takes no variable of 128 KiB with its name and the NUL (MAX_ARG_STRLEN). */
#define MAX_VALUE ((128u << 10) - MAX_NAME - 2)

/* NAME of NAME.service, as systemd takes names of units; with ".service" it would be another unit.
 */
bool nc_shape_environment_service(const char *s) {
    return s[0] != '.' && !nc_ends_with(s, ".service")
           && nc_is_alnum_or(s, ":-_.\\@", MAX_UNIT_NAME - strlen(".service"));
}

bool nc_shape_environment_name(const char *s) {
    return !strchr(NC_DIGITS, s[0]) && nc_is_alnum_or(s, "_", MAX_NAME);
}

bool nc_shape_environment_value(const char *s) {
    const size_t n = strlen(s);

    return n <= MAX_VALUE && nc_is_text(s, n) && !strpbrk(s, "\r\n");
}

/* "~" in front: for routing queries, not for completing names; "~." is every name. */
bool nc_shape_search_domain(const char *s) {
    nc_auto_free char *name = nc_strdup(s[0] == '~' ? s + 1 : s);
    const size_t n = strlen(name);

    if (n > 1 && name[n - 1] == '.')
        name[n - 1] = '\0';
    return nc_streq(s, "~.") || nc_shape_domain(name);
}

/* It becomes a line of a mount unit and the name of one. */
bool nc_shape_mount_path(const char *s) {
    return nc_shape_absolute_path(s) && nc_is_alnum_or(s, "/._-", 255) && s[strspn(s, "/")] != '\0';
}

static const struct nc_value *at(const struct nc_config *c, const char *path) {
    return nc_value_path(c->tree, path);
}

static int by_name(const void *a, const void *b) {
    const struct nc_variable *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static int by_service(const void *a, const void *b) {
    const struct nc_environment *x = a, *y = b;

    return strcmp(x->service, y->service);
}

static void read_service(struct nc_host_config *h, const struct nc_member *m) {
    struct nc_environment e = {0};

    const struct nc_member *one;

    for (size_t i = 0; (one = nc_value_member(m->value, i)); i++) {
        const char *value = nc_value_string(one->value);
        struct nc_variable *v = NULL;

        if (!value) /* null: taken back by a later document */
            continue;
        v = nc_append(&e.variables, &e.n);
        v->name = nc_strdup(one->key);
        v->value = nc_strdup(value);
    }
    if (e.n == 0)
        return;
    qsort(e.variables, e.n, sizeof(*e.variables), by_name);
    e.service = nc_strdup(m->key);
    *nc_append(&h->environment, &h->n_environment) = e;
}

static void read_environment(struct nc_config *c) {
    struct nc_host_config *h = &c->host;
    const struct nc_value *map = at(c, "spec.instance.environment");
    const struct nc_member *m;

    for (size_t i = 0; (m = nc_value_member(map, i)); i++)
        read_service(h, m);
    if (h->n_environment > 1)
        qsort(h->environment, h->n_environment, sizeof(*h->environment), by_service);
}

static void read_list(const struct nc_config *c, const char *path, struct nc_strv *ret) {
    const struct nc_value *list = at(c, path), *item;

    for (size_t i = 0; (item = nc_value_item(list, i)); i++) {
        const char *text = nc_value_string(item);
        if (text && *text)
            nc_strv_add_once(ret, text);
    }
}

static void read_storage(const struct nc_documents *d, struct nc_config *c) {
    static const char names[][8] = {"", "RAID0", "RAID10", "Mount"};
    const struct nc_value *storage = at(c, "spec.instance.localStorage");
    const char *strategy = nc_value_get_string(storage, "strategy");
    nc_cleanup(nc_strv_done) struct nc_strv disabled = NC_STRV_INIT;
    struct nc_host_config *h = &c->host;

    for (unsigned i = NC_STORAGE_RAID0; strategy && i < NC_ARRAY_SIZE(names); i++)
        if (nc_streq(strategy, names[i]))
            h->storage.strategy = (enum nc_storage_strategy)i;
    h->storage.mount_path = nc_strdup(nc_value_get_string(storage, "mountPath"));
    read_list(c, "spec.instance.localStorage.disabledMounts", &disabled);
    h->storage.without_containerd = nc_strv_contains(&disabled, "Containerd");
    h->storage.without_pod_logs = nc_strv_contains(&disabled, "PodLogs");
    h->storage.without_soci = nc_strv_contains(&disabled, "SOCI");
    if (h->storage.strategy == NC_STORAGE_NONE && (h->storage.mount_path || disabled.n > 0)) {
        nc_auto_free char *place = nc_mark_location(d, storage->mark);
        nc_strv_addf(&c->warnings,
                     "%s: spec.instance.localStorage: of no effect without a strategy: local disks "
                     "are left alone",
                     place);
    }
}

void nc_host_config_fill(const struct nc_documents *d, struct nc_config *c) {
    const struct nc_value *spec = at(c, "spec.containerd.baseRuntimeSpec");

    read_environment(c);
    read_list(c, "spec.instance.network.nameservers", &c->host.network.nameservers);
    read_list(c, "spec.instance.network.domains", &c->host.network.domains);
    read_storage(d, c);
    if (spec && spec->type == NC_VALUE_MAP && spec->n > 0)
        c->host.containerd.base_spec = nc_value_copy(spec);
    c->host.fast_image_pull = nc_value_bool(at(c, "spec.featureGates.FastImagePull"), false);
}

void nc_host_config_done(struct nc_host_config *h) {
    for (size_t i = 0; i < h->n_environment; i++) {
        for (size_t j = 0; j < h->environment[i].n; j++) {
            free(h->environment[i].variables[j].name);
            free(h->environment[i].variables[j].value);
        }
        free(h->environment[i].variables);
        free(h->environment[i].service);
    }
    free(h->environment);
    nc_strv_done(&h->network.nameservers);
    nc_strv_done(&h->network.domains);
    free(h->storage.mount_path);
    for (size_t i = 0; i < h->containerd.n_texts; i++)
        free(h->containerd.texts[i].toml);
    free(h->containerd.texts);
    nc_value_free(h->containerd.base_spec);
    *h = (struct nc_host_config){0};
}
