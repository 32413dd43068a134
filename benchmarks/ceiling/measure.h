/* What a load generator measures besides counting: a latency histogram, and who used the processors. */
#ifndef MEASURE_H
#define MEASURE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Latencies in nanoseconds, log-linear as in HdrHistogram: 128 buckets per power of two, so within 0.8 %. */
enum { HISTOGRAM_BITS = 7, HISTOGRAM_BUCKETS = (64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS };

struct histogram {
    uint64_t count, max, buckets[HISTOGRAM_BUCKETS];
};

static inline void histogram_add(struct histogram *h, uint64_t ns)
{
    unsigned shift = ns >> HISTOGRAM_BITS ? 63 - (unsigned)__builtin_clzll(ns) - HISTOGRAM_BITS : 0;
    h->buckets[(ns >> HISTOGRAM_BITS ? (shift + 1) << HISTOGRAM_BITS : 0) +
               ((ns >> shift) & ((1u << HISTOGRAM_BITS) - 1))]++;
    h->count++;
    if (ns > h->max) h->max = ns;
}

/* The value in microseconds that the share `p` of all lie at or below (the upper edge of its bucket). */
static inline double histogram_us(const struct histogram *h, double p)
{
    uint64_t wanted = (uint64_t)(p * (double)h->count + 0.5), seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS && h->count; i++)
        if ((seen += h->buckets[i]) >= wanted && seen) {
            unsigned shift = i >> HISTOGRAM_BITS ? (i >> HISTOGRAM_BITS) - 1 : 0;
            uint64_t low = i >> HISTOGRAM_BITS
                               ? (uint64_t)(i & ((1u << HISTOGRAM_BITS) - 1)) + (1u << HISTOGRAM_BITS)
                               : i;
            double edge = (double)(((low + 1) << shift) - 1);
            return (edge < (double)h->max ? edge : (double)h->max) / 1000;
        }
    return 0;
}

/* Seconds of processor time of the processes named in `pids` ("12,34"), all threads: nanosecond counters
 * where the kernel has schedstat, else clock ticks. A pid that does not exist is an error: a silent 0 would
 * look like a fast server. */
static inline double processes_cpu_s(const char *pids)
{
    double seconds = 0;
    for (const char *p = pids; *p; p += strcspn(p, ","), p += *p == ',') {
        long pid = atol(p);
        char path[64];
        snprintf(path, sizeof path, "/proc/%ld/task", pid);
        DIR *tasks = opendir(path);
        if (!tasks) fprintf(stderr, "no process %ld\n", pid), exit(1);
        for (struct dirent *e; (e = readdir(tasks));) {
            unsigned long long run_ns, user, system;
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "/proc/%ld/task/%.20s/schedstat", pid, e->d_name);
            FILE *f = fopen(path, "r");
            if (f && fscanf(f, "%llu", &run_ns) == 1) seconds += (double)run_ns * 1e-9;
            else {
                if (f) fclose(f);
                snprintf(path, sizeof path, "/proc/%ld/task/%.20s/stat", pid, e->d_name);
                const char *fields = "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu";
                if ((f = fopen(path, "r")) && fscanf(f, fields, &user, &system) == 2)
                    seconds += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
            }
            if (f) fclose(f);
        }
        closedir(tasks);
    }
    return seconds;
}

static inline double own_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The whole machine, in seconds summed over its processors; `stolen` is what the hypervisor took. */
struct machine {
    double total, busy, stolen;
};

static inline struct machine machine_cpu(void)
{
    unsigned long long v[8] = {0}, sum = 0;
    FILE *f = fopen("/proc/stat", "r");
    if (f) {
        if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3, v + 4, v + 5,
                   v + 6, v + 7) != 8)
            memset(v, 0, sizeof v);
        fclose(f);
    }
    for (int i = 0; i < 8; i++) sum += v[i];
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    return (struct machine){(double)sum * tick, (double)(sum - v[3] - v[4] - v[7]) * tick,
                            (double)v[7] * tick};
}

#endif
