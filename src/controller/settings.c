/*
 * The command line of the controller: one table of commands, one of options.
 */
#include "settings.h"

#include <stdio.h>

#include "listener.h"
#include "nc/autoscaling.h"
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

enum option_id {
    OPT_KUBECONFIG = NC_FLAG_FIRST,
    OPT_MODE,
    OPT_KARPENTER_NAMESPACE,
    OPT_ORDER,
    OPT_MARGIN,
    OPT_TIMESTAMP_AFTER,
    OPT_LEASE_NAMESPACE,
    OPT_LEASE_NAME,
    OPT_IDENTITY,
    OPT_NO_LEADER_ELECTION,
    OPT_LEASE_DURATION,
    OPT_RENEW_DEADLINE,
    OPT_RETRY_PERIOD,
    OPT_MAX_IN_FLIGHT,
    OPT_REPLACEMENT_FIRST,
    OPT_REBALANCE,
    OPT_TERMINATE,
    OPT_NODE_IDENTITY,
    OPT_ENDING_CEILING,
    OPT_ZONE_TURN,
    OPT_COMPLETE_LIFECYCLE_ACTIONS,
    OPT_LIFECYCLE_HOOK,
    OPT_OUT_OF_SERVICE,
    OPT_REGION,
    OPT_EC2_ENDPOINT,
    OPT_AUTOSCALING_ENDPOINT,
    OPT_STS_ENDPOINT,
    OPT_IMDS,
    OPT_METRICS_ADDRESS,
    OPT_OUTPUT,
    OPT_METRICS,
    OPT_LOG_FORMAT,
    OPT_LOG_LEVEL,
    OPT_HELP,
};

