/*
 * An API server's answer: read as a refusal, a Node, a NodeClaim and a patch; whatever it holds,
 * there is an answer and no crash.
 */
#include <stdint.h>

#include "nc/kube-drain.h"
#include "nc/str.h"

#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_ready(const struct nc_value *object) {
    const char *reason = NULL, *message = NULL;

    if (nc_node_is_ready(object, &reason, &message) && !nc_node_condition(object, "Ready"))
        abort();
}

/* The same object twice is the same view; metadata only leaves the rest as it was. */
static void check_view(const struct nc_value *object) {
    nc_auto_value struct nc_value *metadata_only = nc_value_new_map();
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const struct nc_strv stay = NC_STRV_INIT;
    struct nc_node_view once = {0}, twice;

    nc_node_view_apply(&once, object, &stay);
    twice = once;
    nc_node_view_apply(&twice, object, &stay);
    if (memcmp(&once, &twice, sizeof(once)) != 0)
        abort();
    if (metadata)
        nc_value_set(metadata_only, "metadata", nc_value_copy(metadata));
    nc_node_view_apply(&twice, metadata_only, &stay);
    if (strnlen(once.uid, sizeof(once.uid)) == sizeof(once.uid)
        || (metadata && nc_streq(once.uid, twice.uid) && once.n_volumes != twice.n_volumes))
        abort();
}

/* As a claim and as its volume: a path is of one more segment, a name is short and of one claim. */
static void check_volume(const struct nc_value *object) {
    static const char root[] = "/api/v1/persistentvolumes/";
    nc_auto_free char *path = nc_volume_claim_read(object);
    nc_auto_free char *name = nc_volume_read(object, "a/b");
    nc_auto_free char *other = nc_volume_read(object, "a/c");

    if (path
        && (!nc_starts_with(path, root) || strlen(path) > sizeof(root) + 253
            || strpbrk(path + strlen(root), "/%?# ") || nc_streq(path + strlen(root), "..")))
        abort();
    if ((name && (!nc_starts_with(name, "kubernetes.io/csi/") || strlen(name) > 2048))
        || (name && other))
        abort();
}

static void read_node(const struct nc_value *object) {
    nc_auto_free char *sentence = NULL;
    const char *reason = NULL;
    struct nc_claim claim = {0};
    const bool is_claim = nc_claim_parse(object, &claim, NULL) >= 0;

    nc_node_waiting_for(object, is_claim ? &claim : NULL, &reason, &sentence);
    if (!reason || !sentence || (*reason == '\0') != (*sentence == '\0'))
        abort();
    check_ready(object);
    check_view(object);
    check_volume(object);
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

/* What is taken begins as an object with its kind; a refusal is the same. */
static void check_head(const struct nc_http_result *r) {
    nc_auto_free char *head = nc_strndup(r->body, 64);
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;
    const int e = nc_kube_judge_head(r, "get", head, &status, &err);

    if (status.http != r->status || (e < 0) != (err.class != NC_ERR_NONE)
        || (r->status != 200 && e >= 0))
        abort();
    const bool is_of_the_api =
        strstr(head, "\"kind\"") || strstr(head, "\"apiVersion\"") || strstr(head, "\"metadata\"");

    if (e >= 0 && (*head != '{' || !is_of_the_api))
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
        check_head(&r);
        if (object) {
            read_node(object);
            guard_patch(object);
        }
    }
    return 0;
}
