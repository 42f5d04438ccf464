/* verdict_measure.c - what the samples say of some objects: the shares that the rules of
 * verdict_rules.c look at.
 *
 * Each object is looked at by itself, in order of time, and the figures are summed by weight, so
 * that a thousand small blocks of one site count like one large one that is used the same way. Up
 * to the hand-off (the first access by a thread that did not allocate it) an object is being made;
 * who uses it is judged by what comes after. Objects with too few samples for that are put
 * together, and nothing is said of turns and concurrency from them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/accesses/verdict.h"
#include "profiler/containers/array.h"

#define ROUNDING 1e-9 /* of sums of parts that should be whole */

#define LINE_BITS 6u
#define LINE      (UINT64_C(1) << LINE_BITS)
#define WORD_BITS 2u /* the least that two threads often have apart: an int */

typedef struct touched_line {
    uint64_t address;
    union {
        struct {
            uint32_t sample; /* of s->set */
            uint32_t user;   /* its thread, times two, and whether it begins a draw */
        };
        double weight; /* once samples of a line are one */
    };
} touched_line_t;

typedef struct turns {
    uint32_t turns, draws, lone; /* lone: turns that one draw saw */
} turns_t;

typedef struct thread_turns {
    turns_t whole, cut; /* cut: begin or end was not seen */
} thread_turns_t;

typedef struct sums {
    const na_flows_t *set;
    const na_verdicts_t *verdicts;
    na_measure_t *to;
    uint32_t *kept; /* samples of the object that count */
    uint32_t *draw; /* of each: the number of its draw, in order of their first samples */
    uint32_t kept_room;
    uint32_t draws;
    double *draw_weight;   /* by draw */
    touched_line_t *lines; /* all accesses after the hand-off */
    uint32_t line_count, line_room;
    double *by_thread;
    thread_turns_t *turns; /* by thread, of all objects */
    double squares;        /* of the weights of independent samples */
    double remote, known, own, own_remote, own_moved, own_stayed, policy;
    double one_node, settled, allocator, second, second_of;
    double pure, runs, in_runs, runs_ns;
    double stores, store_of;
    double cluster, cluster_of;
    double handoffs, handoff_sum;
    double switch_sum;
    double latency, latency_of;
    na_parts_sum_t parts;
    /* Objects with few samples, together. */
    double few[NA_FLOWS_NODES], few_remote[NA_FLOWS_NODES], few_made[NA_FLOWS_NODES], few_all;
} sums_t;

static bool keep_samples(sums_t *s, uint32_t object, uint32_t *count) {
    na_flow_t flow = na_flow_of_object(s->set, object);
    *count = 0;
    if (flow.count > s->kept_room) {
        uint32_t *kept = reallocarray(s->kept, flow.count, sizeof *kept);
        if (kept != NULL) s->kept = kept;
        uint32_t *draw = reallocarray(s->draw, flow.count, sizeof *draw);
        if (draw != NULL) s->draw = draw;
        double *weight = reallocarray(s->draw_weight, flow.count, sizeof *weight);
        if (weight != NULL) s->draw_weight = weight;
        if (kept == NULL || draw == NULL || weight == NULL) return false;
        s->kept_room = flow.count;
    }
    for (uint32_t i = 0; i < flow.count; i++)
        if (na_verdict_counts(&s->set->items[flow.items[i]], s->verdicts->source,
                              s->verdicts->dram))
            s->kept[(*count)++] = flow.items[i];
    return true;
}

static const na_touch_t *nth_sample(const sums_t *s, uint32_t i) {
    return &s->set->items[s->kept[i]];
}

/* The thread that allocated the object: known, or whoever came first. */
static uint32_t maker(const sums_t *s, uint32_t object) {
    uint32_t thread = s->set->objects[object].thread;
    return thread != NA_FLOWS_NONE ? thread : nth_sample(s, 0)->thread;
}

/* The node that it was on then: of a stack or variable, where the first page seen lies. -1: not
 * known, as of a block that a policy of the program's own placed. */
