/* policy_threads.c - threads allocate at ruled sites while libraries with such sites are opened and
 * bound, rules come and go, and somebody asks what they did. Every block is verified, and freed by
 * any thread. The program is for ThreadSanitizer above all.
 *
 * With entry points of their own (NA_PREFIXED) also: readings of what was there before cost no
 * memory, and those of what is new a little each.
 *
 * Its rules are read when it starts: so it writes them, and starts again under them.
 * Arguments: [seconds [move]]; 2 otherwise. With `move`, on a machine with nodes 0 and 1, under
 * NUMALLOC_POLICY_MOVE and a profile: the mover looks for large blocks meanwhile. (It moves them
 * where the library is preloaded. In a program that holds the library, stacks begin in there, and
 * no rule means them.) */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "numalloc/numalloc.h"
#include "support/alloc_api.h"

#ifdef NA_PREFIXED /* what dlopen does, and what the statistics and the profile ask for */
#include "alloc/core/sys/reserve.h"
#include "profiler/policy/bind/policy_tree.h"
#include "profiler/policy/policy.h"
#include "profiler/policy/policy_report.h"
#endif

enum { WORKERS = 4, COPIES = 8, SITES = 7, MOVED_SITE = 3, SLOTS = 64, LASTING = 32 };

static const char *const names[SITES] = {"policy_site_local",     "policy_site_lines",
                                         "policy_site_long",      "policy_site_aligned",
                                         "policy_site_first_way", "policy_site_second_way",
                                         "policy_site_by_no_rule"};

typedef void *site_t(size_t size);
typedef struct copy {
    site_t *sites[SITES];
} copy_t;

static copy_t copies[COPIES];
static _Atomic(unsigned) opened;
static _Atomic(bool) over;
static bool moves;
static _Atomic(uint64_t) made;

typedef struct block {
    size_t size;
    uint64_t seed;
    unsigned char *at;
} block_t;
static _Atomic(block_t *) slots[SLOTS];
static _Atomic(block_t *) lasting[LASTING]; /* large ones, for some seconds each */

static void drop(block_t *b) {
    if (b == NULL) return;
    CHECK_MSG(fill_holds(b->at, b->size, b->seed), "%zu bytes", b->size);
    free(b->at);
    free(b);
}

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        const copy_t *copy = &copies[fill_random(&random) % atomic_load(&opened)];
        uint64_t site = fill_random(&random) % SITES;
        block_t *b = malloc(sizeof *b);
        REQUIRE(b != NULL);
        b->seed = fill_random(&random);
        b->size = fill_random_size(&random, b->seed % 64 == 0 ? 20 : 9);
        bool lasts = moves && site == MOVED_SITE && b->seed % 64 == 1;
        if (lasts) b->size += 1 << 17;
        b->at = copy->sites[site](b->size);
        REQUIRE(b->at != NULL);
        if (site == 1) CHECK(fill_is_zero(b->at, b->size));
        fill_block(b->at, b->size, b->seed);
        _Atomic(block_t *) *slot =
            lasts ? &lasting[fill_random(&random) % LASTING] : &slots[fill_random(&random) % SLOTS];
        drop(atomic_exchange(slot, b));
        atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    }
    return NULL;
}

static char folder[512];

static void copy_file(const char *from, const char *to) {
    static char bytes[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    REQUIRE(in >= 0 && out >= 0);
    ssize_t n;
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        REQUIRE(write(out, bytes, (size_t)n) == n);
    REQUIRE(n == 0 && close(in) == 0 && close(out) == 0);
}

/* Another copy is another module, with sites of its own. */
static void open_next(void) {
    unsigned number = atomic_load(&opened);
    char path[600];
    snprintf(path, sizeof path, "%s/copy%u.so", folder, number);
    copy_file(POLICY_LIBRARY, path);
    void *handle = dlopen(path, RTLD_NOW);
    if (handle == NULL) check_say("%s\n", dlerror());
    REQUIRE(handle != NULL);
    for (unsigned i = 0; i < SITES; i++) {
        *(void **)&copies[number].sites[i] = dlsym(handle, names[i]);
        REQUIRE(copies[number].sites[i] != NULL);
    }
#ifdef NA_PREFIXED
    na_policy_bind_opened();
#endif
    void *ruled = copies[number].sites[0](40), *plain = copies[number].sites[6](40);
    /* (The mover may be binding just now, and take longer than one waits for it.) */
    CHECK_MSG(moves || numalloc_heap_of(ruled) != NULL, "copy %u is not ruled", number);
    CHECK(numalloc_heap_of(plain) == NULL);
    free(ruled);
    free(plain);
    atomic_store(&opened, number + 1);
}

static void *ask(void *argument) {
    (void)argument;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
#ifdef NA_PREFIXED
        static na_nprof_policy_t policy;
        static na_nprof_rule_t rules[SITES];
        if (na_policy_report(&policy)) na_policy_report_rules(rules, SITES);
#endif
        for (unsigned i = 0; i < SLOTS; i++) {
            block_t *b = atomic_exchange(&slots[i], NULL);
            if (b == NULL) continue;
            (void)numalloc_heap_of(b->at);
#ifdef NA_PREFIXED
            (void)na_policy_ruled(b->at);
#endif
            drop(b);
        }
        proc_sleep_ms(5);
    }
    return NULL;
}

/* --- rules that come and go --- */

