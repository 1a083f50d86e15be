/*
 * What is known of the controller itself: its time, whether its lists are complete, and whose
 * requests fail, which is logged when it is new and when there has been none for a while. `status`
 * has it until the same request succeeds: what another one does says nothing about it.
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

static bool is_known(const struct nc_failure *f) {
    return f->err.class != NC_ERR_NONE;
}

static struct nc_failure *find(struct nc_controller *c, enum nc_trouble where, uint64_t what) {
    for (struct nc_failure *f = c->failed; f < c->failed + NC_ARRAY_SIZE(c->failed); f++)
        if (is_known(f) && f->where == where && f->what == what)
            return f;
    return NULL;
}

/* A free place has never been used, or was so long ago. */
static struct nc_failure *find_oldest(struct nc_controller *c) {
    struct nc_failure *oldest = c->failed;

    for (struct nc_failure *f = c->failed; f < c->failed + NC_ARRAY_SIZE(c->failed); f++)
        if (f->mono_usec < oldest->mono_usec)
            oldest = f;
    return oldest;
}

static const struct nc_failure *find_last(const struct nc_controller *c, enum nc_trouble where,
                                          bool with_over) {
    const struct nc_failure *last = NULL;

    for (const struct nc_failure *f = c->failed; f < c->failed + NC_ARRAY_SIZE(c->failed); f++)
        if (is_known(f) && f->where == where && (with_over || !f->is_over)
            && (!last || f->mono_usec > last->mono_usec))
            last = f;
    return last;
}

const struct nc_err *nc_controller_trouble(const struct nc_controller *c, enum nc_trouble where) {
    const struct nc_failure *f = find_last(c, where, false);

    return f ? &f->err : NULL;
}

void nc_controller_note_failure(struct nc_controller *c, enum nc_trouble where, uint64_t what,
                                const struct nc_err *err) {
    struct nc_failure *f = find(c, where, what);

    if (!f)
        f = find_oldest(c);
    *f =
        (struct nc_failure){.where = where, .what = what, .err = *err, .mono_usec = nc_mono_usec()};
}

void nc_controller_failed(struct nc_controller *c, enum nc_trouble where, uint64_t what,
                          const struct nc_err *err) {
    const struct nc_failure *last = find_last(c, where, true);
    const char *remedy = nc_controller_remedy(c, err);

    if (err->class == NC_ERR_NONE)
        return;
    c->failures++;
    if (!last || last->err.class != err->class || last->err.code != err->code)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)},
               "%s; trying again%s%s", err->msg, *remedy ? ": " : "", remedy);
    nc_controller_note_failure(c, where, what, err);
}

/* Still known, so that one that comes and goes is not logged each time. */
void nc_controller_succeeded(struct nc_controller *c, enum nc_trouble where, uint64_t what) {
    struct nc_failure *f = find(c, where, what);

    if (f)
        f->is_over = true;
}

void nc_controller_forget_failures(struct nc_controller *c) {
    bool was_trouble = false, is_trouble = false;

    for (struct nc_failure *f = c->failed; f < c->failed + NC_ARRAY_SIZE(c->failed); f++) {
        was_trouble = was_trouble || is_known(f);
        if (f->mono_usec + FORGET_USEC < nc_mono_usec())
            f->err = (struct nc_err)NC_ERR_INIT;
        is_trouble = is_trouble || is_known(f);
    }
    if (was_trouble && !is_trouble)
        nc_log(NC_LOG_INFO, NULL, "API errors cleared");
}
