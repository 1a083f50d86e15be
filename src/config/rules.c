/*
 * Rules across fields: see rules.h. Values of a wrong type were reported by the schema and are
 * passed over here.
 */
#include "nc/names.h"
#include "schema.h"

#include <errno.h>
#include <stdbool.h>

#include "config-priv.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/value.h"
#include "shapes.h"

/* Is `domain` the domain of the key, or the end of it? */
static const char *below_domain(const char *key, const char *domain) {
    const char *slash = strchr(key, '/');
    size_t n = strlen(domain);

    if (!slash || (size_t)(slash - key) < n || strncmp(slash - n, domain, n) != 0)
        return NULL;
    return slash - n == key || slash[-(ptrdiff_t)n - 1] == '.' ? slash + 1 : NULL;
}

static void check_key(struct nc_documents *d, const struct nc_value *v, const char *path) {
    const char *key = v->text;
    const char *name = NULL;

    if (!nc_shape_qualified_name(key)) {
        nc_diag(d, true, v->mark, path, "must be a label key such as topology.kubernetes.io/zone");
        return;
    }
    if (nc_streq(key, NC_LABEL_HOSTNAME))
        nc_diag(d, false, v->mark, path,
                "kubernetes.io/hostname cannot be required of a node that does not exist yet");
    name = below_domain(key, "karpenter.sh");
    if (name && !nc_streq(name, "capacity-type") && !nc_streq(name, "nodepool"))
        nc_diag(d, false, v->mark, path,
                "of karpenter.sh only capacity-type and nodepool may be required");
}

static bool is_count(const struct nc_value *v) {
    uint64_t n = 0;

    if (v->type == NC_VALUE_INT)
        return v->integer >= 0;
    return v->type == NC_VALUE_STRING && nc_parse_u64(v->text, &n) == 0;
}

static void check_requirement(struct nc_documents *d, const struct nc_value *r, const char *path) {
    const struct nc_value *key = nc_value_get(r, "key");
    const struct nc_value *op = nc_value_get(r, "operator");
    const struct nc_value *values = nc_value_get(r, "values");
    const struct nc_value *min = nc_value_get(r, "minValues");
    const char *name = nc_value_string(op);
    nc_auto_free char *key_path = nc_asprintf("%s.key", path);
    nc_auto_free char *values_path = nc_asprintf("%s.values", path);
    size_t n = values && values->type == NC_VALUE_LIST ? values->n : 0;

    if (nc_value_string(key))
        check_key(d, key, key_path);
    if (!name)
        return;
    if ((nc_streq(name, "In") || nc_streq(name, "NotIn")) && n == 0)
        nc_diag(d, true, op->mark, values_path, "operator %s needs at least one value", name);
    if ((nc_streq(name, "Exists") || nc_streq(name, "DoesNotExist")) && n > 0)
        nc_diag(d, true, op->mark, values_path, "operator %s allows no values", name);
    if ((name[0] == 'G' || name[0] == 'L') && (n != 1 || !is_count(values->items[0])))
        nc_diag(d, true, op->mark, values_path,
                "operator %s needs exactly one value, an integer that is not negative", name);
    if (min && min->type == NC_VALUE_INT && nc_streq(name, "In") && n < (uint64_t)min->integer)
        nc_diag(d, false, min->mark, path, "minValues requires %lld values, only %zu are listed",
                (long long)min->integer, n);
}

static void check_requirements(struct nc_documents *d, const struct nc_value *list) {
    if (!list || list->type != NC_VALUE_LIST)
        return;
    if (list->n > 100)
        nc_diag(d, false, list->mark, "spec.requirements", "%zu requirements, Karpenter allows 100",
                list->n);
    for (size_t i = 0; i < list->n; i++) {
        nc_auto_free char *path = nc_asprintf("spec.requirements[%zu]", i);

        check_requirement(d, list->items[i], path);
    }
}

static bool is_same_taint(const struct nc_value *a, const struct nc_value *b) {
    const char *key = nc_value_get_string(a, "key");

    return key && nc_streq(key, nc_value_get_string(b, "key"))
           && nc_streq(nc_value_get_string(a, "effect"), nc_value_get_string(b, "effect"));
}

static size_t items_of(const struct nc_value *list) {
    return list && list->type == NC_VALUE_LIST ? list->n : 0;
}

void nc_rules_taints(struct nc_documents *d, const struct nc_value *taints,
                     const struct nc_value *other, const char *path, const char *other_path) {
    size_t n = items_of(taints);
    size_t all = n + items_of(other);

    /* A node with more taints than this is no node; the comparison below is quadratic. */
    if (all > 256) {
        nc_diag(d, true, n > 256 ? taints->mark : other->mark, path,
                "%zu taints, at most 256 are accepted", all);
        return;
    }
    for (size_t i = 0; i < all; i++) {
        const struct nc_value *t = i < n ? taints->items[i] : other->items[i - n];

        for (size_t j = 0; j < i; j++) {
            const struct nc_value *before = j < n ? taints->items[j] : other->items[j - n];
            nc_auto_free char *where = NULL;

            if (!is_same_taint(t, before))
                continue;
            where = nc_asprintf("%s[%zu]", i < n ? path : other_path, i < n ? i : i - n);
            nc_diag(d, true, t->mark, where, "taint %s:%s is there twice",
                    nc_value_get_string(t, "key"), nc_value_get_string(t, "effect"));
            break;
        }
    }
}

