/*
 * Other programs: kubelet as a process of its own, and credential plugins. Neither is on the way of
 * a node under systemd.
 *
 * Everything that allocates is done before the fork: other threads (a resolver) may exist.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nc/clock.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define FIRST_OTHER_FD 3
#define LOOK_USEC 2000u
#define MAX_POLL_MSEC 60000u

extern char **environ;

/* What a child is made of. */
struct child {
    const char *const *argv;
    char **env; /* array owned, strings borrowed */
    int out;    /* its stdout */
    int err;    /* its stderr; -1 = ours */
    int report; /* where it tells why it could not be executed */
    int go;     /* it waits until a byte comes out of it; -1 = it does not */
};

static bool is_same_name(const char *a, const char *b) {
    const size_t n = strcspn(a, "=");

    return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* Our environment with the additions; an addition takes the place of what has its name. */
static char **make_env(const char *const *more) {
    size_t n = 0, n_more = 0, used = 0;
    char **env;

    while (environ[n])
        n++;
    while (more && more[n_more])
        n_more++;
    env = nc_calloc(n + n_more + 1, sizeof(*env));
    for (size_t i = 0; i < n; i++) {
        bool is_replaced = false;
        for (size_t k = 0; k < n_more; k++)
            is_replaced = is_replaced || is_same_name(more[k], environ[i]);
        if (!is_replaced)
            env[used++] = environ[i];
    }
    for (size_t k = 0; k < n_more; k++)
        env[used++] = (char *)(uintptr_t)more[k]; /* execve changes nothing */
    return env;
}

/* In the child, between fork and exec: only what is safe there. */
static void reset_signals(void) {
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
}

/* The end of the pipe without a byte: our parent is gone, and nobody knows of us. */
static void await_leave(int fd) {
    char byte;
    ssize_t got;

    do
        got = read(fd, &byte, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1)
        _exit(127);
}

static void become(const struct child *c) {
    const int null = open("/dev/null", O_RDONLY);
    int code;

    reset_signals();
    if (c->go >= 0)
        await_leave(c->go);
    (void)setsid();
    if (null >= 0)
        (void)dup2(null, STDIN_FILENO);
    (void)dup2(c->out, STDOUT_FILENO);
    if (c->err >= 0)
        (void)dup2(c->err, STDERR_FILENO);
    (void)close_range(FIRST_OTHER_FD, ~0U, CLOSE_RANGE_CLOEXEC);
    (void)execve(c->argv[0], (char *const *)(uintptr_t)c->argv, c->env);
    code = errno;
    (void)!write(c->report, &code, sizeof(code));
    _exit(127);
}

static int sys_failed(struct nc_err *err, const char *what) {
    const int code = errno;
    const int r = nc_err_set(err, NC_ERR_HOST, code, "%s: %s", what, strerror(code));

    if (code == EMFILE || code == ENFILE)
        nc_err_remedy(err, NC_REMEDY_OPEN_FILES);
    else
        nc_err_remedy(err, "see what uses up processes (TasksMax=, kernel.pid_max) or memory here");
    return r;
}

static int exec_failed(struct nc_err *err, const char *path, int code) {
    const int r = nc_err_set(err, NC_ERR_HOST, code, "cannot execute %s: %s", path, strerror(code));

    nc_err_remedy(err, "check that %s is installed and executable", path);
    return r;
}

/* Tells the caller of the child before it becomes anything. */
static void let_go(const struct nc_spawn_call *call, pid_t pid, int fd) {
    if (pid > 0)
        call->on_forked((int)pid, call->userdata);
    (void)!write(fd, "", 1); /* a child that is gone tells so below */
}

/* Forks and waits until the child is another program, or says why it is not. */
static int launch(struct child *c, const struct nc_spawn_call *call, pid_t *ret_pid,
                  struct nc_err *err) {
    const bool is_told = call && call->on_forked;
    int report[2], go[2] = {-1, -1}, code = 0;
    ssize_t got;
    pid_t pid;

    if (pipe2(report, O_CLOEXEC) < 0)
        return sys_failed(err, "pipe");
    if (is_told && pipe2(go, O_CLOEXEC) < 0) {
        const int failed = sys_failed(err, "pipe");
        (void)close(report[0]);
        (void)close(report[1]);
        return failed;
    }
    c->report = report[1];
    c->go = go[0];
    pid = fork();
    if (pid == 0) {
        if (is_told)
            (void)close(go[1]); /* else it would wait for itself */
        become(c);
    }
    const int r = pid < 0 ? sys_failed(err, "fork") : 0;
    (void)close(report[1]);
    if (is_told) {
        let_go(call, pid, go[1]);
        (void)close(go[0]);
        (void)close(go[1]);
    }
    do
        got = r < 0 ? 0 : read(report[0], &code, sizeof(code));
    while (got < 0 && errno == EINTR);
    (void)close(report[0]);
    if (got == (ssize_t)sizeof(code)) {
        (void)waitpid(pid, NULL, 0);
        return exec_failed(err, c->argv[0], code);
    }
    if (r >= 0)
        *ret_pid = pid;
    return r;
}

static int open_log(const char *path, struct nc_err *err) {
    const char *slash = strrchr(path, '/');
    int fd;

    if (slash && slash > path) {
        nc_auto_free char *folder = nc_strndup(path, (size_t)(slash - path));
        const int r = nc_mkdir_p(folder, err);
        if (r < 0)
            return r;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
    return fd < 0 ? nc_file_fail(err, errno, "open", path) : fd;
}

int nc_spawn(const struct nc_spawn_call *call, int *ret_pid, struct nc_err *err) {
    const int log = open_log(call->log_path, err);
    pid_t pid = 0;
    int r;

    if (log < 0)
        return log;
    nc_auto_free char **whole = make_env(call->env);
    struct child c = {.argv = call->argv, .env = whole, .out = log, .err = log};
    r = launch(&c, call, &pid, err);
    (void)close(log);
    if (r >= 0)
        *ret_pid = (int)pid;
    return r;
}

/* Takes what is there: 1 at the end of the output, 0 where there may be more. */
static int take_chunk(int fd, size_t max, struct nc_buf *out) {
    char chunk[4096];
    const ssize_t got = read(fd, chunk, sizeof(chunk));
    int r = 0;

    if (got < 0)
        return errno == EINTR ? 0 : -errno;
    if (got > 0 && (out->len + (size_t)got > max || nc_buf_add(out, chunk, (size_t)got) < 0))
        r = -EFBIG;
    explicit_bzero(chunk, sizeof(chunk)); /* it may have been a token */
    return r < 0 ? r : got == 0;
}

/* Reads until the end of the output, the cap or the deadline. */
static int collect(int fd, uint64_t deadline, size_t max, struct nc_buf *out) {
    int r = 0;

    while (r == 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const uint64_t now = nc_mono_usec();
        if (now >= deadline)
            return -ETIMEDOUT;
        const uint64_t msec = (deadline - now + 999) / 1000;
        if (poll(&p, 1, (int)(msec < MAX_POLL_MSEC ? msec : MAX_POLL_MSEC)) > 0)
            r = take_chunk(fd, max, out);
    }
    return r < 0 ? r : 0;
}

/* The child's exit code; -ETIMEDOUT where it stayed past the deadline: then it is killed, with what
 * it has started in its session. */
static int reap(pid_t pid, uint64_t deadline) {
    const struct timespec pause = {.tv_nsec = LOOK_USEC * 1000};
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (nc_mono_usec() >= deadline) {
            (void)kill(-pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            return -ETIMEDOUT;
        }
        (void)nanosleep(&pause, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int nc_run_capture(const char *const *argv, const char *const *env, uint64_t timeout_usec,
                   size_t max, struct nc_buf *out, struct nc_err *err) {
    const uint64_t deadline = nc_mono_usec() + timeout_usec;
    nc_auto_free char **whole = make_env(env);
    struct child c = {.argv = argv, .env = whole, .err = -1};
    int ends[2], r, code;
    pid_t pid = 0;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return sys_failed(err, "pipe");
    c.out = ends[1];
    r = launch(&c, NULL, &pid, err);
    (void)close(ends[1]);
    if (r < 0) {
        (void)close(ends[0]);
        return r;
    }
    r = collect(ends[0], deadline, max, out);
    (void)close(ends[0]);
    if (r < 0)
        (void)kill(-pid, SIGKILL); /* it may have ended, and its children not */
    code = reap(pid, r < 0 ? 0 : deadline);
    if (r == -ETIMEDOUT || (r >= 0 && code == -ETIMEDOUT))
        return nc_err_set(err, NC_ERR_TRANSIENT, ETIMEDOUT, "%s did not answer in time", argv[0]);
    if (r < 0)
        return nc_err_set(err, NC_ERR_PROTOCOL, -r, "%s: unusable output: %s", argv[0],
                          strerror(-r));
    return code ? nc_err_set(err, NC_ERR_AUTH, EPERM, "%s ended with exit code %d", argv[0], code)
                : 0;
}
