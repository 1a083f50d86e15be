/*
 * The pure parts of a watch: where to go on, and how long to wait.
 *
 * A first list may come from the API server's cache (resourceVersion 0), as kubelet's do: it costs
 * etcd nothing. After "Gone" the list requests a state that is not older than what was seen, and
 * only where the cache cannot give that, for the newest. A list of a complete collection (no
 * selector) is read in pages instead, without a resourceVersion: the cache would give all of it in
 * one answer whatever `limit` says (some hundred megabytes to encode for 50,000 Nodes), and a
 * standby that has just become the leader must not decide by what an API server that lags behind
 * remembers. A page that fails in passing is requested again where it stopped; a token that has
 * expired starts the list over, and where that happens again the list takes too long for the
 * server's memory (five minutes) and is requested as a whole, as client-go's pager does. Waits
 * double from 0.2 s to 30 s (5 min where we are refused, 5 s where somebody waits under a deadline)
 * and are jittered from a seed, so that a fleet does not come back in step and a test knows what to
 * expect.
 */
#include <errno.h>
#include <string.h>

#include "nc/str.h"

#include "watch-frame.h"
#include "wire.h"

#define PAGE_ITEMS 500
#define PAGE_TRIES 5     /* then the list starts over */
#define EXPIRED_TOKENS 2 /* then it is no list for pages */
#define FIRST_WAIT_USEC 200000u
#define MAX_WAIT_USEC 30000000u
#define MAX_WAIT_REFUSED_USEC 300000000u
#define MAX_WAIT_URGENT_USEC 5000000u
#define URGENT_TRIES 2 /* of a stream; then it is listed again */
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

    if (n == 0 || n >= sizeof(c->version) || nc_streq(version, "0") || !nc_is_visible(version, n))
        return -EBADMSG;
    memcpy(c->version, version, n + 1);
    c->expired = 0;
    c->is_whole = false;
    return 0;
}

static void add_version_query(struct nc_buf *b, const char *version) {
    nc_auto_free char *escaped = nc_kube_escape(version);

    nc_buf_printf(b, "&resourceVersion=%s", escaped);
}

static void add_list_query(const struct nc_watch_cursor *c, bool has_selector, struct nc_buf *b) {
    nc_buf_printf(b, "limit=%d", c->is_whole ? 0 : PAGE_ITEMS);
    if (c->next) {
        nc_auto_free char *escaped = nc_kube_escape(c->next);
        nc_buf_printf(b, "&continue=%s", escaped);
    } else if (has_selector && !c->is_strict) {
        add_version_query(b, c->version[0] ? c->version : "0");
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
        add_version_query(&b, c->version);
    } else {
        add_list_query(c, has_selector, &b);
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

/* A list has failed: at the same page again, or from its start? */
static void fail_list(struct nc_watch_cursor *c, const struct nc_kube_status *status) {
    const bool is_gone = nc_watch_is_gone(status);

    if (is_gone || nc_streq(status->cause, "ResourceVersionTooLarge"))
        c->is_strict = true;
    if (is_gone && c->next)
        c->is_whole = ++c->expired >= EXPIRED_TOKENS;
    else if (!c->is_passing)
        c->is_whole = false;
    if (is_gone || !c->is_passing || c->failures >= PAGE_TRIES)
        nc_watch_cursor_done(c);
}

uint64_t nc_watch_cursor_failed(struct nc_watch_cursor *c, const struct nc_kube_status *status) {
    const bool is_refused = status->http == 401 || status->http == 403 || status->http == 404;
    const uint64_t max_usec = c->is_urgent ? MAX_WAIT_URGENT_USEC
                              : is_refused ? MAX_WAIT_REFUSED_USEC
                                           : MAX_WAIT_USEC;
    uint64_t wait;

    if (c->failures < 1000)
        c->failures++;
    if (!c->is_listed)
        fail_list(c, status);
    if (nc_watch_is_gone(status) || (c->is_urgent && c->failures % URGENT_TRIES == 0))
        c->is_listed = false;
    wait = wait_usec(c, max_usec);
    if (status->retry_after_usec > wait)
        wait = status->retry_after_usec < max_usec ? status->retry_after_usec : max_usec;
    return wait;
}

const char *nc_watch_metadata(bool is_list) {
    return is_list
               ? "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
               : "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
}

bool nc_watch_pace_keep(struct nc_watch_pace *p, size_t n, bool is_midway, uint64_t now_usec) {
    bool is_fast;

    if (!is_midway || p->since_usec == 0) {
        *p = (struct nc_watch_pace){.since_usec = is_midway ? now_usec : 0};
        return true;
    }
    p->bytes += n;
    if (now_usec - p->since_usec < NC_PACE_USEC)
        return true;
    is_fast = p->bytes >= NC_PACE_BYTES;
    *p = (struct nc_watch_pace){.since_usec = now_usec};
    return is_fast;
}
