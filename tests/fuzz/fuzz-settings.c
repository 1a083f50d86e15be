/*
 * The controller's command line: each line of the text is an argument. What is accepted holds
 * together, what is refused ends with a usage error, and help is no error.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/standalone.h"

#include "options.h"
#include "process.h"
#include "settings.h"

#define ARGS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* What is said to people goes nowhere. */
static int read_quietly(int argc, char **argv, struct nc_settings *ret, int *ret_code) {
    static FILE *nowhere;
    FILE *const out = stdout, *const error = stderr;
    int r;

    if (!nowhere && !(nowhere = fopen("/dev/null", "we")))
        abort();
    stdout = stderr = nowhere;
    r = nc_settings_read(argc, argv, &nc_standalone, ret, ret_code);
    stdout = out;
    stderr = error;
    return r;
}

static void check(const struct nc_settings *s) {
    if (!s->command || s->rules.max_in_flight < 4 || s->retry_usec == 0
        || s->renew_usec >= s->lease_duration_usec || s->retry_usec >= s->renew_usec)
        abort();
    if (s->rules.order != NC_CONTROL_BOTH && s->rules.order != NC_CONTROL_DELETE_FIRST)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *text = nc_strndup((const char *)data, n);
    char *argv[ARGS_MAX + 2] = {(char *)(uintptr_t) "nodeclaim-controller"};
    struct nc_settings s;
    char *rest = text;
    int argc = 1, code = -1;

    for (char *word; argc <= ARGS_MAX && (word = strsep(&rest, "\n"));)
        argv[argc++] = word;
    const int r = read_quietly(argc, argv, &s, &code);
    if (r == 0)
        check(&s);
    else if (code != 0 && code != NC_EXIT_USAGE)
        abort();
    return 0;
}
