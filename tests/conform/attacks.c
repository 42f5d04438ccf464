/* attacks.c - sixteen attacks on programs that use their blocks wrongly: a table.
 *
 * Each is a program of its own (attacks_links.c, attacks_blocks.c), run with so many seeds. It ends
 *
 *   worked    the attacker has what he wants: memory that is another's, another's data, a call of
 *             his function
 *   stopped   the process was ended, or the error named, before that
 *   silent    neither
 *
 * `hold SEEDS`: no attack works by default, at level 1 or at level 2 that must not there
 * (attacks_rows.h). `modes SEEDS`: the same in each mode of profile, and with
 * guards. `count SEEDS`: a line for each attack, name and the three counts, with whatever malloc
 * the program runs on; scripts/attacks.py makes the table of docs/hardening.md of it. `one ATTACK
 * SEED` runs one. */
#include "conform/attacks.h"

#include <malloc.h>
#include <sys/resource.h>

#include "support/child.h"

enum { NOWHERE = 0, BY_DEFAULT = 1, AT_LEVEL_1 = 2, COLUMNS = 3, STATUS_WORKED = 42 };

typedef struct row {
    const char *name;
    void (*run)(void);
    unsigned may_work;
} row_t;
static const row_t rows[] = {
#define ROW(name, run, may_work) {name, run, may_work},
#include "conform/attacks_rows.h"
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* --- what attacks are made of --- */

bool is_libc;
static unsigned seed;
static uint64_t drawn;

typedef struct area {
    uintptr_t start;
    size_t size;
} area_t;
static area_t live[8192];
static unsigned live_count;

void worked(void) {
    _exit(STATUS_WORKED);
}

unsigned variant(unsigned of) {
    return seed % of;
}

uint32_t draw(uint32_t below) {
    uint64_t x = drawn += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x >> 32) * below >> 32);
}

size_t draw_size(void) {
    static const size_t sizes[] = {24,  32,  40,  48,  56,  64,   96,  104,
                                   120, 128, 200, 256, 512, 1000, 1024};
    return sizes[draw(sizeof sizes / sizeof sizes[0])];
}

unsigned draw_others(void) {
    static const unsigned counts[] = {0, 0, 100, 1200};
    return counts[draw(4)];
}

void claim(char *memory, size_t size) {
    uintptr_t start = (uintptr_t)memory;
    for (unsigned i = 0; i < live_count; i++)
        if (start < live[i].start + live[i].size && live[i].start < start + size) worked();
    REQUIRE(live_count < sizeof live / sizeof live[0]);
    live[live_count++] = (area_t){start, size};
}

void forget(const char *block) {
    for (unsigned i = 0; i < live_count; i++) {
        if (live[i].start != (uintptr_t)block) continue;
        live[i] = live[--live_count];
        return;
    }
}

/* A malloc that refuses ends the attack. */
static char *taken(void *block, size_t size) {
    if (block == NULL) exit(0);
    claim(check_opaque(block), size);
    return check_opaque(block);
}

char *take_by_malloc(size_t size) {
    return taken(malloc(size), size);
}

char *take(size_t size) {
    void *block = NULL;
    switch (draw(8)) {
    case 0:
        block = calloc(1, size);
        break;
    case 1:
        block = realloc(NULL, size);
        break;
    case 2:
        block = size % 16 == 0 ? aligned_alloc(16, size) : malloc(size);
        break;
    case 3:
        if (posix_memalign(&block, 16, size) != 0) block = NULL;
        break;
    case 4:
        block = memalign(16, size);
        break;
    default:
        block = malloc(size);
    }
    return taken(block, size);
}

void take_all(char **blocks, unsigned count, size_t size) {
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = take(size);
        memset(blocks[i], 0x41, size);
    }
}

void drop(char *block) {
    forget(block);
    free(check_opaque(block));
}

void drop_all(char *const *blocks, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        drop(blocks[i]);
}

bool neighbours(char *const *blocks, unsigned count, size_t size, char **low, char **high) {
    unsigned first = draw(count);
    for (unsigned i = 0; i < count; i++) {
        char *one = blocks[(first + i) % count], *next = NULL;
        for (unsigned k = 0; k < count; k++)
            if (blocks[k] > one && (next == NULL || blocks[k] < next)) next = blocks[k];
        /* a word of the allocator's, a class, or pages between */
        if (next == NULL || (size_t)(next - one) > size + (size < 4096 ? 32 + size / 4 : 16384))
            continue;
        *low = one;
        *high = next;
        return true;
    }
    return false;
}

uint64_t word_of(const char *block, size_t at) {
    uint64_t word;
    memcpy(&word, (const char *)check_opaque((void *)(uintptr_t)block) + at, sizeof word);
    return word;
}

void set_word(char *block, size_t at, uint64_t word) {
    memcpy((char *)check_opaque(block) + at, &word, sizeof word);
}

static void attack(const char *name, unsigned number) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    seed = number;
    drawn = number * UINT64_C(0x2545f4914f6cdd1d);
    Dl_info info;
    void *found = dlsym(RTLD_DEFAULT, "malloc");
    is_libc =
        found != NULL && dladdr(found, &info) != 0 && strstr(info.dli_fname, "/libc.so") != NULL;
    for (unsigned i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) rows[i].run();
}

