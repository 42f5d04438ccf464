/* make_spe_corpus.c - writes the seeds of tests/fuzz/corpus/spe: `make_spe_corpus DIRECTORY`. With
 * --bare they have no head for the fuzzer (fuzz_spe.c), so that another decoder can read them. */
#include <stdio.h>
#include <string.h>

#include "tests/support/spe_make.h"

static const char *directory;
static int bare;
static spe_make_t m;

/* Whose data sources, where in the buffer it begins, pieces. */
static void begin(unsigned sources, unsigned offset, unsigned piece) {
    m.size = 0;
    if (bare) return;
    spe_byte(&m, sources);
    spe_byte(&m, offset >> 8);
    spe_byte(&m, offset & 0xff);
    spe_byte(&m, piece);
}

static int save(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(m.bytes, 1, m.size, file) != m.size || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

static int loads(void) {
    begin(1, 0, 12);
    for (unsigned i = 0; i < 12; i++)
        spe_load(&m, 0x400000 + i * 4, 0x7f0000000000 + i * 64, 1000 + i);
    return save("loads");
}

/* Across the end of the buffer. */
static int stores(void) {
    begin(2, 2048 - 100, 3);
    for (unsigned i = 0; i < 6; i++)
        spe_store(&m, 0x400000 + i * 4, 0xffff800000000000 + i * 64, 1000 + i);
    return save("stores");
}

/* Every operation, source and event, without timestamps. */
static int kinds(void) {
    begin(0, 64, 1);
    for (unsigned i = 0; i < 16; i++) {
        spe_op(&m, i % 3, i * 17);
        spe_source(&m, 1u << i % 2, i);
        spe_events(&m, 1u << i % 4, UINT64_C(1) << i | 2);
        spe_counter(&m, i % 4, 1u << i);
        spe_address(&m, i % 5, 0x1000 * i);
        spe_end(&m);
    }
    return save("kinds");
}

static int contexts(void) {
    begin(1, 0, 200);
    spe_pad(&m, 3);
    spe_context(&m, 0, 0x1234);
    spe_context(&m, 1, 0x5678);
    spe_address(&m, 0, spe_pc(0xffff800008123456, 2));
    spe_address(&m, 1, spe_pc(0xffff800008123490, 2));
    spe_op(&m, 2, 3);
    spe_events(&m, 1, 0x82);
    spe_time(&m, 39395093558);
    return save("contexts");
}

/* Longer headers, packets that no manual knows yet, alignment. (Not for other decoders.) */
static int later(void) {
    begin(1, 17, 5);
    for (unsigned i = 0; i < 4; i++) {
        spe_op(&m, 1, i);
        spe_address(&m, 8 + i, i);
        spe_counter(&m, 24 + i, i);
        spe_byte(&m, 0xc0 | i << 4);
        spe_payload(&m, 1u << i, i);
        spe_align(&m, i);
        spe_address(&m, 2, 0x5000);
        spe_time(&m, i);
    }
    return bare ? 0 : save("later");
}

static int cut(void) {
    begin(1, 0, 7);
    spe_load(&m, 1, 2, 3);
    spe_load(&m, 4, 5, 6);
    m.size -= 30;
    return bare ? 0 : save("cut");
}

int main(int argc, char **argv) {
    bare = argc == 3 && strcmp(argv[1], "--bare") == 0;
    if (argc != 2 + bare) {
        fprintf(stderr, "usage: make_spe_corpus [--bare] DIRECTORY\n");
        return 2;
    }
    directory = argv[1 + bare];
    return loads() + stores() + kinds() + contexts() + later() + cut() != 0;
}
