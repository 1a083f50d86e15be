/*
 * The command line: one table of commands, one table of options. Help is printed from the same
 * tables.
 */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "gather.h"
#include "log.h"
#include "nc/facts.h"
#include "nc/http.h"
#include "nc/str.h"
#include "options.h"

/* Which options a command takes, beside those that all take. */
enum {
    ACCEPTS_SOURCES = 1 << 0,
    ACCEPTS_FACTS = 1 << 1,
    ACCEPTS_OUT = 1 << 2,
    ACCEPTS_CHECK = 1 << 3,
    ACCEPTS_OUTPUT = 1 << 4,
    ACCEPTS_STATUS = 1 << 5,
    ACCEPTS_CLUSTER = 1 << 6,
    ACCEPTS_BOOTSTRAP = 1 << 7,
    ACCEPTS_VERSION = 1 << 8,
    ACCEPTS_DRAIN = 1 << 9,
    ACCEPTS_WAIT = 1 << 10,
    ACCEPTS_SVG = 1 << 11,
    ACCEPTS_IMAGE = 1 << 12,
};

static const struct nc_command commands[] = {
    {"bootstrap", ACCEPTS_SOURCES | ACCEPTS_BOOTSTRAP | ACCEPTS_VERSION, 0, NULL,
     "makes this machine a node, once, and says why when it cannot", nc_command_bootstrap},
    {"render", ACCEPTS_SOURCES | ACCEPTS_FACTS | ACCEPTS_OUT | ACCEPTS_VERSION, 0, NULL,
     "writes the tree that bootstrap would write, anywhere", nc_command_render},
    {"check", ACCEPTS_CHECK | ACCEPTS_OUTPUT | ACCEPTS_VERSION, INT_MAX, " FILE-or-URL...",
     "validates configuration documents, and shows where they are wrong; - is stdin",
     nc_command_check},
    {"explain", ACCEPTS_SOURCES | ACCEPTS_FACTS | ACCEPTS_OUTPUT | ACCEPTS_VERSION, 1, " [FIELD]",
     "where each final value came from, and what it overrode", nc_command_explain},
    {"preflight", ACCEPTS_OUTPUT | ACCEPTS_IMAGE, 0, NULL,
     "tries everything that a bootstrap needs: each line ok or failed, with a remedy",
     nc_command_preflight},
    {"run", ACCEPTS_SOURCES, 0, NULL,
     "the daemon: observes interruption notices, drains in order, reports its progress",
     nc_command_run},
    {"drain", ACCEPTS_DRAIN | ACCEPTS_WAIT | ACCEPTS_OUTPUT, 0, NULL,
     "asks the daemon to cordon and drain this node", nc_command_drain},
    {"undrain", ACCEPTS_WAIT | ACCEPTS_OUTPUT, 0, NULL, "withdraws the drain request",
     nc_command_undrain},
    {"status", ACCEPTS_OUTPUT | ACCEPTS_STATUS, 0, NULL, "what the node is doing",
     nc_command_status},
    {"timeline", ACCEPTS_SVG | ACCEPTS_OUTPUT, 0, NULL, "the boot and the drain, phase by phase",
     nc_command_timeline},
    {"token", ACCEPTS_CLUSTER, 0, NULL, "prints the ExecCredential that kubelet requests",
     nc_command_token},
    {"version", ACCEPTS_OUTPUT, 0, NULL, "version and libraries", nc_command_version},
};

#define INTO(ctype, member) .to = NC_OPTION_TO(ctype, struct nc_options, member)
#define TEXT(member) .type = NC_OPTION_TEXT, INTO(const char *, member)
#define ANY_TEXT(member) .type = NC_OPTION_ANY_TEXT, INTO(const char *, member)
#define SWITCH(member) .type = NC_OPTION_SWITCH, INTO(bool, member)
#define OWN(function) .type = NC_OPTION_OWN, .parse = (function)

