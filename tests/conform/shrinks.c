/* shrinks.c - a block that becomes somewhat smaller by realloc stays where it is. C does not
 * promise it, but programs count on it (a heap of strings that trims its last cell, and has given
 * out what is in it); with each option it is as without. What lies behind the new end is checked
 * all the same (NUMALLOC_HARDEN=2). */
#include "support/check.h"
#include "support/child.h"

#include <malloc.h>

typedef struct shrink {
    size_t from, to;
} shrink_t;

static const shrink_t shrinks[] = {{24, 17},         {100, 80},        {1000, 999},
                                   {1000, 600},      {5000, 3000},     {20000, 12000},
                                   {40000, 33000},   {65536, 60000},   {65536, 40000},
                                   {200000, 190000}, {200000, 150000}, {5000000, 4999999}};

static void shrink(const shrink_t *s, bool often) {
    enum { MANY = 40 }; /* one in 16 is guarded, where the test says so */
    unsigned char *blocks[MANY];
    unsigned many = often ? MANY : 4;
    for (unsigned i = 0; i < many; i++) {
        blocks[i] = malloc(s->from);
        REQUIRE(blocks[i] != NULL);
        for (size_t at = 0; at < s->from; at++)
            blocks[i][at] = (unsigned char)(at * 7 + i);
    }
    for (unsigned i = 0; i < many; i++) {
        uintptr_t before = (uintptr_t)blocks[i];
        blocks[i] = realloc(blocks[i], s->to);
        CHECK_MSG((uintptr_t)blocks[i] == before, "%zu to %zu bytes: it moved", s->from, s->to);
        CHECK_MSG(malloc_usable_size(blocks[i]) >= s->to, "%zu to %zu bytes: %zu usable", s->from,
                  s->to, malloc_usable_size(blocks[i]));
    }
    for (unsigned i = 0; i < many; i++)
        for (size_t at = 0; at < s->to; at++)
            REQUIRE(blocks[i][at] == (unsigned char)(at * 7 + i));
    for (unsigned i = 0; i < many; i++)
        free(blocks[i]);
}

/* In a process of its own: writes one byte behind a block that became smaller, or before that. */
static void overrun(const shrink_t *s, bool before) {
    unsigned char *block = check_opaque(malloc(s->from));
    REQUIRE(block != NULL);
    if (before) block[s->from] ^= 1;
    block = check_opaque(realloc(block, s->to));
    REQUIRE(block != NULL);
    if (!before) block[s->to] ^= 1;
    free(block);
}

static void must_be_found(const char *program, unsigned number, const char *when) {
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)when, text, NULL};
    const char *env[] = {"NUMALLOC_HARDEN=2", NULL};
    child_result_t result;
    child_run(&result, argv, env, NULL, NULL);
    const shrink_t *s = &shrinks[number];
    CHECK_MSG(WIFSIGNALED(result.status) && strstr(result.err, "overrun (") != NULL,
              "%zu to %zu bytes, %s: status %#x: %s", s->from, s->to, when, (unsigned)result.status,
              result.err);
}

int main(int argc, char **argv) {
    check_begin();
    const unsigned count = sizeof shrinks / sizeof shrinks[0];
    if (argc == 3) {
        overrun(&shrinks[atoi(argv[2])], strcmp(argv[1], "before") == 0);
        return 0;
    }
    for (unsigned i = 0; i < count; i++)
        shrink(&shrinks[i], shrinks[i].from <= 65536);
    for (unsigned i = 0; argc == 2 && i < count; i++) { /* "overrun" */
        must_be_found(argv[0], i, "after");
        if (shrinks[i].from % 4096 != 0) must_be_found(argv[0], i, "before");
    }
    return check_status();
}
