/* test_trace.c - mode trace: coding and decoding events, and the recorder's side through its hooks.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/track/hooks.h"
#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/format/reader/reader_priv.h"
#include "profiler/format/trace_code.h"
#include "profiler/record/state/record.h"
#include "tests/support/sanitized.h"

_Atomic(uint8_t) na_profile_epoch = 1;
_Atomic(const na_hooks_t *) na_hooks;

/* ---- coding ---- */

static uint64_t seed = 1;

static uint64_t draw(uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 24) % below;
}

#define MANY 20000u

static na_nprof_unit_t units[2 * MANY], back[2 * MANY];

typedef struct maker {
    uint32_t at;
    uint64_t ticks;
} maker_t;

static void add(maker_t *m, unsigned kind, uint64_t word, bool more, uint64_t first,
                uint64_t second) {
    m->ticks += draw(10) == 0 ? draw(1 << 20) : draw(600);
    units[m->at++] =
        (na_nprof_unit_t){m->ticks << 8 | kind | (more ? NA_NPROF_EVENT_MORE : 0), word};
    if (more) units[m->at++] = (na_nprof_unit_t){first, second};
}

/* A program in its way: classes, stacks that repeat, blocks freed in several orders, blocks that
 * were there before; and `wild`: anything that a unit can say. */
static uint32_t make_units(bool wild, bool free_stacks) {
    static uint64_t live[512], sizes[512];
    memset(live, 0, sizeof live);
    maker_t m = {0, draw(1 << 30)};
    uint64_t fresh = UINT64_C(0x7f0000000000), last = fresh;
    for (unsigned i = 0; i < MANY; i++) {
        unsigned slot = (unsigned)draw(512);
        uint64_t stack = draw(3) == 0 ? draw(5000) + 1 : 7 + draw(3);
        if (wild && draw(50) == 0) {
            add(&m, NA_NPROF_EVENT_THREAD, draw(65536), false, 0, 0);
        } else if (wild && draw(10) == 0) {
            add(&m, 1 + (unsigned)draw(6), draw(UINT64_C(1) << 48), true, draw(UINT64_C(1) << 62),
                draw(UINT64_C(1) << 40) | draw(UINT64_C(1) << 32) << 32);
            last = units[m.at - 2].word;
            if ((units[m.at - 2].head & 15) == NA_NPROF_EVENT_ALIGNED)
                units[m.at - 2].word |= draw(48) << 48;
        } else if (wild && draw(10) == 0) {
            unsigned before = draw(2) != 0 ? NA_NPROF_EVENT_BEFORE : 0;
            add(&m, (8 + (unsigned)draw(3)) | before, draw(UINT64_C(1) << 48) | draw(2049) << 48,
                false, 0, 0);
        } else if (live[slot] == 0) {
            uint64_t size = (draw(40) + 1) * 16;
            uint64_t address = draw(3) == 0 ? last : fresh;
            if (address == fresh) fresh += size;
            unsigned kind = draw(20) == 0 ? NA_NPROF_EVENT_ALIGNED : NA_NPROF_EVENT_MALLOC;
            uint64_t align = kind == NA_NPROF_EVENT_ALIGNED || draw(100) == 0 ? 6 : 0;
            if (align != 0 && kind == NA_NPROF_EVENT_MALLOC) kind = NA_NPROF_EVENT_NEW;
            add(&m, kind, address | align << 48, true, size - draw(16), stack | draw(2) << 32);
            live[slot] = address;
            sizes[slot] = units[m.at - 1].head + (units[m.at - 1].word >> 32);
            last = address;
        } else if (draw(8) == 0) {
            uint64_t size = draw(2000) + 1;
            add(&m, NA_NPROF_EVENT_RESIZE, live[slot], true, size, stack | draw(16) << 32);
            sizes[slot] = units[m.at - 1].head + (units[m.at - 1].word >> 32);
        } else if (draw(8) == 0) {
            uint64_t next = draw(2) != 0 ? last : fresh;
            add(&m, NA_NPROF_EVENT_MOVED, live[slot] | sizes[slot] / 16 << 48, true, next,
                free_stacks ? stack : 0);
            live[slot] = 0;
        } else {
            add(&m, 8 + (unsigned)draw(3), live[slot] | sizes[slot] / 16 << 48, free_stacks, 0,
                stack);
            last = live[slot];
            live[slot] = 0;
        }
    }
    return m.at;
}

