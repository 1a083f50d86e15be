/*
 * Facts: each answer of IMDS, good and bad, host.json both ways, kubelet's version.
 */
#include <errno.h>

#include "documents-test.h"
#include "groups.h"
#include "nc/facts.h"

#define IDENTITY                                                                                   \
    "{\"accountId\": \"123456789012\", \"architecture\": \"x86_64\", \"availabilityZone\": "       \
    "\"us-west-2a\", "                                                                             \
    "\"imageId\": \"ami-0123456789abcdef0\", \"instanceId\": \"i-0bb8a7e6111d45591\", "            \
    "\"instanceType\": \"m5.large\", "                                                             \
    "\"kernelId\": null, \"region\": \"us-west-2\", \"version\": \"2017-09-30\"}"

static int take(struct nc_facts *f, enum nc_imds_item item, const char *body, struct nc_err *err) {
    return nc_facts_parse_imds(f, item, body, strlen(body), err);
}

static void questions(void **state) {
    (void)state;
    for (size_t i = 0; i < _NC_IMDS_ITEM_MAX; i++) {
        const struct nc_imds_question *q = &nc_imds_questions[i];

        assert_non_null(q->path);
        assert_true(nc_starts_with(q->path, "/latest/"));
        assert_true(q->max_bytes > 0);
    }
}

static void identity(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(take(&f, NC_IMDS_IDENTITY, IDENTITY, &err), 0);
    assert_string_equal(f.instance_id, "i-0bb8a7e6111d45591");
    assert_string_equal(f.instance_type, "m5.large");
    assert_string_equal(f.region, "us-west-2");
    assert_string_equal(f.az, "us-west-2a");
    assert_string_equal(f.architecture, "x86_64");
}

#define ID4(id, type, region, zone)                                                                \
    "{\"instanceId\": " id ", \"instanceType\": " type ", \"region\": " region                     \
    ", \"availabilityZone\": " zone "}"

static const struct {
    const char *body;
    const char *error;
} identity_rows[] = {
    {"<html>oops</html>", "/latest/dynamic/instance-identity/document: "},
    {"", "/latest/dynamic/instance-identity/document: "},
    {"[]", "JSON, but not an object"},
    {"{}", "no \"instanceId\" in it"},
    {ID4("\"i-zz\"", "\"m5.large\"", "\"us-west-2\"", "\"us-west-2a\""),
     "instanceId: 'i-zz' is not an instance id"},
    {ID4("null", "\"m5.large\"", "\"us-west-2\"", "\"us-west-2a\""),
     "instanceId: invalid value: not a string"},
    {ID4("7", "\"m5.large\"", "\"us-west-2\"", "\"us-west-2a\""),
     "instanceId: invalid value: not a string"},
    {ID4("\"i-01234567\"", "\"m5\"", "\"us-west-2\"", "\"us-west-2a\""),
     "instanceType: 'm5' is not"},
    {ID4("\"i-01234567\"", "\"m5.large\"", "\"mars\"", "\"us-west-2a\""), "region: 'mars' is not"},
    {ID4("\"i-01234567\"", "\"m5.large\"", "\"us-west-2\"", "\"us-west-2/a\""),
     "availabilityZone: 'us-west-2/a' is not"},
    {ID4("\"i-01234567\"", "\"m5.large\"", "\"us-west-2\"", "\"eu-west-1a\""),
     "zone eu-west-1a is not in region us-west-2"},
};

static void identity_refused(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err good = NC_ERR_INIT;

    (void)state;
    assert_int_equal(take(&f, NC_IMDS_IDENTITY, IDENTITY, &good), 0);
    for (size_t i = 0; i < NC_ARRAY_SIZE(identity_rows); i++) {
        struct nc_err err = NC_ERR_INIT;

        assert_true(take(&f, NC_IMDS_IDENTITY, identity_rows[i].body, &err) < 0);
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
        if (!strstr(err.msg, identity_rows[i].error))
            fail_msg("row %zu: %s", i, err.msg);
        assert_string_equal(f.instance_id, "i-0bb8a7e6111d45591");
        assert_string_equal(f.az, "us-west-2a");
    }
}

