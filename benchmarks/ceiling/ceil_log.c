/* The log of tankceil: a partition is `<dir>/<topic>/<n>/00000000000000000001.log` and .index. */
#include "ceil.h"
#include "crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

int n_topics;
size_t staged_bytes;
static struct topic *topics[MAX_TOPICS];
static struct partition **touched; /* since the last append */
static size_t n_touched, cap_touched;
static uint8_t arena[STAGE_MAX]; /* small slices, copied together */
static size_t arena_used;

void log_init(void)
{
    if (mkdir(opt.dir, 0755) && errno != EEXIST) die("%s: %s", opt.dir, strerror(errno));
}

struct topic *find_topic(const uint8_t *name, size_t length)
{
    for (int i = 0; i < n_topics; i++)
        if (!memcmp(topics[i]->name, name, length) && !topics[i]->name[length]) return topics[i];
    return NULL;
}

static struct file open_file(const char *topic, int partition, const char *suffix)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%d/%020d.%s", opt.dir, topic, partition, 1, suffix);
    return (struct file){.fd = must(open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644))};
}

void create_topic(const uint8_t *name, size_t length, uint16_t partitions)
{
    struct topic *t = calloc(1, sizeof *t);
    char path[1024];
    memcpy(t->name, name, length);
    t->n = partitions;
    t->partitions = calloc(partitions, sizeof *t->partitions);
    snprintf(path, sizeof path, "%s/%s", opt.dir, t->name);
    mkdir(path, 0755);
    for (int i = 0; i < partitions; i++) {
        struct partition *p = t->partitions[i] = calloc(1, sizeof *p);
        p->id = (uint16_t)i;
        p->next = p->visible_next = 1;
        snprintf(path, sizeof path, "%s/%s/%d", opt.dir, t->name, i);
        mkdir(path, 0755);
        p->log = open_file(t->name, i, "log");
        if (!opt.raw) p->index = open_file(t->name, i, "index");
    }
    topics[n_topics++] = t;
}

/* ---- appending ---- */

/* Keeps disk space allocated ahead of the end: an append to it costs a third less than one that must reserve
 * its blocks. In steps that grow with the file, so that many small partitions do not take much. */
static void allocate_ahead(struct file *f)
{
    uint64_t step = f->written < 1 << 20 ? 1 << 20 : f->written;
    if (step > opt.ahead) step = opt.ahead;
    if (f->written + APPEND_MAX <= f->allocated || !step) return;
    if (fallocate(f->fd, FALLOC_FL_KEEP_SIZE, (off_t)f->allocated, (off_t)step))
        opt.ahead = 0; /* not on every file system */
    f->allocated += step;
}

/* Writes everything, in calls of at most APPEND_MAX that end at multiples of it. */
static void append(struct file *f, struct iovec *v, int n)
{
    for (int i = 0; i < n;) {
        size_t total = 0, rest = 0, room = APPEND_MAX - f->written % APPEND_MAX;
        int k = i;
        allocate_ahead(f);
        while (k < n && total + v[k].iov_len <= room) total += v[k++].iov_len;
        if (k < n && total < room) { /* the next slice is cut: its head goes now */
            rest = v[k].iov_len - (room - total);
            v[k++].iov_len = room - total;
            total = room;
        }
        if (writev(f->fd, v + i, k - i) != (ssize_t)total) die("append: %s", strerror(errno));
        f->written += total;
        if (rest) {
            k--;
            v[k].iov_base = (uint8_t *)v[k].iov_base + v[k].iov_len;
            v[k].iov_len = rest;
        }
        i = k;
    }
}

/* With --keep: gives a quarter of it back when there is that much too much: the same memory is used again. */
static bool punch(struct file *f)
{
    uint64_t piece = opt.keep / 4;
    if (!opt.keep || f->size - f->punched < opt.keep + piece) return false;
    must(fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)f->punched, (off_t)piece));
    f->punched += piece;
    return true;
}

static void sync_later(struct partition *p);

static void append_partition(struct partition *p)
{
    append(&p->log, p->iov, p->n_iov);
    if (p->n_records) {
        struct iovec v = {p->records, p->n_records * sizeof *p->records};
        append(&p->index, &v, 1);
        p->index.size += v.iov_len;
        punch(&p->index);
    }
    p->n_iov = 0;
    p->n_records = 0;
    if (opt.fsync) sync_later(p);
    else p->visible_next = p->next, p->visible_size = p->log.size;
    if (punch(&p->log)) {
        size_t gone = 0;
        while (gone < p->n_entries - 1 && p->entries[gone].position < p->log.punched) gone++;
        memmove(p->entries, p->entries + gone, (p->n_entries -= gone) * sizeof *p->entries);
    }
}

void append_staged(void)
{
    for (size_t i = 0; i < n_touched; i++) {
        append_partition(touched[i]);
        touched[i]->touched = false;
    }
    n_touched = arena_used = staged_bytes = 0;
}

