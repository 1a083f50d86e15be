/*
 * The manifests of deploy/: they parse, and RBAC allows exactly what the program lets through to
 * the wire, asked of both for every verb and resource; options and probes are ones that the program
 * has. deploy/chart, which they come from: its version, and the options that its schema admits.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/file.h"
#include "nc/standalone.h"
#include "nc/str.h"
#include "nc/value.h"
#include "options.h"
#include "settings.h"
#include "wire.h"

#define CLAIMS "/apis/karpenter.sh/v1/nodeclaims"
#define LEASES "/apis/coordination.k8s.io/v1"
#define MARK "{\"metadata\":{\"annotations\":{\"a\":\"b\"}}}"
#define STATUS "{\"metadata\":{\"resourceVersion\":\"1\"},\"status\":{\"nodeName\":\"n\"}}"
#define END "{\"preconditions\":{\"uid\":\"u\"}}"
#define LEASE                                                                                      \
    "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{\"name\":"        \
    "\"nodeclaim-controller\",\"namespace\":\"kube-system\",\"resourceVersion\":\"1\"},\"spec\":{" \
    "}}"
#define BOOT_FAILURES                                                                              \
    "/api/v1/namespaces/default/events?fieldSelector=reason%3DBootstrapFailed&limit=500"
#define EVENT                                                                                      \
    "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"e\",\"namespace\":"        \
    "\"default\"},\"involvedObject\":{\"kind\":\"NodeClaim\",\"name\":\"c\",\"uid\":\"u\"}}"

/* Every question that the program could ask, and what the authorizer calls it. */
static const struct row {
    const char *namespace, *group, *resource, *verb;
    const char *method, *path, *body;
} rows[] = {
    {"", "", "nodes", "list", "GET", "/api/v1/nodes", NULL},
    {"", "", "nodes", "watch", "GET", "/api/v1/nodes?watch=1", NULL},
    {"", "", "nodes", "get", "GET", "/api/v1/nodes/n", NULL},
    {"", "", "nodes", "patch", "PATCH", "/api/v1/nodes/n", MARK},
    {"", "", "nodes", "delete", "DELETE", "/api/v1/nodes/n", END},
    {"", "", "nodes", "create", "POST", "/api/v1/nodes", MARK},
    {"", "", "nodes", "update", "PUT", "/api/v1/nodes/n", MARK},
    {"", "", "nodes", "deletecollection", "DELETE", "/api/v1/nodes", END},
    {"", "", "nodes/status", "patch", "PATCH", "/api/v1/nodes/n/status", MARK},
    {"", "", "nodes/proxy", "get", "GET", "/api/v1/nodes/n/proxy", NULL},
    {"", "karpenter.sh", "nodeclaims", "list", "GET", CLAIMS, NULL},
    {"", "karpenter.sh", "nodeclaims", "watch", "GET", CLAIMS "?watch=1", NULL},
    {"", "karpenter.sh", "nodeclaims", "get", "GET", CLAIMS "/c", NULL},
    {"", "karpenter.sh", "nodeclaims", "patch", "PATCH", CLAIMS "/c", MARK},
    {"", "karpenter.sh", "nodeclaims", "delete", "DELETE", CLAIMS "/c", END},
    {"", "karpenter.sh", "nodeclaims", "create", "POST", CLAIMS, MARK},
    {"", "karpenter.sh", "nodeclaims", "update", "PUT", CLAIMS "/c", MARK},
    {"", "karpenter.sh", "nodeclaims", "deletecollection", "DELETE", CLAIMS, END},
    {"", "karpenter.sh", "nodeclaims/status", "patch", "PATCH", CLAIMS "/c/status", STATUS},
    {"", "karpenter.sh", "nodeclaims/status", "update", "PUT", CLAIMS "/c/status", STATUS},
    {"", "karpenter.sh", "nodepools", "list", "GET", "/apis/karpenter.sh/v1/nodepools", NULL},
    {"", "karpenter.sh", "nodepools", "watch", "GET", "/apis/karpenter.sh/v1/nodepools?watch=1",
     NULL},
    {"", "karpenter.sh", "nodepools", "get", "GET", "/apis/karpenter.sh/v1/nodepools/p", NULL},
    {"", "karpenter.sh", "nodepools", "patch", "PATCH", "/apis/karpenter.sh/v1/nodepools/p", MARK},
    {"", "karpenter.sh", "nodepools", "delete", "DELETE", "/apis/karpenter.sh/v1/nodepools/p", END},
    {"", "karpenter.k8s.aws", "ec2nodeclasses", "list", "GET",
     "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", NULL},
    {"", "karpenter.k8s.aws", "ec2nodeclasses", "watch", "GET",
     "/apis/karpenter.k8s.aws/v1/ec2nodeclasses?watch=1", NULL},
    {"", "karpenter.k8s.aws", "ec2nodeclasses", "get", "GET",
     "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/c", NULL},
    {"", "karpenter.k8s.aws", "ec2nodeclasses", "patch", "PATCH",
     "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/c", MARK},
    {"", "eks.amazonaws.com", "nodeclasses", "list", "GET",
     "/apis/eks.amazonaws.com/v1/nodeclasses", NULL},
    {"", "eks.amazonaws.com", "nodeclasses", "watch", "GET",
     "/apis/eks.amazonaws.com/v1/nodeclasses?watch=1", NULL},
    {"", "eks.amazonaws.com", "nodeclasses", "get", "GET",
     "/apis/eks.amazonaws.com/v1/nodeclasses/c", NULL},
    {"", "coordination.k8s.io", "leases", "list", "GET", LEASES "/leases", NULL},
    {"karpenter", "coordination.k8s.io", "leases", "get", "GET",
     LEASES "/namespaces/karpenter/leases/l", NULL},
    {"karpenter", "coordination.k8s.io", "leases", "get", "GET",
     LEASES "/namespaces/karpenter/leases/karpenter-leader-election", NULL},
    {"kube-system", "coordination.k8s.io", "leases", "get", "GET",
     LEASES "/namespaces/kube-system/leases/nodeclaim-controller", NULL},
    {"karpenter", "coordination.k8s.io", "leases", "update", "PUT",
     LEASES "/namespaces/karpenter/leases/nodeclaim-controller", LEASE},
    {"kube-system", "coordination.k8s.io", "leases", "create", "POST",
     LEASES "/namespaces/kube-system/leases", LEASE},
    {"kube-system", "coordination.k8s.io", "leases", "update", "PUT",
     LEASES "/namespaces/kube-system/leases/nodeclaim-controller", LEASE},
    {"kube-system", "coordination.k8s.io", "leases", "patch", "PATCH",
     LEASES "/namespaces/kube-system/leases/nodeclaim-controller", MARK},
    {"kube-system", "coordination.k8s.io", "leases", "delete", "DELETE",
     LEASES "/namespaces/kube-system/leases/nodeclaim-controller", END},
    {"default", "", "events", "create", "POST", "/api/v1/namespaces/default/events", EVENT},
    {"default", "", "events", "patch", "PATCH", "/api/v1/namespaces/default/events/e",
     "{\"count\":2}"},
    {"default", "", "events", "delete", "DELETE", "/api/v1/namespaces/default/events/e", END},
    {"default", "", "events", "list", "GET", BOOT_FAILURES, NULL},
    {"default", "", "events", "watch", "GET", BOOT_FAILURES "&watch=true", NULL},
    {"default", "", "events", "get", "GET", "/api/v1/namespaces/default/events/e", NULL},
    {"kube-system", "", "events", "create", "POST", "/api/v1/namespaces/kube-system/events", EVENT},
    {"", "", "pods", "list", "GET", "/api/v1/pods", NULL},
    {"", "", "pods", "get", "GET", "/api/v1/namespaces/default/pods/p", NULL},
    {"", "", "pods", "delete", "DELETE", "/api/v1/namespaces/default/pods/p", END},
    {"", "", "pods/eviction", "create", "POST", "/api/v1/namespaces/default/pods/p/eviction", MARK},
    {"", "", "secrets", "list", "GET", "/api/v1/secrets", NULL},
    {"", "", "secrets", "get", "GET", "/api/v1/namespaces/kube-system/secrets/s", NULL},
    {"", "", "configmaps", "get", "GET", "/api/v1/namespaces/kube-system/configmaps/c", NULL},
    {"", "", "serviceaccounts/token", "create", "POST",
     "/api/v1/namespaces/kube-system/serviceaccounts/s/token", MARK},
};

