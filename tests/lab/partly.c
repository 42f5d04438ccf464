/* partly.c - what nobody wrote is not resident, however the system makes huge pages: unasked, when
 * asked, never, or where the process refuses them. (numalloc-bench partly has more cases, on the
 * machine's own setting.)
 *
 * lab-partly runs itself, as a child without a library and one with PARTLY_LIB, for each case. The
 * child allocates blocks, writes to a page of each, or to all of the small ones, and says by how
 * much its anonymous memory has grown. */
#include "lab.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB    ((size_t)1 << 20)
#define TOTAL  (64 * MIB)
#define TABLES (1 * MIB) /* of the first use, and for what small blocks will fill next */

typedef enum part { FIRST, LAST, BESIDE_SMALL, PARTS } part_t;
static const char *const parts[PARTS] = {"first", "last", "beside-small"};
static const char *const sizes[] = {"6000", "32768", "131072", "4194304"};

/* --- the child --- */

static void use(const char *part, size_t size) {
    char *block = malloc(size);
    REQUIRE(block != NULL);
    block[strcmp(part, "last") == 0 ? size - 1 : 0] = 1;
    for (size_t done = 0; strcmp(part, "beside-small") == 0 && done < 4096; done += 200) {
        char *small = malloc(200);
        REQUIRE(small != NULL);
        memset(small, 1, 200);
    }
}

static int child(const char *part, size_t size) {
    free(malloc(100));
    uint64_t before = lab_rss();
    for (size_t i = 0; i < TOTAL / size; i++)
        use(part, size);
    uint64_t grown = lab_rss() - before;
    return write(STDOUT_FILENO, &grown, sizeof grown) == sizeof grown ? 0 : 1;
}

/* --- cases --- */

static uint64_t grown(const char *library, const char *part, const char *size) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        if (library != NULL) setenv("LD_PRELOAD", library, 1);
        execl("/proc/self/exe", "lab-partly", part, size, NULL);
        _exit(127);
    }
    close(ends[1]);
    uint64_t bytes = 0;
    int status;
    REQUIRE(read(ends[0], &bytes, sizeof bytes) == sizeof bytes);
    close(ends[0]);
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    return bytes;
}

static void set_huge_pages(const char *word) {
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, word, strlen(word)) == (ssize_t)strlen(word));
    close(fd);
}

static void compare(const char *how, const char *library) {
    for (unsigned p = 0; p < PARTS; p++)
        for (unsigned s = 0; s < NA_COUNT(sizes); s++) {
            uint64_t theirs = grown(NULL, parts[p], sizes[s]);
            uint64_t ours = grown(library, parts[p], sizes[s]);
            if (ours <= theirs + theirs / 10 + TABLES) continue;
            check_say("%s: %s of %s bytes: %zu KiB, the C library has %zu\n", how, parts[p],
                      sizes[s], (size_t)(ours >> 10), (size_t)(theirs >> 10));
            check_count_failure();
        }
}

int main(int argc, char **argv) {
    check_begin();
    if (argc == 3) return child(argv[1], strtoul(argv[2], NULL, 10));
    const char *library = getenv("PARTLY_LIB");
    REQUIRE(library != NULL);
    static const char *const settings[] = {"always", "madvise", "never"};
    for (unsigned i = 0; i < NA_COUNT(settings); i++) {
        set_huge_pages(settings[i]);
        compare(settings[i], library);
    }
    set_huge_pages("always");
    REQUIRE(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    compare("refused by the process", library);
    return check_status();
}
