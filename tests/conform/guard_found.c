/* guard_found.c - NUMALLOC_GUARD=1 at its usual rate: how long it takes until an error is found,
 * and whether the chance that is said of it is right.
 *
 * The program that errs allocates 10,000 blocks a second by 24 call sites, of as many sizes, and
 * has 2,000 of them live. So many times a second it reads a block of one of these sites after it
 * was freed. It runs until it dies of that. Its file of errors then says how many of the site's
 * blocks were guarded, of how many that it allocated: the chance p. If that is right, the number of
 * wrong reads up to the one that is found is geometric, and lies within the 95 % of that
 * distribution in the middle in 95 % of runs.
 *
 *   conform-guard_found RUNS AT-ONCE WRONG-READS-A-SECOND [FIRST-SEED]
 *
 * Time is the machine's: nothing is faster here than in the program that it stands for. On a
 * machine that is too busy for so many programs it is slower: what counts is the number of wrong
 * reads. */
#include "support/check.h"
#include "support/child.h"

#include <inttypes.h>
#include <math.h>
#include <sys/mman.h>
#include <time.h>

#include "profiler/format/guard_file.h"

enum {
    SITES = 24,
    WRONG = 11,
    LIVE = 2000,
    ALLOCATIONS = 10000,
    LONGEST_S = 900,
    RUNS_MOST = 1000
};

/* --- the program that errs --- */

typedef struct life {
    _Atomic(uint32_t) wrong_reads;
    _Atomic(uint64_t) of_site; /* allocations by the site that errs */
    double seconds;            /* the parent's: until it died */
    int status;
} life_t;

static size_t size_of(unsigned site) {
    return 24 + site * 40;
}

