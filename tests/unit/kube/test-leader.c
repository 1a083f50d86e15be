/*
 * Leadership over a scripted API server: taken, kept, lost to silence, given up.
 */
#include "groups.h"
#include "kube-script.h"
#include "virtual-clock.h"

#include "nc/clock.h"
#include "nc/kube-control.h"

#define COLLECTION "https://api.test:6443/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
#define LEASE COLLECTION "/nodeclaim-controller"
#define HELD(holder, version, renewed)                                                             \
    "{'kind':'Lease','metadata':{'name':'nodeclaim-controller','resourceVersion':'" version        \
    "'},'spec':{'holderIdentity':'" holder "','leaseDurationSeconds':1,'leaseTransitions':3,"      \
    "'acquireTime':'2023-11-14T22:13:20.000000Z','renewTime':'" renewed "'}}"
#define OURS(version) HELD("me", version, "2023-11-14T22:13:20.000000Z")
#define GET(...)                                                                                   \
    { .method = "GET", .url = LEASE, __VA_ARGS__ }
#define POST(...)                                                                                  \
    { .method = "POST", .url = COLLECTION, __VA_ARGS__ }
#define PUT(...)                                                                                   \
    { .method = "PUT", .url = LEASE, __VA_ARGS__ }
#define SEC 1000000u

struct observed {
    unsigned begun, ended, failed, read, written, released;
    uint64_t ended_usec;
    struct nc_leader *leader;
    bool wants_release;
};

static void on_released(void *userdata) {
    struct observed *h = userdata;

    h->released++;
}

static void on_changed(void *userdata, bool leads) {
    struct observed *h = userdata;

    assert_int_equal(nc_leader_leads(h->leader), leads);
    h->begun += leads;
    h->ended += !leads;
    if (!leads)
        h->ended_usec = nc_mono_usec();
    if (leads && h->wants_release)
        nc_leader_release(h->leader, 5 * SEC, on_released, h);
}

static void on_answered(void *userdata, bool is_write, const struct nc_err *err) {
    struct observed *h = userdata;

    if (err->class != NC_ERR_NONE)
        h->failed++;
    else if (is_write)
        h->written++;
    else
        h->read++;
}

static void begin(struct nc_kube *k, struct observed *h, uint64_t renew_usec, uint64_t retry_usec) {
    const struct nc_leader_options o = {.namespace = "kube-system",
                                        .name = "nodeclaim-controller",
                                        .rules = {.identity = "me",
                                                  .duration_usec = 15 * SEC,
                                                  .renew_usec = renew_usec,
                                                  .retry_usec = retry_usec},
                                        .changed = on_changed,
                                        .answered = on_answered,
                                        .userdata = h};
    struct nc_err err = NC_ERR_INIT;

    if (nc_leader_new(k, script_loop(), &o, &h->leader, &err) < 0)
        fail_msg("%s", err.msg);
    assert_false(nc_leader_leads(h->leader));
}

/* Turns the loop until the count is reached. */
static void wait_for(const unsigned *count, unsigned wanted) {
    const uint64_t until = nc_mono_usec() + 10 * SEC;

    while (*count < wanted) {
        assert_true(nc_mono_usec() < until);
        assert_true(clock_run(script_loop(), 100000) >= 0);
    }
}

static void wait_for_requests(size_t n) {
    const uint64_t until = nc_mono_usec() + 10 * SEC;

    while (script_requested() < n) {
        assert_true(nc_mono_usec() < until);
        assert_true(clock_run(script_loop(), 100000) >= 0);
    }
}

/* What stands in the last body, with ' for ". */
static void assert_said(const char *text) {
    nc_auto_free char *wanted = unquote(text);

    if (!strstr(script_last_body, wanted))
        fail_msg("no %s in %s", wanted, script_last_body);
}

