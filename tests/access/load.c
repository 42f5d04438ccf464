/* load.c - a program with known accesses, for record.c: what each thread touches, and from where,
 * is said on standard output; then it goes on until standard input ends.
 *
 *   load team     thread "writer" writes all words of one block, "reader" reads all of another
 *   load reuse    one thread takes, writes and frees blocks of two sites in turn: one address
 *   load renew    the same of one site, without a pause
 *   load gone     one thread uses blocks of one site; told to, it ends them and uses another
 *   load update   one thread adds to all words of one block, each by one instruction, in turn a
 *                 locked one
 *   load pool     the same with blocks of a pool of its own, which lie in one block of the heap
 *   load kinds    one thread touches pages of all kinds of memory, once
 *   load fork     a child does what "kinds" does, and ends
 * Lines: NAME ADDRESS BYTES, in hexadecimal; "tid NAME N". "ready" ends them. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "numalloc/numalloc.h"

/* Preloaded, not linked. */
#pragma weak numalloc_pool_create
#pragma weak numalloc_pool_alloc
#pragma weak numalloc_pool_free
#pragma weak numalloc_pool_destroy

#define BLOCK (16u << 10)
#define PAGES 64u
#define PAGE  4096u

static void say(const char *name, const volatile void *at, size_t bytes) {
    printf("%s %lx %zx\n", name, (unsigned long)(uintptr_t)at, bytes);
}

static void say_thread(const char *name) {
    prctl(PR_SET_NAME, name);
    printf("tid %s %ld\n", name, syscall(SYS_gettid));
}

