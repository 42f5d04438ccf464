/* play.c - plays a program once, in this process, and measures.
 *
 * The main thread of the trace is that of this process, since allocators treat it apart; every
 * other one is created when its time has come and ends after its last operation. Its stack is
 * mapped beforehand and serves the next one again, so that what the C library would map for a
 * thread is neither timed nor counted as the heap's.
 *
 * A word that other threads wait for is read some hundred times; then the waiting thread gives way,
 * since whom it waits for may need this CPU, and at last it sleeps. */
#include "bench/replay/play.h"

#include "bench/measure/histogram.h"
#include "bench/suite/work.h"
#include "bench/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES   (UINT64_C(512) * 1024)
#define STACK_TOUCHED (UINT64_C(16) * 1024) /* resident before the clock starts */
#define NO_WINDOW     UINT32_MAX

/* What the loop over operations does with them; constant in each copy of it. */
typedef enum mode {
    MODE_PLAY,
    MODE_TIMED, /* each call by itself */
    MODE_DRY,   /* everything but calls, touching, waiting and threads */
} replay_mode_t;

struct player;

/* A thread that is, or was, on a stack of the pool. */
typedef struct seat {
    struct player *player;
    char *stack;
    pthread_t id;
    uint32_t thread;                                 /* of the program */
    enum { SEAT_FREE, SEAT_TAKEN, SEAT_LEFT } state; /* under the player's mutex */
    struct seat *next;
} seat_t;

typedef struct player {
    na_replay_program_t program;
    void **slot; /* atomic where another thread takes */
    na_replay_touch_t touch;
    replay_mode_t mode;
    uint32_t *in_window;   /* atomic: threads that have not left the window yet */
    na_histogram_t *calls; /* under mutex; of the threads that have ended */
    pthread_mutex_t mutex;
    seat_t *seats;          /* under mutex */
    uint64_t played, began; /* under mutex: calls of the threads that have ended */
    uint32_t ended __attribute__((aligned(64)));     /* atomic, a futex: threads but the main one */
    uint32_t completed __attribute__((aligned(64))); /* atomic, a futex: windows that all left */
    uint32_t sleepers;                               /* atomic: on `completed` */
} player_t;

