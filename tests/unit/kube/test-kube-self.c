/*
 * signal: self on the wire: what may be sent to which NodeClaim, what is sent, and what each answer
 * means.
 */
#include "kube-script.h"

#include "nc/kube-self.h"

#include "guard-claim.h"

#define NOW 1700000000999999u /* 2023-11-14T22:13:20Z, rounded down */
#define CLAIM "/apis/karpenter.sh/v1/nodeclaims/pool-x"
#define TIME "'karpenter.sh/nodeclaim-termination-timestamp':'2023-11-14T22:13:20Z'"
#define PROBE "'nodeclaimd.io/guard-probe':'dry-run'"
#define PATCH(uid, annotations) "{'metadata':{'uid':'" uid "','annotations':{" annotations "}}}"
#define DELETION(uid) "{'apiVersion':'v1','kind':'DeleteOptions','preconditions':{'uid':'" uid "'}}"

static const struct {
    const char *method, *path, *body;
    bool may;
} rules[] = {
    {"GET", CLAIM, NULL, true},
    {"PATCH", CLAIM, PATCH("u", TIME), true},
    {"PATCH", CLAIM NC_DRY_RUN, PATCH("u", TIME), true},
    {"PATCH", CLAIM NC_DRY_RUN, PATCH("u", PROBE), true},
    {"DELETE", CLAIM, DELETION("u"), true},
    /* Another's. */
    {"PATCH", CLAIM, PATCH("v", TIME), false},
    {"PATCH", CLAIM, "{'metadata':{'annotations':{" TIME "}}}", false},
    {"PATCH", CLAIM "y", PATCH("u", TIME), false},
    {"PATCH", "/apis/karpenter.sh/v1/nodeclaims/other", PATCH("u", TIME), false},
    {"PATCH", "/apis/karpenter.sh/v1beta1/nodeclaims/pool-x", PATCH("u", TIME), false},
    {"DELETE", CLAIM, DELETION("v"), false},
    {"DELETE", CLAIM, NULL, false},
    {"DELETE", "/apis/karpenter.sh/v1/nodeclaims/other", DELETION("u"), false},
    {"DELETE", "/apis/karpenter.sh/v1/nodeclaims", DELETION("u"), false},
    /* Something else of ours. */
    {"PATCH", CLAIM, PATCH("u", PROBE), false},
    {"PATCH", CLAIM, PATCH("u", TIME "," PROBE), false},
    {"PATCH", CLAIM, PATCH("u", "'karpenter.sh/do-not-disrupt':'true'"), false},
    {"PATCH", CLAIM, PATCH("u", "'karpenter.sh/nodeclaim-termination-timestamp':null"), false},
    {"PATCH", CLAIM, PATCH("u", "'karpenter.sh/nodeclaim-termination-timestamp':'soon'"), false},
    {"PATCH", CLAIM,
     PATCH("u", "'karpenter.sh/nodeclaim-termination-timestamp':'2023-11-14T22:13:20+01:00'"),
     false},
    {"PATCH", CLAIM, "{'metadata':{'uid':'u','annotations':{" TIME "},'finalizers':[]}}", false},
    {"PATCH", CLAIM, "{'metadata':{'uid':'u','annotations':{" TIME "}},'spec':{}}", false},
    {"PATCH", CLAIM "/status", PATCH("u", TIME), false},
    {"PATCH", CLAIM "?dryRun=None", PATCH("u", TIME), false},
    {"PATCH", CLAIM, NULL, false},
    {"POST", CLAIM, PATCH("u", TIME), false},
    {"DELETE", CLAIM NC_DRY_RUN, DELETION("u"), false},
    {"DELETE", CLAIM "?gracePeriodSeconds=0", DELETION("u"), false},
    {"DELETE", CLAIM,
     "{'apiVersion':'v1','kind':'DeleteOptions','preconditions':{'uid':'u'},'propagationPolicy':"
     "'Orphan'}",
     false},
    {"DELETE", CLAIM, "{'apiVersion':'v1','kind':'DeleteOptions','preconditions':{}}", false},
};

static int try_rule(const struct nc_kube *k, size_t i) {
    nc_auto_value struct nc_value *body = rules[i].body ? js(rules[i].body) : NULL;
    const struct nc_kube_call c = {.what = "test",
                                   .method = rules[i].method,
                                   .path = rules[i].path,
                                   .body = body,
                                   .patch = nc_streq(rules[i].method, "PATCH") ? NC_KUBE_PATCH_MERGE
                                                                               : NC_KUBE_PATCH_NONE,
                                   .timeout_usec = 1000000};
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_kube_guard_own(k, &c, &err);

    if (r < 0)
        assert_int_equal(err.class, NC_ERR_BUG);
    return r;
}

/* Nothing may be written before a claim was named, nor after none is ours any more. */
static void test_rules(void **state) {
    struct nc_kube k = {0};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rules); i++) {
        print_message("# row %zu\n", i);
        assert_true((try_rule(&k, i) == 0) == nc_streq(rules[i].method, "GET"));
        nc_kube_own_claim(&k, "karpenter.sh/v1", "pool-x", "u");
        assert_true((try_rule(&k, i) == 0) == rules[i].may);
        nc_kube_own_claim(&k, NULL, NULL, NULL);
        assert_true((try_rule(&k, i) == 0) == nc_streq(rules[i].method, "GET"));
    }
}

