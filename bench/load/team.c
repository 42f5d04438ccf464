/* team.c - worker threads that start a phase together.
 *
 * A phase is announced under a mutex (sleeping workers cost nothing between phases). Woken workers
 * then meet at a spinning gate, because a futex wakes them tens of microseconds apart; the last one
 * to arrive opens it. */
#include "bench/load/team.h"

#include "bench/system/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CACHE_LINE 64

typedef struct worker {
    na_team_t *team;
    unsigned number;
    pthread_t thread;
    uint64_t begin, end; /* of the latest phase, nanoseconds */
} __attribute__((aligned(CACHE_LINE))) worker_t;

struct na_team {
    pthread_mutex_t mutex;
    pthread_cond_t announced, finished;
    uint64_t phase;   /* under mutex: number of the phase announced */
    unsigned running; /* under mutex: workers that have not finished it */
    na_team_fn *fn;   /* under mutex; NULL: leave */
    void *arg;
    unsigned threads;
    bool crowded; /* more threads than CPUs: give way while waiting */
    na_pin_t pin;
    unsigned arrived __attribute__((aligned(CACHE_LINE))); /* atomic: workers at the gate */
    uint64_t opened;                                       /* atomic: last phase let through */
    worker_t worker[];
};

static void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("" : : : "memory");
#endif
}

static unsigned usable_cpus(cpu_set_t *set) {
    if (sched_getaffinity(0, sizeof *set, set) != 0) { /* more CPUs than a cpu_set_t can name */
        CPU_ZERO(set);
        return 0;
    }
    return (unsigned)CPU_COUNT(set);
}

unsigned na_team_threads(uint64_t knob) {
    cpu_set_t set;
    if (knob != 0) return (unsigned)knob;
    unsigned cpus = usable_cpus(&set);
    return cpus == 0 ? 1 : cpus;
}

static void pin_to(const cpu_set_t *usable, unsigned place) {
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, usable) || place-- != 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0)
            na_bench_fail("cannot bind a thread to CPU %zu; use --pin off", cpu);
        return;
    }
}

void na_team_pin_self(na_pin_t pin) {
    cpu_set_t set;
    if (pin != NA_PIN_OFF && usable_cpus(&set) != 0) pin_to(&set, 0);
}

static void wait_at_gate(na_team_t *team, uint64_t phase) {
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == team->threads) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&team->opened, phase, __ATOMIC_RELEASE);
        return;
    }
    for (unsigned spins = 0; __atomic_load_n(&team->opened, __ATOMIC_ACQUIRE) != phase; spins++) {
        if (team->crowded || spins % 4096 == 4095)
            sched_yield(); /* others share the machine: never starve the one still missing */
        else
            cpu_relax();
    }
}

static void *team_work(void *argument) {
    worker_t *self = argument;
    na_team_t *team = self->team;
    cpu_set_t set;
    unsigned cpus = usable_cpus(&set);
    if (cpus != 0 &&
        (team->pin == NA_PIN_ON || (team->pin == NA_PIN_AUTO && cpus >= team->threads)))
        pin_to(&set, self->number % cpus);
    for (uint64_t phase = 1;; phase++) {
        pthread_mutex_lock(&team->mutex);
        while (team->phase != phase)
            pthread_cond_wait(&team->announced, &team->mutex);
        na_team_fn *fn = team->fn;
        void *arg = team->arg;
        pthread_mutex_unlock(&team->mutex);
        if (fn == NULL) return NULL;
        wait_at_gate(team, phase);
        self->begin = na_bench_now();
        fn(arg, self->number);
        self->end = na_bench_now();
        pthread_mutex_lock(&team->mutex);
        if (--team->running == 0) pthread_cond_signal(&team->finished);
        pthread_mutex_unlock(&team->mutex);
    }
}

static size_t team_bytes(unsigned threads) {
    return sizeof(na_team_t) + threads * sizeof(worker_t);
}

na_team_t *na_team_start(unsigned threads, na_pin_t pin) {
    na_team_t *team = na_bench_map(team_bytes(threads));
    cpu_set_t set;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->announced, NULL);
    pthread_cond_init(&team->finished, NULL);
    team->threads = threads;
    team->pin = pin;
    team->crowded = usable_cpus(&set) < threads;
    for (unsigned i = 0; i < threads; i++) {
        worker_t *worker = &team->worker[i];
        worker->team = team;
        worker->number = i;
        int error = pthread_create(&worker->thread, NULL, team_work, worker);
        if (error != 0)
            na_bench_fail("cannot start thread %u of %u: %s; use fewer --threads", i + 1, threads,
                          strerror(error));
    }
    return team;
}

static void announce(na_team_t *team, na_team_fn *fn, void *arg) {
    pthread_mutex_lock(&team->mutex);
    team->fn = fn;
    team->arg = arg;
    team->running = team->threads;
    team->phase++;
    pthread_cond_broadcast(&team->announced);
    if (fn != NULL)
        while (team->running != 0)
            pthread_cond_wait(&team->finished, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

uint64_t na_team_run(na_team_t *team, na_team_fn *fn, void *arg) {
    announce(team, fn, arg);
    uint64_t begin = UINT64_MAX, end = 0;
    for (unsigned i = 0; i < team->threads; i++) {
        if (team->worker[i].begin < begin) begin = team->worker[i].begin;
        if (team->worker[i].end > end) end = team->worker[i].end;
    }
    return end - begin;
}

uint64_t na_team_elapsed(const na_team_t *team, unsigned worker) {
    return team->worker[worker].end - team->worker[worker].begin;
}

double na_team_time(unsigned threads, double own, double elapsed) {
    cpu_set_t set;
    unsigned cpus = usable_cpus(&set);
    return cpus == 0 || cpus >= threads ? own : elapsed * cpus;
}

void na_team_stop(na_team_t *team) {
    announce(team, NULL, NULL);
    for (unsigned i = 0; i < team->threads; i++)
        pthread_join(team->worker[i].thread, NULL);
    pthread_cond_destroy(&team->announced);
    pthread_cond_destroy(&team->finished);
    pthread_mutex_destroy(&team->mutex);
    munmap(team, team_bytes(team->threads)); /* a benchmark may have thousands of teams */
}
