/* A connection of tankceil, and what tankceil.c (connections, the loop) and ceil_requests.c (requests) share
 * of it. */
#ifndef CEIL_CONN_H
#define CEIL_CONN_H

#include "ceil.h"

struct bytes {
    uint8_t *at;
    size_t length, capacity;
};
struct range {
    size_t after;
    struct chunk chunk;
}; /* part of a file, to be sent when `after` bytes of out are */

struct conn {
    int fd;
    bool active, closing, wants_write;
    uint8_t *in;
    size_t start, have, capacity; /* unparsed input is in[start, have) */
    struct bytes out;
    size_t out_sent;
    struct range *ranges;
    size_t n_ranges, range_at, cap_ranges;
    struct bytes held[2]; /* acknowledgements that wait for the next sync, and for the one under way */
};

uint8_t *reserve(struct bytes *b, size_t n); /* room for n more bytes at the end; returns where */
void activate(struct conn *c);               /* it has output, or is to be closed, at the end of the tick */

/* ---- ceil_requests.c ---- */

/* Handles one frame; false if it is malformed, and the connection is then closed. */
bool handle_frame(struct conn *c, uint8_t id, uint8_t *payload, uint8_t *end);
/* Answers those whose bytes have come or whose time is over; returns ms until the next expires, -1: none. */
int serve_waiters(void);
void forget_waiters(struct conn *c);
void release_held(int set); /* a sync has ended: the acknowledgements that waited for it may go */

#endif
