/*
 * containerd's configuration: the version that is written, what users lay over it, what is refused,
 * and when images are pulled fast. Whole files are compared by the golden tests.
 */
#include <errno.h>

#include "base-test.h"
#include "groups.h"
#include "plan-fixture.h"

#include "nc/containerd.h"
#include "nc/fileset.h"
#include "nc/value.h"

static struct fixture *host_with(const char *containerd) {
    struct fixture *x = fixture_new();

    fixture_set(&x->facts.containerd_version, containerd);
    x->facts.has_pause_archive = true;
    return x;
}

/* A NodeConfig with the text, whose own lines count. */
static void add_toml(struct fixture *x, const char *toml) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)nc_buf_printf(&text, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n%s%s",
                        cluster, "  containerd:\n    config: ");
    nc_json_write_string(&text, toml);
    fixture_document(x, text.data);
}

static void add_more(struct fixture *x, const char *fields) {
    nc_auto_free char *text = nc_asprintf(
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n%s%s", cluster, fields);

    fixture_document(x, text);
}

static struct nc_value *toml(const char *text) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_value *v = NULL;

    if (nc_toml_parse(nc_text(text), &v, &err) < 0)
        fail_msg("%s", err.msg);
    return v;
}

/* Each value of `part` stands in `whole`; lists are the same. */
static void assert_has(const struct nc_value *whole, const struct nc_value *part) {
    assert_non_null(whole);
    if (part->type == NC_VALUE_MAP)
        for (size_t i = 0; i < part->n; i++) {
            const struct nc_value *v = nc_value_get(whole, part->members[i].key);
            if (!v)
                fail_msg("no %s", part->members[i].key);
            assert_has(v, part->members[i].value);
        }
    else
        assert_true(nc_value_equal(whole, part));
}

static void assert_config(const struct fixture *x, const char *expected) {
    nc_auto_value struct nc_value *part = toml(expected);

    assert_has(x->plan.containerd.config, part);
}

static const char *origin_of(const struct fixture *x, const char *field) {
    for (size_t i = 0; i < x->plan.n_origins; i++)
        if (nc_streq(x->plan.origins[i].field, field))
            return x->plan.origins[i].from;
    fail_msg("%s is not explained", field);
    return "";
}

static void assert_warned(const struct fixture *x, const char *part, bool is_warned) {
    bool found = false;

    for (size_t i = 0; i < x->plan.warnings.n; i++)
        found = found || strstr(x->plan.warnings.v[i], part);
    if (found != is_warned)
        fail_msg("%s: %s", part, is_warned ? "not warned of" : "warned of");
}

static const char *const v2_text = "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
                                   "discard_unpacked_layers = false";
static const char *const v3_text = "[plugins.'io.containerd.cri.v1.images']\n"
                                   "discard_unpacked_layers = false";

static void test_none(void **state) {
    struct fixture *x = fixture_new();

    (void)state;
    add_more(x, "");
    fixture_plan(x);
    assert_int_equal(x->plan.containerd.major, 0);
    assert_null(x->plan.containerd.config);
    fixture_free(x);
}

