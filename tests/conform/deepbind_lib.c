/* deepbind_lib.c - the library that deepbind.c loads. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *deep_make(size_t size);
EXPORT void deep_give(void *block);
EXPORT char *deep_copy(const char *text);

void *deep_make(size_t size) {
    return malloc(size);
}

void deep_give(void *block) {
    free(block);
}

/* Allocated inside the C library, whose own calls of malloc follow the global scope. */
char *deep_copy(const char *text) {
    return strdup(text);
}
