/*
 * A scripted transport in the place of nc/http.h: each request must be the next one of the script,
 * and gets that one's answer.
 *
 * No socket and no clock: what a hostile or half-dead API server does can be said byte by byte. The
 * real transport has tests of its own, and test-kube-loopback.c puts both together.
 */
#ifndef NC_KUBE_SCRIPT_H
#define NC_KUBE_SCRIPT_H

#include "groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/http.h"
#include "nc/kube.h"

struct script_step {
    /* What must be asked; NULL: anything. */
    const char *method;
    const char *url;    /* the whole URL */
    const char *header; /* a whole header line */
    const char *body;   /* with ' for " */
    /* What is answered. Outcome 0 means NC_HTTP_ANSWERED, status 0 means 200. */
    enum nc_http_outcome outcome;
    int status;
    const char
        *answer;     /* with ' for "; neither: a Status for a write that went well, else nothing */
    const char *raw; /* as it is, instead of answer */
    uint64_t retry_after_usec;
    size_t chunk;    /* streams: bytes a chunk, 0 = all at once */
    bool stays_open; /* never ends by itself */
    bool was_open;   /* the headers had come before it failed */
};

/* Sets the script and gives a client that follows it; the loop is script_loop(). */
struct nc_kube *script_begin(const struct script_step *steps, size_t n, nc_kube_token_fn token,
                             void *userdata);
struct nc_kube *script_begin_as(const struct nc_kube_role *role, const struct script_step *steps,
                                size_t n);
#define SCRIPT(token, userdata, ...)                                                               \
    script_begin((const struct script_step[]){__VA_ARGS__},                                        \
                 sizeof((const struct script_step[]){__VA_ARGS__}) / sizeof(struct script_step),   \
                 token, userdata)
#define SCRIPT_CONTROLLER(...)                                                                     \
    script_begin_as(&nc_kube_as_controller, (const struct script_step[]){__VA_ARGS__},             \
                    sizeof((const struct script_step[]){__VA_ARGS__})                              \
                        / sizeof(struct script_step))
/* How many requests were made so far. */
size_t script_requested(void);
sd_event *script_loop(void);
/* Runs the loop until sd_event_exit(), at most ten seconds. */
void script_run(void);
/* Everything was asked, nothing is in flight; frees the client. */
void script_end(struct nc_kube *k);
/* How many requests were cancelled, and how many headers of the last one. */
extern unsigned script_cancelled;
extern uint64_t script_last_timeout_usec;
/* Of each request how long it may be silent. */
#define SCRIPT_MAX 64
extern uint64_t script_idle_usec[SCRIPT_MAX];
extern size_t script_last_max_bytes;
extern char script_last_url[4096];
extern char script_last_body[4096];

/* JSON with ' for ". */
struct nc_value *js(const char *text);
char *unquote(const char *text);
void assert_json(const struct nc_value *v, const char *text);

/* A token callback: "one", and "two" after a refusal. userdata counts the calls (unsigned *), may
 * be NULL. */
int give_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err);

#endif
