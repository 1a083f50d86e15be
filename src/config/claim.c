/*
 * NodeClaim: the object, of a document or of the API, as a struct.
 *
 * Takes v1 and v1beta1 alike and normalises what differs: labels of old names in requirements, the
 * kubelet block (spec.kubelet of v1beta1, or the annotation that its
 * conversion to v1 left behind). Values that YAML or an int-or-string field may spell as numbers
 * become text. Only what a node uses is checked; the rest may be anything.
 */
#include <errno.h>
#include <stdint.h>

#include "nc/config.h"
#include "nc/names.h"
#include "nc/str.h"
#include "shapes.h"

#define KUBELET_ANNOTATION "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
#define MAX_ENTRIES                                                                                \
    ((size_t)4096) /* labels, taints, requirements: far above what etcd would hold */

static void free_requirements(struct nc_requirement *r, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(r[i].key);
        free(r[i].op);
        nc_strv_done(&r[i].values);
    }
    free(r);
}

void nc_claim_done(struct nc_claim *c) {
    char *owned[] = {c->name, c->uid, c->api_version, c->node_class_name, c->provider_id};
    struct nc_value *values[] = {c->requests, c->kubelet, c->capacity, c->allocatable};

    for (size_t i = 0; i < NC_ARRAY_SIZE(owned); i++)
        free(owned[i]);
    for (size_t i = 0; i < NC_ARRAY_SIZE(values); i++)
        nc_value_free(values[i]);
    nc_labels_free(c->labels, c->n_labels);
    nc_taints_free(c->taints, c->n_taints);
    free_requirements(c->requirements, c->n_requirements);
    *c = (struct nc_claim){0};
}

/* What came from a document is the user's to repair, what came from the API is not. */
static int wrong(const struct nc_value *v, const char *path, const char *wanted,
                 struct nc_err *err) {
    if (v->mark.source > 0)
        return nc_err_config(err, "line %u, column %u: %s must be %s", v->mark.line, v->mark.column,
                             path, wanted);
    return nc_err_protocol(err, "NodeClaim: %s must be %s", path, wanted);
}

static bool is_there(const struct nc_value *v) {
    return v && v->type != NC_VALUE_NULL;
}

/* A string at a path of the object; absent leaves *ret alone. */
static int read_claim_text(const struct nc_value *object, const char *path, char **ret,
                           struct nc_err *err) {
    const struct nc_value *v = nc_value_path(object, path);

    if (!is_there(v))
        return 0;
    if (v->type != NC_VALUE_STRING)
        return wrong(v, path, "a string", err);
    if (v->text[0])
        *ret = nc_strdup(v->text);
    return 0;
}

static int read_string_map(const struct nc_value *object, const char *path, struct nc_value **ret,
                           struct nc_err *err) {
    const struct nc_value *v = nc_value_path(object, path);

    if (!is_there(v))
        return 0;
    if (v->type != NC_VALUE_MAP || v->n > MAX_ENTRIES)
        return wrong(v, path, "a map", err);
    *ret = nc_value_copy(v);
    return 0;
}

/* The list at a path: NULL with *ret_n 0 where there is none. */
static int list_at(const struct nc_value *object, const char *path, struct nc_value ***ret,
                   size_t *ret_n, struct nc_err *err) {
    const struct nc_value *v = nc_value_path(object, path);

    *ret = NULL;
    *ret_n = 0;
    if (!is_there(v))
        return 0;
    if (v->type != NC_VALUE_LIST || v->n > MAX_ENTRIES)
        return wrong(v, path, "a list", err);
    *ret = v->items;
    *ret_n = v->n;
    return 0;
}

static int read_claim_labels(const struct nc_value *object, struct nc_claim *c,
                             struct nc_err *err) {
    const struct nc_value *map = nc_value_path(object, "metadata.labels");

    if (!is_there(map))
        return 0;
    if (map->type != NC_VALUE_MAP || map->n > MAX_ENTRIES)
        return wrong(map, "metadata.labels", "a map of strings", err);
    for (size_t i = 0; i < map->n; i++) {
        char buffer[32];
        const char *text = nc_value_scalar_text(map->members[i].value, buffer);
        struct nc_label *l = NULL;

        if (!text)
            return wrong(map->members[i].value, "metadata.labels", "a map of strings", err);
        l = nc_append(&c->labels, &c->n_labels);
        l->key = nc_strdup(map->members[i].key);
        l->value = nc_strdup(text);
        l->mark = map->members[i].mark;
    }
    return 0;
}

static int read_claim_taints(const struct nc_value *object, const char *path, struct nc_claim *c,
                             struct nc_err *err) {
    struct nc_value **items = NULL;
    size_t n = 0;
    int r = list_at(object, path, &items, &n, err);

    for (size_t i = 0; r >= 0 && i < n; i++) {
        const struct nc_value *value = nc_value_get(items[i], "value");
        char buffer[32];
        const char *text = is_there(value) ? nc_value_scalar_text(value, buffer) : "";
        const char *key = nc_value_get_string(items[i], "key");
        const char *effect = nc_value_get_string(items[i], "effect");
        struct nc_taint *t = NULL;

        if (!key || !key[0] || !effect || !effect[0] || !text)
            return wrong(items[i], path, "taints with a key and an effect", err);
        t = nc_append(&c->taints, &c->n_taints);
        t->key = nc_strdup(key);
        t->value = nc_strdup(text);
        t->effect = nc_strdup(effect);
        t->mark = items[i]->mark;
    }
    return r;
}

