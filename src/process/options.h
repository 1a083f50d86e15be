/*
 * A command line by tables: which commands there are, which options each takes; help from the same
 * tables. What an option means is its program's.
 */
#ifndef NC_PROCESS_OPTIONS_H
#define NC_PROCESS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct nc_app; /* the agent's; nothing is known of it here */

struct nc_command {
    char name[12];
    unsigned accepts;
    int most_arguments;
    const char *arguments; /* " [FIELD]"; NULL: takes none */
    const char *help;
    int (*run)(struct nc_app *app); /* of the agent */
};

/* An option is one row: what it is called, what it may be, and where it goes. */
struct nc_flag {
    char name[28];
    const char *argument; /* NULL: takes none; "a|b": a or b; with a capital letter: any */
    unsigned accepts;     /* bits of the commands' `accepts`; 0: every command */
    const char *help;     /* NULL: a former name or argument, still accepted */
    /* Takes the value to where it goes. NULL, or what is wrong with it: "--x is a duration, not".
     * An option without a parser is help. */
    const char *(*parse)(const struct nc_flag *f, void *to, const char *value);
    size_t to; /* offset in what the options are read into */
    char letter;
    const char *least, *most;         /* of a duration, as they are written; NULL = any */
    bool (*check)(const char *value); /* of a text */
    const char *wanted;               /* words for what check, or a bound, wants: "a number" */
};

/* Where an option goes; what is not of this type is an error of the compiler. */
#define NC_FLAG_TO(type, options, member)                                                          \
    (offsetof(options, member) + 0 * sizeof(_Generic(((options *)NULL)->member, type : 0)))

/* Parsers. The target of a text is a const char *, of a switch a bool, of a duration a uint64_t of
 * microseconds; log_format and log_level set the log's own. A text without a check is not empty;
 * any_text may be. */
const char *nc_flag_text(const struct nc_flag *f, void *to, const char *value);
const char *nc_flag_any_text(const struct nc_flag *f, void *to, const char *value);
const char *nc_flag_switch(const struct nc_flag *f, void *to, const char *value);
const char *nc_flag_duration(const struct nc_flag *f, void *to, const char *value);
const char *nc_flag_json(const struct nc_flag *f, void *to, const char *value);
const char *nc_flag_log_format(const struct nc_flag *f, void *to, const char *value);
const char *nc_flag_log_level(const struct nc_flag *f, void *to, const char *value);
/* "--x is WANTED, not". Of static storage, good until the next one. */
const char *nc_flag_wrong(const struct nc_flag *f, const char *wanted);

struct nc_option_table {
    const char *usage; /* "COMMAND [OPTION...]" */
    const struct nc_command *commands;
    size_t n_commands;
    const struct nc_flag *flags;
    size_t n_flags;
};

/* The command that was requested, as far as its options go. */
struct nc_command_line {
    const struct nc_option_table *table;
    const struct nc_command *command;
    void *to; /* what the options are read into */
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
