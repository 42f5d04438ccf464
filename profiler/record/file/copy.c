/* copy.c - a copy of the running profile in a file of its own, as of one moment.
 *
 * All threads are held at their next event meanwhile (alloc/thread/switch.h), so the copy is not
 * only as sound as any live file, but exact: no event is half in it, and what threads hold back was
 * published. It says that it is closed, and, in its SESSION chunk, that it is a copy. */
#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "alloc/sys/syscall.h"
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

bool na_copy_make(void) {
    static char path[4096];
    if (copies_of != na_rec.header->start_unix_ns) copies = 0;
    copies_of = na_rec.header->start_unix_ns;
    copies++;
    long fd = na_writer_open_next(path, sizeof path), error = fd < 0 ? fd : fill_file((int)fd);
    if (error != 0 && fd >= 0) na_where_unlink(path);
    if (fd >= 0) na_sys1(SYS_close, fd);
    if (error != 0) na_writer_warn("no copy of the profile, ", path, error);
    return error == 0;
}