#define WEB "/api/v1/namespaces/web"
#define APPS "/apis/apps/v1/namespaces/web"
#define OF_NODE "?fieldSelector=spec.nodeName%3Dn"
#define RESTART                                                                                    \
    "{\"metadata\":{\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":{\"template\":{"             \
    "\"metadata\":{"                                                                               \
    "\"annotations\":{\"nodeclaimd.io/restarted-at\":\"2026-01-01T00:00:00Z\"}}}}}"
#define POD_EVENT                                                                                  \
    "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"e\",\"namespace\":"        \
    "\"web\"},\"involvedObject\":{\"kind\":\"Pod\",\"namespace\":\"web\",\"name\":\"p\"}}"

/* In a namespace of --replacement-first. */
static const struct row replacing[] = {
    {"web", "", "pods", "list", "GET", WEB "/pods" OF_NODE, NULL},
    {"web", "", "pods", "watch", "GET", WEB "/pods" OF_NODE "&watch=1", NULL},
    {"web", "", "pods", "get", "GET", WEB "/pods/p", NULL},
    {"web", "", "pods", "patch", "PATCH", WEB "/pods/p", MARK},
    {"web", "", "pods", "delete", "DELETE", WEB "/pods/p", END},
    {"web", "", "pods/eviction", "create", "POST", WEB "/pods/p/eviction", MARK},
    {"web", "", "pods/log", "get", "GET", WEB "/pods/p/log", NULL},
    {"web", "apps", "replicasets", "get", "GET", APPS "/replicasets/r", NULL},
    {"web", "apps", "replicasets", "list", "GET", APPS "/replicasets", NULL},
    {"web", "apps", "replicasets", "patch", "PATCH", APPS "/replicasets/r", RESTART},
    {"web", "apps", "deployments", "get", "GET", APPS "/deployments/d", NULL},
    {"web", "apps", "deployments", "list", "GET", APPS "/deployments", NULL},
    {"web", "apps", "deployments", "patch", "PATCH", APPS "/deployments/d", RESTART},
    {"web", "apps", "deployments", "update", "PUT", APPS "/deployments/d", RESTART},
    {"web", "apps", "deployments", "delete", "DELETE", APPS "/deployments/d", END},
    {"web", "apps", "deployments/scale", "patch", "PATCH", APPS "/deployments/d/scale", RESTART},
    {"web", "apps", "statefulsets", "get", "GET", APPS "/statefulsets/s", NULL},
    {"web", "", "events", "create", "POST", WEB "/events", POD_EVENT},
    {"web", "", "events", "patch", "PATCH", WEB "/events/e", "{\"count\":2}"},
    {"web", "", "secrets", "get", "GET", WEB "/secrets/s", NULL},
};

/* --- manifests */

/* A file of the sources; fails without. */
static void read_source(const char *name, struct nc_buf *text) {
    const char *top = getenv("NC_SRCDIR");
    nc_auto_free char *path = nc_asprintf("%s/%s", top ? top : ".", name);
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_read(path, (size_t)1 << 20, text, &err) < 0)
        fail_msg("%s", err.msg);
}

