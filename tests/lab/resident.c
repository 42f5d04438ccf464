/* resident.c - memory by node, as a profile has it: physical over time, against the kernel's word;
 * live and held at the end, against what the program did.
 *
 * lab-resident runs itself under a profile (RESIDENT_LIB): the child takes 24 MiB on one node,
 * moves them to another, and gives them back, each when it is told to, and judges with move_pages
 * where they lie. Meanwhile this process reads the profile that the child is writing, and waits
 * until it says the same. At the end RESIDENT_DUMP, numalloc-dump, shows what it was. */
#include "lab.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/format/reader/reader.h"

#define PROFILE   "/tmp/resident.nprof"
#define BYTES     ((size_t)24 << 20)
#define CLOSE     ((int64_t)4 << 20) /* what else may come and go meanwhile */
#define WAIT_MS   120000u
#define BIND      2
#define MOVE_THEM 2

static void bind_to(void *start, int node, unsigned flags) {
    unsigned long mask[LAB_NODES / (8 * sizeof(long)) + 1] = {0};
    mask[(size_t)node / (8 * sizeof(long))] = 1ul << ((size_t)node % (8 * sizeof(long)));
    REQUIRE(syscall(SYS_mbind, start, BYTES, BIND, mask, (unsigned long)LAB_NODES + 1, flags) == 0);
}

static void judge(void *start, int index) {
    lab_block_t block = {.start = start, .size = BYTES};
    lab_pages_t pages = {{0}, 0, 0, 0};
    lab_judge(&block, 1, false, &pages);
    lab_expect_on(&pages, index, "memory of the child");
}

/* Blocks that threads on two nodes allocate; of the second node's, this thread frees every other
 * one. */
#define BLOCKS     96
#define BLOCK_SIZE ((size_t)32000)
#define OTHERS     ((int64_t)64 << 10) /* what else is live on a node at the end */

typedef struct allocator {
    int node;
    void *blocks[BLOCKS];
} allocator_t;

static void *allocate_there(void *arg) {
    allocator_t *a = arg;
    lab_pin(a->node);
    for (int i = 0; i < BLOCKS; i++)
        REQUIRE((a->blocks[i] = malloc(BLOCK_SIZE)) != NULL);
    return NULL;
}

