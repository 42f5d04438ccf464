/* journal.c - the file that an interrupted comparison is resumed from.
 *
 * Lines of tab-separated fields, each written by one write() when what it tells has happened:
 *   numalloc-bench compare journal 1
 *   word TEXT                              the command line, for a resume without one
 *   plan ROUNDS CONTENDERS CASES BASE
 *   allocator INDEX NAME PATH SIZE MTIME   the file that was measured
 *   case INDEX NAME THREADS WORD...        with the knobs that the budget gave
 *   ready                                  all of the above is there
 *   run ROUND CASE CONTENDER ...           one finished child (result.c)
 * A last line without its end is what a crash or a full disk left of a write: it is dropped, and
 * the child that it was of runs again. */
#include "bench/compare/journal.h"

#include "bench/compare/result.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE "numalloc-bench compare journal 1"

typedef struct lines {
    char *text;    /* a private mapping of the file, or NULL */
    size_t mapped; /* its size */
    size_t whole;  /* bytes up to the end of the last complete line */
    size_t at;
    size_t number; /* of the line given last, from 1 */
} lines_t;

/* False with errno set, ENOENT when there is no such file. */
static bool open_lines(const char *path, lines_t *lines) {
    struct stat about;
    *lines = (lines_t){0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    bool good = fstat(file, &about) == 0;
    if (good && !S_ISREG(about.st_mode)) {
        good = false;
        errno = EINVAL;
    }
    if (good && about.st_size > 0) {
        lines->mapped = (size_t)about.st_size;
        lines->text = mmap(NULL, lines->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        if (lines->text == MAP_FAILED) good = false;
    }
    int kept = errno;
    close(file);
    errno = kept;
    if (!good) return false;
    lines->whole = lines->mapped;
    while (lines->whole > 0 && lines->text[lines->whole - 1] != '\n')
        lines->whole--;
    return true;
}

static void close_lines(lines_t *lines) {
    if (lines->mapped != 0) munmap(lines->text, lines->mapped);
}

static char *next_line(lines_t *lines) {
    if (lines->at >= lines->whole) return NULL;
    char *line = lines->text + lines->at;
    char *end = memchr(line, '\n', lines->whole - lines->at);
    *end = '\0';
    lines->at = (size_t)(end - lines->text) + 1;
    lines->number++;
    return line;
}

static bool is_journal(lines_t *lines, const char *path, char *error, size_t size) {
    char *line = next_line(lines);
    if (line != NULL && strcmp(line, FIRST_LINE) == 0) return true;
    snprintf(error, size, "'%.200s' is not a journal of compare; name another file with --resume",
             path);
    return false;
}

bool na_journal_words(const char *path, const char **words, size_t *count, size_t max, char *error,
                      size_t size) {
    lines_t lines;
    *count = 0;
    if (!open_lines(path, &lines)) {
        if (errno == ENOENT) return true;
        snprintf(error, size, "cannot read --resume '%.200s': %s", path, strerror(errno));
        return false;
    }
    /* An empty file is what a crash before the first line leaves. */
    bool good = lines.mapped == 0 || is_journal(&lines, path, error, size);
    char *line;
    while (good && (line = next_line(&lines)) != NULL && strncmp(line, "word\t", 5) == 0 &&
           *count < max)
        words[(*count)++] = na_compare_text(line + 5, strlen(line + 5));
    close_lines(&lines);
    return good;
}

static void write_line(na_journal_t *journal, const char *line) {
    static char text[65536 + 2];
    size_t length = strlen(line), done = 0;
    if (length > sizeof text - 2) na_bench_fail("compare: a line of the journal is too long");
    length = (size_t)snprintf(text, sizeof text, "%s\n", line);
    while (done < length) {
        ssize_t put = write(journal->file, text + done, length - done);
        if (put < 0 && errno != EINTR)
            na_bench_fail("compare: cannot write the journal '%s': %s", journal->path,
                          strerror(errno));
        if (put > 0) done += (size_t)put;
    }
}

/* The line that says which file contender c is. */
static void allocator_line(const na_comparison_t *comparison, size_t c, char *out, size_t size) {
    const na_contender_t *contender = &comparison->contender[c];
    struct stat about = {0};
    if (*contender->path != '\0' && stat(contender->path, &about) != 0)
        na_bench_fail("compare: cannot look at %s: %s", contender->path, strerror(errno));
    snprintf(out, size, "allocator\t%zu\t%s\t%s\t%lld\t%lld", c, contender->name, contender->path,
             (long long)about.st_size, (long long)about.st_mtime);
}

static void plan_line(const na_comparison_t *comparison, char *out, size_t size) {
    snprintf(out, size, "plan\t%zu\t%zu\t%zu\t%zu", comparison->rounds, comparison->contenders,
             comparison->case_count, comparison->base);
}

static bool begin_new(na_journal_t *journal, const na_comparison_t *comparison, int argc,
                      char **argv, char *error, size_t size) {
    char line[2400];
    for (int i = 0; i < argc; i++) {
        if (strpbrk(argv[i], "\n\t") != NULL || strlen(argv[i]) >= sizeof line - 8) {
            snprintf(error, size,
                     "'%.60s' is too long or has a tab or line end, which the journal "
                     "cannot hold; put a long command into a script",
                     argv[i]);
            return false;
        }
    }
    if (*journal->path == '\0') {
        const char *place = getenv("TMPDIR");
        snprintf(journal->path, sizeof journal->path, "%.900s/numalloc-bench-compare.XXXXXX",
                 place != NULL && *place == '/' ? place : "/tmp");
        journal->temporary = true;
        journal->file = mkostemp(journal->path, O_CLOEXEC | O_APPEND);
    } else {
        journal->file =
            open(journal->path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    }
    if (journal->file < 0) {
        snprintf(error, size, "cannot write the journal '%.200s': %s", journal->path,
                 strerror(errno));
        return false;
    }
    write_line(journal, FIRST_LINE);
    for (int i = 0; i < argc; i++) {
        snprintf(line, sizeof line, "word\t%s", argv[i]);
        write_line(journal, line);
    }
    plan_line(comparison, line, sizeof line);
    write_line(journal, line);
    for (size_t c = 0; c < comparison->contenders; c++) {
        allocator_line(comparison, c, line, sizeof line);
        write_line(journal, line);
    }
    return true;
}

void na_journal_plan(na_journal_t *journal, const na_comparison_t *comparison) {
    static char line[16384];
    for (size_t i = 0; i < comparison->case_count; i++) {
        const na_case_t *which = &comparison->cases[i];
        int length =
            snprintf(line, sizeof line, "case\t%zu\t%s\t%u", i, which->name, which->threads);
        for (size_t w = 0; w < which->words; w++) {
            length += snprintf(line + length, sizeof line - (size_t)length, "\t%s", which->word[w]);
            if ((size_t)length >= sizeof line)
                na_bench_fail("compare: the knobs of %s are too long", which->name);
        }
        write_line(journal, line);
    }
    write_line(journal, "ready");
}

/* "case INDEX NAME THREADS WORD..." into the case of that index. */
static bool take_case(na_comparison_t *comparison, char *line) {
    char *field[4 + NA_CASE_WORDS_MAX + 1];
    uint64_t index, threads;
    size_t fields = 0;
    for (char *at = line; at != NULL && fields < NA_COUNT(field);) {
        field[fields++] = at;
        at = strchr(at, '\t');
        if (at != NULL) *at++ = '\0';
    }
    if (fields < 4 || fields > 4 + NA_CASE_WORDS_MAX ||
        !na_knobs_number(field[1], 0, comparison->case_count - 1, &index) ||
        !na_knobs_number(field[3], 0, 1024, &threads))
        return false;
    na_case_t *which = &comparison->cases[index];
    if (strcmp(which->name, field[2]) != 0 || which->threads != threads) return false;
    which->words = fields - 4;
    for (size_t w = 0; w < which->words; w++)
        which->word[w] = na_compare_text(field[4 + w], strlen(field[4 + w]));
    return true;
}

/* False with one line in `error`. *ready: the plan was complete; otherwise nothing was taken. */
static bool read_journal(na_journal_t *journal, na_comparison_t *comparison, lines_t *lines,
                         bool *ready, char *error, size_t size) {
    char wanted[2400];
    const char *wrong = NULL;
    size_t next_allocator = 0;
    *ready = false;
    char *line;
    while (wrong == NULL && (line = next_line(lines)) != NULL) {
        if (strncmp(line, "word\t", 5) == 0) continue;
        if (strcmp(line, "ready") == 0) {
            *ready = true;
        } else if (strncmp(line, "plan\t", 5) == 0) {
            plan_line(comparison, wanted, sizeof wanted);
            if (strcmp(line, wanted) != 0) wrong = "is of a comparison with other options";
        } else if (strncmp(line, "allocator\t", 10) == 0) {
            if (next_allocator == comparison->contenders) {
                wrong = "has more allocators than its plan";
                continue;
            }
            allocator_line(comparison, next_allocator++, wanted, sizeof wanted);
            if (strcmp(line, wanted) != 0) wrong = "was begun with another build of an allocator";
        } else if (strncmp(line, "case\t", 5) == 0) {
            if (!take_case(comparison, line)) wrong = "has a case that does not fit its plan";
        } else if (!*ready || !na_result_line(comparison, line, journal->present)) {
            wrong = "is damaged";
        }
    }
    if (wrong == NULL) return true;
    snprintf(error, size, "the journal '%.200s' %s (line %zu); name another file with --resume",
             journal->path, wrong, lines->number);
    return false;
}

bool na_journal_begin(na_journal_t *journal, const char *path, na_comparison_t *comparison,
                      int argc, char **argv, char *error, size_t size) {
    lines_t lines;
    bool ready = false, good = true;
    *journal = (na_journal_t){.file = -1};
    if (strlen(path) >= sizeof journal->path) {
        snprintf(error, size, "the name of the journal is too long");
        return false;
    }
    snprintf(journal->path, sizeof journal->path, "%s", path);
    journal->present = na_compare_memory(comparison->rounds * comparison->case_count *
                                         comparison->contenders * sizeof(bool));
    if (*path != '\0' && open_lines(path, &lines)) {
        if (lines.mapped != 0)
            good = is_journal(&lines, path, error, size) &&
                   read_journal(journal, comparison, &lines, &ready, error, size);
        close_lines(&lines);
        if (!good) return false;
        if (ready) {
            journal->resumed = true;
            journal->file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
            if (journal->file < 0 || ftruncate(journal->file, (off_t)lines.whole) != 0) {
                snprintf(error, size, "cannot write the journal '%.200s': %s", path,
                         strerror(errno));
                return false;
            }
            return true;
        }
    } else if (*path != '\0' && errno != ENOENT) {
        snprintf(error, size, "cannot read --resume '%.200s': %s", path, strerror(errno));
        return false;
    }
    return begin_new(journal, comparison, argc, argv, error, size);
}

bool na_journal_has(const na_journal_t *journal, const na_comparison_t *comparison, size_t round,
                    size_t index, size_t c) {
    return journal->present[(round * comparison->case_count + index) * comparison->contenders + c];
}

void na_journal_add(na_journal_t *journal, const char *line) {
    write_line(journal, line);
}

void na_journal_end(na_journal_t *journal, bool complete) {
    if (complete && journal->temporary) unlink(journal->path);
    close(journal->file);
    journal->file = -1;
}
