/* drawn_truth.c - which verdicts are true of what drawn.c drew: of lines by addresses, of nodes by
 * where the kernel says that the pages lie which each thread used. */
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drawn.h"

enum { PAGES = 64, NODES = 64 };
/* Of the accesses to other nodes; between both, either verdict is right. */
#define LITTLE 0.07
#define MUCH   0.14
/* Times the fair share that a node has of it: spread, and not. */
#define SPREAD     1.35
#define NOT_SPREAD 1.65

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the sums */
static double remote, all, home[NODES];

unsigned drawn_node(void) {
    unsigned node = 0;
    return syscall(SYS_getcpu, NULL, &node, NULL) == 0 ? node : 0;
}

static void look_at(unsigned me, const char *base, size_t bytes, double weight) {
    uintptr_t first = (uintptr_t)base / PAGE, last = ((uintptr_t)base + bytes - 1) / PAGE;
    size_t pages = last - first + 1, step = pages / PAGES + 1;
    void *page[PAGES];
    int status[PAGES];
    unsigned long count = 0;
    for (size_t i = 0; i < pages && count < PAGES; i += step)
        page[count++] = (void *)((first + i) * PAGE);
    if (syscall(SYS_move_pages, 0, count, page, NULL, status, 0) != 0) return;
    pthread_mutex_lock(&lock);
    for (unsigned long i = 0; i < count; i++) {
        if (status[i] < 0 || status[i] >= NODES) continue;
        double each = weight / (double)count;
        all += each;
        home[status[i]] += each;
        if ((unsigned)status[i] != drawn_thread[me].node) remote += each;
    }
    pthread_mutex_unlock(&lock);
}

void drawn_look_at(unsigned me, void *block, unsigned long turns) {
    look_at(me, block, drawn.size, (double)turns);
}

void drawn_look(void) {
    for (unsigned i = 0; i < drawn.threads; i++) {
        double turns = (double)atomic_exchange(&drawn_thread[i].used, 0);
        size_t from, words = drawn_part(i, &from);
        bool own = drawn.shape == OWN || drawn.shape == PAIR;
        char *base = drawn_block[own ? i : 0];
        if (drawn.shape == ACCEPTOR || base == NULL) continue;
        look_at(i, base + 8 * from, 8 * words, turns);
    }
}

/* Is a line written by one thread and used by another, though they share no byte? By the addresses:
 * whether two small blocks lie in one line is malloc's choice. */
static bool is_false(void) {
    if (drawn.shape == ELEMENT || drawn.shape == LOCKS) return drawn.stride < LINE;
    if (drawn.shape == BESIDE) return !drawn.mended;
    for (unsigned i = 0; drawn.shape == PAIR && i < drawn.threads; i++)
        for (unsigned k = 0; k < i; k++)
            if ((uintptr_t)drawn_block[i] / LINE == (uintptr_t)drawn_block[k] / LINE) return true;
    return false;
}

/* Of the accesses, those to the node that has most. */
static double busiest(void) {
    double most = 0;
    for (int i = 0; i < NODES; i++)
        if (home[i] > most) most = home[i];
    return all > 0 ? most / all : 0;
}

/* What all nodes use and write: is it spread over them? */
static const char *shared(void) {
    double times = busiest() * drawn.nodes;
    return times < SPREAD       ? "\"evenly_remote\""
           : times > NOT_SPREAD ? "\"write_shared\""
                                : "\"write_shared\", \"evenly_remote\"";
}

static const char *of_nodes(void) {
    if (drawn.together && (drawn.one || drawn.shape == ACCEPTOR))
        return "\"remote_after_allocation\"";
    switch (drawn.shape) {
    case OWN:
    case PAIR:
        if (drawn.one) return "\"remote_after_allocation\"";
        if (drawn.policy != NONE) return "\"own_data_wrong_page\"";
        return drawn.moved ? "\"thread_migrated\"" : "\"own_data_wrong_page\"";
    case PARTS:
        return "\"partition\"";
    case ALL:
        return shared();
    case TABLE:
        return "\"concurrent_read_mostly\"";
    case ACCEPTOR:
        return "\"remote_after_allocation\"";
    default: /* lines, each thread's own or one of all: of one page */
        return "\"write_shared\"";
    }
}

void drawn_say_truth(void) {
    double share = all > 0 ? remote / all : 0;
    bool little = drawn.nodes < 2 || share<LITTLE, much = share> MUCH;
    printf("\"remote\": %.3f, \"busiest\": %.3f, \"truths\": [", share, busiest());
    if (is_false()) /* a word that several write is shared, too, whoever reads beside it */
        printf("\"false_sharing\"%s",
               drawn.shape == BESIDE && drawn.writers > 1 && !little ? ", \"write_shared\"" : "");
    else
        printf("%s%s%s", little ? "" : of_nodes(), little || much ? "" : ", ",
               much ? "" : "\"nothing_wrong\"");
    printf("]");
}
