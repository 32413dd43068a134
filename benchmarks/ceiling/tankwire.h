/* The parts of the TANK wire that both programs need: integers, varints, frame ids and the head of a bundle.
 * Everything is little-endian; a frame is `u8 id, u32 length, payload`. Inline, because both sides sit on a
 * hot path. */
#ifndef TANKWIRE_H
#define TANKWIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are copied as they lie in memory");

enum message_id { PRODUCE = 1, CONSUME = 2, PING = 3, DISCOVER_PARTITIONS = 6, CREATE_TOPIC = 7 };
enum { FRAME_HEADER = 5, FRAME_MAX = 256 << 20 };
enum { CODEC_MASK = 0x03, SPARSE = 0x40, SAME_TIMESTAMP = 0x02, HAS_KEY = 0x01, PREVIOUS_PLUS_ONE = 0x04 };
#define SEQUENCE_END UINT64_MAX
typedef unsigned long long ull; /* what printf wants for a u64 */

#define die(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define must(call)                                                                                           \
    ({                                                                                                       \
        __typeof__(call) r_ = (call);                                                                        \
        if (r_ < 0) {                                                                                        \
            perror(#call);                                                                                   \
            exit(1);                                                                                         \
        }                                                                                                    \
        r_;                                                                                                  \
    })

static inline uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}
static inline uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static inline uint8_t *put8(uint8_t *p, uint8_t v)
{
    *p = v;
    return p + 1;
}
static inline uint8_t *put16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, 2);
    return p + 2;
}
static inline uint8_t *put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4);
    return p + 4;
}
static inline uint8_t *put64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, 8);
    return p + 8;
}
static inline uint8_t *put_bytes(uint8_t *p, const void *from, size_t n)
{
    memcpy(p, from, n);
    return p + n;
}

static inline uint8_t *put_str8(uint8_t *p, const char *s)
{
    size_t n = strlen(s);
    return put_bytes(put8(p, (uint8_t)n), s, n);
}

static inline uint8_t *put_varint(uint8_t *p, uint32_t v)
{
    for (; v > 127; v >>= 7) *p++ = (uint8_t)(v | 128);
    *p = (uint8_t)v;
    return p + 1;
}

static inline size_t varint_size(uint32_t v)
{
    size_t n = 1;
    while (v >>= 7) n++;
    return n;
}

/* Returns what follows the varint, or NULL if it does not end before `end` (or is longer than a u32's five
 * bytes). */
static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint32_t *value)
{
    uint32_t v = 0;
    for (unsigned shift = 0; p < end && shift < 35; shift += 7) {
        v |= (uint32_t)(*p & 127) << shift;
        if (*p++ < 128) {
            *value = v;
            return p;
        }
    }
    return NULL;
}

/* Fills in a frame's header once its end is known; returns the frame's length. */
static inline size_t seal_frame(uint8_t *frame, enum message_id id, const uint8_t *end)
{
    put32(put8(frame, (uint8_t)id), (uint32_t)(end - frame - FRAME_HEADER));
    return (size_t)(end - frame);
}

struct bundle_head {
    uint8_t flags;
    uint32_t messages;
    uint64_t first, last; /* 0 unless flags & SPARSE */
};
enum { BUNDLE_HEAD_MAX = 1 + 5 + 8 + 5 };

/* Returns the start of the message set, or NULL if the head is not complete before `end`. */
static inline const uint8_t *get_bundle_head(const uint8_t *p, const uint8_t *end, struct bundle_head *h)
{
    if (p >= end) return NULL;
    *h = (struct bundle_head){.flags = *p++};
    h->messages = h->flags >> 2 & 15;
    if (h->messages == 0 && !(p = get_varint(p, end, &h->messages))) return NULL;
    if (h->flags & SPARSE) {
        uint32_t span;
        if (end - p < 8) return NULL;
        h->first = h->last = get64(p);
        p += 8;
        if (h->messages > 1) {
            if (!(p = get_varint(p, end, &span))) return NULL;
            h->last = h->first + span + 1;
        }
    }
    return p;
}

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
