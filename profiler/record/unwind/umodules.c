/* umodules.c - asks the loader for the module of an address, and remembers identities.
 *
 * glibc >= 2.35 has _dl_find_object: lock-free, async-signal-safe. Without it (older C libraries,
 * static programs) the modules present at start are known from dl_iterate_phdr, and what is loaded
 * later is walked by frame pointers. A static program has it, too, but allocates while it prepares
 * it, and asked then it crashes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* struct dl_phdr_info, _dl_find_object */
#endif
#include "profiler/record/unwind/umodules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "alloc/core/sys/base.h"
#include "profiler/containers/hash.h"
#include "profiler/record/unwind/elf_note.h"
#include "profiler/record/unwind/lasting.h"

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 35)
#define HAVE_DL_FIND_OBJECT 1
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));
#endif

/* What identifies a module while it is at one address. The build id is compared besides, because a
 * plugin that was rebuilt and loaded again may agree in all the rest. */
typedef struct known {
    _Atomic uint64_t digest; /* of range, link_map and .eh_frame_hdr; 0: free. Stored last. */
    uintptr_t start, end;
    const uint8_t *build_id; /* a word of it, in the module's first page; NULL: none there */
    uint64_t build_id_word;
    bool lasting;
} known_t;

#define KNOWN_SLOTS  2048u
#define KNOWN_PROBES 16u

static known_t known_modules[KNOWN_SLOTS];
static uint16_t known_slots[KNOWN_SLOTS]; /* of `known_modules` that were ever used, in the order of
                                             their use */
static unsigned slot_count;
static atomic_flag writing = ATOMIC_FLAG_INIT; /* only ever tried, never waited for */
static void (*on_seen)(const na_unwind_seen_t *);
static void (*on_flush)(void);
_Atomic uint32_t na_umodule_generation;

/* Modules of the start, where the loader cannot be asked later. Written before the first walk. */
#define START_MAX 256u
static na_unwind_module_t modules_at_start[START_MAX];
static unsigned start_module_count;
static bool is_static; /* the program has no dynamic linker */

static uint64_t digest_of(const na_unwind_module_t *m) {
    uint64_t h = na_hash_number(
        na_hash_number(na_hash_number(na_hash_number(1, m->start), m->end), (uintptr_t)m->link_map),
        (uintptr_t)m->eh_hdr);
    return h == 0 ? 1 : h;
}

static unsigned module_slot(uintptr_t start) {
    return (unsigned)(na_hash_number(7, start) >> 40) % KNOWN_SLOTS;
}

/* A word of the GNU build id. */
static const uint8_t *find_build_id(const na_unwind_module_t *m) {
    return na_elf_build_id_of(m->start, m->end, sizeof(uint64_t)).bytes;
}

static uint64_t load_word(const uint8_t *p) {
    uint64_t v;
    __builtin_memcpy(&v, p, sizeof v); /* notes are aligned to 4 */
    return v;
}

/* The slow half of na_umodule_find, about once per module and process. (A place is written again
 * when its module is gone, or in another profile; who still reads it is in neither.) */
NA_RACY static NA_COLD na_umodule_state_t learn_module(const na_unwind_module_t *m,
                                                       uint64_t digest) {
    if (atomic_flag_test_and_set_explicit(&writing, memory_order_acquire)) return NA_UMODULE_FRESH;
    uintptr_t replaced = 0;
    for (unsigned i = 0; i < slot_count; i++) {
        known_t *k = &known_modules[known_slots[i]];
        if (atomic_load_explicit(&k->digest, memory_order_relaxed) != 0 && k->start < m->end &&
            m->start < k->end) {
            atomic_store_explicit(&k->digest, 0, memory_order_release);
            replaced = k->start;
        }
    }
    if (replaced != 0) {
        if (on_flush != NULL) on_flush();
        atomic_fetch_add_explicit(&na_umodule_generation, 1, memory_order_release);
    }
    na_umodule_state_t state = NA_UMODULE_FRESH;
    for (unsigned i = 0; i < KNOWN_PROBES; i++) {
        known_t *k = &known_modules[(module_slot(m->start) + i) % KNOWN_SLOTS];
        if (atomic_load_explicit(&k->digest, memory_order_relaxed) != 0) continue;
        if (k->end == 0 && slot_count < KNOWN_SLOTS)
            known_slots[slot_count++] = (uint16_t)(k - known_modules);
        k->start = m->start;
        k->end = m->end;
        k->build_id = find_build_id(m);
        k->build_id_word = k->build_id != NULL ? load_word(k->build_id) : 0;
        k->lasting = na_lasting(m->start);
        atomic_store_explicit(&k->digest, digest, memory_order_release);
        state = k->lasting ? NA_UMODULE_LASTING : NA_UMODULE_KNOWN;
        break;
    }
    if (on_seen != NULL && state >= NA_UMODULE_KNOWN)
        on_seen(&(na_unwind_seen_t){m->start, m->end, m->link_map, replaced, m->eh_hdr});
    atomic_flag_clear_explicit(&writing, memory_order_release);
    return state;
}

