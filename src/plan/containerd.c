/*
 * containerd: config.toml, the base runtime spec, and the SOCI snapshotter for fast image pulls.
 *
 * Paths and settings are those of nodeadm (nodeadm/internal/containerd of 2026-07), because the
 * EKS AMI is made for them. Where the host has no containerd, and nobody requests anything of it,
 * nothing is written.
 */
#include "nc/containerd.h"

#include <errno.h>

#include "nc/str.h"
#include "planner.h"

#define SOCKET "/run/containerd/containerd.sock"
#define BASE_SPEC "/etc/containerd/base-runtime-spec.json"
#define SANDBOX_IMAGE "localhost/kubernetes/pause:latest" /* that of NC_PAUSE_ARCHIVE */
#define SOCI_MIN_CPUS 4
#define SOCI_MIN_BYTES ((int64_t)7 << 30)
#define CDI_FIRST_MINOR 32
#define HOSTS "/etc/containerd/certs.d"
#define CNI_PROGRAMS "/opt/cni/bin"

/* The first containerd 2.x … */
#define VERSION_4 3                /* that reads version 4 */
#define CNI_FOLDERS_ONLY 4         /* that ignores cni.bin_dir */
#define CDI_ALWAYS 4               /* that ignores enable_cdi */
#define CONFIG "containerd.config" /* what `explain` calls it */
#define FAST_IMAGE_PULL "spec.featureGates.FastImagePull"

void nc_containerd_plan_done(struct nc_containerd_plan *p) {
    nc_value_free(p->config);
    nc_value_free(p->base_spec);
    nc_value_free(p->soci_config);
    for (size_t i = 0; i < p->n_mirrors; i++) {
        free(p->mirrors[i].path);
        nc_value_free(p->mirrors[i].tree);
    }
    free(p->mirrors);
    *p = (struct nc_containerd_plan)NC_CONTAINERD_PLAN_INIT;
}

/* Sets what stands at "a/b/c", with the maps on the way. */
static void set_at(struct nc_value *map, const char *path, struct nc_value *value) {
    const char *slash;

    for (; (slash = strchr(path, '/')); path = slash + 1) {
        nc_auto_free char *key = nc_strndup(path, (size_t)(slash - path));
        if (!nc_value_get(map, key))
            nc_value_set(map, key, nc_value_new_map());
        map = nc_value_get(map, key);
    }
    nc_value_set(map, path, value);
}

/* --- config.toml */

#define CRI_PLUGIN "io.containerd.grpc.v1.cri"
#define IMAGES_PLUGIN "io.containerd.cri.v1.images"
#define RUNTIME_PLUGIN "io.containerd.cri.v1.runtime"
/* A path that begins with 1 is below the first of the plugins, and so on: their names are long. */
static const char *const plugin_names[] = {CRI_PLUGIN, IMAGES_PLUGIN, RUNTIME_PLUGIN};
#define CRI "\1"
#define IMAGES "\2"
#define RUNTIME "\3"
#define ADDRESS "grpc/address" /* in version 4 of a plugin, all else is as in version 3 */
#define SERVER "io.containerd.server.v1.grpc"

/* Where a setting stands in a file of version 2 and of version 3: a list of names (nc/str.h). "@"
 * is the runtime. */
#define AT(v2, v3) v2 "\0" v3 "\0"

