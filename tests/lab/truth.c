/* truth.c - runs lab-patterns under a source of accesses and holds the verdict on its object
 * against what it is: lab-truth SOURCE PATTERN wrong|mended VERDICT, where VERDICT is a key of
 * verdict.h, or "source": undecidable with this source. The program lies beside this one; TRUTH_LIB
 * is the library. Where samples are too few it runs again, longer; in
 * the end it is skipped, and says so. A wrong verdict is never excused. */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numalloc/profile.h"

#define PROFILE "/tmp/truth.nprof"

/* As REQUIRE, with the figures. */
#define REQUIRE_MSG(condition, format, ...)                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_say(format "\n", __VA_ARGS__);                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static char program[4096];

/* Runs the program for a time. The address of its object. */
static uint64_t run(char **argv, unsigned seconds) {
    int out[2];
    char time[16], mode[64];
    snprintf(time, sizeof time, "%u", seconds);
    snprintf(mode, sizeof mode, "sites,access=%s", argv[1]);
    unlink(PROFILE);
    REQUIRE(pipe(out) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        if (dup2(out[1], 3) != 3) _exit(125);
        setenv("LD_PRELOAD", getenv("TRUTH_LIB"), 1);
        setenv("NA_TEST_LIB", getenv("TRUTH_LIB"), 1);
        setenv("NUMALLOC_PROFILE", mode, 1);
        setenv("NUMALLOC_PROFILE_FILE", PROFILE, 1);
        execl(program, program, argv[2], argv[3], time, (char *)NULL);
        _exit(125);
    }
    close(out[1]);
    FILE *from = fdopen(out[0], "r");
    unsigned long long address = 0;
    REQUIRE(from != NULL);
    bool told = fscanf(from, "%llu", &address) == 1;
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    fclose(from);
    REQUIRE_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0 && told, "%s: status %d", argv[2],
                status);
    return address;
}

/* The verdict on the group with this address; "none": nothing was sampled there, or it is not among
 * those that matter. */
static const char *verdict_of(numalloc_profile_flows_t *flows, uint64_t address,
                              numalloc_profile_verdict_t *v) {
    numalloc_profile_flow_object_t o;
    int32_t object = -1;
    for (uint32_t i = 0; numalloc_profile_flows_object(flows, i, &o, sizeof o) == 0; i++)
        if (address >= o.base && address - o.base < o.size && strcmp(o.kind, "heap block") == 0)
            object = (int32_t)i;
    if (object < 0) return "none";
    REQUIRE(numalloc_profile_flows_object(flows, (uint32_t)object, &o, sizeof o) == 0);
    for (uint32_t i = 0; numalloc_profile_flows_verdict(flows, i, v, sizeof *v) == 0; i++) {
        if (v->group != o.group || (v->object >= 0 && v->object != object)) continue;
        return v->verdict;
    }
    return "none";
}

/* Holds what the samples say against the truth. `more`: they are too few to say anything. */
static void judge(uint64_t address, const char *wanted, bool *more) {
    char why[256];
    numalloc_profile_t *p = numalloc_profile_open(PROFILE, why, sizeof why);
    REQUIRE_MSG(p != NULL, "%s", why);
    numalloc_profile_flows_t *flows = numalloc_profile_flows_open(&p, 1, NULL, why, sizeof why);
    REQUIRE_MSG(flows != NULL, "%s", why);
    numalloc_profile_verdict_t v = {.because = ""};
    const char *found = verdict_of(flows, address, &v);
    if (strcmp(found, "undecidable") == 0) found = v.because;
    printf("%s: %u samples, %.0f %% remote, chance %.2f, or %s, %s\n", found, v.samples,
           100 * v.remote, v.chance, v.runner[0] != NULL ? v.runner[0] : "-",
           v.runner[1] != NULL ? v.runner[1] : "-");
    fflush(stdout);
    *more = strcmp(found, "samples") == 0 || strcmp(found, "none") == 0;
    if (!*more) CHECK_MSG(strcmp(found, wanted) == 0, "verdict %s, not %s", found, wanted);
    numalloc_profile_flows_close(flows);
    numalloc_profile_close(p);
}

int main(int argc, char **argv) {
    static const unsigned seconds[] = {12, 24};
    check_begin();
    lab_begin(4);
    REQUIRE(argc == 5 && getenv("TRUTH_LIB") != NULL);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    REQUIRE(length > 0);
    program[length] = 0;
    strcpy(strrchr(program, '/') + 1, "lab-patterns");
    bool more = true;
    for (size_t i = 0; more && i < NA_COUNT(seconds); i++)
        judge(run(argv, seconds[i]), argv[4], &more);
    if (more) check_skip("too few samples on this machine");
    return lab_status(check_status());
}
