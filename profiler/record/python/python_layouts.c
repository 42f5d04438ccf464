/* python_layouts.c - see python_layouts.h. */
#include "profiler/record/python/python_layouts.h"

#include <stddef.h>

#include "profiler/format/nprof_python.h"

#define NONE NA_PY_NONE

/* clang-format off */
static const na_py_layout_t tables[] = {
    /* version | thread state: frame, cframe, id | frame: size, back, code, instr, owner, entry |
     * code: name, file, line, lines, start, traceable | str: ascii, wide | lines (the last two are see_how's) */
    {0x0309, 24, NONE, 176,   112, 24, 32, 104, NONE, NONE,
     112, 104, 40, 120, NONE, NONE,   48, 72,   NA_NPROF_PY_LNOTAB, false, 0, 0},
    {0x030a, 24, NONE, 176,   104, 24, 32,  96, NONE, NONE,
     112, 104, 40, 120, NONE, NONE,   48, 72,   NA_NPROF_PY_LINETABLE, true, 0, 0},
    {0x030b, 56,    8, 152,    72, 48, 32,  56,   69,   68,
     128, 112, 72, 136,  184,  168,   48, 72,   NA_NPROF_PY_LOCATIONS, false, 0, 0},
    {0x030c, 56,    0, 136,    72,  8,  0,  56,   70, NONE,
     128, 112, 68, 136,  192,  176,   40, 56,   NA_NPROF_PY_LOCATIONS, false, 0, 0},
};
/* clang-format on */

/* The beginning of _PyRuntime in 3.13, eight bytes each. Other versions may have it otherwise. */
enum {
    DEBUG_COOKIE,
    DEBUG_VERSION,
    DEBUG_FREE_THREADED,
    DEBUG_THREAD = 3 + 3 + 13, /* behind runtime and interpreter state */
    DEBUG_FRAME = DEBUG_THREAD + 9,
    DEBUG_CODE = DEBUG_FRAME + 6,
    DEBUG_TEXT = DEBUG_CODE + 10 + 2 + 4 + 3 + 3 + 3 + 2 + 3 + 3,
    DEBUG_WORDS = DEBUG_TEXT + 4,
};
#define COOKIE UINT64_C(0x7970677562656478) /* "xdebugpy" */

static bool by_debug_offsets(const uint64_t *d, uint16_t version, na_py_layout_t *l) {
    if (d[DEBUG_COOKIE] != COOKIE || d[DEBUG_VERSION] >> 16 != version ||
        d[DEBUG_FREE_THREADED] != 0)
        return false;
    const uint64_t *thread = d + DEBUG_THREAD, *frame = d + DEBUG_FRAME, *code = d + DEBUG_CODE;
    const uint64_t *text = d + DEBUG_TEXT;
    for (const uint64_t *p = thread + 4; p != text + 4; p++)
        if (*p > 4096 && p < frame) return false; /* no offsets */
    *l = (na_py_layout_t){
        .version = version,
        .thread_frame = (uint16_t)thread[4],
        .cframe_frame = NONE,
        .thread_id = (uint16_t)thread[5],
        .frame_size = (uint16_t)frame[0],
        .frame_back = (uint16_t)frame[1],
        .frame_code = (uint16_t)frame[2],
        .frame_instr = (uint16_t)frame[3],
        .frame_owner = (uint16_t)frame[5],
        .frame_entry = NONE,
        .code_file = (uint16_t)code[1],
        .code_name = (uint16_t)code[3],
        .code_lines = (uint16_t)code[4],
        .code_line = (uint16_t)code[5],
        .code_start = (uint16_t)code[9],
        .code_traceable = (uint16_t)(code[9] - 16), /* what lies between is one pointer */
        .text_ascii = (uint16_t)text[3],
        .text_wide = (uint16_t)(text[3] + 16),
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

bool na_py_layout_of(uint16_t version, const uint64_t *debug, uint64_t words, na_py_layout_t *l) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (tables[i].version != version) continue;
        *l = tables[i];
        see_how(l);
        return true;
    }
    if (version != 0x030d || words < DEBUG_WORDS || !by_debug_offsets(debug, version, l) ||
        l->code_lines != l->code_name + 8)
        return false;
    see_how(l);
    return true;
}
