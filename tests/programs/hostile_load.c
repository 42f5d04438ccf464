/* hostile_load.c - a program whose profile meets trouble: its file is cut short, its descriptors
 * are few, and number 2 is no standard error.
 *
 *   hostile_load cut FILE BYTES      cuts FILE, its own profile, while six threads allocate
 *   hostile_load idle FILE BYTES     cuts it and ends
 *   hostile_load data FILE DATA      ends standard error, opens DATA, which gets number 2, cuts
 * FILE hostile_load log FILE LOG        the same with a LOG, to append to hostile_load bus
 * sent|met|own    dies of a SIGBUS of its own, or has a handler hostile_load first says which
 * descriptor a new file gets
 *
 * Status 5 if all went as it should. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 6, BLOCKS = 500, ROUNDS = 20000, DEEP = 30 };

static pthread_barrier_t half;

__attribute__((noinline)) static void *deep(unsigned frames, size_t size) {
    void *block = frames == 0 ? malloc(size) : deep(frames - 1, size);
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return block;
}

static void work(unsigned *seed, void **blocks, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        *seed = *seed * 1103515245 + 12345;
        unsigned at = (*seed >> 8) % BLOCKS;
        free(blocks[at]);
        blocks[at] = deep((*seed >> 16) % DEEP, (*seed >> 12) % 5000);
    }
}

static void *worker(void *number) {
    unsigned seed = *(unsigned *)number;
    void *blocks[BLOCKS] = {NULL};
    work(&seed, blocks, ROUNDS);
    pthread_barrier_wait(&half); /* the file is cut behind it, anywhere in what follows */
    work(&seed, blocks, ROUNDS);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static int cut(const char *file, long bytes) {
    return truncate(file, bytes);
}

static int cut_under_threads(const char *file, long bytes) {
    static unsigned numbers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_init(&half, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, worker, &numbers[i]) != 0) return 1;
    }
    pthread_barrier_wait(&half);
    int failed = cut(file, bytes);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return failed;
}

/* Number 2 is `path` from now on; true if so. */
static int second(const char *path, int flags) {
    close(2);
    return open(path, flags | O_CREAT, 0644) == 2;
}

static void on_bus(int number) {
    (void)number;
    _exit(5);
}

static int bus(const char *how) {
    if (strcmp(how, "sent") == 0) return raise(SIGBUS);
    if (strcmp(how, "own") == 0) signal(SIGBUS, on_bus);
    FILE *empty = tmpfile();
    if (empty == NULL) return 1;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(empty), 0);
    return page == MAP_FAILED ? 1 : *(volatile char *)page;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    void *blocks[BLOCKS] = {NULL};
    unsigned seed = 1;
    work(&seed, blocks, 2000);
    int failed = 1;
    if (strcmp(what, "cut") == 0 && count == 4) {
        failed = cut_under_threads(words[2], atol(words[3]));
    } else if (strcmp(what, "idle") == 0 && count == 4) {
        return cut(words[2], atol(words[3])) == 0 ? 5 : 1;
    } else if (strcmp(what, "data") == 0 && count == 4) {
        failed = !second(words[3], O_RDWR) || cut(words[2], 0) != 0;
    } else if (strcmp(what, "log") == 0 && count == 4) {
        failed = !second(words[3], O_WRONLY | O_APPEND) || cut(words[2], 0) != 0;
    } else if (strcmp(what, "bus") == 0 && count == 3) {
        failed = bus(words[2]);
    } else if (strcmp(what, "first") == 0 && count == 3) {
        int file = open(words[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
        failed = file < 0 || dprintf(file, "%d\n", file) != 2;
    }
    work(&seed, blocks, ROUNDS);
    return failed ? 1 : 5;
}
