/*
 * The command line: one table of commands, one table of options. Help is printed from the same
 * tables.
 */
#include <limits.h>
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
    ACCEPTS_STRICT = 1 << 3,
    ACCEPTS_OUTPUT = 1 << 4,
    ACCEPTS_METRICS = 1 << 5,
    ACCEPTS_CLUSTER = 1 << 6,
    ACCEPTS_BOOTSTRAP = 1 << 7,
    ACCEPTS_VERSION = 1 << 8,
    ACCEPTS_DRAIN = 1 << 9,
    ACCEPTS_WAIT = 1 << 10,
    ACCEPTS_SVG = 1 << 11,
    ACCEPTS_IMAGE = 1 << 12,
};

static const struct command {
    const char *name;
    int (*run)(struct nc_app *app);
    unsigned accepts;
    const char *arguments;
    int most_arguments;
    const char *help;
} commands[] = {
    {"bootstrap", nc_command_bootstrap, ACCEPTS_SOURCES | ACCEPTS_BOOTSTRAP | ACCEPTS_VERSION, "",
     0, "facts, plan, files, kubelet running, node registered: once"},
    {"render", nc_command_render, ACCEPTS_SOURCES | ACCEPTS_FACTS | ACCEPTS_OUT | ACCEPTS_VERSION,
     "", 0, "writes the tree that bootstrap would write, anywhere"},
    {"check", nc_command_check, ACCEPTS_STRICT | ACCEPTS_OUTPUT, " FILE-or-URL...", INT_MAX,
     "validates configuration documents, and shows where they are wrong"},
    {"explain", nc_command_explain,
     ACCEPTS_SOURCES | ACCEPTS_FACTS | ACCEPTS_OUTPUT | ACCEPTS_VERSION, " [FIELD]", 1,
     "where each final value came from, and what it overrode"},
    {"preflight", nc_command_preflight, ACCEPTS_OUTPUT | ACCEPTS_IMAGE, "", 0,
     "tries everything that a bootstrap needs: each line ok or failed, with a remedy"},
    {"run", nc_command_run, ACCEPTS_SOURCES, "", 0,
     "the daemon: observes interruption notices, drains in order, reports its progress"},
    {"drain", nc_command_drain, ACCEPTS_DRAIN | ACCEPTS_WAIT | ACCEPTS_OUTPUT, "", 0,
     "asks the daemon to cordon and drain this node"},
    {"undrain", nc_command_undrain, ACCEPTS_WAIT | ACCEPTS_OUTPUT, "", 0,
     "withdraws the drain request"},
    {"status", nc_command_status, ACCEPTS_OUTPUT | ACCEPTS_METRICS, "", 0,
     "what the node is doing"},
    {"timeline", nc_command_timeline, ACCEPTS_SVG | ACCEPTS_OUTPUT, "", 0,
     "the boot and the drain, phase by phase"},
    {"token", nc_command_token, ACCEPTS_CLUSTER, "", 0,
     "prints the ExecCredential that kubelet requests"},
    {"version", nc_command_version, ACCEPTS_OUTPUT, "", 0, "version and libraries"},
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
    OPT_OUTPUT,
    OPT_METRICS,
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
     "records the facts, so that they can be replayed anywhere"},
    {"kubelet-version", "vX.Y.Z", OPT_KUBELET_VERSION, ACCEPTS_VERSION,
     "instead of the one that is installed"},
    {"out", "DIR", OPT_OUT, ACCEPTS_OUT, "where the tree is written"},
    {"skip", "start", OPT_SKIP, ACCEPTS_BOOTSTRAP, "stop after the files"},
    {"start", "systemd|exec|none", OPT_START, ACCEPTS_BOOTSTRAP, "how kubelet is started"},
    {"timeout", "DURATION", OPT_TIMEOUT, ACCEPTS_BOOTSTRAP, "when to give up, 15m by default"},
    {"kubelet-log", "FILE", OPT_KUBELET_LOG, ACCEPTS_BOOTSTRAP,
     "where kubelet's output goes with --start exec"},
    {"strict", NULL, OPT_STRICT, ACCEPTS_STRICT, "unknown fields are errors"},
    {"output", "text|json", OPT_OUTPUT, ACCEPTS_OUTPUT, "also -o"},
    {"metrics", NULL, OPT_METRICS, ACCEPTS_METRICS, "Prometheus text"},
    {"cluster", "NAME", OPT_CLUSTER, ACCEPTS_CLUSTER, "the EKS cluster"},
    {"region", "REGION", OPT_REGION, ACCEPTS_CLUSTER, "instead of the instance's own"},
    {"sts-endpoint", "URL", OPT_STS_ENDPOINT, ACCEPTS_CLUSTER, "instead of the region's own"},
    {"dry-run", NULL, OPT_DRY_RUN, ACCEPTS_DRAIN,
     "prints what would be done and when; touches nothing, needs no daemon"},
    {"mode", "graceful|cordon|deadline", OPT_MODE, ACCEPTS_DRAIN,
     "how far to go; default graceful"},
    {"deadline", "DURATION-or-TIME", OPT_DEADLINE, ACCEPTS_DRAIN,
     "5m, or RFC 3339: when the machine goes; implies --mode deadline"},
    {"reason", "TEXT", OPT_REASON, ACCEPTS_DRAIN, "shown in Events and in status"},
    {"wait", NULL, OPT_WAIT, ACCEPTS_WAIT, "follows it to its end"},
    {"svg", "FILE", OPT_SVG, ACCEPTS_SVG, "draws it instead; - is standard output"},
    {"image", "ROOT", OPT_IMAGE, ACCEPTS_IMAGE,
     "checks the files of an image's root file system instead of this machine"},
    {"imds", "URL", OPT_IMDS, 0,
     "endpoint of the instance metadata service (AWS_EC2_METADATA_SERVICE_ENDPOINT)"},
    {"kubeconfig", "FILE", OPT_KUBECONFIG, 0, "default " NC_KUBECONFIG},
    {"node-name", "NAME", OPT_NODE_NAME, 0, "instead of the one that the instance gives"},
    {"root", "DIR", OPT_ROOT, 0,
     "the machine's own files are below DIR; what another option names is not"},
    {"log-format", "text|json|journal", OPT_LOG_FORMAT, 0,
     "default: journal below systemd, else text"},
    {"log-level", "LEVEL", OPT_LOG_LEVEL, 0, "error, warning, info or debug"},
    {"help", NULL, OPT_HELP, 0, "this text"},
};

