/* source_target.c - finds the call in its statement, and walks from it to the left. See
 * source_target.h.
 *
 * No parser of C++: what is not understood has no name. A cast is passed over, and so is a function
 * whose only argument the call is, for most such hand on what they get: in `p = check(malloc(n))`
 * it is p. */
#include "profiler/dump/source/source_target.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST_CALLS 16u
#define LONGEST    60u /* names */
#define NONE       SIZE_MAX

/* ---- characters ---- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80) != 0;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static void blank(char *from, char *to) {
    for (; from < to; from++)
        if (*from != '\n') *from = ' ';
}

/* Comments and lines of the preprocessor become spaces, and what literals hold. */
static void strip(char *text) {
    char *end = strstr(text, "*/"), *begin = strstr(text, "/*");
    if (end != NULL && (begin == NULL || end < begin)) blank(text, end + 2);
    bool at_start = true;
    for (char *p = text; *p != 0;) {
        char *from = p;
        if (p[0] == '/' && p[1] == '/') {
            while (*p != 0 && *p != '\n')
                p++;
            blank(from, p);
        } else if (p[0] == '/' && p[1] == '*') {
            p = strstr(p + 2, "*/");
            p = p == NULL ? from + strlen(from) : p + 2;
            blank(from, p);
        } else if (*p == '#' && at_start) {
            while (*p != 0 && !(*p == '\n' && p[-1] != '\\'))
                p++;
            blank(from, p);
        } else if (*p == '"' || (*p == '\'' && (p == text || !is_word(p[-1])))) {
            for (p++; *p != 0 && *p != *from && *p != '\n'; p++)
                if (*p == '\\' && p[1] != 0) p++;
            for (char *q = from + 1; q < p; q++)
                if (*q != '\n') *q = '0';
            if (*p == *from) p++;
        } else {
            p++;
        }
        if (*from == '\n')
            at_start = true;
        else if (!is_space(*from))
            at_start = false;
    }
}

/* The last place before `at` that is no space; NONE: there is none. */
static size_t text_before(const char *text, size_t at) {
    while (at > 0 && is_space(text[at - 1]))
        at--;
    return at == 0 ? NONE : at - 1;
}

static size_t text_after(const char *text, size_t at) {
    while (is_space(text[at]))
        at++;
    return at;
}

/* The opening bracket of the closing one at `at`; NONE: it is none, or not there. */
static size_t opening_bracket(const char *text, size_t at) {
    int depth = 0;
    for (size_t i = at + 1; i-- > 0;) {
        if (text[i] == ')' || text[i] == ']' || text[i] == '}') depth++;
        if (text[i] == '(' || text[i] == '[' || text[i] == '{') depth--;
        if (depth == 0) return i;
        if (text[i] == ';') return NONE;
    }
    return NONE;
}

static size_t closing(const char *text, size_t at) {
    int depth = 0;
    for (size_t i = at; text[i] != 0; i++) {
        if (text[i] == '(' || text[i] == '[' || text[i] == '{') depth++;
        if (text[i] == ')' || text[i] == ']' || text[i] == '}') depth--;
        if (depth == 0) return i;
    }
    return NONE;
}

/* The same for the < of template arguments: a > of an arrow is none. */
static size_t opening_angle(const char *text, size_t at) {
    int depth = 0;
    for (size_t i = at + 1; i-- > 0;) {
        if (text[i] == '>' && !(i > 0 && text[i - 1] == '-')) depth++;
        if (text[i] == '<') depth--;
        if (depth == 0) return i;
        if (strchr(";{}=", text[i]) != NULL) return NONE;
    }
    return NONE;
}

static size_t closing_angle(const char *text, size_t at) {
    int depth = 0;
    for (size_t i = at; text[i] != 0; i++) {
        if (text[i] == '<') depth++;
        if (text[i] == '>' && text[i - 1] != '-') depth--;
        if (depth == 0) return i;
        if (strchr(";{}", text[i]) != NULL) return NONE;
    }
    return NONE;
}

/* Where the word begins that ends at `at`. */
static size_t word_begin(const char *text, size_t at) {
    while (at > 0 && is_word(text[at - 1]))
        at--;
    return at;
}

static bool word_is(const char *text, size_t begin, size_t end, const char *const *words) {
    for (; *words != NULL; words++)
        if (strlen(*words) == end - begin && memcmp(text + begin, *words, end - begin) == 0)
            return true;
    return false;
}

