/*
 * The checker: walks a value and its schema side by side. See schema.h.
 */
#include "schema.h"

#include <errno.h>

#include "config-priv.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/time.h"

struct walk {
    struct nc_documents *d;
    bool is_class; /* of a NodeClass */
    const struct nc_schema *root;
    struct nc_buf path;
};

static bool is_plain_key(const char *key) {
    return nc_is_alnum_or(key, "_-/.", 128);
}

/* Puts a key behind the path, returns the length to go back to. Keys that would make a path
 * unreadable are quoted. */
static size_t enter(struct walk *w, const char *key) {
    size_t before = w->path.len;
    nc_auto_free char *quoted = NULL;

    if (is_plain_key(key) && !strchr(key, '.')) {
        (void)nc_buf_printf(&w->path, "%s%s", before ? "." : "", key);
        return before;
    }
    quoted = nc_quote(key, strlen(key));
    (void)nc_buf_printf(&w->path, "[%s]", quoted);
    return before;
}

static void leave(struct walk *w, size_t before) {
    w->path.len = before;
    w->path.data[before] = '\0';
}

static const char *path_of(const struct walk *w) {
    return w->path.data ? w->path.data : "";
}

#define TAINT_EXPECTED "a map of key, value and effect" /* and no KEY=VALUE:EFFECT */

/* A text in a map's place is not quoted: whatever belongs below may be in it. */
static void wrong(struct walk *w, const struct nc_field *f, const struct nc_value *v,
                  const char *wanted) {
    nc_auto_free char *is = nc_value_describe(v);
    const char *text = nc_starts_with(wanted, "a map") ? nc_value_string(v) : NULL;
    const bool is_hidden = text || (f->flags & NC_FIELD_SECRET && (v->text || v->integer));

    nc_diag(w->d, true, v->mark, path_of(w), "must be %s%s%s", wanted, is_hidden ? "" : ", not ",
            !is_hidden                                                        ? is
            : !text || !strchr(text, ':') || nc_streq(wanted, TAINT_EXPECTED) ? ""
            : strchr(text, '\n') || strstr(text, ": ") ? ": remove the quotes or the |"
                                                       : ": a space must follow its colon");
}

/* "a, b or c" */
static char *alternatives(const char *names) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

    for (const char *name = names, *next; *name; name = next) {
        next = nc_next_name(name);
        (void)nc_buf_printf(&b, "%s%s", name == names ? "" : *next ? ", " : " or ", name);
    }
    return nc_buf_steal(&b);
}

/* The text of one string against what the field allows. */
static void check_text(struct walk *w, const struct nc_field *f, const struct nc_value *v,
                       const char *text) {
    const char *allowed = nc_field_allowed(f);
    nc_auto_free char *list = NULL;
    nc_auto_free char *wanted = NULL;

    if (!text[0] && !(f->flags & (NC_FIELD_MAY_BE_EMPTY | NC_FIELD_REQUIRED)))
        return;
    if (!text[0] && (f->flags & NC_FIELD_REQUIRED))
        nc_diag(w->d, true, v->mark, path_of(w), "must not be empty");
    else if (allowed && !nc_is_one_of(text, allowed)) {
        const char *near = nc_nearest(text, allowed);

        list = alternatives(allowed);
        wanted = near ? nc_asprintf("%s (did you mean \"%s\"?)", list, near) : nc_strdup(list);
        wrong(w, f, v, wanted);
    } else if (!nc_field_takes(f, text))
        wrong(w, f, v, f->check->wanted);
}

static void check_string(struct walk *w, const struct nc_field *f, const struct nc_value *v) {
    const char *allowed = nc_field_allowed(f);
    char buffer[32];
    const char *text = nc_value_string(v);

    if (!text && (f->flags & NC_FIELD_FORGIVING))
        text = nc_value_scalar_text(v, buffer);
    if (!text && !nc_value_bool(v, true) && allowed && nc_is_one_of("off", allowed))
        text = "off"; /* what YAML makes of the bare word */
    if (text) {
        check_text(w, f, v, text);
        return;
    }
    /* Quotes help only where what is in them is taken. */
    text = nc_value_scalar_text(v, buffer);
    if (!text || v->type == NC_VALUE_NULL)
        wrong(w, f, v, "a string");
    else if (allowed && !nc_is_one_of(text, allowed))
        check_text(w, f, v, text);
    else if (!nc_field_takes(f, text))
        wrong(w, f, v, f->check->wanted);
    else
        wrong(w, f, v, "a string (put it in quotes)");
}

