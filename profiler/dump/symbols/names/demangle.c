/* demangle.c - readable names: libiberty's demangler or the C++ runtime's own. See demangle.h. */
#include "profiler/dump/symbols/names/demangle.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef NA_HAVE_LIBIBERTY
/* Its headers declare what libc's do, otherwise. */
#define HAVE_DECL_BASENAME 1
#include <demangle.h>
#endif

/* Longer names are left alone. */
#define LONGEST 16384

/* A readable name that grows beyond is given up: it can be exponentially longer. */
#define LONGEST_READABLE 65536

#ifdef NA_HAVE_LIBIBERTY

typedef struct readable {
    FILE *to;
    size_t size;
    jmp_buf full;
} readable_t;

/* libiberty cannot be told to stop, and holds nothing here but its stack. */
static void take_text(const char *text, size_t size, void *arg) {
    readable_t *readable = arg;
    readable->size += size;
    if (readable->size > LONGEST_READABLE) longjmp(readable->full, 1);
    (void)fwrite(text, 1, size, readable->to);
}

/* Without the return type, which is no part of a name and is spelled around it. */
static char *demangle_cxx(const char *name) {
    char *text = NULL;
    size_t size;
    readable_t readable = {.to = open_memstream(&text, &size)};
    if (readable.to == NULL) return NULL;
    volatile bool good = false;
    if (setjmp(readable.full) == 0)
        good = cplus_demangle_v3_callback(
                   name, DMGL_PARAMS | DMGL_TYPES | DMGL_RET_DROP | DMGL_NO_RECURSE_LIMIT,
                   take_text, &readable) != 0;
    if (fclose(readable.to) == 0 && good) return text;
    free(text);
    return NULL;
}

/* Rust's older names are C++ names by their form, with a checksum at their end. */
static char *demangle_rust(const char *name) {
    return rust_demangle(name, DMGL_PARAMS);
}

static char *demangle_d(const char *name) {
    return dlang_demangle(name, DMGL_PARAMS);
}

/* What it does not know comes back as <name>. */
static char *demangle_ada(const char *name) {
    char *readable = ada_demangle(name, DMGL_GNAT);
    if (readable == NULL || readable[0] != '<') return readable;
    free(readable);
    return NULL;
}

#else

typedef char *(*cxa_demangle_t)(const char *name, char *buffer, size_t *size, int *status);

static cxa_demangle_t demangler;

static void find_demangler(void) {
    static const char *const homes[] = {"libstdc++.so.6", "libc++abi.so.1"};
    for (size_t i = 0; i < sizeof homes / sizeof homes[0] && demangler == NULL; i++) {
        void *library = dlopen(homes[i], RTLD_LAZY | RTLD_LOCAL);
        if (library != NULL) demangler = (cxa_demangle_t)dlsym(library, "__cxa_demangle");
    }
}

/* Looked for when the first name comes up, so that numalloc-dump needs no C++ library. */
static char *demangle_cxx(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_demangler);
    int status = -1;
    char *readable = demangler == NULL ? NULL : demangler(name, NULL, NULL, &status);
    if (status == 0) return readable;
    free(readable);
    return NULL;
}

static char *demangle_rust(const char *name) {
    (void)name;
    return NULL;
}

static char *demangle_d(const char *name) {
    (void)name;
    return NULL;
}

static char *demangle_ada(const char *name) {
    (void)name;
    return NULL;
}

#endif

/* gfortran's procedures of modules: __module_MOD_procedure. NULL: something else. */
static char *demangle_fortran(const char *name) {
    const char *procedure = strncmp(name, "__", 2) == 0 ? strstr(name, "_MOD_") : NULL;
    char *readable = NULL;
    if (procedure == NULL || procedure == name + 1 || procedure[5] == 0 ||
        asprintf(&readable, "%.*s::%s", (int)(procedure - name - 2), name + 2, procedure + 5) < 0)
        return NULL;
    return readable;
}

/* What gcc, clang and linkers append to the names of a function's clones and parts. */
static bool is_clone_word(const char *word, size_t length) {
    static const char *const words[] = {
        "part",       "isra",   "constprop", "cold",     "warm",        "lto_priv",
        "llvm",       "__uniq", "actor",     "destroy",  "resume",      "cleanup",
        "localalias", "clone",  "default",   "resolver", "specialized",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i]) == length && strncmp(word, words[i], length) == 0) return true;
    return false;
}

