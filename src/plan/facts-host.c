/*
 * Facts from the host: host.json of a recorded folder of facts, in and out, and the
 * versions of kubelet and containerd.
 *
 * The same keys are written that are read, so that what --save-facts recorded can be replayed
 * anywhere.
 */
#include <errno.h>
#include <stdio.h>

#include "facts-priv.h"
#include "host-settings.h"
#include "nc/str.h"
#include "shapes.h"

#define MAX_SYSCTLS ((size_t)256)
#define MAX_HOST_JSON ((size_t)256 << 10)

void nc_facts_free_sysctls(struct nc_sysctl *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(s[i].name);
        free(s[i].value);
    }
    free(s);
}

/* Digits at *s as one number below 10000; *s moves behind them. */
static bool small_number(const char **s, unsigned *ret) {
    unsigned n = 0;
    size_t digits = 0;

    for (; (*s)[digits] >= '0' && (*s)[digits] <= '9'; digits++) {
        if (digits == 4)
            return false;
        n = n * 10 + (unsigned)((*s)[digits] - '0');
    }
    *s += digits;
    *ret = n;
    return digits > 0;
}

/* "MAJOR.MINOR.PATCH" at text, behind an optional "v"; what follows starts with one of `suffixes`.
 */
static bool read_version(const char *text, const char *suffixes, unsigned v[static 3]) {
    if (*text == 'v')
        text++;
    for (size_t i = 0; i < 3; i++)
        if (!small_number(&text, &v[i]) || (i < 2 && *text++ != '.'))
            return false;
    return *text == '\0' || strchr(suffixes, *text);
}

int nc_kubelet_version_parse(const char *text, unsigned *ret_minor, char **ret_text) {
    unsigned v[3];

    if (!text)
        return -EINVAL;
    if (nc_starts_with(text, "Kubernetes "))
        text += strlen("Kubernetes ");
    if (!read_version(text, "-+\r\n \t", v) || v[0] != 1)
        return -EINVAL;
    if (ret_minor)
        *ret_minor = v[1];
    if (ret_text)
        *ret_text = nc_asprintf("v1.%u.%u", v[1], v[2]);
    return 0;
}

int nc_containerd_version_parse(const char *text, unsigned *ret_major, char **ret_text) {
    unsigned v[3];

    if (!text || !read_version(text, "-+~", v))
        return -EINVAL;
    if (ret_major)
        *ret_major = v[0];
    if (ret_text)
        *ret_text = nc_asprintf("%u.%u.%u", v[0], v[1], v[2]);
    return 0;
}

static int wrong(struct nc_err *err, const char *key, const char *wanted) {
    return nc_err_set(err, NC_ERR_CONFIG, EINVAL, "host.json: %s must be %s", key, wanted);
}

static bool is_set(const struct nc_value *v) {
    return v && v->type != NC_VALUE_NULL;
}

static int read_host_number(const struct nc_value *host, const char *key, int64_t *ret,
                            struct nc_err *err) {
    const struct nc_value *v = nc_value_get(host, key);

    if (!is_set(v))
        return 0;
    if (v->type != NC_VALUE_INT || v->integer < 0)
        return wrong(err, key, "an integer that is not negative");
    *ret = v->integer;
    return 0;
}

static int read_host_bool(const struct nc_value *host, const char *key, bool *ret,
                          struct nc_err *err) {
    const struct nc_value *v = nc_value_get(host, key);

    if (!is_set(v))
        return 0;
    if (v->type != NC_VALUE_BOOL)
        return wrong(err, key, "true or false");
    *ret = v->boolean;
    return 0;
}

static bool is_line(const char *s) {
    return s[0] && strlen(s) <= 256 && nc_is_text(s, strlen(s)) && !strpbrk(s, "\r\n");
}

static bool is_version(const char *s) {
    return nc_kubelet_version_parse(s, NULL, NULL) == 0;
}

static bool is_containerd_version(const char *s) {
    return nc_containerd_version_parse(s, NULL, NULL) == 0;
}

/* What the host says in one text. */
struct host_text {
    const char *key;
    char **place;
    bool (*shape)(const char *);
    const char *wanted;
};

static int read_host_string(const struct nc_value *host, const struct host_text *t,
                            struct nc_err *err) {
    const struct nc_value *v = nc_value_get(host, t->key);
    const char *text = nc_value_string(v);

    if (!is_set(v))
        return 0;
    if (!text || !t->shape(text))
        return wrong(err, t->key, t->wanted);
    free(*t->place);
    *t->place = nc_strdup(text);
    return 0;
}

