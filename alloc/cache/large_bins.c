/* large_bins.c - large bins: the slow paths, opening, giving back. See large_bins.h. */
#include "alloc/cache/large_bins.h"

#include "alloc/page/pageheap.h"
#include "alloc/page/scavenge_policy.h"
#include "alloc/track/sampler.h"
#include "alloc/track/section.h"

enum {
    WORTH_A_LOOK = 256 << 10,
    CREDIT = 256, /* takes; they count as NA_SCAVENGE_CALLS slow paths */
    ALONE = 8,    /* runs without room before other slots are looked through again */
};

na_span_t na_large_bins_end;

/* Whether each take and give has to be looked at. */
static bool is_watched(const na_tcache_t *tcache) {
    return na_samples_bytes() || na_tcache_watched(tcache);
}

static void set_limit(na_tcache_t *tcache, uint64_t bytes) {
    bytes -= bytes % NA_PAGE_SIZE;
    tcache->large_room += (int64_t)(bytes - tcache->large_limit);
    tcache->large_limit = bytes;
}

/* Counts what the last credit was spent on. */
static void grant_credit(na_tcache_t *tcache, int32_t credit) {
    tcache->large_allocs = na_large_taken(tcache);
    tcache->large_takes = tcache->large_granted = credit;
}

static void bar(na_tcache_t *tcache, bool bar) {
    if (NA_LIKELY(bar == tcache->large_barred)) return;
    tcache->large_room = na_large_word(tcache) - (bar ? NA_LARGE_BARRED : 0);
    tcache->large_barred = bar;
}

/* Runs come and go otherwise than by blocks that are freed and handed out, one after the other. */
static bool put_in(na_tcache_t *tcache, na_span_t *run) {
    if (na_large_room(tcache) < (int64_t)run->each) return false;
    tcache->large_room -= (int64_t)run->reach;
    na_run_push(&tcache->large_bins, run);
    tcache->large_frees--;
    return true;
}

static na_span_t *take_out(na_tcache_t *tcache, na_span_t **head) {
    na_span_t *run = *head;
    *head = run->next;
    tcache->large_room += (int64_t)run->reach;
    tcache->large_frees++;
    return run;
}

static void clear_bins(na_tcache_t *tcache) {
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++)
        tcache->large_bins.head[slot] = &na_large_bins_end;
}

/* Large blocks are drawn by number: so many takes that no drawn one is among, which are counted.
 * (That which the slow path hands out is counted there, large.c.) */
static int32_t up_to_drawn(na_tcache_t *tcache, int32_t credit) {
    int64_t undrawn = tcache->large_until_sample - 1;
    if (credit > undrawn) credit = undrawn < 0 ? 0 : (int32_t)undrawn;
    tcache->large_until_sample -= credit;
    return credit;
}

/* Beside its part the thread has room for what it earned. */
static void open_bins(na_tcache_t *tcache) {
    uint64_t most = na_run_cache_share(tcache->node),
             share = NA_LARGE_BINS_ALL / na_tcache_attached();
    if (most > NA_LARGE_BINS_MOST) most = NA_LARGE_BINS_MOST;
    most += tcache->large_earned;
    bool may = na_run_cache_may_keep() && !na_every_event;
    if (NA_UNLIKELY(tcache->large_bins.head[0] == NULL)) clear_bins(tcache);
    set_limit(tcache, !may ? 0 : share < most ? share : most);
    int32_t credit = !may || is_watched(tcache) ? 0 : CREDIT;
    if (NA_UNLIKELY(na_samples_number())) credit = up_to_drawn(tcache, credit);
    grant_credit(tcache, credit);
    bar(tcache, na_tcache_watched(tcache));
}

void na_large_bins_close(na_tcache_t *tcache) {
    set_limit(tcache, 0);
    grant_credit(tcache, 0);
}

/* A profile began or ended, or the thread may be on another node: na_tcache_enter is to see to it.
 * It has no credit. */
static bool must_enter(const na_tcache_t *tcache) {
    return tcache->track.alarm != atomic_load_explicit(&na_alarm, memory_order_acquire) ||
           (NA_UNLIKELY(na_tcache_watched(tcache)) && na_tcache_is_away(tcache));
}

