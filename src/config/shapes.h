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

bool nc_shape_instance_id(const char *s);   /* i-0bb8a7e6111d45591; 8 to 17 hexadecimal digits */
bool nc_shape_instance_type(const char *s); /* m5.large, u-6tb1.112xlarge, c8g.metal-24xl */
bool nc_shape_region(const char *s);        /* us-west-2, us-gov-east-1, us-isob-east-1 */
bool nc_shape_zone(const char *s);          /* us-west-2a, us-west-2-lax-1a */
bool nc_shape_zone_id(const char *s);       /* usw2-az1, usw2-lax1-az1 */
bool nc_shape_image_id(const char *s);      /* ami-0123456789abcdef0 */
bool nc_shape_account_id(const char *s);    /* twelve digits */
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

#endif
