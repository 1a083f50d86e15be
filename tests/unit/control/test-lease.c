/*
 * Leadership: who may take the Lease when, what is written, and when leading ends. The last test
 * lets several contenders fight over one server that loses and delays answers.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/lease.h"
#include "nc/mem.h"

#define SEC ((uint64_t)1000000)
#define START (1000 * SEC)          /* of the monotonic clock */
#define WALL (1767323045 * SEC + 6) /* 2026-01-02T03:04:05.000006Z */

static const struct nc_lease_rules rules = {
    .identity = "host_me",
    .duration_usec = NC_LEASE_DURATION_USEC,
    .renew_usec = NC_LEASE_RENEW_USEC,
    .retry_usec = NC_LEASE_RETRY_USEC,
};

static struct nc_value *lease_of(const char *holder, const char *renewed, int transitions) {
    nc_auto_free char *text =
        nc_asprintf("{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"7\"},"
                    "\"spec\":{\"holderIdentity\":\"%s\",\"leaseDurationSeconds\":15,"
                    "\"acquireTime\":\"2026-01-01T00:00:00.000000Z\",\"renewTime\":\"%s\","
                    "\"leaseTransitions\":%d}}",
                    holder, renewed, transitions);

    return json(text);
}

static void answer(struct nc_lease *l, enum nc_lease_verb v, struct nc_value *object, int status,
                   uint64_t now) {
    nc_auto_value struct nc_value *owned = object;

    nc_lease_answer(l, v, owned, status, now);
}

/* The server takes what we send. */
static void accept_write(struct nc_lease *l, enum nc_lease_verb v, const char *version,
                         uint64_t now) {
    struct nc_value *body = nc_lease_body(l, "kube-system", "nodeclaim-controller", false, WALL);

    nc_value_set_string(nc_value_get(body, "metadata"), "resourceVersion", version);
    answer(l, v, body, v == NC_LEASE_CREATE ? 201 : 200, now);
}

/* As far as leading. */
static void lead(struct nc_lease *l) {
    nc_lease_init(l, &rules);
    assert_int_equal(nc_lease_next(l, START), NC_LEASE_GET);
    answer(l, NC_LEASE_GET, NULL, 404, START);
    assert_int_equal(nc_lease_next(l, START), NC_LEASE_CREATE);
    accept_write(l, NC_LEASE_CREATE, "1", START);
    assert_true(nc_lease_leads(l, START));
}

static const char *spec_text(const struct nc_value *body, const char *key) {
    static char buf[32];

    return nc_value_scalar_text(nc_value_get(nc_value_get(body, "spec"), key), buf);
}

static void test_creates(void **state) {
    struct nc_lease l;

    (void)state;
    nc_lease_init(&l, &rules);
    assert_false(nc_lease_leads(&l, START));
    assert_true(nc_lease_until(&l) == UINT64_MAX);
    assert_int_equal(nc_lease_next(&l, START), NC_LEASE_GET);
    assert_int_equal(nc_lease_next(&l, START + 1), NC_LEASE_WAIT); /* for the answer */
    answer(&l, NC_LEASE_GET, NULL, 404, START + 2);
    assert_int_equal(nc_lease_next(&l, START + 2), NC_LEASE_CREATE);
    assert_false(nc_lease_leads(&l, START + 2));
    nc_auto_value struct nc_value *body = nc_lease_body(&l, "ns", "name", false, WALL);
    assert_string_equal(nc_value_string(nc_value_path(body, "metadata.namespace")), "ns");
    assert_string_equal(nc_value_string(nc_value_path(body, "metadata.name")), "name");
    assert_null(nc_value_path(body, "metadata.resourceVersion"));
    assert_string_equal(spec_text(body, "holderIdentity"), "host_me");
    assert_string_equal(spec_text(body, "acquireTime"), "2026-01-02T03:04:05.000006Z");
    assert_string_equal(spec_text(body, "renewTime"), "2026-01-02T03:04:05.000006Z");
    assert_string_equal(spec_text(body, "leaseDurationSeconds"), "15");
    assert_string_equal(spec_text(body, "leaseTransitions"), "0");
    accept_write(&l, NC_LEASE_CREATE, "1", START + 3);
    assert_true(nc_lease_leads(&l, START + 3));
    assert_int_equal(nc_lease_next(&l, START + 4), NC_LEASE_WAIT);
    assert_int_equal(l.next_usec, START + 3 + NC_LEASE_RETRY_USEC);
}

