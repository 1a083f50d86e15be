/*
 * The token of EKS: what its verifier demands, checked on the bytes, and what is refused before
 * anything is signed.
 */
#include <stdio.h>

#include "groups.h"
#include "nc/encode.h"
#include "nc/sigv4.h"
#include "nc/str.h"

#define PREFIX "k8s-aws-v1."
#define TIME_USEC (1704164645ull * 1000000)

static const struct nc_credentials keys = {
    (char *)(uintptr_t) "AKIDEXAMPLE",
    (char *)(uintptr_t) "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    (char *)(uintptr_t) "FwoGZXIvYXdzE/+==", 0, NULL};

#define STS "sts.us-west-2.amazonaws.com"

static int token_of(const struct nc_credentials *c, const char *cluster, const char *region,
                    const char *sts_host, struct nc_buf *ret, struct nc_err *err) {
    const struct nc_eks_token_request q = {
        .cluster = cluster, .region = region, .sts_host = sts_host, .time_usec = TIME_USEC};

    return nc_eks_token(c, &q, ret, err);
}

/* The URL inside a token: base64 of the URL alphabet, turned into the standard one. */
static char *url_of(const char *token) {
    struct nc_buf url = NC_BUF_INIT;
    nc_auto_free char *standard = nc_strdup(token + strlen(PREFIX));

    assert_true(nc_starts_with(token, PREFIX));
    assert_null(strpbrk(standard, "+/="));
    for (char *p = standard; *p; p++)
        *p = *p == '-' ? '+' : *p == '_' ? '/' : *p;
    assert_int_equal(nc_base64_decode(standard, strlen(standard), &url), 0);
    return nc_buf_steal(&url);
}

static void test_token(void **state) {
    struct nc_buf token = NC_BUF_INIT;
    (void)state;

    assert_int_equal(token_of(&keys, "my-cluster", "us-west-2", STS, &token, NULL), 0);
    nc_auto_free char *url = url_of(token.data);
    /* The signature is botocore's, of the first row of tests/data/sigv4.h. */
    assert_string_equal(
        url, "https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
             "&X-Amz-Algorithm=AWS4-HMAC-SHA256"
             "&X-Amz-Credential=AKIDEXAMPLE%2F20240102%2Fus-west-2%2Fsts%2Faws4_request"
             "&X-Amz-Date=20240102T030405Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id"
             "&X-Amz-Security-Token=FwoGZXIvYXdzE%2F%2B%3D%3D&X-Amz-Signature="
             "4a3d07195eaadd757a7ee90b2858da83d8abaf54fff1e88004922e438d92ced2");
    nc_buf_done(&token);
}

/* What the verifier whitelists; anything else in the query makes it refuse. */
static void test_only_known_parameters(void **state) {
    static const char *const known[] = {"Action",
                                        "Version",
                                        "X-Amz-Algorithm",
                                        "X-Amz-Credential",
                                        "X-Amz-Date",
                                        "X-Amz-Expires",
                                        "X-Amz-Security-Token",
                                        "X-Amz-Signature",
                                        "X-Amz-SignedHeaders"};
    struct nc_buf token = NC_BUF_INIT;
    unsigned seen = 0;
    char *rest;
    (void)state;

    assert_int_equal(token_of(&keys, "c", "us-west-2", STS, &token, NULL), 0);
    nc_auto_free char *url = url_of(token.data);
    for (char *p = strtok_r(strchr(url, '?') + 1, "&", &rest); p; p = strtok_r(NULL, "&", &rest)) {
        size_t k = 0;
        *strchr(p, '=') = '\0';
        while (k < NC_ARRAY_SIZE(known) && strcmp(p, known[k]) != 0)
            k++;
        if (k == NC_ARRAY_SIZE(known))
            fail_msg("%s is not on the verifier's list", p);
        assert_false(seen & 1u << k);
        seen |= 1u << k;
    }
    assert_int_equal(seen, (1u << NC_ARRAY_SIZE(known)) - 1);
    nc_buf_done(&token);
}

static void test_cluster_is_signed(void **state) {
    struct nc_buf a = NC_BUF_INIT, b = NC_BUF_INIT;
    (void)state;

    assert_int_equal(token_of(&keys, "one", "us-west-2", STS, &a, NULL), 0);
    assert_int_equal(token_of(&keys, "two", "us-west-2", STS, &b, NULL), 0);
    assert_string_not_equal(a.data, b.data);
    nc_buf_done(&a);
    nc_buf_done(&b);
}

static void test_size(void **state) {
    char session[4000];
    struct nc_credentials large = keys;
    struct nc_buf token = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    memset(session, 'a', sizeof(session));
    session[2500] = '\0';
    large.session_token = session;
    assert_int_equal(token_of(&large, "c", "us-west-2", STS, &token, &err), 0);
    assert_true(token.len <= 4096);
    nc_buf_clear(&token);
    session[2500] = 'a';
    session[3500] = '\0';
    assert_true(token_of(&large, "c", "us-west-2", STS, &token, &err) < 0);
    assert_int_equal(err.class, NC_ERR_PROTOCOL);
    assert_int_equal(token.len, 0);
    assert_null(strstr(err.msg, "aaaa"));
    nc_buf_done(&token);
}

static void test_refused(void **state) {
    static const struct {
        const char *cluster, *region, *host;
        enum nc_err_class class;
    } cases[] = {
        {"", "us-west-2", "sts.us-west-2.amazonaws.com", NC_ERR_CONFIG},
        {NULL, "us-west-2", "sts.us-west-2.amazonaws.com", NC_ERR_CONFIG},
        {"two words", "us-west-2", "sts.us-west-2.amazonaws.com", NC_ERR_CONFIG},
        {"line\nbreak", "us-west-2", "sts.us-west-2.amazonaws.com", NC_ERR_CONFIG},
        {"c", "", "sts.us-west-2.amazonaws.com", NC_ERR_CONFIG},
        {"c", NULL, "sts.us-west-2.amazonaws.com", NC_ERR_CONFIG},
        {"c", "us-west-2", NULL, NC_ERR_CONFIG},
        {"c", "us-west-2", "", NC_ERR_CONFIG},
        {"c", "us-west-2", "evil.test/@sts", NC_ERR_CONFIG},
    };
    struct nc_buf token = NC_BUF_INIT, tiny = NC_BUF_INIT_MAX(10);
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        assert_true(token_of(&keys, cases[k].cluster, cases[k].region, cases[k].host, &token, &err)
                    < 0);
        assert_int_equal(err.class, cases[k].class);
    }
    const struct nc_credentials none = {0};
    assert_true(token_of(&none, "c", "us-west-2", "h", &token, &err) < 0);
    assert_int_equal(err.class, NC_ERR_AUTH);
    assert_int_equal(token.len, 0);
    assert_true(token_of(&keys, "c", "us-west-2", "h", &tiny, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    nc_buf_done(&token);
    nc_buf_done(&tiny);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_only_known_parameters),
        cmocka_unit_test(test_cluster_is_signed),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_refused),
    };

    return run_group(tests, NULL, NULL);
}
