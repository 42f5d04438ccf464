/* fork_anywhere.c - fork whatever the others do, and whatever it interrupts.
 *
 *     fork_anywhere files FORKS      threads that have a FILE locked and call malloc, one that
 *                                    flushes them all, and two that fork
 *     fork_anywhere held FORKS       the list of all FILEs stays locked until another thread, by
 *                                    now at the closed gate, has done all kinds of calls
 *     fork_anywhere inside FORKS     signal handlers fork where they interrupted fork
 *     fork_anywhere malloc FORKS     where they interrupted malloc, free and realloc
 *     ... threads                    the latter two with threads that allocate besides
 *     fork_anywhere all FORKS        each of these, one after the other
 *
 * Children end at once, or go on with what was interrupted and with more. What stands still ends by
 * SIGALRM. */
#include "support/check.h"
#include "support/fill.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define WORKERS     3
#define SLOTS       64
#define LIMIT       300 /* seconds */
#define CHILD_LIMIT 200

static int stop; /* __atomic */
static unsigned forks;
static unsigned done;         /* __atomic: forks so far */
static volatile int is_child; /* set in a child that goes on */
static volatile unsigned child_steps;

typedef struct slot {
    void *at;
    size_t size;
} slot_t;

static void step(slot_t *slots, uint64_t *random) {
    slot_t *s = &slots[fill_random(random) % SLOTS];
    if (s->at != NULL) CHECK_MSG(fill_holds(s->at, s->size, s->size), "%zu bytes", s->size);
    unsigned how = (unsigned)(fill_random(random) % 8);
    size_t size = fill_random_size(random, fill_random(random) % 64 == 0 ? 19 : 12);
    if (how == 0 && s->at != NULL) {
        s->at = realloc(s->at, size);
    } else {
        free(s->at);
        s->at = how == 1 ? calloc(1, size) : how == 2 ? aligned_alloc(64, size) : malloc(size);
    }
    REQUIRE(s->at != NULL);
    s->size = size;
    fill_block(s->at, size, size);
}

static void empty(slot_t *slots) {
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].at != NULL)
            CHECK_MSG(fill_holds(slots[i].at, slots[i].size, slots[i].size), "%zu bytes",
                      slots[i].size);
        free(slots[i].at);
        slots[i] = (slot_t){NULL, 0};
    }
}

static void *churn(void *argument) {
    slot_t slots[SLOTS] = {{NULL, 0}};
    uint64_t random = (uint64_t)(uintptr_t)argument + 11;
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0)
        step(slots, &random);
    empty(slots);
    return NULL;
}

static void reap(pid_t pid) {
    int status = 0;
    pid_t found;
    while ((found = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        continue;
    if (found < 0 && is_child != 0) return; /* made where its parent waited for another */
    REQUIRE(found == pid);
    CHECK_MSG(status == 0, "child %ld: status %#x", (long)pid, (unsigned)status);
}

/* What a child does that was made by a thread that was not interrupted. */
static void work_in_child(uint64_t seed) {
    slot_t slots[SLOTS] = {{NULL, 0}};
    for (unsigned i = 0; i < 300; i++)
        step(slots, &seed);
    empty(slots);
}

static void *start_in_child(void *argument) {
    work_in_child((uint64_t)(uintptr_t)argument);
    return NULL;
}

__attribute__((noreturn)) static void end_child(unsigned turn) {
    alarm(CHILD_LIMIT);
    if (turn % 4 != 0) work_in_child(turn);
    if (turn % 8 == 1) {
        pthread_t id;
        REQUIRE(pthread_create(&id, NULL, start_in_child, (void *)(uintptr_t)turn) == 0);
        REQUIRE(pthread_join(id, NULL) == 0);
    }
    _exit(check_status());
}

static void fork_once(void) {
    unsigned turn = __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) end_child(turn);
    reap(pid);
}

/* --- files --- */

static void *read_lines(void *argument) {
    (void)argument;
    uint64_t random = 5;
    slot_t slots[SLOTS] = {{NULL, 0}};
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
        FILE *file = tmpfile();
        REQUIRE(file != NULL);
        for (unsigned i = 0; i < 20; i++) {
            for (unsigned k = 0; k < 2000; k++)
                fputc('a' + (int)(k % 26), file);
            fputc('\n', file);
        }
        rewind(file);
        flockfile(file);
        char *line = NULL;
        size_t room = 0;
        while (getline(&line, &room, file) > 0) {
            for (unsigned i = 0; i < 20; i++)
                step(slots, &random);
            free(line);
            line = NULL;
            room = 0;
        }
        free(line);
        funlockfile(file);
        fclose(file);
    }
    empty(slots);
    return NULL;
}

