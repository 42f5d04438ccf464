// new_delete.cpp - all forms of operator new and delete: plain, array, nothrow, aligned, aligned
// nothrow; deletes plain, sized, aligned, sized aligned, nothrow. Blocks are aligned, unique,
// writable, and each form's memory is taken back by every form of delete that may be paired with
// it.
#include "support/check.h"
#include "support/fill.h"

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <malloc.h>

namespace {

const size_t sizes[] = {0, 1, 8, 16, 24, 100, 1024, 4000, 10000, 40000, 300000, 2000000};

void verify(void *block, size_t size, size_t alignment, const char *form) {
    CHECK_MSG(block != nullptr, "%s of %zu", form, size);
    if (block == nullptr) return;
    CHECK_MSG((uintptr_t)block % alignment == 0, "%s of %zu at %p", form, size, block);
    CHECK_MSG(malloc_usable_size(block) >= size, "%s of %zu", form, size);
    fill_block(block, size, size);
    CHECK_MSG(fill_holds(block, size, size), "%s of %zu", form, size);
}

void plain(size_t n) {
    void *p = check_opaque(::operator new(n));
    void *q = check_opaque(::operator new(n));
    verify(p, n, 16, "new");
    verify(q, n, 16, "new");
    CHECK(p != q);
    ::operator delete(p);
    ::operator delete(q, n);
    p = check_opaque(::operator new[](n));
    q = check_opaque(::operator new[](n));
    verify(p, n, 16, "new[]");
    verify(q, n, 16, "new[]");
    CHECK(p != q);
    ::operator delete[](p);
    ::operator delete[](q, n);
}

void nothrow(size_t n) {
    void *p = check_opaque(::operator new(n, std::nothrow));
    verify(p, n, 16, "new nothrow");
    ::operator delete(p, std::nothrow);
    p = check_opaque(::operator new[](n, std::nothrow));
    verify(p, n, 16, "new[] nothrow");
    ::operator delete[](p, std::nothrow);
    p = check_opaque(::operator new(n, std::nothrow));
    verify(p, n, 16, "new nothrow");
    ::operator delete(p, n);
}

void aligned(size_t n, size_t alignment) {
    const auto a = std::align_val_t(alignment);
    void *p = check_opaque(::operator new(n, a));
    verify(p, n, alignment, "aligned new");
    ::operator delete(p, a);
    p = check_opaque(::operator new(n, a));
    verify(p, n, alignment, "aligned new");
    ::operator delete(p, n, a);
    p = check_opaque(::operator new[](n, a));
    verify(p, n, alignment, "aligned new[]");
    ::operator delete[](p, a);
    p = check_opaque(::operator new[](n, a));
    verify(p, n, alignment, "aligned new[]");
    ::operator delete[](p, n, a);
    p = check_opaque(::operator new(n, a, std::nothrow));
    verify(p, n, alignment, "aligned new nothrow");
    ::operator delete(p, a, std::nothrow);
    p = check_opaque(::operator new[](n, a, std::nothrow));
    verify(p, n, alignment, "aligned new[] nothrow");
    ::operator delete[](p, a, std::nothrow);
}

struct alignas(64) Line {
    char bytes[100];
};
struct alignas(4096) Page {
    char bytes[5000];
};

// The language's own uses: over-aligned types, arrays with cookies, containers.
void language() {
    for (int i = 0; i < 100; i++) {
        auto *line = static_cast<Line *>(check_opaque(new Line));
        CHECK((uintptr_t)line % 64 == 0);
        delete line;
        auto *pages = static_cast<Page *>(check_opaque(new Page[3]));
        CHECK((uintptr_t)pages % 4096 == 0);
        delete[] pages;
        std::unique_ptr<std::string[]> strings(new std::string[50]);
        for (int s = 0; s < 50; s++)
            strings[static_cast<size_t>(s)] = std::string(static_cast<size_t>(s * 7), 'x');
        std::vector<std::vector<int>> nested;
        for (size_t v = 0; v < 50; v++)
            nested.emplace_back(v * 3, static_cast<int>(v));
        for (size_t v = 0; v < 50; v++) {
            CHECK(strings[v].size() == v * 7 && nested[v].size() == v * 3);
            if (v > 0) CHECK(nested[v].back() == static_cast<int>(v));
        }
    }
}

} // namespace

int main() {
    check_begin();
    for (size_t n : sizes)
        for (int round = 0; round < 50; round++) {
            plain(n);
            nothrow(n);
        }
    for (size_t n : sizes)
        for (size_t alignment = 16; alignment <= 65536; alignment *= 4)
            aligned(n, alignment);
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::align_val_t(64));
    ::operator delete(nullptr, static_cast<size_t>(8));
    language();
    return check_status();
}
