/* tankload: a load generator that speaks the TANK wire. One thread, one epoll loop; see --help.
 *
 * Every message of 16 bytes or more opens with { u64 counter, u32 source, u32 fill }: `source` is the
 * connection that sent it, `counter` numbers the messages of that source in that partition from 0, and `fill`
 * says where in a fixed random pool the rest of the content was taken from (or that it is a repeated byte).
 * So any run can check, byte for byte, what another one wrote. */
#include "load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>

enum { INPUT_BUFFER = 256 << 10, DRAIN_S = 15 /* how long the last answers may take */ };

struct totals done, tailed;
struct histogram latency, tail_latency, send_lag;
bool measuring, stopping, checking, reading_back;
uint64_t started_ns, measured_from_ns, due, payload_sent, above_high_water, passes, checked;
int n_unfinished, n_unmapped;
uint8_t pool[POOL];

struct snapshot {
    uint64_t at_ns;
    struct totals totals;
    double server_s, client_s;
    struct machine machine;
};
static struct snapshot from, to; /* of the measured time */
static struct conn *conns;
static int n_conns, epoll;

/* ---- connections ---- */

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    if (inet_pton(AF_INET, opt.host, &a.sin_addr) != 1) die("--host wants an IPv4 address");
    int fd = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd, (struct sockaddr *)&a, sizeof a))
        die("connect to %s:%d: %s", opt.host, opt.port, strerror(errno));
    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
    return fd;
}

/* One request on a connection of its own; returns the answer's payload. Pings may come at any time. */
static const uint8_t *ask_once(const uint8_t *frame, size_t n, uint32_t *length)
{
    static uint8_t answer[1 << 20];
    int fd = dial();
    uint8_t head[FRAME_HEADER];
    if (send(fd, frame, n, MSG_NOSIGNAL) != (ssize_t)n) die("send: %s", strerror(errno));
    do {
        if (recv(fd, head, sizeof head, MSG_WAITALL) != sizeof head)
            die("the broker closed the connection on request %d", *frame);
        if ((*length = get32(head + 1)) > sizeof answer) die("an answer of %u bytes", *length);
        if (*length && recv(fd, answer, *length, MSG_WAITALL) != (ssize_t)*length)
            die("the answer broke off");
    } while (*head == PING);
    if (*head != *frame) die("request %d was answered by %d", *frame, *head);
    close(fd);
    return answer;
}

struct conn *open_conn(bool producer)
{
    struct conn *c = conns + n_conns++;
    *c = (struct conn){.fd = dial(), .producer = producer};
    c->in = malloc(c->capacity = INPUT_BUFFER);
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &(struct epoll_event){EPOLLIN, {.ptr = c}}));
    return c;
}

size_t receive(struct conn *c, void *to, size_t n, int flags)
{
    ssize_t r = recv(c->fd, to, n, MSG_DONTWAIT | flags);
    if (r == 0) die("the broker closed a connection");
    if (r < 0 && errno != EAGAIN) die("recv: %s", strerror(errno));
    return r < 0 ? 0 : (size_t)r;
}

void drop_input(struct conn *c, size_t n)
{
    memmove(c->in, c->in + n, c->have - n);
    c->have -= n;
}

void watch_writing(struct conn *c, bool on)
{
    if (c->wants_write == on) return;
    c->wants_write = on;
    must(epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd,
                   &(struct epoll_event){EPOLLIN | (on ? EPOLLOUT : 0), {.ptr = c}}));
}

/* ---- the run ---- */

static void create_topic(void)
{
    uint8_t f[1024];
    uint32_t length;
    const uint8_t *a =
        ask_once(f, put_create_topic(f, 1, opt.topic, (uint16_t)opt.partitions, opt.config), &length);
    uint8_t code = a[length - 1];
    if (code > 1) die("create topic %s: error %d", opt.topic, code);
}

/* The last number of each partition; `numbers` has room for all. */
static void last_numbers(uint64_t *numbers)
{
    uint8_t f[300];
    uint32_t length;
    const uint8_t *a = ask_once(f, put_discover_partitions(f, 1, opt.topic), &length) + 4;
    a += 1 + *a;
    if (get16(a) < opt.partitions) die("topic %s has %d partitions", opt.topic, get16(a));
    for (int i = 0; i < opt.partitions; i++) numbers[i] = get64(a + 2 + 16 * i + 8);
}

