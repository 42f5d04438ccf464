/* shared_lines.c - see shared_lines.h. */
#include "profiler/analyze/accesses/shared_lines.h"

#include <stdlib.h>
#include <string.h>

#define WORDS    (NA_LINE_BYTES / 8)
#define HALVES   (2 * WORDS)
#define USERS    64u   /* threads of a line that are told apart */
#define APART    0.9   /* a word is two where its halves are so much one thread's each */
#define ROUNDING 1e-9  /* of sums from which one is taken off again */
#define SMALL    0.001 /* what so little of a line's accesses go to is no part of it */
#define OFTEN    8u    /* accesses in a look: that they are one thread's alone is no chance */
#define CLEAN    3u    /* looks without a write: nobody writes it */

/* Of one line: accesses a second, summed over the probes of a range. Ranges are words, then halves
 * of words. */
typedef struct sums {
    uint32_t thread[USERS];
    uint32_t threads;
    struct range {
        double reads[USERS], writes[USERS];
        uint32_t probes;
        uint32_t object;
    } range[WORDS + HALVES];
} sums_t;

static uint32_t range_of(uint64_t address, uint32_t length) {
    uint32_t offset = (uint32_t)(address % NA_LINE_BYTES);
    return length > 4 ? offset / 8 : WORDS + offset / 4;
}

static uint32_t user_of(sums_t *s, uint32_t thread) {
    for (uint32_t i = 0; i < s->threads; i++)
        if (s->thread[i] == thread) return i;
    if (s->threads == USERS) return USERS;
    s->thread[s->threads] = thread;
    return s->threads++;
}

/* Did different threads use different ranges, one writing? */
static bool in_conflict(const na_flow_probe_t *p) {
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t k = 0; k < p->count; k++)
            if (p->uses[i].range == 0 && p->uses[k].range == 1 &&
                p->uses[i].thread != p->uses[k].thread && p->uses[i].writes + p->uses[k].writes > 0)
                return true;
    return false;
}

#define NEAR UINT64_C(300000000) /* ns from one probe to the next */

static uint64_t line_at(const na_flow_probe_t *p) {
    return p->address[0] / NA_LINE_BYTES * NA_LINE_BYTES;
}

static bool overlap(const na_flow_probe_t *a, uint32_t i, const na_flow_probe_t *b, uint32_t k) {
    return a->address[i] < b->address[k] + b->length[k] &&
           b->address[k] < a->address[i] + a->length[i];
}

/* The same of two probes soon after each other: with more threads than CPUs they take turns. */
static bool take_turns(const na_flow_probe_t *a, const na_flow_probe_t *b) {
    if (a == NULL || b->ns - a->ns > NEAR) return false;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t k = 0; k < b->count; k++)
            if (a->uses[i].thread != b->uses[k].thread &&
                !overlap(a, a->uses[i].range, b, b->uses[k].range) &&
                a->uses[i].writes + b->uses[k].writes > 0)
                return true;
    return false;
}

static void add_probe(sums_t *s, na_line_t *line, const na_flow_probe_t *p,
                      const na_flow_probe_t *before) {
    for (uint32_t k = 0; k < 2; k++) {
        struct range *r = &s->range[range_of(p->address[k], p->length[k])];
        r->probes++;
        if (p->object[k] != NA_FLOWS_NONE) r->object = p->object[k];
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const struct na_flow_use *u = &p->uses[i];
        uint32_t user = user_of(s, u->thread);
        if (user == USERS) continue;
        struct range *r = &s->range[range_of(p->address[u->range], p->length[u->range])];
        r->reads[user] += u->reads;
        r->writes[user] += u->writes;
    }
    line->probes += p->count != 0;
    bool at_once = in_conflict(p), turn = !at_once && take_turns(before, p);
    line->conflicts += at_once || turn;
    line->turns += turn;
    if (line->first_ns == 0 || p->ns < line->first_ns) line->first_ns = p->ns;
    if (p->ns > line->last_ns) line->last_ns = p->ns;
}

