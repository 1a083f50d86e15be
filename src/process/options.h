/*
 * A command line by tables: which commands there are, which options each takes; help from the same
 * tables. What an option means is its program's.
 */
#ifndef NC_PROCESS_OPTIONS_H
#define NC_PROCESS_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

struct nc_app; /* the agent's; nothing is known of it here */

struct nc_command {
    const char *name;
    unsigned accepts;
    int most_arguments;
    const char *arguments; /* " [FIELD]"; NULL: takes none */
    const char *help;
    int (*run)(struct nc_app *app); /* of the agent */
};

struct nc_flag {
    const char *name;
    const char *argument; /* NULL: takes none; "a|b": a or b; with a capital letter: any */
    int id;               /* beyond any letter: from NC_FLAG_FIRST */
    unsigned accepts;     /* bits of the commands' `accepts`; 0: every command */
    const char *help;     /* NULL: a former name or argument, still accepted */
};
enum { NC_FLAG_FIRST = 1000 };

struct nc_option_table {
    const char *usage; /* "COMMAND [OPTION...]" */
    const struct nc_command *commands;
    size_t n_commands;
    const struct nc_flag *flags;
    size_t n_flags;
    int output; /* the id that -o stands for, where the command takes it */
    int help;   /* the id that -h stands for */
};

/* NULL, or what is wrong with the value: "--x is a duration, not". */
typedef const char *(*nc_option_fn)(void *userdata, int id, const char *value);

/* The command that was requested, as far as its options go. */
struct nc_command_line {
    const struct nc_option_table *table;
    const struct nc_command *command;
    nc_option_fn on_option;
    void *userdata;
};

/* NULL where there is none of this name: that, and the one that was perhaps meant, was reported on
 * stderr. */
const struct nc_command *nc_options_command(const struct nc_option_table *t, const char *name);

enum { NC_OPTIONS_HELP = 1, NC_OPTIONS_WRONG = 2 };
/* 0: everything was taken, *ret_rest is the index of what is no option, and there are no more of
 * those than the command takes; NC_OPTIONS_HELP where help was requested and printed;
 * NC_OPTIONS_WRONG where something was wrong and was reported on stderr. argv[0] is the command. */
int nc_options_parse(const struct nc_command_line *line, int argc, char **argv, int *ret_rest);

/* The commands, with what each is for. */
void nc_options_usage(const struct nc_option_table *t, FILE *to);
/* "PROGRAM COMMAND: what value" and where help is. Always NC_EXIT_USAGE. */
int nc_options_wrong(const char *command, const char *what, const char *value);

#endif
