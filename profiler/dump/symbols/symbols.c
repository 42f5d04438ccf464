/* symbols.c - stack entries to names with libdwfl. See symbols.h. */
#include "profiler/dump/symbols/symbols.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/containers/path.h"
#include "profiler/dump/symbols/debuginfod.h"
#include "profiler/dump/symbols/dwarf/die_names.h"
#include "profiler/dump/symbols/dwarf/package.h"
#include "profiler/dump/symbols/dwarf/scopes.h"
#include "profiler/dump/symbols/dwarf/split_dwarf.h"
#include "profiler/dump/symbols/dwarf/units.h"
#include "profiler/dump/symbols/file_tails.h"
#include "profiler/dump/symbols/functions.h"
#include "profiler/dump/symbols/module_file.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/symbols/names/runtime.h"
#include "profiler/dump/symbols/perfmap.h"
#include "profiler/dump/symbols/symbol_cache.h"
#include "profiler/dump/symbols/symbol_table.h"
#include "profiler/dump/symbols/trampoline.h"
#include "profiler/dump/symbols/unwind_index.h"
#include "profiler/dump/symbols/zstd_sections.h"

/* An inlined chain longer than this is damaged DWARF. */
#define MAX_INLINED 64u

/* One module file. Each has a Dwfl of its own: modules of different times may overlap. */
typedef struct module {
    bool tried;
    bool opened;              /* or could not be: then there is no dwfl_module */
    bool runtime;             /* the C or C++ runtime, or the allocator itself */
    na_symbol_cache_t *cache; /* NULL: none */
    Dwfl *dwfl;
    Dwfl_Module *dwfl_module;
    const char *why;   /* no symbols: the reason */
    const char *lacks; /* not all symbols: the reason */
    bool units_tried;
    na_units_t *units;
    bool package_tried;
    na_package_t *package;
    bool table_tried;
    na_symbol_table_t *table;
    na_unwind_index_t index;
} module_t;

/* In a list's hint: of frames inside of Python's. */
#define BELOW_PYTHON (1u << 31)

/* Frames of one pc. */
typedef struct list {
    na_symbol_frame_t *frames;
    uint64_t pc;
    uint32_t hint; /* the writer's module id */
    uint32_t count;
    bool exact;
} list_t;

struct na_symbols {
    na_stack_table_t stacks;
    na_module_table_t modules;
    uint64_t cache_limit; /* bytes, 0: nothing is kept */
    const char *sysroot;  /* NULL: none */
    uint64_t start_unix_ns;
    module_t *opened; /* by module id */
    na_scopes_t *scopes;
    na_perf_map_t *jit;  /* NULL: none */
    na_reader_t *python; /* NULL: no Python frames */
    uint32_t *by_node;   /* list of a stack entry, 0: not looked up */
    list_t *lists;       /* [0] is empty */
    uint32_t list_count, list_room;
    na_index_t lists_by_pc;
    na_functions_t functions;
    char **strings; /* owned */
    size_t string_count, string_room;
};

/* Of functions that have a name and are in no file. */
static const char jit_module[] = "[jit]";

static char *debuginfo_path; /* NULL: libdwfl's standard places */

/* libdwfl's own search; what it finds may be compressed in a way that libdw cannot read. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **found) {
    bool failed;
    int fd = dwfl_standard_find_debuginfo(module, data, name, base, file, link, crc, found);
    int inflated = fd < 0 ? -1 : na_zstd_inflated(fd, &failed);
    if (inflated < 0) return fd;
    close(fd);
    return inflated;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_debuginfo,
    .debuginfo_path = &debuginfo_path,
};

na_symbols_t *na_symbols_open(na_stack_table_t stacks, na_module_table_t modules) {
    na_symbols_t *symbols = calloc(1, sizeof *symbols);
    if (symbols == NULL) return NULL;
    symbols->stacks = stacks;
    symbols->modules = modules;
    symbols->opened = calloc((size_t)modules.count + 1, sizeof *symbols->opened);
    symbols->by_node = calloc((size_t)stacks.count + 1, sizeof *symbols->by_node);
    symbols->scopes = na_scopes_open();
    if (symbols->opened == NULL || symbols->by_node == NULL || symbols->scopes == NULL) {
        na_scopes_close(symbols->scopes);
        free(symbols->opened);
        free(symbols->by_node);
        free(symbols);
        return NULL;
    }
    symbols->list_count = 1;
    return symbols;
}

/* Keeps what was looked up in a module's files. */
static void save_cache(module_t *module) {
    if (module->cache == NULL || module->dwfl_module == NULL) return;
    const char *file = NULL, *alternate;
    const void *id;
    Dwarf_Addr bias;
    Dwarf *dwarf = dwfl_module_getdwarf(module->dwfl_module, &bias);
    (void)dwfl_module_info(module->dwfl_module, NULL, NULL, NULL, NULL, NULL, NULL, &file);
    na_symbol_cache_debug_file(module->cache, dwarf != NULL, file);
    /* Names may be in a file that debug files share, and that is not there yet. */
    if (dwarf != NULL && dwelf_dwarf_gnu_debugaltlink(dwarf, &alternate, &id) > 0 &&
        dwarf_getalt(dwarf) == NULL)
        na_symbol_cache_refuse(module->cache);
    na_symbol_cache_save(module->cache);
}

