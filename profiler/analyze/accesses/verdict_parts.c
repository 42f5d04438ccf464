/* verdict_parts.c - does each node use a part of its own of an object? Each access is held against
 * the others to its page: would they have told its node? See verdict.h.
 *
 * What an access is told from must not be the same finding twice: accesses of its own draw (a round
 * of watchpoints, a burst of hinting faults) say nothing, and none to its own line of the cache,
 * for lines that nodes use in turn (a cyclic distribution) cannot be placed apart. Faults are of a
 * page, whichever line they hit: there the line counts. A page with one such access only is told
 * from the pages beside it that have any: parts are mostly larger than pages, and samples few. */
#include <stdlib.h>

#include "profiler/analyze/accesses/verdict.h"

#define LINE_BITS   6
#define TINY        1e-9 /* what rounding leaves of a difference */
#define SIDE_PAGES  2u   /* that are asked on each side, */
#define SIDE_WALK   6u   /* of so many looked at, */
#define SIDE_LOOK   64u  /* and of each as many accesses */
#define SECOND_PAGE 0.5  /* what the one behind counts */
#define FARTHER     0.9  /* and the farther of both sides */

typedef struct access {
    uint64_t line;
    uint32_t draw;
    int16_t from, home;
    double weight;
    double vote; /* its part of its draw: each draw has one */
} access_t;

typedef struct page {
    uint64_t number;
    uint32_t first, end;
} page_t;

typedef struct parts {
    access_t *all;
    uint32_t count;
    page_t *pages;
    uint32_t page_count;
    uint32_t *by_draw; /* of each page, its accesses in order of their draws */
    uint32_t *place;   /* and where each is in that list */
    bool rounds;       /* draws of more than one access */
    bool by_page;      /* accesses are of a page, and not of a line */
    uint32_t nodes;
} parts_t;

typedef struct votes {
    double of[NA_FLOWS_NODES];
} votes_t;

static int accesses_by_line(const void *a, const void *b) {
    const access_t *x = a, *y = b;
    return x->line < y->line ? -1 : x->line > y->line;
}

static int by_draw(const void *a, const void *b, void *arg) {
    const access_t *all = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (all[i].draw != all[j].draw) return all[i].draw < all[j].draw ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void free_parts(parts_t *p) {
    free(p->all);
    free(p->pages);
    free(p->by_draw);
    free(p->place);
    *p = (parts_t){0};
}

/* Sorts the accesses into pages. False: out of memory. */
static bool gather_pages(const na_parts_samples_t *s, parts_t *p) {
    const na_flows_t *set = s->set;
    *p = (parts_t){.nodes = set->node_count, .by_page = s->by_page};
    p->all = calloc((size_t)s->count + 1, sizeof *p->all);
    p->pages = calloc((size_t)s->count + 1, sizeof *p->pages);
    if (p->all == NULL || p->pages == NULL) return false;
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < s->count; i++) {
        const na_touch_t *a = &set->items[s->items[i]];
        double all = s->draw_weight[s->draw[i]];
        if (a->from < 0 || !(all > 0)) continue;
        p->rounds = p->rounds || (last != UINT32_MAX && s->draw[i] <= last);
        last = s->draw[i];
        p->all[p->count++] = (access_t){.line = a->address >> LINE_BITS,
                                        .draw = s->draw[i],
                                        .from = a->from,
                                        .home = a->home,
                                        .weight = a->weight,
                                        .vote = a->weight / all};
    }
    qsort(p->all, p->count, sizeof *p->all, accesses_by_line);
    uint64_t lines = s->page_size >> LINE_BITS;
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t number = p->all[i].line / lines;
        if (p->page_count == 0 || p->pages[p->page_count - 1].number != number)
            p->pages[p->page_count++] = (page_t){number, i, i};
        p->pages[p->page_count - 1].end = i + 1;
    }
    if (!p->rounds) return true;
    p->by_draw = calloc((size_t)p->count + 1, sizeof *p->by_draw);
    p->place = calloc((size_t)p->count + 1, sizeof *p->place);
    if (p->by_draw == NULL || p->place == NULL) return false;
    for (uint32_t i = 0; i < p->count; i++)
        p->by_draw[i] = i;
    for (uint32_t k = 0; k < p->page_count; k++) {
        const page_t *page = &p->pages[k];
        qsort_r(p->by_draw + page->first, page->end - page->first, sizeof *p->by_draw, by_draw,
                p->all);
        for (uint32_t i = page->first; i < page->end; i++)
            p->place[p->by_draw[i]] = i;
    }
    return true;
}

