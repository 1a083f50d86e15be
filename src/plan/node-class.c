/*
 * What Karpenter makes of the kubelet block of an EC2NodeClass: maxPods, and values of kubeReserved
 * and systemReserved, may be expressions over the instance type (its gate NodeClassCEL), which it
 * replaces by their results before it writes user data (karpenter-provider-aws pkg/cel). Where the
 * class comes as a document, that is done here.
 */
#include <errno.h>
#include <stdio.h>

#include "config-priv.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "planner.h"

#define CPU_STEP 10
#define MEMORY_STEP 16
#define MI ((int64_t)1 << 20)

/* 0 and *ret; 1: it has no value, which was warned of; or an error. */
static int evaluate(struct nc_planner *s, const char *field, const struct nc_value *v, int64_t most,
                    int64_t *ret) {
    const struct nc_instance_type *t = &s->plan.type;
    const bool is_known = nc_max_pods_eni(t) >= 0;
    struct nc_resources capacity = {.pods = -1}, allocatable;
    nc_auto_free char *place = nc_origin_mark(s->docs, v->mark);
    char why[256];

    nc_auto_value struct nc_value *planned = s->planned ? nc_value_copy(s->planned) : NULL;

    if (planned && nc_streq(field, "maxPods")) /* its own result is not its default */
        (void)nc_value_remove(planned, field);
    if (is_known)
        nc_predict_karpenter(t, planned, -1, &capacity, &allocatable);
    const struct nc_expression_variables variables = {.default_enis = t->enis,
                                                      .ips_per_eni = t->ipv4_per_eni,
                                                      .max_pods = capacity.pods,
                                                      .most = most,
                                                      .vcpus = t->vcpus,
                                                      .memory_mib = t->memory_mib,
                                                      .instance_type = t->name};
    const int r = nc_expression_evaluate(v->text, &variables, ret, why, sizeof(why));
    nc_auto_free char *warning =
        nc_asprintf("%s%sspec.kubelet.%s: left out: %s", place, *place ? ": " : "", field,
                    is_known ? why : "the instance type is not known");

    if (r == 0 && is_known)
        return 0;
    if (r == -EINVAL || (is_known && nc_streq(field, "maxPods")))
        return nc_origin_error(
            s->err, s->docs, v,
            "spec.kubelet.%s: no %s, nor an expression that can be evaluated: %s", field,
            nc_streq(field, "maxPods") ? "number" : "quantity", why);
    nc_strv_add_once(&s->plan.warnings, warning);
    return 1;
}

static int64_t up_to(int64_t v, int64_t step) {
    return v > 0 && v % step != 0 && v <= INT64_MAX - step ? (v / step + 1) * step : v;
}

/* In the units in which the field is written by hand. */
static struct nc_value *quantity(const char *key, int64_t v) {
    char text[32];

    if (nc_streq(key, "cpu"))
        snprintf(text, sizeof(text), "%lldm", (long long)up_to(v, CPU_STEP));
    else if (nc_streq(key, "memory"))
        snprintf(text, sizeof(text), "%lldMi", (long long)up_to(v, MEMORY_STEP));
    else
        snprintf(text, sizeof(text), "%lld%s", (long long)v,
                 nc_streq(key, "ephemeral-storage") ? "Gi" : "");
    return nc_value_new_string(text);
}

static int resolve_map(struct nc_planner *s, const char *name, struct nc_value *map) {
    for (size_t i = 0; map && map->type == NC_VALUE_MAP && i < map->n;) {
        struct nc_member *m = &map->members[i];
        nc_auto_free char *field = nc_asprintf("%s.%s", name, m->key), *key = nc_strdup(m->key);
        const struct nc_mark mark = m->value->mark;
        int64_t milli, whole, result = 0;
        int r = 0;

        i++;
        if (m->value->type != NC_VALUE_STRING
            || nc_quantity_of(m->value, &milli, &whole) != -EINVAL)
            continue;
        r = evaluate(s, field, m->value, INT64_MAX, &result);
        if (r < 0)
            return r;
        if (r == 0) {
            nc_value_set(map, key, quantity(key, result));
            nc_value_get(map, key)->mark = mark;
            continue;
        }
        (void)nc_value_remove(map, key);
        i--;
    }
    return 0;
}