void na_symbols_close(na_symbols_t *symbols) {
    if (symbols == NULL) return;
    na_scopes_close(symbols->scopes);
    na_perf_map_close(symbols->jit);
    for (uint32_t i = 0; i < symbols->modules.count; i++) {
        save_cache(&symbols->opened[i]);
        na_symbol_cache_close(symbols->opened[i].cache);
        na_units_close(symbols->opened[i].units);
        na_package_close(symbols->opened[i].package);
        na_symbol_table_close(symbols->opened[i].table);
        if (symbols->opened[i].dwfl != NULL) dwfl_end(symbols->opened[i].dwfl);
    }
    for (uint32_t i = 1; i < symbols->list_count; i++)
        free(symbols->lists[i].frames);
    for (size_t i = 0; i < symbols->string_count; i++)
        free(symbols->strings[i]);
    free(symbols->strings);
    na_functions_free(&symbols->functions);
    free(symbols->lists);
    na_index_free(&symbols->lists_by_pc);
    free(symbols->by_node);
    free(symbols->opened);
    free(symbols);
}

void na_symbols_cache(na_symbols_t *symbols, uint64_t limit) {
    symbols->cache_limit = limit;
}

void na_symbols_sysroot(na_symbols_t *symbols, const char *directory) {
    static const char standard[] = ":.debug:/usr/lib/debug";
    char *path;
    symbols->sysroot = directory;
    if (directory == NULL || asprintf(&path, "%s:%s/usr/lib/debug", standard, directory) < 0)
        return;
    free(debuginfo_path);
    debuginfo_path = path;
}

void na_symbols_process(na_symbols_t *symbols, const na_nprof_header_t *header) {
    symbols->start_unix_ns = header->start_unix_ns;
    char host[sizeof header->host] = "", path[64];
    /* Another machine's process of that number is another process. */
    if (gethostname(host, sizeof host - 1) != 0 || strcmp(host, header->host) != 0) return;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", header->pid);
    na_perf_map_close(symbols->jit);
    symbols->jit = na_perf_map_open(path, header->start_unix_ns);
}

void na_symbols_python(na_symbols_t *symbols, na_reader_t *reader) {
    symbols->python = na_reader_python(reader) != NULL ? reader : NULL;
}

/* Takes a string over. NULL in or out of memory: "?". */
static const char *own_text(na_symbols_t *symbols, char *string) {
    if (string == NULL) return "?";
    if (!NA_ARRAY_RESERVE(symbols->strings, symbols->string_room, symbols->string_count + 1u)) {
        free(string);
        return "?";
    }
    return symbols->strings[symbols->string_count++] = string;
}

static const char *open_symbol_module(const na_symbols_t *symbols, const na_nprof_module_t *info,
                                      module_t *module) {
    na_module_file_t file = na_module_file_open(info, symbols->sysroot, symbols->start_unix_ns);
    if (file.fd < 0) return file.why;
    if (file.elsewhere && module->cache != NULL) na_symbol_cache_refuse(module->cache);
    bool failed;
    int inflated = na_zstd_inflated(file.fd, &failed);
    if (failed) module->lacks = "its debug information is compressed with zstd: needs libzstd.so.1";
    if (inflated >= 0) {
        close(file.fd);
        file.fd = inflated;
    }
    module->dwfl = dwfl_begin(&callbacks);
    if (module->dwfl == NULL) {
        close(file.fd);
        return "out of memory";
    }
    na_debuginfod_watch(module->dwfl);
    dwfl_report_begin(module->dwfl);
    module->dwfl_module = dwfl_report_elf(module->dwfl, na_base_name(info->path), info->path,
                                          file.fd, info->bias, true);
    dwfl_report_end(module->dwfl, NULL, NULL);
    if (module->dwfl_module != NULL) return NULL;
    close(file.fd); /* not consumed */
    return "is not an ELF file";
}

