/*
 * Text predicates, strict numbers, quoting for messages, the nearest known name.
 *
 * Knows UTF-8 and nothing else: no locale, no guesses.
 */
#include "nc/str.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "text-priv.h"

#define QUOTE_MAX_CHARACTERS 80
#define NEAREST_MAX_LENGTH 64

/* What the first byte of a character says about its length; 0 for a byte that starts none. */
static size_t utf8_length(unsigned char first) {
    if (first < 0x80)
        return 1;
    if (first < 0xc2)
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf5 ? 4 : 0;
}

size_t nc_utf8_next(const char *s, size_t n, uint32_t *ret) {
    const unsigned char first = (unsigned char)s[0];
    const size_t length = utf8_length(first);
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t c = length == 1 ? first : first & (0x7fu >> length);

    if (length == 0 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    }
    if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return length;
}

size_t nc_utf8_put(uint32_t c, char ret[static 4]) {
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        ret[i] = (char)(0x80 | (c & 0x3f));
    ret[0] = (char)(first[n] | c);
    return n;
}

bool nc_streq(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool nc_starts_with(const char *s, const char *prefix) {
    return s && prefix && strncmp(s, prefix, strlen(prefix)) == 0;
}

bool nc_ends_with(const char *s, const char *suffix) {
    if (!s || !suffix)
        return false;
    const size_t n = strlen(s);
    const size_t tail = strlen(suffix);
    return n >= tail && strcmp(s + n - tail, suffix) == 0;
}

int nc_which_of(const char *s, const char *names) {
    for (int i = 0; s && *names; i++, names = nc_next_name(names))
        if (strcmp(s, names) == 0)
            return i;
    return -1;
}

const char *nc_name_at(const char *names, unsigned i) {
    for (; i > 0 && *names; i--)
        names = nc_next_name(names);
    return *names ? names : NULL;
}

bool nc_is_one_of(const char *s, const char *names) {
    return nc_which_of(s, names) >= 0;
}

static bool is_control(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

bool nc_is_text(const char *data, size_t n) {
    for (size_t i = 0; i < n;) {
        uint32_t c;
        const size_t length = nc_utf8_next(data + i, n - i, &c);
        if (length == 0 || (is_control(c) && c != '\t' && c != '\n' && c != '\r'))
            return false;
        i += length;
    }
    return true;
}

bool nc_is_made_of(const char *s, const char *set, size_t most) {
    const size_t n = s ? strspn(s, set) : 0;

    return n > 0 && n <= most && s[n] == '\0';
}

bool nc_is_alnum_or(const char *s, const char *others, size_t most) {
    size_t n = 0;

    while (s && s[n] && (isalnum((unsigned char)s[n]) || strchr(others, s[n])))
        n++;
    return n > 0 && n <= most && s[n] == '\0';
}

bool nc_is_denied_by_admission(const char *message) {
    return (nc_starts_with(message, "admission webhook \"")
            && strstr(message, " denied the request"))
           || (strstr(message, "ValidatingAdmissionPolicy '")
               && strstr(message, "' denied request"));
}

bool nc_is_visible(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~')
            return false;
    return true;
}

int nc_hex_digit(char c) {
    const char digits[] = "0123456789abcdef",
               *at = strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);

    return c && at ? (int)(at - digits) : -1;
}

size_t nc_cut(const char *s, size_t most) {
    size_t n = strnlen(s, most + 1);

    if (n <= most)
        return n;
    for (n = most; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80;)
        n--;
    return n;
}

void nc_copy_text(char *to, size_t size, const char *s) {
    const size_t n = nc_cut(s, size - 1);

    memcpy(to, s, n);
    to[n] = '\0';
}

struct nc_text nc_text(const char *s) {
    return (struct nc_text){.data = s, .n = strlen(s), .line = 1};
}

struct nc_text nc_skip_mark(struct nc_text text) {
    const size_t n = strlen(NC_BYTE_ORDER_MARK);

    if (text.n < n || memcmp(text.data, NC_BYTE_ORDER_MARK, n) != 0)
        return text;
    text.data += n;
    text.n -= n;
    return text;
}

int nc_parse_u64(const char *s, uint64_t *ret) {
    uint64_t v = 0;

    if (!s || !*s)
        return -EINVAL;
    for (const char *p = s; *p; p++)
        if (*p < '0' || *p > '9')
            return -EINVAL;
    for (; *s; s++)
        if (__builtin_mul_overflow(v, 10u, &v)
            || __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return -ERANGE;
    *ret = v;
    return 0;
}

int nc_parse_i64(const char *s, int64_t *ret) {
    const bool negative = s && *s == '-';
    uint64_t v;
    const int r = nc_parse_u64(negative ? s + 1 : s, &v);

    if (r < 0)
        return r;
    if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return -ERANGE;
    *ret = !negative ? (int64_t)v : v == 0 ? 0 : -(int64_t)(v - 1) - 1;
    return 0;
}

/* Beside control characters: line and paragraph separators, zero-width and direction marks, the
 * byte order mark. */
bool nc_is_shown(uint32_t c) {
    static const uint16_t hidden[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                                         {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069},
                                         {0xfeff, 0xfeff}};

    for (size_t i = 0; i < NC_ARRAY_SIZE(hidden); i++)
        if (c >= hidden[i][0] && c <= hidden[i][1])
            return false;
    return true;
}

static void quote_char(struct nc_buf *b, const char *s, size_t length, uint32_t c) {
    if (c == '\n')
        nc_buf_puts(b, "\\n");
    else if (c == '\r')
        nc_buf_puts(b, "\\r");
    else if (c == '\t')
        nc_buf_puts(b, "\\t");
    else if (c == '\'' || c == '\\')
        nc_buf_printf(b, "\\%c", (char)c);
    else if (nc_is_shown(c))
        nc_buf_add(b, s, length);
    else if (c < 0x80)
        nc_buf_printf(b, "\\x%02x", c);
    else
        nc_buf_printf(b, "\\u%04x", c);
}

/* The character that `s` begins with, a byte that is none included; how long it was. */
static size_t escape_char(struct nc_buf *b, const char *s, size_t n, bool is_quoted) {
    uint32_t c;
    const size_t length = nc_utf8_next(s, n, &c);

    if (length == 0)
        nc_buf_printf(b, "\\x%02x", (unsigned char)*s);
    else if (!is_quoted && (c == '\'' || c == '\\'))
        nc_buf_putc(b, *s);
    else
        quote_char(b, s, length, c);
    return length ? length : 1;
}

char *nc_quote(const char *data, size_t n) {
    return nc_quote_most(data, n, QUOTE_MAX_CHARACTERS);
}

char *nc_quote_string(const char *s) {
    return nc_quote(s, strlen(s));
}

char *nc_quote_most(const char *data, size_t n, size_t most) {
    struct nc_buf b = NC_BUF_INIT;
    size_t i = 0;

    nc_buf_putc(&b, '\'');
    for (size_t characters = 0; i < n && characters < most; characters++)
        i += escape_char(&b, data + i, n - i, true);
    nc_buf_puts(&b, i < n ? "…'" : "'");
    return nc_buf_steal(&b);
}

char *nc_printable(const char *s) {
    struct nc_buf b = NC_BUF_INIT;
    const size_t n = strlen(s);

    (void)nc_buf_add(&b, "", 0);
    for (size_t i = 0; i < n;)
        i += escape_char(&b, s + i, n - i, false);
    return nc_buf_steal(&b);
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

char *nc_trim(char *s) {
    size_t n = strlen(s);
    size_t lead = 0;

    while (n > 0 && is_space(s[n - 1]))
        n--;
    while (lead < n && is_space(s[lead]))
        lead++;
    memmove(s, s + lead, n - lead);
    s[n - lead] = '\0';
    return s;
}

static bool is_same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edit distance with insertions, deletions, replacements and swaps of neighbours, ASCII case
 * folded; both at most NEAREST_MAX_LENGTH long. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb) {
    unsigned char d[NEAREST_MAX_LENGTH + 1][NEAREST_MAX_LENGTH + 1];

    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            size_t best = i + j; /* where one of them is empty */
            if (i > 0 && j > 0) {
                best = d[i - 1][j - 1] + !is_same(a[i - 1], b[j - 1]);
                if (d[i - 1][j] < best)
                    best = d[i - 1][j] + 1;
                if (d[i][j - 1] < best)
                    best = d[i][j - 1] + 1;
            }
            if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1])
                && d[i - 2][j - 2] < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = (unsigned char)best;
        }
    }
    return d[na][nb];
}

const char *nc_nearest(const char *s, const char *names) {
    const size_t n = strlen(s);
    const char *nearest = NULL;
    size_t best = n < 3 ? n : n / 3 + 1; /* not good enough yet */

    if (n > NEAREST_MAX_LENGTH)
        return NULL;
    for (; names && *names; names = nc_next_name(names)) {
        const size_t length = strlen(names);
        if (length > NEAREST_MAX_LENGTH)
            continue;
        const size_t d = distance(s, n, names, length);
        if (d < best) {
            best = d;
            nearest = names;
        }
    }
    return nearest;
}
