/*
 * How many pods.
 *
 * The VPC CNI gives each pod an address of an interface: with E interfaces of I addresses each, the
 * first of which is the interface's own, and two pods on the host's network, E * (I - 1) + 2
 * (amazon-eks-ami's eni-max-pods). Custom networking cannot use the first interface; where pods
 * have security groups, one interface is the trunk to theirs, on types that can have one. Prefix
 * delegation hands out /28 prefixes, sixteen addresses each, and is capped where kubelet stops
 * being comfortable: 110, or 250 above 30 vCPUs. EKS Auto Mode runs neither CNI nor kube-proxy as
 * pods, so its "+ 2" is missing.
 */
#include "numbers.h"

#include <errno.h>
#include <stdio.h>

#include "nc/quantity.h"
#include "nc/str.h"
#include "origin.h"

#define PODS_WHERE_UNKNOWN 110 /* kubelet's own default */
#define PODS_PER_PREFIX 16
#define CAP_SMALL 110
#define CAP_LARGE 250
#define CAP_LARGE_ABOVE_VCPUS 30

static bool is_known(const struct nc_instance_type *t) {
    return t->name[0] && t->enis > 0 && t->ipv4_per_eni > 0;
}

int64_t nc_max_pods_eni(const struct nc_instance_type *t) {
    return is_known(t) ? t->enis * (t->ipv4_per_eni - 1) + 2 : -1;
}

/* Bare metal sits on the Nitro cards as well; only Xen lacks prefixes. */
static int64_t pods_by_prefix(const struct nc_facts *f, const struct nc_instance_type *t,
                              struct nc_strv *warnings) {
    int64_t vcpus = t->vcpus > 0 ? t->vcpus : f->cpus;
    int64_t cap = vcpus > CAP_LARGE_ABOVE_VCPUS ? CAP_LARGE : CAP_SMALL;
    int64_t pods = t->enis * (t->ipv4_per_eni - 1) * PODS_PER_PREFIX + 2;

    if (nc_streq(t->hypervisor, "xen")) {
        nc_strv_addf(warnings,
                     "maxPods: %s is not a Nitro instance, prefix delegation does not work on it: "
                     "counting single addresses",
                     t->name);
        return nc_max_pods_eni(t);
    }
    return pods < cap ? pods : cap;
}

/* Not computed, or not to a number of pods: as every field that is not honoured. */
static int refuse_expression(const struct nc_plan_input *in, const char *why, struct nc_plan *p,
                             struct nc_err *err) {
    static const char agents[] = "spec.maxPods.expression";
    const bool is_agents = nc_value_path_string(in->config->tree, agents) != NULL;
    nc_auto_free char *message = nc_asprintf("cannot be computed: %s", why);

    return nc_origin_refuse(in, is_agents ? agents : "spec.kubelet.maxPodsExpression", message, p,
                            err);
}

/* Fills ret->expression. Where the type is not known, the text alone can be checked. */
static int compute_expression(const struct nc_plan_input *in, const struct nc_instance_type *t,
                              struct nc_max_pods *ret, struct nc_plan *p, struct nc_err *err) {
    const struct nc_expression_variables v = {.default_enis = t->enis,
                                              .ips_per_eni = t->ipv4_per_eni,
                                              .max_pods = nc_max_pods_eni(t),
                                              .least = 1,
                                              .most = INT32_MAX};
    const char *text = in->config->max_pods_expression;
    char why[256];
    int r;

    if (in->config->max_pods_mode != NC_MAX_PODS_EXPRESSION || !text)
        return 0;
    r = nc_expression_evaluate(text, &v, &ret->expression, why, sizeof(why));
    if (!is_known(t))
        ret->expression = 0;
    return r == -EINVAL || (r < 0 && is_known(t)) ? refuse_expression(in, why, p, err) : 0;
}

/* The mode's number for a type that is known. */
static int64_t pods_by_mode(const struct nc_facts *f, const struct nc_config *c,
                            const struct nc_instance_type *t, struct nc_max_pods *ret,
                            struct nc_strv *warnings) {
    int64_t eni = nc_max_pods_eni(t);
    int64_t pods = eni;

    switch (c->max_pods_mode) {
    case NC_MAX_PODS_CUSTOM_NETWORKING:
        pods = (t->enis - 1) * (t->ipv4_per_eni - 1) + 2;
        snprintf(ret->from, sizeof(ret->from), "instance type %s, custom networking", t->name);
        return pods;
    case NC_MAX_PODS_PREFIX:
        pods = pods_by_prefix(f, t, warnings);
        snprintf(ret->from, sizeof(ret->from), "instance type %s, prefix delegation", t->name);
        return pods;
    case NC_MAX_PODS_EXPRESSION:
        if (ret->expression == 0)
            break;
        snprintf(ret->from, sizeof(ret->from), "instance type %s, maxPodsExpression", t->name);
        return ret->reserved = ret->expression; /* as nodeadm, whose field this is */
    case NC_MAX_PODS_SECURITY_GROUPS:
        pods -= t->branch_enis != 0 ? t->ipv4_per_eni - 1 : 0;
        snprintf(ret->from, sizeof(ret->from), "instance type %s, security groups for pods",
                 t->name);
        return pods;
    case NC_MAX_PODS_ENI:
    case NC_MAX_PODS_EXPLICIT:
        break;
    }
    snprintf(ret->from, sizeof(ret->from), "instance type %s", t->name);
    if (c->reservation == NC_RESERVATION_AUTO_MODE) {
        ret->reserved = pods = eni - 2;
        snprintf(ret->from, sizeof(ret->from), "instance type %s, Auto Mode profile", t->name);
    }
    return pods;
}

