/* hardened.c - see hardened.h. */
#include "alloc/harden/hardened.h"

#include <string.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/malloc/emergency.h"
#include "alloc/core/malloc/foreign.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "alloc/harden/delay.h"
#include "alloc/harden/hand.h"
#include "alloc/harden/signed.h"
#include "alloc/harden/slack.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"

#define NA_STEP_LOG2 4u /* of NA_CLASS_STEP: what each block is aligned to */

uint8_t na_harden;

/* --- what is live --- */

NA_INLINE na_birth_t birth_of(na_entry_t entry) {
    unsigned kind = (unsigned)na_entry_kind(entry);
    _Static_assert(NA_ENTRY_NEW - 2 == NA_BIRTH_NEW && NA_ENTRY_NEW_ARRAY - 2 == NA_BIRTH_NEW_ARRAY,
                   "in the same order");
    return kind >= NA_ENTRY_NEW ? (na_birth_t)(kind - 2) : NA_BIRTH_MALLOC;
}

/* What a block was given by that may be given back so. */
NA_INLINE na_birth_t birth_for(na_release_t how) {
    const unsigned births = NA_BIRTH_MALLOC << 4 * NA_RELEASE_FREE |
                            NA_BIRTH_NEW << 4 * NA_RELEASE_DELETE |
                            NA_BIRTH_NEW_ARRAY << 4 * NA_RELEASE_DELETE_ARRAY |
                            NA_BIRTH_MALLOC << 4 * NA_RELEASE_REALLOC;
    return (na_birth_t)(births >> 4 * (unsigned)how & 15u);
}

/* Level 2: the bits behind a block's, which are in the block, and set if new was told to align it.
 */
static const void *form_of(const void *block) {
    return (const char *)block + NA_LIVE_STEP;
}

static void begin_life(void *block, size_t asked, na_entry_t entry) {
    if (block == NULL) return;
    na_live_begin(block, birth_of(entry));
    if (na_harden < 2) return;
    na_slack_fill(na_span_of(block), block, asked);
    if (na_entry_kind(entry) >= NA_ENTRY_NEW && na_entry_align_log2(entry) > NA_STEP_LOG2)
        na_live_begin(form_of(block), NA_BIRTH_MALLOC);
}

static NA_COLD void report_mismatch(const void *block, na_birth_t birth, na_release_t how) {
    static const char givers[][8] = {"", "malloc", "new", "new[]"};
    static const char takers[][10] = {"free", "delete", "delete[]", "realloc"};
    na_text_t what = {0};
    na_text_str(&what, takers[how]);
    na_text_str(&what, ", though ");
    na_text_str(&what, givers[birth]);
    na_text_str(&what, " gave it, of");
    what.data[what.length] = '\0';
    na_misuse(what.data, block);
}

bool (*na_hardened_other_runtime)(void);

/* The new of a C++ runtime that was linked into a library calls malloc, its delete calls free; and
 * what either makes, a program of our operators may delete. */
static bool is_by_other_runtime(na_release_t how, na_birth_t birth) {
    bool mixed = birth == NA_BIRTH_MALLOC
                     ? how == NA_RELEASE_DELETE || how == NA_RELEASE_DELETE_ARRAY
                     : how == NA_RELEASE_FREE;
    return mixed && na_hardened_other_runtime != NULL && na_hardened_other_runtime();
}

/* A block whose free looks wrong. True: it is to be freed all the same. With NUMALLOC_ABORT=0 what
 * is wrong has no effect. */
static NA_COLD bool is_right_otherwise(void *block, na_release_t how, na_birth_t birth) {
    const na_span_t *span = na_span_of(block);
    if (birth != NA_BIRTH_NONE) {
        if (is_by_other_runtime(how, birth)) return true;
        na_live_begin(block, birth);
        report_mismatch(block, birth, how);
        return false;
    }
    if (span == NULL) {
        na_free_foreign(block);
        return false;
    }
    bool starts = na_is_block_start(span, block);
    if (starts && __atomic_load_n(&na_live_is_partial, __ATOMIC_RELAXED) &&
        na_live_leaf((uintptr_t)block) == NULL)
        return true;
    na_misuse(starts ? "double free of" : "free of", block);
    return false;
}

