/*
 * An answer of IMDS on the daemon's own connection: the first byte is the size of the pieces that
 * it comes in. The pieces change nothing; what is handed on is exactly what its head announced, and
 * everything that is not plain is handed back. The rest of the text is an endpoint, too.
 */
#include <stdint.h>

/* The reader is no part of the interface. */
#include "http-plain.c"

#define MAX_BODY 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct outcome {
    unsigned calls;
    bool is_handed_back;
    int status;
    uint64_t date_usec, sum;
    size_t n;
};

static void on_done(void *userdata, const struct nc_http_result *result) {
    struct outcome *o = userdata;

    o->calls++;
    o->is_handed_back = !result;
    if (!result)
        return;
    if (result->outcome != NC_HTTP_ANSWERED || result->status < 200 || result->status > 599
        || result->body[result->n] != '\0')
        abort();
    o->status = result->status;
    o->date_usec = result->date_usec;
    o->n = result->n;
    for (size_t i = 0; i < result->n; i++)
        o->sum = o->sum * 31 + (unsigned char)result->body[i];
}

static void feed(const char *data, size_t n, size_t piece, struct outcome *o) {
    struct nc_http_plain p = {.fd = -1,
                              .done = on_done,
                              .userdata = o,
                              .max_body_bytes = MAX_BODY,
                              .answer = NC_BUF_INIT_MAX(MAX_HEAD_BYTES + MAX_FAILURE_BYTES)};

    for (size_t at = 0; at < n && p.done; at += piece) {
        if (nc_buf_add(&p.answer, data + at, n - at < piece ? n - at : piece) < 0)
            hand_back(&p);
        else
            look_at_answer(&p);
    }
    nc_buf_done(&p.answer);
}

static void endpoint(const char *data, size_t n) {
    nc_auto_free char *text = nc_strndup(data, n);
    struct nc_http_plain *p = NULL;

    if (nc_http_plain_new(NULL, text, &p) == 0) {
        if (!nc_starts_with(text, "http://") || p->address_n == 0)
            abort();
        nc_http_plain_free(p);
    } else if (p) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct outcome small = {0}, whole = {0};
    const char *text = (const char *)data + 1;

    if (n < 2)
        return 0;
    feed(text, n - 1, (size_t)data[0] + 1, &small);
    feed(text, n - 1, n, &whole);
    if (small.calls > 1 || whole.calls > 1)
        abort();
    /* More than was announced is seen only where it comes together with the end. */
    if (whole.calls && !whole.is_handed_back
        && (small.is_handed_back || small.status != whole.status || small.sum != whole.sum
            || small.date_usec != whole.date_usec || small.n != whole.n))
        abort();
    if (whole.status / 100 == 2 && whole.n > MAX_BODY)
        abort();
    endpoint(text, n - 1);
    return 0;
}
