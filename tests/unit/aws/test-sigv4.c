/*
 * Signatures: every stage against botocore's table, no dependence on the order of what is signed,
 * hosts of all partitions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "groups.h"
#include "nc/sigv4.h"
#include "nc/str.h"

struct sigv4_vector {
    const char *name;
    struct nc_credentials credentials;
    const char *query[24], *headers[16];
    const char *method, *host, *body, *region, *service;
    uint64_t time_sec, expires_sec;
    int presign;
    const char *canonical, *to_sign, *signature, *whole;
};

#include "../../data/sigv4.h"

static struct nc_sigv4_request request_of(const struct sigv4_vector *v) {
    return (struct nc_sigv4_request){.method = v->method,
                                     .host = v->host,
                                     .path = "/",
                                     .query = v->query,
                                     .headers = v->headers,
                                     .body = v->body,
                                     .body_n = strlen(v->body),
                                     .region = v->region,
                                     .service = v->service,
                                     .time_usec = v->time_sec * 1000000 + 999999,
                                     .expires_sec = v->expires_sec};
}

static void test_stages(void **state) {
    (void)state;
    for (size_t k = 0; k < NC_ARRAY_SIZE(sigv4_vectors); k++) {
        const struct sigv4_vector *v = &sigv4_vectors[k];
        const struct nc_sigv4_request r = request_of(v);
        struct nc_buf canonical = NC_BUF_INIT, text = NC_BUF_INIT;
        char signature[65];
        print_message("%s\n", v->name);
        assert_int_equal(
            nc_sigv4_canonical_request(&r, &v->credentials, v->presign, &canonical, NULL), 0);
        assert_string_equal(canonical.data, v->canonical);
        assert_int_equal(nc_sigv4_string_to_sign(&r, canonical.data, canonical.len, &text, NULL),
                         0);
        assert_string_equal(text.data, v->to_sign);
        assert_int_equal(nc_sigv4_signature(&r, &v->credentials, &text, signature, NULL), 0);
        assert_string_equal(signature, v->signature);
        nc_buf_done(&canonical);
        nc_buf_done(&text);
    }
}

static void test_complete(void **state) {
    (void)state;
    for (size_t k = 0; k < NC_ARRAY_SIZE(sigv4_vectors); k++) {
        const struct sigv4_vector *v = &sigv4_vectors[k];
        const struct nc_sigv4_request r = request_of(v);
        if (v->presign) {
            struct nc_buf url = NC_BUF_INIT;
            assert_int_equal(nc_sigv4_presign(&r, &v->credentials, &url, NULL), 0);
            assert_string_equal(url.data, v->whole);
            nc_buf_done(&url);
            continue;
        }
        struct nc_strv headers = NC_STRV_INIT;
        assert_int_equal(nc_sigv4_headers(&r, &v->credentials, &headers, NULL), 0);
        assert_string_equal(headers.v[0], v->whole);
        assert_non_null(strstr(headers.v[1], "X-Amz-Date: "));
        assert_int_equal(headers.n, v->credentials.session_token ? 3 : 2);
        if (v->credentials.session_token)
            assert_string_equal(headers.v[2] + strlen("X-Amz-Security-Token: "),
                                v->credentials.session_token);
        nc_strv_done(&headers);
    }
}

/* Shuffles pairs of a NULL-terminated list. */
static void shuffle(const char **pairs, unsigned *seed) {
    size_t n = 0;

    while (pairs[2 * n])
        n++;
    for (size_t k = n; k > 1; k--) {
        const size_t j = (size_t)rand_r(seed) % k;
        for (size_t half = 0; half < 2; half++) {
            const char *swap = pairs[2 * (k - 1) + half];
            pairs[2 * (k - 1) + half] = pairs[2 * j + half];
            pairs[2 * j + half] = swap;
        }
    }
}

static void test_order_does_not_matter(void **state) {
    const char *text = getenv("NC_SEED");
    unsigned seed = text ? (unsigned)atoi(text) : (unsigned)time(NULL);
    (void)state;

    print_message("NC_SEED=%u\n", seed);
    for (int round = 0; round < 200; round++)
        for (size_t k = 0; k < NC_ARRAY_SIZE(sigv4_vectors); k++) {
            struct sigv4_vector v = sigv4_vectors[k];
            struct nc_buf canonical = NC_BUF_INIT;
            shuffle(v.query, &seed);
            shuffle(v.headers, &seed);
            const struct nc_sigv4_request r = request_of(&v);
            assert_int_equal(
                nc_sigv4_canonical_request(&r, &v.credentials, v.presign, &canonical, NULL), 0);
            assert_string_equal(canonical.data, v.canonical);
            nc_buf_done(&canonical);
        }
}

