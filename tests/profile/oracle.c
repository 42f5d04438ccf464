/* oracle.c - a program whose every allocation is known, against its profile in modes sites and
 * trace.
 *
 * A seeded sequence of malloc, calloc, aligned_alloc, realloc and free on sites of known code; a
 * model beside it counts by definition, by the identity of blocks, what the recorder counts by its
 * own means. One thread: every figure must be equal. Several: all but the moments (local peaks,
 * what lived at the peak of the process), which must be within what the file promises. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/profile/truth.h"

#define SLOTS   512u
#define THREADS 4u

typedef struct block {
    void *at;
    uint64_t size, usable, born_least, born_most; /* ns: after it was taken at the latest */
    uint32_t site, thread;
} block_t;

typedef struct player {
    uint64_t random;
    uint32_t index;
    block_t slot[SLOTS];
    block_t last;                /* allocated last */
    bool after_alloc;            /* and nothing since */
    void *chain[2][TRUTH_SITES]; /* by site: allocated last, and before that; NULL: gone */
    truth_site_t site[TRUTH_SITES];
    uint64_t calls[NA_NPROF_ENTRIES], sizes[NA_NPROF_SIZE_BUCKETS];
} player_t;

static player_t players[THREADS];
static bool alone; /* one thread: the model knows peaks */

#define MALLOC_SITE(n)                                                                             \
    TRUTH_SITE(n) static void *site_##n(size_t size) {                                             \
        void *p = malloc(size);                                                                    \
        __asm__ volatile("# site " #n : : "r"(p) : "memory");                                      \
        return p;                                                                                  \
    }                                                                                              \
    extern const char __start_truth_site_##n[], __stop_truth_site_##n[];

MALLOC_SITE(0)
MALLOC_SITE(1)
MALLOC_SITE(2)
MALLOC_SITE(3)
MALLOC_SITE(4)
MALLOC_SITE(5)

TRUTH_SITE(6) static void *site_6(size_t size) {
    void *p = calloc(1, size);
    __asm__ volatile("# calloc" : : "r"(p) : "memory");
    return p;
}
TRUTH_SITE(7) static void *site_7(size_t size, size_t alignment) {
    void *p = aligned_alloc(alignment, size);
    __asm__ volatile("# aligned" : : "r"(p) : "memory");
    return p;
}
TRUTH_SITE(8) static void *site_8(void *old, size_t size) {
    void *p = realloc(old, size);
    __asm__ volatile("# realloc" : : "r"(p) : "memory");
    return p;
}
TRUTH_SITE(9) static void site_9(void *p) {
    free(p);
    __asm__ volatile("# free" : : : "memory");
}
extern const char __start_truth_site_6[], __stop_truth_site_6[], __start_truth_site_7[],
    __stop_truth_site_7[], __start_truth_site_8[], __stop_truth_site_8[], __start_truth_site_9[],
    __stop_truth_site_9[];

enum {
    SITE_VECTOR = 5,
    SITE_CALLOC = 6,
    SITE_ALIGNED = 7,
    SITE_REALLOC = 8,
    SITE_FREE = 9,
    SITES = 10
};

