/* policy_modules.c - see policy_modules.h. */
#include "profiler/policy/bind/policy_modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/policy/bind/slots.h"

#pragma weak dlsym

static NA_SPARSE na_policy_here_t *known[NA_POLICY_KNOWN];
static uint32_t known_paths;

/* --- one module --- */

static na_build_id_t build_id_of(const na_loaded_t *module) {
    const ElfW(Phdr) *headers = module->headers;
    na_build_id_t id = {NULL, 0};
    for (unsigned i = 0; i < module->header_count && id.bytes == NULL; i++)
        if (headers[i].p_type == PT_NOTE)
            id = na_elf_build_id((const void *)(module->base + headers[i].p_vaddr),
                                 headers[i].p_memsz);
    return id;
}

static const char *module_file_name(const char *path) {
    const char *name = path;
    for (; *path != 0; path++)
        if (*path == '/') name = path + 1;
    return name;
}

static const char *program_path(void) {
    NA_SPARSE static char path[1024];
    if (path[0] == 0) {
        long n = na_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path,
                            sizeof path - 1, 0, 0);
        path[n > 0 ? n : 0] = 0;
    }
    return path;
}

/* False: none that rules can lie in. */
static bool describe(const na_loaded_t *loaded, na_policy_here_t *m) {
    const char *path = loaded->index == 0 ? program_path() : loaded->name;
    if (strlen(path) >= sizeof m->path || strncmp(path, "linux-vdso", 10) == 0) return false;
    *m = (na_policy_here_t){.loaded = *loaded,
                            .build_id = build_id_of(loaded),
                            .rules_module = NA_POLICY_NO_MODULE,
                            .unwind.start = UINTPTR_MAX,
                            .text = UINTPTR_MAX};
    const ElfW(Phdr) *headers = loaded->headers;
    for (unsigned i = 0; i < loaded->header_count; i++) {
        uintptr_t at = loaded->base + headers[i].p_vaddr, end = at + headers[i].p_memsz;
        if (headers[i].p_type == PT_GNU_EH_FRAME) m->unwind.eh_hdr = (const uint8_t *)at;
        if (headers[i].p_type != PT_LOAD) continue;
        if (at < m->unwind.start) m->unwind.start = at;
        if (end > m->unwind.end) m->unwind.end = end;
        if ((headers[i].p_flags & PF_X) == 0 || (headers[i].p_flags & PF_R) == 0) continue;
        if (at < m->text) m->text = at;
        if (end > m->text_end) m->text_end = end;
    }
    strcpy(m->path, path);
    return m->text_end != 0;
}

/* The library itself, or the program that it is linked into. */
static bool is_own_module(const na_policy_here_t *m) {
    uintptr_t own = (uintptr_t)&na_policy_modules_first;
    return own >= m->unwind.start && own < m->unwind.end;
}

/* --- the loader --- */

typedef struct loader {
    void *(*open)(const char *file, int flags);
    int (*close)(void *handle);
} loader_t;

/* (The linker warns of a call of dlopen in static programs.) */
static loader_t find_loader(void) {
    loader_t l = {NULL, NULL};
    if (&dlsym == NULL) return l;
    *(void **)&l.open = dlsym(RTLD_DEFAULT, "dlopen");
    *(void **)&l.close = dlsym(RTLD_DEFAULT, "dlclose");
    if (l.close == NULL) l.open = NULL;
    return l;
}

/* Another thread may close what it has opened: false if it has gone since. (What a handle leads to
 * begins with what <link.h> says, in glibc as in musl.) */
static bool hold(na_policy_here_t *m, loader_t loader) {
    if (m->loaded.index == 0) return true;
    m->handle = loader.open(m->path, RTLD_LAZY | RTLD_NOLOAD);
    if (m->handle == NULL) return false;
    if (((const struct link_map *)m->handle)->l_addr == m->loaded.base) return true;
    loader.close(m->handle);
    m->handle = NULL;
    return false;
}

