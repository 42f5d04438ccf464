// profile_instrument.cpp - a program with known call stacks, compiled with -finstrument-functions.
// Each function that allocates does so with a size of its own.
#include <csetjmp>
#include <cstdlib>
#include <stdexcept>

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

int main() {
    middle();
    jump_and_go_on();
    allocate(106); // what was jumped out of is forgotten by now
    throw_and_go_on();
    return deep(100) == 100 ? 0 : 1;
}
