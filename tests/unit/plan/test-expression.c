/*
 * maxPodsExpression: what it computes, and what it refuses with which words.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/mem.h"

#include "numbers.h"

static const struct nc_expression_variables m5_large = {3, 10, 29};

static const struct {
    const char *text;
    int64_t value;
} good[] = {
    {"max_pods", 29},
    {"default_enis * (ips_per_eni - 1) + 2", 29},
    {"(default_enis - 1) * (ips_per_eni - 1) + 2", 20},
    {"default_enis*(ips_per_eni-1)*16+2", 434},
    {"min(110, default_enis * (ips_per_eni - 1) * 16 + 2)", 110},
    {"max(1, 2, 3, max_pods)", 29},
    {"min(max_pods)", 29},
    {"max_pods > 20 ? 20 : max_pods", 20},
    {"max_pods < 20 ? 1 : max_pods < 30 ? 2 : 3", 2},
    {"1 + 2 * 3", 7},
    {"(1 + 2) * 3", 9},
    {"10 - 4 - 3", 3},
    {"100 / 7", 14},
    {"100 % 7", 2},
    {"2 * 3 % 4", 2},
    {"--5", 5},
    {"-5 + 10", 5},
    {"5 - -5", 10},
    {"  7  ", 7},
    {"\t7\n", 7},
    {"true ? 1 : 2", 1},
    {"!true ? 1 : 2", 2},
    {"!!true ? 1 : 2", 1},
    {"!(max_pods == 29) ? 1 : 2", 2},
    {"max_pods != 29 ? 1 : 2", 2},
    {"max_pods == 29 ? 1 : 2", 1},
    {"max_pods <= 29 ? 1 : 2", 1},
    {"max_pods >= 30 ? 1 : 2", 2},
    {"true == false ? 1 : 2", 2},
    {"true != false ? 1 : 2", 1},
    {"max_pods > 1 && max_pods < 100 ? 1 : 2", 1},
    {"max_pods > 100 || max_pods < 30 ? 1 : 2", 1},
    {"false && 1 / 0 == 1 ? 1 : 2", 2},
    {"true || 1 / 0 == 1 ? 1 : 2", 1},
    {"false || true && false ? 1 : 2", 2},
    {"true ? 1 : 1 / 0", 1},
    {"false ? 9223372036854775807 * 2 : 3", 3},
    {"true ? false ? 1 : 2 : 3", 2},
    {"2147483647", 2147483647},
    {"min(3, max(1, 2))", 2},
    {"(((((7)))))", 7},
    /* Fractions do not mix with integers, and the result is cut off, as cel-go does. */
    {"int(double(max_pods) * 0.9)", 26},
    {"double(max_pods) * 0.9", 26},
    {"1.5", 1},
    {"1.5e1", 15},
    {".5e1", 5},
    {"1e-1+5.0", 5},
    {"int(2.9)", 2},
    {"int(-2.9) + 10", 8},
    {"int(5)", 5},
    {"double(2.5)", 2},
    {"-2.5 + 10.0", 7},
    {"--2.5", 2},
    {"2147483647.9", 2147483647},
    {"1.0 / 0.0 > 5.0 ? 1 : 2", 1},
    {"0.0/0.0 == 0.0/0.0 ? 1 : 2", 2},
    {"0.0/0.0 != 0.0/0.0 ? 1 : 2", 1},
    {"0.0/0.0 >= 0.0 || 0.0/0.0 < 0.0 ? 1 : 2", 2},
    {"2.5 >= 2.5 && 2.5 <= 2.6 ? 1 : 2", 1},
    {"max(1.5, 3.5, 2.5)", 3},
    {"true ? 5 : int(1e30)", 5},
    {"0x10", 16},
    {"-0x1F + 32", 1},
    {"max_pods // of the type\n - 1 // without ours", 28},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(good); i++) {
        int64_t v = -1;
        char why[256] = "";
        if (nc_expression_evaluate(good[i].text, &m5_large, &v, why, sizeof(why)) < 0
            || v != good[i].value)
            fail_msg("%s: %lld instead of %lld (%s)", good[i].text, (long long)v,
                     (long long)good[i].value, why);
    }
}

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "ends too early"},
    {"   ", "ends too early"},
    {"1 +", "ends too early"},
    {"(1", "')' expected"},
    {"1)", "column 2: unexpected ')'"},
    {"1 2", "unexpected '2'"},
    {"foo", "unknown name 'foo'"},
    {"max_podsx", "unknown name"},
    {"vcpus * 2", "unknown name 'vcpus'"},
    {"min", "'(' expected"},
    {"min()", "unexpected ')'"},
    {"min(1,)", "unexpected ')'"},
    {"min(1 2)", "')' expected"},
    {"min(true)", "needs integers"},
    {"max(1, true)", "needs integers"},
    {"1 / 0", "division by zero"},
    {"1 % (max_pods - 29)", "division by zero"},
    {"9223372036854775807 + 1", "overflow"},
    {"-9223372036854775807 - 2", "overflow"},
    {"-9223372036854775807 - 1", "overflow"},
    {"4611686018427387904 * 2", "overflow"},
    {"9223372036854775808", "number too large"},
    {"99999999999999999999999999999999999999999", "number too large"},
    {"10u", "only integers"},
    {"5.", "only integers"},
    {"1.5.2", "only integers"},
    {"0x", "only integers"},
    {"0x1G", "only integers"},
    {"0x8000000000000000", "number too large"},
    {"1e400", "number too large"},
    {"0.9", "the result 0 is not between"},
    {"int(1e30)", "out of range"},
    {"1.0 / 0.0", "out of range"},
    {"0.0 / 0.0", "out of range"},
    {"max_pods * 0.9", "mixes an integer and a fraction"},
    {"max(1, 2.0)", "mixes"},
    {"5.5 % 2.0", "'%' needs integers"},
    {"max_pods > 20.5 ? 1 : 2", "cannot compare"},
    {"1 == 1.0 ? 1 : 2", "cannot compare"},
    {"true ? 1 : 2.0", "one kind"},
    {"int(true)", "needs integers"},
    {"int(1, 2)", "')' expected"},
    {"double", "'(' expected"},
    {"/ 2", "unexpected '/'"},
    {"// nothing", "ends too early"},
    {"true", "true or false"},
    {"max_pods > 5", "true or false"},
    {"0", "not between"},
    {"-1", "not between"},
    {"2147483648", "not between"},
    {"1 < 2 < 3 ? 1 : 2", "chained"},
    {"1 == true ? 1 : 2", "cannot compare"},
    {"true < false ? 1 : 2", "cannot compare"},
    {"1 ? 2 : 3", "'?' needs true or false"},
    {"true ? 1", "':' expected"},
    {"true ? 1 : false", "one kind"},
    {"1 && true ? 1 : 2", "both sides"},
    {"true && 1 ? 1 : 2", "both sides"},
    {"false && 1 ? 1 : 2", "both sides"},
    {"!5", "'!' needs"},
    {"-true", "'-' needs"},
    {"!-true", "do not mix"},
    {"true + 1", "needs integers"},
    {"1 = 1 ? 1 : 2", "unexpected '='"},
    {"max_pods; 1", "unexpected ';'"},
    {"\"a\"", "unexpected '\"'"},
    {"max_pods.size()", "unexpected '.'"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad); i++) {
        int64_t v = 77;
        char why[256] = "";
        if (nc_expression_evaluate(bad[i].text, &m5_large, &v, why, sizeof(why)) != -EINVAL)
            fail_msg("%s gives %lld", bad[i].text, (long long)v);
        if (!strstr(why, bad[i].why))
            fail_msg("%s: \"%s\" instead of \"%s\"", bad[i].text, why, bad[i].why);
        assert_int_equal(v, 77);
    }
}

