/*
 * The cluster of standalone-world.h.
 */
#include "standalone-world.h"

#include "nc/json-filter.h"
#include "nc/lifecycle.h"
#include "nc/names.h"
#include "nc/standalone.h"
#include "nc/str.h"
#include "nc/time.h"

static void step(struct world *w, const struct nc_control_event *e);

/* --- texts */

static struct nc_value *parse(const char *json) {
    nc_auto_free char *text = nc_strdup(json);
    struct nc_err err = NC_ERR_INIT;
    struct nc_value *v = NULL;

    for (char *p = text; *p; p++)
        if (*p == '\'')
            *p = '"';
    if (nc_json_parse(text, strlen(text), &v, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return v;
}

static struct nc_value *child(struct nc_value *map, const char *key) {
    if (!nc_value_get(map, key))
        nc_value_set(map, key, nc_value_new_map());
    return nc_value_get(map, key);
}

/* --- objects */

static struct world_object *find(struct world *w, enum nc_control_kind kind, const char *name) {
    for (size_t i = 0; i < w->n; i++)
        if (w->objects[i].kind == kind
            && nc_streq(nc_value_string(nc_value_path(w->objects[i].v, "metadata.name")), name))
            return &w->objects[i];
    return NULL;
}

struct nc_value *world_get(struct world *w, enum nc_control_kind kind, const char *name) {
    struct world_object *o = find(w, kind, name);

    return o ? o->v : NULL;
}

static int take_item(void *userdata, const char *data, size_t n) {
    assert_int_equal(nc_json_parse(data, n, userdata, NULL), 0);
    return 0;
}

/* What the watch shows of it. */
static struct nc_value *thin(const struct world *w, const struct world_object *o) {
    struct nc_value *v = NULL;
    struct nc_json_filter_options options = {
        .keep = nc_control_keep(o->kind, NC_CONTROL_STANDALONE, &w->rules),
        .max_item_bytes = (size_t)1 << 20,
        .item = take_item,
        .userdata = &v};
    struct nc_json_filter *f = NULL;
    struct nc_buf b = NC_BUF_INIT;

    if (w->is_whole)
        return nc_value_copy(o->v);
    nc_json_write(&b, o->v, 0);
    assert_int_equal(nc_json_filter_new_stream(&options, &f, NULL), 0);
    assert_true(nc_json_filter_add(f, b.data, b.len, NULL) >= 0);
    assert_true(nc_json_filter_end(f, NULL, NULL, NULL) >= 0);
    nc_json_filter_free(f);
    nc_buf_done(&b);
    assert_non_null(v);
    return v;
}

static void free_event(struct nc_control_event *e) {
    nc_value_free((struct nc_value *)(uintptr_t)e->object);
    free((char *)(uintptr_t)e->name);
    free((char *)(uintptr_t)e->uid);
}

/* Takes what the event owns. */
static void tell(struct world *w, struct nc_control_event e) {
    if (w->is_deferring) {
        assert_true(w->n_deferred < NC_ARRAY_SIZE(w->deferred));
        w->deferred[w->n_deferred++] = e;
        return;
    }
    step(w, &e);
    free_event(&e);
}

static void show(struct world *w, const struct world_object *o) {
    tell(w,
         (struct nc_control_event){.kind = NC_CONTROL_SEEN, .what = o->kind, .object = thin(w, o)});
}

static void show_gone(struct world *w, struct world_object *o) {
    struct nc_control_event e = {.kind = NC_CONTROL_GONE, .what = o->kind};
    struct nc_value *v = o->v;

    *o = w->objects[--w->n];
    e.name = nc_strdup(nc_value_string(nc_value_path(v, "metadata.name")));
    e.uid = nc_strdup(nc_value_string(nc_value_path(v, "metadata.uid")));
    nc_value_free(v);
    tell(w, e);
}

static void post_deferred(struct world *w) {
    const size_t n = w->n_deferred;

    w->is_deferring = false;
    w->n_deferred = 0;
    for (size_t i = 0; i < n; i++)
        tell(w, w->deferred[i]);
}

static void forget_deferred(struct world *w) {
    for (size_t i = 0; i < w->n_deferred; i++)
        free_event(&w->deferred[i]);
    w->n_deferred = 0;
    w->is_deferring = false;
}

/* It has changed: a new version, or the end of one that only waited for its finalizers. */
static void changed(struct world *w, struct world_object *o) {
    struct nc_value *metadata = child(o->v, "metadata");
    const struct nc_value *finalizers = nc_value_get(metadata, "finalizers");
    char version[32];

    (void)snprintf(version, sizeof(version), "%llu", (unsigned long long)++w->version);
    nc_value_set_string(metadata, "resourceVersion", version);
    if (nc_value_get(metadata, "deletionTimestamp") && (!finalizers || finalizers->n == 0))
        show_gone(w, o);
    else
        show(w, o);
}

void world_put(struct world *w, enum nc_control_kind kind, const char *json) {
    struct nc_value *v = parse(json);
    struct nc_value *metadata = child(v, "metadata");
    char text[64];

    assert_true(w->n < WORLD_OBJECTS);
    (void)snprintf(text, sizeof(text), "uid-%llu", (unsigned long long)w->version);
    if (!nc_value_get(metadata, "uid"))
        nc_value_set_string(metadata, "uid", text);
    if (!nc_value_get(metadata, "creationTimestamp"))
        nc_value_set_time(metadata, "creationTimestamp", w->now_usec);
    w->objects[w->n++] = (struct world_object){kind, v};
    changed(w, &w->objects[w->n - 1]);
}

void world_patch(struct world *w, enum nc_control_kind kind, const char *name, const char *json) {
    struct world_object *o = find(w, kind, name);
    nc_auto_value struct nc_value *patch = parse(json);

    assert_non_null(o);
    nc_value_merge_patch(o->v, patch);
    changed(w, o);
}

static void mark_deleted(struct world *w, struct world_object *o) {
    struct nc_value *metadata = child(o->v, "metadata");

    if (!nc_value_get(metadata, "deletionTimestamp"))
        nc_value_set_time(metadata, "deletionTimestamp", w->now_usec);
    changed(w, o);
}

void world_delete(struct world *w, enum nc_control_kind kind, const char *name) {
    struct world_object *o = find(w, kind, name);

    assert_non_null(o);
    mark_deleted(w, o);
}

void world_set_status(struct world *w, const char *node, const char *status_text) {
    struct world_object *o = find(w, NC_CONTROL_NODE, node);
    struct nc_value *annotations = NULL;

    assert_non_null(o);
    annotations = child(child(o->v, "metadata"), "annotations");
    nc_value_remove(annotations, NC_ANNOTATION_STATUS);
    if (status_text) {
        nc_auto_free char *text = nc_strdup(status_text);
        for (char *p = text; *p; p++)
            if (*p == '\'')
                *p = '"';
        nc_value_set_string(annotations, NC_ANNOTATION_STATUS, text);
    }
    changed(w, o);
}

/* --- the step's writes */

static bool is_precondition_met(const struct world_object *o, const struct nc_value *body) {
    const char *uid = nc_value_string(nc_value_path(body, "metadata.uid"));
    const char *version = nc_value_string(nc_value_path(body, "metadata.resourceVersion"));

    if (uid && !nc_streq(uid, nc_value_string(nc_value_path(o->v, "metadata.uid"))))
        return false;
    return !version
           || nc_streq(version, nc_value_string(nc_value_path(o->v, "metadata.resourceVersion")));
}

/* What replaces a list must say which version of the list it has seen. */
static void check_lists(const struct nc_value *body) {
    static const char *const paths[] = {"metadata.finalizers", "metadata.ownerReferences",
                                        "spec.taints", "status.conditions"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(paths); i++)
        if (nc_value_path(body, paths[i]))
            assert_non_null(nc_value_path(body, "metadata.resourceVersion"));
}

static enum nc_control_answer patch(struct world *w, struct world_object *o,
                                    const struct nc_control_action *a) {
    nc_auto_value struct nc_value *body = nc_value_copy(a->body);

    check_lists(body);
    if (!is_precondition_met(o, body)) {
        w->conflicts++;
        return NC_CONTROL_CONFLICT;
    }
    if (a->verb == NC_CONTROL_STATUS_CLAIM)
        nc_value_remove(body, "metadata");
    else
        assert_null(nc_value_get(body, "status"));
    nc_value_merge_patch(o->v, body);
    changed(w, o);
    return NC_CONTROL_DONE;
}

static enum nc_control_answer delete (struct world *w, struct world_object *o,
                                      const struct nc_control_action *a) {
    const char *uid = nc_value_string(nc_value_path(a->body, "preconditions.uid"));

    assert_non_null(uid);
    if (!nc_streq(uid,
                  nc_value_string(nc_value_path(o->v, "metadata.uid")))) return NC_CONTROL_MISSING;
    mark_deleted(w, o);
    return NC_CONTROL_DONE;
}

static void stop_kubelet(struct world *w, const char *provider_id) {
    for (size_t i = 0; i < w->n; i++)
        if (w->objects[i].kind == NC_CONTROL_NODE
            && nc_streq(nc_value_string(nc_value_path(w->objects[i].v, "spec.providerID")),
                        provider_id)) {
            nc_auto_value struct nc_value *p =
                parse("{'status':{'conditions':[{'type':'Ready','status':'Unknown'}]}}");
            nc_value_merge_patch(w->objects[i].v, p);
            changed(w, &w->objects[i]);
            return;
        }
}

static enum nc_control_answer carry_out(struct world *w, const struct nc_control_action *a) {
    struct world_object *o = find(w, a->what, a->name);

    if (a->verb == NC_CONTROL_END_INSTANCE) {
        assert_non_null(a->provider_id);
        if (w->has_kubelet && w->ec2 == NC_CONTROL_DONE)
            stop_kubelet(w, a->provider_id);
        return w->ec2;
    }
    if (a->verb == NC_CONTROL_DESCRIBE_INSTANCE)
        return w->dns_name ? NC_CONTROL_DONE : NC_CONTROL_REFUSED;
    if (!o)
        return NC_CONTROL_MISSING;
    assert_non_null(a->body);
    return a->verb == NC_CONTROL_DELETE_CLAIM || a->verb == NC_CONTROL_DELETE_NODE
               ? delete (w, o, a)
               : patch(w, o, a);
}

static void answer(struct world *w, const struct nc_control_action *a) {
    const bool is_last = ++w->writes == w->lose;
    enum nc_control_answer said = NC_CONTROL_UNAVAILABLE;

    w->is_deferring = !w->is_watch_first;
    if (w->away[a->verb] > 0) {
        w->away[a->verb]--;
    } else if (!is_last || !w->is_before) {
        w->requested[a->verb]++;
        if (w->check_before)
            w->check_before(w, a);
        said = carry_out(w, a);
        if (said == NC_CONTROL_DONE)
            (void)nc_buf_printf(&w->trace, "%s %s\n", nc_control_verb_name(a->verb), a->name);
        w->refused += said == NC_CONTROL_REFUSED;
        if (w->check)
            w->check(w);
    }
    if (is_last) {
        w->deaths++;
        world_restart(w);
        return;
    }
    const struct world_object *o = said == NC_CONTROL_DONE ? find(w, a->what, a->name) : NULL;
    nc_auto_value struct nc_value *object = o ? thin(w, o) : NULL;
    step(w, &(struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                       .id = a->id,
                                       .answer = said,
                                       .object =
                                           a->verb == NC_CONTROL_DESCRIBE_INSTANCE ? NULL : object,
                                       .name = w->dns_name});
    post_deferred(w);
}

static void step(struct world *w, const struct nc_control_event *e) {
    struct nc_control_event event = *e;

    event.now_usec = w->now_usec;
    nc_control_step(w->control, &event, &w->out);
}

static void free_action(struct nc_control_action *a) {
    nc_control_actions_done(
        &(struct nc_control_actions){memcpy(nc_malloc(sizeof(*a)), a, sizeof(*a)), 1});
}

static struct nc_control_action handle_action(struct world *w, size_t i) {
    const struct nc_control_action a = w->out.v[i];

    memmove(&w->out.v[i], &w->out.v[i + 1], (w->out.n - i - 1) * sizeof(a));
    w->out.n--;
    return a;
}

/* The first that is not held back. */
static size_t first_action(const struct world *w) {
    size_t i = 0;

    while (i < w->out.n && w->holds && w->out.v[i].verb == w->holds)
        i++;
    return i;
}

static void carry_out_all(struct world *w) {
    for (unsigned n = 0; first_action(w) < w->out.n; n++) {
        struct nc_control_action a = handle_action(w, first_action(w));
        assert_true(n < 2000); /* it does not come to rest */
        if (a.verb == NC_CONTROL_EMIT_EVENT)
            (void)nc_buf_printf(&w->events, "%s %s\n", a.reason, a.name);
        else
            answer(w, &a);
        free_action(&a);
    }
}

/* What the agents have to say by now, and when they have more. */
static void let_agents_report(struct world *w) {
    w->agents_next_usec = UINT64_MAX;
    for (size_t i = 0; w->has_agent && i < w->n; i++) {
        struct world_object *o = &w->objects[i];
        const struct nc_value *annotations = nc_value_path(o->v, "metadata.annotations");
        const char *request = nc_value_get_string(annotations, NC_ANNOTATION_REQUEST);
        const char *status = nc_value_get_string(annotations, NC_ANNOTATION_STATUS);
        uint64_t since = 0;
        if (o->kind != NC_CONTROL_NODE || !request)
            continue;
        nc_auto_value struct nc_value *requested = parse(request);
        const char *name = nc_value_string(nc_value_path(o->v, "metadata.name"));
        const bool is_new = !status || !strstr(status, nc_value_get_string(requested, "id"));
        if (is_new)
            nc_value_set_time(child(o->v, "metadata"), "drainSince", w->now_usec);
        (void)nc_time_parse(nc_value_string(nc_value_path(o->v, "metadata.drainSince")), &since);
        const bool is_done = w->now_usec >= since + w->drain_usec;
        if (!is_done && since + w->drain_usec < w->agents_next_usec)
            w->agents_next_usec = since + w->drain_usec;
        if (!is_new && (!is_done || strstr(status, "Drained")))
            continue;
        nc_auto_free char *status_text =
            nc_asprintf("{'id':'%s','source':'request','phase':'%s','deadline':null,'total':3,"
                        "'remaining':%d,'blocked':[]}",
                        nc_value_get_string(requested, "id"), is_done ? "Drained" : "Evicting",
                        is_done ? 0 : 3);
        world_set_status(w, name, status_text);
    }
}

void world_reconcile(struct world *w) {
    for (unsigned i = 0; i < 100; i++) {
        step(w, &(struct nc_control_event){.kind = NC_CONTROL_TICK});
        carry_out_all(w);
        let_agents_report(w);
        if (first_action(w) == w->out.n)
            return;
    }
    fail_msg("it does not come to rest");
}

/* From one moment at which something is wanted to the next: a timer that the step does not request
 * does not come. */
void world_advance(struct world *w, uint64_t usec) {
    const uint64_t end = w->now_usec + usec;

    world_reconcile(w);
    while (w->now_usec < end) {
        uint64_t next = nc_control_next(w->control, w->now_usec);
        if (next <= w->now_usec)
            next = w->now_usec + 1000;
        if (next > w->agents_next_usec)
            next = w->agents_next_usec;
        w->now_usec = next < end ? next : end;
        world_reconcile(w);
    }
}

/* --- the leader */

void world_restart(struct world *w) {
    forget_deferred(w);
    nc_control_actions_done(&w->out);
    nc_control_free(w->control);
    w->control = nc_control_new(&nc_standalone);
    step(w, &(struct nc_control_event){.kind = NC_CONTROL_RULES, .rules = &w->rules});
    step(w, &(struct nc_control_event){.kind = NC_CONTROL_MODE,
                                       .mode = NC_CONTROL_STANDALONE,
                                       .claims_version = w->claims_version});
    step(w, &(struct nc_control_event){.kind = NC_CONTROL_LEAD, .leads = true});
    for (size_t i = 0; i < w->n; i++)
        show(w, &w->objects[i]);
    for (size_t k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        step(w, &(struct nc_control_event){.kind = NC_CONTROL_SYNCED,
                                           .what = (enum nc_control_kind)k});
}

void world_init(struct world *w) {
    *w = (struct world){.now_usec = WORLD_START,
                        .version = 1000,
                        .drain_usec = 10 * WORLD_SEC,
                        .has_agent = true,
                        .has_kubelet = true,
                        .ec2 = NC_CONTROL_DONE,
                        .rules = {.margin_usec = 15 * WORLD_SEC,
                                  .order = NC_CONTROL_BOTH,
                                  .timestamp_after_usec = 5 * WORLD_SEC,
                                  .max_in_flight = 64,
                                  .terminates = true,
                                  .rebalances = true,
                                  .seed = 1}};
    world_restart(w);
}

void world_done(struct world *w) {
    nc_control_actions_done(&w->out);
    w->control = nc_control_free(w->control);
    for (size_t i = 0; i < w->n; i++)
        nc_value_free(w->objects[i].v);
    nc_buf_done(&w->trace);
    nc_buf_done(&w->events);
    w->n = 0;
}