/* --- the table --- */

typedef struct outcome {
    unsigned worked, stopped, silent;
} outcome_t;

/* A line of the library's that is not about its own files. */
static bool is_named(const char *said) {
    static const char *const words[] = {
        "free of",  "written to", "overflow",        "underflow",      "overrun",
        "underrun", "realloc of", "use after free:", "more than once", "linked"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(said, words[i]) != NULL) return true;
    return false;
}

static void add_run(outcome_t *sum, const row_t *row, unsigned number, const char *const env[]) {
    static child_result_t result;
    char digits[16],
        *argv[] = {child_self(), (char[]){"one"}, (char *)(uintptr_t)row->name, digits, NULL};
    snprintf(digits, sizeof digits, "%u", number);
    child_run(&result, argv, env, NULL, NULL);
    bool ended = WIFSIGNALED(result.status);
    CHECK_MSG(ended ? WTERMSIG(result.status) != SIGALRM
                    : child_exited(&result, 0) || child_exited(&result, STATUS_WORKED),
              "%s, seed %u: status %d: %s", row->name, number, result.status, result.err);
    if (child_exited(&result, STATUS_WORKED))
        sum->worked++;
    else if (ended || is_named(result.err))
        sum->stopped++;
    else
        sum->silent++;
    if (getenv("ATTACKS_SHOW") != NULL)
        printf("%s %u: %s %s", row->name, number,
               child_exited(&result, STATUS_WORKED) ? "worked" : "",
               result.err[0] != '\0' ? result.err : "\n");
}

static void count(unsigned seeds) {
    for (const row_t *row = rows; row < rows + ROWS; row++) {
        outcome_t sum = {0};
        for (unsigned number = 0; number < seeds; number++)
            add_run(&sum, row, number, NULL);
        printf("%s\t%u\t%u\t%u\n", row->name, sum.worked, sum.stopped, sum.silent);
        fflush(stdout);
    }
}

static const char *const levels[COLUMNS] = {"NUMALLOC_HARDEN=0", "NUMALLOC_HARDEN=1",
                                            "NUMALLOC_HARDEN=2"};

static void hold(const row_t *row, unsigned column, const char *const env[], unsigned first,
                 unsigned seeds) {
    if ((row->may_work >> column & 1) != 0) return;
    for (unsigned number = first; number < first + seeds; number++) {
        outcome_t one = {0};
        add_run(&one, row, number, env);
        char with[256] = "";
        for (unsigned i = 0; env[i] != NULL; i++)
            snprintf(with + strlen(with), sizeof with - strlen(with), " %s", env[i]);
        CHECK_MSG(one.worked == 0, "%s works with%s, seed %u", row->name, with, number);
    }
}

static void hold_levels(unsigned seeds) {
    for (unsigned column = 0; column < COLUMNS; column++) {
        const char *const env[] = {levels[column], NULL};
        for (const row_t *row = rows; row < rows + ROWS; row++)
            hold(row, column, env, 0, seeds);
    }
}

static void hold_modes(unsigned seeds) {
    static const char *const modes[] = {NULL,
                                        "NUMALLOC_PROFILE=sample",
                                        "NUMALLOC_PROFILE=sites",
                                        "NUMALLOC_PROFILE=trace",
                                        "NUMALLOC_PROFILE=sites,access",
                                        "NUMALLOC_LEAKS=1"};
    enum { MODES = sizeof modes / sizeof modes[0] };
    unsigned first = 0;
    for (unsigned column = 0; column < COLUMNS; column++)
        for (unsigned mode = 0; mode < MODES; mode++)
            for (unsigned guarded = 0; guarded < 2; guarded++) {
                const char *env[8] = {levels[column], "NUMALLOC_SAMPLE_INTERVAL=256"};
                unsigned n = 2;
                if (guarded != 0) env[n++] = "NUMALLOC_GUARD=1";
                if (guarded != 0) env[n++] = "NUMALLOC_GUARD_EACH=3";
                if (modes[mode] != NULL) env[n++] = modes[mode];
                for (const row_t *row = rows; row < rows + ROWS; row++)
                    hold(row, column, env, first, seeds);
                first += seeds;
            }
}

int main(int argc, char **argv) {
    const char *argument = argc > 1 ? argv[1] : "";
    check_begin();
    if (argc == 4 && strcmp(argument, "one") == 0) {
        attack(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
        return 0;
    }
    if (argc == 3 && strcmp(argument, "count") == 0) {
        count((unsigned)strtoul(argv[2], NULL, 10));
        return check_status();
    }
    if (!check_is_ours()) check_skip("NA_TEST_LIB is not set");
    if (argc == 3 && strcmp(argument, "modes") == 0) {
        hold_modes((unsigned)strtoul(argv[2], NULL, 10));
        return check_status();
    }
    if (argc == 3 && strcmp(argument, "hold") == 0) {
        hold_levels((unsigned)strtoul(argv[2], NULL, 10));
        return check_status();
    }
    check_say("what is to be done?\n");
    return 1;
}
