/* roots.c - what the program can begin from: data of modules, stacks, thread-local storage. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "pagemap/pagemap.h"
#include "profiler/containers/number.h"
#include "profiler/leaks/leaks_state.h"

#pragma weak dlsym
#pragma weak dl_iterate_phdr

/* --- modules --- */

static void add_data(na_leak_scan_t *scan, uintptr_t start, uintptr_t bytes) {
    if (scan->data_count == NA_LEAK_DATA)
        scan->failed = true;
    else
        scan->data[scan->data_count++] = (na_leak_range_t){start, start + bytes};
}

static int add_module(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    na_leak_scan_t *scan = arg;
    if (scan->module_count == NA_LEAK_MODULES) {
        scan->failed = true;
        return 1;
    }
    na_leak_module_t *m = &scan->modules[scan->module_count];
    *m = (na_leak_module_t){.all = {UINTPTR_MAX, 0}, .bias = info->dlpi_addr};
    m->name = info->dlpi_name != NULL ? info->dlpi_name : "";
    uint32_t before = scan->data_count;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type != PT_LOAD || ph->p_memsz == 0) continue;
        if (start < m->all.start) m->all.start = start;
        if (start + ph->p_memsz > m->all.end) m->all.end = start + ph->p_memsz;
        if ((ph->p_flags & PF_W) != 0) add_data(scan, start, ph->p_memsz);
    }
    /* A program that has the allocator linked into it: its data and ours are not told apart. */
    m->ours = scan->module_count != 0 && na_leak_in(&m->all, (uintptr_t)&na_pagemap);
    if (m->ours) scan->data_count = before;
    m->linker = na_leak_in(&m->all, (uintptr_t)getauxval(AT_BASE));
    if (m->linker) scan->linker = m->all;
    scan->module_count++;
    return 0;
}

bool na_leak_list_modules(na_leak_scan_t *scan) {
    if (&dl_iterate_phdr == NULL) return false;
    dl_iterate_phdr(add_module, scan);
    return !scan->failed;
}

void na_leak_scan_data(na_leak_scan_t *scan) {
    for (uint32_t i = 0; i < scan->data_count; i++)
        na_leak_scan_range(scan, scan->data[i].start, scan->data[i].end);
}

/* --- mappings --- */

typedef struct line {
    na_leak_range_t range;
    bool readable, stack;
} line_t;

/* "start-end rwxp offset device inode   name" */
static line_t read_line(const char *text) {
    static const char stack[] = "[stack]";
    line_t line = {0};
    line.range.start = na_number_read(&text, 16);
    if (*text == '-') text++;
    line.range.end = na_number_read(&text, 16);
    if (*text == ' ') text++;
    line.readable = *text == 'r';
    size_t length = strlen(text);
    line.stack = length >= sizeof stack - 1 &&
                 memcmp(text + length - (sizeof stack - 1), stack, sizeof stack - 1) == 0;
    return line;
}

static void add_root_mapping(na_leak_scan_t *scan, const line_t *line) {
    if (line->stack) scan->stack = line->range;
    if (!line->readable || line->range.end <= line->range.start) return;
    if (scan->readable_count == NA_LEAK_READABLE) {
        scan->failed = true;
        return;
    }
    scan->readable[scan->readable_count++] = line->range;
}

bool na_leak_list_mappings(na_leak_scan_t *scan) {
    enum { BUFFER = 8192 };
    char text[BUFFER];
    static const char path[] = "/proc/self/maps";
    long fd = na_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return false;
    size_t held = 0;
    for (;;) {
        long n = na_syscall(SYS_read, fd, (long)(text + held), (long)(BUFFER - 1 - held), 0, 0, 0);
        if (n == -EINTR) continue;
        if (n <= 0) break;
        held += (size_t)n;
        text[held] = 0;
        char *at = text, *end;
        while ((end = memchr(at, '\n', held - (size_t)(at - text))) != NULL) {
            *end = 0;
            line_t line = read_line(at);
            add_root_mapping(scan, &line);
            at = end + 1;
        }
        held -= (size_t)(at - text);
        memmove(text, at, held);
        if (held == BUFFER - 1) held = 0; /* no line is so long */
    }
    na_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
    return scan->readable_count != 0 && !scan->failed;
}

