/* flows_names.c - variables and sections by address, read with libelf. See flows_names.h. */
#include "profiler/analyze/accesses/flows_names.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/analyze/blocks/elf_build.h"
#include "profiler/containers/array.h"

/* A module maps nothing larger; a damaged file may claim anything. */
#define LARGEST (UINT64_C(1) << 47)

typedef struct range {
    uint64_t base, size;
    const char *name;
} range_t;

typedef struct module {
    bool tried;
    int fd;
    Elf *elf; /* keeps the names */
    range_t *symbols, *sections;
    size_t symbol_count, section_count;
} module_t;

struct na_variables {
    na_module_table_t modules;
    module_t *opened;
};

na_variables_t *na_variables_open(na_module_table_t modules) {
    na_variables_t *v = calloc(1, sizeof *v);
    if (v == NULL) return NULL;
    v->modules = modules;
    v->opened = calloc((size_t)modules.count + 1, sizeof *v->opened);
    if (v->opened != NULL) return v;
    free(v);
    return NULL;
}

void na_variables_close(na_variables_t *v) {
    if (v == NULL) return;
    for (uint32_t i = 0; i < v->modules.count; i++) {
        module_t *m = &v->opened[i];
        free(m->symbols);
        free(m->sections);
        if (m->elf != NULL) elf_end(m->elf);
        if (m->tried && m->fd >= 0) close(m->fd);
    }
    free(v->opened);
    free(v);
}

static int by_base(const void *a, const void *b) {
    const range_t *x = a, *y = b;
    if (x->base != y->base) return x->base < y->base ? -1 : 1;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return strcmp(x->name, y->name); /* of two names of one thing always the same */
}

static bool add_range(range_t **list, size_t *count, size_t *room, range_t what) {
    if (!NA_ARRAY_RESERVE(*list, *room, *count + 1u)) return false;
    (*list)[(*count)++] = what;
    return true;
}

static void read_variables(module_t *m, Elf_Scn *section, const GElf_Shdr *sh) {
    Elf_Data *data = elf_getdata(section, NULL);
    size_t room = 0;
    for (size_t i = 0; data != NULL && i < sh->sh_size / sh->sh_entsize; i++) {
        GElf_Sym symbol;
        if (gelf_getsym(data, (int)i, &symbol) == NULL) break;
        unsigned type = GELF_ST_TYPE(symbol.st_info);
        const char *name = elf_strptr(m->elf, sh->sh_link, symbol.st_name);
        if ((type != STT_OBJECT && type != STT_COMMON) || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_size == 0 || symbol.st_size > LARGEST || name == NULL || *name == 0)
            continue;
        range_t what = {symbol.st_value, symbol.st_size, name};
        if (!add_range(&m->symbols, &m->symbol_count, &room, what)) return;
    }
}

static void read_module_names(module_t *m, const na_nprof_module_t *info) {
    m->tried = true;
    m->fd = -1;
    if ((info->flags & NA_NPROF_MODULE_VDSO) != 0 || elf_version(EV_CURRENT) == EV_NONE) return;
    m->fd = open(info->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    m->elf = m->fd >= 0 ? elf_begin(m->fd, ELF_C_READ_MMAP, NULL) : NULL;
    size_t names;
    if (m->elf == NULL || elf_kind(m->elf) != ELF_K_ELF || !na_elf_same_build(m->elf, info) ||
        elf_getshdrstrndx(m->elf, &names) != 0)
        return;
    Elf_Scn *section = NULL, *dynamic = NULL, *full = NULL;
    GElf_Shdr sh, dynamic_header, full_header;
    size_t room = 0;
    while ((section = elf_nextscn(m->elf, section)) != NULL) {
        if (gelf_getshdr(section, &sh) == NULL) continue;
        if (sh.sh_type == SHT_SYMTAB && sh.sh_entsize != 0) full = section, full_header = sh;
        if (sh.sh_type == SHT_DYNSYM && sh.sh_entsize != 0) dynamic = section, dynamic_header = sh;
        const char *name = elf_strptr(m->elf, names, sh.sh_name);
        if ((sh.sh_flags & SHF_ALLOC) == 0 || (sh.sh_flags & SHF_TLS) != 0 || name == NULL ||
            sh.sh_size == 0 || sh.sh_size > LARGEST)
            continue;
        if (!add_range(&m->sections, &m->section_count, &room,
                       (range_t){sh.sh_addr, sh.sh_size, name}))
            return;
    }
    if (full != NULL)
        read_variables(m, full, &full_header);
    else if (dynamic != NULL)
        read_variables(m, dynamic, &dynamic_header);
    if (m->symbol_count != 0) qsort(m->symbols, m->symbol_count, sizeof *m->symbols, by_base);
    if (m->section_count != 0) qsort(m->sections, m->section_count, sizeof *m->sections, by_base);
}

/* The last one that begins at or before the address, if the address is in it. */
static const range_t *find_range(const range_t *list, size_t count, uint64_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return NULL;
    /* Of ranges with one beginning the largest comes first. */
    const range_t *at = &list[low - 1];
    while (at > list && at[-1].base == at->base)
        at--;
    return address - at->base < at->size ? at : NULL;
}

na_variable_t na_variables_at(na_variables_t *v, uint64_t address, uint64_t ms) {
    uint32_t best = 0;
    for (uint32_t id = 1; id < v->modules.count; id++) {
        const na_nprof_module_t *m = &v->modules.items[id];
        if (m->flags == 0 || address < m->start || address >= m->end || m->load_ms > ms + 1 ||
            m->unload_ms < ms)
            continue;
        if (best == 0 || m->load_ms >= v->modules.items[best].load_ms) best = id;
    }
    if (best == 0) return (na_variable_t){0};
    const na_nprof_module_t *info = &v->modules.items[best];
    module_t *m = &v->opened[best];
    if (!m->tried) read_module_names(m, info);
    na_variable_t found = {
        .module = best, .path = info->path, .base = info->start, .size = info->end - info->start};
    uint64_t address_in_file = address - info->bias;
    const range_t *section = find_range(m->sections, m->section_count, address_in_file);
    const range_t *symbol = find_range(m->symbols, m->symbol_count, address_in_file);
    const range_t *at = symbol != NULL ? symbol : section;
    if (at == NULL) return found;
    found.named = symbol != NULL;
    found.name = at->name;
    found.base = at->base + info->bias;
    found.size = at->size;
    return found;
}
