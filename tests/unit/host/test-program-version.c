/*
 * Versions from files and from binaries: good ones, other ones, and ones that lie about their own
 * layout.
 */
#include "groups.h"
#include "host-test.h"

#include <elf.h>

#include "probe.h"

#define INFO_OFFSET 4096u
#define FILE_BYTES 8192u
#define NAMES "\0.text\0.go.buildinfo\0.shstrtab"

/* A binary as Go's linker lays one out, as far as it matters. */
struct binary {
    union {
        char bytes[FILE_BYTES];
        struct {
            Elf64_Ehdr head;
            Elf64_Phdr segments[2];
            Elf64_Shdr sections[4];
            char names[64];
        } elf;
    } u;
    size_t n;
};

static void make_binary(struct binary *b, const char *info) {
    static const char magic[] = "\xff Go buildinf:\x08\x02";

    memset(b, 0, sizeof(*b));
    b->n = FILE_BYTES;
    memcpy(b->u.elf.head.e_ident, ELFMAG, SELFMAG);
    b->u.elf.head.e_ident[EI_CLASS] = ELFCLASS64;
    b->u.elf.head.e_ident[EI_DATA] = ELFDATA2LSB;
    b->u.elf.head.e_phoff = (size_t)((char *)b->u.elf.segments - b->u.bytes);
    b->u.elf.head.e_phentsize = sizeof(Elf64_Phdr);
    b->u.elf.head.e_phnum = 2;
    b->u.elf.head.e_shoff = (size_t)((char *)b->u.elf.sections - b->u.bytes);
    b->u.elf.head.e_shentsize = sizeof(Elf64_Shdr);
    b->u.elf.head.e_shnum = 4;
    b->u.elf.head.e_shstrndx = 3;
    b->u.elf.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X};
    b->u.elf.segments[1] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = INFO_OFFSET, .p_filesz = 4096};
    b->u.elf.sections[1].sh_name = 1;
    b->u.elf.sections[2] = (Elf64_Shdr){.sh_name = 7, .sh_offset = INFO_OFFSET, .sh_size = 4096};
    b->u.elf.sections[3].sh_offset = (size_t)(b->u.elf.names - b->u.bytes);
    memcpy(b->u.elf.names, NAMES, sizeof(NAMES));
    memcpy(b->u.bytes + INFO_OFFSET, magic, sizeof(magic) - 1);
    memcpy(b->u.bytes + INFO_OFFSET + 32, info, strlen(info));
}

/* Owned; NULL where the version is unknown. */
static char *version_of(const struct binary *b) {
    struct nc_err err = NC_ERR_INIT;
    char *version = NULL;

    put_bytes("/opt/nc-test-kubelet", b->u.bytes, b->n, 0755);
    if (nc_kubelet_version(root, "/opt/nc-test-kubelet", &version, &err) == 0)
        return version;
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, "/opt/nc-test-kubelet"));
    assert_non_null(strstr(err.remedy, "/etc/nodeclaimd/kubelet-version"));
    return NULL;
}

static void assert_version(const struct binary *b, const char *expected) {
    nc_auto_free char *version = version_of(b);
    nc_auto_free char *of_image = nc_image_version(root, "/opt/nc-test-kubelet");

    if (!nc_streq(version, expected))
        fail_msg("%s, expected %s", version ? version : "unknown", expected ? expected : "unknown");
    if (!nc_streq(of_image, expected))
        fail_msg("%s of the image, expected %s", of_image ? of_image : "unknown",
                 expected ? expected : "unknown");
}

static const char release[] =
    "\x08go1.24.6\xf0\x10path\tk8s.io/kubernetes/cmd/kubelet\nmod\tk8s.io/kubernetes\t(devel)\t\n"
    "build\t-ldflags=\"-X 'k8s.io/client-go/pkg/version.gitVersion=v1.34.4-eks-3a10415' -X "
    "'k8s.io/component-base/version.gitVersion=v1.34.4-eks-3a10415'\"\n";
static const char module[] = "path\tk8s.io/kubernetes/cmd/kubelet\n"
                             "mod\tk8s.io/kubernetes\tv1.33.1\th1:abc=\n";
static const char dependency[] = "path\texample.com/kubelet\nmod\texample.com/kubelet\t(devel)\n"
                                 "dep\tk8s.io/kubernetes\tv1.32.0\th1:abc=\n";

