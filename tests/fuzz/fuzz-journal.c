/*
 * The journal's tail: entries that any program on the machine may write. What is shown is bounded,
 * whatever they say: at most so many lines, each cut, and in all no more than the cap and one line
 * that says why. The first byte says how many are requested; entries end with 0x1e, newest first.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-journal.h>

#include "nc/host.h"

#define END_OF_ENTRY 0x1e
#define FIELD "MESSAGE="
#define LINE_MAX_BYTES 512
#define TOTAL_MAX_BYTES 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const uint8_t *rest;
static size_t n_rest;
static struct nc_buf entry;

/* In the place of libsystemd's. */
int sd_journal_open(sd_journal **ret, int flags) {
    (void)flags;
    *ret = NULL;
    return 0;
}

void sd_journal_close(sd_journal *j) {
    (void)j;
}

int sd_journal_add_match(sd_journal *j, const void *data, size_t size) {
    (void)j;
    (void)data;
    (void)size;
    return 0;
}

int sd_journal_add_disjunction(sd_journal *j) {
    (void)j;
    return 0;
}

int sd_journal_add_conjunction(sd_journal *j) {
    (void)j;
    return 0;
}

int sd_journal_seek_tail(sd_journal *j) {
    (void)j;
    return 0;
}

int sd_journal_previous(sd_journal *j) {
    const uint8_t *end = n_rest > 0 ? memchr(rest, END_OF_ENTRY, n_rest) : NULL;
    const size_t length = end ? (size_t)(end - rest) : n_rest;

    (void)j;
    if (n_rest == 0)
        return 0;
    nc_buf_clear(&entry);
    (void)nc_buf_puts(&entry, FIELD);
    (void)nc_buf_add(&entry, (const char *)rest, length);
    rest += end ? length + 1 : length;
    n_rest -= end ? length + 1 : length;
    return 1;
}

int sd_journal_get_data(sd_journal *j, const char *field, const void **ret, size_t *ret_n) {
    (void)j;
    if (strcmp(field, "MESSAGE") != 0)
        return -ENOENT;
    *ret = entry.data;
    *ret_n = entry.len;
    return 0;
}

/* The line that is found was said, and is cut as the others are. */
static void find(const uint8_t *data, size_t n) {
    static const char *const words[] = {"a", "b"};
    nc_auto_free char *line = NULL;

    rest = data;
    n_rest = n;
    if (nc_journal_find(1, words, &line, NULL) < 0 || (line && strlen(line) > LINE_MAX_BYTES))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    const unsigned wanted = n > 0 ? data[0] % 8 : 0;
    struct nc_err err = NC_ERR_INIT;
    size_t total = 0;
    int r;

    rest = n > 0 ? data + 1 : data;
    n_rest = n > 0 ? n - 1 : 0;
    r = nc_journal_tail("kubelet.service", wanted, &lines, &err);
    for (size_t i = 0; i < lines.n; i++) {
        if (strlen(lines.v[i]) > LINE_MAX_BYTES)
            abort();
        total += strlen(lines.v[i]);
    }
    if (lines.n > wanted || total > TOTAL_MAX_BYTES + LINE_MAX_BYTES)
        abort();
    if ((r < 0) != (lines.n == 0) || (r < 0 && (err.class != NC_ERR_HOST || !err.msg[0])))
        abort();
    find(data, n);
    nc_buf_done(&entry);
    entry = (struct nc_buf)NC_BUF_INIT;
    return 0;
}
