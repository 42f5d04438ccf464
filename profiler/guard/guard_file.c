/* guard_file.c - the tables as a file: where NUMALLOC_GUARD_FILE names one, a mapping of it gets a
 * copy of whatever changes, so that it is there whatever becomes of the process; else it is written
 * when an error is found.
 *
 * The tables are private memory, the mapping is never read: a child has the tables as they were
 * when it was forked, and its parent's file is not its affair. It gets one when an error is found
 * in it, under a name with its own process id. (The name is made whole when the guards begin,
 * because programs go to other directories.) A child whose fork ran no handlers is known by a page
 * that the kernel wipes in it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "alloc/core/sys/options.h"
#include "alloc/core/sys/print.h"
#include "profiler/containers/path.h"
#include "profiler/guard/guard_state.h"
#include "profiler/record/file/folders.h"

#define PATTERN     "numalloc.%e.%p.%t.errors"
#define NAME_LENGTH 4096u

static char name_pattern[NAME_LENGTH]; /* whole; empty: there is none */
static char file_name[NAME_LENGTH];    /* of this process, once it was asked for */
static bool makes_folder;              /* the name given ends with a slash */
na_guard_tables_t *na_guard_in_file;
static _Atomic(uint32_t) *is_own; /* 0: in a child that has not been told; NULL: never known */

typedef struct text {
    char *to;
    size_t length; /* NAME_LENGTH: it did not fit */
} text_t;

static void name_add_text(text_t *t, const char *s) {
    for (; *s != 0; s++) {
        if (t->length + 1 >= NAME_LENGTH) {
            t->length = NAME_LENGTH;
            return;
        }
        t->to[t->length++] = *s;
        t->to[t->length] = 0;
    }
}

static void name_add_number(text_t *t, uint64_t value) {
    char digits[24], *p = digits + sizeof digits - 1;
    *p = 0;
    do
        *--p = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    name_add_text(t, p);
}

static bool is_folder(const char *path) {
    struct stat st;
    return na_syscall(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0, 0) == 0 &&
           S_ISDIR(st.st_mode);
}

static void make_pattern(const char *given) {
    text_t t = {.to = name_pattern};
    if (given[0] != '/') {
        long n = na_syscall(SYS_getcwd, (long)name_pattern, NAME_LENGTH - 1, 0, 0, 0, 0);
        if (n > 1 && name_pattern[0] == '/') {
            t.length = (size_t)n - 1;
            if (t.length > 1) name_add_text(&t, "/");
        }
    }
    name_add_text(&t, given);
    makes_folder = t.length < NAME_LENGTH && name_pattern[t.length - 1] == '/';
    if (t.length < NAME_LENGTH && (makes_folder || is_folder(name_pattern))) {
        if (!makes_folder) name_add_text(&t, "/");
        name_add_text(&t, PATTERN);
    }
    if (t.length >= NAME_LENGTH) name_pattern[0] = 0;
}

static const char *program_base_name(void) {
    const char *path = na_guards.t->head.program, *base = path;
    for (; *path != 0; path++)
        if (*path == '/') base = path + 1;
    return base;
}

static void name_add_program(text_t *t) {
    const char *name = program_base_name();
    for (size_t i = 0, n = na_name_part(name, NA_NAME_IN_FILE); i < n; i++)
        name_add_text(t, (char[]){name[i], 0});
}

