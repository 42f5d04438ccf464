/* trampoline.c - finds calls of rt_sigreturn in a module's code. See trampoline.h. */
#include "profiler/dump/symbols/trampoline.h"

#include <gelf.h>
#include <limits.h>
#include <string.h>

/* The code at `vaddr` as the file has it; NULL: it has not that many bytes there. */
static const void *file_code(Elf *elf, GElf_Addr vaddr, size_t size) {
    size_t headers, all;
    const char *bytes = elf_rawfile(elf, &all);
    if (bytes == NULL || elf_getphdrnum(elf, &headers) != 0) return NULL;
    for (size_t i = 0; i < headers && i < INT_MAX; i++) {
        GElf_Phdr memory, *h = gelf_getphdr(elf, (int)i, &memory);
        if (h == NULL || h->p_type != PT_LOAD || vaddr < h->p_vaddr ||
            vaddr - h->p_vaddr >= h->p_filesz || h->p_filesz - (vaddr - h->p_vaddr) < size)
            continue;
        GElf_Off at = h->p_offset + (vaddr - h->p_vaddr);
        return at <= all && all - at >= size ? bytes + at : NULL;
    }
    return NULL;
}

bool na_trampoline_at(Dwfl_Module *module, GElf_Addr address) {
    /* Of the machines that have one; in others it is the vDSO's. */
    static const struct {
        unsigned machine;
        unsigned char code[9];
    } known[] = {
        {EM_X86_64, {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}}, /* mov $15,%rax; syscall */
    };
    GElf_Addr bias;
    GElf_Ehdr header;
    Elf *elf = dwfl_module_getelf(module, &bias);
    if (elf == NULL || gelf_getehdr(elf, &header) == NULL) return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t size = sizeof known[i].code;
        if (header.e_machine != known[i].machine) continue;
        for (GElf_Addr behind = 0; behind < 2; behind++) {
            const void *code = file_code(elf, address + behind - bias, size);
            if (code != NULL && memcmp(code, known[i].code, size) == 0) return true;
        }
    }
    return false;
}