static const struct nc_flag flags[] = {
    {"kubeconfig", "FILE", OPT_KUBECONFIG, ACCEPTS_RUN,
     "default: the pod's own ServiceAccount, else $KUBECONFIG; ~/.kube is not read"},
    {"mode", "auto|karpenter|standalone", OPT_MODE, ACCEPTS_RUN,
     "who manages NodeClaims; auto checks the Lease of Karpenter"},
    {"mode", "alone", OPT_MODE, ACCEPTS_RUN, NULL},
    {"karpenter-namespace", "NAME", OPT_KARPENTER_NAMESPACE, ACCEPTS_RUN,
     "where its Lease is; may be given several times; kube-system and karpenter"},
    {"order", "both|delete-first", OPT_ORDER, ACCEPTS_RUN,
     "of a relay: the deadline, then DELETE; or DELETE at once and the deadline later"},
    {"margin", "DURATION", OPT_MARGIN, ACCEPTS_RUN,
     "how much earlier than the end of the machine the termination timestamp is; 15s"},
    {"timestamp-after", "DURATION", OPT_TIMESTAMP_AFTER, ACCEPTS_RUN,
     "with delete-first: how much later the deadline follows; 5s"},
    {"stamp-after", "DURATION", OPT_TIMESTAMP_AFTER, ACCEPTS_RUN, NULL},
    {"max-in-flight", "N", OPT_MAX_IN_FLIGHT, ACCEPTS_RUN, "writes in flight at once; 64"},
    {"replacement-first", "NAMESPACE", OPT_REPLACEMENT_FIRST, ACCEPTS_RUN,
     "pods that ask for it are replaced before a drain evicts them; may be given several times"},
    {"rebalance", "ignore|drain", OPT_REBALANCE, ACCEPTS_RUN,
     "standalone: is a rebalance recommendation a reason to replace a node? ignore"},
    {"terminate", NULL, OPT_TERMINATE, ACCEPTS_RUN,
     "standalone: terminates instances through EC2, once they are drained or their deadline has "
     "passed"},
    {"node-identity", "ec2|admission", OPT_NODE_IDENTITY, ACCEPTS_RUN,
     "standalone: what proves which Node is a NodeClaim's: EC2, or an admission policy; ec2"},
    {"ending-ceiling", "DURATION", OPT_ENDING_CEILING, ACCEPTS_RUN,
     "standalone: a drain without a deadline that no agent answers is over then; 0 = never; 24h"},
    {"zone-turn", "DURATION", OPT_ZONE_TURN, ACCEPTS_RUN,
     "standalone: voluntary disruption in one zone at a time; while others wait, at most so long; "
     "1m to 24h; off"},
    {"complete-lifecycle-actions", NULL, OPT_COMPLETE_LIFECYCLE_ACTIONS, ACCEPTS_RUN,
     "completes the lifecycle action of an Auto Scaling group once the node is drained"},
    {"lifecycle-hook", "NAME", OPT_LIFECYCLE_HOOK, ACCEPTS_RUN,
     "the terminating hook of these groups; default " NC_LIFECYCLE_HOOK},
    {"out-of-service-taint", NULL, OPT_OUT_OF_SERVICE, ACCEPTS_RUN,
     "sets the taint node.kubernetes.io/out-of-service where EC2 reports that the instance of an "
     "unreachable node is terminated"},
    {"region", "REGION", OPT_REGION, ACCEPTS_RUN,
     "of EC2; default $AWS_REGION, else that of the instance's zone"},
    {"ec2-endpoint", "URL", OPT_EC2_ENDPOINT, ACCEPTS_RUN, "instead of the region's own"},
    {"autoscaling-endpoint", "URL", OPT_AUTOSCALING_ENDPOINT, ACCEPTS_RUN,
     "instead of the region's own"},
    {"sts-endpoint", "URL", OPT_STS_ENDPOINT, ACCEPTS_RUN, "instead of the region's own"},
    {"imds", "URL", OPT_IMDS, ACCEPTS_RUN,
     "endpoint of the instance metadata service (AWS_EC2_METADATA_SERVICE_ENDPOINT)"},
    {"lease-namespace", "NAME", OPT_LEASE_NAMESPACE, ACCEPTS_RUN,
     "default: the pod's, else " NC_LEASE_NAMESPACE},
    {"lease-name", "NAME", OPT_LEASE_NAME, ACCEPTS_RUN, "default " NC_CONTROLLER},
    {"identity", "NAME", OPT_IDENTITY, ACCEPTS_RUN,
     "in the Lease; default HOST_ and a random string"},
    {"no-leader-election", NULL, OPT_NO_LEADER_ELECTION, ACCEPTS_RUN,
     "leads at once; for one process only"},
    {"lease-duration", "DURATION", OPT_LEASE_DURATION, ACCEPTS_RUN, "15s"},
    {"renew-deadline", "DURATION", OPT_RENEW_DEADLINE, ACCEPTS_RUN, "10s"},
    {"retry-period", "DURATION", OPT_RETRY_PERIOD, ACCEPTS_RUN, "2s"},
    {"metrics-address", "ADDRESS:PORT|off", OPT_METRICS_ADDRESS, ACCEPTS_ADDRESS,
     "/metrics, /healthz, /readyz, and /status for this machine; " NC_METRICS_ADDRESS},
    {"output", "text|json", OPT_OUTPUT, ACCEPTS_OUTPUT, "also -o"},
    {"metrics", NULL, OPT_METRICS, ACCEPTS_METRICS, "Prometheus text"},
    {"log-format", "text|json|journal", OPT_LOG_FORMAT, 0,
     "default: journal below systemd, json in a pod, else text"},
    {"log-level", "error|warning|info|debug", OPT_LOG_LEVEL, 0, "default info"},
    {"help", NULL, OPT_HELP, 0, "this text"},
};

static const struct nc_option_table table = {.usage = "[COMMAND] [OPTION...]",
                                             .commands = commands,
                                             .n_commands = NC_ARRAY_SIZE(commands),
                                             .flags = flags,
                                             .n_flags = NC_ARRAY_SIZE(flags),
                                             .output = OPT_OUTPUT,
                                             .help = OPT_HELP};

/* --- values */

static enum nc_control_mode mode_of(const char *value) {
    return nc_streq(value, "auto")        ? NC_CONTROL_MODE_UNKNOWN
           : nc_streq(value, "karpenter") ? NC_CONTROL_KARPENTER
                                          : NC_CONTROL_STANDALONE;
}

/* NULL, or `wrong`: the duration is none, or is not within least and most seconds. */
static const char *parse_duration_option(const char *value, uint64_t least, uint64_t most,
                                         uint64_t *ret_usec, const char *wrong) {
    uint64_t usec;

    if (nc_duration_parse(value, &usec) < 0 || usec < least * 1000000 || usec > most * 1000000)
        return wrong;
    *ret_usec = usec;
    return NULL;
}

static const char *parse_max_in_flight(struct nc_settings *s, const char *value) {
    uint64_t n;

    if (nc_parse_u64(value, &n) < 0 || n < 4 || n > 1024)
        return "--max-in-flight is a number from 4 to 1024, not";
    s->rules.max_in_flight = (unsigned)n;
    return NULL;
}

