/*
 * containerd's files.
 */

#include <errno.h>

#include "fileset-priv.h"
#include "nc/value.h"
#include "planner.h"

#define BASE_SPEC "/etc/containerd/base-runtime-spec.json"
#define SOCI_CONFIG "/etc/soci-snapshotter-grpc/config.toml"
#define SOCI_DROPIN "/etc/systemd/system/containerd.service.d/50-nodeclaimd-soci.conf"

/* Each header repeats the keys that lead to its table: a text can be larger than what it is from.
 */
static int add_toml(struct nc_fileset *s, const char *path, const struct nc_value *tree,
                    struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT_MAX(NC_TOML_MAX_BYTES);
    int r = nc_toml_write(tree, &text);

    if (r == -EFBIG) {
        r = nc_err_set(err, NC_ERR_CONFIG, EFBIG, "%s: would be larger than %zu bytes", path,
                       NC_TOML_MAX_BYTES);
        nc_err_remedy(err, "shorten " NC_CONTAINERD_FIELD);
        return r;
    }
    if (r < 0)
        return nc_err_set(err, NC_ERR_BUG, -r, "%s: cannot be written as TOML", path);
    nc_fileset_add(s, path, 0644, &text)->stage = NC_STAGE_CONTAINERD;
    return 0;
}

/* The snapshotter serves before containerd is active. */
static void add_soci_dropin(struct nc_fileset *s) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)nc_buf_puts(&text, "# Written by nodeclaimd: images are pulled by the SOCI snapshotter.\n"
                             "[Unit]\nRequires=soci-snapshotter.service\n"
                             "After=soci-snapshotter.service\n");
    nc_fileset_add(s, SOCI_DROPIN, 0644, &text)->stage = NC_STAGE_CONTAINERD;
}

int nc_render_containerd(const struct nc_containerd_plan *p, struct nc_fileset *s,
                         struct nc_err *err) {
    int r;

    if (p->major == 0)
        return 0;
    nc_fileset_add_json(s, BASE_SPEC, 0644, p->base_spec)->stage = NC_STAGE_CONTAINERD;
    r = add_toml(s, NC_CONTAINERD_CONFIG, p->config, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < p->n_mirrors && r >= 0; i++)
        r = add_toml(s, p->mirrors[i].path, p->mirrors[i].tree, err);
    if (r < 0)
        return r;
    if (!p->soci_config) {
        nc_fileset_add_absent(s, SOCI_DROPIN)->stage = NC_STAGE_CONTAINERD;
        return 0;
    }
    add_soci_dropin(s);
    return add_toml(s, SOCI_CONFIG, p->soci_config, err);
}
