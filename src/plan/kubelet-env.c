/*
 * Words in a line of an EnvironmentFile=: the rules of systemd (env-file.c for the line,
 * extract-word.c with EXTRACT_UNQUOTE and EXTRACT_RELAX for `$VARIABLE` on a command line).
 *
 * Two levels of quotes: the inner one keeps a word together, the outer one carries all of it
 * through the file. systemd makes the same words of it again.
 */
#include <errno.h>

#include "nc/fileset.h"
#include "nc/str.h"

#include "fileset-priv.h"

#define BLANKS " \t\n\r"

/* A word that is plain to both levels and to a shell into which a person may paste it. */
static bool is_plain(const char *token) {
    return *token && !strpbrk(token, BLANKS "\"'\\$`;#*?[]{}()<>|&~!");
}

/* The inner level: inside quotes a backslash takes the meaning from any character. */
static void add_env_token(struct nc_buf *out, const char *token) {
    if (is_plain(token)) {
        (void)nc_buf_puts(out, token);
        return;
    }
    (void)nc_buf_putc(out, '"');
    for (const char *p = token; *p; p++) {
        if (*p == '"' || *p == '\\')
            (void)nc_buf_putc(out, '\\');
        (void)nc_buf_putc(out, *p);
    }
    (void)nc_buf_putc(out, '"');
}

/* The outer level: single quotes keep everything but a single quote, which stands between double
 * ones. */
static void add_env_value(struct nc_buf *out, const char *value) {
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

static int check_token(const char *token, struct nc_err *err) {
    const size_t n = strlen(token);

    if (nc_is_text(token, n) && !strpbrk(token, "\t\n\r"))
        return 0;
    nc_auto_free char *quoted =
        nc_quote(token, strcspn(token, "=")); /* the value may be a secret */
    return nc_err_config(
        err,
        "kubelet flag %s has a control character or is not UTF-8: a flag is a string of one line",
        quoted);
}

int nc_env_join(const struct nc_strv *const *lists, size_t n_lists, struct nc_buf *out,
                struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf words = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf value = NC_BUF_INIT;

    for (size_t l = 0; l < n_lists; l++)
        for (size_t i = 0; i < lists[l]->n; i++) {
            const int r = check_token(lists[l]->v[i], err);
            if (r < 0)
                return r;
            if (words.len > 0)
                (void)nc_buf_putc(&words, ' ');
            add_env_token(&words, lists[l]->v[i]);
        }
    add_env_value(&value, words.data ? words.data : "");
    if (value.len > NC_ENV_MAX_BYTES)
        return nc_err_set(err, NC_ERR_CONFIG, E2BIG,
                          "kubelet's flags have %zu bytes, the kernel passes %d: shorten "
                          "spec.kubelet.flags, or use spec.kubelet.config",
                          value.len, NC_ENV_MAX_BYTES);
    return nc_buf_add(out, value.data ? value.data : "", value.len);
}
