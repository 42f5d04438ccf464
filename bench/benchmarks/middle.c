/* middle.c - the middle benchmark: blocks of 4 KiB to 8 MiB, the buffers of images, databases and
 * networks, of which a thread has a few and which it gives back and takes again.
 *
 * A case is a line of a table: a size, how many blocks each thread has live, how much of a new
 * block is written, the order in which blocks are freed, and the routine that allocates. Threads
 * work on blocks of their own:
 *
 *   fifo     N times: free the oldest block, allocate one
 *   random   N times: free the block at a random spot, allocate one for it
 *   lifo     N / L times: free all L, the newest first, then allocate L
 *   handed   N times: allocate a block and give it to the next thread of the team; free the oldest
 *            that came from the thread before, of which at most L are on their way
 *   growth   L blocks side by side, each by realloc from 4 KiB to the size, longer by a half each
 *            time, then freed
 *
 * The live blocks are there before the clock starts and are freed after it has stopped. An
 * operation is a free and an allocation, of growth a call of realloc. Its time has the writing in
 * it, so that an allocator which takes its pages from the system anew each time shows that.
 *
 * --cases few are those that stand for the rest; --cases all, every combination of the lists
 * below; --size N, the one that --live, --touch, --order and --call describe. Cases with more live
 * bytes than --most allows are left out. */
#include "bench/load/prng.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <sched.h>

enum {
    K_THREADS,
    K_CASES,
    K_SIZE,
    K_LIVE,
    K_TOUCH,
    K_ORDER,
    K_CALL,
    K_SHARE,
    K_MOST,
    K_SEED,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

/* In the order of the knobs' choices. */
typedef enum touch { TOUCH_NONE, TOUCH_PAGE, TOUCH_ALL } touch_t;
typedef enum order { FIFO, LIFO, RANDOM, HANDED, GROWTH } order_t;

static const char *const touch_names[] = {"none", "page", "all"};
static const char *const order_names[] = {"fifo", "lifo", "random", "handed", "growth"};

#define LIVE_MAX    1000
#define GROWTH_FROM 4096
/* Operations of each thread in one repetition: as many as write so many bytes, within limits. */
#define TOUCHED_BYTES  (UINT64_C(48) << 20)
#define OPERATIONS_MAX 6000
#define OPERATIONS_MIN 16

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_CASES] = {"cases", "", NA_KNOB_CHOICE, 0, 0, 0, "few|all",
                 "few: those that stand for the rest; all: every combination of sizes, live "
                 "blocks, touching and order"},
    [K_SIZE] = {"size", "bytes", NA_KNOB_NUMBER, 0, 0, UINT64_C(1) << 30, NULL,
                "one case alone, of blocks of this size; 0: those of --cases"},
    [K_LIVE] = {"live", "blocks", NA_KNOB_NUMBER, 16, 1, LIVE_MAX, NULL,
                "of that case: live blocks of each thread"},
    [K_TOUCH] = {"touch", "", NA_KNOB_CHOICE, TOUCH_PAGE, 0, 0, "none|page|all",
                 "of that case: what is written of a new block; page: its first byte; all: a byte "
                 "of each page"},
    [K_ORDER] = {"order", "", NA_KNOB_CHOICE, FIFO, 0, 0, "fifo|lifo|random|handed|growth",
                 "of that case: which block is freed next; handed: by the next thread; growth: by "
                 "realloc"},
    [K_CALL] = {"call", "", NA_KNOB_CHOICE, 0, 0, 0, "malloc|calloc",
                "of that case: which routine allocates"},
    [K_SHARE] = {"share", "%", NA_KNOB_NUMBER, 100, 1, 100000, NULL,
                 "of the operations that a repetition has by itself"},
    [K_MOST] = {"most", "MiB", NA_KNOB_NUMBER, 512, 1, UINT64_C(1) << 24, NULL,
                "live bytes of all threads that a case may have; those with more are left out"},
    [K_SEED] = NA_KNOB_SEED,
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(1),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(7),
};

typedef struct middle_case {
    uint32_t size, live;
    touch_t touch;
    order_t order;
    bool zeroed; /* by calloc */
} middle_case_t;