static int16_t maker_node(const sums_t *s, uint32_t object) {
    const na_flow_object_t *o = &s->set->objects[object];
    return o->node >= 0 || o->kind <= NA_FLOW_POOL ? o->node : nth_sample(s, 0)->home;
}

/* Figures that need no order of time. */
static void add_plain(sums_t *s, uint32_t object, uint32_t count) {
    na_measure_t *to = s->to;
    uint32_t thread = maker(s, object);
    int16_t node = maker_node(s, object);
    bool policy = s->set->objects[object].own_policy;
    double own = 0;
    for (uint32_t i = 0; i < count; i++) {
        const na_touch_t *a = nth_sample(s, i);
        double w = a->weight;
        to->weight += w;
        if (policy) s->policy += w;
        s->by_thread[a->thread] += w;
        if (a->thread == thread) own += w;
        if (a->latency >= 0) {
            s->latency += w * a->latency;
            s->latency_of += w;
        }
        if ((a->op & NA_NPROF_OP_WRITE) != 0) {
            to->written += w;
            if (a->ns > to->last_store_ns) to->last_store_ns = a->ns;
        }
        if (a->from >= 0) to->from[a->from] += w;
        if (a->home >= 0) to->home[a->home] += w;
        if (!na_touch_has_nodes(a)) continue;
        s->known += w;
        if (a->from == a->home) continue;
        s->remote += w;
        if (a->latency > s->verdicts->local_latency)
            to->excess += w * (a->latency - s->verdicts->local_latency);
        if (a->thread != thread) continue;
        s->own_remote += w;
        if (policy || a->from == node)
            s->own_stayed += w;
        else if (node >= 0)
            s->own_moved += w;
    }
    s->own += own;
    to->samples += count;
    to->instances += count != 0;
}

/* What a sample belongs to with others: a round of watchpoints; of NUMA hinting faults, which come
 * in bursts of one thread after each of the kernel's scans, a tenth of a second. 0: nothing. */
static uint32_t touch_round(const sums_t *s, const na_touch_t *a) {
    if (s->set->sources[s->verdicts->source].of.source != NA_NPROF_SOURCE_NUMA) return a->round;
    return (uint32_t)(a->ns / 100000000U) + 1;
}

/* What is drawn by itself: a sample; of watchpoints all those of a round, which are of one word or
 * two at one moment, and say little more than one. Samples of a round follow each other closely in
 * an object's flow. */
static void find_draws(sums_t *s, uint32_t count) {
    enum { OPEN = 16 };
    struct {
        uint32_t round, draw;
        uint16_t process;
    } open[OPEN];
    uint32_t used = 0, next = 0;
    s->draws = 0;
    for (uint32_t i = 0; i < count; i++) {
        const na_touch_t *a = nth_sample(s, i);
        uint32_t round = touch_round(s, a), at = 0;
        while (at < used && (open[at].round != round || open[at].process != a->process))
            at++;
        if (round == 0 || at == used) {
            s->draw[i] = s->draws++;
            s->draw_weight[s->draw[i]] = 0;
            if (round != 0) {
                open[next].round = round;
                open[next].process = a->process;
                open[next].draw = s->draw[i];
                next = (next + 1) % OPEN;
                if (used < OPEN) used++;
            }
        } else {
            s->draw[i] = open[at].draw;
        }
        s->draw_weight[s->draw[i]] += a->weight;
    }
    for (uint32_t i = 0; i < s->draws; i++)
        s->squares += s->draw_weight[i] * s->draw_weight[i];
}

static void add_turn(turns_t *to, uint32_t draws) {
    to->turns++;
    to->draws += draws;
    to->lone += draws == 1;
}

/* A turn lasts from a thread's first access to the first one by another: as docs/examples/turns.c
 * has it, of all accesses to the object. (The first one began before it was seen.) */