static void check_quantities(struct nc_documents *d, const struct nc_value *map, const char *path) {
    if (!map || map->type != NC_VALUE_MAP)
        return;
    for (size_t i = 0; i < map->n; i++) {
        const struct nc_value *v = map->members[i].value;
        nc_auto_free char *quoted = nc_quote_string(map->members[i].key);
        nc_auto_free char *is = nc_value_describe(v);
        int64_t milli = 0;
        int64_t whole = 0;

        if (nc_quantity_of(v, &milli, &whole) == -EINVAL)
            nc_diag(d, true, v->mark, path,
                    "%s must be a quantity such as \"1\" or \"1Gi\", not %s", quoted, is);
    }
}

void nc_rules_node_claim(struct nc_documents *d, const struct nc_value *claim) {
    check_requirements(d, nc_value_path(claim, "spec.requirements"));
    nc_rules_taints(d, nc_value_path(claim, "spec.taints"),
                    nc_value_path(claim, "spec.startupTaints"), "spec.taints",
                    "spec.startupTaints");
    check_quantities(d, nc_value_path(claim, "spec.resources.requests"), "spec.resources.requests");
    check_quantities(d, nc_value_path(claim, "status.capacity"), "status.capacity");
    check_quantities(d, nc_value_path(claim, "status.allocatable"), "status.allocatable");
}

void nc_rules_node_config(struct nc_documents *d, const struct nc_value *config) {
    static const char path[] = NC_CONTAINERD_FIELD;
    const struct nc_value *text = nc_value_path(config, path);
    nc_auto_value struct nc_value *tree = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_value_string(text) && nc_toml_parse(nc_value_text(text), &tree, &err) < 0) {
        nc_auto_free char *line = NULL;
        const struct nc_mark mark = nc_mark_inside(text->mark, err.mark, &line);
        nc_diag(d, true, mark, path, "invalid TOML text: %s%s", line, err.msg);
    }
}

static void check_tags(struct nc_documents *d, const struct nc_value *tags) {
    static const char reserved[] = "eks:eks-cluster-name\0" NC_LABEL_NODE_POOL "\0"
                                   "karpenter.sh/nodeclaim\0karpenter.k8s.aws/ec2nodeclass\0";

    if (!tags || tags->type != NC_VALUE_MAP)
        return;
    for (size_t i = 0; i < tags->n; i++)
        if (nc_is_one_of(tags->members[i].key, reserved)
            || nc_starts_with(tags->members[i].key, "kubernetes.io/cluster"))
            nc_diag(d, false, tags->members[i].mark, "spec.tags", "tag %.80s is Karpenter's own",
                    tags->members[i].key);
}

static void check_root_volumes(struct nc_documents *d, const struct nc_value *mappings) {
    size_t roots = 0;

    for (size_t i = 0; i < items_of(mappings); i++)
        roots += nc_value_bool(nc_value_get(mappings->items[i], "rootVolume"), false);
    if (roots > 1)
        nc_diag(d, false, mappings->mark, "spec.blockDeviceMappings",
                "%zu root volumes, there is one", roots);
}

/* nodeclaimd runs on no image of other families, and an alias, "al2023@latest", is AWS's own image.
 */
static void check_family(struct nc_documents *d, const struct nc_value *family,
                         const struct nc_value *terms) {
    if (family && nc_which_of(family->text, nc_ami_families) > 1)
        nc_diag(d, false, family->mark, "spec.amiFamily",
                "nodeclaimd is for AL2023 and Custom, not %.40s", family->text);
    for (size_t i = 0; i < items_of(terms); i++) {
        const struct nc_value *alias = nc_value_get(terms->items[i], "alias");

        if (nc_value_string(alias))
            nc_diag(d, false, alias->mark, "spec.amiSelectorTerms",
                    "the image of alias %.40s is AWS's and has no nodeclaimd; select yours by tags",
                    alias->text);
    }
}

void nc_rules_node_class(struct nc_documents *d, const struct nc_value *node_class) {
    const struct nc_value *spec = nc_value_get(node_class, "spec");
    const struct nc_value *family = nc_value_get(spec, "amiFamily");
    const struct nc_value *taints = nc_value_path(spec, "kubelet.registerWithTaints");

    if (taints)
        nc_diag(d, false, taints->mark, "spec.kubelet.registerWithTaints",
                "Karpenter sets this itself");
    if (!nc_value_says(node_class, "kind", "EC2NodeClass"))
        return;
    if (nc_value_get(spec, "role") && nc_value_get(spec, "instanceProfile"))
        nc_diag(d, false, spec->mark, "spec", "role and instanceProfile exclude each other");
    check_tags(d, nc_value_get(spec, "tags"));
    check_root_volumes(d, nc_value_get(spec, "blockDeviceMappings"));
    check_family(d, nc_value_string(family) ? family : NULL,
                 nc_value_get(spec, "amiSelectorTerms"));
}
