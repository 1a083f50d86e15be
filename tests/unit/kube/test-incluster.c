/*
 * From inside a pod: where the API server is, and a token that is replaced while we run.
 */
#include "groups.h"
#include "kube-script.h"

#include <errno.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/kube-control.h"

#define PEM "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

static char folder[64];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/nc-incluster-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void put(const char *name, const char *text) {
    nc_auto_free char *path = nc_path_below(folder, name);

    assert_true(nc_file_write(path, text, strlen(text), 0600, NULL) >= 0);
}

static void drop(const char *name) {
    nc_auto_free char *path = nc_path_below(folder, name);

    (void)unlink(path);
}

static int tear_down(void **state) {
    (void)state;
    drop("token");
    drop("ca.crt");
    return rmdir(folder);
}

static const struct {
    const char *host, *port;
    const char *server; /* NULL: refused */
} rows[] = {
    {"10.100.0.1", "443", "https://10.100.0.1:443"},
    {"fd00::1", "443", "https://[fd00::1]:443"},
    {"kubernetes.default", "6443", "https://kubernetes.default:6443"},
    {NULL, "443", NULL},
    {"", "443", NULL},
    {"10.100.0.1", NULL, NULL},
    {"10.100.0.1", "", NULL},
    {"10.100.0.1", "0", NULL},
    {"10.100.0.1", "65536", NULL},
    {"10.100.0.1", "443/x", NULL},
    {"evil@10.100.0.1", "443", NULL},
    {"10.100.0.1/x", "443", NULL},
};

static void test_address(void **state) {
    (void)state;
    put("ca.crt", PEM);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
        struct nc_err err = NC_ERR_INIT;
        const int r = nc_incluster_config(rows[i].host, rows[i].port, folder, &k, &err);
        print_message("# row %zu\n", i);
        assert_int_equal(r == 0, rows[i].server != NULL);
        if (r < 0) {
            assert_int_equal(err.class, NC_ERR_CONFIG);
            assert_null(k.server);
            continue;
        }
        assert_string_equal(k.server, rows[i].server);
        assert_string_equal(k.ca_pem, PEM);
        assert_true(nc_starts_with(k.token_file, folder) && nc_ends_with(k.token_file, "/token"));
        assert_null(k.token);
        nc_kubeconfig_done(&k);
    }
}

/* Without roots nobody is trusted: that is no reason to trust the system's. */
static void test_roots(void **state) {
    struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    drop("ca.crt");
    assert_true(nc_incluster_config("10.0.0.1", "443", folder, &k, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
    put("ca.crt", "");
    assert_true(nc_incluster_config("10.0.0.1", "443", folder, &k, &err) < 0);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_null(k.server);
}

static void assert_token(struct nc_token_file *t, bool refuse, const char *wanted) {
    nc_cleanup(nc_secret_freep) char *token = NULL;
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_token_file_give(t, refuse, &token, &err);

    assert_int_equal(r == 0, wanted != NULL);
    if (wanted)
        assert_string_equal(token, wanted);
    else
        assert_true(err.class != NC_ERR_NONE);
}

static void test_token(void **state) {
    nc_auto_free char *path = nc_path_below(folder, "token");
    struct nc_token_file *t = nc_token_file_new(path);

    (void)state;
    drop("token");
    assert_token(t, false, NULL);
    put("token", "first\n");
    assert_token(t, false, "first");
    put("token", "other");
    assert_token(t, false, "other");
    put("token", " \n"); /* being written */
    assert_token(t, false, "other");
    assert_token(t, true, NULL);
    drop("token");
    assert_token(t, false, "other");
    assert_token(t, true, NULL);
    put("token", "third");
    assert_token(t, true, "third");
    assert_null(nc_token_file_free(t));
}

/* As the requests see it: a token that was refused is read again, and the new one is sent. */
static void test_on_the_wire(void **state) {
    nc_auto_free char *path = nc_path_below(folder, "token");
    struct nc_token_file *t = nc_token_file_new(path);
    const struct nc_kube_call call = {
        .what = "get node", .method = "GET", .path = "/api/v1/nodes/a", .timeout_usec = 1000000};
    struct nc_kube *k;

    (void)state;
    put("token", "first\n");
    k = SCRIPT(nc_token_file_give, t,
               {.header = "Authorization: Bearer first", .answer = "{'kind':'Node'}"});
    assert_int_equal(nc_kube_perform(k, &call, NULL, NULL, NULL), 0);
    script_end(k);
    put("token", "second\n");
    k = SCRIPT(nc_token_file_give, t,
               {.header = "Authorization: Bearer second", .answer = "{'kind':'Node'}"});
    assert_int_equal(nc_kube_perform(k, &call, NULL, NULL, NULL), 0);
    script_end(k);
    nc_token_file_free(t);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_on_the_wire),
    };

    return run_group(tests, set_up, tear_down);
}
