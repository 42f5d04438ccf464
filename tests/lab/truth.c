/* truth.c - runs lab-patterns, a pattern as it goes wrong and as it is mended, under a source of
 * accesses, and holds the verdicts on its objects against what it says they are:
 * lab-truth SOURCE PATTERN [STATE], STATE being "wrong" or "mended", both without it. The program
 * lies beside this one; TRUTH_LIB is the library, NA_KMOD the
 * kernel module for sources that need it, TRUTH_COST what the recorder may cost, per cent (100).
 *
 * What a source cannot know it must say: verdicts that take reads and writes, or who uses it at
 * once, are "undecidable with this source" under numa, those that take latencies under watch as
 * well, and all are under sources that are not as frequent as accesses. ibs and kmod (on machines
 * that have IBS, tests/lab/ibs) know everything.
 *
 * Each program runs until the samples suffice for a verdict on each of its objects, with a chance
 * of SURE; programs that take turns are told to when there were enough rounds of watchpoints in
 * one. If that takes too long, the test is skipped and says so. A verdict with such a chance is
 * wrong now and then, all the more so as it is looked for again and again: it fails the test when
 * all the samples that there is time for do not put it right, and say it with a chance of SURELY.
 */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numalloc/profile.h"
#include "support/access_source.h"

enum {
    VARIANTS = 2,
    PROCESSES = 2,
    OBJECTS = 8,
    LOOK_MS = 500,
    LOOKS = 80,    /* not by the clock, which may stand or jump where the machine is emulated */
    MET = 100,     /* samples of what nobody shares */
    LACKING = 320, /* samples; of watchpoints, whose hits are a dozen a round: */
    LACKING_HITS = 4000,
    TURN = 40, /* windows with hits: several times those in which nodes are told apart */
    TURNS = 4, /* at least: until then it is a hand-off, or two */
};
#define SURE   0.8
#define SURELY 0.89 /* nearly the most that a verdict can have where caches may have answered */

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
    uint32_t windows, hit; /* so far, and with hits */
    uint32_t turned;       /* `hit` at the last turn */
    int turns, looks;
} process_t;

typedef struct variant {
    const char *state; /* "wrong", "mended" */
    process_t process[PROCESSES];
    int processes;
    bool enough, over;
} variant_t;

static char program[4096];
static const char *source, *pattern;
static bool takes_turns;
static bool of_lines;
/* Of a line nothing is wrong as long as nothing was seen: what is mended runs as long as it took to
 * find what is wrong. */
static int looks, looks_least;
static bool early;                           /* it is not that long yet */
static bool shares, knows_op, knows_latency; /* what the source gives */
static bool has_windows;                     /* watchpoints: hits come in rounds */

/* ---- the program ---- */

static void start(process_t *p, int which, const char *state) {
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    snprintf(p->file, sizeof p->file, "/tmp/truth-%s%d.nprof", state, which);
    unlink(p->file);
    p->pid = fork();
    REQUIRE(p->pid >= 0);
    if (p->pid == 0) {
        if (dup2(in[0], 0) < 0 || dup2(out[1], 3) < 0) _exit(125);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("TRUTH_LIB"), 1);
        access_from(source);
        setenv("NUMALLOC_PROFILE_FILE", p->file, 1);
        /* Arming four threads takes an emulated machine 15 ms: it may. */
        const char *cost = getenv("TRUTH_COST");
        setenv("NUMALLOC_ACCESS_COST", cost != NULL ? cost : "100", 1);
        bool hinted = strcmp(source, "numa") == 0;
        if (hinted) setenv("NUMALLOC_NUMA", "unbound", 1);
        execl(program, program, pattern, state, which == 0 ? "0" : "1", hinted ? "hinted" : NULL,
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
        char *needs = strchr(o->verdict, '+');
        bool lacks = needs != NULL && (strcmp(needs, "+op") == 0 ? !knows_op : !knows_latency);
        if (needs != NULL) *needs = '\0';
        if (!shares || lacks) strcpy(o->verdict, "source");
    }
    REQUIRE_MSG(ready && p->objects > 0, "%s says nothing", pattern);
}

