/* stacks_stress.c - allocates on stacks that are hard to follow, or easy to mistake for the last.
 *
 *   stacks_stress MODE [COUNT]     the mode's own line is printed when it is done
 *
 * profile_stacks.sh runs it on a library that holds every recorded stack against an exact walk.
 * Built with and without frame pointers. */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define APART   __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory") /* no tail call */

static _Thread_local uint64_t state = 1;

static unsigned draw(unsigned below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % below);
}

static void allocate(void) {
    void *volatile p = malloc(16 + draw(200));
    free(p);
}

/* ---- a forest of calls: functions that differ in frame, alignment, and what they keep in rbp ----
 */

static void visit(unsigned depth);
static void (*at_leaf)(void) = allocate;

APART static void small_frame(unsigned depth) {
    visit(depth);
    BARRIER;
}

APART static void large_frame(unsigned depth) {
    volatile char frame[400];
    frame[0] = (char)depth;
    visit(depth);
    frame[1] = frame[0];
}

/* Frames of one size: only the return address tells them apart. */
#define TWIN(name)                                                                                 \
    APART static void name(unsigned depth) {                                                       \
        volatile char frame[64];                                                                   \
        frame[0] = (char)depth;                                                                    \
        visit(depth);                                                                              \
        frame[1] = frame[0];                                                                       \
    }
TWIN(twin_a)
TWIN(twin_b)
TWIN(twin_c)

APART static void with_alloca(unsigned depth) {
    unsigned n = 8 + draw(300);
    volatile char *p = alloca(n);
    p[0] = (char)depth;
    visit(depth);
    p[n - 1] = 1;
}

APART static void with_array(unsigned depth) {
    unsigned n = 1 + draw(60);
    volatile long array[n];
    array[n - 1] = (long)depth;
    visit(depth);
    array[0] = array[n - 1];
}

APART static void realigned(unsigned depth) {
    _Alignas(64) volatile char block[128];
    volatile char *p = alloca(8 + draw(100));
    block[0] = p[0] = (char)depth;
    visit(depth);
    p[1] = block[1] = 1;
}

/* Everything that is kept over a call is live here, so rbp holds a value of the program's. */
APART static void busy_registers(unsigned depth) {
    uintptr_t a = draw(1000), b = draw(1000), c = draw(1000), d = draw(1000), e = draw(1000),
              f = draw(1000);
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    visit(depth);
    __asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
}

static int compare(const void *a, const void *b) {
    if (draw(4) == 0) allocate();
    return *(const int *)a - *(const int *)b;
}

/* Through code of the C library. */
APART static void through_qsort(unsigned depth) {
    int v[6];
    for (unsigned i = 0; i < 6; i++)
        v[i] = (int)draw(100);
    qsort(v, 6, sizeof v[0], compare);
    visit(depth);
    BARRIER;
}

static void visit(unsigned depth) {
    static void (*const kinds[])(unsigned) = {small_frame, large_frame,  twin_a,     twin_b,
                                              twin_c,      with_alloca,  with_array, busy_registers,
                                              realigned,   through_qsort};
    if (draw(3) == 0) at_leaf();
    if (depth == 0) return;
    for (unsigned calls = 1 + (draw(3) == 0); calls-- > 0;)
        kinds[draw(sizeof kinds / sizeof kinds[0])](depth - 1);
    if (draw(4) == 0) at_leaf();
}

static void forest(long count) {
    for (long i = 0; i < count; i++)
        visit(4 + draw(12));
}

/* ---- longjmp ---- */

static _Thread_local jmp_buf landing;

static void jump_perhaps(void) {
    allocate();
    if (draw(12) == 0) longjmp(landing, 1);
}

static void jumps(long count) {
    volatile long i = 0;
    at_leaf = jump_perhaps;
    setjmp(landing);
    while (i++ < count)
        visit(4 + draw(8));
    at_leaf = allocate;
}

/* ---- signals: on the stack of the thread, on one of their own, while anything goes on ---- */

static volatile sig_atomic_t handled;

static void on_signal(int signal) {
    (void)signal;
    handled++;
    uint64_t kept = state;
    visit(3);
    state = kept;
}