/* status.capacity.pods of the NodeClaim: what Karpenter's scheduler counts on. */
static bool pods_of_claim(const struct nc_plan_input *in, int64_t *ret) {
    const struct nc_claim *claim = nc_plan_claim(in);
    int64_t pods;

    if (!claim || nc_quantity_of(nc_value_get(claim->capacity, "pods"), NULL, &pods) < 0)
        return false;
    if (pods < 1 || pods > INT32_MAX)
        return false;
    *ret = pods;
    return true;
}

/* Nobody knows the type. What Karpenter wrote for kubelet is what it planned with, unless somebody
 * chose another number: of the two the smaller leaves the pods the room that they were promised. */
static void guess(const struct nc_facts *f, const struct nc_config *c, struct nc_max_pods *m,
                  struct nc_strv *warnings) {
    const struct nc_value *given = nc_value_get(c->kubelet, "maxPods");
    const char *type = f->instance_type ? f->instance_type : "(unknown)";

    m->base = m->reserved = PODS_WHERE_UNKNOWN;
    snprintf(m->from, sizeof(m->from), "unknown instance type %.64s",
             f->instance_type ? f->instance_type : "");
    if (nc_value_int(given, 0) < 1) {
        nc_strv_addf(warnings,
                     "instance type %s is not in the table: maxPods %d is a guess (set maxPods, or "
                     "allow ec2:DescribeInstanceTypes)",
                     type, PODS_WHERE_UNKNOWN);
        return;
    }
    if (given->integer < m->reserved)
        m->reserved = given->integer;
    nc_strv_addf(warnings,
                 "instance type %s is not in the table: memory is reserved for %lld pods, by "
                 "kubelet's maxPods (allow ec2:DescribeInstanceTypes to have it exact)",
                 type, (long long)m->reserved);
}

/* A type that is not in the table: what the claim was planned with, or what EC2 says of it; an
 * expression needs what EC2 says. */
static void decide_unknown(const struct nc_plan_input *in, struct nc_max_pods *m,
                           struct nc_strv *warnings) {
    const struct nc_facts *f = in->facts;

    if (m->expression == 0 && pods_of_claim(in, &m->base)) {
        nc_copy_text(m->from, sizeof(m->from), "NodeClaim status.capacity.pods");
        if (in->config->max_pods_mode == NC_MAX_PODS_EXPRESSION && !is_known(&f->described_type))
            nc_strv_addf(warnings,
                         "maxPodsExpression: instance type %s is not in the table: using %lld, "
                         "status.capacity.pods of the NodeClaim (allow ec2:DescribeInstanceTypes)",
                         f->instance_type ? f->instance_type : "(unknown)", (long long)m->base);
    } else if (is_known(&f->described_type)) {
        m->base = pods_by_mode(f, in->config, &f->described_type, m, warnings);
        nc_copy_text(m->from + strlen(m->from), sizeof(m->from) - strlen(m->from),
                     " as EC2 describes it");
    } else {
        guess(f, in->config, m, warnings);
    }
}

static int decide_explicit(const struct nc_config *c, struct nc_max_pods *m, struct nc_err *err) {
    if (c->max_pods_value < 1 || c->max_pods_value > INT32_MAX)
        return nc_err_config(
            err, "spec.maxPods.value: %lld: mode explicit needs a number from 1 to 2147483647",
            (long long)c->max_pods_value);
    m->base = c->max_pods_value;
    nc_copy_text(m->from, sizeof(m->from), "spec.maxPods.value of the configuration");
    return 0;
}

int nc_max_pods_decide(const struct nc_plan_input *in, const struct nc_instance_type *type,
                       struct nc_max_pods *ret, struct nc_plan *p, struct nc_err *err) {
    const struct nc_instance_type *t = is_known(type) ? type : &in->facts->described_type;
    struct nc_max_pods m = {.eni = nc_max_pods_eni(t), .reserved = nc_max_pods_eni(t)};
    int r = compute_expression(in, t, &m, p, err);

    if (r < 0)
        return r;
    if (in->config->max_pods_mode == NC_MAX_PODS_EXPLICIT)
        r = decide_explicit(in->config, &m, err);
    else if (is_known(type))
        m.base = pods_by_mode(in->facts, in->config, type, &m, &p->warnings);
    else
        decide_unknown(in, &m, &p->warnings);
    if (r < 0)
        return r;
    if (m.reserved < 0)
        m.reserved = m.base;
    *ret = m;
    return 0;
}
