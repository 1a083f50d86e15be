/*
 * What survives the daemon: one small file, written complete or not at all.
 *
 * Second to the Node's own annotations, which tell whose the cordon is; this file knows which
 * notices were active and since when. A power failure may empty it, and then the sources tell the
 * same again; only what an operator requested nobody tells again, so with that it is synced. Any
 * other file that cannot be used is put aside, never repaired. One of another boot may have come
 * with an image: what was requested in it counts once it is known to be this machine's.
 */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>

#include "log.h"
#include "nc/file.h"
#include "nc/str.h"

#define STATE_MAX_BYTES ((size_t)256 << 10)
#define SCHEMA 1
#define NOT_OURS "it is another machine's"

static void set_aside(struct nc_daemon *d, const char *path, const char *why) {
    nc_auto_free char *aside = nc_asprintf("%s.bad", path);
    const bool moved = rename(path, aside) == 0;
    nc_auto_free char *message = nc_asprintf(
        "%s: %s; %s %s, starting without: what `nodeclaimd drain` requested is lost, and "
        "another drain goes on once its source answers",
        path, why, moved ? "renamed to" : "could not be renamed to", aside);

    nc_daemon_announce(d, &(struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_ANNOUNCE,
                                                        .reason = "StateLost",
                                                        .is_warning = true,
                                                        .message = message});
}

static bool differs(const char *saved, const char *ours) {
    return saved && ours && !nc_streq(saved, ours);
}

static const char *check(const struct nc_daemon *d, const struct nc_value *state) {
    if (nc_value_get_int(state, "schema", 0) != SCHEMA)
        return "not a state of this version";
    if (differs(nc_value_get_string(state, "node"), d->node_name))
        return NOT_OURS;
    return NULL;
}

static bool is_same_boot(const struct nc_daemon *d, const struct nc_value *state) {
    const char *boot_id = nc_value_get_string(state, "boot_id");

    return boot_id && d->boot_id && nc_streq(boot_id, d->boot_id);
}

static void hold_former_request(struct nc_daemon *d, const struct nc_value *state) {
    const struct nc_value *former = nc_value_get(state, "former");

    if (!former && !is_same_boot(d, state) && nc_lifecycle_notice(d->life, NC_SOURCE_OPERATOR)) {
        former = state;
        nc_lifecycle_free(d->life);
        d->life = nc_lifecycle_new(&d->rules);
    }
    if (!former)
        return;
    d->state.former = nc_value_copy(former);
    nc_log(NC_LOG_INFO, NULL, "a drain requested before the boot waits until IMDS answers");
}

int nc_daemon_state_load(struct nc_daemon *d, struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(d->app, NC_STATE_FILE);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_value struct nc_value *state = NULL;
    struct nc_err own = NC_ERR_INIT;
    const char *wrong = NULL;
    int r = nc_file_read(path, STATE_MAX_BYTES, &text, &own);

    if (r == -ENOENT)
        return 0;
    if (r < 0 && r != -EFBIG) {
        if (err)
            *err = own;
        return r;
    }
    if (r == 0 && text.len == 0) {
        nc_log(NC_LOG_WARNING, NULL,
               "%s is empty, as after a power failure; nothing requested on this machine was in it",
               path);
        return 0;
    }
    if (r == 0)
        r = nc_json_parse(text.data, text.len, &state, &own);
    if (r < 0) {
        set_aside(d, path, own.msg);
        return 0;
    }
    wrong = check(d, state);
    if (!wrong && is_same_boot(d, state)
        && !nc_hook_runner_load(&d->hooks, nc_value_get(state, "hooks")))
        wrong = "invalid hooks";
    if (!wrong
        && nc_lifecycle_load(d->life, nc_value_get(state, "life"), is_same_boot(d, state),
                             (int64_t)(nc_daemon_now(d) - nc_daemon_own_now()))
               < 0)
        wrong = "invalid drain state";
    if (wrong) {
        set_aside(d, path, wrong);
        return 0;
    }
    if (is_same_boot(d, state)) {
        nc_fit_gate_load(&d->fit, nc_value_get(state, "fit"));
        d->state.instance = nc_strdup(nc_value_get_string(state, "instance"));
    }
    hold_former_request(d, state);
    d->state.saved = nc_buf_steal(&text);
    d->state.has_request = true; /* not known: the first write is synced */
    /* Who was stopped before the clean-up was done has left it to us. */
    return is_same_boot(d, state) && !nc_value_get(state, "clean_up");
}

