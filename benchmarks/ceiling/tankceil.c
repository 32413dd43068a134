/* tankceil: the least a broker can do, in C, as the physical ceiling for a TANK broker on this machine.
 *
 * One thread works in ticks: receive and parse everything that is ready, append once per touched partition,
 * then answer. It serves Produce, Consume (with long poll), CreateTopic and DiscoverPartitions, and pings on
 * connect. It has no recovery, retention, segments, sparse lookup or replication: what a real broker does
 * beyond this is the price of being one.
 *
 *   --raw          append the bundles, nothing else
 *   (default)      and a 64-byte index record per bundle, with a CRC-32C of bundle and record
 *   --fsync group  and fdatasync in a thread before answering: one sync serves all waiting requests
 */
#include "ceil_conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RECEIVE_BUFFER = 256 << 10, /* per connection; grows to hold a larger frame */
    MAX_EVENTS = 256
};

struct options opt = {.port = 11011, .dir = "tankceil-data", .sndbuf = 128 << 10, .ahead = 64 << 20};

static int epoll, listener, sync_event;
static struct conn **active; /* with output to send in this tick */
static size_t n_active, cap_active;

uint8_t *reserve(struct bytes *b, size_t n)
{
    if (b->length + n > b->capacity) {
        b->capacity = 2 * (b->length + n);
        if (!(b->at = realloc(b->at, b->capacity))) die("out of memory");
    }
    return b->at + b->length;
}

void activate(struct conn *c)
{
    if (c->active) return;
    c->active = true;
    grow(active, n_active, cap_active);
    active[n_active++] = c;
}

/* The struct stays: a sync under way may still name it. One leaks per connection ever closed, which a
 * benchmark can bear. */
static void close_conn(struct conn *c)
{
    forget_waiters(c);
    close(c->fd);
    free(c->in), free(c->out.at), free(c->ranges), free(c->held[0].at), free(c->held[1].at);
    memset(c, 0, sizeof *c);
    c->fd = -1;
}

static void receive(struct conn *c)
{
    size_t frame = FRAME_HEADER;
    if (c->have - c->start >= FRAME_HEADER) frame += get32(c->in + c->start + 1);
    if (c->start == c->have) {
        c->start = c->have = 0;
    } else if (c->start + frame > c->capacity || c->capacity - c->have < RECEIVE_BUFFER / 8) {
        memmove(c->in, c->in + c->start, c->have - c->start);
        c->have -= c->start;
        c->start = 0;
    }
    if (frame > c->capacity && !(c->in = realloc(c->in, c->capacity = frame))) die("out of memory");

    ssize_t r = recv(c->fd, c->in + c->have, c->capacity - c->have, MSG_DONTWAIT);
    if (r <= 0) {
        c->closing = r == 0 || (errno != EAGAIN && errno != EINTR);
        if (c->closing) activate(c);
        return;
    }
    c->have += (size_t)r;
    while (c->have - c->start >= FRAME_HEADER) {
        uint8_t *f = c->in + c->start;
        uint32_t length = get32(f + 1);
        bool possible = length <= FRAME_MAX;
        if (possible && c->have - c->start - FRAME_HEADER < length) break;
        uint8_t *payload = f + FRAME_HEADER;
        if (!possible || !handle_frame(c, *f, payload, payload + length)) {
            c->closing = true;
            activate(c);
            break;
        }
        c->start += FRAME_HEADER + length;
    }
    if (staged_bytes >= STAGE_MAX) append_staged();
}

static void watch_writing(struct conn *c, bool on)
{
    if (c->wants_write == on) return;
    c->wants_write = on;
    must(epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd,
                   &(struct epoll_event){EPOLLIN | (on ? EPOLLOUT : 0), {.ptr = c}}));
}

/* Sends what it can: bytes up to the next range, with MSG_MORE so that they share a segment with it, then the
 * range. */
static void flush(struct conn *c)
{
    while (c->out_sent < c->out.length || c->range_at < c->n_ranges) {
        struct range *r = c->range_at < c->n_ranges ? c->ranges + c->range_at : NULL;
        size_t until = r ? r->after : c->out.length;
        ssize_t n;
        if (c->out_sent < until) {
            n = send(c->fd, c->out.at + c->out_sent, until - c->out_sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL | (r ? MSG_MORE : 0));
            if (n > 0) c->out_sent += (size_t)n;
        } else {
            n = sendfile(c->fd, r->chunk.fd, &r->chunk.offset, r->chunk.left);
            if (n > 0 && !(r->chunk.left -= (size_t)n)) c->range_at++;
        }
        if (n < 0 && errno == EAGAIN) return watch_writing(c, true);
        if (n <= 0) {
            c->closing = true;
            return;
        }
    }
    c->out.length = c->out_sent = c->n_ranges = c->range_at = 0;
    watch_writing(c, false);
}

