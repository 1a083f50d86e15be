/*
 * maxPodsExpression, and what Karpenter evaluates of an EC2NodeClass: the part of CEL that a
 * formula over an instance type needs.
 *
 *   expr    := or [ "?" expr ":" expr ]
 *   or      := and { "||" and }        and := compare { "&&" compare }
 *   compare := sum [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) sum | "in" "[" expr { "," expr } "]"
 * ] sum     := product { ( "+" | "-" ) product } product := unary { ( "*" | "/" | "%" ) unary }
 *   unary   := { "!" | "-" } call
 *   call    := primary { "." NAME "(" [ expr ] ")" }
 *   primary := INTEGER | FRACTION | TEXT | "true" | "false" | NAME | "(" expr ")"
 *            | NAME "(" expr { "," expr } ")"
 *
 * As in CEL, integers are 64 bits wide and overflow or a division by zero is an error; integers,
 * fractions, truth values and texts do not mix, int() and double() convert; && and || are decided
 * by either side, whatever the other one is, and of ?: only the chosen branch counts; "//" begins a
 * comment. Texts, "in" and the variables of an instance type are the NodeClass's alone, and its
 * min() and max() take two numbers of any kind; those of maxPodsExpression are ours. A chained
 * comparison is refused. Depth and length are bounded.
 */
#include "expression.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/str.h"

#define MAX_DEPTH 64

static struct nc_cel_value parse_expression(struct nc_cel_parser *s);

static void skip_space(struct nc_cel_parser *s) {
    for (;;) {
        while (isspace((unsigned char)*s->p))
            s->p++;
        if (strncmp(s->p, "//", 2) != 0)
            return;
        s->p += strcspn(s->p, "\n");
    }
}

