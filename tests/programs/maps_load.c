/* maps_load.c - a program that maps memory itself: 4 times 16 MiB by map_arena, 48 and 8 MiB by
 * map_ring, of which the 8 are unmapped, and 2 MiB by brk; one block of a MiB of malloc. */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB 1048576u

#define MAPS(name)                                                                                 \
    static __attribute__((noinline)) void *name(size_t bytes) {                                    \
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);   \
        if (p == MAP_FAILED) abort();                                                              \
        memset(p, 1, bytes);                                                                       \
        return p;                                                                                  \
    }
MAPS(map_arena)
MAPS(map_ring)

static __attribute__((noinline)) void grow_break(void) {
    if (sbrk(2 * MIB) == (void *)-1) abort();
}

int main(void) {
    for (int i = 0; i < 4; i++)
        map_arena(16 * MIB);
    map_ring(48 * MIB);
    if (munmap(map_ring(8 * MIB), 8 * MIB) != 0) return 1;
    grow_break();
    char *block = malloc(MIB);
    if (block == NULL) return 1;
    memset(block, 1, MIB);
    return 0;
}