static struct snapshot take_snapshot(void)
{ return (struct snapshot){now_ns(), done, processes_cpu_s(opt.pids), own_cpu_s(), machine_cpu()}; }

/* Moves from warm-up to measuring to draining; false when the run is over. */
static bool advance(uint64_t now)
{
    static uint64_t drain_until;
    if (reading_back) return n_unfinished > 0;
    if (!measuring) {
        /* A run that its cap cuts short is measured over what is left of it. */
        bool warm =
            (double)(now - started_ns) >= opt.warmup_s * 1e9 || payload_sent >= opt.cap / 5 || opt.once;
        if (warm && !(opt.bytes_only && n_unmapped)) {
            from = take_snapshot();
            measured_from_ns = from.at_ns;
            measuring = true;
        }
    } else if (!stopping) {
        bool once_over = opt.mode == CONSUME_MODE && !n_unfinished;
        if ((double)(now - from.at_ns) >= opt.duration_s * 1e9 || payload_sent >= opt.cap || once_over) {
            to = take_snapshot();
            stopping = true;
            drain_until = now + DRAIN_S * SECOND;
        }
    } else if (opt.mode == CONSUME_MODE) {
        return false;
    } else {
        uint64_t sent = 0, answered = 0;
        for (int i = 0; i < n_conns; i++) sent += conns[i].sent, answered += conns[i].oldest;
        if (answered == sent && (opt.mode != TAIL_MODE || tailed.messages == sent * opt.bundle)) return false;
        if (now > drain_until)
            die("%llu of %llu requests acknowledged, %llu messages received %d s after the end",
                (ull)answered, (ull)sent, (ull)tailed.messages, DRAIN_S);
    }
    return true;
}

static void run(void)
{
    bool paced = opt.mode == PACED_MODE || opt.mode == TAIL_MODE;
    struct epoll_event events[128];
    for (uint64_t now = now_ns(); advance(now); now = now_ns()) {
        uint64_t wait = SECOND / 100;
        if (paced && !stopping) {
            uint64_t was = due;
            due = (uint64_t)((double)(now - started_ns) * opt.rate / 1e9) + 1;
            for (uint64_t g = due - was > (uint64_t)opt.connections ? due - (uint64_t)opt.connections : was;
                 g < due; g++)
                send_requests(conns + g % (uint64_t)opt.connections);
            uint64_t next =
                intended_ns(due / (uint64_t)opt.connections, (uint32_t)(due % (uint64_t)opt.connections));
            now = now_ns();
            wait = next <= now ? 0 : next - now < wait ? next - now : wait;
        }
        int n = epoll_pwait2(epoll, events, 128, &(struct timespec){0, (long)wait}, NULL);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (c->producer && events[i].events & EPOLLOUT) send_requests(c);
            if (!(events[i].events & ~(uint32_t)EPOLLOUT)) continue;
            if (c->producer) read_acks(c);
            else read_chunks(c);
        }
    }
}

/* Reads back what this run wrote: nothing lost, nothing repeated, every byte as it was sent. */
static void read_back(const uint64_t *last_before)
{
    uint64_t written = 0;
    for (int i = 0; i < n_conns; i++) {
        written += conns[i].sent * opt.bundle;
        close(conns[i].fd);
    }
    n_conns = n_unfinished = 0;
    checked = 0;
    checking = reading_back = true;
    expect_counters(0);
    for (int i = 0; i < opt.partitions; i++) open_consumer((uint16_t)i, last_before[i] + 1);
    run();
    if (checked != written)
        die("%llu messages were acknowledged, %llu are there", (ull)written, (ull)checked);
}

/* ---- results ---- */

static void print_latencies(const char *name, const struct histogram *h)
{
    if (!h->count) return;
    printf(
        ", \"%s\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f, \"n\": %llu}",
        name, histogram_us(h, 0.5), histogram_us(h, 0.9), histogram_us(h, 0.99), histogram_us(h, 0.999),
        (double)h->max / 1000, (ull)h->count);
}

