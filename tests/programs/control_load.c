/* control_load.c - a program that steers its profile itself, or is steered from outside. Built
 * without the library; it runs without it as well. Usage: control_load ROLE; prints what the test
 * needs to know. */
#define NUMALLOC_WEAK
#include <numalloc/numalloc.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))

static void *kept[100000];
static size_t kept_count;

SITE static void early(void) {
    for (int i = 0; i < 500; i++)
        kept[kept_count++] = malloc(64);
}

SITE static void inside(void) {
    for (int i = 0; i < 300; i++)
        kept[kept_count++] = malloc(64);
}

SITE static void between(void) {
    for (int i = 0; i < 200; i++)
        kept[kept_count++] = malloc(64);
}

SITE static void grown(size_t bytes) {
    char *block = malloc(bytes);
    memset(block, 1, bytes);
    kept[kept_count++] = block;
}

static void drop(size_t count) {
    while (count-- > 0 && kept_count > 0)
        free(kept[--kept_count]);
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Allocates and frees at full speed for so long, and not less than 100,000 times even where the
 * machine is too busy to run it. */
static long longest; /* ms of a round: that long it did not look */

static void churn(long ms) {
    long from = now_ms(), end = from + ms;
    for (int round = 0; round < 50 || from < end; round++) {
        for (int i = 0; i < 2000; i++) {
            char *volatile block = malloc((size_t)(16 + i % 64));
            free(block);
        }
        long now = now_ms();
        if (now - from > longest) longest = now - from;
        from = now;
    }
}

/* Three profiles; the counts of each are known exactly. */
static int api(void) {
    const char *name = getenv("CONTROL_MODE");
    numalloc_mode_t mode = name == NULL                  ? NUMALLOC_MODE_SITES
                           : strcmp(name, "sample") == 0 ? NUMALLOC_MODE_SAMPLE
                           : strcmp(name, "trace") == 0  ? NUMALLOC_MODE_TRACE
                                                         : NUMALLOC_MODE_SITES;
    early();
    int first = NUMALLOC_IF(numalloc_record_start, -1, (mode, NULL));
    inside();
    drop(400); /* 300 of inside, 100 of before */
    NUMALLOC_IF(numalloc_record_marker, (void)0, ("half way"));
    inside();
    int dumped = NUMALLOC_IF(numalloc_record_dump, -1, ());
    int stopped = NUMALLOC_IF(numalloc_record_stop, -1, ());
    between();
    drop(250); /* 200 of between, 50 of the first profile */
    int second = NUMALLOC_IF(numalloc_record_start, -1, (mode, NULL));
    drop(300); /* 250 of the first profile, 50 from before it */
    inside();
    NUMALLOC_IF(numalloc_record_stop, -1, ());
    inside();
    int third = NUMALLOC_IF(numalloc_record_start, -1, (NUMALLOC_MODE_DEFAULT, NULL));
    NUMALLOC_IF(numalloc_record_stop, -1, ());
    printf("%d %d %d %d %d running %d\n", first, dumped, stopped, second, third,
           NUMALLOC_IF(numalloc_record_is_running, -1, ()));
    return 0;
}

/* Each profile has what its own call says. */
static int settings(void) {
    static const struct {
        numalloc_mode_t mode;
        const char *settings;
    } calls[] = {{NUMALLOC_MODE_SITES, "access=watch"},
                 {NUMALLOC_MODE_SAMPLE, "SAMPLE_INTERVAL=64K,python=0"},
                 {NUMALLOC_MODE_SITES, "profile_frees=1"},
                 {NUMALLOC_MODE_SITES, NULL},
                 {NUMALLOC_MODE_SITES, "access=magic"},
                 {NUMALLOC_MODE_SITES, "python"},
                 {NUMALLOC_MODE_SITES, "access,"},
                 {NUMALLOC_MODE_SITES, "stats=1"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const numalloc_record_options_t options = {
            .size = sizeof options, .mode = calls[i].mode, .settings = calls[i].settings};
        errno = 0;
        int begun = NUMALLOC_IF(numalloc_record_start_with, -1, (&options));
        printf("%d%s ", begun, begun != 0 && errno == EINVAL ? "!" : "");
        inside();
        drop(300);
        NUMALLOC_IF(numalloc_record_stop, -1, ());
    }
    return 0;
}

/* An allocator of its own over one large block. */
static char *arena;
static size_t arena_used;

SITE static void *pool_take(numalloc_pool_t *pool, size_t size) {
    void *block = arena + arena_used;
    arena_used += size;
    NUMALLOC_IF(numalloc_pool_alloc, (void)0, (pool, block, size));
    return block;
}

SITE static void pool_user_a(numalloc_pool_t *pool, void **blocks) {
    for (int i = 0; i < 100; i++)
        blocks[i] = pool_take(pool, 32);
}

SITE static void pool_user_b(numalloc_pool_t *pool, void **blocks) {
    for (int i = 0; i < 50; i++)
        blocks[i] = pool_take(pool, 1000);
}

static int pools(void) {
    void *a[100], *b[50], *c[100];
    arena = malloc(1 << 20);
    numalloc_pool_t *pool = NUMALLOC_IF(numalloc_pool_create, NULL, ("test arena"));
    numalloc_pool_t *other = NUMALLOC_IF(numalloc_pool_create, NULL, ("short-lived"));
    NUMALLOC_IF(numalloc_record_marker, (void)0, ("pools begin"));
    pool_user_a(pool, a);
    pool_user_b(pool, b); /* the peak: 3,200 + 50,000 */
    for (int i = 0; i < 50; i++)
        NUMALLOC_IF(numalloc_pool_free, (void)0, (pool, b[i]));
    for (int i = 0; i < 40; i++)
        NUMALLOC_IF(numalloc_pool_free, (void)0, (pool, a[i]));
    NUMALLOC_IF(numalloc_pool_free, (void)0, (pool, arena + (1 << 19))); /* never announced */
    pool_user_a(other, c);
    NUMALLOC_IF(numalloc_pool_destroy, (void)0, (other));
    NUMALLOC_IF(numalloc_record_marker, (void)0, ("pools end"));
    return 0;
}

/* A child frees half of what it inherited; so does its own child. */
static int family(void) {
    early();
    inside();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        drop(100); /* of inside */
        between();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            drop(350); /* 200 of between, 150 of inside */
            exit(0);
        }
        waitpid(grandchild, NULL, 0);
        printf("grandchild %d\n", (int)grandchild);
        exit(0);
    }
    waitpid(child, NULL, 0);
    printf("parent %d child %d\n", (int)getpid(), (int)child);
    return 0;
}

