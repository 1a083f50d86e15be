/*
 * Units and their drop-ins as systemd merges them: which file counts, in which order, what resets.
 */
#include "groups.h"
#include "host-test.h"

#include "image-tree.h"

#define ETC "/etc/systemd/system"
#define USR "/usr/lib/systemd/system"

static void remove_file(const char *path) {
    nc_auto_free char *below = nc_path_below(root, path);

    assert_int_equal(unlink(below), 0);
}

/* The values in force of a key of a.service, separated by "|". */
static void assert_values(const char *key, const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_image_unit u = NC_IMAGE_UNIT_INIT;
    const struct nc_image_line *line;
    struct nc_image_tree t;
    size_t at = 0;

    assert_int_equal(nc_image_tree_open(&t, root, NULL), 0);
    nc_image_unit_read(&t, "a.service", &u);
    (void)nc_buf_puts(&text, "");
    while ((line = nc_image_unit_next(&u, key, &at)))
        (void)nc_buf_printf(&text, "%s%s", text.len ? "|" : "", line->value);
    assert_string_equal(text.data, expected);
    assert_int_equal(t.unreadable.class, NC_ERR_NONE);
    nc_image_unit_done(&u);
    nc_image_tree_close(&t);
}

static void test_lines(void **state) {
    (void)state;
    put(USR "/a.service", "[Unit]\nX=0\n# X=1\n[Service]\n; X=2\n  X = 3  \nX=4 \\\n"
                          "# between\n   5\nX\n[Install]\nX=6");
    assert_values("X", "3|4  5");
    put(USR "/a.service", "[Service]\nX=1\nX=\nX=2\nY=1\nX=\n");
    assert_values("X", "");
    assert_values("Y", "1");
    put(USR "/a.service", "[Service]\nX=1\nX=\nX=2\nX=3\n");
    assert_values("X", "2|3");
    put(USR "/a.service", "[Service]\nX=1\\");
    assert_values("X", "1\\");
}

static void test_dropins(void **state) {
    (void)state;
    put(USR "/a.service", "[Service]\nX=usr\n");
    put(USR "/a.service.d/10-x.conf", "[Service]\nX=10\n");
    assert_values("X", "usr|10");
    put(ETC "/a.service", "[Service]\nX=etc\n"); /* hides the one in /usr */
    assert_values("X", "etc|10");
    put(ETC "/a.service.d/05-y.conf", "[Service]\nX=05\n");
    put("/run/systemd/system/a.service.d/20-z.conf", "[Service]\nX=20\n");
    assert_values("X", "etc|05|10|20");
    put(ETC "/service.d/15-all.conf", "[Service]\nX=15\n");
    assert_values("X", "etc|05|10|15|20");
    put(ETC "/a.service.d/10-x.conf", "[Service]\nX=\n"); /* in place of the one in /usr */
    assert_values("X", "15|20");
    link_to("/dev/null", ETC "/a.service.d/20-z.conf");
    assert_values("X", "15");
}

static void assert_unit(bool is_there, bool is_masked, bool is_enabled) {
    struct nc_image_unit u = NC_IMAGE_UNIT_INIT;
    struct nc_image_tree t;

    assert_int_equal(nc_image_tree_open(&t, root, NULL), 0);
    nc_image_unit_read(&t, "a.service", &u);
    assert_int_equal(u.path != NULL, is_there);
    assert_int_equal(u.is_masked, is_masked);
    assert_int_equal(nc_image_unit_is_enabled(&t, "a.service"), is_enabled);
    nc_image_unit_done(&u);
    nc_image_tree_close(&t);
}

static void test_enabled(void **state) {
    (void)state;
    assert_unit(false, false, false);
    link_to("../a.service", ETC "/b.target.requires/a.service");
    assert_unit(false, false, false); /* a link to nothing */
    put(USR "/a.service", "[Service]\n");
    assert_unit(true, false, true);
    put(ETC "/a.service", "");
    assert_unit(true, true, false);
    remove_file(ETC "/a.service");
    assert_unit(true, false, true);
    link_to("/dev/null", ETC "/a.service");
    assert_unit(true, true, false);
}

static void test_enabled_by_the_image(void **state) {
    (void)state;
    put(USR "/a.service", "[Service]\n");
    link_to("../b.service", ETC "/b.target.wants/b.service");
    link_to("../a.service", ETC "/b.target.d/a.service");
    assert_unit(true, false, false);
    link_to("../a.service", USR "/b.target.wants/a.service");
    assert_unit(true, false, true);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {host_test(test_lines), host_test(test_dropins),
                                       host_test(test_enabled),
                                       host_test(test_enabled_by_the_image)};

    return run_group(tests, NULL, NULL);
}
