/* What the parts of tankceil share; ceil_log.c: partitions, appending, group commit. */
#ifndef CEIL_H
#define CEIL_H

#define _GNU_SOURCE
#include "tankwire.h"

#include <sys/types.h>
#include <sys/uio.h>

enum {
    /* Per system call, which also ends at a multiple of it in the file: then the page cache takes one 64 KiB
     * folio for a call instead of sixteen pages (a third less time); much larger folios are often cold memory
     * on virtual machines. */
    APPEND_MAX = 64 << 10,
    STAGE_MAX = 256 << 10, /* staged bytes that are appended before the tick ends, while the cache has them */
    COPY_BELOW = 2048,     /* smaller slices are copied together: cheaper than an iovec each */
    STAGED = 512,          /* slices of a partition in one append */
    ENTRY_BYTES = 4 << 10, /* of log between two entries of the lookup table */
    MAX_PARTITIONS = 1024, /* of a topic */
    MAX_TOPICS = 1024,
};

struct options {
    int port;
    const char *dir;
    bool raw, fsync;
    int sndbuf;
    uint64_t keep, ahead;
};
extern struct options opt;

struct index_record { /* as in a broker's .index file: docs/log.md */
    uint64_t first;
    uint32_t span, position, length, crc;
    uint64_t append_ms, max_timestamp_ms, producer_id;
    uint32_t producer_sequence, leader_epoch;
    uint16_t producer_epoch;
    uint8_t format, flags;
    uint32_t messages;
};
_Static_assert(sizeof(struct index_record) == 64, "one cache line");

struct file {
    int fd;
    uint64_t size, written; /* with what is staged, and without */
    uint64_t allocated;     /* on disk, ahead of `written` */
    uint64_t punched;       /* bytes before it are given back, see --keep */
};
struct entry {
    uint64_t first, position;
};

struct partition {
    uint16_t id;
    bool touched, dirty;
    struct file log, index;
    uint64_t next; /* sequence number of the next message */
    uint64_t visible_next, visible_size; /* what consumers may see: all that is in the log, or is synced */
    struct entry *entries; /* in memory, in all modes, so that all read alike; [0]: the first bundle kept */
    size_t n_entries, cap_entries, n_records;
    int n_iov;
    struct iovec iov[STAGED]; /* staged in this tick; log.size counts them */
    struct index_record records[STAGED];
};

struct topic {
    char name[256];
    uint16_t n;
    struct partition **partitions;
};
struct chunk {
    int fd;
    off_t offset;
    size_t left;
};

/* Makes room for one more element of a growing array. */
#define grow(array, n, capacity)                                                                             \
    do                                                                                                       \
        if ((n) == (capacity)) {                                                                             \
            (capacity) = (capacity) ? 2 * (capacity) : 64;                                                   \
            (array) = realloc((array), (capacity) * sizeof *(array));                                        \
            if (!(array)) die("out of memory");                                                              \
        }                                                                                                    \
    while (0)

extern int n_topics;
extern size_t staged_bytes; /* since the last append */

void log_init(void);
struct topic *find_topic(const uint8_t *name, size_t length);
void create_topic(const uint8_t *name, size_t length, uint16_t partitions);

/* Stages `varint length, bundle`, which is also its form on disk. The slice must stay where it is until
 * append_staged. */
void stage(struct partition *p, const uint8_t *slice, size_t length, const struct bundle_head *head,
           const uint8_t *message_set);
void append_staged(void);

uint64_t first_available(const struct partition *p); /* 0 if the partition is empty */
/* The bytes from the bundle that holds `sequence`: whole bundles, at least one, about `fetch` bytes. */
struct chunk find_chunk(struct partition *p, uint64_t sequence, uint32_t fetch, uint64_t *base);

/* Group commit. What is appended while `n` syncs have ended is synced when sync_end has been called for the
 * batch of that time: acknowledgements are kept in two sets, [sync_filling()] for the next sync and the other
 * for the one under way. */
int sync_open(void);   /* starts the thread; returns the descriptor that is readable when a sync has ended */
int sync_filling(void);
void sync_start(void); /* hands what is dirty to the thread, unless it is busy; flips sync_filling */
int sync_end(void);    /* when the descriptor is readable; returns the set that is now synced */

#endif
