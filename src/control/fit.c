/*
 * Nodes that state whether they are fit to take pods, and the taint that keeps pods away until they
 * are. Rules C21 to C24.
 *
 * The statement, an annotation, is a hint: it tells when the complete Node is worth reading. What
 * is trusted is the agent's condition in it, for the boot that kubelet reports. The write that
 * follows has the resourceVersion of what was read, so that it holds at the moment at which it is
 * made. A node that lies opens or closes itself.
 */
#include "fit.h"

#include <errno.h>

#include "nc/backoff.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"
#include "parse.h"
#include "step.h"

#define AGAIN_USEC (300ull * 1000000)
/* As long as an agent waits, unless it is told otherwise. */
#define UNSTATED_USEC (600ull * 1000000)
#define UNCONFIRMED_MAX 11u /* reads, some seven minutes: then it is said */
#define BOOT_MAX ((size_t)64)
#define EFFECT "NoSchedule"
#define TAINT NC_TAINT_UNFIT ":" EFFECT

static const struct nc_backoff pauses = {.first_usec = 200000, .max_usec = AGAIN_USEC};

/* As the complete Node was read: the rest of its taints goes back as it is. */
struct control_fit_write {
    struct control_strings taints; /* 4 each */
    char *version;
    char *boot; /* the taint is removed for that; NULL: it is put back */
};

/* ---- what is read */

static const struct nc_value *annotation(const struct nc_value *object, const char *key) {
    return nc_control_at(object, "metadata.annotations", key);
}

static int parse(const char *text, struct nc_value **ret) {
    return text && strlen(text) <= CONTROL_DRAIN_STATUS_MAX
               ? nc_json_parse(text, strlen(text), ret, NULL)
               : -EBADMSG;
}

static const char *boot_of(const struct nc_value *stated) {
    const char *boot = nc_value_get_string(stated, "boot");

    return nc_is_alnum_or(boot, "-", BOOT_MAX) ? boot : NULL;
}

static int read_statement(const struct nc_value *object, struct control_fit *f) {
    const char *record = nc_value_string(annotation(object, NC_ANNOTATION_FIT_BOOT));
    nc_auto_value struct nc_value *v = NULL;
    const struct nc_value *fit = NULL;

    if (parse(nc_value_string(annotation(object, NC_ANNOTATION_FIT)), &v) < 0)
        return -EBADMSG;
    fit = nc_value_get(v, "fit");
    if (!fit || fit->type != NC_VALUE_BOOL || !boot_of(v)
        || nc_control_parse_time(nc_control_at(v, "until", NULL), &f->until_usec) < 0)
        return -EBADMSG;
    f->is_fit = fit->boolean;
    f->is_opened = record && nc_streq(record, boot_of(v));
    f->is_other_boot = record && !f->is_opened;
    return 0;
}

static void drop_write(struct control_fit *f) {
    struct control_fit_write *w = nc_steal(&f->write);

    if (!w)
        return;
    nc_control_strings_done(&w->taints);
    free(w->version);
    free(w->boot);
    free(w);
}

struct control_fit *nc_control_fit_free(struct control_fit *f) {
    if (f)
        drop_write(f);
    free(f);
    return NULL;
}

struct control_fit *nc_control_fit_from(const struct nc_control *c, const struct nc_value *object) {
    const struct nc_value *v = annotation(object, NC_ANNOTATION_FIT);
    const char *text = nc_value_string(v);
    struct control_fit *f = v ? nc_calloc(1, sizeof(*f)) : NULL;

    if (!f)
        return NULL;
    f->stated = (text ? nc_control_hash(c, text) : 0) | 1; /* never 0 */
    if (read_statement(object, f) < 0)
        *f = (struct control_fit){.stated = f->stated, .is_invalid = true};
    return f;
}

bool nc_control_has_gate(const struct nc_value *claim) {
    const struct nc_value *list = nc_control_at(claim, "spec.startupTaints", NULL);

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_value_says(list->items[i], "key", NC_TAINT_UNFIT))
            return true;
    return false;
}

/* The taint is gone: nothing is waited for, and nothing is overdue. */
static void rest(struct control_fit *f) {
    f->again_usec = f->until_usec = 0;
    f->attempts = 0;
    f->is_overdue = f->was_reported = false;
}

