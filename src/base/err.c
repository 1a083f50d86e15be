/*
 * Errors as values: filling, wrapping, and the one table of the classes.
 *
 * Everything is formatted into memory of its own first, so that an error's own message may be an
 * argument of its successor. A message that is too long is cut between two characters, never inside
 * one.
 */
#include "nc/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/str.h"

/* Linux has no errno from here on, and HTTP no failure below: what a code means follows from its
 * size. */
#define FIRST_HTTP_STATUS 200

static const char class_names[] = "none\0transient\0config\0auth\0protocol\0host\0bug\0";
static const unsigned char exit_codes[_NC_ERR_CLASS_MAX] = {
    [NC_ERR_NONE] = 0,     [NC_ERR_TRANSIENT] = 1, [NC_ERR_CONFIG] = 3, [NC_ERR_AUTH] = 4,
    [NC_ERR_PROTOCOL] = 5, [NC_ERR_HOST] = 6,      [NC_ERR_BUG] = 7,
};

int nc_err_setv(struct nc_err *err, enum nc_err_class class, int code, const char *format,
                va_list ap) {
    const int magnitude = code == 0 ? EINVAL : abs(code);

    if (err) {
        nc_auto_free char *msg = nc_vasprintf(format, ap);
        err->class = class;
        err->code = magnitude >= FIRST_HTTP_STATUS ? magnitude : -magnitude;
        nc_copy_text(err->msg, sizeof(err->msg), msg);
        err->remedy[0] = '\0';
        err->mark.line = 0;
    }
    return -magnitude;
}

int nc_err_set(struct nc_err *err, enum nc_err_class class, int code, const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    const int r = nc_err_setv(err, class, code, format, ap);
    va_end(ap);
    return r;
}

int nc_err_config(struct nc_err *err, const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    const int r = nc_err_setv(err, NC_ERR_CONFIG, EINVAL, format, ap);
    va_end(ap);
    return r;
}

int nc_err_protocol(struct nc_err *err, const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    const int r = nc_err_setv(err, NC_ERR_PROTOCOL, EBADMSG, format, ap);
    va_end(ap);
    return r;
}

int nc_err_host(struct nc_err *err, int code, const char *format, ...) {
    va_list ap;

    va_start(ap, format);
    nc_auto_free char *what = nc_vasprintf(format, ap);
    va_end(ap);
    return nc_err_set(err, NC_ERR_HOST, code, "%s: %s", what, strerror(abs(code)));
}

int nc_err_give(const struct nc_err *from, struct nc_err *err) {
    if (from->class == NC_ERR_NONE)
        return 0;
    if (err)
        *err = *from;
    return from->code < 0 ? from->code : -from->code;
}

void nc_err_wrap(struct nc_err *err, const char *format, ...) {
    va_list ap;

    if (!err)
        return;
    va_start(ap, format);
    nc_auto_free char *prefix = nc_vasprintf(format, ap);
    va_end(ap);
    nc_auto_free char *whole = nc_asprintf("%s: %s", prefix, err->msg);
    nc_copy_text(err->msg, sizeof(err->msg), whole);
}

void nc_err_remedy(struct nc_err *err, const char *format, ...) {
    va_list ap;

    if (!err)
        return;
    va_start(ap, format);
    nc_auto_free char *remedy = nc_vasprintf(format, ap);
    va_end(ap);
    nc_copy_text(err->remedy, sizeof(err->remedy), remedy);
}

const char *nc_err_class_name(enum nc_err_class class) {
    const char *name = nc_name_at(class_names, class);

    return name ? name : "bug";
}

int nc_err_exit_code(enum nc_err_class class) {
    return exit_codes[(unsigned)class < _NC_ERR_CLASS_MAX ? class : NC_ERR_BUG];
}
