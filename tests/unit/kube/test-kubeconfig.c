/*
 * kubeconfig: every user that is supported, everything that is refused and where.
 */
#include <stdio.h>

#include "groups.h"
#include "nc/kubeconfig.h"
#include "nc/mem.h"

#define PEM64                                                                                      \
    "LS0tLS1CRUdJTiBYLS0tLS0KYWJjCi0tLS0tRU5EIFgtLS0tLQo=" /* -----BEGIN X-----\nabc\n-----END     \
                                                              X-----\n */
#define PEM "-----BEGIN X-----\nabc\n-----END X-----\n"
#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
#define CONTEXT                                                                                    \
    "contexts:\n- name: other\n  context: {cluster: x, user: y}\n- name: here\n  context: "        \
    "{cluster: c, user: u}\n"
#define CLUSTER "clusters:\n- name: c\n  cluster: {server: 'https://api.test:6443/'}\n"
#define USERS(fields) "users:\n- name: u\n  user: " fields "\n"

static int parse(const char *text, struct nc_kubeconfig *k, struct nc_err *err) {
    return nc_kubeconfig_parse(text, strlen(text), k, err);
}

static void test_eks(void **state) {
    struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    if (parse(HEAD CONTEXT "clusters:\n- name: c\n  cluster:\n    certificate-authority: "
                           "/etc/kubernetes/pki/ca.crt\n    server: https://api.test\n"
                           "    tls-server-name: kubernetes\n"
                           "users:\n- name: u\n  user:\n    exec:\n      apiVersion: "
                           "client.authentication.k8s.io/v1beta1\n"
                           "      command: /usr/sbin/nodeclaimd\n      args: [token, --cluster, "
                           "mine]\n      env:\n      - name: A\n        value: b=c\n"
                           "      interactiveMode: Never\n",
              &k, &err)
        < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(k.server, "https://api.test");
    assert_string_equal(k.ca_file, "/etc/kubernetes/pki/ca.crt");
    assert_null(k.ca_pem);
    assert_string_equal(k.tls_server_name, "kubernetes");
    assert_string_equal(k.exec_command, "/usr/sbin/nodeclaimd");
    assert_int_equal(k.exec_args.n, 3);
    assert_string_equal(k.exec_args.v[2], "mine");
    assert_int_equal(k.exec_env.n, 1);
    assert_string_equal(k.exec_env.v[0], "A=b=c");
    assert_null(k.token);
    nc_kubeconfig_done(&k);
    nc_kubeconfig_done(&k); /* twice is harmless */
}

static void test_users(void **state) {
    struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(
        parse(HEAD CONTEXT CLUSTER USERS("{client-certificate: /c.pem, client-key: /k.pem}"), &k,
              &err),
        0);
    assert_string_equal(k.server, "https://api.test:6443");
    assert_string_equal(k.cert_file, "/c.pem");
    assert_string_equal(k.key_file, "/k.pem");
    assert_null(k.ca_file);
    nc_kubeconfig_done(&k);
    assert_int_equal(
        parse(HEAD CONTEXT CLUSTER USERS("{client-certificate-data: " PEM64
                                         ", client-key-data: " PEM64 ", client-key: /ignored}"),
              &k, &err),
        0);
    assert_string_equal(k.cert_pem, PEM);
    assert_string_equal(k.key_pem, PEM);
    assert_null(k.key_file);
    nc_kubeconfig_done(&k);
    assert_int_equal(parse(HEAD CONTEXT CLUSTER USERS("{token: secret}"), &k, &err), 0);
    assert_string_equal(k.token, "secret");
    nc_kubeconfig_done(&k);
    assert_int_equal(parse(HEAD CONTEXT CLUSTER USERS("{token: secret, tokenFile: /t}"), &k, &err),
                     0);
    assert_null(k.token); /* the file wins, as in client-go */
    assert_string_equal(k.token_file, "/t");
    nc_kubeconfig_done(&k);
    assert_int_equal(parse(HEAD CONTEXT CLUSTER USERS("{}"), &k, &err), 0); /* anonymous */
    nc_kubeconfig_done(&k);
}

static void test_json(void **state) {
    static const char text[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"x\",\"contexts\":[{"
        "\"name\":\"x\",\"context\":{\"cluster\":\"x\","
        "\"user\":\"x\"}}],\"clusters\":[{\"name\":\"x\",\"cluster\":{\"server\":\"https://"
        "[fd00::1]:443\",\"certificate-authority-data\":"
        "\"" PEM64 "\",\"certificate-authority\":\"/"
        "ignored\",\"insecure-skip-tls-verify\":false}}],\"users\":[{\"name\":\"x\","
        "\"user\":{\"exec\":null,\"token\":\"t\",\"username\":\"\"}}]}";
    struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(parse(text, &k, &err), 0);
    assert_string_equal(k.server, "https://[fd00::1]:443");
    assert_string_equal(k.ca_pem, PEM);
    assert_null(k.ca_file);
    nc_kubeconfig_done(&k);
}

#define EXEC "apiVersion: client.authentication.k8s.io/v1, command: x"
static const struct {
    const char *text, *expected;
} wrong[] = {
    {"", "one document, not 0"},
    {"{}\n---\n{}\n", "one document, not 2"},
    {"[]", "kubeconfig: apiVersion must be v1"},
    {"a: b: c", "line 1"},
    {"apiVersion: v1\nkind: Pod\n", "kind must be Config"},
    {"apiVersion: v2\nkind: Config\n", "apiVersion must be v1"},
    {"apiVersion: v1\nkind: Config\n", "current-context: is missing"},
    {"apiVersion: v1\nkind: Config\ncurrent-context: [x]\n",
     "line 3, column 18: current-context: must be a string"},
    {HEAD, "contexts: must be a list"},
    {HEAD "contexts: {}\n", "line 4, column 11: contexts: must be a list"},
    {HEAD "contexts: [{name: there}]\n", "contexts: has no entry named 'here'"},
    {HEAD "contexts: [{name: here}]\n", "contexts: the entry that is in use has no settings"},
    {HEAD "contexts: [{name: here, context: 5}]\n",
     "contexts: the entry that is in use has no settings"},
    {HEAD "contexts: [5, {name: here, context: {cluster: 5}}]\n",
     "context.cluster: must be a string"},
    {HEAD CONTEXT, "clusters: must be a list"},
    {HEAD CONTEXT "clusters: []\n", "clusters: has no entry named 'c'"},
    {HEAD CONTEXT "clusters: [{name: c, cluster: {}}]\n", "cluster.server: is missing"},
    {HEAD CONTEXT "clusters: [{name: c, cluster: {server: 5}}]\n",
     "cluster.server: must be a string"},
    {HEAD CONTEXT "clusters: [{name: c, cluster: {server: 'http://x'}}]\n",
     "cluster.server: must be https://HOST[:PORT]"},
    {HEAD CONTEXT "clusters: [{name: c, cluster: {server: 'https://'}}]\n",
     "cluster.server: must be https://HOST[:PORT]"},
    {HEAD CONTEXT "clusters: [{name: c, cluster: {server: 'https://x?y'}}]\n",
     "cluster.server: must be https://HOST[:PORT]"},
    {HEAD CONTEXT
     "clusters: [{name: c, cluster: {server: 'https://x', insecure-skip-tls-verify: true}}]\n",
     "insecure-skip-tls-verify: is refused"},
    {HEAD CONTEXT "clusters: [{name: c, cluster: {server: 'https://x', proxy-url: 'http://p'}}]\n",
     "proxy-url: is not supported"},
    {HEAD CONTEXT "clusters: [{name: c, cluster: {server: 'https://x', tls-server-name: []}}]\n",
     "tls-server-name: must be a string"},
    {HEAD CONTEXT
     "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority: ca.crt}}]\n",
     "certificate-authority: must be an absolute path"},
    {HEAD CONTEXT
     "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: '***'}}]\n",
     "must be PEM in base64"},
    {HEAD CONTEXT
     "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: 'AAAA'}}]\n",
     "must be PEM in base64"},
    {HEAD CONTEXT
     "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: 'YWJj'}}]\n",
     "must be PEM in base64"},
    {HEAD CONTEXT
     "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: '='}}]\n",
     "must be PEM in base64"},
    {HEAD CONTEXT
     "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: 7}}]\n",
     "must be a string"},
    {HEAD CONTEXT CLUSTER, "users: must be a list"},
    {HEAD CONTEXT CLUSTER "users: [{name: u, user: x}]\n",
     "users: the entry that is in use has no settings"},
    {HEAD CONTEXT CLUSTER USERS("{client-certificate: /c}"), "belong together"},
    {HEAD CONTEXT CLUSTER USERS("{client-key-data: " PEM64 "}"), "belong together"},
    {HEAD CONTEXT CLUSTER USERS("{client-key-data: " PEM64 ", client-certificate: /c}"),
     "both be inline or both be paths"},
    {HEAD CONTEXT CLUSTER USERS("{client-key: /k, client-certificate-data: " PEM64 "}"),
     "both be inline or both be paths"},
    {HEAD CONTEXT CLUSTER USERS("{client-key: k.pem, client-certificate: /c}"),
     "client-key: must be an absolute path"},
    {HEAD CONTEXT CLUSTER USERS("{username: a}"),
     "only client certificates, exec, token and tokenFile"},
    {HEAD CONTEXT CLUSTER USERS("{auth-provider: {name: gcp}}"), "only client certificates"},
    {HEAD CONTEXT CLUSTER USERS("{as: admin}"), "only client certificates"},
    {HEAD CONTEXT CLUSTER USERS("{tokenFile: t}"), "tokenFile: must be an absolute path"},
    {HEAD CONTEXT CLUSTER USERS("{token: 5}"), "token: must be a string"},
    {HEAD CONTEXT CLUSTER USERS("{exec: x}"), "user.exec: must be a map"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {}}"), "user.exec.command: is missing"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {command: x}}"), "user.exec.apiVersion: must be"},
    {HEAD CONTEXT CLUSTER USERS(
         "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}}"),
     "user.exec.apiVersion: must be"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {command: x, apiVersion: 1}}"),
     "user.exec.apiVersion: must be a string"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {" EXEC ", args: x}}"), "args: must be a list of strings"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {" EXEC ", args: [1]}}"),
     "args: must be a list of strings"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {" EXEC ", args: null, env: {}}}"),
     "env: must be a list of {name, value}"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {" EXEC ", env: [{name: a}]}}"),
     "env: must be a list of {name, value}"},
    {HEAD CONTEXT CLUSTER USERS("{exec: {" EXEC ", env: [{name: a=b, value: c}]}}"),
     "env: must be a list of {name, value}"},
};

