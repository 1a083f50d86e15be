/*
 * The kube layer over the real transport: TLS, client certificate and token, against the fake API
 * server that enforces the node authorizer's rules (tests/fakes/apiserver.py, a process of its
 * own).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/http.h"
#include "nc/kube.h"
#include "nc/str.h"

#define ID "aws:///us-west-2a/i-0bb8a7e6111d45591"
#define TIMEOUT 10000000u
#define NODE                                                                                       \
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"node-a\"},\"spec\":{},"     \
    "\"status\":{\"conditions\":[{\"type\":"                                                       \
    "\"Ready\",\"status\":\"True\"}]}}"
#define CLAIM                                                                                      \
    "{\"apiVersion\":\"karpenter.sh/"                                                              \
    "v1\",\"kind\":\"NodeClaim\",\"metadata\":{\"name\":\"default-x7k2q\",\"labels\":{"            \
    "\"karpenter.sh/"                                                                              \
    "nodepool\":\"default\"}},\"spec\":{\"requirements\":[],\"nodeClassRef\":{\"group\":"          \
    "\"karpenter.k8s.aws\",\"kind\":"                                                              \
    "\"EC2NodeClass\",\"name\":\"default\"}},\"status\":{\"providerID\":\"" ID "\"}}"

static struct {
    char folder[64];
    pid_t pid;
    char *url, *control;
    char *cert, *key;
    struct nc_buf ca;
    sd_event *loop;
    struct nc_http *http;
    struct nc_kube *kube;
} f;

/* python3 with these arguments; its output comes through the pipe. */
static FILE *python(char *const *argv, pid_t *ret_pid) {
    int pipe_fd[2];

    assert_int_equal(pipe(pipe_fd), 0);
    *ret_pid = fork();
    assert_true(*ret_pid >= 0);
    if (*ret_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(pipe_fd[1], STDOUT_FILENO);
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        execvp("python3", argv);
        _exit(127);
    }
    close(pipe_fd[1]);
    return fdopen(pipe_fd[0], "r");
}

static void make_certificate(const char *fakes) {
    nc_auto_free char *program = nc_asprintf("import sys; sys.path.insert(0, '%s'); from pathlib "
                                             "import Path; from pki import Authority; "
                                             "Authority(Path('%s')).node('node-a')",
                                             fakes, f.folder);
    char *argv[] = {(char[]){"python3"}, (char[]){"-c"}, program, NULL};
    pid_t pid;
    int status;
    FILE *out = python(argv, &pid);

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fclose(out);
    f.cert = nc_asprintf("%s/node-node-a.crt", f.folder);
    f.key = nc_asprintf("%s/node-node-a.key", f.folder);
}

static char *read_line(FILE *from) {
    char line[200];

    if (!fgets(line, sizeof(line), from))
        fail_msg("the fake API server did not start");
    line[strcspn(line, "\n")] = '\0';
    return nc_strdup(line);
}

static void start_server(const char *fakes) {
    nc_auto_free char *program = nc_asprintf("%s/apiserver.py", fakes);
    nc_auto_free char *objects = nc_asprintf("%s/objects.json", f.folder);
    FILE *file = fopen(objects, "w");

    assert_non_null(file);
    fputs("[" NODE "," CLAIM "]", file);
    fclose(file);
    char *argv[] = {(char[]){"python3"},
                    program,
                    (char[]){"--dir"},
                    f.folder,
                    (char[]){"--claims-readable"},
                    (char[]){"--no-karpenter"},
                    (char[]){"--control"},
                    (char[]){"127.0.0.1:0"},
                    (char[]){"--objects"},
                    objects,
                    NULL};
    FILE *out = python(argv, &f.pid);
    f.url = read_line(out);
    f.control = read_line(out);
    fclose(out);
}

static struct nc_kube *client(const char *cert, const char *key, const char *ca,
                              nc_kube_token_fn token, void *userdata) {
    const struct nc_kube_options o = {
        .server = f.url,
        .tls = {.ca_pem = ca, .client_cert_file = cert, .client_key_file = key},
        .token = token,
        .userdata = userdata,
        .user_agent = "nodeclaimd/test"};
    struct nc_kube *k;

    assert_int_equal(nc_kube_new(f.http, &o, &k, NULL), 0);
    return k;
}

