/* spans_load.c - a program whose spans are known at the end, for dump_blocks.sh: 64 blocks of 64
 * bytes that keep some thirty pages of blocks alive, and a large block of which half is touched.
 * Argument "copy": the profile is copied twice meanwhile. "scattered": many more blocks, of which
 * one in 64 keeps some 32 MiB; copied then. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 4096
#define MANY   (BLOCKS * 128)
#define EVERY  64

static void *blocks[MANY];
static void *large;

static __attribute__((noinline)) void *keeper(void) {
    void *block = malloc(64);
    __asm__ volatile("# keeper" : : "r"(block) : "memory");
    return block;
}

static __attribute__((noinline)) void *filler(void) {
    void *block = malloc(64);
    __asm__ volatile("# filler" : : "r"(block) : "memory");
    return block;
}

static __attribute__((noinline)) void take_large(void) {
    large = malloc(1 << 20);
    if (large == NULL) abort();
    memset(large, 1, 1 << 19);
}

static void copy(void) {
    int (*dump)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "numalloc_record_dump");
    if (dump == NULL || dump() != 0) abort();
}

int main(int argc, char **argv) {
    int copies = argc > 1 && strcmp(argv[1], "copy") == 0;
    int count = argc > 1 && strcmp(argv[1], "scattered") == 0 ? MANY : BLOCKS;
    for (int i = 0; i < count; i++) {
        blocks[i] = i % EVERY == 0 ? keeper() : filler();
        if (blocks[i] == NULL) abort();
        memset(blocks[i], i, 64);
    }
    if (copies) copy();
    for (int i = 0; i < count; i++)
        if (i % EVERY != 0) free(blocks[i]);
    if (copies || count == MANY) copy();
    take_large();
    return 0;
}