/* gcc's part of a coroutine, with a frame for a parameter whose type is called by the coroutine's
 * mangled name: body(body(int)::_Z4bodyi.Frame*).actor. NULL: something else. */
static const char *coroutine(const char *name, size_t *length) {
    const char *frame = strstr(name, ".Frame");
    if (frame == NULL || strncmp(name, "_Z", 2) != 0) return NULL;
    for (const char *at = strstr(name + 2, "_Z"); at != NULL && at < frame;
         at = strstr(at + 2, "_Z")) {
        const char *digits = at;
        while (isdigit((unsigned char)digits[-1]))
            digits--;
        if (strtoul(digits, NULL, 10) != (size_t)(frame - at) + strlen(".Frame")) continue;
        *length = (size_t)(frame - at);
        return at;
    }
    return NULL;
}

static size_t plain_length(const char *name) {
    bool cxx = name[0] == '_' && name[1] == 'Z';
    for (const char *at = name[0] == 0 ? NULL : strchr(name + 1, '.'); at != NULL;
         at = strchr(at + 1, '.')) {
        /* Rust's older names have pairs of dots; no other name of C++ has any. */
        bool pair = at[1] == '.' || at[-1] == '.';
        if ((cxx && !pair) || is_clone_word(at + 1, strcspn(at + 1, ".")))
            return (size_t)(at - name);
    }
    return strlen(name);
}

const char *na_demangle_plain(const char *name, size_t *length) {
    const char *body = coroutine(name, length);
    if (body != NULL) return body;
    *length = plain_length(name);
    return name;
}

bool na_demangle_is_external(const char *name, size_t length) {
    static const char *const inner[] = {"_GLOBAL__N_", "$_", "Ul", "Ut"};
    if (strncmp(name, "_Z", 2) != 0) return false;
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++)
        if (memmem(name, length, inner[i], strlen(inner[i])) != NULL) return false;
    for (size_t i = 2; i + 1 < length; i++)
        if (name[i] == 'L' && isdigit((unsigned char)name[i + 1])) return false;
    return true;
}

/* Whether what is younger than some demanglers begins at `i`: a constraint, or the declaration of a
 * template parameter. */
static bool is_younger(const char *name, size_t i) {
    return name[i] == 'Q' || (name[i] == 'T' && name[i + 1] != 0 && strchr("yntpk", name[i + 1]));
}

/* Where the next such begins, from `i` on, that is not in an identifier. 0: there is none. */
static size_t next_younger(const char *name, size_t i) {
    size_t identifier = 0; /* where the last one ended */
    while (name[i] != 0 && !is_younger(name, i)) {
        size_t digits = strspn(name + i, "0123456789"), left = strlen(name + i);
        bool literal = i >= 2 && name[i - 2] == 'L'; /* Li200E */
        bool other = strchr("STCD", name[i - 1]) != NULL;
        bool counts = digits != 0 && (i == identifier || (!literal && !other));
        i += digits != 0 ? digits : 1;
        if (!counts) continue;
        size_t length = strtoul(name + i - digits, NULL, 10);
        identifier = i += length < left - digits ? length : left - digits;
    }
    return name[i] != 0 ? i : 0;
}

/* With (?) for the last parameters; frees `readable`. */
static char *parameters_unknown(char *readable) {
    char *unknown = NULL, *text = NULL;
    for (char *at = strstr(readable, "()"); at != NULL; at = strstr(at + 1, "()"))
        unknown = at;
    if (unknown == NULL ||
        asprintf(&text, "%.*s(?)%s", (int)(unknown - readable), readable, unknown + 2) < 0)
        text = NULL;
    free(readable);
    return text;
}

/* What stands before a constraint is the name; so are the parameters, where the constraint stands
 * behind them, and else they are not known: (?). Template arguments from a declaration on are ?,
 * and so is what lies in such a function. */
static char *demangle_younger(const char *name) {
    static const char *const closed[] = {"",      "EEv",    "EEvv",   "Evv",     "EEEv",
                                         "EEEvv", "E_clEv", "EEvE1?", "EEvvE1?", "EvvE1?"};
    char begin[LONGEST + 16];
    for (size_t at = next_younger(name, 2); at != 0; at = next_younger(name, at + 1)) {
        bool declared = name[at] == 'T';
        for (size_t i = declared; i < sizeof closed / sizeof closed[0]; i++) {
            snprintf(begin, sizeof begin, "%.*s%s%s", (int)at, name, declared ? "u1?" : "",
                     closed[i]);
            char *readable = demangle_cxx(begin);
            if (readable != NULL) return i == 0 ? readable : parameters_unknown(readable);
        }
    }
    return NULL;
}

