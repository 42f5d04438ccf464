// new_handler.cpp - what operator new does when there is no memory: the new_handler is called again
// and again until it helps, is removed or throws; then std::bad_alloc, or nullptr from nothrow.
#include "support/check.h"
#include "support/proc_mem.h"

#include <cstdlib>
#include <new>
#include <sys/resource.h>

namespace {

const size_t huge = static_cast<size_t>(PTRDIFF_MAX) - 4096;
int calls;
void *reserve;

void give_up_after_three() {
    if (++calls == 3) std::set_new_handler(nullptr);
}

struct Refused {
    int code;
};

void throw_own() {
    calls++;
    throw Refused{42};
}

void throw_bad_alloc() {
    calls++;
    throw std::bad_alloc();
}

void free_reserve() {
    calls++;
    std::free(reserve);
    reserve = nullptr;
    std::set_new_handler(nullptr);
}

template <class F> bool throws_bad_alloc(F f) {
    try {
        void *p = check_opaque(f());
        ::operator delete(p);
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

void without_handler() {
    std::set_new_handler(nullptr);
    const size_t n = check_opaque_size(huge);
    const auto a = std::align_val_t(64);
    CHECK(throws_bad_alloc([&] { return ::operator new(n); }));
    CHECK(throws_bad_alloc([&] { return ::operator new[](n); }));
    CHECK(throws_bad_alloc([&] { return ::operator new(n, a); }));
    CHECK(throws_bad_alloc([&] { return ::operator new[](n, a); }));
    CHECK(throws_bad_alloc([&] { return ::operator new(check_opaque_size(SIZE_MAX)); }));
    CHECK(throws_bad_alloc([&] { return static_cast<void *>(new long[n / 4]); }));
    CHECK(::operator new(n, std::nothrow) == nullptr);
    CHECK(::operator new[](n, std::nothrow) == nullptr);
    CHECK(::operator new(n, a, std::nothrow) == nullptr);
    CHECK(::operator new[](n, a, std::nothrow) == nullptr);
    CHECK(new (std::nothrow) char[n] == nullptr);
}

template <class F> void called_three_times(F f, bool throws) {
    calls = 0;
    std::set_new_handler(give_up_after_three);
    CHECK(throws_bad_alloc(f) == throws);
    CHECK_MSG(calls == 3, "calls %d", calls);
    CHECK(std::get_new_handler() == nullptr);
}

void handler_called() {
    const size_t n = check_opaque_size(huge);
    const auto a = std::align_val_t(4096);
    called_three_times([&] { return ::operator new(n); }, true);
    called_three_times([&] { return ::operator new[](n); }, true);
    called_three_times([&] { return ::operator new(n, a); }, true);
    called_three_times([&] { return ::operator new[](n, a); }, true);
    called_three_times([&] { return ::operator new(n, std::nothrow); }, false);
    called_three_times([&] { return ::operator new[](n, std::nothrow); }, false);
    called_three_times([&] { return ::operator new(n, a, std::nothrow); }, false);
    called_three_times([&] { return ::operator new[](n, a, std::nothrow); }, false);
}

void handler_throws() {
    const size_t n = check_opaque_size(huge);
    calls = 0;
    std::set_new_handler(throw_own);
    int code = 0;
    try {
        ::operator delete(::operator new(n));
    } catch (const Refused &refused) {
        code = refused.code;
    }
    CHECK(code == 42 && calls == 1);
    calls = 0;
    std::set_new_handler(throw_bad_alloc);
    CHECK(throws_bad_alloc([&] { return ::operator new(n); }) && calls == 1);
    calls = 0;
    // nothrow: an exception out of the handler becomes nullptr ([new.delete.single]).
    CHECK(::operator new(n, std::nothrow) == nullptr &&calls == 1);
    CHECK(::operator new[](n, std::nothrow) == nullptr &&calls == 2);
    std::set_new_handler(nullptr);
}

// malloc is not new: it never calls the handler.
void malloc_does_not_call() {
    calls = 0;
    std::set_new_handler(throw_own);
    CHECK(std::malloc(check_opaque_size(huge)) == nullptr && errno == ENOMEM);
    CHECK(calls == 0);
    std::set_new_handler(nullptr);
}

// A handler that frees memory: operator new then succeeds.
void handler_helps() {
    const size_t block = static_cast<size_t>(192) << 20;
    rlimit old_limit;
    REQUIRE(getrlimit(RLIMIT_AS, &old_limit) == 0);
    reserve = check_opaque(std::malloc(block));
    REQUIRE(reserve != nullptr);
    rlimit limit = old_limit;
    // Everything there is now, and little more: another such block fits only after the free.
    long kib = proc_status_kib("VmSize:");
    REQUIRE(kib > 0);
    limit.rlim_cur = static_cast<rlim_t>(kib) * 1024 + (static_cast<rlim_t>(64) << 20);
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    calls = 0;
    std::set_new_handler(free_reserve);
    bool thrown = throws_bad_alloc([&] { return ::operator new(block - 4096); });
    CHECK(setrlimit(RLIMIT_AS, &old_limit) == 0);
    std::set_new_handler(nullptr);
    // An allocator with address space in reserve need not call; one that calls must then succeed.
    CHECK_MSG(!thrown, "calls %d", calls);
    std::free(reserve);
    reserve = nullptr;
}

} // namespace

int main() {
    check_begin();
    without_handler();
    handler_called();
    handler_throws();
    malloc_does_not_call();
    handler_helps();
    return check_status();
}
