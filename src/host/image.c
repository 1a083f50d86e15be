/*
 * What an image lacks that nodes boot from: one function a check, one row a check.
 *
 * What nodeclaimd writes itself in each bootstrap (kubelet's files, containerd's configuration) is
 * no part of the image.
 */
#include "nc/image.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "nc/host.h"
#include "nc/str.h"

#include "image-tree.h"

#define FSTAB "/etc/fstab"
#define KUBELET_ENV "/etc/nodeclaimd/kubelet.env"
#define KUBELET_ARGS "NODECLAIMD_KUBELET_ARGS"
#define ECR_BINARY "ecr-credential-provider"
#define INSTALL_DROPIN                                                                             \
    "install nodeclaimd's drop-in, and remove ExecStart and \"EnvironmentFile=\" of any later one"
#define MAKE_FILE                                                                                  \
    "remove the line, make the file before kubelet starts, or write \"-\" before the path"

const struct nc_kubelet_sysctl nc_kubelet_sysctls[NC_KUBELET_SYSCTLS] = {
    {"vm.overcommit_memory", "1", false},
    {"vm.panic_on_oom", "0", true},
    {"kernel.panic", "10", false},
    {"kernel.panic_on_oops", "1", false}, /* the kernel's build decides */
    {"kernel.keys.root_maxkeys", "1000000", true},
    {"kernel.keys.root_maxbytes", "25000000", true}};

const char nc_ecr_folders[] =
    NC_ECR_FOLDER "\0"
                  "/usr/libexec/kubernetes/image-credential-provider\0"
                  "/usr/libexec/kubernetes/kubelet-plugins/credential-provider/exec\0";

enum severity { FAILED, WARNING };

/* What one check found, until it has ended. */
struct problem {
    struct nc_err err;
    bool is_warning;
};

struct image {
    struct nc_image_tree tree;
    struct problem *problems;
    size_t n_problems;
};