static void end(variant_t *variant, uint64_t begun) {
    for (int i = 0; i < variant->processes; i++) {
        process_t *p = &variant->process[i];
        int status = -1;
        close(p->in);
        while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
            ;
        fclose(p->out);
        REQUIRE_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
        if (has_windows)
            check_say("%s: %u windows, %u with hits\n", variant->state, p->windows, p->hit);
    }
    check_say("%s: after %.1f s\n", variant->state, (double)(lab_now_ms() - begun) / 1000);
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
    if (last || count != 0) check_say("%u verdicts, all undecidable with this source\n", count);
    return count > 0;
}

/* Counts windows of watchpoints; tells the program to take its next turn, if there was enough to
 * see of this one. A thread that was cut off had hits: a window without any says that a word is not
 * used, and has weight for that. */
static void look_at_windows(process_t *p, numalloc_profile_t *profile) {
    numalloc_profile_access_window_t w;
    uint32_t windows = numalloc_profile_access_windows(profile);
    for (; p->windows < windows; p->windows++)
        if (numalloc_profile_access_window(profile, p->windows, &w, sizeof w) == 0) {
            p->hit += w.hits != 0;
            CHECK_MSG(w.hits != 0 || !w.censored, "window %u: hit too often, and never",
                      p->windows);
        }
    if (!takes_turns || (has_windows ? p->hit < p->turned + TURN : p->looks++ % 2 == 0)) return;
    p->turned = p->hit;
    p->turns++;
    REQUIRE(write(p->in, "t", 1) == 1);
}

typedef struct found {
    const object_t *object;
    const char *verdict;
    numalloc_profile_verdict_t v;
    bool seen;  /* as often as it takes */
    bool there; /* and said with enough certainty to be held against the truth */
    bool right; /* it is the truth, with enough certainty to say so */
} found_t;

static bool is_cluster(const object_t *o) {
    return strcmp(o->verdict, "sharing_cluster") == 0;
}

static found_t find(numalloc_profile_flows_t *flows, uint32_t of, const object_t *o) {
    found_t f = {.object = o, .v = {.because = ""}};
    f.verdict = verdict_of(flows, of, o->address, &f.v);
    /* What needs another source is said of few samples, too, that more would settle; and of two
     * threads that share, one can be met alone for a while. */
    bool lacks = strcmp(f.verdict, "source") == 0, right = strcmp(f.verdict, o->verdict) == 0;
    unsigned least = 0;
    if (lacks) least = has_windows && !right ? LACKING_HITS : LACKING;
    if (is_cluster(o) && least < LACKING) least = LACKING;
    f.seen = strcmp(f.verdict, "none") != 0 && f.v.samples >= least;
    bool said = f.seen && strcmp(f.verdict, "samples") != 0;
    f.there = said && (lacks || f.v.chance >= (right ? SURE : SURELY));
    /* (A line is not called falsely shared, as long as the other one took, and it was met.) */
    bool met = of_lines && f.v.samples >= MET && strcmp(f.verdict, "samples") == 0 &&
               strcmp(o->verdict, "nothing_wrong") == 0;
    f.right = (f.there && right) || met;
    return f;
}

/* Where one group of threads was seen there are no groups yet, whatever it has to share: nothing
 * that is said of a pool is held against the truth until all are seen. */
static void wait_for_groups(found_t *found, int count) {
    bool all_seen = true;
    for (int i = 0; i < count; i++)
        all_seen = all_seen && (found[i].seen || !is_cluster(found[i].object));
    for (int i = 0; i < count; i++)
        if (!all_seen && is_cluster(found[i].object)) found[i].there = found[i].right = false;
}

static void hold(const variant_t *variant, const found_t *f) {
    check_say("%s: %s: %u samples, %.0f %% remote, chance %.2f, or %s, %s\n", variant->state,
              f->verdict, f->v.samples, 100 * f->v.remote, f->v.chance,
              f->v.runner[0] != NULL ? f->v.runner[0] : "-",
              f->v.runner[1] != NULL ? f->v.runner[1] : "-");
    if (f->there)
        CHECK_MSG(strcmp(f->verdict, f->object->verdict) == 0, "%s: verdict %s, not %s",
                  variant->state, f->verdict, f->object->verdict);
}

/* True: the samples suffice. Then, or when it is the last look, what they say is held against the
 * truth (of turns, if there were any). */
