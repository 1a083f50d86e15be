/*
 * What this host is. Files and one statvfs; nothing is executed, but containerd where nothing else
 * tells its version.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "nc/containerd.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/image.h"
#include "nc/str.h"
#include "probe.h"

#define SMALL_BYTES 65536
#define RECORD_MAX_BYTES ((size_t)1 << 20) /* names of services: no more than a document holds */
#define MAX_PCI_DEVICES 4096
#define MAX_CPUS (1 << 20)

/* "0-3,8,10-11" -> 7, and 11. -EINVAL where it is no CPU list. */
static int count_cpu_list(const char *text, int64_t *ret, int64_t *ret_last) {
    int64_t n = 0, highest = 0;

    while (*text) {
        char *end;
        const long first = strtol(text, &end, 10);
        long last = first;
        if (end == text || first < 0)
            return -EINVAL;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
        }
        if (end == text || last < first || last > MAX_CPUS)
            return -EINVAL;
        n += last - first + 1;
        highest = last > highest ? last : highest;
        if (*end && *end != ',')
            return -EINVAL;
        text = *end ? end + 1 : end;
    }
    *ret = n;
    *ret_last = highest;
    return n > 0 ? 0 : -EINVAL;
}

/* The host's file below the root where it has one (an image's /proc is empty), else the running
 * kernel's. */
static int read_kernel(const char *root, const char *path, struct nc_buf *out) {
    nc_auto_free char *below = nc_path_below(root, path);

    if (nc_file_read(below, SMALL_BYTES, out, NULL) >= 0)
        return 0;
    nc_buf_clear(out);
    return nc_file_read(path, SMALL_BYTES, out, NULL);
}

static void probe_cpus(const char *root, struct nc_facts *f) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    f->cpus = f->last_cpu = 0;
    if (read_kernel(root, "/sys/devices/system/cpu/online", &text) >= 0
        && count_cpu_list(nc_trim(text.data), &f->cpus, &f->last_cpu) >= 0)
        return;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    f->cpus = online > 0 ? online : 0;
}

static void probe_memory(const char *root, struct nc_facts *f) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const char *line;
    long long kib;

    f->mem_total_bytes = 0;
    if (read_kernel(root, "/proc/meminfo", &text) < 0 || !(line = strstr(text.data, "MemTotal:")))
        return;
    if (sscanf(line, "MemTotal: %lld kB", &kib) == 1 && kib > 0 && kib < INT64_MAX / 1024)
        f->mem_total_bytes = kib * 1024;
}

/* kubelet counts the file system that holds its root folder; a folder that is not there yet will be
 * made in its nearest parent. */
static void probe_disk(const char *root, struct nc_facts *f) {
    nc_auto_free char *path = nc_path_below(root, "/var/lib/kubelet");
    struct statvfs st;

    f->root_fs_bytes = 0;
    while (statvfs(path, &st) < 0) {
        char *slash = strrchr(path, '/');
        if (!slash || nc_streq(path, "/"))
            return;
        slash[slash == path] = '\0';
    }
    f->root_fs_bytes = (int64_t)((uint64_t)st.f_blocks * st.f_frsize);
}

static char *read_token(const char *root, const char *path) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (read_kernel(root, path, &text) < 0 || !text.data || !nc_is_text(text.data, text.len))
        return NULL;
    return nc_strdup(nc_trim(text.data));
}

static void probe_sysctls(const char *root, struct nc_facts *f) {
    for (size_t i = 0; i < f->n_sysctls; i++) {
        free(f->sysctls[i].name);
        free(f->sysctls[i].value);
    }
    f->n_sysctls = 0;
    for (size_t i = 0; i < NC_KUBELET_SYSCTLS; i++) {
        const char *name = nc_kubelet_sysctls[i].name;
        nc_auto_free char *path = nc_asprintf("/proc/sys/%s", name);
        char *value;
        for (char *dot = path; (dot = strchr(dot, '.'));)
            *dot = '/';
        value = read_token(root, path);
        if (!value)
            continue;
        *nc_append(&f->sysctls, &f->n_sysctls) =
            (struct nc_sysctl){.name = nc_strdup(name), .value = value};
    }
}