/* In mode sample: counts the bytes of a block that is not to be sampled. False: it is. */
static bool is_unsampled(na_tcache_t *tcache, size_t bytes) {
    if (!na_samples_bytes()) return true;
    if (tcache->large_until_sample <= (int64_t)bytes) return false;
    tcache->large_until_sample -= (int64_t)bytes;
    return true;
}

/* There was credit, and it was not spent. */
NA_RACES_WITH_EMPTY static bool gets_back(na_tcache_t *tcache) {
    if (tcache->large_takes >= 0 && tcache->large_granted != 0) {
        tcache->large_takes++;
        return true;
    }
    tcache->large_takes = 0; /* not far below, of the thread caches that many threads share */
    return false;
}

NA_RACES_WITH_EMPTY bool na_large_bins_are_spent(na_tcache_t *tcache) {
    if (gets_back(tcache) || tcache->large_limit == 0 || must_enter(tcache)) return false;
    tcache->slow_calls += is_watched(tcache) ? 1 : NA_SCAVENGE_CALLS;
    return true;
}

NA_RACES_WITH_EMPTY bool na_large_bins_were_barred(na_tcache_t *tcache) {
    if (NA_LIKELY(!tcache->large_barred) || tcache->large_limit == 0 || must_enter(tcache))
        return false;
    tcache->slow_calls++;
    return true;
}

void *na_large_bins_take_slow(na_tcache_t *tcache, size_t size) {
    if (tcache->large_limit != 0) open_bins(tcache);
    na_span_t **head = na_run_fit(&tcache->large_bins, na_run_pages(size));
    if (head == NULL || !is_unsampled(tcache, (*head)->each)) return NULL;
    tcache->large_allocs++;
    na_span_t *run = *head;
    *head = run->next;
    tcache->large_room += (int64_t)run->reach;
    return na_large_hand_out(run, size);
}

NA_INLINE bool keep(na_tcache_t *tcache, na_span_t *run) {
    if (run->node != tcache->node || !put_in(tcache, run)) return false;
    tcache->large_frees++;
    return true;
}

bool na_large_bins_give_slow(na_tcache_t *tcache, const void *block) {
    if (tcache->large_limit != 0) open_bins(tcache);
    na_span_t *run = na_large_run_of(block);
    return run != NULL && keep(tcache, run);
}

/* Of a slot the runs, up to `bytes` and a batch, that go to the node; linked before `cut`. */
static na_span_t *cut_some(na_tcache_t *tcache, unsigned slot, int64_t bytes, na_span_t *cut) {
    na_span_t **head = &tcache->large_bins.head[slot];
    for (unsigned i = 1; i < NA_RUN_BATCH && *head != &na_large_bins_end; i++) {
        bytes -= (int64_t)(*head)->each;
        if (bytes < 0) break;
        na_span_t *run = take_out(tcache, head);
        run->next = cut;
        cut = run;
    }
    return cut;
}

/* The thread goes on to another size: runs of other slots, one slot after the other, make room. If
 * there are none that is not looked for again at once. */
static na_span_t *cut_others(na_tcache_t *tcache, const na_span_t *run) {
    na_span_t *cut = NULL;
    if (tcache->large_alone != 0) {
        tcache->large_alone--;
        return NULL;
    }
    unsigned slot = tcache->large_hand;
    for (unsigned i = 0; i < NA_RUN_SLOTS && na_large_room(tcache) < (int64_t)run->each; i++) {
        if (slot != run->run_slot && tcache->large_bins.head[slot] != &na_large_bins_end)
            cut = cut_some(tcache, slot, INT64_MAX, cut);
        slot = (slot + 1) % NA_RUN_SLOTS;
    }
    tcache->large_hand = (uint8_t)slot;
    if (cut == NULL) tcache->large_alone = ALONE;
    return cut;
}

/* There are too many runs of this slot: the next few that are freed have room then. */
static na_span_t *cut_own(na_tcache_t *tcache, const na_span_t *run, na_span_t *cut) {
    return cut_some(tcache, run->run_slot, (int64_t)tcache->large_limit / 8, cut);
}

