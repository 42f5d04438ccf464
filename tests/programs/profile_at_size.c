/* profile_at_size.c - for profile_at_size.py:
 *
 *   threads N    N threads that live together; each allocates 100 blocks and frees them
 *   sites LOG2   a block from each of 2^LOG2 stacks, LOG2 calls deep
 *
 * Prints how much of it was in memory at most, in KiB. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 64 << 10, BLOCKS = 100, HELD = 10 };

static pthread_barrier_t all;
static void **kept;

static void *work(void *unused) {
    void *volatile block[HELD] = {NULL};
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i % HELD]);
        block[i % HELD] = malloc(16 + i);
    }
    pthread_barrier_wait(&all);
    for (size_t i = 0; i < HELD; i++)
        free(block[i]);
    return NULL;
}

static int threads(unsigned count) {
    pthread_t *thread = calloc(count, sizeof *thread);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_barrier_init(&all, NULL, count);
    for (unsigned i = 0; i < count; i++)
        if (thread == NULL || pthread_create(&thread[i], &attr, work, NULL) != 0) return 77;
    for (unsigned i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return 0;
}

/* Each bit decides which of two functions calls the next. */
static unsigned even(uint32_t bits, unsigned left);
static unsigned odd(uint32_t bits, unsigned left);

static inline unsigned next(uint32_t bits, unsigned left) {
    if (left == 0) {
        *kept++ = malloc(24);
        return 0;
    }
    return (bits & 1 ? odd : even)(bits >> 1, left - 1);
}

static __attribute__((noinline)) unsigned even(uint32_t bits, unsigned left) {
    return next(bits, left) + 1; /* no tail call */
}

static __attribute__((noinline)) unsigned odd(uint32_t bits, unsigned left) {
    return next(bits, left) + 2;
}

static int sites(unsigned log2) {
    kept = calloc((size_t)1 << log2, sizeof *kept);
    for (uint32_t i = 0; kept != NULL && i < UINT32_C(1) << log2; i++)
        even(i, log2);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    int status = strcmp(argv[1], "threads") == 0 ? threads(count) : sites(count);
    char line[128];
    unsigned long most = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0) most = strtoul(line + 6, NULL, 10);
    printf("%lu\n", most);
    return status;
}