/* No names of functions, types or variables. */
static const char *const keywords[] = {
    "if",       "else",    "for",     "while",     "do",       "switch",        "case",
    "return",   "sizeof",  "alignof", "_Alignof",  "typeof",   "__typeof__",    "decltype",
    "throw",    "catch",   "delete",  "co_return", "co_await", "co_yield",      "goto",
    "noexcept", "default", "new",     "and",       "or",       "not",           "static_assert",
    "alignas",  "typeid",  "assert",  "defined",   "using",    "__attribute__", NULL};

static bool keyword(const char *text, size_t begin, size_t end) {
    return word_is(text, begin, end, keywords);
}

/* Is the word that ends at `at` (inclusive) this one? */
static bool ends_with(const char *text, size_t at, const char *word) {
    const char *const words[] = {word, NULL};
    return at != NONE && is_word(text[at]) && word_is(text, word_begin(text, at), at + 1, words);
}

/* ---- names ---- */

/* "s->table[i]" that ends before `end`; where it begins, or NONE. */
static size_t variable_begin(const char *text, size_t end) {
    size_t at = text_before(text, end), begin = NONE;
    while (at != NONE) {
        if (text[at] == ']' || text[at] == ')') {
            bool group = text[at] == ')';
            size_t open = opening_bracket(text, at);
            if (open == NONE) return NONE;
            begin = open;
            at = text_before(text, open);
            if (at != NONE && (is_word(text[at]) || text[at] == ']' || text[at] == ')') &&
                !(is_word(text[at]) && keyword(text, word_begin(text, at), at + 1)))
                continue; /* indexed, or called */
            if (!group) return NONE;
        } else if (is_word(text[at])) {
            size_t word = word_begin(text, at);
            if (keyword(text, word, at + 1)) return begin;
            begin = word;
            at = text_before(text, word);
        } else {
            return begin;
        }
        if (at == NONE) break;
        if (text[at] == '.')
            at = text_before(text, at);
        else if (at > 0 && ((text[at] == '>' && text[at - 1] == '-') ||
                            (text[at] == ':' && text[at - 1] == ':')))
            at = text_before(text, at - 1);
        else
            break;
    }
    return begin;
}

/* Is what comes before the word at `begin` a type, so that it declares it? */
static bool declares(const char *text, size_t begin) {
    size_t at = text_before(text, begin);
    while (at != NONE && (text[at] == '*' || text[at] == '&'))
        at = text_before(text, at);
    if (at == NONE) return false;
    if (text[at] == '>') {
        size_t open = at > 0 && text[at - 1] == '-' ? NONE : opening_angle(text, at);
        return open != NONE && open > 0 && is_word(text[open - 1]);
    }
    return is_word(text[at]) && !isdigit((unsigned char)text[word_begin(text, at)]) &&
           !keyword(text, word_begin(text, at), at + 1);
}

/* Writes a name without what separates its words. False: it is none. */
static bool write_name(const char *text, size_t begin, size_t end, char *out, size_t size) {
    size_t used = 0;
    size_t room = size - 1 < LONGEST ? size - 1 : LONGEST;
    if (begin == NONE || begin >= end || isdigit((unsigned char)text[begin])) return false;
    for (size_t i = begin; i < end; i++) {
        bool separates = is_space(text[i]) && used > 0 && is_word(out[used - 1]) &&
                         is_word(text[text_after(text, i)]);
        if (is_space(text[i]) && !separates) continue;
        if (separates && out[used - 1] == ' ') continue;
        if (used == room) {
            memcpy(out + used - 3, "...", 3);
            break;
        }
        out[used++] = is_space(text[i]) ? ' ' : text[i];
    }
    out[used] = 0;
    return used > 0;
}

/* Does the statement begin with a type, as `int *a, *b` does? */
static bool is_declaration(const char *text, size_t at) {
    while (at > 0 && strchr(";{}", text[at - 1]) == NULL)
        at--;
    size_t begin = text_after(text, at), end = begin;
    while (is_word(text[end]))
        end++;
    size_t next = text_after(text, end);
    return end > begin && !keyword(text, begin, end) &&
           (is_word(text[next]) || text[next] == '*' || text[next] == '<');
}

