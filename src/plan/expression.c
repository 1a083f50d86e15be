/*
 * maxPodsExpression: the part of CEL that a formula over three integers needs.
 *
 *   expr    := or [ "?" expr ":" expr ]
 *   or      := and { "||" and }        and := compare { "&&" compare }
 *   compare := sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ]
 *   sum     := product { ( "+" | "-" ) product }
 *   product := unary { ( "*" | "/" | "%" ) unary }
 *   unary   := { "!" | "-" } primary
 *   primary := INTEGER | FRACTION | "true" | "false" | NAME | "(" expr ")"
 *            | ( "int" | "double" ) "(" expr ")" | ( "min" | "max" ) "(" expr { "," expr } ")"
 *
 * As in CEL, integers are 64 bits wide and overflow or a division by zero is an error; integers,
 * fractions and truth values do not mix, int() and double() convert; && and || do not check what
 * they do not need, and only the chosen branch of ?: is computed; "//" begins a comment. What is
 * not computed is still parsed. min() and max() are ours. A chained comparison is refused. Depth
 * and length are bounded.
 */
#include "numbers.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/str.h"

#define MAX_LENGTH 4096
#define MAX_DEPTH 64

enum kind { INTEGER, FRACTION, TRUTH };

struct value {
    enum kind kind;
    int64_t v; /* INTEGER, and TRUTH */
    double d;  /* FRACTION */
};

struct parser {
    const char *text, *p;
    const struct nc_expression_variables *variables;
    bool skip; /* parse, do not compute */
    unsigned depth;
    bool failed;
    char *why;
    size_t why_size;
};

static struct value parse_expression(struct parser *s);

