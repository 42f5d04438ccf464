/* leak_cases.h - what the programs of the corpus share: a table of cases, one of which a process
 * runs. Each lets go of blocks in its own way, and ends by leaving main (or as it says). */
#ifndef NUMALLOC_TESTS_LEAKS_LEAK_CASES_H
#define NUMALLOC_TESTS_LEAKS_LEAK_CASES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

typedef struct leak_case {
    const char *name;
    void (*run)(void);
    /* What is lost, and what of that other lost blocks lead to. */
    unsigned lost_blocks, lost_bytes, indirect_blocks, indirect_bytes;
} leak_case_t;

/* Nothing is known of the pointer from here on. */
static inline void escape(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* What was called left its words below: they go. */
static NOINLINE void scrub(void) {
    volatile char room[16384];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
#ifdef __x86_64__
    __asm__ volatile(
        "xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\txor %%edx, %%edx\n\txor %%esi, %%esi\n\t"
        "xor %%edi, %%edi\n\txor %%r8d, %%r8d\n\txor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\t"
        "xor %%r11d, %%r11d\n\txor %%ebx, %%ebx\n\txor %%r12d, %%r12d\n\t"
        "xor %%r13d, %%r13d\n\txor %%r14d, %%r14d\n\txor %%r15d, %%r15d" ::
            : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "rbx", "r12", "r13",
              "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "memory");
#endif
}

static inline int run_case(const leak_case_t *cases, size_t count, int argc, char **argv) {
    for (size_t i = 0; i < count; i++) {
        const leak_case_t *c = &cases[i];
        if (argc == 2 && strcmp(argv[1], "list") == 0)
            printf("%s %u %u %u %u\n", c->name, c->lost_blocks, c->lost_bytes, c->indirect_blocks,
                   c->indirect_bytes);
        if (argc != 2 || strcmp(argv[1], c->name) != 0) continue;
        c->run();
        scrub();
        return 0;
    }
    return argc == 2 && strcmp(argv[1], "list") == 0 ? 0 : 2;
}

#endif
