/* writer.c - the profile file: its name, its growth, and the recorder's other memory.
 *
 * The file is mapped where it grows: a place with room for 64 GiB is found once, address space is
 * reserved a little ahead (alloc/sys/reserve.h), each chunk is allocated on disk (fallocate, or
 * zeros where a filesystem has none) BEFORE it is mapped, so that no store can meet a full disk
 * (SIGBUS); all but the first of them, where there is room in plenty. RLIMIT_FSIZE is looked at
 * first, because exceeding it is a signal too. The descriptor is kept far from the program's own,
 * and its identity is checked before each growth: a daemon that closes every descriptor makes us
 * open the file again, and never costs it one of its own. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"
#include "alloc/sys/syscall.h"
#include "profiler/record/state/state.h"
#include "profiler/record/state/where.h"

#ifndef MADV_DONTFORK
#define MADV_DONTFORK 10
#endif

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
        return "not enough address space; raise the limit with ulimit -v";
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
            add_name_text(t, program);
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
static na_reserve_t file_space, own_space;

#define SPACE_AHEAD_LEAST (UINT64_C(4) << 20)
/* So much at once. (scripts/python-cost.py builds with more.) */
#ifndef NA_WRITER_FIRST
#define NA_WRITER_FIRST NA_RESERVE_UNIT
#endif

/* A forked child is better off without. It gets by with: it maps its own elsewhere. */
static void not_for_children(void *unused, void *start, size_t bytes) {
    (void)unused;
    static _Atomic bool refused;
    na_sys_optional(&refused, SYS_madvise, (long)start, (long)bytes, MADV_DONTFORK);
}

static bool claim(na_reserve_t *space, uint64_t to) {
    uint64_t ahead = to / 16 > SPACE_AHEAD_LEAST ? to / 16 : SPACE_AHEAD_LEAST;
    return na_reserve_claim(space, to, ahead, not_for_children, NULL) == NA_RESERVE_DONE;
}

static bool lies_in_space(const na_reserve_t *space, uintptr_t address) {
    return address - space->start < __atomic_load_n(&space->opened, __ATOMIC_RELAXED);
}

bool na_writer_has_file_at(uintptr_t address) {
    return lies_in_space(&file_space, address);
}

bool na_writer_is_own(uintptr_t address) {
    return lies_in_space(&file_space, address) || lies_in_space(&own_space, address);
}

uint64_t na_writer_space(void) {
    return na_reserve_bytes(&file_space) + na_reserve_bytes(&own_space);
}

