/*
 * The command line of the controller: one table of commands, one of options.
 */
#include "settings.h"

#include <stdio.h>

#include "listener.h"
#include "nc/ec2.h"
#include "nc/lease.h"
#include "nc/str.h"
#include "options.h"
#include "process.h"

#include "log.h"

enum {
    ACCEPTS_RUN = 1 << 0,
    ACCEPTS_OUTPUT = 1 << 1,
    ACCEPTS_METRICS = 1 << 2,
    ACCEPTS_ADDRESS = 1 << 3
};

static const struct nc_command commands[] = {
    {"run", ACCEPTS_RUN | ACCEPTS_ADDRESS, 0, NULL,
     "watches Nodes and NodeClaims, relays deadlines, runs the leader election (default)", NULL},
    {"status", ACCEPTS_OUTPUT | ACCEPTS_METRICS | ACCEPTS_ADDRESS, 0, NULL,
     "state of the running controller, read from its metrics address", NULL},
    {"version", ACCEPTS_OUTPUT, 0, NULL, "version and libraries", NULL},
};

/* --- values */

#define NAMESPACE "the name of a namespace"

static const char *parse_mode(const struct nc_option *o, void *to, const char *value) {
    *(enum nc_control_mode *)to = nc_streq(value, "auto")        ? NC_CONTROL_MODE_UNKNOWN
                                  : nc_streq(value, "karpenter") ? NC_CONTROL_KARPENTER
                                                                 : NC_CONTROL_STANDALONE;
    return NULL;
}

static const char *parse_order(const struct nc_option *o, void *to, const char *value) {
    *(enum nc_control_order *)to =
        nc_streq(value, "both") ? NC_CONTROL_BOTH : NC_CONTROL_DELETE_FIRST;
    return NULL;
}

static const char *parse_node_identity(const struct nc_option *o, void *to, const char *value) {
    *(enum nc_control_identity *)to =
        nc_streq(value, "ec2") ? NC_CONTROL_IDENTITY_EC2 : NC_CONTROL_IDENTITY_ADMISSION;
    return NULL;
}

static const char *parse_max_in_flight(const struct nc_option *o, void *to, const char *value) {
    uint64_t n;

    if (nc_parse_u64(value, &n) < 0 || n < 4 || n > 1024)
        return nc_option_wrong(o, "a number from 4 to 1024");
    *(unsigned *)to = (unsigned)n;
    return NULL;
}

static const char *parse_metrics_address(const struct nc_option *o, void *to, const char *value) {
    const bool is_off = nc_streq(value, "off");
    union nc_address a;
    socklen_t n;

    *(const char **)to = is_off ? NULL : value;
    return is_off || nc_address_parse(value, &a, &n, NULL) >= 0
               ? NULL
               : nc_option_wrong(o, "a numeric address and a port (127.0.0.1:8080, [::1]:8080) or "
                                    "off");
}

