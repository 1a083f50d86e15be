/*
 * Text: predicates, strict numbers, quoting, nearest names, base64, times and durations.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/encode.h"
#include "nc/str.h"
#include "nc/time.h"

static void predicates(void **state) {
    (void)state;
    assert_true(nc_streq("a", "a"));
    assert_false(nc_streq("a", "b"));
    assert_true(nc_streq(NULL, NULL));
    assert_false(nc_streq(NULL, ""));
    assert_false(nc_streq("", NULL));
    assert_true(nc_starts_with("abc", "ab"));
    assert_true(nc_starts_with("abc", ""));
    assert_false(nc_starts_with("ab", "abc"));
    assert_false(nc_starts_with(NULL, "a"));
    assert_true(nc_ends_with("abc", "bc"));
    assert_true(nc_ends_with("abc", ""));
    assert_false(nc_ends_with("bc", "abc"));
    assert_false(nc_ends_with("abc", NULL));
}

static void text(void **state) {
    static const struct {
        const char *data;
        size_t n;
        bool is_text;
    } rows[] = {
        {"", 0, true},
        {"plain\ttext\r\n", 12, true},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", 15, true},
        {"a\0b", 3, false},
        {"\x1b[31m", 5, false},
        {"\x7f", 1, false},
        {"\xc2\x85", 2, false},         /* C1 control */
        {"\xc0\x80", 2, false},         /* overlong NUL */
        {"\xe0\x80\xaf", 3, false},     /* overlong slash */
        {"\xf0\x80\x80\xaf", 4, false}, /* overlong slash */
        {"\xed\xa0\x80", 3, false},     /* surrogate */
        {"\xf4\x90\x80\x80", 4, false}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 4, false},
        {"\xe2\x82", 2, false}, /* cut */
        {"\xe2\x82z", 3, false},
        {"\x80", 1, false},
        {"\xff", 1, false},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        assert_int_equal(nc_is_text(rows[i].data, rows[i].n), rows[i].is_text);
}

static void unsigned_numbers(void **state) {
    static const struct {
        const char *s;
        int r;
        uint64_t v;
    } rows[] = {
        {"0", 0, 0},
        {"007", 0, 7},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {NULL, -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"1x", -EINVAL, 0},
        {"0x1", -EINVAL, 0},
        {"99999999999999999999x", -EINVAL, 0},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        uint64_t v = 42;
        assert_int_equal(nc_parse_u64(rows[i].s, &v), rows[i].r);
        assert_true(v == (rows[i].r ? 42 : rows[i].v));
    }
}

static void signed_numbers(void **state) {
    static const struct {
        const char *s;
        int r;
        int64_t v;
    } rows[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"-7", 0, -7},
        {"9223372036854775807", 0, INT64_MAX},
        {"9223372036854775808", -ERANGE, 0},
        {"-9223372036854775808", 0, INT64_MIN},
        {"-9223372036854775809", -ERANGE, 0},
        {"-", -EINVAL, 0},
        {"--1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {"", -EINVAL, 0},
        {NULL, -EINVAL, 0},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        int64_t v = 42;
        assert_int_equal(nc_parse_i64(rows[i].s, &v), rows[i].r);
        assert_true(v == (rows[i].r ? 42 : rows[i].v));
    }
}

