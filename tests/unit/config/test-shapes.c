/*
 * Shapes: for each predicate texts that have the shape and texts that have not.
 */
#include "documents-test.h"
#include "groups.h"
#include "shapes.h"

struct row {
    const char *name;
    bool (*shape)(const char *);
    const char *good[10];
    const char *bad[14];
};

static const struct row rows[] = {
    {"instance id",
     nc_shape_instance_id,
     {"i-01234567", "i-0bb8a7e6111d45591"},
     {"i-0123456", "i-0123456789abcdef01", "i-0123456G", "j-01234567", "i-01234567 ", ""}},
    {"instance type",
     nc_shape_instance_type,
     {"m5.large", "u-6tb1.112xlarge", "c8g.metal-24xl", "mac2-m2pro.metal", "bmn-sf1.metal"},
     {"m5", "m5.", ".large", "m5.large.x", "M5.large", "5m.large", "m5-.large", "m5.-large",
      "m5 .large", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.x"}},
    {"region",
     nc_shape_region,
     {"us-west-2", "us-gov-east-1", "us-isob-east-1", "ap-northeast-1"},
     {"us-west-2a", "uswest2", "US-west-2", "2us-1", "us-west-", ""}},
    {"zone",
     nc_shape_zone,
     {"us-west-2a", "us-west-2-lax-1a", "us-east-1-wl1-bos-wlz-1", "us-gov-west-1b"},
     {"us-west-aa", "uswest2a", "", "a"}},
    {"zone id", nc_shape_zone_id, {"usw2-az1", "use1-bos1-az1"}, {"usw2", "usw2-az", ""}},
    {"MAC",
     nc_shape_mac,
     {"06:12:34:56:78:9a"},
     {"06:12:34:56:78:9", "06:12:34:56:78:9g", "06.12.34.56.78.9a"}},
    {"IPv4",
     nc_shape_ipv4,
     {"10.0.0.1", "0.0.0.0"},
     {"10.0.0", "10.0.0.256", "010.0.0.1", " 10.0.0.1", "::1"}},
    {"IPv6", nc_shape_ipv6, {"::1", "fd00:ec2::254"}, {"10.0.0.1", "fd00::g", "fe80::1%eth0"}},
    {"IP", nc_shape_ip, {"10.0.0.1", "::1"}, {"x", ""}},
    {"CIDR",
     nc_shape_cidr,
     {"10.100.0.0/16", "0.0.0.0/0", "10.100.5.7/16", "10.0.0.0/32", "fd00::/108", "::/128"},
     {"hello", "10.100.0.0", "10.100.0.0/33", "10.100.0.0/", "10.100.0.0/-1", "10.100.0.0/1x",
      "fd00::/129", "/16", "10.100.0.0/0016", "10.100.0.0/16/16",
      "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee:ffff/1"}},
    {"domain",
     nc_shape_domain,
     {"a", "A.example", "ip-10-0-0-1.ec2.internal", "1.2"},
     {"", ".", "a.", ".a", "a..b", "-a", "a-", "a.-b", "a_b", "a b",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    {"instance's host name",
     nc_shape_instance_hostname,
     {"ip-10-0-0-1", "ip-10-0-0-1.ec2.internal", "ip-10-0-0-1.Corp_x.", "i-0123.a,b"},
     {"", ".", ".a", "a..b", "-a", "a_b", "a_b.c", "<html>", "a.b c", "a.\xc3\xa4",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b"}},
    {"node name", nc_shape_node_name, {"i-0123", "ip-10-0-0-1.ec2.internal"}, {"A", "a/b", ""}},
    {"role", nc_shape_role_name, {"Node_Role+=,.@-1"}, {"", "a/b", "a b", "\xc3\xa4"}},
    {"https URL",
     nc_shape_https_url,
     {"https://a", "https://a.b:443", "https://[fd00::1]", "https://[fd00::1]:6443/x",
      "https://a/b/c-d_e~%20"},
     {"http://a", "https://", "https://a:", "https://a:0", "https://a:65536", "https://a:x",
      "https://u@a", "https://a?b", "https://[fd00::1", "https://[x]", "https://[fd00::1]x",
      "https://a/\n", "a", "https://a:123456"}},
    {"URL", nc_shape_url, {"http://127.0.0.1:5000", "https://a"}, {"ftp://a", "//a"}},
    {"label key",
     nc_shape_qualified_name,
     {"a", "A.b_c-d", "example.com/x", "node.kubernetes.io/instance-type"},
     {"", "/a", "a/", "a/b/c", "-a", "a-", "Example.com/x", "a b", "example..com/x",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    {"label value",
     nc_shape_label_value,
     {"", "a", "A.b_c-d", "1"},
     {"-", "a/b", "a ", "\xc3\xa4"}},
    {"bootstrap token",
     nc_shape_bootstrap_token,
     {"abcdef.0123456789abcdef"},
     {"abcdef-0123456789abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", ""}},
    {"absolute path",
     nc_shape_absolute_path,
     {"/", "/a/b", "/a/..b", "/a..", "/.a"},
     {"", "a", "/a/..", "/../a", "/a\n", "/\x7f"}},
};

static void shapes(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        assert_false(rows[i].shape(NULL));
        for (size_t j = 0; j < NC_ARRAY_SIZE(rows[i].good) && rows[i].good[j]; j++)
            if (!rows[i].shape(rows[i].good[j]))
                fail_msg("%s: '%s' is refused", rows[i].name, rows[i].good[j]);
        for (size_t j = 0; j < NC_ARRAY_SIZE(rows[i].bad) && rows[i].bad[j]; j++)
            if (rows[i].shape(rows[i].bad[j]))
                fail_msg("%s: '%s' is taken", rows[i].name, rows[i].bad[j]);
    }
}

static void words(void **state) {
    (void)state;
    assert_true(nc_shape_token("aws-cn", 6));
    assert_false(nc_shape_token("aws-cn", 5));
    assert_false(nc_shape_token("", 5));
    assert_false(nc_shape_token(NULL, 5));
}

/* Every name of the table of instance types has the shape of one. */
static void all_instance_types(void **state) {
    const char *source = getenv("NC_SRCDIR");
    nc_auto_free char *path = nc_asprintf("%s/data/instance-types.tsv", source ? source : ".");
    FILE *f = fopen(path, "re");
    char line[256];
    size_t n = 0;

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\t\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0' || nc_streq(line, "type"))
            continue;
        if (!nc_shape_instance_type(line))
            fail_msg("'%s' is refused", line);
        n++;
    }
    fclose(f);
    assert_true(n > 1000);
}

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END "-----END CERTIFICATE-----\n"

static void pem(void **state) {
    static const char *const good[] = {
        CA_PEM, CA_PEM CA_PEM, "# mine\r\n-----BEGIN CERTIFICATE-----\r\nMIIB\r\nMIIB\r\n" END,
        BEGIN "MIIB\n-----END CERTIFICATE-----"};
    static const char *const bad[] = {
        "",
        "ca-bundle\n",
        BEGIN,
        BEGIN "MIIB\n",
        BEGIN END,
        BEGIN "M!\n" END,
        END BEGIN,
        "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n",
        CA_PEM BEGIN "MIIB\n"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(good); i++)
        if (!nc_shape_pem_certificates(good[i], strlen(good[i])))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad); i++)
        if (nc_shape_pem_certificates(bad[i], strlen(bad[i])))
            fail_msg("%s", bad[i]);
    assert_false(nc_shape_pem_certificates("x\0\n" CA_PEM, 3 + strlen(CA_PEM)));
}

static void pem_too_long(void **state) {
    size_t n = (size_t)80 << 10;
    nc_auto_free char *body = nc_malloc(n + 1);
    nc_auto_free char *text = NULL;

    (void)state;
    memset(body, 'A', n);
    body[n] = '\0';
    text = nc_asprintf(BEGIN "%s\n" END, body);
    assert_false(nc_shape_pem_certificates(text, strlen(text)));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(words),
        cmocka_unit_test(all_instance_types),
        cmocka_unit_test(pem),
        cmocka_unit_test(pem_too_long),
    };

    return run_group(tests, NULL, NULL);
}
