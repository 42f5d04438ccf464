/* early_loaded.c - a library loaded from another library's constructor; its own constructor
 * allocates, its destructor too. See early.c. */
#include "support/check.h"
#include "support/fill.h"

#include "conform/early.h"

__attribute__((visibility("default"))) early_note_t early_note;

__attribute__((constructor)) static void begin(void) {
    early_note.block = malloc(EARLY_SIZE);
    if (early_note.block != NULL) fill_block(early_note.block, EARLY_SIZE, EARLY_SEED);
}

__attribute__((destructor)) static void end(void) {
    free(check_opaque(malloc(2000)));
}
