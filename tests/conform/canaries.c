/* canaries.c - blocks that were drawn and are not guarded lie between canaries (NUMALLOC_GUARD):
 * writes around them are found when they are freed, reallocated, or when the process ends, and
 * writes to freed ones when their memory is wanted again, or at the end. And where an earlier run
 * found an error, more blocks are guarded (NUMALLOC_GUARD_SITES).
 *
 * Each case runs in a process of its own in which every block is drawn, and the pages for guarded
 * blocks are taken. The child says on stdout which addresses it means. */
#include "support/check.h"
#include "support/child.h"
#include "support/report_words.h"

#include <glob.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>

#include "profiler/format/guard_file.h"
#include "profiler/guard/guard_state.h"

/* --- the child --- */

__attribute__((noinline)) static char *allocates(size_t size) {
    char *block = check_opaque(malloc(size));
    __asm__ volatile("" ::: "memory");
    return block;
}

__attribute__((noinline)) static void frees(void *block) {
    free(check_opaque(block));
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void writes(volatile char *at) {
    *at ^= 1;
    __asm__ volatile("" ::: "memory");
}

static void announce(const char *block, const char *address) {
    char line[256];
    int n = snprintf(line, sizeof line, "%#" PRIxPTR " %#" PRIxPTR " %#" PRIxPTR " %#" PRIxPTR "\n",
                     (uintptr_t)block, (uintptr_t)address, (uintptr_t)allocates, (uintptr_t)frees);
    if (write(STDOUT_FILENO, line, (size_t)n) != n) _exit(3);
}

/* There are fewer pages for guarded blocks than this. */
static void take_all_pages(void) {
    for (unsigned i = 0; i < 120; i++)
        *(volatile char *)allocates(60) = 1;
}

/* Its usable size is what was asked for, which no size class has. */
static char *get(size_t size) {
    take_all_pages();
    char *block = allocates(size);
    REQUIRE(block != NULL && malloc_usable_size(block) == size && (uintptr_t)block % 16 == 0);
    memset(block, 7, size);
    return block;
}

static void behind(size_t size) {
    char *block = get(size);
    announce(block, block + size);
    writes(block + size);
    frees(block);
}

static void further_behind(size_t size) {
    char *block = get(size);
    announce(block, block + size + 9);
    writes(block + size + 9);
    frees(block);
}

static void in_front(size_t size) {
    char *block = get(size);
    announce(block, block - 1);
    writes(block - 1);
    frees(block);
}

static void then_realloc(size_t size) {
    char *block = get(size);
    announce(block, block + size);
    writes(block + size);
    block = check_opaque(realloc(block, size + 100));
    frees(block);
}

static void *frees_it(void *block) {
    frees(block);
    return NULL;
}

static void by_other_thread(size_t size) {
    char *block = get(size);
    announce(block, block + size);
    writes(block + size);
    pthread_t id;
    REQUIRE(pthread_create(&id, NULL, frees_it, block) == 0 && pthread_join(id, NULL) == 0);
}

static void at_the_end(size_t size) {
    char *block = get(size);
    announce(block, block + size);
    writes(block + size);
}

/* So much is allocated, and freed, that a freed block's memory is wanted again. */
static void use_up(size_t size) {
    for (unsigned i = 0; i < 4000; i++)
        frees(allocates(size));
}

static void freed_write(size_t size) {
    char *block = get(size);
    frees(block);
    announce(block, block + 5);
    writes(block + 5);
    use_up(size);
}

static void freed_write_last(size_t size) {
    char *block = get(size);
    frees(block);
    announce(block, block + size - 1);
    writes(block + size - 1);
}

static void twice(size_t size) {
    char *block = get(size);
    frees(block);
    announce(block, block);
    frees(block);
}

static void middle(size_t size) {
    char *block = get(size);
    announce(block, block + 16);
    frees(block + 16);
}

/* The child of a fork has its parent's blocks. */
static void in_child(size_t size) {
    char *block = get(size);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        announce(block, block + size);
        writes(block + size);
        frees(block);
        _exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    frees(block);
    if (WIFSIGNALED(status)) raise(WTERMSIG(status));
}

/* Nothing to complain of: all sizes and alignments, kept and freed in many orders. */
static void well(size_t unused) {
    (void)unused;
    enum { KEPT = 4000 };
    static struct {
        unsigned char *block;
        size_t size;
    } kept[KEPT];
    take_all_pages();
    uint64_t x = 88172645463325252u;
    for (unsigned i = 0; i < 120000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        unsigned at = (unsigned)(x % KEPT);
        if (kept[at].block != NULL) {
            REQUIRE(kept[at].block[0] == (unsigned char)at &&
                    kept[at].block[kept[at].size - 1] == (unsigned char)at);
            frees(kept[at].block);
        }
        size_t size = (x >> 40) % 64 != 0 ? 1 + (x >> 20) % 300 : 1 + (x >> 20) % 33000;
        size_t alignment = (size_t)16 << (x >> 50) % 4;
        bool aligned = (x >> 60) == 0;
        kept[at].size = size;
        kept[at].block = aligned ? aligned_alloc(alignment, size) : (void *)allocates(size);
        REQUIRE(kept[at].block != NULL &&
                (uintptr_t)kept[at].block % (aligned ? alignment : 16) == 0);
        memset(kept[at].block, (int)at, malloc_usable_size(kept[at].block));
    }
}

/* recover: each is said once, and the program goes on. */
static void recovers(size_t size) {
    char *over = get(size), *late = get(size), *again = get(size);
    writes(over + size);
    frees(over);
    frees(late);
    writes(late);
    use_up(size);
    frees(again);
    frees(again);
}

/* --- two call sites --- */

static void *kept_by_a[20000], *kept_by_b[20000];

__attribute__((noinline)) static char *site_a(size_t size) {
    char *block = check_opaque(malloc(size));
    __asm__ volatile("" ::: "memory");
    return block;
}

__attribute__((noinline)) static char *site_b(size_t size) {
    char *block = check_opaque(malloc(size));
    __asm__ volatile("" ::: "memory");
    return block;
}

/* Blocks that are never freed, by both sites in turn, in a fifth of a second at least: what may be
 * drawn and guarded is so many blocks a second, so where the machine is busy and this takes longer,
 * more are. `wrong`: an error in one of site_a's. */
__attribute__((noinline)) static void two_sites(size_t wrong) {
    char *last = NULL;
    for (unsigned i = 0; i < 20000; i++) {
        kept_by_a[i] = last = site_a(90);
        kept_by_b[i] = site_b(90);
        if (wrong && i == 1000) break;
        if (i % 1000 == 0) usleep(10000);
    }
    if (!wrong) return;
    if (malloc_usable_size(last) != 90) _exit(4);
    writes(last + 95);
    frees(last);
}

/* --- the cases --- */

static const struct test {
    const char *name;
    void (*run)(size_t size);
    const char *headline; /* support/report_words.h */
    bool freed;
    int ends; /* with this signal; -n: with exit status n */
} tests[] = {
    {"behind", behind, "overflow: 1 byte written behind the end of a block of %S at %B", false,
     SIGABRT},
    {"further_behind", further_behind,
     "overflow: 10 bytes written behind the end of a block of %S at %B", false, SIGABRT},
    {"in_front", in_front, "underflow: 1 byte written before a block of %S at %B", false, SIGABRT},
    {"then_realloc", then_realloc, "overflow: 1 byte written behind the end of a block of %S at %B",
     false, SIGABRT},
    {"by_other_thread", by_other_thread,
     "overflow: 1 byte written behind the end of a block of %S at %B", false, SIGABRT},
    {"at_the_end", at_the_end, "overflow: 1 byte written behind the end of a block of %S at %B",
     false, 0},
    {"freed_write", freed_write,
     "use after free: written to %A, %D into a block of %S at %B; 1 byte changed since it was "
     "freed",
     true, SIGABRT},
    {"freed_write_last", freed_write_last,
     "use after free: written to %A, %D into a block of %S at %B; 1 byte changed since "
     "it was freed",
     true, 0},
    {"twice", twice, "double free of %A, at the beginning of a block of %S at %B", true, SIGABRT},
    {"middle", middle,
     "free of an address that is no block's of %A, 16 bytes into a block of %S at %B", false,
     SIGABRT},
    {"in_child", in_child, "overflow: 1 byte written behind the end of a block of %S at %B", false,
     SIGABRT},
    {"well", well, NULL, false, 0},
};
enum { TESTS = sizeof tests / sizeof tests[0] };

static char directory[] = "/tmp/conform-canaries.XXXXXX";

static int to_directory(void *unused) {
    (void)unused;
    return chdir(directory);
}

#define fail(format, ...)                                                                          \
    do {                                                                                           \
        check_say("canaries.c:%d: " format "\n", __LINE__, __VA_ARGS__);                           \
        check_count_failure();                                                                     \
    } while (0)

typedef struct facts {
    report_facts_t of;
    uintptr_t allocates, frees;
} facts_t;

/* Below this line of the report is a frame of the function. */
static bool names(const char *report, const char *line, uintptr_t function) {
    const char *at = strstr(report, line);
    for (at = at != NULL ? strchr(at, '\n') : NULL; at != NULL; at = strchr(at + 1, '\n')) {
        uintptr_t pc;
        if (sscanf(at + 1, "numalloc:   #%*u %" SCNxPTR, &pc) != 1) return false;
        if (pc - function < 200) return true;
    }
    return false;
}

static void check(const struct test *t, const char *size, const char *const env[]) {
    child_result_t result;
    child_run_self(&result, t->name, size, env, to_directory, NULL);
    bool ended = t->ends > 0 ? child_killed_by(&result, t->ends) : child_exited(&result, -t->ends);
    if (!ended) fail("%s of %s: ended with %#x: %s", t->name, size, result.status, result.err);
    if (t->headline == NULL) {
        if (result.err[0] != 0) fail("%s: said %s", t->name, result.err);
        return;
    }
    facts_t f;
    char words[512], headline[544];
    if (sscanf(result.out, "%" SCNxPTR " %" SCNxPTR " %" SCNxPTR " %" SCNxPTR, &f.of.block,
               &f.of.address, &f.allocates, &f.frees) != 4) {
        fail("%s of %s: the child said '%s' and '%s'", t->name, size, result.out, result.err);
        return;
    }
    f.of.size = strtoul(size, NULL, 10);
    report_expand(words, sizeof words, t->headline, &f.of);
    snprintf(headline, sizeof headline, "numalloc: %s\n", words);
    if (strncmp(result.err, headline, strlen(headline)) != 0)
        fail("%s of %s: said '%s', expected '%s'", t->name, size, result.err, headline);
    if (!names(result.err, "numalloc: allocated by malloc, by thread", f.allocates))
        fail("%s of %s: no allocation stack: %s", t->name, size, result.err);
    if (t->freed && !names(result.err, "numalloc: freed by free, by thread", f.frees))
        fail("%s of %s: no stack of the free: %s", t->name, size, result.err);
    if (strstr(result.err, "numalloc: numalloc-dump errors ") == NULL)
        fail("%s of %s: no file: %s", t->name, size, result.err);
}

static unsigned times(const char *text, const char *what) {
    unsigned n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

static void check_recovery(void) {
    static const char *const env[] = {"NUMALLOC_GUARD=recover", "NUMALLOC_GUARD_EACH=1", NULL};
    child_result_t result;
    child_run_self(&result, "recovers", "77", env, to_directory, NULL);
    if (!child_exited(&result, 0)) fail("recover: ended with %#x: %s", result.status, result.err);
    if (times(result.err, "written behind the end") != 1 ||
        times(result.err, "use after free: written to") != 1 ||
        times(result.err, "double free of ") != 1)
        fail("recover: said %s", result.err);
}

/* Of all sites of a run. The first blocks of every site are guarded. */
enum { FIRST_OF_A_SITE = 4 };
typedef struct sites {
    unsigned known;                /* sites that an earlier run knew */
    unsigned drawn, guarded;       /* blocks of those */
    unsigned others, others_eager; /* others that blocks were drawn of beyond the first; of them,
                                    * those with more than half guarded, or half of all room */
} sites_t;

static void read_sites(const char *pattern, sites_t *sites) {
    glob_t found;
    na_gf_head_t head;
    REQUIRE(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    int fd = open(found.gl_pathv[0], O_RDONLY);
    REQUIRE(fd >= 0 && read(fd, &head, sizeof head) == sizeof head);
    *sites = (sites_t){0};
    for (uint32_t i = 0; i < head.parts[NA_GF_SITES].count; i++) {
        na_gf_site_t site;
        off_t at = (off_t)(head.parts[NA_GF_SITES].offset + i * sizeof site);
        REQUIRE(pread(fd, &site, sizeof site, at) == sizeof site);
        if (site.known != 0) {
            sites->known++;
            sites->drawn += site.drawn;
            sites->guarded += site.guarded;
        } else if (site.drawn > FIRST_OF_A_SITE) {
            sites->others++;
            sites->others_eager +=
                site.guarded > FIRST_OF_A_SITE &&
                (2 * site.guarded > site.drawn || 2 * site.guarded > NA_GUARD_LIVE);
        }
    }
    close(fd);
    globfree(&found);
}

static void check_known_sites(void) {
    char earlier[96], control[96], later[96], sites[96], pattern[96];
    snprintf(earlier, sizeof earlier, "NUMALLOC_GUARD_FILE=%s/earlier-%%p", directory);
    snprintf(control, sizeof control, "NUMALLOC_GUARD_FILE=%s/control-%%p", directory);
    snprintf(later, sizeof later, "NUMALLOC_GUARD_FILE=%s/later-%%p", directory);
    snprintf(sites, sizeof sites, "NUMALLOC_GUARD_SITES=%s", directory);
    const char *const first[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=1", earlier, NULL};
    const char *const without[] = {"NUMALLOC_GUARD=1", "NUMALLOC_SAMPLE_SEED=7", control, NULL};
    const char *const with[] = {"NUMALLOC_GUARD=1", "NUMALLOC_SAMPLE_SEED=7", later, sites, NULL};
    sites_t s;
    child_result_t result;
    child_run_self(&result, "two_sites", "1", first, NULL, NULL);
    CHECK(child_killed_by(&result, SIGABRT) && strstr(result.err, "overflow: 6 bytes") != NULL);
    child_run_self(&result, "two_sites", "0", without, NULL, NULL);
    CHECK(child_exited(&result, 0) && result.err[0] == 0);
    snprintf(pattern, sizeof pattern, "%s/control-*", directory);
    read_sites(pattern, &s);
    if (s.known != 0 || s.others < 2 || s.others_eager != 0)
        fail("control: %u known sites; %u others, %u of them with too much", s.known, s.others,
             s.others_eager);
    child_run_self(&result, "two_sites", "0", with, NULL, NULL);
    CHECK(child_exited(&result, 0) && result.err[0] == 0);
    snprintf(pattern, sizeof pattern, "%s/later-*", directory);
    read_sites(pattern, &s);
    /* Of the known one each is guarded that was drawn, until there is hardly room. */
    if (s.known != 1 || s.guarded < 12 ||
        (s.guarded < s.drawn && 4 * s.guarded < 3 * NA_GUARD_LIVE) || s.others_eager != 0)
        fail("later: %u known sites with %u of %u guarded; %u others with too much", s.known,
             s.guarded, s.drawn, s.others_eager);

    /* A file alone will do; what is none is said, and the program runs. */
    snprintf(sites, sizeof sites, "NUMALLOC_GUARD_SITES=%s", child_self());
    child_run_self(&result, "two_sites", "0", with, NULL, NULL);
    CHECK(child_exited(&result, 0) && strstr(result.err, "it is no file of errors") != NULL);
    snprintf(sites, sizeof sites, "NUMALLOC_GUARD_SITES=/nonexistent/errors");
    child_run_self(&result, "two_sites", "0", with, NULL, NULL);
    CHECK(child_exited(&result, 0) && strstr(result.err, "it cannot be read (error 2)") != NULL);
}

int main(int argc, char **argv) {
    check_begin();
    if (argc == 3) {
        size_t size = (size_t)strtoul(argv[2], NULL, 10);
        if (strcmp(argv[1], "recovers") == 0) recovers(size);
        if (strcmp(argv[1], "two_sites") == 0) two_sites(size);
        for (unsigned i = 0; i < TESTS; i++)
            if (strcmp(argv[1], tests[i].name) == 0) tests[i].run(size);
        return check_status();
    }
    REQUIRE(mkdtemp(directory) != NULL);
    static const char *const alone[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=1", NULL};
    static const char *const sampled[] = {
        "NUMALLOC_GUARD=1",           "NUMALLOC_GUARD_EACH=1",         "NUMALLOC_PROFILE=sample",
        "NUMALLOC_SAMPLE_INTERVAL=1", "NUMALLOC_PROFILE_FILE=profile", NULL};
    static const char *const sizes[] = {"41", "1003", "20001"};
    for (unsigned i = 0; i < TESTS; i++) {
        for (unsigned s = 0; s < (tests[i].headline != NULL ? 3 : 1); s++)
            check(&tests[i], sizes[s], alone);
        check(&tests[i], sizes[0], sampled);
    }
    check_recovery();
    check_known_sites();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    REQUIRE(system(command) == 0);
    return check_status();
}