void nc_control_fit_set(struct control_node *node, struct control_fit *f) {
    struct control_fit *old = node->fit;

    if (!f && old && !old->stated)
        return;
    if (old && f) {
        f->checked = old->checked;
        f->again_usec = old->stated ? old->again_usec : 0;
        f->attempts = old->attempts;
        f->is_overdue = old->is_overdue;
        f->was_reported = old->was_reported && f->is_invalid == old->is_invalid;
        f->write = nc_steal(&old->write);
        if (f->stated == old->stated)
            f->until_usec = old->until_usec; /* it may have been seen to be over */
    }
    if (f && f->is_opened)
        rest(f);
    nc_control_fit_free(old);
    node->fit = f;
}

/* ---- what is due */

static bool is_ours(const char *const taint[4]) {
    return nc_streq(taint[0], NC_TAINT_UNFIT);
}

static void write_taints(const struct control_node *node, struct nc_control_action *ret) {
    const struct control_fit_write *w = node->fit->write;
    struct nc_value *list = nc_value_new_list(), *spec = nc_value_new_map(),
                    *annotations = nc_value_new_map();
    const char *at = NULL, *t[4];

    while ((at = nc_control_strings_next(&w->taints, at, 4, t)))
        if (!is_ours(t))
            nc_control_push_taint(list, t);
    if (!w->boot)
        nc_control_push_taint(list, (const char *[4]){NC_TAINT_UNFIT, "", EFFECT, ""});
    nc_value_set(spec, "taints", list);
    nc_value_set_text(annotations, NC_ANNOTATION_FIT_BOOT, w->boot);
    ret->verb = NC_CONTROL_PATCH_NODE;
    ret->body = nc_control_patch(&node->o, false);
    nc_value_set_string(nc_value_get(ret->body, "metadata"), "resourceVersion", w->version);
    nc_value_set(nc_value_get(ret->body, "metadata"), "annotations", annotations);
    nc_value_set(ret->body, "spec", spec);
}

/* A moment that is further away than any pause is of a clock that was set back since. */
static uint64_t again(const struct control_fit *f, uint64_t now_usec) {
    return nc_control_is_ahead(f->again_usec, now_usec, AGAIN_USEC) ? f->again_usec : now_usec;
}

/* When the complete Node is to be read; UINT64_MAX = not. */
static uint64_t read_at(const struct nc_control *c, const struct control_fit *f,
                        uint64_t now_usec) {
    const bool is_news =
        f->stated != f->checked
        && (f->is_fit ? !f->is_opened : f->is_other_boot && !c->rules.no_taint_after_reboot);
    uint64_t when_usec = UINT64_MAX;

    if (f->is_invalid)
        return UINT64_MAX;
    if (!f->stated)
        return f->again_usec ? again(f, now_usec) : UINT64_MAX;
    if (is_news && f->checked) /* it was to be read again of what was stated before */
        return now_usec;
    if (is_news || f->again_usec)
        when_usec = again(f, now_usec);
    if (f->until_usec && !f->is_opened)
        nc_control_sooner(&when_usec,
                          f->until_usec > again(f, now_usec) ? f->until_usec : again(f, now_usec));
    return when_usec;
}

/* No agent has stated anything in its time: metadata do not show whether the taint is there. */
static void expect_statement(const struct nc_control *c, struct control_node *node,
                             uint64_t now_usec, uint64_t *next_usec) {
    const struct control_claim *claim = nc_control_claim_of(c, node);

    if (!claim || !claim->has_gate)
        return;
    if (now_usec < node->created_usec + UNSTATED_USEC) {
        *next_usec = node->created_usec + UNSTATED_USEC;
        return;
    }
    node->fit = nc_calloc(1, sizeof(*node->fit));
    node->fit->again_usec = now_usec;
}

bool nc_control_fit(struct nc_control *c, struct control_node *node, uint64_t now_usec,
                    struct nc_control_action *ret, uint64_t *next_usec) {
    const struct control_fit *f = NULL;
    uint64_t when_usec = UINT64_MAX;

    *next_usec = UINT64_MAX;
    if (node->deletion_usec)
        return false;
    if (!node->fit)
        expect_statement(c, node, now_usec, next_usec);
    f = node->fit;
    if (!f)
        return false;
    if (f->write) {
        write_taints(node, ret);
        return true;
    }
    when_usec = read_at(c, f, now_usec);
    if (when_usec > now_usec) {
        *next_usec = when_usec;
        return false;
    }
    ret->verb = NC_CONTROL_GET_NODE;
    return true;
}

