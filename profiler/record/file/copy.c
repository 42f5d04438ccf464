/* copy.c - a copy of the running profile in a file of its own, as of one moment.
 *
 * All threads are held at their next event meanwhile (alloc/core/thread/switch.h), so the copy is
 * not only as sound as any live file, but exact: no event is half in it, and what threads hold back
 * was published. It says that it is closed, and, in its SESSION chunk, that it is a copy. It gets
 * its name when it is whole (NA_NPROF_PART): who waits for it waits for that. */
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"
#include "profiler/record/state/where.h"

static uint32_t copies; /* of the profile that runs */
static uint64_t copies_of;

/* The file's bytes [from, to) to the same place in the copy; where the filesystem can share blocks
 * it does. Through the file, not the mapping: sealed chunks are not mapped. */
static long copy_bytes(int fd, uint64_t from, uint64_t to) {
    static uint8_t buffer[64 << 10];
    bool in_kernel = true;
    while (from < to) {
        int64_t in = (int64_t)from, out = (int64_t)from;
        long n = -EXDEV;
        if (in_kernel)
            n = na_sys6(SYS_copy_file_range, na_rec.fd, (long)&in, fd, (long)&out,
                        (long)(to - from), 0);
        if (n == -EINTR) continue;
        if (n > 0) {
            from += (uint64_t)n;
            continue;
        }
        in_kernel = false;
        uint64_t part = to - from < sizeof buffer ? to - from : sizeof buffer;
        n = na_sys4(SYS_pread64, na_rec.fd, (long)buffer, (long)part, (long)from);
        if (n == -EINTR) continue;
        if (n <= 0) return n == 0 ? -EIO : n;
        long error = na_writer_write(fd, buffer, (uint64_t)n, from);
        if (error != 0) return error;
        from += (uint64_t)n;
    }
    return 0;
}

static long fill_file(int fd) {
    const na_nprof_header_t *live = na_rec.header;
    na_nprof_session_t session;
    uint64_t at = na_session_entry(&session), now = na_rec_ms();
    long error = na_writer_still_ours() ? copy_bytes(fd, NA_NPROF_PAGE, live->used) : -EBADF;
    if (error == 0 && at != 0) {
        session.copy = copies;
        session.copied_ms = now;
        error = na_writer_write(fd, &session, sizeof session, at);
    }
    if (error != 0) return error;
    /* The header last: with its magic the file exists. */
    static na_nprof_header_t header;
    __builtin_memcpy(&header, live, sizeof header);
    header.last_ms = header.last_ms < now ? now : header.last_ms;
    na_rec_both_clocks(&header.last_mono_ns, &header.last_ticks);
    header.state = NA_NPROF_CLOSED;
    na_sums_add(fd, &header);
    na_sums_seal(&header);
    return na_writer_write(fd, &header, sizeof header, 0);
}

static char *put_name_digits(char *to, uint64_t number) {
    char digits[20];
    unsigned n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (n != 0)
        *to++ = digits[--n];
    return to;
}

/* DIRECTORY/PID.START.nprof: no other process has this name. */
bool na_copy_last(const char *directory) {
    char path[4096];
    size_t length = __builtin_strlen(directory);
    if (length > sizeof path - 64 || !na_rec_is_open() || atomic_load(&na_rec.closed) ||
        na_rec.tracing) /* may be large, and its threads write on */
        return false;
    na_rec_copy(path, sizeof path, directory);
    path[length] = '/';
    char *to = put_name_digits(path + length + 1, (uint64_t)na_rec.header->pid);
    *to++ = '.';
    to = put_name_digits(to, na_rec.header->start_unix_ns);
    __builtin_memcpy(to, ".nprof", 7);
    long fd = na_where_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    copies = 0; /* not one of the dumps */
    long error = fill_file((int)fd);
    if (error != 0) na_where_unlink(path);
    na_sys1(SYS_close, fd);
    return error == 0;
}

bool na_copy_make(void) {
    static char path[4096];
    if (copies_of != na_rec.header->start_unix_ns) copies = 0;
    copies_of = na_rec.header->start_unix_ns;
    copies++;
    long fd = na_writer_open_next(path, sizeof path), error = fd < 0 ? fd : fill_file((int)fd);
    if (fd >= 0) na_sys1(SYS_close, fd);
    if (error == 0)
        error = na_writer_name_next(path, sizeof path);
    else if (fd >= 0)
        na_writer_drop_next(path);
    if (error != 0) na_writer_warn("no copy of the profile, ", path, error);
    return error == 0;
}
