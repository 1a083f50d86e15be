/*
 * Which change makes what due: see bootstrap.h.
 */
#include "bootstrap.h"

#include <unistd.h>

#include "log.h"
#include "nc/file.h"
#include "nc/str.h"

#define UNITS "/etc/systemd/system/"

static const char names[_NC_DUE_MAX][36] = {
    [NC_DUE_RELOAD] = NC_RUN_DIR "/systemd-reload",
    [NC_DUE_RESOLVER] = NC_RUN_DIR "/resolver-restart",
    [NC_DUE_DISKS] = NC_RUN_DIR "/local-disks-restart",
    [NC_DUE_CONTAINERD] = NC_RUN_DIR "/containerd-restart",
    [NC_DUE_KUBELET] = NC_RUN_DIR "/kubelet-restart",
};

/* By the beginning of the path. A service that runs keeps the environment that it was started with.
 */
static const struct {
    const char *path;
    enum nc_due due;
} causes[] = {
    {"/etc/systemd/system", NC_DUE_RELOAD}, /* system.conf.d too */
    {"/etc/systemd/system.conf.d/", NC_DUE_CONTAINERD},
    {"/etc/systemd/system.conf.d/", NC_DUE_KUBELET},
    {"/run/systemd/system/", NC_DUE_RELOAD},
    {"/usr/lib/systemd/system/", NC_DUE_RELOAD},
    {UNITS "containerd.service", NC_DUE_CONTAINERD},
    {"/run/systemd/system/containerd.service", NC_DUE_CONTAINERD},
    {"/usr/lib/systemd/system/containerd.service", NC_DUE_CONTAINERD},
    {"/usr/bin/containerd", NC_DUE_CONTAINERD},
    {"/etc/containerd/", NC_DUE_CONTAINERD},
    {NC_RESOLVER_DROPIN, NC_DUE_RESOLVER},
    {NC_LOCAL_DISKS_FILE, NC_DUE_DISKS},
};

static void mark(struct nc_bootstrap *b, enum nc_due d) {
    nc_auto_free char *path = nc_app_path(b->app, names[d]);

    if (b->due & (1u << d))
        return;
    b->due |= 1u << d;
    (void)nc_file_write(path, "", 0, 0644, NULL); /* status.json has the same trouble */
}

void nc_due_by_path(struct nc_bootstrap *b, const char *path) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(causes); i++)
        if (nc_starts_with(path, causes[i].path))
            mark(b, causes[i].due);
}

static void mark_change(const struct nc_file *file, void *userdata) {
    struct nc_bootstrap *b = userdata;
    nc_auto_free char *kubelet = nc_asprintf(UNITS "%s.d/", b->gather.config.kubelet_unit);

    nc_due_by_path(b, file->path);
    if (b->cloud_init.waits && b->written.n == 0 && nc_is_there(b->app->opts.root, file->path))
        nc_log(NC_LOG_INFO, NULL, "%s is replaced: it had another content", file->path);
    if (file->stage == NC_STAGE_CONTAINERD)
        mark(b, NC_DUE_CONTAINERD);
    if (file->stage == NC_STAGE_KUBELET || nc_starts_with(file->path, kubelet))
        mark(b, NC_DUE_KUBELET);
}

/* Somebody has changed a file since this run wrote it. */
static void note_foreign(const struct nc_file *file, bool is_kept, void *userdata) {
    struct nc_bootstrap *b = userdata;
    nc_auto_free char *sentence =
        nc_asprintf("%s was changed after it was written: %s", file->path,
                    is_kept ? "kept as it is, until the next bootstrap"
                            : "replaced, because the documents ask for something else by now");

    nc_strv_add_once(&b->report.warnings, sentence);
}

bool nc_is_due(const struct nc_bootstrap *b, enum nc_due d) {
    return (b->due & (1u << d)) || nc_is_there(b->app->opts.root, names[d]);
}

void nc_due_done(struct nc_bootstrap *b, enum nc_due d) {
    nc_auto_free char *path = nc_app_path(b->app, names[d]);

    b->due &= ~(1u << d);
    (void)unlink(path);
}

int nc_apply_stage(struct nc_bootstrap *b, const struct nc_fileset *files, enum nc_file_stage stage,
                   struct nc_apply_result *count, struct nc_err *err) {
    const struct nc_apply_call call = {.root = b->app->opts.root,
                                       .files = files,
                                       .stage = stage,
                                       .known = &b->written,
                                       .before_change = mark_change,
                                       .found_foreign = note_foreign,
                                       .userdata = b};
    struct nc_apply_result one = {0};
    const int r = nc_apply(&call, &one, err);

    count->written += one.written;
    count->unchanged += one.unchanged;
    count->removed += one.removed;
    return r;
}
