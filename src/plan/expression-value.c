/*
 * What is computed of the values of an expression, and how one becomes an error.
 *
 * What cannot be computed is a value too: what it is part of cannot be computed either, unless it
 * does not count there.
 */
#include "expression.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nc/str.h"

static char *place(const struct nc_cel_parser *s, const char *what) {
    return nc_asprintf("column %zu: %s", (size_t)(s->p - s->text) + 1, what);
}

struct nc_cel_value nc_cel_fail(struct nc_cel_parser *s, const char *format, ...) {
    nc_auto_free char *what = NULL;
    va_list ap;

    if (!s->failed) {
        nc_auto_free char *all = NULL;

        va_start(ap, format);
        what = nc_vasprintf(format, ap);
        va_end(ap);
        all = place(s, what);
        nc_copy_text(s->why, s->why_size, all);
    }
    s->failed = true;
    s->p += strlen(s->p); /* nothing more is read */
    return nc_cel_integer(0);
}

/* A value of this kind that cannot be computed. What it is part of cannot either, unless it does
 * not count there. */
static struct nc_cel_value bad(struct nc_cel_parser *s, enum nc_cel_kind kind, const char *what) {
    nc_strv_push(&s->texts, place(s, what));
    return (struct nc_cel_value){.kind = kind, .bad = s->texts.v[s->texts.n - 1]};
}

struct nc_cel_value nc_cel_to_fraction(struct nc_cel_value v) {
    if (v.kind == NC_CEL_FRACTION)
        return v;
    v.kind = NC_CEL_FRACTION;
    v.d = (double)v.v;
    return v;
}

/* NaN is in no order. */
bool nc_cel_is_less(const struct nc_cel_value *a, const struct nc_cel_value *b) {
    if (a->kind == NC_CEL_TEXT)
        return strcmp(a->text, b->text) < 0;
    return a->kind == NC_CEL_FRACTION ? a->d < b->d : a->v < b->v;
}

bool nc_cel_is_equal(const struct nc_cel_value *a, const struct nc_cel_value *b) {
    if (a->kind == NC_CEL_TEXT)
        return nc_streq(a->text, b->text);
    return a->kind == NC_CEL_FRACTION ? a->d == b->d : a->v == b->v;
}

/* Both operands must be numbers of one kind; reports it where they are not. */
bool nc_cel_want_numbers(struct nc_cel_parser *s, const char *op, const struct nc_cel_value *a,
                         const struct nc_cel_value *b) {
    if (s->failed)
        return false;
    if (!nc_cel_is_number(a) || !nc_cel_is_number(b))
        nc_cel_fail(s, "'%s' needs integers or fractions", op);
    else if (a->kind != b->kind)
        nc_cel_fail(s, "'%s' mixes an integer and a fraction: convert one with int() or double()",
                    op);
    return !s->failed;
}

/* Towards zero; what does not fit is an error, as in CEL. */
struct nc_cel_value nc_cel_to_integer(struct nc_cel_parser *s, struct nc_cel_value v) {
    if (v.kind == NC_CEL_FRACTION && !v.bad && !(v.d > -0x1p63 && v.d < 0x1p63))
        return bad(s, NC_CEL_INTEGER, "the fraction is out of range for an integer");
    if (v.kind == NC_CEL_FRACTION)
        v.v = v.bad ? 0 : (int64_t)v.d;
    v.kind = NC_CEL_INTEGER;
    return v;
}

static struct nc_cel_value fractions(struct nc_cel_parser *s, char op, double a, double b) {
    if (op == '%')
        return nc_cel_fail(s, "'%%' needs integers");
    return nc_cel_fraction(op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b);
}

static struct nc_cel_value join(struct nc_cel_parser *s, const struct nc_cel_value *a,
                                const struct nc_cel_value *b) {
    if (strlen(a->text) + strlen(b->text) > NC_CEL_MAX_LENGTH)
        return nc_cel_fail(s, "longer than %d characters", NC_CEL_MAX_LENGTH);
    nc_strv_addf(&s->texts, "%s%s", a->text, b->text);
    return (struct nc_cel_value){.kind = NC_CEL_TEXT, .text = s->texts.v[s->texts.n - 1]};
}

struct nc_cel_value nc_cel_arithmetic(struct nc_cel_parser *s, char op,
                                      const struct nc_cel_value *a, const struct nc_cel_value *b) {
    const char name[2] = {op, '\0'};
    int64_t v = 0;
    bool is_over = false;

    if (op == '+' && a->kind == NC_CEL_TEXT && b->kind == NC_CEL_TEXT)
        return a->bad ? *a : b->bad ? *b : join(s, a, b);
    if (!nc_cel_want_numbers(s, name, a, b))
        return nc_cel_integer(0);
    if (op == '%' && a->kind == NC_CEL_FRACTION)
        return fractions(s, op, 0, 0);
    if (a->bad || b->bad)
        return a->bad ? *a : *b;
    if (a->kind == NC_CEL_FRACTION)
        return fractions(s, op, a->d, b->d);
    if ((op == '/' || op == '%') && b->v == 0)
        return bad(s, NC_CEL_INTEGER, "division by zero");
    if (op == '+')
        is_over = __builtin_add_overflow(a->v, b->v, &v);
    else if (op == '-')
        is_over = __builtin_sub_overflow(a->v, b->v, &v);
    else if (op == '*')
        is_over = __builtin_mul_overflow(a->v, b->v, &v);
    else
        v = op == '/' ? a->v / b->v : a->v % b->v;
    if (is_over || v == INT64_MIN) {
        nc_auto_free char *what = nc_asprintf("overflow at '%c'", op);

        return bad(s, NC_CEL_INTEGER, what);
    }
    return nc_cel_integer(v);
}

bool nc_cel_compare(const char *op, const struct nc_cel_value *a, const struct nc_cel_value *b) {
    switch (op[0]) {
    case '<':
        return nc_cel_is_less(a, b) || (op[1] && nc_cel_is_equal(a, b));
    case '>':
        return nc_cel_is_less(b, a) || (op[1] && nc_cel_is_equal(a, b));
    case '=':
        return nc_cel_is_equal(a, b);
    default:
        return !nc_cel_is_equal(a, b);
    }
}
