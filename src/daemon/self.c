/*
 * `signal: self`, carried out: the probe of the guard, the termination time and the deletion of our
 * own NodeClaim.
 *
 * Knows the requests that are under way and which claim they were for. When which of them is made
 * is the lifecycle's decision. What is cut off is answered AWAY: the claim itself tells later what
 * had become of it.
 */
#include "daemon.h"

#include "log.h"
#include "nc/kube-self.h"
#include "nc/str.h"

#define ASK_TIMEOUT_USEC 2000000u /* nobody waits for it, but it is to be tried again in time */

struct nc_daemon_self {
    struct nc_kube_req *reqs[NC_SELF_DO_DELETE + 1];
    unsigned n_left;
    uint64_t begun_usec;
    struct nc_self_ended ended;
    bool was_away; /* of what is asked side by side, something had no answer */
};

static void post_ended(struct nc_daemon *d, const struct nc_self_ended *ended) {
    struct nc_life_event e = {.kind = NC_LIFE_SELF, .self = ended};

    nc_daemon_post(d, &e);
}

static struct nc_daemon_self *self_of(struct nc_daemon *d) {
    if (!d->self)
        d->self = nc_calloc(1, sizeof(*d->self));
    return d->self;
}

static void take_answer(struct nc_daemon_self *s, enum nc_self_question q,
                        const struct nc_self_asked *a) {
    struct nc_self_probe *p = &s->ended.probe;

    switch (q) {
    case NC_SELF_READ:
        p->read = a->answer;
        p->is_ours = a->is_ours;
        p->is_deleting = a->is_deleting;
        p->has_time = a->has_time;
        break;
    case NC_SELF_TRY_FOREIGN:
        p->foreign = a->answer;
        break;
    case NC_SELF_TRY_STAMP:
        p->stamp = a->answer;
        break;
    case NC_SELF_DO_STAMP:
    case NC_SELF_DO_DELETE:
        s->ended.answer = a->answer;
        break;
    }
}

/* A refusal of a dry run is what was asked for. */
static void note(struct nc_daemon *d, enum nc_self_question q, const struct nc_self_asked *a) {
    nc_histogram_add(&d->counters.api_latency, nc_mono_usec() - d->self->begun_usec);
    d->self->was_away = d->self->was_away || a->answer == NC_SELF_AWAY;
    if (a->answer == NC_SELF_AWAY)
        nc_daemon_api_failed(d, a->err);
    else if (q == NC_SELF_DO_STAMP || q == NC_SELF_DO_DELETE)
        nc_log(a->answer == NC_SELF_ALLOWED ? NC_LOG_INFO : NC_LOG_WARNING,
               &(struct nc_log_fields){.node = d->node_name, .nodeclaim = d->owner_name},
               "nodeclaim %s: %s", d->owner_name,
               a->answer != NC_SELF_ALLOWED ? a->err->msg
               : q == NC_SELF_DO_STAMP      ? "the termination time is set"
                                            : "deleted");
    else
        nc_log(NC_LOG_DEBUG, NULL, "nodeclaim %s: %s", d->owner_name,
               a->answer == NC_SELF_ALLOWED ? "answered" : a->err->msg);
}

static void on_asked(void *userdata, enum nc_self_question q, const struct nc_self_asked *a) {
    struct nc_daemon *d = userdata;
    struct nc_daemon_self *s = d->self;

    s->reqs[q] = NULL;
    note(d, q, a);
    take_answer(s, q, a);
    if (--s->n_left > 0)
        return;
    if (!s->was_away)
        nc_daemon_api_well(d);
    post_ended(d, &s->ended);
}

static void ask(struct nc_daemon *d, enum nc_self_question q, uint64_t time_usec) {
    struct nc_daemon_self *s = d->self;
    struct nc_err err = NC_ERR_INIT;

    d->counters.api_requests++;
    s->n_left++;
    if (nc_self_ask(d->connection.kube, q, d->node_name, time_usec, ASK_TIMEOUT_USEC, on_asked, d,
                    &s->reqs[q], &err)
        < 0)
        on_asked(d, q, &(struct nc_self_asked){.answer = NC_SELF_AWAY, .err = &err});
}

void nc_daemon_self_act(struct nc_daemon *d, const struct nc_life_action *a) {
    struct nc_daemon_self *s = self_of(d);

    s->ended = (struct nc_self_ended){.act = a->self};
    if (!d->is_connected || !d->owner_uid || d->is_foreign) {
        post_ended(d, &s->ended);
        return;
    }
    nc_kube_own_claim(d->connection.kube, d->owner_api, d->owner_name, d->owner_uid);
    s->was_away = false;
    s->begun_usec = nc_mono_usec();
    s->n_left = 1; /* held until all are asked */
    switch (a->self) {
    case NC_SELF_NONE:
        break;
    case NC_SELF_PROBE:
        ask(d, NC_SELF_READ, 0);
        ask(d, NC_SELF_TRY_FOREIGN, 0);
        ask(d, NC_SELF_TRY_STAMP, a->time_usec);
        break;
    case NC_SELF_STAMP:
        ask(d, NC_SELF_DO_STAMP, a->time_usec);
        break;
    case NC_SELF_DELETE:
        ask(d, NC_SELF_DO_DELETE, 0);
        break;
    }
    if (--s->n_left == 0)
        post_ended(d, &s->ended);
}

void nc_daemon_self_claim(struct nc_daemon *d) {
    struct nc_claim_view view = {.is_deleting = d->is_claim_deleting,
                                 .has_time = d->has_claim_time};
    struct nc_life_event e = {.kind = NC_LIFE_CLAIM, .claim = &view};

    if (!d->owner_uid || strlen(d->owner_uid) >= sizeof(view.uid))
        return;
    memcpy(view.uid, d->owner_uid, strlen(d->owner_uid) + 1);
    nc_daemon_post(d, &e);
}

void nc_daemon_self_close(struct nc_daemon *d) {
    struct nc_daemon_self *s = d->self;
    bool was_asking = false;

    if (!s)
        return;
    for (size_t i = 0; i < NC_ARRAY_SIZE(s->reqs); i++) {
        was_asking |= s->reqs[i] != NULL;
        s->reqs[i] = nc_kube_cancel(s->reqs[i]);
    }
    s->n_left = 0;
    if (was_asking)
        post_ended(d, &(struct nc_self_ended){.act = s->ended.act});
}

void nc_daemon_self_done(struct nc_daemon *d) {
    free(d->self);
    d->self = NULL;
}
