/*
 * Finding our NodeClaim: the Table, its fallbacks, the owner of a Node, and answers that are not to
 * be trusted.
 */
#include "groups.h"
#include "kube-script.h"

#define BASE "https://api.test:6443/apis/karpenter.sh/"
#define ID "aws:///us-west-2a/i-0bb8a7e6111d45591"
#define COLUMNS                                                                                    \
    "'columnDefinitions':[{'name':'Name'},{'name':'Type'},{'name':'ID','priority':1},{'name':'"    \
    "NodePool'}]"
#define TABLE(rows) "{'kind':'Table','apiVersion':'meta.k8s.io/v1'," COLUMNS ",'rows':[" rows "]}"
#define ROW(name, id) "{'cells':['" name "','m5.large','" id "','default'],'object':null}"
#define CLAIM(name, uid, id)                                                                       \
    "{'apiVersion':'karpenter.sh/v1','kind':'NodeClaim','metadata':{'name':'" name "','uid':'" uid \
    "','labels':{'karpenter.sh/"                                                                   \
    "nodepool':'default'}},'spec':{'requirements':[],'nodeClassRef':{'group':'karpenter.k8s.aws'," \
    "'kind':"                                                                                      \
    "'EC2NodeClass','name':'default'}},'status':{'providerID':'" id "'}}"
#define STATUS(code, reason)                                                                       \
    "{'kind':'Status','apiVersion':'v1','status':'Failure','reason':'" reason "','code':" code "}"
#define TABLE_URL(version) BASE version "/nodeclaims?includeObject=None&resourceVersion=0"
#define TABLE_ACCEPT "Accept: application/json;as=Table;g=meta.k8s.io;v=v1,application/json"

static int find(struct nc_kube *k, struct nc_claim *claim, struct nc_kube_status *status,
                struct nc_err *err) {
    const struct nc_claim_search search = {.provider_id = ID, .timeout_usec = 5000000};

    return nc_claim_find(k, &search, claim, status, err);
}

static void test_find(void **state) {
    struct nc_label labels[] = {
        {.key = (char[]){"karpenter.sh/nodepool"}, .value = (char[]){"default"}},
        {.key = (char[]){"bad key,x=y"}, .value = (char[]){"v"}},
        {.key = (char[]){"k"}, .value = (char[]){"v,other=z"}},
        {.key = (char[]){""}, .value = (char[]){"v"}},
        {.key = (char[]){"topology.kubernetes.io/zone"}, .value = (char[]){"us-west-2a"}},
        {.key = (char[]){"e"}, .value = NULL}};
    struct nc_kube *k =
        SCRIPT(NULL, NULL,
               {.method = "GET",
                .header = TABLE_ACCEPT,
                .url = BASE "v1/"
                            "nodeclaims?labelSelector=karpenter.sh%2Fnodepool%3Ddefault%2Ctopology."
                            "kubernetes.io%2Fzone%3Dus-west-2a%2Ce%3D"
                            "&includeObject=None&resourceVersion=0",
                .answer = TABLE(
                    ROW("default-aaaaa", "aws:///us-west-2a/i-1") "," ROW("default-x7k2q", ID))},
               {.method = "GET",
                .url = BASE "v1/nodeclaims/default-x7k2q",
                .header = "Accept: application/json",
                .answer = CLAIM("default-x7k2q", "u-1", ID)});
    const struct nc_claim_search search = {.provider_id = ID,
                                           .labels = labels,
                                           .n_labels = NC_ARRAY_SIZE(labels),
                                           .timeout_usec = 5000000};
    struct nc_claim claim = {0};
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_claim_find(k, &search, &claim, &status, &err), 1);
    assert_string_equal(claim.name, "default-x7k2q");
    assert_string_equal(claim.uid, "u-1");
    assert_true(script_last_timeout_usec <= 5000000);
    nc_claim_done(&claim);
    script_end(k);
}

