/*
 * The daemon's saved state: what is loaded is saved again to the same and loaded again; what is
 * refused has changed nothing; and a life goes on from whatever was loaded.
 */
#include <stdint.h>

#include "nc/lifecycle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct nc_lifecycle_rules rules = {
    .drain =
        {.mode = NC_DRAIN_AUTO,
         .policy = {[NC_SOURCE_SPOT] = NC_POLICY_DRAIN, [NC_SOURCE_MAINTENANCE] = NC_POLICY_CORDON},
         .margin_usec = 15000000,
         .hook_timeout_usec = 3000000},
    .max_in_flight = 3};

static void must(bool is_so) {
    if (!is_so)
        abort();
}

/* Everything is quiet: what was active is taken back, what was ours is undone, and it ends. */
static void live(struct nc_lifecycle *l) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_START, .now_usec = 1767323045000000};
    struct nc_node_view node = {.exists = true, .is_complete = true, .uid = "u"};

    for (unsigned i = 0; i < 40; i++) {
        struct nc_lifecycle_actions out = {0};
        nc_lifecycle_step(l, &e, &out);
        nc_lifecycle_actions_done(&out);
        const uint64_t next = nc_lifecycle_next(l, e.now_usec);
        must(next > e.now_usec);
        e = (struct nc_lifecycle_event){.kind = NC_LIFECYCLE_TICK, .now_usec = e.now_usec + 700000};
        if (i == 3)
            e.kind = NC_LIFECYCLE_NODE;
        else if (i > 5 && i < 5 + _NC_SOURCE_MAX)
            e.kind = NC_LIFECYCLE_CLEARED;
        e.node = &node;
        e.source = (enum nc_source)(i % _NC_SOURCE_MAX);
    }
}

static void load(const struct nc_value *saved, bool same_boot) {
    struct nc_lifecycle *l = nc_lifecycle_new(&rules), *other = nc_lifecycle_new(&rules);
    nc_auto_value struct nc_value *fresh = nc_lifecycle_save(l);

    if (nc_lifecycle_load(l, saved, same_boot, 0) < 0) {
        nc_auto_value struct nc_value *left = nc_lifecycle_save(l);
        must(nc_value_equal(fresh, left));
    } else {
        nc_auto_value struct nc_value *once = nc_lifecycle_save(l);
        must(nc_lifecycle_load(other, once, same_boot, 0) == 0);
        nc_auto_value struct nc_value *twice = nc_lifecycle_save(other);
        must(nc_value_equal(once, twice));
        live(l);
    }
    nc_lifecycle_free(l);
    nc_lifecycle_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_value struct nc_value *saved = NULL;

    if (nc_json_parse((const char *)data, n, &saved, NULL) < 0)
        return 0;
    load(saved, true);
    load(saved, false);
    return 0;
}
