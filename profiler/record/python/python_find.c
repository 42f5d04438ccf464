/* python_find.c - is a module the interpreter, and which one.
 *
 * Symbols are looked up by the module's GNU hash table, which every linker writes. All that is read
 * lies in the module's own loaded segments, which stay while it is met (unwind.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* struct link_map */
#endif
#include <elf.h>
#include <link.h>

#include "profiler/record/python/python.h"
#include "profiler/record/unwind/lasting.h"
#include "profiler/record/unwind/umodules.h"

na_py_t na_py;
na_nprof_python_t *na_py_entry;
_Atomic uint32_t na_py_unmapped;
static bool python_wanted;

/* ---- symbols ---- */

typedef struct symbols {
    uintptr_t start, end, bias;
    const ElfW(Sym) * table;
    const char *names;
    const uint32_t *hash;
} symbols_t;

static bool is_inside(const symbols_t *s, uintptr_t at, size_t bytes) {
    return at >= s->start && at <= s->end && s->end - at >= bytes;
}

/* Where no loader tells of it: by headers in the first page. NULL: not there. */
static const ElfW(Dyn) * dynamic_by_headers(symbols_t *s) {
    const ElfW(Ehdr) *eh = (const ElfW(Ehdr) *)s->start;
    if (s->end - s->start < 4096 || eh->e_ident[EI_MAG0] != ELFMAG0 ||
        eh->e_ident[EI_MAG1] != ELFMAG1 || eh->e_ident[EI_MAG2] != ELFMAG2 ||
        eh->e_ident[EI_MAG3] != ELFMAG3 || eh->e_phentsize != sizeof(ElfW(Phdr)) ||
        eh->e_phoff > 4096 - sizeof(ElfW(Phdr)))
        return NULL;
    s->bias = eh->e_type == ET_EXEC ? 0 : s->start;
    const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(s->start + eh->e_phoff);
    for (unsigned i = 0; i < eh->e_phnum && (uintptr_t)(ph + i + 1) <= s->start + 4096; i++)
        if (ph[i].p_type == PT_DYNAMIC) return (const ElfW(Dyn) *)(s->bias + ph[i].p_vaddr);
    return NULL;
}

/* The loader knows it wherever the headers lie (BOLT writes them at the end). */
static bool open_interpreter_symbols(symbols_t *s, const na_unwind_seen_t *seen) {
    const struct link_map *map = seen->link_map;
    *s = (symbols_t){.start = seen->start, .end = seen->end, .bias = map != NULL ? map->l_addr : 0};
    const ElfW(Dyn) *dyn = map != NULL ? map->l_ld : dynamic_by_headers(s);
    for (; dyn != NULL && is_inside(s, (uintptr_t)dyn, sizeof *dyn) && dyn->d_tag != DT_NULL;
         dyn++) {
        /* The loader has made addresses of these, or not (vdso). */
        uintptr_t at = dyn->d_un.d_ptr;
        if (!is_inside(s, at, 16)) at += s->bias;
        if (!is_inside(s, at, 16)) continue;
        if (dyn->d_tag == DT_SYMTAB) s->table = (const ElfW(Sym) *)at;
        if (dyn->d_tag == DT_STRTAB) s->names = (const char *)at;
        if (dyn->d_tag == DT_GNU_HASH) s->hash = (const uint32_t *)at;
    }
    return s->table != NULL && s->names != NULL && s->hash != NULL && s->hash[0] != 0 &&
           s->hash[2] != 0;
}

static bool is_symbol_called(const symbols_t *s, uint32_t name, const char *wanted_name) {
    const char *p = s->names + name;
    for (;; p++, wanted_name++) {
        if (!is_inside(s, (uintptr_t)p, 1) || *p != *wanted_name) return false;
        if (*p == 0) return true;
    }
}

/* Its address, 0: the module defines none. */
static uintptr_t find_symbol(const symbols_t *s, const char *name, uint64_t *size) {
    uint32_t h = 5381;
    for (const char *p = name; *p != 0; p++)
        h = h * 33 + (uint8_t)*p;
    uint32_t buckets = s->hash[0], first = s->hash[1], words = s->hash[2], shift = s->hash[3] & 31;
    const uint64_t *bloom = (const uint64_t *)(s->hash + 4);
    uint64_t word = bloom[h / 64 % words], bits = UINT64_C(1) << h % 64 | UINT64_C(1)
                                                                              << (h >> shift) % 64;
    if ((word & bits) != bits) return 0;
    const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
    uint32_t at = bucket[h % buckets];
    if (at < first) return 0;
    for (;; at++) {
        const uint32_t *link = &chain[at - first];
        if (!is_inside(s, (uintptr_t)link, 4)) return 0;
        if ((*link | 1) == (h | 1)) {
            const ElfW(Sym) *sym = &s->table[at];
            if (is_inside(s, (uintptr_t)sym, sizeof *sym) && sym->st_shndx != SHN_UNDEF &&
                is_symbol_called(s, sym->st_name, name)) {
                uintptr_t address = s->bias + sym->st_value;
                if (size != NULL) *size = sym->st_size;
                return is_inside(s, address, sym->st_size) ? address : 0;
            }
        }
        if ((*link & 1) != 0) return 0;
    }
}

/* ---- versions ---- */

#define BEFORE_3_9 0x0308u

/* 0: one before 3.9. */
static uint16_t version_of(const symbols_t *s) {
    uint64_t size;
    uintptr_t at = find_symbol(s, "Py_Version", &size);
    if (at != 0 && size >= 4) return (uint16_t)(*(const uint64_t *)at >> 16);
    if (at != 0 || find_symbol(s, "PyFrame_GetBack", NULL) == 0) return 0;
    return find_symbol(s, "Py_NewRef", NULL) != 0 ? 0x030a : 0x0309;
}

