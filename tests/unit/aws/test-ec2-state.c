/*
 * The state of an instance: what EC2 may write, and what is taken for "terminated".
 */

#include "ec2-priv.h"
#include "groups.h"
#include "nc/str.h"

#define ID "i-0123456789abcdef0"
#define ANSWER(items)                                                                              \
    "<DescribeInstancesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">"               \
    "<reservationSet><item><instancesSet>" items                                                   \
    "</instancesSet></item></reservationSet></DescribeInstancesResponse>"
#define ITEM(id, inner) "<item><instanceId>" id "</instanceId>" inner "</item>"
#define STATE(code, name)                                                                          \
    "<instanceState><code>" code "</code><name>" name "</name></instanceState>"
#define NAME(name) "<privateDnsName>" name "</privateDnsName>"

static int read_state(const char *body, struct nc_ec2_state_answer *ret, struct nc_err *err) {
    *ret = (struct nc_ec2_state_answer){0};
    return nc_ec2_read_state(body, strlen(body), ID, ret, err);
}

static void test_states(void **state) {
    static const struct {
        const char *body;
        enum nc_ec2_state state;
        const char *name;
    } rows[] = {
        {ANSWER(ITEM(ID, STATE("0", "pending"))), NC_EC2_PENDING, NULL},
        {ANSWER(ITEM(ID, STATE("16", "running") NAME("ip-10-0-0-1.ec2.internal"))), NC_EC2_RUNNING,
         "ip-10-0-0-1.ec2.internal"},
        {ANSWER(ITEM(ID, STATE("32", "shutting-down"))), NC_EC2_SHUTTING_DOWN, NULL},
        {ANSWER(ITEM(ID, STATE("48", "terminated") NAME(""))), NC_EC2_TERMINATED, NULL},
        {ANSWER(ITEM(ID, STATE("304", "terminated"))), NC_EC2_TERMINATED, NULL}, /* 256 + 48 */
        {ANSWER(ITEM(ID, STATE("64", "stopping"))), NC_EC2_STOPPING, NULL},
        {ANSWER(ITEM(ID, STATE("80", "stopped"))), NC_EC2_STOPPED, NULL},
        {ANSWER(""), NC_EC2_NO_STATE, NULL}, /* it is not known there */
    };

    (void)state;
    for (size_t k = 0; k < NC_ARRAY_SIZE(rows); k++) {
        struct nc_ec2_state_answer a;
        struct nc_err err = NC_ERR_INIT;
        if (read_state(rows[k].body, &a, &err) < 0)
            fail_msg("row %zu: %s", k, err.msg);
        assert_int_equal(a.state, rows[k].state);
        assert_true(rows[k].name ? nc_streq(a.private_dns_name, rows[k].name)
                                 : !a.private_dns_name);
        free(a.private_dns_name);
    }
}

static void test_wrong(void **state) {
    static const char *const rows[] = {
        ANSWER(ITEM(ID, STATE("16", "terminated"))),
        ANSWER(ITEM(ID, STATE("48", "running"))),
        ANSWER(ITEM(ID, STATE("48", "Terminated"))),
        ANSWER(ITEM(ID, STATE("", "terminated"))),
        ANSWER(ITEM(ID, STATE("-208", "terminated"))), /* 48 in its low byte */
        ANSWER(ITEM(ID, STATE("65584", "terminated"))),
        ANSWER(ITEM(ID, STATE("0x30", "terminated"))),
        ANSWER(ITEM(ID, "<instanceState><name>terminated</name></instanceState>")),
        ANSWER(ITEM(ID, "<instanceState><code>48</code></instanceState>")),
        ANSWER(ITEM(ID, "<previousState><code>48</code><name>terminated</name></previousState>")),
        ANSWER(ITEM(ID, "")),
        ANSWER(ITEM(ID, STATE("16", "running") STATE("48", "terminated"))),
        ANSWER(ITEM("i-0123456789abcdef1", STATE("48", "terminated"))),
        ANSWER(ITEM(ID, STATE("16", "running"))
                   ITEM("i-0123456789abcdef1", STATE("48", "terminated"))),
        ANSWER("<item>" STATE("48", "terminated") "</item>"),
        ANSWER(ITEM(ID, STATE("48", "terminated") NAME("a b"))),
        ANSWER(ITEM(ID, STATE("48", "terminated"))) "<more/>",
        "<DescribeInstancesResponse>",
        "",
    };

    (void)state;
    for (size_t k = 0; k < NC_ARRAY_SIZE(rows); k++) {
        struct nc_ec2_state_answer a;
        struct nc_err err = NC_ERR_INIT;
        if (read_state(rows[k], &a, &err) >= 0 || a.state != NC_EC2_NO_STATE || a.private_dns_name)
            fail_msg("row %zu was taken for %s", k, nc_ec2_state_name(a.state));
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_wrong),
    };

    return run_group(tests, NULL, NULL);
}