/* With its text, or true. */
#define SETTING(v2, v3, text) AT(v2, v3) text "\0"
#define SETTINGS                                                                                   \
    SETTING("root", "root", "/var/lib/containerd")                                                 \
    SETTING("state", "state", "/run/containerd")                                                   \
    SETTING(ADDRESS, ADDRESS, SOCKET)                                                              \
    SETTING(CRI "sandbox_image", IMAGES "pinned_images/sandbox", SANDBOX_IMAGE)                    \
    SETTING(CRI "containerd/discard_unpacked_layers", IMAGES "discard_unpacked_layers", "true")    \
    SETTING(CRI "registry/config_path", IMAGES "registry/config_path",                             \
            HOSTS ":/etc/docker/certs.d")                                                          \
    SETTING(CRI "containerd/runtimes/@/runtime_type",                                              \
            RUNTIME "containerd/runtimes/@/runtime_type", "io.containerd.runc.v2")                 \
    SETTING(CRI "containerd/runtimes/@/base_runtime_spec",                                         \
            RUNTIME "containerd/runtimes/@/base_runtime_spec", BASE_SPEC)                          \
    SETTING(CRI "containerd/runtimes/@/options/SystemdCgroup",                                     \
            RUNTIME "containerd/runtimes/@/options/SystemdCgroup", "true")

#define SOCI_SETTINGS                                                                              \
    SETTING(CRI "containerd/snapshotter", IMAGES "snapshotter", "soci")                            \
    SETTING("proxy_plugins/soci/type", "proxy_plugins/soci/type", "snapshot")                      \
    SETTING("proxy_plugins/soci/address", "proxy_plugins/soci/address", NC_SOCI_SOCKET)            \
    SETTING("proxy_plugins/soci/exports/root", "proxy_plugins/soci/exports/root",                  \
            "/var/lib/soci-snapshotter-grpc")

/* The file in the making. */
struct file {
    struct nc_planner *planner;
    struct nc_value *tree;
    unsigned version;
    const char *runtime, *why_runtime;
};

/* why: NULL for a built-in default. */
static void put(const struct file *f, const char *at, struct nc_value *value, const char *why) {
    const char *path = f->version == 2                            ? at
                       : f->version == 4 && nc_streq(at, ADDRESS) ? "plugins/" SERVER "/address"
                                                                  : nc_next_name(at);
    const unsigned char plugin = (unsigned char)*path;
    const bool is_below = plugin && plugin <= NC_ARRAY_SIZE(plugin_names);
    nc_auto_free char *above =
        is_below ? nc_asprintf("plugins/%s/", plugin_names[plugin - 1]) : nc_strdup("");
    const char *below = path + is_below, *hole = strchrnul(below, '@');
    nc_auto_free char *whole = nc_asprintf("%s%.*s%s%s", above, (int)(hole - below), below,
                                           *hole ? f->runtime : "", *hole ? hole + 1 : "");

    set_at(f->tree, whole, value);
    if (why)
        nc_reasons_set(&f->planner->reasons, whole, why);
}

static void put_all(const struct file *f, const char *list, const char *why) {
    for (const char *at = list, *text; *at; at = nc_next_name(text)) {
        text = nc_next_name(nc_next_name(at));
        put(f, at, nc_streq(text, "true") ? nc_value_new_bool(true) : nc_value_new_string(text),
            why);
    }
}

/* Is the installed containerd 2.minor or newer? */
static bool is_since(const struct nc_planner *s, unsigned minor) {
    return s->plan.containerd.major >= 2 && s->plan.containerd.minor >= minor;
}

static void put_cni(const struct file *f, const struct nc_containerd_user *u) {
    const struct nc_value *runtime = nc_value_get(nc_value_get(u->tree, "plugins"), RUNTIME_PLUGIN);

    if (f->version > 2
        && (is_since(f->planner, CNI_FOLDERS_ONLY)
            || nc_value_get(nc_value_get(runtime, "cni"), "bin_dirs"))) {
        struct nc_value *list = nc_value_new_list();
        nc_value_push_string(list, CNI_PROGRAMS);
        put(f, AT("", RUNTIME "cni/bin_dirs"), list, NULL);
    } else {
        put(f, AT(CRI "cni/bin_dir", RUNTIME "cni/bin_dir"), nc_value_new_string(CNI_PROGRAMS),
            NULL);
    }
    put(f, AT(CRI "cni/conf_dir", RUNTIME "cni/conf_dir"), nc_value_new_string("/etc/cni/net.d"),
        NULL);
}

