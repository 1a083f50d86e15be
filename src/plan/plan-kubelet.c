/*
 * The plan's part about kubelet: its configuration in layers and its flags.
 *
 * The base is what the plan computes without the user's map; the map goes into the drop-in; what
 * kubelet will see is the drop-in laid over the base as an RFC 7386 merge patch (kubelet 1.29 and
 * later), and its flags over that.
 *
 * kubelet 1.28 is different: it fills each drop-in with defaults before it lays it over the base,
 * and never lets a false or a 0 of the drop-in win (mergo in cmd/kubelet/app/server.go). A drop-in
 * of three fields would reset cgroupDriver and maxPods. So for 1.28 both files carry the complete
 * result: there is nothing left to reset.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "config-priv.h"
#include "kubelet.h"
#include "nc/str.h"
#include "numbers.h"
#include "planner.h"
#include "shapes.h"

#define FIRST_MERGE_PATCH_MINOR 29
#define FIRST_STABLE_DROPIN_MINOR 30

int nc_plan_user_map(struct nc_planner *s) {
    const struct nc_value *given = s->config->kubelet;
    struct nc_value *user;

    if (!given || given->type == NC_VALUE_NULL || (given->type == NC_VALUE_MAP && given->n == 0))
        return nc_plan_node_class(s, NULL);
    if (given->type != NC_VALUE_MAP)
        return nc_origin_error(s->err, s->docs, given, "spec.kubelet.config: a map is needed");
    user = nc_value_copy(given);
    if (nc_value_remove(user, "containerRuntime"))
        nc_strv_add(&s->plan.warnings, "spec.kubelet.config.containerRuntime is ignored: it went "
                                       "away with v1alpha5, containerd is used");
    nc_kubelet_quote_numbers(user);
    if (nc_value_get(user,
                     "registerWithTaints")) { /* lists replace: the drop-in must have all of them */
        struct nc_value *all = nc_taints_tree(s->plan.taints, s->plan.n_taints);
        struct nc_mark mark = nc_value_get(user, "registerWithTaints")->mark;
        if (!all)
            all = nc_value_new_list();
        all->mark = mark;
        nc_value_set(user, "registerWithTaints", all);
    }
    s->user = user->n > 0 ? user : nc_value_free(user);
    return nc_plan_node_class(s, s->user);
}

static int plan_cluster_dns(struct nc_planner *s) {
    const char *cidr = s->config->cidr;
    int r;

    if (!cidr)
        return 0;
    r = nc_cidr_dns(cidr, s->cluster_dns, sizeof(s->cluster_dns));
    if (r == -ERANGE)
        return nc_err_set(s->err, NC_ERR_CONFIG, ERANGE,
                          "spec.cluster.cidr: %.64s is too small to hold the DNS service's address "
                          "(network + 10)",
                          cidr);
    if (r < 0) {
        nc_auto_free char *quoted = nc_quote_string(cidr);
        return nc_err_config(s->err, "spec.cluster.cidr: invalid CIDR: %s (\"10.100.0.0/16\")",
                             quoted);
    }
    nc_reasons_set(&s->reasons, "clusterDNS", "spec.cluster.cidr, network address + 10");
    return 0;
}

/* maxPods as it will be: flags, then the user's map, then the plan's. What kubelet would not take
 * is refused later. */
static int64_t final_max_pods(const struct nc_planner *s) {
    const struct nc_value *v = nc_value_get(s->flag_tree, "maxPods");

    if (!v)
        v = nc_value_get(s->user, "maxPods");
    const int64_t n = nc_value_int(v, -1);
    return n >= 0 && n <= INT32_MAX ? n : s->pods.base;
}

/* Over what the mode gives and what documents have, Karpenter's own among them. A flag would win in
 * kubelet. */
static int cap_max_pods(struct nc_planner *s) {
    const struct nc_value *flag = nc_value_get(s->flag_tree, "maxPods"),
                          *user = nc_value_get(s->user, "maxPods");
    const int64_t most = s->config->max_pods_at_most, pods = final_max_pods(s);

    if (most == 0 || pods <= most)
        return 0;
    if (flag)
        return nc_origin_unsupported(s->in, "spec.maxPods.atMost",
                                     "kubelet's flag --max-pods states more, and wins", &s->plan,
                                     s->err);
    s->uncapped_pods = pods;
    s->pods.base = s->pods.base < most ? s->pods.base : most;
    if (user) {
        const struct nc_mark mark = user->mark;

        nc_value_set_int(s->user, "maxPods", most);
        nc_value_get(s->user, "maxPods")->mark = mark;
    }
    return 0;
}

