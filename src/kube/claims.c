/*
 * Finding our own NodeClaim: before registration by providerID, after it by the Node's
 * ownerReference.
 *
 * Before registration nothing names the claim but its status.providerID, for which the API server
 * has no selector: a Table of the rows that carry our labels (about 200 bytes a claim) is searched
 * by its ID column, then the one match is fetched. Where the Table has no such column (old CRDs),
 * the objects themselves are listed page by page. Access is optional: the caller goes on without on
 * 403 and 404.
 */
#include <errno.h>
#include <string.h>

#include "nc/clock.h"
#include "nc/kube.h"
#include "nc/str.h"

#include "wire.h"

#define GROUP "karpenter.sh"
#define TABLE "application/json;as=Table;g=meta.k8s.io;v=v1"
#define MAX_LIST_BYTES ((size_t)8 << 20)
#define PAGE_ITEMS 200
#define MAX_PAGES 50

/* One search: what it asks, and the time that it may take. */
struct search {
    struct nc_kube *kube;
    const char *version;
    const char *provider_id;
    char *selector; /* "labelSelector=…" or "" */
    uint64_t started_usec, timeout_usec;
    struct nc_kube_status *status;
    struct nc_err *err;
};

/* A label that no selector can carry is left out: the search becomes wider, not wrong. */
static char *label_selector(const struct nc_label *labels, size_t n) {
    struct nc_buf b = NC_BUF_INIT;

    for (size_t i = 0; i < n; i++) {
        const char *key = labels[i].key;
        const char *value = labels[i].value ? labels[i].value : "";
        if (!nc_is_alnum_or(key, "-_./", SIZE_MAX)
            || (*value && !nc_is_alnum_or(value, "-_.", SIZE_MAX)))
            continue;
        nc_buf_printf(&b, "%s%s=%s", b.len ? "," : "", key, value);
    }
    nc_auto_free char *text = nc_buf_steal(&b);
    nc_auto_free char *escaped = nc_kube_escape(text);
    return nc_asprintf("%s%s", *escaped ? "labelSelector=" : "", escaped);
}

static int get(struct search *s, bool is_list, const char *path, const char *accept,
               struct nc_value **ret) {
    const struct nc_kube_call call = {.what = is_list ? "list nodeclaims" : "get nodeclaim",
                                      .method = "GET",
                                      .path = path,
                                      .accept = accept,
                                      .timeout_usec =
                                          nc_kube_time_left(s->started_usec, s->timeout_usec),
                                      .max_bytes = is_list ? MAX_LIST_BYTES : 0};

    return nc_kube_perform(s->kube, &call, ret, s->status, s->err);
}

/* Fetches a claim by name. Returns 1, or negative. */
static int get_claim(struct search *s, const char *name, struct nc_claim *ret) {
    nc_auto_free char *escaped = nc_kube_escape(name);
    nc_auto_free char *path = nc_asprintf("/apis/" GROUP "/%s/nodeclaims/%s", s->version, escaped);
    nc_auto_value struct nc_value *object = NULL;
    struct nc_claim claim = {0};
    int r = get(s, false, path, NULL, &object);

    if (r == 0 && !object)
        r = nc_err_protocol(s->err, "get nodeclaim: the answer is empty");
    if (r == 0)
        r = nc_claim_parse(object, &claim, s->err);
    if (r == 0 && !nc_streq(claim.name, name)) {
        nc_claim_done(&claim);
        r = nc_err_protocol(
            s->err, "get nodeclaim: the API server answered with another object than requested");
    }
    if (r < 0)
        return r;
    *ret = claim;
    return 1;
}

/* Same, and it must still be ours. Returns 0 where it is not. */
static int get_own_claim(struct search *s, const char *name, struct nc_claim *ret) {
    struct nc_claim claim = {0};
    const int r = get_claim(s, name, &claim);

    if (r < 0)
        return r;
    if (!nc_streq(claim.provider_id, s->provider_id)) {
        nc_claim_done(&claim);
        return 0;
    }
    *ret = claim;
    return 1;
}

/* The index of a Table's column, or -1. */
static ssize_t column(const struct nc_value *table, const char *name) {
    const struct nc_value *list = nc_value_get(table, "columnDefinitions"), *item;

    for (size_t i = 0; (item = nc_value_item(list, i)); i++)
        if (nc_value_says(item, "name", name))
            return (ssize_t)i;
    return -1;
}

static const char *cell(const struct nc_value *row, ssize_t i) {
    return nc_value_string(nc_value_item(nc_value_get(row, "cells"), (size_t)i));
}

/* The name in the row whose ID is ours; NULL where there is none. Borrowed. */
static const char *find_row(const struct nc_value *table, ssize_t id, ssize_t name,
                            const char *provider_id) {
    const struct nc_value *rows = nc_value_get(table, "rows"), *row;

    for (size_t i = 0; (row = nc_value_item(rows, i)); i++)
        if (nc_streq(cell(row, id), provider_id))
            return cell(row, name);
    return NULL;
}

/* Returns 2 where the answer is no Table with the columns that are needed, else as nc_claim_find.
 */
