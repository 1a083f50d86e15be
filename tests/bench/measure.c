/*
 * Runs a command some times, one after the other, and says what each run cost.
 *
 *     measure [-v NAME=VALUE]... COUNT PROGRAM [ARGUMENT...]
 *
 * One JSON line a run: wall and CPU time in microseconds, peak memory, page faults, bytes read from
 * the disk, exit status. "%d" in an argument becomes the number of the run. A program of its own
 * because a child's peak memory counts what its parent had before exec: this one is small. It must
 * not interpret what it runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_usec(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t timeval_usec(struct timeval t) {
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

/* The bytes that a process, ended but not yet collected, had read from the disk; -1 where the
 * kernel does not count. */
static int64_t read_bytes_of(pid_t pid) {
    char path[64], line[128];
    int64_t bytes = -1;
    snprintf(path, sizeof path, "/proc/%ld/io", (long)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "read_bytes: %" SCNd64, &bytes) == 1)
            break;
    if (f)
        fclose(f);
    return bytes;
}

static void replace_number(char **argv, int run) {
    for (char **a = argv; *a; a++) {
        char *at = strstr(*a, "%d");
        if (!at)
            continue;
        char *made = NULL;
        if (asprintf(&made, "%.*s%d%s", (int)(at - *a), *a, run, at + 2) < 0)
            _exit(127);
        *a = made;
    }
}

static int run_child(char **argv, int run) {
    replace_number(argv, run);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0);
    dup2(null, 1);
    if (!getenv("MEASURE_STDERR"))
        dup2(null, 2);
    execvp(argv[0], argv);
    _exit(127);
}

static int run_once(char **argv, int run) {
    uint64_t start = now_usec();
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        run_child(argv, run);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    uint64_t wall = now_usec() - start;
    int64_t read_bytes = read_bytes_of(pid);
    struct rusage use;
    int status;
    wait4(pid, &status, 0, &use);
    printf("{\"wall_usec\":%" PRIu64 ",\"cpu_usec\":%" PRIu64
           ",\"peak_kib\":%ld,\"minor_faults\":%ld,"
           "\"major_faults\":%ld,\"read_bytes\":%" PRId64 ",\"status\":%d}\n",
           wall, timeval_usec(use.ru_utime) + timeval_usec(use.ru_stime), use.ru_maxrss,
           use.ru_minflt, use.ru_majflt, read_bytes,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv) {
    int at = 1;
    for (; at + 1 < argc && strcmp(argv[at], "-v") == 0; at += 2)
        putenv(argv[at + 1]);
    if (at + 1 >= argc) {
        fprintf(stderr, "usage: measure [-v NAME=VALUE]... COUNT PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    int count = atoi(argv[at]);
    for (int run = 0; run < count; run++)
        if (run_once(argv + at + 1, run) < 0)
            return 1;
    return 0;
}
