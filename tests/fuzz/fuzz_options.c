/* fuzz_options.c - libFuzzer target: any bytes as the environment of a process, its strings divided
 * by zero bytes. Whatever is in it, options keep to what their table says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/core/sys/os.h"
#include "alloc/options/options_read.h"

#define STRINGS 16

static void check_values(void) {
    if (na_option(NA_OPT_STATS) > 1 || na_option(NA_OPT_CHECK) > 1 || na_option(NA_OPT_ABORT) > 1 ||
        na_option(NA_OPT_BACKGROUND) > 1)
        abort();
    if (na_option(NA_OPT_HUGEPAGES) > NA_HUGE_NEVER || na_option(NA_OPT_NUMA) > NA_NUMA_OFF)
        abort();
    uint64_t region = na_option(NA_OPT_REGION_SIZE);
    if (region == 0 || (region & (region - 1)) != 0) abort();
    for (unsigned id = 0; id < NA_OPT_ALL; id++) {
        if (strncmp(na_option_name((na_option_id_t)id), "NUMALLOC_", 9) != 0) abort();
        (void)na_option_text((na_option_id_t)id);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) return 0;
    char *text = malloc(size + 1); /* of its own size, so that reading past the end is seen */
    if (text == NULL) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    char *strings[STRINGS + 1];
    size_t n = 0;
    for (char *at = text; n < STRINGS && at <= text + size; at += strlen(at) + 1)
        strings[n++] = at;
    strings[n] = NULL;
    char **saved = environ;
    environ = strings;
    na_options_init();
    environ = saved;
    check_values();
    free(text);
    return 0;
}
