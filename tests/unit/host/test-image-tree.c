/*
 * A root that is not trusted: links that would lead out of it, types, sizes, the order of
 * configuration files.
 */
#include "groups.h"
#include "host-test.h"

#include "image-tree.h"

static struct nc_image_tree tree;

static int open_tree(void **state) {
    return make_root(state) < 0 ? -1 : nc_image_tree_open(&tree, root, NULL);
}

static int close_tree(void **state) {
    nc_image_tree_close(&tree);
    return remove_root(state);
}

/* What a path holds: its text, "absent", or "unreadable". */
static void assert_content(const char *path, const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const bool is_read = nc_image_tree_read(&tree, path, &text);
    const bool is_readable = tree.unreadable.class == NC_ERR_NONE;

    assert_string_equal(is_read ? text.data : is_readable ? "absent" : "unreadable", expected);
    assert_int_equal(is_readable, !nc_streq(expected, "unreadable"));
    tree.unreadable = (struct nc_err)NC_ERR_INIT;
}

static void test_links(void **state) {
    nc_auto_free char *target = NULL;

    (void)state;
    put("/etc/inside", "ours");
    link_to("/etc/inside", "/etc/absolute");
    link_to("../../../../../etc/inside", "/etc/dots");
    link_to("/etc/passwd", "/etc/outside"); /* is on this machine, not in the image */
    link_to("/proc/self/root/etc/passwd", "/etc/magic");
    link_to("loop", "/etc/loop");
    assert_content("/etc/inside", "ours");
    assert_content("/etc/absolute", "ours");
    assert_content("/etc/dots", "ours");
    assert_content("/../../etc/inside", "ours");
    assert_content("/etc/outside", "absent");
    assert_content("/etc/magic", "absent");
    assert_content("/etc/loop", "unreadable");
    assert_content("/etc/inside/below", "absent");
    target = nc_image_tree_link(&tree, "/etc/outside");
    assert_string_equal(target, "/etc/passwd");
    assert_null(nc_image_tree_link(&tree, "/etc/inside"));
    assert_null(nc_image_tree_link(&tree, "/etc/none"));
}

static void test_types(void **state) {
    static char large[(1 << 20) + 1];
    nc_auto_free char *fifo = nc_path_below(root, "/fifo");

    (void)state;
    put("/etc/file", "x");
    put_bytes("/etc/nul", "a\0b", 3, 0644);
    memset(large, 'x', sizeof(large));
    put_bytes("/etc/large", large, sizeof(large), 0644);
    assert_int_equal(mkfifo(fifo, 0644), 0);
    assert_content("/etc", "unreadable");
    assert_content("/etc/nul", "unreadable");
    assert_content("/etc/large", "unreadable");
    assert_content("/fifo", "unreadable");
    put_bytes("/bin/program", "\177ELF", 4, 0755);
    put_bytes("/bin/script", "#!/bin/sh", 9, 0755);
    put_bytes("/bin/package", "!<arch>", 7, 0755);
    put_bytes("/bin/data", "\177ELF", 4, 0644);
    assert_true(nc_image_tree_is_program(&tree, "/bin/program"));
    assert_true(nc_image_tree_is_program(&tree, "/bin/script"));
    assert_false(nc_image_tree_is_program(&tree, "/bin/package"));
    assert_false(nc_image_tree_is_program(&tree, "/bin/data"));
    assert_false(nc_image_tree_is_program(&tree, "/etc/file"));
    assert_false(nc_image_tree_is_program(&tree, "/bin"));
    assert_true(nc_image_tree_has(&tree, "/bin"));
    assert_false(nc_image_tree_has(&tree, "/sbin"));
    assert_int_equal(tree.unreadable.class, NC_ERR_NONE);
}

/* Many files of an allowed size are not read without end. */
static void test_total(void **state) {
    static char text[1 << 20];
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    unsigned n = 0;

    (void)state;
    memset(text, 'x', sizeof(text));
    put_bytes("/etc/file", text, sizeof(text), 0644);
    while (n < 1000 && nc_image_tree_read(&tree, "/etc/file", &out)) {
        nc_buf_clear(&out);
        n++;
    }
    assert_int_equal(n, 16);
    assert_int_equal(tree.unreadable.class, NC_ERR_HOST);
}

static void test_confs(void **state) {
    nc_cleanup(nc_strv_done) struct nc_strv folders = NC_STRV_INIT, paths = NC_STRV_INIT;

    (void)state;
    nc_strv_add(&folders, "/etc/d");
    nc_strv_add(&folders, "/usr/d");
    nc_strv_add(&folders, "/none");
    put("/usr/d/10-a.conf", "");
    put("/usr/d/20-b.conf", "");
    put("/usr/d/30-c.conf", "");
    put("/etc/d/20-b.conf", "");
    put("/etc/d/05-d.conf", "");
    put("/etc/d/readme.txt", "");
    link_to("/dev/null", "/etc/d/30-c.conf");
    nc_image_tree_confs(&tree, &folders, &paths);
    assert_int_equal(paths.n, 3);
    assert_string_equal(paths.v[0], "/etc/d/05-d.conf");
    assert_string_equal(paths.v[1], "/usr/d/10-a.conf");
    assert_string_equal(paths.v[2], "/etc/d/20-b.conf");
}

#define tree_test(f) cmocka_unit_test_setup_teardown(f, open_tree, close_tree)

TEST_GROUP() {
    const struct CMUnitTest tests[] = {tree_test(test_links), tree_test(test_types),
                                       tree_test(test_total), tree_test(test_confs)};

    return run_group(tests, NULL, NULL);
}
