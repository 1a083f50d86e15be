/*
 * The plan: facts and configuration in, everything that is to be written out.
 *
 * nc_plan_make() is the list of steps, in the order in which they need each other; each step lives
 * beside its rules. Nothing here checks a clock, a file or the network.
 */
#include <errno.h>
#include <stdio.h>

#include "kubelet.h"
#include "nc/names.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "numbers.h"
#include "planner.h"
#include "shapes.h"

#define LOGIND_DEFAULT_USEC ((uint64_t)5 * 1000000)
#define DRAIN_USEC ((uint64_t)150 * 1000000) /* what kubelet 1.34 is given too */

void nc_plan_done(struct nc_plan *p) {
    free(p->node_name);
    free(p->provider_id);
    free(p->node_ip);
    free(p->kubelet_version);
    nc_strv_done(&p->cluster_dns);
    nc_labels_free(p->labels, p->n_labels);
    nc_taints_free(p->taints, p->n_taints);
    nc_value_free(p->kubelet_base);
    nc_value_free(p->kubelet_dropin);
    nc_value_free(p->kubelet_effective);
    nc_strv_done(&p->flags);
    nc_strv_done(&p->user_flags);
    nc_containerd_plan_done(&p->containerd);
    for (size_t i = 0; i < p->n_origins; i++) {
        free(p->origins[i].field);
        free(p->origins[i].value);
        free(p->origins[i].from);
        free(p->origins[i].overrode);
    }
    free(p->origins);
    nc_strv_done(&p->unsupported);
    nc_strv_done(&p->warnings);
    free(p->certain);
    nc_strv_done(&p->less);
    *p = (struct nc_plan)NC_PLAN_INIT;
}

static void planner_done(struct nc_planner *s) {
    nc_flags_done(&s->flags);
    nc_value_free(s->flag_tree);
    nc_value_free(s->planned);
    nc_value_free(s->user);
    nc_value_free(s->computed);
    nc_reasons_done(&s->reasons);
    nc_plan_done(&s->plan);
}

static int plan_version(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    const char *text = s->facts->kubelet_version;
    int r;

    if (!text) {
        r = nc_err_set(s->err, NC_ERR_HOST, ENOENT, "kubelet's version is not known");
        nc_err_remedy(s->err, "install kubelet, or use --kubelet-version");
        return r;
    }
    if (nc_kubelet_version_parse(text, &p->kubelet_minor, &p->kubelet_version) < 0) {
        nc_auto_free char *quoted = nc_quote_string(text);
        r = nc_err_set(s->err, NC_ERR_HOST, EINVAL, "invalid version of kubelet: %s", quoted);
        nc_err_remedy(s->err, "a version is %s", NC_KUBELET_VERSION_WANTED);
        return r;
    }
    if (p->kubelet_minor < NC_KUBELET_FIRST_MINOR) {
        r = nc_err_set(s->err, NC_ERR_HOST, ENOTSUP, "kubelet %s is older than 1.%d: not supported",
                       p->kubelet_version, NC_KUBELET_FIRST_MINOR);
        nc_err_remedy(s->err, "use an image with a newer kubelet");
        return r;
    }
    if (p->kubelet_minor > NC_KUBELET_LAST_MINOR)
        nc_strv_addf(&p->warnings, "kubelet %s is newer than 1.%d: treated as that one",
                     p->kubelet_version, NC_KUBELET_LAST_MINOR);
    return 0;
}

static void plan_type(struct nc_planner *s) {
    const struct nc_facts *f = s->facts;
    struct nc_instance_type *type = &s->plan.type;
    const char *name = f->instance_type ? f->instance_type : "";
    struct nc_instance_type row;

    if (nc_instance_type_row(s->in->types, s->in->n_types, name, &row) == NC_TYPE_ROW_BAD)
        nc_strv_addf(&s->plan.warnings, "instance table: the row of %s cannot be read: ignored",
                     name);
    if (s->config->ec2 == NC_EC2_ALWAYS && f->described_type.name[0])
        *type = f->described_type;
    else if (!nc_instance_type_find(s->in->types, s->in->n_types, name, type))
        *type = f->described_type;
}

static int plan_user_flags(struct nc_planner *s) {
    int r =
        nc_flags_parse(&s->config->kubelet_flags, s->config->kubelet_flag_marks, &s->flags, s->err);

    if (r >= 0)
        r = nc_flags_tree(&s->flags, &s->flag_tree, s->err);
    if (r < 0)
        nc_origin_blame(s->err, s->docs, s->flags.refused);
    return r;
}

