/* kmod_fuzz.c - garbage for the kernel module: random calls with random and almost right arguments,
 * mappings that are moved, split, unmapped and written over, readers that lie, threads that come
 * and go, forks, execs and kills, all at once.
 *
 * usage: kmod_fuzz SECONDS [SEED]
 *
 * Each worker is a process that lives for a moment, so that every state is left in every way.
 * Whatever happens to them, in the end no session and no event is left, the accounts of each
 * session that could be asked balance, and the kernel has not complained (the lab's machine stops
 * at the first complaint). */
#include "kmod.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE 4096UL

enum { WORKERS = 6, STEPS = 60, MAPS = 24, FDS = 3 };

static uint64_t rnd(uint64_t *state, uint64_t below) {
    return lab_random(state) % below;
}

/* Numbers that are near something. */
static uint64_t odd_number(uint64_t *state) {
    static const uint64_t base[] = {
        0,          1,          64,         4096,       65536,      1 << 20,    0x7fffffff,
        0xffffffff, 1ULL << 32, 1ULL << 47, 1ULL << 56, 1ULL << 63, UINT64_MAX, 0xffff888000000000};
    switch (rnd(state, 4)) {
    case 0:
        return lab_random(state);
    case 1:
        return rnd(state, 256);
    default:
        return base[rnd(state, NA_COUNT(base))] + rnd(state, 3) - 1;
    }
}

static void garbage(uint64_t *state, void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)lab_random(state);
}

/* A word of the structure is something odd. */
static void spoil(uint64_t *state, void *bytes, size_t size) {
    if (rnd(state, 3) == 0) {
        uint64_t value = odd_number(state);
        size_t at = rnd(state, size / 4) * 4;
        memcpy((char *)bytes + at, &value, size - at < 8 ? 4 : 8);
    }
}

typedef struct worker {
    uint64_t random;
    int fd[FDS];
    struct {
        unsigned char *start;
        size_t size;
    } map[MAPS];
    struct na_ibs_range range[NA_IBS_MAX_RANGES];
    unsigned char *arena; /* 64 pages, faulted again and again */
    uint32_t cpus;
} worker_t;

static volatile uint64_t watched[8];

static void *fuzz_thread(void *argument) {
    unsigned char *start =
        mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start != MAP_FAILED) {
        for (int i = 0; i < 4; i++)
            ((volatile unsigned char *)start)[(size_t)i * PAGE] = 1;
        munmap(start, 4 * PAGE);
    }
    watched[1]++;
    if (argument != NULL) lab_sleep_ms(1);
    return NULL;
}

static void some_start(worker_t *w, struct na_ibs_start *start) {
    uint64_t *r = &w->random;
    memset(start, 0, sizeof *start);
    start->size = sizeof *start;
    start->source = (uint32_t)(1 + rnd(r, 5));
    start->flags = (uint32_t)(rnd(r, 2) ? 0 : 1U << rnd(r, 3));
    start->clock = (uint32_t)rnd(r, 2);
    start->period = start->source == NA_IBS_SOURCE_SIM ? 20000 + rnd(r, 1000000) : 1 + rnd(r, 3);
    start->type = (uint32_t)rnd(r, 20);
    start->ranges = (uint32_t)(1 + rnd(r, 3));
    start->range = (uintptr_t)w->range;
    for (uint32_t i = 0; i < start->ranges; i++) {
        w->range[i].start = 0x10000 + ((uint64_t)i << 44);
        w->range[i].end = w->range[i].start + (1ULL << (12 + rnd(r, 32)));
    }
    if (rnd(r, 8) == 0) garbage(r, w->range, sizeof w->range);
    start->addr = (uintptr_t)&watched[rnd(r, 8)];
    start->length = 8;
    start->write = (uint32_t)rnd(r, 2);
    spoil(r, start, sizeof *start);
}