/* maxPods first: the others are computed with it. */
static int resolve(struct nc_planner *s, struct nc_value *kubelet) {
    const struct nc_value *pods = nc_value_get(kubelet, "maxPods");
    const struct nc_mark mark = pods ? pods->mark : (struct nc_mark){0};
    int64_t result = 0;
    int r = nc_value_string(pods) ? evaluate(s, "maxPods", pods, INT32_MAX, &result) : -ENOENT;

    if (r < 0 && r != -ENOENT)
        return r;
    if (r == 0) {
        nc_value_set_int(kubelet, "maxPods", result);
        nc_value_get(kubelet, "maxPods")->mark = mark;
    } else if (r > 0) {
        (void)nc_value_remove(kubelet, "maxPods");
    }
    r = resolve_map(s, "kubeReserved", nc_value_get(kubelet, "kubeReserved"));
    return r < 0 ? r : resolve_map(s, "systemReserved", nc_value_get(kubelet, "systemReserved"));
}

int nc_plan_node_class(struct nc_planner *s, struct nc_value *user) {
    int r = 0;

    if (s->config->planned && !s->planned) {
        s->planned = nc_value_copy(s->config->planned);
        r = resolve(s, s->planned);
    }
    return r < 0 || !user ? r : resolve(s, user);
}

/* --- what the node offers, beside that */

int64_t nc_plan_short(const struct nc_planner *s, int64_t memory_bytes) {
    const struct nc_value *v =
        s->claim ? nc_value_get(s->claim->allocatable, nc_resource_names[1]) : NULL;
    int64_t bytes;

    return v && memory_bytes >= 0 && nc_quantity_of(v, NULL, &bytes) == 0 && bytes > memory_bytes
               ? bytes - memory_bytes
               : 0;
}

/* Karpenter launched the node for pods that need what the NodeClaim has. */
static void claim_less(struct nc_planner *s) {
    const int64_t bytes = nc_plan_short(s, s->plan.allocatable.memory_bytes);
    char text[2][32];

    if (bytes == 0)
        return;
    nc_quantity_format_bytes(s->plan.allocatable.memory_bytes, text[0]);
    nc_quantity_format_bytes(bytes, text[1]);
    nc_strv_addf(&s->plan.less,
                 "allocatable memory: %s, %s less than the NodeClaim has: pods for which Karpenter "
                 "launched this node may not fit%s",
                 text[0], text[1],
                 s->config->reservation == NC_RESERVATION_CLAIM
                     ? ""
                     : "; spec.reservation.policy: claim reserves less for them");
}

/* One sentence a resource of which there is less than Karpenter counts on. */
void nc_plan_less(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    struct nc_resources capacity, counts, offers = p->allocatable;
    struct nc_resources *const both[] = {&counts, &offers};

    claim_less(s);
    if (!s->planned || !p->type.name[0] || s->config->reservation == NC_RESERVATION_AUTO_MODE)
        return;
    nc_predict_karpenter(&p->type, s->planned, p->capacity.ephemeral_bytes, &capacity, &counts);
    for (size_t k = 0; k < 2; k++) {
        both[k]->memory_bytes &= ~(MI - 1);
        both[k]->ephemeral_bytes &= ~(MI - 1);
    }
    for (size_t i = 0; i < NC_RESOURCES; i++) {
        char text[2][32];
        int64_t amounts[2];

        for (size_t k = 0; k < 2; k++)
            amounts[k] = nc_resource_text(both[k], i, text[k]);
        /* A percentage is a float32 in kubelet: a few bytes are no difference. */
        const int64_t slack = i == 1 || i == 2 ? MI : 0;
        if (amounts[0] < 0 || amounts[1] < 0 || amounts[1] + slack >= amounts[0])
            continue;
        nc_strv_addf(
            &p->less,
            "allocatable %s of %s: %s, but Karpenter expects %s: it reads spec.kubelet of the "
            "EC2NodeClass, and no other document; set there, too, what others set",
            nc_resource_names[i], p->type.name, text[1], text[0]);
    }
}
