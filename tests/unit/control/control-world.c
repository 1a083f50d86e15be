/*
 * A controller's step and what the tests of it share.
 */
#include "control-world.h"

#include <inttypes.h>

#include "nc/names.h"
#include "nc/standalone.h"
#include "nc/str.h"
#include "nc/time.h"

const char *world_time(uint64_t usec) {
    static char text[4][32];
    static unsigned i;

    i = (i + 1) % 4;
    nc_time_format(usec, text[i]);
    return text[i];
}

static void render(struct world *w, const struct nc_control_action *a) {
    const struct nc_value *t = nc_value_get(nc_value_path(a->body, "metadata.annotations"),
                                            NC_ANNOTATION_TERMINATION_TIMESTAMP);
    const struct nc_value *uid = nc_value_path(a->body, "preconditions.uid");
    struct nc_buf *b = &w->said, body = NC_BUF_INIT;

    if (a->body) {
        nc_json_write(&body, a->body, 0);
        (void)snprintf(w->body, sizeof(w->body), "%s", body.data);
    }
    nc_buf_done(&body);
    if (a->provider_id)
        (void)snprintf(w->provider, sizeof(w->provider), "%s", a->provider_id);
    if (a->verb != NC_CONTROL_EMIT_EVENT && a->verb != NC_CONTROL_REPLACE_PODS) {
        assert_true(a->id > 0 && w->n_ids < NC_ARRAY_SIZE(w->ids));
        w->ids[w->n_ids++] = a->id;
    }
    (void)nc_buf_printf(b, "%s ", nc_control_verb_name(a->verb));
    switch (a->verb) {
    case NC_CONTROL_SET_TIMESTAMP:
        assert_string_equal(nc_value_string(nc_value_path(a->body, "metadata.uid")), a->uid);
        assert_true(a->is_relay);
        assert_true(nc_streq(nc_value_string(t),
                             nc_value_get_string(nc_value_path(a->body, "metadata.annotations"),
                                                 NC_ANNOTATION_OUR_TIMESTAMP)));
        (void)nc_buf_printf(b, "%s %s\n", a->name,
                            t && t->type == NC_VALUE_NULL ? "(null)" : nc_value_string(t));
        break;
    case NC_CONTROL_DELETE_CLAIM:
    case NC_CONTROL_DELETE_NODE:
        assert_string_equal(nc_value_string(uid), a->uid);
        (void)nc_buf_printf(b, "%s%s\n", a->name, a->is_relay ? "" : " alone");
        break;
    case NC_CONTROL_EMIT_EVENT:
        assert_true(a->id == 0 && a->message && a->message[0]);
        (void)snprintf(w->told, sizeof(w->told), "%s", a->message);
        (void)nc_buf_printf(b, "%s %s %s\n", a->reason, nc_control_kind_name(a->what), a->name);
        break;
    case NC_CONTROL_REPLACE_PODS:
        assert_true(a->id == 0 && a->uid);
        (void)nc_buf_printf(b, "%s %s\n", a->name, world_time(a->since_usec));
        break;
    case NC_CONTROL_PATCH_CLAIM:
    case NC_CONTROL_STATUS_CLAIM:
    case NC_CONTROL_PATCH_NODE:
    case NC_CONTROL_END_INSTANCE:
    case NC_CONTROL_DESCRIBE_INSTANCE:
    case NC_CONTROL_DESCRIBE_LIFECYCLE:
    case NC_CONTROL_RECORD_HEARTBEAT:
    case NC_CONTROL_COMPLETE_ACTION:
    case NC_CONTROL_INSTANCE_STATE:
    case NC_CONTROL_GET_NODE:
    case _NC_CONTROL_VERB_MAX:
        (void)nc_buf_printf(b, "%s\n", a->name);
        break;
    }
}

const char *world_event(struct world *w, struct nc_control_event e) {
    struct nc_control_actions out = {0};

    e.now_usec = w->now_usec;
    w->n_ids = 0;
    nc_buf_clear(&w->said);
    nc_control_step(w->c, &e, &out);
    for (size_t i = 0; i < out.n; i++)
        render(w, &out.v[i]);
    nc_control_actions_done(&out);
    return w->said.data ? w->said.data : "";
}

const char *world_rules(struct world *w) {
    return world_event(w, (struct nc_control_event){.kind = NC_CONTROL_RULES, .rules = &w->rules});
}

void world_open_raw(struct world *w) {
    *w = (struct world){.c = nc_control_new(&nc_standalone), .now_usec = WORLD_START, .rv = 100};
    w->rules = (struct nc_control_rules){.margin_usec = 15 * WORLD_SEC,
                                         .order = NC_CONTROL_BOTH,
                                         .timestamp_after_usec = 5 * WORLD_SEC,
                                         .max_in_flight = 64,
                                         .seed = 7};
    assert_string_equal(world_rules(w), "");
}

void world_open(struct world *w) {
    world_open_raw(w);
    assert_string_equal(world_mode(w, NC_CONTROL_KARPENTER), "");
    assert_string_equal(world_lead(w, true), "");
    assert_string_equal(world_synced(w, NC_CONTROL_NODE), "");
    assert_string_equal(world_synced(w, NC_CONTROL_CLAIM), "");
}

void world_close(struct world *w) {
    nc_buf_done(&w->said);
    w->c = nc_control_free(w->c);
}

static struct nc_value *parse(const char *json) {
    struct nc_value *v = NULL;

