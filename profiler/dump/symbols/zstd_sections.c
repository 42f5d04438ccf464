/* zstd_sections.c - see zstd_sections.h. */
#include "profiler/dump/symbols/zstd_sections.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZSTD 2u                  /* ELFCOMPRESS_ZSTD, younger than some versions of elf.h */
#define MOST (UINT64_C(4) << 30) /* bytes of all sections */

typedef size_t (*decompress_t)(void *to, size_t room, const void *from, size_t size);

static decompress_t decompress;

static void find_zstd(void) {
    void *library = dlopen("libzstd.so.1", RTLD_LAZY | RTLD_LOCAL);
    void *address = library == NULL ? NULL : dlsym(library, "ZSTD_decompress");
    memcpy(&decompress, &address, sizeof decompress);
}

/* Its compressed data; NULL: it is not such a section. */
static const Elf64_Chdr *zstd_header(const char *bytes, uint64_t size, const Elf64_Shdr *section) {
    if ((section->sh_flags & SHF_COMPRESSED) == 0 || section->sh_type == SHT_NOBITS ||
        section->sh_offset > size || section->sh_size > size - section->sh_offset ||
        section->sh_size < sizeof(Elf64_Chdr) || section->sh_offset % 8 != 0)
        return NULL;
    const Elf64_Chdr *header = (const void *)(bytes + section->sh_offset);
    return header->ch_type == ZSTD ? header : NULL;
}

static Elf64_Shdr *sections_of(char *bytes, uint64_t size, size_t *count) {
    const Elf64_Ehdr *header = (const void *)bytes;
    if (size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff > size ||
        header->e_shoff % 8 != 0 || header->e_shnum > (size - header->e_shoff) / sizeof(Elf64_Shdr))
        return NULL;
    *count = header->e_shnum;
    return (void *)(bytes + header->e_shoff);
}

static bool write_all(int fd, const void *from, uint64_t size) {
    for (const char *at = from; size > 0;) {
        ssize_t put = write(fd, at, size);
        if (put <= 0) return false;
        at += put;
        size -= (uint64_t)put;
    }
    return true;
}

/* Appends the section's data to `to`, where the file has `end` bytes, and lets `section` say so. */
static bool inflate_section(int to, uint64_t *end, const char *bytes, Elf64_Shdr *section,
                            const Elf64_Chdr *header) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_zstd);
    if (decompress == NULL || header->ch_size > MOST - *end % MOST) return false;
    void *data = malloc(header->ch_size + 1);
    bool good = data != NULL &&
                decompress(data, header->ch_size, bytes + section->sh_offset + sizeof *header,
                           section->sh_size - sizeof *header) == header->ch_size &&
                write_all(to, data, header->ch_size);
    free(data);
    section->sh_offset = *end;
    section->sh_size = header->ch_size;
    section->sh_addralign = 1;
    section->sh_flags &= ~(Elf64_Xword)SHF_COMPRESSED;
    *end += header->ch_size;
    return good;
}

/* `bytes` is a private copy of the file; -1: none of it is compressed so, or it cannot be read. */
static int inflated_copy(char *bytes, uint64_t size, bool *failed) {
    size_t count = 0;
    Elf64_Shdr *sections = sections_of(bytes, size, &count);
    int to = -1;
    uint64_t end = size;
    bool good = true;
    for (size_t i = 0; sections != NULL && i < count && good; i++) {
        const Elf64_Chdr *header = zstd_header(bytes, size, &sections[i]);
        if (header == NULL) continue;
        if (to < 0) {
            to = memfd_create("numalloc-zstd", MFD_CLOEXEC);
            good = to >= 0 && write_all(to, bytes, size);
        }
        good = good && inflate_section(to, &end, bytes, &sections[i], header);
    }
    *failed = !good;
    if (to < 0) return -1;
    uint64_t at = (uint64_t)((const char *)sections - bytes);
    if (good && pwrite(to, sections, count * sizeof *sections, (off_t)at) ==
                    (ssize_t)(count * sizeof *sections))
        return to;
    *failed = true;
    close(to);
    return -1;
}

int na_zstd_inflated(int fd, bool *failed) {
    struct stat st;
    *failed = false;
    if (fstat(fd, &st) != 0 || st.st_size <= 0 || (uint64_t)st.st_size > MOST) return -1;
    uint64_t size = (uint64_t)st.st_size;
    char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) return -1;
    int copy = inflated_copy(bytes, size, failed);
    munmap(bytes, size);
    return copy;
}
