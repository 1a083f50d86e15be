/*
 * `status` and `version`. A running controller is asked at its metrics address, from the same pod
 * or host: `kubectl exec` and a login work alike, and nothing is written to a disk that a pod has
 * not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller.h"
#include "nc/http.h"
#include "nc/mem.h"
#include "process.h"

#define REQUEST_USEC 5000000u
#define MAX_LINE 480
#define MAX_BYTES ((size_t)64 << 20)
#define MAX_VALUES 1500000u /* 100,000 Nodes with eleven fields each, and what counts itself */

/* Where it listens everywhere, it is asked here. Owned. */
static char *url_of(const struct nc_settings *s) {
    union nc_address a;
    socklen_t n;

    if (nc_address_parse(s->metrics_address, &a, &n, NULL) < 0)
        return NULL;
    if (a.any.sa_family == AF_INET && a.v4.sin_addr.s_addr == htonl(INADDR_ANY))
        return nc_asprintf("http://127.0.0.1:%u", ntohs(a.v4.sin_port));
    if (a.any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&a.v6.sin6_addr))
        return nc_asprintf("http://[::1]:%u", ntohs(a.v6.sin6_port));
    return nc_asprintf("http://%s", s->metrics_address);
}

static int judge(const struct nc_http_answer *answer, const char *url, struct nc_err *err) {
    int r = 0;

    if (answer->result.outcome != NC_HTTP_ANSWERED || answer->result.status != 200)
        r = nc_http_error(&answer->result, url, err);
    if (r < 0)
        nc_err_remedy(err, "is a controller running here? In a pod: kubectl -n " NC_LEASE_NAMESPACE
                           " exec deploy/" NC_CONTROLLER " -- " NC_CONTROLLER
                           " status; and --metrics-address must be the one that it was given");
    return r;
}

static int request_status(const struct nc_settings *s, const char *path, struct nc_http_answer *ret,
                          struct nc_err *err) {
    nc_auto_free char *base = url_of(s);
    nc_auto_free char *url = nc_asprintf("%s%s", base, path);
    sd_event *event = NULL;
    struct nc_http *http = NULL;
    int signal = 0;
    const struct nc_http_options o = {.name = url,
                                      .url = url,
                                      .timeout_usec = REQUEST_USEC,
                                      .max_body_bytes = MAX_BYTES,
                                      .no_proxy = true};
    int r = nc_loop_open(&event, &signal, err);

    if (r >= 0)
        r = nc_http_new(event, 1, &http, err);
    if (r >= 0)
        r = nc_http_perform(http, &o, ret, err);
    if (r >= 0)
        r = judge(ret, url, err);
    nc_http_free(http);
    sd_event_unref(event);
    return r;
}

/* --- for people: what comes back is checked as if it were anybody's */

static void add_text(struct nc_buf *out, const char *name, const char *text) {
    if (!text)
        return;
    (void)nc_buf_printf(out, "%-12s ", name);
    for (size_t i = 0; text[i] && i < MAX_LINE; i++)
        (void)nc_buf_putc(out, text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    (void)nc_buf_puts(out, strlen(text) > MAX_LINE ? "...\n" : "\n");
}

static void add_line(struct nc_buf *out, const char *name, const struct nc_value *map,
                     const char *key) {
    add_text(out, name, nc_value_get_string(map, key));
}

static void add_trouble(struct nc_buf *out, const struct nc_value *list) {
    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        add_text(out, i ? "" : "trouble", nc_value_string(list->items[i]));
}

static void add_count(struct nc_buf *out, const struct nc_value *counts, const char *key,
                      const char *what) {
    const struct nc_value *v = nc_value_get(counts, key);

    if (v && v->type == NC_VALUE_INT)
        (void)nc_buf_printf(out, "%s%lld %s", out->data[out->len - 1] == ' ' ? "" : ", ",
                            (long long)v->integer, what);
}

static void format(const struct nc_value *status, size_t room, struct nc_buf *out) {
    const struct nc_value *us = nc_value_get(status, "controller");
    const struct nc_value *counts = nc_value_get(status, "counts");
    const struct nc_value *leads = nc_value_get(us, "leads");

    add_line(out, "controller", us, "identity");
    add_line(out, "version", us, "version");
    add_line(out, "cluster", us, "activeMode");
    (void)nc_buf_printf(out, "%-12s %s\n", "role",
                        leads && leads->type == NC_VALUE_BOOL && leads->boolean ? "leader"
                                                                                : "standby");
    add_line(out, "lease", us, "holder");
    add_line(out, "started", us, "started");
    add_line(out, "waiting", us, "waitsFor");
    add_trouble(out, nc_value_get(us, "trouble"));
    add_line(out, "zone turn", us, "zoneTurn");
    (void)nc_buf_printf(out, "%-12s ", "sees");
    add_count(out, counts, "nodes", "nodes");
    add_count(out, counts, "nodeClaims", "claims");
    add_count(out, counts, "relaying", "relays");
    add_count(out, counts, "draining", "drains");
    add_count(out, counts, "withoutNode", "claims without a Node");
    add_count(out, counts, "waiting", "waiting");
    (void)nc_buf_puts(out, "\n\n");
    nc_control_text(nc_value_get(status, "nodes"), room, out);
    nc_control_text_claims(nc_value_get(status, "nodeClaimsWithoutNode"), room, out);
    nc_control_text_overhead(nc_value_get(status, "memory"), room, out);
}

static int print_text(const struct nc_http_answer *answer, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    nc_auto_value struct nc_value *status = NULL;
    const int r =
        nc_json_parse_large(answer->result.body, answer->result.n, MAX_VALUES, &status, err);

    if (r < 0) {
        nc_err_wrap(err, "its answer");
        return r;
    }
    format(status, nc_terminal_of(STDOUT_FILENO).columns, &out);
    nc_terminal_print(stdout, out.data);
    return 0;
}

int nc_controller_status(const struct nc_settings *s) {
    nc_cleanup(nc_http_answer_done) struct nc_http_answer answer = {0};
    struct nc_err err = NC_ERR_INIT;
    int r = request_status(s, s->metrics ? "/metrics" : "/status", &answer, &err);

    if (r >= 0 && (s->metrics || s->json))
        (void)fwrite(answer.result.body, 1, answer.result.n, stdout);
    else if (r >= 0)
        r = print_text(&answer, &err);
    return r < 0 ? nc_process_fail(s->command, &err) : 0;
}

int nc_controller_version(const struct nc_settings *s) {
    return nc_version_print(NC_CONTROLLER, s->json);
}
