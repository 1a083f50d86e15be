/*
 * Provenance of final values.
 *
 * Labels, taints and names are put layer by layer, so the history of each is simply what was there
 * before. kubelet's configuration is compared the other way round: each final field is looked up in
 * flags, user's map and base, in this order, the first that has it is the origin and the others are
 * what it overrode.
 */
#include "origin.h"

#include <errno.h>
#include <stdio.h>

#include "kubelet.h"
#include "nc/str.h"
#include "nc/time.h"

#define MAX_VALUE_TEXT 400  /* of a field's value in an origin; the files have all of it */
#define MAX_FIELD_TEXT 1000 /* of a field's name: each value below a long one would repeat it */

char *nc_origin_mark(const struct nc_documents *docs, struct nc_mark mark) {
    if (mark.source == 0 && mark.line == 0)
        return nc_strdup("");
    if (docs)
        return nc_mark_location(docs, mark);
    return nc_asprintf("document %u line %u", mark.source, mark.line);
}

void nc_origin_add(struct nc_plan *p, const char *field, const char *value, const char *from,
                   const char *overrode) {
    struct nc_origin *o = nc_append(&p->origins, &p->n_origins);

    *o = (struct nc_origin){nc_strdup(field), nc_strdup(value), nc_strdup(from),
                            nc_strdup(overrode)};
}

void nc_origin_set(struct nc_plan *p, const char *field, const char *value, const char *from) {
    for (size_t i = 0; i < p->n_origins; i++) {
        struct nc_origin *o = &p->origins[i];
        char *history;
        if (!nc_streq(o->field, field))
            continue;
        history =
            nc_asprintf("%s from %s%s%s", o->value, o->from, *o->overrode ? "; " : "", o->overrode);
        free(o->value);
        free(o->from);
        free(o->overrode);
        o->value = nc_strdup(value);
        o->from = nc_strdup(from);
        o->overrode = history;
        return;
    }
    nc_origin_add(p, field, value, from, "");
}

const char *nc_origin_from(const struct nc_plan *p, const char *field) {
    for (size_t i = 0; i < p->n_origins; i++)
        if (nc_streq(p->origins[i].field, field))
            return p->origins[i].from;
    return "built-in default";
}

void nc_origin_blame(struct nc_err *err, const struct nc_documents *docs, struct nc_mark mark) {
    nc_auto_free char *place = nc_origin_mark(docs, mark);

    if (!*place || !err)
        return;
    nc_err_wrap(err, "%s", place);
    err->mark = mark;
}

int nc_origin_error(struct nc_err *err, const struct nc_documents *docs, const struct nc_value *v,
                    const char *format, ...) {
    va_list ap;
    int r;

    va_start(ap, format);
    r = nc_err_setv(err, NC_ERR_CONFIG, EINVAL, format, ap);
    va_end(ap);
    if (v)
        nc_origin_blame(err, docs, v->mark);
    return r;
}

int nc_kubelet_error(struct nc_err *err, const struct nc_documents *docs, const struct nc_value *v,
                     const char *format, ...) {
    nc_auto_free char *message = NULL;
    va_list ap;

    va_start(ap, format);
    message = nc_vasprintf(format, ap);
    va_end(ap);
    return nc_origin_error(err, docs, v, "spec.kubelet.config.%s", message);
}

void nc_origin_certain(struct nc_plan *p, struct nc_mark mark, const char *path, size_t at) {
    struct nc_diagnostic *one = nc_append(&p->certain, &p->n_certain);

    one->mark = mark;
    one->path = (char *)path;
    one->message = p->warnings.v[p->warnings.n - 1] + at;
}

int nc_origin_unsupported(const struct nc_plan_input *in, const char *path, const char *why,
                          struct nc_plan *p, struct nc_err *err) {
    nc_auto_free char *message = nc_asprintf("is not supported: %s", why);

    return nc_origin_refuse(in, path, message, p, err);
}

