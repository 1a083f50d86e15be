/*
 * Filling a fileset; only the renderers do.
 */
#ifndef NC_PLAN_FILESET_PRIV_H
#define NC_PLAN_FILESET_PRIV_H

#include "nc/fileset.h"

#define NC_CA_FILE "/etc/kubernetes/pki/ca.crt"

/* Takes what data holds; data is empty afterwards. Returns the file, of stage NC_STAGE_KUBELET,
 * which stays where it is until the next one is added. */
struct nc_file *nc_fileset_add(struct nc_fileset *s, const char *path, mode_t mode,
                               struct nc_buf *data);
/* The same of a tree, as indented JSON. */
struct nc_file *nc_fileset_add_json(struct nc_fileset *s, const char *path, mode_t mode,
                                    const struct nc_value *tree);
/* The same, for the file that tells others that all are there. */
void nc_fileset_add_gate(struct nc_fileset *s, const char *path, mode_t mode, struct nc_buf *data);
/* The path must not exist after apply. */
struct nc_file *nc_fileset_add_absent(struct nc_fileset *s, const char *path);

/* The words of all lists, in order, as the value of one line of an EnvironmentFile= from which
 * systemd's unquoting and word splitting make the same words again. Appends to out. NC_ERR_CONFIG
 * for a word with a control character or that is not UTF-8, and where all together are more than
 * NC_ENV_MAX_BYTES. */
int nc_env_join(const struct nc_strv *const *lists, size_t n_lists, struct nc_buf *out,
                struct nc_err *err);

/* --- render-containerd.c */

/* Adds what the plan has of containerd, all of NC_STAGE_CONTAINERD; nothing where there is no
 * containerd. */
int nc_render_containerd(const struct nc_containerd_plan *p, struct nc_fileset *s,
                         struct nc_err *err);

/* --- render-kubeconfig.c */

/* Adds the kubeconfig files that the configuration's auth mode needs. */
void nc_render_kubeconfig(const struct nc_render_input *in, struct nc_fileset *s);

#endif
