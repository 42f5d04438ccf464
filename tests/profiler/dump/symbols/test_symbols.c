/* test_symbols.c - names by symbol table: which of several symbols, the same as libdwfl's own
 * look-up, and at a cost that grows no faster than symbols and addresses do. */
#include <criterion/criterion.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/dump/symbols/symbol_table.h"
#include "profiler/dump/symbols/symbols.h"

#define TEXT UINT64_C(0x1000)

typedef struct made {
    const char *name;
    GElf_Addr value, size;
    int bind;
} made_t;

/* A shared object with code from TEXT on, `size` bytes that no file has, and these symbols. */
static void make_elf(const char *path, const made_t *symbols, size_t count, GElf_Addr size) {
    static char names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";
    (void)elf_version(EV_CURRENT);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_WRITE, NULL);
    cr_assert(elf != NULL && gelf_newehdr(elf, ELFCLASS64) != NULL);
    GElf_Ehdr ehdr;
    cr_assert(gelf_newphdr(elf, 1) != NULL && gelf_getehdr(elf, &ehdr) != NULL);
    ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
    ehdr.e_type = ET_DYN;
    ehdr.e_machine = EM_X86_64;
    ehdr.e_version = EV_CURRENT;
    ehdr.e_shstrndx = 4;
    cr_assert(gelf_update_ehdr(elf, &ehdr));

    size_t length = 1;
    for (size_t i = 0; i < count; i++)
        length += strlen(symbols[i].name) + 1;
    char *text = calloc(1, length);
    Elf64_Sym *table = calloc(count + 1, sizeof *table);
    cr_assert(text != NULL && table != NULL);
    size_t at = 1;
    for (size_t i = 0; i < count; i++) {
        strcpy(text + at, symbols[i].name);
        table[i + 1] = (Elf64_Sym){
            .st_name = (Elf64_Word)at,
            .st_info = (unsigned char)ELF64_ST_INFO(symbols[i].bind, STT_FUNC),
            .st_shndx = 1,
            .st_value = symbols[i].value,
            .st_size = symbols[i].size,
        };
        at += strlen(symbols[i].name) + 1;
    }
    uint32_t first_global = 1;
    while (first_global <= count && symbols[first_global - 1].bind == STB_LOCAL)
        first_global++;
    const struct {
        uint32_t name, type, link, info;
        uint64_t flags, entry, align;
        void *bytes;
        size_t size;
        GElf_Addr address;
    } sections[] = {
        {1, SHT_NOBITS, 0, 0, SHF_ALLOC | SHF_EXECINSTR, 0, 16, NULL, size, TEXT},
        {7, SHT_SYMTAB, 3, first_global, 0, sizeof *table, 8, table, (count + 1) * sizeof *table,
         0},
        {15, SHT_STRTAB, 0, 0, 0, 0, 1, text, length, 0},
        {23, SHT_STRTAB, 0, 0, 0, 0, 1, names, sizeof names, 0},
    };
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        Elf_Scn *section = elf_newscn(elf);
        Elf_Data *data = elf_newdata(section);
        GElf_Shdr header;
        cr_assert(data != NULL && gelf_getshdr(section, &header) != NULL);
        data->d_buf = sections[i].bytes;
        data->d_size = sections[i].size;
        data->d_align = sections[i].align;
        data->d_type = sections[i].type == SHT_SYMTAB ? ELF_T_SYM : ELF_T_BYTE;
        header.sh_name = sections[i].name;
        header.sh_type = sections[i].type;
        header.sh_flags = sections[i].flags;
        header.sh_link = sections[i].link;
        header.sh_info = sections[i].info;
        header.sh_entsize = sections[i].entry;
        header.sh_addr = sections[i].address;
        cr_assert(gelf_update_shdr(section, &header));
    }
    GElf_Phdr load = {.p_type = PT_LOAD,
                      .p_flags = PF_R | PF_X,
                      .p_vaddr = TEXT,
                      .p_paddr = TEXT,
                      .p_offset = TEXT,
                      .p_memsz = size,
                      .p_align = TEXT};
    cr_assert(gelf_update_phdr(elf, 0, &load));
    cr_assert(elf_update(elf, ELF_C_WRITE) > 0, "%s", elf_errmsg(-1));
    elf_end(elf);
    close(fd);
    free(text);
    free(table);
}

