/* package.c - see package.h. */
#include "profiler/dump/symbols/dwarf/package.h"

#include <dwarf.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/dump/symbols/dwarf/elf_image.h"

/* Columns of an index. The fifth and the later ones differ in DWARF 5 and in GNU's DWARF 4. */
enum { INFO = 1, ABBREV = 3, LINE = 4, LOCATIONS = 5, STR_OFFSETS = 6, RANGES = 8, KINDS = 9 };

static const char *const names[KINDS] = {
    [INFO] = ".debug_info.dwo",
    [ABBREV] = ".debug_abbrev.dwo",
    [LINE] = ".debug_line.dwo",
    [LOCATIONS] = ".debug_loclists.dwo",
    [STR_OFFSETS] = ".debug_str_offsets.dwo",
    [RANGES] = ".debug_rnglists.dwo",
};

typedef struct unit {
    Dwarf *dwarf;
    Elf *elf;
    Dwarf_Off offset; /* of the skeleton in the module */
    Dwarf_Die split;
} unit_t;

typedef struct bytes {
    const unsigned char *at;
    size_t size;
} bytes_t;

struct na_package {
    int fd;
    Elf *elf;
    Elf *module; /* belongs to libdwfl */
    bytes_t index;
    unit_t *units;
    size_t count, room;
};

static uint32_t word(const void *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* gcc gives each type unit of DWARF 5 a section of its own. */
static bool begins_with_type(bytes_t data) {
    return data.size >= 8 && (word(data.at + 4) & 0xffffu) >= 5 && data.at[6] == DW_UT_split_type;
}

/* All of a section; it stays with the file. */
static bytes_t section(Elf *elf, const char *name) {
    bool unit = strcmp(name, names[INFO]) == 0;
    bytes_t found = {NULL, 0};
    size_t strings;
    if (elf_getshdrstrndx(elf, &strings) != 0) return found;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) != NULL;) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) == NULL || header.sh_type == SHT_NOBITS) continue;
        const char *own = elf_strptr(elf, strings, header.sh_name);
        if (own == NULL || strcmp(own, name) != 0) continue;
        if ((header.sh_flags & SHF_COMPRESSED) != 0 && elf_compress(scn, 0, 0) < 0) break;
        const Elf_Data *data = elf_rawdata(scn, NULL);
        if (data == NULL || data->d_buf == NULL) break;
        found = (bytes_t){data->d_buf, data->d_size};
        if (!unit || !begins_with_type(found)) break;
    }
    return found;
}

/* The row of a unit in the index, 0: none. Rows count from 1. Rows of the offsets and of the sizes
 * lie one after another. */
static uint32_t find_row(bytes_t index, uint64_t id) {
    uint32_t units = word(index.at + 8), slots = word(index.at + 12);
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t signature;
        memcpy(&signature, index.at + 16 + 8 * (size_t)i, sizeof signature);
        uint32_t row = word(index.at + 16 + 8 * (size_t)slots + 4 * (size_t)i);
        if (signature == id && row != 0 && row <= units) return row;
    }
    return 0;
}

/* Whether the index holds what its header says. */
static bool index_is_whole(bytes_t index) {
    if (index.size < 16) return false;
    uint32_t version = word(index.at) & 0xffffu;
    uint64_t columns = word(index.at + 4), units = word(index.at + 8), slots = word(index.at + 12);
    return (version == 2 || version == 5) && columns < 32 &&
           16 + 12 * slots + 4 * columns * (1 + 2 * units) <= index.size;
}

/* The unit's part of each section of a package. */
static bool find_parts(const na_package_t *package, uint64_t id, bytes_t *parts) {
    bytes_t index = package->index;
    if (index.size == 0) return false;
    uint32_t columns = word(index.at + 4), units = word(index.at + 8), slots = word(index.at + 12);
    uint32_t row = find_row(index, id);
    if (row == 0) return false;
    const unsigned char *kinds = index.at + 16 + 12 * (size_t)slots;
    for (size_t i = 0; i < columns; i++) {
        uint32_t kind = word(kinds + 4 * i);
        if (kind >= KINDS || names[kind] == NULL) continue;
        uint32_t offset = word(kinds + 4 * (columns * (size_t)row + i));
        uint32_t size = word(kinds + 4 * (columns * ((size_t)units + row) + i));
        bytes_t whole = section(package->elf, names[kind]);
        if (whole.at == NULL || offset > whole.size || size > whole.size - offset) continue;
        parts[kind] = (bytes_t){whole.at + offset, size};
    }
    return parts[INFO].size > 11 && parts[ABBREV].at != NULL;
}

/* All of a .dwo file. */
static bool file_parts(Elf *file, bytes_t *parts) {
    for (size_t kind = 0; kind < KINDS; kind++)
        if (names[kind] != NULL) parts[kind] = section(file, names[kind]);
    return parts[INFO].size > 11 && parts[ABBREV].at != NULL;
}

