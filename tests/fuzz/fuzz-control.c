/*
 * The controller's step under any sequence of events: three bytes an event, what, with whom and
 * how. A small server keeps Nodes and NodeClaims, and shows them when the bytes say so; what must
 * hold whatever happens is checked at each action.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/control.h"
#include "nc/names.h"
#include "nc/standalone.h"
#include "nc/str.h"
#include "nc/time.h"

#define N 4u
#define FLIGHTS 64u
#define SEC 1000000ull
#define START (1795312800ull * SEC)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum drain_status {
    STATUS_NONE = 0,
    STATUS_SPOT,
    STATUS_FAR,
    STATUS_MAINTENANCE,
    STATUS_REBALANCE,
    STATUS_GARBAGE,
    STATUS_GROUP, /* of an Auto Scaling group */
};

struct node {
    bool is_there;
    unsigned uid;
    enum drain_status drain_status;
    uint64_t deadline_usec;
};
struct claim {
    bool is_there, is_deleting;
    unsigned uid;
    int node; /* -1: none */
    uint64_t timestamp_usec;
};
struct pending {
    uint64_t id;
    enum nc_control_verb verb;
    enum nc_control_kind what;
    char name[16], uid[24];
    uint64_t timestamp_usec;
};
struct world {
    struct nc_control *c;
    struct nc_control_rules rules;
    uint64_t now_usec, rv, last_id;
    bool leads, was_synced[_NC_CONTROL_KIND_MAX], is_synced[_NC_CONTROL_KIND_MAX];
    enum nc_control_mode mode;
    struct node nodes[N];            /* as the controller has seen them: they are shown at once */
    struct claim claims[N], seen[N]; /* as the server has them; as they were shown */
    unsigned uids, deleted[256];
    size_t n_deleted;
    struct pending in_flight[FLIGHTS];
    size_t n_in_flight;
};

static void must(bool is_so) {
    if (!is_so)
        abort();
}

/* ---- what must hold of an action */

static bool is_relayable(const struct world *w, const struct node *n) {
    return n->is_there
           && (n->drain_status == STATUS_SPOT || n->drain_status == STATUS_FAR
               || n->drain_status == STATUS_MAINTENANCE)
           && n->deadline_usec <= w->now_usec + NC_CONTROL_RELAY_AHEAD_USEC
           && w->now_usec <= n->deadline_usec + NC_CONTROL_RELAY_PAST_USEC;
}

static void check_relay(const struct world *w, const struct nc_control_action *a) {
    const struct claim *c = &w->seen[a->name[1] - '0'];
    const char *timestamp = nc_value_get_string(nc_value_path(a->body, "metadata.annotations"),
                                                NC_ANNOTATION_TERMINATION_TIMESTAMP);
    size_t naming = 0;

    must(a->what == NC_CONTROL_CLAIM && c->is_there);
    if (a->verb == NC_CONTROL_SET_TIMESTAMP && !timestamp)
        return; /* taken back */
    must(c->node >= 0 && is_relayable(w, &w->nodes[c->node]));
    for (size_t i = 0; i < N; i++)
        naming += w->seen[i].is_there && w->seen[i].node == c->node;
    must(naming == 1);
    for (size_t i = 0; a->verb == NC_CONTROL_DELETE_CLAIM && i < w->n_deleted; i++)
        must(w->deleted[i] != c->uid);
}

/* What Auto Scaling is asked is about the very instance of a Node that says so, never by a standby.
 */
static void check_group(const struct world *w, const struct nc_control_action *a) {
    const struct node *n = &w->nodes[(unsigned)(a->name[1] - '0') % N];
    nc_auto_free char *id = nc_asprintf("aws:///us-west-2a/i-0000000%s", a->name + 1);

    must(a->what == NC_CONTROL_NODE && w->rules.completes_actions && n->is_there);
    must(n->drain_status == STATUS_GROUP && nc_streq(a->provider_id, id) && !a->body);
    must(a->verb == NC_CONTROL_DESCRIBE_INSTANCE || a->verb == NC_CONTROL_DESCRIBE_LIFECYCLE
         || nc_streq(a->group, "g"));
}

static bool is_of_group(const struct nc_control_action *a) {
    return a->verb == NC_CONTROL_DESCRIBE_LIFECYCLE || a->verb == NC_CONTROL_RECORD_HEARTBEAT
           || a->verb == NC_CONTROL_COMPLETE_ACTION
           || (a->verb == NC_CONTROL_DESCRIBE_INSTANCE && a->what == NC_CONTROL_NODE);
}

