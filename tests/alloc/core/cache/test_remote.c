/* test_remote.c - remote.c: blocks that are freed on another node come home, on made-up nodes. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/central.h"
#include "support/made_up_nodes.h"

TestSuite(remote, .init = two_nodes, .fini = remove_tree);

static const size_t sizes[] = {1, 16, 48, 64, 100, 1000, 4096, 20000};

typedef struct crossing {
    void *blocks[4000];
    unsigned count, node;
    size_t size; /* 0: any of `sizes` */
} crossing_t;

static void *take_there(void *argument) {
    crossing_t *c = argument;
    run_on(c->node);
    for (unsigned i = 0; i < c->count; i++)
        c->blocks[i] =
            NA_FN(malloc)(c->size != 0 ? c->size : sizes[i % (sizeof sizes / sizeof sizes[0])]);
    return NULL;
}

static void *free_there(void *argument) {
    crossing_t *c = argument;
    run_on(c->node);
    for (unsigned i = 0; i < c->count; i++)
        NA_FN(free)(c->blocks[i]);
    return NULL;
}

static void in_a_thread(void *(*what)(void *), crossing_t *c, unsigned node) {
    pthread_t thread;
    c->node = node;
    cr_assert_eq(pthread_create(&thread, NULL, what, c), 0);
    pthread_join(thread, NULL);
}

static unsigned parcels(unsigned node) {
    unsigned full = 0;
    for (unsigned i = 0; i < NA_INBOX_PARCELS; i++)
        full += na_central_inbox(node)->parcels[i].count != 0;
    return full;
}

Test(remote, blocks_come_home_by_the_inbox_and_are_used_again) {
    go_to_node(0);
    for (unsigned size = 48; size <= 200; size += 152) { /* an owned class, a pooled one */
        static crossing_t c, again;
        c.count = 40;
        c.size = again.size = size;
        c.node = 0;
        take_there(&c);
        in_a_thread(free_there, &c, 1);
        cr_assert_eq(parcels(0), 1, "size %u: %u parcels of the outbox of a thread that ended",
                     size, parcels(0));
        again.count = 400;
        take_there(&again);
        cr_assert_eq(parcels(0), 0);
        unsigned same = 0;
        for (unsigned i = 0; i < c.count; i++)
            for (unsigned k = 0; k < again.count; k++)
                same += c.blocks[i] == again.blocks[k];
        cr_assert_eq(same, c.count);
        free_there(&again);
    }
    numalloc_trim(0);
    cr_assert_eq(stats_of(0).live, 0);
    cr_assert_eq(stats_of(0).in_spans, 0);
}

Test(remote, blocks_of_another_thread_go_on_to_it) {
    static crossing_t c = {.count = 63, .size = 48};
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(48));
    in_a_thread(take_there, &c, 0);
    in_a_thread(free_there, &c, 1);
    cr_assert_eq(parcels(0), 1);
    crossing_t mine = {.count = 400, .size = 48};
    take_there(&mine);
    cr_assert_eq(parcels(0), 0);
    for (unsigned i = 0; i < c.count; i++)
        for (unsigned k = 0; k < mine.count; k++)
            cr_assert_neq(c.blocks[i], mine.blocks[k], "its line may be another thread's");
    free_there(&mine);
    numalloc_trim(0);
    cr_assert_eq(stats_of(0).live, 0);
    cr_assert_eq(stats_of(0).remote_frees, c.count);
    cr_assert_eq(stats_of(0).in_spans, 0);
}

Test(remote, a_full_inbox_sends_blocks_to_their_spans) {
    static crossing_t c = {.count = 4000};
    go_to_node(0);
    in_a_thread(take_there, &c, 0);
    in_a_thread(free_there, &c, 1);
    cr_assert_eq(parcels(0), NA_INBOX_PARCELS);
    cr_assert_eq(stats_of(0).live, 0);
    cr_assert_eq(stats_of(0).remote_frees, c.count);
    numalloc_trim(0);
    cr_assert_eq(parcels(0), 0);
    cr_assert_eq(stats_of(0).in_spans, 0);
}

/* A child of the thread has it, too. */
Test(remote, an_outbox_is_its_threads) {
    static crossing_t c = {.count = 40, .size = 200};
    go_to_node(0);
    take_there(&c);
    go_to_node(c.node = 1);
    NA_FN(free)(NA_FN(malloc)(50000)); /* a slow path: twice */
    free_there(&c);
    cr_assert_eq(na_self->posts.outbox.count, c.count);
    pid_t child = fork();
    if (child == 0) {
        numalloc_trim(0);
        _exit(na_self->posts.outbox.count != 0 || stats_of(0).in_spans != 0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    numalloc_trim(0);
    cr_assert_eq(stats_of(0).in_spans, 0);
}