/* Each stands for a kind of program; most are where allocators differ most. */
static const middle_case_t few[] = {
    {8000, 1000, TOUCH_PAGE, RANDOM, false},  {16384, 100, TOUCH_PAGE, FIFO, false},
    {30000, 16, TOUCH_PAGE, FIFO, false},     {30000, 500, TOUCH_PAGE, FIFO, false},
    {60000, 1, TOUCH_PAGE, FIFO, false},      {60000, 16, TOUCH_ALL, LIFO, false},
    {100000, 16, TOUCH_PAGE, FIFO, false},    {100000, 16, TOUCH_ALL, FIFO, false},
    {100000, 100, TOUCH_PAGE, RANDOM, false}, {300000, 16, TOUCH_NONE, LIFO, false},
    {300000, 16, TOUCH_PAGE, FIFO, false},    {1000000, 1, TOUCH_PAGE, FIFO, false},
    {1000000, 4, TOUCH_ALL, RANDOM, false},   {4194304, 4, TOUCH_PAGE, FIFO, false},
    {8388608, 1, TOUCH_ALL, FIFO, false},     {100000, 16, TOUCH_PAGE, FIFO, true},
    {1000000, 4, TOUCH_PAGE, GROWTH, false},  {30000, 64, TOUCH_PAGE, HANDED, false},
    {100000, 16, TOUCH_ALL, HANDED, false},   {1000000, 4, TOUCH_PAGE, HANDED, false},
};

/* The lists of --cases all. */
static const uint32_t all_sizes[] = {4096,   8000,   16000,   30000,   60000,
                                     100000, 300000, 1000000, 3000000, 8388608};
static const uint32_t all_lives[] = {1, 16, 100, 1000};

#define CASES_MAX 480

typedef struct holder {
    na_prng_t prng;
    void *spot[LIVE_MAX];  /* the live blocks */
    void *inbox[LIVE_MAX]; /* atomic: blocks from the thread before; NULL: a free place */
    uint64_t operations;   /* of the latest phase */
} __attribute__((aligned(64))) holder_t;

typedef struct middle {
    holder_t *holder;
    middle_case_t what;
    uint64_t operations; /* of each thread */
    unsigned threads;
} middle_t;

/* ---- The cases --------------------------------------------------------------------------------
 */

typedef struct middle_plan {
    middle_case_t item[CASES_MAX];
    size_t count;
    unsigned threads;
    uint64_t most; /* bytes */
} middle_plan_t;

static double live_bytes(const middle_case_t *what, unsigned threads) {
    /* A growing block may be there twice. */
    double blocks = (double)what->live + (what->order == GROWTH ? 1 : 0);
    return blocks * (double)what->size * (double)threads;
}

static void offer(middle_plan_t *plan, middle_case_t what) {
    if (what.order == HANDED && plan->threads < 2) return;
    if (live_bytes(&what, plan->threads) > (double)plan->most) return;
    if (plan->count == CASES_MAX) na_bench_fail("middle: more than %d cases", CASES_MAX);
    plan->item[plan->count++] = what;
}

static void offer_all(middle_plan_t *plan) {
    for (size_t s = 0; s < NA_COUNT(all_sizes); s++) {
        uint32_t size = all_sizes[s];
        for (size_t l = 0; l < NA_COUNT(all_lives); l++) {
            uint32_t live = all_lives[l];
            for (touch_t touch = TOUCH_NONE; touch <= TOUCH_ALL; touch++) {
                for (order_t order = FIFO; order <= HANDED; order++) {
                    /* One live block is freed in no order. */
                    if (live == 1 && (order == LIFO || order == RANDOM)) continue;
                    offer(plan, (middle_case_t){size, live, touch, order, false});
                }
            }
            if (live > 16) continue;
            offer(plan, (middle_case_t){size, live, TOUCH_PAGE, FIFO, true});
            if (size > GROWTH_FROM)
                offer(plan, (middle_case_t){size, live, TOUCH_PAGE, GROWTH, false});
        }
    }
}

static void make_plan(middle_plan_t *plan, const na_knob_value_t *value) {
    plan->count = 0;
    plan->threads = (unsigned)value[K_THREADS].number;
    plan->most = value[K_MOST].number << 20;
    if (value[K_SIZE].number != 0)
        offer(plan, (middle_case_t){(uint32_t)value[K_SIZE].number, (uint32_t)value[K_LIVE].number,
                                    (touch_t)value[K_TOUCH].number, (order_t)value[K_ORDER].number,
                                    value[K_CALL].number != 0});
    else if (value[K_CASES].number != 0)
        offer_all(plan);
    else
        for (size_t i = 0; i < NA_COUNT(few); i++)
            offer(plan, few[i]);
}

/* "fifo 30000 x16 page", "calloc fifo 100000 x16 page". */
static void case_name(const middle_case_t *what, char *out, size_t size) {
    snprintf(out, size, "%s%s %u x%u %s", what->zeroed ? "calloc " : "", order_names[what->order],
             what->size, what->live, touch_names[what->touch]);
}

