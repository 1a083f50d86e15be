/*
 * The loop that one-shot commands turn while they wait, and the clock that the pure core does not
 * have.
 */
#include "app.h"

#include "nc/file.h"

#define LEAST_TIMEOUT_USEC 10000u

int nc_app_loop(struct nc_app *app, struct nc_err *err) {
    return nc_loop_open(&app->event, &app->signal, err);
}

void nc_app_done(struct nc_app *app) {
    nc_strv_done(&app->opts.sources);
    app->event = sd_event_unref(app->event);
}

int nc_app_pause(struct nc_app *app, uint64_t usec) {
    return nc_loop_pause(app->event, &app->signal, usec);
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

char *nc_app_path_or(const struct nc_app *app, const char *named, const char *path) {
    return named ? nc_strdup(named) : nc_app_path(app, path);
}

int nc_app_fail(const struct nc_app *app, const struct nc_err *err) {
    return nc_process_fail(app->opts.command, err);
}
