// replaced.cpp - every form of operator new and delete reaches the one below it that somebody has
// replaced ([new.delete.single], [new.delete.array]): in the program itself, in a library that
// comes behind the allocator, in one that a program in C opens, in a static program.
//
// REPLACED_ARRAYS: those for arrays are replaced, those for one object are the allocator's.
#include "replaced_operators.h"
#include "support/check.h"

#include <memory>
#include <string>
#include <vector>

namespace {

#ifdef REPLACED_ARRAYS
const bool one_is_theirs = false;
#else
const bool one_is_theirs = true;
#endif

int news, deletes;

void expect(const char *form, void *block, bool theirs) {
    CHECK_MSG(block != nullptr, "%s", form);
    news += theirs;
    CHECK_MSG(replaced_news == news, "%s: %d of %d calls of new came", form, replaced_news, news);
    news = replaced_news;
}

void expect_back(const char *form, bool theirs) {
    deletes += theirs;
    CHECK_MSG(replaced_deletes == deletes, "%s: %d of %d calls of delete came", form,
              replaced_deletes, deletes);
    deletes = replaced_deletes;
}

#define TRY(theirs, allocate, release)                                                             \
    do {                                                                                           \
        void *p = check_opaque(allocate);                                                          \
        expect(#allocate, p, theirs);                                                              \
        if (p != nullptr) memset(p, 1, n);                                                         \
        release;                                                                                   \
        expect_back(#release, theirs);                                                             \
    } while (0)

void plain(size_t n) {
    const auto &no = std::nothrow;
    TRY(one_is_theirs, ::operator new(n), ::operator delete(p));
    TRY(one_is_theirs, ::operator new(n), ::operator delete(p, n));
    TRY(one_is_theirs, ::operator new(n, no), ::operator delete(p, no));
    TRY(true, ::operator new[](n), ::operator delete[](p));
    TRY(true, ::operator new[](n), ::operator delete[](p, n));
    TRY(true, ::operator new[](n, no), ::operator delete[](p, no));
}

void aligned(size_t n, std::align_val_t a) {
    const auto &no = std::nothrow;
    TRY(one_is_theirs, ::operator new(n, a), ::operator delete(p, a));
    TRY(one_is_theirs, ::operator new(n, a), ::operator delete(p, n, a));
    TRY(one_is_theirs, ::operator new(n, a, no), ::operator delete(p, a, no));
    TRY(true, ::operator new[](n, a), ::operator delete[](p, a));
    TRY(true, ::operator new[](n, a), ::operator delete[](p, n, a));
    TRY(true, ::operator new[](n, a, no), ::operator delete[](p, a, no));
}

// What the replacement throws is caught by the forms that throw nothing, and by no other.
#ifndef REPLACED_STATIC
void refused() {
    const size_t huge = SIZE_MAX / 2;
    CHECK(check_opaque(::operator new(huge, std::nothrow)) == nullptr);
    CHECK(check_opaque(::operator new[](huge, std::nothrow)) == nullptr);
    CHECK(check_opaque(::operator new[](huge, std::align_val_t(64), std::nothrow)) == nullptr);
    bool thrown = false;
    try {
        check_opaque(::operator new[](huge));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
}
#else
void refused() {}
#endif

// The language's own uses, which mix what the compiler and the runtime call.
void language() {
    int before = replaced_news;
    {
        std::vector<std::string> strings;
        for (size_t i = 0; i < 200; i++)
            strings.emplace_back(i * 5, 'x');
        std::unique_ptr<std::string[]> array(new std::string[20]);
        auto shared = std::make_shared<std::vector<int>>(1000, 7);
        CHECK(strings[199].size() == 995 && (*shared)[999] == 7);
    }
    CHECK(replaced_news > before);
    CHECK_MSG(replaced_news == replaced_deletes, "%d given, %d taken back", replaced_news,
              replaced_deletes);
}

} // namespace

#ifdef REPLACED_OPENED
extern "C" REPLACED_VISIBLE int replaced_test();
int replaced_test() {
#else
int main() {
#endif
    check_begin();
    news = replaced_news;
    deletes = replaced_deletes;
    static const size_t sizes[] = {1, 8, 100, 5000, 32768, 32769, 300000, 3000000};
    for (int round = 0; round < 20; round++)
        for (size_t n : sizes) {
            plain(n);
            for (size_t a = 16; a <= 8192; a *= 4)
                aligned(n, std::align_val_t(a));
        }
    refused();
    language();
    ::operator delete(nullptr);
    ::operator delete[](nullptr, static_cast<size_t>(8));
    return check_status();
}