static void note(struct image *m, enum severity severity, const char *remedy, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
static void note(struct image *m, enum severity severity, const char *remedy, const char *format,
                 ...) {
    struct problem *p = nc_append(&m->problems, &m->n_problems);
    va_list ap;

    p->is_warning = severity == WARNING;
    va_start(ap, format);
    (void)nc_err_setv(&p->err, NC_ERR_CONFIG, ENOENT, format, ap);
    va_end(ap);
    nc_err_remedy(&p->err, "%s", remedy);
}

/* The last command that a unit starts; NULL where there is none. */
static const char *command_of(const struct nc_image_unit *u) {
    const struct nc_image_line *line;
    const char *command = NULL;
    size_t at = 0;

    while ((line = nc_image_unit_next(u, "ExecStart", &at)))
        command = line->value;
    return command;
}

/* Its first word, without systemd's prefixes. Owned. */
static char *program_of(const char *command) {
    command += strspn(command, "@-:+!|");
    return nc_strndup(command, strcspn(command, " \t"));
}

/* A unit that has to be there, with a program that has to be there: its command; NULL where a
 * problem was found. */
static const char *check_service(struct image *m, const struct nc_image_unit *u, const char *unit,
                                 const char *remedy) {
    const char *command = command_of(u);
    nc_auto_free char *program = command ? program_of(command) : NULL;

    if (!u->path)
        note(m, FAILED, remedy, "there is no %s", unit);
    else if (u->is_masked)
        note(m, FAILED, "unmask the unit", "%s is masked by %s", unit, u->path);
    else if (!program)
        note(m, FAILED, remedy, "%s has no ExecStart", unit);
    else if (!nc_image_tree_is_program(&m->tree, program))
        note(m, FAILED, remedy, "%s starts %s, and there is no such program", unit, program);
    else
        return command;
    return NULL;
}

/* The path that an EnvironmentFile names has to be in the image, unless we make it. */
static void check_environment_file(struct image *m, const struct nc_image_line *line) {
    const char *path = line->value;

    if (*path == '-' || nc_streq(path, KUBELET_ENV))
        return;
    if (strpbrk(path, "%*?["))
        note(m, WARNING, "name the file itself, or write \"-\" before the path",
             "EnvironmentFile=%s of %s cannot be checked here", path, line->path);
    else if (nc_starts_with(path, "/run/"))
        note(m, WARNING, MAKE_FILE, "EnvironmentFile=%s of %s is not part of the image", path,
             line->path);
    else if (*path != '/' || !nc_image_tree_has(&m->tree, path))
        note(m, FAILED, MAKE_FILE,
             "%s names EnvironmentFile=%s, which is missing: kubelet.service cannot start",
             line->path, path);
}

/* Our flags are in one file, and the command has to use them. */
static void check_kubelet_flags(struct image *m, const struct nc_image_unit *u,
                                const char *command) {
    nc_auto_free char *program = program_of(command);
    const struct nc_image_line *line;
    bool is_read = false;
    size_t at = 0;

    if (!strstr(command, "$" KUBELET_ARGS) && !strstr(command, "${" KUBELET_ARGS "}"))
        note(m, FAILED, INSTALL_DROPIN, "kubelet.service starts %s without $" KUBELET_ARGS,
             program);
    while ((line = nc_image_unit_next(u, "EnvironmentFile", &at))) {
        is_read = is_read || nc_streq(line->value + (*line->value == '-'), KUBELET_ENV);
        check_environment_file(m, line);
    }
    if (!is_read)
        note(m, FAILED, INSTALL_DROPIN,
             "kubelet.service does not read EnvironmentFile=" KUBELET_ENV
             ": kubelet would start without its flags");
}

static void check_kubelet(struct image *m) {
    struct nc_image_unit u = NC_IMAGE_UNIT_INIT;
    const struct nc_image_line *line;
    const char *command;
    size_t at = 0;

    nc_image_unit_read(&m->tree, "kubelet.service", &u);
    command = check_service(m, &u, "kubelet.service", "install kubelet, then " NC_IMAGE_PROVISION);
    if (command)
        check_kubelet_flags(m, &u, command);
    while (command && (line = nc_image_unit_next(&u, "ExecStartPre", &at))) {
        nc_auto_free char *program = program_of(line->value);
        if (*line->value != '-' && !nc_image_tree_is_program(&m->tree, program))
            note(m, FAILED, NC_IMAGE_PROVISION,
                 "%s starts %s before kubelet, and there is no such program", line->path, program);
    }
    if (nc_image_unit_is_enabled(&m->tree, "kubelet.service"))
        note(m, WARNING, "systemctl disable kubelet.service",
             "kubelet.service is enabled: nodeclaimd-bootstrap.service starts it");
    nc_image_unit_done(&u);
}

static void check_nodeadm(struct image *m) {
    for (const char *const *unit = nc_nodeadm_units; *unit; unit++)
        if (nc_image_unit_is_enabled(&m->tree, *unit))
            note(m, FAILED, "systemctl disable nodeadm-config.service nodeadm-run.service",
                 "%s is enabled: it would write kubelet's files as well", *unit);
}

static void check_units(struct image *m) {
    static const char units[][32] = {"nodeclaimd-bootstrap.service", "nodeclaimd.service"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(units); i++) {
        struct nc_image_unit u = NC_IMAGE_UNIT_INIT;
        nc_image_unit_read(&m->tree, units[i], &u);
        if (check_service(m, &u, units[i], "install nodeclaimd")
            && !nc_image_unit_is_enabled(&m->tree, units[i]))
            note(m, FAILED, NC_IMAGE_PROVISION, "%s is not enabled", units[i]);
        nc_image_unit_done(&u);
    }
}

static void check_containerd(struct image *m) {
    static const char config[] = "/etc/containerd/config.toml";
    struct nc_image_unit u = NC_IMAGE_UNIT_INIT;
    const char *command, *option;

    nc_image_unit_read(&m->tree, "containerd.service", &u);
    command = check_service(m, &u, "containerd.service", "install containerd");
    if (command) {
        nc_auto_free char *program = program_of(command);
        option = strstr(command, " --config");
        option = option ? option : strstr(command, " -c ");
        if (option && !strstr(option, config))
            note(m, FAILED, "remove the option from the unit",
                 "containerd.service starts %s with another configuration than %s, which "
                 "nodeclaimd writes",
                 program, config);
    }
    if (!nc_image_tree_is_program(&m->tree, "/usr/sbin/runc"))
        note(m, FAILED, NC_IMAGE_PROVISION ", or link it there",
             "there is no program /usr/sbin/runc, which nodeclaimd's configuration of containerd "
             "names");
    nc_image_unit_done(&u);
}

/* nodeclaimd lets systemd do its work, over D-Bus. */
static void check_systemd(struct image *m) {
    struct nc_image_unit bus = NC_IMAGE_UNIT_INIT;

    if (!nc_image_tree_is_program(&m->tree, "/sbin/init"))
        note(m, FAILED, NC_IMAGE_PROVISION, "there is no /sbin/init: systemd is not installed");
    nc_image_unit_read(&m->tree, "dbus.socket", &bus);
    if (!bus.path || bus.is_masked)
        note(m, FAILED, NC_IMAGE_PROVISION,
             "there is no dbus.socket: nodeclaimd starts kubelet over D-Bus");
    nc_image_unit_done(&bus);
}

static void check_disks(struct image *m) {
    if (!nc_image_tree_is_program(&m->tree, "/usr/bin/setup-local-disks"))
        note(m, WARNING,
             "install that of amazon-eks-ami, unless no node has instanceStorePolicy: RAID0 or "
             "instance.localStorage",
             "there is no /usr/bin/setup-local-disks: local disks are not set up");
}

/* Where the image has made the place for it, it is an accident that it is not there. */
static void check_ecr(struct image *m) {
    for (const char *folder = nc_ecr_folders; *folder; folder = nc_next_name(folder)) {
        nc_auto_free char *path = nc_asprintf("%s/" ECR_BINARY, folder);
        if (nc_image_tree_is_program(&m->tree, path))
            return;
    }
    const bool has_place = nc_image_tree_has(&m->tree, nc_ecr_folders);
    note(m, has_place ? FAILED : WARNING, NC_IMAGE_PROVISION " with --ecr-credential-provider FILE",
         NC_NO_ECR_TEXT, has_place ? " in " NC_ECR_FOLDER : "");
}

/* What the files of sysctl.d say. */
struct sysctls {
    const char *path;
    char *values[NC_KUBELET_SYSCTLS], *paths[NC_KUBELET_SYSCTLS];
};

static void read_sysctl(void *userdata, char *text) {
    struct sysctls *s = userdata;
    char *equals = strchr(text, '=');

    if (!equals)
        return;
    *equals = '\0';
    text = nc_trim(text + (*text == '-'));
    if (strcspn(text, "/") < strcspn(text, ".")) /* written with slashes instead of dots */
        for (char *slash = text; (slash = strchr(slash, '/'));)
            *slash = '.';
    for (size_t i = 0; i < NC_KUBELET_SYSCTLS; i++) {
        if (!nc_streq(text, nc_kubelet_sysctls[i].name))
            continue;
        free(s->values[i]);
        free(s->paths[i]);
        s->values[i] = nc_strdup(nc_trim(equals + 1));
        s->paths[i] = nc_strdup(s->path);
    }
}

static void read_sysctls(struct nc_image_tree *t, struct sysctls *s) {
    static const char folders[][24] = {"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d",
                                       "/usr/lib/sysctl.d"};
    nc_cleanup(nc_strv_done) struct nc_strv all = NC_STRV_INIT, paths = NC_STRV_INIT;

    for (size_t i = 0; i < NC_ARRAY_SIZE(folders); i++)
        nc_strv_add(&all, folders[i]);
    nc_image_tree_confs(t, &all, &paths);
    for (size_t i = 0; i < paths.n; i++) {
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        s->path = paths.v[i];
        if (nc_image_tree_read(t, paths.v[i], &text))
            nc_image_text_lines(text.data, read_sysctl, s);
    }
}

static void check_sysctls(struct image *m) {
    struct sysctls s = {0};

    read_sysctls(&m->tree, &s);
    for (size_t i = 0; i < NC_KUBELET_SYSCTLS; i++) {
        const struct nc_kubelet_sysctl *wanted = &nc_kubelet_sysctls[i];
        if (!s.values[i] && !wanted->is_default)
            note(m, FAILED, NC_IMAGE_PROVISION,
                 "no file of sysctl.d sets %s to %s, as kubelet demands", wanted->name,
                 wanted->value);
        else if (s.values[i] && !nc_streq(s.values[i], wanted->value))
            note(m, FAILED, "remove the line, or set it in a file with a later name",
                 "%s sets %s to %s, kubelet demands %s", s.paths[i], wanted->name, s.values[i],
                 wanted->value);
        free(s.values[i]);
        free(s.paths[i]);
    }
}

static void check_versions(struct image *m) {
    if (!nc_image_tree_has(&m->tree, "/etc/eks/kubelet-version.txt")
        && !nc_image_tree_has(&m->tree, "/etc/nodeclaimd/kubelet-version"))
        note(m, WARNING, NC_IMAGE_PROVISION,
             "there is no /etc/eks/kubelet-version.txt: each bootstrap searches the binary");
    if (!nc_image_tree_has(&m->tree, "/etc/eks/containerd-version.txt"))
        note(m, WARNING, NC_IMAGE_PROVISION,
             "there is no /etc/eks/containerd-version.txt: each bootstrap has to find out");
}

static void note_swap(struct image *m, const char *path) {
    note(m, WARNING,
         "remove the line, mask the unit, remove the package zram-generator-defaults, or set "
         "failSwapOn: false",
         "%s makes swap, kubelet does not start with it", path);
}

/* "DEVICE none swap …" of fstab. */
static void read_fstab(void *userdata, char *text) {
    char *rest = text, *field;
    unsigned n = 0;

    while ((field = strsep(&rest, " \t")))
        if (*field && ++n == 3 && nc_streq(field, "swap"))
            note_swap(userdata, FSTAB);
}

static void check_swap(struct image *m) {
    static const char folders[][24] = {"/etc/systemd/system", "/usr/lib/systemd/system"};
    static const char zram[][40] = {"/etc/systemd/zram-generator.conf",
                                    "/usr/lib/systemd/zram-generator.conf"};
    nc_cleanup(nc_buf_done) struct nc_buf fstab = NC_BUF_INIT;

    if (nc_image_tree_read(&m->tree, FSTAB, &fstab))
        nc_image_text_lines(fstab.data, read_fstab, m);
    for (size_t i = 0; i < NC_ARRAY_SIZE(folders); i++) {
        nc_cleanup(nc_strv_done) struct nc_strv names = NC_STRV_INIT;
        nc_image_tree_names(&m->tree, folders[i], &names);
        for (size_t k = 0; k < names.n; k++)
            if (nc_ends_with(names.v[k], ".swap")) {
                nc_auto_free char *path = nc_asprintf("%s/%s", folders[i], names.v[k]);
                note_swap(m, path);
            }
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(zram); i++)
        if (nc_image_tree_has(&m->tree, zram[i]))
            note_swap(m, zram[i]);
}

static void check_network(struct image *m) {
    struct nc_image_unit owner = NC_IMAGE_UNIT_INIT;

    nc_image_unit_read(&m->tree, "udev-net-manager@.service", &owner);
    if (!owner.path && !nc_image_tree_has(&m->tree, "/etc/udev/rules.d/70-nodeclaimd.rules"))
        note(m, WARNING, NC_IMAGE_PROVISION,
             "nothing leaves interfaces that are attached later to the CNI plugin "
             "(udev-net-manager, 70-nodeclaimd.rules)");
    nc_image_unit_done(&owner);
}

static const struct check {
    char name[12];
    void (*run)(struct image *m);
    const char *found; /* where it found no problem */
} checks[] = {
    {"systemd", check_systemd, "installed, with D-Bus"},
    {"kubelet", check_kubelet, "kubelet.service starts it with the flags of nodeclaimd"},
    {"nodeadm", check_nodeadm, "nodeadm-config and nodeadm-run are not enabled"},
    {"units", check_units, "nodeclaimd-bootstrap.service and nodeclaimd.service are enabled"},
    {"containerd", check_containerd, "installed, with runc"},
    {"disks", check_disks, "setup-local-disks is installed"},
    {"ecr", check_ecr, ECR_BINARY " is installed"},
    {"sysctl", check_sysctls, "nothing that kubelet would refuse"},
    {"version", check_versions, "kubelet's and containerd's are in files"},
    {"swap", check_swap, "none"},
    {"network", check_network, "interfaces that are attached later belong to the CNI plugin"},
};

/* What could not be read is reported alone: what else the check found may follow from it. */
static void report(struct image *m, const struct check *c, nc_image_fn found, void *userdata) {
    const bool is_read = m->tree.unreadable.class == NC_ERR_NONE;
    struct nc_err fine = NC_ERR_INIT;

    if (!is_read)
        found(userdata,
              &(struct nc_image_finding){.check = c->name, .problem = &m->tree.unreadable});
    for (size_t i = 0; is_read && i < m->n_problems; i++)
        found(userdata, &(struct nc_image_finding){.check = c->name,
                                                   .is_warning = m->problems[i].is_warning,
                                                   .problem = &m->problems[i].err});
    if (is_read && m->n_problems == 0) {
        (void)nc_err_set(&fine, NC_ERR_NONE, 0, "%s", c->found);
        found(userdata, &(struct nc_image_finding){.check = c->name, .problem = &fine});
    }
    m->tree.unreadable = (struct nc_err)NC_ERR_INIT;
    m->n_problems = 0;
}

int nc_image_check(const char *root, nc_image_fn found, void *userdata, struct nc_err *err) {
    struct image m = {0};
    const int r = nc_image_tree_open(&m.tree, root, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < NC_ARRAY_SIZE(checks); i++) {
        checks[i].run(&m);
        report(&m, &checks[i], found, userdata);
    }
    free(m.problems);
    nc_image_tree_close(&m.tree);
    return 0;
}
