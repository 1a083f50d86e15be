/*
 * Which host a service of AWS has in a region: by the domain that IMDS names, else by the region's
 * partition. Pure.
 */
#include "nc/sigv4.h"
#include "nc/str.h"

/* The first matching prefix counts; the last row is the commercial partition. */
static const struct {
    char prefix[9], domain[17];
} partitions[] = {
    {"cn-", "amazonaws.com.cn"},   {"us-gov-", "amazonaws.com"},   {"us-iso-", "c2s.ic.gov"},
    {"us-isob-", "sc2s.sgov.gov"}, {"us-isof-", "csp.hci.ic.gov"}, {"eu-isoe-", "cloud.adc-e.uk"},
    {"eusc-", "amazonaws.eu"},     {"", "amazonaws.com"},
};

/* Labels of a host name: nothing that could end the host part of a URL. */
static bool is_name(const char *s, bool dots) {
    const char *last = s;

    if (!s || !*s || *s == '-' || *s == '.' || strlen(s) > 200)
        return false;
    for (; *s; last = s++) {
        const bool plain = (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '-';
        if (!plain && !(dots && *s == '.' && *last != '.'))
            return false;
    }
    return *last != '.' && *last != '-';
}

char *nc_aws_host(const char *service, const char *region, const char *domain) {
    if (!is_name(service, false) || !is_name(region, false) || (domain && !is_name(domain, true)))
        return NULL;
    for (size_t k = 0; !domain; k++)
        if (nc_starts_with(region, partitions[k].prefix))
            domain = partitions[k].domain;
    return nc_asprintf("%s.%s.%s", service, region, domain);
}