static int set_up(void **state) {
    const char *source = getenv("NC_SRCDIR");
    nc_auto_free char *fakes = nc_asprintf("%s/tests/fakes", source ? source : ".");
    nc_auto_free char *ca = NULL;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    strcpy(f.folder, "/tmp/nc-kube-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    make_certificate(fakes);
    start_server(fakes);
    ca = nc_asprintf("%s/ca.crt", f.folder);
    assert_int_equal(nc_file_read(ca, 1 << 16, &f.ca, &err), 0);
    assert_true(sd_event_new(&f.loop) >= 0);
    assert_int_equal(nc_http_new(f.loop, 0, &f.http, &err), 0);
    f.kube = client(f.cert, f.key, f.ca.data, NULL, NULL);
    return 0;
}

static int tear_down(void **state) {
    nc_auto_free char *command = nc_asprintf("rm -rf %s", f.folder);

    (void)state;
    nc_kube_free(f.kube);
    nc_http_free(f.http);
    sd_event_unref(f.loop);
    nc_buf_done(&f.ca);
    kill(f.pid, SIGTERM);
    waitpid(f.pid, NULL, 0);
    free(f.url);
    free(f.control);
    free(f.cert);
    free(f.key);
    return system(command) == 0 ? 0 : -1;
}

/* A switch of the fake: "POST /compact", "PUT /faults" with a body. */
static void turn(const char *method, const char *path, const char *body) {
    nc_auto_free char *url = nc_asprintf("%s%s", f.control, path);
    struct nc_http_answer answer = {0};
    const struct nc_http_options o = {.name = "control",
                                      .method = method,
                                      .url = url,
                                      .body = body,
                                      .body_n = body ? strlen(body) : 0,
                                      .timeout_usec = TIMEOUT,
                                      .max_body_bytes = 1 << 20,
                                      .no_proxy = true};

    assert_int_equal(nc_http_perform(f.http, &o, &answer, NULL), 0);
    assert_int_equal(answer.result.status, 200);
    nc_http_answer_done(&answer);
}

static int give_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    const char *const *tokens = userdata;

    (void)err;
    *ret_token = nc_strdup(tokens[refuse ? 1 : 0]);
    return 0;
}

