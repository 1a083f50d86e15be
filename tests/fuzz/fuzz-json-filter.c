/*
 * The JSON filter: the first byte is the size of the chunks and whether it is a list or a stream.
 * The chunks change nothing; whatever nc_json_parse takes, the filter takes, and what it keeps is
 * JSON again.
 */
#include <stdbool.h>
#include <stdint.h>

#include "nc/json-filter.h"
#include "nc/value.h"

#define MAX_ITEM 4096
#define MAX_VALUE 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char keep[] = "metadata.name\0'a.b'\0spec.volumes.claim\0status\0";

struct taken {
    uint64_t sum;
    size_t n;
    bool is_broken; /* an item that the parser does not take, though it took all of the text */
};

static int take(void *userdata, const char *text, size_t n) {
    struct taken *t = userdata;
    struct nc_value *v = NULL;

    t->n++;
    for (size_t i = 0; i < n; i++)
        t->sum = t->sum * 31 + (unsigned char)text[i];
    t->sum = t->sum * 31 + '\n';
    if (nc_json_parse(text, n, &v, NULL) < 0 || v->type != NC_VALUE_MAP)
        t->is_broken = true;
    nc_value_free(v);
    return 0;
}

/* Everything in chunks: 0, or what the filter said. */
static int feed(const char *text, size_t n, size_t chunk, bool is_stream, struct taken *t,
                struct nc_err *err) {
    const struct nc_json_filter_options o = {.keep = keep,
                                             .max_item_bytes = MAX_ITEM,
                                             .max_value_bytes = MAX_VALUE,
                                             .item = take,
                                             .userdata = t};
    struct nc_json_filter *f;
    const char *rest = "";
    size_t rest_n = 0;
    int r = is_stream ? nc_json_filter_new_stream(&o, &f, err) : nc_json_filter_new(&o, &f, err);

    for (size_t at = 0; at < n && r == 0; at += chunk)
        r = nc_json_filter_add(f, text + at, n - at < chunk ? n - at : chunk, err);
    if (r == 0)
        r = nc_json_filter_end(f, &rest, &rest_n, err);
    for (size_t i = 0; r == 0 && i < rest_n; i++)
        t->sum = t->sum * 31 + (unsigned char)rest[i];
    nc_json_filter_free(f);
    return r;
}

/* A list whose items are objects. */
static bool is_list(const struct nc_value *v) {
    const struct nc_value *items = nc_value_get(v, "items");

    if (!v || v->type != NC_VALUE_MAP)
        return false;
    if (items && items->type != NC_VALUE_LIST)
        return items->type == NC_VALUE_NULL;
    for (size_t i = 0; items && i < items->n; i++)
        if (items->items[i]->type != NC_VALUE_MAP)
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *text = (const char *)data + 1;
    const bool is_stream = n > 0 && data[0] & 1;
    struct taken small = {0}, large = {0};
    struct nc_err small_err = NC_ERR_INIT, large_err = NC_ERR_INIT;
    struct nc_value *v = NULL;
    int r;

    if (n < 2 || n > MAX_ITEM)
        return 0;
    r = feed(text, n - 1, (size_t)(data[0] >> 1) + 1, is_stream, &small, &small_err);
    if (r != feed(text, n - 1, n, is_stream, &large, &large_err) || small.sum != large.sum
        || small.n != large.n || strcmp(small_err.msg, large_err.msg) != 0)
        abort();
    if (r < 0 && small_err.class != NC_ERR_PROTOCOL)
        abort();
    if (nc_json_parse(text, n - 1, &v, NULL) == 0
        && (is_stream ? v->type == NC_VALUE_MAP : is_list(v)) && (r < 0 || small.is_broken))
        abort();
    nc_value_free(v);
    return 0;
}