/* The block's life ends, if it has one, and may end so. */
static bool end_life(void *block, na_release_t how) {
    na_birth_t birth = na_live_end(block);
    return birth == birth_for(how) || is_right_otherwise(block, how, birth);
}

/* Else it is reported as `what`. */
static bool is_live(const char *what, const void *block) {
    if (na_live_at(block) != NA_BIRTH_NONE) return true;
    if (__atomic_load_n(&na_live_is_partial, __ATOMIC_RELAXED) &&
        na_live_leaf((uintptr_t)block) == NULL)
        return true;
    na_misuse(what, block);
    return false;
}

/* --- what every call passes now and then --- */

enum {
    TURNS = 256,
    SEALED_BYTES = 64 * 1024 /* that a large block counts for which is unreachable */
};

/* One call, of those that come here. */
NA_INLINE bool is_turn(na_tcache_t *tcache) {
    return --tcache->track.countdown == 0;
}

/* The clock is looked at. */
static void poll_in_turn(na_tcache_t *tcache) {
    if (NA_LIKELY(tcache->track.countdown != 0)) return;
    tcache->track.countdown = TURNS;
    na_poll(tcache);
}

/* Nothing is to be noticed. */
NA_INLINE bool is_usual(const na_tcache_t *tcache) {
    return !na_section_alarmed(&tcache->track);
}

/* The thread is where its cache is. */
NA_INLINE bool is_home(const na_tcache_t *tcache) {
    return NA_LIKELY(!na_tcache_watched(tcache)) || !na_tcache_is_away(tcache);
}

/* --- malloc ---
 *
 * The usual call comes first; each of its tests that fails leads on by a jump, so that it needs no
 * stack frame. Nothing has been changed then. */

static NA_NOINLINE void *alloc_otherwise(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                         unsigned cls) {
    poll_in_turn(tcache);
    if (!is_usual(tcache) || !is_home(tcache) || tcache->states[cls].count < na_hand_least(cls))
        return na_alloc_slow(requested, entry, cls, NULL);
    void *block = na_hand_take(tcache, cls);
    if (block == NULL) return na_alloc_slow(requested, entry, cls, NULL);
    na_live_begin(block, birth_of(entry));
    return block;
}

static void *alloc_hardened(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    bin->pop = 0; /* the hot path has counted it below zero */
    na_hands_t *hands = na_hands_of(tcache);
    if (NA_UNLIKELY(is_turn(tcache)) || NA_UNLIKELY(!is_usual(tcache)) ||
        NA_UNLIKELY(na_tcache_watched(tcache)) || NA_UNLIKELY(hands == NULL) ||
        NA_UNLIKELY(hands->of[cls].count <= hands->of[cls].few)) /* fewer than may be drawn from */
        return alloc_otherwise(requested, entry, tcache, cls);
    na_hand_t *hand = &hands->of[cls];
    uint32_t number = na_hand_draw(hands, hand);
    void *block = hand->blocks[number];
    na_live_leaf_t *leaf = na_live_leaf((uintptr_t)block);
    if (NA_UNLIKELY(leaf == NULL) || NA_UNLIKELY(!na_link_waits(block)))
        return alloc_otherwise(requested, entry, tcache, cls);
    na_hand_remove(hand, number);
    *na_link_signature(block) = 0; /* of no use, should something lead here again */
    state->count--;
    state->pops++;
    state->used = true;
    na_live_set(leaf, block, birth_of(entry));
    return block;
}

/* --- free --- */

