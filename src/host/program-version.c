/*
 * The version of a program: from a file if the AMI has one, else from the binary's build
 * information.
 *
 * Go's linker leaves the build information in a section of its own (.go.buildinfo; the format is
 * that of Go 1.18 and later, debug/buildinfo): a few kilobytes of eighty megabytes have to be read,
 * where `kubelet --version` pages in tens of megabytes from a cold volume. A release build has
 * "…version.gitVersion=v1.34.4" among its linker flags, a build of the module has the module's
 * version. Debian's containerd has neither: only running it tells.
 */
#include "probe.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "nc/facts.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#include "image-tree.h"

#define VERSION_MAX_BYTES 64
#define VERSION_FILE_MAX_BYTES 4096
#define INFO_MAX_BYTES ((size_t)1 << 20)
#define MAX_SECTIONS 512u
#define MAX_SEGMENTS 64u
/* Head of the build information: magic, pointer size, flags; strings follow at 32. */
#define INFO_MAGIC "\xff Go buildinf:"
#define INFO_HEAD_BYTES 32u
#define INFO_ALIGN 16u

struct program {
    const char *name, *example;
    const char *files; /* a list of what says its version, the first that does */
    const char *marks; /* a list of what its version stands behind in the build information */
    bool (*is_version)(const char *text);
};

static const struct program kubelet = {
    .name = "kubelet",
    .example = "v1.34.4",
    .files = "/etc/nodeclaimd/kubelet-version\0/etc/eks/kubelet-version.txt\0",
    .marks = "version.gitVersion=\0mod\tk8s.io/kubernetes\t\0dep\tk8s.io/kubernetes\t\0",
    .is_version = nc_is_kubelet_version,
};

static const struct program containerd = {
    .name = "containerd",
    .example = "2.1.4",
    .files = "/etc/nodeclaimd/containerd-version\0/etc/eks/containerd-version.txt\0",
    .marks = "/version.Version=\0mod\tgithub.com/containerd/containerd/v2\t\0"
             "mod\tgithub.com/containerd/containerd\t\0",
    .is_version = nc_is_containerd_version,
};

static const char containerd_paths[] = "/usr/bin/containerd\0/usr/local/bin/containerd\0";

/* A word of version characters that starts at text. */
static int read_version_token(const struct program *p, const char *text, const char *end,
                              char **ret) {
    char token[VERSION_MAX_BYTES];
    size_t n = 0;

    while (text + n < end && n + 1 < sizeof(token) && text[n]
           && strchr("+.-" NC_LOWER NC_DIGITS, text[n])) {
        token[n] = text[n];
        n++;
    }
    token[n] = '\0';
    if (!p->is_version(token))
        return -EINVAL;
    *ret = nc_strdup(token);
    return 0;
}

/* The first word that is a version: "v1.34.4", or what a program prints ("Kubernetes v1.34.4",
 * "containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7"). */
static int find_version_word(const struct program *p, const char *text, char **ret) {
    static const char space[] = " \t\r\n";
    const char *end = text + strlen(text);

    for (text += strspn(text, space); *text; text += strspn(text, space)) {
        if (read_version_token(p, text, end, ret) >= 0)
            return 0;
        text += strcspn(text, space);
    }
    return -EINVAL;
}

/* `err` says only what keeps a file that is there from being read. */
static int from_file(const char *root, const struct program *p, const char *path, char **ret,
                     struct nc_err *err) {
    nc_auto_free char *below = nc_path_below(root, path);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err own = NC_ERR_INIT;
    const int r = nc_file_read(below, VERSION_FILE_MAX_BYTES, &text, &own);

    if (r < 0 && r != -ENOENT && r != -ENOTDIR)
        *err = own;
    return r < 0 ? r : find_version_word(p, text.data ? text.data : "", ret);
}

