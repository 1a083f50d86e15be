/*
 * A command line by tables: which commands there are, which options each takes; help from the same
 * tables. What an option means is its program's.
 */
#ifndef NC_PROCESS_OPTIONS_H
#define NC_PROCESS_OPTIONS_H

#include <stddef.h>

struct nc_flag {
    const char *name;
    const char *argument; /* NULL: takes none */
    int id;               /* beyond any letter: from NC_FLAG_FIRST */
    unsigned accepts;     /* bits of the commands' `accepts`; 0: every command */
    const char *help;     /* NULL: a former name, still accepted */
};
enum { NC_FLAG_FIRST = 1000 };

/* NULL, or what is wrong with the value: "--x is a or b, not". */
typedef const char *(*nc_option_fn)(void *userdata, int id, const char *value);

/* The command that was requested, as far as its options go. */
struct nc_command_line {
    const char *command;
    unsigned accepts;
    const struct nc_flag *flags;
    size_t n_flags;
    int output; /* the id that -o stands for; 0: there is no -o */
    int help;   /* the id that -h stands for */
    nc_option_fn on_option;
    void *userdata;
};

enum { NC_OPTIONS_HELP = 1, NC_OPTIONS_WRONG = 2 };
/* 0: everything was taken, *ret_rest is the index of what is no option; NC_OPTIONS_HELP where help
 * was requested; NC_OPTIONS_WRONG where something was wrong and was reported on stderr. argv[0] is
 * the command. */
int nc_options_parse(const struct nc_command_line *line, int argc, char **argv, int *ret_rest);

/* "  --name ARGUMENT   help" for each that this command takes. */
void nc_options_print(const struct nc_command_line *line);
/* "PROGRAM COMMAND: what value" and where help is. Always NC_EXIT_USAGE. */
int nc_options_wrong(const char *command, const char *what, const char *value);

#endif
