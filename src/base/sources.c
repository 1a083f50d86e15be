/*
 * The tables of the sources of an ending and of the settings of a drain, and the words of their
 * values.
 */
#include "nc/drain-settings.h"
#include "nc/mem.h"

const char *const nc_policy_names[] = {"ignore", "report", "cordon", "drain", NULL};
const char *const nc_drain_mode_names[] = {"auto", "always", "observe", "off", NULL};

const struct nc_source_info nc_sources[_NC_SOURCE_MAX] = {
#define OPTION(id, text, by_default, ...)                                                          \
    FIXED(id, text, by_default, .is_option = true, __VA_ARGS__)
#define FIXED(id, text, by_default, ...)                                                           \
    [NC_SOURCE_##id] = {.name = (text), .policy = NC_POLICY_##by_default, __VA_ARGS__},
    NC_SOURCES(OPTION, FIXED)};
#undef OPTION
#undef FIXED

const struct nc_drain_setting nc_drain_setting_rows[] = {
#define OPTION(id, text, ...)                                                                      \
    {.path = "spec.interruption." text,                                                            \
     .type = NC_SETTING_POLICY,                                                                    \
     .offset = offsetof(struct nc_drain_settings, policy[NC_SOURCE_##id])},
#define FIXED(...)
#define ROW(section, kind, member, name, ...)                                                      \
    {.path = "spec." section "." name,                                                             \
     .type = NC_SETTING_##kind,                                                                    \
     .offset = offsetof(struct nc_drain_settings, member),                                         \
     __VA_ARGS__},
#define INTERRUPTION(kind, member, name, by_default, help, ...)                                    \
    ROW("interruption", kind, member, name, __VA_ARGS__)
#define DRAIN(kind, member, name, by_default, help, ...)                                           \
    ROW("drain", kind, member, name, __VA_ARGS__)
    NC_SOURCES(OPTION, FIXED) NC_DRAIN_SETTINGS(INTERRUPTION, DRAIN){0}};

const char *nc_policy_name(enum nc_policy p) {
    return p >= NC_POLICY_IGNORE && p <= NC_POLICY_DRAIN ? nc_policy_names[p - 1] : NULL;
}
