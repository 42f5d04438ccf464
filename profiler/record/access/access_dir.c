/* access_dir.c - directories whose entries have numbers: threads in /proc, memory in /sys. */
#include <fcntl.h>

#include "profiler/record/access/access_priv.h"

struct entry { /* linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* The number behind the prefix; false: the name is another. */
static bool entry_number(const char *name, const char *prefix, uint32_t *number) {
    while (*prefix != 0)
        if (*name++ != *prefix++) return false;
    if (*name < '0' || *name > '9') return false;
    for (*number = 0; *name >= '0' && *name <= '9'; name++)
        *number = *number * 10 + (uint32_t)(*name - '0');
    return *name == 0;
}

long na_access_each_number(const char *path, const char *prefix,
                           void (*each)(void *argument, uint32_t number), void *argument) {
    static char buffer[8192];
    long fd = na_sys4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return fd;
    for (;;) {
        long n = na_sys3(SYS_getdents64, fd, (long)buffer, sizeof buffer);
        if (n <= 0) break;
        for (long at = 0; at < n;) {
            const struct entry *e = (const struct entry *)(const void *)(buffer + at);
            uint32_t number;
            if (entry_number(e->name, prefix, &number)) each(argument, number);
            at += e->length;
        }
    }
    na_sys1(SYS_close, fd);
    return 0;
}

long na_access_read_task(uint32_t tid, const char *file, char *text, size_t size) {
    static const char before[] = "/proc/self/task/";
    char name[48], digits[12], *path = name;
    unsigned n = 0;
    do
        digits[n++] = (char)('0' + tid % 10);
    while ((tid /= 10) != 0);
    for (const char *p = before; *p != 0; p++)
        *path++ = *p;
    while (n > 0)
        *path++ = digits[--n];
    while ((*path++ = *file++) != 0)
        continue;
    return na_os_read_file(name, text, size);
}
