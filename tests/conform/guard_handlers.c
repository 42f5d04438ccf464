/* guard_handlers.c - crash handlers of the program's own beside NUMALLOC_GUARD: what they see is
 * what they would see without it, and the report comes first. As crash reporters have it (breakpad,
 * crashpad, sentry): an alternate stack, SA_SIGINFO and SA_ONSTACK, a dump, the handler before them
 * called or put back, the signal again. And NUMALLOC_GUARD=recover, where the program goes on.
 *
 * Each case runs in a process of its own, in which every block is guarded. */
#include "support/check.h"
#include "support/child.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

int library_is_here(void); /* guard_handlers_lib.c */

#define PAGE ((uintptr_t)4096)

/* --- blocks --- */

static char *get(void) {
    for (unsigned i = 0; i < 100; i++) {
        char *block = check_opaque(malloc(48));
        REQUIRE(block != NULL);
        if (malloc_usable_size(block) == 48 && ((uintptr_t)block + 48) % PAGE == 0) return block;
    }
    REQUIRE(false);
    return NULL;
}

static char *get_freed(void) {
    char *block = get();
    free(block);
    return check_opaque(block);
}

__attribute__((noinline)) static char reads(const volatile char *at) {
    char value = *at;
    __asm__ volatile("" ::: "memory");
    return value;
}

static void say(const char *line) {
    if (write(STDERR_FILENO, line, strlen(line)) < 0) _exit(3);
}

/* --- a crash reporter --- */

static const int crashes[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTRAP};
enum { CRASHES = sizeof crashes / sizeof crashes[0] };
static struct sigaction before[CRASHES];
static char *volatile expected;
static char alternate[2 * 8192]; /* of the main thread */
static _Thread_local char *stack_lo;
static const size_t stack_size = sizeof alternate;

static void use_stack(char *memory) {
    stack_t stack = {.ss_sp = memory, .ss_size = stack_size};
    stack_lo = memory;
    REQUIRE(sigaltstack(&stack, NULL) == 0);
}

/* What the kernel gave, and what is true in it: on one's own stack, all that the mask names
 * blocked. */
static bool is_right(int number, const siginfo_t *info, const void *context) {
    char here;
    sigset_t mask;
    const ucontext_t *uc = context;
    return number == SIGSEGV && info->si_signo == SIGSEGV && info->si_addr == expected &&
           uc != NULL && (uintptr_t)&here - (uintptr_t)stack_lo < stack_size &&
           pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGSEGV) == 1 &&
           sigismember(&mask, SIGUSR2) == 1 && sigismember(&mask, SIGTERM) == 0;
}

/* The dump is written, the handlers before this one are put back; the instruction runs again. */
static void dumps(int number, siginfo_t *info, void *context) {
    say(is_right(number, info, context) ? "dump\n" : "wrong dump\n");
    for (int i = 0; i < CRASHES; i++)
        if (sigaction(crashes[i], &before[i], NULL) != 0) say("not put back\n");
    if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

/* The same, but the handler before this one is called. */
static void dumps_and_calls(int number, siginfo_t *info, void *context) {
    say(is_right(number, info, context) ? "dump\n" : "wrong dump\n");
    const struct sigaction *old = &before[0];
    if ((old->sa_flags & SA_SIGINFO) != 0)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL)
        old->sa_handler(number);
}

static void install(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaddset(&action.sa_mask, SIGUSR2);
    for (int i = 0; i < CRASHES; i++)
        REQUIRE(sigaction(crashes[i], &action, &before[i]) == 0);
}

static void crash_reporter(void) {
    use_stack(alternate);
    install(dumps);
    expected = get_freed();
    reads(expected);
}

static void first(int number, siginfo_t *info, void *context) {
    say(number == SIGSEGV && info->si_addr == expected && context != NULL ? "first\n"
                                                                          : "wrong first\n");
    _exit(9);
}

static void chained(void) {
    struct sigaction action = {.sa_sigaction = first, .sa_flags = SA_SIGINFO};
    REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
    use_stack(alternate);
    install(dumps_and_calls);
    REQUIRE(before[0].sa_sigaction == first);
    expected = get_freed();
    reads(expected);
}

/* Two reporters, one in front of the other: each has seen the one before it. */
static struct sigaction outer_before;
static void outer(int number, siginfo_t *info, void *context) {
    say("outer\n");
    outer_before.sa_sigaction(number, info, context);
}

