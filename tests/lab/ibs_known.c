/* ibs_known.c - see ibs_known.h. */
#include "ibs_known.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { DEFAULT, BIND = 2, INTERLEAVE };

/* rdi buffer, rsi rounds, rdx multiplier, rcx mask (a multiple of 16 bytes). Each access is to a
 * pseudo-random place of the buffer; the place is the same for all of one round. */
void known_loop(void *buffer, uint64_t rounds, uint64_t factor, uint64_t mask);
extern const char known_load[], known_store[], known_both[], known_locked[], known_wide[],
    known_byte[];
__asm__(".text\n"
        ".globl known_loop\n"
        ".globl known_load\n"
        ".globl known_store\n"
        ".globl known_both\n"
        ".globl known_locked\n"
        ".globl known_wide\n"
        ".globl known_byte\n"
        ".globl known_at\n"
        ".globl known_jump\n"
        ".globl known_end\n"
        "known_loop:\n"
        "    mov $1, %eax\n"
        "known_at:\n"
        "    imul %rdx, %rax\n"
        "    add $12345, %rax\n"
        "    mov %rax, %r8\n"
        "    shr $33, %r8\n"
        "    and %rcx, %r8\n"
        "    nop\n"
        "known_load:\n"
        "    mov (%rdi,%r8), %r10\n"
        "    xor %r10, %r11\n"
        "known_store:\n"
        "    movl %r10d, 4(%rdi,%r8)\n"
        "known_both:\n"
        "    addw $1, 8(%rdi,%r8)\n"
        "known_locked:\n"
        "    lock addq $1, (%rdi,%r8)\n"
        "known_wide:\n"
        "    movups (%rdi,%r8), %xmm0\n"
        "known_byte:\n"
        "    movzbl 3(%rdi,%r8), %r9d\n"
        "    lea 1(%r9), %r9\n"
        "    dec %rsi\n"
        "known_jump:\n"
        "    jnz known_at\n"
        "known_end:\n"
        "    ret\n");

__asm__(".text\n"
        ".globl known_prefetch\n"
        ".globl known_prefetch_at\n"
        ".globl known_prefetch_end\n"
        "known_prefetch:\n"
        "known_prefetch_at:\n"
        "    prefetcht0 (%rdi)\n"
        "    nop\n"
        "    dec %rsi\n"
        "    jnz known_prefetch_at\n"
        "known_prefetch_end:\n"
        "    ret\n");

/* Nops of four bytes, one of three, and nine bytes at the end. */
__asm__(".text\n"
        ".globl known_fetch\n"
        ".globl known_fetch_at\n"
        ".globl known_fetch_end\n"
        "known_fetch:\n"
        "    jmp known_fetch_at\n"
        "    .p2align 6\n"
        "known_fetch_at:\n"
        "    .rept 261\n"
        "    .byte 0x0f, 0x1f, 0x40, 0x00\n"
        "    .endr\n"
        "    .byte 0x0f, 0x1f, 0x00\n"
        "    dec %rdi\n"
        "    jnz known_fetch_at\n"
        "known_fetch_end:\n"
        "    ret\n");

const known_t known[KNOWN_ACCESSES] = {
    {known_load, "load", true, false, false, 8, 0},
    {known_store, "store", false, true, false, 4, 4},
    {known_both, "both", true, true, false, 2, 8},
    {known_locked, "locked", true, true, true, 8, 0},
    {known_wide, "wide", true, false, false, 16, 0},
    {known_byte, "byte", true, false, false, 1, 3},
};

void known_run(void *buffer, size_t bytes, uint64_t rounds) {
    known_loop(buffer, rounds, 6364136223846793005ULL, (bytes - 1) & ~15ULL);
}

const known_t *known_at_address(uint64_t instruction) {
    for (int i = 0; i < KNOWN_ACCESSES; i++)
        if (instruction == (uintptr_t)known[i].at) return &known[i];
    return NULL;
}

uint64_t known_physical(const void *address) {
    static int fd = -1;
    uint64_t entry = 0;
    if (fd < 0) fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    off_t at = (off_t)((uintptr_t)address / KNOWN_PAGE * 8);
    REQUIRE(fd >= 0 && pread(fd, &entry, 8, at) == 8);
    REQUIRE(entry >> 63 == 1);
    return (entry & ((1ULL << 55) - 1)) * KNOWN_PAGE + (uintptr_t)address % KNOWN_PAGE;
}

int known_node(const void *address) {
    void *page = (void *)((uintptr_t)address & ~(uintptr_t)(KNOWN_PAGE - 1));
    int node = -1;
    REQUIRE(syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0) == 0);
    return node;
}

/* Page i of the buffer on node first + i * step. By first touch, a node at a time: thousands of
 * policies of single pages take some kernels minutes. A policy of the whole, set afterwards and
 * moving nothing, keeps NUMA balancing away. */
char *known_buffer(size_t pages, int first, int step) {
    unsigned long all = 0;
    char *buffer = lab_map(pages * KNOWN_PAGE);
    madvise(buffer, pages * KNOWN_PAGE, MADV_NOHUGEPAGE);
    for (int node = 0; node < lab_nodes; node++) {
        unsigned long mask = 1UL << lab_node[node].id;
        all |= mask;
        REQUIRE(syscall(SYS_set_mempolicy, BIND, &mask, 64UL) == 0);
        for (size_t i = 0; i < pages; i++)
            if ((int)(((size_t)first + i * (size_t)step) % (size_t)lab_nodes) == node)
                memset(buffer + i * KNOWN_PAGE, (int)i, KNOWN_PAGE);
    }
    REQUIRE(syscall(SYS_set_mempolicy, DEFAULT, NULL, 0UL) == 0);
    REQUIRE(syscall(SYS_mbind, buffer, pages * KNOWN_PAGE, INTERLEAVE, &all, 64UL, 0) == 0);
    for (size_t i = 0; i < pages; i++)
        REQUIRE(known_node(buffer + i * KNOWN_PAGE) ==
                lab_node[((size_t)first + i * (size_t)step) % (size_t)lab_nodes].id);
    return buffer;
}
