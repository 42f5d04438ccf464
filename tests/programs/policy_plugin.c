/* policy_plugin.c - a library that policy_forms opens; its one site is ruled. */
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) void policy_forms_opening(void);

/* The loader holds its lock meanwhile. */
__attribute__((constructor)) static void opening(void) {
    if (&policy_forms_opening != NULL) policy_forms_opening();
}

__attribute__((visibility("default"), noinline)) void *plugin_site(size_t size) {
    void *block = malloc(size);
    if (block != NULL) memset(block, 1, size);
    return block;
}