/* A block that has waited goes on. */
NA_INLINE void go_on(na_tcache_t *tcache, na_delayed_t delayed) {
    unsigned cls = na_tag_class(delayed.tag);
    if (NA_UNLIKELY(na_harden > 1)) {
        if (!na_delay_is_sound(&delayed)) return;
    } else if (delayed.tag != NA_TAG_NONE && NA_UNLIKELY(!na_link_waits(delayed.block))) {
        na_link_report(delayed.block);
        return;
    }
    const na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(tcache->bins[cls].tag != delayed.tag) ||
        NA_UNLIKELY(state->count >= state->hold)) {
        if (na_harden == 1) na_delay_open(&delayed);
        na_free_late(tcache, delayed.block);
        return;
    }
    na_hand_put(tcache, cls, delayed.block);
}

static NA_NOINLINE void wait_otherwise(na_tcache_t *tcache, na_delayed_t delayed) {
    na_delay_t *delay = na_delay_of(tcache);
    if (delay == NULL)
        delay = na_delay_make(tcache);
    else if (na_delay_has_no_room(delay, delayed.bytes))
        na_delay_look(delay);
    if (delayed.tag != NA_TAG_NONE) na_link_set_waiting(delayed.block);
    if (delay != NULL) delayed = na_delay_put(delay, delayed);
    if (delayed.block != NULL) go_on(tcache, delayed);
    while (delay != NULL && na_delay_is_over(delay)) {
        delayed = na_delay_take(delay);
        if (delayed.block == NULL) return;
        go_on(tcache, delayed);
    }
}

NA_INLINE void wait(na_tcache_t *tcache, na_delayed_t delayed) {
    na_delay_t *delay = na_delay_of(tcache);
    if (NA_UNLIKELY(delay == NULL) || NA_UNLIKELY(na_delay_has_no_room(delay, delayed.bytes))) {
        wait_otherwise(tcache, delayed);
        return;
    }
    if (delayed.tag != NA_TAG_NONE) na_link_set_waiting(delayed.block);
    na_delayed_t oldest = na_delay_put(delay, delayed);
    if (NA_LIKELY(oldest.block != NULL)) go_on(tcache, oldest);
}

/* Any block whose life has ended; its record ends, too. */
static NA_NOINLINE void end_slowly(na_tcache_t *tcache, na_span_t *span, void *block,
                                   na_release_t how, const void *moved_to) {
    unsigned cls = span->cls;
    size_t bytes = cls != 0 ? na_classes[cls].size : na_span_bytes(span);
    if (na_harden > 1) na_slack_check(span, block);
    if (!na_record_free(&tcache->track, span, block, bytes, how, moved_to)) return;
    /* A heap may end before the block goes on; who frees much may need it next. */
    bool sealed = na_harden > 1 && cls == 0 && span->dedicated && !na_span_is_others(span);
    if (na_span_is_others(span) || bytes > NA_DELAY_MOST ||
        (cls == 0 && !sealed && bytes > na_delay_share())) {
        na_free_late(tcache, block);
        return;
    }
    na_delayed_t delayed = {.block = block, .bytes = (uint32_t)bytes};
    if (na_harden == 1 && cls == 0 && bytes >= NA_DELAY_SEALED) (void)na_os_seal(block, na_os_page);
    if (sealed) { /* what reads or writes it faults */
        (void)na_os_purge(block, bytes);
        (void)na_os_seal(block, bytes);
        delayed.bytes = SEALED_BYTES;
    }
    if (cls != 0 && !span->sampled &&
        atomic_load_explicit(&span->emergency, memory_order_relaxed) == 0)
        delayed.tag = na_tag(cls, span->owner);
    if (na_harden > 1 && cls != 0) na_slack_fill_freed(block, bytes); /* samples, too */
    wait_otherwise(tcache, delayed);
}

/* free's slow path, of any pointer but NULL. */
static void take_back(void *block, na_release_t how, const void *moved_to) {
    if (!end_life(block, how)) return;
    na_span_t *span = na_span_of(block);
    if (NA_UNLIKELY(span == NULL)) return; /* no_bytes */
    if (NA_UNLIKELY(na_harden > 1)) {
        if (NA_UNLIKELY(!na_is_block_start(span, block))) { /* form_of */
            na_live_begin(block, NA_BIRTH_MALLOC);
            na_misuse("free of", block);
            return;
        }
        (void)na_live_end(form_of(block));
    }
    na_tcache_t *tcache = na_tcache_enter();
    if (NA_UNLIKELY(tcache == NULL)) { /* no memory for one, or a fork has the list of them */
        na_emergency_free(span, block);
        return;
    }
    end_slowly(tcache, span, block, how, moved_to);
    na_poll_pass(tcache);
    na_tcache_leave(tcache);
}

