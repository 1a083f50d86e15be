/*
 * The disks of the instance store: udev names them, sysfs says how large each is.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"
#include "probe.h"

#define BY_ID "/dev/disk/by-id"
#define PREFIX "nvme-Amazon_EC2_NVMe_Instance_Storage_"
#define MAX_ENTRIES 4096
#define MAX_DISKS 64      /* the largest instances have 24 */
#define SECTOR_BYTES 512  /* of sysfs, whatever the disk's own is */
#define SYSFS_BYTES 65536 /* a page at most: the size that each file there claims */

/* The kernel's name of the disk behind a link: "nvme1n1". Owned; NULL for anything else. */
static char *disk_behind(const char *folder, const char *link) {
    nc_auto_free char *path = nc_asprintf("%s/%s", folder, link);
    char target[256];
    const ssize_t n = readlink(path, target, sizeof(target) - 1);
    const char *name;

    if (n <= 0)
        return NULL;
    target[n] = '\0';
    name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    return nc_is_alnum_or(name, "", 32) ? nc_strdup(name) : NULL;
}

/* False where there is no such disk, or where it is a partition. */
static bool read_size(const char *root, const char *disk, int64_t *ret) {
    nc_auto_free char *path = nc_asprintf("%s/sys/block/%s/size", root, disk);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    uint64_t sectors;

    if (nc_file_read(path, SYSFS_BYTES, &text, NULL) < 0
        || nc_parse_u64(nc_trim(text.data), &sectors) < 0 || sectors == 0
        || sectors > INT64_MAX / SECTOR_BYTES / MAX_DISKS)
        return false;
    *ret = (int64_t)sectors * SECTOR_BYTES;
    return true;
}

void nc_probe_local_disks(const char *root, struct nc_facts *f) {
    nc_auto_free char *folder = nc_path_below(root, BY_ID);
    nc_cleanup(nc_strv_done) struct nc_strv seen = NC_STRV_INIT; /* a disk has several names */
    DIR *dir = opendir(folder);
    const struct dirent *e;

    f->local_disks = f->local_disk_bytes = 0;
    for (unsigned n = 0; dir && n < MAX_ENTRIES && seen.n < MAX_DISKS && (e = readdir(dir)); n++) {
        nc_auto_free char *disk =
            nc_starts_with(e->d_name, PREFIX) ? disk_behind(folder, e->d_name) : NULL;
        int64_t bytes;
        if (!disk || nc_strv_contains(&seen, disk) || !read_size(root, disk, &bytes))
            continue;
        nc_strv_add(&seen, disk);
        f->local_disks++;
        f->local_disk_bytes += bytes;
    }
    if (dir)
        (void)closedir(dir);
}
