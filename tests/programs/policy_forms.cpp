/* policy_forms.cpp - every form of allocation under a rule, in C and in C++; libraries that are
 * opened; threads and children meanwhile.
 *
 *   policy_forms forms               each form's blocks come from the heap of its rule, no others
 *   policy_forms open PLUGIN...      ruled as soon as dlopen returns, while threads come and go
 *   policy_forms by-name PLUGIN      the same, by a name that the loader has to look for
 *   policy_forms fork PLUGIN OTHER   a child that is forked while another thread binds binds, too
 *
 * Its rules are those of policy_forms.sh: each function that begins with `by_`, and plugin_site.
 * Status 0: all is so. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#define SITE extern "C" __attribute__((noinline, noclone, noipa)) void *

static void *(*heap_of)(const void *);

static void expect(bool right, const char *what, unsigned line) {
    if (right) return;
    fprintf(stderr, "policy_forms: line %u: %s\n", line, what);
    _exit(1);
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)

/* Keeps the call from being one in tail position: its return address is what rules name. */
static void *keep(void *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

SITE by_malloc(size_t n) {
    return keep(malloc(n));
}
SITE by_calloc(size_t n) {
    return keep(calloc(n, 1));
}
SITE by_realloc(size_t n) {
    return keep(realloc(nullptr, n));
}
SITE by_aligned_alloc(size_t n) {
    return keep(aligned_alloc(128, (n + 127) / 128 * 128));
}
SITE by_memalign(size_t n) {
    return keep(memalign(128, n));
}
SITE by_posix_memalign(size_t n) {
    void *block = nullptr;
    EXPECT(posix_memalign(&block, 128, n) == 0);
    return keep(block);
}
SITE by_new(size_t n) {
    return keep(::operator new(n));
}
SITE by_new_array(size_t n) {
    return keep(new char[n]);
}
SITE by_new_nothrow(size_t n) {
    return keep(::operator new(n, std::nothrow));
}
SITE by_new_array_nothrow(size_t n) {
    return keep(::operator new[](n, std::nothrow));
}
SITE by_new_aligned(size_t n) {
    return keep(::operator new(n, std::align_val_t(128)));
}
SITE by_new_array_aligned(size_t n) {
    return keep(::operator new[](n, std::align_val_t(128)));
}
SITE by_new_aligned_nothrow(size_t n) {
    return keep(::operator new(n, std::align_val_t(128), std::nothrow));
}
SITE by_new_array_aligned_nothrow(size_t n) {
    return keep(::operator new[](n, std::align_val_t(128), std::nothrow));
}
SITE not_by_rule(size_t n) {
    return keep(::operator new(n));
}

static void with_free(void *block, size_t) {
    free(block);
}
static void with_delete(void *block, size_t) {
    ::operator delete(block);
}
static void with_sized(void *block, size_t n) {
    ::operator delete(block, n);
}
static void with_array(void *block, size_t) {
    delete[] static_cast<char *>(block);
}
static void with_aligned(void *block, size_t) {
    ::operator delete(block, std::align_val_t(128));
}
static void with_array_aligned(void *block, size_t n) {
    ::operator delete[](block, n, std::align_val_t(128));
}

static const struct form {
    const char *name;
    void *(*site)(size_t);
    void (*release)(void *, size_t);
    bool zeroed, aligned, ruled;
} forms[] = {
    {"malloc", by_malloc, with_free, false, false, true},
    {"calloc", by_calloc, with_free, true, false, true},
    {"realloc", by_realloc, with_free, false, false, true},
    {"aligned_alloc", by_aligned_alloc, with_free, false, true, true},
    {"memalign", by_memalign, with_free, false, true, true},
    {"posix_memalign", by_posix_memalign, with_free, false, true, true},
    {"new", by_new, with_sized, false, false, true},
    {"new[]", by_new_array, with_array, false, false, true},
    {"nothrow new", by_new_nothrow, with_delete, false, false, true},
    {"nothrow new[]", by_new_array_nothrow, with_array, false, false, true},
    {"aligned new", by_new_aligned, with_aligned, false, true, true},
    {"aligned new[]", by_new_array_aligned, with_array_aligned, false, true, true},
    {"aligned nothrow new", by_new_aligned_nothrow, with_aligned, false, true, true},
    {"aligned nothrow new[]", by_new_array_aligned_nothrow, with_array_aligned, false, true, true},
    {"new without a rule", not_by_rule, with_delete, false, false, false},
};

static void check(const form &f, size_t size) {
    char *block = static_cast<char *>(f.site(size));
    bool right = block != nullptr && (heap_of(block) != nullptr) == f.ruled &&
                 (!f.aligned || reinterpret_cast<uintptr_t>(block) % 128 == 0) &&
                 malloc_usable_size(block) >= size;
    for (size_t i = 0; right && f.zeroed && i < size; i++)
        right = block[i] == 0;
    if (!right) fprintf(stderr, "policy_forms: %s of %zu bytes\n", f.name, size);
    EXPECT(right);
    memset(block, 0xa5, size);
    f.release(block, size);
}

static std::atomic<bool> stop;

static void *all_forms(void *) {
    static const size_t sizes[] = {1, 24, 200, 3000, 40000, 3000000};
    for (size_t size : sizes)
        for (const form &f : forms)
            for (unsigned i = 0; i < (size > 10000 ? 3u : 300u); i++)
                check(f, size);
    return nullptr;
}

static void *until_stopped(void *) {
    while (!stop)
        for (const form &f : forms)
            check(f, 100);
    return nullptr;
}

static void *short_life(void *) {
    check(forms[0], 64);
    check(forms[6], 64);
    return nullptr;
}

typedef void *plugin_site_t(size_t);

static void expect_ruled(void *handle) {
    EXPECT(handle != nullptr);
    plugin_site_t *site = reinterpret_cast<plugin_site_t *>(dlsym(handle, "plugin_site"));
    EXPECT(site != nullptr);
    for (size_t size = 1; size < 5000; size += 37) {
        void *block = site(size);
        EXPECT(block != nullptr && heap_of(block) != nullptr);
        free(block);
    }
}

static void open_while_threads_run(int count, char **plugins) {
    pthread_t threads[2];
    for (pthread_t &t : threads)
        EXPECT(pthread_create(&t, nullptr, until_stopped, nullptr) == 0);
    for (int i = 0; i < count; i++) {
        pthread_t passing;
        EXPECT(pthread_create(&passing, nullptr, short_life, nullptr) == 0);
        void *handle = dlopen(plugins[i], RTLD_NOW | RTLD_LOCAL);
        expect_ruled(handle);
        EXPECT(pthread_join(passing, nullptr) == 0);
        /* Closed and opened: it has stayed, and so has its rule. */
        EXPECT(dlclose(handle) == 0);
        expect_ruled(dlopen(plugins[i], RTLD_LAZY | RTLD_LOCAL));
    }
    stop = true;
    for (pthread_t t : threads)
        EXPECT(pthread_join(t, nullptr) == 0);
}

/* --- the fork --- */

static const char *other_plugin; /* NULL: constructors have nothing to do */
static pid_t child = -1;

static void pause_ms(long ms) {
    timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, nullptr);
}

