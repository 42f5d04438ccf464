/* module_file.c - finds the files of modules. See module_file.h. */
#include "profiler/dump/symbols/module_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

#include "profiler/dump/symbols/debuginfod.h"

/* NULL: it is the module's file, else why it is not. */
static const char *check_file(int fd, const na_nprof_module_t *module, uint64_t newest_ns) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return "is not a file";
    (void)elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    if (elf == NULL || elf_kind(elf) != ELF_K_ELF) {
        (void)elf_end(elf);
        return "is not an ELF file";
    }
    const void *id = NULL;
    ssize_t size = dwelf_elf_gnu_build_id(elf, &id);
    uint32_t has = size > 0 ? (uint32_t)size : 0;
    bool same =
        has == module->build_id_size && (has == 0 || memcmp(id, module->build_id, has) == 0);
    (void)elf_end(elf);
    if (!same) return "its file has changed since (another build-id)";
    uint64_t written = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    if (has == 0 && written > newest_ns)
        return "its file has changed since (it has no build-id, and is newer than the profile)";
    return NULL;
}

static bool open_by_path(const char *path, const na_nprof_module_t *module, uint64_t newest_ns,
                         na_module_file_t *file) {
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0) return false;
    const char *why = check_file(file->fd, module, newest_ns);
    if (why == NULL) return true;
    close(file->fd);
    file->fd = -1;
    file->why = why;
    return false;
}

static bool open_by_build_id(const na_nprof_module_t *module, const char *sysroot,
                             na_module_file_t *file) {
    static const char *const endings[] = {"", ".debug"};
    char path[PATH_MAX], id[2 * NA_NPROF_BUILD_ID_BYTES + 1];
    const char *roots[] = {sysroot, ""}, *why = file->why;
    if (module->build_id_size < 2 || module->build_id_size > NA_NPROF_BUILD_ID_BYTES) return false;
    for (uint32_t i = 0; i < module->build_id_size; i++)
        snprintf(id + (size_t)2 * i, 3, "%02x", module->build_id[i]);
    for (size_t i = 0; i < 4; i++) {
        if (roots[i / 2] == NULL) continue;
        snprintf(path, sizeof path, "%s/usr/lib/debug/.build-id/%.2s/%s%s", roots[i / 2], id,
                 id + 2, endings[i % 2]);
        if (open_by_path(path, module, UINT64_MAX, file)) return true;
        file->why = why; /* of the file itself */
    }
    file->fd = na_debuginfod_find(module->build_id, module->build_id_size);
    return file->fd >= 0;
}

na_module_file_t na_module_file_open(const na_nprof_module_t *module, const char *sysroot,
                                     uint64_t start_unix_ns) {
    na_module_file_t file = {-1, "its file is not there or not readable", false};
    char path[PATH_MAX];
    if ((module->flags & NA_NPROF_MODULE_VDSO) != 0) {
        file.why = "belongs to the kernel";
        return file;
    }
    if ((module->flags & NA_NPROF_MODULE_CUT) != 0) {
        file.why = "its path was too long for the profile";
    } else {
        if (sysroot != NULL &&
            (size_t)snprintf(path, sizeof path, "%s/%s", sysroot, module->path) < sizeof path) {
            file.elsewhere = open_by_path(path, module, UINT64_MAX, &file);
            if (file.elsewhere) return file;
        }
        uint64_t newest =
            start_unix_ns == 0 ? UINT64_MAX : start_unix_ns + (module->load_ms + 1) * 1000000u;
        if (open_by_path(module->path, module, newest, &file)) return file;
    }
    file.elsewhere = open_by_build_id(module, sysroot, &file);
    return file;
}
