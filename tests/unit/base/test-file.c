/*
 * Files: capped reads, folders, atomic writes. Runs as root or not; works below a temporary folder
 * of its own.
 */
#include "base-test.h"
#include "groups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/str.h"

/* In the place of libc's: what locking says on a file system that cannot; 0 = as it is. */
static int lock_code;

int flock(int fd, int how) {
    if (lock_code)
        errno = lock_code;
    return lock_code ? -1 : (int)syscall(SYS_flock, fd, how);
}

static char folder[] = "/tmp/nc-test-file.XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_tree(const char *path) {
    DIR *d = opendir(path);
    const struct dirent *e;

    while (d && (e = readdir(d))) {
        if (nc_streq(e->d_name, ".") || nc_streq(e->d_name, ".."))
            continue;
        nc_auto_free char *child = nc_asprintf("%s/%s", path, e->d_name);
        if (unlink(child) < 0 && errno == EISDIR)
            remove_tree(child);
    }
    if (d)
        closedir(d);
    return rmdir(path);
}

static int remove_folder(void **state) {
    (void)state;
    return remove_tree(folder);
}

static char *below(const char *name) {
    return nc_path_below(folder, name);
}

static mode_t mode_of(const char *path) {
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode;
}

static void assert_content(const char *path, const char *expected) {
    struct nc_buf b = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_read(path, 1 << 20, &b, &err) != 0)
        fail_msg("%s", err.msg);
    assert_string_equal(b.data, expected);
    nc_buf_done(&b);
}

