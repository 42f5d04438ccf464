/* leak_cases.c - programs in C whose blocks are reachable, lost, or lost with others. */
#include "leak_cases.h"

#include <alloca.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

void *volatile kept[128]; /* not static: the stores stay */
__thread void *volatile of_thread;

static NOINLINE void *filled(size_t size) {
    void *p = malloc(size);
    memset(p, 0, size);
    escape(p);
    return p;
}

static NOINLINE void lose(unsigned count, size_t size) {
    for (unsigned i = 0; i < count; i++)
        filled(size);
}

static void nothing(void) {
    void *p = filled(100);
    free(p);
}

static void in_static(void) {
    kept[0] = filled(100);
}

static void plain(void) {
    lose(3, 40);
}

static void sizes(void) {
    for (size_t size = 1; size <= 4096; size *= 2)
        lose(1, size);
}

/* Of no bytes. */
static void empty(void) {
    lose(2, 0);
    escape(calloc(0, 8));
}

/* --- the stack, registers --- */

static NOINLINE void end_with(void *volatile *p) {
    escape((const void *)p);
    exit(0);
}

static void on_stack(void) {
    void *volatile p = filled(200);
    end_with(&p);
}

static void on_stack_far(void) {
    void *volatile *array = alloca(100000);
    memset((void *)array, 0, 100000);
    array[6000] = filled(200);
    array[1] = NULL;
    end_with(array);
}

static void in_register(void) {
#ifdef __x86_64__
    void *p = filled(200);
    /* In a register that calls keep; nowhere else. */
    __asm__ volatile(
        "mov %0, %%rbx\n\txor %0, %0\n\txor %%edi, %%edi\n\tand $-16, %%rsp\n\tcall *%1"
        :
        : "a"(p), "r"(exit)
        : "rbx", "memory");
#else
    on_stack();
#endif
}

static void in_returned_frame_(void) {
    void *volatile p = filled(200);
    escape((const void *)&p);
}

static void in_returned_frame(void) {
    in_returned_frame_();
    scrub();
}

/* --- pointers --- */

static void interior(void) {
    kept[0] = (char *)filled(300) + 150;
}

static void last_byte(void) {
    kept[0] = (char *)filled(300) + 299;
}

static void behind_the_end(void) {
    kept[0] = (char *)filled(300) + 300;
}

/* Arrays end where the next block could begin. */
static void array_ends(void) {
    for (size_t size = 16; size <= 16384; size *= 2) {
        static unsigned at;
        char *p[3];
        for (unsigned i = 0; i < 3; i++)
            p[i] = filled(size);
        kept[at++] = p[0] + size;
        kept[at++] = p[1] + size;
        kept[at++] = p[2] + size;
    }
}

static void before(void) {
    kept[0] = (char *)filled(300) - 1;
}

static void hidden(void) {
    kept[0] = (void *)~(uintptr_t)filled(300);
}

static void unaligned(void) {
    void *p = filled(300);
    memcpy((char *)(uintptr_t)kept + 3, &p, sizeof p);
}

static void in_freed(void) {
    void **holder = filled(64);
    holder[3] = filled(300);
    free(holder);
}

static void in_mapping(void) {
    void **page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[10] = filled(300);
    kept[0] = page;
}

/* --- structures --- */

typedef struct node {
    struct node *next, *other;
    char more[32];
} node_t;

static NOINLINE node_t *list_of(unsigned count) {
    node_t *first = NULL;
    for (unsigned i = 0; i < count; i++) {
        node_t *n = filled(sizeof *n);
        n->next = first;
        first = n;
    }
    return first;
}

static void linked(void) {
    kept[0] = list_of(1000);
}

static void list_lost(void) {
    escape(list_of(1000));
}

static void list_cut(void) {
    node_t *first = list_of(10);
    kept[0] = first;
    for (unsigned i = 0; i < 4; i++)
        first = first->next;
    first->next = NULL;
}

