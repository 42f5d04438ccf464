/* misuse_table.c - what is stopped of what a program can do wrong with its blocks: a table.
 *
 * A row is one kind of misuse, a cell of it one size of block (40 bytes, 20,000, 200,000, 5 MiB)
 * and one of three circumstances: by the thread that has the block, by another one, and after the
 * block was given out and freed a thousand times. Each cell runs in a process of its own, which
 * goes on for a while after it. The letter says how that ended:
 *
 *   N n   one line names it, and the process aborts: at once, or while it went on
 *   C c   the process crashes, at once or while it went on
 *   W     one line names it, and the process went on to the end: the call has changed nothing
 *   -     it went on to the end
 *   !     worse: memory was given out that was not free, or was never malloc's
 *   .     there is no such cell
 *   ?     it was not run
 *
 * The same program is run with the library by default, in its other modes, and without it, so with
 * the C library's malloc. With `all` as its argument it prints the table; else it compares the
 * modes of the library with what is expected (misuse_rows.h): with `every` as its argument all
 * cells, without one all by default and in the other modes those by the thread that has the block.
 * A cell that is expected to be * depends on where things happen to lie. With print-0, -1 or -2 it
 * prints the cells of one circumstance, with whatever malloc it runs on. */
#include "support/check.h"
#include "support/child.h"

#include <alloca.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

static const size_t sizes[] = {40, 20000, 200000, (size_t)5 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0], BY_SELF = 0, BY_OTHER, AFTER_REUSE, WAYS };

/* Shared with the process that runs the cell. */
typedef struct progress {
    _Atomic(bool) done;  /* the wrong calls have returned */
    _Atomic(bool) worse; /* memory was given out that must not be */
} progress_t;
static progress_t *progress;
static int way;
static char in_data[4096] __attribute__((aligned(64)));

static void *hide(const void *pointer) {
    void *hidden = (void *)(uintptr_t)pointer;
    __asm__ volatile("" : "+r"(hidden));
    return hidden;
}

/* --- what a cell is made of --- */

static void *get(size_t size) {
    char *block = hide(malloc(size));
    REQUIRE(block != NULL);
    memset(block, 0x41, size < 64 ? size : 64);
    if (size > 64) memset(block + size - 64, 0x41, 64);
    return block;
}

static size_t many(size_t size) {
    return size < 100000 ? 500 : 12;
}

static void *blocks[1000];

static void get_many(size_t size) {
    for (size_t i = 0; i < many(size); i++)
        blocks[i] = get(size);
}

static void free_many(size_t size) {
    for (size_t i = 0; i < many(size); i++)
        free(blocks[i]);
}

static void *call(void *argument) {
    void (*const *wrong)(void *) = argument;
    (*wrong)(((void **)argument)[1]);
    return NULL;
}

