/* choose.c - which of the blocks that were drawn are guarded.
 *
 * How many: NA_GUARD_RATE a second, by a bucket of tokens; the sampler's interval (na_sample_step)
 * follows, so that few more are drawn than can be guarded. A program that allocates rarely has a
 * large part of its blocks guarded, one that allocates much a small one; the cost is the same. The
 * interval begins short: what is drawn by a long one counts for so many that a site's chance is
 * wrong for as long as it has few others (docs/guard.md has the figures of STEP_FIRST).
 * Where NUMALLOC_GUARD_EACH is set it is that interval, and no tokens are asked for. In mode sample
 * the profile's interval stays as it is.
 *
 * The first stacks of a program cost fifty times those that follow, since the unwinder learns a
 * rule for each code address. A program that is over before it has met its usual stacks would pay
 * for nothing else. So there are so many addresses a second, and who has learnt more draws nothing
 * until the time for it has passed.
 *
 * Which: those of a site that has been guarded less than NEW_SITE times; those of sites whose
 * blocks die young. One whose blocks live long, as far as is known, hardly ever, and not while one
 * of its blocks is guarded: room is for NA_GUARD_LIVE pages of live blocks, and what is never freed
 * would fill it. The fuller it is, the stricter. A block that is passed over costs a quarter of a
 * token. Large blocks have tokens, an interval and room of their own. A site where an error was
 * found, in this run or by NUMALLOC_GUARD_SITES in an earlier one, comes before all others and
 * needs no token, and of its class more blocks are drawn.
 *
 * A block that was drawn and is not guarded lies between canaries (canaries.c), if there is room.
 * Those that there was no token for have a bucket of their own, NA_CANARY_RATE a second.
 *
 * What a drawn block stands for is known (1 / its chance), so a site's chance is
 *     guarded / estimated. */
#include "profiler/guard/guard_state.h"

#include "alloc/core/central/block.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/track/track.h"