static void test_versions(void **state) {
    static const struct {
        const char *installed, *user, *expected;
        bool needs_migration;
    } rows[] = {
        {"1.7.28", "", "version = 2", false},
        {"2.1.4", "", "version = 3", false},
        {"1.6.20~ds1", v2_text, "version = 2", false},
        {"2.1.4", v3_text, "version = 3", false},
        {"v2.0.0-rc.1", "version = 3\n[grpc]\nuid = 1", "version = 3", false},
        {"2.1.4", v2_text, "version = 2", true},
        {"2.1.4", "version = 2", "version = 2", true},
        {"2.1.4", "[debug]\nlevel = 'debug'", "version = 3\n[debug]\nlevel = 'debug'", false},
        {"1.7.28", "[debug]\nlevel = 'debug'", "version = 2\n[debug]\nlevel = 'debug'", false},
        {"2.4.2", "", "version = 3\ngrpc.address = '/run/containerd/containerd.sock'", false},
        {"2.4.2", "version = 4",
         "version = 4\n[plugins.'io.containerd.server.v1.grpc']\n"
         "address = '/run/containerd/containerd.sock'",
         false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with(rows[i].installed);
        if (*rows[i].user)
            add_toml(x, rows[i].user);
        else
            add_more(x, "");
        fixture_plan(x);
        assert_config(x, rows[i].expected);
        assert_int_equal(x->plan.containerd.needs_migration, rows[i].needs_migration);
        assert_warned(x, "containerd config migrate", rows[i].needs_migration);
        fixture_free(x);
    }
}

static void test_refused(void **state) {
    static const struct {
        const char *installed, *user, *message;
    } rows[] = {
        {"1.7.28", "version = 3", "is of version 3, and containerd 1.7.28 takes version 2"},
        {"1.7.28", "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true",
         "is of version 3, and containerd 1.7.28 takes version 2"},
        {"2.1.4", "# an old one\nversion = 1", "line 2, column 11: version must be 2, 3 or 4"},
        {"2.1.4", "version = 4", "is of version 4, and containerd 2.1.4 takes version 3"},
        {"2.4.2", "version = 5", "version must be 2, 3 or 4"},
        {"2.1.4", "version = '2'", "version must be 2, 3 or 4"},
        {"2.1.4", "version = 2\n[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'x'",
         "line 1, column 11: version is 2, but the plugins"},
        {"2.1.4", "plugins = 3", "line 1, column 11: 'plugins' is a table, not a value"},
        {"2.1.4", "[root]\na = 1", ": 'root' is a value, not a table"},
        {"2.1.4", "[[grpc]]\na = 1", ": 'grpc' is a table, not a value"},
        {"2.1.4", "a = 1\nb = = 2", "line 2, column 5: "},
        {"2.1.4",
         "version = 3\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\nsnapshotter = 'x'",
         "line 2, column 38: this is of version 2, and the text of a newer one"},
        {"2.4.2",
         "version = 4\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\nsnapshotter = 'x'",
         "line 2, column 38: this is of version 2, and the text of a newer one"},
        {"2.4.2", "version = 4\n[grpc]\naddress = '/x'",
         "line 2, column 2: this is of version 3, and the text of version 4"},
        {"2.1.4",
         "[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/a'\n"
         "[plugins.'io.containerd.cri.v1.images'.registry.mirrors.x]\nendpoint = ['https://y']",
         "registry.mirrors cannot be set beside registry.config_path"},
        {"1.7.28", "[plugins.'io.containerd.grpc.v1.cri'.registry.configs.x.tls]\nca_file = '/y'",
         "registry.configs.*.tls cannot be set beside registry.config_path"},
        {"2.1.4", "[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'x'",
         "line 2, column 24: default_runtime_name is none of containerd.runtimes"},
        {"2.1.4",
         "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nio_type = 'x'",
         "io_type must be fifo or streaming"},
        {"2.2.9", "[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dir = '/a'\nbin_dirs = ['/b']",
         "cni.bin_dirs cannot be set beside cni.bin_dir"},
        {"1.7.28",
         "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]\n"
         "privileged_without_host_devices_all_devices_allowed = true",
         "_all_devices_allowed needs privileged_without_host_devices"},
        {"1.7.28",
         "[plugins.'io.containerd.grpc.v1.cri'.containerd]\nruntimes.untrusted.runtime_type = 'x'\n"
         "untrusted_workload_runtime.runtime_type = 'x'",
         "line 2, column 10: cannot be set beside untrusted_workload_runtime"},
        {"2.1.4", "disabled_plugins = ['io.containerd.grpc.v1.cri']",
         "line 1, column 21: disabled_plugins: kubelet needs the CRI plugin"},
        {"2.1.4", "disabled_plugins = ['io.containerd.a.b', 'cri']",
         "column 42: a plugin is named io.containerd.TYPE.VERSION.ID"},
        {"1.7.28", "disabled_plugins = ['a.b']", "a plugin is named io.containerd."},
        {"1.7.28", "required_plugins = ['io.containerd.cri']", "a plugin is named io.containerd."},
        {"2.1.4",
         "required_plugins = ['io.containerd.a.b']\ndisabled_plugins = ['io.containerd.a.b']",
         "line 1, column 21: required_plugins: is in disabled_plugins"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with(rows[i].installed);
        add_toml(x, rows[i].user);
        fixture_refused(x, NC_ERR_CONFIG, rows[i].message);
        fixture_refused(x, NC_ERR_CONFIG, "document 1");
        fixture_refused(x, NC_ERR_CONFIG, "spec.containerd.config: ");
        fixture_free(x);
    }
}

static void test_other_containerds(void **state) {
    static const char *const versions[] = {"3.0.0", "0.2.5", "10.1.1"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(versions); i++) {
        struct fixture *x = host_with(versions[i]);
        add_more(x, "");
        fixture_refused(x, NC_ERR_HOST, versions[i]);
        fixture_free(x);
    }
}

static void test_not_there(void **state) {
    static const char *const asked[][2] = {
        {"  containerd:\n    config: version = 2\n", "spec.containerd.config: this host has no"},
        {"  containerd:\n    baseRuntimeSpec: {a: 1}\n", "spec.containerd.baseRuntimeSpec: this"},
        {"  featureGates: {FastImagePull: true}\n", "spec.featureGates.FastImagePull: this host"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(asked); i++) {
        struct fixture *x = fixture_new();
        add_more(x, asked[i][0]);
        fixture_refused(x, NC_ERR_CONFIG, asked[i][1]);
        fixture_free(x);
    }
}

static void test_runtime_and_devices(void **state) {
    static const struct {
        const char *containerd, *kubelet, *expected;
        bool is_nvidia;
    } rows[] = {
        {"1.7.28", "v1.31.9",
         "[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false\n"
         "sandbox_image = 'localhost/kubernetes/pause:latest'\n"
         "[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'runc'\n"
         "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]\n"
         "BinaryName = '/usr/sbin/runc'\nSystemdCgroup = true",
         false},
        {"2.1.4", "v1.32.0",
         "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n"
         "[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'nvidia'\n"
         "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n"
         "BinaryName = '/usr/bin/nvidia-container-runtime'\nSystemdCgroup = true",
         true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with(rows[i].containerd);
        fixture_set(&x->facts.kubelet_version, rows[i].kubelet);
        x->facts.has_nvidia_runtime = rows[i].is_nvidia;
        add_more(x, "");
        fixture_plan(x);
        assert_config(x, rows[i].expected);
        fixture_free(x);
    }
}

static void test_merged_key_by_key(void **state) {
    struct fixture *x = host_with("2.1.4");

    (void)state;
    add_toml(x, "[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'a/b:1'\n"
                "[plugins.'io.containerd.cri.v1.images'.registry.headers]\nX = ['1', '2']");
    add_toml(x, "required_plugins = ['io.containerd.a.b']\n"
                "[plugins.'io.containerd.cri.v1.images'.registry.headers]\nX = ['3']");
    fixture_plan(x);
    assert_config(x, "required_plugins = ['io.containerd.a.b']\n"
                     "[plugins.'io.containerd.cri.v1.images']\ndiscard_unpacked_layers = true\n"
                     "[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'a/b:1'\n"
                     "[plugins.'io.containerd.cri.v1.images'.registry]\n"
                     "config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'\n"
                     "headers.X = ['3']");
    assert_non_null(strstr(
        origin_of(
            x, "containerd.config.plugins.\"io.containerd.cri.v1.images\".pinned_images.sandbox"),
        "document 1: spec.containerd.config line 2"));
    assert_string_equal(
        origin_of(x,
                  "containerd.config.plugins.\"io.containerd.cri.v1.images\".registry.config_path"),
        "built-in default");
    assert_string_equal(
        origin_of(x, "containerd.config.plugins.\"io.containerd.cri.v1.runtime\".enable_cdi"),
        "kubelet 1.34 (on from 1.32)");
    assert_string_equal(origin_of(x, "containerd.config.version"), "built-in default");
    fixture_free(x);
}

/* The version that the name of a plugin states. */
static void test_origin_of_version(void **state) {
    struct fixture *x = host_with("2.1.4");

    (void)state;
    add_toml(x, "\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = false");
    fixture_plan(x);
    assert_string_equal(origin_of(x, "containerd.config.version"),
                        "document 1: spec.containerd.config line 2");
    fixture_free(x);
}

/* Is there "part" in the file that is made for the text? */
static void assert_written(const char *installed, const char *text, const char *part, bool is) {
    struct fixture *x = host_with(installed);
    nc_cleanup(nc_buf_done) struct nc_buf toml_text = NC_BUF_INIT;

    add_toml(x, text);
    fixture_plan(x);
    assert_int_equal(nc_toml_write(x->plan.containerd.config, &toml_text), 0);
    if (!!strstr(toml_text.data, part) != is)
        fail_msg("%s, %s: %s is %s", installed, text, part, is ? "missing" : "there");
    fixture_free(x);
}

/* What a version ignores is not written for it. */
static void test_keys_by_version(void **state) {
    static const char own[] = "[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/a']";

    (void)state;
    assert_written("2.1.4", "version = 3", "enable_cdi = true", true);
    assert_written("2.1.4", "version = 3", "bin_dir = ", true);
    assert_written("2.4.2", "version = 3", "enable_cdi", false);
    assert_written("2.4.2", "version = 3", "bin_dir = ", false);
    assert_written("2.4.2", "version = 3", "bin_dirs = [\"/opt/cni/bin\"]", true);
    assert_written("2.1.4", own, "bin_dir = ", false);
    assert_written("2.1.4", own, "bin_dirs = [\"/a\"]", true);
}

static const char keys[] =
    "# key\tfirst\tlast\ttype\n"
    "debug.level\t16\t-\tstring\n"
    "io.containerd.cri.v1.images\t20\t-\tplugin\n"
    "io.containerd.cri.v1.images registry.headers.*\t20\t-\tlist\n"
    "io.containerd.cri.v1.runtime\t20\t-\tplugin\n"
    "io.containerd.cri.v1.runtime cni.bin_dir\t20\t23\tstring\n"
    "io.containerd.cri.v1.runtime cni.bin_dirs\t21\t-\tlist\n"
    "io.containerd.cri.v1.runtime containerd.runtimes.*.options.*\t20\t-\tany\n"
    "io.containerd.cri.v1.runtime containerd.runtimes.*.options.SystemdCgroup\t20\t-\tbool\n"
    "io.containerd.cri.v1.runtime containerd.runtimes.*.runtime_type\t20\t-\tstring\n"
    "io.containerd.cri.v1.runtime containerd.runtimes.*.snapshotter\t20\t-\tstring\n"
    "io.containerd.cri.v1.runtime enable_cdi\t20\t23\tbool\n"
    "io.containerd.cri.v1.runtime enable_criu\t24\t-\tbool\n"
    "io.containerd.cri.v1.runtime enable_selinux\t20\t-\tbool\n"
    "io.containerd.gc.v1.scheduler\t16\t-\tplugin\n"
    "io.containerd.gc.v1.scheduler pause_threshold\t16\t-\tfloat\n"
    "io.containerd.gc.v1.scheduler schedule_delay\t16\t-\tduration\n"
    "io.containerd.grpc.v1.cri\t16\t-\tplugin\n"
    "io.containerd.grpc.v1.cri containerd.runtimes.*.runtime_root\t16\t-\tunset\n"
    "io.containerd.grpc.v1.cri systemd_cgroup\t16\t-\tunset\n"
    "io.containerd.grpc.v1.cri stream_idle_timeout\t16\t-\tduration\n"
    "io.containerd.server.v1.grpc\t23\t-\tplugin\n"
    "io.containerd.server.v1.grpc uid\t23\t-\tint\n"
    "io.containerd.transfer.v1.local\t17\t-\tplugin\n"
    "io.containerd.transfer.v1.local unpack_config\t17\t-\ttables\n"
    "io.containerd.transfer.v1.local unpack_config.platform\t17\t-\tstring\n"
    "required_plugins\t16\t-\tlist\n"
    "timeouts.*\t16\t-\tduration\n"
    "version\t16\t-\tint\n";

/* Keys of a user's text that the installed version has no field for are named. */
static void test_ignored_keys(void **state) {
    static const struct {
        const char *version, *text, *warning; /* NULL: none */
    } rows[] = {
        {"2.3.7", "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\ncni.bin_dir = '/a'",
         NULL},
        {"2.4.2", "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true",
         "line 3, column 14: containerd 2.4.2 ignores \"io.containerd.cri.v1.runtime enable_cdi\""},
        {"2.4.2", "[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dir = '/a'",
         "ignores \"io.containerd.cri.v1.runtime cni.bin_dir\", did you mean "
         "\"io.containerd.cri.v1.runtime cni.bin_dirs\"?"},
        {"2.1.4",
         "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]\nruntime_typ = 'x'",
         "ignores \"io.containerd.cri.v1.runtime containerd.runtimes.*.runtime_typ\", did you"},
        {"2.1.4",
         "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata.options]\na.b = 1",
         NULL},
        {"2.1.4", "[plugins.'io.containerd.cri.v1.images'.registry.headers]\nX-A = ['b']", NULL},
        {"2.1.4", "debug = {level = 'info', colour = true}", "ignores \"debug.colour\""},
        {"2.1.4", "[plugins.'io.containerd.gc.v1.scheduler']\npause_treshold = 1",
         "ignores \"io.containerd.gc.v1.scheduler pause_treshold\", did you mean "
         "\"io.containerd.gc.v1.scheduler pause_threshold\"?"},
        {"2.1.4", "[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]\nplatfrm = 'x'",
         "ignores \"io.containerd.transfer.v1.local unpack_config.platfrm\""},
        {"2.1.4", "[plugins.cri]\na = 1", "line 1, column 10: containerd 2.1.4 ignores \"cri\""},
        {"2.1.4", "[plugins.'io.containerd.cri.v1.image']\nsnapshotter = 'x'",
         "line 1, column 10: containerd 2.1.4 ignores \"io.containerd.cri.v1.image\", did you mean "
         "\"io.containerd.cri.v1.images\"?"},
        {"2.1.4", "[plugins.'io.containerd.server.v1.grpc']\nuid = 1",
         "ignores \"io.containerd.server.v1.grpc\""},
        {"2.4.2", "[plugins.'io.containerd.server.v1.grpc']\nuid = 1", NULL},
        {"2.9.0", "[plugins.'io.containerd.cri.v1.runtime']\nenable_selinux = true", NULL},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with(rows[i].version);
        x->keys = keys;
        add_toml(x, rows[i].text);
        fixture_plan(x);
        print_message("# %s\n", rows[i].text);
        assert_warned(x, rows[i].warning ? rows[i].warning : " ignores ", rows[i].warning != NULL);
        fixture_free(x);
    }
}

/* What no version reads is a slip; another version's key is none. What is suggested belongs there:
 * it is no key of another plugin or table. */
static void test_unknown_keys(void **state) {
    static const struct {
        const char *text, *end;
        size_t n_unknown;
    } rows[] = {
        {"[plugins.'io.containerd.cri.v1.runtime'.containerd]\nsnapshoter = 'x'",
         "ignores \"io.containerd.cri.v1.runtime containerd.snapshoter\"", 1},
        {"[plugins.'io.containerd.cri.v1.images']\nenable_selinu = true",
         "ignores \"io.containerd.cri.v1.images enable_selinu\"", 1},
        {"['io.containerd.cri.v1.images']\nsnapshotter = 'x'",
         "ignores \"io.containerd.cri.v1.images\"", 1},
        {"[plugins.'io.containerd.cri.v1.runtime']\nenable_selinu = true",
         "did you mean \"io.containerd.cri.v1.runtime enable_selinux\"?", 1},
        {"[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true",
         "ignores \"io.containerd.cri.v1.runtime enable_cdi\"", 0},
        {"[plugins.'io.containerd.cri.v1.runtime']\ncni.bin_dir = '/a'",
         "did you mean \"io.containerd.cri.v1.runtime cni.bin_dirs\"?", 0},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with("2.4.2");
        const struct nc_plan *p = &x->plan;
        x->keys = keys;
        add_toml(x, rows[i].text);
        fixture_plan(x);
        print_message("# %s\n", rows[i].text);
        assert_true(p->warnings.n > 0);
        assert_true(nc_ends_with(p->warnings.v[0], rows[i].end));
        assert_true(nc_starts_with(p->warnings.v[0], "document 1"));
        assert_int_equal(p->n_certain, rows[i].n_unknown);
        if (p->n_certain > 0)
            assert_true(nc_ends_with(p->warnings.v[0], p->certain[0].message));
        fixture_free(x);
    }
}

/* containerd loads nothing of a plugin with a value that it cannot decode. */
static void test_types_of_keys(void **state) {
    static const struct {
        const char *text, *message; /* NULL: right */
    } rows[] = {
        {"version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsystemd_cgroup = true",
         "io.containerd.grpc.v1.cri systemd_cgroup must be left out"},
        {"version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsystemd_cgroup = 1.5",
         "io.containerd.grpc.v1.cri systemd_cgroup must be left out"},
        {"version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]\n"
         "runtime_root = '/x'",
         "containerd.runtimes.*.runtime_root must be left out"},
        {"version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nsystemd_cgroup = false\n"
         "containerd.runtimes.runc.runtime_root = ''",
         NULL},
        {"[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = 1",
         "line 2, column 14: io.containerd.cri.v1.runtime enable_cdi must be true or false"},
        {"[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dir = ['/a']",
         "cni.bin_dir must be a string"},
        {"[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = '/a'",
         "cni.bin_dirs must be a list of strings"},
        {"[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/a', 1]",
         "cni.bin_dirs must be a list of strings"},
        {"[plugins.'io.containerd.cri.v1.images'.registry]\nheaders = 'x'",
         "images registry.headers must be a table"},
        {"[plugins.'io.containerd.cri.v1.images'.registry.headers]\nX-A = 'b'",
         "images registry.headers.X-A must be a list of strings"},
        {"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]\nruntime_type = 1",
         "containerd.runtimes.*.runtime_type must be a string"},
        {"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n"
         "SystemdCgroup = 'true'",
         "containerd.runtimes.*.options.SystemdCgroup must be true or false"},
        {"debug.level = true", "debug.level must be a string"},
        {"version = 3\nplugins.'io.containerd.grpc.v1.cri' = 1", "a plugin is a table"},
        {"plugins.'io.containerd.gc.v1.scheduler' = 'x'", "a plugin is a table"},
        {"[plugins.'io.containerd.gc.v1.scheduler']\npause_threshold = 'x'",
         "line 2, column 19: io.containerd.gc.v1.scheduler pause_threshold must be a number"},
        {"[plugins.'io.containerd.gc.v1.scheduler']\nschedule_delay = ''",
         "scheduler schedule_delay must be a duration such as 5m"},
        {"[plugins.'io.containerd.gc.v1.scheduler']\nschedule_delay = 1",
         "scheduler schedule_delay must be a duration such as 5m"},
        {"version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nstream_idle_timeout = '5'",
         "line 3, column 23: io.containerd.grpc.v1.cri stream_idle_timeout must be a duration"},
        {"[plugins.'io.containerd.transfer.v1.local']\nunpack_config = [1]",
         "local unpack_config must be a list of tables"},
        {"[plugins.'io.containerd.transfer.v1.local']\nunpack_config = 1",
         "local unpack_config must be a list of tables"},
        {"[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]\nplatform = 'x'\n"
         "[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]\nplatform = 1",
         "line 4, column 12: io.containerd.transfer.v1.local unpack_config.platform must be a str"},
        {"required_plugins.a = 'x'\ndisabled_plugins = ['io.containerd.a.b']",
         "required_plugins must be a list of strings"},
        {"timeouts.'a.b' = 'x'", "timeouts.a.b must be a duration such as 5m"},
        {"required_plugins = ['io.containerd.gc.v1.scheduler', 'io.containerd.gc.v1.x']",
         "line 1, column 54: required_plugins: this containerd has none of that name"},
        {"required_plugins = ['io.containerd.snapshotter.v1.x']\nproxy_plugins.y.type = 'snapshot'",
         "required_plugins: this containerd has none of that name"},
        {"required_plugins = ['io.containerd.snapshotter.v1.x']\nproxy_plugins.x.type = 'snapshot'",
         NULL},
        {"[plugins.'io.containerd.gc.v1.scheduler']\npause_threshold = 1\nschedule_delay = '1s'",
         NULL},
        {"[plugins.'io.containerd.gc.v1.scheduler']\npause_threshold = 0.5", NULL},
        {"[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\ncni.bin_dirs = ['/a']",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with("2.1.4");
        x->keys = keys;
        add_toml(x, rows[i].text);
        if (rows[i].message)
            fixture_refused(x, NC_ERR_CONFIG, rows[i].message);
        else
            fixture_plan(x);
        fixture_free(x);
    }
}

static void test_folders_of_hosts(void **state) {
    static const char one[] = "config_path = \"/etc/containerd/certs.d\"\n",
                      two[] = "config_path = \"/etc/containerd/certs.d:/etc/docker/certs.d\"\n",
                      own[] = "[plugins.'io.containerd.cri.v1.images']\n"
                              "discard_unpacked_layers = false\nregistry.config_path = '/a:/b'";
    struct fixture *x = host_with("2.1.4");

    (void)state;
    assert_written("2.1.4", "version = 3", two, true);
    assert_written("2.1.4", v3_text, one, true);
    assert_written("2.1.4", v2_text, one, true);
    assert_written("2.0.5", v3_text, two, true);
    assert_written("1.7.28", v2_text, two, true);
    assert_written("2.1.4",
                   "[plugins.'io.containerd.cri.v1.images']\ndiscard_unpacked_layers = false\n"
                   "max_concurrent_downloads = 5",
                   two, true);
    add_toml(x, own);
    fixture_plan(x);
    assert_warned(x, "registry.config_path: containerd 2.1.4 takes \"/a:/b\" for one folder", true);
    fixture_free(x);
}

static void test_texts_of_two_versions(void **state) {
    struct fixture *x = host_with("2.1.4");

    (void)state;
    add_toml(x, v2_text);
    add_toml(x, v3_text);
    fixture_refused(x, NC_ERR_CONFIG, "is of version 3, that of an earlier document of version 2");
    fixture_free(x);
}

/* One header of 80 kB, and 200 tables below it: each repeats it, in an origin and in the file. */
static void test_long_keys(void **state) {
    struct fixture *x = host_with("2.1.4");
    const struct nc_render_input in = {
        .program = "/p", .facts = &x->facts, .config = &x->config, .plan = &x->plan};
    nc_cleanup(nc_fileset_done) struct nc_fileset files = NC_FILESET_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    size_t bytes = 0;

    (void)state;
    for (unsigned i = 0; i < 40; i++)
        (void)nc_buf_printf(&text, "%s%02000u", i ? "." : "[", i);
    (void)nc_buf_puts(&text, "]\n");
    for (unsigned i = 0; i < 200; i++)
        (void)nc_buf_printf(&text, "k%u = {a = 1}\n", i);
    add_toml(x, text.data);
    fixture_plan(x);
    for (size_t i = 0; i < x->plan.n_origins; i++)
        bytes += strlen(x->plan.origins[i].field);
    assert_in_range(bytes, 200, 400000);
    assert_int_equal(nc_render(&in, &files, &err), -EFBIG);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_string_equal(err.msg, "/etc/containerd/config.toml: would be larger than 1048576 bytes");
    fixture_free(x);
}

static void test_base_spec(void **state) {
    struct fixture *x = host_with("2.1.4");
    nc_auto_value struct nc_value *expected = json(
        "{'foo': 'bar', 'linux': {'maskedPaths': []}, 'process': {'cwd': '/', 'rlimits': "
        "[{'type': 'RLIMIT_NOFILE', 'soft': 12345, 'hard': 12345}]}, 'root': {'path': 'rootfs'}}");

    (void)state;
    add_more(x, "  containerd:\n    baseRuntimeSpec:\n      foo: bar\n      linux:\n"
                "        maskedPaths: []\n      process:\n        rlimits:\n"
                "        - {type: RLIMIT_NOFILE, soft: 12345, hard: 12345}\n");
    fixture_plan(x);
    assert_has(x->plan.containerd.base_spec, expected);
    assert_int_equal(
        nc_value_path(x->plan.containerd.base_spec, "process.capabilities.bounding")->n, 14);
    assert_non_null(strstr(origin_of(x, "containerd.baseRuntimeSpec.foo"), "document 1:"));
    fixture_free(x);
}

static void test_fast_image_pull(void **state) {
    static const struct {
        const char *missing; /* NULL: images are pulled fast */
        int64_t cpus, mib;
        bool has_snapshotter;
    } rows[] = {
        {NULL, 4, 7 << 10, true},
        {"3 CPUs, and it takes 4", 3, 64 << 10, true},
        {"7167 MiB of memory, and it takes 7168", 8, (7 << 10) - 1, true},
        {"1 CPUs, and it takes 4; 512 MiB of memory, and it takes 7168", 1, 512, false},
    };
    static const char endpoint[] = "unix:///run/soci-snapshotter-grpc/soci-snapshotter-grpc.sock";

    (void)state;
    for (size_t i = 0; i < 2 * NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with(i % 2 ? "1.7.28" : "2.1.4");
        const char *missing = rows[i / 2].missing;
        x->facts.cpus = rows[i / 2].cpus;
        x->facts.mem_total_bytes = rows[i / 2].mib << 20;
        x->facts.has_soci_snapshotter = rows[i / 2].has_snapshotter;
        add_more(x, "  featureGates: {FastImagePull: true}\n"
                    "  containerd: {config: 'grpc.address = \"/run/other.sock\"'}\n");
        fixture_plan(x);
        assert_int_equal(x->plan.containerd.soci_config != NULL, !missing);
        assert_warned(x, missing ? missing : "FastImagePull", missing != NULL);
        assert_int_equal(nc_value_get(x->plan.containerd.config, "proxy_plugins") != NULL,
                         !missing);
        /* The snapshotter learns the credentials of a pull only where kubelet pulls through it. */
        assert_true(nc_streq(nc_value_get_string(x->plan.kubelet_base, "imageServiceEndpoint"),
                             missing ? NULL : endpoint));
        if (!missing)
            assert_string_equal(nc_value_string(nc_value_path(x->plan.containerd.soci_config,
                                                              "cri_keychain.image_service_path")),
                                "/run/other.sock");
        fixture_free(x);
    }
}

static void test_fast_image_pull_without_snapshotter(void **state) {
    static const char gate[] = "  featureGates: {FastImagePull: true}\n";
    static const char warn[] = "---\napiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\n"
                               "spec: {bootstrap: {unsupported: warn}}\n";

    (void)state;
    for (int is_allowed = 0; is_allowed < 2; is_allowed++) {
        struct fixture *x = host_with("2.1.4");
        nc_auto_free char *more = nc_asprintf("%s%s", gate, is_allowed ? warn : "");
        x->facts.cpus = 8;
        x->facts.mem_total_bytes = (int64_t)64 << 30;
        x->facts.has_soci_snapshotter = false;
        add_more(x, more);
        if (!is_allowed) {
            fixture_refused(x, NC_ERR_CONFIG,
                            "spec.featureGates.FastImagePull: is not supported: "
                            "this host has no soci-snapshotter.service");
            fixture_free(x);
            continue;
        }
        fixture_plan(x);
        assert_warned(x, "FastImagePull: is not supported", true);
        assert_int_equal(x->plan.unsupported.n, 1);
        assert_null(x->plan.containerd.soci_config);
        assert_null(nc_value_get(x->plan.kubelet_base, "imageServiceEndpoint"));
        fixture_free(x);
    }
}

/* The EKS AMI has its image in containerd, and no archive: that is for who makes an image to check.
 */
static void test_pause_image(void **state) {
    struct fixture *x = host_with("2.1.4");

    (void)state;
    x->facts.has_pause_archive = false;
    add_more(x, "");
    fixture_plan(x);
    assert_warned(x, "pause", false);
    assert_true(nc_containerd_needs_pause_archive(&x->plan.containerd));
    fixture_free(x);
}

static void test_other_pause_image(void **state) {
    static const struct {
        const char *toml;
        bool needs_archive;
    } rows[] = {
        {"[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'example/pause'", false},
        {"[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = 'example/pause'", false},
        {"[plugins.'io.containerd.cri.v1.images'.pinned_images]\n"
         "sandbox = 'localhost/kubernetes/pause:latest'",
         true},
        {"# sandbox_image\n[plugins.'io.containerd.cri.v1.images'.pinned_images]", true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = host_with("2.1.4");
        add_toml(x, rows[i].toml);
        fixture_plan(x);
        if (nc_containerd_needs_pause_archive(&x->plan.containerd) != rows[i].needs_archive)
            fail_msg("%s", rows[i].toml);
        fixture_free(x);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_other_containerds),
        cmocka_unit_test(test_not_there),
        cmocka_unit_test(test_runtime_and_devices),
        cmocka_unit_test(test_merged_key_by_key),
        cmocka_unit_test(test_origin_of_version),
        cmocka_unit_test(test_keys_by_version),
        cmocka_unit_test(test_ignored_keys),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_types_of_keys),
        cmocka_unit_test(test_folders_of_hosts),
        cmocka_unit_test(test_texts_of_two_versions),
        cmocka_unit_test(test_long_keys),
        cmocka_unit_test(test_base_spec),
        cmocka_unit_test(test_fast_image_pull),
        cmocka_unit_test(test_fast_image_pull_without_snapshotter),
        cmocka_unit_test(test_pause_image),
        cmocka_unit_test(test_other_pause_image),
    };

    return run_group(tests, NULL, NULL);
}
