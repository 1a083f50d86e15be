/*
 * What the tests of HTTP share: a server that plays one script, and a loop with a handle beside it.
 */
#ifndef HTTP_WORLD_H
#define HTTP_WORLD_H

#include "loopback.h"
#include "nc/http.h"

#define SECOND 1000000ull

/* A server that plays one script and remembers the last request's head. */
struct script {
    enum play {
        PLAY_PATH = 0, /* the path says what: "/status/503", "/size/5000", … */
        PLAY_HANG,
        PLAY_EMPTY,
        PLAY_RESET,
        PLAY_PARTIAL,
        PLAY_PARTIAL_CHUNK,
        PLAY_NOISE,
        PLAY_BAD_CHUNK,
        PLAY_LONG_HEADER,
        PLAY_MANY_HEADERS,
        PLAY_ENDLESS,
        PLAY_SLOW,
        PLAY_INTERIM,
        PLAY_STREAM,
        PLAY_DROP_AFTER_ONE,
    } play;
    char head[4096];
    char body[256];
};

/* A loop, a handle, a server. */
struct world {
    sd_event *event;
    struct nc_http *http;
    struct loopback *server;
    struct script script;
};

struct world world_new(enum play p, unsigned max_connections);
void world_start(struct world *w); /* the server; w must stay where it is */
void world_done(struct world *w);
struct nc_http_options options_for(const char *url); /* with a cap and a deadline */
char *url_of(const struct world *w, const char *path);

/* Turns the loop until *number is wanted; fails the test after five seconds. */
void world_turn_until(struct world *w, const unsigned *number, unsigned wanted);

#endif