static void allocate_on_both(int from, int to) {
    static allocator_t on[2];
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        on[i].node = i == 0 ? from : to;
        REQUIRE(pthread_create(&thread, NULL, allocate_there, &on[i]) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    for (int i = 0; i < BLOCKS; i += 2)
        free(on[1].blocks[i]);
}

/* Waits for a byte, says one when the next step is done. */
static int child(int from, int to, const int *home) {
    char step = 0;
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    for (int i = 0; i < 64; i++)
        free(malloc(1000)); /* a profile without an event has no thread */
    while (read(0, &step, 1) == 1) {
        if (step == 'a') {
            bind_to(memory, lab_node[from].id, 0);
            memset(memory, 1, BYTES);
            judge(memory, from);
        } else if (step == 'b') {
            bind_to(memory, lab_node[to].id, MOVE_THEM);
            judge(memory, to);
        } else {
            REQUIRE(munmap(memory, BYTES) == 0);
        }
        REQUIRE(write(3, "k", 1) == 1);
    }
    allocate_on_both(home[0], home[1]);
    return lab_status(check_status());
}

typedef struct levels {
    int64_t now[LAB_NODES], most[LAB_NODES]; /* by table index; 0 of nodes not in the profile */
    bool any;
} levels_t;

static char why[256]; /* the profile cannot be read */

static bool read_levels(levels_t *levels, uint32_t kind) {
    for (int i = 0; i < LAB_NODES; i++)
        levels->now[i] = levels->most[i] = 0;
    levels->any = false;
    na_reader_t *reader = na_reader_open(PROFILE, why, sizeof why);
    if (reader == NULL) return false;
    const na_nprof_header_t *h = na_reader_header(reader);
    na_series_table_t t = na_reader_series(reader, kind);
    for (uint32_t r = 0; r < t.rows; r++) {
        int i = t.row[r].id < NA_NPROF_MAX_NODES ? lab_index(h->node_ids[t.row[r].id]) : -1;
        if (i < 0) continue;
        levels->any |= t.row[r].last > 0;
        levels->now[i] = t.row[r].last;
        levels->most[i] = t.row[r].most;
    }
    na_reader_close(reader);
    return true;
}

static bool near(int64_t value, int64_t wanted) {
    return value > wanted - CLOSE && value < wanted + CLOSE;
}

/* Until the profile says that so much more than `before` lies on both nodes. */
static void wait_for(const levels_t *before, int from, int64_t on_from, int to, int64_t on_to) {
    levels_t now;
    uint64_t until = lab_now_ms() + WAIT_MS;
    for (;;) {
        bool there = read_levels(&now, NA_NPROF_SERIES_RESIDENT);
        if (there && near(now.now[from] - before->now[from], on_from) &&
            near(now.now[to] - before->now[to], on_to))
            return;
        if (lab_now_ms() > until) {
            check_say("on nodes %d and %d: %+lld and %+lld KiB, not %+lld and %+lld\n",
                      lab_node[from].id, lab_node[to].id,
                      (long long)((now.now[from] - before->now[from]) >> 10),
                      (long long)((now.now[to] - before->now[to]) >> 10),
                      (long long)(on_from >> 10), (long long)(on_to >> 10));
            _exit(1);
        }
        lab_sleep_ms(20);
    }
}

/* The profile never had a level: what the child is doing. */
static void give_up(pid_t pid, bool readable) {
    static const char *const files[] = {"stat", "wchan", "syscall"};
    check_say("%s\n", readable ? "the profile has no level of any node" : why);
    for (pid_t task = pid; task < pid + 3; task++) /* its own, and the recorder's */
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            char path[80], text[400] = "";
            snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, task, files[i]);
            FILE *from = fopen(path, "r");
            if (from == NULL) continue;
            if (fgets(text, sizeof text, from) == NULL) text[0] = 0;
            fclose(from);
            check_say("%s: %s\n", path, text);
        }
    _exit(1);
}

static void step(int in, int out, char what) {
    char done = 0;
    REQUIRE(write(in, &what, 1) == 1);
    REQUIRE(read(out, &done, 1) == 1 && done == 'k');
}

/* A column of numalloc-dump timeline --csv: its largest value; -1: there is none. */
static int64_t shown(int node) {
    char command[4200], line[8192], key[40];
    snprintf(command, sizeof command, "%s timeline --csv " PROFILE, getenv("RESIDENT_DUMP"));
    snprintf(key, sizeof key, "physical_node%d", node);
    FILE *from = popen(command, "r");
    REQUIRE(from != NULL);
    int column = -1;
    int64_t most = -1;
    for (int row = 0; fgets(line, sizeof line, from) != NULL; row++) {
        char *rest = line, *cell;
        for (int i = 0; (cell = strsep(&rest, ",\r\n")) != NULL; i++) {
            if (row == 0 && strcmp(cell, key) == 0) column = i;
            if (row != 0 && i == column && *cell != 0 && atoll(cell) > most) most = atoll(cell);
        }
    }
    CHECK(pclose(from) == 0);
    return most;
}

/* What it prints has this in it. */
static bool says(const char *arguments, const char *what) {
    static char text[1 << 20];
    char command[4200];
    snprintf(command, sizeof command, "%s %s " PROFILE, getenv("RESIDENT_DUMP"), arguments);
    FILE *from = popen(command, "r");
    REQUIRE(from != NULL);
    size_t n = fread(text, 1, sizeof text - 1, from);
    text[n] = 0;
    CHECK(pclose(from) == 0);
    return strstr(text, what) != NULL;
}

/* Each node's live bytes at the end are those that were allocated there and not freed, whoever
 * freed them, and at least as much is held there. */
