/* lost.c - what a scan for leaks found, in the file. */
#include "profiler/record/state/state.h"

static struct {
    const na_nprof_header_t *of; /* the profile that these are chunks of */
    uint64_t start;
    na_nprof_chunk_t *head, *sites, *held; /* NULL: not made */
} lost;

static na_nprof_chunk_t *make_lost_chunk(uint16_t type, uint64_t entries, uint32_t size) {
    uint64_t length = na_nprof_chunk_length(entries, size);
    if (!na_rec_has_room(length)) return NULL;
    na_nprof_chunk_t *c = na_writer_chunk(type, length, size, 0, 0, 0);
    if (c == NULL) return NULL;
    na_writer_publish(c);
    return c;
}

na_nprof_leak_site_t *na_lost_begin(uint32_t sites) {
    if (!na_rec_is_open() || atomic_load(&na_rec.closed)) return NULL;
    if (lost.of != na_rec.header || lost.start != na_rec.header->start_unix_ns)
        lost.head = lost.sites = lost.held = NULL;
    lost.of = na_rec.header;
    lost.start = na_rec.header->start_unix_ns;
    if (lost.head == NULL) lost.head = make_lost_chunk(NA_NPROF_LEAKS, 1, sizeof(na_nprof_leaks_t));
    if (lost.head == NULL) return NULL;
    __atomic_store_n(&lost.head->count, 0, __ATOMIC_RELEASE);
    if (lost.sites != NULL) __atomic_store_n(&lost.sites->count, 0, __ATOMIC_RELEASE);
    if (lost.sites == NULL || lost.sites->capacity < sites)
        lost.sites = make_lost_chunk(NA_NPROF_LEAK_SITES, sites, sizeof(na_nprof_leak_site_t));
    return lost.sites != NULL ? (na_nprof_leak_site_t *)(lost.sites + 1) : NULL;
}

na_nprof_leak_held_t *na_lost_held(uint32_t entries) {
    if (lost.held != NULL) __atomic_store_n(&lost.held->count, 0, __ATOMIC_RELEASE);
    if (entries == 0) return NULL;
    if (lost.held == NULL || lost.held->capacity < entries)
        lost.held = make_lost_chunk(NA_NPROF_LEAK_HELD, entries, sizeof(na_nprof_leak_held_t));
    return lost.held != NULL ? (na_nprof_leak_held_t *)(lost.held + 1) : NULL;
}

void na_lost_held_end(uint32_t entries) {
    __atomic_store_n(&lost.held->count, entries, __ATOMIC_RELEASE);
}

void na_lost_end(const na_nprof_leaks_t *leaks, uint32_t sites) {
    __atomic_store_n(&lost.sites->count, sites, __ATOMIC_RELEASE);
    na_nprof_leaks_t *to = (na_nprof_leaks_t *)(lost.head + 1);
    *to = *leaks;
    to->ms = na_rec_ms();
    __atomic_store_n(&lost.head->count, 1, __ATOMIC_RELEASE);
}
