/*
 * The fake system bus of tests/fakes, played by a Python program that a test brings with it. Each
 * line that it is sent is one thing to do, and gets one line as its answer.
 */
#ifndef NC_BUS_SERVER_H
#define NC_BUS_SERVER_H

#include "host-test.h"

#include <sys/wait.h>

static struct {
    pid_t pid;
    FILE *in, *out;
} bus_server;

/* The program gets the folder of the sources, the one of the test, and `more` unless it is NULL. */
static inline void start_server(const char *program, const char *more) {
    nc_auto_free char *address = nc_asprintf("unix:path=%s/bus.socket", root);
    const char *source = getenv("NC_SRCDIR") ? getenv("NC_SRCDIR") : ".";
    int in[2], out[2];
    char line[32];

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    bus_server.pid = fork();
    if (bus_server.pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)execl("/usr/bin/python3", "python3", "-B", "-c", program, source, root, more,
                    (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    bus_server.in = fdopen(in[1], "w");
    bus_server.out = fdopen(out[0], "r");
    assert_non_null(fgets(line, sizeof(line), bus_server.out));
    assert_int_equal(setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1), 0);
}

static inline void stop_server(void) {
    nc_auto_free char *path = nc_asprintf("%s/bus.socket", root);

    (void)fclose(bus_server.in);
    assert_int_equal(waitpid(bus_server.pid, NULL, 0), bus_server.pid);
    (void)fclose(bus_server.out);
    (void)unlink(path);
}

static inline int ask_server(const char *words) {
    char line[32];

    assert_true(fprintf(bus_server.in, "%s\n", words) > 0 && fflush(bus_server.in) == 0);
    assert_non_null(fgets(line, sizeof(line), bus_server.out));
    return atoi(line);
}

#endif
