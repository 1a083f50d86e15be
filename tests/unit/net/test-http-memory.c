/*
 * What libcurl gives back is wiped: the linker sends each free() of ours through here first.
 */
#include "base-test.h"
#include "groups.h"

#include <malloc.h>
#include <string.h>

#include "http-priv.h"

static unsigned n_freed, n_dirty;

void __real_free(void *p);
void __wrap_free(void *p);

void __wrap_free(void *p) {
    const size_t n = p ? malloc_usable_size(p) : 0;

    n_freed += p != NULL;
    for (size_t i = 0; i < n; i++)
        if (((const char *)p)[i]) {
            n_dirty++;
            break;
        }
    __real_free(p);
}

/* Three bytes for each one: the block has to grow as it is written. */
static void test_wiped(void **state) {
    char secret[4096], *escaped;

    (void)state;
    assert_true(nc_http_start_libcurl());
    memset(secret, '/', sizeof(secret));
    n_freed = n_dirty = 0;
    escaped = curl_easy_escape(NULL, secret, sizeof(secret));
    assert_non_null(escaped);
    assert_int_equal(strlen(escaped), 3 * sizeof(secret));
    assert_true(n_freed > 0); /* it was moved */
    curl_free(escaped);
    assert_int_equal(n_dirty, 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wiped),
    };

    return run_group(tests, NULL, NULL);
}
