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
     "facts, plan, files, kubelet running, node registered: once", nc_command_bootstrap},
    {"render", ACCEPTS_SOURCES | ACCEPTS_FACTS | ACCEPTS_OUT | ACCEPTS_VERSION, 0, NULL,
     "writes the tree that bootstrap would write, anywhere", nc_command_render},
    {"check", ACCEPTS_CHECK | ACCEPTS_OUTPUT, INT_MAX, " FILE-or-URL...",
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

enum option_id {
    OPT_IMDS = NC_FLAG_FIRST,
    OPT_KUBECONFIG,
    OPT_NODE_NAME,
    OPT_ROOT,
    OPT_LOG_FORMAT,
    OPT_LOG_LEVEL,
    OPT_SOURCE,
    OPT_FACTS,
    OPT_SAVE_FACTS,
    OPT_KUBELET_VERSION,
    OPT_OUT,
    OPT_SKIP,
    OPT_START,
    OPT_TIMEOUT,
    OPT_KUBELET_LOG,
    OPT_STRICT,
    OPT_FRAGMENT,
    OPT_OUTPUT,
    OPT_METRICS,
    OPT_WATCH,
    OPT_CLUSTER,
    OPT_REGION,
    OPT_STS_ENDPOINT,
    OPT_DRY_RUN,
    OPT_MODE,
    OPT_DEADLINE,
    OPT_REASON,
    OPT_WAIT,
    OPT_SVG,
    OPT_IMAGE,
    OPT_HELP,
};

static const struct nc_flag flags[] = {
    {"source", "URL", OPT_SOURCE, ACCEPTS_SOURCES,
     "imds://user-data or file:///PATH; may be repeated, later wins"},
    {"facts", "DIR-or-URL", OPT_FACTS, ACCEPTS_FACTS, "recorded facts, or the IMDS to query"},
    {"save-facts", "DIR", OPT_SAVE_FACTS, ACCEPTS_FACTS,
     "records the facts, to replay them anywhere"},
    {"kubelet-version", "vX.Y.Z", OPT_KUBELET_VERSION, ACCEPTS_VERSION,
     "instead of the one that is installed"},
    {"out", "DIR", OPT_OUT, ACCEPTS_OUT, "where the tree is written"},
    {"skip", "start", OPT_SKIP, ACCEPTS_BOOTSTRAP, "stop after the files"},
    {"start", "systemd|exec|none", OPT_START, ACCEPTS_BOOTSTRAP, "how kubelet is started"},
    {"timeout", "DURATION", OPT_TIMEOUT, ACCEPTS_BOOTSTRAP, "when to give up, 15m by default"},
    {"kubelet-log", "FILE", OPT_KUBELET_LOG, ACCEPTS_BOOTSTRAP,
     "where kubelet's output goes with --start exec"},
    {"strict", NULL, OPT_STRICT, ACCEPTS_CHECK, "unknown fields are errors"},
    {"fragment", NULL, OPT_FRAGMENT, ACCEPTS_CHECK, "judges each field by itself"},
    {"output", "text|json", OPT_OUTPUT, ACCEPTS_OUTPUT, "also -o"},
    {"metrics", NULL, OPT_METRICS, ACCEPTS_STATUS, "Prometheus text"},
    {"watch", NULL, OPT_WATCH, ACCEPTS_STATUS, "again at each change"},
    {"cluster", "NAME", OPT_CLUSTER, ACCEPTS_CLUSTER, "the EKS cluster"},
    {"region", "REGION", OPT_REGION, ACCEPTS_CLUSTER, "instead of the instance's own"},
    {"sts-endpoint", "URL", OPT_STS_ENDPOINT, ACCEPTS_CLUSTER, "instead of the region's own"},
    {"dry-run", NULL, OPT_DRY_RUN, ACCEPTS_DRAIN,
     "prints what would be done, and when; touches nothing"},
    {"mode", "graceful|cordon|deadline", OPT_MODE, ACCEPTS_DRAIN,
     "how far to go; default graceful"},
    {"deadline", "DURATION-or-TIME", OPT_DEADLINE, ACCEPTS_DRAIN,
     "5m, or RFC 3339: when the machine goes; implies --mode deadline"},
    {"reason", "TEXT", OPT_REASON, ACCEPTS_DRAIN, "shown in Events and in status"},
    {"wait", NULL, OPT_WAIT, ACCEPTS_WAIT, "follows it to its end"},
    {"svg", "FILE", OPT_SVG, ACCEPTS_SVG, "draws it instead; - is standard output"},
    {"image", "ROOT", OPT_IMAGE, ACCEPTS_IMAGE, "checks an image's root file system instead"},
    {"imds", "URL", OPT_IMDS, 0,
     "endpoint of the instance metadata service (AWS_EC2_METADATA_SERVICE_ENDPOINT)"},
    {"kubeconfig", "FILE", OPT_KUBECONFIG, 0, "default " NC_KUBECONFIG},
    {"node-name", "NAME", OPT_NODE_NAME, 0, "instead of the one that the instance gives"},
    {"root", "DIR", OPT_ROOT, 0, "below which the machine's own files are; not what options name"},
    {"log-format", "text|json|journal", OPT_LOG_FORMAT, 0,
     "default: journal below systemd, else text"},
    {"log-level", "error|warning|info|debug", OPT_LOG_LEVEL, 0, "default info"},
    {"help", NULL, OPT_HELP, 0, "this text"},
};

static const struct nc_option_table table = {.usage = "COMMAND [OPTION...]",
                                             .commands = commands,
                                             .n_commands = NC_ARRAY_SIZE(commands),
                                             .flags = flags,
                                             .n_flags = NC_ARRAY_SIZE(flags),
                                             .output = OPT_OUTPUT,
                                             .help = OPT_HELP};

/* Where an option goes that is taken as it is; NULL where it is checked, or does more. */
static const char **text_of(struct nc_options *o, int id) {
#define TEXT(id, member)                                                                           \
    { (id), (unsigned short)offsetof(struct nc_options, member) }
    static const struct {
        unsigned short id, at;
    } texts[] = {
        TEXT(OPT_IMDS, imds),
        TEXT(OPT_KUBECONFIG, kubeconfig),
        TEXT(OPT_NODE_NAME, node_name),
        TEXT(OPT_ROOT, root),
        TEXT(OPT_FACTS, facts),
        TEXT(OPT_SAVE_FACTS, save_facts),
        TEXT(OPT_KUBELET_VERSION, kubelet_version),
        TEXT(OPT_OUT, out),
        TEXT(OPT_SKIP, skip),
        TEXT(OPT_START, start),
        TEXT(OPT_KUBELET_LOG, kubelet_log),
        TEXT(OPT_CLUSTER, cluster),
        TEXT(OPT_REGION, region),
        TEXT(OPT_STS_ENDPOINT, sts_endpoint),
        TEXT(OPT_MODE, mode),
        TEXT(OPT_DEADLINE, deadline),
        TEXT(OPT_REASON, reason),
        TEXT(OPT_SVG, svg),
        TEXT(OPT_IMAGE, image),
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++)
        if (texts[i].id == id)
            return (const char **)(void *)((char *)o + texts[i].at);
    return NULL;
}

/* NULL, or what is wrong with the value. */
static const char *judge_option(struct nc_options *o, int id, const char *value) {
    switch (id) {
    case OPT_LOG_FORMAT:
        (void)nc_log_set_format(value);
        break;
    case OPT_LOG_LEVEL:
        (void)nc_log_set_level(value);
        break;
    case OPT_TIMEOUT:
        return nc_duration_parse(value, &o->timeout_usec) < 0 || o->timeout_usec == 0
                   ? "--timeout is a duration such as 90s or 15m, not"
                   : NULL;
    case OPT_KUBELET_VERSION:
        return nc_kubelet_version_parse(value, NULL, NULL) < 0
                   ? "--kubelet-version is MAJOR.MINOR.PATCH such as v1.34.4, not"
                   : NULL;
    case OPT_OUTPUT:
        o->json = nc_streq(value, "json");
        break;
    case OPT_SOURCE:
        nc_strv_add(&o->sources, value);
        break;
    case OPT_STRICT:
        o->strict = true;
        break;
    case OPT_FRAGMENT:
        o->fragment = true;
        break;
    case OPT_METRICS:
        o->metrics = true;
        break;
    case OPT_WATCH:
        o->watch = true;
        break;
    case OPT_DRY_RUN:
        o->dry_run = true;
        break;
    case OPT_WAIT:
        o->wait = true;
        break;
    }
    return NULL;
}

static const char *refuse_empty(int id) {
    static char text[64];

    for (size_t i = 0; i < NC_ARRAY_SIZE(flags); i++)
        if (flags[i].id == id)
            (void)snprintf(text, sizeof(text), "--%s has an empty value, %s is needed",
                           flags[i].name, flags[i].argument);
    return text;
}

static const char *parse_agent_option(void *userdata, int id, const char *value) {
    struct nc_app *app = userdata;
    const char **text = text_of(&app->opts, id);

    if (text && !*value && id != OPT_ROOT && id != OPT_IMDS)
        return refuse_empty(id);
    if (text)
        *text = value;
    return judge_option(&app->opts, id, value);
}

static int dispatch(struct nc_app *app, int argc, char **argv) {
    const struct nc_command_line line = {.table = &table,
                                         .command = nc_options_command(&table, app->opts.command),
                                         .on_option = parse_agent_option,
                                         .userdata = app};
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

    int code;

    if (app.opts.imds && !*app.opts.imds)
        app.opts.imds = NULL;
    if (argc < 2 || nc_streq(argv[1], "--help") || nc_streq(argv[1], "-h")
        || nc_streq(argv[1], "help")) {
        nc_options_usage(&table, argc < 2 ? stderr : stdout);
        return argc < 2 ? NC_EXIT_USAGE : 0;
    }
    app.opts.command = nc_streq(argv[1], "--version") ? "version" : argv[1];
    nc_process_be_no_core();
    code = dispatch(&app, argc - 1, argv + 1);
    return nc_process_flush(app.opts.command, code);
}