/* What a node can do without: another shape of it is noted, and no more. */
static void identity_unusual(void **state) {
    static const char body[] =
        "{\"instanceId\": \"i-01234567\", \"instanceType\": \"m5.large\", \"region\": "
        "\"us-west-2\", \"availabilityZone\": \"us-west-2a\", \"accountId\": \"'012'\", "
        "\"imageId\": 7, \"architecture\": \"vax\"}";
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(take(&f, NC_IMDS_IDENTITY, body, &err), 0);
    assert_string_equal(f.instance_id, "i-01234567");
    assert_null(f.architecture);
    assert_int_equal(f.unusual.n, 1);
    assert_string_equal(f.unusual.v[0],
                        "imds: /latest/dynamic/instance-identity/document: architecture: 'vax' is "
                        "not an architecture such as x86_64, ignored");
}

#define FIELD(f) offsetof(struct nc_facts, f)

static const struct {
    enum nc_imds_item item;
    const char *body;
    size_t field;
    const char *fact; /* NULL: refused */
} text_rows[] = {
    {NC_IMDS_MAC, "06:12:34:56:78:9a", FIELD(mac), "06:12:34:56:78:9a"},
    {NC_IMDS_MAC, "06:12:34:56:78:9a/\n", FIELD(mac), NULL},
    {NC_IMDS_MAC, "06-12-34-56-78-9a", FIELD(mac), NULL},
    {NC_IMDS_MAC, "06:12:34:56:78:9A", FIELD(mac), NULL},
    {NC_IMDS_MAC, "06:12:34:56:78", FIELD(mac), NULL},
    {NC_IMDS_MAC, "", FIELD(mac), NULL},
    {NC_IMDS_LOCAL_IPV4, "10.0.0.1\n", FIELD(local_ipv4), "10.0.0.1"},
    {NC_IMDS_LOCAL_IPV4, "10.0.0.256", FIELD(local_ipv4), NULL},
    {NC_IMDS_LOCAL_IPV4, "fd00::1", FIELD(local_ipv4), NULL},
    {NC_IMDS_LOCAL_HOSTNAME, "ip-10-0-0-1.us-west-2.compute.internal", FIELD(local_hostname),
     "ip-10-0-0-1.us-west-2.compute.internal"},
    {NC_IMDS_LOCAL_HOSTNAME, "ip-10-0-0-1.a.example ip-10-0-0-1.b.example\n", FIELD(local_hostname),
     "ip-10-0-0-1.a.example"},
    {NC_IMDS_LOCAL_HOSTNAME, "ip-10-0-0-1", FIELD(local_hostname), "ip-10-0-0-1"},
    {NC_IMDS_LOCAL_HOSTNAME, "ip-10-0-0-1.ad_corp.example", FIELD(local_hostname),
     "ip-10-0-0-1.ad_corp.example"}, /* the VPC's DHCP domain is whatever somebody typed */
    {NC_IMDS_LOCAL_HOSTNAME, "ip-10-0-0-1.corp.example.", FIELD(local_hostname),
     "ip-10-0-0-1.corp.example."},
    {NC_IMDS_LOCAL_HOSTNAME, "ip-10-0-0-1.a.example, b.example", FIELD(local_hostname),
     "ip-10-0-0-1.a.example,"},
    {NC_IMDS_LOCAL_HOSTNAME, "<html>", FIELD(local_hostname), NULL},
    {NC_IMDS_LOCAL_HOSTNAME, "ip_10.a.example", FIELD(local_hostname), NULL},
    {NC_IMDS_LOCAL_HOSTNAME, ".a.example", FIELD(local_hostname), NULL},
    {NC_IMDS_LOCAL_HOSTNAME, "a..b", FIELD(local_hostname), NULL},
    {NC_IMDS_LOCAL_HOSTNAME, "-a", FIELD(local_hostname), NULL},
    {NC_IMDS_AZ_ID, "usw2-az1", FIELD(az_id), "usw2-az1"},
    {NC_IMDS_AZ_ID, "usw2-lax1-az2", FIELD(az_id), "usw2-lax1-az2"},
    {NC_IMDS_AZ_ID, "usw2 az1", FIELD(az_id), NULL},
    {NC_IMDS_DOMAIN, "amazonaws.com.cn", FIELD(domain), "amazonaws.com.cn"},
    {NC_IMDS_DOMAIN, "amazonaws.com/x", FIELD(domain), NULL},
    {NC_IMDS_TARGET_STATE, "Warmed:Stopped\n", FIELD(target_state), "Warmed:Stopped"},
    {NC_IMDS_ROLE, "node-role\nother\n", FIELD(role), "node-role"},
    {NC_IMDS_ROLE, "node/role", FIELD(role), NULL},
    {NC_IMDS_IPV6S, "fd00:ec2::1\nfd00:ec2::2", FIELD(ipv6), "fd00:ec2::1"},
    {NC_IMDS_IPV6S, "fd00:ec2::1::2", FIELD(ipv6), NULL},
    {NC_IMDS_IPV6S, "10.0.0.1", FIELD(ipv6), NULL},
    {NC_IMDS_MAC, "\xff\xff", FIELD(mac), NULL},
};

