/* handoff.c - a producer on the first node allocates, consumers on all others free, and have blocks
 * of their own. All pages of the producer's blocks must lie on its node, all of each consumer's own
 * blocks on the consumer's, in every round; and the memory held must not grow. */
#include "lab.h"

enum {
    ROUNDS = 144,
    SETTLED = 24, /* rounds until memory must have stopped growing */
    WINDOW = 48,  /* rounds whose mean is compared: a single round's memory is anything between what
                     lives and that and the caps on free pages of all nodes */
    HANDED = 600, /* blocks for each consumer in each round */
    OWN = 400,    /* blocks that each consumer keeps */
    SLACK = 4 << 20,
};

typedef struct consumer {
    lab_block_t handed[HANDED];
    lab_block_t own[OWN];
    lab_pages_t pages;
    uint64_t random;
} consumer_t;

static pthread_barrier_t together;
static consumer_t *consumers; /* number 1 and up; 0 is unused */
static int place_of[LAB_NODES];
static int places;
static uint64_t early_rss, late_rss; /* sums of a window's rounds */
static lab_pages_t produced;

/* Mostly small, some of many pages. */
static size_t draw(uint64_t *random) {
    uint64_t number = lab_random(random);
    unsigned power = number % 100 == 0 ? 17 : 4 + (unsigned)(number >> 8) % 9;
    return (size_t)1 << power;
}

static void produce(int round) {
    uint64_t random = (uint64_t)round;
    for (int c = 1; c < places; c++)
        for (size_t i = 0; i < HANDED; i++)
            lab_make(&consumers[c].handed[i], draw(&random));
    for (int c = 1; c < places; c++)
        lab_judge(consumers[c].handed, HANDED, false, &produced);
}

static void consume(consumer_t *self) {
    for (size_t i = 0; i < HANDED; i++) {
        lab_drop(&self->handed[i]);
        /* What was just freed here is of the right size, and of the wrong node. */
        lab_block_t *own = &self->own[lab_random(&self->random) % OWN];
        size_t size = self->handed[i].size;
        lab_drop(own);
        lab_make(own, size);
    }
    lab_judge(self->own, OWN, false, &self->pages);
}

static void work(void *argument, int number) {
    (void)argument;
    consumer_t *self = &consumers[number];
    self->random = (uint64_t)number;
    lab_pin(place_of[number]);
    for (int round = 1; round <= ROUNDS; round++) {
        if (number == 0) produce(round);
        pthread_barrier_wait(&together);
        if (number != 0) consume(self);
        pthread_barrier_wait(&together);
        if (number != 0) continue;
        if (round > SETTLED && round <= SETTLED + WINDOW) early_rss += lab_rss();
        if (round > ROUNDS - WINDOW) late_rss += lab_rss();
    }
}

int main(void) {
    check_begin();
    lab_begin(2);
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0) place_of[places++] = i;
    consumers = lab_map((size_t)places * sizeof *consumers);
    REQUIRE(pthread_barrier_init(&together, NULL, (unsigned)places) == 0);
    lab_team(places, work, NULL);

    lab_expect_on(&produced, lab_home(place_of[0]), "producer's blocks");
    for (int c = 1; c < places; c++) {
        char what[64];
        snprintf(what, sizeof what, "own blocks of consumer on node %d", lab_node[place_of[c]].id);
        lab_expect_on(&consumers[c].pages, lab_home(place_of[c]), what);
    }
    uint64_t early = early_rss / WINDOW, late = late_rss / WINDOW;
    check_say("resident, mean of rounds %d to %d: %llu KiB, of %d to %d: %llu KiB\n", SETTLED + 1,
              SETTLED + WINDOW, (unsigned long long)early >> 10, ROUNDS - WINDOW + 1, ROUNDS,
              (unsigned long long)late >> 10);
    CHECK(late <= early + early / 10 + SLACK);
    return lab_status(check_status());
}
