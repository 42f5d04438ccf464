/* harden_links.c - hardened, a link that the program wrote into a freed block leads malloc nowhere,
 * in whichever list the block is and whatever else the library does meanwhile: at each level,
 * alone, under each mode of profile, guarded and with a policy. Nobody can tell which block comes
 * next. And blocks of no bytes may be many, on threads that have or had no other.
 *
 * Each attack is a process of its own. The forged link leads into a block that is live; it has
 * worked if that memory is given out. */
#include "support/check.h"
#include "support/child.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>

#include "numalloc/numalloc.h"

enum { STATUS_WORKED = 42, COUNT_MOST = 1500, EMPTY_BLOCKS = 40000 };

/* --- attacks --- */

static char *blocks[2 * COUNT_MOST], *victim;
static size_t size;
static unsigned count;
static numalloc_heap_t *heap;

static void check_apart(const char *block) {
    if (block < victim + size && victim < block + size) _exit(STATUS_WORKED);
}

/* By each function in turn. */
static char *take(unsigned number) {
    void *block = NULL;
    switch (heap != NULL ? 7 : number % 7) {
    case 0:
        block = calloc(1, size);
        break;
    case 1:
        block = realloc(NULL, size);
        break;
    case 2:
        block = aligned_alloc(16, size);
        break;
    case 3:
        if (posix_memalign(&block, 16, size) != 0) block = NULL;
        break;
    case 4:
        block = realloc(check_opaque(malloc(1)), size);
        break;
    case 7:
        block = numalloc_heap_malloc(heap, size);
        break;
    default:
        block = malloc(size);
    }
    REQUIRE(block != NULL);
    return check_opaque(block);
}

static void *free_all(void *unused) {
    for (unsigned i = 0; i < 2 * count; i += 2)
        free(check_opaque(blocks[i]));
    return unused;
}

static void free_by_another(void) {
    pthread_t id;
    REQUIRE(pthread_create(&id, NULL, free_all, NULL) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
}

/* `how`: where the freed blocks are then; `variant`: which word of one becomes what. */
static void attack(char how, unsigned place, unsigned variant) {
    if (how == 'h') REQUIRE((heap = numalloc_heap_create(NULL)) != NULL);
    for (unsigned i = 0; i < 2 * count; i++)
        blocks[i] = take(i);
    victim = blocks[1]; /* as all odd ones it is live */
    if (how == 'r')
        free_by_another();
    else
        free_all(NULL);
    if (how == 't') malloc_trim(0); /* they are in their spans, but for the last ones */
    uintptr_t to = (uintptr_t)victim + 16 * (variant & 1);
    memcpy((char *)check_opaque(blocks[2 * place]) + 4 * (variant & 2), &to, sizeof to);
    for (unsigned i = 0; i < count + 400; i++)
        check_apart(take(i));
}

/* --- predictions --- */

/* A block is freed, then as many of another size as let it wait no longer. How often it comes next,
 * of a hundred. */
static unsigned predicted(unsigned others) {
    static char *other[80];
    unsigned right = 0;
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 30; i++)
            blocks[i] = check_opaque(malloc(size));
        for (unsigned i = 0; i < others; i++)
            other[i] = check_opaque(malloc(2 * size));
        char *hole = blocks[10 + round % 20];
        free(hole);
        for (unsigned i = 0; i < others; i++)
            free(other[i]);
        right += check_opaque(malloc(size)) == hole;
    }
    return right;
}

/* By chance one of sixteen is right: of 1,200 there are 75, and 300 with a probability of less than
 * 1 to 10^100. */
static void count_predictions(void) {
    static const size_t sizes[] = {24, 64, 200, 1000};
    for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        unsigned right = 0;
        size = sizes[s];
        for (unsigned others = 64; others < 76; others++)
            right += predicted(others);
        CHECK_MSG(right < 300, "of 1200 next blocks of %zu bytes %u were foretold", size, right);
    }
}

/* --- blocks of no bytes --- */

static void *use_empty(void *how) {
    for (unsigned i = 0; i < EMPTY_BLOCKS; i++) {
        void *block = check_opaque(how == NULL ? malloc(0) : calloc(0, 8));
        REQUIRE(block != NULL);
        free(block);
    }
    return NULL;
}

static void use_empty_late(void *how) {
    (void)use_empty(how);
}

/* When other destructors have run, the thread has no thread cache any more. */
static pthread_key_t late_key;

static void use_empty_later(void *rounds) {
    static char more[4];
    if ((char *)rounds < more + 3)
        pthread_setspecific(late_key, (char *)rounds + 1);
    else
        use_empty_late(NULL);
}

static void *end_with_empty(void *first) {
    free(check_opaque(malloc(10)));
    pthread_setspecific(late_key, first);
    return NULL;
}