static void handle_action(struct world *w, const struct nc_control_action *a) {
    struct pending *f = &w->in_flight[w->n_in_flight];
    const char *timestamp = nc_value_get_string(nc_value_path(a->body, "metadata.annotations"),
                                                NC_ANNOTATION_TERMINATION_TIMESTAMP);

    must(w->leads && a->name && a->uid);
    if (a->verb == NC_CONTROL_EMIT_EVENT) {
        must(a->id == 0 && a->reason && a->message);
        return;
    }
    if (a->verb == NC_CONTROL_REPLACE_PODS) {
        must(a->id == 0 && a->since_usec && w->rules.replaces && w->was_synced[NC_CONTROL_NODE]);
        return;
    }
    must(w->was_synced[NC_CONTROL_NODE] && (is_of_group(a) || w->was_synced[NC_CONTROL_CLAIM]));
    if (is_of_group(a))
        check_group(w, a);
    must(a->is_relay || is_of_group(a)
         || (w->mode == NC_CONTROL_STANDALONE && w->is_synced[NC_CONTROL_NODE]
             && w->is_synced[NC_CONTROL_CLAIM] && w->is_synced[NC_CONTROL_POOL]));
    must(a->id > w->last_id && w->n_in_flight < FLIGHTS);
    for (size_t i = 0; i < w->n_in_flight; i++)
        must(w->in_flight[i].what != a->what || !nc_streq(w->in_flight[i].name, a->name)
             || !nc_streq(w->in_flight[i].uid, a->uid));
    if (a->is_relay)
        check_relay(w, a);
    w->last_id = a->id;
    *f = (struct pending){.id = a->id, .verb = a->verb, .what = a->what};
    (void)snprintf(f->name, sizeof(f->name), "%s", a->name);
    (void)snprintf(f->uid, sizeof(f->uid), "%s", a->uid);
    if (timestamp)
        must(nc_time_parse(timestamp, &f->timestamp_usec) >= 0);
    w->n_in_flight++;
}

static void step(struct world *w, struct nc_control_event e) {
    struct nc_control_actions out = {0};

    e.now_usec = w->now_usec;
    nc_control_step(w->c, &e, &out);
    for (size_t i = 0; i < out.n; i++)
        handle_action(w, &out.v[i]);
    nc_control_actions_done(&out);
    must(nc_control_next(w->c, w->now_usec) >= w->now_usec);
}

/* ---- what is shown */

static void show(struct world *w, enum nc_control_kind k, const char *json) {
    struct nc_value *v = NULL;

    must(nc_json_parse(json, strlen(json), &v, NULL) >= 0);
    step(w, (struct nc_control_event){.kind = NC_CONTROL_SEEN, .what = k, .object = v});
    nc_value_free(v);
}

static void gone(struct world *w, enum nc_control_kind k, const char *name) {
    step(w, (struct nc_control_event){.kind = NC_CONTROL_GONE, .what = k, .name = name, .uid = ""});
}

static void show_node(struct world *w, unsigned i, uint8_t how) {
    static const char *const sources[] = {"",          "spot", "spot",       "maintenance",
                                          "rebalance", "",     "autoscaling"};
    static const char *const phases[] = {"Detected", "Evicting", "Drained", "Failed"};
    static const uint64_t ahead[] = {0, 120, 5000, 900, 60, 0, 7000};
    struct node *n = &w->nodes[i];
    nc_auto_free char *drain_status = NULL, *json = NULL;
    char time[32];

    if (!n->is_there)
        n->uid = ++w->uids;
    n->is_there = true;
    n->drain_status = how < 224 ? how % 6 : STATUS_GROUP;
    n->deadline_usec = w->now_usec + (ahead[n->drain_status] + how / 6) * SEC;
    n->deadline_usec -= n->deadline_usec % SEC;
    nc_time_format(n->deadline_usec, time);
    drain_status =
        n->drain_status == STATUS_GARBAGE
            ? nc_asprintf("{\\\"garbage\\\":%u", how)
            : nc_asprintf("{\\\"source\\\":\\\"%s\\\",\\\"phase\\\":\\\"%s\\\",\\\"deadline\\\":"
                          "\\\"%s\\\"}",
                          sources[n->drain_status],
                          n->drain_status == STATUS_GROUP ? phases[how % 4]
                          : n->drain_status               ? "Detected"
                                                          : "",
                          time);
    json = nc_asprintf(
        "{\"metadata\":{\"name\":\"n%u\",\"uid\":\"u%u\",\"resourceVersion\":\"%" PRIu64
        "\",\"annotations\":{\"nodeclaimd.io/drain-status\":\"%s\"}},\"spec\":{\"providerID\":"
        "\"aws:///us-west-2a/i-0000000%u\"}}",
        i, n->uid, ++w->rv, drain_status, i);
    show(w, NC_CONTROL_NODE, json);
}

