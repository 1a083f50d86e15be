/*
 * The pods that a drain knows: taken in, replaced, forgotten, found again.
 *
 * Knows nothing of when a pod is asked what. A pod whose going was only trusted, or about which a
 * question is still in flight, is kept hidden until that is settled: should it show up again, what
 * was requested from it is remembered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/backoff.h"
#include "nc/mem.h"
#include "nc/names.h"

#include "drain-priv.h"

/* P13: the API server's admission learns of a binding no faster than we do. */
#define BOUND_USEC (NC_SEC_USEC / 2)
#define LATE_USEC (5 * NC_SEC_USEC)     /* P2: by then the scheduler has learnt of the cordon */
#define CREATED_WITHIN_USEC NC_SEC_USEC /* a creationTimestamp has whole seconds */

struct nc_drain *nc_drain_new(void) {
    struct nc_drain *d = nc_calloc(1, sizeof(*d));

    d->max = NC_DRAIN_MAX_PODS;
    return d;
}

void nc_drain_set_max(struct nc_drain *d, size_t max_pods) {
    d->max = max_pods;
}

static void free_record(struct record *e) {
    nc_pod_done(&e->pod);
    free(e->refusal);
    free(e);
}

struct nc_drain *nc_drain_free(struct nc_drain *d) {
    if (!d)
        return NULL;
    for (size_t i = 0; i < d->n; i++)
        free_record(d->by_uid[i]);
    for (size_t i = 0; i < d->n_news; i++)
        nc_pod_news_done(&d->news[i]);
    free(d->news);
    free(d->ended);
    free(d->by_uid);
    free(d->by_order);
    nc_buf_done(&d->cut);
    free(d);
    return NULL;
}

static int compare_order(const struct nc_pod *a, const struct nc_pod *b) {
    int r = (a->tier > b->tier) - (a->tier < b->tier);

    if (r == 0)
        r = strcmp(a->namespace, b->namespace);
    if (r == 0)
        r = strcmp(a->name, b->name);
    return r ? r : strcmp(a->uid, b->uid);
}

static int compare_uid(const struct nc_pod *a, const struct nc_pod *b) {
    return strcmp(a->uid, b->uid);
}

typedef int (*compare_fn)(const struct nc_pod *a, const struct nc_pod *b);

