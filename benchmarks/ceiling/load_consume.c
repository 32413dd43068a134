/* The consuming side of tankload: fetches, walks the bundles of a chunk, and looks at their messages if it is
 * told to. */
#include "load.h"

enum { REQUEST = 1 }; /* the id of every Consume: a connection has only one under way */

static int64_t *counters; /* [partition][source]: the next counter expected, or ANY_COUNTER */

static void expect_counters_of(int partition, int64_t first)
{
    for (size_t i = 0; i < SOURCES_MAX; i++) counters[(size_t)partition * SOURCES_MAX + i] = first;
}

void expect_counters(int64_t first)
{
    if (!counters) counters = calloc((size_t)opt.partitions * SOURCES_MAX, sizeof *counters);
    for (int i = 0; i < opt.partitions; i++) expect_counters_of(i, first);
}

static void ask(struct conn *c)
{
    uint8_t f[512];
    if (c->mapped) c->next = c->points[c->at_point++];
    else if (opt.bytes_only) {
        if ((c->n_points & (c->n_points - 1)) == 0) /* a power of two: full; one more is for the end */
            c->points = realloc(c->points, (2 * c->n_points + 2) * sizeof *c->points);
        c->points[c->n_points++] = c->next;
    }
    uint64_t wait_ms = opt.mode == TAIL_MODE ? opt.wait_ms : 0;
    size_t n = put_consume(f, REQUEST, wait_ms, opt.min_bytes, opt.topic, c->partition, c->next, opt.fetch);
    c->asked_ns = now_ns();
    if (send(c->fd, f, n, MSG_NOSIGNAL) != (ssize_t)n) die("send: %s", strerror(errno));
}

void open_consumer(uint16_t partition, uint64_t next)
{
    struct conn *c = open_conn(false);
    c->partition = partition;
    c->next = next;
    n_unfinished++;
    n_unmapped++;
    ask(c);
}

static void check_message(const struct conn *c, const uint8_t *content, uint32_t n, uint64_t now)
{
    if (n < STAMP) die("a message of %u bytes carries no stamp", n);
    uint64_t counter = get64(content);
    uint32_t source = get32(content + 8), fill = get32(content + 12);
    n -= STAMP;
    content += STAMP;
    if (source >= SOURCES_MAX || (fill != FILL_REPEATED && fill + (uint64_t)n > POOL))
        die("partition %d: a message that tankload did not write", c->partition);
    int64_t *wanted = counters + (size_t)c->partition * SOURCES_MAX + source;
    if (*wanted != ANY_COUNTER && (uint64_t)*wanted != counter)
        die("partition %d, source %u: message %lld was expected, %llu came", c->partition, source,
            (long long)*wanted, (ull)counter);
    *wanted = (int64_t)counter + 1;
    bool same = fill != FILL_REPEATED ? !memcmp(content, pool + fill, n)
                                      : !n || (*content == 'x' && !memcmp(content, content + 1, n - 1));
    if (!same)
        die("partition %d, source %u, message %llu: wrong content", c->partition, source, (ull)counter);
    checked++;
    if (opt.mode == TAIL_MODE && measuring) {
        uint64_t partitions = (uint64_t)opt.partitions;
        uint64_t k = counter / opt.bundle * partitions +
                     (c->partition + partitions - source % partitions) % partitions;
        uint64_t intended = intended_ns(k, source);
        if (intended >= measured_from_ns) histogram_add(&tail_latency, now - intended);
    }
}

/* Looks at all messages of a bundle but the first `passed`. */
static void check_messages(const struct conn *c, const struct bundle_head *h, const uint8_t *p,
                           const uint8_t *end, uint64_t passed, uint64_t now)
{
    if (h->flags & CODEC_MASK) die("a compressed bundle: its content can't be checked");
    for (uint32_t i = 0; i < h->messages; i++) {
        uint32_t n = 0;
        if (p >= end) die("a malformed bundle");
        uint8_t flags = *p++;
        if (h->flags & SPARSE && i && i < h->messages - 1 && !(flags & PREVIOUS_PLUS_ONE))
            p = get_varint(p, end, &n);
        if (p && !(flags & SAME_TIMESTAMP)) p += 8;
        if (p && flags & HAS_KEY && p < end) p += 1 + *p;
        if (!p || p >= end || !(p = get_varint(p, end, &n)) || (size_t)(end - p) < n)
            die("a malformed bundle");
        if (i >= passed) check_message(c, p, n, now);
        p += n;
    }
}

/* Reads the head of the frame at `f` in the buffer; returns its size, or 0 if it is not all there yet. */
static size_t answer_head(struct conn *c, const uint8_t *f)
{
    const uint8_t *p = f + FRAME_HEADER, *end = c->in + c->have;
    if (end - f < FRAME_HEADER) return 0;
    if (*f == PING) return FRAME_HEADER;
    if (*f != CONSUME) die("a frame of id %d instead of messages", *f);
    if (end - p < 4 || (size_t)(end - p) < 4 + get32(p)) return 0;
    uint32_t length = get32(f + 1), head = 4 + get32(p);
    if (get32(p + 4) != REQUEST) die("the answer to a request %u, which was not sent", get32(p + 4));
    p += 4 + 4 + 1;
    p += 1 + *p + 1;
    if (get16(p) == 0xffff) die("consume: unknown topic %s", opt.topic);
    if (get16(p) != c->partition) die("partition %d was asked for, %d came", c->partition, get16(p));
    uint8_t flag = p[2];
    p += 3;
    if (flag == 0x01)
        die("consume: number %llu is out of range: there are %llu to %llu", (ull)c->next, (ull)get64(p + 20),
            (ull)get64(p + 8));
    if (flag != 0 && flag != 0xfe) die("consume: error flag 0x%02x", flag);
    uint64_t base = flag == 0 ? get64(p) : c->next;
    if (flag == 0) p += 8;
    c->high_water = get64(p);
    c->chunk = c->body = get32(p + 8);
    c->expected = c->next;
    if (length - head != c->body) die("an answer of %u bytes for a chunk of %zu", length, c->body);
    if (c->body && !c->mapped) {
        if (c->next && base > c->next)
            die("partition %d: a gap, asked for %llu, got %llu", c->partition, (ull)c->next, (ull)base);
        if (c->next == 0) {
            c->next = base;
            if (c->n_points) c->points[0] = base;
        }
        c->expected = base; /* below `next` if that is in the middle of a bundle */
    }
    return FRAME_HEADER + head;
}

