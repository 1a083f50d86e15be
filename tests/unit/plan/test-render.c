/*
 * Files from a plan: which there are, with which mode and text, for each way in which a node proves
 * who it is. Whole trees are compared by the golden tests.
 */
#include "base-test.h"
#include "groups.h"
#include "plan-fixture.h"

#include "nc/fileset.h"
#include "systemd-env.h"

static const struct nc_render_input plain = {.program = "/usr/sbin/nodeclaimd"};

struct rendered {
    struct fixture *x;
    struct nc_fileset files;
};

static int render(const struct fixture *x, const struct nc_render_input *o, struct nc_fileset *ret,
                  struct nc_err *err) {
    struct nc_render_input in = *o;

    in.facts = &x->facts;
    in.config = &x->config;
    in.plan = &x->plan;
    return nc_render(&in, ret, err);
}

static void render_with(struct rendered *r, const char *kubelet, const char *agent,
                        const struct nc_render_input *o) {
    nc_auto_free char *node = node_config(kubelet);
    struct nc_err err = NC_ERR_INIT;

    if (!r->x)
        r->x = fixture_new();
    fixture_document(r->x, node);
    if (agent) {
        nc_auto_free char *text =
            nc_asprintf("apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n%s", agent);
        fixture_document(r->x, text);
    }
    fixture_plan(r->x);
    if (render(r->x, o, &r->files, &err) < 0)
        fail_msg("refused: %s", err.msg);
}

static void rendered_done(struct rendered *r) {
    nc_fileset_done(&r->files);
    fixture_free(r->x);
}

static const struct nc_file *find(const struct rendered *r, const char *path) {
    for (size_t i = 0; i < r->files.n; i++)
        if (nc_streq(r->files.files[i].path, path))
            return &r->files.files[i];
    return NULL;
}

static const struct nc_file *file_of(const struct rendered *r, const char *path) {
    const struct nc_file *f = find(r, path);

    if (f)
        return f;
    fail_msg("%s is not among the files", path);
    abort();
}

static const char *text_of(const struct rendered *r, const char *path) {
    const struct nc_file *f = file_of(r, path);

    assert_false(f->absent);
    assert_int_equal(strlen(f->data), f->n);
    return f->data;
}

static struct nc_value *json_of(const struct rendered *r, const char *path) {
    const char *text = text_of(r, path);
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse(text, strlen(text), &v, &err) < 0)
        fail_msg("%s: %s", path, err.msg);
    assert_int_equal(text[strlen(text) - 1], '\n');
    return v;
}

static void assert_absent(const struct rendered *r, const char *path) {
    assert_true(file_of(r, path)->absent);
}

static void assert_user(const struct rendered *r, const char *path, const char *user) {
    nc_auto_value struct nc_value *v = json_of(r, path);
    nc_auto_value struct nc_value *expected = json(user);
    const struct nc_value *users = nc_value_get(v, "users");

    assert_int_equal(users->n, 1);
    assert_string_equal(nc_value_get_string(users->items[0], "name"), "kubelet");
    if (!nc_value_equal(nc_value_get(users->items[0], "user"), expected)) {
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        nc_json_write(&text, users, 0);
        fail_msg("%s, expected %s", text.data, user);
    }
}

#define KUBECONFIG "/var/lib/kubelet/kubeconfig"
#define BOOTSTRAP "/etc/kubernetes/kubelet/bootstrap-kubeconfig"
#define DROPIN "/etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf"
#define PROVIDER "/etc/kubernetes/image-credential-provider.json"
#define LOGIND "/etc/systemd/logind.conf.d/zz-nodeclaimd.conf"
#define ENV "/etc/nodeclaimd/kubelet.env"