static void there_and_back(uint32_t count, uint16_t shift) {
    uint8_t *coded = malloc(na_trace_code_bound(count));
    na_trace_coder_t *coder = malloc(na_trace_coder_bytes(count));
    cr_assert(coded != NULL && coder != NULL);
    uint32_t events;
    uint64_t bytes = na_trace_encode(coder, coded, units, count, shift, &events);
    cr_assert_leq(bytes, na_trace_code_bound(count));
    na_nprof_trace_t header;
    cr_assert(na_trace_header(coded, bytes, &header));
    cr_assert(header.events == events && header.units == count);
    memset(back, 0xee, sizeof back);
    cr_assert(na_trace_decode(coder, coded, bytes, &header, back));
    for (uint32_t i = 0; i < count; i += na_trace_units(units[i].head)) {
        uint64_t head = units[i].head >> 8 >> shift << shift << 8 | (units[i].head & 255);
        cr_assert(back[i].head == head, "unit %u: %lx, not %lx", i, back[i].head, head);
        cr_assert(back[i].word == units[i].word, "unit %u: word %lx, not %lx", i, back[i].word,
                  units[i].word);
        if (na_trace_units(units[i].head) == 2)
            cr_assert(memcmp(&back[i + 1], &units[i + 1], sizeof *units) == 0, "unit %u", i + 1);
    }
    bytes = na_trace_store(coded, units, count, &events);
    cr_assert(na_trace_header(coded, bytes, &header) &&
              na_trace_decode(coder, coded, bytes, &header, back));
    cr_assert_eq(memcmp(back, units, count * sizeof *units), 0);
    free(coder);
    free(coded);
}

Test(trace_code, is_lossless) {
    for (unsigned round = 0; round < 12; round++) {
        seed = round + 1;
        uint32_t count = make_units(round >= 4, round % 3 == 2);
        there_and_back(count, (uint16_t)(round % 2 * 5));
    }
}

/* Changed bytes: an answer, some events or none, and nothing else (run under a sanitizer as well).
 */
Test(trace_code, survives_damage) {
    uint32_t count = make_units(true, false), events;
    uint8_t *coded = malloc(na_trace_code_bound(count));
    na_trace_coder_t *coder = malloc(na_trace_coder_bytes(NA_NPROF_TRACE_UNITS));
    cr_assert(coded != NULL && coder != NULL);
    uint64_t bytes = na_trace_encode(coder, coded, units, count, 5, &events);
    uint8_t *exact = malloc(bytes);
    unsigned refused = 0;
    for (unsigned round = 0; round < 300; round++) {
        memcpy(exact, coded, bytes);
        for (unsigned i = 0; i < 4; i++)
            exact[sizeof(na_nprof_trace_t) + draw(bytes - sizeof(na_nprof_trace_t))] =
                (uint8_t)draw(256);
        if (round % 3 == 0) exact[draw(sizeof(na_nprof_trace_t))] = (uint8_t)draw(256);
        na_nprof_trace_t header;
        if (!na_trace_header(exact, bytes, &header)) {
            refused++;
            continue;
        }
        na_nprof_unit_t *to = malloc(header.units * sizeof *to);
        refused += !na_trace_decode(coder, exact, bytes, &header, to);
        free(to);
    }
    cr_assert_gt(refused, 100);
    free(exact);
    free(coder);
    free(coded);
}

/* ---- recording ---- */

static char dir[64], path[128];

static void setup(void) {
    na_os_init();
    na_topology_init(NULL, NULL);
    strcpy(dir, "/tmp/test_trace.XXXXXX");
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/p.nprof", dir);
}

static void teardown(void) {
    unlink(path);
    rmdir(dir);
}

TestSuite(trace, .init = setup, .fini = teardown, .timeout = 300);

static const na_hooks_t *start(na_profile_config_t config) {
    config.mode = NA_PROFILE_TRACE;
    config.file = path;
    const na_hooks_t *h = na_profile_start(&config);
    cr_assert(h != NULL);
    return h;
}

static na_reader_t *reopen(void) {
    char error[256] = "";
    na_reader_t *r = na_reader_open(path, error, sizeof error);
    cr_assert(r != NULL, "%s", error);
    return r;
}

static void no_issues(na_reader_t *r) {
    for (uint32_t i = 0; i < na_reader_issue_count(r); i++) {
        char text[256];
        na_reader_issue_text(r, i, text, sizeof text);
        cr_assert(false, "issue: %s", text);
    }
}