static void cycle(void) {
    node_t *first = list_of(3);
    first->next->next->next = first;
}

static void cycle_and_more(void) {
    node_t *first = list_of(2);
    first->next->next = first;
    first->other = filled(100);
}

static void self(void) {
    node_t *n = list_of(1);
    n->next = n;
}

static NOINLINE node_t *tree_of(unsigned depth) {
    if (depth == 0) return NULL;
    node_t *n = filled(sizeof *n);
    n->next = tree_of(depth - 1);
    n->other = tree_of(depth - 1);
    return n;
}

static void tree(void) {
    kept[0] = tree_of(10);
}

static void tree_lost(void) {
    escape(tree_of(10));
}

static void wide(void) { /* more blocks wait to be looked at than there is room for */
    enum { MANY = 300000 };
    void **all = filled(MANY * sizeof *all);
    for (unsigned i = 0; i < MANY; i++) {
        void **one = filled(16);
        one[0] = i % 1000 == 0 ? filled(24) : NULL;
        all[i] = one;
    }
    kept[0] = all;
}

static void two_roads(void) {
    node_t *a = list_of(1), *b = list_of(1);
    a->next = b->next = filled(100);
    kept[0] = a;
}

/* --- kinds of blocks --- */

static void grown(void) {
    char *p = filled(10);
    for (size_t size = 20; size < 200000; size *= 2) {
        p = realloc(p, size);
        memset(p, 0, size);
    }
    kept[0] = p;
}

static void grown_lost(void) {
    char *p = filled(10);
    for (size_t size = 20; size < 200000; size *= 2) {
        p = realloc(p, size);
        memset(p, 0, size);
    }
    escape(p);
}

static void shrunk_lost(void) {
    char *p = realloc(filled(3000), 1000);
    escape(p);
    p = realloc(filled(300000), 100000);
    escape(p);
}

static void shrunk_end(void) { /* a pointer to what was cut off */
    char *p = filled(3000);
    kept[0] = p + 2500;
    p = realloc(p, 1000);
    escape(p);
}

static void aligned_lost(void) {
    void *p;
    if (posix_memalign(&p, 64, 100) != 0) abort();
    memset(p, 0, 100);
    escape(p);
    p = aligned_alloc(4096, 8192);
    memset(p, 0, 8192);
    escape(p);
    p = memalign(256, 1000);
    memset(p, 0, 1000);
    escape(p);
}

static void zeroed_lost(void) {
    escape(calloc(10, 7));
    escape(calloc(1000, 70));
}

static void copies(void) {
    escape(strdup("a text"));
    kept[0] = strndup("another", 4);
    char *line;
    if (asprintf(&line, "%d", 12345) < 0) abort();
    free(line);
}

static void huge(void) {
    enum { SIZE = 64 << 20 };
    void **p = malloc(SIZE);
    p[SIZE / sizeof *p / 2] = NULL;
    p[SIZE / sizeof *p / 2] = filled(100);
    kept[0] = p + 1000;
}

static void huge_lost(void) {
    enum { SIZE = 64 << 20 };
    void **p = malloc(SIZE);
    p[SIZE / sizeof *p - 1] = filled(100);
    escape(p);
}

static void protected_page(void) {
    char *p = aligned_alloc(4096, 4 * 4096);
    memset(p, 0, 4 * 4096);
    *(void **)p = filled(100);
    *(void **)(p + 3 * 4096) = filled(100);
    mprotect(p + 4096, 4096, PROT_NONE);
    kept[0] = p;
}

static void read_only(void) {
    void **p = aligned_alloc(4096, 4096);
    p[7] = filled(100);
    mprotect(p, 4096, PROT_READ);
    kept[0] = p;
}

/* --- threads --- */

static pthread_t threads[64];
static atomic_uint ready;

