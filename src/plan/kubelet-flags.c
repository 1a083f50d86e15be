/*
 * The user's kubelet flags.
 *
 * The items of NodeConfig's `kubelet.flags` end up in a unit's $ARGS, where systemd splits them at
 * white space and takes quotes off; Karpenter relies on that (--node-labels="a=b,c=d", quotes and
 * all). Doing the same here gives one argument an item, whoever starts kubelet. Flags beat files in
 * kubelet, so those that have a field in KubeletConfiguration are known by name, from the rows of
 * schema-kubelet.c: the plan would otherwise predict something else than what kubelet does.
 */
#include "kubelet.h"

#include <ctype.h>
#include <errno.h>

#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/time.h"
#include "schema.h"
#include "shapes.h"

void nc_flags_done(struct nc_flags *f) {
    for (size_t i = 0; i < f->n; i++) {
        free(f->v[i].argument);
        free(f->v[i].name);
        free(f->v[i].value);
    }
    free(f->v);
    *f = (struct nc_flags)NC_FLAGS_INIT;
}

/* Takes the next word off *rest. 1: a word in *ret, 0: nothing left, -EINVAL: a quote stays open.
 */
static int next_token(const char **rest, char **ret) {
    struct nc_buf token = NC_BUF_INIT;
    const char *p = *rest;
    char quote = '\0';

    while (isspace((unsigned char)*p))
        p++;
    if (!*p)
        return 0;
    for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
        if (quote ? *p == quote : (*p == '"' || *p == '\'')) {
            quote = quote ? '\0' : *p;
            continue;
        }
        if (*p == '\\' && quote != '\'' && p[1])
            p++;
        nc_buf_putc(&token, *p);
    }
    if (quote) {
        nc_buf_done(&token);
        return -EINVAL;
    }
    *rest = p;
    *ret = nc_buf_steal(&token);
    return 1;
}

/* "--Key_name=value", or the one flag of kubelet's that has a letter: "-v=2", "-v2", "-v". */
static bool is_flag(const char *token) {
    return nc_starts_with(token, "--") ? token[2] && !strchr("-=", token[2])
                                       : nc_starts_with(token, "-v");
}

/* Name "Key-name": kubelet takes '_' for '-'. */
static void split_argument(struct nc_flag *f) {
    const char *equal = strchr(f->argument, '=');

    if (f->argument[1] == 'v') {
        f->name = nc_strdup("v");
        f->value = f->argument[2] ? nc_strdup(f->argument + 2 + (f->argument[2] == '=')) : NULL;
        return;
    }
    f->name = nc_strndup(f->argument + 2,
                         equal ? (size_t)(equal - f->argument) - 2 : strlen(f->argument) - 2);
    for (char *p = f->name; *p; p++)
        if (*p == '_')
            *p = '-';
    f->value = equal ? nc_strdup(equal + 1) : NULL;
}

/* A word without dashes belongs to the flag before it, where that has no value yet. */
static bool join_value(struct nc_flags *flags, const char *token) {
    struct nc_flag *last = flags->n > 0 ? &flags->v[flags->n - 1] : NULL;
    char *joined;

    if (!last || last->value || *token == '-')
        return false;
    joined = nc_asprintf("%s=%s", last->argument, token);
    free(last->argument);
    last->argument = joined;
    last->value = nc_strdup(token);
    return true;
}

/* Neither word nor item is quoted: a header's value may be a secret, and have a space. */
static int refuse_word(const struct nc_flags *flags, const char *why, struct nc_err *err) {
    const struct nc_flag *last = flags->n > 0 ? &flags->v[flags->n - 1] : NULL;

    return nc_err_config(err, "spec.kubelet.flags%s%s: %s", last ? ": after --" : "",
                         last ? last->name : "", why);
}

