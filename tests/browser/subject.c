/* subject.c - a program whose memory is known: what the page must show of it.
 *
 * keep_records() leaves 2,000 blocks of 1,000 bytes; parse() makes 30,000 temporary blocks of 48
 * bytes through a wrapper; build_table() grows one array by realloc to 640,000 bytes and frees it;
 * keep_cache() leaves 100 blocks of 3,000 bytes. What is kept is there before the first half of the
 * run is over, however slow the machine is. With an argument it is a later version of itself: half
 * as many records, an index of 250 blocks of 4,000 bytes, and no cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT 2000

static void *kept[KEPT], *cache[100], *entries[250];

static void rest(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void keep_records(int count) {
    for (int i = 0; i < count; i++) {
        kept[i] = malloc(1000);
        memset(kept[i], i, 1000);
        if (i % 100 == 0) rest(10);
    }
}

static void keep_cache(void) {
    for (int i = 0; i < 100; i++)
        cache[i] = calloc(1, 3000);
}

static void keep_index(void) {
    for (int i = 0; i < 250; i++)
        entries[i] = calloc(1, 4000);
}

static void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (block == NULL) abort();
    return block;
}

static size_t parse(void) {
    size_t sum = 0;
    for (int i = 0; i < 30000; i++) {
        char *word = xmalloc(48);
        memset(word, 'a' + i % 26, 48);
        sum += (size_t)word[7];
        free(word);
    }
    return sum;
}

static size_t lex(void) {
    char *line = xmalloc(4096);
    memset(line, 'x', 4096);
    size_t sum = (size_t)line[100] + parse();
    free(line);
    return sum;
}

static void build_table(void) {
    char *table = NULL;
    for (size_t size = 10000; size <= 640000; size *= 2) {
        table = realloc(table, size);
        memset(table, 1, size);
        rest(20);
    }
    free(table);
}

int main(int argc, char **argv) {
    (void)argv;
    long begun = now_ms();
    keep_records(argc > 1 ? KEPT / 2 : KEPT);
    if (argc > 1)
        keep_index();
    else
        keep_cache();
    size_t sum = lex();
    long first_part = now_ms() - begun;
    build_table();
    rest(100);
    long left = begun + 3 * first_part - now_ms();
    if (left > 0) rest(left);
    printf("%zu\n", sum);
    return 0;
}
