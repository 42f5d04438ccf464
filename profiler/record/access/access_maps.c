/* access_maps.c - what is mapped where: /proc/self/maps, read at the beginning, when a sample lies
 * in no known mapping, and once a second; with history. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "profiler/containers/number.h"
#include "profiler/record/access/access_priv.h"

#define MOST   16384u /* mappings at one time */
#define BUFFER (64u << 10)

typedef struct now {
    uint64_t start;
    na_nprof_access_mapping_t *entry;
    uint32_t id;
    uint32_t asked; /* threads that the recorder had come to know when it was last asked for one */
    bool seen;
} now_t;

static na_access_table_t mapping_table;
static now_t *current; /* by address */
static uint32_t mapping_count;
static char *buffer;

bool na_amaps_start(void) {
    mapping_table = (na_access_table_t){.type = NA_NPROF_ACCESS_MAPPINGS,
                                        .size = sizeof(na_nprof_access_mapping_t),
                                        .next_id = 1,
                                        .chunk_bytes = 64u << 10};
    mapping_count = 0;
    current = na_own_alloc(MOST * sizeof *current);
    buffer = na_own_alloc(BUFFER);
    return current != NULL && buffer != NULL;
}

/* ---- a line: "start-end rwxp offset major:minor inode   path" ---- */

static void skip(const char **p) {
    while (**p == ' ')
        ++*p;
}

static bool parse_mapping(const char *p, na_nprof_access_mapping_t *m, const char **path) {
    m->start = na_number_read(&p, 16);
    if (*p++ != '-') return false;
    m->end = na_number_read(&p, 16);
    skip(&p);
    m->flags =
        (p[0] == 'r' ? NA_NPROF_MAPPING_READ : 0) | (p[1] == 'w' ? NA_NPROF_MAPPING_WRITE : 0) |
        (p[2] == 'x' ? NA_NPROF_MAPPING_EXECUTE : 0) | (p[3] == 's' ? NA_NPROF_MAPPING_SHARED : 0);
    p += 4;
    skip(&p);
    m->offset = na_number_read(&p, 16);
    skip(&p);
    uint64_t major = na_number_read(&p, 16);
    if (*p++ != ':') return false;
    m->dev = major << 20 | na_number_read(&p, 16);
    skip(&p);
    for (; *p >= '0' && *p <= '9'; p++)
        m->inode = m->inode * 10 + (uint64_t)(*p - '0');
    skip(&p);
    *path = p;
    return m->start < m->end;
}

/* ---- the list ---- */