static void test_eks(void **state) {
    struct rendered r = {0};

    (void)state;
    render_with(&r, "", NULL, &plain);
    assert_user(&r, KUBECONFIG,
                "{'exec': {'apiVersion': 'client.authentication.k8s.io/v1beta1',"
                " 'command': '/usr/sbin/nodeclaimd',"
                " 'args': ['token', '--cluster', 'my-cluster', '--region', 'us-west-2'],"
                " 'interactiveMode': 'Never'}}");
    nc_auto_value struct nc_value *v = json_of(&r, KUBECONFIG);
    nc_auto_value struct nc_value *clusters =
        json("[{'name': 'kubernetes', 'cluster': {'certificate-authority': "
             "'/etc/kubernetes/pki/ca.crt', 'server': 'https://example.com'}}]");
    nc_auto_value struct nc_value *contexts =
        json("[{'name': 'kubelet', 'context': {'cluster': 'kubernetes', 'user': 'kubelet'}}]");
    assert_true(nc_value_equal(nc_value_get(v, "clusters"), clusters));
    assert_true(nc_value_equal(nc_value_get(v, "contexts"), contexts));
    assert_string_equal(nc_value_get_string(v, "current-context"), "kubelet");
    assert_int_equal(file_of(&r, KUBECONFIG)->mode, 0644);
    assert_string_equal(text_of(&r, "/etc/kubernetes/pki/ca.crt"),
                        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert_int_equal(file_of(&r, "/etc/kubernetes/pki/ca.crt")->mode, 0644);
    assert_absent(&r, BOOTSTRAP);
    rendered_done(&r);
}

static void test_eks_elsewhere(void **state) {
    const struct nc_render_input o = {.program = "/opt/n", .imds_endpoint = "http://127.0.0.1:1"};
    struct rendered r = {0};

    (void)state;
    render_with(&r, "", "  aws:\n    stsEndpoint: https://sts.example.com\n", &o);
    assert_user(&r, KUBECONFIG,
                "{'exec': {'apiVersion': 'client.authentication.k8s.io/v1beta1',"
                " 'command': '/opt/n',"
                " 'args': ['token', '--cluster', 'my-cluster', '--region', 'us-west-2',"
                " '--sts-endpoint', 'https://sts.example.com'],"
                " 'env': [{'name': 'AWS_EC2_METADATA_SERVICE_ENDPOINT', 'value': "
                "'http://127.0.0.1:1'}],"
                " 'interactiveMode': 'Never'}}");
    rendered_done(&r);
}

/* Where the region does not say which domain AWS has, STS is in the one that is written. */
static void test_eks_in_a_domain(void **state) {
    struct rendered r = {0}, both = {0};

    (void)state;
    render_with(&r, "", "  aws:\n    domain: amazonaws.example\n", &plain);
    assert_user(&r, KUBECONFIG,
                "{'exec': {'apiVersion': 'client.authentication.k8s.io/v1beta1',"
                " 'command': '/usr/sbin/nodeclaimd',"
                " 'args': ['token', '--cluster', 'my-cluster', '--region', 'us-west-2',"
                " '--sts-endpoint', 'https://sts.us-west-2.amazonaws.example'],"
                " 'interactiveMode': 'Never'}}");
    rendered_done(&r);
    render_with(&both, "",
                "  aws:\n    domain: amazonaws.example\n    stsEndpoint: https://sts.example.com\n",
                &plain);
    assert_user(&both, KUBECONFIG,
                "{'exec': {'apiVersion': 'client.authentication.k8s.io/v1beta1',"
                " 'command': '/usr/sbin/nodeclaimd',"
                " 'args': ['token', '--cluster', 'my-cluster', '--region', 'us-west-2',"
                " '--sts-endpoint', 'https://sts.example.com'],"
                " 'interactiveMode': 'Never'}}");
    rendered_done(&both);
}

static void test_client_certificate(void **state) {
    struct rendered r = {0};

    (void)state;
    render_with(&r, "",
                "  cluster:\n    auth:\n      mode: client-certificate\n"
                "      clientCertificate: /etc/n.crt\n      clientKey: /etc/n.key\n",
                &plain);
    assert_user(&r, KUBECONFIG, "{'client-certificate': '/etc/n.crt', 'client-key': '/etc/n.key'}");
    assert_absent(&r, BOOTSTRAP);
    rendered_done(&r);
}

/* kubelet writes its own kubeconfig in this mode: ours must neither write nor remove it. */
static void test_bootstrap_token(void **state) {
    struct rendered r = {0};

    (void)state;
    render_with(&r, "",
                "  cluster:\n    auth:\n      mode: bootstrap-token\n"
                "      bootstrapToken: abcdef.0123456789abcdef\n",
                &plain);
    assert_user(&r, BOOTSTRAP, "{'token': 'abcdef.0123456789abcdef'}");
    assert_int_equal(file_of(&r, BOOTSTRAP)->mode, 0600);
    assert_null(find(&r, KUBECONFIG));
    for (size_t i = 0; i < r.files.n; i++)
        if (r.files.files[i].data && !nc_streq(r.files.files[i].path, BOOTSTRAP))
            assert_null(strstr(r.files.files[i].data, "0123456789abcdef\""));
    rendered_done(&r);
}

static void test_own_kubeconfig(void **state) {
    struct rendered r = {0};

    (void)state;
    render_with(&r, "",
                "  cluster:\n    auth:\n      mode: kubeconfig\n      kubeconfig: /etc/my.conf\n",
                &plain);
    assert_null(find(&r, KUBECONFIG));
    assert_absent(&r, BOOTSTRAP);
    assert_non_null(strstr(text_of(&r, ENV), "--kubeconfig=/etc/my.conf"));
    rendered_done(&r);
}

static void test_own_kubeconfig_where_ours_would_be(void **state) {
    struct rendered r = {0};

    (void)state;
    render_with(&r, "",
                "  cluster:\n    auth:\n      mode: kubeconfig\n      kubeconfig: " BOOTSTRAP "\n",
                &plain);
    assert_null(find(&r, BOOTSTRAP));
    rendered_done(&r);
}

static void test_env(void **state) {
    struct rendered r = {0};
    nc_cleanup(nc_strv_done) struct nc_strv words = NC_STRV_INIT;
    const char *text;

    (void)state;
    render_with(&r, "    flags:\n    - --v=4\n    - --feature-gates=A=true,B=false\n    - --v=2\n",
                NULL, &plain);
    text = text_of(&r, ENV);
    assert_true(nc_starts_with(text, "NODECLAIMD_KUBELET_ARGS="));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(systemd_env_split(text + strlen("NODECLAIMD_KUBELET_ARGS="), &words, NULL), 0);
    assert_int_equal(words.n, r.x->plan.flags.n + r.x->plan.user_flags.n);
    for (size_t i = 0; i < words.n; i++) {
        const size_t ours = r.x->plan.flags.n;
        assert_string_equal(words.v[i],
                            i < ours ? r.x->plan.flags.v[i] : r.x->plan.user_flags.v[i - ours]);
        if (i > 0 && i < ours)
            assert_true(strcmp(words.v[i - 1], words.v[i]) < 0);
    }
    assert_string_equal(words.v[words.n - 1], "--v=2");
    rendered_done(&r);
}

static void test_dropin(void **state) {
    struct rendered with = {0}, without = {0}, old = {0};

    (void)state;
    render_with(&with, "    config:\n      maxPods: 42\n", NULL, &plain);
    nc_auto_value struct nc_value *v = json_of(&with, DROPIN);
    assert_int_equal(nc_value_get(v, "maxPods")->integer, 42);
    assert_null(strstr(text_of(&with, ENV), "DROPIN_DIR_ALPHA"));
    render_with(&without, "", NULL, &plain);
    assert_absent(&without, DROPIN);
    old.x = fixture_new();
    fixture_set(&old.x->facts.kubelet_version, "v1.29.3");
    render_with(&old, "    config:\n      maxPods: 42\n", NULL, &plain);
    assert_true(
        nc_starts_with(text_of(&old, ENV), "KUBELET_CONFIG_DROPIN_DIR_ALPHA=on\nNODECLAIMD_"));
    rendered_done(&with);
    rendered_done(&without);
    rendered_done(&old);
}

static void test_credential_provider(void **state) {
    static const struct {
        const char *version;
        size_t patterns;
    } cases[] = {{"v1.31.9", 12}, {"v1.32.0", 13}, {"v1.34.4", 13}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(cases); i++) {
        struct rendered r = {.x = fixture_new()};
        fixture_set(&r.x->facts.kubelet_version, cases[i].version);
        r.x->facts.has_ecr_credential_provider = true;
        fixture_set(&r.x->facts.ecr_credential_provider_dir, "/etc/eks/image-credential-provider");
        render_with(&r, "", NULL, &plain);
        nc_auto_value struct nc_value *v = json_of(&r, PROVIDER);
        const struct nc_value *providers = nc_value_get(v, "providers");
        const struct nc_value *images = nc_value_get(providers->items[0], "matchImages");
        assert_int_equal(images->n, cases[i].patterns);
        assert_string_equal(nc_value_string(images->items[11]), "public.ecr.aws");
        assert_string_equal(nc_value_get_string(providers->items[0], "name"),
                            "ecr-credential-provider");
        assert_non_null(strstr(text_of(&r, ENV), "--image-credential-provider-config=" PROVIDER));
        rendered_done(&r);
    }
    struct rendered none = {0};
    render_with(&none, "", NULL, &plain);
    assert_null(find(&none, PROVIDER));
    rendered_done(&none);
}

static void test_logind(void **state) {
    struct rendered r = {0}, enough = {.x = fixture_new()};

    (void)state;
    render_with(&r, "", "  shutdown:\n    gracePeriod: 1m0.5s\n    gracePeriodCriticalPods: 10s\n",
                &plain);
    assert_non_null(strstr(text_of(&r, LOGIND), "\n[Login]\nInhibitDelayMaxSec=61\n"));
    enough.x->facts.logind_inhibit_delay_usec = 3600000000;
    render_with(&enough, "", NULL, &plain);
    assert_absent(&enough, LOGIND);
    rendered_done(&r);
    rendered_done(&enough);
}

static void test_same_input_same_bytes(void **state) {
    static const char kubelet[] =
        "    config:\n      evictionSoft:\n        memory.available: 1Gi\n"
        "      evictionSoftGracePeriod:\n        memory.available: 1m\n"
        "    flags:\n    - --node-labels=b=2,a=1\n";
    struct rendered a = {0}, b = {0};

    (void)state;
    render_with(&a, kubelet, NULL, &plain);
    render_with(&b, kubelet, NULL, &plain);
    assert_int_equal(a.files.n, b.files.n);
    for (size_t i = 0; i < a.files.n; i++) {
        const struct nc_file *f = &a.files.files[i], *g = &b.files.files[i];
        assert_string_equal(f->path, g->path);
        assert_int_equal(f->n, g->n);
        assert_int_equal(f->mode, g->mode);
        assert_true(f->n == 0 || memcmp(f->data, g->data, f->n) == 0);
        assert_true(f->path[0] == '/');
    }
    rendered_done(&a);
    rendered_done(&b);
}

static void test_flag_of_two_lines(void **state) {
    struct fixture *x = fixture_new();
    struct nc_fileset files = NC_FILESET_INIT;
    nc_auto_free char *node = node_config("");
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    fixture_document(x, node);
    fixture_plan(x);
    nc_strv_add(&x->plan.user_flags, "--a=s3cret\nLD_PRELOAD=/x");
    assert_true(render(x, &plain, &files, &err) < 0);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_non_null(strstr(err.msg, "kubelet flag '--a' has a control character"));
    assert_int_equal(files.n, 0);
    fixture_free(x);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eks),
        cmocka_unit_test(test_eks_elsewhere),
        cmocka_unit_test(test_eks_in_a_domain),
        cmocka_unit_test(test_client_certificate),
        cmocka_unit_test(test_bootstrap_token),
        cmocka_unit_test(test_own_kubeconfig),
        cmocka_unit_test(test_own_kubeconfig_where_ours_would_be),
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_dropin),
        cmocka_unit_test(test_credential_provider),
        cmocka_unit_test(test_logind),
        cmocka_unit_test(test_same_input_same_bytes),
        cmocka_unit_test(test_flag_of_two_lines),
    };

    return run_group(tests, NULL, NULL);
}
