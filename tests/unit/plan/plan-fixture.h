/*
 * What the tests of the plan share: an m5.large in us-west-2a with kubelet 1.34, documents as text,
 * a plan at the end.
 *
 * Everything goes through the public doors (nc_documents_add, nc_config_build, nc_plan_make). A
 * test that needs a configuration that no document can give fills `config` itself and sets
 * has_config.
 */
#ifndef NC_PLAN_FIXTURE_H
#define NC_PLAN_FIXTURE_H

#include "base-test.h"

#include "nc/plan.h"
#include "nc/str.h"

struct fixture {
    struct nc_facts facts;
    struct nc_documents docs;
    struct nc_config config;
    bool has_config;
    const char *types;         /* text of a table file, NULL = none */
    const char *gates, *flags; /* tables of what kubelets know, NULL = none */
    const char *keys;          /* of what containerds know */
    const struct nc_claim *claim;
    struct nc_plan plan;
};

static inline void fixture_set(char **field, const char *text) {
    free(*field);
    *field = nc_strdup(text);
}

static inline void fixture_type(struct fixture *x, const char *type, int64_t cpus) {
    fixture_set(&x->facts.instance_type, type);
    x->facts.cpus = cpus;
}

static inline struct fixture *fixture_new(void) {
    struct fixture *x = nc_calloc(1, sizeof(*x));
    struct nc_facts *f = &x->facts;

    fixture_type(x, "m5.large", 2);
    fixture_set(&f->instance_id, "i-0123456789abcdef0");
    fixture_set(&f->region, "us-west-2");
    fixture_set(&f->az, "us-west-2a");
    fixture_set(&f->az_id, "usw2-az1");
    fixture_set(&f->architecture, "x86_64");
    fixture_set(&f->local_ipv4, "10.0.0.1");
    fixture_set(&f->local_hostname, "ip-10-0-0-1.us-west-2.compute.internal");
    fixture_set(&f->kubelet_version, "v1.34.4");
    f->purchase_option = NC_PURCHASE_ON_DEMAND;
    f->mem_total_bytes = (int64_t)8 << 30;
    f->root_fs_bytes = (int64_t)20 << 30;
    return x;
}

static inline void fixture_free(struct fixture *x) {
    nc_plan_done(&x->plan);
    nc_config_done(&x->config);
    nc_documents_done(&x->docs);
    nc_facts_done(&x->facts);
    free(x);
}

static inline void fixture_document(struct fixture *x, const char *text) {
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *name = nc_asprintf("document %zu", x->docs.n_docs + 1);

    if (nc_documents_add(&x->docs, name, nc_text(text), &err) < 0)
        fail_msg("%s: %s", text, err.msg);
}

/* 0, or the failure of whichever step refused. */
static inline int fixture_try(struct fixture *x, struct nc_err *err) {
    int r = 0;

    nc_plan_done(&x->plan);
    if (!x->has_config) {
        nc_config_done(&x->config);
        r = nc_config_build(&x->docs, &x->config, err);
    }
    if (r < 0)
        return r;
    const struct nc_plan_input in = {.facts = &x->facts,
                                     .config = &x->config,
                                     .docs = x->has_config ? NULL : &x->docs,
                                     .claim = x->claim,
                                     .types = x->types,
                                     .n_types = x->types ? strlen(x->types) : 0,
                                     .gates = x->gates,
                                     .containerd_keys = x->keys,
                                     .flags = x->flags};
    return nc_plan_make(&in, &x->plan, err);
}

static inline void fixture_plan(struct fixture *x) {
    struct nc_err err = NC_ERR_INIT;

    if (fixture_try(x, &err) < 0)
        fail_msg("refused: %s", err.msg);
}

static inline void fixture_refused(struct fixture *x, enum nc_err_class class, const char *part) {
    struct nc_err err = NC_ERR_INIT;

    if (fixture_try(x, &err) == 0)
        fail_msg("accepted, expected: %s", part);
    if (err.class != class || !strstr(err.msg, part))
        fail_msg("class %d: \"%s\", expected \"%s\"", (int)err.class, err.msg, part);
}

static const char cluster[] =
    "  cluster:\n"
    "    name: my-cluster\n"
    "    apiServerEndpoint: https://example.com\n"
    "    certificateAuthority: "
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=\n"
    "    cidr: 10.100.0.0/16\n";

/* A NodeConfig with that cluster and the given kubelet block. */
static inline char *node_config(const char *kubelet) {
    return nc_asprintf("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n%s%s%s",
                       cluster, *kubelet ? "  kubelet:\n" : "", kubelet);
}

/* That NodeConfig, and documents beside it; NULL ends them. */
static inline struct fixture *fixture_with(const char *const *documents, const char *kubelet) {
    struct fixture *x = fixture_new();
    nc_auto_free char *node = node_config(kubelet);

    fixture_document(x, node);
    for (size_t i = 0; documents[i]; i++)
        fixture_document(x, documents[i]);
    return x;
}

/* "none" where `explain` has no such field. */
static inline const char *fixture_value(const struct nc_plan *p, const char *field) {
    for (size_t i = 0; i < p->n_origins; i++)
        if (nc_streq(p->origins[i].field, field))
            return p->origins[i].value;
    return "none";
}

#endif
