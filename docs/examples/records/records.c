/* records.c - a reader on the first CPU makes batches of records, a worker on the last CPU looks
 * records up in them. With `there` the batches are made on the worker's node.
 *
 *     cc -g -O2 -pthread records.c -lnumalloc -o records
 *     numalloc-run --profile --access=watch -o records.nprof ./records here 70
 *     numalloc-dump verdicts records.nprof */
#define _GNU_SOURCE
#include <numalloc/numalloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS = 1 << 12, REQUESTS = 2000, LOOKUPS = 2048 };

typedef struct record {
    uint64_t key, seen, value[6];
} record_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static record_t *waiting; /* batch that was read and not taken */
static int over, worker_node = -1, batches;

static int run_on(long cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) perror("sched_setaffinity");
    return numalloc_current_node();
}

static record_t *hand_over(record_t *batch) {
    pthread_mutex_lock(&lock);
    while (batch != NULL ? waiting != NULL : waiting == NULL && !over)
        pthread_cond_wait(&changed, &lock);
    record_t *was = waiting;
    waiting = batch;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return was;
}

static record_t *read_batch(int where) {
    size_t size = RECORDS * sizeof(record_t);
    record_t *batch = where < 0 ? malloc(size) : numalloc_alloc_onnode(size, where);
    if (batch == NULL) exit(1);
    for (uint64_t i = 0; i < RECORDS; i++)
        batch[i] = (record_t){.key = i, .value = {i, i * 3}};
    return batch;
}

static uint64_t look_up(record_t *batch) {
    uint64_t sum = 0, random = 1;
    for (int i = 0; i < REQUESTS * LOOKUPS; i++) {
        if (i % LOOKUPS == 0) usleep(4000); /* until the next request */
        random = random * 6364136223846793005u + 1;
        record_t *r = &batch[random >> 52];
        if (r->key % 4 == 0) r->seen++;
        sum += r->value[random >> 40 & 1];
    }
    return sum;
}

static void *worker(void *argument) {
    uint64_t *sum = argument;
    int node = run_on(sysconf(_SC_NPROCESSORS_ONLN) - 1);
    pthread_mutex_lock(&lock);
    worker_node = node;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (record_t *batch; (batch = hand_over(NULL)) != NULL; free(batch), batches++)
        *sum += look_up(batch);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3 || (strcmp(argv[1], "here") != 0 && strcmp(argv[1], "there") != 0) ||
        atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: records here|there SECONDS\n");
        return 2;
    }
    uint64_t sum = 0;
    pthread_t other;
    if (pthread_create(&other, NULL, worker, &sum) != 0) return 1;
    pthread_setname_np(other, "worker");
    pthread_mutex_lock(&lock);
    while (worker_node < 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    run_on(0);
    int where = strcmp(argv[1], "there") == 0 ? worker_node : -1;
    for (time_t end = time(NULL) + atoi(argv[2]); time(NULL) < end;)
        hand_over(read_batch(where));
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(other, NULL);
    free(waiting);
    printf("%d batches, sum %llu\n", batches, (unsigned long long)sum);
    return 0;
}
