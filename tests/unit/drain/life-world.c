/*
 * The world of nc/lifecycle.h's traces: words into events.
 */
#include "life-world.h"

#include "nc/backoff.h"
#include "nc/str.h"

void life_world_init(struct life_world *w) {
    *w = (struct life_world){.now_usec = LIFE_EPOCH_USEC};
    w->rules = (struct nc_lifecycle_rules){.drain = {.mode = NC_DRAIN_AUTO,
                                                     .margin_usec = 15000000,
                                                     .karpenter_reboot = NC_POLICY_REPORT,
                                                     .reboot = NC_POLICY_DRAIN},
                                           .max_in_flight = 100,
                                           .seed = 7};
    for (size_t s = 0; s < _NC_SOURCE_MAX; s++)
        w->rules.drain.policy[s] = s == NC_SOURCE_REBALANCE ? NC_POLICY_REPORT : NC_POLICY_DRAIN;
    (void)snprintf(w->server.uid, sizeof(w->server.uid), "u1");
    w->life = nc_lifecycle_new(&w->rules);
}

void life_world_done(struct life_world *w) {
    nc_node_write_done(&w->write.w);
    nc_lifecycle_free(w->life);
    nc_buf_done(&w->trace);
    nc_buf_done(&w->news);
}

static void step_kind(struct life_world *w, enum nc_lifecycle_event_kind kind) {
    struct nc_lifecycle_event e = {.kind = kind};

    life_step(w, &e);
}

static enum nc_source source_of(const char *name) {
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (nc_streq(nc_source_name((enum nc_source)s), name))
            return (enum nc_source)s;
    fail_msg("no source %s", name);
    return NC_SOURCE_SPOT;
}

static uint64_t seconds_at(const char *text) {
    return LIFE_EPOCH_USEC + (uint64_t)(strtod(text, NULL) * 1e6);
}

static void do_notice(struct life_world *w, char *rest) {
    struct nc_notice n = {.policy = NC_POLICY_DRAIN};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NOTICE, .notice = &n};
    char *save = NULL;
    const char *name = strtok_r(rest, " ", &save);

    n.source = source_of(name);
    (void)snprintf(n.id, sizeof(n.id), "%s-1", name);
    for (char *word = strtok_r(NULL, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (word[0] == '+')
            n.deadline_usec = seconds_at(word + 1);
        else if (nc_starts_with(word, "begin+"))
            n.begin_usec = seconds_at(word + 6);
        else if (nc_starts_with(word, "id="))
            (void)snprintf(n.id, sizeof(n.id), "%s", word + 3);
        else if (nc_starts_with(word, "action="))
            (void)snprintf(n.action, sizeof(n.action), "%s", word + 7);
        else if (nc_starts_with(word, "word="))
            (void)snprintf(n.reason, sizeof(n.reason), "%s", word + 5);
        else if (nc_streq(word, "cordoned"))
            n.cordons_until_then = true;
        else if (nc_streq(word, "last"))
            n.is_force_delete_time = true;
        else if (nc_streq(word, "cordon"))
            n.policy = NC_POLICY_CORDON;
        else
            assert_string_equal(word, "drain");
    }
    if (nc_sources[n.source].has_time_left)
        n.deadline_usec = nc_lifecycle_shift(n.deadline_usec, w->clock_offset_usec);
    life_step(w, &e);
}

static void do_clear(struct life_world *w, char *rest) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_CLEARED};

    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (nc_streq(rest, "all") || nc_streq(rest, nc_source_name((enum nc_source)s))) {
            e.source = (enum nc_source)s;
            life_step(w, &e);
        }
}

static void set_flag(struct nc_node_view *v, const char *word) {
    const bool on = word[0] != '-';
    const char *name = on ? word : word + 1;
    struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"deleting", &v->is_deleting},
        {"cordoned", &v->is_unschedulable},
        {"record", &v->has_cordon_record},
        {"status", &v->has_status},
        {"label", &v->has_balancers_label},
        {"label-ours", &v->is_balancers_label_ours},
        {"taint", &v->has_disrupted_taint},
        {"rebooting", &v->has_rebooting_taint},
        {"pending", &v->is_pending_true},
        {"drained", &v->is_drained_true},
        {"drained-by-another", &v->is_drained_by_another},
    };

    if (nc_starts_with(name, "uid="))
        (void)snprintf(v->uid, sizeof(v->uid), "%s", name + 4);
    else if (nc_starts_with(name, "volumes=")) {
        v->n_volumes = strtoul(name + 8, NULL, 10);
        (void)snprintf(v->volume, sizeof(v->volume), "%s", v->n_volumes ? "vol-0" : "");
    } else {
        for (size_t i = 0; i < NC_ARRAY_SIZE(flags); i++)
            if (nc_streq(flags[i].name, name)) {
                *flags[i].flag = on;
                if (nc_streq(name, "label-ours"))
                    v->has_balancers_label = on;
                return;
            }
        fail_msg("no flag %s", word);
    }
}

