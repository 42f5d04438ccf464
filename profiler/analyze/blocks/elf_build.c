/* elf_build.c - compares build ids. See elf_build.h. */
#include "profiler/analyze/blocks/elf_build.h"

#include <gelf.h>
#include <string.h>

bool na_elf_same_build(Elf *elf, const na_nprof_module_t *m) {
    size_t segments;
    if (elf_getphdrnum(elf, &segments) != 0) return false;
    for (size_t i = 0; i < segments; i++) {
        GElf_Phdr ph;
        if (gelf_getphdr(elf, (int)i, &ph) == NULL || ph.p_type != PT_NOTE) continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_NHDR);
        GElf_Nhdr note;
        size_t name, description;
        for (size_t at = 0;
             data != NULL && (at = gelf_getnote(data, at, &note, &name, &description)) != 0;) {
            if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
                memcmp((const char *)data->d_buf + name, "GNU", 4) != 0)
                continue;
            return note.n_descsz == m->build_id_size &&
                   memcmp((const char *)data->d_buf + description, m->build_id, note.n_descsz) == 0;
        }
    }
    return m->build_id_size == 0;
}
