/*
 * Words in a line of an EnvironmentFile=, and back: the rules of systemd (env-file.c for the line,
 * extract-word.c with EXTRACT_UNQUOTE and EXTRACT_RELAX for `$VARIABLE` on a command line).
 *
 * Two levels of quotes: the inner one keeps a word together, the outer one carries the whole
 * through the file. What is written here is read back by systemd to the same words; where there is
 * no systemd it is read back here. Half a quote, which systemd lets pass, is an error.
 */
#include <errno.h>

#include "nc/fileset.h"
#include "nc/str.h"

#include "fileset-priv.h"

#define BLANKS " \t\n\r"

/* A word that is plain to both levels and to a shell into which a person may paste it. */
static bool is_plain(const char *word) {
    return *word && !strpbrk(word, BLANKS "\"'\\$`;#*?[]{}()<>|&~!");
}

/* The inner level: inside quotes a backslash takes the meaning from any character. */
static void put_word(struct nc_buf *out, const char *word) {
    if (is_plain(word)) {
        (void)nc_buf_puts(out, word);
        return;
    }
    (void)nc_buf_putc(out, '"');
    for (const char *p = word; *p; p++) {
        if (*p == '"' || *p == '\\')
            (void)nc_buf_putc(out, '\\');
        (void)nc_buf_putc(out, *p);
    }
    (void)nc_buf_putc(out, '"');
}

/* The outer level: single quotes keep everything but a single quote, which stands between double
 * ones. */
static void put_value(struct nc_buf *out, const char *value) {
    if (!strpbrk(value, "\"'\\$`#;")) {
        (void)nc_buf_puts(out, value);
        return;
    }
    (void)nc_buf_putc(out, '\'');
    for (const char *p = value; *p; p++)
        if (*p == '\'')
            (void)nc_buf_puts(out, "'\"'\"'");
        else
            (void)nc_buf_putc(out, *p);
    (void)nc_buf_putc(out, '\'');
}

static int check_word(const char *word, struct nc_err *err) {
    const size_t n = strlen(word);

    if (nc_is_text(word, n) && !strpbrk(word, "\t\n\r"))
        return 0;
    nc_auto_free char *quoted = nc_quote(word, n);
    return nc_err_set(err, NC_ERR_CONFIG, EINVAL,
                      "kubelet flag %s has a control character or is not UTF-8: a flag is one line "
                      "of text",
                      quoted);
}

int nc_env_join(const struct nc_strv *const *lists, size_t n_lists, struct nc_buf *out,
                struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf words = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf value = NC_BUF_INIT;

    for (size_t l = 0; l < n_lists; l++)
        for (size_t i = 0; i < lists[l]->n; i++) {
            const int r = check_word(lists[l]->v[i], err);
            if (r < 0)
                return r;
            if (words.len > 0)
                (void)nc_buf_putc(&words, ' ');
            put_word(&words, lists[l]->v[i]);
        }
    put_value(&value, words.data ? words.data : "");
    if (value.len > NC_ENV_MAX_BYTES)
        return nc_err_set(err, NC_ERR_CONFIG, E2BIG,
                          "kubelet's flags have %zu bytes, the kernel passes %d: shorten "
                          "kubelet.flags, or use kubelet.config",
                          value.len, NC_ENV_MAX_BYTES);
    return nc_buf_add(out, value.data ? value.data : "", value.len);
}

static int half_quote(struct nc_err *err, char quote) {
    return nc_err_set(err, NC_ERR_HOST, EINVAL, "a %s quote is not closed",
                      quote == '"' ? "double" : "single");
}

/* Copies a quoted part of the line's value; p is behind the quote. NULL where it does not end. */
static const char *unquote_part(const char *p, char quote, struct nc_buf *out) {
    for (; *p && *p != quote; p++) {
        if (quote == '"' && *p == '\\' && p[1]) {
            /* Only what a shell would need escaped loses its backslash. */
            if (!strchr("\"\\`$", *++p))
                (void)nc_buf_putc(out, '\\');
        }
        (void)nc_buf_putc(out, *p);
    }
    return *p ? p + 1 : NULL;
}

/* The line's value as the variable will have it. A quote counts only where no unquoted text stands
 * before it; from the first such text on, only backslashes and trailing blanks are special. */
static int line_value(const char *p, struct nc_buf *out, struct nc_err *err) {
    size_t end = 0; /* of the value without trailing blanks */

    for (p += strspn(p, BLANKS); *p == '\'' || *p == '"'; p += strspn(p, BLANKS)) {
        const char quote = *p;
        p = unquote_part(p + 1, quote, out);
        if (!p)
            return half_quote(err, quote);
        end = out->len;
    }
    for (; *p; p++) {
        const bool escaped = *p == '\\';
        if (escaped && !*++p) {
            end = out->len; /* it is gone, but what stands before it is no longer the end */
            break;
        }
        (void)nc_buf_putc(out, *p);
        if (escaped || !strchr(BLANKS, *p))
            end = out->len;
    }
    if (out->data)
        out->data[end] = '\0';
    return 0;
}

/* One word of the value; *pp is at its first character, afterwards behind its last. */
static int next_word(const char **pp, struct nc_strv *ret, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf word = NC_BUF_INIT;
    const char *p = *pp;
    char quote = 0;

    for (; *p && (quote || !strchr(BLANKS, *p)); p++) {
        if (quote && *p == quote)
            quote = 0;
        else if (!quote && (*p == '"' || *p == '\''))
            quote = *p;
        else if (*p != '\\')
            (void)nc_buf_putc(&word, *p);
        else if (p[1])
            (void)nc_buf_putc(&word, *++p);
    }
    if (quote)
        return half_quote(err, quote);
    *pp = p;
    nc_strv_take(ret, nc_buf_steal(&word));
    return 0;
}

int nc_env_split(const char *line, struct nc_strv *ret, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf value = NC_BUF_INIT;
    int r = line_value(line, &value, err);
    const char *p = value.data ? value.data : "";

    for (p += strspn(p, BLANKS); r >= 0 && *p; p += strspn(p, BLANKS))
        r = next_word(&p, ret, err);
    if (r < 0)
        nc_err_wrap(err, "kubelet.env");
    return r;
}
