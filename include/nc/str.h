/*
 * Text: strict numbers, safe quoting, small predicates.
 *
 * Nothing here guesses: a number with a sign, a space or a letter too many is refused.
 */
#ifndef NC_STR_H
#define NC_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/mem.h"

bool nc_streq(const char *a, const char *b); /* NULL equals only NULL */
bool nc_starts_with(const char *s, const char *prefix);
bool nc_ends_with(const char *s, const char *suffix);
/* A list of names is one text, in which each name ends with a NUL: "a\0b\0". Unlike an array of
 * pointers it takes no relocation when a program starts. An nc_buf is one to which each name was
 * added with its NUL. */
bool nc_is_one_of(const char *s, const char *names);
/* Which of them, from 0; -1: none. */
int nc_which_of(const char *s, const char *names);
const char *nc_name_at(const char *names, unsigned i); /* from 0; NULL behind the last one */
/* The one behind it: "" is the end. No name is empty. */
static inline const char *nc_next_name(const char *name) {
    return name + strlen(name) + 1;
}
bool nc_is_text(const char *data, size_t n); /* valid UTF-8, no control characters but \t \n \r */

/* Of UTF-8: editors of Windows begin a file with it, and YAML may begin so. */
#define NC_BYTE_ORDER_MARK "\xef\xbb\xbf"

#define NC_DIGITS "0123456789"
#define NC_LOWER "abcdefghijklmnopqrstuvwxyz"
#define NC_UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
/* Has s one to `most` bytes, all of the set? NULL has none. */
bool nc_is_made_of(const char *s, const char *set, size_t most);
/* The same of the letters and digits of ASCII, and these others. */
bool nc_is_alnum_or(const char *s, const char *others, size_t most);
/* Are all of them printable ASCII, and none a blank? */
bool nc_is_visible(const char *s, size_t n);
/* Admission may give a denial any number, 404 and 503 included (apiserver, webhook/errors and
 * policy/validating): only its words tell it from the API server's own answer. `message`: a
 * Status' own. */
bool nc_is_denied_by_admission(const char *message);
/* 0 to 15; -1 for what is no hexadecimal digit. */
int nc_hex_digit(char c);
/* How many bytes of s to keep so that they are at most `most`, and no half of a character. */
size_t nc_cut(const char *s, size_t most);
/* Copies s, cut so where it is longer than size - 1 bytes. */
void nc_copy_text(char *to, size_t size, const char *s);

/* A borrowed text, and for messages the line of the document that its first one is, from 1, and how
 * far that is indented there. */
struct nc_text {
    const char *data;
    size_t n;
    unsigned line;
    unsigned indent;
};
/* All of a string. */
struct nc_text nc_text(const char *s);
/* What comes behind a byte order mark, where there is one. */
struct nc_text nc_skip_mark(struct nc_text text);

/* Decimal digits only. Return 0, -EINVAL, or -ERANGE; *ret is written only on success. */
int nc_parse_u64(const char *s, uint64_t *ret);
int nc_parse_i64(const char *s, int64_t *ret); /* one leading '-' allowed */

/* The length in bytes of the character that starts at s (1 to 4), or 0 where the bytes are not
 * well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF). n > 0.
 * *ret is written only on success. */
size_t nc_utf8_next(const char *s, size_t n, uint32_t *ret);
/* Neither a control character nor one that moves, hides or reorders what stands around it. */
bool nc_is_shown(uint32_t c);
/* A printable, bounded, single-quoted form of hostile text for messages: control characters and
 * quotes escaped, at most 80 characters of it and "…" where it was cut. Owned by the caller. */
char *nc_quote(const char *data, size_t n);
char *nc_quote_string(const char *s); /* all of a string */
/* The same with at most so many characters of it. */
char *nc_quote_most(const char *data, size_t n, size_t most);
/* All of a message that has hostile text in it, for a person's terminal: the same escapes, quotes
 * and backslashes as they are. Owned by the caller. */
char *nc_printable(const char *s);

/* Cuts leading and trailing white space in place, returns s. */
char *nc_trim(char *s);

/* The name in the list (NULL: an empty one) that is nearest to s by edit distance, in which a
 * swap of neighbours is one edit, whatever the case, or NULL where nothing is nearer than a third
 * of its length. Borrowed from the list. */
const char *nc_nearest(const char *s, const char *names);

#endif
