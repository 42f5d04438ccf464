/* source_line.c - files of source, and the names in their lines. See source_line.h. */
#include "profiler/dump/source/source_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "profiler/containers/array.h"
#include "profiler/dump/source/source_column.h"
#include "profiler/dump/source/source_target.h"

#define LONGEST_SOURCE ((off_t)64 << 20)
#define LONGEST_LINE   1024
#define AROUND         30u /* lines that a statement may have before and behind */

/* Where --source-path says that a file is, written to `path`; else NULL. */
static const char *mapped_path(const na_options_t *o, const char *name, char path[4096]) {
    for (size_t i = 0; i < o->source.paths.count; i++) {
        const char *from = o->source.paths.items[i], *to = strchr(from, '=') + 1;
        size_t length = (size_t)(to - from) - 1;
        if (strncmp(name, from, length) != 0) continue;
        snprintf(path, 4096, "%s%s", to, name + length);
        return path;
    }
    return NULL;
}

FILE *na_source_open(const na_options_t *o, const char *name) {
    char mapped[4096];
    const char *path = mapped_path(o, name, mapped);
    if (path == NULL) path = name;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > LONGEST_SOURCE) return NULL;
    return fopen(path, "re");
}

bool na_source_is_changed(const na_options_t *o, const char *name, const char *module) {
    char mapped[4096];
    struct stat source, program;
    return mapped_path(o, name, mapped) == NULL && module != NULL && stat(name, &source) == 0 &&
           stat(module, &program) == 0 && source.st_mtime > program.st_mtime;
}

/* The lines around one, and where it begins in them. Free it. NULL: it is not there, or no memory.
 */
static char *read_lines(FILE *source, unsigned line, size_t *begin) {
    char part[LONGEST_LINE], *text = NULL;
    size_t used = 0, room = 0;
    unsigned at = 1;
    bool found = false, first = true;
    while (at <= line + AROUND && fgets(part, LONGEST_LINE, source) != NULL) {
        size_t length = strlen(part);
        bool ended = length > 0 && part[length - 1] == '\n';
        if (at + AROUND >= line) {
            if (!NA_ARRAY_RESERVE(text, room, used + length + 1)) break;
            if (at == line && first) {
                *begin = used;
                found = true;
                first = false;
            }
            memcpy(text + used, part, length + 1);
            used += length;
        }
        at += ended;
    }
    if (found) return text;
    free(text);
    return NULL;
}

bool na_source_target(const na_options_t *options, const na_symbol_frame_t *frame,
                      const char *callee, char *out, size_t size) {
    if (frame->file == NULL || frame->line == 0 ||
        na_source_is_changed(options, frame->file, frame->module))
        return false;
    FILE *source = na_source_open(options, frame->file);
    if (source == NULL) return false;
    size_t line = 0;
    char *text = read_lines(source, frame->line, &line);
    fclose(source);
    if (text == NULL) return false;
    na_target_t found = na_target_of(text, line, callee, 0, out, size);
    unsigned column = found == NA_TARGET_SEVERAL
                          ? na_source_column(frame->module, frame->offset, frame->line)
                          : 0;
    if (column != 0) found = na_target_of(text, line, callee, column, out, size);
    free(text);
    return found == NA_TARGET_NAMED;
}
