/*
 * The plan's part about the node as an object: its name, providerID and address, its labels, its
 * taints.
 *
 * Each is put layer by layer, weakest first (NodeClaim, documents, flags), and each layer leaves
 * its trace in the origins.
 */
#include <errno.h>
#include <stdio.h>

#include "nc/names.h"
#include "nc/str.h"
#include "numbers.h"
#include "planner.h"
#include "shapes.h"

#define FLAGS "spec.kubelet.flags"

static char *flag_place(const struct nc_planner *s, const char *name, struct nc_mark mark) {
    nc_auto_free char *place = nc_origin_mark(s->docs, mark);

    return nc_asprintf("flag --%s%s%s", name, *place ? " of " : "", place);
}

static int blame_flag(struct nc_planner *s, const struct nc_flag *f, int r) {
    nc_err_wrap(s->err, FLAGS);
    nc_origin_blame(s->err, s->docs, f->mark);
    return r;
}

/* A flag of the user's that states what the plan would say: it wins, as it would in kubelet. */
static const char *flag_value(const struct nc_planner *s, const char *name, char **ret_from) {
    const struct nc_flag *f = nc_flags_find(&s->flags, name);

    if (!f || !f->value || !*f->value)
        return NULL;
    *ret_from = flag_place(s, name, f->mark);
    return f->value;
}

static int plan_name(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    nc_auto_free char *flag_from = NULL;
    const char *flag = flag_value(s, "hostname-override", &flag_from);
    struct nc_decided_name name = {0};
    int r;

    if (flag && !nc_is_dns_subdomain(flag, strlen(flag))) {
        nc_auto_free char *quoted = nc_quote_string(flag);
        return nc_err_config(s->err, "%s: invalid node name: %s", flag_from, quoted);
    }
    if (flag) {
        p->node_name = nc_strdup(flag);
        nc_origin_set(p, "node.name", flag, flag_from);
        return 0;
    }
    r = nc_name_decide(s->facts, s->config, &name, &p->warnings, s->err);
    p->node_name = name.text;
    if (r == 0)
        nc_origin_set(p, "node.name", name.text, name.from);
    return r;
}

/* What a flag or the user's map says is what kubelet registers with, so it is the node's. */
static const char *given_provider_id(const struct nc_planner *s, char **ret_from) {
    const char *flag = flag_value(s, "provider-id", ret_from);
    const struct nc_value *own = nc_value_get(s->config->kubelet, "providerID");
    const char *text = nc_value_string(own);

    if (flag || !text || !*text)
        return flag;
    *ret_from = nc_origin_mark(s->docs, own->mark);
    return text;
}

int nc_plan_identity(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    nc_auto_free char *given_from = NULL;
    const char *given = given_provider_id(s, &given_from);
    struct nc_decided_name id = {0};
    int r = plan_name(s);

    if (r < 0)
        return r;
    if (given) {
        p->provider_id = nc_strdup(given);
        nc_origin_set(p, "providerID", given, given_from);
        return 0;
    }
    r = nc_provider_id_decide(s->facts, s->config, &id, s->err);
    p->provider_id = id.text;
    if (r == 0)
        nc_origin_set(p, "providerID", id.text, id.from);
    return r;
}

static void set_origin(struct nc_planner *s, const char *format, const char *key, const char *value,
                       const char *from) {
    nc_auto_free char *field = nc_asprintf("%s[%s]", format, key);

    nc_origin_set(&s->plan, field, value, from);
}

/* One label of one layer. */
static int set_label(struct nc_planner *s, const struct nc_label *l, const char *from) {
    const char *value = l->value ? l->value : "", *refusal = nc_label_refusal(l->key);
    char why[NC_LABEL_WHY_BYTES];

    if (!nc_label_is_valid(l->key, value, why, sizeof(why)))
        return nc_err_config(s->err, "%s: %s", from, why);
    if (refusal) {
        nc_strv_addf(&s->plan.warnings, "%s: label %s=%s is held back: %s", from, l->key, value,
                     refusal);
        nc_origin_certain(&s->plan, l->mark,
                          nc_starts_with(from, "flag ") ? FLAGS : "spec.node.labels",
                          strlen(from) + 2);
        return 0;
    }
    free(nc_labels_set(&s->plan.labels, &s->plan.n_labels, l->key, value, l->mark));
    set_origin(s, "labels", l->key, value, from);
    return 0;
}

