/* killed.c - SIGKILL at random moments: the file always reads, and has every event that the victim
 * says it finished, and none that it had not begun.
 *
 * Two threads count each event in shared memory before and after it. What the profile counts must
 * lie between: nothing at all may be lost of what is summed up by site. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/profile/truth.h"

enum { VICTIMS = 2, SLOTS = 300 };

static TRUTH_SITE(10) void *killed_take(size_t size) {
    void *p = malloc(size);
    __asm__ volatile("# killed" : : "r"(p) : "memory");
    return p;
}

extern const char __start_truth_site_10[], __stop_truth_site_10[];

/* Stacks of many depths, so that the tree and its tables grow while the signal comes. */
static __attribute__((noinline)) void *deeper(unsigned depth, size_t size) {
    void *p = depth == 0 ? killed_take(size) : deeper(depth - 1, size);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}

static void *victim(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    static void *slots[VICTIMS][SLOTS];
    uint64_t random = me + 1;
    for (;;) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        void **slot = &slots[me][(random >> 33) % SLOTS];
        atomic_fetch_add(&truth->begun[me], 1);
        if (*slot != NULL) {
            free(*slot);
            *slot = NULL;
        } else {
            *slot = deeper((unsigned)(random >> 20) % 24, 1 + (random >> 40) % 5000);
        }
        atomic_fetch_add(&truth->done[me], 1);
    }
    return NULL;
}

void killed_child(void) {
    pthread_t thread;
    truth->site[10].start = (uintptr_t)__start_truth_site_10;
    truth->site[10].end = (uintptr_t)__stop_truth_site_10;
    if (pthread_create(&thread, NULL, victim, (void *)1) != 0) _exit(125);
    victim(NULL);
}

static void pause_us(unsigned long us) {
    nanosleep(&(struct timespec){(time_t)(us / 1000000), (long)(us % 1000000) * 1000}, NULL);
}

void killed_test(int times) {
    uint64_t most = 0, events = 0;
    srand(20);
    for (int i = 0; i < times; i++) {
        truth_clear();
        pid_t pid = truth_start(&(truth_run_t){.mode = "sites", .words = {"child", "killed"}});
        for (int waited = 0; atomic_load(&truth->begun[1]) == 0 && waited < 100000; waited++)
            pause_us(1000);
        truth_check(atomic_load(&truth->begun[1]) != 0, "kill %d: the victim does not run", i);
        pause_us((unsigned long)rand() % 30000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        seen_t seen;
        seen_open(&seen);
        truth_check(seen.header->state == NA_NPROF_RUNNING,
                    "kill %d: the file says that all went well", i);
        uint64_t begun = 0, done = 0, counted = 0;
        for (unsigned t = 0; t < VICTIMS; t++) {
            begun += atomic_load(&truth->begun[t]);
            done += atomic_load(&truth->done[t]);
        }
        const na_site_t *first;
        na_counters_t sum = seen_sum(&seen, &truth->site[10], &first);
        counted = sum.alloc_count + sum.free_count;
        truth_check(counted >= done && counted <= begun,
                    "kill %d: %llu events in the file; %llu were done, %llu begun", i,
                    (unsigned long long)counted, (unsigned long long)done,
                    (unsigned long long)begun);
        for (uint32_t k = 0; k < na_reader_issue_count(seen.reader); k++) {
            char text[256];
            na_reader_issue_text(seen.reader, k, text, sizeof text);
            /* The one thing that a kill may leave: a chunk in the making. */
            truth_check(strstr(text, "where no chunk begins") != NULL, "kill %d: %s", i, text);
        }
        if (counted > most) most = counted;
        events += counted;
        seen_close(&seen);
    }
    printf("killed %d times: every file whole, %llu events, at most %llu in one\n", times,
           (unsigned long long)events, (unsigned long long)most);
}
