/*
 * Quantities: parsing against apimachinery's rules, rounding, overflow, the canonical text, and
 * format∘parse as a property.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <inttypes.h>

#include "nc/mem.h"
#include "nc/quantity.h"

#define BAD INT64_MIN
#define RANGE (INT64_MIN + 1)

struct row {
    const char *text;
    int64_t milli, value; /* BAD: -EINVAL, RANGE: -ERANGE */
};

/* Values as k8s.io/apimachinery/pkg/api/resource gives them (MilliValue, Value); where it caps or
 * wraps we say -ERANGE. */
static const struct row rows[] = {
    {"0", 0, 0},
    {"1", 1000, 1},
    {"1930m", 1930, 2},
    {"100m", 100, 1},
    {"0.1", 100, 1},
    {"0.0001", 1, 1},
    {"1n", 1, 1},
    {"1u", 1, 1},
    {"1500000n", 2, 1},
    {"1000001u", 1001, 2},
    {"+5", 5000, 5},
    {"-5", -5000, -5},
    {"-1.5", -1500, -2},
    {"5.", 5000, 5},
    {".5", 500, 1},
    {"00012", 12000, 12},
    {"0.0", 0, 0},
    {"-0", 0, 0},
    {"1k", 1000000, 1000},
    {"2M", 2000000000, 2000000},
    {"3G", 3000000000000, 3000000000},
    {"1T", 1000000000000000, 1000000000000},
    {"1P", 1000000000000000000, 1000000000000000},
    {"1E", RANGE, 1000000000000000000},
    {"9E", RANGE, 9000000000000000000},
    {"10E", RANGE, RANGE},
    {"1Ki", 1024000, 1024},
    {"6903Mi", 7238320128000, 7238320128},
    {"17Gi", 18253611008000, 18253611008},
    {"1Ti", 1099511627776000, 1099511627776},
    {"1Pi", 1125899906842624000, 1125899906842624},
    {"1Ei", RANGE, 1152921504606846976},
    {"7Ei", RANGE, 8070450532247928832},
    {"8Ei", RANGE, RANGE},
    {"1.5Gi", 1610612736000, 1610612736},
    {"0.3Mi", 314572800, 314573},
    {"1.1Ki", 1126400, 1127},
    {"0.00000000000000000001Ei", 12, 1},
    {"0.0000000000000000000000000000000000000000000000001Ei", 1, 1},
    {"3.14159265358979323846264338327950288419716939937510Ki", 3216991, 3217},
    {"123456789012345678901234567890123456789012n", RANGE, RANGE},
    {"9223372036854775807", RANGE, 9223372036854775807},
    {"9223372036854775808", RANGE, RANGE},
    {"9223372036854775.807", 9223372036854775807, 9223372036854776},
    {"9223372036854775.8070001", RANGE, 9223372036854776},
    {"-9223372036854775806", RANGE, -9223372036854775806},
    {"2.1e+09", 2100000000000, 2100000000},
    {"1e3", 1000000, 1000},
    {"1E3", 1000000, 1000},
    {"1e-3", 1, 1},
    {"12e-1", 1200, 2},
    {"5e0", 5000, 5},
    {"1e18", RANGE, 1000000000000000000},
    {"1e19", RANGE, RANGE},
    {"1e400", RANGE, RANGE},
    {"1e99999999999999999999", RANGE, RANGE},
    {"1e-99999999999999999999", 1, 1},
    {"0e99999999999", 0, 0},
    {"2147483648", 2147483648000, 2147483648},
    {"0.0000000000000000000000000000000000000000000000000000000000000000000000000000001", 1, 1},
    {"1000000000000000000000000000000000000000n", RANGE, RANGE},
    {"1000000000000000000000000000n", RANGE, 1000000000000000000},
    {"1000000000000000000000000000000000000000000000000e-40", 100000000000, 100000000},
    {"", BAD, BAD},
    {" 1", BAD, BAD},
    {"1 ", BAD, BAD},
    {"+", BAD, BAD},
    {"-", BAD, BAD},
    {".", BAD, BAD},
    {"m", BAD, BAD},
    {"Mi", BAD, BAD},
    {"--1", BAD, BAD},
    {"1..2", BAD, BAD},
    {"1.2.3", BAD, BAD},
    {"1mi", BAD, BAD},
    {"1KI", BAD, BAD},
    {"1ki", BAD, BAD},
    {"1i", BAD, BAD},
    {"1MiB", BAD, BAD},
    {"1e", BAD, BAD},
    {"1e+", BAD, BAD},
    {"1e1.5", BAD, BAD},
    {"1E-", BAD, BAD},
    {"1e3Mi", BAD, BAD},
    {"0x10", BAD, BAD},
    {"1,000", BAD, BAD},
    {"infinity", BAD, BAD},
    {"NaN", BAD, BAD},
};

static void check(const char *text, const char *what, int64_t expected, int r, int64_t got) {
    int want = expected == BAD ? -EINVAL : expected == RANGE ? -ERANGE : 0;

    if (r != want || (want == 0 && got != expected))
        fail_msg("%s of \"%s\": %d %" PRId64 " instead of %d %" PRId64, what, text, r, got, want,
                 expected);
}

