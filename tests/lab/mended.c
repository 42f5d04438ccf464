/* mended.c - the whole circle, for what placement can mend: lab-patterns runs as it goes wrong,
 * with a profile; numalloc-dump writes a policy of that; the same program runs under the policy,
 * and as it is mended by hand. Accesses to other nodes must be as few under the policy as by hand:
 * lab-mended SOURCE PATTERN. TRUTH_LIB is the library, MENDED_DUMP numalloc-dump; lab-patterns lies
 * beside this program.
 *
 * Of "neighbours", blocks that share a line falsely, the rule must part them.
 *
 * Each run goes on until there are samples enough; the first one until a rule is written. If that
 * takes too long the test is skipped, and says so. */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numalloc/profile.h"
#include "support/access_source.h"

enum {
    LOOK_MS = 500,
    LOOKS = 80,
    SAMPLES = 150, /* hits, of the object's accesses */
    MET = 100,     /* of blocks that nobody shares any more */
    LINE = 64,
};
#define SURE   0.85 /* of the verdict that is to become a rule */
#define WRONG  0.5  /* share of accesses to other nodes at least, or the test proves nothing */
#define WITHIN 0.03 /* of what is mended by hand */
#define POLICY "/tmp/mended.policy"

static const char *source, *pattern;
static bool of_lines;
static char program[4096];

typedef struct run {
    pid_t pid;
    int in;
    unsigned long long address[2]; /* of its first objects; 0: there is none */
    char file[64];
} run_t;

static void start(run_t *r, const char *name, const char *state, const char *policy) {
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    snprintf(r->file, sizeof r->file, "/tmp/mended-%s.nprof", name);
    unlink(r->file);
    r->pid = fork();
    REQUIRE(r->pid >= 0);
    if (r->pid == 0) {
        if (dup2(in[0], 0) < 0 || dup2(out[1], 3) < 0) _exit(125);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("TRUTH_LIB"), 1);
        if (policy != NULL) setenv("NUMALLOC_POLICY", policy, 1);
        access_from(source);
        setenv("NUMALLOC_PROFILE_FILE", r->file, 1);
        setenv("NUMALLOC_ACCESS_COST", "100", 1);
        execl(program, program, pattern, state, "0", (char *)NULL);
        _exit(125);
    }
    close(in[0]);
    close(out[1]);
    r->in = in[1];
    FILE *said = fdopen(out[0], "r");
    REQUIRE(said != NULL);
    char line[128];
    bool ready = false;
    int count = 0;
    r->address[0] = r->address[1] = 0;
    while (!ready && fgets(line, sizeof line, said) != NULL) {
        ready = strcmp(line, "ready\n") == 0;
        if (!ready && count < 2 && sscanf(line, "%llx", &r->address[count]) == 1) count++;
    }
    fclose(said);
    REQUIRE(ready);
}

