/* leak_cases_cxx.cpp - the same in C++. */
#include "leak_cases.h"

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

void *volatile kept[16];

struct Counted { /* its array has a count in front */
    long value[3] = {0, 0, 0};
    ~Counted() {
        value[0] = 1;
    }
};

struct First {
    virtual ~First() = default;
    long a[4] = {};
};
struct Second {
    virtual ~Second() = default;
    long b[4] = {};
};
struct Both : First, Second {
    long c[4] = {};
};

std::map<int, std::string> of_program;
std::vector<std::unique_ptr<Both>> owners;
thread_local std::vector<int> of_thread;

void containers() {
    for (int i = 0; i < 1000; i++)
        of_program[i] = std::string(static_cast<size_t>(i % 60), 'x');
    for (int i = 0; i < 100; i++)
        owners.push_back(std::make_unique<Both>());
}

void vector_lost() {
    auto *v = new std::vector<int>(1000);
    escape(v);
}

void map_lost() {
    auto *m = new std::map<int, int>;
    for (int i = 0; i < 10; i++)
        (*m)[i] = i;
    escape(m);
}

void list_lost() {
    auto *l = new std::list<int>(7, 1);
    escape(l);
}

void hash_kept() {
    auto *m = new std::unordered_map<std::string, std::vector<int>>;
    for (int i = 0; i < 500; i++)
        (*m)[std::to_string(i) + std::string(40, 'k')].resize(30);
    kept[0] = m;
}

void new_lost() {
    escape(new long(1));
    escape(new char[100]());
    escape(new Counted);
}

void array() {
    kept[0] = new Counted[10];
}

void array_lost() {
    escape(new Counted[10]);
}

void array_of_none() {
    kept[0] = new Counted[0];
}

void second_base() {
    kept[0] = static_cast<Second *>(new Both);
}

struct Ring {
    std::shared_ptr<Ring> next;
};

void shared_ring() {
    auto a = std::make_shared<Ring>(), b = std::make_shared<Ring>();
    a->next = b;
    b->next = a;
}

void aligned_new() {
    struct alignas(128) Wide {
        char bytes[256] = {};
    };
    kept[0] = new Wide;
    escape(new Wide);
}

void thread_object() {
    of_thread.assign(100, 1);
    std::thread t([] { of_thread.assign(200, 1); });
    t.join();
}

void thread_held() {
    /* As std::thread keeps it while it runs. */
    auto *function = new std::function<void()>([text = std::string(100, 'y')] { escape(&text); });
    kept[0] = function;
}

void in_exception() {
    try {
        throw std::runtime_error(std::string(200, 'e'));
    } catch (const std::runtime_error &e) {
        escape(&e);
        exit(0);
    }
}

void exceptions() {
    for (int i = 0; i < 100; i++) {
        try {
            throw std::runtime_error(std::string(200, 'e'));
        } catch (const std::runtime_error &e) {
            escape(&e);
        }
    }
}

void strings() {
    kept[0] = new std::string("short");
    kept[1] = new std::string(500, 'l');
    escape(new std::string(500, 'l'));
}

const leak_case_t cases[] = {
    {"containers", containers, 0, 0, 0, 0},
    {"vector_lost", vector_lost, 1, 24, 1, 4000},
    {"map_lost", map_lost, 0, 0, 11, 448},
    {"std_list_lost", list_lost, 0, 0, 8, 192},
    {"hash_kept", hash_kept, 0, 0, 0, 0},
    {"new_lost", new_lost, 3, 132, 0, 0},
    {"array", array, 0, 0, 0, 0},
    {"array_lost", array_lost, 1, 248, 0, 0},
    {"array_of_none", array_of_none, 0, 0, 0, 0},
    {"second_base", second_base, 0, 0, 0, 0},
    {"shared_ring", shared_ring, 0, 0, 2, 64},
    {"aligned_new", aligned_new, 1, 256, 0, 0},
    {"thread_object", thread_object, 0, 0, 0, 0},
    {"thread_held", thread_held, 0, 0, 0, 0},
    {"in_exception", in_exception, 0, 0, 0, 0},
    {"exceptions", exceptions, 0, 0, 0, 0},
    {"strings", strings, 1, 32, 1, 501},
};

} // namespace

int main(int argc, char **argv) {
    return run_case(cases, sizeof cases / sizeof cases[0], argc, argv);
}
