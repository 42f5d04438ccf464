/* ahead.c - threads that unpack chunks in order, into a ring that the caller empties. See ahead.h.
 */
#include "profiler/format/reader/ahead.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "profiler/format/trace_code.h"

#define THREADS_MAX 3u /* one caller cannot play back what more can decode */
#define SPARES      (2 * THREADS_MAX)
#define WORTH_IT    4u /* chunks */

/* One thread's, used again from chunk to chunk: fresh memory would cost more than the work. */
typedef struct coder {
    na_trace_coder_t *memory;
    uint32_t units; /* that it has room for */
    na_unpack_t unpack;
} coder_t;

typedef struct spare {
    na_nprof_unit_t *units; /* NULL: none */
    uint32_t room;
} spare_t;

/* Ring entry i % room is chunk i's from when a thread begins it until it is taken. */
typedef struct entry {
    na_unpacked_t what;
    bool ready;
} entry_t;

struct na_ahead {
    const na_reader_t *reader;
    const size_t *chunks;
    size_t count;
    coder_t coder; /* the caller's own, where there are no threads */
    pthread_t threads[THREADS_MAX];
    unsigned thread_count;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t ready, room_again;
    size_t begun, taken;
    entry_t ring[SPARES];
    size_t room;
    spare_t spares[SPARES]; /* returned units */
    size_t spare_room;
    uint64_t reserved; /* of the reader's budget */
    bool stop;
};

static bool fits_units(coder_t *coder, uint32_t units) {
    if (coder->memory != NULL && coder->units >= units) return true;
    free(coder->memory);
    coder->memory = aligned_alloc(64, (na_trace_decoder_bytes(units) + 63) & ~UINT64_C(63));
    coder->units = coder->memory != NULL ? units : 0;
    return coder->memory != NULL;
}

static void free_coder(coder_t *coder) {
    free(coder->memory);
    na_unpack_free(&coder->unpack);
}

/* Units of a chunk, at most: an event is two of them, and two bytes when it is coded. */
static uint64_t most_units(const na_chunk_ref_t *chunk) {
    return chunk->raw_length < NA_NPROF_TRACE_UNITS ? chunk->raw_length : NA_NPROF_TRACE_UNITS;
}

static uint64_t units_cost(const na_chunk_ref_t *chunk) {
    return most_units(chunk) * sizeof(na_nprof_unit_t);
}

uint64_t na_ahead_cost(const na_chunk_ref_t *chunk) {
    return units_cost(chunk) + na_trace_decoder_bytes((uint32_t)most_units(chunk)) + chunk->size +
           chunk->raw_length;
}

/* Room for so many units, one that was returned if possible. */
static spare_t find_units(na_ahead_t *a, uint32_t count) {
    spare_t found = {NULL, count};
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->spare_room && found.units == NULL; i++) {
        if (a->spares[i].units == NULL || a->spares[i].room < count) continue;
        found = a->spares[i];
        a->spares[i].units = NULL;
    }
    pthread_mutex_unlock(&a->lock);
    if (found.units == NULL) found.units = malloc((size_t)count * sizeof *found.units);
    return found;
}

void na_ahead_return(na_ahead_t *a, na_nprof_unit_t *units, uint32_t room) {
    if (units == NULL) return;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->spare_room && units != NULL; i++) {
        if (a->spares[i].units != NULL) continue;
        a->spares[i] = (spare_t){units, room};
        units = NULL;
    }
    if (units != NULL) { /* in the place of another: sizes that fit nothing do not stay */
        spare_t *other = &a->spares[room % a->spare_room];
        na_nprof_unit_t *dropped = other->units;
        *other = (spare_t){units, room};
        units = dropped;
    }
    pthread_mutex_unlock(&a->lock);
    free(units);
}

static na_unpacked_t unpack(na_ahead_t *a, const na_chunk_ref_t *ref, coder_t *coder) {
    na_unpacked_t u = {.issue = NA_ISSUE_KINDS};
    const uint8_t *raw = na_reader_unpack(a->reader, ref, &coder->unpack, &u.issue);
    if (raw == NULL) return u;
    na_nprof_trace_t header = {.units = 0};
    u.issue = NA_ISSUE_BAD_EVENTS;
    if (!na_trace_header(raw, ref->raw_length, &header)) return u;
    spare_t memory = find_units(a, header.units);
    u.units = memory.units;
    u.room = memory.room;
    if (u.units == NULL || !fits_units(coder, header.units)) {
        u.issue = NA_ISSUE_MEMORY;
    } else if (na_trace_decode(coder->memory, raw, ref->raw_length, &header, u.units)) {
        u.issue = NA_ISSUE_KINDS;
        u.count = header.units;
        return u;
    }
    na_ahead_return(a, u.units, u.room);
    u.units = NULL;
    u.room = 0;
    return u;
}

