/* deepbind.c - a library loaded with RTLD_DEEPBIND prefers the C library's own malloc to the
 * preloaded one, unless dlopen ignores the flag: then all blocks are of one heap, whoever makes and
 * frees them. dlopen must stay what it was otherwise: it searches by the RUNPATH of the library
 * that calls it.
 *
 * With NUMALLOC_DEEPBIND=1 what the library makes and frees itself, and what it makes and is freed
 * or resized here, must work. What is made here (or by the C library on the library's behalf:
 * strdup) and freed there goes to the C library's free without passing by us: nobody can make that
 * work, and the C library must at least say so at once ("free(): invalid pointer") and not go on
 * with a damaged heap. Each crossing runs in a process of its own. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

typedef void *make_t(size_t);
typedef void give_t(void *);
typedef char *copy_t(const char *);
typedef bool open_t(const char *);

static make_t *theirs_make;
static give_t *theirs_give;
static copy_t *theirs_copy;
static open_t *theirs_open;

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    REQUIRE(found != NULL);
    return found;
}

static void load(void) {
    void *library = dlopen(DEEP_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == NULL) {
        check_say("%s\n", dlerror());
        _exit(1);
    }
    void *make = symbol(library, "deep_make");
    void *give = symbol(library, "deep_give");
    void *copy = symbol(library, "deep_copy");
    void *open = symbol(library, "deep_open");
    memcpy(&theirs_make, &make, sizeof make);
    memcpy(&theirs_give, &give, sizeof give);
    memcpy(&theirs_copy, &copy, sizeof copy);
    memcpy(&theirs_open, &open, sizeof open);
}

static const size_t sizes[] = {1, 24, 100, 1000, 5000, 40000, 300000, 3000000};

static void cross(make_t *make, give_t *give) {
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *blocks[20];
            for (size_t n = 0; n < 20; n++) {
                blocks[n] = make(sizes[i]);
                REQUIRE(blocks[n] != NULL);
                fill_block(blocks[n], sizes[i], n);
            }
            for (size_t n = 0; n < 20; n++) {
                CHECK(fill_holds(blocks[n], sizes[i], n));
                give(blocks[n]);
            }
        }
}

static int run(const char *crossing) {
    load();
    if (strcmp(crossing, "theirs") == 0) cross(theirs_make, theirs_give);
    if (strcmp(crossing, "here") == 0) cross(theirs_make, free);
    if (strcmp(crossing, "there") == 0) cross(malloc, theirs_give);
    if (strcmp(crossing, "copied") == 0)
        for (int i = 0; i < 100; i++)
            theirs_give(theirs_copy("a string that the C library copies"));
    if (strcmp(crossing, "resized") == 0)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *block = theirs_make(sizes[i]);
            REQUIRE(block != NULL);
            fill_block(block, sizes[i], i);
            block = realloc(block, sizes[i] * 2);
            REQUIRE(block != NULL);
            CHECK(fill_holds(block, sizes[i] & ~(size_t)7, i));
            free(block);
        }
    /* The other library lies where the first one's RUNPATH says, and only there. */
    if (strcmp(crossing, "opened") == 0) {
        CHECK(dlopen(OTHER_LIBRARY, RTLD_NOW) == NULL);
        CHECK_MSG(theirs_open(OTHER_LIBRARY), "%s", dlerror());
    }
    return check_status();
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1) return run(argv[1]);
    static const char *const all[] = {"theirs", "here", "resized", "there", "copied", "opened"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        child_result_t result;
        child_run_self(&result, all[i], NULL, NULL, NULL, NULL);
        child_expect_ok(&result, all[i]);
    }
    static const char *const heed[] = {"NUMALLOC_DEEPBIND=1", NULL};
    static const char *const work[] = {"theirs", "here", "resized", "opened"};
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++) {
        child_result_t result;
        child_run_self(&result, work[i], NULL, heed, NULL, NULL);
        child_expect_ok(&result, work[i]);
    }
    static const char *const refused[] = {"there", "copied"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        child_result_t result;
        child_run_self(&result, refused[i], NULL, heed, NULL, NULL);
        if (!check_is_ours()) /* one heap only: it works */
            child_expect_ok(&result, refused[i]);
        else
            CHECK_MSG(
                child_killed_by(&result, SIGABRT) && strstr(result.err, "invalid pointer") != NULL,
                "%s: status %#x, stderr: %s", refused[i], (unsigned)result.status, result.err);
    }
    return check_status();
}