int nc_origin_refuse(const struct nc_plan_input *in, const char *path, const char *message,
                     struct nc_plan *p, struct nc_err *err) {
    static const struct nc_documents none = NC_DOCUMENTS_INIT;
    const struct nc_value *v = nc_value_path(in->config->tree, path);
    const size_t before = p->unsupported.n;
    const struct nc_diagnostic g = {.mark = v ? v->mark : (struct nc_mark){0},
                                    .path = (char *)path,
                                    .message = (char *)message};
    const int r =
        nc_config_unsupported(in->docs ? in->docs : &none, in->config, &g, &p->unsupported, err);

    for (size_t i = before; i < p->unsupported.n; i++) {
        nc_strv_add(&p->warnings, p->unsupported.v[i]);
        nc_origin_certain(p, g.mark, path, strlen(p->unsupported.v[i]) - strlen(message));
    }
    return r;
}

void nc_reasons_set(struct nc_reasons *r, const char *path, const char *text) {
    struct nc_reason *reason = nc_append(&r->v, &r->n);

    *reason = (struct nc_reason){nc_strdup(path), nc_strdup(text)};
}

/* "built-in default" where none was put. */
static const char *reason_of(const struct nc_reasons *r, const char *path) {
    for (size_t i = r->n; i > 0; i--)
        if (nc_streq(r->v[i - 1].path, path))
            return r->v[i - 1].text;
    return "built-in default";
}

void nc_reasons_done(struct nc_reasons *r) {
    for (size_t i = 0; i < r->n; i++) {
        free(r->v[i].path);
        free(r->v[i].text);
    }
    free(r->v);
    *r = (struct nc_reasons){0};
}

/* Scalars as they are written, everything else as compact JSON, both bounded. */
static char *value_text(const struct nc_value *v) {
    char buf[32];
    const char *scalar = nc_value_scalar_text(v, buf);
    struct nc_buf json = NC_BUF_INIT;
    size_t n;

    if (scalar)
        nc_buf_puts(&json, scalar);
    else
        nc_json_write(&json, v, 0);
    n = nc_cut(json.data, MAX_VALUE_TEXT);
    if (n < json.len) {
        json.len = n;
        json.data[n] = '\0';
        nc_buf_puts(&json, "…");
    }
    return nc_buf_steal(&json);
}

static void append_history(struct nc_buf *history, const struct nc_value *v, const char *from) {
    nc_auto_free char *text = value_text(v);

    nc_buf_printf(history, "%s%s from %s", history->len ? "; " : "", text, from);
}

struct search {
    struct nc_plan *plan; /* to which what is found is added */
    const struct nc_documents *docs;
    const struct nc_layers *layers;
};

static char *flag_origin(const struct search *s, const char *field, struct nc_mark mark) {
    char buf[NC_FLAG_NAME_MAX];
    const char *name = nc_flag_of_field(field, buf);
    nc_auto_free char *place = nc_origin_mark(s->docs, mark);

    return nc_asprintf("flag --%s%s%s", name ? name : field, *place ? " of " : "", place);
}

static char *user_origin(const struct search *s, struct nc_mark mark) {
    char *place = nc_origin_mark(s->docs, mark);

    if (*place)
        return place;
    free(place);
    return nc_strdup("the user's kubelet configuration");
}

/* The origin of a field in one layer. `path` is dotted, `top` its first part. */
static char *layer_origin(const struct search *s, size_t layer, const char *path, const char *top,
                          struct nc_mark mark) {
    if (layer == 0)
        return flag_origin(s, top, mark);
    if (layer == 1)
        return user_origin(s, mark);
    return nc_strdup(reason_of(s->layers->reasons, path));
}

/* A map of the user's does not replace the base's: its members are distinguished one by one. */
static bool is_merged(const struct nc_value *const in[static 3]) {
    return !in[0] && in[1] && in[2] && in[1]->type == NC_VALUE_MAP && in[2]->type == NC_VALUE_MAP;
}

