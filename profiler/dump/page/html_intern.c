/* html_intern.c - numbered sets of keys. */
#include "profiler/dump/page/html_intern.h"

#include <string.h>

#include "profiler/containers/array.h"

static uint64_t hash_of_key(const na_intern_key_t *key) {
    if (key->text != NULL) return na_hash_text(NA_HASH_BEGIN, key->text);
    uint64_t hash = NA_HASH_BEGIN;
    for (size_t i = 0; i < 3; i++)
        hash = na_hash_number(hash, key->number[i]);
    return hash;
}

static bool equal_keys(const na_intern_key_t *a, const na_intern_key_t *b) {
    if (a->text != NULL) return strcmp(a->text, b->text) == 0;
    return memcmp(a->number, b->number, sizeof a->number) == 0;
}

static uint32_t intern_key(na_intern_t *set, const na_intern_key_t *key, bool *fresh) {
    if (fresh != NULL) *fresh = false;
    uint64_t hash = hash_of_key(key);
    na_probe_t probe = na_index_probe(&set->index, hash);
    while (na_index_next(&set->index, &probe))
        if (equal_keys(key, &set->keys[probe.number])) return probe.number;
    if (!NA_ARRAY_RESERVE(set->keys, set->room, set->count + 1u) ||
        !na_index_add(&set->index, hash, set->count))
        return UINT32_MAX;
    if (fresh != NULL) *fresh = true;
    set->keys[set->count] = *key;
    return set->count++;
}

uint32_t na_intern_text(na_intern_t *set, const char *text) {
    return intern_key(set, &(na_intern_key_t){.text = text}, NULL);
}

uint32_t na_intern_numbers(na_intern_t *set, uint32_t a, uint32_t b, uint32_t c, bool *fresh) {
    return intern_key(set, &(na_intern_key_t){.number = {a, b, c}}, fresh);
}

void na_intern_free(na_intern_t *set) {
    free(set->keys);
    na_index_free(&set->index);
    *set = (na_intern_t){0};
}