static char *no_path;
static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                         .find_debuginfo = dwfl_standard_find_debuginfo,
                                         .debuginfo_path = &no_path};

static Dwfl_Module *open_file(const char *path, Dwfl **dwfl) {
    *dwfl = dwfl_begin(&callbacks);
    cr_assert(*dwfl != NULL);
    dwfl_report_begin(*dwfl);
    Dwfl_Module *module = dwfl_report_elf(*dwfl, "it", path, -1, 0, true);
    dwfl_report_end(*dwfl, NULL, NULL);
    cr_assert(module != NULL, "%s: %s", path, dwfl_errmsg(-1));
    return module;
}

static char path[] = "/tmp/test_symbols.XXXXXX";

static void setup(void) {
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
}

static void teardown(void) {
    unlink(path);
}

TestSuite(symbols, .init = setup, .fini = teardown);

Test(symbols, which_of_several) {
    static const made_t symbols[] = {
        {"local_wide", TEXT + 0x000, 0x200, STB_LOCAL},
        {"local_label", TEXT + 0x700, 0, STB_LOCAL},
        {"hidden_label", TEXT + 0x120, 0, STB_LOCAL},
        {"outer", TEXT + 0x100, 0x100, STB_GLOBAL},
        {"inner", TEXT + 0x140, 0x20, STB_GLOBAL},
        {"innermost", TEXT + 0x150, 0x08, STB_GLOBAL},
        {"across", TEXT + 0x1f0, 0x40, STB_GLOBAL}, /* begins in outer, ends behind it */
        {"same_weak", TEXT + 0x300, 0x10, STB_WEAK},
        {"same_global", TEXT + 0x300, 0x10, STB_GLOBAL},
        {"same_second", TEXT + 0x300, 0x10, STB_GLOBAL},
        {"same_longer", TEXT + 0x300, 0x20, STB_GLOBAL},
        {"last", TEXT + 0x800, 0x10, STB_GLOBAL},
    };
    static const struct {
        GElf_Addr at;
        const char *name; /* NULL: none */
    } cases[] = {
        {0x000, "local_wide"},  {0x0ff, "local_wide"},  {0x100, "outer"},       {0x120, "outer"},
        {0x13f, "outer"},       {0x140, "inner"},       {0x150, "innermost"},   {0x158, "inner"},
        {0x15f, "inner"},       {0x160, "outer"},       {0x1ef, "outer"},       {0x1f0, "across"},
        {0x200, "across"},      {0x22f, "across"},      {0x230, NULL},          {0x2ff, NULL},
        {0x300, "same_global"}, {0x30f, "same_global"}, {0x310, "same_longer"}, {0x320, NULL},
        {0x6ff, NULL},          {0x700, "local_label"}, {0x7ff, "local_label"}, {0x800, "last"},
        {0x80f, "last"},        {0x810, NULL},          {0xfff, NULL},
    };
    make_elf(path, symbols, sizeof symbols / sizeof symbols[0], 0x1000);
    Dwfl *dwfl;
    Dwfl_Module *module = open_file(path, &dwfl);
    na_symbol_table_t *table = na_symbol_table_open(module);
    cr_assert(table != NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const na_symbol_t *found = na_symbol_table_find(table, TEXT + cases[i].at);
        const char *theirs = dwfl_module_addrname(module, TEXT + cases[i].at);
        const char *ours = found == NULL ? "-" : found->name;
        cr_expect_str_eq(ours, cases[i].name == NULL ? "-" : cases[i].name, "at %#lx: %s",
                         (unsigned long)cases[i].at, ours);
        cr_expect_str_eq(ours, theirs == NULL ? "-" : theirs, "at %#lx: libdwfl says %s",
                         (unsigned long)cases[i].at, theirs == NULL ? "-" : theirs);
    }
    na_symbol_table_close(table);
    dwfl_end(dwfl);
}

