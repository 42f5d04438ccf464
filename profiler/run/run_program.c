/* run_program.c - finds the program as a shell would, and refuses what the dynamic linker would
 * start without numalloc: it would run and no profile would tell why it is empty. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "profiler/run/run.h"

/* Scripts whose interpreter is a script, as many as the kernel follows. */
enum { MOST_SCRIPTS = 5 };

/* The first bytes: an ELF header, or "#! interpreter" (the kernel reads 256 bytes of it). */
typedef union head {
    unsigned char bytes[256];
    char text[256];
    Elf64_Ehdr elf; /* the fields used are at the same place in files of 32 bits */
} head_t;

static int refuse_program(const char *path, const char *why) {
    na_run_say("%s: %s", path, why);
    return NA_RUN_CANNOT;
}

/* ---- finding ---- */

static bool is_a_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* 0: it can be executed; else the status. */
static int try_path(const char *path, bool say) {
    if (access(path, X_OK) == 0 && !is_a_directory(path)) return 0;
    int error = is_a_directory(path) ? EISDIR : errno;
    bool absent = error == ENOENT || error == ENOTDIR;
    if (say && error == EISDIR)
        na_run_say("%s is a directory, not a program", path);
    else if (say && error == EACCES && access(path, F_OK) == 0)
        na_run_say("%s: not executable; chmod +x it, or name its interpreter first", path);
    else if (say)
        na_run_say("%s: %s", path, strerror(error));
    return absent ? NA_RUN_NOT_FOUND : NA_RUN_CANNOT;
}

static int find_program(char out[PATH_MAX], const char *name) {
    if (strchr(name, '/') != NULL) {
        if (snprintf(out, PATH_MAX, "%s", name) >= PATH_MAX)
            return refuse_program(name, "path too long");
        return try_path(out, true);
    }
    char denied[PATH_MAX] = "";
    const char *path = getenv("PATH");
    if (path == NULL) path = "/bin:/usr/bin";
    for (bool more = *name != 0; more;) {
        size_t length = strcspn(path, ":");
        int n =
            snprintf(out, PATH_MAX, "%.*s%s%s", (int)length, path, length == 0 ? "./" : "/", name);
        int status = n < PATH_MAX ? try_path(out, false) : NA_RUN_NOT_FOUND;
        if (status == 0) return 0;
        if (status == NA_RUN_CANNOT && denied[0] == 0 && !is_a_directory(out))
            snprintf(denied, sizeof denied, "%s", out);
        more = path[length] == ':';
        path += length + more;
    }
    if (denied[0] != 0) return try_path(denied, true);
    if (access(name, X_OK) == 0 && !is_a_directory(name))
        na_run_say("%s: no such program in PATH; the one in this directory is ./%s", name, name);
    else
        na_run_say("%s: no such program in PATH", name);
    return NA_RUN_NOT_FOUND;
}

/* ---- judging ---- */

/* With more rights than their user: the kernel tells the dynamic linker, which ignores LD_PRELOAD.
 * Where the kernel gives no rights the program runs as any other. */
static int judge_rights(const char *path, const struct stat *st) {
    char value[64];
    struct statvfs fs;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return 0;
    if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID) != 0) return 0;
    if ((st->st_mode & S_ISUID) != 0 && st->st_uid != geteuid())
        return refuse_program(path,
                              "set-user-id: the dynamic linker ignores LD_PRELOAD in it; run it as "
                              "its owner, or a copy of it (cp drops the bit)");
    if ((st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st->st_gid != getegid())
        return refuse_program(
            path, "set-group-id: the dynamic linker ignores LD_PRELOAD in it; run a copy "
                  "of it (cp drops the bit)");
    if (geteuid() != 0 && getxattr(path, "security.capability", value, sizeof value) > 0)
        return refuse_program(path,
                              "has file capabilities: the dynamic linker ignores LD_PRELOAD in it; "
                              "run it as root, or a copy of it (cp drops them)");
    return 0;
}

static const char *machine_name(unsigned machine) {
    switch (machine) {
    case EM_386:
        return "32-bit x86";
    case EM_X86_64:
        return "x86-64";
    case EM_ARM:
        return "32-bit ARM";
    case EM_AARCH64:
        return "aarch64";
    case EM_RISCV:
        return "RISC-V";
    case EM_PPC64:
        return "POWER";
    case EM_S390:
        return "s390";
    default:
        return "another machine";
    }
}

static int judge_machine(const char *path, const head_t *head, const char *library) {
    head_t own;
    int fd = open(library, O_RDONLY | O_CLOEXEC);
    bool known = fd >= 0 && pread(fd, &own, sizeof own, 0) == (ssize_t)sizeof own &&
                 memcmp(own.bytes, ELFMAG, SELFMAG) == 0;
    if (fd >= 0) close(fd);
    if (!known) {
        na_run_say("%s: not a shared library; name another with --library", library);
        return NA_RUN_FAILED;
    }
    if (head->elf.e_machine == own.elf.e_machine && head->bytes[EI_CLASS] == own.bytes[EI_CLASS])
        return 0;
    bool x32 = head->elf.e_machine == own.elf.e_machine;
    na_run_say("%s: a program for %s%s, and this numalloc is for %s; build the program for that",
               path, x32 ? "32-bit " : "", machine_name(head->elf.e_machine),
               machine_name(own.elf.e_machine));
    return NA_RUN_CANNOT;
}

bool na_run_has_numalloc(int fd) {
    static const char mark[] = "NUMALLOC_PROFILE_TRIGGER";
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size <= 0) return false;
    void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) return false;
    bool has = memmem(file, (size_t)st.st_size, mark, sizeof mark - 1) != NULL;
    munmap(file, (size_t)st.st_size);
    return has;
}

