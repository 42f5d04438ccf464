/* fuzz_chain.c - libFuzzer target: any registers and any stack as a sample that a call chain is
 * made of. Each word is five bytes: a kind, and an offset. What code and call frame information
 * there is lies at addresses that differ from run to run, so kinds say what an offset is added to:
 * nothing, this program's code, the stack's copy, the C library's code; or one that is 0 or near
 * the end of all addresses. */
#include <stdlib.h>
#include <string.h>

#include "profiler/record/sources/access_chain.h"
#include "profiler/record/unwind/umodules.h"

#define REGISTERS 17u
#define SP        7u
#define STACK     128u /* words */
#define BASE      UINT64_C(0x7ff000000000)
#define MOST      128u

static uint32_t nodes;
static bool cut;

uint32_t na_stacks_child(uint32_t parent, uint64_t pc, bool exact, bool truncated) {
    (void)exact;
    if (pc == 0 || parent != NA_NPROF_ROOT + nodes) abort();
    if (truncated && nodes != 0) abort(); /* only the outermost */
    cut |= truncated;
    return NA_NPROF_ROOT + ++nodes;
}

na_lock_t na_access_store_lock;

static uint64_t word(const uint8_t **data, size_t *size) {
    uint32_t offset = 0;
    if (*size < 5) return 0;
    uint8_t kind = **data;
    memcpy(&offset, *data + 1, 4);
    *data += 5;
    *size -= 5;
    int64_t v = (int32_t)offset;
    switch (kind % 6) {
    case 0:
        return offset;
    case 1:
        return (uintptr_t)&na_access_batch_of + (uint64_t)v;
    case 2:
        return BASE + (uint64_t)v;
    case 3:
        return (uintptr_t)&qsort + (uint64_t)v;
    case 4:
        return (uint64_t)v;
    default:
        return (uint64_t)offset << 32;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool begun;
    if (!begun) na_umodule_init(NULL, NULL);
    begun = true;
    if (size == 0) return 0;
    uint32_t words = data[0] % (STACK + 1), count = 1 + REGISTERS + 2 + words;
    bool after_ip = data[0] % 2 != 0;
    data++;
    size--;
    uint64_t *sample = calloc(count, 8); /* of its own size, so that reading past the end is seen */
    if (sample == NULL) return 0;
    sample[0] = PERF_SAMPLE_REGS_ABI_64;
    for (uint32_t i = 0; i < REGISTERS; i++)
        sample[1 + i] = word(&data, &size);
    if (sample[1 + SP] == 0) sample[1 + SP] = BASE;
    sample[1 + REGISTERS] = words * 8;
    for (uint32_t i = 0; i < words; i++)
        sample[2 + REGISTERS + i] = word(&data, &size);
    sample[count - 1] = size != 0 ? data[0] * UINT64_C(9) : words * 8;
    nodes = 0;
    cut = false;
    uint32_t node = na_access_batch_of(sample, count, after_ip);
    if (node != (nodes != 0 ? NA_NPROF_ROOT + nodes : 0) || nodes > MOST) abort();
    free(sample);
    return 0;
}
