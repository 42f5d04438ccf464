// thread_local.cpp - objects of storage class thread_local that allocate in their constructors and
// destructors, in many short threads and in the main thread, whose destructors run at exit.
#include "support/check.h"
#include "support/proc_mem.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> alive{0};

struct Holder {
    std::vector<std::string> strings;
    std::map<int, std::unique_ptr<int>> numbers;
    Holder() {
        alive++;
        for (int i = 0; i < 100; i++) {
            strings.emplace_back(static_cast<size_t>(i + 1), 'a');
            numbers[i] = std::make_unique<int>(i);
        }
    }
    ~Holder() {
        for (size_t i = 0; i < strings.size(); i++)
            CHECK(strings[i].size() == i + 1 &&
                  *numbers.at(static_cast<int>(i)) == static_cast<int>(i));
        std::vector<std::string> late(strings.rbegin(), strings.rend());
        CHECK(late.front().size() == 100);
        alive--;
    }
};

thread_local Holder holder;

struct AtExit {
    ~AtExit() {
        std::string text(10000, 'z');
        CHECK(text.back() == 'z' && alive == 0);
        if (check_status() != 0) _exit(1);
    }
} at_exit;

} // namespace

int main() {
    check_begin();
    holder.strings[0][0] = 'b';
    long start = 0;
    for (int i = 0; i < 1000; i++) {
        std::thread([] { holder.numbers[200] = std::make_unique<int>(3); }).join();
        if (i == 100) start = proc_rss_kib();
    }
    CHECK_MSG(alive == 1, "%d holders are alive", alive.load());
    long grown = proc_rss_kib() - start;
    CHECK_MSG(grown < 16 * 1024, "resident memory grew by %ld KiB", grown);
    return check_status();
}