static void judge_live(const int home[2]) {
    levels_t live, held;
    REQUIRE(read_levels(&live, NA_NPROF_SERIES_NODES));
    REQUIRE(read_levels(&held, NA_NPROF_SERIES_MAPPED));
    for (int i = 0; i < 2; i++) {
        int64_t wanted = (int64_t)BLOCK_SIZE * (i == 0 ? BLOCKS : BLOCKS / 2);
        int64_t here = live.now[home[i]], there = held.now[home[i]];
        CHECK_MSG(here >= wanted && here < wanted + OTHERS, "node %d: %lld bytes live, not %lld",
                  lab_node[home[i]].id, (long long)here, (long long)wanted);
        CHECK_MSG(there >= wanted, "node %d: %lld bytes held, of %lld live", lab_node[home[i]].id,
                  (long long)there, (long long)wanted);
    }
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(2);
    int place[2], places = 0, home[2], homes = 0; /* with memory; with CPUs as well */
    for (int i = 0; i < lab_nodes; i++) {
        if (lab_node[i].memory && places < 2) place[places++] = i;
        if (lab_node[i].memory && lab_node[i].cpu >= 0 && homes < 2) home[homes++] = i;
    }
    REQUIRE(places == 2 && homes == 2);
    if (argc == 2 && strcmp(argv[1], "child") == 0) return child(place[1], place[0], home);
    REQUIRE(getenv("RESIDENT_LIB") != NULL && getenv("RESIDENT_DUMP") != NULL);

    int in[2], out[2];
    unlink(PROFILE);
    REQUIRE(pipe(in) == 0 && pipe(out) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        if (dup2(in[0], 0) != 0 || dup2(out[1], 3) != 3) _exit(125);
        for (int fd = 4; fd < 32; fd++)
            close(fd);
        setenv("LD_PRELOAD", getenv("RESIDENT_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("RESIDENT_LIB"), 1);
        setenv("NUMALLOC_PROFILE", "sites", 1);
        setenv("NUMALLOC_PROFILE_FILE", PROFILE, 1);
        execl("/proc/self/exe", argv[0], "child", (char *)NULL);
        _exit(125);
    }
    close(in[0]);
    close(out[1]);
    signal(SIGPIPE, SIG_IGN);

    const int64_t all = (int64_t)BYTES;
    levels_t start, end;
    uint64_t until = lab_now_ms() + WAIT_MS;
    /* The profile has levels. On which nodes is the kernel's choice: even the pages of the
     * programs' files lie wherever the machine was started from. */
    for (bool there = false; !there || !start.any; lab_sleep_ms(20)) {
        if (lab_now_ms() > until) give_up(pid, there);
        there = read_levels(&start, NA_NPROF_SERIES_RESIDENT);
    }
    step(in[1], out[0], 'a');
    wait_for(&start, place[1], all, place[0], 0);
    step(in[1], out[0], 'b');
    wait_for(&start, place[1], 0, place[0], all);
    step(in[1], out[0], 'c');
    wait_for(&start, place[1], 0, place[0], 0);
    close(in[1]);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: status %d", status);

    /* The points keep what was there in between. */
    REQUIRE(read_levels(&end, NA_NPROF_SERIES_RESIDENT));
    for (int i = 0; i < 2; i++) {
        int p = place[i];
        CHECK_MSG(near(end.most[p] - start.now[p], all), "node %d: at most %lld KiB, %lld at first",
                  lab_node[p].id, (long long)(end.most[p] >> 10), (long long)(start.now[p] >> 10));
        int64_t most = shown(lab_node[p].id);
        CHECK_MSG(most == end.most[p], "timeline --csv: at most %lld of node %d, not %lld",
                  (long long)most, lab_node[p].id, (long long)end.most[p]);
    }
    judge_live(home);
    CHECK(says("timeline", "Physical memory by node"));
    CHECK(says("timeline --json", "\"physical_node"));
    CHECK(says("json", "\"physical_by_node\":{\"interval_ms\":"));
    return lab_status(check_status());
}