#ifdef HAVE_DL_FIND_OBJECT
/* Of a program whose segments have gaps between them (linked for pages of 2 MiB, say) the loader
 * tells the segment only, and its tables lie in another one. Libraries it maps without gaps. */
static NA_COLD void make_whole(uintptr_t pc, na_unwind_module_t *m) {
    for (unsigned i = 0; i < start_module_count; i++) {
        const na_unwind_module_t *all = &modules_at_start[i];
        if (all->eh_hdr != m->eh_hdr || pc - all->start >= all->end - all->start) continue;
        m->start = all->start;
        m->end = all->end;
        return;
    }
}
#endif

static bool ask_loader(uintptr_t pc, na_unwind_module_t *m) {
#ifdef HAVE_DL_FIND_OBJECT
    if (_dl_find_object != NULL && !is_static) {
        struct dl_find_object found;
        if (_dl_find_object((void *)pc, &found) != 0) return false;
        m->start = (uintptr_t)found.dlfo_map_start;
        m->end = (uintptr_t)found.dlfo_map_end;
        m->eh_hdr = found.dlfo_eh_frame;
        m->link_map = found.dlfo_link_map;
        if (m->eh_hdr != NULL && (uintptr_t)m->eh_hdr - m->start >= m->end - m->start)
            make_whole(pc, m);
        return true;
    }
#endif
    for (unsigned i = 0; i < start_module_count; i++) {
        if (pc - modules_at_start[i].start < modules_at_start[i].end - modules_at_start[i].start) {
            *m = modules_at_start[i];
            return true;
        }
    }
    return false;
}

na_umodule_state_t na_umodule_find(uintptr_t pc, na_unwind_module_t *m) {
    if (!ask_loader(pc, m)) return NA_UMODULE_NONE;
    uint64_t digest = digest_of(m);
    unsigned slot = module_slot(m->start);
    for (unsigned i = 0; i < KNOWN_PROBES; i++) {
        known_t *k = &known_modules[(slot + i) % KNOWN_SLOTS];
        if (atomic_load_explicit(&k->digest, memory_order_acquire) == digest) {
            if (k->build_id == NULL || load_word(k->build_id) == k->build_id_word)
                return k->lasting ? NA_UMODULE_LASTING : NA_UMODULE_KNOWN;
            break;
        }
    }
    return learn_module(m, digest);
}

na_umodule_state_t na_umodule_of_others(uintptr_t pc, na_unwind_module_t *m) {
    if (!ask_loader(pc, m)) return NA_UMODULE_NONE;
    return na_lasting(m->start) ? NA_UMODULE_LASTING : NA_UMODULE_FRESH;
}

/* A static program may allocate before its C library knows its segments; the kernel has told them.
 */
static void ask_kernel(struct dl_phdr_info *info) {
    info->dlpi_phdr = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    info->dlpi_phnum = info->dlpi_phdr != NULL ? (ElfW(Half))getauxval(AT_PHNUM) : 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_PHDR)
            info->dlpi_addr = (uintptr_t)info->dlpi_phdr - info->dlpi_phdr[i].p_vaddr;
}

static int at_start_one(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    (void)arg;
    if (start_module_count == 0 && info->dlpi_phnum == 0) ask_kernel(info);
    na_unwind_module_t m = {UINTPTR_MAX, 0, NULL, NULL};
    bool linker = false;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type == PT_LOAD) {
            if (na_align_down(at, 4096) < m.start) m.start = na_align_down(at, 4096);
            if (at + ph->p_memsz > m.end) m.end = at + ph->p_memsz;
        } else if (ph->p_type == PT_GNU_EH_FRAME) {
            m.eh_hdr = (const uint8_t *)at;
        } else if (ph->p_type == PT_INTERP) {
            linker = true;
        }
    }
    if (start_module_count == 0) is_static = !linker; /* the program is the first */
    if (m.end == 0) return 0;
    if (start_module_count < START_MAX) modules_at_start[start_module_count++] = m;
    na_unwind_module_t now;
    na_umodule_find(m.start, &now); /* tells the observer */
    return 0;
}

void na_umodule_forget(void) {
    for (unsigned i = 0; i < slot_count; i++)
        atomic_store_explicit(&known_modules[known_slots[i]].digest, 0, memory_order_relaxed);
    atomic_flag_clear_explicit(&writing, memory_order_relaxed);
}

void na_umodule_init(void (*seen)(const na_unwind_seen_t *), void (*flush)(void)) {
    na_umodule_forget();
    start_module_count = 0;
    on_seen = seen;
    on_flush = flush;
    na_lasting_find();
    dl_iterate_phdr(at_start_one, NULL);
}
