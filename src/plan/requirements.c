/*
 * Does this instance satisfy the requirements of its NodeClaim?
 *
 * Karpenter chose the instance, so a mismatch means that something else is going on: a wrong claim,
 * a hand-made instance, a label that changed. Only what the facts can answer is judged; a
 * requirement about a label that nobody here knows is not touched. karpenter.k8s.aws/ and
 * eks.amazonaws.com/ keys mean the same (Auto Mode renamed them).
 */
#include <stdio.h>

#include "nc/names.h"
#include "nc/plan.h"
#include "nc/str.h"

struct answer {
    bool known;
    char value[64];
    char other[16]; /* a second value that the same facts allow, "" = none */
};

/* "m5.large" -> category "m", family "m5", generation "5", size "large" (Karpenter:
 * (^[a-z]+)(\-[0-9]+tb)?([0-9]+).*\.). */
static void answer_type_part(const char *type, const char *part, struct answer *a) {
    const char *dot = strchr(type, '.');
    size_t letters = strspn(type, NC_LOWER);
    const char *p = type + letters;
    size_t digits;

    if (!dot)
        return;
    a->known = true;
    if (nc_streq(part, "instance-family")) {
        snprintf(a->value, sizeof(a->value), "%.*s", (int)(dot - type), type);
    } else if (nc_streq(part, "instance-size")) {
        nc_copy_text(a->value, sizeof(a->value), dot + 1);
    } else if (nc_streq(part, "instance-category")) {
        snprintf(a->value, sizeof(a->value), "%.*s", (int)letters, type);
    } else { /* the generation: digits after the letters, or after "-6tb" */
        if (*p == '-' && p[1 + strspn(p + 1, "0123456789")] == 't')
            p += 1 + strspn(p + 1, "0123456789") + 2;
        digits = strspn(p, "0123456789");
        a->known = digits > 0;
        snprintf(a->value, sizeof(a->value), "%.*s", (int)digits, p);
    }
}

static void answer_text(const char *text, struct answer *a) {
    if (!text || !*text)
        return;
    a->known = true;
    nc_copy_text(a->value, sizeof(a->value), text);
}

static void answer_int(int64_t v, struct answer *a) {
    a->known = v >= 0;
    snprintf(a->value, sizeof(a->value), "%lld", (long long)v);
}

/* Keys below karpenter.k8s.aws/ and eks.amazonaws.com/. */
static void answer_instance(const char *part, const struct nc_facts *f, const struct nc_plan *p,
                            struct answer *a) {
    static const char of_name[] = "instance-family\0instance-size\0instance-category\0"
                                  "instance-generation\0";

    if (f->instance_type && nc_is_one_of(part, of_name))
        answer_type_part(f->instance_type, part, a);
    if (nc_streq(part, "instance-cpu"))
        answer_int(p->type.name[0] ? p->type.vcpus : -1, a);
    else if (nc_streq(part, "instance-memory"))
        answer_int(p->type.name[0] ? p->type.memory_mib : -1, a);
    else if (nc_streq(part, "instance-hypervisor") && !nc_streq(p->type.hypervisor, "metal"))
        answer_text(p->type.hypervisor, a);
}

/* A capacity reservation's instance is an on-demand one to IMDS. */
static void answer_capacity_type(const struct nc_facts *f, struct answer *a) {
    switch (f->purchase_option) {
    case NC_PURCHASE_SPOT:
        answer_text("spot", a);
        return;
    case NC_PURCHASE_ON_DEMAND:
        answer_text("on-demand", a);
        nc_copy_text(a->other, sizeof(a->other), "reserved");
        return;
    case NC_PURCHASE_CAPACITY_BLOCK:
        answer_text("reserved", a);
        return;
    case NC_PURCHASE_SCHEDULED:
    case NC_PURCHASE_UNKNOWN:
        return;
    }
}

static const char *architecture(const struct nc_facts *f, const struct nc_plan *p) {
    if (f->architecture)
        return nc_streq(f->architecture, "x86_64") ? "amd64" : f->architecture;
    return p->type.arch;
}

