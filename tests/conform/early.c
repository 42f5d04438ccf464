/* early.c - allocation before main: in the program's preinit array and constructors, in the
 * constructor of a library it is linked with, of one that this constructor loads, and in a thread
 * started there. Blocks made so early are freed at the end. */
#include "support/check.h"
#include "support/fill.h"

#include "conform/early.h"

#include <pthread.h>

#include "support/alloc_api.h"

static void *blocks[3];

static void *early_block(size_t size) {
    void *block = malloc(size);
    REQUIRE(block != NULL);
    fill_block(block, size, size);
    return block;
}

static void preinit(int argc, char **argv, char **environment) {
    (void)argc;
    (void)argv;
    (void)environment;
    blocks[0] = early_block(100);
    free(early_block(5000));
}

__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(int, char **,
                                                                              char **) = preinit;

static void *in_thread(void *argument) {
    (void)argument;
    return early_block(3000);
}

__attribute__((constructor(101))) static void first(void) {
    blocks[1] = early_block(70000);
    pthread_t id;
    REQUIRE(pthread_create(&id, NULL, in_thread, NULL) == 0);
    REQUIRE(pthread_join(id, &blocks[2]) == 0);
}

int main(void) {
    check_begin();
    CHECK(fill_holds(blocks[0], 100, 100));
    CHECK(fill_holds(blocks[1], 70000, 70000));
    CHECK(fill_holds(blocks[2], 3000, 3000));
    for (size_t i = 0; i < 3; i++)
        free(blocks[i]);
    early_note_t *notes[] = {&early_linked_note, early_loaded_note};
    for (size_t i = 0; i < 2; i++) {
        REQUIRE(notes[i] != NULL);
        CHECK_MSG(notes[i]->block != NULL && fill_holds(notes[i]->block, EARLY_SIZE, EARLY_SEED),
                  "library %zu", i);
        free(notes[i]->block);
    }
    /* And one loaded now and unloaded again, many times. */
    for (int i = 0; i < 200; i++) {
        void *library = dlopen(EARLY_LOADED, RTLD_NOW | RTLD_LOCAL);
        REQUIRE(library != NULL);
        free(check_opaque(malloc(100)));
        CHECK(dlclose(library) == 0);
    }
    return check_status();
}
