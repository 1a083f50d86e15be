/*
 * Conditions as they are kept: their JSON, with a byte for each piece that nearly all of them have.
 *
 * Every claim has half a dozen of them, of which only the times differ; as text they would be the
 * largest part of what is known of it. Compact JSON has no byte below 0x20: these stand for the
 * pieces, the last of them for a time, whose seconds follow. So any text comes back as it was,
 * whoever wrote it, and takes no more room than it did.
 */
#include <errno.h>

#include "apply.h"
#include "nc/str.h"

#define FIRST_TEXT_BYTE 0x20u
#define TIME_BYTE 0x1f
#define TIME_CHARS (sizeof("2026-11-22T02:00:00Z") - 1)
#define TIME_DIGITS 5 /* of seven bits, the eighth set: none is a NUL */

/* A byte is the piece's place, from 1. None begins with a small letter, a digit or a colon. Both
 * orders that are about: kube-apiserver's, by name, and ours. */
static const char *const pieces[] = {
    "[{\"lastTransitionTime\":\"",
    "[{\"type\":\"",
    "\"},{\"lastTransitionTime\":\"",
    "\"},{\"type\":\"",
    "},{\"type\":\"",
    "\",\"lastTransitionTime\":\"",
    "\",\"message\":\"",
    "\",\"message\":\"\",\"reason\":\"",
    "\",\"message\":\"\",\"observedGeneration\":",
    "\",\"observedGeneration\":",
    ",\"reason\":\"",
    "\",\"reason\":\"",
    "\",\"status\":\"True\",\"type\":\"",
    "\",\"status\":\"False\",\"type\":\"",
    "\",\"status\":\"Unknown\",\"type\":\"",
    "\",\"status\":\"True\",\"lastTransitionTime\":\"",
    "\",\"status\":\"True",
    "\",\"status\":\"False",
    "\",\"status\":\"Unknown",
    "Launched",
    "Registered",
    "Initialized",
    "Ready",
    "Drifted",
    "Drained",
    "VolumesDetached",
    "InstanceTerminating",
    "Consolidatable",
    "ConsistentStateFound",
    "AwaitingReconciliation",
};
_Static_assert(NC_ARRAY_SIZE(pieces) < TIME_BYTE, "a byte each, and none that text has");

static bool begins_none(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ':';
}

/* The longest piece that stands here: its place from 1; 0 = none. */
static size_t piece_at(const char *text, size_t *ret_n) {
    size_t which = 0;

    *ret_n = 1;
    for (size_t i = 0; !begins_none(*text) && i < NC_ARRAY_SIZE(pieces); i++) {
        const size_t n = pieces[i][0] == *text ? strlen(pieces[i]) : 0;
        if (n <= *ret_n || strncmp(text, pieces[i], n) != 0)
            continue;
        which = i + 1;
        *ret_n = n;
    }
    return which;
}

/* A time that comes back as it is written here. */
static bool time_at(const char *text, uint64_t *ret_sec) {
    char copy[TIME_CHARS + 1] = "", again[32];
    uint64_t usec = 0;

    if (*text < '0' || *text > '9' || strnlen(text, TIME_CHARS) < TIME_CHARS)
        return false;
    memcpy(copy, text, TIME_CHARS);
    if (nc_time_parse(copy, &usec) < 0)
        return false;
    nc_time_format(usec, again);
    *ret_sec = usec / 1000000;
    return nc_streq(copy, again) && *ret_sec >> (7 * TIME_DIGITS) == 0;
}

static size_t put_time(char *at, uint64_t sec) {
    at[0] = TIME_BYTE;
    for (size_t i = 1; i <= TIME_DIGITS; i++, sec >>= 7)
        at[i] = (char)(0x80 | (sec & 0x7f));
    return 1 + TIME_DIGITS;
}

static void get_time(const char *at, char ret[static 32]) {
    uint64_t sec = 0;

    for (size_t i = TIME_DIGITS; i > 0; i--)
        sec = sec << 7 | ((unsigned char)at[i] & 0x7f);
    nc_time_format(sec * 1000000, ret);
}

int nc_control_terse(const char *text, char **ret) {
    nc_auto_free char *out = nc_malloc(strlen(text) + 1);
    size_t len = 0;

    for (size_t n = 0; *text; text += n) {
        const size_t which = piece_at(text, &n);
        uint64_t sec = 0;
        if ((unsigned char)*text < FIRST_TEXT_BYTE)
            return -EBADMSG;
        if (time_at(text, &sec)) {
            len += put_time(out + len, sec);
            n = TIME_CHARS;
        } else {
            out[len++] = which ? (char)which : *text;
        }
    }
    out[len] = '\0';
    *ret = nc_strdup(out); /* of its own size */
    return 0;
}

/* What stands for this place of it; *ret_n: how many bytes of it that were. */
static const char *text_of(const char *terse, char buf[static 32], size_t *ret_n) {
    *ret_n = 1;
    if (*terse == TIME_BYTE) {
        *ret_n = 1 + TIME_DIGITS;
        get_time(terse, buf);
        return buf;
    }
    if ((unsigned char)*terse < FIRST_TEXT_BYTE)
        return pieces[*terse - 1];
    buf[0] = *terse;
    buf[1] = '\0';
    return buf;
}

char *nc_control_terse_text(const char *terse) {
    char buf[32], *text = NULL, *end = NULL;
    size_t len = 0, n = 0;

    for (const char *p = terse; *p; p += n)
        len += strlen(text_of(p, buf, &n));
    text = end = nc_malloc(len + 1);
    for (const char *p = terse; *p; p += n)
        end = stpcpy(end, text_of(p, buf, &n));
    *end = '\0';
    return text;
}