static uint64_t operations_of(const middle_case_t *what, uint64_t share) {
    uint64_t written = what->touch == TOUCH_ALL || what->zeroed ? what->size : NA_WORK_PAGE;
    uint64_t count = TOUCHED_BYTES / written;
    /* Most steps of a growing block are small. */
    if (what->order == GROWTH) count = 2 * TOUCHED_BYTES / what->size;
    if (count > OPERATIONS_MAX) count = OPERATIONS_MAX;
    if (count < OPERATIONS_MIN) count = OPERATIONS_MIN;
    count = count * share / 100;
    return count == 0 ? 1 : count;
}

/* ---- The work ---------------------------------------------------------------------------------
 */

static void touch_block(const middle_case_t *what, void *block, size_t from, size_t to) {
    if (what->touch == TOUCH_NONE)
        na_bench_use(block);
    else if (what->touch == TOUCH_PAGE)
        na_bench_touch(block, true);
    else
        na_work_touch_pages(block, from, to);
}

static void *take_middle_block(const middle_case_t *what) {
    void *block = what->zeroed ? calloc(1, what->size) : malloc(what->size);
    if (__builtin_expect(block == NULL, 0))
        na_work_no_memory("middle", what->zeroed ? "calloc" : "malloc", what->size);
    touch_block(what, block, 0, what->size);
    return block;
}

static void middle_fill_phase(void *argument, unsigned worker) {
    middle_t *middle = argument;
    holder_t *self = &middle->holder[worker];
    if (middle->what.order == HANDED || middle->what.order == GROWTH) return;
    for (uint32_t i = 0; i < middle->what.live; i++)
        self->spot[i] = take_middle_block(&middle->what);
}

static void middle_empty_phase(void *argument, unsigned worker) {
    middle_t *middle = argument;
    holder_t *self = &middle->holder[worker];
    if (middle->what.order == HANDED || middle->what.order == GROWTH) return;
    for (uint32_t i = 0; i < middle->what.live; i++)
        free(self->spot[i]);
}

static void run_fifo(const middle_t *middle, holder_t *self) {
    uint32_t oldest = 0;
    for (uint64_t i = 0; i < middle->operations; i++) {
        free(self->spot[oldest]);
        self->spot[oldest] = take_middle_block(&middle->what);
        if (++oldest == middle->what.live) oldest = 0;
    }
    self->operations = middle->operations;
}

static void run_random(const middle_t *middle, holder_t *self) {
    for (uint64_t i = 0; i < middle->operations; i++) {
        uint64_t at = na_prng_scale(na_prng_next(&self->prng), middle->what.live);
        free(self->spot[at]);
        self->spot[at] = take_middle_block(&middle->what);
    }
    self->operations = middle->operations;
}

static void run_lifo(const middle_t *middle, holder_t *self) {
    self->operations = 0;
    while (self->operations < middle->operations) {
        for (uint32_t i = middle->what.live; i-- > 0;)
            free(self->spot[i]);
        for (uint32_t i = 0; i < middle->what.live; i++)
            self->spot[i] = take_middle_block(&middle->what);
        self->operations += middle->what.live;
    }
}

/* Gives way after some microseconds in which nothing could be done: the other side may need this
 * CPU. */
static void pause_for(unsigned *spins) {
    if (++*spins < 256)
        na_work_relax();
    else
        sched_yield();
}

/* A release store of a block into the next thread's inbox publishes it; the acquiring owner of the
 * inbox puts NULL in its place, which gives the place back. */
static void run_handed(const middle_t *middle, unsigned worker) {
    holder_t *self = &middle->holder[worker];
    holder_t *next = &middle->holder[(worker + 1) % middle->threads];
    uint64_t given = 0, freed = 0, count = middle->operations;
    uint32_t out = 0, in = 0;
    unsigned spins = 0;
    void *block = NULL;
    while (given < count || freed < count) {
        bool moved = false;
        if (given < count && block == NULL) block = take_middle_block(&middle->what);
        if (block != NULL && __atomic_load_n(&next->inbox[out], __ATOMIC_ACQUIRE) == NULL) {
            __atomic_store_n(&next->inbox[out], block, __ATOMIC_RELEASE);
            if (++out == middle->what.live) out = 0;
            block = NULL;
            given++;
            moved = true;
        }
        void *came = __atomic_load_n(&self->inbox[in], __ATOMIC_ACQUIRE);
        /* As many stay on their way as may, while there are more to come. */
        if (came != NULL && (freed + middle->what.live <= given || given == count || !moved)) {
            __atomic_store_n(&self->inbox[in], NULL, __ATOMIC_RELEASE);
            if (++in == middle->what.live) in = 0;
            free(came);
            freed++;
            moved = true;
        }
        if (moved)
            spins = 0;
        else
            pause_for(&spins);
    }
    self->operations = count;
}