/* A range as a part of the line. count stays where nobody used it. */
static na_line_part_t part_of(const sums_t *s, uint32_t range, uint64_t address, uint32_t length) {
    const struct range *r = &s->range[range];
    na_line_part_t to = {
        .address = address, .length = length, .object = r->object, .thread = NA_FLOWS_NONE};
    double most = 0, all = 0;
    for (uint32_t i = 0; i < s->threads && r->probes != 0; i++) {
        double rate = (r->reads[i] + r->writes[i]) / r->probes;
        if (!(rate > 0)) continue;
        to.reads += r->reads[i] / r->probes;
        to.writes += r->writes[i] / r->probes;
        to.threads++;
        all += rate;
        if (rate <= most) continue;
        most = rate;
        to.thread = s->thread[i];
    }
    to.own = all > 0 ? most / all : 0;
    return to;
}

static double rate_of(const na_line_part_t *p) {
    return p->reads + p->writes;
}

/* The word, or its halves if these are different threads'. Returns how many. `open`: it is not
 * known. */
static uint32_t take_apart(const sums_t *s, uint32_t word, uint64_t line, na_line_part_t *to,
                           bool *open) {
    uint64_t address = line + word * 8;
    *to = part_of(s, word, address, 8);
    bool used = rate_of(to) > 0; /* (few looks at the word may have met one thread only) */
    na_line_part_t half[2];
    for (uint32_t k = 0; k < 2; k++)
        half[k] = part_of(s, WORDS + 2 * word + k, address + 4 * k, 4);
    bool shared = (half[0].threads > 1 && half[0].own < APART) ||
                  (half[1].threads > 1 && half[1].own < APART);
    bool met = half[0].threads != 0 && half[1].threads != 0;
    *open = !shared && !met && to->threads > 1 && to->own < APART;
    if (shared || !met || half[0].thread == half[1].thread) return used;
    memcpy(to, half, sizeof half);
    return 2;
}

static bool is_clean(const sums_t *s, const na_line_part_t *p) {
    return !(p->writes > 0) && s->range[range_of(p->address, p->length)].probes >= CLEAN;
}

/* Threads that read what nobody writes, and use nothing that is written. */
static void find_readers(const sums_t *s, na_line_t *line) {
    double clean = 0;
    for (uint32_t i = 0; i < s->threads; i++) {
        double reads = 0, others = 0;
        for (uint32_t k = 0; k < line->count; k++) {
            const na_line_part_t *p = &line->parts[k];
            const struct range *r = &s->range[range_of(p->address, p->length)];
            double rate = (r->reads[i] + r->writes[i]) / r->probes;
            *(is_clean(s, p) ? &reads : &others) += rate;
        }
        clean += reads;
        if (others < (1 - APART) * reads) line->readers += reads;
    }
    line->reading = clean > 0 ? line->readers / clean : 0;
}

static void finish_line(const sums_t *s, na_line_t *line) {
    double thread[USERS] = {0}, most = 0, writes = 0, object_rate = 0;
    na_line_part_t parts[2 * WORDS + 1];
    uint32_t count = 0;
    for (uint32_t w = 0; w < WORDS; w++) {
        bool open;
        uint32_t found = take_apart(s, w, line->address, &parts[count], &open);
        if (open) line->open |= 1u << w;
        line->apart += found == 2;
        count += found;
    }
    if (line->apart == 0) line->open = 0;
    for (uint32_t i = 0; i < count; i++)
        line->rate += rate_of(&parts[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (rate_of(&parts[i]) < SMALL * line->rate) continue;
        line->parts[line->count++] = parts[i];
        if (parts[i].writes > 0) writes += parts[i].writes;
    }
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < s->threads; i++)
            if (s->thread[i] == parts[k].thread) thread[i] += parts[k].own * rate_of(&parts[k]);
    for (uint32_t i = 0; i < s->threads; i++)
        if (thread[i] > most) most = thread[i];
    line->others = line->rate > most ? line->rate - most : 0;
    if (line->others > writes) line->others = writes;
    line->writes = writes;
    find_readers(s, line);
    line->object = NA_FLOWS_NONE;
    for (uint32_t i = 0; i < line->count; i++) {
        const na_line_part_t *p = &line->parts[i];
        bool seen = false, met = false;
        double of_object = 0;
        for (uint32_t k = 0; k < line->count; k++) {
            if (k < i && line->parts[k].thread == p->thread) seen = true;
            if (k < i && line->parts[k].object == p->object) met = true;
            if (line->parts[k].object == p->object) of_object += rate_of(&line->parts[k]);
        }
        line->threads += !seen;
        line->objects += !met;
        if (p->object == NA_FLOWS_NONE || of_object <= object_rate) continue;
        object_rate = of_object;
        line->object = p->object;
    }
}

