/* test_source_target.c - the name of a block: what the call in a line of source is assigned to. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "profiler/dump/source/source_column.h"
#include "profiler/dump/source/source_target.h"

TestSuite(source_target, .timeout = 300);

/* `source` has the line marked by a @ at its start; "" for none, "?" for several. */
static void is(const char *source, const char *callee, unsigned column, const char *wanted) {
    char text[1024], name[80] = "";
    const char *mark = strchr(source, '@');
    cr_assert(mark != NULL && strlen(source) < sizeof text);
    size_t line = (size_t)(mark - source);
    memcpy(text, source, line);
    strcpy(text + line, mark + 1);
    na_target_t found = na_target_of(text, line, callee, column, name, sizeof name);
    const char *said = found == NA_TARGET_NONE ? "" : found == NA_TARGET_SEVERAL ? "?" : name;
    cr_assert_str_eq(said, wanted, "%s: '%s', not '%s'", source, said, wanted);
}

static void named(const char *line, const char *wanted) {
    char source[512];
    snprintf(source, sizeof source, "void f(void) {\n@    %s\n}\n", line);
    is(source, NULL, 0, wanted);
}

Test(source_target, c) {
    named("double *matrix = malloc(n * sizeof *matrix);", "matrix");
    named("s->basis = malloc(n);", "s->basis");
    named("static struct node **table = calloc(n, sizeof *table);", "table");
    named("*out = malloc(8);", "*out");
    named("**out = malloc(8);", "**out");
    named("(*p)->next = malloc(8);", "(*p)->next");
    named("rows[i][j + 1] = malloc(n);", "rows[i][j+1]");
    named("a->b.c[f(x)]->d = malloc(n);", "a->b.c[f(x)]->d");
    named("p = (char *)malloc(n);", "p");
    named("p = (struct node *) (void *) malloc(n);", "p");
    named("p = realloc(p, 2 * n);", "p");
    named("if ((p = malloc(n)) == NULL) return;", "p");
    named("if (!(p = malloc(n))) return;", "p");
    named("if (x) *p = malloc(n);", "*p");
    named("for (int i = 0; i < n; i++) a[i] = malloc(n);", "a[i]");
    named("else p = malloc(n);", "p");
    named("case 3: p = malloc(n);", "p");
    named("a = b = malloc(n);", "b");
    named("memset(buffer = malloc(n), 0, n);", "buffer");
    named("p = big ? malloc(n) : malloc(m);", "p");
    named("p = x == NULL ? malloc(n) : x;", "p");
    named("p = check(malloc(n));", "p");
    named("p = check((char *)malloc(n));", "p");
    named("name = strdup(\"a = b; /* malloc(\");", "name");
    named("p = /* q = */ malloc(n); // r = malloc(m)", "p");
    named("struct s x = {.data = malloc(n)};", "data");
    named("if (posix_memalign((void **)&p, 64, n) != 0) return;", "p");
    named("posix_memalign(&s->line[i], 64, n);", "s->line[i]");
}

Test(source_target, assigned_to_nothing) {
    named("return malloc(n);", "");
    named("use(malloc(n));", "");
    named("list_add(list, malloc(n));", "");
    named("p = pair(malloc(n), q);", "");
    named("p = pair(q, malloc(n));", "");
    named("if (malloc(n) == NULL) return;", "");
    named("total += size_of(malloc(n));", "");
    named("x = a + distance(malloc(n));", "");
    named("same = p == malloc(n);", "");
    named("n = 3;", "");
    named("free(p);", "");
    named("p = new node(malloc(n));", "?"); /* one that is, one that is not */
}

Test(source_target, cpp) {
    named("auto p = std::make_unique<double[]>(n);", "p");
    named("auto p = std::make_shared<std::map<int, std::string>>();", "p");
    named("std::unique_ptr<T> p(new T(3));", "p");
    named("std::unique_ptr<T[]> rows = std::unique_ptr<T[]>(new T[n]);", "rows");
    named("T *p = new (std::nothrow) T[n];", "p");
    named("T *p = ::new T;", "p");
    named("this->data_ = new int[n]();", "this->data_");
    named("ns::object.field = new T{1, 2};", "ns::object.field");
    named("auto *p = static_cast<T *>(std::malloc(n));", "p");
    named("auto *p = reinterpret_cast<std::pair<int, int> *>(::malloc(n));", "p");
    named("const auto &p = *new T;", "");
    named("v.push_back(new T);", "");
    named("throw std::runtime_error(name);", "");
    named("return std::make_unique<T>(a, b);", "");
    named("x = y < z ? new T : nullptr;", "x");
    is("@foo::foo(int n) : data_(new int[n]), size_(n) {}\n", NULL, 0, "data_");
}