static void read_manifests(const char *name, struct nc_values *ret) {
    nc_auto_free char *path = nc_asprintf("deploy/%s", name);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    read_source(path, &text);
    if (nc_yaml_parse((struct nc_text){.data = text.data, .n = text.len}, 1, ret, &err) < 0)
        fail_msg("%s: %s", name, err.msg);
    assert_true(ret->n > 0);
}

static const struct nc_value *find(const struct nc_values *m, const char *kind, const char *name) {
    for (size_t i = 0; i < m->n; i++)
        if (nc_streq(nc_value_get_string(m->v[i], "kind"), kind)
            && nc_streq(nc_value_string(nc_value_path(m->v[i], "metadata.name")), name))
            return m->v[i];
    fail_msg("there is no %s %s", kind, name);
    return NULL;
}

static bool lists(const struct nc_value *rule, const char *key, const char *text) {
    const struct nc_value *list = nc_value_get(rule, key);

    for (size_t i = 0; list && i < list->n; i++)
        if (nc_streq(nc_value_string(list->items[i]), text))
            return true;
    return false;
}

/* --- RBAC against the rules on the wire */

static bool is_about(const struct nc_value *role, const struct row *r) {
    const char *namespace = nc_value_string(nc_value_path(role, "metadata.namespace"));

    return nc_streq(nc_value_get_string(role, "kind"), "ClusterRole")
           || (nc_streq(nc_value_get_string(role, "kind"), "Role")
               && nc_streq(namespace, r->namespace));
}

