/*
 * Each field of a NodeConfig, and of kubelet's configuration in it, is honoured, refused by name,
 * or ignored for a reason: none is unknown. A field that the schema gets and these tables do not
 * have is a failure here.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/fileset.h"
#include "plan-fixture.h"
#include "schema.h"

enum outcome {
    HONOURED, /* another plan, or other files */
    REFUSED,  /* says of `why` */
    IGNORED,  /* a warning with the reason */
    SILENT,   /* what every object has and nobody means anything by */
};

/* `text` stands in the flow map of spec, or of the document where the path begins without it. */
static const struct row {
    const char *path, *text;
    enum outcome outcome;
    const char *why;
} rows[] = {
    {"metadata", "metadata: {name: x, labels: {a: b}}", SILENT, NULL},
    {"status", "status: {instance: {id: i-1}}", IGNORED, "the node finds this out itself"},
    {"spec.cluster.name", "cluster: {name: other}", REFUSED, "names 'my-cluster'"},
    {"spec.cluster.name", "cluster: {name: my-cluster}", SILENT, NULL}, /* the same */
    {"spec.cluster.apiServerEndpoint", "cluster: {apiServerEndpoint: https://other.example.com}",
     HONOURED, NULL},
    {"spec.cluster.certificateAuthority", "cluster: {certificateAuthority: b3RoZXI=}", REFUSED,
     "is base64, but of no PEM file of certificates"},
    {"spec.cluster.certificateAuthority",
     "cluster: {certificateAuthority: '"
     "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo='}",
     HONOURED, NULL},
    {"spec.cluster.cidr", "cluster: {cidr: 172.20.0.0/16}", HONOURED, NULL},
    {"spec.cluster.enableOutpost", "cluster: {enableOutpost: true}", REFUSED,
     "local clusters on AWS Outposts are not supported"},
    {"spec.cluster.id", "cluster: {id: x}", IGNORED,
     "only local clusters on AWS Outposts have one"},
    {"spec.containerd.config", "containerd: {config: 'oom_score = -5'}", HONOURED, NULL},
    {"spec.containerd.baseRuntimeSpec", "containerd: {baseRuntimeSpec: {process: {umask: 23}}}",
     HONOURED, NULL},
    {"spec.instance.localStorage.strategy", "instance: {localStorage: {strategy: RAID0}}", HONOURED,
     NULL},
    {"spec.instance.localStorage.mountPath",
     "instance: {localStorage: {strategy: Mount, mountPath: /mnt/x}}", HONOURED, NULL},
    {"spec.instance.localStorage.disabledMounts",
     "instance: {localStorage: {strategy: RAID0, disabledMounts: [SOCI]}}", HONOURED, NULL},
    {"spec.instance.environment", "instance: {environment: {default: {A: b}}}", HONOURED, NULL},
    {"spec.instance.network.nameservers", "instance: {network: {nameservers: [10.0.0.2]}}",
     HONOURED, NULL},
    {"spec.instance.network.domains", "instance: {network: {domains: [example.com]}}", HONOURED,
     NULL},
    {"spec.kubelet.config", "kubelet: {config: {maxPods: 7}}", HONOURED, NULL},
    {"spec.kubelet.flags", "kubelet: {flags: [--v=3]}", HONOURED, NULL},
    {"spec.kubelet.maxPodsExpression", "kubelet: {maxPodsExpression: max_pods + 1}", HONOURED,
     NULL},
    {"spec.featureGates", "featureGates: {InstanceIdNodeName: true}", HONOURED, NULL},
    {"spec.featureGates", "featureGates: {FastImagePull: true}", HONOURED, NULL},
    {"spec.featureGates", "featureGates: {Another: true}", REFUSED, "unknown key"},
    {"spec.instance.localStorage.strategy", "instance: {localStorage: {strategy: RAID5}}", REFUSED,
     "must be RAID0, RAID10 or Mount"},
    {"spec.kubelet.maxPodsExpression", "kubelet: {maxPodsExpression: 'size([1])'}", REFUSED,
     "cannot be computed: column 1: unknown name 'size'"},
};

