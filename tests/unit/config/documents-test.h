/*
 * What the tests of documents and facts share.
 */
#ifndef NC_DOCUMENTS_TEST_H
#define NC_DOCUMENTS_TEST_H

#include "groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/config.h"
#include "nc/str.h"

/* base64 of a PEM file of one certificate (framing only: core does not read certificates). */
#define CA "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
#define CA_PEM "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

#define NODE_CONFIG "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
#define AGENT_CONFIG "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\n"
#define CLUSTER                                                                                    \
    "  cluster:\n    name: blue\n    apiServerEndpoint: https://api.example.com\n    "             \
    "certificateAuthority: " CA "\n    cidr: 10.100.0.0/16\n"
#define CONFIG(body) NODE_CONFIG "spec: {" body "}\n"
#define AGENT(spec) AGENT_CONFIG "spec: {" spec "}\n"
#define GOOD NODE_CONFIG "spec:\n" CLUSTER

#define NODE_CLASS(name, body)                                                                     \
    "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: " name                 \
    "}\nspec: {" body "}\n"
#define NODE_CLAIM(body) "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c" body
#define CLASS_REF "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}"
#define ACCESS(auth)                                                                               \
    AGENT("cluster: {apiServerEndpoint: 'https://a', certificateAuthority: " CA                    \
          ", cidr: 10.0.0.0/16, auth: {" auth "}}")

/* Adds a text as a document of source "d", first line 1. */
static inline void add(struct nc_documents *d, const char *text) {
    struct nc_err err = NC_ERR_INIT;

    if (nc_documents_add(d, "d", nc_text(text), &err) != 0)
        fail_msg("nc_documents_add: %s", err.msg);
}

/* All diagnostics as printed. Owned. */
static inline char *printed(const struct nc_documents *d) {
    struct nc_buf b = NC_BUF_INIT;

    nc_documents_print(d, true, &b);
    return nc_buf_steal(&b);
}

/* 0 if the diagnostics of one document are exactly these lines, 1 (and what differs is printed) if
 * not: rows of a table are all checked before a test fails. */
static inline int differs(const char *name, const char *document, const char *expected) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    nc_auto_free char *text = NULL;

    add(&d, document);
    text = printed(&d);
    if (strcmp(text, expected) == 0)
        return 0;
    print_error("%s:\n--- expected\n%s--- printed\n%s", name, expected, text);
    return 1;
}

/* Builds from documents, each a source of its own: "d1", "d2", … */
static inline int build(const char *const *documents, struct nc_config *ret, struct nc_err *err) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;

    for (size_t i = 0; documents[i]; i++) {
        nc_auto_free char *name = nc_asprintf("d%zu", i + 1);

        assert_int_equal(nc_documents_add(&d, name, nc_text(documents[i]), err), 0);
    }
    return nc_config_build(&d, ret, err);
}

#endif
