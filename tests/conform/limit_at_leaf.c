/* limit_at_leaf.c - under RLIMIT_AS, where the heap's last pages lie in a leaf of the page map of
 * their own: what is free can be had again, though there is no room for that leaf. (Such pages were
 * free for good, and tried first: no block could be had.)
 *
 * Where a process's mappings lie follows from its limit on the stack, once addresses are not
 * random. A first child tells where its heap ends; the others have a boundary there, or some steps
 * before. */
#include "support/all_memory.h"
#include "support/check.h"
#include "support/child.h"

#include <sys/personality.h>
#include <sys/resource.h>

#define MIB   ((size_t)1 << 20)
#define LIMIT (96 * MIB)
#define STACK (256 * MIB)
#define LEAF  ((uintptr_t)512 * MIB)
#define STEP  (512u << 10)
#define STEPS 14u

static uintptr_t low, high; /* of a child's heap */

static void measure(const node_t *list, size_t size) {
    low = UINTPTR_MAX, high = 0;
    for (; list != NULL; list = list->next) {
        if ((uintptr_t)list < low) low = (uintptr_t)list;
        if ((uintptr_t)list + size > high) high = (uintptr_t)list + size;
    }
}

static int inside(void) {
    size_t first, total;
    node_t *list = take_all(64, &first);
    measure(list, 64);
    give_all(list);
    static const size_t sizes[] = {40000, 1000, 9000, 300000, MIB, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        give_all(take_all(sizes[i], &total));
        CHECK_MSG(total >= first / 2, "%zu bytes in blocks of %zu, %zu of 64", total, sizes[i],
                  first);
        for (size_t size = 16; size <= 4 * MIB; size *= 4) {
            void *block = malloc(size);
            CHECK_MSG(block != NULL, "%zu bytes after blocks of %zu", size, sizes[i]);
            free(block);
        }
    }
    printf("%lx %lx\n", (unsigned long)low, (unsigned long)high);
    return check_status();
}

/* `stack`: its limit. */
static int set_limits(void *stack) {
    struct rlimit limit;
    if (personality(ADDR_NO_RANDOMIZE) == -1 || getrlimit(RLIMIT_STACK, &limit) != 0) return -1;
    limit.rlim_cur = *(const size_t *)stack;
    if (setrlimit(RLIMIT_STACK, &limit) != 0) return -1;
    limit = (struct rlimit){LIMIT, LIMIT};
    return setrlimit(RLIMIT_AS, &limit);
}

static void run_child(size_t stack) {
    child_result_t result;
    char text[32];
    unsigned long from, to;
    child_run_self(&result, "inside", NULL, NULL, set_limits, &stack);
    if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == 126)
        check_skip("addresses are random here, or the stack has a limit");
    snprintf(text, sizeof text, "stack %zu", stack);
    child_expect_ok(&result, text);
    REQUIRE(sscanf(result.out, "%lx %lx", &from, &to) == 2);
    low = from, high = to;
}

int main(int argc, char **argv) {
    (void)argv;
    check_begin();
    if (argc > 1) return inside();
    run_child(STACK);
    uintptr_t end = high;
    unsigned crossed = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        run_child(STACK + (end - i * STEP) % LEAF);
        crossed += low / LEAF != (high - 1) / LEAF;
    }
    check_say("%u of %u heaps end in a leaf of their own\n", crossed, STEPS);
    CHECK(crossed > STEPS / 4);
    return check_status();
}