/* Is it one of the line's parts, and written? (Only read it is as good as each one's own; and of a
 * word that may be two, nothing is known.) */
static bool is_part(const na_line_t *line, uint64_t address, uint32_t length) {
    if (length == 8 && (line->open >> address % NA_LINE_BYTES / 8 & 1) != 0) return false;
    for (uint32_t i = 0; i < line->count; i++)
        if (line->parts[i].address == address && line->parts[i].length == length)
            return line->parts[i].writes > 0;
    return false;
}

/* Accesses that a look saw of one of its ranges: all, and those by the thread that all other looks
 * at this range met most. False: these met nobody. */
static bool compare_with_others(sums_t *s, const na_flow_probe_t *p, uint32_t range, double *all,
                                double *own) {
    const struct range *r = &s->range[range_of(p->address[range], p->length[range])];
    double here[USERS] = {0}, most = 0;
    uint32_t best = USERS;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t user = user_of(s, p->uses[i].thread);
        if (p->uses[i].range == range && user != USERS)
            here[user] += p->uses[i].reads + p->uses[i].writes;
    }
    for (uint32_t i = 0; i < s->threads; i++) {
        double others = r->reads[i] + r->writes[i] - here[i];
        if (others <= most + ROUNDING * here[i]) continue;
        most = others;
        best = i;
    }
    *all = 0;
    for (uint32_t i = 0; i < s->threads; i++)
        *all += here[i];
    *own = best != USERS ? here[best] : 0;
    return best != USERS && *all > 0;
}

/* The same where no other look has met anybody: of threads that were at work at once, whose it is
 * that one alone uses often. */
static bool compare_at_once(const na_flow_probe_t *p, uint32_t range, double *all, double *own) {
    uint32_t hits = 0, others = 0;
    double most = 0;
    *all = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct na_flow_use *u = &p->uses[i];
        others += u->thread != p->uses[0].thread && u->hits >= OFTEN;
        if (u->range != range) continue;
        double rate = u->reads + u->writes;
        hits += u->hits;
        *all += rate;
        if (rate > most) most = rate;
    }
    *own = most;
    return hits >= OFTEN && others != 0 && p->uses[0].hits >= OFTEN;
}

/* Does one look say whose a part is that others say? */
static void judge_own(sums_t *s, na_line_t *line, const na_flow_probe_t *probes,
                      const uint32_t *order, uint32_t count) {
    double all = 0, own = 0;
    for (uint32_t i = 0; i < count; i++) {
        const na_flow_probe_t *p = &probes[order[i]];
        bool repeats = false;
        for (uint32_t k = 0; k < 2; k++) {
            double here, agreed;
            if (!is_part(line, p->address[k], p->length[k]) ||
                (!compare_with_others(s, p, k, &here, &agreed) &&
                 !compare_at_once(p, k, &here, &agreed)))
                continue;
            all += here;
            own += agreed;
            repeats = true;
        }
        line->repeats += repeats;
    }
    line->own = all > 0 ? own / all : 0;
    line->compared = all;
    line->open = (uint32_t)__builtin_popcount(line->open);
}

