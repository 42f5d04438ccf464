/* test_verdict_drawn.c - verdict.c: verdicts on programs that are drawn from a grammar, for
 * machines with four nodes, as samples of what the program would do: the truth is known exactly,
 * and a source is as good as it can be. (Programs that run: tests/access/drawn.c.)
 *
 * DRAWN is how many for each source; DRAWN_JSON a file for the confusion matrices
 * (docs/data/verdicts.json). Bars: nothing false with a confidence of "high"; right, or undecided
 * with a reason, in 95 %. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/access_judge.h"

TestSuite(verdict_drawn, .timeout = 600);

enum {
    NODES = 4,
    USERS = 8,
    SITE = 4,
    OTHER_SITE = 5,
    PAGE = 4096,
    BLOCKS = 4096,
    HITS = 10, /* of a round of watchpoints */
    FEW = 60,  /* samples, or rounds */
};
#define HIGH 0.95 /* confidence */

typedef enum use {
    OWN,       /* each thread a block, that it allocated */
    MOVED,     /* the same, and then each goes to another node */
    MISPLACED, /* the same, placed elsewhere: by the program's own policy, or by want of room */
    HANDED,    /* each thread a block, that one thread allocated */
    ACCEPTED,  /* the same of many blocks, each used for a short time by one of the threads */
    PARTS,     /* one block, each thread its part */
    SHARED,    /* one block, written by all */
    TABLE,     /* one block, read by all */
    COUNTER,   /* one word, written by all */
    TURNS,     /* one block, used by one node after the other */
    GROUPS,    /* two groups of threads, each with blocks of its own, and one counter of all */
    USES
} use_t;
static const char *const use_names[USES] = {"own",      "moved", "misplaced", "handed",
                                            "accepted", "parts", "shared",    "table",
                                            "counter",  "turns", "groups"};

typedef struct drawn {
    use_t use;
    bool mended, policy, unknown, halo, watched, told; /* unknown: on which node it was allocated */
    uint32_t threads, samples;
    uint64_t size;
    uint32_t writes; /* of 100 */
    uint32_t cached, lost;
    uint32_t speed[USERS];
    uint32_t block[BLOCKS], blocks;
    uint32_t user[BLOCKS]; /* of a block that is one thread's */
    na_verdict_kind_t truth, also;
} drawn_t;

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = state;
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ z >> 31) >> 33) % below;
}

static int node_of(uint32_t thread) {
    return (int)(thread % NODES);
}

/* Threads 0 to threads - 1 have ids from 2 on; thread id 1, on node 0, is the one that allocates
 * for others. */
static uint32_t id_of(uint32_t thread) {
    return thread + 2;
}

static void draw_program(drawn_t *d, bool watched) {
    static const uint64_t sizes[] = {64, 4096, 65536, 1 << 20, 1 << 23};
    *d = (drawn_t){.watched = watched};
    d->use = (use_t)draw(USES);
    d->mended = draw(3) == 0;
    d->threads = 2 + draw(USERS - 1);
    d->size = sizes[draw(5)];
    d->writes = 10 + draw(90);
    d->policy = draw(3) == 0;
    d->unknown = draw(6) == 0;
    d->halo = draw(2) == 0;
    d->cached = draw(2) == 0 ? draw(95) : 0;
    d->lost = draw(6) == 0 ? draw(20) : 0;
    d->told = draw(2) == 0;
    d->samples = (uint32_t)FEW << draw(watched ? 4 : 7);
    d->samples += draw(d->samples);
    for (uint32_t t = 0; t < USERS; t++)
        d->speed[t] = 1 + draw(3);
    bool shared = d->use >= PARTS;
    if (shared && d->use != COUNTER && d->size < 65536) d->size = 65536;
    if (d->use == COUNTER) d->size = 64;
    if (d->use == GROUPS) d->threads = USERS;
    if (d->use == TABLE) d->writes = 0;
    if (d->mended || d->use == OWN || d->use == SHARED || d->size <= NODES * PAGE)
        d->policy = false;
}

