/* module_pairs.c - modules of two profiles, paired. See module_pairs.h. */
#include "profiler/dump/runs/module_pairs.h"

#include "profiler/containers/path.h"

#include <ctype.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

/* A module by its path; of several with one path, the last. */
typedef struct item {
    const na_nprof_module_t *module;
    char *soname;             /* owned; NULL: none */
    char *alone;              /* owned: a text that is no other module's */
    const char *key;          /* the pair's text, else `alone` */
    const struct item *other; /* NULL: not paired */
    const char *why;
    bool same_build; /* offsets mean the same on both sides */
} item_t;

struct na_pairs {
    item_t *sides[2];
    size_t counts[2];
};

static int by_path(const void *a, const void *b) {
    const item_t *x = a, *y = b;
    int order = strcmp(x->module->path, y->module->path);
    return order != 0 ? order : (x->module > y->module) - (x->module < y->module);
}

static char *soname_in(Elf *elf) {
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_DYNAMIC) continue;
        Elf_Data *data = elf_getdata(section, NULL);
        GElf_Dyn dyn;
        for (int i = 0; data != NULL && gelf_getdyn(data, i, &dyn) != NULL; i++) {
            if (dyn.d_tag == DT_NULL) break;
            const char *name =
                dyn.d_tag == DT_SONAME ? elf_strptr(elf, header.sh_link, dyn.d_un.d_val) : NULL;
            if (name != NULL && name[0] != 0) return strdup(name);
        }
    }
    return NULL;
}

/* From the file that was profiled. NULL: it is not there, or has none. */
static char *file_soname(const na_nprof_module_t *m) {
    char *name = NULL;
    (void)elf_version(EV_CURRENT);
    int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf != NULL && elf_kind(elf) == ELF_K_ELF) {
        const void *id = NULL;
        ssize_t size = dwelf_elf_gnu_build_id(elf, &id);
        if (size > 0 && (size_t)size == m->build_id_size &&
            memcmp(id, m->build_id, (size_t)size) == 0)
            name = soname_in(elf);
    }
    (void)elf_end(elf);
    if (fd >= 0) close(fd);
    return name;
}

/* libx.so.1.2 is of soname libx.so.1, by custom. */
static char *soname_of(const na_nprof_module_t *m) {
    const char *name = na_base_name(m->path), *so = strstr(name, ".so.");
    if ((m->flags & (NA_NPROF_MODULE_MAIN | NA_NPROF_MODULE_VDSO)) != 0) return NULL;
    char *read = file_soname(m);
    if (read != NULL || so == NULL || !isdigit((unsigned char)so[4])) return read;
    return strndup(name, (size_t)(so - name) + 4 + strspn(so + 4, "0123456789"));
}

static bool list_modules(na_pairs_t *pairs, int side, const na_view_input_t *in) {
    na_module_table_t modules = na_reader_modules(in->reader);
    item_t *items = calloc((size_t)modules.count + 1, sizeof *items);
    size_t count = 0;
    pairs->sides[side] = items;
    if (items == NULL) return false;
    for (uint32_t i = 1; i < modules.count; i++)
        if (modules.items[i].flags != 0) items[count++].module = &modules.items[i];
    if (count != 0) qsort(items, count, sizeof *items, by_path);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && strcmp(items[i].module->path, items[i + 1].module->path) == 0)
            continue;
        items[kept++].module = items[i].module;
    }
    pairs->counts[side] = kept;
    for (size_t i = 0; i < kept; i++) {
        /* No path has a blank line in it that any file system would give it. */
        if (asprintf(&items[i].alone, "%d\n%zu", side, i) < 0) {
            items[i].alone = NULL;
            return false;
        }
        items[i].key = items[i].alone;
    }
    return true;
}

static bool same_build(const item_t *x, const item_t *y) {
    return x->module->build_id_size == y->module->build_id_size &&
           memcmp(x->module->build_id, y->module->build_id, x->module->build_id_size) == 0;
}

static bool by_build(const item_t *x, const item_t *y) {
    return x->module->build_id_size != 0 && same_build(x, y);
}

static bool by_soname(const item_t *x, const item_t *y) {
    return x->soname != NULL && y->soname != NULL && strcmp(x->soname, y->soname) == 0;
}

static bool same_base_name(const item_t *x, const item_t *y) {
    return strcmp(na_base_name(x->module->path), na_base_name(y->module->path)) == 0;
}

static bool by_role(const item_t *x, const item_t *y) {
    return (x->module->flags & y->module->flags & NA_NPROF_MODULE_MAIN) != 0;
}

/* Where several would do, one with the same path, else the first. */
static void pair_up(na_pairs_t *pairs, bool (*same)(const item_t *, const item_t *),
                    const char *why) {
    for (size_t i = 0; i < pairs->counts[0]; i++) {
        item_t *x = &pairs->sides[0][i], *found = NULL;
        for (size_t k = 0; k < pairs->counts[1] && x->other == NULL; k++) {
            item_t *y = &pairs->sides[1][k];
            if (y->other != NULL || !same(x, y)) continue;
            bool path = strcmp(x->module->path, y->module->path) == 0;
            if (found == NULL || path) found = y;
            if (path) break;
        }
        if (found == NULL) continue;
        x->other = found;
        found->other = x;
        x->key = found->key = found->alone;
        x->why = found->why = why;
        x->same_build = found->same_build = same_build(x, found);
    }
}

na_pairs_t *na_pairs_open(const na_view_input_t *old, const na_view_input_t *new) {
    na_pairs_t *pairs = calloc(1, sizeof *pairs);
    if (pairs == NULL) return NULL;
    if (!list_modules(pairs, 0, old) || !list_modules(pairs, 1, new)) {
        na_pairs_close(pairs);
        return NULL;
    }
    pair_up(pairs, by_build, "the same build-id");
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < pairs->counts[side]; i++)
            if (pairs->sides[side][i].other == NULL)
                pairs->sides[side][i].soname = soname_of(pairs->sides[side][i].module);
    pair_up(pairs, by_soname, "the same soname");
    pair_up(pairs, same_base_name, "the same name");
    pair_up(pairs, by_role, "both are the program");
    return pairs;
}

void na_pairs_close(na_pairs_t *pairs) {
    if (pairs == NULL) return;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; pairs->sides[side] != NULL && i < pairs->counts[side]; i++) {
            free(pairs->sides[side][i].soname);
            free(pairs->sides[side][i].alone);
        }
        free(pairs->sides[side]);
    }
    free(pairs);
}

static int path_of_item(const void *key, const void *item) {
    return strcmp(key, ((const item_t *)item)->module->path);
}

void na_pairs_key(const na_pairs_t *pairs, int side, const na_function_name_t *f,
                  const char **module, const char **function) {
    const item_t *item = pairs->counts[side] == 0
                             ? NULL
                             : bsearch(f->module, pairs->sides[side], pairs->counts[side],
                                       sizeof *pairs->sides[side], path_of_item);
    *module = item == NULL ? f->module : item->key;
    *function = f->function;
    if (item == NULL || f->named) return;
    if (!item->same_build) *module = item->alone;
    const char *offset = strrchr(f->function, '+');
    if (offset != NULL) *function = offset;
}

void na_pairs_renamed(const na_pairs_t *pairs,
                      void (*say)(void *arg, const char *old, const char *new, const char *why),
                      void *arg) {
    for (size_t i = 0; i < pairs->counts[0]; i++) {
        const item_t *x = &pairs->sides[0][i];
        if (x->other != NULL && !same_base_name(x, x->other))
            say(arg, x->module->path, x->other->module->path, x->why);
    }
}
