/* The producing side of tankload: prepared frames that are stamped, sent, and matched with their
 * acknowledgements. */
#include "load.h"

enum {
    OPEN_WINDOW = 1 << 16,  /* requests a paced connection may have under way; a schedule that outruns it is
                               caught up with later */
    BATCH_BYTES = 64 << 10, /* at most this much, or one request, is stamped before it is sent */
};

static size_t frame_length, slice_length, first_content, content_stride;
static uint32_t batch, window; /* frames in a connection's buffer; requests it may have under way */

uint64_t intended_ns(uint64_t request, uint32_t source)
{ return started_ns + (uint64_t)((double)(request * (uint64_t)opt.connections + source) * (1e9 / opt.rate)); }

/* A frame with content but not yet stamped; all frames of a run are laid out alike. */
static size_t make_frame(uint8_t *f, uint32_t source, uint32_t *seed)
{
    struct content *messages = calloc(opt.bundle, sizeof *messages);
    uint8_t *content = malloc((size_t)opt.bundle * opt.size + 1);
    for (uint32_t j = 0; j < opt.bundle; j++) {
        uint8_t *m = content + (size_t)j * opt.size;
        uint32_t n = opt.size < STAMP ? opt.size : opt.size - STAMP, fill = FILL_REPEATED;
        messages[j] = (struct content){m, opt.size};
        if (!opt.repeated) fill = (*seed = *seed * 1103515245u + 12345u) % (POOL - n);
        if (opt.size >= STAMP) m = put32(put32(put64(m, 0), source), fill);
        if (opt.repeated) memset(m, 'x', n);
        else memcpy(m, pool + fill, n);
    }
    size_t length = put_produce(f, 0, (uint8_t)opt.acks, opt.ack_timeout_ms, opt.topic, 0, 0, messages,
                                opt.bundle, &first_content);
    free(content), free(messages);
    return length;
}

void plan_producers(void)
{
    size_t bound = 300 + (size_t)opt.bundle * (opt.size + 6ull);
    uint8_t *f = malloc(bound);
    frame_length = make_frame(f, 0, &(uint32_t){1});
    free(f);
    slice_length = frame_length - (FRAME_HEADER + 6 + 4 + 6 + 1 + strlen(opt.topic) + 1 + 2);
    content_stride = opt.size + varint_size(opt.size) + 1;
    window = opt.mode == PRODUCE_MODE ? (uint32_t)opt.depth : OPEN_WINDOW;
    batch = frame_length < BATCH_BYTES ? (uint32_t)(BATCH_BYTES / frame_length) : 1;
    if (batch > window) batch = window;
}

void open_producer(uint32_t source)
{
    struct conn *c = open_conn(true);
    uint32_t seed = 2654435761u * (source + 1);
    c->source = source;
    c->slots = calloc(window, sizeof *c->slots);
    c->out = malloc(batch * frame_length);
    for (uint32_t i = 0; i < batch; i++) make_frame(c->out + i * frame_length, source, &seed);
}

/* Makes a frame of the buffer into request `k`: number, partition, time and the messages' counters. */
static void stamp_request(struct conn *c, uint8_t *f, uint64_t k, uint64_t timestamp_ms)
{
    uint64_t partitions = (uint64_t)opt.partitions, counter = k / partitions * opt.bundle;
    put32(f + FRAME_HEADER + 2, (uint32_t)k);
    put16(f + frame_length - slice_length - 2, (uint16_t)((c->source + k) % partitions));
    put64(f + first_content - varint_size(opt.size) - 8, timestamp_ms);
    if (opt.size >= STAMP)
        for (uint32_t j = 0; j < opt.bundle; j++) put64(f + first_content + j * content_stride, counter + j);
}

/* How many requests the connection may send now: what its window has room for and, if paced, what has come
 * due. */
static uint64_t allowance(const struct conn *c)
{
    uint64_t n = stopping ? 0 : window - (c->sent - c->oldest);
    if (opt.mode != PRODUCE_MODE) {
        uint64_t mine = (due + (uint64_t)opt.connections - 1 - c->source) / (uint64_t)opt.connections;
        if (n > mine - c->sent) n = mine - c->sent;
    }
    return n < batch ? n : batch;
}

void send_requests(struct conn *c)
{
    bool blocked = false;
    while (!blocked) {
        if (c->out_at == c->out_length) {
            uint64_t n = allowance(c), now = now_ns();
            struct timespec t;
            if (n == 0) break;
            clock_gettime(CLOCK_REALTIME_COARSE, &t);
            for (uint64_t i = 0; i < n; i++, c->sent++) {
                uint64_t started = opt.mode == PRODUCE_MODE ? now : intended_ns(c->sent, c->source);
                stamp_request(c, c->out + i * frame_length, c->sent,
                              (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000);
                c->slots[c->sent % window] = (struct slot){started, (uint32_t)c->sent, true};
                if (measuring && opt.mode != PRODUCE_MODE)
                    histogram_add(&send_lag, now > started ? now - started : 0);
            }
            c->out_at = 0;
            c->out_length = n * frame_length;
            payload_sent += n * opt.bundle * opt.size;
        }
        ssize_t r = send(c->fd, c->out + c->out_at, c->out_length - c->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (r < 0 && errno != EAGAIN) die("send: %s", strerror(errno));
        if (r < 0) blocked = true;
        else c->out_at += (size_t)r;
    }
    watch_writing(c, blocked);
}

static const char *produce_error(uint8_t code)
{
    switch (code) {
    case 0x01: return "unknown partition";
    case 0x02: return "I/O failure or invalid request";
    case 0x03: return "not acknowledged by the peers in time";
    case 0x04: return "not enough replicas";
    case 0x0a: return "sequence number not above the end";
    case 0xfc: return "another node leads";
    case 0xfd: return "no leader";
    case 0xfe: return "the broker is read-only";
    case 0xff: return "unknown topic";
    default: return "unknown error";
    }
}

void read_acks(struct conn *c)
{
    for (size_t n; (n = receive(c, c->in + c->have, c->capacity - c->have, 0)) > 0;) {
        uint64_t now = now_ns();
        size_t at = 0;
        bool full = (c->have += n) == c->capacity;
        while (c->have - at >= FRAME_HEADER && c->have - at - FRAME_HEADER >= get32(c->in + at + 1)) {
            const uint8_t *f = c->in + at;
            uint32_t length = get32(f + 1);
            at += FRAME_HEADER + length;
            if (*f == PING) continue;
            if (*f != PRODUCE || length < 5)
                die("a frame of id %d and %u bytes instead of an acknowledgement", *f, length);
            uint32_t request = get32(f + FRAME_HEADER);
            struct slot *s = c->slots + request % window;
            if (!s->busy || s->request != request)
                die("an acknowledgement of request %u, which is not under way", request);
            if (f[9] == 0xfc && length >= 11)
                die("produce: %d.%d.%d.%d:%d leads", f[10], f[11], f[12], f[13], get16(f + 14));
            if (f[9] || length != 5) die("produce: error 0x%02x, %s", f[9], produce_error(f[9]));
            s->busy = false;
            if (measuring && s->started_ns >= measured_from_ns) histogram_add(&latency, now - s->started_ns);
            done.requests++;
            done.messages += opt.bundle;
            done.bytes += slice_length;
        }
        while (c->oldest < c->sent && !c->slots[c->oldest % window].busy) c->oldest++;
        drop_input(c, at);
        if (!full) break;
    }
    send_requests(c);
}
