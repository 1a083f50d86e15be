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

/* What an option writes is of the type of its target. */
enum nc_option_type {
    NC_OPTION_HELP = 0,
    NC_OPTION_TEXT,     /* const char *; not empty, where there is no .check */
    NC_OPTION_ANY_TEXT, /* the same, and may be empty */
    NC_OPTION_LIST,     /* struct nc_strv, to which it is added */
    NC_OPTION_SWITCH,   /* bool; with an argument "a|b" true for the last */
    NC_OPTION_DURATION, /* uint64_t of microseconds */
    NC_OPTION_OWN,      /* by .parse */
};

/* An option is one row: what it is called, what it may be, and where it goes. */
struct nc_option {
    const char *name;
    const char *argument; /* "a|b": a or b; with a capital letter: any; NULL: it is a switch */
    unsigned accepts;     /* bits of the commands' `accepts`; 0: every command */
    const char *help;     /* NULL: a former name or argument, still accepted */
    unsigned short to;    /* offset in what the options are read into */
    enum nc_option_type type : 8;
    char letter;
    const char *wanted; /* words for what a check or a bound wants: "a number" */
    union {
        bool (*check)(const char *value); /* of a text; NULL: any */
        const char *least;                /* of a duration, as it is written; NULL: any */
        /* Of OWN: NULL, or what is wrong: "--x is a duration, not". */
        const char *(*parse)(const struct nc_option *o, void *to, const char *value);
    };
    const char *most; /* of a duration, as it is written; NULL: any */
};

/* Where an option goes; what is not of this type is an error of the compiler. */
#define NC_OPTION_TO(ctype, options, member)                                                       \
    (offsetof(options, member) + 0 * sizeof(_Generic(((options *)NULL)->member, ctype : 0)))

/* Parsers that set the log's own. */
const char *nc_option_log_format(const struct nc_option *o, void *to, const char *value);
const char *nc_option_log_level(const struct nc_option *o, void *to, const char *value);
/* "--x is WANTED, not". Of static storage, good until the next one. */
const char *nc_option_wrong(const struct nc_option *o, const char *wanted);

struct nc_option_table {
    const char *usage; /* "COMMAND [OPTION...]" */
    const struct nc_command *commands;
    size_t n_commands;
    const struct nc_option *options;
    size_t n_options;
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