static void texts(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(text_rows); i++) {
        nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
        struct nc_err err = NC_ERR_INIT;
        int r = take(&f, text_rows[i].item, text_rows[i].body, &err);
        char **field = (char **)(void *)((char *)&f + text_rows[i].field);

        print_message("# row %zu: %s\n", i, nc_imds_questions[text_rows[i].item].path);
        if (text_rows[i].fact) {
            assert_int_equal(r, 0);
            assert_string_equal(*field, text_rows[i].fact);
        } else {
            assert_int_equal(r, -EBADMSG);
            assert_int_equal(err.class, NC_ERR_PROTOCOL);
            assert_true(nc_starts_with(err.msg, nc_imds_questions[text_rows[i].item].path));
            assert_null(*field);
        }
    }
}

static void answer_with_nul(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_facts_parse_imds(&f, NC_IMDS_LOCAL_IPV4, "10.0.0.1\0x", 10, &err),
                     -EBADMSG);
}

static void answer_too_long(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    char body[65];

    (void)state;
    memset(body, ' ', sizeof(body));
    assert_int_equal(nc_facts_parse_imds(&f, NC_IMDS_MAC, body, sizeof(body), &err), -EFBIG);
    assert_string_equal(err.msg, "/latest/meta-data/mac: 65 bytes, at most 64 are expected");
}

static void not_facts(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(take(&f, NC_IMDS_USER_DATA, "x", &err), -EINVAL);
    assert_int_equal(take(&f, NC_IMDS_CREDENTIALS, "x", &err), -EINVAL);
    assert_int_equal(take(&f, _NC_IMDS_ITEM_MAX, "x", &err), -EINVAL);
    assert_int_equal(err.class, NC_ERR_BUG);
}

static void purchase_options(void **state) {
    static const char *const names[] = {"on-demand", "spot", "scheduled", "capacity-block"};
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++) {
        assert_int_equal(take(&f, NC_IMDS_PURCHASE_OPTION, names[i], &err), 0);
        assert_int_equal(f.purchase_option, i + 1);
        assert_string_equal(nc_purchase_option_name(f.purchase_option), names[i]);
    }
    assert_int_equal(take(&f, NC_IMDS_PURCHASE_OPTION, "of-tomorrow", &err), 0);
    assert_int_equal(f.purchase_option, NC_PURCHASE_UNKNOWN);
    assert_string_equal(nc_purchase_option_name(f.purchase_option), "unknown");
    assert_int_equal(take(&f, NC_IMDS_PURCHASE_OPTION, "{}", &err), -EBADMSG);
}

#define HOST                                                                                       \
    "{\n  \"cpus\": 2,\n  \"mem_total_bytes\": 8000000000,\n  \"root_fs_bytes\": 21462233088,\n"   \
    "  \"kubelet_version\": \"v1.34.4\",\n  \"boot_id\": "                                         \
    "\"0c5ad35a-2b4e-4f54-8f1d-0b1c6e0f8f11\",\n"                                                  \
    "  \"hostname\": \"ip-10-0-0-1\",\n  \"logind_inhibit_delay_usec\": 30000000,\n"               \
    "  \"ecr_credential_provider_dir\": \"/etc/eks\",\n"                                           \
    "  \"containerd_version\": \"1.6.20~ds1\",\n  \"ecr_folder_empty\": true,\n"                   \
    "  \"has_nvidia\": true,\n"                                                                    \
    "  \"has_nvidia_runtime\": true,\n  \"has_pause_archive\": false,\n"                           \
    "  \"has_soci_snapshotter\": true,\n"                                                          \
    "  \"local_disks\": 2,\n  \"local_disk_bytes\": 150000000000,\n"                               \
    "  \"environment_services\": [\n    \"default\",\n    \"my@x\"\n  ],\n"                        \
    "  \"sysctls\": {\n    \"kernel.panic\": \"10\"\n  }\n}\n"

