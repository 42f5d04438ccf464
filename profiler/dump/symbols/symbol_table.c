/* symbol_table.c - a module's symbols, sorted once. See symbol_table.h. */
#include "profiler/dump/symbols/symbol_table.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/dump/symbols/names/demangle.h"

/* A symbol as it is read. */
typedef struct found {
    GElf_Addr begin, end; /* end == begin: a label */
    uint32_t name;        /* index in `names` */
    unsigned char rank;   /* of its binding, higher is better */
} found_t;

/* From `begin` to the next part's beginning, this name; 0: none (names[0] is none). */
typedef struct part {
    GElf_Addr begin;
    uint32_t name;
} part_t;

typedef struct parts {
    part_t *items;
    size_t count;
} parts_t;

typedef struct label {
    GElf_Addr begin;
    GElf_Addr end; /* of its section */
    uint32_t name;
} label_t;

/* The furthest end of all symbols that begin up to here. */
typedef struct reach {
    GElf_Addr begin, end;
} reach_t;

struct na_symbol_table {
    na_symbol_t *names;
    size_t name_count;
    parts_t globals, locals;
    label_t *labels;
    size_t label_count;
    reach_t *reaches;
    size_t reach_count;
    bool ada;
};

static unsigned char rank_of(const GElf_Sym *sym) {
    switch (GELF_ST_BIND(sym->st_info)) {
    case STB_GLOBAL:
        return 3;
    case STB_WEAK:
        return 2;
    case STB_LOCAL:
        return 1;
    default:
        return 0;
    }
}

/* By begin; of several that begin together the best last, which flatten() lets win. */
static int by_begin(const void *a, const void *b) {
    const found_t *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end > y->end ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->name > y->name ? -1 : x->name < y->name;
}

static int by_label(const void *a, const void *b) {
    const label_t *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->name > y->name ? -1 : x->name < y->name;
}

static void put_part(parts_t *parts, GElf_Addr begin, uint32_t name) {
    if (parts->count != 0 && parts->items[parts->count - 1].begin == begin) parts->count--;
    if (parts->count != 0 && parts->items[parts->count - 1].name == name) return;
    if (parts->count == 0 && name == 0) return;
    parts->items[parts->count++] = (part_t){begin, name};
}

/* Closes what ends up to `to`: where the innermost ends, that around it goes on. */
static void pop_to(parts_t *parts, const found_t **open, size_t *depth, GElf_Addr to) {
    while (*depth != 0 && open[*depth - 1]->end <= to) {
        GElf_Addr end = open[--*depth]->end;
        while (*depth != 0 && open[*depth - 1]->end <= end)
            --*depth;
        put_part(parts, end, *depth == 0 ? 0 : open[*depth - 1]->name);
    }
}

/* Sorted symbols, which may overlap, to parts, which do not: those of the innermost. Only those
 * that are local, or only those that are not. False: out of memory. */
static bool flatten(parts_t *parts, const found_t *found, size_t count, bool local) {
    size_t most = 0, depth = 0;
    for (size_t i = 0; i < count; i++)
        most += (found[i].rank == 1) == local;
    if (most == 0) return true;
    const found_t **open = calloc(most, sizeof *open);
    parts->items = calloc(2 * most, sizeof *parts->items); /* each begins once and ends once */
    for (size_t i = 0; open != NULL && parts->items != NULL && i < count; i++) {
        if ((found[i].rank == 1) != local) continue;
        pop_to(parts, open, &depth, found[i].begin);
        put_part(parts, found[i].begin, found[i].name);
        open[depth++] = &found[i];
    }
    if (open != NULL && parts->items != NULL) pop_to(parts, open, &depth, UINT64_MAX);
    free(open);
    return open != NULL && parts->items != NULL;
}

/* Where the section of a label ends; 0: it is in none that is in memory. */
static GElf_Addr section_end(Elf *elf, GElf_Word index, GElf_Addr value, GElf_Addr st_value) {
    GElf_Shdr memory;
    const GElf_Shdr *section = elf == NULL ? NULL : gelf_getshdr(elf_getscn(elf, index), &memory);
    if (section == NULL || (section->sh_flags & SHF_ALLOC) == 0) return 0;
    return section->sh_addr + section->sh_size + (value - st_value);
}

/* Link-time optimisation leaves the names of its own parts. */
static bool is_source_file(const char *name) {
    return name != NULL && name[0] != 0 && name[0] != '<' && strstr(name, ".ltrans") == NULL;
}