static void many_empty(void) {
    static char rounds;
    pthread_t id;
    (void)use_empty(NULL);
    for (unsigned i = 0; i < 3; i++) {
        REQUIRE(pthread_create(&id, NULL, i < 2 ? use_empty : end_with_empty,
                               i == 0 ? NULL : &rounds) == 0);
        REQUIRE(pthread_join(id, NULL) == 0);
    }
}

/* --- all --- */

static const char *const modes[] = {
    NULL,
    "NUMALLOC_PROFILE=sample",
    "NUMALLOC_PROFILE=sites",
    "NUMALLOC_PROFILE=trace",
    "NUMALLOC_PROFILE=sites,access=watch",
    "NUMALLOC_LEAKS=1",
    "NUMALLOC_GUARD=1",
    "NUMALLOC_POLICY=policy",
};
static const char *const levels[] = {"NUMALLOC_HARDEN=1", "NUMALLOC_HARDEN=2"};
static const unsigned counts[] = {3, 100, COUNT_MOST};
enum { MODES = sizeof modes / sizeof modes[0] };

static void run_attack(const char *level, const char *mode, const char *which) {
    static child_result_t result;
    const char *const env[] = {level, "NUMALLOC_PROFILE_FILE=profile",
                               "NUMALLOC_SAMPLE_INTERVAL=512", mode, NULL};
    child_run_self(&result, "attack", which, env, NULL, NULL);
    CHECK_MSG(!child_exited(&result, STATUS_WORKED), "%s %s: attack %s works", level,
              mode != NULL ? mode : "", which);
    CHECK_MSG(child_exited(&result, STATUS_WORKED) || child_exited(&result, 0) ||
                  child_killed_by(&result, SIGABRT),
              "%s %s: attack %s: status %d: %s", level, mode != NULL ? mode : "", which,
              result.status, result.err);
}

/* `which`: how, number of a count, place, what is written, and the size. */
static void run_attacks(unsigned each) {
    unsigned turn = 0;
    for (unsigned level = 0; level < 2; level++)
        for (unsigned mode = 0; mode < MODES; mode++)
            for (const char *how = "srth"; *how != '\0'; how++)
                for (unsigned c = 0; c < 3; c++)
                    for (unsigned place = 0; place < 3; place++) {
                        char which[32];
                        if (turn++ % each != 0) continue;
                        snprintf(which, sizeof which, "%c%u%u%u%u", *how, c, place, turn / each % 4,
                                 turn / each % 3 == 0   ? 48
                                 : turn / each % 3 == 1 ? 128
                                                        : 32);
                        run_attack(levels[level], modes[mode], which);
                    }
}

static void run_quiet(const char *level, const char *argument) {
    static child_result_t result;
    const char *const env[] = {level, NULL};
    child_run_self(&result, argument, NULL, env, NULL, NULL);
    child_expect_ok(&result, argument);
    CHECK_MSG(result.err[0] == '\0', "%s %s: %s", level, argument, result.err);
}

static void run_one(const char *which) {
    size = (size_t)strtoul(which + 4, NULL, 10);
    count = counts[which[1] - '0'];
    attack(which[0], (unsigned)(which[2] - '0') * (count - 1) / 2, (unsigned)(which[3] - '0'));
}

/* Of profiles, too. */
static void empty_directory(void) {
    DIR *all = opendir(".");
    REQUIRE(all != NULL);
    for (struct dirent *one; (one = readdir(all)) != NULL;)
        if (one->d_name[0] != '.') unlink(one->d_name);
    closedir(all);
}

int main(int argc, char **argv) {
    check_begin();
    if (!check_is_ours()) check_skip("NA_TEST_LIB is not set");
    const char *argument = argc > 1 ? argv[1] : "";
    if (argc == 3 && strcmp(argument, "attack") == 0) {
        run_one(argv[2]);
        return check_status();
    }
    if (strcmp(argument, "predictions") == 0) {
        count_predictions();
        return check_status();
    }
    if (strcmp(argument, "empty") == 0) {
        REQUIRE(pthread_key_create(&late_key, use_empty_later) == 0);
        many_empty();
        return check_status();
    }
    char directory[] = "/tmp/numalloc-harden_links-XXXXXX";
    REQUIRE(mkdtemp(directory) != NULL && chdir(directory) == 0);
    int fd = open("policy", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && write(fd, "numalloc policy 1\n", 18) == 18);
    close(fd);
    for (unsigned level = 0; level < 2; level++) {
        run_quiet(levels[level], "predictions");
        run_quiet(levels[level], "empty");
    }
    run_attacks(strcmp(argument, "every") == 0 ? 1 : 5);
    empty_directory();
    REQUIRE(chdir("/") == 0);
    CHECK(rmdir(directory) == 0);
    return check_status();
}
