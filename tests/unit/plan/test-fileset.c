/*
 * The set of files: sorted whatever the order of adding, contents taken over, secrets given back.
 */
#include "base-test.h"
#include "groups.h"

#include "fileset-priv.h"
#include "nc/mem.h"

static void add(struct nc_fileset *s, const char *path, mode_t mode, const char *text) {
    struct nc_buf data = NC_BUF_INIT;

    (void)nc_buf_puts(&data, text);
    nc_fileset_add(s, path, mode, &data);
    assert_null(data.data);
    assert_int_equal(data.len, 0);
}

static void test_sorted_by_path(void **state) {
    static const char *const paths[] = {"/b", "/a/z", "/c", "/a", "/a/b", "/a.d/x"};
    static const char *const sorted[] = {"/a", "/a.d/x", "/a/b", "/a/z", "/b", "/c"};
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(paths); i++)
        add(&s, paths[i], 0644, paths[i]);
    assert_int_equal(s.n, NC_ARRAY_SIZE(sorted));
    for (size_t i = 0; i < s.n; i++) {
        assert_string_equal(s.files[i].path, sorted[i]);
        assert_string_equal(s.files[i].data, sorted[i]);
        assert_int_equal(s.files[i].n, strlen(sorted[i]));
        assert_int_equal(s.files[i].mode, 0644);
    }
}

static void test_any_order_gives_the_same(void **state) {
    uint64_t seed = 7;

    (void)state;
    for (int round = 0; round < 200; round++) {
        nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
        for (size_t i = 0; i < 12; i++) {
            char path[16];
            (void)snprintf(path, sizeof(path), "/%03zu", prng_below(&seed, 1000));
            add(&s, path, 0600, "x");
        }
        for (size_t i = 1; i < s.n; i++)
            assert_true(strcmp(s.files[i - 1].path, s.files[i].path) <= 0);
    }
}

static void test_absent_and_empty(void **state) {
    struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    nc_fileset_add_absent(&s, "/gone");
    add(&s, "/empty", 0600, "");
    assert_string_equal(s.files[0].path, "/empty");
    assert_false(s.files[0].absent);
    assert_non_null(s.files[0].data);
    assert_int_equal(s.files[0].n, 0);
    assert_true(s.files[1].absent);
    assert_null(s.files[1].data);
    nc_fileset_done(&s);
    assert_null(s.files);
    nc_fileset_done(&s);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorted_by_path),
        cmocka_unit_test(test_any_order_gives_the_same),
        cmocka_unit_test(test_absent_and_empty),
    };

    return run_group(tests, NULL, NULL);
}