static struct nc_value *make_config(struct nc_planner *s, const struct nc_containerd_user *u,
                                    unsigned version) {
    const bool is_nvidia = s->facts->has_nvidia_runtime;
    const unsigned minor = s->plan.kubelet_minor;
    const struct nc_value *by = nc_value_get(nc_value_get(u->tree, "plugins"), CRI_PLUGIN);
    nc_auto_free char *why_cdi = nc_asprintf("kubelet 1.%u (on from 1.%d)", minor, CDI_FIRST_MINOR);
    const struct file f = {.planner = s,
                           .tree = nc_value_new_map(),
                           .version = version,
                           .runtime = is_nvidia ? "nvidia" : "runc",
                           .why_runtime = is_nvidia ? "this host has " NC_NVIDIA_RUNTIME : NULL};

    nc_value_set_int(f.tree, "version", version);
    if (u->version == 2 && by)
        nc_value_get(f.tree, "version")->mark = by->mark; /* its name says which version it is */
    put_all(&f, SETTINGS, NULL);
    put_cni(&f, u);
    put(&f, AT(CRI "containerd/default_runtime_name", RUNTIME "containerd/default_runtime_name"),
        nc_value_new_string(f.runtime), f.why_runtime);
    put(&f,
        AT(CRI "containerd/runtimes/@/options/BinaryName",
           RUNTIME "containerd/runtimes/@/options/BinaryName"),
        nc_value_new_string(is_nvidia ? NC_NVIDIA_RUNTIME : "/usr/sbin/runc"), f.why_runtime);
    if (!is_since(s, CDI_ALWAYS))
        put(&f, AT(CRI "enable_cdi", RUNTIME "enable_cdi"),
            nc_value_new_bool(minor >= CDI_FIRST_MINOR), why_cdi);
    if (s->uses_soci) {
        put_all(&f, SOCI_SETTINGS, FAST_IMAGE_PULL);
        put(&f,
            AT(CRI "containerd/disable_snapshot_annotations",
               IMAGES "disable_snapshot_annotations"),
            nc_value_new_bool(false), FAST_IMAGE_PULL);
    }
    return f.tree;
}

/* The version of the file for what the user wrote. */
static int choose_version(struct nc_planner *s, const struct nc_containerd_user *u, unsigned *ret) {
    const struct nc_containerd_text *first = s->config->host.containerd.texts;
    const struct nc_value place = {.mark = first ? first->mark : (struct nc_mark){0}};
    int r;

    const unsigned newest = s->plan.containerd.major < 2 ? 2 : is_since(s, VERSION_4) ? 4 : 3;
    *ret = u->version ? u->version : s->plan.containerd.major + 1;
    if (*ret <= newest)
        return 0;
    r = nc_origin_error(s->err, s->docs, &place,
                        NC_CONTAINERD_FIELD ": is of version %u, and containerd %s takes version "
                                            "%u",
                        *ret, s->facts->containerd_version, newest);
    nc_err_remedy(s->err,
                  "write it for version 2 (io.containerd.grpc.v1.cri), or use an image with a "
                  "newer containerd");
    return r;
}

static void warn(struct nc_planner *s, const struct nc_containerd_user *u) {
    nc_auto_free char *message =
        nc_asprintf("is of version 2: containerd %s converts the file (containerd config migrate); "
                    "where no node has containerd 1, write it for version 3",
                    s->facts->containerd_version);

    if (s->plan.containerd.needs_migration)
        nc_containerd_warn(s, (struct nc_mark){.source = u->tree ? u->tree->mark.source : 0}, false,
                           message);
}

/* The transfer service looks for hosts.toml files in one folder, and takes what is written for it.
 */