/* Calls it, in the thread that the cell is for. */
static void by(void (*wrong)(void *), void *block) {
    union {
        void (*wrong)(void *);
        void *word[2];
    } both = {.wrong = wrong};
    both.word[1] = block;
    if (way != BY_OTHER) {
        wrong(hide(block));
        return;
    }
    pthread_t id;
    REQUIRE(pthread_create(&id, NULL, call, both.word) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
}

static void free_it(void *block) {
    free(hide(block));
}

/* As any program does: blocks of the size, and of others, are used. None may lie in another. */
static void go_on(size_t size) {
    for (int round = 0; round < 3; round++) {
        get_many(size);
        for (size_t i = 1; i < many(size); i++)
            if (blocks[i] == blocks[i - 1] || (char *)blocks[i] == in_data) progress->worse = true;
        free_many(size);
        void *other = get(size * 2);
        free(get(size + 500));
        free(other);
    }
}

/* --- frees --- */

static void twice_at_once(size_t size) {
    void *block = get(size), *other = get(size);
    free(hide(block));
    by(free_it, block);
    free(other);
}

static void twice_first_by_another(size_t size) {
    void *block = get(size), *other = get(size);
    pthread_t id;
    union {
        void (*wrong)(void *);
        void *word[2];
    } both = {.wrong = free_it};
    both.word[1] = block;
    REQUIRE(pthread_create(&id, NULL, call, both.word) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
    by(free_it, block);
    free(other);
}

static void twice_between(size_t size) {
    void *a = get(size), *b = get(size), *c = get(size);
    free(hide(a));
    free(b);
    by(free_it, a);
    free(c);
}

static void twice_after_many(size_t size) {
    get_many(size);
    void *block = blocks[many(size) / 2], *other = get(size);
    free_many(size);
    by(free_it, block);
    free(other);
}

static void twice_after_span(size_t size) {
    get_many(size);
    void *block = blocks[many(size) / 2];
    free_many(size);
    malloc_trim(0);
    by(free_it, block);
}

/* The second free takes the block from whoever has it now, and the third is another second. */
static void twice_after_reuse(size_t size) {
    void *a = get(size);
    free(hide(a));
    void *b = get(size);
    by(free_it, a);
    free(hide(b));
}

static void interior(size_t size, size_t offset) {
    char *block = get(size), *other = get(size);
    memset(block, 0x41, size < offset + 64 ? size : offset + 64);
    by(free_it, block + offset);
    free(other);
}

static void interior_1(size_t size) {
    interior(size, 1);
}
static void interior_8(size_t size) {
    interior(size, 8);
}
static void interior_16(size_t size) {
    interior(size, 16);
}
static void interior_page(size_t size) {
    interior(size, 4096);
}
static void interior_64k(size_t size) {
    interior(size, 65536);
}

static void aligned_interior(size_t size) {
    void *block = NULL;
    REQUIRE(posix_memalign(&block, 256, size) == 0);
    memset(block, 0x41, size < 64 ? size : 64);
    by(free_it, (char *)hide(block) + 16);
}

static void aligned_twice(size_t size) {
    void *block = NULL, *other = NULL;
    REQUIRE(posix_memalign(&block, 4096, size) == 0 && posix_memalign(&other, 4096, size) == 0);
    free(hide(block));
    by(free_it, block);
    free(other);
}

static void stack(size_t size) {
    (void)size;
    char local[512] __attribute__((aligned(64)));
    memset(local, 0x41, sizeof local);
    by(free_it, local + 64);
}

static void on_alloca(size_t size) {
    char *local = alloca(size);
    memset(local, 0x41, size);
    by(free_it, local);
}

static void in_static(size_t size) {
    (void)size;
    by(free_it, in_data + 64);
}

static void in_code(size_t size) {
    (void)size;
    by(free_it, (void *)(uintptr_t)in_code);
}

static void unmapped(size_t size) {
    (void)size;
    by(free_it, (void *)(uintptr_t)0x7654321000);
}

static void far_off(size_t size) {
    (void)size;
    by(free_it, (void *)(uintptr_t)0xffff888000001000);
}

static void beside(size_t size) {
    char *block = get(size);
    by(free_it, block + ((size_t)1 << 30));
}

static void *mapped(void) {
    char *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    memset(page, 0x41, 65536);
    return page;
}

static void mapping(size_t size) {
    (void)size;
    by(free_it, mapped());
}

static void mapping_middle(size_t size) {
    (void)size;
    by(free_it, (char *)mapped() + 4096);
}

/* --- realloc, malloc_usable_size --- */

static size_t resize_to;

static void resize_it(void *block) {
    void *moved = hide(realloc(hide(block), resize_to));
    (void)moved;
}

static void resize_freed(size_t size) {
    void *block = get(size), *other = get(size);
    free(hide(block));
    resize_to = size * 3;
    by(resize_it, block);
    free(other);
}

static void resize_freed_same(size_t size) {
    void *block = get(size), *other = get(size);
    free(hide(block));
    resize_to = size;
    by(resize_it, block);
    free(other);
}

static void resize_interior(size_t size) {
    char *block = get(size);
    resize_to = size * 3;
    by(resize_it, block + 16);
}

static void resize_stack(size_t size) {
    char local[512] __attribute__((aligned(64)));
    memset(local, 0x41, sizeof local);
    resize_to = size;
    by(resize_it, local + 64);
}

static void resize_static(size_t size) {
    resize_to = size;
    by(resize_it, in_data + 64);
}

static void resize_mapping(size_t size) {
    resize_to = size;
    by(resize_it, mapped());
}

static void ask_size(void *block) {
    if (malloc_usable_size(hide(block)) == 1) progress->worse = true;
}

static void usable_size_freed(size_t size) {
    void *block = get(size), *other = get(size);
    free(hide(block));
    by(ask_size, block);
    free(other);
}

static void usable_size_interior(size_t size) {
    by(ask_size, (char *)get(size) + 16);
}

static void usable_size_stack(size_t size) {
    (void)size;
    char local[512] __attribute__((aligned(64)));
    memset(local, 0, sizeof local);
    by(ask_size, local + 64);
}

/* --- C++ --- */

void *operator_new(size_t size) __asm__("_Znwm");
void *operator_new_array(size_t size) __asm__("_Znam");
void *operator_new_aligned(size_t size, size_t alignment) __asm__("_ZnwmSt11align_val_t");
void operator_delete(void *block) __asm__("_ZdlPv");
void operator_delete_array(void *block) __asm__("_ZdaPv");
void operator_delete_sized(void *block, size_t size) __asm__("_ZdlPvm");
void operator_delete_aligned(void *block, size_t alignment) __asm__("_ZdlPvSt11align_val_t");
void operator_delete_both(void *block, size_t size,
                          size_t alignment) __asm__("_ZdlPvmSt11align_val_t");

static size_t named;

static void delete_sized(void *block) {
    operator_delete_sized(hide(block), named);
}
static void delete_aligned_sized(void *block) {
    operator_delete_both(hide(block), named, 256);
}

static void delete_smaller(size_t size) {
    named = size / 2;
    by(delete_sized, operator_new(size));
}
static void delete_larger(size_t size) {
    named = size * 2;
    by(delete_sized, operator_new(size));
}
static void delete_aligned_other(size_t size) {
    named = size / 2;
    by(delete_aligned_sized, operator_new_aligned(size, 256));
}
static void delete_twice(size_t size) {
    void *block = operator_new(size), *other = operator_new(size);
    operator_delete(hide(block));
    by(operator_delete, block);
    operator_delete(other);
}
static void new_free(size_t size) {
    by(free_it, operator_new(size));
}
static void malloc_delete(size_t size) {
    by(operator_delete, get(size));
}
static void array_delete(size_t size) {
    by(operator_delete, operator_new_array(size));
}
static void new_delete_array(size_t size) {
    by(operator_delete_array, operator_new(size));
}
static void aligned_delete_plain(size_t size) {
    by(operator_delete, operator_new_aligned(size, 256));
}

/* --- writes --- */

static void run_over(size_t size, ptrdiff_t from, size_t bytes) {
    char *a = get(size), *b = get(size), *c = get(size);
    memset((char *)hide(b) + from, 0x42, bytes);
    by(free_it, b);
    free(c);
    free(a);
}

static void over_1(size_t size) {
    run_over(size, (ptrdiff_t)size, 1);
}
static void over_8(size_t size) {
    run_over(size, (ptrdiff_t)size, 8);
}
static void over_block(size_t size) {
    run_over(size, (ptrdiff_t)size, size);
}
static void under_1(size_t size) {
    run_over(size, -1, 1);
}
static void under_8(size_t size) {
    run_over(size, -8, 8);
}
static void under_16(size_t size) {
    run_over(size, -16, 16);
}

/* Into free blocks that lie behind. */
static void over_into_free(size_t size) {
    char *a = get(size), *b = get(size), *c = get(size);
    free(c);
    free(b);
    memset((char *)hide(a) + size, 0x42, 64);
    by(free_it, a);
}

static void write_at(size_t size, size_t from, size_t bytes) {
    char *block = get(size), *other = get(size);
    free(hide(block));
    memset((char *)hide(block) + from, 0x43, bytes);
    (void)other;
    if (way == BY_OTHER) by(free_it, other);
}

static void write_first_word(size_t size) {
    write_at(size, 0, 8);
}
static void write_second_word(size_t size) {
    write_at(size, 8, 8);
}
static void write_later_word(size_t size) {
    write_at(size, 24, 8);
}
static void write_all(size_t size) {
    write_at(size, 0, size);
}
static void write_zeros(size_t size) {
    char *block = get(size), *other = get(size);
    free(hide(block));
    memset(hide(block), 0, size < 64 ? size : 64);
    (void)other;
}

static void read_freed(size_t size) {
    char *block = get(size), *other = get(size);
    free(hide(block));
    volatile char *at = hide(block);
    (void)at[16], (void)at[size - 1];
    (void)other;
}

/* --- links --- */

/* Where a free list links through its blocks, by their first word or their second, malloc gives out
 * what the program made it link to. */
static void set_link(char *block, void *target) {
    void *const words[2] = {target, target};
    memcpy(hide(block), words, sizeof words);
}

static void link_to(size_t size, void *target) {
    char *block = get(size), *other = get(size);
    free(hide(other));
    free(hide(block));
    set_link(block, target);
    for (int i = 0; i < 20; i++) {
        char *given = hide(malloc(size));
        if (given >= in_data && given < in_data + sizeof in_data) progress->worse = true;
    }
}

static void link_to_static(size_t size) {
    link_to(size, in_data);
}
static void link_to_live(size_t size) {
    char *live = get(size), *block = get(size), *other = get(size);
    free(hide(other));
    free(hide(block));
    set_link(block, live);
    for (int i = 0; i < 20; i++)
        if (hide(malloc(size)) == live) progress->worse = true;
}
static void link_unaligned(size_t size) {
    char *block = get(size);
    link_to(size, block + 3);
}
static void link_to_itself(size_t size) {
    char *block = get(size), *other = get(size);
    free(hide(other));
    free(hide(block));
    set_link(block, block);
    void *first = hide(malloc(size)), *second = hide(malloc(size));
    if (first == second) progress->worse = true;
}

/* --- no error of the program's --- */

static void reuse_at_once(size_t size) {
    void *block = get(size);
    free(hide(block));
    if (get(size) == block) progress->worse = true;
}

static void zero_size_write(size_t size) {
    (void)size;
    char *block = hide(malloc(0)), *other = hide(malloc(0));
    memset(block, 0x44, 1);
    by(free_it, block);
    free(other);
}

/* --- the table --- */

enum { EVERY = 15, ONE = 1, PAGED = 14, LARGE = 12 }; /* of which sizes a row has cells */

typedef struct row {
    const char *name;
    void (*run)(size_t size);
    unsigned of;
} row_t;

static const row_t rows[] = {
#define ROW(name, run, of, ...) {name, run, of},
#include "conform/misuse_rows.h"
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0], CELLS = SIZES * WAYS };

enum { BY_DEFAULT, CHECKED, HARDENED, HARDENED_MORE, MODES };
static const char *const expected[ROWS][MODES] = {
#define ROW(name, run, of, ...) {__VA_ARGS__},
#include "conform/misuse_rows.h"
#undef ROW
};

typedef struct mode {
    const char *name, *setting; /* NULL: without the library */
} mode_t_;
static const mode_t_ modes[] = {{"default", "NUMALLOC_CHECK=0"},
                                {"check", "NUMALLOC_CHECK=1"},
                                {"harden=1", "NUMALLOC_HARDEN=1"},
                                {"harden=2", "NUMALLOC_HARDEN=2"},
                                {"libc", NULL}};
enum { COLUMNS = sizeof modes / sizeof modes[0], LIBC = COLUMNS - 1 };

static void warm(size_t size) {
    void *kept[3] = {NULL};
    for (size_t i = 0; i < (size < 100000 ? 1000 : 100); i++) {
        free(kept[i % 3]);
        kept[i % 3] = get(size);
    }
    for (size_t i = 0; i < 3; i++)
        free(kept[i]);
}

static char run_cell(const row_t *row, size_t size) {
    int err[2];
    char said[512] = "";
    progress->done = progress->worse = false;
    REQUIRE(pipe2(err, O_CLOEXEC) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(100);
        dup2(err[1], STDERR_FILENO);
        if (way == AFTER_REUSE) warm(size);
        row->run(size);
        progress->done = true;
        go_on(size);
        _exit(0);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        REQUIRE(errno == EINTR);
    close(err[1]);
    ssize_t n = read(err[0], said, sizeof said - 1);
    (void)n;
    close(err[0]);
    if (progress->worse) return '!';
    const char *end = strchr(said, '\n');
    bool ours = getenv("NA_TEST_LIB") != NULL;
    bool line = strncmp(said, "numalloc: ", 10) == 0 && end != NULL && end[1] == '\0';
    if (WIFEXITED(status)) return WEXITSTATUS(status) != 0 ? 'E' : ours && line ? 'W' : '-';
    if (WTERMSIG(status) == SIGALRM) return 'H';
    line |= !ours;
    char letter = WTERMSIG(status) == SIGABRT && line ? 'N' : 'C';
    return progress->done ? (char)(letter - 'A' + 'a') : letter;
}

/* A line of each row: its cells of one way. */
static int print_way(int one) {
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(progress != MAP_FAILED);
    way = one;
    for (size_t r = 0; r < ROWS; r++) {
        char line[SIZES + 1];
        for (size_t i = 0; i < SIZES; i++)
            line[i] = rows[r].of >> i & 1 ? run_cell(&rows[r], sizes[i]) : '.';
        line[SIZES] = '\n';
        if (write(STDOUT_FILENO, line, sizeof line) != sizeof line) return 3;
    }
    return 0;
}

static int without_library(void *context) {
    if (context != NULL) return 0;
    unsetenv("LD_PRELOAD");
    unsetenv("NA_TEST_LIB");
    return 0;
}

static char found[COLUMNS][ROWS][CELLS + WAYS];

static void run_mode(size_t m, int ways) {
    static const char *const print[WAYS] = {"print-0", "print-1", "print-2"};
    for (size_t r = 0; r < ROWS; r++)
        snprintf(found[m][r], sizeof found[m][r], "???? ???? ????");
    for (int w = 0; w < ways; w++) {
        static child_result_t result;
        const char *const env[] = {"NUMALLOC_NUMA=off", modes[m].setting, NULL};
        child_run_self(&result, print[w], NULL, env, without_library,
                       (void *)(uintptr_t)modes[m].setting);
        REQUIRE(child_exited(&result, 0) && strlen(result.out) == ROWS * (SIZES + 1));
        for (size_t r = 0; r < ROWS; r++)
            memcpy(found[m][r] + w * (SIZES + 1), result.out + r * (SIZES + 1), SIZES);
    }
}

static bool stopped(char letter) {
    return letter != '.' && strchr("NnCcW", letter) != NULL;
}

static unsigned count(size_t m, size_t beside) {
    unsigned cells = 0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < CELLS + WAYS - 1; c++)
            cells += stopped(found[m][r][c]) && (m == beside || !stopped(found[beside][r][c]));
    return cells;
}

static void print_sums(void) {
    printf("%-24s", "stopped, or named");
    for (size_t m = 0; m < COLUMNS; m++)
        printf("  %-14u", count(m, m));
    printf("\n%-24s", "  which libc does not");
    for (size_t m = 0; m < LIBC; m++)
        printf("  %-14u", count(m, LIBC));
    printf("\n%-24s", "  not, which libc does");
    for (size_t m = 0; m < LIBC; m++)
        printf("  %-14u", count(LIBC, m));
    printf("\n");
}

static void print_table(void) {
    printf("%-24s", "");
    for (size_t m = 0; m < COLUMNS; m++)
        printf("  %-14s", modes[m].name);
    printf("\n");
    for (size_t r = 0; r < ROWS; r++) {
        printf("%-24s", rows[r].name);
        for (size_t m = 0; m < COLUMNS; m++)
            printf("  %s", found[m][r]);
        printf("\n");
    }
    print_sums();
    printf("\nWhat libc stops and the default does not:\n");
    for (size_t r = 0; r < ROWS; r++) {
        char only[CELLS + WAYS] = {0};
        unsigned cells = 0;
        for (size_t c = 0; c < CELLS + WAYS - 1; c++) {
            bool one = stopped(found[LIBC][r][c]) && !stopped(found[BY_DEFAULT][r][c]);
            only[c] = one ? found[BY_DEFAULT][r][c] : found[LIBC][r][c] == ' ' ? ' ' : '.';
            cells += one;
        }
        if (cells != 0) printf("%-24s  %s  %u\n", rows[r].name, only, cells);
    }
}

static void compare(size_t r) {
    for (size_t m = 0; m < MODES; m++)
        for (size_t c = 0; c < CELLS + WAYS - 1; c++)
            CHECK_MSG(expected[r][m][c] == '*' || found[m][r][c] == '?' ||
                          expected[r][m][c] == found[m][r][c],
                      "%s, %s: %s, and not %s", rows[r].name, modes[m].name, found[m][r],
                      expected[r][m]);
}

int main(int argc, char **argv) {
    const char *argument = argc > 1 ? argv[1] : "";
    if (strncmp(argument, "print-", 6) == 0) return print_way(argument[6] - '0');
    bool table = strcmp(argument, "all") == 0, every = table || strcmp(argument, "every") == 0;
    if (!check_is_ours()) check_skip("NA_TEST_LIB is not set");
    check_begin();
    for (size_t m = 0; m < (table ? COLUMNS : MODES); m++)
        run_mode(m, every || m == BY_DEFAULT ? WAYS : 1);
    if (table) {
        print_table();
        return 0;
    }
    for (size_t r = 0; r < ROWS; r++)
        compare(r);
    return check_status();
}
