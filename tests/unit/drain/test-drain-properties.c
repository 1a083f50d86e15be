/*
 * The drain in random worlds: whatever happens in whatever order, no rule is broken, nobody past
 * their force-delete time is forgotten, and nothing is due before the moment that was foretold.
 *
 * NC_SEED replays one world; a failure prints its seed.
 */
#include "base-test.h"
#include "groups.h"

#include "drain-world.h"

#define WORLDS 600
#define TURNS 400

static uint8_t next_choice(void *source) {
    return (uint8_t)(prng_next(source) >> 32);
}

static void run_seed(uint64_t seed) {
    uint64_t state = seed;

    world_seed = seed;
    world_run(next_choice, &state, TURNS);
}

static void test_worlds(void **state) {
    const char *only = getenv("NC_SEED");

    (void)state;
    if (only) {
        run_seed(strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 0; seed < WORLDS; seed++)
        run_seed(seed);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worlds),
    };

    return run_group(tests, NULL, NULL);
}
