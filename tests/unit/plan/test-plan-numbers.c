/*
 * The plan's arithmetic, one rule at a time: addresses, pods, reservations, thresholds,
 * predictions. Expected figures are printed by real clusters or published by those who made the
 * rule; where a formula is checked over many inputs it is written a second time here, in another
 * way.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/file.h"
#include "nc/mem.h"

#include "numbers.h"

#define MI ((int64_t)1 << 20)
#define GI ((int64_t)1 << 30)

static struct nc_instance_type type_of(const char *name) {
    struct nc_instance_type t;

    if (!nc_instance_type_find(NULL, 0, name, &t))
        fail_msg("%s is not in the table", name);
    return t;
}

static void test_cluster_dns(void **state) {
    static const struct {
        const char *cidr, *dns; /* NULL: refused */
    } rows[] = {
        {"10.100.0.0/16", "10.100.0.10"},
        {"172.20.0.0/16", "172.20.0.10"},
        {"10.100.5.7/16", "10.100.0.10"},
        {"172.20.4.128/25", "172.20.4.138"},
        {"10.96.0.0/12", "10.96.0.10"},
        {"10.111.0.0/12", "10.96.0.10"},
        {"192.168.7.250/28", "192.168.7.250"},
        {"192.168.7.240/28", "192.168.7.250"},
        {"0.0.0.0/0", "0.0.0.10"},
        {"255.255.255.255/24", "255.255.255.10"},
        {"fd00::/108", "fd00::a"},
        {"fc00::/7", "fc00::a"},
        {"fd00:0:0:0:0:0:0:0/108", "fd00::a"},
        {"fd30:1c53:5f8a::/108", "fd30:1c53:5f8a::a"},
        {"fd30:1c53:5f8a::ffff/108", "fd30:1c53:5f8a::a"},
        {"fd00::f0/124", "fd00::fa"},
        {"10.0.0.0/29", NULL},
        {"10.0.0.0/32", NULL},
        {"fd00::/125", NULL},
        {"fd00::/128", NULL},
        {"10.0.0.0", NULL},
        {"10.0.0.0/", NULL},
        {"10.0.0.0/33", NULL},
        {"10.0.0.0/-1", NULL},
        {"10.0.0.0/+8", NULL},
        {"10.0.0.0/8 ", NULL},
        {"10.0.0/8", NULL},
        {"10.0.0.256/8", NULL},
        {"fd00::/129", NULL},
        {"fd00:::/64", NULL},
        {"example.com/8", NULL},
        {"/8", NULL},
        {"", NULL},
        {"1111111111111111111111111111111111111111111111111111111111111111111111111/8", NULL},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        char dns[64] = "";
        int r = nc_cidr_dns(rows[i].cidr, dns, sizeof(dns));
        if ((r == 0) != (rows[i].dns != NULL) || (rows[i].dns && strcmp(dns, rows[i].dns) != 0))
            fail_msg("%s: %d %s instead of %s", rows[i].cidr, r, dns,
                     rows[i].dns ? rows[i].dns : "(error)");
    }
    assert_int_equal(nc_cidr_dns(NULL, (char[64]){0}, 64), -EINVAL);
    assert_int_equal(nc_cidr_dns("10.0.0.0/29", (char[64]){0}, 64), -ERANGE);
    assert_int_equal(nc_cidr_dns("10.0.0.0/8", (char[64]){0}, 4), -ENOSPC);
    assert_int_equal(nc_address_family("10.0.0.1"), 4);
    assert_int_equal(nc_address_family("fd00::/8"), 6);
    assert_int_equal(nc_address_family("x"), 0);
    assert_int_equal(nc_address_family(NULL), 0);
}

/* Core by core, in tenths of a millicore: what is left over of a tenth is cut off once, at the end.
 */
