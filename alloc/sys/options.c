/* options.c - the value of each option. Most processes set none: they need no more than the
 * defaults, and none of options_read.c. */
#include "alloc/sys/options_read.h"

#include "alloc/sys/os.h"

#define NONE 0
static const uint32_t defaults[NA_OPT_ALL] = {
#define NA_OPTION(id, type, fallback, meaning) [NA_OPT_##id] = fallback,
#define NA_TEST_OPTION                         NA_OPTION
#include "alloc/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
};

static na_option_values_t values;

void na_options_init(void) {
    for (unsigned id = 0; id < NA_OPT_ALL; id++) {
        values.numbers[id] = defaults[id];
        values.texts[id] = NULL;
    }
    if (!na_os_env_has(NA_OPTION_PREFIX)) return;
    if (na_os_secure) return; /* the environment is that of a less trusted user */
    na_options_read(&values);
}

uint64_t na_option(na_option_id_t id) {
    return values.numbers[id];
}

const char *na_option_text(na_option_id_t id) {
    return values.texts[id];
}

uint64_t na_option_default(na_option_id_t id) {
    return defaults[id];
}
