/*
 * What is given back is gone from this process' memory, and is there again where it is needed.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "base-test.h"

#include "nc/mem.h"
#include "process.h"

#define PRESENT (UINT64_C(1) << 63)

static int kept = 7; /* private data of this program: must not be given back with its code */
/* Read-only once the loader has put the addresses in: no file has them. */
static const char *const relocated[] = {"one", "two", "three"};

static bool is_resident(int pagemap, const volatile void *p) {
    const size_t page = (uintptr_t)p / (size_t)sysconf(_SC_PAGESIZE);
    uint64_t entry = 0;

    return pread(pagemap, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) == sizeof(entry)
           && entry & PRESENT;
}

/* Where a library begins that nothing here needs in between: its symbols, then its code. */
static const volatile char *beginning_of_cmocka(void) {
    Dl_info info;

    assert_int_not_equal(dladdr((void *)(uintptr_t)_assert_true, &info), 0);
    return info.dli_fbase;
}

static void test_gives_back(void **state) {
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    const volatile char *symbols = beginning_of_cmocka();
    const volatile char *code = (const volatile char *)(uintptr_t)_assert_true;
    bool had_symbols, had_code, has_symbols, has_code;
    size_t given;

    (void)state;
    kept = 8;
    assert_int_equal(symbols[1], 'E'); /* \177ELF */
    had_symbols = is_resident(pagemap, symbols);
    had_code = is_resident(pagemap, code);
    given = nc_memory_give_back();
    has_symbols = is_resident(pagemap, symbols);
    has_code = is_resident(pagemap, code);
    assert_true(had_symbols && had_code);
    assert_false(has_symbols || has_code);
    assert_true(given > 0);
    assert_int_equal(symbols[1], 'E');
    assert_int_equal(kept, 8);
    for (volatile unsigned i = 0; i < NC_ARRAY_SIZE(relocated); i++)
        assert_non_null(strchr("ot", relocated[i][0]));
    (void)close(pagemap);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gives_back)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