/* Without %p a child would write over its parent's: its id is put behind. */
static const char *own_name(void) {
    if (file_name[0] != 0 || name_pattern[0] == 0) return file_name;
    text_t t = {.to = file_name};
    bool has_pid = false;
    const na_gf_head_t *head = &na_guards.t->head;
    for (const char *p = name_pattern; *p != 0; p++) {
        char one[2] = {*p, 0};
        if (*p != '%' || p[1] == 0) {
            name_add_text(&t, one);
            continue;
        }
        switch (*++p) {
        case 'p':
            name_add_number(&t, head->pid);
            has_pid = true;
            break;
        case 'e':
            name_add_program(&t);
            break;
        case 't':
            name_add_number(&t, head->start_unix_ns / 1000000000);
            break;
        default:
            one[0] = *p;
            name_add_text(&t, one);
        }
    }
    if (!has_pid && head->parent != 0) {
        name_add_text(&t, ".");
        name_add_number(&t, head->pid);
    }
    if (t.length >= NAME_LENGTH) file_name[0] = 0;
    return file_name;
}

static size_t tables_size(void) {
    return na_align_up(sizeof(na_guard_tables_t), na_os_page);
}

static long open_file(void) {
    (void)own_name();
    long error = makes_folder ? na_make_folders(AT_FDCWD, file_name) : 0;
    long fd = na_syscall(SYS_openat, AT_FDCWD, (long)file_name,
                         O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_TRUNC, 0644, 0, 0);
    return fd == -ENOENT && error != 0 ? error : fd;
}

na_guard_tables_t *na_guard_file_map(void) {
    const char *given = na_option_text(NA_OPT_GUARD_FILE);
    na_guard_tables_t *tables = na_os_map(tables_size());
    if (tables == NULL) return NULL;
    na_guards.t = tables;
    na_guard_head_begin(&tables->head);
    is_own = na_os_map(na_os_page);
    if (is_own != NULL && !na_os_wipe_in_children(is_own, na_os_page)) is_own = NULL;
    if (is_own != NULL) atomic_store(is_own, 1);
    make_pattern(given != NULL && *given != 0 ? given : PATTERN);
    if (given == NULL || *given == 0) return tables;
    long fd = open_file(), at = fd;
    if (fd >= 0) {
        at = na_syscall(SYS_ftruncate, fd, (long)tables_size(), 0, 0, 0, 0);
        if (at == 0)
            at = na_syscall(SYS_mmap, 0, (long)tables_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
                            (int)fd, 0);
        na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    if (at < 0 && at > -4096) {
        na_warn("NUMALLOC_GUARD_FILE=%s: cannot write %s (error %u); errors are reported on stderr "
                "alone",
                given, own_name(), (uint64_t)-at);
        name_pattern[0] = file_name[0] = 0;
        return tables;
    }
    na_guard_in_file = (na_guard_tables_t *)at;
    return tables;
}

void na_guard_write(const void *part, size_t bytes) {
    if (na_guard_file_is_parents()) return;
    memcpy((char *)na_guard_in_file + ((const char *)part - (const char *)na_guards.t), part,
           bytes);
}

bool na_guard_file_is_parents(void) {
    return is_own != NULL && atomic_load_explicit(is_own, memory_order_relaxed) == 0;
}

bool na_guard_file_keep(void) {
    if (na_guard_in_file != NULL) return true;
    if (own_name()[0] == 0) return false;
    long fd = open_file();
    if (fd < 0) return false;
    static const unsigned char zero[4096];
    const char *from = (const char *)na_guards.t;
    size_t whole = tables_size();
    bool good = na_syscall(SYS_ftruncate, fd, (long)whole, 0, 0, 0, 0) == 0;
    /* Pages that were never used stay holes. */
    for (size_t at = 0; good && at < whole; at += sizeof zero)
        if (memcmp(from + at, zero, sizeof zero) != 0)
            good = na_syscall(SYS_pwrite64, fd, (long)(from + at), sizeof zero, (long)at, 0, 0) ==
                   (long)sizeof zero;
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return good;
}

const char *na_guard_file_name(void) {
    return own_name();
}

void na_guard_file_after_fork(void) {
    file_name[0] = 0;
    if (is_own != NULL) atomic_store(is_own, 1);
    if (na_guard_in_file != NULL) na_os_unmap(na_guard_in_file, tables_size());
    na_guard_in_file = NULL;
}
