/* at_exit.c - exit handlers and destructor functions allocate and free, while another thread goes
 * on doing so; the process ends with the status it was given. */
#include "support/check.h"
#include "support/child.h"
#include "support/fill.h"

#include <pthread.h>

#include "support/alloc_api.h"

#define TURNS 50

static void *from_main;
static size_t handlers;

static void *churn(void *argument) {
    uint64_t random = 21;
    while (argument == NULL) /* always: the end of the process ends it */
        free(check_opaque(malloc(fill_random_size(&random, 14))));
    return NULL;
}

static void handler(void) {
    void *block = malloc(1000 + handlers * 5000);
    REQUIRE(block != NULL);
    memset(block, 1, 1000 + handlers * 5000);
    handlers++;
    if (handlers == 1) {
        CHECK(fill_holds(from_main, 4000, 4));
        free(from_main);
    }
    if (handlers < 20) CHECK(atexit(handler) == 0);
    free(block);
}

__attribute__((destructor)) static void last(void) {
    if (from_main == NULL) return;
    void *block = calloc(1, 70000);
    REQUIRE(block != NULL);
    CHECK(fill_is_zero(block, 70000) && handlers == 20);
    free(block);
    if (check_status() == 0) check_say("last words\n");
}

int main(int argc, char **argv) {
    check_begin();
    (void)argv;
    if (argc > 1) {
        pthread_t id;
        from_main = malloc(4000);
        REQUIRE(from_main != NULL);
        fill_block(from_main, 4000, 4);
        REQUIRE(pthread_create(&id, NULL, churn, NULL) == 0);
        REQUIRE(atexit(handler) == 0);
        exit(9);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        child_result_t result;
        child_run_self(&result, "exit", NULL, NULL, NULL, NULL);
        CHECK_MSG(child_exited(&result, 9) && strcmp(result.err, "last words\n") == 0,
                  "status %#x, said: %s", (unsigned)result.status, result.err);
    }
    return check_status();
}
