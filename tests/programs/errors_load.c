/* errors_load.c - makes one memory error in a block, which NUMALLOC_GUARD_EACH=1 guards. The second
 * argument shifts nothing but where things lie. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDE(p) __asm__ volatile("" : "+r"(p) : : "memory")

__attribute__((noinline)) static char *makes_order(size_t size) {
    char *order;
    do { /* guarded, and at the end of its page */
        order = malloc(size);
        HIDE(order);
    } while (malloc_usable_size(order) != size || ((unsigned long)order & 4095) == 0);
    return order; /* MAKES */
}

__attribute__((noinline)) static void drops_order(char *order) {
    free(order);
    HIDE(order); /* DROPS */
}

static inline __attribute__((always_inline)) int peeks(const volatile char *order) {
    return order[5]; /* PEEKS */
}

__attribute__((noinline)) static int reads_order(const volatile char *order) {
    int value = peeks(order) + 1; /* READS */
    HIDE(order);
    return value;
}

__attribute__((noinline)) static void fills_order(volatile char *order, size_t size) {
    for (size_t i = 0; i <= size; i++)
        order[i] = 'x'; /* FILLS */
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    for (int i = argc > 2 ? atoi(argv[2]) : 0; i > 0; i--)
        free(malloc((size_t)i * 50));
    char *order = makes_order(48);
    if (strcmp(what, "stale") == 0) {
        drops_order(order);
        printf("%p\n", (void *)(order + 5));
        fflush(stdout);
        return reads_order(order);
    }
    if (strcmp(what, "beyond") == 0) fills_order(order, 48);
    drops_order(order);
    return 0;
}
