/* misuse_lists.c - what a wrong call did to the allocator's lists is named where the list ends, or
 * by the next slow path that looks at the block, without any option: one line on stderr, then
 * SIGABRT, or with NUMALLOC_ABORT=0 the program goes on. Each case runs in a process of its own.
 * And malloc_usable_size of what is no live block: named once, and the program goes on. */
#include "support/check.h"
#include "support/child.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char in_data[64] __attribute__((aligned(64)));
enum { MANY = 400 };
static void *blocks[MANY];

static void *get(size_t size) {
    char *block = check_opaque(malloc(size));
    REQUIRE(block != NULL);
    memset(block, 0x41, size < 64 ? size : 64);
    return block;
}

static void get_many(size_t size) {
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = get(size);
}

static void free_many(size_t first) {
    for (size_t i = first; i < MANY; i++)
        free(blocks[i]);
}

static void free_twice(void *block) {
    free(check_opaque(block));
}

static void *free_it(void *block) {
    free(block);
    return NULL;
}

static void free_by_another(void *block) {
    pthread_t id;
    REQUIRE(pthread_create(&id, NULL, free_it, check_opaque(block)) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
}

/* --- each of these does something wrong, and goes on as any program does --- */

/* Where a free block's link is. */
static void *link_in(void *block) {
    return (char *)check_opaque(block) + 8;
}

/* The bin's last block, which leads nowhere, is made to lead on: seen when the bin is dry. */
static void write_link(size_t size) {
    for (size_t i = 0; i < MANY; i++) {
        void *block = get(size), *link, *target = in_data;
        free(check_opaque(block));
        memcpy(&link, link_in(block), sizeof link);
        if (link == NULL) {
            memcpy(link_in(block), &target, sizeof target);
            break;
        }
        blocks[i] = get(size);
    }
    get_many(size);
}

/* A block in the middle of what goes home leads nowhere: the list is too short. */
static void write_end(size_t size) {
    get_many(size);
    free_many(0);
    size_t i = MANY - 3; /* with more than one block behind it: a list may be one short */
    for (void *next;
         (next = *(void **)link_in(blocks[i])) == NULL || *(void **)link_in(next) == NULL;)
        i--;
    memset(link_in(blocks[i]), 0, 8);
    malloc_trim(0);
}

/* And one in the middle of a bin that goes on to be filled; or it leads to what is no memory. */
static void write_in_bin(size_t size, uintptr_t target) {
    get_many(size);
    for (size_t i = 0; i < MANY; i++) {
        free(blocks[i]);
        if (i % 8 == 3) memcpy(link_in(blocks[i - 2]), &target, sizeof target);
    }
    malloc_trim(0);
}

static void write_end_in_bin(size_t size) {
    write_in_bin(size, 0);
}

static void write_wild_in_bin(size_t size) {
    write_in_bin(size, 0x4141414141414140);
}

/* And here back to one in front of it: it is a circle. */
static void write_circle(size_t size) {
    get_many(size);
    free_many(0);
    memcpy(link_in(blocks[MANY - 9]), &blocks[MANY - 1], sizeof blocks[0]);
    malloc_trim(0);
}

/* In front of it are blocks of other spans. */
static void write_skip(size_t size) {
    get_many(size);
    free_many(0);
    memcpy(link_in(blocks[MANY - 2]), &blocks[MANY - 100], sizeof blocks[0]);
    malloc_trim(0);
}

static void twice_in_one_bin(size_t size) {
    get_many(size);
    for (int round = 0; round < 3; round++) {
        free(blocks[0]);
        free(blocks[1]);
        free_twice(blocks[0]);
        free_many(2);
        get_many(size);
    }
}

static void twice_by_two(size_t size) {
    for (int round = 0; round < 50; round++) {
        get_many(size);
        free_by_another(blocks[MANY / 2]);
        free_many(0);
    }
}

/* The block is handed out where it was freed, again and again: some slow path has it at hand. */
static void middle_8(size_t size) {
    char *block = get(size);
    free(check_opaque(block + 8));
    for (size_t round = 0; round < 2000; round++) {
        size_t n = 1 + round * 37 % 97;
        for (size_t i = 0; i < n; i++)
            blocks[i] = malloc(size);
        for (size_t i = 0; i < n; i++)
            free(blocks[i]);
    }
}

/* Where no block begins in the page it is said at once, so it is not handed out. */
static void free_at(size_t size, size_t offset) {
    char *block = get(size);
    free(check_opaque(block + offset));
    (void)!write(STDOUT_FILENO, "not at once\n", 12);
}
static void middle_page(size_t size) {
    free_at(size, 8192);
}
static void middle_last(size_t size) {
    free_at(size, size - 8192 + 16);
}

/* realloc to a large block takes its time: it finds what the thread has freed, then or long ago. */
static void resize_freed(size_t size) {
    get_many(size);
    free_many(MANY - 30);
    void *block = realloc(check_opaque(blocks[MANY - 20]), 300000);
    (void)!write(STDOUT_FILENO, "not at once\n", 12);
    free(block);
}
static void resize_freed_first(size_t size) {
    get_many(size);
    free_many(0);
    (void)!realloc(check_opaque(blocks[MANY / 2]), 300000);
    (void)!write(STDOUT_FILENO, "not at once\n", 12);
}

typedef struct wrong {
    const char *name;
    void (*run)(size_t size);
    size_t size;
    const char *said; /* in the line, before the address; NULL: one of `lists` */
} wrong_t;

#define LIST_ENDS  " its list ends at 0x"
#define LIST_GOES  " its list goes on to 0x"
#define FREE_OF    ": free of 0x"
#define REALLOC_OF ": realloc of freed 0x"
static const char *const lists[] = {LIST_GOES, LIST_ENDS, ": double free of 0x",
                                    ": a freed block was written to, and now links to 0x"};

static const wrong_t cases[] = {
    {"link-20000", write_link, 20000, LIST_GOES},
    {"end-40", write_end, 40, LIST_ENDS},
    {"end-20000", write_end, 20000, LIST_ENDS},
    {"end-in-40", write_end_in_bin, 40, NULL},
    {"end-in-3000", write_end_in_bin, 3000, NULL},
    {"end-in-20000", write_end_in_bin, 20000, NULL},
    {"wild-in-40", write_wild_in_bin, 40, NULL},
    {"wild-in-3000", write_wild_in_bin, 3000, NULL},
    {"wild-in-20000", write_wild_in_bin, 20000, NULL},
    {"circle-40", write_circle, 40, NULL},
    {"circle-3000", write_circle, 3000, NULL},
    {"skip-40", write_skip, 40, NULL},
    {"skip-3000", write_skip, 3000, NULL},
    {"bin-20000", twice_in_one_bin, 20000, NULL},
    {"two-20000", twice_by_two, 20000, NULL},
    {"two-5000", twice_by_two, 5000, NULL},
    {"middle-8", middle_8, 40, FREE_OF},
    {"middle-page", middle_page, 20000, FREE_OF},
    {"middle-last", middle_last, 32768 - 8192, FREE_OF},
    {"resize-40", resize_freed, 40, REALLOC_OF},
    {"resize-1000", resize_freed, 1000, REALLOC_OF},
    {"resize-first-40", resize_freed_first, 40, REALLOC_OF},
};

static int hurry(void *context) {
    (void)context;
    alarm(100);
    return 0;
}

static bool begins_right(const child_result_t *result, const wrong_t *one) {
    size_t n = strcspn(result->err, "\n");
    bool known = false;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const char *said = strstr(result->err, one->said != NULL ? one->said : lists[i]);
        known |= said != NULL && (size_t)(said - result->err) < n;
    }
    return strncmp(result->err, "numalloc: ", 10) == 0 && result->err[n] == '\n' && known;
}

