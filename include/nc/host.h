/*
 * This host: what it is, its files, its units, its journal. Everything that is below `root` is
 * given with it.
 */
#ifndef NC_HOST_H
#define NC_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "nc/err.h"
#include "nc/facts.h"
#include "nc/fileset.h"

#define NC_CONF_DIR "/etc/nodeclaimd/conf.d" /* the documents of this machine, *.yaml */

/* Fills the host's part of the facts: online CPUs, MemTotal, size of the file system that holds
 * /var/lib/kubelet, boot id, host name, the sysctls that kubelet insists on, logind's
 * InhibitDelayMaxSec without our file, whether an ECR credential provider and an NVIDIA device are
 * there, what containerd is configured from, the disks of the instance store, whose environment we
 * wrote. The kubelet's version comes from a file
 * (/etc/nodeclaimd/kubelet-version, /etc/eks/kubelet-version.txt), else from the binary's own build
 * information read as bytes, never by running it; containerd's likewise (containerd-version), and
 * `containerd --version` is executed where neither tells and root is "" or "/". kernel facts
 * (/proc, /sys) are the running kernel's, not below root, unless root has its own. */
int nc_probe_host(const char *root, const char *kubelet_path, struct nc_facts *f,
                  struct nc_err *err);

/* "v1.34.4" of a version file on the AMI, else of the binary's build information; with the suffix
 * that a distribution gives it. Owned. The binary is searched for below root, then at the path
 * itself. NC_ERR_HOST where neither tells. */
int nc_kubelet_version(const char *root, const char *kubelet_path, char **ret, struct nc_err *err);
/* The same of containerd ("2.1.4"), which may be missing: *ret is NULL then. Where neither file nor
 * build information tells, and root is this system's own, `containerd --version` is executed. */
int nc_containerd_version(const char *root, char **ret, struct nc_err *err);
/* The version of an image's kubelet, or of its containerd where kubelet_path is NULL. The image is
 * not trusted (nc/image.h); NULL where nothing in it tells. */
char *nc_image_version(const char *root, const char *kubelet_path);

struct nc_apply_result {
    unsigned written, unchanged, removed;
};
struct nc_apply_call {
    const char *root;
    const struct nc_fileset *files;
    enum nc_file_stage stage; /* the files of the others are not touched */
    /* NULL, or what this program wrote before: a file that is to be the same as there is left as it
     * is, whatever it has become. It is not counted again. */
    const struct nc_fileset *known;
    /* NULL, or called for each file that will change, before the first of them is touched. */
    void (*before_change)(const struct nc_file *file, void *userdata);
    /* NULL, or called for each that is not as `known` has it; is_kept: and stays so. */
    void (*found_foreign)(const struct nc_file *file, bool is_kept, void *userdata);
    void *userdata;
};
/* Brings one stage of a fileset to disk: every new content is written and synced beside its place
 * first, only then are all renamed into place: where one cannot be written nothing has changed.
 * NC_ERR_HOST names the path; ENOSPC and EROFS have remedies. */
int nc_apply(const struct nc_apply_call *call, struct nc_apply_result *ret, struct nc_err *err);
/* All stages in their order, where nobody reads one before the next is written; call->stage is not
 * read, and before_change is called for each. */
int nc_apply_all(const struct nc_apply_call *call, struct nc_apply_result *ret, struct nc_err *err);

/* Adds the paths of those that are not on disk as they were written. */
void nc_apply_find_changed(const char *root, const struct nc_fileset *written, struct nc_strv *ret);

/* systemd over D-Bus, blocking (one-shot programs). NC_ERR_HOST where there is no system bus or
 * systemd is not there. */
struct nc_units;
int nc_units_new(struct nc_units **ret, struct nc_err *err);
struct nc_units *nc_units_free(struct nc_units *u);
struct nc_unit_start {
    const char *unit;
    bool restart;          /* where it is active already */
    bool until_active;     /* else it is enough that its main process was started */
    uint64_t timeout_usec; /* of its job */
};
/* StartUnit or RestartUnit (mode "replace"), wait for its job, and what nc_units_outcome gives
 * then; a SIGTERM or SIGINT that the caller has blocked ends the wait with NC_ERR_TRANSIENT
 * (-EINTR) and stays pending. */
int nc_units_start(struct nc_units *u, const struct nc_unit_start *s, struct nc_err *err);
/* What has become of the last start of this unit: 0 = it is as far as is wanted. NC_UNITS_AGAIN: it
 * has failed before that, and systemd is about to start it again; err states how it failed
 * (NC_ERR_TRANSIENT). Otherwise NC_ERR_HOST. */
