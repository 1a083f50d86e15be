/*
 * Filesets to disk: what is written, what is not touched, and that a failure changes nothing.
 */
#include "groups.h"
#include "host-test.h"

#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "fileset-priv.h"

static struct nc_file *add(struct nc_fileset *s, const char *path, mode_t mode, const char *text) {
    struct nc_buf data = NC_BUF_INIT;

    (void)nc_buf_puts(&data, text);
    return nc_fileset_add(s, path, mode, &data);
}

static void two_files(struct nc_fileset *s) {
    add(s, "/etc/a/one", 0644, "first\n");
    add(s, "/etc/b/two", 0600, "second\n");
}

static int apply_all(const struct nc_fileset *s, struct nc_apply_result *ret, struct nc_err *err) {
    const struct nc_apply_call call = {.root = root, .files = s};

    return nc_apply_all(&call, ret, err);
}

static void assert_apply(const struct nc_fileset *s, unsigned written, unsigned unchanged,
                         unsigned removed) {
    struct nc_apply_result result = {9, 9, 9};
    struct nc_err err = NC_ERR_INIT;

    if (apply_all(s, &result, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(result.written, written);
    assert_int_equal(result.unchanged, unchanged);
    assert_int_equal(result.removed, removed);
}

static void assert_refused(const struct nc_fileset *s, int code, const char *part) {
    struct nc_apply_result result = {0};
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(apply_all(s, &result, &err), -code);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_true(*err.remedy != '\0');
    if (!strstr(err.msg, part) || !strstr(err.msg, root))
        fail_msg("%s, expected %s", err.msg, part);
}

static unsigned leftovers;

static int count_leftover(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    leftovers += nc_ends_with(path, ".nodeclaimd-new");
    return 0;
}

static void assert_no_leftovers(void) {
    leftovers = 0;
    assert_int_equal(nftw(root, count_leftover, 16, FTW_PHYS), 0);
    assert_int_equal(leftovers, 0);
}

static void test_first_and_second_run(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    nc_auto_free char *path = nc_path_below(root, "/etc/a/one");
    struct stat before, after;

    (void)state;
    two_files(&s);
    nc_fileset_add_absent(&s, "/etc/c/three");
    const mode_t old = umask(077);
    assert_apply(&s, 2, 0, 0);
    (void)umask(old);
    assert_file("/etc/a/one", "first\n");
    assert_file("/etc/b/two", "second\n");
    assert_int_equal(mode_of("/etc/a/one"), S_IFREG | 0644);
    assert_int_equal(mode_of("/etc/b/two"), S_IFREG | 0600);
    assert_int_equal(mode_of("/etc/a"), S_IFDIR | 0755);
    assert_int_equal(mode_of("/etc/c"), 0);
    assert_int_equal(stat(path, &before), 0);
    assert_apply(&s, 0, 2, 0);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_no_leftovers();
}

static void test_changes(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    two_files(&s);
    add(&s, "/etc/empty", 0644, "");
    nc_fileset_add_absent(&s, "/etc/old");
    put("/etc/a/one", "First\n");
    put_bytes("/etc/b/two", "second\n", 7, 0644);
    put("/etc/old", "x");
    put("/etc/empty", "");
    assert_apply(&s, 2, 1, 1);
    assert_file("/etc/a/one", "first\n");
    assert_int_equal(mode_of("/etc/b/two"), S_IFREG | 0600);
    assert_int_equal(mode_of("/etc/old"), 0);
}

/* One that cannot be written keeps the files of its own stage from changing, and no others. */
static void test_stages(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    struct nc_apply_result result = {0};
    struct nc_apply_call call = {.root = root, .files = &s, .stage = NC_STAGE_CONTAINERD};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    nc_fileset_add_absent(&s, "/etc/a/old")->stage = NC_STAGE_HOST;
    add(&s, "/etc/a/one", 0644, "first\n")->stage = NC_STAGE_CONTAINERD;
    add(&s, "/etc/b/two", 0644, "second\n");
    nc_fileset_add_absent(&s, "/etc/c"); /* is a folder */
    put("/etc/a/old", "x");
    put("/etc/c/file", "x");
    assert_int_equal(nc_apply(&call, &result, &err), 0);
    assert_int_equal(result.written, 1);
    assert_file("/etc/a/one", "first\n");
    assert_int_equal(mode_of("/etc/a/old"), S_IFREG | 0644);
    assert_int_equal(apply_all(&s, &result, &err), -EISDIR);
    assert_int_equal(mode_of("/etc/a/old"), 0);
    assert_int_equal(mode_of("/etc/b/two"), 0);
    assert_no_leftovers();
}

struct seen {
    unsigned calls;
    mode_t folder, old;
};

static void on_change(const struct nc_file *file, void *userdata) {
    struct seen *seen = userdata;

    assert_string_not_equal(file->path, "/etc/unchanged");
    seen->calls++;
    seen->folder = mode_of("/etc/a");
    seen->old = mode_of("/etc/old");
}

/* Told of each that will change, while all is as it was; and of none that is in place. */
static void test_hook(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    struct nc_apply_result result = {0};
    struct seen seen = {0};
    const struct nc_apply_call call = {
        .root = root, .files = &s, .before_change = on_change, .userdata = &seen};

    (void)state;
    two_files(&s);
    add(&s, "/etc/unchanged", 0644, "x");
    nc_fileset_add_absent(&s, "/etc/old");
    put("/etc/unchanged", "x");
    put("/etc/old", "x");
    assert_int_equal(nc_apply(&call, &result, NULL), 0);
    assert_int_equal(seen.calls, 3);
    assert_int_equal(seen.folder, 0);
    assert_true(S_ISREG(seen.old));
    assert_int_equal(result.written, 2);
    assert_int_equal(result.removed, 1);
    assert_int_equal(nc_apply(&call, &result, NULL), 0);
    assert_int_equal(seen.calls, 3);
    put("/etc/old", "x"); /* to be removed is a change too */
    assert_int_equal(nc_apply(&call, &result, NULL), 0);
    assert_int_equal(seen.calls, 4);
}

static void test_links(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    nc_auto_free char *link = nc_path_below(root, "/etc/a/one");
    nc_auto_free char *precious = nc_path_below(root, "/precious");

    (void)state;
    two_files(&s);
    put("/precious", "first\n");
    put("/etc/a/other", "");
    assert_int_equal(symlink(precious, link), 0);
    assert_apply(&s, 2, 0, 0);
    assert_true(S_ISREG(mode_of("/etc/a/one")));
    assert_file("/precious", "first\n");
}

/* A file of the right bytes that another user owns can be changed by him. */
static void test_owner(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    nc_auto_free char *path = nc_path_below(root, "/etc/a/one");
    struct stat st;

    (void)state;
    two_files(&s);
    assert_apply(&s, 2, 0, 0);
    if (chown(path, 4711, 4711) < 0) {
        assert_int_equal(errno, EPERM); /* only root can give files away */
        return;
    }
    assert_apply(&s, 1, 1, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, geteuid());
}

static void test_leftover_of_a_killed_run(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    two_files(&s);
    put("/etc/a/one.nodeclaimd-new", "half");
    assert_apply(&s, 2, 0, 0);
    assert_no_leftovers();
}

/* The names that came into these folders, in their order. */
static void read_names(int fd, char *ret, size_t size) {
    char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    const ssize_t n = read(fd, events, sizeof(events));
    const struct inotify_event *e;

    *ret = '\0';
    for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*e) + e->len)) {
        e = (const void *)(events + at);
        (void)strncat(ret, e->name, size - strlen(ret) - 1);
        (void)strncat(ret, " ", size - strlen(ret) - 1);
    }
}

