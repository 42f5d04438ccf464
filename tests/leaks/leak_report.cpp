/* leak_report.cpp - what leaks_report.sh finds reported: a list that is lost as a whole, with what
 * its nodes hold; a ring of two; argument: a library that loses a block, and is closed then. */
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace app {
struct Node {
    Node *next;
    std::string name;
    int *data;
};

template <class T> __attribute__((noinline)) T *make(int n) {
    return new T[n];
}

struct Registry {
    static inline std::string named(int i) {
        return std::string(100 + i, 'x');
    }
    static __attribute__((noinline)) Node *add(Node *list, int i) {
        return new Node{list, named(i), make<int>(10)};
    }
};

__attribute__((noinline)) void build() {
    Node *list = nullptr;
    for (int i = 0; i < 4; i++)
        list = Registry::add(list, i);
    __asm__ volatile("" : : "r"(list) : "memory");
}

struct Ring {
    Ring *other;
    char text[64];
};

__attribute__((noinline)) void ring() {
    Ring *a = new Ring, *b = new Ring;
    a->other = b;
    b->other = a;
    __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
}
} // namespace app

/* No old words are left on the stack. */
static __attribute__((noinline)) void sweep() {
    volatile char words[16384];
    memset(const_cast<char *>(words), 0, sizeof words);
    __asm__ volatile("" : : "r"(words) : "memory");
}

int main(int argc, char **argv) {
    app::build();
    app::ring();
    sweep();
    if (argc < 2) return 0;
    void *library = dlopen(argv[1], RTLD_NOW);
    if (library == nullptr) return 2;
    auto lose = reinterpret_cast<void (*)()>(dlsym(library, "lose_in_library"));
    lose();
    sweep();
    return dlclose(library);
}