static void host_json(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(nc_facts_parse_host_json(&f, HOST, strlen(HOST), &err), 0);
    assert_int_equal(f.cpus, 2);
    assert_int_equal(f.mem_total_bytes, 8000000000);
    assert_int_equal(f.root_fs_bytes, 21462233088);
    assert_int_equal(f.logind_inhibit_delay_usec, 30000000);
    assert_string_equal(f.kubelet_version, "v1.34.4");
    assert_string_equal(f.hostname, "ip-10-0-0-1");
    assert_string_equal(f.containerd_version, "1.6.20~ds1");
    assert_true(f.is_ecr_folder_empty && f.has_nvidia && f.has_nvidia_runtime
                && f.has_soci_snapshotter);
    assert_false(f.has_pause_archive);
    assert_true(f.has_ecr_credential_provider);
    assert_int_equal(f.local_disks, 2);
    assert_int_equal(f.local_disk_bytes, 150000000000);
    assert_int_equal(f.environment_services.n, 2);
    assert_string_equal(f.environment_services.v[1], "my@x");
    assert_int_equal(f.n_sysctls, 1);
    assert_string_equal(f.sysctls[0].name, "kernel.panic");
    nc_facts_write_host_json(&f, &out);
    assert_string_equal(out.data, HOST);
}

/* Unknown keys, nulls and absent keys leave the facts as they were; sysctls may be numbers. */
static void host_json_lenient(void **state) {
    static const char body[] =
        "{\"colour\": 1, \"cpus\": null, \"hostname\": null, \"has_nvidia\": null, "
        "\"sysctls\": {\"vm.overcommit_memory\": 1}}";
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    f.cpus = 4;
    f.hostname = nc_strdup("kept");
    assert_int_equal(nc_facts_parse_host_json(&f, body, strlen(body), &err), 0);
    assert_int_equal(f.cpus, 4);
    assert_string_equal(f.hostname, "kept");
    assert_string_equal(f.sysctls[0].value, "1");
    assert_false(f.has_ecr_credential_provider);
}

static const struct {
    const char *body;
    const char *error;
} host_rows[] = {
    {"{", "host.json: "},
    {"[]", "host.json: must be an object"},
    {"{\"cpus\": -1}", "host.json: cpus must be an integer"},
    {"{\"local_disks\": \"2\"}", "host.json: local_disks must be an integer"},
    {"{\"environment_services\": \"x\"}", "host.json: environment_services must be a list"},
    {"{\"environment_services\": [\"a/b\"]}", "host.json: environment_services must be a list"},
    {"{\"cpus\": \"2\"}", "host.json: cpus must be an integer"},
    {"{\"mem_total_bytes\": 1.5}", "mem_total_bytes must be"},
    {"{\"root_fs_bytes\": true}", "root_fs_bytes must be"},
    {"{\"logind_inhibit_delay_usec\": \"5s\"}", "logind_inhibit_delay_usec must be"},
    {"{\"boot_id\": \"a\", \"hostname\": \"x\", \"kubelet_version\": \"1\"}",
     "kubelet_version must be"},
    {"{\"kubelet_version\": \"v1.34.4\", \"boot_id\": \"a\\nb\"}",
     "boot_id must be a string of one line"},
    {"{\"boot_id\": \"a\", \"hostname\": \"a b\"}", "hostname must be a host name"},
    {"{\"hostname\": \"x\", \"ecr_credential_provider_dir\": \"etc\"}",
     "ecr_credential_provider_dir must be an absolute path"},
    {"{\"ecr_credential_provider_dir\": \"/a/../b\"}", "must be an absolute path"},
    {"{\"has_nvidia\": 1}", "has_nvidia must be true or false"},
    {"{\"has_pause_archive\": \"yes\"}", "has_pause_archive must be true or false"},
    {"{\"containerd_version\": \"two\"}", "containerd_version must be a containerd version"},
    {"{\"sysctls\": []}", "sysctls must be a map"},
    {"{\"ecr_credential_provider_dir\": \"/a\", \"sysctls\": {\"a\": \"b\", \"c\": {}}}",
     "sysctls must be a map"},
    {"{\"sysctls\": {\"a\": \"\"}}", "sysctls must be a map"},
};