/* The file that the others are waited for with is put in its place after them, whatever its name.
 */
static void test_the_gate_comes_last(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    nc_auto_free char *a = nc_path_below(root, "/etc/a"), *b = nc_path_below(root, "/etc/b");
    struct nc_buf data = NC_BUF_INIT;
    char names[256];

    (void)state;
    (void)nc_buf_puts(&data, "go\n");
    nc_fileset_add_gate(&s, "/etc/a/gate", 0644, &data);
    two_files(&s);
    assert_int_equal(nc_mkdir_p(a, NULL), 0);
    assert_int_equal(nc_mkdir_p(b, NULL), 0);
    const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    assert_true(inotify_add_watch(fd, a, IN_MOVED_TO) >= 0);
    assert_true(inotify_add_watch(fd, b, IN_MOVED_TO) >= 0);
    assert_apply(&s, 3, 0, 0);
    read_names(fd, names, sizeof(names));
    (void)close(fd);
    assert_string_equal(names, "one two gate ");
    assert_file("/etc/a/gate", "go\n");
    assert_no_leftovers();
}

static void test_folder_in_place(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    two_files(&s);
    put("/etc/b/two/x", "");
    assert_refused(&s, EISDIR, "/etc/b/two");
    assert_int_equal(mode_of("/etc/a"), 0);
    nc_fileset_add_absent(&s, "/etc/b");
    assert_refused(&s, EISDIR, "/etc/b");
}

