/*
 * The judge: Nodes out of service. The world knows which machine is over; nobody else may say so.
 */
#include "judge.h"
#include "nc/names.h"
#include "nc/str.h"

bool judge_has_outage(const struct nc_value *node) {
    const struct nc_value *list = nc_value_path(node, "spec.taints");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "key"), NC_TAINT_OUT_OF_SERVICE))
            return true;
    return false;
}

bool judge_is_outage(const struct shown *s, const struct nc_control_action *a) {
    return a->verb == NC_CONTROL_INSTANCE_STATE
           || (a->verb == NC_CONTROL_PATCH_NODE && nc_value_path(a->body, "spec.taints") && s->v
               && judge_has_outage(a->body) != judge_has_outage(s->v));
}

static void judge_request_of_state(struct world *w, const struct view *v, const struct shown *s,
                                   const struct nc_control_action *a) {
    unsigned n = 1;

    for (size_t i = 0; i < v->n_in_flight; i++)
        n += v->in_flight[i].verb == NC_CONTROL_INSTANCE_STATE;
    if (n > NC_CONTROL_STATES_MAX)
        judge_break(w, "out-of-service", "%u states are requested at once", n);
    if (nc_streq(condition_of(s->v, "Ready"), "True")
        || !nc_streq(a->provider_id, text_at(s->v, "spec.providerID")))
        judge_break(w, "out-of-service", "%s: its state is requested for nothing", a->name);
}

void judge_outage(struct world *w, const struct view *v, const struct shown *s,
                  const struct nc_control_action *a) {
    const char *ready = condition_of(s->v, "Ready");
    const bool is_over =
        nc_streq(actors_state_of(w, text_at(s->v, "spec.providerID")), "terminated");

    if (!w->rules.out_of_service)
        judge_break(w, "out-of-service", "%s is not wanted", a->name);
    else if (a->verb == NC_CONTROL_INSTANCE_STATE)
        judge_request_of_state(w, v, s, a);
    else if (judge_has_outage(a->body) && (!is_over || !nc_streq(ready, "Unknown")))
        judge_break(w, "out-of-service", "%s gets it, and its machine runs", a->name);
    else if (!judge_has_outage(a->body) && is_over && !nc_streq(ready, "True"))
        judge_break(w, "out-of-service", "%s loses it, and its machine is gone", a->name);
}