static void print_usage(FILE *to) {
    (void)fprintf(to, "usage: nodeclaimd COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < NC_ARRAY_SIZE(commands); i++)
        (void)fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    (void)fprintf(
        to,
        "\n`nodeclaimd COMMAND --help` lists a command's options; the manual is nodeclaimd(8).\n");
}

static void print_help(const struct command *c, const struct nc_command_line *line) {
    (void)printf("usage: nodeclaimd %s [OPTION...]%s\n\n%s\n\n", c->name, c->arguments, c->help);
    nc_options_print(line);
}

/* Where an option goes that is taken as it is; NULL where it is checked. */
static const char **text_of(struct nc_options *o, int id) {
    const struct {
        enum option_id id;
        const char **text;
    } texts[] = {
        {OPT_IMDS, &o->imds},
        {OPT_KUBECONFIG, &o->kubeconfig},
        {OPT_NODE_NAME, &o->node_name},
        {OPT_ROOT, &o->root},
        {OPT_FACTS, &o->facts},
        {OPT_SAVE_FACTS, &o->save_facts},
        {OPT_KUBELET_VERSION, &o->kubelet_version},
        {OPT_OUT, &o->out},
        {OPT_SKIP, &o->skip},
        {OPT_START, &o->start},
        {OPT_KUBELET_LOG, &o->kubelet_log},
        {OPT_CLUSTER, &o->cluster},
        {OPT_REGION, &o->region},
        {OPT_STS_ENDPOINT, &o->sts_endpoint},
        {OPT_MODE, &o->mode},
        {OPT_DEADLINE, &o->deadline},
        {OPT_REASON, &o->reason},
        {OPT_SVG, &o->svg},
        {OPT_IMAGE, &o->image},
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++)
        if ((int)texts[i].id == id)
            return texts[i].text;
    return NULL;
}

/* NULL, or what is wrong with the value. */
static const char *judge_option(struct nc_options *o, int id, const char *value) {
    switch (id) {
    case OPT_LOG_FORMAT:
        return nc_log_set_format(value) < 0 ? "--log-format is text, json or journal, not" : NULL;
    case OPT_LOG_LEVEL:
        return nc_log_set_level(value) < 0 ? "--log-level is error, warning, info or debug, not"
                                           : NULL;
    case OPT_SKIP:
        return nc_streq(value, "start") ? NULL
                                        : "--skip is start, nothing else can be skipped, not";
    case OPT_START:
        return nc_streq(value, "systemd") || nc_streq(value, "exec") || nc_streq(value, "none")
                   ? NULL
                   : "--start is systemd, exec or none, not";
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
        return o->json || nc_streq(value, "text") ? NULL : "--output is text or json, not";
    case OPT_MODE:
        return nc_streq(value, "graceful") || nc_streq(value, "cordon")
                       || nc_streq(value, "deadline")
                   ? NULL
                   : "--mode is graceful, cordon or deadline, not";
    case OPT_SOURCE:
        nc_strv_add(&o->sources, value);
        break;
    case OPT_STRICT:
        o->strict = true;
        break;
    case OPT_METRICS:
        o->metrics = true;
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

static int run(struct nc_app *app, const struct command *c, int argc, char **argv) {
    const struct nc_command_line line = {.command = c->name,
                                         .accepts = c->accepts,
                                         .flags = flags,
                                         .n_flags = NC_ARRAY_SIZE(flags),
                                         .output = c->accepts & ACCEPTS_OUTPUT ? OPT_OUTPUT : 0,
                                         .help = OPT_HELP,
                                         .on_option = parse_agent_option,
                                         .userdata = app};
    int rest;

    switch (nc_options_parse(&line, argc, argv, &rest)) {
    case NC_OPTIONS_HELP:
        print_help(c, &line);
        return 0;
    case NC_OPTIONS_WRONG:
        return NC_EXIT_USAGE;
    }
    app->opts.args = argv + rest;
    app->opts.n_args = argc - rest;
    if (app->opts.n_args > c->most_arguments)
        return nc_options_wrong(
            c->name, c->most_arguments ? "takes one argument, not also" : "takes no argument, not",
            app->opts.args[c->most_arguments]);
    nc_http_set_program("nodeclaimd", c->name);
    return c->run(app);
}

static int dispatch(struct nc_app *app, int argc, char **argv) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(commands); i++)
        if (nc_streq(app->opts.command, commands[i].name))
            return run(app, &commands[i], argc - 1, argv + 1);
    (void)fprintf(stderr, "nodeclaimd: unknown command: %s\n", argv[1]);
    print_usage(stderr);
    return NC_EXIT_USAGE;
}

int nc_cli(int argc, char **argv) {
    nc_cleanup(nc_app_done) struct nc_app app = {
        .opts = {.root = "", .imds = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")}};

    int code;

    if (app.opts.imds && !*app.opts.imds)
        app.opts.imds = NULL;
    if (argc < 2 || nc_streq(argv[1], "--help") || nc_streq(argv[1], "-h")
        || nc_streq(argv[1], "help")) {
        print_usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? NC_EXIT_USAGE : 0;
    }
    app.opts.command = nc_streq(argv[1], "--version") ? "version" : argv[1];
    nc_process_be_no_core();
    code = dispatch(&app, argc, argv);
    return nc_process_flush(app.opts.command, code);
}
