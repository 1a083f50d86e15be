/*
 * Conditions as they are kept: their JSON, with a byte for each piece that nearly all of them have.
 *
 * Every claim has half a dozen of them, of which only the times differ; as text they would be the
 * largest part of what is known of it. Compact JSON has no byte below 0x20: these stand for the
 * pieces. So any text comes back as it was, whoever wrote it, and takes no more room than it did.
 */
#include <errno.h>

#include "control-take.h"
#include "nc/str.h"

#define FIRST_TEXT_BYTE 0x20u

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
_Static_assert(NC_ARRAY_SIZE(pieces) < FIRST_TEXT_BYTE, "a byte each, and none that text has");

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

int nc_control_terse(const char *text, char **ret) {
    nc_auto_free char *out = nc_malloc(strlen(text) + 1);
    size_t len = 0;

    for (size_t n = 0; *text; text += n) {
        const size_t which = piece_at(text, &n);
        if ((unsigned char)*text < FIRST_TEXT_BYTE)
            return -EBADMSG;
        out[len++] = which ? (char)which : *text;
    }
    out[len] = '\0';
    *ret = nc_strdup(out); /* of its own size */
    return 0;
}

char *nc_control_terse_text(const char *terse) {
    size_t len = 0;
    char *text = NULL, *end = NULL;

    for (const char *p = terse; *p; p++)
        len += (unsigned char)*p < FIRST_TEXT_BYTE ? strlen(pieces[*p - 1]) : 1;
    text = end = nc_malloc(len + 1);
    for (const char *p = terse; *p; p++) {
        if ((unsigned char)*p < FIRST_TEXT_BYTE)
            end = stpcpy(end, pieces[*p - 1]);
        else
            *end++ = *p;
    }
    *end = '\0';
    return text;
}
