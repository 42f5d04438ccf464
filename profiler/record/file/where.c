/* where.c - keeps hold of the directories that names of profiles count from. */
#include "profiler/record/state/where.h"

#include <errno.h>
#include <fcntl.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/record/file/folders.h"
#include "profiler/record/state/state.h"

typedef struct place {
    bool known;
    int fd; /* of the directory, or lost */
    dev_t dev;
    ino_t ino;
    char path[4096]; /* empty: it has no name */
} place_t;

NA_SPARSE static place_t where_at_start, at_call, root_directory;
static place_t *relative = &where_at_start;
static na_lock_t where_lock;

static bool is_it(const place_t *p, long fd) {
    struct stat st;
    return na_sys2(SYS_fstat, fd, (long)&st) == 0 && st.st_dev == p->dev && st.st_ino == p->ino;
}

static long open_directory(const char *path) {
    return na_sys4(SYS_openat, AT_FDCWD, (long)path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

static void keep_path(place_t *p, const char *path) {
    struct stat st;
    *p = (place_t){.known = true, .fd = -1};
    long fd = open_directory(path);
    if (fd >= 0) fd = na_writer_move_up(fd);
    if (fd >= 0 && na_sys2(SYS_fstat, fd, (long)&st) == 0) {
        p->fd = (int)fd;
        p->dev = st.st_dev;
        p->ino = st.st_ino;
    }
    /* What lies outside of the process's root begins with "(unreachable)". */
    if (path[0] == '/')
        na_rec_copy(p->path, sizeof p->path, path);
    else if (na_sys2(SYS_getcwd, (long)p->path, sizeof p->path) <= 1 || p->path[0] != '/')
        p->path[0] = 0;
}

/* The directory that *name counts from, which is made relative to it; -ENOENT: it is out of reach.
 */
static long directory_of(const char **name) {
    bool whole = **name == '/';
    place_t *p = whole ? &root_directory : relative;
    na_lock(&where_lock);
    if (!p->known) keep_path(p, whole ? "/" : ".");
    if (p->fd < 0 || !is_it(p, p->fd)) { /* the program closed it, and may have the number now */
        long fd = p->ino != 0 && p->path[0] != 0 ? open_directory(p->path) : -ENOENT;
        if (fd >= 0 && !is_it(p, fd)) {
            na_sys1(SYS_close, fd);
            fd = -ENOENT;
        }
        p->fd = fd >= 0 ? (int)na_writer_move_up(fd) : -1;
    }
    long fd = p->fd >= 0 ? p->fd : -ENOENT;
    bool never = p->ino == 0; /* none was to be had: the names themselves have to do */
    na_unlock(&where_lock);
    if (never) return AT_FDCWD;
    if (whole) {
        while ((*name)[0] == '/' && (*name)[1] != 0)
            ++*name;
        if ((*name)[0] == '/') *name = ".";
    }
    return fd;
}

void na_where_start(const char *name) {
    keep_path(name != NULL && name[0] == '/' ? &root_directory : &where_at_start,
              name != NULL && name[0] == '/' ? "/" : ".");
}

void na_where_begin(bool named_by_call) {
    relative = named_by_call ? &at_call : &where_at_start;
    if (!named_by_call) return;
    if (at_call.known && at_call.fd >= 0 && is_it(&at_call, at_call.fd))
        na_sys1(SYS_close, at_call.fd);
    at_call.known = false;
}

void na_where_after_fork(void) {
    na_lock_reset(&where_lock);
}

long na_where_open(const char *name, int flags, int mode) {
    long fd = directory_of(&name);
    return fd == -ENOENT ? fd : na_sys4(SYS_openat, fd, (long)name, flags, mode);
}

long na_where_stat(const char *name, struct stat *to) {
    long fd = directory_of(&name);
    return fd == -ENOENT ? fd : na_sys4(SYS_newfstatat, fd, (long)name, (long)to, 0);
}

void na_where_unlink(const char *name) {
    long fd = directory_of(&name);
    if (fd != -ENOENT) na_sys3(SYS_unlinkat, fd, (long)name, 0);
}

long na_where_rename(const char *from, const char *to) {
    enum { NO_REPLACE = 1 };
    long fd = directory_of(&from);
    if (fd == -ENOENT || directory_of(&to) != fd) return -ENOENT;
    long error = na_sys6(SYS_renameat2, fd, (long)from, fd, (long)to, NO_REPLACE, 0);
    if (error == 0 || error == -EEXIST) return error;
    return na_sys4(SYS_renameat, fd, (long)from, fd, (long)to); /* this filesystem cannot */
}

long na_where_make_folders(char *name) {
    const char *rest = name;
    long fd = directory_of(&rest);
    return fd == -ENOENT ? fd : na_make_folders(fd, name + (rest - name));
}

const char *na_where_shown(const char *name) {
    NA_SPARSE static char whole[2 * sizeof where_at_start.path];
    if (name[0] == '/' || relative->path[0] == 0) return name;
    struct stat st;
    if (na_sys4(SYS_newfstatat, AT_FDCWD, (long)".", (long)&st, 0) == 0 &&
        st.st_dev == relative->dev && st.st_ino == relative->ino)
        return name;
    na_rec_copy(whole, sizeof relative->path, relative->path);
    size_t n = 0;
    while (whole[n] != 0)
        n++;
    if (whole[n - 1] != '/') whole[n++] = '/';
    na_rec_copy(whole + n, sizeof whole - n, name);
    return whole;
}