static void fit_hosts(struct nc_planner *s) {
    const struct nc_containerd_plan *p = &s->plan.containerd;
    const struct nc_value *plugins = nc_value_get(p->config, "plugins");
    const bool is_v2 = !nc_value_get(plugins, IMAGES_PLUGIN);
    struct nc_value *registry =
        nc_value_get(nc_value_get(plugins, is_v2 ? CRI_PLUGIN : IMAGES_PLUGIN), "registry");
    const struct nc_value *path = nc_value_get(registry, "config_path");

    if (nc_containerd_pulls_itself(p) || !path || path->type != NC_VALUE_STRING
        || !strchr(path->text, ':'))
        return;
    if (path->mark.line > 0) {
        nc_auto_free char *message = nc_asprintf(
            "registry.config_path: containerd %s takes \"%s\" for one folder: name one, "
            "or set use_local_image_pull",
            s->facts->containerd_version, path->text);
        nc_containerd_warn(s, path->mark, false, message);
        return;
    }
    nc_value_set_string(registry, "config_path", HOSTS);
    nc_reasons_set(&s->reasons, is_v2 ? CRI "registry/config_path" : IMAGES "registry/config_path",
                   "containerd's transfer service takes one folder");
}

static int plan_config(struct nc_planner *s) {
    nc_cleanup(nc_containerd_user_done) struct nc_containerd_user user = {0};
    struct nc_containerd_plan *p = &s->plan.containerd;
    unsigned version = 0;
    int r = nc_containerd_user_read(s, &user);

    if (r >= 0)
        r = choose_version(s, &user, &version);
    if (r < 0)
        return r;
    r = nc_registry_mirrors_apply(s, user.tree);
    if (r < 0)
        return r;
    p->config = make_config(s, &user, version);
    p->needs_migration = p->major >= 2 && version == 2;
    r = nc_containerd_user_merge(s, &user, p->config);
    if (r >= 0)
        r = nc_containerd_check(s, &user, p->config);
    if (r < 0)
        return r;
    fit_hosts(s);
    warn(s, &user);
    return 0;
}

/* --- the base runtime spec */

/* Without the capabilities, which stand there three times. */
static const char base_spec[] =
    "{\"linux\":{\"maskedPaths\":[\"/proc/acpi\",\"/proc/asound\",\"/proc/kcore\",\"/proc/keys\","
    "\"/proc/latency_stats\",\"/proc/sched_debug\",\"/proc/scsi\",\"/proc/timer_list\","
    "\"/proc/timer_stats\",\"/sys/firmware\"],"
    "\"namespaces\":[{\"type\":\"ipc\"},{\"type\":\"mount\"},{\"type\":\"network\"},"
    "{\"type\":\"pid\"},{\"type\":\"uts\"}],"
    "\"readonlyPaths\":[\"/proc/bus\",\"/proc/fs\",\"/proc/irq\",\"/proc/sys\","
    "\"/proc/sysrq-trigger\"],"
    "\"resources\":{\"devices\":[{\"access\":\"rwm\",\"allow\":false}]}},"
    "\"mounts\":["
    "{\"destination\":\"/dev\",\"options\":[\"nosuid\",\"strictatime\",\"mode=755\","
    "\"size=65536k\"],\"source\":\"tmpfs\",\"type\":\"tmpfs\"},"
    "{\"destination\":\"/dev/mqueue\",\"options\":[\"nosuid\",\"noexec\",\"nodev\"],"
    "\"source\":\"mqueue\",\"type\":\"mqueue\"},"
    "{\"destination\":\"/dev/pts\",\"options\":[\"nosuid\",\"noexec\",\"newinstance\","
    "\"ptmxmode=0666\",\"mode=0620\",\"gid=5\"],\"source\":\"devpts\",\"type\":\"devpts\"},"
    "{\"destination\":\"/proc\",\"options\":[\"nosuid\",\"noexec\",\"nodev\"],"
    "\"source\":\"proc\",\"type\":\"proc\"},"
    "{\"destination\":\"/sys\",\"options\":[\"nosuid\",\"noexec\",\"nodev\",\"ro\"],"
    "\"source\":\"sysfs\",\"type\":\"sysfs\"}],"
    "\"ociVersion\":\"1.1.0\","
    "\"process\":{\"capabilities\":{},\"cwd\":\"/\",\"noNewPrivileges\":true,"
    "\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"soft\":65536,\"hard\":1048576}],"
    "\"user\":{\"gid\":0,\"uid\":0}},"
    "\"root\":{\"path\":\"rootfs\"}}";