static void probe_credential_provider(const char *root, struct nc_facts *f) {
    f->has_ecr_credential_provider = f->is_ecr_folder_empty = false;
    for (const char *folder = nc_ecr_folders; *folder; folder = nc_next_name(folder)) {
        nc_auto_free char *path = nc_asprintf("%s/ecr-credential-provider", folder);
        nc_auto_free char *below = nc_path_below(root, path);
        if (access(below, X_OK) < 0)
            continue;
        free(f->ecr_credential_provider_dir);
        f->ecr_credential_provider_dir = nc_strdup(folder);
        f->has_ecr_credential_provider = true;
        return;
    }
    f->is_ecr_folder_empty = nc_is_there(root, nc_ecr_folders);
}

static void probe_nvidia(const char *root, struct nc_facts *f) {
    nc_auto_free char *folder = nc_path_below(root, "/sys/bus/pci/devices");
    DIR *dir = opendir(folder);
    const struct dirent *e;

    f->has_nvidia = false;
    for (unsigned n = 0; dir && n < MAX_PCI_DEVICES && !f->has_nvidia && (e = readdir(dir)); n++) {
        nc_auto_free char *path = nc_asprintf("%s/%s/vendor", folder, e->d_name);
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        if (e->d_name[0] != '.' && nc_file_read(path, 64, &text, NULL) >= 0)
            f->has_nvidia = nc_streq(nc_trim(text.data), "0x10de");
    }
    if (dir)
        (void)closedir(dir);
}

static int probe_containerd(const char *root, struct nc_facts *f, struct nc_err *err) {
    f->has_nvidia_runtime = nc_is_there(root, NC_NVIDIA_RUNTIME);
    f->has_pause_archive = nc_is_there(root, NC_PAUSE_ARCHIVE);
    f->has_soci_snapshotter = nc_is_there(root, "/usr/lib/systemd/system/soci-snapshotter.service")
                              || nc_is_there(root, "/etc/systemd/system/soci-snapshotter.service");
    return f->containerd_version ? 0 : nc_containerd_version(root, &f->containerd_version, err);
}

/* The record of an earlier bootstrap; a line that is no name of a service was not written by one.
 * One that cannot be read is not taken for none: its drop-ins would stay for good. */
static int probe_environment(const char *root, struct nc_facts *f, struct nc_err *err) {
    nc_auto_free char *path = nc_path_below(root, NC_ENVIRONMENT_RECORD);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err own = NC_ERR_INIT;
    const int r = nc_file_read(path, RECORD_MAX_BYTES, &text, &own);
    char *rest, *line;

    nc_strv_done(&f->environment_services);
    f->environment_services = (struct nc_strv)NC_STRV_INIT;
    if (r < 0 && r != -ENOENT) {
        if (err)
            *err = own;
        return r;
    }
    if (!text.data)
        return 0;
    for (rest = text.data; (line = strsep(&rest, "\n"));)
        if (nc_is_alnum_or(line, ":-_.\\@", 255) && line[0] != '.')
            nc_strv_add_once(&f->environment_services, line);
    return 0;
}

int nc_probe_host(const char *root, const char *kubelet_path, struct nc_facts *f,
                  struct nc_err *err) {
    int r = 0;

    probe_cpus(root, f);
    probe_memory(root, f);
    probe_disk(root, f);
    free(f->boot_id);
    f->boot_id = read_token("", "/proc/sys/kernel/random/boot_id");
    free(f->hostname);
    f->hostname = read_token(root, "/proc/sys/kernel/hostname");
    probe_sysctls(root, f);
    f->logind_inhibit_delay_usec = nc_logind_configured_delay(root);
    probe_credential_provider(root, f);
    probe_nvidia(root, f);
    nc_probe_local_disks(root, f);
    r = probe_environment(root, f, err);
    if (r >= 0 && !f->kubelet_version)
        r = nc_kubelet_version(root, kubelet_path, &f->kubelet_version, err);
    return r < 0 ? r : probe_containerd(root, f, err);
}
