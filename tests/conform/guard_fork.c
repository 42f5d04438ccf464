/* guard_fork.c - NUMALLOC_GUARD with a file and children: a child has the guards as they were when
 * it was forked, whatever its parent does meanwhile; the file is its parent's alone; its own errors
 * have a file of their own, by fork and by the system call; who is killed leaves a file that knows
 * its blocks. Each case is a run of this program, each block guarded. */
#include "support/check.h"
#include "support/child.h"

#include <glob.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "profiler/format/guard_file.h"

enum { BLOCKS = 60, FORKS = 25 };

static void *blocks[BLOCKS];
static size_t size_of(unsigned i) {
    return 600 + i * 40;
}

static void renew(char c) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
        blocks[i] = malloc(size_of(i));
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], c, size_of(i));
    }
}

static void ends_well(pid_t pid) {
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "a child's status: %#x", (unsigned)status);
}

/* Both free what was there before the fork, and allocate, at the same time. */
static void role_both(void) {
    alarm(200);
    for (unsigned i = 0; i < FORKS; i++) {
        renew('x');
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        renew(pid == 0 ? 'y' : 'z');
        if (pid == 0) exit(0);
        ends_well(pid);
    }
}

static void role_raw(void) {
    alarm(200);
    for (unsigned i = 0; i < FORKS; i++) {
        renew('x');
        pid_t pid = (pid_t)syscall(SYS_fork);
        REQUIRE(pid >= 0);
        renew(pid == 0 ? 'y' : 'z');
        if (pid == 0) _exit(0);
        ends_well(pid);
    }
}

/* The child's error: a block of its parent's that it has freed. */
static void child_fails(bool raw) {
    char *block = malloc(100);
    pid_t pid = raw ? (pid_t)syscall(SYS_fork) : fork();
    REQUIRE(block != NULL && pid >= 0);
    if (pid == 0) {
        free(block);
        ((volatile char *)check_opaque(block))[5] = 1;
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    block[5] = 1;
    free(block);
}

static void role_fails(void) {
    child_fails(false);
}

static void role_raw_fails(void) {
    child_fails(true);
}

/* Says where its blocks are, freed and live, on either side of a fork, and is killed. */
static void role_killed(void) {
    char *freed = malloc(100), *live = malloc(200);
    pid_t pid = fork();
    REQUIRE(freed != NULL && live != NULL && pid >= 0);
    if (pid == 0) {
        renew('x');
        _exit(0);
    }
    ends_well(pid);
    char *later = malloc(300);
    free(freed);
    printf("%p %p %p\n", (void *)freed, (void *)live, (void *)later);
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

typedef struct role {
    const char *name;
    void (*run)(void);
    unsigned files; /* that are there afterwards */
} role_t;
#if defined SYS_fork
#define RAW_ROLES {"raw", role_raw, 1}, {"raw_fails", role_raw_fails, 2},
#else
#define RAW_ROLES
#endif
static const role_t roles[] = {
    {"both", role_both, 1}, {"fails", role_fails, 2}, RAW_ROLES{"killed", role_killed, 1}};
#define ROLES (sizeof roles / sizeof roles[0])

static char directory[64];

typedef struct file {
    const na_gf_head_t *head;
    const na_gf_record_t *records;
    const na_gf_error_t *errors;
    size_t size;
} file_t;

static file_t open_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    REQUIRE(fd >= 0 && size > (off_t)sizeof(na_gf_head_t));
    const char *at = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(at != MAP_FAILED);
    close(fd);
    const na_gf_head_t *head = (const na_gf_head_t *)at;
    CHECK(memcmp(head->magic, NA_GF_MAGIC, sizeof head->magic) == 0);
    return (file_t){head, (const na_gf_record_t *)(at + head->parts[NA_GF_RECORDS].offset),
                    (const na_gf_error_t *)(at + head->parts[NA_GF_ERRORS].offset), (size_t)size};
}

/* The newest block of that address has this state and its stacks. */
static void expect_block(const file_t *f, const void *address, na_gf_state_t state) {
    const na_gf_record_t *found = NULL;
    for (uint32_t i = 0; i < f->head->parts[NA_GF_RECORDS].count; i++)
        if (f->records[i].address == (uintptr_t)address) found = &f->records[i];
    REQUIRE(found != NULL);
    CHECK(found->state == state && found->alloc_stack != 0);
    CHECK((found->free_stack != 0) == (state == NA_GF_FREED));
}

static void expect_killed(const file_t *f, const char *said) {
    void *freed, *live, *later;
    REQUIRE(sscanf(said, "%p %p %p", &freed, &live, &later) == 3);
    expect_block(f, freed, NA_GF_FREED);
    expect_block(f, live, NA_GF_LIVE);
    expect_block(f, later, NA_GF_LIVE);
}

static void expect_files(const role_t *role, const child_result_t *result) {
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*", directory);
    REQUIRE(glob(pattern, 0, NULL, &found) == 0);
    CHECK_MSG(found.gl_pathc == role->files, "%s: %zu files", role->name, found.gl_pathc);
    bool killed = role->run == role_killed;
    uint32_t first = 0; /* the parent's process */
    for (size_t i = 0; i < found.gl_pathc; i++) {
        file_t f = open_file(found.gl_pathv[i]);
        bool is_child = f.head->parent != 0;
        if (!is_child) first = f.head->pid;
        CHECK(f.head->errors == (is_child ? 1 : 0));
        CHECK(!is_child || f.errors[0].kind == NA_GF_USE_AFTER_FREE);
        if (killed) expect_killed(&f, result->out);
        munmap((void *)(uintptr_t)f.head, f.size);
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        file_t f = open_file(found.gl_pathv[i]);
        CHECK(f.head->pid == first || f.head->parent == first);
        munmap((void *)(uintptr_t)f.head, f.size);
        unlink(found.gl_pathv[i]);
    }
    globfree(&found);
}

static void try_role(const role_t *role) {
    char file[128];
    snprintf(file, sizeof file, "NUMALLOC_GUARD_FILE=%s", directory);
    const char *const env[] = {"NUMALLOC_GUARD=1", "NUMALLOC_GUARD_EACH=1", file, NULL};
    child_result_t result;
    child_run_self(&result, role->name, NULL, env, NULL, NULL);
    if (role->run != role_killed)
        child_expect_ok(&result, role->name);
    else
        CHECK(child_killed_by(&result, SIGKILL));
    bool reports = strstr(result.err, "numalloc: use after free: write") != NULL;
    CHECK_MSG(reports == (role->files > 1), "%s: %s", role->name, result.err);
    expect_files(role, &result);
}

int main(int argc, char **argv) {
    check_begin();
    for (size_t i = 0; argc > 1 && i < ROLES; i++) {
        if (strcmp(argv[1], roles[i].name) != 0) continue;
        roles[i].run();
        return check_status();
    }
    snprintf(directory, sizeof directory, "/tmp/guard_fork.XXXXXX");
    REQUIRE(mkdtemp(directory) != NULL);
    for (size_t i = 0; i < ROLES; i++)
        try_role(&roles[i]);
    rmdir(directory);
    return check_status();
}