static void tell_bounds(void) {
#define BOUNDS(n)                                                                                  \
    truth->site[n].start = (uintptr_t)__start_truth_site_##n;                                      \
    truth->site[n].end = (uintptr_t)__stop_truth_site_##n
    BOUNDS(0);
    BOUNDS(1);
    BOUNDS(2);
    BOUNDS(3);
    BOUNDS(4);
    BOUNDS(5);
    BOUNDS(6);
    BOUNDS(7);
    BOUNDS(8);
    BOUNDS(9);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t next(player_t *p) {
    p->random = p->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(p->random >> 33);
}

static unsigned digits(uint64_t v) {
    unsigned n = 0;
    for (; v != 0; v >>= 1)
        n++;
    return n;
}

/* --- the model --- */

/* The figures of the whole process; one thread only. */
static void model_moment(player_t *p, int64_t bytes, int64_t count) {
    if (!alone) return;
    truth->live_bytes += bytes;
    truth->live_count += count;
    if (truth->live_bytes > truth->peak_bytes) {
        truth->peak_bytes = truth->live_bytes;
        truth->peak_count = truth->live_count;
        for (uint32_t i = 0; i < SITES; i++) {
            p->site[i].peak_bytes = truth_live(&p->site[i]);
            p->site[i].peak_count = (int64_t)(p->site[i].alloc_count - p->site[i].free_count);
        }
    }
}

static void model_took(player_t *p, const block_t *b, uint32_t entry) {
    truth_site_t *s = &p->site[b->site];
    if (s->alloc_count == 0 || b->size < s->size_min) s->size_min = b->size;
    if (b->size > s->size_max) s->size_max = b->size;
    s->alloc_count++;
    s->alloc_bytes += b->size;
    s->alloc_usable += b->usable;
    if (truth_live(s) > s->local_peak) s->local_peak = truth_live(s);
    p->calls[entry]++;
    p->sizes[digits(b->size)]++;
    p->chain[1][b->site] = p->chain[0][b->site];
    p->chain[0][b->site] = b->at;
    p->last = *b;
    p->after_alloc = true;
}

static void model_gave(player_t *p, const block_t *b, uint64_t least_now, uint64_t most_now) {
    truth_site_t *s = &p->site[b->site];
    s->free_count++;
    s->free_bytes += b->size;
    s->free_usable += b->usable;
    s->cross_thread += b->thread != p->index;
    s->life_least += least_now > b->born_most ? least_now - b->born_most : 0;
    s->life_most += most_now - b->born_least;
}

static void model_freed(player_t *p, const block_t *b) {
    truth_site_t *s = &p->site[b->site];
    if (p->last.at == b->at) {
        s->temporary++;
    } else if (p->after_alloc && p->last.site == b->site && p->chain[1][b->site] == b->at &&
               p->last.size > b->size) {
        s->growth_count++;
        s->growth_bytes += p->last.size - b->size;
        s->growth_copied += b->size;
        p->chain[1][b->site] = NULL;
    }
    p->after_alloc = false;
}

/* --- the moves --- */

static uint64_t some_size(player_t *p) {
    switch (next(p) % 8) {
    case 0:
        return 1 + next(p) % 32;
    case 1:
        return 40000 + next(p) % 200000; /* large */
    default:
        return 1 + next(p) % 3000;
    }
}

static __attribute__((noinline)) void take(player_t *p, block_t *slot) {
    static void *(*const sites[])(size_t) = {site_0, site_1, site_2, site_3,
                                             site_4, site_5, site_6};
    uint32_t site = next(p) % 8;
    if (site == SITE_VECTOR) site = 0;
    block_t b = {.size = some_size(p), .site = site, .thread = p->index, .born_least = now_ns()};
    uint32_t entry = NA_NPROF_ENTRY_MALLOC;
    if (site == SITE_ALIGNED) {
        size_t alignment = (size_t)16 << next(p) % 9;
        b.at = site_7(b.size, alignment);
        entry = NA_NPROF_ENTRY_ALIGNED;
        if (alignment > 16) {
            p->site[site].aligned++;
            p->site[site].align_mask |= alignment;
        }
    } else {
        b.at = sites[site](b.size);
        if (site == SITE_CALLOC) entry = NA_NPROF_ENTRY_CALLOC;
    }
    b.born_most = now_ns();
    b.usable = malloc_usable_size(b.at);
    model_took(p, &b, entry);
    model_moment(p, (int64_t)b.size, 1);
    *slot = b;
}

static __attribute__((noinline)) void give(player_t *p, block_t *slot) {
    block_t b = *slot;
    uint64_t before = now_ns();
    site_9(b.at);
    slot->at = NULL;
    p->calls[NA_NPROF_ENTRY_FREE]++;
    p->site[SITE_FREE].freed_here_count++;
    p->site[SITE_FREE].freed_here_bytes += b.size;
    model_gave(p, &b, before, now_ns());
    model_freed(p, &b);
    model_moment(p, -(int64_t)b.size, -1);
}

static __attribute__((noinline)) void resize(player_t *p, block_t *slot) {
    block_t old = *slot;
    if (old.at == NULL) old.size = 0;
    uint64_t size = next(p) % 3 == 0 ? some_size(p) : old.size + 1 + next(p) % (old.size + 1);
    if (size > 400000) size = 100;
    block_t b = {.size = size, .site = SITE_REALLOC, .thread = p->index, .born_least = now_ns()};
    b.at = site_8(old.at, size);
    uint64_t after = now_ns();
    b.born_most = after;
    b.usable = malloc_usable_size(b.at);
    bool moved = old.at != NULL && b.at != old.at;
    /* One block, moved or not: at no moment two, or none. */
    if (old.at != NULL) model_gave(p, &old, b.born_least, after);
    model_took(p, &b, NA_NPROF_ENTRY_REALLOC);
    model_moment(p, (int64_t)size - (int64_t)old.size, old.at == NULL);
    if (old.at != NULL) p->after_alloc = false;
    truth_site_t *s = &p->site[SITE_REALLOC];
    if (old.at != NULL) {
        s->realloc_count++;
        if (size > old.size)
            s->grow += size - old.size;
        else
            s->shrink += old.size - size;
        if (moved) s->copy += size < old.size ? size : old.size;
    }
    *slot = b;
}

/* A vector as C++ and Fortran grow it: a larger block, a copy, the old one freed. */
static __attribute__((noinline)) void grow(player_t *p) {
    block_t old = {0}, b;
    for (uint64_t size = 100; size < 5000; size *= 2) {
        b = (block_t){.size = size, .site = 5, .thread = p->index, .born_least = now_ns()};
        b.at = site_5(size);
        b.born_most = now_ns();
        b.usable = malloc_usable_size(b.at);
        model_took(p, &b, NA_NPROF_ENTRY_MALLOC);
        model_moment(p, (int64_t)b.size, 1);
        if (old.at != NULL) give(p, &old);
        old = b;
    }
    give(p, &old);
}

static __attribute__((noinline)) void play(player_t *p, uint64_t events) {
    for (uint64_t i = 0; i < events; i++) {
        uint32_t r = next(p) % 100;
        block_t *slot = &p->slot[next(p) % SLOTS];
        if (r < 10) {
            resize(p, slot);
        } else if (r < 12) {
            grow(p);
        } else if (slot->at != NULL && r >= 30) {
            give(p, slot);
        } else { /* the first third: a temporary */
            block_t temporary = {0}, *to = r < 30 ? &temporary : slot;
            __asm__ volatile("" : "+r"(to)); /* one call, of one stack, for both */
            take(p, to);
            if (to == &temporary) give(p, to);
        }
    }
}

static uint64_t thread_events;

static void *thread(void *arg) {
    play(arg, thread_events);
    return NULL;
}

/* Adds a thread's share to the truth. */
static void tell(const player_t *p) {
    for (uint32_t i = 0; i < SITES; i++) {
        truth_site_t *to = &truth->site[i];
        const truth_site_t *s = &p->site[i];
        if (s->alloc_count != 0) {
            if (to->alloc_count == 0 || s->size_min < to->size_min) to->size_min = s->size_min;
            if (s->size_max > to->size_max) to->size_max = s->size_max;
        }
        uint64_t *sum = &to->alloc_count;
        const uint64_t *part = &s->alloc_count;
        for (; sum <= &to->free_usable; sum++, part++)
            *sum += *part;
        sum = &to->temporary;
        part = &s->temporary;
        for (; sum <= &to->aligned; sum++, part++)
            *sum += *part;
        to->align_mask |= s->align_mask;
        to->local_peak += s->local_peak;
        to->peak_bytes += s->peak_bytes;
        to->peak_count += s->peak_count;
        to->life_least += s->life_least;
        to->life_most += s->life_most;
        to->freed_here_count += s->freed_here_count;
        to->freed_here_bytes += s->freed_here_bytes;
    }
    for (unsigned i = 0; i < NA_NPROF_ENTRIES; i++)
        truth->calls[i] += p->calls[i];
    for (unsigned i = 0; i < NA_NPROF_SIZE_BUCKETS; i++)
        truth->sizes[i] += p->sizes[i];
}

void oracle_child(int threads, uint64_t seed, uint64_t events) {
    tell_bounds();
    alone = threads == 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        players[i].random = seed * 977 + i + 1;
        players[i].index = i;
    }
    if (alone) {
        play(&players[0], events);
        tell(&players[0]);
        truth->finished = true;
        return;
    }
    pthread_t handle[THREADS];
    thread_events = events;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&handle[i], NULL, thread, &players[i]) != 0) _exit(125);
    for (int i = 0; i < threads; i++)
        pthread_join(handle[i], NULL);
    /* Every second thread's blocks are freed here, by another thread than took them. */
    static player_t here;
    here.index = THREADS;
    for (int i = 0; i < threads; i += 2)
        for (uint32_t k = 0; k < SLOTS; k++)
            if (players[i].slot[k].at != NULL) give(&here, &players[i].slot[k]);
    for (int i = 0; i < threads; i++)
        tell(&players[i]);
    tell(&here);
    truth->finished = true;
}