/* The type of the table may be known while pods have to come from elsewhere: the table's row, not
 * EC2's answer, is what "known" means to the fallback order. */
static int plan_pods(struct nc_planner *s) {
    const struct nc_facts *f = s->facts;
    struct nc_instance_type from_table = {0};

    if (s->config->ec2 == NC_EC2_ALWAYS && f->described_type.name[0])
        from_table = f->described_type;
    else if (f->instance_type)
        nc_instance_type_find(s->in->types, s->in->n_types, f->instance_type, &from_table);
    s->plan.eni_pods = nc_max_pods_eni(&s->plan.type);
    return nc_max_pods_decide(s->in, &from_table, &s->pods, &s->plan, s->err);
}

/* Did the user have a say in what is kept back? */
static bool reservation_is_users(const struct nc_planner *s) {
    static const char fields[][20] = {"kubeReserved", "systemReserved", "evictionHard",
                                      "reservedSystemCPUs"};
    const struct nc_config *c = s->config;

    for (size_t i = 0; i < NC_ARRAY_SIZE(fields); i++)
        if (nc_value_get(s->user, fields[i]) || nc_value_get(s->flag_tree, fields[i]))
            return true;
    return c->kube_reserved || c->system_reserved
           || (c->reservation != 0 && c->reservation != NC_RESERVATION_KARPENTER);
}

/* What the file system of kubelet's folder will have, by strategy: setup-local-disks binds the
 * folder to the array. Without local disks it does nothing. */
static int64_t storage_bytes(const struct nc_facts *f, const struct nc_config *c) {
    const enum nc_storage_strategy strategy =
        f->local_disks > 0 ? c->host.storage.strategy : NC_STORAGE_NONE;

    return strategy == NC_STORAGE_RAID0    ? f->local_disk_bytes
           : strategy == NC_STORAGE_RAID10 ? f->local_disk_bytes / 2
                                           : f->root_fs_bytes;
}

static void warn_of_storage(struct nc_planner *s) {
    const struct nc_value *v =
        nc_value_path(s->config->tree, "spec.instance.localStorage.strategy");
    nc_auto_free char *place = v ? nc_origin_mark(s->docs, v->mark) : NULL;

    if (v && s->config->host.storage.strategy != NC_STORAGE_NONE && s->facts->local_disks == 0)
        nc_strv_addf(&s->plan.warnings,
                     "%s%sspec.instance.localStorage.strategy: %s, but this instance has no local "
                     "disk: pods and images use the root volume",
                     place, *place ? ": " : "", nc_value_string(v));
}

/* kubelet starts, and the grace period of the soft threshold is of no use. */
static void warn_of_soft_eviction(struct nc_planner *s) {
    static const char signals[][20] = {"memory.available", "nodefs.available"};
    struct nc_plan *p = &s->plan;
    const int64_t there[] = {p->capacity.memory_bytes, p->capacity.ephemeral_bytes};

    for (size_t i = 0; i < NC_ARRAY_SIZE(signals); i++) {
        const struct nc_value *soft =
            nc_value_get(nc_value_get(p->kubelet_effective, "evictionSoft"), signals[i]);
        const char *hard =
            nc_value_get_string(nc_value_get(p->kubelet_effective, "evictionHard"), signals[i]);
        int64_t first, last;

        if (soft && hard && there[i] > 0
            && nc_eviction_bytes(soft->text, there[i], NC_PERCENT_KUBELET, &first) == 0
            && nc_eviction_bytes(hard, there[i], NC_PERCENT_KUBELET, &last) == 0 && first <= last)
            nc_strv_addf(
                &p->warnings,
                "spec.kubelet.config.evictionSoft.%s: %s is not above evictionHard, %s: pods are "
                "evicted without a grace period",
                signals[i], soft->text, hard);
    }
}

/* kubelet starts, and takes no pod that asks for it. */
static void warn_of_nothing_left(struct nc_planner *s) {
    static const char names[][8] = {"cpu", "memory"};
    const struct nc_plan *p = &s->plan;
    const int64_t there[] = {p->capacity.cpu_millicores, p->capacity.memory_bytes},
                  left[] = {p->allocatable.cpu_millicores, p->allocatable.memory_bytes};

    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++)
        if (there[i] > 0 && left[i] == 0)
            nc_strv_addf(&s->plan.warnings,
                         "all %s of this host is kept back: no pod that asks for %s fits", names[i],
                         names[i]);
}

