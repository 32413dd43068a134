/* What the parts of tankload share. */
#ifndef LOAD_H
#define LOAD_H

#define _GNU_SOURCE
#include "measure.h"
#include "requests.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    STAMP = 16, /* bytes of the head of a message */
    POOL = 1 << 20,
    SOURCES_MAX = 1024,
    ANY_COUNTER = -1,
};
#define FILL_REPEATED UINT32_MAX
#define SECOND 1000000000ull

enum mode { PRODUCE_MODE, PACED_MODE, TAIL_MODE, CONSUME_MODE, FRAMES_MODE, N_MODES };

struct options {
    enum mode mode;
    const char *host, *topic, *pids, *label, *config;
    int port, connections, depth, partitions, acks;
    uint32_t bundle, size, fetch, ack_timeout_ms, min_bytes;
    uint64_t start, wait_ms, cap;
    double rate, warmup_s, duration_s;
    bool create, check, once, bytes_only, repeated;
};
extern struct options opt;
extern const char *mode_names[];

void parse_options(int argc, char **argv); /* ends the process when they make no sense */

struct slot {
    uint64_t started_ns;
    uint32_t request;
    bool busy;
};

struct conn {
    int fd;
    bool producer, wants_write;
    uint8_t *in;
    size_t have, capacity;
    /* a producer: its requests are numbered from 0; all before `oldest` are answered */
    uint32_t source;
    uint8_t *out; /* `batch` frames, stamped anew whenever all of them are with the kernel */
    size_t out_at, out_length;
    uint64_t sent, oldest;
    struct slot *slots;
    /* a consumer: `expected` runs ahead of `next` while an answer is read */
    uint16_t partition;
    bool finished, mapped;
    uint64_t next, expected, high_water, asked_ns;
    size_t chunk, body; /* bytes of this answer's chunk, and how many of them are still to come */
    size_t skip;        /* what is left of the bundle that is being passed over */
    uint64_t *points;   /* --bytes-only: the numbers asked for in the first pass, and the end */
    size_t n_points, at_point;
};

struct totals {
    uint64_t requests, messages, bytes;
};

extern struct totals done, tailed; /* acknowledged or fetched; received by the tail's consumers */
extern struct histogram latency, tail_latency, send_lag;
extern bool measuring, stopping;
extern bool checking, reading_back; /* looking at every message; after the run, at all that it has written */
extern uint64_t started_ns, measured_from_ns;
extern uint64_t due; /* how many requests of the paced schedule have come due */
extern uint64_t payload_sent, above_high_water, passes, checked;
extern int n_unfinished,
    n_unmapped; /* consumers that have not come to the end; that are in their first pass */
extern uint8_t pool[POOL];

struct conn *open_conn(bool producer);
/* Return how many bytes came, 0 if there is nothing now; a closed connection is fatal. */
size_t receive(struct conn *c, void *to, size_t n, int flags);
void drop_input(struct conn *c, size_t n);
void watch_writing(struct conn *c, bool on);

void plan_producers(void);
void open_producer(uint32_t source);
void send_requests(struct conn *c); /* as many as the window and the schedule allow */
void read_acks(struct conn *c);
/* When a paced request is to be sent: the schedule goes round the connections. */
uint64_t intended_ns(uint64_t request, uint32_t source);

void open_consumer(uint16_t partition, uint64_t next);
void expect_counters(int64_t first); /* of every source in every partition */
void read_chunks(struct conn *c);

#endif
