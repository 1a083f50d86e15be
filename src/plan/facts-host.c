/*
 * Facts from the host: host.json of a recorded folder of facts, in and out, and the
 * versions of kubelet and containerd.
 *
 * The same keys are written that are read, so that what --save-facts recorded can be replayed
 * anywhere.
 */
#include <errno.h>
#include <stdio.h>

#include "config-priv.h"
#include "nc/facts.h"
#include "nc/str.h"
#include "shapes.h"

#define MAX_SYSCTLS ((size_t)256)
#define MAX_HOST_JSON ((size_t)256 << 10)

void nc_facts_free_sysctls(struct nc_facts *f) {
    for (size_t i = 0; i < f->n_sysctls; i++) {
        free(f->sysctls[i].name);
        free(f->sysctls[i].value);
    }
    free(nc_steal(&f->sysctls));
    f->n_sysctls = 0;
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

int nc_containerd_version_parse(const char *text, unsigned *ret_major, unsigned *ret_minor,
                                char **ret_text) {
    unsigned v[3];

    if (!text || !read_version(text, "-+~ ", v))
        return -EINVAL;
    if (ret_major)
        *ret_major = v[0];
    if (ret_minor)
        *ret_minor = v[1];
    if (ret_text)
        *ret_text = nc_asprintf("%u.%u.%u", v[0], v[1], v[2]);
    return 0;
}

bool nc_is_kubelet_version(const char *text) {
    return nc_kubelet_version_parse(text, NULL, NULL) == 0;
}

bool nc_is_containerd_version(const char *text) {
    return nc_containerd_version_parse(text, NULL, NULL, NULL) == 0;
}

static int wrong(struct nc_err *err, const char *key, const char *wanted) {
    return nc_err_config(err, "host.json: %s must be %s", key, wanted);
}

static bool is_set(const struct nc_value *v) {
    return v && v->type != NC_VALUE_NULL;
}

static bool is_line(const char *s) {
    return s[0] && strlen(s) <= 256 && nc_is_text(s, strlen(s)) && !strpbrk(s, "\r\n");
}

enum field_type { NUMBER, BOOL, LINE, NAME, PATH, KUBELET, CONTAINERD };

/* What the host says in one value, in the order in which it is written. */
static const struct field {
    char key[28];
    enum field_type type : 8;
    unsigned at : 24; /* in struct nc_facts: an int64_t or uint64_t, a bool, or an owned string */
} fields[] = {
#define HOST(type, name)                                                                           \
    { #name, type, offsetof(struct nc_facts, name) }
    HOST(NUMBER, cpus),
    HOST(NUMBER, last_cpu),
    HOST(NUMBER, mem_total_bytes),
    HOST(NUMBER, root_fs_bytes),
    HOST(KUBELET, kubelet_version),
    HOST(LINE, boot_id),
    HOST(NAME, hostname),
    HOST(NUMBER, logind_inhibit_delay_usec),
    HOST(PATH, ecr_credential_provider_dir),
    HOST(CONTAINERD, containerd_version),
    {"ecr_folder_empty", BOOL, offsetof(struct nc_facts, is_ecr_folder_empty)},
    HOST(BOOL, has_nvidia),
    HOST(BOOL, has_nvidia_runtime),
    HOST(BOOL, has_pause_archive),
    HOST(BOOL, has_soci_snapshotter),
    HOST(NUMBER, local_disks),
    HOST(NUMBER, local_disk_bytes),
};

/* What it must be. NULL: it is that. */
static const char *wanted_of(const struct field *x, const struct nc_value *v) {
    const char *text = nc_value_string(v);

    switch (x->type) {
    case NUMBER:
        return v->type == NC_VALUE_INT && v->integer >= 0 ? NULL
                                                          : "an integer that is not negative";
    case BOOL:
        return v->type == NC_VALUE_BOOL ? NULL : "true or false";
    case LINE:
        return text && is_line(text) ? NULL : "a string of one line";
    case NAME:
        return text && nc_shape_domain(text) ? NULL : "a host name";
    case PATH:
        return text && nc_shape_absolute_path(text) ? NULL : "an absolute path";
    case KUBELET:
        return nc_is_kubelet_version(text) ? NULL : "a kubelet version such as v1.34.4";
    case CONTAINERD:
        break;
    }
    return nc_is_containerd_version(text) ? NULL : "a containerd version such as 2.1.4";
}

static void read_field(const struct field *x, const struct nc_value *v, struct nc_facts *f) {
    void *place = (char *)f + x->at;

    if (x->type == NUMBER)
        *(int64_t *)place = v->integer;
    else if (x->type == BOOL)
        *(bool *)place = v->boolean;
    else {
        free(*(char **)place);
        *(char **)place = nc_strdup(nc_value_string(v));
    }
}

static int check_sysctls(const struct nc_value *map, struct nc_err *err) {
    if (!is_set(map))
        return 0;
    if (map->type != NC_VALUE_MAP || map->n > MAX_SYSCTLS)
        return wrong(err, "sysctls", "a map of names to values");
    for (size_t i = 0; i < map->n; i++) {
        char buffer[32];
        const char *value = nc_value_scalar_text(map->members[i].value, buffer);

        if (!value || !is_line(value) || !is_line(map->members[i].key))
            return wrong(err, "sysctls", "a map of names to values");
    }
    return 0;
}

static void read_sysctls(const struct nc_value *map, struct nc_facts *f) {
    if (!is_set(map) || map->n == 0)
        return;
    nc_facts_free_sysctls(f);
    for (size_t i = 0; i < map->n; i++) {
        char buffer[32];
        struct nc_sysctl *s = nc_append(&f->sysctls, &f->n_sysctls);

        s->name = nc_strdup(map->members[i].key);
        s->value = nc_strdup(nc_value_scalar_text(map->members[i].value, buffer));
    }
}

static int check_services(const struct nc_value *list, struct nc_err *err) {
    bool right = !is_set(list) || list->type == NC_VALUE_LIST;

    for (size_t i = 0; right && is_set(list) && i < list->n; i++) {
        const char *service = nc_value_string(list->items[i]);
        right = service && nc_shape_environment_service(service);
    }
    return right ? 0 : wrong(err, "environment_services", "a list of names of services");
}

static void read_services(const struct nc_value *list, struct nc_facts *f) {
    if (!is_set(list) || list->n == 0)
        return;
    nc_strv_done(&f->environment_services);
    for (size_t i = 0; i < list->n; i++)
        nc_strv_add_once(&f->environment_services, nc_value_string(list->items[i]));
}

static int check_host(const struct nc_value *host, struct nc_err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < NC_ARRAY_SIZE(fields); i++) {
        const struct nc_value *v = nc_value_get(host, fields[i].key);
        const char *wanted = is_set(v) ? wanted_of(&fields[i], v) : NULL;
        if (wanted)
            r = wrong(err, fields[i].key, wanted);
    }
    if (r == 0)
        r = check_services(nc_value_get(host, "environment_services"), err);
    return r < 0 ? r : check_sysctls(nc_value_get(host, "sysctls"), err);
}

int nc_facts_parse_host_json(struct nc_facts *f, const char *data, size_t n, struct nc_err *err) {
    nc_auto_value struct nc_value *host = NULL;
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
        return nc_err_config(err, "host.json: must be an object");
    r = check_host(host, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < NC_ARRAY_SIZE(fields); i++) {
        const struct nc_value *v = nc_value_get(host, fields[i].key);
        if (is_set(v))
            read_field(&fields[i], v, f);
    }
    read_services(nc_value_get(host, "environment_services"), f);
    read_sysctls(nc_value_get(host, "sysctls"), f);
    f->has_ecr_credential_provider = f->ecr_credential_provider_dir != NULL;
    return 0;
}

static void write_field(const struct field *x, const struct nc_facts *f, struct nc_value *host) {
    const void *place = (const char *)f + x->at;

    if (x->type == BOOL)
        nc_value_set_bool(host, x->key, *(const bool *)place);
    else if (x->type != NUMBER && *(char *const *)place)
        nc_value_set_string(host, x->key, *(char *const *)place);
    else if (x->type == NUMBER && *(const int64_t *)place > 0)
        nc_value_set_int(host, x->key, *(const int64_t *)place);
}

static void set_services(struct nc_value *host, const struct nc_strv *services) {
    if (services->n > 0)
        nc_value_set(host, "environment_services", nc_value_new_strings(services->v, services->n));
}

void nc_facts_write_host_json(const struct nc_facts *f, struct nc_buf *out) {
    nc_auto_value struct nc_value *host = nc_value_new_map();
    struct nc_value *sysctls;

    for (size_t i = 0; i < NC_ARRAY_SIZE(fields); i++)
        write_field(&fields[i], f, host);
    set_services(host, &f->environment_services);
    sysctls = nc_value_add_map(host, "sysctls");
    for (size_t i = 0; i < f->n_sysctls; i++)
        nc_value_set_string(sysctls, f->sysctls[i].name, f->sysctls[i].value);
    nc_json_write(out, host, 2);
    (void)nc_buf_putc(out, '\n');
}
