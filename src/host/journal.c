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
#define WINDOW_LINES 200 /* so far back the cause is searched for */

/* How much a line says of why a unit ended: what systemd says of the end itself, what the unit's
 * processes say, the cause. */
enum worth { WORTH_END = 0, WORTH_OWN, WORTH_CAUSE };

/* Lines as they are read: newest first. */
struct tail {
    struct nc_strv *ret;
    unsigned n, seen;
    size_t total;
    bool is_full;
    enum worth best; /* of the lines that are kept */
};

static bool contains_word(const char *text, size_t n, const char *word) {
    return memmem(text, n, word, strlen(word)) != NULL;
}

/* Does this line state what went wrong? klog's errors and fatal ones ("E1123 05:12:09.5 …"),
 * structured errors, what Go programs print before they end; of what systemd says, why there was no
 * process at all. */
static bool explains_failure(const char *text, size_t n) {
    const bool is_klog = n > 6 && (text[0] == 'E' || text[0] == 'F') && text[5] == ' '
                         && strspn(text + 1, "0123456789") == 4;

    return is_klog || contains_word(text, n, "err=\"") || contains_word(text, n, "rror: ")
           || contains_word(text, n, "panic: ")
           || contains_word(text, n, "Failed to load environment files");
}

/* The newest n lines, and in the place of the oldest of them the newest that says more of why than
 * any of them does: a unit that is started again and again covers its error up. False: that is all.
 */
static bool keep_line(struct tail *t, const char *text, size_t n, bool is_own) {
    if (n > LINE_MAX_BYTES)
        n = LINE_MAX_BYTES;
    nc_auto_free char *line = nc_strndup(text, n);
    const enum worth worth = explains_failure(line, strlen(line)) ? WORTH_CAUSE
                             : is_own                             ? WORTH_OWN
                                                                  : WORTH_END;

    t->is_full |= t->ret->n >= t->n || t->total + n > TOTAL_MAX_BYTES;
    if (!t->is_full) {
        t->total += n;
        nc_strv_push(t->ret, nc_steal(&line));
    } else if (worth > t->best && t->ret->n > 0) {
        free(t->ret->v[t->ret->n - 1]);
        t->ret->v[t->ret->n - 1] = nc_steal(&line);
    }
    if (worth > t->best)
        t->best = worth;
    return !(t->best == WORTH_CAUSE && t->is_full) && ++t->seen < WINDOW_LINES;
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

static int match_boot(sd_journal *j) {
    char boot[SD_ID128_STRING_MAX];
    sd_id128_t id;
    const int r = sd_id128_get_boot(&id);

    return r < 0 ? r : match(j, "_BOOT_ID", sd_id128_to_string(id, boot));
}

/* What the unit's processes say, or what systemd says of the unit; both of this boot. */
static int filter(sd_journal *j, const char *unit) {
    int r = match(j, "_SYSTEMD_UNIT", unit);

    if (r >= 0)
        r = sd_journal_add_disjunction(j);
    if (r >= 0)
        r = match(j, "_PID", "1");
    if (r >= 0)
        r = match(j, "UNIT", unit);
    if (r >= 0)
        r = sd_journal_add_conjunction(j);
    return r < 0 ? r : match_boot(j);
}

/* The message of the entry, not ended by a NUL; NULL: it has none. */
static const char *message(sd_journal *j, size_t *ret_n) {
    static const char field[] = "MESSAGE=";
    const void *data;

    if (sd_journal_get_data(j, "MESSAGE", &data, ret_n) < 0 || *ret_n < sizeof(field))
        return NULL;
    *ret_n -= sizeof(field) - 1;
    return (const char *)data + sizeof(field) - 1;
}

int nc_journal_tail(const char *unit, unsigned n, struct nc_strv *ret, struct nc_err *err) {
    sd_journal *j = NULL;
    struct tail t = {.ret = ret, .n = n};
    bool wants_more = n > 0;
    int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

    if (r >= 0)
        r = filter(j, unit);
    if (r >= 0)
        r = sd_journal_seek_tail(j);
    while (r >= 0 && wants_more && (r = sd_journal_previous(j)) > 0) {
        const void *pid;
        size_t length, pid_length;
        const char *text = message(j, &length);
        const bool is_own = sd_journal_get_data(j, "_PID", &pid, &pid_length) < 0
                            || pid_length != strlen("_PID=1")
                            || memcmp(pid, "_PID=1", pid_length) != 0;
        if (text)
            wants_more = keep_line(&t, text, length, is_own);
    }
    sd_journal_close(j);
    if (r < 0)
        return nc_err_host(err, r, "journal of %s", unit);
    if (ret->n == 0)
        return nc_err_set(err, NC_ERR_HOST, ENODATA, "journal of %s: nothing in this boot", unit);
    reverse(ret);
    return 0;
}

int nc_journal_find(unsigned pid, const char *const words[static 2], char **ret,
                    struct nc_err *err) {
    nc_auto_free char *number = nc_asprintf("%u", pid), *line = NULL;
    sd_journal *j = NULL;
    int r = sd_journal_open(&j, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM);

    if (r >= 0)
        r = match(j, "_PID", number);
    if (r >= 0)
        r = match_boot(j);
    if (r >= 0)
        r = sd_journal_seek_tail(j);
    while (r >= 0 && (r = sd_journal_previous(j)) > 0) {
        size_t n;
        const char *text = message(j, &n);
        if (text && contains_word(text, n, words[0]) && contains_word(text, n, words[1])) {
            free(line);
            line = nc_strndup(text, n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES);
        }
    }
    sd_journal_close(j);
    *ret = nc_steal(&line);
    return r < 0 ? nc_err_host(err, r, "journal of process %u", pid) : 0;
}

/* The last complete lines of a text, newest first. */
static void last_lines(const char *text, size_t length, unsigned n, struct nc_strv *ret) {
    const char *end = text + length;
    struct tail t = {.ret = ret, .n = n};
    bool wants_more = n > 0;

    while (end > text && wants_more) {
        const char *start;
        while (end > text && (end[-1] == '\n' || end[-1] == '\0'))
            end--;
        start = end;
        while (start > text && start[-1] != '\n')
            start--;
        if (end > start)
            wants_more = keep_line(&t, start, (size_t)(end - start), true);
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
        return nc_err_host(err, errno, "open %s", path);
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
