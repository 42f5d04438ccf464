/* merge_file.c - sums of many profiles, and a profile of them. See merge.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "profiler/containers/array.h"
#include "profiler/dump/runs/merge.h"

/* ---- sums ---- */

/* In the units of the merge. Counts that are not scaled, and bytes, are so already. */
static na_counters_t converted(const na_counters_t *from, const na_nprof_header_t *h) {
    double count = NA_MERGE_SCALE / (double)h->count_scale;
    double age = h->ticks_hz == 0 ? 0
                                  : (double)(UINT64_C(1) << (h->age_shift & 63)) * 1e9 /
                                        (double)h->ticks_hz / NA_MERGE_AGE_NS;
    na_counters_t to = *from;
#define SCALE(field, type, by) to.field = (type)((double)to.field * (by))
#define SCALE_COUNT(name, type)                                                                    \
    if (count != 1) SCALE(name, type, count)
#define CONVERT_COUNT(name, type)   SCALE_COUNT(name, type);
#define CONVERT_AGE(name, type)     SCALE(name, type, age);
#define CONVERT_AGE_SUM(name, type) SCALE(name, type, age *count);
#define CONVERT_PLAIN(name, type)
#define CONVERT_BYTES(name, type)
#define CONVERT_MASK(name, type)
#define CONVERT_VARIANCE(name, type)
#define CONVERT_RATIO(name, type)
#define CONVERT(name, type, reduction, unit, meaning) CONVERT_##unit(name, type)
    bool freed = from->lifetime_min != UINT64_MAX;
    NA_COUNTERS(CONVERT)
    if (!freed) to.lifetime_min = UINT64_MAX;
    return to;
}

static void note_difference(char *to, size_t size, size_t *different, const char *name) {
    if (*different != 0 && strcmp(to, name) == 0) return;
    if (++*different == 1) snprintf(to, size, "%s", name);
}

bool na_merge_add(na_merge_sums_t *sums, const na_merge_file_t *file) {
    const na_nprof_header_t *h = file->header;
    uint64_t end = h->start_unix_ns + h->last_ms * 1000000;
    if (sums->files == 0 || h->start_unix_ns < sums->start_unix_ns)
        sums->start_unix_ns = h->start_unix_ns;
    if (sums->files == 0 || end > sums->end_unix_ns) sums->end_unix_ns = end;
    sums->files++;
    if (h->sample_interval > sums->sample_interval) sums->sample_interval = h->sample_interval;
    note_difference(sums->host, sizeof sums->host, &sums->hosts, h->host);
    note_difference(sums->program, sizeof sums->program, &sums->programs, h->program);
    sums->lost_events += h->lost_events;
    sums->truncated += h->truncated_stacks;
    sums->before_frees += h->before_frees;
    sums->together_ms += na_nprof_together_ms(h);
    sums->processes += h->processes != 0 ? h->processes : 1;
    for (size_t i = 0; i < file->count; i++) {
        uint32_t stack = file->stacks[i];
        uint32_t room = sums->room;
        if (!NA_ARRAY_RESERVE(sums->items, sums->room, stack + 1u)) return false;
        for (; room < sums->room; room++)
            sums->items[room] = na_counters_none();
        na_counters_t one = converted(&file->sites[i].sum, h);
        na_counters_add(&sums->items[stack], &one);
        sums->peak_bytes = na_add_signed(sums->peak_bytes, one.peak_bytes);
        sums->peak_count = na_add_signed(sums->peak_count, one.peak_count);
    }
    return true;
}

/* ---- the file ---- */

typedef struct writer {
    int fd;
    uint64_t used;
    bool failed;
} writer_t;

