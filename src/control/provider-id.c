/*
 * What spec.providerID of an EC2 instance says: the instance, and the region of its zone, which is
 * what is before the end of the zone's first number. A node may fill it with anything.
 */
#include <errno.h>
#include <stdio.h>

#include "nc/control.h"
#include "nc/str.h"

int nc_control_parse_provider_id(const char *text, struct nc_control_instance *ret) {
    static const char scheme[] = "aws:///", letters[] = NC_LOWER NC_DIGITS "-";
    const char *zone = text ? text + strlen(scheme) : NULL;
    const char *slash, *number;

    if (!text || !nc_starts_with(text, scheme) || !(slash = strchr(zone, '/')))
        return -EINVAL;
    if (!nc_starts_with(slash, "/i-") || strlen(slash + 1) >= sizeof(ret->id)
        || slash[3 + strspn(slash + 3, "0123456789abcdef")] != '\0' || strlen(slash + 3) < 8)
        return -EINVAL;
    number = zone + strcspn(zone, "0123456789/");
    if (strspn(zone, letters) != (size_t)(slash - zone) || number == zone || number >= slash)
        return -EINVAL;
    number += strspn(number, "0123456789");
    if ((size_t)(number - zone) >= sizeof(ret->region))
        return -EINVAL;
    nc_copy_text(ret->id, sizeof(ret->id), slash + 1);
    (void)snprintf(ret->region, sizeof(ret->region), "%.*s", (int)(number - zone), zone);
    return 0;
}
