/* python_parts.c - the parts that the compiler made of a function.
 *
 * Where gcc knows or guesses which code is rare, it moves that elsewhere (`.cold`), and of a large
 * function that may be most of it: of Debian's 3.14 the evaluation function has 1 KiB, and 80 KiB
 * are in the other part. A symbol tells of the first part only, and a stripped module has no symbol
 * of the other. But the two jump into each other's middle, which functions do not: so it is looked
 * for where conditional jumps lead, and which description of call frames (cfi.h) there is for that.
 *
 * Instructions are not decoded. Bytes that look like such a jump and are none may name code that is
 * no part; so two of them have to, and one has to lead back. */
#include "profiler/record/python/python.h"

#define JUMP_BYTES   6u
#define CANDIDATES   16u
#define JUMPS_NEEDED 2u

/* Where a conditional jump (0f 80 to 0f 8f, and 32 bits) at `at` leads; 0: there is none. */
static uintptr_t jump_at(uintptr_t at) {
    const uint8_t *code = (const uint8_t *)at;
    if (code[0] != 0x0f || (code[1] & 0xf0) != 0x80) return 0;
    int32_t distance;
    __builtin_memcpy(&distance, code + 2, sizeof distance);
    return at + JUMP_BYTES + (uintptr_t)(intptr_t)distance;
}

/* The same of any jump that names where it leads; `e9` has a byte less. */
static uintptr_t any_jump_at(uintptr_t at) {
    const uint8_t *code = (const uint8_t *)at;
    if (code[0] != 0xe9) return jump_at(at);
    int32_t distance;
    __builtin_memcpy(&distance, code + 1, sizeof distance);
    return at + JUMP_BYTES - 1 + (uintptr_t)(intptr_t)distance;
}

static bool leads_to(uintptr_t from, uintptr_t from_end, uintptr_t begin, uintptr_t end) {
    for (uintptr_t at = from; from_end - at >= JUMP_BYTES && at < from_end; at++) {
        uintptr_t to = any_jump_at(at);
        if (to > begin && to < end) return true;
    }
    return false;
}

uint32_t na_py_parts(const na_unwind_module_t *m, uintptr_t begin, uintptr_t end,
                     uintptr_t parts[][2], uint32_t most) {
    struct {
        uintptr_t begin, end;
        uint32_t jumps;
    } found[CANDIDATES];
    uint32_t candidates = 0, count = 0;
    for (uintptr_t at = begin; end - at >= JUMP_BYTES && at < end; at++) {
        uintptr_t to = jump_at(at);
        if (to < m->start || to >= m->end || (to >= begin && to < end)) continue;
        uint32_t i = 0;
        while (i < candidates && (to < found[i].begin || to >= found[i].end))
            i++;
        if (i == candidates) {
            uintptr_t code, code_end;
            if (i == CANDIDATES || !na_cfi_code(m, to, &code, &code_end) || code < m->start ||
                code_end > m->end || (code < end && begin < code_end))
                continue;
            found[candidates].begin = code;
            found[candidates].end = code_end;
            found[candidates++].jumps = 0;
        }
        found[i].jumps += to != found[i].begin;
    }
    for (uint32_t i = 0; i < candidates && count < most; i++) {
        if (found[i].jumps < JUMPS_NEEDED || !leads_to(found[i].begin, found[i].end, begin, end))
            continue;
        parts[count][0] = found[i].begin;
        parts[count++][1] = found[i].end;
    }
    return count;
}