static void quoting(void **state) {
    static const struct {
        const char *data;
        size_t n;
        const char *quoted;
    } rows[] = {
        {"", 0, "''"},
        {"plain", 5, "'plain'"},
        {"it's \\ \n\r\t", 10, "'it\\'s \\\\ \\n\\r\\t'"},
        {"a\0b\x1b[0m", 7, "'a\\x00b\\x1b[0m'"},
        {"\x7f", 1, "'\\x7f'"},
        {"\xff\xfe", 2, "'\\xff\\xfe'"},
        {"gr\xc3\xbc\xc3\x9f", 6, "'gr\xc3\xbc\xc3\x9f'"},
        {"\xc2\x9b", 2, "'\\u009b'"},
        {"\xd8\x9c", 2, "'\\u061c'"},
        {"\xe2\x80\xae", 3, "'\\u202e'"}, /* right-to-left override */
        {"\xe2\x80\x8b", 3, "'\\u200b'"}, /* zero-width space */
        {"\xe2\x81\xa6", 3, "'\\u2066'"},
        {"\xef\xbb\xbf", 3, "'\\ufeff'"},
    };
    char long_text[200];
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *quoted = nc_quote(rows[i].data, rows[i].n);
        assert_string_equal(quoted, rows[i].quoted);
    }
    memset(long_text, 'a', sizeof(long_text));
    nc_auto_free char *fits = nc_quote(long_text, 80);
    assert_int_equal(strlen(fits), 82);
    nc_auto_free char *cut = nc_quote(long_text, 81);
    assert_int_equal(strlen(cut), 1 + 80 + strlen("…'"));
    assert_string_equal(cut + 81, "…'");
    nc_auto_free char *shown = nc_printable("it's \\ '\x1b[2J'\n\xff\xe2\x80\xae…");
    assert_string_equal(shown, "it's \\ '\\x1b[2J'\\n\\xff\\u202e…");
    nc_auto_free char *empty = nc_printable("");
    assert_string_equal(empty, "");
}

static void trimming(void **state) {
    static const char *const rows[][2] = {
        {"", ""}, {" \t\r\n\v\f", ""}, {"a", "a"}, {"  a b\n", "a b"}, {"a ", "a"}, {" a", "a"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *s = nc_strdup(rows[i][0]);
        assert_ptr_equal(nc_trim(s), s);
        assert_string_equal(s, rows[i][1]);
    }
}

static void nearest_names(void **state) {
    char long_name[80];
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    static const char names[] =
        "a-name-that-is-longer-than-sixty-four-characters-and-is-therefore-left-alone\0"
        "maxPods\0clusterDNS\0kubeReserved\0name\0off\0";
    static const char *const rows[][2] = {
        {"maxPod", "maxPods"},
        {"MAXPODS", "maxPods"},
        {"maxPdos", "maxPods"},
        {"naem", "name"},
        {"nema", NULL}, /* no neighbours */
        {"clusterDns", "clusterDNS"},
        {"kubReservd", "kubeReserved"},
        {"nam", "name"},
        {"completely", NULL},
        {"", NULL},
        {"ab", NULL},
        {"of", "off"},
        {"o", NULL},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *nearest = nc_nearest(rows[i][0], names);
        if (rows[i][1])
            assert_string_equal(nearest, rows[i][1]);
        else
            assert_null(nearest);
    }
    assert_null(nc_nearest(long_name, names));
    assert_null(nc_nearest("a", ""));
    assert_null(nc_nearest("a", NULL));
}

static void base64_decoding(void **state) {
    static const struct {
        const char *s;
        int r;
        const char *decoded;
    } rows[] = {
        {"", 0, ""},
        {"Zg==", 0, "f"},
        {"Zm8=", 0, "fo"},
        {"Zm9v", 0, "foo"},
        {"Zm9vYmFy", 0, "foobar"},
        {"Zg", 0, "f"},
        {"Zm8", 0, "fo"},
        {"Zm9v\r\nYmFy\n", 0, "foobar"},
        {"Zg=\n=", 0, "f"},
        {"+/+/", 0, "\xfb\xff\xbf"},
        {"Z", -EINVAL, NULL},
        {"Zm9vY", -EINVAL, NULL},
        {"Zg=", -EINVAL, NULL},
        {"Zg===", -EINVAL, NULL},
        {"=", -EINVAL, NULL},
        {"Z===", -EINVAL, NULL},
        {"Zm9v=", -EINVAL, NULL},
        {"Zg==Zg==", -EINVAL, NULL},
        {"Zg==Zm9v", -EINVAL, NULL},
        {"Zg==Zm", -EINVAL, NULL},
        {"Zm8=v", -EINVAL, NULL},
        {"Zh==", -EINVAL, NULL}, /* bits that no encoder sets */
        {"Zm9=", -EINVAL, NULL},
        {"Zm 9v", -EINVAL, NULL},
        {"Zm-_", -EINVAL, NULL},
        {"Zm9v!", -EINVAL, NULL},
        {"\xc3\xbc", -EINVAL, NULL},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_buf b = NC_BUF_INIT;
        nc_buf_puts(&b, "kept");
        assert_int_equal(nc_base64_decode(rows[i].s, strlen(rows[i].s), &b), rows[i].r);
        assert_memory_equal(b.data, "kept", 4);
        assert_string_equal(b.data + 4, rows[i].decoded ? rows[i].decoded : "");
        nc_buf_done(&b);
    }
    struct nc_buf small = NC_BUF_INIT_MAX(5);
    assert_int_equal(nc_base64_decode("Zm9vYmFy", 8, &small), -EFBIG);
    assert_int_equal(small.len, 0);
    nc_buf_done(&small);
}

static void base64_encoding(void **state) {
    static const char *const rows[][3] = {
        {"", "", ""},
        {"f", "Zg==", "Zg"},
        {"fo", "Zm8=", "Zm8"},
        {"foo", "Zm9v", "Zm9v"},
        {"\xfb\xff\xbf", "+/+/", "-_-_"},
        {"\xfb\xff", "+/8=", "-_8"},
    };
    struct nc_buf small = NC_BUF_INIT_MAX(5);
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_buf b = NC_BUF_INIT;
        nc_base64_encode(rows[i][0], strlen(rows[i][0]), &b);
        assert_string_equal(b.data, rows[i][1]);
        nc_buf_clear(&b);
        nc_base64url_encode(rows[i][0], strlen(rows[i][0]), &b);
        assert_string_equal(b.data, rows[i][2]);
        nc_buf_done(&b);
    }
    nc_base64_encode("foobar", 6, &small); /* all or nothing */
    assert_int_equal(small.len, 0);
    nc_buf_done(&small);
}

