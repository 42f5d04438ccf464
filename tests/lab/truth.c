/* truth.c - runs lab-patterns under a source of accesses and holds the verdicts on its objects
 * against what it says they are: lab-truth SOURCE PATTERN wrong|mended. The program lies beside
 * this one; TRUTH_LIB is the library, NA_KMOD the kernel module for sources that need it.
 *
 * What a source cannot know it must say: verdicts that take reads and writes, or who uses it at
 * once, are "undecidable with this source" under numa, and all are under sources that are not as
 * frequent as accesses.
 *
 * The program runs until the samples suffice for a verdict on each of its objects, with a chance of
 * SURE. If that takes too long, the test is skipped and says so; a wrong verdict is never excused.
 */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numalloc/profile.h"

enum { PROCESSES = 2, OBJECTS = 8, LONGEST_MS = 40000, LOOK_MS = 1000, LACKING = 320 };
#define SURE 0.8

/* As REQUIRE, with the figures. */
#define REQUIRE_MSG(condition, format, ...)                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say(format "\n", __VA_ARGS__);                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

typedef struct object {
    unsigned long long address;
    char verdict[40];
} object_t;

typedef struct process {
    pid_t pid;
    int in;
    FILE *out;
    char file[32];
    object_t object[OBJECTS];
    int objects;
} process_t;

static char program[4096];
static const char *source;
static process_t process[PROCESSES];
static int processes;
static bool shares, knows_op; /* what the source gives */

/* ---- the program ---- */

static void start(process_t *p, int which, char **argv) {
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    snprintf(p->file, sizeof p->file, "/tmp/truth%d.nprof", which);
    unlink(p->file);
    p->pid = fork();
    REQUIRE(p->pid >= 0);
    if (p->pid == 0) {
        char mode[64];
        snprintf(mode, sizeof mode, "sites,access=%s", source);
        if (dup2(in[0], 0) < 0 || dup2(out[1], 3) < 0) _exit(125);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("TRUTH_LIB"), 1);
        setenv("NUMALLOC_PROFILE", mode, 1);
        setenv("NUMALLOC_PROFILE_FILE", p->file, 1);
        bool hinted = strcmp(source, "numa") == 0;
        if (hinted) setenv("NUMALLOC_NUMA", "unbound", 1);
        execl(program, program, argv[2], argv[3], which == 0 ? "0" : "1", hinted ? "hinted" : NULL,
              (char *)NULL);
        _exit(125);
    }
    close(in[0]);
    close(out[1]);
    p->in = in[1];
    p->out = fdopen(out[0], "r");
    REQUIRE(p->out != NULL);
    char line[128];
    bool ready = false;
    while (!ready && fgets(line, sizeof line, p->out) != NULL) {
        ready = strcmp(line, "ready\n") == 0;
        if (ready) break;
        REQUIRE(p->objects < OBJECTS);
        object_t *o = &p->object[p->objects++];
        REQUIRE(sscanf(line, "%llx %39s", &o->address, o->verdict) == 2);
        char *op = strchr(o->verdict, '+');
        if (op != NULL) *op = '\0';
        if (!shares || (op != NULL && !knows_op)) strcpy(o->verdict, "source");
    }
    REQUIRE_MSG(ready && p->objects > 0, "%s says nothing", argv[2]);
}

