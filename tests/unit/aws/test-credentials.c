/*
 * Role credentials: accepted forms, refused ones, and that no message carries a key.
 */
#include <stdio.h>

#include "groups.h"
#include "nc/imds.h"
#include "nc/mem.h"

#define GOOD                                                                                       \
    "{\"Code\": \"Success\", \"LastUpdated\": \"2024-01-01T00:00:00Z\", \"Type\": \"AWS-HMAC\",\n" \
    " \"AccessKeyId\": \"ASIAEXAMPLE\", \"SecretAccessKey\": \"topsecret/+\", \"Token\": "         \
    "\"sessiontoken==\",\n"                                                                        \
    " \"Expiration\": \"2024-01-01T06:00:00Z\"}"

static void test_good(void **state) {
    static const char long_lived[] =
        "{\"Code\":\"Success\",\"AccessKeyId\":\"AKIA\",\"SecretAccessKey\":\"s\"}";
    struct nc_credentials c = {0};
    (void)state;

    assert_int_equal(nc_credentials_parse(GOOD, strlen(GOOD), &c, NULL), 0);
    assert_string_equal(c.access_key_id, "ASIAEXAMPLE");
    assert_string_equal(c.secret_access_key, "topsecret/+");
    assert_string_equal(c.session_token, "sessiontoken==");
    assert_int_equal(c.expiration_usec, 1704088800ull * 1000000);
    nc_credentials_done(&c);
    assert_null(c.access_key_id);
    assert_int_equal(nc_credentials_parse(long_lived, strlen(long_lived), &c, NULL), 0);
    assert_null(c.session_token);
    assert_int_equal(c.expiration_usec, 0);
    nc_credentials_done(&c);
    nc_credentials_done(NULL);
}

static void test_refused(void **state) {
    static const struct {
        const char *json;
        enum nc_err_class class;
        const char *msg;
    } cases[] = {
        {"", NC_ERR_PROTOCOL, "role credentials: "},
        {"<html>topsecret</html>", NC_ERR_PROTOCOL, "role credentials: "},
        {"[]", NC_ERR_PROTOCOL, "no Code"},
        {"{}", NC_ERR_PROTOCOL, "no Code"},
        {"{\"Code\":1}", NC_ERR_PROTOCOL, "no Code"},
        {"{\"Code\":\"Failed\",\"Message\":\"topsecret\"}", NC_ERR_AUTH,
         "the service answered 'Failed'"},
        {"{\"Code\":\"AssumeRoleUnauthorizedAccess\"}", NC_ERR_AUTH,
         "'AssumeRoleUnauthorizedAccess'"},
        {"{\"Code\":\"Success\"}", NC_ERR_PROTOCOL, "AccessKeyId"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"\"}", NC_ERR_PROTOCOL, "AccessKeyId"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":7}", NC_ERR_PROTOCOL, "AccessKeyId"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"a b\"}", NC_ERR_PROTOCOL, "AccessKeyId"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"A\"}", NC_ERR_PROTOCOL, "SecretAccessKey"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"topsecret\\n\"}",
         NC_ERR_PROTOCOL, "SecretAccessKey"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"topsecret\",\"Token\":"
         "\"\"}",
         NC_ERR_PROTOCOL, "Token"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"topsecret\",\"Token\":"
         "null}",
         NC_ERR_PROTOCOL, "Token"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"topsecret\","
         "\"Expiration\":\"soon\"}",
         NC_ERR_PROTOCOL, "Expiration"},
        {"{\"Code\":\"Success\",\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"topsecret\","
         "\"Expiration\":5}",
         NC_ERR_PROTOCOL, "Expiration"},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_credentials c = {0};
        struct nc_err err = NC_ERR_INIT;
        assert_true(nc_credentials_parse(cases[k].json, strlen(cases[k].json), &c, &err) < 0);
        if (err.class != cases[k].class || !strstr(err.msg, cases[k].msg)
            || strstr(err.msg, "topsecret"))
            fail_msg("case %zu: %s", k, err.msg);
        assert_true((err.class == NC_ERR_AUTH) == (err.remedy[0] != '\0'));
        assert_null(c.access_key_id);
    }
}

static void test_every_cut(void **state) {
    (void)state;
    for (size_t n = 0; n < strlen(GOOD); n++) {
        struct nc_credentials c = {0};
        struct nc_err err = NC_ERR_INIT;
        assert_true(nc_credentials_parse(GOOD, n, &c, &err) < 0);
        assert_null(strstr(err.msg, "topsecret"));
        assert_null(strstr(err.msg, "sessiontoken"));
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_every_cut),
    };

    return run_group(tests, NULL, NULL);
}
