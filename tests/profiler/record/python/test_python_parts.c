/* test_python_parts.c - the parts that the compiler made of a function are found, and no others. */
#include <criterion/criterion.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "profiler/record/python/python.h"

#define KINDS 6

static uintptr_t called_from[KINDS];
static volatile int ways;

/* What calls this is rare, and moved elsewhere. */
__attribute__((noinline, cold)) static int rare(int kind) {
    called_from[kind] = (uintptr_t)__builtin_return_address(0);
    return ++ways;
}

__attribute__((noinline)) static int often(int n) {
    return n + ways;
}

__attribute__((noinline)) static int in_parts(int kind, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (kind == i + 0) sum += rare(0) * often(i);
        sum += often(sum);
        if (kind == i + 1) sum -= rare(1) + often(i);
        sum ^= often(sum + 1);
        if (kind == i + 2) sum += rare(2) - often(i);
        sum += 3 * often(sum);
        if (kind == i + 3) sum -= rare(3) % (often(i) | 1);
        sum -= often(sum + 4);
        if (kind == i + 4) sum += rare(4) ^ often(i);
        sum ^= often(sum + 5);
        if (kind == i + 5) sum -= rare(5) | often(i);
    }
    return sum;
}

static na_unwind_module_t self;

static int see(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size, (void)arg;
    uintptr_t here = (uintptr_t)&in_parts, end = 0;
    self.start = UINTPTR_MAX;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type == PT_GNU_EH_FRAME) self.eh_hdr = (const uint8_t *)at;
        if (ph->p_type != PT_LOAD) continue;
        if (at < self.start) self.start = at;
        if (at + ph->p_memsz > end) end = at + ph->p_memsz;
    }
    self.end = end;
    return here >= self.start && here < self.end;
}

static uint32_t parts_of(uintptr_t function, uintptr_t parts[][2], uint32_t most, uintptr_t *begin,
                         uintptr_t *end) {
    cr_assert(na_cfi_code(&self, function, begin, end));
    cr_assert_eq(*begin, function);
    return na_py_parts(&self, *begin, *end, parts, most);
}

Test(python_parts, are_found) {
    uintptr_t parts[4][2], begin, end;
    cr_assert(dl_iterate_phdr(see, NULL) != 0);
    for (int kind = 0; kind < KINDS; kind++)
        in_parts(kind, 1);
    uint32_t count = parts_of((uintptr_t)&in_parts, parts, 4, &begin, &end), elsewhere = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        uintptr_t at = called_from[kind] - 1;
        cr_assert_neq(called_from[kind], 0);
        if (at >= begin && at < end) continue;
        elsewhere++;
        cr_assert_eq(count, 1, "%u parts", count);
        cr_assert(at >= parts[0][0] && at < parts[0][1], "%lx is not in [%lx, %lx)", at,
                  parts[0][0], parts[0][1]);
    }
    (void)elsewhere;
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && defined(__x86_64__)
    cr_assert_gt(elsewhere, 2, "the compiler moved %u calls: the test shows nothing", elsewhere);
#endif
    /* No room for any. */
    cr_assert_eq(na_py_parts(&self, begin, end, parts, 0), 0);
}

Test(python_parts, of_whole_functions_there_are_none) {
    uintptr_t parts[4][2], begin, end;
    cr_assert(dl_iterate_phdr(see, NULL) != 0);
    cr_assert_eq(parts_of((uintptr_t)&often, parts, 4, &begin, &end), 0);
    cr_assert_eq(parts_of((uintptr_t)&rare, parts, 4, &begin, &end), 0);
    /* Nothing to look at, and less than a jump of it. */
    cr_assert_eq(na_py_parts(&self, begin, begin, parts, 4), 0);
    cr_assert_eq(na_py_parts(&self, begin, begin + 3, parts, 4), 0);
}
