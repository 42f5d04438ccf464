/* fuzz_spe.c - libFuzzer target: any bytes as what a processor wrote for Arm's SPE. Four bytes say
 * whose data sources they are, where in perf's buffer they begin, and in which pieces they are read
 * a second time: the records must be the same. */
#include <stdlib.h>
#include <string.h>

#include "profiler/record/sources/spe_sample.h"

enum { BUFFER = 2048, RECORDS = BUFFER + 1 };

static void must(bool good) {
    if (!good) abort();
}

static na_spe_record_t first[RECORDS];
static uint32_t met, compared, samples;

static void keep(void *argument, const na_spe_record_t *record) {
    (void)argument;
    must(met < RECORDS);
    first[met++] = *record;
}

static void compare(void *argument, const na_spe_record_t *record) {
    (void)argument;
    must(compared < met && memcmp(&first[compared], record, sizeof *record) == 0);
    compared++;
}

static uint64_t mono_of(uint64_t time) {
    return time;
}

static na_spe_setup_t setup = {.weight = 1024, .mono_of = mono_of};

static void check(const na_access_raw_t *raw) {
    samples++;
    must(raw->op >= 1 && raw->op <= 3 && raw->level < NA_NPROF_LEVELS);
    must(raw->latency >= -1 && raw->latency <= UINT16_MAX && raw->weight == 1024);
    must(raw->tid == 1 && raw->cpu == 2 && raw->home == NA_NPROF_NO_NODE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4) return 0;
    setup.sources = (na_spe_sources_t)(data[0] % 3);
    setup.cycles_most = data[0] % 2 != 0 ? 4095 : UINT16_MAX;
    uint64_t offset = (uint64_t)data[1] << 8 | data[2];
    size_t piece = 1u + data[3];
    data += 4;
    size -= 4;
    if (size > BUFFER) size = BUFFER;

    na_spe_decoder_t whole = {0}, pieces = {0};
    uint8_t *copy = malloc(size + 1); /* so that reading past the end is seen */
    if (copy == NULL) return 0;
    memcpy(copy + 1, data, size);
    met = compared = samples = 0;
    na_spe_begin(&whole, offset % BUFFER);
    na_spe_feed(&whole, copy + 1, size, keep, NULL);
    na_spe_end(&whole);
    na_spe_begin(&pieces, offset % BUFFER);
    for (size_t i = 0; i < size; i += piece)
        na_spe_feed(&pieces, copy + 1 + i, size - i < piece ? size - i : piece, compare, NULL);
    na_spe_end(&pieces);
    must(compared == met && whole.records == met && pieces.records == met);
    must(whole.broken == pieces.broken && whole.broken <= 1);
    free(copy);

    uint8_t *buffer = malloc(BUFFER);
    if (buffer == NULL) return 0;
    for (size_t i = 0; i < size; i++)
        buffer[(offset + i) % BUFFER] = data[i];
    na_spe_aux_t aux = {.base = buffer, .bytes = BUFFER, .at = offset};
    na_spe_counts_t counts = {0};
    na_spe_aux_take(&aux, &setup,
                    &(na_spe_stretch_t){.offset = offset, .size = size, .tid = 1, .cpu = 2},
                    &counts, check);
    must(aux.at == offset + size && counts.taken == samples);
    must(counts.taken + counts.filtered == met && counts.broken == whole.broken);
    free(buffer);
    return 0;
}
