/* elf_image.h - an ELF file made in memory, of sections without addresses. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_ELF_IMAGE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_ELF_IMAGE_H

#include <stddef.h>

#define NA_ELF_IMAGE_SECTIONS 12

typedef struct na_elf_part {
    const char *name; /* NULL: there are no more */
    const void *data;
    size_t size;
} na_elf_part_t;

/* A file descriptor, to be closed; -1: there is no memory. At most NA_ELF_IMAGE_SECTIONS parts. */
int na_elf_image(const na_elf_part_t *parts);

#endif
