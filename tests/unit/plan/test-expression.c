/*
 * maxPodsExpression: what it computes, and what it refuses with which words.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/mem.h"

#include "numbers.h"

static const struct nc_expression_variables m5_large = {
    .default_enis = 3, .ips_per_eni = 10, .max_pods = 29, .least = 1, .most = INT32_MAX};
static const struct nc_expression_variables class_of_m5_large = {.default_enis = 3,
                                                                 .ips_per_eni = 10,
                                                                 .max_pods = 29,
                                                                 .least = INT64_MIN,
                                                                 .most = INT64_MAX,
                                                                 .vcpus = 2,
                                                                 .memory_mib = 8192,
                                                                 .instance_type = "m5.large"};

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
    bool has_no_value; /* it is an expression */
} bad[] = {
    {"", "ends too early", false},
    {"   ", "ends too early", false},
    {"1 +", "ends too early", false},
    {"(1", "')' expected", false},
    {"1)", "column 2: unexpected ')'", false},
    {"1 2", "unexpected '2'", false},
    {"foo", "unknown name 'foo'", false},
    {"max_podsx", "unknown name", false},
    {"vcpus * 2", "unknown name 'vcpus'", false},
    {"min", "'(' expected", false},
    {"min()", "unexpected ')'", false},
    {"min(1,)", "unexpected ')'", false},
    {"min(1 2)", "')' expected", false},
    {"min(true)", "needs integers", false},
    {"max(1, true)", "needs integers", false},
    {"1 / 0", "division by zero", true},
    {"1 % (max_pods - 29)", "division by zero", true},
    {"9223372036854775807 + 1", "overflow", true},
    {"-9223372036854775807 - 2", "overflow", true},
    {"-9223372036854775807 - 1", "overflow", true},
    {"4611686018427387904 * 2", "overflow", true},
    {"9223372036854775808", "number too large", false},
    {"99999999999999999999999999999999999999999", "number too large", false},
    {"10u", "only integers", false},
    {"5.", "only integers", false},
    {"1.5.2", "only integers", false},
    {"0x", "only integers", false},
    {"0x1G", "only integers", false},
    {"0x8000000000000000", "number too large", false},
    {"1e400", "number too large", false},
    {"0.9", "the result 0 is not between", true},
    {"int(1e30)", "out of range", true},
    {"1.0 / 0.0", "out of range", true},
    {"0.0 / 0.0", "out of range", true},
    {"max_pods * 0.9", "mixes an integer and a fraction", false},
    {"max(1, 2.0)", "mixes", false},
    {"5.5 % 2.0", "'%' needs integers", false},
    {"max_pods > 20.5 ? 1 : 2", "cannot compare", false},
    {"1 == 1.0 ? 1 : 2", "cannot compare", false},
    {"true ? 1 : 2.0", "one kind", false},
    {"int(true)", "needs integers", false},
    {"int(1, 2)", "')' expected", false},
    {"double", "'(' expected", false},
    {"/ 2", "unexpected '/'", false},
    {"// nothing", "ends too early", false},
    {"true", "true or false", false},
    {"max_pods > 5", "true or false", false},
    {"0", "not between", true},
    {"-1", "not between", true},
    {"2147483648", "not between", true},
    {"1 < 2 < 3 ? 1 : 2", "chained", false},
    {"1 == true ? 1 : 2", "cannot compare", false},
    {"true < false ? 1 : 2", "cannot compare", false},
    {"1 ? 2 : 3", "'?' needs true or false", false},
    {"true ? 1", "':' expected", false},
    {"true ? 1 : false", "one kind", false},
    {"1 && true ? 1 : 2", "both sides", false},
    {"true && 1 ? 1 : 2", "both sides", false},
    {"false && 1 ? 1 : 2", "both sides", false},
    {"!5", "'!' needs", false},
    {"-true", "'-' needs", false},
    {"!-true", "do not mix", false},
    {"true + 1", "needs integers", false},
    {"1 = 1 ? 1 : 2", "unexpected '='", false},
    {"max_pods; 1", "unexpected ';'", false},
    {"\"a\"", "unexpected '\"'", false},
    {"max_pods.size()", "unexpected '.'", false},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad); i++) {
        int64_t v = 77;
        char why[256] = "";
        const int r = nc_expression_evaluate(bad[i].text, &m5_large, &v, why, sizeof(why));
        if (r != (bad[i].has_no_value ? -ERANGE : -EINVAL))
            fail_msg("%s gives %d, %lld", bad[i].text, r, (long long)v);
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

/* Of a NodeClass, as karpenter-provider-aws 1.15 computes them (tests/conformance). */
static const struct {
    const char *text;
    int64_t value;
} of_a_class[] = {
    {"vcpus * 30", 60},
    {"memory_mib / 100", 81},
    {"110", 110},
    {"max(60, vcpus * 30)", 60},
    {"max(vcpus, 60.5)", 60},
    {"min(110.5, max_pods)", 29},
    {"min(double(vcpus), 1.5)", 1},
    {"-2.9", -2},
    {"vcpus - 100", -98},
    {"instance_type == \"m5.large\" ? 1 : 2", 1},
    {"instance_type != 'm5.large' ? 1 : 2", 2},
    {"instance_type < \"m6\" && instance_type >= \"m5\" ? 1 : 2", 1},
    {"instance_type.startsWith(\"m5\") ? 1 : 2", 1},
    {"instance_type.endsWith('.metal') ? 1 : 2", 2},
    {"instance_type.contains(\"5.l\") ? 1 : 2", 1},
    {"instance_type.matches(\"^[cm]5\\\\.(x?large|metal)$\") ? 1 : 2", 1},
    {"instance_type.matches(r'^m5\\.large$') ? 1 : 2", 1},
    {"matches(instance_type, \"^c\") ? 1 : 2", 2},
    {"instance_type.size()", 8},
    {"size(instance_type) + size('\xc3\xbc')", 9},
    {"instance_type in [\"c5.large\", \"m5.large\"] ? 1 : 2", 1},
    {"vcpus in [4, 8] ? 1 : 2", 2},
    {"instance_type + \"x\" == 'm5.largex' ? 1 : 2", 1},
    {"('a' + \"b\").size() * vcpus", 4},
    {"\"\\\"\" == '\"' ? 1 : 2", 1},
    /* Either side decides, whatever the other one is. */
    {"1 / 0 > 0 || true ? 1 : 2", 1},
    {"1 / 0 > 0 && false ? 1 : 2", 2},
    {"true ? 1 : 1 / 0", 1},
};

static void test_class(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(of_a_class); i++) {
        int64_t v = -1;
        char why[256] = "";
        if (nc_expression_evaluate(of_a_class[i].text, &class_of_m5_large, &v, why, sizeof(why)) < 0
            || v != of_a_class[i].value)
            fail_msg("%s: %lld instead of %lld (%s)", of_a_class[i].text, (long long)v,
                     (long long)of_a_class[i].value, why);
    }
}

