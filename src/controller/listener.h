/*
 * A small HTTP/1.1 listener for the few questions that a probe, a scraper or `status` asks: GET of
 * a path, one question a connection.
 *
 * Strict and bounded: at most NC_LISTENER_MAX connections of NC_LISTENER_USEC each; a request is at
 * most 4 KiB and has no body. A new connection is always accepted: where there is no room, the one
 * that has been silent for longest gives way, whatever its age. A host that has a slot already
 * makes room by its own; where all are taken, those that have more than one make it for a host that
 * has none; and NC_LISTENER_OF_NODE slots are for the own node alone, from where kubelet asks. So a
 * probe, which asks at once, is answered however many others come. Knows nothing of what is asked.
 */
#ifndef NC_LISTENER_H
#define NC_LISTENER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <systemd/sd-event.h>

#include "nc/err.h"
#include "nc/mem.h"

#define NC_LISTENER_MAX 256
#define NC_LISTENER_OF_NODE 16
#define NC_LISTENER_PER_ADDRESS 4u
#define NC_LISTENER_USEC 5000000u
#define NC_LISTENER_PATH_MAX 256

union nc_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};
/* "127.0.0.1:8080", "[::1]:8080": a numeric address and a port. NC_ERR_CONFIG. */
int nc_address_parse(const char *text, union nc_address *ret, socklen_t *ret_n, struct nc_err *err);
/* 127.0.0.0/8, ::1, and the former written as IPv6. */
bool nc_address_is_loopback(const union nc_address *a);

/* listener-slots.c: who is connected. A host is an IPv6 address; IPv4 is mapped into it. */
struct nc_host {
    uint8_t bytes[16];
};
struct nc_host nc_host_of(const union nc_address *a);
int nc_host_parse(const char *text, struct nc_host *ret); /* -EINVAL */

struct nc_slot {
    struct nc_host from;
    /* Since it came, or last received of its answer; 1 once it has all of it. Half a request is
     * silence. */
    uint64_t silent_since_usec;
    unsigned n_of_host; /* 0: free */
};
struct nc_slots {
    struct nc_host node; /* all 0: not known */
    struct nc_slot at[NC_LISTENER_MAX];
};
/* Which slot a new connection has: one that is free, or whose connection must leave first. */
size_t nc_slots_choose(const struct nc_slots *s, const struct nc_host *from);
void nc_slots_fill(struct nc_slots *s, size_t i, const struct nc_host *from, uint64_t now_usec);
void nc_slots_clear(struct nc_slots *s, size_t i);

/* Reads a request as far as it is there. 0: not complete yet; 1: *ret_path (without its query) and
 * *ret_head (HEAD: no body is wanted) are filled; negative: the status that refuses it, as -400. */
int nc_listener_read_request(const char *data, size_t n, char ret_path[static NC_LISTENER_PATH_MAX],
                             bool *ret_head);

struct nc_listener_answer {
    int status;       /* 200, 404, …; 0 becomes 404 */
    const char *type; /* static; NULL = text/plain */
    struct nc_buf body;
};
/* is_local: the peer is on this machine (or in this pod). The body is taken over. */
typedef void (*nc_listener_fn)(void *userdata, const char *path, bool is_local,
                               struct nc_listener_answer *ret);

struct nc_listener;
/* NC_ERR_HOST where the address cannot be had. */
struct nc_listener_options {
    const char *address;
    const char *node_address; /* of the own node; NULL: not known */
    nc_listener_fn answer;
    void *userdata;
};
int nc_listener_new(sd_event *event, const struct nc_listener_options *o, struct nc_listener **ret,
                    struct nc_err *err);
struct nc_listener *nc_listener_free(struct nc_listener *l);
unsigned nc_listener_port(const struct nc_listener *l); /* of port 0: which one was given */

#endif
