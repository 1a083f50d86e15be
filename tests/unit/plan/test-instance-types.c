/*
 * The instance table: every row of the TSV comes back as it was written, a file on the AMI comes
 * first, nonsense is no type.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/file.h"
#include "nc/plan.h"
#include "nc/str.h"

#include "planner.h"

static struct nc_buf table = NC_BUF_INIT;

static int load(void **state) {
    const char *source = getenv("NC_SRCDIR");
    nc_auto_free char *path = nc_asprintf("%s/data/instance-types.tsv", source ? source : ".");

    (void)state;
    return nc_file_read(path, 4 << 20, &table, NULL);
}

static int unload(void **state) {
    (void)state;
    nc_buf_done(&table);
    return 0;
}

static int64_t number(const char *text) {
    return nc_streq(text, "-") ? -1 : strtoll(text, NULL, 10);
}

static const char *word(const char *text) {
    return nc_streq(text, "-") ? "" : text;
}

static void test_every_row(void **state) {
    nc_auto_free char *copy = nc_strdup(table.data);
    unsigned rows = 0;

    (void)state;
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        struct nc_instance_type t;
        char *f[8];
        if (!*line || *line == '#' || nc_starts_with(line, "type\t"))
            continue;
        for (size_t i = 0; i < 8; i++)
            assert_non_null(f[i] = strsep(&line, "\t"));
        if (!nc_instance_type_find(NULL, 0, f[0], &t))
            fail_msg("%s is not found", f[0]);
        assert_string_equal(t.name, f[0]);
        assert_int_equal(t.vcpus, number(f[1]));
        assert_int_equal(t.memory_mib, number(f[2]));
        assert_string_equal(t.arch, word(f[3]));
        assert_int_equal(t.enis, number(f[4]));
        assert_int_equal(t.ipv4_per_eni, number(f[5]));
        assert_int_equal(t.branch_enis, number(f[6]));
        assert_string_equal(t.hypervisor, word(f[7]));
        rows++;
    }
    assert_true(rows >= 1400);
}

static void test_unknown(void **state) {
    static const char *const names[] = {
        "",
        ".",
        "m5",
        "m5.",
        ".large",
        "m5.larg",
        "m5.largex",
        "M5.large",
        "m5.large ",
        "m55.large",
        "zzz.large",
        "a.large",
        "m5..large",
        "0.large",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.large"};
    struct nc_instance_type t = {.vcpus = 7};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++)
        if (nc_instance_type_find(NULL, 0, names[i], &t))
            fail_msg("'%s' is found", names[i]);
    assert_false(nc_instance_type_find(NULL, 0, NULL, &t));
    assert_int_equal(t.vcpus, 7);
}

static void test_override(void **state) {
    static const char text[] =
        "# ours\n"
        "type\tvcpus\tmemory_mib\tarch\tenis\tipv4_per_eni\tbranch_enis\thypervisor\r\n"
        "m5.large\t4\t9000\tamd64\t5\t6\t-\tnitro\r\n"
        "x9.huge\t1000\t99999999\tarm64\t8\t30\n"
        "m5.xlarge\tfour\t1\tamd64\t1\t1\t1\tnitro\n"
        "c5.large\t2\t1\tmips\t1\t1\t1\tnitro\n"
        "r5.large\t99999999999\t1\tamd64\t1\t1\t1\tnitro\n"
        "c5.xlarge\t-\t-\t-\t-\t-\t-\t-";
    struct nc_instance_type t;

    (void)state;
    assert_true(nc_instance_type_find(text, strlen(text), "m5.large", &t));
    assert_int_equal(t.vcpus, 4);
    assert_int_equal(t.memory_mib, 9000);
    assert_int_equal(t.enis, 5);
    assert_int_equal(t.branch_enis, -1);
    assert_string_equal(t.hypervisor, "nitro");
    assert_true(nc_instance_type_find(text, strlen(text), "x9.huge", &t));
    assert_int_equal(t.ipv4_per_eni, 30);
    assert_int_equal(t.branch_enis, -1);
    assert_string_equal(t.hypervisor, "");
    assert_int_equal(nc_instance_type_row(text, strlen(text), "m5.xlarge", &t), NC_TYPE_ROW_BAD);
    assert_int_equal(nc_instance_type_row(text, strlen(text), "c5.large", &t), NC_TYPE_ROW_BAD);
    assert_int_equal(nc_instance_type_row(text, strlen(text), "r5.large", &t), NC_TYPE_ROW_BAD);
    assert_int_equal(nc_instance_type_row(text, strlen(text), "t3.nano", &t), NC_TYPE_ROW_NONE);
    assert_int_equal(nc_instance_type_row(text, strlen(text), "c5.xlarge", &t), NC_TYPE_ROW_FOUND);
    assert_int_equal(t.vcpus, -1);
    /* a row that cannot be read leaves the built-in one in force, and so does a file without the
     * type */
    assert_true(nc_instance_type_find(text, strlen(text), "m5.xlarge", &t));
    assert_int_equal(t.vcpus, 4);
    assert_int_equal(t.memory_mib, 16384);
    assert_true(nc_instance_type_find(text, strlen(text), "t3.nano", &t));
    assert_int_equal(t.memory_mib, 512);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_override),
    };

    return run_group(tests, load, unload);
}