static struct fixture *host(void) {
    struct fixture *x = fixture_new();
    nc_auto_free char *node = node_config("");

    fixture_type(x, "m5d.xlarge", 4);
    x->facts.mem_total_bytes = (int64_t)16 << 30;
    x->facts.local_disks = 1;
    x->facts.local_disk_bytes = (int64_t)150 << 30;
    fixture_set(&x->facts.containerd_version, "2.1.4");
    x->facts.has_soci_snapshotter = x->facts.has_pause_archive = true;
    fixture_document(x, node);
    return x;
}

/* All files, as text. */
static char *files_of(struct fixture *x) {
    const struct nc_render_input in = {.facts = &x->facts,
                                       .config = &x->config,
                                       .plan = &x->plan,
                                       .program = "/usr/sbin/nodeclaimd"};
    nc_cleanup(nc_fileset_done) struct nc_fileset files = NC_FILESET_INIT;
    struct nc_err err = NC_ERR_INIT;
    struct nc_buf text = NC_BUF_INIT;

    if (nc_render(&in, &files, &err) < 0)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < files.n; i++)
        if (!files.files[i].absent)
            (void)nc_buf_printf(&text, "%s\n%.*s\n", files.files[i].path, (int)files.files[i].n,
                                files.files[i].data);
    return nc_buf_steal(&text);
}

static bool is_warned(const struct fixture *x, const struct row *row) {
    for (size_t i = 0; i < x->docs.n_diags; i++)
        if (nc_streq(x->docs.diags[i].path, row->path)
            && (!row->why || strstr(x->docs.diags[i].message, row->why)))
            return true;
    return false;
}

/* NULL, or how it differs from what the table says. */
static const char *wrong(const struct row *row, const char *before) {
    const bool in_spec = nc_starts_with(row->path, "spec.");
    nc_auto_free char *text =
        nc_asprintf("{apiVersion: node.eks.aws/v1alpha1, kind: NodeConfig, %s%s%s}",
                    in_spec ? "spec: {" : "spec: {}, ", row->text, in_spec ? "}" : "");
    struct fixture *x = host();
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *after = NULL;
    const char *what = NULL;
    int r;

    fixture_document(x, text);
    r = fixture_try(x, &err);
    if (r >= 0)
        after = files_of(x);
    if (row->outcome == REFUSED)
        what = r < 0 && strstr(err.msg, row->why) ? NULL : "is not refused with these words";
    else if (r < 0)
        what = "is refused";
    else if (row->outcome == HONOURED)
        what = x->docs.n_diags > 0 ? "has a warning" : nc_streq(before, after) ? "does nothing" : 0;
    else if (!nc_streq(before, after))
        what = "does something";
    else if (row->outcome == IGNORED && !is_warned(x, row))
        what = "is ignored without its reason";
    fixture_free(x);
    return what;
}

static void test_node_config(void **state) {
    struct fixture *x = host();
    nc_auto_free char *before = NULL;
    int failures = 0;

    (void)state;
    fixture_plan(x);
    before = files_of(x);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *what = wrong(&rows[i], before);

        if (what)
            print_error("%s (%s): %s\n", rows[i].path, rows[i].text, what);
        failures += what != NULL;
    }
    fixture_free(x);
    assert_int_equal(failures, 0);
}

static bool has_row(const char *path) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (nc_streq(rows[i].path, path))
            return true;
    return false;
}

/* Each field has a row, or is an object whose fields have. */
static int missing_rows(const struct nc_schema *schema, const char *path) {
    int n = 0;

    for (struct nc_field_at at = {0}; nc_schema_next(schema, &at);) {
        nc_auto_free char *below = nc_asprintf("%s%s%s", path, *path ? "." : "", at.name);

        if (nc_streq(below, "apiVersion") || nc_streq(below, "kind") || has_row(below))
            continue;
        if (at.field->type == NC_FIELD_OBJECT) {
            n += missing_rows(at.field->object, below);
            continue;
        }
        print_error("%s: no row\n", below);
        n++;
    }
    return n;
}