static void test_cpu_steps(void **state) {
    int64_t tenths = 0;

    (void)state;
    assert_int_equal(nc_reserve_cpu_steps(0), 0);
    assert_int_equal(nc_reserve_cpu_steps(-1), 0);
    for (int64_t n = 1; n < 2000; n++) {
        tenths += n == 1 ? 600 : n == 2 ? 100 : n <= 4 ? 50 : 25;
        if (nc_reserve_cpu_steps(n) != tenths / 10)
            fail_msg("%lld CPUs: %lld", (long long)n, (long long)nc_reserve_cpu_steps(n));
    }
    static const int64_t published[][2] = {
        {1, 60},    {2, 70},    {4, 80},     {8, 90},     {16, 110},  {32, 150},
        {36, 160},  {48, 190},  {64, 230},   {96, 310},   {128, 390}, {192, 550},
        {224, 630}, {256, 710}, {384, 1030}, {448, 1190}, {896, 2310}};
    for (size_t i = 0; i < NC_ARRAY_SIZE(published); i++)
        assert_int_equal(nc_reserve_cpu_steps(published[i][0]), published[i][1]);
}

static struct nc_resources reserved(struct nc_reserve_input in, struct nc_resources *system) {
    struct nc_resources k, s;

    assert_int_equal(nc_reserve(&in, &k, &s, NULL), 0);
    if (system)
        *system = s;
    return k;
}