/* The three values are this field's in each layer, NULL where a layer has none. */
static void add_field(const struct search *s, const char *path, const char *top,
                      const struct nc_value *final, const struct nc_value *const in[static 3]) {
    nc_auto_free char *from = NULL, *text = value_text(final);
    nc_auto_free char *field = nc_asprintf("spec.kubelet.config.%s", path);
    struct nc_buf history = NC_BUF_INIT;

    for (size_t layer = 0; layer < 3; layer++) {
        nc_auto_free char *origin = NULL;
        if (!in[layer])
            continue;
        origin = layer_origin(s, layer, path, top, in[layer]->mark);
        if (!from) {
            from = nc_steal(&origin);
        } else if (is_merged(in)) {
            char *both = nc_asprintf("%s, merged over %s", from, origin);
            free(from);
            from = both;
        } else {
            append_history(&history, in[layer], origin);
        }
        for (const struct nc_value *old = in[layer]->overrode; layer == 1 && old;
             old = old->overrode) {
            nc_auto_free char *older = user_origin(s, old->mark);
            append_history(&history, old, older);
        }
    }
    nc_origin_add(s->plan, field, text, from ? from : "built-in default",
                  history.len ? history.data : "");
    nc_buf_done(&history);
}

void nc_origin_kubelet(struct nc_plan *p, const struct nc_documents *docs,
                       const struct nc_layers *layers) {
    const struct search s = {p, docs, layers};

    for (size_t i = 0; i < p->kubelet_effective->n; i++) {
        const struct nc_member *m = &p->kubelet_effective->members[i];
        const struct nc_value *in[3] = {nc_value_get(layers->flags, m->key),
                                        nc_value_get(layers->user, m->key),
                                        nc_value_get(layers->base, m->key)};
        add_field(&s, m->key, m->key, m->value, in);
        for (size_t k = 0; m->value->type == NC_VALUE_MAP && k < m->value->n; k++) {
            const struct nc_member *sub = &m->value->members[k];
            const struct nc_value *below[3] = {nc_value_get(in[0], sub->key),
                                               nc_value_get(in[1], sub->key),
                                               nc_value_get(in[2], sub->key)};
            nc_auto_free char *path = nc_asprintf("%s.%s", m->key, sub->key);
            add_field(&s, path, m->key, sub->value, below);
        }
    }
}

/* --- trees */

struct walk {
    struct nc_plan *plan;
    const struct nc_origin_text *text;
};

static char *tree_origin(const struct walk *w, const char *path, struct nc_mark mark) {
    const struct nc_origin_text *t = w->text;
    nc_auto_free char *place = NULL;

    if (mark.source == 0 && mark.line == 0)
        return nc_strdup(t->reasons ? reason_of(t->reasons, path) : "built-in default");
    if (!t->within)
        return nc_origin_mark(t->docs, mark);
    place = nc_origin_mark(t->docs, (struct nc_mark){.source = mark.source});
    return nc_asprintf("%s%s%s line %u", place, *place ? ": " : "", t->within, mark.line);
}

static void add_leaf(const struct walk *w, const char *field, const char *path,
                     const struct nc_value *v) {
    nc_auto_free char *value = value_text(v), *from = tree_origin(w, path, v->mark);
    nc_cleanup(nc_buf_done) struct nc_buf history = NC_BUF_INIT;

    for (const struct nc_value *old = v->overrode; old; old = old->overrode) {
        nc_auto_free char *older = tree_origin(w, path, old->mark);
        append_history(&history, old, older);
    }
    nc_origin_add(w->plan, field, value, from, history.len ? history.data : "");
}

static char *cut_field(char *field) {
    field[nc_cut(field, MAX_FIELD_TEXT)] = '\0';
    return field;
}

/* A key with dots in it is quoted, as TOML has it. */
static char *field_below(const char *field, const char *key) {
    const char *quote = strchr(key, '.') ? "\"" : "";

    return cut_field(nc_asprintf("%s.%s%s%s", field, quote, key, quote));
}

