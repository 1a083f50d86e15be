/*
 * getopt over a table of flags. States what is wrong in the words of whoever owns the flag.
 */
#include "options.h"

#include <getopt.h>
#include <stdbool.h>

#include "log.h"
#include "nc/str.h"
#include "process.h"
#include "terminal.h"

static bool is_accepted(const struct nc_command *c, const struct nc_flag *f) {
    return !f->accepts || (f->accepts & c->accepts);
}

/* What this command takes has no such id: NULL. */
static const struct nc_flag *find_flag(const struct nc_command_line *line, int id) {
    for (size_t i = 0; i < line->table->n_flags; i++)
        if (line->table->flags[i].id == id && is_accepted(line->command, &line->table->flags[i]))
            return &line->table->flags[i];
    return NULL;
}

/* --- help */

static void print_help(const struct nc_command_line *line) {
    const struct nc_command *c = line->command;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)nc_buf_printf(&text, "usage: %s %s [OPTION...]%s\n\n%s\n\n", nc_program(), c->name,
                        c->arguments ? c->arguments : "", c->help);
    for (size_t i = 0; i < line->table->n_flags; i++) {
        const struct nc_flag *f = &line->table->flags[i];
        nc_auto_free char *left = NULL;
        if (!is_accepted(c, f) || !f->help)
            continue;
        left = nc_asprintf("--%s %s", f->name, f->argument ? f->argument : "");
        (void)nc_buf_printf(&text, "  %-34s  %s\n", left, f->help);
    }
    nc_terminal_print(stdout, text.data);
}

void nc_options_usage(const struct nc_option_table *t, FILE *to) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)nc_buf_printf(&text, "usage: %s %s\n\n", nc_program(), t->usage);
    for (size_t i = 0; i < t->n_commands; i++)
        (void)nc_buf_printf(&text, "  %-10s  %s\n", t->commands[i].name, t->commands[i].help);
    (void)nc_buf_printf(&text,
                        "\n`%s COMMAND --help` lists a command's options; the manual is %s(8).\n",
                        nc_program(), nc_program());
    nc_terminal_print(to, text.data);
}

/* --- what is wrong */

/* "PROGRAM COMMAND: what value", and the name that was perhaps meant, of a NULL-terminated list. */
static void report_unknown(const char *command, const char *what, const char *value,
                           const char *near) {
    (void)fprintf(stderr, "%s%s%s: %s %s", nc_program(), command ? " " : "", command ? command : "",
                  what, value);
    if (near)
        (void)fprintf(stderr, "; did you mean %s%s?", command ? "--" : "", near);
    (void)fprintf(stderr, "\ntry: %s%s%s --help\n", nc_program(), command ? " " : "",
                  command ? command : "");
}

int nc_options_wrong(const char *command, const char *what, const char *value) {
    (void)fprintf(stderr, "%s %s: %s%s%s\n", nc_program(), command, what,
                  value && *value ? " " : "", value ? value : "");
    (void)fprintf(stderr, "try: %s %s --help\n", nc_program(), command);
    return NC_EXIT_USAGE;
}

const struct nc_command *nc_options_command(const struct nc_option_table *t, const char *name) {
    nc_auto_free const char **names = nc_calloc(t->n_commands + 1, sizeof(*names));

    for (size_t i = 0; i < t->n_commands; i++) {
        if (nc_streq(t->commands[i].name, name))
            return &t->commands[i];
        names[i] = t->commands[i].name;
    }
    report_unknown(NULL, "unknown command:", name, nc_nearest(name, names));
    return NULL;
}

static void report_unknown_option(const struct nc_command_line *line, const char *arg) {
    nc_auto_free const char **names = nc_calloc(line->table->n_flags + 1, sizeof(*names));
    nc_auto_free char *name = nc_strndup(arg, strcspn(arg, "="));
    size_t n = 0;

    for (size_t i = 0; i < line->table->n_flags; i++)
        if (is_accepted(line->command, &line->table->flags[i]))
            names[n++] = line->table->flags[i].name;
    report_unknown(line->command->name, "unknown option:", arg,
                   nc_starts_with(name, "--") ? nc_nearest(name + 2, names) : NULL);
}