static void test_policies(void **state) {
    struct nc_reserve_input in = {NC_RESERVATION_KARPENTER, 2, 8 * GI, 29, 110, 0, 34};
    struct nc_resources k, s;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    k = reserved(in, &s);
    assert_int_equal(k.cpu_millicores, 70);
    assert_int_equal(k.memory_bytes, 574 * MI);
    assert_int_equal(k.ephemeral_bytes, GI);
    assert_int_equal(k.pods, -1);
    assert_int_equal(s.cpu_millicores, -1);
    in.policy = 0;
    assert_int_equal(reserved(in, NULL).memory_bytes, 574 * MI);
    in.policy = NC_RESERVATION_ACTUAL;
    assert_int_equal(reserved(in, NULL).memory_bytes, 1465 * MI);
    in.policy = NC_RESERVATION_AUTO_MODE;
    in.planned_pods = 27;
    k = reserved(in, &s);
    assert_int_equal(k.memory_bytes, 552 * MI);
    assert_int_equal(s.cpu_millicores, 450);
    assert_int_equal(s.memory_bytes, 437 * MI);
    in.policy = NC_RESERVATION_EXPLICIT;
    k = reserved(in, &s);
    assert_int_equal(k.cpu_millicores, -1);
    assert_int_equal(k.memory_bytes, -1);
    assert_int_equal(k.ephemeral_bytes, -1);
    in.policy = NC_RESERVATION_GKE;
    in.mem_total_bytes = -1;
    assert_true(nc_reserve(&in, &k, &s, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
    in.policy = NC_RESERVATION_AKS;
    assert_true(nc_reserve(&in, &k, &s, &err) < 0);
    assert_non_null(strstr(err.msg, "aks"));
}

/* GKE's published example: 7.5 GB-class machines; here whole GiB, in MiB. */
static void test_gke(void **state) {
    static const int64_t rows[][2] = {{512, 255},     {1023, 255},    {1024, 256},   {2048, 512},
                                      {4096, 1024},   {8192, 1844},   {16384, 2663}, {32768, 3646},
                                      {131072, 9544}, {262144, 12166}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_reserve_input in = {NC_RESERVATION_GKE, 4, rows[i][0] * MI, 29, 29, 0, 34};
        if (reserved(in, NULL).memory_bytes != rows[i][1] * MI)
            fail_msg("%lld MiB: %lld", (long long)rows[i][0],
                     (long long)(reserved(in, NULL).memory_bytes / MI));
        assert_int_equal(reserved(in, NULL).cpu_millicores, 80);
    }
}

static void test_aks(void **state) {
    static const int64_t cpus[][2] = {{1, 60},   {2, 100},  {3, 120},  {4, 140},  {8, 180},
                                      {16, 260}, {32, 420}, {64, 740}, {96, 1060}};
    struct nc_reserve_input in = {NC_RESERVATION_AKS, 0, 8 * GI, 29, 30, 0, 34};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(cpus); i++) {
        in.cpus = cpus[i][0];
        assert_int_equal(reserved(in, NULL).cpu_millicores, cpus[i][1]);
    }
    assert_int_equal(reserved(in, NULL).memory_bytes, 650 * MI); /* 20 * 30 + 50 */
    in.mem_total_bytes = 4 * GI;
    in.final_pods = 70;
    assert_int_equal(reserved(in, NULL).memory_bytes, GI); /* a quarter, not 1450Mi */
    in.kubelet_minor = 28;
    in.mem_total_bytes = 7 * GI;
    assert_int_equal(reserved(in, NULL).memory_bytes,
                     1639 * MI); /* 25 % of 4 + 20 % of 3, rounded up to Mi */
}

static void test_reserve_maps(void **state) {
    static const struct {
        const char *map, *message; /* NULL: fine */
    } rows[] = {
        {"{'cpu': '200m', 'memory': '100Mi', 'ephemeral-storage': '3Gi', 'pid': '1000'}", NULL},
        {"{'memory': '9E'}", NULL},
        {"{}", NULL},
        {"null", NULL},
        {"{'cpu': 1}", NULL},
        {"{'cpu': 'x'}", "kubeReserved.cpu: cannot be reserved"},
        {"{'cpu': ''}", "kubeReserved.cpu: cannot be reserved"},
        {"{'cpu': null}", "kubeReserved.cpu: cannot be reserved"},
        {"{'cpu': '-1'}", "kubeReserved.cpu: cannot be reserved"},
        {"{'cpu': '9E'}", "kubeReserved.cpu: too large"},
        {"{'gpu': '1'}", "kubeReserved.gpu: cannot be reserved"},
        {"[]", "kubeReserved: a map"},
        {"'x'", "kubeReserved: a map"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *map = json(rows[i].map);
        struct nc_err err = NC_ERR_INIT;
        struct nc_resources r = {5, 5, 5, 5};
        int result = nc_reserve_read(map, "kubeReserved", &r, &err);
        if ((result < 0) != (rows[i].message != NULL)
            || (rows[i].message && !strstr(err.msg, rows[i].message)))
            fail_msg("%s: %d %s", rows[i].map, result, err.msg);
        assert_int_equal(err.class, rows[i].message ? NC_ERR_CONFIG : NC_ERR_NONE);
    }
    {
        nc_auto_value struct nc_value *map = json(rows[0].map);
        struct nc_resources r;
        assert_int_equal(nc_reserve_read(map, "kubeReserved", &r, NULL), 0);
        assert_int_equal(r.cpu_millicores, 200);
        assert_int_equal(r.memory_bytes, 100 * MI);
        assert_int_equal(r.ephemeral_bytes, 3 * GI);
        assert_int_equal(r.pods, -1);
    }
}

static void test_thresholds(void **state) {
    int64_t v;

    (void)state;
    /* seen on a real node: 20959212Ki, 10 %, 1Gi reserved -> 18242267924 */
    assert_int_equal(nc_eviction_bytes("10%", 21462233088, NC_PERCENT_KUBELET, &v), 0);
    assert_int_equal(v, 2146223340);
    assert_int_equal(nc_eviction_bytes("10%", 21462233088, NC_PERCENT_KARPENTER, &v), 0);
    assert_int_equal(v, 2146223309);
    assert_int_equal(nc_eviction_bytes("5%", 3788 * MI, NC_PERCENT_KARPENTER, &v), 0);
    assert_int_equal(v, 198600295);
    assert_int_equal(nc_eviction_bytes("10%", 20 * GI, NC_PERCENT_KARPENTER, &v), 0);
    assert_int_equal(v, 2 * GI);
    assert_int_equal(nc_eviction_bytes("100%", GI, NC_PERCENT_KARPENTER, &v), 0);
    assert_int_equal(v, 0);
    assert_int_equal(nc_eviction_bytes("100%", GI, NC_PERCENT_KUBELET, &v), 0);
    assert_int_equal(v, 0);
    assert_int_equal(nc_eviction_bytes("0%", GI, NC_PERCENT_KUBELET, &v), 0);
    assert_int_equal(v, 0);
    assert_int_equal(nc_eviction_bytes("7.5%", 1000, NC_PERCENT_KUBELET, &v), 0);
    assert_int_equal(v, 75);
    assert_int_equal(nc_eviction_bytes("100Mi", 0, NC_PERCENT_KUBELET, &v), 0);
    assert_int_equal(v, 100 * MI);
    static const char *const bad[] = {"",    "%",      "-1%", "101%", "1e1%", ".5%",
                                      "5.%", "1.2.3%", "x%",  "1 %",  "10%%"};
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad); i++)
        if (nc_eviction_bytes(bad[i], 1000, NC_PERCENT_KUBELET, &v) == 0)
            fail_msg("'%s' is %lld", bad[i], (long long)v);
}