/* A rule that names objects is about these. */
static bool names(const struct nc_value *rule, const struct row *r) {
    const size_t n = strcspn(r->path, "?");
    nc_auto_free char *path = nc_strndup(r->path, n);
    const char *last = strrchr(path, '/') + 1;

    return !nc_value_get(rule, "resourceNames") || lists(rule, "resourceNames", last);
}

/* What both modes need, what the standalone mode and --replacement-first need in addition. */
enum { RELAY = 0, STANDALONE, REPLACING, N_RBAC };
static const char *const rbac_files[N_RBAC] = {"rbac.yaml", "optional/standalone-role.yaml",
                                               "optional/replacement-role.yaml"};

static bool rbac_allows(const struct nc_values *m, const struct row *r) {
    for (size_t i = 0; i < m->n; i++) {
        const struct nc_value *rules = nc_value_get(m->v[i], "rules");
        for (size_t k = 0; is_about(m->v[i], r) && k < rules->n; k++)
            if (lists(rules->items[k], "apiGroups", r->group)
                && lists(rules->items[k], "resources", r->resource)
                && lists(rules->items[k], "verbs", r->verb) && names(rules->items[k], r))
                return true;
    }
    return false;
}

static bool wire_allows(const struct row *r, const struct nc_kube_role *role) {
    nc_auto_value struct nc_value *body = NULL;
    struct nc_kube_call c = {.what = "test",
                             .method = r->method,
                             .path = r->path,
                             .patch = nc_streq(r->method, "PATCH") ? NC_KUBE_PATCH_MERGE
                                                                   : NC_KUBE_PATCH_NONE,
                             .timeout_usec = 1};

    if (r->body)
        assert_int_equal(nc_json_parse(r->body, strlen(r->body), &body, NULL), 0);
    c.body = body;
    return role->guard(&c, NULL) >= 0;
}

static void check_row(const struct row *r, bool is_relay, bool is_standalone) {
    /* its name and namespace are options: the manifests know theirs, the wire does not */
    const bool is_karpenters = nc_ends_with(r->path, "/karpenter-leader-election");
    const bool is_elsewhere =
        nc_streq(r->resource, "leases") && !is_karpenters && nc_streq(r->namespace, "karpenter");
    const bool rbac = is_relay || is_standalone;

    if (!is_elsewhere && rbac != wire_allows(r, &nc_kube_as_controller))
        fail_msg("%s %s %s: RBAC says %s, the program the opposite", r->verb, r->group, r->resource,
                 rbac ? "yes" : "no");
    if (is_elsewhere)
        assert_false(rbac);
    if (is_relay && is_standalone)
        fail_msg("%s %s %s is granted twice", r->verb, r->group, r->resource);
}

/* The tests of the controller in mode karpenter hold the first file to be enough for it. */
static void test_rbac_is_what_is_asked(void **state) {
    nc_cleanup(nc_values_done) struct nc_values relay = {0}, standalone = {0};

    (void)state;
    read_manifests(rbac_files[RELAY], &relay);
    read_manifests(rbac_files[STANDALONE], &standalone);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        check_row(&rows[i], rbac_allows(&relay, &rows[i]), rbac_allows(&standalone, &rows[i]));
}