static void pause_us(long us) {
    struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

static bool told_to_end(void) {
    struct pollfd p = {.fd = 0, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

static pthread_barrier_t barrier;
static _Atomic bool over, met, located;

/* ---- team ---- */

__attribute__((noinline)) static volatile uint64_t *alloc_written(void) {
    volatile uint64_t *block = malloc(BLOCK);
    __asm__("" ::: "memory");
    return block;
}

__attribute__((noinline)) static volatile uint64_t *alloc_read(void) {
    volatile uint64_t *block = calloc(1, BLOCK);
    __asm__("" ::: "memory");
    return block;
}

static volatile uint64_t *written, *read_only;

__attribute__((noinline)) static void write_all(void) {
    for (size_t i = 0; i < BLOCK / 8; i++)
        written[i] = i;
}

__attribute__((noinline)) static uint64_t read_all(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK / 8; i++)
        sum += read_only[i];
    return sum;
}

/* The writer comes by three calls, the reader by so many with such frames that a copy of 1 KiB of
 * the stack has few of them. */
__attribute__((noinline)) static void write_by(unsigned calls) {
    if (calls == 0)
        write_all();
    else
        write_by(calls - 1);
    __asm__("" ::: "memory"); /* no tail call */
}

__attribute__((noinline)) static uint64_t read_by(unsigned calls) {
    volatile unsigned char room[200];
    room[0] = (unsigned char)calls;
    uint64_t sum = calls == 0 ? read_all() : read_by(calls - 1);
    return sum + room[0];
}

static void *writer(void *unused) {
    say_thread("writer");
    pthread_barrier_wait(&barrier);
    while (!over) {
        write_by(2);
        pause_us(300);
    }
    return unused;
}

static void *reader(void *unused) {
    say_thread("reader");
    pthread_barrier_wait(&barrier);
    while (!over) {
        read_by(20);
        pause_us(300);
    }
    return unused;
}

/* ---- update ---- */

static volatile uint64_t *updated;

__attribute__((noinline)) static void update_all(void) {
    for (size_t i = 0; i < BLOCK / 8; i += 2) {
#if defined(__x86_64__)
        __asm__ volatile("addq $1, %0" : "+m"(updated[i]));
#else
        updated[i]++;
#endif
        __atomic_add_fetch(&updated[i + 1], 1, __ATOMIC_RELAXED);
    }
}

static void *updater(void *unused) {
    say_thread("updater");
    pthread_barrier_wait(&barrier);
    while (!over) {
        update_all();
        pause_us(300);
    }
    return unused;
}

/* ---- reuse ---- */

__attribute__((noinline)) static volatile uint64_t *alloc_one(void) {
    volatile uint64_t *block = malloc(1024);
    __asm__("" ::: "memory");
    return block;
}

__attribute__((noinline)) static volatile uint64_t *alloc_two(void) {
    volatile uint64_t *block = malloc(1024);
    __asm__("" ::: "memory");
    return block;
}

/* Of 1,024 bytes, or a cell of 256. */
static size_t used_words = 128;

__attribute__((noinline)) static void use_one(volatile uint64_t *block) {
    for (size_t i = 0; i < used_words; i++)
        block[i] = i;
}

__attribute__((noinline)) static void use_two(volatile uint64_t *block) {
    for (size_t i = 0; i < used_words; i++)
        block[i] = 2 * i;
}

static bool one_site;

static void *reuser(void *unused) {
    say_thread("reuser");
    pthread_barrier_wait(&barrier);
    for (unsigned n = 0; !over; n++) {
        bool first = one_site || n % 2 == 0;
        volatile uint64_t *block = first ? alloc_one() : alloc_two();
        if (first)
            use_one(block);
        else
            use_two(block);
        free((void *)(uintptr_t)block);
        if (!one_site && n % 8 == 7) pause_us(100);
    }
    return unused;
}

/* ---- gone ---- */

#define GONE 16u

/* More than are watched at a time. All the others are freed unseen, and nothing follows there. */
static void *goner(void *unused) {
    volatile uint64_t *block[GONE];
    say_thread("goner");
    for (unsigned i = 0; i < GONE; i++)
        block[i] = alloc_one();
    located = true;
    while (!met) {
        for (unsigned i = 0; i < GONE; i++)
            use_one(block[i]);
        pause_us(300);
    }
    volatile uint64_t *stays = alloc_two();
    for (unsigned i = 0; i < GONE; i++)
        free((void *)(uintptr_t)block[i]);
    pthread_barrier_wait(&barrier);
    while (!over) {
        use_two(stays);
        pause_us(300);
    }
    return unused;
}

/* ---- pool: cells of one size, taken from a list of free ones ---- */

#define CELL  256u
#define CELLS (BLOCK / CELL)
#define HELD  6u

typedef union cell {
    union cell *next;
    volatile uint64_t words[CELL / 8];
} cell_t;

static struct {
    numalloc_pool_t *announced;
    cell_t *chunk, *free;
} pool;

static void pool_make(void) {
    pool.announced = numalloc_pool_create("cells");
    pool.chunk = malloc(BLOCK);
    if (pool.announced == NULL || pool.chunk == NULL) exit(3);
    for (size_t i = 0; i < CELLS; i++) {
        pool.chunk[i].next = pool.free;
        pool.free = &pool.chunk[i];
    }
}

/* Inlined, so that its callers are the sites. */
static inline __attribute__((always_inline)) cell_t *pool_take(void) {
    cell_t *cell = pool.free;
    pool.free = cell->next;
    numalloc_pool_alloc(pool.announced, cell, CELL);
    __asm__("" ::: "memory");
    return cell;
}

static void pool_give(cell_t *cell) {
    numalloc_pool_free(pool.announced, cell);
    cell->next = pool.free;
    pool.free = cell;
}

__attribute__((noinline)) static cell_t *take_one(void) {
    return pool_take();
}

__attribute__((noinline)) static cell_t *take_two(void) {
    return pool_take();
}

/* What is held moves on by one cell a round, so that each cell comes to both sites. */
static void *pooler(void *unused) {
    cell_t *held[HELD] = {NULL};
    say_thread("pooler");
    pthread_barrier_wait(&barrier);
    for (unsigned n = 0; !over; n++) {
        cell_t *cell = n % 2 == 0 ? take_one() : take_two();
        for (unsigned again = 0; again < 4; again++)
            if (n % 2 == 0)
                use_one(cell->words);
            else
                use_two(cell->words);
        unsigned at = n % HELD;
        if (held[at] != NULL) pool_give(held[at]);
        held[at] = cell;
        if (n % 8 == 7) pause_us(100);
    }
    numalloc_pool_destroy(pool.announced);
    return unused;
}

/* ---- kinds ---- */

static unsigned char global[PAGES * PAGE] __attribute__((aligned(PAGE)));

/* On the stack, so that it has a frame where it is compiled with frame pointers. */
__attribute__((noinline)) static void touch(volatile unsigned char *at) {
    for (volatile size_t i = 0; i < PAGES; i++)
        at[i * PAGE] = 1;
}

/* A stack deeper than the thread has used so far. */
__attribute__((noinline)) static void touch_stack(void) {
    volatile unsigned char deep[PAGES * PAGE];
    deep[0] = 0;
    say("stack", deep, sizeof deep);
    touch(deep);
}

/* LATE: the recorder reads what is mapped before it comes to know of this thread, whose stack it
 * meets much later. */
static void *toucher(void *unused) {
    bool late = getenv("LATE") != NULL;
    if (late) sleep(2);
    say_thread("toucher");
    volatile unsigned char *block = malloc(PAGES * PAGE * 8);
    volatile unsigned char *anonymous =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Read-only, so that the neighbour is no reason to be merged with another mapping. */
    char name[] = "/tmp/numalloc-access-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || ftruncate(fd, PAGES * PAGE) != 0 || anonymous == MAP_FAILED) exit(3);
    volatile unsigned char *file =
        mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unlink(name);
    if (file == MAP_FAILED || block == NULL) exit(3);
    madvise((void *)(uintptr_t)file, PAGES * PAGE, MADV_RANDOM);
    say("heap", block, PAGES * PAGE * 8);
    say("anonymous", anonymous, PAGES * PAGE);
    say("file", file, PAGES * PAGE);
    say("data", global, sizeof global);
    located = true;
    /* Until the recorder is known to see this thread: one more page each time. */
    while (!met) {
        volatile unsigned char *page =
            mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED) page[0] = 1;
        munmap((void *)(uintptr_t)page, PAGE);
        pause_us(10000);
    }
    touch(block + PAGE);
    touch(anonymous);
    touch(file);
    touch(global);
    if (late) sleep(3);
    touch_stack();
    pthread_barrier_wait(&barrier);
    while (!over)
        pause_us(1000);
    return unused;
}

static void wait_for_line(void) {
    char c;
    while (read(0, &c, 1) == 1 && c != '\n') {
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    pthread_t thread[2];
    unsigned threads = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_barrier_init(&barrier, NULL, strcmp(what, "team") == 0 ? 3 : 2);
    if (strcmp(what, "team") == 0) {
        written = alloc_written();
        read_only = alloc_read();
        say("written", written, BLOCK);
        say("read", read_only, BLOCK);
        say("write_all", (void *)(uintptr_t)write_all, 128);
        say("read_all", (void *)(uintptr_t)read_all, 128);
        pthread_create(&thread[threads++], NULL, writer, NULL);
        pthread_create(&thread[threads++], NULL, reader, NULL);
    } else if (strcmp(what, "update") == 0) {
        updated = calloc(1, BLOCK);
        say("updated", updated, BLOCK);
        say("update_all", (void *)(uintptr_t)update_all, 128);
        pthread_create(&thread[threads++], NULL, updater, NULL);
    } else if (strcmp(what, "reuse") == 0 || strcmp(what, "renew") == 0) {
        one_site = strcmp(what, "renew") == 0;
        say("use_one", (void *)(uintptr_t)use_one, 64);
        say("use_two", (void *)(uintptr_t)use_two, 64);
        pthread_create(&thread[threads++], NULL, reuser, NULL);
    } else if (strcmp(what, "gone") == 0) {
        say("use_one", (void *)(uintptr_t)use_one, 64);
        say("use_two", (void *)(uintptr_t)use_two, 64);
        pthread_create(&thread[threads++], NULL, goner, NULL);
    } else if (strcmp(what, "pool") == 0) {
        used_words = CELL / 8;
        pool_make();
        say("chunk", pool.chunk, BLOCK);
        say("use_one", (void *)(uintptr_t)use_one, 64);
        say("use_two", (void *)(uintptr_t)use_two, 64);
        pthread_create(&thread[threads++], NULL, pooler, NULL);
    } else if (strcmp(what, "kinds") == 0 || strcmp(what, "fork") == 0) {
        /* A thread's stack may get a huge page at its first touch, as its address happens to be. */
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        if (what[0] == 'f') {
            pid_t child = fork();
            if (child != 0) {
                int status = 1;
                waitpid(child, &status, 0);
                return status == 0 ? 0 : 4;
            }
        }
        pthread_create(&thread[threads++], NULL, toucher, NULL);
    } else {
        return 2;
    }
    if (what[0] == 'k' || what[0] == 'g') {
        while (!located)
            pause_us(1000);
        printf("made\n");
        wait_for_line();
    }
    met = true;
    pthread_barrier_wait(&barrier);
    printf("ready\n");
    while (what[0] != 'f' && !told_to_end())
        pause_us(10000);
    over = true;
    while (threads > 0)
        pthread_join(thread[--threads], NULL);
    return 0;
}