static void some_call(worker_t *w) {
    uint64_t *r = &w->random;
    int fd = w->fd[rnd(r, FDS)];
    union {
        struct na_ibs_info info;
        struct na_ibs_setup setup;
        struct na_ibs_start start;
        struct na_ibs_stats stats;
        struct na_ibs_inject inject;
        unsigned char bytes[4096];
    } u;
    unsigned long command = NA_IBS_INFO;
    size_t size = sizeof u.info;
    memset(&u, 0, sizeof u);
    switch (rnd(r, 8)) {
    case 0:
        u.info.size = sizeof u.info;
        break;
    case 1:
    case 2:
        command = NA_IBS_SETUP;
        size = sizeof u.setup;
        u.setup.size = sizeof u.setup;
        u.setup.records = 64U << rnd(r, 5);
        u.setup.watermark = 1 + (uint32_t)rnd(r, u.setup.records);
        break;
    case 3:
    case 4:
        command = NA_IBS_START;
        size = sizeof u.start;
        some_start(w, &u.start);
        break;
    case 5:
        command = NA_IBS_STOP;
        break;
    case 6:
        command = NA_IBS_STATS;
        size = sizeof u.stats;
        u.stats.size = sizeof u.stats;
        u.stats.cpu = (int)rnd(r, 6) - 1;
        break;
    default:
        command = NA_IBS_INJECT;
        size = sizeof u.inject;
        garbage(r, &u.inject, sizeof u.inject);
        u.inject.size = sizeof u.inject;
        u.inject.form = (uint32_t)rnd(r, 3);
        u.inject.repeat = (uint32_t)(1 + rnd(r, 50));
        u.inject.sample_flags &= (1U << 3) | (1U << 15) | (1U << 19) | (1U << 24);
        u.inject.reg[4] |= 1 | 1ULL << 17;
        if (rnd(r, 2)) u.inject.reg[5] = (uintptr_t)w->arena + rnd(r, 64 * PAGE);
        break;
    }
    spoil(r, &u, size);
    if (rnd(r, 20) == 0) garbage(r, &u, size);
    if (rnd(r, 20) == 0) command ^= 1UL << rnd(r, 32);
    void *argument = &u;
    if (rnd(r, 20) == 0) argument = (void *)odd_number(r);
    if (rnd(r, 20) == 0) argument = w->arena + 64 * PAGE - rnd(r, 64); /* ends at no memory */
    ioctl(fd, command, argument);
}

static void some_mapping(worker_t *w) {
    uint64_t *r = &w->random;
    size_t slot = rnd(r, MAPS);
    unsigned char *start = w->map[slot].start;
    size_t size = w->map[slot].size;
    if (start == NULL) {
        size = NA_IBS_RING_SIZE(64U << rnd(r, 5));
        uint64_t offset = NA_IBS_RING_OFFSET(rnd(r, w->cpus + 1));
        if (rnd(r, 10) == 0) size = rnd(r, 1 << 20);
        if (rnd(r, 10) == 0) offset = odd_number(r) & ~4095ULL;
        int protection = (int)rnd(r, 8);
        if (rnd(r, 4)) protection = PROT_READ | PROT_WRITE;
        start = mmap(NULL, size, protection, rnd(r, 10) ? MAP_SHARED : MAP_PRIVATE,
                     w->fd[rnd(r, FDS)], (off_t)offset);
        if (start == MAP_FAILED) return;
        w->map[slot].start = start;
        w->map[slot].size = size;
        return;
    }
    switch (rnd(r, 10)) {
    case 0:
        munmap(start, size);
        w->map[slot].start = NULL;
        return;
    case 1: /* a part of it */
        munmap(start + rnd(r, size / PAGE + 1) * PAGE, PAGE);
        return;
    case 2: {
        void *moved = mremap(start, size, size, MREMAP_MAYMOVE);
        if (moved != MAP_FAILED) w->map[slot].start = moved;
        return;
    }
    case 3: {
        void *grown = mremap(start, size, size * 2, MREMAP_MAYMOVE);
        if (grown != MAP_FAILED) {
            w->map[slot].start = grown;
            w->map[slot].size = size * 2;
        }
        return;
    }
    case 4:
        mprotect(start + rnd(r, size / PAGE) * PAGE, PAGE, (int)rnd(r, 8));
        return;
    case 5: {
        static const int advice[] = {MADV_DONTNEED,       MADV_DOFORK,     MADV_DONTFORK,
                                     MADV_HUGEPAGE,       MADV_COLD,       MADV_PAGEOUT,
                                     MADV_FREE,           MADV_WIPEONFORK, MADV_REMOVE,
                                     MADV_POPULATE_WRITE, MADV_MERGEABLE};
        madvise(start, size, advice[rnd(r, NA_COUNT(advice))]);
        return;
    }
    case 6: /* the kernel reads and writes it for us: it may fail, and no more */
    {
        int pipes[2];
        if (pipe(pipes) == 0) {
            if (write(pipes[1], start, PAGE) > 0 && read(pipes[0], start + 64, PAGE / 2) < 0)
                watched[2]++;
            close(pipes[0]);
            close(pipes[1]);
        }
        return;
    }
    default: { /* the reader lies: through a pipe, since the page may not be there */
        uint64_t lie = odd_number(r);
        size_t at = rnd(r, 3) ? 128 : rnd(r, size / 8) * 8;
        int pipes[2];
        if (pipe(pipes) == 0) {
            if (write(pipes[1], &lie, 8) == 8 && read(pipes[0], start + at, 8) != 8) watched[3]++;
            close(pipes[0]);
            close(pipes[1]);
        }
        return;
    }
    }
}

