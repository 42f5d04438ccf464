/* writer.c - the profile file: its name, its growth, and the recorder's other memory.
 *
 * The file is mapped where it grows: a place with room for 64 GiB is found, address space is
 * reserved a little ahead, another place is found where others came first (space.h), each chunk is
 * allocated on disk (fallocate, or zeros where a filesystem has none) BEFORE it is mapped, so that
 * no store can meet a full disk (SIGBUS); all but the first of them, where there is room in plenty.
 * RLIMIT_FSIZE is looked at first, because exceeding it is a signal too. The descriptor is kept far
 * from the program's own, and its identity is checked before each growth: a daemon that closes
 * every descriptor makes us open the file again, and never costs it one of its own. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/containers/path.h"
#include "profiler/record/file/space.h"
#include "profiler/record/state/state.h"
#include "profiler/record/state/where.h"

static void warn(const char *const *parts) {
    char line[2048];
    size_t n = 0;
    for (; *parts != NULL; parts++)
        for (const char *p = *parts; *p != 0 && n < sizeof line - 2; p++)
            line[n++] = *p;
    line[n++] = '\n';
    na_os_say(line, n);
}

static const char *reason(long error) {
    switch (-error) {
    case EACCES:
    case EPERM:
        return "permission denied; name a file in a directory that you may write to with "
               "NUMALLOC_PROFILE_FILE";
    case EROFS:
        return "the filesystem is read-only; name a file elsewhere with NUMALLOC_PROFILE_FILE";
    case ENOENT:
    case ENOTDIR:
        return "no such directory; make it, or name another with NUMALLOC_PROFILE_FILE";
    case ENOSPC:
    case EDQUOT:
        return "the disk is full; free some space, or name a file elsewhere with "
               "NUMALLOC_PROFILE_FILE";
    case EFBIG:
        return "the file size limit is too low; raise it with ulimit -f";
    case EMFILE:
    case ENFILE:
        return "too many open files; raise the limit with ulimit -n";
    case ENOMEM:
        return na_os_space_limit() != UINT64_MAX
                   ? "not enough address space; raise the limit with ulimit -v"
                   : "the system maps no more memory; raise vm.max_map_count, or the limits of the "
                     "process's control group";
    case ENAMETOOLONG:
        return "the name is too long; shorten NUMALLOC_PROFILE_FILE";
    case EEXIST:
        return "too many profiles of that name; remove some, or add %p or %t to "
               "NUMALLOC_PROFILE_FILE";
    default:
        return "the file cannot be made or mapped; name a file on another filesystem with "
               "NUMALLOC_PROFILE_FILE";
    }
}

/* ---- names ---- */

typedef struct text {
    char *at, *end;
} text_t;

static void add_name_text(text_t *t, const char *s) {
    while (*s != 0 && t->at < t->end)
        *t->at++ = *s++;
}

static void add_name_number(text_t *t, uint64_t v) {
    char digits[21];
    char *p = digits + sizeof digits - 1;
    *p = 0;
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    add_name_text(t, p);
}

/* %p pid, %e program, %t start (seconds since 1970), %% a percent sign; others stay as they are. */
static void expand(text_t *t, const char *pattern, uint64_t pid, uint64_t start,
                   const char *program) {
    for (const char *p = pattern; *p != 0; p++) {
        if (*p != '%') {
            add_name_text(t, (char[]){*p, 0});
            continue;
        }
        switch (*++p) {
        case 'p':
            add_name_number(t, pid);
            break;
        case 'e':
            for (size_t i = 0, n = na_name_part(program, NA_NAME_IN_FILE); i < n; i++)
                add_name_text(t, (char[]){program[i], 0});
            break;
        case 't':
            add_name_number(t, start);
            break;
        case '%':
            add_name_text(t, "%");
            break;
        case 0:
            add_name_text(t, "%");
            return;
        default:
            add_name_text(t, (char[]){'%', *p, 0});
        }
    }
}

/* ---- growth ---- */

/* The name as opened: it counts from where the program began (where.h). */
static char profile_name[4096];

static bool is_ours(long fd) {
    struct stat st;
    return na_sys2(SYS_fstat, fd, (long)&st) == 0 && st.st_dev == na_rec.dev &&
           st.st_ino == na_rec.ino;
}