static void expect_karpenter(const char *type, const char *user_text, int64_t disk, int64_t cpu,
                             int64_t memory, int64_t ephemeral, int64_t pods) {
    struct nc_instance_type t = type_of(type);
    nc_auto_value struct nc_value *user = json(user_text);
    struct nc_resources c, a;

    nc_predict_karpenter(&t, user, disk, &c, &a);
    if (a.cpu_millicores != cpu || a.memory_bytes != memory || a.ephemeral_bytes != ephemeral
        || a.pods != pods)
        fail_msg("%s: %lld %lld %lld %lld", type, (long long)a.cpu_millicores,
                 (long long)a.memory_bytes, (long long)a.ephemeral_bytes, (long long)a.pods);
}

/* What Karpenter's log, its documentation and Auto Mode's NodeClaim print. */
static void test_printed_nodes(void **state) {
    static const char block[] =
        "{'podsPerCore': 2, 'maxPods': 20,"
        "'kubeReserved': {'cpu': '200m', 'memory': '100Mi', 'ephemeral-storage': '3Gi'},"
        "'systemReserved': {'cpu': '100m', 'memory': '100Mi', 'ephemeral-storage': '1Gi'},"
        "'evictionHard': {'memory.available': '5%', 'nodefs.available': '10%', "
        "'nodefs.inodesFree': '10%'}}";
    struct nc_instance_type t = type_of("c5a.large");
    struct nc_resources c, a;

    (void)state;
    expect_karpenter("m5.large", "{}", 20 * GI, 1930, 6903 * MI, 17 * GI, 29);
    expect_karpenter("c5.large", "{}", 20 * GI, 1930, 3114 * MI, 17 * GI, 29);
    expect_karpenter("r5.large", "{}", 20 * GI, 1930, 14481 * MI, 17 * GI, 29);
    expect_karpenter("m5.xlarge", "{}", 20 * GI, 3920, 14162 * MI, 17 * GI, 58);
    expect_karpenter("c3.2xlarge", "{}", 20 * GI, 7910, 13215 * MI, 17 * GI, 58);
    expect_karpenter("m7g.large", "{}", 20 * GI, 1930, 6844 * MI, 17 * GI, 29);
    expect_karpenter("t3.nano", "{}", 20 * GI, 1930, 74 * MI, 17 * GI, 4);
    expect_karpenter("t3.medium", block, 100 * GI, 1700, 3563690393, 86 * GI, 4);
    expect_karpenter("c5.large", block, 100 * GI, 1700, 3563690393, 86 * GI, 4);
    expect_karpenter("t3.large", block, 100 * GI, 1700, 7338092134, 86 * GI, 4);
    expect_karpenter("m5.xlarge", block, 100 * GI, 3700, 14886895616, 86 * GI, 8);
    expect_karpenter("t3.xlarge", block, 100 * GI, 3700, 14886895616, 86 * GI, 8);
    nc_predict_auto_mode(&t, 80 * GI, &c, &a);
    assert_int_equal(c.memory_bytes, 3788 * MI);
    assert_int_equal(c.pods, 27);
    assert_int_equal(a.cpu_millicores, 1480);
    assert_int_equal(a.memory_bytes, 2699 * MI);
    assert_int_equal(a.ephemeral_bytes, 71 * GI);
    assert_int_equal(a.pods, 27);
    t = type_of("p5.48xlarge");
    assert_int_equal(nc_max_pods_eni(&t), 100);
    expect_karpenter("m5.large",
                     "{'kubeReserved': {'cpu': 'x'}, 'evictionHard': {'memory.available': 'x'}}",
                     20 * GI, 1930, 7003 * MI, 17 * GI,
                     29); /* nonsense counts for nothing here: the checks refuse it before */
}

