/*
 * A shutdown of the machine as a source like any other: its deadline is the end of the window that
 * logind gives to whoever holds a delay inhibitor.
 */
#include "shutdown.h"

#include <stdio.h>

#include "log.h"
#include "nc/host.h"
#include "nc/str.h"

/* A daemon that was restarted in the window knows from its saved state when that ends. */
static void on_shutdown(void *userdata, bool is_coming, uint64_t window_usec) {
    const struct nc_shutdown *s = userdata;
    const uint64_t now = s->sink.now(s->sink.userdata);
    struct nc_notice notice = {.source = NC_SOURCE_SHUTDOWN, .action = "shutdown"};
    char begun[32];

    s->sink.changed(s->sink.userdata);
    if (!is_coming) {
        s->sink.cleared(s->sink.userdata, NC_SOURCE_SHUTDOWN);
        return;
    }
    if (!s->sink.is_active(s->sink.userdata, NC_SOURCE_SHUTDOWN, &notice)) {
        nc_time_format(now, begun);
        (void)snprintf(notice.id, sizeof(notice.id), "shutdown-%s", begun);
        notice.deadline_usec = now + window_usec;
    }
    s->sink.notice(s->sink.userdata, &notice);
}

/* Our drop-in requests a time; another file may have precedence. */
static void on_delay(void *userdata, uint64_t delay_usec) {
    struct nc_shutdown *s = userdata;
    struct nc_err err = NC_ERR_INIT;
    const bool is_short = nc_logind_is_short(s->root, delay_usec, &err);

    if (is_short == (s->short_delay != NULL))
        return;
    free(s->short_delay);
    s->short_delay = is_short ? nc_strdup(err.msg) : NULL;
    s->sink.changed(s->sink.userdata);
    if (is_short)
        nc_log(NC_LOG_WARNING, NULL, "%s; %s", err.msg, err.remedy);
}

int nc_shutdown_open(struct nc_shutdown *s, sd_event *event, const char *root,
                     const struct nc_notice_sink *sink, struct nc_err *err) {
    struct nc_notice notice;

    s->sink = *sink;
    s->root = root;
    /* Where there is no logind nobody will ever state that no shutdown is coming. */
    if (!sink->is_active(sink->userdata, NC_SOURCE_SHUTDOWN, &notice))
        sink->cleared(sink->userdata, NC_SOURCE_SHUTDOWN);
    return nc_login_new(
        event, &(struct nc_login_options){.told = on_shutdown, .delay = on_delay, .userdata = s},
        &s->login, err);
}

void nc_shutdown_close(struct nc_shutdown *s) {
    s->login = nc_login_free(s->login);
    free(s->short_delay);
    s->short_delay = NULL;
}

void nc_shutdown_release(struct nc_shutdown *s) {
    if (!s->login)
        return;
    if (nc_login_holds(s->login))
        nc_log(NC_LOG_INFO, NULL, "the shutdown may go on");
    nc_login_release(s->login);
    s->sink.changed(s->sink.userdata);
}
