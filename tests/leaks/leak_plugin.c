/* leak_plugin.c - a library that is opened while the program runs. */
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

static void *volatile global;
static __thread void *volatile of_thread;

void *keep_in_global(size_t size);
void *keep_in_tls(size_t size);
void *lose(size_t size);
void *nothing(size_t size);

static void *filled(size_t size) {
    void *p = malloc(size);
    memset(p, 0, size);
    return p;
}

void *keep_in_global(size_t size) {
    global = filled(size);
    return NULL;
}

void *keep_in_tls(size_t size) {
    of_thread = filled(size);
    return NULL;
}

void *lose(size_t size) {
    void *p = filled(size);
    __asm__ volatile("" : : "r"(p) : "memory");
    return NULL;
}

void *nothing(size_t size) {
    (void)size;
    return NULL;
}
