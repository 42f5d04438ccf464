/* loaded.c - walks the loaded modules and looks names up in their hash tables. */
#define _GNU_SOURCE 1
#include "alloc/interpose/loaded.h"

#include <elf.h>
#include <link.h>

#include "alloc/core/sys/base.h"

bool (*na_loaded_opened)(void);

#pragma weak dl_iterate_phdr

typedef struct walk {
    na_loaded_visit_t *visit;
    void *context;
    unsigned index;
} walk_t;

na_symbol_name_t na_symbol_name(const char *text) {
    na_symbol_name_t name = {.text = text, .hash = 5381};
    for (const char *c = text; *c != '\0'; c++)
        name.hash = name.hash * 33 + (unsigned char)*c;
    return name;
}

static uint32_t sysv_hash(const char *text) {
    uint32_t hash = 0;
    for (const char *c = text; *c != '\0'; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        uint32_t high = hash & 0xf0000000u;
        hash = (hash ^ high >> 24) & ~high;
    }
    return hash;
}

/* Not strcmp, for which every process would look it up at its start. */
static bool is_same_text(const char *a, const char *b) {
    while (*a == *b && *a != '\0')
        a++, b++;
    return *a == *b;
}

static void *defined(const na_loaded_t *module, uint32_t index, const na_symbol_name_t *name) {
    const ElfW(Sym) *symbol = (const ElfW(Sym) *)module->symbols + index;
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_NOTYPE) ||
        (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE) ||
        !is_same_text(module->strings + symbol->st_name, name->text))
        return NULL;
    return (void *)(module->base + symbol->st_value);
}

static void *by_gnu_hash(const na_loaded_t *module, const na_symbol_name_t *name) {
    const uint32_t *table = module->gnu;
    uint32_t buckets = table[0], first = table[1], words = table[2], shift = table[3];
    const ElfW(Addr) *filter = (const ElfW(Addr) *)(const void *)(table + 4);
    enum { BITS = 8 * sizeof(ElfW(Addr)) };
    ElfW(Addr) mask = (ElfW(Addr))1 << name->hash % BITS | (ElfW(Addr))1
                                                               << (name->hash >> shift) % BITS;
    if (buckets == 0 || (filter[name->hash / BITS & (words - 1)] & mask) != mask) return NULL;
    const uint32_t *bucket = (const uint32_t *)(const void *)(filter + words);
    const uint32_t *chain = bucket + buckets;
    uint32_t index = bucket[name->hash % buckets];
    if (index < first) return NULL;
    for (;; index++) {
        uint32_t hash = chain[index - first];
        void *found = (hash | 1) == (name->hash | 1) ? defined(module, index, name) : NULL;
        if (found != NULL || (hash & 1) != 0) return found;
    }
}

static void *by_sysv_hash(const na_loaded_t *module, const na_symbol_name_t *name) {
    const uint32_t *bucket = module->sysv + 2, *chain = bucket + module->sysv[0];
    if (module->sysv[0] == 0) return NULL;
    uint32_t hash = sysv_hash(name->text);
    for (uint32_t index = bucket[hash % module->sysv[0]]; index != 0; index = chain[index]) {
        void *found = defined(module, index, name);
        if (found != NULL) return found;
    }
    return NULL;
}

void *na_loaded_function(const na_loaded_t *module, const na_symbol_name_t *name) {
    if (module->symbols == NULL || module->strings == NULL) return NULL;
    if (module->gnu != NULL) return by_gnu_hash(module, name);
    return module->sysv != NULL ? by_sysv_hash(module, name) : NULL;
}

/* The loader has made addresses of them, but not in modules that it did not load itself (the
 * kernel's). */
static const void *table_at(const struct dl_phdr_info *info, const ElfW(Dyn) * entry) {
    uintptr_t at = entry->d_un.d_ptr;
    return (const void *)(at < info->dlpi_addr ? at + info->dlpi_addr : at);
}

static void read_dynamic(na_loaded_t *module, const struct dl_phdr_info *info,
                         const ElfW(Dyn) * entry) {
    size_t soname = 0;
    for (; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            module->symbols = table_at(info, entry);
            break;
        case DT_STRTAB:
            module->strings = table_at(info, entry);
            break;
        case DT_GNU_HASH:
            module->gnu = table_at(info, entry);
            break;
        case DT_HASH:
            module->sysv = table_at(info, entry);
            break;
        case DT_SONAME:
            soname = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (soname != 0 && module->strings != NULL) module->soname = module->strings + soname;
}

static int one(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    walk_t *walk = context;
    na_loaded_t module = {
        .name = info->dlpi_name != NULL ? info->dlpi_name : "",
        .index = walk->index++,
        .base = info->dlpi_addr,
        .headers = info->dlpi_phdr,
        .header_count = info->dlpi_phnum,
    };
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            read_dynamic(&module, info,
                         (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    return !walk->visit(&module, walk->context);
}

void na_loaded_visit(na_loaded_visit_t *visit, void *context) {
    walk_t walk = {.visit = visit, .context = context};
    if (&dl_iterate_phdr != NULL) dl_iterate_phdr(one, &walk);
}

static int tell_loaded(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    *(unsigned *)context = (unsigned)info->dlpi_adds;
    return 1;
}

unsigned na_loaded_count(void) {
    unsigned loaded = 0;
    if (&dl_iterate_phdr != NULL) dl_iterate_phdr(tell_loaded, &loaded);
    return loaded;
}