#define SEC ((uint64_t)1000000)

static void times(void **state) {
    static const struct {
        const char *s;
        int r;
        uint64_t usec;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0, 0},
        {"2024-01-01T00:00:00Z", 0, 1704067200 * SEC},
        {"2024-02-29T23:59:59Z", 0, 1709251199 * SEC},
        {"2024-01-01T00:00:00.123456789Z", 0, 1704067200 * SEC},
        {"2024-01-01T01:30:00+01:30", 0, 1704067200 * SEC},
        {"2023-12-31T19:00:00-05:00", 0, 1704067200 * SEC},
        {"9999-12-31T23:59:59Z", 0, 253402300799 * SEC},
        {"1969-12-31T23:59:59Z", -ERANGE, 0},
        {"1970-01-01T00:00:00+00:01", -ERANGE, 0},
        {"2023-02-29T00:00:00Z", -EINVAL, 0},
        {"2100-02-29T00:00:00Z", -EINVAL, 0},
        {"2024-13-01T00:00:00Z", -EINVAL, 0},
        {"2024-00-01T00:00:00Z", -EINVAL, 0},
        {"2024-01-32T00:00:00Z", -EINVAL, 0},
        {"2024-01-00T00:00:00Z", -EINVAL, 0},
        {"2024-01-01T24:00:00Z", -EINVAL, 0},
        {"2024-01-01T00:60:00Z", -EINVAL, 0},
        {"2024-01-01T00:00:60Z", -EINVAL, 0},
        {"2024-01-01 00:00:00Z", -EINVAL, 0},
        {"2024-01-01T00:00:00", -EINVAL, 0},
        {"2024-01-01T00:00:00z", -EINVAL, 0},
        {"2024-01-01T00:00:00.Z", -EINVAL, 0},
        {"2024-01-01T00:00:00+24:00", -EINVAL, 0},
        {"2024-01-01T00:00:00+01:60", -EINVAL, 0},
        {"2024-01-01T00:00:00+0100", -EINVAL, 0},
        {"2024-01-01T00:00:00Zx", -EINVAL, 0},
        {"2024-01-01T00:00Z", -EINVAL, 0},
        {"2024-01-01T00-00-00Z", -EINVAL, 0},
        {"2024-01-01T0x:00:00Z", -EINVAL, 0},
        {"2024-01x01T00:00:00Z", -EINVAL, 0},
        {"2024x01-01T00:00:00Z", -EINVAL, 0},
        {"2024-01", -EINVAL, 0},
        {"24-01-01T00:00:00Z", -EINVAL, 0},
        {"2024-1-1T00:00:00Z", -EINVAL, 0},
        {"", -EINVAL, 0},
        {NULL, -EINVAL, 0},
    };
    char formatted[32];
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        uint64_t usec = 42;
        assert_int_equal(nc_time_parse(rows[i].s, &usec), rows[i].r);
        assert_true(usec == (rows[i].r ? 42 : rows[i].usec));
    }
    nc_time_format(1709251199 * SEC + 999999, formatted);
    assert_string_equal(formatted, "2024-02-29T23:59:59Z");
    nc_time_format(0, formatted);
    assert_string_equal(formatted, "1970-01-01T00:00:00Z");
    nc_time_format(UINT64_MAX, formatted);
    assert_true(nc_starts_with(formatted, "586524-"));
}

