/* test_chain.c - access_chain.c: call chains of samples: from registers and a copy of the stack, as
 * the kernel writes them, whatever they hold. The words lie at the end of a page with nothing
 * behind it. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "profiler/record/sources/access_chain.h"
#include "profiler/record/unwind/umodules.h"

TestSuite(chain, .timeout = 300);

/* ---- the recorder's surroundings: a chain's nodes, from the outermost ---- */

enum { MOST = 128 };
static struct {
    uint32_t parent;
    uint64_t pc;
    bool exact, truncated;
} nodes[MOST + 1];
static uint32_t node_count, room;

na_lock_t na_access_store_lock;

uint32_t na_stacks_child(uint32_t parent, uint64_t pc, bool exact, bool truncated) {
    if (node_count == room) return 0;
    nodes[node_count].parent = parent;
    nodes[node_count].pc = pc;
    nodes[node_count].exact = exact;
    nodes[node_count].truncated = truncated;
    return ++node_count + 100;
}

/* ---- a sample ---- */

enum { REGISTERS = 17, STACK_BYTES = 4096, WORDS = 1 + REGISTERS + 2 + STACK_BYTES / 8 };
enum { AX, BX, CX, DX, SI, DI, BP, SP, IP, R8 };

static uint64_t sample[WORDS]; /* with all of STACK_BYTES copied */
static void *frames[MOST];
static int frame_count;

/* As the kernel copies a stack: whatever is in it. It ends with the program's name; in a process of
 * a small environment that is less than STACK_BYTES away. */
static __attribute__((noinline, no_sanitize("address", "thread"))) void
copy_stack(uint64_t *to, const volatile uint64_t *from) {
    const char *name = (const char *)getauxval(AT_EXECFN);
    uintptr_t end = ((uintptr_t)name + strlen(name) + 1) & ~(uintptr_t)7;
    for (uint32_t i = 0; i < STACK_BYTES / 8; i++)
        to[i] = (uintptr_t)&from[i] < end ? from[i] : 0;
}

/* Registers and stack of here, as the kernel copies them, and the frames as the C library sees
 * them. */
static __attribute__((noinline)) void take(void) {
    static const int of[REGISTERS] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
                                      REG_RBP, REG_RSP, REG_RIP, REG_R8,  REG_R9,  REG_R10,
                                      REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    ucontext_t context;
    getcontext(&context);
    sample[0] = PERF_SAMPLE_REGS_ABI_64;
    for (int i = 0; i < REGISTERS; i++)
        sample[1 + i] = (uint64_t)context.uc_mcontext.gregs[of[i]];
    sample[1 + REGISTERS] = STACK_BYTES;
    copy_stack(&sample[2 + REGISTERS], (const volatile uint64_t *)sample[1 + SP]);
    sample[WORDS - 1] = STACK_BYTES;
    frame_count = backtrace(frames, MOST);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) int recurse(int depth) {
    if (depth == 0)
        take();
    else
        recurse(depth - 1);
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return depth;
}

static void setup(void) {
    na_umodule_init(NULL, NULL);
    void *warm[1];
    backtrace(warm, 1); /* loads libgcc_s */
}

/* The last `count` words before memory that cannot be read. */
static const uint64_t *at_the_edge(const uint64_t *words, uint32_t count) {
    static char *edge;
    size_t bytes = (WORDS * 8 + 4095) & ~(size_t)4095;
    if (edge == NULL) {
        edge = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(edge, MAP_FAILED);
        edge += bytes;
        cr_assert_eq(mprotect(edge, 4096, PROT_NONE), 0);
    }
    return memcpy(edge - count * (size_t)8, words, count * (size_t)8);
}

static uint32_t chain_of(const uint64_t *words, uint32_t count, bool after_ip) {
    node_count = 0;
    room = MOST;
    uint32_t node = na_access_batch_of(at_the_edge(words, count), count, after_ip);
    cr_assert_leq(node_count, MOST);
    cr_assert_eq(node, node_count == 0 ? 0 : node_count + 100);
    for (uint32_t i = 0; i < node_count; i++) {
        cr_assert_eq(nodes[i].parent, i == 0 ? NA_NPROF_ROOT : i + 100);
        cr_assert(!nodes[i].truncated || i == 0, "only the outermost can say so");
    }
    return node_count;
}

/* pc of frame `i` from the innermost. */
static uint64_t inner(uint32_t i) {
    return nodes[node_count - 1 - i].pc;
}

/* ---- what is whole ---- */

