/*
 * JSON thinned out while it streams in: of each object only the members that somebody requested.
 *
 * A list of two thousand pods of a megabyte each must not be held in memory, not even one of them:
 * bytes go in as the network brings them, complete items come out as small JSON texts. Syntax is
 * checked as strictly as a reader that skips can (brackets, strings, literals, depth); what is kept
 * is parsed again by nc_json_parse. What others may write into their objects is mended instead of
 * refused: \u0000 in a string comes out as \ufffd, an integer beyond 2^53 as 2^53 (below, as
 * -2^53).
 */
#ifndef NC_JSON_FILTER_H
#define NC_JSON_FILTER_H

#include "nc/err.h"
#include "nc/mem.h"

struct nc_json_filter;

/* One complete item: its kept members as a JSON object without any space outside of strings, valid
 * during the call. A negative return ends the filter with it. Must not free the filter. */
typedef int (*nc_json_item_fn)(void *userdata, const char *data, size_t n);

struct nc_json_filter_options {
    /* Dotted paths below an item; a path keeps everything below it. A key that holds a dot
     * stands in apostrophes ("metadata.annotations.'karpenter.sh/do-not-disrupt'"). Through an
     * array a path goes into each element. What is on the way to a path stays, if only as {} or [];
     * a string or number there goes. A list of names (nc/str.h); NULL: everything. */
    const char *keep;
    size_t max_item_bytes;  /* of what is kept; more is NC_ERR_PROTOCOL */
    size_t max_value_bytes; /* of what a path keeps, and of an array on the way to one: null stands
                               for more. 0: no limit of its own */
    nc_json_item_fn item;
    void *userdata;
};

/* A list: {"kind":…,"metadata":{…},"items":[…]}. The items go to `item`; everything else of the top
 * level is kept (at most 64 KiB) and can be had at the end. */
int nc_json_filter_new(const struct nc_json_filter_options *o, struct nc_json_filter **ret,
                       struct nc_err *err);
/* One object after the other, with nothing but space between them (the lines of a watch): each is
 * an item. */
int nc_json_filter_new_stream(const struct nc_json_filter_options *o, struct nc_json_filter **ret,
                              struct nc_err *err);
struct nc_json_filter *nc_json_filter_free(struct nc_json_filter *f);
/* 0, or negative with err filled: from then on every call fails. */
int nc_json_filter_add(struct nc_json_filter *f, const char *data, size_t n, struct nc_err *err);
/* The text is complete? Gives the rest of the top level, without the items, as JSON (borrowed). */
int nc_json_filter_end(struct nc_json_filter *f, const char **ret_rest, size_t *ret_n,
                       struct nc_err *err);

/* Nothing of it kept or mended: is it one value that nc_json_parse accepts (nc/value.h), but for
 * duplicate keys? Values are counted by their commas and brackets. */
int nc_json_check(const char *data, size_t n, size_t max_values, struct nc_err *err);

#endif
