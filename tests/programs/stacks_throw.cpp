// stacks_throw.cpp - throws through frames that have allocated, catches at any depth, allocates in
// destructors, handlers and between nested exceptions. profile_stacks.sh and stacks_gdb.sh run it,
// built with and without frame pointers.
#include <alloca.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define APART __attribute__((noinline))

namespace {

std::uint64_t state = 1;

unsigned draw(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>((state >> 33) % below);
}

void allocate() {
    delete[] new volatile char[16 + draw(200)];
}

// Allocates when it goes, also while an exception is under way.
struct Talker {
    std::vector<int> kept;
    APART explicit Talker(unsigned n) : kept(n) {}
    APART ~Talker() {
        allocate();
    }
    Talker(const Talker &) = delete;
    Talker &operator=(const Talker &) = delete;
};

struct Failure : std::runtime_error {
    std::shared_ptr<int> detail{new int(7)};
    unsigned height;
    explicit Failure(unsigned h)
        : std::runtime_error("failure at height " + std::to_string(h)), height(h) {}
};

APART void visit(unsigned depth);

APART void plain(unsigned depth) {
    Talker talker(draw(50));
    visit(depth);
}

APART void with_alloca(unsigned depth) {
    volatile char *block = static_cast<volatile char *>(alloca(16 + draw(300)));
    block[0] = 1;
    Talker talker(3);
    visit(depth);
    block[1] = 1;
}

APART void variable(unsigned depth) {
    unsigned n = 1 + draw(40);
    volatile long array[n];
    array[n - 1] = 1;
    Talker talker(2);
    visit(depth);
    array[0] = 2;
}

APART void aligned(unsigned depth) {
    alignas(64) volatile char block[192];
    block[0] = 1;
    visit(depth);
    block[1] = 1;
}

APART void catches(unsigned depth) {
    try {
        Talker talker(draw(20));
        visit(depth);
    } catch (const Failure &failure) {
        std::string text = failure.what() + std::string(", caught at ") + std::to_string(depth);
        allocate();
        if (draw(3) == 0) throw;                // the same, on
        if (draw(3) == 0) throw Failure(depth); // another
        visit(depth / 2);                       // work inside a handler
    }
}

APART void rethrows_nested(unsigned depth) {
    try {
        visit(depth);
    } catch (...) {
        try {
            allocate();
            std::throw_with_nested(Failure(depth));
        } catch (const Failure &) {
            allocate();
        }
    }
}

void visit(unsigned depth) {
    static void (*const kinds[])(unsigned) = {plain,   with_alloca, variable,       aligned,
                                              catches, catches,     rethrows_nested};
    allocate();
    if (draw(9) == 0) throw Failure(depth);
    if (depth == 0) return;
    for (unsigned calls = 1 + draw(2); calls-- > 0;)
        kinds[draw(sizeof kinds / sizeof kinds[0])](depth - 1);
}

} // namespace

int main(int argc, char **argv) {
    long count = argc > 1 ? std::atol(argv[1]) : 1000, caught = 0;
    for (long i = 0; i < count; i++) {
        try {
            visit(3 + draw(10));
        } catch (const Failure &) {
            caught++;
        }
    }
    if (caught == 0) return 1;
    std::puts("done: throw");
}
