/* names.c - reads symbol tables, and finds calls in code. */
#include "profiler/policy/bind/names.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "alloc/core/sys/os.h"

static bool lies_in(const na_policy_symbols_t *s, uint64_t at, uint64_t size) {
    return at <= s->size && size <= s->size - at;
}

/* Damaged files have no symbols. */
static void find_tables(na_policy_symbols_t *s) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)s->file;
    if (s->size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_shentsize != sizeof(ElfW(Shdr)) || header->e_shoff % 8 != 0 ||
        !lies_in(s, header->e_shoff, (uint64_t)header->e_shnum * sizeof(ElfW(Shdr))))
        return;
    const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(s->file + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) *table = &sections[i];
        bool full = table->sh_type == SHT_SYMTAB;
        if ((!full && (table->sh_type != SHT_DYNSYM || s->count != 0)) ||
            table->sh_link >= header->e_shnum || table->sh_offset % 8 != 0)
            continue;
        const ElfW(Shdr) *strings = &sections[table->sh_link];
        if (!lies_in(s, table->sh_offset, table->sh_size) ||
            !lies_in(s, strings->sh_offset, strings->sh_size) || strings->sh_size == 0 ||
            s->file[strings->sh_offset + strings->sh_size - 1] != 0)
            continue;
        s->symbols = s->file + table->sh_offset;
        s->count = table->sh_size / sizeof(ElfW(Sym));
        s->strings = s->file + strings->sh_offset;
        s->strings_size = strings->sh_size;
    }
}

/* Of a name up to its first dot, which parts of a function share with it. */
static uint32_t hash_name(const char *name, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length && name[i] != 0 && name[i] != '.'; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash;
}

static bool is_function(const na_policy_symbols_t *s, const ElfW(Sym) * symbol) {
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_name < s->strings_size;
}

static size_t index_bytes(const na_policy_symbols_t *s) {
    return na_align_up((s->first_count + s->count) * sizeof *s->first, na_os_page);
}

/* Backwards, so that of one name the first comes first. */
static void index_names(na_policy_symbols_t *s) {
    if (s->count == 0 || s->count >= UINT32_MAX) return;
    s->first_count = 1;
    while (s->first_count < s->count)
        s->first_count *= 2;
    s->first = na_os_map(index_bytes(s));
    if (s->first == NULL) return;
    s->next = s->first + s->first_count;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)s->symbols;
    for (size_t i = s->count; i-- > 0;) {
        if (!is_function(s, &symbols[i])) continue;
        const char *name = (const char *)s->strings + symbols[i].st_name;
        uint32_t *slot = &s->first[hash_name(name, SIZE_MAX) & (s->first_count - 1)];
        s->next[i] = *slot;
        *slot = (uint32_t)i + 1;
    }
}

void na_policy_symbols_open(na_policy_symbols_t *s, const char *path) {
    *s = (na_policy_symbols_t){.open = true};
    if (path[0] == 0) path = "/proc/self/exe";
    s->file = na_os_map_file(path, &s->size);
    if (s->file != NULL) find_tables(s);
    index_names(s);
}

void na_policy_symbols_close(na_policy_symbols_t *s) {
    if (s->first != NULL) na_os_unmap(s->first, index_bytes(s));
    if (s->file != NULL) na_os_unmap((void *)(uintptr_t)s->file, s->size);
    *s = (na_policy_symbols_t){0};
}

/* Length of a call instruction (x86-64: direct, or through a register or memory), 0: none. */
static unsigned call_ends_at(const uint8_t *code, size_t left) {
#ifdef __x86_64__
    if (code[0] == 0xe8) return left >= 5 ? 5 : 0;
    if (code[0] != 0xff || left < 2 || (code[1] >> 3 & 7) != 2) return 0;
    unsigned mode = code[1] >> 6, rm = code[1] & 7, length = 2;
    if (mode != 3 && rm == 4) length++;
    if (mode == 1) length++;
    if (mode == 2 || (mode == 0 && rm == 5)) length += 4;
    if (mode == 0 && rm == 4 && left >= 3 && (code[2] & 7) == 5) length += 4;
    return left >= length ? length : 0;
#else
    uint32_t word;
    if (left < 4 || (uintptr_t)code % 4 != 0) return 0;
    memcpy(&word, code, 4);
    return (word >> 26) == 0x25 || (word & 0xfffffc1fu) == 0xd63f0000u ? 4 : 0; /* bl, blr */
#endif
}

static bool is_named(const na_policy_symbols_t *s, const ElfW(Sym) * symbol, const char *name,
                     size_t length) {
    if (length >= s->strings_size - symbol->st_name) return false;
    const char *text = (const char *)s->strings + symbol->st_name;
    return memcmp(text, name, length) == 0 && (text[length] == 0 || text[length] == '.');
}

void na_policy_calls_in(const na_policy_symbols_t *s, const char *name, size_t length,
                        uintptr_t base, uintptr_t text, uintptr_t text_end,
                        void (*visit)(uintptr_t pc, void *arg), void *arg) {
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)s->symbols;
    if (s->first == NULL) return;
    uint32_t i = s->first[hash_name(name, length) & (s->first_count - 1)];
    for (; i-- != 0; i = s->next[i]) {
        if (!is_named(s, &symbols[i], name, length)) continue;
        uintptr_t begin = base + symbols[i].st_value, size = symbols[i].st_size;
        if (begin < text || begin > text_end || size > text_end - begin) continue;
        for (size_t at = 0; at < size; at++) {
            unsigned call = call_ends_at((const uint8_t *)begin + at, size - at);
            if (call != 0) visit(begin + at + call, arg);
        }
    }
}