static void test_waits_for_another(void **state) {
    struct nc_lease l;
    uint64_t now = START;

    (void)state;
    nc_lease_init(&l, &rules);
    /* It renews for a while; that its clock says 1999 is nobody's business. */
    for (unsigned i = 0; i < 5; i++) {
        char renewed[40];
        (void)snprintf(renewed, sizeof(renewed), "1999-01-01T00:00:%02u.000000Z", i);
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_GET);
        answer(&l, NC_LEASE_GET, lease_of("other", renewed, 3), 200, now);
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_WAIT);
        now = l.next_usec;
    }
    /* Silent since: taken after its own 15 seconds, not before. */
    const uint64_t silent = now - NC_LEASE_RETRY_USEC;
    enum nc_lease_verb v = NC_LEASE_WAIT;
    for (unsigned i = 0; i < 20 && v != NC_LEASE_UPDATE; i++) {
        v = nc_lease_next(&l, now);
        if (v == NC_LEASE_GET)
            answer(&l, v, lease_of("other", "1999-01-01T00:00:04.000000Z", 3), 200, now);
        else if (v == NC_LEASE_WAIT)
            now = l.next_usec;
    }
    assert_int_equal(v, NC_LEASE_UPDATE);
    assert_true(now >= silent + 15 * SEC && now <= silent + 17 * SEC);
    nc_auto_value struct nc_value *body = nc_lease_body(&l, "ns", "name", false, WALL);
    assert_string_equal(nc_value_string(nc_value_path(body, "metadata.resourceVersion")), "7");
    assert_string_equal(spec_text(body, "leaseTransitions"), "4");
    assert_string_equal(spec_text(body, "acquireTime"), "2026-01-02T03:04:05.000006Z");
    assert_false(nc_lease_leads(&l, now)); /* not before it was accepted */
    accept_write(&l, v, "8", now);
    assert_true(nc_lease_leads(&l, now));
}

static void test_takes_what_nobody_holds(void **state) {
    struct nc_lease l;

    (void)state;
    nc_lease_init(&l, &rules);
    assert_int_equal(nc_lease_next(&l, START), NC_LEASE_GET);
    answer(&l, NC_LEASE_GET, lease_of("", "2026-01-01T00:00:00.000000Z", 9), 200, START);
    assert_int_equal(nc_lease_next(&l, START), NC_LEASE_UPDATE);
    nc_auto_value struct nc_value *body = nc_lease_body(&l, "ns", "name", false, WALL);
    assert_string_equal(spec_text(body, "leaseTransitions"), "10");
    /* Somebody was faster: look again after a pause, not at once. */
    answer(&l, NC_LEASE_UPDATE, NULL, 409, START);
    assert_int_equal(nc_lease_next(&l, START), NC_LEASE_WAIT);
    assert_int_equal(nc_lease_next(&l, START + NC_LEASE_RETRY_USEC), NC_LEASE_GET);
}

static void test_renews(void **state) {
    struct nc_lease l;

    (void)state;
    nc_lease_init(&l, &rules);
    assert_int_equal(nc_lease_next(&l, START), NC_LEASE_GET);
    answer(&l, NC_LEASE_GET, lease_of("host_me", "2026-01-01T00:00:01.000000Z", 9), 200, START);
    assert_false(nc_lease_leads(&l, START)); /* it is ours, but how old is it? */
    for (uint64_t now = START; now < START + 30 * SEC; now += 2 * SEC) {
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_UPDATE);
        nc_auto_value struct nc_value *body = nc_lease_body(&l, "ns", "name", false, WALL);
        assert_string_equal(spec_text(body, "leaseTransitions"), "9");
        assert_string_equal(spec_text(body, "acquireTime"), "2026-01-01T00:00:00.000000Z");
        assert_string_equal(spec_text(body, "renewTime"), "2026-01-02T03:04:05.000006Z");
        accept_write(&l, NC_LEASE_UPDATE, "8", now);
        assert_true(nc_lease_leads(&l, now));
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_WAIT);
    }
}

