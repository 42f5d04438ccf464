/* check.h - the checks of the conformance programs.
 *
 * The programs test an allocator from inside, so this header never allocates: a failed check is one
 * line on stderr, made on the stack and written by write(2). Checks may be made from any thread.
 *
 * Exit statuses: 0 all checks held, 1 some failed, CHECK_SKIP_STATUS the machine cannot run this
 * test (ctest knows it as SKIP_RETURN_CODE).
 *
 * The environment variable NA_TEST_LIB names the library under test. Where it is set, the program
 * is not valid unless malloc really comes from that file (check_begin), so a broken preload cannot
 * pass by testing the C library. Unset, the program tests whatever malloc it got. */
#ifndef NUMALLOC_TESTS_SUPPORT_CHECK_H
#define NUMALLOC_TESTS_SUPPORT_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK_SKIP_STATUS 77

/* A loop over a thousand sizes that fails at each says no more than its first lines. */
#define CHECK_MAX_LINES 20

static int check_failures; /* accessed by __atomic builtins only */

__attribute__((format(printf, 1, 2), unused)) static void check_say(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0) return;
    size_t left = (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    for (const char *at = line; left > 0;) {
        ssize_t n = write(STDERR_FILENO, at, left);
        if (n <= 0) return;
        at += n;
        left -= (size_t)n;
    }
}

__attribute__((unused)) static void check_count_failure(void) {
    if (__atomic_add_fetch(&check_failures, 1, __ATOMIC_RELAXED) >= CHECK_MAX_LINES) {
        check_say("too many failed checks, giving up\n");
        _exit(1);
    }
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                      \
            check_count_failure();                                                                 \
        }                                                                                          \
    } while (0)

/* As CHECK, with the figures that make the failure plain. */
#define CHECK_MSG(condition, format, ...)                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say("%s:%d: failed: %s: " format "\n", __FILE__, __LINE__, #condition,           \
                      __VA_ARGS__);                                                                \
            check_count_failure();                                                                 \
        }                                                                                          \
    } while (0)

/* As CHECK_MSG, for what the rest of the program cannot do without. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say("%s:%d: failed, cannot go on: %s (errno %d)\n", __FILE__, __LINE__,          \
                      #condition, errno);                                                          \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

__attribute__((unused)) static int check_status(void) {
    return __atomic_load_n(&check_failures, __ATOMIC_RELAXED) == 0 ? 0 : 1;
}

__attribute__((noreturn, unused)) static void check_skip(const char *why) {
    check_say("skipped: %s\n", why);
    _exit(CHECK_SKIP_STATUS);
}

/* The allocator under test is numalloc itself: what only numalloc promises may be asked of it. */
__attribute__((unused)) static bool check_is_ours(void) {
#ifdef NA_PREFIXED
    return true;
#else
    return getenv("NA_TEST_LIB") != NULL;
#endif
}

/* First statement of every main(): no result counts unless malloc is the one under test. */
__attribute__((unused)) static void check_begin(void) {
#ifndef NA_PREFIXED
    const char *wanted = getenv("NA_TEST_LIB");
    if (wanted == NULL) return;
    void *found = dlsym(RTLD_DEFAULT, "malloc");
    Dl_info info;
    memset(&info, 0, sizeof info);
    char real[PATH_MAX];
    char real_wanted[PATH_MAX];
    if (found == NULL || dladdr(found, &info) == 0 || realpath(info.dli_fname, real) == NULL ||
        realpath(wanted, real_wanted) == NULL || strcmp(real, real_wanted) != 0) {
        check_say("malloc comes from %s, not from %s: set LD_PRELOAD to the library under test\n",
                  info.dli_fname == NULL ? "nowhere" : info.dli_fname, wanted);
        _exit(1);
    }
#endif
}

/* The compiler must know nothing of the pointer: no call is merged, dropped or warned about. */
__attribute__((unused)) static inline void *check_opaque(void *pointer) {
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

__attribute__((unused)) static inline size_t check_opaque_size(size_t size) {
    __asm__ volatile("" : "+r"(size) : : "memory");
    return size;
}

#endif