/* So deep a stack is a call site of its own. */
__attribute__((noinline)) static char *allocate(unsigned depth, size_t size) {
    char *block = depth == 0 ? malloc(size) : allocate(depth - 1, size);
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

static char *by_site(unsigned site) {
    return allocate(site, size_of(site));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_until(double when) {
    struct timespec t = {(time_t)when, (long)(fmod(when, 1) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

static uint64_t next_random(uint64_t *x) {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

static void err(life_t *life, unsigned seed, double reads_a_second) {
    enum { TICKS = 200 }; /* a second */
    static char *live[LIVE];
    uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    double start = now();
    for (uint64_t tick = 1; tick < (uint64_t)LONGEST_S * TICKS; tick++) {
        for (unsigned i = 0; i < ALLOCATIONS / TICKS; i++) {
            unsigned slot = (unsigned)(next_random(&random) % LIVE);
            unsigned site = (unsigned)(random >> 32) % SITES;
            char *block = by_site(site);
            life->of_site += site == WRONG;
            if (site == WRONG && reads_a_second * (double)tick / TICKS >= life->wrong_reads + 1) {
                life->wrong_reads++;
                free(block);
                (void)*(volatile char *)check_opaque(block);
                continue;
            }
            free(live[slot]);
            live[slot] = block;
        }
        sleep_until(start + (double)tick / TICKS);
    }
}

/* --- those who watch --- */

static char directory[] = "/tmp/conform-guard_found.XXXXXX";
static life_t *lives;
static int lives_fd;
static unsigned first_seed = 1; /* each run has its own, from this one on */

static void file_of(char *path, size_t room, unsigned run) {
    snprintf(path, room, "%s/%u", directory, run);
}

static pid_t begin(unsigned run, const char *reads_a_second) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid != 0) return pid;
    char path[96], seed[16], number[16], fd[16];
    file_of(path, sizeof path, run);
    snprintf(seed, sizeof seed, "%u", first_seed + run);
    snprintf(number, sizeof number, "%u", run);
    snprintf(fd, sizeof fd, "%d", lives_fd);
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDERR_FILENO);
    setenv("NUMALLOC_GUARD", "1", 1);
    setenv("NUMALLOC_GUARD_FILE", path, 1);
    setenv("NUMALLOC_SAMPLE_SEED", seed, 1);
    execl(child_self(), child_self(), "err", fd, number, reads_a_second, seed, (char *)NULL);
    _exit(127);
}

/* The site of the error: how many of its blocks were guarded, and of how many. */
static bool read_chance(unsigned run, double *guarded, double *estimated) {
    char path[96];
    na_gf_head_t head;
    na_gf_error_t error;
    file_of(path, sizeof path, run);
    int fd = open(path, O_RDONLY);
    bool good =
        fd >= 0 && pread(fd, &head, sizeof head, 0) == sizeof head && head.errors == 1 &&
        pread(fd, &error, sizeof error, (off_t)head.parts[NA_GF_ERRORS].offset) == sizeof error &&
        error.kind == NA_GF_USE_AFTER_FREE && error.block.size == size_of(WRONG);
    bool found = false;
    for (uint32_t i = 0; good && !found && i < head.parts[NA_GF_SITES].count; i++) {
        na_gf_site_t site;
        off_t at = (off_t)(head.parts[NA_GF_SITES].offset + i * sizeof site);
        REQUIRE(pread(fd, &site, sizeof site, at) == sizeof site);
        found = site.hash != 0 && site.stack == error.block.alloc_stack;
        *guarded = site.guarded;
        *estimated = site.estimated;
    }
    if (fd >= 0) close(fd);
    return found;
}

static void watch(unsigned runs, unsigned at_once, const char *reads_a_second) {
    static pid_t pids[RUNS_MOST];
    static double started[RUNS_MOST];
    unsigned begun = 0, ended = 0;
    while (ended < runs) {
        while (begun < runs && begun - ended < at_once) {
            started[begun] = now();
            pids[begun] = begin(begun, reads_a_second);
            begun++;
        }
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        REQUIRE(pid > 0);
        for (unsigned i = 0; i < begun; i++) {
            if (pids[i] != pid) continue;
            lives[i].seconds = now() - started[i];
            lives[i].status = status;
            ended++;
        }
    }
}

int main(int argc, char **argv) {
    check_begin();
    if (argc == 6 && strcmp(argv[1], "err") == 0) {
        life_t *all = mmap(NULL, RUNS_MOST * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED,
                           atoi(argv[2]), 0);
        REQUIRE(all != MAP_FAILED);
        err(&all[atoi(argv[3])], (unsigned)atoi(argv[5]), atof(argv[4]));
        return 0;
    }
    REQUIRE(argc == 4 || argc == 5);
    if (!check_is_ours()) check_skip("NA_TEST_LIB is not set");
    unsigned runs = (unsigned)atoi(argv[1]), at_once = (unsigned)atoi(argv[2]);
    double reads_a_second = atof(argv[3]);
    if (argc == 5) first_seed = (unsigned)atoi(argv[4]);
    REQUIRE(runs > 0 && runs <= RUNS_MOST && at_once > 0 && reads_a_second > 0);
    lives_fd = memfd_create("lives", 0);
    REQUIRE(lives_fd >= 0 && ftruncate(lives_fd, RUNS_MOST * sizeof *lives) == 0);
    lives = mmap(NULL, RUNS_MOST * sizeof *lives, PROT_READ | PROT_WRITE, MAP_SHARED, lives_fd, 0);
    REQUIRE(lives != MAP_FAILED && mkdtemp(directory) != NULL);
    watch(runs, at_once, argv[3]);

    unsigned found = 0, within = 0;
    double seconds = 0, longest = 0, reads = 0, chances = 0, means = 0, real = 0;
    for (unsigned i = 0; i < runs; i++) {
        double guarded, estimated, n = lives[i].wrong_reads;
        if (!WIFSIGNALED(lives[i].status) || WTERMSIG(lives[i].status) != SIGSEGV ||
            !read_chance(i, &guarded, &estimated))
            continue;
        double p = guarded / estimated, missed = log1p(-p);
        /* The chance of fewer reads than these, and of no more. */
        double before = -expm1((n - 1) * missed), upto = -expm1(n * missed);
        found++;
        within += upto > 0.025 && before < 0.975;
        seconds += lives[i].seconds;
        if (lives[i].seconds > longest) longest = lives[i].seconds;
        reads += n;
        chances += p;
        means += n * p;
        real += estimated / (double)lives[i].of_site;
    }
    printf(
        "found in %u of %u runs; after %.1f s on average, %.1f s at most; after %.1f wrong reads, "
        "each with a chance of one in %.1f (so it is said), product %.2f; %u runs within 95 %%; "
        "the site's allocations: %.3f of the real number is said\n",
        found, runs, seconds / found, longest, reads / found, found / chances, means / found,
        within, real / found);
    /* 95 %, and what four standard deviations allow. */
    double least = 0.95 * found - 4 * sqrt(found * 0.95 * 0.05);
    CHECK_MSG(found == runs, "%u of %u", found, runs);
    CHECK_MSG(reads / found / reads_a_second < 60, "found after %.1f s of the program's",
              reads / found / reads_a_second);
    /* Who reads wrongly often is found before the interval between drawn blocks has settled. */
    if (reads_a_second <= 1)
        CHECK_MSG(within >= least, "%u of %u within, at least %.1f", within, found, least);
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", directory);
    REQUIRE(system(command) == 0);
    return check_status();
}
