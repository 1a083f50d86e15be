/*
 * The controllers as processes: they start, are told who else is there, list and watch, lead or
 * stand by, send what the step wants, and are killed.
 */
#include "judge.h"
#include "nc/standalone.h"
#include "nc/str.h"
#include "sabotage.h"
#include "world.h"

#define TIMEOUT_USEC (10 * SEC)
#define SPINS_MAX 2000u /* ticks in one second */

struct nc_control_action action_copy(const struct nc_control_action *a) {
    struct nc_control_action ret = *a;

    ret.name = nc_strdup(a->name);
    ret.uid = nc_strdup(a->uid);
    ret.body = a->body ? nc_value_copy(a->body) : NULL;
    ret.provider_id = nc_strdup(a->provider_id);
    ret.message = nc_strdup(a->message);
    return ret;
}

void action_done(struct nc_control_action *a) {
    free(a->name);
    free(a->uid);
    nc_value_free(a->body);
    free(a->provider_id);
    free(a->message);
    *a = (struct nc_control_action){0};
}

static enum nc_control_mode mode_is(const struct world *w, const struct process *p) {
    return !p->is_mode_posted ? NC_CONTROL_MODE_UNKNOWN
           : w->is_standalone ? NC_CONTROL_STANDALONE
                              : NC_CONTROL_KARPENTER;
}

/* --- the step */

void process_send(struct world *w, unsigned p, const struct nc_control_action *a) {
    const bool is_slow = w->has_faults && !w->is_quiet && world_chance(w, 3);
    struct request *r = nc_calloc(1, sizeof(*r));

    *r = (struct request){.proc = p, .life = w->procs[p].life, .action = action_copy(a)};
    if (w->has_faults && !w->is_quiet && world_chance(w, 3)) {
        r->is_lost = true;
        r->is_dropped = world_chance(w, 50);
    }
    world_post(w, world_between(w, MSEC, is_slow ? 4 * SEC : 40 * MSEC), THING_ARRIVES, p, 0, r);
}

void process_pretend(struct world *w, unsigned p, const struct nc_control_action *a,
                     enum nc_control_answer answer) {
    struct request *r = nc_calloc(1, sizeof(*r));

    *r = (struct request){.proc = p, .life = w->procs[p].life, .action = action_copy(a)};
    r->answer = answer;
    world_post(w, MSEC, THING_ANSWERED, p, 0, r);
}

static void tick_at(struct world *w, unsigned p) {
    struct process *proc = &w->procs[p];
    const uint64_t next = nc_control_next(proc->c, w->now_usec);

    proc->ticks++;
    if (next != UINT64_MAX)
        world_post(w, next > w->now_usec ? next - w->now_usec : 0, THING_TICK, p, proc->ticks,
                   NULL);
    if (w->now_usec >= proc->spin_usec + SEC) {
        proc->spin_usec = w->now_usec;
        proc->spins = 0;
    }
}

void process_post(struct world *w, unsigned p, struct nc_control_event *e) {
    struct nc_control_actions out = {0};
    struct process *proc = &w->procs[p];

    if (!proc->c || w->judge->broken[0])
        return;
    e->now_usec = w->now_usec;
    judge_event(w, p, e);
    nc_control_step(proc->c, e, &out);
    sabotage(w, p, e, &out);
    for (size_t i = 0; i < out.n; i++) {
        if (out.v[i].verb == NC_CONTROL_EMIT_EVENT)
            world_log(w, "%u: says %s of %s: %s", p, out.v[i].reason, out.v[i].name,
                      out.v[i].message);
        else
            world_log(w, "%u: %s %s #%llu", p, nc_control_verb_name(out.v[i].verb), out.v[i].name,
                      (unsigned long long)out.v[i].id);
        judge_action(w, p, &out.v[i]);
        if (out.v[i].verb != NC_CONTROL_EMIT_EVENT)
            process_send(w, p, &out.v[i]);
    }
    nc_control_actions_done(&out);
    tick_at(w, p);
}

/* --- watches */

static void relist(struct world *w, unsigned p, unsigned k, uint64_t in_usec) {
    struct watch *watch = &w->procs[p].watches[k];

    watch->is_open = false;
    world_post(w, in_usec, THING_LIST, p * KINDS + k, ++watch->generation, NULL);
}

