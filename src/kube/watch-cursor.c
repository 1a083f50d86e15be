/*
 * The pure parts of a watch: where to go on, how long to wait, and what is known.
 *
 * A first list may come from the API server's cache (resourceVersion 0), as kubelet's do: it costs
 * etcd nothing. After "Gone" the list asks for a state that is not older than what was seen, and
 * only where the cache cannot give that, for the newest. A list of a whole collection (no selector)
 * is read in pages instead. Waits double from 0.2 s to 30 s (5 min where we are refused) and are
 * jittered from a seed, so that a fleet does not come back in step and a test knows what to expect.
 */
#include <errno.h>
#include <string.h>

#include "nc/str.h"

#include "watch-frame.h"
#include "wire.h"

#define PAGE_ITEMS 500
#define FIRST_WAIT_USEC 200000u
#define MAX_WAIT_USEC 30000000u
#define MAX_WAIT_REFUSED_USEC 300000000u
#define MIN_STREAM_SEC                                                                             \
    300 /* the API server ends a watch after so long, plus up to STREAM_JITTER_SEC */
#define STREAM_JITTER_SEC 120

/* splitmix64: small, and every seed is good. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void nc_watch_cursor_done(struct nc_watch_cursor *c) {
    free(c->next);
    c->next = NULL;
}

int nc_watch_cursor_advance(struct nc_watch_cursor *c, const char *version) {
    const size_t n = version ? strlen(version) : 0;

    if (n == 0 || n >= sizeof(c->version) || nc_streq(version, "0"))
        return -EBADMSG;
    for (size_t i = 0; i < n; i++)
        if (version[i] <= ' ' || version[i] > '~')
            return -EBADMSG;
    memcpy(c->version, version, n + 1);
    return 0;
}

static void put_version(struct nc_buf *b, const char *version) {
    nc_auto_free char *escaped = nc_kube_escape(version);

    nc_buf_printf(b, "&resourceVersion=%s", escaped);
}

static void put_list(const struct nc_watch_cursor *c, bool has_selector, struct nc_buf *b) {
    nc_buf_printf(b, "limit=%d", PAGE_ITEMS);
    if (c->next) {
        nc_auto_free char *escaped = nc_kube_escape(c->next);
        nc_buf_printf(b, "&continue=%s", escaped);
    } else if (has_selector && !c->is_strict) {
        put_version(b, c->version[0] ? c->version : "0");
        nc_buf_puts(b, "&resourceVersionMatch=NotOlderThan");
    }
}

char *nc_watch_cursor_request(struct nc_watch_cursor *c, const char *path, const char *selector) {
    struct nc_buf b = NC_BUF_INIT;
    const bool has_selector = selector && *selector;

    nc_buf_printf(&b, "%s?%s%s", path, has_selector ? selector : "", has_selector ? "&" : "");
    if (c->is_listed) {
        nc_buf_printf(&b, "watch=true&allowWatchBookmarks=true&timeoutSeconds=%u",
                      MIN_STREAM_SEC + (unsigned)(next_random(&c->random) % STREAM_JITTER_SEC));
        put_version(&b, c->version);
    } else {
        put_list(c, has_selector, &b);
    }
    return nc_buf_steal(&b);
}

bool nc_watch_is_gone(const struct nc_kube_status *status) {
    return status->http == 410 || nc_streq(status->reason, "Expired")
           || nc_streq(status->reason, "Gone");
}

/* Half of the doubled wait is fixed, the other half is jitter. */
static uint64_t wait_usec(struct nc_watch_cursor *c, uint64_t max_usec) {
    const unsigned doublings = c->failures > 16 ? 16 : c->failures ? c->failures - 1 : 0;
    uint64_t full = (uint64_t)FIRST_WAIT_USEC << doublings;

    if (full > max_usec)
        full = max_usec;
    return full / 2 + next_random(&c->random) % (full / 2 + 1);
}

