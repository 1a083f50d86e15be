/*
 * The table of the sources of an ending (nc/sources.h), and the words of the policies.
 */
#include "nc/sources.h"

#include "nc/mem.h"

const char *const nc_policy_names[] = {"ignore", "report", "cordon", "drain", NULL};
const char *const nc_drain_mode_names[] = {"auto", "always", "observe", "off", NULL};

const struct nc_source_info nc_sources[_NC_SOURCE_MAX] = {
#define OPTION(id, text, by_default, ...)                                                          \
    FIXED(id, text, by_default, .is_option = true, __VA_ARGS__)
#define FIXED(id, text, by_default, ...)                                                           \
    [NC_SOURCE_##id] = {.name = (text), .policy = NC_POLICY_##by_default, __VA_ARGS__},
    NC_SOURCES(OPTION, FIXED)};

const char *nc_policy_name(enum nc_policy p) {
    return p >= NC_POLICY_IGNORE && p <= NC_POLICY_DRAIN ? nc_policy_names[p - 1] : NULL;
}
