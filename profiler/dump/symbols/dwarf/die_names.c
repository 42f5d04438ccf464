/* die_names.c - names from DIEs. See die_names.h. */
#include "profiler/dump/symbols/dwarf/die_names.h"

#include <dwarf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/index.h"
#include "profiler/dump/symbols/names/demangle.h"

/* Scopes in scopes and types of types; damaged DWARF may lead in circles. */
#define DEEPEST 24u

/* A name longer than this is cut: parameters may be of types of types. */
#define LONGEST 16384

typedef struct writer {
    na_scopes_t *scopes;
    FILE *to;
    int language; /* of the function */
    uint32_t depth;
} writer_t;

static int language_of(Dwarf_Die *die) {
    Dwarf_Die cu;
    if (dwarf_diecu(die, &cu, NULL, NULL) == NULL) return 0;
    return dwarf_srclang(&cu);
}

static bool is_ada(int language) {
    /* Ada 2005, Ada 2012: younger than some versions of dwarf.h */
    return language == DW_LANG_Ada83 || language == DW_LANG_Ada95 || language == 0x2e ||
           language == 0x2f;
}

static bool is_cxx(int language) {
    return language == DW_LANG_C_plus_plus || language == DW_LANG_ObjC_plus_plus ||
           language == 0x19 /* 03 */ || language == 0x1a /* 11 */ || language == 0x21 /* 14 */ ||
           language == 0x2a /* 17 */ || language == 0x2b /* 20 */;
}

/* C has functions in functions only as an extension, and calls them by their own name. */
static bool is_c(int language) {
    return language == DW_LANG_C || language == DW_LANG_C89 || language == DW_LANG_C99 ||
           language == DW_LANG_C11 || language == 0x2c /* 17 */ || language == DW_LANG_ObjC;
}

/* A new string: the name that linkers know, made readable. NULL: there is none, or none that can be
 * read. */
static char *linkage_name(Dwarf_Die *die, int language) {
    Dwarf_Attribute memory;
    static const unsigned names[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name};
    for (size_t i = 0; i < 2; i++) {
        Dwarf_Attribute *attribute = dwarf_attr_integrate(die, names[i], &memory);
        const char *name = attribute == NULL ? NULL : dwarf_formstring(attribute);
        if (name == NULL) continue;
        char *readable = na_demangle(name, is_ada(language));
        bool known = readable != NULL && strncmp(readable, "_Z", 2) != 0 &&
                     strstr(readable, "(?)") == NULL; /* debug information knows it all */
        if (readable == NULL || known) return readable;
        free(readable);
    }
    return NULL;
}

static bool flag(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute memory;
    bool set = false;
    return dwarf_attr_integrate(die, name, &memory) != NULL && dwarf_formflag(&memory, &set) == 0 &&
           set;
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *type) {
    Dwarf_Attribute memory;
    return dwarf_attr_integrate(die, DW_AT_type, &memory) != NULL &&
           dwarf_formref_die(&memory, type) != NULL;
}

static void write_type(writer_t *w, Dwarf_Die *die);
static void write_name(writer_t *w, Dwarf_Die *die);

/* ---- parameters ---- */

/* gcc's words for the types of the language become those of demanglers, in template arguments,
 * too. */
static void put_words(writer_t *w, const char *name) {
    static const char *const words[][2] = {
        {"long long unsigned int", "unsigned long long"}, {"long long int", "long long"},
        {"long unsigned int", "unsigned long"},           {"long int", "long"},
        {"short unsigned int", "unsigned short"},         {"short int", "short"},
    };
    for (const char *at = name; *at != 0;) {
        size_t i = 0, count = sizeof words / sizeof words[0], length = 0;
        bool begins = at == name || strchr("<( ,", at[-1]) != NULL;
        for (; begins && i < count; i++) {
            length = strlen(words[i][0]);
            if (strncmp(at, words[i][0], length) == 0) break;
        }
        if (begins && i < count) {
            fputs(words[i][1], w->to);
            at += length;
        } else {
            putc(*at++, w->to);
        }
    }
}

static void write_parameter(writer_t *w, Dwarf_Die *die, bool *first) {
    Dwarf_Die type;
    if (flag(die, DW_AT_artificial)) return; /* this */
    if (!*first) fputs(", ", w->to);
    *first = false;
    if (type_of(die, &type)) write_type(w, &type);
}

