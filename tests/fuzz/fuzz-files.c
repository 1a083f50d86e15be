/*
 * Files of the machine that other programs write: the versions of kubelet and containerd (a file,
 * or the build information in the binary), logind's configuration, the CPUs and the memory, the end
 * of a log; and of a pod: its roots and its token. The first byte says which one the rest of the
 * text is. They stand below a folder of this process in memory.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nc/facts.h"
#include "nc/host.h"
#include "nc/kube-control.h"
#include "nc/str.h"

#include "probe.h"

enum file { VERSION = 0, BINARY, LOGIND, CPUS, MEMORY, LOG, ROOTS, TOKEN, _FILE_MAX };
static const char *const paths[_FILE_MAX] = {
    [VERSION] = "/etc/nodeclaimd/kubelet-version",
    [BINARY] = "/kubelet",
    [LOGIND] = "/etc/systemd/logind.conf",
    [CPUS] = "/sys/devices/system/cpu/online",
    [MEMORY] = "/proc/meminfo",
    [LOG] = "/log",
    [ROOTS] = "/ca.crt",
    [TOKEN] = "/token",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char root[64];

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void clean_up(void) {
    for (size_t i = 0; i < _FILE_MAX; i++) {
        nc_auto_free char *path = nc_asprintf("%s%s", root, paths[i]);
        (void)unlink(path);
        for (char *slash; (slash = strrchr(path, '/')) > path;) {
            *slash = '\0';
            (void)rmdir(path);
        }
    }
}

static void make_root(void) {
    (void)snprintf(root, sizeof(root), "%s/fuzz-files-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(root) != NULL);
    for (size_t i = 0; i < _FILE_MAX; i++) {
        nc_auto_free char *path = nc_asprintf("%s%s", root, paths[i]);
        for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
             slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            (void)mkdir(path, 0700);
            *slash = '/';
        }
    }
    must(atexit(clean_up) == 0);
}

static void write_file(const char *path, const uint8_t *data, size_t n) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd >= 0 && write(fd, data, n) == (ssize_t)n && close(fd) == 0);
}

static void version(void) {
    struct nc_err err = NC_ERR_INIT;
    char *text = NULL, *short_text = NULL;
    unsigned minor = 0;

    if (nc_kubelet_version(root, "/kubelet", &text, &err) < 0) {
        must(!text && err.class == NC_ERR_HOST && err.msg[0] && err.remedy[0]);
        return;
    }
    must(nc_kubelet_version_parse(text, &minor, &short_text) >= 0);
    must(nc_is_text(text, strlen(text)) && !strpbrk(text, " \t\r\n"));
    free(text);
    free(short_text);
}

/* The same text as containerd's version. */
static void containerd_version(const char *kubelets) {
    nc_auto_free char *path = nc_asprintf("%s/etc/nodeclaimd/containerd-version", root);
    nc_auto_free char *text = NULL, *short_text = NULL;
    struct nc_err err = NC_ERR_INIT;
    unsigned major = 0;

    must(rename(kubelets, path) == 0);
    if (nc_containerd_version(root, &text, &err) < 0)
        must(!text && err.class == NC_ERR_HOST && err.msg[0]);
    else
        must(!text || nc_containerd_version_parse(text, &major, NULL, &short_text) >= 0);
    (void)unlink(path);
}

static void probe(void) {
    struct nc_facts f = NC_FACTS_INIT;

    f.kubelet_version = nc_strdup("v1.34.4");
    must(nc_probe_host(root, "/kubelet", &f, NULL) == 0);
    must(f.cpus > 0 && f.mem_total_bytes >= 0);
    nc_facts_done(&f);
}

static void tail(const char *path) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_tail(path, 5, &lines, &err) < 0) {
        must(lines.n == 0 && err.class == NC_ERR_HOST && err.msg[0]);
        return;
    }
    must(lines.n > 0 && lines.n <= 5);
    for (size_t i = 0; i < lines.n; i++)
        must(!strchr(lines.v[i], '\n'));
}

static void pod(void) {
    struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_incluster_config("10.0.0.1", "443", root, &k, &err) < 0)
        must(err.class == NC_ERR_CONFIG && err.msg[0] && !k.server);
    else
        must(nc_streq(k.server, "https://10.0.0.1:443") && k.ca_pem);
    nc_kubeconfig_done(&k);
}

static void token(const char *path) {
    struct nc_token_file *t = nc_token_file_new(path);
    struct nc_err err = NC_ERR_INIT;
    char *text = NULL;

    if (nc_token_file_give(t, false, &text, &err) < 0)
        must(!text && err.msg[0]);
    else
        must(*text); /* who makes a header of it checks each byte */
    nc_secret_free(text);
    nc_token_file_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *path = NULL;

    if (n == 0)
        return 0;
    if (!root[0])
        make_root();
    const enum file which = (enum file)(data[0] % _FILE_MAX);
    path = nc_asprintf("%s%s", root, paths[which]);
    write_file(path, data + 1, n - 1);
    if (which == VERSION || which == BINARY)
        version();
    if (which == VERSION)
        containerd_version(path);
    if (which == LOGIND)
        (void)nc_logind_configured_delay(root);
    else if (which == CPUS || which == MEMORY)
        probe();
    else if (which == LOG)
        tail(path);
    else if (which == ROOTS)
        pod();
    else if (which == TOKEN)
        token(path);
    (void)unlink(path);
    return 0;
}