static int apply_flag(struct nc_flags *flags, const char *item, struct nc_mark mark,
                      struct nc_err *err) {
    const char *rest = item;
    char *token = NULL;
    int r;

    while ((r = next_token(&rest, &token)) > 0) {
        nc_auto_free char *owned = token;
        struct nc_flag *f;
        if (join_value(flags, token))
            continue;
        if (!is_flag(token))
            return refuse_word(flags,
                               "no flag; a name needs two dashes, and a value with a space needs "
                               "quotes",
                               err);
        f = nc_append(&flags->v, &flags->n);
        f->argument = nc_steal(&owned);
        f->mark = mark;
        split_argument(f);
    }
    return r < 0 ? refuse_word(flags, "this quote is not closed", err) : 0;
}

int nc_flags_parse(const struct nc_strv *items, const struct nc_mark *marks, struct nc_flags *ret,
                   struct nc_err *err) {
    struct nc_flags flags = NC_FLAGS_INIT;
    struct nc_mark mark = {0};
    int r = 0;

    for (size_t i = 0; i < items->n && r == 0; i++) {
        mark = marks ? marks[i] : (struct nc_mark){0};
        r = apply_flag(&flags, items->v[i], mark, err);
    }
    if (r < 0) {
        nc_flags_done(&flags);
        flags.refused = mark;
    }
    *ret = flags;
    return r;
}

const struct nc_flag *nc_flags_find(const struct nc_flags *f, const char *name) {
    for (size_t i = f->n; i > 0; i--)
        if (nc_streq(f->v[i - 1].name, name))
            return &f->v[i - 1];
    return NULL;
}

/* The flag that sets a field, in buf where it is called as the field is; NULL: there is none. */
static const char *flag_of(const struct nc_field_at *at, char buf[static NC_FLAG_NAME_MAX]) {
    size_t n = 0;

    if (at->field->flags & NC_FIELD_OTHER_FLAG)
        return at->flag;
    if (!(at->field->flags & NC_FIELD_NAMED_FLAG))
        return NULL;
    for (const char *p = at->name; *p && n < NC_FLAG_NAME_MAX - 2; p++) {
        /* kubeAPIQPS would be one word: it has its flag's name in its row */
        if (isupper((unsigned char)*p)
            && (!isupper((unsigned char)p[-1]) || islower((unsigned char)p[1])))
            buf[n++] = '-';
        buf[n++] = (char)tolower((unsigned char)*p);
    }
    buf[n] = '\0';
    return buf;
}

const char *nc_flag_of_field(const char *field, char buf[static NC_FLAG_NAME_MAX]) {
    for (struct nc_field_at at = {0}; nc_schema_next(&nc_schema_kubelet, &at);)
        if (nc_streq(at.name, field))
            return flag_of(&at, buf);
    return NULL;
}

#define MAX_DEPTH 4 /* maps in maps in KubeletConfiguration, in which a flag sets something */

/* The field that a flag sets, as the way from the top to it. 0: there is none. */
static size_t find_field(const struct nc_schema *schema, const char *flag, size_t depth,
                         struct nc_field_at ret_form[static MAX_DEPTH]) {
    char buf[NC_FLAG_NAME_MAX];

    for (struct nc_field_at at = {0}; depth < MAX_DEPTH && nc_schema_next(schema, &at);) {
        size_t n = 0;

        ret_form[depth] = at;
        if (nc_streq(flag_of(&at, buf), flag))
            return depth + 1;
        if (at.field->type == NC_FIELD_OBJECT)
            n = find_field(at.field->object, flag, depth + 1, ret_form);
        if (n > 0)
            return n;
    }
    return 0;
}

/* strconv.ParseBool's words. -1: none of them. */
static int parse_bool(const char *text) {
    static const char yes[] = "1\0t\0T\0true\0TRUE\0True\0";
    static const char no[] = "0\0f\0F\0false\0FALSE\0False\0";

    return nc_is_one_of(text, yes) ? 1 : nc_is_one_of(text, no) ? 0 : -1;
}

static struct nc_value *leaf_list(const char *text) {
    struct nc_value *list = nc_value_new_list();
    nc_auto_free char *copy = nc_strdup(text);

    if (*text == '\0')
        return list;
    for (char *rest = copy, *item; (item = strsep(&rest, ","));)
        nc_value_push_string(list, nc_trim(item));
    return list;
}

