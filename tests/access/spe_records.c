/* spe_records.c - what our decoder reads in files of bytes of Arm's SPE: a line a record, for
 * spe_perf.py, which has perf's decoder read the same. */
#include <inttypes.h>
#include <stdio.h>

#include "profiler/record/sources/spe_decode.h"

static void print(void *argument, const na_spe_record_t *r) {
    (void)argument;
#define FIELD(bit, name, format, value)                                                            \
    if ((r->has & (bit)) != 0) printf(" " name "=" format, value)
    FIELD(NA_SPE_HAS_PC, "pc", "%" PRIx64, r->pc & 0xffffffffffffff);
    FIELD(NA_SPE_HAS_PC, "el", "%u", r->level);
    FIELD(NA_SPE_HAS_TARGET, "target", "%" PRIx64, r->target & 0xffffffffffffff);
    FIELD(NA_SPE_HAS_VA, "va", "%" PRIx64, r->va & 0xffffffffffffff);
    FIELD(NA_SPE_HAS_PA, "pa", "%" PRIx64, r->pa);
    FIELD(NA_SPE_HAS_EVENTS, "events", "%" PRIx64, r->events);
    FIELD(NA_SPE_HAS_SOURCE, "source", "%" PRIu64, r->source);
    FIELD(NA_SPE_HAS_OP, "class", "%u", r->op_class);
    FIELD(NA_SPE_HAS_OP, "op", "%x", r->op);
    FIELD(NA_SPE_HAS_CONTEXT, "context", "%" PRIx32, r->context);
    FIELD(NA_SPE_HAS_TIME, "time", "%" PRIu64, r->time);
    FIELD(NA_SPE_HAS_TOTAL, "total", "%u", r->total);
    FIELD(NA_SPE_HAS_ISSUE, "issue", "%u", r->issue);
    FIELD(NA_SPE_HAS_TRANSLATE, "translate", "%u", r->translate);
    putchar('\n');
}

int main(int argc, char **argv) {
    static uint8_t bytes[1 << 20];
    na_spe_decoder_t decoder = {0};
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        na_spe_begin(&decoder, 0);
        na_spe_feed(&decoder, bytes, size, print, NULL);
        na_spe_end(&decoder);
    }
    return decoder.broken != 0;
}
