/*
 * `run`: the controller from its first line to its last.
 *
 * Only what a person got wrong ends it: options, a kubeconfig that cannot be used, an address that
 * is taken. Everything else is waited out. SIGTERM gives the Lease up, so that the standby leads at
 * once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "controller.h"
#include "log.h"
#include "nc/clock.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/version.h"
#include "process.h"

#define CHECK_USEC 10000000u
#define PUBLISH_USEC 5000000u
#define FILES_CHECKS 6u /* every so many checks the files that were read are compared */
#define RELEASE_USEC 2000000u

/* --- the end */

static void on_released(void *userdata) {
    struct nc_controller *c = userdata;

    (void)sd_event_exit(c->event, 0);
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
    struct nc_controller *c = userdata;

    c->signal = (int)si->ssi_signo;
    if (c->is_stopping || !c->leader)
        return sd_event_exit(c->event, 0);
    c->is_stopping = true;
    nc_notify("STOPPING=1");
    nc_leader_release(c->leader, RELEASE_USEC, on_released, c);
    return 0;
}

static int add_signals(struct nc_controller *c) {
    static const int signals[] = {SIGTERM, SIGINT};
    sigset_t set;
    int r = 0;

    (void)signal(SIGHUP, SIG_IGN); /* there is nothing to read again: the files are watched */
    (void)sigemptyset(&set);
    for (size_t i = 0; i < NC_ARRAY_SIZE(signals); i++)
        (void)sigaddset(&set, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < NC_ARRAY_SIZE(signals) && r >= 0; i++)
        r = sd_event_add_signal(c->event, NULL, signals[i], on_stop, c);
    return r;
}

/* --- now and then */

/* Roots and kubeconfigs are replaced: everything is opened again with the new ones. The Lease is
 * ours still, by name. */
static void reconnect(struct nc_controller *c) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_api_config api_config = {0};

    if (c->is_stopping || !nc_api_config_is_stale(c->settings, &c->api_config))
        return;
    nc_log(NC_LOG_INFO, NULL, "API credentials changed, reconnecting");
    if (nc_api_config_open(c->event, c->settings, &api_config, &err) < 0) {
        nc_controller_failed(c, NC_TROUBLE_CREDENTIALS, 0, &err);
        nc_api_config_close(&api_config);
        return;
    }
    nc_controller_succeeded(c, NC_TROUBLE_CREDENTIALS, 0);
    nc_controller_close(c);
    nc_api_config_close(&c->api_config);
    c->api_config = api_config;
    if (nc_controller_open(c, &err) < 0)
        nc_controller_failed(c, NC_TROUBLE_CREDENTIALS, 0, &err);
}

static uint64_t check_interval(void) {
    const uint64_t watchdog = nc_notify_watchdog_usec();

    return watchdog ? watchdog / 3 : CHECK_USEC;
}

/* That the loop turns is shown by being here. */
static int on_check(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_controller *c = userdata;
    const bool was_stuck = c->is_stuck;

    c->is_stuck = nc_controller_is_late(c);
    if (!c->is_stuck)
        nc_notify("WATCHDOG=1");
    else if (!was_stuck)
        nc_log(NC_LOG_ERROR, NULL, "a step is stuck: waiting to be restarted");
    if (++c->checks % FILES_CHECKS == 0)
        reconnect(c);
    (void)sd_event_source_set_time_relative(source, check_interval());
    return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int on_publish(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_controller *c = userdata;

    nc_controller_notice_lead(c);
    nc_controller_check_mode(c);
    nc_controller_check_boots(c);
    nc_controller_publish(c);
    (void)sd_event_source_set_time_relative(source, PUBLISH_USEC);
    return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int add_timers(struct nc_controller *c) {
    int r = sd_event_add_time_relative(c->event, &c->check_timer, CLOCK_MONOTONIC, check_interval(),
                                       1000000, on_check, c);

    if (r >= 0)
        r = sd_event_add_time_relative(c->event, &c->publish_timer, CLOCK_MONOTONIC,
                                       PUBLISH_USEC / 5, 1000000, on_publish, c);
    return r;
}

/* --- the beginning */

/* As client-go names its processes: who reads the Lease finds the pod. */
static char *make_identity(const struct nc_settings *s) {
    char host[65] = "";
    uint64_t random = 0;

    if (s->identity)
        return nc_strdup(s->identity);
    if (gethostname(host, sizeof(host) - 1) < 0 || !*host)
        nc_copy_text(host, sizeof(host), "unknown");
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        random = nc_now_usec() ^ (uint64_t)getpid() << 48;
    return nc_asprintf("%s_%016llx", host, (unsigned long long)random);
}

static int open_loop(struct nc_controller *c, struct nc_err *err) {
    int r = sd_event_new(&c->event);

    if (r >= 0)
        r = add_signals(c);
    if (r >= 0)
        r = add_timers(c);
    return r < 0 ? nc_err_host(err, r, "event loop") : 0;
}

static int set_up(struct nc_controller *c, struct nc_err *err) {
    int r = open_loop(c, err);

    if (r >= 0)
        r = nc_api_config_open(c->event, c->settings, &c->api_config, err);
    if (r >= 0)
        r = nc_controller_listen(c, err);
    if (r >= 0)
        r = nc_controller_open(c, err);
    return r;
}

static void tear_down(struct nc_controller *c) {
    nc_controller_close(c);
    nc_api_config_close(&c->api_config);
    nc_listener_free(c->listener);
    sd_event_source_disable_unref(c->check_timer);
    sd_event_source_disable_unref(c->publish_timer);
    sd_event_unref(c->event);
    free(c->identity);
    free(c->status_line);
    nc_buf_done(&c->metrics);
}

int nc_controller_run(const struct nc_settings *s) {
    nc_cleanup(tear_down) struct nc_controller c = {.settings = s, .started_usec = nc_now_usec()};
    struct nc_err err = NC_ERR_INIT;
    int r;

    c.identity = make_identity(s);
    nc_log(NC_LOG_INFO, NULL, NC_CONTROLLER " starts, version %s, as %s", nc_version, c.identity);
    r = set_up(&c, &err);
    if (r < 0)
        return nc_process_fail(s->command, &err);
    nc_notify("READY=1");
    r = sd_event_loop(c.event);
    if (r < 0) {
        (void)nc_err_host(&err, r, "event loop");
        return nc_process_fail(s->command, &err);
    }
    nc_log(NC_LOG_INFO, NULL, "stopped by %s", sigabbrev_np(c.signal));
    return 0;
}