static void test_file_in_the_way(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    two_files(&s);
    put("/etc/b", "a file");
    put("/etc/a/one", "old");
    assert_refused(&s, ENOTDIR, "/etc/b");
    assert_file("/etc/a/one", "old");
    assert_no_leftovers();
}

static void test_folder_where_the_new_file_goes(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    two_files(&s);
    put("/etc/b/two.nodeclaimd-new/x", "");
    put("/etc/a/one", "old");
    assert_refused(&s, EEXIST, "two.nodeclaimd-new");
    assert_file("/etc/a/one", "old");
    assert_int_equal(mode_of("/etc/a/one.nodeclaimd-new"), 0);
}

/* A small file system of this process alone at root; needs CAP_SYS_ADMIN. */
static bool mounts_at_root(void) {
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0
           && mount("tmpfs", root, "tmpfs", 0, "size=64k") == 0;
}

/* In a child with that; a body that returns has succeeded. */
static int in_namespace(void (*body)(void)) {
    int status = -1;
    const pid_t pid = fork();

    if (pid == 0) {
        if (!mounts_at_root())
            _exit(77);
        body();
        _exit(0);
    }
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void require(bool condition) {
    if (!condition)
        _exit(1);
}

static struct nc_fileset big_set(void) {
    struct nc_fileset s = NC_FILESET_INIT;
    nc_auto_free char *big = nc_calloc(200001, 1);

    memset(big, 'x', 200000);
    two_files(&s);
    add(&s, "/etc/z/big", 0644, big);
    return s;
}

static void no_space(void) {
    struct nc_fileset s = big_set();
    struct nc_apply_result result;
    struct nc_err err = NC_ERR_INIT;

    put("/etc/a/one", "old");
    require(apply_all(&s, &result, &err) == -ENOSPC);
    require(err.class == NC_ERR_HOST && strstr(err.msg, "/etc/z/big"));
    require(nc_starts_with(err.remedy, "free space"));
    require(mode_of("/etc/b/two") == 0 && mode_of("/etc/a/one.nodeclaimd-new") == 0);
    require(mode_of("/etc/z/big.nodeclaimd-new") == 0);
    nc_auto_free char *old = nc_path_below(root, "/etc/a/one");
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    require(nc_file_read(old, 16, &text, NULL) >= 0 && nc_streq(text.data, "old"));
    nc_fileset_done(&s);
}

static void read_only(void) {
    struct nc_fileset s = NC_FILESET_INIT;
    struct nc_apply_result result;
    struct nc_err err = NC_ERR_INIT;

    two_files(&s);
    require(apply_all(&s, &result, &err) == 0);
    require(mount("none", root, "none", MS_REMOUNT | MS_RDONLY, NULL) == 0);
    require(apply_all(&s, &result, &err) == 0); /* nothing is to be written */
    require(result.unchanged == 2);
    add(&s, "/etc/a/more", 0644, "x");
    require(apply_all(&s, &result, &err) == -EROFS);
    require(strstr(err.remedy, "writable") != NULL);
    nc_fileset_done(&s);
}

static void test_mount_no_space(void **state) {
    (void)state;
    assert_int_equal(in_namespace(no_space), 0);
}

static void test_mount_read_only(void **state) {
    (void)state;
    assert_int_equal(in_namespace(read_only), 0);
}

static void test_nothing(void **state) {
    const struct nc_fileset s = NC_FILESET_INIT;

    (void)state;
    assert_apply(&s, 0, 0, 0);
}

static void nothing(void) {
}

/* cmocka's skip() is a failure in TAP: what cannot be run is left out, and said. */
static void leave_out_mounts(void) {
    void *state = NULL;

    (void)make_root(&state);
    if (in_namespace(nothing) == 77) {
        print_message("# not run: CAP_SYS_ADMIN is missing (mounts)\n"
                      "# not run: CAP_SYS_ADMIN is missing (mounts)\n");
        cmocka_set_skip_filter("test_mount_*");
    }
    (void)remove_root(&state);
}

struct foreign {
    unsigned kept, replaced;
};

static void note_foreign(const struct nc_file *file, bool is_kept, void *userdata) {
    struct foreign *f = userdata;

    (void)file;
    if (is_kept)
        f->kept++;
    else
        f->replaced++;
}

/* Somebody edits what we wrote: it stays where it is to be the same, and is counted once. */
static void test_what_others_change(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset before = NC_FILESET_INIT, after = NC_FILESET_INIT;
    nc_cleanup(nc_strv_done) struct nc_strv changed = NC_STRV_INIT;
    struct nc_apply_result result = {0};
    struct foreign found = {0};
    struct nc_apply_call call = {.root = root,
                                 .files = &before,
                                 .known = &before,
                                 .found_foreign = note_foreign,
                                 .userdata = &found};

    (void)state;
    two_files(&before);
    add(&before, "/etc/c/three", 0644, "third\n");
    assert_apply(&before, 3, 0, 0);
    nc_apply_find_changed(root, &before, &changed);
    assert_int_equal(changed.n, 0);
    put("/etc/a/one", "edited\n");
    put("/etc/c/three", "edited\n");
    nc_apply_find_changed(root, &before, &changed);
    assert_int_equal(changed.n, 2);
    assert_string_equal(changed.v[0], "/etc/a/one");
    assert_int_equal(nc_apply_all(&call, &result, NULL), 0);
    assert_int_equal(result.written + result.unchanged, 0);
    assert_int_equal(found.kept, 2);
    two_files(&after);
    add(&after, "/etc/c/three", 0644, "another\n");
    call.files = &after;
    assert_int_equal(nc_apply_all(&call, &result, NULL), 0);
    assert_int_equal(result.written, 1);
    assert_int_equal(found.replaced, 1);
    assert_file("/etc/a/one", "edited\n");
    assert_file("/etc/c/three", "another\n");
}

/* One that is gone is written again, whatever is known of it. */
static void test_what_others_remove(void **state) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    nc_cleanup(nc_strv_done) struct nc_strv changed = NC_STRV_INIT;
    struct nc_apply_result result = {0};
    const struct nc_apply_call call = {.root = root, .files = &s, .known = &s};
    nc_auto_free char *one = nc_path_below(root, "/etc/a/one");

    (void)state;
    two_files(&s);
    assert_apply(&s, 2, 0, 0);
    assert_int_equal(unlink(one), 0);
    nc_apply_find_changed(root, &s, &changed);
    assert_int_equal(changed.n, 1);
    assert_int_equal(nc_apply_all(&call, &result, NULL), 0);
    assert_int_equal(result.written, 1);
    assert_file("/etc/a/one", "first\n");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_first_and_second_run),
        host_test(test_what_others_change),
        host_test(test_what_others_remove),
        host_test(test_changes),
        host_test(test_stages),
        host_test(test_hook),
        host_test(test_links),
        host_test(test_owner),
        host_test(test_leftover_of_a_killed_run),
        host_test(test_the_gate_comes_last),
        host_test(test_folder_in_place),
        host_test(test_file_in_the_way),
        host_test(test_folder_where_the_new_file_goes),
        host_test(test_mount_no_space),
        host_test(test_mount_read_only),
        host_test(test_nothing),
    };

    leave_out_mounts();
    return run_group(tests, NULL, NULL);
}
