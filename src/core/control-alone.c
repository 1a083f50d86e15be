/*
 * Where we are alone: what a NodeClaim and its Node need next. Pure; hooks of the step.
 */
#include "control-priv.h"

bool nc_alone_claim(struct nc_control *c, struct control_claim *claim, uint64_t now_usec,
                    struct nc_control_action *ret, uint64_t *next_usec) {
    (void)c;
    (void)claim;
    (void)now_usec;
    (void)ret;
    *next_usec = UINT64_MAX;
    return false;
}

bool nc_alone_node(struct nc_control *c, struct control_node *node, uint64_t now_usec,
                   struct nc_control_action *ret, uint64_t *next_usec) {
    (void)c;
    (void)node;
    (void)now_usec;
    (void)ret;
    *next_usec = UINT64_MAX;
    return false;
}

void nc_alone_pool(struct nc_control *c, struct control_pool *pool, uint64_t now_usec,
                   uint64_t *next_usec) {
    (void)c;
    (void)pool;
    (void)now_usec;
    *next_usec = UINT64_MAX;
}

void nc_alone_answered(struct nc_control *c, struct control_object *o, enum nc_control_verb verb,
                       enum nc_control_answer answer, uint64_t now_usec) {
    (void)c;
    (void)o;
    (void)verb;
    (void)answer;
    (void)now_usec;
}
