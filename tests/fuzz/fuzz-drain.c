/*
 * The bytes are what happens in a world around a drain; the world knows the rules.
 */
#include "drain-world.h"

struct bytes {
    const uint8_t *data;
    size_t n;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint8_t take(void *source) {
    struct bytes *b = source;

    if (b->n == 0)
        return 0;
    b->n--;
    return *b->data++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct bytes b = {data, n};

    world_run(take, &b, n / 4 + 1);
    return 0;
}
