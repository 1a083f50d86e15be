/*
 * Names on the cluster, each once: labels, annotations, taints and finalizers that more than one
 * room reads or writes, and all that are ours.
 *
 * Sources: kubernetes.io's "Well-Known Labels, Annotations and Taints"; karpenter.sh's apis/v1
 * labels.go. Ours are contracts: they stand on clusters.
 */
#ifndef NC_NAMES_H
#define NC_NAMES_H

#define NC_LABEL_ARCH "kubernetes.io/arch"
#define NC_LABEL_HOSTNAME "kubernetes.io/hostname"
#define NC_LABEL_OS "kubernetes.io/os"
#define NC_LABEL_INSTANCE_TYPE "node.kubernetes.io/instance-type"
#define NC_LABEL_REGION "topology.kubernetes.io/region"
#define NC_LABEL_ZONE "topology.kubernetes.io/zone"
#define NC_LABEL_BALANCERS "node.kubernetes.io/exclude-from-external-load-balancers"
#define NC_LABEL_BALANCERS_VALUE "nodeclaimd" /* who excluded the node */
#define NC_TAINT_NOT_READY "node.kubernetes.io/not-ready"
#define NC_TAINT_UNREACHABLE "node.kubernetes.io/unreachable"
#define NC_TAINT_READINESS "readiness.k8s.io/" /* each taint of a NodeReadinessRule begins so */
/* The rule of our own condition BootstrapComplete, which therefore waits for any taint but this. */
#define NC_TAINT_BOOTSTRAP NC_TAINT_READINESS "nodeclaimd-bootstrap"

#define NC_LABEL_NODE_POOL "karpenter.sh/nodepool"
#define NC_LABEL_PROVISIONER "karpenter.sh/provisioner-name" /* before v1beta1 */
#define NC_LABEL_CAPACITY_TYPE "karpenter.sh/capacity-type"
#define NC_LABEL_REGISTERED "karpenter.sh/registered"
#define NC_LABEL_INITIALIZED "karpenter.sh/initialized"
#define NC_LABEL_DO_NOT_SYNC "karpenter.sh/do-not-sync-taints"
#define NC_TAINT_UNREGISTERED "karpenter.sh/unregistered"
#define NC_TAINT_OUT_OF_SERVICE "node.kubernetes.io/out-of-service"
#define NC_TAINT_DISRUPTED "karpenter.sh/disrupted"
#define NC_TAINT_REBOOTING "karpenter.sh/rebooting"
#define NC_ANNOTATION_DO_NOT_DISRUPT "karpenter.sh/do-not-disrupt" /* of pods and Nodes */
#define NC_ANNOTATION_NODE_POOL_HASH "karpenter.sh/nodepool-hash"
#define NC_ANNOTATION_NODE_POOL_HASH_VERSION "karpenter.sh/nodepool-hash-version"
#define NC_ANNOTATION_TERMINATION_TIMESTAMP "karpenter.sh/nodeclaim-termination-timestamp"
#define NC_ANNOTATION_NODE_CLASS_HASH "karpenter.k8s.aws/ec2nodeclass-hash"
#define NC_ANNOTATION_NODE_CLASS_HASH_VERSION "karpenter.k8s.aws/ec2nodeclass-hash-version"
#define NC_FINALIZER_KARPENTER "karpenter.sh/termination"

#define NC_OURS "nodeclaimd.io/" /* each name of ours begins so */
#define NC_ANNOTATION_BOOTSTRAP NC_OURS "bootstrap"
#define NC_ANNOTATION_DRAIN_ORDER NC_OURS "drain-order" /* of pods: "first", "last" */
#define NC_ANNOTATION_CORDON NC_OURS "cordon"           /* the cordon is ours */
#define NC_ANNOTATION_REQUEST NC_OURS "drain-request"
#define NC_ANNOTATION_STATUS NC_OURS "drain-status"
#define NC_ANNOTATION_REPLACEMENT_FIRST NC_OURS "replacement-first" /* of pods */
#define NC_ANNOTATION_RESTARTED_AT NC_OURS "restarted-at"   /* of a Deployment's pod template */
#define NC_ANNOTATION_OUR_TAINT NC_OURS "disrupted"         /* NC_TAINT_DISRUPTED is ours */
#define NC_ANNOTATION_OUR_TIMESTAMP "nodeclaimd.io/stamped" /* our own termination timestamp */
/* A Node's copy of the time of its NodeClaim. */
#define NC_ANNOTATION_TERMINATION_DEADLINE NC_OURS "termination-deadline"
#define NC_ANNOTATION_FIT NC_OURS "fit" /* what the agent states; with NC_CONDITION_FIT */
#define NC_CONDITION_FIT NC_OURS "Fit"
#define NC_ANNOTATION_FIT_BOOT                                                                     \
    NC_OURS "fit-boot" /* the boot for which NC_TAINT_UNFIT was removed */
#define NC_TAINT_UNFIT NC_OURS "unfit"
#define NC_FINALIZER NC_OURS "termination"

/* The phases of a bootstrap, in their order: a row is its identifier, its name, and whether it is
 * shown only where there was something to do. The message of an Event BootstrapFailed begins with
 * the name and a colon. */
#define NC_EVENT_BOOTSTRAP_FAILED "BootstrapFailed"
#define NC_PHASES(ROW)                                                                             \
    ROW(IMDS, "imds", false)                                                                       \
    ROW(USERDATA, "userdata", false)                                                               \
    ROW(CONFIG, "config", false)                                                                   \
    ROW(PLAN, "plan", false)                                                                       \
    ROW(RENDER, "render", false)                                                                   \
    ROW(APPLY, "apply", false)                                                                     \
    ROW(PREFLIGHT, "preflight", false)                                                             \
    ROW(DISKS, "disks", true)                                                                      \
    ROW(CONTAINERD, "containerd", true)                                                            \
    ROW(START, "start", false)                                                                     \
    ROW(REGISTER, "register", false)                                                               \
    ROW(INITIALIZE, "initialize", false)

#endif