/* A block's address is its number: 16, 32, ... */
static void take(const na_hooks_t *h, void **prof, na_record_t *record, uintptr_t number,
                 size_t size) {
    *record = (na_record_t){0};
    h->on_alloc(prof, record, (void *)(number * 16), size, (size + 15) & ~(size_t)15,
                NA_ENTRY_MALLOC, NULL);
}

static void give(const na_hooks_t *h, void **prof, na_record_t *record, uintptr_t number,
                 size_t size) {
    h->on_free(prof, record, (void *)(number * 16), (size + 15) & ~(size_t)15, NA_RELEASE_FREE,
               NULL);
}

/* Pairs of events; they are slow under the sanitizers. */
enum {
    PAIRS = SANITIZED ? 100000 : 300000,
    THREAD_PAIRS = SANITIZED ? 5000 : 20000,
    ROUNDS = SANITIZED ? 3 : 10
};

/* Allocates and frees blocks 1 to 100 in turn, `count` times; leaves block 1 live. */
static void churn(const na_hooks_t *h, void **prof, unsigned count) {
    na_record_t record;
    for (unsigned i = 0; i < count; i++) {
        uintptr_t number = 2 + i % 99;
        take(h, prof, &record, number, number * 3);
        give(h, prof, &record, number, number * 3);
    }
    take(h, prof, &record, 1, 5);
}

static uint64_t expect_churn(na_reader_t *r, bool whole, unsigned count) {
    na_events_t *events = na_events_open(r);
    cr_assert(events != NULL);
    na_event_t e;
    uint64_t n = 0, skipped = 0;
    bool first = true;
    while (na_events_next(events, &e)) {
        if (first && !whole) skipped = 2 * (uint64_t)count + 1; /* set below */
        if (first && !whole) {
            /* Which of them it is cannot be seen from one event; its place in the pattern can. */
            n = (e.address / 16 - 2) * 2 + !na_event_is_alloc(&e);
        }
        first = false;
        uint64_t i = n++ / 2;
        if (e.address == 16) {
            cr_assert(na_event_is_alloc(&e) && e.size == 5);
            continue;
        }
        cr_assert_eq(e.address / 16, 2 + i % 99);
        cr_assert_eq(na_event_is_alloc(&e), n % 2 == 1);
        if (na_event_is_alloc(&e)) cr_assert_eq(e.size, e.address / 16 * 3);
    }
    na_events_close(events);
    return whole ? n : skipped;
}

/* Small buffers, packed by the thread itself: they are full many times over. */
Test(trace, packs_its_own_buffers) {
    const na_hooks_t *h = start((na_profile_config_t){.trace_buffer = 64 << 10, .trace_level = 1});
    void *prof = NULL;
    churn(h, &prof, 100000);
    na_reader_t *r = reopen(); /* as a killed process would leave it */
    cr_assert_eq(expect_churn(r, true, 100000), 200001);
    no_issues(r);
    na_reader_close(r);
    h->on_exit(&prof);
    r = reopen();
    cr_assert_eq(na_reader_header(r)->state, NA_NPROF_CLOSED);
    cr_assert_eq(na_reader_header(r)->lost_events, 0);
    cr_assert_eq(expect_churn(r, true, 100000), 200001);
    no_issues(r);
    cr_assert_lt(na_reader_file_size(r), 1500000);
    na_reader_close(r);
}

Test(trace, without_compression_or_stacks) {
    const na_hooks_t *h = start(
        (na_profile_config_t){.trace_buffer = 64 << 10, .trace_stacks = NA_TRACE_STACKS_NONE});
    void *prof = NULL;
    churn(h, &prof, 30000);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    cr_assert_eq(expect_churn(r, true, 30000), 60001);
    no_issues(r);
    na_reader_close(r);
}

/* The recorder's own thread does the work. */
Test(trace, packs_in_the_background) {
    const na_hooks_t *h = start((na_profile_config_t){.trace_buffer = 64 << 10, .trace_level = 6});
    h->on_load();
    void *prof = NULL;
    churn(h, &prof, PAIRS);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    cr_assert_eq(expect_churn(r, true, PAIRS), 2 * PAIRS + 1);
    no_issues(r);
    na_reader_close(r);
}

/* The oldest events go, and the rest reads on without a word. */
Test(trace, keeps_to_its_limit_on_size) {
    const na_hooks_t *h = start(
        (na_profile_config_t){.trace_buffer = 64 << 10, .trace_level = 0, .trace_max = 1 << 20});
    void *prof = NULL;
    churn(h, &prof, 200000);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    uint64_t dropped = na_reader_header(r)->dropped_events;
    cr_assert_gt(dropped, 300000);
    na_replay_t *replay = na_replay_open(r);
    na_replay_to(replay, UINT64_MAX);
    const na_replay_totals_t *t = na_replay_totals(replay);
    cr_assert_eq(t->events + dropped, 400001);
    cr_assert_gt(t->events, 30000);
    cr_assert_leq(t->unknown, 1);
    cr_assert_eq(t->live_blocks, 1);
    na_replay_close(replay);
    expect_churn(r, false, 0);
    no_issues(r);
    na_reader_close(r);
}

