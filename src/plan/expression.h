/*
 * The values of an expression, and what its parts share. Nobody else includes this.
 */
#ifndef NC_PLAN_EXPRESSION_H
#define NC_PLAN_EXPRESSION_H

#include "nc/mem.h"
#include "numbers.h"

#define NC_CEL_MAX_LENGTH 4096

enum nc_cel_kind { NC_CEL_INTEGER, NC_CEL_FRACTION, NC_CEL_TRUTH, NC_CEL_TEXT };

struct nc_cel_value {
    enum nc_cel_kind kind;
    const char *bad; /* why it could not be computed; NULL = it could */
    union {
        int64_t v;        /* INTEGER, and TRUTH */
        double d;         /* FRACTION */
        const char *text; /* TEXT: never NULL, unless it is bad */
    };
};

struct nc_cel_parser {
    const char *text, *p;
    const struct nc_expression_variables *variables;
    unsigned depth;
    bool failed;
    struct nc_strv texts; /* that values point into */
    char *why;
    size_t why_size;
};

/* --- expression-value.c */

/* The text is no expression: nothing more is read of it. */
struct nc_cel_value nc_cel_fail(struct nc_cel_parser *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline struct nc_cel_value nc_cel_truth(bool v) {
    return (struct nc_cel_value){.kind = NC_CEL_TRUTH, .v = v};
}

static inline struct nc_cel_value nc_cel_integer(int64_t v) {
    return (struct nc_cel_value){.v = v};
}

static inline struct nc_cel_value nc_cel_fraction(double d) {
    return (struct nc_cel_value){.kind = NC_CEL_FRACTION, .d = d};
}

static inline bool nc_cel_is_number(const struct nc_cel_value *v) {
    return v->kind == NC_CEL_INTEGER || v->kind == NC_CEL_FRACTION;
}

/* Both must be numbers of one kind; fails where they are not. */
bool nc_cel_want_numbers(struct nc_cel_parser *s, const char *op, const struct nc_cel_value *a,
                         const struct nc_cel_value *b);
struct nc_cel_value nc_cel_to_fraction(struct nc_cel_value v); /* of a number */
/* Towards zero; what does not fit cannot be computed, as in CEL. */
struct nc_cel_value nc_cel_to_integer(struct nc_cel_parser *s, struct nc_cel_value v);
/* Of one kind, both: NaN is in no order. */
bool nc_cel_is_less(const struct nc_cel_value *a, const struct nc_cel_value *b);
bool nc_cel_is_equal(const struct nc_cel_value *a, const struct nc_cel_value *b);
bool nc_cel_compare(const char *op, const struct nc_cel_value *a, const struct nc_cel_value *b);
/* + - * / %, and + of texts. */
struct nc_cel_value nc_cel_arithmetic(struct nc_cel_parser *s, char op,
                                      const struct nc_cel_value *a, const struct nc_cel_value *b);

/* --- expression-text.c */

/* A literal, where one stands: false where there is none. */
bool nc_cel_read_text(struct nc_cel_parser *s, struct nc_cel_value *ret);
/* size, contains, startsWith, endsWith and matches: is it one of them? */
bool nc_cel_is_text_function(const char *name);
/* Of n values, the first of which may have stood before the name. */
struct nc_cel_value nc_cel_call_text(struct nc_cel_parser *s, const char *name,
                                     const struct nc_cel_value *given, size_t n);

#endif