static void expect(const wrong_t *one) {
    child_result_t result;
    child_run_self(&result, one->name, NULL, NULL, hurry, NULL);
    size_t n = strcspn(result.err, "\n");
    CHECK_MSG(child_killed_by(&result, SIGABRT) && begins_right(&result, one) &&
                  result.err[n + 1] == '\0' && result.out[0] == '\0',
              "%s: status %#x, stderr: %s, stdout: %s", one->name, (unsigned)result.status,
              result.err, result.out);
    const char *const going_on[] = {"NUMALLOC_ABORT=0", NULL};
    child_run_self(&result, one->name, NULL, going_on, hurry, NULL);
    CHECK_MSG(begins_right(&result, one), "%s, NUMALLOC_ABORT=0: status %#x, stderr: %s", one->name,
              (unsigned)result.status, result.err);
}

/* --- malloc_usable_size --- */

static void ask(void) {
    void *small = get(40), *other = get(40);
    char *large = get(300000);
    free(check_opaque(small));
    size_t was = malloc_usable_size(check_opaque(small));
    free(check_opaque(large));
    size_t none = malloc_usable_size(check_opaque(large));
    size_t middle_of = malloc_usable_size(check_opaque((char *)other + 16));
    CHECK_MSG(was == 48 && none == 0 && middle_of == 0, "%zu, %zu, %zu", was, none, middle_of);
    free(other);
}