/* Every type of the table, by the formulas written down once more. */
static void test_every_type(void **state) {
    const char *source = getenv("NC_SRCDIR");
    nc_auto_free char *path = nc_asprintf("%s/data/instance-types.tsv", source ? source : ".");
    nc_cleanup(nc_buf_done) struct nc_buf table = NC_BUF_INIT;
    unsigned types = 0;

    (void)state;
    assert_int_equal(nc_file_read(path, 4 << 20, &table, NULL), 0);
    for (char *rest = table.data, *line; (line = strsep(&rest, "\n"));) {
        char name[64], vcpus[16], memory[16], arch[16], enis[16], ips[16];
        struct nc_resources c, a;
        struct nc_instance_type t;
        if (sscanf(line, "%63[^\t]\t%15[^\t]\t%15[^\t]\t%15[^\t]\t%15[^\t]\t%15[^\t]", name, vcpus,
                   memory, arch, enis, ips)
                != 6
            || *line == '#' || strcmp(name, "type") == 0)
            continue;
        t = type_of(name);
        nc_predict_karpenter(&t, NULL, 20 * GI, &c, &a);
        {
            int64_t n = atoll(vcpus), m = atoll(memory), pods = atoll(enis) * (atoll(ips) - 1) + 2,
                    net, used;
            bool known = strcmp(vcpus, "-") != 0;
            m -= strcmp(arch, "arm64") == 0 ? 64 : 0;
            net = m - (m * 3 + 39) / 40; /* 7.5 % = 3/40 */
            used = 11 * pods + 255 + 100;
            assert_int_equal(c.pods, pods);
            assert_int_equal(c.memory_bytes, known ? net * MI : -1);
            assert_int_equal(a.memory_bytes, known ? (net > used ? net - used : 0) * MI : -1);
            assert_int_equal(a.cpu_millicores, known ? n * 1000 - nc_reserve_cpu_steps(n) : -1);
            assert_int_equal(a.ephemeral_bytes, 17 * GI);
        }
        types++;
    }
    assert_true(types >= 1400);
}

static struct nc_max_pods pods_of(const char *type, struct nc_config c, struct nc_plan *p) {
    struct nc_facts f = {.cpus = 2, .instance_type = (char *)type};
    struct nc_instance_type t = {0};
    const struct nc_plan_input in = {.facts = &f, .config = &c};
    struct nc_max_pods m;

    nc_instance_type_find(NULL, 0, type, &t);
    assert_int_equal(nc_max_pods_decide(&in, &t, &m, p, NULL), 0);
    return m;
}