/* ---- the complete Node */

static bool is_condition_true(const struct nc_value *object) {
    const struct nc_value *list = nc_control_at(object, "status.conditions", NULL);
    const char *status = NULL;

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_value_says(list->items[i], "type", NC_CONDITION_FIT))
            status = nc_value_get_string(list->items[i], "status");
    return nc_streq(status, "True");
}

static bool has_ours(const struct control_strings *taints) {
    const char *at = NULL, *t[4];

    while ((at = nc_control_strings_next(taints, at, 4, t)))
        if (is_ours(t))
            return true;
    return false;
}

/* What the node says it lacks, for people; what cannot be printed is left out. */
static char *lacks(const struct nc_value *stated) {
    const struct nc_value *missing = nc_value_get(stated, "missing");
    const char *reason = nc_value_get_string(stated, "reason");
    struct nc_buf b = NC_BUF_INIT_MAX(512);

    (void)nc_buf_puts(&b, nc_is_alnum_or(reason, "", 64) ? reason : "no reason");
    for (size_t i = 0; missing && missing->type == NC_VALUE_LIST && i < missing->n && i < 5; i++) {
        const char *name = nc_value_string(missing->items[i]);
        if (name && strlen(name) <= 80 && nc_is_visible(name, strlen(name)))
            (void)nc_buf_printf(&b, "%s%s", i ? ", " : ": ", name);
    }
    return nc_buf_steal(&b);
}

static char *overdue_cause(const struct control_fit *f, const struct nc_value *stated) {
    nc_auto_free char *why = lacks(stated);

    return !f->stated
               ? nc_strdup("the taint " TAINT " is there, and nothing states whether the node is "
                           "fit: nodeclaimd does not run there, or has no spec.fit")
           : f->is_fit
               ? nc_strdup("the taint " TAINT " stays: the node states that it is fit, but its "
                           "condition " NC_CONDITION_FIT " is not True for the boot that "
                           "kubelet reports")
               : nc_asprintf("the taint " TAINT " is there after its timeout: %s", why);
}

static char *overdue_text(const struct control_node *node, const struct nc_value *stated) {
    nc_auto_free char *cause = overdue_cause(node->fit, stated);

    return nc_asprintf("%s. For pods to start without it: kubectl taint node %s " NC_TAINT_UNFIT
                       "-",
                       cause, node->o.name);
}

/* Takes the text over. */
static void report_overdue(struct nc_control *c, struct control_node *node, char *text) {
    struct control_fit *f = node->fit;

    f->is_overdue = true;
    if (f->was_reported)
        free(text);
    else
        nc_control_emit_always(c, &node->o, "UnfitTooLong", true, text);
    f->was_reported = true;
}

/* The taint is there, and stays for now. */
static void hold(struct nc_control *c, struct control_node *node, const struct nc_value *stated,
                 uint64_t now_usec) {
    struct control_fit *f = node->fit;
    const bool is_over = f->until_usec && now_usec >= f->until_usec;

    f->again_usec = 0;
    if (is_over)
        f->until_usec = 0;
    if (f->is_fit && f->attempts < UINT16_MAX)
        f->attempts++;
    if (is_over || f->attempts >= UNCONFIRMED_MAX)
        report_overdue(c, node, overdue_text(node, stated));
    if (f->is_fit)
        f->again_usec =
            now_usec + nc_backoff_pause(&pauses, f->attempts, c->rules.seed ^ node->o.by_name.hash);
    else if (f->is_overdue)
        f->again_usec = now_usec + AGAIN_USEC;
}

/* Without a statement the taint alone is of interest. */
static void apply_unstated(struct nc_control *c, struct control_node *node, bool has_taint,
                           uint64_t now_usec) {
    if (!has_taint) {
        rest(node->fit);
        return;
    }
    report_overdue(c, node, overdue_text(node, NULL));
    node->fit->again_usec = now_usec + AGAIN_USEC;
}