static void http_dates(void **state) {
    static const struct {
        const char *s;
        int r;
        uint64_t usec;
    } rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 0, 784111777 * SEC},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0, 0},
        {"Wed, 31 Dec 1969 23:59:59 GMT", -ERANGE, 0},
        {"Sun, 6 Nov 1994 08:49:37 GMT", -EINVAL, 0},
        {"Sun, 06 Nov 1994 08:49:37 UTC", -EINVAL, 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT ", -EINVAL, 0},
        {"Sun, 06 Nov 1994 08:49 GMT", -EINVAL, 0},
        {"Sun, 06 nov 1994 08:49:37 GMT", -EINVAL, 0},
        {"Sun, 06 No", -EINVAL, 0},
        {"Sun 06 Nov 1994 08:49:37 GMT", -EINVAL, 0},
        {"Xyz, 06 Nov 1994 08:49:37 GMT", -EINVAL, 0},
        {"Sunday, 06-Nov-94 08:49:37 GMT", -EINVAL, 0},
        {"Sun, 31 Nov 1994 08:49:37 GMT", -EINVAL, 0},
        {"Sun, 06 Nov 94 08:49:37 GMT", -EINVAL, 0},
        {"", -EINVAL, 0},
        {NULL, -EINVAL, 0},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        uint64_t usec = 42;
        assert_int_equal(nc_time_parse_http(rows[i].s, &usec), rows[i].r);
        assert_true(usec == (rows[i].r ? 42 : rows[i].usec));
    }
}

static void durations(void **state) {
    static const struct {
        const char *s;
        int r;
        uint64_t usec;
    } rows[] = {
        {"0", 0, 0},
        {"+0", 0, 0},
        {"0s", 0, 0},
        {"1h30m", 0, 5400 * SEC},
        {"2m30s", 0, 150 * SEC},
        {"500ms", 0, 500000},
        {"1.5h", 0, 5400 * SEC},
        {".5s", 0, 500000},
        {"5.s", 0, 5 * SEC},
        {"+5s", 0, 5 * SEC},
        {"1us2\xc2\xb5s3\xce\xbcs", 0, 6},
        {"1500ns", 0, 1},
        {"1s1h", 0, 3601 * SEC},
        {"0.3333333333333333333h", 0, 1199999999},
        {"2562047h", 0, 3600 * SEC * 2562047},
        {"2562048h", -ERANGE, 0},
        {"9223372036854775807ns", 0, 9223372036854775},
        {"9223372036854775808ns", -ERANGE, 0},
        {"99999999999999999999ns", -ERANGE, 0},
        {"2562047h2562047h", -ERANGE, 0},
        {"", -EINVAL, 0},
        {NULL, -EINVAL, 0},
        {"+", -EINVAL, 0},
        {"-1s", -EINVAL, 0},
        {"5", -EINVAL, 0},
        {"00", -EINVAL, 0},
        {"1h0", -EINVAL, 0},
        {"1h5", -EINVAL, 0},
        {".s", -EINVAL, 0},
        {".", -EINVAL, 0},
        {"1..5s", -EINVAL, 0},
        {"1d", -EINVAL, 0},
        {"1 s", -EINVAL, 0},
        {" 1s", -EINVAL, 0},
        {"1s ", -EINVAL, 0},
        {"1S", -EINVAL, 0},
        {"h", -EINVAL, 0},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        uint64_t usec = 42;
        assert_int_equal(nc_duration_parse(rows[i].s, &usec), rows[i].r);
        assert_true(usec == (rows[i].r ? 42 : rows[i].usec));
    }
}

