/*
 * IP addresses and networks.
 *
 * Kubernetes' convention for the cluster DNS service is the tenth address of the service range.
 * Taking it from the text
 * ("everything up to the last dot") is wrong for prefixes that do not end at a byte and for ranges
 * that are written with host bits; so the address is masked and added to as a number. inet_pton and
 * inet_ntop are pure text functions.
 */
#include "numbers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "nc/str.h"

#define DNS_OFFSET 10 /* kubeadm, EKS and kops agree on it */

/* Splits "ADDRESS/PREFIX". Without a slash the prefix is the complete address. Returns the family
 * (4, 6) or 0. */
static int parse(const char *text, unsigned char bytes[16], unsigned *prefix) {
    char address[64];
    const char *slash = strchr(text, '/');
    size_t n = slash ? (size_t)(slash - text) : strlen(text);
    unsigned bits;
    uint64_t p;

    if (n >= sizeof(address))
        return 0;
    memcpy(address, text, n);
    address[n] = '\0';
    if (inet_pton(AF_INET, address, bytes) == 1)
        bits = 32;
    else if (inet_pton(AF_INET6, address, bytes) == 1)
        bits = 128;
    else
        return 0;
    p = bits;
    if (slash && (nc_parse_u64(slash + 1, &p) < 0 || p > bits))
        return 0;
    *prefix = (unsigned)p;
    return bits == 32 ? 4 : 6;
}

int nc_address_family(const char *text) {
    unsigned char bytes[16];
    unsigned prefix;

    return text ? parse(text, bytes, &prefix) : 0;
}

int nc_cidr_dns(const char *cidr, char *ret, size_t size) {
    unsigned char bytes[16];
    unsigned prefix, n;
    int family;

    if (!cidr || !strchr(cidr, '/'))
        return -EINVAL;
    family = parse(cidr, bytes, &prefix);
    if (family == 0)
        return -EINVAL;
    n = family == 4 ? 4 : 16;
    if (n * 8 - prefix < 4) /* fewer than 16 addresses: the tenth is outside or nearly so */
        return -ERANGE;
    for (unsigned i = 0; i < n; i++) {
        unsigned kept = prefix > i * 8 ? prefix - i * 8 : 0;
        if (kept < 8)
            bytes[i] = (unsigned char)(bytes[i] & (0xff00u >> kept));
    }
    bytes[n - 1] =
        (unsigned char)(bytes[n - 1] + DNS_OFFSET); /* at least four host bits: no carry */
    return inet_ntop(family == 4 ? AF_INET : AF_INET6, bytes, ret, (socklen_t)size) ? 0 : -ENOSPC;
}