static void write_at(writer_t *w, const void *bytes, size_t size, uint64_t at) {
    for (const char *from = bytes; size != 0 && !w->failed;) {
        ssize_t n = pwrite(w->fd, from, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            w->failed = true;
            return;
        }
        from += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
}

/* One sealed chunk of entries that are in memory. */
static void put_chunk(writer_t *w, uint16_t type, const void *entries, uint32_t entry_size,
                      uint32_t count, uint32_t first_id, uint32_t sequence) {
    static const char zeros[NA_NPROF_PAGE];
    size_t size = (size_t)entry_size * count;
    na_nprof_chunk_t head = {
        .magic = NA_NPROF_CHUNK_MAGIC,
        .type = type,
        .flags = NA_NPROF_SEALED,
        .length = na_nprof_chunk_length(size, 1),
        .self_offset = w->used,
        .raw_length = size,
        .sequence = sequence,
        .entry_size = entry_size,
        .capacity = count,
        .first_id = first_id,
        .count = count,
    };
    size_t padding = head.length - sizeof head - size;
    uLong crc = crc32_z(crc32(0, NULL, 0), entries, size);
    head.data_crc = (uint32_t)crc32_z(crc, (const Bytef *)zeros, padding);
    head.header_crc = na_nprof_chunk_crc(head);
    write_at(w, &head, sizeof head, w->used);
    write_at(w, entries, size, w->used + sizeof head);
    write_at(w, zeros, padding, w->used + sizeof head + size);
    w->used += head.length;
}

/* All entries of a table, in as many chunks as they need. */
static void put_entries(writer_t *w, uint16_t type, const void *entries, uint32_t entry_size,
                        uint32_t count, uint32_t first_id) {
    uint32_t most = (uint32_t)((NA_NPROF_MAX_RAW / 2) / entry_size), sequence = 0;
    for (uint32_t at = 0; at < count; at += most)
        put_chunk(w, type, (const char *)entries + (size_t)at * entry_size, entry_size,
                  count - at < most ? count - at : most, first_id + at, sequence++);
}

static uint32_t at_most_32(uint64_t value) {
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static na_nprof_cell_t cell_of_sums(uint32_t site, const na_counters_t *c, bool sampled) {
    na_nprof_cell_t cell = {
        .site = site,
        .peak_epoch = 1,
        .alloc_count = c->alloc_count,
        .alloc_bytes = c->alloc_bytes,
        .alloc_usable = c->alloc_usable,
        .free_count = c->free_count,
        .free_bytes = c->free_bytes,
        .free_usable = c->free_usable,
        .local_peak_bytes = c->local_peak_bytes,
        .peak_bytes = c->peak_bytes,
        .peak_count = c->peak_count,
        .size_min = c->size_min,
        .size_max = c->size_max,
        .lifetime_sum = c->lifetime_sum,
        .lifetime_min = c->lifetime_min,
        .lifetime_max = c->lifetime_max,
        .temporary_count = c->temporary_count,
        .cross_thread_free_count = c->cross_thread_free_count,
        .cross_node_free_count = c->cross_node_free_count,
        .realloc_count = c->realloc_count,
        .realloc_grow_bytes = c->realloc_grow_bytes,
        .realloc_shrink_bytes = c->realloc_shrink_bytes,
        .realloc_copy_bytes = c->realloc_copy_bytes,
        .freed_here_count = c->freed_here_count,
        .freed_here_bytes = c->freed_here_bytes,
        .aligned_count = at_most_32(c->aligned_count),
        .align_mask = (uint32_t)c->align_mask,
        .raw_allocs = at_most_32(c->raw_allocs),
        .raw_frees = at_most_32(c->raw_frees),
    };
    if (sampled) {
        cell.var_alloc_count = c->var_alloc_count;
        cell.var_alloc_bytes = c->var_alloc_bytes;
        cell.var_free_count = c->var_free_count;
        cell.var_free_bytes = c->var_free_bytes;
    } else {
        cell.growth_count = c->growth_count;
        cell.growth_bytes = c->growth_bytes;
        cell.growth_copied = c->growth_copied;
    }
    return cell;
}

static void put_cells(writer_t *w, const na_merge_sums_t *sums, uint32_t stacks) {
    na_nprof_cell_t *cells = NULL;
    uint32_t count = 0, room = 0;
    for (uint32_t i = NA_NPROF_ROOT; i < stacks && i < sums->room; i++) {
        const na_counters_t *c = &sums->items[i];
        if (c->alloc_count == 0 && c->free_count == 0) continue;
        if (!NA_ARRAY_RESERVE(cells, room, count + 1u)) {
            w->failed = true;
            errno = ENOMEM;
            break;
        }
        cells[count++] = cell_of_sums(i, c, sums->sample_interval != 0);
    }
    if (!w->failed) put_entries(w, NA_NPROF_CELLS, cells, sizeof *cells, count, 0);
    free(cells);
}

/* Chunks of whole lines. */
static void put_symbol_lines(writer_t *w, const char *text, size_t size) {
    const size_t most = (size_t)16 << 20;
    uint32_t sequence = 0;
    for (size_t at = 0; at < size;) {
        size_t n = size - at;
        if (n > most)
            for (n = most; n > 1 && text[at + n - 1] != '\n';)
                n--;
        put_chunk(w, NA_NPROF_SYMBOLS, text + at, 1, (uint32_t)n, 0, sequence++);
        at += n;
    }
}

bool na_merge_write(na_merge_t *merge, const na_merge_sums_t *sums, int fd) {
    writer_t w = {.fd = fd, .used = NA_NPROF_PAGE};
    na_stack_table_t stacks = na_merge_stacks(merge);
    na_module_table_t modules = na_merge_modules(merge);
    size_t size = 0;
    const char *symbols = na_merge_symbols(merge, &size);
    put_entries(&w, NA_NPROF_STACKS, stacks.items, sizeof *stacks.items, stacks.count, 0);
    if (modules.count > 1)
        put_entries(&w, NA_NPROF_MODULES, modules.items + 1, sizeof *modules.items,
                    modules.count - 1, 1);
    put_cells(&w, sums, stacks.count);
    if (symbols != NULL) put_symbol_lines(&w, symbols, size);
    na_nprof_header_t h = {
        .magic = NA_NPROF_MAGIC,
        .version = NA_NPROF_VERSION,
        .header_size = NA_NPROF_PAGE,
        .mode = sums->sample_interval != 0 ? NA_NPROF_MODE_SAMPLE : NA_NPROF_MODE_SITES,
        .clock_kind = NA_NPROF_CLOCK_MONOTONIC,
        .page_size = NA_NPROF_PAGE,
        .count_scale = NA_MERGE_SCALE,
        .sample_interval = sums->sample_interval,
        .mpi_rank = -1,
        .start_unix_ns = sums->start_unix_ns,
        .ticks_hz = 1000000000,
        .node_count = 1,
        .writer = "numalloc-dump merge",
        .age_shift = 8,
        .state = NA_NPROF_CLOSED,
        .peak_epoch = 1,
        .peak_bytes = sums->peak_bytes,
        .peak_count = sums->peak_count,
        .used = w.used,
        .last_ms = (sums->end_unix_ns - sums->start_unix_ns) / 1000000,
        .lost_events = sums->lost_events,
        .truncated_stacks = sums->truncated,
        .before_frees = sums->before_frees,
        .together_ms = sums->together_ms,
        .processes = sums->processes,
        .finished = NA_NPROF_FINISHED,
    };
    h.peak_ms = h.last_ms;
    _Static_assert(NA_MERGE_AGE_NS == 1u << 8, "age_shift");
    snprintf(h.host, sizeof h.host, "%s", sums->hosts == 1 ? sums->host : "several");
    snprintf(h.program, sizeof h.program, "%s", sums->programs == 1 ? sums->program : "several");
    snprintf(h.command, sizeof h.command, "%zu profiles, merged", sums->files);
    h.const_crc = na_nprof_header_crc(&h);
    h.mutable_crc = na_nprof_mutable_crc(h);
    write_at(&w, &h, sizeof h, 0);
    return !w.failed;
}

int na_merge_in_memory(na_merge_t *merge, const na_merge_sums_t *sums, char path[32]) {
    int fd = memfd_create("merge", MFD_CLOEXEC);
    if (fd < 0) return -1;
    if (!na_merge_write(merge, sums, fd)) {
        close(fd);
        return -1;
    }
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}
