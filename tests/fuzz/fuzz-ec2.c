/*
 * The answers of EC2 and Auto Scaling: the XML reader ends on every input and keeps to its caps;
 * what the readers above it accept is what was requested.
 */
#include <stdint.h>

#include "ec2-priv.h"
#include "nc/str.h"
#include "xml.h"

#define ID "i-0123456789abcdef0"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct count {
    size_t n_elements, max;
};

static int check_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct count *c = user;
    size_t depth = 1;
    (void)err;

    for (const char *p = element->path; *p; p++)
        depth += *p == '/';
    if (++c->n_elements > c->max || depth > NC_XML_MAX_DEPTH
        || strlen(element->text) > NC_XML_MAX_TEXT)
        abort();
    return 0;
}

static void walk(const char *data, size_t n) {
    struct nc_err err = NC_ERR_INIT;
    struct count c = {.max = n};

    if (nc_xml_read(data, n, check_element, &c, &err) < 0 ? err.class != NC_ERR_PROTOCOL
                                                          : c.n_elements == 0)
        abort();
}

static void read_group(const char *data, size_t n) {
    struct nc_autoscaling_instance i = {0};
    struct nc_err err = NC_ERR_INIT;

    if (nc_autoscaling_read_instance(data, n, ID, &i, &err) < 0) {
        if (err.class != NC_ERR_PROTOCOL || i.group || i.state)
            abort();
    } else if (!i.group != !i.state
               || (i.group
                   && (!*i.group || strlen(i.group) > NC_AUTOSCALING_GROUP_BYTES
                       || strlen(i.state) > NC_AUTOSCALING_STATE_BYTES))) {
        abort();
    }
    nc_autoscaling_instance_done(&i);
    if (nc_autoscaling_read_action(data, n, "CompleteLifecycleAction", &err) < 0 && !err.msg[0])
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const struct nc_http_result refusal = {
        .outcome = NC_HTTP_ANSWERED, .status = 400, .body = (const char *)data, .n = n};
    struct nc_ec2_state_answer state = {0};
    struct nc_instance_type type;
    struct nc_err err = NC_ERR_INIT;
    char *name = NULL;

    walk((const char *)data, n);
    if (nc_ec2_read_instance((const char *)data, n, ID, &name, &err) == 0 && !*name)
        abort();
    free(name);
    if (nc_ec2_read_state((const char *)data, n, ID, &state, &err) < 0
            ? state.state != NC_EC2_NO_STATE || state.private_dns_name
            : state.private_dns_name && !*state.private_dns_name)
        abort();
    free(state.private_dns_name);
    if (nc_ec2_read_type((const char *)data, n, "m5.large", &type, &err) == 0
        && (!nc_streq(type.name, "m5.large") || type.enis <= 0))
        abort();
    if (nc_ec2_read_end((const char *)data, n, ID, &err) < 0 && !err.msg[0])
        abort();
    read_group((const char *)data, n);
    (void)nc_aws_has_error(&refusal, "ValidationError", "No active Lifecycle Action found");
    if (nc_ec2_refused(&refusal, "X", &err) >= 0)
        abort();
    return 0;
}
