/* misuse.c - what a program does wrong is named: one line on stderr, "numalloc: ", with the
 * address; then SIGABRT, or with NUMALLOC_ABORT=0 no effect. With NUMALLOC_CHECK=1 at once;
 * without, at once where the address is in no live block or is the block that was freed last, and
 * at the latest at the thread's next slow path otherwise: then, and only then, the line ends with
 * what would have found it at once. Each case runs in a process of its own. A program without fault
 * prints nothing. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

static char in_data[64] __attribute__((aligned(64)));

/* The child says on stdout what address it is about to misuse, and after it that it still lives. */
static void announce(const void *address) {
    char line[64];
    int n = snprintf(line, sizeof line, "%#" PRIxPTR "\n", (uintptr_t)address);
    if (write(STDOUT_FILENO, line, (size_t)n) != n) _exit(3);
}

static void bad_free(void *address) {
    announce(address);
    free(check_opaque(address));
}

static void twice(size_t size, size_t unused) {
    (void)unused;
    void *block = check_opaque(malloc(size));
    void *other = check_opaque(malloc(size)); /* the block's span stays in use */
    free(check_opaque(block));
    bad_free(block);
    free(other);
}

static void twice_with_another_between(size_t size, size_t unused) {
    (void)unused;
    void *a = check_opaque(malloc(size));
    void *b = check_opaque(malloc(size));
    void *c = check_opaque(malloc(size));
    free(check_opaque(a));
    free(b);
    bad_free(a);
    free(c);
}

static void *free_it(void *block) {
    free(block);
    return NULL;
}

static void twice_in_two_threads(size_t size, size_t unused) {
    (void)unused;
    pthread_t id;
    void *block = check_opaque(malloc(size));
    void *other = check_opaque(malloc(size));
    REQUIRE(pthread_create(&id, NULL, free_it, check_opaque(block)) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
    bad_free(block);
    free(other);
}

static void middle(size_t size, size_t offset) {
    char *block = check_opaque(malloc(size));
    REQUIRE(block != NULL);
    bad_free(block + offset);
    free(block);
}

/* Beside a live block, in the allocator's own memory, but never a block's address. */
static void never_given(size_t size, size_t at) {
    (void)size, (void)at;
    char *page = check_opaque(aligned_alloc(65536, 65536));
    REQUIRE(page != NULL);
    bad_free((char *)((uintptr_t)page + ((size_t)1 << 20) * 40 + 4096));
    free(page);
}

static void mapping(size_t size, size_t at) {
    (void)size, (void)at;
    char *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    memset(page, 0x41, 65536);
    bad_free(page + 4096);
}

static void on_stack(size_t size, size_t at) {
    (void)size, (void)at;
    char local[256] __attribute__((aligned(64)));
    memset(local, 0x41, sizeof local);
    bad_free(local + 64);
}

static void at_address(size_t size, size_t at) {
    (void)size;
    bad_free((void *)(uintptr_t)at);
}

static void in_static(size_t size, size_t at) {
    (void)size, (void)at;
    bad_free(in_data);
}

static void in_code(size_t size, size_t at) {
    (void)size, (void)at;
    bad_free((void *)(uintptr_t)in_code);
}

static void resize_freed(size_t size, size_t unused) {
    (void)unused;
    void *block = check_opaque(malloc(size));
    void *other = check_opaque(malloc(size));
    free(check_opaque(block));
    announce(block);
    void *moved = check_opaque(realloc(check_opaque(block), size * 3));
    (void)moved;
    free(other);
}

static void resize_static(size_t size, size_t at) {
    (void)size, (void)at;
    announce(in_data);
    void *moved = check_opaque(realloc(check_opaque(in_data), 500));
    (void)moved;
}

#ifndef NA_PREFIXED
__attribute__((weak)) void free_sized(void *block, size_t size); /* C23 */
#endif

/* A sized free or delete that names another size than was asked for. */
static void sized_free(size_t asked, size_t named) {
    void *block = check_opaque(malloc(asked));
    announce(block);
    free_sized(check_opaque(block), named);
}

/* The same by operators. A build for sanitizers has none of ours: there it is sized_free again. */
static void delete_by(const char *new_name, const char *delete_name, size_t asked, size_t named) {
    void *(*operator_new)(size_t size);
    void (*operator_delete)(void *block, size_t size);
    *(void **)&operator_new = dlsym(RTLD_DEFAULT, new_name);
    *(void **)&operator_delete = dlsym(RTLD_DEFAULT, delete_name);
    if (operator_new == NULL || operator_delete == NULL) {
        sized_free(asked, named);
        return;
    }
    operator_delete(check_opaque(operator_new(asked)), asked); /* is right */
    operator_delete(NULL, asked);
    void *block = check_opaque(operator_new(asked));
    announce(block);
    operator_delete(check_opaque(block), named);
}

static void sized_delete(size_t asked, size_t named) {
    delete_by("_Znwm", "_ZdlPvm", asked, named);
}

static void sized_delete_array(size_t asked, size_t named) {
    delete_by("_Znam", "_ZdaPvm", asked, named);
}

/* When a case must be found: always at once, with NUMALLOC_CHECK=1 at once and otherwise by the
 * next slow path, or with NUMALLOC_CHECK=1 only. */
typedef enum when { ALWAYS, SOON, CHECKED } when_t;

typedef struct misuse {
    const char *name;
    when_t when;
    void (*run)(size_t size, size_t at); /* `at`: an offset, or the size that is named */
    size_t size, at;
} misuse_t;

static const misuse_t cases[] = {
    {"stack", ALWAYS, on_stack, 0, 0},
    {"static", ALWAYS, in_static, 0, 0},
    {"code", ALWAYS, in_code, 0, 0},
    {"mapping", ALWAYS, mapping, 0, 0},
    {"unmapped", ALWAYS, at_address, 0, 0x7654321000},
    {"kernel", ALWAYS, at_address, 0, 0xffff888000001000},
    {"low", ALWAYS, at_address, 0, 0x40},
    {"large-middle", ALWAYS, middle, 200000, 65536},
    {"huge-middle", ALWAYS, middle, (size_t)20 << 20, (size_t)1 << 20},
    {"large-twice", ALWAYS, twice, 200000, 0},
    {"huge-twice", ALWAYS, twice, (size_t)20 << 20, 0},
    {"resize-static", ALWAYS, resize_static, 0, 0},
    {"never-given", ALWAYS, never_given, 0, 0},
    {"middle-24", SOON, middle, 24, 16},
    {"middle-512", SOON, middle, 512, 64},
    {"middle-odd", SOON, middle, 100, 3},
    {"twice-24", ALWAYS, twice, 24, 0},
    {"twice-512", ALWAYS, twice, 512, 0},
    {"twice-5000", ALWAYS, twice, 5000, 0},
    {"between-24", SOON, twice_with_another_between, 24, 0},
    {"between-512", SOON, twice_with_another_between, 512, 0},
    {"threads-24", CHECKED, twice_in_two_threads, 24, 0},
    {"threads-512", CHECKED, twice_in_two_threads, 512, 0},
    {"resize-freed", CHECKED, resize_freed, 512, 0},
    {"sized-small", CHECKED, sized_free, 40, 4000},
    {"sized-same-class", CHECKED, sized_free, 40, 41},
    {"sized-large", CHECKED, sized_free, 200000, 200001},
    {"sized-huge", CHECKED, sized_free, (size_t)20 << 20, (size_t)10 << 20},
    {"sized-delete", CHECKED, sized_delete, 40, 24},
    {"sized-delete-array", CHECKED, sized_delete_array, 40, 24},
};

static void misuse(const char *name) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(name, cases[i].name) == 0) cases[i].run(cases[i].size, cases[i].at);
}

