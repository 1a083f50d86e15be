/*
 * What `check` prints: diagnostics and notes, as text or JSON.
 */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "gather.h"
#include "nc/str.h"

/* Is it a diagnostic? */
static bool is_told_otherwise(const struct nc_plan *p, const char *warning) {
    for (size_t i = 0; i < p->n_certain; i++)
        if (nc_ends_with(warning, p->certain[i].message))
            return true;
    return false;
}

/* What is no diagnostic: it may be different on another host. */
static struct nc_strv find_notes(const struct nc_gather *g) {
    const struct nc_plan *p = &g->plan;
    const struct nc_strv *lists[] = {&g->ignored, &g->config.warnings, &g->warnings, &p->warnings,
                                     &p->less};
    struct nc_strv notes = NC_STRV_INIT;

    for (size_t l = 0; l < NC_ARRAY_SIZE(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (!is_told_otherwise(p, lists[l]->v[i]))
                nc_strv_add(&notes, lists[l]->v[i]);
    return notes;
}

/* Finds "SOURCE:LINE:COLUMN" in a message. Gives the message without it where it begins with it. */
static const char *cut_place(const struct nc_documents *d, const char *message,
                             struct nc_mark *ret) {
    for (unsigned i = 0; i < d->n_sources; i++) {
        const char *at = *d->sources[i].name ? strstr(message, d->sources[i].name) : NULL;
        struct nc_mark mark = {.source = i};
        int used = 0;

        if (!at || (at > message && at[-1] != ' ')
            || sscanf(at + strlen(d->sources[i].name), ":%9u:%9u%n", &mark.line, &mark.column,
                      &used)
                   != 2)
            continue;
        *ret = mark;
        used += (int)strlen(d->sources[i].name);
        return at == message && nc_starts_with(at + used, ": ") ? at + used + 2 : message;
    }
    return message;
}

static void push_entry(struct nc_value *list, const struct nc_documents *d, const char *severity,
                       const struct nc_diagnostic *said) {
    const struct nc_document_source *source =
        said->mark.source ? &d->sources[said->mark.source] : NULL;
    struct nc_value *one = nc_value_new_map();
    nc_auto_free char *file = source ? nc_strndup(source->name, source->n_file) : NULL;
    nc_auto_free char *inside = source && source->has_own_lines && said->mark.line > 0
                                    ? nc_asprintf("line %u: %s%s%s", said->mark.line, said->path,
                                                  *said->path ? ": " : "", said->message)
                                    : NULL;

    nc_value_set_string(one, "severity", severity);
    if (file)
        nc_value_set_string(one, "source", file);
    if (said->mark.line > 0 && !inside) {
        nc_value_set_int(one, "line", said->mark.line);
        nc_value_set_int(one, "column", said->mark.column);
    }
    nc_value_set_string(one, "path", inside ? "spec.userData" : said->path);
    nc_value_set_string(one, "message", inside ? inside : said->message);
    nc_value_push(list, one);
}

/* Of what is no diagnostic, place and path are in the message. */
static void push_message(struct nc_value *list, const struct nc_documents *d, const char *severity,
                         const char *message) {
    struct nc_diagnostic said = {0};
    const char *rest = cut_place(d, message, &said.mark);
    const char *end = nc_starts_with(rest, "spec.") ? strstr(rest, ": ") : NULL;
    nc_auto_free char *path = nc_strndup(rest, end ? (size_t)(end - rest) : 0);

    said.path = path;
    said.message = (char *)(end ? end + 2 : rest);
    push_entry(list, d, severity, &said);
}

void nc_check_print_json(const struct nc_gather *g, const struct nc_err *whole) {
    nc_cleanup(nc_strv_done) struct nc_strv notes = find_notes(g);
    const struct nc_documents *d = &g->documents;
    nc_auto_value struct nc_value *list = nc_value_new_list();

    for (size_t i = 0; i < d->n_diags; i++) {
        const struct nc_diagnostic *diag = &d->diags[i];
        push_entry(list, d, diag->is_error ? "error" : "warning", diag);
    }
    for (size_t i = 0; i < notes.n; i++)
        push_message(list, d, "note", notes.v[i]);
    if (whole->class != NC_ERR_NONE)
        push_message(list, d, "error", whole->msg);
    nc_print_json(list);
}

void nc_check_print(const struct nc_gather *g) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_cleanup(nc_strv_done) struct nc_strv notes = find_notes(g);

    nc_documents_print(&g->documents, true, &text);
    (void)fputs(text.data ? text.data : "", stdout);
    for (size_t i = 0; i < notes.n; i++)
        (void)printf("note: %s\n", notes.v[i]);
}
