/* test_unwind.c - the unwinder against libunwind, frame by frame, on the stacks that are hard. */
#include <alloca.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "profiler/record/unwind/unwind.h"

#define MAX 1024

static _Thread_local na_unwind_thread_t state;
static _Thread_local uintptr_t ours[MAX];
static _Thread_local void *theirs[MAX];
static _Thread_local size_t n_ours;
static _Thread_local int n_theirs;
static _Thread_local uint64_t exact_bits;
static _Thread_local bool cut, mismatch;

TestSuite(unwind);

static void setup(void) {
    na_unwind_init(NULL, false);
}

/* Two captures from one spot: the innermost frame is this function in both, at another call; all
 * frames above it must be equal, and be complete in both. */
static __attribute__((noinline)) void capture(na_unwind_thread_t *t) {
    int saved = errno = 77;
    n_ours = na_unwind_thread(t, ours, MAX, &exact_bits, &cut);
    saved = errno;
    n_theirs = unw_backtrace(theirs, MAX);
    if (saved != 77 || n_ours < 3 || (size_t)n_theirs != n_ours) mismatch = true;
    for (size_t i = 1; i < n_ours && i < (size_t)n_theirs; i++)
        if (ours[i] != (uintptr_t)theirs[i]) mismatch = true;
    __asm__ volatile("" ::: "memory");
}

static void check(const char *what, size_t at_least) {
    cr_assert(!cut, "%s: truncated after %zu frames, libunwind has %d", what, n_ours, n_theirs);
    cr_assert(!mismatch, "%s: %zu frames, libunwind has %d", what, n_ours, n_theirs);
    cr_assert_geq(n_ours, at_least, "%s: only %zu frames", what, n_ours);
}

static __attribute__((noinline)) int recurse(int depth) {
    if (depth == 0)
        capture(&state);
    else
        recurse(depth - 1);
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return depth;
}

Test(unwind, recursion, .init = setup) {
    recurse(3);
    check("recursion, cold", 5);
    recurse(3);
    check("recursion, cached", 5);
    recurse(500);
    check("500 frames", 501);
}

Test(unwind, without_thread_state, .init = setup) {
    capture(NULL);
    check("no state", 3);
}

static int compare(const void *a, const void *b) {
    recurse(1);
    return *(const int *)a - *(const int *)b;
}

Test(unwind, through_qsort, .init = setup) {
    int v[] = {5, 4, 3, 2, 1, 9, 7, 8};
    qsort(v, 8, sizeof *v, compare);
    check("qsort", 5);
    cr_assert_eq(v[0], 1);
}

static __attribute__((noinline)) void with_alloca(size_t n, int depth) {
    volatile char *p = alloca(n);
    p[0] = 1;
    if (depth > 0)
        with_alloca(n + 40, depth - 1);
    else
        capture(&state);
    p[n - 1] = 2;
}

Test(unwind, alloca_frames, .init = setup) {
    with_alloca(100, 10);
    check("alloca", 13);
}

/* An over-aligned local together with alloca makes gcc keep the argument pointer (DRAP): the CFA is
 * then an expression. */
static __attribute__((noinline)) void realigned(size_t n, int depth) {
    _Alignas(64) volatile char big[192];
    volatile char *p = alloca(n);
    p[0] = big[0] = 3;
    cr_assert_eq((uintptr_t)big % 64, 0);
    if (depth > 0)
        realigned(n + 24, depth - 1);
    else
        capture(&state);
    p[n - 1] = big[1] = 2;
}

Test(unwind, realigned_frames, .init = setup) {
    realigned(50, 6);
    check("stack realignment", 9);
}

/* A frame too large for a packed rule takes the exact walker. */
static __attribute__((noinline)) void huge_frame(void) {
    volatile char big[3 << 20];
    big[0] = 1;
    capture(&state);
    big[sizeof big - 1] = 2;
}

Test(unwind, huge_frame, .init = setup) {
    huge_frame();
    check("3 MiB frame", 4);
}

/* A CFA in rbx, as in the dynamic linker's trampolines: only the exact walker has that register. */
__attribute__((naked, noinline)) static void cfa_in_rbx(void (*f)(int) __attribute__((unused))) {
    __asm__("pushq %rbx\n\t"
            ".cfi_def_cfa_offset 16\n\t"
            ".cfi_offset rbx, -16\n\t"
            "movq %rsp, %rbx\n\t"
            ".cfi_def_cfa_register rbx\n\t"
            "andq $-64, %rsp\n\t"
            "movq %rdi, %rax\n\t"
            "movl $2, %edi\n\t"
            "call *%rax\n\t"
            "movq %rbx, %rsp\n\t"
            ".cfi_def_cfa_register rsp\n\t"
            "popq %rbx\n\t"
            ".cfi_def_cfa_offset 8\n\t"
            ".cfi_restore rbx\n\t"
            "ret");
}

static void recurse_void(int depth) {
    recurse(depth);
    __asm__ volatile("" ::: "memory");
}

Test(unwind, cfa_in_another_register, .init = setup) {
    cfa_in_rbx(recurse_void);
    check("CFA in rbx", 7);
}

static void on_signal(int sig) {
    (void)sig;
    recurse(2);
}

Test(unwind, signal_handler, .init = setup) {
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &sa, NULL);
    raise(SIGUSR1);
    check("signal", 8);
    cr_assert_neq(exact_bits, 0, "the interrupted frame is a return address of nothing");
}