#define NC_UNITS_AGAIN 1
int nc_units_outcome(struct nc_units *u, const struct nc_unit_start *s, struct nc_err *err);
/* systemd reads its unit files and its own configuration again; returns when it has. */
int nc_units_reload(struct nc_units *u, uint64_t timeout_usec, struct nc_err *err);
/* Requests that a unit reads its configuration again; what becomes of it is its own. */
int nc_units_reload_unit(struct nc_units *u, const char *unit, struct nc_err *err);
/* Whether the unit is starting, or has a job that waits. 0: it has ended, has never run and is not
 * to, or there is no such unit. NC_ERR_HOST where systemd does not say. */
int nc_units_is_pending(struct nc_units *u, const char *unit, struct nc_err *err);
/* The same of any unit whose name is like the pattern; those that systemd has loaded. */
int nc_units_any_is_pending(struct nc_units *u, const char *pattern, struct nc_err *err);
/* ActiveState, SubState, Result, MainPID, NRestarts and ExecMainStartTimestamp of a unit. Strings
 * are owned. */
struct nc_unit_state {
    char *active, *sub, *result;
    unsigned main_pid, restarts;
    /* The main process's start by the wall clock of then, and by the monotonic clock; 0 = there was
     * none yet. */
    uint64_t started_usec, started_mono_usec;
};
void nc_unit_state_done(struct nc_unit_state *s);
int nc_units_state(struct nc_units *u, const char *unit, struct nc_unit_state *ret,
                   struct nc_err *err);
/* Makes logind read its configuration again, unless its InhibitDelayMaxUSec is want_usec or more
 * already, and gives the value then in force: it may still be less after a second, which is no
 * error. */
int nc_logind_reload(struct nc_units *u, uint64_t want_usec, uint64_t *ret_delay_usec,
                     struct nc_err *err);

/* The InhibitDelayMaxUSec in force, on a connection of its own. */
int nc_logind_delay(uint64_t *ret_usec, struct nc_err *err);
/* Whether that is less than our own drop-in below `root` requests; NC_ERR_HOST then states how
 * much, and where to look. False where there is no drop-in of ours. */
bool nc_logind_is_short(const char *root, uint64_t delay_usec, struct nc_err *err);

/* NC_ERR_HOST where one of nodeadm's units that make a node is enabled below `root`, with the
 * remedy, or that cannot be read; 0 where none is. */
int nc_nodeadm_check(const char *root, struct nc_err *err);

/* The last lines of a unit's journal in this boot, oldest first, at most n lines and 2 KiB;
 * -ENODATA where there are none. */
int nc_journal_tail(const char *unit, unsigned n, struct nc_strv *ret, struct nc_err *err);
/* The first line in this boot of the process that has both words, its start; NULL where there is
 * none. Owned. */
int nc_journal_find(unsigned pid, const char *const words[static 2], char **ret,
                    struct nc_err *err);
/* The last lines of a plain log file. */
int nc_file_tail(const char *path, unsigned n, struct nc_strv *ret, struct nc_err *err);

/* Starts a program in a session of its own, stdin from /dev/null, stdout and stderr appended to
 * log_path, all other descriptors closed. The child is not waited for; *ret_pid for later looks.
 * The exec's own failure (ENOENT, EACCES) comes back as an error. on_forked is told the child's
 * number while it is not yet the program: where we end before it has returned, the program never
 * runs. */
struct nc_spawn_call {
    const char *const *argv; /* argv[0] is the path */
    const char *const *env;  /* NULL-terminated additions, or NULL */
    const char *log_path;
    void (*on_forked)(int pid, void *userdata); /* or NULL */
    void *userdata;
};
int nc_spawn(const struct nc_spawn_call *call, int *ret_pid, struct nc_err *err);

/* A program (exec credential plugins of foreign kubeconfigs) whose output is wanted: at most
 * max_bytes of it. The time limit kills it, with what it has started. */
