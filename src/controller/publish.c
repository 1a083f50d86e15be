/*
 * What the controller tells: metrics, health, its view of the nodes; a line for systemctl.
 *
 * Names of nodes and what blocks their drains are not for everybody on the network: /status answers
 * this machine, or this pod, alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "controller.h"
#include "log.h"
#include "nc/clock.h"
#include "nc/file.h"
#include "nc/prometheus.h"
#include "nc/str.h"
#include "nc/version.h"
#include "process.h"

#define METRICS_SHARE 10u /* metrics take one part in so many of the time at most */
#define COUNT_PUBLISHES 6 /* the line for people is at most so many times PUBLISH_USEC old */

/* --- status */

static struct nc_value *about_trouble(const struct nc_controller *c) {
    struct nc_value *list = nc_value_new_list();

    for (int i = 0; i < _NC_TROUBLE_MAX; i++) {
        const struct nc_err *err = nc_controller_trouble(c, (enum nc_trouble)i);
        if (!err)
            continue;
        const char *remedy = nc_controller_remedy(c, err);
        nc_auto_free char *text = nc_asprintf("%s%s%s", err->msg, *remedy ? "; " : "", remedy);
        nc_value_push_string(list, text);
    }
    return list;
}

static struct nc_value *about_us(const struct nc_controller *c) {
    struct nc_value *map = nc_value_new_map();

    nc_value_set_string(map, "version", nc_version);
    nc_value_set_string(map, "identity", c->identity);
    nc_value_set_string(map, "mode",
                        c->settings->mode == NC_CONTROL_MODE_UNKNOWN
                            ? "auto"
                            : nc_control_mode_name(c->settings->mode));
    nc_value_set_string(map, "activeMode", nc_control_mode_name(c->mode));
    nc_value_set_bool(map, "leads", c->leads);
    nc_value_set_text(map, "holder", c->leader ? nc_leader_holder(c->leader) : NULL);
    nc_value_set_time(map, "started", c->started_usec);
    nc_value_set_text(map, "waitsFor",
                      nc_controller_waits_for(c) ? nc_controller_waits_for(c)
                      : c->control               ? nc_control_doubts(c->control)
                                                 : NULL);
    nc_value_set(map, "trouble", about_trouble(c));
    if (c->settings->rules.zone_turn_usec)
        nc_value_set_text(map, "zoneTurn", c->control ? nc_control_zone_turn(c->control) : NULL);
    return map;
}

static struct nc_value *about_counts(const struct nc_controller *c) {
    struct nc_control_counts n;
    struct nc_value *map = nc_value_new_map();

    if (!c->control)
        return map;
    nc_control_count(c->control, nc_controller_now(c), &n);
    nc_value_set_int(map, "nodes", (int64_t)n.objects[NC_CONTROL_NODE]);
    nc_value_set_int(map, "nodeClaims", (int64_t)n.objects[NC_CONTROL_CLAIM]);
    nc_value_set_int(map, "nodePools", (int64_t)n.objects[NC_CONTROL_POOL]);
    nc_value_set_int(map, "relaying", (int64_t)n.relaying);
    nc_value_set_int(map, "draining", (int64_t)n.draining);
    nc_value_set_int(map, "withoutNode", (int64_t)n.without_node);
    nc_value_set_int(map, "waiting", (int64_t)n.waiting);
    nc_value_set_int(map, "inFlight", (int64_t)n.in_flight);
    nc_value_set_int(map, "relayed", (int64_t)nc_histogram_count(&n.relays));
    return map;
}

static void write_status(const struct nc_controller *c, struct nc_buf *out) {
    nc_auto_value struct nc_value *map = nc_value_new_map();

    nc_value_set_int(map, "schema", 1);
    nc_value_set(map, "controller", about_us(c));
    nc_value_set(map, "counts", about_counts(c));
    nc_value_set(map, "nodes",
                 c->control ? nc_control_report(c->control, nc_controller_now(c))
                            : nc_value_new_list());
    nc_value_set(map, "nodeClaimsWithoutNode",
                 c->control ? nc_control_report_claims(c->control) : nc_value_new_list());
    nc_value_set(map, "memory",
                 c->control ? nc_control_report_overhead(c->control) : nc_value_new_list());
    nc_json_write(out, map, 0);
    (void)nc_buf_putc(out, '\n');
}

/* --- metrics */

static uint64_t resident_bytes(void) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    unsigned long size, resident;

    if (nc_file_read("/proc/self/statm", 256, &text, NULL) < 0
        || sscanf(text.data, "%lu %lu", &size, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int64_t cpu_usec(void) {
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) < 0)
        return 0;
    return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec
           + u.ru_stime.tv_usec;
}

/* The names that every client library of Prometheus uses. */
static void write_process_metrics(const struct nc_controller *c, struct nc_buf *out) {
    struct nc_metrics m = {.out = out, .prefix = "process_"};

    nc_metric_one(&m, "resident_memory_bytes", NC_GAUGE, "Resident memory size.", resident_bytes());
    nc_metric_family(&m, "cpu_seconds_total", NC_COUNTER, "User and system CPU time.");
    nc_metric_usec(&m, NULL, cpu_usec());
    nc_metric_family(&m, "start_time_seconds", NC_GAUGE, "Unix time at which the process started.");
    nc_metric_usec(&m, NULL, (int64_t)c->started_usec);
}

