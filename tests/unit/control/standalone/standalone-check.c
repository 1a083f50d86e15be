/*
 * The cluster of standalone-world.h: looking at it, and what most stories begin with.
 */
#include "nc/names.h"
#include "standalone-world.h"

#include "nc/str.h"

const char *world_text(struct world *w, enum nc_control_kind kind, const char *name,
                       const char *path) {
    static char strings[4][512];
    static unsigned turn;
    char *text = strings[turn++ % 4];
    char buf[32];
    const char *found = NULL;
    const struct nc_value *v = nc_value_path(world_get(w, kind, name), path);

    found = v ? nc_value_scalar_text(v, buf) : NULL;
    (void)snprintf(text, sizeof(strings[0]), "%s", found ? found : "");
    return text;
}

const char *world_meta(struct world *w, enum nc_control_kind kind, const char *name,
                       const char *map, const char *key) {
    const char *text = nc_value_get_string(
        nc_value_get(nc_value_get(world_get(w, kind, name), "metadata"), map), key);

    return text ? text : "";
}

const char *world_condition(struct world *w, const char *claim, const char *type) {
    static char text[4][128];
    static unsigned turn;
    const struct nc_value *list =
        nc_value_path(world_get(w, NC_CONTROL_CLAIM, claim), "status.conditions");

    for (size_t i = 0; list && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "type"), type)) {
            char *t = text[turn++ % 4];
            assert_non_null(nc_value_get_string(list->items[i], "lastTransitionTime"));
            assert_non_null(nc_value_get_string(list->items[i], "message"));
            (void)snprintf(t, sizeof(text[0]), "%s %s",
                           nc_value_get_string(list->items[i], "status"),
                           nc_value_get_string(list->items[i], "reason"));
            return t;
        }
    return "";
}

bool world_has_taint(struct world *w, const char *node, const char *key) {
    const struct nc_value *list = nc_value_path(world_get(w, NC_CONTROL_NODE, node), "spec.taints");

    for (size_t i = 0; list && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "key"), key))
            return true;
    return false;
}

bool world_has_finalizer(struct world *w, enum nc_control_kind kind, const char *name) {
    const struct nc_value *list = nc_value_path(world_get(w, kind, name), "metadata.finalizers");

    for (size_t i = 0; list && i < list->n; i++)
        if (nc_streq(nc_value_string(list->items[i]), NC_FINALIZER))
            return true;
    return false;
}

const char *world_state(struct world *w, const char *node) {
    static char state[64];
    nc_auto_value struct nc_value *report = nc_control_report(w->control, w->now_usec);

    assert_int_equal(report->type, NC_VALUE_LIST);
    for (size_t i = 0; i < report->n; i++)
        if (nc_streq(nc_value_get_string(report->items[i], "node"), node)) {
            const char *text = nc_value_get_string(report->items[i], "state");
            (void)snprintf(state, sizeof(state), "%s", text ? text : "");
            return state;
        }
    return "no such node";
}

/* --- what most stories begin with */

void world_add_claim(struct world *w, const char *name, const char *more_spec) {
    nc_auto_free char *json = nc_asprintf(
        "{'apiVersion':'karpenter.sh/v1','kind':'NodeClaim','metadata':{'name':'%s','labels':{"
        "'karpenter.sh/nodepool':'pool','team':'a'},'annotations':{'note':'kept',"
        "'karpenter.sh/nodepool-hash':'1','karpenter.sh/nodepool-hash-version':'v3',"
        "'karpenter.k8s.aws/ec2nodeclass-hash':'5',"
        "'karpenter.k8s.aws/ec2nodeclass-hash-version':'v4'}},"
        "'spec':{'nodeClassRef':{'group':'karpenter.k8s.aws','kind':'EC2NodeClass',"
        "'name':'class'},'taints':[{'key':'dedicated','value':'a','effect':'NoSchedule'}],"
        "'startupTaints':[{'key':'cni','effect':'NoExecute'}],"
        "'resources':{'requests':{'cpu':'1','pods':'3','example.com/gpu':'0'}}%s%s},"
        "'status':{'providerID':'aws:///z/%s','conditions':[{'type':'Launched','status':'True',"
        "'reason':'Launched','message':'','lastTransitionTime':'" WORLD_PAST "'}]}}",
        name, *more_spec ? "," : "", more_spec, name);

    world_put(w, NC_CONTROL_CLAIM, json);
}

void world_add_node(struct world *w, const char *name) {
    nc_auto_free char *json = nc_asprintf(
        "{'apiVersion':'v1','kind':'Node','metadata':{'name':'%s','labels':{'own':'x'},"
        "'ownerReferences':[{'apiVersion':'v1','kind':'Thing','name':'t','uid':'other'}]},"
        "'spec':{'providerID':'aws:///z/%s','taints':[{'key':'karpenter.sh/unregistered',"
        "'effect':'NoExecute'},{'key':'dedicated','value':'mine','effect':'NoSchedule',"
        "'timeAdded':'" WORLD_PAST "'}]},'status':{'allocatable':{'cpu':'2','pods':'10'},"
        "'conditions':[{'type':'Ready','status':'False'}]}}",
        name, name);

    world_put(w, NC_CONTROL_NODE, json);
}

void world_add_pair(struct world *w, const char *name, const char *more_spec) {
    world_add_claim(w, name, more_spec);
    world_add_node(w, name);
    world_reconcile(w);
    world_patch(w, NC_CONTROL_NODE, name,
                "{'spec':{'taints':[{'key':'dedicated','value':'mine','effect':'NoSchedule',"
                "'timeAdded':'" WORLD_PAST "'}]},"
                "'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
    world_reconcile(w);
    assert_string_equal(world_condition(w, name, "Ready"), "True Ready");
}

/* ---- the usual beginning */

void world_begin(struct world *w) {
    world_init(w);
    world_put(w, POOL,
              "{'metadata':{'name':'pool','annotations':{'karpenter.sh/nodepool-hash':'1',"
              "'karpenter.sh/nodepool-hash-version':'v3'}},"
              "'spec':{'disruption':{'budgets':[{'nodes':'1'}]}}}");
    world_put(w, NC_CONTROL_CLASS,
              "{'metadata':{'name':'class','annotations':{'karpenter.k8s.aws/ec2nodeclass-hash':"
              "'5','karpenter.k8s.aws/ec2nodeclass-hash-version':'v4'}}}");
}

void world_begin_pair(struct world *w, const char *more_spec) {
    world_begin(w);
    world_add_pair(w, "a", more_spec);
    nc_buf_clear(&w->trace);
}

const char *world_trace(struct world *w) {
    return w->trace.data ? w->trace.data : "";
}

bool world_is_deleting(struct world *w, enum nc_control_kind kind, const char *name) {
    return *world_text(w, kind, name, "metadata.deletionTimestamp") != '\0';
}

void world_set_ready(struct world *w, const char *node, const char *status) {
    nc_auto_free char *json =
        nc_asprintf("{'status':{'conditions':[{'type':'Ready','status':'%s'}]}}", status);

    world_patch(w, NODE, node, json);
    world_reconcile(w);
}
