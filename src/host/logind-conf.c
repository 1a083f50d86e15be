/*
 * InhibitDelayMaxSec from the files that logind reads: logind.conf, then the drop-ins of all
 * folders in the order of their names, where a name in /etc hides the same name in /run and /usr
 * (systemd's conf-files.c).
 *
 * A value that logind could not read is passed over, as logind does.
 */
#include "probe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "image-tree.h"
#include "nc/host.h"
#include "nc/str.h"

#define FOLDER "/etc/systemd/logind.conf.d"
#define OWN_DROPIN "/zz-nodeclaimd.conf"
#define KEY "InhibitDelayMaxSec"

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
    const size_t n = strspn(*pp, NC_LOWER);

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

static void read_conf(struct nc_image_tree *t, const char *path, uint64_t *usec) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    bool in_login = false;
    char *rest, *line;

    if (!nc_image_tree_read(t, path, &text))
        return;
    rest = text.data;
    while ((line = strsep(&rest, "\n")))
        read_line(line, &in_login, usec);
}

bool nc_logind_is_short(const char *root, uint64_t delay_usec, struct nc_err *err) {
    struct nc_image_tree t;
    uint64_t wanted_usec = 0;

    if (nc_image_tree_open_any(&t, root, NULL) >= 0)
        read_conf(&t, FOLDER OWN_DROPIN, &wanted_usec);
    nc_image_tree_close(&t);
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
    static const char folders[] = FOLDER "\0/run/systemd/logind.conf.d\0"
                                         "/usr/local/lib/systemd/logind.conf.d\0"
                                         "/usr/lib/systemd/logind.conf.d\0";
    nc_cleanup(nc_strv_done) struct nc_strv all = NC_STRV_INIT, paths = NC_STRV_INIT;
    struct nc_image_tree t;
    uint64_t usec = 0;

    for (const char *f = folders; *f; f = nc_next_name(f))
        nc_strv_add(&all, f);
    if (nc_image_tree_open_any(&t, root, NULL) >= 0) {
        read_conf(&t, "/etc/systemd/logind.conf", &usec);
        nc_image_tree_confs(&t, &all, &paths);
    }
    for (size_t i = 0; i < paths.n; i++)
        if (!nc_ends_with(paths.v[i], OWN_DROPIN))
            read_conf(&t, paths.v[i], &usec);
    nc_image_tree_close(&t);
    return usec;
}