static void test_binaries(void **state) {
    struct binary b;

    (void)state;
    make_binary(&b, release);
    assert_version(&b, "v1.34.4-eks-3a10415");
    make_binary(&b, module);
    assert_version(&b, "v1.33.1");
    make_binary(&b, dependency);
    assert_version(&b, "v1.32.0");
    make_binary(&b, "mod\tk8s.io/kubernetes\t(devel)\nversion.gitVersion=unknown");
    assert_version(&b, NULL);
    make_binary(&b, "");
    assert_version(&b, NULL);
}

static void test_without_sections(void **state) {
    struct binary b;

    (void)state;
    make_binary(&b, module);
    b.u.elf.head.e_shnum = b.u.elf.head.e_shstrndx = 0;
    assert_version(&b, "v1.33.1");
    b.u.elf.head.e_phnum = 1; /* nothing that can be written to */
    assert_version(&b, NULL);
    make_binary(&b, module);
    b.u.elf.sections[2].sh_name = 0;
    assert_version(&b, "v1.33.1");
}

static void test_other_files(void **state) {
    struct binary b;

    (void)state;
    make_binary(&b, module);
    b.u.elf.head.e_ident[EI_CLASS] = ELFCLASS32;
    assert_version(&b, NULL);
    make_binary(&b, module);
    b.u.elf.head.e_ident[0] = 'M';
    assert_version(&b, NULL);
    make_binary(&b, module);
    b.n = 20;
    assert_version(&b, NULL);
    make_binary(&b, module); /* the text alone is no build information */
    b.u.bytes[INFO_OFFSET] = 0;
    assert_version(&b, NULL);
    make_binary(&b, module);
    b.u.elf.sections[2].sh_offset = UINT64_MAX;
    assert_version(&b, NULL);
    make_binary(&b, module);
    b.n = INFO_OFFSET + 16;
    assert_version(&b, NULL);
}

/* Whatever the bytes say, reading ends, within the file. */
static void test_random_damage(void **state) {
    uint64_t seed = 11;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct binary b;
        make_binary(&b, module);
        for (size_t n = 1 + prng_below(&seed, 8); n > 0; n--)
            b.u.bytes[prng_below(&seed, sizeof(b.u.elf))] = (char)prng_next(&seed);
        if (prng_below(&seed, 4) == 0)
            b.n = prng_below(&seed, FILE_BYTES);
        nc_auto_free char *version = version_of(&b);
        if (version)
            assert_string_equal(version, "v1.33.1");
    }
}

static void test_files_first(void **state) {
    static const struct {
        const char *text, *expected;
    } files[] = {{"v1.30.2", "v1.30.2"},
                 {"Kubernetes v1.31.0-eks-abc\n", "v1.31.0-eks-abc"},
                 {"", "v1.33.1"},
                 {"latest\n", "v1.33.1"},
                 {"v1.30.2\nv1.30.3\n", "v1.30.2"},
                 {"v1.30.2 (good)", "v1.30.2"}};
    struct binary b;

    (void)state;
    make_binary(&b, module);
    for (size_t i = 0; i < NC_ARRAY_SIZE(files); i++) {
        put("/etc/eks/kubelet-version.txt", files[i].text);
        assert_version(&b, files[i].expected);
    }
    put("/etc/nodeclaimd/kubelet-version", "v1.29.0\n");
    assert_version(&b, "v1.29.0");
}

/* A link to a file that this machine has, and the image has not. */
static void test_outside_of_the_image(void **state) {
    nc_auto_free char *link = nc_path_below(root, "/opt/nc-test-kubelet");
    nc_auto_free char *file = nc_path_below(root, "/etc/eks/kubelet-version.txt");
    nc_auto_free char *other = nc_path_below(root, "/etc/eks/containerd-version.txt");
    nc_auto_free char *outside = nc_path_below(root, "/outside");
    nc_auto_free char *version = NULL, *of_image = NULL, *containerd = NULL;

    (void)state;
    put("/outside", "v1.30.2\n");
    put("/etc/eks/x", "");
    assert_int_equal(symlink(outside, file), 0);
    assert_int_equal(symlink(outside, other), 0);
    assert_int_equal(nc_kubelet_version(root, link, &version, NULL), 0);
    of_image = nc_image_version(root, "/opt/nc-test-kubelet");
    assert_null(of_image);
    containerd = nc_image_version(root, NULL);
    assert_null(containerd);
}

