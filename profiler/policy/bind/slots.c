/* slots.c - turns import slots. */
#include "profiler/policy/bind/slots.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "alloc/core/sys/os.h"
#include "profiler/policy/apply/ruled_live.h"

#ifdef __x86_64__
enum { R_SLOT = R_X86_64_JUMP_SLOT, R_WORD = R_X86_64_GLOB_DAT, R_ADDRESS = R_X86_64_64 };
#else
enum { R_SLOT = R_AARCH64_JUMP_SLOT, R_WORD = R_AARCH64_GLOB_DAT, R_ADDRESS = R_AARCH64_ABS64 };
#endif

typedef struct tables {
    uintptr_t relro, relro_end; /* pages that the loader has made read-only */
    uintptr_t text, text_end;   /* the module's addresses */
    const na_loaded_t *module;
} tables_t;

static void write_word(const tables_t *t, uintptr_t at, uintptr_t value) {
    uintptr_t page = na_align_down(at, na_os_page);
    bool closed = page >= t->relro && page < t->relro_end;
    if (closed && na_syscall(SYS_mprotect, (long)page, (long)na_os_page, PROT_READ | PROT_WRITE, 0,
                             0, 0) != 0)
        return;
    __atomic_store_n((uintptr_t *)at, value, __ATOMIC_RELEASE);
    if (closed) na_syscall(SYS_mprotect, (long)page, (long)na_os_page, PROT_READ, 0, 0, 0);
}

/* Where the slot will lead: what is in it, or, where it was not used yet and leads back into the
 * module, the library's function of the name that it is for. */
static uintptr_t meant(const tables_t *t, const ElfW(Rela) * r, uintptr_t value) {
    if (ELF64_R_TYPE(r->r_info) != R_SLOT || value < t->text || value >= t->text_end) return value;
    const ElfW(Sym) *symbol = (const ElfW(Sym) *)t->module->symbols + ELF64_R_SYM(r->r_info);
    if (symbol->st_shndx != SHN_UNDEF) return value;
    return na_policy_function_named(t->module->strings + symbol->st_name);
}

static unsigned turn(const tables_t *t, const ElfW(Rela) * r, size_t bytes) {
    unsigned turned = 0;
    for (size_t i = 0; r != NULL && i < bytes / sizeof *r; i++) {
        unsigned type = (unsigned)ELF64_R_TYPE(r[i].r_info);
        uintptr_t at = t->module->base + r[i].r_offset;
        if ((type != R_SLOT && type != R_WORD && (type != R_ADDRESS || r[i].r_addend != 0)) ||
            ELF64_R_SYM(r[i].r_info) == 0 || at % sizeof(uintptr_t) != 0)
            continue;
        uintptr_t value = __atomic_load_n((const uintptr_t *)at, __ATOMIC_RELAXED);
        uintptr_t entry = na_policy_entry_for(meant(t, &r[i], value));
        if (entry == 0) continue;
        write_word(t, at, entry);
        turned++;
    }
    return turned;
}

unsigned na_policy_turn_slots(const na_loaded_t *module) {
    tables_t t = {.module = module, .text = UINTPTR_MAX};
    const ElfW(Phdr) *headers = module->headers;
    const ElfW(Dyn) *dynamic = NULL;
    for (unsigned i = 0; i < module->header_count; i++) {
        uintptr_t at = module->base + headers[i].p_vaddr, end = at + headers[i].p_memsz;
        if (headers[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)at;
        if (headers[i].p_type == PT_GNU_RELRO) {
            t.relro = na_align_down(at, na_os_page);
            t.relro_end = na_align_down(end, na_os_page);
        }
        if (headers[i].p_type == PT_LOAD) {
            if (at < t.text) t.text = at;
            if (end > t.text_end) t.text_end = end;
        }
    }
    if (dynamic == NULL || module->symbols == NULL || module->strings == NULL) return 0;
    const ElfW(Rela) *rela = NULL, *plt = NULL;
    size_t rela_bytes = 0, plt_bytes = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t at = dynamic->d_un.d_ptr;
        const void *table = (const void *)(at < module->base ? at + module->base : at);
        if (dynamic->d_tag == DT_RELA) rela = table;
        if (dynamic->d_tag == DT_RELASZ) rela_bytes = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_JMPREL) plt = table;
        if (dynamic->d_tag == DT_PLTRELSZ) plt_bytes = dynamic->d_un.d_val;
    }
    return turn(&t, rela, rela_bytes) + turn(&t, plt, plt_bytes);
}
