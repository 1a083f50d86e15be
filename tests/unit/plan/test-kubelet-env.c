/*
 * kubelet.env's value: literal lines with the words that systemd 252 makes of them, and the
 * property that whatever is written is read back.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <stdbool.h>

#include "fileset-priv.h"
#include "nc/str.h"
#include "systemd-env.h"

struct line {
    const char *line;
    const char *words; /* each in <>, or NULL: refused */
};

/* What stands on the right was given by systemd's own load_env_file() and replace_env_argv(). */
static const struct line lines[] = {
    {"", ""},
    {"   ", ""},
    {"--a=b", "<--a=b>"},
    {"--a=b  --c=d ", "<--a=b><--c=d>"},
    {"  --a=b\t--c=d\r", "<--a=b><--c=d>"},
    {"'--a=\"x y\" \"\" --b=c\\\\d'", "<--a=x y><><--b=c\\d>"},
    {"'--w='\"'\"'q r'\"'\"' z'", "<--w=q r><z>"},
    {"'--a' '--b'", "<--a--b>"},
    {"'--a'--b", "<--a--b>"},
    {"--a='q r'", "<--a=q r>"},
    {"--a=\"q r\"", "<--a=q r>"},
    {"--a=it\\\\\\'s\\ me", "<--a=it's><me>"},
    {"\"--a=\\\"x y\\\"\"", "<--a=x y>"},
    {"\"--a=\\x\\\\\\\\y\"", "<--a=x\\y>"},
    {"\"--a=\\$b\"", "<--a=$b>"},
    {"--a=#b;c", "<--a=#b;c>"},
    {"--a=b\\\\", "<--a=b>"},
    {"--a=b\\", "<--a=b>"},
    {"--a=b \\", "<--a=b>"},
    {"$\\\\ \\", "<$ >"},
    {"--labels=\"a=\xc3\xa9\"", "<--labels=a=\xc3\xa9>"},
    {"'--a", NULL},
    {"\"--a\\\"", NULL},
    {"'--a=\"b'", NULL},
    {"--a='b", NULL},
};

static char *bracket(const struct nc_strv *words) {
    struct nc_buf text = NC_BUF_INIT;

    for (size_t i = 0; i < words->n; i++)
        (void)nc_buf_printf(&text, "<%s>", words->v[i]);
    return nc_buf_steal(&text);
}

static void test_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(lines); i++) {
        nc_cleanup(nc_strv_done) struct nc_strv words = NC_STRV_INIT;
        struct nc_err err = NC_ERR_INIT;
        const int r = systemd_env_split(lines[i].line, &words, &err);
        nc_auto_free char *text = bracket(&words);
        if (!lines[i].words) {
            assert_int_equal(r, -EINVAL);
            assert_int_equal(err.class, NC_ERR_HOST);
            assert_non_null(strstr(err.msg, "kubelet.env: a "));
            continue;
        }
        if (r < 0 || !nc_streq(text, lines[i].words))
            fail_msg("%s: %s, expected %s", lines[i].line, r < 0 ? err.msg : text, lines[i].words);
    }
}

static int join(const struct nc_strv *words, struct nc_buf *out, struct nc_err *err) {
    const struct nc_strv *const lists[] = {words};

    return nc_env_join(lists, 1, out, err);
}

static void assert_join(const char *word, const char *expected) {
    nc_cleanup(nc_strv_done) struct nc_strv words = NC_STRV_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;

    nc_strv_add(&words, "--x");
    nc_strv_add(&words, word);
    assert_int_equal(join(&words, &out, NULL), 0);
    assert_string_equal(out.data, expected);
}

static void test_what_is_written(void **state) {
    (void)state;
    assert_join("--a=b,c=d:e/f.g@h%i", "--x --a=b,c=d:e/f.g@h%i");
    assert_join("--a=b c", "'--x \"--a=b c\"'");
    assert_join("", "'--x \"\"'");
    assert_join("--a=\"b\"", "'--x \"--a=\\\"b\\\"\"'");
    assert_join("--a=c\\d", "'--x \"--a=c\\\\d\"'");
    assert_join("--a=it's", "'--x \"--a=it'\"'\"'s\"'");
    assert_join("--eviction-hard=memory.available<100Mi",
                "'--x \"--eviction-hard=memory.available<100Mi\"'");
}

static void test_no_arguments(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    const struct nc_strv none = NC_STRV_INIT;

    (void)state;
    assert_int_equal(join(&none, &out, NULL), 0);
    assert_int_equal(out.len, 0);
}

static void random_status(uint64_t *seed, char word[static 24]) {
    static const char *const parts[] = {"a", "b",  "=", "-", ",", " ", "\"",
                                        "'", "\\", "$", "`", "#", ";", "%",
                                        "{", "}",  "!", "~", "*", "?", "\xc3\xa9"};
    const size_t n = prng_below(seed, 11);

    word[0] = '\0';
    for (size_t i = 0; i < n; i++)
        strcat(word, parts[prng_below(seed, NC_ARRAY_SIZE(parts))]);
}

static void test_what_is_written_is_read_back(void **state) {
    uint64_t seed = 42;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        nc_cleanup(nc_strv_done) struct nc_strv words = NC_STRV_INIT, back = NC_STRV_INIT;
        nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;
        struct nc_err err = NC_ERR_INIT;
        for (size_t n = prng_below(&seed, 6); n > 0; n--) {
            char word[24];
            random_status(&seed, word);
            nc_strv_add(&words, word);
        }
        if (join(&words, &line, &err) < 0
            || systemd_env_split(line.data ? line.data : "", &back, &err) < 0)
            fail_msg("round %d: %s", round, err.msg);
        nc_auto_free char *expected = bracket(&words), *got = bracket(&back);
        if (words.n != back.n || !nc_streq(expected, got))
            fail_msg("round %d: %s became %s by %s", round, expected, got, line.data);
    }
}

static void test_refused_names(void **state) {
    static const char *const bad[] = {"--a=b\nc",   "--a=\tb",  "--a=\rb",
                                      "--a=\x1b[m", "--a=\x7f", "--a=\xff"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad); i++) {
        nc_cleanup(nc_strv_done) struct nc_strv words = NC_STRV_INIT;
        nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
        struct nc_err err = NC_ERR_INIT;
        nc_strv_add(&words, bad[i]);
        assert_int_equal(join(&words, &out, &err), -EINVAL);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        assert_int_equal(out.len, 0);
    }
}

static void test_more_than_the_kernel_takes(void **state) {
    nc_cleanup(nc_strv_done) struct nc_strv words = NC_STRV_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    nc_auto_free char *word = nc_calloc(NC_ENV_MAX_BYTES + 1, 1);
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    memset(word, 'a', NC_ENV_MAX_BYTES);
    nc_strv_add(&words, word);
    assert_int_equal(join(&words, &out, &err), 0);
    nc_buf_clear(&out);
    nc_strv_add(&words, "");
    assert_int_equal(join(&words, &out, &err), -E2BIG);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_int_equal(out.len, 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),         cmocka_unit_test(test_what_is_written),
        cmocka_unit_test(test_no_arguments),  cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_refused_names), cmocka_unit_test(test_more_than_the_kernel_takes),
    };

    return run_group(tests, NULL, NULL);
}