static const struct {
    const char *text, *why;
    bool has_no_value;
} bad_of_a_class[] = {
    {"min(1, 2, 3)", "needs two numbers", false},
    {"min(1)", "needs two numbers", false},
    {"cpus", "unknown name 'cpus': vcpus, memory_mib, instance_type, ", false},
    {"instance_type", "the result is a text", false},
    {"instance_type + 1", "needs integers", false},
    {"instance_type == 1 ? 1 : 2", "cannot compare", false},
    {"instance_type in [1] ? 1 : 2", "cannot compare", false},
    {"instance_type in 'a' ? 1 : 2", "'[' expected", false},
    {"instance_type.upper()", "unknown function 'upper'", false},
    {"instance_type.size(1)", "size() needs a text", false},
    {"instance_type.contains(1) ? 1 : 2", "contains() needs two texts", false},
    {"vcpus.contains('a') ? 1 : 2", "contains() needs two texts", false},
    {"size(1)", "size() needs a text", false},
    {"instance_type == \"m5", "ends with the quote", false},
    {"instance_type == \"\"\"m5\"\"\" ? 1 : 2", "ends with the quote", false},
    {"instance_type == \"\\x41\" ? 1 : 2", "escape", false},
    {"instance_type.matches(\"(?i)M5\") ? 1 : 2", "make a pattern here", false},
    {"instance_type.matches(r\"\\d\") ? 1 : 2", "make a pattern here", false},
    {"instance_type.matches(\"m{2}\") ? 1 : 2", "make a pattern here", false},
    {"instance_type.matches(\"a**\") ? 1 : 2", "make a pattern here", false},
    {"instance_type.matches(\"(\") ? 1 : 2", "make a pattern here", false},
    {"vcpus < 2.5 ? 1 : 2", "cannot compare", false},
    {"vcpus * 1.5", "mixes", false},
    {"1 / 0 > 0 || false ? 1 : 2", "division by zero", true},
    {"1 / 0 > 0 ? 1 : 2", "division by zero", true},
    {"vcpus / (vcpus - 2)", "column 20: division by zero", true},
    {"double(vcpus) / 0.0", "out of range", true},
    {"max(1 / 0, 2.5)", "division by zero", true},
};

static void test_bad_class(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad_of_a_class); i++) {
        int64_t v = 77;
        char why[256] = "";
        const int r = nc_expression_evaluate(bad_of_a_class[i].text, &class_of_m5_large, &v, why,
                                             sizeof(why));
        if (r != (bad_of_a_class[i].has_no_value ? -ERANGE : -EINVAL))
            fail_msg("%s gives %d, %lld", bad_of_a_class[i].text, r, (long long)v);
        if (!strstr(why, bad_of_a_class[i].why))
            fail_msg("%s: \"%s\" instead of \"%s\"", bad_of_a_class[i].text, why,
                     bad_of_a_class[i].why);
        assert_int_equal(v, 77);
    }
}

/* Only the text counts: what depends on the type's numbers is no error of it. */
static void test_no_value(void **state) {
    static const char *const fine[] = {"1 / (max_pods - 29)",
                                       "max_pods - 100",
                                       "9223372036854775807 * default_enis",
                                       "1 / 0",
                                       "int(1e30 * double(max_pods))",
                                       "max_pods > 50 ? 1 : 0"};
    static const char *const wrong[] = {"vcpus * 2", "true ? 1 : vcpus", "max_pods > 5",
                                        "1 / 0 + vcpus"};
    char why[256];
    int64_t v;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(fine); i++)
        assert_int_equal(nc_expression_evaluate(fine[i], &m5_large, &v, why, sizeof(why)), -ERANGE);
    for (size_t i = 0; i < NC_ARRAY_SIZE(wrong); i++)
        assert_int_equal(nc_expression_evaluate(wrong[i], &m5_large, &v, why, sizeof(why)),
                         -EINVAL);
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
        cmocka_unit_test(test_good),     cmocka_unit_test(test_bad),
        cmocka_unit_test(test_class),    cmocka_unit_test(test_bad_class),
        cmocka_unit_test(test_no_value), cmocka_unit_test(test_bounds),
    };

    return run_group(tests, NULL, NULL);
}