/* Takes away what others of the access's draw said of its page, but for those of its line if that
 * was taken away already. */
static void without_draw(const parts_t *p, const page_t *page, uint32_t i, votes_t *votes) {
    if (!p->rounds) return;
    const access_t *own = &p->all[i];
    for (int way = 0; way < 2; way++) {
        uint32_t at = p->place[i];
        for (;;) {
            if (way == 0 ? at == page->first : at + 1 == page->end) break;
            at += way == 0 ? -1u : 1u;
            const access_t *a = &p->all[p->by_draw[at]];
            if (a->draw != own->draw) break;
            if (p->by_page || a->line != own->line) votes->of[a->from] -= a->vote;
        }
    }
}

static bool any(const parts_t *p, const votes_t *votes) {
    for (uint32_t n = 0; n < p->nodes; n++)
        if (votes->of[n] > TINY) return true;
    return false;
}

/* What a page says to an access of another one. False: nothing. */
static bool ask_page(const parts_t *p, const page_t *page, uint32_t draw, double counts,
                     votes_t *votes) {
    votes_t said = {{0}};
    double all = 0;
    for (uint32_t i = page->first; i < page->end && i - page->first < SIDE_LOOK; i++) {
        if (p->all[i].draw == draw) continue;
        said.of[p->all[i].from] += p->all[i].vote;
        all += p->all[i].vote;
    }
    for (uint32_t n = 0; all > 0 && n < p->nodes; n++)
        votes->of[n] += counts * said.of[n] / all;
    return all > 0;
}

/* The pages on both sides; the nearer first, so that at the border of two parts it decides. */
static void ask_sides(const parts_t *p, uint32_t k, uint32_t draw, votes_t *votes) {
    uint64_t here = p->pages[k].number;
    uint64_t left = k > 0 ? here - p->pages[k - 1].number : UINT64_MAX;
    uint64_t right = k + 1 < p->page_count ? p->pages[k + 1].number - here : UINT64_MAX;
    for (int way = 0; way < 2; way++) {
        double counts = (way == 0) == (left <= right) ? 1 : FARTHER;
        uint32_t asked = 0, at = k;
        for (uint32_t walked = 0; walked < SIDE_WALK && asked < SIDE_PAGES; walked++) {
            if (way == 0 ? at == 0 : at + 1 == p->page_count) break;
            at += way == 0 ? -1u : 1u;
            if (!ask_page(p, &p->pages[at], draw, counts, votes)) continue;
            counts *= SECOND_PAGE;
            asked++;
        }
    }
}

/* Adds up how an access of a node fits to what was said. */
static void count_votes(const parts_t *p, const access_t *a, const votes_t *votes,
                        na_parts_sum_t *sum) {
    double most = 0;
    uint32_t ties = 0;
    for (uint32_t n = 0; n < p->nodes; n++)
        if (votes->of[n] > most) most = votes->of[n];
    if (most <= TINY) return;
    for (uint32_t n = 0; n < p->nodes; n++)
        ties += votes->of[n] >= most - TINY;
    for (uint32_t n = 0; n < p->nodes; n++) {
        if (votes->of[n] < most - TINY) continue;
        double part = a->weight / ties;
        sum->of_node[n] += part;
        if ((uint32_t)a->from != n) continue;
        sum->same += part;
        if (a->home >= 0 && a->home != a->from) sum->misplaced += part;
    }
}

static void count_page(const parts_t *p, uint32_t k, na_parts_sum_t *sum) {
    const page_t *page = &p->pages[k];
    votes_t all = {{0}};
    for (uint32_t i = page->first; i < page->end; i++)
        all.of[p->all[i].from] += p->all[i].vote;
    for (uint32_t i = page->first, end; i < page->end; i = end) {
        votes_t others = all;
        for (end = i; end < page->end && (end == i || p->all[end].line == p->all[i].line); end++)
            if (!p->by_page) others.of[p->all[end].from] -= p->all[end].vote;
        for (uint32_t own = i; own < end; own++) {
            votes_t votes = others;
            if (p->by_page) votes.of[p->all[own].from] -= p->all[own].vote;
            without_draw(p, page, own, &votes);
            if (!any(p, &votes)) {
                votes = (votes_t){{0}};
                ask_sides(p, k, p->all[own].draw, &votes);
            }
            count_votes(p, &p->all[own], &votes, sum);
        }
    }
}

