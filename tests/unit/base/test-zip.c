/*
 * gzip: members, caps, and every way in which the bytes can be wrong.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <zlib.h>

#include "nc/encode.h"

static void compress_to(const char *text, size_t n, struct nc_buf *out) {
    z_stream z = {0};
    Bytef chunk[4096];
    int r;

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)n;
    do {
        z.next_out = chunk;
        z.avail_out = sizeof(chunk);
        r = deflate(&z, Z_FINISH);
        nc_buf_add(out, chunk, sizeof(chunk) - z.avail_out);
    } while (r == Z_OK);
    assert_int_equal(r, Z_STREAM_END);
    deflateEnd(&z);
}

static void recognised_by_two_bytes(void **state) {
    (void)state;
    assert_true(nc_is_gzip("\x1f\x8b", 2));
    assert_false(nc_is_gzip("\x1f", 1));
    assert_false(nc_is_gzip("\x8b\x1f", 2));
    assert_false(nc_is_gzip("\x1f\x8c", 2));
    assert_false(nc_is_gzip("", 0));
}

static void members_are_joined(void **state) {
    struct nc_buf packed = NC_BUF_INIT;
    struct nc_buf out = NC_BUF_INIT;
    (void)state;

    compress_to("first ", 6, &packed);
    compress_to("", 0, &packed);
    compress_to("second", 6, &packed);
    nc_buf_puts(&out, "before ");
    assert_int_equal(nc_gunzip(packed.data, packed.len, &out, NULL), 0);
    assert_string_equal(out.data, "before first second");
    nc_buf_done(&packed);
    nc_buf_done(&out);
}

static void assert_refused(const struct nc_buf *packed, size_t n, struct nc_buf *out,
                           const char *message) {
    struct nc_err err = NC_ERR_INIT;
    const size_t before = out->len;

    assert_true(nc_gunzip(packed->data, n, out, &err) < 0);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    if (!strstr(err.msg, message))
        fail_msg("\"%s\", not \"%s\"", err.msg, message);
    assert_int_equal(out->len, before);
    assert_true(nc_gunzip(packed->data, n, out, NULL) < 0);
}

static void wrong_bytes_are_refused(void **state) {
    struct nc_buf packed = NC_BUF_INIT;
    struct nc_buf out = NC_BUF_INIT;
    (void)state;

    nc_buf_puts(&out, "kept");
    compress_to("some text that is long enough", 29, &packed);
    assert_refused(&packed, packed.len - 1, &out, "gzip: the data ends too early");
    assert_refused(&packed, 2, &out, "gzip: the data ends too early");
    assert_refused(&packed, 1, &out, "gzip: not gzip data");
    assert_refused(&packed, 0, &out, "gzip: not gzip data");
    packed.data[packed.len - 8] ^= 1; /* the checksum */
    assert_refused(&packed, packed.len, &out, "gzip: incorrect data check");
    packed.data[packed.len - 8] ^= 1;
    packed.data[2] = 9; /* no such method */
    assert_refused(&packed, packed.len, &out, "gzip: ");
    packed.data[2] = 8;
    nc_buf_puts(&packed, "x");
    assert_refused(&packed, packed.len, &out, "gzip: bytes that are not gzip follow the data");
    nc_buf_puts(&packed, "\x1f\x8b");
    assert_refused(&packed, packed.len, &out, "gzip: bytes that are not gzip follow the data");
    assert_string_equal(out.data, "kept");
    nc_buf_done(&packed);
    nc_buf_done(&out);
}

/* 64 MiB of zeros in 64 KiB cost the cap, not 64 MiB. */
static void a_bomb_costs_its_cap(void **state) {
    const size_t size = (size_t)64 << 20;
    char *zeros = calloc(1, size);
    struct nc_buf packed = NC_BUF_INIT;
    struct nc_buf out = NC_BUF_INIT_MAX((size_t)1 << 20);
    (void)state;

    assert_non_null(zeros);
    compress_to(zeros, size, &packed);
    assert_true(packed.len < size / 500);
    assert_refused(&packed, packed.len, &out, "gzip: more than 1048576 bytes when inflated");
    assert_true(out.room <= ((size_t)1 << 20) + 1);
    nc_buf_done(&packed);
    compress_to(zeros, (size_t)1 << 20, &packed);
    assert_int_equal(nc_gunzip(packed.data, packed.len, &out, NULL), 0);
    assert_int_equal(out.len, (size_t)1 << 20);
    free(zeros);
    nc_buf_done(&packed);
    nc_buf_done(&out);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recognised_by_two_bytes),
        cmocka_unit_test(members_are_joined),
        cmocka_unit_test(wrong_bytes_are_refused),
        cmocka_unit_test(a_bomb_costs_its_cap),
    };
    return run_group(tests, NULL, NULL);
}