static void test_stops_without_an_answer(void **state) {
    struct nc_lease l;
    const uint64_t requested = START + NC_LEASE_RETRY_USEC;

    (void)state;
    lead(&l);
    assert_int_equal(nc_lease_next(&l, requested), NC_LEASE_UPDATE);
    /* The answer takes three seconds; leading counts from when it was requested. */
    accept_write(&l, NC_LEASE_UPDATE, "2", requested + 3 * SEC);
    assert_true(nc_lease_until(&l) == requested + NC_LEASE_RENEW_USEC);
    assert_int_equal(nc_lease_next(&l, requested + 5 * SEC), NC_LEASE_UPDATE);
    assert_true(nc_lease_leads(&l, requested + NC_LEASE_RENEW_USEC - 1));
    assert_false(nc_lease_leads(&l, requested + NC_LEASE_RENEW_USEC));
    assert_int_equal(nc_lease_next(&l, requested + NC_LEASE_RENEW_USEC), NC_LEASE_WAIT);
    /* It comes at last, and is old already. */
    accept_write(&l, NC_LEASE_UPDATE, "3", requested + 20 * SEC);
    assert_false(nc_lease_leads(&l, requested + 20 * SEC));
}

static void test_fails_to_renew(void **state) {
    const int statuses[] = {0, 409, 500, 403};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(statuses); i++) {
        struct nc_lease l;
        const uint64_t now = START + NC_LEASE_RETRY_USEC;

        lead(&l);
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_UPDATE);
        answer(&l, NC_LEASE_UPDATE, NULL, statuses[i], now);
        assert_true(nc_lease_leads(&l, now));
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_GET); /* at once */
        answer(&l, NC_LEASE_GET, lease_of("host_me", "2026-01-01T00:00:01.000000Z", 0), 200, now);
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_UPDATE);
        answer(&l, NC_LEASE_UPDATE, NULL, statuses[i], now);
        assert_int_equal(nc_lease_next(&l, now), NC_LEASE_WAIT); /* and then in turn */
        assert_int_equal(l.next_usec, now + NC_LEASE_RETRY_USEC);
        assert_false(nc_lease_leads(&l, START + NC_LEASE_RENEW_USEC));
    }
}

static void test_sees_another_leader(void **state) {
    struct nc_lease l;
    const uint64_t now = START + NC_LEASE_RETRY_USEC;

    (void)state;
    lead(&l);
    assert_int_equal(nc_lease_next(&l, now), NC_LEASE_UPDATE);
    answer(&l, NC_LEASE_UPDATE, NULL, 409, now);
    assert_int_equal(nc_lease_next(&l, now), NC_LEASE_GET);
    answer(&l, NC_LEASE_GET, lease_of("other", "2026-01-01T00:00:01.000000Z", 1), 200, now);
    assert_false(nc_lease_leads(&l, now));
    assert_int_equal(nc_lease_next(&l, now), NC_LEASE_WAIT);
}

static void test_is_deleted(void **state) {
    struct nc_lease l;
    const uint64_t now = START + NC_LEASE_RETRY_USEC;

    (void)state;
    lead(&l);
    assert_int_equal(nc_lease_next(&l, now), NC_LEASE_UPDATE);
    answer(&l, NC_LEASE_UPDATE, NULL, 404, now);
    assert_int_equal(nc_lease_next(&l, now), NC_LEASE_GET);
    answer(&l, NC_LEASE_GET, NULL, 404, now);
    assert_int_equal(nc_lease_next(&l, now), NC_LEASE_CREATE);
    accept_write(&l, NC_LEASE_CREATE, "1", now);
    assert_true(nc_lease_until(&l) == now + NC_LEASE_RENEW_USEC);
}

