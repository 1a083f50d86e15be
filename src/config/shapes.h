/*
 * Shapes: does a piece of text look like the thing that it claims to be?
 *
 * Predicates over NUL-terminated text, used wherever hostile text becomes a fact or a setting. They
 * report nothing about whether the thing exists. NULL is never of any shape.
 */
#ifndef NC_CONFIG_SHAPES_H
#define NC_CONFIG_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

#include "nc/config.h"

bool nc_shape_instance_id(const char *s);   /* i-0bb8a7e6111d45591; 8 to 17 hexadecimal digits */
bool nc_shape_instance_type(const char *s); /* m5.large, u-6tb1.112xlarge, c8g.metal-24xl */
bool nc_shape_region(const char *s);        /* us-west-2, us-gov-east-1, us-isob-east-1 */
bool nc_shape_zone(const char *s);          /* us-west-2a, us-west-2-lax-1a */
bool nc_shape_zone_id(const char *s);       /* usw2-az1, usw2-lax1-az1 */
bool nc_shape_mac(const char *s);           /* 06:12:34:56:78:9a */
bool nc_shape_ipv4(const char *s);
bool nc_shape_ipv6(const char *s);
bool nc_shape_ip(const char *s);
bool nc_shape_cidr(
    const char *s); /* address/length, IPv4 or IPv6; host bits may be set, as nodeadm takes them */
bool nc_shape_domain(const char *s); /* dot-separated labels of letters, digits and inner dashes, at
                                        most 253 bytes; any case */
bool nc_shape_instance_hostname(
    const char *s); /* EC2's own label, and behind its dot what somebody typed into the VPC's DHCP
                       options: any visible characters */
bool nc_shape_node_name(
    const char *s); /* RFC 1123 subdomain, as Kubernetes demands of object names */
bool nc_shape_role_name(const char *s); /* IAM: letters, digits and +=,.@_-, at most 64 */
bool nc_shape_token(const char *s,
                    size_t max); /* lower-case letters, digits and dashes, not empty */
bool nc_shape_https_url(
    const char *s); /* https://host[:port][/path], no user, query, or fragment */
bool nc_shape_url(
    const char *s); /* the same, http allowed: endpoints of tests and of proxies on the node */
bool nc_shape_qualified_name(const char *s);  /* key of a label or a taint: [prefix/]name */
bool nc_shape_label_value(const char *s);     /* at most 63, may be empty */
bool nc_shape_bootstrap_token(const char *s); /* abcdef.0123456789abcdef */
bool nc_shape_absolute_path(
    const char *s); /* begins with '/', no control characters, no ".." component */

/* Is the text, once decoded, a file of PEM certificates: at least one BEGIN/END CERTIFICATE pair,
 * base64 between them, nothing but comments and white space around? The certificates themselves are
 * not read. */
bool nc_shape_pem_certificates(const char *data, size_t n);

/* --- Labels and taints of the node: united from several places, checked as kubelet will check
 * them. */

/* Why kubelet must not be given this label although it is well formed: a fixed sentence, NULL where
 * it may. (kubelet exits on a kubernetes.io or k8s.io label that is not in its list:
 * cmd/kubelet/app/options.) */
const char *nc_label_refusal(const char *key);

/* A DNS-1123 subdomain: the domain of a label, the name of a node. */
bool nc_is_dns_subdomain(const char *s, size_t n);

/* Room for a sentence about a label or taint: a quoted text may be long, and a sentence that ends
 * within it does not state what is wrong with it. */
#define NC_LABEL_WHY_BYTES 768
/* Is it a qualified name and a label value (apimachinery's validation)? One sentence in `why` where
 * not. */
bool nc_label_is_valid(const char *key, const char *value, char *why, size_t size);

/* Puts a label: an older one of the same key is replaced in place. Returns the replaced value
 * (owned) or NULL. */
char *nc_labels_set(struct nc_label **labels, size_t *n, const char *key, const char *value,
                    struct nc_mark mark);
void nc_labels_sort(struct nc_label *labels, size_t n); /* by key */
void nc_labels_free(struct nc_label *labels, size_t n);

/* Puts a taint: an older one of the same key and effect is replaced in place. Returns the replaced
 * value or NULL. */
char *nc_taints_set(struct nc_taint **taints, size_t *n, const struct nc_taint *t);
void nc_taints_free(struct nc_taint *taints, size_t n);
bool nc_taint_is_valid(const struct nc_taint *t, char *why, size_t size);

/* "k=v,k2=v2" of --node-labels, as kubelet splits it. NC_ERR_CONFIG for what kubelet would refuse.
 */
int nc_labels_parse(const char *text, struct nc_mark mark, struct nc_label **ret, size_t *ret_n,
                    struct nc_err *err);
/* "k=v:Effect,k2:Effect" of --register-with-taints. */
int nc_taints_parse(const char *text, struct nc_mark mark, struct nc_taint **ret, size_t *ret_n,
                    struct nc_err *err);
/* A list of {key, value, effect} of a document. */
int nc_taints_read(const struct nc_value *list, const char *field, struct nc_taint **ret,
                   size_t *ret_n, struct nc_err *err);
/* And back: a list for registerWithTaints, NULL where there is none. */
struct nc_value *nc_taints_tree(const struct nc_taint *taints, size_t n);

/* "7.5%" -> its number: digits with at most one point. */
bool nc_shape_percent(const char *text, float *ret_float, double *ret_double);
bool nc_shape_threshold(const char *s); /* of kubelet's eviction: above 0, or 0% to 100% */
bool nc_shape_reclaim(const char *s);   /* what it is to reclaim at least: none is 0, but no 0% */

#endif