    assert_true(nc_json_parse(json, strlen(json), &v, NULL) >= 0);
    return v;
}

const char *world_see(struct world *w, enum nc_control_kind k, const char *json) {
    nc_auto_value struct nc_value *v = parse(json);
    struct nc_value *meta = nc_value_get(v, "metadata");
    char rv[24];

    if (meta && meta->type == NC_VALUE_MAP && !nc_value_get(meta, "resourceVersion")) {
        (void)snprintf(rv, sizeof(rv), "%" PRIu64, w->rv++);
        nc_value_set_string(meta, "resourceVersion", rv);
    }
    return world_event(w,
                       (struct nc_control_event){.kind = NC_CONTROL_SEEN, .what = k, .object = v});
}

const char *world_gone(struct world *w, enum nc_control_kind k, const char *name, const char *uid) {
    return world_event(
        w, (struct nc_control_event){.kind = NC_CONTROL_GONE, .what = k, .name = name, .uid = uid});
}

const char *world_lead(struct world *w, bool leads) {
    return world_event(w, (struct nc_control_event){.kind = NC_CONTROL_LEAD, .leads = leads});
}

const char *world_mode(struct world *w, enum nc_control_mode mode) {
    return world_event(w, (struct nc_control_event){.kind = NC_CONTROL_MODE, .mode = mode});
}

const char *world_synced(struct world *w, enum nc_control_kind k) {
    return world_event(w, (struct nc_control_event){.kind = NC_CONTROL_SYNCED, .what = k});
}

const char *world_tick(struct world *w) {
    return world_event(w, (struct nc_control_event){.kind = NC_CONTROL_TICK});
}

const char *world_pass(struct world *w, uint64_t usec) {
    const uint64_t end = w->now_usec + usec;
    struct nc_buf all = NC_BUF_INIT;
    uint64_t ids[NC_ARRAY_SIZE(w->ids)];
    size_t n = 0;

    for (unsigned turns = 0; nc_control_next(w->c, w->now_usec) <= end; turns++) {
        assert_true(turns < 1000); /* it requests one moment again and again */
        w->now_usec = nc_control_next(w->c, w->now_usec);
        (void)nc_buf_puts(&all, world_tick(w));
        for (size_t i = 0; i < w->n_ids; i++)
            ids[n++] = w->ids[i];
    }
    w->now_usec = end;
    memcpy(w->ids, ids, n * sizeof(*ids));
    w->n_ids = n;
    nc_buf_done(&w->said);
    w->said = all;
    return all.data ? all.data : "";
}

const char *world_answer_with(struct world *w, uint64_t id, enum nc_control_answer a,
                              uint64_t retry_after_usec, const char *json) {
    nc_auto_value struct nc_value *v = json ? parse(json) : NULL;

    return world_event(w, (struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                                    .id = id,
                                                    .answer = a,
                                                    .retry_after_usec = retry_after_usec,
                                                    .object = v});
}

const char *world_answer(struct world *w, uint64_t id, enum nc_control_answer a) {
    return world_answer_with(w, id, a, 0, NULL);
}

const char *world_answer_state(struct world *w, uint64_t id, const char *state, const char *name) {
    return world_event(w, (struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                                    .id = id,
                                                    .answer = NC_CONTROL_DONE,
                                                    .instance_state = state,
                                                    .name = name});
}

const char *world_node(struct world *w, const char *name, const char *status) {
    nc_auto_value struct nc_value *v = parse("{\"metadata\":{\"annotations\":{}}}");
    struct nc_value *meta = nc_value_get(v, "metadata");
    nc_auto_free char *uid = nc_asprintf("uid-%s", name);
    struct nc_buf b = NC_BUF_INIT;
    const char *said = NULL;

    nc_value_set_string(meta, "name", name);
    nc_value_set_string(meta, "uid", uid);
    nc_value_set_time(meta, "creationTimestamp", WORLD_START - 3600 * WORLD_SEC);
    if (status)
        nc_value_set_string(nc_value_get(meta, "annotations"), "nodeclaimd.io/drain-status",
                            status);
    nc_json_write(&b, v, 0);
    said = world_see(w, NC_CONTROL_NODE, b.data);
    nc_buf_done(&b);
    return said;
}

const char *world_claim(struct world *w, const char *name, const char *node, const char *more) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%s\",\"creationTimestamp\":"
        "\"2026-11-22T00:00:00Z\",\"labels\":{\"karpenter.sh/nodepool\":\"p1\"},"
        "\"finalizers\":[\"karpenter.sh/termination\"]%s},\"status\":{%s%s%s}}",
        name, name, more, node ? "\"nodeName\":\"" : "", node ? node : "", node ? "\"" : "");

    return world_see(w, NC_CONTROL_CLAIM, json);
}

const char *world_status(struct world *w, const char *source, int64_t in_sec) {
    static char text[320];
    const uint64_t at = (uint64_t)((int64_t)w->now_usec + in_sec * (int64_t)WORLD_SEC);

    (void)snprintf(text, sizeof(text),
                   "{\"id\":\"%s-%s\",\"source\":\"%s\",\"phase\":\"Detected\",\"deadline\":\"%s\","
                   "\"total\":null,\"remaining\":null,\"blocked\":[],\"updated\":\"%s\"}",
                   source, world_time(at), source, world_time(at), world_time(w->now_usec));
    return text;
}
