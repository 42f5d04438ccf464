/* drawn.c - programs drawn from a grammar, each with what is true of it:
 *
 *     access-drawn SEED SECONDS [mended]
 *
 * A seed draws who allocates (each thread, one for all, or one that hands out), who fills, who
 * reads and writes, and how, the size of a block, how long blocks live, and whether threads are
 * bound to processors; on several nodes also whether they moved, how many there are, a policy of
 * the program's own, huge pages and the kernel's balancing. There each thread is bound, and sleeps
 * most of the time, for emulated processors share the real ones.
 *
 * Writes what was drawn, and which verdicts are true of it, as one line of JSON at the end: on
 * several nodes that is by where the pages lay that each thread used (drawn_truth.c). What is
 * judged was allocated in subject_make. Nothing is judged here (drawn.py does). */
#include "drawn.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    KIB = 1024,
    ROUND_MS = 150,
    MASK_BITS = 65,
    WORK_NS = 4000000,
    REST_US = 16000,
    LEASE = 64,
    LARGE = 4096 * KIB /* bytes; malloc leaves its pages to who writes first */
};

const char *const drawn_shapes[SHAPES] = {"own",  "parts",   "all",    "table", "element",
                                          "pair", "counter", "beside", "locks", "acceptor"};
static const char *const policy_names[POLICIES] = {"none", "interleave", "bind", "preferred"};

drawn_t drawn;
void *drawn_block[MOST];
drawn_thread_t drawn_thread[MOST];

static atomic_bool over;
static atomic_uint round_number, at_rest; /* even: at work, odd: blocks change */
static _Atomic(void *) offered[MOST];     /* acceptor: what each worker takes next */
static pthread_barrier_t begun, written;  /* threads have allocated; the main thread wrote */
static uint64_t random_state;

static unsigned draw(unsigned below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 20) % below;
}

static bool of_lines(void) {
    return drawn.shape >= ELEMENT && drawn.shape != ACCEPTOR;
}

/* What is drawn on several nodes alone. */
static void draw_nodes(void) {
    static const size_t handed[] = {64, 256, 1 * KIB, 4 * KIB, 32 * KIB};
    drawn.threads = 2 + draw(7);
    drawn.pinned = true;
    if (drawn.shape == ACCEPTOR) drawn.size = handed[draw(5)];
    drawn.one = drawn.shape == OWN || drawn.shape == PAIR ? draw(2) != 0 : true;
    if (drawn.shape == ACCEPTOR || !drawn.one) drawn.rounds = false;
    if (drawn.shape == ACCEPTOR || drawn.shape == TABLE) drawn.fill_by_one = true;
    drawn.writers = 1 + draw(drawn.threads - 1);
    drawn.moved = drawn.shape == OWN && !drawn.one && draw(2) != 0;
    drawn.halo = drawn.shape == PARTS && draw(2) != 0;
    if (drawn.policy != NONE && draw(3) == 0) drawn.policy = PREFERRED;
    drawn.huge = draw(2) != 0;
    drawn.balancing = draw(2) != 0;
    drawn.together = draw(3) == 0 && !of_lines();
    if (drawn.together) {
        drawn.policy = NONE;
        drawn.moved = drawn.shape == OWN && !drawn.one && draw(2) != 0;
        if (drawn.moved) drawn.fill_by_one = true;
    }
    drawn.written = drawn.shape == OWN && !drawn.one && !drawn.moved && draw(2) != 0;
    if (drawn.written && drawn.size < LARGE) drawn.size = LARGE;
    if (!drawn.mended || (of_lines() && drawn.shape != COUNTER)) return;
    /* Each thread allocates what it uses, and stays there. */
    drawn.policy = NONE;
    drawn.moved = drawn.halo = drawn.rounds = drawn.one = drawn.together = drawn.written = false;
    if (drawn.shape != ACCEPTOR) drawn.shape = OWN;
    if (drawn.writes == 0) drawn.writes = 2;
}

static void draw_all(uint64_t seed) {
    static const size_t sizes[] = {64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 16384 * KIB};
    static const size_t strides[] = {4, 8, 16, 64, 128};
    static const shape_t placed[] = {OWN, OWN, PARTS, PARTS, ALL, TABLE, ACCEPTOR};
    random_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (int i = 0; i < 8; i++)
        draw(2);
    drawn.shape = (shape_t)draw(ACCEPTOR);
    if (drawn.nodes > 1 && draw(2) != 0)
        drawn.shape = placed[draw(sizeof placed / sizeof placed[0])];
    drawn.threads = 2 + draw(3);
    drawn.one = draw(2) != 0;
    drawn.fill_by_one = draw(2) != 0;
    drawn.pinned = draw(2) != 0;
    drawn.rounds = draw(3) == 0;
    drawn.size = sizes[draw(5)];
    drawn.stride = strides[draw(5)];
    drawn.writes = draw(2) != 0 ? 2 + draw(8) : 1;
    drawn.writers = 1 + draw(drawn.threads - 1);
    drawn.policy = draw(3) == 0 ? (policy_t)(1 + draw(2)) : NONE;
    if (drawn.shape == TABLE) drawn.writes = 0;
    if (drawn.shape == PAIR) drawn.size = (size_t)8 << draw(5);
    if (drawn.shape == LOCKS) drawn.stride = draw(2) != 0 ? 4 : LINE;
    if (drawn.shape == COUNTER || drawn.shape == BESIDE) drawn.size = 2 * LINE;
    if (drawn.shape == ELEMENT) drawn.size = MOST * drawn.stride;
    if (drawn.shape == LOCKS) drawn.size = 64 * drawn.stride;
    if (drawn.shape != OWN && drawn.shape != PAIR) drawn.one = true;
    if (of_lines()) drawn.writes = 1;
    if (drawn.nodes > 1) draw_nodes();
    if (drawn.shape == OWN && drawn.size < PAGE) drawn.size = PAGE;
    if (drawn.mended && of_lines()) drawn.stride = LINE;
    if (drawn.shape == ELEMENT) drawn.size = MOST * drawn.stride;
    if (drawn.shape == LOCKS) drawn.size = 64 * drawn.stride;
}