uint64_t nc_watch_cursor_failed(struct nc_watch_cursor *c, const struct nc_kube_status *status) {
    const bool is_refused = status->http == 401 || status->http == 403 || status->http == 404;
    const bool is_too_new = nc_streq(status->cause, "ResourceVersionTooLarge");
    const uint64_t max_usec = is_refused ? MAX_WAIT_REFUSED_USEC : MAX_WAIT_USEC;
    uint64_t wait;

    if (c->failures < 1000)
        c->failures++;
    if (!c->is_listed && (nc_watch_is_gone(status) || is_too_new))
        c->is_strict = true;
    if (!c->is_listed || nc_watch_is_gone(status))
        nc_watch_cursor_done(c);
    if (nc_watch_is_gone(status))
        c->is_listed = false;
    wait = wait_usec(c, max_usec);
    if (status->retry_after_usec > wait)
        wait = status->retry_after_usec < max_usec ? status->retry_after_usec : max_usec;
    return wait;
}

void nc_known_done(struct nc_known *k) {
    for (size_t i = 0; i < k->n; i++) {
        free(k->items[i].key);
        free(k->items[i].uid);
    }
    free(k->items);
    memset(k, 0, sizeof(*k));
}

void nc_known_begin_list(struct nc_known *k) {
    k->generation++;
}

static char *key_of(const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const char *namespace = nc_value_get_string(metadata, "namespace");
    const char *name = nc_value_get_string(metadata, "name");

    return nc_asprintf("%s/%s", namespace ? namespace : "", name ? name : "");
}

/* The first place whose key is not less; *ret_found says whether it is the key itself. Lists come
 * sorted: the end is tried first. */
static size_t find(const struct nc_known *k, const char *key, bool *ret_found) {
    size_t low = 0;
    size_t high = k->n;

    *ret_found = false;
    if (k->n > 0 && strcmp(k->items[k->n - 1].key, key) < 0)
        return k->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(k->items[middle].key, key);
        *ret_found = *ret_found || order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct nc_value *stub(const struct nc_known_item *item) {
    struct nc_value *object = nc_value_new(NC_VALUE_MAP);
    struct nc_value *metadata = nc_value_new(NC_VALUE_MAP);
    const char *slash = strchr(item->key, '/');
    nc_auto_free char *namespace = nc_strndup(item->key, slash ? (size_t)(slash - item->key) : 0);

    if (*namespace)
        nc_value_set_string(metadata, "namespace", namespace);
    nc_value_set_string(metadata, "name", slash ? slash + 1 : item->key);
    nc_value_set_string(metadata, "uid", item->uid);
    nc_value_set(object, "metadata", metadata);
    return object;
}

static void insert(struct nc_known *k, size_t at, char *key, const char *uid) {
    (void)nc_append(&k->items, &k->n);
    memmove(&k->items[at + 1], &k->items[at], (k->n - 1 - at) * sizeof(*k->items));
    k->items[at] =
        (struct nc_known_item){.key = key, .uid = nc_strdup(uid), .generation = k->generation};
}

enum nc_watch_event nc_known_put(struct nc_known *k, const struct nc_value *object,
                                 struct nc_value **ret_old) {
    nc_auto_free char *key = key_of(object);
    const char *uid = nc_value_string(nc_value_path(object, "metadata.uid"));
    bool found;
    const size_t at = find(k, key, &found);

    *ret_old = NULL;
    uid = uid ? uid : "";
    if (!found) {
        insert(k, at, nc_steal(&key), uid);
        return NC_WATCH_ADDED;
    }
    k->items[at].generation = k->generation;
    if (nc_streq(k->items[at].uid, uid))
        return NC_WATCH_MODIFIED;
    *ret_old = stub(&k->items[at]);
    free(k->items[at].uid);
    k->items[at].uid = nc_strdup(uid);
    return NC_WATCH_ADDED;
}

static void remove_at(struct nc_known *k, size_t at) {
    free(k->items[at].key);
    free(k->items[at].uid);
    memmove(&k->items[at], &k->items[at + 1], (k->n - 1 - at) * sizeof(*k->items));
    k->n--;
}

void nc_known_drop(struct nc_known *k, const struct nc_value *object) {
    nc_auto_free char *key = key_of(object);
    bool found;
    const size_t at = find(k, key, &found);

    if (found)
        remove_at(k, at);
}

struct nc_value *nc_known_sweep(struct nc_known *k) {
    for (size_t i = k->n; i > 0; i--) {
        if (k->items[i - 1].generation == k->generation)
            continue;
        struct nc_value *gone = stub(&k->items[i - 1]);
        remove_at(k, i - 1);
        return gone;
    }
    return NULL;
}
