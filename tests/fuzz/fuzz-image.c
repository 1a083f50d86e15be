/*
 * Files of an image that is not trusted: kubelet's unit, a drop-in of it, a file of sysctl.d,
 * fstab. The first byte says which one the rest of the text is. They stand below a folder of this
 * process in memory.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/image.h"
#include "nc/mem.h"

static const char *const paths[] = {"/etc/systemd/system/kubelet.service",
                                    "/etc/systemd/system/kubelet.service.d/x.conf",
                                    "/etc/sysctl.d/x.conf", "/etc/fstab"};
static const char unit[] = "[Service]\nEnvironmentFile=/missing\nExecStart=/usr/bin/kubelet\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char root[64];

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static char *below(size_t which) {
    return nc_path_below(root, paths[which]);
}

static void clean_up(void) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(paths); i++) {
        nc_auto_free char *path = below(i);
        (void)unlink(path);
        for (char *slash; (slash = strrchr(path, '/')) > path;) {
            *slash = '\0';
            (void)rmdir(path);
        }
    }
}

static void make_root(void) {
    (void)snprintf(root, sizeof(root), "%s/fuzz-image-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(root) != NULL);
    must(atexit(clean_up) == 0);
}

static void note(void *userdata, const struct nc_image_finding *f) {
    const bool is_fine = f->problem->class == NC_ERR_NONE;

    (*(unsigned *)userdata)++;
    must(f->check && f->problem->msg[0]);
    must(is_fine ? !f->is_warning : f->problem->remedy[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const size_t which = n > 0 ? data[0] % NC_ARRAY_SIZE(paths) : 0;
    nc_auto_free char *path = NULL, *base = NULL;
    unsigned found = 0;

    if (n == 0)
        return 0;
    if (!root[0])
        make_root();
    base = below(0);
    path = below(which);
    must(nc_file_write(base, unit, sizeof(unit) - 1, 0600, NULL) >= 0);
    must(nc_file_write(path, data + 1, n - 1, 0600, NULL) >= 0);
    must(nc_image_check(root, note, &found, NULL) == 0);
    must(found >= 9); /* each check says something */
    (void)unlink(path);
    return 0;
}
