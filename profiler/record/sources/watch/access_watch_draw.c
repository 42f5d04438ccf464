/* access_watch_draw.c - draws words to watch.
 *
 * Some draws are of words that had hits before, the latest NA_DRAW_KNOWN of them, all alike: what
 * is known to be used is watched often, and weighs little. How many goes by what these words bring
 * against what all others do (as far as it is known), for a draw says most where the accesses are:
 * half of all at most, three in sixteen at least; while few words are known, nearly half. Of the
 * others one in eight (while few are known, half) is of the words of one live block of each site
 * (access_watch_sites.c), a site first, all alike: so that the one small block that everybody uses
 * is met in a large heap, and its first hit does not outweigh a thousand later ones. The rest are
 * of all words: a stratum first (the spans of one size class, or of large blocks of similar size),
 * in it a span, all alike, and in that a word, all alike. Strata are chosen for three eighths all
 * alike (so that a few small blocks are met in a heap of gigabytes), three eighths by their words,
 * and one quarter by what earlier draws from them brought: not more, for this is little known where
 * hits are rare, and a stratum that it takes for idle has few hits that weigh much. Free memory may
 * be drawn: such a window has no hits, which is as it should be.
 *
 * Any such rule gives unbiased sums if it depends on the past only, for a draw is weighted by the
 * inverse of the probability that its word had, in any way.
 *
 * The list is made anew now and then, not for each draw: spans that came since are not drawn. With
 * more spans than fit, every second is left out, then every fourth, and so on, from a random
 * beginning. */
#include "profiler/record/sources/watch/access_watch_draw.h"

#include "pagemap/pagemap.h"
#include "profiler/record/access/access_priv.h"
#include "profiler/record/sources/watch/access_watch_sites.h"

#define MOST   (1u << 18) /* spans in the list */
#define STRATA NA_DRAW_STRATA
#define WORD   8u
#define FEW    16u /* words that are known */
/* Words that wait to be met in a span. */
#define SUSPECTS 16u
/* The least share of draws of words that are known, and what strata are chosen for by what they
 * brought. (Why so much and not more: docs/decisions/accesses.md.) */
#define LEAST_KNOWN (3.0 / 16)
#define LEARNT      0.25
#define MEMORY      16 /* draws that a mean goes back by */

typedef struct item {
    uintptr_t start;
    uint32_t words;
    uint32_t stratum;
} item_t;

static struct {
    const na_profile_config_t *config;
    item_t *found, *items; /* as found; by stratum */
    uint32_t count, turn, stride, phase;
    uint32_t first[STRATA + 1]; /* where a stratum's items begin */
    double words[STRATA], all_words;
    uint32_t strata; /* with items */
    uint64_t random;
    double learnt[STRATA];          /* mean square of what draws brought: words * accesses a ns */
    double all_learnt;              /* the sum of their roots */
    double known_learnt;            /* the same of draws of words that are known */
    double chance[STRATA];          /* of a stratum in the next draw of all words */
    na_draw_t known[NA_DRAW_KNOWN]; /* address 0: none */
    uint32_t known_count, known_next;
    uintptr_t suspect[SUSPECTS];
    uint32_t suspects;
} d;

static uint32_t known_place(uintptr_t address) {
    for (uint32_t i = 0; i < d.known_count; i++)
        if (d.known[i].address == address) return i;
    return UINT32_MAX;
}

/* It takes the place of the one that is known longest. */
static uint32_t know(const na_draw_t *draw) {
    uint32_t place = d.known_next++ % NA_DRAW_KNOWN;
    if (d.known_count < NA_DRAW_KNOWN) d.known_count = place + 1;
    d.known[place] = *draw;
    return place;
}

bool na_draw_start(uint64_t seed) {
    __builtin_memset(&d, 0, sizeof d);
    d.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    d.found = na_own_alloc(MOST * sizeof *d.found);
    d.items = na_own_alloc(MOST * sizeof *d.items);
    return d.found != NULL && d.items != NULL;
}

