/*
 * An API server's answer: read as a refusal, a Node, a NodeClaim and a patch; whatever it holds,
 * there is an answer and no crash.
 */
#include <stdint.h>

#include "nc/str.h"

#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_node(const struct nc_value *object) {
    nc_auto_free char *sentence = NULL;
    const char *reason = NULL;
    struct nc_claim claim = {0};
    const bool is_claim = nc_claim_parse(object, &claim, NULL) >= 0;

    nc_node_waiting_for(object, is_claim ? &claim : NULL, &reason, &sentence);
    if (!reason || !sentence || (*reason == '\0') != (*sentence == '\0'))
        abort();
    (void)nc_node_is_being_deleted(object);
    (void)nc_node_has_taint(object, "karpenter.sh/disrupted", "NoSchedule");
    (void)nc_node_label(object, "karpenter.sh/nodepool");
    nc_claim_done(&claim);
}

/* Nothing that the rules let through may touch what is not ours. */
static void guard_patch(const struct nc_value *object) {
    const struct nc_kube_call c = {.what = "patch",
                                   .method = "PATCH",
                                   .path = "/api/v1/nodes/a",
                                   .body = object,
                                   .patch = NC_KUBE_PATCH_MERGE};

    if (nc_kube_guard(&c, NULL) == 0
        && (nc_value_path(object, "metadata.finalizers") || nc_value_path(object, "spec.taints")
            || nc_value_path(object, "metadata.ownerReferences") || nc_value_get(object, "status")))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const int statuses[] = {200, 403, 429, 500};
    nc_auto_free char *body = nc_strndup((const char *)data, n);

    for (size_t i = 0; i < NC_ARRAY_SIZE(statuses); i++) {
        const struct nc_http_result r = {
            .outcome = NC_HTTP_ANSWERED, .status = statuses[i], .body = body, .n = strlen(body)};
        nc_auto_value struct nc_value *object = NULL;
        struct nc_kube_status status;
        struct nc_err err = NC_ERR_INIT;
        const int e = nc_kube_judge(&r, "get", &object, &status, &err);
        if (status.http != statuses[i] || (e < 0) != (err.class != NC_ERR_NONE)
            || (statuses[i] != 200 && e >= 0))
            abort();
        if (object) {
            read_node(object);
            guard_patch(object);
        }
    }
    return 0;
}