/* --- the test --- */

static void equal(const char *where, uint32_t site, const char *figure, uint64_t is,
                  uint64_t should) {
    truth_check(is == should, "%s, site %u: %s is %llu, in truth %llu", where, site, figure,
                (unsigned long long)is, (unsigned long long)should);
}

static void compare_site(const seen_t *seen, const char *where, uint32_t i, bool one_thread) {
    const truth_site_t *t = &truth->site[i];
    const na_site_t *first;
    na_counters_t s = seen_sum(seen, t, &first);
    bool trace = seen->header->mode == NA_NPROF_MODE_TRACE;
    truth_check(first != NULL || i == SITE_FREE, "%s: site %u is not in the profile", where, i);
    if (first == NULL) return;
#define EQUAL(figure, in_truth) equal(where, i, #figure, (uint64_t)s.figure, (uint64_t)t->in_truth)
    EQUAL(freed_here_count, freed_here_count);
    EQUAL(freed_here_bytes, freed_here_bytes);
    if (i == SITE_FREE) return;
    EQUAL(alloc_count, alloc_count);
    EQUAL(alloc_bytes, alloc_bytes);
    EQUAL(alloc_usable, alloc_usable);
    EQUAL(free_count, free_count);
    EQUAL(free_bytes, free_bytes);
    EQUAL(free_usable, free_usable);
    EQUAL(size_min, size_min);
    EQUAL(size_max, size_max);
    EQUAL(temporary_count, temporary);
    EQUAL(cross_thread_free_count, cross_thread);
    EQUAL(realloc_count, realloc_count);
    EQUAL(realloc_grow_bytes, grow);
    EQUAL(realloc_shrink_bytes, shrink);
    EQUAL(realloc_copy_bytes, copy);
    EQUAL(growth_count, growth_count);
    EQUAL(growth_bytes, growth_bytes);
    EQUAL(growth_copied, growth_copied);
    EQUAL(aligned_count, aligned);
    EQUAL(align_mask, align_mask);
    equal(where, i, "live_bytes", (uint64_t)s.live_bytes, (uint64_t)truth_live(t));
    if (one_thread) {
        EQUAL(local_peak_bytes, local_peak);
        EQUAL(peak_bytes, peak_bytes);
        EQUAL(peak_count, peak_count);
    } else {
        /* Where no cell ever held more than the quantum, there is but the sum of their peaks. */
        truth_check((first->local_peak_known || s.local_peak_bytes == t->local_peak) &&
                        s.local_peak_bytes <=
                            t->local_peak + (int64_t)(first->cells * seen->header->site_quantum) &&
                        s.local_peak_bytes >= s.live_bytes,
                    "%s, site %u: local peak %lld of %u cells; the threads' own make %lld", where,
                    i, (long long)s.local_peak_bytes, first->cells, (long long)t->local_peak);
    }
    /* The recorder's clock may start a tick late and stop one early. */
    double age = na_age_ns(seen->header), slack = age * (double)(s.free_count + 1) * 2;
    double lives = (double)s.lifetime_sum * age;
    truth_check(lives >= 0.999 * (double)t->life_least - slack &&
                    lives <= 1.001 * (double)t->life_most + slack,
                "%s, site %u: lifetimes sum up to %.0f ns, in truth %llu to %llu", where, i, lives,
                (unsigned long long)t->life_least, (unsigned long long)t->life_most);
    if (trace) return; /* events, no histograms */
    const na_site_lives_t *l = NULL;
    uint64_t counted = 0;
    for (size_t k = 0; k < seen->sites.count; k++) {
        if (!seen_is(seen, &seen->sites.items[k], t)) continue;
        l = na_lives_of(&seen->lives, seen->sites.items[k].site);
        for (unsigned b = 0; l != NULL && b < NA_NPROF_AGE_BUCKETS; b++)
            counted += l->count[b];
    }
    equal(where, i, "frees in the histogram of lifetimes", counted, t->free_count);
}