bool na_parts_count(const na_parts_samples_t *samples, na_parts_sum_t *sum) {
    parts_t p;
    const na_touch_t *items = samples->set->items;
    bool one_page = true;
    double all = 0;
    for (uint32_t i = 0; i < samples->count; i++) {
        const na_touch_t *a = &items[samples->items[i]];
        one_page = one_page &&
                   (a->address ^ items[samples->items[0]].address) < samples->page_size &&
                   a->address / samples->page_size ==
                       items[samples->items[0]].address / samples->page_size;
        if (a->from >= 0) all += a->weight;
    }
    if (one_page) { /* no parts */
        sum->weight += all;
        return true;
    }
    bool good = gather_pages(samples, &p);
    for (uint32_t i = 0; good && i < p.count; i++)
        sum->weight += p.all[i].weight;
    for (uint32_t k = 0; good && p.page_count > 1 && k < p.page_count; k++)
        count_page(&p, k, sum);
    free_parts(&p);
    return good;
}

/* ---- the ranges ---- */

/* The node that uses a page most, by its own accesses and, where these are few, those beside it. */
static int16_t page_owner(const parts_t *p, uint32_t k, double few) {
    const page_t *page = &p->pages[k];
    votes_t votes = {{0}};
    double all = 0;
    for (uint32_t i = page->first; i < page->end; i++) {
        votes.of[p->all[i].from] += p->all[i].vote;
        all += p->all[i].vote;
    }
    if (all < few) ask_sides(p, k, UINT32_MAX, &votes);
    int16_t best = 0;
    for (int16_t n = 1; n < (int16_t)p->nodes; n++)
        if (votes.of[n] > votes.of[best] + TINY) best = n;
    return best;
}

static void add_page(const parts_t *p, uint32_t k, na_verdict_part_t *to) {
    for (uint32_t i = p->pages[k].first; i < p->pages[k].end; i++) {
        const access_t *a = &p->all[i];
        to->weight += a->weight;
        if (a->from == to->node) to->own += a->weight;
        if (a->home < 0) continue;
        to->homes[a->home] += a->weight;
        if (to->at < 0 || to->homes[a->home] > to->homes[to->at]) to->at = a->home;
    }
}

/* The offset from `from` to `to` that is a multiple of the largest power of two: borders are where
 * somebody divided. */
static uint64_t roundest(uint64_t from, uint64_t to, uint64_t step) {
    if (from >= to) return from;
    while (from / (2 * step) != to / (2 * step) || from % (2 * step) == 0) {
        uint64_t next = (from + 2 * step - 1) / (2 * step) * (2 * step);
        if (next > to) break;
        from = next;
        step *= 2;
        if (from == 0) break;
    }
    return from;
}

uint32_t na_parts_ranges(const na_parts_samples_t *samples, uint64_t base, uint64_t size,
                         na_verdict_part_t *parts, uint32_t most) {
    parts_t p;
    if (!gather_pages(samples, &p)) {
        free_parts(&p);
        return UINT32_MAX;
    }
    uint64_t page_size = samples->page_size;
    uint32_t found = 0;
    int16_t before = -1;
    for (uint32_t k = 0; k < p.page_count; k++) {
        int16_t node = page_owner(&p, k, na_limit(NA_T_SPARSE));
        uint64_t number = p.pages[k].number;
        if (k == 0 || node != before) {
            uint64_t offset = 0;
            if (k > 0)
                offset = roundest((p.pages[k - 1].number + 1) * page_size - base,
                                  number * page_size - base, page_size);
            if (found > 0 && found <= most) parts[found - 1].to = offset;
            if (found < most)
                parts[found] = (na_verdict_part_t){.from = offset, .node = node, .at = -1};
            found++;
            before = node;
        }
        if (found > most) continue;
        parts[found - 1].to = (number + 1) * page_size - base;
        add_page(&p, k, &parts[found - 1]);
    }
    if (found > 0 && found <= most && size != 0) parts[found - 1].to = size;
    free_parts(&p);
    return found;
}
