/*
 * Who gives kubelet the credentials of registries: the provider of ECR, and those of the
 * configuration. What kubelet would not start with is refused (pkg/credentialprovider/plugin).
 */
#include <errno.h>

#include "nc/str.h"
#include "planner.h"

#define FIELD "spec.kubelet.imageCredentialProviders"
#define FIRST_TOKEN_MINOR                                                                          \
    34 /* its gate is on from there, and the fields are those of the schema                        \
        */

static const char *wrong_tokens(const struct nc_planner *s, const struct nc_value *provider,
                                const struct nc_value *tokens) {
    const struct nc_value *keys = nc_value_get(tokens, "requiredServiceAccountAnnotationKeys"),
                          *needs = nc_value_get(tokens, "requireServiceAccount");

    if (s->plan.kubelet_minor < FIRST_TOKEN_MINOR)
        return "tokenAttributes: kubelet 1.34 is the first that has it";
    if (!nc_ends_with(nc_value_get_string(provider, "apiVersion"), "/v1"))
        return "tokenAttributes: goes with apiVersion credentialprovider.kubelet.k8s.io/v1 alone";
    return keys && keys->n > 0 && !needs->boolean
               ? "requiredServiceAccountAnnotationKeys: needs requireServiceAccount: true"
               : NULL;
}

static int check_providers(struct nc_planner *s, const struct nc_value *own) {
    for (size_t i = 0; i < own->n; i++) {
        const struct nc_value *v = own->items[i], *images = nc_value_get(v, "matchImages"),
                              *tokens = nc_value_get(v, "tokenAttributes");
        const char *wrong = images->n == 0 ? "matchImages: names no image"
                            : tokens       ? wrong_tokens(s, v, tokens)
                                           : NULL;

        for (size_t k = 0; k < i && !wrong; k++)
            if (nc_streq(nc_value_get_string(v, "name"),
                         nc_value_get_string(own->items[k], "name")))
                wrong = "name: stands here a second time";
        if (wrong)
            return nc_origin_error(s->err, s->docs, v, FIELD "[%zu].%s", i, wrong);
    }
    return 0;
}

static int plan_own(struct nc_planner *s, const struct nc_value *own) {
    const int r = check_providers(s, own);

    if (r < 0)
        return r;
    if (nc_flags_find(&s->flags, "image-credential-provider-config"))
        return nc_origin_unsupported(
            s->in, FIELD, "kubelet's flag --image-credential-provider-config names another file",
            &s->plan, s->err);
    if (!s->plan.credential_provider)
        return nc_origin_unsupported(
            s->in, FIELD,
            "kubelet runs them from the folder of ecr-credential-provider, "
            "which this host has not",
            &s->plan, s->err);
    return 0;
}

/* Without the provider no image is pulled from a private repository of ECR: somebody has to read
 * that. Where the image has the AMI's folder for it, the program was lost when the image was made,
 * and no node of it would run its pods; nodeadm fails there, too. */
int nc_plan_credential_providers(struct nc_planner *s) {
    const struct nc_facts *f = s->facts;
    const struct nc_value *own = nc_value_path(s->config->tree, FIELD);
    int r = 0;

    s->plan.credential_provider = f->has_ecr_credential_provider && f->ecr_credential_provider_dir;
    if (own)
        r = plan_own(s, own);
    if (r < 0 || s->plan.credential_provider
        || nc_flags_find(&s->flags, "image-credential-provider-config"))
        return r;
    if (f->is_ecr_folder_empty) {
        r = nc_err_set(s->err, NC_ERR_HOST, ENOENT, NC_NO_ECR_TEXT, " in " NC_ECR_FOLDER);
        nc_err_remedy(s->err, "install it in the image, or remove the folder where no image is "
                              "pulled from there; nodeclaimd preflight --image / checks it");
        return r;
    }
    if (s->config->auth != NC_AUTH_EKS)
        return 0;
    nc_strv_addf(&s->plan.warnings, NC_NO_ECR_TEXT, " on this host");
    s->plan.missing_credential_provider = s->plan.warnings.v[s->plan.warnings.n - 1];
    return 0;
}