/* Counted page by page: the counters behind statm may be a hundred pages behind. */
static uint64_t resident(void) {
    static char line[256];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Rss: %lu kB", &kib) == 1) break;
    fclose(file);
    cr_assert_gt(kib, 0);
    return (uint64_t)kib << 10;
}

/* Some times the events, the same memory: buffers are used again, what is sealed is not mapped. */
Test(trace, memory_does_not_grow) {
    const na_hooks_t *h = start((na_profile_config_t){.trace_level = 1, .trace_no_thread = true});
    void *prof = NULL;
    churn(h, &prof, 100000);
    resident(); /* what reading takes is there as well */
    uint64_t before = resident();
    for (unsigned i = 0; i < ROUNDS; i++)
        churn(h, &prof, 100000);
    uint64_t after = resident();
    cr_assert(after < before + (256 << 10), "%lu, then %lu bytes", before, after);
    h->on_exit(&prof);
}

/* Whatever cannot be kept is counted, event by event: those of the file and those lost are all. */
Test(trace, loses_by_choice_only) {
    const na_hooks_t *h = start(
        (na_profile_config_t){.trace_buffer = 64 << 10, .trace_level = 9, .trace_lossy = true});
    h->on_load();
    void *prof = NULL;
    churn(h, &prof, PAIRS);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    na_replay_t *replay = na_replay_open(r);
    na_replay_to(replay, UINT64_MAX);
    /* The free of a block whose allocation was lost is not an event. */
    uint64_t lost = na_reader_header(r)->lost_events, events = na_replay_totals(replay)->events;
    cr_assert(events + lost <= 2 * PAIRS + 1 && events + 2 * lost >= 2 * PAIRS + 1,
              "%lu and %lu lost", events, lost);
    na_replay_close(replay);
    no_issues(r);
    na_reader_close(r);
}

static const na_hooks_t *shared;

/* Each thread has its own addresses. */
static void *one_thread(void *arg) {
    uintptr_t base = (uintptr_t)arg << 20;
    void *prof = NULL;
    na_record_t record;
    for (unsigned i = 0; i < THREAD_PAIRS; i++) {
        take(shared, &prof, &record, base + i % 77, 48);
        give(shared, &prof, &record, base + i % 77, 48);
    }
    shared->on_thread_exit(&prof);
    return NULL;
}

/* More threads than ever run at once: later ones go on in the buffers of those that have ended. */
Test(trace, threads_come_and_go) {
    shared = start((na_profile_config_t){.trace_level = 1});
    shared->on_load();
    for (unsigned round = 0; round < 5; round++) {
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, one_thread, (void *)(i + 1)), 0);
        for (unsigned i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    void *prof = NULL;
    shared->on_exit(&prof);
    na_reader_t *r = reopen();
    na_replay_t *replay = na_replay_open(r);
    na_event_t e;
    uint64_t of_thread[32] = {0}, base_of[32] = {0};
    while (na_replay_next(replay, &e, NULL)) {
        cr_assert(e.thread >= 1 && e.thread <= 20);
        if (of_thread[e.thread]++ == 0) base_of[e.thread] = e.address >> 24;
        cr_assert_eq(e.address >> 24, base_of[e.thread]);
    }
    for (unsigned i = 1; i <= 20; i++)
        cr_assert_eq(of_thread[i], 2 * THREAD_PAIRS, "thread %u: %lu", i, of_thread[i]);
    const na_replay_totals_t *t = na_replay_totals(replay);
    cr_assert(t->contradictions == 0 && t->unknown == 0 && t->live_blocks == 0);
    na_replay_close(replay);
    no_issues(r);
    na_reader_close(r);
}