/* Out of the way of programs that count on small numbers, as far as the limit on descriptors lets:
 * never one of the first three, which stand for something, whatever the program closed. The new
 * number, or a negative errno with `fd` closed. */
long na_writer_move_up(long fd) {
    long high = -EMFILE;
    for (long least = 800; high < 0 && least >= 3; least = least == 3 ? 0 : least / 2 | 3)
        high = na_sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least);
    if (high < 0 && fd >= 3) return fd;
    na_sys1(SYS_close, fd);
    return high < 0 ? -EMFILE : high;
}

static na_lock_t opening_lock;

/* The program closed our descriptor, as daemons close all. The file may have been renamed, removed
 * or put out of reach since: then it stays as it is. */
static NA_COLD bool open_again(void) {
    na_lock(&opening_lock);
    bool ours = is_ours(na_rec.fd); /* another thread was faster */
    if (!ours && !na_rec.unnamed) {
        long fd = na_where_open(profile_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
        if (fd >= 0 && !is_ours(fd)) {
            na_sys1(SYS_close, fd);
            fd = -ENOENT;
        }
        if (fd >= 0) fd = na_writer_move_up(fd);
        ours = fd >= 0;
        if (ours) __atomic_store_n(&na_rec.fd, (int)fd, __ATOMIC_RELAXED);
    }
    na_unlock(&opening_lock);
    return ours;
}

bool na_writer_still_ours(void) {
    if (atomic_load_explicit(&na_rec.lost, memory_order_relaxed)) return false;
    return NA_LIKELY(is_ours(na_rec.fd)) || open_again();
}

typedef struct limit {
    uint64_t soft, hard;
} limit_t;

/* The first part of the file may have holes: a small process's is cut off again (pack.c), and to
 * give back what was allocated takes milliseconds. Where there is room in plenty, that is, and
 * where the filesystem is one that knows a hole from a page that was written through a mapping.
 * What is missing is allocated when the file grows on; should the disk be full before: guard.c. */
static bool sparse;

bool na_writer_is_sparse(void) {
    return sparse;
}

#define ROOM_IN_PLENTY (UINT64_C(256) << 20)

static bool may_be_sparse(void) {
    enum { EXT4 = 0xef53, XFS = 0x58465342, TMPFS = 0x01021994 };
    static _Atomic(bool) refused;
    struct statfs fs = {0};
    na_sys_optional(&refused, SYS_fstatfs, na_rec.fd, (long)&fs, 0);
    return (fs.f_type == EXT4 || fs.f_type == XFS || fs.f_type == TMPFS) &&
           (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= ROOM_IN_PLENTY;
}

/* Makes [offset, offset + bytes) of the file exist on disk. 0 or a negative errno. */
static long reserve_disk(uint64_t offset, uint64_t bytes) {
    limit_t limit;
    if (na_sys4(SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, 0, (long)&limit) == 0 &&
        offset + bytes > limit.soft)
        return -EFBIG;
    long r;
    if (sparse && offset + bytes <= NA_NPROF_PACKED_FILE)
        return na_sys2(SYS_ftruncate, na_rec.fd, (long)(offset + bytes));
    if (sparse) {
        bytes += offset;
        offset = 0;
    }
    do
        r = na_sys4(SYS_fallocate, na_rec.fd, 0, (long)offset, (long)bytes);
    while (r == -EINTR);
    if (sparse) {
        sparse = r != 0;
        return r;
    }
    if (r != -EOPNOTSUPP && r != -ENOSYS) return r;
    static const char zeros[4096];
    for (uint64_t done = 0; done < bytes;) {
        uint64_t n = bytes - done < sizeof zeros ? bytes - done : sizeof zeros;
        r = na_sys4(SYS_pwrite64, na_rec.fd, (long)zeros, (long)n, (long)(offset + done));
        if (r == -EINTR) continue;
        if (r <= 0) return r == 0 ? -ENOSPC : r;
        done += (uint64_t)r;
    }
    return 0;
}

long na_writer_write(int fd, const void *from, uint64_t bytes, uint64_t offset) {
    const uint8_t *data = from;
    while (bytes != 0) {
        long r = na_sys4(SYS_pwrite64, fd, (long)data, (long)bytes, (long)offset);
        if (r == -EINTR) continue;
        if (r <= 0) return r == 0 ? -ENOSPC : r;
        data += r;
        offset += (uint64_t)r;
        bytes -= (uint64_t)r;
    }
    return 0;
}

bool na_writer_read(int fd, void *to, uint64_t bytes, uint64_t offset) {
    uint8_t *data = to;
    while (bytes != 0) {
        long r = na_sys4(SYS_pread64, fd, (long)data, (long)bytes, (long)offset);
        if (r == -EINTR) continue;
        if (r <= 0) return false;
        data += r;
        offset += (uint64_t)r;
        bytes -= (uint64_t)r;
    }
    return true;
}

/* The file grows ahead of what is asked for, by an eighth: the system calls of a growth take longer
 * than it takes to fill the 64 KiB of a chunk. Where it has holes, all that a small process needs
 * is there at once. What lies beyond header.used reads as zero, and is given back at the end. */
#define AHEAD_UNIT  (UINT64_C(64) << 10)
#define AHEAD_MOST  (UINT64_C(2) << 20)
#define HOLES_FIRST (UINT64_C(384) << 10)

/* Somebody cut the file short. Growing would put zeros where chunks were, and nobody would meet a
 * page that is missing (guard.c). Under the lock. */
static bool was_cut(void) {
    struct stat st;
    return na_sys2(SYS_fstat, na_rec.fd, (long)&st) == 0 && (uint64_t)st.st_size < na_rec.on_disk;
}

/* The file reaches to `end` on disk, further if disk and limits allow it. Under the lock. 0 or a
 * negative errno. */
static long extend_disk(uint64_t end) {
    end = na_align_up(end, na_os_page); /* what is mapped is never cut by the file's end */
    uint64_t from = na_rec.on_disk, ahead = end / 8 < AHEAD_MOST ? end / 8 : AHEAD_MOST;
    if (end <= from) return 0;
    if (was_cut()) return -ENODATA;
    if (sparse && end < HOLES_FIRST) ahead = HOLES_FIRST - end;
    long error = -ENOSPC;
    for (ahead -= ahead % AHEAD_UNIT; error != 0; ahead = 0) {
        error = reserve_disk(from, end + ahead - from);
        if (error == 0) na_rec.on_disk = end + ahead;
        if (ahead == 0) break;
    }
    return error;
}

/* Of the file, and of the recorder's other memory. Not part of na_rec: they are in a list. */
static na_space_t file_space, own_space;

bool na_writer_has_file_at(uintptr_t address) {
    return na_space_has(&file_space, address);
}

bool na_writer_is_own(uintptr_t address) {
    return na_space_has(&file_space, address) || na_space_has(&own_space, address);
}

uint64_t na_writer_space(void) {
    return na_space_bytes(&file_space) + na_space_bytes(&own_space);
}

void na_writer_each_area(na_area_fn_t visit, void *arg) {
    na_space_each_area(&file_space, visit, arg);
    na_space_each_area(&own_space, visit, arg);
}

uint64_t na_writer_offset(const void *p) {
    for (uint32_t i = file_space.count; i-- != 0;) {
        uint64_t offset = (uintptr_t)p - file_space.areas[i].start;
        if (offset < __atomic_load_n(&file_space.areas[i].opened, __ATOMIC_RELAXED)) return offset;
    }
    __builtin_unreachable();
}

/* [offset, offset + bytes) of the file at its place in an area. 0 or a negative errno. */
static long map_in_area(const na_reserve_t *area, uint64_t offset, uint64_t bytes) {
    long at = (long)(area->start + offset);
    long r = na_sys6(SYS_mmap, at, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     na_rec.fd, (long)offset);
    if (r != at) return r;
    na_space_not_for_children((void *)at, bytes);
    na_os_dump((void *)at, bytes, false);
    if (sparse && offset + bytes <= HOLES_FIRST) /* 32 pages of zeros for each that is touched */
        na_sys3(SYS_madvise, at, (long)bytes, MADV_RANDOM);
    return 0;
}

/* From its beginning to `end` in an area that is new. Threads may still use pointers into older
 * ones: to the same pages, which come back there when they are touched. */
static NA_COLD long move_file(const na_reserve_t *area, uint64_t end) {
    long old = (long)na_rec_at(0), error = map_in_area(area, 0, end);
    if (error != 0) return error;
    na_rec_move_base((uint8_t *)area->start);
    na_sys3(SYS_madvise, old, (long)na_rec.mapped_to, MADV_DONTNEED);
    return 0;
}

static long map_file(uint64_t offset, uint64_t bytes) {
    na_reserve_result_t result = na_space_reach(&file_space, offset + bytes);
    if (result == NA_RESERVE_TAKEN && na_space_move(&file_space, offset + bytes))
        result = NA_RESERVE_DONE;
    if (result != NA_RESERVE_DONE) return -ENOMEM;
    const na_reserve_t *area = na_space_area(&file_space);
    if (area->start == (uintptr_t)na_rec_at(0)) return map_in_area(area, offset, bytes);
    return move_file(area, offset + bytes);
}

/* [offset, end) of the file, which is on disk, is mapped, and what is on disk beyond. Under the
 * lock. (By the system's pages, of which one may hold the end of what was mapped before: that is
 * mapped again, which changes nothing for who is writing to it.) */
static long extend_map(uint64_t offset, uint64_t end) {
    if (end <= na_rec.mapped_to) return 0;
    uint64_t from =
        na_align_down(offset > na_rec.mapped_to ? offset : na_rec.mapped_to, na_os_page);
    end = na_align_up(end, na_os_page);
    uint64_t to = na_rec.on_disk < file_space.most ? na_rec.on_disk : file_space.most;
    long error = map_file(from, to - from);
    if (error == -ENOMEM && end < to) error = map_file(from, (to = end) - from);
    if (error == 0) na_rec.mapped_to = to;
    return error;
}

bool na_own_find_place(uint64_t bytes) {
    return na_space_begin(&own_space, bytes);
}

static size_t base_length; /* of `profile_name`, without a number */

static long open_new(const char *path) {
    return na_where_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
}

static long open_unnamed(void) {
    static const char shown[] = "numalloc-stacks";
    return na_sys2(SYS_memfd_create, (long)shown, 1 /* MFD_CLOEXEC */);
}

/* ".100000" and NA_NPROF_PART are put behind the name. */
#define MOST_NUMBERS 100000u
#define NUMBER_ROOM  (sizeof ".100000" NA_NPROF_PART)

static uint32_t name_check; /* of the name that numbers were given to */
static uint64_t last_number;

/* `profile_name` up to base_length, with the next number, to `path`, and what else is to stand
 * behind that. Numbers that this process gave to the same name are not given again. False: none is
 * left. */
static bool next_free_name(char *path, size_t size, const char *behind) {
    uint32_t check = na_nprof_crc32(profile_name, base_length);
    if (check != name_check) last_number = 0;
    name_check = check;
    if (last_number == MOST_NUMBERS) return false;
    if (path != profile_name) __builtin_memcpy(path, profile_name, base_length);
    text_t t = {path + base_length, path + size - 1};
    add_name_text(&t, ".");
    add_name_number(&t, ++last_number);
    add_name_text(&t, behind);
    *t.at = 0;
    return true;
}

const char *na_writer_name(void) {
    return profile_name;
}

/* Takes NA_NPROF_PART off the end of a name, or puts it there again. */
static void set_part(char *name, bool part) {
    size_t length = __builtin_strlen(name);
    if (part)
        __builtin_memcpy(name + length, NA_NPROF_PART, sizeof NA_NPROF_PART);
    else
        name[length - (sizeof NA_NPROF_PART - 1)] = 0;
}

/* A number is taken that nothing has, whole or not: what is given to the other is found out at the
 * end. */
long na_writer_open_next(char *copy, size_t size) {
    struct stat st;
    long fd = size < sizeof profile_name ? -ENAMETOOLONG : -EEXIST;
    while (fd == -EEXIST && next_free_name(copy, size, NA_NPROF_PART)) {
        set_part(copy, false);
        bool taken = na_where_stat(copy, &st) == 0;
        set_part(copy, true);
        if (!taken) fd = open_new(copy);
    }
    if (fd >= 0 && (fd = na_writer_move_up(fd)) < 0) na_where_unlink(copy);
    if (fd >= 0) set_part(copy, false);
    return fd;
}

void na_writer_drop_next(char *copy) {
    set_part(copy, true);
    na_where_unlink(copy);
    set_part(copy, false);
}

long na_writer_name_next(char *copy, size_t size) {
    static char part[sizeof profile_name];
    na_rec_copy(part, sizeof part, copy);
    set_part(part, true);
    long error = na_where_rename(part, copy);
    while (error == -EEXIST && next_free_name(copy, size, ""))
        error = na_where_rename(part, copy);
    if (error != 0) na_where_unlink(part);
    return error;
}

void na_writer_warn(const char *what, const char *path, long error) {
    enum { HOUR_S = 3600 }; /* a disk that is full stays so, while copies go on */
    static uint64_t next_ns;
    uint64_t now = na_rec_clock_ns(CLOCK_MONOTONIC);
    if (now < next_ns) return;
    next_ns = now + HOUR_S * UINT64_C(1000000000);
    warn(
        (const char *const[]){"numalloc: ", what, na_where_shown(path), ": ", reason(error), NULL});
}

/* Does the pattern name a directory? Then the default name goes into it. A name that ends with a
 * slash can only be meant so, and is made; *error: that failed. */
static bool names_directory(const text_t *t, long *error) {
    struct stat st;
    *error = 0;
    if (t->at > profile_name && t->at[-1] == '/') {
        *error = na_where_make_folders(profile_name);
        return true;
    }
    return na_where_stat(profile_name, &st) == 0 && S_ISDIR(st.st_mode);
}

/* For those who wonder whether this process lives, in whatever namespace they are: the lock goes
 * with the last mapping and descriptor. A forked child has the descriptor until it ends or execs.
 */
static bool lock_file(void) {
    enum { EXCLUSIVE = 2, AT_ONCE = 4 };
    static _Atomic(bool) refused;
    return na_sys_optional(&refused, SYS_flock, na_rec.fd, EXCLUSIVE | AT_ONCE, 0) == 0;
}

/* For numalloc-run, which has made that file: the summary counts who has no profile. */
static NA_COLD void note_missing(long error) {
    static char text[sizeof profile_name + sizeof NA_NPROF_MISSING];
    struct stat st;
    size_t n = base_length;
    while (n != 0 && profile_name[n - 1] != '/')
        n--;
    __builtin_memcpy(text, profile_name, n);
    __builtin_memcpy(text + n, NA_NPROF_MISSING, sizeof NA_NPROF_MISSING);
    long fd = na_where_open(text, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return;
    text_t t = {text, text + sizeof text};
    add_name_number(&t, (uint64_t)na_sys0(SYS_getpid));
    add_name_text(&t, " ");
    add_name_number(&t, (uint64_t)-error);
    add_name_text(&t, "\n");
    if (na_sys2(SYS_fstat, fd, (long)&st) == 0 && S_ISREG(st.st_mode))
        na_sys3(SYS_write, fd, (long)text, t.at - text);
    na_sys1(SYS_close, fd);
}

static NA_COLD void no_profile(long error) {
    note_missing(error);
    warn((const char *const[]){"numalloc: no profile, ", na_where_shown(profile_name), ": ",
                               reason(error), NULL});
}

#define DEFAULT_NAME "numalloc.%e.%p.%t.nprof"

/* Header, first stacks, timeline, environment: with less than that there is no use in beginning. */
#define FIRST_BYTES (UINT64_C(160) << 10)

bool na_writer_open(const char *pattern, int32_t pid, uint64_t start_unix_ns, const char *program) {
    na_where_after_fork();
    na_lock_reset(&opening_lock); /* held, perhaps, by a thread that this child has not */
    text_t t = {profile_name, profile_name + sizeof profile_name - NUMBER_ROOM};
    const char *base_name = program;
    for (const char *p = program; *p != 0; p++)
        if (*p == '/') base_name = p + 1;
    if (pattern == NULL || *pattern == 0) pattern = DEFAULT_NAME;
    expand(&t, pattern, (uint64_t)pid, start_unix_ns / 1000000000U, base_name);
    *t.at = 0;
    long unmade;
    if (names_directory(&t, &unmade)) {
        if (t.at[-1] != '/') add_name_text(&t, "/");
        expand(&t, DEFAULT_NAME, (uint64_t)pid, start_unix_ns / 1000000000U, base_name);
        *t.at = 0;
    }
    base_length = (size_t)(t.at - profile_name);
    uint64_t first = na_align_up(NA_NPROF_PAGE, na_os_page);
    long fd = na_rec.unnamed ? open_unnamed() : open_new(profile_name);
    while (fd == -EEXIST && next_free_name(profile_name, sizeof profile_name, ""))
        fd = open_new(profile_name);
    if (fd == -ENOENT && unmade != 0) fd = unmade;
    bool made = fd >= 0;
    if (made) fd = na_writer_move_up(fd);
    long error = fd < 0 ? fd : 0;
    if (error == 0) {
        na_rec.fd = (int)fd;
        struct stat st;
        error = na_sys2(SYS_fstat, fd, (long)&st);
        na_rec.dev = st.st_dev;
        na_rec.ino = st.st_ino;
        sparse = error == 0 && may_be_sparse();
        na_rec.locked = error == 0 && !na_rec.unnamed && lock_file();
    }
    if (error == 0) error = extend_disk(FIRST_BYTES);
    if (error == 0) {
        bool file = na_space_begin(&file_space, UINT64_C(64) << 30);
        bool own = na_own_find_place(UINT64_C(16) << 30);
        if (file) na_rec_move_base((uint8_t *)na_space_area(&file_space)->start);
        error = !file || !own ? -ENOMEM : map_file(0, first);
    }
    if (error != 0) {
        if (made && !na_rec.unnamed) na_where_unlink(profile_name);
        if (fd >= 0) na_sys1(SYS_close, fd);
        na_writer_close();
        no_profile(error);
        return false;
    }
    atomic_store(&na_rec.own_used, 0);
    atomic_store(&na_rec.own_given_back, 0);
    na_rec.mapped_to = first;
    na_rec.header = na_rec_at(0);
    na_rec.header->used = NA_NPROF_PAGE;
    return true;
}

void na_writer_close(void) {
    na_space_leave(&file_space);
    na_space_leave(&own_space);
    if (na_rec.header != NULL && is_ours(na_rec.fd)) na_sys1(SYS_close, na_rec.fd);
    na_rec_move_base(NULL);
    na_rec.header = NULL;
}

void na_writer_abandon(void) {
    /* The first chunks have their room on disk: it was address space that they did not get. */
    if (na_writer_still_ours() && !na_rec.unnamed) na_where_unlink(profile_name);
    na_writer_close();
    no_profile(-ENOMEM);
}

void na_writer_inherit(bool on) {
    for (uint32_t i = 0; i < own_space.count; i++)
        na_sys3(SYS_madvise, (long)own_space.areas[i].start, (long)own_space.areas[i].reserved,
                on ? MADV_DOFORK : MADV_DONTFORK);
}

void na_writer_detach(void) {
    /* The interrupted code may just have mapped more than is noted: all that the disk has. */
    uint64_t mapped = na_rec.on_disk > na_rec.mapped_to ? na_rec.on_disk : na_rec.mapped_to;
    for (uint32_t i = 0; i < file_space.count; i++) {
        na_reserve_t *area = &file_space.areas[i];
        if (i == file_space.count - 1)
            area->opened = mapped < area->reserved ? mapped : area->reserved;
        if (area->opened != 0)
            na_sys6(SYS_mmap, (long)area->start, (long)area->opened, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_FIXED, na_rec.fd, 0);
    }
    if (na_rec.header != NULL) na_rec.header->disk_full = NA_NPROF_FULL_DISK;
    atomic_store(&na_rec.lost, true);
    atomic_store(&na_rec.lost_said, true);
    na_rec.fd = -1;
    na_rec.dev = na_rec.ino = 0;
}

void na_writer_forget(void) {
    na_space_forget(&file_space);
    na_space_forget(&own_space);
}

void na_writer_drop(void) {
    for (uint32_t i = 0; i < file_space.count; i++)
        na_sys2(SYS_munmap, (long)file_space.areas[i].start, (long)file_space.areas[i].opened);
    for (uint32_t i = 0; i < own_space.count; i++)
        na_sys2(SYS_munmap, (long)own_space.areas[i].start, (long)own_space.areas[i].reserved);
}

/* The file cannot grow: `error` says why, to the user once. */
static NA_COLD void stop_growing(long error) {
    if (atomic_load(&na_rec.lost)) return; /* said already */
    if (error == -ENODATA) {
        na_rec_end_at_once();
        return;
    }
    uint32_t full = error == -ENOMEM ? NA_NPROF_FULL_MAPPINGS : NA_NPROF_FULL_DISK;
    if (__atomic_exchange_n(&na_rec.header->disk_full, full, __ATOMIC_RELAXED) != 0) return;
    warn((const char *const[]){
        "numalloc: the profile stops growing (what is missing is counted): ",
        error == -EBADF ? "the program closed its file, which is not to be found any more; exclude "
                          "descriptors from 800 on from that"
                        : reason(error),
        NULL});
}

void na_writer_lost(void) {
    if (atomic_exchange(&na_rec.lost_said, true)) return;
    atomic_store(&na_rec.lost, true);
    __atomic_store_n(&na_rec.header->disk_full, NA_NPROF_FULL_DISK, __ATOMIC_RELAXED);
    warn((const char *const[]){
        "numalloc: the profile ends here, ", na_where_shown(profile_name),
        ": the file was cut short, or its filesystem has no room left for what is in it; leave it "
        "alone, or name a file on another filesystem with NUMALLOC_PROFILE_FILE",
        NULL});
}

na_nprof_chunk_t *na_writer_chunk(uint16_t type, uint64_t length, uint32_t entry_size,
                                  uint32_t thread, uint32_t sequence, uint32_t first_id) {
    na_nprof_header_t *h = na_rec.header;
    if (__atomic_load_n(&h->disk_full, __ATOMIC_RELAXED) != 0) return NULL;
    if (length == 0) { /* twice that of a chunk whose page was cut off between was_cut and growth */
        stop_growing(-ENODATA);
        return NULL;
    }
    na_lock(&na_rec.grow);
    uint64_t offset = h->used;
    if (na_rec.frozen) {
        na_unlock(&na_rec.grow);
        return NULL;
    }
    long error = offset + length > file_space.most ? -ENOMEM : 0;
    if (error == 0 && !na_writer_still_ours()) error = -EBADF;
    if (error == 0) error = extend_disk(offset + length);
    if (error == 0) error = extend_map(offset, offset + length);
    if (error == 0) __atomic_store_n(&h->used, offset + length, __ATOMIC_RELEASE);
    na_nprof_chunk_t *c = na_rec_at(offset);
    na_unlock(&na_rec.grow);
    if (error != 0) {
        stop_growing(error);
        return NULL;
    }
    c->type = type;
    c->flags = NA_NPROF_LIVE;
    c->length = length;
    c->self_offset = offset;
    c->thread = thread;
    c->sequence = sequence;
    c->entry_size = entry_size;
    c->capacity = na_nprof_chunk_capacity(length, entry_size);
    c->first_id = first_id;
    return c;
}

/* Everything but the header is written first, so that a kill leaves no chunk or a whole one. Not
 * mapped: what is sealed takes no memory of the process. */
bool na_writer_append(na_nprof_chunk_t *c, const uint8_t *data, uint64_t *offset) {
    na_nprof_header_t *h = na_rec.header;
    if (__atomic_load_n(&h->disk_full, __ATOMIC_RELAXED) != 0) return false;
    na_lock(&na_rec.grow);
    uint64_t at = h->used;
    if (na_rec.frozen) {
        na_unlock(&na_rec.grow);
        return false;
    }
    long error = na_writer_still_ours() ? extend_disk(at + c->length) : -EBADF;
    if (error == 0) {
        na_rec.unmapped += c->length;
        __atomic_store_n(&h->used, at + c->length, __ATOMIC_RELEASE);
    }
    na_unlock(&na_rec.grow);
    c->self_offset = at;
    c->magic = NA_NPROF_CHUNK_MAGIC;
    c->header_crc = na_nprof_chunk_crc(*c);
    if (error == 0) error = na_writer_write(na_rec.fd, data, c->length - sizeof *c, at + sizeof *c);
    if (error == 0) error = na_writer_write(na_rec.fd, c, sizeof *c, at);
    if (error != 0) stop_growing(error);
    *offset = at;
    return error == 0;
}

void na_writer_trim(void) {
    na_lock(&na_rec.grow);
    uint64_t used = na_rec.header->used;
    if (na_rec.on_disk > used && na_writer_still_ours() &&
        na_sys2(SYS_ftruncate, na_rec.fd, (long)used) == 0) {
        na_rec.on_disk = used;
        if (na_rec.mapped_to > used) na_rec.mapped_to = used;
    }
    na_unlock(&na_rec.grow);
}

/* What is mapped privately takes memory only where it is changed, and that is by few threads, if by
 * any. Mapped elsewhere first: what fails must not leave a hole. */
static bool freeze_area(const na_reserve_t *area) {
    uint64_t bytes = area->opened < na_rec.mapped_to ? area->opened : na_rec.mapped_to;
    long at = (long)area->start, length = (long)bytes;
    long copy = na_sys6(SYS_mmap, 0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                        na_rec.fd, 0);
    if (copy <= 0) return false;
    na_space_not_for_children((void *)copy, bytes);
    na_os_dump((void *)copy, bytes, false);
    if (na_sys6(SYS_mremap, copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, at, 0) == at)
        return true;
    na_sys2(SYS_munmap, copy, length);
    return false;
}

bool na_writer_freeze(void) {
    na_lock(&na_rec.grow);
    bool frozen = na_writer_still_ours();
    for (uint32_t i = file_space.count; i-- != 0 && frozen;)
        frozen = freeze_area(&file_space.areas[i]);
    na_rec.frozen = frozen;
    na_unlock(&na_rec.grow);
    return frozen;
}

bool na_writer_rewrite(na_nprof_chunk_t *c) {
    c->magic = NA_NPROF_CHUNK_MAGIC;
    c->header_crc = na_nprof_chunk_crc(*c);
    return na_writer_still_ours() && na_writer_write(na_rec.fd, c, sizeof *c, c->self_offset) == 0;
}

bool na_writer_put(na_nprof_chunk_t *c) {
    c->magic = NA_NPROF_CHUNK_MAGIC;
    c->header_crc = na_nprof_chunk_crc(*c);
    return na_writer_write(na_rec.fd, c + 1, c->length - sizeof *c, c->self_offset + sizeof *c) ==
               0 &&
           na_writer_write(na_rec.fd, c, sizeof *c, c->self_offset) == 0;
}

void na_writer_punch(uint64_t offset, uint64_t length) {
    if (length != 0 && na_writer_still_ours())
        na_sys4(SYS_fallocate, na_rec.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (long)offset,
                (long)length);
}

void na_writer_publish(na_nprof_chunk_t *c) {
    c->header_crc = na_nprof_chunk_crc(*c);
    __atomic_store_n(&c->magic, NA_NPROF_CHUNK_MAGIC, __ATOMIC_RELEASE);
    na_lock(&na_rec.grow);
    uint64_t own = na_rec.header->used - na_rec.unmapped;
    na_unlock(&na_rec.grow);
    own += atomic_load_explicit(&na_rec.own_used, memory_order_relaxed);
    own -= atomic_load_explicit(&na_rec.own_given_back, memory_order_relaxed);
    __atomic_store_n(&na_rec.header->own_bytes, own, __ATOMIC_RELAXED);
}

void *na_own_alloc(uint64_t bytes) {
    bytes = na_align_up(bytes, na_os_page);
    void *p = na_space_take(&own_space, bytes);
    if (p != NULL && !na_os_commit(p, bytes)) p = NULL;
    if (p == NULL) {
        if (na_rec.header != NULL)
            __atomic_fetch_or(&na_rec.header->own_full, NA_NPROF_OWN_REFUSED, __ATOMIC_RELAXED);
        return NULL;
    }
    atomic_fetch_add_explicit(&na_rec.own_used, bytes, memory_order_relaxed);
    return p;
}

void na_own_give_back(void *p, uint64_t bytes) {
    bytes = na_align_up(bytes, na_os_page);
    if (na_sys3(SYS_madvise, (long)p, (long)bytes, MADV_DONTNEED) != 0) return;
    atomic_fetch_add_explicit(&na_rec.own_given_back, bytes, memory_order_relaxed);
}
