/* The requests that tankload sends, laid out as the official client does it (client version 2). */
#ifndef REQUESTS_H
#define REQUESTS_H

#include "tankwire.h"

struct content {
    const void *at;
    uint32_t size;
};

/* One request with one bundle; all messages carry one timestamp. Returns its length; *first_content is the
 * offset of the first message's content. */
static inline size_t put_produce(uint8_t *f, uint32_t request, uint8_t acks, uint32_t timeout_ms,
                                 const char *topic, uint16_t partition, uint64_t timestamp_ms,
                                 const struct content *messages, uint32_t n, size_t *first_content)
{
    uint32_t length = 1 + (n > 15 ? (uint32_t)varint_size(n) : 0) + 8;
    for (uint32_t i = 0; i < n; i++) length += 1 + (uint32_t)varint_size(messages[i].size) + messages[i].size;
    uint8_t *p = put_str8(put32(put16(f + FRAME_HEADER, 2), request), "c++");
    p = put_str8(put8(put32(put8(p, acks), timeout_ms), 1), topic);
    p = put_varint(put16(put8(p, 1), partition), length);
    p = put8(p, n > 15 ? 0 : (uint8_t)(n << 2));
    if (n > 15) p = put_varint(p, n);
    for (uint32_t i = 0; i < n; i++) {
        p = i ? put8(p, SAME_TIMESTAMP) : put64(put8(p, 0), timestamp_ms);
        p = put_varint(p, messages[i].size);
        if (!i && first_content) *first_content = (size_t)(p - f);
        p = put_bytes(p, messages[i].at, messages[i].size);
    }
    return seal_frame(f, PRODUCE, p);
}

static inline size_t put_consume(uint8_t *f, uint32_t request, uint64_t wait_ms, uint32_t min_bytes,
                                 const char *topic, uint16_t partition, uint64_t sequence, uint32_t fetch)
{
    uint8_t *p = put_str8(put32(put16(f + FRAME_HEADER, 2), request), "");
    p = put_str8(put8(put32(put64(p, wait_ms), min_bytes), 1), topic);
    p = put32(put64(put16(put8(p, 1), partition), sequence), fetch);
    return seal_frame(f, CONSUME, p);
}

static inline size_t put_create_topic(uint8_t *f, uint32_t request, const char *topic, uint16_t partitions,
                                      const char *config)
{
    uint8_t *p = put16(put_str8(put32(f + FRAME_HEADER, request), topic), partitions);
    p = put_varint(p, (uint32_t)strlen(config));
    return seal_frame(f, CREATE_TOPIC, put_bytes(p, config, strlen(config)));
}

static inline size_t put_discover_partitions(uint8_t *f, uint32_t request, const char *topic)
{ return seal_frame(f, DISCOVER_PARTITIONS, put_str8(put32(f + FRAME_HEADER, request), topic)); }

#define show(name, build)                                                                                    \
    do {                                                                                                     \
        size_t n_ = build;                                                                                   \
        printf("%s ", name);                                                                                 \
        for (size_t i_ = 0; i_ < n_; i_++) printf("%02x", f[i_]);                                            \
        putchar('\n');                                                                                       \
    } while (0)

/* Frames of known content, by the names they have in the captures of the official client's protocol. */
static inline void print_frames(void)
{
    uint8_t f[2048], z[300];
    struct content numbers[16];
    char digits[16][4];
    const uint64_t t = 1700000000000;
    memset(z, 'z', sizeof z);
    for (int i = 0; i < 16; i++)
        numbers[i] = (struct content){digits[i], (uint32_t)snprintf(digits[i], 4, "%d", i)};
    show("produce_one.req",
         put_produce(f, 0x11223344, 1, 1000, "gold", 0, t, &(struct content){"hello", 5}, 1, NULL));
    show("produce_15.req", put_produce(f, 4, 0, 0, "gold", 0, t, numbers, 15, NULL));
    show("produce_16.req", put_produce(f, 5, 0, 0, "gold", 0, t, numbers, 16, NULL));
    show("produce_empty_msg.req", put_produce(f, 7, 0, 0, "gold", 0, 0, &(struct content){"", 0}, 1, NULL));
    show("produce_long_len.req", put_produce(f, 8, 0, 0, "gold", 0, t, &(struct content){z, 300}, 1, NULL));
    show("produce_unknown_topic.req",
         put_produce(f, 1, 0, 0, "nope", 0, t, &(struct content){"x", 1}, 1, NULL));
    show("consume_from_zero.req", put_consume(f, 1, 0, 0, "gold", 0, 0, 1 << 20));
    show("consume_mid_bundle.req", put_consume(f, 2, 0, 0, "gold", 0, 3, 1 << 20));
    show("consume_max_nowait.req", put_consume(f, 5, 0, 0, "gold", 0, SEQUENCE_END, 1 << 20));
    show("consume_fetch1.req", put_consume(f, 6, 0, 0, "gold", 0, 1, 1));
    show("tail_wake_max.req", put_consume(f, 7, 5000, 0, "tail", 1, SEQUENCE_END, 100));
    show("tail_minbytes.req", put_consume(f, 7, 5000, 150, "tail", 1, SEQUENCE_END, 100));
    show("create_topic.req", put_create_topic(f, 1, "newt", 2, ""));
    show("create_topic_conf.req", put_create_topic(f, 1, "newc", 1, "log.segment.bytes=1mb\n"));
    show("create_topic_zero_parts.req", put_create_topic(f, 1, "zero", 0, ""));
    show("discover_partitions.req", put_discover_partitions(f, 1, "gold"));
}

#undef show

#endif
