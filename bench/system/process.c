/* process.c - whose malloc this process has, its memory, its machine, the files beside it. */
#include "bench/system/process.h"

#include "bench/system/base.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- The allocator ----------------------------------------------------------------------------
 */

typedef struct object_search {
    uintptr_t address;
    na_allocator_id_t *id;
} object_search_t;

static void take_build_id(na_allocator_id_t *id, const unsigned char *notes, size_t size) {
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
        ElfW(Nhdr) note;
        memcpy(&note, notes + at, sizeof note);
        size_t name = at + sizeof note;
        size_t desc = name + ((note.n_namesz + 3u) & ~3u);
        size_t next = desc + ((note.n_descsz + 3u) & ~3u);
        if (next > size) return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + name, "GNU", 4) == 0) {
            size_t bytes = note.n_descsz;
            if (bytes > (sizeof id->build_id - 1) / 2) bytes = (sizeof id->build_id - 1) / 2;
            for (size_t i = 0; i < bytes; i++)
                snprintf(id->build_id + 2 * i, 3, "%02x", notes[desc + i]);
            return;
        }
        at = next;
    }
}

static void find_soname(na_allocator_id_t *id, uintptr_t base, const ElfW(Dyn) * dynamic) {
    uintptr_t strings = 0, soname = 0;
    bool named = false;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_STRTAB) strings = dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SONAME) {
            soname = dynamic->d_un.d_val;
            named = true;
        }
    }
    if (strings != 0 && strings < base)
        strings += base; /* the loader of some systems leaves the table unrelocated */
    if (strings != 0 && named)
        snprintf(id->soname, sizeof id->soname, "%s", (const char *)(strings + soname));
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *argument) {
    object_search_t *search = argument;
    bool here = false;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD &&
            search->address - (info->dlpi_addr + header->p_vaddr) < header->p_memsz)
            here = true;
    }
    if (!here) return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t address = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_NOTE && search->id->build_id[0] == '\0')
            take_build_id(search->id, (const unsigned char *)address, header->p_memsz);
        if (header->p_type == PT_DYNAMIC)
            find_soname(search->id, info->dlpi_addr, (const ElfW(Dyn) *)address);
    }
    return 1;
}

void na_allocator_identify(na_allocator_id_t *id) {
    static const char *const others[] = {"free", "calloc", "realloc"};
    Dl_info info, other;
    memset(id, 0, sizeof *id);
    /* dlsym: the address of malloc taken in C may be a stub in this program. */
    void *address = dlsym(RTLD_DEFAULT, "malloc");
    if (address == NULL || dladdr(address, &info) == 0) {
        snprintf(id->path, sizeof id->path, "(unknown)");
        return;
    }
    char full[4096];
    const char *path = realpath(info.dli_fname, full) != NULL ? full : info.dli_fname;
    snprintf(id->path, sizeof id->path, "%.*s", (int)sizeof id->path - 1, path);
    object_search_t search = {(uintptr_t)address, id};
    dl_iterate_phdr(visit_object, &search);
    for (size_t i = 0; i < NA_COUNT(others) && id->foreign[0] == '\0'; i++) {
        address = dlsym(RTLD_DEFAULT, others[i]);
        if (address != NULL && dladdr(address, &other) != 0 && other.dli_fbase != info.dli_fbase)
            snprintf(id->foreign, sizeof id->foreign, "%s", others[i]);
    }
}

/* ---- Memory and machine -----------------------------------------------------------------------
 */

void na_system_file(const char *path, char *out, size_t size) {
    size_t length = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        ssize_t got;
        while (length < size - 1 && (got = read(file, out + length, size - 1 - length)) > 0)
            length += (size_t)got;
        close(file);
    }
    out[length] = '\0';
}

/* The number of KiB after "Name:", in bytes; 0 when it is not there. */
static uint64_t field_bytes(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10) * 1024;
}

na_memory_t na_memory_read(void) {
    static char text[16384];
    na_memory_t memory = {0};
    na_system_file("/proc/self/status", text, sizeof text);
    memory.peak = field_bytes(text, "VmHWM:");
    memory.now = field_bytes(text, "VmRSS:");
    /* The counters behind status lag by some pages per CPU; the page tables do not. */
    na_system_file("/proc/self/smaps_rollup", text, sizeof text);
    uint64_t exact = field_bytes(text, "\nRss:");
    if (exact != 0) memory.now = exact;
    if (memory.peak < memory.now) memory.peak = memory.now;
    return memory;
}

void na_machine_describe(char *out, size_t size) {
    static char text[4096];
    char model[64] = "unknown CPU";
    struct utsname name;
    cpu_set_t set;
    na_system_file("/proc/cpuinfo", text, sizeof text);
    const char *at = strstr(text, "model name");
    if (at != NULL && (at = strchr(at, ':')) != NULL) {
        at += 1 + strspn(at + 1, " \t");
        snprintf(model, sizeof model, "%.*s", (int)strcspn(at, "\n"), at);
    }
    int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (uname(&name) != 0) snprintf(name.release, sizeof name.release, "(unknown)");
    if (usable != 0 && usable < online)
        snprintf(out, size, "%s, %d of %ld CPUs, Linux %s", model, usable, online, name.release);
    else
        snprintf(out, size, "%s, %ld CPUs, Linux %s", model, online, name.release);
}

bool na_program_path(char *out, size_t size) {
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length <= 0 || (size_t)length >= size - 1) return false;
    out[length] = '\0';
    return true;
}

bool na_beside_program(const char *file, char *out, size_t size) {
    /* NA_BENCH_LIBDIR: the installed library directory, relative to that of the programs. The other
     * is where Debian's packages have it. */
    static const char *const places[] = {".", NA_BENCH_LIBDIR, NA_BENCH_LIBDIR "/numalloc",
                                         "../lib/" NA_BENCH_ARCHITECTURE,
                                         "../lib/" NA_BENCH_ARCHITECTURE "/numalloc"};
    char program[2048], path[4096], full[4096];
    if (!na_program_path(program, sizeof program)) return false;
    char *slash = strrchr(program, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    for (size_t i = 0; i < NA_COUNT(places); i++) {
        snprintf(path, sizeof path, "%s/%s/%s", program, places[i], file);
        if (access(path, R_OK) == 0 && realpath(path, full) != NULL && strlen(full) < size) {
            memcpy(out, full, strlen(full) + 1);
            return true;
        }
    }
    return false;
}
