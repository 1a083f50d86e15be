/*
 * What the metadata of our own Node announces: REQUEST (annotation drain-request) and, with the
 * claim's, DELETION.
 *
 * A request that cannot be read, or whose deadline had passed before it was seen, lifts none that
 * is in force: only its removal or another good one does.
 */
#include "daemon.h"

#include <stdio.h>
#include <string.h>

#include "nc/names.h"
#include "nc/str.h"

#define REPORT_REFUSED_EVERY_USEC 10000000u
#define REPORT_REFUSED_AHEAD_USEC 30000000u /* of one who corrects himself */

/* Whoever asked is told, where people look: a controller of a later release may know words that we
 * do not, and its request is not acknowledged. One who asks in a loop is told now and then, and
 * what he was not told is read again with the next change of the Node. */
static void report_invalid_request(struct nc_daemon *d, const struct nc_err *err,
                                   bool has_another) {
    nc_auto_free char *message = nc_asprintf(
        "annotation %s: %s; %s", NC_ANNOTATION_REQUEST, err->msg,
        has_another ? "the one before it goes on, without a deadline" : "the request is ignored");
    const uint64_t now = nc_mono_usec();

    nc_replace_text(&d->node.request_refused, err->msg);
    d->is_status_due = true;
    if (d->node.refused_usec > now + REPORT_REFUSED_AHEAD_USEC) {
        nc_replace_text(&d->node.request, NULL);
        return;
    }
    d->node.refused_usec =
        (d->node.refused_usec > now ? d->node.refused_usec : now) + REPORT_REFUSED_EVERY_USEC;
    nc_daemon_refuse_request(d, message, NC_ANNOTATION_REQUEST);
}

static bool is_in_force(const struct nc_daemon *d, const struct nc_notice *n) {
    const struct nc_notice *before = nc_lifecycle_notice(d->life, n->source);

    return before && nc_streq(before->id, n->id) && before->deadline_usec == n->deadline_usec;
}

/* What was in force before a restart goes on; and a claim's time may rightly end while its node
 * observes nothing. */
static int read_request(const struct nc_daemon *d, const char *text, struct nc_notice *ret,
                        struct nc_err *err) {
    const int r = nc_notice_read_request(text, strlen(text), NC_SOURCE_REQUEST, ret, err);

    if (r < 0 || nc_notice_is_of_claim(ret, d->claim.uid) || is_in_force(d, ret))
        return r;
    return nc_notice_check_deadline(ret, nc_daemon_now(d), err);
}

/* Nobody asks for it any more, and nobody knows for what instead: its pods are not ended for it. A
 * claim ends all the same. */
static void post_replaced(struct nc_daemon *d, const struct nc_notice *before) {
    struct nc_notice n = *before;

    if (!nc_starts_with(n.id, NC_NOTICE_OF_CLAIM))
        n.deadline_usec = 0;
    nc_daemon_post_notice(d, &n);
}

void nc_node_request_apply(struct nc_daemon *d, const struct nc_value *metadata) {
    const char *text =
        nc_value_get_string(nc_value_get(metadata, "annotations"), NC_ANNOTATION_REQUEST);
    struct nc_notice notice = {0};
    struct nc_err err = NC_ERR_INIT;

    if (!text || !*text) {
        nc_replace_text(&d->node.request, NULL);
        nc_replace_text(&d->node.request_refused, NULL);
        nc_daemon_post_cleared(d, NC_SOURCE_REQUEST);
        return;
    }
    if (nc_streq(d->node.request, text))
        return;
    nc_replace_text(&d->node.request, text);
    if (read_request(d, text, &notice, &err) < 0) {
        const struct nc_notice *before = nc_lifecycle_notice(d->life, NC_SOURCE_REQUEST);
        report_invalid_request(d, &err, before != NULL);
        if (before)
            post_replaced(d, before);
        else
            nc_daemon_post_again(d, NC_SOURCE_REQUEST);
    } else {
        nc_replace_text(&d->node.request_refused, NULL);
        nc_daemon_post_notice(d, &notice);
    }
}

/* After a restart the claim may be being deleted while the Node is not yet: before it was read
 * nothing is taken back. Whoever set the claim's time took his margin off already: it is the
 * force-delete time itself. */
void nc_node_request_note_deletion(struct nc_daemon *d) {
    struct nc_notice notice = {.source = NC_SOURCE_DELETION, .action = "delete"};

    if (!d->node.view.exists || !d->node.is_known)
        return;
    if (!d->node.view.is_deleting && !d->claim.is_deleting) {
        if (!nc_claim_watch_is_pending(d))
            nc_daemon_post_cleared(d, NC_SOURCE_DELETION);
        return;
    }
    (void)snprintf(notice.id, sizeof(notice.id), "deletion-%.60s", d->node.view.uid);
    (void)snprintf(notice.reason, sizeof(notice.reason), "%s is being deleted",
                   d->claim.is_deleting ? "the NodeClaim" : "the Node");
    notice.deadline_usec = nc_claim_watch_time(d);
    notice.is_force_delete_time = notice.deadline_usec != 0;
    nc_daemon_post_notice(d, &notice);
}