/* Each row: up to four answers, the outcome. */
static const struct {
    const char *about;
    struct script_step steps[4];
    int r; /* 1, 0, or -1 for negative */
    enum nc_err_class class;
    const char *expected;
} cases[] = {
    {"no claim has our id yet",
     {{.url = TABLE_URL("v1"),
       .answer = TABLE(ROW("a", "") "," ROW("b", "aws:///us-west-2a/i-1"))}},
     0,
     0,
     NULL},
    {"no rows", {{.answer = TABLE("")}}, 0, 0, NULL},
    {"rows of nonsense",
     {{.answer = TABLE("5,{'cells':{}},{'cells':[]},{'cells':[7,8,9,10]},{}")}},
     0,
     0,
     NULL},
    {"a row without a name", {{.answer = TABLE("{'cells':[5,'t','" ID "','p']}")}}, 0, 0, NULL},
    {"rows of the wrong type", {{.answer = "{'kind':'Table'," COLUMNS ",'rows':5}"}}, 0, 0, NULL},
    {"access is not granted",
     {{.status = 403, .answer = STATUS("403", "Forbidden")}},
     -1,
     NC_ERR_AUTH,
     "list nodeclaims: HTTP 403 Forbidden"},
    {"the API server is busy",
     {{.status = 503}},
     -1,
     NC_ERR_TRANSIENT,
     "list nodeclaims: HTTP 503"},
    {"no such API: the older one is asked, and it has none either",
     {{.url = TABLE_URL("v1"), .status = 404, .raw = "404 page not found\n"},
      {.url = TABLE_URL("v1beta1"), .status = 404}},
     -1,
     NC_ERR_PROTOCOL,
     "HTTP 404"},
    {"v1beta1 has no ID column: the objects are listed",
     {{.status = 404, .raw = "404 page not found\n"},
      {.url = TABLE_URL("v1beta1"),
       .answer = "{'kind':'Table','columnDefinitions':[{'name':'Name'}],'rows':[{'cells':['a']}]}"},
      {.url = BASE "v1beta1/nodeclaims?limit=200",
       .header = "Accept: application/json",
       .answer =
           "{'metadata':{'continue':'a/b'},'items':[5,{},{'status':{'providerID':'other'}}]}"},
      {.url = BASE "v1beta1/nodeclaims?limit=200&continue=a%2Fb",
       .answer = "{'items':[" CLAIM("default-x7k2q", "u", ID) "]}"}},
     1,
     0,
     NULL},
    {"the answer is a list, not a Table",
     {{.answer = "{'kind':'NodeClaimList','items':[]}"},
      {.answer = "{'items':[],'metadata':{'continue':''}}"}},
     0,
     0,
     NULL},
    {"a list of nonsense", {{.answer = "{}"}, {.answer = "{'items':7}"}}, 0, 0, NULL},
    {"the pages fail in the middle",
     {{.answer = "{}"}, {.answer = "{'metadata':{'continue':'x'}}"}, {.status = 410}},
     -1,
     NC_ERR_PROTOCOL,
     "HTTP 410"},
    {"a claim in the list that is none",
     {{.answer = "{}"},
      {.answer = "{'items':[{'kind':'NodeClaim','metadata':5,'status':{'providerID':'" ID "'}}]}"}},
     -1,
     NC_ERR_PROTOCOL,
     ""},
    {"the table is no JSON", {{.raw = "<html>"}}, -1, NC_ERR_PROTOCOL, "list nodeclaims"},
    {"the claim went away meanwhile",
     {{.answer = TABLE(ROW("a", ID))},
      {.status = 404, .answer = STATUS("404", "NotFound")},
      {.url = TABLE_URL("v1beta1"), .status = 404}},
     -1,
     NC_ERR_PROTOCOL,
     "HTTP 404"},
    {"the claim is no longer ours",
     {{.answer = TABLE(ROW("a", ID))}, {.answer = CLAIM("a", "u", "aws:///us-west-2a/i-2")}},
     0,
     0,
     NULL},
    {"another claim than was asked for",
     {{.answer = TABLE(ROW("a", ID))}, {.answer = CLAIM("b", "u", ID)}},
     -1,
     NC_ERR_PROTOCOL,
     "another object"},
    {"an empty claim",
     {{.answer = TABLE(ROW("a", ID))}, {.raw = ""}},
     -1,
     NC_ERR_PROTOCOL,
     "the answer is empty"},
    {"a claim of nonsense",
     {{.answer = TABLE(ROW("a", ID))}, {.answer = "{'kind':'NodeClaim','metadata':{'name':5}}"}},
     -1,
     NC_ERR_PROTOCOL,
     ""},
    {"a name that would leave its path",
     {{.answer = TABLE(ROW("../../nodes?x", ID))},
      {.url = BASE "v1/nodeclaims/..%2F..%2Fnodes%3Fx", .status = 400}},
     -1,
     NC_ERR_PROTOCOL,
     "HTTP 400"},
};

