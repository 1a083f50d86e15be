/*
 * What the service manager is told: ready, a line for `systemctl status`, a sign of life.
 *
 * Without a service manager (no NOTIFY_SOCKET) nothing is said, and nothing fails.
 */
#include <stdarg.h>
#include <systemd/sd-daemon.h>

#include "nc/login.h"
#include "nc/mem.h"

void nc_notify(const char *format, ...) {
    nc_auto_free char *text = NULL;
    va_list ap;

    va_start(ap, format);
    text = nc_vasprintf(format, ap);
    va_end(ap);
    (void)sd_notify(0, text);
}

uint64_t nc_notify_watchdog_usec(void) {
    uint64_t usec = 0;

    return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}