static __attribute__((noinline)) void *subject_make(size_t bytes, bool aligned) {
    void *subject = aligned ? aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE) : malloc(bytes);
    if (subject == NULL) abort();
    return subject;
}

static void make_block(unsigned i) {
    bool line = of_lines() && (drawn.shape != PAIR || drawn.mended);
    bool padded = drawn.mended && drawn.shape == PAIR && drawn.size < LINE;
    drawn_block[i] = subject_make(padded ? LINE : drawn.size, line);
    if ((drawn.fill_by_one && !drawn.written) || of_lines()) memset(drawn_block[i], 0, drawn.size);
}

/* Shared blocks are one. */
static unsigned blocks(void) {
    if (drawn.shape == ACCEPTOR) return 0;
    return drawn.shape == OWN || drawn.shape == PAIR ? drawn.threads : 1;
}

static volatile long *word_at(const void *base, size_t offset) {
    return (volatile long *)(uintptr_t)((uintptr_t)base + offset);
}

/* Emulated processors (QEMU before 8.1) do not stop atomic operations at watchpoints. */
static void count_at(void *word) {
    if (drawn.nodes > 1)
        ++*word_at(word, 0);
    else
        atomic_fetch_add((_Atomic long *)word, 1);
}

static void use_line(unsigned me, unsigned turn) {
    char *base = drawn_block[drawn.shape == PAIR ? me : 0];
    size_t beside = drawn.mended ? LINE : 8;
    switch (drawn.shape) {
    case ELEMENT:
        if (drawn.stride == 4)
            ++*(volatile int *)(void *)(base + 4 * me);
        else
            ++*word_at(base, drawn.stride * me);
        break;
    case LOCKS: {
        size_t lock = turn % (LOCK_COUNT / drawn.threads) * drawn.threads + me;
        atomic_int *l = (atomic_int *)(void *)(base + drawn.stride * lock);
        while (atomic_exchange(l, 1) != 0)
            ;
        atomic_store_explicit(l, 0, memory_order_release);
        break;
    }
    case BESIDE:
        if (me < drawn.writers)
            count_at(base);
        else
            (void)*word_at(base, beside);
        break;
    case COUNTER:
        count_at(base);
        break;
    default:
        ++*word_at(base, 0);
    }
}

static void use_block(unsigned me, const char *base, unsigned turn) {
    size_t from, words = drawn_part(me, &from), halo = drawn.halo ? words / 32 : 0;
    for (size_t i = 0; i < 512; i++) {
        size_t at = (turn * 512 + i) % (words + halo);
        volatile long *w = word_at(base, 8 * ((from + at) % (drawn.size / 8)));
        if (drawn.writes != 0 && at < words && (turn + i) % drawn.writes == 0)
            *w = (long)i;
        else
            (void)*w;
    }
}

static void pin(unsigned thread) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(thread % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* On several nodes, which are emulated ones: leaves the processor to others, and to the recorder.
 */
static void breathe(void) {
    static _Thread_local uint64_t begun;
    if (drawn.nodes < 2) return;
    uint64_t now = now_ns();
    if (begun == 0) begun = now;
    if (now - begun < WORK_NS) return;
    usleep(REST_US);
    begun = now_ns();
}

/* A worker of an acceptor: takes a block, uses it for a while, and frees it. */
static void serve(unsigned me) {
    while (!atomic_load(&over)) {
        void *taken =
            drawn.mended ? subject_make(drawn.size, true) : atomic_exchange(&offered[me], NULL);
        if (taken == NULL) {
            usleep(1000);
            continue;
        }
        for (unsigned turn = 0; turn < LEASE; turn++, breathe())
            use_block(me, taken, turn);
        drawn_thread[me].used += LEASE;
        drawn_look_at(me, taken, LEASE);
        free(taken);
    }
}

static void use_own(unsigned me) {
    unsigned seen = 0;
    for (unsigned turn = 0; !atomic_load(&over); turn++) {
        unsigned now = atomic_load(&round_number);
        if (now % 2 != 0) {
            if (now != seen) atomic_fetch_add(&at_rest, 1);
            seen = now;
            usleep(100);
            continue;
        }
        if (of_lines())
            for (unsigned i = 0; i < 256; i++)
                use_line(me, turn * 256 + i);
        else
            use_block(me, drawn_block[drawn.shape == OWN ? me : 0], turn);
        drawn_thread[me].used++;
        breathe();
    }
}

static void *work(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    unsigned last = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) - 1;
    if (drawn.pinned) pin(drawn.together && !drawn.moved ? last : me);
    if (!drawn.one && !drawn.rounds && drawn.shape != ACCEPTOR) make_block(me);
    if (drawn.moved) pin(drawn.together ? last : me + 1);
    drawn_thread[me].node = drawn_node();
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&written);
    if (drawn.shape == ACCEPTOR)
        serve(me);
    else
        use_own(me);
    return NULL;
}