static void durations_as_go_prints_them(void **state) {
    static const struct {
        uint64_t usec;
        const char *s;
    } rows[] = {
        {0, "0s"},
        {1, "1\xc2\xb5s"},
        {999, "999\xc2\xb5s"},
        {1000, "1ms"},
        {1500, "1.5ms"},
        {500000, "500ms"},
        {SEC, "1s"},
        {1500000, "1.5s"},
        {59999999, "59.999999s"},
        {60 * SEC, "1m0s"},
        {150 * SEC, "2m30s"},
        {3600 * SEC, "1h0m0s"},
        {5400 * SEC + 1, "1h30m0.000001s"},
        {720 * 3600 * SEC, "720h0m0s"},
        {UINT64_MAX, "5124095576h1m49.551615s"},
    };
    char formatted[32];
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_duration_format(rows[i].usec, formatted);
        assert_string_equal(formatted, rows[i].s);
    }
}

static void sets_of_characters(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf url = NC_BUF_INIT;

    assert_true(nc_is_alnum_or("i-0A", "-", 4));
    assert_false(nc_is_alnum_or("i-0A", "-", 3));
    assert_false(nc_is_made_of("i-0A", NC_LOWER NC_DIGITS "-", 4));
    assert_false(nc_is_alnum_or("a\n", "", 4));
    assert_false(nc_is_alnum_or("", "", 4));
    assert_false(nc_is_alnum_or(NULL, "", 4));
    for (int c = -128; c < 128; c++)
        assert_int_equal(nc_hex_digit((char)c), c >= '0' && c <= '9'   ? c - '0'
                                                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                                       : -1);
    nc_url_escape(&url, "aZ9-._~ /%\xc3\xa4", "/");
    assert_string_equal(url.data, "aZ9-._~%20/%25%C3%A4");
}

static void cutting(void **state) {
    char little[5];

    assert_int_equal(nc_cut("", 0), 0);
    assert_int_equal(nc_cut("abc", 3), 3);
    assert_int_equal(nc_cut("abcd", 3), 3);
    assert_int_equal(nc_cut("ab\xe2\x82\xac", 5), 5);
    assert_int_equal(nc_cut("ab\xe2\x82\xac", 4), 2);
    assert_int_equal(nc_cut("ab\xe2\x82\xac", 2), 2);
    assert_int_equal(nc_cut("\xe2\x82\xac", 2), 0);
    nc_copy_text(little, sizeof(little), "abcd");
    assert_string_equal(little, "abcd");
    nc_copy_text(little, sizeof(little), "ab\xe2\x82\xac");
    assert_string_equal(little, "ab");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicates),
        cmocka_unit_test(text),
        cmocka_unit_test(unsigned_numbers),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(quoting),
        cmocka_unit_test(trimming),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(sets_of_characters),
        cmocka_unit_test(cutting),
        cmocka_unit_test(base64_decoding),
        cmocka_unit_test(base64_encoding),
        cmocka_unit_test(times),
        cmocka_unit_test(http_dates),
        cmocka_unit_test(durations),
        cmocka_unit_test(durations_as_go_prints_them),
    };
    return run_group(tests, NULL, NULL);
}