/* Goes over the bundles in n bytes of a chunk; returns how many bytes are dealt with. */
static size_t walk(struct conn *c, const uint8_t *p, size_t n, uint64_t now)
{
    const uint8_t *begin = p;
    const bool look = checking || opt.mode == TAIL_MODE;
    struct totals *t = opt.mode == TAIL_MODE ? &tailed : &done;
    while (c->body && n) {
        size_t k = n < c->body ? n : c->body;
        if (c->skip) {
            if (k > c->skip) k = c->skip;
            p += k, n -= k, c->body -= k, c->skip -= k;
            continue;
        }
        uint32_t length;
        struct bundle_head h;
        const uint8_t *end = p + k, *bundle = get_varint(p, end, &length);
        const uint8_t *set = bundle ? get_bundle_head(bundle, end, &h) : NULL;
        size_t size = bundle ? (size_t)(bundle - p) + length : 0;
        if (size > c->body ||
            (!set && k == c->body)) { /* old brokers cut at the fetch size: what is left is not a bundle */
            c->skip = c->body;
            continue;
        }
        if (!set) break;
        if (look && k < size) {
            if (c->capacity < size && !(c->in = realloc(c->in, c->capacity = size))) die("out of memory");
            break;
        }
        uint64_t first = h.flags & SPARSE ? h.first : c->expected,
                 last = h.flags & SPARSE ? h.last : first + h.messages - 1;
        uint64_t passed = first < c->next ? c->next - first : 0;
        if (first < c->expected)
            die("partition %d: a bundle that starts at %llu where %llu was expected", c->partition, (ull)first,
                (ull)c->expected);
        if (passed > h.messages)
            die("partition %d: %u messages that start at %llu, all read before: %llu was asked for", c->partition,
                h.messages, (ull)first, (ull)c->next);
        if (last > c->high_water) above_high_water += last - c->high_water;
        if (look) check_messages(c, &h, set, p + size, passed, now);
        t->messages += h.messages - passed;
        c->expected = last + 1;
        c->skip = size;
    }
    return (size_t)(p - begin);
}

/* A whole answer is in: takes its measure, and asks for what follows. */
static void answer_done(struct conn *c, uint64_t now)
{
    const bool tail = opt.mode == TAIL_MODE;
    struct totals *t = tail ? &tailed : &done;
    if (c->chunk) {
        t->requests++;
        t->bytes += c->chunk;
        if (measuring && !tail) histogram_add(&latency, now - c->asked_ns);
        if (c->mapped) t->messages += c->points[c->at_point] - c->next;
        else if (c->expected <= c->next)
            die("no whole bundle in %zu bytes: --fetch is too small for this broker", c->chunk);
        else c->next = c->expected;
    } else if (!tail && c->next <= c->high_water) {
        if (!c->high_water) die("partition %d is empty", c->partition);
        die("partition %d: nothing came for %llu, though there are numbers up to %llu", c->partition,
            (ull)c->next, (ull)c->high_water);
    }
    if (!tail && (c->mapped ? c->at_point == c->n_points : c->next > c->high_water)) { /* the end of a pass */
        passes++;
        if (opt.once || reading_back) {
            c->finished = true;
            n_unfinished--;
            return;
        }
        if (c->n_points && !c->mapped) {
            c->points[c->n_points] = c->next;
            c->mapped = true;
            n_unmapped--;
        }
        expect_counters_of(c->partition, ANY_COUNTER);
        c->at_point = 0;
        c->next = opt.start;
    }
    ask(c);
}

void read_chunks(struct conn *c)
{
    const size_t head_size = FRAME_HEADER + 4 + 4 + 1 + 1 + strlen(opt.topic) + 1 + 2 + 1 + 8 + 8 + 4;
    while (!c->finished) {
        if (c->mapped && c->body) { /* MSG_TRUNC: the kernel drops the bytes instead of copying them */
            size_t n = receive(c, NULL, c->body, MSG_TRUNC);
            if (n == 0) return;
            if (!(c->body -= n)) answer_done(c, now_ns());
            continue;
        }
        size_t room = c->capacity - c->have, at = 0;
        if (c->mapped) room = c->have < head_size ? head_size - c->have : 8; /* no byte of the chunk */
        size_t n = receive(c, c->in + c->have, room, 0);
        uint64_t now = now_ns();
        if (n == 0) return;
        c->have += n;
        while (!c->finished) {
            if (!c->body) {
                size_t head = answer_head(c, c->in + at);
                if (!head) break;
                at += head;
                if (c->in[at - head] == PING) continue;
            }
            if (c->mapped) break;
            at += walk(c, c->in + at, c->have - at, now);
            if (c->body) break;
            answer_done(c, now);
        }
        drop_input(c, at);
        if (n < room && !c->mapped) return;
    }
}
