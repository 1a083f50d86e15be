/*
 * The words that systemd's EnvironmentFile= and $NODECLAIMD_KUBELET_ARGS on a command line make of
 * what stands behind "NODECLAIMD_KUBELET_ARGS=" in kubelet.env: the rules of its load_env_file()
 * and replace_env_argv(), written down a second time.
 */
#ifndef SYSTEMD_ENV_H
#define SYSTEMD_ENV_H

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "nc/err.h"
#include "nc/mem.h"

#define BLANKS " \t\n\r"

static inline int half_quote(struct nc_err *err, char quote) {
    return nc_err_set(err, NC_ERR_HOST, EINVAL, "a %s quote is not closed",
                      quote == '"' ? "double" : "single");
}

/* Copies a quoted part of the line's value; p is behind the quote. NULL where it does not end. */
static inline const char *unquote_part(const char *p, char quote, struct nc_buf *out) {
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
static inline int line_value(const char *p, struct nc_buf *out, struct nc_err *err) {
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
static inline int next_word(const char **pp, struct nc_strv *ret, struct nc_err *err) {
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
    nc_strv_push(ret, nc_buf_steal(&word));
    return 0;
}

static inline int systemd_env_split(const char *line, struct nc_strv *ret, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf value = NC_BUF_INIT;
    int r = line_value(line, &value, err);
    const char *p = value.data ? value.data : "";

    for (p += strspn(p, BLANKS); r >= 0 && *p; p += strspn(p, BLANKS))
        r = next_word(&p, ret, err);
    if (r < 0)
        nc_err_wrap(err, "kubelet.env");
    return r;
}

#endif