/* A block of a thread's or a node's spans, without a record. (Large spans have no owner or a heap,
 * emergency ones none, sampled ones records; mixed ones are not made.) */
NA_INLINE bool is_plain(const na_span_t *span) {
    return NA_LIKELY(span != NULL) &&
           NA_LIKELY((uint16_t)(span->owner - 1) < NA_OWNER_OTHERS - 1) &&
           NA_LIKELY(atomic_load_explicit(&span->records, memory_order_relaxed) == NULL);
}

NA_INLINE na_delayed_t delayed_of(const na_span_t *span, void *block) {
    return (na_delayed_t){
        .block = block, .tag = na_tag(span->cls, span->owner), .bytes = (uint32_t)span->each};
}

static NA_NOINLINE void free_otherwise(void *block, na_release_t how, na_tcache_t *tcache) {
    poll_in_turn(tcache);
    na_span_t *span = na_span_by_page(block);
    if (!is_usual(tcache) || !is_home(tcache) || !is_plain(span))
        take_back(block, how, NULL);
    else if (end_life(block, how))
        wait_otherwise(tcache, delayed_of(span, block));
}

/* The block's life, which has ended, was not one that ends so. */
static NA_COLD void free_wrongly(void *block, na_release_t how, na_tcache_t *tcache,
                                 na_birth_t birth) {
    if (is_right_otherwise(block, how, birth))
        wait_otherwise(tcache, delayed_of(na_span_by_page(block), block));
}

static void free_hardened(void *block, na_release_t how, na_tcache_t *tcache) {
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(is_turn(tcache)) || NA_UNLIKELY(!is_usual(tcache)) ||
        NA_UNLIKELY(na_tcache_watched(tcache)) || NA_UNLIKELY(!is_plain(span))) {
        free_otherwise(block, how, tcache);
        return;
    }
    na_birth_t birth = na_live_end(block);
    if (NA_LIKELY(birth == birth_for(how)))
        wait(tcache, delayed_of(span, block));
    else
        free_wrongly(block, how, tcache, birth);
}

/* What the thread has freed waits no longer. */
static NA_COLD bool end_waiting(void) {
    na_tcache_t *tcache = na_self;
    const na_delay_t *delay = na_delay_of(tcache);
    if (delay == NULL || na_delay_is_empty(delay)) return false;
    na_delay_flush(tcache);
    na_deferred_drain(tcache);
    return true;
}

/* --- level 2 --- */

/* The class of a block that is to be of `cls`, or larger; 0: it must be a large one. */
static unsigned roomy_class(size_t size, unsigned cls, na_entry_t entry) {
    size_t least = size + na_path.room;
    if (least <= NA_CLASS_STEP)
        least = NA_CLASS_STEP + 1; /* links take all of the smallest class */
    if (least <= na_classes[cls].size) return cls;
    unsigned log2 = na_entry_align_log2(entry);
    return na_class_of_aligned(least, log2 > NA_STEP_LOG2 ? (size_t)1 << log2 : NA_CLASS_STEP);
}

/* Address space that blocks of no bytes lie in: each address once. */
#define NOTHING_BYTES ((size_t)64 << 20)
static _Atomic(uintptr_t) nothing_space;
static _Atomic(size_t) nothing_used;