static void set_flags(struct life_world *w, char *rest) {
    char *save = NULL;

    for (char *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save))
        set_flag(&w->server, word);
}

static void show_node(struct life_world *w, bool is_complete) {
    struct nc_node_view v = w->server;
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NODE, .node = &v};

    w->server.exists = v.exists = true;
    v.is_complete = is_complete;
    if (!is_complete) {
        v.is_unschedulable = v.has_disrupted_taint = v.is_pending_true = v.is_drained_true = false;
        v.is_drained_by_another = false;
        v.n_volumes = 0;
        v.known_true = v.known_ours = 0;
    }
    life_step(w, &e);
}

static void do_node(struct life_world *w, char *rest) {
    set_flags(w, rest);
    show_node(w, true);
}

static void do_meta(struct life_world *w, char *rest) {
    set_flags(w, rest);
    show_node(w, false);
}

static void do_gone(struct life_world *w, char *rest) {
    (void)rest;
    w->server = (struct nc_node_view){.uid = "u1"};
    step_kind(w, NC_LIFECYCLE_NODE_GONE);
}

static void do_accepted(struct life_world *w, char *rest) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NODE_GONE, .is_anothers = true};

    (void)rest;
    life_step(w, &e);
}

enum shown { AS_IT_IS, LEAVING, STARTED, FIRST, KEPT, KEPT_FOR_HOUR, DAEMON, CRITICAL };

static void show_pod(struct life_world *w, char *word, enum shown how) {
    struct nc_pod pod = {.has_started = how == STARTED,
                         .is_replacement_first = how == FIRST,
                         .never_disrupt = how == KEPT,
                         .is_daemon = how == DAEMON,
                         .tier = how == DAEMON     ? NC_TIER_PLAIN_DAEMON
                                 : how == CRITICAL ? NC_TIER_CRITICAL
                                                   : NC_TIER_PLAIN};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD, .pod = &pod};
    char *colon = strchr(word, ':');

    if (colon) {
        *colon = '\0';
        pod.grace_sec = strtoul(colon + 1, NULL, 10);
    } else
        pod.grace_sec = 30;
    pod.namespace = nc_strdup("ns");
    pod.name = nc_strdup(word);
    pod.uid = nc_strdup(word);
    pod.controller = nc_backoff_seed(word);
    if (how == KEPT_FOR_HOUR)
        pod.keep_until_usec =
            nc_lifecycle_shift(w->now_usec + 3600 * 1000000ull, w->clock_offset_usec);
    if (how == LEAVING) {
        pod.deletion_usec =
            nc_lifecycle_shift(w->now_usec + pod.grace_sec * 1000000, w->clock_offset_usec);
        pod.deletion_grace_sec = pod.grace_sec;
    }
    life_step(w, &e);
}

static void do_pods(struct life_world *w, char *rest) {
    char *save = NULL;

    for (char *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save))
        show_pod(w, word, AS_IT_IS);
}

static void do_leaving(struct life_world *w, char *rest) {
    char *save = NULL;

    for (char *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save))
        show_pod(w, word, LEAVING);
}

static void do_started(struct life_world *w, char *rest) {
    show_pod(w, rest, STARTED);
}

static void do_first(struct life_world *w, char *rest) {
    show_pod(w, rest, FIRST);
}

static void do_daemon(struct life_world *w, char *rest) {
    show_pod(w, rest, DAEMON);
}

static void do_critical(struct life_world *w, char *rest) {
    show_pod(w, rest, CRITICAL);
}

static void do_kept(struct life_world *w, char *rest) {
    show_pod(w, rest, KEPT);
}

static void do_kept_for_hour(struct life_world *w, char *rest) {
    show_pod(w, rest, KEPT_FOR_HOUR);
}