static int read_host_sysctls(const struct nc_value *host, struct nc_facts *f, struct nc_err *err) {
    const struct nc_value *map = nc_value_get(host, "sysctls");

    if (!is_set(map))
        return 0;
    if (map->type != NC_VALUE_MAP || map->n > MAX_SYSCTLS)
        return wrong(err, "sysctls", "a map of names to values");
    for (size_t i = 0; i < map->n; i++) {
        char buffer[32];
        const char *value = nc_value_scalar_text(map->members[i].value, buffer);
        struct nc_sysctl *s = NULL;

        if (!value || !is_line(value) || !is_line(map->members[i].key))
            return wrong(err, "sysctls", "a map of names to values");
        s = nc_append(&f->sysctls, &f->n_sysctls);
        s->name = nc_strdup(map->members[i].key);
        s->value = nc_strdup(value);
    }
    return 0;
}

static int read_host_services(const struct nc_value *host, struct nc_strv *ret,
                              struct nc_err *err) {
    const struct nc_value *list = nc_value_get(host, "environment_services");

    for (size_t i = 0; is_set(list) && i < list->n; i++) {
        const char *service = nc_value_string(list->type == NC_VALUE_LIST ? list->items[i] : NULL);
        if (!service || !nc_shape_environment_service(service))
            return wrong(err, "environment_services", "a list of names of services");
        nc_strv_add_once(ret, service);
    }
    return is_set(list) && list->type != NC_VALUE_LIST
               ? wrong(err, "environment_services", "a list of names of services")
               : 0;
}

static int read_host(struct nc_facts *f, const struct nc_value *host, struct nc_err *err) {
    const struct host_text texts[] = {
        {"kubelet_version", &f->kubelet_version, is_version, "a kubelet version such as v1.34.4"},
        {"boot_id", &f->boot_id, is_line, "a string of one line"},
        {"hostname", &f->hostname, nc_shape_domain, "a host name"},
        {"ecr_credential_provider_dir", &f->ecr_credential_provider_dir, nc_shape_absolute_path,
         "an absolute path"},
        {"containerd_version", &f->containerd_version, is_containerd_version,
         "a containerd version such as 2.1.4"},
    };
    const struct {
        const char *key;
        bool *place;
    } bools[] = {{"ecr_folder_empty", &f->is_ecr_folder_empty},
                 {"has_nvidia", &f->has_nvidia},
                 {"has_nvidia_runtime", &f->has_nvidia_runtime},
                 {"has_pause_archive", &f->has_pause_archive},
                 {"has_soci_snapshotter", &f->has_soci_snapshotter}};
    int64_t delay = (int64_t)f->logind_inhibit_delay_usec;
    int r = read_host_number(host, "cpus", &f->cpus, err);

    if (r >= 0)
        r = read_host_number(host, "mem_total_bytes", &f->mem_total_bytes, err);
    if (r >= 0)
        r = read_host_number(host, "root_fs_bytes", &f->root_fs_bytes, err);
    if (r >= 0)
        r = read_host_number(host, "logind_inhibit_delay_usec", &delay, err);
    if (r >= 0)
        r = read_host_number(host, "local_disks", &f->local_disks, err);
    if (r >= 0)
        r = read_host_number(host, "local_disk_bytes", &f->local_disk_bytes, err);
    if (r >= 0)
        r = read_host_services(host, &f->environment_services, err);
    for (size_t i = 0; r >= 0 && i < NC_ARRAY_SIZE(texts); i++)
        r = read_host_string(host, &texts[i], err);
    for (size_t i = 0; r >= 0 && i < NC_ARRAY_SIZE(bools); i++)
        r = read_host_bool(host, bools[i].key, bools[i].place, err);
    if (r >= 0)
        r = read_host_sysctls(host, f, err);
    if (r < 0)
        return r;
    f->logind_inhibit_delay_usec = (uint64_t)delay;
    f->has_ecr_credential_provider = f->ecr_credential_provider_dir != NULL;
    return 0;
}

/* Moves the host half of `from` over that of `f`, where it was given. */
static void adopt_text(char **into, char **from) {
    if (!*from)
        return;
    free(*into);
    *into = nc_steal(from);
}

