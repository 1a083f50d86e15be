/*
 * EC2's answers: the XML reader ends on every input, keeps to its caps, and closes what it opens;
 * what the readers above it accept is what was asked for.
 */
#include <stdint.h>

#include "ec2-priv.h"
#include "nc/str.h"
#include "xml.h"

#define ID "i-0123456789abcdef0"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void walk(const char *data, size_t n) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_xml x;
    size_t events = 0, open = 0;
    int k;

    nc_xml_init(&x, data, n);
    while ((k = nc_xml_next(&x, &err)) > 0 && k != NC_XML_END) {
        open += k == NC_XML_OPEN ? 1 : (size_t)-1;
        if (++events > 2 * n + 2 || open > NC_XML_MAX_DEPTH || x.text.len > NC_XML_MAX_TEXT)
            abort();
    }
    if (k < 0 ? err.class != NC_ERR_PROTOCOL : open != 0)
        abort();
    nc_xml_done(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const struct nc_http_result refusal = {
        .outcome = NC_HTTP_ANSWERED, .status = 400, .body = (const char *)data, .n = n};
    struct nc_instance_type type;
    struct nc_err err = NC_ERR_INIT;
    char *name = NULL;

    walk((const char *)data, n);
    if (nc_ec2_read_instance((const char *)data, n, ID, &name, &err) == 0 && !*name)
        abort();
    free(name);
    if (nc_ec2_read_type((const char *)data, n, "m5.large", &type, &err) == 0
        && (!nc_streq(type.name, "m5.large") || type.enis <= 0))
        abort();
    if (nc_ec2_read_end((const char *)data, n, ID, &err) < 0 && !err.msg[0])
        abort();
    if (nc_ec2_refused(&refusal, "X", &err) >= 0)
        abort();
    return 0;
}
