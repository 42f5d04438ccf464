/* truth.c - runs the children, reads their profiles, and finds the tests by name. See truth.h. */
#include "tests/profile/truth.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

truth_t *truth;
const char *truth_self, *truth_library;
char truth_path[512];
unsigned truth_failures;

static char directory[] = "/tmp/numalloc-truth.XXXXXX";
static int truth_fd = -1;

void truth_check(bool good, const char *format, ...) {
    if (good) return;
    va_list args;
    va_start(args, format);
    fputs("FAILED: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    truth_failures++;
}

static _Noreturn void give_up(const char *what) {
    fprintf(stderr, "FAILED: %s: %s\n", what, strerror(errno));
    exit(1);
}

void truth_begin(void) {
    if (mkdtemp(directory) == NULL) give_up("no temporary directory");
    snprintf(truth_path, sizeof truth_path, "%s/p.nprof", directory);
    truth_fd = memfd_create("truth", 0);
    if (truth_fd < 0 || ftruncate(truth_fd, sizeof *truth) != 0) give_up("no shared memory");
    truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, truth_fd, 0);
    if (truth == MAP_FAILED) give_up("no shared memory");
}

void truth_clear(void) {
    memset(truth, 0, sizeof *truth);
    unlink(truth_path);
}

void truth_end(void) {
    unlink(truth_path);
    rmdir(directory);
}

pid_t truth_start(const truth_run_t *run) {
    pid_t pid = fork();
    if (pid < 0) give_up("fork");
    if (pid != 0) return pid;
    char preload[600], file[600], mode[64], fd[32];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", truth_library);
    snprintf(file, sizeof file, "NUMALLOC_PROFILE_FILE=%s", truth_path);
    snprintf(mode, sizeof mode, "NUMALLOC_PROFILE=%s", run->mode);
    snprintf(fd, sizeof fd, "TRUTH_FD=%d", truth_fd);
    const char *words[10] = {truth_self}, *settings[16] = {preload, file, mode, fd};
    for (size_t i = 0; run->words[i] != NULL; i++)
        words[i + 1] = run->words[i];
    for (size_t i = 0; run->settings[i] != NULL; i++)
        settings[i + 4] = run->settings[i];
    execve(truth_self, (char *const *)(uintptr_t)words, (char *const *)(uintptr_t)settings);
    _exit(127);
}

void truth_finish(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        fprintf(stderr, "FAILED: the child ended with status %#x\n", (unsigned)status);
        exit(1);
    }
}

void truth_run(const truth_run_t *run) {
    truth_clear();
    truth_finish(truth_start(run));
}

void seen_open(seen_t *seen) {
    char error[512];
    seen->reader = na_reader_open(truth_path, error, sizeof error);
    if (seen->reader == NULL) {
        fprintf(stderr, "FAILED: %s\n", error);
        exit(1);
    }
    seen->header = na_reader_header(seen->reader);
    if (!na_sites_fold(seen->reader, &seen->sites) || !na_lives_fold(seen->reader, &seen->lives))
        give_up("no memory");
}

void seen_close(seen_t *seen) {
    na_sites_free(&seen->sites);
    na_lives_free(&seen->lives);
    na_reader_close(seen->reader);
}

bool seen_is(const seen_t *seen, const na_site_t *site, const truth_site_t *where) {
    na_stack_table_t stacks = na_reader_stacks(seen->reader);
    if (site->site <= NA_NPROF_ROOT || site->site >= stacks.count) return false;
    uint64_t pc = stacks.items[site->site].pc - 1;
    return pc >= where->start && pc < where->end;
}

na_counters_t seen_sum(const seen_t *seen, const truth_site_t *where, const na_site_t **first) {
    na_counters_t sum = na_counters_none();
    *first = NULL;
    for (size_t i = 0; i < seen->sites.count; i++) {
        if (!seen_is(seen, &seen->sites.items[i], where)) continue;
        if (*first == NULL) *first = &seen->sites.items[i];
        na_counters_add(&sum, &seen->sites.items[i].sum);
    }
    return sum;
}

/* In the child: the shared memory, if somebody is there to read it. */
static void adopt(void) {
    const char *fd = getenv("TRUTH_FD");
    if (fd == NULL) return;
    void *at = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0);
    if (at == MAP_FAILED) _exit(126);
    truth = at;
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "child") == 0) {
        adopt();
        const char *kind = argv[2];
        if (strcmp(kind, "oracle") == 0 && argc == 6)
            oracle_child(atoi(argv[3]), strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
        else if (strcmp(kind, "killed") == 0)
            killed_child();
        else if (strcmp(kind, "moves") == 0 && argc == 4)
            moves_child(argv[3]);
        else if (strcmp(kind, "moments") == 0 && argc == 4)
            moments_child(argv[3]);
        else if (strcmp(kind, "drawn") == 0 && argc == 4)
            drawn_child(argv[3]);
        else if (strcmp(kind, "case") == 0 && argc == 4)
            case_child(argv[3]);
        else
            return 2;
        return 0;
    }
    if (argc == 4 && strcmp(argv[2], "figures") == 0) {
        truth_self = argv[0];
        truth_library = argv[1];
        truth_begin();
        oracle_figures(argv[3]);
        truth_end();
        return truth_failures != 0;
    }
    static const struct {
        const char *name;
        void (*plain)(void);
        void (*numbered)(int);
        int number;
    } tests[] = {{"oracle", oracle_test, NULL, 0},  {"killed", NULL, killed_test, 200},
                 {"drawn", NULL, drawn_test, 1000}, {"cases", case_test, NULL, 0},
                 {"moves", moves_test, NULL, 0},    {"moments", moments_test, NULL, 0}};
    for (size_t i = 0; (argc == 3 || argc == 4) && i < sizeof tests / sizeof tests[0]; i++) {
        if (strcmp(argv[2], tests[i].name) != 0) continue;
        truth_self = argv[0];
        truth_library = argv[1];
        truth_begin();
        if (tests[i].plain != NULL)
            tests[i].plain();
        else
            tests[i].numbered(argc == 4 ? atoi(argv[3]) : tests[i].number);
        truth_end();
        return truth_failures != 0;
    }
    fprintf(stderr,
            "usage: test_profile /path/to/libnumalloc.so oracle|killed|drawn|cases|moves|moments"
            " [TIMES]\n"
            "       test_profile /path/to/libnumalloc.so figures DIRECTORY\n");
    return 2;
}
