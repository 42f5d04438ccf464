/* probes.c - see probes.h. Each probe is in one place, so that it has one note.
 *
 * Notes are written here and not by <sys/sdt.h>, which would be one more package to build with for
 * these lines. */
#include "profiler/record/events/probes.h"

#include "alloc/core/track/track.h"
#include "profiler/record/events/count.h"

/* Not in .bss: the kernel finds it by its place in the file. */
__attribute__((section(".probes"), used)) volatile uint16_t na_probe_listeners;

/* A note: the probe's address, that of the base by which readers see that a linker has moved it,
 * and that of the counter; then provider, name and where the arguments are, "8@%rax ...". */
#define NA_PROBE(provider, name, where, ...)                                                       \
    __asm__ volatile("990: nop\n"                                                                  \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                                  \
                     ".balign 4\n"                                                                 \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                            \
                     "991: .asciz \"stapsdt\"\n"                                                   \
                     "992: .balign 4\n"                                                            \
                     "993: .8byte 990b, _.stapsdt.base, na_probe_listeners\n"                      \
                     ".asciz \"" provider "\"\n"                                                   \
                     ".asciz \"" name "\"\n"                                                       \
                     ".asciz \"" where "\"\n"                                                      \
                     "994: .balign 4\n"                                                            \
                     ".popsection\n"                                                               \
                     ".ifndef _.stapsdt.base\n"                                                    \
                     ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"       \
                     ".weak _.stapsdt.base\n"                                                      \
                     ".hidden _.stapsdt.base\n"                                                    \
                     "_.stapsdt.base: .space 1\n"                                                  \
                     ".size _.stapsdt.base, 1\n"                                                   \
                     ".popsection\n"                                                               \
                     ".endif\n" ::__VA_ARGS__)

#define NA_PROBE_OF_BLOCK(name, site, size, address, thread)                                       \
    NA_PROBE("numalloc", name, "8@%0 8@%1 8@%2 8@%3", "r"((uint64_t)(site)),                       \
             "r"((uint64_t)(size)), "r"((uint64_t)(address)), "r"((uint64_t)(thread)))

static bool is_of_profile(const na_record_t *record) {
    return record->epoch == na_profile_epoch && record->site != NA_NPROF_NO_STACK;
}

NA_NOINLINE void na_probe_alloc(const na_record_t *record, const void *block, uint64_t requested,
                                uint64_t usable) {
    if (!is_of_profile(record)) return;
    uint64_t weight = na_site_weighted(requested, usable).bytes;
    NA_PROBE_OF_BLOCK("alloc", record->site, requested, (uintptr_t)block, record->thread);
    NA_PROBE("otel_memory", "alloc", "8@%0 8@%1 8@%2", "r"((uint64_t)(uintptr_t)block),
             "r"(requested), "r"(weight));
}

NA_NOINLINE void na_probe_free(const na_record_t *record, const void *block, uint64_t usable) {
    if (!is_of_profile(record)) return;
    NA_PROBE_OF_BLOCK("free", record->site, usable - record->slack, (uintptr_t)block,
                      record->thread);
    NA_PROBE("otel_memory", "free", "8@%0", "r"((uint64_t)(uintptr_t)block));
}

NA_NOINLINE void na_probe_access(const na_record_t *record, uint64_t address, uint64_t usable,
                                 uint32_t thread) {
    NA_PROBE_OF_BLOCK("sample", record->site, usable - record->slack, address, thread);
}