/* How many entries a folder has: a temporary file that is left over is one too many. */
static size_t count_entries(const char *path) {
    DIR *d = opendir(path);
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void paths_below_a_root(void **state) {
    static const char *const rows[][3] = {
        {NULL, "/etc/x", "/etc/x"},    {"", "/etc/x", "/etc/x"}, {"/r", "/etc/x", "/r/etc/x"},
        {"/r/", "/etc/x", "/r/etc/x"}, {"r//", "//x", "r/x"},    {"/r", "etc/x", "/r/etc/x"},
        {"/", "/etc/x", "/etc/x"},     {"", "x", "x"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *path = nc_path_below(rows[i][0], rows[i][1]);
        assert_string_equal(path, rows[i][2]);
    }
}

static void reading_is_capped(void **state) {
    nc_auto_free char *path = below("read");
    struct nc_buf b = NC_BUF_INIT;
    struct nc_buf small = NC_BUF_INIT_MAX(4);
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    assert_int_equal(nc_file_write(path, "12345", 5, 0644, NULL), 0);
    nc_buf_puts(&b, "kept ");
    assert_int_equal(nc_file_read(path, 4, &b, &err), -EFBIG);
    assert_non_null(strstr(err.msg, "larger than the 4 bytes allowed"));
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_string_equal(b.data, "kept ");
    assert_int_equal(nc_file_read(path, 5, &b, &err), 0);
    assert_string_equal(b.data, "kept 12345");
    assert_int_equal(nc_file_read(path, 5, &small, &err), -EFBIG);
    assert_int_equal(small.len, 0);
    nc_buf_done(&small);
    nc_buf_done(&b);
}

static void an_empty_file_gives_empty_text(void **state) {
    nc_auto_free char *path = below("empty");
    (void)state;

    assert_int_equal(nc_file_write_synced(path, "", 0, 0600, NULL), 0);
    assert_content(path, "");
}

/* Their size is 0, their content is not; the cap holds for them, too. */
static void proc_files_are_read_to_their_end(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    (void)state;

    assert_int_equal(nc_file_read("/proc/self/status", 1 << 20, &b, NULL), 0);
    assert_true(nc_starts_with(b.data, "Name:"));
    assert_int_equal(nc_file_read("/proc/self/status", 10, &b, NULL), -EFBIG);
    nc_buf_done(&b);
}

static void what_is_no_file_is_refused(void **state) {
    nc_auto_free char *absent = below("absent");
    nc_auto_free char *fifo = below("fifo");
    struct nc_buf b = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    assert_int_equal(nc_file_read(absent, 10, &b, &err), -ENOENT);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_int_equal(err.code, -ENOENT);
    assert_int_equal(nc_file_read(folder, 10, &b, &err), -EISDIR);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(nc_file_read(fifo, 10, &b, &err),
                     -EINVAL); /* and does not wait for a writer */
    assert_non_null(strstr(err.msg, "not a regular file"));
    assert_int_equal(nc_file_read("/dev/null", 10, &b, &err), -EINVAL);
    assert_int_equal(nc_file_read("/proc/self/mem", 10, &b, &err), -EIO);
    assert_int_equal(b.len, 0);
    nc_buf_done(&b);
}

static void folders_are_made(void **state) {
    nc_auto_free char *deep = below("a/b//c/");
    nc_auto_free char *blocked = below("file/x/y");
    nc_auto_free char *file = below("file");
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    const mode_t old = umask(077);
    assert_int_equal(nc_mkdir_p(deep, &err), 0);
    umask(old);
    assert_int_equal(mode_of(deep) & 07777, 0755);
    assert_int_equal(chmod(deep, 0700), 0);
    assert_int_equal(nc_mkdir_p(deep, &err), 0);
    assert_int_equal(mode_of(deep) & 07777, 0700); /* what was there is not touched */
    assert_int_equal(nc_file_write(file, "", 0, 0600, NULL), 0);
    assert_int_equal(nc_mkdir_p(file, &err), -ENOTDIR);
    assert_int_equal(nc_mkdir_p(blocked, &err), -ENOTDIR);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_int_equal(nc_mkdir_p("", &err), -EINVAL);
    assert_int_equal(nc_mkdir_p("/", &err), 0);
    assert_int_equal(nc_mkdir_p("/proc/no-such-folder", &err), -ENOENT);
}

static void writing_sets_bytes_and_mode(void **state) {
    nc_auto_free char *path = below("new/folder/file");
    nc_auto_free char *parent = below("new/folder");
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    const mode_t old = umask(0777);
    assert_int_equal(nc_file_write_synced(path, "one", 3, 0644, &err), 0);
    umask(old);
    assert_content(path, "one");
    assert_int_equal(mode_of(path), S_IFREG | 0644);
    assert_int_equal(nc_file_write_synced(path, "one", 3, 0644, &err), 1);
    assert_int_equal(nc_file_write_synced(path, "one", 3, 0600, &err), 0);
    assert_int_equal(mode_of(path), S_IFREG | 0600);
    assert_int_equal(nc_file_write_synced(path, "two", 3, 0600, &err), 0);
    assert_content(path, "two");
    assert_int_equal(nc_file_write(path, "longer", 6, 0600, &err), 0);
    assert_content(path, "longer");
    assert_int_equal(count_entries(parent), 1);
}

static void large_files_compare_whole(void **state) {
    nc_auto_free char *path = below("large");
    char *data = calloc(1, 100000);
    (void)state;

    assert_non_null(data);
    assert_int_equal(nc_file_write(path, data, 100000, 0644, NULL), 0);
    assert_int_equal(nc_file_write(path, data, 100000, 0644, NULL), 1);
    data[99999] = 1;
    assert_int_equal(nc_file_write(path, data, 100000, 0644, NULL), 0);
    assert_int_equal(nc_file_write(path, data, 100000, 0644, NULL), 1);
    free(data);
}

static void a_link_is_replaced_not_followed(void **state) {
    nc_auto_free char *target = below("target");
    nc_auto_free char *path = below("link");
    (void)state;

    assert_int_equal(nc_file_write(target, "same", 4, 0644, NULL), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(nc_file_write(path, "same", 4, 0644, NULL), 0);
    assert_true(S_ISREG(mode_of(path)));
    assert_int_equal(nc_file_write(path, "other", 5, 0644, NULL), 0);
    assert_content(target, "same");
}

static void a_path_without_a_folder_is_here(void **state) {
    nc_auto_free char *cwd = getcwd(NULL, 0);
    (void)state;

    assert_int_equal(chdir(folder), 0);
    assert_int_equal(nc_file_write_synced("here", "x", 1, 0644, NULL), 0);
    assert_content("here", "x");
    assert_int_equal(chdir(cwd), 0);
}

static void failures_leave_nothing(void **state) {
    nc_auto_free char *parent = below("fail");
    nc_auto_free char *as_folder = below("fail/folder");
    nc_auto_free char *under_file = below("fail/folder/file/x");
    nc_auto_free char *file = below("fail/folder/file");
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    assert_int_equal(nc_file_write(file, "x", 1, 0644, &err), 0);
    assert_int_equal(nc_file_write(as_folder, "x", 1, 0644, &err), -EISDIR);
    assert_int_equal(count_entries(parent), 1);
    assert_int_equal(nc_file_write(under_file, "x", 1, 0644, &err), -ENOTDIR);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_int_equal(nc_file_write("/proc/x", "x", 1, 0644, &err), -ENOENT);
}

/* What a killed run left is used by the next one, whatever it holds; what is being written by
 * somebody else is left to them. */
static void a_leftover_is_taken_over(void **state) {
    nc_auto_free char *parent = below("left");
    nc_auto_free char *path = below("left/file");
    nc_auto_free char *temporary = below("left/.file.new");
    (void)state;

    assert_int_equal(nc_file_write(temporary, "a longer half of it", 19, 0666, NULL), 0);
    assert_int_equal(nc_file_write(path, "new", 3, 0600, NULL), 0);
    assert_content(path, "new");
    assert_int_equal(mode_of(path) & 07777, 0600);
    assert_int_equal(count_entries(parent), 1);

    assert_int_equal(nc_file_write(temporary, "theirs", 6, 0600, NULL), 0);
    const int fd = open(temporary, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(nc_file_write(path, "ours", 4, 0600, NULL), 0);
    assert_content(path, "ours");
    assert_content(temporary, "theirs");
    (void)close(fd);
}

/* Where nothing can be locked, nobody is kept from anything; what is left of a killed run is not
 * touched, as it may be somebody's. */
static void nothing_is_left_where_nothing_can_be_locked(void **state) {
    nc_auto_free char *parent = below("unlocked");
    nc_auto_free char *path = below("unlocked/file");
    nc_auto_free char *temporary = below("unlocked/.file.new");
    (void)state;

    lock_code = ENOLCK;
    assert_int_equal(nc_file_write(path, "one", 3, 0600, NULL), 0);
    assert_content(path, "one");
    assert_int_equal(count_entries(parent), 1);
    lock_code = 0;
    assert_int_equal(nc_file_write(temporary, "half", 4, 0600, NULL), 0);
    lock_code = ENOLCK;
    assert_int_equal(nc_file_write(path, "two", 3, 0600, NULL), 0);
    lock_code = 0;
    assert_content(path, "two");
    assert_content(temporary, "half");
    assert_int_equal(count_entries(parent), 2);
}

static int lock_as_ever(void **state) {
    (void)state;
    lock_code = 0;
    return 0;
}

static void write_and_die(const char *path) {
    const struct rlimit limit = {1000, 1000};
    char data[5000] = {0};

    signal(SIGXFSZ, SIG_DFL); /* dies in the middle of the write */
    if (setrlimit(RLIMIT_FSIZE, &limit) == 0 && setrlimit(RLIMIT_CORE, &(struct rlimit){0}) == 0)
        (void)nc_file_write_synced(path, data, sizeof(data), 0644, NULL);
    _exit(0);
}

static void killed_runs_leave_one_at_most(void **state) {
    nc_auto_free char *parent = below("killed");
    nc_auto_free char *path = below("killed/file");
    (void)state;

    assert_int_equal(nc_file_write(path, "old", 3, 0644, NULL), 0);
    for (int i = 0; i < 3; i++) {
        int status;
        const pid_t pid = fork();
        if (pid == 0)
            write_and_die(path);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_content(path, "old");
        assert_int_equal(count_entries(parent), 2);
    }
    assert_int_equal(nc_file_write(path, "new", 3, 0644, NULL), 0);
    assert_int_equal(count_entries(parent), 1);
}

/* The file size limit stands for a full disk: the write fails after some bytes. */
static int write_beyond_the_limit(const char *path) {
    const struct rlimit limit = {1000, 1000};
    char data[5000] = {0};
    struct nc_err err = NC_ERR_INIT;

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
        return 1;
    const int r = nc_file_write_synced(path, data, sizeof(data), 0644, &err);
    return r == -EFBIG && err.class == NC_ERR_HOST && strstr(err.msg, "write ") ? 0 : 2;
}

static void a_write_that_fails_half_way_changes_nothing(void **state) {
    nc_auto_free char *path = below("half/file");
    nc_auto_free char *parent = below("half");
    int status;
    (void)state;

    assert_int_equal(nc_file_write(path, "old", 3, 0644, NULL), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int r = write_beyond_the_limit(path);
        free(path);
        free(parent);
        _exit(r);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_content(path, "old");
    assert_int_equal(count_entries(parent), 1);
}

/* What is no regular file is neither written to nor replaced, wherever it leads. */
static void output_goes_to_regular_files_alone(void **state) {
    nc_auto_free char *target = below("out-target");
    nc_auto_free char *pipe = below("out-pipe");
    nc_auto_free char *link = below("out-link");
    nc_auto_free char *deep = below("out-folder/file");
    nc_auto_free char *made = below("out-folder");
    const char *const refused[] = {link, pipe, "/dev/full", "/dev/null"};
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    assert_int_equal(nc_file_write(target, "longer than before", 18, 0600, NULL), 0);
    assert_int_equal(symlink("out-target", link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    for (size_t i = 0; i < NC_ARRAY_SIZE(refused); i++) {
        const mode_t before = mode_of(refused[i]);
        assert_true(nc_output_write(refused[i], "new", 3, &err) < 0);
        assert_non_null(strstr(err.msg, "not a regular file"));
        assert_non_null(strstr(err.remedy, "standard output"));
        assert_int_equal(mode_of(refused[i]), before);
    }
    assert_content(target, "longer than before");
    assert_int_equal(nc_output_write(target, "new", 3, &err), 0);
    assert_int_equal(mode_of(target) & 07777, 0600);
    assert_content(target, "new");
    assert_int_equal(nc_output_write(deep, "new", 3, &err), -ENOENT);
    assert_non_null(strstr(err.remedy, "folder"));
    assert_int_equal(access(made, F_OK), -1);
}

/* /sys is no place for new files, whoever asks; the remedies say what to do about the usual
 * refusals. */
static void refusals_carry_a_remedy(void **state) {
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    const int r = nc_file_write("/sys/nc-test-file", "x", 1, 0644, &err);
    assert_true(r == -EACCES || r == -EPERM || r == -EROFS);
    assert_non_null(strstr(err.remedy, "/sys/nc-test-file"));
    assert_int_equal(nc_file_write("/dev/full/x", "x", 1, 0644, &err), -ENOTDIR);
    assert_non_null(strstr(err.msg, "/dev/full"));
    assert_string_equal(err.remedy, "check the path, and that its folder is there");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_below_a_root),
        cmocka_unit_test(reading_is_capped),
        cmocka_unit_test(an_empty_file_gives_empty_text),
        cmocka_unit_test(proc_files_are_read_to_their_end),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(folders_are_made),
        cmocka_unit_test(writing_sets_bytes_and_mode),
        cmocka_unit_test(large_files_compare_whole),
        cmocka_unit_test(a_link_is_replaced_not_followed),
        cmocka_unit_test(a_path_without_a_folder_is_here),
        cmocka_unit_test(failures_leave_nothing),
        cmocka_unit_test(a_leftover_is_taken_over),
        cmocka_unit_test_teardown(nothing_is_left_where_nothing_can_be_locked, lock_as_ever),
        cmocka_unit_test(killed_runs_leave_one_at_most),
        cmocka_unit_test(a_write_that_fails_half_way_changes_nothing),
        cmocka_unit_test(output_goes_to_regular_files_alone),
        cmocka_unit_test(refusals_carry_a_remedy),
    };
    return run_group(tests, make_folder, remove_folder);
}