void nc_daemon_state_adopt(struct nc_daemon *d) {
    const struct nc_value *former = d->state.former;
    const char *instance = nc_value_get_string(former, "instance");
    const char *node = nc_value_get_string(former, "node");
    const char *ours = d->gather.facts.instance_id, *wrong = NULL;

    d->is_state_due = true; /* what is known of us now is saved, too */
    if (!former || !(instance ? ours : d->node_name))
        return;
    if (differs(instance, ours) || differs(node, d->node_name) || (!instance && !node))
        wrong = NOT_OURS;
    else if (nc_lifecycle_load(d->life, nc_value_get(former, "life"), false,
                               d->steps.clock_offset_usec)
             < 0)
        wrong = "invalid drain state";
    if (wrong) {
        nc_auto_free char *path = nc_app_path(d->app, NC_STATE_FILE);
        set_aside(d, path, wrong);
        free(d->state.saved);
        d->state.saved = NULL;
    }
    nc_daemon_state_forget_former(d);
    nc_daemon_post_again(d, NC_SOURCE_OPERATOR);
}

void nc_daemon_state_forget_former(struct nc_daemon *d) {
    d->is_state_due |= d->state.former != NULL;
    d->state.former = nc_value_free(d->state.former);
}

static struct nc_value *state_of(const struct nc_daemon *d) {
    struct nc_value *state = nc_value_new_map();
    struct nc_value *hooks = nc_hook_runner_save(&d->hooks), *fit = nc_fit_gate_save(&d->fit);
    const char *instance = d->gather.facts.instance_id;

    if (!instance)
        instance = d->state.instance;
    nc_value_set_int(state, "schema", SCHEMA);
    if (instance)
        nc_value_set_string(state, "instance", instance);
    if (d->boot_id)
        nc_value_set_string(state, "boot_id", d->boot_id);
    if (d->node_name)
        nc_value_set_string(state, "node", d->node_name);
    if (d->pods.wants_clean_up)
        nc_value_set_bool(state, "clean_up", true);
    nc_value_set(state, "life", nc_lifecycle_save(d->life));
    if (hooks)
        nc_value_set(state, "hooks", hooks);
    if (fit)
        nc_value_set(state, "fit", fit);
    if (d->state.former)
        nc_value_set(state, "former", nc_value_copy(d->state.former));
    return state;
}

/* The end of a request is kept as surely as the request: where it cannot be, nothing is. */
static int write_state(struct nc_daemon *d, const struct nc_buf *text, struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(d->app, NC_STATE_FILE);
    const bool had_request = d->state.has_request;

    d->state.has_request = d->state.former || nc_lifecycle_notice(d->life, NC_SOURCE_OPERATOR);
    const int r = (had_request || d->state.has_request ? nc_file_write_synced : nc_file_write)(
        path, text->data, text->len, 0600, err);
    if (r < 0 && had_request && !d->state.has_request)
        (void)unlink(path);
    return r;
}

/* Once in the journal, and in status.json for as long as it lasts. err NULL: there is none. */
static void show_error(struct nc_daemon *d, const struct nc_err *err) {
    nc_auto_free char *was = d->state.error, *path = nc_app_path(d->app, NC_STATE_FILE);
    const bool is_there = err && access(path, F_OK) == 0;

    d->state.error =
        err ? nc_asprintf("%s; a reboot %s; remedy: %s (df, mount)", err->msg,
                          is_there ? "takes up the request of this machine as it was saved last"
                                   : "forgets a drain requested on this machine",
                          err->remedy)
            : NULL;
    if (nc_streq(was, d->state.error))
        return;
    nc_log(err ? NC_LOG_WARNING : NC_LOG_INFO, NULL, "%s",
           err ? d->state.error : NC_STATE_FILE " is saved again");
    d->is_status_due = true;
}

void nc_daemon_state_save(struct nc_daemon *d) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_value struct nc_value *state = NULL;
    struct nc_err err = NC_ERR_INIT;

    d->is_state_due = false;
    if (!d->life)
        return;
    state = state_of(d);
    nc_json_write(&text, state, 0);
    nc_buf_putc(&text, '\n');
    if (nc_streq(text.data, d->state.saved))
        return;
    d->state.saved_usec = nc_mono_usec();
    free(d->state.saved);
    d->state.saved = NULL;
    if (write_state(d, &text, &err) >= 0) {
        d->state.saved = nc_buf_steal(&text);
        if (d->state.error)
            nc_requests_forget_unsaved(d);
        show_error(d, NULL);
        return;
    }
    show_error(d, &err);
    d->is_state_due = true;
}

static int on_state_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    (void)userdata; /* nc_daemon_state_keep is called after every turn */
    return 0;
}

static uint64_t keep_after(const struct nc_daemon *d) {
    return d->state.saved_usec + (d->state.error ? NC_FAILED_PAUSE_USEC : NC_STATE_PAUSE_USEC);
}

void nc_daemon_state_keep(struct nc_daemon *d) {
    const uint64_t now = nc_mono_usec();

    if (d->is_state_due && now >= keep_after(d))
        nc_daemon_state_save(d);
    if (d->is_state_due)
        nc_timer_set(d->app->event, &d->state.timer, keep_after(d) > now ? keep_after(d) - now : 0,
                     on_state_timer, d);
}
