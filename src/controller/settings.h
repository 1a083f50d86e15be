/*
 * What the command line says, checked; where it reports nothing, the defaults.
 */
#ifndef NC_SETTINGS_H
#define NC_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/control.h"
#include "nc/err.h"
#include "nc/kube-control.h"
#include "nc/replacement.h"

#define NC_CONTROLLER "nodeclaim-controller"
#define NC_METRICS_ADDRESS "127.0.0.1:8080"
#define NC_LEASE_NAMESPACE "kube-system"
#define NC_LIFECYCLE_HOOK "nodeclaimd"

/* Strings are borrowed from argv and the environment. */
struct nc_settings {
    const char *command;
    const char *kubeconfig;                 /* NULL: in a pod the pod's, else $KUBECONFIG */
    enum nc_control_mode mode;              /* UNKNOWN: to be found out */
    const struct nc_standalone *standalone; /* NULL: this build has none */
    const char *karpenter_namespaces[NC_KARPENTER_NAMESPACES_MAX + 1]; /* none: the usual ones */
    const char *replacement_namespaces[NC_REPLACEMENT_NAMESPACES_MAX + 1]; /* none: off */
    struct nc_control_rules rules;
    const char *lease_namespace; /* NULL: the pod's, else NC_LEASE_NAMESPACE */
    const char *lease_name;
    const char *identity; /* NULL: the host name, "_" and random */
    bool no_leader_election;
    uint64_t lease_duration_usec, renew_usec, retry_usec;
    const char *region, *ec2_endpoint, *autoscaling_endpoint, *sts_endpoint, *imds;
    const char *lifecycle_hook;  /* whose actions are completed */
    const char *metrics_address; /* NULL: off */
    const char *node_address;    /* that this runs on; NULL: not known */
    bool json, metrics;
};

/* argv as main has it, and the half of the step without Karpenter (nc/standalone.h), NULL where it
 * is not built; without a command it is `run`. 0: go on with ret; else the process is to end with
 * *ret_code, and what had to be reported was reported. */
int nc_settings_read(int argc, char **argv, const struct nc_standalone *standalone,
                     struct nc_settings *ret, int *ret_code);

#endif