static void wait_for_ready(unsigned count) {
    while (atomic_load(&ready) < count)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

static _Noreturn void sleep_for_ever(void) {
    atomic_fetch_add(&ready, 1);
    for (;;)
        pause();
}

static void *with_stack(void *unused) {
    (void)unused;
    void *volatile p = filled(500);
    escape((const void *)&p);
    sleep_for_ever();
}

static void *with_tls(void *unused) {
    (void)unused;
    of_thread = filled(500);
    sleep_for_ever();
}

/* A block that nothing but a register holds: MOVE puts it there. */
#ifdef __x86_64__
#define HOLD(move, name)                                                                           \
    __asm__ volatile(move " %0, %%" name "\n\txor %0, %0\n\tlock incl %1\n1:\tpause\n\tjmp 1b"     \
                     :                                                                             \
                     : "a"(filled(500)), "m"(ready)                                                \
                     : name, "memory")
#else
#define HOLD(move, name) (void)0 /* on the stack, then */
#endif

static void *with_register(void *unused) {
    (void)unused;
    HOLD("mov", "r13");
    return with_stack(NULL);
}

static void *with_vector_register(void *unused) {
    (void)unused;
    HOLD("movq", "xmm7");
    return with_stack(NULL);
}

static void *ends_with_stack(void *unused) {
    (void)unused;
    void *volatile p = filled(500);
    escape((const void *)&p);
    return NULL;
}

static void *ends_with_tls(void *unused) {
    (void)unused;
    of_thread = filled(500);
    return NULL;
}

static void start(unsigned count, void *(*run)(void *)) {
    for (unsigned i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, run, NULL);
}

static void threads_stack(void) {
    start(8, with_stack);
    wait_for_ready(8);
}

static void threads_tls(void) {
    start(8, with_tls);
    wait_for_ready(8);
}

static void thread_register(void) {
    start(1, with_register);
    wait_for_ready(1);
}

static void thread_vector(void) {
    start(1, with_vector_register);
    wait_for_ready(1);
}

static void join(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void dead_stack(void) {
    start(1, ends_with_stack);
    join(1);
}

static void dead_tls(void) {
    start(5, ends_with_tls);
    join(5);
}

static void own_tls(void) {
    of_thread = filled(500);
}

static void *computing(void *unused) {
    (void)unused;
    void *held[16] = {0};
    atomic_fetch_add(&ready, 1);
    for (unsigned i = 0;; i++) { /* is stopped anywhere in malloc and free */
        free(held[i % 16]);
        held[i % 16] = malloc(i % 2000);
    }
    return NULL;
}

static void threads_at_work(void) {
    start(3, computing);
    wait_for_ready(3);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    lose(2, 77);
}

static void *exits(void *unused) {
    (void)unused;
    exit(0);
}

static void exit_elsewhere(void) {
    void *volatile p = filled(500);
    escape((const void *)&p);
    start(1, exits);
    pthread_join(threads[0], NULL);
}

static void *ends_last(void *unused) {
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    kept[0] = filled(100);
    lose(1, 33);
    scrub();
    return NULL;
}

static void main_gone(void) {
    start(1, ends_last);
    pthread_detach(threads[0]);
    pthread_exit(NULL);
}

static void own_stack(void) {
    enum { SIZE = 256 << 10 };
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_setstack(&attr, stack, SIZE);
    pthread_create(&threads[0], &attr, with_stack, NULL);
    pthread_attr_destroy(&attr);
    wait_for_ready(1);
}

/* --- what belongs to threads --- */

static pthread_key_t keys[64];

static void specific(void) {
    pthread_key_create(&keys[0], NULL);
    pthread_setspecific(keys[0], filled(600));
}

static void specific_far(void) { /* in a table that the C library allocates */
    for (unsigned i = 0; i < 64; i++)
        pthread_key_create(&keys[i], NULL);
    pthread_setspecific(keys[63], filled(600));
}

static void *sets_specific(void *unused) {
    (void)unused;
    pthread_setspecific(keys[0], filled(600));
    return NULL;
}

static void specific_dead(void) {
    pthread_key_create(&keys[0], NULL);
    start(1, sets_specific);
    join(1);
}

static void *holds_specific(void *unused) {
    (void)unused;
    pthread_setspecific(keys[0], filled(600));
    sleep_for_ever();
}

static void specific_alive(void) {
    pthread_key_create(&keys[0], NULL);
    start(4, holds_specific);
    wait_for_ready(4);
}

/* --- other stacks --- */

static void on_signal(int number) {
    (void)number;
    void *volatile p = filled(700);
    end_with(&p);
}

static void signal_stack(void) {
    enum { SIZE = 64 << 10 };
    char *stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = SIZE}, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    void *volatile under = filled(70);
    escape((const void *)&under);
    raise(SIGUSR1);
}

static ucontext_t here, there;

static void coroutine(void) {
    void *volatile p = filled(800);
    escape((const void *)&p);
    swapcontext(&there, &here);
}

static void coroutine_left(void) {
    enum { SIZE = 128 << 10 };
    getcontext(&there);
    there.uc_stack.ss_sp = filled(SIZE);
    there.uc_stack.ss_size = SIZE;
    makecontext(&there, coroutine, 0);
    swapcontext(&here, &there);
}

/* --- libraries --- */

typedef void *plugin_fn(size_t);

static void *plugin;

static plugin_fn *of_plugin(const char *name) {
    if (plugin == NULL) plugin = dlopen(LEAK_PLUGIN, RTLD_NOW);
    plugin_fn *function = NULL;
    if (plugin != NULL) *(void **)&function = dlsym(plugin, name);
    if (function == NULL) abort();
    return function;
}

static void library_global(void) {
    of_plugin("keep_in_global")(900);
}

static void library_tls(void) {
    of_plugin("keep_in_tls")(900);
}

static void *thread_in_library(void *unused) {
    (void)unused;
    of_plugin("keep_in_tls")(900);
    sleep_for_ever();
}

static void library_tls_thread(void) {
    of_plugin("nothing");
    start(3, thread_in_library);
    wait_for_ready(3);
}

static void library_lost(void) {
    of_plugin("lose")(900);
}

static void library_closed(void) {
    of_plugin("keep_in_global")(900);
    dlclose(plugin);
    plugin = NULL;
}

/* --- ends --- */

static void *freed_late;

static void free_late(void) {
    free(freed_late);
    freed_late = NULL;
}

static void at_exit_frees(void) {
    freed_late = filled(100);
    atexit(free_late);
}

static void forked_child(void) {
    pid_t child = fork();
    if (child == 0) {
        lose(5, 50);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    lose(1, 60);
}

static void at_once(void) {
    lose(1, 60);
    _exit(0);
}

static void quickly(void) {
    lose(1, 60);
    quick_exit(0);
}

static void environment(void) {
    char name[32];
    for (unsigned i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "LEAK_CASE_%u", i);
        setenv(name, "value", 1);
    }
}

static void stream(void) {
    kept[0] = fopen("/dev/null", "w");
    fputs("text", kept[0]);
}

#define N sizeof(node_t)
static const leak_case_t cases[] = {
    {"nothing", nothing, 0, 0, 0, 0},
    {"in_static", in_static, 0, 0, 0, 0},
    {"plain", plain, 3, 120, 0, 0},
    {"sizes", sizes, 13, 8191, 0, 0},
    {"empty", empty, 3, 0, 0, 0},
    {"on_stack", on_stack, 0, 0, 0, 0},
    {"on_stack_far", on_stack_far, 0, 0, 0, 0},
    {"in_register", in_register, 0, 0, 0, 0},
    {"in_returned_frame", in_returned_frame, 1, 200, 0, 0},
    {"interior", interior, 0, 0, 0, 0},
    {"last_byte", last_byte, 0, 0, 0, 0},
    {"behind_the_end", behind_the_end, 1, 300, 0, 0},
    {"array_ends", array_ends, 33, 98256, 0, 0},
    {"before", before, 1, 300, 0, 0},
    {"hidden", hidden, 1, 300, 0, 0},
    {"unaligned", unaligned, 1, 300, 0, 0},
    {"in_freed", in_freed, 1, 300, 0, 0},
    {"in_mapping", in_mapping, 1, 300, 0, 0},
    {"linked", linked, 0, 0, 0, 0},
    {"list_lost", list_lost, 1, N, 999, 999 * N},
    {"list_cut", list_cut, 1, N, 4, 4 * N},
    {"cycle", cycle, 0, 0, 3, 3 * N},
    {"cycle_and_more", cycle_and_more, 0, 0, 3, 2 * N + 100},
    {"self", self, 1, N, 0, 0},
    {"tree", tree, 0, 0, 0, 0},
    {"tree_lost", tree_lost, 1, N, 1022, 1022 * N},
    {"wide", wide, 0, 0, 0, 0},
    {"two_roads", two_roads, 1, N, 0, 0},
    {"grown", grown, 0, 0, 0, 0},
    {"grown_lost", grown_lost, 1, 163840, 0, 0},
    {"shrunk_lost", shrunk_lost, 2, 101000, 0, 0},
    {"shrunk_end", shrunk_end, 1, 1000, 0, 0},
    {"aligned_lost", aligned_lost, 3, 9292, 0, 0},
    {"zeroed_lost", zeroed_lost, 2, 70070, 0, 0},
    {"copies", copies, 1, 7, 0, 0},
    {"huge", huge, 0, 0, 0, 0},
    {"huge_lost", huge_lost, 1, 64 << 20, 1, 100},
    {"protected_page", protected_page, 0, 0, 0, 0},
    {"read_only", read_only, 0, 0, 0, 0},
    {"threads_stack", threads_stack, 0, 0, 0, 0},
    {"threads_tls", threads_tls, 0, 0, 0, 0},
    {"thread_register", thread_register, 0, 0, 0, 0},
    {"thread_vector", thread_vector, 0, 0, 0, 0},
    {"dead_stack", dead_stack, 1, 500, 0, 0},
    {"dead_tls", dead_tls, 5, 2500, 0, 0},
    {"own_tls", own_tls, 0, 0, 0, 0},
    {"threads_at_work", threads_at_work, 2, 154, 0, 0},
    {"exit_elsewhere", exit_elsewhere, 0, 0, 0, 0},
    {"main_gone", main_gone, 1, 33, 0, 0},
    {"own_stack", own_stack, 0, 0, 0, 0},
    {"specific", specific, 0, 0, 0, 0},
    {"specific_far", specific_far, 0, 0, 0, 0},
    {"specific_dead", specific_dead, 1, 600, 0, 0},
    {"specific_alive", specific_alive, 0, 0, 0, 0},
    {"signal_stack", signal_stack, 0, 0, 0, 0},
    {"coroutine_left", coroutine_left, 0, 0, 0, 0},
    {"library_global", library_global, 0, 0, 0, 0},
    {"library_tls", library_tls, 0, 0, 0, 0},
    {"library_tls_thread", library_tls_thread, 0, 0, 0, 0},
    {"library_lost", library_lost, 1, 900, 0, 0},
    {"library_closed", library_closed, 1, 900, 0, 0},
    {"at_exit_frees", at_exit_frees, 0, 0, 0, 0},
    {"forked_child", forked_child, 1, 60, 0, 0},
    {"at_once", at_once, 0, 0, 0, 0},
    {"quickly", quickly, 0, 0, 0, 0},
    {"environment", environment, 0, 0, 0, 0},
    {"stream", stream, 0, 0, 0, 0},
};

int main(int argc, char **argv) {
    return run_case(cases, sizeof cases / sizeof cases[0], argc, argv);
}