static void end(process_t *p) {
    int status = -1;
    close(p->in);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    fclose(p->out);
    REQUIRE_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

/* ---- verdicts ---- */

/* The verdict on the block at an address, or the reason why there is none; "none": nothing was
 * sampled there, or it is not among those that matter. */
static const char *verdict_of(numalloc_profile_flows_t *flows, uint32_t of, uint64_t address,
                              numalloc_profile_verdict_t *v) {
    numalloc_profile_flow_object_t o;
    int32_t object = -1;
    uint32_t group = 0;
    for (uint32_t i = 0; numalloc_profile_flows_object(flows, i, &o, sizeof o) == 0; i++)
        if (o.process == of && address >= o.base && address - o.base < o.size &&
            strcmp(o.kind, "heap block") == 0) {
            object = (int32_t)i;
            group = o.group;
        }
    if (object < 0) return "none";
    for (uint32_t i = 0; numalloc_profile_flows_verdict(flows, i, v, sizeof *v) == 0; i++)
        if (v->group == group && (v->object < 0 || v->object == object))
            return strcmp(v->verdict, "undecidable") == 0 ? v->because : v->verdict;
    return "none";
}

/* Sources that are not as frequent as accesses need not meet the object: no verdict at all is given
 * on what they do meet. */
static bool all_undecidable(numalloc_profile_flows_t *flows, bool last) {
    numalloc_profile_verdict_t v;
    uint32_t count = 0;
    for (; numalloc_profile_flows_verdict(flows, count, &v, sizeof v) == 0; count++)
        CHECK_MSG(strcmp(v.because, "source") == 0, "%s by %s: %s %s", v.title, source, v.verdict,
                  v.because);
    if (last) check_say("%u verdicts, all undecidable with this source\n", count);
    return count > 0;
}

/* Holds what the samples say against the truth. True: they suffice. */
static bool judge(bool last) {
    char why[256];
    numalloc_profile_t *profiles[PROCESSES];
    bool enough = true;
    for (int i = 0; i < processes; i++) {
        profiles[i] = numalloc_profile_open(process[i].file, why, sizeof why);
        REQUIRE_MSG(profiles[i] != NULL, "%s", why);
    }
    numalloc_profile_flows_t *flows =
        numalloc_profile_flows_open(profiles, (size_t)processes, NULL, why, sizeof why);
    if (flows == NULL) { /* nothing was sampled yet */
        if (last) check_say("%s\n", why);
        enough = false;
    } else if (!shares) {
        enough = all_undecidable(flows, last);
    } else {
        for (int i = 0; i < processes; i++)
            for (int k = 0; k < process[i].objects; k++) {
                const object_t *o = &process[i].object[k];
                numalloc_profile_verdict_t v = {.because = ""};
                const char *found = verdict_of(flows, (uint32_t)i, o->address, &v);
                bool there = strcmp(found, "none") != 0 && strcmp(found, "samples") != 0;
                /* What needs another source is said of few samples, too, that more would settle;
                 * and of two threads that share, one can be met alone for a while. */
                bool lacks = strcmp(found, "source") == 0;
                unsigned least = lacks || strcmp(o->verdict, "sharing_cluster") == 0 ? LACKING : 0;
                there = there && (lacks || v.chance >= SURE);
                enough = enough && there && v.samples >= least;
                if (!last) continue;
                check_say("%s: %u samples, %.0f %% remote, chance %.2f, or %s, %s\n", found,
                          v.samples, 100 * v.remote, v.chance,
                          v.runner[0] != NULL ? v.runner[0] : "-",
                          v.runner[1] != NULL ? v.runner[1] : "-");
                if (there)
                    CHECK_MSG(strcmp(found, o->verdict) == 0, "verdict %s, not %s", found,
                              o->verdict);
            }
    }
    numalloc_profile_flows_close(flows);
    for (int i = 0; i < processes; i++)
        numalloc_profile_close(profiles[i]);
    return enough;
}

/* ---- what sources need ---- */

static void set(const char *path, const char *value) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0)
        check_skip("the kernel's NUMA balancing cannot be set");
    close(fd);
}

/* The kernel looks at memory every 20 ms of a thread's time, instead of every second and more. */
static void hurry_hinting(void) {
    static const char base[] = "/sys/kernel/debug/sched/numa_balancing/";
    static const char *const settings[][2] = {
        {"scan_delay_ms", "10"}, {"scan_period_min_ms", "20"}, {"scan_period_max_ms", "20"}};
    mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL); /* it may be there */
    set("/proc/sys/kernel/numa_balancing", "1");
    for (size_t i = 0; i < NA_COUNT(settings); i++) {
        char path[96];
        snprintf(path, sizeof path, "%s%s", base, settings[i][0]);
        set(path, settings[i][1]);
    }
}

static void load_module(void) {
    const char *module = getenv("NA_KMOD");
    REQUIRE(module != NULL);
    int fd = open(module, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    int error = syscall(SYS_finit_module, fd, "test_sources=1", 0) == 0 ? 0 : errno;
    close(fd);
    if (error == ENOEXEC) check_skip("the module is built for another kernel than the lab's");
    REQUIRE(error == 0 || error == EEXIST);
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(4);
    REQUIRE(argc == 4 && getenv("TRUTH_LIB") != NULL);
    source = argv[1];
    knows_op = strcmp(source, "watch") == 0;
    shares = knows_op || strcmp(source, "numa") == 0;
    if (strcmp(source, "numa") == 0) hurry_hinting();
    if (strncmp(source, "kmod", 4) == 0) load_module();
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    REQUIRE(length > 0);
    program[length] = 0;
    strcpy(strrchr(program, '/') + 1, "lab-patterns");
    processes = strcmp(argv[2], "apache") == 0 ? 2 : 1;
    for (int i = 0; i < processes; i++)
        start(&process[i], i, argv);
    uint64_t begun = lab_now_ms();
    bool enough = false;
    while (!enough && lab_now_ms() - begun < LONGEST_MS) {
        lab_sleep_ms(LOOK_MS);
        enough = judge(false);
    }
    for (int i = 0; i < processes; i++)
        end(&process[i]);
    check_say("after %.1f s\n", (double)(lab_now_ms() - begun) / 1000);
    enough = judge(true);
    if (check_status() == 0 && !enough) check_skip("too few samples on this machine");
    return lab_status(check_status());
}