static int set_labels(struct nc_planner *s, const struct nc_label *labels, size_t n,
                      const char *layer) {
    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *place = nc_origin_mark(s->docs, labels[i].mark);
        int r = set_label(s, &labels[i], *place ? place : layer);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Labels whose value is a fact of this instance, as far as IMDS was asked. One that it has not is
 * left out: a fleet has instances with and without. */
static int set_fact_labels(struct nc_planner *s) {
    const struct nc_config *c = s->config;

    for (size_t i = 0; i < c->n_labels_from; i++) {
        const struct nc_label *l = &c->labels_from[i];
        const struct nc_metadata *m = nc_facts_find_metadata(s->facts, l->value);
        nc_auto_free char *place = nc_origin_mark(s->docs, l->mark), *from = NULL, *message = NULL;
        char why[NC_LABEL_WHY_BYTES];
        int r = 0;

        if (!m && !nc_label_refusal(l->key))
            continue;
        if (m && !m->text) {
            nc_strv_addf(&s->plan.warnings, "label %s from %s: this instance has no %s%s: left out",
                         l->key, place, l->value,
                         nc_starts_with(l->value, "tags/")
                             ? ", or its metadata options do not let IMDS serve tags"
                             : "");
            continue;
        }
        from = nc_asprintf("%s, %s", place, l->value);
        if (nc_label_is_valid(l->key, m ? m->text : "", why, sizeof(why))) {
            const struct nc_label label = {l->key, m ? m->text : NULL, l->mark};

            r = set_label(s, &label, from);
        } else {
            message = nc_asprintf("%s: %s: %s", l->key, l->value, why);
            r = nc_origin_unsupported(s->in, "spec.node.labelsFrom", message, &s->plan, s->err);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* Every --node-labels adds up, in kubelet as here. */
static int set_flag_labels(struct nc_planner *s) {
    for (size_t i = 0; i < s->flags.n; i++) {
        const struct nc_flag *f = &s->flags.v[i];
        nc_auto_free char *from = NULL;
        struct nc_label *labels = NULL;
        size_t n = 0;
        int r;
        if (!nc_streq(f->name, "node-labels") || !f->value)
            continue;
        from = flag_place(s, f->name, f->mark);
        r = nc_labels_parse(f->value, f->mark, &labels, &n, s->err);
        for (size_t k = 0; r == 0 && k < n; k++)
            r = set_label(s, &labels[k], from);
        nc_labels_free(labels, n);
        if (r < 0)
            return blame_flag(s, f, r);
    }
    return 0;
}

/* Keys that only Karpenter and EKS Auto Mode give to a node. */
static bool is_karpenter_label(const char *key) {
    return nc_is_one_of(key, NC_LABEL_NODE_POOL
                        "\0" NC_LABEL_PROVISIONER "\0" NC_LABEL_CAPACITY_TYPE
                        "\0" NC_LABEL_DO_NOT_SYNC "\0"
                        "karpenter.k8s.aws/ec2nodeclass\0eks.amazonaws.com/nodeclass\0");
}

static bool has_label(const struct nc_plan *p, const char *key) {
    for (size_t i = 0; i < p->n_labels; i++)
        if (nc_streq(p->labels[i].key, key))
            return true;
    return false;
}

int nc_plan_labels(struct nc_planner *s) {
    const struct nc_config *c = s->config;
    struct nc_plan *p = &s->plan;
    int r = 0;

    if (s->facts->has_nvidia && p->kubelet_minor >= 35) {
        struct nc_label gpu = {(char *)"nvidia.com/gpu.present", (char *)"true", {0}};
        r = set_label(s, &gpu, "NVIDIA device, kubelet 1.35 and later");
    }
    if (r == 0 && s->claim)
        r = set_labels(s, s->claim->labels, s->claim->n_labels, "NodeClaim");
    p->n_certain = 0; /* Karpenter itself gives the node those of its claim */
    if (r == 0)
        r = set_labels(s, c->labels, c->n_labels, "spec.node.labels of the configuration");
    if (r == 0)
        r = set_fact_labels(s);
    if (r == 0)
        r = set_flag_labels(s);
    if (r < 0)
        return r;
    p->belongs_to_claim = s->claim != NULL;
    for (size_t i = 0; i < p->n_labels; i++)
        p->belongs_to_claim |= is_karpenter_label(p->labels[i].key);
    /* All of the claim's taints are registered here, so Karpenter must not put back a startup taint
     * that was taken off. */
    if (s->claim && s->claim->n_taints > 0 && !has_label(p, NC_LABEL_DO_NOT_SYNC)) {
        struct nc_label sync = {(char *)NC_LABEL_DO_NOT_SYNC, (char *)"true", {0}};
        r = set_label(s, &sync, "the node registers the NodeClaim's taints itself");
    }
    nc_labels_sort(p->labels, p->n_labels);
    return r;
}

static bool is_unregistered(const struct nc_taint *t) {
    return nc_streq(t->key, NC_TAINT_UNREGISTERED) && nc_streq(t->effect, "NoExecute");
}

static void taint_origin(struct nc_planner *s, const struct nc_taint *t, const char *from) {
    nc_auto_free char *key = nc_asprintf("%s:%s", t->key, t->effect);

    set_origin(s, "taints", key, t->value ? t->value : "", from);
}

/* One layer. The unregistered taint is only noted: it comes last. */
static int set_taints(struct nc_planner *s, const struct nc_taint *taints, size_t n,
                      const char *layer) {
    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *place = nc_origin_mark(s->docs, taints[i].mark);
        const char *from = *place ? place : layer;
        char why[NC_LABEL_WHY_BYTES];
        if (!nc_taint_is_valid(&taints[i], why, sizeof(why)))
            return nc_err_config(s->err, "%s: taint %s", from, why);
        taint_origin(s, &taints[i], from);
        if (is_unregistered(&taints[i]))
            s->plan.belongs_to_claim = true;
        else
            free(nc_taints_set(&s->plan.taints, &s->plan.n_taints, &taints[i]));
    }
    return 0;
}

static int set_user_taints(struct nc_planner *s) {
    const struct nc_value *list = nc_value_get(s->config->kubelet, "registerWithTaints");
    struct nc_taint *taints = NULL;
    size_t n = 0;
    int r = nc_taints_read(list, "spec.kubelet.config.registerWithTaints", &taints, &n, s->err);

    if (r < 0 && list) {
        nc_auto_free char *place = nc_origin_mark(s->docs, list->mark);
        if (*place)
            nc_err_wrap(s->err, "%s", place);
    }
    if (r == 0)
        r = set_taints(s, taints, n, "spec.kubelet.config.registerWithTaints");
    nc_taints_free(taints, n);
    return r;
}

static int set_flag_taints(struct nc_planner *s) {
    for (size_t i = 0; i < s->flags.n; i++) {
        const struct nc_flag *f = &s->flags.v[i];
        nc_auto_free char *from = NULL;
        struct nc_taint *taints = NULL;
        size_t n = 0;
        int r;
        if (!nc_streq(f->name, "register-with-taints") || !f->value)
            continue;
        from = flag_place(s, f->name, f->mark);
        r = nc_taints_parse(f->value, (struct nc_mark){0}, &taints, &n, s->err);
        if (r == 0)
            r = set_taints(s, taints, n, from);
        nc_taints_free(taints, n);
        if (r < 0)
            return blame_flag(s, f, r);
    }
    return 0;
}

/* The gate's own taint, where nobody has brought it: of a claim that would be its NodePool. */
static int set_unfit_taint(struct nc_planner *s) {
    const struct nc_taint unfit = {(char *)NC_TAINT_UNFIT, (char *)"", (char *)"NoSchedule", {0}};

    for (size_t i = 0; i < s->plan.n_taints; i++)
        if (nc_streq(s->plan.taints[i].key, unfit.key)
            && nc_streq(s->plan.taints[i].effect, unfit.effect))
            return 0;
    if (!s->plan.belongs_to_claim)
        return set_taints(s, &unfit, 1, "spec.fit");
    nc_strv_add(&s->plan.warnings,
                "spec.fit: the NodeClaim has no startup taint " NC_TAINT_UNFIT
                ":NoSchedule, so pods may start before the node is fit; add it to startupTaints of "
                "the NodePool");
    return 0;
}

int nc_plan_taints(struct nc_planner *s) {
    const struct nc_config *c = s->config;
    struct nc_taint unregistered = {
        (char *)NC_TAINT_UNREGISTERED, (char *)"", (char *)"NoExecute", {0}};
    int r = 0;

    if (s->claim)
        r = set_taints(s, s->claim->taints, s->claim->n_taints, "NodeClaim");
    if (r == 0)
        r = set_taints(s, c->taints, c->n_taints, "spec.node.taints of the configuration");
    if (r == 0)
        r = set_user_taints(s);
    if (r == 0)
        r = set_flag_taints(s);
    if (r == 0 && c->fit.is_set)
        r = set_unfit_taint(s);
    if (r < 0 || !s->plan.belongs_to_claim)
        return r;
    for (size_t i = 0; i < s->plan.n_origins; i++)
        if (nc_streq(s->plan.origins[i].field, "taints[" NC_TAINT_UNREGISTERED ":NoExecute]"))
            r = 1; /* a document said it already */
    if (r == 0)
        taint_origin(s, &unregistered, "the node belongs to a NodeClaim");
    free(nc_taints_set(&s->plan.taints, &s->plan.n_taints, &unregistered));
    return 0;
}

/* The services' family decides which address the node takes: EKS clusters have one family only. */
static int service_family(const struct nc_planner *s) {
    const struct nc_value *dns = nc_value_get(s->plan.kubelet_effective, "clusterDNS");

    if (s->config->cidr)
        return nc_address_family(s->config->cidr);
    return dns && dns->n > 0 && dns->type == NC_VALUE_LIST
               ? nc_address_family(nc_value_string(dns->items[0]))
               : 0;
}

/* 0: it is no address. */
static int family_of_ip(const char *text) {
    return strchr(text, '/') ? 0 : nc_address_family(text);
}

/* kubelet takes one address, or one of each family, and passes over what it cannot read. */
static int check_node_ip(struct nc_planner *s, const char *flag, const char *from) {
    unsigned addresses[7] = {0}; /* by family, 0: of none */

    for (size_t n; *flag; flag += n + (flag[n] != 0)) {
        n = strcspn(flag, ",");
        nc_auto_free char *part = nc_strndup(flag, n);
        const int family = family_of_ip(part);
        if (addresses[family]++ > 0 && family > 0)
            return nc_err_config(s->err, "%s: one address, or one of each family, is needed", from);
    }
    if (addresses[0] > 0)
        nc_strv_addf(&s->plan.warnings, "%s: kubelet ignores what is not an IP address", from);
    return 0;
}

int nc_plan_network(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    nc_auto_free char *flag_from = NULL;
    const char *flag = flag_value(s, "node-ip", &flag_from);
    const struct nc_value *dns = nc_value_get(p->kubelet_effective, "clusterDNS"), *item;
    int family = service_family(s);
    const char *address = flag ? flag : nc_node_ip_of_family(s->facts, family);

    if (flag && check_node_ip(s, flag, flag_from) < 0)
        return -EINVAL;
    for (size_t i = 0; (item = nc_value_item(dns, i)); i++) {
        const char *text = nc_value_string(item);
        if (!text || family_of_ip(text) == 0)
            return nc_kubelet_error(s->err, s->docs, item, "clusterDNS: an IP address is needed");
        nc_strv_add(&p->cluster_dns, text);
    }
    /* What was set aside may have been it. */
    if (p->cluster_dns.n == 0 && (!s->docs || s->docs->n_aside == 0))
        nc_strv_add(
            &p->warnings,
            "spec.kubelet.config.clusterDNS: no address is set: pods get the node's resolver");
    if (address) {
        p->node_ip = nc_strdup(address);
        nc_origin_set(p, "node.ip", address,
                      flag          ? flag_from
                      : family == 6 ? "IMDS ipv6s"
                                    : "IMDS local-ipv4");
    } else {
        nc_strv_addf(&p->warnings,
                     "node-ip: this instance has no IPv%d address: kubelet chooses one",
                     family == 6 ? 6 : 4);
    }
    return 0;
}
