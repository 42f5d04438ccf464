/* lasting.c - follows DT_NEEDED from the modules that certainly stay.
 *
 * The loader never unloads what the program needed at its start: those modules are not candidates
 * for dlclose at all. They are found by name, as the loader did it: DT_NEEDED names a DT_SONAME, or
 * a file. A library that is not found so (LD_PRELOAD brought it) merely counts as one that may go.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* struct dl_phdr_info */
#endif
#include "profiler/record/unwind/lasting.h"

#include <link.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "alloc/core/sys/base.h"

#define MODULES_MAX 512u

typedef struct module {
    uintptr_t start, end, bias;
    const char *path;
    const ElfW(Dyn) * dynamic;
    bool lasting, followed;
} module_t;

/* Used while na_lasting_find runs, and then only by what it left in `starts`. */
static module_t modules[MODULES_MAX];
static unsigned lasting_count;
static uintptr_t starts[MODULES_MAX];
static unsigned lasting_start_count;

static int note_module(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    (void)arg;
    if (lasting_count == MODULES_MAX) return 1;
    module_t m = {.start = UINTPTR_MAX, .bias = info->dlpi_addr, .path = info->dlpi_name};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type == PT_LOAD) {
            if (na_align_down(at, 4096) < m.start) m.start = na_align_down(at, 4096);
            if (at + ph->p_memsz > m.end) m.end = at + ph->p_memsz;
        } else if (ph->p_type == PT_DYNAMIC) {
            m.dynamic = (const ElfW(Dyn) *)at;
        }
    }
    if (m.end != 0) modules[lasting_count++] = m;
    return 0;
}

/* The string table of a module. The loader has made its address absolute, except where the dynamic
 * section cannot be written to. */
static const char *strings_of(const module_t *m) {
    for (const ElfW(Dyn) *d = m->dynamic; d != NULL && d->d_tag != DT_NULL; d++) {
        if (d->d_tag != DT_STRTAB) continue;
        uintptr_t at = d->d_un.d_ptr;
        if (at - m->start >= m->end - m->start) at += m->bias;
        return at - m->start < m->end - m->start ? (const char *)at : NULL;
    }
    return NULL;
}

static const char *last_part(const char *path) {
    const char *last = path;
    for (const char *p = path; p != NULL && *p != 0; p++)
        if (*p == '/') last = p + 1;
    return last;
}

static bool equal_texts(const char *a, const char *b) {
    if (a == NULL || b == NULL) return false;
    while (*a != 0 && *a == *b)
        a++, b++;
    return *a == *b;
}

static bool is_module_called(const module_t *m, const char *name) {
    const char *strings = strings_of(m);
    for (const ElfW(Dyn) *d = m->dynamic; strings != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_SONAME) return equal_texts(strings + d->d_un.d_val, name);
    return equal_texts(last_part(m->path), last_part(name));
}

static void follow_module(module_t *m) {
    m->followed = true;
    const char *strings = strings_of(m);
    for (const ElfW(Dyn) *d = m->dynamic; strings != NULL && d->d_tag != DT_NULL; d++) {
        if (d->d_tag != DT_NEEDED) continue;
        for (unsigned i = 0; i < lasting_count; i++) {
            if (!is_module_called(&modules[i], strings + d->d_un.d_val)) continue;
            modules[i].lasting = true;
            break; /* the loader, too, takes the first of its list */
        }
    }
}

void na_lasting_find(void) {
    lasting_count = lasting_start_count = 0;
    dl_iterate_phdr(note_module, NULL);
    const uintptr_t roots[] = {getauxval(AT_ENTRY), getauxval(AT_BASE), getauxval(AT_SYSINFO_EHDR),
                               (uintptr_t)&na_lasting_find};
    for (unsigned i = 0; i < lasting_count; i++)
        for (unsigned k = 0; k < sizeof roots / sizeof roots[0]; k++)
            if (roots[k] - modules[i].start < modules[i].end - modules[i].start)
                modules[i].lasting = true;
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < lasting_count; i++) {
            if (!modules[i].lasting || modules[i].followed) continue;
            follow_module(&modules[i]);
            again = true;
        }
    }
    for (unsigned i = 0; i < lasting_count; i++)
        if (modules[i].lasting) starts[lasting_start_count++] = modules[i].start;
}

bool na_lasting(uintptr_t start) {
    for (unsigned i = 0; i < lasting_start_count; i++)
        if (starts[i] == start) return true;
    return false;
}