int nc_facts_parse_host_json(struct nc_facts *f, const char *data, size_t n, struct nc_err *err) {
    nc_auto_value struct nc_value *host = NULL;
    struct nc_facts taken = *f;
    int r = 0;

    if (n > MAX_HOST_JSON)
        return nc_err_set(err, NC_ERR_CONFIG, EFBIG,
                          "host.json: %zu bytes, at most %zu are allowed", n, MAX_HOST_JSON);
    r = nc_json_parse(data, n, &host, err);
    if (r < 0) {
        nc_err_wrap(err, "host.json");
        return r;
    }
    if (host->type != NC_VALUE_MAP)
        return nc_err_set(err, NC_ERR_CONFIG, EINVAL, "host.json: must be an object");
    taken.kubelet_version = taken.boot_id = taken.hostname = taken.ecr_credential_provider_dir =
        taken.containerd_version = NULL;
    taken.sysctls = NULL;
    taken.n_sysctls = 0;
    taken.environment_services = (struct nc_strv)NC_STRV_INIT;
    r = read_host(&taken, host, err);
    if (r >= 0) {
        f->cpus = taken.cpus;
        f->mem_total_bytes = taken.mem_total_bytes;
        f->root_fs_bytes = taken.root_fs_bytes;
        f->logind_inhibit_delay_usec = taken.logind_inhibit_delay_usec;
        f->has_nvidia = taken.has_nvidia;
        f->is_ecr_folder_empty = taken.is_ecr_folder_empty;
        f->has_nvidia_runtime = taken.has_nvidia_runtime;
        f->has_pause_archive = taken.has_pause_archive;
        f->has_soci_snapshotter = taken.has_soci_snapshotter;
        f->local_disks = taken.local_disks;
        f->local_disk_bytes = taken.local_disk_bytes;
        if (taken.environment_services.n > 0) {
            nc_strv_done(&f->environment_services);
            f->environment_services = taken.environment_services;
            taken.environment_services = (struct nc_strv)NC_STRV_INIT;
        }
        adopt_text(&f->kubelet_version, &taken.kubelet_version);
        adopt_text(&f->boot_id, &taken.boot_id);
        adopt_text(&f->hostname, &taken.hostname);
        adopt_text(&f->ecr_credential_provider_dir, &taken.ecr_credential_provider_dir);
        adopt_text(&f->containerd_version, &taken.containerd_version);
        f->has_ecr_credential_provider = f->ecr_credential_provider_dir != NULL;
        if (taken.sysctls) {
            nc_facts_free_sysctls(f->sysctls, f->n_sysctls);
            f->sysctls = nc_steal(&taken.sysctls);
            f->n_sysctls = taken.n_sysctls;
            taken.n_sysctls = 0;
        }
    }
    free(taken.kubelet_version);
    free(taken.boot_id);
    free(taken.hostname);
    nc_strv_done(&taken.environment_services);
    free(taken.ecr_credential_provider_dir);
    free(taken.containerd_version);
    nc_facts_free_sysctls(taken.sysctls, taken.n_sysctls);
    return r;
}

static void set_number(struct nc_value *host, const char *key, int64_t n) {
    if (n > 0)
        nc_value_set_int(host, key, n);
}

static void set_text(struct nc_value *host, const char *key, const char *text) {
    if (text)
        nc_value_set_string(host, key, text);
}

static void set_services(struct nc_value *host, const struct nc_strv *services) {
    struct nc_value *list;

    if (services->n == 0)
        return;
    list = nc_value_new(NC_VALUE_LIST);
    for (size_t i = 0; i < services->n; i++)
        nc_value_push(list, nc_value_new_string(services->v[i]));
    nc_value_set(host, "environment_services", list);
}

void nc_facts_write_host_json(const struct nc_facts *f, struct nc_buf *out) {
    nc_auto_value struct nc_value *host = nc_value_new(NC_VALUE_MAP);
    struct nc_value *sysctls = nc_value_new(NC_VALUE_MAP);

    set_number(host, "cpus", f->cpus);
    set_number(host, "mem_total_bytes", f->mem_total_bytes);
    set_number(host, "root_fs_bytes", f->root_fs_bytes);
    set_text(host, "kubelet_version", f->kubelet_version);
    set_text(host, "boot_id", f->boot_id);
    set_text(host, "hostname", f->hostname);
    set_number(host, "logind_inhibit_delay_usec", (int64_t)f->logind_inhibit_delay_usec);
    set_text(host, "ecr_credential_provider_dir", f->ecr_credential_provider_dir);
    set_text(host, "containerd_version", f->containerd_version);
    nc_value_set_bool(host, "ecr_folder_empty", f->is_ecr_folder_empty);
    nc_value_set_bool(host, "has_nvidia", f->has_nvidia);
    nc_value_set_bool(host, "has_nvidia_runtime", f->has_nvidia_runtime);
    nc_value_set_bool(host, "has_pause_archive", f->has_pause_archive);
    nc_value_set_bool(host, "has_soci_snapshotter", f->has_soci_snapshotter);
    set_number(host, "local_disks", f->local_disks);
    set_number(host, "local_disk_bytes", f->local_disk_bytes);
    set_services(host, &f->environment_services);
    for (size_t i = 0; i < f->n_sysctls; i++)
        nc_value_set_string(sysctls, f->sysctls[i].name, f->sysctls[i].value);
    nc_value_set(host, "sysctls", sysctls);
    nc_json_write(out, host, 2);
    (void)nc_buf_putc(out, '\n');
}
