/* program.c - maps the program of a replay and checks every operation of it. */
#include "bench/replay/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS_MAX (UINT32_C(1) << 20)

static uint64_t window_bytes(const na_replay_head_t *head) {
    return ((uint64_t)head->windows * sizeof(uint32_t) + 7) & ~UINT64_C(7);
}

uint64_t na_replay_bytes(const na_replay_head_t *head) {
    return sizeof *head + head->threads * (uint64_t)sizeof(na_replay_thread_t) +
           window_bytes(head) + head->units * sizeof(na_replay_unit_t);
}

/* How a slot is used. */
typedef struct slot_use {
    uint32_t thread; /* the last that used it, plus 1; 0: nobody */
    uint32_t made, taken;
    bool shared;       /* by two threads or more */
    bool out_of_order; /* somebody takes what is not there, or makes a second block */
} slot_use_t;

/* What is kept while a program is checked. */
typedef struct check {
    char *begun;         /* for each thread */
    uint32_t *in_window; /* counted down */
    slot_use_t *use;     /* for each slot */
} check_t;

static void use_slot(slot_use_t *use, uint32_t thread, bool takes) {
    use->shared |= use->thread != 0 && use->thread != thread + 1;
    use->out_of_order |= use->made - use->taken != takes;
    use->thread = thread + 1;
    use->made += !takes;
    use->taken += takes;
}

/* Nobody waits for a block that nobody makes. Whose operations are looked at first says nothing of
 * when they are played: of a shared slot only the numbers count. */
static bool slot_holds(const slot_use_t *use) {
    return use->shared ? use->made == 1 && use->taken == 1 : !use->out_of_order;
}

/* What is wrong with the operations of a thread, or NULL. */
static const char *check_operations(const na_replay_program_t *program, uint32_t thread,
                                    const check_t *check) {
    const na_replay_head_t *head = program->head;
    const na_replay_unit_t *unit = &program->unit[program->thread[thread].first];
    uint64_t units = program->thread[thread].units;
    uint32_t next_window = 0;
    for (uint64_t i = 0; i < units; i++) {
        uint32_t kind = unit[i].what >> NA_REPLAY_SLOT_BITS, slot = unit[i].what;
        slot &= NA_REPLAY_SLOT_MASK;
        if (kind >= NA_REPLAY_PAGES) {
            kind -= NA_REPLAY_PAGES;
            if (kind == NA_REPLAY_FREE || kind == NA_REPLAY_WINDOW || kind == NA_REPLAY_THREAD)
                return "an unknown operation";
        }
        switch (kind) {
        case NA_REPLAY_END:
            return i == units - 1 ? NULL : "a thread goes on after its end";
        case NA_REPLAY_MALLOC:
        case NA_REPLAY_CALLOC:
        case NA_REPLAY_FREE:
            if (slot >= head->slots) return "a bad slot";
            use_slot(&check->use[slot], thread, kind == NA_REPLAY_FREE);
            break;
        case NA_REPLAY_ALIGNED:
            if (slot >= head->slots) return "a bad slot";
            if (++i == units || unit[i].what > 46) return "a bad alignment";
            use_slot(&check->use[slot], thread, false);
            break;
        case NA_REPLAY_REALLOC:
            if (slot >= head->slots) return "a bad slot";
            if (++i == units || unit[i].what >= head->slots) return "a bad slot";
            use_slot(&check->use[slot], thread, true);
            use_slot(&check->use[unit[i].what], thread, false);
            break;
        case NA_REPLAY_WINDOW:
            if (unit[i].size >= head->windows || unit[i].size < next_window) return "a bad window";
            next_window = unit[i].size + 1;
            if (check->in_window[unit[i].size]-- == 0) return "a bad window";
            break;
        case NA_REPLAY_THREAD:
            if (unit[i].size >= head->threads || check->begun[unit[i].size]) return "a bad thread";
            check->begun[unit[i].size] = 1;
            break;
        default:
            return "an unknown operation";
        }
    }
    return "a thread without an end";
}

static const char *check(const na_replay_program_t *program) {
    const na_replay_head_t *head = program->head;
    const char *wrong = NULL;
    size_t uses = head->slots * sizeof(slot_use_t), windows = head->windows * sizeof(uint32_t),
           bytes = uses + windows + head->threads;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return "more threads than there is memory for";
    check_t check = {.use = (slot_use_t *)(void *)memory,
                     .in_window = (uint32_t *)(void *)(memory + uses),
                     .begun = memory + uses + windows};
    if (windows != 0) memcpy(check.in_window, program->in_window, windows);
    check.begun[0] = 1;
    uint64_t next = 0;
    for (uint32_t t = 0; t < head->threads && wrong == NULL; t++) {
        const na_replay_thread_t *thread = &program->thread[t];
        if (thread->first != next || thread->units > head->units - next)
            wrong = "threads that overlap";
        else
            wrong = check_operations(program, t, &check);
        next += thread->units;
    }
    if (wrong == NULL && next != head->units) wrong = "operations of no thread";
    for (uint32_t t = 0; t < head->threads && wrong == NULL; t++)
        if (!check.begun[t]) wrong = "a thread that nobody begins";
    for (uint32_t w = 0; w < head->windows && wrong == NULL; w++)
        if (check.in_window[w] != 0) wrong = "a window that nobody leaves";
    for (uint64_t s = 0; s < head->slots && wrong == NULL; s++)
        if (!slot_holds(&check.use[s])) wrong = "a block that nobody makes";
    munmap(memory, bytes);
    return wrong;
}

bool na_replay_map(int file, na_replay_program_t *program, bool *other, char *error, size_t size) {
    struct stat about;
    na_replay_head_t head;
    *other = false;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        snprintf(error, size, "it is not a regular file");
        return false;
    }
    uint64_t there = (uint64_t)about.st_size;
    if (there < sizeof head || pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        head.magic != NA_REPLAY_MAGIC) {
        *other = true;
        snprintf(error, size, "it is not the program of a replay");
        return false;
    }
    if (head.version != NA_REPLAY_VERSION) {
        snprintf(error, size, "it is of another version of numalloc-bench; make it of its trace");
        return false;
    }
    if (head.threads == 0 || head.threads > THREADS_MAX || head.units > there ||
        head.slots > NA_REPLAY_SLOT_MASK || na_replay_bytes(&head) != there) {
        snprintf(error, size, "the program of a replay is damaged: its head is not its file's");
        return false;
    }
    char *memory = mmap(NULL, there, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    if (memory == MAP_FAILED) {
        snprintf(error, size, "cannot map it: %s", strerror(errno));
        return false;
    }
    program->head = (const na_replay_head_t *)(void *)memory;
    memory += sizeof head;
    program->thread = (const na_replay_thread_t *)(void *)memory;
    memory += head.threads * sizeof(na_replay_thread_t);
    program->in_window = (const uint32_t *)(void *)memory;
    program->unit = (const na_replay_unit_t *)(void *)(memory + window_bytes(&head));
    const char *wrong = check(program);
    if (wrong == NULL) return true;
    snprintf(error, size, "the program of a replay is damaged: it has %s", wrong);
    return false;
}