enum {
    NEW_SITE = 4,
    YOUNG_MS = 1000,    /* mean life of blocks that pass through */
    STEP_FIRST = 7 * 8, /* one in 128 */
    STEP_LEAST = 2 * 8, /* one in 4 */
    BURST = NA_GUARD_RATE / 3,
    CANARY_BURST = 30,
    LEARNS_FIRST = 64,        /* the stacks of a small program */
    LARGE_STEP_FIRST = 4 * 8, /* one in 16 */
    LARGE_BURST = 4,
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

/* How full a bucket is when a token is wanted: running over, tokens were lost for want of draws. */
typedef enum filling { HALF_EMPTY, FULL, RUNNING_OVER } filling_t;

/* Nearly as many are drawn as there are tokens for. A program that rests and then allocates much at
 * once makes the interval long, in a moment, and has to find its way back: by halves, while the
 * bucket runs over. Several threads may be here: what one of them does to the interval may be lost.
 */
static void follow_filling(_Atomic(uint8_t) *interval, int least, bool token, filling_t filling) {
    if (na_samples_bytes()) return; /* a profile draws */
    int step = atomic_load_explicit(interval, memory_order_relaxed), now = step;
    if (!token) now += 2;
    if (token && filling == FULL) now--;
    if (token && filling == RUNNING_OVER) now -= 8;
    if (now < least) now = least;
    if (now > (int)NA_SAMPLE_STEPS) now = NA_SAMPLE_STEPS;
    if (now != step) atomic_store_explicit(interval, (uint8_t)now, memory_order_relaxed);
}

typedef struct bucket {
    _Atomic(uint64_t) at; /* when it was empty, in 1/65536 ms */
    uint64_t token;       /* time that one takes */
    uint32_t most;        /* tokens */
} bucket_t;
#define TOKEN(rate) ((UINT64_C(1000) << 16) / (rate))
static bucket_t small = {.token = TOKEN(NA_GUARD_RATE), .most = BURST};
static bucket_t large_tokens = {.token = TOKEN(NA_GUARD_LARGE_RATE), .most = LARGE_BURST};
static bucket_t canaries = {.token = TOKEN(NA_CANARY_RATE), .most = CANARY_BURST};
static bucket_t learns = {.token = TOKEN(NA_GUARD_LEARNS), .most = NA_GUARD_LEARNS / 10};

void na_guard_choose_begin(void) {
    na_guards.each = na_option(NA_OPT_GUARD_EACH);
    na_sample_fixed = na_guards.each;
    bool fixed = na_guards.each != 0;
    atomic_store(&na_sample_step, (uint8_t)(fixed ? NA_SAMPLE_FIXED : STEP_FIRST));
    atomic_store(&na_sample_large_step, (uint8_t)(fixed ? NA_SAMPLE_FIXED : LARGE_STEP_FIRST));
    small.at = large_tokens.at = canaries.at = (na_os_ms() + 1) << 16;
    learns.at = small.at - LEARNS_FIRST * learns.token;
}

/* A token from a bucket. */
static bool spend(bucket_t *bucket, filling_t *filling) {
    uint64_t now = (na_os_ms() + 1) << 16, at = atomic_load(&bucket->at), from;
    do {
        uint64_t oldest = now - bucket->most * bucket->token;
        *filling = (int64_t)(at - oldest) <= 0 ? RUNNING_OVER
                   : (int64_t)(at - oldest) <= (int64_t)(bucket->most / 2 * bucket->token)
                       ? FULL
                       : HALF_EMPTY;
        from = (int64_t)(at - oldest) < 0 ? oldest : at;
        if ((int64_t)(now - from) < (int64_t)bucket->token) return false;
    } while (!atomic_compare_exchange_weak(&bucket->at, &at, from + bucket->token));
    return true;
}

/* `learns` may be overspent: how many there are is known when they are learnt. */
void na_guard_learnt(uint32_t addresses) {
    if (addresses == 0) return;
    uint64_t now = (na_os_ms() + 1) << 16, at = atomic_load(&learns.at), from;
    do {
        uint64_t oldest = now - learns.most * learns.token;
        from = (int64_t)(at - oldest) < 0 ? oldest : at;
    } while (!atomic_compare_exchange_weak(&learns.at, &at, from + addresses * learns.token));
}

static bool is_overspent(const bucket_t *bucket) {
    return (int64_t)(((na_os_ms() + 1) << 16) - atomic_load(&bucket->at)) < 0;
}

na_guard_may_t na_guard_may(size_t size) {
    if (na_guards.each != 0) return NA_GUARD_PAGES;
    if (is_overspent(&learns)) return NA_GUARD_NOTHING;
    filling_t filling;
    if (na_guard_is_large(size)) {
        bool token = spend(&large_tokens, &filling);
        follow_filling(&na_sample_large_step, 0, token, filling);
        return token ? NA_GUARD_PAGES : NA_GUARD_NOTHING;
    }
    bool token = spend(&small, &filling);
    follow_filling(&na_sample_step, STEP_LEAST, token, filling);
    if (token) return NA_GUARD_PAGES;
    return spend(&canaries, &filling) ? NA_GUARD_CANARIES : NA_GUARD_NOTHING;
}

/* --- sites --- */

static na_gf_site_t *find_site(uint64_t hash) {
    na_gf_site_t *least = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        na_gf_site_t *s = &na_guards.t->sites[(hash + i) % NA_GUARD_SITES];
        if (s->hash == hash) return s;
        if (s->hash == 0) return s;
        if (s->live == 0 && s->canaries_live == 0 && s->hits == 0 && s->known == 0 &&
            (least == NULL || s->drawn < least->drawn))
            least = s;
    }
    return least; /* the one that least is known of makes room */
}

/* Dies young, or lives long; neither is known of a site whose blocks are all young still. */
static bool is_young(const na_gf_site_t *s) {
    return s->freed != 0 && s->life_ms < (double)s->freed * YOUNG_MS &&
           s->live + s->canaries_live <= s->freed;
}

/* Damage that was found late: the next one may be caught in the act. */
static bool is_suspect(const na_gf_site_t *s) {
    return s->hits != 0 || s->known != 0;
}

