/*
 * The last lines of somebody's log: kubelet's unit in this boot, or its file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "nc/host.h"

#define TAIL_BYTES 8192
#define LINE_MAX_BYTES 512
#define TOTAL_MAX_BYTES 2048

/* False where all lines together would have too many bytes. */
static bool add_line(struct nc_strv *ret, const char *text, size_t n, size_t *total) {
    if (n > LINE_MAX_BYTES)
        n = LINE_MAX_BYTES;
    if (*total + n > TOTAL_MAX_BYTES)
        return false;
    *total += n;
    nc_strv_take(ret, nc_strndup(text, n));
    return true;
}

/* Entries come newest first. */
static void reverse(struct nc_strv *s) {
    for (size_t i = 0; i + 1 < s->n - i; i++) {
        char *other = s->v[i];
        s->v[i] = s->v[s->n - 1 - i];
        s->v[s->n - 1 - i] = other;
    }
}

static int match(sd_journal *j, const char *field, const char *value) {
    nc_auto_free char *text = nc_asprintf("%s=%s", field, value);

    return sd_journal_add_match(j, text, 0);
}

/* What the unit's processes say, or what systemd says of the unit; both of this boot. */
static int filter(sd_journal *j, const char *unit) {
    char boot[SD_ID128_STRING_MAX];
    sd_id128_t id;
    int r = sd_id128_get_boot(&id);

    if (r >= 0)
        r = match(j, "_SYSTEMD_UNIT", unit);
    if (r >= 0)
        r = sd_journal_add_disjunction(j);
    if (r >= 0)
        r = match(j, "_PID", "1");
    if (r >= 0)
        r = match(j, "UNIT", unit);
    if (r >= 0)
        r = sd_journal_add_conjunction(j);
    return r < 0 ? r : match(j, "_BOOT_ID", sd_id128_to_string(id, boot));
}

int nc_journal_tail(const char *unit, unsigned n, struct nc_strv *ret, struct nc_err *err) {
    sd_journal *j = NULL;
    size_t total = 0;
    int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

    if (r >= 0)
        r = filter(j, unit);
    if (r >= 0)
        r = sd_journal_seek_tail(j);
    while (r >= 0 && ret->n < n && (r = sd_journal_previous(j)) > 0) {
        const void *data;
        size_t length;
        if (sd_journal_get_data(j, "MESSAGE", &data, &length) < 0 || length <= strlen("MESSAGE="))
            continue;
        if (!add_line(ret, (const char *)data + strlen("MESSAGE="), length - strlen("MESSAGE="),
                      &total))
            break;
    }
    sd_journal_close(j);
    if (r < 0)
        return nc_err_set(err, NC_ERR_HOST, -r, "journal of %s: %s", unit, strerror(-r));
    if (ret->n == 0)
        return nc_err_set(err, NC_ERR_HOST, ENODATA, "journal of %s: nothing in this boot", unit);
    reverse(ret);
    return 0;
}

/* The last whole lines of a text, newest first. */
static void last_lines(const char *text, size_t length, unsigned n, struct nc_strv *ret) {
    const char *end = text + length;
    size_t total = 0;

    while (end > text && ret->n < n) {
        const char *start;
        while (end > text && (end[-1] == '\n' || end[-1] == '\0'))
            end--;
        start = end;
        while (start > text && start[-1] != '\n')
            start--;
        if (end > start && !add_line(ret, start, (size_t)(end - start), &total))
            return;
        end = start;
    }
}

int nc_file_tail(const char *path, unsigned n, struct nc_strv *ret, struct nc_err *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char text[TAIL_BYTES];
    const char *start = text;
    struct stat st;
    ssize_t got = -1;

    if (fd < 0)
        return nc_err_set(err, NC_ERR_HOST, errno, "open %s: %s", path, strerror(errno));
    const bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    const off_t from = is_file && st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
    if (is_file)
        got = pread(fd, text, TAIL_BYTES, from);
    (void)close(fd);
    if (got > 0 && from > 0) { /* the window begins within a line */
        const char *newline = memchr(text, '\n', (size_t)got);
        start = newline ? newline : text;
    }
    if (got > 0)
        last_lines(start, (size_t)(text + got - start), n, ret);
    if (ret->n == 0)
        return nc_err_set(err, NC_ERR_HOST, ENODATA, "%s has no lines", path);
    reverse(ret);
    return 0;
}
