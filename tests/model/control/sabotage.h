/*
 * A controller that is broken on purpose: what its step wants is changed before anybody sees it.
 * For each way there is the rule that must name it.
 */
#ifndef CONTROL_MODEL_SABOTAGE_H
#define CONTROL_MODEL_SABOTAGE_H

#include "world.h"

enum sabotage {
    SABOTAGE_NONE = 0,
    SABOTAGE_WRITES_UNLED,
    SABOTAGE_WRITES_UNSYNCED,
    SABOTAGE_TWO_WRITES,
    SABOTAGE_ALL_CONCURRENCY,
    SABOTAGE_NO_PAUSE,
    SABOTAGE_NO_WATCH_WAIT,
    SABOTAGE_DELETES_TWICE,
    SABOTAGE_TIMESTAMP_LATE,
    SABOTAGE_TIMESTAMP_LAST,
    SABOTAGE_RELAYS_NOTHING,
    SABOTAGE_RELAYS_ANYTHING,
    SABOTAGE_NO_UID,
    SABOTAGE_NO_VERSION,
    SABOTAGE_BESIDE_KARPENTER,
    SABOTAGE_FOREIGN,
    SABOTAGE_DELETES_FOR_NOTHING,
    SABOTAGE_DELETES_PROTECTED,
    SABOTAGE_DELETES_BEYOND_BUDGETS,
    SABOTAGE_OTHER_REQUEST,
    SABOTAGE_DROPS_FINALIZER,
    SABOTAGE_DROPS_NODE,
    SABOTAGE_ENDS_INSTANCE,
    SABOTAGE_DROPS_TAINTS,
    SABOTAGE_DROPS_CONDITIONS,
    SABOTAGE_ENDS_NOTHING,
    SABOTAGE_REGISTERS_NOTHING,
    SABOTAGE_DISRUPTS_NOTHING,
    SABOTAGE_WRITES_ON,
    SABOTAGE_WRITES_AT_REST,
    SABOTAGE_WRITES_NOBODY,
    SABOTAGE_DROPS_LABELS,
    SABOTAGE_CHANGES_SPEC,
    SABOTAGE_TRUSTS_NODES,
    SABOTAGE_TRUSTS_LEASES,
    _SABOTAGE_MAX
};
const char *sabotage_rule(enum sabotage s); /* the rule that it breaks */

/* Between the step and everybody else. */
void sabotage(struct world *w, unsigned p, const struct nc_control_event *e,
              struct nc_control_actions *out);

#endif
