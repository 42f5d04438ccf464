/* model.h - the machine that bench/cores makes a program believe in, and what its parts share.
 *
 * One thread of the program runs at a time: the one that has the turn. Only it touches what is
 * here, so there are no locks. Each thread has a clock of its own. The turn is always with the one
 * whose clock is behind, until it is a quantum past the next one's: locks, spinning and hand-overs
 * happen in the order in which they would on so many processors, to within a quantum.
 *
 *   turns.c    threads, their processors and clocks, who has the turn, waiting
 *   lines.c    pages and their homes, caches, lines that move between them, what it costs
 *   syscalls.c system calls: what they answer and cost
 *   report.c   the figures, as JSON
 *   plugin.c   instructions, as QEMU translates and runs them
 *
 * GPL, version 2 or later, as QEMU is. */
#ifndef NUMALLOC_BENCH_CORES_MODEL_H
#define NUMALLOC_BENCH_CORES_MODEL_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The unit of clocks is a sixteenth of a cycle. A cycle is 0.4 ns (2.5 GHz): 40 units a ns. */
enum { CYCLE = 16, UNITS_PER_NS = 40 };

/* What things cost, in cycles (the first in units). docs/cores.md says where each comes from. A
 * load that misses is waited for in full; a store goes into the store buffer, which only a locked
 * instruction, a system call or `depth` waits for. Lines taken one after the other cost a part. */
#define CORES_COSTS(X)                                                                             \
    X(instruction, 5, "units of an instruction: 3.2 a cycle")                                      \
    X(l2, 6, "second level: 14 cycles, of which others hide most")                                 \
    X(l3, 60, "third level, and a clean line that another processor of the node has")              \
    X(near, 160, "a line from another processor's cache, same node")                               \
    X(far, 350, "a line from another processor's cache, other node")                               \
    X(memory, 250, "memory of the own node")                                                       \
    X(remote, 400, "memory of another node")                                                       \
    X(depth, 600, "how far stores may lag behind before the next one waits")                       \
    X(stream, 6, "divisor: a line whose neighbour was taken just before")                          \
    X(locked, 18, "a locked instruction, beside its line")                                         \
    X(pause, 60, "the PAUSE instruction")                                                          \
    X(vdso, 60, "what the vDSO answers: clocks, getcpu")                                           \
    X(call, 250, "a system call: there and back")                                                  \
    X(mapping, 1500, "a call that changes mappings, under the kernel's lock of them")              \
    X(drop, 60, "each page that such a call gives back")                                           \
    X(shootdown, 2000, "telling other processors of a mapping that is gone")                       \
    X(fault, 1200, "a page fault, with clearing the page")                                         \
    X(clone, 15000, "a new thread")                                                                \
    X(sleep, 1200, "giving up the processor")                                                      \
    X(wake, 1500, "waking another thread, for the one that wakes")                                 \
    X(woken, 5000, "from then until the other runs")                                               \
    X(ask, 2500, "a call that would wait for a file is asked again so often")

struct costs {
#define FIELD(name, value, what) int64_t name;
    CORES_COSTS(FIELD)
#undef FIELD
};
extern struct costs cost;

enum { CPUS_MAX = 256, NODES_MAX = 16, THREADS_MAX = 2048, CALLS_MAX = 512 };
enum { LINE = 64, PAGE = 4096, LINES_PER_PAGE = PAGE / LINE };
#define NEVER UINT64_MAX

/* What is counted. Of a thread: while it is between its marks; and of one that it starts then, all.
 */
struct counts {
    uint64_t operations, instructions, busy, waiting; /* the last two in units */
    uint64_t near, far;                               /* lines from another processor's cache */
    uint64_t l3, memory, remote;                      /* lines from elsewhere */
    uint64_t locked, faults, dropped;
    uint64_t calls[CALLS_MAX];
};

enum state { GONE, READY, WAITING, ASKING };

struct thread {
    uint64_t clock, stores; /* now; when the store buffer is empty */
    uint64_t waited;
    enum state state;
    int index, cpu;
    uint64_t deadline, word; /* WAITING: until when, on which word */
    uint32_t bits;
    uint64_t order; /* WAITING: who came first */
    bool timed_out, counted;
    struct block *block; /* which it runs, since when of its busy time */
    uint64_t block_began;
    int policy;
    uint64_t policy_nodes;
    uint64_t allowed[CPUS_MAX / 64];
    sem_t turn;
    struct counts *counts, *before; /* all; when it was marked */
};

struct machine {
    int cpus, nodes;
    bool spread; /* new threads go to the next node, not to the next processor */
    uint64_t seed;
    int quantum; /* cycles, on average */
    const uintptr_t *base;
    const char *out;
    uint64_t limit; /* the clock at which the running thread passes the turn on */
    uint64_t pages, pages_peak;
    int threads_used; /* of `thread`, from the first */
    int threads_peak;
    struct counts sum;
    bool marked; /* the program has marks: what is outside is not counted */
    struct thread thread[THREADS_MAX];
};
extern struct machine machine;

static inline int node_of(int cpu) {
    return cpu / (machine.cpus / machine.nodes);
}
static inline void *in_qemu(uint64_t address) {
    return (void *)(uintptr_t)(address + *machine.base);
}
/* SplitMix64. */
uint64_t cores_random(void);

/* turns.c */
struct thread *turns_new(int index, int by);
void turns_begin(struct thread *thread);
void turns_end(struct thread *thread);
void turns_pass(struct thread *thread); /* the clock passed the limit, or the state is not READY */
void turns_wait(struct thread *thread, uint64_t word, uint32_t bits, uint64_t deadline);
int turns_wake(struct thread *by, uint64_t word, uint32_t bits, int most);
void turns_requeue(uint64_t from, uint64_t to, int most);
void turns_until(struct thread *thread, uint64_t clock, bool waiting);
void turns_place(struct thread *thread);
static inline void turns_spend(struct thread *thread, int64_t cycles) {
    thread->clock += (uint64_t)cycles * CYCLE;
}

/* lines.c */
void lines_init(size_t l2_kib, size_t l3_kib);
void lines_access(struct thread *thread, uint64_t address, unsigned size, bool store, bool locked,
                  uint64_t pc);
uint64_t lines_drop(uint64_t address, uint64_t size); /* pages given back */
void lines_move(uint64_t from, uint64_t to, uint64_t size);
void lines_policy(uint64_t address, uint64_t size, int mode, uint64_t nodes);
int lines_home(uint64_t address); /* -1: not there */
void lines_migrate(uint64_t address, int node);
void lines_kernel(struct thread *thread); /* the word of the kernel's lock of mappings */
void lines_forget(void);                  /* which lines moved so far */
void lines_report(FILE *out);

/* syscalls.c */
bool calls_before(int index, int number, int64_t *args, int64_t *answer);
void calls_after(int index, int number, const int64_t *args, int64_t answer);
const char *calls_name(int number);

/* plugin.c */
void plugin_report(FILE *out);

/* report.c */
/* It begins now. */
void report_new(struct thread *thread, bool counted);
void report_begin(struct thread *thread);
void report_end(struct thread *thread, uint64_t operations);
void report_write(int status);

#endif
