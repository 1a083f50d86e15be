/*
 * Times, durations and whole numbers: what is read is written and read again to the same, and a
 * refusal leaves nothing behind.
 */
#include <stdint.h>

#include "nc/budget.h"
#include "nc/str.h"
#include "nc/time.h"

#define UNTOUCHED 12345u
#define YEAR_10000_SEC UINT64_C(253402300800)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void read_time(int (*parse)(const char *, uint64_t *), const char *text) {
    uint64_t usec = UNTOUCHED, back = 0;
    char written[32];

    if (parse(text, &usec) < 0) {
        must(usec == UNTOUCHED);
        return;
    }
    must(usec % 1000000 == 0 && usec / 1000000 < YEAR_10000_SEC);
    nc_time_format(usec, written);
    must(nc_time_parse(written, &back) == 0 && back == usec);
}

static void read_duration(const char *text) {
    uint64_t usec = UNTOUCHED, back = 0, of_budget = 0;
    struct nc_err err = NC_ERR_INIT;
    char written[32];
    const int r = nc_duration_parse(text, &usec);
    const int b = nc_budget_duration(text, true, &of_budget, &err);

    must(b >= 0 || (err.class == NC_ERR_PROTOCOL && err.msg[0]));
    must(r < 0 || b < 0 || of_budget == usec);
    if (r < 0) {
        must(usec == UNTOUCHED && (b < 0 || of_budget == UINT64_MAX));
        return;
    }
    nc_duration_format(usec, written);
    must(nc_duration_parse(written, &back) == 0 && back == usec);
}

static void read_number(const char *text) {
    uint64_t u = UNTOUCHED;
    int64_t i = UNTOUCHED;
    const bool is_unsigned = nc_parse_u64(text, &u) == 0;
    const bool is_signed = nc_parse_i64(text, &i) == 0;

    must(is_unsigned || u == UNTOUCHED);
    must(is_signed || i == UNTOUCHED);
    must(!is_signed || text[0] == '-' || (is_unsigned && u == (uint64_t)i));
    must(!is_unsigned || is_signed || u > INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *text = nc_strndup((const char *)data, n);

    read_time(nc_time_parse, text);
    read_time(nc_time_parse_http, text);
    read_duration(text);
    read_number(text);
    return 0;
}