static void read_list(struct world *w, const struct due *due) {
    struct watch *watch = &w->procs[due->a / KINDS].watches[due->a % KINDS];
    struct listed *l;

    if (!w->procs[due->a / KINDS].c || due->b != watch->generation)
        return;
    if (world_is_in(w->away, w->now_usec)) {
        world_post(w, world_between(w, SEC, 3 * SEC), THING_LIST, due->a, due->b, NULL);
        return;
    }
    l = nc_calloc(1, sizeof(*l));
    for (unsigned i = 0; i < w->n_objects; i++)
        if (w->objects[i].v && w->objects[i].kind == (enum nc_control_kind)(due->a % KINDS))
            l->items[l->n++] = nc_value_copy(w->objects[i].v);
    l->log_at = w->n_log;
    world_post(w, world_between(w, MSEC, 2 * SEC), THING_LISTED, due->a, due->b, l);
}

static void show(struct world *w, unsigned p, enum nc_control_kind k, const struct nc_value *v,
                 bool is_gone) {
    const char *uid = text_at(v, "metadata.uid");
    nc_auto_value struct nc_value *object =
        thin(v, nc_control_keep(k, mode_is(w, &w->procs[p]), &w->rules));
    struct nc_control_event e = {.kind = NC_CONTROL_SEEN, .what = k, .object = object};

    if (is_gone)
        e = (struct nc_control_event){.kind = NC_CONTROL_GONE,
                                      .what = k,
                                      .name = text_at(v, "metadata.name"),
                                      .uid = world_chance(w, 90) ? uid : ""};
    process_post(w, p, &e);
}

static unsigned index_of(const struct world *w, const struct nc_value *v) {
    const char *uid = text_at(v, "metadata.uid");

    for (unsigned i = 0; i < w->n_objects; i++)
        if (nc_streq(w->objects[i].uid, uid))
            return i;
    return 0;
}

static void stream_later(struct world *w, unsigned p, unsigned k) {
    struct watch *watch = &w->procs[p].watches[k];
    const bool is_slow = w->has_faults && !w->is_quiet && world_chance(w, 3);
    uint64_t at = w->now_usec + world_between(w, MSEC, is_slow ? 5 * SEC : 50 * MSEC);

    if (at <= watch->last_usec)
        at = watch->last_usec + 1;
    watch->last_usec = at;
    world_post(w, at - w->now_usec, THING_STREAM, p * KINDS + k, watch->generation, NULL);
}

static void gone_meanwhile(struct world *w, unsigned p, enum nc_control_kind k,
                           const struct listed *l) {
    struct watch *watch = &w->procs[p].watches[k];

    for (unsigned i = 0; i < w->n_objects; i++) {
        bool is_listed = false;
        for (size_t n = 0; n < l->n; n++)
            is_listed = is_listed || index_of(w, l->items[n]) == i;
        if (!watch->is_known[i] || is_listed)
            continue;
        watch->is_known[i] = false;
        nc_auto_value struct nc_value *v =
            world_json("{\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\"}}", w->objects[i].name,
                       w->objects[i].uid);
        show(w, p, k, v, true);
    }
}

static void handle_list(struct world *w, const struct due *due) {
    const unsigned p = due->a / KINDS, k = due->a % KINDS;
    struct watch *watch = &w->procs[p].watches[k];
    struct listed *l = due->data;
    const bool is_ours = w->procs[p].c && due->b == watch->generation;

    for (size_t i = 0; i < l->n; i++) {
        if (is_ours) {
            watch->is_known[index_of(w, l->items[i])] = true;
            show(w, p, (enum nc_control_kind)k, l->items[i], false);
        }
    }
    if (is_ours) {
        gone_meanwhile(w, p, (enum nc_control_kind)k, l);
        watch->is_open = true;
        watch->at = l->log_at;
        for (size_t i = watch->at; i < w->n_log; i++)
            if (w->log[i].kind == (enum nc_control_kind)k)
                stream_later(w, p, k);
        process_post(
            w, p,
            &(struct nc_control_event){.kind = NC_CONTROL_SYNCED, .what = (enum nc_control_kind)k});
    }
    for (size_t i = 0; i < l->n; i++)
        nc_value_free(l->items[i]);
    free(l);
}

/* Sometimes the same comes once more. (Never an older one: a stream is in order, and a list is a
 * read of the quorum; and where a backup was restored what is older is what counts.) */
static void repeat(struct world *w, unsigned p, const struct told *t) {
    if (!t->is_gone && w->has_faults && world_chance(w, 5))
        show(w, p, t->kind, t->v, false);
}

