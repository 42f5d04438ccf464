/* limits.c - several nodes and little memory: one thread on each node allocates until it is told
 * ENOMEM (address space, overcommit), or churns below a limit on resident memory. It must be told,
 * not killed; must get most of what there is; and must go on working afterwards.
 *
 * usage: limits address MIB   under RLIMIT_AS
 *        limits overcommit    with vm.overcommit_memory=2 (set, and set back)
 *        limits churn MIB [SHAPE [THREADS [RENEWALS]]]   holds MIB in all, renewed again and again,
 *                             without a limit of its own. SHAPE: small, large (the default), mixed.
 *                             THREADS: one on each node, unless said otherwise. RENEWALS: of all
 *                             blocks, else the shape's own
 */
#include "lab.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { BLOCK = 64 << 10, MOST = 16384 };

typedef struct worker {
    lab_block_t *block;
    size_t count;
    int error;
} worker_t;

/* Blocks of any size between the two, the latter not included; `even`: as many in each doubling. */
typedef struct shape {
    const char *name;
    size_t least, most;
    bool even;
    unsigned renewals; /* of all blocks */
} shape_t;
static const shape_t shapes[] = {
    {"small", 16, 1024, false, 3},
    {"large", BLOCK / 2, BLOCK, false, 8},
    {"mixed", 16, 2 * BLOCK, true, 5},
};
static const shape_t *shape = &shapes[1];
static unsigned renewals;

static worker_t *workers;
static int place_of[LAB_NODES];
static int places;
static size_t goal; /* churn: bytes of each thread */
static pthread_barrier_t together;

static void exhaust(void *argument, int number) {
    (void)argument;
    worker_t *self = &workers[number];
    lab_pin(place_of[number]);
    pthread_barrier_wait(&together); /* stacks of those that come later need room, too */
    for (self->count = 0; self->count < MOST; self->count++) {
        errno = 0;
        self->block[self->count].start = check_opaque(malloc(BLOCK - 64));
        self->error = errno;
        if (self->block[self->count].start == NULL) break;
    }
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < self->count; i++)
        free(self->block[i].start);
    pthread_barrier_wait(&together);
    /* Small blocks, too, after the drought. */
    for (size_t i = 0; i < 100; i++)
        lab_make(&self->block[i], 16 + i * 40);
    for (size_t i = 0; i < 100; i++)
        lab_drop(&self->block[i]);
}

static size_t draw(uint64_t *random) {
    if (!shape->even) return shape->least + lab_random(random) % (shape->most - shape->least);
    unsigned doublings = 0;
    while (shape->least << doublings < shape->most)
        doublings++;
    size_t base = shape->least << lab_random(random) % doublings;
    return base + lab_random(random) % base;
}

static size_t mean_size(void) {
    enum { DRAWS = 4096 };
    uint64_t random = 1, sum = 0;
    for (int i = 0; i < DRAWS; i++)
        sum += draw(&random);
    return sum / DRAWS;
}

static void churn(void *argument, int number) {
    (void)argument;
    worker_t *self = &workers[number];
    uint64_t random = (uint64_t)number;
    lab_pin(place_of[number]);
    size_t slots = goal / mean_size();
    REQUIRE(slots > 0);
    self->block = lab_map(slots * sizeof *self->block);
    for (size_t i = 0; i < slots * renewals; i++) {
        lab_block_t *block = &self->block[lab_random(&random) % slots];
        lab_drop(block);
        lab_make(block, draw(&random));
    }
}

static void write_setting(const char *path, const char *value) {
    int fd = open(path, O_WRONLY);
    REQUIRE(fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value));
    close(fd);
}

/* How much of it is not of files, and how much in huge pages. */
static void say_kinds(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[128];
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "Anon", 4) == 0) check_say("%s", line);
    fclose(file);
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(1);
    size_t mebibytes = argc > 2 ? (size_t)atoi(argv[2]) : 0;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0) place_of[places++] = i;
    workers = lab_map((size_t)places * sizeof *workers);
    REQUIRE(pthread_barrier_init(&together, NULL, (unsigned)places) == 0);
    if (argc > 2 && strcmp(argv[1], "churn") == 0) {
        for (size_t i = 0; argc > 3 && i < NA_COUNT(shapes); i++)
            if (strcmp(argv[3], shapes[i].name) == 0) shape = &shapes[i];
        if (argc > 4) places = atoi(argv[4]) < places ? atoi(argv[4]) : places;
        renewals = argc > 5 ? (unsigned)atoi(argv[5]) : shape->renewals;
        goal = (mebibytes << 20) / (size_t)places;
        lab_team(places, churn, NULL);
        check_say("resident at the end: %llu MiB\n", (unsigned long long)lab_rss() >> 20);
        say_kinds();
        return lab_status(check_status());
    }
    if (argc > 2 && strcmp(argv[1], "address") == 0) {
        struct rlimit limit = {mebibytes << 20, mebibytes << 20};
        REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    } else if (argc == 2 && strcmp(argv[1], "overcommit") == 0) {
        write_setting("/proc/sys/vm/overcommit_memory", "2");
    } else {
        check_say("usage: %s address MIB | overcommit | churn MIB\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < places; i++)
        workers[i].block = lab_map(MOST * sizeof *workers[i].block);
    lab_team(places, exhaust, NULL);
    if (argc == 2) write_setting("/proc/sys/vm/overcommit_memory", "0");
    size_t all = 0;
    for (int i = 0; i < places; i++) {
        CHECK_MSG(workers[i].count < MOST && workers[i].error == ENOMEM,
                  "thread %d was given %zu blocks and then error %d", i, workers[i].count,
                  workers[i].error);
        all += workers[i].count * BLOCK;
    }
    check_say("given before ENOMEM: %zu MiB\n", all >> 20);
    CHECK(all > (mebibytes << 20) / 4 && all > 0);
    return lab_status(check_status());
}