/* No malloc is made for handlers that interrupt it where it gets memory. So all that allocate asks
 * for is there before the first signal: from then on bins are popped from and pushed to. */
static void fill_bins(void) {
    void *blocks[4];
    for (size_t size = 16; size < 16 + 200 + 16; size += 16) {
        for (unsigned i = 0; i < 4; i++)
            blocks[i] = malloc(size);
        for (unsigned i = 0; i < 4; i++)
            free(blocks[i]);
    }
}

static void signals(long count) {
    fill_bins();
    stack_t alternate = {.ss_size = 1 << 18};
    alternate.ss_sp =
        mmap(NULL, alternate.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&alternate, NULL);
    for (int own = 0; own < 2; own++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = own ? SA_ONSTACK : 0};
        sigaction(SIGALRM, &action, NULL);
        sigaction(SIGUSR1, &action, NULL);
        for (long i = 0; i < count; i++) {
            /* Once: a machine that is busy must not do nothing but handle signals. */
            struct itimerval once = {{0, 0}, {0, 20 + (int)draw(300)}};
            if (i % 4 == 0) setitimer(ITIMER_REAL, &once, NULL);
            visit(4 + draw(8));
            if (draw(50) == 0) raise(SIGUSR1);
        }
        struct itimerval never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &never, NULL);
    }
    if (handled == 0) {
        fprintf(stderr, "stacks_stress: no signal came\n");
        exit(1);
    }
}

/* ---- coroutines: stacks that come, go, and come back smaller at the same address ---- */

enum { FIBERS = 4 };
static ucontext_t scheduler, fiber[FIBERS];
static char *fiber_stack[FIBERS];
static size_t fiber_bytes[FIBERS];
static int running;
static bool fiber_done[FIBERS];

static void yield_perhaps(void) {
    allocate();
    if (draw(3) == 0) swapcontext(&fiber[running], &scheduler);
    allocate();
}

static void in_fiber(void) {
    visit(4 + draw(6));
    fiber_done[running] = true;
}

static void start_fiber(int i) {
    if (fiber_stack[i] != NULL) munmap(fiber_stack[i], fiber_bytes[i]);
    fiber_bytes[i] = (size_t)(32 + 16 * draw(4)) << 10;
    fiber_stack[i] = mmap(fiber_stack[i], fiber_bytes[i], PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&fiber[i]);
    fiber[i].uc_stack = (stack_t){.ss_sp = fiber_stack[i], .ss_size = fiber_bytes[i]};
    fiber[i].uc_link = &scheduler;
    makecontext(&fiber[i], in_fiber, 0);
    fiber_done[i] = false;
}

APART static void schedule(long count) {
    for (int i = 0; i < FIBERS; i++)
        start_fiber(i);
    for (long i = 0; i < count; i++) {
        running = (int)draw(FIBERS);
        if (fiber_done[running]) start_fiber(running);
        swapcontext(&scheduler, &fiber[running]);
        allocate();
    }
}

static void fibers(long count) {
    at_leaf = yield_perhaps;
    schedule(count);
    at_leaf = allocate;
}

/* Coroutines on pieces of the thread's own stack, one after the other in the same place. */
static void inner_fibers(long count) {
    volatile char room[128 << 10];
    room[0] = 0;
    for (long i = 0; i < count; i++) {
        size_t bytes = (size_t)(32 + draw(64)) << 10;
        running = 0;
        getcontext(&fiber[0]);
        fiber[0].uc_stack = (stack_t){.ss_sp = (void *)room, .ss_size = bytes};
        fiber[0].uc_link = &scheduler;
        makecontext(&fiber[0], in_fiber, 0);
        swapcontext(&scheduler, &fiber[0]);
        allocate();
    }
}

/* ---- generated code: frames of unknown size, replaced by others at the same address ---- */

