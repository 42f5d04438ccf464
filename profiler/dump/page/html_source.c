/* html_source.c - the text of source files that frames lie in, read where numalloc-dump runs. The
 * files whose lines stand for the most memory come first, until there is enough text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "profiler/dump/page/html_page.h"

typedef struct weighed {
    uint32_t string; /* path */
    double weight;   /* requested bytes of the sites that pass through it */
} weighed_t;

static int heaviest_file_first(const void *a, const void *b) {
    const weighed_t *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->string < y->string ? -1 : x->string > y->string;
}

/* The file's text, at most `room` bytes of it being acceptable. NULL: it cannot be read, is
 * larger, or is no text. Free it. */
static char *read_source_text(const char *path, size_t room, size_t *size) {
    struct stat st;
    FILE *file = fopen(path, "re");
    char *text = NULL;
    if (file == NULL) return NULL;
    if (fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= room) {
        *size = (size_t)st.st_size;
        text = malloc(*size + 1);
        if (text != NULL &&
            (fread(text, 1, *size, file) != *size || memchr(text, 0, *size) != NULL)) {
            free(text);
            text = NULL;
        }
        if (text != NULL) text[*size] = 0;
    }
    fclose(file);
    return text;
}

static void put_text_lines(na_json_t *json, uint32_t string, char *text) {
    char key[12];
    snprintf(key, sizeof key, "%" PRIu32, string);
    na_json_object(json, key);
    na_json_u64(json, "first", 1);
    na_json_array(json, "lines");
    for (char *line = text, *end; line != NULL; line = end) {
        end = strchr(line, '\n');
        if (end != NULL) *end++ = 0;
        if (end == NULL && *line == 0) break; /* after the last line */
        size_t length = strlen(line);
        if (length > 0 && line[length - 1] == '\r') line[length - 1] = 0;
        na_json_string(json, NULL, line);
    }
    na_json_end(json);
    na_json_end(json);
}

void na_webpage_source(na_webpage_t *r) {
    weighed_t *files = calloc(r->strings.count + 1u, sizeof *files);
    uint32_t *seen = calloc(r->strings.count + 1u, sizeof *seen);
    if (files == NULL || seen == NULL) {
        r->out_of_memory = true;
        free(files);
        free(seen);
        return;
    }
    for (uint32_t i = 0; i < r->strings.count; i++)
        files[i].string = i;
    for (size_t i = 0; i < r->site_count; i++)
        for (uint32_t node = r->sites[i].node; node != 0; node = r->nodes.keys[node].number[0]) {
            uint32_t file = r->frames.keys[r->nodes.keys[node].number[1]].number[1];
            if (file == NA_WEBPAGE_NONE || seen[file] == i + 1) continue;
            seen[file] = (uint32_t)i + 1;
            files[file].weight += (double)r->sites[i].sum.alloc_bytes;
        }
    qsort(files, r->strings.count, sizeof *files, heaviest_file_first);
    size_t room = na_webpage_most(r, NA_WEBPAGE_SOURCE_BYTES);
    na_json_object(r->json, "sources");
    for (uint32_t i = 0; i < r->strings.count && files[i].weight > 0; i++) {
        size_t size;
        char *text = read_source_text(r->strings.keys[files[i].string].text, room, &size);
        if (text == NULL) continue;
        room -= size;
        put_text_lines(r->json, files[i].string, text);
        free(text);
    }
    na_json_end(r->json);
    free(files);
    free(seen);
}