/* getopt stays at a word of several letters until its last one. */
static int report_option(const struct nc_command_line *line, const char *arg) {
    const char letter[] = {'-', (char)optopt, '\0'};
    const struct nc_flag *f = find_flag(line, optopt == 'o' ? line->table->output : optopt);

    if (f)
        (void)nc_options_wrong(
            line->command->name,
            f->argument ? "an option without its value:" : "an option that takes no value:", arg);
    else
        report_unknown_option(line, optopt > 0 && optopt < NC_FLAG_FIRST ? letter : arg);
    return NC_OPTIONS_WRONG;
}

/* --- what an argument names: "a|b" may be a or b; with a capital letter it is only described */

static bool is_named(const char *argument, const char *value) {
    const size_t n = strlen(value);

    for (const char *at = argument; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == n && memcmp(at, value, n) == 0)
            return true;
    return false;
}

static bool is_allowed(const struct nc_command_line *line, int id, const char *value) {
    for (size_t i = 0; i < line->table->n_flags; i++) {
        const struct nc_flag *f = &line->table->flags[i];
        if (f->id == id
            && (!f->argument || strpbrk(f->argument, NC_UPPER) || is_named(f->argument, value)))
            return true;
    }
    return false;
}

/* "--x is a, b or c, not value" */
static void report_value(const struct nc_command_line *line, int id, const char *value) {
    const struct nc_flag *f = find_flag(line, id);
    const char *values = f && f->argument ? f->argument : "", *last = strrchr(values, '|');
    nc_cleanup(nc_buf_done) struct nc_buf what = NC_BUF_INIT;

    (void)nc_buf_printf(&what, "--%s is ", f ? f->name : "an option");
    for (const char *p = values; *p; p++)
        if (*p == '|')
            (void)nc_buf_puts(&what, p == last ? " or " : ", ");
        else
            (void)nc_buf_putc(&what, *p);
    (void)nc_buf_puts(&what, ", not");
    (void)nc_options_wrong(line->command->name, what.data, value);
}

/* --- parsing */

/* A NULL-terminated array for getopt_long of what this command takes. Owned. */
static struct option *list_options(const struct nc_command_line *line) {
    const struct nc_option_table *t = line->table;
    struct option *list = nc_calloc(t->n_flags + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; i < t->n_flags; i++) {
        const struct nc_flag *f = &t->flags[i];
        if (is_accepted(line->command, f))
            list[n++] = (struct option){f->name, f->argument ? required_argument : no_argument,
                                        NULL, f->id};
    }
    return list;
}

static int check_arguments(const struct nc_command *c, int argc, char **argv) {
    if (argc <= c->most_arguments)
        return 0;
    (void)nc_options_wrong(
        c->name, c->most_arguments ? "takes one argument, not also" : "takes no argument, not",
        argv[c->most_arguments]);
    return NC_OPTIONS_WRONG;
}

int nc_options_parse(const struct nc_command_line *line, int argc, char **argv, int *ret_rest) {
    const char *letters = find_flag(line, line->table->output) ? "o:h" : "h";
    nc_auto_free struct option *list = list_options(line);
    int id;

    optind = 0; /* also forgets where in a word it stopped before */
    opterr = 0;
    while ((id = getopt_long(argc, argv, letters, list, NULL)) != -1) {
        const char *wrong;
        if (id == '?')
            return report_option(line, argv[optind - 1]);
        id = id == 'o' ? line->table->output : id == 'h' ? line->table->help : id;
        if (id == line->table->help) {
            print_help(line);
            return NC_OPTIONS_HELP;
        }
        if (!is_allowed(line, id, optarg)) {
            report_value(line, id, optarg);
            return NC_OPTIONS_WRONG;
        }
        wrong = line->on_option(line->userdata, id, optarg);
        if (wrong) {
            (void)nc_options_wrong(line->command->name, wrong, optarg);
            return NC_OPTIONS_WRONG;
        }
    }
    *ret_rest = optind;
    return check_arguments(line->command, argc - optind, argv + optind);
}