/* Label keys from before Kubernetes 1.17, as Karpenter rewrites them. */
static const struct {
    char old[44];
    const char *now;
} aliases[] = {
    {"failure-domain.beta.kubernetes.io/zone", NC_LABEL_ZONE},
    {"failure-domain.beta.kubernetes.io/region", NC_LABEL_REGION},
    {"beta.kubernetes.io/arch", NC_LABEL_ARCH},
    {"beta.kubernetes.io/os", NC_LABEL_OS},
    {"beta.kubernetes.io/instance-type", NC_LABEL_INSTANCE_TYPE},
};

static const char *normalised(const char *key) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(aliases); i++)
        if (nc_streq(key, aliases[i].old))
            return aliases[i].now;
    return key;
}

static int read_requirement(const struct nc_value *item, struct nc_claim *c, struct nc_err *err) {
    static const char ops[] = "In\0NotIn\0Exists\0DoesNotExist\0Gt\0Lt\0Gte\0Lte\0";
    const char *key = nc_value_get_string(item, "key");
    const char *op = nc_value_get_string(item, "operator");
    const struct nc_value *values = nc_value_get(item, "values");
    struct nc_requirement *r = NULL;

    if (!key || !key[0] || !nc_is_one_of(op, ops))
        return wrong(item, "spec.requirements", "requirements with a key and an operator", err);
    if (is_there(values) && (values->type != NC_VALUE_LIST || values->n > MAX_ENTRIES))
        return wrong(values, "spec.requirements.values", "a list of strings", err);
    r = nc_append(&c->requirements, &c->n_requirements);
    r->key = nc_strdup(normalised(key));
    r->op = nc_strdup(op);
    r->mark = item->mark;
    for (size_t i = 0; is_there(values) && i < values->n; i++) {
        char buffer[32];
        const char *text = nc_value_scalar_text(values->items[i], buffer);

        if (!text)
            return wrong(values->items[i], "spec.requirements.values", "a list of strings", err);
        nc_strv_add(&r->values, text);
    }
    return 0;
}

static int read_requirements(const struct nc_value *object, struct nc_claim *c,
                             struct nc_err *err) {
    struct nc_value **items = NULL;
    size_t n = 0;
    int r = list_at(object, "spec.requirements", &items, &n, err);

    for (size_t i = 0; r >= 0 && i < n; i++)
        r = read_requirement(items[i], c, err);
    return r;
}

static void set_marks(struct nc_value *v, struct nc_mark mark) {
    v->mark = mark;
    for (size_t i = 0; v->type == NC_VALUE_MAP && i < v->n; i++) {
        v->members[i].mark = mark;
        set_marks(v->members[i].value, mark);
    }
    for (size_t i = 0; v->type == NC_VALUE_LIST && i < v->n; i++)
        set_marks(v->items[i], mark);
}

static int read_claim_kubelet(const struct nc_value *object, struct nc_claim *c,
                              struct nc_err *err) {
    const struct nc_value *annotation =
        nc_value_get(nc_value_path(object, "metadata.annotations"), KUBELET_ANNOTATION);
    nc_auto_value struct nc_value *block = NULL;
    int r = read_string_map(object, "spec.kubelet", &c->kubelet, err);

    if (r < 0 || c->kubelet || !is_there(annotation))
        return r;
    if (annotation->type != NC_VALUE_STRING
        || nc_json_parse(annotation->text, strlen(annotation->text), &block, NULL) < 0
        || block->type != NC_VALUE_MAP)
        return wrong(annotation, "metadata.annotations['" KUBELET_ANNOTATION "']", "a JSON object",
                     err);
    set_marks(block, annotation->mark);
    c->kubelet = nc_steal(&block);
    return 0;
}

static int read_whole_claim(const struct nc_value *object, struct nc_claim *c, struct nc_err *err) {
    int r = read_claim_text(object, "metadata.name", &c->name, err);

    if (r >= 0)
        r = read_claim_text(object, "metadata.uid", &c->uid, err);
    if (r >= 0)
        r = read_claim_labels(object, c, err);
    if (r >= 0)
        r = read_claim_taints(object, "spec.taints", c, err);
    c->n_plain_taints = c->n_taints;
    if (r >= 0)
        r = read_claim_taints(object, "spec.startupTaints", c, err);
    if (r >= 0)
        r = read_requirements(object, c, err);
    if (r >= 0)
        r = read_claim_text(object, "spec.nodeClassRef.name", &c->node_class_name, err);
    if (r >= 0)
        r = read_claim_kubelet(object, c, err);
    if (r >= 0)
        r = read_string_map(object, "spec.resources.requests", &c->requests, err);
    if (r >= 0)
        r = read_string_map(object, "status.capacity", &c->capacity, err);
    if (r >= 0)
        r = read_string_map(object, "status.allocatable", &c->allocatable, err);
    if (r >= 0)
        r = read_claim_text(object, "status.providerID", &c->provider_id, err);
    return r;
}

int nc_claim_parse(const struct nc_value *object, struct nc_claim *ret, struct nc_err *err) {
    nc_cleanup(nc_claim_done) struct nc_claim c = {0};
    const char *api_version = nc_value_get_string(object, "apiVersion");
    int r = 0;

    if (!object)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "no NodeClaim to parse");
    if (!nc_value_says(object, "kind", "NodeClaim") || !api_version
        || !nc_starts_with(api_version, "karpenter.sh/"))
        return wrong(object, "the object", "a NodeClaim of karpenter.sh", err);
    c.api_version = nc_strdup(api_version);
    r = read_whole_claim(object, &c, err);
    if (r < 0)
        return r;
    *ret = c;
    c = (struct nc_claim){0};
    return 0;
}