static void let_go(na_policy_here_t *m, loader_t loader, bool pin) {
    if (m->handle == NULL) return;
    if (pin) (void)loader.open(m->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    loader.close(m->handle);
    m->handle = NULL;
}

/* Pinned modules only. No room, or no memory: it is not known, and bound by those who ask the
 * loader. */
static void make_known(const na_policy_here_t *m) {
    for (uint32_t i = 0; i < known_paths; i++)
        if (known[i]->loaded.base == m->loaded.base) return;
    na_policy_here_t *kept =
        known_paths < NA_POLICY_KNOWN ? na_meta_alloc(sizeof *kept, NA_CACHE_LINE) : NULL;
    if (kept == NULL) return;
    *kept = *m;
    kept->known = true;
    kept->handle = NULL;
    known[known_paths] = kept;
    known_paths++;
}

/* --- the lists --- */

typedef struct visit {
    na_policy_modules_t *modules;
    bool all, is_for; /* all are wanted; the program is one that the file is for */
} visit_t;

static bool is_module(const na_policy_module_t *m, const na_policy_t *rules,
                      const na_policy_here_t *here) {
    return na_policy_name_is(rules, m->name, module_file_name(here->path)) ||
           (here->loaded.soname != NULL && na_policy_name_is(rules, m->name, here->loaded.soname));
}

/* The module of the file that this is, or none; counts those of another build. */
static void find_rules_module(na_policy_here_t *here) {
    na_policy_reading_t *r = na_bound.reading;
    bool other = false;
    here->rules_module = NA_POLICY_NO_MODULE;
    for (uint32_t i = 0; i < r->rules.module_count; i++) {
        const na_policy_module_t *m = &r->rules.modules[i];
        if (!is_module(m, &r->rules, here)) continue;
        if (m->build_id.length == here->build_id.length &&
            (m->build_id.length == 0 ||
             memcmp(m->build_id.bytes, here->build_id.bytes, m->build_id.length) == 0)) {
            r->module_states[i] = NA_POLICY_LOADED;
            here->rules_module = i;
            return;
        }
        if (r->module_states[i] == NA_POLICY_NOT_LOADED)
            r->module_states[i] = NA_POLICY_OTHER_BUILD;
        other = true;
    }
    r->other_builds += other;
}

/* In the place behind the list's last one. */
static bool consider(visit_t *v) {
    na_policy_here_t *m = &v->modules->items[v->modules->count];
    if (v->all) {
        v->modules->count += m->loaded.index == 0 || !is_own_module(m);
        return true;
    }
    if (m->loaded.index == 0) {
        v->is_for = na_policy_is_for(&na_bound.reading->rules, module_file_name(m->path),
                                     m->build_id.bytes, m->build_id.length);
        if (!v->is_for) return false;
    }
    if (is_own_module(m)) {
        na_bound.linked_in = m->loaded.index == 0;
        return true;
    }
    find_rules_module(m);
    v->modules->count += na_bound.reading->by_name || m->rules_module != NA_POLICY_NO_MODULE;
    return true;
}

static bool look_at(const na_loaded_t *loaded, void *arg) {
    visit_t *v = arg;
    if (v->modules->count >= NA_POLICY_KNOWN) return true;
    return !describe(loaded, &v->modules->items[v->modules->count]) || consider(v);
}

static bool make_module_room(na_policy_modules_t *modules) {
    size_t bytes = na_align_up((NA_POLICY_KNOWN + 1) * sizeof *modules->items, na_os_page);
    *modules = (na_policy_modules_t){.items = na_os_map(bytes)};
    return modules->items != NULL;
}

static void hold_all(na_policy_modules_t *modules) {
    loader_t loader = find_loader();
    uint32_t kept = 0;
    for (uint32_t i = 0; loader.open != NULL && i < modules->count; i++) {
        na_policy_here_t *m = &modules->items[i];
        if (!hold(m, loader)) continue;
        if (kept != i) modules->items[kept] = *m;
        kept++;
    }
    modules->count = kept;
}

bool na_policy_modules_take(na_policy_modules_t *modules, bool loader) {
    na_policy_reading_t *r = na_bound.reading;
    if (!make_module_room(modules)) return false;
    visit_t v = {.modules = modules};
    r->other_builds = 0;
    memset(r->module_states, NA_POLICY_NOT_LOADED, sizeof r->module_states);
    if (loader) {
        na_loaded_visit(look_at, &v);
        if (v.is_for) hold_all(modules);
    } else {
        for (uint32_t i = 0; i < known_paths && modules->count < NA_POLICY_KNOWN; i++) {
            modules->items[modules->count] = *known[i];
            if (!consider(&v)) break;
        }
    }
    na_bound.for_others = !v.is_for;
    r->missing_modules = 0;
    for (uint32_t i = 0; i < r->rules.module_count; i++)
        r->missing_modules += r->module_states[i] != NA_POLICY_LOADED;
    return v.is_for;
}

void na_policy_modules_turn(na_policy_modules_t *modules) {
    for (uint32_t i = 0; i < modules->count; i++)
        if (modules->items[i].innermost)
            na_bound.slots += na_policy_turn_slots(&modules->items[i].loaded);
}

void na_policy_modules_release(na_policy_modules_t *modules, bool loader) {
    loader_t l = {NULL, NULL};
    if (loader) l = find_loader();
    for (uint32_t i = 0; l.open != NULL && i < modules->count; i++) {
        na_policy_here_t *m = &modules->items[i];
        if (m->named) make_known(m);
        let_go(m, l, m->named);
    }
    if (modules->items != NULL)
        na_os_unmap(modules->items,
                    na_align_up((NA_POLICY_KNOWN + 1) * sizeof *modules->items, na_os_page));
}

void na_policy_modules_first(void) {
    na_policy_modules_t modules;
    if (!make_module_room(&modules)) return;
    visit_t v = {.modules = &modules, .all = true};
    na_loaded_visit(look_at, &v);
    hold_all(&modules);
    for (uint32_t i = 0; i < modules.count; i++)
        modules.items[i].named = true;
    na_policy_modules_release(&modules, true);
}
