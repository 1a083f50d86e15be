/*
 * From a node's word to its NodeClaim: what is relayed, in which order, how often.
 */
#include "control-world.h"

#include "nc/str.h"

#define T105 "2026-11-22T02:01:45Z" /* 120 s ahead, less the margin of 15 s */

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

/* Node n1 with claim c1 that says that it goes in 120 s. */
static void open_with_notice(struct world *w, const char *wanted) {
    expect(world_claim(w, "c1", "n1", ""), "");
    expect(world_node(w, "n1", NULL), "");
    expect(world_node(w, "n1", world_word(w, "spot", 120)), wanted);
}

static void test_stamp_then_delete(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    open_with_notice(&w, "stamp c1 " T105 "\n");
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "delete-claim c1\n");
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "say InterruptionRelayed NodeClaim c1\n");
    expect(world_pass(&w, 3600 * WORLD_SEC), "stamp c1 " T105 "\n"); /* the watch never shows it */
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stamp_then_delete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
