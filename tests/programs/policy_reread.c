/* policy_reread.c - a running program takes a changed policy: rules come, stay, go and come back;
 * what is garbled or half there changes nothing; a forked child goes on alike.
 *
 *   policy_reread FOLDER     the policy is FOLDER/policy, which this writes
 *
 * Status 0: all is so. It says on stdout what it did. */
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

#define SITE __attribute__((noinline, noclone, noipa)) static void *

enum { SIZE = 100, PATIENCE_MS = 100000, QUIET_MS = 2600 };

static const char *folder;
static void *(*heap_of)(const void *);

static void expect(bool right, const char *what, int line) {
    if (right) return;
    fprintf(stderr, "policy_reread: line %d: %s\n", line, what);
    exit(1);
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)

/* No call in tail position: its return address is what rules name. */
static void *keep(void *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

SITE site_a(void) {
    return keep(malloc(SIZE));
}

SITE site_b(void) {
    return keep(malloc(SIZE));
}

SITE by_two_ways(void) {
    return keep(malloc(SIZE));
}

SITE first_way(void) {
    return keep(by_two_ways());
}

SITE second_way(void) {
    return keep(by_two_ways());
}

static const struct site {
    const char *name;
    void *(*make)(void);
} sites[] = {{"a", site_a}, {"b", site_b}, {"1", first_way}, {"2", second_way}};
enum { SITES = sizeof sites / sizeof *sites };

/* The heap of what the site gives now; NULL: malloc's. */
static void *heap_now(const struct site *site) {
    void *block = site->make(), *heap = heap_of(block);
    free(block);
    return heap;
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Slow paths come by, and the processor rests most of the time. So many times 5 ms, not just until
 * then: where the machine lets it run seldom, it looks as often. */
static void work_ms(long ms) {
    for (long turn = 0; turn < ms / 5; turn++) {
        static void *blocks[2000];
        for (int i = 0; i < 2000; i++)
            blocks[i] = malloc((size_t)(16 + i % 64 * 16));
        for (int i = 0; i < 2000; i++)
            free(blocks[i]);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

/* Which sites are ruled, as a text of their names. */
static const char *ruled(void) {
    static char names[SITES + 1];
    int n = 0;
    for (int i = 0; i < SITES; i++)
        if (heap_now(&sites[i]) != NULL) names[n++] = sites[i].name[0];
    names[n] = 0;
    return names;
}

static void write_file(const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    EXPECT(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* Whole, and renamed into place. */
static void put(const char *rules) {
    char text[4096], from[4096], to[4096];
    snprintf(text, sizeof text, "numalloc policy 1\nprogram any\n%s", rules);
    write_file("policy.new", text);
    snprintf(from, sizeof from, "%s/policy.new", folder);
    snprintf(to, sizeof to, "%s/policy", folder);
    EXPECT(rename(from, to) == 0);
}

static void await(const char *wanted) {
    long end = now_ms() + PATIENCE_MS;
    while (strcmp(ruled(), wanted) != 0 && now_ms() < end)
        work_ms(20);
    if (strcmp(ruled(), wanted) == 0) return;
    fprintf(stderr, "policy_reread: '%s' are ruled, not '%s'\n", ruled(), wanted);
    exit(1);
}

static void stays(const char *wanted) {
    work_ms(QUIET_MS);
    if (strcmp(ruled(), wanted) == 0) return;
    fprintf(stderr, "policy_reread: '%s' are ruled, no more '%s'\n", ruled(), wanted);
    exit(1);
}

#define A "site site_a : place=local, control=off\n"
#define B "site site_b : group=g\n"
#define G "group g : place=first-touch, control=off\n"
#define W "site by_two_ways < first_way : life=long, control=off\n"

static void in_child(void) {
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        EXPECT(strcmp(ruled(), "a1") == 0);
        put(W);
        await("1");
        _exit(0);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    await("1"); /* of the same file */
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    folder = argv[1];
    *(void **)&heap_of = dlsym(RTLD_DEFAULT, "numalloc_heap_of");
    EXPECT(heap_of != NULL);
    EXPECT(strcmp(ruled(), "") == 0); /* there is no file yet */

    put(A);
    await("a");
    void *heap = heap_now(&sites[0]);
    char *old = site_a();
    memset(old, 7, SIZE);

    put(G B W A); /* another place in the file */
    await("ab1");
    EXPECT(heap_now(&sites[0]) == heap);

    put(G B W);
    await("b1");
    EXPECT(heap_of(old) == heap && old[0] == 7 && old[SIZE - 1] == 7);
    old = realloc(old, 5 * SIZE);
    EXPECT(heap_of(old) == heap && old[SIZE - 1] == 7);
    free(old);

    put(G B W "site nonsense\n");
    stays("b1");
    write_file("policy", "numalloc policy 1\nprogram any\n" G B "site site_a : place=local");
    stays("b1");

    put(A W);
    await("a1");
    EXPECT(heap_now(&sites[0]) == heap); /* the rule is the same one again */
    in_child();

    put("");
    await("");
    put(A G B W);
    await("ab1");
    put("garbage\n");
    work_ms(QUIET_MS);
    puts("all as it should be");
    return 0;
}