/* Copies of a unit's string offsets and of the strings alone that they name. */
static bool copy_strings(bytes_t strings, bytes_t offsets, size_t head, unsigned char **new_offsets,
                         char **new_strings, size_t *size) {
    size_t room = 1;
    *new_offsets = malloc(offsets.size + 1);
    *new_strings = malloc(room);
    *size = 0;
    if (*new_offsets == NULL || *new_strings == NULL) return false;
    memcpy(*new_offsets, offsets.at, offsets.size);
    for (size_t at = head; at + 4 <= offsets.size; at += 4) {
        uint32_t from = word(offsets.at + at), to = (uint32_t)*size;
        if (from >= strings.size) continue;
        const char *text = (const char *)strings.at + from;
        size_t length = strnlen(text, strings.size - from);
        if (!NA_ARRAY_RESERVE(*new_strings, room, *size + length + 1)) return false;
        memcpy(*new_strings + *size, text, length);
        (*new_strings)[*size + length] = 0;
        *size += length + 1;
        memcpy(*new_offsets + at, &to, sizeof to);
    }
    return true;
}

/* The unit as a .dwo file has it; -1: there is no memory. `from` has its strings. */
static int write_unit(Elf *from, bytes_t *parts, unsigned version) {
    size_t head = version < 5 ? 0 : 8;
    bytes_t offsets = parts[STR_OFFSETS];
    if (offsets.size < head || (head != 0 && word(offsets.at) == UINT32_MAX)) return -1;
    na_elf_part_t sections[NA_ELF_IMAGE_SECTIONS + 1] = {{NULL, NULL, 0}};
    unsigned char *new_offsets;
    char *strings;
    size_t size, count = 0;
    int fd = -1;
    if (copy_strings(section(from, ".debug_str.dwo"), offsets, head, &new_offsets, &strings,
                     &size)) {
        bytes_t copied = {new_offsets, offsets.size};
        for (size_t kind = 0; kind < KINDS; kind++) {
            bytes_t part = kind == STR_OFFSETS ? copied : parts[kind];
            if (part.at != NULL && (version >= 5 || (kind != LOCATIONS && kind != RANGES)))
                sections[count++] = (na_elf_part_t){names[kind], part.at, part.size};
        }
        sections[count] = (na_elf_part_t){".debug_str.dwo", strings, size};
        fd = na_elf_image(sections);
    }
    free(new_offsets);
    free(strings);
    return fd;
}

static uint32_t offset_of(Dwarf_Die *cu, unsigned name, uint32_t otherwise) {
    Dwarf_Attribute memory;
    Dwarf_Word value;
    return dwarf_attr(cu, name, &memory) != NULL && dwarf_formudata(&memory, &value) == 0
               ? (uint32_t)value
               : otherwise;
}

static unsigned char *put(unsigned char *to, const void *from, size_t size) {
    memcpy(to, from, size);
    return to + size;
}

/* A skeleton unit that names file descriptor `fd`, and its abbreviation. Returns the size. */
static size_t make_skeleton(unsigned char *to, Dwarf_Die *cu, uint64_t id, uint16_t version,
                            int fd) {
    char name[32];
    int length = snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    Dwarf_Addr low;
    if (dwarf_lowpc(cu, &low) != 0) low = 0;
    bool old = version < 5;
    uint32_t numbers[] = {0, offset_of(cu, DW_AT_stmt_list, UINT32_MAX),
                          offset_of(cu, old ? DW_AT_GNU_addr_base : DW_AT_addr_base, 0),
                          offset_of(cu, DW_AT_GNU_ranges_base, 0)};
    unsigned char *at = put(to + 4, &version, 2);
    if (old) {
        at = put(put(at, numbers, 4), "\x08\x01", 2);
        at = put(at, &id, 8);
    } else {
        at = put(put(put(at, "\x04\x08", 2), numbers, 4), &id, 8);
        at = put(at, "\x01", 1);
    }
    at = put(put(at, &low, 8), name, (size_t)length + 1);
    at = put(at, numbers + 1, old ? 12 : 8);
    uint32_t size = (uint32_t)(at - to) - 4;
    memcpy(to, &size, 4);
    return size + 4u;
}

/* tag compile_unit without children; [GNU_dwo_id], low_pc, dwo_name, stmt_list, addr_base,
 * [GNU_ranges_base]. */
static const char abbreviation4[] =
    "\x01\x11\x00\xb1\x42\x07\x11\x01\xb0\x42\x08\x10\x17\xb3\x42\x17"
    "\xb2\x42\x17\x00\x00";
static const char abbreviation5[] = "\x01\x11\x00\x11\x01\x76\x08\x10\x17\x73\x17\x00\x00";

