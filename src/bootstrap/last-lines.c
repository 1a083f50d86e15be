/*
 * What a unit, or kubelet as a process, has said last: for errors, which name it.
 */
#include "bootstrap.h"
#include "nc/file.h"
#include "nc/str.h"

#define DEFAULT_LOG "/var/log/nodeclaimd-kubelet.log"
#define LAST_LINES 3
#define LAST_LINES_USEC 3000000u /* a journal is not opened again before */

char *nc_kubelet_log(const struct nc_bootstrap *b) {
    return nc_app_path_or(b->app, b->app->opts.kubelet_log, DEFAULT_LOG);
}

/* "I1123 05:12:09.5 1 run.go:72] …" */
static bool is_klog(const char *line) {
    return strlen(line) > 5 && line[5] == ' ' && strspn(line + 1, "0123456789") == 4;
}

/* A line without an error is of no use beside one that has one: kubelet's first has its options. */
static bool has_error(const struct nc_strv *lines) {
    for (size_t i = 0; i < lines->n; i++)
        if (strstr(lines->v[i], "err=\""))
            return true;
    return false;
}

static char *last_lines_text(const struct nc_strv *lines) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const bool is_info_left_out = has_error(lines);
    const char *before = "; its last lines: ";

    for (size_t i = 0; i < lines->n; i++) {
        if (is_info_left_out && *lines->v[i] == 'I' && is_klog(lines->v[i]))
            continue;
        /* klog's head states when; the error is what it names so, else what follows the head. */
        const char *error = strstr(lines->v[i], "err=\"");
        const char *head = is_klog(lines->v[i]) ? strstr(lines->v[i], "] ") : NULL;
        const char *from = error ? error : head ? head + 2 : lines->v[i];
        nc_auto_free char *quoted = nc_quote_most(from, strlen(from), error ? 200 : 80);
        (void)nc_buf_printf(&text, "%s%s", before, quoted);
        before = " | ";
    }
    return nc_buf_steal(&text);
}

static char *read_last_lines(const struct nc_bootstrap *b, const char *unit) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    nc_auto_free char *path = nc_kubelet_log(b);
    const int r = b->kubelet.mode == NC_START_SYSTEMD
                      ? nc_journal_tail(unit, LAST_LINES, &lines, NULL)
                      : nc_file_tail(path, LAST_LINES, &lines, NULL);

    return r < 0 ? nc_strdup("") : last_lines_text(&lines);
}

const char *nc_kubelet_remedy(const char *last_lines) {
    return strstr(last_lines, "containerd.sock")
               ? "systemctl status containerd; journalctl -u containerd"
               : "nodeclaimd explain says where each setting is from";
}

/* Of the unit that was started last. */
const char *nc_last_lines(struct nc_bootstrap *b, const char *unit) {
    const uint64_t now = nc_mono_usec();

    if (!b->kubelet.last_lines || now - b->kubelet.last_lines_usec > LAST_LINES_USEC) {
        free(b->kubelet.last_lines);
        b->kubelet.last_lines = read_last_lines(b, unit);
        b->kubelet.last_lines_usec = now;
    }
    return b->kubelet.last_lines;
}
