/* turns.c - threads, their processors and clocks, and who has the turn. */
#include "bench/cores/model.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t cpu_clock[CPUS_MAX]; /* until when its threads had it */
static uint64_t orders;

uint64_t cores_random(void) {
    uint64_t z = machine.seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool allowed(const struct thread *thread, int cpu) {
    return thread->allowed[cpu / 64] >> (cpu % 64) & 1;
}

/* The processor with the fewest threads: the first such, or of the node that has the fewest. */
void turns_place(struct thread *thread) {
    int threads[CPUS_MAX] = {0}, of_node[NODES_MAX] = {0}, best = -1;
    for (int i = 0; i < machine.threads_used; i++) {
        const struct thread *other = &machine.thread[i];
        if (other->state == GONE || other == thread) continue;
        threads[other->cpu]++;
        of_node[node_of(other->cpu)]++;
    }
    for (int cpu = 0; cpu < machine.cpus; cpu++) {
        if (!allowed(thread, cpu)) continue;
        if (best < 0 || threads[cpu] < threads[best] ||
            (machine.spread && threads[cpu] == threads[best] &&
             of_node[node_of(cpu)] < of_node[node_of(best)]))
            best = cpu;
    }
    thread->cpu = best < 0 ? 0 : best;
}

struct thread *turns_new(int index, int by) {
    if (index >= THREADS_MAX) {
        fprintf(stderr, "cores: more than %d threads at a time\n", THREADS_MAX);
        exit(2);
    }
    struct thread *thread = &machine.thread[index];
    static struct counts counts[THREADS_MAX][2];
    memset(thread, 0, sizeof *thread);
    memset(counts[index], 0, sizeof counts[index]);
    thread->counts = &counts[index][0];
    thread->before = &counts[index][1];
    if (index >= machine.threads_used) machine.threads_used = index + 1;
    sem_init(&thread->turn, 0, 0);
    thread->index = index;
    if (by < 0) {
        for (int cpu = 0; cpu < machine.cpus; cpu++)
            thread->allowed[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    } else {
        const struct thread *parent = &machine.thread[by];
        thread->clock = parent->clock + (uint64_t)cost.woken * CYCLE;
        thread->policy = parent->policy;
        thread->policy_nodes = parent->policy_nodes;
        memcpy(thread->allowed, parent->allowed, sizeof thread->allowed);
    }
    turns_place(thread);
    thread->state = READY;
    int alive = 0;
    for (int i = 0; i < machine.threads_used; i++)
        alive += machine.thread[i].state != GONE;
    if (alive > machine.threads_peak) machine.threads_peak = alive;
    machine.limit = 0; /* the newcomer counts from now on */
    return thread;
}

/* When it could run; NEVER if only another can wake it. */
static uint64_t when(const struct thread *thread) {
    if (thread->state == GONE) return NEVER;
    uint64_t at = thread->state == WAITING ? thread->deadline : thread->clock;
    return at < cpu_clock[thread->cpu] ? cpu_clock[thread->cpu] : at;
}

/* Whose turn it is, and until when. Where two clocks are the same the seed says who is first. */
static struct thread *next(void) {
    uint64_t first = NEVER, second = NEVER, salt = machine.seed;
    struct thread *chosen = NULL;
    for (int i = 0; i < machine.threads_used; i++) {
        struct thread *thread = &machine.thread[i];
        uint64_t at = when(thread);
        if (at == NEVER) continue;
        if (at < first || (at == first &&
                           (((unsigned)i ^ salt) & 63) < (((unsigned)chosen->index ^ salt) & 63))) {
            second = first;
            first = at;
            chosen = thread;
        } else if (at < second) {
            second = at;
        }
    }
    if (chosen == NULL) {
        fprintf(stderr, "cores: every thread waits for another\n");
        report_write(3);
        _Exit(3);
    }
    if (chosen->state == WAITING) {
        chosen->timed_out = true;
        chosen->state = READY;
    }
    if (chosen->clock < first) {
        chosen->waited += first - chosen->clock;
        chosen->clock = first;
    }
    uint64_t quantum = (uint64_t)machine.quantum * CYCLE;
    quantum = quantum / 2 + cores_random() % quantum;
    machine.limit = second == NEVER ? NEVER : second + quantum;
    return chosen;
}

static void await(struct thread *thread) {
    while (sem_wait(&thread->turn) != 0)
        ;
}

void turns_pass(struct thread *thread) {
    cpu_clock[thread->cpu] = thread->clock;
    struct thread *chosen = next();
    if (chosen == thread) return;
    sem_post(&chosen->turn);
    await(thread);
}

void turns_begin(struct thread *thread) {
    await(thread);
}

void turns_end(struct thread *thread) {
    cpu_clock[thread->cpu] = thread->clock;
    thread->state = GONE;
    sem_post(&next()->turn);
}

void turns_wait(struct thread *thread, uint64_t word, uint32_t bits, uint64_t deadline) {
    uint64_t began = thread->clock, waited = thread->waited;
    thread->state = WAITING;
    thread->word = word;
    thread->bits = bits;
    thread->deadline = deadline;
    thread->timed_out = false;
    thread->order = orders++;
    turns_pass(thread);
    thread->waited = waited + thread->clock - began;
}

/* Who has waited longest for the word, or NULL. */
static struct thread *waiter(uint64_t word, uint32_t bits) {
    struct thread *oldest = NULL;
    for (int i = 0; i < machine.threads_used; i++) {
        struct thread *thread = &machine.thread[i];
        if (thread->state == WAITING && thread->word == word && (thread->bits & bits) != 0 &&
            (oldest == NULL || thread->order < oldest->order))
            oldest = thread;
    }
    return oldest;
}

int turns_wake(struct thread *by, uint64_t word, uint32_t bits, int most) {
    int woken = 0;
    for (struct thread *thread; woken < most && (thread = waiter(word, bits)) != NULL; woken++) {
        turns_spend(by, cost.wake);
        thread->state = READY;
        uint64_t at = by->clock + (uint64_t)cost.woken * CYCLE;
        if (thread->clock < at) thread->clock = at;
    }
    if (woken > 0) machine.limit = 0;
    return woken;
}

void turns_requeue(uint64_t from, uint64_t to, int most) {
    for (struct thread *thread; most-- > 0 && (thread = waiter(from, UINT32_MAX)) != NULL;)
        thread->word = to;
}

/* Lets the thread's clock pass. */
void turns_until(struct thread *thread, uint64_t clock, bool waiting) {
    if (clock <= thread->clock) return;
    if (waiting) thread->waited += clock - thread->clock;
    thread->clock = clock;
    if (thread->clock > machine.limit) turns_pass(thread);
}