static void test_cases(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(cases); i++) {
        size_t n = 0;
        while (n < 4
               && (cases[i].steps[n].answer || cases[i].steps[n].raw || cases[i].steps[n].status))
            n++;
        struct nc_kube *k = script_begin(cases[i].steps, n, NULL, NULL);
        struct nc_claim claim = {0};
        struct nc_kube_status status;
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu: %s\n", i, cases[i].about);
        const int r = find(k, &claim, &status, &err);
        assert_int_equal(r < 0 ? -1 : r, cases[i].r);
        assert_int_equal(err.class, cases[i].class);
        if (cases[i].expected && !strstr(err.msg, cases[i].expected))
            fail_msg("%s", err.msg);
        if (r == 1)
            assert_string_equal(claim.provider_id, ID);
        else
            assert_null(claim.name);
        nc_claim_done(&claim);
        script_end(k);
    }
}

/* A list without an end is given up. */
static void test_endless(void **state) {
    static struct script_step steps[64];
    struct nc_claim claim = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    steps[0].answer = "{}";
    for (size_t i = 1; i < 51; i++)
        steps[i].answer = "{'items':[],'metadata':{'continue':'again'}}";
    struct nc_kube *k = script_begin(steps, 51, NULL, NULL);
    assert_true(find(k, &claim, NULL, &err) < 0);
    assert_int_equal(err.class, NC_ERR_PROTOCOL);
    assert_non_null(strstr(err.msg, "no end after 50 pages"));
    script_end(k);
}

#define NODE(refs) "{'metadata':{'name':'n','ownerReferences':" refs "}}"
#define REF(api, name, uid)                                                                        \
    "{'apiVersion':'" api "','kind':'NodeClaim','name':'" name "','uid':'" uid "'}"
static const struct {
    const char *node;
    struct script_step step;
    int r;
    enum nc_err_class class;
    const char *expected;
} owners[] = {
    {NODE("[{'apiVersion':'v1','kind':'X','name':'y'}," REF("karpenter.sh/v1", "a", "u") "]"),
     {.url = BASE "v1/nodeclaims/a", .answer = CLAIM("a", "u", ID)},
     1,
     0,
     ""},
    {NODE("[" REF("karpenter.sh/v1beta1", "a", "u") "]"),
     {.url = BASE "v1beta1/nodeclaims/a", .answer = CLAIM("a", "u", ID)},
     1,
     0,
     ""},
    {NODE("[" REF("karpenter.sh/v1", "a", "u") "]"),
     {.answer = CLAIM("a", "v", ID)},
     -1,
     NC_ERR_PROTOCOL,
     "another claim has the name"},
    {NODE("[" REF("karpenter.sh/v1", "a", "u") "]"),
     {.status = 403},
     -1,
     NC_ERR_AUTH,
     "get nodeclaim: HTTP 403"},
    {NODE("[" REF("karpenter.sh/v1", "a", "u") "]"),
     {.status = 404},
     -1,
     NC_ERR_PROTOCOL,
     "get nodeclaim: HTTP 404"},
    {NODE("[]"), {0}, 0, 0, ""},
    {NODE("{}"), {0}, 0, 0, ""},
    {NODE("[5," REF("karpenter.sh/v1", "", "u") "," REF("karpenter.sh/../v1", "a", "u") "," REF(
         "other.sh/v1", "a",
         "u") "," REF("karpenter.sh/v1/x", "a",
                      "u") "," REF("karpenter.sh/x1", "a",
                                   "u") "," REF("karpenter.sh/v1234567890123456", "a", "u") "]"),
     {0},
     0,
     0,
     ""},
    {"{}", {0}, 0, 0, ""},
};

static void test_owner(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(owners); i++) {
        nc_auto_value struct nc_value *node = js(owners[i].node);
        struct nc_kube *k = script_begin(&owners[i].step, owners[i].r != 0, NULL, NULL);
        struct nc_claim claim = {0};
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu\n", i);
        const int r = nc_claim_of_node(k, node, 5000000, &claim, &err);
        assert_int_equal(r < 0 ? -1 : r, owners[i].r);
        assert_int_equal(err.class, owners[i].class);
        assert_non_null(strstr(err.msg, owners[i].expected));
        nc_claim_done(&claim);
        script_end(k);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_owner),
    };

    return run_group(tests, NULL, NULL);
}