static void compare(const char *where, bool one_thread) {
    seen_t seen;
    seen_open(&seen);
    const na_nprof_header_t *h = seen.header;
    truth_check(truth->finished && h->state == NA_NPROF_CLOSED, "%s: the child did not finish",
                where);
    truth_check(h->lost_events == 0 && h->lost_stacks == 0 && h->before_frees == 0 &&
                    h->merged_events == 0,
                "%s: events were lost", where);
    for (uint32_t i = 0; i < na_reader_issue_count(seen.reader); i++) {
        char text[256];
        na_reader_issue_text(seen.reader, i, text, sizeof text);
        truth_check(false, "%s: %s", where, text);
    }
    for (uint32_t i = 0; i < SITES; i++)
        compare_site(&seen, where, i, one_thread);
    bool trace = h->mode == NA_NPROF_MODE_TRACE;
    na_nprof_sizes_t sizes;
    na_sizes_fold(seen.reader, &sizes);
    uint64_t calls[NA_NPROF_ENTRIES] = {0};
    na_thread_table_t threads = na_reader_threads(seen.reader);
    for (uint32_t i = 1; i < threads.count; i++)
        for (unsigned e = 0; e < NA_NPROF_ENTRIES; e++)
            calls[e] += threads.items[i].calls[e];
    if (one_thread) {
        equal(where, 0, "bytes at the peak", (uint64_t)seen.sites.total.peak_bytes,
              (uint64_t)truth->peak_bytes);
        equal(where, 0, "blocks at the peak", (uint64_t)seen.sites.total.peak_count,
              (uint64_t)truth->peak_count);
        for (unsigned i = 0; i < NA_NPROF_SIZE_BUCKETS && !trace; i++)
            equal(where, i, "allocations of a size", sizes.allocs[i], truth->sizes[i]);
        for (unsigned i = 0; i < NA_NPROF_ENTRIES; i++)
            equal(where, i, "calls of an entry point", calls[i], truth->calls[i]);
        uint32_t count, interval;
        const na_nprof_point_t *points = na_reader_timeline(seen.reader, &count, &interval);
        int64_t most = 0;
        uint64_t allocs = 0;
        for (uint32_t i = 0; points != NULL && i < count; i++) {
            if (points[i].requested_max > most) most = points[i].requested_max;
            allocs += points[i].alloc_count;
        }
        if (!trace)
            equal(where, 0, "highest point of the timeline", (uint64_t)most,
                  (uint64_t)truth->peak_bytes);
        equal(where, 0, "allocations of the timeline", allocs, seen.sites.total.alloc_count);
    }
    uint64_t lives = 0;
    for (unsigned i = 0; i < NA_NPROF_SIZE_BUCKETS && !trace; i++)
        for (unsigned k = 0; k < NA_NPROF_AGE_BUCKETS; k++)
            lives += sizes.lives[i][k];
    if (!trace) equal(where, 0, "frees by size and lifetime", lives, seen.sites.total.free_count);
    seen_close(&seen);
}

