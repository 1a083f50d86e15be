/*
 * The rules on the wire that hold for every request, and what the other rules are made of. Pure.
 */
#include "wire.h"

#include <errno.h>
#include <string.h>

#include "nc/str.h"

#define REVIEWS "/apis/authentication.k8s.io/"

bool nc_guard_is_text(const struct nc_value *map, const char *key, const char *text) {
    return nc_value_says(map, key, text);
}

bool nc_guard_has_only(const struct nc_value *map, const char *keys) {
    if (!map || map->type != NC_VALUE_MAP)
        return false;
    for (size_t i = 0; i < map->n; i++)
        if (!nc_is_one_of(map->members[i].key, keys))
            return false;
    return true;
}

/* Names need no escapes, but a hostile one may request some. */
bool nc_guard_is_same(const char *path, size_t n, const char *name) {
    nc_auto_free char *escaped = name ? nc_kube_escape(name) : NULL;

    return escaped && strlen(escaped) == n && strncmp(escaped, path, n) == 0;
}

int nc_guard_refuse(const struct nc_kube_call *c, struct nc_err *err, const char *what,
                    const char *detail) {
    return nc_err_set(err, NC_ERR_BUG, EPERM, "%s: not sent: %s%s%s", c->what ? c->what : "request",
                      what, detail ? " " : "", detail ? detail : "");
}

/* "." and ".." would be taken out of the URL on its way: it would then name something else. */
static int check_segments(const struct nc_kube_call *c, struct nc_err *err) {
    const char *end = c->path + strcspn(c->path, "?");

    for (const char *p = c->path; p < end;) {
        const size_t n = strcspn(++p, "/?");
        if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return nc_guard_refuse(c, err, "a path with a dot for a name:", c->path);
        p += n;
    }
    return 0;
}

int nc_guard_form(const struct nc_kube_call *c, const char *methods, struct nc_err *err) {
    if (!c->what || !c->method || !nc_is_one_of(c->method, methods))
        return nc_guard_refuse(c, err, "only GET, POST, PATCH and DELETE are, not", c->method);
    if (nc_streq(c->method, "PATCH") != (c->patch != NC_KUBE_PATCH_NONE))
        return nc_guard_refuse(c, err, "PATCH and the kind of the patch belong together", NULL);
    if (!c->path || c->path[0] != '/')
        return nc_guard_refuse(c, err, "a path starts with a slash", NULL);
    if (!nc_is_visible(c->path, strlen(c->path)) || strchr(c->path, '#'))
        return nc_guard_refuse(c, err, "the path is not encoded", NULL);
    return check_segments(c, err);
}

int nc_guard_review(const struct nc_kube_call *c, struct nc_err *err) {
    static const char reviews[] =
        REVIEWS "v1/selfsubjectreviews\0" REVIEWS "v1beta1/selfsubjectreviews\0";

    return nc_streq(c->method, "POST") && nc_is_one_of(c->path, reviews)
               ? 0
               : nc_guard_refuse(c, err, "nothing is written there:", c->path);
}
