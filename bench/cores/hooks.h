/* hooks.h - what QEMU's user-mode emulation, with bench/cores/edits, asks the plugin for. GPL,
 * version 2 or later, as QEMU is.
 *
 * A thread is named by the index of its CPU in QEMU. All but `begun` are called by the thread that
 * has the turn. */
#ifndef NUMALLOC_BENCH_CORES_HOOKS_H
#define NUMALLOC_BENCH_CORES_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct cores_hooks {
    /* Before a system call. True: the plugin answered it. It may change the third and fourth
     * argument of one that QEMU answers. */
    bool (*call)(int thread, int number, int64_t *args, int64_t *answer);
    void (*called)(int thread, int number, const int64_t *args, int64_t answer);
    /* In the creating thread. */
    void (*created)(int thread, int by);
    /* In the new thread, before its first instruction: returns when it has its first turn. */
    void (*begun)(int thread);
    /* The thread's last word; `cleared` is the word that was cleared for who joins it, or 0. */
    void (*ended)(int thread, uint64_t cleared);
    /* What gettid answers. */
    int (*tid)(int thread);
    /* The time stamp counter. */
    uint64_t (*clock)(int thread);
};

extern const struct cores_hooks *cores_hooks;

/* Returns where it stands what is added to an address of the program to have it in QEMU. */
const uintptr_t *qemu_plugin_cores_hooks(const struct cores_hooks *hooks);

#endif
