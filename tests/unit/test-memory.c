/*
 * What is given back is gone from this process' memory, and is there again where it is needed.
 */
#include <stdint.h>
#include <stdio.h>

#include "base-test.h"

#include "process.h"

static int kept = 7; /* private data of this program: must not be given back with its code */

static uint64_t resident_pages(void) {
    unsigned long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &resident), 2);
    (void)fclose(f);
    return resident;
}

static void test_gives_back(void **state) {
    uint64_t before, after;

    (void)state;
    kept = 8;
    before = resident_pages();
    assert_true(nc_memory_give_back() > 0);
    after = resident_pages();
    assert_true(after < before);
    assert_int_equal(kept, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gives_back)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