#if defined(__x86_64__)
static void generated(long count) {
    static const unsigned char with_rbp[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    /* push rbp; mov rbp, rsp; sub rsp, 32; nops; call rdi at the same place; leave; ret */
    static const unsigned char larger[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83,
                                           0xec, 0x20, 0xff, 0xd7, 0xc9, 0xc3};
    static const unsigned char without[] = {0x48, 0x83, 0xec, 0x18, 0xff, 0xd7,
                                            0x48, 0x83, 0xc4, 0x18, 0xc3};
    static const struct {
        const unsigned char *bytes;
        size_t size;
    } codes[] = {{with_rbp, sizeof with_rbp}, {larger, sizeof larger}, {without, sizeof without}};
    unsigned char *at = NULL;
    for (long i = 0; i < count; i++) {
        unsigned k = draw(3);
        unsigned char *p = mmap(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0), -1, 0);
        if (p == MAP_FAILED) exit(1);
        at = p;
        memcpy(p, codes[k].bytes, codes[k].size);
        void (*call)(void (*)(void));
        *(void **)&call = (void *)p;
        for (unsigned n = 0; n < 3; n++)
            call(at_leaf);
        visit(3);
    }
}
#else
static void generated(long count) {
    forest(count);
}
#endif

/* ---- deep recursion, up to the guard page ---- */

APART static int deep(long left, uintptr_t lowest) {
    volatile char frame[16];
    frame[0] = (char)left;
    if (left % 97 == 0 || left < 3) allocate();
    int below = 0;
    if (left > 0 && (uintptr_t)frame > lowest) below = deep(left - 1, lowest);
    BARRIER;
    if (left % 89 == 0) allocate();
    return below + frame[0];
}

static void *to_the_guard(void *argument) {
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &bytes);
    pthread_attr_destroy(&attributes);
    deep(1L << 40, (uintptr_t)stack + *(const size_t *)argument);
    return NULL;
}

static void exhaustion(long count) {
    deep(count * 100, 0);
    static size_t left = 12 << 10; /* what a capture, and its test, may need */
    for (int i = 0; i < 3; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, (size_t)(512 + 64 * i) << 10);
        if (pthread_create(&thread, &attributes, to_the_guard, &left) != 0) exit(1);
        pthread_join(thread, NULL);
        pthread_attr_destroy(&attributes);
    }
}

/* ---- threads, whose stacks are used again ---- */

static void *in_thread(void *argument) {
    state = (uintptr_t)argument * 7919;
    for (int i = 0; i < 20; i++)
        visit(3 + draw(8));
    return NULL;
}

static void threads(long count) {
    for (long i = 0; i < count; i++) {
        pthread_t thread[3];
        for (uintptr_t k = 0; k < 3; k++)
            if (pthread_create(&thread[k], NULL, in_thread, (void *)((uintptr_t)i * 3 + k + 1)))
                exit(1);
        visit(5);
        for (int k = 0; k < 3; k++)
            pthread_join(thread[k], NULL);
    }
}

/* A child on a stack of its own in the same memory and thread block, as posix_spawn makes it. */
static int in_clone(void *argument) {
    (void)argument;
    visit(6);
    return 0;
}

static void clones(long count) {
    size_t bytes = 256 << 10;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < count; i++) {
        visit(4);
        int pid = clone(in_clone, stack + bytes, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        int status = 1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) exit(1);
    }
}

/* ---- libraries that take each other's place, with other frames around the same call ---- */

static const char *plugin_files[2];

static void call_leaf(int depth) {
    if (depth > 0) call_leaf(depth - 1);
    at_leaf();
    BARRIER;
}

static void plugins(long count) {
    void *places[2] = {NULL, NULL};
    bool same_place = false;
    for (long i = 0; i < count; i++) {
        unsigned k = draw(2);
        void *library = dlopen(plugin_files[k], RTLD_NOW);
        void (*plugin)(void (*)(int)) = NULL;
        if (library != NULL) *(void **)&plugin = dlsym(library, "plugin");
        if (plugin == NULL) {
            fprintf(stderr, "stacks_stress: %s\n", dlerror());
            exit(1);
        }
        places[k] = *(void **)&plugin;
        same_place = same_place || places[0] == places[1];
        for (unsigned n = 1 + draw(3); n-- > 0;)
            plugin(call_leaf);
        dlclose(library);
    }
    if (!same_place) {
        fprintf(stderr, "stacks_stress: no plugin took the place of another\n");
        exit(1);
    }
}