static void report(void)
{
    const struct totals n = {to.totals.requests - from.totals.requests,
                             to.totals.messages - from.totals.messages, to.totals.bytes - from.totals.bytes};
    const double s = (double)(to.at_ns - from.at_ns) * 1e-9;
    const double server = to.server_s - from.server_s, client = to.client_s - from.client_s;
    const double others = to.machine.busy - from.machine.busy - server - client,
                 stolen = to.machine.stolen - from.machine.stolen;
    const double us_per_request = n.requests ? server / (double)n.requests * 1e6 : 0;
    const double us_per_message = n.messages ? server / (double)n.messages * 1e6 : 0;
    const double requests_s = (double)n.requests / s, messages_s = (double)n.messages / s,
                 mb_s = (double)n.bytes / s / 1e6;

    printf("{\"mode\": \"%s\", \"label\": \"%s\", \"connections\": %d, \"depth\": %d, \"partitions\": %d, ",
           mode_names[opt.mode], opt.label, opt.connections, opt.depth, opt.partitions);
    if (opt.mode == CONSUME_MODE) printf("\"fetch\": %u, \"passes\": %llu, ", opt.fetch, (ull)passes);
    else printf("\"size\": %u, \"bundle\": %u, \"acks\": %d, ", opt.size, opt.bundle, opt.acks);
    if (opt.mode == PACED_MODE || opt.mode == TAIL_MODE) printf("\"rate\": %.0f, ", opt.rate);
    printf("\"seconds\": %.3f, \"requests\": %llu, \"messages\": %llu, ", s, (ull)n.requests,
           (ull)n.messages);
    printf("\"req_per_s\": %.1f, \"msg_per_s\": %.1f, \"mb_per_s\": %.2f, ", requests_s, messages_s, mb_s);
    printf("\"server_us_per_req\": %.4f, \"server_us_per_msg\": %.5f, ", us_per_request, us_per_message);
    printf("\"server_cpu\": %.3f, \"client_cpu\": %.3f, ", server / s, client / s);
    printf("\"other_cpu\": %.3f, \"stolen_cpu\": %.3f", others / s, stolen / s);
    print_latencies("latency_us", &latency);
    print_latencies("tail_latency_us", &tail_latency);
    print_latencies("send_lag_us", &send_lag);
    printf(", \"checked\": %llu, \"above_high_water\": %llu}\n", (ull)checked, (ull)above_high_water);

    const struct histogram *h = opt.mode == TAIL_MODE ? &tail_latency : &latency;
    fprintf(stderr, "%s%s%s: %.0f msg/s, %.0f req/s, %.1f MB/s; ", mode_names[opt.mode],
            *opt.label ? " " : "", opt.label, messages_s, requests_s, mb_s);
    fprintf(stderr, "server %.3f us/req %.4f us/msg, %.2f cpu; client %.2f, others %.2f; ", us_per_request,
            us_per_message, server / s, client / s, others / s);
    fprintf(stderr, "us p50 %.0f p90 %.0f p99 %.0f p99.9 %.0f max %.0f%s%s\n", histogram_us(h, 0.5),
            histogram_us(h, 0.9), histogram_us(h, 0.99), histogram_us(h, 0.999), (double)h->max / 1000,
            client / s > 0.95 ? "; THE GENERATOR IS THE LIMIT" : "", checked ? "; content checked" : "");
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    if (opt.mode == FRAMES_MODE) return print_frames(), 0;
    uint64_t x = 88172645463325252u, *last_before = calloc((size_t)opt.partitions, sizeof *last_before);
    for (size_t i = 0; i < POOL; i += 8) { /* xorshift: the same content in every run */
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        put64(pool + i, x);
    }
    conns = calloc((size_t)(opt.connections + opt.partitions), sizeof *conns);
    epoll = must(epoll_create1(EPOLL_CLOEXEC));
    prctl(PR_SET_TIMERSLACK, 1); /* else the kernel may delay each paced request by 50 us */
    if (opt.create) create_topic();

    if (opt.mode == CONSUME_MODE) {
        checking = opt.check;
        expect_counters(ANY_COUNTER);
        started_ns = now_ns();
        for (int i = 0; i < opt.connections; i++) open_consumer((uint16_t)(i % opt.partitions), opt.start);
        run();
    } else {
        last_numbers(last_before);
        expect_counters(0);
        plan_producers();
        for (int i = 0; i < opt.connections; i++) open_producer((uint32_t)i);
        for (int i = 0; opt.mode == TAIL_MODE && i < opt.partitions; i++)
            open_consumer((uint16_t)i, last_before[i] + 1);
        started_ns = now_ns();
        for (int i = 0; opt.mode == PRODUCE_MODE && i < opt.connections; i++) send_requests(conns + i);
        run();
        if (opt.check && opt.mode != TAIL_MODE) read_back(last_before);
    }
    report();
}