/* What stands left of the = at `at`. */
static bool assigned(const char *text, size_t at, char *out, size_t size) {
    size_t begin = variable_begin(text, at), end = text_before(text, at);
    if (begin == NONE || end == NONE) return false;
    /* A star that follows a type declares, others go to what is pointed to. */
    size_t star = text_before(text, begin);
    if (star != NONE && text[star] == '*') {
        size_t first = star, type = text_before(text, star);
        while (type != NONE && text[type] == '*') {
            first = type;
            type = text_before(text, type);
        }
        bool goes = type == NONE || strchr(";{}(,?:=&|", text[type]) != NULL ||
                    (is_word(text[type]) && keyword(text, word_begin(text, type), type + 1));
        if (text[type == NONE ? 0 : type] == ')') { /* of if (...) or a cast */
            size_t open = opening_bracket(text, type),
                   word = open == NONE ? NONE : text_before(text, open);
            goes = word != NONE && is_word(text[word]) &&
                   keyword(text, word_begin(text, word), word + 1);
        }
        if (goes && type != NONE && text[type] == ',') goes = !is_declaration(text, type);
        if (goes) begin = first;
    }
    return write_name(text, begin, end + 1, out, size);
}

/* ---- from the call to the left ---- */

/* Where an expression with a function's name at `begin` begins: "std::", "pool->". */
static size_t call_begin(const char *text, size_t begin) {
    for (;;) {
        size_t at = text_before(text, begin);
        if (at == NONE || at == 0) return begin;
        size_t object;
        if (text[at] == '.')
            object = text_before(text, at);
        else if ((text[at] == '>' && text[at - 1] == '-') ||
                 (text[at] == ':' && text[at - 1] == ':'))
            object = text_before(text, at - 1);
        else
            return begin;
        if (object == NONE || strchr(";{}(,=?", text[object]) != NULL)
            return text[at] == ':' ? at - 1 : begin; /* ::malloc */
        if (text[object] == '>') {
            size_t open = opening_angle(text, object);
            if (open == NONE || open == 0) return begin;
            begin = word_begin(text, open);
        } else {
            size_t from = variable_begin(text, object + 1);
            if (from == NONE || from >= begin) return begin;
            begin = from;
        }
    }
}

/* A = that assigns, and does not compare or add. */
static bool assigns(const char *text, size_t at) {
    return text[at] == '=' && text[at + 1] != '=' &&
           (at == 0 || strchr("=!<>+-*/%&|^", text[at - 1]) == NULL);
}

/* Past the condition of a ?: to the = before it; NONE: there is none. */
static size_t before_condition(const char *text, size_t at) {
    while (at != NONE) {
        if (assigns(text, at)) return at;
        if (strchr(";{}(,[", text[at]) != NULL) return NONE;
        if (text[at] == ')' || text[at] == ']') {
            at = opening_bracket(text, at);
            if (at == NONE) return NONE;
        }
        if (at == 0) return NONE;
        at--;
    }
    return NONE;
}

/* In parentheses of their own, is it a type? */
static bool is_cast(const char *text, size_t open, size_t close) {
    size_t at = text_before(text, open);
    if (at != NONE && text[at] == ')') { /* another one, or a call's arguments */
        size_t other = opening_bracket(text, at);
        if (other == NONE || !is_cast(text, other, at)) return false;
    } else if (at != NONE && (is_word(text[at]) || text[at] == ']' || text[at] == '>') &&
               !ends_with(text, at, "return")) {
        return false;
    }
    bool word = false;
    for (size_t i = open + 1; i < close; i++) {
        if (!is_word(text[i]) && !is_space(text[i]) && strchr("*&:<>,()", text[i]) == NULL)
            return false;
        word = word || is_word(text[i]);
    }
    return word;
}

/* `name(` in front of the call: the variable that it declares, or a member that it begins with. */
static bool constructs(const char *text, size_t begin, size_t end) {
    if (keyword(text, begin, end)) return false;
    if (declares(text, begin)) return true;
    size_t at = text_before(text, begin);
    if (at == NONE || at == 0 || text[at] != ':' || text[at - 1] == ':') return false;
    for (size_t i = at; i > 0 && strchr(";{}", text[i - 1]) == NULL; i--)
        if (text[i - 1] == '?') return false;
    size_t signature = text_before(text, at);
    return signature != NONE && (text[signature] == ')' || ends_with(text, signature, "noexcept"));
}

