/* The requests of tankceil: Produce, Consume with its long poll, CreateTopic, DiscoverPartitions. */
#include "ceil_conn.h"

struct waiter { /* a Consume that found nothing */
    struct conn *conn;
    uint64_t deadline;
    uint32_t min_bytes, length;
    uint8_t *payload;
    int n;
    struct {
        struct partition *partition;
        uint64_t seen_size;
    } of[];
};

static struct conn **holders[2]; /* with acknowledgements in held[i] */
static struct waiter **waiters;
static size_t n_holders[2], cap_holders[2], n_waiters, cap_waiters;

void release_held(int set)
{
    for (size_t i = 0; i < n_holders[set]; i++) {
        struct conn *c = holders[set][i];
        struct bytes *held = c->held + set;
        if (!held->length) continue; /* closed meanwhile */
        put_bytes(reserve(&c->out, held->length), held->at, held->length);
        c->out.length += held->length;
        held->length = 0;
        activate(c);
    }
    n_holders[set] = 0;
}

/* ---- each returns false if the request is malformed ---- */

#define need(n)                                                                                              \
    do                                                                                                       \
        if ((size_t)(end - p) < (size_t)(n)) return false;                                                   \
    while (0)
#define skip_str8()                                                                                          \
    do {                                                                                                     \
        need(1);                                                                                             \
        need(1 + *p);                                                                                        \
        p += 1 + *p;                                                                                         \
    } while (0)

static bool produce(struct conn *c, const uint8_t *p, const uint8_t *end)
{
    int filling = sync_filling();
    struct bytes *answers = opt.fsync ? &c->held[filling] : &c->out;
    size_t frame = answers->length;
    need(6);
    uint32_t request = get32(p + 2);
    p += 6;
    skip_str8();
    need(6);
    int n = p[5];
    p += 6;
    if (opt.fsync && !frame) {
        grow(holders[filling], n_holders[filling], cap_holders[filling]);
        holders[filling][n_holders[filling]++] = c;
    }
    reserve(answers, FRAME_HEADER + 4);
    answers->length += FRAME_HEADER + 4;
    while (n--) {
        const uint8_t *name = p;
        skip_str8();
        struct topic *t = find_topic(name + 1, *name);
        need(1);
        int k = *p++;
        reserve(answers, 256);
        if (!t) answers->at[answers->length++] = 0xff; /* one byte, however many partitions */
        while (k--) {
            struct bundle_head head;
            uint32_t length;
            need(2);
            uint16_t id = get16(p);
            const uint8_t *slice = p + 2, *bundle = get_varint(slice, end, &length);
            if (!bundle || (size_t)(end - bundle) < length) return false;
            p = bundle + length;
            const uint8_t *set = get_bundle_head(bundle, p, &head);
            if (!set || !head.messages || head.flags & SPARSE) return false;
            if (!t) continue;
            if (id < t->n) stage(t->partitions[id], slice, (size_t)(p - slice), &head, set);
            answers->at[answers->length++] = id < t->n ? 0 : 1;
        }
    }
    uint8_t *f = answers->at + frame;
    put32(f + FRAME_HEADER, request);
    seal_frame(f, PRODUCE, answers->at + answers->length);
    activate(c);
    return true;
}

static void park(struct conn *c, const uint8_t *payload, const uint8_t *end, uint64_t deadline,
                 uint32_t min_bytes, struct partition **of, int n)
{
    struct waiter *w = malloc(sizeof *w + (size_t)n * sizeof w->of[0]);
    *w = (struct waiter){.conn = c,
                         .deadline = deadline,
                         .min_bytes = min_bytes ? min_bytes : 1,
                         .n = n,
                         .length = (uint32_t)(end - payload),
                         .payload = malloc((size_t)(end - payload))};
    memcpy(w->payload, payload, w->length);
    for (int i = 0; i < n; i++) {
        w->of[i].partition = of[i];
        w->of[i].seen_size = of[i]->visible_size;
    }
    grow(waiters, n_waiters, cap_waiters);
    waiters[n_waiters++] = w;
}

/* Answers, or parks the request. A parked one comes here again (`again`) when there is data or its time is
 * over. */
