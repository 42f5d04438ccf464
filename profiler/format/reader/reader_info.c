/* reader_info.c - what a profile's file is made of, and the symbols that were added to it. */
#include <stdlib.h>
#include <string.h>

#include "profiler/format/nprof_access.h"
#include "profiler/format/nprof_trace.h"
#include "profiler/format/reader/reader_priv.h"

static const struct {
    uint16_t type;
    const char *name;
} types[] = {
    {NA_NPROF_STACKS, "stacks"},
    {NA_NPROF_CELLS, "cells"},
    {NA_NPROF_THREADS, "threads"},
    {NA_NPROF_MODULES, "modules"},
    {NA_NPROF_TIMELINE, "timeline"},
    {NA_NPROF_ENVIRONMENT, "environment"},
    {NA_NPROF_SHARES, "shares"},
    {NA_NPROF_SERIES, "series"},
    {NA_NPROF_LIVES, "lives"},
    {NA_NPROF_SIZES, "sizes"},
    {NA_NPROF_MAPS, "maps"},
    {NA_NPROF_SPANS, "spans"},
    {NA_NPROF_SPAN_SITES, "span sites"},
    {NA_NPROF_SUMS, "checksums"},
    {NA_NPROF_SYMBOLS, "symbols"},
    {NA_NPROF_PYTHON, "Python"},
    {NA_NPROF_PYTHON_CODES, "Python codes"},
    {NA_NPROF_PYTHON_TEXT, "Python text"},
    {NA_NPROF_POLICY, "policy"},
    {NA_NPROF_POLICY_RULES, "policy rules"},
    {NA_NPROF_LEAKS, "leaks"},
    {NA_NPROF_LEAK_SITES, "leak sites"},
    {NA_NPROF_LEAK_HELD, "leaks held"},
    {NA_NPROF_TRACE_BUFFER, "trace buffers"},
    {NA_NPROF_TRACE, "trace"},
    {NA_NPROF_TRACE_DROPPED, "trace dropped"},
    {NA_NPROF_ACCESS_SOURCES, "access sources"},
    {NA_NPROF_ACCESS_NODES, "access nodes"},
    {NA_NPROF_ACCESS_THREADS, "access threads"},
    {NA_NPROF_ACCESS_MAPPINGS, "access mappings"},
    {NA_NPROF_ACCESS_OBJECTS, "access objects"},
    {NA_NPROF_ACCESS_WINDOWS, "access windows"},
    {NA_NPROF_ACCESS_SAMPLES, "access samples"},
    {NA_NPROF_ACCESS_PROBES, "access probes"},
};

const char *na_reader_chunk_sum(const na_reader_t *reader, size_t index, na_chunk_sum_t *sum) {
    memset(sum, 0, sizeof *sum);
    if (index >= sizeof types / sizeof types[0]) return NULL;
    for (size_t c = 0; c < reader->chunk_count; c++) {
        const na_chunk_ref_t *chunk = &reader->chunks[c];
        if (chunk->type != types[index].type) continue;
        sum->chunks++;
        sum->entries += chunk->count;
        sum->stored += chunk->size;
        sum->raw += (chunk->flags & NA_NPROF_SEALED) != 0 ? chunk->raw_length : chunk->size;
    }
    return types[index].name;
}

const char *na_reader_type_name(uint16_t type) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == type) return types[i].name;
    switch (type) {
    case NA_NPROF_SESSION:
        return "session";
    case NA_NPROF_MARKERS:
        return "markers";
    case NA_NPROF_POOLS:
        return "pools";
    case NA_NPROF_POOL_CELLS:
        return "pool cells";
    case NA_NPROF_ORIGINS:
        return "origins";
    case NA_NPROF_INHERITED:
        return "inherited blocks";
    default:
        return "no chunk that is known";
    }
}

uint64_t na_reader_entries(const na_reader_t *reader, uint16_t type) {
    uint64_t entries = 0;
    for (size_t c = 0; c < reader->chunk_count; c++)
        if (reader->chunks[c].type == type) entries += reader->chunks[c].count;
    return entries;
}

typedef struct text {
    char *bytes;
    size_t used, room;
} text_t;

static void take_info(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                      const void *entry) {
    (void)reader;
    (void)chunk;
    (void)index;
    text_t *text = arg;
    if (text->used < text->room) text->bytes[text->used++] = *(const char *)entry;
}

const char *na_reader_symbols(na_reader_t *reader, size_t *size) {
    if (!reader->symbols_read) {
        reader->symbols_read = true;
        uint64_t room = 0;
        for (size_t c = 0; c < reader->chunk_count; c++)
            if (reader->chunks[c].type == NA_NPROF_SYMBOLS) room += reader->chunks[c].count;
        /* The names that are made of the text take at most twice its size; they count here. */
        bool fits = room != 0 && na_budget_take(reader->budget, 3 * room);
        text_t text = {fits ? malloc((size_t)room + 1) : NULL, 0, (size_t)room};
        if (text.bytes == NULL && room != 0) na_reader_no_memory(reader, 0);
        if (text.bytes != NULL) {
            na_reader_each_entry(reader, NA_NPROF_SYMBOLS, take_info, &text);
            text.bytes[text.used] = 0;
        }
        reader->symbols = text.bytes;
        reader->symbols_size = text.used;
    }
    *size = reader->symbols_size;
    return reader->symbols_size == 0 ? NULL : reader->symbols;
}
