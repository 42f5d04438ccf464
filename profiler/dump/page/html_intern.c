/* html_intern.c - numbered sets of keys. */
#include "profiler/dump/page/html_intern.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const na_intern_key_t *key) {
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
    if (key->text != NULL)
        for (const unsigned char *p = (const unsigned char *)key->text; *p != 0; p++)
            h = (h ^ *p) * UINT64_C(0x100000001b3);
    else
        for (size_t i = 0; i < 3; i++)
            h = (h ^ key->number[i]) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static bool equal(const na_intern_key_t *a, const na_intern_key_t *b) {
    if (a->text != NULL) return strcmp(a->text, b->text) == 0;
    return memcmp(a->number, b->number, sizeof a->number) == 0;
}

static bool grow(na_intern_t *set) {
    uint32_t room = set->room == 0 ? 256 : set->room * 2, slots = room * 2;
    if (room < set->room || slots < room) return false;
    na_intern_key_t *keys = realloc(set->keys, room * sizeof *keys);
    if (keys == NULL) return false;
    set->keys = keys;
    uint32_t *made = calloc(slots, sizeof *made);
    if (made == NULL) return false;
    free(set->slots);
    set->slots = made;
    set->slot_room = slots;
    set->room = room;
    for (uint32_t i = 0; i < set->count; i++) {
        uint64_t at = hash_of(&keys[i]) & (slots - 1);
        while (made[at] != 0)
            at = (at + 1) & (slots - 1);
        made[at] = i + 1;
    }
    return true;
}

static uint32_t intern(na_intern_t *set, const na_intern_key_t *key, bool *fresh) {
    if (fresh != NULL) *fresh = false;
    if (set->count == set->room && !grow(set)) return UINT32_MAX;
    uint64_t at = hash_of(key) & (set->slot_room - 1);
    for (; set->slots[at] != 0; at = (at + 1) & (set->slot_room - 1))
        if (equal(key, &set->keys[set->slots[at] - 1])) return set->slots[at] - 1;
    if (fresh != NULL) *fresh = true;
    set->keys[set->count] = *key;
    set->slots[at] = ++set->count;
    return set->count - 1;
}

uint32_t na_intern_text(na_intern_t *set, const char *text) {
    return intern(set, &(na_intern_key_t){.text = text}, NULL);
}

uint32_t na_intern_numbers(na_intern_t *set, uint32_t a, uint32_t b, uint32_t c, bool *fresh) {
    return intern(set, &(na_intern_key_t){.number = {a, b, c}}, fresh);
}

void na_intern_free(na_intern_t *set) {
    free(set->keys);
    free(set->slots);
    *set = (na_intern_t){0};
}
