/* elf_note.h - the build-id among the notes of an ELF file that is mapped. */
#ifndef NUMALLOC_PROFILER_RECORD_UNWIND_ELF_NOTE_H
#define NUMALLOC_PROFILER_RECORD_UNWIND_ELF_NOTE_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

typedef struct na_build_id {
    const uint8_t *bytes; /* aligned to 4; NULL: there is none */
    size_t length;
} na_build_id_t;

/* Of a segment of notes (PT_NOTE), which may be cut or garbled. */
NA_INLINE na_build_id_t na_elf_build_id(const void *notes, size_t length) {
    size_t at = 0;
    while (length - at >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)((const char *)notes + at);
        const uint8_t *name = (const uint8_t *)(note + 1);
        uint64_t name_bytes = (note->n_namesz + 3ULL) & ~3ULL;
        uint64_t bytes = (note->n_descsz + 3ULL) & ~3ULL;
        if (length - at - sizeof *note < name_bytes + bytes) break;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && name[0] == 'G' &&
            name[1] == 'N' && name[2] == 'U')
            return (na_build_id_t){name + name_bytes, note->n_descsz};
        at += sizeof *note + (size_t)(name_bytes + bytes);
    }
    return (na_build_id_t){NULL, 0};
}

/* Of a module that is mapped from `start` to `end`, if header and note lie in its first page: that
 * page belongs to the first loaded segment of every module, so it can be read again later. At least
 * `least` bytes long. */
NA_INLINE na_build_id_t na_elf_build_id_of(uintptr_t start, uintptr_t end, size_t least) {
    const size_t page = 4096;
    const ElfW(Ehdr) *eh = (const ElfW(Ehdr) *)start;
    if (end - start < page || eh->e_ident[EI_MAG0] != ELFMAG0 || eh->e_ident[EI_MAG1] != ELFMAG1 ||
        eh->e_ident[EI_MAG2] != ELFMAG2 || eh->e_ident[EI_MAG3] != ELFMAG3 ||
        eh->e_phentsize != sizeof(ElfW(Phdr)) || eh->e_phoff > page - sizeof(ElfW(Phdr)))
        return (na_build_id_t){NULL, 0};
    const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(start + eh->e_phoff);
    for (unsigned i = 0; i < eh->e_phnum && (uintptr_t)(ph + i + 1) <= start + page; i++) {
        if (ph[i].p_type != PT_NOTE || ph[i].p_offset > page || ph[i].p_filesz > page ||
            ph[i].p_offset + ph[i].p_filesz > page)
            continue;
        na_build_id_t id = na_elf_build_id((const void *)(start + ph[i].p_offset), ph[i].p_filesz);
        if (id.bytes != NULL && id.length >= least) return id;
    }
    return (na_build_id_t){NULL, 0};
}

#endif