static bool judge(variant_t *variant, bool last) {
    char why[256];
    numalloc_profile_t *profiles[PROCESSES];
    bool enough = true, turned = true;
    for (int i = 0; i < variant->processes; i++) {
        profiles[i] = numalloc_profile_open(variant->process[i].file, why, sizeof why);
        REQUIRE_MSG(profiles[i] != NULL, "%s", why);
        look_at_windows(&variant->process[i], profiles[i]);
        if (takes_turns && variant->process[i].turns < TURNS) enough = turned = false;
    }
    numalloc_profile_flows_t *flows =
        numalloc_profile_flows_open(profiles, (size_t)variant->processes, NULL, why, sizeof why);
    if (flows == NULL) { /* nothing was sampled yet */
        if (last) check_say("%s\n", why);
        enough = false;
    } else if (!shares) {
        enough = all_undecidable(flows, last);
    } else {
        found_t found[PROCESSES * OBJECTS];
        int count = 0;
        for (int i = 0; i < variant->processes; i++)
            for (int k = 0; k < variant->process[i].objects; k++)
                found[count++] = find(flows, (uint32_t)i, &variant->process[i].object[k]);
        wait_for_groups(found, count);
        for (int i = 0; i < count; i++)
            enough = enough && found[i].right;
        if (last && !turned) check_say("%s: too few turns\n", variant->state);
        for (int i = 0; i < count && !early && (enough || (last && turned)); i++)
            hold(variant, &found[i]);
    }
    numalloc_profile_flows_close(flows);
    for (int i = 0; i < variant->processes; i++)
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

/* Runs variants at the same time until they were judged. */
static void watch_over(variant_t *variants, int count) {
    for (int v = 0; v < count; v++)
        for (int i = 0; i < variants[v].processes; i++)
            start(&variants[v].process[i], i, variants[v].state);
    uint64_t begun = lab_now_ms();
    bool more = true;
    for (int look = 1; more; look++) {
        lab_sleep_ms(LOOK_MS);
        bool late = look == LOOKS;
        early = look < looks_least && !late;
        more = false;
        for (int v = 0; v < count; v++) {
            if (variants[v].over) continue;
            variants[v].enough = judge(&variants[v], late);
            variants[v].over = (variants[v].enough && look >= looks_least) || late;
            if (variants[v].over)
                end(&variants[v], begun);
            else
                more = true;
        }
        looks = look;
    }
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE((argc == 3 || argc == 4) && getenv("TRUTH_LIB") != NULL);
    source = argv[1];
    pattern = argv[2];
    of_lines = strcmp(pattern, "sharing") == 0;
    lab_begin(of_lines ? 1 : 4);
    has_windows = strcmp(source, "watch") == 0;
    knows_latency = strcmp(source, "ibs") == 0 || strcmp(source, "kmod") == 0;
    knows_op = has_windows || knows_latency;
    shares = knows_op || strcmp(source, "numa") == 0;
    takes_turns = strcmp(pattern, "alternating") == 0;
    if (strcmp(source, "numa") == 0)
        hurry_hinting();
    else
        lab_no_balancing(); /* it would mend what is large, and is to be found */
    if (strncmp(source, "kmod", 4) == 0) lab_load_module();
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    REQUIRE(length > 0);
    program[length] = 0;
    strcpy(strrchr(program, '/') + 1, "lab-patterns");
    static variant_t variants[VARIANTS] = {{.state = "wrong"}, {.state = "mended"}};
    int count = VARIANTS;
    if (argc == 4) {
        variants[0].state = argv[3];
        count = 1;
    }
    int processes = strcmp(pattern, "apache") == 0 ? 2 : 1;
    /* Each recorder of watchpoints wants a processor for itself; recorders by perf's IBS, where it
     * is of whole processors, have all of each other's samples. */
    int at_once = has_windows && (processes > 1 || of_lines) ? 1 : VARIANTS;
    if (strcmp(source, "ibs") == 0) at_once = 1;
    for (int v = 0; v < count; v++)
        variants[v].processes = processes;
    for (int v = 0; v < count; v += at_once) {
        watch_over(variants + v, at_once < count ? at_once : count);
        if (!of_lines) continue;
        looks_least = looks;
        if (!variants[v].enough) break;
    }
    bool enough = true;
    for (int v = 0; v < count; v++)
        enough = enough && variants[v].enough;
    if (check_status() == 0 && !enough) check_skip("too few samples on this machine");
    return lab_status(check_status());
}
