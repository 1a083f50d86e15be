/*
 * What an answer to an eviction, a mark or a deletion means, and whose budget it names.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/mem.h"
#include "nc/pod.h"

#define EVICT_TEXT "Cannot evict pod as it would violate the pod's disruption budget."
#define NEEDS " needs 3 healthy pods and has 3 currently"

static const struct {
    const char *name;
    int http;
    const char *reason, *cause, *message;
    enum nc_pod_answer_kind kind;
    const char *budget, *announced;
} rows[] = {
    {"201", 201, NULL, NULL, NULL, NC_ANSWER_ACCEPTED, "", ""},
    {"200", 200, "x", "y", "z", NC_ANSWER_ACCEPTED, "", ""},
    {"202", 202, NULL, NULL, NULL, NC_ANSWER_ACCEPTED, "", ""},
    {"404", 404, "NotFound", NULL, "pods \"a\" not found", NC_ANSWER_GONE, "",
     "'pods \"a\" not found'"},
    {"an eviction's uid", 409, "Conflict", NULL,
     "the UID in the precondition (a) does not match the UID in record (b)", NC_ANSWER_GONE, "",
     "'the UID in the precondition (a) does not match the UID in record (b)'"},
    {"the uid, as the store says it", 409, "Conflict", NULL,
     "Precondition failed: UID in precondition: a, UID in object meta: b", NC_ANSWER_GONE, "",
     "'Precondition failed: UID in precondition: a, UID in object meta: b'"},
    {"others below the same budget were faster", 409, "Conflict", NULL,
     "the object has been modified; please apply your changes", NC_ANSWER_BUSY, "",
     "'the object has been modified; please apply your changes'"},
    {"409 without a word", 409, "Conflict", NULL, NULL, NC_ANSWER_BUSY, "", "'Conflict'"},

    {"a budget's sentence", 429, "TooManyRequests", "DisruptionBudget",
     "The disruption budget e-pdb" NEEDS, NC_ANSWER_BUDGET, "e-pdb",
     "'The disruption budget e-pdb" NEEDS "'"},
    {"behind another sentence", 429, "TooManyRequests", "DisruptionBudget",
     EVICT_TEXT ": The disruption budget e.pdb-0" NEEDS, NC_ANSWER_BUDGET, "e.pdb-0",
     "'The disruption budget e.pdb-0" NEEDS "'"},
    {"a budget that was not judged yet", 429, "TooManyRequests", "DisruptionBudget",
     "The disruption budget web is still being processed by the server.", NC_ANSWER_BUDGET, "web",
     "'The disruption budget web is still being processed by the server.'"},
    {"without its name", 429, NULL, "DisruptionBudget", EVICT_TEXT, NC_ANSWER_BUDGET, "",
     "'Cannot evict pod as it would violate the pod\\'s disruption budget.'"},
    {"no name at all", 429, NULL, "DisruptionBudget", "The disruption budget " NEEDS,
     NC_ANSWER_BUDGET, "", "'The disruption budget " NEEDS "'"},
    {"a name that cannot be", 429, NULL, "DisruptionBudget", "The disruption budget A" NEEDS,
     NC_ANSWER_BUDGET, "", "'The disruption budget A" NEEDS "'"},
    {"a name and something else", 429, NULL, "DisruptionBudget", "The disruption budget a is full",
     NC_ANSWER_BUDGET, "", "'The disruption budget a is full'"},
    {"nothing", 429, NULL, "DisruptionBudget", NULL, NC_ANSWER_BUDGET, "", "HTTP 429"},
    {"a name as long as the field", 429, NULL, "DisruptionBudget",
     "The disruption budget abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc" NEEDS,
     NC_ANSWER_BUDGET, "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc",
     "'The disruption budget abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc" NEEDS
     "'"},
    {"a longer one is cut", 429, NULL, "DisruptionBudget",
     "The disruption budget abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcd" NEEDS,
     NC_ANSWER_BUDGET, "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij…",
     "'The disruption budget abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcd" NEEDS
     "'"},

    {"priority and fairness", 429, NULL, NULL, "Too many requests, please try again later.",
     NC_ANSWER_BUSY, "", "'Too many requests, please try again later.'"},
    {"too many of a storage that begins", 429, "TooManyRequests", NULL, "(re)initializing",
     NC_ANSWER_BUSY, "", "'(re)initializing'"},
    {"another cause", 429, NULL, "Other", "The disruption budget a" NEEDS, NC_ANSWER_BUSY, "",
     "'The disruption budget a" NEEDS "'"},
#define DENIED(hook) "admission webhook \"" hook "\" denied the request"
    {"KubeVirt's denial", 429, "TooManyRequests", NULL, DENIED("k") ": Eviction triggered",
     NC_ANSWER_REFUSED, "", "'" DENIED("k") ": Eviction triggered'"},
    {"a denial with the cause of a budget", 429, "TooManyRequests", "DisruptionBudget",
     DENIED("k") " without explanation", NC_ANSWER_REFUSED, "",
     "'" DENIED("k") " without explanation'"},
    {"a denial with 404 is no pod that is gone", 404, "NotFound", NULL, DENIED("k") ": a",
     NC_ANSWER_REFUSED, "", "'" DENIED("k") ": a'"},
    {"a denial with 409 is no other pod", 409, "Conflict", NULL,
     DENIED("k") ": the UID in the precondition", NC_ANSWER_REFUSED, "",
     "'" DENIED("k") ": the UID in the precondition'"},
    {"a denial with 400", 400, "BadRequest", NULL, DENIED("k") ": a", NC_ANSWER_REFUSED, "",
     "'" DENIED("k") ": a'"},
    {"a denial with 401", 401, "Unauthorized", NULL, DENIED("k") ": a", NC_ANSWER_REFUSED, "",
     "'" DENIED("k") ": a'"},
    {"a denial with 500", 500, "InternalError", NULL,
     DENIED("k") ": more than one "
                 "PodDisruptionBudget",
     NC_ANSWER_REFUSED, "", "'" DENIED("k") ": more than one PodDisruptionBudget'"},
    {"a denial with 503", 503, "ServiceUnavailable", NULL, DENIED("k") ": a", NC_ANSWER_REFUSED, "",
     "'" DENIED("k") ": a'"},
    {"a policy's denial with 401", 401, "Unauthorized", NULL,
     "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
     NC_ANSWER_REFUSED, "",
     "'pods \"a\" is forbidden: ValidatingAdmissionPolicy \\'p\\' with binding \\'b\\' denied "
     "request: no'"},
    {"who only quotes one", 503, "ServiceUnavailable", NULL, "x: " DENIED("k"),
     NC_ANSWER_UNAVAILABLE, "", "'x: " DENIED("k") "'"},
    {"a proxy's 404", 404, NULL, NULL, "<html>", NC_ANSWER_FAILED, "", "'<html>'"},
    {"too many, and nobody says until when", 429, "TooManyRequests", NULL, "migrating",
     NC_ANSWER_REFUSED, "", "'migrating'"},
    {"two budgets", 500, "InternalError", NULL,
     "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
     "support.",
     NC_ANSWER_BUDGETS, "",
     "'This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
     "support.'"},
    {"two budgets, as kube-apiserver says it", 500, NULL, NULL,
     "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
     "support.",
     NC_ANSWER_BUDGETS, "",
     "'This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
     "support.'"},
    {"500 for any other reason", 500, "InternalError", NULL, "etcdserver: request timed out",
     NC_ANSWER_FAILED, "", "'etcdserver: request timed out'"},
    {"a webhook that does not answer", 500, "InternalError", NULL,
     "Internal error occurred: failed calling webhook \"a.b\"", NC_ANSWER_FAILED, "",
     "'Internal error occurred: failed calling webhook \"a.b\"'"},
    {"500 without a word", 500, NULL, NULL, NULL, NC_ANSWER_UNAVAILABLE, "", "HTTP 500"},
    {"502", 502, NULL, NULL, NULL, NC_ANSWER_UNAVAILABLE, "", "HTTP 502"},

    {"a namespace that ends", 403, "Forbidden", "NamespaceTerminating", "x", NC_ANSWER_NAMESPACE,
     "", "'x'"},
    {"403", 403, "Forbidden", NULL, "x", NC_ANSWER_REFUSED, "", "'x'"},
    {"400", 400, NULL, NULL, "x", NC_ANSWER_REFUSED, "", "'x'"},
    {"422", 422, NULL, NULL, "x", NC_ANSWER_REFUSED, "", "'x'"},
    {"405", 405, NULL, NULL, NULL, NC_ANSWER_REFUSED, "", "HTTP 405"},
    {"401", 401, "Unauthorized", NULL, "", NC_ANSWER_UNAVAILABLE, "", "'Unauthorized'"},
    {"408", 408, NULL, NULL, NULL, NC_ANSWER_UNAVAILABLE, "", "HTTP 408"},
    {"503", 503, NULL, NULL, NULL, NC_ANSWER_UNAVAILABLE, "", "HTTP 503"},
    {"504", 504, NULL, NULL, NULL, NC_ANSWER_UNAVAILABLE, "", "HTTP 504"},
    {"a redirection", 302, NULL, NULL, NULL, NC_ANSWER_UNAVAILABLE, "", "HTTP 302"},
    {"no connection", 0, NULL, NULL, "timed out after 2 s", NC_ANSWER_UNAVAILABLE, "",
     "'timed out after 2 s'"},
    {"nothing is known", 0, NULL, NULL, NULL, NC_ANSWER_UNAVAILABLE, "", "no answer"},
    {"control characters", 403, NULL, NULL, "a\x1b[31m\nb", NC_ANSWER_REFUSED, "",
     "'a\\x1b[31m\\nb'"},
};

/* A proxy's copy of what a busy server says; its rows have a Retry-After, which this has not. */
static void test_busy_in_a_status(void **state) {
    struct nc_pod_answer a;

    (void)state;
    nc_pod_answer_read(
        &(struct nc_pod_response){.http = 429,
                                  .reason = "TooManyRequests",
                                  .message = "Too many requests, please try again later."},
        &a);
    assert_int_equal(a.kind, NC_ANSWER_BUSY);
}

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const uint64_t retry_usec = rows[i].kind == NC_ANSWER_BUSY ? 5 : 0;
        struct nc_pod_answer a;
        nc_pod_answer_read(&(struct nc_pod_response){rows[i].http, rows[i].reason, rows[i].cause,
                                                     rows[i].message, retry_usec},
                           &a);
        if (a.kind != rows[i].kind || strcmp(a.budget, rows[i].budget) != 0
            || strcmp(a.message, rows[i].announced) != 0)
            print_message("# %s\n", rows[i].name);
        assert_int_equal(a.kind, rows[i].kind);
        assert_string_equal(a.budget, rows[i].budget);
        assert_string_equal(a.message, rows[i].announced);
        assert_int_equal(a.retry_after_usec, retry_usec);
    }
}

