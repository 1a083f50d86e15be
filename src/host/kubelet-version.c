/*
 * kubelet's version: from a file if the AMI has one, else from the bytes of the binary.
 *
 * Go's linker leaves the -X flags of a release build in the build information
 * ("…version.gitVersion=v1.34.4"); a build without them has the module's version. Running `kubelet
 * --version` would page in tens of megabytes from a cold volume.
 */
#include "kubelet-version.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nc/facts.h"
#include "nc/file.h"
#include "nc/str.h"

#define BINARY_MAX_BYTES ((off_t)1 << 30)
#define WORD_MAX_BYTES 64

static const char *const version_files[] = {"/etc/nodeclaimd/kubelet-version",
                                            "/etc/eks/kubelet-version.txt"};

static int from_file(const char *root, const char *path, char **ret) {
    nc_auto_free char *below = nc_path_below(root, path);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    unsigned minor;
    int r = nc_file_read(below, 4096, &text, NULL);

    if (r < 0)
        return r;
    /* "v1.34.4", or what `kubelet --version` prints: "Kubernetes v1.34.4" */
    char *word = nc_trim(text.data);
    if (nc_starts_with(word, "Kubernetes "))
        word += strlen("Kubernetes ");
    r = nc_kubelet_version_parse(word, &minor, NULL);
    if (r >= 0)
        *ret = nc_strdup(word);
    return r;
}

/* A word of version characters that starts at p. */
static int take_word(const char *p, const char *end, char **ret) {
    char word[WORD_MAX_BYTES];
    unsigned minor;
    size_t n = 0;

    while (p + n < end && n + 1 < sizeof(word)
           && (strchr("v.-+", p[n]) || (p[n] >= '0' && p[n] <= '9') || (p[n] >= 'a' && p[n] <= 'z'))
           && p[n]) {
        word[n] = p[n];
        n++;
    }
    word[n] = '\0';
    if (nc_kubelet_version_parse(word, &minor, NULL) < 0)
        return -EINVAL;
    *ret = nc_strdup(word);
    return 0;
}

static int search(const char *data, size_t n, char **ret) {
    static const char *const marks[] = {
        "version.gitVersion=", "mod\tk8s.io/kubernetes\t",
        "path\tk8s.io/kubernetes/cmd/kubelet\nmod\tk8s.io/kubernetes\t",
        "dep\tk8s.io/kubernetes\t"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(marks); i++) {
        const size_t length = strlen(marks[i]);
        const char *p = data, *end = data + n;
        while ((p = memmem(p, (size_t)(end - p), marks[i], length))) {
            p += length;
            if (take_word(p, end, ret) >= 0)
                return 0;
        }
    }
    return -ENOENT;
}

static int from_binary(const char *path, char **ret) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int r = -ENOENT;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0
        && st.st_size <= BINARY_MAX_BYTES) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            r = search(data, (size_t)st.st_size, ret);
            (void)munmap(data, (size_t)st.st_size);
        }
    }
    (void)close(fd);
    return r;
}

int nc_kubelet_version(const char *root, const char *kubelet_path, char **ret, struct nc_err *err) {
    nc_auto_free char *binary = nc_path_below(root, kubelet_path);
    int r;

    for (size_t i = 0; i < NC_ARRAY_SIZE(version_files); i++)
        if (from_file(root, version_files[i], ret) >= 0)
            return 0;
    if (from_binary(binary, ret) >= 0 || from_binary(kubelet_path, ret) >= 0)
        return 0;
    r = nc_err_set(err, NC_ERR_HOST, ENOENT,
                   "kubelet's version is unknown: no version file, and none in the bytes of %s",
                   kubelet_path);
    nc_err_remedy(err, "install kubelet, or write its version (v1.34.4) to %s", version_files[0]);
    return r;
}

/* --- logind */

#define OWN_DROPIN "50-nodeclaimd.conf"

/* systemd's time spans as logind.conf has them: a number of seconds, or units. Only the forms that
 * people write. */
static uint64_t parse_span(const char *text) {
    uint64_t seconds;

    if (nc_streq(text, "infinity"))
        return UINT64_MAX;
    if (nc_parse_u64(text, &seconds) >= 0)
        return seconds > UINT64_MAX / 1000000 ? UINT64_MAX : seconds * 1000000;
    nc_auto_free char *go = nc_calloc(strlen(text) + 1, 1);
    uint64_t usec = 0;
    size_t n = 0;
    for (const char *p = text; *p; p++)
        if (*p != ' ')
            go[n++] = *p;
    if (nc_ends_with(go, "min"))
        go[n - 2] = '\0';
    else if (nc_ends_with(go, "sec"))
        go[n - 2] = '\0';
    return nc_duration_parse(go, &usec) >= 0 ? usec : 0;
}

static void read_conf(const char *path, uint64_t *usec) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    char *rest, *line;

    if (nc_file_read(path, 65536, &text, NULL) < 0)
        return;
    rest = text.data;
    while ((line = strsep(&rest, "\n"))) {
        line = nc_trim(line);
        if (!nc_starts_with(line, "InhibitDelayMaxSec"))
            continue;
        line = nc_trim(line + strlen("InhibitDelayMaxSec"));
        if (*line == '=')
            *usec = parse_span(nc_trim(line + 1));
    }
}

uint64_t nc_logind_configured_delay(const char *root) {
    static const char *const folders[] = {"/usr/lib/systemd/logind.conf.d",
                                          "/etc/systemd/logind.conf.d"};
    nc_auto_free char *main_file = nc_path_below(root, "/etc/systemd/logind.conf");
    uint64_t usec = 0;

    read_conf(main_file, &usec);
    for (size_t i = 0; i < NC_ARRAY_SIZE(folders); i++) {
        nc_auto_free char *folder = nc_path_below(root, folders[i]);
        struct dirent **entries = NULL;
        const int n = scandir(folder, &entries, NULL, alphasort);
        for (int k = 0; k < n; k++) {
            nc_auto_free char *path = nc_asprintf("%s/%s", folder, entries[k]->d_name);
            if (nc_ends_with(entries[k]->d_name, ".conf")
                && !nc_streq(entries[k]->d_name, OWN_DROPIN))
                read_conf(path, &usec);
            free(entries[k]);
        }
        free(entries);
    }
    return usec;
}