static int libc_path(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    if (strstr(info->dlpi_name, "/libc.so") == NULL) return 0;
    strcpy(arg, info->dlpi_name);
    return 1;
}

Test(symbols, as_libdwfl_in_a_real_library) {
    char library[4096] = "";
    if (dl_iterate_phdr(libc_path, library) == 0) cr_skip_test("no libc.so in this process");
    Dwfl *dwfl;
    Dwfl_Module *module = open_file(library, &dwfl);
    GElf_Addr begin, end;
    dwfl_module_info(module, NULL, &begin, &end, NULL, NULL, NULL, NULL);
    na_symbol_table_t *table = na_symbol_table_open(module);
    cr_assert(table != NULL);
    uint64_t random = 1;
    unsigned named = 0, other = 0;
    for (unsigned i = 0; i < 3000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        GElf_Addr address = begin + (random >> 16) % (end - begin);
        const na_symbol_t *found = na_symbol_table_find(table, address);
        GElf_Sym sym;
        GElf_Off offset;
        const char *theirs = dwfl_module_addrinfo(module, address, &offset, &sym, NULL, NULL, NULL);
        named += theirs != NULL;
        other += (theirs == NULL) != (found == NULL) ||
                 (theirs != NULL && strcmp(theirs, found->name) != 0);
    }
    cr_assert_gt(named, 300, "%u of 3,000 addresses have names", named);
    cr_assert_eq(other, 0, "%u of 3,000 addresses are named otherwise", other);
    na_symbol_table_close(table);
    dwfl_end(dwfl);
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Processor time to name `count` addresses in a module of `count` symbols. */
static uint64_t cost(unsigned count) {
    made_t *symbols = calloc(count, sizeof *symbols);
    char(*names)[32] = calloc(count, sizeof *names);
    cr_assert(symbols != NULL && names != NULL);
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "_ZN5space8f%07uEPc", i);
        symbols[i] =
            (made_t){names[i], TEXT + 16 * (GElf_Addr)((i * 7919u) % count), 16, STB_GLOBAL};
    }
    make_elf(path, symbols, count, 16 * (GElf_Addr)count);
    na_nprof_stack_t stacks[2] = {{0}};
    na_nprof_module_t modules[2] = {{0}};
    modules[1] = (na_nprof_module_t){.flags = 1, .start = TEXT, .end = TEXT + 16 * (uint64_t)count};
    snprintf(modules[1].path, sizeof modules[1].path, "%s", path);
    uint64_t before = cpu_ns();
    na_symbols_t *all = na_symbols_open((na_stack_table_t){.items = stacks, .count = 2},
                                        (na_module_table_t){.items = modules, .count = 2});
    cr_assert(all != NULL);
    for (unsigned i = 0; i < count; i++) {
        const na_symbol_frame_t *frames;
        char expected[32];
        unsigned which = (i * 104729u) % count;
        cr_assert_eq(na_symbols_at(all, symbols[which].value + 5, &frames), 1);
        snprintf(expected, sizeof expected, "space::f%07u(", which);
        cr_assert(strncmp(frames[0].function, expected, strlen(expected)) == 0, "%s",
                  frames[0].function);
    }
    na_symbols_close(all);
    uint64_t spent = cpu_ns() - before;
    free(symbols);
    free(names);
    return spent;
}

/* Eight times the symbols and eight times the addresses: eight times the work, and not sixty-four.
 */
Test(symbols, cost_grows_with_addresses, .timeout = 300) {
    (void)cost(1000);
    uint64_t little = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        uint64_t once = cost(4096);
        if (once < little) little = once;
    }
    uint64_t much = cost(8 * 4096);
    cr_assert_lt(much, 24 * little, "%lu us for eight times what takes %lu us",
                 (unsigned long)(much / 1000), (unsigned long)(little / 1000));
}