/* However long and whatever it is, what is kept is complete characters and fits. */
static void test_cut(void **state) {
    (void)state;
    for (size_t n = 1; n < 300; n++) {
        nc_auto_free char *text = nc_calloc(n * 3 + 1, 1);
        struct nc_pod_answer a;
        for (size_t i = 0; i < n; i++)
            memcpy(text + 3 * i, "\u20ac", 3);
        nc_pod_answer_read(&(struct nc_pod_response){.http = 403, .message = text}, &a);
        assert_true(strlen(a.message) < sizeof(a.message));
        if (n <= 84) /* all of them, between quotes */
            assert_int_equal(strlen(a.message), 3 * n + 2);
        else
            assert_string_equal(a.message + strlen(a.message) - 6, "\u20ac…");
    }
}

/* No more than a bound is checked. */
static void test_bound(void **state) {
    nc_auto_free char *text = nc_calloc(100000, 1);
    const struct nc_pod_response budget = {
        .http = 429, .cause = "DisruptionBudget", .message = text};
    struct nc_pod_answer a;

    (void)state;
    memset(text, 'x', 5000);
    memcpy(text + 5000, "The disruption budget a" NEEDS, sizeof("The disruption budget a" NEEDS));
    nc_pod_answer_read(&budget, &a);
    assert_string_equal(a.budget, "");
    memset(text, 'a', 99999);
    memcpy(text, "The disruption budget ", 22);
    nc_pod_answer_read(&budget, &a);
    assert_string_equal(a.budget, "");
}

/* Whom somebody else denies it, allowing the request helps nothing. */
static void test_unauthorized(void **state) {
    static const struct {
        const char *message;
        int http;
        bool is_unauthorized;
    } said[] = {
        {"pods \"a\" is forbidden: User \"system:node:n\" cannot create resource "
         "\"pods/eviction\" in API group \"\" in the namespace \"default\"",
         403, true},
        {"pods \"a\" is forbidden: node \"n\" can only evict pods with spec.nodeName set to itself",
         403, false},
        {DENIED("k") ": \"a\" cannot go", 403, false},
        {"\"a\" cannot go", 429, false},
    };
    struct nc_pod_answer a;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(said); i++) {
        nc_pod_answer_read(
            &(struct nc_pod_response){.http = said[i].http, .message = said[i].message}, &a);
        assert_int_equal(a.is_unauthorized, said[i].is_unauthorized);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_in_a_status),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_unauthorized),
    };

    return run_group(tests, NULL, NULL);
}
