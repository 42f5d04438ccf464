/* early_linked.c - a library whose constructor allocates and loads another library. See early.c. */
#include "support/check.h"
#include "support/fill.h"

#include "conform/early.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT early_note_t early_linked_note;
EXPORT early_note_t *early_loaded_note;

__attribute__((constructor)) static void begin(void) {
    early_linked_note.block = malloc(EARLY_SIZE);
    if (early_linked_note.block != NULL)
        fill_block(early_linked_note.block, EARLY_SIZE, EARLY_SEED);
    void *library = dlopen(EARLY_LOADED, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        check_say("%s\n", dlerror());
        return;
    }
    early_loaded_note = dlsym(library, "early_note");
    free(check_opaque(calloc(3, 1000)));
}
