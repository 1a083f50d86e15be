/*
 * Labels of the node.
 *
 * kubelet exits where it is given a label of the kubernetes.io or k8s.io domains that is not in its
 * own list, and the API server's NodeRestriction draws the same line; Karpenter adds such labels
 * itself once the node has registered. So they are held back here instead of stopping the
 * bootstrap. A label that is malformed is a different thing: an error.
 */
#include "shapes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "nc/names.h"
#include "nc/str.h"

/* k8s.io/kubelet/pkg/apis/well_known_labels.go */
static const char kubelet_labels[] = NC_LABEL_HOSTNAME
    "\0" NC_LABEL_ZONE "\0" NC_LABEL_REGION "\0" NC_LABEL_INSTANCE_TYPE "\0" NC_LABEL_OS
    "\0" NC_LABEL_ARCH "\0"
    "failure-domain.beta.kubernetes.io/zone\0failure-domain.beta.kubernetes.io/region\0"
    "beta.kubernetes.io/instance-type\0beta.kubernetes.io/os\0beta.kubernetes.io/arch\0";

static bool in_domain(const char *name, size_t n, const char *domain) {
    size_t d = strlen(domain);

    if (n < d || memcmp(name + n - d, domain, d) != 0)
        return false;
    return n == d || name[n - d - 1] == '.';
}

const char *nc_label_refusal(const char *key) {
    const char *slash = strchr(key, '/');
    size_t n = slash ? (size_t)(slash - key) : 0;

    /* Only Karpenter may say these; a node that reports it itself is never registered or never
     * watched. */
    if (nc_streq(key, NC_LABEL_REGISTERED) || nc_streq(key, NC_LABEL_INITIALIZED))
        return "only Karpenter sets it";
    if (!in_domain(key, n, "kubernetes.io") && !in_domain(key, n, "k8s.io"))
        return NULL;
    if (in_domain(key, n, "kubelet.kubernetes.io") || in_domain(key, n, "node.kubernetes.io"))
        return NULL;
    return nc_is_one_of(key, kubelet_labels) ? NULL : "kubelet refuses labels of this domain";
}

/* ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9], at most 63 characters */
static bool is_name(const char *s, size_t n) {
    if (n == 0 || n > 63 || !isalnum((unsigned char)s[0]) || !isalnum((unsigned char)s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("-_.", s[i]))
            return false;
    return true;
}

bool nc_is_dns_subdomain(const char *s, size_t n) {
    if (n == 0 || n > 253)
        return false;
    for (size_t i = 0; i < n; i++) {
        bool edge = i == 0 || i + 1 == n || s[i - 1] == '.' || s[i + 1] == '.';
        if (islower((unsigned char)s[i]) || isdigit((unsigned char)s[i]))
            continue;
        if ((s[i] != '-' && s[i] != '.') || edge)
            return false;
    }
    return true;
}

static bool is_qualified_name(const char *key) {
    const char *slash = strchr(key, '/');

    if (!slash)
        return is_name(key, strlen(key));
    return nc_is_dns_subdomain(key, (size_t)(slash - key)) && is_name(slash + 1, strlen(slash + 1));
}

bool nc_label_is_valid(const char *key, const char *value, char *why, size_t size) {
    nc_auto_free char *quoted = NULL;

    if (!is_qualified_name(key)) {
        quoted = nc_quote_string(key);
        snprintf(why, size,
                 "invalid label key: %s ([domain/]name of letters, digits, '-', '_', '.')", quoted);
        return false;
    }
    if (*value && !is_name(value, strlen(value))) {
        quoted = nc_quote_string(value);
        snprintf(why, size, "invalid label value: %s (at most 63 letters, digits, '-', '_', '.')",
                 quoted);
        return false;
    }
    return true;
}

char *nc_labels_set(struct nc_label **labels, size_t *n, const char *key, const char *value,
                    struct nc_mark mark) {
    struct nc_label *l = NULL;

    for (size_t i = 0; i < *n && !l; i++)
        if (nc_streq((*labels)[i].key, key))
            l = &(*labels)[i];
    if (l) {
        char *old = l->value;
        l->value = nc_strdup(value);
        l->mark = mark;
        return old;
    }
    l = nc_append(labels, n);
    *l = (struct nc_label){nc_strdup(key), nc_strdup(value), mark};
    return NULL;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const struct nc_label *)a)->key, ((const struct nc_label *)b)->key);
}

void nc_labels_sort(struct nc_label *labels, size_t n) {
    if (n > 1)
        qsort(labels, n, sizeof(*labels), by_key);
}

void nc_labels_free(struct nc_label *labels, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(labels[i].key);
        free(labels[i].value);
    }
    free(labels);
}

/* Only what is left at the end is checked: kubelet checks the map that it has made of its flag.
 */
static int check_labels(const struct nc_label *labels, size_t n, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf all = NC_BUF_INIT;
    char why[NC_LABEL_WHY_BYTES];

    for (size_t i = 0; i < n; i++)
        if (!nc_label_is_valid(labels[i].key, labels[i].value, why, sizeof(why)))
            (void)nc_buf_printf(&all, "%s%s", all.len > 0 ? "; " : "", why);
    return all.len > 0 ? nc_err_config(err, "--node-labels: %s", all.data) : 0;
}

int nc_labels_parse(const char *text, struct nc_mark mark, struct nc_label **ret, size_t *ret_n,
                    struct nc_err *err) {
    nc_auto_free char *copy = nc_strdup(text);
    struct nc_label *labels = NULL;
    size_t n = 0;
    int r;

    for (char *rest = copy, *item; (item = strsep(&rest, ","));) {
        char none[] = "", *value;
        if (!*item)
            continue;
        value = strchr(item, '=');
        if (value)
            *value++ = '\0';
        else
            value = none;
        free(nc_labels_set(&labels, &n, nc_trim(item), nc_trim(value), mark));
    }
    r = check_labels(labels, n, err);
    if (r < 0) {
        nc_labels_free(labels, n);
        return r;
    }
    *ret = labels;
    *ret_n = n;
    return 0;
}