static char *repeated(const char *open, size_t n, const char *middle, const char *close) {
    struct nc_buf b = NC_BUF_INIT;

    for (size_t i = 0; i < n; i++)
        nc_buf_puts(&b, open);
    nc_buf_puts(&b, middle);
    for (size_t i = 0; i < n; i++)
        nc_buf_puts(&b, close);
    return nc_buf_steal(&b);
}

/* Only the text counts: what depends on the type's numbers is no error of it. */
static void test_check(void **state) {
    static const char *const fine[] = {"1 / (max_pods - 29)",
                                       "max_pods - 100",
                                       "9223372036854775807 * default_enis",
                                       "1 / 0",
                                       "int(1e30 * double(max_pods))",
                                       "max_pods > 5 ? 1 : 0"};
    char why[256];

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(fine); i++)
        assert_int_equal(nc_expression_check(fine[i], why, sizeof(why)), 0);
    assert_int_equal(nc_expression_check("vcpus * 2", why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "column 1: unknown name 'vcpus'"));
    assert_int_equal(nc_expression_check("true ? 1 : vcpus", why, sizeof(why)), -EINVAL);
    assert_int_equal(nc_expression_check("max_pods > 5", why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "true or false"));
}

static void test_bounds(void **state) {
    nc_auto_free char *deep = repeated("(", 100, "1", ")"), *fine = repeated("(", 50, "1", ")");
    nc_auto_free char *dashes = repeated("-", 2000, "1", ""),
                      *lengthy = repeated("1+", 3000, "1", "");
    nc_auto_free char *choices = repeated("true?1:", 100, "1", "");
    int64_t v;
    char why[256];

    (void)state;
    assert_int_equal(nc_expression_evaluate(fine, &m5_large, &v, why, sizeof(why)), 0);
    assert_int_equal(nc_expression_evaluate(deep, &m5_large, &v, why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "too deeply"));
    assert_int_equal(nc_expression_evaluate(choices, &m5_large, &v, why, sizeof(why)), -EINVAL);
    assert_int_equal(nc_expression_evaluate(dashes, &m5_large, &v, why, sizeof(why)), 0);
    assert_int_equal(v, 1);
    assert_int_equal(nc_expression_evaluate(lengthy, &m5_large, &v, why, sizeof(why)), -EINVAL);
    assert_non_null(strstr(why, "longer than"));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_bounds),
    };

    return run_group(tests, NULL, NULL);
}
