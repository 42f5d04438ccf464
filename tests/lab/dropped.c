/* dropped.c - a rule that does not pay is taken out while the program runs: threads of nodes 0, 1
 * and 3 read the blocks of one site, which a rule by hand puts on another node; the control's lie
 * on node 0. numalloc-dump policy --follow drops the rule, says so in the file, and blocks that
 * come then lie on node 0:
 *
 *     lab-dropped SOURCE
 *
 * TRUTH_LIB is the library, MENDED_DUMP numalloc-dump. If there are too few samples the test is
 * skipped, and says so. */
#include "followed.h"
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/access_source.h"

#define POLICY  "/tmp/dropped.policy"
#define PROFILE "/tmp/dropped.nprof"

enum {
    CELLS = 512,
    VALUES = 6,
    AFTER = 200,
    LOOK_MS = 200,
    MOST_MS = 60000,
    TAKEN_MS = 6000,
    THREADS = 3,
    NODE = 2
};

/* --- the program under the rule --- */

typedef struct cell {
    struct cell *next;
    uint64_t values[VALUES];
} cell_t;

static cell_t *cells;
static volatile uint64_t sink;
static atomic_bool over;

/* The site. */
__attribute__((noinline, noclone, noipa)) static cell_t *new_cell(void) {
    cell_t *cell = malloc(sizeof *cell);
    REQUIRE(cell != NULL);
    memset(cell, 1, sizeof *cell);
    return cell;
}

static void look_through(void *unused, int number) {
    (void)unused;
    lab_pin(number < NODE ? number : number + 1);
    while (!atomic_load(&over)) {
        uint64_t sum = 0;
        for (int pass = 0; pass < 20; pass++)
            for (volatile cell_t *cell = cells; cell != NULL; cell = cell->next)
                for (int i = 0; i < VALUES; i++)
                    sum += cell->values[i];
        sink += sum;
        if (number == 0) {
            char next;
            if (read(0, &next, 1) == 0) atomic_store(&over, true);
        }
        lab_sleep_ms(20);
    }
}

/* Writes the share of new blocks on the first thread's node to descriptor 3, in per cent. */
static int run_program(void) {
    lab_begin(THREADS + 1);
    lab_pin(0);
    lab_sleep_ms(20);
    for (int i = 0; i < CELLS; i++) {
        cell_t *cell = new_cell();
        cell->next = cells;
        cells = cell;
    }
    lab_team(THREADS, look_through, NULL);
    lab_pin(0);
    for (int i = 0; i < TAKEN_MS / LOOK_MS; i++) { /* who allocates looks at the file */
        lab_sleep_ms(LOOK_MS);
        for (int k = 0; k < 1000; k++)
            free(new_cell());
    }
    lab_block_t block = {.size = sizeof *cells};
    lab_pages_t pages = {0};
    for (int i = 0; i < AFTER; i++) {
        block.start = (unsigned char *)new_cell();
        if (i >= AFTER / 2) lab_judge(&block, 1, false, &pages);
    }
    dprintf(3, "%lu\n", (unsigned long)(100 * pages.on[0] / pages.total));
    return lab_status(check_status());
}

/* --- the follower, and who looks --- */

static void write_wrong_rule(void) {
    FILE *to = fopen(POLICY, "w");
    REQUIRE(to != NULL);
    fprintf(to, "numalloc policy 1\nprogram any\nsite new_cell : place=node %d, control=1/4\n",
            lab_node[NODE].id);
    REQUIRE(fclose(to) == 0);
}

static pid_t start_program(const char *source, int *in, int *out) {
    int input[2], output[2];
    REQUIRE(pipe2(input, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0);
    REQUIRE(fcntl(input[0], F_SETFL, O_NONBLOCK) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        if (dup2(input[0], 0) < 0 || dup2(output[1], 3) < 0) _exit(125);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("TRUTH_LIB"), 1);
        setenv("NUMALLOC_POLICY", POLICY, 1);
        access_from(source);
        setenv("NUMALLOC_PROFILE_FILE", PROFILE, 1);
        setenv("NUMALLOC_ACCESS_COST", "100", 1);
        execl("/proc/self/exe", "lab-dropped", source, "program", (char *)NULL);
        _exit(125);
    }
    close(input[0]);
    close(output[1]);
    *in = input[1];
    *out = output[0];
    return pid;
}

static bool file_says(const char *what) {
    static char text[1 << 16];
    FILE *from = fopen(POLICY, "r");
    REQUIRE(from != NULL);
    text[fread(text, 1, sizeof text - 1, from)] = 0;
    fclose(from);
    return strstr(text, what) != NULL;
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc >= 2);
    if (argc > 2) return run_program();
    REQUIRE(getenv("TRUTH_LIB") != NULL && getenv("MENDED_DUMP") != NULL);
    lab_begin(THREADS + 1);
    write_wrong_rule();
    int in, out, status;
    pid_t pid = start_program(argv[1], &in, &out);
    lab_sleep_ms(1000); /* its profile is there */
    uint64_t began = lab_now_ms(), dropped = 0;
    pid_t follower = followed_start(pid, POLICY);
    while (dropped == 0 && lab_now_ms() - began < MOST_MS) {
        lab_sleep_ms(LOOK_MS);
        if (file_says("\n# dropped: ")) dropped = lab_now_ms() - began;
    }
    kill(follower, SIGINT);
    status = followed_end_of(follower);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(in);
    char share[16] = "";
    CHECK(read(out, share, sizeof share - 1) > 0);
    status = followed_end_of(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_say("dropped after %lu ms; then %d %% of new blocks on node 0\n", (unsigned long)dropped,
              atoi(share));
    if (dropped == 0) check_skip("too few samples on this machine");
    CHECK(!file_says("\nsite new_cell"));
    CHECK(atoi(share) == 100);
    return lab_status(check_status());
}