/* The trap of stopping a walk at the first frame that is as it was: a plugin whose frame is 32
 * bytes larger takes the other's place and is called by a function whose frame is 32 bytes smaller.
 * Its own frame is then in the same state, and where the other's return address was it has a local
 * that nobody wrote to: what the other left there. A second thread changes the plugins, so that
 * nothing runs over that word. */
static _Atomic int wanted = -1, loaded = -1;
static void (*plugin_now)(void (*)(int));
static void *plugin_place[2];

static void *change_plugins(void *argument) {
    void *library = NULL;
    for (int k = -1;;) {
        int next = wanted;
        if (next == k) {
            sched_yield();
            continue;
        }
        if (library != NULL) dlclose(library);
        if (next < 0) return argument;
        library = dlopen(plugin_files[next], RTLD_NOW);
        if (library == NULL) exit(1);
        *(void **)&plugin_now = dlsym(library, "plugin");
        plugin_place[next] = *(void **)&plugin_now;
        loaded = k = next;
    }
}

APART static void caller_of_small(void) {
    volatile char frame[96];
    frame[0] = 1;
    plugin_now(call_leaf);
    frame[95] = frame[0];
}

APART static void caller_of_large(void) {
    volatile char frame[64];
    frame[0] = 1;
    plugin_now(call_leaf);
    frame[63] = frame[0];
}

static void replaced(long count) {
    static void (*const callers[2])(void) = {caller_of_small, caller_of_large};
    pthread_t thread;
    if (pthread_create(&thread, NULL, change_plugins, NULL) != 0) exit(1);
    for (long i = 0; i < count; i++) {
        int k = (int)(i & 1);
        wanted = k;
        while (loaded != k) {
        }
        for (int n = 0; n < 5; n++) /* the last ones find what the first ones left */
            callers[k]();
    }
    wanted = -2;
    pthread_join(thread, NULL);
    if (plugin_place[0] != plugin_place[1]) {
        fprintf(stderr, "stacks_stress: no plugin took the place of another\n");
        exit(1);
    }
}

/* The trap of not comparing rbp where a walk joins the last one: a function takes room on its stack
 * up to the same place each time, and is called by two of different size. What it calls is then in
 * the same state but for rbp; and where the return address was that rbp led to the last time lies
 * room that nobody wrote to. */
static uintptr_t room_end;

APART static void leaf_in_room(void) {
    allocate();
    BARRIER;
}

APART static void in_room(void) {
    leaf_in_room();
    BARRIER;
}

APART static void with_room(void) {
    volatile char *room = alloca((uintptr_t)__builtin_frame_address(0) - room_end);
    __asm__ volatile("" ::"r"(room));
    in_room();
    BARRIER;
}

APART static void caller_with_much(void) {
    volatile char frame[96];
    frame[0] = 1;
    with_room();
    frame[95] = frame[0];
}

APART static void caller_with_less(void) {
    volatile char frame[32];
    frame[0] = 1;
    with_room();
    frame[31] = frame[0];
}

static void rooms(long count) {
    static void (*const callers[2])(void) = {caller_with_much, caller_with_less};
    room_end = ((uintptr_t)__builtin_frame_address(0) - 1024) & ~(uintptr_t)15;
    for (long i = 0; i < count; i++)
        callers[draw(2)]();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(long);
        long count;
    } modes[] = {{"forest", forest, 1500},
                 {"jumps", jumps, 4000},
                 {"signals", signals, 1500},
                 {"fibers", fibers, 10000},
                 {"inner_fibers", inner_fibers, 600},
                 {"generated", generated, 1500},
                 {"exhaustion", exhaustion, 600},
                 {"threads", threads, 60},
                 {"clones", clones, 200},
                 {"plugins", plugins, 800},
                 {"replaced", replaced, 400},
                 {"rooms", rooms, 4000}};
    for (unsigned i = 0; argc >= 2 && i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) != 0) continue;
        if (argc >= 4) plugin_files[0] = argv[2], plugin_files[1] = argv[3];
        modes[i].run(modes[i].count);
        printf("done: %s\n", modes[i].name);
        return 0;
    }
    fprintf(stderr, "usage: stacks_stress MODE [PLUGIN PLUGIN]\n");
    return 2;
}