Test(unwind, signal_handler_on_its_own_stack, .init = setup) {
    stack_t ss = {.ss_size = 1 << 17};
    ss.ss_sp = mmap(NULL, ss.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&ss, NULL);
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &sa, NULL);
    recurse(1); /* the thread's own stack is known */
    raise(SIGUSR1);
    check("signal on its own stack", 8);
    recurse(1);
    check("and after it", 4);
}

static void *in_thread(void *arg) {
    recurse(20);
    *(bool *)arg = !mismatch && !cut && n_ours > 22;
    return NULL;
}

Test(unwind, threads, .init = setup) {
    pthread_t t[8];
    bool ok[8] = {false};
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&t[i], NULL, in_thread, &ok[i]), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], NULL);
        cr_assert(ok[i], "thread %d", i);
    }
}

static ucontext_t back, fiber;

static void in_fiber(void) {
    recurse(5);
    swapcontext(&fiber, &back);
}

Test(unwind, coroutine, .init = setup) {
    recurse(1);
    size_t bytes = 1 << 16;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&fiber);
    fiber.uc_stack = (stack_t){.ss_sp = stack, .ss_size = bytes};
    fiber.uc_link = &back;
    makecontext(&fiber, in_fiber, 0);
    swapcontext(&back, &fiber);
    cr_assert_geq(n_ours, 8);
    /* Once unmapped, a stack at the same place is not taken for readable beyond its end. */
    munmap(stack + bytes / 2, bytes / 2);
    getcontext(&fiber);
    fiber.uc_stack = (stack_t){.ss_sp = stack, .ss_size = bytes / 2};
    fiber.uc_link = &back;
    makecontext(&fiber, in_fiber, 0);
    swapcontext(&back, &fiber);
    cr_assert_geq(n_ours, 8);
}

static void capture_ours(void) {
    n_ours = na_unwind_thread(&state, ours, MAX, &exact_bits, &cut);
    __asm__ volatile("" ::: "memory");
}

/* A frame whose unwind information says that the CFA is rbp + 16, with `fp` in rbp. */
__attribute__((naked, noinline)) static void smash_known(void (*f)(void) __attribute__((unused)),
                                                         uintptr_t fp __attribute__((unused))) {
    __asm__("pushq %rbp\n\t"
            ".cfi_def_cfa rbp, 16\n\t"
            ".cfi_offset rbp, -16\n\t"
            "movq %rsi, %rbp\n\t"
            "call *%rdi\n\t"
            "popq %rbp\n\t"
            "ret");
}

/* The same without unwind information. */
__asm__(".text\n"
        "smash_lost:\n\t" /* no .cfi_startproc */
        "pushq %rbp\n\t"
        "movq %rsi, %rbp\n\t"
        "call *%rdi\n\t"
        "popq %rbp\n\t"
        "ret\n");
extern void smash_lost(void (*f)(void), uintptr_t fp);

Test(unwind, garbage_does_not_crash, .init = setup) {
    uintptr_t words[64] = {0};
    const uintptr_t bad[] = {0,
                             1,
                             8,
                             0x1000,
                             UINTPTR_MAX - 7,
                             UINTPTR_MAX,
                             1 << 20,
                             0x7fffffff000,
                             1UL << 62,
                             0xdeadbeef,
                             (uintptr_t)&words[10],
                             (uintptr_t)&words[60] + 3,
                             (uintptr_t)bad};
    const size_t n = sizeof bad / sizeof *bad;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            words[10] = words[60] = bad[i];
            words[11] = words[61] = bad[j];
            smash_known(capture_ours, bad[i]);
            smash_lost(capture_ours, bad[j]);
            smash_known(capture_ours, (uintptr_t)&words[10]);
            smash_lost(capture_ours, (uintptr_t)&words[60]);
            cr_assert_geq(n_ours, 1);
        }
    }
    smash_known(capture_ours, 0x1000);
    cr_assert(cut, "a broken frame is said to be one");
}

static void few_frames(void) {
    static uintptr_t few[4];
    bool truncated = false;
    cr_assert_eq(na_unwind(few, 4, &truncated), 4);
    cr_assert(truncated);
}

Test(unwind, small_buffer_is_said, .init = setup) {
    few_frames();
}

/* A plugin is unloaded and a rebuilt one takes its addresses: rules of the old must not be used. */
Test(unwind, plugin_takes_the_place_of_another, .init = setup) {
    static const char *const files[] = {PLUGIN_A, PLUGIN_B};
    void *at[2] = {NULL};
    for (int i = 0; i < 6; i++) {
        void *d = dlopen(files[i % 2], RTLD_NOW);
        cr_assert(d != NULL, "%s", dlerror());
        void (*plugin)(void (*)(int));
        *(void **)&plugin = dlsym(d, "plugin");
        cr_assert(plugin != NULL);
        at[i % 2] = *(void **)&plugin;
        unw_flush_cache(unw_local_addr_space, 0,
                        0); /* the oracle has the fault that is tested for */
        plugin(recurse_void);
        cr_assert(!cut && !mismatch, "load %d: %zu frames, libunwind has %d", i, n_ours, n_theirs);
        dlclose(d);
    }
    cr_assert_eq(at[0], at[1], "the second plugin did not take the place of the first");
}