static void *decode_ahead(void *arg) {
    na_ahead_t *a = arg;
    coder_t coder = {.units = 0};
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->stop && a->begun < a->count && a->begun >= a->taken + a->room)
            pthread_cond_wait(&a->room_again, &a->lock);
        if (a->stop || a->begun >= a->count) break;
        size_t i = a->begun++;
        pthread_mutex_unlock(&a->lock);
        na_unpacked_t what = unpack(a, &a->reader->chunks[a->chunks[i]], &coder);
        pthread_mutex_lock(&a->lock);
        a->ring[i % a->room] = (entry_t){what, true};
        pthread_cond_signal(&a->ready);
    }
    pthread_mutex_unlock(&a->lock);
    free_coder(&coder);
    return NULL;
}

static unsigned processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 2;
}

/* Takes what so many threads need from the budget, at most half of what is
 * left (all of it if there is no other way): each has a chunk in work,
 * two ready and two that came back; and there is one in the caller's hands. */
static bool reserve(na_ahead_t *a, unsigned wanted) {
    uint64_t work = 0, units = 0;
    for (size_t i = 0; i < a->count; i++) {
        const na_chunk_ref_t *chunk = &a->reader->chunks[a->chunks[i]];
        if (na_ahead_cost(chunk) > work) work = na_ahead_cost(chunk);
        if (units_cost(chunk) > units) units = units_cost(chunk);
    }
    a->spare_room = wanted == 0 ? 1 : 2 * (size_t)wanted;
    a->room = 2 * (size_t)wanted;
    uint64_t bytes = (wanted + 1u) * work + (a->room + a->spare_room) * units;
    if (wanted != 0 && bytes > na_budget_left(a->reader->budget) / 2) return false;
    if (!na_budget_take(a->reader->budget, bytes)) return false;
    a->reserved = bytes;
    return true;
}

static bool start_thread(na_ahead_t *a) {
    unsigned wanted = processors() - 1;
    if (wanted > THREADS_MAX) wanted = THREADS_MAX;
    if (a->count < WORTH_IT) wanted = 0;
    while (!reserve(a, wanted))
        if (wanted-- == 0) return false;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (a->thread_count < wanted &&
           pthread_create(&a->threads[a->thread_count], NULL, decode_ahead, a) == 0)
        a->thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return true;
}

na_ahead_t *na_ahead_open(const na_reader_t *reader, const size_t *chunks, size_t count) {
    na_ahead_t *a = calloc(1, sizeof *a);
    if (a == NULL) return NULL;
    a->reader = reader;
    a->chunks = chunks;
    a->count = count;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->ready, NULL);
    pthread_cond_init(&a->room_again, NULL);
    if (start_thread(a)) return a;
    na_ahead_close(a);
    return NULL;
}

na_unpacked_t na_ahead_take(na_ahead_t *a) {
    if (a->thread_count == 0)
        return unpack(a, &a->reader->chunks[a->chunks[a->taken++]], &a->coder);
    pthread_mutex_lock(&a->lock);
    entry_t *entry = &a->ring[a->taken % a->room];
    while (!entry->ready)
        pthread_cond_wait(&a->ready, &a->lock);
    na_unpacked_t what = entry->what;
    *entry = (entry_t){.ready = false};
    a->taken++;
    pthread_cond_signal(&a->room_again);
    pthread_mutex_unlock(&a->lock);
    return what;
}

void na_ahead_close(na_ahead_t *a) {
    if (a == NULL) return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_broadcast(&a->room_again);
    pthread_mutex_unlock(&a->lock);
    for (unsigned i = 0; i < a->thread_count; i++)
        pthread_join(a->threads[i], NULL);
    for (size_t i = 0; i < a->room; i++)
        if (a->ring[i].ready) free(a->ring[i].what.units);
    pthread_cond_destroy(&a->room_again);
    pthread_cond_destroy(&a->ready);
    pthread_mutex_destroy(&a->lock);
    for (size_t i = 0; i < SPARES; i++)
        free(a->spares[i].units);
    free_coder(&a->coder);
    na_budget_give(a->reader->budget, a->reserved);
    free(a);
}