/* The callee is known where the stack has it. */
Test(source_target, callee) {
    is("{\n@  std::vector<double> v(n);\n}", "std::vector<double>::vector(unsigned long)", 0, "v");
    is("{\n@  std::vector<double> v(n, f(x));\n}", NULL, 0, "v");
    is("{\n@  a = xmalloc(strlen(s) + 1);\n}", "xmalloc", 0, "a");
    is("{\n@  a = pool->get(malloc_size(3));\n}", "pool::get(unsigned int)", 0, "a");
    is("{\n@  a = NEW(struct foo, strlen(s));\n}", NULL, 0, "a");
    is("{\n@  a = malloc(3); b = calloc(1, 3);\n}", "calloc", 0, "b");
    is("{\n@  a = malloc(3); b = calloc(1, 3);\n}", "malloc", 0, "a");
    is("{\n@  T *a = new T; b = malloc(3);\n}", "operator new(unsigned long)", 0, "a");
}

/* Several calls of one function: the column tells. */
Test(source_target, several) {
    static const char line[] = "{\n@int *a = malloc(3), *b = malloc(4); return malloc(5);\n}";
    is(line, NULL, 0, "?");
    is(line, "malloc", 0, "?");
    is(line, NULL, 10, "a");
    is(line, NULL, 26, "b");
    is(line, NULL, 44, "");
    is("{\n@a = malloc(3); a = malloc(4);\n}", NULL, 0, "a");
}

Test(source_target, of_several_lines) {
    is("{\n  s->table =\n@      calloc(n,\n             size);\n}", NULL, 0, "s->table");
    is("{\n@  double *matrix =\n      malloc(n);\n}", NULL, 0, "matrix");
    is("{\n  a = malloc(3);\n  p = f(\n@    q(1,\n  2));\n}", NULL, 0, "p");
    is("{\n  a = malloc(3);\n@  g = 3;\n}", NULL, 0, "");
    is("x */ p = 1;\n#define A(x) \\\n  b = malloc(x)\n@  c = A(3);\n", NULL, 0, "c");
}

static uintptr_t called_from;

static __attribute__((noinline)) int call(int value) {
    called_from = (uintptr_t)__builtin_return_address(0);
    return value;
}

/* The line table has the columns of two calls in a line. */
Test(source_target, columns) {
    uintptr_t at[2];
    /* clang-format off */
    int line = __LINE__ + 1;
    int sum = call(1); at[0] = called_from; sum += call(2); at[1] = called_from;
    /* clang-format on */
    cr_assert_eq(sum, 3);
    Dl_info info;
    cr_assert_neq(dladdr((void *)at[0], &info), 0);
    uintptr_t base = (uintptr_t)info.dli_fbase;
    if (base == 0x400000) base = 0; /* not position-independent */
    unsigned column[2];
    for (int i = 0; i < 2; i++)
        column[i] = na_source_column("/proc/self/exe", at[i] - base, (unsigned)line);
    if (column[0] == 0) cr_skip_test("no debug information");
    cr_assert_eq(column[0], 15, "%u", column[0]);
    cr_assert_eq(column[1], 52, "%u", column[1]);
    cr_assert_eq(na_source_column("/proc/self/exe", at[0] - base, (unsigned)line + 1), 0);
    cr_assert_eq(na_source_column("/no/such/file", at[0] - base, (unsigned)line), 0);
    char text[] =
        "    int sum = call(1); at[0] = called_from; sum += call(2); at[1] = called_from;\n";
    char name[80];
    cr_assert_eq(na_target_of(text, 0, "call", column[0], name, sizeof name), NA_TARGET_NAMED);
    cr_assert_str_eq(name, "sum");
    cr_assert_eq(na_target_of(text, 0, "call", column[1], name, sizeof name), NA_TARGET_NONE);
}

/* Anything at all may be in a file; what is long is cut. */
Test(source_target, hostile) {
    static const char letters[] = "(){}[]<>=*&;:.,?-+\"'/\\\n #a1 new malloc(p=";
    uint64_t random = 1;
    for (unsigned i = 0; i < 20000; i++) {
        char text[128], name[80];
        size_t length = 1 + i % (sizeof text - 1);
        for (size_t k = 0; k < length; k++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            text[k] = letters[(random >> 33) % (sizeof letters - 1)];
        }
        text[length - 1] = 0;
        size_t line = (random >> 40) % length;
        (void)na_target_of(text, line, i % 3 == 0 ? "std::a<(" : NULL, i % 2 * (i % 50), name,
                           sizeof name);
    }
    char text[512] = "p";
    memset(text + 1, 'x', 200);
    strcpy(text + 201, " = malloc(3);");
    char name[80];
    cr_assert_eq(na_target_of(text, 0, NULL, 0, name, sizeof name), NA_TARGET_NAMED);
    cr_assert_eq(strlen(name), 60);
    cr_assert_str_eq(name + 57, "...");
}