/* Lets libdw open the file of `fd` as that of the unit. */
static bool tie(const na_package_t *package, Dwarf_Die *cu, uint64_t id, uint16_t version, int fd,
                unit_t *unit) {
    static const char *const needed[] = {".debug_addr", ".debug_line", ".debug_line_str",
                                         ".debug_ranges"};
    unsigned char skeleton[128];
    na_elf_part_t parts[NA_ELF_IMAGE_SECTIONS] = {
        {".debug_info", skeleton, make_skeleton(skeleton, cu, id, version, fd)},
        {".debug_abbrev", version < 5 ? abbreviation4 : abbreviation5,
         version < 5 ? sizeof abbreviation4 : sizeof abbreviation5}};
    size_t count = 2;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        bytes_t whole = section(package->module, needed[i]);
        if (whole.at != NULL) parts[count++] = (na_elf_part_t){needed[i], whole.at, whole.size};
    }
    int image = na_elf_image(parts);
    if (image < 0) return false;
    unit->elf = elf_begin(image, ELF_C_READ_MMAP, NULL);
    if (unit->elf != NULL) (void)elf_cntl(unit->elf, ELF_C_FDREAD);
    unit->dwarf = unit->elf == NULL ? NULL : dwarf_begin_elf(unit->elf, DWARF_C_READ, NULL);
    close(image);
    Dwarf_CU *made = NULL;
    return unit->dwarf != NULL &&
           dwarf_get_units(unit->dwarf, NULL, &made, NULL, NULL, NULL, &unit->split) == 0 &&
           unit->split.addr != NULL;
}

/* clang's units name their own file. Their files are those of the skeleton's table; one in the .dwo
 * file is of its type units. gcc's have their table there. */
static bool is_clangs(Dwarf_Die *split) {
    return dwarf_hasattr(split, DW_AT_dwo_name) || dwarf_hasattr(split, DW_AT_GNU_dwo_name);
}

bool na_package_misread(Dwarf_Die *split) {
    return is_clangs(split) &&
           section(dwarf_getelf(dwarf_cu_getdwarf(split->cu)), names[LINE]).at != NULL;
}

static void close_unit(unit_t *unit) {
    dwarf_end(unit->dwarf);
    elf_end(unit->elf);
    *unit = (unit_t){.offset = unit->offset};
}

static void make_unit(const na_package_t *package, Dwarf_Die *cu, Elf *from, bytes_t *parts,
                      unit_t *unit) {
    Dwarf_Half version;
    uint64_t id;
    uint8_t type;
    if (dwarf_cu_info(cu->cu, &version, &type, NULL, NULL, &id, NULL, NULL) != 0) return;
    for (bool again = true; again;) {
        int fd = write_unit(from, parts, version);
        bool tied = fd >= 0 && tie(package, cu, id, version, fd, unit);
        if (fd >= 0) close(fd);
        again = tied && parts[LINE].at != NULL && is_clangs(&unit->split);
        if (!tied || again) close_unit(unit);
        if (again) parts[LINE] = (bytes_t){NULL, 0};
    }
}

bool na_package_unit(na_package_t *package, Dwarf_Die *cu, const char *file, Dwarf_Die *split) {
    Dwarf_Off offset = dwarf_dieoffset(cu);
    for (size_t i = 0; i < package->count; i++) {
        *split = package->units[i].split;
        if (package->units[i].offset == offset) return split->addr != NULL;
    }
    uint64_t id;
    if (dwarf_cu_info(cu->cu, NULL, NULL, NULL, NULL, &id, NULL, NULL) != 0 ||
        !NA_ARRAY_RESERVE(package->units, package->room, package->count + 1u))
        return false;
    unit_t *unit = &package->units[package->count++];
    *unit = (unit_t){.offset = offset};
    bytes_t parts[KINDS] = {{NULL, 0}};
    int fd = file == NULL ? -1 : open(file, O_RDONLY | O_CLOEXEC);
    Elf *dwo = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    if (dwo != NULL && file_parts(dwo, parts)) {
        make_unit(package, cu, dwo, parts, unit);
    } else {
        memset(parts, 0, sizeof parts);
        if (find_parts(package, id, parts)) make_unit(package, cu, package->elf, parts, unit);
    }
    elf_end(dwo);
    if (fd >= 0) close(fd);
    *split = unit->split;
    return split->addr != NULL;
}

static int open_beside(const char *file) {
    char *path;
    if (file == NULL || asprintf(&path, "%s.dwp", file) < 0) return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    return fd;
}

na_package_t *na_package_open(Dwfl_Module *module) {
    const char *file = NULL, *debug_file = NULL;
    Dwarf_Addr bias;
    Dwarf *dwarf = dwfl_module_getdwarf(module, &bias);
    (void)dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, &file, &debug_file);
    int fd = open_beside(file);
    if (fd < 0) fd = open_beside(debug_file);
    na_package_t *package = dwarf == NULL ? NULL : calloc(1, sizeof *package);
    if (package == NULL) {
        if (fd >= 0) close(fd);
        return NULL;
    }
    package->fd = fd;
    package->module = dwarf_getelf(dwarf);
    if (fd >= 0) package->elf = elf_begin(fd, ELF_C_READ, NULL);
    if (package->elf != NULL) package->index = section(package->elf, ".debug_cu_index");
    if (!index_is_whole(package->index)) package->index = (bytes_t){NULL, 0};
    return package;
}

void na_package_close(na_package_t *package) {
    if (package == NULL) return;
    for (size_t i = 0; i < package->count; i++)
        close_unit(&package->units[i]);
    free(package->units);
    elf_end(package->elf);
    if (package->fd >= 0) close(package->fd);
    free(package);
}
