/*
 * Facts: what the instance and the host are. Read once, then const.
 *
 * The list of IMDS paths is data here; who fetches them (aws/imds.c, or a folder of recorded
 * answers) is not known here.
 */
#ifndef NC_FACTS_H
#define NC_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/value.h"

enum nc_purchase_option {
    NC_PURCHASE_UNKNOWN = 0,
    NC_PURCHASE_ON_DEMAND,
    NC_PURCHASE_SPOT,
    NC_PURCHASE_SCHEDULED,
    NC_PURCHASE_CAPACITY_BLOCK,
};

/* What one instance type is, from the table that ships as data, a file on the AMI, or EC2
 * DescribeInstanceTypes. -1 = not known. */
struct nc_instance_type {
    char name[64];
    int64_t vcpus;
    int64_t memory_mib; /* as EC2 advertises it */
    char arch[16];      /* "amd64" | "arm64" */
    int64_t enis;       /* maximum of the default network card */
    int64_t ipv4_per_eni;
    int64_t branch_enis;
    char hypervisor[16]; /* "nitro" | "xen" | "metal" | "" */
};

/* What IMDS has at a path below meta-data, that documents name for labels. */
struct nc_metadata {
    char *path;
    char *text; /* NULL: this instance has nothing there */
};

struct nc_sysctl {
    char *name; /* "vm.overcommit_memory" */
    char *value;
};

struct nc_facts {
    /* IMDS. NULL = not asked or absent. */
    char *instance_id;
    char *instance_type;
    char *region;
    char *az;
    char *az_id;
    char *architecture; /* "x86_64" | "arm64", as the identity document says */
    char *mac;
    char *local_ipv4;
    char *ipv6;           /* the first of ipv6s */
    char *local_hostname; /* may carry several names under a custom DHCP domain: the first one is
                             kept */
    char *domain;         /* services/domain: "amazonaws.com" */
    char *target_state;   /* "InService", NC_WARMED "Stopped", …: of an Auto Scaling group */
    enum nc_purchase_option purchase_option;
    char *role; /* iam/security-credentials/: the role's name */
    /* EC2, only where asked. */
    char *private_dns_name;
    struct nc_metadata *metadata; /* as far as it was requested */
    size_t n_metadata;
    struct nc_instance_type described_type; /* name[0] == 0: not asked */
    /* Host. */
    int64_t cpus;     /* online */
    int64_t last_cpu; /* the highest number of an online one; 0 = not known, or the only one */
    int64_t mem_total_bytes;
    int64_t root_fs_bytes;
    char *kubelet_version; /* "v1.34.4"; NULL = unknown */
    char *boot_id;
    char *hostname;
    struct nc_sysctl *sysctls;
    size_t n_sysctls;
    uint64_t logind_inhibit_delay_usec; /* InhibitDelayMaxSec in force without our file; 0 = unknown
                                           (logind's own default is 5 s) */
    bool has_ecr_credential_provider;
    char *ecr_credential_provider_dir; /* folder of the binary "ecr-credential-provider" */
    bool is_ecr_folder_empty;  /* the image has the AMI's folder for that binary, without it */
    bool has_nvidia;           /* a PCI device of vendor 0x10de */
    char *containerd_version;  /* "2.1.4"; NULL = there is no containerd */
    bool has_nvidia_runtime;   /* /usr/bin/nvidia-container-runtime */
    bool has_pause_archive;    /* /etc/eks/pause.tar */
    bool has_soci_snapshotter; /* a unit soci-snapshotter.service */
    int64_t local_disks;       /* how many NVMe disks of the instance store there are */
    int64_t local_disk_bytes;  /* all of them together */
    struct nc_strv
        unusual; /* sentences: what IMDS answered in a shape of its own, taken for absent */
    struct nc_strv environment_services; /* whose environment an earlier bootstrap wrote */
};

