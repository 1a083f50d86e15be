/*
 * One UTF-8 character at a time, strictly: private to this layer.
 */
#ifndef NC_BASE_UTF8_H
#define NC_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length in bytes of the character that starts at s (1 to 4), or 0 where the bytes are not
 * well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF). n > 0.
 * *ret is written only on success. */
size_t nc_utf8_next(const char *s, size_t n, uint32_t *ret);

/* Writes the character c, which is no surrogate and at most U+10FFFF; returns its length. */
size_t nc_utf8_put(uint32_t c, char ret[static 4]);

#endif