static void test_modes(void **state) {
    nc_cleanup(nc_plan_done) struct nc_plan p = NC_PLAN_INIT;
    struct nc_config c = {.max_pods_mode = NC_MAX_PODS_ENI};
    struct nc_max_pods m;

    (void)state;
    assert_int_equal(pods_of("m5.large", c, &p).base, 29);
    assert_int_equal(pods_of("m5.24xlarge", c, &p).base,
                     737); /* the cap belongs to prefixes only */
    c.max_pods_mode = NC_MAX_PODS_CUSTOM_NETWORKING;
    m = pods_of("t3.large", c, &p);
    assert_int_equal(m.base, 24);
    assert_int_equal(m.reserved, 35);
    assert_int_equal(m.eni, 35);
    c.max_pods_mode = NC_MAX_PODS_PREFIX;
    assert_int_equal(pods_of("t3.nano", c, &p).base, 34);     /* 2 * 1 * 16 + 2 */
    assert_int_equal(pods_of("m5.large", c, &p).base, 110);   /* 434 capped */
    assert_int_equal(pods_of("c5.4xlarge", c, &p).base, 110); /* 16 vCPUs */
    assert_int_equal(pods_of("m5.8xlarge", c, &p).base, 250); /* 32 */
    assert_int_equal(pods_of("m5.metal", c, &p).base, 250);
    assert_int_equal(p.warnings.n, 0);
    assert_int_equal(pods_of("m4.large", c, &p).base, 20); /* Xen: no prefixes */
    assert_int_equal(p.warnings.n, 1);
    assert_non_null(strstr(p.warnings.v[0], "Nitro"));
    c.max_pods_mode = NC_MAX_PODS_EXPRESSION;
    c.max_pods_expression = (char *)"(default_enis - 1) * (ips_per_eni - 1)";
    m = pods_of("m5.large", c, &p);
    assert_int_equal(m.base, 18);
    assert_int_equal(m.reserved, 18);
    assert_int_equal(p.warnings.n, 1);
    c.max_pods_mode = NC_MAX_PODS_ENI;
    c.reservation = NC_RESERVATION_AUTO_MODE;
    m = pods_of("c5a.large", c, &p);
    assert_int_equal(m.base, 27);
    assert_int_equal(m.reserved, 27);
    assert_int_equal(m.eni, 29);
}

/* As every field that is not honoured: refused by name, or noted where the documents allow that. */
static void test_expression_that_gives_no_number(void **state) {
    static const struct {
        const char *text, *type, *why;
    } rows[] = {
        {"max_pods - 100", "m5.large", "the result -71 is not between"},
        {"max_pods / (default_enis - 3)", "m5.large", "division by zero"},
        {"max_pods * 0.9", "m5.large", "column 15: '*' mixes an integer and a fraction"},
        {"max_pods *", "x9.unknown", "ends too early"}, /* its numbers are not known, its text is */
        {"size([1])", "x9.unknown", "unknown name 'size'"},
    };
    nc_auto_value struct nc_value *warn = json("{'spec': {'bootstrap': {'unsupported': 'warn'}}}");

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_plan_done) struct nc_plan p = NC_PLAN_INIT;
        struct nc_config c = {.max_pods_mode = NC_MAX_PODS_EXPRESSION,
                              .max_pods_expression = (char *)rows[i].text};
        struct nc_facts f = {.cpus = 2, .instance_type = (char *)rows[i].type};
        const struct nc_plan_input in = {.facts = &f, .config = &c};
        struct nc_instance_type t = {0};
        struct nc_max_pods m = {.base = -7};
        struct nc_err err = NC_ERR_INIT;

        nc_instance_type_find(NULL, 0, rows[i].type, &t);
        assert_true(nc_max_pods_decide(&in, &t, &m, &p, &err) < 0);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        assert_non_null(strstr(err.msg, "spec.kubelet.maxPodsExpression: cannot be computed: "));
        assert_non_null(strstr(err.msg, rows[i].why));
        assert_non_null(strstr(err.remedy, "spec.bootstrap.unsupported: warn"));
        assert_int_equal(m.base, -7);
        assert_int_equal(p.unsupported.n + p.warnings.n, 0);
        c.tree = warn;
        assert_int_equal(nc_max_pods_decide(&in, &t, &m, &p, &err), 0);
        assert_int_equal(m.base, t.name[0] ? 29 : 110);
        assert_int_equal(p.unsupported.n, 1);
        assert_non_null(strstr(p.unsupported.v[0], rows[i].why));
        assert_non_null(strstr(p.warnings.v[0], rows[i].why));
    }
}

