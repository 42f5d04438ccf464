/* own_memory.h - the recorder's own memory for tests of watchpoints' draws, which take two tables
 * at their beginning and again at each new one: the same two, so that a test may begin often. */
#ifndef NUMALLOC_TESTS_SUPPORT_OWN_MEMORY_H
#define NUMALLOC_TESTS_SUPPORT_OWN_MEMORY_H

#include <criterion/criterion.h>
#include <stdint.h>

void *na_own_alloc(uint64_t bytes);
void *na_own_alloc(uint64_t bytes) {
    static unsigned char memory[2][UINT64_C(1) << 23];
    static unsigned turn;
    cr_assert_leq(bytes, sizeof memory[0]);
    return memory[turn++ % 2];
}

#endif