/* The verdict of the truth; `also`: is right as well. */
static void find_truth(drawn_t *d) {
    static const na_verdict_kind_t truths[USES] = {
        [OWN] = NA_VERDICT_NOTHING,          [MOVED] = NA_VERDICT_MIGRATED,
        [MISPLACED] = NA_VERDICT_OWN,        [HANDED] = NA_VERDICT_REMOTE,
        [ACCEPTED] = NA_VERDICT_REMOTE,      [PARTS] = NA_VERDICT_PARTITION,
        [SHARED] = NA_VERDICT_WRITE_SHARED,  [TABLE] = NA_VERDICT_READ_MOSTLY,
        [COUNTER] = NA_VERDICT_WRITE_SHARED, [TURNS] = NA_VERDICT_ALTERNATING,
        [GROUPS] = NA_VERDICT_CLUSTER};
    d->truth = d->also = truths[d->use];
    if (d->use == MOVED && d->policy) d->truth = d->also = NA_VERDICT_OWN;
    if (d->use == SHARED && d->mended) d->truth = d->also = NA_VERDICT_EVEN;
    if (d->mended && d->use != SHARED) d->truth = d->also = NA_VERDICT_NOTHING;
}

/* Where a page of a block lies. */
static int home_of(const drawn_t *d, uint32_t block, uint64_t offset) {
    uint32_t page = (uint32_t)(offset / PAGE), user = d->user[block];
    uint32_t part = (uint32_t)(offset * d->threads / d->size);
    if (d->use == SHARED && d->mended) return (int)(page % NODES);
    if (d->mended && d->use == PARTS) return node_of(part);
    if (d->mended || d->use == OWN) return node_of(user);
    if (d->policy) return (int)(page % NODES);
    switch (d->use) {
    case MISPLACED:
        return (node_of(user) + 1) % NODES;
    case MOVED:
        return (node_of(user) + 1) % NODES; /* where it came from */
    default:
        return 0;
    }
}

static uint32_t add_block(drawn_t *d, made_t *m, uint32_t user) {
    bool each = d->mended || d->use == OWN || d->use == MOVED || d->use == MISPLACED;
    int node = !each                           ? 0
               : d->use == MOVED && !d->mended ? (node_of(user) + 1) % NODES
                                               : node_of(user);
    uint32_t id = made_object(m, SITE, each ? id_of(user) : 1, d->unknown ? -1 : node, d->size);
    if (d->policy) m->objects[id - 1].flags = NA_NPROF_OBJECT_OWN_POLICY;
    d->user[d->blocks] = user;
    d->block[d->blocks] = id;
    return d->blocks++;
}

static uint32_t draw_thread(const drawn_t *d) {
    uint32_t all = 0, t = 0;
    for (uint32_t i = 0; i < d->threads; i++)
        all += d->speed[i];
    uint32_t at = draw(all);
    while (at >= d->speed[t])
        at -= d->speed[t++];
    return t;
}

/* Mended, what one block was is one of each thread's own. */
static bool is_one(const drawn_t *d) {
    if (d->use == SHARED || d->use == PARTS) return true;
    return d->use > PARTS && d->use != GROUPS && !d->mended;
}

/* An access of a thread to a word of a block. */
static void touch(const drawn_t *d, made_t *m, uint32_t block, uint32_t thread, uint64_t offset) {
    bool write = draw(100) < d->writes;
    m->op = write ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
    m->level = NA_NPROF_LEVEL_UNKNOWN;
    if (!d->watched && !write)
        m->level = draw(100) < d->cached ? NA_NPROF_LEVEL_L2 : NA_NPROF_LEVEL_DRAM;
    na_nprof_access_sample_t *s =
        made_touch(m, d->block[block], id_of(thread), node_of(thread), home_of(d, block, offset));
    s->address = m->objects[d->block[block] - 1].base + offset;
    s->window = d->watched ? m->window_count : 0;
}

/* A word of the thread's share of a block. */
static uint64_t word_of(const drawn_t *d, uint32_t thread) {
    uint64_t size = d->size, from = 0;
    if (d->use == PARTS) {
        size /= d->threads;
        from = size * thread;
        if (d->halo && draw(20) == 0) from = size * ((thread + 1) % d->threads);
    }
    if (d->use == COUNTER) size = 8;
    return (from + draw((uint32_t)(size / 8)) * 8) % d->size / 8 * 8;
}