/* 0, or why not. */
static uint32_t layout_of(const symbols_t *s, uint16_t version, na_py_layout_t *l) {
    uint64_t size = 0;
    uintptr_t runtime = find_symbol(s, "_PyRuntime", &size);
    return na_py_layout_of(version, (const uint64_t *)runtime, runtime != 0 ? size / 8 : 0, l);
}

/* What a symbol names becomes a pointer to a function. */
#define FUNCTION(to, address) __builtin_memcpy(&(to), &(address), sizeof(to))

static void find_parts(const na_unwind_seen_t *seen, uintptr_t eval, uint64_t size,
                       na_py_t *found) {
    const na_unwind_module_t m = {seen->start, seen->end, seen->eh_hdr, seen->link_map};
    found->parts[0][0] = eval;
    found->parts[0][1] = eval + size;
    found->part_count =
        1 + na_py_parts(&m, eval, eval + size, found->parts + 1, NA_NPROF_PY_RANGES - 1);
}

/* True: it is the interpreter, though one that may be refused. */
static bool find(const na_unwind_seen_t *seen, na_py_t *found) {
    symbols_t s;
    uint64_t size = 0;
    if (!open_interpreter_symbols(&s, seen)) return false;
    uintptr_t eval = find_symbol(&s, "_PyEval_EvalFrameDefault", &size);
    if (eval == 0 || size == 0) return false;
    found->start = seen->start;
    found->end = seen->end;
    uint16_t version = version_of(&s);
    found->refused = layout_of(&s, version, &found->layout);
    if (found->refused != 0) {
        found->layout.version = version != 0 ? version : BEFORE_3_9;
        return true;
    }
    uintptr_t own = find_symbol(&s, "PyGILState_GetThisThreadState", NULL);
    uintptr_t current = find_symbol(&s, "PyThreadState_GetUnchecked", NULL);
    if (current == 0) current = find_symbol(&s, "_PyThreadState_UncheckedGet", NULL);
    uintptr_t finalizing = find_symbol(&s, "Py_IsFinalizing", NULL);
    if (finalizing == 0) finalizing = find_symbol(&s, "_Py_IsFinalizing", NULL);
    uintptr_t main_one = find_symbol(&s, "PyInterpreterState_Main", NULL);
    found->code_type = (const void *)find_symbol(&s, "PyCode_Type", NULL);
    found->text_type = (const void *)find_symbol(&s, "PyUnicode_Type", NULL);
    found->bytes_type = (const void *)find_symbol(&s, "PyBytes_Type", NULL);
    if (own == 0 || current == 0 || finalizing == 0 || main_one == 0 || found->code_type == NULL ||
        found->text_type == NULL || found->bytes_type == NULL)
        return false;
    FUNCTION(found->own_state, own);
    FUNCTION(found->current_state, current);
    FUNCTION(found->is_finalizing, finalizing);
    FUNCTION(found->main_interpreter, main_one);
    found->link_map = seen->link_map;
    found->lasting = na_lasting(seen->start);
    find_parts(seen, eval, size, found);
    return true;
}

/* ---- begin ---- */

static void tell_file(void) {
    uint64_t length = na_nprof_chunk_length(1, sizeof(na_nprof_python_t));
    na_nprof_chunk_t *c =
        na_writer_chunk(NA_NPROF_PYTHON, length, sizeof(na_nprof_python_t), 0, 0, 0);
    na_py_entry = NULL;
    if (c == NULL) return;
    na_nprof_python_t *e = (na_nprof_python_t *)(c + 1);
    c->capacity = c->count = 1;
    e->refused = na_py.refused;
    e->counted = na_py.layout.frame_owner != NA_PY_NONE;
    e->range_count = na_py.part_count;
    for (uint32_t i = 0; i < na_py.part_count; i++) {
        e->ranges[i][0] = na_py.parts[i][0];
        e->ranges[i][1] = na_py.parts[i][1];
    }
    e->module[0] = na_py.start;
    e->module[1] = na_py.end;
    __atomic_store_n(&e->version, na_py.layout.version, __ATOMIC_RELEASE);
    na_writer_publish(c);
    if (na_py.refused == 0) na_py_entry = e;
}

static void switch_on(void) {
    /* A program that was linked with this library's objects has no frames to leave out. */
    if (na_unwind_skip_hi == 0) return;
    tell_file();
    if (na_py_entry == NULL) return;
    na_stacks_special_set(NA_STACKS_PYTHON, true);
}

/* Frames are matched to native ones by what x86-64's walk knows. */
#if defined(__x86_64__)
enum { READS_FRAMES = true };
#else
enum { READS_FRAMES = false };
#endif

void na_python_module(const na_unwind_seen_t *seen) {
    if (!READS_FRAMES || !python_wanted || na_rec.header == NULL) return;
    if (na_py.layout.version != 0) {
        /* Another module where the interpreter was: it is gone. */
        if (seen->replaced == 0 || seen->start >= na_py.end || na_py.start >= seen->end) return;
        na_stacks_special_set(NA_STACKS_PYTHON, false);
        na_py.layout.version = 0;
    }
    na_py_t found = {.part_count = 0};
    if (!find(seen, &found)) return;
    na_py = found;
    if (na_rec_is_ready()) switch_on();
}

void na_python_begin(bool want) {
    python_wanted = want;
    na_stacks_special_set(NA_STACKS_PYTHON, false);
    na_py_codes_begin();
}

void na_python_ready(void) {
    if (python_wanted && na_py.layout.version != 0) switch_on();
}