void oracle_test(void) {
    static const char *const seeds[] = {"1", "2", "3"};
    for (unsigned i = 0; i < 3; i++) {
        char where[64];
        snprintf(where, sizeof where, "one thread, seed %s", seeds[i]);
        truth_run(&(truth_run_t){.mode = "sites",
                                 .words = {"child", "oracle", "0", seeds[i], "20000"},
                                 .settings = {"NUMALLOC_PROFILE_FREES=1"}});
        compare(where, true);
        snprintf(where, sizeof where, "four threads, seed %s", seeds[i]);
        truth_run(&(truth_run_t){.mode = "sites",
                                 .words = {"child", "oracle", "4", seeds[i], "20000"},
                                 .settings = {"NUMALLOC_PROFILE_FREES=1"}});
        compare(where, false);
    }
    /* Played back, the figures are the same. */
    truth_run(&(truth_run_t){.mode = "trace", .words = {"child", "oracle", "0", "1", "20000"}});
    compare("trace", true);
}

void oracle_figures(const char *directory) {
    char path[sizeof truth_path];
    memcpy(path, truth_path, sizeof path);
    snprintf(truth_path, sizeof truth_path, "%s/known.nprof", directory);
    truth_run(&(truth_run_t){.mode = "sites", .words = {"child", "oracle", "0", "1", "20000"}});
    memcpy(truth_path, path, sizeof path);
    char name[sizeof truth_path];
    snprintf(name, sizeof name, "%s/known.json", directory);
    FILE *to = fopen(name, "w");
    truth_check(to != NULL && truth->finished, "no figures in %s", name);
    if (to == NULL) return;
    for (uint32_t i = 0; i < SITE_FREE; i++) {
        const truth_site_t *s = &truth->site[i];
        fprintf(to,
                "%s\n\"site_%u\":{\"peak_bytes\":%lld,\"live_bytes\":%lld,\"total_bytes\":%llu,"
                "\"allocations\":%llu}",
                i == 0 ? "{" : ",", i, (long long)s->peak_bytes, (long long)truth_live(s),
                (unsigned long long)s->alloc_bytes, (unsigned long long)s->alloc_count);
    }
    fputs("}\n", to);
    truth_check(fclose(to) == 0, "%s cannot be written", name);
}