char *na_demangle(const char *name, bool ada) {
    size_t length;
    const char *begin = na_demangle_plain(name, &length);
    char *readable = NULL, *plain = strndup(begin, length);
    if (plain == NULL || strlen(plain) > LONGEST) return plain;
    if (plain[0] == '_' && plain[1] == 'Z') {
        readable = demangle_rust(plain);
        if (readable == NULL) readable = demangle_cxx(plain);
        if (readable == NULL) readable = demangle_younger(plain);
    } else if (plain[0] == '_' && plain[1] == 'R') {
        readable = demangle_rust(plain);
    } else if (plain[0] == '_' && plain[1] == 'D') {
        readable = demangle_d(plain);
    } else if (plain[0] == '_' && plain[1] == '_') {
        readable = demangle_fortran(plain);
    }
    if (readable == NULL && ada) readable = demangle_ada(plain);
    if (readable == NULL) return plain;
    free(plain);
    return readable;
}

bool na_demangle_is_gnat(const char *name) {
    return strncmp(name, "__gnat_", 7) == 0 || strncmp(name, "_ada_", 5) == 0;
}

/* ---- parts of a readable name ---- */

#define DEEPEST 256u /* brackets in brackets */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Where the operator that begins at `i` ends: its sign, or the type it converts to; `i`: there is
 * none. What has brackets of its own ends before them. */
static size_t after_operator(const char *name, size_t i) {
    static const char *const signs[] = {
        "()", "[]", "->*", "->", "<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "<",  ">",
        "==", "!=", "&&",  "||", "++",  "--",  "+=",  "-=", "*=", "/=", "%=", "^=", "&=",
        "|=", "+",  "-",   "*",  "/",   "%",   "^",   "&",  "|",  "~",  "!",  "=",  ",",
    };
    if (strncmp(name + i, "operator", 8) != 0 || (i > 0 && is_word(name[i - 1])) ||
        is_word(name[i + 8]))
        return i;
    size_t at = i + 8;
    for (size_t k = 0; k < sizeof signs / sizeof signs[0]; k++) {
        if (strncmp(name + at, signs[k], strlen(signs[k])) != 0) continue;
        at += strlen(signs[k]);
        return at + (name[at] == ' ' && name[at + 1] == '<');
    }
    while (name[at] != 0 && strchr("(<>,", name[at]) == NULL)
        at++;
    return at;
}

/* Behind the bracket that closes the one at `i`; 0: none does. In expressions, which are in
 * signatures, < and > may be signs: behind an operand in brackets, or where no < is open. */
static size_t after_brackets(const char *name, size_t i) {
    char open[DEEPEST];
    size_t depth = 0;
    for (; name[i] != 0; i++) {
        char c = name[i], before = i > 0 ? name[i - 1] : 0;
        size_t next = after_operator(name, i);
        if (next > i) {
            i = next - 1;
            continue;
        }
        if (strchr("([{<", c) != NULL) {
            if (c == '<' && depth > 0 && before != 0 && strchr(")]}", before) != NULL) {
                i += strspn(name + i, "<=") - 1; /* (4)<(9) */
                continue;
            }
            if (depth == DEEPEST) return 0;
            open[depth++] = c;
        } else if (c == '>') {
            if (before == '-' || open[depth - 1] != '<' || (before == ')' && name[i + 1] == '='))
                continue;
            depth--;
        } else if (strchr(")]}", c) != NULL) {
            char opened = c == ')' ? '(' : c == ']' ? '[' : '{';
            while (depth > 0 && open[depth - 1] == '<' && opened != '<')
                depth--; /* a sign, after all */
            if (depth == 0 || open[--depth] != opened) return 0;
        }
        if (depth == 0) return i + 1;
    }
    return 0;
}

static bool is_anonymous(const char *name, size_t i) {
    return strncmp(name + i, "(anonymous namespace)", 21) == 0;
}

/* Where parameters end that begin at `i`, with what is said behind them; 0: nowhere. */
static size_t after_parameters(const char *name, size_t i) {
    i = after_brackets(name, i);
    if (i == 0) return 0;
    static const char *const said[] = {" const", " volatile", " &&", " &"};
    for (size_t k = 0; k < sizeof said / sizeof said[0]; k++)
        if (strncmp(name + i, said[k], strlen(said[k])) == 0) i += strlen(said[k]);
    return i;
}

