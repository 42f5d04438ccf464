/* site_of.c - numalloc_find_site: what it says of a block is what the profile says of it later, any
 * address may be asked for, and handlers of signals may ask while malloc is interrupted. */
#include "support/check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numalloc/numalloc.h"
#include "numalloc/profile.h"

enum { SMALL = 77, LARGE = 3 << 20, SIGNALS = 300 };

typedef struct made {
    char *block;
    size_t size;
    uint32_t tid;
    numalloc_site_t site;
} made_t;

__attribute__((noinline)) void *site_of_makes_it(size_t size) {
    return check_opaque(malloc(size));
}

static void look(made_t *made) {
    const size_t at[] = {0, made->size / 2, made->size - 1};
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        numalloc_site_t site;
        memset(&site, 0xff, sizeof site);
        REQUIRE(numalloc_find_site(made->block + at[i], &site, sizeof site) == 0);
        CHECK(site.block == made->block && site.size == made->size);
        CHECK(site.stack != 0 && site.thread != 0 && site.node >= 0 && site.reserved == 0);
        if (i > 0) CHECK(site.stack == made->site.stack && site.age >= made->site.age);
        made->site = site;
    }
}

static void *make(void *argument) {
    made_t *made = argument;
    made->tid = (uint32_t)syscall(SYS_gettid);
    made->block = site_of_makes_it(made->size);
    look(made);
    return NULL;
}

/* ---- what the profile says ---- */

static void check_file(const char *file, const made_t *made) {
    char why[256];
    numalloc_profile_frame_t frames[32];
    numalloc_profile_thread_t thread;
    bool found = false;
    numalloc_profile_t *profile = numalloc_profile_open(file, why, sizeof why);
    if (profile == NULL) fprintf(stderr, "%s: %s\n", file, why);
    REQUIRE(profile != NULL);
    size_t count =
        numalloc_profile_stack_frames(profile, made->site.stack, 0, frames, sizeof frames[0], 32);
    for (size_t i = 0; i < count && i < 32; i++)
        found |= frames[i].function != NULL && strcmp(frames[i].function, "site_of_makes_it") == 0;
    CHECK(found);
    REQUIRE(numalloc_profile_thread(profile, made->site.thread, &thread, sizeof thread) == 0);
    CHECK(thread.tid == made->tid);
    numalloc_profile_close(profile);
}

/* ---- in handlers ---- */

static made_t kept = {.size = SMALL};
static _Atomic int handled;
static _Atomic bool over;
static void *_Atomic churned;

static void handler(int signal) {
    numalloc_site_t site;
    int before = errno = 4711;
    (void)signal;
    if (numalloc_find_site(kept.block, &site, sizeof site) != 0 || site.stack != kept.site.stack)
        _exit(3);
    char *block = atomic_load(&churned);
    if (numalloc_find_site(block, &site, sizeof site) == 0 && site.block != block) _exit(4);
    if (errno != before) _exit(5);
    atomic_fetch_add(&handled, 1);
}

static void *churn(void *argument) {
    (void)argument;
    for (size_t i = 0; !atomic_load(&over); i++) {
        free(atomic_load(&churned));
        atomic_store(&churned, malloc(i % 50 == 0 ? 100000 : 16 + i % 3000));
    }
    return NULL;
}

/* Each signal has been handled before the next is sent. */
static void check_handlers(void) {
    pthread_t thread;
    REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler}, NULL) == 0);
    REQUIRE(pthread_create(&thread, NULL, churn, NULL) == 0);
    for (int sent = 0; sent < SIGNALS; sent++) {
        REQUIRE(pthread_kill(thread, SIGUSR1) == 0);
        while (atomic_load(&handled) == sent)
            sched_yield();
    }
    atomic_store(&over, true);
    REQUIRE(pthread_join(thread, NULL) == 0);
    free(atomic_load(&churned));
}

int main(void) {
    static made_t small = {.size = SMALL}, large = {.size = LARGE};
    numalloc_site_t site;
    char file[64];
    pthread_t thread;
    check_begin();
    void *before = check_opaque(malloc(SMALL));
    CHECK(numalloc_find_site(before, &site, sizeof site) == -1);
    snprintf(file, sizeof file, "site_of.%d.nprof", (int)getpid());
    REQUIRE(numalloc_record_start(NUMALLOC_MODE_SITES, file) == 0);
    CHECK(numalloc_find_site(before, &site, sizeof site) == -1);
    make(&kept);
    make(&small);
    REQUIRE(pthread_create(&thread, NULL, make, &large) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(large.site.thread != small.site.thread);
    const uintptr_t none[] = {0, 1, 4096, (uintptr_t)&site, (uintptr_t)main, UINTPTR_MAX};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK(numalloc_find_site((const void *)none[i], &site, sizeof site) == -1);
    char *freed = check_opaque(malloc(LARGE));
    free(freed);
    CHECK(numalloc_find_site(check_opaque(freed), &site, sizeof site) == -1);
    check_handlers();
    REQUIRE(numalloc_record_stop() == 0);
    CHECK(numalloc_find_site(small.block, &site, sizeof site) == -1);
    check_file(file, &small);
    check_file(file, &large);
    unlink(file);
    return check_status();
}