struct nc_capture;
struct nc_capture_call {
    const char *const *argv; /* argv[0] is the path; needed by the start only, as is env */
    const char *const *env;  /* NULL-terminated additions, or NULL */
    uint64_t timeout_usec;
    size_t max_bytes;
    bool keeps_stderr; /* the start of its stderr is told with the error; else it writes to ours */
    /* Once, from the loop; err->class NC_ERR_NONE: `text` is all of its output, wiped afterwards.
     */
    void (*done)(void *userdata, struct nc_buf *text, const struct nc_err *err);
    void *userdata;
};
/* Negative, and `done` is not called, where it cannot be executed. */
int nc_capture_start(sd_event *event, const struct nc_capture_call *call, struct nc_capture **ret,
                     struct nc_err *err);
struct nc_capture *nc_capture_cancel(struct nc_capture *c); /* kills it; NULL in, NULL out */
/* The same, waited for: `done` and `userdata` of the call are not used. Every failure is
 * NC_ERR_HOST, with the start of what it wrote to stderr. */
int nc_run(const struct nc_capture_call *call, struct nc_buf *out, struct nc_err *err);

/* What a program that is asked for its version gets, from a cold volume. */
#define NC_VERSION_TIMEOUT_USEC ((uint64_t)20 * 1000000)

/* Lets containerd convert its configuration in the fileset, where the plan states that it needs it
 * (needs_migration): `containerd config migrate` is executed, bounded in time and output. Nothing
 * but a file of ours below NC_RUN_DIR is written, and removed again. NC_ERR_HOST with what it wrote
 * to stderr. */
int nc_containerd_migrate(const char *root, struct nc_fileset *s, uint64_t timeout_usec,
                          struct nc_err *err);
/* Imports NC_PAUSE_ARCHIVE for the SOCI snapshotter: containerd must be active. The archive must be
 * there. */
int nc_containerd_import_pause(const char *root, uint64_t timeout_usec, struct nc_err *err);

/* One line to the console below root (/dev/console; a plain file under another root is appended
 * to). Never blocks for long; failure is reported, not fatal. */
int nc_console_write(const char *root, const char *line, struct nc_err *err);

/* --- target.c: a target of systemd that is started for what it pulls in, on the event loop;
 * nothing waits for it, and what it has started is never stopped. */

extern const char nc_unit_folders[]; /* systemd's, of units: a list of names */
/* Is a unit installed for this target below root? True also where that cannot be read. Looks for
 * the folders TARGET.wants, TARGET.requires and TARGET.d of nc_unit_folders. */
bool nc_target_is_used(const char *root, const char *target);

struct nc_target_call {
    const char *target;
    bool is_followed;    /* it was started at begun_usec: its end is waited for */
    uint64_t begun_usec; /* CLOCK_MONOTONIC: what was active before that is not of this start */
    /* Once, from the loop, unless it is freed before: `message` is NULL where the target is active
     * and no unit that it wants or requires has failed. */
    void (*done)(void *userdata, const char *message);
    void *userdata;
};
struct nc_target;
/* Never fails: what goes wrong is told by `done`. The target is stopped first where it is active,
 * so that its units run again. */
struct nc_target *nc_target_start(sd_event *event, const struct nc_target_call *call);
struct nc_target *nc_target_free(struct nc_target *t); /* forgets it; NULL in, NULL out */

/* --- login.c: logind and the service manager, on the event loop: the one sign on the machine
 * itself that somebody is shutting it down. A delay inhibitor is held from the start;
 * PrepareForShutdown(true) begins a window of InhibitDelayMaxUSec in which the network and kubelet
 * are still up. Whoever holds the inhibitor may use it and must then release. */

struct nc_login;

struct nc_login_options {
    /* is_coming false: it was cancelled. `window_usec`: how long logind waits from now. is_reboot:
     * the machine comes back, where logind says so (systemd 255). */
    void (*told)(void *userdata, bool is_coming, uint64_t window_usec, bool is_reboot);
    /* How long logind waits at most for whoever holds an inhibitor, as often as it was read. */
    void (*delay)(void *userdata, uint64_t delay_usec);
    void *userdata;
};

/* Connects to the system bus, takes the inhibitor, listens. Where the bus or logind is not there
 * (yet), or goes away, it is tried again (1 s doubling to 60 s) until it is freed; nothing blocks.
 * A shutdown that is already being prepared when we connect is told at once. */
int nc_login_new(sd_event *event, const struct nc_login_options *o, struct nc_login **ret,
                 struct nc_err *err);
struct nc_login *nc_login_free(struct nc_login *l); /* releases the inhibitor */
void nc_login_release(
    struct nc_login *l); /* idempotent; taken again when the shutdown is cancelled */
bool nc_login_holds(const struct nc_login *l);

#endif