/* Behind the * of "(*" or "(type::*", which stands around the name of a function that returns a
 * pointer to one, where its return type is spelled; 0: these are parameters. */
static size_t after_pointer(const char *name, size_t i) {
    size_t at = i + 1;
    while (is_word(name[at]) || name[at] == ':')
        at++;
    if ((name[at] != '*' && name[at] != '&') || (at != i + 1 && name[at - 1] != ':')) return 0;
    at++;
    return is_word(name[at]) ? at : 0;
}

/* The part of a demangled name that is the name: without return type, up to the parameters. Those
 * of a function in which another lies ("f(int)::{lambda()#1}::operator()") are in it. */
static void name_range(const char *name, size_t *begin, size_t *end) {
    size_t length = strlen(name), start = 0, i = 0, sign = 0;
    *begin = 0; /* no parameters: a C name, or one without a return type */
    *end = length;
    while (i < length) {
        char c = name[i];
        size_t next = after_operator(name, i);
        if (next > i) {
            sign = name[next - 1] == ' ' ? next - 1 : 0; /* "operator<< <int>(int)": <int> is not */
            i = next;
        } else if (c == '(' && !is_anonymous(name, i)) {
            bool expression = i >= 9 && strncmp(name + i - 9, "decltype ", 9) == 0;
            size_t inner = after_pointer(name, i);
            if (!expression && inner != 0) {
                start = i = inner;
                continue;
            }
            size_t after = expression ? after_brackets(name, i) : after_parameters(name, i);
            if (!expression && (after == 0 || strncmp(name + after, "::", 2) != 0)) {
                *begin = start;
                *end = sign != 0 ? sign : i;
                return;
            }
            if (after == 0) return;
            i = after;
            sign = 0;
        } else if (c == '(' || c == '<' || c == '{' || c == '[') {
            size_t after = after_brackets(name, i);
            if (after == 0) return;
            i = after;
        } else {
            if (c == ' ') start = i + 1;
            i++;
        }
    }
}

/* Template arguments, and parameters, become <...> and (...). `out` has room for three times the
 * name. Returns its length. */
static size_t fold_name(const char *name, size_t begin, size_t end, bool all, char *out) {
    size_t at = 0;
    bool balanced = true;
    for (size_t i = begin; i < end;) {
        size_t next = after_operator(name, i), after = 0;
        bool arguments = name[i] == '<', parameters = name[i] == '(' && !is_anonymous(name, i);
        if (next == i && balanced && (arguments || parameters)) {
            after = after_brackets(name, i);
            balanced = after != 0 && after <= end; /* each is looked at once */
        }
        if (next > i) {
            memcpy(out + at, name + i, next - i);
            at += next - i;
            i = next;
        } else if (arguments && balanced && !all && i == begin) {
            /* Rust's "<Type as Trait>::method": what is in the first brackets is the name. */
            out[at++] = '<';
            at += fold_name(name, i + 1, after - 1, true, out + at);
            out[at++] = '>';
            i = after;
        } else if (after != 0 && balanced && (arguments || after > i + 2)) {
            at += (size_t)sprintf(out + at, arguments ? "<...>" : "(...)");
            i = after;
        } else {
            out[at++] = name[i++];
        }
    }
    return at;
}

/* Where the function's own name begins, behind what it lies in. */
static size_t own_part(const char *name, size_t length) {
    size_t own = 0;
    for (size_t i = 0; i < length;) {
        size_t next = after_operator(name, i);
        if (next == i && strchr("<({[", name[i]) != NULL) next = after_brackets(name, i);
        if (next > i) {
            i = next;
            continue;
        }
        if (next < i) break; /* not balanced */
        /* "fold::<u8>" is Rust's fold */
        if (name[i] == ':' && name[i + 1] == ':' && name[i + 2] != '<') own = i + 2;
        i++;
    }
    return own;
}

bool na_demangle_is_bare(const char *name) {
    size_t begin, end;
    if (strncmp(name, NA_DEMANGLE_UNKNOWN, strlen(NA_DEMANGLE_UNKNOWN)) == 0)
        name += strlen(NA_DEMANGLE_UNKNOWN);
    name_range(name, &begin, &end);
    return begin == 0 && name[end] == 0 && own_part(name, end) == 0;
}