static void do_unreadable(struct life_world *w, char *rest) {
    (void)rest;
    step_kind(w, NC_LIFECYCLE_POD_UNREADABLE);
}

static void do_lost(struct life_world *w, char *rest) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD_GONE};
    char *save = NULL;

    for (char *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        e.uid = word;
        life_step(w, &e);
    }
}

static void apply_write(struct life_world *w) {
    const struct nc_node_write *n = &w->write.w;
    struct nc_node_view *v = &w->server;

    if (n->unschedulable >= 0)
        v->is_unschedulable = n->unschedulable;
    if (n->sets_cordon)
        v->has_cordon_record = n->cordon != NULL;
    if (n->sets_status)
        v->has_status = n->drain_status != NULL;
    if (n->balancers_label >= 0)
        v->has_balancers_label = v->is_balancers_label_ours = n->balancers_label;
    if (n->pending.is_set)
        v->is_pending_true = n->pending.is_true;
    if (n->drained.is_set)
        v->is_drained_true = n->drained.is_true;
    v->known_true = (v->known_true & ~n->known_set) | n->known_true;
    v->known_ours = (v->known_ours & ~n->known_set) | n->known_true;
}

static void end_write(struct life_world *w, enum nc_write_outcome outcome, uint64_t after_usec,
                      const char *message) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_WRITTEN,
                                   .outcome = outcome,
                                   .retry_after_usec = after_usec,
                                   .message = message};

    w->write.is_in_flight = false;
    life_step(w, &e);
}

static void do_ok(struct life_world *w, char *rest) {
    (void)rest;
    assert_true(w->write.is_in_flight);
    apply_write(w);
    show_node(w, true);
    end_write(w, NC_WRITTEN, 0, NULL);
}

static void do_okay_unseen(struct life_world *w, char *rest) {
    (void)rest;
    assert_true(w->write.is_in_flight);
    apply_write(w);
    end_write(w, NC_WRITTEN, 0, NULL);
}

/* However it is: written where a write is in flight, unasked for where none is. */
static void do_written(struct life_world *w, char *rest) {
    if (w->write.is_in_flight)
        do_ok(w, rest);
    else
        end_write(w, NC_WRITTEN, 0, NULL);
}

static void do_refused(struct life_world *w, char *rest) {
    (void)rest;
    end_write(w, NC_WRITE_REFUSED, 0, "HTTP 403 Forbidden");
}

static void do_away(struct life_world *w, char *rest) {
    end_write(w, NC_WRITE_UNAVAILABLE, (uint64_t)(strtod(rest, NULL) * 1e6), NULL);
}

static void do_failing(struct life_world *w, char *rest) {
    (void)rest;
    end_write(w, NC_WRITE_UNAVAILABLE, 0, "HTTP 500");
}

static void answer_of(struct life_world *w, const char *name, enum nc_pod_answer_kind kind,
                      const char *budget) {
    struct nc_pod_answer a = {
        .kind = kind, .message = "'needs 3'", .is_unauthorized = nc_streq(budget, "rbac")};
    struct nc_lifecycle_event e = {
        .kind = NC_LIFECYCLE_POD_ANSWER, .uid = name, .answer = &a, .verb = NC_DRAIN_EVICT};

    for (size_t i = 0; i < w->n_asked; i++)
        if (nc_streq(w->asked[i].name, name))
            e.verb = w->asked[i].verb;
    (void)snprintf(a.budget, sizeof(a.budget), "%s", budget);
    life_step(w, &e);
}

static void answer(struct life_world *w, const char *name, enum nc_pod_answer_kind kind) {
    answer_of(w, name, kind, "web");
}

static void do_yes(struct life_world *w, char *rest) {
    answer(w, rest, NC_ANSWER_ACCEPTED);
}

static void do_no(struct life_world *w, char *rest) {
    char *budget = strchr(rest, ' ');

    if (budget)
        *budget++ = '\0';
    answer_of(w, rest, NC_ANSWER_BUDGET, budget ? budget : "web");
}

static void do_away_pod(struct life_world *w, char *rest) {
    answer(w, rest, NC_ANSWER_UNAVAILABLE);
}

static void do_busy_pod(struct life_world *w, char *rest) {
    answer(w, rest, NC_ANSWER_BUSY);
}

