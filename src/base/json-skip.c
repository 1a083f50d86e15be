/*
 * A JSON object or array that nobody wants: its grammar is checked as everywhere, but nothing of it
 * is kept, and most strings are passed over without a look at what is in them.
 *
 * Nearly every byte of a large list goes through here.
 */
#include "json-skip.h"

void nc_json_skip_begin(struct nc_json_skip *s, char bracket, unsigned room) {
    s->objects = bracket == '{';
    s->depth = 1;
    s->room = room;
    s->expect = bracket == '{' ? NC_SKIP_KEY_OR_END : NC_SKIP_VALUE_OR_END;
}

static const char *open_bracket(struct nc_json_skip *s, char c) {
    if (s->depth == s->room)
        return "nested too deep";
    s->depth++;
    s->objects = s->objects << 1 | (c == '{');
    s->expect = c == '{' ? NC_SKIP_KEY_OR_END : NC_SKIP_VALUE_OR_END;
    return NULL;
}

static const char *close_bracket(struct nc_json_skip *s, char c) {
    if ((c == '}') != (s->objects & 1))
        return "a closing bracket that closes nothing";
    s->depth--;
    s->objects >>= 1;
    s->expect = NC_SKIP_COMMA_OR_END;
    return NULL;
}

static const char *begin_key(struct nc_json_skip *s, char c) {
    if (c == '}' && s->expect == NC_SKIP_KEY_OR_END)
        return close_bracket(s, c);
    if (c != '"')
        return "a key was expected";
    (void)nc_json_token_begin(&s->token, c, false);
    s->expect = NC_SKIP_IN_KEY;
    return NULL;
}

static const char *begin_value(struct nc_json_skip *s, char c) {
    if (c == '{' || c == '[')
        return open_bracket(s, c);
    if (c == ']' && s->expect == NC_SKIP_VALUE_OR_END)
        return close_bracket(s, c);
    s->expect = NC_SKIP_IN_VALUE;
    return nc_json_token_begin(&s->token, c, false) ? NULL : "a value was expected";
}

static const char *take_comma_or_end(struct nc_json_skip *s, char c) {
    if (c == '}' || c == ']')
        return close_bracket(s, c);
    s->expect = s->objects & 1 ? NC_SKIP_KEY : NC_SKIP_VALUE;
    return c == ',' ? NULL : "a comma or a closing bracket was expected";
}

static const char *take_byte(struct nc_json_skip *s, char c) {
    switch (s->expect) {
    case NC_SKIP_KEY:
    case NC_SKIP_KEY_OR_END:
        return begin_key(s, c);
    case NC_SKIP_COLON:
        s->expect = NC_SKIP_VALUE;
        return c == ':' ? NULL : "a colon was expected";
    case NC_SKIP_COMMA_OR_END:
        return take_comma_or_end(s, c);
    case NC_SKIP_VALUE:
    case NC_SKIP_VALUE_OR_END:
    case NC_SKIP_IN_KEY:
    case NC_SKIP_IN_VALUE:
        break;
    }
    return begin_value(s, c);
}

const char *nc_json_skip(struct nc_json_skip *s, const char *data, size_t n, size_t *ret_used) {
    const char *wrong = NULL;
    size_t i = 0;

    while (i < n && s->depth > 0 && !wrong) {
        if (s->expect == NC_SKIP_IN_KEY || s->expect == NC_SKIP_IN_VALUE) {
            size_t used;
            wrong = nc_json_token_scan(&s->token, data + i, n - i, &used);
            i += used;
            if (s->token.is_done)
                s->expect = s->expect == NC_SKIP_IN_KEY ? NC_SKIP_COLON : NC_SKIP_COMMA_OR_END;
            continue;
        }
        wrong = nc_json_is_space(data[i]) ? NULL : take_byte(s, data[i]);
        i += !wrong;
    }
    *ret_used = i;
    return wrong;
}