Test(chain, agrees_with_the_c_library, .init = setup) {
    recurse(5);
    uint32_t count = chain_of(sample, WORDS, false);
    cr_assert_geq(count, 7);
    cr_expect_eq(inner(0), sample[1 + IP]);
    cr_expect(nodes[count - 1].exact);
    uint32_t skip = 0; /* a sanitizer's own frame comes first */
    while (skip < 2 && (uintptr_t)frames[1 + skip] != inner(1))
        skip++;
    for (uint32_t i = 1; i < count; i++) {
        cr_expect_eq(inner(i), (uintptr_t)frames[i + skip], "frame %u", i);
        cr_expect(!nodes[count - 1 - i].exact);
    }
    cr_expect(nodes[0].truncated || count + skip == (uint32_t)frame_count, "%u frames of %d", count,
              frame_count);
    /* An ip that is after the accessing instruction is taken for a return address. */
    cr_assert_eq(chain_of(sample, WORDS, true), count);
    cr_expect(!nodes[count - 1].exact);
}

/* ---- what is cut ---- */

Test(chain, copies_of_every_length, .init = setup) {
    recurse(5);
    uint64_t whole[MOST];
    uint32_t all = chain_of(sample, WORDS, false), before = 0;
    for (uint32_t i = 0; i < all; i++)
        whole[i] = inner(i);
    for (uint64_t copied = 0; copied <= STACK_BYTES; copied++) {
        sample[WORDS - 1] = copied;
        uint32_t count = chain_of(sample, WORDS, false);
        cr_assert(count >= 1 && count >= before && count <= all, "%u frames of %lu bytes", count,
                  copied);
        for (uint32_t i = 0; i < count; i++)
            cr_assert_eq(inner(i), whole[i]);
        cr_assert(nodes[0].truncated || count == all);
        before = count;
    }
    cr_expect_eq(before, all);
    /* More than there was room for: the kernel would not say so. */
    sample[WORDS - 1] = UINT64_MAX;
    cr_expect_eq(chain_of(sample, WORDS, false), all);
}

Test(chain, records_of_every_length, .init = setup) {
    recurse(2);
    for (uint32_t count = 0; count < WORDS; count++) /* the size of the copy is beyond the end */
        cr_assert_eq(chain_of(sample, count, false), 0, "%u words", count);
    static const uint64_t rooms[] = {STACK_BYTES + 8, STACK_BYTES + 1,   UINT64_MAX,
                                     UINT64_MAX - 7,  UINT64_C(1) << 63, UINT64_C(1) << 35};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        sample[1 + REGISTERS] = rooms[i];
        uint32_t count = chain_of(sample, WORDS, false);
        cr_expect(count == 0 || rooms[i] / 8 == STACK_BYTES / 8, "room for %lu bytes", rooms[i]);
    }
    /* No stack was copied: the ip alone. */
    sample[1 + REGISTERS] = 0;
    cr_assert_eq(chain_of(sample, 1 + REGISTERS + 2, false), 1);
    cr_expect(nodes[0].truncated);
    /* Registers of 32-bit code, or none. */
    for (uint64_t abi = 0; abi < 4; abi++) {
        sample[0] = abi;
        cr_expect_eq(chain_of(sample, 1 + REGISTERS + 2, false), abi == PERF_SAMPLE_REGS_ABI_64);
    }
}

Test(chain, no_room_for_the_nodes, .init = setup) {
    recurse(5);
    uint32_t all = chain_of(sample, WORDS, false);
    for (uint32_t i = 0; i < all; i++) {
        node_count = 0;
        room = i;
        cr_assert_eq(na_access_batch_of(sample, WORDS, false), 0);
    }
}

/* ---- what lies ---- */

/* A stack that leads to itself, in code without a module: frame pointers. */
Test(chain, cycles, .init = setup) {
    uint64_t base = UINT64_C(0x7000000), *stack = &sample[2 + REGISTERS];
    memset(sample, 0, sizeof sample);
    sample[0] = PERF_SAMPLE_REGS_ABI_64;
    sample[1 + REGISTERS] = sample[WORDS - 1] = STACK_BYTES;
    sample[1 + IP] = 0x4000;
    sample[1 + SP] = base;
    for (uint64_t length = 1; length <= 64; length++) { /* frames until the first one again */
        sample[1 + BP] = base;
        for (uint64_t i = 0; i < length; i++) {
            stack[i * 2] = base + (i + 1) % length * 16;
            stack[i * 2 + 1] = 0x4000 + i;
        }
        uint32_t count = chain_of(sample, WORDS, false);
        cr_assert(count <= length + 1, "%u frames of %lu", count, length);
        cr_assert(nodes[0].truncated);
    }
    /* Deeper than chains are. */
    for (uint64_t i = 0; i < STACK_BYTES / 16; i++) {
        stack[i * 2] = base + (i + 1) * 16;
        stack[i * 2 + 1] = 0x4000;
    }
    cr_assert_eq(chain_of(sample, WORDS, false), MOST);
    cr_expect(nodes[0].truncated);
    /* Frames at the very ends of the address space. */
    static const uint64_t ends[] = {
        0, 8, UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 15, UINT64_C(1) << 63, UINT64_C(1) << 47};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
            sample[1 + SP] = ends[i];
            sample[1 + BP] = ends[k];
            chain_of(sample, WORDS, false);
        }
    sample[1 + IP] = 0;
    cr_expect_eq(chain_of(sample, WORDS, false), 0);
}