static void two_reporters(void) {
    use_stack(alternate);
    install(dumps);
    struct sigaction action = {.sa_sigaction = outer, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaddset(&action.sa_mask, SIGUSR2);
    REQUIRE(sigaction(SIGSEGV, &action, &outer_before) == 0 && outer_before.sa_sigaction == dumps);
    expected = get_freed();
    reads(expected);
}

/* A fault that is none of ours: only the reporter speaks, and the process dies of it. */
static void crash_elsewhere(void) {
    use_stack(alternate);
    install(dumps);
    expected = (char *)16;
    reads(check_opaque(expected));
}

__attribute__((noinline)) static int deep(int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return n == -1 ? 0 : deep(n + 1) + room[0];
}

static void overflows(int number, siginfo_t *info, void *context) {
    char here;
    say(info->si_addr != NULL && context != NULL && number == SIGSEGV &&
                (uintptr_t)&here - (uintptr_t)stack_lo < stack_size
            ? "dump\n"
            : "wrong dump\n");
    _exit(9);
}

static void stack_overflow(void) {
    use_stack(alternate);
    install(overflows);
    deep(0);
}

/* Threads with stacks of their own fault at one time, and go on. */
static _Atomic(int) dumped;
static pthread_barrier_t together;
static _Thread_local sigjmp_buf thread_back;

static void counts(int number, siginfo_t *info, void *context) {
    char here;
    bool right = number == SIGSEGV && info->si_addr != NULL && context != NULL &&
                 (uintptr_t)&here - (uintptr_t)stack_lo < stack_size;
    dumped += right ? 1 : 1000;
    siglongjmp(thread_back, 1);
}

static void *faults(void *block) {
    static _Thread_local char memory[2 * 8192];
    use_stack(memory);
    pthread_barrier_wait(&together);
    if (sigsetjmp(thread_back, 1) == 0) reads(block);
    return NULL;
}

static void threads(void) {
    enum { THREADS = 4 };
    pthread_t id[THREADS];
    install(counts);
    REQUIRE(pthread_barrier_init(&together, NULL, THREADS) == 0);
    char *blocks[THREADS];
    for (int i = 0; i < THREADS; i++)
        blocks[i] = get();
    for (int i = 0; i < THREADS; i++)
        free(blocks[i]);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&id[i], NULL, faults, check_opaque(blocks[i])) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(id[i], NULL) == 0);
    REQUIRE(dumped == THREADS);
}

/* The handler faults itself, in a guarded block: with SA_NODEFER it comes again. */
static void faults_again(int number, siginfo_t *info, void *context) {
    static volatile sig_atomic_t depth;
    (void)number;
    (void)info;
    (void)context;
    if (++depth == 2) _exit(9);
    reads(expected);
}

static void nested(void) {
    struct sigaction action = {.sa_sigaction = faults_again, .sa_flags = SA_SIGINFO | SA_NODEFER};
    REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
    char *one = get(), *other = get();
    free(one);
    free(other);
    expected = check_opaque(other);
    reads(check_opaque(one));
}

/* guard_handlers_lib.c, a library whose constructor came before, or after, there were guards: its
 * handler is called. */
static void of_library(void) {
    struct sigaction action;
    REQUIRE(library_is_here() && sigaction(SIGSEGV, NULL, &action) == 0 &&
            (action.sa_flags & SA_SIGINFO) != 0);
    expected = get_freed();
    reads(expected); /* its handler ends the process with 11 if that is the address */
}

/* --- recover --- */

static sigjmp_buf back;
static volatile sig_atomic_t called;

static void jumps(int number, siginfo_t *info, void *context) {
    called += number == SIGSEGV && info->si_addr == expected && context != NULL;
    siglongjmp(back, 1);
}

/* A handler of the program's, set before, and later another: neither is called for what was
 * reported, both are for other faults, and what sigaction says stays what the program set. */
