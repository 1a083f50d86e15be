/*
 * getopt over a table of options. States what is wrong in the words of whoever owns the option.
 */
#include "options.h"

#include <getopt.h>

#include "log.h"
#include "nc/str.h"
#include "nc/time.h"
#include "process.h"

enum { FIRST_INDEX = 1000 }; /* of getopt's values: beyond any letter */

/* What it takes. "": it is a switch. */
static const char *argument_of(const struct nc_option *o) {
    return o->argument ? o->argument : "";
}

static bool is_accepted(const struct nc_command *c, const struct nc_option *o) {
    return !o->accepts || (o->accepts & c->accepts);
}

/* The row that getopt's value stands for. NULL: this command takes no such one. */
static const struct nc_option *find_option(const struct nc_command_line *line, int value) {
    const struct nc_option_table *t = line->table;

    if (value >= FIRST_INDEX)
        return &t->options[value - FIRST_INDEX];
    for (size_t i = 0; i < t->n_options; i++)
        if (value > 0 && t->options[i].letter == value
            && is_accepted(line->command, &t->options[i]))
            return &t->options[i];
    return NULL;
}

/* --- help */

static void print_help(const struct nc_command_line *line) {
    const struct nc_command *c = line->command;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)nc_buf_printf(&text, "usage: %s %s [OPTION...]%s\n\n%s\n\n", nc_program(), c->name,
                        c->arguments ? c->arguments : "", c->help);
    for (size_t i = 0; i < line->table->n_options; i++) {
        const struct nc_option *o = &line->table->options[i];
        nc_auto_free char *left = NULL;
        if (!is_accepted(c, o) || !o->help)
            continue;
        left = nc_asprintf("--%s %s", o->name, argument_of(o));
        (void)nc_buf_printf(&text, "  %-34s  %s\n", left, o->help);
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

/* "PROGRAM COMMAND: what value", and what was perhaps meant. */
static void report_unknown(const char *command, const char *what, const char *value,
                           const char *near) {
    (void)fprintf(stderr, "%s%s%s: %s %s", nc_program(), command ? " " : "", command ? command : "",
                  what, value);
    if (near)
        (void)fprintf(stderr, "; did you mean %s?", near);
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
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;

    for (const struct nc_command *c = t->commands; c < t->commands + t->n_commands; c++) {
        if (nc_streq(c->name, name))
            return c;
        (void)nc_buf_add(&names, c->name, strlen(c->name) + 1);
    }
    report_unknown(NULL, "unknown command:", name, nc_nearest(name, names.data));
    return NULL;
}

/* --- what an argument names: "a|b" may be a or b; with a capital letter it is only described */

static bool is_named(const char *argument, const char *value) {
    const size_t n = strlen(value);

    for (const char *at = argument; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == n && memcmp(at, value, n) == 0)
            return true;
    return false;
}

/* A former argument has a row of its own. */
static bool is_allowed(const struct nc_option_table *t, const struct nc_option *o,
                       const char *value) {
    const char *argument = argument_of(o);

    if (!*argument || strpbrk(argument, NC_UPPER))
        return true;
    for (size_t i = 0; i < t->n_options; i++)
        if (nc_streq(t->options[i].name, o->name) && is_named(argument_of(&t->options[i]), value))
            return true;
    return false;
}

/* The argument of an option, "--json", and a command, "--version", are taken for an option, too. */
static void report_unknown_option(const struct nc_command_line *line, const char *arg) {
    const struct nc_option_table *t = line->table;
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;
    nc_auto_free char *text = nc_strndup(arg, strcspn(arg, "="));
    nc_auto_free char *meant = NULL;
    const char *name = nc_starts_with(text, "--") ? text + 2 : "-";

    for (size_t i = 0; i < t->n_options; i++) {
        const struct nc_option *o = &t->options[i];
        if (!is_accepted(line->command, o))
            continue;
        (void)nc_buf_add(&names, o->name, strlen(o->name) + 1);
        if (!meant && is_named(argument_of(o), name))
            meant = nc_asprintf("--%s %s", o->name, name);
    }
    for (size_t i = 0; !meant && i < t->n_commands; i++)
        if (nc_streq(t->commands[i].name, name))
            meant = nc_asprintf("%s %s", nc_program(), name);
    const char *near = meant ? NULL : nc_nearest(name, names.data);
    if (near)
        meant = nc_asprintf("--%s", near);
    report_unknown(line->command->name, "unknown option:", arg, meant);
}

/* getopt stays at a word of several letters until its last one. */
static int report_option(const struct nc_command_line *line, const char *arg) {
    const char letter[] = {'-', (char)optopt, '\0'};
    const struct nc_option *o = find_option(line, optopt);

    if (o)
        (void)nc_options_wrong(line->command->name,
                               *argument_of(o) ? "an option without its value:"
                                               : "an option that takes no value:",
                               arg);
    else
        report_unknown_option(line, optopt > 0 && optopt < FIRST_INDEX ? letter : arg);
    return NC_OPTIONS_WRONG;
}

/* "--x is a, b or c, not value" */
static void report_value(const struct nc_command_line *line, const struct nc_option *o,
                         const char *value) {
    const char *argument = argument_of(o), *last = strrchr(argument, '|');
    nc_cleanup(nc_buf_done) struct nc_buf what = NC_BUF_INIT;

    (void)nc_buf_printf(&what, "--%s is ", o->name);
    for (const char *p = argument; *p; p++)
        if (*p == '|')
            (void)nc_buf_puts(&what, p == last ? " or " : ", ");
        else
            (void)nc_buf_putc(&what, *p);
    (void)nc_buf_puts(&what, ", not");
    (void)nc_options_wrong(line->command->name, what.data, value);
}

/* --- parsers of values */

static const char *wrong(const char *option, const char *has, const char *wanted,
                         const char *instead) {
    static char text[256];

    (void)snprintf(text, sizeof(text), "--%s %s %s%s", option, has, wanted, instead);
    return text;
}

const char *nc_option_wrong(const struct nc_option *o, const char *wanted) {
    return wrong(o->name, "is", wanted, ", not");
}

static const char *parse_text(const struct nc_option *o, const char **to, const char *value) {
    *to = value;
    if (o->check)
        return o->check(value) ? NULL : nc_option_wrong(o, o->wanted);
    return *value || o->type == NC_OPTION_ANY_TEXT
               ? NULL
               : wrong(o->name, "has an empty value,", argument_of(o), " is needed");
}

static bool parse_switch(const struct nc_option *o, const char *value) {
    const char *argument = argument_of(o);

    return !*argument || nc_streq(strrchr(argument, '|') + 1, value);
}

static uint64_t bound(const char *text, uint64_t none) {
    uint64_t usec = none;

    if (text)
        (void)nc_duration_parse(text, &usec);
    return usec;
}

static const char *parse_duration(const struct nc_option *o, uint64_t *to, const char *value) {
    const bool is_right = nc_duration_parse(value, to) == 0 && *to >= bound(o->least, 0)
                          && *to <= bound(o->most, UINT64_MAX);

    return is_right ? NULL : nc_option_wrong(o, o->wanted);
}

const char *nc_option_log_format(const struct nc_option *o, void *to, const char *value) {
    (void)nc_log_set_format(value);
    return NULL;
}

const char *nc_option_log_level(const struct nc_option *o, void *to, const char *value) {
    (void)nc_log_set_level(value);
    return NULL;
}

/* NULL, or what is wrong with the value. */
static const char *parse(const struct nc_option *o, void *to, const char *value) {
    switch (o->type) {
    case NC_OPTION_HELP:
        break;
    case NC_OPTION_TEXT:
    case NC_OPTION_ANY_TEXT:
        return parse_text(o, to, value);
    case NC_OPTION_LIST:
        nc_strv_add(to, value);
        return o->check && !o->check(value) ? nc_option_wrong(o, o->wanted) : NULL;
    case NC_OPTION_SWITCH:
        *(bool *)to = parse_switch(o, value);
        break;
    case NC_OPTION_DURATION:
        return parse_duration(o, to, value);
    case NC_OPTION_OWN:
        return o->parse(o, to, value);
    }
    return NULL;
}

/* --- parsing */

/* Several rows may have one name: the first is meant. */
static bool is_first(const struct nc_option_table *t, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (nc_streq(t->options[k].name, t->options[i].name))
            return false;
    return true;
}

/* A NULL-terminated array for getopt_long of what this command takes. Owned. */
static struct option *list_options(const struct nc_command_line *line) {
    const struct nc_option_table *t = line->table;
    struct option *list = nc_calloc(t->n_options + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; i < t->n_options; i++) {
        const struct nc_option *o = &t->options[i];
        if (is_accepted(line->command, o) && is_first(t, i))
            list[n++] = (struct option){o->name, *argument_of(o) ? required_argument : no_argument,
                                        NULL, FIRST_INDEX + (int)i};
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
    const char *letters = find_option(line, 'o') ? "o:h" : "h";
    nc_auto_free struct option *list = list_options(line);
    int value;

    optind = 0; /* also forgets where in a word it stopped before */
    opterr = 0;
    while ((value = getopt_long(argc, argv, letters, list, NULL)) != -1) {
        const struct nc_option *o = value == '?' ? NULL : find_option(line, value);
        const char *what;
        if (!o)
            return report_option(line, argv[optind - 1]);
        if (o->type == NC_OPTION_HELP) {
            print_help(line);
            return NC_OPTIONS_HELP;
        }
        if (!is_allowed(line->table, o, optarg)) {
            report_value(line, o, optarg);
            return NC_OPTIONS_WRONG;
        }
        what = parse(o, (char *)line->to + o->to, optarg);
        if (what) {
            (void)nc_options_wrong(line->command->name, what, optarg);
            return NC_OPTIONS_WRONG;
        }
    }
    *ret_rest = optind;
    return check_arguments(line->command, argc - optind, argv + optind);
}