bool nc_field_in_range(const struct nc_field *f, int64_t i, int64_t *ret_min, int64_t *ret_max) {
    const bool has_range = f->min || f->max;

    *ret_min = has_range && f->min == INT32_MIN ? INT64_MIN : has_range ? f->min : INT32_MIN;
    *ret_max = has_range ? f->max : INT32_MAX;
    return i >= *ret_min && i <= *ret_max;
}

static bool may_be_expression(const struct walk *w, const struct nc_field *f,
                              const struct nc_value *v) {
    return w->is_class && (f->flags & NC_FIELD_EXPRESSION) && nc_value_string(v);
}

static void check_int(struct walk *w, const struct nc_field *f, const struct nc_value *v) {
    int64_t min, max;

    if (may_be_expression(w, f, v))
        return;
    if (v->type != NC_VALUE_INT)
        wrong(w, f, v, "an integer");
    else if (!nc_field_in_range(f, v->integer, &min, &max))
        nc_diag(w->d, true, v->mark, path_of(w), "must be between %lld and %lld, not %lld",
                (long long)min, (long long)max, (long long)v->integer);
}

static void check_duration(struct walk *w, const struct nc_field *f, const struct nc_value *v) {
    const char *text = nc_value_string(v);
    uint64_t usec = 0;

    if (text && !text[0] && !(f->flags & (NC_FIELD_REQUIRED | NC_FIELD_MAY_BE_EMPTY)))
        return;
    if (!text || nc_duration_parse(text, &usec) < 0)
        wrong(w, f, v, "a duration such as \"30s\" or \"2m30s\"");
    else if (!nc_field_takes(f, text))
        wrong(w, f, v, f->check->wanted);
}

/* "1GB": an expression has more than a number and letters. */
static bool is_number_with_unit(const char *s) {
    const char *unit = s + strspn(s, NC_DIGITS ". ");

    return unit > s && nc_is_alnum_or(unit, "", SIZE_MAX) && !strpbrk(unit, NC_DIGITS);
}

static void check_quantity(struct walk *w, const struct nc_field *f, const struct nc_value *v) {
    int64_t milli = 0;
    int64_t whole = 0;
    bool is_scalar =
        v->type == NC_VALUE_STRING || v->type == NC_VALUE_INT || v->type == NC_VALUE_FLOAT;

    if (!is_scalar || nc_quantity_of(v, &milli, &whole) == -EINVAL) {
        /* With a minus in front Karpenter takes it for a negative quantity. */
        if (!may_be_expression(w, f, v) || *v->text == '-' || is_number_with_unit(v->text))
            wrong(w, f, v, "a quantity such as \"100m\" or \"1Gi\"");
    } else if (milli < 0)
        wrong(w, f, v, "a quantity that is not negative");
}

static void check_value(struct walk *w, const struct nc_field *f, const struct nc_value *v);
static void check_object(struct walk *w, const struct nc_schema *schema, const struct nc_value *v);

static void check_items(struct walk *w, const struct nc_field *f, const struct nc_value *v,
                        const char *wanted) {
    if ((f->flags & NC_FIELD_LONE) && nc_value_string(v)) {
        check_string(w, f, v);
        return;
    }
    if (v->type != NC_VALUE_LIST) {
        wrong(w, f, v, wanted);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const size_t before = w->path.len;

        (void)nc_buf_printf(&w->path, "[%zu]", i);
        if (f->type == NC_FIELD_STRINGS)
            check_string(w, f, v->items[i]);
        else if (f->type == NC_FIELD_INTS)
            check_int(w, f, v->items[i]);
        else
            check_object(w, f->object, v->items[i]);
        leave(w, before);
    }
}

/* Somebody requests what this program does not know. */
static void unknown_gate(struct walk *w, const struct nc_member *m, const char *near,
                         const char *known) {
    nc_auto_free char *why =
        near ? nc_asprintf("unknown key, did you mean \"%s\"? Known are %s", near, known)
             : nc_asprintf("unknown key; known are %s", known);

    nc_diag_unsupported(w->d, m->mark, path_of(w), why);
}

static void check_map_key(struct walk *w, const struct nc_field *f, const struct nc_member *m) {
    const struct nc_field *key = f->entries ? f->entries->key : NULL;
    nc_auto_free char *list = NULL;
    bool is_error = !(f->flags & NC_FIELD_OPEN_KEYS);
    const char *allowed = NULL;
    const char *near = NULL;

    if (!key)
        return;
    if (!nc_field_takes(key, m->key)) {
        nc_diag(w->d, is_error, m->mark, path_of(w), "the key must be %s", key->check->wanted);
        return;
    }
    allowed = nc_field_allowed(key);
    if (!allowed || nc_is_one_of(m->key, allowed))
        return;
    list = alternatives(allowed);
    near = nc_nearest(m->key, allowed);
    if (!is_error && nc_value_bool(m->value, false))
        unknown_gate(w, m, near, list);
    else if (near)
        nc_diag(w->d, is_error, m->mark, path_of(w),
                "unknown key, did you mean \"%s\"? Known are %s", near, list);
    else
        nc_diag(w->d, is_error, m->mark, path_of(w), "unknown key; known are %s", list);
}