static void host_json_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(host_rows); i++) {
        nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
        struct nc_err err = NC_ERR_INIT;

        assert_true(nc_facts_parse_host_json(&f, host_rows[i].body, strlen(host_rows[i].body), &err)
                    < 0);
        if (!strstr(err.msg, host_rows[i].error))
            fail_msg("row %zu: %s", i, err.msg);
        assert_null(f.boot_id);
        assert_null(f.sysctls);
    }
}

static void host_json_too_long(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    size_t n = (size_t)300 << 10;
    nc_auto_free char *body = nc_malloc(n);
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    memset(body, ' ', n);
    assert_int_equal(nc_facts_parse_host_json(&f, body, n, &err), -EFBIG);
}

static const struct {
    const char *text;
    int minor; /* -1: refused */
    const char *version;
} version_rows[] = {
    {"v1.34.4", 34, "v1.34.4"},
    {"1.28.0", 28, "v1.28.0"},
    {"v1.34.0-eks-abc", 34, "v1.34.0"},
    {"v1.30.1+k3s1", 30, "v1.30.1"},
    {"v1.34.4\n", 34, "v1.34.4"},
    {"Kubernetes v1.31.2", 31, "v1.31.2"},
    {"v2.0.0", -1, NULL},
    {"v1.34", -1, NULL},
    {"v1.34.x", -1, NULL},
    {"v1.34.4x", -1, NULL},
    {"", -1, NULL},
    {"v1.123456.0", -1, NULL},
    {"v1..0", -1, NULL},
    {NULL, -1, NULL},
};

static void versions(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(version_rows); i++) {
        nc_auto_free char *text = NULL;
        unsigned minor = 0;
        int r = nc_kubelet_version_parse(version_rows[i].text, &minor, &text);

        if (version_rows[i].minor < 0) {
            assert_int_equal(r, -EINVAL);
            continue;
        }
        assert_int_equal(r, 0);
        assert_int_equal(minor, version_rows[i].minor);
        assert_string_equal(text, version_rows[i].version);
    }
}

static void containerd_versions(void **state) {
    static const struct {
        const char *text, *version; /* NULL: none */
        unsigned major;
    } rows[] = {{"2.1.4", "2.1.4", 2},
                {"v1.7.27", "1.7.27", 1},
                {"1.6.20~ds1", "1.6.20", 1},
                {"v2.0.0-rc.3+unknown", "2.0.0", 2},
                {"10.0.1", "10.0.1", 10},
                {"2.1", NULL, 0},
                {"2", NULL, 0},
                {"", NULL, 0},
                {"2.1.x", NULL, 0},
                {"2.1.4 (x)", "2.1.4", 2},
                {"vv2.1.4", NULL, 0},
                {"99999.1.1", NULL, 0},
                {"-1.2.3", NULL, 0}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text = NULL;
        unsigned major = 0, minor = 0;
        const int r = nc_containerd_version_parse(rows[i].text, &major, &minor, &text);

        assert_int_equal(r, rows[i].version ? 0 : -EINVAL);
        assert_int_equal(major, rows[i].major);
        assert_true(nc_streq(text, rows[i].version));
    }
    assert_int_equal(nc_containerd_version_parse(NULL, NULL, NULL, NULL), -EINVAL);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions),
        cmocka_unit_test(identity),
        cmocka_unit_test(identity_refused),
        cmocka_unit_test(identity_unusual),
        cmocka_unit_test(texts),
        cmocka_unit_test(answer_with_nul),
        cmocka_unit_test(answer_too_long),
        cmocka_unit_test(not_facts),
        cmocka_unit_test(purchase_options),
        cmocka_unit_test(containerd_versions),
        cmocka_unit_test(host_json),
        cmocka_unit_test(host_json_lenient),
        cmocka_unit_test(host_json_refused),
        cmocka_unit_test(host_json_too_long),
        cmocka_unit_test(versions),
    };

    return run_group(tests, NULL, NULL);
}
