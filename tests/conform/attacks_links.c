/* attacks_links.c - attacks on the links of free blocks, see attacks.h.
 *
 * The attacker can write to a block that was freed, or behind one that is live, so that a free
 * block's link leads into memory that is in use. The next owner of "new" memory then has it. */
#include "conform/attacks.h"

static char *blocks[2 * MOST], *freed[MOST];
static char in_data[4096] __attribute__((aligned(4096)));

/* Frees every other one of some blocks: `count` of them, in their order or another one. */
static unsigned free_some(size_t size) {
    unsigned count = 3 + draw_others();
    take_all(blocks, 2 * count, size);
    for (unsigned i = 0; i < count; i++)
        freed[i] = blocks[2 * i];
    for (unsigned i = count; draw(2) == 0 && i > 1; i--) {
        unsigned k = draw(i);
        char *other = freed[k];
        freed[k] = freed[i - 1];
        freed[i - 1] = other;
    }
    drop_all(freed, count);
    return count;
}

/* One that the attacker has a pointer to. Most lie as deep as they can be reached soon. */
static char *one_of(unsigned count) {
    return freed[draw(2) == 0 ? draw(count) : count - 1 - draw(2)];
}

static void take_many(size_t size, unsigned freed_ones) {
    for (unsigned i = 0; i < freed_ones + 40; i++)
        take(size);
}

/* The address as it is, wherever the link may lie. */
void poisoned_link(void) {
    size_t size = draw_size();
    claim(in_data, sizeof in_data);
    unsigned count = free_some(size);
    char *block = one_of(count);
    set_word(block, 0, (uintptr_t)in_data + 1024);
    set_word(block, 8, (uintptr_t)in_data + 1024);
    take_many(size, count);
}

/* The lowest byte or two: blocks lie at distances that are known. */
void partial_link(void) {
    size_t size = draw_size();
    unsigned count = free_some(size);
    char *block = one_of(count);
    uintptr_t near = (uintptr_t)blocks[2 * draw(count) + 1] + 16 * draw(2);
    char *link = block + 8 * variant(2);
    memcpy(link, &near, 1 + draw(2));
    take_many(size, count);
}

/* As the allocator would write it, if it has no secret. */
void forged_link(void) {
    size_t size = draw_size();
    unsigned count = free_some(size);
    char *block = one_of(count);
    uint64_t target = (uintptr_t)blocks[2 * draw(count) + 1] + 16 * (variant(2) & (size >= 32));
    set_word(block, 0, is_libc ? target ^ (uintptr_t)block >> 12 : target);
    if (!is_libc) set_word(block, 8, target);
    take_many(size, count);
}

/* --- the attacker can read freed blocks, too --- */

/* Both words, made of a pair that was read, if the second is a sum or a multiple of a secret. */
static void sign(char *block, uint64_t target, unsigned how) {
    const size_t at = 8 * draw(2); /* of the link; the other one has the signature */
    uint64_t next = word_of(block, at), signature = word_of(block, 8 - at);
    const uint64_t spread = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t inverse = spread; /* of an odd number, by Newton */
    for (int i = 0; i < 6; i++)
        inverse *= 2 - spread * inverse;
    uint64_t key = ((signature ^ (uintptr_t)block) * inverse) ^ next;
    uint64_t made = how == 0   ? ((target ^ key) * spread) ^ (uintptr_t)block
                    : how == 1 ? signature ^ next ^ target
                               : signature - next + target;
    set_word(block, at, target);
    set_word(block, 8 - at, made);
}

/* The two words of another one: its next block would be handed out twice. */
static void copy_words(char *to, const char *from) {
    uint64_t words[2] = {word_of(from, 0), word_of(from, 8)};
    unsigned mixed = draw(3); /* for schemes that mix in the block's address */
    if (mixed < 2) words[mixed] ^= (uintptr_t)to ^ (uintptr_t)from;
    set_word(to, 0, words[0]);
    set_word(to, 8, words[1]);
}

/* What the block had when it was free before: it may lead to a block that is live by now. */
static void play_again(size_t size, unsigned count) {
    static uint64_t kept[MOST][2];
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < 2; k++)
            kept[i][k] = word_of(freed[i], 8 * k);
    take_many(size, count); /* and so all of them are live */
    unsigned again = 0;
    for (unsigned i = 0; i < count; i += 2, again++)
        drop(freed[i]);
    unsigned others = draw_others();
    static char *more[MOST];
    take_all(more, others, size + size / 2);
    drop_all(more, others);
    for (unsigned i = 0; i < count; i += 2)
        for (unsigned k = 0; k < 2; k++)
            set_word(freed[i], 8 * k, kept[i][k]);
    take_many(size, again);
}

