/*
 * What the tests of the host layer share: a folder of one's own, files in it, and what they became.
 */
#ifndef NC_HOST_TEST_H
#define NC_HOST_TEST_H

#include "base-test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/host.h"
#include "nc/mem.h"

static char root[64];

static inline int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/nc-test-host.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int remove_root(void **state) {
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

#define host_test(f) cmocka_unit_test_setup_teardown(f, make_root, remove_root)

static inline void put_bytes(const char *path, const void *data, size_t n, mode_t mode) {
    nc_auto_free char *whole = nc_path_below(root, path);

    assert_true(nc_file_write(whole, data, n, mode, NULL) >= 0);
}

static inline void put(const char *path, const char *text) {
    put_bytes(path, text, strlen(text), 0644);
}

/* As symlink(2), with the folders that `path` needs. */
static inline void link_to(const char *target, const char *path) {
    nc_auto_free char *whole = nc_path_below(root, path);
    nc_auto_free char *folder = nc_strndup(whole, (size_t)(strrchr(whole, '/') - whole));

    assert_int_equal(nc_mkdir_p(folder, NULL), 0);
    assert_int_equal(symlink(target, whole), 0);
}

static inline void assert_file(const char *path, const char *expected) {
    nc_auto_free char *whole = nc_path_below(root, path);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_read(whole, (size_t)1 << 20, &text, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(text.data, expected);
}

/* 0 where there is nothing. */
static inline mode_t mode_of(const char *path) {
    nc_auto_free char *whole = nc_path_below(root, path);
    struct stat st;

    return lstat(whole, &st) < 0 ? 0 : st.st_mode;
}

#endif