/* What the expression text[begin .. end) is assigned to. */
static bool target_of(const char *text, size_t begin, size_t end, char *out, size_t size) {
    for (;;) {
        size_t at = text_before(text, begin);
        if (at == NONE) return false;
        if (text[at] == ')') {
            size_t open = opening_bracket(text, at);
            if (open == NONE || !is_cast(text, open, at)) return false;
            begin = open;
            continue;
        }
        if (text[at] == '?' || (text[at] == ':' && (at == 0 || text[at - 1] != ':'))) {
            at = before_condition(text, at);
            return at != NONE && assigned(text, at, out, size);
        }
        if (assigns(text, at)) return assigned(text, at, out, size);
        if (text[at] != '(') return false;
        /* The only thing in these parentheses: a group, a cast, a function that hands it on. */
        size_t close = text_after(text, end);
        if (text[close] != ')') return false;
        size_t function = text_before(text, at);
        begin = at;
        end = close + 1;
        if (function == NONE) return false;
        if (text[function] == '>') { /* static_cast<T *>( */
            size_t open =
                function > 0 && text[function - 1] == '-' ? NONE : opening_angle(text, function);
            function = open == NONE ? NONE : text_before(text, open);
            if (function == NONE || !is_word(text[function])) return false;
        }
        if (!is_word(text[function])) continue;
        size_t word = word_begin(text, function);
        if (keyword(text, word, function + 1)) return false;
        size_t expression = call_begin(text, word);
        if (ends_with(text, text_before(text, expression), "new")) return false;
        if (expression == word && constructs(text, word, function + 1))
            return write_name(text, word, function + 1, out, size);
        begin = expression;
    }
}

/* ---- the calls of a line ---- */

typedef struct call {
    size_t name;  /* where its name begins, */
    size_t begin; /* the expression, */
    size_t open;  /* its arguments, or what follows */
    size_t end;   /* behind it */
} call_t;

/* Functions that give their block to what their first argument points to. */
static const char *const by_pointer[] = {"posix_memalign", "asprintf", "vasprintf",
                                         "getline",        "getdelim", NULL};
static const char *const allocators[] = {"malloc",
                                         "calloc",
                                         "realloc",
                                         "reallocarray",
                                         "aligned_alloc",
                                         "memalign",
                                         "posix_memalign",
                                         "valloc",
                                         "pvalloc",
                                         "strdup",
                                         "strndup",
                                         "new",
                                         "make_unique",
                                         "make_shared",
                                         "numalloc_alloc_onnode",
                                         "numalloc_alloc_local",
                                         "numalloc_alloc_interleaved",
                                         NULL};

/* "make_unique" of "std::make_unique<double []>(unsigned long)", "new" of "operator new(...)". */
static void simple_name(const char *callee, char out[64]) {
    const char *end = callee + strcspn(callee, "<("), *begin = end;
    out[0] = 0;
    if (strncmp(callee, "operator new", 12) == 0) {
        strcpy(out, "new");
        return;
    }
    while (end > callee && is_space(end[-1]))
        end--;
    begin = end;
    while (begin > callee && is_word(begin[-1]))
        begin--;
    if (begin == end || end - begin > 63) return;
    memcpy(out, begin, (size_t)(end - begin));
    out[end - begin] = 0;
}

/* The call whose name is the word text[begin .. end). False: it is none. */
static bool call_at(const char *text, size_t begin, size_t end, call_t *call) {
    static const char *const operators[] = {"new", NULL};
    size_t at = text_after(text, end);
    if (word_is(text, begin, end, operators)) { /* up to what ends the expression */
        size_t to = at;
        while (text[to] != 0 && strchr(";,)]}?", text[to]) == NULL) {
            size_t close = strchr("([{", text[to]) != NULL ? closing(text, to)
                           : text[to] == '<'               ? closing_angle(text, to)
                                                           : to;
            if (close == NONE) return false;
            to = close + 1;
        }
        size_t from = begin;
        size_t scope = text_before(text, begin); /* ::new */
        if (scope != NONE && scope > 0 && text[scope] == ':' && text[scope - 1] == ':')
            from = scope - 1;
        *call = (call_t){.name = begin, .begin = from, .open = at, .end = to};
        return true;
    }
    if (isdigit((unsigned char)text[begin]) || keyword(text, begin, end)) return false;
    if (text[at] == '<') {
        size_t close = closing_angle(text, at);
        if (close == NONE) return false;
        at = text_after(text, close + 1);
    }
    if (text[at] != '(') return false;
    size_t close = closing(text, at);
    if (close == NONE || text[text_after(text, close + 1)] == '{')
        return false; /* of a definition */
    *call = (call_t){.name = begin, .begin = call_begin(text, begin), .open = at, .end = close + 1};
    return true;
}

/* posix_memalign((void **)&p, ...): p */
static bool pointed_to(const char *text, const call_t *call, char *out, size_t size) {
    size_t at = text_after(text, call->open + 1);
    while (text[at] == '(') {
        size_t close = closing(text, at);
        if (close == NONE || !is_cast(text, at, close)) return false;
        at = text_after(text, close + 1);
    }
    if (text[at] != '&') return false;
    size_t begin = text_after(text, at + 1), end = begin;
    while (text[end] != 0 && text[end] != ',' && text[end] != ')') {
        if (text[end] == '(' || text[end] == '[') end = closing(text, end);
        if (end == NONE) return false;
        end++;
    }
    return write_name(text, begin, end, out, size);
}

