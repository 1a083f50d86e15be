/*
 * A signal on the bus is a hint: whoever is logged in may send one. It states that a property is to
 * be read from whoever owns the well-known name, and nothing else. Pure: when to read it, and what
 * of the answer is news.
 *
 * Rules: the value that was read is the only one that counts. One read is in flight at a time,
 * however many hints arrive. A hint that arrives while a read is in flight is followed by one more
 * read. What could not be read changes nothing.
 */
#ifndef NC_HINT_H
#define NC_HINT_H

#include <stdbool.h>
#include <stdint.h>

struct nc_hint {
    bool is_reading; /* a read is in flight */
    bool is_hinted;  /* and a hint arrived since it was sent */
    bool is_known, is_true;
    uint64_t sent_usec;   /* when the read was called for: by a hint, or by nobody */
    uint64_t hinted_usec; /* the first hint since */
    uint64_t since_usec;  /* is_true: when that was hinted at */
};

/* A signal has arrived, or nobody said anything and the value is to be read all the same. True: the
 * read is to be sent now. */
bool nc_hint_arrived(struct nc_hint *h, uint64_t now_usec);
/* The read was answered. True where the value is another than before, or the first. */
bool nc_hint_read(struct nc_hint *h, bool is_true);
/* The read has ended, answered or not. True: one more is to be sent now. */
bool nc_hint_ended(struct nc_hint *h);

#endif
