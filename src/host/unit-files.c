/*
 * Units as files: which of them the next boot starts, told without systemd, so that an image that
 * is not booted can be asked as well.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

/* In the order in which systemd searches for a unit. */
static const char *const unit_folders[] = {"/etc/systemd/system", "/run/systemd/system",
                                           "/usr/local/lib/systemd/system",
                                           "/usr/lib/systemd/system"};

const char *const nc_nodeadm_units[] = {"nodeadm-config.service", "nodeadm-run.service", NULL};

static int cannot_read(const char *path, struct nc_err *err) {
    return nc_err_set(err, NC_ERR_HOST, errno, "cannot read %s: %s", path, strerror(errno));
}

/* 1: it is there; 0: it is not. */
static int exists(const char *path, struct stat *ret, struct nc_err *err) {
    if (lstat(path, ret) == 0)
        return 1;
    return errno == ENOENT || errno == ENOTDIR ? 0 : cannot_read(path, err);
}

/* An empty file, or a link to /dev/null: systemd starts no such unit. */
static bool is_masked(const char *path, const struct stat *st) {
    char target[16] = "";

    if (S_ISLNK(st->st_mode))
        return readlink(path, target, sizeof(target) - 1) > 0 && nc_streq(target, "/dev/null");
    return S_ISREG(st->st_mode) && st->st_size == 0;
}

/* 1: systemd would load the unit; 0: there is none, or it is masked. */
static int can_be_loaded(const char *root, const char *unit, struct nc_err *err) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(unit_folders); i++) {
        nc_auto_free char *folder = nc_path_below(root, unit_folders[i]);
        nc_auto_free char *path = nc_asprintf("%s/%s", folder, unit);
        struct stat st;
        const int r = exists(path, &st, err);

        if (r != 0)
            return r < 0 ? r : !is_masked(path, &st);
    }
    return 0;
}

static int pulls_in(const struct dirent *e) {
    return nc_ends_with(e->d_name, ".wants") || nc_ends_with(e->d_name, ".requires");
}

/* 1: another unit's folder in this one holds a link to it. */
static int is_linked(const char *folder, const char *unit, struct nc_err *err) {
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, pulls_in, NULL);
    int r = 0;

    if (n < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : cannot_read(folder, err);
    for (int i = 0; i < n; i++) {
        nc_auto_free char *path = nc_asprintf("%s/%s/%s", folder, entries[i]->d_name, unit);
        struct stat st;

        if (r == 0)
            r = exists(path, &st, err);
        free(entries[i]);
    }
    free(entries);
    return r;
}

int nc_unit_is_enabled(const char *root, const char *unit, struct nc_err *err) {
    int r = can_be_loaded(root, unit, err);

    if (r <= 0)
        return r;
    r = 0;
    for (size_t i = 0; r == 0 && i < NC_ARRAY_SIZE(unit_folders); i++) {
        nc_auto_free char *folder = nc_path_below(root, unit_folders[i]);

        r = is_linked(folder, unit, err);
    }
    return r;
}

int nc_nodeadm_check(const char *root, struct nc_err *err) {
    for (size_t i = 0; nc_nodeadm_units[i]; i++) {
        const char *unit = nc_nodeadm_units[i];
        int r = nc_unit_is_enabled(root, unit, err);

        if (r > 0) {
            r = nc_err_set(
                err, NC_ERR_HOST, EBUSY,
                "%s is enabled: it would make this machine a node as well, and overwrite "
                "the files of kubelet and containerd",
                unit);
            nc_err_remedy(err, "systemctl disable %s %s, in the image", nc_nodeadm_units[0],
                          nc_nodeadm_units[1]);
        }
        if (r < 0)
            return r;
    }
    return 0;
}