/* A block of no bytes, which nobody can read or write; NULL: there is none left. Live. */
static void *no_bytes(na_entry_t entry) {
    /* The hot path has counted a credit below zero, which in the bins that all threads without a
     * thread cache share is undone here. */
    na_tcache_t *tcache = na_tcache_enter();
    if (NA_LIKELY(tcache != NULL)) na_tcache_leave(tcache);
    if (na_sizes_spare) return NULL; /* leaks are looked for: each block is to have a record */
    uintptr_t start = atomic_load(&nothing_space);
    if (start == 0) {
        uintptr_t mine = (uintptr_t)na_os_reserve(NOTHING_BYTES, na_os_page);
        if (mine == 0) return NULL;
        if (atomic_compare_exchange_strong(&nothing_space, &start, mine))
            start = mine;
        else
            na_os_unmap((void *)mine, NOTHING_BYTES);
    }
    if (atomic_load(&nothing_used) >= NOTHING_BYTES) return NULL;
    size_t at = atomic_fetch_add(&nothing_used, NA_CLASS_STEP);
    if (at >= NOTHING_BYTES || na_entry_align_log2(entry) > NA_STEP_LOG2) return NULL;
    void *block = (void *)(start + at);
    na_live_begin(block, birth_of(entry));
    return block;
}

static bool is_in_nothing_space(const void *block) {
    uintptr_t start = atomic_load(&nothing_space);
    return start != 0 && (uintptr_t)block - start < NOTHING_BYTES;
}

static bool is_of_no_bytes(const void *block) {
    return is_in_nothing_space(block) && na_live_at(block) != NA_BIRTH_NONE;
}

static bool is_of_form(const void *block, bool aligned) {
    return na_live_at(block) < NA_BIRTH_NEW || is_of_no_bytes(block) ||
           (na_live_at(form_of(block)) != NA_BIRTH_NONE) == aligned;
}

/* Bytes behind the end of a large block that has shrunk, which are filled and checked. */
#define NA_SHRUNK_MOST ((size_t)64 << 10)

/* NUMALLOC_HARDEN=2: a block moves where it can, so that what still points to it dangles. But what
 * would shrink in place without hardening does so here: programs count on that. */
static NA_COLD void *shrink(na_span_t *span, void *block, size_t size) {
    size_t asked = na_slack_asked(span, block);
    size_t have = na_block_bytes(span);
    bool stays = span->cls != 0 ? na_fits_in_place(have, size)
                                : size > NA_SMALL_MAX && asked - size <= NA_SHRUNK_MOST;
    if (size > asked || !stays) return NULL;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return NULL;
    na_slack_check(span, block);
    if (span->cls == 0) span->requested = size;
    na_record_resize(&tcache->track, span, block, block, have, size, have);
    na_slack_fill(span, block, size);
    na_tcache_leave(tcache);
    return block;
}

/* realloc of a live block. */
static void *resize_strictly(na_span_t *span, void *block, size_t size) {
    if (!na_is_block_start(span, block) || !na_record_is_live(span, block)) {
        na_misuse("realloc of", block);
        return NULL;
    }
    void *same = shrink(span, block, size);
    if (same != NULL) return same;
    na_entry_t entry =
        span->records != NULL ? NA_ENTRY_REALLOC | (na_entry_t)NA_ENTRY_MOVES : NA_ENTRY_REALLOC;
    return na_resize_by_copy(span, block, na_slack_asked(span, block), size, entry);
}

/* What waits is looked over, and what lies around live blocks. */
static NA_COLD void end_hardened(na_tcache_t *tcache) {
    if (na_harden < 2 || tcache == NULL) return;
    const na_delay_t *delay = na_delay_of(tcache);
    if (delay != NULL) na_delay_check(delay);
    if (na_tcache_attached() == 1) na_slack_check_all();
}

/* --- the path --- */

static void *alloc_noted(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    tcache->bins[cls].pop = 0;
    if (is_turn(tcache)) poll_in_turn(tcache);
    return na_alloc_slow(requested, entry, cls, NULL);
}

static void free_noted(void *block, na_release_t how, na_tcache_t *tcache) {
    if (is_turn(tcache)) poll_in_turn(tcache);
    take_back(block, how, NULL);
}