static bool consume(struct conn *c, uint8_t *payload, uint8_t *end, bool again)
{
    uint8_t *p = payload;
    struct partition *of[256];
    int n_of = 0;
    need(6);
    uint16_t version = get16(p);
    uint32_t request = get32(p + 2);
    p += 6;
    skip_str8();
    need(12 + (version >= 3) + 1);
    uint64_t wait_ms = get64(p);
    uint32_t min_bytes = get32(p + 8);
    p += 12 + (version >= 3);
    int n = *p++;
    bool at_once = again || wait_ms == 0;
    size_t frame = c->out.length, first_range = c->n_ranges, chunks = 0;
    uint8_t *o = reserve(&c->out, 3 * (size_t)(end - payload) + 64) + FRAME_HEADER +
                 4; /* 14 bytes asked, 31 answered at most */
    o = put8(put32(o, request), (uint8_t)n);
    while (n--) {
        uint8_t *name = p;
        skip_str8();
        struct topic *t = find_topic(name + 1, *name);
        need(1);
        int k = *p++;
        o = put8(put_bytes(o, name, 1 + *name), (uint8_t)k);
        if (!t) o = put16(o, 0xffff), at_once = true;
        for (; k--; p += 14) {
            need(14);
            uint16_t id = get16(p);
            uint64_t sequence = get64(p + 2), base = 0;
            if (!t) continue;
            o = put16(o, id);
            if (id >= t->n) {
                o = put8(o, 0xff), at_once = true;
                continue;
            }
            struct partition *q = t->partitions[id];
            uint64_t last = q->visible_next - 1, first = first_available(q);
            if (n_of < 256) of[n_of++] = q;
            if (sequence == 0) sequence = first ? first : 1;
            if (sequence == SEQUENCE_END) sequence = last + 1;
            put64(p + 2, sequence); /* if it is parked, it waits for just this number */
            if (sequence > last + 1 || sequence < first) {
                o = put64(put32(put64(put64(put8(o, 1), 0), last), 0), first);
                at_once = true;
                continue;
            }
            struct chunk chunk = {0};
            if (sequence <= last) {
                chunk = find_chunk(q, sequence, get32(p + 10), &base);
                grow(c->ranges, c->n_ranges, c->cap_ranges);
                c->ranges[c->n_ranges++].chunk = chunk;
                chunks += chunk.left;
            } else if (wait_ms == 0) {
                base = first; /* a wait that times out answers 0 */
            }
            o = put32(put64(put64(put8(o, 0), base), last), (uint32_t)chunk.left);
        }
    }
    if (!at_once && !chunks) {
        park(c, payload, end, now_ns() + wait_ms * 1000000, min_bytes, of, n_of);
        return true;
    }
    uint8_t *f = c->out.at + frame;
    put32(f + FRAME_HEADER, (uint32_t)(o - f - FRAME_HEADER - 4));
    seal_frame(f, CONSUME, o);
    put32(f + 1, (uint32_t)((size_t)(o - f) - FRAME_HEADER + chunks));
    c->out.length = (size_t)(o - c->out.at);
    for (size_t i = first_range; i < c->n_ranges; i++) c->ranges[i].after = c->out.length;
    activate(c);
    return true;
}

static bool admin(struct conn *c, enum message_id id, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *head = p;
    need(4);
    p += 4;
    const uint8_t *name = p;
    skip_str8();
    struct topic *t = find_topic(name + 1, *name);
    uint8_t *f = reserve(&c->out, 512 + 16 * MAX_PARTITIONS),
            *o = put_bytes(f + FRAME_HEADER, head, (size_t)(p - head));
    if (id == CREATE_TOPIC) {
        need(2);
        uint16_t n = get16(p);
        bool valid = n && n <= MAX_PARTITIONS && *name && n_topics < MAX_TOPICS;
        if (valid && !t) create_topic(name + 1, *name, n);
        o = put8(o, t ? 1 : valid ? 0 : 10);
    } else if (!t) {
        o = put16(o, 0);
    } else {
        bool all = p == end;
        uint16_t n = all ? t->n : (uint16_t)((end - p) / 2);
        if (n > MAX_PARTITIONS) return false;
        o = put16(o, n);
        for (int i = 0; i < n; i++) {
            uint16_t k = all ? (uint16_t)i : get16(p + 2 * i);
            if (k >= t->n) return false;
            o = put64(put64(o, first_available(t->partitions[k])), t->partitions[k]->visible_next - 1);
        }
    }
    c->out.length += seal_frame(f, id, o);
    activate(c);
    return true;
}

bool handle_frame(struct conn *c, uint8_t id, uint8_t *payload, uint8_t *end)
{
    switch (id) {
    case PRODUCE: return produce(c, payload, end);
    case CONSUME: return consume(c, payload, end, false);
    case CREATE_TOPIC:
    case DISCOVER_PARTITIONS: return admin(c, id, payload, end);
    default: return id == PING;
    }
}

/* ---- consumers that wait ---- */

void forget_waiters(struct conn *c)
{
    for (size_t i = 0; i < n_waiters;) {
        if (waiters[i]->conn != c) {
            i++;
            continue;
        }
        free(waiters[i]->payload);
        free(waiters[i]);
        waiters[i] = waiters[--n_waiters];
    }
}

int serve_waiters(void)
{
    if (!n_waiters) return -1;
    uint64_t now = now_ns(), earliest = UINT64_MAX;
    for (size_t i = 0; i < n_waiters;) {
        struct waiter *w = waiters[i];
        uint64_t arrived = 0;
        for (int k = 0; k < w->n; k++) arrived += w->of[k].partition->visible_size - w->of[k].seen_size;
        if (arrived < w->min_bytes && now < w->deadline) {
            if (w->deadline < earliest) earliest = w->deadline;
            i++;
            continue;
        }
        waiters[i] = waiters[--n_waiters];
        consume(w->conn, w->payload, w->payload + w->length, true);
        free(w->payload);
        free(w);
    }
    return earliest == UINT64_MAX ? -1 : (int)((earliest - now) / 1000000) + 1;
}
