/* test_source_line.c - source_line.c: a file that was changed after the program was built names no
 * blocks, unless --source-path says that it is the right one. */
#include "profiler/dump/source/source_line.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/numalloc-source.XXXXXX", source[64], program[64];

static void make(char path[64], const char *name, const char *text) {
    snprintf(path, 64, "%s/%s", directory, name);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

/* Last written at that second. */
static void written(const char *path, time_t at) {
    struct timespec times[2] = {{.tv_sec = at}, {.tv_sec = at}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

Test(source_line, changed_after_the_build) {
    cr_assert_not_null(mkdtemp(directory));
    make(source, "a.c", "void f(void) {\n    table = malloc(64);\n}\n");
    make(program, "a", "");
    na_options_t options = {0};
    na_symbol_frame_t frame = {.file = source, .line = 2, .module = program};
    char name[64] = "";
    written(source, 1000);
    written(program, 1000);
    cr_expect(na_source_target(&options, &frame, "malloc", name, sizeof name));
    cr_expect_str_eq(name, "table");
    cr_expect_not(na_source_is_changed(&options, source, program));
    written(source, 1001);
    cr_expect(na_source_is_changed(&options, source, program));
    cr_expect_not(na_source_target(&options, &frame, "malloc", name, sizeof name));
    char same[160];
    snprintf(same, sizeof same, "%s=%s", directory, directory);
    options.source.paths.items[0] = same;
    options.source.paths.count = 1;
    cr_expect(na_source_target(&options, &frame, "malloc", name, sizeof name));
    unlink(source);
    unlink(program);
    rmdir(directory);
}