/* realloc's three ways, by their units. */
Test(trace, reallocs_are_linked) {
    const na_hooks_t *h = start((na_profile_config_t){.trace_level = 1});
    void *prof = NULL;
    na_record_t a = {0}, b = {0};
    take(h, &prof, &a, 100, 40);
    h->on_alloc(&prof, &b, (void *)3200, 100, 112, NA_ENTRY_REALLOC, NULL);
    h->on_free(&prof, &a, (void *)1600, 48, NA_RELEASE_REALLOC, (void *)3200);
    h->on_resize(&prof, &b, (void *)3200, (void *)3200, 112, 105, 112);
    h->before_move(&prof, &b, (void *)3200);
    h->on_resize(&prof, &b, (void *)3200, (void *)6400, 112, 5000, 8192);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    na_replay_t *replay = na_replay_open(r);
    na_event_t e;
    static const uint8_t kinds[] = {NA_NPROF_EVENT_MALLOC, NA_NPROF_EVENT_REALLOC,
                                    NA_NPROF_EVENT_MOVED,  NA_NPROF_EVENT_RESIZE,
                                    NA_NPROF_EVENT_MOVED,  NA_NPROF_EVENT_REALLOC};
    static const uint64_t addresses[] = {1600, 3200, 1600, 3200, 3200, 6400};
    for (unsigned i = 0; i < 6; i++) {
        cr_assert(na_replay_next(replay, &e, NULL));
        cr_assert(e.kind == kinds[i] && e.address == addresses[i], "event %u", i);
    }
    cr_assert_not(na_replay_next(replay, &e, NULL));
    const na_live_t *block = na_replay_find(replay, 6400);
    cr_assert(block != NULL && block->size == 5000 && block->slack == 3192);
    cr_assert_eq(na_replay_totals(replay)->live_blocks, 1);
    na_replay_close(replay);
    na_reader_close(r);
}

/* More blocks than the table begins with, some freed in between: what lives is what should, and
 * only what came after the mark is marked. */
static void see_block(void *arg, const na_live_t *block) {
    uint64_t *seen = arg;
    uint64_t i = block->address / 32 - 1;
    cr_assert(block->address % 32 == 0 && i < 30000 && i % 3 != 0);
    cr_assert(block->size == 10 + i % 7 && block->marked == (i >= 20000), "block %lu", i);
    (*seen)++;
}

Test(trace, knows_what_lives) {
    const na_hooks_t *h = start((na_profile_config_t){.trace_buffer = 64 << 10, .trace_level = 1});
    void *prof = NULL;
    na_record_t record = {0};
    for (uintptr_t i = 0; i < 30000; i++)
        h->on_alloc(&prof, &record, (void *)((i + 1) * 32), 10 + i % 7, 32, NA_ENTRY_MALLOC, NULL);
    for (uintptr_t i = 0; i < 30000; i += 3)
        h->on_free(&prof, &record, (void *)((i + 1) * 32), 32, NA_RELEASE_FREE, NULL);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    na_replay_t *replay = na_replay_open(r);
    na_replay_to(replay, 20000);
    na_replay_mark(replay);
    na_replay_to(replay, UINT64_MAX);
    uint64_t seen = 0;
    na_replay_each(replay, see_block, &seen);
    cr_assert_eq(seen, 20000);
    cr_assert_eq(na_replay_totals(replay)->peak_blocks, 30000);
    cr_assert(na_replay_find(replay, 32) == NULL && na_replay_find(replay, 64) != NULL);
    na_replay_close(replay);
    na_reader_close(r);
}

/* A chunk in the middle is damaged: the others are read, and it is said once. */
Test(trace, leaves_out_a_damaged_chunk) {
    const na_hooks_t *h = start((na_profile_config_t){.trace_buffer = 64 << 10, .trace_level = 1});
    void *prof = NULL;
    churn(h, &prof, 100000);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    uint64_t at = 0, found = 0;
    for (size_t i = 0; i < r->chunk_count; i++)
        if (r->chunks[i].type == NA_NPROF_TRACE && ++found == 5) at = r->chunks[i].data + 100;
    cr_assert_gt(found, 10);
    na_reader_close(r);
    int fd = open(path, O_RDWR);
    uint8_t byte;
    cr_assert(pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= 0x10;
    cr_assert(pwrite(fd, &byte, 1, (off_t)at) == 1);
    close(fd);
    r = reopen();
    na_replay_t *replay = na_replay_open(r);
    na_replay_to(replay, UINT64_MAX);
    uint64_t events = na_replay_totals(replay)->events;
    cr_assert(events > 150000 && events < 200001, "%lu events", events);
    na_replay_close(replay);
    cr_assert_eq(na_reader_issue_count(r), 1);
    char text[256];
    na_reader_issue_text(r, 0, text, sizeof text);
    cr_assert(strstr(text, "wrong checksum") != NULL, "%s", text);
    na_reader_close(r);
}
