/* make_corpus.c - writes the seeds of tests/fuzz/corpus/reader: `make_corpus DIRECTORY`. Run it
 * again when the format changes; the results are kept in the repository. */
#include <stdio.h>

#include "tests/unit/nprof_make.h"

static int save(const char *directory, const char *name, const na_make_t *m, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(m->bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: make_corpus DIRECTORY\n");
        return 2;
    }
    int failed = 0;
    na_make_t m;
    /* One page a chunk, without the timeline's twenty, so that mutations find something. */
    na_make_sample_file(&m);
    failed |= save(argv[1], "small", &m, 6 * NA_NPROF_PAGE);
    failed |= save(argv[1], "cut", &m, 2 * NA_NPROF_PAGE + 100);
    free(m.bytes);

    for (int compressed = 0; compressed < 2; compressed++) {
        na_make_begin(&m);
        na_nprof_chunk_t *c =
            na_make_chunk(&m, NA_NPROF_STACKS, NA_NPROF_PAGE, sizeof(na_nprof_stack_t), 1);
        for (uint32_t i = 0; i < 200; i++)
            na_make_stack(c, i, 0x1000 + i);
        na_make_seal_last(&m, c, compressed);
        failed |= save(argv[1], compressed ? "zlib" : "sealed", &m, m.size);
        free(m.bytes);
    }
    /* Without the tables of cells: what accesses need, and accesses. */
    na_make_sample_file(&m);
    m.size = 4 * NA_NPROF_PAGE;
    na_make_header(&m)->used = m.size;
    na_make_access(&m);
    failed |= save(argv[1], "access", &m, m.size);
    free(m.bytes);
    return failed;
}
