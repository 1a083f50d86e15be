/*
 * Numbers and keys of a tree as both parsers and the writer see them: private to this layer.
 */
#ifndef NC_BASE_NUMBER_H
#define NC_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#include "nc/value.h"

/* Beyond this not every integer has a double of its own: a reader may round (RFC 8259 §6). */
#define NC_JSON_MAX_INTEGER ((int64_t)1 << 53)

/* text without its underscores; owned by the caller. */
char *nc_number_plain(const char *text);

/* The number of an INT or a FLOAT. A FLOAT's text may hold YAML's underscores and signs. */
double nc_number_of(const struct nc_value *v);

#define NC_NUMBER_SIZE 64

/* The shortest JSON number that reads back as d, which is finite. As Go writes it: digits and a
 * point from 1e-6 to 2^53, an exponent elsewhere. */
void nc_number_write(double d, char ret[static NC_NUMBER_SIZE]);

/* The first member whose key stands earlier in the map, too, or NULL. Members without a key (merge
 * keys of YAML) are left out. */
const struct nc_member *nc_duplicate_key(const struct nc_value *map);
/* Keeps the last one of the members that have the same key. */
void nc_drop_overridden(struct nc_value *map);

#endif
