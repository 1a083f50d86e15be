/*
 * Answers of IMDS and host.json: the first byte chooses the question; a refusal leaves the facts as
 * they were, and what was taken from host.json reads the same when written and read again.
 */
#include <stdint.h>

#include "nc/facts.h"
#include "nc/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void host(const char *data, size_t n) {
    struct nc_facts f = NC_FACTS_INIT;
    struct nc_facts back = NC_FACTS_INIT;
    struct nc_buf once = NC_BUF_INIT;
    struct nc_buf twice = NC_BUF_INIT;

    if (nc_facts_parse_host_json(&f, data, n, NULL) == 0) {
        nc_facts_write_host_json(&f, &once);
        if (nc_facts_parse_host_json(&back, once.data, once.len, NULL) < 0)
            abort();
        nc_facts_write_host_json(&back, &twice);
        if (!nc_streq(once.data, twice.data))
            abort();
    }
    nc_buf_done(&once);
    nc_buf_done(&twice);
    nc_facts_done(&f);
    nc_facts_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    enum nc_imds_item item = NC_IMDS_IDENTITY;

    if (n == 0)
        return 0;
    item = (enum nc_imds_item)(data[0] % (_NC_IMDS_ITEM_MAX + 1));
    if (item == _NC_IMDS_ITEM_MAX) {
        host((const char *)data + 1, n - 1);
        return 0;
    }
    if (nc_facts_parse_imds(&f, item, (const char *)data + 1, n - 1, &err) < 0
        && (err.msg[0] == '\0' || f.instance_id || f.mac || f.local_ipv4 || f.local_hostname
            || f.ipv6 || f.role))
        abort();
    nc_facts_done(&f);
    return 0;
}
