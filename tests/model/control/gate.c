/*
 * Nodes that are gated: their boots, what their agents state, and the judge of the taint. It is
 * removed for the present boot alone, put back for another one alone, and never left behind.
 */
#include "judge.h"
#include "nc/names.h"
#include "nc/str.h"

/* Read again every 5 minutes at most, and what the API server refuses, too. */
#define SHUT_USEC (420 * SEC)

static bool has_taint(const struct nc_value *node) {
    const struct nc_value *list = nc_value_path(node, "spec.taints");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "key"), NC_TAINT_UNFIT))
            return true;
    return false;
}

/* --- the node */

static struct object *node_of(struct world *w, const struct machine *m) {
    return server_find(w, NC_CONTROL_NODE, m->node);
}

static void state(struct world *w, struct object *node, unsigned boot, bool is_fit) {
    nc_auto_free char *text =
        nc_asprintf("{\"boot\":\"b%u\",\"fit\":%s}", boot, is_fit ? "true" : "false");
    struct nc_value *notes = nc_value_new_map(), *meta = nc_value_new_map(),
                    *patch = nc_value_new_map();

    nc_value_set_string(notes, NC_ANNOTATION_FIT, text);
    nc_value_set(meta, "annotations", notes);
    nc_value_set(patch, "metadata", meta);
    server_merge(w, node, patch);
}

/* The other conditions stay: kubelet's is Ready. */
static void set_condition(struct world *w, struct object *node, bool is_fit) {
    const char *ready = condition_of(node->v, "Ready");

    server_mergef(w, node,
                  "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\"},{\"type\":"
                  "\"" NC_CONDITION_FIT "\",\"status\":\"%s\"}]}}",
                  ready ? ready : "Unknown", is_fit ? "True" : "False");
}

void gate_join(struct world *w, unsigned i, struct object *node) {
    struct machine *m = &w->machines[i];

    struct nc_value *patch = NULL, *taints = NULL;

    if (!node || !world_chance(w, 40))
        return;
    m->boot = 1;
    patch = world_json("{\"spec\":{}}");
    taints = nc_value_copy(nc_value_path(node->v, "spec.taints"));
    nc_value_push(taints, world_json("{\"key\":\"" NC_TAINT_UNFIT "\",\"effect\":\"NoSchedule\"}"));
    nc_value_set(nc_value_get(patch, "spec"), "taints", taints);
    server_merge(w, node, patch);
    world_post(w, world_between(w, SEC, 20 * SEC), THING_GATE, i, 0, NULL);
}

/* Step by step: kubelet reports the boot, the agent states that it is not fit, and then that it is,
 * in either order with its condition; later the machine reboots. What is stated by a liar is of no
 * boot that there was. */
void gate_happen(struct world *w, const struct due *due) {
    struct machine *m = &w->machines[due->a];
    struct object *node = node_of(w, m);
    const unsigned step = due->b, boot = m->boot;
    const bool is_lie = m->is_hostile && !w->is_quiet && world_chance(w, 50);

    if (!node || m->is_over || !boot)
        return;
    switch (step % 5) {
    case 0:
        state(w, node, boot, false);
        break;
    case 1:
        server_mergef(w, node, "{\"status\":{\"nodeInfo\":{\"bootID\":\"b%u\"}}}",
                      is_lie ? boot + 7 : boot);
        break;
    case 2:
        set_condition(w, node, !is_lie);
        break;
    case 3:
        state(w, node, boot, true);
        break;
    default:
        if (w->is_quiet) { /* this boot is the last one */
            world_post(w, 20 * SEC, THING_GATE, due->a, 1, NULL);
            return;
        }
        m->boot++;
        break;
    }
    world_post(
        w,
        world_between(w, step % 5 == 3 ? 60 * SEC : 10 * MSEC, step % 5 == 3 ? 900 * SEC : 9 * SEC),
        THING_GATE, due->a, (step + 1) % 5, NULL);
}

/* --- the judge */

bool judge_is_gate(const struct nc_control_action *a) {
    return a->verb == NC_CONTROL_GET_NODE
           || (a->verb == NC_CONTROL_PATCH_NODE
               && nc_value_get(nc_value_path(a->body, "metadata.annotations"),
                               NC_ANNOTATION_FIT_BOOT));
}

static bool is_stated(const struct nc_value *node, bool is_fit, const char **ret_boot) {
    static char boot[32];
    const char *text = annotation_of(node, NC_ANNOTATION_FIT);
    nc_auto_value struct nc_value *v = NULL;

    if (!text || nc_json_parse(text, strlen(text), &v, NULL) < 0 || !text_at(v, "boot"))
        return false;
    (void)snprintf(boot, sizeof(boot), "%s", text_at(v, "boot"));
    *ret_boot = boot;
    return nc_value_get(v, "fit") && nc_value_get(v, "fit")->boolean == is_fit;
}

static bool is_proven(const struct nc_value *node) {
    const char *boot = NULL;

    return is_stated(node, true, &boot) && nc_streq(condition_of(node, NC_CONDITION_FIT), "True")
           && nc_streq(boot, text_at(node, "status.nodeInfo.bootID"));
}

void judge_gated(struct world *w, const struct object *node, const struct nc_value *was) {
    const char *boot = NULL;

    if (has_taint(was) && !has_taint(node->v) && !is_proven(was))
        judge_break(w, "gate", "%s is opened, and is not proven to be fit", node->name);
    if (!has_taint(was) && has_taint(node->v)
        && (!is_stated(was, false, &boot) || !annotation_of(was, NC_ANNOTATION_FIT_BOOT)
            || nc_streq(boot, annotation_of(was, NC_ANNOTATION_FIT_BOOT))))
        judge_break(w, "gate", "%s is closed in the boot that was opened", node->name);
}

void judge_probe_gate(struct world *w) {
    for (unsigned i = 0; i < w->n_machines; i++) {
        struct machine *m = &w->machines[i];
        const struct object *node = node_of(w, m);
        uint64_t from = 0;
        if (!node || is_deleting(node->v) || is_unreadable(node->v) || !has_taint(node->v)
            || !is_proven(node->v)) {
            m->shut_usec = 0;
            continue;
        }
        if (!m->shut_usec)
            m->shut_usec = w->now_usec;
        from = m->shut_usec > w->good_usec ? m->shut_usec : w->good_usec;
        if (w->good_usec && w->now_usec > from + SHUT_USEC)
            judge_break(w, "gate-open", "%s is fit, and its taint was left behind", node->name);
    }
}

void gate_embellish(struct nc_value *node) {
    const char *boot = NULL;

    if (!is_stated(node, true, &boot))
        return;
    nc_value_set(
        node, "status",
        world_json("{\"nodeInfo\":{\"bootID\":\"%s\"},\"conditions\":[{\"type\":\"" NC_CONDITION_FIT
                   "\",\"status\":\"True\"}]}",
                   boot));
}
