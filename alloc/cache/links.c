/* links.c - see links.h. */
#include "alloc/cache/links.h"

#include <sys/syscall.h>

#include "alloc/sys/os.h"
#include "alloc/track/misuse.h"
#include "pagemap/live.h"

uint64_t na_link_key, na_link_waits_key;

enum { SHUFFLED = 64, GRND_NOWAIT = 1 /* GRND_NONBLOCK, sys/random.h */ };

/* Where the kernel has no randomness yet, or none to give, addresses and the clock must do. */
void na_links_init(void) {
    uint64_t key = 0;
    if (na_syscall(SYS_getrandom, (long)(uintptr_t)&key, sizeof key, GRND_NOWAIT, 0, 0, 0) !=
        (long)sizeof key)
        key = na_os_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)&key ^
              (uintptr_t)na_links_init << 20;
    na_link_key = key;
    na_link_waits_key = na_link_signature(NULL, NULL);
}

NA_COLD void na_link_report(const void *block) {
    na_misuse("a freed block was written to:", block);
}

/* A block of the class that is free begins there. */
static bool is_free_block(unsigned cls, const void *block) {
    if (!na_is_address((uintptr_t)block)) return false;
    const na_span_t *span = na_span_by_page(block);
    return span != NULL && span->cls != 0 && na_is_block_start(span, block) &&
           na_class_in(span, block) == cls && na_live_at(block) == NA_BIRTH_NONE;
}

/* Any sequence does that the program does not know. */
static uint32_t draw_below(uint64_t *state, uint32_t below) {
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state ^ na_link_key;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x >> 32) * below >> 32);
}

NA_COLD void na_links_sign(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    void **to = &tcache->bins[cls].head, *block = *to, *before = NULL;
    uint32_t left = state->count, signed_now = 0;
    uint64_t seed = (uintptr_t)block + state->pops + state->pushes;
    while (left != 0) {
        void *some[SHUFFLED];
        uint32_t n = 0;
        bool sound = true;
        while (n < SHUFFLED && n < left) {
            sound = is_free_block(cls, block);
            if (NA_UNLIKELY(!sound)) break;
            some[n++] = block;
            block = *na_block_next(block);
        }
        for (uint32_t i = n; i > 1; i--) {
            uint32_t k = draw_below(&seed, i);
            void *other = some[k];
            some[k] = some[i - 1];
            some[i - 1] = other;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (before == NULL)
                *to = some[i];
            else
                na_link_set(before, some[i]);
            before = some[i];
        }
        signed_now += n;
        left -= n;
        if (NA_UNLIKELY(!sound)) {
            na_misuse("a freed block was written to, and now links to", block);
            left = 0;
        }
    }
    if (before != NULL)
        na_link_set(before, NULL);
    else
        *to = NULL;
    state->count = signed_now;
}