/* By line, then by time. */
static int probes_by_line(const void *a, const void *b, void *arg) {
    const na_flow_probe_t *probes = arg;
    const na_flow_probe_t *x = &probes[*(const uint32_t *)a], *y = &probes[*(const uint32_t *)b];
    uint64_t i = line_at(x), k = line_at(y);
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (i != k) return i < k ? -1 : 1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static int lines_most_first(const void *a, const void *b) {
    const na_line_t *x = a, *y = b;
    if (x->others != y->others) return x->others > y->others ? -1 : 1;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* As many looks meet a moment in the life of these blocks. */
static double meet_moment(const na_flows_t *set, const na_line_t *line, uint64_t looked_ns) {
    uint64_t shortest = UINT64_MAX;
    for (uint32_t i = 0; i < line->count; i++) {
        if (line->parts[i].object == NA_FLOWS_NONE) continue;
        const na_flow_object_t *o = &set->objects[line->parts[i].object];
        uint64_t end = o->end_ns == UINT64_MAX ? line->last_ns : o->end_ns;
        uint64_t life = end > o->birth_ns ? end - o->birth_ns : 0;
        if (life < shortest) shortest = life;
    }
    if (shortest == UINT64_MAX) return 0;
    double met = (double)looked_ns / (double)(shortest + looked_ns);
    return met * line->probes < 1 ? met * line->probes : 1;
}

/* Are these still the blocks that lived there? Notes those of the probe. */
static bool same_blocks(const na_flow_probe_t *p, uint32_t word_object[WORDS]) {
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t at = word_object[p->address[k] % NA_LINE_BYTES / 8];
        if (at != NA_FLOWS_NONE && p->object[k] != NA_FLOWS_NONE && at != p->object[k])
            return false;
    }
    for (uint32_t k = 0; k < 2; k++)
        if (p->object[k] != NA_FLOWS_NONE)
            word_object[p->address[k] % NA_LINE_BYTES / 8] = p->object[k];
    return true;
}

/* The next of the probes that are of one line and the same blocks. Returns how many. */
static uint32_t make_line(const na_flows_t *set, const uint32_t *order, uint32_t count, sums_t *s,
                          na_line_t *line) {
    const na_flow_probe_t *first = &set->probes[order[0]], *before = NULL;
    uint32_t word_object[WORDS], probes = 0;
    *line = (na_line_t){.address = line_at(first), .process = first->process, .lives = 1};
    memset(s, 0, sizeof *s);
    for (uint32_t r = 0; r < WORDS + HALVES; r++)
        s->range[r].object = NA_FLOWS_NONE;
    for (uint32_t w = 0; w < WORDS; w++)
        word_object[w] = NA_FLOWS_NONE;
    for (; probes < count; probes++) {
        const na_flow_probe_t *p = &set->probes[order[probes]];
        if (p->process != line->process || line_at(p) != line->address ||
            !same_blocks(p, word_object))
            break;
        add_probe(s, line, p, before);
        if (p->count != 0) before = p;
    }
    finish_line(s, line);
    line->handovers = meet_moment(set, line, first->watched_ns);
    judge_own(s, line, set->probes, order, probes);
    return probes;
}

/* ---- lives ---- */

/* Where its blocks come from; NA_FLOWS_NONE: not known. */
static uint32_t origin(const na_flows_t *set, const na_line_t *line) {
    uint32_t least = NA_FLOWS_NONE;
    for (uint32_t i = 0; i < line->count; i++) {
        uint32_t object = line->parts[i].object;
        if (object == NA_FLOWS_NONE || set->objects[object].kind > NA_FLOW_POOL) continue;
        if (set->objects[object].group < least) least = set->objects[object].group;
    }
    return least;
}

/* The first turn of a life may be that one thread hands it over to the other. */
static uint32_t lasting(const na_line_t *line) {
    return line->conflicts - (line->turns != 0);
}

/* Sums up a life: rates by looks, and the parts of the one that says most. */
static void add_life(na_line_t *to, const na_line_t *line) {
    na_line_t sum = *to;
    if (to->lives == 0 || lasting(line) > lasting(to)) *to = *line;
    double part = (double)line->probes / (sum.probes + line->probes);
    double *const rates[] = {&sum.others, &sum.rate, &sum.writes, &sum.readers, &sum.reading};
    const double add[] = {line->others, line->rate, line->writes, line->readers, line->reading};
    for (size_t i = 0; i < sizeof add / sizeof add[0]; i++)
        *rates[i] += (add[i] - *rates[i]) * part;
    double compared = sum.compared + line->compared;
    to->own = compared > 0 ? (sum.own * sum.compared + line->own * line->compared) / compared : 0;
    to->compared = compared;
    to->others = sum.others;
    to->rate = sum.rate;
    to->writes = sum.writes;
    to->readers = sum.readers;
    to->reading = sum.reading;
    to->handovers = sum.handovers + line->handovers;
    to->lives = sum.lives + 1;
    to->probes = sum.probes + line->probes;
    to->repeats = sum.repeats + line->repeats;
    bool begins = sum.lives == 0 || line->first_ns < sum.first_ns;
    to->first_ns = begins ? line->first_ns : sum.first_ns;
    to->last_ns = line->last_ns > sum.last_ns ? line->last_ns : sum.last_ns;
}

/* Adds what lives of blocks of one origin say together. False: out of memory. */
static bool sum_up_lives(const na_flows_t *set, na_lines_t *lines) {
    uint32_t count = lines->count;
    uint32_t *of = calloc((size_t)set->group_count + 1, sizeof *of); /* by group; 0: none */
    uint32_t *lasted = calloc((size_t)count + 1, sizeof *lasted);
    for (uint32_t i = 0; of != NULL && lasted != NULL && i < count; i++) {
        uint32_t from = origin(set, &lines->items[i]);
        if (from == NA_FLOWS_NONE) continue;
        if (of[from] == 0) {
            of[from] = ++lines->count;
            lines->items[of[from] - 1] = (na_line_t){0};
        }
        add_life(&lines->items[of[from] - 1], &lines->items[i]);
        lasted[of[from] - 1 - count] += lasting(&lines->items[i]);
    }
    uint32_t kept = count;
    for (uint32_t i = count; i < lines->count; i++) {
        lines->items[i].conflicts = lasted[i - count];
        if (lines->items[i].lives > 1) lines->items[kept++] = lines->items[i];
    }
    bool good = of != NULL && lasted != NULL;
    lines->count = kept;
    free(of);
    free(lasted);
    return good;
}

bool na_lines_make(const na_flows_t *set, na_lines_t *lines) {
    *lines = (na_lines_t){0};
    if (set->probe_count == 0) return true;
    uint32_t *order = calloc(set->probe_count, sizeof *order);
    sums_t *s = malloc(sizeof *s);
    /* (As many again, at most, for what lives say together.) */
    lines->items = calloc(2 * (size_t)set->probe_count, sizeof *lines->items);
    bool good = order != NULL && s != NULL && lines->items != NULL;
    for (uint32_t i = 0; good && i < set->probe_count; i++)
        order[i] = i;
    if (good) qsort_r(order, set->probe_count, sizeof *order, probes_by_line, set->probes);
    for (uint32_t i = 0; good && i < set->probe_count;) {
        na_line_t *line = &lines->items[lines->count];
        i += make_line(set, order + i, set->probe_count - i, s, line);
        lines->count += line->count != 0;
    }
    free(order);
    free(s);
    if (!good) return false;
    qsort(lines->items, lines->count, sizeof *lines->items, lines_most_first);
    return sum_up_lives(set, lines);
}

bool na_line_is_beside(const na_line_t *line) {
    uint32_t writer = NA_FLOWS_NONE;
    bool one = true, reader = line->readers > 0;
    for (uint32_t i = 0; i < line->count; i++) {
        if (!(line->parts[i].writes > 0)) continue;
        if (writer != NA_FLOWS_NONE && line->parts[i].thread != writer) one = false;
        writer = line->parts[i].thread;
    }
    return reader && (one || line->own < APART);
}

void na_lines_free(na_lines_t *lines) {
    free(lines->items);
    *lines = (na_lines_t){0};
}