/* More kept back than there is: the user's to change where he had a say. Else the facts of the host
 * and its type disagree, which happens with recorded facts, and is worth no more than a warning. */
static int plan_prediction(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    struct nc_err err = NC_ERR_INIT;
    struct nc_prediction is = {.capacity = p->capacity, .allocatable = p->allocatable};
    struct nc_facts facts = *s->facts; /* borrowed but for one number */
    int r;

    facts.root_fs_bytes = storage_bytes(s->facts, s->config);
    r = nc_predict_kubelet(&facts, p->kubelet_effective, s->docs, &is, &err);
    p->capacity = is.capacity;
    p->allocatable = is.allocatable;
    if (r == -ERANGE && !reservation_is_users(s)) {
        nc_strv_addf(&p->warnings, "%s (is this host really a %s?)", err.msg,
                     p->type.name[0] ? p->type.name : "known type");
        return 0;
    }
    if (r < 0 && s->err)
        *s->err = err;
    if (r == 0)
        warn_of_nothing_left(s);
    return r;
}

static int plan_resources(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    int r;

    p->max_pods = nc_value_get_int(p->kubelet_effective, "maxPods", 110);
    r = nc_reserve_both(p->kubelet_effective, &p->kube_reserved, &p->system_reserved, s->err);
    return r < 0 ? r : plan_prediction(s);
}

/* The sum of the periods by priority, or the one period. */
static uint64_t shutdown_usec(const struct nc_value *kubelet) {
    const struct nc_value *list = nc_value_get(kubelet, "shutdownGracePeriodByPodPriority"), *item;
    uint64_t usec = 0;

    if (nc_kubelet_duration(kubelet, "shutdownGracePeriod", &usec) && usec > 0)
        return usec;
    for (size_t i = 0; (item = nc_value_item(list, i)); i++) {
        const int64_t seconds = nc_value_get_int(item, "shutdownGracePeriodSeconds", 0);
        if (seconds > 0 && seconds < INT32_MAX)
            usec += (uint64_t)seconds * 1000000;
    }
    return usec;
}

/* What kubelet's own graceful shutdown needs; where it has none, what a drain is given. */
static void plan_logind(struct nc_planner *s) {
    uint64_t wanted = shutdown_usec(s->plan.kubelet_effective);
    uint64_t there = s->facts->logind_inhibit_delay_usec;

    if (wanted == 0 && s->config->drain.policy[NC_SOURCE_SHUTDOWN] == NC_POLICY_DRAIN)
        wanted = DRAIN_USEC;
    s->plan.logind_delay_usec = wanted > (there ? there : LOGIND_DEFAULT_USEC) ? wanted : 0;
}

const char nc_resource_names[NC_RESOURCES][20] = {"cpu", "memory", "ephemeral-storage", "pods"};

void nc_resource_format(enum nc_resource kind, int64_t amount, char text[static 32]) {
    if (kind == NC_RESOURCE_CPU)
        nc_quantity_format_milli(amount, text);
    else if (kind == NC_RESOURCE_PODS)
        snprintf(text, 32, "%lld", (long long)amount);
    else
        nc_quantity_format_bytes(amount, text);
}

int64_t nc_resource_text(const struct nc_resources *r, size_t i, char text[static 32]) {
    const int64_t values[] = {r->cpu_millicores, r->memory_bytes, r->ephemeral_bytes, r->pods};

    if (values[i] < 0)
        return -1;
    nc_resource_format((enum nc_resource)i, values[i], text);
    return values[i];
}

static void add_resources(struct nc_plan *p, const char *prefix, const struct nc_resources *r,
                          const char *from) {
    for (size_t i = 0; i < NC_RESOURCES; i++) {
        nc_auto_free char *field = nc_asprintf("%s.%s", prefix, nc_resource_names[i]);
        char text[32];

        if (nc_resource_text(r, i, text) >= 0)
            nc_origin_add(p, field, text, from, "");
    }
}

