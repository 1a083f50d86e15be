/*
 * User data as EC2 hands it over: base64, gzip, MIME multipart, plain, in every nesting that
 * nodeadm accepts.
 */
#ifndef NC_USERDATA_H
#define NC_USERDATA_H

#include <stdbool.h>

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/str.h"

#define NC_USERDATA_MAX_RAW ((size_t)16 << 10) /* EC2's own limit */
#define NC_USERDATA_MAX_INFLATED ((size_t)1 << 20)
#define NC_USERDATA_MAX_PARTS 64

struct nc_userdata_part {
    char *name;         /* "part 2 (application/node.eks.aws)" or "" for a plain document */
    char *content_type; /* lower case, without parameters; "" for a plain document */
    char *data;         /* decoded, NUL-terminated, may hold other NULs */
    size_t n;
    unsigned line; /* line of its body in the decoded document, from 1, for messages; 1 for a part
                      that was itself encoded */
};

struct nc_userdata {
    struct nc_userdata_part *parts;
    size_t n;
    struct nc_lost_part {
        unsigned line;
        char *message; /* what stands there, and why nobody reads it */
    } * lost;
    size_t n_lost;
};

#define NC_USERDATA_INIT                                                                           \
    { 0 }
void nc_userdata_done(struct nc_userdata *u);

/* All parts, ours and cloud-init's, and what neither reads. NC_ERR_CONFIG: too large, cut in half,
 * broken header, bad base64 or gzip. */
int nc_userdata_decode(const char *data, size_t n, struct nc_userdata *ret, struct nc_err *err);

/* Is it nothing but base64, and too long for a word? What is in it may be anything. */
bool nc_userdata_is_base64(const char *data, size_t n);

/* Does a part of this type belong to us: application/node.eks.aws, application/vnd.nodeclaimd+yaml,
 * or a plain document ("") that looks like YAML or JSON with an apiVersion (a `#!` script and
 * `#cloud-config` are cloud-init's)? */
int nc_userdata_part_is_ours(const struct nc_userdata_part *p);

/* Has it a document of ours in it, under a type that is neither ours nor a script's? Nobody reads
 * it then. */
bool nc_userdata_part_is_mistyped(const struct nc_userdata_part *p);

/* Is it a shell script, as cloud-init decides that? Its last stage runs those; whatever else is
 * cloud-init's, its network stage reads, and may write files for it. */
int nc_userdata_part_is_script(const struct nc_userdata_part *p);

#endif