static void *flush_all(void *argument) {
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0)
        fflush(NULL);
    return argument;
}

static void *fork_on(void *argument) {
    while (__atomic_load_n(&done, __ATOMIC_RELAXED) < forks)
        fork_once();
    return argument;
}

static void among_files(void) {
    pthread_t readers[2], flusher, forkers[2];
    for (unsigned i = 0; i < 2; i++)
        REQUIRE(pthread_create(&readers[i], NULL, read_lines, NULL) == 0);
    REQUIRE(pthread_create(&flusher, NULL, flush_all, NULL) == 0);
    for (unsigned i = 0; i < 2; i++)
        REQUIRE(pthread_create(&forkers[i], NULL, fork_on, NULL) == 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(forkers[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    pthread_join(flusher, NULL);
}

/* --- held ---
 *
 * A thread flushes all files; that waits for one which the holder has locked. When the fork has
 * begun the holder does what it finds to do, in threads that end and begin, too, and only then lets
 * go. */

static FILE *held;
static int turn_of; /* __atomic: 1 the file is locked, 2 it is being flushed */

static void *begin_and_end(void *argument) {
    slot_t *slots = argument;
    uint64_t random = 3;
    for (unsigned i = 0; i < 500; i++)
        step(slots, &random);
    return NULL;
}

static void *hold(void *argument) {
    uint64_t random = 7;
    slot_t slots[SLOTS] = {{NULL, 0}};
    flockfile(held);
    __atomic_store_n(&turn_of, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&turn_of, __ATOMIC_ACQUIRE) != 3)
        sched_yield();
    usleep(1000); /* the other forks */
    for (unsigned i = 0; i < 3000; i++)
        step(slots, &random);
    slot_t others[SLOTS] = {{NULL, 0}};
    pthread_t id;
    REQUIRE(pthread_create(&id, NULL, begin_and_end, others) == 0);
    REQUIRE(pthread_join(id, NULL) == 0);
    void *large = malloc(3 << 20);
    REQUIRE(large != NULL);
    large = realloc(large, 5 << 20);
    REQUIRE(large != NULL);
    free(large);
    enum { MANY = 20000 };
    static void *many[MANY];
    for (unsigned i = 0; i < MANY; i++)
        REQUIRE((many[i] = malloc(48)) != NULL);
    funlockfile(held);
    for (unsigned i = 0; i < MANY; i++)
        free(many[i]);
    empty(others);
    empty(slots);
    return argument;
}

static void *flush_held(void *argument) {
    while (__atomic_load_n(&turn_of, __ATOMIC_ACQUIRE) != 1)
        sched_yield();
    __atomic_store_n(&turn_of, 2, __ATOMIC_RELEASE);
    fflush(NULL);
    return argument;
}

static void while_held(void) {
    held = tmpfile();
    REQUIRE(held != NULL);
    fork_once();
    while (__atomic_load_n(&done, __ATOMIC_RELAXED) < forks) {
        pthread_t holder, flusher;
        fputc('x', held);
        __atomic_store_n(&turn_of, 0, __ATOMIC_RELEASE);
        REQUIRE(pthread_create(&holder, NULL, hold, NULL) == 0);
        REQUIRE(pthread_create(&flusher, NULL, flush_held, NULL) == 0);
        while (__atomic_load_n(&turn_of, __ATOMIC_ACQUIRE) != 2)
            sched_yield();
        usleep(2000); /* it has the list */
        __atomic_store_n(&turn_of, 3, __ATOMIC_RELEASE);
        fork_once();
        pthread_join(holder, NULL);
        pthread_join(flusher, NULL);
    }
}

/* --- in handlers --- */

/* The C library's fork does not go on in a child that was made inside of it, if there are threads.
 */
static bool ends_at_once;

/* The parent waits in the handler, so one child is alive at a time. */
static void on_timer(int number) {
    (void)number;
    if (is_child != 0 || __atomic_load_n(&done, __ATOMIC_RELAXED) >= forks) return;
    int saved = errno;
    unsigned turn = __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(CHILD_LIMIT);
        if (turn % 2 == 0 || ends_at_once) _exit(check_status());
        is_child = 1; /* goes on */
        child_steps = 500;
    } else {
        reap(pid);
    }
    errno = saved;
}

static void start_timer(void) {
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec every = {{0, 300000}, {0, 300000}};
    REQUIRE(timer_settime(timer, 0, &every, NULL) == 0);
}

static void in_handlers(bool in_fork) {
    slot_t slots[SLOTS] = {{NULL, 0}};
    uint64_t random = 23;
    start_timer();
    while (__atomic_load_n(&done, __ATOMIC_RELAXED) < forks || is_child != 0) {
        if (in_fork && is_child == 0) {
            pid_t pid = fork();
            REQUIRE(pid >= 0);
            if (pid == 0) _exit(check_status());
            if (is_child == 0) reap(pid); /* else whose child it is depends on where this began */
        } else {
            step(slots, &random);
        }
        if (is_child == 0 || --child_steps != 0) continue;
        empty(slots);
        _exit(check_status());
    }
    empty(slots);
}

static pthread_t workers[WORKERS];

static void start_workers(void) {
    sigset_t timer, old;
    sigemptyset(&timer);
    sigaddset(&timer, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &timer, &old);
    for (unsigned i = 0; i < WORKERS; i++)
        REQUIRE(pthread_create(&workers[i], NULL, churn, (void *)(uintptr_t)i) == 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void remove_files(const char *directory) {
    DIR *files = directory != NULL ? opendir(directory) : NULL;
    if (files == NULL) return;
    for (struct dirent *e; (e = readdir(files)) != NULL;)
        if (e->d_name[0] != '.') unlinkat(dirfd(files), e->d_name, 0);
    closedir(files);
}

/* With NA_TEST_FILES=DIRECTORY that is emptied of profiles. */
static int each(const char *count) {
    static const char *const modes[][2] = {{"files", NULL},       {"held", NULL},
                                           {"inside", NULL},      {"malloc", NULL},
                                           {"inside", "threads"}, {"malloc", "threads"}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            execl("/proc/self/exe", "fork_anywhere", modes[i][0], i == 1 ? "5" : count, modes[i][1],
                  NULL);
            _exit(127);
        }
        int status = 0;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_MSG(status == 0, "%s %s: status %#x", modes[i][0],
                  modes[i][1] != NULL ? modes[i][1] : "", (unsigned)status);
        remove_files(getenv("NA_TEST_FILES"));
    }
    return check_status();
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc >= 3);
    if (strcmp(argv[1], "all") == 0) return each(argv[2]);
    forks = (unsigned)strtoul(argv[2], NULL, 10);
    alarm(LIMIT);
    bool threads = argc > 3 && strcmp(argv[3], "threads") == 0;
    if (threads) start_workers();
    ends_at_once = threads && strcmp(argv[1], "inside") == 0;
    if (strcmp(argv[1], "files") == 0)
        among_files();
    else if (strcmp(argv[1], "held") == 0)
        while_held();
    else
        in_handlers(strcmp(argv[1], "inside") == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &timer, NULL);
    for (unsigned i = 0; threads && i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    return check_status();
}