/* Whose turn it is, of two nodes. */
static uint32_t turn_of(const drawn_t *d, uint32_t sample) {
    uint32_t turns = 6 + d->samples / 500;
    return sample * turns / d->samples % 2;
}

static void run(drawn_t *d, made_t *m) {
    uint32_t groups = 0, global = 0;
    for (uint32_t t = 0; t < d->threads && d->use != ACCEPTED; t++)
        if (t == 0 || !is_one(d)) add_block(d, m, t);
    if (d->use == GROUPS && !d->mended) global = made_object(m, OTHER_SITE, 1, 0, 64);
    uint32_t noise = made_object(m, OTHER_SITE, 1, 0, 65536), worker = 0;
    for (uint32_t i = 0; i < d->samples; i++) {
        uint32_t thread = draw_thread(d), block = is_one(d) ? 0 : thread;
        if (d->use == TURNS && !d->mended) thread = 1 + turn_of(d, i) % 2;
        if (d->watched) made_round(m);
        if (d->use == ACCEPTED) {
            if (i % 6 == 0 && d->blocks < BLOCKS) {
                worker = thread;
                if (d->blocks != 0) m->objects[d->block[d->blocks - 1] - 1].death_ns = m->ns + 1;
                add_block(d, m, worker);
            }
            block = d->blocks - 1;
            thread = worker;
        }
        if (d->use == GROUPS && !d->mended) { /* threads of even numbers share, and of odd ones */
            groups = draw(4);
            block = groups * 2 + thread / 2 % 2;
        }
        uint64_t word = word_of(d, thread);
        uint32_t hits = d->watched ? 1 + draw(HITS) : 1;
        for (uint32_t k = 0; k < hits; k++) {
            bool others = is_one(d) && d->use != PARTS && d->use != TURNS && k != 0;
            touch(d, m, block, others ? draw_thread(d) : thread, word);
        }
        if (draw(10) < 3) {
            if (d->watched) made_round(m);
            m->op = NA_NPROF_OP_READ;
            m->level = d->watched ? NA_NPROF_LEVEL_UNKNOWN : NA_NPROF_LEVEL_DRAM;
            made_touch(m, noise, 1, 0, 0)->window = d->watched ? m->window_count : 0;
        }
        if (global != 0 && draw(4) == 0) {
            if (d->watched) made_round(m);
            m->op = NA_NPROF_OP_WRITE;
            m->level = NA_NPROF_LEVEL_UNKNOWN;
            made_touch(m, global, id_of(thread), node_of(thread), 0)->window =
                d->watched ? m->window_count : 0;
        }
    }
}

/* The share of the program's accesses that are remote, as it is: what is little has nothing wrong,
 * and of what is in between either is right. */
static void weigh_truth(drawn_t *d, const made_t *m) {
    uint32_t all = 0, remote = 0;
    for (uint32_t i = 0; i < m->sample_count; i++) {
        const na_nprof_access_sample_t *s = &m->samples[i];
        if (m->objects[s->object - 1].site != SITE) continue;
        all++;
        remote += s->cpu_node != s->home_node;
    }
    double share = all != 0 ? (double)remote / all : 0;
    if (share < 0.07)
        d->truth = d->also = NA_VERDICT_NOTHING;
    else if (share < 0.15)
        d->also = NA_VERDICT_NOTHING;
}

typedef struct said {
    na_verdict_kind_t kind;
    double chance;
    bool reason;
} said_t;

/* The worst that is said of the blocks in question. */
static said_t worst(const judged_t *j) {
    said_t to = {.kind = NA_VERDICT_UNDECIDABLE, .reason = true};
    int rank = -1;
    for (uint32_t i = 0; i < j->verdicts.count; i++) {
        const na_verdict_t *v = &j->verdicts.items[i];
        const na_flow_group_t *g = &j->flows.groups[v->group];
        if (g->kind != NA_FLOW_HEAP || g->site != SITE) continue;
        int here = v->kind == NA_VERDICT_NOTHING ? 0 : v->kind == NA_VERDICT_UNDECIDABLE ? 1 : 2;
        if (here <= rank) continue;
        rank = here;
        to = (said_t){v->kind, v->chance, v->undecided != NA_UNDECIDED_NOT};
    }
    return to;
}

