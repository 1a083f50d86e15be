/*
 * What the service manager is told: ready, a line for `systemctl status`, a sign of life.
 *
 * Without a service manager (no NOTIFY_SOCKET) nothing is reported, and nothing fails. A manager
 * that does not listen may cost a line for people, or a moment where the line is worth more; it
 * never holds up a drain, which is why sd_notify, that waits for ever, is not used.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "nc/str.h"

#include "process.h"

#define PATIENCE_USEC 200000 /* for what is reported once */

/* "/path", or "@name" of the abstract namespace. 0 where it is neither, or too long. */
static socklen_t address_of(const char *where, struct sockaddr_un *ret) {
    const size_t n = where ? strlen(where) : 0;

    if (n < 2 || n >= sizeof(ret->sun_path) || (where[0] != '/' && where[0] != '@'))
        return 0;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, where, n);
    if (where[0] == '@')
        ret->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (where[0] == '/'));
}

void nc_notify(const char *text) {
    const bool is_for_people = nc_starts_with(text, "STATUS=");
    const struct timeval patience = {.tv_usec = PATIENCE_USEC};
    struct sockaddr_un address;
    const socklen_t n = address_of(getenv("NOTIFY_SOCKET"), &address);
    const int fd = n > 0 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | (is_for_people ? MSG_DONTWAIT : 0),
                 (const struct sockaddr *)&address, n);
    (void)close(fd);
}

uint64_t nc_notify_watchdog_usec(void) {
    uint64_t usec = 0;

    return sd_watchdog_enabled(0, &usec) > 0 ? usec : 0;
}
