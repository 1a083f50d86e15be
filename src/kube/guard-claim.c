/*
 * The rules on the wire for NodeClaims: of our own one, once it was named, the termination time may
 * be added and the claim deleted by its uid; of every other nothing.
 *
 * The policy on the server says the same; this is for the day on which it is missing.
 */
#include <errno.h>
#include <string.h>

#include "nc/kube-self.h"
#include "nc/str.h"

#include "guard-claim.h"
#include "guard.h"

#define CLAIMS "/nodeclaims/"

void nc_kube_own_claim(struct nc_kube *k, const char *api, const char *name, const char *uid) {
    nc_auto_free char *escaped = name ? nc_kube_escape(name) : NULL;

    free(nc_steal(&k->claim_path));
    free(nc_steal(&k->claim_uid));
    if (!api || !name || !*name || !uid || !*uid)
        return;
    k->claim_path = nc_asprintf("/apis/%s" CLAIMS "%s", api, escaped);
    k->claim_uid = nc_strdup(uid);
}

/* The only member of a map. */
static const struct nc_value *only(const struct nc_value *map, const char *key) {
    return map && map->type == NC_VALUE_MAP && map->n == 1 ? nc_value_get(map, key) : NULL;
}

static bool is_ours(const struct nc_kube *k, const struct nc_value *with_uid) {
    return nc_streq(nc_value_get_string(with_uid, "uid"), k->claim_uid);
}

static bool is_time(const struct nc_value *v) {
    const char *text = v ? nc_value_string(v) : NULL;
    uint64_t usec;

    return text && strlen(text) == strlen("2026-01-02T03:04:05Z") && nc_ends_with(text, "Z")
           && nc_time_parse(text, &usec) >= 0;
}

static bool is_patch(const struct nc_kube *k, const struct nc_kube_call *c, bool is_dry) {
    const struct nc_value *metadata = only(c->body, "metadata");
    const struct nc_value *annotations = nc_value_get(metadata, "annotations");

    if (c->patch != NC_KUBE_PATCH_MERGE || !metadata || metadata->type != NC_VALUE_MAP
        || metadata->n != 2 || !is_ours(k, metadata))
        return false;
    return is_time(only(annotations, NC_TERMINATION_TIME))
           || (is_dry && only(annotations, NC_GUARD_PROBE) != NULL);
}

static bool is_deletion(const struct nc_kube *k, const struct nc_kube_call *c) {
    const struct nc_value *preconditions = nc_value_get(c->body, "preconditions");

    return c->body && c->body->n == 3
           && nc_streq(nc_value_get_string(c->body, "kind"), "DeleteOptions")
           && nc_streq(nc_value_get_string(c->body, "apiVersion"), "v1") && preconditions
           && preconditions->n == 1 && is_ours(k, preconditions);
}

int nc_kube_guard_own(const struct nc_kube *k, const struct nc_kube_call *c, struct nc_err *err) {
    const char *rest = k->claim_path && c->path && nc_starts_with(c->path, k->claim_path)
                           ? c->path + strlen(k->claim_path)
                           : NULL;
    const bool is_dry = nc_streq(rest, NC_DRY_RUN);

    if (!rest || (*rest && !is_dry) || nc_streq(c->method, "GET"))
        return nc_kube_guard(c, err);
    if (nc_streq(c->method, "PATCH") && is_patch(k, c, is_dry))
        return 0;
    if (nc_streq(c->method, "DELETE") && !*rest && c->patch == NC_KUBE_PATCH_NONE
        && is_deletion(k, c))
        return 0;
    return nc_guard_refuse(
        c, err, "of its NodeClaim a node may add the termination time and delete it by uid", NULL);
}
