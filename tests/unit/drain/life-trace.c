/*
 * The world of nc/lifecycle.h's traces: actions into words, and what holds for each of them.
 */
#include "life-world.h"

#include "nc/str.h"

static const char *const phases_of_writes[] = {"none",    "signal",    "cordon",  "progress",
                                               "drained", "undrained", "release", "calm"};

void life_request_text(struct life_world *w, const char *text) {
    if (w->trace.len)
        (void)nc_buf_puts(&w->trace, "; ");
    (void)nc_buf_puts(&w->trace, text);
}

/* "[Cordoned cordon record label]" */
static void say_write(struct life_world *w, const struct nc_node_write *n) {
    nc_auto_value struct nc_value *status = NULL;
    struct nc_buf b = NC_BUF_INIT;

    if (n->drain_status) {
        assert_true(strlen(n->drain_status) <= 1024);
        assert_int_equal(nc_json_parse(n->drain_status, strlen(n->drain_status), &status, NULL), 0);
        (void)snprintf(w->last_status, sizeof(w->last_status), "%s", n->drain_status);
    }
    (void)nc_buf_printf(&b, "WRITE %s[", phases_of_writes[n->kind]);
    if (n->sets_status)
        (void)nc_buf_puts(&b, status ? nc_value_get_string(status, "phase") : "-");
    if (n->unschedulable >= 0)
        (void)nc_buf_puts(&b, n->unschedulable ? " cordon" : " uncordon");
    if (n->sets_cordon)
        (void)nc_buf_puts(&b, n->cordon ? " record" : " unrecord");
    if (n->balancers_label >= 0)
        (void)nc_buf_puts(&b, n->balancers_label ? " label" : " unlabel");
    if (n->pending.is_set)
        (void)nc_buf_puts(&b, n->pending.is_true ? " pending" : " !pending");
    if (n->drained.is_set)
        (void)nc_buf_puts(&b, n->drained.is_true ? " drained" : " !drained");
    (void)nc_buf_puts(&b, "]");
    life_request_text(w, b.data);
    nc_buf_done(&b);
}

static void note_asked(struct life_world *w, const char *name, enum nc_drain_verb verb) {
    for (size_t i = 0; i < w->n_asked; i++)
        if (nc_streq(w->asked[i].name, name)) {
            w->asked[i].verb = verb;
            return;
        }
    assert_true(w->n_asked < 80);
    struct life_requested *a = &w->asked[w->n_asked++];
    (void)snprintf(a->name, sizeof(a->name), "%s", name);
    a->verb = verb;
}

static void say_pod(struct life_world *w, const struct nc_drain_action *a) {
    char text[320];

    note_asked(w, a->pod->name, a->verb);
    if (a->verb == NC_DRAIN_DELETE)
        (void)snprintf(text, sizeof(text), "delete %s %llu", a->pod->name,
                       (unsigned long long)a->grace_sec);
    else
        (void)snprintf(text, sizeof(text), "%s %s", a->verb == NC_DRAIN_EVICT ? "evict" : "mark",
                       a->pod->name);
    life_request_text(w, text);
}

/* What holds for each write of each story. */
static void check_write(const struct life_world *w, const struct nc_node_write *n) {
    assert_false(w->write.is_in_flight); /* one at a time */
    assert_string_equal(n->uid, w->server.uid);
    if (n->unschedulable == 0)
        assert_true(w->server.has_cordon_record);
    if (n->balancers_label == 0)
        assert_true(w->server.is_balancers_label_ours);
    if (n->balancers_label == 1)
        assert_false(w->server.has_balancers_label && !w->server.is_balancers_label_ours);
    if (n->cordon && n->kind != NC_WRITE_PROGRESS) /* the record alone, which was lost */
        assert_int_equal(n->unschedulable, 1);
}

static void handle_write(struct life_world *w, struct nc_node_write *n) {
    check_write(w, n);
    say_write(w, n);
    nc_node_write_done(&w->write.w);
    w->write.w = *n;
    w->write.is_in_flight = true;
    *n = (struct nc_node_write){0};
}

void life_step(struct life_world *w, struct nc_lifecycle_event *e) {
    struct nc_lifecycle_actions out = {0};

    e->now_usec = w->now_usec;
    e->clock_offset_usec = w->clock_offset_usec;
    e->more = w->more;
    w->lasting = "";
    e->away_usec = w->away_usec;
    nc_lifecycle_step(w->life, e, &out);
    for (size_t i = 0; i < out.n; i++) {
        struct nc_lifecycle_action *a = &out.v[i];
        switch (a->kind) {
        case NC_LIFECYCLE_ACTION_WRITE:
            handle_write(w, &a->write);
            break;
        case NC_LIFECYCLE_ACTION_POD:
            say_pod(w, &a->pod);
            break;
        case NC_LIFECYCLE_ACTION_PODS_OPEN:
            life_request_text(w, "OPEN");
            break;
        case NC_LIFECYCLE_ACTION_PODS_CLOSE:
            life_request_text(w, "CLOSE");
            break;
        case NC_LIFECYCLE_ACTION_REFRESH_NODE:
            life_request_text(w, "LOOK");
            break;
        case NC_LIFECYCLE_ACTION_POD_NEWS:
            (void)nc_buf_printf(&w->news, "%s%s", w->news.len ? "; " : "", a->news.message);
            break;
        case NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR:
            life_request_text(w, "LET GO");
            break;
        case NC_LIFECYCLE_ACTION_START_HOOK:
        case NC_LIFECYCLE_ACTION_FOLLOW_HOOK: {
            nc_auto_free char *hook =
                nc_asprintf("%s %s", a->kind == NC_LIFECYCLE_ACTION_START_HOOK ? "START" : "FOLLOW",
                            nc_hook_name(a->hook));
            life_request_text(w, hook);
            break;
        }
        case NC_LIFECYCLE_ACTION_ANNOUNCE: {
            nc_auto_free char *text = nc_asprintf("SAY %s", a->reason);
            life_request_text(w, text);
            w->is_warning = a->is_warning;
            if (a->is_lasting)
                w->lasting = a->reason;
            (void)snprintf(w->last_message, sizeof(w->last_message), "%s", a->message);
            break;
        }
        }
    }
    nc_lifecycle_actions_done(&out);
    assert_true(w->more || nc_lifecycle_next(w->life, w->now_usec) > w->now_usec);
}
