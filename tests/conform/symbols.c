/* symbols.c - every name by which memory can be asked for or given back leads to the library under
 * test, also for a program that looks it up, and all of them work together. */
#include "support/check.h"

#include <malloc.h>

static const char *const names[] = {
    "malloc", "free", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc",
    "posix_memalign", "valloc", "pvalloc", "malloc_usable_size", "free_sized", "free_aligned_sized",
    "cfree", "mallinfo", "mallinfo2", "mallopt", "malloc_trim", "malloc_stats", "malloc_info",
    /* glibc's second names, which old programs and other allocators' wrappers call */
    "__libc_malloc", "__libc_free", "__libc_calloc", "__libc_realloc", "__libc_memalign",
    "__libc_valloc", "__libc_pvalloc", "__posix_memalign",
    /* operator new, new[]: plain, nothrow, aligned, aligned nothrow */
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    /* operator delete, delete[]: plain, nothrow, sized, aligned, aligned nothrow, sized aligned */
    "_ZdlPv", "_ZdaPv", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", "_ZdlPvm", "_ZdaPvm",
    "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
    /* the library's own */
    "numalloc_version", "numalloc_trim", "numalloc_node_of", "numalloc_read_stats"};

/* dlsym's result as a pointer to a function of type T. */
#define FUNCTION(T, name)                                                                          \
    ({                                                                                             \
        void *symbol_ = dlsym(RTLD_DEFAULT, name);                                                 \
        REQUIRE(symbol_ != NULL);                                                                  \
        T *function_;                                                                              \
        memcpy(&function_, &symbol_, sizeof function_);                                            \
        function_;                                                                                 \
    })

typedef void *make_t(size_t);
typedef void give_t(void *);
typedef int node_of_t(const void *);
typedef const char *version_t(void);

int main(void) {
    check_begin();
    if (!check_is_ours()) check_skip("NA_TEST_LIB is not set: no library to look for");
    void *ours = dlsym(RTLD_DEFAULT, "malloc");
    Dl_info wanted;
    REQUIRE(ours != NULL && dladdr(ours, &wanted) != 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, names[i]);
        Dl_info found;
        CHECK_MSG(symbol != NULL, "%s is not defined", names[i]);
        if (symbol == NULL) continue;
        CHECK_MSG(dladdr(symbol, &found) != 0 && found.dli_fbase == wanted.dli_fbase,
                  "%s comes from %s", names[i], found.dli_fname);
    }
    static const char *const makers[] = {"malloc",        "valloc",        "pvalloc",
                                         "__libc_malloc", "__libc_valloc", "__libc_pvalloc",
                                         "_Znwm",         "_Znam"};
    static const char *const givers[] = {"free", "cfree", "__libc_free", "_ZdlPv", "_ZdaPv"};
    for (size_t m = 0; m < sizeof makers / sizeof makers[0]; m++)
        for (size_t g = 0; g < sizeof givers / sizeof givers[0]; g++)
            for (size_t size = 1; size < 3000000; size = size * 7 + 1) {
                char *block = FUNCTION(make_t, makers[m])(size);
                CHECK_MSG(block != NULL && malloc_usable_size(block) >= size, "%s(%zu)", makers[m],
                          size);
                if (block == NULL) continue;
                block[0] = block[size - 1] = 1;
                FUNCTION(give_t, givers[g])(block);
            }
    node_of_t *node_of = FUNCTION(node_of_t, "numalloc_node_of");
    version_t *version = FUNCTION(version_t, "numalloc_version");
    void *block = malloc(100);
    int local = 0;
    CHECK_MSG(node_of(block) >= 0, "node %d", node_of(block));
    CHECK(node_of(&local) == -1 && node_of(NULL) == -1 && node_of(names) == -1);
    free(block);
    CHECK(version() != NULL && version()[0] >= '0' && version()[0] <= '9');
    return check_status();
}
