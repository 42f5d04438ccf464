/* patched.c TIMES - the kernel patches code of its scheduler that every processor runs at that
 * moment: a static key, by /proc/sys/kernel/sched_schedstats. An emulator that keeps a block of the
 * code as it was meanwhile, with a breakpoint in it, has the kernel panic when it comes there
 * again. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic int over;

static void *give_way(void *cpu) {
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
    while (!over) {
        sched_yield();
    }
    return NULL;
}

int main(int count, char **words) {
    const long times = count == 2 ? atol(words[1]) : 0, cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int file = open("/proc/sys/kernel/sched_schedstats", O_WRONLY);
    pthread_t *threads = calloc((size_t)cpus, sizeof *threads);

    if (times < 1 || file < 0 || !threads) {
        perror("usage: lab-patched TIMES, as root; sched_schedstats");
        return 2;
    }
    for (long cpu = 0; cpu < cpus; cpu++) {
        if (pthread_create(&threads[cpu], NULL, give_way, (void *)cpu) != 0) {
            return 1;
        }
    }
    for (long i = 0; i < times; i++) {
        if (pwrite(file, i % 2 ? "0" : "1", 1, 0) != 1) {
            perror("sched_schedstats");
            return 1;
        }
    }
    over = 1;
    for (long cpu = 0; cpu < cpus; cpu++) {
        pthread_join(threads[cpu], NULL);
    }
    printf("%ld times on %ld processors\n", times, cpus);
    free(threads);
    return 0;
}