/* All services but S3 want the path encoded once more than it is sent. */
static void test_path(void **state) {
    struct nc_sigv4_request r = request_of(&sigv4_vectors[0]);
    struct nc_buf canonical = NC_BUF_INIT;

    (void)state;
    r.method = "GET";
    r.path = "/a%20b/(c)~/\xc3\xa9/";
    assert_int_equal(
        nc_sigv4_canonical_request(&r, &sigv4_vectors[0].credentials, 0, &canonical, NULL), 0);
    assert_ptr_equal(strstr(canonical.data, "GET\n/a%2520b/%28c%29~/%C3%A9/\n"), canonical.data);
    nc_buf_done(&canonical);
}

static void test_too_many_parameters(void **state) {
    const char *query[2 * 80 + 1];
    struct sigv4_vector v = sigv4_vectors[0];
    struct nc_sigv4_request r = request_of(&v);
    struct nc_buf out = NC_BUF_INIT;
    struct nc_strv headers = NC_STRV_INIT;
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(query); k++)
        query[k] = "x";
    query[NC_ARRAY_SIZE(query) - 1] = NULL;
    r.query = query;
    assert_true(nc_sigv4_presign(&r, &v.credentials, &out, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    assert_true(nc_sigv4_canonical_request(&r, &v.credentials, 1, &out, &err) < 0);
    r.query = NULL;
    r.headers = query;
    assert_true(nc_sigv4_presign(&r, &v.credentials, &out, &err) < 0);
    assert_true(nc_sigv4_canonical_request(&r, &v.credentials, 0, &out, &err) < 0);
    assert_true(nc_sigv4_headers(&r, &v.credentials, &headers, &err) < 0);
    assert_int_equal(out.len, 0);
    assert_int_equal(headers.n, 0);
}

static void test_hosts(void **state) {
    static const struct {
        const char *service, *region, *domain, *host;
    } cases[] = {
        {"sts", "us-west-2", NULL, "sts.us-west-2.amazonaws.com"},
        {"sts", "eu-central-1", "amazonaws.com", "sts.eu-central-1.amazonaws.com"},
        {"sts", "cn-north-1", NULL, "sts.cn-north-1.amazonaws.com.cn"},
        {"ec2", "cn-northwest-1", "amazonaws.com.cn", "ec2.cn-northwest-1.amazonaws.com.cn"},
        {"sts", "us-gov-west-1", NULL, "sts.us-gov-west-1.amazonaws.com"},
        {"sts", "us-iso-east-1", NULL, "sts.us-iso-east-1.c2s.ic.gov"},
        {"sts", "us-isob-east-1", NULL, "sts.us-isob-east-1.sc2s.sgov.gov"},
        {"sts", "us-isof-south-1", NULL, "sts.us-isof-south-1.csp.hci.ic.gov"},
        {"sts", "eu-isoe-west-1", NULL, "sts.eu-isoe-west-1.cloud.adc-e.uk"},
        {"sts", "eusc-de-east-1", NULL, "sts.eusc-de-east-1.amazonaws.eu"},
        {"sts-fips", "us-east-1", NULL, "sts-fips.us-east-1.amazonaws.com"},
        {"sts", "us-iso-east-1", "example.test", "sts.us-iso-east-1.example.test"},
        {"sts", "us-west-2", "evil.test/?", NULL},
        {"sts", "us-west-2", "evil..test", NULL},
        {"sts", "us-west-2", "", NULL},
        {"sts", "us-west-2", ".x", NULL},
        {"sts", "us-west-2", "x-", NULL},
        {"sts", "us.west", NULL, NULL},
        {"sts", "", NULL, NULL},
        {"sts", NULL, NULL, NULL},
        {"s/s", "us-west-2", NULL, NULL},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        nc_auto_free char *host = nc_aws_host(cases[k].service, cases[k].region, cases[k].domain);
        if (!nc_streq(host, cases[k].host))
            fail_msg("case %zu: %s instead of %s", k, host ? host : "NULL",
                     cases[k].host ? cases[k].host : "NULL");
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_too_many_parameters),
        cmocka_unit_test(test_hosts),
    };

    return run_group(tests, NULL, NULL);
}