bool na_demangle_is_of(const char *name, const char *plain) {
    size_t begin, end;
    name_range(name, &begin, &end);
    const char *own = name + begin + own_part(name + begin, end - begin);
    size_t size = after_operator(plain, 0);
    /* Types that are converted to are spelled in several ways. */
    if (strncmp(plain, "operator ", 9) == 0) return strncmp(own, plain, 9) == 0;
    if (strncmp(plain, "operator\"\"", 10) == 0) /* "operator"" _x": with a space or not */
        return strncmp(own, plain, 10) == 0 &&
               na_demangle_is_of(own + 10 + strspn(own + 10, " "),
                                 plain + 10 + strspn(plain + 10, " "));
    if (size == 0) size = strcspn(plain, "<");
    return size != 0 && strncmp(own, plain, size) == 0 && !is_word(own[size]);
}

/* Between characters of UTF-8, at or before `at`. */
static size_t whole_character(const char *name, size_t at) {
    while (at > 0 && ((unsigned char)name[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* Cuts what has no room in the middle: of what the function lies in, if its own name has room. */
static void put_middle(const char *name, size_t length, char *out, size_t size) {
    size_t room = size - 1 - 3, own = length - own_part(name, length);
    size_t tail = own < room ? own : room / 2;
    size_t from = whole_character(name, length - tail);
    if (length - from > room) from = length;
    size_t head = whole_character(name, room - (length - from));
    snprintf(out, size, "%.*s...%.*s", (int)head, name, (int)(length - from), name + from);
}

void na_demangle_short(const char *name, size_t limit, char *out, size_t size) {
    size_t begin, end;
    name_range(name, &begin, &end);
    char *folded = end - begin > limit ? malloc(3 * (end - begin) + 8) : NULL;
    size_t length = end - begin;
    if (folded != NULL) length = fold_name(name, begin, end, limit == 0, folded);
    const char *from = folded != NULL ? folded : name + begin;
    if (folded != NULL) folded[length] = 0;
    if (length < size)
        snprintf(out, size, "%.*s", (int)length, from);
    else
        put_middle(from, length, out, size);
    free(folded);
}

static bool begins_with_any(const char *name, const char *const *prefixes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return false;
}

/* Whether a Rust type is the standard library's or the language's own: not a path into a crate. */
static bool is_rust_own(const char *type, size_t length) {
    static const char *const crates[] = {"alloc::", "core::", "std::", "hashbrown::"};
    while (length != 0 && strchr("&*[( ", type[0]) != NULL) {
        type++;
        length--;
    }
    if (begins_with_any(type, crates, sizeof crates / sizeof crates[0])) return true;
    for (size_t i = 0; i < length && type[i] != '<'; i++) {
        if (type[i] == ':') return false;
    }
    return true;
}

/* "<Type as Trait>::method" or "<Type>::method", of the standard library if Type and Trait are. */
static bool is_rust_runtime(const char *name) {
    size_t trait = 0, end = 0;
    int depth = 0;
    for (size_t i = 0; name[i] != 0 && end == 0; i++) {
        if (name[i] == '<')
            depth++;
        else if (name[i] == '>' && name[i - 1] != '-' && --depth == 0) /* no arrow */
            end = i;
        else if (depth == 1 && strncmp(name + i, " as ", 4) == 0)
            trait = i;
    }
    if (end == 0) return false;
    return is_rust_own(name + 1, (trait != 0 ? trait : end) - 1) &&
           (trait == 0 || is_rust_own(name + trait + 4, end - trait - 4));
}

bool na_demangle_is_runtime(const char *name) {
    size_t begin, end;
    name_range(name, &begin, &end);
    static const char *const prefixes[] = {
        "operator new", "std::", "__gnu_cxx::", "__cxxabiv1::",           "__rust_",
        "__rdl_",       "__rg_", "__gnat_",     "<signal handler called>"};
    if (begins_with_any(name + begin, prefixes, sizeof prefixes / sizeof prefixes[0])) return true;
    /* Rust's names have no parameters, C++'s always have. */
    static const char *const crates[] = {"alloc::", "core::", "hashbrown::"};
    if (name[end] != 0) return false;
    return begins_with_any(name, crates, sizeof crates / sizeof crates[0]) ||
           (name[0] == '<' && is_rust_runtime(name));
}
