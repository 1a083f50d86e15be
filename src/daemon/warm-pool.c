/*
 * A machine of a warm pool: the bootstrap has prepared it, left its marker and started no kubelet.
 *
 * As long as it is being warmed there is nothing to drain. Once Auto Scaling takes it into service
 * the bootstrap's unit is started again, which then joins and removes the marker. A machine that
 * was stopped boots and joins by itself; one that was hibernated or kept running is asked for here.
 */
#include <unistd.h>

#include "connect.h"
#include "daemon.h"
#include "log.h"
#include "nc/clock.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define BOOTSTRAP_UNIT "nodeclaimd-bootstrap.service"

static bool is_prepared(const struct nc_daemon *d) {
    return nc_is_there(d->app->opts.root, NC_WARM_POOL_FILE);
}

/* The first answer may come before the bootstrap has left its marker: then this machine was no node
 * yet. */
bool nc_warm_pool_holds(const struct nc_daemon *d, const struct nc_notice *n) {
    nc_auto_free char *kubeconfig = nc_connect_path(d->app, nc_daemon_kubeconfig(d));

    return nc_starts_with(n->action, NC_WARMED) && !nc_streq(n->action, NC_WARMED "Terminated")
           && (is_prepared(d) || access(kubeconfig, F_OK) < 0);
}

static void on_started(void *userdata, const char *message) {
    struct nc_daemon *d = userdata;

    d->warm_pool.is_over = true;
    if (message)
        nc_log(NC_LOG_WARNING, NULL, "starting " BOOTSTRAP_UNIT ": %s", message);
}

void nc_warm_pool_answer(struct nc_daemon *d, const struct nc_buf *body) {
    struct nc_warm_pool *w = &d->warm_pool;

    if (w->is_over)
        w->start = nc_target_free(w->start);
    if (w->start || !nc_starts_with(body->data, "InService") || !is_prepared(d))
        return;
    w->is_over = false;
    nc_log(NC_LOG_INFO, NULL,
           "Auto Scaling takes this instance into service: starting " BOOTSTRAP_UNIT);
    w->start = nc_target_start(d->app->event, &(struct nc_target_call){.target = BOOTSTRAP_UNIT,
                                                                       .begun_usec = nc_mono_usec(),
                                                                       .done = on_started,
                                                                       .userdata = d});
}
