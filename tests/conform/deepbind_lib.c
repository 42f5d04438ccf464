/* deepbind_lib.c - the library that deepbind.c loads. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *deep_make(size_t size);
EXPORT void deep_give(void *block);
EXPORT char *deep_copy(const char *text);
EXPORT bool deep_open(const char *name);

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

bool deep_open(const char *name) {
    return dlopen(name, RTLD_NOW | RTLD_DEEPBIND) != NULL;
}