static int find_in_table(struct search *s, struct nc_claim *ret) {
    nc_auto_free char *path =
        nc_asprintf("/apis/" GROUP "/%s/nodeclaims?%s%sincludeObject=None&resourceVersion=0",
                    s->version, s->selector, *s->selector ? "&" : "");
    nc_auto_value struct nc_value *table = NULL;
    const int r = get(s, true, path, TABLE ",application/json", &table);
    ssize_t id;
    ssize_t name;

    if (r < 0)
        return r;
    id = column(table, "ID");
    name = column(table, "Name");
    if (!nc_value_says(table, "kind", "Table") || id < 0 || name < 0)
        return 2;
    const char *found = find_row(table, id, name, s->provider_id);
    return found ? get_own_claim(s, found, ret) : 0;
}

static int find_in_page(struct search *s, const struct nc_value *list, struct nc_claim *ret) {
    const struct nc_value *items = nc_value_get(list, "items"), *item;

    for (size_t i = 0; (item = nc_value_item(items, i)); i++) {
        if (!nc_streq(nc_value_path_string(item, "status.providerID"), s->provider_id))
            continue;
        const int r = nc_claim_parse(item, ret, s->err);
        return r < 0 ? r : 1;
    }
    return 0;
}

static int find_in_list(struct search *s, struct nc_claim *ret) {
    nc_auto_free char *next = nc_strdup("");
    int r = 0;

    for (unsigned page = 0; page < MAX_PAGES; page++) {
        nc_auto_free char *path =
            nc_asprintf("/apis/" GROUP "/%s/nodeclaims?%s%slimit=%d%s%s", s->version, s->selector,
                        *s->selector ? "&" : "", PAGE_ITEMS, *next ? "&continue=" : "", next);
        nc_auto_value struct nc_value *list = NULL;
        r = get(s, true, path, NULL, &list);
        if (r == 0)
            r = find_in_page(s, list, ret);
        const char *more = nc_value_path_string(list, "metadata.continue");
        if (r != 0 || !more || !*more)
            return r;
        free(next);
        next = nc_kube_escape(more);
    }
    return nc_err_set(s->err, NC_ERR_PROTOCOL, EFBIG, "list nodeclaims: no end after %d pages",
                      MAX_PAGES);
}

int nc_claim_find(struct nc_kube *k, const struct nc_claim_search *search, struct nc_claim *ret,
                  struct nc_kube_status *ret_status, struct nc_err *err) {
    static const char versions[][8] = {"v1", "v1beta1"};
    nc_auto_free char *selector = label_selector(search->labels, search->n_labels);
    struct nc_kube_status status = {0};
    struct nc_err failure = NC_ERR_INIT;
    struct search s = {.kube = k,
                       .provider_id = search->provider_id,
                       .selector = selector,
                       .started_usec = nc_mono_usec(),
                       .timeout_usec = search->timeout_usec,
                       .status = &status,
                       .err = &failure};
    int r = -ENOENT;

    for (size_t i = 0; i < NC_ARRAY_SIZE(versions); i++) {
        s.version = versions[i];
        r = find_in_table(&s, ret);
        if (r == 2)
            r = find_in_list(&s, ret);
        if (r >= 0 || status.http != 404)
            break;
    }
    if (ret_status)
        *ret_status = status;
    if (r < 0 && err)
        *err = failure;
    return r;
}

/* "karpenter.sh/v1" -> "v1"; NULL where it is another group's or no version. */
static const char *claim_version(const char *api_version) {
    const char *v = api_version && nc_starts_with(api_version, GROUP "/")
                        ? api_version + strlen(GROUP "/")
                        : NULL;

    return v && *v == 'v' && nc_is_alnum_or(v, "", 16) ? v : NULL;
}

static const struct nc_value *claim_reference(const struct nc_value *node) {
    const struct nc_value *list = nc_value_path(node, "metadata.ownerReferences"), *ref;

    for (size_t i = 0; (ref = nc_value_item(list, i)); i++) {
        const char *name = nc_value_get_string(ref, "name");
        if (nc_value_says(ref, "kind", "NodeClaim")
            && claim_version(nc_value_get_string(ref, "apiVersion")) && name && *name)
            return ref;
    }
    return NULL;
}

int nc_claim_of_node(struct nc_kube *k, const struct nc_value *node, uint64_t timeout_usec,
                     struct nc_claim *ret, struct nc_err *err) {
    const struct nc_value *ref = claim_reference(node);
    struct search s = {.kube = k,
                       .version = claim_version(nc_value_get_string(ref, "apiVersion")),
                       .started_usec = nc_mono_usec(),
                       .timeout_usec = timeout_usec,
                       .err = err};
    struct nc_claim claim = {0};
    int r;

    if (!ref)
        return 0;
    r = get_claim(&s, nc_value_get_string(ref, "name"), &claim);
    if (r < 0)
        return r;
    if (!nc_streq(claim.uid, nc_value_get_string(ref, "uid"))) {
        nc_claim_done(&claim);
        return nc_err_set(err, NC_ERR_PROTOCOL, ESTALE,
                          "get nodeclaim: its uid is not the one that the Node's owner has: "
                          "another claim has the name");
    }
    *ret = claim;
    return 1;
}