static void check_map_value(struct walk *w, const struct nc_field *f, const struct nc_value *v) {
    static const struct nc_field any_text = {.type = NC_FIELD_STRING};

    if (v->type == NC_VALUE_NULL)
        return;
    if (f->type == NC_FIELD_MAP || f->type == NC_FIELD_STRING_MAP) {
        if (f->entries && f->entries->value)
            check_value(w, f->entries->value, v);
        else if (f->type == NC_FIELD_STRING_MAP)
            check_string(w, &any_text, v);
        return;
    }
    if (f->type == NC_FIELD_BOOL_MAP) {
        if (v->type != NC_VALUE_BOOL)
            wrong(w, f, v, "true or false");
        return;
    }
    check_quantity(w, f, v);
    if (v->type == NC_VALUE_INT || v->type == NC_VALUE_FLOAT)
        nc_diag(w->d, false, v->mark, path_of(w),
                "a number where kubelet requires a string; used as a string");
}

static void check_map(struct walk *w, const struct nc_field *f, const struct nc_value *v) {
    if (v->type != NC_VALUE_MAP) {
        wrong(w, f, v, "a map");
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const char *key = v->members[i].key;
        const bool is_hidden = f->flags & NC_FIELD_SECRET && !is_plain_key(key);
        size_t before = enter(w, is_hidden ? "…" : key); /* "NAME=VALUE", say */

        check_map_key(w, f, &v->members[i]);
        check_map_value(w, f, v->members[i].value);
        leave(w, before);
    }
}

static void check_value(struct walk *w, const struct nc_field *f, const struct nc_value *v) {
    if (v->type == NC_VALUE_NULL)
        return;
    if (f->flags & NC_FIELD_IGNORED) {
        nc_diag(w->d, false, v->mark, path_of(w), "ignored: %s", f->check->wanted);
        return;
    }
    if (f->flags & NC_FIELD_UNSUPPORTED) {
        const char *text = nc_value_string(v);

        if (!text || !f->check->takes || !f->check->takes(text))
            nc_diag_unsupported(w->d, v->mark, path_of(w), f->check->wanted);
        return;
    }
    switch (f->type) {
    case NC_FIELD_STRING:
        check_string(w, f, v);
        break;
    case NC_FIELD_BOOL:
        if (v->type != NC_VALUE_BOOL)
            wrong(w, f, v, "true or false");
        break;
    case NC_FIELD_INT:
        check_int(w, f, v);
        break;
    case NC_FIELD_NUMBER:
        if (v->type != NC_VALUE_INT && v->type != NC_VALUE_FLOAT)
            wrong(w, f, v, "a number");
        break;
    case NC_FIELD_FREQUENCY:
        if (v->type != NC_VALUE_INT)
            check_duration(w, f, v);
        break;
    case NC_FIELD_DURATION:
        check_duration(w, f, v);
        break;
    case NC_FIELD_QUANTITY:
        check_quantity(w, f, v);
        break;
    case NC_FIELD_STRINGS:
        check_items(w, f, v, "a list of strings");
        break;
    case NC_FIELD_INTS:
        check_items(w, f, v, "a list of integers");
        break;
    case NC_FIELD_OBJECTS:
        check_items(w, f, v, "a list");
        break;
    case NC_FIELD_STRING_MAP:
    case NC_FIELD_QUANTITY_MAP:
    case NC_FIELD_BOOL_MAP:
    case NC_FIELD_MAP:
        check_map(w, f, v);
        break;
    case NC_FIELD_OBJECT:
        check_object(w, f->object, v);
        break;
    case NC_FIELD_ANY:
        break;
    }
}

bool nc_schema_next(const struct nc_schema *schema, struct nc_field_at *at) {
    const struct nc_schema *base = schema->is_beta ? &nc_schema_kubelet : schema;

    do {
        at->name = nc_next_name(!at->field ? base->names : at->flag ? at->flag : at->name);
        at->field = at->field ? at->field + 1 : base->fields;
        at->flag =
            *at->name && at->field->flags & NC_FIELD_OTHER_FLAG ? nc_next_name(at->name) : NULL;
    } while (*at->name && schema->is_beta && !(at->field->flags & NC_FIELD_V1BETA1));
    return *at->name != '\0';
}

static const struct nc_field *find(const struct nc_schema *schema, const char *name) {
    for (struct nc_field_at at = {0}; nc_schema_next(schema, &at);)
        if (nc_streq(at.name, name))
            return at.field;
    return NULL;
}

