/*
 * Diagnostics: collecting, counting and printing them, and the text of a place in a document.
 */
#include "config-priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nc/str.h"

static const char *source_name(const struct nc_documents *d, unsigned source) {
    return source < d->n_sources ? d->sources[source].name : "built-in default";
}

char *nc_mark_location(const struct nc_documents *d, struct nc_mark m) {
    if (m.line == 0)
        return nc_strdup(source_name(d, m.source));
    if (m.source < d->n_sources && d->sources[m.source].has_own_lines)
        return nc_asprintf("%s, line %u", source_name(d, m.source), m.line);
    return nc_asprintf("%s:%u:%u", source_name(d, m.source), m.line, m.column);
}

struct nc_mark nc_mark_inside(struct nc_mark text, struct nc_mark inside, char **ret_line) {
    const bool is_own = text.indent && inside.line > 0;

    *ret_line = is_own || inside.line == 0
                    ? nc_strdup("")
                    : nc_asprintf("line %u, column %u: ", inside.line, inside.column);
    inside.source = text.source;
    return is_own ? inside : text;
}

char *nc_value_describe(const struct nc_value *v) {
    nc_auto_free char *quoted = NULL;

    switch (v->type) {
    case NC_VALUE_NULL:
        return nc_strdup("null");
    case NC_VALUE_BOOL:
        return nc_strdup(v->boolean ? "true" : "false");
    case NC_VALUE_INT:
        return nc_asprintf("the number %lld", (long long)v->integer);
    case NC_VALUE_FLOAT:
        return nc_asprintf("the number %.40s", v->text);
    case NC_VALUE_STRING:
    case NC_VALUE_TIME:
        quoted = nc_quote_string(v->text);
        return nc_asprintf("the string %s", quoted);
    case NC_VALUE_MAP:
        return nc_strdup("a map");
    case NC_VALUE_LIST:
        return nc_strdup("a list");
    case _NC_VALUE_TYPE_MAX:
        break;
    }
    return nc_strdup("nothing");
}

static size_t count(const struct nc_documents *d, bool is_error) {
    size_t n = 0;

    for (size_t i = 0; i < d->n_diags; i++)
        n += d->diags[i].is_error == is_error;
    return n;
}

struct nc_diagnostic *nc_diag(struct nc_documents *d, bool is_error, struct nc_mark mark,
                              const char *path, const char *format, ...) {
    struct nc_diagnostic *diag = NULL;
    va_list ap;

    if (count(d, is_error) >= NC_DIAGS_MAX)
        return NULL;
    diag = nc_append(&d->diags, &d->n_diags);
    diag->is_error = is_error;
    diag->mark = mark;
    diag->path = nc_strdup(path);
    va_start(ap, format);
    diag->message = nc_vasprintf(format, ap);
    va_end(ap);
    return diag;
}

void nc_documents_warn(struct nc_documents *d, struct nc_mark mark, const char *path,
                       const char *message) {
    nc_diag(d, false, mark, path, "%s", message);
}

void nc_diag_unsupported(struct nc_documents *d, struct nc_mark mark, const char *path,
                         const char *why) {
    struct nc_diagnostic *diag = nc_diag(d, false, mark, path, "is not supported: %s", why);

    if (diag)
        diag->kind = NC_DIAGNOSTIC_UNSUPPORTED;
}

int nc_diag_err(const struct nc_documents *d, struct nc_mark mark, const char *path,
                const char *message, struct nc_err *err) {
    nc_auto_free char *place = nc_mark_location(d, mark);
    const int r = nc_err_config(err, "%s: %s%s%s", place, path, path[0] ? ": " : "", message);

    if (err)
        err->mark = mark;
    return r;
}

size_t nc_documents_errors(const struct nc_documents *d) {
    return count(d, true);
}

int nc_documents_first_error(const struct nc_documents *d, struct nc_err *err) {
    const size_t n = nc_documents_errors(d);
    const struct nc_diagnostic *first = d->diags;
    nc_auto_free char *message = NULL;

    if (n == 0)
        return 0;
    while (!first->is_error)
        first++;
    if (n > 1) /* rules between fields come later */
        message = nc_asprintf("%s; and at least %zu more", first->message, n - 1);
    return nc_diag_err(d, first->mark, first->path, message ? message : first->message, err);
}

static int by_place(const void *a, const void *b) {
    const struct nc_mark *x = &((const struct nc_diagnostic *)a)->mark,
                         *y = &((const struct nc_diagnostic *)b)->mark;
    const unsigned left[] = {x->source, x->line, x->column},
                   right[] = {y->source, y->line, y->column};
    size_t i = 0;

    while (i < 2 && left[i] == right[i])
        i++;
    return (left[i] > right[i]) - (left[i] < right[i]);
}

void nc_documents_sort(struct nc_documents *d) {
    if (d->n_diags > 1)
        qsort(d->diags, d->n_diags, sizeof(*d->diags), by_place);
}

void nc_documents_print(const struct nc_documents *d, bool with_errors, struct nc_buf *out) {
    for (size_t i = 0; i < d->n_diags; i++) {
        const struct nc_diagnostic *diag = &d->diags[i];
        nc_auto_free char *place = nc_mark_location(d, diag->mark);

        if (diag->is_error && !with_errors)
            continue;
        (void)nc_buf_printf(out, "%s: %s: %s%s%s\n", place, diag->is_error ? "error" : "warning",
                            diag->path, diag->path[0] ? ": " : "", diag->message);
    }
}
