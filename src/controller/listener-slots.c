/*
 * Which connection gives way to a new one. Pure: addresses and moments go in, a slot comes out.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "listener.h"

static bool is_same(const struct nc_host *a, const struct nc_host *b) {
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* All of an IPv6 address counts: the nodes and pods of a subnet share a /64, kubelet among them. */
struct nc_host nc_host_of(const union nc_address *a) {
    struct nc_host h = {{0}};

    if (a->any.sa_family == AF_INET6) {
        memcpy(h.bytes, &a->v6.sin6_addr, 16);
    } else if (a->any.sa_family == AF_INET) {
        memset(h.bytes + 10, 0xff, 2);
        memcpy(h.bytes + 12, &a->v4.sin_addr, 4);
    }
    return h;
}

int nc_host_parse(const char *text, struct nc_host *ret) {
    union nc_address a = {.any = {.sa_family = AF_UNSPEC}};

    if (inet_pton(AF_INET, text, &a.v4.sin_addr) == 1)
        a.v4.sin_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &a.v6.sin6_addr) == 1)
        a.v6.sin6_family = AF_INET6;
    else
        return -EINVAL;
    *ret = nc_host_of(&a);
    return 0;
}

/* Each slot knows how many its host has: a crowd is looked through once for each that comes. */
static unsigned count(struct nc_slots *s, const struct nc_host *from, int change) {
    unsigned n = 0;

    for (size_t i = 0; i < NC_LISTENER_MAX; i++)
        if (s->at[i].n_of_host > 0 && is_same(&s->at[i].from, from)) {
            s->at[i].n_of_host += (unsigned)change;
            n++;
        }
    return n;
}

void nc_slots_fill(struct nc_slots *s, size_t i, const struct nc_host *from, uint64_t now_usec) {
    s->at[i] = (struct nc_slot){
        .from = *from, .silent_since_usec = now_usec, .n_of_host = count(s, from, 1) + 1};
}

void nc_slots_clear(struct nc_slots *s, size_t i) {
    const struct nc_host from = s->at[i].from;

    s->at[i] = (struct nc_slot){0};
    (void)count(s, &from, -1);
}

/* Of this host, or of those that have at least so many; a free one has been silent for ever.
 * NC_LISTENER_MAX: there is none. */
static size_t longest_silent(const struct nc_slots *s, const struct nc_host *from,
                             unsigned at_least) {
    size_t found = NC_LISTENER_MAX;

    for (size_t i = NC_LISTENER_OF_NODE; i < NC_LISTENER_MAX; i++)
        if (s->at[i].n_of_host >= at_least && (!from || is_same(&s->at[i].from, from))
            && (found == NC_LISTENER_MAX
                || s->at[i].silent_since_usec < s->at[found].silent_since_usec))
            found = i;
    return found;
}

static size_t find_for_node(const struct nc_slots *s) {
    size_t found = 0;

    for (size_t i = 1; i < NC_LISTENER_OF_NODE; i++)
        if (s->at[i].silent_since_usec < s->at[found].silent_since_usec)
            found = i;
    return found;
}

size_t nc_slots_choose(const struct nc_slots *s, const struct nc_host *from) {
    size_t any, own, of_many;

    if (is_same(from, &s->node))
        return find_for_node(s);
    any = longest_silent(s, NULL, 0);
    own = longest_silent(s, from, 1);
    if (own < NC_LISTENER_MAX
        && (s->at[any].n_of_host > 0 || s->at[own].n_of_host >= NC_LISTENER_PER_ADDRESS))
        return own;
    of_many = longest_silent(s, NULL, 2);
    return s->at[any].n_of_host > 0 && of_many < NC_LISTENER_MAX ? of_many : any;
}
