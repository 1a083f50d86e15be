/*
 * Other programs: kubelet as a process of its own, credential plugins, and containerd where only it
 * can tell its version or convert its configuration. None is on the way of a node from the EKS AMI
 * whose user data name nothing special.
 *
 * Everything that allocates is done before the fork: other threads (a resolver) may exist.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define FIRST_OTHER_FD 3
#define COMPLAINT_MAX_BYTES ((size_t)256)

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
    const int r = nc_err_host(err, code, "%s", what);

    if (code == EMFILE || code == ENFILE)
        nc_err_remedy(err, NC_REMEDY_OPEN_FILES);
    else
        nc_err_remedy(err, "see what uses up processes (TasksMax=, kernel.pid_max) or memory here");
    return r;
}

static int exec_failed(struct nc_err *err, const char *path, int code) {
    const int r = nc_err_host(err, code, "cannot execute %s", path);

    nc_err_remedy(err, "check that %s is installed and executable", path);
    return r;
}

/* Tells the caller of the child before it becomes anything. */
static void release(const struct nc_spawn_call *call, pid_t pid, int fd) {
    if (pid > 0)
        call->on_forked((int)pid, call->userdata);
    (void)!write(fd, "", 1); /* a child that is gone tells so below */
}

/* Forks and waits until the child is another program, or gives the reason it is not. */
static int launch(struct child *c, const struct nc_spawn_call *call, pid_t *ret_pid,
                  struct nc_err *err) {
    const bool is_reported = call && call->on_forked;
    int report[2], go[2] = {-1, -1}, code = 0;
    ssize_t got;
    pid_t pid;

    if (pipe2(report, O_CLOEXEC) < 0)
        return sys_failed(err, "pipe");
    if (is_reported && pipe2(go, O_CLOEXEC) < 0) {
        const int failed = sys_failed(err, "pipe");
        (void)close(report[0]);
        (void)close(report[1]);
        return failed;
    }
    c->report = report[1];
    c->go = go[0];
    pid = fork();
    if (pid == 0) {
        if (is_reported)
            (void)close(go[1]); /* else it would wait for itself */
        become(c);
    }
    const int r = pid < 0 ? sys_failed(err, "fork") : 0;
    (void)close(report[1]);
    if (is_reported) {
        release(call, pid, go[1]);
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

/* --- a program whose output is wanted */

struct nc_capture {
    struct nc_capture_call call;
    char *program;
    pid_t pid;              /* not reaped before the end: until then its session is its own */
    int out, errors, pidfd; /* errors: its stderr; -1 = ours */
    sd_event_source *output, *complaint, *end, *deadline;
    struct nc_buf text;
    char said[COMPLAINT_MAX_BYTES]; /* the start of its stderr */
    size_t n_said;
    bool is_read, has_ended; /* the output; the program */
};

static void free_capture(struct nc_capture *c) {
    if (c->pid > 0) { /* with what it has started: it may have ended, and its children not */
        (void)kill(-c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
    }
    sd_event_source_disable_unref(c->output);
    sd_event_source_disable_unref(c->complaint);
    sd_event_source_disable_unref(c->end);
    sd_event_source_disable_unref(c->deadline);
    if (c->out >= 0)
        (void)close(c->out);
    if (c->errors >= 0)
        (void)close(c->errors);
    if (c->pidfd >= 0)
        (void)close(c->pidfd);
    nc_buf_done_secret(&c->text);
    free(c->program);
    free(c);
}

struct nc_capture *nc_capture_cancel(struct nc_capture *c) {
    if (c)
        free_capture(c);
    return NULL;
}

static void finish(struct nc_capture *c, const struct nc_err *err) {
    const struct nc_capture_call call = c->call;
    struct nc_buf text = c->text;

    c->text = (struct nc_buf)NC_BUF_INIT;
    free_capture(c);
    call.done(call.userdata, &text, err);
    nc_buf_done_secret(&text);
}

static void fail(struct nc_capture *c, int code) {
    struct nc_err err = NC_ERR_INIT;

    if (code == ETIMEDOUT)
        (void)nc_err_set(&err, NC_ERR_TRANSIENT, code, "%s did not answer in time", c->program);
    else
        (void)nc_err_set(&err, NC_ERR_PROTOCOL, code, "%s: unusable output: %s", c->program,
                         strerror(code));
    finish(c, &err);
}

/* Reads what is there of its stderr: the start is kept. False at its end. */
static bool read_complaint(struct nc_capture *c) {
    char chunk[4096];
    ssize_t got;

    while ((got = read(c->errors, chunk, sizeof(chunk))) > 0) {
        const size_t left = sizeof(c->said) - c->n_said;
        const size_t n = (size_t)got < left ? (size_t)got : left;
        memcpy(c->said + c->n_said, chunk, n);
        c->n_said += n;
    }
    return got < 0 && (errno == EINTR || errno == EAGAIN);
}

static int on_complaint(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    if (!read_complaint(userdata))
        (void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
    return 0;
}

static void set_exit_error(struct nc_capture *c, int code, struct nc_err *err) {
    nc_auto_free char *quoted = NULL;

    if (c->errors >= 0)
        (void)read_complaint(c);
    quoted = nc_quote(c->said, c->n_said);
    (void)nc_err_set(err, NC_ERR_AUTH, EPERM, "%s ended with exit code %d%s%s", c->program, code,
                     c->n_said > 0 ? ": " : "", c->n_said > 0 ? quoted : "");
}

/* It has ended, and so has its output: a child of its own may write on. */
static void check_end(struct nc_capture *c) {
    struct nc_err err = NC_ERR_INIT;
    int status = 0, code;

    if (!c->has_ended || !c->is_read)
        return;
    (void)waitpid(c->pid, &status, 0);
    c->pid = 0;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 0)
        set_exit_error(c, code, &err);
    finish(c, &err);
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct nc_capture *c = userdata;
    char chunk[4096];
    const ssize_t got = read(fd, chunk, sizeof(chunk));

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got < 0) {
        fail(c, errno);
    } else if (got == 0) {
        (void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
        c->is_read = true;
        check_end(c);
    } else {
        const bool fits = c->text.len + (size_t)got <= c->call.max_bytes
                          && nc_buf_add(&c->text, chunk, (size_t)got) >= 0;
        explicit_bzero(chunk, sizeof(chunk)); /* it may have been a token */
        if (!fits)
            fail(c, EFBIG);
    }
    return 0;
}

static int on_end(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
    struct nc_capture *c = userdata;

    (void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
    c->has_ended = true;
    check_end(c);
    return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata) {
    fail(userdata, ETIMEDOUT);
    return 0;
}

static int watch_child(struct nc_capture *c, sd_event *event, struct nc_err *err) {
    int r;

    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (c->pidfd < 0)
        return sys_failed(err, "pidfd_open");
    r = sd_event_add_io(event, &c->output, c->out, EPOLLIN, on_output, c);
    if (r >= 0 && c->errors >= 0)
        r = sd_event_add_io(event, &c->complaint, c->errors, EPOLLIN, on_complaint, c);
    if (r >= 0)
        r = sd_event_add_io(event, &c->end, c->pidfd, EPOLLIN, on_end, c);
    if (r >= 0)
        r = sd_event_add_time_relative(event, &c->deadline, CLOCK_MONOTONIC, c->call.timeout_usec,
                                       0, on_deadline, c);
    return r < 0 ? nc_err_host(err, r, "event loop") : 0;
}

/* Pipes for what is captured: `ends` of its output, `errors` of its stderr where that is wanted. */
static int open_pipes(const struct nc_capture_call *call, int ends[2], int errors[2],
                      struct nc_err *err) {
    errors[0] = errors[1] = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sys_failed(err, "pipe");
    if (!call->keeps_stderr || pipe2(errors, O_CLOEXEC) >= 0) {
        if (errors[0] >= 0)
            (void)fcntl(errors[0], F_SETFL, O_NONBLOCK);
        return 0;
    }
    const int r = sys_failed(err, "pipe");
    (void)close(ends[0]);
    (void)close(ends[1]);
    return r;
}

int nc_capture_start(sd_event *event, const struct nc_capture_call *call, struct nc_capture **ret,
                     struct nc_err *err) {
    nc_auto_free char **whole = make_env(call->env);
    struct child child = {.argv = call->argv, .env = whole};
    struct nc_capture *c;
    int ends[2], errors[2];
    int r = open_pipes(call, ends, errors, err);

    if (r < 0)
        return r;
    c = nc_calloc(1, sizeof(*c));
    *c = (struct nc_capture){.call = *call,
                             .program = nc_strdup(call->argv[0]),
                             .out = ends[0],
                             .errors = errors[0],
                             .pidfd = -1,
                             .text = NC_BUF_INIT_MAX(call->max_bytes)};
    child.out = ends[1];
    child.err = errors[1];
    r = launch(&child, NULL, &c->pid, err);
    (void)close(ends[1]);
    if (errors[1] >= 0)
        (void)close(errors[1]);
    if (r >= 0)
        r = watch_child(c, event, err);
    if (r < 0) {
        free_capture(c);
        return r;
    }
    *ret = c;
    return 0;
}

/* --- the same, waited for */

struct run {
    struct nc_buf *out;
    struct nc_err err;
    bool is_done;
};

static void on_run_done(void *userdata, struct nc_buf *text, const struct nc_err *err) {
    struct run *run = userdata;

    run->is_done = true;
    run->err = *err;
    *run->out = *text;
    *text = (struct nc_buf)NC_BUF_INIT;
}

int nc_run(const struct nc_capture_call *call, struct nc_buf *out, struct nc_err *err) {
    struct nc_capture_call own = *call;
    struct run run = {.out = out};
    struct nc_capture *c = NULL;
    sd_event *event = NULL;
    int r = sd_event_new(&event);

    own.keeps_stderr = true;
    own.done = on_run_done;
    own.userdata = &run;
    if (r >= 0)
        r = nc_capture_start(event, &own, &c, err);
    else
        r = nc_err_host(err, r, "event loop");
    while (r >= 0 && !run.is_done)
        r = sd_event_run(event, UINT64_MAX);
    if (r < 0 && c && !run.is_done)
        (void)nc_capture_cancel(c);
    sd_event_unref(event);
    if (run.err.class != NC_ERR_NONE)
        run.err.class = NC_ERR_HOST;
    return r < 0 ? r : nc_err_give(&run.err, err);
}
