/*
 * The settings of the startup gate, spec.fit of an AgentConfig: what must be there before pods may
 * start on this node.
 */
#ifndef NC_FIT_SETTINGS_H
#define NC_FIT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/mem.h"

enum nc_fit_kind {
    NC_FIT_DAEMON_SETS = 0, /* "namespace/name", or NC_FIT_ALL */
    NC_FIT_CSI_DRIVERS,
    NC_FIT_RESOURCES,
    NC_FIT_CONDITIONS, /* of the own Node, set by others */
    _NC_FIT_KIND_MAX
};
#define NC_FIT_ALL "all" /* each DaemonSet that has a pod on this node */
#define NC_FIT_TIMEOUT_USEC (600ull * 1000000)

struct nc_fit_settings {
    bool is_set; /* spec.fit is there */
    struct nc_strv wanted[_NC_FIT_KIND_MAX];
    uint64_t timeout_usec; /* 0 = none */
    bool holds;            /* after it the gate stays shut; else it opens */
};

#endif