static module_t *get_module(na_symbols_t *symbols, uint32_t id) {
    const na_nprof_module_t *info = &symbols->modules.items[id];
    module_t *module = &symbols->opened[id];
    if (!module->tried) {
        module->tried = true;
        module->runtime = na_runtime_module(info);
        if (symbols->cache_limit != 0 && symbols->sysroot == NULL &&
            (info->flags & (NA_NPROF_MODULE_VDSO | NA_NPROF_MODULE_CUT)) == 0)
            module->cache = na_symbol_cache_open(info->path, info->build_id, info->build_id_size,
                                                 symbols->cache_limit);
    }
    return module;
}

/* Opens a module's file. False: it cannot be had, and module->why says why. */
static bool open_files(const na_symbols_t *symbols, const na_nprof_module_t *info,
                       module_t *module) {
    if (!module->opened) {
        module->opened = true;
        module->why = open_symbol_module(symbols, info, module);
        GElf_Addr bias;
        Elf *elf = module->dwfl_module == NULL || module->cache == NULL
                       ? NULL
                       : dwfl_module_getelf(module->dwfl_module, &bias);
        GElf_Word crc;
        if (elf != NULL)
            na_symbol_cache_identify(module->cache, info->path, dwelf_elf_gnu_debuglink(elf, &crc));
    }
    return module->dwfl_module != NULL;
}

/* Module id of a stack entry, 0: none. The writer's hint, else the latest loaded at that address.
 */
static uint32_t find_module(const na_symbols_t *symbols, const na_nprof_stack_t *node) {
    uint32_t hint = NA_NPROF_STACK_MODULE(node->flags);
    if (hint != 0 && hint < symbols->modules.count && symbols->modules.items[hint].flags != 0)
        return hint;
    uint32_t best = 0;
    for (uint32_t id = 1; id < symbols->modules.count; id++) {
        const na_nprof_module_t *m = &symbols->modules.items[id];
        if (m->flags != 0 && node->pc >= m->start && node->pc < m->end &&
            (best == 0 || m->load_ms >= symbols->modules.items[best].load_ms))
            best = id;
    }
    return best;
}

uint32_t na_symbols_module(const na_symbols_t *symbols, uint32_t node) {
    if (node <= NA_NPROF_ROOT || node >= symbols->stacks.count ||
        symbols->stacks.items[node].flags == 0)
        return 0;
    return find_module(symbols, &symbols->stacks.items[node]);
}

static Dwarf_Die *find_unit(module_t *module, Dwarf_Addr address, Dwarf_Addr *bias) {
    Dwarf_Die *cu = dwfl_module_addrdie(module->dwfl_module, address, bias);
    /* It may also be the unit before a part that has no DWARF. */
    if (cu != NULL && dwarf_haspc(cu, address - *bias) == 1) return cu;
    if (!module->units_tried) {
        module->units_tried = true;
        module->units = na_units_open(module->dwfl_module);
    }
    return module->units == NULL ? NULL : na_units_find(module->units, address, bias);
}

/* The DIE that a unit's functions are in, of -gsplit-dwarf too. NULL: it cannot be had; then there
 * are symbols alone. */
static Dwarf_Die *unit_functions(na_symbols_t *symbols, module_t *module, Dwarf_Die *cu,
                                 Dwarf_Die *split) {
    if (!na_split_unit(cu, split)) return cu;
    if (split->addr != NULL && !na_package_misread(split)) return split;
    if (!module->package_tried) {
        module->package_tried = true;
        module->package = na_package_open(module->dwfl_module);
    }
    char *file = na_split_file(cu);
    bool found = module->package != NULL && na_package_unit(module->package, cu, file, split);
    if (!found && module->cache != NULL) na_symbol_cache_refuse(module->cache);
    if (!found && module->lacks == NULL)
        module->lacks = own_text(
            symbols, na_split_missing(file, symbols->modules.items[module - symbols->opened].path));
    free(file);
    return found ? split : NULL;
}

/* The path of a source file. One that was given to the compiler with a directory, `cc -g src/a.c`,
 * is relative to the unit's in DWARF 5, and libdw leaves it so. */
static const char *source_path(na_symbols_t *symbols, Dwarf_Die *cu, const char *file) {
    Dwarf_Attribute memory;
    const char *directory =
        file[0] == '/' ? NULL : dwarf_formstring(dwarf_attr(cu, DW_AT_comp_dir, &memory));
    if (directory == NULL || directory[0] != '/') return own_text(symbols, strdup(file));
    char *path = NULL;
    return own_text(symbols, asprintf(&path, "%s/%s", directory, file) < 0 ? NULL : path);
}

