/*
 * logind and the service manager, on the event loop: the one sign on the machine itself that
 * somebody is shutting it down.
 *
 * A delay inhibitor is held from the start; PrepareForShutdown(true) begins a window of
 * InhibitDelayMaxUSec in which the network and kubelet are still up. Whoever holds the inhibitor
 * may use it and must then release.
 */
#ifndef NC_LOGIN_H
#define NC_LOGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "nc/err.h"

struct nc_login;

struct nc_login_options {
    /* is_coming false: it was cancelled. `window_usec`: how long logind waits from now. */
    void (*told)(void *userdata, bool is_coming, uint64_t window_usec);
    /* How long logind waits at most for whoever holds an inhibitor, as often as it was read. */
    void (*delay)(void *userdata, uint64_t delay_usec);
    void *userdata;
};

/* Connects to the system bus, takes the inhibitor, listens. Where the bus or logind is not there
 * (yet), or goes away, it is tried again (1 s doubling to 60 s) until it is freed; nothing blocks.
 * A shutdown that is already being prepared when we connect is told at once. */
int nc_login_new(sd_event *event, const struct nc_login_options *o, struct nc_login **ret,
                 struct nc_err *err);
struct nc_login *nc_login_free(struct nc_login *l); /* releases the inhibitor */
void nc_login_release(
    struct nc_login *l); /* idempotent; taken again when the shutdown is cancelled */
bool nc_login_holds(const struct nc_login *l);

#endif