static void apply_node(struct nc_control *c, struct control_node *node,
                       const struct nc_value *object, uint64_t now_usec) {
    const char *boot = nc_value_string(nc_control_at(object, "status.nodeInfo.bootID", NULL));
    const char *version = nc_value_string(nc_control_at(object, "metadata.resourceVersion", NULL));
    struct control_fit *f = node->fit, seen = {0};
    struct control_strings taints = {0};
    nc_auto_value struct nc_value *stated = NULL;
    const bool is_unstated = !f->stated && !annotation(object, NC_ANNOTATION_FIT);
    bool opens = false, closes = false;

    /* What is trusted is of one moment: the statement as it is in this object. */
    if (!version
        || nc_control_parse_taints(nc_control_at(object, "spec.taints", NULL), true, &taints) < 0
        || taints.bytes > CONTROL_NODE_BYTES
        || (!is_unstated
            && (read_statement(object, &seen) < 0
                || parse(nc_value_string(annotation(object, NC_ANNOTATION_FIT)), &stated) < 0))) {
        nc_control_strings_done(&taints);
        c->counts.unreadable[NC_CONTROL_NODE]++;
        f->again_usec = now_usec + AGAIN_USEC;
        return;
    }
    if (is_unstated) {
        apply_unstated(c, node, has_ours(&taints), now_usec);
        nc_control_strings_done(&taints);
        return;
    }
    f->checked = f->stated;
    f->is_fit = seen.is_fit;
    opens = has_ours(&taints) && seen.is_fit && is_condition_true(object)
            && nc_streq(boot, boot_of(stated));
    closes = !seen.is_fit && seen.is_other_boot && !c->rules.no_taint_after_reboot;
    if (opens || closes) {
        f->write = nc_calloc(1, sizeof(*f->write));
        *f->write = (struct control_fit_write){.taints = taints,
                                               .version = nc_strdup(version),
                                               .boot = opens ? nc_strdup(boot) : NULL};
        return;
    }
    if (has_ours(&taints))
        hold(c, node, stated, now_usec);
    else
        rest(f);
    nc_control_strings_done(&taints);
}

/* ---- answers */

static void failed(struct nc_control *c, struct control_node *node,
                   const struct nc_control_event *e) {
    struct control_fit *f = node->fit;
    uint64_t pause_usec = 0;

    f->checked = 0;
    if (f->attempts < UINT16_MAX)
        f->attempts++;
    pause_usec = e->answer == NC_CONTROL_REFUSED
                     ? AGAIN_USEC
                     : nc_backoff_pause(&pauses, f->attempts, c->rules.seed ^ node->o.by_name.hash);
    f->again_usec = e->now_usec + nc_control_pause(pause_usec, e->retry_after_usec);
    if (e->answer == NC_CONTROL_REFUSED)
        report_overdue(c, node,
                       nc_strdup("the taint " TAINT " may stay: the API server refuses to let the "
                                 "controller read the Node, or write its taints; apply "
                                 "deploy/rbac.yaml, and check admission policies"));
}

static void written(struct nc_control *c, struct control_node *node, bool is_open) {
    struct control_fit *f = node->fit;
    const uint64_t until_usec = is_open ? 0 : f->until_usec;

    rest(f);
    f->until_usec = until_usec;
    nc_control_emit_always(
        c, &node->o, is_open ? "UnfitTaintRemoved" : "UnfitTaintRestored", false,
        nc_strdup(is_open
                      ? "the node is fit to take pods: removed the taint " TAINT
                      : "the node has booted and is not yet fit to take pods: put the taint " TAINT
                        " back"));
}

void nc_control_fit_answered(struct nc_control *c, struct control_node *node,
                             enum nc_control_verb verb, const struct nc_control_event *e) {
    struct control_fit *f = node->fit;
    bool is_open = false;

    if (!f)
        return;
    if (verb == NC_CONTROL_GET_NODE) {
        if (e->answer == NC_CONTROL_DONE && e->object)
            apply_node(c, node, e->object, e->now_usec);
        else
            failed(c, node, e);
        return;
    }
    is_open = f->write && f->write->boot;
    drop_write(f);
    if (e->answer == NC_CONTROL_DONE)
        written(c, node, is_open);
    else
        failed(c, node, e);
}

void nc_control_fit_report(struct nc_control *c, struct control_node *node) {
    struct control_fit *f = node->fit;

    if (f && f->is_invalid && !f->was_reported)
        f->was_reported = nc_control_emit(c, &node->o, "InvalidFit", true,
                                          "invalid annotation " NC_ANNOTATION_FIT
                                          ": the taint " TAINT " stays until it can be read");
}