static void stream(struct world *w, const struct due *due) {
    const unsigned p = due->a / KINDS, k = due->a % KINDS;
    struct watch *watch = &w->procs[p].watches[k];

    if (!w->procs[p].c || !watch->is_open || due->b != watch->generation)
        return;
    while (watch->at < w->n_log && w->log[watch->at].kind != (enum nc_control_kind)k)
        watch->at++;
    if (watch->at >= w->n_log)
        return;
    const struct told t = w->log[watch->at++];
    watch->is_known[t.object] = !t.is_gone;
    show(w, p, t.kind, t.v, t.is_gone);
    repeat(w, p, &t);
}

void process_changed(struct world *w, enum nc_control_kind k) {
    for (unsigned p = 0; p < N_PROCS; p++)
        if (w->procs[p].c && w->procs[p].watches[k].is_open)
            stream_later(w, p, k);
}

/* --- life */

static void start(struct world *w, unsigned p) {
    struct process *proc = &w->procs[p];
    struct nc_control_rules rules = w->rules;
    struct nc_control_event e = {.kind = NC_CONTROL_RULES, .rules = &rules};

    if (proc->c)
        return;
    *proc = (struct process){
        .c = nc_control_new(&nc_standalone), .life = proc->life + 1, .ticks = proc->ticks};
    judge_started(w, p);
    world_log(w, "%u: starts", p);
    if (w->sabotage == SABOTAGE_TRUSTS_NODES)
        rules.identity = NC_CONTROL_IDENTITY_ADMISSION;
    if (w->sabotage == SABOTAGE_IGNORES_TURNS)
        rules.zone_turn_usec = 0;
    process_post(w, p, &e);
    relist(w, p, NC_CONTROL_NODE, world_below(w, SEC));
    relist(w, p, NC_CONTROL_CLAIM, world_below(w, SEC));
    world_post(w, world_below(w, 3 * SEC), THING_MODE, p, proc->life, NULL);
}

static void post_mode(struct world *w, const struct due *due) {
    struct process *proc = &w->procs[due->a];

    if (!proc->c || due->b != proc->life)
        return;
    if (w->is_standalone && !proc->is_mode_posted && !proc->was_fooled && !w->is_quiet
        && world_chance(w, 30)) {
        proc->was_fooled = true;
        world_log(w, "%u: is told that Karpenter runs", due->a);
        process_post(w, due->a,
                     &(struct nc_control_event){.kind = NC_CONTROL_MODE,
                                                .mode = NC_CONTROL_KARPENTER,
                                                .is_guess = w->sabotage != SABOTAGE_TRUSTS_LEASES});
        for (unsigned k = 0; k < 2; k++)
            relist(w, due->a, k, world_below(w, SEC));
        world_post(w, world_between(w, 5 * SEC, 300 * SEC), THING_MODE, due->a, proc->life, NULL);
        return;
    }
    proc->is_mode_posted = true;
    world_log(w, "%u: is told who", due->a);
    process_post(w, due->a,
                 &(struct nc_control_event){.kind = NC_CONTROL_MODE, .mode = mode_is(w, proc)});
    for (unsigned k = 0; k < (w->is_standalone ? KINDS : 2); k++)
        relist(w, due->a, k, world_below(w, SEC));
}

static void lead(struct world *w, unsigned p, bool leads) {
    w->procs[p].leads = leads;
    w->leader = leads ? (int)p : -1;
    world_log(w, "%u: %s", p, leads ? "leads" : "leads no more");
    process_post(w, p, &(struct nc_control_event){.kind = NC_CONTROL_LEAD, .leads = leads});
}

static void somebody_leads(struct world *w) {
    const unsigned first = (unsigned)world_below(w, N_PROCS);

    if (w->leader >= 0)
        return;
    for (unsigned i = 0; i < N_PROCS; i++)
        if (w->procs[(first + i) % N_PROCS].c) {
            lead(w, (first + i) % N_PROCS, true);
            return;
        }
    world_post(w, SEC, THING_LEAD, 0, 0, NULL);
}

void process_free(struct world *w, unsigned p) {
    w->procs[p].c = nc_control_free(w->procs[p].c);
}

static void kill_leader(struct world *w) {
    const int p = w->leader;

    if (p < 0)
        return;
    world_log(w, "%d: is killed", p);
    w->leader = -1;
    process_free(w, (unsigned)p);
    world_post(w, world_between(w, SEC, 20 * SEC), THING_START, (unsigned)p, 0, NULL);
    world_post(w, world_between(w, 5 * SEC, 17 * SEC), THING_LEAD, 0, 0, NULL);
}

