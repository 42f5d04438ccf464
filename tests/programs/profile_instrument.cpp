// profile_instrument.cpp - a program with known call stacks, compiled with -finstrument-functions.
// Each function that allocates does so with a size of its own.
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#define APART __attribute__((noinline))

static std::jmp_buf landing;
void *volatile kept;

APART static void allocate(std::size_t size) {
    kept = std::malloc(size);
}

APART static void inner() {
    allocate(101);
}

APART static void middle() {
    inner();
    allocate(102);
}

APART static void jumps(int depth) {
    volatile char frame[200];
    frame[0] = 1;
    if (depth == 0) std::longjmp(landing, 1);
    if (depth > 0) jumps(depth - 1);
    frame[1] = frame[0];
}

APART static void after_jump() {
    allocate(103);
}

APART static void jump_and_go_on() {
    if (setjmp(landing) == 0) jumps(20);
    after_jump();
}

APART static void throws(int depth) {
    volatile char frame[200];
    frame[0] = 1;
    if (depth == 0) throw std::runtime_error("far");
    throws(depth - 1);
    frame[1] = frame[0];
}

APART static void after_throw() {
    allocate(104);
}

APART static void throw_and_go_on() {
    try {
        throws(20);
    } catch (const std::exception &) {
        after_throw();
    }
}

APART static int deep(int depth) {
    if (depth == 0) allocate(105);
    return depth == 0 ? 0 : deep(depth - 1) + 1;
}

// What calls malloc here is the C library, the C++ library, and a function that says nothing of
// itself.
APART static void duplicates() {
    static const char text[] = "a text of one hundred and six characters, which strdup copies into "
                               "a block that is one byte longer than it";
    static_assert(sizeof text == 107, "");
    kept = strdup(text);
}

APART static void assigns(const char *text) {
    static std::string string;
    string.assign(text);
    kept = &string[0];
}

APART __attribute__((no_instrument_function)) void *silent(std::size_t size) {
    void *block = std::malloc(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

APART static void calls_silent() {
    kept = silent(109);
}

// Back from the C library into the program.
APART static int compares(const void *a, const void *b) {
    static bool once;
    if (!once) allocate(110);
    once = true;
    return *static_cast<const char *>(a) - *static_cast<const char *>(b);
}

APART static void sorts() {
    char letters[] = "ba";
    std::qsort(letters, 2, 1, compares);
}

APART static void handler(int) {
    allocate(111);
}

APART static void raises() {
    std::raise(SIGUSR1);
}

static inline __attribute__((always_inline)) void inlined() {
    allocate(112);
}

APART static void inlines() {
    inlined();
    allocate(113); // in the function around, which has not ended with it
}

int main() {
    duplicates();
    assigns(std::string(200, 'x').c_str());
    calls_silent();
    sorts();
    std::signal(SIGUSR1, handler);
    raises();
    inlines();
    middle();
    jump_and_go_on();
    allocate(106); // what was jumped out of is forgotten by now
    throw_and_go_on();
    return deep(100) == 100 ? 0 : 1;
}