static void *open_other(void *) {
    dlopen(other_plugin, RTLD_NOW);
    return nullptr;
}

/* In the constructor of a plugin: the loader is locked, so the other thread, which binds this
 * plugin before it opens its own, stands still in the middle of that. */
extern "C" __attribute__((visibility("default"))) void policy_forms_opening() {
    if (other_plugin == nullptr || child != -1) return;
    pthread_t thread;
    EXPECT(pthread_create(&thread, nullptr, open_other, nullptr) == 0);
    pthread_detach(thread);
    pause_ms(100);
    child = fork();
    EXPECT(child != -1);
}

int main(int argc, char **argv) {
    *reinterpret_cast<void **>(&heap_of) = dlsym(RTLD_DEFAULT, "numalloc_heap_of");
    EXPECT(argc > 1 && heap_of != nullptr);
    if (strcmp(argv[1], "forms") == 0) all_forms(nullptr);
    if (strcmp(argv[1], "open") == 0) open_while_threads_run(argc - 2, argv + 2);
    if (strcmp(argv[1], "by-name") == 0) {
        void *handle = dlopen(argv[2], RTLD_NOW);
        if (handle == nullptr) fprintf(stderr, "policy_forms: %s\n", dlerror());
        expect_ruled(handle);
    }
    if (strcmp(argv[1], "fork") == 0) {
        other_plugin = argv[3];
        expect_ruled(dlopen(argv[2], RTLD_NOW));
        int status;
        if (child == 0) _exit(0);
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}
