/*
 * A small HTTP/1.1 listener for the few questions that a probe, a scraper or `status` asks: GET of
 * a path, one question a connection.
 *
 * Strict and bounded: at most NC_LISTENER_MAX connections of NC_LISTENER_USEC each; a request is at
 * most 4 KiB and has no body. An address has NC_LISTENER_PER_ADDRESS of the places. Where its rate
 * limit is used up the connection of that address that is held longest goes, and where all places
 * are taken that of the address which holds most: but only one that has not asked yet (or was
 * answered already) and has had NC_LISTENER_GRACE_USEC for that. Else it is the new one that is not
 * taken. So nobody who just holds connections keeps the others out, and a probe, which asks at
 * once, is never dropped for somebody newer. Knows nothing of what is asked.
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

#define NC_LISTENER_MAX 32
#define NC_LISTENER_PER_ADDRESS 4u
#define NC_LISTENER_USEC 5000000u
#define NC_LISTENER_GRACE_USEC 250000u
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
    nc_listener_fn answer;
    void *userdata;
};
int nc_listener_new(sd_event *event, const struct nc_listener_options *o, struct nc_listener **ret,
                    struct nc_err *err);
struct nc_listener *nc_listener_free(struct nc_listener *l);
unsigned nc_listener_port(const struct nc_listener *l); /* of port 0: which one was given */

#endif
