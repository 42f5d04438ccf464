/* access_watch_lines.c - see access_watch_lines.h. */
#include "profiler/record/sources/watch/access_watch_lines.h"

#include <stddef.h>

#define LINES    64u /* looked at; the one that is due last makes room */
#define LINE     64u
#define WORD     8u
#define WORDS    (LINE / WORD)
#define PASSES   20u                 /* at once, at most */
#define ENOUGH   8u                  /* times that threads were seen at different words */
#define OFTEN    1000000.0           /* ns from one access to the next, at most */
#define AGAIN    UINT64_C(500000000) /* ns: until a line is looked at again, at first */
#define LONGEST  UINT64_C(16000000000)
#define SHARED   UINT64_C(2000000000) /* the same of one that threads share */
#define MOST_GAP 4u /* times GAP from one probe to the next while nothing is found */
#define GAP      UINT64_C(20000000) /* ns: a round, where these are as long as usual */

/* Of a pass: words that are used, with the hot one, twice (those of several threads once: their
 * halves have more to say); the others, of a line that threads share
 * in one pass only, when ENOUGH was seen; then the halves of words that several threads use, three
 * times. */
enum { OTHERS = 2, HALVES = 3, PHASES = 6 };
#define RETRIES 8u /* in a pass, of probes that did not meet all: threads wait for a CPU */

typedef struct line {
    uintptr_t line; /* 0: none */
    uint64_t due, pause;
    uint32_t hot;    /* word that is written often */
    uint32_t used;   /* words that any thread was seen to use: a bit each */
    uint32_t common; /* of them, by several threads */
    uint32_t seen; /* times that different threads were at different words, in a probe or in two */
    uint32_t last_thread;
    uint32_t last_at; /* of the line: twice the word, or one more */
    bool written;
    uint32_t owner[WORDS]; /* thread that was seen last; 0: none yet */
    uint32_t step; /* of this pass: phase times WORDS, and which word, from the hot one on */
    uint32_t retries;
    uint32_t shared; /* passes that found several threads */
    bool found;      /* in this pass */
    bool others;     /* this pass looks at words that nobody was seen to use */
    bool whole;      /* an earlier one has */
} line_t;

static struct {
    line_t line[LINES];
    line_t *at; /* whose pass this is */
    uint32_t gap;
    uint64_t probed; /* when */
    bool open;       /* is the line that was probed last */
} probe_state;

void na_lines_start(void) {
    __builtin_memset(&probe_state, 0, sizeof probe_state);
    probe_state.gap = 1;
}

void na_lines_met(uintptr_t word, const na_line_seen_t *seen, uint32_t used, double each_ns,
                  uint64_t now) {
    if (each_ns > OFTEN) return;
    uintptr_t line = word / LINE * LINE;
    line_t *to = NULL;
    for (uint32_t i = 0; i < LINES; i++) {
        line_t *l = &probe_state.line[i];
        if (l->line == line) {
            l->used |= used | 1u << (word - line) / WORD;
            return;
        }
        if (l == probe_state.at) continue;
        if (to == NULL || l->line == 0 || (to->line != 0 && l->due > to->due)) to = l;
    }
    /* One that is due makes no room. */
    if (!seen->written || to == NULL || (to->line != 0 && to->due <= now)) return;
    uint32_t hot = (uint32_t)(word - line) / WORD;
    *to = (line_t){.line = line,
                   .due = now,
                   .pause = AGAIN,
                   .hot = hot,
                   .used = used | 1u << hot,
                   .common = seen->threads > 1 ? 1u << hot : 0};
}

/* Threads share it, and more is to be seen of that now. */
static bool is_open(const line_t *l) {
    return (l->found || l->shared != 0) && (l->seen < ENOUGH || !l->whole) && l->shared < PASSES;
}

static void end_pass(line_t *l, uint64_t now) {
    if (l->others) l->whole = true;
    if (l->found) {
        l->shared++;
        l->due = is_open(l) ? now : now + SHARED;
        probe_state.gap = 1;
    } else {
        if (!l->written) l->pause = LONGEST; /* threads that only read disturb nobody */
        l->due = now + l->pause;
        l->pause = l->pause * 2 < LONGEST ? l->pause * 2 : LONGEST;
        if (probe_state.gap < MOST_GAP) probe_state.gap++;
    }
    probe_state.open = is_open(l);
    l->step = l->retries = 0;
    l->found = l->others = false;
    probe_state.at = NULL;
}