/* Where an inlined function was called: file and line in the function around it. */
static void call_site(na_symbols_t *symbols, Dwarf_Die *cu, Dwarf_Die *inlined,
                      na_symbol_frame_t *frame) {
    Dwarf_Attribute memory;
    Dwarf_Word value;
    if (dwarf_attr(inlined, DW_AT_call_line, &memory) != NULL &&
        dwarf_formudata(&memory, &value) == 0)
        frame->line = (uint32_t)value;
    Dwarf_Files *files;
    size_t count;
    if (dwarf_attr(inlined, DW_AT_call_file, &memory) != NULL &&
        dwarf_formudata(&memory, &value) == 0 && dwarf_getsrcfiles(cu, &files, &count) == 0 &&
        value < count) {
        const char *file = dwarf_filesrc(files, value, NULL, NULL);
        if (file != NULL) frame->file = source_path(symbols, cu, file);
    }
}

/* A readable name, and which of those that read alike: a clone is the function that it is one of.
 */
static void read_symbol(na_symbols_t *symbols, na_symbol_table_t *table, na_symbol_t *symbol) {
    size_t length;
    const char *plain = na_demangle_plain(symbol->name, &length);
    const char *clone = plain + length;
    symbol->readable = own_text(symbols, na_demangle(symbol->name, na_symbol_table_is_ada(table)));
    if (strstr(symbol->readable, "(?)") != NULL) /* others read alike: of other parameters */
        symbol->apart ^= (uint32_t)na_hash_bytes(NA_HASH_BEGIN, plain, length);
    if (symbol->apart == 0) return;
    if (na_demangle_is_external(plain, length) ||
        (clone[0] != 0 && na_symbol_table_has(table, plain, length))) {
        symbol->apart = 0;
        symbol->file = NULL;
    } else if (strstr(clone, ".lto_priv") != NULL || strstr(clone, ".llvm.") != NULL) {
        symbol->apart ^= (uint32_t)na_hash_text(NA_HASH_BEGIN, clone); /* two of one file */
    }
}

/* NULL: no symbol. Each symbol is made readable once. */
static const na_symbol_t *symbol_at(na_symbols_t *symbols, module_t *module, Dwarf_Addr address) {
    if (!module->table_tried) {
        module->table_tried = true;
        module->table = na_symbol_table_open(module->dwfl_module);
    }
    na_symbol_t *symbol =
        module->table == NULL ? NULL : na_symbol_table_find(module->table, address);
    if (symbol != NULL && symbol->readable == NULL) read_symbol(symbols, module->table, symbol);
    return symbol;
}

/* The name of a function's DIE; where that does not say what it lies in, of its symbol. */
static const char *name_of_die(na_symbols_t *symbols, module_t *module, Dwarf_Die *cu,
                               Dwarf_Die *die, Dwarf_Addr address, Dwarf_Addr bias,
                               na_home_t *home) {
    bool whole;
    char *name = na_die_name(symbols->scopes, die, &whole);
    if (name == NULL) return NULL;
    const char *plain = dwarf_diename(die);
    const na_symbol_t *symbol = NULL;
    Dwarf_Addr entry = address - bias;
    Dwarf_Die root = na_scopes_root(die);
    if (!whole && plain != NULL &&
        (dwarf_tag(die) == DW_TAG_subprogram || na_scopes_copy(symbols->scopes, cu, &root, &entry)))
        symbol = symbol_at(symbols, module, entry + bias);
    if (symbol == NULL || !na_demangle_is_of(symbol->readable, plain)) {
        char *text = name;
        if (!whole && !na_scopes_typed(symbols->scopes, &root) &&
            asprintf(&text, NA_DEMANGLE_UNKNOWN "%s", name) < 0)
            text = NULL;
        if (text != name) free(name);
        return own_text(symbols, text);
    }
    free(name);
    if (home->file == NULL) home->apart = symbol->apart;
    return symbol->readable;
}

/* Fills frames from DWARF; returns how many, 0: no DWARF for this address. `frames` has room for
 * MAX_INLINED + 1; [0].file and .line are set already. */
