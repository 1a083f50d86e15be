/*
 * The process: its name, its loop and the signals that end it, its last word.
 */
#include "process.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "log.h"
#include "nc/clock.h"
#include "nc/mem.h"

#define TIMER_ACCURACY_USEC 1000u

void nc_process_be_no_core(void) {
#ifndef __SANITIZE_ADDRESS__ /* whose search for leaks traces the process itself */
    (void)prctl(PR_SET_DUMPABLE, 0);
#endif
}

/* What keeps a program from starting may come from anywhere, and be as short as a system call's. */
static const char *remedy_of(const struct nc_err *err) {
    if (err->class != NC_ERR_HOST)
        return NULL;
    switch (-err->code) {
    case EMFILE:
    case ENFILE:
        return NC_REMEDY_OPEN_FILES;
    case ENOMEM:
    case ENOBUFS:
        return "give it more memory (MemoryMax=, the limit of the container)";
    case EADDRINUSE:
        return "see who has the address (ss -ltnp), or choose another one";
    case EACCES:
    case EPERM:
        return "allow it: ports below 1024 need CAP_NET_BIND_SERVICE, files their owner";
    default:
        return NULL;
    }
}

int nc_process_fail(const char *command, const struct nc_err *err) {
    const char *remedy = *err->remedy ? err->remedy : remedy_of(err);

    (void)fprintf(stderr, "%s %s: %s\n", nc_program(), command, err->msg);
    if (remedy)
        (void)fprintf(stderr, "remedy: %s\n", remedy);
    return nc_err_exit_code(err->class);
}

int nc_process_flush(const char *command, int code) {
    if (fflush(stdout) == 0 || code != 0)
        return code;
    (void)fprintf(stderr, "%s %s: stdout: %s\n", nc_program(), command, strerror(errno));
    return nc_err_exit_code(NC_ERR_HOST);
}

/* --- the loop */

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
    int *signal = userdata;

    *signal = (int)si->ssi_signo;
    /* Whoever waits in the loop for an answer sees that it is to end, and gives up at once. */
    return sd_event_exit(sd_event_source_get_event(source), 0);
}

int nc_loop_open(sd_event **event, int *signal, struct nc_err *err) {
    static const int signals[] = {SIGTERM, SIGINT};
    sigset_t set;
    int r;

    if (*event)
        return 0;
    r = sd_event_new(event);
    if (r < 0)
        return nc_err_host(err, r, "event loop");
    (void)sigemptyset(&set);
    for (size_t i = 0; i < NC_ARRAY_SIZE(signals); i++)
        (void)sigaddset(&set, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < NC_ARRAY_SIZE(signals); i++) {
        sd_event_source *source = NULL;

        r = sd_event_add_signal(*event, &source, signals[i], on_signal, signal);
        if (r >= 0) /* before the timer of a pause that ends in the same turn: it is read already,
                       and no wait outside of the loop would see it any more */
            r = sd_event_source_set_priority(source, SD_EVENT_PRIORITY_IMPORTANT);
        if (r >= 0)
            r = sd_event_source_set_floating(source, true);
        sd_event_source_unref(source);
        if (r < 0)
            return nc_err_host(err, r, "event loop: signal %d", signals[i]);
    }
    return 0;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
    bool *over = userdata;

    *over = true;
    return 0;
}

int nc_loop_pause(sd_event *event, const int *signal, uint64_t usec) {
    sd_event_source *timer = NULL;
    bool over = false;
    int r = sd_event_add_time_relative(event, &timer, CLOCK_MONOTONIC, usec, 1, on_time, &over);

    while (r >= 0 && !over && !*signal)
        r = sd_event_run(event, UINT64_MAX);
    sd_event_source_unref(timer);
    return *signal ? -EINTR : r < 0 ? r : 0; /* a loop that has ended says -ESTALE */
}

void nc_timer_set_at(sd_event *event, sd_event_source **timer, uint64_t mono_usec,
                     sd_event_time_handler_t fn, void *userdata) {
    int r;

    if (!*timer) {
        r = sd_event_add_time(event, timer, CLOCK_MONOTONIC, mono_usec, TIMER_ACCURACY_USEC, fn,
                              userdata);
    } else {
        r = sd_event_source_set_time(*timer, mono_usec);
        if (r >= 0)
            r = sd_event_source_set_enabled(*timer, SD_EVENT_ONESHOT);
    }
    if (r < 0)
        nc_log(NC_LOG_ERROR, NULL, "event loop: timer: %s", strerror(-r));
}

void nc_timer_set(sd_event *event, sd_event_source **timer, uint64_t usec,
                  sd_event_time_handler_t fn, void *userdata) {
    nc_timer_set_at(event, timer, nc_mono_usec() + usec, fn, userdata);
}