static struct answer answer_key(const char *key, const struct nc_facts *f,
                                const struct nc_plan *p) {
    struct answer a = {0};
    const char *slash = strchr(key, '/');

    if (nc_streq(key, NC_LABEL_INSTANCE_TYPE))
        answer_text(f->instance_type, &a);
    else if (nc_streq(key, NC_LABEL_ZONE))
        answer_text(f->az, &a);
    else if (nc_streq(key, NC_LABEL_REGION))
        answer_text(f->region, &a);
    else if (nc_streq(key, "topology.k8s.aws/zone-id"))
        answer_text(f->az_id, &a);
    else if (nc_streq(key, NC_LABEL_ARCH))
        answer_text(architecture(f, p), &a);
    else if (nc_streq(key, NC_LABEL_OS))
        answer_text("linux", &a);
    else if (nc_streq(key, NC_LABEL_CAPACITY_TYPE))
        answer_capacity_type(f, &a);
    else if (nc_starts_with(key, "karpenter.k8s.aws/") || nc_starts_with(key, "eks.amazonaws.com/"))
        answer_instance(slash + 1, f, p, &a);
    for (size_t i = 0; !a.known && i < p->n_labels; i++)
        if (nc_streq(p->labels[i].key, key))
            answer_text(p->labels[i].value, &a);
    return a;
}

static bool is_in(const struct nc_requirement *r, const char *value) {
    return *value && nc_strv_contains(&r->values, value);
}

/* Gt, Lt, Gte, Lte. Values that are no numbers satisfy nothing. */
static bool compares(const struct nc_requirement *r, const char *value) {
    int64_t have, want;

    if (r->values.n != 1 || nc_parse_i64(value, &have) < 0
        || nc_parse_i64(r->values.v[0], &want) < 0)
        return false;
    if (r->op[0] == 'G')
        return r->op[2] == 'e' ? have >= want : have > want;
    return r->op[2] == 'e' ? have <= want : have < want;
}

static bool satisfies(const struct nc_requirement *r, const struct answer *a) {
    if (nc_streq(r->op, "In"))
        return is_in(r, a->value) || is_in(r, a->other);
    if (nc_streq(r->op, "NotIn")) /* where two values are possible, one that is allowed is enough */
        return !is_in(r, a->value) || (*a->other && !is_in(r, a->other));
    if (nc_streq(r->op, "Exists"))
        return true;
    if (nc_streq(r->op, "DoesNotExist"))
        return false;
    return compares(r, a->value);
}

static void add_mismatch(const struct nc_requirement *r, const struct answer *a,
                         struct nc_strv *mismatches) {
    struct nc_buf text = NC_BUF_INIT;
    size_t shown = r->values.n < 10 ? r->values.n : 10;

    nc_buf_printf(&text, "requirement %s %s", r->key, r->op);
    for (size_t i = 0; i < shown; i++)
        nc_buf_printf(&text, "%s%s", i ? ", " : " [", r->values.v[i]);
    if (shown > 0)
        nc_buf_puts(&text, shown < r->values.n ? ", …]" : "]");
    nc_buf_printf(&text, " is not met: this instance has %s", a->value);
    nc_strv_push(mismatches, nc_buf_steal(&text));
}

void nc_requirements_check(const struct nc_claim *claim, const struct nc_facts *f,
                           const struct nc_plan *p, struct nc_strv *mismatches) {
    for (size_t i = 0; i < claim->n_requirements; i++) {
        const struct nc_requirement *r = &claim->requirements[i];
        struct answer a = answer_key(r->key, f, p);
        if (a.known && !satisfies(r, &a))
            add_mismatch(r, &a, mismatches);
    }
}

const struct nc_claim *nc_plan_claim(const struct nc_plan_input *in) {
    return in->claim ? in->claim : in->config->has_claim_document ? &in->config->claim : NULL;
}
