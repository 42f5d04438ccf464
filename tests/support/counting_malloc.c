/* counting_malloc.c - a preloadable allocator that counts: glibc's malloc, with a record of every
 * call in the log that NA_COUNTING_LOG names (counting.h). Without that variable it only passes on.
 * NA_COUNTING_SLOW="N NS" makes every N-th malloc of a thread take NS nanoseconds longer: a known
 * latency for instruments that measure one.
 *
 * Any thread may call; a record is claimed by one atomic addition. Calls before the library's
 * constructor has run (the dynamic loader's) are not recorded. Ends the program when the log cannot
 * be made, since a missing log would look like a program that never allocates. */
#include "counting.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* glibc's own names of its allocator: no search, and so no recursion, at the first call. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static counting_log_t *counting_log; /* set once, before main */
static uintptr_t program_begin, program_end;
static unsigned long slow_every, slow_ns; /* set once, before main; 0: never */
static __thread unsigned long slow_calls __attribute__((tls_model("initial-exec")));
static __thread uint32_t thread_number __attribute__((tls_model("initial-exec")));

static int visit(struct dl_phdr_info *info, size_t size, void *argument) {
    (void)size;
    (void)argument;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0) continue;
        program_begin = info->dlpi_addr + header->p_vaddr;
        program_end = program_begin + header->p_memsz;
    }
    return 1; /* the program is the first object, and the only one wanted */
}

static void give_up(const char *why) {
    ssize_t ignored = write(STDERR_FILENO, why, strlen(why));
    (void)ignored;
    _exit(1);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv(COUNTING_LOG_ENV), *slow = getenv(COUNTING_SLOW_ENV);
    if (slow != NULL && sscanf(slow, "%lu %lu", &slow_every, &slow_ns) != 2)
        give_up("counting_malloc: NA_COUNTING_SLOW takes two numbers\n");
    if (path == NULL) return;
    dl_iterate_phdr(visit, NULL);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(counting_log_t)) != 0)
        give_up("counting_malloc: cannot make the file that NA_COUNTING_LOG names\n");
    void *memory = mmap(NULL, sizeof(counting_log_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) give_up("counting_malloc: cannot map the log\n");
    counting_log = memory;
}

static void note(counting_kind_t kind, const void *block, uint64_t old, uint64_t size,
                 const void *caller) {
    counting_log_t *log = counting_log;
    uintptr_t from = (uintptr_t)caller;
    if (log == NULL) return;
    if (thread_number == 0)
        thread_number = (uint32_t)__atomic_add_fetch(&log->threads, 1, __ATOMIC_RELAXED);
    uint64_t place = __atomic_fetch_add(&log->next, 1, __ATOMIC_SEQ_CST);
    if (place >= COUNTING_CAPACITY) return;
    counting_record_t *record = &log->record[place];
    record->block = (uint64_t)(uintptr_t)block;
    record->old = old;
    record->size = size;
    record->thread = thread_number;
    record->program = from >= program_begin && from < program_end;
    __atomic_store_n(&record->kind, (uint16_t)kind, __ATOMIC_RELEASE);
}

/* Busy for slow_ns: a sleep would be as long as the scheduler likes. */
static void be_slow(void) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < (long)slow_ns);
}

#define CALLER __builtin_return_address(0)

EXPORT void *malloc(size_t size) {
    if (slow_every != 0 && ++slow_calls % slow_every == 0) be_slow();
    void *block = __libc_malloc(size);
    note(COUNTING_MALLOC, block, 0, size, CALLER);
    return block;
}

EXPORT void *calloc(size_t count, size_t size) {
    void *block = __libc_calloc(count, size);
    note(COUNTING_CALLOC, block, 0, count * size, CALLER);
    return block;
}

EXPORT void *realloc(void *old, size_t size) {
    uint64_t before = (uint64_t)(uintptr_t)old;
    note(COUNTING_REALLOC_BEGIN, old, 0, size, CALLER);
    void *block = __libc_realloc(old, size);
    note(COUNTING_REALLOC, block, before, size, CALLER);
    return block;
}

EXPORT void *memalign(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    note(COUNTING_MEMALIGN, block, 0, size, CALLER);
    return block;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    note(COUNTING_MEMALIGN, block, 0, size, CALLER);
    return block;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
        return EINVAL;
    void *block = __libc_memalign(alignment, size);
    note(COUNTING_MEMALIGN, block, 0, size, CALLER);
    if (block == NULL) return ENOMEM;
    *out = block;
    return 0;
}

EXPORT void free(void *block) {
    note(COUNTING_FREE, block, 0, 0, CALLER);
    __libc_free(block);
}