/* A DNS label, or a DNS name with `dots`: it goes into a path. */
static bool is_name(const char *s, bool dots) {
    const size_t n = strspn(s, dots ? "abcdefghijklmnopqrstuvwxyz0123456789-."
                                    : "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && n <= (dots ? 253u : 63u) && s[n] == '\0' && s[0] != '-' && s[0] != '.'
           && s[n - 1] != '-' && s[n - 1] != '.';
}

static bool is_label(const char *s) {
    return is_name(s, false);
}

static bool is_dns_name(const char *s) {
    return is_name(s, true);
}

static const char *parse_endpoint(const struct nc_option *o, void *to, const char *value) {
    *(const char **)to = value;
    return nc_starts_with(value, "https://") || nc_starts_with(value, "http://")
               ? NULL
               : "an endpoint is https://HOST[:PORT], not";
}

static const char *check_namespace(const struct nc_option *o, const char *value) {
    return is_label(value) ? NULL : nc_option_wrong(o, NAMESPACE);
}

static const char *add_karpenter_namespace(const struct nc_option *o, void *to, const char *value) {
    const char **namespaces = ((struct nc_settings *)to)->karpenter_namespaces;
    size_t n = 0;

    while (namespaces[n])
        n++;
    if (n == NC_KARPENTER_NAMESPACES_MAX)
        return "--karpenter-namespace is given at most 8 times, so not for";
    namespaces[n] = value;
    return check_namespace(o, value);
}

/* Twice the same is once. */
static const char *add_replacement_namespace(const struct nc_option *o, void *to,
                                             const char *value) {
    struct nc_settings *s = to;
    size_t n = 0;

    for (; s->replacement_namespaces[n]; n++)
        if (nc_streq(s->replacement_namespaces[n], value))
            return NULL;
    if (n == NC_REPLACEMENT_NAMESPACES_MAX)
        return "--replacement-first is given at most 32 times, so not for";
    s->rules.replaces = true;
    s->replacement_namespaces[n] = value;
    return check_namespace(o, value);
}

static const char *parse_identity(const struct nc_option *o, void *to, const char *value) {
    const size_t n = strlen(value);

    *(const char **)to = value;
    if (!nc_is_visible(value, n))
        return nc_option_wrong(o, "printable and without spaces");
    return n > 0 && n <= 200 ? NULL : nc_option_wrong(o, "1 to 200 characters long");
}

/* --- the options */

#define INTO(ctype, member) .to = NC_OPTION_TO(ctype, struct nc_settings, member)
#define OWN(function) .type = NC_OPTION_OWN, .parse = (function)
#define SWITCH(member) .type = NC_OPTION_SWITCH, INTO(bool, member)
#define TEXT(member) .type = NC_OPTION_ANY_TEXT, INTO(const char *, member)
#define CHECKED(member, is_right, words) TEXT(member), .check = (is_right), .wanted = (words)
#define ENDPOINT(member) OWN(parse_endpoint), INTO(const char *, member)
#define DURATION(member) .type = NC_OPTION_DURATION, INTO(uint64_t, member)
#define FROM(low, high) .least = (low), .most = (high), .wanted = "a duration from " low " to " high
#define UP_TO(high) .most = (high), .wanted = "a duration of at most " high

static const struct nc_option options[] = {
    {"kubeconfig", "FILE", ACCEPTS_RUN,
     "default: the pod's own ServiceAccount, else $KUBECONFIG; ~/.kube is not read",
     TEXT(kubeconfig)},
    {"mode", "auto|karpenter|standalone", ACCEPTS_RUN,
     "who manages NodeClaims; auto checks the Lease of Karpenter", OWN(parse_mode),
     INTO(enum nc_control_mode, mode)},
    {"karpenter-namespace", "NAME", ACCEPTS_RUN,
     "where its Lease is; may be given several times; kube-system and karpenter",
     OWN(add_karpenter_namespace)},
    {"order", "both|delete-first", ACCEPTS_RUN,
     "of a relay: the deadline, then DELETE; or DELETE at once and the deadline later",
     OWN(parse_order), INTO(enum nc_control_order, rules.order)},
    {"margin", "DURATION", ACCEPTS_RUN,
     "how much earlier than the end of the machine the termination timestamp is, where two minutes "
     "are left; 15s",
     DURATION(rules.margin_usec), UP_TO("10m")},
    {"timestamp-after", "DURATION", ACCEPTS_RUN,
     "with delete-first: how much later the deadline follows; 5s",
     DURATION(rules.timestamp_after_usec), UP_TO("10m")},
    {"stamp-after", "DURATION", ACCEPTS_RUN, NULL, DURATION(rules.timestamp_after_usec),
     UP_TO("10m")},
    {"max-in-flight", "N", ACCEPTS_RUN, "writes in flight at once; 64", OWN(parse_max_in_flight),
     INTO(unsigned, rules.max_in_flight)},
    {"replacement-first", "NAMESPACE", ACCEPTS_RUN,
     "pods that ask for it are replaced before a drain evicts them; may be given several times",
     OWN(add_replacement_namespace)},
    {"rebalance", "ignore|drain", ACCEPTS_RUN,
     "standalone: is a rebalance recommendation a reason to replace a node? ignore",
     SWITCH(rules.rebalances)},
    {"terminate", NULL, ACCEPTS_RUN,
     "standalone: terminates instances through EC2, once they are drained or their deadline has "
     "passed",
     SWITCH(rules.terminates)},
    {"node-identity", "ec2|admission", ACCEPTS_RUN,
     "standalone: what proves which Node is a NodeClaim's: EC2, or an admission policy; ec2",
     OWN(parse_node_identity), INTO(enum nc_control_identity, rules.identity)},
    {"ending-ceiling", "DURATION", ACCEPTS_RUN,
     "standalone: a drain without a deadline that no agent answers is over then; 0 = never; 24h",
     DURATION(rules.ceiling_usec), UP_TO("8760h")},
    {"zone-turn", "DURATION", ACCEPTS_RUN,
     "standalone: voluntary disruption in one zone at a time; while others wait, at most so long; "
     "1m to 24h; off",
     DURATION(rules.zone_turn_usec), FROM("1m", "24h")},
    {"complete-lifecycle-actions", NULL, ACCEPTS_RUN,
     "completes the lifecycle action of an Auto Scaling group once the node is drained",
     SWITCH(rules.completes_actions)},
    {"lifecycle-hook", "NAME", ACCEPTS_RUN,
     "the terminating hook of these groups; default " NC_LIFECYCLE_HOOK,
     CHECKED(lifecycle_hook, nc_autoscaling_is_hook, "1 to 255 letters, digits, '-', '_' and '/'")},
    {"out-of-service-taint", NULL, ACCEPTS_RUN,
     "sets the taint node.kubernetes.io/out-of-service where EC2 reports that the instance of an "
     "unreachable node is terminated",
     SWITCH(rules.out_of_service)},
    {"after-reboot", "taint|leave", ACCEPTS_RUN,
     "is the taint nodeclaimd.io/unfit put back, until the node is fit once more? taint",
     SWITCH(rules.no_taint_after_reboot)},
    {"region", "REGION", ACCEPTS_RUN,
     "of EC2; default $AWS_REGION, else that of the instance's zone",
     CHECKED(region, is_label, "a region such as us-west-2")},
    {"ec2-endpoint", "URL", ACCEPTS_RUN, "instead of the region's own", ENDPOINT(ec2_endpoint)},
    {"autoscaling-endpoint", "URL", ACCEPTS_RUN, "instead of the region's own",
     ENDPOINT(autoscaling_endpoint)},
    {"sts-endpoint", "URL", ACCEPTS_RUN, "instead of the region's own", ENDPOINT(sts_endpoint)},
    {"imds", "URL", ACCEPTS_RUN,
     "endpoint of the instance metadata service (AWS_EC2_METADATA_SERVICE_ENDPOINT)",
     ENDPOINT(imds)},
    {"lease-namespace", "NAME", ACCEPTS_RUN, "default: the pod's, else " NC_LEASE_NAMESPACE,
     CHECKED(lease_namespace, is_label, NAMESPACE)},
    {"lease-name", "NAME", ACCEPTS_RUN, "default " NC_CONTROLLER,
     CHECKED(lease_name, is_dns_name, "the name of a Lease")},
    {"identity", "NAME", ACCEPTS_RUN, "in the Lease; default HOST_ and a random string",
     OWN(parse_identity), INTO(const char *, identity)},
    {"no-leader-election", NULL, ACCEPTS_RUN, "leads at once; for one process only",
     SWITCH(no_leader_election)},
    {"lease-duration", "DURATION", ACCEPTS_RUN, "15s", DURATION(lease_duration_usec),
     FROM("1s", "1h")},
    {"renew-deadline", "DURATION", ACCEPTS_RUN, "10s", DURATION(renew_usec), FROM("1s", "1h")},
    {"retry-period", "DURATION", ACCEPTS_RUN, "2s", DURATION(retry_usec), UP_TO("10m")},
    {"metrics-address", "ADDRESS:PORT|off", ACCEPTS_ADDRESS,
     "/metrics, /healthz, /readyz, and /status for this machine; " NC_METRICS_ADDRESS,
     OWN(parse_metrics_address), INTO(const char *, metrics_address)},
    {"node-address", "ADDRESS", ACCEPTS_RUN,
     "of the node that this runs on, whose probes always have room; default $NODE_ADDRESS",
     TEXT(node_address)},
    {"output", "text|json", ACCEPTS_OUTPUT, "also -o", SWITCH(json), .letter = 'o'},
    {"metrics", NULL, ACCEPTS_METRICS, "Prometheus text", SWITCH(metrics)},
    {"log-format", "text|json|journal", 0,
     "default: journal below systemd, json in a pod, else text", OWN(nc_option_log_format)},
    {"log-level", "error|warning|info|debug", 0, "default info", OWN(nc_option_log_level)},
    {"help", NULL, 0, "this text", .letter = 'h'},
};

static const struct nc_option_table table = {.usage = "[COMMAND] [OPTION...]",
                                             .commands = commands,
                                             .n_commands = NC_ARRAY_SIZE(commands),
                                             .options = options,
                                             .n_options = NC_ARRAY_SIZE(options)};

/* --- what only shows when all of it is there; client-go has the first two rules too */

static const char *judge(const struct nc_settings *s) {
    if (s->renew_usec >= s->lease_duration_usec)
        return "--renew-deadline must be less than --lease-duration, or two would lead at once";
    if (s->retry_usec == 0 || s->retry_usec * 6 / 5 >= s->renew_usec)
        return "--retry-period must be more than nothing and less than five sixths of "
               "--renew-deadline";
    if (!s->standalone
        && (s->mode == NC_CONTROL_STANDALONE || s->rules.terminates || s->rules.zone_turn_usec))
        return "--mode standalone, --terminate and --zone-turn need a build with the standalone "
               "mode: this one was configured with --disable-standalone";
    if (s->rules.terminates && s->mode == NC_CONTROL_KARPENTER)
        return "--terminate has no meaning with --mode karpenter: Karpenter ends its instances "
               "itself";
    if (s->rules.zone_turn_usec && s->mode == NC_CONTROL_KARPENTER)
        return "--zone-turn has no meaning with --mode karpenter: Karpenter disrupts by itself, "
               "under the budgets of its NodePools";
    if (s->rules.completes_actions && !s->region) /* a node could name another one */
        return "--complete-lifecycle-actions needs the region of the groups: --region or "
               "$AWS_REGION";
    if (s->rules.out_of_service && !s->region)
        return "--out-of-service-taint needs --region or AWS_REGION: a node chooses the region in "
               "its provider ID";
    if (s->node_address && nc_host_parse(s->node_address, &(struct nc_host){{0}}) < 0)
        return "--node-address (NODE_ADDRESS) is a numeric address";
    if (nc_streq(s->command, "status") && !s->metrics_address)
        return "status reads from the metrics address of the controller: it cannot be off";
    return NULL;
}

static void set_defaults(struct nc_settings *s) {
    const char *imds = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *region = getenv("AWS_REGION");
    const char *pod = getenv("KUBERNETES_SERVICE_HOST");
    const char *node = getenv("NODE_ADDRESS");

    *s = (struct nc_settings){
        .rules = nc_control_defaults,
        .lease_name = NC_CONTROLLER,
        .lease_duration_usec = NC_LEASE_DURATION_USEC,
        .renew_usec = NC_LEASE_RENEW_USEC,
        .retry_usec = NC_LEASE_RETRY_USEC,
        .region = region && *region ? region : NULL,
        .imds = imds && *imds ? imds : NULL,
        .lifecycle_hook = NC_LIFECYCLE_HOOK,
        .metrics_address = NC_METRICS_ADDRESS,
        .node_address = node && *node ? node : NULL,
    };
    if (pod && *pod)
        (void)nc_log_set_format("json");
}

static bool is_help(const char *name) {
    return nc_is_one_of(name, "--help\0-h\0help\0");
}

int nc_settings_read(int argc, char **argv, const struct nc_standalone *standalone,
                     struct nc_settings *ret, int *ret_code) {
    const bool has_command = argc > 1 && argv[1][0] != '-';
    struct nc_command_line line = {.table = &table, .to = ret};
    const char *wrong;
    int rest, r;

    set_defaults(ret);
    ret->standalone = standalone;
    *ret_code = 0;
    if (argc > 1 && is_help(argv[1])) {
        nc_options_usage(&table, stdout);
        return NC_OPTIONS_HELP;
    }
    ret->command = has_command                                  ? argv[1]
                   : argc > 1 && nc_streq(argv[1], "--version") ? "version"
                                                                : "run";
    line.command = nc_options_command(&table, ret->command);
    if (!line.command) {
        *ret_code = NC_EXIT_USAGE;
        return NC_OPTIONS_WRONG;
    }
    /* getopt begins behind the command; without one, behind the program */
    r = has_command || nc_streq(ret->command, "version")
            ? nc_options_parse(&line, argc - 1, argv + 1, &rest)
            : nc_options_parse(&line, argc, argv, &rest);
    wrong = r == 0 ? judge(ret) : NULL;
    if (wrong)
        (void)nc_options_wrong(line.command->name, wrong, NULL);
    *ret_code = r == NC_OPTIONS_WRONG || wrong ? NC_EXIT_USAGE : 0;
    return wrong ? NC_OPTIONS_WRONG : r;
}