void learned_key(void) {
    size_t size = draw_size();
    unsigned count = free_some(size), how = variant(6);
    char *block = one_of(count);
    uint64_t target = (uintptr_t)blocks[2 * draw(count) + 1];
    if (how <= 2) {
        sign(block, target, how);
    } else if (how == 3) {
        copy_words(block, one_of(count));
    } else if (how == 4) {
        play_again(size, count);
        return;
    } else { /* where it led is known: the order of frees */
        const size_t at = is_libc ? 0 : 8 * draw(2);
        uint64_t before = word_of(block, at);
        unsigned i = 0;
        while (freed[i] != block)
            i++;
        set_word(block, at, before ^ (i != 0 ? (uintptr_t)freed[i - 1] : 0) ^ target);
    }
    take_many(size, count);
}

/* --- out of the block before it --- */

/* The string's end is one byte behind its buffer: it is the first byte of a free block, or of what
 * the allocator keeps there. */
void poisoned_null(void) {
    size_t size = draw_size();
    char *low, *high;
    unsigned count = 40 + draw_others(), others = draw(4);
    take_all(blocks, count, size);
    if (!neighbours(blocks, count, size, &low, &high)) return;
    unsigned n = 0;
    for (unsigned i = 0; i < count && n < 3 + others; i++) {
        if (blocks[i] == low || blocks[i] == high || i % 3 != 0) continue;
        freed[n++] = blocks[i];
        drop(blocks[i]);
    }
    drop(high);
    if (variant(2) == 0)
        for (unsigned i = 0; i < count; i++)
            if (i % 3 == 1 && blocks[i] != low && blocks[i] != high) drop(blocks[i]);
    low[size] = '\0';
    take_many(size, count);
}

/* A size in front of the next block, as the C library has it there; it is live. */
static void false_size(size_t size) {
    char *low, *high;
    take_all(blocks, 60, size);
    if (!neighbours(blocks, 60, size, &low, &high)) return;
    size_t each = (size_t)(high - low);
    for (char *at = low + size; at < high - 8; at++)
        *at = 0x41;
    set_word(high - 8, 0, 2 * each | 1);
    drop(high);
    for (unsigned i = 0; i < 60; i++)
        take(2 * each - 8);
    take_many(size, 60);
}

/* Over the whole link of the next block, which is free. */
static void link_behind(size_t size) {
    char *low, *high;
    unsigned count = 60 + draw_others();
    take_all(blocks, count, size);
    claim(in_data, sizeof in_data);
    if (!neighbours(blocks, count, size, &low, &high)) return;
    drop(blocks[0] == low || blocks[0] == high ? blocks[2] : blocks[0]);
    drop(high);
    for (unsigned i = 3; i < count; i++)
        if (i % 3 == 0 && blocks[i] != low && blocks[i] != high && draw(4) == 0) drop(blocks[i]);
    for (char *at = low + size; at < high; at++)
        *at = 0x41;
    set_word(high, 0, (uintptr_t)in_data + 1024);
    set_word(high, 8, (uintptr_t)in_data + 1024);
    take_many(size, count);
}

/* What lies between two large blocks: the C library's sizes of mappings. */
static void between_large(void) {
    size_t size = 300000 + 4096 * draw(64);
    char *low, *high;
    take_all(blocks, 12, size);
    if (!neighbours(blocks, 12, size, &low, &high)) return;
    size_t each = (size_t)(high - low);
    for (char *at = low + size; at < high - 8; at++)
        *at = 0;
    set_word(high - 8, 0, 2 * each | 2);
    drop(high);
    for (unsigned i = 0; i < 4; i++)
        take(each - 64);
}

/* Behind the last of some blocks, as far as the next page and a little more. */
static void behind_all(size_t size) {
    char *last = NULL;
    take_all(blocks, 60, size);
    for (unsigned i = 0; i < 60; i++)
        if (blocks[i] > last) last = blocks[i];
    for (size_t i = size; i < size + 4096; i += 8)
        set_word(last, i, (uintptr_t)in_data + 1024);
    claim(in_data, sizeof in_data);
    for (unsigned i = 0; i < 60; i++)
        if (blocks[i] != last && draw(2) == 0) drop(blocks[i]);
    take_many(size, 200);
}

void metadata(void) {
    size_t size = draw_size();
    switch (variant(4)) {
    case 0:
        false_size(size);
        break;
    case 1:
        link_behind(size);
        break;
    case 2:
        between_large();
        break;
    default:
        behind_all(size);
    }
}