/* explicit, mode, the claim's capacity, EC2's answer, a guess: in this order. */
static void test_fallback(void **state) {
    nc_cleanup(nc_plan_done) struct nc_plan p = NC_PLAN_INIT;
    nc_auto_value struct nc_value *capacity = json("{'pods': '44', 'cpu': '2'}");
    struct nc_instance_type none = {0}, big = {.name = "x9.big", .enis = 4, .ipv4_per_eni = 15};
    struct nc_facts f = {.instance_type = (char *)"x9.big"};
    struct nc_config c = {.max_pods_mode = NC_MAX_PODS_ENI};
    const struct nc_claim claim = {.capacity = capacity};
    struct nc_plan_input in = {.facts = &f, .config = &c};
    struct nc_max_pods m;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_max_pods_decide(&in, &none, &m, &p, &err), 0);
    assert_int_equal(m.base, 110);
    assert_int_equal(m.reserved, 110);
    assert_int_equal(m.eni, -1);
    assert_int_equal(p.warnings.n, 1);
    assert_non_null(strstr(p.warnings.v[0], "x9.big"));
    f.described_type = big;
    assert_int_equal(nc_max_pods_decide(&in, &none, &m, &p, &err), 0);
    assert_int_equal(m.base, 58);
    assert_non_null(strstr(m.from, "EC2"));
    in.claim = &claim;
    assert_int_equal(nc_max_pods_decide(&in, &none, &m, &p, &err), 0);
    assert_int_equal(m.base, 44);
    assert_int_equal(m.reserved, 58);
    c.max_pods_mode = NC_MAX_PODS_EXPRESSION; /* needs the type's numbers, and has them */
    c.max_pods_expression = (char *)"max_pods - 1";
    assert_int_equal(nc_max_pods_decide(&in, &none, &m, &p, &err), 0);
    assert_int_equal(m.base, 57);
    assert_int_equal(m.reserved, 57);
    assert_int_equal(p.warnings.n, 1);
    f.described_type = none;
    assert_int_equal(nc_max_pods_decide(&in, &none, &m, &p, &err), 0);
    assert_int_equal(m.base, 44);
    assert_non_null(strstr(p.warnings.v[1], "maxPodsExpression: instance type x9.big is not in"));
    f.described_type = big;
    c.max_pods_mode = NC_MAX_PODS_ENI;
    assert_int_equal(nc_max_pods_decide(&in, &big, &m, &p, &err), 0);
    assert_int_equal(m.base, 58);
    nc_value_set_string(capacity, "pods", "0");
    assert_int_equal(nc_max_pods_decide(&in, &none, &m, &p, &err), 0);
    assert_int_equal(m.base, 58);
    c.max_pods_mode = NC_MAX_PODS_EXPLICIT;
    c.max_pods_value = 12;
    assert_int_equal(nc_max_pods_decide(&in, &big, &m, &p, &err), 0);
    assert_int_equal(m.base, 12);
    assert_int_equal(p.warnings.n, 2);
    c.max_pods_value = 0;
    assert_true(nc_max_pods_decide(&in, &big, &m, &p, &err) < 0);
    assert_int_equal(err.class, NC_ERR_CONFIG);
}

static void test_cpusets(void **state) {
    static const struct {
        const char *text;
        int64_t n, last; /* -1: refused */
    } rows[] = {{"0", 1, 0},    {"0-3", 4, 3},  {"0,2", 2, 2},   {"0-1,4,6-7", 5, 7},
                {"", -1, -1},   {"a", -1, -1},  {"3-1", -1, -1}, {"0,0", -1, -1},
                {"1-", -1, -1}, {"-1", -1, -1}, {"0,", -1, -1},  {"0-99999999", -1, -1}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        int64_t n = -1, last = -1;
        int r = nc_cpuset_count(rows[i].text, &n, &last);
        if ((r == 0) != (rows[i].n >= 0) || n != rows[i].n || last != rows[i].last)
            fail_msg("'%s': %d %lld %lld", rows[i].text, r, (long long)n, (long long)last);
    }
}