/* Without the option nothing of it is sent; with it, what the Role allows, and where it does. */
static void test_rbac_of_replacement_first(void **state) {
    nc_cleanup(nc_values_done) struct nc_values m = {0};

    (void)state;
    read_manifests(rbac_files[REPLACING], &m);
    for (size_t i = 0; i < NC_ARRAY_SIZE(replacing); i++) {
        const struct row *r = &replacing[i];
        if (rbac_allows(&m, r) != wire_allows(r, &nc_kube_as_replacing_controller))
            fail_msg("%s %s %s: RBAC and the program differ", r->verb, r->group, r->resource);
        assert_false(wire_allows(r, &nc_kube_as_controller));
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        assert_false(rbac_allows(&m, &rows[i]));
}

static bool is_known(const char *group, const char *resource, const char *verb) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (nc_streq(rows[i].group, group) && nc_streq(rows[i].resource, resource)
            && nc_streq(rows[i].verb, verb))
            return true;
    for (size_t i = 0; i < NC_ARRAY_SIZE(replacing); i++)
        if (nc_streq(replacing[i].group, group) && nc_streq(replacing[i].resource, resource)
            && nc_streq(replacing[i].verb, verb))
            return true;
    return false;
}

/* No rule grants what is not checked above: no wildcard, no forgotten resource. */
static void check_rule(const struct nc_value *rule) {
    const struct nc_value *groups = nc_value_get(rule, "apiGroups");
    const struct nc_value *resources = nc_value_get(rule, "resources");
    const struct nc_value *verbs = nc_value_get(rule, "verbs");

    assert_true(groups->n > 0 && resources->n > 0 && verbs->n > 0);
    assert_null(nc_value_get(rule, "nonResourceURLs"));
    for (size_t g = 0; g < groups->n; g++)
        for (size_t r = 0; r < resources->n; r++)
            for (size_t v = 0; v < verbs->n; v++)
                if (!is_known(groups->items[g]->text, resources->items[r]->text,
                              verbs->items[v]->text))
                    fail_msg("%s %s %s is granted and not asked for", verbs->items[v]->text,
                             groups->items[g]->text, resources->items[r]->text);
}

static void check_subjects(const struct nc_value *subjects) {
    assert_int_equal(subjects->n, 1);
    assert_string_equal(nc_value_get_string(subjects->items[0], "kind"), "ServiceAccount");
    assert_string_equal(nc_value_get_string(subjects->items[0], "name"), NC_CONTROLLER);
    assert_string_equal(nc_value_get_string(subjects->items[0], "namespace"), NC_LEASE_NAMESPACE);
}

static void check_file(const char *name) {
    nc_cleanup(nc_values_done) struct nc_values m = {0};

    read_manifests(name, &m);
    for (size_t i = 0; i < m.n; i++) {
        const struct nc_value *rules = nc_value_get(m.v[i], "rules");
        const struct nc_value *subjects = nc_value_get(m.v[i], "subjects");
        for (size_t k = 0; rules && k < rules->n; k++)
            check_rule(rules->items[k]);
        if (subjects)
            check_subjects(subjects);
    }
}

static void test_rbac_is_no_more(void **state) {
    (void)state;
    for (size_t i = 0; i < N_RBAC; i++)
        check_file(rbac_files[i]);
}

/* --- the Deployment */

static bool is_true(const struct nc_value *map, const char *path) {
    const struct nc_value *v = nc_value_path(map, path);

    return v && v->type == NC_VALUE_BOOL && v->boolean;
}

static bool is_false(const struct nc_value *map, const char *path) {
    const struct nc_value *v = nc_value_path(map, path);

    return v && v->type == NC_VALUE_BOOL && !v->boolean;
}

/* Who has taken a node over that is managed has no token of the controller. */
static void check_keeps_away(const struct nc_value *pod) {
    const struct nc_value *terms =
        nc_value_path(pod, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                           "nodeSelectorTerms");

    assert_true(terms && terms->n == 1); /* terms are alternatives */
    const struct nc_value *must = nc_value_get(terms->items[0], "matchExpressions");
    assert_true(must && must->n == 1);
    assert_string_equal(nc_value_get_string(must->items[0], "key"), "karpenter.sh/nodepool");
    assert_string_equal(nc_value_get_string(must->items[0], "operator"), "DoesNotExist");
}

