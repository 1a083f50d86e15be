/*
 * The loop that one-shot commands turn while they wait, and the clock that the pure core does not
 * have.
 */
#include "app.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "log.h"
#include "nc/file.h"

#define LEAST_TIMEOUT_USEC 10000u

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
    struct nc_app *app = userdata;

    app->signal = (int)si->ssi_signo;
    /* Whoever waits in the loop for an answer sees that it is to end, and gives up at once. */
    return sd_event_exit(sd_event_source_get_event(source), 0);
}

int nc_app_loop(struct nc_app *app, struct nc_err *err) {
    static const int signals[] = {SIGTERM, SIGINT};
    sigset_t set;
    int r;

    if (app->event)
        return 0;
    r = sd_event_new(&app->event);
    if (r < 0)
        return nc_err_set(err, NC_ERR_HOST, -r, "event loop: %s", strerror(-r));
    (void)sigemptyset(&set);
    for (size_t i = 0; i < NC_ARRAY_SIZE(signals); i++)
        (void)sigaddset(&set, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < NC_ARRAY_SIZE(signals); i++) {
        r = sd_event_add_signal(app->event, NULL, signals[i], on_signal, app);
        if (r < 0)
            return nc_err_set(err, NC_ERR_HOST, -r, "event loop: signal %d: %s", signals[i],
                              strerror(-r));
    }
    return 0;
}

void nc_app_done(struct nc_app *app) {
    nc_strv_done(&app->opts.sources);
    app->event = sd_event_unref(app->event);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
    bool *over = userdata;

    (void)source;
    (void)usec;
    *over = true;
    return 0;
}

int nc_app_pause(struct nc_app *app, uint64_t usec) {
    sd_event_source *timer = NULL;
    bool over = false;
    int r =
        sd_event_add_time_relative(app->event, &timer, CLOCK_MONOTONIC, usec, 1, on_time, &over);

    while (r >= 0 && !over && !app->signal)
        r = sd_event_run(app->event, UINT64_MAX);
    sd_event_source_unref(timer);
    return app->signal ? -EINTR : r < 0 ? r : 0; /* a loop that has ended says -ESTALE */
}

bool nc_app_is_late(const struct nc_app *app) {
    return app->deadline_usec != 0 && app->deadline_usec <= nc_mono_usec();
}

uint64_t nc_app_left(const struct nc_app *app, uint64_t most) {
    const uint64_t now = nc_mono_usec();

    if (app->deadline_usec == 0)
        return most;
    if (app->deadline_usec <= now)
        return 0;
    return app->deadline_usec - now < most ? app->deadline_usec - now : most;
}

uint64_t nc_app_timeout(const struct nc_app *app, uint64_t most) {
    const uint64_t left = nc_app_left(app, most);

    return left < LEAST_TIMEOUT_USEC ? LEAST_TIMEOUT_USEC : left;
}

char *nc_app_path(const struct nc_app *app, const char *path) {
    return nc_path_below(app->opts.root, path);
}

int nc_app_fail(const struct nc_app *app, const struct nc_err *err) {
    (void)fprintf(stderr, "nodeclaimd %s: %s\n", app->opts.command, err->msg);
    if (*err->remedy)
        (void)fprintf(stderr, "remedy: %s\n", err->remedy);
    return nc_err_exit_code(err->class);
}
