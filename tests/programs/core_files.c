/* core_files.c - a process to make a core file of: it uses `argv[1]` MiB in small and large blocks,
 * with four threads, frees some, says that it is ready and waits; `argv[2]` is in a block that the
 * core file must hold. With a third argument it ends by abort(). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, BLOCKS = 64 };

static char *kept[THREADS][BLOCKS];
static size_t bytes;

static void *use(void *argument) {
    char **blocks = argument;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t each = i % 2 == 0 ? 48 : 70000, count = bytes / THREADS / BLOCKS / each;
        for (size_t k = 0; k < count; k++) {
            char *block = malloc(each);
            if (block == NULL) abort();
            memset(block, (int)i + 1, each);
            *(char **)block = blocks[i];
            blocks[i] = block;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    bytes = strtoul(argv[1], NULL, 10) << 20;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, use, kept[i]) != 0) return 1;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    /* Reversed there: what the command line has is in the core file anyhow. */
    size_t length = strlen(argv[2]);
    char *mark = malloc(length + 1), *far = malloc(1000000);
    if (mark == NULL || far == NULL) return 1;
    for (size_t i = 0; i < length; i++)
        far[500000 + i] = mark[i] = argv[2][length - 1 - i];
    puts("ready");
    fflush(stdout);
    if (argc > 3) abort();
    sleep(600);
    return mark[0] == far[0];
}