static void test_pod_has_no_powers(void **state) {
    nc_cleanup(nc_values_done) struct nc_values m = {0};
    const struct nc_value *pod, *container;

    (void)state;
    read_manifests("deployment.yaml", &m);
    pod = nc_value_path(find(&m, "Deployment", NC_CONTROLLER), "spec.template.spec");
    assert_int_equal(nc_value_get(pod, "containers")->n, 1);
    container = nc_value_get(pod, "containers")->items[0];
    assert_true(is_true(pod, "securityContext.runAsNonRoot"));
    assert_string_equal(nc_value_string(nc_value_path(pod, "securityContext.seccompProfile.type")),
                        "RuntimeDefault");
    assert_true(is_false(container, "securityContext.allowPrivilegeEscalation"));
    assert_true(is_true(container, "securityContext.readOnlyRootFilesystem"));
    assert_true(lists(nc_value_path(container, "securityContext.capabilities"), "drop", "ALL"));
    assert_null(nc_value_get(pod, "volumes"));
    assert_null(nc_value_get(pod, "hostNetwork"));
    check_keeps_away(pod);
    assert_string_equal(nc_value_get_string(pod, "serviceAccountName"), NC_CONTROLLER);
    assert_string_equal(nc_value_string(nc_value_path(container, "resources.limits.memory")),
                        "128Mi");
    assert_non_null(find(&m, "PodDisruptionBudget", NC_CONTROLLER));
}

static void test_options_are_parsed(void **state) {
    nc_cleanup(nc_values_done) struct nc_values m = {0};
    const struct nc_value *containers, *args;
    struct nc_settings s;
    char *argv[16] = {(char *)"nodeclaim-controller"};
    int argc = 1, code = -1;

    (void)state;
    read_manifests("deployment.yaml", &m);
    containers =
        nc_value_path(find(&m, "Deployment", NC_CONTROLLER), "spec.template.spec.containers");
    args = nc_value_get(containers->items[0], "args");
    for (size_t i = 0; i < args->n && argc < 15; i++)
        argv[argc++] = args->items[i]->text;
    assert_int_equal(nc_settings_read(argc, argv, &nc_standalone, &s, &code), 0);
    assert_string_equal(s.metrics_address, "0.0.0.0:8080");
    assert_string_equal(s.lease_name, NC_CONTROLLER); /* the Role names it */
    assert_null(s.lease_namespace);
    assert_int_equal(s.mode, NC_CONTROL_KARPENTER); /* nothing is left to be found out */
    args = nc_value_get(containers->items[0], "env");
    assert_string_equal(nc_value_get_string(args->items[0], "name"), "NODE_ADDRESS");
    assert_string_equal(
        nc_value_string(nc_value_path(args->items[0], "valueFrom.fieldRef.fieldPath")),
        "status.hostIP");
}

/* The policy selects the pods of the Deployment, and opens what it scrapes and nothing else. */
static void test_network_policy(void **state) {
    nc_cleanup(nc_values_done) struct nc_values deployment = {0}, policy = {0};
    const struct nc_value *labels, *spec, *rules;

    (void)state;
    read_manifests("deployment.yaml", &deployment);
    read_manifests("network-policy.yaml", &policy);
    labels = nc_value_path(find(&deployment, "Deployment", NC_CONTROLLER),
                           "spec.template.metadata.labels");
    spec = nc_value_get(find(&policy, "NetworkPolicy", NC_CONTROLLER), "spec");
    assert_true(nc_value_equal(nc_value_path(spec, "podSelector.matchLabels"), labels));
    assert_true(lists(spec, "policyTypes", "Ingress"));
    rules = nc_value_get(spec, "ingress");
    assert_int_equal(rules->n, 1);
    assert_int_equal(nc_value_get(rules->items[0], "from")->n, 1);
    assert_string_equal(
        nc_value_get_string(nc_value_get(rules->items[0], "ports")->items[0], "port"), "metrics");
}