/* In each the rule of policy_site_local, which open_next looks at. */
static const char *const variants[] = {
    "group pair : life=long, control=off\n"
    "site policy_site_lines : lines=own, control=1/2\n"
    "site policy_site_long : life=long, control=1/4\n"
    "site policy_site_aligned : place=first-touch, control=off\n"
    "site by_two_ways < policy_site_first_way : group=pair\n",
    "site policy_site_lines : lines=own, control=1/2\n",
    "site policy_site_lines : reserve=200\n"
    "site by_two_ways < policy_site_first_way : place=local\n"
    "site by_two_ways < policy_site_second_way : lines=own\n",
    "site policy_site_long : life=short\nsite by_two_ways : life=short, control=1/2\n",
    "site policy_site_long : garbage\n",
};
enum { VARIANTS = sizeof variants / sizeof *variants };
static const char *const moving[] = {"site policy_site_aligned : place=node 0, control=off\n",
                                     "site policy_site_aligned : place=node 1, control=off\n"};

static void put(const char *rules) {
    char from[600], to[600];
    snprintf(from, sizeof from, "%s/policy.new", folder);
    snprintf(to, sizeof to, "%s/policy", folder);
    FILE *out = fopen(from, "w");
    REQUIRE(out != NULL);
    fprintf(out,
            "numalloc policy 1\nprogram any\nsite policy_site_local : place=local, "
            "control=off\n%s",
            rules);
    REQUIRE(fclose(out) == 0 && rename(from, to) == 0);
}

static void *change(void *argument) {
    (void)argument;
    for (unsigned i = 1; !atomic_load_explicit(&over, memory_order_relaxed); i++) {
        put(moves ? moving[i % 2] : variants[i % VARIANTS]);
#ifdef NA_PREFIXED
        na_policy_look(); /* sees it, */
        na_policy_look(); /* and takes it */
        proc_sleep_ms(moves ? 600 : 3);
#else
        proc_sleep_ms(100); /* others look */
#endif
    }
    return NULL;
}

#ifdef NA_PREFIXED
static uint64_t memory(void) {
    return na_policy_tree_bytes() + na_meta_bytes();
}

static void read_again(const char *rules) {
    static na_nprof_policy_t policy;
    REQUIRE(na_policy_report(&policy));
    uint32_t before = policy.readings;
    put(rules);
    na_policy_look();
    na_policy_look();
    REQUIRE(na_policy_report(&policy));
    CHECK(policy.readings == before + 1);
}

/* `times`: a thousand at night. */
static void read_again_and_again(int times) {
    for (int i = 0; i < 4; i++)
        read_again(variants[i]);
    uint64_t before = memory();
    for (int i = 0; i < times; i++)
        read_again(variants[i % 4]);
    CHECK_MSG(memory() == before, "%llu bytes more for what was there before",
              (unsigned long long)(memory() - before));
    for (int i = 0; i < times; i++) {
        char rules[100];
        snprintf(rules, sizeof rules, "site policy_site_lines : reserve=%d\n", 1000 + i);
        read_again(rules);
    }
    uint64_t more = memory() - before;
    check_say("%d readings with a new rule each: %llu bytes\n", times, (unsigned long long)more);
    enum { PART = 1 << 18 }; /* metadata is mapped by more than what is asked for */
    CHECK_MSG(more < (uint64_t)times * 2500 + PART, "%llu bytes for %d new rules",
              (unsigned long long)more, times);
}
#endif

static void begin_again(char **arguments) {
    const char *where = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/policy_threads.XXXXXX", where != NULL ? where : "/tmp");
    REQUIRE(mkdtemp(folder) != NULL);
    put(moves ? moving[0] : variants[0]);
    char path[600];
    snprintf(path, sizeof path, "%s/policy", folder);
    REQUIRE(setenv("NUMALLOC_POLICY", path, 1) == 0);
    execv("/proc/self/exe", arguments);
    REQUIRE(false);
}

static void tidy(void) {
    char path[600];
    for (unsigned i = 0; i < COPIES; i++) {
        snprintf(path, sizeof path, "%s/copy%u.so", folder, i);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/policy", folder);
    unlink(path);
    strcat(path, ".new");
    unlink(path);
    rmdir(folder);
}

int main(int argc, char **argv) {
    check_begin();
#ifndef __x86_64__
    check_skip("calls are found by name on x86-64");
#endif
    moves = argc > 2 && strcmp(argv[2], "move") == 0;
    const char *policy = getenv("NUMALLOC_POLICY");
    if (policy == NULL) begin_again(argv);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(policy, '/') - policy), policy);
    long end = proc_now_ms() + 1000 * (argc > 1 ? atol(argv[1]) : 2);
    open_next();
    pthread_t threads[WORKERS + 2];
    for (uintptr_t i = 0; i < WORKERS + 2; i++) {
        void *(*run)(void *) = i == WORKERS ? ask : i == WORKERS + 1 ? change : work;
        REQUIRE(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    }
    while (proc_now_ms() < end) {
        if (atomic_load(&opened) < COPIES) open_next();
        proc_sleep_ms(20);
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < WORKERS + 2; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < SLOTS; i++)
        drop(atomic_exchange(&slots[i], NULL));
    for (unsigned i = 0; i < LASTING; i++)
        drop(atomic_exchange(&lasting[i], NULL));
    CHECK(atomic_load(&opened) > 2);
    CHECK(atomic_load(&made) > 1000);
#ifdef NA_PREFIXED
    if (!moves) read_again_and_again(argc > 1 && atoi(argv[1]) >= 30 ? 1000 : 50);
#endif
    tidy();
    return check_status();
}