/* one_pair: the value may have commas, and nothing is no pair. */
static struct nc_value *leaf_map(const char *text, char separator, bool of_bools, bool one_pair) {
    struct nc_value *map = nc_value_new_map();
    nc_auto_free char *copy = nc_strdup(text);

    for (char *rest = copy, *item; (item = strsep(&rest, one_pair ? "" : ","));) {
        char *value;
        item = nc_trim(item);
        if (!*item && !one_pair)
            continue;
        value = strchr(item, separator);
        if (!value || (of_bools && parse_bool(nc_trim(value + 1)) < 0))
            return nc_value_free(map);
        *value++ = '\0';
        if (of_bools)
            nc_value_set_bool(map, nc_trim(item), parse_bool(nc_trim(value)) == 1);
        else
            nc_value_set_string(map, nc_trim(item), nc_trim(value));
    }
    return map;
}

/* "PATTERN=N,…" of vmodule, "NODE:TYPE=QUANTITY,…;…" of reservedMemory. */
static struct nc_value *leaf_objects(const char *text, bool is_memory) {
    struct nc_value *list = nc_value_new_list();
    nc_auto_free char *copy = nc_strdup(text);

    if (is_memory && !*text) /* kubelet takes one such flag, and not the next */
        return nc_value_free(list);
    for (char *rest = copy, *item; *text && (item = strsep(&rest, is_memory ? ";" : ","));) {
        struct nc_value *one = nc_value_new_map(), *limits = NULL;
        char *value = strchr(item, is_memory ? ':' : '=');
        int64_t n;

        if (value)
            *value++ = '\0';
        nc_value_push(list, one);
        if (!value || !*item || nc_parse_i64(is_memory ? item : value, &n) < 0
            || (is_memory && (!*value || !(limits = leaf_map(value, '=', false, false)))))
            return nc_value_free(list);
        nc_value_set_int(one, is_memory ? "numaNode" : "verbosity", n);
        if (is_memory)
            nc_value_set(one, "limits", limits);
        else
            nc_value_set_string(one, "filePattern", item);
    }
    return list;
}

/* "NAME:VALUE,…", each value a list of one. */
static struct nc_value *leaf_headers(const char *text) {
    struct nc_value *map = leaf_map(text, ':', false, false);

    for (size_t i = 0; map && i < map->n; i++) {
        struct nc_value *list = nc_value_new_list();
        nc_value_push(list, map->members[i].value);
        map->members[i].value = list;
    }
    return map;
}

/* In a file an empty text is none, and an address is looked up. */
static struct nc_value *leaf_text(const struct nc_field_at *at, const char *text) {
    if (*text ? nc_is_one_of(at->name, "address\0healthzBindAddress\0") && !nc_shape_ip(text)
              : at->field->allowed || nc_streq(at->name, "containerRuntimeEndpoint"))
        return NULL;
    return nc_value_new_string(text);
}

/* NULL where the text is not of the field's type. */
static struct nc_value *leaf_of(const struct nc_field_at *at, const char *text) {
    const struct nc_field *f = at->field;
    uint64_t usec;
    int64_t i;

    if (f->type == NC_FIELD_BOOL) /* "--flag" alone is true */
        return !text || parse_bool(text) >= 0 ? nc_value_new_bool(!text || parse_bool(text) == 1)
                                              : NULL;
    if (!text)
        return NULL;
    switch (f->type) {
    case NC_FIELD_INT:
        return nc_parse_i64(text, &i) == 0 ? nc_value_new_int(i) : NULL;
    case NC_FIELD_STRINGS:
        return leaf_list(text);
    case NC_FIELD_STRING_MAP:
    case NC_FIELD_QUANTITY_MAP:
        return leaf_map(text, f->flags & NC_FIELD_LESS_THAN ? '<' : '=', false,
                        f->flags & NC_FIELD_ONE_PAIR);
    case NC_FIELD_BOOL_MAP:
        return leaf_map(text, '=', true, false);
    case NC_FIELD_OBJECTS:
        return leaf_objects(text, nc_streq(at->name, "reservedMemory"));
    case NC_FIELD_MAP:
        return leaf_headers(text);
    case NC_FIELD_STRING:
        return leaf_text(at, text);
    case NC_FIELD_FREQUENCY:
        /* In a file 0 stands for the default; a flag comes after the defaults. */
        return *text && !(nc_duration_parse(text, &usec) == 0 && usec == 0)
                   ? nc_value_new_string(text)
                   : NULL;
    case NC_FIELD_DURATION: /* each is read, also where a later one replaces it */
        if (nc_duration_parse(text + (*text == '-'), &usec) < 0
            || (usec == 0 && nc_streq(at->name, "syncFrequency"))) /* its default is in files */
            return NULL;
        return nc_value_new_string(text);
    case NC_FIELD_QUANTITY:
        return nc_quantity_value(text, &i) == 0 ? nc_value_new_string(text) : NULL;
    case NC_FIELD_BOOL:
    case NC_FIELD_NUMBER:
    case NC_FIELD_INTS:
    case NC_FIELD_OBJECT:
    case NC_FIELD_ANY:
        break; /* no flag sets one of these */
    }
    return NULL;
}

