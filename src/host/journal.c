/*
 * The last lines of somebody's log: kubelet's unit in this boot, or its file.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "nc/host.h"

#define TAIL_BYTES 8192
#define LINE_MAX_BYTES 512
#define TOTAL_MAX_BYTES 2048

static void add_line(struct nc_strv *ret, const char *text, size_t n) {
    nc_strv_take(ret, nc_strndup(text, n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES));
}

/* Entries come newest first. */
static void reverse(struct nc_strv *s) {
    for (size_t i = 0; i + 1 < s->n - i; i++) {
        char *other = s->v[i];
        s->v[i] = s->v[s->n - 1 - i];
        s->v[s->n - 1 - i] = other;
    }
}

static int filter(sd_journal *j, const char *unit) {
    nc_auto_free char *by_unit = nc_asprintf("_SYSTEMD_UNIT=%s", unit);
    char boot[SD_ID128_STRING_MAX];
    sd_id128_t id;
    int r = sd_id128_get_boot(&id);

    if (r >= 0) {
        nc_auto_free char *by_boot = nc_asprintf("_BOOT_ID=%s", sd_id128_to_string(id, boot));
        r = sd_journal_add_match(j, by_boot, 0);
    }
    return r < 0 ? r : sd_journal_add_match(j, by_unit, 0);
}

int nc_journal_tail(const char *unit, unsigned n, struct nc_strv *ret, struct nc_err *err) {
    sd_journal *j = NULL;
    size_t total = 0;
    int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

    if (r >= 0)
        r = filter(j, unit);
    if (r >= 0)
        r = sd_journal_seek_tail(j);
    while (r >= 0 && ret->n < n && total < TOTAL_MAX_BYTES && (r = sd_journal_previous(j)) > 0) {
        const void *data;
        size_t length;
        if (sd_journal_get_data(j, "MESSAGE", &data, &length) < 0 || length <= strlen("MESSAGE="))
            continue;
        add_line(ret, (const char *)data + strlen("MESSAGE="), length - strlen("MESSAGE="));
        total += length;
    }
    sd_journal_close(j);
    if (r < 0)
        return nc_err_set(err, NC_ERR_HOST, -r, "journal of %s: %s", unit, strerror(-r));
    if (ret->n == 0)
        return nc_err_set(err, NC_ERR_HOST, ENODATA, "journal of %s: nothing in this boot", unit);
    reverse(ret);
    return 0;
}

int nc_file_tail(const char *path, unsigned n, struct nc_strv *ret, struct nc_err *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char text[TAIL_BYTES + 1];
    struct stat st;
    ssize_t got = -1;
    char *end;

    if (fd < 0)
        return nc_err_set(err, NC_ERR_HOST, errno, "open %s: %s", path, strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        got = pread(fd, text, TAIL_BYTES, st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0);
    (void)close(fd);
    if (got <= 0)
        return nc_err_set(err, NC_ERR_HOST, ENODATA, "%s has no lines", path);
    text[got] = '\0';
    end = text + got;
    while (end > text && ret->n < n) {
        char *start;
        while (end > text && (end[-1] == '\n' || end[-1] == '\0'))
            end--;
        start = end;
        while (start > text && start[-1] != '\n')
            start--;
        if (end > start)
            add_line(ret, start, (size_t)(end - start));
        end = start;
    }
    if (ret->n == 0)
        return nc_err_set(err, NC_ERR_HOST, ENODATA, "%s has no lines", path);
    reverse(ret);
    return 0;
}