static uint64_t state = 1;

static uint64_t random_word(void) { /* splitmix64 */
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Any value, small ones, code of this program and of the C library, places on the stack. */
static uint64_t lie(uint64_t sp) {
    uint64_t r = random_word();
    switch (r % 8) {
    case 0:
        return r;
    case 1:
        return r % 4096;
    case 2:
        return (uintptr_t)&recurse + r / 8 % 65536 - 32768;
    case 3:
        return (uintptr_t)&qsort + r / 8 % 1048576 - 524288;
    case 4:
        return (uintptr_t)frames[r / 8 % (uint64_t)frame_count];
    default:
        return sp + r / 8 % (2 * STACK_BYTES) - STACK_BYTES / 2;
    }
}

Test(chain, lies, .init = setup) {
    recurse(5);
    static uint64_t truth[WORDS];
    memcpy(truth, sample, sizeof truth);
    for (uint32_t turn = 0; turn < 30000; turn++) {
        memcpy(sample, truth, sizeof sample);
        uint64_t sp = turn % 4 == 0 ? lie(sample[1 + SP]) : sample[1 + SP];
        sample[1 + SP] = sp;
        for (uint64_t i = random_word() % 40; i > 0; i--) {
            uint64_t at = random_word() % 3 == 0 ? random_word() % REGISTERS
                                                 : 1 + REGISTERS + random_word() % 128;
            if (at != SP) sample[1 + at] = lie(sp);
        }
        chain_of(sample, WORDS, turn % 2 == 0);
    }
}

/* ---- what may be unloaded ---- */

static void from_the_plugin(int depth) {
    recurse(depth);
    __asm__ volatile("" ::: "memory");
}

/* Where its first page and all else that is not written to lies. */
typedef struct parts {
    uintptr_t bias, start[8], end[8];
    int count;
} parts_t;

static int find_parts(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    parts_t *to = arg;
    if (info->dlpi_addr != to->bias) return 0;
    for (int i = 0; i < info->dlpi_phnum && to->count < 8; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || (p->p_flags & PF_W) != 0) continue;
        to->start[to->count] = (to->bias + p->p_vaddr) & ~(uintptr_t)4095;
        to->end[to->count++] = (to->bias + p->p_vaddr + p->p_memsz + 4095) & ~(uintptr_t)4095;
    }
    return 1;
}

/* A module that dlopen brought: the chain ends there, and nothing of the module is read. */
Test(chain, modules_that_may_go, .init = setup) {
    void *handle = dlopen(PLUGIN_A, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(handle, "%s", dlerror());
    void (*plugin)(void (*)(int));
    *(void **)&plugin = dlsym(handle, "plugin");
    cr_assert_not_null(plugin);
    plugin(from_the_plugin);
    struct link_map *map;
    cr_assert_eq(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
    parts_t parts = {.bias = map->l_addr};
    cr_assert_eq(dl_iterate_phdr(find_parts, &parts), 1);
    cr_assert_gt(parts.count, 0);
    for (int i = 0; i < parts.count; i++)
        cr_assert_eq(mprotect((void *)parts.start[i], parts.end[i] - parts.start[i], PROT_NONE), 0);
    uint32_t count = chain_of(sample, WORDS, false);
    for (int i = 0; i < parts.count; i++) /* its destructors run at the end */
        mprotect((void *)parts.start[i], parts.end[i] - parts.start[i], PROT_READ | PROT_EXEC);
    cr_expect_eq(count, 6, "%u: take, recurse three times, from_the_plugin, and the plugin", count);
    cr_expect(nodes[0].truncated);
    cr_expect_lt(nodes[0].pc - (uintptr_t)plugin, 256);
}