static void add_capabilities(struct nc_value *spec) {
    static const char sets[] = "bounding\0effective\0permitted\0";
    static const char names[] =
        "AUDIT_WRITE\0CHOWN\0DAC_OVERRIDE\0FOWNER\0FSETID\0KILL\0MKNOD\0NET_BIND_SERVICE\0NET_RAW\0"
        "SETFCAP\0SETGID\0SETPCAP\0SETUID\0SYS_CHROOT\0";
    struct nc_value *capabilities = nc_value_path(spec, "process.capabilities");

    for (const char *set = sets; *set; set = nc_next_name(set)) {
        struct nc_value *list = nc_value_new_list();
        for (const char *name = names; *name; name = nc_next_name(name)) {
            nc_auto_free char *whole = nc_asprintf("CAP_%s", name);
            nc_value_push_string(list, whole);
        }
        nc_value_set(capabilities, set, list);
    }
}

static void plan_base_spec(struct nc_planner *s) {
    const struct nc_value *user = s->config->host.containerd.base_spec;
    struct nc_containerd_plan *p = &s->plan.containerd;

    p->base_spec = nc_json_literal(base_spec);
    add_capabilities(p->base_spec);
    if (user)
        nc_value_merge(p->base_spec, nc_value_copy(user));
}

/* --- fast image pulls */

/* The conditions are nodeadm's, and on a host that is too small it ignores the gate, too. On an
 * image without the snapshotter the gate cannot be honoured. */
int nc_plan_image_pulls(struct nc_planner *s) {
    const struct nc_facts *f = s->facts;
    nc_cleanup(nc_buf_done) struct nc_buf why = NC_BUF_INIT;

    if (!s->config->host.fast_image_pull || !f->containerd_version)
        return 0;
    if (f->cpus < SOCI_MIN_CPUS)
        (void)nc_buf_printf(&why, "; %lld CPUs, and it takes %d", (long long)f->cpus,
                            SOCI_MIN_CPUS);
    if (f->mem_total_bytes < SOCI_MIN_BYTES)
        (void)nc_buf_printf(&why, "; %lld MiB of memory, and it takes %lld",
                            (long long)(f->mem_total_bytes >> 20),
                            (long long)(SOCI_MIN_BYTES >> 20));
    if (why.len > 0)
        nc_strv_addf(&s->plan.warnings, FAST_IMAGE_PULL ": not done%s", why.data);
    else if (!f->has_soci_snapshotter)
        return nc_origin_unsupported(s->in, FAST_IMAGE_PULL,
                                     "this host has no soci-snapshotter.service", &s->plan, s->err);
    s->uses_soci = why.len == 0 && f->has_soci_snapshotter;
    return 0;
}

static const char soci_config[] =
    "{\"debug\":false,\"content_store\":{\"type\":\"containerd\"},"
    "\"cri_keychain\":{\"enable_keychain\":true},"
    "\"pull_modes\":{\"parallel_pull_unpack\":{\"enable\":true,"
    "\"concurrent_download_chunk_size\":\"16mb\",\"discard_unpacked_layers\":true,"
    "\"max_concurrent_downloads\":-1,\"max_concurrent_downloads_per_image\":20,"
    "\"max_concurrent_unpacks\":-1,\"max_concurrent_unpacks_per_image\":12,"
    "\"decompress_streams\":{\"gzip\":{\"path\":\"/usr/bin/unpigz\",\"args\":[\"-d\",\"-c\"]}}}}}";