static void write_parameters(writer_t *w, Dwarf_Die *function) {
    Dwarf_Die child, part;
    bool first = true;
    putc('(', w->to);
    if (dwarf_child(function, &child) == 0) {
        do {
            switch (dwarf_tag(&child)) {
            case DW_TAG_formal_parameter:
                write_parameter(w, &child, &first);
                break;
            case DW_TAG_GNU_formal_parameter_pack:
                if (dwarf_child(&child, &part) != 0) break;
                do
                    write_parameter(w, &part, &first);
                while (dwarf_siblingof(&part, &part) == 0);
                break;
            case DW_TAG_unspecified_parameters:
                fputs(first ? "..." : ", ...", w->to);
                first = false;
                break;
            default:
                break;
            }
        } while (dwarf_siblingof(&child, &child) == 0 && ftell(w->to) < LONGEST);
    }
    putc(')', w->to);
}

/* What a type is written behind: of a function or an array, pointers to it lie in brackets. */
static void write_behind(writer_t *w, Dwarf_Die *type, const char *sign) {
    int tag = dwarf_tag(type);
    Dwarf_Die result, child;
    if (tag != DW_TAG_subroutine_type && tag != DW_TAG_array_type) {
        write_type(w, type);
        fputs(sign, w->to);
        return;
    }
    if (type_of(type, &result))
        write_type(w, &result);
    else
        fputs("void", w->to);
    fprintf(w->to, " (%s)", sign);
    if (tag == DW_TAG_subroutine_type) {
        write_parameters(w, type);
        return;
    }
    if (dwarf_child(type, &child) != 0) return;
    Dwarf_Attribute memory;
    Dwarf_Word bound;
    if (dwarf_attr(&child, DW_AT_count, &memory) != NULL && dwarf_formudata(&memory, &bound) == 0)
        fprintf(w->to, " [%llu]", (unsigned long long)bound);
    else if (dwarf_attr(&child, DW_AT_upper_bound, &memory) != NULL &&
             dwarf_formudata(&memory, &bound) == 0)
        fprintf(w->to, " [%llu]", (unsigned long long)bound + 1);
    else
        fputs(" []", w->to);
}

static void write_type_in(writer_t *w, Dwarf_Die *die) {
    static const struct {
        int tag;
        const char *sign;
    } signs[] = {
        {DW_TAG_pointer_type, "*"},           {DW_TAG_reference_type, "&"},
        {DW_TAG_rvalue_reference_type, "&&"}, {DW_TAG_const_type, " const"},
        {DW_TAG_volatile_type, " volatile"},  {DW_TAG_typedef, ""},
        {DW_TAG_restrict_type, ""},           {DW_TAG_atomic_type, " _Atomic"},
    };
    Dwarf_Die type;
    int tag = dwarf_tag(die);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (tag != signs[i].tag) continue;
        if (type_of(die, &type)) {
            write_behind(w, &type, signs[i].sign);
        } else if (tag != DW_TAG_typedef) {
            fprintf(w->to, "void%s", signs[i].sign);
        } else {
            const char *name = dwarf_diename(die);
            if (name != NULL) fputs(name, w->to);
        }
        return;
    }
    if (tag == DW_TAG_subroutine_type || tag == DW_TAG_array_type) {
        write_behind(w, die, "");
    } else if (tag == DW_TAG_base_type || tag == DW_TAG_unspecified_type) {
        const char *name = dwarf_diename(die);
        if (name != NULL) put_words(w, name);
    } else {
        write_name(w, die);
    }
}

static void write_type(writer_t *w, Dwarf_Die *die) {
    if (w->depth >= DEEPEST || ftell(w->to) >= LONGEST) return;
    w->depth++;
    write_type_in(w, die);
    w->depth--;
}

/* ---- what has no name ---- */

static bool member_of(Dwarf_Die *type, const char *name, Dwarf_Die *member) {
    if (dwarf_child(type, member) != 0) return false;
    do {
        const char *its = dwarf_diename(member);
        if (dwarf_tag(member) == DW_TAG_subprogram && its != NULL &&
            strncmp(its, name, strlen(name)) == 0)
            return true;
    } while (dwarf_siblingof(member, member) == 0);
    return false;
}

static char *lambda_parameters(writer_t *w, Dwarf_Die *type) {
    char *text = NULL;
    size_t size;
    Dwarf_Die member;
    writer_t inner = {w->scopes, open_memstream(&text, &size), w->language, w->depth};
    if (inner.to == NULL) return NULL;
    if (member_of(type, "operator()", &member)) write_parameters(&inner, &member);
    if (fclose(inner.to) == 0) return text;
    free(text);
    return NULL;
}

