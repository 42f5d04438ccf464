/* modules.c - the list of mapped ELF files, which lets addresses be named later, elsewhere.
 *
 * Filled when the unwinder meets a module for the first time, one call at a time; everything is
 * read from the module's own memory (a frame returns into it, so it stays) and from its link_map. A
 * module counts as loaded until another takes its place. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* struct link_map */
#endif
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"
#include "profiler/record/unwind/elf_note.h"

#define CHUNK_BYTES (8u << 10)

/* One that does not fit leaves its end, with the name. */
static void copy_path(na_nprof_module_t *m, const char *s, bool cut) {
    enum { SHOWN = 60 };
    static _Atomic(bool) said;
    size_t length = __builtin_strlen(s), room = sizeof m->path - 1;
    cut |= length > room;
    na_rec_copy(m->path, sizeof m->path, length > room ? s + length - room : s);
    if (!cut) return;
    m->flags |= NA_NPROF_MODULE_CUT;
    if (!atomic_exchange(&said, true))
        na_warn(
            "the profile has no names of the functions of ...%s: its path has more than %u bytes; "
            "move it, or run it by a shorter path",
            m->path + room - SHOWN, (uint64_t)room);
}

static void read_module_build_id(na_nprof_module_t *m) {
    const ElfW(Ehdr) *eh = (const ElfW(Ehdr) *)m->start;
    if (m->end - m->start < sizeof *eh || eh->e_ident[EI_MAG0] != ELFMAG0 ||
        eh->e_ident[EI_MAG1] != ELFMAG1 || eh->e_ident[EI_MAG2] != ELFMAG2 ||
        eh->e_phentsize != sizeof(ElfW(Phdr)))
        return;
    const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(m->start + eh->e_phoff);
    unsigned count = eh->e_phnum;
    if (eh->e_phoff + count * sizeof *ph > 4096) {
        /* Tools that change files put a longer table at the end. The kernel knows the program's. */
        ph = (const ElfW(Phdr) *)getauxval(AT_PHDR);
        count = (unsigned)getauxval(AT_PHNUM);
        if ((uint64_t)(uintptr_t)ph - m->start >= m->end - m->start) return;
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = m->bias + ph[i].p_vaddr, end = at + ph[i].p_memsz;
        if (ph[i].p_type != PT_NOTE || at < m->start || end > m->end || end < at) continue;
        na_build_id_t id = na_elf_build_id((const void *)(uintptr_t)at, (size_t)(end - at));
        if (id.bytes == NULL || id.length > NA_NPROF_BUILD_ID_BYTES) continue;
        m->build_id_size = (uint32_t)id.length;
        for (unsigned k = 0; k < id.length; k++)
            m->build_id[k] = id.bytes[k];
        return;
    }
}

static na_nprof_module_t *new_module_entry(void) {
    na_nprof_chunk_t *c = na_rec.module_chunk;
    if (c == NULL || c->count == c->capacity) {
        c = na_writer_chunk(NA_NPROF_MODULES, CHUNK_BYTES, sizeof(na_nprof_module_t), 0,
                            na_rec.module_chunks, na_rec.next_module);
        if (c == NULL) {
            na_rec_lose(&na_rec.header->lost_modules, 1);
            return NULL;
        }
        na_writer_publish(c);
        na_rec.module_chunks++;
        na_rec.module_chunk = c;
    }
    na_nprof_module_t *m = (na_nprof_module_t *)(c + 1) + c->count;
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    na_rec.next_module++;
    return m;
}

/* Marks what lay in the way of a new module as unloaded. Chunks are found through the file. */
static void end_overlapped(uint64_t start, uint64_t end, uint64_t ms) {
    uint64_t used = __atomic_load_n(&na_rec.header->used, __ATOMIC_ACQUIRE);
    for (uint64_t at = NA_NPROF_PAGE; at < used;) {
        na_nprof_chunk_t *c = na_rec_at(at);
        if (__atomic_load_n(&c->magic, __ATOMIC_ACQUIRE) != NA_NPROF_CHUNK_MAGIC) {
            at += NA_NPROF_PAGE; /* being born */
            continue;
        }
        at += c->length;
        if (c->type != NA_NPROF_MODULES) continue;
        na_nprof_module_t *m = (na_nprof_module_t *)(c + 1);
        for (uint32_t i = 0; i < c->count; i++)
            if (m[i].start < end && start < m[i].end && m[i].unload_ms == NA_NPROF_MODULE_STILL)
                __atomic_store_n(&m[i].unload_ms, ms, __ATOMIC_RELEASE);
    }
}

uint32_t na_modules_find(uint32_t id, uint64_t pc, na_nprof_module_t *found) {
    uint64_t used = __atomic_load_n(&na_rec.header->used, __ATOMIC_ACQUIRE);
    uint32_t at_pc = 0;
    for (uint64_t at = NA_NPROF_PAGE; at < used;) {
        na_nprof_chunk_t *c = (na_nprof_chunk_t *)(na_rec.base + at);
        bool made = __atomic_load_n(&c->magic, __ATOMIC_ACQUIRE) == NA_NPROF_CHUNK_MAGIC;
        at += made ? c->length : NA_NPROF_PAGE;
        if (!made || c->type != NA_NPROF_MODULES) continue;
        const na_nprof_module_t *m = (const na_nprof_module_t *)(c + 1);
        for (uint32_t i = 0; i < c->count; i++) {
            bool is_it = id != 0 ? c->first_id + i == id : pc - m[i].start < m[i].end - m[i].start;
            if (!is_it || (at_pc != 0 && m[i].unload_ms != NA_NPROF_MODULE_STILL)) continue;
            at_pc = c->first_id + i;
            *found = m[i];
        }
    }
    return at_pc;
}

void na_modules_seen(const na_unwind_seen_t *seen) {
    if (na_rec.header == NULL) return;
    uint64_t ms = na_rec_ms();
    if (seen->replaced != 0) end_overlapped(seen->start, seen->end, ms);
    na_lock(&na_rec.tables);
    na_nprof_module_t *m = new_module_entry();
    na_unlock(&na_rec.tables);
    if (m == NULL) return;
    const struct link_map *map = seen->link_map;
    uint32_t flags = NA_NPROF_MODULE_VALID;
    m->start = seen->start;
    m->end = seen->end;
    m->load_ms = ms;
    m->unload_ms = NA_NPROF_MODULE_STILL;
    uintptr_t self = (uintptr_t)&na_modules_seen, entry = getauxval(AT_ENTRY);
    bool main_program = entry - seen->start < seen->end - seen->start;
    if (map != NULL)
        m->bias = map->l_addr;
    else /* without the loader: position-independent files are linked at 0 */
        m->bias = ((const ElfW(Ehdr) *)seen->start)->e_type == ET_EXEC ? 0 : seen->start;
    if (main_program) {
        flags |= NA_NPROF_MODULE_MAIN;
        size_t length = __builtin_strlen(na_rec.header->program);
        copy_path(m, na_rec.header->program, length == sizeof na_rec.header->program - 1);
    } else if (map != NULL && map->l_name != NULL) {
        const char *v = "linux-vdso", *n = map->l_name;
        while (*v != 0 && *v == *n)
            v++, n++;
        if (*v == 0) flags |= NA_NPROF_MODULE_VDSO;
        copy_path(m, map->l_name, false);
    }
    if (!main_program && self - seen->start < seen->end - seen->start)
        flags |= NA_NPROF_MODULE_SELF;
    read_module_build_id(m);
    flags |= m->flags;
    __atomic_store_n(&m->flags, flags | na_nprof_module_check(m, flags), __ATOMIC_RELEASE);
}
