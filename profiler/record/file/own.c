/* own.c - how much of the process's memory is the recorder's own: its pages, one by one.
 *
 * Not an estimate: what is reserved is touched in part, a table that is read before it is written
 * has pages of zeros that no figure of the kernel counts, and huge pages come where nobody asked
 * for them. */
#include <fcntl.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

/* Of the shared library (alloc/layout.ld): what of its code and constants, and of its variables, is
 * not the allocator's. */
extern const char na_above_text[] __attribute__((weak, visibility("hidden")));
extern const char na_above_bss[] __attribute__((weak, visibility("hidden")));
extern const char na_above_bss_end[] __attribute__((weak, visibility("hidden")));
extern const char _DYNAMIC[] __attribute__((weak, visibility("hidden"))); /* behind the constants */

/* Of an entry of /proc/self/pagemap. A page of zeros is present, and none of the other two. */
#define PRESENT  (UINT64_C(1) << 63)
#define OF_FILE  (UINT64_C(1) << 61)
#define ONE_MAPS (UINT64_C(1) << 56)
#define AT_ONCE  512u

typedef struct own_count {
    long pagemap;
    uint64_t pages, space;
} own_count_t;

static void count_area(void *arg, uintptr_t start, size_t bytes) {
    static uint64_t entries[AT_ONCE];
    own_count_t *count = arg;
    uint64_t page = start / na_os_page, end = (start + bytes) / na_os_page;
    count->space += bytes;
    while (page < end) {
        uint64_t n = end - page < AT_ONCE ? end - page : AT_ONCE;
        long got = na_sys4(SYS_pread64, count->pagemap, (long)entries, (long)(n * sizeof *entries),
                           (long)(page * sizeof *entries));
        if (got <= 0) break;
        n = (uint64_t)got / sizeof *entries;
        for (uint64_t k = 0; k < n; k++)
            count->pages += (entries[k] & PRESENT) != 0 && (entries[k] & (OF_FILE | ONE_MAPS)) != 0;
        page += n;
    }
}

/* Whole pages only: the first may be the allocator's as well. */
static void count_library(own_count_t *count, const char *from, const char *to) {
    uintptr_t start = na_align_up((uintptr_t)from, na_os_page);
    uintptr_t end = na_align_down((uintptr_t)to, na_os_page);
    if (from != NULL && start < end) count_area(count, start, end - start);
}

bool na_own_measure(na_own_t *own) {
    own_count_t count = {.pagemap = na_sys4(SYS_openat, AT_FDCWD, (long)"/proc/self/pagemap",
                                            O_RDONLY | O_CLOEXEC, 0)};
    if (count.pagemap < 0) return false;
    na_writer_each_area(count_area, &count);
    uint64_t files = count.space;
    if (na_rec.each_records_room != NULL) na_rec.each_records_room(count_area, &count);
    own->space = na_writer_space() + count.space - files;
    count_library(&count, na_above_text, _DYNAMIC);
    count_library(&count, na_above_bss, na_above_bss_end);
    na_sys1(SYS_close, count.pagemap);
    own->resident = count.pages * na_os_page;
    return true;
}
