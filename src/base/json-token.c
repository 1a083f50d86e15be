/*
 * A JSON string, number or literal that comes in pieces: the grammar of RFC 8259, byte by byte.
 */
#include "json-token.h"

#include <string.h>

bool nc_json_token_begin(struct nc_json_token *t, char c, bool is_decoding) {
    t->is_done = false;
    if (c == '"') {
        t->kind = NC_TOKEN_STRING;
        nc_json_text_begin(&t->text, is_decoding);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        t->kind = NC_TOKEN_NUMBER;
        t->number = c == '-' || c == '0' ? c : '1';
    } else {
        t->kind = NC_TOKEN_LITERAL;
        t->literal = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
        return c == 't' || c == 'f' || c == 'n';
    }
    return true;
}

/* Where in a number a byte leads: '-' sign, '0' or '1' an integer, '.' a point, 'f' behind it, 'e',
 * 's' its sign, 'x' the exponent. 0: nowhere. */
static char number_step(char state, char c) {
    const bool is_digit = c >= '0' && c <= '9';

    switch (state) {
    case '-':
        return is_digit ? c == '0' ? '0' : '1' : 0;
    case '0':
    case '1':
        if (is_digit)
            return state == '1' ? '1' : 0;
        return c == '.' ? '.' : c == 'e' || c == 'E' ? 'e' : 0;
    case '.':
    case 'f':
        if (is_digit)
            return 'f';
        return state == 'f' && (c == 'e' || c == 'E') ? 'e' : 0;
    case 'e':
        return is_digit ? 'x' : c == '+' || c == '-' ? 's' : 0;
    default:
        return is_digit ? 'x' : 0;
    }
}

static bool is_of_number(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

static const char *scan_number(struct nc_json_token *t, const char *data, size_t n,
                               size_t *ret_used) {
    size_t i = 0;

    for (; i < n && is_of_number(data[i]); i++) {
        const char next = number_step(t->number, data[i]);
        if (!next)
            break;
        t->number = next;
    }
    *ret_used = i;
    if (i == n)
        return NULL;
    t->is_done = true;
    return is_of_number(data[i]) || !strchr("01fx", t->number) ? "invalid number" : NULL;
}

static const char *scan_literal(struct nc_json_token *t, const char *data, size_t n,
                                size_t *ret_used) {
    size_t i = 0;

    for (; i < n && *t->literal && data[i] == *t->literal; i++)
        t->literal++;
    *ret_used = i;
    t->is_done = !*t->literal;
    return t->is_done || i == n ? NULL : "a value was expected";
}

const char *nc_json_token_scan(struct nc_json_token *t, const char *data, size_t n,
                               size_t *ret_used) {
    const char *wrong;

    switch (t->kind) {
    case NC_TOKEN_NUMBER:
        return scan_number(t, data, n, ret_used);
    case NC_TOKEN_LITERAL:
        return scan_literal(t, data, n, ret_used);
    case NC_TOKEN_STRING:
        break;
    }
    wrong = nc_json_text_scan(&t->text, data, n, ret_used);
    t->is_done = t->text.is_done;
    return wrong;
}