/* Below the object of `schema`, which is at `path`: the place of a field of this name; what is
 * deeper than spec.kubelet.config.maxPods says nothing of what somebody meant. */
static void find_below(const struct nc_schema *schema, const char *name, const char *path,
                       unsigned depth, struct nc_strv *found) {
    for (struct nc_field_at at = {0}; nc_schema_next(schema, &at);) {
        nc_auto_free char *below = nc_asprintf("%s%s%s", path, *path ? "." : "", at.name);
        if (at.field->type == NC_FIELD_OBJECT && depth < 4)
            find_below(at.field->object, name, below, depth + 1, found);
        if (nc_streq(at.name, name))
            nc_strv_add(found, below);
    }
}

#define ELSEWHERE_MAX 4 /* places that are named */

/* "; it is PATH", below this object, else in this kind of document, else in the other one, or "PATH
 * or PATH"; "" where no field has this name, or many do. */
static char *find_elsewhere(const struct walk *w, const struct nc_schema *schema,
                            const char *name) {
    const struct nc_schema *other = w->root == &nc_schema_node_config    ? &nc_schema_agent_config
                                    : w->root == &nc_schema_agent_config ? &nc_schema_node_config
                                                                         : w->root;
    const struct nc_schema *places[] = {schema, w->root, other};
    /* from how deep: of the other kind its sections alone, a name deep in it says nothing */
    const unsigned depths[] = {w->path.len > 0 ? 2 : 1, 1, 3};

    for (size_t i = 0; i < NC_ARRAY_SIZE(places); i++) {
        nc_cleanup(nc_strv_done) struct nc_strv found = NC_STRV_INIT;
        find_below(places[i], name, i == 0 ? path_of(w) : "", depths[i], &found);
        nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

        if (found.n == 0 || found.n > ELSEWHERE_MAX || nc_starts_with(found.v[0], "metadata."))
            continue;
        for (size_t k = 0; k < found.n; k++)
            (void)nc_buf_printf(&b, "%s%s", k == 0 ? "; it is " : " or ", found.v[k]);
        if (i == 2)
            (void)nc_buf_printf(&b, " of %s", other->names);
        return nc_buf_steal(&b);
    }
    return nc_strdup("");
}

static void unknown(struct walk *w, const struct nc_schema *schema, const struct nc_member *m) {
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;
    nc_auto_free char *elsewhere = find_elsewhere(w, schema, m->key);
    const size_t before = enter(w, m->key);
    struct nc_diagnostic *diag;
    const char *near = NULL;

    for (struct nc_field_at at = {0}; nc_schema_next(schema, &at);)
        (void)nc_buf_add(&names, at.name, strlen(at.name) + 1);
    near = *elsewhere ? NULL : nc_nearest(m->key, names.data);
    diag = nc_diag(w->d, false, m->mark, path_of(w),
                   near ? "unknown field, did you mean \"%s\"?%s" : "unknown field of %s%s",
                   near ? near : schema->names, elsewhere);
    if (diag)
        diag->kind = nc_starts_with(path_of(w), "spec.kubelet.config.") ? NC_DIAGNOSTIC_KUBELETS
                                                                        : NC_DIAGNOSTIC_UNKNOWN;
    leave(w, before);
}

static void check_object(struct walk *w, const struct nc_schema *schema, const struct nc_value *v) {
    static const struct nc_field anonymous = {.type = NC_FIELD_MAP};

    if (v->type != NC_VALUE_MAP) {
        wrong(w, &anonymous, v,
              schema == &nc_schema_taint && nc_value_string(v) ? TAINT_EXPECTED : "a map");
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct nc_field *f = find(schema, v->members[i].key);

        if (f) {
            size_t before = enter(w, v->members[i].key);

            check_value(w, f, v->members[i].value);
            leave(w, before);
        } else if (!schema->is_open)
            unknown(w, schema, &v->members[i]);
    }
    for (struct nc_field_at at = {0}; nc_schema_next(schema, &at);) {
        const struct nc_value *field = nc_value_get(v, at.name);

        if ((at.field->flags & NC_FIELD_REQUIRED) && (!field || field->type == NC_VALUE_NULL))
            nc_diag(w->d, true, v->mark, path_of(w), "\"%s\" is missing", at.name);
    }
}

void nc_schema_check(struct nc_documents *d, const struct nc_schema *schema,
                     const struct nc_value *v, const char *path) {
    struct walk w = {.d = d, .is_class = nc_ends_with(schema->names, "NodeClass"), .root = schema};

    (void)nc_buf_puts(&w.path, path);
    check_object(&w, schema, v);
    nc_buf_done(&w.path);
}
