/*
 * InhibitDelayMaxSec from the files that logind reads: logind.conf, then the drop-ins of all
 * folders in the order of their names, where a name in /etc hides the same name in /run and /usr
 * (systemd's conf-files.c).
 *
 * A value that logind could not read is passed over, as logind does.
 */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define OWN_DROPIN "zz-nodeclaimd.conf"
#define KEY "InhibitDelayMaxSec"
#define CONF_MAX_BYTES 65536
#define MAX_DROPINS 1024

struct dropin {
    char *name;
    char *path;
};

/* Units of a time span, as in systemd.time(7). */
static const struct {
    char name[8];
    uint64_t usec;
} units[] = {
    {"usec", 1},           {"us", 1},
    {"msec", 1000},        {"ms", 1000},
    {"seconds", 1000000},  {"second", 1000000},
    {"sec", 1000000},      {"s", 1000000},
    {"minutes", 60000000}, {"minute", 60000000},
    {"min", 60000000},     {"m", 60000000},
    {"hours", 3600000000}, {"hour", 3600000000},
    {"hr", 3600000000},    {"h", 3600000000},
    {"days", 86400000000}, {"day", 86400000000},
    {"d", 86400000000},
};

/* The unit at *pp, seconds where there is none; 0 for a word that is no unit. */
static uint64_t next_unit(const char **pp) {
    const size_t n = strspn(*pp, "abcdefghijklmnopqrstuvwxyz");

    if (n == 0)
        return 1000000;
    for (size_t i = 0; i < NC_ARRAY_SIZE(units); i++)
        if (strlen(units[i].name) == n && strncmp(units[i].name, *pp, n) == 0) {
            *pp += n;
            return units[i].usec;
        }
    return 0;
}

/* "150", "2min 30s", "1.5s", "infinity". False where it is none of these. */
static bool parse_span(const char *p, uint64_t *ret) {
    double total = 0;

    if (nc_streq(p, "infinity")) {
        *ret = UINT64_MAX;
        return true;
    }
    if (!*p)
        return false;
    while (*p) {
        const size_t n = strspn(p, "0123456789.");
        nc_auto_free char *text = nc_strndup(p, n);
        char *end;
        const double number = strtod(text, &end);
        if (n == 0 || *end)
            return false;
        p += n;
        p += strspn(p, " \t");
        const uint64_t unit = next_unit(&p);
        if (unit == 0)
            return false;
        total += number * (double)unit;
        p += strspn(p, " \t");
    }
    *ret = total < 1e18 ? (uint64_t)total : UINT64_MAX;
    return true;
}

static void read_line(char *line, bool *in_login, uint64_t *usec) {
    line = nc_trim(line);
    if (*line == '[') {
        *in_login = nc_streq(line, "[Login]");
        return;
    }
    if (!*in_login || !nc_starts_with(line, KEY))
        return;
    line = nc_trim(line + strlen(KEY));
    if (*line == '=')
        (void)parse_span(nc_trim(line + 1), usec);
}

static void read_conf(const char *path, uint64_t *usec) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    bool in_login = false;
    char *rest, *line;

    if (nc_file_read(path, CONF_MAX_BYTES, &text, NULL) < 0)
        return;
    rest = text.data;
    while ((line = strsep(&rest, "\n")))
        read_line(line, &in_login, usec);
}

static bool has_name(const struct dropin *all, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (nc_streq(all[i].name, name))
            return true;
    return false;
}

static void add_folder(const char *root, const char *path, struct dropin **all, size_t *n) {
    nc_auto_free char *folder = nc_path_below(root, path);
    DIR *dir = opendir(folder);
    const struct dirent *e;

    while (dir && *n < MAX_DROPINS && (e = readdir(dir))) {
        if (!nc_ends_with(e->d_name, ".conf") || nc_streq(e->d_name, OWN_DROPIN)
            || has_name(*all, *n, e->d_name))
            continue;
        *nc_append(all, n) = (struct dropin){.name = nc_strdup(e->d_name),
                                             .path = nc_asprintf("%s/%s", folder, e->d_name)};
    }
    if (dir)
        (void)closedir(dir);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct dropin *)a)->name, ((const struct dropin *)b)->name);
}

bool nc_logind_is_short(const char *root, uint64_t delay_usec, struct nc_err *err) {
    nc_auto_free char *path = nc_path_below(root, "/etc/systemd/logind.conf.d/" OWN_DROPIN);
    uint64_t wanted_usec = 0;

    read_conf(path, &wanted_usec);
    if (delay_usec >= wanted_usec)
        return false;
    (void)nc_err_set(err, NC_ERR_HOST, ETIME,
                     "InhibitDelayMaxSec: logind waits %.1f s at a shutdown, %.1f s are needed",
                     (double)delay_usec / 1e6, (double)wanted_usec / 1e6);
    nc_err_remedy(err, "systemd-analyze cat-config systemd/logind.conf shows which file takes "
                       "precedence; then systemctl kill -s HUP systemd-logind");
    return true;
}

uint64_t nc_logind_configured_delay(const char *root) {
    static const char folders[][40] = {"/etc/systemd/logind.conf.d", "/run/systemd/logind.conf.d",
                                       "/usr/local/lib/systemd/logind.conf.d",
                                       "/usr/lib/systemd/logind.conf.d"};
    nc_auto_free char *main_file = nc_path_below(root, "/etc/systemd/logind.conf");
    struct dropin *all = NULL;
    uint64_t usec = 0;
    size_t n = 0;

    read_conf(main_file, &usec);
    for (size_t i = 0; i < NC_ARRAY_SIZE(folders); i++)
        add_folder(root, folders[i], &all, &n);
    if (n > 0)
        qsort(all, n, sizeof(*all), by_name);
    for (size_t i = 0; i < n; i++) {
        read_conf(all[i].path, &usec);
        free(all[i].name);
        free(all[i].path);
    }
    free(all);
    return usec;
}