/* What goes to the node may earn room when it comes back; until then it costs some. */
static void send(na_tcache_t *tcache, na_span_t *runs) {
    uint32_t bytes = 0;
    for (const na_span_t *run = runs; run != NULL; run = run->next)
        bytes += (uint32_t)run->each;
    uint32_t cost = bytes / NA_LARGE_BINS_COST;
    tcache->large_earned -= cost < tcache->large_earned ? cost : tcache->large_earned;
    tcache->large_sent += bytes;
    if (tcache->large_sent > 2 * NA_LARGE_BINS_EARNED)
        tcache->large_sent = 2 * NA_LARGE_BINS_EARNED;
    na_run_cache_put(runs->node, runs);
}

/* Not for more than went there: what others sent is not this thread's to earn. */
static void earn(na_tcache_t *tcache, uint32_t bytes) {
    if (bytes > tcache->large_sent) bytes = tcache->large_sent;
    tcache->large_sent -= bytes;
    tcache->large_earned += bytes;
    if (tcache->large_earned > NA_LARGE_BINS_EARNED) tcache->large_earned = NA_LARGE_BINS_EARNED;
}

bool na_large_bins_keep(na_tcache_t *tcache, na_span_t *run) {
    uint32_t most = na_node_many ? NA_RUN_CACHE_NODES : NA_RUN_CACHE_PAGES;
    if (run->run == 0 || run->pages > most || na_every_event) return false;
    open_bins(tcache);
    if (keep(tcache, run)) return true;
    if (!na_run_cache_may_keep()) return false;
    na_span_t *cut = NULL;
    if (run->node == tcache->node && tcache->large_limit >= run->each) {
        cut = cut_others(tcache, run);
        if (cut != NULL && keep(tcache, run)) {
            send(tcache, cut);
            return true;
        }
        cut = cut_own(tcache, run, cut);
    }
    run->next = cut;
    send(tcache, run);
    tcache->large_frees++;
    return true;
}

na_span_t *na_large_bins_refill(na_tcache_t *tcache, uint32_t pages) {
    na_span_t *run = na_run_cache_take(tcache->node, pages, na_large_room(tcache) / 2);
    if (run == NULL) return NULL;
    uint32_t bytes = (uint32_t)run->each;
    for (na_span_t *more = run->next, *next; more != NULL; more = next) {
        next = more->next;
        bytes += (uint32_t)more->each;
        put_in(tcache, more);
    }
    earn(tcache, bytes);
    return run;
}

bool na_large_bins_keep_much(const na_tcache_t *tcache) {
    return na_large_kept(tcache) + na_run_cache_bytes(tcache->node) >= WORTH_A_LOOK;
}

bool na_large_bins_in_the_way(const na_tcache_t *tcache, uint32_t pages) {
    return NA_UNLIKELY(na_large_kept(tcache) >= WORTH_A_LOOK) &&
           !na_pageheap_has_dirty(tcache->node, pages);
}

static void give_slot(na_tcache_t *tcache, unsigned slot) {
    na_span_t **head = &tcache->large_bins.head[slot];
    while (*head != &na_large_bins_end)
        na_run_cache_release(take_out(tcache, head));
}

bool na_large_bins_flush(na_tcache_t *tcache) {
    na_large_bins_close(tcache);
    if (na_large_kept(tcache) == 0) return false;
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++)
        give_slot(tcache, slot);
    return true;
}

/* A slot with the same run on top as the last time was not used in between, or not to the full. */
void na_large_bins_decay(na_tcache_t *tcache) {
    tcache->large_sent = 0;
    tcache->large_earned /= 2;
    if (na_large_kept(tcache) == 0) return;
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++) {
        if (tcache->large_bins.head[slot] == tcache->large_seen[slot]) give_slot(tcache, slot);
        tcache->large_seen[slot] = tcache->large_bins.head[slot];
    }
}

uint64_t na_large_bins_forget(na_tcache_t *tcache) {
    uint64_t lost = na_large_kept(tcache);
    if (lost == 0) return 0;
    clear_bins(tcache);
    tcache->large_frees += na_large_runs(tcache);
    tcache->large_room = (int64_t)tcache->large_limit;
    tcache->large_barred = false;
    return lost;
}