/* Begins the target state of an instance that is in a warm pool, or goes there. */
#define NC_WARMED "Warmed:"

#define NC_FACTS_INIT                                                                              \
    { 0 }
void nc_facts_done(struct nc_facts *f);
void nc_facts_free_sysctls(struct nc_facts *f);

/* The questions to IMDS. `round` 1 needs nothing but the token, round 2 needs an answer of round 1
 * (the path has one %s). max: bytes that an answer may have. */
enum nc_imds_item {
    NC_IMDS_IDENTITY = 0,
    NC_IMDS_MAC,
    NC_IMDS_LOCAL_IPV4,
    NC_IMDS_LOCAL_HOSTNAME,
    NC_IMDS_AZ_ID,
    NC_IMDS_PURCHASE_OPTION,
    NC_IMDS_DOMAIN,
    NC_IMDS_TARGET_STATE,
    NC_IMDS_USER_DATA,
    NC_IMDS_ROLE,
    NC_IMDS_IPV6S,       /* round 2, %s = mac */
    NC_IMDS_CREDENTIALS, /* round 2, %s = role */
    NC_IMDS_METADATA,    /* %s = a path that a document names for a label, one at a time */
    _NC_IMDS_ITEM_MAX
};

#define NC_IMDS_MAX_ARGUMENT 160 /* a tag's key has 128 */

struct nc_imds_question {
    char path[54]; /* "/latest/meta-data/mac" */
    bool required; /* a 404 is an error */
    unsigned max_bytes;
};

extern const struct nc_imds_question nc_imds_questions[_NC_IMDS_ITEM_MAX];

/* Takes one answer with status 200 into the facts (USER_DATA and CREDENTIALS are not facts:
 * -EINVAL). Strict: an id, a type, an address that does not look like one is NC_ERR_PROTOCOL with
 * the path in the message and the facts unchanged. Trailing white space is tolerated. */
int nc_facts_parse_imds(struct nc_facts *f, enum nc_imds_item item, const char *body, size_t n,
                        struct nc_err *err);

/* Adds what IMDS answered at a path; body NULL: HTTP 404. What is no text is NC_ERR_PROTOCOL. */
int nc_facts_add_metadata(struct nc_facts *f, const char *path, const char *body, size_t n,
                          struct nc_err *err);
const struct nc_metadata *nc_facts_find_metadata(const struct nc_facts *f, const char *path);

/* host.json of `--facts DIR`: the table of facts-host.c, environment_services[] and sysctls{}.
 * Unknown keys are ignored, missing ones stay unknown. And back, for --save-facts. */
int nc_facts_parse_host_json(struct nc_facts *f, const char *data, size_t n, struct nc_err *err);
void nc_facts_write_host_json(const struct nc_facts *f, struct nc_buf *out);

/* "v1.34.4-eks-abc" -> 34. -EINVAL where it is no version 1.N. *ret_text (owned, may be NULL) is
 * "v1.34.4". */
int nc_kubelet_version_parse(const char *text, unsigned *ret_minor, char **ret_text);

/* "v2.1.4 (x)", "1.6.20~ds1" -> 2 and "2.1.4", 1 and "1.6.20". -EINVAL where it is no version.
 * *ret_text is owned; both may be NULL. */
int nc_containerd_version_parse(const char *text, unsigned *ret_major, unsigned *ret_minor,
                                char **ret_text);
bool nc_is_kubelet_version(const char *text);
bool nc_is_containerd_version(const char *text);

const char *nc_purchase_option_name(enum nc_purchase_option l); /* "on-demand", "spot", … */

/* Where an image has the place for it, and what is said where it is not there: of " in FOLDER". */
#define NC_ECR_FOLDER "/etc/eks/image-credential-provider"
#define NC_NO_ECR_TEXT                                                                             \
    "there is no ecr-credential-provider%s: no image is pulled from private repositories of ECR: " \
    "with EKS's aws-node the Node stays NotReady"

#endif