void stage(struct partition *p, const uint8_t *slice, size_t length, const struct bundle_head *head,
           const uint8_t *message_set)
{
    if (p->n_iov == STAGED || p->n_records == STAGED) append_partition(p);
    if (!p->touched) {
        p->touched = true;
        grow(touched, n_touched, cap_touched);
        touched[n_touched++] = p;
    }
    if (!opt.raw) {
        struct index_record *r = p->records + p->n_records++;
        *r = (struct index_record){.first = p->next,
                                   .span = head->messages - 1,
                                   .length = (uint32_t)length,
                                   .messages = head->messages};
        /* The first message's: a broker would look at every message unless it trusts producers to send them
         * in order. */
        if (!(head->flags & CODEC_MASK) && slice + length - message_set >= 9)
            r->max_timestamp_ms = get64(message_set + 1);
        r->crc = crc32c(crc32c(0, slice, length), r, sizeof *r); /* position and crc are still 0 */
        r->position = (uint32_t)p->log.size;
    }
    struct iovec *last = p->n_iov ? p->iov + p->n_iov - 1 : NULL;
    if (length < COPY_BELOW && arena_used + length <= sizeof arena) {
        uint8_t *copy = memcpy(arena + arena_used, slice, length);
        arena_used += length;
        if (last && (uint8_t *)last->iov_base + last->iov_len == copy) last->iov_len += length;
        else p->iov[p->n_iov++] = (struct iovec){copy, length};
    } else {
        p->iov[p->n_iov++] = (struct iovec){(void *)slice, length};
    }
    if (!p->n_entries || p->log.size - p->entries[p->n_entries - 1].position >= ENTRY_BYTES) {
        grow(p->entries, p->n_entries, p->cap_entries);
        p->entries[p->n_entries++] = (struct entry){p->next, p->log.size};
    }
    p->next += head->messages;
    p->log.size += length;
    staged_bytes += length;
}

/* ---- reading ---- */

uint64_t first_available(const struct partition *p) { return p->visible_next > 1 ? p->entries[0].first : 0; }

/* The last entry whose `first` (or `position`) is not above the value; entry 0 always qualifies. */
#define last_not_above(p, field, value)                                                                      \
    ({                                                                                                       \
        size_t low_ = 0, high_ = (p)->n_entries;                                                             \
        while (high_ - low_ > 1) {                                                                           \
            size_t middle_ = (low_ + high_) / 2;                                                             \
            *((p)->entries[middle_].field <= (value) ? &low_ : &high_) = middle_;                            \
        }                                                                                                    \
        low_;                                                                                                \
    })

struct chunk find_chunk(struct partition *p, uint64_t sequence, uint32_t fetch, uint64_t *base)
{
    size_t i = last_not_above(p, first, sequence);
    struct entry at = p->entries[i];
    if (at.first < sequence) { /* walk on from there: bundles after an entry begin within ENTRY_BYTES of it */
        uint8_t buffer[ENTRY_BYTES + 5 + BUNDLE_HEAD_MAX];
        ssize_t n = must(pread(p->log.fd, buffer, sizeof buffer, (off_t)at.position));
        uint32_t length;
        struct bundle_head head;
        for (const uint8_t *b = buffer, *end = buffer + n, *bundle; (bundle = get_varint(b, end, &length));
             b = bundle + length) {
            at.position = p->entries[i].position + (uint64_t)(b - buffer);
            if (!get_bundle_head(bundle, end, &head) || at.first + head.messages > sequence) break;
            at.first += head.messages;
            if ((size_t)(end - bundle) < length) break;
        }
    }
    *base = at.first;
    uint64_t to = p->visible_size;
    if (to - at.position > fetch) {
        size_t j = last_not_above(p, position, at.position + fetch);
        if (j == i) j++;
        if (j < p->n_entries && p->entries[j].position < to) to = p->entries[j].position;
    }
    return (struct chunk){p->log.fd, (off_t)at.position, to - at.position};
}

/* ---- group commit: batches of dirty partitions go to one thread, one batch at a time ---- */

struct dirty {
    struct partition *partition;
    uint64_t next, size;
};
static struct dirty *batches[2];
static size_t n_batch[2], cap_batch[2];
static int filling; /* the batch that the main thread fills; the other one is the thread's while `syncing` */
static bool syncing;
static int go_event, done_event; /* an eventfd each way hands the batch over: no lock is needed */

int sync_filling(void) { return filling; }

static void sync_later(struct partition *p)
{
    if (p->dirty) return;
    p->dirty = true;
    grow(batches[filling], n_batch[filling], cap_batch[filling]);
    batches[filling][n_batch[filling]++].partition = p;
}

static void *sync_thread(void *unused)
{
    (void)unused;
    for (uint64_t n;;) {
        must(read(go_event, &n, 8));
        int b = !filling; /* the main thread leaves `filling` alone until we are done */
        for (size_t i = 0; i < n_batch[b]; i++) {
            must(fdatasync(batches[b][i].partition->log.fd));
            if (!opt.raw) must(fdatasync(batches[b][i].partition->index.fd));
        }
        must(write(done_event, &(uint64_t){1}, 8));
    }
    return NULL;
}

int sync_open(void)
{
    pthread_t thread;
    go_event = must(eventfd(0, EFD_CLOEXEC));
    done_event = must(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (pthread_create(&thread, NULL, sync_thread, NULL)) die("no thread");
    return done_event;
}

void sync_start(void)
{
    if (syncing || !n_batch[filling]) return;
    for (size_t i = 0; i < n_batch[filling]; i++) {
        struct dirty *d = batches[filling] + i;
        d->next = d->partition->next;
        d->size = d->partition->log.size;
        d->partition->dirty = false;
    }
    filling = !filling;
    syncing = true;
    must(write(go_event, &(uint64_t){1}, 8));
}

int sync_end(void)
{
    uint64_t n;
    int b = !filling;
    must(read(done_event, &n, 8));
    for (size_t i = 0; i < n_batch[b]; i++) {
        struct dirty *d = batches[b] + i;
        d->partition->visible_next = d->next;
        d->partition->visible_size = d->size;
    }
    n_batch[b] = 0;
    syncing = false;
    return b;
}
