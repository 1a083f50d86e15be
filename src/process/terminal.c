/*
 * Lines, colours and local times of what people read. No library knows terminals here: two control
 * sequences of ECMA-48 are all that is used.
 */
#include "process.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "nc/str.h"
#include "nc/time.h"

#define USUAL_COLUMNS 80
#define FEWEST_COLUMNS 40
#define TIME_SHAPE "0000-00-00T00:00:00Z" /* 0 is a digit */
#define DEEPEST_COLUMN 40 /* a gap further on is none between a title and its text */

struct nc_terminal nc_terminal_of(int fd) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    struct nc_terminal t = {.columns = USUAL_COLUMNS};
    struct winsize size = {0};

    if (ioctl(fd, TIOCGWINSZ, &size) < 0)
        return (struct nc_terminal){0};
    if (size.ws_col > 0)
        t.columns = size.ws_col < FEWEST_COLUMNS ? 0 : size.ws_col;
    t.rows = size.ws_row;
    t.can_move = term && *term && !nc_streq(term, "dumb");
    t.has_colour = t.can_move && !(no_colour && *no_colour);
    return t;
}

/* --- times */

static bool joins(char c) {
    return isalnum((unsigned char)c) || c == '-';
}

/* Does "2026-01-02T03:04:05Z" stand here, and is it no part of a longer word, such as an id? */
static bool is_time(const char *text, const char *at) {
    static const char shape[] = TIME_SHAPE;
    size_t i = 0;

    while (shape[i] && (shape[i] == '0' ? (at[i] >= '0' && at[i] <= '9') : at[i] == shape[i]))
        i++;
    return !shape[i] && !joins(at[i]) && (at == text || !joins(at[-1]));
}

/* Puts the time of `utc` as it is here; false where it is none. */
static bool format_local(const char *utc, char ret[static 64]) {
    uint64_t usec;
    struct tm tm;
    time_t at;

    if (nc_time_parse(utc, &usec) < 0)
        return false;
    at = (time_t)(usec / 1000000);
    return localtime_r(&at, &tm) && strftime(ret, 64, "%F %T %Z", &tm) > 0;
}

/* Appends the time at `from` as it is here, and returns what follows. In a table it takes blanks
 * for as much as it is longer. */
static const char *add_time(const char *from, struct nc_buf *out) {
    const size_t n = strlen(TIME_SHAPE);
    nc_auto_free char *utc = nc_strndup(from, n);
    char local[64];
    const bool is_time = format_local(utc, local);
    const size_t length = is_time ? strlen(local) : n;

    (void)nc_buf_puts(out, is_time ? local : utc);
    from += n;
    return length > n && strspn(from, " ") >= length - n + 2 ? from + (length - n) : from;
}

static void add_local_times(const char *text, struct nc_buf *out) {
    for (const char *p = text; *p;) {
        if (is_time(text, p))
            p = add_time(p, out);
        else
            (void)nc_buf_putc(out, *p++);
    }
}

/* --- lines */

/* Columns that n bytes take: a mark, and the inside of a character of UTF-8, take none. */
static size_t count_columns(const char *text, size_t n) {
    size_t columns = 0;

    for (size_t i = 0; i < n; i++)
        columns += (unsigned char)text[i] >= ' ' && ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* The column in which what belongs to the line's title, or to its first cell, begins. */
static size_t text_column(const char *line, size_t n) {
    size_t lead = 0, i;

    while (lead < n && line[lead] == ' ')
        lead++;
    for (i = lead; i + 1 < n && !(line[i] == ' ' && line[i + 1] == ' ');)
        i++;
    while (i < n && line[i] == ' ')
        i++;
    return i + 1 < n && count_columns(line, i) <= DEEPEST_COLUMN ? count_columns(line, i) : lead;
}

static void add_word(const struct nc_terminal *t, const char *word, size_t n, struct nc_buf *out) {
    static const char colours[][6] = {"\033[32m", "\033[33m", "\033[31m", "\033[0m"};

    for (size_t i = 0; i < n; i++) {
        const size_t mark = (size_t)(unsigned char)word[i] - 1;
        if (mark >= NC_ARRAY_SIZE(colours))
            (void)nc_buf_putc(out, word[i]);
        else if (t->has_colour)
            (void)nc_buf_puts(out, colours[mark]);
    }
}

/* A word that is longer than a line stays whole. */
static void add_line(const struct nc_terminal *t, const char *line, size_t n, struct nc_buf *out) {
    const size_t indent = text_column(line, n);
    size_t column = 0;

    for (size_t at = 0; at < n;) {
        size_t gap = 0, length = 0, columns;
        while (at + gap < n && line[at + gap] == ' ')
            gap++;
        at += gap;
        while (at + length < n && line[at + length] != ' ')
            length++;
        columns = count_columns(line + at, length);
        if (t->columns && column > indent && column + gap + columns > t->columns) {
            (void)nc_buf_putc(out, '\n');
            gap = indent;
            column = 0;
        }
        if (length > 0)
            (void)nc_buf_printf(out, "%*s", (int)gap, "");
        add_word(t, line + at, length, out);
        column += gap + columns;
        at += length;
    }
    (void)nc_buf_putc(out, '\n');
}

void nc_terminal_format(const struct nc_terminal *t, const char *text, struct nc_buf *out) {
    nc_cleanup(nc_buf_done) struct nc_buf local = NC_BUF_INIT;

    add_local_times(text, &local);
    for (const char *line = local.data; line && *line;) {
        const size_t n = strcspn(line, "\n");
        add_line(t, line, n, out);
        line += n + (line[n] == '\n');
    }
}

void nc_terminal_print(FILE *to, const char *text) {
    const struct nc_terminal t = nc_terminal_of(to == stderr ? STDERR_FILENO : STDOUT_FILENO);
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;

    nc_terminal_format(&t, text ? text : "", &out);
    if (out.data)
        (void)fwrite(out.data, 1, out.len, to);
}
