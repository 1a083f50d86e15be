/*
 * Strict, capped readers of parts of a hostile object. 0, or -EBADMSG where what stands there is of
 * another kind, or longer than anybody needs. Absent is fine: *ret is not touched.
 */
#ifndef NC_CONTROL_PARSE_H
#define NC_CONTROL_PARSE_H

#include "control-priv.h"

/* Where an object stands: path of plain keys, then (where key is not NULL) one key with dots. NULL
 * for null, but not of a key: that of an annotation or a label is what the watch has left out as
 * too large. */
const struct nc_value *nc_control_at(const struct nc_value *object, const char *path,
                                     const char *key);
int nc_control_parse_time(const struct nc_value *v, uint64_t *ret);
/* Printable ASCII without spaces; "" is nothing. */
int nc_control_parse_token(const struct nc_value *v, size_t max, char **ret);
/* All of them, "" for what is absent; nothing where all are. */
int nc_control_parse_tokens(const struct nc_value *const *v, size_t n, size_t max,
                            struct control_strings *ret);
int nc_control_parse_map(const struct nc_value *v, struct control_strings *ret);  /* 2 each */
int nc_control_parse_list(const struct nc_value *v, struct control_strings *ret); /* 1 each */
/* 3 each; with_time 4: timeAdded too */
int nc_control_parse_taints(const struct nc_value *v, bool with_time, struct control_strings *ret);
/* CONTROL_CONDITION_WIDTH each */
int nc_control_parse_conditions(const struct nc_value *v, struct control_strings *ret);
/* A list, as text. */
int nc_control_parse_json_list(const struct nc_value *v, size_t max, char **ret);
bool nc_control_has_text(const struct nc_value *list, const char *text);
bool nc_control_is_true(const struct nc_value *v); /* the string "true" */

/* drain-status.c: NULL where it cannot be read. */
struct control_drain_status *nc_control_drain_status_read(const char *text);

#endif