static void accept_all(void)
{
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        struct conn *c = calloc(1, sizeof *c);
        c->fd = fd;
        c->in = malloc(c->capacity = RECEIVE_BUFFER);
        must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){EPOLLIN, {.ptr = c}}));
        uint8_t *ping = reserve(&c->out, FRAME_HEADER);
        c->out.length += seal_frame(ping, PING, ping + FRAME_HEADER);
        activate(c);
    }
}

static void serve(void)
{
    struct epoll_event events[MAX_EVENTS];
    for (int timeout = -1;;) {
        int n = epoll_wait(epoll, events, MAX_EVENTS, timeout);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c == (void *)&listener) accept_all();
            else if (c == (void *)&sync_event) release_held(sync_end());
            else if (c->fd >= 0) {
                if (events[i].events & EPOLLOUT) activate(c);
                if (events[i].events & ~(uint32_t)EPOLLOUT) receive(c);
            }
        }
        append_staged();
        if (opt.fsync) sync_start();
        timeout = serve_waiters();
        for (size_t i = 0; i < n_active; i++) {
            struct conn *c = active[i];
            c->active = false;
            if (!c->closing) flush(c);
            if (c->closing) close_conn(c);
        }
        n_active = 0;
    }
}

static const char *help =
    "usage: tankceil [options]      a minimal C broker: the ceiling for a TANK broker on this machine\n"
    "  -p, --port N          listen on 127.0.0.1:N (11011)\n"
    "  -d, --dir PATH        where the logs go; those of the same name are overwritten (tankceil-data)\n"
    "      --raw             append bundles only: no index record, no CRC\n"
    "      --fsync group     answer after fdatasync: one in a thread serves all waiting requests\n"
    "      --ahead MIB       of disk space allocated ahead of each file's end, at most (64; 0: none)\n"
    "      --keep MIB        of each file about; what is older is given back (0: everything is kept)\n"
    "      --sndbuf BYTES    SO_SNDBUF of the connections (131072; 0: the system's)\n";

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"port", 1, 0, 'p'},   {"dir", 1, 0, 'd'},   {"raw", 0, 0, 'r'},
                                          {"fsync", 1, 0, 'f'},  {"ahead", 1, 0, 'a'}, {"keep", 1, 0, 'k'},
                                          {"sndbuf", 1, 0, 'S'}, {"help", 0, 0, 'h'},  {0}};
    for (int o; (o = getopt_long(argc, argv, "p:d:h", longs, NULL)) != -1;) switch (o) {
        case 'p': opt.port = atoi(optarg); break;
        case 'd': opt.dir = optarg; break;
        case 'r': opt.raw = true; break;
        case 'f':
            if (strcmp(optarg, "group")) die("--fsync: only `group` is known");
            opt.fsync = true;
            break;
        case 'a': opt.ahead = strtoull(optarg, NULL, 10) << 20; break;
        case 'k': opt.keep = strtoull(optarg, NULL, 10) << 20; break;
        case 'S': opt.sndbuf = atoi(optarg); break;
        case 'h': fputs(help, stdout); return 0;
        default: fputs(help, stderr); return 2;
        }
    signal(SIGPIPE, SIG_IGN);
    log_init();

    listener = must(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)));
    if (opt.sndbuf) /* connections inherit it */
        must(setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &opt.sndbuf, sizeof(int)));
    must(bind(listener, (struct sockaddr *)&address, sizeof address));
    must(listen(listener, 1024));
    epoll = must(epoll_create1(EPOLL_CLOEXEC));
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){EPOLLIN, {.ptr = &listener}}));
    if (opt.fsync) {
        sync_event = sync_open();
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, sync_event,
                       &(struct epoll_event){EPOLLIN, {.ptr = &sync_event}}));
    }
    fprintf(stderr, "tankceil on 127.0.0.1:%d, %s%s, in %s\n", opt.port, opt.raw ? "raw" : "index and CRC",
            opt.fsync ? ", group commit" : "", opt.dir);
    serve();
}
