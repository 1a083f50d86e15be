/*
 * Who the node is.
 *
 * The name must be the one that the API server derives from the node's credential. For EKS' usual
 * mapping that is EC2's PrivateDnsName, which IMDS' local-hostname equals unless the VPC's DHCP
 * options set a domain of their own: then only the first label is right, and EC2's name ends in the
 * region's domain all the same. So EC2 need not be asked at all where it may not be.
 */
#include "planner.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "nc/str.h"
#include "shapes.h"

/* "us-west-2.compute.internal"; us-east-1 has kept its older name. */
static char *region_domain(const char *region) {
    return nc_streq(region, "us-east-1") ? nc_strdup("ec2.internal")
                                         : nc_asprintf("%s.compute.internal", region);
}

static char *lower(const char *s) {
    char *copy = nc_strdup(s);

    for (char *p = copy; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return copy;
}

/* Is local-hostname what EC2 itself gives out in this region? Then it is the PrivateDnsName. */
static bool is_standard_hostname(const struct nc_facts *f) {
    const char *dot = f->local_hostname ? strchr(f->local_hostname, '.') : NULL;
    nc_auto_free char *domain = f->region ? region_domain(f->region) : NULL;

    return dot && domain && nc_streq(dot + 1, domain);
}

/* The name that EC2 gives by its rules: from the first label where it is EC2's, else from the
 * address. */
static char *derived_private_dns(const struct nc_facts *f) {
    nc_auto_free char *domain = f->region ? region_domain(f->region) : NULL;
    nc_auto_free char *ip = NULL;

    if (!domain)
        return NULL;
    if (f->local_hostname && f->instance_id && nc_starts_with(f->local_hostname, f->instance_id))
        return nc_asprintf("%s.%s", f->instance_id, domain);
    if (!f->local_ipv4)
        return NULL;
    ip = nc_strdup(f->local_ipv4);
    for (char *p = ip; *p; p++)
        if (*p == '.')
            *p = '-';
    return nc_asprintf("ip-%s.%s", ip, domain);
}

static char *private_dns_name(const struct nc_facts *f, char *from, size_t size,
                              struct nc_strv *warnings) {
    char *name;

    if (f->private_dns_name) {
        nc_copy_text(from, size, "EC2 DescribeInstances, PrivateDnsName");
        return lower(f->private_dns_name);
    }
    if (is_standard_hostname(f)) {
        nc_copy_text(from, size, "IMDS local-hostname");
        return lower(f->local_hostname);
    }
    name = derived_private_dns(f);
    if (name) {
        nc_copy_text(from, size, "IMDS local-ipv4 and region");
        nc_strv_addf(warnings,
                     "node name: local-hostname '%.64s' is not EC2's own name (a DHCP domain?) and "
                     "EC2 was not queried: derived %s",
                     f->local_hostname ? f->local_hostname : "", name);
        return name;
    }
    nc_copy_text(from, size, "IMDS local-hostname");
    return f->local_hostname ? lower(f->local_hostname) : NULL;
}

static char *name_by_mode(const struct nc_facts *f, const struct nc_config *c, char *from,
                          size_t size, struct nc_strv *warnings) {
    nc_auto_free char *domain = f->region ? region_domain(f->region) : NULL;

    switch (c->naming) {
    case NC_NAMING_RESOURCE_NAME:
        nc_copy_text(from, size, "instance id and region (resource-name)");
        return f->instance_id && domain ? nc_asprintf("%s.%s", f->instance_id, domain) : NULL;
    case NC_NAMING_INSTANCE_ID:
        nc_copy_text(from, size, "instance id");
        return nc_strdup(f->instance_id);
    case NC_NAMING_HOSTNAME:
        nc_copy_text(from, size, "host name");
        return f->hostname ? lower(f->hostname) : NULL;
    case NC_NAMING_PRIVATE_DNS:
        break;
    }
    return private_dns_name(f, from, size, warnings);
}

int nc_name_decide(const struct nc_facts *f, const struct nc_config *c, struct nc_decided_name *ret,
                   struct nc_strv *warnings, struct nc_err *err) {
    nc_auto_free char *name = NULL;
    int r;

    if (c->name_override) {
        nc_copy_text(ret->from, sizeof(ret->from), "spec.node.nameOverride of the configuration");
        name = nc_strdup(c->name_override);
    } else {
        name = name_by_mode(f, c, ret->from, sizeof(ret->from), warnings);
    }
    if (!name) {
        r = nc_err_set(err, NC_ERR_CONFIG, ENODATA, "node name: not known by %s", ret->from);
        nc_err_remedy(err, "set spec.node.nameOverride, or another spec.node.name");
        return r;
    }
    if (!nc_is_dns_subdomain(name, strlen(name))) {
        nc_auto_free char *quoted = nc_quote_string(name);
        return nc_err_config(
            err, "node name: %s from %s: lower-case letters, digits, '-' and '.' are allowed",
            quoted, ret->from);
    }
    ret->text = nc_steal(&name);
    return 0;
}

int nc_provider_id_decide(const struct nc_facts *f, const struct nc_config *c,
                          struct nc_decided_name *ret, struct nc_err *err) {
    if (c->provider_id) {
        nc_copy_text(ret->from, sizeof(ret->from), "spec.node.providerID of the configuration");
        ret->text = nc_strdup(c->provider_id);
        return 0;
    }
    if (!f->az || !f->instance_id) {
        int r = nc_err_set(err, NC_ERR_CONFIG, ENODATA, "providerID: the %s is not known",
                           f->az ? "instance id" : "availability zone");
        nc_err_remedy(err, "set spec.node.providerID");
        return r;
    }
    nc_copy_text(ret->from, sizeof(ret->from), "availability zone and instance id");
    ret->text = nc_asprintf("aws:///%s/%s", f->az, f->instance_id);
    return 0;
}

const char *nc_node_ip_of_family(const struct nc_facts *f, int family) {
    return family == 6 ? f->ipv6 : f->local_ipv4;
}

bool nc_plan_needs_private_dns_name(const struct nc_facts *f, const struct nc_config *c) {
    if (c->ec2 == NC_EC2_NEVER || c->name_override || f->private_dns_name)
        return false;
    if (c->naming != NC_NAMING_PRIVATE_DNS && c->naming != 0)
        return false;
    return c->ec2 == NC_EC2_ALWAYS || !is_standard_hostname(f);
}
