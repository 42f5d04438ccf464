/* errors.c - memory errors in the blocks of two call sites: what the page must show of them, with
 * NUMALLOC_GUARD=recover, NUMALLOC_GUARD_EACH=1 and a profile of the same run. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define HIDE(p) __asm__ volatile("" : "+r"(p) : : "memory")

__attribute__((noinline)) static char *makes_order(void) {
    char *order = malloc(4000);
    HIDE(order);
    return order;
}

__attribute__((noinline)) static char *makes_name(void) {
    char *name = malloc(112);
    HIDE(name);
    return name;
}

__attribute__((noinline)) static char *makes_table(void) {
    char *table = malloc(3000);
    HIDE(table);
    return table;
}

__attribute__((noinline)) static int reads_order(const volatile char *order) {
    return order[7];
}

__attribute__((noinline)) static void fills_name(volatile char *name, int size) {
    for (int i = 0; i < size; i++)
        name[i] = 'x';
}

/* Guarded, at the end of its pages. */
static char *guarded(char *(*make)(void), size_t size) {
    for (int i = 0; i < 100; i++) {
        char *block = make();
        if (malloc_usable_size(block) == size && ((unsigned long)block + size) % 4096 == 0)
            return block;
    }
    return NULL;
}

int main(void) {
    static char *kept[200];
    char *orders[2];
    for (int i = 0; i < 2; i++)
        orders[i] = guarded(makes_order, 4000);
    char *name = guarded(makes_name, 112);
    if (orders[0] == NULL || orders[1] == NULL || name == NULL) return 2;
    for (int i = 0; i < 200; i++)
        kept[i] = makes_table();
    for (int i = 0; i < 2; i++) {
        free(orders[i]);
        HIDE(orders[i]);
    }
    int sum = 0;
    for (int i = 0; i < 2; i++)
        sum += reads_order(orders[i]); /* found twice, one error */
    fills_name(name, 113);
    printf("%d %p\n", sum, (void *)kept[0]);
    return 0;
}
