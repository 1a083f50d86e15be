/*
 * gzip, capped. The only file that includes zlib.h.
 *
 * Inflates through a small window straight into the caller's buffer: what a bomb can cost is the
 * cap of that buffer.
 */
#include "nc/encode.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <zlib.h>

#define CHUNK_BYTES 16384
#define GZIP_ONLY (16 + MAX_WBITS)

bool nc_is_gzip(const char *data, size_t n) {
    return n >= 2 && (unsigned char)data[0] == 0x1f && (unsigned char)data[1] == 0x8b;
}

static int fail(struct nc_err *err, int code, const char *what) {
    return nc_err_set(err, NC_ERR_CONFIG, code, "gzip: %s", what);
}

/* One member, from z->next_in on. */
static int inflate_member(z_stream *z, struct nc_buf *out, struct nc_err *err) {
    char chunk[CHUNK_BYTES];
    int r = Z_OK;

    while (r != Z_STREAM_END) {
        z->next_out = (Bytef *)chunk;
        z->avail_out = sizeof(chunk);
        r = inflate(z, Z_NO_FLUSH);
        if (r == Z_BUF_ERROR)
            return fail(err, EINVAL, "the data ends too early");
        if (r != Z_OK && r != Z_STREAM_END)
            return fail(err, EINVAL, z->msg ? z->msg : "corrupt data");
        if (nc_buf_add(out, chunk, sizeof(chunk) - z->avail_out) < 0)
            return nc_err_set(err, NC_ERR_CONFIG, EFBIG, "gzip: more than %zu bytes when inflated",
                              out->max ? out->max : NC_BUF_DEFAULT_MAX);
    }
    return 0;
}

static int inflate_all(z_stream *z, struct nc_buf *out, struct nc_err *err) {
    do {
        if (!nc_is_gzip((const char *)z->next_in, z->avail_in))
            return fail(err, EINVAL, "bytes that are not gzip follow the data");
        const int r = inflate_member(z, out, err);
        if (r < 0)
            return r;
        inflateReset(z);
    } while (z->avail_in);
    return 0;
}

int nc_gunzip(const char *data, size_t n, struct nc_buf *out, struct nc_err *err) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)n};
    const size_t before = out->len;

    if (!nc_is_gzip(data, n) || n > UINT_MAX)
        return fail(err, EINVAL, "not gzip data");
    if (inflateInit2(&z, GZIP_ONLY) != Z_OK)
        return nc_err_set(err, NC_ERR_HOST, ENOMEM, "gzip: out of memory");
    const int r = inflate_all(&z, out, err);
    inflateEnd(&z);
    if (r < 0 && out->data) {
        out->len = before;
        out->data[before] = '\0';
    }
    return r;
}