/* The dynamic linker that the file asks for. False: none, or the file is cut. */
static bool read_linker(int fd, const Elf64_Ehdr *elf, char out[PATH_MAX]) {
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(elf->e_phoff + (uint64_t)i * elf->e_phentsize);
        if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment) return false;
        if (segment.p_type != PT_INTERP) continue;
        size_t size = segment.p_filesz < PATH_MAX ? (size_t)segment.p_filesz : PATH_MAX - 1;
        ssize_t n = pread(fd, out, size, (off_t)segment.p_offset);
        if (n <= 0) return false;
        out[n] = 0;
        return true;
    }
    return false;
}

/* The file defines malloc for all others: whose comes first is the program's. False also where its
 * section headers are gone; the library says it then, if it records. */
static bool defines_malloc(int fd, const Elf64_Ehdr *elf) {
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size <= 0) return false;
    size_t size = (size_t)st.st_size;
    const char *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) return false;
    bool found = false;
    size_t sections = elf->e_shentsize == sizeof(Elf64_Shdr) && elf->e_shoff < size
                          ? (size - elf->e_shoff) / sizeof(Elf64_Shdr)
                          : 0;
    if (sections > elf->e_shnum) sections = elf->e_shnum;
    for (size_t i = 0; i < sections && !found; i++) {
        Elf64_Shdr symbols, names;
        memcpy(&symbols, file + elf->e_shoff + i * sizeof symbols, sizeof symbols);
        if (symbols.sh_type != SHT_DYNSYM || symbols.sh_link >= sections) continue;
        memcpy(&names, file + elf->e_shoff + symbols.sh_link * sizeof names, sizeof names);
        if (symbols.sh_offset > size || symbols.sh_size > size - symbols.sh_offset ||
            names.sh_offset > size || names.sh_size > size - names.sh_offset)
            continue;
        for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size && !found;
             at += sizeof(Elf64_Sym)) {
            Elf64_Sym s;
            memcpy(&s, file + symbols.sh_offset + at, sizeof s);
            found = s.st_shndx != SHN_UNDEF && s.st_name < names.sh_size &&
                    names.sh_size - s.st_name > sizeof "malloc" - 1 &&
                    memcmp(file + names.sh_offset + s.st_name, "malloc", sizeof "malloc") == 0;
        }
    }
    munmap((void *)(size_t)file, size);
    return found;
}

static int judge_elf(na_run_program_t *program, const char *path, int fd, const head_t *head,
                     const char *library) {
    int status = judge_machine(path, head, library);
    if (status != 0) return status;
    char linker[PATH_MAX];
    if (!read_linker(fd, &head->elf, linker)) {
        program->linked = na_run_has_numalloc(fd);
        if (program->linked) return 0;
        return refuse_program(
            path, "statically linked: nothing can be preloaded; link libnumalloc.a into "
                  "it, or build it without -static");
    }
    const char *slash = strrchr(linker, '/'), *name = slash != NULL ? slash + 1 : linker;
    if (strncmp(name, "ld-musl", 7) == 0)
        return refuse_program(path,
                              "a program for musl's C library, and this libnumalloc.so is for "
                              "glibc's; build one of the two for the other");
    if (access(linker, F_OK) != 0) {
        na_run_say("%s: its dynamic linker %s is missing", path, linker);
        return NA_RUN_CANNOT;
    }
    if (!defines_malloc(fd, &head->elf)) return 0;
    program->linked = na_run_has_numalloc(fd);
    program->other_malloc = !program->linked;
    return 0;
}

static int judge_file(na_run_program_t *program, const char *path, const char *library, int depth);

/* "#!/bin/sh -e": its interpreter is what gets numalloc. */
static int judge_script(na_run_program_t *program, const char *path, const head_t *head,
                        const char *library, int depth) {
    char interpreter[sizeof head->text];
    const char *from = head->text + 2;
    from += strspn(from, " \t");
    size_t length = strcspn(from, " \t\n");
    snprintf(interpreter, sizeof interpreter, "%.*s", (int)length, from);
    if (length == 0 || access(interpreter, X_OK) != 0) {
        na_run_say("%s: its interpreter %s: %s%s; mend its first line", path, interpreter,
                   length == 0 ? "none is named" : strerror(errno),
                   length != 0 && from[length - 1] == '\r' ? " (the line ends as on Windows)" : "");
        return NA_RUN_CANNOT;
    }
    if (depth == MOST_SCRIPTS)
        return refuse_program(path, "interpreters of interpreters without end");
    return judge_file(program, interpreter, library, depth + 1);
}

static int judge_file(na_run_program_t *program, const char *path, const char *library, int depth) {
    head_t head = {.bytes = {0}};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    /* It may be run without being read; then the kernel and the linker judge. */
    if (fd < 0) return 0;
    ssize_t n = fstat(fd, &st) != 0 ? -1 : pread(fd, &head, sizeof head - 1, 0);
    int status = 0;
    if (n >= (ssize_t)sizeof head.elf && memcmp(head.bytes, ELFMAG, SELFMAG) == 0) {
        status = judge_rights(path, &st);
        if (status == 0) status = judge_elf(program, path, fd, &head, library);
    } else if (n >= 2 && head.text[0] == '#' && head.text[1] == '!') {
        status = judge_script(program, path, &head, library, depth);
    } else if (n >= 0 && memchr(head.bytes, 0, (size_t)n) == NULL) {
        program->by_shell = depth == 0;
    }
    close(fd);
    return status;
}

int na_run_find_program(na_run_program_t *program, const char *name, const char *library) {
    *program = (na_run_program_t){.path = ""};
    int status = find_program(program->path, name);
    return status != 0 ? status : judge_file(program, program->path, library, 0);
}
