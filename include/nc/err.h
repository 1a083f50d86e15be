/*
 * Errors as values.
 *
 * A function that can fail returns 0 or a negative errno; a positive return is a documented outcome
 * of that one function and is never forwarded. Where a person must read the reason, the last
 * parameter is a `struct nc_err *` (NULL allowed): untouched on success, filled by nc_err_set() on
 * failure. The class is what the program acts on: retry, exit code, condition reason and remedy all
 * follow from it.
 */
#ifndef NC_ERR_H
#define NC_ERR_H

#include <stdarg.h>

enum nc_err_class {
    NC_ERR_NONE = 0,
    NC_ERR_TRANSIENT, /* try again later: peer away, 5xx, 429, deadline */
    NC_ERR_CONFIG,    /* the user must change something; retrying cannot help */
    NC_ERR_AUTH,      /* the peer knows us and refuses: 401, 403, wrong CA */
    NC_ERR_PROTOCOL,  /* the peer sent nonsense */
    NC_ERR_HOST,      /* a local system call, disk, D-Bus or systemd failed */
    NC_ERR_BUG,       /* our own mistake */
    _NC_ERR_CLASS_MAX
};

/* Where a value stands: `source` is an index that the caller gives a meaning (0 = not from a
 * document). */
struct nc_mark {
    unsigned source;
    unsigned line;   /* from 1; 0 = unknown */
    unsigned column; /* from 1, in characters */
    unsigned indent; /* of a string of YAML whose lines are those of the document, from the one
                        behind this on (a literal block, |): how far they are indented; else 0 */
};

struct nc_err {
    enum nc_err_class class;
    int code;      /* negative errno, or an HTTP status where that says more */
    char msg[384]; /* outside-in: "imds: /latest/x: HTTP 503 after 10 tries"; never a secret */
    struct nc_mark mark; /* of the value that is to blame; line 0: none, or msg names it */
    char remedy[384];    /* what the reader should do, "" when nothing helps beyond waiting */
};

#define NC_ERR_INIT                                                                                \
    { 0 }

/* Fills err (if not NULL) and returns the negative form of code (-EINVAL where code is 0). The
 * message is cut at the buffer's end, never overrun. Usage: `return nc_err_set(err, NC_ERR_CONFIG,
 * EINVAL, "…", …);` */
int nc_err_set(struct nc_err *err, enum nc_err_class class, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int nc_err_setv(struct nc_err *err, enum nc_err_class class, int code, const char *format,
                va_list ap) __attribute__((format(printf, 4, 0)));

/* The same for what somebody configured wrongly, NC_ERR_CONFIG with EINVAL, and for an answer that
 * is not what it should be, NC_ERR_PROTOCOL with EBADMSG. */
int nc_err_config(struct nc_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int nc_err_protocol(struct nc_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for what the machine refused: class NC_ERR_HOST, and behind what the format gives what
 * strerror(3) says of code, an errno of either sign, not 0. */
int nc_err_host(struct nc_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Relays what a callback was told: copies it to err (if not NULL) and returns the negative form
 * of its code; 0, and err untouched, where its class is NC_ERR_NONE. */
int nc_err_give(const struct nc_err *from, struct nc_err *err);

/* Puts "prefix: " before the message on the way up. Keeps class, code and remedy. NULL is allowed.
 */
void nc_err_wrap(struct nc_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets the remedy of an error that is already filled. */
void nc_err_remedy(struct nc_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The one of EMFILE and ENFILE, wherever they are met. */
#define NC_REMEDY_OPEN_FILES "raise the limit of open files (LimitNOFILE=, fs.file-max)"

/* "transient", "config", …; the names that status.json and the metrics carry. */
const char *nc_err_class_name(enum nc_err_class class);

/* The process exit code of a class: the table of docs/commands.md, "Exit codes". */
int nc_err_exit_code(enum nc_err_class class);

#endif