static void walk_tree(const struct walk *w, const char *field, const char *path,
                      const struct nc_value *v) {
    if (v->type != NC_VALUE_MAP) {
        if (v->mark.source > 0 || v->mark.line > 0 || w->text->reasons)
            add_leaf(w, field, path, v);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct nc_member *m = &v->members[i];
        nc_auto_free char *below = field_below(field, m->key);
        nc_auto_free char *path_below =
            cut_field(nc_asprintf("%s%s%s", path, *path ? "/" : "", m->key));
        walk_tree(w, below, path_below, m->value);
    }
}

void nc_origin_tree(struct nc_plan *p, const char *name, const struct nc_value *v,
                    const struct nc_origin_text *text) {
    const struct walk w = {p, text};

    walk_tree(&w, name, "", v);
}

/* --- policies, and what is requested from the host */

/* A word that YAML reads as false is off. */
static void add_setting(struct nc_plan *p, const struct nc_documents *docs, const char *field,
                        const struct nc_value *v, bool is_word) {
    nc_auto_free char *text =
        is_word && v->type == NC_VALUE_BOOL ? nc_strdup("off") : value_text(v);
    nc_auto_free char *from = nc_origin_mark(docs, v->mark);
    nc_cleanup(nc_buf_done) struct nc_buf history = NC_BUF_INIT;

    for (const struct nc_value *old = v->overrode; old; old = old->overrode) {
        nc_auto_free char *older = nc_origin_mark(docs, old->mark);
        append_history(&history, old, older);
    }
    nc_origin_add(p, field, text, *from ? from : "the configuration",
                  history.data ? history.data : "");
}

static void add_settings(struct nc_plan *p, const struct nc_documents *docs, const char *path,
                         const struct nc_value *map) {
    const struct nc_member *m;

    for (size_t i = 0; (m = nc_value_member(map, i)); i++) {
        nc_auto_free char *field = nc_asprintf("%s.%s", path, m->key);
        add_setting(p, docs, field, m->value, true);
    }
}

void nc_origin_host(struct nc_plan *p, const struct nc_documents *docs, const struct nc_config *c) {
    static const char paths[] =
        "spec.instance.environment\0spec.instance.network\0spec.instance.localStorage\0";

    for (const char *path = paths; *path; path = nc_next_name(path))
        add_settings(p, docs, path, nc_value_path(c->tree, path));
}

static const char *setting_text(const struct nc_drain_setting *s, const void *value,
                                char buf[static 32]) {
    switch (s->type) {
    case NC_SETTING_POLICY:
        return *(const enum nc_policy *)value ? nc_policy_name(*(const enum nc_policy *)value)
                                              : "as maintenance";
    case NC_SETTING_MODE:
        return nc_name_at(nc_drain_mode_names, *(const enum nc_drain_mode *)value - NC_DRAIN_AUTO);
    case NC_SETTING_DURATION:
        nc_duration_format(*(const uint64_t *)value, buf);
        return buf;
    case NC_SETTING_BOOL:
        break;
    }
    return *(const bool *)value ? "true" : "false";
}

void nc_explain_policies(struct nc_plan *p, const struct nc_documents *docs,
                         const struct nc_config *c) {
    for (const struct nc_drain_setting *s = nc_drain_setting_rows; *s->path; s++) {
        const void *otherwise = (const char *)&nc_drain_defaults + s->offset;
        const struct nc_value *v = nc_value_path(c->tree, s->path);
        char buf[32];
        if (v && v->type != NC_VALUE_NULL)
            add_setting(p, docs, s->path, v, s->type != NC_SETTING_BOOL);
        else
            nc_origin_add(p, s->path, setting_text(s, otherwise, buf), "built-in default", "");
    }
    add_settings(p, docs, "spec.fit", nc_value_path(c->tree, "spec.fit"));
}