/* Before: -1, behind: 1. */
static int order_in_source(Dwarf_Die *a, Dwarf_Die *b) {
    int x = 0, y = 0;
    if (dwarf_decl_line(a, &x) == 0 && dwarf_decl_line(b, &y) == 0 && x != y) return x < y ? -1 : 1;
    if (dwarf_decl_column(a, &x) == 0 && dwarf_decl_column(b, &y) == 0 && x != y)
        return x < y ? -1 : 1;
    return (a->addr > b->addr) - (a->addr < b->addr);
}

/* Numbered as compilers do: those of one place and of the same parameters, by their order. */
static void write_lambda(writer_t *w, Dwarf_Die *type) {
    char *own = lambda_parameters(w, type);
    unsigned number = 1;
    Dwarf_Die other = {.addr = NULL};
    while (own != NULL && na_scopes_next_sibling(w->scopes, type, &other)) {
        if (order_in_source(&other, type) >= 0) continue;
        char *its = lambda_parameters(w, &other);
        number += its != NULL && strcmp(own, its) == 0;
        free(its);
    }
    fprintf(w->to, "{lambda%s#%u}", own == NULL ? "()" : own, number);
    free(own);
}

static void write_unnamed_type(writer_t *w, Dwarf_Die *type) {
    unsigned number = 1;
    Dwarf_Die other = {.addr = NULL};
    if (na_scopes_is_lambda(w->scopes, type)) {
        write_lambda(w, type);
        return;
    }
    while (na_scopes_next_sibling(w->scopes, type, &other)) {
        int tag = dwarf_tag(&other);
        number += (tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
                   tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type) &&
                  dwarf_diename(&other) == NULL && order_in_source(&other, type) < 0;
    }
    fprintf(w->to, "{unnamed type#%u}", number);
}

/* ---- names ---- */

