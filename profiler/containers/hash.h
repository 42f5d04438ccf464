/* hash.h - hashes of texts and numbers, one behind another. Pure: also for the recorder. */
#ifndef NUMALLOC_PROFILER_CONTAINERS_HASH_H
#define NUMALLOC_PROFILER_CONTAINERS_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash of a text behind another hash, or behind NA_HASH_BEGIN (FNV-1a). */
#define NA_HASH_BEGIN UINT64_C(0xcbf29ce484222325)
static inline uint64_t na_hash_text(uint64_t hash, const char *text) {
    for (; *text != 0; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The same of so many bytes. */
static inline uint64_t na_hash_bytes(uint64_t hash, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Hash of a number behind another hash. */
static inline uint64_t na_hash_number(uint64_t hash, uint64_t number) {
    hash = (hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

#endif