static void add_switches(sums_t *s, uint32_t count) {
    uint32_t turn = 0, before = 0, highest = s->draw[0]; /* before: the highest draw until then */
    for (uint32_t i = 1; i <= count; i++) {
        const na_touch_t *a = i < count ? nth_sample(s, i) : NULL, *began = nth_sample(s, turn);
        if (a == NULL || began->thread != a->thread) {
            thread_turns_t *of = &s->turns[began->thread];
            uint32_t draws = highest - before + (turn == 0 || s->draw[turn] <= before);
            add_turn(turn != 0 && a != NULL ? &of->whole : &of->cut, draws);
            if (a == NULL) break;
            s->to->switches++;
            s->switch_sum += (double)(a->ns - began->ns);
            turn = i;
            before = highest;
        }
        if (s->draw[i] > highest) highest = s->draw[i];
    }
    s->to->turn_draws += s->draws;
}

enum { TURN_DRAWS = 4, THIN_PART = 8 };

/* Each thread by itself: the many draws of long turns say nothing of short ones between them. What
 * was cut is looked at where a thread has nothing else: one draw at the beginning that met a short
 * turn, and none after it, is no long turn of the other thread. */
static void count_thin_turns(sums_t *s) {
    for (uint32_t t = 0; t < s->set->thread_count; t++) {
        const thread_turns_t *all = &s->turns[t];
        const turns_t *of = all->whole.turns != 0 ? &all->whole : &all->cut;
        s->to->thin_turns += of->draws < TURN_DRAWS * of->turns ? of->turns : of->lone;
    }
}

/* Of turns with four draws each on average, drawn at random, one in thirteen is seen by one. */
bool na_measure_turns_are_seen(const na_measure_t *m) {
    return m->turn_draws >= TURN_DRAWS * (double)m->switches &&
           m->thin_turns * THIN_PART <= m->switches;
}

/* Windows of time: in which one node made nearly all accesses? It takes several draws to say so:
 * one round of watchpoints sees a word for some milliseconds, in which a thread that works its way
 * through the object may be alone with that word. Each draw counts as one, whatever it weighs, for
 * the weights of words differ by orders of magnitude. */
static void add_windows(sums_t *s, uint32_t first, uint32_t count) {
    double least = na_limit(NA_T_WINDOW_SAMPLES);
    uint64_t begin = nth_sample(s, first)->ns, span = nth_sample(s, count - 1)->ns - begin + 1;
    double windows = floor((s->draws - s->draw[first]) / least);
    double longest = floor((double)span / (na_limit(NA_T_WINDOW_MS) * 1e6));
    if (windows > longest) windows = longest;
    if (windows > na_limit(NA_T_WINDOWS)) windows = na_limit(NA_T_WINDOWS);
    if (windows < 2) return;
    double length = (double)span / windows;
    for (uint32_t i = first; i < count;) {
        uint64_t number = (uint64_t)((double)(nth_sample(s, i)->ns - begin) / length);
        double node[NA_FLOWS_NODES] = {0}, all = 0, most = 0;
        for (; i < count; i++) {
            const na_touch_t *a = nth_sample(s, i);
            if ((uint64_t)((double)(a->ns - begin) / length) != number) break;
            double part = s->draw_weight[s->draw[i]];
            if (a->from < 0 || !(part > 0)) continue;
            part = a->weight / part;
            all += part;
            node[a->from] += part;
            if (node[a->from] > most) most = node[a->from];
        }
        if (all < na_limit(NA_T_SPARSE) - ROUNDING) continue;
        s->to->windows++;
        if (most >= (na_limit(NA_T_PURE) - ROUNDING) * all) s->pure += 1;
    }
}

/* Draws in a row from one node: of nodes that use it at once few. */
static void add_runs(sums_t *s, uint32_t first, uint32_t count) {
    int16_t before = -1;
    for (uint32_t i = first; i < count; i++) {
        const na_touch_t *a = nth_sample(s, i);
        if (a->from < 0) continue;
        s->runs += a->from != before;
        before = a->from;
    }
    s->in_runs += s->draws - s->draw[first];
    s->runs_ns += (double)(nth_sample(s, count - 1)->ns - nth_sample(s, first)->ns);
}

static bool keep_line(sums_t *s, uint32_t sample, bool begins) {
    const na_touch_t *a = &s->set->items[sample];
    if (!NA_ARRAY_RESERVE(s->lines, s->line_room, s->line_count + 1u)) return false;
    s->lines[s->line_count++] =
        (touched_line_t){.address = a->address, .sample = sample, .user = a->thread << 1 | begins};
    return true;
}

