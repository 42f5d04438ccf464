/* fleet_load.c - a process of a fleet whose allocations are known.
 *
 *   web N           N blocks of 1000 bytes live at the end, from web_keep; 2 N of 300 freed
 *   batch N         N blocks of 5000 bytes, from batch_keep, freed; one of 70000 live
 *   lines N         for each byte of its input: as web N, which it says; then it waits
 *   leak MS RATE    for so long RATE bytes a second from leak_here, in blocks of 1000; a working
 *                   set of a constant size from churn, and a cache from fill_cache that is full
 *                   after a fifth of the time. Prints what leaked, and in which time
 *   steady MS RATE  the same, but what would leak is freed after 50 more
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SITE(name)                                                                                 \
    __attribute__((noinline)) void *name(size_t size) {                                            \
        char *p = malloc(size);                                                                    \
        if (p == NULL) abort();                                                                    \
        memset(p, 1, size);                                                                        \
        __asm__ volatile("" ::"r"(p) : "memory");                                                  \
        return p;                                                                                  \
    }
SITE(web_keep)
SITE(web_temp)
SITE(batch_keep)
SITE(batch_result)
SITE(leak_here)
SITE(churn)
SITE(fill_cache)

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *volatile kept; /* the newest of a list */

static void link_in(void *block) {
    *(void **)block = kept;
    kept = block;
}

static void over_time(double ms, double rate, int leaks) {
    void *ring[64] = {0}, *held[50] = {0};
    const char *until = getenv("UNTIL"); /* not before this file is there */
    double start = now_ms(), leaked = 0, cached = 0;
    const double cache = 2e6;
    for (unsigned i = 0;; i++) {
        double t = now_ms() - start;
        if (t >= ms && (until == NULL || access(until, F_OK) == 0)) break;
        unsigned k = i * 2654435761u >> 26;
        free(ring[k]);
        ring[k] = churn(2000 + i * 7919u % 4000);
        for (; leaked < rate * t / 1000; leaked += 1000) {
            void *block = leak_here(1000);
            if (leaks) {
                link_in(block);
                continue;
            }
            unsigned at = (unsigned)(leaked / 1000) % 50;
            free(held[at]);
            held[at] = block;
        }
        for (; cached < cache && cached < cache * t / (ms / 5); cached += 2000)
            link_in(fill_cache(2000));
        usleep(300);
    }
    printf("%.0f bytes in %.0f ms\n", leaks ? leaked : 0.0, now_ms() - start);
}

static void serve(long n) {
    for (long i = 0; i < n; i++) {
        link_in(web_keep(1000));
        free(web_temp(300));
        free(web_temp(300));
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long n = atol(argv[2]);
    if (strcmp(argv[1], "web") == 0) {
        serve(n);
    } else if (strcmp(argv[1], "lines") == 0) {
        for (char c; read(0, &c, 1) == 1;) {
            serve(n);
            if (write(1, "done\n", 5) != 5) return 3;
        }
    } else if (strcmp(argv[1], "batch") == 0) {
        for (long i = 0; i < n; i++)
            free(batch_keep(5000));
        link_in(batch_result(70000));
    } else if (argc == 4 && (strcmp(argv[1], "leak") == 0 || strcmp(argv[1], "steady") == 0)) {
        over_time((double)n, atof(argv[3]), argv[1][0] == 'l');
    } else {
        return 2;
    }
    return 0;
}