static void test_releases(void **state) {
    struct nc_lease l;

    (void)state;
    lead(&l);
    nc_auto_value struct nc_value *body = nc_lease_body(&l, "ns", "name", true, WALL);
    assert_string_equal(spec_text(body, "holderIdentity"), "");
    assert_string_equal(spec_text(body, "leaseDurationSeconds"), "1");
    assert_string_equal(spec_text(body, "leaseTransitions"), "0");
    assert_string_equal(nc_value_string(nc_value_path(body, "metadata.resourceVersion")), "1");
}

/* No object of these is trusted: it is as if nothing had answered. */
static void test_hostile(void **state) {
#define META "\"metadata\":{\"resourceVersion\":\"7\"}"
    static const char *const rows[] = {
        "[]",
        "{}",
        "{\"metadata\":{}}",
        "{\"metadata\":{\"resourceVersion\":7}}",
        "{\"metadata\":{\"resourceVersion\":\"\"}}",
        "{\"metadata\":{\"resourceVersion\":\"0123456789012345678901234567890123456789"
        "012345678901234567890123456789\"}}",
        "{\"kind\":\"Status\"," META "}",
        "{\"kind\":7," META "}",
        "{" META ",\"spec\":[]}",
        "{" META ",\"spec\":{\"holderIdentity\":7}}",
        "{" META ",\"spec\":{\"leaseDurationSeconds\":-1}}",
        "{" META ",\"spec\":{\"leaseDurationSeconds\":\"15\"}}",
        "{" META ",\"spec\":{\"leaseDurationSeconds\":2147483648}}",
        "{" META ",\"spec\":{\"leaseTransitions\":-1}}",
        "{" META ",\"spec\":{\"leaseTransitions\":1.5}}",
        "{" META ",\"spec\":{\"renewTime\":7}}",
        "{" META ",\"spec\":{\"acquireTime\":\"2026-01-01T00:00:00.00000000000000000000Z\"}}",
    };

    (void)state;
    for (size_t i = 0; i <= NC_ARRAY_SIZE(rows); i++) {
        struct nc_lease l;
        char holder[300] = {0};
        memset(holder, 'x', sizeof(holder) - 1);
        nc_lease_init(&l, &rules);
        assert_int_equal(nc_lease_next(&l, START), NC_LEASE_GET);
        answer(&l, NC_LEASE_GET, i < NC_ARRAY_SIZE(rows) ? json(rows[i]) : lease_of(holder, "", 1),
               200, START);
        assert_int_equal(nc_lease_next(&l, START), NC_LEASE_WAIT);
        assert_int_equal(nc_lease_next(&l, l.next_usec), NC_LEASE_GET);
    }
    /* A Lease that nobody has written to yet is nobody's. */
    struct nc_lease l;
    nc_lease_init(&l, &rules);
    assert_int_equal(nc_lease_next(&l, START), NC_LEASE_GET);
    answer(&l, NC_LEASE_GET, json("{" META ",\"spec\":null}"), 200, START);
    assert_int_equal(nc_lease_next(&l, START), NC_LEASE_UPDATE);
    /* An answer to what was not asked changes nothing. */
    answer(&l, NC_LEASE_CREATE, lease_of("host_me", "", 1), 201, START);
    assert_false(nc_lease_leads(&l, START));
    /* Neither does one that says that somebody else holds what we are said to have written. */
    answer(&l, NC_LEASE_UPDATE, lease_of("other", "", 1), 200, START);
    assert_false(nc_lease_leads(&l, START));
}

/* One server, several contenders with clocks of their own. */
#define N 3
struct contender {
    struct nc_lease l;
    char identity[8];
    uint64_t offset_usec; /* its monotonic clock is ahead by so much */
    enum nc_lease_verb requested;
    struct nc_value *body;
    uint64_t arrives_usec, answered_usec;
    bool has_arrived, is_lost;
    struct nc_value *object;
    int status;
};
struct arena {
    struct contender c[N];
    struct nc_value *lease;
    unsigned version;
    uint64_t seed, now;
};

static void set_version(struct arena *a) {
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", ++a->version);
    nc_value_set_string(nc_value_get(a->lease, "metadata"), "resourceVersion", text);
}

