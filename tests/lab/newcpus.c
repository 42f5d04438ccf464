/* newcpus.c - processors are plugged into the machine while the program runs:
 *
 *     lab-newcpus NODE...
 *     lab-newcpus by SOURCE NODE
 *
 * A thread that begins on the new one, or comes to it, has its blocks on that node; where it has no
 * memory, on the nearest. `by`: a profile (of the library TRUTH_LIB) that began before has samples
 * of the new one, and never counts them as another node's. */
#include "lab.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numalloc/profile.h"
#include "support/access_source.h"

#define PROFILE "/tmp/newcpus.nprof"

enum { BYTES = 1 << 20, LEARNS_MS = 15000, USES_MS = 8000, PAGE = 4096 };

static const size_t sizes[] = {40, 600, 20000, 100000, 300000};

static void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* ---- where blocks lie ---- */

static lab_pages_t place(size_t size) {
    static lab_block_t blocks[BYTES / 40];
    lab_pages_t pages = {0};
    size_t count = BYTES / size;
    for (size_t i = 0; i < count; i++)
        lab_make(&blocks[i], size);
    lab_judge(blocks, count, false, &pages);
    for (size_t i = 0; i < count; i++)
        lab_drop(&blocks[i]);
    return pages;
}

static bool all_on(int home) {
    bool all = true;
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        lab_pages_t pages = place(sizes[k]);
        all = all && pages.on[home] == pages.total;
    }
    return all;
}

typedef struct newcomer {
    int cpu, home;
    bool at_once; /* its node has memory: the kernel says which it is */
} newcomer_t;

static void expect_on(const newcomer_t *n, const char *what) {
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        lab_pages_t pages = place(sizes[k]);
        lab_expect_on(&pages, n->home, what);
    }
}

static void *begins_there(void *argument) {
    const newcomer_t *n = argument;
    pin(n->cpu);
    uint64_t came = lab_now_ms();
    while (!n->at_once && !all_on(n->home) && lab_now_ms() - came < LEARNS_MS)
        lab_sleep_ms(100);
    if (!n->at_once) check_say("known after %llu ms\n", (unsigned long long)(lab_now_ms() - came));
    expect_on(n, "of a thread that begins on a new processor");
    return NULL;
}

static void judge_places(int id) {
    int cpu = lab_plug_cpu(id), index = lab_index(id);
    REQUIRE(index >= 0);
    newcomer_t n = {.cpu = cpu, .home = lab_home(index), .at_once = lab_node[index].memory};
    check_say("processor %d is node %d's, whose memory is node %d's\n", cpu, id,
              lab_node[n.home].id);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, begins_there, &n) == 0);
    pthread_join(thread, NULL);
    lab_pin(0);
    for (int i = 0; i < 2; i++) /* it is at home, */
        place(sizes[0]);
    pin(cpu);
    for (int i = 0; i < 2; i++) { /* and has moved */
        place(sizes[0]);
        lab_sleep_ms(50);
    }
    expect_on(&n, "of a thread that comes to it");
    lab_pin(0);
}

/* ---- what a profile says ---- */

static int used_cpu;
static bool over;

/* Uses what is there; asks malloc for nothing, so that nobody learns of the processor from it. */
static void *uses(void *block) {
    pin(used_cpu);
    for (unsigned char value = 1; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); value++) {
        for (size_t at = 0; at < BYTES; at += 64)
            ((volatile unsigned char *)block)[at] = value;
        madvise(block, BYTES, MADV_DONTNEED); /* faults are accesses, too */
        lab_sleep_ms(1);
    }
    return NULL;
}

static int recorded(int id) {
    lab_pin(0);
    unsigned char *block = malloc(BYTES + PAGE);
    REQUIRE(block != NULL);
    block += PAGE - (uintptr_t)block % PAGE;
    used_cpu = lab_plug_cpu(id);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, uses, block) == 0);
    for (uint64_t came = lab_now_ms(); lab_now_ms() - came < USES_MS; lab_sleep_ms(20))
        free(check_opaque(malloc(300000))); /* a slow path now and then */
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    printf("%d\n", used_cpu);
    return lab_status(check_status());
}

static void judge_samples(int cpu, int id) {
    char why[256];
    numalloc_profile_t *profile = numalloc_profile_open(PROFILE, why, sizeof why);
    if (profile == NULL) check_say("%s\n", why);
    REQUIRE(profile != NULL);
    uint64_t right = 0, unknown = 0, wrong = 0;
    for (size_t i = 0; i < numalloc_profile_accesses(profile); i++) {
        numalloc_profile_access_t a;
        numalloc_profile_access_node_t node;
        REQUIRE(numalloc_profile_access(profile, i, &a, sizeof a) == 0);
        if (a.cpu != cpu) continue;
        if (a.cpu_node < 0)
            unknown++;
        else if (numalloc_profile_access_node(profile, (uint32_t)a.cpu_node, &node, sizeof node) ==
                     0 &&
                 node.kernel_id == (uint32_t)id)
            right++;
        else
            wrong++;
    }
    check_say("samples of processor %d: %llu of node %d, %llu of another, %llu of none\n", cpu,
              (unsigned long long)right, id, (unsigned long long)wrong,
              (unsigned long long)unknown);
    CHECK(right > 0 && wrong == 0);
    numalloc_profile_close(profile);
}

static void record(const char *self, const char *source, const char *id) {
    int out[2], status = 0, cpu = -1;
    if (strncmp(source, "kmod-", 5) == 0) lab_load_module();
    unlink(PROFILE); /* another test's */
    REQUIRE(pipe(out) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        dup2(out[1], 1);
        close(out[0]);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NUMALLOC_PROFILE_FILE", PROFILE, 1);
        setenv("NUMALLOC_ACCESS_COST", "100", 1);
        access_from(source);
        execl(self, self, "recorded", id, (char *)NULL);
        _exit(125);
    }
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    REQUIRE(said != NULL && fscanf(said, "%d", &cpu) == 1);
    fclose(said);
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    judge_samples(cpu, atoi(id));
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(1);
    REQUIRE(argc > 1);
    if (strcmp(argv[1], "by") == 0 && argc == 4) {
        record("/proc/self/exe", argv[2], argv[3]);
    } else if (strcmp(argv[1], "recorded") == 0 && argc == 3) {
        return recorded(atoi(argv[2]));
    } else {
        lab_no_balancing();
        lab_pin(0);
        for (int i = 1; i < argc; i++)
            judge_places(atoi(argv[i]));
    }
    return lab_status(check_status());
}