static void expect_ask(const char *setting, bool ends_it) {
    child_result_t result;
    const char *const env[] = {setting, NULL};
    child_run_self(&result, "ask", NULL, env, hurry, NULL);
    size_t n = strcspn(result.err, "\n");
    bool one = strncmp(result.err, "numalloc: malloc_usable_size of 0x", 34) == 0 &&
               result.err[n] == '\n' && result.err[n + 1] == '\0';
    CHECK_MSG(one && (ends_it ? child_killed_by(&result, SIGABRT) : child_exited(&result, 0)),
              "malloc_usable_size, %s: status %#x, stderr: %s", setting, (unsigned)result.status,
              result.err);
}

/* A block of another allocator's, of which a program with two may ask: not ours, and no word. */
static void expect_no_word(const char *setting) {
    child_result_t result;
    const char *const env[] = {setting, NULL};
    child_run_self(&result, "ask-others", NULL, env, hurry, NULL);
    CHECK_MSG(child_exited(&result, 0) && result.err[0] == '\0',
              "malloc_usable_size of another's, %s: status %#x, stderr: %s", setting,
              (unsigned)result.status, result.err);
}

static void ask_others(void) {
    char *others = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(others != MAP_FAILED);
    CHECK(malloc_usable_size(check_opaque(others)) == 0);
    CHECK(malloc_usable_size(check_opaque(others + 4160)) == 0);
}

/* --- a file for the line that nobody reads: the process ends all the same --- */

static void expect_no_wait(void) {
    char directory[] = "/tmp/misuse-XXXXXX", setting[128];
    REQUIRE(mkdtemp(directory) != NULL);
    snprintf(setting, sizeof setting, "NUMALLOC_MISUSE_FILE=%s/pipe", directory);
    const char *path = strchr(setting, '=') + 1;
    REQUIRE(mkfifo(path, 0600) == 0);
    child_result_t result;
    const char *const env[] = {setting, NULL};
    child_run_self(&result, "middle-page", NULL, env, hurry, NULL);
    CHECK_MSG(child_killed_by(&result, SIGABRT) &&
                  strncmp(result.err, "numalloc: free of", 17) == 0,
              "%s: status %#x, stderr: %s", setting, (unsigned)result.status, result.err);
    unlink(path);
    rmdir(directory);
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1 && strcmp(argv[1], "ask") == 0) {
        ask();
        return check_status();
    }
    if (argc > 1 && strcmp(argv[1], "ask-others") == 0) {
        ask_others();
        return check_status();
    }
    if (argc > 1) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            if (strcmp(argv[1], cases[i].name) == 0) cases[i].run(cases[i].size);
        return 0;
    }
    if (!check_is_ours())
        check_skip("NA_TEST_LIB is not set: other allocators do not promise this");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(&cases[i]);
    expect_ask("NUMALLOC_ABORT=1", false);
    expect_ask("NUMALLOC_CHECK=1", true);
    expect_ask("NUMALLOC_HARDEN=1", true);
    static const char *const settings[] = {"NUMALLOC_ABORT=1", "NUMALLOC_CHECK=1",
                                           "NUMALLOC_HARDEN=1", "NUMALLOC_HARDEN=2"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        expect_no_word(settings[i]);
    expect_no_wait();
    return check_status();
}