static uint32_t dwarf_frames(na_symbols_t *symbols, module_t *module, Dwarf_Addr address,
                             na_symbol_frame_t *frames, na_home_t *homes) {
    Dwarf_Addr bias;
    Dwarf_Die split, *cu = find_unit(module, address, &bias);
    if (cu != NULL) cu = unit_functions(symbols, module, cu, &split);
    if (cu == NULL) return 0;
    Dwarf_Die scopes[MAX_INLINED + 1];
    uint32_t count = na_scopes_find(symbols->scopes, cu, address - bias, scopes, MAX_INLINED + 1);
    for (uint32_t i = 0; i < count; i++) {
        homes[i] = na_die_home(symbols->scopes, &scopes[i]);
        const char *name = name_of_die(symbols, module, cu, &scopes[i], address, bias, &homes[i]);
        if (name == NULL) return 0; /* leave it to the symbol table */
        frames[i].function = name;
        frames[i].named = true;
        frames[i].inlined = i + 1 < count;
        if (!frames[i].inlined) continue;
        memset(&frames[i + 1], 0, sizeof *frames);
        call_site(symbols, cu, &scopes[i], &frames[i + 1]);
    }
    return count;
}

/* Gives every frame its function. False: out of memory. */
static bool name_functions(na_symbols_t *symbols, na_symbol_frame_t *frames, const na_home_t *homes,
                           uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        na_function_name_t f = {.function = frames[i].function,
                                .module = frames[i].module,
                                .file = homes[i].file,
                                .line = homes[i].line,
                                .apart = homes[i].apart,
                                .named = frames[i].named,
                                .runtime = frames[i].runtime,
                                .by_symbol = count == 1 && frames[i].named &&
                                             frames[i].file == NULL && frames[i].module[0] != '['};
        frames[i].id = na_functions_id(&symbols->functions, &f);
        if (frames[i].id == UINT32_MAX) return false;
    }
    return true;
}

/* Fills frames from a module's files; returns how many. 0: there is no name; [0].file and .line may
 * be set. */
static uint32_t frames_from_files(na_symbols_t *symbols, module_t *module, Dwarf_Addr address,
                                  na_symbol_frame_t *frames, na_home_t *homes) {
    Dwarf_Addr bias;
    Dwarf_Die *cu = find_unit(module, address, &bias);
    Dwarf_Line *line = cu == NULL ? NULL : dwarf_getsrc_die(cu, address - bias);
    if (line != NULL) {
        int number = 0;
        const char *file = dwarf_linesrc(line, NULL, NULL);
        if (dwarf_lineno(line, &number) != 0) number = 0;
        if (file != NULL) {
            frames[0].file = source_path(symbols, cu, file);
            frames[0].line = number > 0 ? (uint32_t)number : 0;
        }
    }
    const char *file = frames[0].file;
    uint32_t line_number = frames[0].line;
    uint32_t count = dwarf_frames(symbols, module, address, frames, homes);
    if (count != 0) return count;
    frames[0] = (na_symbol_frame_t){.file = file, .line = line_number};
    homes[0] = (na_home_t){NULL, 0, 0};
    const na_symbol_t *symbol = symbol_at(symbols, module, address);
    const char *name = symbol == NULL ? NULL : symbol->readable;
    if (symbol != NULL) homes[0] = (na_home_t){symbol->file, 0, symbol->apart};
    if ((name == NULL || strcmp(name, "__restore_rt") == 0) &&
        na_trampoline_at(module->dwfl_module, address))
        name = NA_TRAMPOLINE;
    frames[0].function = name;
    frames[0].named = frames[0].function != NULL;
    return frames[0].named ? 1 : 0;
}

/* The same from what is kept on disk; [0] has no name where files had none, and then *start is the
 * first address of its function. 0: not kept. */
static uint32_t frames_from_cache(const module_t *module, uint64_t vaddr, na_symbol_frame_t *frames,
                                  na_home_t *homes, uint64_t *start) {
    na_cached_frame_t kept[MAX_INLINED + 2];
    if (module->cache == NULL) return 0;
    uint32_t count = na_symbol_cache_find(module->cache, vaddr, kept, MAX_INLINED + 2);
    for (uint32_t i = 0; i < count; i++) {
        frames[i] = (na_symbol_frame_t){
            .function = kept[i].function,
            .file = kept[i].file,
            .line = kept[i].line,
            .inlined = kept[i].inlined,
            .named = kept[i].function != NULL,
        };
        homes[i] = (na_home_t){kept[i].home_file, kept[i].home_line, kept[i].apart};
        if (i == 0 && !frames[i].named) *start = kept[i].start;
    }
    return count;
}