/* Enough frees and allocations of every small size to spend any credit: slow paths come by. */
static void slow_paths(void) {
    static const size_t sizes[] = {24, 100, 512, 5000};
    static void *blocks[1200];
    for (size_t s = 0; s < 4; s++) {
        for (size_t i = 0; i < 1200; i++)
            blocks[i] = check_opaque(malloc(sizes[s]));
        for (size_t i = 0; i < 1200; i++)
            free(blocks[i]);
    }
}

/* One line that begins with "numalloc: " and names the address. */
static bool names(const child_result_t *result) {
    char address[32];
    size_t n = strcspn(result->out, "\n");
    if (n == 0 || n >= sizeof address) return false;
    memcpy(address, result->out, n);
    address[n] = '\0';
    const char *end = strchr(result->err, '\n');
    const char *found = strstr(result->err, address);
    return strncmp(result->err, "numalloc: ", 10) == 0 && end != NULL && end[1] == '\0' &&
           found != NULL && strchr("0123456789abcdef", found[strlen(address)]) == NULL;
}

/* What is known of the address ends the first line, and behind it comes the hint, if the misuse was
 * found later than it was made. */
static bool ends_right(const child_result_t *result, bool late) {
    static const char hint[] = "; NUMALLOC_CHECK=1 finds it where it happens";
    static const char *const known[] = {" (never given out, or already freed)",
                                        ": it lies between blocks that numalloc has given out"};
    size_t n = strcspn(result->err, "\n"), m = sizeof hint - 1;
    if (result->err[n] != '\n') return false;
    bool hints = n >= m && memcmp(result->err + n - m, hint, m) == 0;
    if (hints != late) return false;
    if (hints) n -= m;
    for (unsigned i = 0; i < 2; i++) {
        m = strlen(known[i]);
        if (n >= m && memcmp(result->err + n - m, known[i], m) == 0) return true;
    }
    while (n > 0 && result->err[n - 1] >= '0' && result->err[n - 1] <= '9')
        n--;
    static const char node[] = ", node ";
    m = sizeof node - 1;
    return n >= m && memcmp(result->err + n - m, node, m) == 0;
}

