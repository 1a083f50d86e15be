/*
 * maxPodsExpression: a subset of CEL, enough for every formula over three integers.
 *
 *   expr    := or [ "?" expr ":" expr ]
 *   or      := and { "||" and }        and := equal { "&&" equal }
 *   equal   := sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum ]
 *   sum     := product { ( "+" | "-" ) product }      product := unary { ( "*" | "/" | "%" ) unary
 * } unary   := { "!" | "-" } primary primary := INTEGER | "true" | "false" | NAME | "(" expr ")" |
 * ( "min" | "max" ) "(" expr { "," expr } ")"
 *
 * As in CEL, integers are 64 bits wide and overflow or a division by zero is an error, integers and
 * truth values do not mix, && and || do not check what they do not need, and only the chosen
 * branch of ?: is computed. What is not computed is still parsed. A chained comparison is refused.
 * Depth and length are bounded.
 */
#include "expression.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/str.h"

#define MAX_LENGTH 4096
#define MAX_DEPTH 64

struct value {
    bool is_bool;
    int64_t v;
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

static bool accept(struct parser *s, const char *token) {
    size_t n = strlen(token);

    while (isspace((unsigned char)*s->p))
        s->p++;
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

static struct value truth(bool v) {
    return (struct value){.is_bool = true, .v = v};
}

/* Both operands must be integers; reports it where they are not. */
static bool want_integers(struct parser *s, const char *op, struct value a, struct value b) {
    if (s->failed)
        return false;
    if (!a.is_bool && !b.is_bool)
        return true;
    fail(s, "'%s' needs integers", op);
    return false;
}

static struct value parse_min_max(struct parser *s, bool is_max) {
    struct value best = parse_expression(s);

    if (!want_integers(s, is_max ? "max" : "min", best, best))
        return best;
    while (accept(s, ",")) {
        struct value next = parse_expression(s);
        if (!want_integers(s, is_max ? "max" : "min", best, next))
            return best;
        if (is_max ? next.v > best.v : next.v < best.v)
            best = next;
    }
    expect(s, ")");
    return best;
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
    if (nc_streq(name, "min") || nc_streq(name, "max")) {
        s->p += n;
        return expect(s, "(") ? parse_min_max(s, name[1] == 'a') : (struct value){0};
    }
    return fail(s,
                "unknown name '%s': default_enis, ips_per_eni, max_pods, min() and max() are known",
                name);
}

static struct value parse_number(struct parser *s) {
    char digits[32];
    size_t n = strspn(s->p, "0123456789");
    int64_t v;

    if (n >= sizeof(digits))
        return fail(s, "number too large");
    memcpy(digits, s->p, n);
    digits[n] = '\0';
    if (nc_parse_i64(digits, &v) < 0)
        return fail(s, "number too large");
    if (s->p[n] == '.' || isalpha((unsigned char)s->p[n]) || s->p[n] == '_')
        return fail(s, "only integers are allowed");
    s->p += n;
    return integer(v);
}

static struct value parse_primary(struct parser *s) {
    if (accept(s, "(")) {
        struct value v = parse_expression(s);
        expect(s, ")");
        return v;
    }
    return *s->p >= '0' && *s->p <= '9' ? parse_number(s) : parse_name(s);
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
        return v.is_bool ? truth((v.v != 0) != (bang % 2 == 1))
                         : fail(s, "'!' needs true or false");
    if (minus && v.is_bool)
        return fail(s, "'-' needs an integer");
    return minus % 2 ? integer(-v.v)
                     : v; /* INT64_MIN is out of reach: no literal and no result is that */
}

static struct value arithmetic(struct parser *s, char op, struct value a, struct value b) {
    char name[2] = {op, '\0'};
    int64_t v = 0;
    bool bad = false;

    if (!want_integers(s, name, a, b) || s->skip)
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
    static const char *const ops[] = {"<=", ">=", "==", "!=", "<", ">"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(ops); i++)
        if (accept(s, ops[i]))
            return ops[i];
    return NULL;
}

static bool compare(const char *op, int64_t a, int64_t b) {
    switch (op[0]) {
    case '<':
        return op[1] ? a <= b : a < b;
    case '>':
        return op[1] ? a >= b : a > b;
    case '=':
        return a == b;
    default:
        return a != b;
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
    if (a.is_bool != b.is_bool || (a.is_bool && (op[0] == '<' || op[0] == '>')))
        return fail(s, "'%s' cannot compare these", op);
    if (accept_comparison(s))
        return fail(s, "comparisons cannot be chained: use &&");
    return truth(compare(op, a.v, b.v));
}

/* "&&" where `stop` is false, "||" where it is true: the value that decides without looking
 * further. */
static struct value parse_logic(struct parser *s, bool stop) {
    const char *op = stop ? "||" : "&&";
    struct value v = stop ? parse_logic(s, false) : parse_comparison(s);
    bool outer = s->skip;

    while (accept(s, op)) {
        struct value next;
        if (!v.is_bool)
            return fail(s, "'%s' needs true or false on both sides", op);
        s->skip = outer || (v.v != 0) == stop;
        next = stop ? parse_logic(s, false) : parse_comparison(s);
        if (s->failed)
            return v;
        if (!next.is_bool)
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
    if (!condition.is_bool)
        return fail(s, "'?' needs true or false before it");
    s->skip = outer || condition.v == 0;
    yes = parse_expression(s);
    s->skip = outer || condition.v != 0;
    if (!expect(s, ":"))
        return condition;
    no = parse_expression(s);
    s->skip = outer;
    if (!s->failed && yes.is_bool != no.is_bool)
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

int nc_expression_evaluate(const char *text, const struct nc_expression_variables *v, int64_t *ret,
                           char *why, size_t size) {
    struct parser s = {.text = text, .p = text, .variables = v, .why = why, .why_size = size};
    struct value result;

    if (strlen(text) > MAX_LENGTH) {
        snprintf(why, size, "longer than %d characters", MAX_LENGTH);
        return -EINVAL;
    }
    result = parse_expression(&s);
    accept(&s, "");
    if (!s.failed && *s.p)
        fail(&s, "unexpected '%.1s'", s.p);
    if (s.failed)
        return -EINVAL;
    if (result.is_bool) {
        snprintf(why, size, "the result is true or false, a number of pods is needed");
        return -EINVAL;
    }
    if (result.v < 1 || result.v > INT32_MAX) {
        snprintf(why, size, "the result %lld is not between 1 and 2147483647", (long long)result.v);
        return -EINVAL;
    }
    *ret = result.v;
    return 0;
}