static void keep_in_cache(const module_t *module, uint64_t vaddr, const na_symbol_frame_t *frames,
                          const na_home_t *homes, uint32_t count, uint64_t start) {
    na_cached_frame_t kept[MAX_INLINED + 2];
    if (module->cache == NULL) return;
    for (uint32_t i = 0; i < count; i++) {
        kept[i] = (na_cached_frame_t){
            .function = frames[i].named ? frames[i].function : NULL,
            .file = frames[i].file,
            .home_file = homes[i].file,
            .start = frames[i].named ? 0 : start,
            .line = frames[i].line,
            .home_line = homes[i].line,
            .apart = homes[i].apart,
            .inlined = frames[i].inlined,
        };
    }
    na_symbol_cache_add(module->cache, vaddr, kept, count);
}

/* Of a Python frame. */
static bool look_up_python(na_symbols_t *symbols, uint64_t pc, list_t *list) {
    na_python_code_t code = {.name = "?"};
    bool known = na_reader_python_at(symbols->python, pc, &code);
    na_symbol_frame_t frame = {
        .function = known && code.name[0] != 0 ? code.name : "?",
        .file = known && code.file[0] != 0 ? code.file : NULL,
        .line = code.line,
        .module = NA_PYTHON_MODULE,
        .offset = 2 * (uint64_t)na_nprof_py_unit(pc),
        .named = known,
    };
    na_home_t home = {frame.file, code.first_line, 0};
    if (!name_functions(symbols, &frame, &home, 1)) return false;
    list->frames = calloc(1, sizeof frame);
    if (list->frames == NULL) return false;
    list->frames[0] = frame;
    list->count = 1;
    return true;
}

static bool look_up(na_symbols_t *symbols, const na_nprof_stack_t *node, uint32_t id,
                    list_t *list) {
    na_symbol_frame_t frames[MAX_INLINED + 2];
    na_home_t homes[MAX_INLINED + 2];
    memset(&frames[0], 0, sizeof frames[0]); /* the others are set as they come */
    memset(&homes[0], 0, sizeof homes[0]);
    uint32_t count = 0;
    const na_nprof_module_t *info = id == 0 ? NULL : &symbols->modules.items[id];
    module_t *module = info == NULL ? NULL : get_module(symbols, id);
    uint64_t address = node->pc;
    if ((node->flags & NA_NPROF_STACK_EXACT) == 0 && address != 0) address--;
    uint64_t offset = info == NULL ? node->pc : node->pc - info->bias;
    uint64_t start = offset;
    if (module != NULL) {
        uint64_t vaddr = address - info->bias;
        count = frames_from_cache(module, vaddr, frames, homes, &start);
        if (count == 0 && open_files(symbols, info, module)) {
            count = frames_from_files(symbols, module, address, frames, homes);
            if (count == 0) start = na_unwind_start(&module->index, module->dwfl_module, vaddr);
            keep_in_cache(module, vaddr, frames, homes, count == 0 ? 1 : count, start);
        }
    }
    const char *nowhere = "?";
    const na_perf_name_t *jit =
        info == NULL && symbols->jit != NULL ? na_perf_map_find(symbols->jit, address) : NULL;
    if (jit != NULL) {
        frames[0] = (na_symbol_frame_t){
            .function = jit->function, .file = jit->file, .line = jit->line, .named = true};
        homes[0] = (na_home_t){jit->file, jit->line, 0};
        nowhere = jit_module;
        count = 1;
    }
    if (count == 0 || frames[0].function == NULL) {
        char *name = NULL;
        if (asprintf(&name, "%s%s0x%llx", info == NULL ? "" : na_base_name(info->path),
                     info == NULL ? "" : "+", (unsigned long long)start) < 0)
            name = NULL;
        frames[0].function = own_text(symbols, name);
        count = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        frames[i].module = info == NULL ? nowhere : info->path;
        frames[i].offset = offset;
        frames[i].runtime =
            (module != NULL && module->runtime) ||
            (frames[i].named && na_runtime_function(frames[i].function, frames[i].inlined,
                                                    homes[i].file, frames[i].file));
    }
    if (!name_functions(symbols, frames, homes, count)) return false;
    list->frames = calloc(count, sizeof *list->frames);
    if (list->frames == NULL) return false;
    memcpy(list->frames, frames, count * sizeof *frames);
    list->count = count;
    return true;
}

static uint64_t hash_pc(uint64_t pc, uint32_t hint, bool exact) {
    return na_hash_number(NA_HASH_BEGIN, pc ^ (uint64_t)hint << 40 ^ (uint64_t)exact << 39);
}

