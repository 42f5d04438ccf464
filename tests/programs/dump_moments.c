/* dump_moments.c - programs whose figures at one moment say nothing of another: dump_moments.sh.
 *
 *   later    8 MiB at the peak, freed; then 6 MiB that stay
 *   rounded  200,000 blocks that rounding makes half as large again, one at a time; the peak is of
 *            blocks that lose nothing
 *   stays    32 MiB of small blocks, all freed but every 64th; the program works on for as long
 *            again
 *   dump     4 MiB live at a dump, freed after
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MANY  524288
#define EVERY 64
#define MIB   1048576

static void *blocks[MANY];

static __attribute__((noinline)) void *take(size_t size) {
    char *p = malloc(size);
    if (p == NULL) abort();
    memset(p, 1, size);
    __asm__ volatile("# take" : : "r"(p) : "memory");
    return p;
}

static __attribute__((noinline)) void *keep(size_t size) {
    void *p = take(size);
    __asm__ volatile("# keep" : : "r"(p) : "memory");
    return p;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    double start = now_s();
    if (argc != 2) return 2;
    if (strcmp(argv[1], "later") == 0) {
        void *early = take(8 * MIB);
        free(early);
        blocks[0] = keep(6 * MIB);
    } else if (strcmp(argv[1], "rounded") == 0) {
        for (int i = 0; i < 200000; i++)
            free(keep(17));
        for (int i = 0; i < 4; i++)
            blocks[i] = take(MIB);
        for (int i = 0; i < 4; i++)
            free(blocks[i]);
    } else if (strcmp(argv[1], "dump") == 0) {
        int (*dump)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "numalloc_record_dump");
        void *busy = keep(4 * MIB);
        if (dump == NULL || dump() != 0) return 3;
        free(busy);
    } else {
        for (int i = 0; i < MANY; i++)
            blocks[i] = keep(64);
        for (int i = 0; i < MANY; i++)
            if (i % EVERY != 0) free(blocks[i]);
        double until = now_s() + (now_s() - start);
        while (now_s() < until)
            free(take(100));
    }
    return 0;
}
