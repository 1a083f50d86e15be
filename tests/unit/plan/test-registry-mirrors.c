/*
 * registry.mirrors: what becomes a hosts.toml, and what cannot.
 */
#include "groups.h"
#include "plan-fixture.h"

#define MIRRORS(toml)                                                                              \
    "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd:\n    config: |\n"   \
    "      [plugins.\"io.containerd.cri.v1.images\".registry]\n" toml
#define MIRROR "      [plugins.\"io.containerd.cri.v1.images\".registry.mirrors."

static void test_registry_mirrors(void **state) {
    static const struct {
        const char *document, *words;
    } rows[] = {
        {MIRRORS(MIRROR "\"a.example.com\"]\n      endpoint = [\"https://b\"]\n"), NULL},
        {MIRRORS(MIRROR "\"a.example.com\"]\n      endpoint = []\n"), NULL},
        {MIRRORS(MIRROR "\"../../x\"]\n      endpoint = [\"https://b\"]\n"),
         ":7:63: spec.containerd.config: registry.mirrors of '../../x': is no name of a registry"},
        {MIRRORS(MIRROR "\"a\"]\n      endpoint = \"https://b\"\n"),
         "registry.mirrors of 'a': endpoint must be a list of URLs"},
        {MIRRORS(MIRROR "\"a\"]\n      endpoint = [\"b\"]\n"),
         "registry.mirrors of 'a': an endpoint must be a URL"},
        {MIRRORS("      config_path = \"/etc/mine\"\n" MIRROR
                 "\"a\"]\n      endpoint = [\"https://b\"]\n"),
         "registry.mirrors cannot be set beside registry.config_path"},
        {MIRRORS(MIRROR "\"*\"]\n      endpoint = [\"https://b\"]\n" MIRROR
                        "\"_default\"]\n      endpoint = [\"https://c\"]\n"),
         "registry.mirrors of '_default': its file is written already"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *const documents[] = {rows[i].document, NULL};
        struct fixture *x = fixture_with(documents, "");

        print_message("# %s\n", rows[i].document);
        fixture_set(&x->facts.containerd_version, "2.1.4");
        if (rows[i].words) {
            fixture_refused(x, NC_ERR_CONFIG, rows[i].words);
        } else {
            fixture_plan(x);
            assert_int_equal(x->plan.containerd.n_mirrors, 1);
            assert_string_equal(x->plan.containerd.mirrors[0].path,
                                "/etc/containerd/certs.d/a.example.com/hosts.toml");
        }
        fixture_free(x);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry_mirrors),
    };

    return run_group(tests, NULL, NULL);
}