static struct nc_value *make_soci_config(const struct nc_value *containerd) {
    const struct nc_value *server = nc_value_get(nc_value_get(containerd, "plugins"), SERVER);
    const char *address =
        nc_value_get_string(server ? server : nc_value_get(containerd, "grpc"), "address");
    struct nc_value *tree = nc_json_literal(soci_config);

    nc_value_set_string(nc_value_get(tree, "cri_keychain"), "image_service_path",
                        address ? address : SOCKET);
    return tree;
}

/* --- all of it */

/* What a document asks of a containerd that is not there. */
static int refuse_without_containerd(struct nc_planner *s) {
    const struct nc_host_config *h = &s->config->host;
    struct nc_value place = {0};
    const char *field = NULL;
    int r;

    if (h->containerd.n_texts > 0) {
        field = NC_CONTAINERD_FIELD;
        place.mark = h->containerd.texts[0].mark;
    } else if (h->containerd.base_spec) {
        field = "spec.containerd.baseRuntimeSpec";
        place.mark = h->containerd.base_spec->mark;
    } else if (h->fast_image_pull) {
        field = FAST_IMAGE_PULL;
    }
    if (!field)
        return 0;
    r = nc_origin_error(s->err, s->docs, &place, "%s: this host has no containerd", field);
    nc_err_remedy(s->err, "install containerd, or write its version (2.1.4) to "
                          "/etc/nodeclaimd/containerd-version");
    return r;
}

static int plan_version(struct nc_planner *s) {
    const char *text = s->facts->containerd_version;
    unsigned major = 0, minor = 0;
    int r = nc_containerd_version_parse(text, &major, &minor, NULL);

    if (r >= 0 && (major == 1 || major == 2)) {
        s->plan.containerd.major = major;
        s->plan.containerd.minor = minor;
        nc_origin_add(&s->plan, "containerd.version", text, "facts of this host", "");
        return 0;
    }
    nc_auto_free char *quoted = nc_quote_string(text);
    r = nc_err_set(s->err, NC_ERR_HOST, ENOTSUP, "containerd %s: not supported", quoted);
    nc_err_remedy(s->err, "use an image with containerd 1.x or 2.x");
    return r;
}

static void add_origins(struct nc_planner *s) {
    const struct nc_containerd_plan *p = &s->plan.containerd;
    const struct nc_origin_text config = {
        .docs = s->docs, .reasons = &s->reasons, .within = NC_CONTAINERD_FIELD};
    const struct nc_origin_text spec = {.docs = s->docs};

    nc_origin_tree(&s->plan, CONFIG, p->config, &config);
    nc_origin_tree(&s->plan, "containerd.baseRuntimeSpec", p->base_spec, &spec);
}

int nc_plan_containerd(struct nc_planner *s) {
    struct nc_containerd_plan *p = &s->plan.containerd;
    int r;

    if (!s->facts->containerd_version)
        return refuse_without_containerd(s);
    r = plan_version(s);
    if (r < 0)
        return r;
    r = plan_config(s);
    if (r < 0)
        return r;
    plan_base_spec(s);
    if (s->uses_soci)
        p->soci_config = make_soci_config(p->config);
    add_origins(s);
    return 0;
}

bool nc_containerd_needs_pause_archive(const struct nc_containerd_plan *p) {
    const struct nc_value *plugins = nc_value_get(p->config, "plugins");
    const struct nc_value *images = nc_value_get(plugins, IMAGES_PLUGIN);
    const struct nc_value *image =
        images ? nc_value_get(nc_value_get(images, "pinned_images"), "sandbox")
               : nc_value_get(nc_value_get(plugins, CRI_PLUGIN), "sandbox_image");

    return image && nc_streq(nc_value_string(image), SANDBOX_IMAGE);
}
