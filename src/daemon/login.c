/*
 * A shutdown of the machine as a source like any other: its deadline is the end of the window that
 * logind gives to whoever holds a delay inhibitor.
 */
#include <stdio.h>

#include "daemon.h"
#include "log.h"
#include "nc/host.h"
#include "nc/str.h"

static bool find_active(const struct nc_daemon *d, struct nc_notice *ret) {
    struct nc_life_view view;

    nc_life_look(d->life, nc_daemon_now(d), &view);
    if (!view.is_active[NC_SOURCE_SHUTDOWN])
        return false;
    *ret = view.notices[NC_SOURCE_SHUTDOWN];
    return true;
}

/* A daemon that was restarted in the window knows from its saved state when that ends. */
static void on_shutdown(void *userdata, bool is_coming, uint64_t window_usec) {
    struct nc_daemon *d = userdata;
    const uint64_t now = nc_daemon_now(d);
    struct nc_notice notice = {.source = NC_SOURCE_SHUTDOWN, .action = "shutdown"};
    char begun[32];

    d->is_status_due = true;
    if (!is_coming) {
        nc_daemon_post_cleared(d, NC_SOURCE_SHUTDOWN);
        return;
    }
    if (!find_active(d, &notice)) {
        nc_time_format(now, begun);
        (void)snprintf(notice.id, sizeof(notice.id), "shutdown-%s", begun);
        notice.deadline_usec = now + window_usec;
    }
    nc_daemon_post_notice(d, &notice);
}

/* Our drop-in asks for a time; another file may have the last word. */
static void on_delay(void *userdata, uint64_t delay_usec) {
    struct nc_daemon *d = userdata;
    struct nc_err err = NC_ERR_INIT;
    const bool is_short = nc_logind_is_short(d->app->opts.root, delay_usec, &err);

    if (is_short == (d->short_delay != NULL))
        return;
    free(d->short_delay);
    d->short_delay = is_short ? nc_strdup(err.msg) : NULL;
    d->is_status_due = true;
    if (is_short)
        nc_log(NC_LOG_WARNING, NULL, "%s; %s", err.msg, err.remedy);
}

int nc_daemon_login_open(struct nc_daemon *d, struct nc_err *err) {
    struct nc_notice notice;

    /* Where there is no logind nobody will ever say that no shutdown is coming. */
    if (!find_active(d, &notice))
        nc_daemon_post_cleared(d, NC_SOURCE_SHUTDOWN);
    return nc_login_new(d->app->event, on_shutdown, on_delay, d, &d->login, err);
}

void nc_daemon_login_close(struct nc_daemon *d) {
    d->login = nc_login_free(d->login);
    free(d->short_delay);
    d->short_delay = NULL;
}

void nc_daemon_login_let_go(struct nc_daemon *d) {
    if (!d->login)
        return;
    if (nc_login_holds(d->login))
        nc_log(NC_LOG_INFO, NULL, "the shutdown may go on");
    nc_login_let_go(d->login);
    d->is_status_due = true;
}