static void set_marks(struct nc_value *v, struct nc_mark mark) {
    v->mark = mark;
    for (size_t i = 0; i < v->n; i++)
        set_marks(v->type == NC_VALUE_MAP ? v->members[i].value : v->items[i], mark);
}

static struct nc_value *map_of(struct nc_value *tree, const char *key) {
    if (!nc_value_get(tree, key))
        nc_value_set(tree, key, nc_value_new_map());
    return nc_value_get(tree, key);
}

/* A list or map flag that is given twice adds up; everything else is replaced. */
static void set_flag_leaf(struct nc_value *map, const char *key, struct nc_value *leaf) {
    struct nc_value *old = nc_value_get(map, key);

    if (old && leaf->type == NC_VALUE_LIST) {
        for (size_t i = 0; i < leaf->n; i++)
            nc_value_push(old, nc_value_copy(leaf->items[i]));
        nc_value_free(leaf);
    } else if (old && leaf->type == NC_VALUE_MAP) {
        nc_value_merge(old, leaf);
    } else {
        nc_value_set(map, key, leaf);
    }
}

int nc_flags_tree(struct nc_flags *f, struct nc_value **ret, struct nc_err *err) {
    nc_auto_value struct nc_value *tree = nc_value_new_map();

    for (size_t i = 0; i < f->n; i++) {
        struct nc_field_at way[MAX_DEPTH];
        const size_t n = find_field(&nc_schema_kubelet, f->v[i].name, 0, way);
        struct nc_value *map = tree, *leaf;
        if (n == 0)
            continue;
        leaf = leaf_of(&way[n - 1], f->v[i].value);
        if (!leaf) {
            const bool is_secret = way[n - 1].field->flags & NC_FIELD_SECRET;
            nc_auto_free char *quoted =
                nc_quote_string(is_secret ? f->v[i].name : f->v[i].argument);
            f->refused = f->v[i].mark;
            return nc_err_config(err, "spec.kubelet.flags: %s: kubelet cannot read this value",
                                 quoted);
        }
        set_marks(leaf, f->v[i].mark);
        for (size_t k = 0; k + 1 < n; k++)
            map = map_of(map, way[k].name);
        set_flag_leaf(map, way[n - 1].name, leaf);
    }
    *ret = nc_steal(&tree);
    return 0;
}

static void apply_fields(struct nc_value *config, const struct nc_value *flags,
                         const struct nc_schema *schema) {
    for (struct nc_field_at at = {0}; nc_schema_next(schema, &at);) {
        const struct nc_value *given = nc_value_get(flags, at.name);
        struct nc_value *old = nc_value_get(config, at.name);
        if (!given)
            continue;
        if (at.field->type == NC_FIELD_OBJECT)
            apply_fields(map_of(config, at.name), given, at.field->object);
        else if (at.field->type == NC_FIELD_BOOL_MAP && old)
            nc_value_merge(old, nc_value_copy(given));
        else
            nc_value_set(config, at.name, nc_value_copy(given));
    }
}

void nc_flags_apply(struct nc_value *config, const struct nc_value *flags) {
    apply_fields(config, flags, &nc_schema_kubelet);
}