static void worker(uint64_t seed) {
    worker_t self = {.random = seed}, *w = &self;
    uint64_t *r = &w->random;
    struct na_ibs_info info = {.size = sizeof info};
    for (int i = 0; i < FDS; i++)
        w->fd[i] = open(NA_IBS_PATH, O_RDWR | (rnd(r, 2) ? O_CLOEXEC : 0));
    if (ioctl(w->fd[0], NA_IBS_INFO, &info) == 0) w->cpus = info.cpus;
    w->arena = mmap(NULL, 65 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (w->arena == MAP_FAILED) _exit(1);
    munmap(w->arena + 64 * PAGE, PAGE);
    /* Most sessions shall get somewhere. */
    struct na_ibs_setup setup = {.size = sizeof setup, .records = 64, .watermark = 8};
    if (ioctl(w->fd[0], NA_IBS_SETUP, &setup) == 0)
        for (uint32_t cpu = 0; cpu < w->cpus && cpu < MAPS; cpu++) {
            void *ring = mmap(NULL, NA_IBS_RING_SIZE(64), PROT_READ | PROT_WRITE, MAP_SHARED,
                              w->fd[0], (off_t)NA_IBS_RING_OFFSET(cpu));
            if (ring == MAP_FAILED) continue;
            w->map[cpu].start = ring;
            w->map[cpu].size = NA_IBS_RING_SIZE(64);
        }
    for (int step = 0; step < STEPS; step++) {
        pthread_t thread;
        switch (rnd(r, 16)) {
        case 0:
            if (pthread_create(&thread, NULL, fuzz_thread, rnd(r, 2) ? w : NULL) == 0)
                pthread_detach(thread);
            break;
        case 1: {
            pid_t child = fork();
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (int i = 0; i < 10; i++)
                    rnd(r, 2) ? some_call(w) : some_mapping(w);
                if (rnd(r, 2)) execl("/bin/busybox", "true", (char *)NULL);
                _exit(0);
            }
            if (child > 0 && rnd(r, 2)) waitpid(child, NULL, 0);
            break;
        }
        case 2: {
            struct pollfd fds = {.fd = w->fd[rnd(r, FDS)], .events = POLLIN};
            poll(&fds, 1, (int)rnd(r, 3));
            break;
        }
        case 3: {
            int i = (int)rnd(r, FDS);
            close(w->fd[i]);
            w->fd[i] = open(NA_IBS_PATH, O_RDWR);
            break;
        }
        case 4:
        case 5:
            madvise(w->arena, 64 * PAGE, MADV_DONTNEED);
            for (size_t i = 0; i < 64; i++)
                w->arena[i * PAGE] = 1;
            watched[rnd(r, 8)]++;
            break;
        case 6:
            close(dup(w->fd[rnd(r, FDS)]));
            break;
        case 7:
        case 8:
        case 9:
        case 10:
            some_mapping(w);
            break;
        default:
            some_call(w);
            break;
        }
    }
    switch (rnd(r, 3)) {
    case 0:
        execl("/bin/busybox", "true", (char *)NULL);
        _exit(0);
    case 1:
        raise(SIGKILL);
        _exit(0);
    default:
        _exit(0);
    }
}

int main(int argc, char **argv) {
    long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : lab_now_ms() * 2654435761U + 1;
    if (seconds < 1) {
        fprintf(stderr, "usage: %s SECONDS [SEED]\n", argv[0]);
        return 2;
    }
    check_say("seed %lu\n", seed);
    kmod_load("test_sources=1 max_sessions=24");
    uint64_t end = lab_now_ms() + (uint64_t)seconds * 1000;
    pid_t child[WORKERS] = {0};
    unsigned long lives = 0, segments = 0;
    while (lab_now_ms() < end) {
        for (int i = 0; i < WORKERS; i++) {
            if (child[i] != 0) {
                int status = 0;
                if (waitpid(child[i], &status, WNOHANG) == 0) {
                    if (rnd(&seed, 200) == 0) kill(child[i], SIGKILL);
                    continue;
                }
                segments += WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
            }
            lives++;
            child[i] = kmod_fork();
            if (child[i] == 0) worker(lab_random(&seed) ^ lives);
        }
        lab_sleep_ms(1);
    }
    for (int i = 0; i < WORKERS; i++)
        if (child[i] != 0) {
            kill(child[i], SIGKILL);
            waitpid(child[i], NULL, 0);
        }
    check_say("%lu processes of %d steps in %ld s; %lu ended in SIGSEGV\n", lives, STEPS, seconds,
              segments);
    CHECK(lives > (unsigned long)seconds);
    kmod_expect_idle();
    /* And it still works. */
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 1);
    kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT});
    fuzz_thread(NULL);
    struct na_ibs_stats stats = kmod_balance(&kmod);
    CHECK(kmod_count(&stats, NA_IBS_STORED) >= 4);
    na_kmod_close(&kmod);
    kmod_expect_idle();
    kmod_unload();
    kmod_expect_quiet();
    return kmod_status(check_status());
}