static uint64_t next_random(void) { /* splitmix64 */
    uint64_t z = d.random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t na_draw_below(uint64_t below) {
    return (uint64_t)((unsigned __int128)next_random() * below >> 64);
}

static void thin_out(void) {
    uint32_t kept = 0;
    for (uint32_t i = d.phase & 1; i < d.count; i += 2)
        d.found[kept++] = d.found[i];
    d.count = kept;
    d.stride *= 2;
    d.turn = 0;
}

static void meet_records(const na_span_t *span, na_record_t *records, uint32_t count, void *arg) {
    (void)arg;
    unsigned cls = __atomic_load_n(&span->cls, __ATOMIC_RELAXED);
    uintptr_t start = __atomic_load_n(&span->start, __ATOMIC_RELAXED);
    uint64_t each = d.config->usable(span) / WORD, words = each;
    if (cls != 0) words *= __atomic_load_n(&span->capacity, __ATOMIC_RELAXED);
    if (start == 0 || words == 0 || words > UINT32_MAX) return; /* beyond 32 GiB: not drawn */
    uint32_t stratum = cls != 0 ? cls % 64 : 64 + (63 - (uint32_t)__builtin_clzll(words));
    for (uint32_t i = d.suspects; i-- > 0;) {
        uintptr_t word = d.suspect[i];
        if (word - start >= words * WORD) continue;
        d.suspect[i] = d.suspect[--d.suspects];
        if (known_place(word) == UINT32_MAX)
            know(&(na_draw_t){
                .address = word, .slot = stratum, .stratum = stratum, .words = (uint32_t)words});
    }
    if (cls == 0 && count > 1) count = 1;
    const na_site_block_t like = {.address = start,
                                  .words = (uint32_t)each,
                                  .span_words = (uint32_t)words,
                                  .stratum = stratum};
    na_site_blocks_meet(&like, records, count, next_random);
    if ((d.turn++ + d.phase) % d.stride != 0) return;
    if (d.count == MOST) thin_out();
    d.found[d.count++] = (item_t){start, (uint32_t)words, stratum};
}

uint32_t na_draw_look(const na_profile_config_t *config) {
    d.config = config;
    d.count = 0;
    d.turn = 0;
    d.stride = 1;
    d.phase = (uint32_t)next_random();
    na_site_blocks_begin();
    if (config->each_records != NULL) config->each_records(meet_records, NULL);
    na_site_blocks_end();
    d.suspects = 0; /* the others are no heap's */
    uint32_t size[STRATA] = {0};
    for (uint32_t i = 0; i < STRATA; i++)
        d.words[i] = 0;
    for (uint32_t i = 0; i < d.count; i++) {
        size[d.found[i].stratum]++;
        d.words[d.found[i].stratum] += d.found[i].words;
    }
    d.strata = 0;
    d.all_words = 0;
    for (uint32_t i = 0, at = 0; i <= STRATA; i++) {
        d.first[i] = at;
        if (i == STRATA) break;
        at += size[i];
        size[i] = d.first[i]; /* from here on: where the next goes */
        d.strata += at > d.first[i];
        d.all_words += d.words[i];
    }
    for (uint32_t i = 0; i < d.count; i++)
        d.items[size[d.found[i].stratum]++] = d.found[i];
    return d.count;
}

/* ---- drawing ---- */

/* Without libm: halve the exponent, then Newton. */
static double square_root(double x) {
    if (!(x > 0)) return 0;
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    bits = (bits >> 1) + (UINT64_C(1023) << 51);
    double y;
    __builtin_memcpy(&y, &bits, sizeof y);
    for (unsigned i = 0; i < 4; i++)
        y = (y + x / y) / 2;
    return y;
}

static void weigh_strata(void) {
    double all = 0;
    for (uint32_t i = 0; i < STRATA; i++)
        if (d.first[i] != d.first[i + 1]) all += square_root(d.learnt[i]);
    d.all_learnt = all;
    for (uint32_t i = 0; i < STRATA; i++) {
        d.chance[i] = 0;
        if (d.first[i] == d.first[i + 1]) continue;
        double plain = 0.5 / d.strata + 0.5 * d.words[i] / d.all_words;
        d.chance[i] =
            all > 0 ? (1 - LEARNT) * plain + LEARNT * square_root(d.learnt[i]) / all : plain;
    }
}

/* Probability of a word in a draw of all words. */
static double plain_chance(const na_draw_t *draw) {
    uint32_t spans = d.first[draw->stratum + 1] - d.first[draw->stratum];
    if (spans == 0) return 0;
    return d.chance[draw->stratum] / ((double)spans * d.stride * draw->words);
}

static void draw_any(na_draw_t *draw) {
    double at = (double)(next_random() >> 11) * 0x1p-53;
    uint32_t stratum = 0, last = 0;
    for (; stratum < STRATA; stratum++) {
        if (d.chance[stratum] == 0) continue;
        last = stratum;
        if (at < d.chance[stratum]) break;
        at -= d.chance[stratum];
    }
    if (stratum == STRATA) stratum = last; /* rounding */
    uint32_t spans = d.first[stratum + 1] - d.first[stratum];
    const item_t *item = &d.items[d.first[stratum] + na_draw_below(spans)];
    *draw = (na_draw_t){.address = item->start + na_draw_below(item->words) * WORD,
                        .slot = stratum,
                        .stratum = stratum,
                        .words = item->words};
}

/* Probability of a word in a draw by site. */
static double site_chance(uintptr_t address) {
    uint32_t place;
    const na_site_block_t *block = na_site_block_at(address, &place);
    return block == NULL ? 0 : 1 / ((double)na_site_blocks() * block->words);
}

static void draw_by_site(na_draw_t *draw) {
    uint32_t place;
    const na_site_block_t *block = na_site_block((uint32_t)na_draw_below(na_site_blocks()), &place);
    *draw = (na_draw_t){.address = block->address + na_draw_below(block->words) * WORD,
                        .slot = STRATA + NA_DRAW_KNOWN + place,
                        .stratum = block->stratum,
                        .words = block->span_words};
}

static double known_share(void) {
    if (d.known_count < FEW) return 0.5 * d.known_count / (d.known_count + 2.0);
    double known = square_root(d.known_learnt), all = known + d.all_learnt;
    double brings = all > 0 ? known / all : 1;
    return brings < LEAST_KNOWN ? LEAST_KNOWN : brings < 0.5 ? brings : 0.5;
}

static bool chance(double p) {
    return p > 0 && (double)(next_random() >> 11) * 0x1p-53 < p;
}

bool na_draw(na_draw_t *draw) {
    if (d.count == 0) return false;
    weigh_strata();
    /* While few words are known, to find more is worth more than to watch these again. */
    bool few = d.known_count < FEW;
    double known = known_share();
    double by_site = na_site_blocks() == 0 ? 0 : few ? 1.0 / 2 : 1.0 / 8;
    if (chance(known))
        *draw = d.known[na_draw_below(d.known_count)];
    else if (chance(by_site))
        draw_by_site(draw);
    else
        draw_any(draw);
    double p =
        (1 - known) * ((1 - by_site) * plain_chance(draw) + by_site * site_chance(draw->address));
    uint32_t place = known_place(draw->address);
    if (place != UINT32_MAX) {
        p += known / d.known_count;
        draw->slot = STRATA + place;
    }
    draw->inverse = 1 / p;
    return true;
}

static void learn_mean(double *mean, double brought) {
    *mean += (brought * brought - *mean) / MEMORY;
}

uint32_t na_draw_learn(const na_draw_t *draw, double rate) {
    if (draw->slot < STRATA) {
        uint32_t spans = d.first[draw->stratum + 1] - d.first[draw->stratum];
        learn_mean(&d.learnt[draw->stratum], (double)spans * draw->words * rate);
    } else if (draw->slot < STRATA + NA_DRAW_KNOWN) {
        learn_mean(&d.known_learnt, d.known_count * rate);
    }
    if (rate == 0 || known_place(draw->address) != UINT32_MAX) return UINT32_MAX;
    return STRATA + know(draw);
}

void na_draw_suspect(uintptr_t word) {
    if (d.suspects == SUSPECTS || known_place(word) != UINT32_MAX) return;
    for (uint32_t i = 0; i < d.suspects; i++)
        if (d.suspect[i] == word) return;
    d.suspect[d.suspects++] = word;
}