static void plan_origins(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    const struct nc_value *user =
        nc_value_path(s->config->tree, "spec.kubelet.config"); /* it knows what overrode what */
    const struct nc_layers layers = {
        s->computed, &s->reasons, s->user ? user ? user : s->config->kubelet : NULL, s->flag_tree};
    nc_auto_free char *from = nc_asprintf("Karpenter's formula for %s", p->type.name);
    struct nc_resources capacity, allocatable;

    nc_origin_kubelet(p, s->docs, &layers);
    nc_origin_host(p, s->docs, s->config);
    nc_plan_explain_cap(s);
    add_resources(p, "capacity", &p->capacity,
                  storage_bytes(s->facts, s->config) == s->facts->root_fs_bytes
                      ? "facts of this host; pods: maxPods and podsPerCore"
                      : "facts of this host; pods: maxPods and podsPerCore; ephemeral-storage: its "
                        "local disks");
    add_resources(p, "allocatable", &p->allocatable,
                  "capacity - kubeReserved - systemReserved - evictionHard");
    if (!p->type.name[0])
        return;
    if (s->config->reservation == NC_RESERVATION_AUTO_MODE)
        nc_predict_auto_mode(&p->type, p->capacity.ephemeral_bytes, &capacity, &allocatable);
    else
        nc_predict_karpenter(&p->type, s->planned ? s->planned : s->user,
                             p->capacity.ephemeral_bytes, &capacity, &allocatable);
    add_resources(p, "karpenter.capacity", &capacity, from);
    add_resources(p, "karpenter.allocatable", &allocatable, from);
}

static int make(struct nc_planner *s) {
    static int (*const steps[])(struct nc_planner *) = {
        plan_version,       plan_user_flags,
        nc_plan_identity,   nc_plan_labels,
        nc_plan_taints,     nc_plan_user_map,
        plan_pods,          nc_plan_image_pulls,
        nc_plan_kubelet,    nc_plan_known,
        nc_plan_network,    plan_resources,
        nc_plan_containerd, nc_plan_credential_providers,
    };

    plan_type(s);
    for (size_t i = 0; i < NC_ARRAY_SIZE(steps); i++) {
        int r = steps[i](s);
        if (r < 0)
            return r;
    }
    nc_plan_flags(s);
    plan_logind(s);
    warn_of_storage(s);
    warn_of_soft_eviction(s);
    nc_plan_less(s);
    plan_origins(s);
    return 0;
}

static struct nc_planner begin_plan(const struct nc_plan_input *in, struct nc_err *err) {
    return (struct nc_planner){.in = in,
                               .facts = in->facts,
                               .config = in->config,
                               .docs = in->docs,
                               .claim = nc_plan_claim(in),
                               .err = err};
}

/* r: what the steps came to. */
static int end_plan(struct nc_planner *s, int r, struct nc_plan *ret) {
    if (r == 0) {
        nc_plan_done(ret);
        *ret = s->plan;
        s->plan = (struct nc_plan)NC_PLAN_INIT;
    }
    planner_done(s);
    return r;
}

int nc_plan_make(const struct nc_plan_input *in, struct nc_plan *ret, struct nc_err *err) {
    struct nc_planner s = begin_plan(in, err);

    return end_plan(&s, make(&s), ret);
}

int nc_plan_identify(const struct nc_plan_input *in, struct nc_plan *ret, struct nc_err *err) {
    struct nc_planner s = begin_plan(in, err);
    const int r = plan_user_flags(&s);

    return end_plan(&s, r < 0 ? r : nc_plan_identity(&s), ret);
}

bool nc_plan_expects_claim(const struct nc_plan_input *in, char **ret_node_pool) {
    struct nc_planner s = begin_plan(in, NULL);
    const bool is_expected = plan_user_flags(&s) == 0 && nc_plan_labels(&s) == 0
                             && nc_plan_taints(&s) == 0 && s.plan.belongs_to_claim;

    *ret_node_pool = NULL;
    for (size_t i = 0; is_expected && i < s.plan.n_labels; i++)
        if (nc_streq(s.plan.labels[i].key, NC_LABEL_NODE_POOL))
            *ret_node_pool = nc_strdup(s.plan.labels[i].value);
    planner_done(&s);
    return is_expected;
}

bool nc_plan_needs_instance_type(const struct nc_plan_input *in) {
    const struct nc_facts *f = in->facts;
    struct nc_instance_type t;

    if (in->config->ec2 == NC_EC2_NEVER || !f->instance_type || f->described_type.name[0])
        return false;
    if (in->config->ec2 == NC_EC2_ALWAYS)
        return true;
    return !nc_instance_type_find(in->types, in->n_types, f->instance_type, &t)
           || nc_max_pods_eni(&t) < 0;
}
