/*
 * Other programs: what they inherit, where their output goes, and that none outstays its welcome.
 */
#include "groups.h"
#include "host-test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define PATIENCE_MSEC 20000

static uint64_t mono_msec(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

struct heard {
    unsigned done, turns;
    struct nc_buf text;
    struct nc_err err;
};

static void on_captured(void *userdata, struct nc_buf *text, const struct nc_err *err) {
    struct heard *h = userdata;

    h->done++;
    h->err = *err;
    h->text = *text;
    *text = (struct nc_buf)NC_BUF_INIT;
}

static int capture_and_wait(struct nc_capture_call *call, struct nc_buf *out, struct nc_err *err) {
    struct heard heard = {0};
    struct nc_capture *c = NULL;
    sd_event *event = NULL;
    int r;

    call->done = on_captured;
    call->userdata = &heard;
    assert_true(sd_event_new(&event) >= 0);
    r = nc_capture_start(event, call, &c, err);
    while (r >= 0 && heard.done == 0)
        assert_true(sd_event_run(event, UINT64_MAX) >= 0);
    sd_event_unref(event);
    *out = heard.text;
    return r < 0 ? r : nc_err_give(&heard.err, err);
}

static int capture(const char *script, const char *const *env, unsigned msec, size_t max,
                   struct nc_buf *out, struct nc_err *err) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct nc_capture_call call = {
        .argv = argv, .env = env, .timeout_usec = (uint64_t)msec * 1000, .max_bytes = max};

    return capture_and_wait(&call, out, err);
}

static void assert_capture(const char *script, const char *const *env, const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (capture(script, env, PATIENCE_MSEC, 65536, &out, &err) < 0)
        fail_msg("%s: %s", script, err.msg);
    assert_string_equal(out.data ? out.data : "", expected);
}

static void assert_fails(const char *script, unsigned msec, size_t max, enum nc_err_class class,
                         int code) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    const uint64_t start = mono_msec();
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(capture(script, NULL, msec, max, &out, &err), -code);
    assert_int_equal(err.class, class);
    assert_non_null(strstr(err.msg, "/bin/sh"));
    assert_true(mono_msec() - start < PATIENCE_MSEC);
}

static void test_output(void **state) {
    (void)state;
    assert_capture("echo hello", NULL, "hello\n");
    assert_capture(":", NULL, "");
    assert_capture("cat", NULL, ""); /* stdin is /dev/null */
    assert_capture("head -c 65536 /dev/zero | tr '\\0' x | wc -c", NULL, "65536\n");
    assert_capture("exec sh -c 'exec >&-'", NULL, "");
}

static void test_environment(void **state) {
    static const char *const env[] = {"NC_TEST_A=mine", "NC_TEST_B=b=c", NULL};

    (void)state;
    assert_int_equal(setenv("NC_TEST_A", "theirs", 1), 0);
    assert_int_equal(setenv("NC_TEST_AA", "kept", 1), 0);
    assert_capture("echo $NC_TEST_A $NC_TEST_B $NC_TEST_AA; env | grep -c '^NC_TEST_A='", env,
                   "mine b=c kept\n1\n");
    assert_capture("echo $NC_TEST_A", NULL, "theirs\n");
    assert_string_equal(getenv("NC_TEST_A"), "theirs");
}

/* A descriptor that was opened without O_CLOEXEC by some library is none of the child's business.
 */
static void test_descriptors(void **state) {
    const int leaked = dup2(STDERR_FILENO, 77);

    (void)state;
    assert_int_equal(leaked, 77);
    assert_capture("test -e /proc/$$/fd/77 && echo leaked || echo closed", NULL, "closed\n");
    (void)close(leaked);
}

static void test_signals_are_as_new(void **state) {
    sigset_t set, old;

    (void)state;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, &old), 0);
    assert_capture("grep SigBlk /proc/self/status", NULL, "SigBlk:\t0000000000000000\n");
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
}

static void test_failures(void **state) {
    (void)state;
    assert_fails("exit 3", PATIENCE_MSEC, 100, NC_ERR_AUTH, EPERM);
    assert_fails("exit 127", PATIENCE_MSEC, 100, NC_ERR_AUTH, EPERM);
    assert_fails("kill -9 $$", PATIENCE_MSEC, 100, NC_ERR_AUTH, EPERM);
    assert_fails("yes", PATIENCE_MSEC, 100, NC_ERR_PROTOCOL, EFBIG);
    assert_fails("sleep 300", 100, 100, NC_ERR_TRANSIENT, ETIMEDOUT);
    assert_fails("exec >&-; sleep 300", 200, 100, NC_ERR_TRANSIENT, ETIMEDOUT);
}