/* The first place whose pod is not before p. */
static size_t place_of(struct record *const *v, size_t n, compare_fn compare,
                       const struct nc_pod *p) {
    size_t low = 0;

    while (n > 0) {
        const size_t half = n / 2;
        if (compare(&v[low + half]->pod, p) < 0) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

static void insert(struct record **v, size_t n, compare_fn compare, struct record *e) {
    const size_t at = place_of(v, n, compare, &e->pod);

    memmove(v + at + 1, v + at, (n - at) * sizeof(*v));
    v[at] = e;
}

static void remove_from_index(struct record **v, size_t n, compare_fn compare,
                              const struct record *e) {
    const size_t at = place_of(v, n, compare, &e->pod);

    memmove(v + at, v + at + 1, (n - at - 1) * sizeof(*v));
}

struct record *nc_drain_find(const struct nc_drain *d, const char *uid) {
    const struct nc_pod key = {.uid = (char *)uid};
    const size_t at = uid ? place_of(d->by_uid, d->n, compare_uid, &key) : d->n;

    return at < d->n && strcmp(d->by_uid[at]->pod.uid, uid) == 0 ? d->by_uid[at] : NULL;
}

static void add(struct nc_drain *d, struct record *e) {
    if (d->n == d->room) {
        d->room = d->room ? d->room * 2 : 16;
        d->by_uid = nc_realloc_array(d->by_uid, d->room, sizeof(*d->by_uid));
        d->by_order = nc_realloc_array(d->by_order, d->room, sizeof(*d->by_order));
    }
    insert(d->by_uid, d->n, compare_uid, e);
    insert(d->by_order, d->n, compare_order, e);
    d->n++;
}

/* Was there anything to do about it, but for its being stuck? */
static bool is_concern(const struct nc_drain *d, const struct record *e) {
    const enum nc_pod_reason x = nc_pod_excluded(&e->pod, &d->last_rules, 0);

    return x == NC_POD_REASON_NONE || x == NC_POD_REASON_STUCK;
}

void nc_drain_progress(struct nc_drain *d, uint64_t usec) {
    if (usec > d->so_far.last_progress_usec)
        d->so_far.last_progress_usec = usec;
}

void nc_drain_remove(struct nc_drain *d, struct record *e) {
    if (e->was_eligible)
        d->so_far.total++;
    if (e->evicted_usec)
        d->so_far.evicted++;
    if (e->is_gone)
        d->n_gone--;
    remove_from_index(d->by_uid, d->n, compare_uid, e);
    remove_from_index(d->by_order, d->n, compare_order, e);
    d->n--;
    free_record(e);
}

void nc_pod_news_done(struct nc_pod_news *n) {
    free(n->namespace);
    free(n->name);
    free(n->uid);
    free(n->message);
}

bool nc_drain_is_kept_at_end(const struct record *e) {
    const uint64_t evict_usec = e->evict_usec, delete_usec = e->delete_sent_usec;

    return nc_pod_is_kept(&e->pod, delete_usec > evict_usec ? delete_usec : evict_usec);
}

void nc_drain_note_news(struct nc_drain *d, enum nc_pod_news_kind kind, struct record *e,
                        char *message) {
    struct nc_pod_news *n = nc_append(&d->news, &d->n_news);
    const bool is_end = kind == NC_POD_NEWS_EVICTED || kind == NC_POD_NEWS_FORCED;
    const struct nc_pod *p = &e->pod;

    *n = (struct nc_pod_news){.kind = kind,
                              .is_first = is_end && !e->was_told,
                              .is_kept = is_end && nc_drain_is_kept_at_end(e),
                              .namespace = nc_strdup(p->namespace),
                              .name = nc_strdup(p->name),
                              .uid = nc_strdup(p->uid),
                              .message = message};
    e->was_told = e->was_told || is_end;
}

void nc_drain_note_end(struct nc_drain *d, struct record *e, enum nc_pod_news_kind kind) {
    const bool is_cut = e->grace_sec && e->grace_sec < e->pod.grace_sec;
    const bool is_deletion = kind == NC_POD_NEWS_FORCED;
    char grace[64] = "";

    if (is_cut)
        (void)snprintf(grace, sizeof(grace), " with %u of %llu s", e->grace_sec,
                       (unsigned long long)e->pod.grace_sec);
    else if (is_deletion)
        (void)snprintf(grace, sizeof(grace), " with a grace period of %u s", e->grace_sec);
    if (is_cut && !e->is_cut && d->so_far.cut++ < NC_DRAIN_NAMES)
        (void)nc_buf_printf(&d->cut, "%s%s/%s%s",
                            d->cut.len ? ", " : ", grace period cut: ", e->pod.namespace,
                            e->pod.name, grace);
    e->is_cut |= is_cut;
    nc_drain_note_news(
        d, kind, e,
        nc_asprintf("%s pod %s/%s%s%s", is_deletion ? "Force-deleted" : "Evicted", e->pod.namespace,
                    e->pod.name, grace,
                    !is_deletion && nc_drain_is_kept_at_end(e) ? NC_POD_KEPT_TEXT : ""));
    if (is_cut)
        memcpy(d->news[d->n_news - 1].grace, grace, sizeof(grace));
}

void nc_drain_warn_of_order(struct nc_drain *d, struct record *e) {
    const struct nc_pod *p = &e->pod;

    if (p->order != NC_POD_ORDER_UNKNOWN || e->has_warned || e->is_gone)
        return;
    e->has_warned = true;
    nc_drain_note_news(d, NC_POD_NEWS_ORDER_IGNORED, e,
                       nc_asprintf("Pod %s/%s: annotation " NC_ANNOTATION_DRAIN_ORDER
                                   " is neither first nor last, ignoring it",
                                   p->namespace, p->name));
}

struct nc_pod_news *nc_drain_drop_news(struct nc_drain *d, size_t *ret_n) {
    *ret_n = d->n_news;
    d->n_news = 0;
    return nc_steal(&d->news);
}

void nc_drain_mark_absent(struct nc_drain *d, struct record *e, uint64_t now_usec) {
    if (e->is_gone)
        return;
    if (is_concern(d, e)) {
        e->was_eligible = true;
        nc_drain_progress(d, now_usec);
        nc_drain_note_news(d, NC_POD_NEWS_GONE, e,
                           nc_asprintf("Pod %s/%s %s", e->pod.namespace, e->pod.name,
                                       e->pod.has_finalizer ? "has ended" : "is gone"));
    }
    e->is_gone = true;
    d->n_gone++;
}

void nc_drain_gone(struct nc_drain *d, const char *uid, uint64_t now_usec) {
    struct record *e = nc_drain_find(d, uid);

    if (!e)
        return;
    if (e->is_deleting && e->is_forced && !e->deleted_usec && !e->evicted_usec) {
        nc_drain_note_end(d, e, NC_POD_NEWS_FORCED); /* the watch was faster than the answer */
        nc_drain_note_ended(d, e, NC_POD_RETURN_FORCED);
        e->deleted_usec = e->delete_sent_usec;
        d->so_far.deleted++;
    }
    nc_drain_mark_absent(d, e, now_usec);
    if (nc_drain_is_requested(e))
        e->is_removed = true;
    else
        nc_drain_remove(d, e);
}

/* P12: it was reported to be gone and is not: all that was known of it is stale, but for what is in
 * flight.
 */
static void come_back(struct nc_drain *d, struct record *e, uint64_t now_usec) {
    const struct record was = *e;

    free(e->refusal);
    *e = (struct record){.pod = was.pod,
                         .new_usec = nc_sum_usec(now_usec, NC_SEC_USEC),
                         .requested_usec = was.requested_usec,
                         .evict_usec = was.evict_usec,
                         .delete_sent_usec = was.delete_sent_usec,
                         .evictions = was.evictions,
                         .marks = was.marks,
                         .deletions = was.deletions,
                         .is_evicting = was.is_evicting,
                         .is_marking = was.is_marking,
                         .is_deleting = was.is_deleting,
                         .is_cut = was.is_cut,
                         .was_told = was.was_told,
                         .has_warned = was.has_warned,
                         .has_hung = was.has_hung,
                         .was_slow = was.was_slow,
                         .was_overdue = was.was_overdue,
                         .was_kept = was.was_kept,
                         .was_eligible = was.was_eligible};
    d->n_gone--;
}

/* What moved since it was seen last. A pod that is first seen terminating began to leave when it
 * was asked to. */
static void note_change(struct nc_drain *d, const struct record *e, const struct nc_pod *old,
                        uint64_t now_usec) {
    const struct nc_pod *p = &e->pod;
    const bool has_ended = old && p->is_terminal && !old->is_terminal;
    const struct record before = {.pod = old ? *old : *p};

    if (!is_concern(d, &before))
        return;
    if (has_ended || (old && p->deletion_usec && !old->deletion_usec)) {
        nc_drain_progress(d, now_usec);
    } else if (!old && p->deletion_usec) {
        const uint64_t asked =
            nc_less_usec(p->deletion_usec, nc_sec_to_usec(p->deletion_grace_sec));
        nc_drain_progress(d, asked < now_usec ? asked : now_usec);
    }
}

static void replace(struct nc_drain *d, struct record *e, struct nc_pod *pod, uint64_t now_usec) {
    const bool moves = compare_order(&e->pod, pod) != 0;
    struct nc_pod old = e->pod;

    if (e->is_gone)
        come_back(d, e, now_usec);
    if (moves)
        remove_from_index(d->by_order, d->n, compare_order, e);
    pod->put_back = old.put_back;
    e->pod = *pod;
    if (moves)
        insert(d->by_order, d->n - 1, compare_order, e);
    note_change(d, e, &old, now_usec);
    nc_pod_done(&old);
}

/* Makes room by forgetting what is only assumed deleted. */
static void purge(struct nc_drain *d) {
    for (size_t i = d->n; i > 0 && d->n_gone > 0; i--)
        if (d->by_uid[i - 1]->is_gone && !nc_drain_is_requested(d->by_uid[i - 1]))
            nc_drain_remove(d, d->by_uid[i - 1]);
}

/* Who gives up its place for this pod? One that no drain moves; else, for a pod that kubelet has
 * started, one that it has not: whoever may create pods cannot pretend that. Once one of the others
 * found no place, no further one will. */
static struct record *find_place(const struct nc_drain *d, const struct nc_pod *p,
                                 uint64_t now_usec) {
    struct record *found = NULL;

    if (!p->has_started && d->next_gap == NC_LIST_TOO_MANY)
        return NULL;
    for (size_t i = d->n; i > 0; i--) {
        struct record *e = d->by_order[i - 1];
        if (nc_drain_is_requested(e))
            continue;
        if (nc_pod_excluded(&e->pod, &d->last_rules, now_usec))
            return e;
        if (p->has_started && !e->pod.has_started && !nc_drain_is_leaving(e) && !found)
            found = e;
    }
    return found;
}

/* The pods that are excluded by what may change: they are missed where others of their kind would
 * not be excluded any more. */
static const struct {
    bool is_daemon, tolerates_disrupted;
    enum nc_pod_return put_back : 4;
} dropped_kinds[NC_DRAIN_DROPPED_KINDS] = {{.is_daemon = true},
                                           {.tolerates_disrupted = true},
                                           {.is_daemon = true, .tolerates_disrupted = true},
                                           {.put_back = NC_POD_RETURN_EVICTED}};

static bool is_kind_missed(const struct nc_drain *d, size_t i, const struct nc_drain_rules *r) {
    const struct nc_pod pod = {.is_daemon = dropped_kinds[i].is_daemon,
                               .tolerates_disrupted = dropped_kinds[i].tolerates_disrupted,
                               .put_back = dropped_kinds[i].put_back};

    return d->has_dropped[i] && !nc_pod_excluded(&pod, r, 0);
}

/* A pod is not kept. What no drain moves is not missed. */
static void note_dropped(struct nc_drain *d, const struct nc_pod *p, uint64_t now_usec) {
    const enum nc_pod_reason x = nc_pod_excluded(p, &d->last_rules, now_usec);

    if (x == NC_POD_REASON_NONE)
        d->gap = d->next_gap = NC_LIST_TOO_MANY;
    for (size_t i = 0; i < NC_DRAIN_DROPPED_KINDS; i++) {
        if (x == NC_POD_REASON_PUT_BACK
                ? dropped_kinds[i].put_back == p->put_back
                : (x == NC_POD_REASON_DAEMON || x == NC_POD_REASON_TOLERATES)
                      && !dropped_kinds[i].put_back && p->is_daemon == dropped_kinds[i].is_daemon
                      && p->tolerates_disrupted == dropped_kinds[i].tolerates_disrupted)
            d->has_dropped[i] = true;
    }
}

/* False where all places are taken by pods that are not to be dropped for this one. */
static bool make_room(struct nc_drain *d, const struct nc_pod *p, uint64_t now_usec) {
    struct record *e = NULL;

    purge(d);
    if (d->n < d->max)
        return true;
    if (!nc_pod_excluded(p, &d->last_rules, now_usec))
        e = find_place(d, p, now_usec);
    if (!e)
        return false;
    note_dropped(d, &e->pod, now_usec);
    e->was_eligible = false; /* it has not left */
    nc_drain_remove(d, e);
    return true;
}

/* Nobody tells those apart who put back pods without a controller, but for the namespace. */
static uint64_t puts_back(const struct nc_pod *p) {
    return p->controller ? p->controller : nc_backoff_seed(p->namespace);
}

static struct ended *find_ended(const struct nc_drain *d, const struct nc_pod *p) {
    for (size_t i = 0; i < d->n_ended; i++)
        if (d->ended[i].controller == puts_back(p))
            return &d->ended[i];
    return NULL;
}

void nc_drain_note_ended(struct nc_drain *d, const struct record *e, enum nc_pod_return as) {
    struct ended *of = find_ended(d, &e->pod);

    if (!of) {
        of = nc_append(&d->ended, &d->n_ended);
        *of = (struct ended){.controller = puts_back(&e->pod)};
    }
    if (as > of->as)
        of->as = as;
}

/* P2: what does not tolerate the cordon may just have been bound before it was known. */
static enum nc_pod_return returned_as(const struct nc_drain *d, const struct nc_pod *p) {
    const struct ended *of = find_ended(d, p);
    const uint64_t shut_usec =
        nc_sum_usec(d->last_rules.cordoned_usec, p->tolerates_cordon ? 0 : LATE_USEC);

    return of && d->last_rules.cordoned_usec
                   && nc_sum_usec(p->created_usec, CREATED_WITHIN_USEC) > shut_usec
               ? of->as
               : NC_POD_RETURN_NONE;
}

int nc_drain_see(struct nc_drain *d, struct nc_pod *pod, uint64_t now_usec) {
    struct record *e = nc_drain_find(d, pod->uid);

    if (e) {
        replace(d, e, pod, now_usec);
        *pod = (struct nc_pod){0};
        return 0;
    }
    if (d->n >= d->max && !make_room(d, pod, now_usec)) {
        note_dropped(d, pod, now_usec);
        nc_pod_done(pod);
        return -E2BIG;
    }
    e = nc_calloc(1, sizeof(*e));
    pod->put_back = returned_as(d, pod);
    e->pod = *pod;
    *pod = (struct nc_pod){0};
    if (d->is_listed)
        e->new_usec = nc_sum_usec(now_usec, BOUND_USEC);
    add(d, e);
    note_change(d, e, NULL, now_usec);
    return 0;
}

void nc_drain_miss(struct nc_drain *d) {
    if (d->gap == NC_LIST_COMPLETE)
        d->gap = NC_LIST_UNREADABLE;
    if (d->next_gap == NC_LIST_COMPLETE)
        d->next_gap = NC_LIST_UNREADABLE;
}

/* What is missing stays missing until the list has come to its end. */
void nc_drain_begin_list(struct nc_drain *d) {
    d->next_gap = NC_LIST_COMPLETE;
    memset(d->has_dropped, 0, sizeof(d->has_dropped));
}

void nc_drain_listed(struct nc_drain *d) {
    d->is_listed = true;
    d->gap = d->next_gap;
}

const char *nc_list_gap_name(enum nc_list_gap g) {
    static const char names[][16] = {[NC_LIST_COMPLETE] = "",
                                     [NC_LIST_TOO_MANY] = "TooManyPods",
                                     [NC_LIST_UNREADABLE] = "UnreadablePod"};

    return (unsigned)g < NC_ARRAY_SIZE(names) ? names[g] : "";
}

enum nc_list_gap nc_drain_gap(const struct nc_drain *d, const struct nc_drain_rules *r) {
    bool is_missed = false;

    for (size_t i = 0; i < NC_DRAIN_DROPPED_KINDS; i++)
        is_missed = is_missed || is_kind_missed(d, i, r);
    return d->gap == NC_LIST_COMPLETE && is_missed ? NC_LIST_TOO_MANY : d->gap;
}

bool nc_drain_has_room(const struct nc_drain *d, size_t remaining) {
    return remaining < d->max;
}

/* What was accepted stays known: an eviction is not requested twice. */
void nc_drain_restart(struct nc_drain *d) {
    purge(d);
    for (size_t i = 0; i < d->n; i++) {
        struct record *e = d->by_uid[i];
        free(e->refusal);
        e->refusal = NULL;
        e->refused_usec = e->delete_usec = 0;
        if (!nc_drain_is_leaving(e))
            e->requested_usec = 0;
        e->evictions = e->marks = e->deletions = e->refusals = 0;
        e->refused = 0;
        e->was_eligible = e->is_forced = e->is_cut = e->has_warned = e->has_hung = e->was_slow =
            e->was_overdue = e->was_kept = false;
        e->pod.put_back = NC_POD_RETURN_NONE;
    }
    d->n_ended = 0;
    d->limit = 0;
    d->is_listed = false;
    memset(d->has_dropped, 0, sizeof(d->has_dropped));
    d->gap = d->next_gap = NC_LIST_COMPLETE;
    d->so_far = (struct nc_drain_summary){0};
    nc_buf_done(&d->cut);
}

void nc_drain_put_cut(const struct nc_drain *d, struct nc_buf *out) {
    if (d->cut.data)
        (void)nc_buf_puts(out, d->cut.data);
    nc_drain_put_more(out, d->so_far.cut);
}

void nc_drain_put_more(struct nc_buf *names, size_t n) {
    if (n > NC_DRAIN_NAMES)
        (void)nc_buf_printf(names, " and %zu more", n - NC_DRAIN_NAMES);
}

size_t nc_drain_count(const struct nc_drain *d) {
    return d->n - d->n_gone;
}