/* The version in the text of the build information. */
static int search(const struct program *program, const char *info, size_t n, char **ret) {
    const char *end = info + n;

    for (const char *mark = program->marks; *mark; mark = nc_next_name(mark)) {
        const size_t length = strlen(mark);
        const char *p = info;
        while ((p = memmem(p, (size_t)(end - p), mark, length))) {
            p += length;
            if (read_version_token(program, p, end, ret) >= 0)
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

/* Closes fd, which may be negative. */
static int from_fd(const struct program *program, int fd, char **ret) {
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
            r = search(program, p + INFO_HEAD_BYTES, n - (size_t)(p - info) - INFO_HEAD_BYTES, ret);
    }
    (void)close(fd);
    return r;
}

static int from_binary(const struct program *program, const char *path, char **ret) {
    return from_fd(program, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret);
}

/* `unreadable` states what keeps a version file from being read. */
static int from_files(const char *root, const struct program *p, char **ret,
                      struct nc_err *unreadable) {
    for (const char *file = p->files; *file; file = nc_next_name(file))
        if (from_file(root, p, file, ret, unreadable) >= 0)
            return 0;
    return -ENOENT;
}

static int unknown(const struct program *p, const char *binary, const struct nc_err *unreadable,
                   struct nc_err *err) {
    int r;

    if (unreadable->class != NC_ERR_NONE) {
        if (err)
            *err = *unreadable;
        nc_err_wrap(err, "%s's version is unknown", p->name);
        return unreadable->code;
    }
    r = nc_err_set(err, NC_ERR_HOST, ENOENT, "%s's version is unknown: no version file, and %s %s",
                   p->name, access(binary, F_OK) < 0 ? "no" : "none in the build information of",
                   binary);
    nc_err_remedy(err, "install %s, or write its version (%s) to %s", p->name, p->example,
                  p->files);
    return r;
}

int nc_kubelet_version(const char *root, const char *kubelet_path, char **ret, struct nc_err *err) {
    nc_auto_free char *binary = nc_path_below(root, kubelet_path);
    struct nc_err unreadable = NC_ERR_INIT;

    if (from_files(root, &kubelet, ret, &unreadable) >= 0 || from_binary(&kubelet, binary, ret) >= 0
        || from_binary(&kubelet, kubelet_path, ret) >= 0)
        return 0;
    return unknown(&kubelet, binary, &unreadable, err);
}

char *nc_image_version(const char *root, const char *kubelet_path) {
    const struct program *p = kubelet_path ? &kubelet : &containerd;
    struct nc_image_tree tree;
    char *version = NULL;

    if (nc_image_tree_open(&tree, root, NULL) < 0)
        return NULL;
    for (const char *file = p->files; *file && !version; file = nc_next_name(file)) {
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        if (nc_image_tree_read(&tree, file, &text))
            (void)find_version_word(p, text.data, &version);
    }
    for (const char *path = kubelet_path ? kubelet_path : containerd_paths; *path && !version;
         path = kubelet_path ? "" : nc_next_name(path))
        (void)from_fd(p, nc_image_tree_open_file(&tree, path), &version);
    nc_image_tree_close(&tree);
    return version;
}

const char *nc_containerd_binary(const char *root) {
    for (const char *path = containerd_paths; *path; path = nc_next_name(path)) {
        nc_auto_free char *below = nc_path_below(root, path);
        if (access(below, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
            return path;
    }
    return NULL;
}

static int from_running(const struct program *p, const char *binary, char **ret) {
    const char *const argv[] = {binary, "--version", NULL};
    const struct nc_capture_call call = {
        .argv = argv, .timeout_usec = NC_VERSION_TIMEOUT_USEC, .max_bytes = VERSION_FILE_MAX_BYTES};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const int r = nc_run(&call, &text, NULL);

    return r < 0 ? r : find_version_word(p, text.data ? text.data : "", ret);
}

int nc_containerd_version(const char *root, char **ret, struct nc_err *err) {
    const char *path = nc_containerd_binary(root);
    nc_auto_free char *binary = path ? nc_path_below(root, path) : NULL;
    struct nc_err unreadable = NC_ERR_INIT;

    *ret = NULL;
    if (from_files(root, &containerd, ret, &unreadable) >= 0)
        return 0;
    if (!path && unreadable.class == NC_ERR_NONE)
        return 0;
    if (path && from_binary(&containerd, binary, ret) >= 0)
        return 0;
    /* A program of another root may need that root to run. */
    if (path && nc_streq(path, binary) && from_running(&containerd, path, ret) >= 0)
        return 0;
    return unknown(&containerd, path ? binary : nc_next_name(containerd.files), &unreadable, err);
}
