/*
 * Where we are standalone: whatever happens in whatever order, under leaders that die and answers
 * that are lost, the rules of standalone-disorder.h hold.
 */
#include "groups.h"
#include "standalone-disorder.h"

static size_t from_seed(void *source, size_t n) {
    return prng_below(source, n);
}

static void test_random(void **state) {
    const char *given = getenv("NC_SEED");
    struct world w;

    (void)state;
    for (uint64_t i = 0; i < (given ? 1 : 40); i++) {
        uint64_t seed = given ? strtoull(given, NULL, 10) : i;
        const struct disorder d = {from_seed, &seed, CLAIMS_MAX, false};
        seed_said = seed;
        begin(&w, &d);
        for (unsigned k = 0; k < 120; k++)
            disturb_any(&w, &d);
        end(&w, &d);
        world_done(&w);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
    };

    return run_group(tests, NULL, NULL);
}