static bool lived_on(const child_result_t *result) {
    return strstr(result->out, "alive") != NULL;
}

/* A case that hangs is a failure; there are many cases. */
static int hurry(void *context) {
    (void)context;
    alarm(100);
    return 0;
}

static void expect(const misuse_t *one, bool checked) {
    child_result_t result;
    const char *const aborting[] = {checked ? "NUMALLOC_CHECK=1" : "NUMALLOC_CHECK=0", NULL};
    const char *const going_on[] = {aborting[0], "NUMALLOC_ABORT=0", NULL};
    bool at_once = checked || one->when == ALWAYS;
    const char *how = checked ? "checked" : "unchecked";
    child_run_self(&result, one->name, at_once ? "once" : "later", aborting, hurry, NULL);
    CHECK_MSG(child_killed_by(&result, SIGABRT) && names(&result) &&
                  ends_right(&result, !at_once) && (!at_once || !lived_on(&result)),
              "%s, %s: status %#x, stderr: %s, stdout: %s", one->name, how, (unsigned)result.status,
              result.err, result.out);
    child_run_self(&result, one->name, at_once ? "once" : "later", going_on, hurry, NULL);
    /* Where the misuse is not found at once, it may be found again and again. */
    bool named = (at_once ? names(&result) : strncmp(result.err, "numalloc: ", 10) == 0) &&
                 ends_right(&result, !at_once);
    CHECK_MSG(child_exited(&result, 0) && named && lived_on(&result),
              "%s, %s, NUMALLOC_ABORT=0: status %#x, stderr: %s, stdout: %s", one->name, how,
              (unsigned)result.status, result.err, result.out);
}

static void *faultless(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    void *blocks[200] = {NULL};
    size_t sizes[200] = {0};
    for (int i = 0; i < 50000; i++) {
        size_t at = (size_t)(fill_random(&random) % 200);
        size_t size = fill_random_size(&random, i % 100 == 0 ? 20 : 12);
        switch (fill_random(&random) % 4) {
        case 0:
            blocks[at] = realloc(blocks[at], size);
            break;
        case 1:
            free_sized(blocks[at], sizes[at]);
            blocks[at] = aligned_alloc((size_t)16 << size % 10, size);
            break;
        default:
            free(blocks[at]);
            blocks[at] = malloc(size);
            break;
        }
        REQUIRE(blocks[at] != NULL);
        sizes[at] = size;
        /* Any contents, also such as freed blocks have: links, zeros, the block's own address. */
        memset(blocks[at], i % 3 == 0 ? 0 : 0xFF, size);
        if (size >= 16 && i % 3 == 1) memcpy(blocks[at], &blocks[at], sizeof blocks[at]);
    }
    for (size_t i = 0; i < 200; i++)
        free(blocks[i]);
    return NULL;
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1 && strcmp(argv[1], "faultless") == 0) {
        pthread_t ids[3];
        for (size_t i = 0; i < 3; i++)
            REQUIRE(pthread_create(&ids[i], NULL, faultless, (void *)i) == 0);
        for (size_t i = 0; i < 3; i++)
            pthread_join(ids[i], NULL);
        return 0;
    }
    if (argc > 2) {
        misuse(argv[1]);
        if (strcmp(argv[2], "later") == 0) malloc_trim(0); /* a slow path, of all sizes */
        if (write(STDOUT_FILENO, "alive\n", 6) != 6) return 3;
        slow_paths();
        faultless(NULL);
        return 0;
    }
    if (!check_is_ours())
        check_skip("NA_TEST_LIB is not set: other allocators do not promise this");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(&cases[i], true);
        if (cases[i].when != CHECKED) expect(&cases[i], false);
    }
    static const char *const settings[] = {"NUMALLOC_CHECK=0", "NUMALLOC_CHECK=1"};
    for (size_t i = 0; i < 2; i++) {
        const char *const env[] = {settings[i], NULL};
        child_result_t result;
        child_run_self(&result, "faultless", NULL, env, NULL, NULL);
        CHECK_MSG(child_exited(&result, 0) && result.err[0] == '\0', "%s: status %#x, stderr: %s",
                  settings[i], (unsigned)result.status, result.err);
    }
    return check_status();
}
