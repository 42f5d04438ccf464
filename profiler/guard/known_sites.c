/* known_sites.c - call sites in whose blocks earlier runs found errors: NUMALLOC_GUARD_SITES names
 * a file of errors, or a directory with such files.
 *
 * What is kept of a site is a hash of its innermost DEEP frames, each by its module (the build id,
 * or the name where it has none) and its place in there: the same in every process that runs these
 * binaries. Nothing in a file is believed: a section that is not of the kind that is expected, or
 * not there, has no sites. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "alloc/core/sys/options.h"
#include "alloc/core/sys/print.h"
#include "profiler/containers/hash.h"
#include "profiler/guard/guard_state.h"

enum { DEEP = 4, MOST_FILES = 4096 };

static uint64_t known_hashes[NA_GUARD_KNOWN];
static uint32_t known_count;

/* --- hashes --- */

static uint64_t mix_bytes(uint64_t h, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        h = na_hash_number(h, ((const unsigned char *)bytes)[i]);
    return h;
}

/* Frames in no module have nothing that is the same in other processes. */
static uint64_t mix_frame(uint64_t h, const na_gf_module_t *m, uint64_t pc) {
    if (m == NULL) return na_hash_number(h, 0);
    if (m->build_id_bytes != 0 && m->build_id_bytes <= sizeof m->build_id) {
        h = mix_bytes(h, m->build_id, m->build_id_bytes);
    } else {
        const char *base = m->name, *end = m->name;
        for (; end < m->name + NA_GF_NAME && *end != 0; end++)
            if (*end == '/') base = end + 1;
        h = mix_bytes(h, base, (size_t)(end - base));
    }
    return na_hash_number(h, pc - m->bias);
}

bool na_guard_is_known(const na_guard_stack_t *stack) {
    if (known_count == 0) return false;
    uint64_t h = 1;
    for (uint32_t i = 0; i < stack->count && i < DEEP; i++)
        h = mix_frame(h, na_guard_module_of(stack->pc[i] - 1), stack->pc[i]);
    for (uint32_t i = 0; i < known_count; i++)
        if (known_hashes[i] == h) return true;
    return false;
}

static void add_known(uint64_t h) {
    for (uint32_t i = 0; i < known_count; i++)
        if (known_hashes[i] == h) return;
    if (known_count < NA_GUARD_KNOWN) known_hashes[known_count++] = h;
}

/* --- a file --- */

typedef struct file {
    int fd;
    na_gf_head_t head;
    na_gf_module_t *modules;
    uint32_t module_count;
    na_gf_error_t error;
} file_t;

static bool read_at(int fd, void *to, size_t size, uint64_t offset) {
    return na_syscall(SYS_pread64, fd, (long)to, (long)size, (long)offset, 0, 0) == (long)size;
}

static bool is_of(const na_gf_section_t *part, size_t entry, uint32_t most) {
    return part->entry == entry && part->count <= most && part->offset < UINT64_C(1) << 40;
}

static const na_gf_module_t *error_module(const file_t *f, uint64_t pc) {
    for (uint32_t i = f->module_count; i > 0; i--) {
        const na_gf_module_t *m = &f->modules[i - 1];
        if (pc - m->start < m->end - m->start) return m;
    }
    return NULL;
}

static void add_error(file_t *f) {
    const na_gf_error_t *e = &f->error;
    uint32_t count = e->frames[NA_GF_ALLOC];
    if (e->has_block == 0 || count == 0 || count > NA_GF_FRAMES) return;
    uint64_t h = 1;
    for (uint32_t i = 0; i < count && i < DEEP; i++) {
        uint64_t pc = e->pcs[NA_GF_ALLOC][i];
        h = mix_frame(h, error_module(f, pc - 1), pc);
    }
    add_known(h);
}

/* False: it is no file of errors. */
static bool read_known_sites(file_t *f) {
    const na_gf_head_t *h = &f->head;
    if (!read_at(f->fd, &f->head, sizeof f->head, 0) ||
        memcmp(h->magic, NA_GF_MAGIC, sizeof h->magic) != 0 || h->version != NA_GF_VERSION)
        return false;
    const na_gf_section_t *modules = &h->parts[NA_GF_MODULES], *errors = &h->parts[NA_GF_ERRORS];
    if (!is_of(modules, sizeof(na_gf_module_t), NA_GUARD_MODULES) ||
        !is_of(errors, sizeof(na_gf_error_t), UINT32_MAX))
        return true;
    uint32_t count = h->errors < errors->count ? h->errors : errors->count;
    if (count > NA_GUARD_ERRORS) count = NA_GUARD_ERRORS;
    if (count == 0) return true;
    f->module_count = modules->count;
    if (!read_at(f->fd, f->modules, f->module_count * sizeof *f->modules, modules->offset))
        f->module_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (read_at(f->fd, &f->error, sizeof f->error, errors->offset + i * sizeof f->error))
            add_error(f);
    return true;
}

static long open_at(long directory, const char *path, int more) {
    return na_syscall(SYS_openat, directory, (long)path,
                      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | more, 0, 0, 0);
}

static void close_file(long fd) {
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* --- a directory --- */

struct entry { /* of getdents64 */
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static void read_directory(file_t *f, long directory) {
    _Alignas(struct entry) static char entries[4096];
    uint32_t seen = 0;
    long n;
    while (seen < MOST_FILES && (n = na_syscall(SYS_getdents64, directory, (long)entries,
                                                sizeof entries, 0, 0, 0)) > 0) {
        for (long at = 0; at < n && seen < MOST_FILES; seen++) {
            const struct entry *e = (const void *)(entries + at);
            at += e->bytes;
            long fd = e->name[0] != '.' ? open_at(directory, e->name, O_NOFOLLOW) : -1;
            if (fd < 0) continue;
            f->fd = (int)fd;
            read_known_sites(f);
            close_file(fd);
        }
    }
}

void na_guard_known_read(void) {
    const char *path = na_option_text(NA_OPT_GUARD_SITES);
    if (path == NULL || *path == 0) return;
    size_t room =
        na_align_up(sizeof(file_t) + NA_GUARD_MODULES * sizeof(na_gf_module_t), na_os_page);
    file_t *f = na_os_map(room);
    long fd = f != NULL ? open_at(AT_FDCWD, path, 0) : -12 /* ENOMEM */;
    if (fd < 0) {
        na_warn("NUMALLOC_GUARD_SITES=%s ignored: it cannot be read (error %u)", path,
                (uint64_t)-fd);
    } else {
        struct stat st;
        f->modules = (void *)(f + 1);
        f->fd = (int)fd;
        bool is_directory =
            na_syscall(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) == 0 && S_ISDIR(st.st_mode);
        if (is_directory)
            read_directory(f, fd);
        else if (!read_known_sites(f))
            na_warn("NUMALLOC_GUARD_SITES=%s ignored: it is no file of errors of this version of "
                    "numalloc",
                    path);
        close_file(fd);
    }
    if (f != NULL) na_os_unmap(f, room);
}