static int serve(struct arena *a, const struct contender *c) {
    if (c->requested == NC_LEASE_GET)
        return a->lease ? 200 : 404;
    if (c->requested == NC_LEASE_CREATE && a->lease)
        return 409;
    if (c->requested == NC_LEASE_UPDATE && !a->lease)
        return 404;
    if (c->requested == NC_LEASE_UPDATE
        && !nc_value_equal(nc_value_path(a->lease, "metadata.resourceVersion"),
                           nc_value_path(c->body, "metadata.resourceVersion")))
        return 409;
    nc_value_free(a->lease);
    a->lease = nc_value_copy(c->body);
    set_version(a);
    return 200;
}

static void arrive(struct arena *a, struct contender *c) {
    c->has_arrived = true;
    c->status = c->is_lost && prng_below(&a->seed, 2) == 0 ? 0 : serve(a, c);
    if (c->status == 200 && !c->is_lost)
        c->object = nc_value_copy(a->lease);
    if (c->is_lost)
        c->status = 0;
}

static void turn(struct arena *a, struct contender *c) {
    const uint64_t mono = a->now + c->offset_usec;

    if (c->requested == NC_LEASE_WAIT) {
        c->requested = nc_lease_next(&c->l, mono);
        if (c->requested == NC_LEASE_WAIT)
            return;
        const bool slow = prng_below(&a->seed, 6) == 0;
        c->body = nc_lease_body(&c->l, "ns", "name", false, WALL + a->now);
        c->arrives_usec = a->now + prng_below(&a->seed, slow ? 9 * SEC : SEC / 20);
        c->answered_usec = c->arrives_usec + prng_below(&a->seed, slow ? 9 * SEC : SEC / 20);
        c->is_lost = prng_below(&a->seed, 8) == 0;
        c->has_arrived = false;
    }
    if (!c->has_arrived && a->now >= c->arrives_usec)
        arrive(a, c);
    if (c->has_arrived && a->now >= c->answered_usec) {
        nc_lease_answer(&c->l, c->requested, c->object, c->status, mono);
        c->body = nc_value_free(c->body);
        c->object = nc_value_free(c->object);
        c->requested = NC_LEASE_WAIT;
    }
}

/* Never two at once; and somebody most of the time. */
static void test_arena(void **state) {
    unsigned led = 0, steps = 0, changes = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct arena a = {.seed = seed, .now = START};
        int last = -1;
        for (unsigned i = 0; i < N; i++) {
            struct nc_lease_rules r = rules;
            (void)snprintf(a.c[i].identity, sizeof(a.c[i].identity), "c%u", i);
            r.identity = a.c[i].identity;
            a.c[i].offset_usec = prng_below(&a.seed, 1000) * SEC;
            nc_lease_init(&a.c[i].l, &r);
        }
        for (; a.now < START + 300 * SEC; a.now += SEC / 50, steps++) {
            int leader = -1;
            for (unsigned i = 0; i < N; i++) {
                turn(&a, &a.c[i]);
                if (!nc_lease_leads(&a.c[i].l, a.now + a.c[i].offset_usec))
                    continue;
                if (leader >= 0)
                    fail_msg("seed %llu: two lead at once", (unsigned long long)seed);
                leader = (int)i;
            }
            led += leader >= 0;
            changes += leader >= 0 && last >= 0 && leader != last;
            last = leader >= 0 ? leader : last;
        }
        for (unsigned i = 0; i < N; i++) {
            nc_value_free(a.c[i].body);
            nc_value_free(a.c[i].object);
        }
        nc_value_free(a.lease);
    }
    assert_true(led > steps / 2);
    assert_true(changes > 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_creates),
        cmocka_unit_test(test_waits_for_another),
        cmocka_unit_test(test_takes_what_nobody_holds),
        cmocka_unit_test(test_renews),
        cmocka_unit_test(test_stops_without_an_answer),
        cmocka_unit_test(test_fails_to_renew),
        cmocka_unit_test(test_sees_another_leader),
        cmocka_unit_test(test_is_deleted),
        cmocka_unit_test(test_releases),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_arena),
    };

    return run_group(tests, NULL, NULL);
}