static void say(uint64_t seed) {
    printf("{\"seed\": %llu, \"shape\": \"%s\", \"nodes\": %u, \"threads\": %u, \"mended\": %d, "
           "\"one\": %d, \"filled\": %d, \"pinned\": %d, \"moved\": %d, \"rounds\": %d, "
           "\"halo\": %d, \"together\": %d, \"written\": %d, \"huge\": %d, \"balancing\": %d, "
           "\"size\": %zu, \"stride\": %zu, \"writes\": %u, \"policy\": \"%s\", ",
           (unsigned long long)seed, drawn_shapes[drawn.shape], drawn.nodes, drawn.threads,
           drawn.mended, drawn.one, drawn.fill_by_one, drawn.pinned, drawn.moved, drawn.rounds,
           drawn.halo, drawn.together, drawn.written, drawn.huge, drawn.balancing, drawn.size,
           drawn.stride, drawn.writes, policy_names[drawn.policy]);
    drawn_say_truth();
    printf("}\n");
    fflush(stdout);
}

/* Threads rest: where the pages lie now is noted, for the kernel may move them; where blocks live
 * for a round, all are other ones then. */
static void next_round(void) {
    atomic_store(&at_rest, 0);
    atomic_fetch_add(&round_number, 1);
    while (atomic_load(&at_rest) < drawn.threads)
        usleep(100);
    drawn_look();
    for (unsigned i = 0; drawn.rounds && i < blocks(); i++)
        free(drawn_block[i]);
    for (unsigned i = 0; drawn.rounds && i < blocks(); i++)
        make_block(i);
    atomic_fetch_add(&round_number, 1);
}

static void hand_out(void) {
    for (unsigned i = 0; i < drawn.threads; i++) {
        if (drawn.mended || atomic_load(&offered[i]) != NULL) continue;
        void *next = subject_make(drawn.size, true);
        memset(next, 0, drawn.size);
        atomic_store(&offered[i], next);
    }
    usleep(1000);
}

static void set_kernel(void) {
    static const char path[] = "/proc/sys/kernel/numa_balancing";
    unsigned long nodes = drawn.policy == INTERLEAVE ? 15 : 1;
    static const int number[POLICIES] = {0, 3, 2, 1};
    if (drawn.policy != NONE) /* (there may be one node, or no such call) */
        syscall(SYS_set_mempolicy, number[drawn.policy], &nodes, (unsigned long)MASK_BITS);
    if (drawn.nodes < 2) return;
    pin(0);
    if (!drawn.huge) prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, drawn.balancing ? "1" : "0", 1) != 1) perror(path);
    close(fd);
}

static unsigned count_nodes(void) {
    unsigned nodes = 0;
    char path[64];
    for (unsigned i = 0; i < MOST; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u", i);
        nodes += access(path, F_OK) == 0;
    }
    return nodes;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: access-drawn SEED SECONDS [mended]\n");
        return 2;
    }
    drawn.mended = argc > 3 && strcmp(argv[3], "mended") == 0;
    drawn.nodes = count_nodes();
    uint64_t seed = strtoull(argv[1], NULL, 10);
    draw_all(seed);
    set_kernel();
    if (drawn.rounds) drawn.one = true;
    for (unsigned i = 0; drawn.one && i < blocks(); i++)
        make_block(i);
    pthread_t thread[MOST];
    pthread_barrier_init(&begun, NULL, drawn.threads + 1);
    pthread_barrier_init(&written, NULL, drawn.threads + 1);
    for (unsigned i = 0; i < drawn.threads; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i) != 0) return 1;
    pthread_barrier_wait(&begun);
    for (unsigned i = 0; drawn.written && i < blocks(); i++)
        memset(drawn_block[i], 0, drawn.size);
    pthread_barrier_wait(&written);
    uint64_t end = now_ns() + (uint64_t)strtol(argv[2], NULL, 10) * 1000000000U, next = 0;
    while (now_ns() < end) {
        if (drawn.shape == ACCEPTOR)
            hand_out();
        else
            usleep(ROUND_MS * 1000);
        if (drawn.shape != ACCEPTOR && now_ns() >= next) {
            next_round();
            next = now_ns() + ROUND_MS * 1000000U;
        }
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < drawn.threads; i++)
        pthread_join(thread[i], NULL);
    drawn_look();
    say(seed);
    return 0;
}