static void show_claim(struct world *w, unsigned i) {
    const struct claim *c = &w->claims[i];
    nc_auto_free char *json = NULL;
    char timestamp[32], name[16], node[16] = "";

    w->seen[i] = *c;
    (void)snprintf(name, sizeof(name), "c%u", i);
    if (!c->is_there) {
        gone(w, NC_CONTROL_CLAIM, name);
        return;
    }
    nc_time_format(c->timestamp_usec, timestamp);
    if (c->node >= 0)
        (void)snprintf(node, sizeof(node), "n%d", c->node);
    json = nc_asprintf(
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"g%u\",\"resourceVersion\":\"%" PRIu64
        "\",\"labels\":{\"karpenter.sh/nodepool\":\"p%u\"}%s,\"annotations\":{\"%s\":\"%s\"}},"
        "\"status\":{\"nodeName\":\"%s\"}}",
        name, c->uid, ++w->rv, i % 2,
        c->is_deleting ? ",\"deletionTimestamp\":\"2026-11-22T02:00:00Z\"" : "",
        c->timestamp_usec ? NC_ANNOTATION_TERMINATION_TIMESTAMP : "other", timestamp, node);
    show(w, NC_CONTROL_CLAIM, json);
}

static void show_pool(struct world *w, unsigned i, uint8_t how) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"p%u\",\"uid\":\"up%u\",\"resourceVersion\":\"%" PRIu64
        "\",\"annotations\":{\"karpenter.sh/nodepool-hash\":\"%u\"}},\"spec\":{\"disruption\":{"
        "\"budgets\":[{\"nodes\":\"%u%s\"}]}}}",
        i % 2, i % 2, ++w->rv, how, how % 101, how & 1 ? "%" : "");

    show(w, NC_CONTROL_POOL, json);
}

/* ---- what the server does */

static bool accept(struct world *w, const struct pending *f) {
    struct claim *c = &w->claims[(unsigned)(f->name[1] - '0') % N];
    char uid[24];

    if (f->what != NC_CONTROL_CLAIM)
        return true;
    (void)snprintf(uid, sizeof(uid), "g%u", c->uid);
    if (!c->is_there || !nc_streq(uid, f->uid))
        return false;
    if (f->verb == NC_CONTROL_SET_TIMESTAMP)
        c->timestamp_usec = f->timestamp_usec;
    if (f->verb == NC_CONTROL_DELETE_CLAIM) {
        c->is_deleting = true;
        if (w->n_deleted < 256)
            w->deleted[w->n_deleted++] = c->uid;
    }
    return true;
}

static void answer(struct world *w, size_t which, enum nc_control_answer a) {
    static const char *const states[] = {"Terminating:Wait", "Terminating", "Terminating:Proceed"};
    struct pending f = {0};

    if (w->n_in_flight == 0)
        return;
    which %= w->n_in_flight;
    f = w->in_flight[which];
    w->in_flight[which] = w->in_flight[--w->n_in_flight];
    if (a == NC_CONTROL_DONE && !accept(w, &f))
        a = NC_CONTROL_MISSING;
    step(w, (struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                      .id = f.id,
                                      .answer = a,
                                      .retry_after_usec = which,
                                      .refusal = (enum nc_control_refusal)(which % 3),
                                      .name = f.name,
                                      .group = "g",
                                      .lifecycle_state = states[w->rv % 3]});
}

static void new_claim(struct world *w, unsigned i, uint8_t how) {
    w->claims[i] = (struct claim){.is_there = how % 8 != 7, .uid = ++w->uids, .node = how % 5 - 1};
}

static void change_rules(struct world *w, uint8_t how) {
    w->rules.order = how & 1 ? NC_CONTROL_BOTH : NC_CONTROL_DELETE_FIRST;
    w->rules.max_in_flight = how / 4;
    w->rules.terminates = how & 2;
    step(w, (struct nc_control_event){.kind = NC_CONTROL_RULES, .rules = &w->rules});
}