/* Splits what the module has into sized symbols, sorted, and labels. */
static size_t read_module_symbols(na_symbol_table_t *table, Dwfl_Module *module, found_t *found,
                                  int count) {
    size_t used = 0;
    const char *file = NULL;
    uint32_t files = 0;
    for (int i = 1; i < count; i++) {
        GElf_Sym sym;
        GElf_Addr value;
        GElf_Word section;
        Elf *elf = NULL;
        const char *name = dwfl_module_getsym_info(module, i, &sym, &value, &section, &elf, NULL);
        int type = GELF_ST_TYPE(sym.st_info);
        table->ada = table->ada || (name != NULL && na_demangle_is_gnat(name));
        if (type == STT_FILE) {
            files++;
            file = is_source_file(name) ? name : NULL;
        }
        if (name == NULL || name[0] == 0 || sym.st_shndx == SHN_UNDEF || type == STT_SECTION ||
            type == STT_FILE || type == STT_TLS)
            continue;
        table->names[i].name = name;
        if (rank_of(&sym) == 1) {
            table->names[i].file = file;
            table->names[i].apart = files + 1;
        }
        if (sym.st_size != 0 && value + sym.st_size > value) {
            found[used++] = (found_t){value, value + sym.st_size, (uint32_t)i, rank_of(&sym)};
        } else if (sym.st_size == 0) {
            GElf_Addr end = section_end(elf, section, value, sym.st_value);
            if (end > value)
                table->labels[table->label_count++] = (label_t){value, end, (uint32_t)i};
        }
    }
    if (used != 0) qsort(found, used, sizeof *found, by_begin);
    if (table->label_count != 0)
        qsort(table->labels, table->label_count, sizeof *table->labels, by_label);
    return used;
}

static bool read_symtab(na_symbol_table_t *table, Dwfl_Module *module) {
    int count = dwfl_module_getsymtab(module);
    if (count <= 1) return true;
    size_t room = (size_t)count;
    table->name_count = room;
    found_t *found = calloc(room, sizeof *found);
    table->names = calloc(room, sizeof *table->names);
    table->labels = calloc(room, sizeof *table->labels);
    table->reaches = calloc(room, sizeof *table->reaches);
    bool good =
        found != NULL && table->names != NULL && table->labels != NULL && table->reaches != NULL;
    if (good) {
        size_t used = read_module_symbols(table, module, found, count);
        GElf_Addr furthest = 0;
        for (size_t i = 0; i < used; i++) {
            if (found[i].end <= furthest) continue;
            furthest = found[i].end;
            table->reaches[table->reach_count++] = (reach_t){found[i].begin, furthest};
        }
        good = flatten(&table->globals, found, used, false) &&
               flatten(&table->locals, found, used, true);
    }
    free(found);
    return good;
}

na_symbol_table_t *na_symbol_table_open(Dwfl_Module *module) {
    na_symbol_table_t *table = calloc(1, sizeof *table);
    if (table == NULL || read_symtab(table, module)) return table;
    na_symbol_table_close(table);
    return NULL;
}

void na_symbol_table_close(na_symbol_table_t *table) {
    if (table == NULL) return;
    free(table->names);
    free(table->globals.items);
    free(table->locals.items);
    free(table->labels);
    free(table->reaches);
    free(table);
}

/* The last of `count` items whose first field, an address, is not above `address`; NULL: none. */
static const void *last_up_to(const void *items, size_t count, size_t size, GElf_Addr address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (*(const GElf_Addr *)(const void *)((const char *)items + middle * size) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? NULL : (const char *)items + (low - 1) * size;
}

bool na_symbol_table_is_ada(const na_symbol_table_t *table) {
    return table->ada;
}

bool na_symbol_table_has(const na_symbol_table_t *table, const char *name, size_t length) {
    for (size_t i = 1; i < table->name_count; i++) {
        const na_symbol_t *symbol = &table->names[i];
        if (symbol->name != NULL && symbol->apart == 0 &&
            strncmp(symbol->name, name, length) == 0 && symbol->name[length] == 0)
            return true;
    }
    return false;
}

static uint32_t part_at(const parts_t *parts, GElf_Addr address) {
    const part_t *part = last_up_to(parts->items, parts->count, sizeof *parts->items, address);
    return part == NULL ? 0 : part->name;
}

na_symbol_t *na_symbol_table_find(na_symbol_table_t *table, GElf_Addr address) {
    uint32_t name = part_at(&table->globals, address);
    if (name == 0) name = part_at(&table->locals, address);
    if (name == 0) {
        const label_t *label =
            last_up_to(table->labels, table->label_count, sizeof *table->labels, address);
        const reach_t *reach =
            last_up_to(table->reaches, table->reach_count, sizeof *table->reaches, address);
        if (label != NULL && address < label->end && (reach == NULL || reach->end <= label->begin))
            name = label->name;
    }
    return name == 0 ? NULL : &table->names[name];
}
