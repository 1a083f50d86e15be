/*
 * The state of an instance in EC2's answer. Pure.
 *
 * What follows from "terminated" cannot be taken back for the pods concerned. So the answer must be
 * about exactly one instance, have each field once, and its code and its word must agree.
 */
#include "ec2-priv.h"

#include <errno.h>

#include "nc/str.h"
#include "xml.h"

#define INSTANCE "DescribeInstancesResponse/reservationSet/item/instancesSet/item"
#define CODE_MASK 0xff /* what is above it is EC2's own, and is to be ignored */

static const struct {
    char name[16];
    int64_t code;
} states[_NC_EC2_STATE_MAX] = {
    [NC_EC2_NO_STATE] = {"unknown", -1},      [NC_EC2_PENDING] = {"pending", 0},
    [NC_EC2_RUNNING] = {"running", 16},       [NC_EC2_SHUTTING_DOWN] = {"shutting-down", 32},
    [NC_EC2_TERMINATED] = {"terminated", 48}, [NC_EC2_STOPPING] = {"stopping", 64},
    [NC_EC2_STOPPED] = {"stopped", 80},
};

const char *nc_ec2_state_name(enum nc_ec2_state s) {
    return states[s].name;
}

enum { ID = 0, NAME, CODE, STATE, N_FIELDS };

struct reader {
    char *fields[N_FIELDS];
    bool is_repeated;
};

static void reader_done(struct reader *r) {
    for (size_t i = 0; i < N_FIELDS; i++)
        free(r->fields[i]);
}

static int read_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    static const char paths[N_FIELDS][88] = {
        [ID] = INSTANCE "/instanceId",
        [NAME] = INSTANCE "/privateDnsName",
        [CODE] = INSTANCE "/instanceState/code",
        [STATE] = INSTANCE "/instanceState/name",
    };
    struct reader *r = user;

    for (size_t i = 0; i < N_FIELDS; i++) {
        if (!nc_streq(element->path, paths[i]))
            continue;
        r->is_repeated |= r->fields[i] != NULL;
        if (!r->fields[i])
            r->fields[i] = nc_strdup(element->text);
    }
    return 0;
}

static enum nc_ec2_state state_of(const char *code, const char *name) {
    int64_t n = 0;

    if (!code || !name || nc_parse_i64(code, &n) < 0 || n < 0 || n > UINT16_MAX)
        return NC_EC2_NO_STATE;
    for (enum nc_ec2_state s = NC_EC2_PENDING; s < _NC_EC2_STATE_MAX; s++)
        if (states[s].code == (n & CODE_MASK) && nc_streq(states[s].name, name))
            return s;
    return NC_EC2_NO_STATE;
}

int nc_ec2_read_state(const char *data, size_t n, const char *instance_id,
                      struct nc_ec2_state_answer *ret, struct nc_err *err) {
    nc_cleanup(reader_done) struct reader r = {0};
    const int k = nc_xml_read(data, n, read_element, &r, err);

    if (k < 0)
        return k;
    *ret = (struct nc_ec2_state_answer){.state = NC_EC2_NO_STATE};
    if (!r.fields[ID] && !r.fields[NAME] && !r.fields[CODE] && !r.fields[STATE])
        return 0;
    if (r.is_repeated || !nc_streq(r.fields[ID], instance_id))
        return nc_err_protocol(err, "the answer is not about %s alone", instance_id);
    if (r.fields[NAME] && *r.fields[NAME] && !nc_is_alnum_or(r.fields[NAME], "-.", 253))
        return nc_err_protocol(err, "invalid private DNS name of %s", instance_id);
    ret->state = state_of(r.fields[CODE], r.fields[STATE]);
    if (ret->state == NC_EC2_NO_STATE)
        return nc_err_protocol(err, "invalid state of %s", instance_id);
    if (r.fields[NAME] && *r.fields[NAME])
        ret->private_dns_name = nc_steal(&r.fields[NAME]);
    return 0;
}