/* Each call, or, where a profile or strict checking wants some, the slow paths. */
static const na_misses_t *hardened_misses(na_tcache_t *tcache) {
    static const na_misses_t usual = {alloc_hardened, free_hardened};
    static const na_misses_t noted = {alloc_noted, free_noted};
    bool only = na_every_event == NA_EVERY_SEEN && na_sample_interval == 0;
    tcache->track.countdown = 1; /* the next call looks at the clock */
    return only ? &usual : &noted;
}

static void *hardened_wanted(size_t size, na_entry_t entry, unsigned *cls) {
    void *nothing = size == 0 ? no_bytes(entry) : NULL;
    if (nothing == NULL) *cls = roomy_class(size, *cls, entry);
    return nothing;
}

static bool hardened_back(void *block, na_release_t how, const void *moved_to) {
    take_back(block, how, moved_to);
    return true;
}

static void hardened_put(na_tcache_t *tcache, unsigned cls, void *block) {
    na_link_set_waiting(block);
    na_hand_put(tcache, cls, block);
}

static bool hardened_resize(na_span_t *span, void *block, size_t size, void **resized) {
    *resized = NULL;
    if (NA_UNLIKELY(na_harden > 1) && is_of_no_bytes(block)) {
        *resized = na_alloc(size, NA_ENTRY_REALLOC);
        if (*resized != NULL) na_free_slow(block, NA_TAG_NONE, NA_RELEASE_REALLOC, *resized);
        return true;
    }
    if (span == NULL) return false;
    if (!is_live("realloc of", block)) return true;
    if (na_harden == 1) return false;
    *resized = resize_strictly(span, block, size);
    return true;
}

static unsigned life_moves(const void *block) {
    return na_live_end(block);
}

static void life_moved(void *block, unsigned birth) {
    na_live_begin(block, (na_birth_t)birth);
}

static bool usable(const na_span_t *span, const void *block, size_t *bytes) {
    *bytes = 0;
    /* A program may have two allocators, and ask of the blocks of both (Redis 8: jemalloc's). */
    if (span == NULL && na_pageheap_node_of((uintptr_t)block) == NA_NO_NODE &&
        !is_in_nothing_space(block))
        return true;
    if (is_live("malloc_usable_size of", block) && span != NULL)
        *bytes = na_harden > 1 ? na_slack_asked(span, block) : na_block_bytes(span);
    return true;
}

/* Of the thread that has it, lost to a forked child. */
static NA_COLD uint64_t forget(na_tcache_t *tcache) {
    na_slack_is_partial = true; /* it may have been making blocks */
    na_hand_forget(tcache);
    return na_delay_forget(tcache);
}

static NA_COLD NA_NOINLINE void harden(unsigned level) {
    static na_layer_t layer; /* filled as it is wanted: the loader would write it for all */
    layer = (na_layer_t){.flush = na_delay_flush, .forget = forget};
    na_links_init();
    na_meta_guarded = true;
    na_harden = (uint8_t)level;
    na_sizes_count = true;
    na_every_event |= NA_EVERY_SEEN;
    na_path_front(&(na_path_t){.misses = hardened_misses,
                               .draw = na_hand_draw_wide,
                               .spare = end_waiting,
                               .born = begin_life,
                               .back = hardened_back,
                               .put = hardened_put,
                               .close = na_hand_close,
                               .resize = hardened_resize,
                               .moves = life_moves,
                               .moved = life_moved,
                               .ended = na_live_forget,
                               .usable = usable});
    na_layer_add(&layer);
    if (level < 2) return;
    na_path_front(
        &(na_path_t){.wanted = hardened_wanted, .is_of_form = is_of_form, .room = 1, .apart = 1});
    na_strict = true; /* each block has a record, which says what was asked for */
    na_record_each();
}

static void begin_hardened(void) {
    unsigned level = (unsigned)na_option(NA_OPT_HARDEN);
    if (level != 0)
        harden(level);
    else
        na_live_never();
}

const na_above_t na_hardened_above = {.init = begin_hardened, .at_exit = end_hardened};
