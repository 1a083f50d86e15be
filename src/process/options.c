/*
 * getopt over a table of flags. States what is wrong in the words of whoever owns the flag.
 */
#include "options.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "nc/mem.h"
#include "process.h"

static bool is_accepted(const struct nc_command_line *line, const struct nc_flag *f) {
    return !f->accepts || (f->accepts & line->accepts);
}

void nc_options_print(const struct nc_command_line *line) {
    for (size_t i = 0; i < line->n_flags; i++) {
        const struct nc_flag *f = &line->flags[i];
        nc_auto_free char *left = NULL;
        if (!is_accepted(line, f) || !f->help)
            continue;
        left = nc_asprintf("--%s%s%s", f->name, f->argument ? " " : "",
                           f->argument ? f->argument : "");
        (void)printf("  %-34s %s\n", left, f->help);
    }
}

int nc_options_wrong(const char *command, const char *what, const char *value) {
    (void)fprintf(stderr, "%s %s: %s%s%s\n", nc_program(), command, what,
                  value && *value ? " " : "", value ? value : "");
    (void)fprintf(stderr, "try: %s %s --help\n", nc_program(), command);
    return NC_EXIT_USAGE;
}

/* getopt stays at a word of several letters until its last one. */
static int unknown_option(const struct nc_command_line *line, const char *arg) {
    const char letter[] = {'-', (char)optopt, '\0'};

    (void)nc_options_wrong(line->command, "unknown option, or an option without its value:",
                           optopt > 0 && optopt < NC_FLAG_FIRST ? letter : arg);
    return NC_OPTIONS_WRONG;
}

/* A NULL-terminated array for getopt_long of what this command takes. Owned. */
static struct option *list_options(const struct nc_command_line *line) {
    struct option *list = nc_calloc(line->n_flags + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; i < line->n_flags; i++) {
        const struct nc_flag *f = &line->flags[i];
        if (is_accepted(line, f))
            list[n++] = (struct option){f->name, f->argument ? required_argument : no_argument,
                                        NULL, f->id};
    }
    return list;
}

static int meant(const struct nc_command_line *line, int id) {
    return id == 'o' ? line->output : id == 'h' ? line->help : id;
}

int nc_options_parse(const struct nc_command_line *line, int argc, char **argv, int *ret_rest) {
    nc_auto_free struct option *list = list_options(line);
    int id;

    optind = 0; /* also forgets where in a word it stopped before */
    opterr = 0;
    while ((id = getopt_long(argc, argv, line->output ? "o:h" : "h", list, NULL)) != -1) {
        const char *wrong;
        if (id == '?')
            return unknown_option(line, argv[optind - 1]);
        id = meant(line, id);
        if (id == line->help)
            return NC_OPTIONS_HELP;
        wrong = line->on_option(line->userdata, id, optarg);
        if (wrong) {
            (void)nc_options_wrong(line->command, wrong, optarg);
            return NC_OPTIONS_WRONG;
        }
    }
    *ret_rest = optind;
    return 0;
}
