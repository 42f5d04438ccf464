/* python_layouts.c - see python_layouts.h. */
#include "profiler/record/python/python_layouts.h"

#include <stddef.h>

#include "profiler/format/nprof_python.h"

#define NONE NA_PY_NONE

/* clang-format off */
static const na_py_layout_t tables[] = {
    /* version | thread state: frame, cframe, id, interpreter | frame: size, back, code, instr, owner, entry |
     * tags | code: name, file, line, lines, start, traceable | str: ascii, wide | locals, keys | lines (the last two are see_how's) */
    {0x0309, 24, NONE, 176, NONE,   112, 24, 32, 104, NONE, NONE,
     0, 112, 104, 40, 120, NONE, NONE,   48, 72,   NONE, NONE,   NA_NPROF_PY_LNOTAB, false, 0, 0},
    {0x030a, 24, NONE, 176, NONE,   104, 24, 32,  96, NONE, NONE,
     0, 112, 104, 40, 120, NONE, NONE,   48, 72,   NONE, NONE,   NA_NPROF_PY_LINETABLE, true, 0, 0},
    {0x030b, 56,    8, 152, NONE,    72, 48, 32,  56,   69,   68,
     0, 128, 112, 72, 136,  184,  168,   48, 72,   72, 872,   NA_NPROF_PY_LOCATIONS, false, 0, 0},
    {0x030c, 56,    0, 136,   16,    72,  8,  0,  56,   70, NONE,
     0, 128, 112, 68, 136,  192,  176,   40, 56,   72, 880,   NA_NPROF_PY_LOCATIONS, false, 0, 0},
};
/* clang-format on */

/* The beginning of _PyRuntime from 3.13 on, words of eight bytes. What it begins with is the same
 * in all; where each part lies is another matter in each version. */
enum {
    DEBUG_COOKIE,
    DEBUG_VERSION,
    DEBUG_FREE_THREADED,
};
#define COOKIE UINT64_C(0x7970677562656478) /* "xdebugpy" */

typedef struct debug_parts {
    uint16_t version;
    uint8_t thread, thread_id; /* the parts' first words; thread_id counts from its part's */
    uint8_t frame, code, text;
    uint8_t words;     /* so many are needed */
    uint8_t code_tags; /* bits of a frame's code that are no part of the address */
    uint16_t type_keys;
} debug_parts_t;

/* In front of the thread state lie 3 words, the runtime's 3 and the interpreter state's: 13, from
 * 3.14 on 16. */
static const debug_parts_t debug_parts[] = {
    /* version | thread: part, id | frame, code, text | words | tags | keys (later ones name threads
       themselves) */
    {0x030d, 19, 5, 28, 34, 67, 71, 0, 880},
    {0x030e, 22, 5, 31, 39, 77, 81, 3, NONE},
    {0x030f, 22, 8, 39, 47, 89, 93, 3, NONE},
};

static bool is_layout_told(uint16_t version, const uint64_t *d, uint64_t words) {
    return words > DEBUG_FREE_THREADED && d[DEBUG_COOKIE] == COOKIE &&
           d[DEBUG_VERSION] >> 16 == version;
}

static bool by_debug_offsets(const debug_parts_t *parts, const uint64_t *d, na_py_layout_t *l) {
    const uint64_t *thread = d + parts->thread, *frame = d + parts->frame;
    const uint64_t *code = d + parts->code, *text = d + parts->text;
    for (const uint64_t *p = thread + 4; p != text + 4; p++)
        if (*p > 4096 && p < frame) return false; /* no offsets */
    *l = (na_py_layout_t){
        .version = parts->version,
        .thread_frame = (uint16_t)thread[4],
        .cframe_frame = NONE,
        .thread_id = (uint16_t)thread[parts->thread_id],
        .thread_interp = (uint16_t)thread[3],
        .frame_size = (uint16_t)frame[0],
        .frame_back = (uint16_t)frame[1],
        .frame_code = (uint16_t)frame[2],
        .frame_instr = (uint16_t)frame[3],
        .frame_owner = (uint16_t)frame[5],
        .frame_entry = NONE,
        .code_tags = parts->code_tags,
        .code_file = (uint16_t)code[1],
        .code_name = (uint16_t)code[3],
        .code_lines = (uint16_t)code[4],
        .code_line = (uint16_t)code[5],
        .code_start = (uint16_t)code[9],
        .code_traceable = (uint16_t)(code[9] - 16), /* what lies between is one pointer */
        .text_ascii = (uint16_t)text[3],
        .text_wide = (uint16_t)(text[3] + 16),
        .frame_locals = (uint16_t)frame[4],
        .type_keys = parts->type_keys,
        .lines = NA_NPROF_PY_LOCATIONS,
    };
    return l->frame_size <= 4096 && l->code_start <= 4096 && l->frame_owner < l->frame_size &&
           text[1] == NA_PY_STATE_AT && text[2] == NA_PY_LENGTH_AT;
}

/* The link lies beside the instruction or the code. */
static void see_how(na_py_layout_t *l) {
    uint16_t back = l->frame_back, instr = l->frame_instr, with = l->frame_code;
    l->how = l->code_start == NONE ? NA_PY_BY_NUMBER : NA_PY_BY_POINTER;
    if (l->how == NA_PY_BY_POINTER && (instr == back + 8 || instr + 8 == back)) {
        l->how = NA_PY_BY_LINKED;
        with = instr;
    }
    l->frame_linked = with < back ? with : back;
}

uint32_t na_py_layout_of(uint16_t version, const uint64_t *debug, uint64_t words,
                         na_py_layout_t *l) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (tables[i].version != version) continue;
        *l = tables[i];
        see_how(l);
        return 0;
    }
    if (!is_layout_told(version, debug, words)) return NA_NPROF_PY_REFUSED_VERSION;
    if (debug[DEBUG_FREE_THREADED] != 0) return NA_NPROF_PY_REFUSED_NO_GIL;
    for (size_t i = 0; i < sizeof debug_parts / sizeof *debug_parts; i++) {
        const debug_parts_t *parts = &debug_parts[i];
        if (parts->version != version || words < parts->words ||
            !by_debug_offsets(parts, debug, l) || l->code_lines != l->code_name + 8)
            continue;
        see_how(l);
        return 0;
    }
    return NA_NPROF_PY_REFUSED_VERSION;
}
