/* choose.c - which of the blocks that were drawn are guarded.
 *
 * How many: NA_GUARD_RATE a second, by a bucket of tokens; the sampler's interval (na_sample_step)
 * follows, so that few more are drawn than can be guarded. A program that allocates rarely has a
 * large part of its blocks guarded, one that allocates much a small one; the cost is the same.
 * Where NUMALLOC_GUARD_EACH is set it is that interval, and no tokens are asked for. In mode sample
 * the profile's interval stays as it is.
 *
 * Which: those of a site that has been guarded less than NEW_SITE times; those of sites whose
 * blocks die young. One whose blocks live long, as far as is known, hardly ever, and not while one
 * of its blocks is guarded: room is for NA_GUARD_LIVE pages of live blocks, and what is never freed
 * would fill it. The fuller it is, the stricter. A block that is passed over costs a quarter of a
 * token.
 *
 * What a drawn block stands for is known (1 / its chance), so a site's chance is
 *     guarded / estimated. */
#include "profiler/guard/state.h"

#include "alloc/sys/options.h"
#include "alloc/track/sampler.h"

enum {
    NEW_SITE = 4,
    YOUNG_MS = 1000,    /* mean life of blocks that pass through */
    STEP_FIRST = 9 * 8, /* one in 512 */
    STEP_LEAST = 2 * 8, /* one in 4 */
    BURST = NA_GUARD_RATE / 10,
    PROBES = 8,
};

uint64_t na_guard_random(void) {
    uint64_t x = na_guards.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    na_guards.random = x;
    return x * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

/* Nearly as many are drawn as there are tokens for. Several threads may be here: what one of them
 * does to the interval may be lost. */
static void follow(bool token, bool full) {
    if (na_sample_interval != NA_SAMPLE_EACH) return; /* a profile draws */
    int step = atomic_load_explicit(&na_sample_step, memory_order_relaxed), now = step;
    if (!token) now += 2;
    if (token && full) now--;
    if (now < STEP_LEAST) now = STEP_LEAST;
    if (now > (int)NA_SAMPLE_STEPS) now = NA_SAMPLE_STEPS;
    if (now != step) atomic_store_explicit(&na_sample_step, (uint8_t)now, memory_order_relaxed);
}

static _Atomic(uint64_t) tokens_at; /* when the bucket was empty, in 1/65536 ms */
#define TOKEN ((UINT64_C(1000) << 16) / NA_GUARD_RATE)

void na_guard_choose_begin(void) {
    na_guards.each = na_option(NA_OPT_GUARD_EACH);
    na_sample_fixed = na_guards.each;
    atomic_store(&na_sample_step, (uint8_t)(na_guards.each != 0 ? NA_SAMPLE_FIXED : STEP_FIRST));
    tokens_at = (na_os_ms() + 1) << 16;
}

bool na_guard_may(void) {
    if (na_guards.each != 0) return true;
    uint64_t now = (na_os_ms() + 1) << 16, at = atomic_load(&tokens_at), from;
    bool full;
    do {
        uint64_t oldest = now - BURST * TOKEN;
        full = (int64_t)(at - oldest) <= (int64_t)(BURST / 2 * TOKEN);
        from = (int64_t)(at - oldest) < 0 ? oldest : at;
        if ((int64_t)(now - from) < (int64_t)TOKEN) {
            follow(false, false);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&tokens_at, &at, from + TOKEN));
    follow(true, full);
    return true;
}

/* --- sites --- */

static na_gf_site_t *find_site(uint64_t hash) {
    na_gf_site_t *least = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        na_gf_site_t *s = &na_guards.t->sites[(hash + i) % NA_GUARD_SITES];
        if (s->hash == hash) return s;
        if (s->hash == 0) return s;
        if (s->live == 0 && s->hits == 0 && (least == NULL || s->drawn < least->drawn)) least = s;
    }
    return least; /* the one that least is known of makes room */
}

/* Dies young, or lives long; neither is known of a site whose blocks are all young still. */
static bool is_young(const na_gf_site_t *s) {
    return s->freed != 0 && s->life_ms < (double)s->freed * YOUNG_MS && s->live <= s->freed;
}

/* One of so many is guarded; 0: none. */
static uint32_t share(const na_gf_site_t *s, uint32_t pages) {
    uint32_t live = na_guards.live_pages + pages;
    bool young = is_young(s);
    if (live > NA_GUARD_LIVE) return 0;
    if (s->hits != 0)
        return 1; /* damage that was found late: the next one may be caught in the act */
    if (live > NA_GUARD_LIVE * 3 / 4) return young ? 4 : s->guarded == 0 ? 8 : 0;
    if (s->guarded < NEW_SITE && (s->live == 0 || live < NA_GUARD_LIVE / 4)) return 1;
    if (live > NA_GUARD_LIVE / 2) return young ? 1 : s->live == 0 ? 16 : 0;
    return young ? 1 : s->live == 0 ? 4 : 16;
}

na_gf_site_t *na_guard_choose(const na_guard_stack_t *stack, double chance, uint32_t pages) {
    uint64_t hash = na_guard_stack_hash(stack);
    na_gf_head_t *head = &na_guards.t->head;
    head->drawn++;
    head->now_ms = na_guard_now();
    na_gf_site_t *s = find_site(hash);
    if (s == NULL) return NULL;
    uint32_t kept = na_guard_keep_stack(stack);
    if (s->hash != hash) *s = (na_gf_site_t){.hash = hash};
    s->stack = kept;
    s->drawn++;
    s->estimated += 1 / chance;
    uint32_t one_of = na_guards.each != 0 ? 1 : share(s, pages);
    if (one_of == 0) {
        head->no_room++;
        return NULL;
    }
    if (one_of == 1 || na_guard_random() % one_of == 0) return s;
    head->passed_over++;
    return NULL;
}

void na_guard_not_taken(void) {
    if (na_guards.each == 0) atomic_fetch_sub(&tokens_at, TOKEN / 4 * 3);
}

static na_gf_site_t *site_of(const na_gf_record_t *record) {
    return &na_guards.t->sites[na_guards.site[record - na_guards.t->records]];
}

void na_guard_site_guarded(na_gf_site_t *site, const na_gf_record_t *record) {
    na_guards.site[record - na_guards.t->records] = (uint16_t)(site - na_guards.t->sites);
    site->guarded++;
    site->live++;
    na_guards.t->head.guarded++;
}

void na_guard_site_freed(const na_gf_record_t *record) {
    na_gf_site_t *site = site_of(record);
    site->live--;
    site->freed++;
    site->life_ms += record->free_ms - record->alloc_ms;
    na_guards.t->head.freed++;
    na_guards.t->head.now_ms = record->free_ms;
}

void na_guard_site_hit(const na_gf_record_t *record) {
    site_of(record)->hits++;
}
