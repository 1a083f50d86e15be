/*
 * The main program of a folder's tests.
 *
 *     tests                 all groups, each in a process of its own, some at once; one TAP stream
 *     tests --list          their names
 *     tests GROUP [TEST]    one of them, or one test of it, in this process: for a debugger
 *
 * A group that dies fails with the name of the test that it was in, and the others go on.
 */
#include "groups.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 4 /* some of them wait */
#define NAME "%.*s"
#define NAME_OF(g) name_length(g), name_of(g)

struct run {
    struct test_group *group;
    pid_t pid;   /* 0 once it has ended */
    int status;  /* of waitpid */
    FILE *said;  /* TAP, as cmocka writes it */
    FILE *names; /* of its tests, a line each */
};

static struct test_group *first, **end = &first;
static FILE *names; /* where a group of several says which tests it has */

void test_group_add(struct test_group *g) {
    *end = g;
    end = &g->next;
}

int test_group_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down) {
    for (size_t i = 0; names && i < n; i++)
        fprintf(names, "%s\n", tests[i].name);
    if (names)
        fflush(names);
    return _cmocka_run_group_tests("tests", tests, n, set_up, tear_down);
}

static const char *name_of(const struct test_group *g) {
    const char *slash = strrchr(g->file, '/'), *base = slash ? slash + 1 : g->file;

    return strncmp(base, "test-", 5) == 0 ? base + 5 : base;
}

static int name_length(const struct test_group *g) {
    return (int)strcspn(name_of(g), ".");
}

static bool is_named(const struct test_group *g, const char *name) {
    size_t n = (size_t)name_length(g);

    return strlen(name) == n && memcmp(name_of(g), name, n) == 0;
}

static FILE *scratch(void) {
    FILE *f = tmpfile();

    if (!f) {
        perror("tmpfile");
        exit(1);
    }
    return f;
}

static void start(struct run *r) {
    r->said = scratch();
    r->names = scratch();
    fflush(NULL);
    r->pid = fork();
    if (r->pid < 0) {
        perror("fork");
        exit(1);
    }
    if (r->pid == 0) {
        dup2(fileno(r->said), STDOUT_FILENO);
        dup2(fileno(r->said), STDERR_FILENO);
        names = r->names;
        exit(r->group->run() != 0);
    }
}

static void wait_for_one(struct run *runs, size_t n) {
    int status;
    pid_t pid = waitpid(-1, &status, 0);

    for (size_t i = 0; i < n; i++)
        if (runs[i].pid == pid) {
            runs[i].pid = 0;
            runs[i].status = status;
        }
}

/* The name of the test that comes after `seen` others. */
static const char *next_name(FILE *list, unsigned seen, char *line, int size) {
    rewind(list);
    for (unsigned i = 0; i <= seen; i++)
        if (!fgets(line, size, list))
            return seen ? "what comes after its tests" : "what comes before its tests";
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* A line that says how a test went, as one of many groups: counted on, and under the group's name.
 */
static void print_result(const struct test_group *g, const char *line, bool is_good,
                         unsigned count) {
    line += is_good ? 3 : 7;
    line += strspn(line, "0123456789 ");
    if (line[0] == '-')
        printf("%s %u - " NAME ":%s", is_good ? "ok" : "not ok", count, NAME_OF(g), line + 1);
    else
        printf("%s %u " NAME " %s", is_good ? "ok" : "not ok", count, NAME_OF(g), line);
}

/* What the group said, and how it died; false if a test failed. */
static bool report(struct run *r, unsigned *count) {
    char line[4096];
    unsigned seen = 0, failed = 0;

    rewind(r->said);
    while (fgets(line, sizeof(line), r->said)) {
        bool is_good = strncmp(line, "ok ", 3) == 0, is_bad = strncmp(line, "not ok ", 7) == 0;

        if (is_good || is_bad) {
            print_result(r->group, line, is_good, ++*count);
            seen++;
            failed += is_bad;
        } else if (strncmp(line, "1..", 3) != 0)
            fputs(line, stdout);
    }
    if (WIFSIGNALED(r->status) || (r->status && !failed)) {
        printf("not ok %u - " NAME ": %s: ", ++*count, NAME_OF(r->group),
               next_name(r->names, seen, line, sizeof(line)));
        if (WIFSIGNALED(r->status))
            printf("%s\n", strsignal(WTERMSIG(r->status)));
        else
            printf("exit code %d\n", WEXITSTATUS(r->status));
        failed++;
    }
    fclose(r->said);
    fclose(r->names);
    return failed == 0;
}

static int run_all(void) {
    struct run runs[64] = {0};
    size_t n = 0, started = 0, running = 0;
    unsigned count = 0;
    bool is_good = true;

    for (struct test_group *g = first; g; g = g->next, n++) {
        if (n == sizeof(runs) / sizeof(runs[0])) {
            fprintf(stderr, "more than %zu groups\n", n);
            return 1;
        }
        runs[n].group = g;
    }
    while (started < n || running) {
        if (started < n && running < AT_ONCE) {
            start(&runs[started++]);
            running++;
        } else {
            wait_for_one(runs, started);
            running--;
        }
    }
    for (size_t i = 0; i < n; i++)
        is_good = report(&runs[i], &count) && is_good;
    printf("1..%u\n", count);
    return is_good ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return run_all();
    for (struct test_group *g = first; g; g = g->next) {
        if (strcmp(argv[1], "--list") == 0)
            printf(NAME "\n", NAME_OF(g));
        else if (is_named(g, argv[1])) {
            if (argc > 2)
                cmocka_set_test_filter(argv[2]);
            return g->run();
        }
    }
    if (strcmp(argv[1], "--list") == 0)
        return 0;
    fprintf(stderr, "no such group: %s (--list)\n", argv[1]);
    return 2;
}