/* What the program asks of EC2; an end only of what has the cluster's tag. */
static void test_iam_policy(void **state) {
    nc_cleanup(nc_values_done) struct nc_values m = {0};
    const struct nc_value *statements;

    (void)state;
    read_manifests("iam-policy.json", &m);
    statements = nc_value_get(m.v[0], "Statement");
    assert_int_equal(statements->n, 4);
    assert_string_equal(nc_value_get_string(statements->items[0], "Action"),
                        "ec2:DescribeInstances");
    assert_string_equal(nc_value_get_string(statements->items[1], "Action"),
                        "ec2:TerminateInstances");
    assert_string_equal(
        nc_value_get_string(nc_value_path(statements->items[1], "Condition.StringEquals"),
                            "aws:ResourceTag/kubernetes.io/cluster/CLUSTER_NAME"),
        "owned");
    assert_string_equal(nc_value_get_string(statements->items[2], "Action"),
                        "autoscaling:DescribeAutoScalingInstances");
    assert_int_equal(nc_value_get(statements->items[3], "Action")->n, 2);
    assert_string_equal(
        nc_value_get_string(nc_value_path(statements->items[3], "Condition.StringEquals"),
                            "aws:ResourceTag/kubernetes.io/cluster/CLUSTER_NAME"),
        "owned");
}

/* --- the chart */

/* Helm takes the image's tag from there; deploy/render writes it. */
static void test_chart_has_our_version(void **state) {
    nc_cleanup(nc_values_done) struct nc_values m = {0};
    nc_cleanup(nc_buf_done) struct nc_buf version = NC_BUF_INIT;

    (void)state;
    read_source("VERSION", &version);
    version.data[strcspn(version.data, "\n")] = '\0';
    read_manifests("chart/Chart.yaml", &m);
    assert_string_equal(nc_value_get_string(m.v[0], "version"), version.data);
    assert_string_equal(nc_value_get_string(m.v[0], "appVersion"), version.data);
}

static void check_option(const struct nc_member *m) {
    const struct nc_value *examples = nc_value_get(m->value, "examples");
    char number[32];
    nc_auto_free char *option = NULL;
    char *argv[] = {(char *)NC_CONTROLLER, (char *)"run", NULL, NULL};
    struct nc_settings s;
    int code = -1;

    if (!examples || examples->n != 1)
        fail_msg("options.%s has no example", m->key);
    option = nc_asprintf("--%s=%s", m->key, nc_value_scalar_text(examples->items[0], number));
    argv[2] = option;
    if (nc_settings_read(3, argv, &nc_standalone, &s, &code) != 0)
        fail_msg("the schema admits %s, the program does not", option);
}

static void test_schema_knows_the_options(void **state) {
    nc_cleanup(nc_values_done) struct nc_values m = {0};
    const struct nc_value *options;

    (void)state;
    read_manifests("chart/values.schema.json", &m);
    options = nc_value_path(m.v[0], "properties.options.properties");
    assert_true(options && options->n > 0);
    for (size_t i = 0; i < options->n; i++)
        check_option(&options->members[i]);
}

static void test_the_rest_parses(void **state) {
    static const char *const names[] = {"kustomization.yaml", "optional/node-claims-role.yaml",
                                        "optional/node-guards.yaml", "optional/node-identity.yaml"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++) {
        nc_cleanup(nc_values_done) struct nc_values m = {0};
        read_manifests(names[i], &m);
        for (size_t k = 0; k < m.n; k++)
            assert_non_null(nc_value_get_string(m.v[k], "apiVersion"));
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rbac_is_what_is_asked),
        cmocka_unit_test(test_rbac_of_replacement_first),
        cmocka_unit_test(test_rbac_is_no_more),
        cmocka_unit_test(test_pod_has_no_powers),
        cmocka_unit_test(test_options_are_parsed),
        cmocka_unit_test(test_network_policy),
        cmocka_unit_test(test_iam_policy),
        cmocka_unit_test(test_chart_has_our_version),
        cmocka_unit_test(test_schema_knows_the_options),
        cmocka_unit_test(test_the_rest_parses),
    };

    return run_group(tests, NULL, NULL);
}