static void do_refused_pod(struct life_world *w, char *rest) {
    answer(w, rest, NC_ANSWER_REFUSED);
}

static void do_forbidden_pod(struct life_world *w, char *rest) {
    answer_of(w, rest, NC_ANSWER_REFUSED, "rbac");
}

static void do_gone_pod(struct life_world *w, char *rest) {
    answer(w, rest, NC_ANSWER_GONE);
}

static enum nc_policy policy_of(const char *name) {
    static const char *const names[] = {"", "ignore", "report", "cordon", "drain"};

    for (int i = 1; i < 5; i++)
        if (nc_streq(names[i], name))
            return (enum nc_policy)i;
    fail_msg("no policy %s", name);
    return NC_POLICY_IGNORE;
}

static enum nc_drain_mode mode_of(const char *name) {
    static const char *const names[] = {"", "auto", "always", "observe", "off"};

    for (int i = 1; i < 5; i++)
        if (nc_streq(names[i], name))
            return (enum nc_drain_mode)i;
    fail_msg("no mode %s", name);
    return NC_DRAIN_AUTO;
}

static void do_rules(struct life_world *w, char *rest) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_RULES, .rules = &w->rules};
    char *save = NULL;

    for (char *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        if (nc_streq(word, "mode"))
            w->rules.drain.mode = mode_of(value);
        else if (nc_streq(word, "margin"))
            w->rules.drain.margin_usec = (uint64_t)(strtod(value, NULL) * 1e6);
        else if (nc_streq(word, "hooks"))
            w->rules.drain.hook_timeout_usec = (uint64_t)(strtod(value, NULL) * 1e6);
        else if (nc_streq(word, "deadline"))
            w->rules.drain.autoscaling_deadline_usec = (uint64_t)(strtod(value, NULL) * 1e6);
        else if (nc_streq(word, "linger"))
            w->rules.drain.linger_usec = (uint64_t)(strtod(value, NULL) * 1e6);
        else if (nc_streq(word, "replacement"))
            w->rules.drain.replacement_usec = (uint64_t)(strtod(value, NULL) * 1e6);
        else if (nc_streq(word, "reboot"))
            w->rules.drain.reboot = policy_of(value);
        else
            w->rules.drain.policy[source_of(word)] = policy_of(value);
    }
    life_step(w, &e);
}

static void revive(struct life_world *w, bool keep, bool same_boot) {
    nc_auto_value struct nc_value *saved = nc_lifecycle_save(w->life);

    w->life = nc_lifecycle_free(w->life);
    w->life = nc_lifecycle_new(&w->rules);
    w->write.is_in_flight = false;
    if (keep) {
        struct nc_buf b = NC_BUF_INIT;
        nc_auto_value struct nc_value *read = NULL;
        nc_json_write(&b, saved, 0);
        assert_int_equal(nc_json_parse(b.data, b.len, &read, NULL), 0);
        assert_int_equal(nc_lifecycle_load(w->life, read, same_boot, w->clock_offset_usec), 0);
        nc_buf_done(&b);
    }
    step_kind(w, NC_LIFECYCLE_START);
}

static void do_restart(struct life_world *w, char *rest) {
    (void)rest;
    revive(w, true, true);
}

static void do_reboot(struct life_world *w, char *rest) {
    (void)rest;
    revive(w, true, false);
}

static void do_limit(struct life_world *w, char *rest) {
    w->rules.max_pods = strtoul(rest, NULL, 10);
    revive(w, false, false);
}

static void do_crash(struct life_world *w, char *rest) {
    (void)rest;
    revive(w, false, false);
}

static void do_start(struct life_world *w, char *rest) {
    (void)rest;
    step_kind(w, NC_LIFECYCLE_START);
}

static void do_begin(struct life_world *w, char *rest) {
    char all[] = "all";

    do_start(w, rest);
    do_clear(w, all);
    do_node(w, rest);
}

static void do_hook(struct life_world *w, char *rest) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_HOOK, .message = "exit-code"};
    char *state = strchr(rest, ' ');

    *state++ = '\0';
    e.hook =
        nc_streq(rest, nc_hook_name(NC_HOOK_POST_DRAIN)) ? NC_HOOK_POST_DRAIN : NC_HOOK_PRE_DRAIN;
    for (int s = 0; s < _NC_HOOK_STATE_MAX; s++)
        if (nc_streq(state, nc_hook_state_name((enum nc_hook_state)s)))
            e.hook_state = (enum nc_hook_state)s;
    life_step(w, &e);
}