static const char *parse_metrics_address(struct nc_settings *s, const char *value) {
    union nc_address a;
    socklen_t n;

    s->metrics_address = nc_streq(value, "off") ? NULL : value;
    return !s->metrics_address || nc_address_parse(value, &a, &n, NULL) >= 0
               ? NULL
               : "--metrics-address is a numeric address and a port (127.0.0.1:8080, [::1]:8080) "
                 "or off, not";
}

/* A DNS label, or a DNS name with `dots`: it goes into a path. */
static bool is_name(const char *s, bool dots) {
    const size_t n = strspn(s, dots ? "abcdefghijklmnopqrstuvwxyz0123456789-."
                                    : "abcdefghijklmnopqrstuvwxyz0123456789-");

    return n > 0 && n <= (dots ? 253u : 63u) && s[n] == '\0' && s[0] != '-' && s[0] != '.'
           && s[n - 1] != '-' && s[n - 1] != '.';
}

static const char *parse_name_option(const char **to, const char *value, bool dots,
                                     const char *wrong) {
    *to = value;
    return is_name(value, dots) ? NULL : wrong;
}

static const char *parse_endpoint(const char **to, const char *value) {
    *to = value;
    return nc_starts_with(value, "https://") || nc_starts_with(value, "http://")
               ? NULL
               : "an endpoint is https://HOST[:PORT], not";
}

static const char *add_namespace(struct nc_settings *s, const char *value) {
    size_t n = 0;

    while (s->karpenter_namespaces[n])
        n++;
    if (n == NC_KARPENTER_NAMESPACES_MAX)
        return "--karpenter-namespace is given at most 8 times, so not for";
    return parse_name_option(&s->karpenter_namespaces[n], value, false,
                             "--karpenter-namespace is the name of a namespace, not");
}

/* Twice the same is once. */
static const char *add_replacement_namespace(struct nc_settings *s, const char *value) {
    size_t n = 0;

    for (; s->replacement_namespaces[n]; n++)
        if (nc_streq(s->replacement_namespaces[n], value))
            return NULL;
    if (n == NC_REPLACEMENT_NAMESPACES_MAX)
        return "--replacement-first is given at most 32 times, so not for";
    s->rules.replaces = true;
    return parse_name_option(&s->replacement_namespaces[n], value, false,
                             "--replacement-first is the name of a namespace, not");
}

static const char *parse_identity_option(struct nc_settings *s, const char *value) {
    const size_t n = strlen(value);

    s->identity = value;
    for (size_t i = 0; i < n; i++)
        if (value[i] <= ' ' || value[i] > '~')
            return "--identity is printable and without spaces, not";
    return n > 0 && n <= 200 ? NULL : "--identity is 1 to 200 characters long, not";
}

static const char *parse_lease_option(struct nc_settings *s, int id, const char *value) {
    switch (id) {
    case OPT_LEASE_NAMESPACE:
        return parse_name_option(&s->lease_namespace, value, false,
                                 "--lease-namespace is the name of a namespace, not");
    case OPT_LEASE_NAME:
        return parse_name_option(&s->lease_name, value, true,
                                 "--lease-name is the name of a Lease, not");
    case OPT_IDENTITY:
        return parse_identity_option(s, value);
    case OPT_LEASE_DURATION:
        return parse_duration_option(value, 1, 3600, &s->lease_duration_usec,
                                     "--lease-duration is a duration from 1s to 1h, not");
    case OPT_RENEW_DEADLINE:
        return parse_duration_option(value, 1, 3600, &s->renew_usec,
                                     "--renew-deadline is a duration from 1s to 1h, not");
    case OPT_RETRY_PERIOD:
        return parse_duration_option(value, 0, 600, &s->retry_usec,
                                     "--retry-period is a duration of at most 10m, not");
    }
    s->no_leader_election = true;
    return NULL;
}

static const char *parse_hook(struct nc_settings *s, const char *value) {
    s->lifecycle_hook = value;
    return nc_autoscaling_is_hook(value)
               ? NULL
               : "--lifecycle-hook is 1 to 255 letters, digits, '-', '_' and '/', not";
}

static const char *parse_aws_option(struct nc_settings *s, int id, const char *value) {
    switch (id) {
    case OPT_OUT_OF_SERVICE:
        s->rules.out_of_service = true;
        return NULL;
    case OPT_REGION:
        return parse_name_option(&s->region, value, false,
                                 "--region is a region such as us-west-2, not");
    case OPT_EC2_ENDPOINT:
        return parse_endpoint(&s->ec2_endpoint, value);
    case OPT_LIFECYCLE_HOOK:
        return parse_hook(s, value);
    case OPT_AUTOSCALING_ENDPOINT:
        return parse_endpoint(&s->autoscaling_endpoint, value);
    case OPT_STS_ENDPOINT:
        return parse_endpoint(&s->sts_endpoint, value);
    }
    return parse_endpoint(&s->imds, value);
}

