/*
 * What systemd, its services and the resolver read: the files of stage NC_STAGE_HOST. Contents are
 * nodeadm's, byte for byte (nodeadm/internal/system of 2026-07).
 */
#include "fileset-priv.h"

#include "nc/str.h"

#define MANAGER_ENVIRONMENT "/etc/systemd/system.conf.d/environment.conf"
#define SERVICE_ENVIRONMENT "/etc/systemd/system/%s.service.d/environment.conf"

/* As Go's strconv.Quote without the quotes around it, and '%' doubled, which systemd reads as one.
 * No control character but the tab gets here. Go writes unprintable characters beyond ASCII as
 * \u….; systemd reads the same from the characters themselves. */
static void add_quoted(struct nc_buf *out, const char *value) {
    for (const char *p = value; *p; p++) {
        if (*p == '\t')
            (void)nc_buf_puts(out, "\\t");
        else if (*p == '%')
            (void)nc_buf_puts(out, "%%");
        else if (*p == '"' || *p == '\\')
            (void)nc_buf_printf(out, "\\%c", *p);
        else
            (void)nc_buf_putc(out, *p);
    }
}

static char *environment_path(const char *service) {
    return nc_streq(service, NC_ENVIRONMENT_DEFAULT) ? nc_strdup(MANAGER_ENVIRONMENT)
                                                     : nc_asprintf(SERVICE_ENVIRONMENT, service);
}

static void add_environment(const struct nc_environment *e, struct nc_fileset *s) {
    const bool is_default = nc_streq(e->service, NC_ENVIRONMENT_DEFAULT);
    nc_auto_free char *path = environment_path(e->service);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)nc_buf_puts(&text, is_default ? "[Manager]\n" : "[Service]\n");
    for (size_t i = 0; i < e->n; i++) {
        (void)nc_buf_printf(&text, "%s=\"%s=", is_default ? "DefaultEnvironment" : "Environment",
                            e->variables[i].name);
        add_quoted(&text, e->variables[i].value);
        (void)nc_buf_puts(&text, "\"\n");
    }
    nc_fileset_add(s, path, 0644, &text)->stage = NC_STAGE_HOST;
}

static bool has_environment(const struct nc_host_config *h, const char *service) {
    for (size_t i = 0; i < h->n_environment; i++)
        if (nc_streq(h->environment[i].service, service))
            return true;
    return false;
}

/* A drop-in of this name that nobody remembers is the image's own, and stays. */
static void remove_old_environment(const struct nc_facts *f, const struct nc_host_config *h,
                                   struct nc_fileset *s) {
    for (size_t i = 0; i < f->environment_services.n; i++) {
        const char *service = f->environment_services.v[i];
        nc_auto_free char *path = environment_path(service);
        if (!has_environment(h, service))
            nc_fileset_add_absent(s, path)->stage = NC_STAGE_HOST;
    }
}

/* Which environments are ours. It changes last: a run that ended before that writes the same
 * drop-ins again. */
static void remember_environment(const struct nc_host_config *h, struct nc_fileset *s) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_file *file;

    for (size_t i = 0; i < h->n_environment; i++)
        (void)nc_buf_printf(&text, "%s\n", h->environment[i].service);
    file = text.len > 0 ? nc_fileset_add(s, NC_ENVIRONMENT_RECORD, 0644, &text)
                        : nc_fileset_add_absent(s, NC_ENVIRONMENT_RECORD);
    file->stage = NC_STAGE_HOST;
    file->is_gate = true;
}

static void add_list(struct nc_buf *out, const char *key, const struct nc_strv *list) {
    for (size_t i = 0; i < list->n; i++)
        (void)nc_buf_printf(out, "%s%s", i ? " " : key, list->v[i]);
    (void)nc_buf_putc(out, '\n');
}

static void add_resolver(const struct nc_host_config *h, struct nc_fileset *s) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (h->network.nameservers.n + h->network.domains.n == 0) {
        nc_fileset_add_absent(s, NC_RESOLVER_DROPIN)->stage = NC_STAGE_HOST;
        return;
    }
    (void)nc_buf_puts(&text, "[Resolve]\n");
    add_list(&text, "DNS=", &h->network.nameservers);
    add_list(&text, "Domains=", &h->network.domains);
    nc_fileset_add(s, NC_RESOLVER_DROPIN, 0644, &text)->stage = NC_STAGE_HOST;
}

/* The arguments of setup-local-disks, for the unit that runs it. No path has a blank. */
static void add_local_disks(const struct nc_host_config *h, struct nc_fileset *s) {
    static const char strategies[][8] = {
        [NC_STORAGE_RAID0] = "raid0", [NC_STORAGE_RAID10] = "raid10", [NC_STORAGE_MOUNT] = "mount"};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (h->storage.strategy == NC_STORAGE_NONE) {
        nc_fileset_add_absent(s, NC_LOCAL_DISKS_FILE)->stage = NC_STAGE_HOST;
        return;
    }
    (void)nc_buf_printf(&text, "NODECLAIMD_LOCAL_DISKS=%s", strategies[h->storage.strategy]);
    if (h->storage.mount_path)
        (void)nc_buf_printf(&text, " --dir %s", h->storage.mount_path);
    if (h->storage.without_pod_logs)
        (void)nc_buf_puts(&text, " --no-bind-pods-logs");
    if (h->storage.without_containerd)
        (void)nc_buf_puts(&text, " --no-bind-containerd");
    if (h->storage.without_soci)
        (void)nc_buf_puts(&text, " --no-bind-soci");
    (void)nc_buf_putc(&text, '\n');
    nc_fileset_add(s, NC_LOCAL_DISKS_FILE, 0644, &text)->stage = NC_STAGE_HOST;
}

void nc_render_host(const struct nc_facts *f, const struct nc_config *c, struct nc_fileset *s) {
    const struct nc_host_config *h = &c->host;

    for (size_t i = 0; i < h->n_environment; i++)
        add_environment(&h->environment[i], s);
    remove_old_environment(f, h, s);
    remember_environment(h, s);
    add_resolver(h, s);
    add_local_disks(h, s);
}
