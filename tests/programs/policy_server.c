/* policy_server.c - a server's mix: sessions that stay, requests that go, all by one wrapper.
 * Prints what is resident when it is quiet. Usage: policy_server REQUESTS [sessions with which 1 of
 * 40]
 *
 * Each wave of requests has sessions among its blocks, of the same sizes. What the requests leave
 * is full of holes but for the sessions' blocks, unless those lie apart. One buffer grows by
 * realloc in small steps. With SERVER_API in the environment sessions are of numalloc_alloc_local,
 * where there is that. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER __attribute__((noinline))
#define WAVES 3

static uint64_t seed = 1;

static size_t size_of_next(void) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return 64 + (size_t)(seed >> 33) % 192;
}

NEVER void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (block == NULL) abort();
    memset(block, 1, size);
    return block;
}

typedef struct session {
    struct session *next;
} session_t;

static session_t *sessions;
static void *(*alloc_local)(size_t); /* NULL: malloc */

NEVER void open_session(void) {
    size_t size = size_of_next();
    session_t *s = alloc_local != NULL ? alloc_local(size) : xmalloc(size);
    if (s == NULL) abort();
    s->next = sessions;
    sessions = s;
}

NEVER void *begin_request(void) {
    void *request = xmalloc(size_of_next());
    __asm__ volatile("" : "+r"(request)); /* no jump: it has a frame */
    return request;
}

/* Text that becomes `count` times larger, a step at a time, with something behind it each time. */
NEVER size_t grow(size_t count) {
    char *text = NULL;
    size_t sum = 0;
    for (size_t i = 1; i <= count; i++) {
        char *more = realloc(text, i * 512);
        if (more == NULL) abort();
        memset(more + (i - 1) * 512, (int)i, 512);
        text = more;
        sum += (unsigned char)text[i];
    }
    free(text);
    return sum;
}

static long resident_kib(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    long size, resident;
    if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2) abort();
    fclose(file);
    return resident * 4;
}

int main(int argc, char **argv) {
    size_t count = argc > 1 ? (size_t)atol(argv[1]) : 300000, sum = 0;
    size_t each = argc > 2 ? (size_t)atol(argv[2]) : 40;
    if (getenv("SERVER_API") != NULL)
        *(void **)&alloc_local = dlsym(RTLD_DEFAULT, "numalloc_alloc_local");
    void **requests = malloc(count * sizeof *requests);
    if (requests == NULL) return 1;
    for (int wave = 0; wave < WAVES; wave++) {
        for (size_t i = 0; i < count; i++) {
            if (i % each == 0) open_session();
            requests[i] = begin_request();
        }
        for (size_t i = 0; i < count; i++)
            free(requests[i]);
        for (int i = 0; i < 20; i++)
            sum += grow(16);
    }
    free(requests);
    malloc_trim(0);
    size_t open = 0;
    for (session_t *s = sessions; s != NULL; s = s->next)
        open++;
    printf("sessions %zu, sum %zu\n", open, sum);
    fprintf(stderr, "resident %ld KiB\n", resident_kib());
    return 0;
}