static void change_lead(struct world *w, bool leads) {
    w->leads = leads;
    if (!leads)
        w->n_in_flight = 0; /* forgotten */
    step(w, (struct nc_control_event){.kind = NC_CONTROL_LEAD, .leads = leads});
}

static void change_mode(struct world *w, enum nc_control_mode mode) {
    if (mode != w->mode)
        memset(w->is_synced, 0, sizeof(w->is_synced));
    w->mode = mode;
    step(w, (struct nc_control_event){.kind = NC_CONTROL_MODE, .mode = mode});
}

static void synced(struct world *w, enum nc_control_kind k) {
    w->was_synced[k] = true;
    w->is_synced[k] = true;
    step(w, (struct nc_control_event){.kind = NC_CONTROL_SYNCED, .what = k});
}

static void tell(const struct world *w) {
    struct nc_value *report = nc_control_report(w->c, w->now_usec);
    struct nc_control_counts counts;
    struct nc_buf b = NC_BUF_INIT;

    nc_control_count(w->c, w->now_usec, &counts);
    must(counts.in_flight == w->n_in_flight);
    nc_control_text(report, 0, &b);
    nc_value_free(report);
    report = nc_control_report_claims(w->c);
    nc_control_text_claims(report, 0, &b);
    nc_control_metrics(w->c, w->now_usec, &b);
    nc_buf_done(&b);
    nc_value_free(report);
}

/* Whatever a node writes into an Event, it leads to nothing. */
static void fail_boot(struct world *w, unsigned i, uint8_t how) {
    static const char *const messages[] = {"plan: x", "", ":", "\x1b[31m: \xff", NULL};
    char name[16], uid[24];

    (void)snprintf(name, sizeof(name), "c%u", i);
    (void)snprintf(uid, sizeof(uid), "g%u", w->claims[i].uid);
    step(w, (struct nc_control_event){.kind = NC_CONTROL_BOOT_FAILURE,
                                      .name = name,
                                      .uid = how & 1 ? uid : name,
                                      .provider_id = how & 1 ? NULL : name,
                                      .message = messages[how % NC_ARRAY_SIZE(messages)],
                                      .at_usec = how});
}

static void one(struct world *w, const uint8_t d[3]) {
    const unsigned i = d[1] % N;

    switch (d[0] % 14) {
    case 0:
        w->now_usec += d[1] * (d[2] & 1 ? SEC : 50000ull);
        step(w, (struct nc_control_event){.kind = NC_CONTROL_TICK});
        break;
    case 1:
        change_lead(w, d[1] % 4 != 0);
        break;
    case 2:
        synced(w, d[1] % _NC_CONTROL_KIND_MAX);
        break;
    case 3:
    case 4:
        show_node(w, i, d[2]);
        break;
    case 5:
        new_claim(w, i, d[2]);
        show_claim(w, i);
        break;
    case 7:
        fail_boot(w, i, d[2]);
        show_claim(w, i);
        break;
    case 6:
        show_claim(w, i);
        break;
    case 8:
    case 9:
        answer(w, d[1], d[2] % 2 ? NC_CONTROL_DONE : d[2] / 2 % 5 + 1);
        break;
    case 10: {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%u", i);
        w->nodes[i] = (struct node){0};
        gone(w, NC_CONTROL_NODE, name);
        break;
    }
    case 11:
        change_mode(w, d[1] % 3);
        break;
    case 12:
        show_pool(w, i, d[2]);
        break;
    case 13:
        if (d[1] & 1)
            change_rules(w, d[2]);
        else
            w->now_usec -= (d[2] % 64) * SEC;
        break;
    }
}

/* Everything answered and shown: then it must come to rest. */
static void come_to_rest(struct world *w) {
    for (unsigned turn = 0; turn < 400 && w->n_in_flight > 0; turn++)
        answer(w, 0, NC_CONTROL_DONE);
    for (unsigned i = 0; i < N; i++)
        show_claim(w, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct world w = {.c = nc_control_new(&nc_standalone), .now_usec = START, .rv = 1};

    w.rules = (struct nc_control_rules){.margin_usec = 15 * SEC,
                                        .order = NC_CONTROL_BOTH,
                                        .timestamp_after_usec = 5 * SEC,
                                        .completes_actions = true};
    step(&w, (struct nc_control_event){.kind = NC_CONTROL_RULES, .rules = &w.rules});
    for (size_t i = 0; i + 3 <= n && i < 3000; i += 3)
        one(&w, data + i);
    tell(&w);
    come_to_rest(&w);
    nc_control_free(w.c);
    return 0;
}
