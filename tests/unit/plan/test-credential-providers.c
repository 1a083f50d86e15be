/*
 * Providers of registry credentials: what kubelet would not start with is refused.
 */
#include "groups.h"
#include "plan-fixture.h"

#define AGENT(spec) "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {" spec "}\n"

#define PROVIDER(name, more)                                                                       \
    "{name: " name ", matchImages: [a.example.com], defaultCacheDuration: 1h, apiVersion: "        \
    "credentialprovider.kubelet.k8s.io/v1" more "}"
#define PROVIDERS(list) AGENT("kubelet: {imageCredentialProviders: [" list "]}")
#define TOKENS(keys)                                                                               \
    ", tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, "                       \
    "requireServiceAccount: false" keys "}"

static void test_credential_providers(void **state) {
    static const struct {
        const char *document, *kubelet, *words;
    } rows[] = {
        {PROVIDERS(PROVIDER("one", "")), "", NULL},
        {PROVIDERS(PROVIDER("one", TOKENS(""))), "", NULL},
        {PROVIDERS(PROVIDER("ecr-credential-provider", "")), "", NULL},
        {PROVIDERS(PROVIDER("one", "") ", " PROVIDER("one", "")), "",
         "imageCredentialProviders[1].name: stands here a second time"},
        {PROVIDERS("{name: a, matchImages: [], defaultCacheDuration: 1h, apiVersion: "
                   "credentialprovider.kubelet.k8s.io/v1}"),
         "", "imageCredentialProviders[0].matchImages: names no image"},
        {PROVIDERS(PROVIDER("a/b", "")), "", "must be the name of a program"},
        {PROVIDERS(PROVIDER("one", TOKENS(", requiredServiceAccountAnnotationKeys: [a]"))), "",
         "needs requireServiceAccount: true"},
        {PROVIDERS(PROVIDER("one", "")), "    flags: [--image-credential-provider-config=/x]\n",
         "kubelet's flag --image-credential-provider-config names another file"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *const documents[] = {rows[i].document, NULL};
        struct fixture *x = fixture_with(documents, rows[i].kubelet);

        print_message("# %s\n", rows[i].document);
        x->facts.has_ecr_credential_provider = true;
        fixture_set(&x->facts.ecr_credential_provider_dir, "/etc/eks/image-credential-provider");
        if (rows[i].words)
            fixture_refused(x, NC_ERR_CONFIG, rows[i].words);
        else
            fixture_plan(x);
        fixture_free(x);
    }
    const char *const documents[] = {rows[0].document, NULL};
    struct fixture *x = fixture_with(documents, "");
    fixture_refused(x, NC_ERR_CONFIG,
                    "from the folder of ecr-credential-provider, which this host");
    fixture_free(x);
    const char *const tokens[] = {rows[1].document, NULL};
    x = fixture_with(tokens, "");
    x->facts.has_ecr_credential_provider = true;
    fixture_set(&x->facts.ecr_credential_provider_dir, "/x");
    fixture_set(&x->facts.kubelet_version, "v1.33.1");
    fixture_refused(x, NC_ERR_CONFIG, "kubelet 1.34 is the first that has it");
    fixture_free(x);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credential_providers),
    };

    return run_group(tests, NULL, NULL);
}