/* Inside of one group of threads? Only objects that threads share count. */
static void add_cluster(sums_t *s, uint32_t first, uint32_t count) {
    const na_clusters_t *clusters = &s->verdicts->clusters;
    uint32_t other = nth_sample(s, first)->thread;
    bool shared = false;
    for (uint32_t i = first; i < count && !shared; i++)
        shared = nth_sample(s, i)->thread != other;
    if (!shared || clusters->of == NULL) return;
    /* The group of the thread with most of it stands for the object. */
    double *by_thread = s->by_thread, most = 0, inside = 0, all = 0;
    uint32_t best = other;
    for (uint32_t i = first; i < count; i++) {
        const na_touch_t *a = nth_sample(s, i);
        all += a->weight;
        if (by_thread[a->thread] > most) {
            most = by_thread[a->thread];
            best = a->thread;
        }
    }
    uint32_t cluster = clusters->of[best];
    for (uint32_t i = first; i < count; i++)
        if (cluster != NA_FLOWS_NONE && clusters->of[nth_sample(s, i)->thread] == cluster)
            inside += nth_sample(s, i)->weight;
    s->cluster += inside;
    s->cluster_of += all;
}

/* What verdict_parts.c looks at; `first`: sample of the hand-off. */
static na_parts_samples_t parts_samples(const sums_t *s, uint32_t object, uint32_t first,
                                        uint32_t count) {
    const na_flow_object_t *o = &s->set->objects[object];
    na_reader_t *reader = s->set->processes[o->process].reader;
    uint64_t page = reader != NULL ? na_reader_header(reader)->page_size : 0;
    return (na_parts_samples_t){.set = s->set,
                                .items = s->kept + first,
                                .draw = s->draw + first,
                                .draw_weight = s->draw_weight,
                                .count = count - first,
                                .page_size = page >= 64 ? page : 4096,
                                .by_page = s->set->sources[s->verdicts->source].of.source ==
                                           NA_NPROF_SOURCE_NUMA};
}

/* The first sample by another thread than the one that made it; `count`: there is none. */
static uint32_t handoff(const sums_t *s, uint32_t object, uint32_t count) {
    uint32_t thread = maker(s, object), first = 0;
    while (first < count && nth_sample(s, first)->thread == thread)
        first++;
    return first;
}

/* What came after the hand-off. False: out of memory. */
static bool add_after(sums_t *s, uint32_t object, uint32_t count) {
    na_measure_t *to = s->to;
    const na_flow_object_t *o = &s->set->objects[object];
    uint32_t thread = maker(s, object), first = handoff(s, object, count);
    if (first == count) { /* nobody else used it */
        if (o->thread != NA_FLOWS_NONE) return true;
        first = 0; /* and who made it is not known */
        thread = NA_FLOWS_NONE;
    }
    if (thread != NA_FLOWS_NONE && o->birth_ns != 0 && nth_sample(s, first)->ns >= o->birth_ns) {
        s->handoffs += 1;
        s->handoff_sum += (double)(nth_sample(s, first)->ns - o->birth_ns);
    }
    double node[NA_FLOWS_NODES] = {0}, away[NA_FLOWS_NODES] = {0}, all = 0;
    double made[NA_FLOWS_NODES] = {0}; /* by who allocated it */
    for (uint32_t i = first; i < count; i++) {
        const na_touch_t *a = nth_sample(s, i);
        all += a->weight;
        if (a->thread == thread && a->from >= 0) made[a->from] += a->weight;
        if (a->thread == thread) s->allocator += a->weight;
        if (a->op != NA_NPROF_OP_UNKNOWN) {
            s->store_of += a->weight;
            to->store_samples++;
            if ((a->op & NA_NPROF_OP_WRITE) != 0) s->stores += a->weight;
        }
        if (a->from >= 0) node[a->from] += a->weight;
        if (na_touch_is_remote(a)) away[a->from] += a->weight;
        if (!keep_line(s, s->kept[i], i == first || s->draw[i] != s->draw[i - 1])) return false;
    }
    to->after += all;
    add_switches(s, count);
    if (count - first < na_limit(NA_T_SPARSE)) {
        to->sparse++;
        for (uint32_t n = 0; n < s->set->node_count; n++) {
            s->few[n] += node[n];
            s->few_remote[n] += away[n];
            s->few_made[n] += made[n];
        }
        s->few_all += all;
        s->parts.weight += all;
        return true;
    }
    uint32_t best = 0, next = NA_FLOWS_NONE;
    for (uint32_t n = 1; n < s->set->node_count; n++)
        if (node[n] > node[best]) best = n;
    for (uint32_t n = 0; n < s->set->node_count; n++)
        if (n != best && (next == NA_FLOWS_NONE || node[n] > node[next])) next = n;
    /* Of several objects those that lie with their users already fit, too. */
    bool settled = 2 * away[best] < node[best];
    s->one_node += settled ? 0 : away[best];
    s->settled += settled ? node[best] : 0;
    /* What a policy spread lies in part with its user, whoever that is. */
    if (o->own_policy && !settled) s->settled += node[best] - away[best];
    s->allocator -= made[best]; /* where it is one of many, it wants what they want */
    if (next != NA_FLOWS_NONE) s->second += node[next];
    s->second_of += all;
    add_windows(s, first, count);
    add_runs(s, first, count);
    add_cluster(s, first, count);
    na_parts_samples_t samples = parts_samples(s, object, first, count);
    return na_parts_count(&samples, &s->parts);
}