/* Of a process whose parent is not us. */
static void assert_ends(uint64_t pid) {
    nc_auto_free char *stat = nc_asprintf("/proc/%llu/stat", (unsigned long long)pid);
    const uint64_t start = mono_msec();
    bool gone = false;

    while (!gone && mono_msec() - start < PATIENCE_MSEC) {
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        gone = nc_file_read(stat, 4096, &text, NULL) < 0 || strstr(text.data, ") Z");
    }
    assert_true(gone);
}

/* What the program leaves behind with our pipe in its hand is killed as well. */
static void test_grandchildren(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    uint64_t pid = 0;

    (void)state;
    assert_int_equal(capture("sleep 300 & echo $!", NULL, 300, 100, &out, &err), -ETIMEDOUT);
    assert_int_equal(nc_parse_u64(nc_trim(out.data), &pid), 0);
    assert_ends(pid);
}

static void test_cannot_be_executed(void **state) {
    static const struct {
        const char *path;
        int code;
    } cases[] = {{"/none/plugin", ENOENT}, {"/etc/passwd", EACCES}, {"/", EACCES}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(cases); i++) {
        const char *const argv[] = {cases[i].path, NULL};
        nc_auto_free char *log = nc_path_below(root, "/log");
        nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
        struct nc_err err = NC_ERR_INIT, same = NC_ERR_INIT;
        int pid = -7;
        struct nc_capture_call call = {.argv = argv, .timeout_usec = 1000000, .max_bytes = 10};
        assert_int_equal(capture_and_wait(&call, &out, &err), -cases[i].code);
        assert_int_equal(
            nc_spawn(&(struct nc_spawn_call){.argv = argv, .log_path = log}, &pid, &same),
            -cases[i].code);
        assert_int_equal(pid, -7);
        assert_int_equal(err.class, NC_ERR_HOST);
        assert_string_equal(err.msg, same.msg);
        assert_non_null(strstr(err.remedy, cases[i].path));
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

/* --- waited for */

static int run(const char *script, unsigned msec, size_t max, struct nc_buf *out,
               struct nc_err *err) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const struct nc_capture_call call = {
        .argv = argv, .timeout_usec = (uint64_t)msec * 1000, .max_bytes = max};

    return nc_run(&call, out, err);
}

static void test_run(void **state) {
    static const struct {
        const char *script, *message;
        unsigned msec;
    } failures[] = {
        {"echo told >&2; exit 3", "/bin/sh ended with exit code 3: 'told", PATIENCE_MSEC},
        /* more than a pipe holds */
        {"printf first; printf again >&2; head -c 300000 /dev/zero >&2; exit 1", "code 1: 'again",
         PATIENCE_MSEC},
        {"exit 1", "/bin/sh ended with exit code 1", PATIENCE_MSEC},
        {"yes", "/bin/sh: unusable output: ", PATIENCE_MSEC},
        {"yes >&2", "/bin/sh did not answer in time", 200},
    };
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(run("echo a; echo b >&2", PATIENCE_MSEC, 100, &out, &err), 0);
    assert_string_equal(out.data, "a\n");
    for (size_t i = 0; i < NC_ARRAY_SIZE(failures); i++) {
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        assert_true(run(failures[i].script, failures[i].msec, 100, &text, &err) < 0);
        assert_int_equal(err.class, NC_ERR_HOST);
        if (!strstr(err.msg, failures[i].message))
            fail_msg("%s: %s", failures[i].script, err.msg);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

/* --- without waiting */

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
    struct heard *h = userdata;

    (void)usec;
    h->turns++;
    (void)sd_event_source_set_time_relative(source, 10000);
    return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* The loop goes on meanwhile; what is cancelled is killed with its children, and never told. */
static void test_capture_in_the_loop(void **state) {
    const char *const argv[] = {"/bin/sh", "-c", "read x < \"$FIFO\"; echo $x", NULL};
    nc_auto_free char *fifo = nc_path_below(root, "/fifo"),
                      *env_fifo = nc_asprintf("FIFO=%s", fifo);
    const char *const env[] = {env_fifo, NULL};
    struct heard first = {0}, second = {0};
    struct nc_capture *a = NULL, *b = NULL;
    struct nc_capture_call call = {.argv = argv,
                                   .env = env,
                                   .timeout_usec = PATIENCE_MSEC * 1000,
                                   .max_bytes = 10,
                                   .done = on_captured,
                                   .userdata = &first};
    sd_event *event = NULL;
    int fd;

    (void)state;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_true(sd_event_new(&event) >= 0);
    assert_true(sd_event_add_time_relative(event, NULL, CLOCK_MONOTONIC, 10000, 0, on_tick, &first)
                >= 0);
    assert_int_equal(nc_capture_start(event, &call, &a, NULL), 0);
    call.userdata = &second;
    call.env = NULL; /* it reads for ever */
    call.argv = (const char *const[]){"/bin/sh", "-c", "sleep 1000; echo no", NULL};
    assert_int_equal(nc_capture_start(event, &call, &b, NULL), 0);
    while (first.turns < 5)
        assert_true(sd_event_run(event, UINT64_MAX) >= 0);
    assert_int_equal(first.done, 0);
    fd = open(fifo, O_WRONLY | O_CLOEXEC);
    assert_int_equal(write(fd, "word\n", 5), 5);
    (void)close(fd);
    while (first.done == 0)
        assert_true(sd_event_run(event, UINT64_MAX) >= 0);
    assert_string_equal(first.text.data, "word\n");
    assert_int_equal(first.err.class, NC_ERR_NONE);
    nc_buf_done(&first.text);
    assert_null(nc_capture_cancel(b));
    assert_int_equal(second.done, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    sd_event_unref(event);
}

static void spawn_and_wait(const char *script, const char *log, const char *const *env) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct nc_err err = NC_ERR_INIT;
    int pid = 0, status;

    const struct nc_spawn_call call = {.argv = argv, .env = env, .log_path = log};
    if (nc_spawn(&call, &pid, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(getsid(pid), pid);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_spawn(void **state) {
    static const char *const env[] = {"NC_TEST_C=c", NULL};
    nc_auto_free char *log = nc_path_below(root, "/var/log/k.log");

    (void)state;
    spawn_and_wait("echo out $NC_TEST_C; echo err >&2", log, env);
    spawn_and_wait("echo more; cat", log, NULL);
    assert_file("/var/log/k.log", "out c\nerr\nmore\n");
    assert_int_equal(mode_of("/var/log/k.log") & 0777, 0640);
}

static void test_no_log(void **state) {
    static const char *const argv[] = {"/bin/true", NULL};
    nc_auto_free char *folder = nc_path_below(root, "/folder");
    nc_auto_free char *below = nc_path_below(root, "/file/log");
    struct nc_spawn_call call = {.argv = argv, .log_path = folder};
    int pid;

    (void)state;
    put("/folder/x", "");
    put("/file", "");
    assert_int_equal(nc_spawn(&call, &pid, NULL), -EISDIR);
    call.log_path = below;
    assert_int_equal(nc_spawn(&call, &pid, NULL), -ENOTDIR);
}

static int told;

static void on_forked(int pid, void *userdata) {
    nc_auto_free char *path = nc_path_below(root, "/ran");

    told = pid;
    assert_ptr_equal(userdata, &told);
    assert_int_equal(access(path, F_OK), -1); /* it is not the program yet */
}

static void test_reported_before_it_runs(void **state) {
    nc_auto_free char *log = nc_path_below(root, "/log");
    nc_auto_free char *script = nc_asprintf("echo yes >%s/ran", root);
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const struct nc_spawn_call call = {
        .argv = argv, .log_path = log, .on_forked = on_forked, .userdata = &told};
    int pid = 0, status = -1;

    (void)state;
    assert_int_equal(nc_spawn(&call, &pid, NULL), 0);
    assert_int_equal(told, pid);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_file("/ran", "yes\n");
}

static void die_at_once(int pid, void *userdata) {
    const int fd = *(const int *)userdata;

    (void)!write(fd, &pid, sizeof(pid));
    (void)kill(getpid(), SIGKILL);
}

/* Whoever is killed before it could write the number down has started nothing. */
static void test_killed_before_it_was_told(void **state) {
    nc_auto_free char *log = nc_path_below(root, "/log"), *ran = nc_path_below(root, "/never");
    nc_auto_free char *script = nc_asprintf("echo yes >%s", ran);
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    int ends[2], pid = 0, status;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t between = fork();
    if (between == 0) {
        const struct nc_spawn_call call = {
            .argv = argv, .log_path = log, .on_forked = die_at_once, .userdata = &ends[1]};
        (void)nc_spawn(&call, &pid, NULL);
        _exit(0);
    }
    (void)close(ends[1]);
    assert_int_equal(waitpid(between, &status, 0), between);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
    (void)close(ends[0]);
    assert_ends((uint64_t)pid);
    assert_int_equal(access(ran, F_OK), -1);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_output),
        host_test(test_environment),
        host_test(test_descriptors),
        host_test(test_signals_are_as_new),
        host_test(test_failures),
        host_test(test_grandchildren),
        host_test(test_cannot_be_executed),
        host_test(test_run),
        host_test(test_capture_in_the_loop),
        host_test(test_spawn),
        host_test(test_no_log),
        host_test(test_reported_before_it_runs),
        host_test(test_killed_before_it_was_told),
    };

    return run_group(tests, NULL, NULL);
}