static void run_growth(const middle_t *middle, holder_t *self) {
    const middle_case_t *what = &middle->what;
    self->operations = 0;
    do {
        size_t size = 0;
        for (uint32_t i = 0; i < what->live; i++)
            self->spot[i] = NULL;
        while (size < what->size) {
            size_t before = size;
            size = size == 0 ? GROWTH_FROM : size + size / 2;
            if (size > what->size) size = what->size;
            for (uint32_t i = 0; i < what->live; i++) {
                void *block = realloc(self->spot[i], size);
                if (block == NULL) na_work_no_memory("middle", "realloc", size);
                touch_block(what, block, before, size);
                self->spot[i] = block;
            }
            self->operations += what->live;
        }
        for (uint32_t i = 0; i < what->live; i++)
            free(self->spot[i]);
    } while (self->operations < middle->operations);
}

static void middle_timed_phase(void *argument, unsigned worker) {
    middle_t *middle = argument;
    holder_t *self = &middle->holder[worker];
    switch (middle->what.order) {
    case FIFO:
        run_fifo(middle, self);
        break;
    case LIFO:
        run_lifo(middle, self);
        break;
    case RANDOM:
        run_random(middle, self);
        break;
    case HANDED:
        run_handed(middle, worker);
        break;
    case GROWTH:
        run_growth(middle, self);
        break;
    }
}

/* ---- The benchmark ----------------------------------------------------------------------------
 */

static middle_plan_t the_plan;

static bool middle_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    make_plan(&the_plan, value);
    if (the_plan.count == 0) {
        if (value[K_SIZE].number != 0 && value[K_ORDER].number == HANDED && the_plan.threads < 2)
            snprintf(error, size, "--order handed needs at least two --threads");
        else
            snprintf(error, size, "no case has so few live bytes; raise --most");
        return false;
    }
    double most = 0;
    for (size_t i = 0; i < the_plan.count; i++) {
        double bytes = live_bytes(&the_plan.item[i], the_plan.threads);
        if (bytes > most) most = bytes;
    }
    return na_limits_fit(2 * most, "--most, --size, --live or --threads", error, size);
}

static void middle_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    middle_t middle = {.holder = na_bench_map(threads * sizeof(holder_t)), .threads = threads};
    middle_plan_t *plan = &the_plan;
    make_plan(plan, value);
    na_metric_t **times = na_bench_map(plan->count * sizeof(na_metric_t *));
    for (size_t i = 0; i < plan->count; i++) {
        char name[64];
        case_name(&plan->item[i], name, sizeof name);
        times[i] = na_result_metric(result, name, "ns", NA_LOWER, NA_DETAIL, repetitions);
    }
    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("middle: repetition", r, warmup + repetitions);
        for (size_t i = 0; i < plan->count; i++) {
            middle.what = plan->item[i];
            middle.operations = operations_of(&middle.what, value[K_SHARE].number);
            for (unsigned t = 0; t < threads; t++) /* the same spots in each repetition */
                middle.holder[t].prng = na_prng_make(value[K_SEED].number, 1 + t);
            na_team_run(team, middle_fill_phase, &middle);
            double elapsed = (double)na_team_run(team, middle_timed_phase, &middle);
            double own = 0, operations = 0;
            for (unsigned t = 0; t < threads; t++) {
                own += (double)na_team_elapsed(team, t);
                operations += (double)middle.holder[t].operations;
            }
            na_team_run(team, middle_empty_phase, &middle);
            if (r >= warmup)
                na_metric_add(times[i], na_team_time(threads, own, elapsed) / operations);
        }
    }
    na_bench_progress("middle: repetition", 1, 1);
    na_team_stop(team);
    na_result_mean(result, "middle", times, plan->count);
}

/** Blocks of 4 KiB to 8 MiB: buffers that a thread has a few of, or a thousand, and gives back and
 *  takes again, in order, in reverse, at random, or from another thread; unwritten, their first
 *  page, or all written; by malloc, calloc, and growing by realloc. *Geometric mean over a table of
 *  cases of the time of a free and an allocation* (growth: of a realloc), which `--details` has one
 *  by one. `--cases all` runs every combination, `--size N` a single one. */
const na_bench_t na_bench_middle = {
    .name = "middle",
    .summary = "blocks of 4 KiB to 8 MiB, given back and taken again",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "middle",
    .work = "share",
    .suite = (const char *const[]){"--repetitions=4", "--warmup=1", NULL},
    .settle = middle_settle,
    .run = middle_run,
};