/* The list of a pc; 0: none yet. */
static uint32_t find_list(const na_symbols_t *symbols, uint64_t pc, uint32_t hint, bool exact) {
    na_probe_t probe = na_index_probe(&symbols->lists_by_pc, hash_pc(pc, hint, exact));
    while (na_index_next(&symbols->lists_by_pc, &probe)) {
        const list_t *list = &symbols->lists[probe.number];
        if (list->pc == pc && list->hint == hint && list->exact == exact) return probe.number;
    }
    return 0;
}

/* An empty list, the next one; NULL: out of memory. */
static list_t *next_list(na_symbols_t *symbols) {
    if (!NA_ARRAY_RESERVE(symbols->lists, symbols->list_room, symbols->list_count + 1u))
        return NULL;
    symbols->lists[symbols->list_count] = (list_t){.count = 0};
    return &symbols->lists[symbols->list_count];
}

/* That list is the pc's from now on; returns its number, 0: out of memory. */
static uint32_t keep_list(na_symbols_t *symbols, uint64_t pc, uint32_t hint, bool exact) {
    list_t *list = &symbols->lists[symbols->list_count];
    list->pc = pc;
    list->hint = hint;
    list->exact = exact;
    if (na_index_add(&symbols->lists_by_pc, hash_pc(pc, hint, exact), symbols->list_count))
        return symbols->list_count++;
    free(list->frames);
    return 0;
}

/* ---- symbols that came with the file ---- */

/* The next field of a line, cut off at its tab; "" when there are no more. */
static char *field(char **line) {
    char *begin = *line;
    size_t length = strcspn(begin, "\t");
    *line = begin + length + (begin[length] != 0);
    begin[length] = 0;
    return begin;
}

static const char *keep_text(na_symbols_t *symbols, const char *text) {
    return text[0] == 0 ? NULL : own_text(symbols, strdup(text));
}

static void read_kept_frame(na_symbols_t *symbols, char *line, na_symbol_frame_t *frame,
                            na_home_t *home) {
    const char *function = field(&line);
    memset(frame, 0, sizeof *frame);
    memset(home, 0, sizeof *home);
    frame->function = own_text(symbols, strdup(function));
    frame->file = keep_text(symbols, field(&line));
    frame->line = (uint32_t)strtoul(field(&line), NULL, 10);
    home->file = keep_text(symbols, field(&line));
    home->line = (uint32_t)strtoul(field(&line), NULL, 10);
    frame->offset = strtoull(field(&line), NULL, 16);
    unsigned long flags = strtoul(field(&line), NULL, 10);
    frame->inlined = (flags & 1) != 0;
    frame->named = (flags & 2) != 0;
    frame->runtime = (flags & 4) != 0;
    home->apart = (uint32_t)strtoul(field(&line), NULL, 10);
}

/* Makes the frames gathered the answer for one pc. */
static bool add_frame_list(na_symbols_t *symbols, uint64_t pc, uint32_t hint, bool exact,
                           na_symbol_frame_t *frames, const na_home_t *homes, uint32_t count) {
    if (count == 0) return true;
    na_nprof_stack_t node = {.flags = hint << 8, .pc = pc};
    uint32_t id = find_module(symbols, &node);
    for (uint32_t i = 0; i < count; i++)
        frames[i].module = id != 0           ? symbols->modules.items[id].path
                           : frames[i].named ? jit_module
                                             : "?";
    if (find_list(symbols, pc, hint, exact) != 0) return true;
    list_t *list = next_list(symbols);
    if (list == NULL || !name_functions(symbols, frames, homes, count)) return false;
    list->frames = calloc(count, sizeof *list->frames);
    if (list->frames == NULL) return false;
    memcpy(list->frames, frames, count * sizeof *frames);
    list->count = count;
    return keep_list(symbols, pc, hint, exact) != 0;
}

bool na_symbols_add(na_symbols_t *symbols, const char *text, size_t size) {
    na_symbol_frame_t frames[MAX_INLINED + 2];
    na_home_t homes[MAX_INLINED + 2];
    uint32_t count = 0, hint = 0;
    uint64_t pc = 0;
    bool exact = false, good = true;
    char *line = NULL;
    for (size_t at = 0; at < size && good;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end == NULL ? size - at : (size_t)(end - (text + at));
        line = strndup(text + at, length);
        at += length + 1;
        if (line == NULL) return false;
        char *rest = line;
        char *kind = field(&rest);
        if (strcmp(kind, "P") == 0) {
            good = add_frame_list(symbols, pc, hint, exact, frames, homes, count);
            count = 0;
            pc = strtoull(field(&rest), NULL, 16);
            hint = (uint32_t)strtoul(field(&rest), NULL, 10) & 0xffffffu;
            exact = strtoul(field(&rest), NULL, 10) != 0;
        } else if (strcmp(kind, "F") == 0 && count < MAX_INLINED + 2) {
            read_kept_frame(symbols, rest, &frames[count], &homes[count]);
            count++;
        }
        free(line);
    }
    return good && add_frame_list(symbols, pc, hint, exact, frames, homes, count);
}