/* The word of a step of this phase; WORDS: the step has none. */
static uint32_t word_of(const line_t *l) {
    uint32_t word = (l->hot + l->step) % WORDS, phase = l->step / WORDS;
    bool used = (l->used >> word & 1) != 0;
    if (phase >= HALVES) return l->written && (l->common >> word & 1) != 0 ? word : WORDS;
    if (word == l->hot || used != (phase != OTHERS)) return WORDS;
    if (phase == 1 && (l->common >> word & 1) != 0) return WORDS;
    return phase == OTHERS && !l->others ? WORDS : word;
}

/* The next step of this pass. False: it has ended. */
static bool step_line(line_t *l, na_line_range_t range[2]) {
    while (++l->step < PHASES * WORDS) {
        if (l->step == OTHERS * WORDS)
            l->others = l->shared == 0 && !l->found ? true : !l->whole && l->seen >= ENOUGH;
        uint32_t word = word_of(l);
        if (word == WORDS) continue;
        uint32_t length = WORD, other = l->hot;
        if (l->step / WORDS >= HALVES) {
            length = WORD / 2;
            other = word;
        }
        range[0] = (na_line_range_t){l->line + other * WORD, length};
        range[1] = (na_line_range_t){l->line + word * WORD, length};
        if (other == word) range[1].address += length;
        return true;
    }
    return false;
}

/* What threads share comes first, then where several words are used. */
static uint32_t promise(const line_t *l) {
    return 2 * l->shared + (__builtin_popcount(l->used) > 1);
}

bool na_lines_next(uint64_t now, na_line_range_t range[2]) {
    /* (Half a round less: they are of uneven length.) */
    if (probe_state.gap > 1 && now < probe_state.probed + probe_state.gap * GAP - GAP / 2)
        return false;
    for (uint32_t tries = 0; tries < 2; tries++) {
        if (probe_state.at == NULL) {
            for (uint32_t i = 0; i < LINES; i++) {
                line_t *l = &probe_state.line[i];
                if (l->line == 0 || l->due > now) continue;
                if (probe_state.at == NULL || promise(l) > promise(probe_state.at) ||
                    (promise(l) == promise(probe_state.at) && l->due < probe_state.at->due))
                    probe_state.at = l;
            }
            if (probe_state.at == NULL) return false;
        }
        if (step_line(probe_state.at, range)) {
            probe_state.probed = now;
            return true;
        }
        end_pass(probe_state.at, now);
    }
    return false;
}

bool na_lines_open(void) {
    return probe_state.open;
}

void na_lines_learn(const na_line_seen_t seen[2]) {
    line_t *l = probe_state.at;
    if (l == NULL) return;
    uint32_t at = l->step, phase = at / WORDS;
    bool met = seen[0].threads != 0 && seen[1].threads != 0;
    if (phase != OTHERS && !met && l->retries < RETRIES) {
        l->retries++;
        l->step--;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (seen[i].threads != 1) continue;
        uint32_t where = phase >= HALVES ? (at + l->hot) % WORDS * 2 + i
                                         : (i == 0 ? l->hot : l->hot + at) % WORDS * 2;
        if (l->last_thread != 0 && l->last_thread != seen[i].thread && l->last_at != where) {
            l->seen++;
            if (phase >= HALVES) l->found = true;
        }
        l->last_thread = seen[i].thread;
        l->last_at = where;
    }
    if (phase >= HALVES) return;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t word = i == 0 ? l->hot : (l->hot + at) % WORDS;
        if (seen[i].threads == 0) continue;
        l->used |= 1u << word;
        if (seen[i].threads > 1) l->common |= 1u << word;
        if (l->owner[word] != 0 && l->owner[word] != seen[i].thread) l->common |= 1u << word;
        l->owner[word] = seen[i].thread;
        if (seen[i].written) l->written = true;
    }
    /* Not in one probe only: with more threads than CPUs they use it in turn. */
    uint32_t first = 0;
    for (uint32_t word = 0; word < WORDS; word++) {
        if (l->owner[word] == 0) continue;
        if ((l->common >> word & 1) != 0 || (first != 0 && l->owner[word] != first))
            l->found = l->written;
        first = l->owner[word];
    }
    probe_state.open = is_open(l);
}