static void test_identity(void **state) {
    static const char *const tokens[] = {"expired", "admin-token-of-the-test"};
    static const char *const wrong[] = {"expired", "expired as well"};
    struct nc_identity who = {0};
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    if (nc_kube_whoami(f.kube, TIMEOUT, &who, &status, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(who.username, "system:node:node-a");
    assert_true(nc_strv_contains(&who.groups, "system:nodes"));
    assert_true(status.date_usec > 0 && status.received_usec > 0);
    nc_identity_done(&who);

    struct nc_kube *k = client(NULL, NULL, f.ca.data, give_token, (void *)(uintptr_t)tokens);
    assert_int_equal(nc_kube_whoami(k, TIMEOUT, &who, &status, &err),
                     0); /* the second token is good */
    assert_string_equal(who.username, "admin");
    nc_identity_done(&who);
    nc_kube_free(k);

    k = client(NULL, NULL, f.ca.data, give_token, (void *)(uintptr_t)wrong);
    assert_true(nc_kube_whoami(k, TIMEOUT, &who, &status, &err) < 0);
    nc_kube_free(k);
    assert_int_equal(status.http, 401);
    assert_int_equal(err.class, NC_ERR_AUTH);

    k = client(f.cert, f.key, NULL, NULL, NULL); /* the system's roots do not know this server */
    assert_true(nc_kube_whoami(k, TIMEOUT, &who, &status, &err) < 0);
    nc_kube_free(k);
    assert_int_equal(status.http, 0);
    assert_int_equal(err.class, NC_ERR_AUTH);
}

static int get(const char *name, struct nc_value **ret, struct nc_kube_status *status,
               struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path(name, NULL);
    const struct nc_kube_call c = {
        .what = "get node", .method = "GET", .path = path, .timeout_usec = TIMEOUT};

    return nc_kube_perform(f.kube, &c, ret, status, err);
}

static int patch(const char *sub, enum nc_kube_patch kind, struct nc_value *body,
                 struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path("node-a", sub);
    nc_auto_value struct nc_value *owned = body;
    const struct nc_kube_call c = {.what = "patch node",
                                   .method = "PATCH",
                                   .path = path,
                                   .body = owned,
                                   .patch = kind,
                                   .timeout_usec = TIMEOUT};

    return nc_kube_perform(f.kube, &c, NULL, NULL, err);
}

static void test_node(void **state) {
    nc_auto_value struct nc_value *node = NULL;
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_true(get("node-b", &node, &status, &err) < 0);
    assert_int_equal(status.http, 403);
    assert_string_equal(status.reason, "Forbidden");
    err = (struct nc_err)NC_ERR_INIT;
    if (patch("status", NC_KUBE_PATCH_STRATEGIC,
              nc_node_condition_patch("BootstrapComplete", "True", "Ready", "done",
                                      1700000000000000u, 0),
              &err)
            < 0
        || patch(NULL, NC_KUBE_PATCH_MERGE,
                 nc_node_annotation_patch("nodeclaimd.io/bootstrap", "{}"), &err)
               < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(get("node-a", &node, &status, &err), 0);
    assert_true(nc_node_is_ready(node, NULL, NULL)); /* kubelet's condition is still there */
    assert_string_equal(nc_value_get_string(nc_node_condition(node, "BootstrapComplete"), "reason"),
                        "Ready");
    assert_string_equal(
        nc_value_get_string(nc_value_path(node, "metadata.annotations"), "nodeclaimd.io/bootstrap"),
        "{}");
}

static void test_claim_and_event(void **state) {
    struct nc_label label = {.key = (char[]){"karpenter.sh/nodepool"},
                             .value = (char[]){"default"}};
    struct nc_claim claim = {0};
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;
    char *name = NULL;

    (void)state;
    if (nc_claim_find(f.kube, ID, &label, 1, TIMEOUT, &claim, &status, &err) != 1)
        fail_msg("%s", err.msg);
    assert_string_equal(claim.name, "default-x7k2q");
    struct nc_event e = {.kind = "NodeClaim",
                         .api_version = claim.api_version,
                         .name = claim.name,
                         .uid = claim.uid,
                         .warning = true,
                         .reason = "BootstrapFailed",
                         .message = "config: no cluster",
                         .host = "node-a",
                         .first_usec = 1700000000000000u,
                         .count = 1};
    if (nc_event_create(f.kube, &e, TIMEOUT, &name, &err) < 0
        || nc_event_create(f.kube, &e, TIMEOUT, NULL, &err) < 0)
        fail_msg("%s", err.msg); /* the second one is there already, which is as good */
    e.count = 2;
    assert_int_equal(nc_event_update(f.kube, name, &e, TIMEOUT, &err), 0);
    free(name);
    nc_claim_done(&claim);
    assert_int_equal(
        nc_claim_find(f.kube, "aws:///us-west-2a/i-1", NULL, 0, TIMEOUT, &claim, &status, &err), 0);
}

struct heard {
    unsigned added, modified, deleted, synced, failed;
    char last[400];
};

static void on_event(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct heard *h = userdata;

    h->added += event == NC_WATCH_ADDED;
    h->modified += event == NC_WATCH_MODIFIED;
    h->deleted += event == NC_WATCH_DELETED;
    h->synced += event == NC_WATCH_SYNCED;
    assert_int_equal(object == NULL, event == NC_WATCH_SYNCED);
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    struct heard *h = userdata;

    (void)status;
    h->failed++;
    snprintf(h->last, sizeof(h->last), "%s", err->msg);
}

/* Turns the loop until the count is reached; half a minute without any event is a failure. */
static void wait_for(const char *what, const unsigned *count, unsigned wanted) {
    while (*count < wanted)
        if (sd_event_run(f.loop, 30000000) <= 0)
            fail_msg("waited in vain: %s", what);
}

static void touch(const char *value) {
    struct nc_err err = NC_ERR_INIT;

    if (patch(NULL, NC_KUBE_PATCH_MERGE, nc_node_annotation_patch("nodeclaimd.io/test", value),
              &err)
        < 0)
        fail_msg("%s", err.msg);
}

static struct nc_watch *watch(uint64_t idle_timeout_usec, struct heard *h) {
    nc_auto_free char *selector = nc_kube_node_selector("node-a");
    const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                       .selector = selector,
                                       .idle_timeout_usec = idle_timeout_usec,
                                       .metadata_only = true,
                                       .event = on_event,
                                       .failed = on_failed,
                                       .userdata = h};
    struct nc_watch *w = NULL;

    assert_int_equal(nc_watch_new(f.kube, f.loop, &o, &w, NULL), 0);
    wait_for("the list", &h->synced, 1);
    assert_int_equal(h->added, 1);
    return w;
}

static void test_watch(void **state) {
    struct heard h = {0};
    struct nc_watch *w = watch(0, &h);

    (void)state;
    touch("1");
    wait_for("a change", &h.modified, 1);

    /* The server goes away and comes back: nothing is lost, nothing comes twice. */
    turn("POST", "/refuse", NULL);
    wait_for("the failure", &h.failed, 2);
    turn("POST", "/listen", NULL);
    touch("2");
    wait_for("the change after the failure", &h.modified, 2);
    assert_int_equal(h.synced, 1);

    /* While no stream can be opened, the version goes: a new list, and nobody vanished. */
    const unsigned failed = h.failed;
    turn("PUT", "/faults", "[{\"kind\":\"status\",\"path\":\"watch=true\"}]");
    turn("POST", "/refuse", NULL);
    turn("POST", "/listen", NULL);
    wait_for("the refusals", &h.failed, failed + 2);
    touch("3");
    turn("POST", "/compact", NULL);
    turn("POST", "/heal", NULL);
    wait_for("the second list", &h.synced, 2);
    assert_int_equal(h.modified, 3);
    assert_int_equal(h.added, 1);
    assert_int_equal(h.deleted, 0);
    nc_watch_free(w);
}

static void test_silence(void **state) {
    struct heard h = {0};
    struct nc_watch *w;

    (void)state;
    turn("PUT", "/faults", "[{\"kind\":\"silent\",\"path\":\"watch=true\"}]");
    w = watch(200000, &h);
    wait_for("the silence", &h.failed, 2);
    assert_non_null(strstr(h.last, "silent"));
    turn("POST", "/heal", NULL);
    touch("4");
    wait_for("the change after the silence", &h.modified, 1);
    nc_watch_free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),        cmocka_unit_test(test_node),
        cmocka_unit_test(test_claim_and_event), cmocka_unit_test(test_watch),
        cmocka_unit_test(test_silence),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