static const struct nc_option options[] = {
    {"source", "URL-or-PATH", ACCEPTS_SOURCES,
     "imds://user-data, a file or a folder; may be repeated, later wins", .type = NC_OPTION_LIST,
     INTO(struct nc_strv, sources), .check = nc_is_source,
     .wanted = "a path, imds://user-data or file:///PATH"},
    {"facts", "DIR-or-URL", ACCEPTS_FACTS, "recorded facts, or the IMDS to query", TEXT(facts)},
    {"save-facts", "DIR", ACCEPTS_FACTS, "records the facts, to replay them anywhere",
     TEXT(save_facts)},
    {"kubelet-version", "vX.Y.Z", ACCEPTS_VERSION, "instead of the one that is installed",
     TEXT(kubelet_version), .check = nc_is_kubelet_version, .wanted = NC_KUBELET_VERSION_WANTED},
    {"containerd-version", "vX.Y.Z", ACCEPTS_CHECK, "the same for containerd",
     TEXT(containerd_version), .check = nc_is_containerd_version, .wanted = "X.Y.Z such as 2.1.4"},
    {"out", "DIR", ACCEPTS_OUT, "where the tree is written", TEXT(out)},
    {"skip", "start", ACCEPTS_BOOTSTRAP, "stop after the files", TEXT(skip)},
    {"start", "systemd|exec|none", ACCEPTS_BOOTSTRAP, "how kubelet is started", TEXT(start)},
    {"timeout", "DURATION", ACCEPTS_BOOTSTRAP, "when to give up, 15m by default",
     .type = NC_OPTION_DURATION, INTO(uint64_t, timeout_usec), .least = "1us",
     .wanted = "a duration such as 90s or 15m"},
    {"kubelet-log", "FILE", ACCEPTS_BOOTSTRAP, "where kubelet's output goes with --start exec",
     TEXT(kubelet_log)},
    {"strict", NULL, ACCEPTS_CHECK, "each warning is an error", SWITCH(strict)},
    {"fragment", NULL, ACCEPTS_CHECK, "judges each field of a document by itself",
     SWITCH(fragment)},
    {"output", "text|json", ACCEPTS_OUTPUT, "also -o", SWITCH(json), .letter = 'o'},
    {"metrics", NULL, ACCEPTS_STATUS, "Prometheus text", SWITCH(metrics)},
    {"watch", NULL, ACCEPTS_STATUS, "again at each change", SWITCH(watch)},
    {"cluster", "NAME", ACCEPTS_CLUSTER, "the EKS cluster", TEXT(cluster)},
    {"region", "REGION", ACCEPTS_CLUSTER, "instead of the instance's own", TEXT(region)},
    {"sts-endpoint", "URL", ACCEPTS_CLUSTER, "instead of the region's own", TEXT(sts_endpoint)},
    {"dry-run", NULL, ACCEPTS_DRAIN, "prints what would be done, and when; touches nothing",
     SWITCH(dry_run)},
    {"mode", "graceful|cordon|deadline", ACCEPTS_DRAIN, "how far to go; default graceful",
     TEXT(mode)},
    {"deadline", "DURATION-or-TIME", ACCEPTS_DRAIN,
     "5m, or RFC 3339: when the machine goes; implies --mode deadline", TEXT(deadline)},
    {"cut-grace", NULL, ACCEPTS_DRAIN,
     "allows a deadline that leaves pods less than their grace period", SWITCH(cut_grace)},
    {"reason", "TEXT", ACCEPTS_DRAIN, "shown in Events and in status", TEXT(reason)},
    {"wait", NULL, ACCEPTS_WAIT, "follows it to its end", SWITCH(wait)},
    {"svg", "FILE", ACCEPTS_SVG, "draws it instead; - is standard output", TEXT(svg)},
    {"image", "ROOT", ACCEPTS_IMAGE, "checks an image's root file system instead", TEXT(image)},
    {"imds", "URL", 0,
     "endpoint of the instance metadata service (AWS_EC2_METADATA_SERVICE_ENDPOINT)",
     ANY_TEXT(imds)},
    {"kubeconfig", "FILE", 0, "default " NC_KUBECONFIG, TEXT(kubeconfig)},
    {"node-name", "NAME", 0, "instead of the one that the instance gives", TEXT(node_name)},
    {"root", "DIR", 0, "below which the machine's own files are; not what options name",
     ANY_TEXT(root)},
    {"log-format", "text|json|journal", 0, "default: journal below systemd, else text",
     OWN(nc_option_log_format)},
    {"log-level", "error|warning|info|debug", 0, "default info", OWN(nc_option_log_level)},
    {"help", NULL, 0, "this text", .letter = 'h'},
};

static const struct nc_option_table table = {.usage = "COMMAND [OPTION...]",
                                             .commands = commands,
                                             .n_commands = NC_ARRAY_SIZE(commands),
                                             .options = options,
                                             .n_options = NC_ARRAY_SIZE(options)};

static int dispatch(struct nc_app *app, int argc, char **argv) {
    const struct nc_command_line line = {.table = &table,
                                         .command = nc_options_command(&table, app->opts.command),
                                         .to = &app->opts};
    int rest;

    if (!line.command)
        return NC_EXIT_USAGE;
    switch (nc_options_parse(&line, argc, argv, &rest)) {
    case NC_OPTIONS_HELP:
        return 0;
    case NC_OPTIONS_WRONG:
        return NC_EXIT_USAGE;
    }
    app->opts.args = argv + rest;
    app->opts.n_args = argc - rest;
    nc_http_set_program("nodeclaimd", line.command->name);
    return line.command->run(app);
}

int nc_cli(int argc, char **argv) {
    nc_cleanup(nc_app_done) struct nc_app app = {
        .opts = {.root = "", .imds = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")}};
    const bool wants_help = argc > 1 && nc_is_one_of(argv[1], "--help\0-h\0help\0");
    int code;

    if (app.opts.imds && !*app.opts.imds)
        app.opts.imds = NULL;
    if (wants_help && argc > 2) { /* of a command */
        argv[1] = argv[2];
        argv[2] = (char *)"--help";
        argc = 3;
    } else if (argc < 2 || wants_help) {
        nc_options_usage(&table, argc < 2 ? stderr : stdout);
        return argc < 2 ? NC_EXIT_USAGE : 0;
    }
    app.opts.command = nc_streq(argv[1], "--version") ? "version" : argv[1];
    nc_process_be_no_core();
    code = dispatch(&app, argc - 1, argv + 1);
    return nc_process_flush(app.opts.command, code);
}