static void end(run_t *r) {
    int status = -1;
    close(r->in);
    while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
        ;
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What the profile says so far of the blocks that it saw used most, which are the pattern's: of a
 * list not each block is met. False: nothing. */
static bool look(const run_t *r, numalloc_profile_verdict_t *v) {
    char why[256];
    bool found = false;
    numalloc_profile_t *profile = numalloc_profile_open(r->file, why, sizeof why);
    if (profile == NULL) return false;
    numalloc_profile_flows_t *flows =
        numalloc_profile_flows_open(&profile, 1, NULL, why, sizeof why);
    numalloc_profile_flow_object_t o;
    int64_t group = -1;
    uint32_t most = 0;
    for (uint32_t i = 0;
         flows != NULL && numalloc_profile_flows_object(flows, i, &o, sizeof o) == 0; i++) {
        if (strcmp(o.kind, "heap block") != 0 || o.touches <= most) continue;
        most = o.touches;
        group = o.group;
    }
    for (uint32_t i = 0;
         group >= 0 && !found && numalloc_profile_flows_verdict(flows, i, v, sizeof *v) == 0; i++)
        found = v->group == group;
    numalloc_profile_flows_close(flows);
    numalloc_profile_close(profile);
    return found;
}

/* Share of accesses to other nodes. Negative: too few were seen. */
static double remote_of(const char *name, const char *state, const char *policy) {
    run_t run;
    numalloc_profile_verdict_t v = {.samples = 0};
    start(&run, name, state, policy);
    bool enough = false;
    for (int i = 0; i < LOOKS && !enough; i++) {
        lab_sleep_ms(LOOK_MS);
        enough = look(&run, &v) && v.samples >= SAMPLES;
    }
    end(&run);
    check_say("%s: %u samples, %.1f %% to other nodes: %s\n", name, v.samples, 100 * v.remote,
              v.verdict != NULL ? v.verdict : "nothing");
    return enough ? v.remote : -1;
}

/* Of the profile as it is. The rule as it is written, but for the control: of one block there is
 * none, of many it would be an eighth that stays as it was. */
static bool write_policy(const run_t *run) {
    char command[9000], line[1024], rule[1024] = "";
    snprintf(command, sizeof command, "%s policy --only %s %s", getenv("MENDED_DUMP"),
             of_lines ? "lines" : "place", run->file);
    FILE *from = popen(command, "r"), *to = fopen(POLICY, "w");
    REQUIRE(from != NULL && to != NULL);
    while (fgets(line, sizeof line, from) != NULL) {
        bool site = strncmp(line, "site ", 5) == 0;
        if (site) {
            line[strcspn(line, "\n")] = 0;
            snprintf(rule, sizeof rule, "%s", line);
        }
        fprintf(to, site ? "%s, control=off\n" : "%s", line);
    }
    REQUIRE(fclose(to) == 0);
    int status = pclose(from);
    /* (A profile that grows may end in the middle of an entry.) */
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    if (rule[0] != 0) check_say("%s\n", rule);
    return rule[0] != 0;
}

static bool share_a_line(const run_t *r) {
    return r->address[0] / LINE == r->address[1] / LINE;
}

/* The blocks lie apart under the policy, and nobody finds false sharing. */
static void judge_lines(const run_t *wrong) {
    CHECK_MSG(share_a_line(wrong), "%llx and %llx share no line as it goes wrong",
              wrong->address[0], wrong->address[1]);
    run_t run;
    numalloc_profile_verdict_t v = {.samples = 0};
    start(&run, "ruled", "wrong", POLICY);
    CHECK_MSG(run.address[1] != 0 && !share_a_line(&run), "%llx and %llx share a line",
              run.address[0], run.address[1]);
    bool enough = false;
    for (int i = 0; i < LOOKS && !enough; i++) {
        lab_sleep_ms(LOOK_MS);
        enough = look(&run, &v) && v.samples >= MET;
    }
    end(&run);
    check_say("ruled: %u samples: %s\n", v.samples, v.verdict != NULL ? v.verdict : "nothing");
    if (!enough) check_skip("too few samples on this machine");
    CHECK_MSG(strcmp(v.verdict, "false_sharing") != 0, "%s under the policy", v.verdict);
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc == 3 && getenv("TRUTH_LIB") != NULL && getenv("MENDED_DUMP") != NULL);
    source = argv[1];
    pattern = argv[2];
    of_lines = strcmp(pattern, "neighbours") == 0;
    lab_begin(of_lines ? 1 : 4);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    REQUIRE(length > 0);
    program[length] = 0;
    strcpy(strrchr(program, '/') + 1, "lab-patterns");

    run_t wrong;
    numalloc_profile_verdict_t v = {.samples = 0};
    bool ruled = false;
    start(&wrong, "wrong", "wrong", NULL);
    for (int i = 0; i < LOOKS && !ruled; i++) {
        lab_sleep_ms(LOOK_MS);
        bool said = look(&wrong, &v) &&
                    (of_lines ? strcmp(v.verdict, "false_sharing") == 0 : v.samples >= SAMPLES);
        if (said && v.chance >= SURE) ruled = write_policy(&wrong);
    }
    end(&wrong);
    check_say("wrong: %u samples, %.1f %% to other nodes: %s %s\n", v.samples, 100 * v.remote,
              v.verdict != NULL ? v.verdict : "nothing", v.because != NULL ? v.because : "");
    bool undecided = v.verdict == NULL || strcmp(v.verdict, "undecidable") == 0;
    if (!ruled && (of_lines || undecided)) check_skip("too few samples on this machine");
    REQUIRE(ruled);
    if (of_lines) {
        judge_lines(&wrong);
        return lab_status(check_status());
    }
    CHECK_MSG(v.remote >= WRONG, "only %.1f %% go to other nodes as it goes wrong", 100 * v.remote);
    double by_hand = remote_of("mended", "mended", NULL);
    double by_rule = remote_of("ruled", "wrong", POLICY);
    if (by_hand < 0 || by_rule < 0) check_skip("too few samples on this machine");
    CHECK_MSG(by_rule <= by_hand + WITHIN,
              "%.1f %% go to other nodes under the policy, %.1f %% "
              "where it is mended by hand",
              100 * by_rule, 100 * by_hand);
    return lab_status(check_status());
}