static bool is_const_member(Dwarf_Die *function) {
    Dwarf_Die child, type;
    if (dwarf_child(function, &child) != 0) return false;
    do {
        if (dwarf_tag(&child) != DW_TAG_formal_parameter) continue;
        if (!flag(&child, DW_AT_artificial) || !type_of(&child, &type)) return false;
        while (dwarf_tag(&type) == DW_TAG_const_type && type_of(&type, &type))
            continue;
        return dwarf_tag(&type) == DW_TAG_pointer_type && type_of(&type, &type) &&
               dwarf_tag(&type) == DW_TAG_const_type;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

/* What a DIE lies in, outermost first, each with its "::". False: nothing. */
static bool write_scope(writer_t *w, Dwarf_Die *die) {
    Dwarf_Die parent;
    if (w->depth >= DEEPEST || !na_scopes_parent(w->scopes, die, &parent)) return false;
    w->depth++;
    write_name(w, &parent);
    w->depth--;
    fputs("::", w->to);
    return true;
}

/* extern "C", and main: others that every file can call have a linkage name. */
static bool is_c_function(writer_t *w, Dwarf_Die *die, Dwarf_Die *root) {
    Dwarf_Die parent;
    Dwarf_Attribute memory;
    return flag(die, DW_AT_external) &&
           dwarf_attr_integrate(die, DW_AT_linkage_name, &memory) == NULL &&
           (!na_scopes_parent(w->scopes, root, &parent) || dwarf_tag(&parent) == DW_TAG_namespace);
}

/* A type that is described in a unit of its own (-fdebug-types-section) has its name there. */
static const char *own_name(Dwarf_Die *die) {
    Dwarf_Attribute memory;
    Dwarf_Die type;
    const char *name = dwarf_diename(die);
    if (name != NULL || dwarf_attr(die, DW_AT_signature, &memory) == NULL ||
        dwarf_formref_die(&memory, &type) == NULL)
        return name;
    return dwarf_diename(&type);
}

static void write_name(writer_t *w, Dwarf_Die *die) {
    Dwarf_Die root = na_scopes_root(die);
    int tag = dwarf_tag(&root);
    char *readable = tag == DW_TAG_subprogram ? linkage_name(die, w->language) : NULL;
    if (readable != NULL) {
        fputs(readable, w->to);
        free(readable);
        return;
    }
    const char *name = own_name(&root);
    if (tag == DW_TAG_subprogram && name != NULL && is_c_function(w, die, &root)) {
        fputs(name, w->to);
        return;
    }
    (void)write_scope(w, &root);
    if (name != NULL)
        put_words(w, name);
    else if (tag == DW_TAG_namespace)
        fputs("(anonymous namespace)", w->to);
    else
        write_unnamed_type(w, &root);
    if (tag != DW_TAG_subprogram || !is_cxx(w->language) || !na_scopes_typed(w->scopes, &root))
        return;
    write_parameters(w, &root);
    if (is_const_member(&root)) fputs(" const", w->to);
    if (flag(&root, DW_AT_reference)) fputs(" &", w->to);
    if (flag(&root, DW_AT_rvalue_reference)) fputs(" &&", w->to);
}

char *na_die_name(na_scopes_t *scopes, Dwarf_Die *function, bool *whole) {
    const char *name = dwarf_diename(function);
    int language = language_of(function);
    char *linkage = linkage_name(function, language);
    *whole = true;
    if (linkage != NULL) return linkage;
    if (name == NULL) return NULL;
    /* Ada's plain names are what others call linkage names. */
    if (is_ada(language)) return na_demangle(name, true);
    if (is_c(language)) return strdup(name);
    char *text = NULL;
    size_t size;
    writer_t writer = {scopes, open_memstream(&text, &size), language, 0};
    if (writer.to == NULL) return NULL;
    Dwarf_Die root = na_scopes_root(function), parent;
    *whole = na_scopes_parent(scopes, &root, &parent) || !is_cxx(language) ||
             is_c_function(&writer, function, &root);
    write_name(&writer, function);
    if (fclose(writer.to) == 0) return text;
    free(text);
    return NULL;
}

/* ---- where it is defined ---- */

const char *na_die_directory(Dwarf_Die *die) {
    Dwarf_Die cu;
    Dwarf_Attribute memory;
    if (dwarf_diecu(die, &cu, NULL, NULL) == NULL) return NULL;
    return dwarf_formstring(dwarf_attr(&cu, DW_AT_comp_dir, &memory));
}

static na_home_t declared_at(Dwarf_Die *die) {
    na_home_t home = {NULL, 0, 0};
    Dwarf_Attribute memory;
    Dwarf_Word index;
    Dwarf_Half version;
    Dwarf_Die cu;
    Dwarf_Files *files;
    size_t count;
    int line = 0;
    /* Not dwarf_decl_file: to that, file 0 is none, but from DWARF 5 on it is the unit's own. */
    if (dwarf_attr_integrate(die, DW_AT_decl_file, &memory) == NULL ||
        dwarf_formudata(&memory, &index) != 0 ||
        dwarf_cu_die(memory.cu, &cu, &version, NULL, NULL, NULL, NULL, NULL) == NULL ||
        (version < 5 && index == 0) || dwarf_getsrcfiles(&cu, &files, &count) != 0 ||
        index >= count)
        return home;
    home.file = dwarf_filesrc(files, index, NULL, NULL);
    if (home.file != NULL && dwarf_decl_line(die, &line) == 0 && line > 0)
        home.line = (uint32_t)line;
    return home;
}

/* One spelling for each path: the same header is reached by several. False: it is too long. */
static bool plain_path(const char *directory, const char *file, char out[PATH_MAX]) {
    char path[PATH_MAX];
    const char *front = file[0] == '/' || directory == NULL ? "" : directory;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", front, file) >= sizeof path) return false;
    size_t at = 0;
    char *rest = NULL;
    for (char *part = strtok_r(path, "/", &rest); part != NULL; part = strtok_r(NULL, "/", &rest)) {
        if (strcmp(part, ".") == 0) continue;
        if (strcmp(part, "..") == 0) {
            while (at > 0 && out[--at] != '/')
                continue;
            continue;
        }
        out[at++] = '/';
        memcpy(out + at, part, strlen(part));
        at += strlen(part);
    }
    out[at] = 0;
    return true;
}

/* Functions that only their file can call are told apart by its path, and where that is not known
 * by themselves: one root is one function. */
static uint32_t tell_apart(Dwarf_Die *function, const Dwarf_Die *root, const na_home_t *home) {
    char path[PATH_MAX];
    if (flag(function, DW_AT_external)) return 0;
    uint64_t hash = NA_HASH_BEGIN;
    if (home->file != NULL && plain_path(na_die_directory(function), home->file, path)) {
        hash = na_hash_text(hash, path);
    } else {
        Dwarf_Die copy = *root;
        hash = na_hash_number(hash, dwarf_dieoffset(&copy));
    }
    return (uint32_t)(hash >> 32) | 1u;
}

na_home_t na_die_home(na_scopes_t *scopes, Dwarf_Die *function) {
    na_home_t home = declared_at(function);
    Dwarf_Die root = na_scopes_root(function), type;
    /* A lambda's operator() may have no place of its own, but its type has one. */
    if (home.file == NULL && na_scopes_parent(scopes, &root, &type) &&
        na_scopes_is_lambda(scopes, &type))
        home = declared_at(&type);
    home.apart = tell_apart(function, &root, &home);
    return home;
}
