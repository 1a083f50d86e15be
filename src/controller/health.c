/*
 * What is known of the controller itself: its time, whether its lists are complete, and whose
 * requests fail, which is reported when it is new and when there has been none for a while.
 */
#include "controller.h"
#include "log.h"
#include "nc/clock.h"
#include "nc/str.h"

#define FORGET_USEC 45000000u /* longer than any pause between two attempts */

/* Deletions, deadlines and conditions are dated by the API server and by EC2, which agree. By a
 * clock of our own that is set an hour on, whatever is to end would be ended at once; by one that
 * is set back, no notice would be due. */
uint64_t nc_controller_boot_usec(const struct nc_controller *c) {
    const uint64_t told = c->api_config.kube ? nc_kube_boot_usec(c->api_config.kube) : 0;

    return told ? told : c->api_boot_usec;
}

uint64_t nc_controller_now(const struct nc_controller *c) {
    return nc_clock_shifted(nc_controller_boot_usec(c));
}

const char *nc_controller_waits_for(const struct nc_controller *c) {
    if (!c->was_scanned)
        return "waits for the API server";
    if (!c->paths[NC_CONTROL_CLAIM] && !c->settings->rules.completes_actions
        && !c->settings->rules.out_of_service)
        return "waits for NodeClaims to be installed";
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        if (c->paths[k] && !c->is_synced[k] && (c->watches[k] || c->mode == NC_CONTROL_STANDALONE))
            return "waits for its lists";
    return NULL;
}

bool nc_controller_is_synced(const struct nc_controller *c) {
    return !nc_controller_waits_for(c);
}

/* What the layers below advise is meant for a node. */
const char *nc_controller_remedy(const struct nc_controller *c, const struct nc_err *err) {
    const bool is_alone = c->mode == NC_CONTROL_STANDALONE, replaces = c->settings->rules.replaces;

    if (err->code != 403)
        return err->remedy;
    const char *webhook = strstr(err->msg, "admission webhook \"");
    if (nc_is_denied_by_admission(webhook ? webhook : err->msg))
        return "an admission webhook or policy of the cluster refuses it, not RBAC";
    return is_alone && replaces ? "apply deploy/rbac.yaml, deploy/optional/standalone-role.yaml "
                                  "and deploy/optional/replacement-role.yaml of this version"
           : is_alone ? "apply deploy/rbac.yaml and deploy/optional/standalone-role.yaml of this "
                        "version"
           : replaces ? "apply deploy/rbac.yaml and deploy/optional/replacement-role.yaml of this "
                        "version"
                      : "apply deploy/rbac.yaml of this version";
}

void nc_controller_note_failure(struct nc_controller *c, enum nc_trouble where,
                                const struct nc_err *err) {
    c->failed[where] = (struct nc_failure){.err = *err, .mono_usec = nc_mono_usec()};
}

void nc_controller_failed(struct nc_controller *c, enum nc_trouble where,
                          const struct nc_err *err) {
    const struct nc_failure *f = &c->failed[where];
    const char *remedy = nc_controller_remedy(c, err);

    if (err->class == NC_ERR_NONE)
        return;
    c->failures++;
    if (f->err.class != err->class || f->err.code != err->code)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)},
               "%s; trying again%s%s", err->msg, *remedy ? ": " : "", remedy);
    nc_controller_note_failure(c, where, err);
}

static bool is_troubled(const struct nc_controller *c) {
    for (int i = 0; i < _NC_TROUBLE_MAX; i++)
        if (c->failed[i].err.class != NC_ERR_NONE)
            return true;
    return false;
}

void nc_controller_forget_failures(struct nc_controller *c) {
    const bool was_trouble = is_troubled(c);

    for (int i = 0; i < _NC_TROUBLE_MAX; i++)
        if (c->failed[i].mono_usec + FORGET_USEC < nc_mono_usec())
            c->failed[i].err = (struct nc_err)NC_ERR_INIT;
    if (was_trouble && !is_troubled(c))
        nc_log(NC_LOG_INFO, NULL, "API errors cleared");
}