/* Forgets the weights by thread of one object. */
static void forget_threads(sums_t *s, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        s->by_thread[nth_sample(s, i)->thread] = 0;
}

static int touches_by_address(const void *a, const void *b) {
    uint64_t x = ((const touched_line_t *)a)->address, y = ((const touched_line_t *)b)->address;
    return x < y ? -1 : x > y;
}

static int heaviest_line_first(const void *a, const void *b) {
    double x = ((const touched_line_t *)a)->weight, y = ((const touched_line_t *)b)->weight;
    return x > y ? -1 : x < y;
}

/* Share of the accesses that the thread with most of their line, or word, makes: of those that
 * agree in all but the last `bits` of the address, and were met often enough. Not a number: most
 * were not. */
static double owned_share(const sums_t *s, unsigned bits) {
    double all = 0, own = 0, told = 0;
    for (uint32_t i = 0, next; i < s->line_count; i = next) {
        uint64_t at = s->lines[i].address >> bits;
        if (i + 1 == s->line_count || s->lines[i + 1].address >> bits != at) { /* nearly all */
            all += s->set->items[s->lines[i].sample].weight;
            next = i + 1;
            continue;
        }
        double sum = 0, most = 0, votes = 0;
        uint32_t draws = 0, user = 0; /* the one with most of it, if one has more than half */
        for (next = i; next < s->line_count && s->lines[next].address >> bits == at; next++) {
            const touched_line_t *l = &s->lines[next];
            double weight = s->set->items[l->sample].weight;
            sum += weight;
            draws += l->user & 1;
            if (votes <= 0) user = l->user >> 1;
            votes += l->user >> 1 == user ? weight : -weight;
            if (votes < 0) votes = 0;
        }
        all += sum;
        if (draws < na_limit(NA_T_SPARSE)) continue;
        for (uint32_t k = i; k < next; k++)
            if (s->lines[k].user >> 1 == user) most += s->set->items[s->lines[k].sample].weight;
        own += most;
        told += sum;
    }
    return 2 * told > all ? own / told : NAN;
}

/* Share of the reads that are of words that nobody was seen to write, of words met often enough. */
static double unwritten_share(const sums_t *s) {
    double reads = 0, unwritten = 0;
    for (uint32_t i = 0, next; i < s->line_count; i = next) {
        uint64_t at = s->lines[i].address >> WORD_BITS;
        double read = 0;
        uint32_t draws = 0;
        bool written = false;
        for (next = i; next < s->line_count && s->lines[next].address >> WORD_BITS == at; next++) {
            const na_touch_t *a = &s->set->items[s->lines[next].sample];
            draws += s->lines[next].user & 1;
            written |= (a->op & NA_NPROF_OP_WRITE) != 0;
            if ((a->op & NA_NPROF_OP_READ) != 0) read += a->weight;
        }
        if (draws < na_limit(NA_T_SPARSE)) continue;
        reads += read;
        if (!written) unwritten += read;
    }
    return reads > 0 ? unwritten / reads : NAN;
}

