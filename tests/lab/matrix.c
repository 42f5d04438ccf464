/* matrix.c - a matrix of who accesses whose memory, known to the last access: a thread on each
 * node, and a block on each; each pair has its own number of passes over the block. Prints where
 * blocks lie, and of each pair the loads and stores that were made:
 *
 *     block NODE ADDRESS BYTES
 *     cell FROM HOME LOADS STORES
 *
 * Preloaded with the library, blocks are placed by it. tests/lab/ibs/matrix compares. */
#include "lab.h"

#include <sys/prctl.h>

enum { BYTES = 1 << 20, LINE = 64, STORE_EVERY = 4, MOST = 8, BEGIN_MS = 1000 };

static lab_block_t block[MOST];
static pthread_barrier_t together;
static int places;
static unsigned rounds = 1;

/* Passes in one round; a pair has none. */
static unsigned passes(int from, int home) {
    return (unsigned)(from * 5 + home * 3 + from * home) % 11;
}

static __attribute__((noinline)) void pass(volatile uint64_t *words) {
    enum { STEP = LINE / 8, WORDS = BYTES / 8 };
    for (uint32_t i = 0; i < WORDS; i += STEP * STORE_EVERY) {
        (void)words[i];
        (void)words[i + STEP];
        (void)words[i + 2 * STEP];
        (void)words[i + 3 * STEP];
        words[i + STEP] = i;
    }
}

static void work(void *unused, int number) {
    (void)unused;
    lab_pin(number);
    lab_make(&block[number], BYTES);
    lab_sleep_ms(BEGIN_MS); /* whoever samples this process has begun */
    pthread_barrier_wait(&together);
    for (unsigned r = 0; r < rounds; r++)
        for (int home = 0; home < places; home++)
            for (unsigned p = passes(number, home); p-- > 0;)
                pass((volatile uint64_t *)(void *)block[home].start);
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(2);
    /* Pages stay where they are until they are judged; and none is part of two blocks, as huge ones
     * are where the C library's mappings adjoin. */
    lab_no_balancing();
    REQUIRE(prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL) == 0);
    if (argc > 1) rounds = (unsigned)strtoul(argv[1], NULL, 10);
    places = lab_nodes < MOST ? lab_nodes : MOST;
    REQUIRE(pthread_barrier_init(&together, NULL, (unsigned)places) == 0);
    lab_team(places, work, NULL);
    for (int home = 0; home < places; home++) {
        lab_pages_t pages = {0};
        lab_judge(&block[home], 1, false, &pages);
        CHECK(pages.on[home] == pages.total && pages.total >= BYTES / 4096);
        printf("block %d %p %d\n", lab_node[home].id, (void *)block[home].start, BYTES);
        for (int from = 0; from < places; from++) {
            uint64_t lines = (uint64_t)rounds * passes(from, home) * (BYTES / LINE);
            printf("cell %d %d %llu %llu\n", lab_node[from].id, lab_node[home].id,
                   (unsigned long long)lines, (unsigned long long)lines / STORE_EVERY);
        }
    }
    return lab_status(check_status());
}
