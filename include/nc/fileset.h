/*
 * A set of files to be: path, mode, bytes. What `render` makes and `apply` writes.
 */
#ifndef NC_FILESET_H
#define NC_FILESET_H

#include <sys/types.h>

#include "nc/config.h"
#include "nc/facts.h"
#include "nc/plan.h"

/* Who must have read a file before those of the next stage are written. The stages are applied in
 * the order host, containerd, kubelet. */
enum nc_file_stage {
    NC_STAGE_KUBELET = 0, /* and whatever belongs to no other stage */
    NC_STAGE_HOST,        /* systemd and the resolver */
    NC_STAGE_CONTAINERD,
    _NC_STAGE_MAX
};

struct nc_file {
    char *path; /* absolute, without any root */
    mode_t mode;
    enum nc_file_stage stage;
    char *data;
    size_t n;
    bool absent;  /* must not exist: a file of ours that an earlier bootstrap wrote and that no
                     longer applies (drop-in without user map) */
    bool is_gate; /* somebody starts to read the others once this one is there: it comes last */
};

struct nc_fileset {
    struct nc_file *files; /* sorted by path */
    size_t n;
};

#define NC_FILESET_INIT                                                                            \
    { 0 }
void nc_fileset_done(struct nc_fileset *s);

struct nc_render_input {
    const struct nc_facts *facts;
    const struct nc_config *config;
    const struct nc_plan *plan;
    const char *program; /* absolute path that the kubeconfig's exec entry names, e.g.
                            "/usr/sbin/nodeclaimd" */
    const char
        *imds_endpoint; /* NULL for the standard one; else passed on in the exec entry's env */
};

/* The files of design "Files written" that a plan makes (status, metrics and state are not among
 * them). Pure and deterministic. */
int nc_render(const struct nc_render_input *in, struct nc_fileset *ret, struct nc_err *err);

/* Those of stage NC_STAGE_HOST, which need no plan, added to s. Pure and deterministic. */
void nc_render_host(const struct nc_facts *f, const struct nc_config *c, struct nc_fileset *s);

/* What the files of the host are for: drop-in of systemd-resolved; arguments of the unit that sets
 * up local disks; the services whose environment we wrote, one a line. */
#define NC_RESOLVER_DROPIN "/run/systemd/resolved.conf.d/40-eks.conf"
#define NC_LOCAL_DISKS_FILE "/run/nodeclaimd/local-disks.env"
#define NC_ENVIRONMENT_RECORD "/var/lib/nodeclaimd/environment-services"

/* Where STS is in another place than the region's own domain; NULL where it is not. Owned. */
char *nc_sts_endpoint(const struct nc_facts *f, const struct nc_config *c);

/* One environment variable: the kernel takes no string of more than 128 KiB with its name. */
#define NC_ENV_MAX_BYTES ((128 << 10) - 64)

#endif