/* No Lease: it is made, and from then on renewed by its version. */
static void test_accepted_and_kept(void **state) {
    struct observed h = {0};
    struct nc_kube *k =
        SCRIPT_CONTROLLER(GET(.status = 404), POST(.status = 201, .answer = OURS("5")),
                          PUT(.answer = OURS("6")), PUT(.stays_open = true));

    (void)state;
    begin(k, &h, 10 * SEC, 20000);
    wait_for_requests(2);
    assert_said("'holderIdentity':'me','leaseDurationSeconds':15");
    assert_true(script_last_timeout_usec <= 5 * SEC);
    wait_for(&h.begun, 1);
    wait_for_requests(3);
    assert_said("'resourceVersion':'5'");
    wait_for_requests(4);
    assert_said("'resourceVersion':'6'");
    assert_true(nc_leader_leads(h.leader));
    assert_string_equal(nc_leader_holder(h.leader), "me");
    assert_int_equal(h.begun, 1);
    assert_int_equal(h.ended, 0);
    nc_leader_free(h.leader);
    script_end(k);
    assert_int_equal(script_cancelled, 1);
}

/* Somebody else has it: nothing is written before its second is over unchanged on our clock,
 * however old its times are. */
static void test_taken_over(void **state) {
    struct observed h = {0};
    const uint64_t started = nc_mono_usec();
    struct nc_kube *k = SCRIPT_CONTROLLER(
        GET(.answer = HELD("other", "5", "2001-01-01T00:00:00.000000Z")),
        GET(.answer = HELD("other", "6", "2001-01-01T00:00:01.000000Z")), /* it is alive */
        GET(.answer = HELD("other", "7", "2001-01-01T00:00:01.000000Z")), /* a label was changed */
        PUT(.answer = OURS("8")));

    (void)state;
    begin(k, &h, 10 * SEC, 1050000);
    wait_for_requests(1);
    wait_for(&h.begun, 1);
    assert_true(nc_mono_usec() - started >= 2 * SEC);
    assert_said("'leaseTransitions':4");
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.read, 3);
    assert_int_equal(h.written, 1);
    nc_leader_free(h.leader);
    script_end(k);
}

static void test_somebody_was_faster(void **state) {
    struct observed h = {0};
    struct nc_kube *k = SCRIPT_CONTROLLER(GET(.answer = HELD("", "5", "")), PUT(.status = 409),
                                          GET(.stays_open = true));

    (void)state;
    begin(k, &h, 10 * SEC, 10000);
    wait_for_requests(3);
    assert_int_equal(h.begun, 0);
    assert_int_equal(h.failed, 0);  /* that is no failure */
    assert_int_equal(h.written, 0); /* nor a success */
    nc_leader_free(h.leader);
    script_end(k);
}

/* The API server is silent: leadership ends by the clock, while the request still hangs. */
static void test_lost_to_silence(void **state) {
    struct observed h = {0};
    uint64_t begun;
    struct nc_kube *k =
        SCRIPT_CONTROLLER(GET(.status = 404), POST(.answer = OURS("5")), PUT(.stays_open = true));

    (void)state;
    begun = nc_mono_usec();
    begin(k, &h, 300000, 20000);
    wait_for(&h.begun, 1);
    wait_for_requests(3);
    assert_true(script_last_timeout_usec <= 150000); /* another attempt fits in */
    wait_for(&h.ended, 1);
    assert_true(h.ended_usec - begun >= 300000);
    assert_false(nc_leader_leads(h.leader));
    nc_leader_free(h.leader);
    script_end(k);
    assert_int_equal(script_cancelled, 1);
}

/* Refusals are told and do not end the asking. */
static void test_refused(void **state) {
    struct observed h = {0};
    struct nc_kube *k = SCRIPT_CONTROLLER(GET(.status = 403), GET(.status = 404),
                                          POST(.status = 404), /* there is no such namespace */
                                          GET(.outcome = NC_HTTP_REFUSED), GET(.stays_open = true));

    (void)state;
    begin(k, &h, 10 * SEC, 10000);
    wait_for_requests(5);
    assert_int_equal(h.failed, 3);
    assert_int_equal(h.read, 1);
    assert_int_equal(h.written, 0);
    assert_int_equal(h.begun, 0);
    nc_leader_free(h.leader);
    script_end(k);
}

