/*
 * Merging of documents.
 *
 * The result is one map with one key, "spec", in which NodeConfig's and AgentConfig's fields stand
 * side by side: their names agree where they mean the same. Rules, as nodeadm has them: maps are
 * merged deeply, lists replaced, kubelet.flags appended; an empty string, an empty list or a null
 * of a typed field reports nothing, whereas inside kubelet.config, instance.environment,
 * containerd.baseRuntimeSpec and node.labels an empty string or a null is a value. The
 * texts of containerd.config are collected: who reads TOML merges them. Taints of AgentConfig are
 * united by key and effect.
 *
 * Precedence, lowest first: the kubelet block of the NodeClass; that of the NodeClaim (spec.kubelet
 * of v1beta1, or the annotation that its conversion to v1 left), which takes the place of the
 * NodeClass's as a whole, as Karpenter 1.0 does; then NodeConfig and AgentConfig in the order in
 * which they were added.
 */
#include "config-priv.h"

#include <errno.h>

#include "nc/names.h"
#include "nc/str.h"
#include "schema.h"

static bool is_nothing(const struct nc_value *v) {
    switch (v->type) {
    case NC_VALUE_NULL:
        return true;
    case NC_VALUE_STRING:
        return v->text[0] == '\0';
    case NC_VALUE_MAP:
    case NC_VALUE_LIST:
        return v->n == 0;
    case NC_VALUE_BOOL:
    case NC_VALUE_INT:
    case NC_VALUE_FLOAT:
    case NC_VALUE_TIME:
    case _NC_VALUE_TYPE_MAX:
        break;
    }
    return false;
}

/* Drops what reports nothing, from the leaves up. */
static void prune(struct nc_value *v) {
    if (v->type != NC_VALUE_MAP)
        return;
    for (size_t i = 0; i < v->n;) {
        /* Below these, what is empty or null is a value. */
        if (!nc_streq(v->members[i].key, "environment")
            && !nc_streq(v->members[i].key, "baseRuntimeSpec")
            && !nc_streq(v->members[i].key, "labels"))
            prune(v->members[i].value);
        if (is_nothing(v->members[i].value)) {
            nc_auto_free char *key = nc_strdup(v->members[i].key);

            (void)nc_value_remove(v, key);
        } else {
            i++;
        }
    }
}

/* The map at key, made where there is none. */
static struct nc_value *map_at(struct nc_value *v, const char *key) {
    if (!nc_value_get(v, key))
        nc_value_set(v, key, nc_value_new_map());
    return nc_value_get(v, key);
}

/* A copy of v[key], which leaves v. NULL where there is none. */
static struct nc_value *detach_key(struct nc_value *v, const char *key) {
    const struct nc_value *found = nc_value_get(v, key);
    struct nc_value *copy = found ? nc_value_copy(found) : NULL;

    if (found)
        (void)nc_value_remove(v, key);
    return copy;
}

void nc_quote_numbers(struct nc_value *map) {
    const struct nc_member *m;

    for (size_t i = 0; (m = nc_value_member(map, i)); i++) {
        struct nc_value *v = m->value, *text;
        char buffer[32];

        if (v->type != NC_VALUE_INT && v->type != NC_VALUE_FLOAT)
            continue;
        text = nc_value_new_string(nc_value_scalar_text(v, buffer));
        text->mark = v->mark;
        nc_value_set(map, m->key, text);
    }
}

void nc_kubelet_quote_numbers(struct nc_value *kubelet) {
    for (struct nc_field_at at = {0}; nc_schema_next(&nc_schema_kubelet, &at);)
        if (at.field->type == NC_FIELD_STRING_MAP || at.field->type == NC_FIELD_QUANTITY_MAP)
            nc_quote_numbers(nc_value_get(kubelet, at.name));
}

static void merge_kubelet(struct nc_value *spec, struct nc_value *from) {
    if (!from || from->type != NC_VALUE_MAP) {
        nc_value_free(from);
        return;
    }
    (void)nc_value_remove(from, "containerRuntime");
    nc_kubelet_quote_numbers(from);
    nc_value_merge(map_at(map_at(spec, "kubelet"), "config"), from);
}

static void append_flags(struct nc_config *c, const struct nc_value *flags) {
    const struct nc_value *flag;

    for (size_t i = 0; (flag = nc_value_item(flags, i)); i++) {
        const char *text = nc_value_string(flag);
        size_t n = c->kubelet_flags.n;

        if (!text || !text[0])
            continue;
        nc_strv_add(&c->kubelet_flags, text);
        c->kubelet_flag_marks = nc_grow(c->kubelet_flag_marks, n, sizeof(*c->kubelet_flag_marks));
        c->kubelet_flag_marks[n] = flag->mark;
    }
}

