/*
 * Why a Karpenter node is not initialized yet, in Karpenter's own words and order: ready, startup
 * taints, ephemeral taints, resources.
 *
 * Rules: the lifecycle controller's initialization step (karpenter core v1.13; nodes are
 * Initialized only after Registered). What Karpenter does not say is reported here: whose turn it
 * is to remove the taint that is waited for. One taint is not: the one that goes when we report
 * that nothing is waited for. Pure.
 */
#include <string.h>

#include "nc/kube.h"
#include "nc/names.h"
#include "nc/quantity.h"
#include "nc/str.h"

#include "wire.h"

/* Taints that vanish by themselves, and who removes each. */
static const struct {
    char key[48], effect[12];
    const char *remover;
} ephemeral[] = {
    {NC_TAINT_UNREGISTERED, "NoExecute",
     "Karpenter removes it when it registers the node: check the NodeClaim's condition Registered"},
    {NC_TAINT_NOT_READY, "NoSchedule",
     "kube-controller-manager removes it, the node itself may not"},
    {NC_TAINT_NOT_READY, "NoExecute",
     "kube-controller-manager removes it, the node itself may not"},
    {NC_TAINT_UNREACHABLE, "NoSchedule",
     "kube-controller-manager removes it when kubelet reports again"},
    {"node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule",
     "the cloud controller manager removes it"},
};

/* Is this the taint that waits for us? Waiting for it would last for ever. */
static bool waits_for_us(const char *key) {
    return nc_streq(key, NC_TAINT_BOOTSTRAP);
}

static bool is_taint(const struct nc_value *taint, const char *key, const char *effect) {
    return nc_value_says(taint, "key", key) && nc_value_says(taint, "effect", effect);
}

static char *wait_for_ready(const struct nc_value *node) {
    const char *reason;
    const char *message;

    if (nc_node_is_ready(node, &reason, &message))
        return NULL;
    if (!nc_node_condition(node, "Ready"))
        return nc_strdup(
            "Node status is not ready: kubelet has not reported the condition Ready yet");
    nc_auto_free char *quoted_reason = nc_quote_string(reason);
    nc_auto_free char *quoted = nc_quote_string(message);
    return nc_asprintf("Node status is not ready: %s: %s", quoted_reason, quoted);
}

static char *wait_for_startup_taints(const struct nc_value *node, const struct nc_claim *claim) {
    for (size_t i = claim ? claim->n_plain_taints : 0; claim && i < claim->n_taints; i++) {
        const struct nc_taint *t = &claim->taints[i];
        if (!waits_for_us(t->key) && nc_node_has_taint(node, t->key, t->effect))
            return nc_asprintf("StartupTaint \"%s%s%s:%s\" still exists: whoever owns it must "
                               "remove it, the node itself may not",
                               t->key, t->value && *t->value ? "=" : "", t->value ? t->value : "",
                               t->effect);
    }
    return NULL;
}

static const char *ephemeral_remover(const struct nc_value *taint) {
    const char *key = nc_value_get_string(taint, "key");

    for (size_t i = 0; i < NC_ARRAY_SIZE(ephemeral); i++)
        if (is_taint(taint, ephemeral[i].key, ephemeral[i].effect))
            return ephemeral[i].remover;
    if (nc_starts_with(key, NC_TAINT_READINESS) && !waits_for_us(key))
        return "the node readiness controller removes it";
    return NULL;
}

static char *wait_for_ephemeral_taints(const struct nc_value *node) {
    const struct nc_value *list = nc_value_path(node, "spec.taints"), *taint;

    for (size_t i = 0; (taint = nc_value_item(list, i)); i++) {
        const char *remover = ephemeral_remover(taint);
        if (!remover)
            continue;
        const char *key = nc_value_get_string(taint, "key");
        const char *effect = nc_value_get_string(taint, "effect");
        nc_auto_free char *name = nc_asprintf("%s:%s", key, effect ? effect : "");
        nc_auto_free char *quoted = nc_quote_string(name);
        return nc_asprintf("KnownEphemeralTaint %s still exists: %s", quoted, remover);
    }
    return NULL;
}

static bool is_zero(const struct nc_value *v) {
    int64_t milli = 0;
    int64_t value = 0;

    return !v || (nc_quantity_of(v, &milli, &value) == 0 && milli == 0 && value == 0);
}

static char *wait_for_resources(const struct nc_value *node, const struct nc_claim *claim) {
    const struct nc_value *requests = claim ? claim->requests : NULL;
    const struct nc_value *allocatable = nc_value_path(node, "status.allocatable");
    const struct nc_member *m;

    for (size_t i = 0; (m = nc_value_member(requests, i)); i++) {
        if (is_zero(m->value) || !is_zero(nc_value_get(allocatable, m->key)))
            continue;
        nc_auto_free char *quoted = nc_quote_string(m->key);
        return nc_asprintf("Resource %s was requested but not registered: its device plugin has "
                           "not reported it to kubelet",
                           quoted);
    }
    return NULL;
}

void nc_node_waiting_for(const struct nc_value *node, const struct nc_claim *claim,
                         const char **ret_reason, char **ret_sentence) {
    const char *reason = "NodeNotReady";
    char *sentence = wait_for_ready(node);

    if (!sentence && nc_node_has_taint(node, NC_TAINT_REBOOTING, NULL)) {
        reason = "Rebooting";
        sentence = nc_strdup("Karpenter reboots the node: it removes the taint " NC_TAINT_REBOOTING
                             " once kubelet has reported the new boot");
    }
    if (!sentence) {
        reason = "StartupTaintsExist";
        sentence = wait_for_startup_taints(node, claim);
    }
    if (!sentence) {
        reason = "KnownEphemeralTaintsExist";
        sentence = wait_for_ephemeral_taints(node);
    }
    if (!sentence) {
        reason = "ResourceNotRegistered";
        sentence = wait_for_resources(node, claim);
    }
    *ret_reason = sentence ? reason : "";
    *ret_sentence = sentence ? sentence : nc_strdup("");
}
