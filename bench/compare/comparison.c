/* comparison.c - memory for as long as a comparison lasts. */
#include "bench/compare/comparison.h"

#include <string.h>

void *na_compare_memory(size_t bytes) {
    static char *chunk;
    static size_t left;
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > 32768) return na_bench_map(bytes);
    if (bytes > left) {
        left = 65536;
        chunk = na_bench_map(left);
    }
    char *memory = chunk;
    chunk += bytes;
    left -= bytes;
    return memory;
}

char *na_compare_text(const char *text, size_t length) {
    char *copy = na_compare_memory(length + 1);
    memcpy(copy, text, length);
    return copy;
}