/* The last one stays in the tree, for `explain`. */
static void collect_containerd(struct nc_config *c, const struct nc_value *text) {
    struct nc_containerd_text *t = NULL;

    if (!nc_value_string(text) || !*text->text)
        return;
    t = nc_append(&c->host.containerd.texts, &c->host.containerd.n_texts);
    const struct nc_text toml = nc_value_text(text);
    t->toml = nc_strdup(toml.data);
    t->mark = text->mark;
    t->line = toml.line;
    t->indent = toml.indent;
}

static bool is_same_taint(const struct nc_value *a, const struct nc_value *b) {
    return nc_streq(nc_value_get_string(a, "key"), nc_value_get_string(b, "key"))
           && nc_streq(nc_value_get_string(a, "effect"), nc_value_get_string(b, "effect"));
}

/* Unites two lists of taints into `into`; a later one of the same key and effect takes the earlier
 * one's place. */
static void unite_taints(struct nc_value *into, struct nc_value *from) {
    for (size_t i = 0; i < from->n; i++) {
        size_t j = 0;

        while (j < into->n && !is_same_taint(into->items[j], from->items[i]))
            j++;
        if (j < into->n) {
            nc_value_free(into->items[j]);
            into->items[j] = nc_steal(&from->items[i]);
        } else {
            nc_value_push(into, nc_steal(&from->items[i]));
        }
    }
    from->n = 0;
}

/* One NodeConfig or AgentConfig over what is there. */
static void merge_spec(struct nc_config *c, struct nc_value *spec, const struct nc_value *tree) {
    const struct nc_value *given = nc_value_get(tree, "spec");
    nc_auto_value struct nc_value *from = given ? nc_value_copy(given) : NULL;
    nc_auto_value struct nc_value *flags = NULL;
    nc_auto_value struct nc_value *taints = NULL;
    struct nc_value *kubelet = NULL;
    struct nc_value *config = NULL;

    if (!from || from->type != NC_VALUE_MAP)
        return;
    kubelet = nc_value_get(from, "kubelet");
    flags = detach_key(kubelet, "flags");
    config = detach_key(kubelet, "config");
    taints = detach_key(nc_value_get(from, "node"), "taints");
    collect_containerd(c, nc_value_path(from, "containerd.config"));
    prune(from);
    append_flags(c, flags);
    merge_kubelet(spec, config);
    if (taints && taints->type == NC_VALUE_LIST && taints->n > 0) {
        struct nc_value *node = map_at(spec, "node");

        if (!nc_value_get(node, "taints"))
            nc_value_set(node, "taints", nc_value_new_list());
        unite_taints(nc_value_get(node, "taints"), taints);
    }
    nc_value_merge(spec, nc_steal(&from));
}

/* Two documents that name two clusters cannot both be meant. */
static int check_one_cluster(const struct nc_documents *d, struct nc_err *err) {
    const struct nc_value *first = NULL;

    for (size_t i = 0; i < d->n_docs; i++) {
        const struct nc_value *name = nc_value_path(d->docs[i].tree, "spec.cluster.name");
        nc_auto_free char *place = NULL, *message = NULL;
        int r = 0;

        if ((d->docs[i].kind != NC_DOCUMENT_NODE_CONFIG
             && d->docs[i].kind != NC_DOCUMENT_AGENT_CONFIG)
            || !nc_value_string(name) || !name->text[0])
            continue;
        if (!first)
            first = name;
        if (nc_streq(first->text, name->text))
            continue;
        place = nc_mark_location(d, first->mark);
        message =
            nc_asprintf("names cluster '%s', but %s names '%s'", name->text, place, first->text);
        r = nc_diag_err(d, name->mark, "spec.cluster.name", message, err);
        nc_err_remedy(err, "all documents are those of one node, which joins one cluster: "
                           "remove the one that is not meant");
        return r;
    }
    return 0;
}

static int merge_claim(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    const struct nc_document *found = NULL;

    for (size_t i = 0; i < d->n_docs; i++) {
        const struct nc_document *doc = &d->docs[i];
        nc_auto_free char *place = NULL, *message = NULL;

        if (doc->kind != NC_DOCUMENT_NODE_CLAIM)
            continue;
        if (found
            && !nc_streq(nc_value_path_string(found->tree, "metadata.name"),
                         nc_value_path_string(doc->tree, "metadata.name"))) {
            place = nc_mark_location(d, found->tree->mark);
            message = nc_asprintf("a second NodeClaim, the first is at %s", place);
            return nc_diag_err(d, doc->tree->mark, "metadata.name", message, err);
        }
        found = doc;
    }
    if (!found)
        return 0;
    c->has_claim_document = true;

    int r = nc_claim_parse(found->tree, &c->claim, err);

    if (r < 0)
        nc_err_wrap(err, "%s", d->sources[found->source].name);
    return r;
}