/* A clean stop: not ours any more from the call on, and the Lease says so. */
static void test_released(void **state) {
    struct observed h = {0};
    struct nc_kube *k = SCRIPT_CONTROLLER(GET(.status = 404), POST(.answer = OURS("5")),
                                          PUT(.answer = HELD("", "6", "")));

    (void)state;
    begin(k, &h, 10 * SEC, 5 * SEC);
    wait_for(&h.begun, 1);
    nc_leader_release(h.leader, 5 * SEC, on_released, &h);
    assert_int_equal(h.ended, 1);
    assert_int_equal(h.released, 0);
    assert_false(nc_leader_leads(h.leader));
    wait_for(&h.released, 1);
    assert_said("'holderIdentity':'','leaseDurationSeconds':1");
    assert_said("'resourceVersion':'5'");
    nc_leader_free(h.leader);
    script_end(k);
}

/* A renewal was in flight: whether it came through is read before anything is written. */
static void test_released_while_renewing(void **state) {
    struct observed h = {0};
    struct nc_kube *k =
        SCRIPT_CONTROLLER(GET(.status = 404), POST(.answer = OURS("5")), PUT(.stays_open = true),
                          GET(.answer = OURS("6")), PUT(.answer = HELD("", "7", "")));

    (void)state;
    begin(k, &h, 10 * SEC, 10000);
    wait_for_requests(3);
    nc_leader_release(h.leader, 5 * SEC, on_released, &h);
    wait_for(&h.released, 1);
    assert_said("'resourceVersion':'6'");
    nc_leader_free(h.leader);
    script_end(k);
}

/* It was taken meanwhile: what is another's is not touched. */
static void test_released_too_late(void **state) {
    struct observed h = {0};
    struct nc_kube *k =
        SCRIPT_CONTROLLER(GET(.status = 404), POST(.answer = OURS("5")), PUT(.status = 409),
                          GET(.answer = HELD("other", "9", "")));

    (void)state;
    begin(k, &h, 10 * SEC, 5 * SEC);
    wait_for(&h.begun, 1);
    nc_leader_release(h.leader, 5 * SEC, on_released, &h);
    wait_for(&h.released, 1);
    nc_leader_free(h.leader);
    script_end(k);
}

/* Nobody waits for an API server that is silent; what was never ours is not asked about. */
static void test_release_ends(void **state) {
    struct observed h = {0};
    struct nc_kube *k =
        SCRIPT_CONTROLLER(GET(.status = 404), POST(.answer = OURS("5")), PUT(.stays_open = true));

    (void)state;
    begin(k, &h, 10 * SEC, 5 * SEC);
    wait_for(&h.begun, 1);
    nc_leader_release(h.leader, 50000, on_released, &h);
    wait_for(&h.released, 1);
    nc_leader_free(h.leader);
    script_end(k);
    k = SCRIPT_CONTROLLER(GET(.answer = HELD("other", "5", "")));
    begin(k, &h, 10 * SEC, 5 * SEC);
    wait_for_requests(1);
    while (nc_leader_holder(h.leader)[0] == '\0')
        assert_true(clock_run(script_loop(), 100000) >= 0);
    nc_leader_release(h.leader, 5 * SEC, on_released, &h);
    wait_for(&h.released, 2);
    nc_leader_free(h.leader);
    script_end(k);
}

/* The program may decide to stop in the very callback that tells it that it leads. */
static void test_released_in_callback(void **state) {
    struct observed h = {.wants_release = true};
    struct nc_kube *k = SCRIPT_CONTROLLER(GET(.status = 404), POST(.answer = OURS("5")),
                                          PUT(.answer = HELD("", "6", "")));

    (void)state;
    begin(k, &h, 10 * SEC, 10000);
    wait_for(&h.released, 1);
    assert_int_equal(h.begun, 1);
    assert_int_equal(h.ended, 1);
    nc_leader_free(h.leader);
    script_end(k);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted_and_kept),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_somebody_was_faster),
        cmocka_unit_test(test_lost_to_silence),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_released),
        cmocka_unit_test(test_released_while_renewing),
        cmocka_unit_test(test_released_too_late),
        cmocka_unit_test(test_release_ends),
        cmocka_unit_test(test_released_in_callback),
    };

    return run_group(tests, NULL, NULL);
}
