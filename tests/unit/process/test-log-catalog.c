/*
 * Each message id is a random one of its own, is explained in the journal's catalog and named in
 * the manual; and the catalog has no other.
 */
#include "base-test.h"
#include "groups.h"

#include <ctype.h>

#include "log.h"
#include "nc/file.h"
#include "nc/mem.h"

#define MAX_BYTES ((size_t)1 << 20)

static void read_source(const char *path, struct nc_buf *ret) {
    const char *top = getenv("NC_SRCDIR") ? getenv("NC_SRCDIR") : ".";
    nc_auto_free char *full = nc_asprintf("%s/%s", top, path);
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_read(full, MAX_BYTES, ret, &err) < 0)
        fail_msg("%s", err.msg);
}

/* As systemd-id128 makes them: version 4, variant 1. */
static bool is_random(const char *id) {
    for (const char *p = id; *p; p++)
        if (!isdigit((unsigned char)*p) && (*p < 'a' || *p > 'f'))
            return false;
    return strlen(id) == 32 && id[12] == '4' && strchr("89ab", id[16]);
}

static void test_ids(void **state) {
    (void)state;
    assert_null(nc_log_message_id(NC_MILESTONE_NONE));
    for (enum nc_milestone m = NC_MILESTONE_NONE + 1; m < _NC_MILESTONE_MAX; m++) {
        assert_non_null(nc_log_message_id(m));
        assert_true(is_random(nc_log_message_id(m)));
        for (enum nc_milestone other = NC_MILESTONE_NONE + 1; other < m; other++)
            assert_string_not_equal(nc_log_message_id(m), nc_log_message_id(other));
    }
}

static void test_catalog(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf catalog = NC_BUF_INIT, manual = NC_BUF_INIT;
    size_t n = 0;

    (void)state;
    read_source("systemd/nodeclaimd.catalog", &catalog);
    read_source("man/nodeclaimd.8", &manual);
    for (enum nc_milestone m = NC_MILESTONE_NONE + 1; m < _NC_MILESTONE_MAX; m++) {
        nc_auto_free char *entry = nc_asprintf("\n-- %s\nSubject: ", nc_log_message_id(m));
        if (!strstr(catalog.data, entry))
            fail_msg("%s has no entry", nc_log_message_id(m));
        assert_non_null(strstr(manual.data, nc_log_message_id(m)));
    }
    for (const char *at = catalog.data; (at = strstr(at, "\n-- ")); at++)
        n++;
    assert_int_equal(n, _NC_MILESTONE_MAX - 1);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids), cmocka_unit_test(test_catalog)};

    return run_group(tests, NULL, NULL);
}