static void test_no_kubelet(void **state) {
    struct nc_err err = NC_ERR_INIT;
    char *version = NULL;

    (void)state;
    assert_int_equal(nc_kubelet_version(root, "/none/kubelet", &version, &err), -ENOENT);
    assert_null(version);
    assert_non_null(strstr(err.msg, "no version file, and no "));
    put("/none/kubelet/x", "");
    assert_true(nc_kubelet_version(root, "/none/kubelet", &version, &err) < 0);
    assert_non_null(strstr(err.msg, "none in the build information of "));
}

/* --- containerd */

static char *containerd_version(struct nc_err *err) {
    nc_auto_free char *of_image = nc_image_version(root, NULL);
    char *version = NULL;

    (void)nc_containerd_version(root, &version, err);
    assert_true(nc_streq(of_image, version));
    return version;
}

static void put_containerd(const char *info) {
    struct binary b;

    make_binary(&b, info);
    put_bytes("/usr/local/bin/containerd", b.u.bytes, b.n, 0755);
}

static void assert_containerd(const char *expected) {
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *version = containerd_version(&err);

    if (!nc_streq(version, expected))
        fail_msg("%s, expected %s: %s", version ? version : "none", expected, err.msg);
}

static void test_containerd_files(void **state) {
    static const char *const files[][2] = {
        {"containerd github.com/containerd/containerd/v2 2.1.4 75cb2b7193e4e490e9\n", "2.1.4"},
        {"containerd github.com/containerd/containerd v1.7.27 05044ec0a9a75232cad4\n", "v1.7.27"},
        {"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n", "1.6.20"},
        {"containerd containerd.io v2.0.0-rc.3+unknown\n", "v2.0.0-rc.3+unknown"},
        {"3.0.0\n", "3.0.0"}};

    (void)state;
    put_containerd("mod\tgithub.com/containerd/containerd/v2\tv2.2.0\n");
    for (size_t i = 0; i < NC_ARRAY_SIZE(files); i++) {
        put("/etc/eks/containerd-version.txt", files[i][0]);
        assert_containerd(files[i][1]);
    }
    put("/etc/eks/containerd-version.txt", "containerd github.com/containerd/containerd\n");
    assert_containerd("v2.2.0");
    put("/etc/nodeclaimd/containerd-version", "1.7.0\n");
    assert_containerd("1.7.0");
}

static void test_containerd_binaries(void **state) {
    (void)state;
    put_containerd("mod\tgithub.com/containerd/containerd\tv1.7.27\th1:abc=\n");
    assert_containerd("v1.7.27");
    put_containerd(
        "mod\tgithub.com/containerd/containerd/v2\t(devel)\n"
        "build\t-ldflags=\"-s -X github.com/containerd/containerd/v2/version.Version=2.1.4"
        " -X github.com/containerd/containerd/v2/version.Revision=75cb2b7\"\n");
    assert_containerd("2.1.4");
}

/* A binary that tells nothing is not run: it belongs to another root. */
static void test_containerd_that_tells_nothing(void **state) {
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *mark = nc_path_below(root, "/executed");
    nc_auto_free char *script = nc_asprintf("#!/bin/sh\ntouch %s; echo v2.1.4\n", mark);

    (void)state;
    put_bytes("/usr/bin/containerd", script, strlen(script), 0755);
    assert_null(containerd_version(&err));
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, "containerd's version is unknown"));
    assert_non_null(strstr(err.remedy, "(2.1.4) to /etc/nodeclaimd/containerd-version"));
    assert_int_equal(access(mark, F_OK), -1);
}

static void test_no_containerd(void **state) {
    struct nc_err err = NC_ERR_INIT;
    char *version = (char *)(uintptr_t) "";

    (void)state;
    assert_null(nc_containerd_binary(root));
    assert_int_equal(nc_containerd_version(root, &version, &err), 0);
    assert_null(version);
    put("/etc/eks/containerd-version.txt/x", ""); /* cannot be read, and is not absent */
    assert_true(nc_containerd_version(root, &version, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_binaries),
        host_test(test_without_sections),
        host_test(test_other_files),
        host_test(test_random_damage),
        host_test(test_files_first),
        host_test(test_outside_of_the_image),
        host_test(test_no_kubelet),
        host_test(test_containerd_files),
        host_test(test_containerd_binaries),
        host_test(test_containerd_that_tells_nothing),
        host_test(test_no_containerd),
    };

    return run_group(tests, NULL, NULL);
}
