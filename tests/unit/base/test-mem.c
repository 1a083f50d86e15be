/*
 * Buffers with their caps, string arrays, growth, and the abort that stands for running out of
 * memory.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nc/mem.h"

static void allocation_of_nothing_is_something(void **state) {
    nc_auto_free void *a = nc_malloc(0);
    nc_auto_free void *b = nc_calloc(0, 0);
    nc_auto_free void *c = nc_realloc_array(NULL, 0, 8);
    (void)state;

    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_null(nc_strdup(NULL));
}

static void strings(void **state) {
    nc_auto_free char *cut = nc_strndup("abcdef", 3);
    const char slice[3] = {'x', 'y', 'z'};
    nc_auto_free char *from_slice = nc_strndup(slice, sizeof(slice));
    nc_auto_free char *short_one = nc_strndup("ab", 9);
    nc_auto_free char *none = nc_strndup(NULL, 0);
    nc_auto_free char *whole = nc_strdup("abc");
    nc_auto_free char *formatted = nc_asprintf("%s-%d", "a", 7);
    nc_auto_free char *stolen = nc_steal(&whole);
    (void)state;

    assert_string_equal(cut, "abc");
    assert_string_equal(from_slice, "xyz");
    assert_string_equal(short_one, "ab");
    assert_string_equal(none, "");
    assert_null(whole);
    assert_string_equal(stolen, "abc");
    assert_string_equal(formatted, "a-7");
    nc_secret_free(NULL);
    nc_cleanup(nc_secret_freep) char *secret = nc_strdup("token");
    assert_string_equal(secret, "token");
}

static void arrays_grow_and_are_zeroed(void **state) {
    struct pair {
        int a;
        char *b;
    } *pairs = NULL;
    size_t n = 0;
    (void)state;

    for (int i = 0; i < 1000; i++) {
        struct pair *p = nc_append(&pairs, &n);
        assert_int_equal(p->a, 0);
        assert_null(p->b);
        p->a = i;
    }
    assert_int_equal(n, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(pairs[i].a, i);
    free(pairs);
}

static void buffer_appends(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    (void)state;

    assert_int_equal(nc_buf_add(&b, NULL, 0), 0);
    assert_string_equal(b.data, "");
    assert_int_equal(nc_buf_puts(&b, "one"), 0);
    assert_int_equal(nc_buf_putc(&b, ' '), 0);
    assert_int_equal(nc_buf_printf(&b, "%d%s", 2, "two"), 0);
    assert_int_equal(nc_buf_add(&b, "\0x", 2), 0);
    assert_int_equal(b.len, 10);
    assert_memory_equal(b.data, "one 2two\0x", 11);
    nc_buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    for (int i = 0; i < 5000; i++)
        assert_int_equal(nc_buf_putc(&b, (char)('a' + i % 26)), 0);
    assert_int_equal(b.len, 5000);
    assert_int_equal(b.data[4999], 'a' + 4999 % 26);
    nc_buf_done_secret(&b);
    assert_null(b.data);
    nc_buf_clear(&b);
    nc_buf_done_secret(&b);
}

static void buffer_keeps_its_cap(void **state) {
    struct nc_buf b = NC_BUF_INIT_MAX(100);
    char big[101] = {0};
    (void)state;

    assert_int_equal(nc_buf_add(&b, big, 101), -EFBIG);
    assert_int_equal(b.len, 0);
    memset(big, 'x', 100);
    assert_int_equal(nc_buf_add(&b, big, 99), 0);
    assert_int_equal(nc_buf_puts(&b, "yz"), -EFBIG);
    assert_int_equal(nc_buf_printf(&b, "%d", 10), -EFBIG);
    assert_int_equal(b.len, 99);
    assert_int_equal(nc_buf_putc(&b, 'y'), 0);
    assert_int_equal(nc_buf_putc(&b, 'z'), -EFBIG);
    assert_true(b.room <= 101);
    assert_int_equal(b.data[99], 'y');
    assert_int_equal(b.data[100], '\0');
    nc_buf_done(&b);

    struct nc_buf standard = NC_BUF_INIT;
    standard.len = NC_BUF_DEFAULT_MAX; /* no memory is needed to see the refusal */
    assert_int_equal(nc_buf_putc(&standard, 'x'), -EFBIG);
    struct nc_buf unbounded = NC_BUF_INIT_MAX(SIZE_MAX);
    assert_int_equal(nc_buf_putc(&unbounded, 'x'), -EFBIG);
}

