/*
 * The kube layer over the real transport: TLS, client certificate and token, against the fake API
 * server that enforces the node authorizer's rules (tests/fakes/apiserver.py, a process of its
 * own). It has the Node node-a, a NodeClaim, and two pods in the namespace shop.
 */
#ifndef NC_KUBE_WORLD_H
#define NC_KUBE_WORLD_H

#include "groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/http.h"
#include "nc/kube-drain.h"
#include "nc/mem.h"

#define ID "aws:///us-west-2a/i-0bb8a7e6111d45591"
#define TIMEOUT 10000000u

struct world {
    char folder[64];
    pid_t pid;
    char *url, *control;
    char *cert, *key;
    struct nc_buf ca;
    sd_event *loop;
    struct nc_http *http;
    struct nc_kube *kube;
};
extern struct world world;
extern unsigned world_more_nodes; /* beside node-a: set it before world_set_up() */
int world_set_up(void **state);
int world_tear_down(void **state);
struct nc_kube *world_client(const char *cert, const char *key, const char *ca,
                             nc_kube_token_fn token, void *userdata);
/* The controller's ServiceAccount, whose rules the fake has too. */
struct nc_kube *world_controller(void);
/* A switch of the fake: "POST /compact", "PUT /faults" with a body. */
void world_turn(const char *method, const char *path, const char *body);
/* Turns the loop until the count is reached; half a minute without any event is a failure. */
void world_wait_for(const char *what, const unsigned *count, unsigned wanted);

/* What a watch has said. */
struct observed {
    unsigned added, modified, deleted, synced, failed;
    char last[400];
};

void observed_event(void *userdata, enum nc_watch_event event, const struct nc_value *object);
void observed_failure(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err);

#endif