static bool accept(struct nc_cel_parser *s, const char *token) {
    size_t n = strlen(token);

    skip_space(s);
    if (s->failed || strncmp(s->p, token, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool expect(struct nc_cel_parser *s, const char *token) {
    if (accept(s, token))
        return true;
    nc_cel_fail(s, "'%s' expected", token);
    return false;
}

/* Of a NodeClass, not maxPodsExpression. */
static bool is_class(const struct nc_cel_parser *s) {
    return s->variables->instance_type != NULL;
}

/* Of two that may be of two kinds in a NodeClass, of any number of one kind else. */
static struct nc_cel_value parse_min_max(struct nc_cel_parser *s, const char *name) {
    struct nc_cel_value best = parse_expression(s);
    unsigned n = 1;

    if (!nc_cel_want_numbers(s, name, &best, &best))
        return best;
    for (; accept(s, ","); n++) {
        struct nc_cel_value next = parse_expression(s);

        if (is_class(s) && nc_cel_is_number(&next) && next.kind != best.kind) {
            best = nc_cel_to_fraction(best);
            next = nc_cel_to_fraction(next);
        }
        if (!nc_cel_want_numbers(s, name, &best, &next))
            return best;
        if (!best.bad
            && (next.bad
                || !(nc_streq(name, "max") ? nc_cel_is_less(&next, &best)
                                           : nc_cel_is_less(&best, &next))))
            best = next;
    }
    if (expect(s, ")") && is_class(s) && n != 2)
        return nc_cel_fail(s, "%s() of a NodeClass needs two numbers", name);
    return best;
}

static struct nc_cel_value parse_conversion(struct nc_cel_parser *s, const char *name) {
    struct nc_cel_value v = parse_expression(s);

    if (!expect(s, ")") || !nc_cel_want_numbers(s, name, &v, &v))
        return v;
    return name[0] == 'd' ? nc_cel_to_fraction(v) : nc_cel_to_integer(s, v);
}

/* Its parenthesis is open; of a method, given[0] is what stands before the dot. */
static struct nc_cel_value parse_text_call(struct nc_cel_parser *s, const char *name,
                                           struct nc_cel_value before, bool is_method) {
    struct nc_cel_value given[3] = {before};
    size_t n = is_method ? 1 : 0;

    if (!is_method || !accept(s, ")")) {
        do
            given[n++] = parse_expression(s);
        while (n < NC_ARRAY_SIZE(given) && accept(s, ","));
        if (!expect(s, ")"))
            return before;
    }
    return nc_cel_call_text(s, name, given, n);
}

/* The name that stands here, moved over; 0 = none does. */
static size_t read_name(struct nc_cel_parser *s, char name[static 32]) {
    size_t n = 0;

    skip_space(s);
    for (; isalnum((unsigned char)s->p[n]) || s->p[n] == '_'; n++)
        if (n < 31)
            name[n] = s->p[n];
    name[n < 31 ? n : 31] = '\0';
    return n;
}

static const struct {
    char name[13];
    bool is_class;
    size_t offset;
} variables[] = {
#define VARIABLE(name, is_class)                                                                   \
    { #name, is_class, offsetof(struct nc_expression_variables, name) }
    VARIABLE(default_enis, false), VARIABLE(ips_per_eni, false), VARIABLE(max_pods, false),
    VARIABLE(vcpus, true),         VARIABLE(memory_mib, true),
};

static const int64_t *variable(const struct nc_cel_parser *s, const char *name) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(variables); i++)
        if (nc_streq(name, variables[i].name) && (is_class(s) || !variables[i].is_class))
            return (const int64_t *)(const void *)((const char *)s->variables
                                                   + variables[i].offset);
    return NULL;
}

static struct nc_cel_value parse_call(struct nc_cel_parser *s, const char *name) {
    if (!expect(s, "("))
        return nc_cel_integer(0);
    if (nc_cel_is_text_function(name))
        return parse_text_call(s, name, nc_cel_integer(0), false);
    return nc_streq(name, "min") || nc_streq(name, "max") ? parse_min_max(s, name)
                                                          : parse_conversion(s, name);
}

static struct nc_cel_value parse_name(struct nc_cel_parser *s) {
    static const char functions[] = "min\0max\0int\0double\0true\0false\0";
    char name[32];
    const size_t n = read_name(s, name);
    const int64_t *known = variable(s, name);

    if (n == 0)
        return *s->p ? nc_cel_fail(s, "unexpected '%.1s'", s->p)
                     : nc_cel_fail(s, "the expression ends too early");
    if (!known && !nc_is_one_of(name, functions)
        && !(is_class(s) && (nc_streq(name, "instance_type") || nc_cel_is_text_function(name))))
        return nc_cel_fail(
            s,
            "unknown name '%s': %sdefault_enis, ips_per_eni, max_pods, int(), double(), min() and "
            "max() are known",
            name, is_class(s) ? "vcpus, memory_mib, instance_type, functions of text, " : "");
    s->p += n;
    if (known)
        return nc_cel_integer(*known);
    if (nc_streq(name, "instance_type"))
        return (struct nc_cel_value){.kind = NC_CEL_TEXT, .text = s->variables->instance_type};
    if (nc_streq(name, "true") || nc_streq(name, "false"))
        return nc_cel_truth(name[0] == 't');
    return parse_call(s, name);
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
static struct nc_cel_value parse_number(struct nc_cel_parser *s) {
    const bool is_hex = s->p[0] == '0' && s->p[1] == 'x' && isxdigit((unsigned char)s->p[2]);
    const size_t fraction_n = is_hex ? 0 : fraction_length(s->p);
    const size_t n =
        is_hex ? 2 + strspn(s->p + 2, "0123456789abcdefABCDEF") : strspn(s->p, "0123456789");
    const size_t length = fraction_n > 0 ? fraction_n : n;
    nc_auto_free char *text = nc_strndup(s->p, length);
    struct nc_cel_value v;

    if (s->p[length] == '.' || isalnum((unsigned char)s->p[length]) || s->p[length] == '_')
        return nc_cel_fail(s, "only integers and fractions are allowed");
    errno = 0;
    v = fraction_n > 0 ? nc_cel_fraction(strtod(text, NULL))
                       : nc_cel_integer(strtoll(text, NULL, is_hex ? 16 : 10));
    if (errno == ERANGE && (fraction_n == 0 || v.d > 1))
        return nc_cel_fail(s, "number too large");
    s->p += length;
    return v;
}

static struct nc_cel_value parse_primary(struct nc_cel_parser *s) {
    struct nc_cel_value v;

    if (accept(s, "(")) {
        v = parse_expression(s);
        expect(s, ")");
        return v;
    }
    if (is_class(s) && nc_cel_read_text(s, &v))
        return v;
    return isdigit((unsigned char)*s->p) || fraction_length(s->p) > 0 ? parse_number(s)
                                                                      : parse_name(s);
}

/* x.size(), x.contains("y") */
static struct nc_cel_value parse_methods(struct nc_cel_parser *s) {
    struct nc_cel_value v = parse_primary(s);

    while (is_class(s) && accept(s, ".")) {
        char name[32];

        s->p += read_name(s, name);
        if (!nc_cel_is_text_function(name))
            return nc_cel_fail(s,
                               "unknown function '%s': size(), contains(), startsWith(), "
                               "endsWith() and matches() are known",
                               name);
        if (!expect(s, "("))
            return v;
        v = parse_text_call(s, name, v, true);
    }
    return v;
}

/* Prefixes are counted instead of recursed into: a line of dashes is no depth. */
static struct nc_cel_value parse_unary(struct nc_cel_parser *s) {
    unsigned minus = 0, bang = 0;
    struct nc_cel_value v;

    for (;;) {
        if (accept(s, "-"))
            minus++;
        else if (strncmp(s->p, "!=", 2) != 0 && accept(s, "!"))
            bang++;
        else
            break;
    }
    if (minus && bang)
        return nc_cel_fail(s, "'!' and '-' do not mix");
    v = parse_methods(s);
    if (s->failed)
        return v;
    if (bang && v.kind != NC_CEL_TRUTH)
        return nc_cel_fail(s, "'!' needs true or false");
    if (minus && !nc_cel_is_number(&v))
        return nc_cel_fail(s, "'-' needs an integer or a fraction");
    if (bang % 2 == 1)
        v.v = !v.v;
    if (minus % 2 == 1) { /* INT64_MIN is out of reach: no literal and no result is that. */
        if (v.kind == NC_CEL_FRACTION)
            v.d = -v.d;
        else
            v.v = -v.v;
    }
    return v;
}

/* The one of these operators that stands here; '\0' where there is none. */
static char accept_operator(struct nc_cel_parser *s, const char *ops) {
    skip_space(s);
    return !s->failed && *s->p && strchr(ops, *s->p) ? *s->p++ : '\0';
}

static struct nc_cel_value parse_product(struct nc_cel_parser *s) {
    struct nc_cel_value v = parse_unary(s);

    for (char op; (op = accept_operator(s, "*/%"));) {
        const struct nc_cel_value next = parse_unary(s);
        v = nc_cel_arithmetic(s, op, &v, &next);
    }
    return v;
}

static struct nc_cel_value parse_sum(struct nc_cel_parser *s) {
    struct nc_cel_value v = parse_product(s);

    for (char op; (op = accept_operator(s, "+-"));) {
        const struct nc_cel_value next = parse_product(s);
        v = nc_cel_arithmetic(s, op, &v, &next);
    }
    return v;
}

/* The comparison that stands here, longest first; NULL where there is none. */
static const char *accept_comparison(struct nc_cel_parser *s) {
    static const char ops[][4] = {"<=", ">=", "==", "!=", "<", ">"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(ops); i++)
        if (accept(s, ops[i]))
            return ops[i];
    return NULL;
}

/* a in ["b", "c"] */
static struct nc_cel_value parse_in(struct nc_cel_parser *s, struct nc_cel_value a) {
    struct nc_cel_value found = nc_cel_truth(false);

    found.bad = a.bad;
    if (!expect(s, "["))
        return a;
    do {
        const struct nc_cel_value b = parse_expression(s);

        if (!s->failed && a.kind != b.kind)
            return nc_cel_fail(s, "'in' cannot compare these");
        found.bad = found.bad ? found.bad : b.bad;
        found.v |= !s->failed && !found.bad && nc_cel_is_equal(&a, &b);
    } while (accept(s, ","));
    expect(s, "]");
    return found;
}

static struct nc_cel_value parse_comparison(struct nc_cel_parser *s) {
    struct nc_cel_value a = parse_sum(s), b;
    const char *op = accept_comparison(s);
    char name[32];

    if (!op && is_class(s) && read_name(s, name) == 2 && nc_streq(name, "in")) {
        s->p += 2;
        return parse_in(s, a);
    }
    if (!op)
        return a;
    b = parse_sum(s);
    if (s->failed)
        return a;
    if (a.kind != b.kind || (a.kind == NC_CEL_TRUTH && (op[0] == '<' || op[0] == '>')))
        return nc_cel_fail(s, "'%s' cannot compare these", op);
    if (accept_comparison(s))
        return nc_cel_fail(s, "comparisons cannot be chained: use &&");
    if (a.bad || b.bad)
        return (struct nc_cel_value){.kind = NC_CEL_TRUTH, .bad = a.bad ? a.bad : b.bad};
    return nc_cel_truth(nc_cel_compare(op, &a, &b));
}

/* "&&" where `stop` is false, "||" where it is true: either side decides with that value, also
 * where the other one cannot be computed. */
static struct nc_cel_value parse_logic(struct nc_cel_parser *s, bool stop) {
    const char *op = stop ? "||" : "&&";
    struct nc_cel_value v = stop ? parse_logic(s, false) : parse_comparison(s);

    while (accept(s, op)) {
        const struct nc_cel_value next = stop ? parse_logic(s, false) : parse_comparison(s);

        if (s->failed)
            return v;
        if (v.kind != NC_CEL_TRUTH || next.kind != NC_CEL_TRUTH)
            return nc_cel_fail(s, "'%s' needs true or false on both sides", op);
        if (v.bad ? !next.bad && next.v == stop : v.v != stop)
            v = next;
    }
    return v;
}

static struct nc_cel_value parse_ternary(struct nc_cel_parser *s) {
    const struct nc_cel_value condition = parse_logic(s, true);
    struct nc_cel_value yes, no;

    if (!accept(s, "?"))
        return condition;
    if (condition.kind != NC_CEL_TRUTH)
        return nc_cel_fail(s, "'?' needs true or false before it");
    yes = parse_expression(s);
    if (!expect(s, ":"))
        return condition;
    no = parse_expression(s);
    if (!s->failed && yes.kind != no.kind)
        return nc_cel_fail(s, "both sides of ':' must be of one kind");
    if (condition.bad)
        yes.bad = condition.bad;
    return condition.bad || condition.v ? yes : no;
}

static struct nc_cel_value parse_expression(struct nc_cel_parser *s) {
    struct nc_cel_value v;

    if (s->depth == MAX_DEPTH)
        return nc_cel_fail(s, "nested too deeply");
    s->depth++;
    v = parse_ternary(s);
    s->depth--;
    return v;
}

/* 0; -EINVAL: it is no expression; -ERANGE: it has no value here. */
static int evaluate(struct nc_cel_parser *s, int64_t *ret) {
    struct nc_cel_value v;

    if (strlen(s->text) > NC_CEL_MAX_LENGTH) {
        nc_cel_fail(s, "longer than %d characters", NC_CEL_MAX_LENGTH);
        return -EINVAL;
    }
    v = parse_expression(s);
    accept(s, "");
    if (!s->failed && *s->p)
        nc_cel_fail(s, "unexpected '%.1s'", s->p);
    if (!s->failed && v.kind == NC_CEL_TEXT)
        nc_cel_fail(s, "the result is a text, a number is needed");
    if (!s->failed && v.kind == NC_CEL_TRUTH)
        nc_cel_fail(s, "the result is true or false, a number is needed");
    if (s->failed)
        return -EINVAL;
    v = nc_cel_to_integer(s, v);
    if (!v.bad && v.v >= s->variables->least && v.v <= s->variables->most) {
        *ret = v.v;
        return 0;
    }
    if (v.bad)
        nc_copy_text(s->why, s->why_size, v.bad);
    else
        snprintf(s->why, s->why_size, "the result %lld is not between %lld and %lld",
                 (long long)v.v, (long long)s->variables->least, (long long)s->variables->most);
    return -ERANGE;
}

int nc_expression_evaluate(const char *text, const struct nc_expression_variables *v, int64_t *ret,
                           char *why, size_t size) {
    struct nc_cel_parser s = {
        .text = text, .p = text, .variables = v, .why = why, .why_size = size};
    const int r = evaluate(&s, ret);

    nc_strv_done(&s.texts);
    return r;
}