static int signals(void) {
    churn(50);
    raise(SIGUSR1); /* begins */
    churn(100);
    inside();
    raise(SIGUSR2); /* copies */
    churn(100);
    raise(SIGUSR1); /* ends */
    churn(100);
    raise(SIGUSR1); /* begins another */
    churn(100);
    between();
    raise(SIGUSR1);
    churn(50);
    return 0;
}

static int grow(void) {
    for (int i = 0; i < 40; i++) {
        grown(1 << 20);
        churn(30);
    }
    return 0;
}

static int wait_for(const char *ms) {
    long from = now_ms();
    puts("running");
    fflush(stdout);
    churn(atol(ms));
    printf("%ld ms, a round of %ld\n", now_ms() - from, longest);
    return 0;
}

int main(int argc, char **argv) {
    const char *role = argc > 1 ? argv[1] : "";
    if (strcmp(role, "api") == 0) return api();
    if (strcmp(role, "settings") == 0) return settings();
    if (strcmp(role, "pools") == 0) return pools();
    if (strcmp(role, "family") == 0) return family();
    if (strcmp(role, "signals") == 0) return signals();
    if (strcmp(role, "grow") == 0) return grow();
    if (strcmp(role, "churn") == 0 && argc > 2) return wait_for(argv[2]);
    if (strcmp(role, "sleep") == 0) { /* hardly ever allocates */
        free(malloc(10));
        sleep(600); /* is killed */
        return 0;
    }
    fprintf(stderr, "control_load: no such role\n");
    return 2;
}
