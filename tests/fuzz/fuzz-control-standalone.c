/*
 * The controller's step where nobody else is there: the bytes are the disorder of a small cluster,
 * which knows the rules. Now and then everything is asked to go at the end, and goes.
 */
#include "standalone-disorder.h"

#define TURNS_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct bytes {
    const uint8_t *data;
    size_t n;
};

static size_t take(void *source, size_t n) {
    struct bytes *b = source;

    if (b->n == 0)
        return 0;
    b->n--;
    return *b->data++ % n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct bytes b = {data, n};
    const bool ends = n > 0 && take(&b, 32) == 31;
    const struct disorder d = {take, &b, 1 + (unsigned)take(&b, 3), true};
    struct world w;

    begin(&w, &d);
    for (unsigned i = 0; b.n > 0 && i < TURNS_MAX; i++)
        disturb_any(&w, &d);
    if (ends)
        end(&w, &d);
    world_done(&w);
    return 0;
}