static void buffer_can_be_stolen(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    (void)state;

    nc_auto_free char *empty = nc_buf_steal(&b);
    assert_string_equal(empty, "");
    nc_buf_puts(&b, "text");
    nc_auto_free char *text = nc_buf_steal(&b);
    assert_string_equal(text, "text");
    assert_null(b.data);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.room, 0);
}

static void string_arrays(void **state) {
    struct nc_strv s = NC_STRV_INIT;
    (void)state;

    assert_false(nc_strv_contains(&s, "a"));
    for (int i = 0; i < 40; i++) {
        nc_strv_addf(&s, "%d", i);
        assert_int_equal(s.n, i + 1);
        assert_null(s.v[s.n]);
    }
    nc_strv_add(&s, "a");
    nc_strv_push(&s, nc_strdup("b"));
    assert_true(nc_strv_contains(&s, "a"));
    assert_true(nc_strv_contains(&s, "b"));
    assert_true(nc_strv_contains(&s, "39"));
    assert_false(nc_strv_contains(&s, "40"));
    nc_strv_done(&s);
    assert_null(s.v);
    nc_strv_done(&s);
}

static void overflow_in_array(void) {
    nc_realloc_array(NULL, SIZE_MAX / 2, 16);
}

static void overflow_in_growth(void) {
    nc_grow(NULL, (SIZE_MAX >> 1) + 1, 1);
}

static void overflow_in_calloc(void) {
    nc_calloc(SIZE_MAX / 2, 16);
}

static void make_text(const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    nc_vasprintf(format, ap);
    va_end(ap);
}

/* Where nobody keeps to the limit (qemu's user mode) a text that cannot be made for another reason.
 */
static void no_memory_for_text(void) {
    const struct rlimit none = {0, 0};
    char *huge = nc_malloc(1 << 20);
    const char *endless = "%99999999999d";

    memset(huge, 'x', 1 << 20);
    huge[(1 << 20) - 1] = '\0';
    setrlimit(RLIMIT_AS, &none);
    if (malloc(64 << 20))
        make_text(endless, 1);
    nc_asprintf("%s%s%s%s", huge, huge, huge, huge);
}

/* An overflow of the size ends the process: it never becomes a small block. */
static void running_out_of_memory_aborts(void **state) {
    static void (*const cases[])(void) = {overflow_in_array, overflow_in_growth, overflow_in_calloc,
                                          no_memory_for_text};
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(cases); i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            const struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            close(2);
            signal(SIGABRT, SIG_DFL);
            cases[i]();
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void a_text_is_replaced_by_a_part_of_it(void **state) {
    char *text = NULL;

    (void)state;
    nc_replace_text(&text, "node-1");
    nc_replace_text(&text, text + 5);
    assert_string_equal(text, "1");
    nc_replace_text(&text, NULL);
    assert_null(text);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocation_of_nothing_is_something),
        cmocka_unit_test(strings),
        cmocka_unit_test(a_text_is_replaced_by_a_part_of_it),
        cmocka_unit_test(arrays_grow_and_are_zeroed),
        cmocka_unit_test(buffer_appends),
        cmocka_unit_test(buffer_keeps_its_cap),
        cmocka_unit_test(buffer_can_be_stolen),
        cmocka_unit_test(string_arrays),
        cmocka_unit_test(running_out_of_memory_aborts),
    };
    return run_group(tests, NULL, NULL);
}
