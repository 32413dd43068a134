/* What tankload is told: --help, and the options of a run. */
#include "load.h"

#include <getopt.h>

const char *mode_names[] = {"produce", "paced", "tail", "consume", "frames"};

struct options opt = {
    .host = "127.0.0.1", .topic = "bench", .pids = "", .label = "", .config = "", .port = 11011,
    .connections = 1, .depth = 1, .partitions = 1, .bundle = 1, .size = 100, .fetch = 1 << 20,
    .wait_ms = 1000, .cap = 1 << 30, .rate = 1000, .warmup_s = 1, .duration_s = 4,
};

static const char *help =
    "usage: tankload [options] produce|paced|tail|consume|frames   a load generator for TANK brokers\n"
    "  produce   closed loop: --depth requests under way on each connection\n"
    "  paced     open loop: --rate requests a second, each timed from when it should have been sent\n"
    "  tail      paced, and a long-polling consumer per partition: also timed until it is received\n"
    "  consume   reads partitions over and over; checks that numbers go on without a gap\n"
    "  frames    prints requests of known content in hex, to compare with captures\n"
    "where:    -H, --host ADDRESS (127.0.0.1)   -p, --port N (11011)   -t, --topic NAME (bench)\n"
    "          -P, --partitions N (1)   -C, --create: make the topic first   --config TEXT: its settings\n"
    "          -i, --pids N,N: servers whose processor time is summed\n"
    "load:     -c, --connections N (1; a consumer's nth reads partition n modulo -P)   -d, --depth N (1)\n"
    "          -r, --rate N (1000)   -s, --size BYTES of a message (100)   -m, --bundle MESSAGES (1)\n"
    "          --repeated: content is one byte, not random   -a, --acks N (0)   -A, --ack-timeout MS (0)\n"
    "consume:  -f, --fetch BYTES (1 MiB)   -n, --start NUMBER (0: the first)   --once: to the end, and stop\n"
    "          --bytes-only: from the second pass on the chunks are discarded unread\n"
    "          of a tail: -W, --wait MS (1000)   -M, --min-bytes N\n"
    "run:      -w, --warmup S (1)   -T, --seconds S (4)   -L, --cap MIB of content written at most (1024)\n"
    "          -l, --label TEXT   -k, --check: every byte is looked at; what was written is read back\n"
    "Prints a line of JSON: *_cpu in processors, mb_per_s of stored bytes, times in microseconds.\n";

void parse_options(int argc, char **argv)
{
    static const struct option longs[] = {{"host", 1, 0, 'H'},        {"port", 1, 0, 'p'},
                                          {"topic", 1, 0, 't'},       {"partitions", 1, 0, 'P'},
                                          {"create", 0, 0, 'C'},      {"config", 1, 0, 1},
                                          {"pids", 1, 0, 'i'},        {"connections", 1, 0, 'c'},
                                          {"depth", 1, 0, 'd'},       {"rate", 1, 0, 'r'},
                                          {"size", 1, 0, 's'},        {"bundle", 1, 0, 'm'},
                                          {"repeated", 0, 0, 2},      {"acks", 1, 0, 'a'},
                                          {"ack-timeout", 1, 0, 'A'}, {"fetch", 1, 0, 'f'},
                                          {"start", 1, 0, 'n'},       {"wait", 1, 0, 'W'},
                                          {"min-bytes", 1, 0, 'M'},   {"once", 0, 0, 3},
                                          {"bytes-only", 0, 0, 4},    {"warmup", 1, 0, 'w'},
                                          {"seconds", 1, 0, 'T'},     {"cap", 1, 0, 'L'},
                                          {"label", 1, 0, 'l'},       {"check", 0, 0, 'k'},
                                          {"help", 0, 0, 'h'},        {0}};
    for (int o;
         (o = getopt_long(argc, argv, "H:p:t:P:Ci:c:d:r:s:m:a:A:f:n:W:M:w:T:L:l:kh", longs, NULL)) != -1;)
        switch (o) {
        case 'H': opt.host = optarg; break;
        case 'p': opt.port = atoi(optarg); break;
        case 't': opt.topic = optarg; break;
        case 'P': opt.partitions = atoi(optarg); break;
        case 'C': opt.create = true; break;
        case 1: opt.config = optarg; break;
        case 'i': opt.pids = optarg; break;
        case 'c': opt.connections = atoi(optarg); break;
        case 'd': opt.depth = atoi(optarg); break;
        case 'r': opt.rate = atof(optarg); break;
        case 's': opt.size = (uint32_t)atol(optarg); break;
        case 'm': opt.bundle = (uint32_t)atol(optarg); break;
        case 2: opt.repeated = true; break;
        case 'a': opt.acks = atoi(optarg); break;
        case 'A': opt.ack_timeout_ms = (uint32_t)atol(optarg); break;
        case 'f': opt.fetch = (uint32_t)atol(optarg); break;
        case 'n': opt.start = strtoull(optarg, NULL, 10); break;
        case 'W': opt.wait_ms = strtoull(optarg, NULL, 10); break;
        case 'M': opt.min_bytes = (uint32_t)atol(optarg); break;
        case 3: opt.once = true; break;
        case 4: opt.bytes_only = true; break;
        case 'w': opt.warmup_s = atof(optarg); break;
        case 'T': opt.duration_s = atof(optarg); break;
        case 'L': opt.cap = strtoull(optarg, NULL, 10) << 20; break;
        case 'l': opt.label = optarg; break;
        case 'k': opt.check = true; break;
        case 'h': fputs(help, stdout); exit(0);
        default: fputs(help, stderr); exit(2);
        }
    while (optind < argc && opt.mode < N_MODES && strcmp(argv[optind], mode_names[opt.mode])) opt.mode++;
    if (optind != argc - 1 || opt.mode == N_MODES) fputs(help, stderr), exit(2);
    if (opt.connections < 1 || opt.connections > SOURCES_MAX || opt.depth < 1)
        die("out of range: --connections or --depth");
    if (opt.partitions < 1 || opt.partitions > 65530 || opt.bundle < 1)
        die("out of range: --partitions or --bundle");
    if (opt.size > POOL / 2 || (uint64_t)opt.size * opt.bundle > FRAME_MAX / 2)
        die("too large: --size or --bundle");
    if (opt.rate <= 0 || strlen(opt.topic) > 255 || strlen(opt.config) > 512)
        die("out of range: --rate, --topic or --config");
    if (opt.mode == CONSUME_MODE) {
        if (opt.check && opt.connections > opt.partitions) die("--check: one connection a partition at most");
        if (opt.bytes_only && (opt.once || opt.check))
            die("--bytes-only looks at nothing: not with --once or --check");
    } else {
        if (opt.bytes_only || opt.once) die("--bytes-only and --once are for consume");
        if (opt.size < STAMP && (opt.check || opt.mode == TAIL_MODE))
            die("--size must be %d or more to be checked", STAMP);
    }
}
