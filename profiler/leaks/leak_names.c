/* leak_names.c - names of functions, from the symbol tables of modules' files. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/leaks/leaks_state.h"
#include "profiler/record/state/state.h"

/* In the file; the sorted table is in memory of its own. */
typedef struct symbol {
    uint64_t start, end; /* as linked */
    uint32_t name;       /* offset in the strings */
} symbol_t;

struct na_leak_names {
    const uint8_t *file;
    size_t size;
    const char *strings;
    size_t strings_size;
    symbol_t *symbols; /* by start */
    size_t count, bytes;
};

static bool lies_in_file(const na_leak_names_t *n, uint64_t at, uint64_t size) {
    return at <= n->size && size <= n->size - at;
}

/* The full table if there is one, else the dynamic one. Damaged files have none. */
static const ElfW(Shdr) * find_table(const na_leak_names_t *n) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)n->file;
    if (n->size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shentsize != sizeof(ElfW(Shdr)) || header->e_shoff % 8 != 0 ||
        !lies_in_file(n, header->e_shoff, (uint64_t)header->e_shnum * sizeof(ElfW(Shdr))))
        return NULL;
    const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(n->file + header->e_shoff), *found = NULL;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) *table = &sections[i];
        if (table->sh_type != SHT_SYMTAB && (table->sh_type != SHT_DYNSYM || found != NULL))
            continue;
        if (table->sh_link >= header->e_shnum || table->sh_offset % 8 != 0 ||
            !lies_in_file(n, table->sh_offset, table->sh_size))
            continue;
        const ElfW(Shdr) *strings = &sections[table->sh_link];
        if (lies_in_file(n, strings->sh_offset, strings->sh_size) && strings->sh_size != 0 &&
            n->file[strings->sh_offset + strings->sh_size - 1] == 0)
            found = table;
    }
    return found;
}

static void sift(symbol_t *s, size_t at, size_t count) {
    symbol_t moving = s[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && s[child].start < s[child + 1].start) child++;
        if (s[child].start <= moving.start) break;
        s[at] = s[child];
    }
    s[at] = moving;
}

static void sort_symbols(symbol_t *s, size_t count) {
    for (size_t i = count / 2; i-- > 0;)
        sift(s, i, count);
    for (size_t i = count; i-- > 1;) {
        symbol_t last = s[i];
        s[i] = s[0];
        s[0] = last;
        sift(s, 0, i);
    }
}

static void read_leak_symbols(na_leak_names_t *n) {
    const ElfW(Shdr) *table = find_table(n);
    if (table == NULL) return;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)n->file;
    const ElfW(Shdr) *strings = (const ElfW(Shdr) *)(n->file + header->e_shoff) + table->sh_link;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)(n->file + table->sh_offset);
    size_t all = table->sh_size / sizeof *symbols;
    n->bytes = na_align_up(all * sizeof(symbol_t) + 1, na_os_page);
    n->symbols = na_os_map(n->bytes);
    if (n->symbols == NULL) return;
    n->strings = (const char *)n->file + strings->sh_offset;
    n->strings_size = strings->sh_size;
    for (size_t i = 0; i < all; i++) {
        const ElfW(Sym) *s = &symbols[i];
        unsigned type = ELF64_ST_TYPE(s->st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF ||
            s->st_name >= n->strings_size)
            continue;
        n->symbols[n->count++] =
            (symbol_t){s->st_value, s->st_value + (s->st_size != 0 ? s->st_size : 1), s->st_name};
    }
    sort_symbols(n->symbols, n->count);
}

static na_leak_names_t *open_names(const char *path) {
    na_leak_names_t *n = na_os_map(na_align_up(sizeof *n, na_os_page));
    if (n == NULL) return NULL;
    if (path[0] == 0) path = "/proc/self/exe";
    long fd = na_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return n;
    long size = na_syscall(SYS_lseek, fd, 0, 2 /* SEEK_END */, 0, 0, 0);
    long at = size > 0 ? na_syscall(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE, fd, 0) : -1;
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    if (at < 0 && at > -4096) return n;
    n->file = (const uint8_t *)at;
    n->size = (size_t)size;
    read_leak_symbols(n);
    return n;
}

/* As the recorder met it; what was unloaded keeps its record. NULL: there is none. */
static na_leak_module_t *recorded_module(na_leak_scan_t *scan, uint32_t id, uintptr_t pc) {
    static na_nprof_module_t m; /* one scan at a time */
    for (uint32_t i = 0; i < scan->module_count && id != 0; i++)
        if (scan->modules[i].id == id) return &scan->modules[i];
    id = na_modules_find(id, pc, &m);
    if (id == 0) return NULL;
    for (uint32_t i = 0; i < scan->module_count; i++)
        if (scan->modules[i].id == id) return &scan->modules[i];
    size_t bytes = na_align_up(strlen(m.path) + 1, na_os_page);
    char *name = scan->module_count < NA_LEAK_MODULES ? na_os_map(bytes) : NULL;
    if (name == NULL) return NULL;
    if ((m.flags & NA_NPROF_MODULE_MAIN) == 0) memcpy(name, m.path, strlen(m.path) + 1);
    na_leak_module_t *to = &scan->modules[scan->module_count++];
    *to = (na_leak_module_t){.all = {m.start, m.end}, .bias = m.bias, .name = name, .id = id};
    return to;
}

na_leak_module_t *na_leak_module_of(na_leak_scan_t *scan, const na_nprof_stack_t *node,
                                    uintptr_t pc) {
    uint32_t id = NA_NPROF_STACK_MODULE(node->flags);
    for (uint32_t i = 0; i < scan->module_count && id == 0; i++)
        if (na_leak_in(&scan->modules[i].all, pc)) return &scan->modules[i];
    return recorded_module(scan, id, pc);
}

const char *na_leak_name(na_leak_module_t *module, uintptr_t pc, uintptr_t *offset) {
    if (module->names == NULL) module->names = open_names(module->name);
    const na_leak_names_t *n = module->names;
    uint64_t at = pc - module->bias;
    if (n == NULL || n->count == 0) return NULL;
    size_t low = 0, high = n->count; /* the last that begins at or before `at` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->symbols[middle].start > at)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == 0 || at >= n->symbols[low - 1].end) return NULL;
    *offset = at - n->symbols[low - 1].start;
    return n->strings + n->symbols[low - 1].name;
}

void na_leak_close_names(na_leak_scan_t *scan) {
    for (uint32_t i = 0; i < scan->module_count; i++) {
        na_leak_module_t *m = &scan->modules[i];
        na_leak_names_t *n = m->names;
        if (m->id != 0)
            na_os_unmap((void *)(uintptr_t)m->name, na_align_up(strlen(m->name) + 1, na_os_page));
        if (n == NULL) continue;
        if (n->symbols != NULL) na_os_unmap(n->symbols, n->bytes);
        if (n->file != NULL) na_sys2(SYS_munmap, (long)n->file, (long)n->size);
        na_os_unmap(n, na_align_up(sizeof *n, na_os_page));
        scan->modules[i].names = NULL;
    }
}