static void futex_wait(const uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(const uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- Windows ----------------------------------------------------------------------------------
 */

/* Whoever leaves a window last may have completed several. Sequentially consistent, as is the look
 * at in_window: of two threads that leave neighbouring windows one sees both. */
static void leave_window(player_t *player, uint32_t window) {
    if (window == NO_WINDOW ||
        __atomic_sub_fetch(&player->in_window[window], 1, __ATOMIC_SEQ_CST) != 0)
        return;
    bool moved = false;
    uint32_t at = __atomic_load_n(&player->completed, __ATOMIC_SEQ_CST);
    while (at < player->program.head->windows &&
           __atomic_load_n(&player->in_window[at], __ATOMIC_SEQ_CST) == 0) {
        if (__atomic_compare_exchange_n(&player->completed, &at, at + 1, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
            moved = true;
            at++;
        }
    }
    if (moved && __atomic_load_n(&player->sleepers, __ATOMIC_SEQ_CST) != 0)
        futex_wake(&player->completed);
}

static void enter_window(player_t *player, uint32_t window) {
    for (unsigned spins = 0;; spins++) {
        uint32_t at = __atomic_load_n(&player->completed, __ATOMIC_SEQ_CST);
        if (window < at + NA_REPLAY_AHEAD) return;
        if (spins < 200) {
            na_work_relax();
        } else if (spins < 210) {
            sched_yield();
        } else {
            __atomic_add_fetch(&player->sleepers, 1, __ATOMIC_SEQ_CST);
            futex_wait(&player->completed, at);
            __atomic_sub_fetch(&player->sleepers, 1, __ATOMIC_SEQ_CST);
        }
    }
}

/* ---- Blocks -----------------------------------------------------------------------------------
 */

/* The block of a slot that its maker has not filled yet. */
__attribute__((noinline)) static void *await_block(void **slot) {
    for (unsigned spins = 0;; spins++) {
        void *block = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        if (block != NULL) return block;
        if (spins < 300) {
            na_work_relax();
        } else if (spins < 400) {
            sched_yield();
        } else {
            struct timespec nap = {0, 20000};
            nanosleep(&nap, NULL);
        }
    }
}

static inline void *take_slot(void **slot) {
    void *block = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    return __builtin_expect(block != NULL, 1) ? block : await_block(slot);
}

static inline void touch_new(na_replay_touch_t touch, void *block, uint64_t from, uint64_t to) {
    if (from >= to) return;
    if (touch == NA_REPLAY_TOUCH_PAGES)
        na_work_touch_pages(block, from, to);
    else if (touch == NA_REPLAY_TOUCH_ALL)
        memset((char *)block + from, 1, to - from);
    else if (touch == NA_REPLAY_TOUCH_FIRST && from == 0)
        *(volatile char *)block = 1;
}

/* Of no bytes some allocators give NULL. */
__attribute__((noinline)) static void *no_block(const char *routine, uint64_t size) {
    void *block = size == 0 ? malloc(1) : NULL;
    if (block == NULL) na_work_no_memory("replay", routine, size);
    return block;
}

static void *aligned_block(unsigned log2, uint64_t size) {
    void *block = NULL;
    size_t align = (size_t)1 << log2;
    if (align < sizeof(void *)) return malloc(size);
    return posix_memalign(&block, align, size) == 0 ? block : NULL;
}

/* ---- The operations ---------------------------------------------------------------------------
 */

static void begin_thread(player_t *player, uint32_t thread);

/* All of a thread's operations; how many calls they were. */
static inline __attribute__((always_inline)) uint64_t play_thread(player_t *player, uint32_t thread,
                                                                  const replay_mode_t mode,
                                                                  na_histogram_t *histogram) {
    const na_replay_unit_t *at = &player->program.unit[player->program.thread[thread].first];
    const na_replay_touch_t touch = player->touch;
    void **slots = player->slot;
    uint64_t calls = 0, begin = 0;
    uint32_t window = NO_WINDOW;
    for (;; at++) {
        uint32_t kind = at->what >> NA_REPLAY_SLOT_BITS;
        void **slot = &slots[at->what & NA_REPLAY_SLOT_MASK];
        uint64_t size = at->size;
        if (__builtin_expect(kind >= NA_REPLAY_PAGES, 0)) {
            kind -= NA_REPLAY_PAGES;
            size *= 4096;
        }
        void *block;
        if (mode == MODE_TIMED) begin = na_bench_now();
        switch (kind) {
        case NA_REPLAY_MALLOC:
            block = mode == MODE_DRY ? (void *)slot : malloc(size);
            if (__builtin_expect(block == NULL, 0)) block = no_block("malloc", size);
            if (mode == MODE_TIMED) na_histogram_add(histogram, na_bench_now() - begin);
            if (mode != MODE_DRY) touch_new(touch, block, 0, size);
            __atomic_store_n(slot, block, __ATOMIC_RELEASE);
            break;
        case NA_REPLAY_FREE:
            block = mode == MODE_DRY ? *slot : take_slot(slot);
            if (mode == MODE_DRY)
                na_bench_use(block);
            else
                free(block);
            if (mode == MODE_TIMED) na_histogram_add(histogram, na_bench_now() - begin);
            break;
        case NA_REPLAY_CALLOC:
            block = mode == MODE_DRY ? (void *)slot : calloc(1, size);
            if (__builtin_expect(block == NULL, 0)) block = no_block("calloc", size);
            if (mode == MODE_TIMED) na_histogram_add(histogram, na_bench_now() - begin);
            if (mode != MODE_DRY) touch_new(touch, block, 0, size);
            __atomic_store_n(slot, block, __ATOMIC_RELEASE);
            break;
        case NA_REPLAY_REALLOC: {
            at++;
            uint64_t before = at->size;
            block = mode == MODE_DRY ? *slot : take_slot(slot);
            /* realloc to nothing would be a free. */
            if (mode != MODE_DRY) block = realloc(block, size == 0 ? 1 : size);
            if (__builtin_expect(block == NULL, 0)) {
                if (mode != MODE_DRY) na_work_no_memory("replay", "realloc", size);
                block = (void *)slot;
            }
            if (mode == MODE_TIMED) na_histogram_add(histogram, na_bench_now() - begin);
            if (mode != MODE_DRY) touch_new(touch, block, before, size);
            __atomic_store_n(&slots[at->what], block, __ATOMIC_RELEASE);
            break;
        }
        case NA_REPLAY_ALIGNED:
            at++;
            block = mode == MODE_DRY ? (void *)slot : aligned_block(at->what, size);
            if (__builtin_expect(block == NULL, 0)) block = no_block("aligned malloc", size);
            if (mode == MODE_TIMED) na_histogram_add(histogram, na_bench_now() - begin);
            if (mode != MODE_DRY) touch_new(touch, block, 0, size);
            __atomic_store_n(slot, block, __ATOMIC_RELEASE);
            break;
        case NA_REPLAY_WINDOW:
            if (mode == MODE_DRY) continue;
            leave_window(player, window);
            window = (uint32_t)size;
            enter_window(player, window);
            continue;
        case NA_REPLAY_THREAD:
            if (mode != MODE_DRY) begin_thread(player, (uint32_t)size);
            continue;
        default: /* NA_REPLAY_END */
            if (mode != MODE_DRY) leave_window(player, window);
            return calls;
        }
        calls++;
    }
}

__attribute__((noinline)) static uint64_t play_plain(player_t *player, uint32_t thread) {
    return play_thread(player, thread, MODE_PLAY, NULL);
}

__attribute__((noinline)) static uint64_t play_dry(player_t *player, uint32_t thread) {
    return play_thread(player, thread, MODE_DRY, NULL);
}

/* The thread's histogram lies on its stack: 15 KiB of 512. */
__attribute__((noinline)) static uint64_t play_timed(player_t *player, uint32_t thread) {
    na_histogram_t mine;
    memset(&mine, 0, sizeof mine);
    uint64_t calls = play_thread(player, thread, MODE_TIMED, &mine);
    pthread_mutex_lock(&player->mutex);
    na_histogram_merge(player->calls, &mine);
    pthread_mutex_unlock(&player->mutex);
    return calls;
}

static void play_one(player_t *player, uint32_t thread) {
    uint64_t calls =
        player->mode == MODE_TIMED ? play_timed(player, thread) : play_plain(player, thread);
    pthread_mutex_lock(&player->mutex);
    player->played += calls;
    player->began++;
    pthread_mutex_unlock(&player->mutex);
}

/* ---- Threads ----------------------------------------------------------------------------------
 */

static seat_t *make_seat(player_t *player) {
    seat_t *seat = na_bench_map(sizeof *seat);
    seat->player = player;
    seat->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (seat->stack == MAP_FAILED)
        na_bench_fail("replay: no memory for the stack of a thread: %s", strerror(errno));
    memset(seat->stack + STACK_BYTES - STACK_TOUCHED, 1, STACK_TOUCHED);
    seat->next = player->seats;
    player->seats = seat;
    return seat;
}

/* One that a thread has left, before one that was never taken: as few threads as in the trace are
 * there at a time. */
static seat_t *take_seat(player_t *player) {
    pthread_mutex_lock(&player->mutex);
    seat_t *found = NULL;
    for (seat_t *seat = player->seats; seat != NULL; seat = seat->next) {
        if (seat->state == SEAT_TAKEN) continue;
        if (found == NULL || seat->state == SEAT_LEFT) found = seat;
        if (seat->state == SEAT_LEFT) break;
    }
    if (found == NULL) found = make_seat(player);
    bool left = found->state == SEAT_LEFT;
    found->state = SEAT_TAKEN;
    pthread_mutex_unlock(&player->mutex);
    if (left) pthread_join(found->id, NULL);
    return found;
}

static void *thread_main(void *argument) {
    seat_t *seat = argument;
    player_t *player = seat->player;
    play_one(player, seat->thread);
    pthread_mutex_lock(&player->mutex);
    seat->state = SEAT_LEFT;
    pthread_mutex_unlock(&player->mutex);
    __atomic_add_fetch(&player->ended, 1, __ATOMIC_SEQ_CST);
    futex_wake(&player->ended);
    return NULL;
}

static void begin_thread(player_t *player, uint32_t thread) {
    pthread_attr_t how;
    seat_t *seat = take_seat(player);
    seat->thread = thread;
    pthread_attr_init(&how);
    int error = pthread_attr_setstack(&how, seat->stack, STACK_BYTES);
    if (error == 0) error = pthread_create(&seat->id, &how, thread_main, seat);
    pthread_attr_destroy(&how);
    if (error != 0) na_bench_fail("replay: cannot start a thread: %s", strerror(error));
}

static void await_threads(player_t *player) {
    uint32_t all = player->program.head->threads - 1, ended;
    while ((ended = __atomic_load_n(&player->ended, __ATOMIC_SEQ_CST)) != all)
        futex_wait(&player->ended, ended);
    for (seat_t *seat = player->seats; seat != NULL; seat = seat->next)
        if (seat->state == SEAT_LEFT) pthread_join(seat->id, NULL);
}

/* So many threads may be there at one time, if they begin as early and end as late as windows let
 * them. */
static uint32_t most_threads(const na_replay_program_t *program) {
    const na_replay_head_t *head = program->head;
    int32_t *change = na_bench_map(((size_t)head->windows + 2) * sizeof *change);
    for (uint32_t t = 1; t < head->threads; t++) {
        const na_replay_unit_t *unit = &program->unit[program->thread[t].first];
        uint32_t first = NO_WINDOW, last = 0;
        for (uint64_t i = 0; i < program->thread[t].units; i++) {
            uint32_t kind = unit[i].what >> NA_REPLAY_SLOT_BITS & (NA_REPLAY_PAGES - 1);
            if (kind == NA_REPLAY_REALLOC || kind == NA_REPLAY_ALIGNED) i++;
            if (kind != NA_REPLAY_WINDOW) continue;
            last = unit[i].size;
            if (first == NO_WINDOW) first = last;
        }
        if (first == NO_WINDOW) continue;
        change[first]++;
        change[last + 1]--;
    }
    int32_t now = 0, most = 0;
    for (uint32_t w = 0; w < head->windows; w++) {
        now += change[w];
        if (now > most) most = now;
    }
    munmap(change, ((size_t)head->windows + 2) * sizeof *change);
    return (uint32_t)most;
}

/* ---- All of it --------------------------------------------------------------------------------
 */

/* From here on the kernel's peak is that of what follows. */
static void forget_peak(void) {
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    ssize_t put = write(file, "5", 1);
    (void)put; /* where it is not known, the peak is at worst that of the start */
    close(file);
}

void na_replay_play(const na_replay_program_t *program, na_replay_touch_t touch, bool timed,
                    na_replay_played_t *played) {
    const na_replay_head_t *head = program->head;
    player_t *player = na_bench_map(sizeof *player);
    size_t slot_bytes = (size_t)(head->slots + 1) * sizeof(void *);
    player->program = *program;
    player->touch = touch;
    player->mode = timed ? MODE_TIMED : MODE_PLAY;
    player->slot = na_bench_map(slot_bytes);
    player->in_window = na_bench_map(((size_t)head->windows + 1) * sizeof(uint32_t));
    if (head->windows != 0)
        memcpy(player->in_window, program->in_window, head->windows * sizeof(uint32_t));
    player->calls = na_bench_map(sizeof *player->calls);
    pthread_mutex_init(&player->mutex, NULL);
    for (uint32_t i = most_threads(program); i > 0; i--)
        make_seat(player);

    *played = (na_replay_played_t){0};
    uint64_t begin = 0;
    for (int pass = 0; pass < 2; pass++) { /* the first brings the program into memory */
        begin = na_bench_now();
        for (uint32_t t = 0; t < head->threads; t++)
            played->calls += play_dry(player, t);
        played->player = na_bench_now() - begin;
        memset(player->slot, 0, slot_bytes);
        if (pass == 0) played->calls = 0;
    }

    na_memory_t before = na_memory_read();
    forget_peak();
    begin = na_bench_now();
    play_one(player, 0);
    await_threads(player);
    played->elapsed = na_bench_now() - begin;
    na_memory_t after = na_memory_read();
    played->peak = after.peak > before.now ? after.peak - before.now : 0;
    played->final = after.now > before.now ? after.now - before.now : 0;
    played->calls = player->played;
    played->began = player->began;
    static const double quantiles[] = {0.5, 0.99, 0.999};
    for (size_t i = 0; i < NA_COUNT(quantiles) && timed; i++)
        played->slow[i] = (uint64_t)na_histogram_quantile(player->calls, quantiles[i]);
}
