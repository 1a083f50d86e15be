/*
 * What only containerd itself can do: convert a configuration of an older version, and take the
 * pause image into the snapshotter that is not its default.
 */
#include <errno.h>
#include <unistd.h>

#include "nc/containerd.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"
#include "probe.h"

#define CONFIG_MAX_BYTES ((size_t)1 << 20)
#define OUTPUT_MAX_BYTES ((size_t)64 << 10)
#define MIGRATE_INPUT "/run/nodeclaimd/.containerd-config.toml"

static struct nc_file *find_config(struct nc_fileset *s) {
    for (size_t i = 0; i < s->n; i++)
        if (nc_streq(s->files[i].path, NC_CONTAINERD_CONFIG))
            return &s->files[i];
    return NULL;
}

/* The input stands beside what is ours alone; containerd reads it as its own file. */
static int migrate(const char *binary, const char *input, uint64_t timeout_usec, struct nc_buf *out,
                   struct nc_err *err) {
    const char *const argv[] = {binary, "--config", input, "config", "migrate", NULL};
    const struct nc_capture_call call = {
        .argv = argv, .timeout_usec = timeout_usec, .max_bytes = CONFIG_MAX_BYTES};
    int r = nc_run(&call, out, err);

    if (r >= 0 && out->len == 0)
        r = nc_err_set(err, NC_ERR_HOST, EBADMSG, "%s printed nothing", binary);
    if (r < 0) {
        nc_err_wrap(err, "containerd config migrate");
        nc_err_remedy(err, "write spec.containerd.config for version 3 of containerd's "
                           "configuration, which needs no conversion");
    }
    return r;
}

int nc_containerd_migrate(const char *root, struct nc_fileset *s, uint64_t timeout_usec,
                          struct nc_err *err) {
    const char *path = nc_containerd_binary(root);
    nc_auto_free char *binary = path ? nc_path_below(root, path) : NULL;
    nc_auto_free char *input = nc_path_below(root, MIGRATE_INPUT);
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    struct nc_file *file = find_config(s);
    int r;

    if (!file)
        return nc_err_set(err, NC_ERR_BUG, ENOENT, "no " NC_CONTAINERD_CONFIG " to convert");
    if (!binary) {
        r = nc_err_set(err, NC_ERR_HOST, ENOENT, "no containerd that converts its configuration");
        nc_err_remedy(err, "install containerd to /usr/bin, or write spec.containerd.config for "
                           "version 3");
        return r;
    }
    r = nc_file_write(input, file->data, file->n, 0600, err);
    if (r < 0)
        return r;
    r = migrate(binary, input, timeout_usec, &out, err);
    (void)unlink(input);
    if (r < 0)
        return r;
    free(file->data);
    file->n = out.len;
    file->data = nc_buf_steal(&out);
    return 0;
}

int nc_containerd_import_pause(const char *root, uint64_t timeout_usec, struct nc_err *err) {
    nc_auto_free char *archive = nc_path_below(root, NC_PAUSE_ARCHIVE);
    const char *containerd = nc_containerd_binary(root);
    const int folder = containerd ? (int)(strrchr(containerd, '/') - containerd) : 0;
    nc_auto_free char *beside = nc_asprintf("%.*s/ctr", folder, containerd ? containerd : "");
    nc_auto_free char *ctr = nc_path_below(root, beside);
    /* Its layers are in the store of the default snapshotter alone, and the registry cannot be
     * asked before kubelet's credential provider works. */
    const char *const argv[] = {
        ctr,       "--namespace",   "k8s.io", "images",
        "import",  "--snapshotter", "soci",   "--discard-unpacked-layers=false",
        "--local", archive,         NULL};
    const struct nc_capture_call call = {
        .argv = argv, .timeout_usec = timeout_usec, .max_bytes = OUTPUT_MAX_BYTES};
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    const int r = nc_run(&call, &out, err);

    if (r < 0) {
        nc_err_wrap(err, "importing %s for the SOCI snapshotter", NC_PAUSE_ARCHIVE);
        nc_err_remedy(err, "journalctl -u soci-snapshotter.service -u containerd.service");
    }
    return r;
}
