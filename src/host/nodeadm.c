/*
 * nodeadm beside us: both would make this machine a node.
 */
#include <errno.h>

#include "image-tree.h"
#include "nc/host.h"

const char *const nc_nodeadm_units[] = {"nodeadm-config.service", "nodeadm-run.service", NULL};

static int refuse(const char *unit, struct nc_err *err) {
    const int r = nc_err_set(err, NC_ERR_HOST, EBUSY,
                             "%s is enabled: it would make this machine a node as well, and "
                             "overwrite the files of kubelet and containerd",
                             unit);

    nc_err_remedy(err, "systemctl disable %s %s, in the image", nc_nodeadm_units[0],
                  nc_nodeadm_units[1]);
    return r;
}

int nc_nodeadm_check(const char *root, struct nc_err *err) {
    struct nc_image_tree t;
    int r = nc_image_tree_open_any(&t, root, err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && nc_nodeadm_units[i]; i++) {
        const bool is_enabled = nc_image_unit_is_enabled(&t, nc_nodeadm_units[i]);
        r = nc_err_give(&t.unreadable, err);
        if (r == 0 && is_enabled)
            r = refuse(nc_nodeadm_units[i], err);
    }
    nc_image_tree_close(&t);
    return r;
}