/* The list of a node's pc, looked up if it is new; 0: out of memory. */
static uint32_t frame_list(na_symbols_t *symbols, const na_nprof_stack_t *node) {
    uint32_t hint = NA_NPROF_STACK_MODULE(node->flags);
    bool exact = (node->flags & NA_NPROF_STACK_EXACT) != 0;
    if ((node->flags & NA_READER_BELOW_PYTHON) != 0) hint |= BELOW_PYTHON;
    uint32_t known = find_list(symbols, node->pc, hint, exact);
    if (known != 0) return known;
    list_t *list = next_list(symbols);
    if (list == NULL) return 0;
    bool python = symbols->python != NULL && na_nprof_is_py(node->pc);
    if (!(python ? look_up_python(symbols, node->pc, list)
                 : look_up(symbols, node, find_module(symbols, node), list)))
        return 0;
    uint32_t module = find_module(symbols, node);
    bool inside =
        (hint & BELOW_PYTHON) != 0 ||
        (module != 0 && (symbols->modules.items[module].flags & NA_NPROF_MODULE_INSIDE) != 0);
    for (uint32_t i = 0; i < list->count && inside; i++)
        list->frames[i].runtime = true;
    return keep_list(symbols, node->pc, hint, exact);
}

uint32_t na_symbols_frames(na_symbols_t *symbols, uint32_t id, const na_symbol_frame_t **frames) {
    *frames = NULL;
    if (id <= NA_NPROF_ROOT || id >= symbols->stacks.count || symbols->stacks.items[id].flags == 0)
        return 0;
    if (symbols->by_node[id] == 0)
        symbols->by_node[id] = frame_list(symbols, &symbols->stacks.items[id]);
    if (symbols->by_node[id] == 0) return 0;
    const list_t *known = &symbols->lists[symbols->by_node[id]];
    *frames = known->frames;
    return known->count;
}

uint32_t na_symbols_at(na_symbols_t *symbols, uint64_t pc, const na_symbol_frame_t **frames) {
    const na_nprof_stack_t node = {.flags = NA_NPROF_STACK_VALID | NA_NPROF_STACK_EXACT, .pc = pc};
    uint32_t list = frame_list(symbols, &node);
    *frames = list == 0 ? NULL : symbols->lists[list].frames;
    return list == 0 ? 0 : symbols->lists[list].count;
}

uint32_t na_symbols_function_count(const na_symbols_t *symbols) {
    return symbols->functions.count;
}

const na_function_name_t *na_symbols_function(const na_symbols_t *symbols, uint32_t id) {
    return &symbols->functions.items[id];
}

static bool has_tail(const char *module, const char *file) {
    return file != NULL && strcmp(module, NA_PYTHON_MODULE) == 0;
}

bool na_symbols_tell_files(na_symbols_t *symbols) {
    na_file_tails_t tails = {0};
    na_functions_t *functions = &symbols->functions;
    bool good = true;
    for (uint32_t i = 0; i < functions->count && good; i++)
        if (has_tail(functions->items[i].module, functions->items[i].file))
            good = na_file_tails_add(&tails, functions->items[i].file);
    na_file_tails_sort(&tails);
    for (uint32_t i = 0; i < functions->count && good; i++) {
        na_function_name_t *f = &functions->items[i];
        if (has_tail(f->module, f->file)) f->tail = na_file_tail(&tails, f->file);
    }
    for (uint32_t i = 1; i < symbols->list_count && good; i++) {
        na_symbol_frame_t *f = symbols->lists[i].frames;
        if (symbols->lists[i].count != 0 && has_tail(f->module, f->file))
            f->tail = na_file_tail(&tails, f->file);
    }
    na_file_tails_free(&tails);
    return good;
}

void na_symbols_missing(const na_symbols_t *symbols,
                        void (*say)(void *arg, const char *path, const char *why), void *arg) {
    for (uint32_t id = 1; id < symbols->modules.count; id++) {
        const module_t *module = &symbols->opened[id];
        if (module->tried && (module->why != NULL || module->lacks != NULL))
            say(arg, symbols->modules.items[id].path,
                module->why != NULL ? module->why : module->lacks);
    }
}