static long map_file(uint64_t offset, uint64_t bytes) {
    long at = (long)(na_rec.base + offset);
    if (!claim(&file_space, offset + bytes)) return -ENOMEM;
    long r = na_sys6(SYS_mmap, at, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     na_rec.fd, (long)offset);
    if (r != at) return r;
    not_for_children(NULL, (void *)at, bytes);
    na_os_dump((void *)at, bytes, false);
    if (sparse && offset + bytes <= HOLES_FIRST) /* 32 pages of zeros for each that is touched */
        na_sys3(SYS_madvise, at, (long)bytes, MADV_RANDOM);
    return 0;
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

/* A place of that size, of which little is charged at first; where address space is limited, an
 * eighth of what the program may have at most. */
static uint8_t *find_space(na_reserve_t *space, uint64_t want) {
    const uint64_t least = UINT64_C(4) << 20;
    uint64_t limit = na_os_space_limit();
    if (limit / 8 < want) want = limit / 8 < least ? least : limit / 8;
    for (; want >= least; want /= 4) {
        want &= ~(uint64_t)(NA_RESERVE_UNIT - 1);
        if (!na_reserve_find(space, NA_WRITER_FIRST, want)) continue;
        not_for_children(NULL, (void *)space->start, space->reserved);
        space->not_in_children = true;
        na_reserve_join(space);
        return (uint8_t *)space->start;
    }
    return NULL;
}

bool na_own_find_place(uint64_t bytes) {
    na_rec.own = find_space(&own_space, bytes);
    return na_rec.own != NULL;
}

static size_t base_length; /* of `profile_name`, without a number */

static long open_new(const char *path) {
    return na_where_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
}

static long open_unnamed(void) {
    static const char shown[] = "numalloc-stacks";
    return na_sys2(SYS_memfd_create, (long)shown, 1 /* MFD_CLOEXEC */);
}

#define MOST_NUMBERS 100000u

/* The next free number after base_length characters of `profile_name`, which go to `path` with it.
 * Numbers that this process gave to the same name are not tried again. */
static long open_numbered(char *path, size_t size) {
    static uint64_t last;       /* number given */
    static uint32_t last_check; /* of the name it was given to */
    uint32_t check = na_nprof_crc32(profile_name, base_length);
    if (check != last_check) last = 0;
    last_check = check;
    if (path != profile_name) __builtin_memcpy(path, profile_name, base_length);
    long fd = -EEXIST;
    for (uint64_t i = last + 1; i <= MOST_NUMBERS && fd == -EEXIST; i++) {
        text_t t = {path + base_length, path + size - 1};
        add_name_text(&t, ".");
        add_name_number(&t, i);
        *t.at = 0;
        fd = open_new(path);
        last = i;
    }
    return fd;
}

const char *na_writer_name(void) {
    return profile_name;
}

long na_writer_open_next(char *copy, size_t size) {
    long fd = size < sizeof profile_name ? -ENAMETOOLONG : open_numbered(copy, size);
    if (fd < 0) return fd;
    long high = na_writer_move_up(fd);
    if (high < 0) na_where_unlink(copy);
    return high;
}

void na_writer_warn(const char *what, const char *path, long error) {
    warn(
        (const char *const[]){"numalloc: ", what, na_where_shown(path), ": ", reason(error), NULL});
}

/* Does the pattern name a directory? Then the default name goes into it. A name that ends with a
 * slash can only be meant so, and if there is none, opening says that. */
static bool names_directory(const text_t *t) {
    struct stat st;
    if (t->at > profile_name && t->at[-1] == '/') return true;
    return na_where_stat(profile_name, &st) == 0 && S_ISDIR(st.st_mode);
}

#define DEFAULT_NAME "numalloc.%e.%p.%t.nprof"

/* Header, first stacks, timeline, environment: with less than that there is no use in beginning. */
#define FIRST_BYTES (UINT64_C(160) << 10)

bool na_writer_open(const char *pattern, int32_t pid, uint64_t start_unix_ns, const char *program) {
    na_where_after_fork();
    na_lock_reset(&opening_lock); /* held, perhaps, by a thread that this child has not */
    text_t t = {profile_name, profile_name + sizeof profile_name - 8};
    const char *base_name = program;
    for (const char *p = program; *p != 0; p++)
        if (*p == '/') base_name = p + 1;
    if (pattern == NULL || *pattern == 0) pattern = DEFAULT_NAME;
    expand(&t, pattern, (uint64_t)pid, start_unix_ns / 1000000000U, base_name);
    *t.at = 0;
    if (names_directory(&t)) {
        if (t.at[-1] != '/') add_name_text(&t, "/");
        expand(&t, DEFAULT_NAME, (uint64_t)pid, start_unix_ns / 1000000000U, base_name);
        *t.at = 0;
    }
    base_length = (size_t)(t.at - profile_name);
    uint64_t first = na_align_up(NA_NPROF_PAGE, na_os_page);
    long fd = na_rec.unnamed ? open_unnamed() : open_new(profile_name);
    if (fd == -EEXIST) fd = open_numbered(profile_name, sizeof profile_name);
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
    }
    if (error == 0) error = extend_disk(FIRST_BYTES);
    if (error == 0) {
        na_rec.base = find_space(&file_space, UINT64_C(64) << 30);
        bool own = na_own_find_place(UINT64_C(16) << 30);
        error = na_rec.base == NULL || !own ? -ENOMEM : map_file(0, first);
    }
    if (error != 0) {
        if (made && !na_rec.unnamed) na_where_unlink(profile_name);
        if (fd >= 0) na_sys1(SYS_close, fd);
        na_writer_close();
        warn((const char *const[]){"numalloc: no profile, ", na_where_shown(profile_name), ": ",
                                   reason(error), NULL});
        return false;
    }
    atomic_store(&na_rec.own_used, 0);
    atomic_store(&na_rec.own_given_back, 0);
    atomic_store(&na_rec.own_resident, first);
    na_rec.mapped_to = first;
    na_rec.header = (na_nprof_header_t *)na_rec.base;
    na_rec.header->used = NA_NPROF_PAGE;
    return true;
}

void na_writer_close(void) {
    if (na_rec.base != NULL) na_reserve_leave(&file_space);
    if (na_rec.own != NULL) na_reserve_leave(&own_space);
    if (na_rec.header != NULL && is_ours(na_rec.fd)) na_sys1(SYS_close, na_rec.fd);
    na_rec.base = na_rec.own = NULL;
    na_rec.header = NULL;
}

