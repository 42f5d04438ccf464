/* elf_image.c - see elf_image.h. */
#include "profiler/dump/symbols/dwarf/elf_image.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct head {
    Elf64_Ehdr file;
    Elf64_Shdr sections[NA_ELF_IMAGE_SECTIONS + 2]; /* none, the parts, their names */
    char names[32 * NA_ELF_IMAGE_SECTIONS];
} head_t;

static bool write_all(int fd, const void *from, size_t size) {
    for (const char *at = from; size > 0;) {
        ssize_t put = write(fd, at, size);
        if (put <= 0) return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

static void make_head(head_t *head, const na_elf_part_t *parts) {
    static const char own[] = ".shstrtab";
    size_t count = 1, at = sizeof *head, name = 1 + sizeof own;
    memcpy(head->names + 1, own, sizeof own);
    for (; count <= NA_ELF_IMAGE_SECTIONS && parts[count - 1].name != NULL; count++) {
        const na_elf_part_t *part = &parts[count - 1];
        head->sections[count] = (Elf64_Shdr){.sh_name = (Elf64_Word)name,
                                             .sh_type = SHT_PROGBITS,
                                             .sh_offset = at,
                                             .sh_size = part->size,
                                             .sh_addralign = 1};
        size_t length = strnlen(part->name, 31);
        memcpy(head->names + name, part->name, length);
        name += length + 1;
        at += part->size;
    }
    head->sections[count] = (Elf64_Shdr){.sh_name = 1,
                                         .sh_type = SHT_STRTAB,
                                         .sh_offset = offsetof(head_t, names),
                                         .sh_size = name,
                                         .sh_addralign = 1};
    head->file = (Elf64_Ehdr){
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_REL,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_shoff = offsetof(head_t, sections),
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (Elf64_Half)(count + 1),
        .e_shstrndx = (Elf64_Half)count};
}

int na_elf_image(const na_elf_part_t *parts) {
    head_t head = {0};
    make_head(&head, parts);
    int fd = memfd_create("numalloc-dwo", MFD_CLOEXEC);
    bool good = fd >= 0 && write_all(fd, &head, sizeof head);
    for (size_t i = 0; good && i < NA_ELF_IMAGE_SECTIONS && parts[i].name != NULL; i++)
        good = write_all(fd, parts[i].data, parts[i].size);
    if (good) return fd;
    if (fd >= 0) close(fd);
    return -1;
}