static void test_predict(void **state) {
    struct nc_facts f = {.cpus = 2,
                         .mem_total_bytes = 15337300 * (int64_t)1024,
                         .root_fs_bytes = 20959212 * (int64_t)1024};
    nc_auto_value struct nc_value *k =
        json("{'maxPods': 58, 'kubeReserved': {'cpu': '70m', 'memory': '893Mi', "
             "'ephemeral-storage': '1Gi'},"
             "'evictionHard': {'memory.available': '100Mi', 'nodefs.available': '10%'}}");
    nc_auto_value struct nc_value *cpus =
        json("{'maxPods': 20, 'podsPerCore': 4, 'reservedSystemCPUs': '0', 'kubeReserved': {'cpu': "
             "'70m'},"
             "'systemReserved': {'cpu': '1500m'}}");
    nc_auto_value struct nc_value *greedy = json("{'systemReserved': {'memory': '100Gi'}}");
    nc_auto_value struct nc_value *nonsense = json("{'reservedSystemCPUs': 'x'}");
    nc_auto_value struct nc_value *third = json("{'reservedSystemCPUs': '2'}");
    struct nc_prediction p;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_predict_kubelet(&f, k, NULL, &p, &err), 0);
    assert_int_equal(p.allocatable.cpu_millicores, 1930);
    assert_int_equal(p.allocatable.memory_bytes, 14320468 * (int64_t)1024); /* a real c3.2xlarge */
    assert_int_equal(p.allocatable.ephemeral_bytes, 18242267924);           /* a real node */
    assert_int_equal(p.allocatable.pods, 58);
    assert_int_equal(nc_predict_kubelet(&f, cpus, NULL, &p, &err), 0);
    assert_int_equal(p.allocatable.cpu_millicores, 1000);
    assert_int_equal(p.allocatable.pods, 8);
    assert_int_equal(p.capacity.pods, 8);
    assert_int_equal(nc_predict_kubelet(&f, greedy, NULL, &p, &err), -ERANGE);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_non_null(strstr(err.msg, "memory: 107374182400 is kept back of the 15705395200"));
    assert_int_equal(p.allocatable.memory_bytes, 0);
    assert_int_equal(p.allocatable.cpu_millicores, 2000);
    assert_true(nc_predict_kubelet(&f, nonsense, NULL, &p, &err) < 0);
    assert_int_equal(nc_predict_kubelet(&f, third, NULL, &p, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "CPU 1 is the last one"));
    f.last_cpu = 2; /* every second one is offline */
    assert_int_equal(nc_predict_kubelet(&f, third, NULL, &p, &err), 0);
    f = (struct nc_facts){.cpus = -1, .mem_total_bytes = -1, .root_fs_bytes = -1};
    assert_int_equal(nc_predict_kubelet(&f, k, NULL, &p, &err), 0);
    assert_int_equal(p.capacity.cpu_millicores, -1);
    assert_int_equal(p.allocatable.memory_bytes, -1);
    assert_int_equal(p.allocatable.pods, 58);
    assert_int_equal(nc_predict_kubelet(&f, greedy, NULL, &p, &err),
                     0); /* nothing is known: nothing to refuse */
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cluster_dns),
        cmocka_unit_test(test_cpu_steps),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_gke),
        cmocka_unit_test(test_aks),
        cmocka_unit_test(test_reserve_maps),
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_printed_nodes),
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_expression_that_gives_no_number),
        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_cpusets),
        cmocka_unit_test(test_predict),
    };

    return run_group(tests, NULL, NULL);
}
