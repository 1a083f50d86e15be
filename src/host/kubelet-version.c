/*
 * kubelet's version: from a file if the AMI has one, else from the binary's build information.
 *
 * Go's linker leaves the build information in a section of its own (.go.buildinfo; the format is
 * that of Go 1.18 and later, debug/buildinfo): a few kilobytes of eighty megabytes have to be read,
 * where `kubelet --version` pages in tens of megabytes from a cold volume. A release build has
 * "…version.gitVersion=v1.34.4" among its linker flags, a build of the module has the module's
 * version.
 */
#include "kubelet-version.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "nc/facts.h"
#include "nc/file.h"
#include "nc/str.h"

#define VERSION_MAX_BYTES 64
#define VERSION_FILE_MAX_BYTES 4096
#define INFO_MAX_BYTES ((size_t)1 << 20)
#define MAX_SECTIONS 512u
#define MAX_SEGMENTS 64u
/* Head of the build information: magic, pointer size, flags; strings follow at 32. */
#define INFO_MAGIC "\xff Go buildinf:"
#define INFO_HEAD_BYTES 32u
#define INFO_ALIGN 16u

static const char *const version_files[] = {"/etc/nodeclaimd/kubelet-version",
                                            "/etc/eks/kubelet-version.txt"};

/* A word of version characters that starts at p. */
static int read_version_token(const char *p, const char *end, char **ret) {
    char token[VERSION_MAX_BYTES];
    unsigned minor;
    size_t n = 0;

    while (p + n < end && n + 1 < sizeof(token) && p[n] && strchr(NC_LOWER NC_DIGITS ".-+", p[n])) {
        token[n] = p[n];
        n++;
    }
    token[n] = '\0';
    if (nc_kubelet_version_parse(token, &minor, NULL) < 0)
        return -EINVAL;
    *ret = nc_strdup(token);
    return 0;
}

/* `err` says only what keeps a file that is there from being read. */
static int from_file(const char *root, const char *path, char **ret, struct nc_err *err) {
    nc_auto_free char *below = nc_path_below(root, path);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const char *token;
    struct nc_err own = NC_ERR_INIT;
    const int r = nc_file_read(below, VERSION_FILE_MAX_BYTES, &text, &own);

    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        *err = own;
    if (r < 0)
        return r;
    /* "v1.34.4", or what `kubelet --version` prints: "Kubernetes v1.34.4" */
    token = nc_trim(text.data);
    if (nc_starts_with(token, "Kubernetes "))
        token += strlen("Kubernetes ");
    return read_version_token(token, token + strlen(token), ret);
}

/* The version in the text of the build information. */
static int search(const char *info, size_t n, char **ret) {
    static const char *const marks[] = {"version.gitVersion=", "mod\tk8s.io/kubernetes\t",
                                        "dep\tk8s.io/kubernetes\t"};
    const char *end = info + n;

    for (size_t i = 0; i < NC_ARRAY_SIZE(marks); i++) {
        const size_t length = strlen(marks[i]);
        const char *p = info;
        while ((p = memmem(p, (size_t)(end - p), marks[i], length))) {
            p += length;
            if (read_version_token(p, end, ret) >= 0)
                return 0;
        }
    }
    return -ENOENT;
}

static bool read_at(int fd, void *to, size_t n, uint64_t offset) {
    return offset <= INT64_MAX && pread(fd, to, n, (off_t)offset) == (ssize_t)n;
}

/* A part of the file: where its build information may be. */
struct part {
    uint64_t offset, size;
};

/* The section of this name. Go's binaries are little-endian 64-bit ELF on all instance types. */
static bool find_section(int fd, const Elf64_Ehdr *head, const char *name, struct part *ret) {
    Elf64_Shdr names, section;
    char text[32];

    if (head->e_shentsize != sizeof(section) || head->e_shnum > MAX_SECTIONS
        || head->e_shstrndx >= head->e_shnum
        || !read_at(fd, &names, sizeof(names), head->e_shoff + head->e_shstrndx * sizeof(section)))
        return false;
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (!read_at(fd, &section, sizeof(section), head->e_shoff + i * sizeof(section)))
            return false;
        if (!read_at(fd, text, strlen(name) + 1, names.sh_offset + section.sh_name)
            || memcmp(text, name, strlen(name) + 1) != 0)
            continue;
        *ret = (struct part){section.sh_offset, section.sh_size};
        return true;
    }
    return false;
}

/* The first writable segment: Go puts the build information at its start, and it is there where the
 * sections are stripped. */
static bool find_data_segment(int fd, const Elf64_Ehdr *head, struct part *ret) {
    Elf64_Phdr segment;

    if (head->e_phentsize != sizeof(segment) || head->e_phnum > MAX_SEGMENTS)
        return false;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        if (!read_at(fd, &segment, sizeof(segment), head->e_phoff + i * sizeof(segment)))
            return false;
        if (segment.p_type != PT_LOAD || (segment.p_flags & (PF_X | PF_W)) != PF_W)
            continue;
        *ret = (struct part){segment.p_offset, segment.p_filesz};
        return true;
    }
    return false;
}

static bool find_info(int fd, struct part *ret) {
    Elf64_Ehdr head;

    if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0
        || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
        return false;
    return find_section(fd, &head, ".go.buildinfo", ret) || find_data_segment(fd, &head, ret);
}

static int from_binary(const char *path, char **ret) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct part part;
    int r = -ENOENT;

    if (fd < 0)
        return -errno;
    if (find_info(fd, &part)) {
        const size_t n = part.size < INFO_MAX_BYTES ? (size_t)part.size : INFO_MAX_BYTES;
        nc_auto_free char *info = nc_malloc(n + 1);
        const char *p = NULL;
        if (read_at(fd, info, n, part.offset))
            p = memmem(info, n, INFO_MAGIC, strlen(INFO_MAGIC));
        if (p && (size_t)(p - info) % INFO_ALIGN == 0 && n - (size_t)(p - info) > INFO_HEAD_BYTES)
            r = search(p + INFO_HEAD_BYTES, n - (size_t)(p - info) - INFO_HEAD_BYTES, ret);
    }
    (void)close(fd);
    return r;
}

int nc_kubelet_version(const char *root, const char *kubelet_path, char **ret, struct nc_err *err) {
    nc_auto_free char *binary = nc_path_below(root, kubelet_path);
    struct nc_err unreadable = NC_ERR_INIT;
    int r;

    for (size_t i = 0; i < NC_ARRAY_SIZE(version_files); i++)
        if (from_file(root, version_files[i], ret, &unreadable) >= 0)
            return 0;
    if (from_binary(binary, ret) >= 0 || from_binary(kubelet_path, ret) >= 0)
        return 0;
    if (unreadable.class != NC_ERR_NONE) {
        if (err)
            *err = unreadable;
        nc_err_wrap(err, "kubelet's version is unknown");
        return unreadable.code;
    }
    r = nc_err_set(err, NC_ERR_HOST, ENOENT,
                   "kubelet's version is unknown: no version file, and none in the build "
                   "information of %s",
                   kubelet_path);
    nc_err_remedy(err, "install kubelet, or write its version (v1.34.4) to %s", version_files[0]);
    return r;
}