static void write_metrics(const struct nc_controller *c, struct nc_buf *out) {
    struct nc_metrics m = {.out = out, .prefix = "nodeclaim_controller_"};

    if (c->control)
        nc_control_metrics(c->control, nc_controller_now(c), out);
    nc_metric_family(&m, "build_info", NC_GAUGE, "Version of the program, as a label; always 1.");
    nc_metric_count_by(&m, "version", nc_version, 1);
    nc_metric_one(&m, "synced", NC_GAUGE, "Whether all lists are complete.",
                  nc_controller_is_synced(c));
    nc_metric_one(&m, "elections_total", NC_COUNTER, "Times this process became the leader.",
                  c->led);
    nc_metric_one(&m, "api_failures_total", NC_COUNTER,
                  "Requests to the API server, watches included, that failed.", c->failures);
    nc_metric_one(&m, "relists_total", NC_COUNTER, "Lists that had to be read again.", c->relists);
    nc_metric_one(&m, "events_sent_total", NC_COUNTER, "Events sent.", c->events_sent);
    nc_metric_one(&m, "rate_limited_events_total", NC_COUNTER,
                  "Events logged but not sent because there were too many.", c->events_held);
    write_process_metrics(c, out);
}

/* Anybody may ask, as often as he likes, and they walk all objects: what cost much is given again
 * for a while, or relays and probes would wait for it. */
static void answer_metrics(struct nc_controller *c, struct nc_buf *out) {
    const int64_t before_usec = cpu_usec();

    if (nc_mono_usec() >= c->metrics_until_usec) {
        nc_buf_done(&c->metrics);
        write_metrics(c, &c->metrics);
        c->metrics_until_usec =
            nc_mono_usec() + (METRICS_SHARE - 1) * (uint64_t)(cpu_usec() - before_usec);
    }
    (void)nc_buf_add(out, c->metrics.data, c->metrics.len);
}

/* --- questions */

static void answer_health(const struct nc_controller *c, struct nc_listener_answer *ret) {
    ret->status = c->is_stuck ? 503 : 200;
    (void)nc_buf_puts(&ret->body, c->is_stuck ? "stuck\n" : "ok\n");
}

static void answer_ready(const struct nc_controller *c, struct nc_listener_answer *ret) {
    const char *waits_for = c->is_stopping ? "stopping" : nc_controller_waits_for(c);

    ret->status = waits_for ? 503 : 200;
    (void)nc_buf_printf(&ret->body, "%s\n", waits_for ? waits_for : "ok");
}

static void answer(void *userdata, const char *path, bool is_local,
                   struct nc_listener_answer *ret) {
    struct nc_controller *c = userdata;

    if (nc_streq(path, "/metrics")) {
        ret->status = 200;
        ret->type = "text/plain; version=0.0.4; charset=utf-8";
        answer_metrics(c, &ret->body);
    } else if (nc_streq(path, "/healthz")) {
        answer_health(c, ret);
    } else if (nc_streq(path, "/readyz")) {
        answer_ready(c, ret);
    } else if (nc_streq(path, "/status") && is_local) {
        ret->status = 200;
        ret->type = "application/json";
        write_status(c, &ret->body);
    } else if (nc_streq(path, "/status")) {
        ret->status = 403;
    }
}

int nc_controller_listen(struct nc_controller *c, struct nc_err *err) {
    if (!c->settings->metrics_address)
        return 0;
    return nc_listener_new(c->event,
                           &(struct nc_listener_options){.address = c->settings->metrics_address,
                                                         .node_address = c->settings->node_address,
                                                         .answer = answer,
                                                         .userdata = c},
                           &c->listener, err);
}

/* --- a line for people */

/* Counting walks all objects: not for a manager that does not listen, nor every few seconds. */
static bool is_counting(struct nc_controller *c) {
    const char *manager = getenv("NOTIFY_SOCKET");

    return manager && *manager && c->publishes++ % COUNT_PUBLISHES == 0;
}

static const char *doubts(const struct nc_controller *c) {
    return c->control && nc_controller_is_synced(c) ? nc_control_doubts(c->control) : NULL;
}

static void log_doubts(struct nc_controller *c) {
    const char *now = doubts(c);

    if (now && now != c->doubts)
        nc_log(NC_LOG_WARNING, NULL, "%s", now);
    c->doubts = now;
}

void nc_controller_publish(struct nc_controller *c) {
    struct nc_control_counts n = {0};
    const char *waits_for = nc_controller_waits_for(c);
    nc_auto_free char *line = NULL;

    nc_controller_forget_failures(c);
    log_doubts(c);
    if (!waits_for && !is_counting(c))
        return;
    if (c->control && !waits_for)
        nc_control_count(c->control, nc_controller_now(c), &n);
    line = waits_for
               ? nc_asprintf("STATUS=%s", waits_for)
               : nc_asprintf("STATUS=%s, %s: %zu nodes, %zu claims, %zu relays, %zu drains",
                             c->leads ? "leads" : "stands by",
                             c->mode == NC_CONTROL_STANDALONE ? "standalone" : "beside Karpenter",
                             n.objects[NC_CONTROL_NODE], n.objects[NC_CONTROL_CLAIM], n.relaying,
                             n.draining);
    if (nc_streq(line, c->status_line))
        return;
    nc_notify(line);
    free(c->status_line);
    c->status_line = nc_steal(&line);
}