static void recovers(void) {
    struct sigaction action = {.sa_sigaction = jumps, .sa_flags = SA_SIGINFO | SA_NODEFER}, old;
    sigaddset(&action.sa_mask, SIGUSR1);
    for (volatile int round = 0; round < 2; round++) {
        REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
        char *freed = get_freed(), *over = get();
        expected = freed;
        REQUIRE(reads(freed) == 0 && reads(freed + 1) == 0);
        expected = over + 48;
        REQUIRE(reads(over + 48) == 0);
        over[48] = 1; /* its page is open now */
        REQUIRE(called == 0);
        REQUIRE(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == jumps &&
                old.sa_flags == (SA_SIGINFO | SA_NODEFER) &&
                sigismember(&old.sa_mask, SIGUSR1) == 1);
        expected = (char *)8;
        if (sigsetjmp(back, 1) == 0) reads(check_opaque(expected));
        REQUIRE(called == 1);
        called = 0;
        REQUIRE(signal(SIGSEGV, SIG_DFL) == (sighandler_t)(uintptr_t)jumps);
        char *later = get_freed(); /* while there is none */
        REQUIRE(reads(later) == 0);
        free(over);
    }
    struct sigaction bus;
    REQUIRE(sigaction(SIGBUS, NULL, &bus) == 0 && bus.sa_handler == SIG_DFL);
    reads(check_opaque((char *)8));
}

/* A crash reporter is not called for what the program survives. */
static void recovers_beside_reporter(void) {
    use_stack(alternate);
    install(dumps);
    REQUIRE(reads(get_freed()) == 0);
    expected = (char *)16;
    reads(check_opaque(expected));
}

/* --- the cases --- */

static const struct test {
    const char *name;
    void (*run)(void);
    const char *said; /* lines of the program's, which come behind all of ours */
    unsigned reports;
    int ends; /* with this signal; -n: with exit status n */
    bool recovers;
} tests[] = {
    {"crash_reporter", crash_reporter, "dump\n", 1, SIGSEGV, false},
    {"chained", chained, "dump\nfirst\n", 1, -9, false},
    {"two_reporters", two_reporters, "outer\ndump\n", 1, SIGSEGV, false},
    {"crash_elsewhere", crash_elsewhere, "dump\n", 0, SIGSEGV, false},
    {"stack_overflow", stack_overflow, "dump\n", 0, -9, false},
    {"threads", threads, "", 4, 0, false},
    {"nested", nested, "", 2, -9, false},
    {"of_library", of_library, "", 1, -11, false},
    {"recovers", recovers, "", 6, SIGSEGV, true},
    {"recovers_beside_reporter", recovers_beside_reporter, "dump\n", 1, SIGSEGV, true},
};
enum { TESTS = sizeof tests / sizeof tests[0] };

static char directory[] = "/tmp/conform-handlers.XXXXXX";

static int to_directory(void *unused) {
    (void)unused;
    return chdir(directory);
}

/* All lines that are the library's come before all that are the program's. */
static bool is_as_said(const struct test *t, const char *err) {
    unsigned reports = 0;
    char own[256] = "";
    for (const char *line = err; *line != 0;) {
        const char *end = strchr(line, '\n');
        size_t n = end != NULL ? (size_t)(end - line) + 1 : strlen(line);
        bool ours = strncmp(line, "numalloc: ", 10) == 0;
        if (ours && own[0] != 0) return false;
        reports += ours && (strncmp(line + 10, "use after free: read of ", 24) == 0 ||
                            strncmp(line + 10, "overflow: read of ", 18) == 0);
        if (!ours) {
            if (strlen(own) + n >= sizeof own) return false;
            strncat(own, line, n);
        }
        line += n;
    }
    return reports == t->reports && strcmp(own, t->said) == 0;
}

int main(int argc, char **argv) {
    check_begin();
    if (argc == 3) {
        if (strcmp(argv[1], "of_library") != 0) signal(SIGSEGV, SIG_DFL);
        for (unsigned i = 0; i < TESTS; i++)
            if (strcmp(argv[1], tests[i].name) == 0) tests[i].run();
        return check_status();
    }
    REQUIRE(mkdtemp(directory) != NULL);
    for (unsigned i = 0; i < TESTS; i++) {
        const struct test *t = &tests[i];
        const char *const env[] = {t->recovers ? "NUMALLOC_GUARD=recover" : "NUMALLOC_GUARD=1",
                                   "NUMALLOC_GUARD_EACH=1", NULL};
        child_result_t result;
        child_run_self(&result, t->name, "0", env, to_directory, NULL);
        bool ended =
            t->ends > 0 ? child_killed_by(&result, t->ends) : child_exited(&result, -t->ends);
        if (ended && is_as_said(t, result.err)) continue;
        check_say("%s: ended with %#x, said:\n%s\n", t->name, result.status, result.err);
        check_count_failure();
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    REQUIRE(system(command) == 0);
    return check_status();
}
