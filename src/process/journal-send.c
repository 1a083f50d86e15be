/*
 * One entry for the journal: fields in a datagram, as systemd's "Native Journal Protocol" has it.
 *
 * Not by sd_journal_sendv: that waits for ever for a journald that does not read, and a log must
 * never hold up a drain; and where no journal is there it states that all went well. What does not
 * fit into the socket of a journald that does not read is lost; the next entry that gets through
 * states how many were.
 */
#include "log.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* "NAME=value\n", or "NAME\n", the length and the value where that has lines of its own. */
void nc_journal_add_field(struct nc_buf *entry, const char *name, const char *value) {
    const uint64_t n = htole64((uint64_t)strlen(value));

    (void)nc_buf_puts(entry, name);
    if (!strchr(value, '\n')) {
        (void)nc_buf_putc(entry, '=');
    } else {
        (void)nc_buf_putc(entry, '\n');
        (void)nc_buf_add(entry, &n, sizeof(n));
    }
    (void)nc_buf_puts(entry, value);
    (void)nc_buf_putc(entry, '\n');
}

/* Found anew each time: journald's socket is another one after its restart. */
static int send_datagram(const char *data, size_t n) {
    static const struct sockaddr_un journal = {.sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET};
    static int fd = -1;
    ssize_t put;

    if (fd < 0)
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    do
        put = sendto(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&journal,
                     sizeof(journal));
    while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : 0;
}

static int report_lost(unsigned n, const char *identifier) {
    nc_cleanup(nc_buf_done) struct nc_buf entry = NC_BUF_INIT;
    char text[64];

    (void)snprintf(text, sizeof(text), "%u lines are missing here: journald did not read", n);
    nc_journal_add_field(&entry, "MESSAGE", text);
    nc_journal_add_field(&entry, "PRIORITY", "4");
    nc_journal_add_field(&entry, "SYSLOG_IDENTIFIER", identifier);
    return send_datagram(entry.data, entry.len);
}

int nc_journal_send(const struct nc_buf *entry, const char *identifier) {
    static unsigned lost;
    int r = lost > 0 ? report_lost(lost, identifier) : 0;

    if (r >= 0) {
        lost = 0;
        r = send_datagram(entry->data, entry->len);
    }
    if (r != -EAGAIN)
        return r;
    lost++;
    return 0;
}
