/* globals.c - variables from symbol tables, sizes of sections' memory from program headers. */
#include "profiler/analyze/blocks/globals.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/elf_build.h"
#include "profiler/containers/array.h"

/* A module maps nothing larger; a damaged file may claim anything. */
#define LARGEST (UINT64_C(1) << 47)

typedef struct gather {
    na_globals_t *to;
    size_t room, module_room, most;
    bool failed;
} gather_t;

static void read_segments(Elf *elf, na_global_module_t *to) {
    size_t segments;
    if (elf_getphdrnum(elf, &segments) != 0) return;
    for (size_t i = 0; i < segments; i++) {
        GElf_Phdr ph;
        if (gelf_getphdr(elf, (int)i, &ph) == NULL || ph.p_memsz > LARGEST ||
            ph.p_filesz > ph.p_memsz)
            continue;
        if (ph.p_type == PT_TLS) to->tls = ph.p_memsz;
        if (ph.p_type == PT_LOAD && (ph.p_flags & PF_W) != 0) {
            to->data += ph.p_filesz;
            to->zeroed += ph.p_memsz - ph.p_filesz;
        }
    }
}

static bool is_larger(const na_globals_t *g, const na_global_t *a, const na_global_t *b) {
    return na_global_bytes(g, a) > na_global_bytes(g, b);
}

/* Keeps the largest: a heap whose root is the smallest kept. */
static void keep_global(gather_t *g, const na_global_t *v, const char *name) {
    na_globals_t *to = g->to;
    size_t at = to->count;
    if (g->most == 0) return;
    if (at == g->most) {
        if (!is_larger(to, v, &to->items[0])) return;
        free(to->items[0].name);
        at = 0;
    } else if (!NA_ARRAY_RESERVE(to->items, g->room, at + 1)) {
        g->failed = true;
        return;
    }
    na_global_t kept = *v;
    kept.name = strdup(name);
    if (kept.name == NULL) {
        g->failed = true;
        if (at == 0 && to->count != 0) to->items[0] = to->items[--to->count];
        return;
    }
    if (at == to->count) { /* from the end upwards */
        to->count++;
        while (at != 0 && is_larger(to, &to->items[(at - 1) / 2], &kept)) {
            to->items[at] = to->items[(at - 1) / 2];
            at = (at - 1) / 2;
        }
    } else { /* from the root downwards */
        for (;;) {
            size_t child = 2 * at + 1;
            if (child + 1 < to->count && is_larger(to, &to->items[child], &to->items[child + 1]))
                child++;
            if (child >= to->count || !is_larger(to, &kept, &to->items[child])) break;
            to->items[at] = to->items[child];
            at = child;
        }
    }
    to->items[at] = kept;
}

/* The symbol table, or what is left of it for the dynamic linker. */
static uint64_t read_global_symbols(gather_t *g, Elf *elf, uint32_t module) {
    GElf_Word wanted = SHT_DYNSYM;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr sh;
        if (gelf_getshdr(section, &sh) != NULL && sh.sh_type == SHT_SYMTAB) wanted = SHT_SYMTAB;
    }
    uint64_t named = 0, last = UINT64_MAX;
    section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr sh;
        if (gelf_getshdr(section, &sh) == NULL || sh.sh_type != wanted || sh.sh_entsize == 0)
            continue;
        Elf_Data *data = elf_getdata(section, NULL);
        for (size_t i = 0; data != NULL && i < sh.sh_size / sh.sh_entsize && !g->failed; i++) {
            GElf_Sym symbol;
            if (gelf_getsym(data, (int)i, &symbol) == NULL) break;
            unsigned type = GELF_ST_TYPE(symbol.st_info);
            if ((type != STT_OBJECT && type != STT_TLS && type != STT_COMMON) ||
                symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0 || symbol.st_size > LARGEST)
                continue;
            Elf_Scn *in = symbol.st_shndx < SHN_LORESERVE ? elf_getscn(elf, symbol.st_shndx) : NULL;
            GElf_Shdr where;
            if (in != NULL && gelf_getshdr(in, &where) != NULL && (where.sh_flags & SHF_WRITE) == 0)
                continue; /* constants are shared, and cost no process anything of its own */
            if (type != STT_TLS && symbol.st_value == last) continue; /* another name of it */
            last = type != STT_TLS ? symbol.st_value : last;
            const char *name = elf_strptr(elf, sh.sh_link, symbol.st_name);
            na_global_t v = {.module = module, .size = symbol.st_size, .tls = type == STT_TLS};
            g->to->variables++;
            named += symbol.st_size;
            keep_global(g, &v, name != NULL && *name != 0 ? name : "?");
        }
    }
    return named;
}

static void read_module_globals(gather_t *g, uint32_t id, const na_nprof_module_t *m) {
    na_globals_t *to = g->to;
    if ((m->flags & NA_NPROF_MODULE_VDSO) != 0) return;
    int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
    if (elf == NULL || elf_kind(elf) != ELF_K_ELF || !na_elf_same_build(elf, m)) {
        to->missing++;
    } else {
        g->failed |= !NA_ARRAY_RESERVE(to->modules, g->module_room, to->module_count + 1u);
        if (!g->failed) {
            na_global_module_t *at = &to->modules[to->module_count++];
            *at = (na_global_module_t){.path = m->path, .module = id};
            read_segments(elf, at);
            uint64_t named = read_global_symbols(g, elf, id), all = at->data + at->zeroed + at->tls;
            to->unnamed += all > named ? all - named : 0;
        }
    }
    if (elf != NULL) elf_end(elf);
    if (fd >= 0) close(fd);
}

static int by_bytes(const void *a, const void *b, void *arg) {
    uint64_t x = na_global_bytes(arg, a), y = na_global_bytes(arg, b);
    if (x != y) return x > y ? -1 : 1;
    return strcmp(((const na_global_t *)a)->name, ((const na_global_t *)b)->name);
}

static int modules_by_bytes(const void *a, const void *b, void *arg) {
    uint64_t x = na_global_module_bytes(arg, a), y = na_global_module_bytes(arg, b);
    if (x != y) return x > y ? -1 : 1;
    return strcmp(((const na_global_module_t *)a)->path, ((const na_global_module_t *)b)->path);
}

bool na_globals_read(na_reader_t *reader, size_t most, na_globals_t *globals) {
    *globals = (na_globals_t){.threads = na_threads_peak(reader)};
    gather_t g = {.to = globals, .most = most};
    if (elf_version(EV_CURRENT) == EV_NONE) return true;
    na_module_table_t modules = na_reader_modules(reader);
    for (uint32_t id = 1; id < modules.count && !g.failed; id++)
        if (modules.items[id].flags != 0) read_module_globals(&g, id, &modules.items[id]);
    if (globals->count != 0)
        qsort_r(globals->items, globals->count, sizeof *globals->items, by_bytes, globals);
    if (globals->module_count != 0)
        qsort_r(globals->modules, globals->module_count, sizeof *globals->modules, modules_by_bytes,
                globals);
    return !g.failed;
}

void na_globals_free(na_globals_t *globals) {
    for (size_t i = 0; i < globals->count; i++)
        free(globals->items[i].name);
    free(globals->items);
    free(globals->modules);
    *globals = (na_globals_t){0};
}