static void test_wrong(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(wrong); i++) {
        struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu: %s\n", i, wrong[i].expected);
        assert_true(parse(wrong[i].text, &k, &err) < 0);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        if (!strstr(err.msg, wrong[i].expected))
            fail_msg("%s", err.msg);
        assert_null(k.server);
    }
}

/* What a plugin prints: a token that can stand in a header, or nothing; and never a secret in what
 * is said about it. */
static void test_exec_credential(void **state) {
    static const struct {
        const char *text, *expected; /* NULL: it is taken */
    } rows[] = {
        {"{'status':{'token':'k8s.S3CRET'}}", NULL},
        {"{'kind':'ExecCredential','status':{'token':'a','expirationTimestamp':null}}", NULL},
        {"{'status':{'token':'a','expirationTimestamp':'2026-01-02T03:04:05Z'}}", NULL},
        {"S3CRET", "JSON"},
        {"{'S3CRET':1,'S3CRET':1}", "a key twice"},
        {"{'kind':'Status','status':{'token':'S3CRET'}}", "of another kind"},
        {"{'status':{}}", "no status.token"},
        {"{'status':{'token':7}}", "no status.token"},
        {"{'status':{'token':''}}", "is empty"},
        {"{'status':{'token':'S3CRET\\r\\nX-Remote-User: root'}}", "no token has"},
        {"{'status':{'clientCertificateData':'S3CRET'}}", "a client certificate"},
        {"{'status':{'token':'S3CRET','expirationTimestamp':'soon'}}", "is not a time"},
        {"{'status':{'token':'S3CRET','expirationTimestamp':1}}", "is not a time"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text = nc_strdup(rows[i].text);
        struct nc_exec_credential c;
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu\n", i);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        const int r = nc_exec_credential_parse(text, strlen(text), &c, &err);
        assert_int_equal(r < 0, rows[i].expected != NULL);
        assert_int_equal(c.token == NULL, r < 0);
        if (r < 0 && (!strstr(err.msg, rows[i].expected) || strstr(err.msg, "S3CRET")))
            fail_msg("%s", err.msg);
        assert_int_equal(c.until_usec, i == 2 ? 1767323045000000 : 0);
        nc_exec_credential_done(&c);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eks),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_exec_credential),
    };

    return run_group(tests, NULL, NULL);
}
