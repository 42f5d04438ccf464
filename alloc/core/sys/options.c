/* options.c - the value of each option: its default, until the options are read. */
#include "alloc/core/sys/options.h"

#define NONE 0
na_option_values_t na_option_values = {
    .numbers =
        {
#define NA_OPTION(id, type, fallback, meaning) [NA_OPT_##id] = (fallback),
#define NA_TEST_OPTION                         NA_OPTION
#include "alloc/core/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
        },
};

uint64_t na_option(na_option_id_t id) {
    return na_option_values.numbers[id];
}

const char *na_option_text(na_option_id_t id) {
    return na_option_values.texts[id];
}
