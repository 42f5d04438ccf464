/* source_line.c - one line of a source file, reduced to a name. See source_line.h. */
#include "profiler/dump/source_line.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LONGEST_SOURCE ((off_t)64 << 20)
#define LONGEST_LINE   1024

FILE *na_source_open(const na_options_t *o, const char *name) {
    char path[4096];
    for (size_t i = 0; i < o->source_path_count; i++) {
        const char *from = o->source_path[i], *to = strchr(from, '=') + 1;
        size_t length = (size_t)(to - from) - 1;
        if (strncmp(name, from, length) != 0) continue;
        snprintf(path, sizeof path, "%s%s", to, name + length);
        name = path;
        break;
    }
    struct stat st;
    if (stat(name, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > LONGEST_SOURCE) return NULL;
    return fopen(name, "re");
}

static bool read_line(FILE *source, unsigned line, char text[LONGEST_LINE]) {
    unsigned at = 1;
    while (fgets(text, LONGEST_LINE, source) != NULL) {
        bool ended = strchr(text, '\n') != NULL;
        if (at == line) return true;
        at += ended;
    }
    return false;
}

/* The '=' of an assignment outside of parentheses and brackets: no comparison; NULL: none. */
static char *assignment(char *text) {
    int depth = 0;
    for (char *p = text; *p != 0; p++) {
        if (*p == '(' || *p == '[') depth++;
        if (*p == ')' || *p == ']') depth--;
        if (*p != '=' || depth != 0) continue;
        if (p[1] == '=' || (p != text && strchr("=!<>+-*/%&|^", p[-1]) != NULL)) return NULL;
        return p;
    }
    return NULL;
}

static char *trimmed(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = 0;
    return text;
}

bool na_source_target(const na_options_t *options, const char *file, unsigned line, char *out,
                      size_t size) {
    char text[LONGEST_LINE];
    FILE *source = na_source_open(options, file);
    if (source == NULL) return false;
    bool found = read_line(source, line, text);
    fclose(source);
    if (!found) return false;
    char *equals = assignment(text);
    if (equals != NULL) *equals = 0;
    char *name = trimmed(text);
    if (*name == 0) return false;
    size_t length = strlen(name);
    size_t room = size - 1 < 64 ? size - 1 : 64;
    snprintf(out, size, length > room ? "%.*s..." : "%.*s",
             (int)(length > room ? room - 3 : length), name);
    return true;
}
