/* unwind_index.c - the sorted index of .eh_frame_hdr. See unwind_index.h. */
#include "profiler/dump/symbols/unwind_index.h"

#include <gelf.h>
#include <limits.h>
#include <string.h>

/* With the encodings that every linker writes; read once for each module. */
static void find_rows(na_unwind_index_t *index, Dwfl_Module *module) {
    index->tried = true;
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(module, &bias);
    size_t headers;
    if (elf == NULL || elf_getphdrnum(elf, &headers) != 0) return;
    for (size_t i = 0; i < headers && i < INT_MAX; i++) {
        GElf_Phdr memory, *header = gelf_getphdr(elf, (int)i, &memory);
        if (header == NULL || header->p_type != PT_GNU_EH_FRAME) continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)header->p_offset,
                                              (size_t)header->p_filesz, ELF_T_BYTE);
        if (data == NULL || data->d_buf == NULL || data->d_size < 12) return;
        const unsigned char *bytes = data->d_buf;
        /* version 1; count is udata4; rows are sdata4 relative to the header. The pointer to
         * .eh_frame takes 4 bytes in the encodings pcrel | sdata4 and datarel | sdata4. */
        uint32_t count;
        memcpy(&count, bytes + 8, sizeof count);
        if (bytes[0] != 1 || (bytes[1] & 0x0f) != 0x0b || bytes[2] != 0x03 || bytes[3] != 0x3b ||
            count > (data->d_size - 12) / 8)
            return;
        index->rows = bytes + 12;
        index->count = count;
        index->base = header->p_vaddr;
        return;
    }
}

uint64_t na_unwind_start(na_unwind_index_t *index, Dwfl_Module *module, uint64_t vaddr) {
    if (!index->tried) find_rows(index, module);
    uint32_t low = 0, high = index->count;
    uint64_t start = vaddr;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int32_t row;
        memcpy(&row, index->rows + (size_t)middle * 8, sizeof row);
        uint64_t at = index->base + (uint64_t)(int64_t)row;
        if (at <= vaddr) {
            start = at;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return start;
}
