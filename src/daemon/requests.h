/*
 * The source OPERATOR: `drain` and `undrain` leave a file in a folder; it is read, answered in
 * status.json and removed.
 */
#ifndef NC_DAEMON_REQUESTS_H
#define NC_DAEMON_REQUESTS_H

#include <systemd/sd-event.h>

#include "notice-sink.h"

/* Written by the commands, removed by the daemon. */
#define NC_REQUEST_DIR "/run/nodeclaimd/requests"
#define NC_REQUEST_DRAIN "drain.json"
#define NC_REQUEST_UNDRAIN "undrain.json"

struct nc_requests {
    struct nc_notice_sink sink;
    sd_event *event;              /* borrowed */
    char *folder;                 /* owned */
    void (*kept)(void *userdata); /* what was requested must survive us: its file is removed now */
    void (*refused)(void *userdata, const char *message);

    sd_event_source *watch; /* NULL = the folder cannot be watched */
    sd_event_source *timer; /* it is tried again */
    bool failed;            /* logged */
};

void nc_requests_open(struct nc_requests *r); /* the fields up to `refused` are set */
void nc_requests_close(struct nc_requests *r);

#endif
