/*
 * The tests of a folder are one program, and those of a file are a group of it:
 *
 *     TEST_GROUP() {
 *         const struct CMUnitTest tests[] = {...};
 *
 *         return run_group(tests, set_up, tear_down);
 *     }
 *
 * The name is the file's: that of test-hint.c is hint.
 */
#ifndef NC_TEST_GROUPS_H
#define NC_TEST_GROUPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct test_group {
    const char *file;
    int (*run)(void);
    struct test_group *next;
};

/* Before main(); groups run in the order in which they are linked. */
void test_group_add(struct test_group *g);

/* Runs the tests of a group, or of these the one that the command line names; how many failed. */
int test_group_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down);

#define run_group(tests, set_up, tear_down)                                                        \
    test_group_run(tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down)

#define TEST_GROUP()                                                                               \
    static int run_test_group(void);                                                               \
    __attribute__((constructor)) static void add_test_group(void) {                                \
        static struct test_group group = {.file = __FILE__, .run = run_test_group};                \
                                                                                                   \
        test_group_add(&group);                                                                    \
    }                                                                                              \
    static int run_test_group(void)

#endif
