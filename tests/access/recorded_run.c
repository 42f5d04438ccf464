/* recorded_run.c - see recorded_run.h. */
#include "access/recorded_run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "support/access_source.h"
#include "support/check.h"

const char *run_program;

/* ---- running the program ---- */

/* Of the calls that matter here, those that Docker's profile answers with EPERM. */
static void forbid(void) {
    static const unsigned short calls[] = {
        SYS_perf_event_open,
        SYS_get_mempolicy,
        SYS_set_mempolicy,
        SYS_mbind,
        SYS_move_pages,
        SYS_migrate_pages,
        450 /* set_mempolicy_home_node */,
    };
    enum { CALLS = sizeof calls / sizeof calls[0] };
    struct sock_filter code[CALLS + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (unsigned i = 0; i < CALLS; i++)
        code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i],
                                                   (unsigned char)(CALLS - i), 0);
    code[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {.len = CALLS + 3, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(78);
}

void run_start(run_t *r, const char *what, const char *source, condition_t as) {
    memset(r, 0, sizeof *r);
    strcpy(r->directory, "/tmp/numalloc-record-XXXXXX");
    REQUIRE(mkdtemp(r->directory) != NULL);
    REQUIRE(chmod(r->directory, 0777) == 0);
    snprintf(r->file, sizeof r->file, "%s/p.nprof", r->directory);
    snprintf(r->errors, sizeof r->errors, "%s/stderr", r->directory);
    int in[2], out[2];
    REQUIRE(pipe(in) == 0 && pipe(out) == 0);
    r->pid = fork();
    REQUIRE(r->pid >= 0);
    if (r->pid == 0) {
        access_from(source);
        setenv("NUMALLOC_PROFILE_FILE", r->file, 1);
        setenv("LD_PRELOAD", getenv("NA_TEST_LIB"), 1);
        int errors = open(r->errors, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || dup2(errors, 2) < 0) _exit(79);
        close(in[1]);
        close(out[0]);
        if (as.contained) forbid();
        if (as.uid != 0 && (setgid(as.uid) != 0 || setuid(as.uid) != 0)) _exit(80);
        execl(run_program, run_program, what, NULL);
        _exit(81);
    }
    close(in[0]);
    close(out[1]);
    r->in = in[1];
    r->out = fdopen(out[0], "r");
    REQUIRE(r->out != NULL);
}

void run_until_line(run_t *r, const char *wanted) {
    char line[128];
    while (fgets(line, sizeof line, r->out) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, wanted) == 0) return;
        REQUIRE(r->names < MOST_NAMES);
        named_t *n = &r->name[r->names];
        unsigned long at, size;
        if (sscanf(line, "tid %23s %lu", n->name, &at) == 2) {
            n->at = at;
            r->names++;
        } else if (sscanf(line, "%23s %lx %lx", n->name, &at, &size) == 3) {
            n->at = at;
            n->size = size;
            r->names++;
        }
    }
    CHECK_MSG(false, "the program ended before '%s'", wanted);
    exit(1);
}

const named_t *run_named(const run_t *r, const char *name) {
    for (unsigned i = 0; i < r->names; i++)
        if (strcmp(r->name[i].name, name) == 0) return &r->name[i];
    CHECK_MSG(false, "the program did not say where '%s' is", name);
    exit(1);
}

bool run_within(const named_t *n, uint64_t address) {
    return address - n->at < n->size;
}

void run_end(run_t *r) {
    int status = 1;
    close(r->in);
    fclose(r->out);
    REQUIRE(waitpid(r->pid, &status, 0) == r->pid);
    CHECK_MSG(status == 0, "the program's status is %x", (unsigned)status);
}

void run_clean(run_t *r) {
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", r->directory);
    CHECK(system(command) == 0);
}

void run_said(const run_t *r, char *text, size_t size) {
    FILE *f = fopen(r->errors, "r");
    size_t n = f != NULL ? fread(text, 1, size - 1, f) : 0;
    text[n] = 0;
    if (f != NULL) fclose(f);
}

/* ---- reading profiles ---- */

numalloc_profile_t *must_open(const char *file) {
    char why[256];
    numalloc_profile_t *p = numalloc_profile_open(file, why, sizeof why);
    CHECK_MSG(p != NULL, "%s", why);
    if (p == NULL) exit(1);
    return p;
}

numalloc_profile_access_source_t source_used(numalloc_profile_t *p) {
    numalloc_profile_access_source_t s;
    for (uint32_t id = 1; id <= numalloc_profile_access_sources(p); id++)
        if (numalloc_profile_access_source(p, id, &s, sizeof s) == 0 && s.used) return s;
    memset(&s, 0, sizeof s);
    return s;
}

numalloc_profile_access_source_t source_of(numalloc_profile_t *p, const char *name) {
    numalloc_profile_access_source_t s;
    for (uint32_t id = 1; id <= numalloc_profile_access_sources(p); id++)
        if (numalloc_profile_access_source(p, id, &s, sizeof s) == 0 && strcmp(s.name, name) == 0)
            return s;
    memset(&s, 0, sizeof s);
    return s;
}

void run_wait_for(run_t *r, bool (*enough)(const run_t *r, numalloc_profile_t *p)) {
    for (;;) {
        numalloc_profile_t *p = must_open(r->file);
        bool done = enough(r, p);
        numalloc_profile_close(p);
        if (done) return;
        struct timespec t = {.tv_nsec = 200000000};
        nanosleep(&t, NULL);
        int status;
        REQUIRE(waitpid(r->pid, &status, WNOHANG) == 0);
    }
}