enum { LOW_, HIGH_, SURES };
typedef struct matrix {
    uint32_t of[NA_VERDICTS][NA_VERDICTS][SURES], right, undecided, wrong, wrong_high;
} matrix_t;

static void judge_one(uint64_t seed, bool watched, matrix_t *to) {
    drawn_t d;
    made_t m;
    state = seed;
    draw_program(&d, watched);
    find_truth(&d);
    made_begin(&m);
    if (watched) {
        m.source = NA_NPROF_SOURCE_WATCH;
        m.unit = NA_NPROF_UNIT_ACCESSES;
        m.flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    }
    run(&d, &m);
    m.lost = (uint64_t)m.sample_count * d.lost / 100;
    weigh_truth(&d, &m);
    judged_t j;
    made_judge(&m, &j);
    said_t s = worst(&j);
    bool right = s.kind == d.truth || s.kind == d.also, open = s.kind == NA_VERDICT_UNDECIDABLE;
    to->of[d.truth][right ? d.truth : s.kind][s.chance >= HIGH]++;
    to->right += right;
    to->undecided += !right && open;
    to->wrong += !right && !open;
    to->wrong_high += !right && !open && s.chance >= HIGH;
    cr_expect(!open || s.reason, "%" PRIu64 ": undecided, and no reason", seed);
    if (!right && !open && getenv("DRAWN_SHOW") != NULL)
        printf("%s %" PRIu64 "%s: %s%s%s%s, %u threads, %" PRIu64 " bytes, %u samples, cached %u, "
               "writes %u, halo %d: %s at %.3f, not %s\n",
               watched ? "watch" : "ibs", seed, "", use_names[d.use], d.mended ? " mended" : "",
               d.policy ? " policy" : "", d.unknown ? " unknown" : "", d.threads, d.size, d.samples,
               d.cached, d.writes, d.halo, na_verdict_texts[s.kind].key, s.chance,
               na_verdict_texts[d.truth].key);
    judged_free(&j);
}

static void put_matrix(FILE *out, const char *source, uint32_t count, const matrix_t *m) {
    fprintf(
        out,
        " {\"source\": \"%s\", \"programs\": %u, \"right\": %u, \"undecided\": %u, \"wrong\": %u, "
        "\"wrong_high\": %u, \"matrix\": {",
        source, count, m->right, m->undecided, m->wrong, m->wrong_high);
    const char *comma = "";
    for (uint32_t t = 0; t < NA_VERDICTS; t++) {
        bool any = false;
        for (uint32_t k = 0; k < NA_VERDICTS; k++) {
            if (m->of[t][k][0] + m->of[t][k][1] == 0) continue;
            if (any)
                fprintf(out, ", ");
            else
                fprintf(out, "%s\n  \"%s\": {", comma, na_verdict_texts[t].key);
            any = true;
            comma = ",";
            fprintf(out, "\"%s\": [%u, %u]", na_verdict_texts[k].key, m->of[t][k][LOW_],
                    m->of[t][k][HIGH_]);
        }
        if (any) fprintf(out, "}");
    }
    fprintf(out, "}}");
}

Test(verdict_drawn, four_nodes) {
    static const char *const sources[] = {"ibs", "watch"};
    const char *given = getenv("DRAWN"), *file = getenv("DRAWN_JSON");
    uint32_t count = given != NULL ? (uint32_t)strtoul(given, NULL, 10) : 300;
    FILE *out = file != NULL ? fopen(file, "w") : stdout;
    cr_assert_not_null(out);
    fprintf(out, "[\n");
    for (int watched = 0; watched < 2; watched++) {
        matrix_t m = {0};
        for (uint32_t i = 0; i < count; i++)
            judge_one((uint64_t)i * 977 + 1, watched != 0, &m);
        put_matrix(out, sources[watched], count, &m);
        fprintf(out, "%s\n", watched == 0 ? "," : "\n]");
        cr_expect_eq(m.wrong_high, 0, "%s: %u of %u wrong with high confidence", sources[watched],
                     m.wrong_high, count);
        cr_expect_leq(m.wrong * 20, count, "%s: %u of %u wrong", sources[watched], m.wrong, count);
    }
    if (file != NULL) fclose(out);
}