static struct value fail(struct parser *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static struct value fail(struct parser *s, const char *format, ...) {
    char what[160];
    va_list ap;

    if (!s->failed) {
        va_start(ap, format);
        vsnprintf(what, sizeof(what), format, ap);
        va_end(ap);
        snprintf(s->why, s->why_size, "column %zu: %s", (size_t)(s->p - s->text) + 1, what);
    }
    s->failed = true;
    s->p += strlen(s->p); /* nothing more is read */
    return (struct value){0};
}

static void skip_space(struct parser *s) {
    for (;;) {
        while (isspace((unsigned char)*s->p))
            s->p++;
        if (strncmp(s->p, "//", 2) != 0)
            return;
        s->p += strcspn(s->p, "\n");
    }
}

static bool accept(struct parser *s, const char *token) {
    size_t n = strlen(token);

    skip_space(s);
    if (s->failed || strncmp(s->p, token, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool expect(struct parser *s, const char *token) {
    if (accept(s, token))
        return true;
    fail(s, "'%s' expected", token);
    return false;
}

static struct value integer(int64_t v) {
    return (struct value){.v = v};
}

static struct value fraction(double d) {
    return (struct value){.kind = FRACTION, .d = d};
}

static struct value truth(bool v) {
    return (struct value){.kind = TRUTH, .v = v};
}

static bool is_truth(struct value v) {
    return v.kind == TRUTH;
}

static bool is_less(struct value a, struct value b) {
    return a.kind == FRACTION ? a.d < b.d : a.v < b.v;
}

/* Both operands must be numbers of one kind; reports it where they are not. */
static bool want_numbers(struct parser *s, const char *op, struct value a, struct value b) {
    if (s->failed)
        return false;
    if (is_truth(a) || is_truth(b))
        fail(s, "'%s' needs integers or fractions", op);
    else if (a.kind != b.kind)
        fail(s, "'%s' mixes an integer and a fraction: convert one with int() or double()", op);
    return !s->failed;
}

static struct value parse_min_max(struct parser *s, const char *name) {
    struct value best = parse_expression(s);

    if (!want_numbers(s, name, best, best))
        return best;
    while (accept(s, ",")) {
        struct value next = parse_expression(s);
        if (!want_numbers(s, name, best, next))
            return best;
        if (nc_streq(name, "max") ? is_less(best, next) : is_less(next, best))
            best = next;
    }
    expect(s, ")");
    return best;
}

/* Towards zero; what does not fit is an error, as in CEL. */
static struct value to_integer(struct parser *s, struct value v) {
    if (v.kind != FRACTION)
        return v;
    return v.d > -0x1p63 && v.d < 0x1p63 ? integer((int64_t)v.d)
                                         : fail(s, "the fraction is out of range for an integer");
}

static struct value parse_conversion(struct parser *s, const char *name) {
    struct value v = parse_expression(s);

    if (!expect(s, ")") || !want_numbers(s, name, v, v))
        return v;
    if (name[0] == 'd')
        return v.kind == FRACTION ? v : fraction((double)v.v);
    return s->skip ? integer(0) : to_integer(s, v);
}

static struct value parse_call(struct parser *s, const char *name) {
    if (!expect(s, "("))
        return integer(0);
    return name[0] == 'm' ? parse_min_max(s, name) : parse_conversion(s, name);
}

static bool is_function(const char *name) {
    return nc_is_one_of(name, "min\0max\0int\0double\0");
}

static struct value parse_name(struct parser *s) {
    char name[32] = "";
    size_t n = 0;

    for (; isalnum((unsigned char)s->p[n]) || s->p[n] == '_'; n++)
        if (n + 1 < sizeof(name))
            name[n] = s->p[n];
    if (n == 0)
        return *s->p ? fail(s, "unexpected '%.1s'", s->p)
                     : fail(s, "the expression ends too early");
    if (nc_streq(name, "default_enis"))
        return s->p += n, integer(s->variables->default_enis);
    if (nc_streq(name, "ips_per_eni"))
        return s->p += n, integer(s->variables->ips_per_eni);
    if (nc_streq(name, "max_pods"))
        return s->p += n, integer(s->variables->max_pods);
    if (nc_streq(name, "true") || nc_streq(name, "false"))
        return s->p += n, truth(name[0] == 't');
    if (is_function(name))
        return s->p += n, parse_call(s, name);
    return fail(
        s,
        "unknown name '%s': default_enis, ips_per_eni, max_pods, int(), double(), min() and "
        "max() are known",
        name);
}

/* The length of a fraction (digits on the right of its point, or an exponent); 0 = none is here. */
static size_t fraction_length(const char *p) {
    static const char digits[] = "0123456789";
    size_t n = strspn(p, digits), right = 0, exponent = 0;

    if (p[n] == '.' && (right = strspn(p + n + 1, digits)) > 0)
        n += 1 + right;
    if (n > 0 && (p[n] == 'e' || p[n] == 'E')) {
        const size_t sign = p[n + 1] == '+' || p[n + 1] == '-';
        exponent = strspn(p + n + 1 + sign, digits);
        n += exponent > 0 ? 1 + sign + exponent : 0;
    }
    return right > 0 || exponent > 0 ? n : 0;
}

/* Both kinds were measured before: strtod and strtoll read no further. No locale is ever set. */
static struct value parse_number(struct parser *s) {
    const bool is_hex = s->p[0] == '0' && s->p[1] == 'x' && isxdigit((unsigned char)s->p[2]);
    const size_t fraction_n = is_hex ? 0 : fraction_length(s->p);
    const size_t n =
        is_hex ? 2 + strspn(s->p + 2, "0123456789abcdefABCDEF") : strspn(s->p, "0123456789");
    const size_t length = fraction_n > 0 ? fraction_n : n;
    nc_auto_free char *text = nc_strndup(s->p, length);
    struct value v;

    if (s->p[length] == '.' || isalnum((unsigned char)s->p[length]) || s->p[length] == '_')
        return fail(s, "only integers and fractions are allowed");
    errno = 0;
    v = fraction_n > 0 ? fraction(strtod(text, NULL))
                       : integer(strtoll(text, NULL, is_hex ? 16 : 10));
    if (errno == ERANGE && (fraction_n == 0 || v.d > 1))
        return fail(s, "number too large");
    s->p += length;
    return v;
}

static struct value parse_primary(struct parser *s) {
    if (accept(s, "(")) {
        struct value v = parse_expression(s);
        expect(s, ")");
        return v;
    }
    return isdigit((unsigned char)*s->p) || fraction_length(s->p) > 0 ? parse_number(s)
                                                                      : parse_name(s);
}

/* Prefixes are counted instead of recursed into: a line of dashes is no depth. */
static struct value parse_unary(struct parser *s) {
    unsigned minus = 0, bang = 0;
    struct value v;

    for (;;) {
        if (accept(s, "-"))
            minus++;
        else if (strncmp(s->p, "!=", 2) != 0 && accept(s, "!"))
            bang++;
        else
            break;
    }
    if (minus && bang)
        return fail(s, "'!' and '-' do not mix");
    v = parse_primary(s);
    if (s->failed)
        return v;
    if (bang)
        return is_truth(v) ? truth((v.v != 0) != (bang % 2 == 1))
                           : fail(s, "'!' needs true or false");
    if (minus && is_truth(v))
        return fail(s, "'-' needs an integer or a fraction");
    if (minus % 2 == 0)
        return v;
    /* INT64_MIN is out of reach: no literal and no result is that. */
    return v.kind == FRACTION ? fraction(-v.d) : integer(-v.v);
}

static struct value fractions(struct parser *s, char op, double a, double b) {
    if (op == '%')
        return fail(s, "'%%' needs integers");
    return fraction(op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b);
}

static struct value arithmetic(struct parser *s, char op, struct value a, struct value b) {
    char name[2] = {op, '\0'};
    int64_t v = 0;
    bool bad = false;

    if (!want_numbers(s, name, a, b))
        return integer(0);
    if (a.kind == FRACTION)
        return fractions(s, op, a.d, b.d);
    if (s->skip)
        return integer(0);
    if ((op == '/' || op == '%') && b.v == 0)
        return fail(s, "division by zero");
    if (op == '+')
        bad = __builtin_add_overflow(a.v, b.v, &v);
    else if (op == '-')
        bad = __builtin_sub_overflow(a.v, b.v, &v);
    else if (op == '*')
        bad = __builtin_mul_overflow(a.v, b.v, &v);
    else
        v = op == '/' ? a.v / b.v : a.v % b.v;
    return bad || v == INT64_MIN ? fail(s, "overflow at '%c'", op) : integer(v);
}

static struct value parse_product(struct parser *s) {
    struct value v = parse_unary(s);

    for (;;) {
        if (accept(s, "*"))
            v = arithmetic(s, '*', v, parse_unary(s));
        else if (accept(s, "/"))
            v = arithmetic(s, '/', v, parse_unary(s));
        else if (accept(s, "%"))
            v = arithmetic(s, '%', v, parse_unary(s));
        else
            return v;
    }
}

static struct value parse_sum(struct parser *s) {
    struct value v = parse_product(s);

    for (;;) {
        if (accept(s, "+"))
            v = arithmetic(s, '+', v, parse_product(s));
        else if (accept(s, "-"))
            v = arithmetic(s, '-', v, parse_product(s));
        else
            return v;
    }
}

/* The comparison that stands here, longest first; NULL where there is none. */
static const char *accept_comparison(struct parser *s) {
    static const char ops[][4] = {"<=", ">=", "==", "!=", "<", ">"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(ops); i++)
        if (accept(s, ops[i]))
            return ops[i];
    return NULL;
}

/* By what equality and order give: NaN is neither equal to anything nor in any order. */
static bool compare(const char *op, struct value a, struct value b) {
    const bool is_equal = a.kind == FRACTION ? a.d == b.d : a.v == b.v;

    switch (op[0]) {
    case '<':
        return is_less(a, b) || (op[1] && is_equal);
    case '>':
        return is_less(b, a) || (op[1] && is_equal);
    case '=':
        return is_equal;
    default:
        return !is_equal;
    }
}

static struct value parse_comparison(struct parser *s) {
    struct value a = parse_sum(s), b;
    const char *op = accept_comparison(s);

    if (!op)
        return a;
    b = parse_sum(s);
    if (s->failed)
        return a;
    if (a.kind != b.kind || (is_truth(a) && (op[0] == '<' || op[0] == '>')))
        return fail(s, "'%s' cannot compare these", op);
    if (accept_comparison(s))
        return fail(s, "comparisons cannot be chained: use &&");
    return truth(compare(op, a, b));
}

/* "&&" where `stop` is false, "||" where it is true: the value that decides without looking
 * further. */
static struct value parse_logic(struct parser *s, bool stop) {
    const char *op = stop ? "||" : "&&";
    struct value v = stop ? parse_logic(s, false) : parse_comparison(s);
    bool outer = s->skip;

    while (accept(s, op)) {
        struct value next;
        if (!is_truth(v))
            return fail(s, "'%s' needs true or false on both sides", op);
        s->skip = outer || (v.v != 0) == stop;
        next = stop ? parse_logic(s, false) : parse_comparison(s);
        if (s->failed)
            return v;
        if (!is_truth(next))
            return fail(s, "'%s' needs true or false on both sides", op);
        if ((v.v != 0) != stop)
            v = next;
        s->skip = outer;
    }
    return v;
}

static struct value parse_ternary(struct parser *s) {
    struct value condition = parse_logic(s, true), yes, no;
    bool outer = s->skip;

    if (!accept(s, "?"))
        return condition;
    if (!is_truth(condition))
        return fail(s, "'?' needs true or false before it");
    s->skip = outer || condition.v == 0;
    yes = parse_expression(s);
    s->skip = outer || condition.v != 0;
    if (!expect(s, ":"))
        return condition;
    no = parse_expression(s);
    s->skip = outer;
    if (!s->failed && yes.kind != no.kind)
        return fail(s, "both sides of ':' must be of one kind");
    return condition.v ? yes : no;
}

static struct value parse_expression(struct parser *s) {
    struct value v;

    if (s->depth == MAX_DEPTH)
        return fail(s, "nested too deeply");
    s->depth++;
    v = parse_ternary(s);
    s->depth--;
    return v;
}

static int evaluate(struct parser *s, struct value *ret) {
    if (strlen(s->text) > MAX_LENGTH) {
        fail(s, "longer than %d characters", MAX_LENGTH);
        return -EINVAL;
    }
    *ret = parse_expression(s);
    accept(s, "");
    if (!s->failed && *s->p)
        fail(s, "unexpected '%.1s'", s->p);
    if (!s->failed && is_truth(*ret))
        fail(s, "the result is true or false, a number of pods is needed");
    return s->failed ? -EINVAL : 0;
}

int nc_expression_check(const char *text, char *why, size_t size) {
    static const struct nc_expression_variables any = {0};
    struct parser s = {
        .text = text, .p = text, .variables = &any, .skip = true, .why = why, .why_size = size};
    struct value ignored;

    return evaluate(&s, &ignored);
}

int nc_expression_evaluate(const char *text, const struct nc_expression_variables *v, int64_t *ret,
                           char *why, size_t size) {
    struct parser s = {.text = text, .p = text, .variables = v, .why = why, .why_size = size};
    struct value result;

    if (evaluate(&s, &result) < 0)
        return -EINVAL;
    result = to_integer(&s, result);
    if (s.failed)
        return -EINVAL;
    if (result.v < 1 || result.v > INT32_MAX) {
        snprintf(why, size, "the result %lld is not between 1 and 2147483647", (long long)result.v);
        return -EINVAL;
    }
    *ret = result.v;
    return 0;
}