/* One of so many is guarded; 0: none. */
static uint32_t site_share(const na_gf_site_t *s, size_t size) {
    bool young = is_young(s), is_large = na_guard_is_large(size);
    uint32_t most = is_large ? NA_GUARD_LARGE_LIVE : NA_GUARD_LIVE;
    uint32_t live =
        (is_large ? na_guards.large_pages : na_guards.live_pages) + na_guard_slot_pages(size);
    if (live > most) return 0;
    if (is_suspect(s)) return 1;
    if (live > most * 3 / 4) return young ? 4 : s->guarded == 0 ? 8 : 0;
    if (s->guarded < NEW_SITE && (s->live == 0 || live < most / 4)) return 1;
    if (live > most / 2) return young ? 1 : s->live == 0 ? 16 : 0;
    return young ? 1 : s->live == 0 ? 4 : 16;
}

na_gf_site_t *na_guard_site_drawn(const na_guard_stack_t *stack, double chance, size_t usable) {
    uint64_t hash = na_guard_stack_hash(stack);
    na_gf_head_t *head = &na_guards.t->head;
    head->drawn++;
    head->now_ms = na_guard_now();
    na_gf_site_t *s = find_site(hash);
    if (s == NULL) return NULL;
    uint32_t kept = na_guard_keep_stack(stack);
    if (s->hash != hash) {
        *s = (na_gf_site_t){.hash = hash, .known = na_guard_is_known(stack)};
        if (s->known && !na_guard_is_large(usable)) na_sampler_prefer((uint32_t)usable);
    }
    s->stack = kept;
    s->drawn++;
    s->estimated += 1 / chance;
    na_guard_file_put(s, sizeof *s);
    return s;
}

bool na_guard_choose(na_gf_site_t *s, na_guard_may_t may, size_t size) {
    na_gf_head_t *head = &na_guards.t->head;
    uint32_t one_of = na_guards.each != 0 ? 1 : site_share(s, size);
    if (one_of == 0) {
        head->no_room++;
        return false;
    }
    bool chosen =
        may == NA_GUARD_PAGES ? one_of == 1 || na_guard_random() % one_of == 0 : is_suspect(s);
    if (!chosen) head->passed_over++;
    return chosen;
}

void na_guard_not_taken(na_guard_may_t may, size_t size) {
    bucket_t *bucket = na_guard_is_large(size) ? &large_tokens : &small;
    if (na_guards.each == 0 && may == NA_GUARD_PAGES)
        atomic_fetch_sub(&bucket->at, bucket->token / 4 * 3);
}

static na_gf_site_t *guarded_site(const na_gf_record_t *record) {
    return &na_guards.t->sites[na_guards.site[record - na_guards.t->records]];
}

void na_guard_site_guarded(na_gf_site_t *site, const na_gf_record_t *record) {
    na_guards.site[record - na_guards.t->records] = (uint16_t)(site - na_guards.t->sites);
    if (na_guard_has_canaries(record)) {
        site->canaries++;
        site->canaries_live++;
        na_guards.t->head.canaries++;
    } else {
        site->guarded++;
        site->live++;
        na_guards.t->head.guarded++;
    }
    na_guard_file_put(site, sizeof *site);
}

void na_guard_site_freed(const na_gf_record_t *record) {
    na_gf_site_t *site = guarded_site(record);
    if (na_guard_has_canaries(record))
        site->canaries_live--;
    else
        site->live--;
    site->freed++;
    site->life_ms += record->free_ms - record->alloc_ms;
    na_guard_file_put(site, sizeof *site);
    na_guards.t->head.freed++;
    na_guards.t->head.now_ms = record->free_ms;
}

void na_guard_site_hit(const na_gf_record_t *record) {
    na_gf_site_t *site = guarded_site(record);
    if (record->state == NA_GF_FREED) { /* another site may have its place */
        na_guard_stack_t stack;
        stack.count = na_guard_read_stack(record->alloc_stack, stack.pc, NA_GF_FRAMES);
        site = stack.count != 0 ? find_site(na_guard_stack_hash(&stack)) : NULL;
        if (site == NULL || site->hash != na_guard_stack_hash(&stack)) return;
    }
    site->hits++;
    na_guard_file_put(site, sizeof *site);
    if (!na_guard_is_large(record->size))
        na_sampler_prefer(na_classes[na_class_of(record->size)].size);
}
