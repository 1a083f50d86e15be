/*
 * Our half of the comparisons with independent readers: one function a reader, from the fields of a
 * question to one line of answer.
 *
 * An answer begins with "refused", and then says why, or with "is", and then says what was read,
 * bytes in hexadecimal.
 */
#ifndef NC_TESTS_DIFFER_H
#define NC_TESTS_DIFFER_H

#include <stddef.h>

#include "nc/err.h"
#include "nc/mem.h"

#define DIFFER_MAX_FIELDS 16

/* A field is NUL-terminated behind its n bytes; "-" in the question is the field that is not there:
 * text is NULL. */
struct differ_field {
    char *text;
    size_t n;
};

typedef void differ_reader(const struct differ_field *f, struct nc_buf *out);

differ_reader differ_quantity;     /* text */
differ_reader differ_milli;        /* number: its canonical text */
differ_reader differ_bytes;        /* number: its canonical text */
differ_reader differ_duration;     /* text */
differ_reader differ_microseconds; /* number: its canonical text */
differ_reader differ_time;         /* text */
differ_reader differ_base64;       /* text */
differ_reader differ_gzip;         /* bytes */
differ_reader differ_label;        /* key, value */
differ_reader differ_node_labels;  /* text */
differ_reader differ_taints;       /* text */
differ_reader differ_json;         /* text */
differ_reader differ_thin;         /* text, size of the pieces */
differ_reader differ_yaml;         /* text */
differ_reader differ_toml;         /* text */
differ_reader differ_mime;         /* user data */
differ_reader differ_presign;      /* see differ-sigv4.c */
differ_reader differ_headers;
differ_reader differ_kubelet; /* its version, user data, tables of gates and flags */
differ_reader differ_containerd;
differ_reader differ_node_class; /* instance type, spec.kubelet as JSON */

void differ_put_hex(struct nc_buf *out, const char *data, size_t n);
void differ_refuse(struct nc_buf *out, const struct nc_err *err);

#endif