/* --- requests */

/* A terminated instance has mostly no name any more. */
static void ask_ec2(struct world *w, struct request *r) {
    const bool is_state = r->action.verb == NC_CONTROL_INSTANCE_STATE;

    r->name = actors_name_of(w, r->action.provider_id);
    r->state = is_state ? actors_state_of(w, r->action.provider_id) : NULL;
    if (is_state && w->sabotage == SABOTAGE_TAINTS_RUNNING)
        r->state = "terminated";
    if (is_state && nc_streq(r->state, "terminated") && world_chance(w, 70))
        r->name = NULL;
}

static void read_node(struct world *w, struct request *r) {
    const struct object *node = server_find(w, NC_CONTROL_NODE, r->action.name);

    if (r->action.verb != NC_CONTROL_GET_NODE || !node)
        return;
    r->object = nc_value_copy(node->v);
    if (w->sabotage == SABOTAGE_OPENS_ANYTHING)
        gate_embellish(r->object);
}

static void arrive(struct world *w, const struct due *due) {
    struct request *r = due->data;
    uint64_t in_usec = world_between(w, MSEC, 40 * MSEC);

    if (world_is_in(w->away, w->now_usec)) {
        r->answer = NC_CONTROL_UNAVAILABLE;
        r->retry_after_usec = world_chance(w, 50) ? world_below(w, 20) * SEC : 0;
    } else if (r->is_dropped) {
        r->answer = NC_CONTROL_UNAVAILABLE;
    } else if (world_is_in(w->refused, w->now_usec)) {
        r->answer = NC_CONTROL_REFUSED;
    } else {
        r->answer = server_serve(w, &r->action);
        ask_ec2(w, r);
        read_node(w, r);
    }
    if (r->is_lost) {
        r->answer = NC_CONTROL_UNAVAILABLE;
        in_usec = TIMEOUT_USEC;
    }
    world_post(w, in_usec, THING_ANSWERED, r->proc, 0, r);
}

static void answer(struct world *w, const struct due *due) {
    struct request *r = due->data;

    world_log(w, "%u: #%llu %s %s: %d", r->proc, (unsigned long long)r->action.id,
              nc_control_verb_name(r->action.verb), r->action.name, (int)r->answer);
    if (w->procs[r->proc].life == r->life)
        process_post(
            w, r->proc,
            &(struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                       .id = r->action.id,
                                       .answer = r->answer,
                                       .name = r->name,
                                       .instance_state = r->state,
                                       .object = r->answer == NC_CONTROL_DONE ? r->object : NULL,
                                       .retry_after_usec = r->retry_after_usec});
    action_done(&r->action);
    nc_value_free(r->object);
    free(r);
}

static void tick(struct world *w, const struct due *due) {
    struct process *proc = &w->procs[due->a];

    if (!proc->c || due->b != proc->ticks)
        return;
    if (++proc->spins > SPINS_MAX)
        judge_break(w, "spin", "more than %u ticks in a second", SPINS_MAX);
    process_post(w, due->a, &(struct nc_control_event){.kind = NC_CONTROL_TICK});
}

void process_happen(struct world *w, const struct due *due) {
    switch ((int)due->kind) {
    case THING_TICK:
        tick(w, due);
        break;
    case THING_START:
        start(w, due->a);
        break;
    case THING_KILL:
        kill_leader(w);
        break;
    case THING_DEPOSE:
        if (w->leader >= 0) {
            lead(w, (unsigned)w->leader, false);
            world_post(w, world_between(w, 5 * SEC, 10 * SEC), THING_LEAD, 0, 0, NULL);
        }
        break;
    case THING_LEAD:
        somebody_leads(w);
        break;
    case THING_MODE:
        post_mode(w, due);
        break;
    case THING_LIST:
        read_list(w, due);
        break;
    case THING_LISTED:
        handle_list(w, due);
        break;
    case THING_STREAM:
        stream(w, due);
        break;
    case THING_GAP:
        if (w->procs[due->a].c && w->procs[due->a].watches[due->b].is_open)
            relist(w, due->a, due->b, world_below(w, 8 * SEC));
        break;
    case THING_ARRIVES:
        arrive(w, due);
        break;
    case THING_ANSWERED:
        answer(w, due);
        break;
    default:
        break;
    }
}
