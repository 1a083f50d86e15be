/*
 * When a property of the bus is read, and what of it is news. Rules: nc/hint.h.
 */
#include "nc/hint.h"

bool nc_hint_arrived(struct nc_hint *h, uint64_t now_usec) {
    if (h->is_reading) {
        if (!h->is_hinted)
            h->hinted_usec = now_usec;
        h->is_hinted = true;
        return false;
    }
    h->is_reading = true;
    h->sent_usec = now_usec;
    return true;
}

bool nc_hint_read(struct nc_hint *h, bool is_true) {
    if (h->is_known && h->is_true == is_true)
        return false;
    h->is_known = true;
    h->is_true = is_true;
    h->since_usec = is_true ? h->sent_usec : 0;
    return true;
}

bool nc_hint_ended(struct nc_hint *h) {
    h->is_reading = h->is_hinted;
    h->is_hinted = false;
    h->sent_usec = h->hinted_usec;
    return h->is_reading;
}