static const char *parse_option(void *userdata, int id, const char *value) {
    struct nc_settings *s = userdata;

    switch ((enum option_id)id) {
    case OPT_KUBECONFIG:
        s->kubeconfig = value;
        return NULL;
    case OPT_MODE:
        s->mode = mode_of(value);
        return NULL;
    case OPT_KARPENTER_NAMESPACE:
        return add_namespace(s, value);
    case OPT_ORDER:
        s->rules.order = nc_streq(value, "both") ? NC_CONTROL_BOTH : NC_CONTROL_DELETE_FIRST;
        return NULL;
    case OPT_MARGIN:
        return parse_duration_option(value, 0, 600, &s->rules.margin_usec,
                                     "--margin is a duration of at most 10m, not");
    case OPT_TIMESTAMP_AFTER:
        return parse_duration_option(value, 0, 600, &s->rules.timestamp_after_usec,
                                     "--timestamp-after is a duration of at most 10m, not");
    case OPT_LEASE_NAMESPACE:
    case OPT_LEASE_NAME:
    case OPT_IDENTITY:
    case OPT_NO_LEADER_ELECTION:
    case OPT_LEASE_DURATION:
    case OPT_RENEW_DEADLINE:
    case OPT_RETRY_PERIOD:
        return parse_lease_option(s, id, value);
    case OPT_MAX_IN_FLIGHT:
        return parse_max_in_flight(s, value);
    case OPT_REPLACEMENT_FIRST:
        return add_replacement_namespace(s, value);
    case OPT_REBALANCE:
        s->rules.rebalances = nc_streq(value, "drain");
        return NULL;
    case OPT_TERMINATE:
        s->rules.terminates = true;
        return NULL;
    case OPT_NODE_IDENTITY:
        s->rules.identity =
            nc_streq(value, "ec2") ? NC_CONTROL_IDENTITY_EC2 : NC_CONTROL_IDENTITY_ADMISSION;
        return NULL;
    case OPT_ENDING_CEILING:
        return parse_duration_option(value, 0, 8760ull * 3600, &s->rules.ceiling_usec,
                                     "--ending-ceiling is a duration of at most 8760h, not");
    case OPT_ZONE_TURN:
        return parse_duration_option(value, 60, 24ull * 3600, &s->rules.zone_turn_usec,
                                     "--zone-turn is a duration from 1m to 24h, not");
    case OPT_COMPLETE_LIFECYCLE_ACTIONS:
        s->rules.completes_actions = true;
        return NULL;
    case OPT_LIFECYCLE_HOOK:
    case OPT_OUT_OF_SERVICE:
    case OPT_REGION:
    case OPT_EC2_ENDPOINT:
    case OPT_AUTOSCALING_ENDPOINT:
    case OPT_STS_ENDPOINT:
    case OPT_IMDS:
        return parse_aws_option(s, id, value);
    case OPT_METRICS_ADDRESS:
        return parse_metrics_address(s, value);
    case OPT_OUTPUT:
        s->json = nc_streq(value, "json");
        return NULL;
    case OPT_METRICS:
        s->metrics = true;
        return NULL;
    case OPT_LOG_FORMAT:
        (void)nc_log_set_format(value);
        return NULL;
    case OPT_LOG_LEVEL:
        (void)nc_log_set_level(value);
        return NULL;
    case OPT_HELP:
        break;
    }
    return NULL;
}

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
    if (nc_streq(s->command, "status") && !s->metrics_address)
        return "status reads from the metrics address of the controller: it cannot be off";
    return NULL;
}

static void set_defaults(struct nc_settings *s) {
    const char *imds = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *region = getenv("AWS_REGION");
    const char *pod = getenv("KUBERNETES_SERVICE_HOST");

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
    };
    if (pod && *pod)
        (void)nc_log_set_format("json");
}

static bool is_help(const char *name) {
    return nc_streq(name, "--help") || nc_streq(name, "-h") || nc_streq(name, "help");
}

int nc_settings_read(int argc, char **argv, const struct nc_standalone *standalone,
                     struct nc_settings *ret, int *ret_code) {
    const bool has_command = argc > 1 && argv[1][0] != '-';
    struct nc_command_line line = {.table = &table, .on_option = parse_option, .userdata = ret};
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
