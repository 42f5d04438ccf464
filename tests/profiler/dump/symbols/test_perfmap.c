/* test_perfmap.c - names of code made at run time: whose lines, which of two, and what is no map.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/dump/symbols/perfmap.h"

static char path[] = "/tmp/test_perfmap.XXXXXX";

static void setup(void) {
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
}

static void teardown(void) {
    unlink(path);
}

TestSuite(perfmap, .init = setup, .fini = teardown);

static na_perf_map_t *map_of(const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    return na_perf_map_open(path, 0);
}

static void expect(const na_perf_map_t *map, uint64_t address, const char *function,
                   const char *file, uint32_t line) {
    const na_perf_name_t *name = na_perf_map_find(map, address);
    cr_assert(name != NULL, "%#lx: nothing", address);
    cr_assert_str_eq(name->function, function);
    cr_assert((file == NULL) == (name->file == NULL), "%#lx", address);
    if (file != NULL) cr_assert_str_eq(name->file, file);
    cr_assert_eq(name->line, line);
}

/* Tiers of one function have one name; names that no rule knows are as they are. */
Test(perfmap, names) {
    na_perf_map_t *map = map_of("1000 10 JS:~keep /home/a b/x.js:12:5\n"
                                "2000 10 JS:*keep /home/a b/x.js:12:5\n"
                                "3000 10 LazyCompile:^f file:///y.js:7\n"
                                "4000 10 JS:~ /z.js:1:1\n"
                                "5000 10 py::main:/usr/lib/m.py\n"
                                "6000 10 py::odd\n"
                                "7000 10 Builtin:ArrayPush\n"
                                "8000 10 Lcom/example/A;::run\n"
                                "9000 10 JS:~native native:x:y\n"
                                "a000 10 Eval:+g 12:13\n");
    expect(map, 0x1000, "keep", "/home/a b/x.js", 12);
    expect(map, 0x200f, "keep", "/home/a b/x.js", 12);
    expect(map, 0x3008, "f", "file:///y.js", 7);
    expect(map, 0x4000, "(anonymous)", "/z.js", 1);
    expect(map, 0x5000, "main", "/usr/lib/m.py", 0);
    expect(map, 0x6000, "py::odd", NULL, 0);
    expect(map, 0x7000, "Builtin:ArrayPush", NULL, 0);
    expect(map, 0x8000, "Lcom/example/A;::run", NULL, 0);
    expect(map, 0x9000, "native", "native:x:y", 0);
    expect(map, 0xa000, "g", "12", 13);
    na_perf_map_close(map);
}

/* Ends are not part of a range; where code was put over older code, the later line counts. */
Test(perfmap, ranges) {
    na_perf_map_t *map = map_of("2000 1000 old\n1000 800 first\n2800 100 new\n2000 10 newest\n"
                                "1000 4 again\n0 0 nothing\n");
    cr_assert(na_perf_map_find(map, 0xfff) == NULL && na_perf_map_find(map, 0) == NULL);
    expect(map, 0x1003, "again", NULL, 0);
    expect(map, 0x1004, "first", NULL, 0);
    expect(map, 0x17ff, "first", NULL, 0);
    cr_assert(na_perf_map_find(map, 0x1800) == NULL);
    expect(map, 0x2005, "newest", NULL, 0);
    expect(map, 0x2010, "old", NULL, 0);
    expect(map, 0x2880, "new", NULL, 0);
    expect(map, 0x2900, "old", NULL, 0);
    cr_assert(na_perf_map_find(map, 0x3000) == NULL && na_perf_map_find(map, UINT64_MAX) == NULL);
    na_perf_map_close(map);
}

/* What is not a line is left out; a last line may be half written. */
Test(perfmap, damage) {
    na_perf_map_t *map = map_of("\nx\n12\n12 \n12 34\n12 34 \nzz 10 name\n10 zz name\n-\n"
                                "ffffffffffffffff ff wraps\n1000 10 good\n2000 10 ha");
    expect(map, 0x1000, "good", NULL, 0);
    expect(map, 0x2000, "ha", NULL, 0);
    cr_assert(na_perf_map_find(map, 0x12) == NULL && na_perf_map_find(map, 0x10) == NULL &&
              na_perf_map_find(map, UINT64_MAX) == NULL);
    na_perf_map_close(map);
    map = map_of("");
    cr_assert(map == NULL || na_perf_map_find(map, 0) == NULL);
    na_perf_map_close(map);
}

/* Only a file of the run's own time, and only a file. */
Test(perfmap, whose) {
    na_perf_map_close(map_of("1000 10 a\n"));
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000, .tv_nsec = 5}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    cr_assert(na_perf_map_open(path, UINT64_C(1000000000006)) == NULL);
    na_perf_map_t *map = na_perf_map_open(path, UINT64_C(1000000000005));
    cr_assert(map != NULL);
    na_perf_map_close(map);
    char link[sizeof path + 8];
    snprintf(link, sizeof link, "%s.link", path);
    cr_assert_eq(symlink(path, link), 0);
    map = na_perf_map_open(link, 0);
    unlink(link);
    cr_assert(map == NULL && na_perf_map_open("/tmp", 0) == NULL);
    cr_assert(na_perf_map_open("/nonexistent/perf.map", 0) == NULL);
    cr_assert_eq(mkfifo(link, 0600), 0);
    map = na_perf_map_open(link, 0);
    unlink(link);
    cr_assert(map == NULL);
}
