/* churn.c - one thread pinned to each node renews its blocks at random; every page its blocks lie
 * on must be on its node. Then every thread moves to the next node, and the same must be true of
 * all that it allocates from 20 ms and two slow paths after the move: not one block is passed over
 * beyond those two. (moved.c: the same for threads that the scheduler moves, in other orders.)
 *
 * usage: churn [small|medium|large] [maps]     maps: judged by /proc/self/numa_maps
 *
 * A CPU on a node without memory counts to the nearest node that has some. With `maps` nothing
 * moves: that judge sees whole mappings, which keep what the node's last tenant left. */
#include "lab.h"

enum { MOST_SLOTS = 4096 };

typedef struct kind {
    const char *name;
    size_t smallest, largest; /* bytes; log-uniform between */
    unsigned slots, renewals;
} kind_t;

static const kind_t kinds[] = {
    {"small", 16, 1024, 4096, 40000},
    {"medium", 1024, 32 << 10, 512, 6000},
    {"large", 32 << 10, 4 << 20, 16, 300},
};

typedef struct worker {
    lab_block_t block[MOST_SLOTS];
    lab_pages_t pages;
    uint64_t random;
    int place; /* table index of the node it runs on */
} worker_t;

static const kind_t *kind;
static bool by_maps;
static pthread_barrier_t together;
static int place_of[LAB_NODES]; /* nodes with CPUs: where the threads run */
static int places;
static worker_t *workers;

static size_t draw(worker_t *self) {
    unsigned powers = 0;
    while (kind->smallest << powers < kind->largest)
        powers++;
    size_t base = kind->smallest << lab_random(&self->random) % powers;
    return base + lab_random(&self->random) % base;
}

static void renew(worker_t *self, unsigned slot) {
    lab_drop(&self->block[slot]);
    lab_make(&self->block[slot], draw(self));
}

static void churn(worker_t *self, unsigned renewals) {
    for (unsigned i = 0; i < renewals; i++)
        renew(self, (unsigned)(lab_random(&self->random) % kind->slots));
}

/* One slow path, and no more: numalloc has no other for a block of over 32 KiB. */
static void *slow_path(void) {
    void *block = check_opaque(malloc(40 << 10));
    REQUIRE(block != NULL);
    return block;
}

/* When it returns the library is to know where the thread is: from two slow paths, whose blocks the
 * caller keeps as long as it judges. */
static void move_to(int place, void *kept[2]) {
    lab_pin(place);
    uint64_t moved = lab_now_ms();
    kept[0] = slow_path();
    while (lab_now_ms() - moved < 20)
        lab_sleep_ms(1);
    kept[1] = slow_path();
}

static void judge(worker_t *self, bool fresh_only) {
    memset(&self->pages, 0, sizeof self->pages);
    if (by_maps)
        lab_judge_by_maps(self->block, kind->slots, &self->pages);
    else
        lab_judge(self->block, kind->slots, fresh_only, &self->pages);
}

static void say(const char *when) {
    for (int i = 0; i < places; i++) {
        char what[128];
        snprintf(what, sizeof what, "%s, %s, thread on node %d", kind->name, when,
                 lab_node[workers[i].place].id);
        lab_expect_on(&workers[i].pages, lab_home(workers[i].place), what);
    }
}

static void work(void *argument, int number) {
    (void)argument;
    worker_t *self = &workers[number];
    self->random = (uint64_t)number + 1;
    self->place = place_of[number];
    lab_pin(self->place);
    for (unsigned slot = 0; slot < kind->slots; slot++)
        lab_make(&self->block[slot], draw(self));
    churn(self, kind->renewals);
    pthread_barrier_wait(&together);
    if (!by_maps || number == 0)
        judge(self, false); /* numa_maps is read by one thread: it has one buffer */
    for (int other = 1; by_maps && number == 0 && other < places; other++)
        judge(&workers[other], false);
    pthread_barrier_wait(&together);
    if (number == 0) say("pinned");
    if (!by_maps && places > 1) {
        pthread_barrier_wait(&together);
        self->place = place_of[(number + 1) % places];
        void *kept[2];
        move_to(self->place, kept);
        for (unsigned slot = 0; slot < kind->slots; slot++)
            self->block[slot].fresh = false;
        churn(self, kind->renewals);
        pthread_barrier_wait(&together);
        judge(self, true);
        pthread_barrier_wait(&together);
        if (number == 0) say("moved");
        free(kept[0]);
        free(kept[1]);
        /* All renewed: nothing of the old node is left in the working set. */
        pthread_barrier_wait(&together);
        for (unsigned slot = 0; slot < kind->slots; slot++)
            renew(self, slot);
        pthread_barrier_wait(&together);
        judge(self, false);
        pthread_barrier_wait(&together);
        if (number == 0) say("moved and all renewed");
    }
    pthread_barrier_wait(&together);
    for (unsigned slot = 0; slot < kind->slots; slot++)
        lab_drop(&self->block[slot]);
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(1);
    lab_no_balancing();
    by_maps = argc > 2 && strcmp(argv[2], "maps") == 0;
    for (size_t i = 0; i < NA_COUNT(kinds); i++) {
        if (argc > 1 && strcmp(argv[1], kinds[i].name) != 0) continue;
        kind = &kinds[i];
    }
    if (kind == NULL || argc < 2) {
        check_say("usage: %s small|medium|large [maps]\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0) place_of[places++] = i;
    /* What threads are created with is this one's, in a mapping that is judged. The scheduler might
     * move it. */
    void *kept[2];
    if (by_maps) move_to(place_of[0], kept);
    workers = lab_map((size_t)places * sizeof *workers);
    REQUIRE(pthread_barrier_init(&together, NULL, (unsigned)places) == 0);
    lab_team(places, work, NULL);
    return lab_status(check_status());
}
