/*
 * The tables of the sources of an ending and of the settings of a drain, and the words of their
 * values.
 */
#include "nc/drain-settings.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/time.h"

const char nc_policy_names[] = "ignore\0report\0cordon\0drain\0";
const char nc_drain_mode_names[] = "auto\0always\0observe\0off\0";

enum nc_policy nc_drain_mode_cap(enum nc_drain_mode m) {
    return m == NC_DRAIN_OFF       ? NC_POLICY_REPORT
           : m == NC_DRAIN_OBSERVE ? NC_POLICY_CORDON
                                   : NC_POLICY_DRAIN;
}

const struct nc_source_info nc_sources[_NC_SOURCE_MAX] = {
#define OPTION(id, text, by_default, ...)                                                          \
    FIXED(id, text, by_default, .is_option = true, __VA_ARGS__)
#define FIXED(id, text, by_default, ...)                                                           \
    [NC_SOURCE_##id] = {.name = (text), .policy = NC_POLICY_##by_default, __VA_ARGS__},
    NC_SOURCES(OPTION, FIXED)};
#undef OPTION
#undef FIXED

const struct nc_drain_settings nc_drain_defaults = {
#define POLICY(id, name, by_default, ...) [NC_SOURCE_##id] = NC_POLICY_##by_default,
#define DEFAULT(type, member, name, by_default, ...) .member = (by_default),
    .policy = {NC_SOURCES(POLICY, POLICY)}, NC_DRAIN_SETTINGS(DEFAULT, DEFAULT)};

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
#define CODE(id, code, ...)                                                                        \
    {.path = "spec.interruption." code,                                                            \
     .type = NC_SETTING_POLICY,                                                                    \
     .offset = offsetof(struct nc_drain_settings, by_code[NC_MAINTENANCE_##id])},
    NC_SOURCES(OPTION, FIXED) NC_MAINTENANCE_CODES(CODE)
        NC_DRAIN_SETTINGS(INTERRUPTION, DRAIN){.path = ""}};
#undef CODE

static const struct nc_maintenance_info maintenance[] = {
#define CODE(id, text, policy, comes_back, ...)                                                    \
    [NC_MAINTENANCE_##id] = {(text), NC_POLICY_##policy, comes_back},
    NC_MAINTENANCE_CODES(CODE)[NC_MAINTENANCE_UNKNOWN] = {"", NC_POLICY_DRAIN, true}};

const struct nc_maintenance_info *nc_maintenance(const char *code) {
    const struct nc_maintenance_info *m = maintenance;

    while (m->code[0] && !nc_streq(m->code, code))
        m++;
    return m;
}

enum nc_policy nc_maintenance_policy(const struct nc_drain_settings *s, const char *code) {
    const struct nc_maintenance_info *m = nc_maintenance(code);
    const enum nc_policy own = m->code[0] ? s->by_code[m - maintenance] : 0;
    const enum nc_policy all = s->policy[NC_SOURCE_MAINTENANCE];

    return own ? own : all < m->most ? all : m->most;
}

const char *nc_policy_name(enum nc_policy p) {
    return nc_name_at(nc_policy_names, p - NC_POLICY_IGNORE);
}

#define NOTICE_USEC (120 * NC_SEC_USEC) /* of spot */
#define KARPENTER_LATE_USEC (10 * NC_SEC_USEC)
#define DEFAULT_GRACE_USEC (30 * NC_SEC_USEC) /* of a pod that states none */

uint64_t nc_margin_usec(uint64_t most_usec, uint64_t left_usec) {
    const uint64_t half_usec = left_usec / 2 - left_usec / 2 % NC_SEC_USEC;
    uint64_t usec = most_usec;
    uint64_t late_usec = left_usec > DEFAULT_GRACE_USEC ? left_usec - DEFAULT_GRACE_USEC : 0;

    if (left_usec < NOTICE_USEC)
        usec =
            most_usec / NOTICE_USEC * left_usec + most_usec % NOTICE_USEC * left_usec / NOTICE_USEC;
    if (late_usec > KARPENTER_LATE_USEC)
        late_usec = KARPENTER_LATE_USEC;
    if (usec < late_usec)
        usec = late_usec;
    if (usec > half_usec)
        usec = half_usec;
    if (usec < NC_KILL_USEC)
        usec = NC_KILL_USEC;
    usec += (NC_SEC_USEC - usec % NC_SEC_USEC) % NC_SEC_USEC;
    return usec < most_usec ? usec : most_usec;
}

const char *nc_source_name(enum nc_source s) {
    return nc_sources[s].name;
}

const char *nc_source_reason(enum nc_source s) {
    return nc_sources[s].reason;
}
