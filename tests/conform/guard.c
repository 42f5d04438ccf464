/* guard.c - NUMALLOC_GUARD: each kind of error in a guarded block is reported, every line of the
 * report is right, and the process ends as it would have. A program without fault prints nothing.
 *
 * Each case runs in a process of its own, in which every block is guarded that there is room for
 * (NUMALLOC_GUARD_EACH=1). The child says on stdout which addresses it means. */
#include "support/check.h"
#include "support/child.h"
#include "support/report_words.h"

#include <glob.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/syscall.h>

#include "profiler/format/guard_file.h"

#define PAGE ((uintptr_t)4096)

/* --- the child --- */

typedef struct told {
    char *block; /* as malloc gave it */
    char *address;
    size_t size;
} told_t;

/* Functions of their own, so that the stacks name them. */
__attribute__((noinline)) static void *allocates(size_t size) {
    void *block = check_opaque(malloc(size));
    __asm__ volatile("" ::: "memory");
    return block;
}

__attribute__((noinline)) static void frees(void *block) {
    free(check_opaque(block));
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static int reads(const volatile char *at) {
    int value = *at;
    __asm__ volatile("" ::: "memory");
    return value;
}

__attribute__((noinline)) static void writes(volatile char *at) {
    *at = 'x';
    __asm__ volatile("" ::: "memory");
}

static void announce(told_t t) {
    char line[256];
    int n = snprintf(line, sizeof line,
                     "%#" PRIxPTR " %#" PRIxPTR " %zu %d %#" PRIxPTR " %#" PRIxPTR " %#" PRIxPTR
                     " %#" PRIxPTR "\n",
                     (uintptr_t)t.block, (uintptr_t)t.address, t.size, (int)getpid(),
                     (uintptr_t)allocates, (uintptr_t)frees, (uintptr_t)reads, (uintptr_t)writes);
    if (write(STDOUT_FILENO, line, (size_t)n) != n) _exit(3);
}

/* A guarded block (its usable size is what was asked for) that lies at the end of its pages, or at
 * their beginning. */
static char *get(size_t size, bool at_end) {
    for (unsigned i = 0; i < 200; i++) {
        char *block = allocates(size);
        REQUIRE(block != NULL);
        uintptr_t end = (uintptr_t)block + size, slack = (PAGE - end % PAGE) % PAGE;
        bool is_at_end = slack < 16, is_at_start = (uintptr_t)block % PAGE == 0;
        if (malloc_usable_size(block) == size && is_at_end != is_at_start && is_at_end == at_end)
            return block;
        free(block);
    }
    REQUIRE(false);
    return NULL;
}

static void read_freed(size_t size) {
    char *block = get(size, true);
    frees(block);
    announce((told_t){block, block + size / 2, size});
    reads(block + size / 2);
}

static void write_freed(size_t size) {
    char *block = get(size, false);
    frees(block);
    announce((told_t){block, block, size});
    writes(block);
}

static void *frees_in_thread(void *block) {
    frees(block);
    return NULL;
}

/* Freed by a thread that has ended since. */
static void read_freed_by_other(size_t size) {
    pthread_t id;
    char *block = get(size, true);
    REQUIRE(pthread_create(&id, NULL, frees_in_thread, block) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
    announce((told_t){block, block + 1, size});
    reads(block + 1);
}

/* Beyond the end: what is left of 16 bytes is not inaccessible. */
static void write_beyond(size_t size) {
    char *block = get(size, true);
    announce((told_t){block, block + (size + 15) / 16 * 16, size});
    writes(block + (size + 15) / 16 * 16);
}

static void read_before(size_t size) {
    char *block = get(size, false);
    announce((told_t){block, block - 1, size});
    reads(block - 1);
}

static void free_twice(size_t size) {
    char *block = get(size, true);
    frees(block);
    announce((told_t){block, block, size});
    frees(block);
}

static void free_middle(size_t size) {
    char *block = get(size, true);
    announce((told_t){block, block + 8, size});
    frees(block + 8);
}

static void write_behind(size_t size) {
    char *block = get(size, false);
    announce((told_t){block, block + size + 2, size});
    writes(block + size + 2);
    frees(block);
}

static void write_in_front(size_t size) {
    char *block = get(size, true);
    announce((told_t){block, block - 3, size});
    writes(block - 3);
    frees(block);
}

static void realloc_freed(size_t size) {
    char *block = get(size, true);
    frees(block);
    announce((told_t){block, block, size});
    if (realloc(check_opaque(block), size * 2) != NULL) writes(block);
}

/* The child of a fork has its parent's guarded blocks, and is watched as well. */
static void in_forked_child(size_t size) {
    char *block = get(size, true);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        frees(block);
        announce((told_t){block, block, size});
        reads(block);
        _exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    memset(block, 1, size); /* the parent's block lives */
    frees(block);
    signal(SIGSEGV, SIG_DFL);
    if (WIFSIGNALED(status)) kill(getpid(), WTERMSIG(status));
}

/* --- what the program's own handlers see --- */

static volatile sig_atomic_t seen;
static sigjmp_buf back;
static char *expected;

static void jumps(int number, siginfo_t *info, void *context) {
    seen += number == SIGSEGV && info->si_addr == expected && context != NULL;
    siglongjmp(back, 1);
}

static void plain(int number) {
    static const char line[] = "handler\n";
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(3);
    (void)number;
    _exit(7);
}

/* A handler that was set first and one that is set later; both go on with a jump. */
static void own_handler(size_t size) {
    struct sigaction action = {.sa_sigaction = jumps, .sa_flags = SA_SIGINFO | SA_NODEFER}, old;
    sigaddset(&action.sa_mask, SIGUSR1);
    REQUIRE(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    REQUIRE(sigaction(SIGSEGV, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    REQUIRE(sigaction(SIGSEGV, NULL, &old) == 0);
    REQUIRE(old.sa_sigaction == jumps && (old.sa_flags & SA_NODEFER) != 0 &&
            sigismember(&old.sa_mask, SIGUSR1) == 1);
    char *block = get(size, true);
    frees(block);
    announce((told_t){block, block, size});
    expected = block;
    if (sigsetjmp(back, 1) == 0) reads(block);
    REQUIRE(seen == 1);
    expected = (char *)8; /* no business of ours */
    if (sigsetjmp(back, 1) == 0) reads(expected);
    REQUIRE(seen == 2);
    REQUIRE(signal(SIGSEGV, SIG_DFL) == (sighandler_t)(uintptr_t)jumps);
    reads(expected);
}

/* SA_RESETHAND: the second fault is the default's. */
static void resets(int number) {
    seen++;
    (void)number;
}

static void own_handler_once(size_t size) {
    struct sigaction action = {.sa_handler = resets, .sa_flags = (int)SA_RESETHAND}, old;
    REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
    char *block = get(size, true);
    frees(block);
    announce((told_t){block, block, size});
    REQUIRE(raise(SIGSEGV) == 0 && seen == 1);
    REQUIRE(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    reads(block);
}

static void own_handler_exits(size_t size) {
    signal(SIGSEGV, plain);
    char *block = get(size, true);
    frees(block);
    announce((told_t){block, block, size});
    reads(block);
}

/* What is no fault in the area ends the process as it always did, without a word. */
static void null_read(size_t unused) {
    (void)unused;
    reads(check_opaque(NULL));
}

static void sent(size_t unused) {
    (void)unused;
    kill(getpid(), SIGSEGV);
    for (;;)
        pause();
}

static void sent_ignored(size_t unused) {
    (void)unused;
    signal(SIGSEGV, SIG_IGN);
    kill(getpid(), SIGSEGV);
    REQUIRE(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    _exit(0);
}

/* The handler of a stack overflow runs on its own stack. */
static char own_stack[65536];
__attribute__((noinline)) static int deep(int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return n == -1 ? 0 : deep(n + 1) + room[0];
}

static void stack_overflow(size_t unused) {
    (void)unused;
    stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
    struct sigaction action = {.sa_handler = plain, .sa_flags = SA_ONSTACK};
    REQUIRE(sigaltstack(&stack, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    deep(0);
}

/* --- no fault --- */

static void every_size(size_t unused) {
    (void)unused;
    for (size_t size = 0; size <= 33000; size += size < 300 ? 1 : 61) {
        char *block = allocates(size);
        REQUIRE(block != NULL && (uintptr_t)block % 16 == 0);
        size_t usable = malloc_usable_size(block);
        REQUIRE(usable >= size);
        memset(block, (int)size, usable);
        char *moved = realloc(block, size + 50);
        REQUIRE(moved != NULL);
        for (size_t i = 0; i < size; i++)
            REQUIRE(moved[i] == (char)size);
        frees(moved);
        char *zeroed = calloc(1, size);
        REQUIRE(zeroed != NULL);
        for (size_t i = 0; i < size; i++)
            REQUIRE(zeroed[i] == 0);
        frees(zeroed);
        for (size_t alignment = 32; alignment <= 8192; alignment *= 4) {
            char *aligned = aligned_alloc(alignment, size);
            REQUIRE(aligned != NULL && (uintptr_t)aligned % alignment == 0);
            memset(aligned, 1, size);
            frees(aligned);
        }
    }
}

static void *allocates_and_ends(void *give) {
    char *kept[8];
    for (int round = 0; round < 400; round++) {
        for (unsigned i = 0; i < 8; i++) {
            kept[i] = allocates(1 + (size_t)round * 7 % 3000 + i);
            kept[i][0] = 1;
        }
        for (unsigned i = 0; i < 8; i++)
            frees(kept[i]);
    }
    *(char **)give = allocates(100);
    return NULL;
}

static void threads(size_t unused) {
    (void)unused;
    for (int round = 0; round < 4; round++) {
        pthread_t id[4];
        char *given[4];
        for (int i = 0; i < 4; i++)
            REQUIRE(pthread_create(&id[i], NULL, allocates_and_ends, &given[i]) == 0);
        pid_t child = fork();
        if (child == 0) {
            frees(allocates(40));
            _exit(0);
        }
        int status;
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        for (int i = 0; i < 4; i++) {
            REQUIRE(pthread_join(id[i], NULL) == 0);
            memset(given[i], 1, 100);
            frees(given[i]);
        }
    }
}

/* So many allocations by one call site, in several sizes. */
enum { COUNTED = 6000 };
static void counted(size_t each) {
    for (size_t i = 0; i < COUNTED; i++)
        frees(allocates(16 + i * 37 % 700));
    (void)each;
}

/* Large ones, that the thread takes from what it keeps. */
enum { COUNTED_LARGE = 20000, EACH_LARGE = 50 };
static void counted_large(void) {
    for (unsigned i = 0; i < COUNTED_LARGE; i++)
        frees(allocates(100000));
}

/* --- the cases --- */

typedef enum at { NOWHERE, BY_READS, BY_WRITES, BY_FREES, BY_REALLOC } at_t;

static const struct test {
    const char *name;
    void (*run)(size_t size);
    const char *headline; /* support/report_words.h */
    at_t access;
    bool freed;
    int ends; /* with this signal; -n: with exit status n */
} tests[] = {
    {"read_freed", read_freed, "use after free: read of %A, %D into a block of %S at %B", BY_READS,
     true, SIGSEGV},
    {"write_freed", write_freed,
     "use after free: write of %A, at the beginning of a block of %S at %B", BY_WRITES, true,
     SIGSEGV},
    {"read_freed_by_other", read_freed_by_other,
     "use after free: read of %A, %D into a block of %S at %B", BY_READS, true, SIGSEGV},
    {"write_beyond", write_beyond,
     "overflow: write of %A, %D behind the end of a block of %S at %B", BY_WRITES, false, SIGSEGV},
    {"read_before", read_before, "underflow: read of %A, 1 byte before a block of %S at %B",
     BY_READS, false, SIGSEGV},
    {"free_twice", free_twice, "double free of %A, at the beginning of a block of %S at %B",
     BY_FREES, true, SIGABRT},
    {"free_middle", free_middle,
     "free of an address that is no block's of %A, 8 bytes into a block of %S at %B", BY_FREES,
     false, SIGABRT},
    {"write_behind", write_behind,
     "overflow: 3 bytes written behind the end of a block of %S at %B", BY_FREES, false, SIGABRT},
    {"write_in_front", write_in_front, "underflow: 3 bytes written before a block of %S at %B",
     BY_FREES, false, SIGABRT},
    {"realloc_freed", realloc_freed,
     "realloc of a freed block of %A, at the beginning of a block of %S at %B", BY_REALLOC, true,
     SIGABRT},
    {"in_forked_child", in_forked_child,
     "use after free: read of %A, at the beginning of a block of %S at %B", BY_READS, true,
     SIGSEGV},
    {"own_handler", own_handler,
     "use after free: read of %A, at the beginning of a block of %S at %B", BY_READS, true,
     SIGSEGV},
    {"own_handler_once", own_handler_once,
     "use after free: read of %A, at the beginning of a block of %S at %B", BY_READS, true,
     SIGSEGV},
    {"own_handler_exits", own_handler_exits,
     "use after free: read of %A, at the beginning of a block of %S at %B", BY_READS, true, -7},
    {"null_read", null_read, NULL, NOWHERE, false, SIGSEGV},
    {"sent", sent, NULL, NOWHERE, false, SIGSEGV},
    {"sent_ignored", sent_ignored, NULL, NOWHERE, false, 0},
    {"stack_overflow", stack_overflow, NULL, NOWHERE, false, -7},
    {"every_size", every_size, NULL, NOWHERE, false, 0},
    {"threads", threads, NULL, NOWHERE, false, 0},
};
enum { TESTS = sizeof tests / sizeof tests[0] };

/* --- the report --- */

static char directory[] = "/tmp/conform-guard.XXXXXX";

static int to_directory(void *unused) {
    (void)unused;
    return chdir(directory);
}

#define fail(format, ...)                                                                          \
    do {                                                                                           \
        check_say("guard.c:%d: " format "\n", __LINE__, __VA_ARGS__);                              \
        check_count_failure();                                                                     \
    } while (0)

typedef struct facts {
    report_facts_t of;
    uintptr_t allocates, frees, reads, writes;
    int pid;
} facts_t;

static const char *next_line(char **text) {
    char *line = *text, *end = strchr(line, '\n');
    if (end == NULL) return "";
    *end = 0;
    *text = end + 1;
    if (strncmp(line, "numalloc: ", 10) != 0) return "(without the prefix)";
    return line + 10;
}

/* Frames up to the line that follows them; one lies in the function (0: any), and those of this
 * program are named with its file and the place in it. */
static const char *pass_stack(char **text, const char *name, const char *what, uintptr_t function) {
    const char *line;
    unsigned frames = 0;
    bool found = function == 0, named = false;
    while ((line = next_line(text))[0] == ' ') {
        unsigned index;
        uintptr_t pc, offset;
        char module[512] = "";
        int n = sscanf(line, " #%u %" SCNxPTR " %511[^+]+%" SCNxPTR, &index, &pc, module, &offset);
        if (n < 2 || index != frames) fail("%s, %s: a frame is '%s'", name, what, line);
        if (pc - function < 200) found = true;
        if (n == 4 && strcmp(module, child_self()) == 0) {
            named = true;
            if ((pc - offset) % PAGE != 0) fail("%s, %s: %s", name, what, line);
        }
        frames++;
    }
    if (!found) fail("%s, %s: the function is not in the stack", name, what);
    if (!named) fail("%s, %s: no frame is this program's", name, what);
    return line;
}

static void expect_line(const char *name, const char *line, const char *begin, int pid,
                        const char *end) {
    size_t n = strlen(line), m = strlen(end);
    unsigned seconds, ms;
    char start[128], thread[32];
    snprintf(start, sizeof start, "%s by thread ", begin);
    bool right =
        strncmp(line, start, strlen(start)) == 0 && n > m && strcmp(line + n - m, end) == 0;
    const char *comma = right ? strstr(line + strlen(start), ", ") : NULL;
    right =
        right && comma != NULL && sscanf(comma, ", %u.%3u s", &seconds, &ms) == 2 && seconds < 60;
    if (right && pid != 0) {
        snprintf(thread, sizeof thread, "%d", pid);
        right = strncmp(line + strlen(start), thread, strlen(thread)) == 0;
    }
    if (!right)
        fail("%s: '%s', expected '%s by thread %d ..., ...%s'", name, line, begin, pid, end);
}

/* The last line names a file in the directory in which the program was started, which has the
 * error.
 */
static void check_file(const struct test *t, const char *line, const facts_t *f) {
    static const char begin[] = "numalloc-dump errors ",
                      end[] = ".errors names functions and lines";
    char wanted[128], path[256] = "";
    snprintf(wanted, sizeof wanted, "%s%s/numalloc.conform-guard.%d.", begin, directory, f->pid);
    size_t n = strlen(line), m = strlen(end);
    if (strncmp(line, wanted, strlen(wanted)) != 0 || n < m || strcmp(line + n - m, end) != 0) {
        fail("%s: the last line is '%s', expected '%s...%s'", t->name, line, wanted, end);
        return;
    }
    snprintf(path, sizeof path, "%.*s", (int)(n - m + 7 - (sizeof begin - 1)),
             line + sizeof begin - 1);
    na_gf_head_t head;
    na_gf_error_t error;
    int fd = open(path, O_RDONLY);
    bool read_ =
        fd >= 0 && read(fd, &head, sizeof head) == sizeof head &&
        pread(fd, &error, sizeof error, (off_t)head.parts[NA_GF_ERRORS].offset) == sizeof error;
    if (fd >= 0) close(fd);
    if (!read_ || memcmp(head.magic, NA_GF_MAGIC, 8) != 0 || head.errors == 0 ||
        head.pid != (uint32_t)f->pid || error.block.address != f->of.block ||
        error.block.size != f->of.size || error.frames[NA_GF_ALLOC] == 0)
        fail("%s: %s is not as it should be", t->name, path);
    unlink(path);
}

static void check_report(const struct test *t, child_result_t *result) {
    facts_t f;
    if (sscanf(result->out,
               "%" SCNxPTR " %" SCNxPTR " %zu %d %" SCNxPTR " %" SCNxPTR " %" SCNxPTR " %" SCNxPTR,
               &f.of.block, &f.of.address, &f.of.size, &f.pid, &f.allocates, &f.frees, &f.reads,
               &f.writes) != 8) {
        fail("%s: the child said '%s' and '%s'", t->name, result->out, result->err);
        return;
    }
    int before = check_failures;
    char headline[256], whole[sizeof result->err], *text = result->err;
    memcpy(whole, result->err, sizeof whole);
    report_expand(headline, sizeof headline, t->headline, &f.of);
    const char *line = next_line(&text);
    if (strcmp(line, headline) != 0) fail("%s: '%s', expected '%s'", t->name, line, headline);
    line = next_line(&text);
    bool at_free = strstr(headline, " written ") != NULL;
    const char *how = at_free                 ? "found when it was freed"
                      : t->access >= BY_FREES ? "called"
                                              : "accessed";
    expect_line(t->name, line, how, f.pid, " after the start:");
    uintptr_t by = t->access == BY_READS    ? f.reads
                   : t->access == BY_WRITES ? f.writes
                   : t->access == BY_FREES  ? f.frees
                                            : 0;
    line = pass_stack(&text, t->name, "access", by);
    if (t->freed) {
        bool by_other = t->run == read_freed_by_other;
        expect_line(t->name, line, "freed by free,", by_other ? 0 : f.pid, " before:");
        line = pass_stack(&text, t->name, "free", by_other ? 0 : f.frees);
    }
    /* The parent's, in its child. */
    expect_line(t->name, line, "allocated by malloc,", t->run == in_forked_child ? 0 : f.pid,
                " before:");
    line = pass_stack(&text, t->name, "allocation", f.allocates);
    check_file(t, line, &f);
    if (check_failures != before) check_say("%s\n", whole);
}

static bool ended(const child_result_t *result, int how) {
    return how > 0 ? child_killed_by(result, how) : child_exited(result, -how);
}

static void run(const struct test *t, const char *size, const char *const env[]) {
    child_result_t result;
    child_run_self(&result, t->name, size, env, to_directory, NULL);
    if (!ended(&result, t->ends))
        fail("%s of %s bytes: ended with %#x, said %s", t->name, size, result.status, result.err);
    if (t->headline == NULL) {
        if (result.err[0] != 0 && strcmp(result.err, "handler\n") != 0)
            fail("%s: said %s", t->name, result.err);
    } else {
        check_report(t, &result);
    }
}

/* recover: said once, and the program goes on. */
static void recovers(size_t size) {
    char *freed = get(size, true), *over = get(size, true), *twice = get(size, true);
    frees(freed);
    for (int i = 0; i < 3; i++) {
        reads(freed + 1);
        writes(freed);
        writes(over + (size + 15) / 16 * 16);
    }
    frees(twice);
    frees(twice);
    frees(over);
    for (unsigned i = 0; i < (size > 32768 ? 1500 : 20000);
         i++) /* the area goes round, over what was opened */
        frees(allocates(size));
}

static void check_recovery(const char *size) {
    static const char *const env[] = {"NUMALLOC_GUARD=recover", "NUMALLOC_GUARD_EACH=1", NULL};
    child_result_t result;
    child_run_self(&result, "recovers", size, env, to_directory, NULL);
    if (!child_exited(&result, 0)) fail("recover: ended with %#x: %s", result.status, result.err);
    static const char *const wanted[] = {"use after free: ", "overflow: ", "double free of "};
    for (unsigned i = 0; i < 3; i++) {
        const char *at = strstr(result.err, wanted[i]);
        if (at == NULL || strstr(at + 1, wanted[i]) != NULL)
            fail("recover: '%s' not once: %s", wanted[i], result.err);
    }
}

/* A file that was named is there from the start, whole at every moment, and counts. */
static void killed(size_t size) {
    for (unsigned i = 0; i < 500; i++)
        frees(get(size, true));
    kill(getpid(), SIGKILL);
}

static void check_named_file(void) {
    static const char *const env[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=1",
                                      "NUMALLOC_GUARD_FILE=named-%p", NULL};
    child_result_t result;
    child_run_self(&result, "killed", "100", env, to_directory, NULL);
    CHECK(child_killed_by(&result, SIGKILL) && result.err[0] == 0);
    char pattern[64];
    snprintf(pattern, sizeof pattern, "%s/named-*", directory);
    glob_t found;
    REQUIRE(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    na_gf_head_t head;
    int fd = open(found.gl_pathv[0], O_RDONLY);
    REQUIRE(fd >= 0 && read(fd, &head, sizeof head) == sizeof head);
    CHECK(memcmp(head.magic, NA_GF_MAGIC, 8) == 0 && head.errors == 0);
    CHECK(head.guarded >= 500 && head.freed >= 500 && head.drawn >= head.guarded);
    double estimated = 0;
    for (uint32_t i = 0; i < head.parts[NA_GF_SITES].count; i++) {
        na_gf_site_t site;
        off_t at = (off_t)(head.parts[NA_GF_SITES].offset + i * sizeof site);
        REQUIRE(pread(fd, &site, sizeof site, at) == sizeof site);
        estimated += site.estimated;
    }
    CHECK(estimated == (double)head.drawn); /* every block is drawn */
    close(fd);
    globfree(&found);
}

/* Large blocks are drawn one in so many as well, whether they come from the thread's bins or not.
 */
static void check_large(void) {
    static const char *const env[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=50",
                                      "NUMALLOC_GUARD_FILE=large", NULL};
    child_result_t result;
    child_run_self(&result, "counted_large", "0", env, to_directory, NULL);
    CHECK(child_exited(&result, 0) && result.err[0] == 0);
    char path[64];
    snprintf(path, sizeof path, "%s/large", directory);
    na_gf_head_t head;
    int fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0 && read(fd, &head, sizeof head) == sizeof head);
    close(fd);
    double p = 0.0198013267, error = sqrt(COUNTED_LARGE * p * (1 - p)); /* 1 - exp(-1 / 50) */
    if (fabs((double)head.drawn - COUNTED_LARGE * p) > 5 * error + 10 ||
        head.guarded < head.drawn / 2)
        fail("%" PRIu64 " large blocks drawn, %" PRIu64 " guarded", head.drawn, head.guarded);
}

/* The file says how many allocations the drawn ones of a site stand for, and so with what chance
 * one is guarded. Of 300 seeded runs so many have the true number within 1.96 standard deviations.
 */
static int check_chance(void) {
    enum { RUNS = 300, EACH = 20 };
    unsigned within = 0;
    double sum = 0;
    REQUIRE(mkdtemp(directory) != NULL);
    for (unsigned run_ = 1; run_ <= RUNS; run_++) {
        char seed[64], each[64], path[128];
        snprintf(seed, sizeof seed, "NUMALLOC_SAMPLE_SEED=%u", run_);
        snprintf(each, sizeof each, "NUMALLOC_GUARD_EACH=%d", EACH);
        snprintf(path, sizeof path, "NUMALLOC_GUARD_FILE=%s/counted", directory);
        const char *const env[] = {"NUMALLOC_GUARD=1", seed, each, path, NULL};
        child_result_t result;
        child_run_self(&result, "counted", "0", env, NULL, NULL);
        CHECK(child_exited(&result, 0) && result.err[0] == 0);
        na_gf_head_t head;
        na_gf_site_t site = {0}, most = {0};
        int fd = open(strchr(path, '=') + 1, O_RDONLY);
        REQUIRE(fd >= 0 && read(fd, &head, sizeof head) == sizeof head);
        for (uint32_t i = 0; i < head.parts[NA_GF_SITES].count; i++) {
            off_t at = (off_t)(head.parts[NA_GF_SITES].offset + i * sizeof site);
            REQUIRE(pread(fd, &site, sizeof site, at) == sizeof site);
            if (site.drawn > most.drawn) most = site;
        }
        close(fd);
        /* Each allocation is drawn with the chance 1 - exp(-1 / EACH). */
        double p = 0.048770575499, error = sqrt(COUNTED * (1 - p) / p);
        CHECK(most.guarded == most.drawn && most.freed == most.guarded);
        CHECK(fabs(most.estimated - most.drawn / p) < 1e-3);
        within += fabs(most.estimated - COUNTED) < 1.96 * error;
        sum += most.estimated;
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    REQUIRE(system(command) == 0);
    check_say("%u of %d runs within 1.96 standard deviations; mean %.1f of %d\n", within, RUNS,
              sum / RUNS, COUNTED);
    CHECK(within >= 276 && within <= 295);  /* 285 expected, standard deviation 3.8 */
    CHECK(fabs(sum / RUNS - COUNTED) < 60); /* standard deviation 20 */
    return check_status();
}

int main(int argc, char **argv) {
    check_begin();
    if (argc == 3) {
        size_t size = (size_t)strtoul(argv[2], NULL, 10);
        if (strcmp(argv[1], "recovers") == 0) recovers(size);
        if (strcmp(argv[1], "killed") == 0) killed(size);
        if (strcmp(argv[1], "counted") == 0) counted(size);
        if (strcmp(argv[1], "counted_large") == 0) counted_large();
        for (unsigned i = 0; i < TESTS; i++)
            if (strcmp(argv[1], tests[i].name) == 0) tests[i].run(size);
        return check_status();
    }
    if (argc == 2 && strcmp(argv[1], "chance") == 0) return check_chance();
    REQUIRE(mkdtemp(directory) != NULL);
    static const char *const alone[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=1", NULL};
    static const char *const sites[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=1",
                                        "NUMALLOC_PROFILE=sites",
                                        "NUMALLOC_PROFILE_FILE=profile-%p", NULL};
    static const char *const trace[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=1",
                                        "NUMALLOC_PROFILE=trace",
                                        "NUMALLOC_PROFILE_FILE=profile-%p", NULL};
    static const char *const sizes[] = {"40", "1000", "20000", "250000"};
    for (unsigned i = 0; i < TESTS; i++) {
        for (unsigned s = 0; s < (tests[i].headline != NULL ? 4 : 1); s++)
            run(&tests[i], sizes[s], alone);
        if (tests[i].headline != NULL || i % 2 == 0) run(&tests[i], sizes[i % 4], sites);
        if (tests[i].headline != NULL || i % 2 != 0) run(&tests[i], sizes[i % 4], trace);
    }
    check_large();
    check_recovery("40");
    check_recovery("5000");
    check_recovery("100000");
    check_named_file();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    REQUIRE(system(command) == 0);
    return check_status();
}
