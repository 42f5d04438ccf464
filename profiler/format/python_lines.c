/* python_lines.c - see python_lines.h; the formats are described in CPython's Objects/lnotab_notes
 * and InternalDocs/code_objects. Each loop takes at least a byte of the table a turn. */
#include "profiler/format/python_lines.h"

#include "profiler/format/nprof_python.h"

/* Lines are added with wrapping: a damaged table gives a wrong line and no more. */
static uint32_t sign_extended(uint8_t v) {
    return v < 128 ? v : v - UINT32_C(256);
}

static uint32_t lnotab(const uint8_t *t, uint32_t n, uint32_t line, uint64_t address) {
    uint64_t at = 0;
    for (uint32_t i = 0; i + 1 < n; i += 2) {
        at += t[i];
        if (at > address) break;
        line += sign_extended(t[i + 1]);
    }
    return line;
}

static uint32_t linetable(const uint8_t *t, uint32_t n, uint32_t line, uint64_t address) {
    uint64_t at = 0;
    for (uint32_t i = 0; i + 1 < n; i += 2) {
        int8_t step = (int8_t)t[i + 1];
        if (step != -128) line += sign_extended(t[i + 1]);
        at += t[i];
        if (at > address) return step == -128 ? 0 : line;
    }
    return 0;
}

/* Six bits a byte, the lowest first; bit 6: more follow. */
static uint32_t varint(const uint8_t *t, uint32_t n, uint32_t *i) {
    uint32_t v = 0;
    for (unsigned shift = 0; *i < n; shift += 6) {
        uint8_t b = t[(*i)++];
        if (shift < 32) v |= (uint32_t)(b & 63) << shift;
        if ((b & 64) == 0) break;
    }
    return v;
}

static uint32_t signed_varint(const uint8_t *t, uint32_t n, uint32_t *i) {
    uint32_t v = varint(t, n, i);
    return (v & 1) != 0 ? 0u - (v >> 1) : v >> 1;
}

static uint32_t locations(const uint8_t *t, uint32_t n, uint32_t line, uint32_t unit) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < n;) {
        uint8_t head = t[i++];
        unsigned form = head >> 3 & 15;
        if (form >= 10 && form <= 12) line += form - 10;
        if (form == 13 || form == 14) line += signed_varint(t, n, &i);
        at += (head & 7u) + 1;
        if (at > unit) return form == 15 ? 0 : line;
        while (i < n && (t[i] & 128) == 0)
            i++; /* columns */
    }
    return 0;
}

uint32_t na_python_line(uint32_t kind, const uint8_t *table, uint32_t bytes, int32_t first_line,
                        uint32_t unit) {
    if (unit == NA_NPROF_PY_UNIT_NONE) return 0;
    uint32_t first = first_line > 0 ? (uint32_t)first_line : 0, line = 0;
    if (unit == NA_NPROF_PY_UNIT_BEFORE) return first;
    if (kind == NA_NPROF_PY_LNOTAB) line = lnotab(table, bytes, first, (uint64_t)unit * 2);
    if (kind == NA_NPROF_PY_LINETABLE) line = linetable(table, bytes, first, (uint64_t)unit * 2);
    if (kind == NA_NPROF_PY_LOCATIONS) line = locations(table, bytes, first, unit);
    return line <= INT32_MAX ? line : 0;
}
