/*
 * A shutdown of the machine as a source like any other: its deadline is the end of the window that
 * logind gives to whoever holds a delay inhibitor.
 */
#include "daemon.h"

#include <stdio.h>

#include "log.h"
#include "nc/host.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/time.h"

/* A daemon that was restarted in the window knows from its saved state when that ends. */
static void on_shutdown(void *userdata, bool is_coming, uint64_t window_usec, bool is_reboot) {
    struct nc_daemon *d = userdata;
    const uint64_t now = nc_daemon_now(d);
    const struct nc_notice *before = nc_lifecycle_notice(d->life, NC_SOURCE_SHUTDOWN);
    struct nc_notice notice = {.source = NC_SOURCE_SHUTDOWN, .action = "shutdown"};
    char begun[32];

    d->is_status_due = true;
    if (!is_coming) {
        nc_daemon_post_cleared(d, NC_SOURCE_SHUTDOWN);
        return;
    }
    if (before) {
        notice = *before;
    } else {
        nc_time_format(now, begun);
        if (is_reboot)
            nc_copy_text(notice.action, sizeof(notice.action), NC_ACTION_REBOOT);
        (void)snprintf(notice.id, sizeof(notice.id), "shutdown-%s", begun);
        notice.deadline_usec = now + window_usec;
    }
    nc_daemon_post_notice(d, &notice);
}

/* Our drop-in requests a time; another file may have precedence. */
static void on_delay(void *userdata, uint64_t delay_usec) {
    struct nc_daemon *d = userdata;
    struct nc_err err = NC_ERR_INIT;
    const bool is_short = nc_logind_is_short(d->app->opts.root, delay_usec, &err);

    if (is_short == (d->shutdown.short_delay != NULL))
        return;
    free(d->shutdown.short_delay);
    d->shutdown.short_delay = is_short ? nc_strdup(err.msg) : NULL;
    d->is_status_due = true;
    if (is_short)
        nc_log(NC_LOG_WARNING, NULL, "%s; %s", err.msg, err.remedy);
}

int nc_shutdown_open(struct nc_daemon *d, struct nc_err *err) {
    /* Where there is no logind nobody will ever state that no shutdown is coming. */
    if (!nc_lifecycle_notice(d->life, NC_SOURCE_SHUTDOWN))
        nc_daemon_post_cleared(d, NC_SOURCE_SHUTDOWN);
    return nc_login_new(
        d->app->event,
        &(struct nc_login_options){.told = on_shutdown, .delay = on_delay, .userdata = d},
        &d->shutdown.login, err);
}

void nc_shutdown_close(struct nc_daemon *d) {
    d->shutdown.login = nc_login_free(d->shutdown.login);
    free(d->shutdown.short_delay);
    d->shutdown.short_delay = NULL;
}

void nc_shutdown_release(struct nc_daemon *d) {
    if (!d->shutdown.login)
        return;
    if (nc_login_holds(d->shutdown.login))
        nc_log(NC_LOG_INFO, NULL, "the shutdown may go on");
    nc_login_release(d->shutdown.login);
    d->is_status_due = true;
}