static bool call_target(const char *text, const call_t *call, char *out, size_t size) {
    size_t end = call->name;
    while (is_word(text[end]))
        end++;
    if (word_is(text, call->name, end, by_pointer)) return pointed_to(text, call, out, size);
    if (call->begin == call->name && !ends_with(text, end - 1, "new") &&
        constructs(text, call->name, end)) /* std::vector<int> v(n) */
        return write_name(text, call->name, end, out, size);
    return target_of(text, call->begin, call->end, out, size);
}

/* The calls in text[from .. to) to one of `names`, or to any function. */
static unsigned find_calls(const char *text, size_t from, size_t to, const char *const *names,
                           call_t calls[MOST_CALLS]) {
    unsigned count = 0;
    for (size_t at = from; at < to && count < MOST_CALLS;) {
        if (!is_word(text[at])) {
            at++;
            continue;
        }
        size_t end = at;
        while (is_word(text[end]))
            end++;
        if ((names == NULL || word_is(text, at, end, names)) &&
            call_at(text, at, end, &calls[count]))
            count++;
        at = end;
    }
    return count;
}

/* The one name that they have; with several, that of the call nearest to the place. `any`: they are
 * all the calls there are, and some are in the arguments of others. */
static na_target_t choose_target(const char *text, const call_t *calls, unsigned count,
                                 size_t place, bool any, char *out, size_t size) {
    na_target_t found = NA_TARGET_NONE;
    size_t nearest = NONE;
    for (unsigned i = 0; i < count; i++) {
        char name[LONGEST + 4];
        bool named = call_target(text, &calls[i], name, sizeof name);
        if (place != NONE) { /* not a name is an answer, too */
            size_t far = calls[i].name > place ? calls[i].name - place : place - calls[i].name;
            size_t open = calls[i].open > place ? calls[i].open - place : place - calls[i].open;
            if (open < far) far = open;
            if (far >= nearest) continue;
            nearest = far;
            found = named ? NA_TARGET_NAMED : NA_TARGET_NONE;
        } else if (!named) {
            continue;
        } else if (found == NA_TARGET_NONE) {
            found = NA_TARGET_NAMED;
        } else if (strcmp(out, name) != 0) {
            return NA_TARGET_SEVERAL;
        }
        if (named) snprintf(out, size, "%s", name);
    }
    /* A name of one, and none of another: whose call it was is not known. */
    if (place == NONE && !any && count > 1 && found == NA_TARGET_NAMED)
        for (unsigned i = 0; i < count; i++) {
            char name[LONGEST + 4];
            if (!call_target(text, &calls[i], name, sizeof name)) return NA_TARGET_SEVERAL;
        }
    return found;
}

/* The statement that a place is in. */
static void statement_of(const char *text, size_t place, size_t *from, size_t *to) {
    *from = place;
    while (*from > 0 && strchr(";{}", text[*from - 1]) == NULL)
        --*from;
    *to = place;
    while (text[*to] != 0 && strchr(";{}", text[*to]) == NULL)
        ++*to;
}

na_target_t na_target_of(char *text, size_t line, const char *callee, unsigned column, char *out,
                         size_t size) {
    char name[64] = "";
    size_t end = line;
    strip(text);
    while (text[end] != 0 && text[end] != '\n')
        end++;
    if (callee != NULL) simple_name(callee, name);
    const char *const one[] = {name, NULL};
    const char *const *const wanted[] = {name[0] != 0 ? one : allocators, allocators, NULL};
    size_t place = column != 0 && line + column - 1 < end ? line + column - 1 : NONE;
    call_t calls[MOST_CALLS];
    for (unsigned i = 0; i < 3; i++) {
        unsigned count = find_calls(text, line, end, wanted[i], calls);
        if (count == 0) continue;
        return choose_target(text, calls, count, place, i == 2, out, size);
    }
    /* The line has no call: of its statement, there may be one before or behind it. */
    size_t from, to;
    statement_of(text, text_after(text, line), &from, &to);
    for (unsigned i = 0; i < 3; i++) {
        unsigned count = find_calls(text, from, to, wanted[i], calls);
        if (count != 0) return choose_target(text, calls, count, NONE, i == 2, out, size);
    }
    return NA_TARGET_NONE;
}