/* The number of the mapping that has the address, or of the next one. */
static uint32_t mapping_at(const na_leak_scan_t *scan, uintptr_t at) {
    uint32_t low = 0, high = scan->readable_count;
    while (low < high) { /* the first that ends behind `at` */
        uint32_t middle = low + (high - low) / 2;
        if (scan->readable[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uintptr_t na_leak_readable_to(const na_leak_scan_t *scan, uintptr_t at) {
    uint32_t low = mapping_at(scan, at);
    if (low == scan->readable_count || scan->readable[low].start > at) return at;
    uintptr_t end = scan->readable[low].end;
    while (++low < scan->readable_count && scan->readable[low].start == end)
        end = scan->readable[low].end;
    return end;
}

/* The same to the end of the mapping: what follows may be another's. */
static uintptr_t mapped_to(const na_leak_scan_t *scan, uintptr_t at) {
    uint32_t i = mapping_at(scan, at);
    return i == scan->readable_count || scan->readable[i].start > at ? at : scan->readable[i].end;
}

/* --- threads --- */

/* What the C library keeps of a thread, behind its thread pointer (x86-64), and that with static
 * thread-local storage, which lies before it. Elsewhere it is the other way round. As glibc 2.36
 * has it, unless the C library says otherwise. Not a byte more: the allocator's own tables may
 * follow. */
static size_t thread_struct_bytes = 2304, static_tls_bytes = 4096;

static uintptr_t first_tp; /* of the thread that the process began with, whose stack is [stack] */

void na_leak_ask_loader(void) {
    first_tp = na_thread_pointer();
    if (&dlsym == NULL) return;
    const uint32_t *size = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
    if (size != NULL && *size > 512 && *size < 65536) thread_struct_bytes = *size;
    void (*info)(size_t *, size_t *) = NULL;
    *(void **)&info = dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info");
    size_t bytes = 0, alignment = 0;
    if (info != NULL) info(&bytes, &alignment);
    if (bytes > static_tls_bytes) static_tls_bytes = bytes;
}

/* Begins and ends of all that belongs to the thread pointer. */
static na_leak_range_t storage_of(uintptr_t tp) {
#ifdef __x86_64__
    uintptr_t end = tp + thread_struct_bytes;
    return (na_leak_range_t){end - static_tls_bytes, end};
#else
    uintptr_t start = tp - thread_struct_bytes;
    return (na_leak_range_t){start, start + static_tls_bytes};
#endif
}

/* A thread that runs on another stack than the C library gave it (a signal stack, a coroutine):
 * all of that one, since where it was left is not known. */
static void scan_left_stack(na_leak_scan_t *scan, uintptr_t tp) {
    enum { MOST = 64 << 20 };
    if (tp == first_tp || tp == 0) return;
    uintptr_t start = tp;
    while (tp - start < MOST && mapped_to(scan, start - na_os_page) > tp)
        start -= na_os_page;
    na_leak_scan_range(scan, start, tp);
}

void na_leak_scan_thread(na_leak_scan_t *scan, const na_leak_thread_t *thread) {
    na_leak_scan_words(scan, thread->words, thread->count);
    na_leak_range_t storage = storage_of(thread->tp);
    if (thread->tp != 0) na_leak_scan_range(scan, storage.start, storage.end);
    uintptr_t sp = thread->sp;
    if (thread->sp == 0) {
        scan_left_stack(scan, thread->tp);
        return;
    }
    uintptr_t end = na_leak_readable_to(scan, thread->sp);
    if (na_leak_in(&scan->stack, thread->sp)) { /* the first thread's */
        na_leak_scan_range(scan, sp, scan->stack.end);
    } else if (thread->tp != first_tp && thread->sp < thread->tp && thread->tp < end) {
        na_leak_scan_range(scan, sp, storage.end);
    } else {
        const uintptr_t block = thread->sp;
        if (na_span_of((const void *)block) != NULL)
            na_leak_scan_words(scan, &block, 1); /* the block is in use: all of it */
        else
            na_leak_scan_range(scan, sp, mapped_to(scan, thread->sp));
        scan_left_stack(scan, thread->tp);
        if (thread->tp == first_tp) na_leak_scan_range(scan, scan->stack.start, scan->stack.end);
    }
}
