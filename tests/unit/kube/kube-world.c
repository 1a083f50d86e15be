/*
 * The fake API server as a process, a client of it, and what its watches say.
 */
#include "kube-world.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nc/file.h"

#define NODE                                                                                       \
    "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"node-a\"},\"spec\":{},"     \
    "\"status\":{\"conditions\":[{\"type\":"                                                       \
    "\"Ready\",\"status\":\"True\"}]}}"
#define POD(name)                                                                                  \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name                       \
    "\",\"namespace\":\"shop\"},\"spec\":{\"nodeName\":\"node-a\",\"containers\":[{\"name\":"      \
    "\"x\"}],"                                                                                     \
    "\"terminationGracePeriodSeconds\":30},\"status\":{\"phase\":\"Running\"}}"
#define CLAIM                                                                                      \
    "{\"apiVersion\":\"karpenter.sh/"                                                              \
    "v1\",\"kind\":\"NodeClaim\",\"metadata\":{\"name\":\"default-x7k2q\",\"labels\":{"            \
    "\"karpenter.sh/"                                                                              \
    "nodepool\":\"default\"}},\"spec\":{\"requirements\":[],\"nodeClassRef\":{\"group\":"          \
    "\"karpenter.k8s.aws\",\"kind\":"                                                              \
    "\"EC2NodeClass\",\"name\":\"default\"}},\"status\":{\"providerID\":\"" ID "\"}}"

#define CONTROLLER_TOKEN "controller-token-of-the-test"

struct world world;
unsigned world_more_nodes;

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
                                             fakes, world.folder);
    char *argv[] = {(char[]){"python3"}, (char[]){"-c"}, program, NULL};
    pid_t pid;
    int status;
    FILE *out = python(argv, &pid);

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fclose(out);
    world.cert = nc_asprintf("%s/node-node-a.crt", world.folder);
    world.key = nc_asprintf("%s/node-node-a.key", world.folder);
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
    nc_auto_free char *objects = nc_asprintf("%s/objects.json", world.folder);
    FILE *file = fopen(objects, "w");

    assert_non_null(file);
    fputs("[" NODE "," CLAIM "," POD("web-0") "," POD("web-1"), file);
    for (unsigned i = 0; i < world_more_nodes; i++)
        fprintf(file,
                ",{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"more-%06u\"},"
                "\"spec\":{},\"status\":{}}",
                i);
    fputs("]", file);
    fclose(file);
    char *argv[] = {(char[]){"python3"},
                    program,
                    (char[]){"--dir"},
                    world.folder,
                    (char[]){"--claims-readable"},
                    (char[]){"--no-karpenter"},
                    (char[]){"--control"},
                    (char[]){"127.0.0.1:0"},
                    (char[]){"--objects"},
                    objects,
                    NULL};
    FILE *out = python(argv, &world.pid);
    world.url = read_line(out);
    world.control = read_line(out);
    fclose(out);
}

struct nc_kube *world_client(const char *cert, const char *key, const char *ca,
                             nc_kube_token_fn token, void *userdata) {
    const struct nc_kube_options o = {
        .server = world.url,
        .role = &nc_kube_as_node,
        .tls = {.ca_pem = ca, .client_cert_file = cert, .client_key_file = key},
        .token = token,
        .userdata = userdata,
        .user_agent = "nodeclaimd/test"};
    struct nc_kube *k;

    assert_int_equal(nc_kube_new(world.http, &o, &k, NULL), 0);
    return k;
}

static int give_controller(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    (void)userdata;
    (void)refuse;
    (void)err;
    *ret_token = nc_strdup(CONTROLLER_TOKEN);
    return 0;
}

struct nc_kube *world_controller(void) {
    const struct nc_kube_options o = {.server = world.url,
                                      .role = &nc_kube_as_controller,
                                      .tls = {.ca_pem = world.ca.data},
                                      .token = give_controller,
                                      .user_agent = "nodeclaim-controller/test"};
    struct nc_kube *k;

    assert_int_equal(nc_kube_new(world.http, &o, &k, NULL), 0);
    return k;
}

int world_set_up(void **state) {
    const char *source = getenv("NC_SRCDIR");
    nc_auto_free char *fakes = nc_asprintf("%s/tests/fakes", source ? source : ".");
    nc_auto_free char *ca = NULL;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    strcpy(world.folder, "/tmp/nc-kube-XXXXXX");
    assert_non_null(mkdtemp(world.folder));
    make_certificate(fakes);
    start_server(fakes);
    ca = nc_asprintf("%s/ca.crt", world.folder);
    assert_int_equal(nc_file_read(ca, 1 << 16, &world.ca, &err), 0);
    assert_true(sd_event_new(&world.loop) >= 0);
    assert_int_equal(nc_http_new(world.loop, 0, &world.http, &err), 0);
    world.kube = world_client(world.cert, world.key, world.ca.data, NULL, NULL);
    return 0;
}

int world_tear_down(void **state) {
    nc_auto_free char *command = nc_asprintf("rm -rf %s", world.folder);

    (void)state;
    nc_kube_free(world.kube);
    nc_http_free(world.http);
    sd_event_unref(world.loop);
    nc_buf_done(&world.ca);
    if (world.pid > 0) { /* 0 is every process of our group, make's too */
        kill(world.pid, SIGTERM);
        waitpid(world.pid, NULL, 0);
    }
    free(world.url);
    free(world.control);
    free(world.cert);
    free(world.key);
    return system(command) == 0 ? 0 : -1;
}

void world_turn(const char *method, const char *path, const char *body) {
    nc_auto_free char *url = nc_asprintf("%s%s", world.control, path);
    struct nc_http_answer answer = {0};
    const struct nc_http_options o = {.name = "control",
                                      .method = method,
                                      .url = url,
                                      .body = body,
                                      .body_n = body ? strlen(body) : 0,
                                      .timeout_usec = TIMEOUT,
                                      .max_body_bytes = 1 << 20,
                                      .no_proxy = true};

    assert_int_equal(nc_http_perform(world.http, &o, &answer, NULL), 0);
    assert_int_equal(answer.result.status, 200);
    nc_http_answer_done(&answer);
}

void observed_event(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct observed *h = userdata;

    h->added += event == NC_WATCH_ADDED;
    h->modified += event == NC_WATCH_MODIFIED;
    h->deleted += event == NC_WATCH_DELETED;
    h->synced += event == NC_WATCH_SYNCED;
    assert_int_equal(object == NULL, event == NC_WATCH_SYNCED);
}

void observed_failure(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    struct observed *h = userdata;

    (void)status;
    h->failed++;
    snprintf(h->last, sizeof(h->last), "%s", err->msg);
}

void world_wait_for(const char *what, const unsigned *count, unsigned wanted) {
    while (*count < wanted)
        if (sd_event_run(world.loop, 30000000) <= 0)
            fail_msg("waited in vain: %s", what);
}