/* What kubelet's maxPods would be without the cap is what it overrode. */
void nc_plan_explain_cap(struct nc_planner *s) {
    const struct nc_value *most = nc_value_path(s->config->tree, "spec.maxPods.atMost");

    for (size_t i = 0; s->uncapped_pods > 0 && most && i < s->plan.n_origins; i++) {
        struct nc_origin *o = &s->plan.origins[i];
        nc_auto_free char *from = NULL, *history = NULL;

        if (!nc_streq(o->field, "spec.kubelet.config.maxPods"))
            continue;
        from = nc_origin_mark(s->docs, most->mark);
        history = nc_asprintf("%lld from %s%s%s", (long long)s->uncapped_pods, o->from,
                              *o->overrode ? "; " : "", o->overrode);
        free(o->from);
        free(o->overrode);
        o->from = nc_asprintf("%s, spec.maxPods.atMost", from);
        o->overrode = nc_steal(&history);
    }
}

/* AgentConfig's keys over the policy's. */
static void overlay(struct nc_planner *s, struct nc_value **map, const struct nc_value *keys,
                    const char *field) {
    const struct nc_member *m;

    for (size_t i = 0; (m = nc_value_member(keys, i)); i++) {
        nc_auto_free char *path = nc_asprintf("%s.%s", field, m->key);
        nc_auto_free char *place = nc_origin_mark(s->docs, m->value->mark);
        if (!*map)
            *map = nc_value_new_map();
        nc_value_set(*map, m->key, nc_value_copy(m->value));
        nc_reasons_set(&s->reasons, path, *place ? place : "reservation of the configuration");
    }
    nc_quote_numbers(*map);
}

static void reserve_reasons(struct nc_planner *s, const struct nc_reserve_input *in) {
    static const char fields[][32] = {"kubeReserved",         "kubeReserved.cpu",
                                      "kubeReserved.memory",  "kubeReserved.ephemeral-storage",
                                      "systemReserved",       "systemReserved.cpu",
                                      "systemReserved.memory"};
    int64_t pods = in->policy == NC_RESERVATION_ACTUAL || in->policy == NC_RESERVATION_AKS
                       ? in->final_pods
                       : in->planned_pods;
    nc_auto_free char *text = nc_asprintf(
        "reservation policy %s for %lld CPUs and %lld pods",
        nc_name_at(nc_reservation_names, in->policy ? in->policy - NC_RESERVATION_KARPENTER : 0),
        (long long)in->cpus, (long long)pods);

    for (size_t i = 0; i < NC_ARRAY_SIZE(fields); i++)
        nc_reasons_set(&s->reasons, fields[i], text);
}

static int reserve(struct nc_planner *s, struct nc_value **kube, struct nc_value **system) {
    const struct nc_facts *f = s->facts;
    struct nc_reserve_input in = {
        .policy = s->config->reservation,
        .cpus = f->cpus > 0 ? f->cpus : s->plan.type.vcpus,
        .mem_total_bytes = f->mem_total_bytes,
        .planned_pods = s->pods.reserved,
        .final_pods = final_max_pods(s),
        .short_bytes = s->short_bytes,
        .kubelet_minor = s->plan.kubelet_minor,
    };
    struct nc_resources k, y;
    int r;

    if (in.cpus <= 0)
        nc_strv_add(&s->plan.warnings,
                    "kubeReserved: the number of CPUs is not known: none is reserved");
    r = nc_reserve(&in, &k, &y, s->err);
    if (r < 0)
        return r;
    reserve_reasons(s, &in);
    *kube = nc_reserve_tree(&k);
    *system = nc_reserve_tree(&y);
    overlay(s, kube, s->config->kube_reserved, "kubeReserved");
    overlay(s, system, s->config->system_reserved, "systemReserved");
    return 0;
}

static int make_computed(struct nc_planner *s) {
    nc_auto_value struct nc_value *kube = NULL, *system = NULL;
    int r = plan_cluster_dns(s);

    if (r == 0)
        r = reserve(s, &kube, &system);
    if (r < 0)
        return r;
    nc_reasons_set(&s->reasons, "maxPods", s->pods.from);
    nc_reasons_set(&s->reasons, "providerID", nc_origin_from(&s->plan, "providerID"));
    nc_reasons_set(&s->reasons, "registerWithTaints", "the taints of all sources");
    s->computed = nc_kubelet_base(
        &(struct nc_kubelet_input){
            .config = s->config,
            .minor = s->plan.kubelet_minor,
            .provider_id = s->plan.provider_id,
            .cluster_dns = *s->cluster_dns ? s->cluster_dns : NULL,
            .max_pods = s->pods.base,
            .kube_reserved = kube,
            .system_reserved = system,
            .uses_soci = s->uses_soci,
            .taints = s->plan.taints,
            .n_taints = s->plan.n_taints,
            .user = s->user,
            .flags = s->flag_tree,
        },
        &s->reasons);
    return 0;
}

/* What kubelet will see, but for the flags. */
static struct nc_value *merge_layers(const struct nc_planner *s, const struct nc_value *dropin) {
    struct nc_value *merged = nc_value_copy(s->computed);

    if (dropin)
        nc_value_merge_patch(merged, dropin);
    return merged;
}