struct heard {
    unsigned n;
    struct nc_self_asked asked;
};

static void on_asked(void *userdata, enum nc_self_question q, const struct nc_self_asked *a) {
    struct heard *h = userdata;

    (void)q;
    h->n++;
    h->asked = *a;
    sd_event_exit(script_loop(), 0);
}

static struct heard ask(const struct script_step *step, enum nc_self_question q) {
    struct nc_kube *k = script_begin(step, 1, NULL, NULL);
    struct nc_kube_req *req = NULL;
    struct nc_err err = NC_ERR_INIT;
    struct heard h = {0};

    nc_kube_own_claim(k, "karpenter.sh/v1", "pool-x", "u");
    if (nc_self_ask(k, q, "n1", NOW, 2000000, on_asked, &h, &req, &err) < 0)
        fail_msg("%s", err.msg);
    script_run();
    script_end(k);
    assert_int_equal(h.n, 1);
    return h;
}

#define URL "https://api.test:6443" CLAIM
static const struct {
    enum nc_self_question question;
    struct script_step step;
} questions[] = {
    {NC_SELF_READ, {.method = "GET", .url = URL}},
    {NC_SELF_TRY_FOREIGN, {.method = "PATCH", .url = URL NC_DRY_RUN, .body = PATCH("u", PROBE)}},
    {NC_SELF_TRY_STAMP, {.method = "PATCH", .url = URL NC_DRY_RUN, .body = PATCH("u", TIME)}},
    {NC_SELF_DO_STAMP,
     {.method = "PATCH",
      .url = URL,
      .header = "Content-Type: application/merge-patch+json",
      .body = PATCH("u", TIME)}},
    {NC_SELF_DO_DELETE, {.method = "DELETE", .url = URL, .body = DELETION("u")}},
};

static void test_questions(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(questions); i++) {
        struct script_step step = questions[i].step;
        print_message("# row %zu\n", i);
        step.answer = "{'metadata':{'uid':'u'}}";
        assert_int_equal(ask(&step, questions[i].question).asked.answer, NC_SELF_ALLOWED);
    }
}

#define STATUS(message) "{'kind':'Status','apiVersion':'v1','message':'" message "'}"
#define POLICY                                                                                     \
    "nodeclaims.karpenter.sh x is forbidden: ValidatingAdmissionPolicy node-agent-nodeclaim with " \
    "binding node-agent-nodeclaim denied request: a node may not"
static const struct {
    struct script_step step;
    enum nc_self_answer answer;
} answers[] = {
    {{.status = 403, .answer = STATUS(POLICY)}, NC_SELF_DENIED},
    {{.status = 422, .answer = STATUS(POLICY)}, NC_SELF_DENIED},
    {{.status = 403, .answer = STATUS("User system:node:n1 cannot patch resource nodeclaims")},
     NC_SELF_FORBIDDEN},
    {{.status = 422, .answer = STATUS("metadata.uid: field is immutable")}, NC_SELF_FORBIDDEN},
    {{.status = 500, .answer = STATUS(POLICY)}, NC_SELF_AWAY},
    {{.status = 404, .answer = STATUS("not found")}, NC_SELF_MISSING},
    {{.status = 409, .answer = STATUS("Precondition failed: UID in precondition: u")},
     NC_SELF_MISSING},
    {{.status = 409, .answer = STATUS("the object has been modified")}, NC_SELF_AWAY},
    {{.status = 429, .raw = "slow down"}, NC_SELF_AWAY},
    {{.outcome = NC_HTTP_REFUSED}, NC_SELF_AWAY},
};

static void test_answers(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(answers); i++) {
        print_message("# row %zu\n", i);
        assert_int_equal(ask(&answers[i].step, NC_SELF_TRY_FOREIGN).asked.answer,
                         answers[i].answer);
    }
}

/* Whose it is, is read off the object and nothing else. */
static void test_read(void **state) {
    static const struct {
        const char *object;
        enum nc_self_answer answer;
        bool is_ours, is_deleting, has_time;
    } rows[] = {
        {"{'metadata':{'uid':'u'},'status':{'nodeName':'n1'}}", NC_SELF_ALLOWED, true, false,
         false},
        {"{'metadata':{'uid':'u'},'status':{'nodeName':'n2'}}", NC_SELF_ALLOWED, false, false,
         false},
        {"{'metadata':{'uid':'u'},'status':{}}", NC_SELF_ALLOWED, false, false, false},
        {"{'metadata':{'uid':'v'},'status':{'nodeName':'n1'}}", NC_SELF_MISSING, false, false,
         false},
        {"{'metadata':{'uid':'u','annotations':{" TIME "},'deletionTimestamp':'x'},'status':{"
         "'nodeName':'n1'}}",
         NC_SELF_ALLOWED, true, true, true},
        {"{}", NC_SELF_MISSING, false, false, false},
        {"[]", NC_SELF_AWAY, false, false, false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const struct script_step step = {.answer = rows[i].object};
        const struct heard h = ask(&step, NC_SELF_READ);
        print_message("# row %zu\n", i);
        assert_int_equal(h.asked.answer, rows[i].answer);
        assert_int_equal(h.asked.is_ours, rows[i].is_ours);
        assert_int_equal(h.asked.is_deleting, rows[i].is_deleting);
        assert_int_equal(h.asked.has_time, rows[i].has_time);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