static void do_tick(struct life_world *w, char *rest) {
    (void)rest;
    step_kind(w, NC_LIFECYCLE_TICK);
}

static void do_synced(struct life_world *w, char *rest) {
    (void)rest;
    step_kind(w, NC_LIFECYCLE_PODS_SYNCED);
}

static void do_next(struct life_world *w, char *rest) {
    const uint64_t next = nc_lifecycle_next(w->life, w->now_usec);
    char text[32] = "none";

    (void)rest;
    if (next != UINT64_MAX)
        (void)snprintf(text, sizeof(text), "%llu",
                       (unsigned long long)(next - LIFE_EPOCH_USEC) / 1000);
    life_request_text(w, text);
}

static const struct {
    const char *word;
    void (*act)(struct life_world *w, char *rest);
} words[] = {
    {"begin", do_begin},
    {"start", do_start},
    {"clear", do_clear},
    {"notice", do_notice},
    {"node", do_node},
    {"meta", do_meta},
    {"set", set_flags},
    {"gone", do_gone},
    {"taken", do_accepted},
    {"pods", do_pods},
    {"leaving", do_leaving},
    {"lost", do_lost},
    {"started", do_started},
    {"first", do_first},
    {"daemon", do_daemon},
    {"critical", do_critical},
    {"kept", do_kept},
    {"kept-for-hour", do_kept_for_hour},
    {"unreadable", do_unreadable},
    {"limit", do_limit},
    {"synced", do_synced},
    {"ok", do_ok},
    {"okay-unseen", do_okay_unseen},
    {"written", do_written},
    {"refused", do_refused},
    {"away", do_away},
    {"failing", do_failing},
    {"yes", do_yes},
    {"no", do_no},
    {"again", do_away_pod},
    {"gone-pod", do_gone_pod},
    {"refused-pod", do_refused_pod},
    {"forbidden-pod", do_forbidden_pod},
    {"busy-pod", do_busy_pod},
    {"rules", do_rules},
    {"restart", do_restart},
    {"reboot", do_reboot},
    {"crash", do_crash},
    {"hook", do_hook},
    {"tick", do_tick},
    {"next", do_next},
};

const char *life_do(struct life_world *w, unsigned at_ms, const char *event) {
    nc_auto_free char *text = nc_strdup(event);
    char *space = strchr(text, ' ');
    char *rest = space ? space + 1 : text + strlen(text);
    struct nc_lifecycle_view view;
    bool is_known = false;

    w->more = space && strncmp(text, "more ", 5) == 0;
    if (w->more) {
        memmove(text, rest, strlen(rest) + 1);
        space = strchr(text, ' ');
        rest = space ? space + 1 : text + strlen(text);
    }
    if (space)
        *space = '\0';
    w->now_usec = LIFE_EPOCH_USEC + (uint64_t)at_ms * 1000;
    nc_buf_clear(&w->trace);
    for (size_t i = 0; i < NC_ARRAY_SIZE(words) && !is_known; i++)
        if (nc_streq(words[i].word, text)) {
            words[i].act(w, rest);
            is_known = true;
        }
    if (!is_known)
        fail_msg("no event %s", event);
    nc_lifecycle_get_view(w->life, nc_lifecycle_shift(w->now_usec, w->clock_offset_usec), &view);
    (void)nc_buf_printf(&w->trace, "%s@%s", w->trace.len ? " " : "",
                        nc_lifecycle_phase_name(view.phase));
    return w->trace.data;
}

void life_clear_all_but(struct life_world *w, unsigned at_ms, enum nc_source source) {
    for (size_t k = 0; k < _NC_SOURCE_MAX; k++) {
        nc_auto_free char *clear = nc_asprintf("clear %s", nc_source_name((enum nc_source)k));
        if (k != source)
            (void)life_do(w, at_ms, clear);
    }
}

void life_play(struct life_world *w, const struct life_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *trace = life_do(w, rows[i].at_ms, rows[i].event);
        if (rows[i].expected && strcmp(trace, rows[i].expected) != 0)
            fail_msg("row %zu, %u ms, %s:\n  expected %s\n  found    %s", i + 1, rows[i].at_ms,
                     rows[i].event, rows[i].expected, trace);
    }
}