/* Who has lines and words; how many lines have the most accesses, together NA_T_LINES_SHARE of
 * them; and what the first NA_T_LINES have. By weight: words that are known to be used are watched
 * far more often. */
static void count_lines(sums_t *s) {
    if (s->line_count == 0) return;
    qsort(s->lines, s->line_count, sizeof *s->lines, touches_by_address);
    s->to->line_own = owned_share(s, LINE_BITS);
    if (s->to->line_own < na_limit(NA_T_LINE_OWN)) {
        s->to->word_own = owned_share(s, WORD_BITS);
        s->to->word_unwritten = unwritten_share(s);
    }
    uint32_t lines = 0;
    double all = 0, have = 0;
    for (uint32_t i = 0; i < s->line_count; i++) {
        uint64_t line = s->lines[i].address & ~(LINE - 1);
        double weight = s->set->items[s->lines[i].sample].weight;
        all += weight;
        if (lines != 0 && s->lines[lines - 1].address == line)
            s->lines[lines - 1].weight += weight;
        else
            s->lines[lines++] = (touched_line_t){.address = line, .weight = weight};
    }
    qsort(s->lines, lines, sizeof *s->lines, heaviest_line_first);
    s->to->line = s->lines[0].address;
    double wanted = (na_limit(NA_T_LINES_SHARE) - ROUNDING) * all;
    for (uint32_t i = 0; i < lines; i++) {
        if (have < wanted) s->to->lines++;
        have += s->lines[i].weight;
        if (i < na_limit(NA_T_LINES)) s->to->in_lines = all > 0 ? have / all : NAN;
    }
}

static int16_t most_of(const double weights[NA_FLOWS_NODES], uint32_t nodes) {
    int16_t best = -1;
    for (uint32_t n = 0; n < nodes; n++)
        if (weights[n] > 0 && (best < 0 || weights[n] > weights[best])) best = (int16_t)n;
    return best;
}

static void finish_sums(sums_t *s, const double *thread_weight) {
    na_measure_t *to = s->to;
    uint32_t nodes = s->set->node_count;
    int16_t few = most_of(s->few, nodes);
    if (few >= 0) s->one_node += s->few_remote[few];
    if (few >= 0) s->allocator -= s->few_made[few];
    to->independent = s->squares > 0 ? to->weight * to->weight / s->squares : 0;
    to->known = to->weight > 0 ? s->known / to->weight : 0;
    to->remote = s->known > 0 ? s->remote / s->known : NAN;
    to->own = to->weight > 0 ? s->own / to->weight : NAN;
    /* (NaN: the node is not known, so nothing is said of whether it moved.) */
    bool told = s->own_moved + s->own_stayed >= na_limit(NA_T_KNOWN) * s->own_remote;
    to->moved = s->own_remote > 0 && told ? s->own_moved / s->own_remote : NAN;
    to->stayed = s->own_remote > 0 && told ? s->own_stayed / s->own_remote : NAN;
    to->policy = to->weight > 0 ? s->policy / to->weight : 0;
    to->one_node = to->after > 0 ? s->one_node / to->after : NAN;
    to->settled = to->after > 0 ? s->settled / to->after : NAN;
    to->allocator = to->after > 0 ? s->allocator / to->after : NAN;
    to->second = s->second_of > 0 ? s->second / s->second_of : NAN;
    to->run = s->runs > 0 ? s->in_runs / s->runs : NAN;
    to->run_ns = s->runs > 0 ? s->runs_ns / s->runs : NAN;
    to->pure = to->windows != 0 ? s->pure / to->windows : NAN;
    to->stores = s->store_of > 0 ? s->stores / s->store_of : NAN;
    count_thin_turns(s);
    to->switch_ns = to->switches != 0 ? s->switch_sum / (double)to->switches : NAN;
    double handoff = s->handoffs > 0 ? s->handoff_sum / s->handoffs : 0;
    to->handoff_ns = handoff < 1e18 ? (uint64_t)handoff : (uint64_t)1e18;
    double parts = 0, most = 0;
    for (uint32_t n = 0; n < nodes; n++) {
        parts += s->parts.of_node[n];
        if (s->parts.of_node[n] > most) most = s->parts.of_node[n];
    }
    to->parted = parts > 0 ? s->parts.same / s->parts.weight : NAN;
    to->misplaced = parts > 0 ? s->parts.misplaced / s->parts.weight : NAN;
    to->part_second = parts > 0 ? 1 - most / parts : NAN;
    to->in_cluster = s->cluster_of > 0 ? s->cluster / s->cluster_of : NAN;
    to->latency = s->latency_of > 0 ? s->latency / s->latency_of : NAN;
    to->to = most_of(to->from, nodes);
    to->at = most_of(to->home, nodes);
    double home = 0;
    for (uint32_t n = 0; n < nodes; n++)
        home += to->home[n];
    to->spread = home > 0 && to->at >= 0 ? to->home[to->at] / home * nodes : NAN;
    to->in_lines = to->line_own = to->word_own = to->word_unwritten = NAN;
    to->reader = NA_FLOWS_NONE;
    for (uint32_t t = 0; t < s->set->thread_count; t++) {
        if (!(thread_weight[t] > 0)) continue;
        to->threads++;
        if (to->reader == NA_FLOWS_NONE || thread_weight[t] > thread_weight[to->reader])
            to->reader = t;
    }
}

