/* handover.c - two threads, of which one frees what the other allocated; blocks that grow; sizes
 * that change in the middle of the run: what the page must show of it.
 *
 * make_message(): 3,000 blocks of 200 bytes by the producer, freed by the consumer. grow(): 5
 * arrays from 100 bytes by doubling ten times. small() and large(): 2,000 blocks of 48 bytes in the
 * first half of the run, 500 of 9,000 bytes in the second; the large ones stay. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGES 3000
#define LARGE    500

static void *messages[MESSAGES], *stay[LARGE];
static pthread_barrier_t made, taken;

static void *make_message(void) {
    void *block = malloc(200);
    memset(block, 1, 200);
    return block;
}

static void *producer(void *arg) {
    pthread_setname_np(pthread_self(), "producer");
    for (int i = 0; i < MESSAGES; i++)
        messages[i] = make_message();
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&taken);
    return arg;
}

static void *consumer(void *arg) {
    pthread_setname_np(pthread_self(), "consumer");
    pthread_barrier_wait(&made);
    for (int i = 0; i < MESSAGES; i++)
        free(messages[i]);
    pthread_barrier_wait(&taken);
    return arg;
}

static void grow(void) {
    size_t size = 100;
    char *array = malloc(size);
    for (int i = 0; i < 10; i++) {
        array = realloc(array, size *= 2);
        memset(array, 1, size);
    }
    free(array);
}

static void small(void) {
    for (int i = 0; i < 2000; i++) {
        char *block = malloc(48);
        memset(block, 1, 48);
        free(block);
    }
}

static void large(void) {
    for (int i = 0; i < LARGE; i++)
        stay[i] = calloc(1, 9000);
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&made, NULL, 2);
    pthread_barrier_init(&taken, NULL, 2);
    small();
    pthread_create(&threads[0], NULL, producer, NULL);
    pthread_create(&threads[1], NULL, consumer, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    for (int i = 0; i < 5; i++)
        grow();
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    large();
    printf("%p\n", stay[0]);
    return 0;
}
