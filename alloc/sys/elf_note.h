/* elf_note.h - the build-id among the notes of an ELF file that is mapped. */
#ifndef NUMALLOC_ALLOC_SYS_ELF_NOTE_H
#define NUMALLOC_ALLOC_SYS_ELF_NOTE_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/sys/base.h"

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

#endif