/* May be NULL: a block with nothing in it. */
static void keep_planned(struct nc_config *c, const struct nc_value *kubelet) {
    nc_value_free(c->planned);
    c->planned =
        kubelet && kubelet->type == NC_VALUE_MAP ? nc_value_copy(kubelet) : nc_value_new_map();
    nc_kubelet_quote_numbers(c->planned);
}

/* Who else would say to which NodePool the node belongs, or taint it as unregistered? */
static bool is_karpenters(const struct nc_value *tree) {
    const struct nc_value *flags = nc_value_path(tree, "spec.kubelet.flags");
    const struct nc_value *taints = nc_value_path(tree, "spec.kubelet.config.registerWithTaints");
    const struct nc_value *flag;

    for (size_t i = 0; (flag = nc_value_item(flags, i)); i++)
        if (nc_value_string(flag) && strstr(flag->text, NC_LABEL_NODE_POOL))
            return true;
    return nc_value_find(taints, "key", NC_TAINT_UNREGISTERED);
}

/* A NodeClass that the NodeClaim does not refer to is somebody else's. */
static bool is_class_of_claim(const struct nc_claim *claim, const struct nc_document *doc) {
    const char *name = nc_value_path_string(doc->tree, "metadata.name");

    return !claim->node_class_name || !name || nc_streq(name, claim->node_class_name);
}

/* As Karpenter writes it into its NodeConfig. */
static void merge_store_policy(struct nc_value *spec, const struct nc_value *policy) {
    struct nc_value *storage;

    if (!nc_streq(nc_value_string(policy), "RAID0"))
        return;
    storage = map_at(map_at(spec, "instance"), "localStorage");
    if (!nc_value_get(storage, "strategy"))
        nc_value_set(storage, "strategy", nc_value_copy(policy));
}

static void merge_classes(const struct nc_documents *d, struct nc_config *c,
                          struct nc_value *spec) {
    for (size_t i = 0; i < d->n_docs; i++) {
        const struct nc_document *doc = &d->docs[i];
        const struct nc_value *kubelet = nc_value_path(doc->tree, "spec.kubelet");
        nc_auto_free char *place = NULL;

        if (doc->kind != NC_DOCUMENT_NODE_CLASS)
            continue;
        place = nc_mark_location(d, kubelet ? kubelet->mark : doc->tree->mark);
        if (!is_class_of_claim(&c->claim, doc))
            nc_strv_addf(&c->warnings, "%s: not used: the NodeClaim refers to NodeClass %s", place,
                         c->claim.node_class_name);
        else {
            merge_store_policy(spec, nc_value_path(doc->tree, "spec.instanceStorePolicy"));
            if (kubelet && c->claim.kubelet) {
                nc_strv_addf(
                    &c->warnings,
                    "%s: spec.kubelet: not used: the NodeClaim carries a kubelet block of its own",
                    place);
                continue;
            }
            merge_kubelet(spec, kubelet ? nc_value_copy(kubelet) : NULL);
            keep_planned(c, kubelet);
        }
    }
    if (c->claim.kubelet) {
        merge_kubelet(spec, nc_value_copy(c->claim.kubelet));
        keep_planned(c, c->claim.kubelet);
    }
}

static void keep_flags(struct nc_config *c, struct nc_value *spec) {
    struct nc_value *list = NULL;

    if (c->kubelet_flags.n == 0)
        return;
    list = nc_value_new_list();
    for (size_t i = 0; i < c->kubelet_flags.n; i++) {
        struct nc_value *flag = nc_value_new_string(c->kubelet_flags.v[i]);

        flag->mark = c->kubelet_flag_marks[i];
        nc_value_push(list, flag);
    }
    list->mark = c->kubelet_flag_marks[0];
    nc_value_set(map_at(spec, "kubelet"), "flags", list);
}

int nc_config_merge(const struct nc_documents *d, struct nc_config *ret, struct nc_err *err) {
    struct nc_value *spec = NULL;
    int r = check_one_cluster(d, err);

    if (r >= 0)
        r = merge_claim(d, ret, err);
    if (r < 0)
        return r;
    ret->tree = nc_value_new_map();
    spec = map_at(ret->tree, "spec");
    merge_classes(d, ret, spec);
    for (size_t i = 0; i < d->n_docs; i++)
        if (d->docs[i].kind == NC_DOCUMENT_NODE_CONFIG
            || d->docs[i].kind == NC_DOCUMENT_AGENT_CONFIG) {
            merge_spec(ret, spec, d->docs[i].tree);
            if (is_karpenters(d->docs[i].tree))
                keep_planned(ret, nc_value_path(d->docs[i].tree, "spec.kubelet.config"));
        }
    keep_flags(ret, spec);
    return 0;
}

void nc_config_wipe_token(struct nc_value *tree) {
    struct nc_value *token = nc_value_path(tree, "spec.cluster.auth.bootstrapToken");

    for (; token; token = token->overrode)
        if (token->type == NC_VALUE_STRING)
            explicit_bzero(token->text, strlen(token->text));
}