/* Index of the last one that begins at or before `address`, or count. */
static uint32_t mapping_place(uint64_t address) {
    uint32_t low = 0, high = mapping_count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (current[mid].start <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low == 0 ? mapping_count : low - 1;
}

static bool same_text(const char *a, const char *b) {
    while (*a != 0 && *a == *b)
        a++, b++;
    return *a == *b;
}

static bool is_elf(const char *path) {
    struct stat st;
    if (na_sys4(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0) != 0 || !S_ISREG(st.st_mode))
        return false; /* opening a device may do something */
    long fd = na_sys4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return false;
    unsigned char magic[4] = {0};
    na_sys3(SYS_read, fd, (long)magic, sizeof magic);
    na_sys1(SYS_close, fd);
    return magic[0] == 0x7f && magic[1] == 'E' && magic[2] == 'L' && magic[3] == 'F';
}

/* What lies right below is a writable part of an ELF file: this is its .bss. */
static bool follows_data(uint64_t start) {
    uint32_t at = mapping_place(start - 1);
    if (at == mapping_count) return false;
    const na_nprof_access_mapping_t *below = current[at].entry;
    return below->end == start && below->inode != 0 && (below->flags & NA_NPROF_MAPPING_ELF) != 0 &&
           (below->flags & NA_NPROF_MAPPING_WRITE) != 0;
}

static bool is_stack(const char *path) {
    return same_text(path, "[stack]");
}

static uint32_t threads_known(void) {
    return atomic_load_explicit(&na_rec.threads_attached, memory_order_acquire);
}

/* Whether this is the stack of a thread that the recorder knows. */
static void ask_stack(na_nprof_access_mapping_t *e, uint64_t since) {
    uint32_t thread = na_athreads_stack(e->start, e->end, since);
    if (thread == 0) return;
    na_nprof_open(e, sizeof *e);
    __atomic_store_n(&e->thread, thread, __ATOMIC_RELAXED);
    __atomic_fetch_or(&e->flags, NA_NPROF_MAPPING_STACK, __ATOMIC_RELAXED);
    na_nprof_seal(e, sizeof *e);
}

/* A thread uses its stack before it allocates, which is when the recorder comes to know it: what
 * may be a stack is asked about again once there are threads that were not known before. */
static void ask_again(now_t *n) {
    const uint32_t settled =
        NA_NPROF_MAPPING_STACK | NA_NPROF_MAPPING_ELF | NA_NPROF_MAPPING_ALLOCATOR;
    na_nprof_access_mapping_t *e = n->entry;
    if ((e->flags & settled) != 0 || (e->flags & NA_NPROF_MAPPING_WRITE) == 0 || e->inode != 0 ||
        e->path[0] != 0)
        return;
    uint32_t known = threads_known();
    if (known == n->asked) return;
    n->asked = known;
    ask_stack(e, na_access_since(na_access_mono()));
}

static void insert_mapping(const now_t *n) {
    uint32_t at = mapping_place(n->start);
    at = at == mapping_count ? 0 : at + 1;
    for (uint32_t i = mapping_count; i > at; i--)
        current[i] = current[i - 1];
    current[at] = *n;
    mapping_count++;
}

static void add_new_mapping(const na_nprof_access_mapping_t *m, const char *path,
                            uint64_t mono_ns) {
    uint32_t at = mapping_place(m->start);
    na_nprof_access_mapping_t *known = at < mapping_count ? current[at].entry : NULL;
    uint32_t rights = NA_NPROF_MAPPING_READ | NA_NPROF_MAPPING_WRITE | NA_NPROF_MAPPING_EXECUTE |
                      NA_NPROF_MAPPING_SHARED;
    if (known != NULL && known->start == m->start && (known->flags & rights) == m->flags &&
        known->offset == m->offset && known->inode == m->inode && known->dev == m->dev) {
        current[at].seen = true; /* its end may have moved: a heap, a break */
        if (known->end == m->end) return;
        na_nprof_open(known, sizeof *known);
        __atomic_store_n(&known->end, m->end, __ATOMIC_RELAXED);
        na_nprof_seal(known, sizeof *known);
        return;
    }
    if (mapping_count >= MOST) return;
    na_nprof_access_mapping_t *e = na_access_table_next(&mapping_table);
    if (e == NULL) return;
    uint64_t since = na_access_since(mono_ns);
    uint32_t asked = threads_known();
    *e = *m;
    e->from_ns = since;
    e->to_ns = NA_NPROF_NS_STILL;
    na_rec_copy(e->path, sizeof e->path, path);
    if (path[0] != 0 && !same_text(e->path, path)) e->flags |= NA_NPROF_MAPPING_CUT;
    na_found_t found = {.kind = NA_LOOKUP_FOREIGN};
    if (na_access_config->find != NULL)
        na_access_config->find((const void *)(uintptr_t)m->start, &found);
    if (found.kind != NA_LOOKUP_FOREIGN) {
        e->flags |= NA_NPROF_MAPPING_ALLOCATOR;
    } else if (m->inode != 0) {
        if (path[0] == '/' && is_elf(path)) e->flags |= NA_NPROF_MAPPING_ELF;
    } else if (path[0] == 0 && (m->flags & NA_NPROF_MAPPING_WRITE) != 0 && follows_data(m->start)) {
        e->flags |= NA_NPROF_MAPPING_ELF;
    } else if ((m->flags & NA_NPROF_MAPPING_WRITE) != 0 && m->inode == 0) {
        if (is_stack(path)) {
            e->flags |= NA_NPROF_MAPPING_STACK;
            e->thread = na_athreads_id((uint32_t)na_rec.header->pid, since);
        } else if (path[0] == 0) {
            ask_stack(e, since);
        }
    }
    insert_mapping(&(now_t){m->start, e, na_access_table_commit(&mapping_table), asked, true});
}

/* The buffer's whole lines; returns how many bytes those were. */
static size_t take_lines(size_t filled, uint64_t mono_ns) {
    size_t done = 0;
    for (size_t at = 0; at < filled; at++) {
        if (buffer[at] != '\n') continue;
        buffer[at] = 0;
        na_nprof_access_mapping_t m = {0};
        const char *path;
        if (parse_mapping(buffer + done, &m, &path) &&
            (m.flags &
             (NA_NPROF_MAPPING_READ | NA_NPROF_MAPPING_WRITE | NA_NPROF_MAPPING_EXECUTE)) != 0)
            add_new_mapping(&m, path, mono_ns);
        done = at + 1;
    }
    return done;
}

void na_amaps_read(uint64_t mono_ns) {
    long fd = na_sys4(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return; /* no /proc: everything outside of the heap stays unknown */
    for (uint32_t i = 0; i < mapping_count; i++)
        current[i].seen = false;
    size_t filled = 0;
    for (;;) {
        long n = na_sys3(SYS_read, fd, (long)(buffer + filled), (long)(BUFFER - filled));
        if (n == -EINTR) continue;
        if (n <= 0) break;
        filled += (size_t)n;
        size_t done = take_lines(filled, mono_ns);
        if (done == 0 && filled == BUFFER) done = filled; /* no line is so long */
        __builtin_memmove(buffer, buffer + done, filled - done);
        filled -= done;
    }
    na_sys1(SYS_close, fd);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < mapping_count; i++) {
        na_nprof_access_mapping_t *e = current[i].entry;
        if (current[i].seen) {
            current[kept++] = current[i];
            continue;
        }
        na_nprof_open(e, sizeof *e);
        __atomic_store_n(&e->to_ns, na_access_since(mono_ns), __ATOMIC_RELAXED);
        na_nprof_seal(e, sizeof *e);
    }
    mapping_count = kept;
}

const na_nprof_access_mapping_t *na_amaps_find(uintptr_t address, uint32_t *id) {
    uint32_t at = mapping_place(address);
    if (at == mapping_count || address >= current[at].entry->end) return NULL;
    *id = current[at].id;
    ask_again(&current[at]);
    return current[at].entry;
}

const na_nprof_access_mapping_t *na_amaps_heap(uint32_t index) {
    for (uint32_t i = 0; i < mapping_count; i++)
        if ((current[i].entry->flags & NA_NPROF_MAPPING_ALLOCATOR) != 0 && index-- == 0)
            return current[i].entry;
    return NULL;
}