void na_writer_abandon(void) {
    /* The first chunks have their room on disk: it was address space that they did not get. */
    if (na_writer_still_ours() && !na_rec.unnamed) na_where_unlink(profile_name);
    na_writer_close();
    warn((const char *const[]){"numalloc: no profile, ", na_where_shown(profile_name), ": ",
                               reason(-ENOMEM), NULL});
}

static uint64_t detached; /* bytes of the private copy */

void na_writer_inherit(bool on) {
    if (na_rec.own == NULL) return;
    na_sys3(SYS_madvise, (long)na_rec.own, (long)own_space.reserved,
            on ? MADV_DOFORK : MADV_DONTFORK);
}

void na_writer_detach(void) {
    /* The interrupted code may just have mapped more than is noted: all that the disk has. */
    uint64_t most = file_space.reserved;
    detached = na_rec.on_disk > na_rec.mapped_to ? na_rec.on_disk : na_rec.mapped_to;
    if (detached > most) detached = most;
    if (na_rec.base != NULL && detached != 0)
        na_sys6(SYS_mmap, (long)na_rec.base, (long)detached, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_FIXED, na_rec.fd, 0);
    if (na_rec.header != NULL) na_rec.header->disk_full = 1;
    atomic_store(&na_rec.lost, true);
    atomic_store(&na_rec.lost_said, true);
    na_rec.fd = -1;
    na_rec.dev = na_rec.ino = 0;
}

void na_writer_drop(void) {
    if (na_rec.base != NULL) na_sys2(SYS_munmap, (long)na_rec.base, (long)detached);
    if (na_rec.own != NULL) na_sys2(SYS_munmap, (long)na_rec.own, (long)own_space.reserved);
}

/* The file cannot grow: `error` says why, to the user once. */
static NA_COLD void stop_growing(long error) {
    if (atomic_load(&na_rec.lost)) return; /* said already */
    if (error == -ENODATA) {
        na_rec_end_at_once();
        return;
    }
    if (__atomic_exchange_n(&na_rec.header->disk_full, 1, __ATOMIC_RELAXED) != 0) return;
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
    __atomic_store_n(&na_rec.header->disk_full, 1, __ATOMIC_RELAXED);
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
    na_unlock(&na_rec.grow);
    if (error != 0) {
        stop_growing(error);
        return NULL;
    }
    na_nprof_chunk_t *c = (na_nprof_chunk_t *)(na_rec.base + offset);
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
bool na_writer_freeze(void) {
    na_lock(&na_rec.grow);
    long bytes = (long)na_rec.mapped_to, at = (long)na_rec.base;
    if (na_writer_still_ours()) {
        long copy = na_sys6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                            na_rec.fd, 0);
        if (copy > 0) {
            not_for_children(NULL, (void *)copy, (size_t)bytes);
            na_os_dump((void *)copy, (size_t)bytes, false);
            na_rec.frozen =
                na_sys6(SYS_mremap, copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at, 0) == at;
            if (!na_rec.frozen) na_sys2(SYS_munmap, copy, bytes);
        }
    }
    na_unlock(&na_rec.grow);
    return na_rec.frozen;
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

void *na_own_alloc(uint64_t bytes, uint64_t resident) {
    bytes = na_align_up(bytes, na_os_page);
    uint64_t at = atomic_fetch_add_explicit(&na_rec.own_used, bytes, memory_order_relaxed);
    if (!claim(&own_space, at + bytes)) {
        atomic_fetch_sub_explicit(&na_rec.own_used, bytes, memory_order_relaxed);
        return NULL;
    }
    void *p = na_rec.own + at;
    if (na_sys3(SYS_mprotect, (long)p, (long)bytes, PROT_READ | PROT_WRITE) != 0) return NULL;
    atomic_fetch_add_explicit(&na_rec.own_resident, resident, memory_order_relaxed);
    return p;
}

void na_own_give_back(void *p, uint64_t bytes) {
    bytes = na_align_up(bytes, na_os_page);
    if (na_sys3(SYS_madvise, (long)p, (long)bytes, MADV_DONTNEED) != 0) return;
    atomic_fetch_add_explicit(&na_rec.own_given_back, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&na_rec.own_resident, bytes, memory_order_relaxed);
}