uint32_t na_measure_parts(const na_flows_t *set, const na_verdicts_t *verdicts, uint32_t object,
                          na_verdict_part_t *parts, uint32_t most) {
    na_measure_t unused = {0};
    sums_t s = {.set = set, .verdicts = verdicts, .to = &unused};
    uint32_t kept, found = UINT32_MAX;
    if (keep_samples(&s, object, &kept)) {
        if (kept != 0) find_draws(&s, kept);
        uint32_t first = kept != 0 ? handoff(&s, object, kept) : 0;
        na_parts_samples_t samples = parts_samples(&s, object, first == kept ? 0 : first, kept);
        const na_flow_object_t *o = &set->objects[object];
        found = kept != 0 ? na_parts_ranges(&samples, o->base, o->size, parts, most) : 0;
    }
    free(s.kept);
    free(s.draw);
    free(s.draw_weight);
    return found;
}

bool na_measure_make(const na_flows_t *set, const na_verdicts_t *verdicts, const uint32_t *objects,
                     uint32_t count, uint32_t skip, na_measure_t *measure) {
    *measure = (na_measure_t){0};
    sums_t s = {.set = set, .verdicts = verdicts, .to = measure};
    s.by_thread = calloc((size_t)set->thread_count + 1, sizeof *s.by_thread);
    s.turns = calloc((size_t)set->thread_count + 1, sizeof *s.turns);
    double *all = calloc((size_t)set->thread_count + 1, sizeof *all);
    bool good = s.by_thread != NULL && s.turns != NULL && all != NULL;
    for (uint32_t i = 0; good && i < count; i++) {
        uint32_t kept;
        if (objects[i] == skip || set->objects[objects[i]].samples == 0) continue;
        good = keep_samples(&s, objects[i], &kept);
        if (!good || kept == 0) continue;
        add_plain(&s, objects[i], kept);
        find_draws(&s, kept);
        good = add_after(&s, objects[i], kept);
        for (uint32_t k = 0; k < kept; k++)
            all[nth_sample(&s, k)->thread] += nth_sample(&s, k)->weight;
        forget_threads(&s, kept);
    }
    if (good) finish_sums(&s, all);
    if (good) count_lines(&s);
    free(s.kept);
    free(s.draw);
    free(s.draw_weight);
    free(s.lines);
    free(s.by_thread);
    free(s.turns);
    free(all);
    return good;
}