static void test_no_field_is_unknown(void **state) {
    (void)state;
    assert_int_equal(missing_rows(&nc_schema_node_config, ""), 0);
}

/* --- kubelet's own */

/* What kubelet's rules across fields ask beside it, or a value that the type alone does not give.
 */
static const struct {
    const char *field, *text;
} values[] = {
    {"clusterDNS", "clusterDNS: [10.0.0.1]"},
    {"kubeReserved", "kubeReserved: {cpu: 100m}"},
    {"systemReserved", "systemReserved: {cpu: 100m}"},
    {"qosReserved", "qosReserved: {memory: 50%}"},
    {"evictionHard", "evictionHard: {memory.available: 5%}"},
    {"evictionSoft",
     "evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: 30s}"},
    {"evictionSoftGracePeriod",
     "evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: 30s}"},
    {"evictionMinimumReclaim", "evictionMinimumReclaim: {memory.available: 100Mi}"},
    {"registerWithTaints", "registerWithTaints: [{key: a, effect: NoSchedule}]"},
};

static char *kubelet_value(const struct nc_field_at *at) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(values); i++)
        if (nc_streq(values[i].field, at->name))
            return nc_strdup(values[i].text);
    switch (at->field->type) {
    case NC_FIELD_STRING:
        return nc_asprintf("%s: '%s'", at->name,
                           nc_field_allowed(at->field) ? nc_field_allowed(at->field) : "x");
    case NC_FIELD_BOOL:
        return nc_asprintf("%s: true", at->name);
    case NC_FIELD_INT:
        return nc_asprintf("%s: 5", at->name);
    case NC_FIELD_NUMBER:
        return nc_asprintf("%s: 0.5", at->name);
    case NC_FIELD_DURATION:
    case NC_FIELD_FREQUENCY:
        return nc_asprintf("%s: 40s", at->name);
    case NC_FIELD_STRINGS:
    case NC_FIELD_INTS:
    case NC_FIELD_OBJECTS:
        return nc_asprintf("%s: []", at->name);
    case NC_FIELD_ANY:
    case NC_FIELD_QUANTITY:
        return nc_asprintf("%s: 1", at->name);
    case NC_FIELD_STRING_MAP:
    case NC_FIELD_QUANTITY_MAP:
    case NC_FIELD_BOOL_MAP:
    case NC_FIELD_OBJECT:
    case NC_FIELD_MAP:
        break;
    }
    return nc_asprintf("%s: {}", at->name);
}

/* Reaches kubelet as it stands, or is refused: nothing that a user writes is lost on the way. What
 * kubelet itself refuses in this company is refused here with its name. */
static bool is_kubelet_field_clear(const struct nc_field_at *at) {
    nc_auto_free char *value = kubelet_value(at);
    nc_auto_free char *kubelet = nc_asprintf("    config: {%s}\n", value);
    nc_auto_free char *text = node_config(kubelet);
    struct fixture *x = fixture_new();
    struct nc_err err = NC_ERR_INIT;
    int r;
    bool is_clear;

    fixture_document(x, text);
    r = fixture_try(x, &err);
    if (r < 0)
        is_clear = strstr(err.msg, at->name) != NULL;
    else
        is_clear = x->docs.n_diags == 0 && nc_value_get(x->plan.kubelet_dropin, at->name)
                   && nc_value_get(x->plan.kubelet_effective, at->name);
    if (!is_clear)
        print_error("%s: %s%s\n", value, r < 0 ? "refused: " : "accepted and lost", err.msg);
    fixture_free(x);
    return is_clear;
}

static void test_kubelet_config(void **state) {
    int failures = 0;

    (void)state;
    for (struct nc_field_at at = {0}; nc_schema_next(&nc_schema_kubelet, &at);)
        failures += !is_kubelet_field_clear(&at);
    assert_int_equal(failures, 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_config),
        cmocka_unit_test(test_no_field_is_unknown),
        cmocka_unit_test(test_kubelet_config),
    };

    return run_group(tests, NULL, NULL);
}