static void test_parse(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        int64_t v = 77;
        int r = nc_quantity_milli(rows[i].text, &v);
        check(rows[i].text, "milli", rows[i].milli, r, v);
        if (r < 0)
            assert_int_equal(v, 77);
        r = nc_quantity_value(rows[i].text, &v);
        check(rows[i].text, "value", rows[i].value, r, v);
    }
    assert_int_equal(nc_quantity_milli(NULL, &(int64_t){0}), -EINVAL);
}

static void test_too_long(void **state) {
    nc_auto_free char *text = nc_malloc(6000);
    int64_t v;

    (void)state;
    memset(text, '0', 5999);
    text[5999] = '\0';
    assert_int_equal(nc_quantity_value(text, &v), -EINVAL);
    text[4000] = '\0';
    assert_int_equal(nc_quantity_value(text, &v), 0);
    assert_int_equal(v, 0);
}

static void test_of_values(void **state) {
    nc_auto_value struct nc_value *i = nc_value_new_int(3), *s = nc_value_new_string("1500m");
    nc_auto_value struct nc_value *b = nc_value_new_bool(true), *m = nc_value_new_map();
    nc_auto_value struct nc_value *null = nc_value_new(NC_VALUE_NULL),
                                  *f = nc_value_new(NC_VALUE_FLOAT);
    nc_auto_value struct nc_value *large = nc_value_new_string("9E");
    int64_t milli = 0, value = 0;

    (void)state;
    f->text = nc_strdup("2.1e+09");
    assert_int_equal(nc_quantity_of(i, &milli, &value), 0);
    assert_int_equal(milli, 3000);
    assert_int_equal(value, 3);
    assert_int_equal(nc_quantity_of(s, &milli, &value), 0);
    assert_int_equal(milli, 1500);
    assert_int_equal(value, 2);
    assert_int_equal(nc_quantity_of(f, NULL, &value), 0);
    assert_int_equal(value, 2100000000);
    assert_int_equal(nc_quantity_of(b, &milli, &value), -EINVAL);
    assert_int_equal(nc_quantity_of(m, &milli, &value), -EINVAL);
    assert_int_equal(nc_quantity_of(null, &milli, &value), -EINVAL);
    assert_int_equal(nc_quantity_of(NULL, &milli, &value), -EINVAL);
    assert_int_equal(nc_quantity_of(large, NULL, &value), 0);
    value = 5;
    assert_int_equal(nc_quantity_of(large, &milli, &value), -ERANGE);
    assert_int_equal(value, 5); /* nothing is written on failure */
}

static void test_format(void **state) {
    static const struct {
        int64_t v;
        const char *milli, *bytes;
    } texts[] = {
        {0, "0", "0"},
        {1, "1m", "1"},
        {1930, "1930m", "1930"},
        {2000, "2", "2000"},
        {2000000, "2k", "2000000"},
        {1000, "1", "1k"},
        {1023, "1023m", "1023"},
        {1024, "1024m", "1Ki"},
        {-1500, "-1500m", "-1500"},
        {-2048, "-2048m", "-2Ki"},
        {1000000000000000000, "1P", "976562500000000Ki"},
        {7238320128, "7238320128m", "6903Mi"},
        {18253611008, "18253611008m", "17Gi"},
        {3563690393, "3563690393m", "3563690393"},
        {(int64_t)1 << 60, "1152921504606846976m", "1Ei"},
        {INT64_MAX, "9223372036854775807m", "9223372036854775807"},
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++) {
        nc_quantity_format_milli(texts[i].v, text);
        assert_string_equal(text, texts[i].milli);
        nc_quantity_format_bytes(texts[i].v, text);
        assert_string_equal(text, texts[i].bytes);
    }
}

/* format∘parse is the identity on numbers, parse∘format∘parse on texts; rounding is upwards and by
 * less than one. */
static void test_properties(void **state) {
    const char *text = getenv("NC_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 20260101, rng = seed;

    (void)state;
    print_message("# NC_SEED=%" PRIu64 "\n", seed);
    for (int i = 0; i < 200000; i++) {
        int64_t v = (int64_t)(prng_next(&rng) >> (1 + prng_below(&rng, 62))), milli, value, back;
        char t[32], n[32];

        if (prng_next(&rng) & 1)
            v = -v;
        nc_quantity_format_milli(v, t);
        assert_int_equal(nc_quantity_milli(t, &back), 0);
        assert_int_equal(back, v);
        nc_quantity_format_bytes(v, t);
        assert_int_equal(nc_quantity_value(t, &back), 0);
        assert_int_equal(back, v);
        snprintf(n, sizeof(n), "%" PRId64 "n", v < 0 ? -v : v);
        assert_int_equal(nc_quantity_milli(n, &milli), 0);
        assert_int_equal(nc_quantity_value(n, &value), 0);
        assert_true((__int128)milli * 1000000 >= (v < 0 ? -v : v));
        assert_true((__int128)(milli - 1) * 1000000 < (v < 0 ? -v : v) || v == 0);
        assert_true((__int128)value * 1000 >= milli);
        assert_true((__int128)(value - 1) * 1000 < milli || v == 0);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),      cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_of_values),  cmocka_unit_test(test_format),
        cmocka_unit_test(test_properties),
    };

    return run_group(tests, NULL, NULL);
}
