/*
 * Why NodeClaims have no Node: the Events BootstrapFailed of their nodes, listed while there are
 * such claims, and not otherwise. A node that may not read its NodeClaim writes them about its
 * Node's name. Each replica does: each reports what it knows.
 */
#include <errno.h>
#include <malloc.h>

#include "controller.h"
#include "nc/clock.h"
#include "nc/names.h"
#include "nc/time.h"

#define EVENTS "/api/v1/namespaces/default/events"
#define EVENTS_MAX 10000u /* any node may write as many as it likes: the list keeps each name */
#define CROWD_USEC 300000000u
#define EVERY_USEC 30000000u  /* sooner than a failure is forgotten (health.c) */
#define VALUE_MAX_BYTES 4096u /* a message has 1,024 */
#define SELECTOR "fieldSelector=reason%3D" NC_EVENT_BOOTSTRAP_FAILED

static const char keep[] = "involvedObject.name\0involvedObject.uid\0reportingInstance\0message\0"
                           "lastTimestamp\0";

static void end_list(struct nc_controller *c) {
    c->boot_failures = nc_watch_free(c->boot_failures);
    (void)malloc_trim(0); /* as after each list */
}

/* What is said of those that were read stays. */
static void give_up(struct nc_controller *c) {
    struct nc_err err = NC_ERR_INIT;

    nc_err_set(
        &err, NC_ERR_TRANSIENT, E2BIG,
        "list events: more than %u are BootstrapFailed: the rest is not read, and a cause may "
        "be missing",
        EVENTS_MAX);
    nc_controller_failed(c, NC_TROUBLE_BOOT_FAILURES, 0, &err);
    c->boot_failures_usec = nc_mono_usec() + CROWD_USEC;
    end_list(c);
}

static void on_event(void *userdata, enum nc_watch_event what, const struct nc_value *object) {
    struct nc_controller *c = userdata;
    const struct nc_value *about = nc_value_get(object, "involvedObject");
    const char *when = nc_value_get_string(object, "lastTimestamp");
    struct nc_control_event e = {.kind = NC_CONTROL_BOOT_FAILURE,
                                 .name = nc_value_get_string(about, "name"),
                                 .uid = nc_value_get_string(about, "uid"),
                                 .provider_id = nc_value_get_string(object, "reportingInstance"),
                                 .message = nc_value_get_string(object, "message")};

    if (what == NC_WATCH_SYNCED) {
        nc_controller_succeeded(c, NC_TROUBLE_BOOT_FAILURES, 0);
        end_list(c);
    } else if (++c->n_boot_failures > EVENTS_MAX)
        give_up(c);
    else if (when && nc_time_parse(when, &e.at_usec) >= 0)
        nc_controller_post(c, &e);
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    nc_controller_failed(userdata, NC_TROUBLE_BOOT_FAILURES, 0, err);
    end_list(userdata);
}

void nc_controller_check_boots(struct nc_controller *c) {
    const struct nc_watch_options o = {.path = EVENTS,
                                       .selector = SELECTOR,
                                       .keep = keep,
                                       .max_value_bytes = VALUE_MAX_BYTES,
                                       .event = on_event,
                                       .failed = on_failed,
                                       .userdata = c};
    struct nc_err err = NC_ERR_INIT;

    if (c->boot_failures || nc_mono_usec() < c->boot_failures_usec || !nc_controller_is_synced(c))
        return;
    c->boot_failures_usec = nc_mono_usec() + EVERY_USEC;
    c->n_boot_failures = 0;
    if (nc_control_awaits_causes(c->control, nc_controller_now(c))
        && nc_watch_new(c->api_config.kube, c->event, &o, &c->boot_failures, &err) < 0)
        nc_controller_failed(c, NC_TROUBLE_BOOT_FAILURES, 0, &err);
}