/* For the policy `claim`: once more, if memory comes out smaller than the NodeClaim has it. */
static int keep_promise(struct nc_planner *s, const struct nc_value *dropin) {
    nc_auto_value struct nc_value *merged = merge_layers(s, dropin);
    struct nc_prediction is = {0};

    nc_flags_apply(merged, s->flag_tree);
    if (nc_predict_kubelet(s->facts, merged, s->docs, &is, NULL) < 0)
        return 0; /* which is refused later */
    s->short_bytes = nc_plan_short(s, is.allocatable.memory_bytes);
    if (s->short_bytes <= 0)
        return 0;
    s->computed = nc_value_free(s->computed);
    return make_computed(s);
}

int nc_plan_kubelet(struct nc_planner *s) {
    struct nc_plan *p = &s->plan;
    nc_auto_value struct nc_value *dropin = NULL;
    struct nc_value *merged;
    int r = cap_max_pods(s);

    if (r == 0)
        r = make_computed(s);
    if (r < 0)
        return r;
    dropin = s->user ? nc_kubelet_dropin(s->user) : NULL;
    if (s->config->reservation == NC_RESERVATION_CLAIM)
        r = keep_promise(s, dropin);
    if (r < 0)
        return r;
    merged = merge_layers(s, dropin);
    if (p->kubelet_minor < FIRST_MERGE_PATCH_MINOR && dropin) {
        p->kubelet_base = nc_value_copy(merged);
        p->kubelet_dropin = nc_value_copy(merged);
    } else {
        p->kubelet_base = nc_value_copy(s->computed);
        p->kubelet_dropin = nc_steal(&dropin);
    }
    p->dropin_env_alpha = p->kubelet_dropin && p->kubelet_minor < FIRST_STABLE_DROPIN_MINOR;
    nc_flags_apply(merged, s->flag_tree);
    if (!nc_value_bool(nc_value_get(merged, "registerNode"), true))
        nc_strv_add(&p->warnings,
                    "spec.kubelet.config.registerNode: false: kubelet creates no Node, and the "
                    "bootstrap waits for one");
    p->kubelet_effective = merged;
    return nc_kubelet_check(merged, p->kubelet_minor, s->docs, s->err);
}

/* One flag of ours, unless the user gives it himself. */
static void add_flag(struct nc_planner *s, const char *name, const char *value) {
    if (value && !nc_flags_find(&s->flags, name))
        nc_strv_addf(&s->plan.flags, "--%s=%s", name, value);
}

static char *labels_text(const struct nc_plan *p) {
    struct nc_buf text = NC_BUF_INIT;

    if (p->n_labels == 0)
        return NULL;
    for (size_t i = 0; i < p->n_labels; i++)
        nc_buf_printf(&text, "%s%s=%s", i ? "," : "", p->labels[i].key, p->labels[i].value);
    return nc_buf_steal(&text);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void nc_plan_flags(struct nc_planner *s) {
    const struct nc_config *c = s->config;
    struct nc_plan *p = &s->plan;
    nc_auto_free char *labels = labels_text(p);
    const char *kubeconfig = c->auth == NC_AUTH_KUBECONFIG && c->kubeconfig
                                 ? c->kubeconfig
                                 : "/var/lib/kubelet/kubeconfig";

    /* The node is an EC2 instance on every kind of cluster, so a cloud controller is expected; a
     * cluster that has none says --cloud-provider= in kubelet.flags, else the uninitialized taint
     * stays. */
    add_flag(s, "cloud-provider", "external");
    add_flag(s, "config", "/etc/kubernetes/kubelet/config.json");
    if (p->kubelet_dropin) /* kubelet does not start where the folder is missing */
        add_flag(s, "config-dir", "/etc/kubernetes/kubelet/config.json.d");
    add_flag(s, "hostname-override", p->node_name);
    add_flag(s, "kubeconfig", kubeconfig);
    if (c->auth == NC_AUTH_BOOTSTRAP_TOKEN)
        add_flag(s, "bootstrap-kubeconfig", "/etc/kubernetes/kubelet/bootstrap-kubeconfig");
    if (p->credential_provider) {
        add_flag(s, "image-credential-provider-bin-dir", s->facts->ecr_credential_provider_dir);
        add_flag(s, "image-credential-provider-config",
                 "/etc/kubernetes/image-credential-provider.json");
    }
    add_flag(s, "node-ip", p->node_ip);
    add_flag(s, "runtime-cgroups", "/runtime.slice/containerd.service");
    if (labels)
        nc_strv_addf(&p->flags, "--node-labels=%s", labels);
    qsort(p->flags.v, p->flags.n, sizeof(*p->flags.v), by_text);
    for (size_t i = 0; i < s->flags.n; i++) {
        const struct nc_flag *f = &s->flags.v[i];
        if (!nc_streq(f->name, "node-labels") && !nc_streq(f->name, "register-with-taints"))
            nc_strv_add(&p->user_flags, f->argument);
    }
}
